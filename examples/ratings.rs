//! Predicts ratings that nobody gave, from a sparse table of those that were given; five tensors are unknown at once.
//!
//! The ratings come of two tastes, inclinations and noise. Some are held back, to see how well they are predicted.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::ndarray::Array2;
use iverson::prelude::*;
use iverson::sprs::TriMat;

use fit::{fit, normal};

const LOSS: &str = include_str!("programs/ratings.iv");
const SIZES: (usize, usize, usize) = (60, 40, 2);

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The mean squares of the ratings held back: about 3, and about what is predicted.
    pub squares: (f64, f64),
}

/// Fits the ratings that were given, and predicts the others.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let (users, films, tastes) = SIZES;
    let random = &mut fastrand::Rng::with_seed(1);
    let mut matrix = |m, n, size: f64| Array2::from_shape_simple_fn((m, n), || size * normal(random));
    let truth =
        matrix(users, tastes, 0.7).dot(&matrix(tastes, films, 0.7)) + matrix(users, 1, 0.5) + matrix(1, films, 0.5);
    let ratings = truth + 3.0 + matrix(users, films, 0.1);
    let (start_of_users, start_of_films) = (matrix(users, tastes, 0.1), matrix(films, tastes, 0.1));
    let (mut given, mut held) = (TriMat::new((users, films)), TriMat::new((users, films)));
    for ((user, film), rating) in ratings.indexed_iter() {
        match random.usize(0..10) {
            0..4 => given.add_triplet(user, film, *rating),
            4 => held.add_triplet(user, film, *rating),
            _ => {}
        }
    }

    let loss = Function::parse(LOSS)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by V:\n\n{}", loss.gradient(["V"])?)?;
    let mut inputs = inputs! { "R" => given.to_csr::<usize>(), "mean" => 3, "ridge" => 0.05, "U" => start_of_users, "V" => start_of_films };
    inputs.value("u", vec![0.0; users]).value("f", vec![0.0; films]);
    let objective = loss.objective(&inputs, ["mean", "u", "f", "U", "V"])?;
    let fit = fit("ratings", objective, (400, 1e-6, 20), out)?;

    // The loss of the ratings held back, without the ridge, is the sum of the squares of what is wrongly predicted.
    let squares = |mut inputs: Inputs| -> iverson::Result<f64> {
        inputs.value("R", held.to_csr::<usize>()).value("ridge", 0);
        Ok(loss.eval(&inputs)?["value"].as_scalar().unwrap_or(f64::NAN) / held.nnz() as f64)
    };
    let squares = (squares(inputs.clone())?, squares(fit.objective.at(&fit.point)?)?);
    writeln!(
        out,
        "\nfrom {} ratings: {} others are {:.2} from 3 and {:.2} from what is predicted",
        given.nnz(),
        held.nnz(),
        squares.0.sqrt(),
        squares.1.sqrt()
    )?;
    Ok(Summary { losses: fit.losses, squares })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

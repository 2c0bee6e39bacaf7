//! Runs the heat equation backwards: finds the picture that becomes a given one when its heat spreads, and has few edges.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::ndarray::{Array2, Axis, concatenate};
use iverson::prelude::*;
use iverson::tensor::io::read_value;

use fit::{fit, normal, write_picture};

const HEAT: &str = include_str!("programs/heat.iv");
const LOSS: &str = include_str!("programs/heat_loss.iv");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits.mtx");
const PICTURE: &str = "target/heat.pgm";
/// The rows and columns of digits, how long a side of one is in the picture, and how long with the margin between two.
const DIGITS: (usize, usize) = (2, 6);
const SIZE: usize = 16;
const CELL: usize = 18;
const STEPS: i64 = 8;

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The mean square of what is wrong in the picture of later, and in the one that was found.
    pub errors: (f64, f64),
}

/// Spreads the heat of a picture of digits, and finds it again.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let random = &mut fastrand::Rng::with_seed(1);
    let table = read_value(DATA)?.into_csr("digits")?;
    let pixel = |i: usize, j: usize| {
        let (row, column) = (i % CELL * 8 / SIZE, j % CELL * 8 / SIZE);
        let shade = table.get(i / CELL * DIGITS.1 + j / CELL, 8 * row + column);
        if row.max(column) < 8 { shade.unwrap_or(0.0) / 16.0 } else { 0.0 }
    };
    let (h, w) = (DIGITS.0 * CELL, DIGITS.1 * CELL);
    let picture = Array2::from_shape_fn((h, w), |(i, j)| pixel(i, j));

    let heat = Function::parse(HEAT)?;
    let mut inputs = inputs! { "u" => &picture, "c" => 0.2 };
    let given = heat.eval(inputs.size("steps", STEPS))?;
    let given = Array2::from_shape_vec((h, w), given["value"].as_slice().ok_or("a picture")?.to_vec())?;
    let given = given.mapv(|shade| shade + 1e-3 * normal(random));

    let loss = Function::parse(LOSS)?.substitute("end", &heat)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by u:\n\n{}", loss.gradient(["u"])?)?;
    inputs.value("u", &given).value("given", &given).value("smooth", 5e-6).value("corner", 1e-2);
    let fit = fit("heat", loss.objective(&inputs, ["u"])?, (2000, 1e-4, 50), out)?;

    let found = Array2::from_shape_vec((h, w), fit.point)?;
    let error = |found: &Array2<f64>| (found - &picture).mapv(|e| e * e).mean().unwrap_or(f64::NAN);
    let errors = (error(&given), error(&found));
    writeln!(out, "\nA pixel is {:.3} wrong before and {:.3} after.", errors.0.sqrt(), errors.1.sqrt())?;
    writeln!(out, "{PICTURE} shows the truth, what heat made of it, and what was found.")?;
    let all = concatenate(Axis(0), &[picture.view(), given.view(), found.view()])?;
    write_picture(PICTURE, &all)?;
    Ok(Summary { losses: fit.losses, errors })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

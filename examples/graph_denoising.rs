//! Takes the noise out of a signal on a graph: points in a square, each joined to those nearby, on which the signal has a few levels.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::prelude::*;

use fit::{fit, normal};

const LOSS: &str = include_str!("programs/graph_denoising.iv");
const NODES: usize = 300;

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The mean squares of what is wrong before and after.
    pub errors: (f64, f64),
}

/// Draws a graph and a signal, and fits a signal with few steps.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let random = &mut fastrand::Rng::with_seed(1);
    let places: Vec<[f64; 2]> = (0..NODES).map(|_| [random.f64(), random.f64()]).collect();
    let level = |[x, y]: &[f64; 2]| {
        if (x - 0.4).hypot(y - 0.4) < 0.3 {
            2.0
        } else if x + y > 1.4 {
            -1.0
        } else {
            0.0
        }
    };
    let truth: Vec<f64> = places.iter().map(level).collect();
    let noisy: Vec<f64> = truth.iter().map(|level| level + 0.4 * normal(random)).collect();
    let near = |a: usize, b: usize| (places[a][0] - places[b][0]).hypot(places[a][1] - places[b][1]) < 0.1;
    let pairs = (0..NODES).flat_map(|a| (0..a).map(move |b| (a, b)));
    let (heads, tails): (Vec<usize>, Vec<usize>) = pairs.filter(|(a, b)| near(*a, *b)).unzip();
    let edges = heads.len();

    let loss = Function::parse(LOSS)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by x:\n\n{}", loss.gradient(["x"])?)?;
    let mut inputs = inputs! { "x" => &noisy, "y" => &noisy, "smooth" => 0.075, "corner" => 0.01 };
    inputs.map("tail", &[edges], tails).map("head", &[edges], heads);
    let fit = fit("graph_denoising", loss.objective(&inputs, ["x"])?, (400, 1e-5, 20), out)?;

    let error = |signal: &[f64]| signal.iter().zip(&truth).map(|(x, t)| (x - t).powi(2)).sum::<f64>() / NODES as f64;
    let errors = (error(&noisy), error(&fit.point));
    writeln!(
        out,
        "\n{NODES} nodes, {edges} edges: a node is {:.2} wrong before and {:.2} after",
        errors.0.sqrt(),
        errors.1.sqrt()
    )?;
    Ok(Summary { losses: fit.losses, errors })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

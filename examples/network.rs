//! Teaches a small network with a softmax to tell three arms of a spiral apart.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::ndarray::Array2;
use iverson::prelude::*;

use fit::{fit, normal};

const LOSS: &str = include_str!("programs/network.iv");
/// What the network says of each point: the cross entropy has the scores within.
const SCORES: &str =
    "param x : [n, d] real\nparam W : [d, h] real\nparam b : [h] real\nparam V : [h, k] real\nparam c : [k] real
softmax(tanh(x @ W + b) @ V + c)";
const POINTS: usize = 240;
const HIDDEN: usize = 12;

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The part of the points that is told rightly.
    pub accuracy: f64,
}

/// Draws the spiral, fits the network, and asks it.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let random = &mut fastrand::Rng::with_seed(1);
    let labels: Vec<usize> = (0..POINTS).map(|i| i % 3).collect();
    let spiral = |i: usize| {
        let radius = 0.2 + 0.8 * i as f64 / POINTS as f64;
        let angle = std::f64::consts::TAU * labels[i] as f64 / 3.0 + 3.0 * radius + 0.1 * normal(random);
        [2.0 * radius * angle.cos(), 2.0 * radius * angle.sin()]
    };
    let x = Array2::from_shape_vec((POINTS, 2), (0..POINTS).flat_map(spiral).collect())?;
    let mut weights = |m, n| Array2::from_shape_simple_fn((m, n), || normal(random));
    let mut inputs = inputs! { "x" => x, "W" => weights(2, HIDDEN), "V" => weights(HIDDEN, 3), "ridge" => 1e-4 };
    inputs.value("b", vec![0.0; HIDDEN]).value("c", [0.0; 3]).map("label", &[POINTS], labels.clone());

    let loss = Function::parse(LOSS)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by b and V:\n\n{}", loss.gradient(["b", "V"])?)?;
    let objective = loss.objective(&inputs, ["W", "b", "V", "c"])?;
    let fit = fit("network", objective, (1000, 1e-4, 50), out)?;

    let scores = Function::parse(SCORES)?.eval(&fit.objective.at(&fit.point)?)?;
    let told = scores["value"].as_slice().ok_or("scores are numbers")?.chunks_exact(3);
    let right = told.zip(&labels).filter(|(told, label)| told.iter().all(|score| *score <= told[**label])).count();
    writeln!(out, "\n{right} of {POINTS} points are told rightly")?;
    Ok(Summary { losses: fit.losses, accuracy: right as f64 / POINTS as f64 })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

//! Fits a curve to points: a table that is looked up in Rust, outside of the program, which keeps it smooth by a penalty. The gradient goes through both.

use std::error::Error;
use std::io::Write;

use iverson::builder::{Argument, UserFunction};
use iverson::prelude::*;

const LOSS: &str = "param height : [k] real\nparam at : [n] real\nparam y : [n] real\nassume k >= 3
let error = table(height, at) - y
let bend = gen i < k - 2. height[i] - 2 * height[i + 1] + height[i + 2]
(mean i < n. error[i]^2) + 0.1 * sum(bend^2)";

/// The place in the table before a number from 0 to 1, and how far it is to the next one.
fn place(at: f64, heights: usize) -> (usize, f64) {
    let scaled = at.clamp(0.0, 1.0) * (heights - 1) as f64;
    let before = (scaled as usize).min(heights - 2);
    (before, scaled - before as f64)
}

fn look_up(given: &[Argument<'_>], found: &mut [&mut [f64]]) {
    for (y, at) in found[0].iter_mut().zip(given[1].iter()) {
        let (k, part) = place(*at, given[0].len());
        *y = (1.0 - part) * given[0][k] + part * given[0][k + 1];
    }
}

/// What is owed to the heights, and to the places that are looked up.
fn owed(given: &[Argument<'_>], owed: &mut [&mut [f64]]) {
    let [height, at, _, dy] = given else { return };
    for (i, (at, dy)) in at.iter().zip(dy.iter()).enumerate() {
        let (k, part) = place(*at, height.len());
        owed[0][k] += (1.0 - part) * dy;
        owed[0][k + 1] += part * dy;
        owed[1][i] = (height[k + 1] - height[k]) * (height.len() - 1) as f64 * dy;
    }
}

/// Descends along the gradient; gives the first loss and the last one.
pub fn run(out: &mut dyn Write) -> Result<(f64, f64), Box<dyn Error>> {
    let table = UserFunction::external("table(height : [k] real, at : [n] real) : [n] real", look_up)?;
    let loss =
        Function::parse_with(LOSS, &[table.with_adjoint(owed)?], &mut |_, path| Err(format!("there is no {path}")))?;
    let gradient = loss.value_and_gradient(["height"])?;
    let at: Vec<f64> = (0..200).map(|i| f64::from(i) / 199.0).collect();
    let y: Vec<f64> = at.iter().map(|x| (6.0 * x).sin() + 0.1 * (97.0 * x).cos()).collect();
    let mut height = vec![0.0; 12];
    let kernel = gradient
        .kernel(&inputs! { "height" => height.clone(), "at" => at, "y" => y })
        .constants(["at", "y"])
        .build()?;
    let mut losses = [0.0; 400];
    for value in &mut losses {
        let mut slope = [0.0; 12];
        kernel.call_into(&height, (value, &mut slope))?;
        height.iter_mut().zip(slope).for_each(|(height, slope)| *height -= 0.5 * slope);
    }
    writeln!(out, "the loss fell from {:.4} to {:.4}", losses[0], losses[399])?;
    Ok((losses[0], losses[399]))
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock()).map(|_| ())
}

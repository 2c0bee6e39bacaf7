//! Fits the height, the length and the noise of a Gaussian process to measurements, by their likelihood.
//!
//! The logarithm of a determinant has no expression in the language. The covariance matrix `K` is a program; a few lines of Rust invert it, and the
//! derived adjoint of that program takes the derivative of the loss `(ln det K + y' inv(K) y) / 2`, for each measurement, by `K` as its seed.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::ndarray::{Array1, Array2};
use iverson::prelude::*;

use fit::{Loss, fit, normal};

const COVARIANCE: &str = include_str!("programs/gaussian_process.iv");
const UNKNOWNS: [&str; 3] = ["height", "length", "noise"];
const POINTS: usize = 60;

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// Height, length and noise.
    pub found: Vec<f64>,
}

/// Replaces a positive definite matrix by its inverse, which needs no pivots; the logarithm of its determinant.
fn invert(k: &mut Array2<f64>) -> f64 {
    let mut log_determinant = 0.0;
    for i in 0..POINTS {
        let pivot = std::mem::replace(&mut k[(i, i)], 1.0);
        log_determinant += pivot.ln();
        let row = k.row(i).mapv(|x| x / pivot);
        for (j, mut other) in k.rows_mut().into_iter().enumerate() {
            let factor = if i == j { 0.0 } else { std::mem::take(&mut other[i]) };
            other.scaled_add(-factor, &row);
        }
        k.row_mut(i).assign(&row);
    }
    log_determinant
}

/// Measures a function with noise and fits a process to it.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let random = &mut fastrand::Rng::with_seed(1);
    let x: Vec<f64> = (0..POINTS).map(|i| 10.0 * i as f64 / POINTS as f64).collect();
    let y: Array1<f64> = x.iter().map(|x| 2.0 * x.sin() + (0.4 * x).cos() + 0.2 * normal(random)).collect();
    let covariance = Function::parse(COVARIANCE)?;
    let adjoint = covariance.adjoint(UNKNOWNS)?;
    writeln!(out, "The covariance:\n\n{covariance}\nIts adjoint:\n\n{adjoint}")?;
    let mut inputs = inputs! { "x" => x, "height" => 0, "length" => 0, "noise" => 0 };
    let covariance = covariance.kernel(&inputs).constants(["x"]).build()?;
    let adjoint = adjoint.kernel(inputs.value("dy", Dense::zeros(&[POINTS, POINTS])?)).constants(["x"]).build()?;
    let scale = 2.0 * POINTS as f64;
    let evaluate = |point: &[f64], gradient: &mut [f64]| {
        let mut inverse = Array2::zeros((POINTS, POINTS));
        covariance.call_into((&point[..1], &point[1..2], &point[2..]), inverse.as_slice_mut().unwrap_or_default())?;
        let log_determinant = invert(&mut inverse);
        let weights = inverse.dot(&y);
        let seed =
            Array2::from_shape_fn((POINTS, POINTS), |(i, j)| (inverse[(i, j)] - weights[i] * weights[j]) / scale);
        let [height, length, noise] = gradient else { return Ok(f64::NAN) };
        adjoint.call_into((&point[..1], &point[1..2], &point[2..], seed.view()), (height, length, noise))?;
        Ok((log_determinant + y.dot(&weights)) / scale)
    };
    let fit = fit("gaussian_process", Loss { start: vec![0.0; 3], evaluate }, (100, 1e-6, 5), out)?;

    let found: Vec<f64> = fit.point.iter().map(|logarithm| logarithm.exp()).collect();
    writeln!(out, "\nheight, length and noise: {found:.3?}")?;
    Ok(Summary { losses: fit.losses, found })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

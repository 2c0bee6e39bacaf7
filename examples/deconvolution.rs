//! Recovers the kernel that blurred a row of a picture, by L-BFGS on the derived gradient.
//!
//! The loss is quadratic, and neighbouring pixels are alike, so its Hessian has condition number 10^4: plain gradient descent would
//! crawl.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::prelude::*;
use iverson::tensor::io::read_value;

use fit::fit;

const PROGRAM: &str = include_str!("programs/deconvolution.iv");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data");

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The largest error of a recovered weight.
    pub max_error: f64,
}

/// Derives, prints and fits.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let loss = Function::parse(PROGRAM)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by w:\n\n{}", loss.gradient(["w"])?)?;

    let data = |file: &str| read_value(format!("{DATA}/{file}"))?.into_dense(file);
    let (signal, blurred, truth) = (data("camera_row.npy")?, data("camera_row_blurred.npy")?, data("blur_kernel.csv")?);
    let inputs = inputs! { "x" => signal, "z" => blurred, "w" => vec![0.0; truth.data().len()] };
    let fit = fit("deconvolution", loss.objective(&inputs, ["w"])?, (200, 1e-9, 20), out)?;

    writeln!(out, "\n   recovered         true")?;
    let mut max_error: f64 = 0.0;
    for (found, truth) in fit.point.iter().zip(truth.data()) {
        writeln!(out, "{found:12.9} {truth:12.9}")?;
        max_error = max_error.max((found - truth).abs());
    }
    writeln!(out, "largest error: {max_error:.0e}")?;
    Ok(Summary { losses: fit.losses, max_error })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

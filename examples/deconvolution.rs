//! Recovers the kernel that blurred a row of a picture, by gradient descent on the derived gradient.
//!
//! The loss is quadratic, and neighbouring pixels are alike, so its Hessian has condition number 10^4: plain gradient descent would
//! crawl. The steps of Barzilai and Borwein need no more than the gradient.

mod descent;

use std::error::Error;
use std::io::Write;

use iverson::Function;
use iverson::tensor::Inputs;
use iverson::tensor::io::read_value;

use descent::Descent;

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
    let mut inputs = Inputs::new();
    inputs.value("x", signal).value("z", blurred);

    let function = loss.value_and_gradient(["w"])?;
    let mut descent = Descent::new(&function, inputs, "w", vec![0.0; truth.data().len()])?;
    let mut losses = vec![descent.value];
    writeln!(out, "iteration       loss   gradient")?;
    while descent.slope() > 1e-9 && losses.len() <= 500 {
        if (losses.len() - 1) % 20 == 0 {
            writeln!(out, "{:9} {:10.2e} {:10.2e}", losses.len() - 1, descent.value, descent.slope())?;
        }
        descent.go()?;
        losses.push(descent.value);
    }
    writeln!(out, "{:9} {:10.2e} {:10.2e}", losses.len() - 1, descent.value, descent.slope())?;

    writeln!(out, "\n   recovered         true")?;
    let mut max_error: f64 = 0.0;
    for (found, truth) in descent.at.iter().zip(truth.data()) {
        writeln!(out, "{found:12.9} {truth:12.9}")?;
        max_error = max_error.max((found - truth).abs());
    }
    writeln!(out, "largest error: {max_error:.0e}")?;
    Ok(Summary { losses, max_error })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

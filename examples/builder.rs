//! A program made in Rust, with a scalar function of the user's, differentiated twice.
//!
//! The energy of a chain is `sum i < n - 1. bend(x[i + 1] - x[i])`, where `bend(a) = sqrt(1 + a^2) - 1` is Rust code and its derivative
//! `a / (bend(a) + 1)` a formula. The product of the Hessian with a vector is the forward derivative of the gradient.

use std::error::Error;
use std::io::Write;

use iverson::builder::{Builder, Formula, UserFunction, sum};
use iverson::prelude::*;

/// What was computed.
pub struct Summary {
    /// The product of the Hessian with the direction.
    pub product: Vec<f64>,
    /// The same, by differences of the gradient.
    pub differences: Vec<f64>,
}

/// Builds, derives, prints and evaluates.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let slope = Formula::Arg(0) / (Formula::Result + Formula::Number(1.0));
    let bend = UserFunction::native("bend", 1, |a| (1.0 + a[0] * a[0]).sqrt() - 1.0, vec![slope])?;

    let b = Builder::new();
    let n = b.size("n");
    let x = b.param("x", [n]);
    let program = b.finish(sum(n - 1, |i| b.call("bend", [x[i + 1] - x[i]])))?;

    let energy = Function::build_with(&program, &[bend])?;
    let gradient = energy.gradient(["x"])?;
    let hessian = gradient.forward(["x"])?;
    writeln!(out, "The energy:\n\n{energy}\nIts gradient:\n\n{gradient}\nIts Hessian times dx:\n\n{hessian}")?;

    let (point, direction) = ([0.0, 0.5, 0.25, 2.0, 1.0], [1.0, 0.0, -1.0, 0.5, 2.0]);
    let product = vector(&hessian, &inputs! { "x" => point, "dx" => direction })?;
    let moved = |h: f64| -> Vec<f64> { point.iter().zip(direction).map(|(x, dx)| x + h * dx).collect() };
    let h = 1e-5;
    let (ahead, behind) =
        (vector(&gradient, &inputs! { "x" => moved(h) })?, vector(&gradient, &inputs! { "x" => moved(-h) })?);
    let differences: Vec<f64> = ahead.iter().zip(&behind).map(|(a, b)| (a - b) / (2.0 * h)).collect();

    writeln!(out, "     product  differences")?;
    for (product, difference) in product.iter().zip(&differences) {
        writeln!(out, "{product:12.8} {difference:12.8}")?;
    }
    Ok(Summary { product, differences })
}

/// The one result of a program, a vector.
fn vector(function: &Function, inputs: &Inputs) -> Result<Vec<f64>, Box<dyn Error>> {
    Ok(function.eval(inputs)?[0].1.as_slice().ok_or("a vector is expected")?.to_vec())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

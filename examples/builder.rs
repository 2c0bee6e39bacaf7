//! A program made in Rust, with a scalar function of the user's, differentiated twice.
//!
//! The energy of a chain is `sum i < n - 1. bend(x[i + 1] - x[i])`, where `bend(a) = sqrt(1 + a^2) - 1` is Rust code and its derivative
//! `a / (bend(a) + 1)` a formula. The product of the Hessian with a vector is the forward derivative of the gradient.

use std::error::Error;
use std::io::Write;

use iverson::scalar::{Expr, UserFunction};
use iverson::stages::Stages;
use iverson::surface::builder::{Builder, sum};
use iverson::tensor::{Inputs, Value};
use iverson::{Error as ProgramError, Function, reference, surface};

/// What was computed.
pub struct Summary {
    /// The product of the Hessian with the direction.
    pub product: Vec<f64>,
    /// The same, by differences of the gradient.
    pub differences: Vec<f64>,
}

/// Builds, derives, prints and evaluates.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let slope = Expr::Arg(0) / (Expr::Result + Expr::Number(1.0));
    let bend = UserFunction::native("bend", 1, |a| (1.0 + a[0] * a[0]).sqrt() - 1.0, vec![slope])?;

    let b = Builder::new();
    let n = b.size("n");
    let x = b.param("x", [n]);
    let ast = b.finish(sum(n - 1, |i| b.call("bend", [x.at([i + 1]) - x.at([i])])))?;
    let program = surface::elaborate(&ast, &[bend]).map_err(ProgramError::Program)?;

    let energy = Function::compile(program, &mut Stages::new())?;
    let gradient = energy.gradient(["x"])?;
    let hessian = gradient.forward(["x"])?;
    writeln!(out, "The energy:\n\n{energy}\nIts gradient:\n\n{gradient}\nIts Hessian times dx:\n\n{hessian}")?;

    let (point, direction) = ([0.0, 0.5, 0.25, 2.0, 1.0], [1.0, 0.0, -1.0, 0.5, 2.0]);
    let product = vector(&hessian, &[("x", &point), ("dx", &direction)])?;
    let moved = |h: f64| -> Vec<f64> { point.iter().zip(direction).map(|(x, dx)| x + h * dx).collect() };
    let h = 1e-5;
    let (ahead, behind) = (vector(&gradient, &[("x", &moved(h))])?, vector(&gradient, &[("x", &moved(-h))])?);
    let differences: Vec<f64> = ahead.iter().zip(&behind).map(|(a, b)| (a - b) / (2.0 * h)).collect();

    writeln!(out, "     product  differences")?;
    for (product, difference) in product.iter().zip(&differences) {
        writeln!(out, "{product:12.8} {difference:12.8}")?;
    }
    Ok(Summary { product, differences })
}

/// The one result of a program, a vector.
fn vector(function: &Function, values: &[(&str, &[f64])]) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut inputs = Inputs::new();
    for (name, value) in values {
        inputs.value(*name, Value::vector(value.to_vec()));
    }
    let results = reference::evaluate(function.tensor_ssa(), &inputs)?;
    Ok(results[0].1.as_tensor().ok_or("a vector is expected")?.data().to_vec())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

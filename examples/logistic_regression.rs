//! Tells benign from malignant tumours by logistic regression on 30 measurements.
//!
//! Standardising the columns is a program too. All 569 tumours are used to fit, so the accuracy is that on known data.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::prelude::*;
use iverson::tensor::io::read_value;

use fit::fit;

const STANDARDISE: &str = include_str!("programs/standardise.iv");
const LOSS: &str = include_str!("programs/logistic_regression.iv");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/breast_cancer.csv");

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The part of the tumours that is told rightly.
    pub accuracy: f64,
}

/// Derives, prints and fits.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let mut inputs = Inputs::new();
    inputs.value("table", read_value(DATA)?.into_dense("table")?);
    let standardised = Function::parse(STANDARDISE)?.eval(&inputs)?;
    let [table, labels] = standardised["value"].leaves() else {
        return Err("a table and its labels are expected".into());
    };
    let (n, d) = (table.shape()[0], table.shape()[1]);

    let loss = Function::parse(LOSS)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by w:\n\n{}", loss.gradient(["w"])?)?;
    let mut inputs = inputs! { "ridge" => 1e-3, "w" => vec![0.0; d + 1] };
    inputs.value("X", Value::new(vec![table.clone()])).value("y", Value::new(vec![labels.clone()]));
    let fit = fit("logistic_regression", loss.objective(&inputs, ["w"])?, (200, 1e-6, 5), out)?;

    let (weights, intercept) = fit.point.split_at(d);
    let margin = |row: &[f64]| intercept[0] + row.iter().zip(weights).map(|(x, w)| x * w).sum::<f64>();
    let rows = table.data().chunks_exact(d).zip(labels.data());
    let right = rows.filter(|(row, label)| margin(row) * **label > 0.0).count();
    let accuracy = right as f64 / n as f64;
    writeln!(out, "\n{right} of {n} tumours are told rightly: {:.1} %", 100.0 * accuracy)?;
    Ok(Summary { losses: fit.losses, accuracy })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

//! Tells the digit three from the others, on a sparse table: half of the pixels of the images are blank and not stored.
//!
//! The gradient by the table itself, which tells how each pixel moves the loss, is a sparse table with the same places.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::prelude::*;
use iverson::tensor::io::read_value;

use fit::fit;

const LOSS: &str = include_str!("programs/sparse_logistic_regression.iv");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data");

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// Whether the gradient by the table has the places of the table.
    pub same_pattern: bool,
    /// The places that the table, and its gradient, stores.
    pub stored: usize,
}

/// Derives, prints and fits.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let loss = Function::parse(LOSS)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by w and X:\n\n{}", loss.gradient(["w", "X"])?)?;

    let table = read_value(format!("{DATA}/digits.mtx"))?.into_csr("X")?;
    let labels = read_value(format!("{DATA}/digits_is_three.csv"))?.into_dense("y")?;
    let inputs = inputs! { "X" => table.clone(), "y" => labels, "w" => vec![0.0; table.cols()] };
    let fit = fit("sparse_logistic_regression", loss.objective(&inputs, ["w"])?, (50, 1e-6, 10), out)?;

    let by_table = loss.gradient(["X"])?.eval(&fit.objective.at(&fit.point)?)?;
    let gradient = by_table["grad_X"].as_csr().ok_or("a CSR gradient is expected")?;
    let same_pattern = gradient.pattern() == table.pattern();
    let stored = gradient.data().len();
    let places = gradient.rows() * gradient.cols();
    writeln!(out, "\nThe gradient by X is a CSR matrix that stores {stored} of {places} places.")?;
    writeln!(out, "It has the pattern of X: {same_pattern}.")?;

    let size = |entry: &usize| gradient.data()[*entry].abs();
    let largest = (0..stored).max_by(|a, b| size(a).total_cmp(&size(b))).ok_or("a table with entries is expected")?;
    let image = gradient.indptr().partition_point(|start| *start <= largest) - 1;
    writeln!(out, "Its largest entry is in image {image}, whose 8 x 8 pixels move the loss by (. is not stored):\n")?;
    for row in 0..8 {
        let pixels = (0..8).map(|column| match gradient.get(image, 8 * row + column) {
            Some(value) => format!("{value:9.1e}"),
            None => format!("{:>9}", "."),
        });
        writeln!(out, "{}", pixels.collect::<String>())?;
    }
    Ok(Summary { losses: fit.losses, same_pattern, stored })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

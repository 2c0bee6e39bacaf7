//! Finds how much the level of the Nile changes from year to year, and how far a year's flow is from it, by their likelihood.
//!
//! The filter is a loop that carries the level, its variance and the loss; the gradient goes backwards through it. What is found is what
//! Durbin and Koopman print in *Time Series Analysis by State Space Methods*.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::prelude::*;
use iverson::tensor::io::read_value;

use fit::{Series, fit, plot};

const FILTER: &str = include_str!("programs/river.iv");
const LAST: &str = "param s : [n] (real, real, real)\nassume n >= 1\nsnd snd s[n - 1]";
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/nile.csv");

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The variances of the steps of the level, and of flows around it.
    pub variances: [f64; 2],
}

/// Reads the flows, finds the variances, and draws the level.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let flow = read_value(DATA)?.into_dense("flow")?;
    let filter = Function::parse(FILTER)?;
    let loss = Function::parse(LAST)?.compose(&filter)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by noise:\n\n{}", loss.gradient(["noise"])?)?;
    let inputs = inputs! { "flow" => flow.clone(), "noise" => [8.0, 8.0] };
    let fit = fit("river", loss.objective(&inputs, ["noise"])?, (100, 1e-6, 2), out)?;

    let variances = [fit.point[0].exp(), fit.point[1].exp()];
    let [level, year] = variances;
    writeln!(out, "\nvariances: {level:.1} of a step of the level, {year:.1} of a year's flow")?;
    let filtered = filter.eval(&fit.objective.at(&fit.point)?)?;
    let of_years = |numbers: &[f64]| (1871..).map(f64::from).zip(numbers.iter().copied()).collect();
    let levels = &filtered["value"].leaves()[0];
    let series = [Series {
        name: "flow of the Nile, and the level",
        colour: "#06c",
        points: of_years(flow.data()),
        line: of_years(levels.data()),
    }];
    writeln!(out, "{} shows the flows and the level", plot("nile", &series)?.display())?;
    Ok(Summary { losses: fit.losses, variances })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

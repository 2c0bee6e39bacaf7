//! Fits the rates at which hares and lynxes are born and die, and how many there were at first, to the pelts of 21 years.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::prelude::*;
use iverson::tensor::io::read_value;

use fit::{Series, fit, plot};

const SOLVE: &str = include_str!("programs/populations.iv");
const LOSS: &str = include_str!("programs/populations_loss.iv");
/// The steps of a year.
const STEPS: f64 = 20.0;
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/hare_lynx.csv");

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The rates of hares alone and where there are lynxes, then those of lynxes where there are hares and alone.
    pub rates: Vec<f64>,
}

/// Reads the pelts, fits the rates and the first year, and draws both.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let pelts = read_value(DATA)?.into_dense("pelts")?;
    let solve = Function::parse(SOLVE)?;
    let loss = Function::parse(LOSS)?.substitute("y", &solve)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by start:\n\n{}", loss.gradient(["start"])?)?;
    let rates = [0.5f64, 0.02, 0.02, 0.8].map(f64::ln);
    let start = [30.0f64, 4.0].map(f64::ln);
    let inputs = inputs! { "pelts" => pelts.clone(), "rates" => rates, "start" => start };
    let fit = fit("populations", loss.objective(&inputs, ["rates", "start"])?, (200, 1e-6, 5), out)?;

    let rates: Vec<f64> = fit.point[..4].iter().map(|rate| rate.exp()).collect();
    writeln!(out, "\nrates: {rates:.4?}")?;
    let curves = solve.eval(fit.objective.at(&fit.point)?.size("years", pelts.shape()[0] as i64))?;
    let curves = curves["value"].as_slice().ok_or("numbers of animals")?;
    let at = |k: usize, per_year: f64| 1900.0 + k as f64 / per_year;
    let series = [("hares", "#06c", 0), ("lynxes", "#c30", 1)].map(|(name, colour, kind)| Series {
        name,
        colour,
        points: pelts.data().chunks(2).enumerate().map(|(k, pelts)| (at(k, 1.0), pelts[kind])).collect(),
        line: curves.chunks(2).enumerate().map(|(k, y)| (at(k, STEPS), y[kind])).collect(),
    });
    writeln!(out, "{} shows the pelts and the curves", plot("hares", &series)?.display())?;
    Ok(Summary { losses: fit.losses, rates })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

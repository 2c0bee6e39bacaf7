//! Finds by how much the flow of the Nile changed when its first dam was built, as the cheapest way from the years before to those after.
//!
//! The plan of an optimal transport is a fixpoint of Sinkhorn's iteration. Its derivative is that of the solution: no step of the iteration is kept.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::prelude::*;
use iverson::tensor::io::read_value;

use fit::{Series, fit, plot};

const COST: &str = include_str!("programs/transport.iv");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/nile.csv");
/// The years from 1871 to the building of the dam.
const BEFORE: usize = 28;

/// What came of the fit.
pub struct Summary {
    /// The cost at the start and at every iteration.
    pub losses: Vec<f64>,
    /// What flows before are multiplied by, and what is added.
    pub moved: [f64; 2],
    /// How far the mean of the moved flows is from that of the flows after.
    pub gap: f64,
}

/// Reads the flows, moves those before the dam to those after it, and draws both in order of size.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let flow: Vec<f64> = read_value(DATA)?.into_dense("flow")?.data().iter().map(|flow| flow / 100.0).collect();
    let (before, after) = flow.split_at(BEFORE);
    let cost = Function::parse(COST)?;
    writeln!(out, "The cost:\n\n{cost}\nIts gradient by move:\n\n{}", cost.gradient(["move"])?)?;
    let inputs = inputs! { "x" => before.to_vec(), "y" => after.to_vec(), "move" => [1.0, 0.0], "blur" => 2.0 };
    let fit = fit("transport", cost.objective(&inputs, ["move"])?, (50, 1e-8, 1), out)?;

    let moved = [fit.point[0], fit.point[1]];
    let [scale, shift] = moved;
    writeln!(out, "\na flow after the dam is {scale:.3} of one before, and {:.0} more", 100.0 * shift)?;
    let mean = |flows: &[f64]| flows.iter().sum::<f64>() / flows.len() as f64;
    let gap = scale * mean(before) + shift - mean(after);
    let sorted = |mut flows: Vec<f64>| -> Vec<(f64, f64)> {
        flows.sort_by(f64::total_cmp);
        let last = flows.len().max(2) as f64 - 1.0;
        (0..).zip(flows).map(|(k, flow)| (100.0 * f64::from(k) / last, 100.0 * flow)).collect()
    };
    let by_move: Vec<f64> = before.iter().map(|flow| scale * flow + shift).collect();
    let series = [
        Series { name: "before", colour: "#999", points: sorted(before.to_vec()), line: Vec::new() },
        Series {
            name: "after, and those before, moved",
            colour: "#06c",
            points: sorted(after.to_vec()),
            line: sorted(by_move),
        },
    ];
    writeln!(out, "{} shows the flows by their rank in percent", plot("dam", &series)?.display())?;
    Ok(Summary { losses: fit.losses, moved, gap })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

//! Finds three clusters of points in a plane, as a mixture of Gaussians of the largest likelihood.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::ndarray::Array2;
use iverson::prelude::*;

use fit::{fit, normal};

const LOSS: &str = include_str!("programs/mixture.iv");
/// The means of the clusters, their deviations, and how many points each has.
const CLUSTERS: [([f64; 2], [f64; 2], usize); 3] =
    [([0.0, 0.0], [0.5, 1.0], 150), ([4.0, 1.0], [1.0, 0.5], 100), ([1.0, 5.0], [0.8, 0.8], 50)];

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// How far a mean is from that of a cluster, at most.
    pub furthest: f64,
}

/// Draws points and fits a mixture to them.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let random = &mut fastrand::Rng::with_seed(1);
    let places = CLUSTERS.iter().flat_map(|(mean, deviation, count)| std::iter::repeat_n((mean, deviation), *count));
    let draw = |(mean, deviation): (&[f64; 2], &[f64; 2])| [0, 1].map(|a| mean[a] + deviation[a] * normal(random));
    let points: Vec<f64> = places.flat_map(draw).collect();
    let x = Array2::from_shape_vec((points.len() / 2, 2), points)?;

    let loss = Function::parse(LOSS)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by mu:\n\n{}", loss.gradient(["mu"])?)?;
    let mut inputs = inputs! { "x" => x, "alpha" => [0.0; 3], "mu" => [[0.0, 1.0], [2.0, 1.0], [1.0, 3.0]] };
    inputs.value("q", [[0.0; 2]; 3]).value("L", Dense::zeros(&[3, 2, 2])?);
    let objective = loss.objective(&inputs, ["alpha", "mu", "q", "L"])?;
    let fit = fit("mixture", objective, (200, 1e-6, 5), out)?;

    let fitted = fit.objective.at(&fit.point)?;
    let numbers = |name| fitted.get(name).and_then(Value::as_slice).ok_or("an unknown has numbers");
    let (alpha, means) = (numbers("alpha")?, numbers("mu")?);
    let total: f64 = alpha.iter().map(|a| a.exp()).sum();
    let mut furthest: f64 = 0.0;
    writeln!(out, "\n  weight           mean")?;
    for (k, (truth, _, _)) in CLUSTERS.iter().enumerate() {
        let mean = &means[2 * k..2 * k + 2];
        writeln!(out, "{:8.3} {:6.3} {:6.3}", alpha[k].exp() / total, mean[0], mean[1])?;
        furthest = furthest.max((mean[0] - truth[0]).hypot(mean[1] - truth[1]));
    }
    writeln!(out, "The furthest mean is {furthest:.2} from that of its cluster.")?;
    Ok(Summary { losses: fit.losses, furthest })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

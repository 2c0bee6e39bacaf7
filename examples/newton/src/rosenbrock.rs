//! Newton's method on a chain of variables, whose Hessian is tri-diagonal.
//!
//! Where the Hessian is not positive definite, a multiple of the identity is added; steps that do not lead down are halved.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use iverson::kernel::Engine;
use iverson::tensor::{Inputs, Value};
use iverson::{Function, Mode, Request};

use crate::{Summary, System, milliseconds, norm, timed};

const LOSS: &str = include_str!("../../programs/rosenbrock.iv");
const STEPS: usize = 100;
/// The norm of the gradient at which the minimisation ends.
const FLAT: f64 = 1e-9;

/// Prints the Hessian, and minimises the chain over `n` variables.
///
/// # Errors
/// If a kernel cannot be bound, or nothing can be written.
pub fn run(out: &mut dyn Write, n: usize, engine: Engine) -> Result<Summary, Box<dyn Error>> {
    let loss = Function::parse(LOSS)?;
    let start = Instant::now();
    let slope = loss.value_and_gradient(&["x"])?;
    let hessian = loss.derive(&Request::new(Mode::Hessian, &["x"]))?;
    let derived = start.elapsed();
    writeln!(out, "The loss:\n\n{loss}\nIts Hessian:\n\n{}", hessian.function)?;

    // Neighbours differ so much that the Hessian is indefinite at first.
    let mut rng = fastrand::Rng::with_seed(1);
    let mut x: Vec<f64> = (0..n).map(|_| 0.5 + rng.f64()).collect();
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(x.clone()));
    let start = Instant::now();
    let (loss, slope) = (loss.kernel(&inputs).engine(engine).build()?, slope.kernel(&inputs).engine(engine).build()?);
    let matrix = hessian.matrix()?.bind(&inputs, engine)?;
    let bound = start.elapsed();
    let start = Instant::now();
    let system = System::new(matrix.pattern())?;
    let planned = start.elapsed();
    let entries = matrix.pattern().len();
    let times = [derived, bound, planned].map(milliseconds);
    writeln!(out, "{n} variables, {entries} entries: derived in {:.1} ms, bound in {:.0} ms", times[0], times[1])?;
    writeln!(out, "factorisation planned in {:.0} ms\n", times[2])?;

    let (mut value, mut gradient, mut numbers) = ([0.0], vec![0.0; n], vec![0.0; entries]);
    let mut losses = Vec::new();
    writeln!(out, "step          loss   gradient   derivatives       solve")?;
    for step in 0..=STEPS {
        let (mut derivatives, mut solve) = (Duration::ZERO, Duration::ZERO);
        timed(&mut derivatives, || slope.call_into(&x, (&mut value, &mut gradient)))?;
        timed(&mut derivatives, || matrix.call_into(&x, &mut [], &mut numbers))?;
        losses.push(value[0]);
        let steepness = norm(&gradient);
        let done = steepness <= FLAT || step == STEPS;
        if !done {
            let largest = system.diagonal.iter().fold(0.0_f64, |most, at| most.max(numbers[*at].abs()));
            let mut shift = 0.0;
            let direction = loop {
                if let Some(direction) = timed(&mut solve, || system.solve(&numbers, &gradient))? {
                    break direction;
                }
                let more = if shift == 0.0 { 1e-3 * largest } else { shift };
                system.diagonal.iter().for_each(|at| numbers[*at] += more);
                shift += more;
            };
            let slope = direction.iter().zip(&gradient).map(|(d, g)| d * g).sum::<f64>();
            let from = x.clone();
            let mut length = 1.0;
            loop {
                x.iter_mut().zip(&from).zip(&direction).for_each(|((x, from), d)| *x = from - length * d);
                let mut there = [0.0];
                timed(&mut derivatives, || loss.call_into(&x, &mut there))?;
                // At the minimum, rounding decides; a full step is right there.
                let enough = value[0] - 1e-4 * length * slope + 1e-15 * value[0].abs();
                if there[0] <= enough || length < 1e-6 {
                    break;
                }
                length /= 2.0;
            }
        }
        let (derivatives, solve) = (milliseconds(derivatives), milliseconds(solve));
        writeln!(out, "{step:4} {:13.6e} {steepness:10.1e} {derivatives:10.1} ms {solve:8.1} ms", value[0])?;
        if done {
            break;
        }
    }
    Ok(Summary { losses, gradient: norm(&gradient), entries })
}

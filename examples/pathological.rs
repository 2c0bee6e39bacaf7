//! Programs that derivatives by tapes and dense arrays make expensive, and what their gradients cost here.
//!
//! Operations are counted as in Figs 6 and 17 of the paper; memory is free there. The counter is that of the reference evaluator, a part of
//! `iverson::ir`.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use iverson::Function;
use iverson::ir::reference::{self, Partials};
use iverson::ir::ty::Types;
use iverson::tensor::{Dense, Inputs, Value};

/// The programs, each with the sizes to count at; a product of matrices costs `n^3`.
const PROGRAMS: [(&str, &[usize]); 7] = [
    (include_str!("../tests/programs/e01_trace_of_diagonal.iv"), &[10, 100, 1000]),
    (include_str!("../tests/programs/e02_row_times_column.iv"), &[10, 100, 1000]),
    (include_str!("../tests/programs/e03_eye_trace.iv"), &[10, 100, 1000]),
    (include_str!("../tests/programs/e04_dead_copies.iv"), &[1]),
    (include_str!("../tests/programs/e05_linear_graph.iv"), &[1]),
    (include_str!("../tests/programs/e06_sum_with_hole.iv"), &[10, 100, 1000]),
    (include_str!("../tests/programs/e11_scaled_trace.iv"), &[10, 30, 100]),
];

/// Operations of a program and of its derivative by all parameters, at one size.
pub struct Cost {
    /// Those of the program.
    pub primal: u128,
    /// Those of the derivative.
    pub derivative: u128,
}

/// Prints all derivatives, and gives the costs, program by program.
pub fn run(out: &mut dyn Write) -> Result<Vec<Vec<Cost>>, Box<dyn Error>> {
    PROGRAMS.iter().map(|(text, sizes)| costs(out, text, sizes)).collect()
}

fn costs(out: &mut dyn Write, text: &str, sizes: &[usize]) -> Result<Vec<Cost>, Box<dyn Error>> {
    let primal = Function::parse(text)?;
    let signature = &primal.tensor_ssa().signature;
    let names: Vec<&str> = signature.params.values().map(|p| p.name.as_str()).collect();
    let one_number = primal.tensor_ssa().outputs.iter().all(|output| output.ty == Types::REAL);
    let derivative = if one_number { primal.gradient(&names)? } else { primal.adjoint(&names)? };
    let comment = text.lines().next().unwrap_or_default();
    writeln!(out, "{comment}\n{derivative}\n        n    primal derivative")?;
    let mut costs = Vec::new();
    for &n in sizes {
        let count = |function: &Function| -> Result<u128, Box<dyn Error>> {
            Ok(reference::count(function.tensor_ssa(), &ones(function, n)?)?.total(Partials::Counted)?)
        };
        let cost = Cost { primal: count(&primal)?, derivative: count(&derivative)? };
        writeln!(out, "{n:9} {:9} {:10}", cost.primal, cost.derivative)?;
        costs.push(cost);
    }
    writeln!(out)?;
    Ok(costs)
}

/// Inputs in which every size is `n` and every number is 1.
fn ones(function: &Function, n: usize) -> Result<Inputs, Box<dyn Error>> {
    let signature = &function.tensor_ssa().signature;
    let mut inputs = Inputs::new();
    for size in signature.sizes.values() {
        inputs.size(size, i64::try_from(n)?);
    }
    for param in signature.params.values() {
        let mut leaves = Vec::new();
        for leaf in signature.types.leaves(param.ty)? {
            let shape = vec![n; leaf.dims.len()];
            leaves.push(Arc::new(Dense::new(&shape, vec![1.0; shape.iter().product()])?.into()));
        }
        inputs.value(&param.name, Value::new(leaves));
    }
    Ok(inputs)
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

//! Prints a program with pairs at every stage of the compiler, its derivatives, and how its adjoint was derived.
//!
//! It looks inside of the compiler, hence its use of `iverson::ir`.

use std::error::Error;
use std::io::Write;

use iverson::ir::driver::{Stage, lower};
use iverson::ir::stages::Stages;
use iverson::ir::surface;
use iverson::{Function, Mode, Request, Style};

const PROGRAM: &str = include_str!("programs/points.iv");

/// What was printed.
pub struct Summary {
    /// The text of every stage, in order.
    pub stages: Vec<String>,
    /// The steps of the derivation.
    pub steps: usize,
}

/// Prints everything.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let program = surface::read(PROGRAM, &[])?;
    let mut stages = Vec::new();
    for (title, stage) in [
        ("As it is written", Stage::Surface),
        ("Let lifting: `let`s at the top only", Stage::LetLifting),
        ("Pair elimination: arrays of pairs become pairs of arrays", Stage::PairElimination),
        ("Gen pushout: every right-hand side is `gen .. gen e`", Stage::GenPushout),
        ("Tensor-SSA: statements of six forms", Stage::TensorSsa),
    ] {
        let text = lower(&program, stage, &mut Stages::new())?.to_string();
        writeln!(out, "# {title}\n\n{text}")?;
        stages.push(text);
    }

    let function = Function::compile(program, &mut Stages::new())?;
    writeln!(out, "# Forward derivative, by the points\n\n{}", function.forward(["p"])?)?;
    let request = Request { derivation: true, ..Request::new(Mode::Gradient, &["p", "c"]) };
    let gradient = function.derive(&request)?;
    let paper = gradient.function.print(Style::Unicode)?;
    writeln!(out, "# Gradient\n\n{}\n# The same, as on paper\n\n{paper}", gradient.function)?;
    let derivation = gradient.derivation.ok_or("a derivation was asked for")?;
    write!(out, "# How it was derived\n\n{derivation}")?;
    Ok(Summary { stages, steps: derivation.steps.len() })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}

//! `iverson emit`.

use std::path::PathBuf;

use iverson::ir::codegen::source::{Target, source};
use iverson::ir::stages::Stages;

use super::simplification::{SimplifyArguments, compiled};
use super::{Derivative, Outcome, Reader, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    derivative: Derivative,
    #[command(flatten)]
    simplification: SimplifyArguments,
    /// A parameter or result that is stored in single precision, while everything is computed in double precision.
    #[arg(long = "single", value_name = "NAME")]
    single: Vec<String>,
}

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  iverson emit loss.iv > kernel.rs
  iverson emit loss.iv --derivative gradient --wrt w --with-value > kernel.rs
  iverson emit loss.iv --single x --single value > kernel.rs

The source is a module that needs `core` alone; its head says how it is called, its end what it is given.";

/// Writes a program or a derivative as Rust source.
pub(super) fn run(arguments: &Arguments, reader: &Reader) -> Outcome {
    let program = reader.load(&arguments.file)?;
    let options = arguments.simplification.options(&program.signature)?;
    let (function, _) = compiled(&arguments.derivative, program, reader, options)?;
    let mut nests = function.loops(&mut Stages::new())?;
    let single: Vec<&str> = arguments.single.iter().map(String::as_str).collect();
    nests.store_in_single(&single)?;
    print(&source(&nests, Target::Module)?.text)?;
    Ok(true)
}

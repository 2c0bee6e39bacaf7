//! `iverson check-derivative`.

use std::path::PathBuf;

use iverson::driver::Function;
use iverson::reference::check::check_derivatives;
use iverson::stages::Stages;

use super::files::InputArguments;
use super::{Outcome, all_or, load, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    /// The parameters to differentiate by, separated by commas; all real parameters where nothing is said.
    #[arg(long, value_delimiter = ',')]
    wrt: Vec<String>,
    /// The seed of the random directions.
    #[arg(long, default_value_t = 0)]
    directions: u64,
}

/// Prints one line for each check and says whether all held.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let program = load(&arguments.file)?;
    let wrt = all_or(&arguments.wrt, &program.signature);
    let function = Function::compile(program, &mut Stages::new())?;
    let inputs = arguments.inputs.read(&function.tensor_ssa().signature)?;
    let report = check_derivatives(&function, &wrt, &inputs, arguments.directions)?;
    print(&report.to_string())?;
    Ok(report.holds())
}

//! `iverson report`.

use std::path::PathBuf;

use iverson::ir::stages::Stages;
use iverson::ir::surface::Reading;
use iverson::report::{Options, html};
use iverson::tensor::io::write_whole;

use super::files::{InputArguments, read_text};
use super::simplification::SimplifyArguments;
use super::{Derivative, Outcome, Reader, print, shown};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    derivative: Derivative,
    #[command(flatten)]
    simplification: SimplifyArguments,
    /// Where to write the page, an HTML file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  iverson report loss.iv -o loss.html
  iverson report loss.iv --derivative gradient --wrt w -o gradient.html
  iverson report loss.iv --derivative hessian --wrt w --input X=x.mtx --input y=y.csv --input w=w.csv -o hessian.html

The page is one file that loads nothing. Without inputs it shows sparsity patterns for small ones that are made up.";

/// Writes a page about a program and a derivative.
pub(super) fn run(arguments: &Arguments, reader: &Reader) -> Outcome {
    let text = read_text(&arguments.file)?;
    let Reading { program, warnings } = reader.read(&arguments.file, &text)?;
    let simplify = arguments.simplification.options(&program.signature)?;
    let derivative = arguments.derivative.request(&program.signature, simplify)?;
    if derivative.is_none() {
        arguments.simplification.unused()?;
    }
    let inputs = match arguments.inputs.is_empty() {
        true => None,
        false => Some(arguments.inputs.read(&program.signature)?),
    };
    let function = arguments.derivative.given.of(program, reader, &mut Stages::new())?;
    let title = match arguments.file.file_name() {
        Some(name) if name != "-" => name.display().to_string(),
        _ => shown(&arguments.file),
    };
    let options = Options { title, text: Some(text), warnings, derivative, inputs };
    write_whole(&arguments.output, html(&function, &options)?.as_bytes())?;
    print(&format!("wrote {}\n", arguments.output.display()))?;
    Ok(true)
}

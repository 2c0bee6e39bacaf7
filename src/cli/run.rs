//! `iverson run`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use iverson::driver::{Function, Request};
use iverson::reference::{self, Partials};
use iverson::stages::Stages;
use iverson::tensor::{Inputs, Tensor, Value};
use iverson::{Error, Result};

use super::files::{InputArguments, read_seeds, write_result};
use super::{Derivative, Outcome, load, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    derivative: Derivative,
    /// A seed of an adjoint, `dy`, or a tangent of a forward derivative, `dx`: a file or a number.
    #[arg(long = "seed", value_name = "NAME=FILE|NUMBER", requires = "derivative", allow_hyphen_values = true)]
    seeds: Vec<String>,
    /// Where to write the results as files.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Count scalar operations.
    #[arg(long)]
    count: bool,
}

/// Evaluates a program and, if asked, a derivative of it.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let program = load(&arguments.file)?;
    let mut stages = Stages::new();
    let request = arguments.derivative.request(&program.signature);
    let primal = Function::compile(program, &mut stages)?;
    let mut inputs = arguments.inputs.read(&primal.tensor_ssa().signature)?;
    let derivative = match &request {
        Some(request) => {
            let derived = primal.derive(request, &mut stages)?;
            read_seeds(&mut inputs, &derived.function.tensor_ssa().signature, &arguments.seeds)?;
            Some(derived.function)
        }
        None => None,
    };
    let results = evaluate(derivative.as_ref().unwrap_or(&primal), &inputs)?;
    for (name, value) in &results {
        print(&summary(name, value))?;
    }
    if let Some(directory) = &arguments.output {
        let failed = |error: std::io::Error| Error::data(directory.display().to_string(), error.to_string());
        std::fs::create_dir_all(directory).map_err(failed)?;
        for (name, value) in &results {
            for path in write_result(directory, name, value)? {
                print(&format!("wrote {path}\n"))?;
            }
        }
    }
    if arguments.count {
        print(&counts(
            &primal,
            derivative.as_ref(),
            request.as_ref(),
            &arguments.inputs.read(&primal.tensor_ssa().signature)?,
            &inputs,
        )?)?;
    }
    Ok(true)
}

/// Evaluates with a progress bar where a person looks on.
fn evaluate(function: &Function, inputs: &Inputs) -> Result<Vec<(String, Value)>> {
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(0),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} statements, {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    let results = reference::evaluate_with_progress(function.tensor_ssa(), inputs, &mut |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    results
}

/// `grad_w: [9] dense, norm 1.2e-3, -0.25 0.5 ..`
fn summary(name: &str, value: &Value) -> String {
    let mut text = String::new();
    let several = value.leaves().len() > 1;
    for (at, leaf) in value.leaves().iter().enumerate() {
        let name = if several { format!("{name}.{at}") } else { name.to_owned() };
        let data = leaf.data();
        match leaf.as_ref() {
            Tensor::Dense(dense) if dense.shape().is_empty() => {
                let entries: Vec<String> = data.iter().map(|x| format!("{x:?}")).collect();
                text.push_str(&format!("{name}: {}\n", entries.join(" ")));
            }
            tensor => {
                let shape: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
                let stored = match tensor {
                    Tensor::Dense(_) => String::new(),
                    sparse => format!(" {} with {} entries", sparse.format(), data.len()),
                };
                let norm = data.iter().map(|x| x * x).sum::<f64>().sqrt();
                let first: Vec<String> = data.iter().take(6).map(|x| format!("{x:.6e}")).collect();
                let more = if data.len() > 6 { " .." } else { "" };
                text.push_str(&format!(
                    "{name}: [{}]{stored}, norm {norm:.6e}: {}{more}\n",
                    shape.join(", "),
                    first.join(" ")
                ));
            }
        }
    }
    text
}

/// The operation counts of the primal program and of the derivative, and their ratio.
fn counts(
    primal: &Function,
    derivative: Option<&Function>,
    request: Option<&Request>,
    primal_inputs: &Inputs,
    inputs: &Inputs,
) -> Result<String> {
    let line = |what: &str, function: &Function, inputs: &Inputs| -> Result<(String, u128)> {
        let counts = reference::count(function.tensor_ssa(), inputs)?;
        let total = counts.total(Partials::Counted)?;
        let text = format!(
            "{what}: {} additions, {} multiplications, {} scalar functions, {total} operations\n",
            counts.additions, counts.multiplications, counts.functions
        );
        Ok((text, total))
    };
    let (mut text, of_primal) = line("primal", primal, primal_inputs)?;
    if let (Some(derivative), Some(_)) = (derivative, request) {
        let (more, of_derivative) = line("derivative", derivative, inputs)?;
        text.push_str(&more);
        if of_primal > 0 {
            text.push_str(&format!("ratio: {:.3}\n", of_derivative as f64 / of_primal as f64));
        }
    }
    Ok(text)
}

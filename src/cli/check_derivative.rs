//! `iverson check-derivative`.

use std::path::PathBuf;

use iverson::diff::{self, Options, Seed};
use iverson::driver::Function;
use iverson::reference::check::{self, Figure};
use iverson::reference::{Environment, Limits, eval_tssa};
use iverson::stages::Stages;
use iverson::tensor::bind;

use super::files::InputArguments;
use super::simplification::{SimplifyArguments, tell};
use super::{Outcome, all_or, load, print, progress};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    simplification: SimplifyArguments,
    /// The parameters to differentiate by, separated by commas; all real parameters where nothing is said.
    #[arg(long, value_delimiter = ',')]
    wrt: Vec<String>,
    /// The seed of the random direction and cotangent.
    #[arg(long, default_value_t = 0)]
    random: u64,
}

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  iverson check-derivative loss.iv --input x=x.npy --input z=z.npy --input w=w.csv --wrt w
  iverson check-derivative loss.iv --input data.npz --random 7";

/// The figures that must be reached: differences relative to the terms, or the numbers, compared. Finite differences have a truncation
/// error, and kinks of the program within a step are not smooth; the others err by rounding only.
const ADJOINT_IDENTITY: f64 = 1e-13;
const DUAL_NUMBERS: f64 = 1e-12;
const COMPLEX_STEP: f64 = 1e-12;
const FINITE_DIFFERENCES: f64 = 1e-6;

/// Prints one line for each check and says whether all held.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let program = load(&arguments.file)?;
    let wrt = all_or(&arguments.wrt, &program.signature);
    let simplify = arguments.simplification.options(&program.signature)?;
    let function = Function::compile(program, &mut Stages::new())?;
    let program = function.tensor_ssa();
    let wrt = diff::params_by_name(&program.signature, &wrt)?;
    let inputs = arguments.inputs.read(&program.signature)?;
    let at = Environment::from_bindings(&bind(&program.signature, &inputs)?)?;

    let mut forward = diff::forward(program, &wrt, false)?;
    let options = Options { seed: Seed::Parameter, with_value: false, derivation: false };
    let mut adjoint = diff::adjoint(program, &wrt, options)?;
    if let Some(options) = &simplify {
        for derivative in [&mut forward.program, &mut adjoint.program] {
            let expanded = diff::expand_partials(derivative)?;
            let simplified = Function::from_tensor_ssa(expanded).simplify(options)?;
            tell(&simplified.report);
            *derivative = simplified.function.tensor_ssa().clone();
        }
    }
    let outputs: Vec<usize> = (0..program.outputs.len()).collect();
    let adjoints: Vec<_> = wrt.iter().copied().zip(0..).collect();

    let values = eval_tssa::evaluate(program, &at, eval_tssa::Options::default())?;
    let direction = check::random_direction(&at, &wrt, arguments.random)?;
    let seeds = (0..).zip(&values).map(|(k, leaves)| check::random_like(leaves, !arguments.random ^ k));
    let bar = progress("{spinner} checking, {elapsed}");
    let report = check::check(
        program,
        check::Forward { program: &forward.program, tangents: &forward.tangents, outputs: &outputs },
        check::Adjoint { program: &adjoint.program, seeds: &adjoint.seeds, outputs: &adjoints },
        &at,
        &direction,
        &seeds.collect::<iverson::Result<Vec<_>>>()?,
        Limits::default(),
    );
    bar.finish_and_clear();
    let report = report?;
    let mut holds = true;
    let mut line = |what: &str, figure: Option<&Figure>, bound: f64| -> iverson::Result<()> {
        let verdict = match figure.map(Figure::ratio) {
            Some(ratio) => {
                holds &= ratio <= bound;
                format!("{} ({ratio:.1e}, at most {bound:.0e})", if ratio <= bound { "holds" } else { "FAILS" })
            }
            None => "not available: a function has no complex value here".to_owned(),
        };
        print(&format!("{what:<46}{verdict}\n"))
    };
    line("adjoint identity <dy, Df dx> = <Df' dy, dx>", Some(&report.adjoint_identity), ADJOINT_IDENTITY)?;
    line("Df dx by dual numbers", Some(&report.dual_numbers), DUAL_NUMBERS)?;
    line("Df dx by complex step", report.complex_step.as_ref(), COMPLEX_STEP)?;
    line("Df dx by finite differences", Some(&report.finite_differences), FINITE_DIFFERENCES)?;
    Ok(holds)
}

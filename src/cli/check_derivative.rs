//! `iverson check-derivative`.

use std::path::PathBuf;

use iverson::diff;
use iverson::driver::{Mode, Request};
use iverson::reference::check::{self, Figure};
use iverson::reference::{Environment, Limits, eval_tssa};
use iverson::stages::Stages;
use iverson::tensor::bind;

use super::files::InputArguments;
use super::simplification::{SimplifyArguments, tell};
use super::{Given, Outcome, all_or, load, print, progress};

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
    /// Check the transposed program instead, of one that is linear in the parameters: <dy, f x> = <f' dy, x>.
    #[arg(long)]
    transpose: bool,
    #[command(flatten)]
    given: Given,
    /// The seed of the random direction and cotangent.
    #[arg(long, default_value_t = 0)]
    random: u64,
}

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  iverson check-derivative loss.iv --input x=x.npy --input z=z.npy --input w=w.csv --wrt w
  iverson check-derivative loss.iv --input data.npz --random 7
  iverson check-derivative blur.iv --input data.npz --wrt x --transpose
  iverson check-derivative loss.iv --input data.npz --wrt x --given y=solver.iv";

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
    let function = arguments.given.of(program, &mut Stages::new())?;
    let program = function.tensor_ssa();
    let inputs = arguments.inputs.read(&program.signature)?;
    let at = Environment::from_bindings(&bind(&program.signature, &inputs)?)?;
    let values = eval_tssa::evaluate(program, &at, eval_tssa::Options::default())?;
    let seeds = (0..).zip(&values).map(|(k, leaves)| check::random_like(leaves, !arguments.random ^ k));
    let seeds = seeds.collect::<iverson::Result<Vec<_>>>()?;
    // What a derivative adds, and the derivative.
    let derive = |mode: Mode| {
        let request = Request { wrt: wrt.clone(), simplify: simplify.clone(), ..Request::new(mode, &[]) };
        let derived = function.derive(&request, &mut Stages::new())?;
        derived.simplification.iter().for_each(tell);
        let derivative = derived.function.tensor_ssa().clone();
        let added = match derived.added.as_slice() {
            [] => Vec::new(),
            names => diff::params_by_name(&derivative.signature, names)?,
        };
        Ok::<_, iverson::Error>((added, derivative))
    };
    let params = diff::params_by_name(&program.signature, &wrt)?;
    let bar = progress("{spinner} checking, {elapsed}");
    let mut lines: Vec<Line> = Vec::new();
    if arguments.transpose {
        let (seeded, transposed) = derive(Mode::Transpose)?;
        let figure = check::transposition(program, &params, &transposed, &seeded, &at, &seeds, Limits::default())?;
        lines.push(("<dy, f x> = <f' dy, x>", Ok(figure), ADJOINT_IDENTITY));
    } else {
        let direction = check::random_direction(&at, &params, arguments.random)?;
        let (tangents, forward) = derive(Mode::Forward)?;
        let (seeded, adjoint) = derive(Mode::Adjoint)?;
        let tangents: Vec<_> = params.iter().copied().zip(tangents).collect();
        let outputs: Vec<usize> = (0..program.outputs.len()).collect();
        let adjoints: Vec<_> = params.iter().copied().zip(0..).collect();
        let forward = check::Forward { program: &forward, tangents: &tangents, outputs: &outputs };
        let adjoint = check::Adjoint { program: &adjoint, seeds: &seeded, outputs: &adjoints };
        let limits = Limits::default();
        let (identity, others) = if arguments.given.is_empty() {
            let found = check::check(program, forward, adjoint, &at, &direction, &seeds, limits)?;
            let complex_step = found.complex_step.ok_or("a function has no complex value here");
            (found.adjoint_identity, [Ok(found.dual_numbers), complex_step, Ok(found.finite_differences)])
        } else {
            let identity = check::adjoint_identity(forward, adjoint, &at, &direction, &seeds, limits)?;
            (identity, [Err("a parameter is computed outside of the program"); 3])
        };
        let [dual_numbers, complex_step, finite_differences] = others;
        lines.extend([
            ("adjoint identity <dy, Df dx> = <Df' dy, dx>", Ok(identity), ADJOINT_IDENTITY),
            ("Df dx by dual numbers", dual_numbers, DUAL_NUMBERS),
            ("Df dx by complex step", complex_step, COMPLEX_STEP),
            ("Df dx by finite differences", finite_differences, FINITE_DIFFERENCES),
        ]);
    }
    bar.finish_and_clear();
    let mut holds = true;
    for (what, figure, bound) in lines {
        let verdict = match figure.map(|figure| figure.ratio()) {
            Ok(ratio) => {
                holds &= ratio <= bound;
                format!("{} ({ratio:.1e}, at most {bound:.0e})", if ratio <= bound { "holds" } else { "FAILS" })
            }
            Err(why) => format!("not available: {why}"),
        };
        print(&format!("{what:<46}{verdict}\n"))?;
    }
    Ok(holds)
}

/// What is checked, how far apart its two sides are, or why that is not known, and the figure that must be reached.
type Line = (&'static str, std::result::Result<Figure, &'static str>, f64);

//! `iverson check-derivative`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;

use iverson::ir::base::ParamId;
use iverson::ir::reference::check::{self, Figure, Judge};
use iverson::ir::reference::environment::Elements;
use iverson::ir::reference::{Environment, Leaf, Limits, Subject, leaves_of};
use iverson::ir::stages::Stages;
use iverson::ir::tssa::Program;
use iverson::ir::ty::Signature;
use iverson::ir::{diff, flow, reference, simplify};
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Inputs, bind};
use iverson::{Error, Function, Mode, Request, Result};

use super::files::InputArguments;
use super::run::note;
use super::simplification::{SimplifyArguments, tell};
use super::{EngineName, Given, Outcome, Reader, all_or, print, progress};

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
    /// What evaluates the program and its derivatives, and so is judged: by the other derivatives, by what the reference evaluator makes of dual
    /// and complex numbers, and by differences of its own values. Where nothing is said, first the reference evaluator and then the kernel,
    /// interpreted: compiled, it gives the same bits, as `--engine native` checks.
    #[arg(long, value_enum)]
    engine: Option<EngineName>,
    /// The seed of the random direction and cotangent.
    #[arg(long, default_value_t = 0)]
    random: u64,
}

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  iverson check-derivative loss.iv --input x=x.npy --input z=z.npy --input w=w.csv --wrt w
  iverson check-derivative loss.iv --input data.npz --random 7
  iverson check-derivative loss.iv --input data.npz --engine native
  iverson check-derivative blur.iv --input data.npz --wrt x --transpose
  iverson check-derivative loss.iv --input data.npz --wrt x --given y=solver.iv

A derivative of a `fixpoint` is about as exact as its state. Where a figure is missed, all are found again with fixpoints that make as many steps
more as they may take: `holds as fixpoints go on (3e-15, at most 1e-13; where they end 2e-11)` says that the derivative is right, and what the
condition of the loop leaves of it.";

/// The figures that must be reached: differences relative to the terms, or the numbers, compared. Finite differences have a truncation
/// error; the others err by rounding only.
const ADJOINT_IDENTITY: f64 = 1e-13;
const DUAL_NUMBERS: f64 = 1e-12;
const COMPLEX_STEP: f64 = 1e-12;
const FINITE_DIFFERENCES: f64 = 1e-6;
const VALUES: f64 = 1e-12;

/// What is said of a kink.
const ONE_SIDE: &str = "the program has a kink here, of which the step takes one side";
const NO_STEP: &str = "the program has a kink here, where no step is short enough";

/// Prints one line for each check of each engine and says whether all held.
pub(super) fn run(arguments: &Arguments, reader: &Reader) -> Outcome {
    let program = reader.load(&arguments.file)?;
    let wrt = all_or(&arguments.wrt, &program.signature);
    let simplify = arguments.simplification.options(&program.signature)?;
    let function = arguments.given.of(program, reader, &mut Stages::new())?;
    match function.flow() {
        Some(flow) => check_on(flow, &function, &wrt, simplify.as_ref(), arguments),
        None => check_on(function.tensor_ssa(), &function, &wrt, simplify.as_ref(), arguments),
    }
}

/// A program as the reference evaluates it.
trait Checked: Subject {
    /// The program of a function.
    fn of(function: &Function) -> Option<Self>;

    /// The function of a program.
    fn function(&self) -> Function;

    /// The program whose fixpoints go on, if it has some.
    fn solved_further(&self) -> Result<Option<Self>>;
}

impl Checked for Program {
    fn of(function: &Function) -> Option<Self> {
        Some(function.meant().clone())
    }

    fn function(&self) -> Function {
        Function::from_tensor_ssa(self.clone())
    }

    fn solved_further(&self) -> Result<Option<Self>> {
        Ok(None)
    }
}

impl Checked for flow::Program {
    fn of(function: &Function) -> Option<Self> {
        function.flow().cloned()
    }

    fn function(&self) -> Function {
        Function::from_flow(self.clone())
    }

    fn solved_further(&self) -> Result<Option<Self>> {
        if self.has_fixpoints() { flow::solve_further(self).map(Some) } else { Ok(None) }
    }
}

/// Checks the derivatives of a function, which is a program.
fn check_on<P: Checked>(
    program: &P,
    function: &Function,
    wrt: &[String],
    simplify: Option<&simplify::Options>,
    arguments: &Arguments,
) -> Outcome {
    let inputs = arguments.inputs.read(program.signature())?;
    let at = Environment::from_bindings(&bind(program.signature(), &inputs)?)?;
    let values = program.evaluate(&at, None, Limits::default(), None)?;
    must_be_finite(program.signature(), &inputs, &values)?;
    let seeds = (0..).zip(&values).map(|(k, leaves)| check::random_like(leaves, !arguments.random ^ k));
    let seeds = seeds.collect::<Result<Vec<_>>>()?;
    // What a derivative adds, and the derivative.
    let derive = |mode: Mode, with_value: bool| {
        let request = Request { wrt: wrt.to_vec(), with_value, simplify: simplify.cloned(), ..Request::new(mode, &[]) };
        let derived = function.derive(&request)?;
        derived.simplification.iter().for_each(|report| tell(report, simplify));
        let derivative = P::of(&derived.function);
        let derivative = derivative.ok_or_else(|| Error::Request("the derivative has no loops".to_owned()))?;
        let added = match derived.added.as_slice() {
            [] => Vec::new(),
            names => diff::params_by_name(derivative.signature(), names)?,
        };
        Ok::<_, Error>((added, derivative, derived.function))
    };
    let params = diff::params_by_name(program.signature(), wrt)?;
    let (derivatives, seeds) = match arguments.transpose {
        true => (vec![derive(Mode::Transpose, false)?], seeds),
        // What `run` runs is another program than the adjoint, and with the value another one again: simplified, each has forms of its own.
        // Their seed is 1.
        false if is_number(&values) => {
            let gradients = [derive(Mode::Gradient, false)?, derive(Mode::Gradient, true)?];
            let one = Leaf::dense(Vec::new(), vec![1.0])?;
            ([derive(Mode::Forward, false)?].into_iter().chain(gradients).collect(), vec![vec![one]])
        }
        false => (vec![derive(Mode::Forward, false)?, derive(Mode::Adjoint, false)?], seeds),
    };
    let direction = check::random_direction(&at, &params, arguments.random)?;
    let given = !arguments.given.is_empty();
    let checks = Checks { program, params, derivatives, at, direction, seeds, given };
    let bar = progress("{spinner} checking, {elapsed}");
    let mut engines: Vec<Option<Engine>> = Vec::new();
    if matches!(arguments.engine, None | Some(EngineName::Reference)) {
        engines.push(None);
    }
    match arguments.engine {
        Some(EngineName::Reference) => (),
        Some(EngineName::Native) => engines.push(Some(Engine::Native)),
        None | Some(EngineName::Interpreter) => engines.push(Some(Engine::Interpreter)),
    }
    let mut judged: Vec<(String, Vec<Verdict>)> = Vec::new();
    let mut further = None;
    for engine in engines {
        let (name, lines) = checks.judged_by(engine)?;
        let mut verdicts: Vec<Verdict> = lines.into_iter().map(Verdict::new).collect();
        if !verdicts.iter().all(|verdict| verdict.holds() && !verdict.sees_kink()) {
            if further.is_none() {
                further = checks.solved_further()?;
            }
            if let Some((program, derivatives)) = &further {
                let checks = Checks { program, derivatives: derivatives.clone(), ..checks.clone() };
                let (_, lines) = checks.judged_by(engine)?;
                verdicts.iter_mut().zip(lines).for_each(|(verdict, line)| verdict.further = line.1.ok());
            }
        }
        judged.push((name, verdicts));
    }
    bar.finish_and_clear();
    for (engine, verdicts) in &judged {
        print(&format!("by {engine}:\n"))?;
        for verdict in verdicts {
            print(&format!("  {:<46}{verdict}\n", verdict.line.0))?;
        }
    }
    let holds = judged.iter().flat_map(|(_, verdicts)| verdicts).all(Verdict::holds);
    if let Some(flow) = function.flow().filter(|_| !holds) {
        // A state that is no solution has no derivative of one.
        reference::evaluate_and_notes(flow, &inputs, Limits::default())?.1.into_iter().for_each(note);
    }
    Ok(holds)
}

/// That the value of a program has neither infinities nor NaN, of which no two are close to each other.
fn must_be_finite(signature: &Signature, inputs: &Inputs, values: &[Vec<Leaf<f64>>]) -> Result<()> {
    let finite = |numbers: &[f64]| numbers.iter().all(|x| x.is_finite());
    let is_finite = |leaf: &Leaf<f64>| match &leaf.elements {
        Elements::Dense(numbers) | Elements::Sparse(_, numbers) => finite(numbers),
    };
    if values.iter().flatten().all(is_finite) {
        return Ok(());
    }
    let names = signature.params.values().map(|param| &param.name);
    let guilty = names
        .filter(|name| inputs.get(name).is_some_and(|value| !value.leaves().iter().all(|leaf| finite(leaf.data()))));
    let guilty: Vec<String> = guilty.map(|name| format!("`{name}`")).collect();
    let why = match guilty.as_slice() {
        [] => String::new(),
        names => format!(", and there are such numbers in {}", names.join(", ")),
    };
    Err(Error::Request(format!(
        "derivatives are compared where values are finite: here the value of the program is infinite or NaN{why}"
    )))
}

/// Whether the value of a program is one number.
fn is_number(values: &[Vec<Leaf<f64>>]) -> bool {
    matches!(values, [leaves] if matches!(leaves.as_slice(), [leaf] if leaf.dims.is_empty()))
}

/// What is checked, how far apart its two sides are, or why that is not known, and the figure that must be reached.
type Line = (&'static str, std::result::Result<Figure, &'static str>, f64);

/// A line, and what it says where fixpoints go on.
struct Verdict {
    line: Line,
    further: Option<Figure>,
}

impl Verdict {
    fn new(line: Line) -> Verdict {
        Verdict { line, further: None }
    }

    fn holds(&self) -> bool {
        let (_, figure, bound) = &self.line;
        figure.as_ref().map_or(true, |figure| figure.ratio() <= *bound) || self.holds_further()
    }

    /// Whether it blames a kink, which may be the end of a fixpoint.
    fn sees_kink(&self) -> bool {
        matches!(self.line.1, Err(ONE_SIDE | NO_STEP))
    }

    /// Whether what is missing is what the states of fixpoints are off their solutions.
    fn holds_further(&self) -> bool {
        self.further.is_some_and(|figure| figure.ratio() <= self.line.2)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, figure, bound) = &self.line;
        match figure.as_ref().map(Figure::ratio) {
            Ok(ratio) if ratio <= *bound => write!(f, "holds ({ratio:.1e}, at most {bound:.0e})"),
            Ok(ratio) => match self.further.map(|figure| figure.ratio()) {
                Some(further) if self.holds_further() => {
                    write!(
                        f,
                        "holds as fixpoints go on ({further:.1e}, at most {bound:.0e}; where they end {ratio:.1e})"
                    )
                }
                Some(further) => {
                    write!(f, "FAILS ({ratio:.1e}, at most {bound:.0e}; as fixpoints go on {further:.1e})")
                }
                None => write!(f, "FAILS ({ratio:.1e}, at most {bound:.0e})"),
            },
            Err(why) => match self.further {
                Some(further) if self.holds_further() => {
                    write!(f, "holds as fixpoints go on ({:.1e}, at most {bound:.0e})", further.ratio())
                }
                _ => write!(f, "not available: {why}"),
            },
        }
    }
}

/// The parameters that a derivative adds, the derivative, and the function that has it.
type Derivative<P> = (Vec<ParamId>, P, Function);

/// What an engine is asked.
#[derive(Clone)]
struct Checks<'a, P> {
    program: &'a P,
    params: Vec<ParamId>,
    /// The transposed program, or the forward derivative and the adjoint, which is the gradient of a single number, and that beside the value;
    /// each with the parameters that it adds, and as the function that has it.
    derivatives: Vec<Derivative<P>>,
    at: Environment<f64>,
    direction: Vec<(ParamId, Vec<Leaf<f64>>)>,
    seeds: Vec<Vec<Leaf<f64>>>,
    /// Whether a parameter is computed outside of the program.
    given: bool,
}

impl<P: Checked> Checks<'_, P> {
    /// What runs, and what is found; the reference evaluator where no engine is named.
    fn judged_by(&self, engine: Option<Engine>) -> Result<(String, Vec<Line>)> {
        let Some(engine) = engine else {
            return Ok(("the reference evaluator".to_owned(), self.lines(None)?));
        };
        let functions = self.derivatives.iter().map(|(_, program, function)| (program, function)).collect();
        let kernels = Kernels { engine, functions, bound: RefCell::default() };
        let lines = self.lines(Some(&|program, at, outputs| kernels.evaluate(program, at, outputs)))?;
        Ok((kernels.name(), lines))
    }

    /// The program and its derivatives whose fixpoints go on, if it has some.
    fn solved_further(&self) -> Result<Option<(P, Vec<Derivative<P>>)>> {
        let Some(program) = self.program.solved_further()? else { return Ok(None) };
        let further = |(added, own, function): &Derivative<P>| {
            Ok::<_, Error>(match own.solved_further()? {
                Some(program) => (added.clone(), program.clone(), program.function()),
                None => (added.clone(), own.clone(), function.clone()),
            })
        };
        let derivatives = self.derivatives.iter().map(further).collect::<Result<_>>()?;
        Ok(Some((program, derivatives)))
    }

    fn lines(&self, engine: Option<&check::Evaluator<'_, P>>) -> Result<Vec<Line>> {
        let Checks { program, params, at, direction, seeds, .. } = self;
        let program: &P = program;
        let judge = Judge { limits: Limits::default(), engine };
        let mut lines: Vec<Line> = Vec::new();
        if engine.is_some() {
            let figure = check::values(program, at, direction, judge)?;
            lines.push(("f x by the reference evaluator", Ok(figure), VALUES));
        }
        let ((tangents, forward, _), (seeded, adjoint, _), beside_value) = match self.derivatives.as_slice() {
            [(seeded, transposed, _)] => {
                let figure = check::transposition(program, params, transposed, seeded, at, seeds, judge)?;
                lines.push(("<dy, f x> = <f' dy, x>", Ok(figure), ADJOINT_IDENTITY));
                return Ok(lines);
            }
            [forward, adjoint, others @ ..] => (forward, adjoint, others.first()),
            [] => return Ok(lines),
        };
        let tangents: Vec<_> = params.iter().copied().zip(tangents.iter().copied()).collect();
        let outputs: Vec<usize> = (0..program.results().len()).collect();
        let adjoints: Vec<_> = params.iter().copied().zip(0..).collect();
        let forward = check::Forward { program: forward, tangents: &tangents, outputs: &outputs };
        let adjoint = check::Adjoint { program: adjoint, seeds: seeded, outputs: &adjoints };
        let (identity, others) = match self.given {
            false => {
                let found = check::check(program, forward, adjoint, at, direction, seeds, judge)?;
                let complex_step = match found.complex_step {
                    None => Err("a function has no complex value here"),
                    Some(figure) if figure.ratio() > COMPLEX_STEP => {
                        let kink = check::has_kink(program, at, direction, figure.scale, judge)?;
                        if kink { Err(ONE_SIDE) } else { Ok(figure) }
                    }
                    Some(figure) => Ok(figure),
                };
                let differences = found.finite_differences.ok_or(NO_STEP);
                (found.adjoint_identity, [Ok(found.dual_numbers), complex_step, differences])
            }
            true => {
                let identity = check::adjoint_identity(forward, adjoint, at, direction, seeds, judge)?;
                (identity, [Err("a parameter is computed outside of the program"); 3])
            }
        };
        let [dual_numbers, complex_step, finite_differences] = others;
        lines.extend([
            ("adjoint identity <dy, Df dx> = <Df' dy, dx>", Ok(identity), ADJOINT_IDENTITY),
            ("Df dx by dual numbers", dual_numbers, DUAL_NUMBERS),
            ("Df dx by complex step", complex_step, COMPLEX_STEP),
            ("Df dx by finite differences", finite_differences, FINITE_DIFFERENCES),
        ]);
        if let Some((_, program, _)) = beside_value {
            let outputs: Vec<_> = params.iter().copied().zip(1..).collect();
            let adjoint = check::Adjoint { program, seeds: &[], outputs: &outputs };
            let identity = check::adjoint_identity(forward, adjoint, at, direction, seeds, judge)?;
            lines.push(("the identity with the gradient beside f x", Ok(identity), ADJOINT_IDENTITY));
        }
        Ok(lines)
    }
}

/// Programs as kernels, each bound once.
struct Kernels<'a, P> {
    engine: Engine,
    /// The functions that programs are of.
    functions: Vec<(&'a P, &'a Function)>,
    bound: RefCell<Vec<(P, Kernel)>>,
}

impl<P: Checked> Kernels<'_, P> {
    fn evaluate(&self, program: &P, at: &Environment<f64>, outputs: Option<&[usize]>) -> Result<Vec<Vec<Leaf<f64>>>> {
        let inputs = at.inputs(program.signature())?;
        let mut bound = self.bound.borrow_mut();
        let known = bound.iter().position(|(other, _)| other == program);
        let known = match known {
            Some(known) => known,
            None => {
                let function = self.functions.iter().find(|(other, _)| *other == program);
                let function =
                    function.map_or_else(|| Cow::Owned(program.function()), |(_, found)| Cow::Borrowed(*found));
                bound.push((program.clone(), function.kernel(&inputs).engine(self.engine).build()?));
                bound.len() - 1
            }
        };
        let results = bound[known].1.call(&inputs)?;
        let all = results.iter().map(|(_, value)| leaves_of(value)).collect::<Result<Vec<_>>>()?;
        Ok(match outputs {
            Some(numbers) => numbers.iter().filter_map(|k| all.get(*k).cloned()).collect(),
            None => all,
        })
    }

    /// What ran.
    fn name(&self) -> String {
        match self.bound.borrow().first().map(|(_, kernel)| kernel.status()) {
            Some(status) => format!("the kernel ({status})"),
            None => "the kernel".to_owned(),
        }
    }
}

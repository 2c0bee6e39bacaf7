//! `iverson run`.

use std::io::Write;
use std::path::PathBuf;

use iverson::ir::reference::{self, Counts, Limits, Partials};
use iverson::ir::stages::Stages;
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Inputs, Results, Tensor, Value};
use iverson::{Derived, Error, Function, Mode, Result};
use serde_json::json;

use super::files::{InputArguments, read_seeds, write_result};
use super::methods::{self, MethodArgument};
use super::simplification::{SimplifyArguments, tell};
use super::{Derivative, EngineName, Failure, Outcome, Output, Reader, json, print, progress};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    derivative: Derivative,
    #[command(flatten)]
    method: MethodArgument,
    #[command(flatten)]
    simplification: SimplifyArguments,
    /// A seed of an adjoint, `dy`, or a tangent of a forward derivative, `dx`: a file or a number.
    ///
    /// A component of a pair is `dy.0`.
    #[arg(long = "seed", value_name = "NAME=FILE|NUMBER", requires = "derivative", allow_hyphen_values = true)]
    seeds: Vec<String>,
    /// Where to write the results as files; made if there is none.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// What evaluates the program; where nothing is said the reference, and for Jacobians, Hessians, Gauss-Newton matrices and --sparse, which
    /// take a kernel, the interpreter.
    #[arg(long, value_enum)]
    engine: Option<EngineName>,
    /// A parameter or result that is stored in single precision, while everything is computed in double precision. Takes a kernel: `--engine
    /// interpreter` or `native`.
    #[arg(long = "single", value_name = "NAME")]
    single: Vec<String>,
    /// A result that is sparse, such as a product of sparse matrices. Its pattern follows from guards, relations and the patterns of sparse
    /// parameters, whatever the numbers are, so it may hold entries that are 0. Takes a kernel: `--engine interpreter` or `native`.
    #[arg(long = "sparse", value_name = "NAME")]
    sparse: Vec<String>,
    /// How many steps the reference may take in one statement, and how many iterations of loops a kernel; 2^32 for the reference, 2^40 for the
    /// interpreter and 2^47 for native code where nothing is said.
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u64>,
    /// How many bytes a kernel may keep beside inputs and results, `64M` for instance, with K, M or G for powers of 1024. Gradients of loops over time
    /// keep all states; where these are more, some are kept, and the steps between run once more. Takes a kernel: the interpreter where no
    /// `--engine` is said.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// Count the scalar operations of the program, and of its derivative, and print their ratio.
    #[arg(long)]
    count: bool,
    /// How to print results: with --format json all numbers, in one document.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) format: Output,
}

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  iverson run loss.iv --input x=x.npy --input z=z.npy --input w=w.csv
  iverson run loss.iv --input data.npz --derivative gradient --wrt w --with-value --output results
  iverson run energy.iv --input A=a.mtx --scalar s=1.5 --derivative gradient --wrt A --output results
  iverson run blur.iv --input data.npz --derivative adjoint --wrt w --seed dy=residual.npy
  iverson run blur.iv --input data.npz --derivative forward --wrt w --seed dw=direction.npy --count
  iverson run loss.iv --input data.npz --engine native --single x --single value
  iverson run chain.iv --input x=x.npy --derivative hessian --wrt x --output results
  iverson run product.iv --input A=a.mtx --input B=b.mtx --sparse value --output results
  iverson run loss.iv --input data.npz --derivative gradient --wrt w --method chad --count
  iverson run recurrence.iv --input data.npz --derivative gradient --wrt w --engine native --memory 64M

Files written to DIR: value.npy, value_0.npy, value_1.npy, .. for several results, grad_NAME.npy, adjoint_NAME.npy,
tangent.npy; .mtx and .tns where a derivative is sparse, by its parameter or by --sparse; jacobian.mtx, hessian.mtx and gauss_newton.mtx, whose rows are the elements of
all outputs, or parameters, and whose columns those of the parameters by which it is differentiated, in order.";

/// Evaluates a program and, if asked, a derivative of it.
pub(super) fn run(arguments: &Arguments, reader: &Reader) -> Outcome {
    evaluate_with(arguments, reader)
        .map_err(|failure| Failure { error: arguments.inputs.with_file(failure.error), source: failure.source })
}

fn evaluate_with(arguments: &Arguments, reader: &Reader) -> Outcome {
    let program = reader.load(&arguments.file)?;
    let mut stages = Stages::new();
    let options = arguments.simplification.options(&program.signature)?;
    let request = arguments.derivative.request(&program.signature, options.clone())?;
    let by_kernel = arguments.kernels(false).is_some();
    if request.is_none() && !by_kernel {
        arguments.simplification.unused()?;
    }
    let given = !arguments.derivative.given.is_empty();
    if let (Some(method), Some(request)) = (arguments.method.of_lambda(request.as_ref(), given)?, &request) {
        arguments.for_method()?;
        let inputs = arguments.inputs.read(&program.signature)?;
        make_directory(arguments)?;
        let (results, [primal, derivative]) = methods::gradient(&program, method, request, &inputs)?;
        let counts = || Ok(vec![("primal", primal), ("derivative", derivative)]);
        return report(arguments, &Results::from(results), counts);
    }
    let primal = arguments.derivative.given.of(program, reader, &mut stages)?;
    let derived = match &request {
        Some(request) => Some(primal.derive_in(request, &mut stages)?),
        None => None,
    };
    if let Some(report) = derived.as_ref().and_then(|derived| derived.simplification.as_ref()) {
        tell(report, options.as_ref());
    }
    let primal_inputs = arguments.inputs.read(&primal.tensor_ssa().signature)?;
    let mut inputs = primal_inputs.clone();
    if let Some(derived) = &derived {
        read_seeds(&mut inputs, &derived.function.tensor_ssa().signature, &derived.added, &arguments.seeds)?;
    }
    make_directory(arguments)?;
    // Kernels run programs simplified, the reference as they are written.
    let simplified = match (&derived, &options) {
        (None, Some(options)) if by_kernel => {
            let simplification = primal.simplify_with(options)?;
            tell(&simplification.report, Some(options));
            Some(simplification.function)
        }
        _ => None,
    };
    let function = derived.as_ref().map_or(simplified.as_ref().unwrap_or(&primal), |derived| &derived.function);
    let matrix = derived.as_ref().filter(|derived| !derived.blocks.is_empty()).map(|derived| {
        let name = match request.as_ref().map(|request| request.mode) {
            Some(Mode::Hessian) => "hessian",
            Some(Mode::GaussNewton) => "gauss_newton",
            _ => "jacobian",
        };
        (name, derived)
    });
    let results = results(function, matrix, &mut inputs, arguments)?;
    report(arguments, &results, || {
        let mut counts = vec![("primal", count(&primal, &primal_inputs)?)];
        if derived.is_some() {
            counts.push(("derivative", count(function, &inputs)?));
        }
        Ok(counts)
    })
}

impl Arguments {
    /// Refuses what no method of the lambda calculus has.
    fn for_method(&self) -> Result<()> {
        self.simplification.unused()?;
        if !matches!(self.engine, None | Some(EngineName::Reference)) {
            let message = "what --method names is evaluated by the reference: leave out --engine, or --method";
            return Err(Error::Request(message.to_owned()));
        }
        let stored = !self.single.is_empty() || !self.sparse.is_empty();
        if stored || self.limit.is_some() || self.memory.is_some() || !self.seeds.is_empty() {
            let message = "the reference evaluates gradients in the lambda calculus, without --single, --sparse, --limit, --memory and --seed";
            return Err(Error::Request(message.to_owned()));
        }
        Ok(())
    }

    /// What runs kernels of a program, or of a derivative that is one matrix; nothing where the reference evaluates it.
    fn kernels(&self, is_matrix: bool) -> Option<Engine> {
        match self.engine {
            Some(EngineName::Reference) => None,
            None => (is_matrix || !self.sparse.is_empty() || self.memory.is_some()).then_some(Engine::Interpreter),
            Some(EngineName::Interpreter) => Some(Engine::Interpreter),
            Some(EngineName::Native) => Some(Engine::Native),
        }
    }
}

/// Makes the directory of the results, before an evaluation that may be long.
fn make_directory(arguments: &Arguments) -> Result<()> {
    let Some(directory) = &arguments.output else { return Ok(()) };
    std::fs::create_dir_all(directory).map_err(|error| {
        Error::data(directory.display().to_string(), format!("this directory cannot be made: {error}"))
    })
}

/// Prints and writes results, and what was counted.
fn report<'a>(
    arguments: &Arguments,
    results: &Results,
    count: impl FnOnce() -> Result<Vec<(&'a str, Counts)>>,
) -> Outcome {
    let for_people = arguments.format == Output::Text;
    if for_people {
        // Now, for what follows may fail.
        print(&results.to_string())?;
    }
    let mut written = Vec::new();
    if let Some(directory) = &arguments.output {
        for (name, value) in results {
            let paths = write_result(directory, name, value)?;
            if for_people {
                paths.iter().try_for_each(|path| print(&format!("wrote {path}\n")))?;
            }
            written.extend(paths);
        }
    }
    let counts = if arguments.count { count()? } else { Vec::new() };
    print(&match arguments.format {
        Output::Text => operations(&counts)?,
        Output::Json => document(results, &written, &counts)?,
    })?;
    Ok(true)
}

/// What a program gives, or a derivative that is one matrix, by the engine that is asked for.
fn results(
    function: &Function,
    matrix: Option<(&str, &Derived)>,
    inputs: &mut Inputs,
    arguments: &Arguments,
) -> std::result::Result<Results, Failure> {
    Ok(match (arguments.kernels(matrix.is_some()), matrix) {
        (None, _) if !arguments.single.is_empty() || !arguments.sparse.is_empty() => {
            let option = if arguments.single.is_empty() { "--sparse" } else { "--single" };
            return Err(Error::Request(format!("{option} takes a kernel: --engine interpreter or native")).into());
        }
        (None, _) if arguments.memory.is_some() => {
            return Err(Error::Request("--memory takes a kernel: --engine interpreter or native".to_owned()).into());
        }
        (None, _) => evaluate(function, inputs, arguments.limit)?,
        (Some(engine), None) => stored(function, inputs, arguments, engine)?,
        (Some(_), Some(_)) if !arguments.sparse.is_empty() => {
            return Err(
                Error::Request("this derivative is one sparse matrix already, without --sparse".to_owned()).into()
            );
        }
        (Some(_), Some(_)) if arguments.memory.is_some() => {
            let message =
                "there is no budget of memory for a derivative that is one sparse matrix, found --memory; leave it out";
            return Err(Error::Request(message.to_owned()).into());
        }
        (Some(engine), Some((name, derived))) => {
            if let Some(name) = arguments.single.iter().find(|name| !inputs.store_in_single(name)) {
                let message = format!("--single takes parameters where the result is a matrix, found `{name}`");
                return Err(Error::Request(message).into());
            }
            let kernel = derived.matrix()?.bind(inputs, engine)?;
            tell_notes(kernel.kernel());
            let (mut results, matrix) = kernel.call(inputs)?;
            results.push((name.to_owned(), Value::from(Tensor::from(matrix))));
            results.into()
        }
    })
}

/// How many operations programs take, a line for each.
fn operations(counts: &[(&str, Counts)]) -> Result<String> {
    let mut text = String::new();
    let mut totals = Vec::new();
    for (what, counts) in counts {
        let total = counts.total(Partials::Counted)?;
        totals.push(total);
        text += &format!(
            "{what}: {total} operations: {} additions, {} multiplications, {} scalar functions\n",
            counts.additions, counts.multiplications, counts.functions
        );
    }
    if let [primal, derivative] = totals[..]
        && primal > 0
    {
        text += &format!("ratio: {:.3}\n", derivative as f64 / primal as f64);
    }
    Ok(text)
}

/// What a run gives as JSON, a line for each result.
fn document(results: &Results, written: &[String], counts: &[(&str, Counts)]) -> Result<String> {
    let lines: Vec<String> =
        results.iter().map(|(name, value)| format!("    {}: {}", json!(name), json::value(value))).collect();
    let mut text = format!("{{\n  \"results\": {{\n{}\n  }}", lines.join(",\n"));
    if !written.is_empty() {
        text += &format!(",\n  \"written\": {}", json!(written));
    }
    for (what, counts) in counts {
        let counts = json!({
            "operations": json::count(counts.total(Partials::Counted)?),
            "additions": json::count(counts.additions),
            "multiplications": json::count(counts.multiplications),
            "functions": json::count(counts.functions),
        });
        text += &format!(",\n  \"{what}\": {counts}");
    }
    Ok(text + "\n}\n")
}

/// Runs a kernel that stores some parameters and results in single precision, and some results as sparse tensors.
fn stored(function: &Function, inputs: &mut Inputs, arguments: &Arguments, engine: Engine) -> Result<Results> {
    let kernel =
        function.kernel(inputs).as_written().single(&arguments.single).sparse(&arguments.sparse).engine(engine);
    let kernel = match arguments.limit {
        Some(limit) => kernel.limit(limit),
        None => kernel,
    };
    let kernel = match arguments.memory {
        Some(bytes) => kernel.memory(bytes).build()?,
        None => kernel.build()?,
    };
    tell_notes(&kernel);
    // The kernel takes what it stores in single precision as such.
    for name in &arguments.single {
        inputs.store_in_single(name);
    }
    kernel.call(&*inputs)
}

/// Says what there is to say of how native code was found, and of a budget of memory.
fn tell_notes(kernel: &Kernel) {
    let of_code = kernel.notes().into_iter().map(|note| note.to_string());
    of_code.chain(kernel.memory_notes().iter().cloned()).for_each(note);
}

/// Says something on standard error.
pub(super) fn note(text: String) {
    // With standard error gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "note: {text}");
}

/// A number of bytes, with a power of 1024 behind it or not.
fn bytes(text: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("expected a number of bytes such as 4096, 64K, 64M or 2G, found `{text}`");
    let powers = [('K', 10), ('M', 20), ('G', 30)];
    let power = powers.iter().find(|(letter, _)| text.ends_with([*letter, letter.to_ascii_lowercase()]));
    let (digits, shift) = match power {
        Some((_, shift)) => (text.get(..text.len() - 1).unwrap_or_default(), *shift),
        None => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let many = || format!("`{text}` is more bytes than any machine has");
    digits.parse::<u64>().map_err(|_| many())?.checked_mul(1 << shift).ok_or_else(many)
}

/// How many operations a function takes.
fn count(function: &Function, inputs: &Inputs) -> Result<Counts> {
    match function.flow() {
        Some(flow) => reference::count(flow, inputs),
        None => reference::count(function.tensor_ssa(), inputs),
    }
}

/// Evaluates with a progress bar where a person looks on.
fn evaluate(function: &Function, inputs: &Inputs, limit: Option<u64>) -> Result<Results> {
    let bar = progress("{bar:40} {pos}/{len} statements, {elapsed}");
    let default = Limits::default();
    let limits = Limits { steps: limit.unwrap_or(default.steps), ..default };
    let mut tell = |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let results = match function.flow() {
        Some(flow) if flow.has_fixpoints() => {
            reference::evaluate_and_notes(flow, inputs, limits).map(|(results, notes)| {
                notes.into_iter().for_each(note);
                results
            })
        }
        Some(flow) => reference::evaluate_within(flow, inputs, limits, &mut tell),
        None => reference::evaluate_within(function.meant(), inputs, limits, &mut tell),
    };
    bar.finish_and_clear();
    results.map(Results::from)
}

//! The command line: arguments, and what they have in common.

mod check;
mod check_derivative;
mod emit;
mod files;
mod fmt;
mod json;
mod methods;
mod report;
mod run;
mod show;
mod simplification;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use iverson::ir::diff::Part;
use iverson::ir::stages::Stages;
use iverson::ir::{reference, simplify, surface};
use iverson::{Error, Function, Mode, Request, error, kernel};

/// Purely functional, sparse derivatives of tensor programs written with Iverson brackets.
#[derive(Debug, Parser)]
#[command(name = "iverson", version, about, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to colour messages.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    color: Color,
    /// A directory in which imported files are looked for, behind that of the file that imports them.
    #[arg(long = "path", global = true, value_name = "DIR")]
    paths: Vec<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  iverson check loss.iv
  iverson show loss.iv --derivative gradient --wrt w
  iverson show loss.iv --stage tensor-ssa
  iverson show loss.iv --derivative gradient --wrt w --derivation
  iverson show loss.iv --simplify
  iverson report loss.iv --derivative gradient --wrt w -o loss.html
  iverson run loss.iv --input x=x.npy --input z=z.npy --input w=w.csv --derivative gradient --wrt w --output results
  iverson check-derivative loss.iv --input x=x.npy --input z=z.npy --input w=w.csv --wrt w
  iverson fmt --check loss.iv
  iverson completions bash > ~/.local/share/bash-completion/completions/iverson";

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks a program: names, sizes, types, bounds.
    Check(check::Arguments),
    /// Prints a program at a stage of the compiler, or a derivative of it.
    #[command(after_help = show::EXAMPLES)]
    Show(show::Arguments),
    /// Writes a page that shows a program and a derivative of it: formulas, derivation, patterns, data flow, loops, costs.
    #[command(after_help = report::EXAMPLES)]
    Report(report::Arguments),
    /// Evaluates a program, or a derivative of it, on data.
    #[command(after_help = run::EXAMPLES, alias = "eval")]
    Run(run::Arguments),
    /// Writes a program, or a derivative of it, as Rust source that needs nothing but `core`.
    #[command(after_help = emit::EXAMPLES)]
    Emit(emit::Arguments),
    /// Checks derivatives at given data: adjoint identity, finite differences, complex step.
    #[command(after_help = check_derivative::EXAMPLES)]
    CheckDerivative(check_derivative::Arguments),
    /// Lays out programs: blanks, indentation, empty lines; comments stay.
    Fmt(fmt::Arguments),
    /// Prints what completes this command in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether problems are told as JSON on standard output, as results are.
    fn is_for_programs(&self) -> bool {
        match self {
            Command::Check(arguments) => arguments.format == Output::Json,
            Command::Run(arguments) => arguments.format == Output::Json,
            Command::Show(arguments) => arguments.format == show::Format::Json,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

/// For whom something is printed.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For programs, as one JSON document on standard output.
    Json,
}

/// What evaluates programs.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum EngineName {
    /// The evaluator that defines what programs mean: slow.
    Reference,
    /// Loop nests, interpreted.
    Interpreter,
    /// Loop nests, compiled by rustc.
    Native,
}

/// Which derivative is wanted.
#[derive(Clone, Debug, Args)]
struct Derivative {
    /// The derivative to take.
    #[arg(long, value_enum)]
    derivative: Option<DerivativeKind>,
    /// The parameters to differentiate by, separated by commas; all real parameters where nothing is said.
    #[arg(long, value_delimiter = ',', requires = "derivative")]
    wrt: Vec<String>,
    /// Return the value of the program beside its derivative.
    #[arg(long, requires = "derivative")]
    with_value: bool,
    /// The parameters that the columns of a Hessian belong to, where they are others than --wrt.
    #[arg(long, value_delimiter = ',', requires = "derivative", value_name = "WRT")]
    columns: Vec<String>,
    /// Of a Jacobian or Hessian, only the entries where as many leading axes of row and column are equal; without a number, its diagonal, which takes
    /// results and parameters of equal shapes.
    #[arg(long, requires = "derivative", value_name = "AXES", num_args = 0..=1, default_missing_value = "16")]
    diagonal: Option<usize>,
    /// Whether a Gauss-Newton matrix or product has weights: a parameter `weight` of the shape of the output.
    #[arg(long, requires = "derivative")]
    weighted: bool,
    #[command(flatten)]
    given: Given,
}

/// Parameters that are computed from others outside of the program.
#[derive(Clone, Debug, Default, Args)]
struct Given {
    /// A parameter y that is computed from others outside of the program, and its derivative as a program: forward, with a parameter dx for
    /// each parameter x that it depends on, or adjoint, with a parameter dy and results adjoint_x.
    #[arg(long, value_name = "NAME=FILE")]
    given: Vec<String>,
    /// A parameter that is computed outside of the program such that a residual is zero, and the program of the residual.
    #[arg(long, value_name = "NAME=FILE")]
    implicit: Vec<String>,
}

impl Given {
    fn is_empty(&self) -> bool {
        self.given.is_empty() && self.implicit.is_empty()
    }

    /// The program with the derivatives that are given; what depends on others comes after them.
    fn of(
        &self,
        program: iverson::ir::term::Program,
        reader: &Reader,
        stages: &mut Stages<'_>,
    ) -> Result<Function, Failure> {
        let mut function = Function::compile(program, stages)?;
        type With = fn(Function, &str, &Function) -> iverson::Result<Function>;
        let kinds: [(&str, &[String], With); 2] = [
            ("--implicit", &self.implicit, Function::with_implicit),
            ("--given", &self.given, Function::with_derivative),
        ];
        for (option, list, with) in kinds {
            for argument in list {
                let Some((name, path)) = argument.split_once('=') else {
                    return Err(Error::Request(format!("{option} takes NAME=FILE, found `{argument}`")).into());
                };
                let derivative = Function::compile(reader.load(Path::new(path))?, stages)?;
                function = with(function, name, &derivative)?;
            }
        }
        Ok(function)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum DerivativeKind {
    /// D f(x; dx): takes a tangent dx of each parameter x.
    #[value(alias = "jvp")]
    Forward,
    /// D^T f(x; dy): takes a seed dy.
    #[value(alias = "vjp")]
    Adjoint,
    /// The adjoint with seed 1, of one real output.
    #[value(alias = "grad")]
    Gradient,
    /// All partial derivatives of each output by each parameter, sparse.
    Jacobian,
    /// The Jacobian of the gradient of one real output.
    Hessian,
    /// The Hessian times a vector: takes a tangent dx of each parameter x.
    Hvp,
    /// J' J of the Jacobian J.
    GaussNewton,
    /// J' J v: takes a tangent dx of each parameter x.
    GaussNewtonProduct,
    /// The transposed program of one that is linear in its parameters: takes a seed dy in their place.
    Transpose,
}

impl From<DerivativeKind> for Mode {
    fn from(kind: DerivativeKind) -> Mode {
        match kind {
            DerivativeKind::Forward => Mode::Forward,
            DerivativeKind::Adjoint => Mode::Adjoint,
            DerivativeKind::Gradient => Mode::Gradient,
            DerivativeKind::Jacobian => Mode::Jacobian,
            DerivativeKind::Hessian => Mode::Hessian,
            DerivativeKind::Hvp => Mode::HessianProduct,
            DerivativeKind::GaussNewton => Mode::GaussNewton,
            DerivativeKind::GaussNewtonProduct => Mode::GaussNewtonProduct,
            DerivativeKind::Transpose => Mode::Transpose,
        }
    }
}

impl Derivative {
    /// The request for a program, if a derivative is wanted.
    fn request(
        &self,
        signature: &iverson::ir::ty::Signature,
        simplify: Option<simplify::Options>,
    ) -> Result<Option<Request>, Error> {
        let Some(kind) = self.derivative else {
            return match self.given.is_empty() {
                true => Ok(None),
                false => Err(Error::Request("without --derivative none goes through --given or --implicit".to_owned())),
            };
        };
        for (option, names) in [("--wrt", &self.wrt), ("--columns", &self.columns)] {
            if names.len() > 1 && names.iter().any(String::is_empty) {
                let found = names.join(",");
                return Err(Error::Request(format!(
                    "{option} takes names with one comma between them, found `{found}`"
                )));
            }
        }
        let wrt = all_or(&self.wrt, signature);
        let request = Request::new(Mode::from(kind), &[]);
        let columns = (!self.columns.is_empty()).then(|| self.columns.clone());
        let part = self.diagonal.map_or(Part::Whole, Part::Diagonal);
        let (with_value, weighted) = (self.with_value, self.weighted);
        Ok(Some(Request { wrt, columns, part, weighted, with_value, simplify, ..request }))
    }
}

/// The names given, or those of all parameters.
fn all_or(names: &[String], signature: &iverson::ir::ty::Signature) -> Vec<String> {
    match names {
        [] => signature.params.values().map(|p| p.name.clone()).collect(),
        names => names.to_vec(),
    }
}

/// A problem, and the program text that it may point into.
struct Failure {
    error: Error,
    source: Option<(String, String)>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, source: None }
    }
}

/// What a command gives: whether every check that it made held.
type Outcome = Result<bool, Failure>;

/// What a file is called in messages.
fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// How programs are read.
struct Reader {
    /// Where imported files are looked for.
    paths: Vec<PathBuf>,
    /// Whether messages are coloured.
    color: bool,
}

impl Reader {
    /// Reads, parses and checks a program file with the files that it imports, and prints warnings; `-` is standard input.
    fn load(&self, path: &Path) -> Result<iverson::ir::term::Program, Failure> {
        let text = files::read_text(path)?;
        let surface::Reading { program, warnings } = self.read(path, &text)?;
        let drawn = error::render_warnings(&shown(path), &text, &warnings, self.color);
        // With standard error gone there is nobody left to tell.
        let _ = std::io::stderr().write_all(drawn.as_bytes());
        Ok(program)
    }

    /// Parses and checks the text of a program file with the files that it imports.
    fn read(&self, path: &Path, text: &str) -> Result<surface::Reading, Failure> {
        let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        surface::read_with(text, &[], &mut |from, import| self.import(&directory, from, import))
            .map_err(|error| Failure { error, source: Some((shown(path), text.to_owned())) })
    }

    /// Finds an imported file beside the file that imports it, or else in one of the directories given.
    fn import(&self, directory: &Path, from: &str, import: &str) -> Result<surface::Import, String> {
        let beside = match from {
            "" => directory.to_path_buf(),
            from => Path::new(from).parent().map(Path::to_path_buf).unwrap_or_default(),
        };
        let found =
            std::iter::once(&beside).chain(&self.paths).map(|place| place.join(import)).find(|file| file.is_file());
        let Some(file) = found else {
            return Err("no such file beside this one, nor in a directory of `--path`".to_owned());
        };
        let text = files::read_text(&file).map_err(|error| error.to_string())?;
        Ok(surface::Import { name: file.display().to_string(), text })
    }
}

/// Runs the tool.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| with_tip(error).exit());
    let color = match cli.color {
        Color::Auto => std::io::stderr().is_terminal(),
        Color::Always => true,
        Color::Never => false,
    };
    let reader = Reader { paths: cli.paths, color };
    let outcome = match &cli.command {
        Command::Check(arguments) => check::run(arguments, &reader),
        Command::Show(arguments) => show::run(arguments, &reader),
        Command::Report(arguments) => report::run(arguments, &reader),
        Command::Run(arguments) => run::run(arguments, &reader),
        Command::Emit(arguments) => emit::run(arguments, &reader),
        Command::CheckDerivative(arguments) => check_derivative::run(arguments, &reader),
        Command::Fmt(arguments) => fmt::run(arguments),
        Command::Completions { shell } => completions(*shell),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            let text = failure.source.as_ref().map_or("", |(_, text)| text);
            let document =
                || format!("{:#}\n", serde_json::json!({ "problems": json::problems(&failure.error, text) }));
            // With standard output gone it is told as to people.
            if !cli.command.is_for_programs() || print(&document()).is_err() {
                tell(&failure, reader.color);
            }
            ExitCode::from(match &failure.error {
                Error::Limitation { .. } => 3,
                Error::Bug { .. } => 70,
                Error::Request(_) => 2,
                _ => 1,
            })
        }
    }
}

/// Names the option that `--gradient` stands for.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return error };
    let Ok(kind) = DerivativeKind::from_str(option.trim_start_matches('-'), false) else { return error };
    let name = kind.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let tip = format!("derivatives are asked for as in `--derivative {name} --wrt x`");
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::Usage);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Prints the script of a shell.
fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "iverson", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(true)
}

/// Says on standard error what went wrong.
fn tell(failure: &Failure, color: bool) {
    let text = match (&failure.error, &failure.source) {
        (error @ (Error::Program(_) | Error::Limitation { span: Some(_), .. }), Some((file, text))) => {
            error::render_error(file, text, error, color)
        }
        (Error::Limit { what: reference::STEPS | kernel::ITERATIONS, .. }, _) => {
            format!("error: {}; --limit sets another\n", failure.error)
        }
        (error, _) => format!("error: {error}\n"),
    };
    // With standard error gone there is nobody left to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A progress bar where a person looks on.
fn progress(template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Writes to standard output. A reader that went away, as `head` does, is no error.
fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::data("standard output", error.to_string()))
        }
        _ => Ok(()),
    }
}

//! `iverson show`.

use std::path::PathBuf;

use clap::ValueEnum;
use iverson::ir::driver::{Nests, Stage, Staged, lower, passes};
use iverson::ir::flow;
use iverson::ir::loops::Program;
use iverson::ir::simplify::{self, Options};
use iverson::ir::stages::Stages;
use iverson::ir::term::{self, Style};
use iverson::{Error, Function, Request};

use super::methods::{self, MethodArgument};
use super::simplification::{SimplifyArguments, compiled, tell};
use super::{Derivative, Outcome, Reader, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    /// The stage to print; of a derivative, surface is the program that it is put together to for reading.
    #[arg(long, value_enum, default_value_t = StageName::Surface)]
    stage: StageName,
    #[command(flatten)]
    derivative: Derivative,
    #[command(flatten)]
    method: MethodArgument,
    /// Of a method other than `adjoint`, the sizes, for which the program of the lambda calculus is made.
    #[arg(long = "size", value_name = "NAME=NUMBER", requires = "method")]
    sizes: Vec<String>,
    /// Simplify the program; derivatives are simplified anyway.
    #[arg(long, conflicts_with = "no_simplify")]
    simplify: bool,
    #[command(flatten)]
    simplification: SimplifyArguments,
    /// Print how the adjoint was found: every application of a rule.
    #[arg(long, requires = "derivative", conflicts_with = "stage")]
    derivation: bool,
    /// Print how many operations the program takes, as formulas in its sizes; of a derivative, beside what the program takes and what
    /// theory promises.
    #[arg(long, conflicts_with_all = ["stage", "format", "derivation"])]
    cost: bool,
    /// Print why: of the stage loops the decisions that lead to each nest, else the equations that lead to the simplified program, each by
    /// named rules.
    #[arg(long, conflicts_with_all = ["format", "no_simplify", "derivation"])]
    explain: bool,
    /// Of the stage loops, parameters whose numbers are the same at each call, separated by commas: print what is computed once, and what at
    /// each call.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    constant: Vec<String>,
    /// Of the stage loops, the pass after which to print; the message about a name that is none lists them.
    #[arg(long, value_name = "PASS", conflicts_with_all = ["explain", "constant"])]
    after: Option<String>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum StageName {
    Surface,
    LetLifting,
    PairElimination,
    GenPushout,
    #[value(alias = "ssa")]
    TensorSsa,
    Simplify,
    Loops,
    EGraph,
}

impl From<StageName> for Stage {
    fn from(name: StageName) -> Stage {
        match name {
            StageName::Surface => Stage::Surface,
            StageName::LetLifting => Stage::LetLifting,
            StageName::PairElimination => Stage::PairElimination,
            StageName::GenPushout => Stage::GenPushout,
            StageName::TensorSsa => Stage::TensorSsa,
            StageName::Simplify | StageName::Loops | StageName::EGraph => Stage::Simplify,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(super) enum Format {
    Text,
    Unicode,
    #[value(alias = "tex")]
    Latex,
    /// MathML, for web pages.
    #[value(name = "mathml")]
    MathMl,
    /// Matrix notation, where a program has one.
    Matrix,
    Json,
    Dot,
}

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  iverson show loss.iv --stage tensor-ssa
  iverson show loss.iv --derivative gradient --wrt w --format latex
  iverson show loss.iv --derivative gradient --wrt w --stage gen-pushout
  iverson show loss.iv --derivative adjoint --wrt w --derivation
  iverson show loss.iv --derivative hessian --wrt w --diagonal
  iverson show loss.iv --derivative gradient --wrt w --cost
  iverson show loss.iv --derivative gradient --wrt w --no-simplify
  iverson show loss.iv --stage simplify --hint n=1000
  iverson show loss.iv --derivative gradient --wrt w --method efficient --size n=3 --size m=2
  iverson show loss.iv --derivative gradient --wrt w --explain
  iverson show loss.iv --derivative gradient --wrt w --stage loops --explain
  iverson show loss.iv --derivative gradient --wrt w --stage loops --constant X,y
  iverson show loss.iv --derivative gradient --wrt w --stage loops --after fuse
  iverson show loss.iv --stage e-graph --rounds 1 --format dot | dot -Tsvg > e-graph.svg
  iverson show loss.iv --stage tensor-ssa --format dot | dot -Tsvg > loss.svg";

/// Prints a program or a derivative.
pub(super) fn run(arguments: &Arguments, reader: &Reader) -> Outcome {
    let (stage, format) = (Stage::from(arguments.stage), arguments.format);
    if arguments.derivation && matches!(format, Format::Json | Format::Dot | Format::Matrix) {
        return Err(Error::Request("a derivation is printed as text, unicode, latex or mathml".to_owned()).into());
    }
    if stage >= Stage::TensorSsa && matches!(format, Format::Unicode | Format::Latex | Format::MathMl | Format::Matrix)
    {
        return Err(Error::Request("Tensor-SSA is printed as text, json or dot".to_owned()).into());
    }
    let program = reader.load(&arguments.file)?;
    let options = arguments.simplification.options(&program.signature)?;
    if arguments.stage != StageName::Loops && stage == Stage::Simplify && options.is_none() {
        return Err(Error::Request("with --no-simplify nothing is simplified".to_owned()).into());
    }
    if arguments.after.is_some() && arguments.stage != StageName::Loops {
        return Err(Error::Request("--after is for the stage loops".to_owned()).into());
    }
    let mut stages = Stages::new();
    if arguments.explain && !matches!(arguments.stage, StageName::Surface | StageName::Loops) {
        return Err(Error::Request("only simplification and the stage loops are explained".to_owned()).into());
    }
    if !arguments.constant.is_empty() && arguments.stage != StageName::Loops {
        return Err(Error::Request("parameters are constant in the stage loops only".to_owned()).into());
    }
    if arguments.stage == StageName::Loops {
        return loops(arguments, program, reader, options);
    }
    if arguments.explain || arguments.stage == StageName::EGraph {
        return inspect(arguments, program, reader, &options.unwrap_or_default());
    }
    let request = arguments.derivative.request(&program.signature, options.clone())?;
    if request.is_none() && !arguments.simplify && stage != Stage::Simplify {
        arguments.simplification.unused()?;
    }
    let given = !arguments.derivative.given.is_empty();
    if let Some(method) = arguments.method.of_lambda(request.as_ref(), given)? {
        if stage != Stage::Surface || format != Format::Text || arguments.cost || arguments.derivation {
            return Err(
                Error::Request("terms of the lambda calculus are printed as text, and as they are".to_owned()).into()
            );
        }
        print(&methods::transformed(&program, method, &arguments.sizes)?)?;
        return Ok(true);
    }
    let function = match request {
        Some(request) => {
            let request = Request { derivation: arguments.derivation, ..request };
            let function = arguments.derivative.given.of(program, reader, &mut stages)?;
            let derived = function.derive_in(&request, &mut stages)?;
            derived.simplification.iter().for_each(|report| tell(report, options.as_ref()));
            if arguments.cost {
                // What nothing is proved of has a cost of its own.
                let has_fixpoints = function.flow().is_some_and(flow::Program::has_fixpoints);
                print(&match request.mode.theorem() {
                    Some(_) if arguments.derivative.given.is_empty() && !has_fixpoints => {
                        function.certify(&derived.function, request.mode)?.to_string()
                    }
                    _ => derived.function.cost()?.to_string(),
                })?;
                return Ok(true);
            }
            if let Some(derivation) = derived.derivation {
                print(&derivation.print(match format {
                    Format::Unicode => Style::Unicode,
                    Format::Latex => Style::Latex,
                    Format::MathMl => Style::MathMl,
                    Format::Text | Format::Matrix | Format::Json | Format::Dot => Style::Ascii,
                }))?;
                return Ok(true);
            }
            derived.function
        }
        None if arguments.simplify || stage == Stage::Simplify => {
            let options = options.unwrap_or_default();
            let simplified = Function::compile(program, &mut stages)?.simplify_with(&options)?;
            tell(&simplified.report, Some(&options));
            if arguments.cost {
                print(&simplified.function.cost()?.to_string())?;
                return Ok(true);
            }
            simplified.function
        }
        None if arguments.cost => {
            print(&Function::compile(program, &mut stages)?.cost()?.to_string())?;
            return Ok(true);
        }
        None => return show(lower(&program, stage, &mut stages)?, format),
    };
    match stage {
        Stage::TensorSsa | Stage::Simplify => show(
            match function.flow() {
                Some(flow) => Staged::Flow(flow.clone()),
                None => Staged::TensorSsa(function.tensor_ssa().clone()),
            },
            format,
        ),
        stage => show(lower(&function.term()?, stage, &mut stages)?, format),
    }
}

/// Prints the loop nests of a program or a derivative; of a matrix those that list its entries, and those that compute their numbers.
fn loops(arguments: &Arguments, program: term::Program, reader: &Reader, options: Option<Options>) -> Outcome {
    if arguments.format != Format::Text {
        return Err(Error::Request("loop nests are printed as text".to_owned()).into());
    }
    if let Some(pass) = arguments.after.as_deref().filter(|pass| !passes().any(|known| known == *pass)) {
        let known: Vec<&str> = passes().collect();
        return Err(Error::Request(format!("no pass is named `{pass}`; there are {}", known.join(", "))).into());
    }
    let (function, blocks) = compiled(&arguments.derivative, program, reader, options)?;
    if arguments.after.is_some() && function.flow().is_some() {
        let feature = "the loop nests between the passes of a program with loops over time".to_owned();
        return Err(Error::Limitation { feature, span: None }.into());
    }
    let mut shown = None;
    let mut stages = Stages::observed(|pass, program| {
        if arguments.after.as_deref() == Some(pass) {
            shown = Some(program.to_string());
        }
    });
    let text = |nests: &Program| if arguments.explain { nests.explained_with_proofs() } else { nests.to_string() };
    let constants: Vec<&str> = arguments.constant.iter().map(String::as_str).collect();
    let Nests { structure, setup, main } = function.nests(&blocks, &constants, &mut stages)?;
    drop(stages);
    if arguments.after.is_some() {
        let Some(shown) = shown else {
            return Err(Error::Request("the pass `structure` runs for sparse results alone".to_owned()).into());
        };
        print(&shown)?;
        return Ok(true);
    }
    if let Some(structure) = &structure {
        print(&format!("# entries, once\n{}\n", text(structure)))?;
    }
    let head = match &setup {
        Some(setup) => format!("# once\n{}\n# at each call\n", text(setup)),
        None if structure.is_some() => "# numbers, at each call\n".to_owned(),
        None => String::new(),
    };
    print(&(head + &text(&main)))?;
    Ok(true)
}

/// Prints how simplification went: its equations, or its e-graph.
fn inspect(arguments: &Arguments, program: term::Program, reader: &Reader, options: &Options) -> Outcome {
    if !arguments.explain && arguments.format != Format::Dot {
        return Err(Error::Request("the stage e-graph is printed as dot".to_owned()).into());
    }
    let mut stages = Stages::new();
    let request = arguments.derivative.request(&program.signature, None)?;
    let mut function = arguments.derivative.given.of(program, reader, &mut stages)?;
    if let Some(request) = request {
        function = function.derive_in(&request, &mut stages)?.function;
    }
    if function.flow().is_some() {
        // Says what there is not.
        function.explain()?;
    }
    print(&match arguments.explain {
        true => simplify::explain(function.tensor_ssa(), options)?.to_string(),
        false => simplify::to_dot(function.tensor_ssa(), options)?,
    })?;
    Ok(true)
}

fn show(staged: Staged, format: Format) -> Outcome {
    let text = match (&staged, format) {
        (Staged::Term(program), Format::Text) => program.print(Style::Ascii),
        (Staged::Term(program), Format::Unicode) => program.print(Style::Unicode),
        (Staged::Term(program), Format::Latex) => program.print(Style::Latex),
        (Staged::Term(program), Format::MathMl) => program.print(Style::MathMl),
        (Staged::Term(program), Format::Matrix) => {
            Function::compile(program.clone(), &mut Stages::new())?.matrix_notation()?
        }
        (Staged::Term(program), Format::Json) => program.to_json()?,
        (Staged::Term(program), Format::Dot) => program.to_dot(),
        (Staged::TensorSsa(program), Format::Json) => program.to_json()?,
        (Staged::TensorSsa(program), Format::Dot) => program.to_dot(),
        (Staged::Flow(program), Format::Json) => program.to_json()?,
        (Staged::Flow(_), Format::Dot) => {
            let feature = "the picture of a program with loops".to_owned();
            return Err(Error::Limitation { feature, span: None }.into());
        }
        (
            Staged::TensorSsa(program),
            Format::Text | Format::Unicode | Format::Latex | Format::MathMl | Format::Matrix,
        ) => program.to_string(),
        (Staged::Flow(program), _) => program.to_string(),
    };
    print(&text)?;
    if !text.ends_with('\n') {
        print("\n")?;
    }
    Ok(true)
}

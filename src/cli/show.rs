//! `iverson show`.

use std::path::PathBuf;

use clap::ValueEnum;
use iverson::Error;
use iverson::driver::{Function, Stage, Staged, lower};
use iverson::stages::Stages;
use iverson::term::Style;

use super::{Derivative, DerivativeKind, Outcome, load, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    /// The stage to print; of a derivative, surface is the program that it is put together to for reading.
    #[arg(long, value_enum, default_value_t = StageName::Surface)]
    stage: StageName,
    #[command(flatten)]
    derivative: Derivative,
    /// Print how the adjoint was found: every application of a rule.
    #[arg(long, requires = "derivative", conflicts_with_all = ["stage", "format"])]
    derivation: bool,
    /// Print how many operations the program takes, as formulas in its sizes; of a derivative, beside what the program takes and what
    /// theory promises.
    #[arg(long, conflicts_with_all = ["stage", "format", "derivation"])]
    cost: bool,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum StageName {
    Surface,
    LetLifting,
    PairElimination,
    GenPushout,
    TensorSsa,
}

impl From<StageName> for Stage {
    fn from(name: StageName) -> Stage {
        match name {
            StageName::Surface => Stage::Surface,
            StageName::LetLifting => Stage::LetLifting,
            StageName::PairElimination => Stage::PairElimination,
            StageName::GenPushout => Stage::GenPushout,
            StageName::TensorSsa => Stage::TensorSsa,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Format {
    Text,
    Unicode,
    Latex,
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
  iverson show loss.iv --derivative gradient --wrt w --cost
  iverson show loss.iv --stage tensor-ssa --format dot | dot -Tsvg > loss.svg";

/// Prints a program or a derivative.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let (stage, format) = (Stage::from(arguments.stage), arguments.format);
    if stage == Stage::TensorSsa && matches!(format, Format::Unicode | Format::Latex) {
        return Err(Error::Request("the stage tensor-ssa is printed as text, json or dot".to_owned()).into());
    }
    if arguments.derivation && arguments.derivative.kind() == Some(DerivativeKind::Forward) {
        return Err(Error::Request("only an adjoint or a gradient has a derivation".to_owned()).into());
    }
    let program = load(&arguments.file)?;
    let mut stages = Stages::new();
    let Some(mut request) = arguments.derivative.request(&program.signature) else {
        if arguments.cost {
            print(&Function::compile(program, &mut stages)?.cost()?.to_string())?;
            return Ok(true);
        }
        return show(lower(&program, stage, &mut stages)?, format);
    };
    request.derivation = arguments.derivation;
    let function = Function::compile(program, &mut stages)?;
    let derived = function.derive(&request, &mut stages)?;
    if arguments.cost {
        print(&function.certify(&derived.function, request.mode)?.to_string())?;
        return Ok(true);
    }
    if let Some(derivation) = derived.derivation {
        print(&derivation.to_string())?;
        return Ok(true);
    }
    match stage {
        Stage::TensorSsa => show(Staged::TensorSsa(derived.function.tensor_ssa().clone()), format),
        stage => show(lower(&derived.function.term()?, stage, &mut stages)?, format),
    }
}

fn show(staged: Staged, format: Format) -> Outcome {
    let text = match (&staged, format) {
        (Staged::Term(program), Format::Text) => program.print(Style::Ascii),
        (Staged::Term(program), Format::Unicode) => program.print(Style::Unicode),
        (Staged::Term(program), Format::Latex) => program.print(Style::Latex),
        (Staged::Term(program), Format::Json) => program.to_json()?,
        (Staged::Term(program), Format::Dot) => program.to_dot(),
        (Staged::TensorSsa(program), Format::Json) => program.to_json()?,
        (Staged::TensorSsa(program), Format::Dot) => program.to_dot(),
        (Staged::TensorSsa(program), Format::Text | Format::Unicode | Format::Latex) => program.to_string(),
    };
    print(&text)?;
    if !text.ends_with('\n') {
        print("\n")?;
    }
    Ok(true)
}

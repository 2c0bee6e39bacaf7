//! `iverson show`.

use std::path::PathBuf;

use clap::ValueEnum;
use iverson::driver::{Function, Stage, Staged, lower};
use iverson::stages::Stages;
use iverson::term::Style;
use iverson::{Error, term, tssa};

use super::{Derivative, Outcome, load, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    /// The stage to print. A derivative is printed as a program unless the stage is tensor-ssa.
    #[arg(long, value_enum)]
    stage: Option<StageName>,
    #[command(flatten)]
    derivative: Derivative,
    /// Print how the adjoint was found: every application of a rule.
    #[arg(long, requires = "derivative")]
    derivation: bool,
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

/// Prints a program or a derivative.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let program = load(&arguments.file)?;
    let mut stages = Stages::new();
    let Some(mut request) = arguments.derivative.request(&program.signature) else {
        let stage = arguments.stage.map_or(Stage::Surface, Stage::from);
        return match lower(&program, stage, &mut stages)? {
            Staged::Term(program) => show_term(&program, arguments.format),
            Staged::TensorSsa(program) => show_tensor_ssa(&program, arguments.format),
        };
    };
    request.derivation = arguments.derivation;
    let derived = Function::compile(program, &mut stages)?.derive(&request, &mut stages)?;
    if arguments.derivation {
        let Some(derivation) = derived.derivation else {
            return Err(Error::Request("only adjoints and gradients have a derivation".to_owned()).into());
        };
        print(&derivation.to_string())?;
        return Ok(true);
    }
    match arguments.stage {
        None => show_term(&derived.function.term()?, arguments.format),
        Some(StageName::TensorSsa) => show_tensor_ssa(derived.function.tensor_ssa(), arguments.format),
        Some(_) => Err(Error::Request(
            "a derivative has one stage to print, tensor-ssa; without --stage it is put together for reading"
                .to_owned(),
        )
        .into()),
    }
}

fn show_term(program: &term::Program, format: Format) -> Outcome {
    print(&match format {
        Format::Text => program.print(Style::Ascii),
        Format::Unicode => program.print(Style::Unicode),
        Format::Latex => program.print(Style::Latex),
        Format::Json => program.to_json()?,
        Format::Dot => program.to_dot(),
    })?;
    Ok(true)
}

fn show_tensor_ssa(program: &tssa::Program, format: Format) -> Outcome {
    print(&match format {
        Format::Text => program.to_string(),
        Format::Json => program.to_json()?,
        Format::Dot => program.to_dot(),
        Format::Unicode | Format::Latex => {
            return Err(Error::Request("tensor-ssa is printed as text, json or dot".to_owned()).into());
        }
    })?;
    Ok(true)
}

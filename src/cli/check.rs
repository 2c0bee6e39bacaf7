//! `iverson check`.

use std::path::PathBuf;

use iverson::ty::RelationKind;

use super::{Outcome, load, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
}

/// Checks a program and says what it takes.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let program = load(&arguments.file)?;
    let signature = &program.signature;
    let relations = signature.relations.values().filter(|r| !matches!(r.kind, RelationKind::Pattern(_))).count();
    print(&format!(
        "{}: sound; {} terms, {} parameters, {relations} relations, {} sizes, every access in bounds\n",
        arguments.file.display(),
        program.terms.len(),
        signature.params.len(),
        signature.sizes.len(),
    ))?;
    Ok(true)
}

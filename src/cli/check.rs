//! `iverson check`.

use std::path::PathBuf;

use iverson::ty::RelationKind;

use super::{Outcome, Reader, print, shown};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
}

/// Checks a program and says how much it holds.
pub(super) fn run(arguments: &Arguments, reader: &Reader) -> Outcome {
    let program = reader.load(&arguments.file)?;
    let signature = &program.signature;
    let relations = signature.relations.values().filter(|r| !matches!(r.kind, RelationKind::Pattern(_))).count();
    print(&format!(
        "{}: sound, every access in bounds; {}, {}, {}, {}\n",
        shown(&arguments.file),
        count(signature.params.len(), "parameter"),
        count(relations, "relation"),
        count(signature.sizes.len(), "size"),
        count(program.terms.len(), "term"),
    ))?;
    Ok(true)
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

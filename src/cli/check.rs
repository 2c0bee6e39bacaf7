//! `iverson check`.

use std::path::PathBuf;

use iverson::ir::surface::Reading;
use iverson::ir::term::Program;
use serde_json::json;

use super::files::read_text;
use super::{Outcome, Output, Reader, json, print, shown};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The program, or `-` for standard input.
    file: PathBuf,
    /// How to say what is found.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(super) format: Output,
}

/// How much a program holds.
struct Counts {
    parameters: usize,
    relations: usize,
    sizes: usize,
    terms: usize,
}

impl Counts {
    fn of(program: &Program) -> Counts {
        let signature = &program.signature;
        let relations = signature.relations.values().filter(|r| r.kind.is_given()).count();
        let (parameters, sizes) = (signature.params.len(), signature.sizes.len());
        Counts { parameters, relations, sizes, terms: program.terms.len() }
    }
}

/// Checks a program and says how much it holds.
pub(super) fn run(arguments: &Arguments, reader: &Reader) -> Outcome {
    match arguments.format {
        Output::Text => {
            let Counts { parameters, relations, sizes, terms } = Counts::of(&reader.load(&arguments.file)?);
            print(&format!(
                "{}: sound, every access in bounds; {}, {}, {}, {}\n",
                shown(&arguments.file),
                count(parameters, "parameter"),
                count(relations, "relation"),
                count(sizes, "size"),
                count(terms, "term"),
            ))?;
            Ok(true)
        }
        Output::Json => {
            let text = read_text(&arguments.file)?;
            let read = reader.read(&arguments.file, &text);
            let document = match &read {
                Ok(Reading { program, warnings }) => {
                    let Counts { parameters, relations, sizes, terms } = Counts::of(program);
                    json!({
                        "sound": true,
                        "parameters": parameters,
                        "relations": relations,
                        "sizes": sizes,
                        "terms": terms,
                        "warnings": json::diagnostics(warnings),
                    })
                }
                Err(failure) => json!({ "sound": false, "problems": json::problems(&failure.error, &text) }),
            };
            print(&format!("{document:#}\n"))?;
            Ok(read.is_ok())
        }
    }
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

//! The stages of the compiler side by side, from the checked program to loops; and the scheduled loops with what led to them.

use super::page::{Limits, Page};
use super::{Nests, Shown, TEXT, heading};
use crate::driver::{Stage, lower};
use crate::error::Result;
use crate::stages::Stages;

/// How much of the loops is shown.
const LOOPS: Limits = Limits { lines: 400, characters: 32_000 };

/// A stage: its name, what its form is, and its text.
type Column = (String, &'static str, String);

/// The section of stages.
///
/// # Errors
/// Those of [`lower`].
pub(super) fn section(
    page: &mut Page,
    shown: &Shown<'_>,
    passes: Vec<(&'static str, String)>,
    nests: &Nests,
) -> Result<()> {
    heading(page, "stages", "Stages");
    page.paragraph("The forms that the program takes on its way to loops. A pass that changes nothing is named only.");
    let term = shown.function.term()?;
    let mut forms: Vec<(&'static str, String)> = vec![("checked program", term.to_string())];
    let mut observe = Stages::observed(|pass, program| forms.push((pass, program.to_string())));
    lower(&term, Stage::TensorSsa, &mut observe)?;
    drop(observe);
    page.element("h3", &[], "The program");
    let last = (shown.derived.is_none()).then(|| ("lower", nests.lowered.clone()));
    columns(page, forms.into_iter().chain(last));
    if shown.derived.is_some() {
        page.element("h3", &[], "The derivative");
        columns(page, passes.into_iter().chain([("lower", nests.lowered.clone())]));
    }
    Ok(())
}

/// What a stage is, by the name of its pass.
fn explained(pass: &str) -> &'static str {
    match pass {
        "checked program" => "Names, sizes and types are resolved, and every access is proved to be in bounds.",
        "let-lifting" => "Variables are bound at the top only.",
        "pair-elimination" => "Pairs are inputs and outputs only.",
        "gen-pushout" => "Every right-hand side makes a tensor, element by element.",
        "tensor-ssa" => "Statements of six forms over whole tensors.",
        "adjoint" => "What the derivation ends with.",
        "forward" => "Every statement, with its tangent behind it.",
        "jacobian" | "gauss-newton" => "One-hot tensors through the derivative, which leave sums out.",
        "transpose" => "The linear program read from its results to its inputs.",
        "expand-partials" => "Partial derivatives of scalar functions are expressions.",
        "simplify" => "The same function for no more work.",
        "lower" => "A nest of loops for each tensor that is stored, before the loops are scheduled.",
        _ => "",
    }
}

/// The texts of stages beside each other; what is unchanged is named with what it is like.
fn columns(page: &mut Page, forms: impl Iterator<Item = (&'static str, String)>) {
    let mut columns: Vec<Column> = Vec::new();
    for (pass, text) in forms {
        match columns.last_mut().filter(|(_, _, before)| *before == text) {
            Some((names, _, _)) => names.push_str(&format!(", {pass} (unchanged)")),
            None => columns.push((pass.to_owned(), explained(pass), text)),
        }
    }
    page.open("div", &[("class", "columns")]);
    for (names, meaning, text) in columns {
        page.open("div", &[]);
        page.element("h4", &[], &names);
        page.element("p", &[("class", "quiet")], meaning);
        page.listing(&text, TEXT);
        page.close();
    }
    page.close();
}

/// The section of loops.
pub(super) fn loops(page: &mut Page, shown: &Shown<'_>, nests: &Nests) {
    heading(page, "loops", "Loops");
    page.paragraph(&format!(
        "What runs for {}: loop nests over buffers, after scheduling. Lines with `#` say which decisions led to each nest, and, at the end, what \
         could not be proved of them.",
        shown.result_name()
    ));
    let nests = &nests.nests;
    if let Some(structure) = &nests.structure {
        page.element("h3", &[], "Once: the entries of sparse results");
        page.listing(&structure.explained_with_proofs(), LOOPS);
        page.element("h3", &[], "At each call: their numbers");
    }
    page.listing(&nests.main.explained_with_proofs(), LOOPS);
}

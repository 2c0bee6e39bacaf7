//! A program typeset and as text. *Refused* is the typesetting of programs that are longer or deeper than a browser shows well; their text remains.

use super::page::Page;
use super::{Shown, TEXT, heading};
use crate::driver::{Derived, Function};
use crate::error::{Origin, Result};
use crate::simplify::Stop;
use crate::term::Style;

/// How long the MathML of a formula may be, in bytes, and how many of its elements may stand inside of each other.
const FORMULA: usize = 120_000;
const DEPTH: usize = 120;

/// The section of the program.
pub(super) fn program(page: &mut Page, shown: &Shown<'_>) -> Result<()> {
    heading(page, "program", "Program");
    let checked = shown.function.term()?;
    typeset(page, &checked.print(Style::MathMl), "The program");
    page.open("div", &[("class", "columns")]);
    if let Some(text) = &shown.options.text {
        page.open("div", &[]);
        page.element("h3", &[], "As it was written");
        page.listing(text, TEXT);
        page.close();
    }
    page.open("div", &[]);
    page.element("h3", &[], "As it was checked");
    page.listing(&checked.to_string(), TEXT);
    page.element("p", &[("class", "quiet")], "Sizes, types and bounds are known, and definitions are written out.");
    page.close();
    page.close();
    let warnings: Vec<_> = shown.options.warnings.iter().chain(shown.function.warnings()).collect();
    if !warnings.is_empty() {
        page.element("h3", &[], "Easily misread");
        page.open("ul", &[]);
        for warning in warnings {
            page.open("li", &[]);
            if let Some(Origin::Text { line, .. }) = &warning.origin {
                page.text(&format!("Line {line}: "));
            }
            page.words(&warning.message);
            if let Some(help) = &warning.help {
                page.text("; ");
                page.words(help);
            }
            page.close();
        }
        page.close();
    }
    Ok(())
}

/// The section of the derivative.
pub(super) fn derivative(page: &mut Page, shown: &Shown<'_>, derived: &Derived) -> Result<()> {
    heading(page, "derivative", "Derivative");
    page.paragraph(&format!(
        "The {}. It is a program of the same language: it can be checked, run and differentiated again.",
        shown.derivative_name()
    ));
    let function: &Function = &derived.function;
    if !derived.added.is_empty() {
        let added: Vec<String> = derived.added.iter().map(|name| format!("`{name}`")).collect();
        page.paragraph(&format!("It takes {} beside the parameters of the program.", added.join(", ")));
    }
    let term = function.term()?;
    typeset(page, &term.print(Style::MathMl), "The derivative");
    if let Ok(notation) = function.matrix_notation() {
        page.element("h3", &[], "In matrix notation");
        page.listing(&notation, TEXT);
    }
    page.element("h3", &[], "As text");
    page.listing(&term.to_string(), TEXT);
    match &derived.simplification {
        None => page.paragraph("It was not simplified: it is what the rules of differentiation give."),
        Some(report) if report.stop != Stop::Saturated => {
            page.paragraph("Simplification ended at its budget, so there may be a simpler form.");
        }
        Some(_) => {}
    }
    if derived.derivation.is_none() {
        page.paragraph(
            "Adjoints and gradients have a derivation, which is shown step by step; other derivatives have none.",
        );
    }
    Ok(())
}

/// A formula, if a browser shows it well.
pub(super) fn typeset(page: &mut Page, mathml: &str, what: &str) -> bool {
    let fits = mathml.len() <= FORMULA && depth(mathml) <= DEPTH;
    if fits {
        page.open("div", &[("class", "formula"), ("role", "group"), ("aria-label", what)]);
        page.markup(mathml);
        page.close();
    } else {
        page.cut("Not typeset here: the formula is longer or deeper than a browser shows well.");
    }
    fits
}

/// How many elements stand inside of each other.
fn depth(markup: &str) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for tag in markup.split('<').skip(1) {
        if tag.starts_with('/') {
            open = open.saturating_sub(1);
        } else if !tag.split_once('>').is_some_and(|(tag, _)| tag.ends_with('/')) {
            open += 1;
            most = most.max(open);
        }
    }
    most
}

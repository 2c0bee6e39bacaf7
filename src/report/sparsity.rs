//! The section of sparsity patterns: for the inputs given, or for small ones that are made up, which the section says.

use super::page::Page;
use super::patterns::{self, Patterns};
use super::picture::CELLS;
use super::{Shown, heading, samples};
use crate::error::Result;
use crate::tensor::bind;

/// How many pictures there are at most for inputs, and for results.
const PICTURES: usize = 8;

/// The section.
///
/// # Errors
/// Those of binding the inputs given.
pub(super) fn section(page: &mut Page, shown: &Shown<'_>) -> Result<()> {
    heading(page, "sparsity", "Sparsity");
    let signature = &shown.function.tensor_ssa().signature;
    let given = shown.options.inputs.as_ref();
    let Some(mut inputs) = given.map_or_else(|| samples::inputs(signature), |inputs| Ok(Some(inputs.clone())))? else {
        page.paragraph("No small sizes satisfy the assumptions of the program, of those that were tried; with inputs, their patterns are shown.");
        return Ok(());
    };
    let bindings = bind(signature, &inputs)?;
    let sizes: Vec<String> =
        signature.sizes.iter().zip(bindings.sizes().values()).map(|((_, name), n)| format!("`{name} = {n}`")).collect();
    for (name, n) in signature.sizes.values().zip(bindings.sizes().values()) {
        inputs.size(name.clone(), *n);
    }
    let sizes = match sizes.as_slice() {
        [] => String::new(),
        sizes => format!(" Here {}.", sizes.join(", ")),
    };
    page.paragraph(&match given {
        Some(_) => format!("Where tensors have entries, for the inputs given.{sizes}"),
        None => format!(
            "Where tensors have entries, for small inputs that are made up: patterns and maps at random, the same each time.{sizes}"
        ),
    });
    pictures(page, "Inputs", patterns::of_inputs(shown.function, &bindings));
    let what = if shown.derived.is_some() { "Results of the derivative" } else { "Results" };
    pictures(page, what, patterns::of_results(shown.result(), &inputs)?);
    Ok(())
}

fn pictures(page: &mut Page, what: &str, Patterns { pictures, notes }: Patterns) {
    page.element("h3", &[], what);
    if !pictures.is_empty() {
        page.open("div", &[("class", "patterns")]);
        pictures.iter().take(PICTURES).for_each(|picture| picture.draw(page));
        page.close();
    }
    notes.iter().for_each(|note| page.paragraph(note));
    if pictures.iter().any(|picture| picture.is_binned()) {
        page.element("p", &[("class", "quiet")], &format!(
            "A picture has at most {CELLS} × {CELLS} cells; a cell of a larger tensor stands for several places, and is the darker the more \
             of them have entries."
        ));
    }
    if pictures.len() > PICTURES {
        page.cut(&format!("Cut here: of {} patterns, {PICTURES} are shown.", pictures.len()));
    }
}

//! What the program and the derivative cost: scalar operations and memory as formulas in the sizes, and what is proved of the ratio. Formulas that
//! have more than [`TERMS`] terms are cut.

use std::collections::BTreeMap;

use super::page::{Limits, Page};
use super::{Nests, Shown, heading};
use crate::base::typeset::{inline, inline_rest};
use crate::certificate::Cost;
use crate::error::Result;
use crate::loops::{BufferKind, Program};

/// How many terms of a formula are shown, and how many characters one has that is typeset.
const TERMS: usize = 40;
const TERM: usize = 70;
/// How much of what is said of the ratio is shown.
const TEXT: Limits = Limits { lines: 40, characters: 2_000 };

/// The section.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow).
pub(super) fn section(page: &mut Page, shown: &Shown<'_>, nests: &Nests) -> Result<()> {
    heading(page, "cost", "Cost");
    page.paragraph(
        "Scalar operations, counted exactly, as formulas in the sizes. `|A?|` counts the entries of `A`, `[p]` is 1 where `p` holds and else 0. Inputs \
         and outputs are counted in numbers.",
    );
    let program = shown.function.cost()?;
    let derivative = shown.derived.map(|derived| derived.function.cost()).transpose()?;
    table(page, &program, derivative.as_ref());
    let request = shown.options.derivative.as_ref();
    let certificate = match (shown.derived, request.map(|request| request.mode)) {
        (Some(derived), Some(mode)) if mode.theorem().is_some() => shown.function.certify(&derived.function, mode).ok(),
        _ => None,
    };
    match (certificate, &derivative) {
        (Some(certificate), _) => page.listing(&certificate.comparison_text(), TEXT),
        (None, Some(derivative)) => page.listing(&derivative.growth_text(), TEXT),
        (None, None) => page.listing(&program.growth_text(), TEXT),
    }
    page.element("h3", &[], "Memory");
    let (workspaces, terms) = workspaces(&nests.nests.main);
    if workspaces == 0 {
        page.paragraph(&format!("The loops of {} store nothing but results.", shown.result_name()));
        return Ok(());
    }
    let noun = if workspaces == 1 { "tensor" } else { "tensors" };
    page.paragraph(&format!(
        "Beside inputs and outputs, the loops of {} store {workspaces} {noun}, each number in 8 bytes. They have so many numbers:",
        shown.result_name()
    ));
    page.open("p", &[]);
    sum(page, &terms);
    page.close();
    Ok(())
}

fn table(page: &mut Page, program: &Cost, derivative: Option<&Cost>) {
    let program = program.formulas();
    let derivative = derivative.map(Cost::formulas);
    page.open("table", &[]);
    page.open("thead", &[]);
    page.open("tr", &[]);
    let columns = ["", "program", "derivative"];
    for name in &columns[..if derivative.is_some() { 3 } else { 2 }] {
        page.element("th", &[("scope", "col")], name);
    }
    page.close();
    page.close();
    page.open("tbody", &[]);
    let names = program.iter().map(|(name, _)| *name);
    let others = derivative
        .iter()
        .flatten()
        .map(|(name, _)| *name)
        .filter(|name| program.iter().all(|(other, _)| other != name));
    for name in names.chain(others) {
        page.open("tr", &[]);
        page.element("th", &[("scope", "row")], name);
        for rows in std::iter::once(&program).chain(&derivative) {
            page.open("td", &[]);
            match rows.iter().find(|(other, _)| *other == name) {
                Some((_, terms)) => sum(page, terms),
                None => sum(page, &["0".to_owned()]),
            }
            page.close();
        }
        page.close();
    }
    for _ in 0..2 {
        page.close();
    }
}

/// A sum by its terms, between which lines may end.
fn sum(page: &mut Page, terms: &[String]) {
    for (at, term) in terms.iter().take(TERMS).enumerate() {
        match (term.chars().count() <= TERM, at) {
            (false, _) => page.element("code", &[], term),
            (true, 0) => page.markup(&inline(term)),
            (true, _) => page.markup(&inline_rest(term.trim_start())),
        }
        page.text(" ");
    }
    if terms.len() > TERMS {
        page.element("span", &[("class", "cut")], &format!("and so on, {} terms", terms.len()));
    }
}

/// How many intermediate results loops store, and how many numbers these have as a formula.
fn workspaces(program: &Program) -> (usize, Vec<String>) {
    let mut mentioned = program.mentioned_buffers();
    mentioned.sort_unstable();
    mentioned.dedup();
    let mut terms: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = 0;
    let found = mentioned.iter().filter_map(|id| program.buffers.get(*id));
    for buffer in found.filter(|buffer| buffer.kind == BufferKind::Workspace) {
        count += 1;
        let entries = buffer.entries.map(|r| {
            let name = program.signature.relations.get(r).map_or("", |relation| &relation.name);
            format!("|{name}|")
        });
        let dims = buffer.dims.iter().map(|n| {
            let text = program.affine_text(n);
            if n.terms().len() + usize::from(n.offset() != 0) > 1 && buffer.rank() > 1 {
                format!("({text})")
            } else {
                text
            }
        });
        let product: Vec<String> = entries.into_iter().chain(dims).collect();
        let product = if product.is_empty() { "1".to_owned() } else { product.join("*") };
        *terms.entry(product).or_default() += 1;
    }
    let term = |(at, (product, times)): (usize, (&String, &usize))| {
        let sign = if at > 0 { "+ " } else { "" };
        match times {
            1 => format!("{sign}{product}"),
            times if product.contains(' ') && !product.contains('(') => format!("{sign}{times}*({product})"),
            times => format!("{sign}{times}*{product}"),
        }
    };
    (count, terms.iter().enumerate().map(term).collect())
}

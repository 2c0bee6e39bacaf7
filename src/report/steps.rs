//! The derivation of an adjoint: every application of a rule, and what it took and made. *Cut* are derivations of more than [`STEPS`] steps or [`BYTES`] bytes; those of
//! long programs are text, not typeset.

use super::formulas::typeset;
use super::page::{Limits, Page};
use super::{Shown, heading};
use crate::driver::Derived;
use crate::term::Style;

/// How many steps are shown, and how many bytes of them.
const STEPS: usize = 120;
const BYTES: usize = 600_000;
/// Up to how many steps are shown without being asked for.
const MOST_OPEN: usize = 12;
/// Up to how many statements the program of a derivation that is typeset may have.
const STATEMENTS: usize = 60;
/// How much of a step is shown.
const STEP: Limits = Limits { lines: 60, characters: 6_000 };

/// The section of the derivation, if there is one.
pub(super) fn derivation(page: &mut Page, shown: &Shown<'_>, derived: &Derived) {
    let Some(derivation) = &derived.derivation else { return };
    heading(page, "derivation", "Derivation");
    page.paragraph(
        "How the adjoint is found, rule by rule, before it is simplified. Each step replaces the part above `=` by the part below; behind `:` \
         stands what is left then. Numbers are those of the rules in “Differentiating a Tensor Language”. `⟨a | b⟩` is the inner product \
         of two tensors, `D(e)` the derivative of `e`.",
    );
    let mathematics = shown.function.tensor_ssa().stmts.len() <= STATEMENTS;
    let style = if mathematics { Style::MathMl } else { Style::Unicode };
    let (given, steps) = derivation.parts(style, STEPS, BYTES);
    let part = |page: &mut Page, text: &str, what: &str| match mathematics {
        true => {
            typeset(page, text, what);
        }
        false => page.listing(text, STEP),
    };
    part(page, &given, "What is given");
    let all = derivation.steps.len();
    let open: &[(&str, &str)] = if all <= MOST_OPEN { &[("open", "open")] } else { &[] };
    page.open("details", open);
    page.element("summary", &[], &format!("The {all} steps"));
    page.open("ol", &[("class", "steps")]);
    for (at, (step, text)) in derivation.steps.iter().zip(&steps).enumerate() {
        page.open("li", &[]);
        page.element("b", &[], step.title);
        page.element("span", &[("class", "quiet")], &format!(" ({})", step.rule));
        part(page, text, &format!("Step {}", at + 1));
        page.close();
    }
    page.close();
    page.close();
    if all > steps.len() {
        page.cut(&format!("Cut here: the derivation has {all} steps, of which {} are shown.", steps.len()));
    }
}

//! The places of an access: indices, whole axes and parts of axes.
//!
//! ```text
//! x[a:b]       ==  gen s < b - a. x[a + s]                     for x : [n]; x[a:] is x[a:n], x[:b] is x[0:b]
//! x[a:b:k]     ==  gen s < (b - a + k - 1) // k. x[a + k*s]    every k-th place, k a positive integer
//! x[::-1]      ==  gen s < n. x[n - 1 - s]
//! x[-1]        ==  x[n - 1]                                    a negative integer alone counts from the end, as an end of a part too
//! x[-k]        ==  x[n - k]                                    for a size k, and x[:-k] is x[:n - k]
//! x[:, None]   ==  gen i < n, o < 1. x[i]                      one more axis, of length 1: see `added`
//! ```
//!
//! No place is negative, so there is one reading. Every place of a part is proved in bounds, as any access is: `x[a:b]` is never cut off where
//! `b` is beyond the axis. A part has the same length at all values of indices, so `x[i:i + k]` has one, and `x[:i]` is refused. A part beside whole
//! axes makes each of these a part as well, since axes keep their order.

use super::super::ast::{Expr, ExprId};
use super::Elaborator;
use crate::base::{IndexId, Span};
use crate::error::Diagnostic;
use crate::index::{Affine, Size, Var};
use crate::term::TermId;

/// What stands for an axis in an access.
pub(super) enum Given {
    Whole,
    At(Affine),
    Part { at: ExprId, from: Option<Affine>, to: Option<Affine>, step: i64 },
}

/// The places of an access: nothing for a whole axis, with those at the end left out; and the indices that parts of axes are over.
pub(super) struct Places {
    pub(super) at: Vec<Option<Affine>>,
    pub(super) parts: Vec<(IndexId, Size)>,
}

impl Elaborator<'_> {
    /// The index expressions of an access in the order in which they are elaborated.
    pub(super) fn index_operands(&self, indices: &[ExprId]) -> Vec<ExprId> {
        let mut operands = Vec::with_capacity(indices.len());
        for index in indices {
            match self.expr(*index) {
                Expr::All => {}
                Expr::Name(_) if self.is_new_axis(*index) => {}
                Expr::Part { from, to, .. } => operands.extend([from, to].into_iter().flatten()),
                _ => operands.push(*index),
            }
        }
        operands
    }

    /// What the operands of an access are, which have been elaborated.
    pub(super) fn given_places(&mut self, indices: &[ExprId]) -> Option<Vec<Given>> {
        let operands = self.index_operands(indices).len();
        let mut affines = self.pop_affines(operands)?.into_iter();
        let mut given = Vec::with_capacity(indices.len());
        for index in indices {
            if self.is_new_axis(*index) {
                continue;
            }
            given.push(match self.expr(*index) {
                Expr::All => Given::Whole,
                Expr::Part { from, to, step } => Given::Part {
                    at: *index,
                    from: from.and_then(|_| affines.next()),
                    to: to.and_then(|_| affines.next()),
                    step: self.step_of_part(*step)?,
                },
                _ => Given::At(affines.next()?),
            });
        }
        Some(given)
    }

    /// How far it is from each place of a part to the next.
    fn step_of_part(&mut self, step: Option<ExprId>) -> Option<i64> {
        let Some(at) = step else { return Some(1) };
        let step = self.constant(at).filter(|step| *step > 0 || *step == -1);
        if step.is_none() {
            let span = self.span(at);
            let message = "the step of a part of an axis is a positive integer literal, or -1";
            let help = "every second element is `x[::2]`, and in reverse it is `x[::-1]`";
            self.diagnose(Diagnostic::new("not-affine", span, message).help(help));
        }
        step
    }

    /// The places on axes of these extents.
    pub(super) fn places_on(&mut self, mut given: Vec<Given>, axes: &[Size]) -> Option<Places> {
        while matches!(given.last(), Some(Given::Whole)) {
            given.pop();
        }
        let has_parts = given.iter().any(|given| matches!(given, Given::Part { .. }));
        let mut at = Vec::with_capacity(given.len());
        // The first place, the step and the number of places of each part.
        let mut parts = Vec::new();
        for (given, axis) in given.into_iter().zip(axes) {
            at.push(match given {
                Given::At(place) => Some(from_the_end(place, axis)),
                Given::Whole if !has_parts => None,
                Given::Whole => {
                    parts.push((at.len(), Affine::default(), 1, axis.clone()));
                    None
                }
                Given::Part { at: part, from, to, step } => {
                    let (first, extent) = self.ends(part, (from, to), step, axis)?;
                    parts.push((at.len(), first, step, extent));
                    None
                }
            });
        }
        let shape: Vec<Size> = parts.iter().map(|(.., extent)| extent.clone()).collect();
        let indices = self.fresh_indices(&shape, &[]);
        for ((axis, first, step, _), index) in parts.iter().zip(&indices) {
            let place = Affine::index(*index).scale(*step).and_then(|offset| first.add(&offset)).ok()?;
            at[*axis] = Some(place);
        }
        Some(Places { at, parts: indices.into_iter().zip(shape).collect() })
    }

    /// The first place of a part of an axis, and how many places it has.
    fn ends(
        &mut self,
        at: ExprId,
        (from, to): (Option<Affine>, Option<Affine>),
        step: i64,
        axis: &Size,
    ) -> Option<(Affine, Size)> {
        let span = self.span(at);
        if step < 0 {
            if from.is_some() || to.is_some() {
                let message = "a part of an axis in reverse is the whole axis, `x[::-1]`";
                let help = "with ends it is `gen i < b - a. x[b - 1 - i]`";
                self.diagnose(Diagnostic::new("not-affine", span, message).help(help));
                return None;
            }
            let last = axis.add_constant(-1);
            return Some((self.checked(at, last)?, axis.clone()));
        }
        let from = from_the_end(from.unwrap_or_default(), axis);
        let to = to.map_or_else(|| axis.clone(), |to| from_the_end(to, axis));
        let length = to.sub(&from).and_then(|length| length.add_constant(step - 1));
        let length = self.checked(at, length)?;
        if !length.is_size() {
            let message = format!(
                "a part of an axis has the same length everywhere, found `{}` places",
                self.show(&self.checked_length(&to, &from))
            );
            let help = "guard what is read: `sum j < n. [j < i] * x[j]`";
            self.diagnose(Diagnostic::new("index-in-extent", span, message).help(help));
            return None;
        }
        let divided = length.div_rem(step);
        let (whole, rest) = self.checked(at, divided)?;
        let extent = match rest.terms().is_empty() {
            true => whole,
            false => {
                let quotient = self.size_quotient(&rest, step).and_then(|quotient| whole.add(&quotient));
                self.checked(at, quotient)?
            }
        };
        Some((from, extent))
    }

    fn checked_length(&self, to: &Affine, from: &Affine) -> Affine {
        to.sub(from).unwrap_or_default()
    }

    /// `gen s < n. element` for each part of an axis.
    pub(super) fn gens_of_parts(&mut self, parts: Vec<(IndexId, Size)>, element: TermId, span: Span) -> Option<TermId> {
        let (indices, shape): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        self.gens(&indices, &shape, element, span)
    }
}

/// A negative integer counts from the end of the axis, and so does what is subtracted from nothing, `-k` for a size `k`.
fn from_the_end(place: Affine, axis: &Size) -> Affine {
    let is_negative = place.terms().iter().all(|(v, k)| matches!(v, Var::Size(_)) && *k < 0) && place.offset() <= 0;
    match is_negative && place != Affine::default() {
        true => axis.add(&place).unwrap_or(place),
        false => place,
    }
}

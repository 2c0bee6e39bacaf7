//! Ranges that end at an index which is found at run time, as the number of steps of an `unfold` is.
//!
//! ```text
//! sum t < k. e            ==  sum t < n. [t < k] * e                       where k is n at most
//! max t < k. e            ==  max t < n. if t < k then e else -inf
//! argmax t < k. e         ==  argmax t < n. if t < k then e else -inf      where 0 < k
//! fold t < k, s = a. e    ==  fold t < n, s = a. if t < k then e else s
//! exists t < k. p         ==  exists t < n. t < k and p
//! ```
//!
//! Ranges that end at an index of a binder are the same, `max j <= i. e`.
//!
//! The sum is that below an index of a binder. No size is made of `k`, so no type mentions it: `gen t < k` and `scan t < k` are refused.

use super::super::ast::{BinaryOp, BinderKind, ExprId};
use super::computed::Anchor;
use super::names::Meaning;
use super::sizes::linear;
use super::{Elaborator, OpenGuard, Task};
use crate::base::{IndexId, Span, VarId};
use crate::error::Diagnostic;
use crate::index::{Affine, Pred, View};
use crate::scalar::Number;
use crate::term::{Term, TermId};

/// What stands at the places behind the end of a range.
#[derive(Clone, Copy)]
pub(super) enum Behind {
    /// What no extremum is, and the word of this one.
    Limit(View, &'static str),
    /// The state, which goes on as it is.
    State(Option<VarId>),
}

impl<'a> Elaborator<'a> {
    /// Whether a range ends at a variable that is an index.
    pub(super) fn ends_at_found(&self, e: ExprId) -> bool {
        let size = linear(self.frame.source, e);
        size.is_ok_and(|size| size.names().iter().any(|name| self.found_named(name).is_some()))
    }

    /// Whether a range ends at an index of a binder, or at one that is found.
    pub(super) fn ends_at_index(&self, e: ExprId) -> bool {
        self.is_below_index(e) || self.ends_at_found(e)
    }

    /// The variable that a name means, if it is an index.
    pub(super) fn found_named(&self, name: &str) -> Option<VarId> {
        match self.peek(name) {
            Meaning::Var(var) if self.is_index_variable(var) => Some(var),
            _ => None,
        }
    }

    /// That a size is expected, and an index was found that a variable is bound to.
    pub(super) fn found_in_type(&mut self, name: &str, var: VarId, span: Span) {
        let message = format!("no type of a result mentions a size that data decide, found `{name}`");
        let largest = self.index_of_variable(var).and_then(|bound| self.largest_end(&bound));
        let n = largest.map_or_else(|| "n".to_owned(), |largest| self.show(&largest));
        let help = format!("go over the largest range and guard the body: `gen t < {n}. [t < {name}] * ..`");
        self.diagnose(Diagnostic::new("index-in-extent", span, message).help(help));
    }

    /// `max index < extent. body`
    pub(super) fn largest_below(
        &mut self,
        at: ExprId,
        kind: BinderKind,
        name: &'a str,
        (end, body): (ExprId, ExprId),
        view: View,
    ) {
        let extent = self.bound_by_index(end).map(|(_, extent)| extent);
        let index = self.enter_index(name, extent.as_ref());
        self.tasks.push(Task::Bound { at, kind, index, extent });
        self.up_to((index, end), body, Behind::Limit(view, kind.word()));
    }

    /// `argmax index < extent. body`, where the range is known not to be empty.
    pub(super) fn place_below(
        &mut self,
        at: ExprId,
        kind: BinderKind,
        name: &'a str,
        (end, body): (ExprId, ExprId),
        view: View,
    ) {
        let word = kind.word();
        let bound = self.bound_by_index(end).filter(|(bound, _)| {
            let some = bound.add_constant(-1).map(Pred::non_negative);
            if self.checked(at, some).is_some_and(|some| self.proves(&some)) {
                return true;
            }
            let (span, shown) = (self.span(end), self.show(bound));
            let message = format!("the range of `{word}` may be empty: `0 < {shown}` is not known here");
            let help = format!("say what it is elsewhere, as in `if 0 < {shown} then {word} .. else 0`");
            self.diagnose(Diagnostic::new("empty-range", span, message).help(help));
            false
        });
        let Some((_, extent)) = bound else {
            self.fail();
            return self.affines.push(None);
        };
        self.enter_moved();
        let index = self.enter_index(name, Some(&extent));
        self.tasks.push(Task::ArgOf { at, view, index, extent: Some(extent) });
        self.up_to((index, end), body, Behind::Limit(view, word));
    }

    /// That an index is below an end, which says so about numbers.
    pub(super) fn below(&mut self, index: IndexId, end: ExprId) -> Option<Pred> {
        let (bound, _) = self.bound_by_index(end)?;
        let below = Pred::lt(&Affine::index(index), &bound);
        let below = self.checked(end, below)?;
        let span = self.span(end);
        self.about_numbers(below, span)
    }

    /// `if index < end then body else ..`: what else is said by `behind`.
    pub(super) fn up_to(&mut self, (index, end): (IndexId, ExprId), body: ExprId, behind: Behind) {
        self.enter_anchor();
        let guard = self.below(index, end);
        self.preds.push(guard);
        self.tasks.extend([Task::UpTo(end, body, behind), Task::Value(body), Task::EnterGuard]);
    }

    pub(super) fn finish_up_to(&mut self, end: ExprId, body: ExprId, behind: Behind) {
        let span = self.span(body);
        let value = self.pop_value();
        let Some(OpenGuard { pred, hoisted, .. }) = self.close_guard() else { return };
        self.anchors.push(Anchor { lets: hoisted.lets, facts: self.knowledge.len(), ..Anchor::default() });
        let opposite = pred.as_ref().and_then(|p| self.negated(end, p));
        let hoisted = self.leave_anchor();
        let value = value.zip(pred.zip(opposite)).and_then(|(value, guards)| {
            let (value, otherwise) = self.at_both_sides(value, body, behind, span)?;
            self.selected([value, otherwise], guards.into(), &None, &[body, body], span)
        });
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// The value in front of the end, and what stands behind it.
    fn at_both_sides(&mut self, value: TermId, body: ExprId, behind: Behind, span: Span) -> Option<(TermId, TermId)> {
        match behind {
            Behind::Limit(view, word) => {
                let value = self.real(Some(value), body, word)?;
                let limit = if view == View::ArgMax { f64::NEG_INFINITY } else { f64::INFINITY };
                Some((value, self.push(Term::Number(Number::Literal(limit)), span)?))
            }
            Behind::State(state) => {
                let Some(Task::Scan { at, .. }) = self.tasks.last() else { return None };
                let (at, init) = (*at, self.values.last_term()?);
                let value = self.next_state(at, init, value)?;
                Some((value, self.push(Term::Var(state?), span)?))
            }
        }
    }

    /// `fold index < end, s = e0. e`, whose state is kept behind the end, or a loop over a size.
    pub(super) fn step_below(&mut self, (index, end): (IndexId, ExprId), body: ExprId, state: Option<VarId>) {
        match self.ends_at_index(end) {
            true => self.up_to((index, end), body, Behind::State(state)),
            false => self.tasks.push(Task::Value(body)),
        }
    }

    /// `exists index < end. p`: the first of two conjuncts is known, and the other comes.
    pub(super) fn exists_below(&mut self, at: ExprId, (index, end): (IndexId, ExprId), body: ExprId) {
        let facts = self.knowledge.len();
        let below = self.below(index, end);
        self.preds.push(below);
        self.chain(at, BinaryOp::And, vec![end, body], 1, facts, false);
    }
}

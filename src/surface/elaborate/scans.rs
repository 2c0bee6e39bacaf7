//! `fold`, `scan`, `iterate`, `fixpoint` and `unfold`.
//!
//! ```text
//! fold t < n, s = e0. e            ==  (scan t < n, s = e0. e)[n]
//! fold t < n down, s = e0. e       ==  (scan t < n down, s = e0. e)[0]
//! fixpoint s = e0, at most n. e    ==  (scan t < 1, s = e0. e)[1], marked with n
//! unfold s = e0, at most n. e      ==  let h = scan t < n, s = e0. e in (snd h[n], gen t < n + 1. fst h[t])
//! ```
//!
//! The state of an `unfold` is a pair with the number of steps made, which is an index of `n + 1`.
//!
//! The steps are a size that is never negative for what is known, so that there is a last state. The state has the type of its first value, and
//! the body has it too. Where only what is known of the sizes makes them equal, the body is read element by element.

use super::super::ast::{Expr, ExprId, LoopKind};
use super::functions::Place;
use super::names::Binding;
use super::sizes::may_be_equal;
use super::text::with_article;
use super::{Elaborator, Task};
use crate::base::{IndexId, Span, VarId};
use crate::error::Diagnostic;
use crate::index::{Affine, Pred, Size};
use crate::term::{Term, TermId};
use crate::ty::{Side, Type, TypeId};

#[cfg(test)]
mod tests;

/// How many steps a loop makes of those that it says.
fn made(kind: LoopKind, steps: Option<&Size>) -> Option<Size> {
    steps.map(|steps| if kind == LoopKind::Fixpoint { Size::constant(1) } else { steps.clone() })
}

impl<'a> Elaborator<'a> {
    /// The first value of the state comes first, outside of the scope of index and state.
    pub(super) fn scan(&mut self, at: ExprId) {
        let Expr::Scan { steps, init, .. } = self.expr(at) else { return };
        let steps = self.steps(at, *steps);
        self.tasks.push(Task::EnterScan { at, steps });
        self.tasks.push(Task::Value(*init));
    }

    /// How many steps there are.
    fn steps(&mut self, at: ExprId, steps: ExprId) -> Option<Size> {
        let Expr::Scan { kind, state, .. } = self.expr(at) else { return None };
        let (word, with_article) = (kind.word(), with_article(*kind));
        let span = self.span(steps);
        let is_found = self.ends_at_index(steps);
        if is_found && *kind != LoopKind::Fold {
            let message = format!("{with_article} goes over a size, found a range that ends at an index");
            let help = match kind {
                LoopKind::Fold | LoopKind::Scan => format!(
                    "go over the largest range, and keep the state behind its end: `if t < {} then .. else {}`",
                    if self.is_below_index(steps) { "i" } else { "k" },
                    if state.text.starts_with('(') { "s" } else { &state.text }
                ),
                _ => "it makes as many steps at most as a size says: a condition ends it before".to_owned(),
            };
            self.diagnose(Diagnostic::new("index-in-extent", span, message).help(help));
            return None;
        }
        let steps = match is_found {
            true => self.bound_by_index(steps)?.1,
            false => self.range_of_loop(at, steps)?,
        };
        // There is one state more than there are steps.
        self.checked(at, steps.add_constant(1))?;
        let goal = Pred::non_negative(steps.clone());
        if self.proves(&goal) {
            return Some(steps);
        }
        let shown = self.show(&steps);
        let message = match goal.is_false() {
            true => format!("`{word}` goes over `{shown}` steps, which is negative"),
            false => format!("`{word}` may have a negative number of steps: `0 <= {shown}` is not known here"),
        };
        let diagnostic = Diagnostic::new("negative-steps", span, message);
        self.diagnose(match goal.is_false() {
            true => diagnostic,
            false => diagnostic.help(format!("declare `assume {shown} >= 0`")),
        });
        None
    }

    /// The first value is on the stack: the body comes next.
    pub(super) fn enter_scan(&mut self, at: ExprId, most: Option<Size>) {
        let Expr::Scan { kind, index, state, init: first, steps: range, body, .. } = self.expr(at) else { return };
        let init = self.pop_value_in(Place::State(kind.word()));
        self.values.push(init);
        // The state of a `prod` has a name that nobody can write.
        let name = if state.text.contains(' ') { "p" } else { &state.text };
        let name = name.trim_matches(['(', ')']);
        let var = init.map(|init| self.program.fresh_var(name, self.program.ty(init)));
        let steps = made(*kind, most.as_ref());
        let typed = match self.expr(*first) {
            Expr::Typed { ty, .. } => self.refine(ty),
            _ => None,
        };
        if let Some((var, refined)) = var.zip(typed) {
            self.refined.insert(var, refined);
        }
        let id = self.enter_index(&index.text, steps.as_ref());
        self.bind(&state.text, var.map_or(Binding::Error, Binding::Var));
        self.tasks.push(Task::Scan { at, index: id, most, state: var });
        self.step_below((id, *range), *body, var);
    }

    pub(super) fn finish_scan(&mut self, at: ExprId, index: IndexId, most: Option<Size>, state: Option<VarId>) {
        let span = self.span(at);
        let Expr::Scan { kind, down, index: name, state: state_name, .. } = self.expr(at) else { return };
        let (kind, down) = (*kind, *down);
        let steps = made(kind, most.as_ref());
        self.scopes.unbind(&state_name.text);
        self.leave_index(&name.text, steps.as_ref());
        let body = self.pop_value_in(Place::State(kind.word()));
        let init = self.pop_value();
        let value = init.zip(body).zip(steps.zip(state)).and_then(|((init, body), (steps, state))| {
            let body = self.next_state(at, init, body)?;
            let last = if down { Affine::constant(0) } else { steps.clone() };
            let implicit = most.filter(|_| kind == LoopKind::Fixpoint);
            let array = self.push(Term::Scan { index, steps, down, state, init, body, implicit }, span)?;
            match kind {
                LoopKind::Scan => Some(array),
                LoopKind::Fold | LoopKind::Iterate | LoopKind::Fixpoint => {
                    self.push(Term::Access { array, index: last }, span)
                }
                LoopKind::Unfold => self.steps_and_path(array, last, span),
            }
        });
        self.values.push(value);
    }

    /// `let h = array in (snd h[n], gen t < n + 1. fst h[t])`
    fn steps_and_path(&mut self, array: TermId, last: Affine, span: Span) -> Option<TermId> {
        let states = last.add_constant(1).ok()?;
        let var = self.program.fresh_var("h", self.program.ty(array));
        let whole = self.push(Term::Var(var), span)?;
        let state = self.push(Term::Access { array: whole, index: last }, span)?;
        let steps = self.push(Term::Snd(state), span)?;
        let whole = self.push(Term::Var(var), span)?;
        let path = self.project_each(whole, vec![states], Side::Fst, span)?;
        let body = self.push(Term::Pair(steps, path), span)?;
        self.push(Term::Let { var, value: array, body }, span)
    }

    /// The `iterate` or `unfold` that an expression is the step of, which is complete but for that and names for parts of the state.
    pub(super) fn iterated(&self, step: ExprId) -> Option<ExprId> {
        let mut step = step;
        for task in self.tasks.iter().rev() {
            let (Task::Let(at, _) | Task::LetIndex(at, ..) | Task::Conform(at) | Task::Scan { at, .. }) = task else {
                return None;
            };
            match self.expr(*at) {
                Expr::Let { body, .. } if *body == step => step = *at,
                Expr::Typed { value, .. } if *value == step => step = *at,
                Expr::Scan { kind: LoopKind::Iterate | LoopKind::Unfold, body, .. } if *body == step => {
                    return Some(*at);
                }
                _ => return None,
            }
        }
        None
    }

    /// The body with the type of the state.
    pub(super) fn next_state(&mut self, at: ExprId, init: TermId, body: TermId) -> Option<TermId> {
        let Expr::Scan { kind, state, body: body_at, .. } = self.expr(at) else { return None };
        let ty = self.program.ty(init);
        if self.program.ty(body) == ty {
            return Some(body);
        }
        let span = self.span(*body_at);
        if let Some(fitted) = self.fitted(body, ty, span) {
            return Some(fitted);
        }
        let (ty, found) = match (kind, self.program.types.get(ty), self.program.types.get(self.program.ty(body))) {
            // The number of steps is none of what is written.
            (LoopKind::Unfold, Type::Pair(first, _), Type::Pair(found, _)) => (*first, *found),
            _ => (ty, self.program.ty(body)),
        };
        let (begins, goes_on) = (self.show_type(ty), self.show_type(found));
        let name = match state.text.starts_with('(') {
            true => "the state".to_owned(),
            false => format!("`{}`", state.text),
        };
        let message = format!("{name} begins as `{begins}`, but the body of the `{}` gives `{goes_on}`", kind.word());
        let help = match (self.program.types.get(ty).clone(), self.program.types.real_dims(found)) {
            (Type::Real, Some(shape)) if !shape.is_empty() => {
                let sizes: Vec<String> = shape.iter().map(|n| self.show(n)).collect();
                let indices = super::values::index_name;
                let ranges: Vec<String> =
                    sizes.iter().enumerate().map(|(k, n)| format!("{} < {n}", indices(k))).collect();
                format!("all states have one type: it begins as a tensor by `gen {}. ..`", ranges.join(", "))
            }
            (Type::Tensor(n, _), Some(shape)) if self.may_be_equal(&n, &shape) => {
                let m = self.show(&shape[0]);
                format!("if the sizes are equal, say so: `assume {m} = {}`", self.show(&n))
            }
            _ => "all states have the type of the first one".to_owned(),
        };
        self.diagnose(Diagnostic::new("state-type", span, message).help(help));
        None
    }

    /// Whether the leading size of a shape is not another for sure, and may be declared to be equal.
    fn may_be_equal(&self, n: &Size, shape: &[Size]) -> bool {
        let first = shape.first().filter(|m| *m != n && self.depth() == 0);
        first.is_some_and(|m| may_be_equal(n, m))
    }

    /// A value with another type whose sizes are equal for what is known here, element by element.
    pub(super) fn fitted(&mut self, value: TermId, ty: TypeId, span: Span) -> Option<TermId> {
        let from = self.program.ty(value);
        if from == ty {
            return Some(value);
        }
        match (self.program.types.get(from).clone(), self.program.types.get(ty).clone()) {
            (Type::Tensor(m, _), Type::Tensor(n, element)) if self.same_size(&m, &n) => {
                let mut lets = Vec::new();
                let value = self.leave_lets(value, &mut lets);
                let index = self.fresh_indices(std::slice::from_ref(&n), &[value]).pop()?;
                let inner = self.element_at(value, &[index], span)?;
                let inner = self.fitted(inner, element, span)?;
                let tensor = self.gens(&[index], &[n], inner, span);
                self.wrap_lets(lets, tensor, span)
            }
            (Type::Pair(..), Type::Pair(first, second)) => {
                let mut lets = Vec::new();
                let pair = self.leave_lets(value, &mut lets);
                let var = self.program.fresh_var("s", from);
                lets.push((var, pair));
                let whole = self.push(Term::Var(var), span)?;
                let half = self.push(Term::Fst(whole), span)?;
                let a = self.fitted(half, first, span)?;
                let whole = self.push(Term::Var(var), span)?;
                let half = self.push(Term::Snd(whole), span)?;
                let b = self.fitted(half, second, span)?;
                let pair = self.push(Term::Pair(a, b), span);
                self.wrap_lets(lets, pair, span)
            }
            _ => None,
        }
    }
}

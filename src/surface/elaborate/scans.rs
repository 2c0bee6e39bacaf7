//! `fold`, `scan`, `iterate` and `fixpoint`.
//!
//! ```text
//! fold t < n, s = e0. e            ==  (scan t < n, s = e0. e)[n]
//! fold t < n down, s = e0. e       ==  (scan t < n down, s = e0. e)[0]
//! fixpoint s = e0, at most n. e    ==  (scan t < 1, s = e0. e)[1], marked with n
//! ```
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
use crate::ty::{Type, TypeId};

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
        if self.is_below_index(steps) {
            let message = format!("{with_article} goes over a size, found a range that ends at an index");
            let help = format!(
                "go over the largest range, and keep the state behind its end: `if t < i then .. else {}`",
                if state.text.starts_with('(') { "s" } else { &state.text }
            );
            self.diagnose(Diagnostic::new("index-in-extent", span, message).help(help));
            return None;
        }
        let steps = self.range_of_loop(at, steps)?;
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
        let Expr::Scan { kind, index, state, init: first, body, .. } = self.expr(at) else { return };
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
        self.tasks.push(Task::Value(*body));
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
            }
        });
        self.values.push(value);
    }

    /// The `iterate` that an expression is the step of, which is complete but for that.
    pub(super) fn iterated(&self, step: ExprId) -> Option<ExprId> {
        let Some(Task::Scan { at, .. }) = self.tasks.last() else { return None };
        match self.expr(*at) {
            Expr::Scan { kind: LoopKind::Iterate, body, .. } if *body == step => Some(*at),
            _ => None,
        }
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
        let (begins, goes_on) = (self.show_type(ty), self.show_type(self.program.ty(body)));
        let name = match state.text.starts_with('(') {
            true => "the state".to_owned(),
            false => format!("`{}`", state.text),
        };
        let message = format!("{name} begins as `{begins}`, but the body of the `{}` gives `{goes_on}`", kind.word());
        let help = match (self.program.types.get(ty).clone(), self.real_shape(body)) {
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

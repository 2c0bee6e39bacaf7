//! Brackets around values, and selects.
//!
//! A comparison of tensors is one of each element. The bracket around it then has *axes*, and so has its value:
//!
//! ```text
//! [x > 0] * e                     ==  let c = (x > 0) in gen i < n. [c[i] != 0] * e[i]
//! if x > 0 then a else b          ==  let c = (x > 0) in gen i < n. [c[i] != 0] * a[i] + [c[i] = 0] * b[i]
//! ```
//!
//! All tensors that one bracket compares have one shape, and so has what stands behind it, or it is a number.

use super::super::ast::{Expr, ExprId};
use super::computed::{Anchor, Hoisted};
use super::functions::Item;
use super::{Elaborator, OpenGuard};
use crate::base::{IndexId, Span, VarId};
use crate::index::{Affine, Pred, Size};
use crate::scalar::Number;
use crate::term::{Term, TermId};
use crate::ty::{Side, Type, TypeId};

/// The places at which a bracket asks.
#[derive(Clone, Debug)]
pub(super) struct Axes {
    pub(super) indices: Vec<IndexId>,
    shape: Vec<Size>,
}

impl Elaborator<'_> {
    /// The indices of an element of a tensor that the innermost bracket compares: the same for all of its tensors.
    pub(super) fn compared(&mut self, shape: &[Size], like: &[TermId], what: &str, span: Span) -> Option<Vec<Affine>> {
        let axes = match self.anchors.last()?.axes.clone() {
            Some(axes) if self.same_shape(&axes.shape, shape) => axes,
            Some(axes) => {
                self.report_shapes(what, &axes.shape, shape, span);
                return None;
            }
            None => {
                let axes = Axes { indices: self.fresh_indices(shape, like), shape: shape.to_vec() };
                self.anchors.last_mut()?.axes = Some(axes.clone());
                axes
            }
        };
        Some(axes.indices.iter().copied().map(Affine::index).collect())
    }

    /// The guard is complete, and holds in what follows.
    pub(super) fn enter_guard(&mut self) {
        let pred = self.preds.pop().flatten();
        let axes = self.anchors.last_mut().and_then(|anchor| anchor.axes.take());
        let mut hoisted = self.leave_anchor();
        let plain = pred.clone().filter(|_| !hoisted.quotients.is_empty()).map(|p| (p, hoisted.quotients.clone()));
        let pred = self.with_quotients(pred, &mut hoisted);
        self.open_guard(pred, hoisted, axes);
        if let Some(guard) = self.guards.last_mut() {
            guard.plain = plain;
        }
    }

    fn open_guard(&mut self, pred: Option<Pred>, hoisted: Hoisted, axes: Option<Axes>) {
        let facts = self.knowledge.len();
        match &pred {
            Some(p) => self.knowledge.enter_guard(&self.program, p),
            None => self.silent += 1,
        }
        self.guards.push(OpenGuard { pred, plain: None, hoisted, axes, facts });
    }

    pub(super) fn close_guard(&mut self) -> Option<OpenGuard> {
        let guard = self.guards.pop()?;
        self.knowledge.leave(guard.facts);
        if guard.pred.is_none() {
            self.silent = self.silent.saturating_sub(1);
        }
        Some(guard)
    }

    pub(super) fn finish_iverson(&mut self, at: ExprId) {
        let span = self.span(at);
        let body = self.pop_value();
        let Some(OpenGuard { pred, hoisted, axes, .. }) = self.close_guard() else { return };
        let value = pred.zip(body).and_then(|(guard, body)| match axes {
            None => self.push(Term::Iverson { guard, body }, span),
            Some(axes) => self.at_each(&axes, &[body], "[..]", span, |this, elements| {
                this.push(Term::Iverson { guard, body: *elements.first()? }, span)
            }),
        });
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// `select(p, a, b)`: after `a`, where `p` holds, comes `b`, where it does not.
    pub(super) fn select_else(&mut self, at: ExprId) {
        let Some(OpenGuard { pred, plain, hoisted, axes, .. }) = self.close_guard() else { return };
        self.anchors.push(Anchor { lets: hoisted.lets, axes, facts: self.knowledge.len(), ..Anchor::default() });
        let opposite = match plain {
            // What is said of the one quotient there is does not hold.
            Some((p, quotients)) => self.negated(at, &p).and_then(|p| {
                let p = self.exists_quotients(&quotients, p)?;
                let indices = &mut self.program.indices;
                let renamed = p.rebind(&mut |i| indices.push(indices[i].clone()));
                self.checked(at, renamed)
            }),
            None => pred.as_ref().and_then(|p| self.negated(at, p)),
        };
        let axes = self.anchors.last_mut().and_then(|anchor| anchor.axes.take());
        let hoisted = self.leave_anchor();
        // The first guard waits below the second.
        self.guards.push(OpenGuard { pred, plain: None, hoisted, axes, facts: self.knowledge.len() });
        self.open_guard(opposite, Hoisted::default(), None);
    }

    pub(super) fn finish_select(&mut self, at: ExprId) {
        let Expr::Call { args, .. } = self.expr(at) else { return };
        self.finish_branches(at, &args[1..]);
    }

    /// Both branches are complete; these are their places.
    pub(super) fn finish_branches(&mut self, at: ExprId, branches: &[ExprId]) {
        let span = self.span(at);
        let b = self.values.pop();
        let a = self.values.pop();
        let (Some(second), Some(first)) = (self.close_guard(), self.guards.pop()) else { return };
        let (a, b) = match (a, b) {
            (Some(Item::Term(a)), Some(Item::Term(b))) => (Some(a), Some(b)),
            (Some(a), Some(b)) => {
                let chosen = self.choose_functions([a, b], first, second.pred, branches, span);
                self.values.push_item(chosen);
                return;
            }
            _ => (None, None),
        };
        // The step of an `iterate` is a choice between what its body gives and the state.
        let a = match self.iterated(at) {
            Some(scan) => a.zip(b).and_then(|(step, state)| self.next_state(scan, state, step)),
            None => a,
        };
        let value = a
            .zip(b)
            .zip(first.pred.zip(second.pred))
            .and_then(|(values, guards)| self.selected(values.into(), guards.into(), &first.axes, branches, span));
        let value = self.wrap(first.hoisted, value, span);
        self.values.push(value);
    }

    /// `[p] * a + [q] * b`; of these, the one that is not the literal 0.
    pub(super) fn selected(
        &mut self,
        [a, b]: [TermId; 2],
        [p, q]: [Pred; 2],
        axes: &Option<Axes>,
        at: &[ExprId],
        span: Span,
    ) -> Option<TermId> {
        if let Some(pairs) = self.select_pairs([a, b], [&p, &q], axes, at, span) {
            return pairs;
        }
        for (value, at) in [a, b].into_iter().zip(at) {
            if self.program.types.real_dims(self.program.ty(value)).is_none() {
                self.real(Some(value), *at, "select");
                return None;
            }
        }
        if let Some(axes) = axes {
            return self.at_each(axes, &[a, b], "select", span, |this, elements| {
                let [a, b] = <[TermId; 2]>::try_from(elements).ok()?;
                this.branches([(p, a), (q, b)], span, |this, [a, b]| this.push(Term::Add(a, b), span))
            });
        }
        self.branches([(p, a), (q, b)], span, |this, [a, b]| this.either(a, b, at, span))
    }

    /// `[p] * a + [q] * b`, put together by `add`. A branch that is the literal 0 is what the other one leaves there.
    fn branches(
        &mut self,
        [(p, a), (q, b)]: [(Pred, TermId); 2],
        span: Span,
        add: impl FnOnce(&mut Self, [TermId; 2]) -> Option<TermId>,
    ) -> Option<TermId> {
        let is_zero = |x: TermId| matches!(self.program.terms[x], Term::Number(Number::Literal(n)) if n.to_bits() == 0);
        let alone = match (is_zero(a), is_zero(b)) {
            (false, true) => Some((p.clone(), a)),
            (true, false) => Some((q.clone(), b)),
            _ => None,
        };
        if let Some((guard, body)) = alone {
            self.left_out = true;
            return self.push(Term::Iverson { guard, body }, span);
        }
        let a = self.push(Term::Iverson { guard: p, body: a }, span)?;
        let b = self.push(Term::Iverson { guard: q, body: b }, span)?;
        add(self, [a, b])
    }

    /// Begins the first branch of a choice whose condition is known.
    pub(super) fn enter_branch(&mut self, pred: Pred) {
        self.open_guard(Some(pred), Hoisted::default(), None);
    }

    /// Begins the second one: the first guard waits below.
    pub(super) fn enter_other_branch(&mut self, pred: Pred) {
        let Some(first) = self.close_guard() else { return };
        self.guards.push(OpenGuard { facts: self.knowledge.len(), ..first });
        self.open_guard(Some(pred), Hoisted::default(), None);
    }

    /// A select of pairs is one of each component: `let u = [p] * a in let v = [q] * b in (fst u + fst v, snd u + snd v)`. Nothing where these are no
    /// pairs of one type.
    fn select_pairs(
        &mut self,
        values: [TermId; 2],
        guards: [&Pred; 2],
        axes: &Option<Axes>,
        args: &[ExprId],
        span: Span,
    ) -> Option<Option<TermId>> {
        let [a, b] = values.map(|value| self.program.ty(value));
        if axes.is_some() || a != b || !matches!(self.program.types.get(a), Type::Pair(..)) {
            return None;
        }
        let mut lets = Vec::new();
        for (value, guard) in values.into_iter().zip(guards) {
            let value = match self.push(Term::Iverson { guard: guard.clone(), body: value }, span) {
                Some(value) => value,
                None => return Some(None),
            };
            lets.push((self.program.fresh_var("u", a), value));
        }
        let vars: Vec<VarId> = lets.iter().map(|(var, _)| *var).collect();
        let body = self.component_sums(a, &vars, &mut Vec::new(), args, span);
        Some(body.and_then(|body| {
            lets.into_iter().rev().try_fold(body, |body, (var, value)| self.push(Term::Let { var, value, body }, span))
        }))
    }

    /// The pair of the sums of the components of variables of one type, below the projections. Types nest to a bounded depth.
    pub(super) fn component_sums(
        &mut self,
        ty: TypeId,
        vars: &[VarId],
        path: &mut Vec<Side>,
        args: &[ExprId],
        span: Span,
    ) -> Option<TermId> {
        if let Type::Pair(a, b) = *self.program.types.get(ty) {
            let mut component = |side, ty| {
                path.push(side);
                let sum = self.component_sums(ty, vars, path, args, span);
                path.pop();
                sum
            };
            let (a, b) = (component(Side::Fst, a)?, component(Side::Snd, b)?);
            return self.push(Term::Pair(a, b), span);
        }
        let mut parts = Vec::with_capacity(vars.len());
        for var in vars {
            let mut part = self.push(Term::Var(*var), span)?;
            for side in path.iter() {
                part = self.push(if *side == Side::Fst { Term::Fst(part) } else { Term::Snd(part) }, span)?;
            }
            if self.program.types.real_dims(ty).is_none() {
                self.real(Some(part), *args.first()?, "select");
                return None;
            }
            parts.push(part);
        }
        let mut parts = parts.into_iter();
        let first = parts.next()?;
        parts.try_fold(first, |sum, part| self.either(sum, part, args, span))
    }

    /// The tensor of what is made of the elements of some values at the places of a bracket; numbers are the same at all of them.
    fn at_each(
        &mut self,
        axes: &Axes,
        values: &[TermId],
        what: &str,
        span: Span,
        make: impl FnOnce(&mut Self, Vec<TermId>) -> Option<TermId>,
    ) -> Option<TermId> {
        for value in values {
            let shape = self.real_shape(*value);
            let fits = shape.as_ref().is_some_and(|shape| {
                let stretched = self.stretched_shapes(&[shape.clone(), axes.shape.clone()]).swap_remove(0);
                shape.is_empty() || self.same_shape(&stretched, &axes.shape)
            });
            if !fits {
                self.report_shapes(what, &axes.shape, &shape.unwrap_or_default(), span);
                return None;
            }
        }
        let mut lets = Vec::new();
        let elements = self.elements_at(values, &axes.indices, &axes.shape, &mut lets, span)?;
        let body = make(self, elements)?;
        let tensor = self.gens(&axes.indices, &axes.shape, body, span);
        self.wrap_lets(lets, tensor, span)
    }
}

//! What brackets and index expressions compute from reals.
//!
//! ```text
//! [a < b] * e                     ==  let c = (a < b) in [c != 0] * e
//! [exists k < n. a < b] * e       ==  let c = gen k < n. (a < b) in [exists k < n. c[k] != 0] * e
//! [not (exists k < n. p)] * e     ==  let c = sum k < n. [p] * 1 in [c = 0] * e
//! x[argmax i < n. a]              ==  let v = gen i < n. a in x[argmax i < n. v[i]]
//! max i < n. a                    ==  let v = gen i < n. a
//!                                     in (sum i < n. [(argmax k < n. v[k]) = i] * v[i]) + [n <= 0] * -inf
//! ```
//!
//! The term on the right of `let` is *moved*: it leaves the bracket for the place around it, the anchor. It becomes a tensor over those
//! of the bracket's own `exists` indices that it mentions, under new names, since binders never repeat. Where the conjuncts to its
//! left are what keeps its accesses in bounds, it takes them along as a guard: this is sound, since outside of them the
//! truth of the atom does not matter.
//!
//! A sum of ones is 0 exactly where it has no summand, however many there are.
//!
//! Where `a` is already an element of a variable, `v[g, i]`, no `let` is needed and the relation is that of `v` itself. This is how printed
//! programs read back as they were.

use std::collections::BTreeSet;

use super::super::ast::{BinaryOp, BinderKind, Expr, ExprId, Name, UnaryOp};
use super::brackets::Axes;
use super::functions::Place;
use super::names::{Binding, Meaning};
use super::quotients::Quotient;
use super::{Elaborator, Task};
use crate::base::{IndexId, Span, VarId, work};
use crate::error::Diagnostic;
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Function, Number, Op};
use crate::term::{Term, TermId};
use crate::ty::Types;

/// How large the indices of an element may be for it to be recognised as one of a variable.
const MAX_ELEMENT_NODES: usize = 1000;

/// A term that will be wrapped in the `let`s of what its bracket or its indices compute.
#[derive(Default)]
pub(super) struct Anchor {
    pub(super) lets: Vec<(VarId, TermId)>,
    /// The `exists` indices in scope, outermost first.
    pub(super) slots: Vec<Slot>,
    /// The places of the tensors that the bracket compares.
    pub(super) axes: Option<Axes>,
    /// The quotients of indices in the bracket or the indices.
    pub(super) quotients: Vec<Quotient>,
    /// How many facts are in force around the term.
    pub(super) facts: usize,
}

/// What is wrapped around a term.
#[derive(Default)]
pub(super) struct Hoisted {
    pub(super) lets: Vec<(VarId, TermId)>,
    pub(super) quotients: Vec<Quotient>,
    /// How many facts were in force in front of those about the quotients.
    pub(super) facts: usize,
}

/// An index bound by an `exists` of the anchor's bracket.
pub(super) struct Slot {
    pub(super) index: IndexId,
    extent: Option<Size>,
    /// Whether a term is being moved out of the scope of the index.
    moving: bool,
    /// What the index is called in that term, once it is mentioned.
    renamed: Option<IndexId>,
}

impl Slot {
    pub(super) fn new(index: IndexId, extent: Option<Size>) -> Self {
        Slot { index, extent, moving: false, renamed: None }
    }
}

/// A term being moved.
#[derive(Default)]
pub(super) struct Hoist {
    /// The facts that it leaves behind and by which its accesses are in bounds.
    pub(super) needed: BTreeSet<usize>,
}

/// `v[g, i]` or `v[i]`: the elements of a variable along its last axis.
struct Elements<'a> {
    var: VarId,
    /// `g`.
    outer: &'a [ExprId],
}

impl<'a> Elaborator<'a> {
    pub(super) fn enter_anchor(&mut self) {
        let facts = self.knowledge.len();
        self.anchors.push(Anchor { facts, ..Anchor::default() });
    }

    /// Closes the innermost anchor. What is known of its quotients stays known until the term is wrapped.
    pub(super) fn leave_anchor(&mut self) -> Hoisted {
        let anchor = self.anchors.pop().unwrap_or_default();
        Hoisted { lets: anchor.lets, quotients: anchor.quotients, facts: anchor.facts }
    }

    /// A term with what its anchor has collected: `sum q < n. [p] * (let x0 = e0 in .. in body)`.
    pub(super) fn wrap(&mut self, hoisted: Hoisted, body: Option<TermId>, span: Span) -> Option<TermId> {
        let Hoisted { lets, quotients, facts } = hoisted;
        if !quotients.is_empty() {
            self.knowledge.leave(facts);
        }
        let body = self.wrap_lets(lets, body, span)?;
        quotients.into_iter().rev().try_fold(body, |body, quotient| self.at_quotient(quotient, body, span))
    }

    /// `let x0 = e0 in .. in body`
    pub(super) fn wrap_lets(&mut self, lets: Vec<(VarId, TermId)>, body: Option<TermId>, span: Span) -> Option<TermId> {
        lets.into_iter().rev().try_fold(body?, |body, (var, value)| self.push(Term::Let { var, value, body }, span))
    }

    /// The name of an `exists` index at the place in force: another one inside a term that is moved.
    pub(super) fn quantified(&mut self, anchor: usize, slot: usize) -> IndexId {
        let Some(slot) = self.anchors.get_mut(anchor).and_then(|a| a.slots.get_mut(slot)) else { return IndexId(0) };
        match (slot.moving, slot.renamed) {
            (false, _) => slot.index,
            (true, Some(renamed)) => renamed,
            (true, None) => {
                let renamed = self.program.indices.push(self.program.indices[slot.index].clone());
                slot.renamed = Some(renamed);
                self.knowledge.rename(slot.index, renamed);
                renamed
            }
        }
    }

    /// Begins a term that will be moved to the innermost anchor.
    pub(super) fn enter_moved(&mut self) {
        if let Some(anchor) = self.anchors.last_mut() {
            anchor.slots.iter_mut().for_each(|slot| slot.moving = true);
            self.knowledge.enter_moved(anchor.facts);
        }
        self.hoists.push(Hoist::default());
    }

    /// Ends a moved term and binds it at the innermost anchor: the variable, and the indices of its new axes.
    pub(super) fn leave_moved(
        &mut self,
        value: Option<TermId>,
        name: &str,
        span: Span,
    ) -> Option<(VarId, Vec<Affine>)> {
        let needed = self.hoists.pop().unwrap_or_default().needed;
        let kept = Pred::all(self.knowledge.leave_moved(&needed));
        let at = self.anchors.len().checked_sub(1)?;
        // A guard may mention an index that the term does not.
        for slot in 0..self.anchors[at].slots.len() {
            if kept.mentions(self.anchors[at].slots[slot].index) {
                self.quantified(at, slot);
            }
        }
        let mut axes = Vec::new();
        for slot in &mut self.anchors[at].slots {
            slot.moving = false;
            if let Some(renamed) = slot.renamed.take() {
                self.knowledge.unrename(slot.index);
                axes.push((slot.index, renamed, slot.extent.clone()));
            }
        }
        let mut value = value?;
        if !kept.is_true() {
            let renamed =
                |i: IndexId| axes.iter().find(|(index, ..)| *index == i).map(|(_, renamed, _)| Affine::index(*renamed));
            let indices = &mut self.program.indices;
            let guard = kept.substitute(&renamed).ok()?.rebind(&mut |i| indices.push(indices[i].clone())).ok()?;
            value = self.push(Term::Iverson { guard, body: value }, span)?;
        }
        for (_, renamed, extent) in axes.iter().rev() {
            value = self.push(Term::Gen { index: *renamed, extent: extent.clone()?, body: value }, span)?;
        }
        let ty = self.program.ty(value);
        let var = self.program.fresh_var(name, ty);
        self.anchors[at].lets.push((var, value));
        Some((var, axes.into_iter().map(|(index, ..)| Affine::index(index)).collect()))
    }

    /// `not p` for `p = exists k < n. ..`: no place counts.
    pub(super) fn nowhere(&mut self, at: ExprId, p: &Pred) -> Option<Pred> {
        let span = self.span(at);
        let anchor = self.anchors.len().checked_sub(1)?;
        if self.anchors[anchor].axes.as_ref().is_some_and(|axes| axes.indices.iter().any(|i| p.mentions(*i))) {
            let message = "`not exists` asks one place, found a comparison of tensors";
            self.diagnose(
                Diagnostic::new("expected-real", span, message).help("write it for each element: `gen i < n. ..`"),
            );
            return None;
        }
        self.enter_moved();
        // Its maps were found to be applied in range by what stands to the left of the whole.
        if p.applies_maps() {
            let facts = self.anchors[anchor].facts..self.knowledge.len();
            self.hoists.last_mut()?.needed.extend(facts);
        }
        let mut names = Vec::new();
        for slot in 0..self.anchors[anchor].slots.len() {
            let index = self.anchors[anchor].slots[slot].index;
            if p.mentions(index) {
                names.push((index, self.quantified(anchor, slot)));
            }
        }
        let value = self.count(p, names, span);
        let (var, args) = self.leave_moved(value, "c", span)?;
        Some(Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: false })
    }

    /// `sum k < n. [p] * 1` of `exists k < n. p`, with other names for some indices, and new ones for all that it binds.
    fn count(&mut self, p: &Pred, mut names: Vec<(IndexId, IndexId)>, span: Span) -> Option<TermId> {
        let mut bound = Vec::new();
        p.visit_binders(&mut |index| bound.push(index));
        for index in bound {
            let name = self.program.indices.get(index).cloned().unwrap_or_default();
            names.push((index, self.program.indices.push(name)));
        }
        let name = |i: IndexId| names.iter().find(|(index, _)| *index == i).map_or(i, |(_, other)| *other);
        // Names do not change whether it overflows.
        let renamed = p.renamed(&name).ok()?;
        let mut body = &renamed;
        let mut sums = Vec::new();
        while let Pred::Exists { index, extent, body: inner } = body {
            sums.push((*index, extent.clone()));
            body = inner;
        }
        let one = self.push(Term::Number(Number::Literal(1.0)), span)?;
        let summand = self.push(Term::Iverson { guard: body.clone(), body: one }, span)?;
        sums.into_iter()
            .rev()
            .try_fold(summand, |body, (index, extent)| self.push(Term::Sum { index, extent, body }, span))
    }

    /// `a < b` as a number.
    pub(super) fn compare(&mut self, op: BinaryOp, a: TermId, b: TermId, span: Span) -> Option<TermId> {
        let (comparison, a, b) = match op {
            BinaryOp::LessEqual => (Comparison::LessEqual, a, b),
            BinaryOp::Greater => (Comparison::Less, b, a),
            BinaryOp::GreaterEqual => (Comparison::LessEqual, b, a),
            BinaryOp::Equal => (Comparison::Equal, a, b),
            BinaryOp::NotEqual => (Comparison::NotEqual, a, b),
            _ => (Comparison::Less, a, b),
        };
        self.push(Term::Apply(Function::from(Op::Compare(comparison)), vec![a, b]), span)
    }

    pub(super) fn finish_compare_reals(&mut self, at: ExprId, op: BinaryOp, negated: bool) {
        let span = self.span(at);
        let b = self.pop_value();
        let a = self.pop_value();
        let (Expr::Binary(_, left, right), symbol) = (self.expr(at), super::text::symbol(op)) else { return };
        let value = self.elementwise(vec![a, b], &[*left, *right], symbol, span, |this, operands| {
            let [a, b] = <[TermId; 2]>::try_from(operands).ok()?;
            this.compare(op, a, b, span)
        });
        let shape = value.and_then(|value| self.real_shape(value)).unwrap_or_default();
        let moved = self.leave_moved(value, "c", span);
        let places = match shape.is_empty() {
            true => Some(Vec::new()),
            false => self.compared(&shape, value.as_slice(), symbol, span),
        };
        self.preds.push(moved.zip(places).map(|((var, mut args), places)| {
            args.extend(places);
            Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: !negated }
        }));
    }

    /// The variable and the indices of `v[a, ..]`, where `v` is a dense tensor of reals and is accessed to its elements.
    pub(super) fn element(&self, e: ExprId) -> Option<(VarId, &'a [ExprId])> {
        let (name, indices) = match self.expr(e) {
            Expr::Access { array, indices } => (*array, indices.as_slice()),
            Expr::Name(_) => (e, &[][..]),
            _ => return None,
        };
        let var = self.as_variable(name)?;
        if self.sparse(var).is_some() {
            return None;
        }
        let dims = self.program.types.real_dims(self.program.variables[var].ty)?;
        let whole = indices.iter().any(|e| matches!(self.expr(*e), Expr::All | Expr::Part { .. }));
        (dims.len() == indices.len() && !whole).then_some((var, indices))
    }

    /// Where a parameter is sparse: its pattern.
    pub(super) fn sparse(&self, var: VarId) -> Option<RelationRef> {
        match self.program.variables.get(var)?.kind {
            crate::term::VariableKind::Param(p) => {
                self.program.signature.params.get(p)?.storage.pattern().map(RelationRef::Input)
            }
            crate::term::VariableKind::Let => None,
        }
    }

    /// Whether `body` is `v[g, index]` over the whole last axis of a variable, with `g` free of the index.
    fn elements(&mut self, index: &str, extent: &Size, body: ExprId) -> Option<Elements<'a>> {
        let (var, indices) = self.element(body)?;
        let (last, outer) = indices.split_last()?;
        let Expr::Access { array, .. } = self.expr(body) else { return None };
        let names = |e: ExprId| matches!(self.expr(e), Expr::Name(name) if name == index);
        let dims = self.program.types.real_dims(self.program.variables[var].ty)?;
        if names(*array) || !names(*last) || dims.last() != Some(extent) {
            return None;
        }
        let mut stack = outer.to_vec();
        let mut looked_at = 0;
        while let Some(e) = stack.pop() {
            looked_at += 1;
            if looked_at > MAX_ELEMENT_NODES {
                return None;
            }
            match self.expr(e) {
                Expr::Number { .. } => {}
                // What is found at run time is no index of a term.
                Expr::Name(name) if name != index && !self.is_found_index(e) => {}
                Expr::Unary(UnaryOp::Neg, a) => stack.push(*a),
                Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => stack.extend([*a, *b]),
                Expr::Call { args, .. } => stack.extend(args),
                // The place of an extremum, itself an index.
                Expr::Binder { kind: BinderKind::ArgMax | BinderKind::ArgMin, index: inner, extent, body } => {
                    stack.push(*extent);
                    // Hidden by the inner index, ours does not occur in the body.
                    stack.extend((inner.text != index).then_some(*body));
                }
                Expr::Access { array, indices } => stack.extend(indices.iter().chain([array])),
                _ => return None,
            }
        }
        Some(Elements { var, outer })
    }

    /// `argmax index < extent. body` as an index.
    pub(super) fn arg_of(&mut self, at: ExprId, view: View, prove: bool) {
        let Expr::Binder { kind, index: Name { text: name, .. }, extent, body } = self.expr(at) else { return };
        let (extent, body) = (*extent, *body);
        if self.ends_at_index(extent) {
            return self.place_below(at, *kind, name, (extent, body), view);
        }
        let extent = self.range(extent, name, body);
        if let Some(extent) = &extent
            && let Some(Elements { var, outer }) = self.elements(name, extent, body)
        {
            let map = RelationRef::Computed { var, view };
            self.tasks.push(Task::MapApplication { at, map, n: outer.len(), prove });
            self.tasks.extend(outer.iter().rev().map(|a| Task::Index(*a)));
            return;
        }
        self.enter_moved();
        let index = self.enter_index(name, extent.as_ref());
        self.tasks.push(Task::ArgOf { at, view, index, extent });
        self.tasks.push(Task::Value(body));
    }

    /// `argmax(x)` or `argmin(x)`: which, and the vector.
    pub(super) fn largest_place(&self, e: ExprId) -> Option<(View, ExprId)> {
        match self.expr(e) {
            Expr::Call { callee, args } => match (callee.text.as_str(), args.as_slice()) {
                ("argmax", [vector]) => Some((View::ArgMax, *vector)),
                ("argmin", [vector]) => Some((View::ArgMin, *vector)),
                _ => None,
            },
            _ => None,
        }
    }

    /// `argmax(x)`  ==  `argmax i < n. x[i]`
    pub(super) fn arg_of_vector(&mut self, at: ExprId, view: View, vector: ExprId) {
        self.enter_moved();
        self.tasks.push(Task::ArgOfVector { at, view });
        self.tasks.push(Task::Value(vector));
    }

    pub(super) fn finish_arg_of_vector(&mut self, at: ExprId, view: View) {
        let span = self.span(at);
        let value = self.pop_value();
        let is_vector = value.is_none_or(|value| self.real_shape(value).is_some_and(|shape| shape.len() == 1));
        if let (false, Some(value)) = (is_vector, value) {
            let word = if view == View::ArgMax { "argmax" } else { "argmin" };
            let found = self.show_type(self.program.ty(value));
            let message = format!("`{word}` takes a vector, found a value of type `{found}`");
            let help = format!("the place in each row is `gen i < m. {word}(A[i, :])`");
            self.diagnose(Diagnostic::new("expected-tensor", span, message).help(help));
        }
        let value = value.filter(|_| is_vector);
        // A variable needs no other name.
        let variable = value.and_then(|value| match self.program.terms[value] {
            Term::Var(var) => Some(var),
            _ => None,
        });
        self.left_out |= variable.is_some();
        let moved = self.leave_moved(if variable.is_some() { None } else { value }, "v", span);
        let applied = variable.map(|var| (var, Vec::new())).or(moved);
        self.affines.push(applied.map(|(var, args)| {
            Affine::var(Var::Apply(Box::new(Application { map: RelationRef::Computed { var, view }, args })))
        }));
    }

    pub(super) fn finish_arg_of(&mut self, at: ExprId, view: View, index: IndexId, extent: Option<Size>) {
        let span = self.span(at);
        let Expr::Binder { body, index: name, kind, .. } = self.expr(at) else { return };
        self.leave_index(&name.text, extent.as_ref());
        let value = self.pop_value_in(Place::Total(kind.word()));
        let value = self.real(value, *body, kind.word());
        let tensor = value.zip(extent).and_then(|(body, extent)| self.push(Term::Gen { index, extent, body }, span));
        let moved = self.leave_moved(tensor, "v", span);
        self.affines.push(moved.map(|(var, args)| {
            Affine::var(Var::Apply(Box::new(Application { map: RelationRef::Computed { var, view }, args })))
        }));
    }

    /// `max index < extent. body` as a value.
    pub(super) fn largest(&mut self, at: ExprId, kind: BinderKind, name: &'a str, extent: ExprId, body: ExprId) {
        let view = if kind == BinderKind::Max { View::ArgMax } else { View::ArgMin };
        if self.ends_at_index(extent) {
            return self.largest_below(at, kind, name, (extent, body), view);
        }
        let extent = self.range(extent, name, body);
        if let Some(extent) = &extent
            && let Some(Elements { var, outer }) = self.elements(name, extent, body)
        {
            self.enter_anchor();
            self.tasks.push(Task::LargestOf { at, view, var, extent: extent.clone(), n: outer.len() });
            self.tasks.extend(outer.iter().rev().map(|a| Task::Index(*a)));
            return;
        }
        let index = self.enter_index(name, extent.as_ref());
        self.tasks.push(Task::Bound { at, kind, index, extent });
        self.tasks.push(Task::Value(body));
    }

    /// `max index < extent. var[g, index]`
    pub(super) fn finish_largest_of(&mut self, at: ExprId, view: View, var: VarId, extent: Size, n: usize) {
        let span = self.span(at);
        let outer = self.pop_affines(n);
        let hoisted = self.leave_anchor();
        let value = outer.and_then(|outer| {
            let dims = self.program.types.real_dims(self.program.variables[var].ty)?;
            let what = self.program.variables[var].name.clone();
            let args: Vec<(Affine, Size)> = outer.iter().cloned().zip(dims).collect();
            self.demand_in_bounds(at, &what, &args)?;
            self.largest_element(at, view, var, outer, extent)
        });
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// The value of `max` from the tensor that holds all candidates: a new `let` around [`Self::largest_element`].
    pub(super) fn finish_largest(
        &mut self,
        at: ExprId,
        kind: BinderKind,
        index: IndexId,
        extent: Size,
        body: TermId,
    ) -> Option<TermId> {
        let span = self.span(at);
        let view = if kind == BinderKind::Max { View::ArgMax } else { View::ArgMin };
        let value = self.push(Term::Gen { index, extent: extent.clone(), body }, span)?;
        let var = self.program.fresh_var("v", self.program.ty(value));
        let body = self.largest_element(at, view, var, Vec::new(), extent)?;
        self.push(Term::Let { var, value, body }, span)
    }

    /// `(sum i < n. [(argmax k < n. v[g, k]) = i] * v[g, i]) + [n <= 0] * -inf`
    pub(super) fn largest_element(
        &mut self,
        at: ExprId,
        view: View,
        var: VarId,
        outer: Vec<Affine>,
        extent: Size,
    ) -> Option<TermId> {
        let span = self.span(at);
        let name = match self.expr(at) {
            Expr::Binder { index, .. } => index.text.clone(),
            _ => "i".into(),
        };
        let index = self.program.fresh_index(name);
        let mut args = outer;
        args.push(Affine::index(index));
        let mut element = self.push(Term::Var(var), span)?;
        for index in &args {
            element = self.push(Term::Access { array: element, index: index.clone() }, span)?;
        }
        let guard = Pred::relation(RelationRef::Computed { var, view }, args);
        let body = self.push(Term::Iverson { guard, body: element }, span)?;
        let found = self.push(Term::Sum { index, extent: extent.clone(), body }, span)?;
        let last = extent.add_constant(-1);
        let some = Pred::non_negative(self.checked(at, last)?);
        if some.is_true() || self.knowledge.prove(&self.program, &some) == super::bounds::Proof::Known {
            return Some(found);
        }
        let limit = if view == View::ArgMax { f64::NEG_INFINITY } else { f64::INFINITY };
        let limit = self.push(Term::Number(Number::Literal(limit)), span)?;
        let nothing = extent.scale(-1);
        let guard = Pred::non_negative(self.checked(at, nothing)?);
        let otherwise = self.push(Term::Iverson { guard, body: limit }, span)?;
        self.push(Term::Add(found, otherwise), span)
    }

    /// Opens the scope of an index.
    pub(super) fn enter_index(&mut self, name: &'a str, extent: Option<&Size>) -> IndexId {
        // Names that nobody can write are those of vectors, and of `iterate`.
        let shown = match name.split_once(' ') {
            Some(("steps", _)) => "t",
            Some(_) => "i",
            None => name,
        };
        let index = self.program.fresh_index(shown);
        self.bind(name, Binding::Index(index));
        self.knowledge.enter_range(index, extent);
        index
    }

    /// Closes it.
    pub(super) fn leave_index(&mut self, name: &str, extent: Option<&Size>) {
        self.scopes.unbind(name);
        if extent.is_some() {
            self.knowledge.leave(self.knowledge.len().saturating_sub(1));
        }
    }

    /// Demands a number as operand of `what`.
    pub(super) fn real(&mut self, value: Option<TermId>, at: ExprId, what: &str) -> Option<TermId> {
        let value = value?;
        let ty = self.program.ty(value);
        if ty == Types::REAL {
            return Some(value);
        }
        let found = self.show_type(ty);
        let span = self.span(at);
        let help = match self.program.types.get(ty) {
            crate::ty::Type::Tensor(n, _) if what == "sum" => {
                format!("of all elements it is `sum(..)`; for each element write `gen i < {}. ..`", self.show(n))
            }
            crate::ty::Type::Tensor(n, _) => {
                format!("write it for each element: `gen i < {}. ..`", self.show(n))
            }
            _ => "take the components with `fst` and `snd`".to_owned(),
        };
        self.diagnose(
            Diagnostic::new("expected-real", span, format!("`{what}` takes numbers, found a value of type `{found}`"))
                .help(help),
        );
        None
    }

    /// The map with one place that an expression names, which is its target there.
    pub(super) fn single_index(&self, e: ExprId) -> Option<RelationRef> {
        let Expr::Name(name) = self.expr(e) else { return None };
        let Meaning::Callable(super::names::Global::Map(map)) = self.peek(name) else { return None };
        let map = RelationRef::Input(map);
        let shape = super::bounds::shape(&self.program, map);
        matches!(shape.as_slice(), [places, _] if places.as_constant() == Some(1)).then_some(map)
    }

    /// What a name stands for if it is called as a map.
    pub(super) fn map_named(&self, name: &str) -> Option<RelationRef> {
        match self.globals.get(name).filter(|_| self.local_function(name).is_none()) {
            Some(super::names::Global::Map(r)) => Some(RelationRef::Input(*r)),
            _ => None,
        }
    }

    /// A map and what it is applied to: `f(i)`, or `f[i]`, as one who takes it for a vector of indices writes.
    pub(super) fn applied_map(&self, e: ExprId) -> Option<(RelationRef, &'a str, &'a [ExprId])> {
        match self.expr(e) {
            Expr::Call { callee, args } => Some((self.map_named(&callee.text)?, &callee.text, args)),
            Expr::Access { array, indices } => match self.expr(*array) {
                Expr::Name(name) => match self.peek(name) {
                    Meaning::Callable(super::names::Global::Map(r)) => Some((RelationRef::Input(r), name, indices)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether an expression is made of indices, sizes and integers only, so that comparing it compares integers.
    ///
    /// What has several users is looked at once: names mean the same wherever it is used.
    pub(super) fn is_index_expression(&mut self, e: ExprId) -> bool {
        enum Step {
            Look(ExprId),
            Combine(ExprId),
        }
        let place = self.frame.place;
        let mut steps = vec![Step::Look(e)];
        let mut answers = Vec::new();
        while let Some(step) = steps.pop() {
            work::charge(4);
            match step {
                Step::Look(e) => match self.expr(e) {
                    Expr::Unary(UnaryOp::Neg, a) => steps.push(Step::Look(*a)),
                    Expr::Binary(op, a, b) if super::quotients::is_of_indices(*op) => {
                        match self.index_like.get(&(place, e)) {
                            Some(known) => answers.push(*known),
                            None => steps.extend([Step::Combine(e), Step::Look(*b), Step::Look(*a)]),
                        }
                    }
                    // A whole number beyond the range of integers is refused as one, not rounded and compared as a real.
                    Expr::Number { value, integer } => {
                        let beyond = value.is_finite() && value.abs() >= i64::MAX as f64;
                        answers.push(integer.is_some() || beyond);
                    }
                    Expr::Name(_) if self.single_index(e).is_some() => answers.push(true),
                    Expr::Name(name) => answers.push(match self.peek(name) {
                        Meaning::Unknown => super::values::constant_named(name).is_none(),
                        Meaning::Index(_) | Meaning::Size(_) | Meaning::Error => true,
                        Meaning::Var(var) => self.size_of.contains_key(&var) || self.is_found_index(e),
                        Meaning::Function(_) | Meaning::Callable(_) => false,
                    }),
                    // The arguments of a map are index expressions or errors.
                    Expr::Call { .. } | Expr::Access { .. } => {
                        let is_index = self.largest_place(e).is_some() || self.applied_map(e).is_some();
                        answers.push(is_index || self.is_found_index(e));
                    }
                    Expr::Fst(_) | Expr::Snd(_) | Expr::Typed { .. } | Expr::Scan { .. } => {
                        answers.push(self.is_found_index(e));
                    }
                    Expr::Binder { kind, .. } => {
                        answers.push(matches!(kind, BinderKind::ArgMax | BinderKind::ArgMin));
                    }
                    _ => answers.push(false),
                },
                Step::Combine(e) => {
                    let (b, a) = (answers.pop().unwrap_or(false), answers.pop().unwrap_or(false));
                    answers.push(a && b);
                    if self.frame.source.repeated.contains(&e) {
                        self.index_like.insert((place, e), a && b);
                    }
                }
            }
        }
        answers.pop().unwrap_or(false)
    }
}

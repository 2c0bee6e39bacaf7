//! Indices that are found at run time: values of type `index n`.
//!
//! ```text
//! x[k]                             ==  sum q < n. [k = q] * x[q]
//! [k + 1 < n] * e                  ==  let c = (k + 1 < n) in [c != 0] * e
//! [f(k) = i] * e                   ==  let c = gen q < n. (k = q) in [exists q < n. c[q] != 0 and f(q) = i] * e
//! ```
//!
//! A value of type `index n` is a number that is known to be an integer from 0 on, below `n`, so there is exactly one such `q`, and a sum over it is
//! exact. As a number it is the value itself. Nothing below this module knows of the type: values, derivatives and loops are those of numbers, and what
//! compares a number has no derivative by it. Lowering makes one access of the sum.
//!
//! *What is known.* While names get their meaning each variable of the type has a *stand-in*, an index with the same range. Index expressions,
//! proofs that accesses are in bounds and predicates are about the stand-in; terms are about the variable. What a bracket says of stand-ins is
//! remembered with the bracket that says it of numbers.
//!
//! *What has the type.* A name with `: index n`, whose value is proved to be in the range: an index expression, both sides of an `if`, all arms of a
//! `case`, the body of a bracket where 0 is in the range. An index expression that is bound by a `let` stands for itself.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::ast::{BinderKind, Expr, ExprId, TypeExpr, TypeKind, UnaryOp};
use super::bounds::Proof;
use super::calls::Definition;
use super::names::{Binding, Meaning};
use super::sizes::{Part, linear, resolve};
use super::stacks::Argument;
use super::{Elaborator, Task};
use crate::base::{IndexId, Span, VarId, work};
use crate::error::Diagnostic;
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Function, Number, Op};
use crate::solver::exists;
use crate::term::{Term, TermId};

/// What is known of a value beside the type of its term.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refined {
    Any,
    Index(Size),
    Pair(Rc<Refined>, Rc<Refined>),
    /// Of each element along the first axis.
    Tensor(Rc<Refined>),
}

/// An index that stands for the number in a variable.
#[derive(Clone, Debug)]
pub(super) struct StandIn {
    var: VarId,
    extent: Size,
}

/// An argument of a parameter that is an index.
#[derive(Clone)]
pub(super) enum Given {
    /// Of another type.
    Value,
    Affine(Affine),
    Found(Size),
}

/// Arguments of parameters that are indices, and what goes around the call.
type Arguments = (Vec<Given>, Vec<(VarId, TermId)>);

/// A number at which a term is read: `index` is the only value in its range that equals the variable.
pub(super) struct Told {
    index: IndexId,
    of: StandIn,
}

impl<'a> Elaborator<'a> {
    /// What a type as written says beside the type of the term. Types nest to a bounded depth.
    pub(super) fn refine(&mut self, ty: &TypeExpr) -> Option<Refined> {
        Some(match &ty.kind {
            TypeKind::Index(n) => Refined::Index(self.extent(*n)?),
            TypeKind::Pair(a, b) => match (self.refine(a)?, self.refine(b)?) {
                (Refined::Any, Refined::Any) => Refined::Any,
                (a, b) => Refined::Pair(Rc::new(a), Rc::new(b)),
            },
            TypeKind::Tensor(dims, element) => match self.refine(element)? {
                Refined::Any => Refined::Any,
                element => dims.iter().fold(element, |element, _| Refined::Tensor(Rc::new(element))),
            },
            TypeKind::Real | TypeKind::Sum(..) | TypeKind::Inferred | TypeKind::Function(..) => Refined::Any,
        })
    }

    /// What is known of the value of an expression, from its form alone.
    pub(super) fn refined_of(&mut self, e: ExprId) -> Refined {
        enum Part {
            Half(bool),
            Element(usize),
        }
        let (mut path, mut e) = (Vec::new(), e);
        let mut found = loop {
            work::charge(2);
            match self.expr(e) {
                Expr::Name(name) => match self.peek(name) {
                    Meaning::Var(var) => break self.refined.get(&var).cloned().unwrap_or(Refined::Any),
                    _ => return Refined::Any,
                },
                Expr::Typed { ty, .. } => break self.refine(ty).unwrap_or(Refined::Any),
                Expr::Scan { kind, init, .. } => {
                    let Expr::Typed { ty, .. } = self.expr(*init) else { return Refined::Any };
                    let state = self.refine(ty).unwrap_or(Refined::Any);
                    break match kind {
                        super::super::ast::LoopKind::Scan => Refined::Tensor(Rc::new(state)),
                        _ => state,
                    };
                }
                Expr::Fst(of) | Expr::Snd(of) => {
                    path.push(Part::Half(matches!(self.expr(e), Expr::Fst(_))));
                    e = *of;
                }
                Expr::Access { array, indices } if !indices.iter().any(|i| matches!(self.expr(*i), Expr::All)) => {
                    path.push(Part::Element(indices.len()));
                    e = *array;
                }
                _ => return Refined::Any,
            }
        };
        for part in path.into_iter().rev() {
            found = match (part, found) {
                (Part::Half(first), Refined::Pair(a, b)) => if first { (*a).clone() } else { (*b).clone() },
                (Part::Element(n), mut found) => {
                    for _ in 0..n {
                        let Refined::Tensor(element) = found else { return Refined::Any };
                        found = (*element).clone();
                    }
                    found
                }
                _ => return Refined::Any,
            };
        }
        found
    }

    /// Whether an expression is of type `index n` by its form, and no map, `argmax` or arithmetic.
    pub(super) fn is_found_index(&mut self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Name(name) => match self.peek(name) {
                Meaning::Var(var) => {
                    self.affine_of.contains_key(&var) || matches!(self.refined.get(&var), Some(Refined::Index(_)))
                }
                _ => false,
            },
            Expr::Access { .. } | Expr::Fst(_) | Expr::Snd(_) | Expr::Typed { .. } | Expr::Scan { .. } => {
                matches!(self.refined_of(e), Refined::Index(_))
            }
            _ => false,
        }
    }

    /// Whether the value of a `let` is an index expression that mentions an index, so that its name stands for the expression.
    pub(super) fn is_bound_index(&mut self, e: ExprId) -> bool {
        if self.is_found_index(e) {
            return false;
        }
        let mut stack = vec![e];
        let mut mentions = false;
        while let Some(e) = stack.pop() {
            work::charge(2);
            mentions |= match self.expr(e) {
                Expr::Unary(UnaryOp::Neg, a) => {
                    stack.push(*a);
                    false
                }
                Expr::Binary(_, a, b) => {
                    stack.extend([*a, *b]);
                    false
                }
                Expr::Name(name) => matches!(self.peek(name), Meaning::Index(_)) || self.is_found_index(e),
                Expr::Number { .. } => false,
                _ => true,
            };
        }
        mentions && self.is_index_expression(e)
    }

    /// The index that stands for a variable.
    pub(super) fn stand_in(&mut self, var: VarId, extent: &Size) -> IndexId {
        if let Some(known) = self.stand_in_of.get(&var) {
            return *known;
        }
        let index = self.program.fresh_index(self.program.variables[var].name.clone());
        self.knowledge.declare(index, Some(extent.clone()));
        self.stand_in_of.insert(var, index);
        self.stand_ins.insert(index, StandIn { var, extent: extent.clone() });
        index
    }

    /// A variable as an index: the index expression that it is bound to, or its stand-in.
    pub(super) fn index_of_variable(&mut self, var: VarId) -> Option<Affine> {
        if let Some(affine) = self.affine_of.get(&var) {
            return Some(affine.clone());
        }
        match self.refined.get(&var).cloned() {
            Some(Refined::Index(extent)) => Some(Affine::index(self.stand_in(var, &extent))),
            _ => None,
        }
    }

    /// An element or a part that is an index: it is bound around the term in force.
    pub(super) fn found_index(&mut self, at: ExprId) {
        let Refined::Index(extent) = self.refined_of(at) else {
            self.fail();
            self.affines.push(None);
            return;
        };
        self.enter_moved();
        self.tasks.push(Task::FoundIndex(at, extent));
        self.tasks.push(Task::Value(at));
    }

    pub(super) fn finish_found_index(&mut self, at: ExprId, extent: &Size) {
        let span = self.span(at);
        let value = self.pop_value();
        let bound = match value.map(|value| &self.program.terms[value]) {
            Some(Term::Var(var)) => {
                let var = *var;
                self.leave_moved(None, "k", span);
                self.left_out = true;
                Some((var, Vec::new()))
            }
            _ => self.leave_moved(value, "k", span),
        };
        let affine = bound.and_then(|(var, axes)| {
            if axes.is_empty() {
                return Some(Affine::index(self.stand_in(var, extent)));
            }
            let message = "an index that is found at run time does not depend on an index of `exists`";
            let help = "write a `sum` in place of the `exists`: it is not 0 where there is one";
            self.diagnose(Diagnostic::new("found-index", span, message).help(help));
            None
        });
        self.affines.push(affine);
    }

    /// Adds the stand-ins that an index expression mentions.
    fn add_stand_ins(&self, a: &Affine, found: &mut Vec<IndexId>) {
        if self.stand_ins.is_empty() {
            return;
        }
        a.visit(&mut |v| {
            if let Var::Index(i) = v
                && self.stand_ins.contains_key(i)
                && !found.contains(i)
            {
                found.push(*i);
            }
        });
    }

    /// Index expressions about new indices in the place of stand-ins, and these.
    pub(super) fn told(
        &mut self,
        places: Vec<Option<Affine>>,
        axes: &[Size],
    ) -> Option<(Vec<Option<Affine>>, (Vec<Told>, Pred))> {
        let mut found = Vec::new();
        places.iter().flatten().for_each(|a| self.add_stand_ins(a, &mut found));
        let mut told = Vec::new();
        for stand_in in found {
            let of = self.stand_ins.get(&stand_in)?.clone();
            let index = self.program.fresh_index("q");
            self.knowledge.declare(index, Some(of.extent.clone()));
            told.push((stand_in, Told { index, of }));
        }
        let replace = |i: IndexId| told.iter().find(|(s, _)| *s == i).map(|(_, told)| Affine::index(told.index));
        let places = places.into_iter().map(|a| a.map(|a| a.substitute(&replace)).transpose());
        let places = places.collect::<Result<Vec<_>, _>>().ok()?;
        if told.is_empty() {
            return Some((places, (Vec::new(), Pred::True)));
        }
        let mut bounded: Vec<(Affine, Size)> =
            places.iter().zip(axes).filter_map(|(a, n)| Some((a.clone()?, n.clone()))).collect();
        places.iter().flatten().for_each(|a| self.sources_in(a, &mut bounded));
        let known = self.in_bounds(&bounded)?;
        Some((places, (told.into_iter().map(|(_, told)| told).collect(), known)))
    }

    /// `sum q < n. [k = q] * value`. What is known to hold where the numbers are indices, such as that places are in bounds, is said as well.
    pub(super) fn around_told(
        &mut self,
        (told, known): (Vec<Told>, Pred),
        value: Option<TermId>,
        span: Span,
    ) -> Option<TermId> {
        let (mut known, mut value) = (Some(known), value?);
        for Told { index, of } in told.into_iter().rev() {
            let (number, place) = (self.push(Term::Var(of.var), span)?, self.index_term(index, span)?);
            let equal = Function::from(Op::Compare(Comparison::Equal));
            let equal = self.push(Term::Apply(equal, vec![number, place]), span)?;
            let c = self.program.fresh_var("c", self.program.ty(equal));
            let here = Pred::relation(RelationRef::Computed { var: c, view: View::Support }, Vec::new());
            let guard = here.and(known.take().unwrap_or(Pred::True));
            value = self.at_index((index, of.extent), guard, Some((c, equal)), value, span)?;
        }
        Some(value)
    }

    fn index_term(&mut self, index: IndexId, span: Span) -> Option<TermId> {
        self.push(Term::Number(Number::Index(index.into())), span)
    }

    /// That places are in axes, but for what is known anyway.
    fn in_bounds(&self, places: &[(Affine, Size)]) -> Option<Pred> {
        let mut known = Vec::new();
        for (a, n) in places {
            let range = Pred::in_range(a, n).ok()?;
            let follows = |p: &Pred| self.knowledge.prove(&self.program, p) == Proof::Known;
            known.extend(range.conjuncts().iter().filter(|p| !follows(p)).cloned());
        }
        Some(Pred::all(known))
    }

    /// Adds the arguments of maps and their sources.
    fn sources_in(&self, a: &Affine, all: &mut Vec<(Affine, Size)>) {
        a.visit(&mut |v| {
            if let Var::Apply(application) = v {
                let shape = super::bounds::shape(&self.program, application.map);
                all.extend(application.args.iter().cloned().zip(shape));
            }
        });
    }

    /// `gen q < n. (k = q)`, and a variable for it.
    fn one_hot(&mut self, of: &StandIn, span: Span) -> Option<(VarId, TermId)> {
        let index = self.program.fresh_index("q");
        self.knowledge.declare(index, Some(of.extent.clone()));
        let number = self.push(Term::Var(of.var), span)?;
        let place = self.index_term(index, span)?;
        let equal = Function::from(Op::Compare(Comparison::Equal));
        let body = self.push(Term::Apply(equal, vec![number, place]), span)?;
        let tensor = self.push(Term::Gen { index, extent: of.extent.clone(), body }, span)?;
        let var = self.program.fresh_var("c", self.program.ty(tensor));
        Some((var, tensor))
    }

    /// An index expression as a number.
    pub(super) fn number_of(&mut self, a: &Affine, span: Span) -> Option<TermId> {
        let (mut own, mut rest) = (Vec::new(), Vec::new());
        for (v, k) in a.terms() {
            match v {
                Var::Index(i) if self.stand_ins.contains_key(i) => own.push((self.stand_ins[i].var, *k)),
                _ => rest.push((v.clone(), *k)),
            }
        }
        let rest = Affine::from_terms(rest, a.offset()).ok()?;
        let mut sum = None;
        for (var, k) in own {
            let mut term = self.push(Term::Var(var), span)?;
            if k != 1 {
                let factor = self.push(Term::Number(Number::Literal(k as f64)), span)?;
                term = self.push(Term::Mul(factor, term), span)?;
            }
            sum = Some(match sum {
                Some(sum) => self.push(Term::Add(sum, term), span)?,
                None => term,
            });
        }
        if sum.is_some() && rest == Affine::default() {
            return sum;
        }
        let (mut rest, told) = self.told(vec![Some(rest)], &[])?;
        let rest = rest.pop()??;
        let number = match rest.as_constant().filter(|_| sum.is_some()) {
            Some(constant) => Number::Literal(constant as f64),
            None => Number::Index(rest),
        };
        let rest = self.push(Term::Number(number), span);
        let rest = self.around_told(told, rest, span)?;
        match sum {
            Some(sum) => self.push(Term::Add(sum, rest), span),
            None => Some(rest),
        }
    }

    /// A predicate about numbers in the place of stand-ins.
    pub(super) fn about_numbers(&mut self, p: Pred, span: Span) -> Option<Pred> {
        let mut found = Vec::new();
        p.visit_affine(&mut |a| self.add_stand_ins(a, &mut found));
        if found.is_empty() {
            return Some(p);
        }
        let said = match &p {
            Pred::NonNegative(a) | Pred::Zero(a) | Pred::NonZero(a) if self.is_linear(a, &found) => {
                self.compared_numbers(&p, a, span)?
            }
            _ => self.exists_found(&p, &found, span)?,
        };
        self.knowledge.remember_meaning(said.clone(), p);
        Some(said)
    }

    /// Whether stand-ins stand in no argument of a map.
    fn is_linear(&self, a: &Affine, found: &[IndexId]) -> bool {
        a.terms().iter().all(|(v, _)| match v {
            Var::Apply(application) => !application.args.iter().any(|a| found.iter().any(|i| a.mentions(*i))),
            Var::Index(_) | Var::Size(_) => true,
        })
    }

    /// `l <= r`, `l < r` or `l = r` of numbers, as a tensor over the indices that an `exists` binds.
    fn compared_numbers(&mut self, p: &Pred, a: &Affine, span: Span) -> Option<Pred> {
        self.enter_moved();
        let anchor = self.anchors.len().checked_sub(1);
        let slots = anchor.map_or(0, |anchor| self.anchors[anchor].slots.len());
        let mut names = Vec::new();
        for slot in 0..slots {
            let anchor = anchor?;
            let index = self.anchors[anchor].slots[slot].index;
            if a.mentions(index) {
                names.push((index, self.quantified(anchor, slot)));
            }
        }
        let named = |i: IndexId| names.iter().find(|(from, _)| *from == i).map(|(_, to)| Affine::index(*to));
        let value = a.substitute(&named).ok().and_then(|a| {
            let (left, right): (Vec<_>, Vec<_>) = a.terms().iter().cloned().partition(|(_, k)| *k < 0);
            let left = left.into_iter().map(|(v, k)| Some((v, k.checked_neg()?))).collect::<Option<Vec<_>>>()?;
            let below = matches!(p, Pred::NonNegative(_)) && a.offset() < 0;
            let shift = if below { a.offset().checked_add(1)? } else { a.offset() };
            let (low, high) = if shift < 0 { (shift.checked_neg()?, 0) } else { (0, shift) };
            let left = Affine::from_terms(left, low).ok()?;
            let right = Affine::from_terms(right, high).ok()?;
            let (left, right) = (self.number_of(&left, span)?, self.number_of(&right, span)?);
            let comparison = match p {
                Pred::NonNegative(_) if below => Comparison::Less,
                Pred::NonNegative(_) => Comparison::LessEqual,
                _ => Comparison::Equal,
            };
            self.push(Term::Apply(Function::from(Op::Compare(comparison)), vec![left, right]), span)
        });
        let (var, args) = self.leave_moved(value, "c", span)?;
        let relation = RelationRef::Computed { var, view: View::Support };
        Some(Pred::Relation { relation, args, holds: !matches!(p, Pred::NonZero(_)) })
    }

    /// `exists q < n. c[q] != 0 and p(q)`
    fn exists_found(&mut self, p: &Pred, found: &[IndexId], span: Span) -> Option<Pred> {
        let mut said = p.clone();
        for stand_in in found {
            let of = self.stand_ins.get(stand_in)?.clone();
            let (var, one_hot) = self.one_hot(&of, span)?;
            self.anchors.last_mut()?.lets.push((var, one_hot));
            let index = self.program.fresh_index("q");
            self.knowledge.declare(index, Some(of.extent.clone()));
            let here = Pred::relation(RelationRef::Computed { var, view: View::Support }, vec![index.into()]);
            let inside = said.substitute(&|i| (i == *stand_in).then(|| Affine::index(index))).ok()?;
            let around = exists(index, &of.extent, &here.and(inside));
            said = match around {
                Ok(around) => around,
                Err(overflow) => {
                    self.report("overflow", span, overflow.to_string());
                    return None;
                }
            };
        }
        Some(said)
    }

    /// A value with a type at its name.
    pub(super) fn typed_value(&mut self, at: ExprId) {
        let Expr::Typed { value, ty, trusted } = self.expr(at) else { return };
        if *trusted {
            self.tasks.push(Task::Value(*value));
            return;
        }
        match self.refine(ty) {
            Some(refined) => {
                self.expect(*value, refined);
                self.tasks.push(Task::Conform(at));
                self.tasks.push(Task::Value(*value));
            }
            None => self.values.push(None),
        }
    }

    /// The value is complete: it has the type, but for what is said of indices, which was proved where they stand.
    pub(super) fn finish_typed(&mut self, at: ExprId) {
        let Expr::Typed { ty, .. } = self.expr(at) else { return };
        let (span, source) = (self.span(at), self.frame.source);
        let value = self.pop_value();
        let value = value.and_then(|value| {
            let mut axes = Vec::new();
            let found = self.program.ty(value);
            let mut same = self.match_type(source, ty, super::typings::Actual::Type(found), &mut axes, 0);
            for (formal, size) in axes {
                let formal = resolve(&formal, &mut |part| self.size_part(part));
                same &= match formal {
                    Some(Ok(formal)) => self.same_size(&formal, &size),
                    _ => false,
                };
            }
            if same {
                return Some(value);
            }
            let formal = super::sizes::show_formal(source, ty);
            let message = format!("a value of type `{formal}` is expected, found one of type `{}`", self.show_type(found));
            self.report("type-mismatch", span, message);
            None
        });
        self.values.push(value);
    }

    /// What is expected of an expression, when it is elaborated.
    fn expect(&mut self, e: ExprId, refined: Refined) {
        if refined != Refined::Any {
            self.expected.insert((self.frame.place, e), refined);
        }
    }

    /// Hands on to its parts what is expected of an expression. Whether it was elaborated as an index.
    pub(super) fn meets_expectation(&mut self, at: ExprId) -> bool {
        if self.expected.is_empty() {
            return false;
        }
        let Some(refined) = self.expected.remove(&(self.frame.place, at)) else { return false };
        match (self.expr(at), &refined) {
            (Expr::Let { body, .. }, _) => self.expect(*body, refined),
            (Expr::Call { callee, args }, _) if callee.text == "select" && args.len() == 3 => {
                self.expect(args[1], refined.clone());
                self.expect(args[2], refined);
            }
            (Expr::Case { arms, .. }, _) => arms.iter().for_each(|arm| self.expect(arm.body, refined.clone())),
            (Expr::Pair(a, b), Refined::Pair(first, second)) => {
                self.expect(*a, (**first).clone());
                self.expect(*b, (**second).clone());
            }
            (Expr::Binder { kind: BinderKind::Gen, body, .. }, Refined::Tensor(element)) => {
                self.expect(*body, (**element).clone());
            }
            (Expr::Iverson { body, .. }, Refined::Index(n)) => {
                self.demand_index(at, &Affine::constant(0), n);
                self.expect(*body, refined);
            }
            (_, Refined::Index(n)) => {
                if self.is_index_expression(at) {
                    self.enter_anchor();
                    self.tasks.push(Task::TypedIndex(at, n.clone()));
                    self.tasks.push(Task::Index(at));
                    return true;
                }
                self.not_typed(at, &refined);
            }
            _ if self.refined_of(at) == refined => {}
            _ => self.not_typed(at, &refined),
        }
        false
    }

    fn not_typed(&mut self, at: ExprId, refined: &Refined) {
        let span = self.span(at);
        let (what, found) = match refined {
            Refined::Index(n) => (format!("`index {}`", self.show(n)), super::text::noun(self.expr(at))),
            _ => ("indices".to_owned(), super::text::noun(self.expr(at))),
        };
        let message = format!("a value of type {what} is expected, found {found} that is not known to be one");
        let help = "an index is made of indices, sizes, integers, maps and `argmax`, by `if` and `case`; `let k : index n = ..` gives a name the type";
        self.diagnose(Diagnostic::new("expected-index", span, message).help(help));
    }

    pub(super) fn finish_typed_index(&mut self, at: ExprId, extent: &Size) {
        let span = self.span(at);
        let index = self.pop_affine();
        let hoisted = self.leave_anchor();
        let value = index.clone().and_then(|index| {
            self.demand_index(at, &index, extent)?;
            match index.as_constant() {
                Some(constant) => self.push(Term::Number(Number::Literal(constant as f64)), span),
                None => self.number_of(&index, span),
            }
        });
        self.remember_index(value, index);
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// Remembers the index expression that a number was, for a `let` that binds it.
    pub(super) fn remember_index(&mut self, value: Option<TermId>, index: Option<Affine>) {
        if let (Some(mut core), Some(index), false) = (value, index, self.stand_ins.is_empty()) {
            while let Term::Let { body, .. } = &self.program.terms[core] {
                core = *body;
            }
            self.index_terms.insert(core, index);
        }
    }

    /// Demands that an index expression is in a range.
    pub(super) fn demand_index(&mut self, at: ExprId, index: &Affine, extent: &Size) -> Option<()> {
        let range = Pred::in_range(index, extent);
        let range = self.checked(at, range)?;
        let holds = range.conjuncts().iter().all(|p| self.proves(p)) && !range.is_false();
        if holds {
            return Some(());
        }
        let (span, shown, n) = (self.span(at), self.show(index), self.show(extent));
        let message = format!("`{shown}` may be no `index {n}`: `0 <= {shown} < {n}` is not known here");
        let help = format!("say what it is elsewhere, as in `if {shown} < {n} then {shown} else 0`");
        self.diagnose(Diagnostic::new("out-of-bounds", span, message).help(help));
        None
    }

    /// An argument of a parameter that is an index.
    pub(super) fn index_argument(&mut self, e: ExprId) {
        match !self.is_found_index(e) && self.is_index_expression(e) {
            true => self.index_value(e),
            false => self.tasks.push(Task::Value(e)),
        }
    }

    /// Demands that the arguments of parameters that are indices are in their ranges.
    pub(super) fn index_arguments(
        &mut self,
        at: ExprId,
        definition: &Definition<'a>,
        args: &mut [Argument],
        sizes: &BTreeMap<&'a str, Size>,
    ) -> Option<Arguments> {
        let (places, mut lets) = (self.places_of_arguments(at), Vec::new());
        let mut found = Vec::with_capacity(args.len());
        for ((argument, (name, ty)), place) in args.iter_mut().zip(definition.params).zip(places) {
            let TypeKind::Index(n) = &ty.kind else {
                found.push(Given::Value);
                continue;
            };
            let size = linear(definition.source, *n).ok()?;
            let extent = resolve(&size, &mut |part| match part {
                Part::Name(name, span) => match sizes.get(name) {
                    Some(size) => Some(Ok(size.clone())),
                    None => self.size_part(Part::Name(name, span)),
                },
                part => self.size_part(part),
            })?;
            let extent = self.checked(at, extent)?;
            let given = match *argument {
                Argument::Variable(var) => self.index_of_variable(var).map(Given::Affine),
                Argument::Value(value) => {
                    let core = self.leave_lets(value, &mut lets);
                    *argument = Argument::Value(core);
                    let known = self.index_terms.remove(&core);
                    let refined = self.refined_of(*place);
                    match (&self.program.terms[core], refined) {
                        (Term::Number(Number::Index(a)), _) => Some(Given::Affine(a.clone())),
                        (_, Refined::Index(m)) => Some(Given::Found(m)),
                        _ => known.map(Given::Affine),
                    }
                }
                Argument::Function(_) => None,
            };
            let largest = |m: &Size| m.add_constant(-1);
            match &given {
                Some(Given::Affine(a)) => self.demand_index(*place, a, &extent)?,
                Some(Given::Found(m)) if *m == extent => {}
                Some(Given::Found(m)) => {
                    let largest = self.checked(at, largest(m))?;
                    self.demand_index(*place, &largest, &extent)?;
                }
                _ => {
                    let (span, n) = (self.span(*place), self.show(&extent));
                    let message = format!("`{}` takes an `index {n}` as `{}`, found another value", definition.name.text, name.text);
                    let help = "an index is made of indices, sizes, integers, maps and `argmax`; `let k : index n = ..` gives a name the type";
                    self.diagnose(Diagnostic::new("expected-index", span, message).help(help));
                    return None;
                }
            }
            found.push(given.unwrap_or(Given::Value));
        }
        Some((found, lets))
    }

    /// What is known of the variable of a parameter.
    pub(super) fn remember_argument(&mut self, var: VarId, given: Given) {
        match given {
            Given::Value => {}
            Given::Affine(affine) => {
                self.affine_of.insert(var, affine);
            }
            Given::Found(extent) => {
                self.refined.insert(var, Refined::Index(extent));
            }
        }
    }

    /// Binds the name of a `let` whose value is an index expression, or known to have a type. Nothing where it is a value like others.
    pub(super) fn bind_index(&mut self, at: ExprId) -> Option<()> {
        let Expr::Let { name, value: bound, body } = self.expr(at) else { return None };
        let value = self.values.last_term()?;
        let refined = match self.expr(*bound) {
            Expr::Typed { ty, .. } => self.refine(ty).unwrap_or(Refined::Any),
            _ => self.refined_of(*bound),
        };
        let is_trusted = matches!(self.expr(*bound), Expr::Typed { trusted: true, .. });
        if let (true, Term::Var(var)) = (is_trusted, &self.program.terms[value]) {
            let var = *var;
            self.values.pop();
            self.left_out = true;
            self.refined.entry(var).or_insert(refined);
            self.bind(&name.text, Binding::Var(var));
            self.tasks.push(Task::LetIndex(at, None, Vec::new()));
            self.tasks.push(Task::Value(*body));
            return Some(());
        }
        let mut core = value;
        while let Term::Let { body, .. } = &self.program.terms[core] {
            core = *body;
        }
        let known = self.index_terms.remove(&core);
        let affine = match &self.program.terms[core] {
            Term::Number(Number::Index(affine)) => Some(affine.clone()),
            Term::Number(Number::Literal(_)) => None,
            _ => known,
        };
        let Some(affine) = affine else {
            if refined == Refined::Any {
                return None;
            }
            let var = self.program.fresh_var(&name.text, self.program.ty(value));
            self.refined.insert(var, refined);
            self.bind(&name.text, Binding::Var(var));
            self.tasks.push(Task::Let(at, Some(var)));
            self.tasks.push(Task::Value(*body));
            return Some(());
        };
        if affine.is_size() && refined == Refined::Any {
            return None;
        }
        let mut lets = Vec::new();
        self.values.pop();
        let core = self.leave_lets(value, &mut lets);
        let var = self.program.fresh_var(&name.text, self.program.ty(core));
        self.affine_of.insert(var, affine);
        self.bind(&name.text, Binding::Var(var));
        self.tasks.push(Task::LetIndex(at, Some((var, core)), lets));
        self.tasks.push(Task::Value(*body));
        Some(())
    }

    /// The body is complete. A name that stands for an index expression is bound only where it is read as a number.
    pub(super) fn finish_let_index(
        &mut self,
        at: ExprId,
        bound: Option<(VarId, TermId)>,
        mut lets: Vec<(VarId, TermId)>,
    ) {
        let span = self.span(at);
        let Expr::Let { name, .. } = self.expr(at) else { return };
        self.scopes.unbind(&name.text);
        let body = self.values.pop();
        match bound {
            Some((var, _)) if !self.read_as_numbers.contains(&var) => self.left_out = true,
            Some(bound) => lets.push(bound),
            None => {}
        }
        let item = body.and_then(|body| self.wrap_item(lets, body, span));
        self.values.push_item(item);
    }
}

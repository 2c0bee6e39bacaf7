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

use std::rc::Rc;

use super::super::ast::{BinaryOp, BinderKind, Expr, ExprId, LoopKind, TypeExpr, TypeKind, UnaryOp};
use super::bounds::Proof;
use super::names::Meaning;
use super::{Elaborator, Task};
use crate::base::{IndexId, Span, VarId, work};
use crate::error::Diagnostic;
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Function, Number, Op};
use crate::solver::exists;
use crate::term::{Term, TermId};
use crate::ty::{Side, Type, TypeId};

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

/// How an index expression is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// Of indices of binders, sizes and integers.
    OfBinders,
    /// Of maps and of what is found.
    AtRunTime,
}

/// A number at which a term is read: `index` is the only value in its range that equals the variable.
pub(super) struct Told {
    index: IndexId,
    of: StandIn,
}

/// The numbers at which a term is read, and what is known where it is.
type Around = (Vec<Told>, Pred);

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
            /// The tensor that it is the element of.
            Tensor,
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
                Expr::Scan { kind, steps, init, .. } => {
                    let state = match self.expr(*init) {
                        Expr::Typed { ty, .. } => self.refine(ty).unwrap_or(Refined::Any),
                        _ => Refined::Any,
                    };
                    break match (kind, state) {
                        (LoopKind::Unfold, state) => self.steps_and_states(*steps, &state),
                        (_, Refined::Any) => Refined::Any,
                        (LoopKind::Scan, state) => Refined::Tensor(Rc::new(state)),
                        (_, state) => state,
                    };
                }
                // The places of extrema, of ranges that are not empty.
                Expr::Binder { kind: BinderKind::Gen, body, .. } => {
                    path.push(Part::Tensor);
                    e = *body;
                }
                Expr::Binder { kind: BinderKind::ArgMax | BinderKind::ArgMin, index, extent, body }
                    if matches!(path.last(), Some(Part::Tensor)) && !self.ends_at_index(*extent) =>
                {
                    let Some(extent) = self.range(*extent, &index.text, *body) else { return Refined::Any };
                    let some = extent.add_constant(-1).map(Pred::non_negative);
                    match some.is_ok_and(|some| self.knowledge.prove(&self.program, &some) == Proof::Known) {
                        true => break Refined::Index(extent),
                        false => return Refined::Any,
                    }
                }
                Expr::Fst(of) | Expr::Snd(of) => {
                    path.push(Part::Half(matches!(self.expr(e), Expr::Fst(_))));
                    e = *of;
                }
                Expr::Access { array, indices }
                    if !indices.iter().any(|i| matches!(self.expr(*i), Expr::All | Expr::Part { .. })) =>
                {
                    path.push(Part::Element(indices.len()));
                    e = *array;
                }
                _ => return Refined::Any,
            }
        };
        for part in path.into_iter().rev() {
            found = match (part, found) {
                (Part::Half(first), Refined::Pair(a, b)) => {
                    if first {
                        (*a).clone()
                    } else {
                        (*b).clone()
                    }
                }
                (Part::Tensor, Refined::Any) => Refined::Any,
                (Part::Tensor, found) => Refined::Tensor(Rc::new(found)),
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

    /// What is known of an `unfold`: the number of its steps is an index of `n + 1`, and its states are what they are.
    fn steps_and_states(&mut self, steps: ExprId, state: &Refined) -> Refined {
        let most = if self.ends_at_index(steps) { None } else { self.extent(steps) };
        let Some(Ok(states)) = most.map(|most| most.add_constant(1)) else { return Refined::Any };
        let path = match state {
            Refined::Pair(state, _) if **state != Refined::Any => Refined::Tensor(state.clone()),
            _ => Refined::Any,
        };
        Refined::Pair(Rc::new(Refined::Index(states)), Rc::new(path))
    }

    /// Whether an expression is of type `index n` by its form, and no map, `argmax` or arithmetic.
    pub(super) fn is_found_index(&mut self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Name(name) => match self.peek(name) {
                Meaning::Var(var) => self.is_index_variable(var),
                _ => false,
            },
            Expr::Access { .. } | Expr::Fst(_) | Expr::Snd(_) | Expr::Typed { .. } | Expr::Scan { .. } => {
                matches!(self.refined_of(e), Refined::Index(_))
            }
            _ => false,
        }
    }

    /// Whether the value of a `let` is an index expression that mentions an index, so that its name stands for the expression, and how it is made.
    pub(super) fn bound_index(&mut self, e: ExprId) -> Option<Made> {
        if self.is_found_index(e) {
            return None;
        }
        let mut stack = vec![e];
        let (mut mentions, mut made) = (false, Made::OfBinders);
        while let Some(e) = stack.pop() {
            work::charge(2);
            match self.expr(e) {
                Expr::Unary(UnaryOp::Neg, a) => stack.push(*a),
                // A product of two names is one of numbers.
                Expr::Binary(BinaryOp::Mul, a, b) if ![a, b].iter().any(|e| self.is_integer(**e)) => return None,
                Expr::Binary(op, a, b) => {
                    stack.extend([*a, *b]);
                    if matches!(op, BinaryOp::FloorDiv | BinaryOp::Rem) {
                        made = Made::AtRunTime;
                    }
                }
                Expr::Number { .. } => {}
                Expr::Name(name) => match self.peek(name) {
                    Meaning::Index(_) => mentions = true,
                    Meaning::Size(_) => {}
                    _ => {
                        mentions |= self.is_found_index(e) || self.single_index(e).is_some();
                        made = Made::AtRunTime;
                    }
                },
                _ => (mentions, made) = (true, Made::AtRunTime),
            }
        }
        (mentions && self.is_index_expression(e)).then_some(made)
    }

    fn is_integer(&self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Unary(UnaryOp::Neg, a) => matches!(self.expr(*a), Expr::Number { integer: Some(_), .. }),
            e => matches!(e, Expr::Number { integer: Some(_), .. }),
        }
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

    /// Whether an index stands for a variable.
    pub(super) fn is_stand_in(&self, index: IndexId) -> bool {
        self.stand_ins.contains_key(&index)
    }

    /// Whether a variable is an index.
    pub(super) fn is_index_variable(&self, var: VarId) -> bool {
        self.affine_of.contains_key(&var) || matches!(self.refined.get(&var), Some(Refined::Index(_)))
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
    pub(super) fn told(&mut self, places: Vec<Option<Affine>>, axes: &[Size]) -> Option<(Vec<Option<Affine>>, Around)> {
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
    pub(super) fn around_told(&mut self, (told, known): Around, value: Option<TermId>, span: Span) -> Option<TermId> {
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

    /// The element of a tensor at some places: of pairs each part is read on its own where places are found at run time.
    pub(super) fn element_told(
        &mut self,
        value: TermId,
        places: Vec<(Option<Affine>, Size)>,
        span: Span,
    ) -> Option<TermId> {
        let (at, axes): (Vec<_>, Vec<_>) = places.into_iter().unzip();
        let (told_at, told) = self.told(at.clone(), &axes)?;
        let mut element = self.program.ty(value);
        for _ in &at {
            if let Type::Tensor(_, inner) = self.program.types.get(element) {
                element = *inner;
            }
        }
        let is_pair = matches!(self.program.types.get(element), Type::Pair(..));
        if told.0.is_empty() || !is_pair || at.iter().any(Option::is_none) {
            let value = self.slice(value, told_at.into_iter().zip(axes).collect(), span);
            return self.around_told(told, value, span);
        }
        let mut lets = Vec::new();
        let var = self.variable_for(value, "v", &mut lets);
        let pair = self.pair_told(var, (&at, &axes), element, &mut Vec::new(), span);
        self.wrap_lets(lets, pair, span)
    }

    /// The parts of an element below some projections. Types nest to a bounded depth.
    fn pair_told(
        &mut self,
        var: VarId,
        (at, axes): (&[Option<Affine>], &[Size]),
        ty: TypeId,
        path: &mut Vec<Side>,
        span: Span,
    ) -> Option<TermId> {
        if let Type::Pair(a, b) = *self.program.types.get(ty) {
            let mut parts = Vec::with_capacity(2);
            for (side, ty) in [(Side::Fst, a), (Side::Snd, b)] {
                path.push(side);
                parts.push(self.pair_told(var, (at, axes), ty, path, span)?);
                path.pop();
            }
            return self.push(Term::Pair(parts[0], parts[1]), span);
        }
        let (at, told) = self.told(at.to_vec(), axes)?;
        let mut part = self.push(Term::Var(var), span)?;
        for index in at.into_iter().flatten() {
            part = self.push(Term::Access { array: part, index }, span)?;
        }
        for side in path.iter() {
            part = self.push(if *side == Side::Fst { Term::Fst(part) } else { Term::Snd(part) }, span)?;
        }
        self.around_told(told, Some(part), span)
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
}

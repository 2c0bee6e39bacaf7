//! On which relations tensors lie: what a guard or a sparse operand says of where elements are not zero.
//!
//! A sum over some axes of a relation lies on the relation's [projection](Projected) on the others.

use super::{Operand, Program, Rhs, Stmt};
use crate::base::{Id, IndexId, RelationId, SideTable, VarId};
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::scalar::{Function, Op, Primitive};
use crate::solver::Relations as _;
use crate::ty::{RelationKind, Signature};

/// A relation over distinct axes of a tensor, as long as its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The relation.
    pub relation: RelationId,
    /// The axis of the tensor at each place of the relation.
    pub axes: Vec<usize>,
}

impl Pattern {
    /// The atom of a relation over plain indices that range over its axes; `extent` says how far an index does.
    fn of_atom<'p>(
        signature: &Signature,
        atom: &Pred,
        extent: impl Fn(IndexId) -> Option<&'p Size>,
    ) -> Option<Pattern> {
        let Pred::Relation { relation: RelationRef::Input(relation), args, holds: true } = atom else { return None };
        let shape = &signature.relations.get(*relation)?.shape;
        let indices: Vec<IndexId> = args.iter().map(Affine::as_index).collect::<Option<_>>()?;
        let fits = indices.len() == shape.len() && indices.iter().zip(shape).all(|(i, n)| extent(*i) == Some(n));
        let axes: Vec<usize> = indices.into_iter().map(Id::index).collect();
        (fits && distinct(&axes)).then_some(Pattern { relation: *relation, axes })
    }

    /// That of a map; its last axis is the target.
    pub fn of_map<'p>(
        signature: &Signature,
        atom: &Pred,
        extent: impl Fn(IndexId) -> Option<&'p Size>,
    ) -> Option<Pattern> {
        Pattern::of_atom(signature, atom, extent)
            .filter(|pattern| signature.is_map(RelationRef::Input(pattern.relation)))
    }

    /// Those of the conjuncts of a guard.
    pub fn of_guard<'p>(
        signature: &Signature,
        guard: &Pred,
        extent: impl Fn(IndexId) -> Option<&'p Size>,
    ) -> Vec<Pattern> {
        guard.conjuncts().iter().filter_map(|atom| Pattern::of_atom(signature, atom, &extent)).collect()
    }

    /// The one on which a tensor is stored that lies on several: that with the most axes leaves the fewest places.
    pub fn for_storage(patterns: &[Pattern]) -> Option<&Pattern> {
        patterns.iter().max_by_key(|pattern| pattern.axes.len())
    }

    /// The pattern under other names of the axes, where all of them have one.
    pub fn renamed(&self, name: impl Fn(usize) -> Option<usize>) -> Option<Pattern> {
        let axes: Vec<usize> = self.axes.iter().map(|axis| name(*axis)).collect::<Option<_>>()?;
        distinct(&axes).then_some(Pattern { relation: self.relation, axes })
    }

    /// The part of it over the first axes of a tensor, where it has others as well: at least two, as nearly all rows of a matrix have entries. The
    /// sources of a map are all there.
    pub fn projected(&self, signature: &Signature, rank: usize) -> Option<Projected> {
        let is_projection = signature.relations.get(self.relation)?.kind.projection().is_some();
        let kept = || self.axes.iter().enumerate().filter(|(_, axis)| **axis < rank);
        let count = kept().count();
        let has_target = self.axes.last().is_some_and(|target| *target < rank);
        let is_all = !has_target && signature.is_map(RelationRef::Input(self.relation));
        if is_all || count < 2 || count == self.axes.len() || self.axes.len() > 64 || is_projection {
            return None;
        }
        let axes = kept().fold(0, |axes: u64, (place, _)| axes | 1 << place);
        let kind = RelationKind::Projection(self.relation, axes);
        Some(Projected { kind, axes: kept().map(|(_, axis)| *axis).collect() })
    }

    /// The atom at indices.
    pub fn atom(&self, at: &[Affine]) -> Pred {
        let args = self.axes.iter().filter_map(|axis| at.get(*axis).cloned()).collect();
        Pred::relation(RelationRef::Input(self.relation), args)
    }
}

/// A relation on some of its axes, and the axes of a tensor that these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projected {
    /// What a relation of its tuples is.
    pub kind: RelationKind,
    /// The axis of the tensor at each of its places.
    pub axes: Vec<usize>,
}

impl Projected {
    /// The same over the indices of a product that reads the tensor.
    fn read_at(&self, operand: &Operand) -> Option<Projected> {
        let index = |axis: &usize| operand.indices.get(*axis).map(|i| i.index());
        let axes: Vec<usize> = self.axes.iter().map(index).collect::<Option<_>>()?;
        distinct(&axes).then_some(Projected { axes, ..self.clone() })
    }

    /// Whether a tuple of the relation is at hand whose places are those.
    fn is_told_by(&self, pattern: &Pattern) -> bool {
        self.kind.projection().is_some_and(|(of, kept)| {
            of == pattern.relation && kept.map(|place| pattern.axes.get(place)).eq(self.axes.iter().map(Some))
        })
    }

    /// That there is such a tuple at the axes of a tensor.
    pub fn exists(&self, signature: &Signature, rank: usize) -> Pred {
        let Some((of, kept)) = self.kind.projection() else { return Pred::True };
        let shape = signature.relations.get(of).map_or(&[][..], |of| &of.shape);
        let kept: Vec<usize> = kept.collect();
        let mut bound = Vec::new();
        let place = |(place, n): (usize, &Size)| match kept.iter().position(|axis| *axis == place) {
            Some(at) => Affine::index(IndexId::from_index(self.axes.get(at).copied().unwrap_or(0))),
            None => {
                bound.push((IndexId::from_index(rank + bound.len()), n.clone()));
                Affine::index(IndexId::from_index(rank + bound.len() - 1))
            }
        };
        let args = shape.iter().enumerate().map(place).collect();
        Pred::exists_each(bound.into_iter(), Pred::relation(RelationRef::Input(of), args))
    }
}

/// Whether no two of a few things are equal.
pub(crate) fn distinct<T: PartialEq>(all: &[T]) -> bool {
    all.iter().enumerate().all(|(at, one)| !all[..at].contains(one))
}

/// The patterns outside of which a statement is zero, where those of its operands are known, and which functions keep the zeros of their first argument.
fn patterns_of(
    program: &Program,
    stmt: &Stmt,
    known: &SideTable<VarId, Vec<Pattern>>,
    keeps_zeros: &dyn Fn(Function) -> bool,
) -> Vec<Pattern> {
    let rank = stmt.dims.len();
    // Of what a guard says of `sum` indices nothing is an axis.
    let of_guard = |p: &Pred| Pattern::of_guard(&program.signature, p, |i| stmt.dims.get(i.index()));
    match &stmt.rhs {
        Rhs::Input { param, .. } => {
            let pattern = program.signature.params[*param].storage.pattern();
            pattern.map(|relation| Pattern { relation, axes: (0..rank).collect() }).into_iter().collect()
        }
        Rhs::Number(_) => Vec::new(),
        Rhs::Add([(p, x), (q, y)]) => {
            let side = |p: &Pred, x: &VarId| [of_guard(p), known[*x].clone()].concat();
            let (left, right) = (side(p, x), side(q, y));
            left.into_iter().filter(|pattern| right.contains(pattern)).collect()
        }
        Rhs::Map { guard, function, args } => {
            let of_first = args.first().filter(|_| keeps_zeros(*function)).map(|x| known[*x].clone());
            [of_guard(guard), of_first.unwrap_or_default()].concat()
        }
        Rhs::Contract { sums: _, guard, operands } => {
            let mut found = of_guard(guard);
            for operand in operands {
                let gen_of = |axis: usize| operand.indices.get(axis).map(|i| i.index()).filter(|k| *k < rank);
                for pattern in known[operand.var].iter().filter_map(|pattern| pattern.renamed(gen_of)) {
                    if !found.contains(&pattern) {
                        found.push(pattern);
                    }
                }
            }
            found
        }
    }
}

/// The patterns of all statements.
pub fn patterns(program: &Program) -> SideTable<VarId, Vec<Pattern>> {
    patterns_where(program, &|_| false)
}

/// The patterns outside of which tensors are zero where they are numbers: of 0 quotients are 0, and functions that are 0 there.
pub fn patterns_of_numbers(program: &Program) -> SideTable<VarId, Vec<Pattern>> {
    patterns_where(program, &|function| match function {
        Function::Value(Primitive::Op(op)) => op == Op::Div || op.arity() == 1 && op.facts().zero,
        _ => false,
    })
}

fn patterns_where(program: &Program, keeps_zeros: &dyn Fn(Function) -> bool) -> SideTable<VarId, Vec<Pattern>> {
    let mut known = SideTable::new(program.stmts.len(), Vec::new());
    for (x, stmt) in program.stmts.iter() {
        let found = patterns_of(program, stmt, &known, keeps_zeros);
        known.set(x, found);
    }
    known
}

/// The projections outside of which tensors are zero that lie on no pattern, where no reader sees a difference that does not look there: functions that are 0
/// of 0, if theirs do not, products with tuples of the relation, and with what is 0 there as well. What else a product has may be infinite.
pub fn projections(program: &Program) -> SideTable<VarId, Option<Projected>> {
    let mut found: SideTable<VarId, Option<Projected>> = SideTable::new(program.stmts.len(), None);
    if program.signature.relations.values().all(|relation| relation.shape.len() < 3) {
        return found;
    }
    let known = patterns(program);
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| known[*x].is_empty()) {
        let one = projection_of(program, stmt, &known, &found);
        found.set(x, one);
    }
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| found.set(*x, None));
    for x in program.stmts.ids().rev() {
        let stmt = &program.stmts[x];
        let mut not: Vec<VarId> = Vec::new();
        match &stmt.rhs {
            Rhs::Contract { operands, .. } => {
                let patterns = patterns_in(program, stmt, &known);
                for (at, operand) in operands.iter().enumerate() {
                    let Some(of_operand) = &found[operand.var] else { continue };
                    let is_exact = of_operand.read_at(operand).is_some_and(|one| {
                        let is_own = one.axes.iter().all(|axis| *axis < stmt.dims.len());
                        patterns.iter().any(|pattern| one.is_told_by(pattern))
                            || if is_own { found[x].is_some() } else { vanishes(program, operands, at, &one, &found) }
                    });
                    if !is_exact {
                        not.push(operand.var);
                    }
                }
            }
            _ if found[x].is_some() => {}
            rhs => rhs.for_each_operand(|y| not.push(y)),
        }
        stmt.rhs.guards().for_each(|guard| guard.visit_computed(&mut |y| not.push(y)));
        not.into_iter().for_each(|y| found.set(y, None));
    }
    found
}

/// The patterns of a product, by its own indices.
fn patterns_in(program: &Program, stmt: &Stmt, known: &SideTable<VarId, Vec<Pattern>>) -> Vec<Pattern> {
    let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return Vec::new() };
    let ranges: Vec<&Size> = stmt.dims.iter().chain(sums).collect();
    let mut found = Pattern::of_guard(&program.signature, guard, |i| ranges.get(i.index()).copied());
    for operand in operands {
        let index = |axis: usize| operand.indices.get(axis).map(|i| i.index());
        found.extend(known[operand.var].iter().filter_map(|pattern| pattern.renamed(index)));
    }
    found
}

/// Whether a product is 0 where one of its factors is, outside of a projection over the indices of the product: all others are as well, or literals.
fn vanishes(
    program: &Program,
    operands: &[Operand],
    at: usize,
    one: &Projected,
    found: &SideTable<VarId, Option<Projected>>,
) -> bool {
    operands.iter().enumerate().filter(|(other, _)| *other != at).all(|(_, operand)| {
        let is_same = || found[operand.var].as_ref().and_then(|other| other.read_at(operand)).as_ref() == Some(one);
        program.stmts[operand.var].rhs.is_finite_literal() || is_same()
    })
}

/// That of a statement, where those of its operands are known.
fn projection_of(
    program: &Program,
    stmt: &Stmt,
    known: &SideTable<VarId, Vec<Pattern>>,
    found: &SideTable<VarId, Option<Projected>>,
) -> Option<Projected> {
    match &stmt.rhs {
        Rhs::Input { .. } | Rhs::Number(_) => None,
        Rhs::Add([(_, a), (_, b)]) => found[*a].clone().filter(|a| found[*b].as_ref() == Some(a)),
        Rhs::Map { function, args, .. } => match (function, args.as_slice()) {
            (Function::Value(Primitive::Op(op)), [arg]) if op.facts().zero => found[*arg].clone(),
            _ => None,
        },
        Rhs::Contract { operands, .. } => {
            let rank = stmt.dims.len();
            let patterns = patterns_in(program, stmt, known);
            let of_sum = patterns.iter().filter_map(|pattern| pattern.projected(&program.signature, rank));
            let handed_on = operands.iter().enumerate().filter_map(|(at, operand)| {
                let one = found[operand.var].as_ref()?.read_at(operand)?;
                let is_own = one.axes.iter().all(|axis| *axis < rank);
                (is_own && vanishes(program, operands, at, &one, found)).then_some(one)
            });
            of_sum.chain(handed_on).max_by_key(|one| one.axes.len())
        }
    }
}

//! On which relations tensors lie: what a guard or a sparse operand says of where elements are not zero.

use super::{Program, Rhs, Stmt};
use crate::base::{Id, IndexId, RelationId, SideTable, VarId};
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::solver::Relations as _;
use crate::ty::Signature;

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

    /// The atom at indices.
    pub fn atom(&self, at: &[Affine]) -> Pred {
        let args = self.axes.iter().filter_map(|axis| at.get(*axis).cloned()).collect();
        Pred::relation(RelationRef::Input(self.relation), args)
    }
}

/// Whether no two of a few things are equal.
pub(crate) fn distinct<T: PartialEq>(all: &[T]) -> bool {
    all.iter().enumerate().all(|(at, one)| !all[..at].contains(one))
}

/// The patterns outside of which a statement is zero, where those of its operands are known.
fn patterns_of(program: &Program, stmt: &Stmt, known: &SideTable<VarId, Vec<Pattern>>) -> Vec<Pattern> {
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
        Rhs::Map { guard, .. } => of_guard(guard),
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
    let mut known = SideTable::new(program.stmts.len(), Vec::new());
    for (x, stmt) in program.stmts.iter() {
        let found = patterns_of(program, stmt, &known);
        known.set(x, found);
    }
    known
}

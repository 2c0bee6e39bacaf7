//! Tensors that say at which place a number stands: one-hot tensors, `c = gen g, q. (k[g] = q)`. A number equals at most one integer, so at most one
//! element is not zero along `q`.

use std::collections::BTreeSet;

use crate::base::{Id, IndexId, VarId};
use crate::index::{Affine, Checked, Pred, RelationRef, View};
use crate::scalar::{Comparison, Function, Number, Op, Primitive};
use crate::solver::solutions;

use super::{Program, Rhs, Stmt};

/// A tensor that is zero but where its index on an axis is a number.
pub(crate) struct OneHot {
    /// The axis.
    pub axis: usize,
    /// The tensor that holds the number.
    pub number: VarId,
    /// Where it is, over the axes of the one-hot tensor.
    pub at: Vec<Affine>,
}

impl OneHot {
    /// A tensor as such a one.
    pub fn of(program: &Program, x: VarId) -> Option<OneHot> {
        OneHot::among(&|x| program.stmts.get(x), x)
    }

    /// A tensor as such a one, among statements.
    pub fn among<'p>(stmts: &dyn Fn(VarId) -> Option<&'p Stmt>, x: VarId) -> Option<OneHot> {
        let Rhs::Map { function: Function::Value(Primitive::Op(Op::Compare(Comparison::Equal))), args, guard } =
            &stmts(x)?.rhs
        else {
            return None;
        };
        let [a, b] = args.as_slice() else { return None };
        [(a, b), (b, a)].into_iter().find_map(|(index, number)| {
            let (index, axes) = read_at(stmts, *index, guard)?;
            let Rhs::Number(Number::Index(index)) = &stmts(index)?.rhs else { return None };
            let axis = axes.get(index.as_index()?.index())?.as_index()?.index();
            let (number, at) = read_at(stmts, *number, guard)?;
            let is_free = !at.iter().any(|a| a.mentions(IndexId::from_index(axis)));
            is_free.then_some(OneHot { axis, number, at })
        })
    }

    /// An atom that asks a one-hot tensor, and its arguments.
    pub fn asked<'p>(program: &Program, p: &'p Pred) -> Option<(OneHot, &'p [Affine])> {
        let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } = p
        else {
            return None;
        };
        Some((OneHot::of(program, *var)?, args))
    }

    /// The arguments at which the number is read.
    pub fn source(&self, args: &[Affine]) -> Checked<Vec<Affine>> {
        self.at.iter().map(|a| a.substitute(&|i| args.get(i.index()).cloned())).collect()
    }
}

/// The tensor of which another is a copy where a guard holds, and the place that is read, over the axes of the copy.
fn read_at<'p>(stmts: &dyn Fn(VarId) -> Option<&'p Stmt>, copy: VarId, around: &Pred) -> Option<(VarId, Vec<Affine>)> {
    let rank = stmts(copy)?.dims.len();
    let (mut x, mut at): (VarId, Vec<Affine>) =
        (copy, (0..rank).map(|k| Affine::index(IndexId::from_index(k))).collect());
    // The axes of the copy are those of the guard around.
    while let Some(place) = place_read(stmts(x)?, if x == copy { Some(around) } else { None }) {
        let (y, indices) = place;
        let places = indices.iter().map(|a| a.substitute(&|i| at.get(i.index()).cloned()));
        let Ok(places) = places.collect::<Checked<Vec<Affine>>>() else { break };
        (x, at) = (y, places);
    }
    Some((x, at))
}

/// The tensor that a statement reads at one place for each of its own, and the place over its `gen` indices.
fn place_read(stmt: &Stmt, around: Option<&Pred>) -> Option<(VarId, Vec<Affine>)> {
    let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return None };
    let [operand] = operands.as_slice() else { return None };
    let rank = stmt.dims.len();
    let holds = |p: &Pred| around.is_some_and(|around| around.conjuncts().contains(p));
    if sums.is_empty() && !guard.is_false() {
        return guard
            .conjuncts()
            .iter()
            .all(holds)
            .then(|| (operand.var, operand.indices.iter().map(|i| Affine::index(*i)).collect()));
    }
    // Each `sum` index has its value by an equation, and nothing else is asked than around.
    let open: Vec<IndexId> = (rank..rank + sums.len()).map(IndexId::from_index).collect();
    let solved = |i: IndexId| {
        let mut found = solutions(&open, guard.conjuncts());
        found.find(|(_, s, value)| *s == i && !open.iter().any(|j| value.mentions(*j)))
    };
    let mut used = BTreeSet::new();
    let mut places = Vec::with_capacity(operand.indices.len());
    for i in &operand.indices {
        places.push(match i.index() < rank {
            true => Affine::index(*i),
            false => {
                let (conjunct, _, value) = solved(*i)?;
                used.insert(conjunct);
                value
            }
        });
    }
    let mut others = guard.conjuncts().iter().enumerate().filter(|(at, _)| !used.contains(at));
    let is_solved = !guard.is_false() && open.iter().all(|i| solved(*i).is_some());
    (is_solved && others.all(|(_, p)| holds(p))).then_some((operand.var, places))
}

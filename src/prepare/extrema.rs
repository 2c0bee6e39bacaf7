//! Places of extrema that would be looked for again and again.
//!
//! Whether `argmin k. v[l, k]` is `j` takes a search through a row. Where it is a guard under `gen` indices that the row does not depend
//! on, or before those on which it does, each of their values would search the same rows, so the truth values become a tensor of their own:
//!
//! ```text
//! gen i, j. sum l. [argmin(v[l, ..]) = j] * e  ==  let h = gen l, j. [argmin(v[l, ..]) = j] * 1 in gen i, j. sum l. [h[l, j] != 0] * e
//! ```
//!
//! Where the place is that of a `sum` index the search gives the index, and the guard stays.

use std::borrow::Cow;

use crate::base::{Id, IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Var, View};
use crate::scalar::Number;
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};

/// The program with these tensors.
pub(super) fn kept(program: &Program) -> Result<Cow<'_, Program>> {
    let repeated = |stmt: &Stmt| stmt.rhs.guards().any(|p| repeats(stmt, p));
    if !program.stmts.values().any(repeated) {
        return Ok(Cow::Borrowed(program));
    }
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, stmt| {
        let (rank, sums) = (stmt.dims.len(), stmt.rhs.sums().len());
        let mut keep = |p: &Pred| {
            p.rebuild(&mut |atom| match place(atom).filter(|place| place.repeats(rank, sums)) {
                Some(place) => place.truth_values(builder),
                None => Ok::<Pred, Error>(atom.clone()),
            })
        };
        let mut stmt = stmt.clone();
        match &mut stmt.rhs {
            Rhs::Add([(p, _), (q, _)]) => (*p, *q) = (keep(p)?, keep(q)?),
            Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => *guard = keep(guard)?,
            Rhs::Input { .. } | Rhs::Number(_) => {}
        }
        builder.push(&stmt)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

fn repeats(stmt: &Stmt, guard: &Pred) -> bool {
    let mut found = false;
    guard.visit_atoms(&mut |atom| {
        found |= place(atom).is_some_and(|place| place.repeats(stmt.dims.len(), stmt.rhs.sums().len()));
    });
    found
}

/// `argmin(v[sources, ..]) = target`, or of the largest element.
struct Place<'p> {
    atom: &'p Pred,
    var: VarId,
    sources: &'p [Affine],
    target: &'p Affine,
}

fn place(atom: &Pred) -> Option<Place<'_>> {
    let Pred::Relation { relation: RelationRef::Computed { var, view }, args, .. } = atom else { return None };
    let (target, sources) = args.split_last()?;
    (*view != View::Support).then_some(Place { atom, var: *var, sources, target })
}

impl Place<'_> {
    /// Whether rows would be searched again for each value of a `gen` index, in a statement of so many `gen` and `sum` indices.
    fn repeats(&self, rank: usize, sums: usize) -> bool {
        let in_rows = |k: usize| self.sources.iter().any(|a| a.mentions(IndexId::from_index(k)));
        let in_target = |k: usize| self.target.mentions(IndexId::from_index(k));
        let others = (0..rank).any(|k| !in_rows(k) && !in_target(k));
        // Loops come in the order of indices, so what the target depends on is around what the row does.
        let before_rows = (0..rank).find(|k| in_target(*k)).is_some_and(|k| (k + 1..rank + sums).any(in_rows));
        !self.is_bound(rank + sums) && !(rank..rank + sums).any(in_target) && (others || before_rows)
    }

    /// Whether an index occurs that an `exists` binds: its number is `first` or a later one.
    fn is_bound(&self, first: usize) -> bool {
        let mut bound = false;
        for a in self.sources.iter().chain([self.target]) {
            a.visit(&mut |v| bound |= matches!(v, Var::Index(i) if i.index() >= first));
        }
        bound
    }

    /// `h[sources, target] != 0`, or its opposite.
    fn truth_values(&self, builder: &mut Builder) -> Result<Pred> {
        let Pred::Relation { relation, args, holds } = self.atom else {
            return Err(Error::bug("lower", "the place of an extremum is a relation"));
        };
        let axes = builder.dims(self.var).to_vec();
        let axes = builder.fresh_indices(&axes);
        let guard = Pred::relation(*relation, Affine::indices(&axes));
        let one = builder.number(&[], Number::Literal(1.0))?;
        let var = builder.contract(&axes, &[], guard, vec![Operand { var: one, indices: Vec::new() }])?;
        let relation = RelationRef::Computed { var, view: View::Support };
        Ok(Pred::Relation { relation, args: args.clone(), holds: *holds })
    }
}

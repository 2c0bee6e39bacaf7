//! What numbers say in guards, where it would be looked for again and again.
//!
//! Whether `argmin k. v[l, k]` is `j` takes a search through a row, and whether some number of a row is not zero as well. Where that is a guard under
//! indices that the row does not depend on, or before those on which it does, each of their values would search the same rows, so the truth values
//! become a tensor of their own. Of a place it is the number, which is one for each row and [tells](crate::tssa::one_hot) it:
//!
//! ```text
//! gen i, j. sum l. [argmin(v[l, ..]) = j] * e      ==  let k = gen l. sum j. [argmin(v[l, ..]) = j] * j
//!                                                      in let h = gen l, j. (k[l] = j) in gen i, j. sum l. [h[l, j] != 0] * e
//! gen i, j. [exists k < n. v[k, j] != 0] * e       ==  let h = gen j. [exists k < n. v[k, j] != 0] * 1 in gen i, j. [h[j] != 0] * e
//! ```
//!
//! So does a place in the row of the target of a map, which all sources of the target have: `exists k. f(i, k) and argmax(v[k, ..]) = i`.
//!
//! A number that one statement asks for serves all others, where rows are long. The place among two or three numbers takes as many comparisons, and stays.
//!
//! Where the place of an extremum is that of a `sum` index the search gives the index, and the guard stays, unless the row is that of another `sum` index and
//! an axis has neither. So does an `exists` about relations of the
//! data alone, where it is seen from the beginning of a row whether there are entries, and one whose index has a value by an equation, a map or a place.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::base::{Id, IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Function, Number, Op};
use crate::solver::{Relations, have_one_value};
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};
use crate::ty::Signature;

/// Fewer numbers than these are compared wherever the place of an extremum is asked.
const COMPARED_ALONE: i64 = 4;
/// Fewer numbers than these are compared where the best of them is asked as well.
const COMPARED_BESIDE_BEST: i64 = 8;

/// The program with these tensors.
pub(super) fn kept(program: &Program) -> Result<Cow<'_, Program>> {
    let signature = &program.signature;
    let given: BTreeSet<VarId> = program.outputs.iter().flat_map(|output| output.leaves.iter().copied()).collect();
    let asking = |x: VarId| {
        let stmt = &program.stmts[x];
        Asking {
            stmt,
            rank: stmt.dims.len(),
            all: stmt.dims.len() + stmt.rhs.sums().len(),
            is_given: given.contains(&x),
        }
    };
    let repeated = |x: VarId| program.stmts[x].rhs.guards().any(|p| repeats(signature, &asking(x), p));
    if !program.stmts.ids().any(repeated) {
        return Ok(Cow::Borrowed(program));
    }
    let numbers = numbers(program, &asking);
    let mut builder = Builder::new(program.signature.clone());
    let mut known = BTreeSet::new();
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let mut kept = stmt.clone();
        let mut keep = |p: &Pred| keep(signature, builder, &known, &asking(x), p);
        match &mut kept.rhs {
            Rhs::Add([(p, _), (q, _)]) => (*p, *q) = (keep(p)?, keep(q)?),
            Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => *guard = keep(guard)?,
            Rhs::Input { .. } | Rhs::Number(_) => {}
        }
        let y = builder.push(&kept)?;
        known.extend([View::ArgMin, View::ArgMax].into_iter().filter(|v| numbers.contains(&(x, *v))).map(|v| (y, v)));
        Ok(y)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// The extrema of which the place becomes a number for some statement, which then serves all.
fn numbers<'p>(program: &'p Program, asking: &impl Fn(VarId) -> Asking<'p>) -> BTreeSet<(VarId, View)> {
    let mut found = BTreeSet::new();
    for (x, stmt) in program.stmts.iter() {
        stmt.rhs.guards().for_each(|p| {
            p.visit_atoms(&mut |atom| {
                let repeated = place(atom).filter(|place| place.repeats(&asking(x)));
                found.extend(repeated.map(|place| (place.var, place.view)));
            });
            rows_of_targets(&program.signature, p, &mut |place| {
                found.insert((place.var, place.view));
            });
        });
    }
    found
}

/// A guard of a statement over these tensors.
fn keep(
    signature: &Signature,
    builder: &mut Builder,
    known: &BTreeSet<(VarId, View)>,
    asking: &Asking<'_>,
    p: &Pred,
) -> Result<Pred> {
    let stmt = asking.stmt;
    match p {
        Pred::All(ps) => {
            Ok(Pred::all(ps.iter().map(|p| keep(signature, builder, known, asking, p)).collect::<Result<Vec<_>>>()?))
        }
        Pred::Any(ps) => {
            Ok(Pred::any(ps.iter().map(|p| keep(signature, builder, known, asking, p)).collect::<Result<Vec<_>>>()?))
        }
        Pred::Exists { .. } => match free(signature, stmt, p) {
            Some(free) => {
                // It is asked at all of these, so that each row would be searched for each place.
                let numbers = &mut |atom: &Pred| match place(atom) {
                    Some(place) => place.number(builder),
                    None => Ok(atom.clone()),
                };
                let exists = p.rebuild(numbers)?;
                whether_any(builder, stmt, &exists, &free)
            }
            None => {
                let mut of_targets: Vec<&Pred> = Vec::new();
                rows_of_targets(signature, p, &mut |place| of_targets.push(place.atom));
                Ok(p.rebuild(&mut |atom| match place(atom).filter(|_| of_targets.contains(&atom)) {
                    Some(place) if !place.is_of_fewer(builder, COMPARED_ALONE) => place.number(builder),
                    _ => Ok(atom.clone()),
                })?)
            }
        },
        atom => {
            let asks = |place: &Place<'_>| {
                let is_read = |x: &Operand| x.var == place.var;
                let reads_best = matches!(&stmt.rhs, Rhs::Contract { operands, .. } if operands.iter().any(is_read))
                    && place.is_of_fewer(builder, COMPARED_BESIDE_BEST);
                known.contains(&(place.var, place.view)) && !place.is_bound(asking.all) && !reads_best
            };
            let repeats = |place: &Place<'_>| place.repeats(asking) || asks(place);
            match place(atom).filter(|place| repeats(place) && !place.is_of_fewer(builder, COMPARED_ALONE)) {
                Some(place) => place.number(builder),
                None => Ok(atom.clone()),
            }
        }
    }
}

/// A statement that asks for places.
struct Asking<'p> {
    stmt: &'p Stmt,
    /// How many `gen` indices it has.
    rank: usize,
    /// How many indices it has.
    all: usize,
    /// Whether it is a result.
    is_given: bool,
}

fn repeats(signature: &Signature, asking: &Asking<'_>, p: &Pred) -> bool {
    match p {
        Pred::All(ps) | Pred::Any(ps) => ps.iter().any(|p| repeats(signature, asking, p)),
        Pred::Exists { .. } => {
            let mut of_targets = false;
            rows_of_targets(signature, p, &mut |_| of_targets = true);
            of_targets || free(signature, asking.stmt, p).is_some()
        }
        atom => place(atom).is_some_and(|place| place.repeats(asking)),
    }
}

/// The indices of a statement that an `exists` about numbers mentions, if there are others, and it takes a search.
fn free(signature: &Signature, stmt: &Stmt, exists: &Pred) -> Option<Vec<IndexId>> {
    let all = stmt.dims.len() + stmt.rhs.sums().len();
    let free: Vec<IndexId> = (0..all).map(IndexId::from_index).filter(|i| exists.mentions(*i)).collect();
    let takes_search = exists.reads_computed() && searches(signature, exists) || is_found_in_rows(signature, exists);
    (free.len() < all && takes_search).then_some(free)
}

/// Whether an `exists` says that a place is a target of a map of several indices, which has as many sources in each row as it may have targets: rows of
/// truth values take no more room than these.
fn is_found_in_rows(signature: &Signature, exists: &Pred) -> bool {
    let Pred::Exists { index, extent, body } = exists else { return false };
    let Pred::Relation { relation: relation @ RelationRef::Input(id), args, holds: true } = &**body else {
        return false;
    };
    let shape = signature.relations.get(*id).map(|relation| &relation.shape);
    let of_sources = |args: &[Affine]| args.iter().filter(|a| a.as_index() == Some(*index)).count() == 1;
    signature.is_map(*relation)
        && matches!(args.as_slice(), [sources @ .., _] if sources.len() > 1 && of_sources(sources))
        && shape.and_then(|shape| shape.last()) == Some(extent)
}

/// Whether some index of an `exists` has no value by equations and places.
fn searches(signature: &Signature, p: &Pred) -> bool {
    match p {
        Pred::All(ps) | Pred::Any(ps) => ps.iter().any(|p| searches(signature, p)),
        Pred::Exists { index, body, .. } => {
            let gives_target = |relation| signature.gives_targets(relation);
            !have_one_value(&[*index], body.conjuncts(), &gives_target) || searches(signature, body)
        }
        _ => false,
    }
}

/// The places that are asked in rows of the target of a map, which many sources have: `exists k. f(i, k) and argmax(v[k, ..]) = i`.
fn rows_of_targets<'p>(signature: &Signature, p: &'p Pred, found: &mut dyn FnMut(Place<'p>)) {
    match p {
        Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| rows_of_targets(signature, p, found)),
        Pred::Exists { index, body, .. } => {
            let is_target = |p: &Pred| match p {
                Pred::Relation { relation: relation @ RelationRef::Input(_), args, holds: true } => {
                    signature.is_map(*relation) && args.last().is_some_and(|target| target.mentions(*index))
                }
                _ => false,
            };
            if body.conjuncts().iter().any(is_target) {
                let in_rows = |place: &Place<'_>| place.sources.iter().any(|a| a.mentions(*index));
                body.conjuncts().iter().filter_map(place).filter(in_rows).for_each(&mut *found);
            }
            rows_of_targets(signature, body, found);
        }
        _ => {}
    }
}

/// `h[free] != 0` for an `exists`.
fn whether_any(builder: &mut Builder, stmt: &Stmt, exists: &Pred, free: &[IndexId]) -> Result<Pred> {
    let extent = |i: &IndexId| stmt.dims.iter().chain(stmt.rhs.sums()).nth(i.index()).cloned();
    let extents: Vec<Size> = free.iter().filter_map(extent).collect();
    let axes = builder.fresh_indices(&extents);
    let name = |i: IndexId| free.iter().position(|j| *j == i).and_then(|k| Some(axes.get(k)?.0));
    let guard = builder.freshen(exists, &name)?;
    let relation = ones(builder, &axes, guard)?;
    Ok(Pred::Relation { relation, args: free.iter().map(|i| (*i).into()).collect(), holds: true })
}

/// Where a tensor is not zero that is 1 under a guard.
fn ones(builder: &mut Builder, axes: &[(IndexId, Size)], guard: Pred) -> Result<RelationRef> {
    let one = builder.number(&[], Number::Literal(1.0))?;
    let var = builder.contract(axes, &[], guard, vec![Operand { var: one, indices: Vec::new() }])?;
    Ok(RelationRef::Computed { var, view: View::Support })
}

/// `argmin(v[sources, ..]) = target`, or of the largest element.
struct Place<'p> {
    atom: &'p Pred,
    var: VarId,
    view: View,
    sources: &'p [Affine],
    target: &'p Affine,
}

fn place(atom: &Pred) -> Option<Place<'_>> {
    let Pred::Relation { relation: RelationRef::Computed { var, view }, args, .. } = atom else { return None };
    let (target, sources) = args.split_last()?;
    (*view != View::Support).then_some(Place { atom, var: *var, view: *view, sources, target })
}

impl Place<'_> {
    /// Whether rows would be searched again for each value of a `gen` index.
    fn repeats(&self, &Asking { rank, all, is_given, .. }: &Asking<'_>) -> bool {
        let in_rows = |k: usize| self.sources.iter().any(|a| a.mentions(IndexId::from_index(k)));
        let in_target = |k: usize| self.target.mentions(IndexId::from_index(k));
        let others = (0..rank).any(|k| !in_rows(k) && !in_target(k));
        // Loops come in the order of indices, so what the target depends on is around what the row does.
        let before_rows = (0..rank).find(|k| in_target(*k)).is_some_and(|k| (k + 1..all).any(in_rows));
        // The search gives a `sum` index that the row does not have, but in each loop over indices that neither the row nor the place has.
        let sums = rank..all;
        let found = sums.clone().any(|k| in_target(k) && !in_rows(k));
        // Several of their values are the same row: `argmax(v[i - k, ..]) = k`.
        let in_several_ways = (0..all).filter(|k| in_rows(*k)).count() > self.sources.len();
        // Who reads the statement may go through its elements in another order, as through those of a row that is read by columns.
        let read_by_places = !is_given && (0..rank).any(in_target) && (0..rank).any(in_rows);
        let again = match found {
            true => others && sums.clone().any(in_rows),
            false => others || before_rows || in_several_ways || read_by_places,
        };
        !self.is_bound(all) && again
    }

    /// Whether the search is among fewer numbers than these.
    fn is_of_fewer(&self, builder: &Builder, numbers: i64) -> bool {
        builder.dims(self.var).last().and_then(Size::as_constant).is_some_and(|n| n < numbers)
    }

    /// Whether an index occurs that an `exists` binds: its number is `first` or a later one.
    fn is_bound(&self, first: usize) -> bool {
        let mut bound = false;
        for a in self.sources.iter().chain([self.target]) {
            a.visit(&mut |v| bound |= matches!(v, Var::Index(i) if i.index() >= first));
        }
        bound
    }

    /// `h[sources, target] != 0`, or its opposite, where `h = gen g, q. (k[g] = q)` and `k = gen g. sum q. [argmin(v[g, ..]) = q] * q`.
    fn number(&self, builder: &mut Builder) -> Result<Pred> {
        let Pred::Relation { relation, args, holds } = self.atom else {
            return Err(Error::bug("prepare", "the place of an extremum is a relation"));
        };
        let dims = builder.dims(self.var).to_vec();
        let axes = builder.fresh_indices(&dims);
        let Some((last, rows)) = axes.split_last() else {
            return Err(Error::bug("prepare", "an extremum is along an axis"));
        };
        let read = |builder: &mut Builder, sums: &[_], guard, gens: &[_], var, at: &[(IndexId, Size)]| {
            builder.contract(gens, sums, guard, vec![Operand { var, indices: at.iter().map(|(i, _)| *i).collect() }])
        };
        let along = std::slice::from_ref(last);
        let index = builder.number(along, Number::Index(last.0.into()))?;
        let guard = Pred::relation(*relation, Affine::indices(&axes));
        let place = read(builder, along, guard, rows, index, along)?;
        let place = read(builder, &[], Pred::True, &axes, place, rows)?;
        let index = builder.number(&axes, Number::Index(last.0.into()))?;
        let equal = Function::from(Op::Compare(Comparison::Equal));
        let var = builder.map(&axes, Pred::True, equal, vec![place, index])?;
        let relation = RelationRef::Computed { var, view: View::Support };
        Ok(Pred::Relation { relation, args: args.clone(), holds: *holds })
    }
}

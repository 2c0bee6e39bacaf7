//! Sums over the sources of a map are grouped by target.
//!
//! ```text
//! sum o. [m(o, c)] * A[c, r] * B[o, s]   ==   let y = gen c, s. sum o. [m(o, c)] * B[o, s] in [c is a target] * A[c, r] * y[c, s]
//! ```
//!
//! where `B[o, s]` may have tests of its own, `sum a. [g(o, a) and q[o, s] != 0] * B[a, s]`. A target that these leave no term has the number 0 in `y`, which a product
//! with what is no finite number is not; so this is [verified](super::speculate).
//!
//! where `o` is all of what `m` maps, one index or several, and `c` is summed or not. It is the distributive law, so sums are in another order. Gradients
//! by parameters that all sources share are like the left side, `sum o. E[m(o), k] * t[o]`, and so are those by what is looked up,
//! `gen c, k. sum o. [m(o, c)] * h[k] * t[o]`: both read `y` then, which is made once. Simplification leaves that to here, since for its model, in
//! which there are as many targets as sources, both sides take as long. What a program reads through a map, `gen o, r. sum c. [m(o, c)] * A[c, r]`, may be
//! a statement of its own.
//!
//! **It is not more work.** For `n` sources, of which there are no fewer than targets in use, the left side takes `n |r| |s|` products, the right side
//! `n |s|` sums and at most `n |r| |s|` products. It is done where `r` has an axis of no literal length that `s` has not, and only for tensors that
//! are needed as a whole. A target that is not in use has no terms on either side, whatever `A` has there. The storage of `y` is as large as that of a
//! parameter or a result, or as some literal times that.

use std::borrow::Cow;

use super::needs::{Names, has_maps, has_room, in_use, wanted};
use super::speculate::verified;
use crate::base::{Id, IndexId, RelationId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size};
use crate::solver::Relations;
use crate::tssa::patterns::Pattern;
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};
use crate::ty::Signature;

/// The program in which such sums are grouped.
pub(super) fn grouped(program: &Program) -> Result<Cow<'_, Program>> {
    if !has_maps(program) {
        return Ok(Cow::Borrowed(program));
    }
    let signature = &program.signature;
    let wanted = wanted(program);
    let mut found = false;
    let mut builder = Builder::new(signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        if !wanted[x] {
            return builder.push(stmt);
        }
        let views = without_views(signature, builder, stmt)?;
        for stmt in std::iter::once(stmt).chain(&views) {
            if let Some(group) = Group::of(signature, stmt).filter(|group| has_room(program, &group.dims(stmt))) {
                found = true;
                let grouped = group.apart(stmt, builder)?;
                if group.has_all_terms(signature) {
                    return Ok(grouped);
                }
                let with_tests = builder.push(stmt)?;
                return verified(builder, &stmt.dims, [grouped, with_tests]);
            }
        }
        builder.push(stmt)
    })?;
    Ok(if found { Cow::Owned(builder.finish(outputs).prune()?) } else { Cow::Borrowed(program) })
}

/// A product over sums with an operand that is read through a map, as products of what it is read from.
fn without_views(signature: &Signature, builder: &Builder, stmt: &Stmt) -> Result<Vec<Stmt>> {
    let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return Ok(Vec::new()) };
    let (rank, mut found) = (stmt.dims.len(), Vec::new());
    for (k, operand) in operands.iter().enumerate() {
        let view = builder.stmt(operand.var);
        let Rhs::Contract { sums: targets, guard: atom, operands: read } = &view.rhs else { continue };
        let is_map = matches!(atom, Pred::Relation { relation, holds: true, .. } if signature.is_map(*relation));
        let ([target], [read], true) = (targets.as_slice(), read.as_slice(), is_map) else { continue };
        let inner = operand.indices.iter().copied().chain([IndexId::from_index(rank + sums.len())]);
        let inner: Vec<IndexId> = inner.collect();
        let name = |i: IndexId| inner.get(i.index()).copied();
        let guard = guard.clone().and(atom.substitute(&|i| name(i).map(Affine::index))?);
        let sums: Vec<Size> = sums.iter().chain([target]).cloned().collect();
        let mut operands = operands.clone();
        operands[k] = Operand { var: read.var, indices: read.indices.iter().filter_map(|i| name(*i)).collect() };
        found.push(Stmt { dims: stmt.dims.clone(), rhs: Rhs::Contract { sums, guard, operands } });
    }
    Ok(found)
}

/// What is grouped in a statement, by its indices.
struct Group<'a> {
    map: RelationId,
    atom: &'a Pred,
    sources: Vec<IndexId>,
    target: IndexId,
    /// Other conjuncts about sources, and those about other indices.
    asked: Vec<&'a Pred>,
    rest: Vec<&'a Pred>,
    /// `A`, which does not depend on sources, and `B`.
    operands: [&'a Operand; 2],
    /// The indices of `B` that stay, the target aside, and those that are summed with the sources.
    axes: Vec<IndexId>,
    summed: Vec<IndexId>,
}

/// The range of an index of a statement.
fn extent(stmt: &Stmt, i: IndexId) -> Option<&Size> {
    stmt.dims.iter().chain(stmt.rhs.sums()).nth(i.index())
}

impl<'a> Group<'a> {
    fn of(signature: &Signature, stmt: &'a Stmt) -> Option<Group<'a>> {
        let Rhs::Contract { sums: _, guard, operands } = &stmt.rhs else { return None };
        let [a, b] = operands.as_slice() else { return None };
        guard.conjuncts().iter().find_map(|p| {
            [[a, b], [b, a]].into_iter().find_map(|operands| Group::by(signature, stmt, guard, p, operands))
        })
    }

    fn by(
        signature: &Signature,
        stmt: &'a Stmt,
        guard: &'a Pred,
        atom: &'a Pred,
        operands: [&'a Operand; 2],
    ) -> Option<Group<'a>> {
        let rank = stmt.dims.len();
        let Pattern { relation: map, axes } = Pattern::of_map(signature, atom, |i| extent(stmt, i))?;
        let mut sources: Vec<IndexId> = axes.into_iter().map(IndexId::from_index).collect();
        let target = sources.pop()?;
        if sources.iter().any(|i| i.index() < rank) {
            return None;
        }
        let of_source = |i: &IndexId| sources.contains(i);
        let others = guard.conjuncts().iter().filter(|p| *p != atom);
        let (asked, rest): (Vec<&Pred>, Vec<&Pred>) = others.partition(|p| sources.iter().any(|i| p.mentions(*i)));
        let [a, b] = operands;
        let reads_target = target.index() < rank || a.indices.contains(&target);
        let apart = !a.indices.iter().any(of_source) && (b.indices.iter().any(of_source) || !asked.is_empty());
        if !apart || !reads_target {
            return None;
        }
        // What goes with the sources.
        let mut own = b.indices.clone();
        asked.iter().for_each(|p| p.visit_free(&mut |i| own.push(i)));
        let is_free = |i: &IndexId| !rest.iter().any(|p| p.mentions(*i));
        let gains = |i: &IndexId| {
            let grows = extent(stmt, *i).is_some_and(|n| n.as_constant().is_none());
            grows && *i != target && !own.contains(i) && is_free(i)
        };
        if !a.indices.iter().any(gains) {
            return None;
        }
        let (mut axes, mut summed) = (Vec::new(), Vec::new());
        for i in own.iter().filter(|i| !of_source(i) && **i != target) {
            let stays = i.index() < rank || a.indices.contains(i);
            if !stays && !is_free(i) {
                return None;
            }
            let known = if stays { &mut axes } else { &mut summed };
            if !known.contains(i) {
                known.push(*i);
            }
        }
        // Another index is summed as often as it has values, or is one of `A` alone.
        let mut sums = (rank..rank + stmt.rhs.sums().len()).map(IndexId::from_index);
        let named = |i: IndexId| i == target || a.indices.contains(&i) || of_source(&i) || own.contains(&i);
        sums.all(named).then_some(Group { map, atom, sources, target, asked, rest, operands, axes, summed })
    }

    /// Whether each source has a term: it is asked for targets alone, of which each has one.
    fn has_all_terms(&self, signature: &Signature) -> bool {
        self.asked.iter().all(|p| match p {
            Pred::Relation { relation, args, holds: true } => {
                let target = args.last().and_then(Affine::as_index);
                signature.is_map(*relation) && target.is_some_and(|i| self.summed.contains(&i))
            }
            _ => false,
        })
    }

    /// The axes of `y`.
    fn dims(&self, stmt: &Stmt) -> Vec<Size> {
        [self.target].iter().chain(&self.axes).filter_map(|i| extent(stmt, *i).cloned()).collect()
    }

    /// The statement over `y`.
    fn apart(&self, stmt: &Stmt, builder: &mut Builder) -> Result<VarId> {
        let fresh = |builder: &mut Builder, indices: &[IndexId]| {
            let of = |i: &IndexId| extent(stmt, *i).map(|n| (*i, builder.fresh_index(), n.clone()));
            indices.iter().filter_map(of).collect::<Vec<_>>()
        };
        let [a, b] = self.operands;
        // `y`.
        let kept: Vec<IndexId> = [self.target].iter().chain(&self.axes).copied().collect();
        let outer = fresh(builder, &kept);
        let inner = fresh(builder, &[self.sources.as_slice(), &self.summed].concat());
        let names = Names(outer.iter().chain(&inner).map(|(from, to, _)| (*from, *to)).collect());
        let mut guard = self.atom.substitute(&|i| names.of(i).map(Affine::index))?;
        for p in &self.asked {
            guard = guard.and(builder.freshen(p, &|i| names.of(i))?);
        }
        let operand = Operand { var: b.var, indices: all_named(&names, &b.indices)? };
        let y = builder.contract(&ranges(&outer), &ranges(&inner), guard, vec![operand])?;
        // What reads it.
        let rank = stmt.dims.len();
        let gens = fresh(builder, &(0..rank).map(IndexId::from_index).collect::<Vec<_>>());
        let sums = (rank..rank + stmt.rhs.sums().len()).map(IndexId::from_index);
        let sums: Vec<IndexId> = sums.filter(|i| !self.sources.contains(i) && !self.summed.contains(i)).collect();
        let sums = fresh(builder, &sums);
        let names = Names(gens.iter().chain(&sums).map(|(from, to, _)| (*from, *to)).collect());
        let mut all = in_use(builder, self.map, names.of(self.target).unwrap_or(self.target));
        for p in &self.rest {
            all = all.and(builder.freshen(p, &|i| names.of(i))?);
        }
        let operands = vec![
            Operand { var: a.var, indices: all_named(&names, &a.indices)? },
            Operand { var: y, indices: all_named(&names, &kept)? },
        ];
        builder.contract(&ranges(&gens), &ranges(&sums), all, operands)
    }
}

fn all_named(names: &Names, indices: &[IndexId]) -> Result<Vec<IndexId>> {
    names.all(indices).ok_or_else(|| Error::bug("group-sums", "an index is of no use"))
}

fn ranges(indices: &[(IndexId, IndexId, Size)]) -> Vec<(IndexId, Size)> {
    indices.iter().map(|(_, to, n)| (*to, n.clone())).collect()
}

//! Sums over nothing are not computed, where a relation of more axes tells where they are.
//!
//! ```text
//! let y = gen i, j, l. sum k. T[i, j, k] * C[k, l] in e   ==   let y = gen i, j, l. [T_0_1?(i, j)] * sum k. T[i, j, k] * C[k, l] in e
//! ```
//!
//! where `T_0_1?` is the [projection](crate::ty::RelationKind::Projection) of `T?` on its first two axes: the pairs `i, j` for which there is a
//! `k`. Then `y` is stored on them, and its readers walk them: of a tensor with few entries most fibres are empty.
//!
//! **Why it is right.** Where there is no such `k` the sum is over nothing, and 0. So are functions of it that are 0 of 0, and products with literals and with what is 0
//! there as well. Products with anything else may be NaN, so their readers see all places, unless a tuple of `T?` is at hand that has them.
//!
//! **It is not more work.** All readers walk the pairs, or have them at hand. What is added to something else, or is a result, has all places.

use std::borrow::Cow;
use std::sync::Arc;

use crate::base::{Id, IndexId, RelationId, SideTable, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::tssa::patterns::{Projected, projections};
use crate::tssa::{Builder, Program, Rhs};
use crate::ty::{Relation, RelationKind, Signature};

/// The program with such guards.
pub(super) fn projected(program: &Program) -> Result<Cow<'_, Program>> {
    let found = projections(program);
    if program.stmts.ids().all(|x| found[x].is_none()) {
        return Ok(Cow::Borrowed(program));
    }
    let mut signature = (*program.signature).clone();
    let mut atoms: SideTable<VarId, Option<Pred>> = SideTable::new(program.stmts.len(), None);
    for x in program.stmts.ids() {
        let Some(Projected { kind, axes }) = &found[x] else { continue };
        if let Some(relation) = relation(&mut signature, *kind) {
            let at = axes.iter().map(|axis| Affine::index(IndexId::from_index(*axis))).collect();
            atoms.set(x, Some(Pred::relation(RelationRef::Input(relation), at)));
        }
    }
    let signature = Arc::new(signature);
    let mut builder = Builder::new(signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let mut stmt = stmt.clone();
        let guard = |guard: &mut Pred| {
            let told = guard.conjuncts().iter().map(|p| told(&signature, p).unwrap_or_else(|| p.clone()));
            *guard = Pred::all(atoms[x].clone().into_iter().chain(told).collect::<Vec<_>>());
        };
        match &mut stmt.rhs {
            Rhs::Add([(p, _), (q, _)]) => [p, q].into_iter().for_each(guard),
            Rhs::Map { guard: own, .. } | Rhs::Contract { guard: own, .. } => guard(own),
            Rhs::Input { .. } | Rhs::Number(_) => {}
        }
        builder.push(&stmt)
    })?;
    Ok(Cow::Owned(builder.finish(outputs)))
}

/// What says in a word that there is a tuple with some places, if there is such a projection.
fn told(signature: &Signature, p: &Pred) -> Option<Pred> {
    let (mut bound, mut body) = (Vec::new(), p);
    while let Pred::Exists { index, extent, body: inner } = body {
        bound.push((*index, extent));
        body = inner;
    }
    let Pred::Relation { relation: RelationRef::Input(of), args, holds: true } = body else { return None };
    let shape = &signature.relations.get(*of)?.shape;
    // The place of each index that is bound, over its whole range.
    let place = |(i, n): &(IndexId, &Size)| {
        args.iter().position(|a| a.as_index() == Some(*i)).filter(|place| shape.get(*place) == Some(*n))
    };
    let gone: Vec<usize> = bound.iter().map(place).collect::<Option<_>>()?;
    let kept: Vec<(usize, &Affine)> = args.iter().enumerate().filter(|(place, _)| !gone.contains(place)).collect();
    if gone.is_empty() || kept.iter().any(|(_, a)| bound.iter().any(|(i, _)| a.mentions(*i))) {
        return None;
    }
    let axes = kept.iter().fold(0, |axes: u64, (place, _)| axes | 1 << place);
    let kind = RelationKind::Projection(*of, axes);
    Some(Pred::relation(
        RelationRef::Input(known(signature, kind)?),
        kept.into_iter().map(|(_, a)| a.clone()).collect(),
    ))
}

/// The relation of a projection in a signature.
fn known(signature: &Signature, kind: RelationKind) -> Option<RelationId> {
    signature.relations.iter().find(|(_, known)| known.kind == kind).map(|(known, _)| known)
}

/// The relation of a projection in a signature, which is made if it is not there.
fn relation(signature: &mut Signature, kind: RelationKind) -> Option<RelationId> {
    if let Some(known) = known(signature, kind) {
        return Some(known);
    }
    let (of, axes) = kind.projection()?;
    let of = signature.relations.get(of)?;
    let (mut name, mut shape) = (of.name.trim_end_matches('?').to_owned(), Vec::new());
    for axis in axes {
        name.push_str(&format!("_{axis}"));
        shape.push(of.shape.get(axis)?.clone());
    }
    if of.name.ends_with('?') {
        name.push('?');
    }
    Some(signature.relations.push(Relation { name, shape, kind }))
}

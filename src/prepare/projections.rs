//! Sums over nothing are not computed, where a relation of more axes tells where they are.
//!
//! ```text
//! let y = gen i, j, l. sum k. T[i, j, k] * C[k, l] in e   ==   let y = gen i, j, l. [T_0_1?(i, j)] * sum k. T[i, j, k] * C[k, l] in e
//! ```
//!
//! where `T_0_1?` is the [projection](crate::ty::RelationKind::Projection) of `T?` on its first two axes: the pairs `i, j` for which there is a
//! `k`. Then `y` is stored on them, and its readers walk them: of a tensor with few entries most fibres are empty.
//!
//! **Why it is right.** Where there is no such `k` the sum is over nothing, and 0. So are products of it, and functions that are 0 of 0.
//!
//! **It is not more work.** It is done for tensors that other tensors are made of by products, and by such functions alone: these walk the pairs as well. What is
//! added to something else, or is a result, has all places.

use std::borrow::Cow;
use std::sync::Arc;

use crate::base::{Id, IndexId, RelationId, SideTable, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef};
use crate::scalar::{Function, Primitive};
use crate::tssa::patterns::{Pattern, distinct, patterns};
use crate::tssa::{Builder, Program, Rhs, Stmt};
use crate::ty::{Relation, RelationKind, Signature};

/// A projection, and the axes of a tensor that it is over.
#[derive(Clone, PartialEq)]
struct Projected {
    kind: RelationKind,
    axes: Vec<usize>,
}

/// The program with such guards.
pub(super) fn projected(program: &Program) -> Result<Cow<'_, Program>> {
    if program.signature.relations.values().all(|relation| relation.shape.len() < 3) {
        return Ok(Cow::Borrowed(program));
    }
    let found = found(program);
    let wanted = wanted(program, &found);
    if program.stmts.ids().all(|x| !wanted[x]) {
        return Ok(Cow::Borrowed(program));
    }
    let mut signature = (*program.signature).clone();
    let mut atoms: SideTable<VarId, Option<Pred>> = SideTable::new(program.stmts.len(), None);
    for x in program.stmts.ids().filter(|x| wanted[*x]) {
        let Some(Projected { kind, axes }) = &found[x] else { continue };
        if let Some(relation) = relation(&mut signature, *kind) {
            let at = axes.iter().map(|axis| Affine::index(IndexId::from_index(*axis))).collect();
            atoms.set(x, Some(Pred::relation(RelationRef::Input(relation), at)));
        }
    }
    let mut builder = Builder::new(Arc::new(signature));
    let outputs = builder.append_with(program, |builder, x, stmt| match &atoms[x] {
        None => builder.push(stmt),
        Some(atom) => builder.push(&within(stmt, atom)),
    })?;
    Ok(Cow::Owned(builder.finish(outputs)))
}

/// A statement where a predicate holds.
fn within(stmt: &Stmt, atom: &Pred) -> Stmt {
    let mut stmt = stmt.clone();
    match &mut stmt.rhs {
        Rhs::Add([(p, _), (q, _)]) => (*p, *q) = (atom.clone().and(p.clone()), atom.clone().and(q.clone())),
        Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => *guard = atom.clone().and(guard.clone()),
        Rhs::Input { .. } | Rhs::Number(_) => {}
    }
    stmt
}

/// The relation of a projection in a signature, which is made if it is not there.
fn relation(signature: &mut Signature, kind: RelationKind) -> Option<RelationId> {
    if let Some((known, _)) = signature.relations.iter().find(|(_, known)| known.kind == kind) {
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

/// Outside of which projection each tensor is zero, if it lies on no pattern.
fn found(program: &Program) -> SideTable<VarId, Option<Projected>> {
    let known = patterns(program);
    let mut found: SideTable<VarId, Option<Projected>> = SideTable::new(program.stmts.len(), None);
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| known[*x].is_empty()) {
        let one = match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => None,
            Rhs::Add([(_, a), (_, b)]) => found[*a].clone().filter(|a| found[*b].as_ref() == Some(a)),
            Rhs::Map { function, args, .. } => match (function, args.as_slice()) {
                (Function::Value(Primitive::Op(op)), [arg]) if op.facts().zero => found[*arg].clone(),
                _ => None,
            },
            Rhs::Contract { guard, operands, .. } => {
                let (rank, ranges) = (stmt.dims.len(), stmt.dims.iter().chain(stmt.rhs.sums()).collect::<Vec<_>>());
                let of_guard = Pattern::of_guard(&program.signature, guard, |i| ranges.get(i.index()).copied());
                let of_operands = operands.iter().flat_map(|operand| {
                    let index = |axis: usize| operand.indices.get(axis).map(|i| i.index());
                    known[operand.var].iter().filter_map(move |pattern| pattern.renamed(index))
                });
                let of_sum = of_guard.into_iter().chain(of_operands).filter_map(|p| on_axes(&program.signature, &p, rank));
                let handed_on = operands.iter().filter_map(|operand| {
                    let one = found[operand.var].as_ref()?;
                    let axis = |axis: &usize| operand.indices.get(*axis).map(|i| i.index()).filter(|k| *k < rank);
                    let axes: Vec<usize> = one.axes.iter().map(axis).collect::<Option<_>>()?;
                    distinct(&axes).then_some(Projected { axes, ..one.clone() })
                });
                of_sum.chain(handed_on).max_by_key(|one| one.axes.len())
            }
        };
        found.set(x, one);
    }
    found
}

/// The part of a pattern over the axes of a tensor, where the pattern has others as well: at least two, as nearly all rows of a matrix have entries.
fn on_axes(signature: &Signature, pattern: &Pattern, rank: usize) -> Option<Projected> {
    let is_projection = signature.relations.get(pattern.relation)?.kind.projection().is_some();
    let kept = || pattern.axes.iter().enumerate().filter(|(_, axis)| **axis < rank);
    let count = kept().count();
    if count < 2 || count == pattern.axes.len() || pattern.axes.len() > 64 || is_projection {
        return None;
    }
    let axes = kept().fold(0, |axes: u64, (place, _)| axes | 1 << place);
    let kind = RelationKind::Projection(pattern.relation, axes);
    Some(Projected { kind, axes: kept().map(|(_, axis)| *axis).collect() })
}

/// The tensors that lie on a projection and are read by products, and by tensors of which the same holds.
fn wanted(program: &Program, found: &SideTable<VarId, Option<Projected>>) -> SideTable<VarId, bool> {
    let mut wanted = SideTable::new(program.stmts.len(), false);
    program.stmts.ids().for_each(|x| wanted.set(x, found[x].is_some()));
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| wanted.set(*x, false));
    for x in program.stmts.ids().rev() {
        let stmt = &program.stmts[x];
        let walks = matches!(stmt.rhs, Rhs::Contract { .. }) || wanted[x];
        let mut not = |y: VarId| wanted.set(y, false);
        match walks {
            true => stmt.rhs.guards().for_each(|guard| guard.visit_computed(&mut not)),
            false => stmt.rhs.for_each_operand(not),
        }
    }
    wanted
}

//! A loop over a few values, as a literal, around a long one becomes statements inside of that.
//!
//! ```text
//! for c in 0 .. 2                                   for i { s0 += x[i, 0] * w[i]
//!   for i { s += x[i, c] * w[i] }          ==               s1 += x[i, 1] * w[i]
//!   y[c] = s                                                s2 += x[i, 2] * w[i] }
//!                                                   y[0] = s0
//!                                                   ..
//! ```
//!
//! The coordinates of points, the channels of pictures: with the few values outermost all points are gone through for each of them, and nests over
//! points, of which there are many, cannot [join](super::fuse) them.
//!
//! **Why it is right.** No iteration of the outer loop reads what another one writes: each writes places of its own, with the index of the loop as one of
//! their axes, and reads these at the same axis alone. So their statements may come in any order. What they add to one sum comes in another order.
//!
//! **Where it is done.** Where the outer loop is the outermost one of a nest, over up to four values, or up to 16 exponents of powers that another nest has
//! stored, and those inside are over ranges of an unknown length that do not depend on its index and hold no others but such ones and those over a
//! few values; not around products of matrices, each of which fills a block of registers, not where it sums up what is stored at the places of extrema,
//! and not around sums over the places of a stride, which are [cut](super::split) by remainders first.

use std::collections::BTreeSet;

use super::beside::{joined, own_axis};
use super::contract::Contraction;
use super::machine::{FEW, FEW_POWERS, FEW_STATEMENTS};
use super::powers;
use super::unroll_outer::up_to;
use super::vectorise::{Plan, has_fractions, literal, only_few};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{BufferId, Decision, Domain, Fresh, Nest, Place, Program, Stmt, has_loop, loads, size, stores};

/// Puts loops over a few values inside of long ones.
pub(super) fn run(program: &mut Program) -> Result<()> {
    // What is stored where an extremum is found is summed up by target in one pass.
    let mut found: BTreeSet<BufferId> = BTreeSet::new();
    let mut powers: BTreeSet<BufferId> = BTreeSet::new();
    for nest in &mut program.nests {
        if powers::has_indices(&nest.body) {
            powers.extend(&nest.buffers);
        }
        let finds = nest.body.iter().any(has_extremum);
        found.extend(nest.buffers.iter().filter(|_| finds));
        let Some(at) = nest.body.iter().position(has_loop) else { continue };
        if loads(&nest.body).iter().any(|place| found.contains(&place.buffer)) {
            continue;
        }
        if let Some(body) = jammed(nest, at, &powers)? {
            nest.body.splice(at..=at, body);
            nest.decisions.push(Decision::UnrolledAndJammed {});
        }
    }
    Ok(())
}

fn has_extremum(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.visit(&mut |stmt| found |= matches!(stmt, Stmt::Extremum { .. }));
    found
}

/// Whether a loop in a statement begins or ends at a fraction of an index.
fn has_strides(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.visit(&mut |stmt| found |= matches!(stmt, Stmt::For { domain, .. } if has_fractions(domain)));
    found
}

/// The statements for the loop of a nest.
fn jammed(nest: &Nest, at: usize, powers: &BTreeSet<BufferId>) -> Checked<Option<Vec<Stmt>>> {
    let Some((Stmt::For { index, domain, body, .. }, after)) = nest.body[at..].split_first() else { return Ok(None) };
    let is_power = |place: &Place| powers.contains(&place.buffer) && place.at.iter().any(|a| a.mentions(*index));
    let most = if loads(body).into_iter().any(is_power) { FEW_POWERS } else { FEW };
    let Some(values) = up_to(domain, most) else { return Ok(None) };
    let body = &joined(&nest.buffers, body)?;
    let are_long = body.iter().filter(|stmt| has_loop(stmt)).all(|stmt| is_long(*index, stmt));
    if !are_long || !body.iter().any(has_loop) || body.iter().any(has_strides) {
        return Ok(None);
    }
    let copies = usize::try_from(values.end().saturating_sub(*values.start()).saturating_add(1)).unwrap_or(usize::MAX);
    let is_small = size(body).saturating_mul(copies) <= FEW_STATEMENTS;
    if !is_small || after.iter().any(has_loop) || !body.iter().all(is_simple) || !by_rows(nest, *index, body) {
        return Ok(None);
    }
    if Plan::of_body(body, Contraction::of(body)).interleaves() {
        return Ok(None);
    }
    let mut names = Fresh::after(&nest.body);
    let kept: Vec<IndexId> = body.iter().flat_map(long_indices).collect();
    let mut each = Vec::with_capacity(copies);
    for value in values {
        names.again();
        names.fix(*index, Affine::constant(value));
        kept.iter().for_each(|i| names.keep(*i, *i));
        each.push(names.body(body)?);
    }
    Ok(Some(zipped(each)))
}

/// Copies of the same statements as one list, in which loops over many values are there once, around what the copies have in them.
// Loops nest to a bounded depth.
fn zipped(each: Vec<Vec<Stmt>>) -> Vec<Stmt> {
    let mut copies: Vec<_> = each.into_iter().map(|copy| copy.into_iter().peekable()).collect();
    let mut out = Vec::new();
    loop {
        let mut inner = Vec::with_capacity(copies.len());
        let mut around = None;
        for copy in &mut copies {
            while let Some(stmt) = copy.next_if(|stmt| !holds_long(stmt)) {
                out.push(stmt);
            }
            if let Some(Stmt::For { index, domain, body, .. }) = copy.next() {
                inner.push(body);
                around = Some((index, domain));
            }
        }
        let Some((index, domain)) = around else { return out };
        out.push(Stmt::one_by_one(index, domain, zipped(inner)));
    }
}

/// Whether a statement is a loop that is not over a few values.
fn holds_long(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { domain, .. } if literal(domain).is_none())
}

/// The indices of loops over many values.
fn long_indices(stmt: &Stmt) -> Vec<IndexId> {
    let mut found = Vec::new();
    stmt.visit(&mut |stmt| match stmt {
        Stmt::For { index, .. } if holds_long(stmt) => found.push(*index),
        _ => {}
    });
    found
}

/// Whether a statement is a loop over many values, whatever the index of the loop around, that holds others over a few or such alone.
// Loops nest to a bounded depth.
fn is_long(around: IndexId, stmt: &Stmt) -> bool {
    let Stmt::For { domain: domain @ Domain::Range { .. }, body, .. } = stmt else { return false };
    let mut moves = false;
    domain.visit_affine(&mut |a| moves |= a.mentions(around));
    let holds = |stmt: &Stmt| !has_loop(stmt) || only_few(std::slice::from_ref(stmt)) || is_long(around, stmt);
    !moves && literal(domain).is_none() && body.iter().all(|stmt| is_simple(stmt) && holds(stmt))
}

/// Whether a statement is a number, a sum, what is stored, or a loop or test around such.
fn is_simple(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { body, .. } => body.iter().all(is_simple),
        Stmt::If { body, .. } => body.iter().all(|stmt| !has_loop(stmt) && is_simple(stmt)),
        stmt => matches!(
            stmt,
            Stmt::Let { .. }
                | Stmt::Define(..)
                | Stmt::Local(_)
                | Stmt::Assign(..)
                | Stmt::Accumulate(..)
                | Stmt::Store(..)
        ),
    }
}

/// Whether each iteration has its own places of what the nest writes, at one axis.
fn by_rows(nest: &Nest, index: IndexId, body: &[Stmt]) -> bool {
    nest.buffers.iter().all(|buffer| {
        let places = stores(body).into_iter().chain(loads(body)).filter(|place| place.buffer == *buffer);
        let places: Vec<&Place> = places.collect();
        places.is_empty() || own_axis(index, places.into_iter()).is_some()
    })
}

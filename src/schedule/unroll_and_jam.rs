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
//! **Where it is done.** Where the outer loop is the outermost one of a nest, and those inside are over ranges of an unknown length that do not depend on
//! its index and hold no others but such over a few values; not where it sums up what is stored at the places of extrema.

use std::collections::BTreeSet;

use super::beside::{joined, own_axis};
use super::machine::FEW_STATEMENTS;
use super::unroll_outer::few;
use super::vectorise::{literal, only_few};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{BufferId, Decision, Domain, Fresh, Nest, Place, Program, Stmt, has_loop, loads, size, stores};

/// Puts loops over a few values inside of long ones.
pub(super) fn run(program: &mut Program) -> Result<()> {
    // What is stored where an extremum is found is summed up by target in one pass.
    let mut found: BTreeSet<BufferId> = BTreeSet::new();
    for nest in &mut program.nests {
        let finds = nest.body.iter().any(has_extremum);
        found.extend(nest.buffers.iter().filter(|_| finds));
        let Some(at) = nest.body.iter().position(has_loop) else { continue };
        if loads(&nest.body).iter().any(|place| found.contains(&place.buffer)) {
            continue;
        }
        if let Some(body) = jammed(nest, at)? {
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

/// The statements for the loop of a nest.
fn jammed(nest: &Nest, at: usize) -> Checked<Option<Vec<Stmt>>> {
    let Some((Stmt::For { index, domain, body, .. }, after)) = nest.body[at..].split_first() else { return Ok(None) };
    let Some(values) = few(domain) else { return Ok(None) };
    let body = &joined(&nest.buffers, body)?;
    let long: Option<Vec<(IndexId, &Domain)>> =
        body.iter().filter(|stmt| has_loop(stmt)).map(|s| long(*index, s)).collect();
    let Some(long) = long.filter(|long| !long.is_empty()) else { return Ok(None) };
    let copies = usize::try_from(values.end().saturating_sub(*values.start()).saturating_add(1)).unwrap_or(usize::MAX);
    let is_small = size(body).saturating_mul(copies) <= FEW_STATEMENTS;
    if !is_small || after.iter().any(has_loop) || !body.iter().all(is_simple) || !by_rows(nest, *index, body) {
        return Ok(None);
    }
    let mut names = Fresh::after(&nest.body);
    let loops: Vec<(IndexId, IndexId)> = long.iter().map(|(i, _)| (*i, names.fresh_index())).collect();
    let mut between = vec![Vec::new(); long.len() + 1];
    let mut bodies = vec![Vec::new(); long.len()];
    for value in values {
        names.again();
        names.fix(*index, Affine::constant(value));
        loops.iter().for_each(|(i, name)| names.keep(*i, *name));
        let mut behind = 0;
        for stmt in names.body(body)? {
            match stmt {
                Stmt::For { body, .. } => {
                    bodies[behind].extend(body);
                    behind += 1;
                }
                stmt => between[behind].push(stmt),
            }
        }
    }
    let mut between = between.into_iter();
    let mut out = between.next().unwrap_or_default();
    for (((_, domain), (_, name)), (body, behind)) in long.into_iter().zip(loops).zip(bodies.into_iter().zip(between)) {
        out.push(Stmt::one_by_one(name, domain.clone(), body));
        out.extend(behind);
    }
    Ok(Some(out))
}

/// The index and the range of a loop over many values, whatever the index of the loop around, that holds others over a few alone.
fn long(around: IndexId, stmt: &Stmt) -> Option<(IndexId, &Domain)> {
    let Stmt::For { index, domain: domain @ Domain::Range { .. }, body, .. } = stmt else { return None };
    let mut moves = false;
    domain.visit_affine(&mut |a| moves |= a.mentions(around));
    let can = !moves && literal(domain).is_none() && only_few(body) && body.iter().all(is_simple);
    can.then_some((*index, domain))
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

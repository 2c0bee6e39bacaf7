//! Loops of a nest that are beside each other, over the same range.
//!
//! ```text
//! for i { s += x[i] }                for i { s += x[i]
//! a = s                       ==             t += x[i] * w[i] }
//! for i { t += x[i] * w[i] }         a = s
//! ```
//!
//! [`merge`](super::merge) makes loops one in nests that have joined; what is here is what other passes ask before: a nest of several loops can neither
//! [join](super::fuse) others nor have them [inside](super::unroll_and_jam) of a short one. Sums over different ranges become nests [of their own](single):
//! the sum of a loss and of a penalty follows what the loss is made of.
//!
//! **Why it is right.** The second loop reads and changes no register that the first one changes or that is known behind it alone, and reads nothing of
//! what the nest writes. What both write has their index on one axis, so only equal iterations meet, in the order of before; nothing between them writes
//! it. Numbers between the two, and first values of registers, that read neither move before both, the others stay behind. Each sum keeps the order of
//! its summands.

use std::collections::BTreeSet;

use super::unroll::needed;
use super::vectorise::only_few;
use crate::base::{Arena, IndexId};
use crate::index::Checked;
use crate::loops::{
    Buffer, BufferId, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, changed, changed_outside, has_loop,
    loads, only_sums, outer_sums, reads, stored, stores,
};

/// Statements of a nest, which writes some buffers, with such loops made one.
pub(super) fn joined(written: &[BufferId], body: &[Stmt]) -> Checked<Vec<Stmt>> {
    let mut out: Vec<Stmt> = Vec::with_capacity(body.len());
    // The last loop, and behind it the registers that are known and the buffers that are stored to.
    let mut last: Option<usize> = None;
    let mut late: BTreeSet<RealId> = BTreeSet::new();
    let mut behind: BTreeSet<BufferId> = BTreeSet::new();
    for stmt in body {
        let this = std::slice::from_ref(stmt);
        let mut waits = loads(this).iter().any(|place| written.contains(&place.buffer));
        waits |= stored(this).iter().any(|buffer| behind.contains(buffer));
        stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| waits |= late.contains(&r)));
        waits |= changed_outside(this).iter().any(|r| late.contains(r));
        if let (Stmt::Assign(r, _), Some(at)) = (stmt, last) {
            waits |= reads(&out[at..], |read| read == *r);
        }
        match (stmt, last) {
            (Stmt::For { index, domain, body, .. }, Some(at)) if !waits => match &mut out[at] {
                Stmt::For { index: first, domain: known, body: before, .. } if domain == known => {
                    let mut names = Fresh::none(body);
                    names.keep(*index, *first);
                    let body = names.body(body)?;
                    if meet_in_rows(*first, before, &body) {
                        late.extend(changed_outside(&body));
                        before.extend(body);
                        continue;
                    }
                }
                _ => {}
            },
            (Stmt::Define(..) | Stmt::Local(_) | Stmt::Assign(..), Some(at)) if !waits => {
                out.insert(at, stmt.clone());
                last = Some(at + 1);
                continue;
            }
            (Stmt::Define(r, _), _) => late.extend(Some(*r)),
            _ if stmt.defines().next().is_some() => last = None,
            _ => {
                late.extend(changed_outside(this));
                behind.extend(stored(this));
            }
        }
        if let Stmt::For { body, .. } = stmt {
            last = Some(out.len());
            late.extend(changed_outside(body));
            behind.clear();
        }
        out.push(stmt.clone());
    }
    Ok(out)
}

/// Whether two bodies of a loop store in common at places of their own iteration alone.
fn meet_in_rows(index: IndexId, one: &[Stmt], other: &[Stmt]) -> bool {
    let others = stored(other);
    stored(one).into_iter().filter(|buffer| others.contains(buffer)).all(|buffer| {
        let places = stores(one).into_iter().chain(stores(other));
        own_axis(index, places.filter(|place| place.buffer == buffer)).is_some()
    })
}

/// The axis on which all places have an index, if there is one.
pub(super) fn own_axis<'p>(index: IndexId, places: impl Iterator<Item = &'p Place>) -> Option<usize> {
    let mut axes = places.map(|place| place.at.iter().position(|a| a.as_index() == Some(index)));
    let first = axes.next()??;
    axes.all(|axis| axis == Some(first)).then_some(first)
}

/// Has one loop for sums of a nest over the same range, and nests of their own for those over different ranges.
pub(super) fn single(program: &mut Program) -> Checked<()> {
    let mut nests = Vec::with_capacity(program.nests.len());
    for mut nest in std::mem::take(&mut program.nests) {
        let loops = nest.body.iter().filter(|stmt| has_loop(stmt)).count();
        if loops > 1 && nest.body.iter().all(|stmt| !has_loop(stmt) || is_innermost(stmt)) {
            nest.body = joined(&nest.buffers, &nest.body)?;
        }
        nests.extend(apart(nest, &mut program.buffers));
    }
    program.nests = nests;
    Ok(())
}

/// Whether a statement is a loop over a range that holds others over a few values alone.
fn is_innermost(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { domain: Domain::Range { .. }, body, .. } if only_few(body))
}

/// The nests of a nest that begins with several loops with sums alone, each of which is stored, and of the rest.
///
/// ```text
/// for i in D { r += e(i) }                 for i in D { r += e(i) }, first = r
/// for j in E { s += f(j) }        ==       for j in E { s += f(j) }, second = s
/// out = r + s                              out = first + second
/// ```
pub(super) fn apart(mut nest: Nest, buffers: &mut Arena<BufferId, Buffer>) -> Vec<Nest> {
    let mut nests = Vec::new();
    while nest.body.iter().filter(|stmt| has_loop(stmt)).count() > usize::from(nests.is_empty())
        && let Some([first, rest]) = first_apart(&nest, buffers)
    {
        nests.push(first);
        nest = rest;
    }
    nests.push(nest);
    nests
}

/// A nest that begins with a loop with sums alone, of which only the sums are used behind it, as that loop and the rest.
fn first_apart(nest: &Nest, buffers: &mut Arena<BufferId, Buffer>) -> Option<[Nest; 2]> {
    let at = nest.body.iter().position(|stmt| matches!(stmt, Stmt::For { .. }))?;
    let (before, rest) = nest.body.split_at(at);
    let (Stmt::For { parallel: false, body, .. }, after) = rest.split_first()? else { return None };
    let sums = outer_sums(body);
    let declared = sums.iter().all(|r| before.contains(&Stmt::Local(*r)));
    let numbers = before.iter().all(|stmt| matches!(stmt, Stmt::Define(..) | Stmt::Local(_)));
    let stay = changed(after).is_disjoint(&sums);
    if sums.is_empty() || !declared || !numbers || !stay || !only_sums(body) || !stored(body).is_empty() {
        return None;
    }
    let title = crate::loops::title(buffers, nest);
    let mut first: Vec<Stmt> = before.iter().cloned().chain(rest.first().cloned()).collect();
    first = needed(first, |stmt| matches!(stmt, Stmt::For { .. }) || is_local(stmt, &sums));
    let mut second: Vec<Stmt> = before.iter().filter(|stmt| !is_local(stmt, &sums)).cloned().collect();
    let mut written = Vec::new();
    for r in &sums {
        let buffer = buffers.push(Buffer::workspace(format!("{title}_sum"), None, Vec::new()));
        let place = Place { buffer, at: Vec::new() };
        first.push(Stmt::Store(place.clone(), *r));
        second.push(Stmt::Define(*r, Real::Load(place)));
        written.push(buffer);
    }
    second.extend(after.iter().cloned());
    Some([
        Nest { buffers: written, decisions: nest.decisions.clone(), body: first },
        Nest { buffers: nest.buffers.clone(), decisions: nest.decisions.clone(), body: second },
    ])
}

/// Whether a statement declares one of these registers.
pub(super) fn is_local(stmt: &Stmt, sums: &BTreeSet<RealId>) -> bool {
    matches!(stmt, Stmt::Local(r) if sums.contains(r))
}

//! Loops of a nest that are beside each other, over the same range.
//!
//! ```text
//! for i { s += x[i] }                for i { s += x[i]
//! a = s                       ==             t += x[i] * w[i] }
//! for i { t += x[i] * w[i] }         a = s
//! ```
//!
//! [`merge`](super::merge) makes loops one in nests that have joined; what is here is what other passes ask before: a nest of several loops can neither
//! [join](super::fuse) others nor have them [inside](super::unroll_and_jam) of a short one.
//!
//! **Why it is right.** The second loop reads and changes no register that the first one changes or that is known behind it alone, and reads nothing of
//! what the nest writes. What both write has their index on one axis, so only equal iterations meet, in the order of before; nothing between them writes
//! it. Numbers between the two, and first values of registers, that read neither move before both, the others stay behind. Each sum keeps the order of
//! its summands.

use std::collections::BTreeSet;

use crate::base::IndexId;
use crate::index::Checked;
use crate::loops::{BufferId, Fresh, Place, RealId, Stmt, changed_outside, loads, reads, stored, stores};

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

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
//! **Why it is right.** The second loop reads no register that is known behind the first one alone, and nothing of what the nest writes. Numbers between the two
//! that read neither move before both, the others stay behind. Each sum keeps the order of its summands.

use std::collections::BTreeSet;

use crate::index::Checked;
use crate::loops::{BufferId, Fresh, Place, RealId, Stmt, changed_outside, loads, outer_sums};

/// Statements in which loops are one that may be, of a nest that writes some buffers: of such loops with these bodies.
pub(super) fn joined(written: &[BufferId], body: &[Stmt], may: &dyn Fn(&Stmt, &Stmt) -> bool) -> Checked<Vec<Stmt>> {
    let mut out: Vec<Stmt> = Vec::with_capacity(body.len());
    // The last loop, and the registers that are known behind it alone.
    let mut last: Option<usize> = None;
    let mut late: BTreeSet<RealId> = BTreeSet::new();
    for stmt in body {
        let mut reads_late = false;
        stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| reads_late |= late.contains(&r)));
        let of_nest = |place: &&Place| written.contains(&place.buffer);
        let waits = reads_late || loads(std::slice::from_ref(stmt)).iter().any(of_nest);
        match (stmt, last) {
            (Stmt::For { index, domain, body, .. }, Some(at)) if !waits && may(&out[at], stmt) => match &mut out[at] {
                Stmt::For { index: first, domain: known, body: before, .. } if domain == known => {
                    let mut names = Fresh::none(body);
                    names.keep(*index, *first);
                    before.extend(names.body(body)?);
                    late.extend(outer_sums(body));
                    continue;
                }
                _ => {}
            },
            (Stmt::Define(..) | Stmt::Local(_), Some(at)) if !waits => {
                out.insert(at, stmt.clone());
                last = Some(at + 1);
                continue;
            }
            (Stmt::Define(r, _), _) => late.extend(Some(*r)),
            _ if stmt.defines().next().is_some() => last = None,
            _ => late.extend(changed_outside(std::slice::from_ref(stmt))),
        }
        if let Stmt::For { body, .. } = stmt {
            last = Some(out.len());
            late.extend(outer_sums(body));
        }
        out.push(stmt.clone());
    }
    Ok(out)
}

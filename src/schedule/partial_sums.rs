//! Sums over a whole loop nest, in parts that may run at the same time.
//!
//! ```text
//! local r                          parallel for p in 0 .. 63
//! for i in D                         local s
//!   .. r += e(i) ..         ==       for i in part p of 64 of D
//! out = f(r)                           .. s += e(i) ..
//!                                    sums[p] = s
//!
//!                                  local r
//!                                  for p in 0 .. 63
//!                                    r += sums[p]
//!                                  out = f(r)
//! ```
//!
//! There are as many parts whatever the number of threads, and they are added in order, so the bits do not depend on it. The second nest
//! repeats the numbers that are defined before the loop.
//!
//! Of loops behind each other that add up the same sums and need nothing of each other, the pieces of one that was cut at its ends, each part has
//! its part of each. Where other loops follow, as in the sum of a loss and of a penalty, what each one sums up [is stored](super::beside::apart), by a
//! nest of its own, which is cut likewise.

use std::collections::BTreeSet;

use super::beside::{apart, is_local};
use super::machine::PARTS;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{
    Buffer, BufferId, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, has_loop, only_sums,
    outer_sums, reads, stored,
};

/// Cuts the nests that are a loop with sums, after numbers that all its iterations share.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { buffers, nests, .. } = program;
    let mut all = Vec::with_capacity(nests.len());
    for nest in std::mem::take(nests) {
        for nest in apart(nest, buffers) {
            all.extend(in_parts(&nest, buffers)?.map_or_else(|| vec![nest], Vec::from));
        }
    }
    *nests = all;
    Ok(())
}

fn in_parts(nest: &Nest, buffers: &mut Arena<BufferId, Buffer>) -> Result<Option<[Nest; 2]>> {
    let Some(at) = nest.body.iter().position(|stmt| matches!(stmt, Stmt::For { .. })) else { return Ok(None) };
    let (before, rest) = nest.body.split_at(at);
    let (loops, after) = rest.split_at(rest.iter().take_while(|stmt| adds_up(stmt)).count());
    let shared = |stmt: &Stmt| matches!(stmt, Stmt::Define(..) | Stmt::Local(_) | Stmt::Fill(_));
    let sums: BTreeSet<RealId> = loops.iter().flat_map(|stmt| outer_sums(stmt.body())).collect();
    if sums.is_empty() || !before.iter().all(shared) || !are_apart(loops, &sums) || after.iter().any(has_loop) {
        return Ok(None);
    }
    let stored = |stmts: &[Stmt]| BTreeSet::from_iter(stored(stmts));
    let (inside, behind) = (&stored(before) | &stored(loops), stored(after));
    if !inside.is_disjoint(&behind) {
        return Ok(None);
    }
    let own =
        |stored: &BTreeSet<BufferId>| nest.buffers.iter().copied().filter(|b| stored.contains(b)).collect::<Vec<_>>();

    let mut names = Fresh::after(&nest.body);
    let part = names.fresh_index();
    let mut first: Vec<Stmt> = before.iter().filter(|stmt| !is_local(stmt, &sums)).cloned().collect();
    let mut inner: Vec<Stmt> = sums.iter().map(|r| Stmt::Local(*r)).collect();
    let mut cut = loops.to_vec();
    for stmt in &mut cut {
        if let Stmt::For { domain, lanes, jam, .. } = stmt {
            let (whole, grain) = (Box::new(domain.clone()), (*lanes).max(*jam));
            *domain = Domain::Part { whole, part: part.into(), parts: PARTS, grain };
        }
    }
    inner.extend(cut);
    let mut second: Vec<Stmt> = before.iter().filter(|stmt| !matches!(stmt, Stmt::Fill(_))).cloned().collect();
    let mut written = own(&inside);
    let title = crate::loops::title(buffers, nest);
    for (k, r) in sums.iter().enumerate() {
        let name = if sums.len() == 1 { format!("{title}_sums") } else { format!("{title}_sums_{k}") };
        let dims = vec![Affine::constant(i64::from(PARTS))];
        let buffer = buffers.push(Buffer::workspace(name, None, dims));
        written.push(buffer);
        inner.push(Stmt::Store(Place { buffer, at: vec![part.into()] }, *r));
        second.push(combine(*r, buffer, &[], names.fresh_index(), names.fresh_real())?);
    }
    first.push(parts_loop(part, true, inner)?);
    second.extend(after.iter().cloned());
    let mut decisions = nest.decisions.clone();
    decisions.push(Decision::PartialSums { parts: PARTS });
    Ok(Some([
        Nest { buffers: written, decisions, body: first },
        Nest { buffers: own(&behind), decisions: vec![Decision::PartsAdded { parts: PARTS }], body: second },
    ]))
}

/// Whether a statement is a loop that changes registers outside by sums alone.
fn adds_up(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { parallel: false, body, .. } if only_sums(body))
}

/// Whether loops behind each other, as the pieces of one, need nothing of each other: they read neither sums nor what the others store.
fn are_apart(loops: &[Stmt], sums: &BTreeSet<RealId>) -> bool {
    let stored = stored(loops);
    let mut loads = false;
    loops.iter().for_each(|stmt| {
        stmt.visit(&mut |stmt| loads |= stmt.loads().any(|place| stored.contains(&place.buffer)));
    });
    loops.len() == 1 || !loads && !reads(loops, |r| sums.contains(&r))
}

/// A loop over all parts.
pub(super) fn parts_loop(index: IndexId, parallel: bool, body: Vec<Stmt>) -> Checked<Stmt> {
    let domain = Domain::whole(&Affine::constant(i64::from(PARTS)))?;
    Ok(Stmt::For { index, domain, lanes: 1, jam: 1, parallel, body })
}

/// `for p { r += sums[p, at] }`
pub(super) fn combine(r: RealId, buffer: BufferId, at: &[Affine], part: IndexId, x: RealId) -> Checked<Stmt> {
    let at = [part.into()].iter().chain(at).cloned().collect();
    parts_loop(part, false, vec![Stmt::Define(x, Real::Load(Place { buffer, at })), Stmt::Accumulate(r, x)])
}

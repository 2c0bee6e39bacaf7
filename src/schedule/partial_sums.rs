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
//! Where other loops follow, as in the sum of a loss and of a penalty, what the first one sums up is stored, and the rest is a nest of its own, which is
//! cut likewise:
//!
//! ```text
//! for i in D { r += e(i) }                 for i in D { r += e(i) }, whole = r
//! for j in E { s += f(j) }        ==
//! out = r + s                              for j in E { s += f(j) }, out = whole + s
//! ```

use std::collections::BTreeSet;

use super::machine::PARTS;
use crate::base::{Arena, IndexId};
use crate::error::{Error, Result};
use crate::index::Affine;
use crate::loops::{
    Buffer, BufferId, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, changed, has_loop, only_sums,
    outer_sums, stored,
};

/// Cuts the nests that are a loop with sums, after numbers that all its iterations share.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { buffers, nests, .. } = program;
    let mut all = Vec::with_capacity(nests.len());
    for mut nest in std::mem::take(nests) {
        while let Some([first, rest]) = behind_each_other(&nest, buffers) {
            all.extend(in_parts(&first, buffers)?.map_or_else(|| vec![first], Vec::from));
            nest = rest;
        }
        all.extend(in_parts(&nest, buffers)?.map_or_else(|| vec![nest], Vec::from));
    }
    *nests = all;
    Ok(())
}

/// A nest that begins with a loop with sums alone, of which only the sums are used behind it, as that loop and the rest, if there are loops in it.
fn behind_each_other(nest: &Nest, buffers: &mut Arena<BufferId, Buffer>) -> Option<[Nest; 2]> {
    let at = nest.body.iter().position(|stmt| matches!(stmt, Stmt::For { .. }))?;
    let (before, rest) = nest.body.split_at(at);
    let (Stmt::For { parallel: false, body, .. }, after) = rest.split_first()? else { return None };
    let sums = outer_sums(body);
    let declared = sums.iter().all(|r| before.contains(&Stmt::Local(*r)));
    let numbers = before.iter().all(|stmt| matches!(stmt, Stmt::Define(..) | Stmt::Local(_)));
    let follows = after.iter().any(has_loop) && changed(after).is_disjoint(&sums);
    if sums.is_empty() || !declared || !numbers || !follows || !only_sums(body) || !stored(body).is_empty() {
        return None;
    }
    let title = crate::loops::title(buffers, nest);
    let is_number = |stmt: &Stmt| matches!(stmt, Stmt::Define(..));
    // A sum without a loop may be read by a number.
    let mut kept = sums.clone();
    before.iter().filter(|stmt| is_number(stmt)).for_each(|stmt| {
        stmt.visit_reads(&mut |r| {
            kept.insert(r);
        });
    });
    let mut first: Vec<Stmt> = before.iter().filter(|stmt| is_number(stmt) || is_local(stmt, &kept)).cloned().collect();
    first.extend(rest.first().cloned());
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

fn in_parts(nest: &Nest, buffers: &mut Arena<BufferId, Buffer>) -> Result<Option<[Nest; 2]>> {
    let Some(at) = nest.body.iter().position(|stmt| matches!(stmt, Stmt::For { .. })) else { return Ok(None) };
    let (before, rest) = nest.body.split_at(at);
    let Some((Stmt::For { index, domain, lanes, jam, parallel: false, body }, after)) = rest.split_first() else {
        return Ok(None);
    };
    let shared = |stmt: &Stmt| matches!(stmt, Stmt::Define(..) | Stmt::Local(_) | Stmt::Fill(_));
    let sums = outer_sums(body);
    if sums.is_empty() || !before.iter().all(shared) || !only_sums(body) || after.iter().any(has_loop) {
        return Ok(None);
    }
    let stored = |stmts: &[Stmt]| BTreeSet::from_iter(stored(stmts));
    let (inside, behind) = (&stored(before) | &stored(body), stored(after));
    if !inside.is_disjoint(&behind) {
        return Ok(None);
    }
    let own =
        |stored: &BTreeSet<BufferId>| nest.buffers.iter().copied().filter(|b| stored.contains(b)).collect::<Vec<_>>();

    let mut names = Fresh::after(&nest.body);
    let part = names.fresh_index();
    let mut first: Vec<Stmt> = before.iter().filter(|stmt| !is_local(stmt, &sums)).cloned().collect();
    let mut inner: Vec<Stmt> = sums.iter().map(|r| Stmt::Local(*r)).collect();
    let whole = Box::new(domain.clone());
    let domain = Domain::Part { whole, part: part.into(), parts: PARTS, grain: (*lanes).max(*jam) };
    inner.push(Stmt::For { index: *index, domain, lanes: *lanes, jam: *jam, parallel: false, body: body.clone() });
    let mut second: Vec<Stmt> = before.iter().filter(|stmt| !matches!(stmt, Stmt::Fill(_))).cloned().collect();
    let mut written = own(&inside);
    let title = crate::loops::title(buffers, nest);
    for (k, r) in sums.iter().enumerate() {
        let name = if sums.len() == 1 { format!("{title}_sums") } else { format!("{title}_sums_{k}") };
        let dims = vec![Affine::constant(i64::from(PARTS))];
        let buffer = buffers.push(Buffer::workspace(name, None, dims));
        written.push(buffer);
        inner.push(Stmt::Store(Place { buffer, at: vec![part.into()] }, *r));
        second.push(combine(*r, buffer, names.fresh_index(), names.fresh_real())?);
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

fn is_local(stmt: &Stmt, sums: &BTreeSet<RealId>) -> bool {
    matches!(stmt, Stmt::Local(r) if sums.contains(r))
}

fn parts_loop(index: IndexId, parallel: bool, body: Vec<Stmt>) -> Result<Stmt> {
    let domain = Domain::whole(&Affine::constant(i64::from(PARTS)))?;
    Ok(Stmt::For { index, domain, lanes: 1, jam: 1, parallel, body })
}

/// `for p { r += sums[p] }`
fn combine(r: RealId, buffer: BufferId, part: IndexId, x: RealId) -> Result<Stmt> {
    let load = Stmt::Define(x, Real::Load(Place { buffer, at: vec![part.into()] }));
    parts_loop(part, false, vec![load, Stmt::Accumulate(r, x)])
        .map_err(|_| Error::bug("partial-sums", "a number of parts"))
}

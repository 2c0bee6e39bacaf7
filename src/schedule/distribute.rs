//! What a nest computes once, for all of its rows, is computed before, by a nest of its own.
//!
//! ```text
//! local r0                                 local r0
//! for j in 0 .. n - 1                      for j in 0 .. n - 1
//!   r1 = x[j]                                r1 = x[j]
//!   r0 += r1                      ==         r0 += r1
//! for i in 0 .. n - 1                      y_once = r0
//!   r2 = x[i]
//!   r3 = r2 / r0                           r0 = y_once
//!   y[i] = r3                              for i in 0 .. n - 1
//!                                            ..
//! ```
//!
//! Rows are computed in parts, which may run at the same time, and each part of a nest repeats what is outside of its rows. That is nothing where
//! these are a few numbers, and all of the time where they are sums over as many numbers as there are rows. The nest that comes before may then be
//! computed in [parts](super::partial_sums) too.
//!
//! **Why it is right.** Both nests do what the one did, in the same order; a register that comes of a loop goes through memory. Numbers that come of
//! no loop are computed in both. A place that was looked for, and is asked for by the rows, is looked for in the second nest as it was.

use std::collections::BTreeSet;

use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::loops::{
    Buffer, BufferId, Decision, Nest, Place, Program, Real, RealId, Stmt, changed, changes_outside, has_loop,
    mentioned, reads, title,
};

/// Cuts nests behind what they compute once.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { buffers, nests, .. } = program;
    let mut all = Vec::with_capacity(nests.len());
    for nest in std::mem::take(nests) {
        match cut(&nest, buffers) {
            Some(both) => all.extend(both),
            None => all.push(nest),
        }
    }
    *nests = all;
    Ok(())
}

fn cut(nest: &Nest, buffers: &mut Arena<BufferId, Buffer>) -> Option<[Nest; 2]> {
    let rows = |stmt: &Stmt| matches!(stmt, Stmt::For { body, .. } if !changes_outside(body));
    let at = nest.body.iter().position(rows)?;
    let (before, rest) = nest.body.split_at(at);
    let changed_before = changed(before);
    if !before.iter().any(has_loop) || writes(before) || !changed(rest).is_disjoint(&changed_before) {
        return None;
    }
    let heavy = heavy(before, changed_before);
    let kept = kept(before, rest, &heavy);
    // What the second nest reads of the first.
    let mut given: Vec<RealId> = heavy.iter().copied().collect();
    given.retain(|r| reads(kept.iter().copied().chain(rest), |read| read == *r));
    if given.is_empty() {
        return None;
    }
    let name = title(buffers, nest);
    let mut first: Vec<Stmt> = before.iter().filter(|stmt| !matches!(stmt, Stmt::Fill(_))).cloned().collect();
    let (mut own, mut second) = (Vec::new(), Vec::new());
    for (k, r) in given.iter().enumerate() {
        let name = if given.len() == 1 { format!("{name}_once") } else { format!("{name}_once_{k}") };
        let buffer = buffers.push(Buffer::workspace(name, None, Vec::new()));
        let place = Place { buffer, at: Vec::new() };
        first.push(Stmt::Store(place.clone(), *r));
        second.push(Stmt::Define(*r, Real::Load(place)));
        own.push(buffer);
    }
    second.extend(kept.into_iter().chain(rest).cloned());
    prune(&mut first);
    prune(&mut second);
    Some([
        Nest { buffers: own, decisions: vec![Decision::Once {}], body: first },
        Nest { buffers: nest.buffers.clone(), decisions: nest.decisions.clone(), body: second },
    ])
}

/// Whether statements store something or list it.
fn writes(stmts: &[Stmt]) -> bool {
    let mut writes = false;
    for stmt in stmts {
        stmt.visit(&mut |stmt| writes |= matches!(stmt, Stmt::Store(..) | Stmt::Tuple(..)));
    }
    writes
}

/// The registers outside of loops that come of loops or tests, or of places that loops find.
fn heavy(stmts: &[Stmt], changed: BTreeSet<RealId>) -> BTreeSet<RealId> {
    let found: BTreeSet<IndexId> = stmts.iter().filter(|stmt| has_loop(stmt)).flat_map(Stmt::defines).collect();
    let mut heavy = changed;
    for stmt in stmts {
        if let Stmt::Define(r, _) = stmt
            && (reads([stmt], |read| heavy.contains(&read)) || !mentioned([stmt]).is_disjoint(&found))
        {
            heavy.insert(*r);
        }
    }
    let outside = |r: &RealId| stmts.iter().any(|stmt| matches!(stmt, Stmt::Define(s, _) | Stmt::Local(s) if s == r));
    heavy.retain(outside);
    heavy
}

/// What the second nest has of the statements before the rows: numbers that are nothing to compute, and what finds indices that are asked for.
fn kept<'a>(before: &'a [Stmt], rest: &[Stmt], heavy: &BTreeSet<RealId>) -> Vec<&'a Stmt> {
    let mut indices = mentioned(rest);
    let mut kept = Vec::new();
    for stmt in before.iter().rev() {
        let stays = match stmt {
            Stmt::Define(r, _) | Stmt::Local(r) => !heavy.contains(r),
            Stmt::Fill(_) => true,
            stmt => stmt.defines().any(|i| indices.contains(&i)),
        };
        if stays {
            indices.extend(mentioned([stmt]));
            kept.push(stmt);
        }
    }
    kept.reverse();
    kept
}

/// Leaves out numbers that nothing reads, and searches for places that nothing asks for.
fn prune(stmts: &mut Vec<Stmt>) {
    let mut at = stmts.len();
    while at > 0 {
        at -= 1;
        let rest = &stmts[at + 1..];
        let is_idle = match &stmts[at] {
            Stmt::Define(r, _) | Stmt::Local(r) => !reads(rest, |read| read == *r) && !changed(rest).contains(r),
            Stmt::Extremum { index, body, .. } => !mentioned(rest).contains(index) && !changes_outside(body),
            _ => false,
        };
        if is_idle {
            stmts.remove(at);
        }
    }
}

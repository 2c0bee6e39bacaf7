//! Intermediate tensors of which each iteration of a parallel loop reads only the row that it has written.
//!
//! Such a row need not outlive its iteration. The loop is cut into parts, and each part has one row, which stays in the nearest cache:
//!
//! ```text
//! parallel for i in D              parallel for p in 0 .. 63
//!   t[i, ..] = e                     for i in part p of 64 of D
//!   x[i] = f(t[i, ..])      ==         t[p, ..] = e
//!                                      x[i] = f(t[p, ..])
//! ```
//!
//! Inside of such a row the same holds for loops that come one after the other, whatever runs in them: each iteration has its row at the place of that
//! before, `t[i, j, ..]` becomes `t[i, 0, ..]`.
//!
//! Rows of up to [`PRIVATE_ROW`] numbers are kept for each part whatever the sizes are; others where sizes are known, when a program is bound, and
//! the tensor has more rows than there are parts: then the memory of a matrix is that of a few rows.
//!
//! A row is read after it was written in the same iteration, since nothing else writes it; a tensor that is filled with zeros before is left
//! alone.

use std::collections::BTreeMap;

use super::Sizes;
use super::machine::{PARTS, PRIVATE_ROW};
use super::partial_sums::parts_loop;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{Buffer, BufferId, BufferKind, Decision, Domain, Fresh, Nest, Place, Program, Real, Stmt, has_loop};

/// Keeps short rows of intermediate tensors for each part only.
pub(super) fn run(program: &mut Program) -> Result<()> {
    keep(program, &is_short)
}

/// Keeps rows of intermediate tensors for each part only that have more of them than parts.
pub(super) fn rows(mut program: Program, sizes: Option<&Sizes<'_>>) -> Result<Program> {
    if let Some(sizes) = sizes {
        keep(&mut program, &|buffer, axis| {
            let rows = buffer.dims.get(axis).and_then(|n| (sizes.length)(n));
            buffer.entries.is_none() && rows.is_some_and(|rows| rows >= 2 * u64::from(PARTS))
        })?;
    }
    Ok(program)
}

fn keep(program: &mut Program, is_kept: &dyn Fn(&Buffer, usize) -> bool) -> Result<()> {
    let Program { buffers, nests, .. } = program;
    let homes = homes(nests);
    for (at, nest) in nests.iter_mut().enumerate() {
        if rows_inside(nest, at, &homes, buffers) {
            nest.decisions.push(Decision::OneRow {});
        }
        for stmt in 0..nest.body.len() {
            let Some((index, cut_already)) = row_loop(&nest.body[stmt]) else { continue };
            let rows: Vec<(BufferId, usize)> = axes(&nest.body[stmt], index)
                .into_iter()
                .filter(|(id, _)| homes.get(id) == Some(&Some((at, stmt))))
                .filter(|(id, _)| buffers[*id].kind == BufferKind::Workspace)
                .filter_map(|(id, axes)| Some((id, *axes.iter().find(|axis| is_kept(&buffers[id], **axis))?)))
                .collect();
            if rows.is_empty() {
                continue;
            }
            let part = match cut_already {
                Some(part) => part,
                None => {
                    let part = Fresh::after(&nest.body).fresh_index();
                    cut(&mut nest.body[stmt], part)?;
                    part
                }
            };
            for (id, axis) in rows {
                put(std::slice::from_mut(&mut nest.body[stmt]), id, axis, &part.into());
                let buffer = &mut buffers[id];
                let extent = Affine::constant(i64::from(PARTS));
                match buffer.entries.take() {
                    // The entries are the first axis.
                    Some(_) if axis == 0 => buffer.dims.insert(0, extent),
                    entries => {
                        buffer.dims[axis - usize::from(entries.is_some())] = extent;
                        buffer.entries = entries;
                    }
                }
            }
            nest.decisions.push(Decision::Privatised { parts: PARTS });
        }
    }
    Ok(())
}

/// Has intermediate tensors that occur in a loop alone, at its own index, one place for all of its iterations, loop by loop; whether there were
/// any.
fn rows_inside(
    nest: &mut Nest,
    at: usize,
    homes: &BTreeMap<BufferId, Option<(usize, usize)>>,
    buffers: &mut Arena<BufferId, Buffer>,
) -> bool {
    let mut found = Vec::new();
    for (number, top) in nest.body.iter().enumerate() {
        for stmt in top.body() {
            stmt.visit(&mut |stmt| {
                let Stmt::For { index, domain: Domain::Range { .. }, lanes: 1, jam: 1, parallel: false, body } = stmt
                else {
                    return;
                };
                if body.iter().any(has_loop) {
                    let own =
                        axes(stmt, *index).into_iter().filter(|(id, _)| homes.get(id) == Some(&Some((at, number))));
                    let own = own.filter(|(id, axes)| !axes.is_empty() && is_all(top, stmt, *id));
                    found.extend(own.filter_map(|(id, axes)| Some((id, *axes.first()?))));
                }
            });
        }
    }
    found.retain(|(id, axis)| {
        let buffer = &mut buffers[*id];
        let first = usize::from(buffer.entries.is_some());
        let free = buffer.kind == BufferKind::Workspace && *axis >= first;
        if let Some(extent) = buffer.dims.get_mut(axis.wrapping_sub(first)).filter(|_| free) {
            *extent = Affine::constant(1);
            nest.body.iter_mut().for_each(|stmt| put(std::slice::from_mut(stmt), *id, *axis, &Affine::constant(0)));
            return true;
        }
        false
    });
    !found.is_empty()
}

/// Whether all places of a buffer in a statement are in one inside.
fn is_all(whole: &Stmt, part: &Stmt, id: BufferId) -> bool {
    let count = |stmt: &Stmt| {
        let mut n = 0;
        stmt.visit(&mut |stmt| n += usize::from(place(stmt).is_some_and(|place| place.buffer == id)));
        n
    };
    count(whole) == count(part)
}

/// The only statement of a nest in which a buffer occurs; nothing where there are others, or it is filled or given to code from outside.
fn homes(nests: &[Nest]) -> BTreeMap<BufferId, Option<(usize, usize)>> {
    let mut homes = BTreeMap::new();
    for (at, nest) in nests.iter().enumerate() {
        for (number, top) in nest.body.iter().enumerate() {
            top.visit(&mut |stmt| {
                let home = Some((at, number));
                if let Stmt::Fill(buffer) = stmt {
                    homes.insert(*buffer, None);
                }
                if let Stmt::Call { takes, gives, .. } = stmt {
                    homes.extend(takes.iter().chain(gives).map(|run| (run.place.buffer, None)));
                }
                if let Some(Place { buffer, .. }) = place(stmt) {
                    let known = homes.entry(*buffer).or_insert(home);
                    *known = known.filter(|known| Some(*known) == home);
                }
            });
        }
    }
    homes
}

/// Whether an intermediate tensor has few elements for each index of an axis.
fn is_short(buffer: &Buffer, axis: usize) -> bool {
    let others = buffer.dims.iter().enumerate().filter(|(k, _)| k + usize::from(buffer.entries.is_some()) != axis);
    let len = others.map(|(_, n)| n.as_constant()).try_fold(1_i64, |len, n| len.checked_mul(n?));
    let is_dense = buffer.entries.is_none() || axis == 0;
    is_dense && len.is_some_and(|len| len <= PRIVATE_ROW)
}

/// The index of a loop whose iterations come one after the other within a part, and the index of the parts if it is cut already.
fn row_loop(stmt: &Stmt) -> Option<(IndexId, Option<IndexId>)> {
    let Stmt::For { index, domain, lanes: 1, jam: 1, parallel: true, body } = stmt else { return None };
    let parts = Domain::whole(&Affine::constant(i64::from(PARTS))).ok()?;
    let mut loops = body.iter().filter(|stmt| matches!(stmt, Stmt::For { .. }));
    if *domain == parts
        && let (Some(Stmt::For { index: inner, domain: Domain::Part { part, .. }, lanes, jam, .. }), None) =
            (loops.next(), loops.next())
        && part.as_index() == Some(*index)
    {
        return (*lanes == 1 && *jam == 1).then_some((*inner, Some(*index)));
    }
    Some((*index, None))
}

fn place(stmt: &Stmt) -> Option<&Place> {
    match stmt {
        Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. } => Some(place),
        _ => None,
    }
}

/// The axes of each buffer that have the loop index wherever it occurs.
fn axes(stmt: &Stmt, index: IndexId) -> BTreeMap<BufferId, Vec<usize>> {
    let mut all: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
    stmt.visit(&mut |stmt| {
        let Some(place) = place(stmt) else { return };
        let own = |axis: &usize| place.at.get(*axis).and_then(Affine::as_index) == Some(index);
        let known = all.entry(place.buffer).or_insert_with(|| (0..place.at.len()).collect());
        known.retain(own);
    });
    all
}

/// Puts a loop over parts around a loop.
fn cut(stmt: &mut Stmt, part: IndexId) -> Checked<()> {
    if let Stmt::For { domain, parallel, .. } = stmt {
        let whole = Box::new(domain.clone());
        *domain = Domain::Part { whole, part: part.into(), parts: PARTS, grain: 1 };
        *parallel = false;
    }
    let inner = std::mem::replace(stmt, Stmt::Fill(BufferId(0)));
    *stmt = parts_loop(part, true, vec![inner])?;
    Ok(())
}

fn put(body: &mut [Stmt], buffer: BufferId, axis: usize, part: &Affine) {
    places_mut(body, &mut |place| {
        if let Some(at) = place.at.get_mut(axis).filter(|_| place.buffer == buffer) {
            *at = part.clone();
        }
    });
}

/// Calls a function on the places of loads, stores and lengths.
pub(super) fn places_mut(body: &mut [Stmt], change: &mut dyn FnMut(&mut Place)) {
    for stmt in body {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => places_mut(body, change),
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. } => change(place),
            _ => {}
        }
    }
}

//! Parameters whose neighbours are not those of the lanes are copied with their axes in another order.
//!
//! A parameter has the order of axes that its owner gave it. Where an innermost loop loads from places far apart, and the nest reads the whole
//! parameter more than once, a copy in which these are neighbours costs less than the loads it saves. A copy serves all nests.

use super::PASS;
use super::layout::{INNERMOST, Path, paths, permute, strided, weight};
use crate::base::{Arena, Id, IndexId};
use crate::error::{Error, Result};
use crate::loops::{Buffer, BufferId, BufferKind, Domain, Nest, Place, Real, RealId, Stmt};

/// How deep the loops must be that gain from a copy, and how much.
const DEPTH: usize = 3;
const GAIN: u64 = INNERMOST / 2;

/// Copies parameters where that pays, in nests before all others.
pub(super) fn pack(nests: &mut Vec<Nest>, buffers: &mut Arena<BufferId, Buffer>) -> Result<()> {
    let params: Vec<BufferId> = buffers
        .iter()
        .filter(|(_, b)| matches!(b.kind, BufferKind::Param(..)) && b.entries.is_none() && b.dims.len() >= 2)
        .map(|(id, _)| id)
        .collect();
    let mut copies = Vec::new();
    for param in params {
        let rank = buffers[param].dims.len();
        let now = |nest: &Nest| strided(nest, param, rank - 1);
        let mut made: Vec<(usize, BufferId)> = Vec::new();
        for nest in nests.iter() {
            let Some((least, axis)) = (0..rank).map(|axis| (strided(nest, param, axis), axis)).min() else { continue };
            if now(nest) < least.saturating_add(GAIN * weight(DEPTH))
                || !reads_all_again(nest, param, &buffers[param])
                || made.iter().any(|(other, _)| *other == axis)
            {
                continue;
            }
            let (copy, nest) = copied(param, axis, buffers)?;
            made.push((axis, copy));
            copies.push(nest);
        }
        // A copy that is there anyway serves others as well.
        for nest in nests.iter_mut() {
            let best = made.iter().map(|(axis, copy)| (strided(nest, param, *axis), *axis, *copy)).min();
            if let Some((_, axis, copy)) = best.filter(|(least, ..)| *least < now(nest)) {
                permute(&mut nest.body, param, axis);
                rename(&mut nest.body, param, copy);
            }
        }
    }
    nests.splice(0..0, copies);
    Ok(())
}

/// Whether some innermost loop reads a parameter at the indices of loops over its whole axes, or from one of their ends on, inside of a loop
/// over something else.
fn reads_all_again(nest: &Nest, param: BufferId, buffer: &Buffer) -> bool {
    paths(nest).iter().any(|Path { around, body, .. }| {
        body.iter().filter_map(Stmt::load).filter(|place| place.buffer == param).any(|place| {
            let whole = place.at.iter().zip(&buffer.dims).all(|(a, n)| {
                let l = a.as_index().and_then(|i| around.iter().find(|l| l.index == i));
                l.is_some_and(|l| Domain::whole(n).is_ok_and(|whole| from_an_end(l.domain, &whole)))
            });
            whole && around.iter().any(|l| !place.at.iter().any(|a| a.mentions(l.index)))
        })
    })
}

/// Whether a range begins or ends where another one does.
fn from_an_end(domain: &Domain, whole: &Domain) -> bool {
    match (domain, whole) {
        (Domain::Range { lower: a, upper: b }, Domain::Range { lower: c, upper: d }) => a == c || b == d,
        _ => false,
    }
}

/// A copy of a buffer in which an axis is the last.
fn copied(from: BufferId, axis: usize, buffers: &mut Arena<BufferId, Buffer>) -> Result<(BufferId, Nest)> {
    let Buffer { name, dims, .. } = buffers[from].clone();
    let mut order: Vec<usize> = (0..dims.len()).filter(|k| *k != axis).collect();
    order.push(axis);
    let moved = order.iter().map(|k| dims[*k].clone()).collect();
    let name = format!("{name}_packed");
    let to = buffers.push(Buffer::workspace(name.clone(), None, moved));
    let index = |k: &usize| IndexId::from_index(*k);
    let at = (0..dims.len()).map(|k| index(&k).into()).collect();
    let load = Stmt::Define(RealId(0), Real::Load(Place { buffer: from, at }));
    let store = Stmt::Store(Place { buffer: to, at: order.iter().map(|k| index(k).into()).collect() }, RealId(0));
    let mut body = vec![load, store];
    for k in order.iter().rev() {
        let domain = Domain::whole(&dims[*k]).map_err(|_| Error::bug(PASS, "an axis that overflows"))?;
        body = vec![Stmt::one_by_one(index(k), domain, body)];
    }
    let reasons = vec![format!("a copy with its axes in another order: {name} is read in lanes, more than once")];
    Ok((to, Nest { buffers: vec![to], reasons, body }))
}

fn rename(body: &mut [Stmt], from: BufferId, to: BufferId) {
    for stmt in body {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => rename(body, from, to),
            Stmt::Define(_, Real::Load(place)) if place.buffer == from => place.buffer = to,
            _ => {}
        }
    }
}

//! Which axis of an intermediate tensor is closest in memory.
//!
//! Vectors are loaded from neighbours, so each nest would like the index of its lanes to be the last of every place that depends on it. A
//! tensor that nobody sees from outside may have its axes in any order: for each of them the nests that read and write it are asked what
//! they would load from places far apart, and the last axis is the one with which they load least so. Where it makes little difference, axes
//! stay.

use crate::base::{Arena, IndexId};
use crate::index::Var;
use crate::loops::{Buffer, BufferId, BufferKind, Domain, Nest, Place, Real, Stmt};

/// Puts the axes of intermediate tensors in the order that suits the nests.
pub(super) fn choose(nests: &mut [Nest], buffers: &mut Arena<BufferId, Buffer>) {
    let candidates: Vec<BufferId> = buffers
        .iter()
        .filter(|(_, b)| b.kind == BufferKind::Workspace && b.entries.is_none() && b.dims.len() >= 2)
        .map(|(id, _)| id)
        .collect();
    for buffer in candidates {
        let Some(rank) = buffers.get(buffer).map(|b| b.dims.len()) else { continue };
        let users: Vec<usize> = (0..nests.len()).filter(|k| uses(&nests[*k], buffer)).collect();
        let cost = |axis: usize| -> u64 {
            users.iter().map(|k| nests.get(*k).map_or(0, |nest| strided(nest, buffer, axis))).sum()
        };
        let now = cost(rank - 1);
        let best = (0..rank).map(|axis| (cost(axis), axis)).min();
        let Some((_, axis)) = best.filter(|(least, _)| least.saturating_add(now / 8) < now) else { continue };
        move_last(&mut buffers[buffer].dims, axis);
        for k in users {
            let Some(nest) = nests.get_mut(k) else { continue };
            permute(&mut nest.body, buffer, axis);
            if nest.buffers.contains(&buffer) {
                nest.reasons.push("its axes are in the order in which its readers have neighbours in lanes".to_owned());
            }
        }
    }
}

fn move_last<T>(list: &mut Vec<T>, at: usize) {
    if at < list.len() {
        let one = list.remove(at);
        list.push(one);
    }
}

pub(super) fn permute(body: &mut [Stmt], buffer: BufferId, axis: usize) {
    for stmt in body {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => permute(body, buffer, axis),
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) if place.buffer == buffer => {
                move_last(&mut place.at, axis);
            }
            _ => {}
        }
    }
}

/// How many times more often an innermost loop runs than what is around it, at least.
pub(super) const INNERMOST: u64 = 4;

/// How often so many nested loops run, beside one loop.
pub(super) fn weight(depth: usize) -> u64 {
    INNERMOST.saturating_pow(u32::try_from(depth).unwrap_or(u32::MAX).max(1))
}

fn place(stmt: &Stmt) -> Option<&Place> {
    match stmt {
        Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) => Some(place),
        _ => None,
    }
}

fn uses(nest: &Nest, buffer: BufferId) -> bool {
    let mut found = false;
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| found |= place(stmt).is_some_and(|place| place.buffer == buffer));
    }
    found
}

/// A loop around statements.
#[derive(Clone, Copy)]
pub(super) struct Loop<'a> {
    pub index: IndexId,
    pub domain: &'a Domain,
    /// Whether it can have lanes: its values are a range, and neither loops nor indices inside depend on it.
    lanes: bool,
}

/// The accesses to places far apart that the best choice of lanes leaves, if this axis of the buffer is the last.
pub(super) fn strided(nest: &Nest, buffer: BufferId, axis: usize) -> u64 {
    let paths = paths(nest);
    let cost = |Path { around, stores, body }: &Path<'_>| -> u64 {
        let deepest = around.len().saturating_sub(1);
        // Entries are few, so what is stored after a loop over them counts.
        let short = around.last().is_some_and(|l| matches!(l.domain, Domain::Segment(_)));
        let candidates = around.iter().enumerate().filter(|(_, l)| l.lanes);
        let each = candidates.map(|(depth, l)| {
            let adds = body.iter().any(|s| matches!(s, Stmt::Accumulate(..) | Stmt::MulAdd(..)));
            // Lanes of an innermost sum are added up after each round.
            let fold = u64::from(depth == deepest && adds);
            let far = |place: &Place| apart(place, l.index, buffer, axis);
            let inside: u64 = body.iter().filter_map(place).map(|place| INNERMOST * u64::from(far(place))).sum();
            let outside: u64 = stores.iter().map(|place| u64::from(far(place))).sum();
            INNERMOST * (fold + inside) + if short { INNERMOST * outside } else { outside }
        });
        // A loop without lanes does one number at a time. Deeper loops run more often.
        each.min().unwrap_or(8 * INNERMOST).saturating_mul(weight(around.len()) / INNERMOST)
    };
    paths.iter().map(cost).sum()
}

/// Whether lanes over an index access places far apart, neither neighbours nor one place.
fn apart(place: &Place, index: IndexId, buffer: BufferId, axis: usize) -> bool {
    let last = if place.buffer == buffer { axis } else { place.at.len().wrapping_sub(1) };
    let varying = place.at.iter().enumerate().filter(|(_, a)| a.mentions(index));
    let near = |(at, a): (usize, &crate::index::Affine)| at == last && a.coefficient(&Var::Index(index)) == 1;
    !varying.into_iter().all(near)
}

/// An innermost loop, the loops around it, and what is stored in these.
#[derive(Clone, Default)]
pub(super) struct Path<'a> {
    pub around: Vec<Loop<'a>>,
    stores: Vec<&'a Place>,
    pub body: &'a [Stmt],
}

/// The innermost loops of a nest.
pub(super) fn paths(nest: &Nest) -> Vec<Path<'_>> {
    let mut paths = Vec::new();
    nest.body.iter().for_each(|stmt| innermost(stmt, &mut Path::default(), &mut paths));
    paths
}

/// The innermost loops of a statement.
fn innermost<'a>(stmt: &'a Stmt, path: &mut Path<'a>, paths: &mut Vec<Path<'a>>) {
    let body = stmt.body();
    let stores = path.stores.len();
    if let Stmt::For { index, domain, .. } = stmt {
        let mut lanes = matches!(domain, Domain::Range { .. });
        for stmt in body {
            stmt.visit(&mut |stmt| {
                if matches!(stmt, Stmt::For { .. } | Stmt::Let { .. } | Stmt::Find { .. } | Stmt::If { .. }) {
                    stmt.visit_affine(&mut |a| lanes &= !a.mentions(*index));
                }
            });
        }
        path.around.push(Loop { index: *index, domain, lanes });
        match body.iter().all(|stmt| stmt.body().is_empty()) {
            true => paths.push(Path { body, ..path.clone() }),
            false => path.stores.extend(body.iter().filter(|stmt| matches!(stmt, Stmt::Store(..))).filter_map(place)),
        }
    }
    body.iter().for_each(|stmt| innermost(stmt, path, paths));
    path.stores.truncate(stores);
    if matches!(stmt, Stmt::For { .. }) {
        path.around.pop();
    }
}

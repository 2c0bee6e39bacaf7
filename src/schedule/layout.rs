//! Which axis of an intermediate tensor is closest in memory.
//!
//! Vectors are loaded from neighbours, so each nest would like the index of its lanes to be the last of every place that depends on it. A
//! tensor that nobody sees from outside may have its axes in any order: for each of them the nests that read and write it are asked what
//! they would load from places far apart, and the last axis is the one with which they load least so. Where it makes little difference, axes
//! stay.
//!
//! What a tensor gains depends on the others, so this is a descent by one tensor at a time, until none moves, from several starts: the axes as they are,
//! and for each size those in which it is last of all tensors that have it. The result is taken with which all nests together load least from places
//! far apart and have least pass through memory. A tensor does not where all nests that it occurs in
//! become [one](super::fuse), whose iterations each have a row of it: that [stays](super::privatise) in the nearest cache. As a nest of several loops
//! joins none, those [beside each other](super::beside) become one before, or nests of their own.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::fuse::Groups;
use super::machine::{FAR, FEW, NEAR};
use super::split::taps::is_border;
use super::vectorise::{is_short, literal};
use super::{beside, machine, pack};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Size, Var};
use crate::loops::{
    Buffer, BufferId, BufferKind, Decision, Domain, Nest, Place, Program, Real, Stmt, changes_outside, has_loop, loads,
    stores,
};

/// How often each tensor is asked, at most.
const SWEEPS: usize = 4;
/// How many times longer than others a row is taken to be, beside what is done once for it.
const LONGER: u64 = 2;
/// How many sizes are tried as the last axis.
const MAX_STARTS: usize = 6;

/// The axes that are the last ones of some buffers, instead of their last ones.
pub(super) type Last = BTreeMap<BufferId, usize>;

/// Which axes are neighbours in memory.
#[derive(Clone, Copy)]
pub(super) struct Axes<'a> {
    pub last: &'a Last,
    /// A buffer that is there once more, with another axis as its last one.
    pub copy: Option<(BufferId, usize)>,
}

/// Puts the axes of intermediate tensors in the order that suits the nests, but for copies of parameters; of these nests then read others, where
/// that is better now.
pub(super) fn run(program: &mut Program) -> Result<()> {
    beside::single(program)?;
    let copies = pack::copies(program);
    let last = best(program, &|buffer| copies.iter().any(|copy| copy.to == buffer));
    let Program { buffers, nests, .. } = program;
    let users = users(nests);
    for (id, axis) in last {
        move_last(&mut buffers[id].dims, axis);
        for at in users.get(&id).into_iter().flatten() {
            let Some(nest) = nests.get_mut(*at) else { continue };
            permute(&mut nest.body, id, axis);
            if nest.buffers.contains(&id) {
                nest.decisions.push(Decision::LastAxis { axis });
            }
        }
    }
    pack::intermediates(program)?;
    pack::serve(program);
    Ok(())
}

/// The axes that suit the nests as last ones, of tensors that may have others than they have.
pub(super) fn best(program: &Program, stays: &dyn Fn(BufferId) -> bool) -> Last {
    let Program { buffers, nests, .. } = program;
    let is_free = |b: &Buffer| b.kind == BufferKind::Workspace && b.entries.is_none() && b.dims.len() >= 2;
    let users = users(nests);
    let paths: Vec<Vec<Path<'_>>> = nests.iter().map(paths).collect();
    let mut free: Vec<Free> = Vec::new();
    let mut starts = vec![Last::new()];
    let mut sizes: Vec<&Size> = Vec::new();
    for (id, buffer) in buffers.iter().filter(|(id, buffer)| is_free(buffer) && !stays(*id)) {
        let users = users.get(&id).cloned().unwrap_or_default();
        free.push(Free { id, rank: buffer.dims.len(), users });
        let new = buffer.dims.iter().filter(|n| n.as_constant().is_none() && !sizes.contains(n)).collect::<Vec<_>>();
        sizes.extend(new);
    }
    for size in sizes.into_iter().take(MAX_STARTS) {
        let axis = |free: &Free| Some((free.id, buffers[free.id].dims.iter().rposition(|n| n == size)?));
        starts.push(free.iter().filter_map(axis).collect());
    }
    let moved = |mut last: Last| {
        last.retain(|id, axis| buffers.get(*id).is_some_and(|buffer| *axis + 1 < buffer.dims.len()));
        last
    };
    let mut ends: Vec<Last> = Vec::new();
    for end in starts.into_iter().map(|start| moved(settled(&paths, &free, start))).chain([Last::new()]) {
        ends.extend((!ends.contains(&end)).then_some(end));
    }
    if ends.len() == 1 {
        return ends.swap_remove(0);
    }
    let strided = |last: &Last| total(paths.iter().map(|paths| strided_in(paths, last)));
    let mut by_strided: Vec<(u64, usize)> = ends.iter().map(strided).zip(0..).collect();
    by_strided.sort_unstable();
    let mut least: Option<(u64, usize)> = None;
    for (strided, at) in by_strided {
        // What passes through memory is asked only where that may be less.
        if least.is_some_and(|(least, _)| least < strided) {
            break;
        }
        let cost = (strided.saturating_add(through_memory(nests, &free, &ends[at])), at);
        least = Some(least.map_or(cost, |least| least.min(cost)));
    }
    least.map(|(_, at)| ends.swap_remove(at)).unwrap_or_default()
}

/// What it costs that tensors pass through memory: once for each nest, as what is read again and again is at hand.
fn through_memory(nests: &[Nest], free: &[Free], last: &Last) -> u64 {
    let groups = Groups::new(nests, last);
    let passes = free.iter().filter(|Free { id, users, .. }| !groups.has_rows(users, *id));
    let times =
        |Free { rank, users, .. }: &Free| weight(*rank).saturating_mul(u64::try_from(users.len()).unwrap_or(u64::MAX));
    total(passes.map(times)).saturating_mul(NEAR * machine::INNERMOST)
}

/// A tensor that may have its axes in any order, and the nests in which it occurs.
struct Free {
    id: BufferId,
    rank: usize,
    users: Vec<usize>,
}

/// The last axes with which no tensor would rather have another one, asked in order.
fn settled(paths: &[Vec<Path<'_>>], free: &[Free], mut last: Last) -> Last {
    for _ in 0..SWEEPS {
        let mut moved = false;
        for Free { id, rank, users } in free {
            let before = last.get(id).copied().unwrap_or(rank.saturating_sub(1));
            let mut cost = |axis: usize| -> u64 {
                last.insert(*id, axis);
                total(users.iter().filter_map(|at| paths.get(*at)).map(|paths| strided_in(paths, &last)))
            };
            let now = cost(before);
            let best = (0..*rank).map(|axis| (cost(axis), axis)).min();
            let better = best.filter(|(least, _)| least.saturating_add(now / 8) < now);
            moved |= better.is_some();
            last.insert(*id, better.map_or(before, |(_, axis)| axis));
        }
        if !moved {
            break;
        }
    }
    last
}

pub(super) fn move_last<T>(list: &mut Vec<T>, at: usize) {
    if at < list.len() {
        let one = list.remove(at);
        list.push(one);
    }
}

fn permute(body: &mut [Stmt], buffer: BufferId, axis: usize) {
    for stmt in body {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => permute(body, buffer, axis),
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. }
                if place.buffer == buffer =>
            {
                move_last(&mut place.at, axis);
            }
            _ => {}
        }
    }
}

/// How often so many nested loops run, beside one loop.
pub(super) fn weight(depth: usize) -> u64 {
    machine::INNERMOST.saturating_pow(u32::try_from(depth).unwrap_or(u32::MAX).max(1))
}

/// How often the body of some nested loops runs, beside one loop: what is said of lengths that are literals, and of multiples of sizes.
fn times(loops: &[Loop<'_>]) -> u64 {
    let length = |l: &Loop<'_>| {
        if let Some(n) = literal(&l.domain) {
            return u64::try_from(n).unwrap_or(1).clamp(1, machine::INNERMOST);
        }
        let extent = l.domain.whole_of().whole_extent();
        let multiple = extent.iter().flat_map(Affine::terms).map(|(_, k)| k.unsigned_abs()).max();
        multiple.unwrap_or(1).saturating_mul(machine::INNERMOST)
    };
    loops.iter().fold(1, |all: u64, l| all.saturating_mul(length(l))).max(machine::INNERMOST)
}

/// The sum, as far as it goes.
pub(super) fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// What statements load and store, under tests too.
fn places(body: &[Stmt]) -> Vec<&Place> {
    loads(body).into_iter().chain(stores(body)).collect()
}

fn place(stmt: &Stmt) -> Option<&Place> {
    match stmt {
        Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. } => Some(place),
        _ => None,
    }
}

/// The nests in which each buffer occurs.
fn users(nests: &[Nest]) -> BTreeMap<BufferId, Vec<usize>> {
    let mut users: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
    for (at, nest) in nests.iter().enumerate() {
        let mut buffers = BTreeSet::new();
        nest.body.iter().for_each(|stmt| stmt.visit(&mut |stmt| buffers.extend(place(stmt).map(|place| place.buffer))));
        buffers.into_iter().for_each(|id| users.entry(id).or_default().push(at));
    }
    users
}

/// A loop around statements.
#[derive(Clone)]
pub(super) struct Loop<'a> {
    pub index: IndexId,
    pub domain: Cow<'a, Domain>,
    /// Whether it can have lanes: its values are a range, and neither loops nor indices inside depend on it.
    lanes: bool,
}

/// The accesses to places far apart that the best choice of lanes leaves in one innermost loop, without loads between loops: those of intermediate
/// tensors that have no order of axes yet.
pub(super) fn strided_inside(path: &Path<'_>, last: &Last) -> u64 {
    let mut path = path.clone();
    path.outside.retain(|(_, stmt)| stmt.store().is_some());
    strided_in(&[path], last).div_ceil(FAR)
}

/// The accesses to places far apart that the best choice of lanes leaves of each innermost loop alone.
fn strided_in(paths: &[Path<'_>], last: &Last) -> u64 {
    total(paths.iter().map(|path| best_inside(&[path], 0, Axes { last, copy: None })))
}

/// The same of all together: a loop has lanes for all that is inside.
pub(super) fn strided_together(paths: &[Path<'_>], axes: Axes<'_>) -> u64 {
    best_inside(&paths.iter().collect::<Vec<_>>(), 0, axes)
}

/// For each path the index of the loop that has lanes by this choice, if one has.
pub(super) fn lanes(paths: &[Path<'_>], axes: Axes<'_>) -> Vec<Option<IndexId>> {
    let mut found = vec![None; paths.len()];
    let mut left: Vec<(usize, usize, usize)> = vec![(0, paths.len(), 0)];
    while let Some((from, to, depth)) = left.pop() {
        let group: Vec<&Path<'_>> = paths[from..to].iter().collect();
        let mut at = from;
        for group in groups(&group, depth) {
            let end = at + group.len();
            if let Some(l) = group[0].around.get(depth) {
                let here = all_in_lanes(group, depth, axes);
                match here.filter(|here| inside(group, depth, axes).is_none_or(|inside| *here <= inside)) {
                    Some(_) => found[at..end].fill(Some(l.index)),
                    None => left.push((at, end, depth + 1)),
                }
            }
            at = end;
        }
    }
    found
}

/// Paths in the same loop at a depth.
fn groups<'p, 'a>(paths: &'p [&'p Path<'a>], depth: usize) -> impl Iterator<Item = &'p [&'p Path<'a>]> {
    let here = move |path: &Path<'_>| path.around.get(depth).map(|l| l.index);
    paths.chunk_by(move |a, b| here(a).is_some() && here(a) == here(b))
}

/// The least cost of paths that have as many loops around in common.
// Loops nest to a bounded depth.
fn best_inside(paths: &[&Path<'_>], depth: usize, axes: Axes<'_>) -> u64 {
    total(groups(paths, depth).map(|group| {
        let least = all_in_lanes(group, depth, axes).into_iter().chain(inside(group, depth, axes)).min();
        // A loop without lanes does one number at a time.
        let scalar = |path: &&Path<'_>| times(&path.around).saturating_mul(2 * FAR * machine::INNERMOST);
        least.unwrap_or_else(|| total(group.iter().map(scalar)))
    }))
}

/// The same of paths in a loop at this depth, whose lanes are those of loops inside, if these can have them.
fn inside(paths: &[&Path<'_>], depth: usize, axes: Axes<'_>) -> Option<u64> {
    let can = paths.iter().any(|path| can_have_lanes(path, depth + 1));
    can.then(|| best_inside(paths, depth + 1, axes))
}

/// Whether a loop from a depth on can have lanes.
fn can_have_lanes(path: &Path<'_>, depth: usize) -> bool {
    (depth..path.around.len()).any(|depth| has_lanes(path, depth))
}

fn has_lanes(path: &Path<'_>, depth: usize) -> bool {
    let can = |l: &Loop<'_>| l.lanes && !is_for_parts(path, depth) && (is_wide(l) || !path.around.iter().any(is_wide));
    path.around.get(depth).is_some_and(can)
}

/// What it costs that the loop at a depth has lanes for all paths in it, if it can have them.
fn all_in_lanes(paths: &[&Path<'_>], depth: usize, axes: Axes<'_>) -> Option<u64> {
    paths.iter().try_fold(0_u64, |all, path| Some(all.saturating_add(in_lanes(path, depth, axes)?)))
}

/// The same for one path.
fn in_lanes(path: &Path<'_>, depth: usize, axes: Axes<'_>) -> Option<u64> {
    let Path { around, outside, body } = path;
    let l = around.get(depth).filter(|_| has_lanes(path, depth))?;
    let far = |place: &Place| apart(place, l.index, axes);
    let inside = total(places(body).into_iter().map(far));
    // After each round, lanes of a sum are added up, which takes a little longer than storing them on as many lines of the cache.
    let outside = outside.iter().filter_map(|(depth, stmt)| Some((depth, far(place(stmt)?))));
    let outside = total(outside.map(|(depth, each)| times(&around[..*depth]).saturating_mul(each)));
    let deepest = around.len().saturating_sub(1);
    let folds = if depth == deepest && changes_outside(body) { times(&around[..deepest]) } else { 0 };
    let after = outside.saturating_mul(2).saturating_add(folds.saturating_mul(5));
    let all = inside.saturating_mul(times(around)).saturating_mul(LONGER).saturating_add(after);
    Some(all.saturating_mul(machine::INNERMOST))
}

/// Whether a loop is the outermost of many over axes of what is stored, which is cut into parts rather than into lanes.
fn is_for_parts(Path { around, outside, body }: &Path<'_>, depth: usize) -> bool {
    let outside = outside.iter().filter_map(|(_, stmt)| stmt.store());
    let places: Vec<&Place> = outside.chain(stores(*body)).collect();
    let axis =
        |l: &Loop<'_>| places.is_empty() || places.iter().any(|place| place.at.iter().any(|a| a.mentions(l.index)));
    let inside = || around.iter().skip(1).filter(|l| !is_short(&l.domain) && axis(l));
    depth == 0 && inside().count() >= machine::AXES_BESIDE_PARTS && inside().any(is_wide)
}

/// Whether a loop can have lanes, and is not known to be too short for them.
fn is_wide(l: &Loop<'_>) -> bool {
    l.lanes && !is_short(&l.domain)
}

/// What it costs that lanes over an index access a place, or the same one of a copy.
pub(super) fn apart(place: &Place, index: IndexId, Axes { last, copy }: Axes<'_>) -> u64 {
    let end = last.get(&place.buffer).copied().unwrap_or(place.at.len().wrapping_sub(1));
    let own = far(place, index, end);
    copy.filter(|(buffer, _)| *buffer == place.buffer).map_or(own, |(_, axis)| own.min(far(place, index, axis)))
}

/// What it costs that lanes over an index access a place, with an axis as the last: nothing for neighbours and one place, less for places a few apart than
/// for others. A column that is a literal is one of a few, as a coordinate of points or a channel of pictures.
fn far(place: &Place, index: IndexId, last: usize) -> u64 {
    let rank = place.at.len();
    let in_rows = last.wrapping_add(1) == rank && place.at.last().is_some_and(|a| a.as_constant().is_some());
    let varying = place.at.iter().enumerate().filter(|(_, a)| a.mentions(index));
    let cost = |(at, a): (usize, &Affine)| match a.coefficient(&Var::Index(index)) {
        1 if at == last => 0,
        1 if in_rows && at + 1 == last => NEAR,
        step if at == last && step.unsigned_abs() <= FEW.unsigned_abs() => NEAR,
        _ => FAR,
    };
    varying.map(cost).max().unwrap_or(0)
}

/// An innermost loop or search, the loops around it, and what is loaded and stored in these, each inside of so many.
#[derive(Clone, Default)]
pub(super) struct Path<'a> {
    pub around: Vec<Loop<'a>>,
    outside: Vec<(usize, &'a Stmt)>,
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
    // A few places at the ends of rows do not say how these are read.
    if is_border(stmt) {
        return;
    }
    let body = stmt.body();
    let outside = path.outside.len();
    if let Stmt::Extremum { at, extent, .. } = stmt
        && let Ok(domain) = Domain::whole(extent)
        && !body.iter().any(has_loop)
    {
        let mut search = Path { body, ..path.clone() };
        // It has lanes of its own.
        search.around.iter_mut().for_each(|l| l.lanes = false);
        search.around.push(Loop { index: *at, domain: Cow::Owned(domain), lanes: true });
        paths.push(search);
    }
    if let Stmt::For { index, domain, .. } = stmt {
        let mut lanes = matches!(domain, Domain::Range { .. });
        for stmt in body {
            stmt.visit(&mut |stmt| {
                if matches!(stmt, Stmt::For { .. } | Stmt::Let { .. } | Stmt::Find { .. } | Stmt::If { .. }) {
                    stmt.visit_affine(&mut |a| lanes &= !a.mentions(*index));
                }
            });
        }
        path.around.push(Loop { index: *index, domain: Cow::Borrowed(domain), lanes });
        if body.iter().any(has_loop) {
            let depth = path.around.len();
            path.outside.extend(body.iter().filter(|stmt| place(stmt).is_some()).map(|stmt| (depth, stmt)));
        } else {
            paths.push(Path { body, ..path.clone() });
        }
    }
    body.iter().for_each(|stmt| innermost(stmt, path, paths));
    path.outside.truncate(outside);
    if matches!(stmt, Stmt::For { .. }) {
        path.around.pop();
    }
}

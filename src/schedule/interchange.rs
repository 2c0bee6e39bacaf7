//! In which order the loops over a stored tensor come.
//!
//! ```text
//! for a { for b { x[a, b] = e } }          for a { for b { x[a, b] = e }
//! for c { for a { y[c, a] = f(x[a, _]) } } ==      for c { y[c, a] = f(x[a, _]) } }
//! ```
//!
//! They come in the order of its axes, which says nothing of what they read. Where the nest that has written the largest part of that runs over
//! another axis, that axis comes outermost here too, if nests then [join](super::fuse) such that less is read that another nest has written: with
//! the nests behind it as they are, or reordered as well.
//!
//! A loop does not come outermost where neighbours along it lie together in all parameters and results that are read or written at all indices:
//! their rows would be gone through column by column, a line of each at a time, which takes longer than to read again what joining saves. Elements
//! that are sums themselves take longer than that anyway. A nest that would do so in the order of its axes begins with rows.
//!
//! Before that, nests that make a number of others come as early as they can, so that they are in no one's way, and sums over all tuples of a relation
//! [go by rows](roots) where another nest does.
//!
//! **Why it is right.** The loops are over ranges, the one that moves out has bounds that those around it do not change, and there is nothing
//! between them but numbers, which are computed as far out as their indices are known. Every element is computed as before.

mod roots;

use std::collections::{BTreeMap, BTreeSet};

use super::fuse::Groups;
use super::layout::{total, weight};
use super::vectorise::is_short;
use super::{fuse, layout};
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Var};
use crate::loops::{
    Buffer, BufferId, BufferKind, Decision, Domain, Nest, Place, Program, RealId, Stmt, has_loop, loads, stores,
};

/// Reorders loops.
pub(super) fn run(program: &mut Program) -> Result<()> {
    numbers_first(&mut program.nests);
    roots::to_rows(program)?;
    for nest in &mut program.nests {
        if let Some(other) = by_rows(nest, &program.buffers) {
            *nest = other;
        }
    }
    let mut writers: BTreeMap<BufferId, usize> = BTreeMap::new();
    // Asked where some nest may change, and then known.
    let mut now = None;
    for at in 0..program.nests.len() {
        if let Some(other) = wanted(program, &writers, at) {
            let before = now.unwrap_or_else(|| traffic(program));
            let mut replaced = vec![(at, std::mem::replace(&mut program.nests[at], other))];
            let mut after = traffic(program);
            if after >= before && readers_too(program, writers.clone(), at, &mut replaced) {
                after = traffic(program);
            }
            if after >= before {
                replaced.into_iter().for_each(|(k, nest)| program.nests[k] = nest);
            }
            now = Some(after.min(before));
        }
        writers.extend(program.nests[at].buffers.iter().map(|b| (*b, at)));
    }
    Ok(())
}

/// Nests without loops come before all others that write nothing that they read. No other nest writes what they do, and none reads it before.
fn numbers_first(nests: &mut Vec<Nest>) {
    let (mut first, mut rest, mut written) = (Vec::new(), Vec::with_capacity(nests.len()), BTreeSet::new());
    for nest in nests.drain(..) {
        let is_number = nest.body.iter().all(|stmt| matches!(stmt, Stmt::Define(..) | Stmt::Store(..)));
        if is_number && !loads(&nest.body).into_iter().any(|place| written.contains(&place.buffer)) {
            first.push(nest);
        } else {
            written.extend(nest.buffers.iter().copied());
            rest.push(nest);
        }
    }
    first.append(&mut rest);
    *nests = first;
}

/// Reorders the loops of nests behind one too, as they would be behind it: those that read it may be what keeps it from another order. Whether
/// there are any, with what they were.
fn readers_too(
    program: &mut Program,
    mut writers: BTreeMap<BufferId, usize>,
    at: usize,
    replaced: &mut Vec<(usize, Nest)>,
) -> bool {
    let before = replaced.len();
    for k in at..program.nests.len() {
        if k > at
            && let Some(other) = wanted(program, &writers, k)
        {
            replaced.push((k, std::mem::replace(&mut program.nests[k], other)));
        }
        writers.extend(program.nests[k].buffers.iter().map(|b| (*b, k)));
    }
    replaced.len() > before
}

/// How much nests read that others have written, beside one row, once they are joined: [`fuse`] says which nests would join with the axes that
/// [`layout`] would choose.
fn traffic(program: &Program) -> u64 {
    let mut written: BTreeMap<BufferId, usize> = BTreeMap::new();
    let mut read: BTreeSet<(usize, BufferId)> = BTreeSet::new();
    let last = layout::best(program, &|_| false);
    for (nest, group) in program.nests.iter().zip(Groups::new(&program.nests, &last).of) {
        written.extend(nest.buffers.iter().map(|b| (*b, group)));
        read.extend(loads(&nest.body).into_iter().map(|place| (group, place.buffer)));
    }
    let others = read.iter().filter(|(group, b)| written.get(b).is_some_and(|writer| writer != group));
    total(others.filter_map(|(_, b)| program.buffers.get(*b)).map(|b| weight(b.rank())))
}

/// A nest with the loop outermost over which the nest runs that has written the largest tensor that it reads, where it is not so already.
fn wanted(program: &Program, writers: &BTreeMap<BufferId, usize>, at: usize) -> Option<Nest> {
    let Program { buffers, nests, .. } = program;
    let nest = nests.get(at)?;
    let own = chain(nest)?;
    let rank = |place: &Place| buffers.get(place.buffer).map_or(0, Buffer::rank);
    let read = loads(&nest.body).into_iter().filter_map(|place| Some((place, *writers.get(&place.buffer)?)));
    let read: Vec<(&Place, usize)> = read.collect();
    let largest = read.iter().map(|(place, _)| rank(place)).max()?;
    // The loop of this nest that is the outermost one of the nest that has written a tensor.
    let matching = |(place, writer): &(&Place, usize)| {
        let before = nests.get(*writer)?;
        let outer = fuse::parts(before)?;
        let own_axis = |at: &Place| at.at.iter().position(|a| a.as_index() == Some(outer.index));
        let axis = stores(&before.body).into_iter().filter(|at| at.buffer == place.buffer).find_map(own_axis)?;
        let index = place.at.get(axis)?.as_index()?;
        own.loops.iter().position(|(i, domain)| *i == index && *domain == outer.domain)
    };
    let wanted = read.iter().filter(|(place, _)| rank(place) == largest).find_map(matching)?;
    if wanted == 0 || walks_columns(nest, buffers, &own, wanted) { None } else { with_outermost(nest, wanted) }
}

/// Whether rows of all that lies in memory in a given order would be gone through column by column.
fn walks_columns(nest: &Nest, buffers: &Arena<BufferId, Buffer>, own: &Chain<'_>, outermost: usize) -> bool {
    let Some((index, _)) = own.loops.get(outermost) else { return false };
    let is_sum = own.innermost.iter().any(has_loop);
    let places = in_order(nest, buffers, own);
    !is_sum && !places.is_empty() && places.iter().all(|place| runs_along(place.at.last(), *index))
}

/// The places read or written at all indices, in what lies in memory in a given order.
fn in_order<'n>(nest: &'n Nest, buffers: &Arena<BufferId, Buffer>, own: &Chain<'_>) -> Vec<&'n Place> {
    let places = loads(&nest.body).into_iter().chain(stores(&nest.body));
    let is_given = |place: &Place| buffers.get(place.buffer).is_some_and(|b| b.kind != BufferKind::Workspace);
    let is_at_all = |place: &Place| own.loops.iter().all(|(i, _)| place.at.iter().any(|a| a.mentions(*i)));
    places.filter(|place| is_given(place) && is_at_all(place)).collect()
}

/// Whether neighbours along an axis are neighbours along a loop.
fn runs_along(axis: Option<&Affine>, index: IndexId) -> bool {
    axis.and_then(|a| a.split(index)).is_some_and(|(k, rest)| k == 1 && !rest.has_indices())
}

/// A nest that goes through columns of all that lies in memory in a given order, through rows.
fn by_rows(nest: &Nest, buffers: &Arena<BufferId, Buffer>) -> Option<Nest> {
    let own = chain(nest)?;
    let (_, outermost) = own.loops.first()?;
    if own.loops.len() < 2 || is_short(outermost) || !walks_columns(nest, buffers, &own, 0) {
        return None;
    }
    let places = in_order(nest, buffers, &own);
    let rows = own.loops.iter().position(|(i, _)| places.iter().all(|place| runs_along(place.at.first(), *i)))?;
    with_outermost(nest, rows)
}

/// Loops over ranges inside of each other, with nothing but numbers between them.
pub(super) struct Chain<'a> {
    pub loops: Vec<(IndexId, &'a Domain)>,
    /// The numbers between them.
    pub between: Vec<&'a Stmt>,
    /// What the innermost loop does.
    pub innermost: &'a [Stmt],
}

impl<'a> Chain<'a> {
    /// The loops around statements, which end these, down to a body that is the innermost one.
    pub(super) fn down_to(mut body: &'a [Stmt], is_innermost: impl Fn(&[Stmt]) -> bool) -> Option<Chain<'a>> {
        let (mut loops, mut between) = (Vec::new(), Vec::new());
        while !is_innermost(body) {
            let (Stmt::For { index, domain: domain @ Domain::Range { .. }, body: inner, .. }, before) =
                body.split_last()?
            else {
                return None;
            };
            if !before.iter().all(|stmt| matches!(stmt, Stmt::Define(..))) {
                return None;
            }
            between.extend(before);
            loops.push((*index, domain));
            body = inner;
        }
        Some(Chain { loops, between, innermost: body })
    }
}

/// The loops over the axes of the tensor that a nest stores, in the order of axes.
pub(super) fn chain(nest: &Nest) -> Option<Chain<'_>> {
    let chain = Chain::down_to(&nest.body, |body| body.iter().any(|stmt| stmt.store().is_some()))?;
    let order = chain.innermost.iter().find_map(Stmt::store)?.at.iter().map(Affine::as_index);
    order.eq(chain.loops.iter().map(|(i, _)| Some(*i))).then_some(chain)
}

/// Whether a statement computes a number or an index and does nothing else.
fn is_value(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Define(..) | Stmt::Let { .. } | Stmt::Find { .. } | Stmt::Extremum { .. })
}

/// The nest with a loop around the others; nothing where its bounds depend on these.
fn with_outermost(nest: &Nest, axis: usize) -> Option<Nest> {
    let Chain { mut loops, between, innermost } = chain(nest)?;
    let (index, domain) = (axis < loops.len()).then(|| loops.remove(axis))?;
    let mut depends = false;
    domain.visit_affine(&mut |a| depends |= loops.iter().any(|(i, _)| a.mentions(*i)));
    if depends {
        return None;
    }
    loops.insert(0, (index, domain));
    let loops = loops.into_iter().map(|(i, domain)| (i, domain.clone())).collect();
    let body = ordered(loops, between.into_iter().chain(innermost), &|_| false)?;
    let mut decisions = nest.decisions.clone();
    decisions.push(Decision::Interchanged {});
    Some(Nest { buffers: nest.buffers.clone(), decisions, body })
}

/// Loops, from the outermost one on, around statements. Each value is computed as far out as what it reads is known, but for those that mention a place that
/// stays inside.
pub(super) fn ordered<'a>(
    loops: Vec<(IndexId, Domain)>,
    stmts: impl Iterator<Item = &'a Stmt>,
    stays: &dyn Fn(&Affine) -> bool,
) -> Option<Vec<Stmt>> {
    // Inside of how many loops an index and a number are known.
    let depth = loops.len();
    let mut indices: BTreeMap<IndexId, usize> = loops.iter().zip(1..).map(|((i, _), level)| (*i, level)).collect();
    let mut reals: BTreeMap<RealId, usize> = BTreeMap::new();
    let mut levels: Vec<Vec<Stmt>> = vec![Vec::new(); depth + 1];
    for stmt in stmts {
        let mut level = if is_value(stmt) { 0 } else { depth };
        stmt.visit(&mut |inner| {
            inner.visit_reads(&mut |r| level = level.max(reals.get(&r).copied().unwrap_or(0)));
            inner.visit_affine(&mut |a| {
                if stays(a) {
                    level = depth;
                }
                a.visit(&mut |v| {
                    if let Var::Index(i) = v {
                        level = level.max(indices.get(i).copied().unwrap_or(0));
                    }
                });
            });
        });
        indices.extend(stmt.defines().map(|i| (i, level)));
        if let Stmt::Define(r, _) | Stmt::Local(r) = stmt {
            reals.insert(*r, level);
        }
        levels[level].push(stmt.clone());
    }
    let mut body = levels.pop()?;
    for ((index, domain), before) in loops.into_iter().zip(levels).rev() {
        let inner = std::mem::take(&mut body);
        body = before;
        body.push(Stmt::one_by_one(index, domain, inner));
    }
    Some(body)
}

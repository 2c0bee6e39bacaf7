//! Parameters whose neighbours are not those of the lanes are copied with their axes in another order.
//!
//! A parameter has the order of axes that its owner gave it. Where an innermost loop loads from places far apart, and the nest reads the whole
//! parameter more than once, a copy in which these are neighbours costs less than the loads it saves. A copy serves all nests, but for innermost loops
//! whose neighbours are those of the parameter.
//!
//! An intermediate tensor has the order of axes that suits its readers best. Where that is none, as a loop that has lanes reads it along two of its axes,
//! it is there in two orders: [`layout`](super::layout) asks for such [copies](intermediates) behind the nests that write them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::layout::{
    Axes, Last, Path, apart, lanes, move_last, paths, strided_inside, strided_together, total, weight,
};
use super::machine;
use super::machine::SHORT;
use super::unroll_outer::few;
use crate::base::{Arena, Id, IndexId};
use crate::error::{Error, Result};
use crate::loops::{Buffer, BufferId, BufferKind, Decision, Domain, Nest, Place, Program, Real, RealId, Stmt, loads};

/// How deep the loops must be that gain from a copy, and how much.
const DEPTH: usize = 2;
const GAIN: u64 = machine::INNERMOST / 2;
/// What it costs to copy a number, beside accesses to places far apart.
const COPIED: u64 = machine::FAR * machine::INNERMOST;

/// A copy of a parameter in which an axis is the last.
pub(super) struct Copy {
    pub param: BufferId,
    pub axis: usize,
    pub to: BufferId,
}

/// Copies parameters where that pays, in nests before all others.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { buffers, nests, .. } = program;
    let params: Vec<BufferId> = buffers
        .iter()
        .filter(|(_, b)| matches!(b.kind, BufferKind::Param(..)) && b.entries.is_none() && b.dims.len() >= 2)
        .map(|(id, _)| id)
        .collect();
    // How many axes of each grow.
    let size = |param: BufferId| buffers[param].dims.iter().filter(|n| n.as_constant().is_none()).count();
    let sizes: BTreeMap<BufferId, usize> = params.iter().map(|param| (*param, size(*param))).collect();
    let mut made = Vec::new();
    for param in params {
        let rank = buffers[param].dims.len();
        let mut axes = BTreeSet::new();
        for nest in nests.iter() {
            let paths: Vec<Path<'_>> =
                paths(nest).into_iter().filter(|path| reads_all_again(path, param, &buffers[param])).collect();
            let is_narrow =
                |other: &BufferId| buffers[*other].dims.iter().any(|n| n.as_constant().is_some_and(|n| n < SHORT));
            let smaller: Vec<BufferId> =
                sizes.keys().copied().filter(|other| sizes[other] < sizes[&param] && is_narrow(other)).collect();
            let by_others = |path: &Path<'_>| {
                let axes =
                    |other: &BufferId| (0..buffers[*other].dims.len()).map(|axis| (*other, axis)).collect::<Vec<_>>();
                smaller.iter().flat_map(axes).map(|(other, axis)| gain(path, other, axis)).max().unwrap_or(0)
            };
            let paths: Vec<(&Path<'_>, u64)> = paths.iter().map(|path| (path, by_others(path))).collect();
            let gain = |axis: usize| {
                let gains = paths.iter().map(|(path, others)| (gain(path, param, axis), *others));
                total(gains.filter(|(own, others)| *others < own.div_ceil(2)).map(|(own, _)| own))
            };
            let Some((most, Reverse(axis))) = (0..rank).map(|axis| (gain(axis), Reverse(axis))).max() else { continue };
            if most > GAIN * weight(DEPTH) && axes.insert(axis) {
                made.push(copied(param, axis, buffers)?);
            }
        }
    }
    nests.splice(0..0, made);
    serve(program);
    Ok(())
}

/// Copies intermediate tensors that have their order of axes, where nests read them in another one as well: behind the nests that write them.
pub(super) fn intermediates(program: &mut Program) -> Result<()> {
    let copies: Vec<BufferId> = copies(program).into_iter().map(|copy| copy.to).collect();
    let is_free =
        |id: &BufferId, b: &Buffer| b.kind == BufferKind::Workspace && b.entries.is_none() && !copies.contains(id);
    let free = program.buffers.iter().filter(|(id, b)| is_free(id, b) && b.dims.len() >= 2).map(|(id, _)| id);
    let last = Last::new();
    let own = Axes { last: &last, copy: None };
    for id in free.collect::<Vec<_>>() {
        let Some(writer) = program.nests.iter().rposition(|nest| nest.buffers.contains(&id)) else { continue };
        let rank = program.buffers[id].dims.len();
        let readers = program.nests[writer + 1..].iter().map(paths);
        let read_again =
            |paths: &Vec<Path<'_>>| paths.iter().any(|path| reads_all_again(path, id, &program.buffers[id]));
        let readers: Vec<Vec<Path<'_>>> = readers.filter(read_again).collect();
        let gain = |axis: usize| {
            let both = Axes { copy: Some((id, axis)), ..own };
            total(
                readers.iter().map(|paths| strided_together(paths, own).saturating_sub(strided_together(paths, both))),
            )
        };
        let best = (0..rank.saturating_sub(1)).map(|axis| (gain(axis), Reverse(axis))).max();
        // The copy reads places far apart, or writes there.
        let least = weight(rank).saturating_mul(2 * GAIN * COPIED);
        if let Some((_, Reverse(axis))) = best.filter(|(gain, _)| *gain > least) {
            let nest = copied(id, axis, &mut program.buffers)?;
            let to = nest.buffers[0];
            program.nests.insert(writer + 1, nest);
            for nest in &mut program.nests[writer + 2..] {
                let paths = paths(nest);
                let lanes = lanes(&paths, Axes { copy: Some((id, axis)), ..own });
                let innermost = |path: &Path<'_>| path.around.last().map(|l| l.index);
                let lanes = paths.iter().zip(lanes).filter_map(|(path, lanes)| Some((innermost(path)?, lanes?)));
                let lanes: BTreeMap<IndexId, IndexId> = lanes.collect();
                let moved = Last::from([(id, axis)]);
                let closer = |place: &Place, i: IndexId| {
                    apart(place, i, Axes { last: &moved, copy: None }) < apart(place, i, own)
                };
                let reads = |inside: Option<IndexId>, place: &Place| {
                    inside.and_then(|inside| lanes.get(&inside)).is_some_and(|i| closer(place, *i))
                };
                redirect(&mut nest.body, &Copy { param: id, axis, to }, None, &reads);
            }
        }
    }
    Ok(())
}

/// The copies that a program begins with.
pub(super) fn copies(program: &Program) -> Vec<Copy> {
    program.nests.iter().map_while(|nest| copy(nest, &program.buffers)).collect()
}

/// A nest as a copy of a parameter into a tensor that nobody sees from outside.
fn copy(nest: &Nest, buffers: &Arena<BufferId, Buffer>) -> Option<Copy> {
    let mut body = nest.body.as_slice();
    while let [Stmt::For { body: inner, .. }] = body {
        body = inner;
    }
    let [Stmt::Define(r, Real::Load(from)), Stmt::Store(to, value)] = body else { return None };
    let kind = |place: &Place| buffers.get(place.buffer).map(|buffer| buffer.kind);
    let is_copy = matches!(kind(from), Some(BufferKind::Param(..))) && kind(to) == Some(BufferKind::Workspace);
    let axis = from.at.iter().position(|a| Some(a) == to.at.last())?;
    let mut order = from.at.clone();
    move_last(&mut order, axis);
    (is_copy && r == value && order == to.at).then_some(Copy { param: from.buffer, axis, to: to.buffer })
}

/// How much less accesses to places far apart cost an innermost loop with a copy in which an axis is the last.
fn gain(path: &Path<'_>, param: BufferId, axis: usize) -> u64 {
    strided_inside(path, &Last::new()).saturating_sub(strided_inside(path, &Last::from([(param, axis)])))
}

/// Has innermost loops read copies where that is better, and all others of the nest that do not lose by it: they may be joined then. A copy that is
/// there anyway serves all.
pub(super) fn serve(program: &mut Program) {
    let made = copies(program);
    for nest in program.nests.iter_mut().skip(made.len()) {
        for param in made.iter().map(|copy| copy.param).collect::<BTreeSet<_>>() {
            let paths = paths(nest);
            let of_param = made.iter().filter(|copy| copy.param == param);
            let gains = of_param.map(|copy| (total(paths.iter().map(|path| gain(path, param, copy.axis))), copy));
            let gains = gains.filter(|(gain, _)| *gain > 0);
            let best = gains.max_by_key(|(gain, copy)| (*gain, Reverse((copy.axis, copy.to))));
            let Some((_, copy)) = best else { continue };
            let last = Last::from([(param, copy.axis)]);
            let loses = |path: &&Path<'_>| strided_inside(path, &Last::new()) < strided_inside(path, &last);
            let stays: BTreeSet<IndexId> =
                paths.iter().filter(loses).filter_map(|path| Some(path.around.last()?.index)).collect();
            let reads = |inside: Option<IndexId>, _: &Place| inside.is_none_or(|inside| !stays.contains(&inside));
            redirect(&mut nest.body, copy, None, &reads);
        }
    }
}

/// Whether an innermost loop reads a parameter at the indices of loops over its whole axes, or from one of their ends on, inside of a loop
/// over something else, of more than a few values. Of a literal axis that became statements it reads one place in each.
fn reads_all_again(Path { around, body, .. }: &Path<'_>, param: BufferId, buffer: &Buffer) -> bool {
    loads(*body).into_iter().filter(|place| place.buffer == param).any(|place| {
        let whole = place.at.iter().zip(&buffer.dims).all(|(a, n)| {
            if a.as_constant().is_some() && n.as_constant().is_some() {
                return true;
            }
            let l = a.as_index().and_then(|i| around.iter().find(|l| l.index == i));
            l.is_some_and(|l| Domain::whole(n).is_ok_and(|whole| from_an_end(&l.domain, &whole)))
        });
        whole && around.iter().any(|l| few(&l.domain).is_none() && !place.at.iter().any(|a| a.mentions(l.index)))
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
fn copied(from: BufferId, axis: usize, buffers: &mut Arena<BufferId, Buffer>) -> Result<Nest> {
    let Buffer { name, dims, .. } = buffers[from].clone();
    let mut order: Vec<usize> = (0..dims.len()).filter(|k| *k != axis).collect();
    order.push(axis);
    let moved = order.iter().map(|k| dims[*k].clone()).collect();
    let to = buffers.push(Buffer::workspace(format!("{name}_packed"), None, moved));
    let index = |k: &usize| IndexId::from_index(*k);
    let at = (0..dims.len()).map(|k| index(&k).into()).collect();
    let load = Stmt::Define(RealId(0), Real::Load(Place { buffer: from, at }));
    let store = Stmt::Store(Place { buffer: to, at: order.iter().map(|k| index(k).into()).collect() }, RealId(0));
    let mut body = vec![load, store];
    for k in order.iter().rev() {
        let domain = Domain::whole(&dims[*k]).map_err(|_| Error::bug("pack", "an axis that overflows"))?;
        body = vec![Stmt::one_by_one(index(k), domain, body)];
    }
    Ok(Nest { buffers: vec![to], decisions: vec![Decision::Packed { tensor: name }], body })
}

/// Has statements read a copy where `reads` says so of the loop that they are in and the place.
fn redirect(body: &mut [Stmt], copy: &Copy, inside: Option<IndexId>, reads: &dyn Fn(Option<IndexId>, &Place) -> bool) {
    for stmt in body {
        match stmt {
            Stmt::For { index, body, .. } => redirect(body, copy, Some(*index), reads),
            Stmt::If { body, .. } => redirect(body, copy, inside, reads),
            Stmt::Extremum { body, .. } => redirect(body, copy, None, reads),
            Stmt::Define(_, Real::Load(place)) if place.buffer == copy.param && reads(inside, place) => {
                place.buffer = copy.to;
                move_last(&mut place.at, copy.axis);
            }
            _ => {}
        }
    }
}

//! Nests that run over the same rows become one.
//!
//! `for i { A(i) } for i { B(i) }  ==  for i { A(i) B(i) }` where `B(i)` reads of what `A` writes only what `A(i)` writes: the row `i`, or
//! the entries below the node `i` of the same relation. What a row of `A` gathers, and what it writes, is then still at hand when `B` reads it.
//!
//! A nest moves up to an earlier one, past those in between, which neither write what it reads nor read what it writes (they are before
//! it). What runs in lanes goes on to do so: a loop over elements with functions is not put into one over rows. Nor is a matrix product,
//! whose rows are interleaved, put together with what cannot be, unless it reads some factor only once, which takes longer than what is gained;
//! nor one that is computed in panels with anything.

use std::collections::BTreeMap;

use super::panels;
use super::vectorise::{self, independent};
use crate::base::IndexId;
use crate::error::Result;
use crate::loops::{ArrayId, Domain, Names, Nest, Place, Program, Segment, Stmt, has_calls, has_loop, loads, stores};

/// Puts nests together, each with the first one that it can join.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let mut fused: Vec<Candidate> = Vec::with_capacity(program.nests.len());
    for nest in std::mem::take(&mut program.nests) {
        let candidate = Candidate::new(nest);
        match partner(&fused, &candidate) {
            Some(at) => fused[at] = Candidate::new(join(&fused[at].nest, &candidate.nest)?),
            None => fused.push(candidate),
        }
    }
    program.nests = fused.into_iter().map(|candidate| candidate.nest).collect();
    Ok(())
}

/// A nest, and whether it is a product in panels, which nothing joins.
struct Candidate {
    nest: Nest,
    panels: bool,
}

impl Candidate {
    fn new(nest: Nest) -> Candidate {
        Candidate { panels: panels::applies(&nest), nest }
    }
}

/// The parts of a nest: what comes before its only loop, the loop, and what is made of its sums.
pub(super) struct Parts<'a> {
    before: &'a [Stmt],
    pub index: IndexId,
    pub domain: &'a Domain,
    body: &'a [Stmt],
    after: &'a [Stmt],
}

/// Takes apart a nest with one loop, after numbers that all its iterations share.
pub(super) fn parts(nest: &Nest) -> Option<Parts<'_>> {
    let at = nest.body.iter().position(|stmt| matches!(stmt, Stmt::For { .. }))?;
    let (before, rest) = nest.body.split_at(at);
    let (Stmt::For { index, domain: domain @ Domain::Range { .. }, body, .. }, after) = rest.split_first()? else {
        return None;
    };
    let shared = before.iter().all(|stmt| matches!(stmt, Stmt::Define(..) | Stmt::Fill(_) | Stmt::Local(_)));
    (shared && !after.iter().any(has_loop)).then_some(Parts { before, index: *index, domain, body, after })
}

/// Whether what runs in lanes does so in one loop as well.
fn keeps_lanes(left: &Parts<'_>, right: &Parts<'_>, joined: &Nest) -> bool {
    let Some(both) = parts(joined) else { return false };
    let jam = |parts: &Parts<'_>| {
        vectorise::interleaves(parts.index, parts.body) && !reads_once(parts.body, &mut vec![parts.index])
    };
    if (jam(left) || jam(right)) && !jam(&both) {
        return false;
    }
    let independent = |parts: &Parts<'_>| independent(parts.index, parts.body);
    let loops = |parts: &Parts<'_>| parts.body.iter().any(has_loop);
    match (loops(left), loops(right)) {
        (true, true) => !(independent(left) || independent(right)) || independent(&both),
        (true, false) if independent(left) => independent(&both),
        (true, false) => !has_calls(right.body),
        (false, true) => false,
        (false, false) => true,
    }
}

/// Whether each innermost sum inside of loops over these indices reads some factor at all of them, so at each place once.
fn reads_once(body: &[Stmt], around: &mut Vec<IndexId>) -> bool {
    let sums = body.iter().any(|stmt| matches!(stmt, Stmt::Accumulate(..) | Stmt::MulAdd(..)));
    if sums && !body.iter().any(has_loop) {
        let at_all = |place: &Place| around.iter().all(|i| place.at.iter().any(|a| a.mentions(*i)));
        return body.iter().filter_map(Stmt::load).any(at_all);
    }
    body.iter().all(|stmt| match stmt {
        Stmt::For { index, body, .. } => {
            around.push(*index);
            let once = reads_once(body, around);
            around.pop();
            once
        }
        stmt => reads_once(stmt.body(), around),
    })
}

/// The nest that another one can join.
fn partner(fused: &[Candidate], Candidate { nest, panels }: &Candidate) -> Option<usize> {
    let right = parts(nest).filter(|_| !panels)?;
    let reads = |other: &Candidate| loads(&nest.body).iter().any(|place| other.nest.buffers.contains(&place.buffer));
    // It can move up to the last nest of which it reads something.
    let first = fused.iter().rposition(reads).unwrap_or(0);
    (first..fused.len()).find(|at| !fused[*at].panels && can_follow(&fused[*at].nest, &right, nest))
}

/// Whether the loops of two nests may be one, and what runs in lanes goes on to do so.
fn can_follow(other: &Nest, right: &Parts<'_>, nest: &Nest) -> bool {
    let Some(left) = parts(other) else { return false };
    left.domain == right.domain
        && reads_its_row(other, &left, right)
        && join(other, nest).is_ok_and(|joined| keeps_lanes(&left, right, &joined))
}

/// What of a place belongs to an iteration of the outer loop.
#[derive(PartialEq)]
enum Row {
    /// It is the outer index, at this axis.
    Own(usize),
    /// It is an entry below the outer index.
    Entry(ArrayId),
}

fn row(place: &Place, outer: IndexId, segments: &BTreeMap<IndexId, ArrayId>) -> Option<Row> {
    if let Some(axis) = place.at.iter().position(|a| a.as_index() == Some(outer)) {
        return Some(Row::Own(axis));
    }
    segments.get(&place.at.first()?.as_index()?).map(|pointers| Row::Entry(*pointers))
}

/// The loops over the nodes below the outer index.
fn segments(body: &[Stmt], outer: IndexId) -> BTreeMap<IndexId, ArrayId> {
    let mut segments = BTreeMap::new();
    for stmt in body {
        stmt.visit(&mut |stmt| {
            if let Stmt::For { index, domain: Domain::Segment(Segment { pointers, at }), .. } = stmt
                && at.as_index() == Some(outer)
            {
                segments.insert(*index, *pointers);
            }
        });
    }
    segments
}

/// Whether an iteration of the right loop reads of what the left nest writes only what its same iteration writes.
fn reads_its_row(nest: &Nest, left: &Parts<'_>, right: &Parts<'_>) -> bool {
    let once = loads(right.before).into_iter().chain(loads(right.after));
    if once.into_iter().any(|place| nest.buffers.contains(&place.buffer)) {
        return false;
    }
    let written = segments(left.body, left.index);
    let read = segments(right.body, right.index);
    let stores = stores(left.body.iter().chain(left.after));
    loads(right.body).into_iter().filter(|place| nest.buffers.contains(&place.buffer)).all(|place| {
        let wanted = row(place, right.index, &read);
        let same = |store: &&&Place| store.buffer == place.buffer;
        wanted.is_some() && stores.iter().filter(same).all(|store| row(store, left.index, &written) == wanted)
    })
}

/// `for i { A(i) B(i) }`, with fresh names in `B`.
fn join(left: &Nest, right: &Nest) -> Result<Nest> {
    let (Some(a), Some(b)) = (parts(left), parts(right)) else { return Ok(left.clone()) };
    let mut names = Names::after(&left.body);
    names.keep(b.index, a.index);
    let mut body = a.before.to_vec();
    body.extend(names.body(b.before)?);
    let mut inner = a.body.to_vec();
    inner.extend(names.body(b.body)?);
    body.push(Stmt::one_by_one(a.index, a.domain.clone(), inner));
    body.extend(a.after.iter().cloned());
    body.extend(names.body(b.after)?);
    let mut reasons = left.reasons.clone();
    reasons.push("the next is computed in the same loop, which has its operands at hand".to_owned());
    reasons.extend(right.reasons.iter().cloned());
    Ok(Nest { buffers: [left.buffers.as_slice(), &right.buffers].concat(), reasons, body })
}

//! In which order the loops over a stored tensor come.
//!
//! ```text
//! for a { for b { x[a, b] = e } }          for a { for b { x[a, b] = e }
//! for c { for a { y[c, a] = f(x[a, _]) } } ==      for c { y[c, a] = f(x[a, _]) } }
//! ```
//!
//! They come in the order of its axes, which says nothing of what they read. Where the nest that has written most of that runs over another
//! axis, that axis may be outermost here too, if nests then [join](super::fuse) such that less is read that another nest has written. Every
//! element is computed as before.

use std::collections::BTreeSet;

use super::fuse;
use super::layout::{total, weight};
use crate::base::{Arena, IndexId};
use crate::loops::{Buffer, BufferId, BufferKind, Domain, Nest, Place, Stmt, loads};

/// How much nests read that others have written, beside one row.
pub(super) fn traffic(nests: &[Nest], buffers: &Arena<BufferId, Buffer>) -> u64 {
    let read = |nest: &Nest| -> u64 {
        let read: BTreeSet<BufferId> = loads(&nest.body).into_iter().map(|place| place.buffer).collect();
        let others = read.iter().filter(|b| !nest.buffers.contains(b)).filter_map(|b| buffers.get(*b));
        total(others.filter(|b| !matches!(b.kind, BufferKind::Param(..))).map(|b| weight(b.rank())))
    };
    total(nests.iter().map(read))
}

/// The axis over which the nest runs that has written the largest tensor that this one reads, where it is not the first one already.
pub(super) fn wanted(nests: &[Nest], buffers: &Arena<BufferId, Buffer>, at: usize) -> Option<usize> {
    let (nest, earlier) = (nests.get(at)?, nests.get(..at)?);
    let own = loops_of(nest)?;
    let rank = |place: &Place| buffers.get(place.buffer).map_or(0, Buffer::rank);
    let writer = |place: &Place| earlier.iter().find(|nest| nest.buffers.contains(&place.buffer));
    let (place, nest) = loads(&nest.body)
        .into_iter()
        .filter_map(|place| Some((place, writer(place)?)))
        .max_by_key(|(place, _)| rank(place))?;
    let (written, outer) = (loops_of(nest)?, fuse::parts(nest)?);
    let axis = written.iter().position(|(i, _)| *i == outer.index)?;
    let index = place.at.get(axis)?.as_index()?;
    let wanted = own.iter().position(|(i, domain)| *i == index && *domain == outer.domain)?;
    (wanted > 0).then_some(wanted)
}

/// The loops over the axes of a tensor, in the order of axes, where nothing but numbers is between them.
fn loops_of(nest: &Nest) -> Option<Vec<(IndexId, &Domain)>> {
    let (mut body, mut around) = (nest.body.as_slice(), Vec::new());
    loop {
        let place = body.iter().find_map(Stmt::store);
        if let Some(place) = place {
            let order = place.at.iter().map(|a| a.as_index());
            return order.eq(around.iter().map(|(i, _)| Some(*i))).then_some(around);
        }
        let (Stmt::For { index, domain: domain @ Domain::Range { .. }, body: inner, .. }, before) =
            body.split_last()?
        else {
            return None;
        };
        if !before.iter().all(|stmt| matches!(stmt, Stmt::Define(..))) {
            return None;
        }
        around.push((*index, domain));
        body = inner;
    }
}

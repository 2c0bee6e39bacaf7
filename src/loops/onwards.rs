//! Searches that may go on where the last one ended.
//!
//! In a loop, the keys of a search that increase from one iteration to the next, in a segment that stays the same, are found by going through
//! the segment once beside the loop: so two sparse rows meet like two sorted lists that are merged.
//!
//! A key increases where its one changing part does, with a positive coefficient: the loop index, or the coordinate of the node that the loop
//! is at, since the nodes of a segment have increasing coordinates.

use std::collections::BTreeSet;

use super::{Array, ArrayId, Domain, Part, Segment, Stmt};
use crate::base::{Arena, IndexId};
use crate::index::{Affine, Var};

/// The indices that searches in the body of a loop define, of those that may go on: in order, tests around them or not, in no further loop.
pub fn searches_onwards(
    arrays: &Arena<ArrayId, Array>,
    index: IndexId,
    domain: &Domain,
    body: &[Stmt],
) -> BTreeSet<IndexId> {
    let mut changing = BTreeSet::from([index]);
    body.iter().for_each(|stmt| stmt.visit(&mut |stmt| changing.extend(stmt.defines())));
    let mut increasing = BTreeSet::from([index]);
    let mut found = BTreeSet::new();
    let mut rest: Vec<&Stmt> = body.iter().rev().collect();
    while let Some(stmt) = rest.pop() {
        match stmt {
            Stmt::Let { index: coordinate, array, at } if at.as_index() == Some(index) => {
                if let Domain::Segment(segment) = domain.whole_of()
                    && are_coordinates(arrays, segment, *array)
                {
                    increasing.insert(*coordinate);
                }
            }
            Stmt::Find { index, segment, key: Some((_, key)), .. } => {
                let stays = !mentions(&segment.at, &changing);
                let moving: Vec<_> = indices(key).filter(|(i, _)| changing.contains(i)).collect();
                if let (true, [(i, 1..)]) = (stays, moving.as_slice())
                    && increasing.contains(i)
                {
                    found.insert(*index);
                }
            }
            Stmt::If { body, .. } => rest.extend(body.iter().rev()),
            _ => {}
        }
    }
    found
}

fn indices(a: &Affine) -> impl Iterator<Item = (IndexId, i64)> + '_ {
    a.terms().iter().filter_map(|(v, k)| if let Var::Index(i) = v { Some((*i, *k)) } else { None })
}

fn mentions(a: &Affine, changing: &BTreeSet<IndexId>) -> bool {
    indices(a).any(|(i, _)| changing.contains(&i))
}

/// Whether an array holds the coordinates of the nodes that the segments of pointers are made of.
fn are_coordinates(arrays: &Arena<ArrayId, Array>, segment: &Segment, nodes: ArrayId) -> bool {
    let (Some(pointers), Some(nodes)) = (arrays.get(segment.pointers), arrays.get(nodes)) else { return false };
    pointers.relation == nodes.relation
        && pointers.axes == nodes.axes
        && pointers.level_below().is_some_and(|level| nodes.part == Part::Nodes(level))
}

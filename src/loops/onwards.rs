//! Searches that may go on where the last one ended.
//!
//! In a loop, the keys of a search that increase from one iteration to the next, in a segment that stays the same, are found by going through
//! the segment once beside the loop: so two sparse rows meet like two sorted lists that are merged.
//!
//! A key increases where its one changing part does, with a positive coefficient: the loop index, or the coordinate of the node that the loop
//! is at, since the nodes of a segment have increasing coordinates.

use std::collections::BTreeSet;

use super::{Array, ArrayId, Domain, Part, Segment, Stmt, defined, outside_loops};
use crate::base::{Arena, IndexId};
use crate::index::{Affine, Var};

/// The indices that searches in a loop define, of those that may go on: in order, in tests or not, in no further loop. None where the
/// loop takes several values at a time.
pub fn searches_onwards(arrays: &Arena<ArrayId, Array>, stmt: &Stmt) -> BTreeSet<IndexId> {
    let mut found = BTreeSet::new();
    let Stmt::For { index, domain, lanes: 1, jam: 1, parallel: _, body } = stmt else { return found };
    let mut changing = defined(body);
    changing.insert(*index);
    let mut increasing = BTreeSet::from([*index]);
    for stmt in outside_loops(body) {
        match stmt {
            Stmt::Let { index: coordinate, array, at, step: _ } if at.as_index() == Some(*index) => {
                if let Domain::Segment(segment) = domain.whole_of()
                    && are_coordinates(arrays, segment, *array)
                {
                    increasing.insert(*coordinate);
                }
            }
            Stmt::Find { index, segment, key: Some((_, key)), .. } => {
                let changing = |a: &Affine| -> Vec<IndexId> {
                    let index = |(v, _): &(Var, i64)| match v {
                        Var::Index(i) => Some(*i).filter(|i| changing.contains(i)),
                        Var::Size(_) | Var::Apply(_) => None,
                    };
                    a.terms().iter().filter_map(index).collect()
                };
                if let (true, [i]) = (changing(&segment.at).is_empty(), changing(key).as_slice())
                    && increasing.contains(i)
                    && key.coefficient(&Var::Index(*i)) > 0
                {
                    found.insert(*index);
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether an array holds the coordinates of the nodes that the segments of pointers are made of.
fn are_coordinates(arrays: &Arena<ArrayId, Array>, segment: &Segment, nodes: ArrayId) -> bool {
    let (Some(pointers), Some(nodes)) = (arrays.get(segment.pointers), arrays.get(nodes)) else { return false };
    pointers.relation == nodes.relation
        && pointers.axes == nodes.axes
        && pointers.level_below().is_some_and(|level| nodes.part == Part::Nodes(level))
}

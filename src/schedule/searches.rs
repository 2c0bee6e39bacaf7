//! Where searches are made, and how.
//!
//! A search that a loop does not change is made before it; of what it finds, the tests stay where they are. A search finds nothing at a place
//! that is none, so it may be made anywhere.
//!
//! A search for what the coordinates of a tuple tell, in loops that visit the tuples of a view, is made once for each tuple, when relations are bound:
//!
//! ```text
//! for p in rows M(0, 1) at i                                for p in rows M(0, 1) at i
//!   j = nodes 1 M(0, 1)[p]                                    j = nodes 1 M(0, 1)[p]
//!   q = find i + 1 in rows M(1, 0) at j of nodes M(1, 0)  ==  q = neighbours (1, 0 + 1) in M(1, 0) of M(0, 1)[p] - 1
//! ```
//!
//! It takes 32 bits for each tuple, as much as its coordinates. A search that depends on the row alone is not found so: it is made for each row.
//!
//! Then all other searches go on that [may](searches_onwards), in loops that take one value at a time.

use std::collections::BTreeSet;

use crate::base::{Arena, IndexId, RelationId};
use crate::error::Result;
use crate::index::Affine;
use crate::loops::{
    Array, ArrayId, Coordinate, Decision, Domain, Neighbours, Part, Program, Search, Segment, Stmt, defined,
    searches_onwards,
};

/// Places searches.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { arrays, nests, signature, .. } = program;
    for nest in nests {
        hoist(&mut nest.body);
        let mut binder = Binder { arrays, walks: Vec::new(), bound: BTreeSet::new() };
        binder.body(&mut nest.body);
        let name = |r: RelationId| signature.relations.get(r).map_or_else(|| r.to_string(), |r| r.name.clone());
        for (sought, walked) in binder.bound {
            nest.decisions.push(Decision::Neighbours { relation: name(sought), walked: name(walked) });
        }
        mark(arrays, &mut nest.body, &BTreeSet::new());
    }
    Ok(())
}

/// A loop over nodes of a view.
struct Walk {
    node: IndexId,
    relation: RelationId,
    axes: Vec<usize>,
    level: u8,
    /// The coordinates of the axes above, the most significant first.
    above: Vec<Affine>,
    /// The coordinate of the node.
    own: Option<Affine>,
}

/// Finds searches that are made when relations are bound.
struct Binder<'a> {
    arrays: &'a mut Arena<ArrayId, Array>,
    /// The loops over nodes around, outermost first.
    walks: Vec<Walk>,
    /// What was sought, and the relations whose tuples were at hand.
    bound: BTreeSet<(RelationId, RelationId)>,
}

impl Binder<'_> {
    fn body(&mut self, body: &mut [Stmt]) {
        let depth = self.walks.len();
        for stmt in body {
            match stmt {
                Stmt::For { index, domain, lanes, body, .. } => {
                    let walk = match domain.whole_of() {
                        Domain::Segment(segment) if *lanes == 1 => self.walk(*index, segment),
                        _ => None,
                    };
                    self.walks.extend(walk);
                    self.body(body);
                    self.walks.truncate(depth);
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.body(body),
                Stmt::Let { index, array, at, .. } => {
                    let Some(array) = self.arrays.get(*array) else { continue };
                    let walk = self.walks.iter_mut().find(|walk| at.as_index() == Some(walk.node));
                    if let Some(walk) = walk
                        && (walk.relation, &walk.axes) == (array.relation, &array.axes)
                        && array.part == Part::Nodes(walk.level)
                    {
                        walk.own = Some((*index).into());
                    }
                }
                Stmt::Find { segment, key, how, .. } => {
                    let found = self.walks.iter().rev().find_map(|walk| {
                        let neighbours = neighbours(self.arrays, walk, segment, key.as_ref())?;
                        Some((walk.relation, walk.axes.clone(), neighbours, walk.node))
                    });
                    if let Some((relation, axes, neighbours, node)) = found {
                        self.bound.insert((neighbours.relation, relation));
                        let array = Array { relation, axes, part: Part::Neighbours(neighbours) };
                        *how = Search::Bound(self.arrays.find_or_push(array), node.into());
                    }
                }
                _ => {}
            }
        }
    }

    /// A loop over a segment as one over nodes whose coordinates above are known.
    fn walk(&self, node: IndexId, segment: &Segment) -> Option<Walk> {
        let pointers = self.arrays.get(segment.pointers)?;
        let level = pointers.level_below()?;
        let above = match pointers.part {
            Part::Roots => Vec::new(),
            Part::Rows if level == 1 => vec![segment.at.clone()],
            Part::Children(_) => {
                let parent = self.walks.iter().find(|walk| segment.at.as_index() == Some(walk.node))?;
                parent.above.iter().chain([parent.own.as_ref()?]).cloned().collect()
            }
            _ => return None,
        };
        Some(Walk { node, relation: pointers.relation, axes: pointers.axes.clone(), level, above, own: None })
    }
}

/// What a search looks for as the neighbour of the tuple that a loop is at, where its coordinates tell it.
fn neighbours(
    arrays: &Arena<ArrayId, Array>,
    walk: &Walk,
    segment: &Segment,
    key: Option<&(ArrayId, Affine)>,
) -> Option<Neighbours> {
    let pointers = arrays.get(segment.pointers)?;
    let is_tuple = usize::from(walk.level) + 1 == walk.axes.len();
    let last_axis = *walk.axes.last()?;
    let of_view = |nodes: &Array| nodes.relation == pointers.relation && nodes.axes == pointers.axes;
    let nodes_fit = match key {
        None => pointers.axes.len() == 1,
        Some((nodes, _)) => {
            let nodes = arrays.get(*nodes)?;
            pointers.axes.len() == 2 && of_view(nodes) && nodes.part == Part::Nodes(1)
        }
    };
    if !is_tuple || pointers.part != Part::Rows || !nodes_fit {
        return None;
    }
    let coordinates = walk.above.iter().chain(&walk.own).zip(&walk.axes);
    let coordinate = |a: &Affine| {
        coordinates.clone().find_map(|(own, axis)| {
            let shift = a.sub(own).ok()?.as_constant()?;
            Some(Coordinate { axis: *axis, shift })
        })
    };
    let first = coordinate(&segment.at)?;
    let second = match key {
        Some((_, key)) => Some(coordinate(key)?),
        None => None,
    };
    let neighbours = Neighbours { relation: pointers.relation, swapped: pointers.axes == [1, 0], first, second };
    let by_tuple = neighbours.coordinates().any(|coordinate| coordinate.axis == last_axis);
    by_tuple.then_some(neighbours)
}

/// `for i. (k = find ..; e)  ==  k = find ..; for i. e`, where the search mentions nothing that the loop defines.
fn hoist(body: &mut Vec<Stmt>) {
    for mut stmt in std::mem::take(body) {
        match &mut stmt {
            Stmt::For { index, parallel, body: inner, .. } => {
                hoist(inner);
                if !*parallel {
                    let mut changing = defined(&*inner);
                    changing.insert(*index);
                    for one in std::mem::take(inner) {
                        let stays = match &one {
                            Stmt::Find { segment, key, .. } => {
                                let mut read = std::iter::once(&segment.at).chain(key.iter().map(|(_, key)| key));
                                read.any(|a| changing.iter().any(|i| a.mentions(*i)))
                            }
                            _ => true,
                        };
                        if stays {
                            inner.push(one);
                        } else {
                            if let Stmt::Find { index, .. } = &one {
                                changing.remove(index);
                            }
                            body.push(one);
                        }
                    }
                }
            }
            Stmt::If { body: inner, .. } | Stmt::Extremum { body: inner, .. } => hoist(inner),
            _ => {}
        }
        body.push(stmt);
    }
}

/// `mark(for i. body)` with the searches of `body` that may go on over `i`.
fn mark(arrays: &Arena<ArrayId, Array>, body: &mut [Stmt], here: &BTreeSet<IndexId>) {
    for stmt in body {
        let found = searches_onwards(arrays, stmt);
        match stmt {
            Stmt::For { body: inner, .. } | Stmt::Extremum { body: inner, .. } => mark(arrays, inner, &found),
            Stmt::If { body: inner, .. } => mark(arrays, inner, here),
            Stmt::Find { index, how: how @ (Search::Halving | Search::Onwards), .. } => {
                *how = if here.contains(index) { Search::Onwards } else { Search::Halving };
            }
            _ => {}
        }
    }
}

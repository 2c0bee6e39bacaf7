//! The arrays that loop nests read relations through, built once from bound data.
//!
//! A view is the tuples of a relation in a sort order, as a tree: a node of level `k` is a run of tuples that agree on the first `k + 1`
//! axes of the order. All numbers are kept in 32 bits, which halves what a sparse loop reads.

use std::collections::BTreeMap;

use crate::base::RelationId;
use crate::error::{Error, Result};
use crate::loops::{Array, Binned, Coordinate, Neighbours, Part, Program};
use crate::tensor::{Bindings, Relation};

/// The arrays of a program, by id; those that are known already are taken.
pub(super) fn arrays(
    program: &Program,
    bindings: &Bindings,
    mut made: BTreeMap<Array, Vec<u32>>,
) -> Result<Vec<Vec<u32>>> {
    let mut views = Views { program, bindings, made: Vec::new() };
    let mut arrays = Vec::with_capacity(program.arrays.len());
    for array in program.arrays.values() {
        if let Some(made) = made.remove(array) {
            arrays.push(made);
            continue;
        }
        let at = views.place(array.relation, &array.axes)?;
        let found = match array.part {
            Part::Neighbours(neighbours) => {
                let sought = views.place(neighbours.relation, &neighbours.axes())?;
                views.get(at)?.neighbours(&neighbours, views.get(sought)?)?
            }
            Part::Projected(projected) => {
                let projection = program.signature.projection(projected);
                let (_, axes) = projection.ok_or_else(|| Error::bug("bind", "a projection of nothing"))?;
                let tuples = bindings.relations().get(projected);
                let tuples = tuples.ok_or_else(|| Error::bug("bind", "a relation without tuples"))?;
                views.get(at)?.projected(&axes, tuples)?
            }
            part => views.get(at)?.part(part)?,
        };
        arrays.push(found);
    }
    Ok(arrays)
}

/// The views that were made so far.
struct Views<'a> {
    program: &'a Program,
    bindings: &'a Bindings,
    made: Vec<(RelationId, Vec<usize>, View<'a>)>,
}

impl<'a> Views<'a> {
    /// The number of a view, which is made unless it is there.
    fn place(&mut self, relation: RelationId, axes: &[usize]) -> Result<usize> {
        if let Some(at) = self.made.iter().position(|(r, known, _)| *r == relation && known == axes) {
            return Ok(at);
        }
        let tuples = self.bindings.relations().get(relation);
        let tuples = tuples.ok_or_else(|| Error::bug("bind", "a relation without tuples"))?;
        let same = |a: &Array| a.relation == relation && a.axes == axes;
        let is_binned = self.program.arrays.values().any(|a| same(a) && matches!(a.part, Part::Binned(_)));
        let size = self.program.bins.size_for(tuples.len()).filter(|_| is_binned);
        let stored = self.program.signature.stored_order(relation);
        self.made.push((relation, axes.to_vec(), View::new(tuples, &stored, axes, size)?));
        Ok(self.made.len() - 1)
    }

    fn get(&self, at: usize) -> Result<&View<'a>> {
        let view = self.made.get(at).map(|(_, _, view)| view);
        view.ok_or_else(|| Error::bug("bind", "a view is missing"))
    }
}

/// The tuples of a relation in a sort order.
struct View<'a> {
    relation: &'a Relation,
    /// The place of each tuple in the lexicographic order.
    order: List,
    /// The number of the entry at each tuple.
    entries: List,
    levels: Vec<Level>,
    /// The length of the first axis.
    rows: usize,
    /// The tuples of the view in bins, by their places in the view; nothing where there are no bins.
    bins: Option<Vec<usize>>,
}

/// The nodes of a level.
struct Level {
    /// The tuples at which the nodes start.
    starts: List,
    /// The coordinates of the nodes.
    nodes: Vec<u32>,
}

/// Increasing numbers in a row are not stored.
enum List {
    /// `0, 1, ..` up to a length.
    Counting(usize),
    Stored(Vec<usize>),
}

impl List {
    fn len(&self) -> usize {
        match self {
            List::Counting(len) => *len,
            List::Stored(list) => list.len(),
        }
    }

    /// The number at a place, 0 outside.
    fn at(&self, place: usize) -> usize {
        match self {
            List::Counting(_) => place,
            List::Stored(list) => list.get(place).copied().unwrap_or(0),
        }
    }

    /// `f` of each number.
    fn map<T>(&self, f: impl FnMut(usize) -> T) -> Vec<T> {
        match self {
            List::Counting(len) => (0..*len).map(f).collect(),
            List::Stored(list) => list.iter().copied().map(f).collect(),
        }
    }

    fn try_map<T>(&self, mut f: impl FnMut(usize) -> Result<T>) -> Result<Vec<T>> {
        // Fallible iterators do not know their length.
        let mut all = Vec::with_capacity(self.len());
        match self {
            List::Counting(len) => (0..*len).try_for_each(|x| f(x).map(|y| all.push(y)))?,
            List::Stored(list) => list.iter().try_for_each(|x| f(*x).map(|y| all.push(y)))?,
        }
        Ok(all)
    }
}

fn narrow(x: usize) -> Result<u32> {
    let limit = u64::from(u32::MAX);
    u32::try_from(x).map_err(|_| Error::Limit { what: "entries or coordinates of a relation", limit, found: x as u64 })
}

impl<'a> View<'a> {
    /// Of a relation whose entries are numbered by the axes `stored`. With bins of so many tuples, or without bins.
    fn new(relation: &'a Relation, stored: &[usize], axes: &[usize], size: Option<usize>) -> Result<View<'a>> {
        let len = relation.len();
        narrow(len.saturating_add(1))?;
        let in_order = |axes: &[usize]| match axes.is_sorted() {
            true => List::Counting(len),
            false => List::Stored(relation.sort_by(axes)),
        };
        let order = in_order(axes);
        let entries = match &order {
            _ if axes == stored => List::Counting(len),
            List::Counting(len) if stored.is_sorted() => List::Counting(*len),
            List::Stored(order) if stored.is_sorted() => List::Stored(order.clone()),
            order => {
                let mut numbers = vec![0; len];
                for (number, tuple) in relation.sort_by(stored).into_iter().enumerate() {
                    if let Some(slot) = numbers.get_mut(tuple) {
                        *slot = number;
                    }
                }
                List::Stored(order.map(|tuple| numbers.get(tuple).copied().unwrap_or(0)))
            }
        };
        let levels = levels(relation, &order, axes)?;
        let rows = axes.first().and_then(|axis| relation.shape().get(*axis)).copied().unwrap_or(0);
        let bins = size.map(|size| in_bins(&entries, size));
        Ok(View { relation, order, entries, levels, rows, bins })
    }

    fn level(&self, level: usize) -> Result<&Level> {
        self.levels.get(level).ok_or_else(|| Error::bug("bind", "a level that the view does not have"))
    }

    fn nodes(&self, level: usize) -> Result<&[u32]> {
        Ok(&self.level(level)?.nodes)
    }

    /// Where the nodes of the next level start below each node, and where the last ones end.
    fn children(&self, level: usize) -> Result<Vec<u32>> {
        let (starts, below) = (&self.level(level)?.starts, &self.level(level + 1)?.starts);
        let mut child = 0;
        let first = |start: usize| match below {
            List::Counting(_) => narrow(start),
            // Each node starts where its first child does, so both lists go up together.
            List::Stored(below) => {
                while below.get(child).is_some_and(|at| *at < start) {
                    child += 1;
                }
                narrow(child)
            }
        };
        let mut children = starts.try_map(first)?;
        children.push(narrow(below.len())?);
        Ok(children)
    }

    fn binned(&self, part: Binned) -> Result<Vec<u32>> {
        let bins = self.bins.as_deref().unwrap_or_default();
        match part {
            Binned::All => Ok(vec![0, narrow(bins.len())?]),
            Binned::Entries => bins.iter().map(|place| narrow(self.entries.at(*place))).collect(),
            Binned::Axis(axis) => {
                let coordinates = self.relation.column(axis);
                let coordinate = |place: &usize| coordinates.get(self.order.at(*place)).copied().unwrap_or(0);
                bins.iter().map(|place| narrow(coordinate(place))).collect()
            }
            Binned::Places => {
                let mut places = vec![0; bins.len()];
                for (at, place) in bins.iter().enumerate() {
                    if let Some(slot) = places.get_mut(*place) {
                        *slot = narrow(at)?;
                    }
                }
                Ok(places)
            }
        }
    }

    /// For each tuple 1 more than the place of its neighbour in another view, 0 where it has none.
    ///
    /// Neighbours of tuples one after the other mostly are so, too: the place after the last one is looked at before a search.
    fn neighbours(&self, neighbours: &Neighbours, sought: &View<'_>) -> Result<Vec<u32>> {
        let rows = sought.part(Part::Rows)?;
        let last = sought.nodes(neighbours.axes().len() - 1)?;
        let coordinate = |entry: usize, Coordinate { axis, shift }: Coordinate| -> Option<u32> {
            let own = i64::try_from(*self.relation.column(axis).get(entry)?).ok()?;
            u32::try_from(own.checked_add(shift)?).ok()
        };
        let mut next = 0;
        let mut place_of = |entry: usize| -> Option<usize> {
            let row = coordinate(entry, neighbours.first)? as usize;
            let (from, to) = (*rows.get(row)? as usize, *rows.get(row.checked_add(1)?)? as usize);
            let found = match neighbours.second {
                None => (from < to).then_some(from)?,
                Some(second) => {
                    let key = coordinate(entry, second)?;
                    match (from..to).contains(&next) && last.get(next) == Some(&key) {
                        true => next,
                        false => from + last.get(from..to)?.binary_search(&key).ok()?,
                    }
                }
            };
            next = found + 1;
            Some(found)
        };
        self.order.try_map(|entry| place_of(entry).map_or(Ok(0), |place| narrow(place + 1)))
    }

    /// For each tuple the place of its projection on some axes among those of all tuples. It is that of the tuple before, or the next one, mostly.
    fn projected(&self, axes: &[usize], on_axes: &Relation) -> Result<Vec<u32>> {
        let columns: Vec<&[usize]> = axes.iter().map(|axis| self.relation.column(*axis)).collect();
        let mut last = 0;
        let mut place_of = |entry: usize| -> Option<usize> {
            let is_at = |place: usize| {
                columns.iter().enumerate().all(|(k, own)| own.get(entry) == on_axes.column(k).get(place))
            };
            if !is_at(last) {
                let tuple =
                    || columns.iter().map(|own| i64::try_from(*own.get(entry)?).ok()).collect::<Option<Vec<_>>>();
                last = if is_at(last + 1) { last + 1 } else { on_axes.position(&tuple()?)? };
            }
            Some(last)
        };
        self.order
            .try_map(|entry| narrow(place_of(entry).ok_or_else(|| Error::bug("bind", "a tuple without a projection"))?))
    }

    fn part(&self, part: Part) -> Result<Vec<u32>> {
        match part {
            Part::Roots => Ok(vec![0, narrow(self.nodes(0)?.len())?]),
            Part::Nodes(level) => Ok(self.nodes(usize::from(level))?.to_vec()),
            Part::Children(level) => self.children(usize::from(level)),
            Part::Entries => self.entries.try_map(narrow),
            Part::Binned(part) => self.binned(part),
            Part::Starts => Err(Error::bug("bind", "where rows start in a matrix is not given")),
            Part::Projected(_) => Err(Error::bug("bind", "a projection is that of two relations")),
            Part::Neighbours(_) => Err(Error::bug("bind", "neighbours are those of two views")),
            Part::Rows => {
                let below = match self.levels.len() {
                    1 => (0..=self.nodes(0)?.len()).map(narrow).collect::<Result<Vec<u32>>>()?,
                    _ => self.children(0)?,
                };
                let mut rows: Vec<u32> = Vec::new();
                let count = narrow(self.rows)? as usize + 1;
                let room = rows.try_reserve_exact(count);
                room.map_err(|_| Error::Memory { what: "rows of a relation", wanted: count as u64 })?;
                // Each node starts its row and all empty ones before it.
                for (node, row) in self.nodes(0)?.iter().enumerate() {
                    rows.resize(rows.len().max(*row as usize + 1), below.get(node).copied().unwrap_or(0));
                }
                rows.resize(count, below.last().copied().unwrap_or(0));
                Ok(rows)
            }
        }
    }
}

/// The levels of the tuples in an order that compares `axes`.
fn levels(relation: &Relation, order: &List, axes: &[usize]) -> Result<Vec<Level>> {
    let mut levels: Vec<Level> = Vec::with_capacity(axes.len());
    for (number, axis) in axes.iter().enumerate() {
        let column = relation.column(*axis);
        let coordinates = order.try_map(|tuple| narrow(column.get(tuple).copied().unwrap_or(0)))?;
        // No two tuples agree on all axes.
        if number + 1 == relation.rank() {
            levels.push(Level { starts: List::Counting(coordinates.len()), nodes: coordinates });
            continue;
        }
        // A node starts where one of the level above does, and where the coordinate is another one.
        let above = levels.last().map(|level| &level.starts);
        let (mut starts, mut nodes) = (Vec::new(), Vec::new());
        let (mut next, mut before) = (0, None);
        for (at, coordinate) in coordinates.into_iter().enumerate() {
            let is_below = above.is_some_and(|above| next < above.len() && above.at(next) == at);
            next += usize::from(is_below);
            if is_below || before != Some(coordinate) {
                starts.push(at);
                nodes.push(coordinate);
            }
            before = Some(coordinate);
        }
        levels.push(Level { starts: List::Stored(starts), nodes });
    }
    Ok(levels)
}

/// The places of a view, whose entries have these numbers, in bins of so many entries, in each of them as the view has them.
fn in_bins(entries: &List, size: usize) -> Vec<usize> {
    // Where each bin goes on; all but the last are full.
    let mut next: Vec<usize> = (0..entries.len()).step_by(size).collect();
    let mut places = vec![0; entries.len()];
    for place in 0..entries.len() {
        if let Some(next) = next.get_mut(entries.at(place) / size) {
            if let Some(slot) = places.get_mut(*next) {
                *slot = place;
            }
            *next += 1;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::Bins;

    /// By definition: prefixes of the sorted tuples.
    #[test]
    fn views_are_the_prefixes_of_sorted_tuples() {
        let mut rng = fastrand::Rng::with_seed(3);
        for case in 0..300 {
            let rank = rng.usize(1..=3);
            let shape: Vec<usize> = (0..rank).map(|_| rng.usize(0..5)).collect();
            let volume: usize = shape.iter().product();
            let tuple = |mut k: usize| {
                let mut tuple = vec![0; rank];
                for (axis, n) in shape.iter().enumerate().rev() {
                    tuple[axis] = k % n;
                    k /= n;
                }
                tuple
            };
            let tuples: Vec<Vec<usize>> = (0..volume).filter(|_| rng.bool()).map(tuple).collect();
            let relation = Relation::from_tuples(&shape, &tuples).unwrap();
            let mut axes: Vec<usize> = (0..rank).collect();
            rng.shuffle(&mut axes);
            let mut stored: Vec<usize> = (0..rank).collect();
            if rng.bool() {
                rng.shuffle(&mut stored);
            }
            let bins = Bins { least: rng.usize(0..4), size: rng.usize(1..5) };
            let size = bins.size_for(relation.len());
            let view = View::new(&relation, &stored, &axes, size).unwrap();
            let by = |axes: &[usize], t: &Vec<usize>| axes.iter().map(|axis| t[*axis]).collect::<Vec<usize>>();
            let mut numbered = tuples.clone();
            numbered.sort_by_key(|t| by(&stored, t));
            let number = |t: &Vec<usize>| numbered.iter().position(|other| other == t).unwrap();
            let mut sorted: Vec<(Vec<usize>, usize)> = tuples.iter().map(|t| (by(&axes, t), number(t))).collect();
            sorted.sort();
            let entries: Vec<u32> = sorted.iter().map(|(_, entry)| *entry as u32).collect();
            assert_eq!(view.part(Part::Entries).unwrap(), entries, "case {case}");
            for level in 0..rank {
                let mut prefixes: Vec<Vec<usize>> = sorted.iter().map(|(t, _)| t[..=level].to_vec()).collect();
                prefixes.dedup();
                let nodes: Vec<u32> = prefixes.iter().map(|p| p[level] as u32).collect();
                assert_eq!(view.part(Part::Nodes(level as u8)).unwrap(), nodes, "case {case}");
                if level == 0 {
                    assert_eq!(view.part(Part::Roots).unwrap(), [0, nodes.len() as u32]);
                    let rows = view.part(Part::Rows).unwrap();
                    let mut below: Vec<Vec<usize>> = sorted.iter().map(|(t, _)| t[..rank.min(2)].to_vec()).collect();
                    below.dedup();
                    for row in 0..shape[axes[0]] {
                        let count = below.iter().filter(|p| p[0] == row).count() as u32;
                        assert_eq!(rows[row + 1] - rows[row], count, "case {case}");
                    }
                    assert_eq!((rows.len(), rows[0]), (shape[axes[0]] + 1, 0));
                }
                if level + 1 < rank {
                    let children = view.part(Part::Children(level as u8)).unwrap();
                    let mut below: Vec<Vec<usize>> = sorted.iter().map(|(t, _)| t[..=level + 1].to_vec()).collect();
                    below.dedup();
                    for (node, prefix) in prefixes.iter().enumerate() {
                        let range = children[node] as usize..children[node + 1] as usize;
                        assert!(below[range.clone()].iter().all(|p| p.starts_with(prefix)), "case {case}");
                        assert_eq!(range.len(), below.iter().filter(|p| p.starts_with(prefix)).count());
                    }
                }
            }
            // Each bin has a run of entries, in the order of the view.
            let part = |part| view.part(Part::Binned(part)).unwrap();
            let (in_bins, places) = (part(Binned::Entries), part(Binned::Places));
            let all = size.map_or(0, |_| entries.len());
            assert_eq!(part(Binned::All), [0, all as u32]);
            assert_eq!((in_bins.len(), places.len()), (all, all));
            let key = |entry: u32| (entry / size.unwrap_or(1) as u32, entries.iter().position(|e| *e == entry));
            assert!(in_bins.is_sorted_by_key(|entry| key(*entry)), "case {case}");
            assert!(places.iter().zip(&entries).all(|(at, entry)| in_bins[*at as usize] == *entry), "case {case}");
            let tuple_of = |entry: &u32| &numbered[*entry as usize];
            for axis in 0..rank {
                let coordinates: Vec<u32> = in_bins.iter().map(|e| tuple_of(e)[axis] as u32).collect();
                assert_eq!(part(Binned::Axis(axis)), coordinates, "case {case}");
            }
        }
    }
}

//! Which numbers are worth being held, and where.
//!
//! A register has a number for each round of the loops around it. It is held in a buffer with an axis for each of these loops, but for those
//! whose index follows from one further in, as the row of an entry does:
//!
//! | loop | axis |
//! |---|---|
//! | over a whole range `0 .. n - 1` | `n` |
//! | over the entries of a relation, in the order of any view | the entries, in this order |
//!
//! **Worth it** is a number that takes, in each round, a loop, a search, a function such as `exp`, or a load through the places of a view.
//!
//! **No larger than what it is made of**: a load that it is made of is at another place in each round, or a walk over a relation is below another
//! node, so there are no more numbers than that buffer or relation has. An outer product is thus not held, nor anything that is broadcast.

use std::collections::BTreeSet;

use super::graph::{Graph, Index, Register, index};
use crate::base::{IndexId, RelationId};
use crate::index::{Affine, Size};
use crate::loops::{Array, ArrayId, BufferId, Domain, Part, Place, Program, Real, Stmt};

/// Where a number is held.
pub(super) struct Home {
    /// The axes of the buffer, and the place in them.
    pub entries: Option<RelationId>,
    pub dims: Vec<Size>,
    pub at: Vec<Affine>,
    /// The statement beside the definition after which the number is complete.
    pub complete: usize,
    /// What is copied, through which places.
    pub copy: Option<(BufferId, ArrayId)>,
}

/// Where a register is to be held that does not change; nothing where it is not worth it, or there is no place.
pub(super) fn home(program: &Program, graph: &Graph<'_>, r: Register) -> Option<Home> {
    let first = *graph.writers(r).first()?;
    let slice = slice(graph, r, first);
    if !slice.iter().any(|at| takes_time(program, graph, *at)) {
        return None;
    }
    if graph.around(first).any(|at| matches!(graph.nodes[at].stmt, Stmt::Extremum { .. })) {
        return None;
    }
    let rounds = loops(graph, first);
    let of_operand = |at: &usize| match graph.nodes[*at].stmt {
        Stmt::Define(_, Real::Load(place)) => Some(determined(program, graph, r.0, place)),
        Stmt::For { index, domain: Domain::Segment(_), .. } => Some(closure(program, graph, r.0, [(r.0, *index)])),
        _ => None,
    };
    let covers = |known: BTreeSet<Index>| rounds.iter().all(|(i, _)| known.contains(i));
    if !rounds.is_empty() && !slice.iter().filter_map(of_operand).any(covers) {
        return None;
    }
    let mut home = Home { entries: None, dims: Vec::new(), at: Vec::new(), complete: 0, copy: None };
    for (k, (i, domain)) in rounds.iter().enumerate() {
        let mut inner = rounds.iter().skip(k + 1);
        if inner.any(|(j, _)| closure(program, graph, r.0, [*j]).contains(i)) {
            continue;
        }
        let index = i.1;
        match domain.whole_of() {
            range @ Domain::Range { .. } => {
                home.dims.push(whole(range)?);
                home.at.push(index.into());
            }
            Domain::Segment(segment) => {
                // The entries are the first axis, and there is one such.
                let relation = of_entries(program.arrays.get(segment.pointers)?)?;
                if home.entries.replace(relation).is_some() {
                    return None;
                }
                home.at.insert(0, index.into());
            }
            Domain::Part { .. } => return None,
        }
    }
    home.complete = complete(graph, r, first)?;
    home.copy = copied(program, graph, first, &home);
    Some(home)
}

/// The statements that make a register, inside of the body that declares it.
fn slice(graph: &Graph<'_>, r: Register, first: usize) -> BTreeSet<usize> {
    let (mut slice, mut todo) = (BTreeSet::new(), graph.writers(r).to_vec());
    while let Some(at) = todo.pop() {
        if !graph.is_beside(at, first) || !slice.insert(at) {
            continue;
        }
        graph.reads(at).into_iter().for_each(|r| todo.extend(graph.writers(r)));
        todo.extend(graph.mentions(at).into_iter().filter_map(|i| graph.definer(i)));
        todo.extend(graph.nodes[at].parent);
    }
    slice
}

fn takes_time(program: &Program, graph: &Graph<'_>, at: usize) -> bool {
    let node = &graph.nodes[at];
    match node.stmt {
        Stmt::For { .. } | Stmt::Extremum { .. } | Stmt::Find { .. } => true,
        Stmt::Define(_, Real::Apply(function, _)) => function.is_call(),
        Stmt::Define(_, Real::Load(_)) => {
            graph.mentions(at).into_iter().any(|i| through_places(program, graph, i).is_some())
        }
        _ => false,
    }
}

/// The array of places of a view that an index is loaded from, and where it stands there.
fn through_places<'a>(program: &Program, graph: &Graph<'a>, i: Index) -> Option<(ArrayId, &'a Affine)> {
    match graph.nodes[graph.definer(i)?].stmt {
        Stmt::Let { array, at, .. } if program.arrays.get(*array)?.part == Part::Entries => Some((*array, at)),
        _ => None,
    }
}

/// The loops around a statement, from outside in.
fn loops<'a>(graph: &Graph<'a>, at: usize) -> Vec<(Index, &'a Domain)> {
    let of = |at: usize| match graph.nodes[at].stmt {
        Stmt::For { index, domain, .. } => Some(((graph.nodes[at].nest, *index), domain)),
        _ => None,
    };
    let mut loops: Vec<_> = graph.around(at).filter_map(of).collect();
    loops.reverse();
    loops
}

/// The indices that follow from a place: whatever else they are, the place is another one.
pub(super) fn determined(program: &Program, graph: &Graph<'_>, nest: usize, place: &Place) -> BTreeSet<Index> {
    closure(program, graph, nest, place.at.iter().filter_map(only_index).map(|i| (nest, i)))
}

/// The indices that follow from some: nodes below different nodes are different, and so are places of entries and parts of a range.
fn closure(
    program: &Program,
    graph: &Graph<'_>,
    nest: usize,
    known: impl IntoIterator<Item = Index>,
) -> BTreeSet<Index> {
    let (mut all, mut todo) = (BTreeSet::new(), known.into_iter().collect::<Vec<_>>());
    while let Some(i) = todo.pop() {
        if !all.insert(i) {
            continue;
        }
        let before = match graph.definer(i).map(|at| graph.nodes[at].stmt) {
            Some(Stmt::For { domain, .. }) => from_domain(domain),
            Some(Stmt::Find { segment, .. }) => vec![&segment.at],
            _ => through_places(program, graph, i).into_iter().map(|(_, at)| at).collect(),
        };
        todo.extend(before.into_iter().filter_map(only_index).map(|i| (nest, i)));
    }
    all
}

fn from_domain(domain: &Domain) -> Vec<&Affine> {
    match domain {
        Domain::Range { .. } => Vec::new(),
        Domain::Segment(segment) => vec![&segment.at],
        Domain::Part { whole, part, .. } => {
            let mut all = from_domain(whole);
            all.push(part);
            all
        }
    }
}

/// The only index of an expression.
fn only_index(a: &Affine) -> Option<IndexId> {
    let mut indices = a.terms().iter().filter_map(|(v, _)| index(v));
    indices.next().filter(|_| indices.next().is_none())
}

/// `n` of the range `0 .. n - 1`.
fn whole(domain: &Domain) -> Option<Size> {
    let Domain::Range { lower, upper } = domain else { return None };
    let ([from], [to]) = (lower.as_slice(), upper.as_slice()) else { return None };
    let depends = to.numerator.terms().iter().any(|(v, _)| index(v).is_some());
    let all = from.numerator.as_constant() == Some(0) && to.divisor == 1 && !depends;
    all.then(|| to.numerator.add_constant(1).ok())?
}

/// The relation whose tuples are the nodes that an array points to.
fn of_entries(array: &Array) -> Option<RelationId> {
    array.is_above_tuples().then_some(array.relation)
}

/// The statement beside the declaration of a register that writes it last, if nothing reads it before.
fn complete(graph: &Graph<'_>, r: Register, first: usize) -> Option<usize> {
    let beside = |at: &usize| graph.nodes[first].parent == graph.nodes[*at].parent;
    let last = *graph.writers(r).last()?;
    let last = std::iter::once(last).chain(graph.around(last)).find(beside)?;
    graph.readers(r).iter().all(|at| *at >= graph.nodes[last].end).then_some(last)
}

/// Which buffer is copied, through which places, if a register is loaded and nothing else, at all entries.
fn copied(program: &Program, graph: &Graph<'_>, first: usize, home: &Home) -> Option<(BufferId, ArrayId)> {
    let node = &graph.nodes[first];
    let Place { buffer, at } = node.stmt.load()?;
    let [at] = at.as_slice() else { return None };
    let (array, entry) = through_places(program, graph, (node.nest, at.as_index()?))?;
    let always = graph.around(first).all(|at| matches!(graph.nodes[at].stmt, Stmt::For { .. }));
    let whole = always && home.dims.is_empty() && visits_all(program, graph, (node.nest, entry.as_index()?));
    (whole && home.at.first() == Some(entry)).then_some((*buffer, array))
}

/// Whether a loop runs over all nodes of a level of a view, together with the loops that it follows from.
pub(in crate::ir::schedule) fn visits_all(program: &Program, graph: &Graph<'_>, (nest, node): Index) -> bool {
    let domain = |i: IndexId| match graph.definer((nest, i)).map(|at| graph.nodes[at].stmt) {
        Some(Stmt::For { domain, .. }) => Some(domain.whole_of()),
        _ => None,
    };
    let Some(Domain::Segment(segment)) = domain(node) else { return false };
    let Some(array) = program.arrays.get(segment.pointers) else { return false };
    match array.part {
        Part::Roots => true,
        Part::Rows => {
            let relation = program.signature.relations.get(array.relation);
            let rows = array.axes.first().and_then(|axis| relation?.shape.get(*axis));
            rows.is_some() && rows == segment.at.as_index().and_then(domain).and_then(whole).as_ref()
        }
        Part::Children(_) => segment.at.as_index().is_some_and(|i| visits_all(program, graph, (nest, i))),
        Part::Nodes(_) | Part::Entries | Part::Projected(_) | Part::Starts | Part::Binned(_) | Part::Neighbours(_) => {
            false
        }
    }
}

/// Whether each round of the loops around a store writes another place.
pub(super) fn writes_once(program: &Program, graph: &Graph<'_>, at: usize) -> bool {
    let node = &graph.nodes[at];
    let Stmt::Store(place, _) = node.stmt else { return true };
    let known = determined(program, graph, node.nest, place);
    loops(graph, at).iter().all(|(i, _)| known.contains(i))
}

//! Nests that run over the same rows, or over the same nodes of a relation, become one.
//!
//! `for i { A(i) } for i { B(i) }  ==  for i { A(i) B(i) }` where `B(i)` reads of what `A` writes only what `A(i)` writes: the row `i`, or
//! the entries below the node `i` of the same relation. What a row of `A` gathers, and what it writes, is then still at hand when `B` reads it.
//!
//! A nest moves up to an earlier one, past those in between, which neither write what it reads nor read what it writes (they are before
//! it). What runs in lanes goes on to do so: a loop over elements with functions is not put into one over rows. Nor is a matrix product,
//! whose rows are interleaved, put together with what cannot be, unless it reads some factor only once, as reading that takes most of the time then,
//! or has a few terms only; nor one that is computed in panels with anything, nor [growing sums](super::prefix_sums). Nor are sums along the columns of a
//! matrix put together with what adds up numbers of the columns, as a gradient with a penalty: these are those of [blocks of rows](super::row_blocks),
//! where the other is cut into parts. Where all short rows over a range [become straight-line code](super::unroll) together, they have lanes whatever is
//! among them, so each may join the others; so may rows whose loops have a few values each.

use std::collections::BTreeMap;

use super::layout::Last;
use super::machine::{FEW_POWERS, FEW_STATEMENTS, ROW_DENSITY, ROW_WORK, SHORT};
use super::unroll::are_elements;
use super::vectorise::{Traits, is_short, literal, only_few};
use super::{panels, prefix_sums};
use crate::base::{IndexId, work};
use crate::error::Result;
use crate::index::Affine;
use crate::loops::{
    ArrayId, BufferId, Decision, Domain, Fresh, Nest, Place, Program, Real, Segment, Stmt, adds_where_told,
    changes_outside, has_calls, has_loop, loads, stores, title,
};

/// Puts nests together, each with the first one that it can join.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let nests = std::mem::take(&mut program.nests);
    let joined = Groups::new(&nests, &Last::new()).of;
    let mut fused: Vec<(Nest, Option<Fresh>)> = Vec::with_capacity(nests.len());
    for (nest, at) in nests.into_iter().zip(joined) {
        match fused.get_mut(at) {
            Some((first, names)) => {
                let names = names.get_or_insert_with(|| Fresh::after(&first.body));
                first.decisions.push(Decision::Fused { tensor: title(&program.buffers, &nest) });
                join(first, nest, names)?;
            }
            None => fused.push((nest, None)),
        }
    }
    program.nests = fused.into_iter().map(|(nest, _)| nest).collect();
    Ok(())
}

/// Which nests become one.
pub(super) struct Groups<'a> {
    /// For each nest the number of the one that it becomes part of; nests are numbered as they come, without those that join others.
    pub of: Vec<usize>,
    all: Vec<Option<Candidate<'a>>>,
}

impl<'a> Groups<'a> {
    /// Those of nests, where some buffers have other axes last by then.
    pub fn new(nests: &'a [Nest], last: &Last) -> Groups<'a> {
        let mut groups = Groups { of: Vec::with_capacity(nests.len()), all: Vec::new() };
        let Groups { of, all } = &mut groups;
        let mut writers: BTreeMap<BufferId, usize> = BTreeMap::new();
        let mut candidates: Vec<_> = nests.iter().map(|nest| Candidate::of(nest, last)).collect();
        find_straight(&mut candidates);
        for (nest, candidate) in nests.iter().zip(candidates) {
            // It can move up to the last nest of which it reads something.
            let read = loads(&nest.body).into_iter().filter_map(|place| writers.get(&place.buffer).copied());
            let first = read.max().unwrap_or(0);
            work::charge(1 + all.len().saturating_sub(first));
            let partner = candidate.as_ref().and_then(|candidate| {
                (first..all.len()).find(|at| all[*at].as_ref().is_some_and(|other| candidate.can_follow(other)))
            });
            let at = partner.unwrap_or(all.len());
            writers.extend(nest.buffers.iter().map(|buffer| (*buffer, at)));
            match (all.get_mut(at), candidate) {
                (Some(Some(other)), Some(candidate)) => other.extend(candidate),
                (_, candidate) => all.push(candidate),
            }
            of.push(at);
        }
        groups
    }

    /// Whether these nests become one whose iterations come one by one, each with a row of a buffer.
    pub fn has_rows(&self, nests: &[usize], buffer: BufferId) -> bool {
        let mut all = nests.iter().filter_map(|nest| self.of.get(*nest));
        let Some(first) = all.next().filter(|first| all.all(|other| other == *first)) else { return false };
        self.all.get(*first).and_then(Option::as_ref).is_some_and(|group| {
            let is_row = matches!(group.writes.get(&buffer), Some(Written::In(Row::Own(_))));
            is_row && !group.traits.is_independent() && !group.traits.interleaves()
        })
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
    let (Stmt::For { index, domain: domain @ (Domain::Range { .. } | Domain::Segment(_)), body, .. }, after) =
        rest.split_first()?
    else {
        return None;
    };
    let shared = before.iter().all(|stmt| matches!(stmt, Stmt::Define(..) | Stmt::Fill(_) | Stmt::Local(_)));
    (shared && !after.iter().any(has_loop)).then_some(Parts { before, index: *index, domain, body, after })
}

/// What is to be known of a nest, with those that joined it, to put another one into its loop, or it into that of another one.
struct Candidate<'a> {
    domain: &'a Domain,
    /// What it writes, with the row where all places of a buffer are in the same one.
    writes: BTreeMap<BufferId, Written>,
    /// What it reads inside of the loop, with the row, if it is one.
    reads: Vec<(BufferId, Option<Row>)>,
    /// What it reads before and after it.
    reads_once: Vec<BufferId>,
    traits: Traits,
    factors: Factors,
    has_calls: bool,
    /// Whether it adds up what its rows are, and whether these are sums along columns.
    adds: bool,
    along_columns: bool,
    rows: Rows,
    /// Whether its rows are straight-line code with all other short ones over the same range.
    is_straight: bool,
}

/// What rows take in which all loops are over few values.
#[derive(Clone, Default)]
struct Rows {
    /// Whether there are no other loops, nor searches.
    are_short: bool,
    /// Whether loops have a few values each, and nothing is tested.
    are_few: bool,
    /// Whether elements are made of those in the same column alone.
    are_elements: bool,
    operations: usize,
    /// How many numbers are read at places that the index of the row does not say by itself, but through maps or not at all.
    far: BTreeMap<(BufferId, Vec<Affine>), usize>,
}

/// In the places of several nests, targets of the row have the number of their array from here on, and loops their depth from there on.
const TARGETS: u32 = 1 << 30;
const LOOPS: u32 = 1 << 29;

impl Rows {
    fn of(index: IndexId, domain: &Domain, body: &[Stmt]) -> Rows {
        let is_range = matches!(domain, Domain::Range { .. });
        let mut rows = Rows {
            are_short: is_range,
            are_few: is_range && only_few(body),
            are_elements: are_elements(body),
            ..Rows::default()
        };
        rows.meet(index, body, &mut Vec::new(), &mut BTreeMap::new());
        rows.are_few &= rows.are_short;
        rows
    }

    /// Adds statements inside of loops of these indices and lengths.
    fn meet(
        &mut self,
        row: IndexId,
        body: &[Stmt],
        around: &mut Vec<(IndexId, usize)>,
        names: &mut BTreeMap<IndexId, IndexId>,
    ) {
        for stmt in body {
            match stmt {
                Stmt::For { index, domain, body, .. } => {
                    let length = literal(domain).filter(|n| *n < SHORT).and_then(|n| usize::try_from(n).ok());
                    self.are_short &= length.is_some();
                    names.insert(*index, IndexId(LOOPS + around.len() as u32));
                    around.push((*index, length.unwrap_or(1)));
                    self.meet(row, body, around, names);
                    around.pop();
                }
                Stmt::Find { .. }
                | Stmt::Length { .. }
                | Stmt::Call { .. }
                | Stmt::End(_)
                | Stmt::Extremum { .. }
                | Stmt::Extend(..)
                | Stmt::Tuple(..) => self.are_short = false,
                Stmt::If { body, .. } => {
                    self.are_few = false;
                    self.meet(row, body, around, names);
                }
                Stmt::Let { index, array, at, .. } if at.as_index() == Some(row) => {
                    names.insert(*index, IndexId(TARGETS + array.0));
                }
                Stmt::Define(_, Real::Load(place)) => {
                    if !place.at.iter().any(|a| a.as_index() == Some(row)) {
                        let moves = around.iter().filter(|(i, _)| place.at.iter().any(|a| a.mentions(*i)));
                        let named = |a: &Affine| {
                            a.substitute(&|i| names.get(&i).map(|i| (*i).into())).unwrap_or_else(|_| a.clone())
                        };
                        let at = place.at.iter().map(named).collect();
                        self.far.insert((place.buffer, at), moves.map(|(_, n)| n).product());
                    }
                }
                Stmt::Define(_, Real::Literal(_) | Real::Index(_)) => {}
                Stmt::Define(..) | Stmt::Accumulate(..) | Stmt::MulAdd(..) => {
                    self.operations += around.iter().map(|(_, n)| n).product::<usize>();
                }
                Stmt::Let { .. } | Stmt::Local(_) | Stmt::Assign(..) | Stmt::Store(..) | Stmt::Fill(_) => {}
            }
        }
    }

    /// Adds other short rows.
    fn extend(&mut self, other: &Rows) {
        self.are_short &= other.are_short;
        self.are_few &= other.are_few;
        self.are_elements &= other.are_elements;
        self.operations += other.operations;
        self.far.extend(other.far.iter().map(|(place, n)| (place.clone(), *n)));
    }

    /// Whether they become straight-line code together with others, for the few values that their loops have.
    fn are_few_with(&self, other: &Rows) -> bool {
        let few = self.are_few && other.are_few && !(self.are_elements && other.are_elements);
        few && self.operations + other.operations <= FEW_STATEMENTS / 2
    }

    /// Whether they become straight-line code, as far as this tells.
    fn are_straight(&self) -> bool {
        let far: usize = self.far.values().sum();
        self.operations >= ROW_WORK && self.operations / ROW_DENSITY >= far
    }
}

/// Finds the nests with short rows that are straight-line code together.
fn find_straight(candidates: &mut [Option<Candidate<'_>>]) {
    let mut all: Vec<(&Domain, Rows)> = Vec::new();
    for candidate in candidates.iter().flatten().filter(|candidate| candidate.rows.are_short) {
        match all.iter_mut().find(|(domain, _)| *domain == candidate.domain) {
            Some((_, rows)) => rows.extend(&candidate.rows),
            None => all.push((candidate.domain, candidate.rows.clone())),
        }
    }
    all.retain(|(_, rows)| rows.are_straight());
    for candidate in candidates.iter_mut().flatten().filter(|candidate| candidate.rows.are_short) {
        candidate.is_straight = all.iter().any(|(domain, _)| *domain == candidate.domain);
    }
}

/// The places of a buffer that an iteration of the outer loop writes.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    /// Zeros alone, before the loop.
    Nothing,
    In(Row),
    /// Places that no row holds, or several.
    Anywhere,
}

impl<'a> Candidate<'a> {
    /// Nothing for a nest that is no single loop, and for a product in panels, growing sums and histograms, which nothing joins.
    fn of(nest: &'a Nest, last: &Last) -> Option<Candidate<'a>> {
        let Parts { before, index, domain, body, after } = parts(nest)?;
        if panels::applies(nest, last) || prefix_sums::is_apart(nest) || adds_where_told(index, domain, body) {
            return None;
        }
        let segments = segments(body, index);
        let mut writes: BTreeMap<BufferId, Written> =
            nest.buffers.iter().map(|buffer| (*buffer, Written::Nothing)).collect();
        for place in stores(body.iter().chain(after)) {
            let here = row(place, index, &segments).map_or(Written::Anywhere, Written::In);
            let known = writes.entry(place.buffer).or_insert(Written::Nothing);
            *known = if [Written::Nothing, here].contains(known) { here } else { Written::Anywhere };
        }
        let read = |place: &Place| (place.buffer, row(place, index, &segments));
        Some(Candidate {
            domain,
            writes,
            reads: loads(body).into_iter().map(read).collect(),
            reads_once: loads(before.iter().chain(after)).into_iter().map(|place| place.buffer).collect(),
            traits: Traits::of(index, body, last),
            factors: Factors::of(index, body),
            has_calls: has_calls(body),
            adds: changes_outside(body),
            along_columns: body.iter().any(|stmt| goes_along_columns(stmt, index)),
            rows: Rows::of(index, domain, body),
            is_straight: false,
        })
    }

    /// Whether the loop of this nest may go on with that of an earlier one, and what runs in lanes goes on to do so.
    fn can_follow(&self, left: &Candidate<'_>) -> bool {
        let are_straight = left.is_straight && self.is_straight || self.rows.are_few_with(&left.rows);
        let apart = left.adds && self.along_columns || left.along_columns && self.adds;
        left.domain == self.domain && !apart && self.reads_its_row(left) && (are_straight || self.keeps_lanes(left))
    }

    /// Whether an iteration reads of what the other nest writes only what its same iteration writes.
    fn reads_its_row(&self, left: &Candidate<'_>) -> bool {
        !self.reads_once.iter().any(|buffer| left.writes.contains_key(buffer))
            && self.reads.iter().all(|(buffer, row)| match (left.writes.get(buffer), row) {
                (None, _) | (Some(Written::Nothing), Some(_)) => true,
                (Some(Written::In(written)), Some(read)) => written == read,
                (Some(_), _) => false,
            })
    }

    /// Whether what runs in lanes does so in one loop as well.
    fn keeps_lanes(&self, left: &Candidate<'_>) -> bool {
        let both = (left.traits.and(self.traits), left.factors.and(self.factors));
        let jam = |(traits, factors): (Traits, Factors)| traits.interleaves() && !factors.are_read_once();
        if (jam((left.traits, left.factors)) || jam((self.traits, self.factors))) && !jam(both) {
            return false;
        }
        let alone = [left.traits, self.traits].map(|traits| traits.is_independent());
        match (left.factors.has_loops, self.factors.has_loops) {
            (true, true) => alone == [false; 2] || both.0.is_independent(),
            (true, false) if alone[0] => both.0.is_independent(),
            (true, false) => !self.has_calls,
            (false, true) => false,
            (false, false) => true,
        }
    }

    /// The same loop goes on with that of another nest.
    fn extend(&mut self, right: Candidate<'_>) {
        self.writes.extend(right.writes);
        self.traits = self.traits.and(right.traits);
        self.factors = self.factors.and(right.factors);
        self.has_calls |= right.has_calls;
        self.adds |= right.adds;
        self.along_columns |= right.along_columns;
        self.rows.extend(&right.rows);
        self.is_straight &= right.is_straight;
    }
}

/// How often the innermost sums of a loop read their factors.
#[derive(Clone, Copy)]
struct Factors {
    /// There are sums in the body itself.
    has_sums: bool,
    has_loops: bool,
    /// Something in the body itself is read at all indices around.
    once_here: bool,
    /// In each loop inside some factor of the sums is read at all indices around, so at each place once.
    once_inside: bool,
}

impl Factors {
    fn of(index: IndexId, body: &[Stmt]) -> Factors {
        Factors::inside(body, &mut vec![index])
    }

    fn inside(body: &[Stmt], around: &mut Vec<IndexId>) -> Factors {
        let at_all = |place: &Place| around.iter().all(|i| place.at.iter().any(|a| a.mentions(*i)));
        let once_here = body.iter().filter_map(Stmt::load).any(at_all);
        let once_inside = body.iter().all(|stmt| match stmt {
            // A few terms, as the coordinates of a point, are no product of matrices.
            Stmt::For { domain, body, .. } if is_short(domain) && !body.iter().any(has_loop) => true,
            Stmt::For { index, body, .. } => {
                around.push(*index);
                let factors = Factors::inside(body, around);
                around.pop();
                factors.are_read_once()
            }
            stmt => Factors::inside(stmt.body(), around).are_read_once(),
        });
        Factors {
            has_sums: body.iter().any(|stmt| matches!(stmt, Stmt::Accumulate(..) | Stmt::MulAdd(..))),
            has_loops: body.iter().any(has_loop),
            once_here,
            once_inside,
        }
    }

    fn and(self, other: Factors) -> Factors {
        Factors {
            has_sums: self.has_sums | other.has_sums,
            has_loops: self.has_loops | other.has_loops,
            once_here: self.once_here | other.once_here,
            once_inside: self.once_inside & other.once_inside,
        }
    }

    /// Whether each innermost sum reads some factor at each place once.
    fn are_read_once(self) -> bool {
        if self.has_sums && !self.has_loops { self.once_here } else { self.once_inside }
    }
}

/// What of a place belongs to an iteration of the outer loop.
#[derive(Clone, Copy, PartialEq)]
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

/// Whether an innermost loop over many values in a statement goes along the columns of something whose columns are those of a loop around.
fn goes_along_columns(stmt: &Stmt, outer: IndexId) -> bool {
    let mut found = false;
    stmt.visit(&mut |stmt| {
        let Stmt::For { index, domain: domain @ Domain::Range { .. }, body, .. } = stmt else { return };
        if literal(domain).is_some_and(|n| n <= FEW_POWERS) || body.iter().any(has_loop) {
            return;
        }
        let axis = |place: &Place, i: IndexId| place.at.iter().position(|a| a.as_index() == Some(i));
        let along =
            |place: &Place| axis(place, *index).zip(axis(place, outer)).is_some_and(|(row, column)| row < column);
        found |= loads(body).into_iter().any(along);
    });
    found
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

/// `for i { A(i) B(i) }`, with fresh names in `B`.
fn join(left: &mut Nest, right: Nest, names: &mut Fresh) -> Result<()> {
    let Some(b) = parts(&right) else { return Ok(()) };
    let Some(at) = left.body.iter().position(|stmt| matches!(stmt, Stmt::For { .. })) else { return Ok(()) };
    let Some(Stmt::For { index, body, .. }) = left.body.get_mut(at) else { return Ok(()) };
    names.again();
    names.keep(b.index, *index);
    let before = names.body(b.before)?;
    body.extend(names.body(b.body)?);
    let after = names.body(b.after)?;
    left.body.splice(at..at, before);
    left.body.extend(after);
    left.buffers.extend(right.buffers);
    left.decisions.extend(right.decisions);
    Ok(())
}

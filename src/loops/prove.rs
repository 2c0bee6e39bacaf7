//! What is proved of nests beyond their form: places are in bounds, and iterations that run at the same time do not meet.
//!
//! ```text
//! bounds:       x[a] with an axis of n places                 0 <= a < n, by the loops and tests around
//!               of a buffer over the entries of a relation    a is an entry, or a node that is one
//!               an array at a                                 a is a node of its level, or a coordinate in range
//! independent:  in a loop over i that is parallel, has lanes or is interleaved, of a place that is stored to and one that is stored to or loaded,
//!               of one buffer: i != i' implies a != a'
//! ```
//!
//! The second is the test of loop-carried dependence, with all that is known of both iterations: what is around the loop is the same for both,
//! what is inside is there twice. Of relations these are used, until nothing new follows: nodes have one parent; nodes below one parent have
//! different coordinates; entries, and places in bins, are numbered each once; the parts of one loop have no value in common.
//!
//! [`verify`](Program::verify) asks what needs no proof, after every pass; this is asked by the tests of all programs and passes, and by
//! `show --stage loops --explain`, which prints what is not proved. *Not proved* is not wrong: the prover may be too weak, and what a nest stores
//! in the order of a matrix of several blocks depends on numbers that only its structure has.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::data::{Array, ArrayId, Binned, BufferId, Cond, Domain, Nest, Part, Place, Program, Search, Segment, Stmt};
use super::predicate;
use crate::base::{IndexId, RelationId};
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::solver::Facts;
use crate::ty::RelationKind;

/// Indices of the second of two iterations are renamed to numbers from here on.
const SECOND: u32 = 1 << 24;

impl Program {
    /// What is not proved, a line for each claim.
    pub fn unproved(&self) -> Vec<String> {
        let mut unproved = Vec::new();
        for nest in &self.nests {
            let mut walk = Walk::of(self, &mut unproved);
            walk.body(&nest.body);
            let Walk { accesses, loops, .. } = walk;
            for (index, within) in loops {
                self.independent(nest, index, &accesses[within], &mut unproved);
            }
        }
        unproved
    }

    /// The places in statements that are not proved to be in bounds. No proof uses what tests say of numbers.
    pub(crate) fn in_doubt<'a>(&'a self, body: &'a [Stmt]) -> Vec<&'a Place> {
        let mut unproved = Vec::new();
        let mut walk = Walk::of(self, &mut unproved);
        walk.body(body);
        walk.in_doubt
    }

    /// Whether iterations over an index do not meet.
    fn independent(&self, nest: &Nest, index: IndexId, accesses: &[Access<'_>], unproved: &mut Vec<String>) {
        let mut of: BTreeMap<BufferId, Vec<&Access<'_>>> = BTreeMap::new();
        for access in accesses.iter().filter(|access| nest.buffers.contains(&access.place.buffer)) {
            of.entry(access.place.buffer).or_default().push(access);
        }
        for all in of.values() {
            for (at, store) in all.iter().enumerate().filter(|(_, access)| access.stores) {
                // Two stores are looked at once.
                let others = all.iter().enumerate().filter(|(k, other)| !other.stores || *k >= at);
                for (_, other) in others {
                    if !self.meet_nowhere(index, store, other).unwrap_or(false) {
                        let [a, b] = [store, other].map(|access| self.place_text(access.place));
                        unproved
                            .push(format!("{a} and {b} may meet in iterations of {index} that run at the same time"));
                        return;
                    }
                }
            }
        }
    }

    fn place_text(&self, place: &Place) -> String {
        let name = self.buffers.get(place.buffer).map_or("", |buffer| buffer.name.as_str());
        format!("{name}[{}]", place.at.iter().map(|a| self.affine_text(a)).collect::<Vec<_>>().join(", "))
    }

    fn meet_nowhere(&self, index: IndexId, one: &Access<'_>, other: &Access<'_>) -> Checked<bool> {
        let same = std::ptr::eq(one, other);
        for flipped in [false, true].into_iter().take(if same { 1 } else { 2 }) {
            let mut both = Both { program: self, facts: self.signature.facts(), sides: [Vec::new(), Vec::new()] };
            let inside = inside_of(index, &one.path).into_iter().chain(inside_of(index, &other.path)).collect();
            let rename = Rename { inside };
            both.place(0, &one.path, &rename, &one.place.at)?;
            both.place(1, &other.path, &rename, &other.place.at)?;
            let (i, j) = (Affine::index(index), rename.affine(1, &Affine::index(index))?);
            both.facts.assume(&if flipped { Pred::lt(&j, &i)? } else { Pred::lt(&i, &j)? });
            for (a, b) in one.place.at.iter().zip(&other.place.at) {
                both.facts.assume(&Pred::equal(a, &rename.affine(1, b)?)?);
            }
            if !both.contradict()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What is around a statement, from inside out.
struct Around<'a> {
    frame: Frame<'a>,
    outer: Path<'a>,
}

type Path<'a> = Option<Rc<Around<'a>>>;

#[derive(Clone, Copy)]
enum Frame<'a> {
    Loop(IndexId, &'a Domain),
    /// An index over a whole axis.
    Axis(IndexId, &'a Size),
    Let(IndexId, ArrayId, &'a Affine),
    Find(IndexId, &'a Segment, Option<(ArrayId, &'a Affine)>),
    /// An index from -1 on.
    Found(IndexId, &'a Size),
    /// An index from 0 to a size.
    Length(IndexId, &'a Size),
    Test(&'a Cond),
}

impl Frame<'_> {
    fn defines(&self) -> Option<IndexId> {
        match self {
            Frame::Loop(i, _)
            | Frame::Axis(i, _)
            | Frame::Let(i, ..)
            | Frame::Find(i, ..)
            | Frame::Found(i, _)
            | Frame::Length(i, _) => Some(*i),
            Frame::Test(_) => None,
        }
    }
}

fn frames<'p, 'a>(path: &'p Path<'a>) -> impl Iterator<Item = &'p Frame<'a>> {
    std::iter::successors(path.as_ref(), |around| around.outer.as_ref()).map(|around| &around.frame)
}

/// The indices of a loop and of what is inside of it, of which there are two in two iterations.
fn inside_of(index: IndexId, path: &Path<'_>) -> BTreeSet<IndexId> {
    let mut inside = BTreeSet::from([index]);
    for i in frames(path).filter_map(Frame::defines) {
        if i == index {
            break;
        }
        inside.insert(i);
    }
    inside
}

/// A place that is loaded or stored to.
struct Access<'a> {
    place: &'a Place,
    stores: bool,
    path: Path<'a>,
}

struct Walk<'a, 'u> {
    program: &'a Program,
    path: Path<'a>,
    accesses: Vec<Access<'a>>,
    /// Loops whose iterations run at the same time, and which of the accesses are inside.
    loops: Vec<(IndexId, std::ops::Range<usize>)>,
    unproved: &'u mut Vec<String>,
    /// Places that are not proved to be in bounds.
    in_doubt: Vec<&'a Place>,
}

impl<'a, 'u> Walk<'a, 'u> {
    fn of(program: &'a Program, unproved: &'u mut Vec<String>) -> Self {
        Walk { program, path: None, accesses: Vec::new(), loops: Vec::new(), unproved, in_doubt: Vec::new() }
    }
    fn enter(&mut self, frame: Frame<'a>) {
        self.path = Some(Rc::new(Around { frame, outer: self.path.take() }));
    }

    fn body(&mut self, body: &'a [Stmt]) {
        let before = self.path.clone();
        body.iter().for_each(|stmt| self.stmt(stmt));
        self.path = before;
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::For { index, domain, lanes, jam, parallel, body } => {
                let (before, first) = (self.path.clone(), self.accesses.len());
                self.enter(Frame::Loop(*index, domain));
                self.body(body);
                self.path = before;
                if *parallel || *lanes > 1 || *jam > 1 {
                    self.loops.push((*index, first..self.accesses.len()));
                }
            }
            Stmt::If { cond, body } => {
                let before = self.path.clone();
                self.enter(Frame::Test(cond));
                self.body(body);
                self.path = before;
            }
            Stmt::Extremum { index, extent, at, body, .. } => {
                let before = self.path.clone();
                self.enter(Frame::Axis(*at, extent));
                self.body(body);
                self.path = before;
                self.enter(Frame::Found(*index, extent));
            }
            Stmt::Let { index, array, at, .. } => {
                self.claim(self.array_is_read_inside(*array, at), || format!("{index} is read outside of its array"));
                self.enter(Frame::Let(*index, *array, at));
            }
            Stmt::Find { index, segment, key, how } => {
                if let Search::Bound(array, at) = how {
                    let outside = || format!("{index} is read outside of its array");
                    self.claim(self.array_is_read_inside(*array, at), outside);
                }
                self.enter(Frame::Find(*index, segment, key.as_ref().map(|(nodes, key)| (*nodes, key))));
            }
            Stmt::Store(..) | Stmt::Define(..) | Stmt::Length { .. } => {
                if let Stmt::Length { index, most, .. } = stmt {
                    self.enter(Frame::Length(*index, most));
                }
                let Some(place) = stmt.load().or_else(|| stmt.store()) else { return };
                if !self.is_in_bounds(place).unwrap_or(false) {
                    self.unproved.push(format!("{} may be out of bounds", self.program.place_text(place)));
                    self.in_doubt.push(place);
                }
                self.accesses.push(Access { place, stores: stmt.store().is_some(), path: self.path.clone() });
            }
            Stmt::End(_)
            | Stmt::Local(_)
            | Stmt::Assign(..)
            | Stmt::Accumulate(..)
            | Stmt::MulAdd(..)
            | Stmt::Extend(..)
            | Stmt::Fill(_)
            | Stmt::Tuple(..) => {}
            // Both engines look at each call whether its places are in bounds.
            Stmt::Call { .. } => {
                let stores = stmt.stores().map(|place| (place, true));
                for (place, stores) in stmt.loads().map(|place| (place, false)).chain(stores) {
                    self.accesses.push(Access { place, stores, path: self.path.clone() });
                }
            }
        }
    }

    fn claim(&mut self, holds: Checked<bool>, text: impl FnOnce() -> String) {
        if !holds.unwrap_or(false) {
            let text = text();
            self.unproved.push(text);
        }
    }

    /// What is known here.
    fn facts(&self, of: &[Affine]) -> Checked<Facts> {
        let mut both = Both { program: self.program, facts: self.program.signature.facts(), sides: Default::default() };
        both.place(0, &self.path, &Rename::default(), of)?;
        both.close()?;
        Ok(both.facts)
    }

    fn is_in_bounds(&self, place: &Place) -> Checked<bool> {
        let Some(buffer) = self.program.buffers.get(place.buffer) else { return Ok(false) };
        let (entry, others) = place.at.split_at(usize::from(buffer.entries.is_some()).min(place.at.len()));
        let facts = self.facts(&place.at)?;
        if let (Some(relation), [at]) = (buffer.entries, entry)
            && !self.is_entry(relation, at, &facts)
        {
            return Ok(false);
        }
        predicate::are_in_range(&facts, others, &buffer.dims)
    }

    /// Whether an index is the number of an entry of a relation, in its order or in bins.
    fn is_entry(&self, relation: RelationId, at: &Affine, facts: &Facts) -> bool {
        let shape = self.program.signature.relations.get(relation).map(|found| found.shape.len());
        if let Some(axis) = shape.and_then(|axes| u8::try_from(axes.checked_sub(2)?).ok())
            && self.is_source(relation, axis, at, facts)
        {
            return true;
        }
        let Some(i) = at.as_index() else { return false };
        let signature = &self.program.signature;
        let array = |id: ArrayId| self.program.arrays.get(id);
        // Nodes of the last level in the order of the relation, which are nodes of what a projection is of.
        let stored = Array { relation, axes: signature.stored_order(relation), part: Part::Entries };
        let above_entries = |pointers: &Array| {
            pointers.level_below().is_some_and(|level| {
                usize::from(level) + 1 == stored.axes.len() && stored.has_nodes_of(pointers, level, signature)
            })
        };
        match frames(&self.path).find(|frame| frame.defines() == Some(i)) {
            Some(Frame::Let(_, id, _)) => array(*id).is_some_and(|array| match array.part {
                Part::Entries | Part::Binned(Binned::Entries | Binned::Places) => array.relation == relation,
                Part::Projected(projected) => projected == relation,
                _ => false,
            }),
            Some(Frame::Loop(_, domain)) => match domain.whole_of() {
                Domain::Segment(segment) => array(segment.pointers).is_some_and(|pointers| {
                    let in_bins = pointers.relation == relation && pointers.part == Part::Binned(Binned::All);
                    in_bins || above_entries(pointers)
                }),
                _ => false,
            },
            Some(Frame::Find(_, segment, _)) => {
                array(segment.pointers).is_some_and(above_entries) && facts.proves(&Pred::non_negative(at.clone()))
            }
            _ => false,
        }
    }

    /// Whether this is the number of a node of a map in the order of its sources: of a source, or of the places of some up to an axis, of which
    /// there are none where a later axis has no places.
    fn is_source(&self, map: RelationId, axis: u8, at: &Affine, facts: &Facts) -> bool {
        let Some(found) = self.program.signature.relations.get(map).filter(|found| found.kind == RelationKind::Map)
        else {
            return false;
        };
        let Some((_, sources)) = found.shape.split_last() else { return false };
        let later = sources.get(usize::from(axis) + 1..).unwrap_or_default();
        has_places(later, facts) && self.is_number(map, sources, axis, at, facts)
    }

    /// Whether this is the number of a choice of places on the axes of a map up to one, among all of them in row-major order.
    fn is_number(&self, map: RelationId, sources: &[Size], axis: u8, at: &Affine, facts: &Facts) -> bool {
        let inside = |at: &Affine, n: &Size| Pred::in_range(at, n).is_ok_and(|p| facts.proves(&p));
        let (Some(n), Some((first, others))) =
            (sources.get(usize::from(axis)), sources.get(..=usize::from(axis)).and_then(<[Size]>::split_first))
        else {
            return false;
        };
        let each = others.iter().try_fold(1_i64, |all, n| all.checked_mul(n.as_constant()?));
        if each.and_then(|each| first.scale(each).ok()).is_some_and(|all| inside(at, &all)) {
            return true;
        }
        let Some(before) = axis.checked_sub(1) else { return false };
        // n * row + place
        if let Some(each) = n.as_constant().filter(|each| *each > 0) {
            let (rows, rest): (Vec<_>, Vec<_>) = at.terms().iter().cloned().partition(|(_, k)| k % each == 0);
            let row = Affine::from_terms(rows.into_iter().map(|(v, k)| (v, k / each)), at.offset().div_euclid(each));
            let place = Affine::from_terms(rest, at.offset().rem_euclid(each));
            return row.is_ok_and(|row| self.is_number(map, sources, before, &row, facts))
                && place.is_ok_and(|place| inside(&place, n));
        }
        // From where the sources of a row begin, less than there are of them.
        let part = if axis == 1 { Part::Rows } else { Part::Children(before) };
        frames(&self.path).any(|frame| {
            let Frame::Let(start, id, row) = frame else { return false };
            let begins = |pointers: &Array| {
                (pointers.relation, pointers.part) == (map, part) && pointers.is_stored_order(&self.program.signature)
            };
            self.program.arrays.get(*id).is_some_and(begins)
                && at.sub(&Affine::index(*start)).is_ok_and(|place| inside(&place, n))
                && self.is_number(map, sources, before, row, facts)
        })
    }

    /// Whether an index is a node of a level of a view, or a place in its bins.
    fn is_node(&self, id: ArrayId, level: Option<u8>, at: &Affine, facts: &Facts) -> bool {
        let Some(array) = self.program.arrays.get(id) else { return false };
        let last = level.is_some_and(|level| usize::from(level) + 1 == array.axes.len());
        // Each source of a map has one target, so sources and nodes of the last level have the same numbers.
        if let Some(level) = level.map(|level| if last { level.saturating_sub(1) } else { level })
            && array.is_stored_order(&self.program.signature)
            && self.is_source(array.relation, level, at, facts)
        {
            return true;
        }
        let Some(i) = at.as_index() else { return false };
        let below = |segment: &Segment| {
            self.program.arrays.get(segment.pointers).is_some_and(|pointers| match level {
                Some(level) => {
                    pointers.level_below() == Some(level)
                        && array.has_nodes_of(pointers, level, &self.program.signature)
                }
                None => {
                    let view = pointers.relation == array.relation && pointers.axes == array.axes;
                    view && pointers.part == Part::Binned(Binned::All)
                }
            })
        };
        match frames(&self.path).find(|frame| frame.defines() == Some(i)) {
            Some(Frame::Loop(_, domain)) => matches!(domain.whole_of(), Domain::Segment(segment) if below(segment)),
            Some(Frame::Find(_, segment, _)) => below(segment) && facts.proves(&Pred::non_negative(at.clone())),
            // In the order of the relation entries are nodes.
            Some(Frame::Let(_, from, _)) if last && array.is_stored_order(&self.program.signature) => {
                let entries =
                    |from: &ArrayId| self.program.arrays.get(*from).filter(|from| from.relation == array.relation);
                entries(from).is_some_and(|from| matches!(from.part, Part::Entries | Part::Binned(Binned::Entries)))
            }
            Some(Frame::Let(_, from, _)) if level.is_none() => self
                .program
                .arrays
                .get(*from)
                .is_some_and(|from| from.relation == array.relation && from.part == Part::Binned(Binned::Places)),
            _ => false,
        }
    }

    fn array_is_read_inside(&self, id: ArrayId, at: &Affine) -> Checked<bool> {
        let Some(array) = self.program.arrays.get(id) else { return Ok(false) };
        let facts = self.facts(std::slice::from_ref(at))?;
        let shape = |axis: usize| self.program.signature.relations.get(array.relation)?.shape.get(axis);
        let below = |n: &Size| -> Checked<bool> { Ok(facts.proves(&Pred::in_range(at, n)?)) };
        let levels = u8::try_from(array.axes.len()).unwrap_or(u8::MAX);
        Ok(match array.part {
            Part::Roots | Part::Binned(Binned::All) => below(&Affine::constant(2))?,
            Part::Rows => match array.axes.first().and_then(|axis| shape(*axis)) {
                // There is one place more than there are rows.
                Some(n) => below(&n.add_constant(1)?)?,
                None => false,
            },
            Part::Starts => shape(0).map_or(Ok(false), below)?,
            Part::Nodes(level) | Part::Children(level) => self.is_node(id, Some(level), at, &facts),
            Part::Entries | Part::Projected(_) | Part::Neighbours(_) | Part::Binned(Binned::Places) => {
                self.is_node(id, levels.checked_sub(1), at, &facts)
            }
            Part::Binned(Binned::Entries | Binned::Axis(_)) => self.is_node(id, None, at, &facts),
        })
    }
}

/// Whether axes are known to have places.
fn has_places(axes: &[Size], facts: &Facts) -> bool {
    axes.iter().all(|n| Pred::lt(&0.into(), n).is_ok_and(|p| facts.proves(&p)))
}

/// How indices of the second iteration are called.
#[derive(Default)]
struct Rename {
    inside: BTreeSet<IndexId>,
}

impl Rename {
    fn index(&self, side: usize, i: IndexId) -> IndexId {
        if side == 1 && self.inside.contains(&i) { IndexId(i.0.saturating_add(SECOND)) } else { i }
    }

    fn affine(&self, side: usize, a: &Affine) -> Checked<Affine> {
        a.substitute(&|i| Some(Affine::index(self.index(side, i))).filter(|_| side == 1 && self.inside.contains(&i)))
    }
}

/// An index that a relation gives, in one of two iterations.
struct Given<'a> {
    index: Affine,
    by: By<'a>,
    at: Affine,
}

/// How an index is given by another one.
#[derive(Clone, Copy, PartialEq)]
enum By<'a> {
    /// It is a node below the other.
    Below(ArrayId),
    /// It is what an array holds at the other, a different value at each place, or not.
    Array(ArrayId, bool),
    /// It is where the sources of a map begin that have some places in common, as many of each.
    Start(ArrayId),
    /// It is the coordinate of a node, which is below a parent: different ones below the same.
    Coordinate(ArrayId),
    /// It is in a part of so many of a domain, which is the same for both iterations, with lengths that are multiples of a number.
    InPart(&'a Domain, u32, u32),
}

/// What is known of one iteration, or of two.
struct Both<'a> {
    program: &'a Program,
    facts: Facts,
    sides: [Vec<Given<'a>>; 2],
}

impl<'a> Both<'a> {
    /// What is known of a place: by loops, by tests, and by the definitions of its indices and of what these depend on.
    fn place(&mut self, side: usize, path: &Path<'a>, rename: &Rename, of: &[Affine]) -> Checked<()> {
        let mut wanted = BTreeSet::new();
        let want = |a: &Affine, wanted: &mut BTreeSet<IndexId>| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v {
                    wanted.insert(*i);
                }
            });
        };
        of.iter().for_each(|a| want(a, &mut wanted));
        for frame in frames(path) {
            match frame {
                // That a loop runs says something of sizes, too.
                Frame::Loop(_, domain) => domain.visit_affine(&mut |a| want(a, &mut wanted)),
                Frame::Test(cond) => cond.visit_affine(&mut |a| want(a, &mut wanted)),
                frame if !frame.defines().is_some_and(|i| wanted.contains(&i)) => continue,
                Frame::Let(_, _, at) => want(at, &mut wanted),
                Frame::Find(_, segment, key) => {
                    want(&segment.at, &mut wanted);
                    if let Some((_, key)) = key {
                        want(key, &mut wanted);
                    }
                }
                Frame::Axis(..) | Frame::Found(..) | Frame::Length(..) => {}
            }
            self.frame(side, frame, rename)?;
        }
        Ok(())
    }

    fn frame(&mut self, side: usize, frame: &Frame<'a>, rename: &Rename) -> Checked<()> {
        let named = |i: IndexId| rename.index(side, i);
        match frame {
            Frame::Loop(i, domain) => {
                let index = Affine::index(named(*i));
                let mut domain: &'a Domain = domain;
                while let Domain::Part { whole, part, parts, grain } = domain {
                    let mut is_one = true;
                    whole.visit_affine(&mut |a| is_one &= !rename.inside.iter().any(|i| a.mentions(*i)));
                    if is_one {
                        let (at, by) = (rename.affine(side, part)?, By::InPart(whole, *parts, *grain));
                        self.sides[side].push(Given { index: index.clone(), by, at });
                    }
                    domain = whole;
                }
                match domain {
                    Domain::Range { lower, upper } => {
                        let says = predicate::of_range(&index, (lower, upper), &|a| rename.affine(side, a))?;
                        self.facts.assume(&says);
                    }
                    Domain::Segment(segment) => {
                        self.facts.assume(&Pred::non_negative(index.clone()));
                        let at = rename.affine(side, &segment.at)?;
                        self.facts.assume(&self.is_row(segment.pointers, &at)?);
                        self.sides[side].push(Given { index, by: By::Below(segment.pointers), at });
                    }
                    Domain::Part { .. } => {}
                }
            }
            Frame::Axis(i, n) => self.facts.range(named(*i), n),
            Frame::Length(i, n) => {
                let index = Affine::index(named(*i));
                self.facts.assume(&Pred::non_negative(index.clone()));
                self.facts.assume(&Pred::non_negative(n.sub(&index)?));
            }
            Frame::Found(i, n) => {
                let index = Affine::index(named(*i));
                self.facts.assume(&Pred::lt(&index, n)?);
                self.facts.assume(&Pred::non_negative(index.add_constant(1)?));
            }
            Frame::Find(i, segment, key) => {
                let index = Affine::index(named(*i));
                self.facts.assume(&Pred::non_negative(index.add_constant(1)?));
                let at = rename.affine(side, &segment.at)?;
                let mut there = self.is_row(segment.pointers, &at)?;
                if let Some((nodes, key)) = key
                    && let Some(n) = self.coordinates(*nodes)
                {
                    there = there.and(Pred::in_range(&rename.affine(side, key)?, n)?);
                }
                let missing = Pred::lt(&index, &Affine::constant(0))?;
                self.facts.assume(&missing.or(there));
                self.sides[side].push(Given { index, by: By::Below(segment.pointers), at });
            }
            Frame::Let(i, id, at) => {
                let (index, at) = (Affine::index(named(*i)), rename.affine(side, at)?);
                let Some(array) = self.program.arrays.get(*id) else { return Ok(()) };
                if let Some(n) = self.coordinates(*id).cloned() {
                    self.facts.range(named(*i), &n);
                }
                self.facts.assume(&Pred::non_negative(index.clone()));
                let by = match array.part {
                    Part::Nodes(0) if array.axes.len() == 1 => By::Array(*id, true),
                    Part::Nodes(_) => By::Coordinate(*id),
                    Part::Entries | Part::Binned(Binned::Entries | Binned::Places) => By::Array(*id, true),
                    Part::Rows | Part::Children(_) if self.axes_below(*id).is_some() => By::Start(*id),
                    _ => By::Array(*id, false),
                };
                self.sides[side].push(Given { index, by, at });
            }
            Frame::Test(cond) => {
                if let Some(p) = predicate::of_test(cond, &|a| rename.affine(side, a))? {
                    self.facts.assume(&p);
                }
            }
        }
        Ok(())
    }

    /// The range of what an array holds, where that is coordinates.
    fn coordinates(&self, id: ArrayId) -> Option<&Size> {
        let array = self.program.arrays.get(id)?;
        let axis = match array.part {
            Part::Nodes(level) => *array.axes.get(usize::from(level))?,
            Part::Binned(Binned::Axis(axis)) => axis,
            _ => return None,
        };
        self.program.signature.relations.get(array.relation)?.shape.get(axis)
    }

    /// The axis of a map of whose places there is a node each below each place of pointers, and those of the sources after it; nothing for other
    /// pointers, and those above targets.
    fn axes_below(&self, pointers: ArrayId) -> Option<(&'a Size, &'a [Size])> {
        let program: &'a Program = self.program;
        let array = program.arrays.get(pointers).filter(|array| array.is_stored_order(&program.signature))?;
        let found = program.signature.relations.get(array.relation).filter(|found| found.kind == RelationKind::Map)?;
        let (_, sources) = found.shape.split_last()?;
        let level = usize::from(array.level_below()?);
        sources.get(level..)?.split_first().filter(|_| level > 0)
    }

    /// Whether two places where sources begin are less than a row of them apart. There are none where a later axis has no places.
    fn are_near(&self, pointers: ArrayId, a: &Affine, b: &Affine) -> Checked<bool> {
        let Some((n, later)) = self.axes_below(pointers) else { return Ok(false) };
        let near = [Pred::lt(&a.sub(b)?, n)?, Pred::lt(&b.sub(a)?, n)?];
        Ok(has_places(later, &self.facts) && near.iter().all(|p| self.facts.proves(p)))
    }

    /// What holds of a place of pointers below which there are nodes.
    fn is_row(&self, pointers: ArrayId, at: &Affine) -> Checked<Pred> {
        let first =
            self.program.arrays.get(pointers).filter(|array| array.part == Part::Rows).and_then(|array| {
                self.program.signature.relations.get(array.relation)?.shape.get(*array.axes.first()?)
            });
        first.map_or(Ok(Pred::True), |n| Pred::in_range(at, n))
    }

    /// Whether both iterations cannot be.
    fn contradict(&mut self) -> Checked<bool> {
        self.close()?;
        Ok(self.facts.contradictory())
    }

    /// Adds what follows from relations.
    fn close(&mut self) -> Checked<()> {
        let sides = std::mem::take(&mut self.sides);
        let mut pending: Vec<(&Given<'_>, &Given<'_>)> =
            sides[0].iter().flat_map(|a| sides[1].iter().map(move |b| (a, b))).filter(|(a, b)| a.by == b.by).collect();
        loop {
            let before = pending.len();
            let mut left = Vec::with_capacity(before);
            for (a, b) in pending {
                let equal = Pred::equal(&a.index, &b.index)?;
                let at = Pred::equal(&a.at, &b.at)?;
                let is_found = Pred::non_negative(a.index.clone());
                let both = at.clone().and(equal.clone());
                let follows = match a.by {
                    By::InPart(..) | By::Array(_, true) if self.facts.proves(&equal) => Some(&at),
                    By::Below(_) if self.facts.proves(&equal) && self.facts.proves(&is_found) => Some(&at),
                    By::Array(..) | By::Coordinate(_) | By::Start(_) if self.facts.proves(&at) => Some(&equal),
                    By::Start(pointers) if self.are_near(pointers, &a.index, &b.index)? => Some(&both),
                    By::Coordinate(_) if self.facts.proves(&equal) && self.siblings(a, b, &sides)? => Some(&at),
                    _ => None,
                };
                match follows {
                    Some(p) => self.facts.assume(p),
                    None => left.push((a, b)),
                }
            }
            pending = left;
            if pending.is_empty() || pending.len() == before {
                return Ok(());
            }
        }
    }

    /// Whether the nodes of two coordinates are below one parent.
    fn siblings(&self, a: &Given<'a>, b: &Given<'a>, sides: &[Vec<Given<'a>>; 2]) -> Checked<bool> {
        let [one, other] = [(&sides[0], a), (&sides[1], b)].map(|(side, coordinate)| {
            side.iter().find(|given| given.index == coordinate.at && matches!(given.by, By::Below(_)))
        });
        let (Some(one), Some(other)) = (one, other) else { return Ok(false) };
        Ok(one.by == other.by && self.facts.proves(&Pred::equal(&one.at, &other.at)?))
    }
}

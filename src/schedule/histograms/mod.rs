//! Sums of which each term knows its whole place are added up term by term, in the order of their sources.
//!
//! ```text
//! for i, j                                         w = 0
//!   s = 0                                          for p in sources
//!   for p in sources of i - c along m     ==         i = m(p) + c, j = n(p) + d
//!     if j = n(p) + d { s += e(p, i, j) }            w[i, j] += e(p, i, j)
//!   x[i, j] = f(s)                                 for i, j
//!                                                    x[i, j] = f(w[i, j])
//! ```
//!
//! The left side goes through all sources of `i` once for each `j`, and takes what belongs to a source from anywhere. The right side takes a step for
//! each source, in the order in which they lie. It is the generalised *histogram* (reduce by index) of Henriksen, Hellfritzsch, Sadayappan and Oancea
//! (2020). Gradients by grids that are read at the coordinates of points are such sums, one for each corner.
//!
//! - A loop whose index is in the terms and not in their places becomes an inner one: `w[i, j, k] += e(p, i, j, k)`.
//! - A coordinate may tell a few places beside each other: `m(p) <= i <= m(p) + c`, as a test or as a loop over `sources of i - a`. The source then goes
//!   through these, as a point does that spreads over the corners of a cell.
//! - Tests around a sum that mention its places are asked for each term, unless what a map says of its targets decides them. Where they fail there is
//!   nothing to read but zeros, so readers do not ask. Readers alone ask for numbers that are other such sums.
//! - Sums at the same place that are added, and read by nobody else, are one.
//! - What is nothing but such a sum is added up where it is stored.
//!
//! **Why it is right.** A source has one target, so the sources of all `i` are all sources, and each is that of one `i`. Of each place the same terms are
//! added, in the order of the sources on both sides; only sums that become one have another order. Terms take nothing that the nest writes.
//!
//! **What it refuses.** Sums that one coordinate tells, or none: see [`workspaces`](super::workspaces), and [`scatter`](super::scatter), which also cuts
//! what is here into parts. Terms of which an inner loop over anything but a whole axis is a place. A tensor of places that is larger than all tensors
//! there are.

mod term;

use std::collections::{BTreeMap, BTreeSet};

use term::Term;

use super::hold::compact;
use super::workspaces::{along_axis, asks_numbers, bounds, cond_mentions, needed, unit, varies, visit_places};
use crate::base::{Arena, IndexId, RelationId};
use crate::error::Result;
use crate::index::{Affine, Pred, Size};
use crate::loops::{
    Array, ArrayId, Buffer, BufferId, Cond, Decision, Domain, Fresh, Nest, Part, Place, Program, Real, RealId, Stmt,
    changed_outside, loads, mentioned, reads,
};
use crate::solver::Facts;
use crate::ty::{Precision, RelationKind, Signature};

/// How many places beside each other a coordinate may tell.
const MAX_BESIDE: i64 = 16;

/// Gives such sums tensors of their own.
pub(super) fn run(program: &mut Program) -> Result<()> {
    if !program.signature.relations.values().any(|relation| relation.kind == RelationKind::Map) {
        return Ok(());
    }
    let facts = program.signature.facts();
    let before = (program.arrays.len(), program.buffers.len());
    let mut nests = Vec::with_capacity(program.nests.len());
    for nest in std::mem::take(&mut program.nests) {
        let mut pass = Pass {
            signature: &program.signature,
            arrays: &mut program.arrays,
            buffers: &mut program.buffers,
            names: Fresh::after(&nest.body),
            facts: &facts,
            nest: &nest,
            made: BTreeMap::new(),
        };
        let mut body = nest.body.clone();
        pass.sums(&mut body, &Scope::default())?;
        if pass.made.is_empty() {
            nests.push(nest);
            continue;
        }
        pass.joined(&mut body)?;
        let copied = pass.in_place(&body);
        let Pass { made, .. } = pass;
        for (buffer, histogram) in made {
            nests.push(histogram.nest(buffer)?);
        }
        if !copied {
            nests.push(Nest { body: without_unread(body), ..nest });
        }
    }
    program.nests = nests;
    if before != (program.arrays.len(), program.buffers.len()) {
        compact(program);
    }
    Ok(())
}

/// Sums at the places of a tensor.
struct Histogram {
    /// How many sums.
    sums: usize,
    /// Numbers that are the same for all sources.
    shared: Vec<Stmt>,
    /// How many sources there are, and what each of them adds.
    terms: Vec<(Source, Vec<Stmt>)>,
}

/// A loop over all sources.
#[derive(Clone)]
struct Source {
    index: IndexId,
    extent: Size,
}

impl Histogram {
    fn nest(self, buffer: BufferId) -> Result<Nest> {
        let mut body = vec![Stmt::Fill(buffer)];
        body.extend(self.shared);
        let mut loops: Vec<(Source, Vec<Stmt>)> = Vec::new();
        for (source, term) in self.terms {
            match loops.iter_mut().find(|(known, _)| known.extent == source.extent) {
                Some((known, all)) => {
                    let mut names = Fresh::none(&term);
                    names.keep(source.index, known.index);
                    all.extend(names.body(&term)?);
                }
                None => loops.push((source, term)),
            }
        }
        for (source, term) in loops {
            body.push(Stmt::one_by_one(source.index, Domain::whole(&source.extent)?, term));
        }
        let body = Fresh::after(&[]).body(&body)?;
        Ok(Nest { buffers: vec![buffer], decisions: vec![Decision::Histogram { sums: self.sums }], body })
    }
}

/// A loop around over an axis.
#[derive(Clone)]
struct Axis {
    index: IndexId,
    domain: Domain,
    /// How many values there are at most.
    extent: Size,
}

impl Axis {
    fn of(index: IndexId, domain: &Domain) -> Option<Axis> {
        Some(Axis { index, domain: domain.clone(), extent: along_axis(domain)? })
    }
}

/// A loop over few values around one over the sources of places at that distance.
struct Offset<'s> {
    index: IndexId,
    domain: &'s Domain,
    extent: Size,
    sources: &'s Stmt,
}

impl<'s> Offset<'s> {
    fn of(stmt: &'s Stmt) -> Option<Offset<'s>> {
        let Stmt::For { index, domain, lanes: 1, jam: 1, parallel: false, body } = stmt else { return None };
        let [sources @ Stmt::For { domain: Domain::Segment(segment), .. }] = body.as_slice() else { return None };
        let extent = along_axis(domain).filter(|n| n.as_constant().is_some_and(|n| n <= MAX_BESIDE))?;
        segment.at.mentions(*index).then_some(Offset { index: *index, domain, extent, sources })
    }
}

/// A place as an index of a loop around and what is added to it, of which an offset may be a part.
fn place_of(at: &Affine, offset: Option<&Offset<'_>>) -> Result<Option<(IndexId, Affine)>> {
    let is_offset = |i: IndexId| offset.is_some_and(|offset| offset.index == i);
    let alone = at.substitute(&|i| is_offset(i).then(|| Affine::constant(0)))?;
    let Some((first, _)) = unit(&alone)? else { return Ok(None) };
    Ok(Some((first, at.sub(&first.into())?)))
}

/// What is around a sum.
#[derive(Clone, Default)]
struct Scope {
    /// The loops over axes, from outside in.
    around: Vec<Axis>,
    /// Numbers, in order.
    numbers: Vec<Stmt>,
    tests: Vec<Cond>,
    /// Other indices and registers.
    indices: BTreeSet<IndexId>,
    locals: BTreeSet<RealId>,
}

struct Pass<'a> {
    signature: &'a Signature,
    arrays: &'a mut Arena<ArrayId, Array>,
    buffers: &'a mut Arena<BufferId, Buffer>,
    names: Fresh,
    facts: &'a Facts,
    nest: &'a Nest,
    made: BTreeMap<BufferId, Histogram>,
}

impl Pass<'_> {
    /// Takes sums out of statements.
    // Loops and tests nest to a bounded depth.
    fn sums(&mut self, body: &mut Vec<Stmt>, scope: &Scope) -> Result<()> {
        let mut scope = scope.clone();
        let mut at = 0;
        while at < body.len() {
            let read = match &mut body[at] {
                stmt @ Stmt::Define(..) => {
                    scope.numbers.push(stmt.clone());
                    None
                }
                Stmt::Local(r) => {
                    scope.locals.insert(*r);
                    None
                }
                Stmt::If { cond, body: inside } => {
                    let mut inner = scope.clone();
                    inner.tests.push(cond.clone());
                    self.sums(inside, &inner)?;
                    (!asks_numbers(cond)).then(|| self.untested(inside)).flatten()
                }
                stmt @ Stmt::For { lanes: 1, jam: 1, .. } => {
                    let read = self.sum(stmt, &scope)?;
                    if let (None, Stmt::For { index, domain, body: inside, .. }) = (&read, stmt)
                        && let Some(axis) = Axis::of(*index, domain)
                    {
                        let mut inner = scope.clone();
                        inner.around.push(axis);
                        self.sums(inside, &inner)?;
                    }
                    read
                }
                stmt => {
                    scope.indices.extend(stmt.defines());
                    None
                }
            };
            match read {
                Some(read) => {
                    let count = read.len();
                    body.splice(at..=at, read);
                    at += count;
                }
                None => at += 1,
            }
        }
        Ok(())
    }

    /// What is done under a test, if it does nothing but to read sums, which are 0 where the test fails.
    fn untested(&self, inside: &[Stmt]) -> Option<Vec<Stmt>> {
        let mut own = BTreeSet::new();
        let mut out = Vec::with_capacity(inside.len());
        for stmt in inside {
            out.push(match stmt {
                Stmt::Define(r, Real::Load(place)) if self.made.contains_key(&place.buffer) => {
                    own.insert(*r);
                    stmt.clone()
                }
                Stmt::Local(r) => {
                    own.insert(*r);
                    stmt.clone()
                }
                Stmt::Define(..) => continue,
                Stmt::Assign(r, a) | Stmt::Accumulate(r, a) if own.contains(a) => Stmt::Accumulate(*r, *a),
                _ => return None,
            });
        }
        Some(out)
    }

    /// Has a sum over the sources of a map in a tensor of its own, and gives what reads it; nothing where terms do not know their places.
    fn sum(&mut self, stmt: &Stmt, scope: &Scope) -> Result<Option<Vec<Stmt>>> {
        let offset = Offset::of(stmt);
        let sources = offset.as_ref().map_or(stmt, |offset| offset.sources);
        let Stmt::For { index, domain: Domain::Segment(segment), lanes: 1, jam: 1, parallel: false, body } = sources
        else {
            return Ok(None);
        };
        let Some(Array { relation, axes, part: Part::Rows }) = self.arrays.get(segment.pointers).cloned() else {
            return Ok(None);
        };
        let map = self.signature.relations.get(relation).filter(|map| map.kind == RelationKind::Map);
        let place = place_of(&segment.at, offset.as_ref())?;
        let (Some(map), [1, 0], Some((first, shift))) = (map, axes.as_slice(), place) else { return Ok(None) };
        let sums: Vec<RealId> = changed_outside(std::slice::from_ref(stmt)).into_iter().collect();
        let ([sum], [sources, targets]) = (sums.as_slice(), map.shape.as_slice()) else { return Ok(None) };
        let own = self.nest.buffers.as_slice();
        let is_own = |stmts: &[Stmt]| loads(stmts).iter().any(|place| own.contains(&place.buffer));
        if !scope.around.iter().any(|axis| axis.index == first)
            || mentioned([stmt]).iter().any(|i| scope.indices.contains(i))
            || scope.tests.iter().any(|cond| scope.indices.iter().any(|i| cond_mentions(cond, *i)))
            || is_own(std::slice::from_ref(stmt))
            || is_own(&scope.numbers)
            || reads(body, |r| r == *sum)
        {
            return Ok(None);
        }
        self.names.again();
        let mut free: BTreeSet<IndexId> = scope.around.iter().map(|axis| axis.index).collect();
        let mut varying = BTreeSet::new();
        let (dependent, fixed): (Vec<Stmt>, Vec<Stmt>) =
            scope.numbers.iter().cloned().partition(|number| varies(number, &free, &mut varying));
        let asked: Vec<&Cond> = scope.tests.iter().collect();
        let shared = self.names.body(&needed(&fixed, &[std::slice::from_ref(stmt), &dependent], &asked))?;

        let (source, target) = (self.names.fresh_index(), self.names.fresh_index());
        let body = self.of_source(body, (*index, relation), source);
        let mut facts = self.facts.clone();
        facts.range(source, sources);
        facts.range(target, targets);
        let array = self.arrays.find_or_push(Array { relation, axes: vec![0, 1], part: Part::Nodes(1) });
        let mut out = vec![Stmt::Let { index: target, array, at: source.into(), step: None }];
        let distance = self.names.fresh_index();
        if let Some(offset) = &offset {
            self.names.keep(offset.index, distance);
            facts.range(distance, &offset.extent);
        }
        self.names.fix(first, Affine::index(target).sub(&self.names.affine(&shift)?)?);
        free.remove(&first);
        if let Some(offset) = &offset
            && !self.is_whole(offset, &facts)?
        {
            return Ok(None);
        }
        let mut term = Term {
            pass: self,
            scope,
            sum: *sum,
            told: BTreeSet::from([first]),
            free,
            coordinates: BTreeMap::new(),
            dependent,
            varying,
            facts,
            bounds: Vec::new(),
            made: None,
        };
        let mut inside = Vec::new();
        if !term.stmts(&body, &mut inside)? || mentioned(&inside).contains(index) {
            return Ok(None);
        }
        let Some((buffer, at)) = term.made else { return Ok(None) };
        match &offset {
            Some(offset) => out.push(Stmt::one_by_one(distance, Domain::whole(&offset.extent)?, inside)),
            None => out.extend(inside),
        }
        let source = Source { index: source, extent: sources.clone() };
        self.made.insert(buffer, Histogram { sums: 1, shared, terms: vec![(source, out)] });
        let x = self.names.fresh_real();
        let place = Place { buffer, at: at.into_iter().map(Affine::index).collect() };
        Ok(Some(vec![Stmt::Define(x, Real::Load(place)), Stmt::Accumulate(*sum, x)]))
    }

    /// Whether the bounds of an offset leave none of its values out, where places are those of targets of the map.
    fn is_whole(&self, offset: &Offset<'_>, facts: &Facts) -> Result<bool> {
        let Some(bounds) = bounds(offset.index, offset.domain) else { return Ok(false) };
        for bound in bounds {
            let Cond::NonNegative(a) = bound else { return Ok(false) };
            if !facts.proves(&Pred::non_negative(self.names.affine(&a)?)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is done for a node of the sources of a target, without what only says which source it is.
    // Loops and tests nest to a bounded depth.
    fn of_source(&mut self, body: &[Stmt], (node, map): (IndexId, RelationId), source: IndexId) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            let mut stmt = stmt.clone();
            match &mut stmt {
                Stmt::Let { index, array, at, .. } if at.as_index() == Some(node) => {
                    let is_source = self.arrays.get(*array).is_some_and(|array| {
                        let is_view = array.relation == map && array.axes == [1, 0];
                        is_view && matches!(array.part, Part::Nodes(1) | Part::Entries)
                    });
                    if is_source {
                        self.names.keep(*index, source);
                        continue;
                    }
                }
                Stmt::For { body, .. } | Stmt::If { body, .. } => *body = self.of_source(body, (node, map), source),
                _ => {}
            }
            out.push(stmt);
        }
        out
    }

    /// How many values the coordinates of an array may have.
    fn extent(&self, array: ArrayId) -> Option<&Size> {
        self.arrays.get(array)?.extent(self.signature)
    }

    /// Whether there is a tensor as large as one with such axes, but for constants.
    fn has_room(&self, dims: &[Size]) -> bool {
        self.buffers.values().any(|buffer| {
            let mut left: Vec<&Size> = buffer.dims.iter().collect();
            dims.iter().filter(|n| n.as_constant().is_none()).all(|n| {
                let is_same = |m: &&Size| n.sub(m).is_ok_and(|rest| rest.as_constant().is_some());
                left.iter().position(is_same).map(|at| left.remove(at)).is_some()
            })
        })
    }
}

impl Pass<'_> {
    /// Sums that are read into a register are that register, and such sums at one place that are added are one.
    // Loops and tests nest to a bounded depth.
    fn joined(&mut self, body: &mut Vec<Stmt>) -> Result<()> {
        let mut changes: BTreeMap<RealId, usize> = BTreeMap::new();
        for stmt in body.iter_mut() {
            if let Stmt::For { body, .. } | Stmt::If { body, .. } = stmt {
                self.joined(body)?;
            }
            stmt.visit(&mut |stmt| {
                if let Some(r) = stmt.changes() {
                    *changes.entry(r).or_default() += 1;
                }
            });
        }
        let mut names = Fresh::none(body);
        let mut read: BTreeSet<RealId> = BTreeSet::new();
        let mut locals: BTreeSet<RealId> = BTreeSet::new();
        let mut known: BTreeSet<RealId> = BTreeSet::new();
        body.retain(|stmt| match stmt {
            Stmt::Define(r, Real::Load(place)) if self.made.contains_key(&place.buffer) => read.insert(*r),
            Stmt::Local(r) if changes.get(r) == Some(&1) => locals.insert(*r),
            Stmt::Accumulate(r, x) if locals.contains(r) && read.contains(&names.read(*x)) => {
                names.alias(*r, *x);
                known.insert(*r);
                false
            }
            _ => true,
        });
        body.retain(|stmt| !matches!(stmt, Stmt::Local(r) if known.contains(r)));
        *body = names.body(body)?;
        self.added(body);
        Ok(())
    }

    /// Makes one of sums that are added.
    fn added(&mut self, body: &mut Vec<Stmt>) {
        let mut uses: BTreeMap<RealId, usize> = BTreeMap::new();
        body.iter()
            .for_each(|stmt| stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| *uses.entry(r).or_default() += 1)));
        let mut read: BTreeMap<RealId, Place> = BTreeMap::new();
        let mut gone: BTreeSet<RealId> = BTreeSet::new();
        for stmt in body.iter_mut() {
            let Stmt::Define(z, real) = stmt else { continue };
            match real {
                Real::Load(place) if self.made.contains_key(&place.buffer) && uses.get(z) == Some(&1) => {
                    read.insert(*z, place.clone());
                }
                Real::Add(x, y) => {
                    let (x, y) = (*x, *y);
                    let (Some(a), Some(b)) = (read.get(&x), read.get(&y)) else { continue };
                    let dims = |place: &Place| self.buffers.get(place.buffer).map(|buffer| buffer.dims.clone());
                    if a.buffer == b.buffer || a.at != b.at || dims(a) != dims(b) {
                        continue;
                    }
                    let (a, b) = (a.clone(), b.buffer);
                    if let Some(Histogram { sums, shared, terms }) = self.made.remove(&b)
                        && let Some(all) = self.made.get_mut(&a.buffer)
                    {
                        all.sums += sums;
                        all.shared.extend(shared);
                        let into = |place: &mut Place| {
                            if place.buffer == b {
                                place.buffer = a.buffer;
                            }
                        };
                        all.terms.extend(terms.into_iter().map(|(source, mut term)| {
                            term.iter_mut().for_each(|stmt| visit_places(stmt, &mut |place| into(place)));
                            (source, term)
                        }));
                    }
                    gone.extend([x, y]);
                    *real = Real::Load(a.clone());
                    if uses.get(z) == Some(&1) {
                        read.insert(*z, a);
                    }
                }
                _ => {}
            }
        }
        body.retain(|stmt| !matches!(stmt, Stmt::Define(r, _) if gone.contains(r)));
    }

    /// Whether a nest does nothing any more but to copy such sums, which then are added up where it copies them to.
    fn in_place(&mut self, body: &[Stmt]) -> bool {
        let body = without_unread(body.to_vec());
        let (mut loops, mut inner) = (Vec::new(), body.as_slice());
        while let [Stmt::For { index, domain, body, .. }] = inner {
            loops.extend(domain.whole_extent().map(|n| (*index, n)));
            inner = body;
        }
        let [Stmt::Define(x, Real::Load(from)), Stmt::Store(to, stored)] = inner else { return false };
        let (Some(row), Some(buffer)) = (self.buffers.get(from.buffer), self.buffers.get(to.buffer)) else {
            return false;
        };
        let axis = |a: &Affine| from.at.iter().position(|b| a == b);
        let axes: Option<Vec<usize>> = to.at.iter().map(axis).collect();
        let Some(axes) = axes.filter(|axes| axes.iter().collect::<BTreeSet<_>>().len() == from.at.len()) else {
            return false;
        };
        let is_whole = axes.iter().zip(&buffer.dims).all(|(k, n)| {
            let own = from.at[*k].as_index();
            row.dims.get(*k) == Some(n) && loops.iter().any(|(i, m)| Some(*i) == own && m == n)
        });
        let is_all = x == stored && is_whole && loops.len() == axes.len() && buffer.dims.len() == axes.len();
        if !is_all
            || buffer.entries.is_some()
            || buffer.precision != Precision::Double
            || self.nest.buffers != [to.buffer]
        {
            return false;
        }
        let Some(mut histogram) = self.made.remove(&from.buffer) else { return false };
        let mut put = |place: &mut Place| {
            if place.buffer == from.buffer {
                let at = axes.iter().filter_map(|k| place.at.get(*k).cloned()).collect();
                *place = Place { buffer: to.buffer, at };
            }
        };
        histogram.terms.iter_mut().flat_map(|(_, term)| term).for_each(|stmt| visit_places(stmt, &mut put));
        self.made.insert(to.buffer, histogram);
        true
    }
}

/// A body without numbers that nobody reads.
fn without_unread(mut body: Vec<Stmt>) -> Vec<Stmt> {
    fn keep(body: &mut Vec<Stmt>, asked: &mut BTreeSet<RealId>) {
        for at in (0..body.len()).rev() {
            if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut body[at] {
                keep(body, asked);
            }
            match &body[at] {
                Stmt::Define(r, _) if !asked.contains(r) => drop(body.remove(at)),
                stmt => stmt.visit_reads(&mut |r| asked.extend([r])),
            }
        }
    }
    keep(&mut body, &mut BTreeSet::new());
    body
}

//! Sums by target, computed in the order of their sources.
//!
//! ```text
//! for j in targets                             for g in 0 .. P - 1
//!   s = 0                                        for i in part g of P of sources
//!   for i in sources of j                          j = target of i
//!     s += t[i, ..]                   ==           w[g, j] += t[i, ..]
//!   x[j] = f(s)
//!                                              for j in targets
//!                                                s = 0
//!                                                for g in 0 .. P - 1 { s += w[g, j] }
//!                                                x[j] = f(s)
//! ```
//!
//! A sum along another view of a relation takes what belongs to each of its sources from another place in memory, and a sum over all sources of
//! which one in a hundred has the target takes the others, too. Where what belongs to the sources does not fit the caches and the sums do, it is
//! better to go through the sources in their order and add to the sums: a *scatter*, which is the transposed gather.
//!
//! There are two kinds of such sums:
//!
//! - Along a view of a relation that is not in the order in which its entries are numbered ([`find`]: `Tuples`). They become a nest of their own, over the
//!   view that is in this order.
//! - Over all sources, at each of which a number tells its target (`Numbers`), as where an extremum is. What is added for a source is added where its
//!   number is stored, if there are several parts, or in a nest of its own: wherever there are some targets, since it takes a step for each source, not
//!   one for each source and target.
//!
//! Where a nest [goes through sources](super::histograms) already, each part has places of its own, and they are added where the nest was.
//!
//! **The order of sums** depends on sizes alone: `P` comes from how many targets and sources there are, each part adds in the order of the sources, and the
//! parts are added in order. So bits are the same on any number of threads. A place of `w` belongs to one part, and is read and written by it alone.
//!
//! **When.** There are many sources for each target, or a few where the sums fit the cache, so that to clear and add `P` copies of the sums is little beside the
//! sums themselves. It is known when a program is bound.

mod find;

use std::collections::BTreeMap;

use super::hold;
use super::machine::{LANES_OF_ELEMENTS, PARTS, SHORT, VECTOR};
use super::workspaces::visit_places;
use crate::base::{IndexId, RelationId};
use crate::error::{Error, Result};
use crate::index::{Affine, Size};
use crate::loops::{
    Array, ArrayId, Buffer, BufferId, Cond, Decision, Domain, Fresh, Nest, Part, Place, Program, Real, RealId, Segment,
    Stmt, adds_where_told, has_calls, loads,
};
use crate::ty::RelationKind;
use find::{Finder, Source, Sum, Term, Told, told};

/// The fewest parts of sources: there may be as many threads.
const LEAST_PARTS: u64 = 4;
/// How many numbers are added for each place of the sums of all parts, at least, where these do not fit the cache.
const ADDED: u64 = 2;
/// For how many targets, which numbers tell, sources are gone through once for all, and not once for each.
const LEAST_TARGETS: u64 = 4;
/// How many times as many numbers as there are sums do not fit the cache that the sums fit.
const LARGER: u64 = 4;

/// The sizes of a program that is bound, and of the machine.
pub struct Sizes<'a> {
    /// The value of an expression over sizes.
    pub length: &'a dyn Fn(&Size) -> Option<u64>,
    /// How many tuples a relation has.
    pub tuples: &'a dyn Fn(RelationId) -> Option<u64>,
    /// How many numbers fit a cache: [`machine::CACHED`](super::machine::CACHED), but in tests.
    pub cached: u64,
}

/// Whether a nest has sums of which a number tells the target of each source, and there may be enough targets.
pub(super) fn has_told_sums(program: &Program, nest: &Nest) -> bool {
    let is_told = |sum: &Sum| {
        let is_few = sum.target.1.as_constant().is_some_and(|n| n.unsigned_abs() < LEAST_TARGETS);
        matches!(sum.source, Source::Numbers { .. }) && !is_few
    };
    Finder::of(program, nest).sums().iter().any(|(_, sum)| is_told(sum))
}

/// Computes sums by target in the order of their sources, where that is faster for these sizes.
pub(super) fn run(program: Program, sizes: Option<&Sizes<'_>>) -> Result<Program> {
    let scattered = sizes.map_or(Ok(None), |sizes| scattered(&program, sizes))?;
    Ok(scattered.unwrap_or(program))
}

fn scattered(program: &Program, sizes: &Sizes<'_>) -> Result<Option<Program>> {
    let mut pass = Pass {
        program: Program { nests: Vec::with_capacity(program.nests.len()), ..program.clone() },
        sizes,
        cut: BTreeMap::new(),
    };
    let mut any = false;
    for nest in &program.nests {
        if let Some(nests) = pass.histogram(nest)? {
            pass.program.nests.extend(nests);
            any = true;
            continue;
        }
        let mut nest = nest.clone();
        for (path, sum) in Finder::of(program, &nest).sums().into_iter().rev() {
            if let Some((buffer, parts)) = pass.sum(&nest, &sum)? {
                let mut local = Fresh::after(&nest.body);
                let read = sum.read(buffer, parts, &mut local)?;
                replace(&mut nest.body, &path, read);
                nest.decisions.push(Decision::PartsAdded { parts });
                any = true;
            }
        }
        pass.program.nests.push(nest);
    }
    if !any {
        return Ok(None);
    }
    hold::compact(&mut pass.program);
    let program = pass.program;
    if cfg!(debug_assertions) {
        crate::stages::check("scatter", &program)?;
    }
    Ok(Some(program))
}

/// Puts statements in the place of one.
pub(super) fn replace(body: &mut Vec<Stmt>, path: &[usize], by: Vec<Stmt>) {
    match path {
        [] => {}
        [at] => {
            body.splice(*at..=*at, by);
        }
        [at, rest @ ..] => {
            if let Some(Stmt::For { body, .. } | Stmt::If { body, .. }) = body.get_mut(*at) {
                replace(body, rest, by);
            }
        }
    }
}

impl Sum {
    /// `for g { s += w[g, j, ..] }`, and what is done with the sums.
    fn read(&self, buffer: BufferId, parts: u32, names: &mut Fresh) -> Result<Vec<Stmt>> {
        let g = names.fresh_index();
        let mut body = Vec::with_capacity(2 * self.added.len());
        for (k, (into, _)) in self.added.iter().enumerate() {
            let x = names.fresh_real();
            body.push(Stmt::Define(x, Real::Load(self.place(buffer, g, self.read_at()?, k)?)));
            body.push(Stmt::Accumulate(*into, x));
        }
        let domain = Domain::whole(&Affine::constant(i64::from(parts)))?;
        let sum = Stmt::one_by_one(g, domain, body);
        Ok(self.locals.iter().map(|r| Stmt::Local(*r)).chain([sum]).chain(self.tail.iter().cloned()).collect())
    }

    /// Where a part has one of the sums of a target.
    fn place(&self, buffer: BufferId, part: IndexId, target: Affine, sum: usize) -> Result<Place> {
        let ranks = self.ranks.iter().map(|(i, _)| Affine::index(*i));
        let at = [part.into(), target].into_iter().chain(ranks).chain(self.along_sums(sum)?).collect();
        Ok(Place { buffer, at })
    }

    /// The target whose sum is read where the sum stands.
    fn read_at(&self) -> Result<Affine> {
        let shift = match &self.source {
            Source::Tuples { shift, .. } => *shift,
            Source::Numbers { .. } => 0,
        };
        Ok(Affine::index(self.target.0).add_constant(shift)?)
    }

    /// What there is on the axis of the sums, which only several have.
    fn along_sums(&self, number: usize) -> Result<Option<Affine>> {
        let number = i64::try_from(number).map_err(|_| Error::Overflow)?;
        Ok((self.added.len() > 1).then(|| Affine::constant(number)))
    }

    /// What is done for a source: numbers that are the same for all of them, and what adds its terms to the sums of a part, in the names of the
    /// nest in which the sum is, but for `part`.
    fn add(&self, buffer: BufferId, part: IndexId, names: &mut Fresh) -> Result<(Vec<Stmt>, Vec<Stmt>)> {
        let fixed = |stmt: &Stmt, known: &[Stmt]| {
            let mut fixed = true;
            stmt.visit_affine(&mut |a| {
                fixed &= a.terms().iter().all(|(v, _)| !matches!(v, crate::index::Var::Index(_)))
            });
            stmt.visit_reads(&mut |r| fixed &= known.iter().any(|known| defines(known, r)));
            fixed
        };
        let (mut shared, mut own, mut wide): (Vec<Stmt>, Vec<Stmt>, Vec<Stmt>) = Default::default();
        for stmt in &self.items {
            let mut varies = false;
            stmt.visit_affine(&mut |a| varies |= self.ranks.iter().any(|(i, _)| a.mentions(*i)));
            stmt.visit_reads(&mut |r| varies |= wide.iter().any(|known| defines(known, r)));
            match (varies, fixed(stmt, &shared)) {
                (true, _) => wide.push(stmt.clone()),
                (false, true) => shared.push(stmt.clone()),
                (false, false) => own.push(stmt.clone()),
            }
        }
        for (k, (_, term)) in self.added.iter().enumerate() {
            let place = self.place(buffer, part, self.target.0.into(), k)?;
            let (before, after) = (names.fresh_real(), names.fresh_real());
            let sum = match *term {
                Term::Number(a) => Real::Add(before, a),
                Term::Product(a, b) => Real::MulAdd(a, b, before),
            };
            wide.push(Stmt::Define(before, Real::Load(place.clone())));
            wide.push(Stmt::Define(after, sum));
            wide.push(Stmt::Store(place, after));
        }
        let most = if has_calls(&wide) { VECTOR } else { LANES_OF_ELEMENTS };
        for (at, (index, extent)) in self.ranks.iter().rev().enumerate() {
            let is_short = extent.as_constant().is_some_and(|n| n < SHORT);
            let lanes = if at == 0 && !is_short { most } else { 1 };
            let domain = Domain::whole(extent)?;
            wide = vec![Stmt::For { index: *index, domain, lanes, jam: 1, parallel: false, body: wide }];
        }
        own.extend(wide);
        Ok((shared, own))
    }
}

fn defines(stmt: &Stmt, r: RealId) -> bool {
    matches!(stmt, Stmt::Define(known, _) if *known == r)
}

struct Pass<'a> {
    /// What there is so far: nests before the one on the way.
    program: Program,
    sizes: &'a Sizes<'a>,
    /// The index of the parts of nests that were cut, by their number, and how many they are.
    cut: BTreeMap<usize, (IndexId, u32)>,
}

impl Pass<'_> {
    /// Has a sum computed before its nest: where, and in how many parts.
    fn sum(&mut self, nest: &Nest, sum: &Sum) -> Result<Option<(BufferId, u32)>> {
        match &sum.source {
            Source::Tuples { .. } => self.by_tuples(nest, sum),
            Source::Numbers { source, number, shift } => self.by_numbers(nest, sum, source, (number, *shift)),
        }
    }

    fn length(&self, n: &Size) -> Option<u64> {
        (self.sizes.length)(n)
    }

    /// How many sums there are, one beside the other.
    fn row(&self, sum: &Sum) -> Option<u64> {
        let added = u64::try_from(sum.added.len()).ok()?;
        sum.ranks.iter().try_fold(added, |len, (_, n)| len.checked_mul(self.length(n)?))
    }

    /// How many numbers a buffer holds.
    fn numbers(&self, buffer: BufferId) -> Option<u64> {
        let buffer = self.program.buffers.get(buffer)?;
        let entries = buffer.entries.map_or(Some(1), |relation| (self.sizes.tuples)(relation))?;
        buffer.dims.iter().try_fold(entries, |len, n| len.checked_mul(self.length(n)?))
    }

    /// Whether all sums of a part fit the cache, with little beside them.
    fn fits(&self, sums: u64) -> bool {
        sums <= self.sizes.cached.saturating_mul(2)
    }

    /// Into how many parts sources are cut that add so many numbers to so many sums; nothing where it does not pay.
    fn parts(&self, added: u64, sums: u64) -> Option<u32> {
        let fits = self.sizes.cached;
        // Sums that fit the cache are cleared and added in less time than numbers come from elsewhere.
        let each = if self.fits(sums) { 1 } else { ADDED };
        let most = (added / each).checked_div(sums.max(1))?.min(u64::from(PARTS));
        if added < fits || most < LEAST_PARTS {
            return None;
        }
        let mut parts = LEAST_PARTS;
        while parts * 2 <= most && parts.saturating_mul(2).saturating_mul(sums) <= fits.saturating_mul(LARGER) {
            parts *= 2;
        }
        u32::try_from(parts).ok()
    }

    /// The sums of each part.
    fn workspace(&mut self, nest: &Nest, sum: &Sum, parts: u32) -> Result<BufferId> {
        let name = format!("{}_by_target", crate::loops::title(&self.program.buffers, nest));
        let own = [Affine::constant(i64::from(parts)), sum.target.1.clone()];
        let ranks = sum.ranks.iter().map(|(_, n)| n.clone());
        let dims = own.into_iter().chain(ranks).chain(sum.along_sums(sum.added.len())?).collect();
        Ok(self.program.buffers.push(Buffer::workspace(name, None, dims)))
    }

    /// A nest that adds to the places of a tensor that its sources tell, in parts, and one that adds the parts; nothing where that does not pay.
    fn histogram(&mut self, nest: &Nest) -> Result<Option<[Nest; 2]>> {
        let ([buffer], true) = (nest.buffers.as_slice(), nest.body.iter().any(|stmt| matches!(stmt, Stmt::Fill(_))))
        else {
            return Ok(None);
        };
        let mut added = Some(0u64);
        for stmt in &nest.body {
            match stmt {
                Stmt::Fill(_) | Stmt::Define(..) => {}
                Stmt::For { index, domain, parallel: false, body, .. } if adds_where_told(*index, domain, body) => {
                    let own = self.added(stmt);
                    added = added.zip(own).and_then(|(all, own)| all.checked_add(own));
                }
                _ => return Ok(None),
            }
        }
        let sums = self.numbers(*buffer);
        let Some(parts) = added.zip(sums).and_then(|(added, sums)| self.parts(added, sums)) else { return Ok(None) };
        let Some(whole) = self.program.buffers.get(*buffer).filter(|whole| whole.entries.is_none()).cloned() else {
            return Ok(None);
        };
        let dims = [Affine::constant(i64::from(parts))].into_iter().chain(whole.dims.iter().cloned()).collect();
        let own = self.program.buffers.push(Buffer::workspace(format!("{}_parts", whole.name), None, dims));
        let part = Fresh::after(&nest.body).fresh_index();
        let (mut body, mut loops) = (Vec::new(), Vec::new());
        for stmt in &nest.body {
            let mut stmt = stmt.clone();
            visit_places(&mut stmt, &mut |place| {
                if place.buffer == *buffer {
                    place.buffer = own;
                    place.at.insert(0, part.into());
                }
            });
            match stmt {
                Stmt::Fill(_) => body.push(Stmt::Fill(own)),
                Stmt::For { index, domain, lanes, jam, parallel, body } => {
                    let domain = Domain::Part { whole: Box::new(domain), part: part.into(), parts, grain: 1 };
                    loops.push(Stmt::For { index, domain, lanes, jam, parallel, body });
                }
                stmt => body.push(stmt),
            }
        }
        let all = Domain::whole(&Affine::constant(i64::from(parts)))?;
        body.push(Stmt::For { index: part, domain: all.clone(), lanes: 1, jam: 1, parallel: true, body: loops });
        let in_parts = Nest { buffers: vec![own], decisions: vec![Decision::Scattered { parts }], body };

        let mut names = Fresh::after(&[]);
        let axes: Vec<IndexId> = whole.dims.iter().map(|_| names.fresh_index()).collect();
        let (g, sum, x) = (names.fresh_index(), names.fresh_real(), names.fresh_real());
        let at: Vec<Affine> = axes.iter().copied().map(Affine::index).collect();
        let from = Place { buffer: own, at: [g.into()].into_iter().chain(at.iter().cloned()).collect() };
        let add = vec![Stmt::Define(x, Real::Load(from)), Stmt::Accumulate(sum, x)];
        let to = Place { buffer: *buffer, at };
        let mut body = vec![Stmt::Local(sum), Stmt::one_by_one(g, all, add), Stmt::Store(to, sum)];
        for (at, (index, extent)) in axes.iter().zip(&whole.dims).enumerate().rev() {
            let lanes = if at + 1 == axes.len() { LANES_OF_ELEMENTS } else { 1 };
            let (domain, parallel) = (Domain::whole(extent)?, at == 0);
            body = vec![Stmt::For { index: *index, domain, lanes, jam: 1, parallel, body }];
        }
        let decisions = nest.decisions.iter().cloned().chain([Decision::PartsAdded { parts }]).collect();
        Ok(Some([in_parts, Nest { buffers: nest.buffers.clone(), decisions, body }]))
    }

    /// How many numbers a statement adds to places.
    // Loops and tests nest to a bounded depth.
    fn added(&self, stmt: &Stmt) -> Option<u64> {
        let own = u64::from(matches!(stmt, Stmt::Store(..)));
        let inside = stmt.body().iter().try_fold(0u64, |sum, stmt| sum.checked_add(self.added(stmt)?))?;
        match stmt {
            Stmt::For { domain, .. } if inside > 0 => {
                domain.whole_extent().and_then(|n| self.length(&n)?.checked_mul(inside))
            }
            _ => Some(own + inside),
        }
    }

    fn array(&mut self, relation: RelationId, axes: &[usize], part: Part) -> ArrayId {
        self.program.arrays.find_or_push(Array { relation, axes: axes.to_vec(), part })
    }

    /// A nest over the tuples of a relation in their order, before the nest on the way.
    fn by_tuples(&mut self, nest: &Nest, sum: &Sum) -> Result<Option<(BufferId, u32)>> {
        let Source::Tuples { relation, coordinates, entries, projected, axis, .. } = &sum.source else {
            return Ok(None);
        };
        let worth = || {
            let (tuples, row) = ((self.sizes.tuples)(*relation)?, self.row(sum)?);
            let sums = self.length(&sum.target.1)?.checked_mul(row)?;
            let taken = sum.taken().filter_map(|buffer| self.numbers(buffer)).max()?;
            let times = if self.fits(sums) { 2 } else { LARGER };
            let large = taken >= self.sizes.cached.saturating_mul(LARGER) && taken / times >= sums;
            large.then(|| self.parts(tuples.checked_mul(row)?, sums)).flatten()
        };
        let Some(parts) = worth() else { return Ok(None) };
        let Some(found) = self.program.signature.relations.get(*relation) else { return Ok(None) };
        let (is_map, shape) = (found.kind == RelationKind::Map, found.shape.clone());
        let stored = self.program.signature.stored_order(*relation);
        let buffer = self.workspace(nest, sum, parts)?;
        let mut local = Fresh::after(&nest.body);
        let placeholder = local.fresh_index();
        let (shared, own) = sum.add(buffer, placeholder, &mut local)?;

        let mut names = Fresh::after(&[]);
        let part = names.fresh_index();
        let nodes: Vec<IndexId> = stored.iter().map(|_| names.fresh_index()).collect();
        let places: Vec<IndexId> = stored.iter().map(|_| names.fresh_index()).collect();
        let last = *nodes.last().ok_or_else(|| Error::bug("scatter", "a relation without axes"))?;
        // Of a map, sources and tuples have the same numbers.
        let skipped = if is_map && stored.len() == 2 { 1 } else { 0 };
        let coordinate = |axis: usize| {
            let level = stored.iter().position(|known| *known == axis)?;
            Some(if level < skipped { last } else { *places.get(level)? })
        };
        names.keep(placeholder, part);
        for (axis, i) in [(*axis, sum.target.0)].iter().chain(coordinates) {
            names.keep(*i, coordinate(*axis).ok_or_else(|| Error::bug("scatter", "an axis that a relation lacks"))?);
        }
        entries.iter().for_each(|i| names.keep(*i, last));
        // The entry of a projection on the first axes is a node.
        let mut beside = Vec::new();
        for (projected, i) in projected {
            let axes = self.program.signature.projection(*projected).map(|(_, axes)| axes).unwrap_or_default();
            match axes.len().checked_sub(1).and_then(|level| nodes.get(level)) {
                Some(node) if stored.starts_with(&axes) => names.keep(*i, *node),
                _ => {
                    let (index, array) =
                        (names.fresh_index(), self.array(*relation, &stored, Part::Projected(*projected)));
                    names.keep(*i, index);
                    beside.push(Stmt::Let { index, array, at: last.into(), step: None });
                }
            }
        }
        let shared = names.body(&shared)?;
        let mut inside = [beside, names.body(&own)?].concat();
        for level in (skipped..stored.len()).rev() {
            let array = self.array(*relation, &stored, Part::Nodes(narrow(level)?));
            inside.insert(0, Stmt::Let { index: places[level], array, at: nodes[level].into(), step: None });
            let whole = match level {
                _ if level == skipped && skipped > 0 => {
                    Domain::whole(shape.get(stored[0]).ok_or_else(|| Error::bug("scatter", "a map without sources"))?)?
                }
                0 => {
                    let pointers = self.array(*relation, &stored, Part::Roots);
                    Domain::Segment(Segment { pointers, at: Affine::constant(0) })
                }
                level => {
                    let pointers = self.array(*relation, &stored, Part::Children(narrow(level - 1)?));
                    Domain::Segment(Segment { pointers, at: nodes[level - 1].into() })
                }
            };
            let domain = match level == skipped {
                true => Domain::Part { whole: Box::new(whole), part: part.into(), parts, grain: 1 },
                false => whole,
            };
            inside = vec![Stmt::one_by_one(nodes[level], domain, inside)];
        }
        let domain = Domain::whole(&Affine::constant(i64::from(parts)))?;
        let all = Stmt::For { index: part, domain, lanes: 1, jam: 1, parallel: true, body: inside };
        let body = [Stmt::Fill(buffer)].into_iter().chain(shared).chain([all]).collect();
        self.program.nests.push(Nest { buffers: vec![buffer], decisions: vec![Decision::Scattered { parts }], body });
        Ok(Some((buffer, parts)))
    }

    /// Has each source add to the target that its number tells: where the number is stored, or in a nest over all sources before the one on the way.
    fn by_numbers(
        &mut self,
        nest: &Nest,
        sum: &Sum,
        source: &(IndexId, Size),
        (number, shift): (&Place, i64),
    ) -> Result<Option<(BufferId, u32)>> {
        let worth = || {
            let (targets, row) = (self.length(&sum.target.1)?, self.row(sum)?);
            if targets < LEAST_TARGETS {
                return None;
            }
            let added = self.length(&source.1)?.checked_mul(row)?;
            Some(self.parts(added, targets.checked_mul(row)?).unwrap_or(1))
        };
        let Some(mut parts) = worth() else { return Ok(None) };
        let stored = if parts > 1 { self.stored(sum, number, source.0) } else { None };
        let known = stored.as_ref().and_then(|(at, _)| self.cut.get(at).copied());
        parts = known.map_or(parts, |(_, parts)| parts);
        let buffer = self.workspace(nest, sum, parts)?;
        let mut local = Fresh::after(&nest.body);
        let placeholder = local.fresh_index();
        let (shared, own) = sum.add(buffer, placeholder, &mut local)?;

        let mut names = match &stored {
            Some((at, _)) => Fresh::after(&self.program.nests[*at].body),
            None => Fresh::after(&[]),
        };
        let part = known.map_or_else(|| names.fresh_index(), |(part, _)| part);
        let (from, told) = match &stored {
            Some((_, stored)) => (stored.source.clone(), names.fresh_index()),
            None => (names.fresh_index().into(), names.fresh_index()),
        };
        let target = Affine::index(told).add_constant(shift)?;
        names.keep(placeholder, part);
        names.fix(source.0, from.clone());
        names.fix(sum.target.0, target.clone());
        let shared = names.body(&shared)?;
        let own = names.body(&own)?;
        let at = number.at.iter().map(|a| a.substitute(&|i| (i == source.0).then(|| from.clone())));
        let place = Place { buffer: number.buffer, at: at.collect::<crate::index::Checked<_>>()? };
        let extent = &sum.target.1;
        // The number is that of a target, so it is no larger than this.
        let most = extent.add_constant(shift.saturating_abs())?;
        let told = Stmt::Length { index: told, place, most };
        let below = Cond::NonNegative(extent.sub(&target)?.add_constant(-1)?);
        let cond = if shift < 0 { Cond::All(vec![Cond::NonNegative(target), below]) } else { below };
        let added = vec![told, Stmt::If { cond, body: own }];
        if let Some((at, stored)) = stored {
            let writer = &mut self.program.nests[at];
            if known.is_none() {
                cut(&mut writer.body[stored.top], part, parts)?;
                self.cut.insert(at, (part, parts));
            }
            insert(&mut writer.body[stored.top], number.buffer, &added);
            writer.body.splice(0..0, [Stmt::Fill(buffer)].into_iter().chain(shared));
            writer.buffers.push(buffer);
            writer.decisions.push(Decision::Scattered { parts });
            return Ok(Some((buffer, parts)));
        }
        let Some(from) = from.as_index() else { return Ok(None) };
        let whole = Box::new(Domain::whole(&source.1)?);
        let domain = Domain::Part { whole, part: part.into(), parts, grain: 1 };
        let inside = vec![Stmt::one_by_one(from, domain, added)];
        let domain = Domain::whole(&Affine::constant(i64::from(parts)))?;
        let all = Stmt::For { index: part, domain, lanes: 1, jam: 1, parallel: true, body: inside };
        let body = [Stmt::Fill(buffer)].into_iter().chain(shared).chain([all]).collect();
        self.program.nests.push(Nest { buffers: vec![buffer], decisions: vec![Decision::Scattered { parts }], body });
        Ok(Some((buffer, parts)))
    }

    /// The nest that stores the numbers of all sources, and where, if what is added for a source is known there.
    fn stored(&self, sum: &Sum, number: &Place, source: IndexId) -> Option<(usize, Told)> {
        let at = self.program.nests.iter().position(|nest| nest.buffers.contains(&number.buffer))?;
        let found = told(self.program.nests.get(at)?, number.buffer)?;
        let later = |place: &&Place| self.program.nests[at..].iter().any(|nest| nest.buffers.contains(&place.buffer));
        let is_known =
            loads(&sum.items).iter().filter(|place| place.buffer != number.buffer).all(|place| !later(place));
        let is_own = matches!(number.at.as_slice(), [a] if a.as_index() == Some(source));
        (is_known && is_own).then_some((at, found))
    }
}

fn narrow(level: usize) -> Result<u8> {
    u8::try_from(level).map_err(|_| Error::Overflow)
}

/// Puts a loop over parts around a loop.
fn cut(stmt: &mut Stmt, part: IndexId, parts: u32) -> Result<()> {
    if let Stmt::For { domain, parallel, .. } = stmt {
        *domain = Domain::Part { whole: Box::new(domain.clone()), part: part.into(), parts, grain: 1 };
        *parallel = false;
    }
    let domain = Domain::whole(&Affine::constant(i64::from(parts)))?;
    let inner = std::mem::replace(stmt, Stmt::Fill(BufferId(0)));
    *stmt = Stmt::For { index: part, domain, lanes: 1, jam: 1, parallel: true, body: vec![inner] };
    Ok(())
}

/// Puts statements behind each store to a buffer.
fn insert(stmt: &mut Stmt, buffer: BufferId, added: &[Stmt]) {
    let (Stmt::For { body, .. } | Stmt::If { body, .. }) = stmt else { return };
    body.iter_mut().for_each(|stmt| insert(stmt, buffer, added));
    if let Some(at) = body.iter().position(|stmt| stmt.store().is_some_and(|place| place.buffer == buffer)) {
        body.splice(at + 1..at + 1, added.iter().cloned());
    }
}

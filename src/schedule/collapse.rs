//! Loops over all of two axes that lie together in memory become one.
//!
//! ```text
//! for a in 0 .. g - 1                          for k in 0 .. 7*g - 1
//!   for b in 0 .. 6                    ==        s += X[i, k] * w[k]
//!     s += X[i, a, b] * w[a, b]
//! ```
//!
//! Pictures as the rows of a table, groups of columns, points with coordinates: where nothing tells the axes apart, products over both are products of
//! matrices, and lanes have long rows.
//!
//! **Why it is right.** Tensors lie in row-major order: where the last of two axes has 7 values, the number at `[a, b]` is that at `7 a + b` of both as
//! one. Pairs of indices come in the order of these numbers, so sums keep theirs.
//!
//! **Where it is done.** One loop is all that is in another one, and goes through an axis whose length is a literal, from its first value to its last. Both indices
//! are used as those of neighbouring axes alone, one after the other, and the tensors have all their readers and writers do so: an axis is there for
//! all nests or for none. Parameters and results have their axes still [outside](crate::loops::Buffer::outside). Not where functions are called with
//! tensors, nor in leaves of loops over time, which know the tensors of others by their axes.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{IndexId, work};
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{Bound, Buffer, BufferId, BufferKind, Decision, Domain, Place, Program, Real, Stmt};

/// Joins axes and the loops over them, innermost ones first.
pub(super) fn run(program: &mut Program) -> Result<()> {
    loop {
        let found = Joins::of(program);
        if found.axes.is_empty() {
            return Ok(());
        }
        found.apply(program)?;
    }
}

/// A loop over an axis of literal length that is all there is in another loop.
#[derive(Clone, Copy)]
struct Pair {
    outer: IndexId,
    inner: IndexId,
    length: i64,
}

/// A pair of loops, by its nest and its outer index.
type PairId = (usize, IndexId);

/// What is joined: loops, and the axes of buffers with those behind them, as places have them.
#[derive(Default)]
struct Joins {
    loops: BTreeMap<PairId, Pair>,
    axes: BTreeSet<(BufferId, usize)>,
}

impl Joins {
    /// The largest set of pairs such that each is used for joined axes alone, and a joined axis by such pairs alone.
    fn of(program: &Program) -> Joins {
        let rounded = program.rounded.iter().flat_map(|rounded| [rounded.from, rounded.to]);
        let mut uses = Uses { fixed: rounded.collect(), ..Uses::default() };
        for (nest, of) in program.nests.iter().enumerate() {
            let mut pairs = BTreeMap::new();
            of.body
                .iter()
                .for_each(|stmt| stmt.visit(&mut |stmt| pairs.extend(pair(stmt).map(|pair| (pair.outer, pair)))));
            of.body.iter().for_each(|stmt| stmt.visit(&mut |stmt| uses.stmt(program, nest, &pairs, stmt)));
            uses.pairs.extend(pairs.into_iter().map(|(outer, pair)| ((nest, outer), pair)));
        }
        uses.close();
        // Of three loops inside of each other the inner two come first.
        let around = |(nest, _): PairId, pair: &Pair| uses.pairs.contains_key(&(nest, pair.inner));
        let outer: BTreeSet<PairId> =
            uses.pairs.iter().filter(|(id, pair)| around(**id, pair)).map(|(id, _)| *id).collect();
        if !outer.is_empty() {
            uses.pairs.retain(|id, _| !outer.contains(id));
            uses.close();
        }
        Joins { axes: uses.joined(), loops: uses.pairs }
    }

    fn apply(&self, program: &mut Program) -> Checked<()> {
        for (nest, of) in program.nests.iter_mut().enumerate() {
            let mut loops = 0;
            self.body(nest, &mut of.body, &mut loops)?;
            if loops > 0 {
                of.decisions.push(Decision::Collapsed { loops });
            }
        }
        for (b, axis) in self.axes.iter().rev() {
            let buffer = &mut program.buffers[*b];
            if matches!(buffer.kind, BufferKind::Param(..) | BufferKind::Output(..)) && buffer.outside.is_none() {
                buffer.outside = Some(buffer.dims.clone());
            }
            let at = axis - usize::from(buffer.entries.is_some());
            let length = buffer.dims.remove(at + 1).as_constant().unwrap_or(1);
            buffer.dims[at] = buffer.dims[at].scale(length)?;
        }
        Ok(())
    }

    fn body(&self, nest: usize, body: &mut [Stmt], loops: &mut usize) -> Checked<()> {
        for stmt in body {
            match stmt {
                Stmt::For { index, domain, body, .. } => {
                    if let Some(pair) = self.loops.get(&(nest, *index)) {
                        *domain = all_of(domain, pair.length)?;
                        *body = body.pop().map(inside).unwrap_or_default();
                        *loops += 1;
                    }
                    self.body(nest, body, loops)?;
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.body(nest, body, loops)?,
                Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) => {
                    let Place { buffer, at } = place;
                    for axis in (0..at.len()).rev().filter(|axis| self.axes.contains(&(*buffer, *axis))) {
                        at.remove(axis + 1);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// How pairs of loops are used.
#[derive(Default)]
struct Uses {
    pairs: BTreeMap<PairId, Pair>,
    /// Pairs that are used for something else.
    apart: BTreeSet<PairId>,
    /// For each place, by buffer, the axes at which pairs are used.
    places: BTreeMap<BufferId, Vec<Vec<(usize, PairId)>>>,
    /// Buffers that have to keep their axes.
    fixed: BTreeSet<BufferId>,
}

impl Uses {
    fn stmt(&mut self, program: &Program, nest: usize, pairs: &BTreeMap<IndexId, Pair>, stmt: &Stmt) {
        match stmt {
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) => self.place(program, nest, pairs, place),
            stmt => {
                self.fixed.extend(stmt.loads().chain(stmt.stores()).map(|place| place.buffer));
                stmt.visit_affine(&mut |a| {
                    let mentioned = pairs.values().filter(|pair| a.mentions(pair.outer) || a.mentions(pair.inner));
                    self.apart.extend(mentioned.map(|pair| (nest, pair.outer)));
                });
            }
        }
    }

    fn place(&mut self, program: &Program, nest: usize, pairs: &BTreeMap<IndexId, Pair>, place: &Place) {
        work::charge(pairs.len());
        let behind = |axis: usize| length_behind(program.buffers.get(place.buffer)?, axis);
        let mut used = Vec::new();
        for pair in pairs.values() {
            let is = |axis: usize, i: IndexId| place.at.get(axis).and_then(Affine::as_index) == Some(i);
            let together =
                |axis: &usize| is(*axis, pair.outer) && is(axis + 1, pair.inner) && behind(*axis) == Some(pair.length);
            let axes: Vec<usize> = (0..place.at.len()).filter(together).collect();
            let mentions =
                place.at.iter().map(|a| usize::from(a.mentions(pair.outer)) + usize::from(a.mentions(pair.inner)));
            if mentions.sum::<usize>() != 2 * axes.len() {
                self.apart.insert((nest, pair.outer));
            }
            used.extend(axes.into_iter().map(|axis| (axis, (nest, pair.outer))));
        }
        self.places.entry(place.buffer).or_default().push(used);
    }

    /// The axes at which all places of a buffer have some pair.
    fn joined(&self) -> BTreeSet<(BufferId, usize)> {
        let mut found = BTreeSet::new();
        for (b, places) in self.places.iter().filter(|(b, _)| !self.fixed.contains(b)) {
            let mut all = places.iter().map(|place| -> BTreeSet<usize> {
                place.iter().filter(|(_, pair)| self.pairs.contains_key(pair)).map(|(axis, _)| *axis).collect()
            });
            let Some(first) = all.next() else { continue };
            let common = all.fold(first, |common, place| &common & &place);
            found.extend(common.into_iter().map(|axis| (*b, axis)));
        }
        found
    }

    /// Leaves the pairs that are used, and for joined axes alone.
    fn close(&mut self) {
        self.pairs.retain(|id, _| !self.apart.contains(id));
        loop {
            let joined = self.joined();
            let (mut used, mut apart) = (BTreeSet::new(), BTreeSet::new());
            for (b, places) in &self.places {
                for (axis, pair) in places.iter().flatten() {
                    if joined.contains(&(*b, *axis)) { &mut used } else { &mut apart }.insert(*pair);
                }
            }
            let before = self.pairs.len();
            self.pairs.retain(|id, _| used.contains(id) && !apart.contains(id));
            work::charge(before);
            if self.pairs.len() == before {
                return;
            }
        }
    }
}

/// A loop that has nothing but another one in it.
fn pair(stmt: &Stmt) -> Option<Pair> {
    let Stmt::For { index: outer, domain: Domain::Range { lower, upper }, body, .. } = stmt else { return None };
    let [Stmt::For { index: inner, domain, .. }] = body.as_slice() else { return None };
    let length = domain.whole_extent()?.as_constant()?;
    let plain = lower.iter().chain(upper).all(|bound| bound.divisor == 1);
    plain.then_some(Pair { outer: *outer, inner: *inner, length })
}

/// The literal length of the axis behind a dense one, both by number as places have them.
fn length_behind(buffer: &Buffer, axis: usize) -> Option<i64> {
    let dense = axis.checked_sub(usize::from(buffer.entries.is_some()))?;
    buffer.dims.get(dense + 1)?.as_constant()
}

/// The values of both indices as one.
fn all_of(domain: &Domain, length: i64) -> Checked<Domain> {
    let Domain::Range { lower, upper } = domain else { return Ok(domain.clone()) };
    let scaled = |bound: &Bound, more: i64| Ok(Bound::exact(bound.numerator.scale(length)?.add_constant(more)?));
    Ok(Domain::Range {
        lower: lower.iter().map(|bound| scaled(bound, 0)).collect::<Checked<_>>()?,
        upper: upper.iter().map(|bound| scaled(bound, length - 1)).collect::<Checked<_>>()?,
    })
}

/// The body of a loop.
fn inside(stmt: Stmt) -> Vec<Stmt> {
    if let Stmt::For { body, .. } = stmt { body } else { vec![stmt] }
}

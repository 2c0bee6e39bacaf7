//! The shapes of buffers for given sizes, and that no index expression leaves 64 bits.

use std::collections::BTreeMap;

use crate::base::IndexId;
use crate::error::{Error, Result};
use crate::index::{Affine, Size, Var};
use crate::loops::{Bound, BufferId, BufferKind, Domain, Place, Program, Stmt};
use crate::tensor::{Bindings, MAX_ELEMENTS};

/// The shape of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// How many places one step along each axis is.
    pub strides: Vec<i64>,
    /// The number of places.
    pub len: usize,
}

/// The shapes of all buffers, by id: of those of which iterations have rows of [their own](Program::private_axes), that of one row.
pub(super) fn shapes(program: &Program, bindings: &Bindings) -> Result<Vec<Shape>> {
    let mut shapes = Vec::with_capacity(program.buffers.len());
    let private = program.private_axes();
    for (id, buffer) in program.buffers.iter() {
        let mut lengths = Vec::with_capacity(buffer.rank());
        if let Some(relation) = buffer.entries {
            let relation = bindings.relations().get(relation);
            lengths.push(relation.ok_or_else(|| Error::bug("bind", "a relation without tuples"))?.len());
        }
        for n in &buffer.dims {
            lengths.push(bindings.length(n)?);
        }
        // Each row takes the place of the last one.
        let axis = private.get(&id).copied();
        axis.and_then(|axis| lengths.get_mut(axis)).into_iter().for_each(|n| *n = (*n).min(1));
        let mut shape = row_major(&lengths)?;
        axis.and_then(|axis| shape.strides.get_mut(axis)).into_iter().for_each(|stride| *stride = 0);
        let len = shape.len;
        if len as u64 >= MAX_ELEMENTS {
            let what = match buffer.kind {
                BufferKind::Workspace => "elements of an intermediate tensor",
                BufferKind::Param(..) | BufferKind::Held(_) | BufferKind::Output(..) => "elements of a tensor",
            };
            return Err(Error::Limit { what, limit: MAX_ELEMENTS, found: len as u64 });
        }
        shapes.push(shape);
    }
    Ok(shapes)
}

/// The strides of axes of these lengths, the last one closest.
pub(super) fn row_major(lengths: &[usize]) -> Result<Shape> {
    let mut strides = vec![0; lengths.len()];
    let mut len = 1usize;
    for (stride, n) in strides.iter_mut().zip(lengths).rev() {
        *stride = i64::try_from(len).map_err(|_| Error::Overflow)?;
        // An empty buffer has no places, whatever its other axes are.
        len = if lengths.contains(&0) { 0 } else { len.saturating_mul(*n) };
    }
    Ok(Shape { strides, len })
}

/// An expression for given sizes: what depends on indices, and the rest.
pub(super) fn fold(a: &Affine, bindings: &Bindings) -> Result<(Vec<(IndexId, i64)>, i64)> {
    let mut terms = Vec::new();
    let mut constant = i128::from(a.offset());
    for (v, k) in a.terms() {
        match v {
            Var::Index(i) => terms.push((*i, *k)),
            Var::Size(_) => constant += i128::from(*k) * i128::from(bindings.evaluate(&Affine::var(v.clone()))?),
            Var::Apply(_) => return Err(Error::bug("bind", "an index expression applies a map")),
        }
    }
    Ok((terms, i64::try_from(constant).map_err(|_| Error::Overflow)?))
}

/// Where an index expression may be.
#[derive(Clone, Copy)]
struct Interval {
    from: i128,
    to: i128,
}

/// Every value stays below this, so that sums of two and a step do too.
const LARGEST: i128 = 1 << 61;
/// Nodes and coordinates of relations.
const NODES: Interval = Interval { from: -1, to: 1 << 32 };

/// Checks that no index expression leaves the range of integers.
///
/// # Errors
/// [`Error::Overflow`].
pub(super) fn check(program: &Program, bindings: &Bindings) -> Result<()> {
    for nest in &program.nests {
        let mut check = Check { bindings, indices: BTreeMap::new() };
        check.body(&nest.body)?;
    }
    Ok(())
}

struct Check<'a> {
    bindings: &'a Bindings,
    indices: BTreeMap<IndexId, Interval>,
}

impl Check<'_> {
    fn value(&self, a: &Affine) -> Result<Interval> {
        let (terms, constant) = fold(a, self.bindings)?;
        let mut sum = Interval { from: constant.into(), to: constant.into() };
        for (i, k) in terms {
            let Interval { from, to } = self.indices.get(&i).copied().unwrap_or(NODES);
            let ends = [from, to].map(|x| x.saturating_mul(k.into()));
            sum.from = sum.from.saturating_add(ends[0].min(ends[1]));
            sum.to = sum.to.saturating_add(ends[0].max(ends[1]));
        }
        if sum.from < -LARGEST || sum.to > LARGEST {
            return Err(Error::Overflow);
        }
        Ok(sum)
    }

    fn extent(&self, n: &Size) -> Result<Interval> {
        let n = i128::from(self.bindings.evaluate(n)?);
        Ok(Interval { from: 0, to: n.max(1) - 1 })
    }

    fn bound(&self, bound: &Bound) -> Result<Interval> {
        let Interval { from, to } = self.value(&bound.numerator)?;
        let d = i128::from(bound.divisor.max(1));
        Ok(Interval { from: from.div_euclid(d), to: to.div_euclid(d) })
    }

    fn body(&mut self, body: &[Stmt]) -> Result<()> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        let mut result = Ok(());
        stmt.visit_affine(&mut |a| {
            if result.is_ok() {
                result = self.value(a).map(|_| ());
            }
        });
        result?;
        match stmt {
            Stmt::For { index, domain, .. } => {
                let interval = match domain.whole_of() {
                    Domain::Range { lower, upper } => {
                        let lower = lower.iter().map(|b| self.bound(b)).collect::<Result<Vec<_>>>()?;
                        let upper = upper.iter().map(|b| self.bound(b)).collect::<Result<Vec<_>>>()?;
                        let from = lower.iter().map(|b| b.from).max().unwrap_or(0);
                        let to = upper.iter().map(|b| b.to).min().unwrap_or(0);
                        Interval { from, to: to.max(from) }
                    }
                    Domain::Segment(_) | Domain::Part { .. } => NODES,
                };
                self.indices.insert(*index, interval);
            }
            Stmt::Extremum { index, extent, at, .. } => {
                let extent = self.extent(extent)?;
                self.indices.insert(*at, extent);
                self.indices.insert(*index, Interval { from: -1, ..extent });
            }
            Stmt::Let { index, .. } | Stmt::Find { index, .. } => {
                self.indices.insert(*index, NODES);
            }
            _ => {}
        }
        self.body(stmt.body())
    }
}

/// The offset of a place as an expression over indices.
pub(super) fn offset(place: &Place, shapes: &[Shape], bindings: &Bindings) -> Result<(Vec<(IndexId, i64)>, i64)> {
    offset_in(&place.at, &shape_of(shapes, place.buffer)?.strides, bindings)
}

/// The offset of a tuple for these strides.
pub(super) fn offset_in(at: &[Affine], strides: &[i64], bindings: &Bindings) -> Result<(Vec<(IndexId, i64)>, i64)> {
    let mut terms: BTreeMap<IndexId, i64> = BTreeMap::new();
    let mut constant = 0i64;
    for (a, stride) in at.iter().zip(strides) {
        let (inner, k) = fold(a, bindings)?;
        // The places of an empty buffer are never visited, so their offset may be anything.
        constant = constant.wrapping_add(k.wrapping_mul(*stride));
        for (i, k) in inner {
            let sum = terms.entry(i).or_insert(0);
            *sum = sum.wrapping_add(k.wrapping_mul(*stride));
        }
    }
    Ok((terms.into_iter().collect(), constant))
}

pub(super) fn shape_of(shapes: &[Shape], buffer: BufferId) -> Result<&Shape> {
    shapes.get(crate::base::Id::index(buffer)).ok_or_else(|| Error::bug("bind", "a buffer without a shape"))
}

/// How many values lie below an upper bound, without what depends on indices.
pub(super) fn extent_of(bound: &Bound, bindings: &Bindings) -> Result<u128> {
    let (_, constant) = fold(&bound.numerator, bindings)?;
    Ok(u128::try_from(constant / bound.divisor.max(1) + 1).unwrap_or(0))
}

//! Tensors that are sparse by their form: sums of guarded coefficients.
//!
//! A Jacobian has an axis for every axis of its rows and of its columns, and is zero nearly everywhere. It is kept as a sum of *pieces*,
//!
//! ```text
//! J[g, c]  =  [p1] * V1[a1] + [p2] * V2[a2] + ..        a1, a2, .. among the axes g and c
//! ```
//!
//! whose guards say where it may differ from zero, and whose coefficients have just the axes that their numbers depend on. A diagonal is
//! `[c = i] * V[i]` with `n` numbers, a block of a gather `[f(o) = c] * V[o]`. Pieces are closed under what derivatives do with them:
//!
//! ```text
//! sum s. [p] * X[..] * [q] * V[a]  =  [exists s. p and q] * W[b]      W[b] = sum s. [p and q] * X[..] * V[a]
//! ```
//!
//! 1. A summed index that an equation of the guards gives is replaced by its value: a product with a one-hot tensor is a renaming.
//! 2. Equations between axes let a coefficient be read at fewer of them, or at simpler places: `[c = i - 1] * x[i - 1]` reads `x[c]`.
//!    A map does the same: `[f(o) = c] * x[c]` reads `x[f(o)]`.
//! 3. What is left becomes a statement over the axes that it mentions, the *coefficient*; the rest of the guard stays on the piece.
//! 4. Pieces of equal guards add up in one coefficient.
//!
//! A guard may hold where the coefficient is zero, never the other way round. More than [`MAX_PIECES`] pieces become one, whose coefficient
//! has all axes.

use std::collections::BTreeMap;

use super::forward::{product as contraction, sum, zero};
use crate::base::{IndexId, VarId};
use crate::error::Result;
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::scalar::Number;
use crate::solver::{Facts, Relations, exists_all, solution, solutions};
use crate::tssa::{Builder, Operand, Rhs, canonical_guard, within};

/// With more pieces a tensor becomes one piece.
const MAX_PIECES: usize = 64;

/// A condition for summed indices of more atoms is left to the coefficient, which is zero where it fails.
const MAX_SUPPORT: usize = 8;

/// Indices with their ranges.
pub(super) type Axes = Vec<(IndexId, Size)>;

/// `X[a, ..]`.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub var: VarId,
    pub at: Vec<Affine>,
}

/// `sum s. [p] * X[..] * ..` over the axes of a tensor; the empty product is 1.
#[derive(Clone, Debug)]
pub(super) struct Summand {
    pub bound: Axes,
    pub guard: Pred,
    pub reads: Vec<Read>,
}

/// `[p] * V[a]`, with distinct axes `a`; without a coefficient, `[p] * 1`.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub guard: Pred,
    pub coefficient: Option<Coefficient>,
}

/// `V[a]`, with distinct indices.
#[derive(Clone, Debug)]
pub(super) struct Coefficient {
    pub var: VarId,
    pub axes: Axes,
}

/// A sum of pieces over axes that have names of their own.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pub axes: Axes,
    pub pieces: Vec<Piece>,
}

fn mentions_any<'a>(p: &Pred, mut indices: impl Iterator<Item = &'a (IndexId, Size)>) -> bool {
    indices.any(|(i, _)| p.mentions(*i))
}

impl Read {
    pub fn new(var: VarId, at: &[(IndexId, Size)]) -> Read {
        Read { var, at: Affine::indices(at) }
    }

    pub fn operand(x: &Operand) -> Read {
        Read { var: x.var, at: x.indices.iter().copied().map(Affine::index).collect() }
    }

    fn substitute(&self, replace: &impl Fn(IndexId) -> Option<Affine>) -> Checked<Read> {
        Ok(Read { var: self.var, at: self.at.iter().map(|a| a.substitute(replace)).collect::<Checked<_>>()? })
    }

    fn mentions(&self, i: IndexId) -> bool {
        self.at.iter().any(|a| a.mentions(i))
    }

    /// Where the element is stored, of a sparse parameter.
    fn stored(&self, builder: &Builder) -> Pred {
        match &builder.stmt(self.var).rhs {
            Rhs::Input { param, .. } => builder.signature().params[*param].storage.stored_at(&self.at),
            _ => Pred::True,
        }
    }
}

impl Pieces {
    /// The sum of products over some axes.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
    pub fn new(builder: &mut Builder, axes: Axes, summands: Vec<Summand>) -> Result<Pieces> {
        let mut groups: BTreeMap<Pred, Vec<Piece>> = BTreeMap::new();
        for summand in summands {
            let Some(piece) = Piece::new(builder, &axes, summand)? else { continue };
            let group = groups.entry(canonical_guard(&axes, &piece.guard)?).or_default();
            // A coefficient that has the axes of the other, and more, takes it in.
            match group.iter_mut().find(|other| other.covers(&piece) || piece.covers(other)) {
                Some(other) => other.coefficient = Some(added(builder, &axes, other, &piece)?),
                None => group.push(piece),
            }
        }
        let mut pieces = Pieces { axes, pieces: groups.into_values().flatten().collect() };
        if pieces.pieces.len() > MAX_PIECES {
            let var = pieces.tensor(builder)?;
            let guard = Pred::any(pieces.pieces.iter().map(|piece| piece.guard.clone()));
            let guard = if guard.weight() > 4 * MAX_PIECES { Pred::True } else { guard };
            pieces.pieces = vec![Piece { guard, coefficient: Some(Coefficient { var, axes: pieces.axes.clone() }) }];
        }
        Ok(pieces)
    }

    pub fn axes(&self) -> &[(IndexId, Size)] {
        &self.axes
    }

    pub fn is_zero(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether it is zero wherever the first axes, of the given number, and the others differ.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn is_diagonal(&self, rank: usize) -> Result<bool> {
        let at = Affine::indices(&self.axes);
        let (rows, columns) = at.split_at(rank.min(at.len()));
        let equal =
            rows.iter().zip(columns).map(|(row, column)| Pred::equal(row, column)).collect::<Checked<Vec<_>>>()?;
        Ok(self.pieces.iter().all(|piece| {
            let facts = Facts::new().under([], [&piece.guard]);
            equal.iter().all(|p| facts.proves(p))
        }))
    }

    /// The pieces at other indices, as products.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn at(&self, builder: &mut Builder, indices: &[Affine]) -> Result<Vec<Summand>> {
        let mut summands = Vec::with_capacity(self.pieces.len());
        let rename = |i: IndexId| {
            let place = self.axes.iter().position(|(axis, _)| *axis == i)?;
            indices.get(place).cloned()
        };
        for piece in &self.pieces {
            // Each copy binds names of its own.
            let guard = builder.freshen(&piece.guard, &|_| None)?.substitute(&rename)?;
            let reads = piece.coefficient.iter().map(|x| Read::new(x.var, &x.axes).substitute(&rename));
            summands.push(Summand { reads: reads.collect::<Checked<_>>()?, ..Summand::under(guard) });
        }
        Ok(summands)
    }

    /// The tensor with all its axes.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
    pub fn tensor(&self, builder: &mut Builder) -> Result<VarId> {
        let mut terms = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let whole = match &piece.coefficient {
                Some(x) if x.axes == self.axes => x.var,
                Some(x) => {
                    let reads = vec![Read::new(x.var, &x.axes)];
                    product(builder, &self.axes, &[], piece.guard.clone(), reads)?
                }
                None => builder.number(&self.axes, Number::Literal(1.0))?,
            };
            terms.push((piece.guard.clone(), whole));
        }
        match sum(builder, &self.axes, terms)? {
            Some(x) => Ok(x),
            None => zero(builder, &self.axes.iter().map(|(_, n)| n.clone()).collect::<Vec<_>>()),
        }
    }
}

impl Summand {
    /// `[p] * 1`.
    pub fn under(guard: Pred) -> Summand {
        Summand { bound: Axes::new(), guard, reads: Vec::new() }
    }

    pub fn and(mut self, p: Pred) -> Summand {
        self.guard = self.guard.and(p);
        self
    }

    pub fn times(mut self, read: Read) -> Summand {
        self.reads.push(read);
        self
    }

    pub fn summed(mut self, indices: &[(IndexId, Size)]) -> Summand {
        self.bound.extend_from_slice(indices);
        self
    }

    /// The product of both.
    pub fn with(self, other: Summand) -> Summand {
        let mut product = self.and(other.guard).summed(&other.bound);
        product.reads.extend(other.reads);
        product
    }

    /// Replaces the summed indices that equations give.
    fn solved(mut self) -> Checked<Summand> {
        let given = |bound: &Axes, guard: &Pred| {
            let value = |i: IndexId| Some(solutions(&[i], guard.conjuncts()).next()?.2);
            bound.iter().enumerate().find_map(|(at, (i, _))| Some((at, value(*i)?)))
        };
        while let Some((at, value)) = given(&self.bound, &self.guard) {
            let (s, extent) = self.bound.remove(at);
            let give = |i: IndexId| (i == s).then(|| value.clone());
            self.guard = self.guard.substitute(&give)?.and(Pred::in_range(&value, &extent)?);
            self.reads = self.reads.iter().map(|read| read.substitute(&give)).collect::<Checked<_>>()?;
        }
        Ok(self)
    }
}

/// What a coefficient is made of, with axes replaced by others that equations make equal.
#[derive(Clone)]
struct Parts {
    reads: Vec<Read>,
    /// The conjuncts with summed indices.
    summed: Pred,
    /// The conjuncts without.
    outer: Pred,
}

impl Parts {
    fn mentions(&self, i: IndexId) -> bool {
        self.summed.mentions(i) || self.reads.iter().any(|read| read.mentions(i))
    }

    fn substitute(&self, axis: IndexId, value: &Affine) -> Checked<Parts> {
        let give = |i: IndexId| (i == axis).then(|| value.clone());
        Ok(Parts {
            reads: self.reads.iter().map(|read| read.substitute(&give)).collect::<Checked<_>>()?,
            summed: self.summed.substitute(&give)?,
            outer: self.outer.substitute(&give)?,
        })
    }

    /// The number of axes, then how far the reads are from plain indices.
    fn complexity(&self, axes: &Axes) -> (usize, usize) {
        let places = self.reads.iter().flat_map(|read| &read.at);
        let plain = |a: &Affine| a.as_index().is_some() || a.terms().is_empty();
        (axes.iter().filter(|(i, _)| self.mentions(*i)).count(), places.filter(|a| !plain(a)).count())
    }

    /// Uses each equation between axes once, for the axis that makes the parts simplest; of equals, the last one goes.
    fn simplest(mut self, axes: &Axes) -> Checked<Parts> {
        let equations: Vec<Pred> = self.outer.conjuncts().to_vec();
        for equation in equations {
            let mut best: Option<Parts> = None;
            for (axis, _) in axes.iter().rev() {
                let Some(value) = solution(*axis, &equation) else { continue };
                let other = self.substitute(*axis, &value)?;
                if best.as_ref().is_none_or(|best| other.complexity(axes) < best.complexity(axes)) {
                    best = Some(other);
                }
            }
            if let Some(best) = best.filter(|best| best.complexity(axes) <= self.complexity(axes)) {
                self = best;
            }
        }
        Ok(self)
    }

    /// Where a map gives an axis, `[f(i) = c]`, reads follow the map, `sum s. [f(i) = s] * x[s]` for `x[c]`, if that takes fewer axes.
    fn follow_maps(&mut self, builder: &mut Builder, axes: &Axes, bound: &mut Axes) -> Checked<()> {
        for atom in self.outer.conjuncts().to_vec() {
            let Pred::Relation { relation, args, holds: true } = &atom else { continue };
            let Some((Some(target), source)) = args.split_last().map(|(last, rest)| (last.as_index(), rest)) else {
                continue;
            };
            let is_map = builder.signature().is_map(*relation) && source.iter().all(|a| !a.mentions(target));
            let Some((_, n)) = axes.iter().find(|(i, _)| is_map && *i == target) else { continue };
            if !self.mentions(target) {
                continue;
            }
            let s = builder.fresh_index();
            let mut followed = self.substitute(target, &Affine::index(s))?;
            followed.summed = followed.summed.and(atom.substitute(&|i| (i == target).then(|| Affine::index(s)))?);
            // The guard of the piece stays what it is.
            followed.outer = self.outer.clone();
            if followed.complexity(axes).0 < self.complexity(axes).0 {
                bound.push((s, n.clone()));
                *self = followed;
            }
        }
        Ok(())
    }
}

impl Piece {
    /// `[p] * V[a]` for a sum of products; nothing where it is zero.
    fn new(builder: &mut Builder, axes: &Axes, summand: Summand) -> Result<Option<Piece>> {
        let Summand { bound, guard, reads } = summand.solved()?;
        let guard = within(axes.iter().chain(&bound), guard);
        if guard.is_false() {
            return Ok(None);
        }
        let (summed, outer): (Vec<Pred>, Vec<Pred>) =
            guard.conjuncts().iter().cloned().partition(|p| mentions_any(p, bound.iter()));
        let (summed, outer) = (Pred::all(summed), Pred::all(outer));
        let mut parts = Parts { reads, summed: summed.clone(), outer: outer.clone() }.simplest(axes)?;
        let mut inner = bound.clone();
        parts.follow_maps(builder, axes, &mut inner)?;
        if inner.is_empty() {
            match parts.reads.as_slice() {
                [] => return Ok(Some(Piece { guard: outer, coefficient: None })),
                [one] => {
                    if let Some(coefficient) = plain(builder, axes, one) {
                        return Ok(Some(Piece { guard: outer, coefficient: Some(coefficient) }));
                    }
                }
                _ => {}
            }
        }
        let own: Axes = axes.iter().filter(|(i, _)| parts.mentions(*i)).cloned().collect();
        let guard = parts.summed.and(local(axes, &own, &parts.outer));
        let var = product(builder, &own, &inner, guard, parts.reads)?;
        let support = exists_all(&bound, &summed)?;
        let guard = if support.binds() || support.weight() > MAX_SUPPORT { outer } else { outer.and(support) };
        Ok(Some(Piece { guard, coefficient: Some(Coefficient { var, axes: own }) }))
    }

    pub fn axes(&self) -> &[(IndexId, Size)] {
        self.coefficient.as_ref().map_or(&[], |x| &x.axes)
    }

    /// Whether the coefficient has all axes of that of another.
    fn covers(&self, other: &Piece) -> bool {
        other.axes().iter().all(|axis| self.axes().contains(axis))
    }
}

/// A read at distinct axes, each of the range that it has there.
fn plain(builder: &Builder, axes: &Axes, read: &Read) -> Option<Coefficient> {
    let dims = builder.dims(read.var);
    let mut own = Axes::new();
    for (a, n) in read.at.iter().zip(dims) {
        let axis = (a.as_index()?, n.clone());
        if !axes.contains(&axis) || own.contains(&axis) {
            return None;
        }
        own.push(axis);
    }
    Some(Coefficient { var: read.var, axes: own })
}

/// The conjuncts of a guard that mention no axes but some.
pub(super) fn local(axes: &[(IndexId, Size)], own: &Axes, guard: &Pred) -> Pred {
    let foreign = |p: &Pred| mentions_any(p, axes.iter().filter(|axis| !own.contains(axis)));
    Pred::all(guard.conjuncts().iter().filter(|p| !foreign(p)).cloned())
}

/// The sum of the coefficients of two pieces with one guard, of which one has the axes of the other.
fn added(builder: &mut Builder, axes: &Axes, x: &Piece, y: &Piece) -> Result<Coefficient> {
    let own = if x.covers(y) { x.axes().to_vec() } else { y.axes().to_vec() };
    let guard = local(axes, &own, &x.guard);
    let mut spread = |piece: &Piece| match &piece.coefficient {
        Some(x) if x.axes == own && Read::new(x.var, &x.axes).stored(builder).is_true() => Ok(x.var),
        Some(x) => product(builder, &own, &[], guard.clone(), vec![Read::new(x.var, &x.axes)]),
        None => builder.number(&own, Number::Literal(1.0)),
    };
    let sides = [(guard.clone(), spread(x)?), (guard.clone(), spread(y)?)];
    Ok(Coefficient { var: builder.add(&own, sides)?, axes: own })
}

/// `gen g. sum s. [p] * X[..] * ..`, two factors at a time. The guard of a whole piece implies that sparse parameters are stored where they are
/// read, but the part of it that is left for a coefficient need not.
pub(super) fn product(
    builder: &mut Builder,
    gens: &[(IndexId, Size)],
    sums: &[(IndexId, Size)],
    guard: Pred,
    mut reads: Vec<Read>,
) -> Result<VarId> {
    while reads.len() > 2 {
        let (x, y) = (reads.remove(0), reads.remove(0));
        let (own, foreign): (Axes, Axes) =
            gens.iter().chain(sums).cloned().partition(|(i, _)| x.mentions(*i) || y.mentions(*i));
        let inner = guard.conjuncts().iter().filter(|p| !mentions_any(p, foreign.iter())).cloned();
        let var = product(builder, &own, &[], Pred::all(inner), vec![x, y])?;
        reads.insert(0, Read::new(var, &own));
    }
    let (mut sums, mut guard) = (sums.to_vec(), guard);
    for read in &reads {
        guard = guard.and(read.stored(builder));
    }
    let mut operands = Vec::with_capacity(reads.len());
    for read in reads {
        let dims = builder.dims(read.var).to_vec();
        let mut indices = Vec::with_capacity(dims.len());
        for (a, n) in read.at.into_iter().zip(dims) {
            let range = |i: IndexId| gens.iter().chain(&sums).find(|(j, _)| *j == i).map(|(_, n)| n);
            match a.terms() {
                [(Var::Index(i), 1)] if a.offset() == 0 && range(*i) == Some(&n) => indices.push(*i),
                _ => {
                    let v = builder.fresh_index();
                    guard = guard.and(Pred::equal(&Affine::index(v), &a)?);
                    sums.push((v, n));
                    indices.push(v);
                }
            }
        }
        operands.push(Operand { var: read.var, indices });
    }
    if operands.is_empty() {
        let one = builder.number(&[], Number::Literal(1.0))?;
        operands.push(Operand { var: one, indices: Vec::new() });
    }
    contraction(builder, gens, &sums, guard, operands)
}

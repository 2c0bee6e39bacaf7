//! How many integer points a guard has, as a formula in the sizes.
//!
//! A [`Count`] is a sum of pieces `[p] * q * #{i < n, .. | r}`: a predicate on sizes, a polynomial in sizes and numbers of entries, and
//! the sets of points that no formula was found for, which are kept as they are. So a count is always exact, for all sizes that satisfy the
//! facts, empty ranges included; what is found is only how much of it is closed.
//!
//! | module | does |
//! |---|---|
//! | `closed_form` | finds formulas |
//! | `piecewise` | puts pieces together |

mod closed_form;
mod piecewise;
#[cfg(test)]
mod tests;

pub use closed_form::{count, count_projected};

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::estimate::{self, Growth, Hints};
use super::knowledge::Relations;
use super::points::holds;
use super::polynomial::{Polynomial, Rational, Unknown};
use super::{Plan, Sample, World};
use crate::base::{Id, IndexId, RelationId};
use crate::index::print::{Names, write_affine, write_pred};
use crate::index::{Affine, Checked, Overflow, Pred, RelationRef, Size, Var};

/// The set `{i0 < n0, .. | guard}`, its indices numbered from `first`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PointSet {
    first: IndexId,
    extents: Vec<Size>,
    guard: Pred,
}

/// A summand of a count: `[condition] * polynomial * #sets`.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// A predicate without indices: on sizes, or a fact of the data.
    pub condition: &'a Pred,
    /// What is known as a formula.
    pub polynomial: &'a Polynomial,
    /// Sets whose numbers of points are further factors.
    pub sets: &'a [PointSet],
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Factors {
    condition: Pred,
    sets: Vec<PointSet>,
}

/// A number of points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pieces: BTreeMap<Factors, Polynomial>,
}

impl Count {
    /// No points.
    pub fn zero() -> Count {
        Count::default()
    }

    /// A formula.
    pub fn polynomial(polynomial: Polynomial) -> Count {
        Count::piece(Pred::True, Vec::new(), polynomial)
    }

    /// `#{i0 < n0, .. | guard}`, which nothing is known about.
    pub fn opaque(indices: &[(IndexId, Size)], guard: &Pred) -> Checked<Count> {
        let set = PointSet::new(indices, guard)?;
        Ok(Count::piece(Pred::True, vec![set], Polynomial::constant(1)))
    }

    fn piece(condition: Pred, sets: Vec<PointSet>, polynomial: Polynomial) -> Count {
        let mut count = Count::zero();
        if !polynomial.is_zero() && !condition.is_false() {
            count.pieces.insert(Factors { condition, sets }, polynomial);
        }
        count
    }

    /// The summands, in order.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = Piece<'_>> {
        self.pieces.iter().map(|(factors, polynomial)| Piece {
            condition: &factors.condition,
            polynomial,
            sets: &factors.sets,
        })
    }

    /// Whether there are no points, whatever the sizes.
    pub fn is_zero(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether it is a formula: no set of points is left.
    pub fn is_closed(&self) -> bool {
        self.pieces.keys().all(|factors| factors.sets.is_empty())
    }

    /// The formula, where it needs neither conditions nor sets.
    pub fn as_polynomial(&self) -> Option<Polynomial> {
        match self.pieces.len() {
            0 => Some(Polynomial::zero()),
            1 => {
                let (factors, polynomial) = self.pieces.first_key_value()?;
                (factors.condition.is_true() && factors.sets.is_empty()).then(|| polynomial.clone())
            }
            _ => None,
        }
    }

    /// The largest degree of a polynomial in it.
    pub fn degree(&self) -> u32 {
        self.pieces.values().map(Polynomial::degree).max().unwrap_or(0)
    }

    /// `self + other`.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn add(&self, other: &Count) -> Checked<Count> {
        let mut sum = self.clone();
        sum.accumulate(other)?;
        Ok(sum)
    }

    /// `self += other`.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn accumulate(&mut self, other: &Count) -> Checked<()> {
        for (factors, polynomial) in &other.pieces {
            self.insert(factors.clone(), polynomial)?;
        }
        Ok(())
    }

    fn insert(&mut self, factors: Factors, polynomial: &Polynomial) -> Checked<()> {
        let sum = match self.pieces.get(&factors) {
            Some(present) => present.add(polynomial)?,
            None => polynomial.clone(),
        };
        match sum.is_zero() || factors.condition.is_false() {
            true => self.pieces.remove(&factors),
            false => self.pieces.insert(factors, sum),
        };
        Ok(())
    }

    /// `k * self`.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn scale(&self, k: i128) -> Checked<Count> {
        let mut scaled = Count::zero();
        for (factors, polynomial) in &self.pieces {
            scaled.insert(factors.clone(), &polynomial.scale(Rational::integer(k))?)?;
        }
        Ok(scaled)
    }

    /// `self - other`.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn sub(&self, other: &Count) -> Checked<Count> {
        self.add(&other.scale(-1)?)
    }

    /// `self * other`.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn mul(&self, other: &Count) -> Checked<Count> {
        let mut product = Count::zero();
        for (a, p) in &self.pieces {
            for (b, q) in &other.pieces {
                let mut sets = [a.sets.as_slice(), b.sets.as_slice()].concat();
                sets.sort();
                let condition = a.condition.clone().and(b.condition.clone());
                product.insert(Factors { condition, sets }, &p.mul(q)?)?;
            }
        }
        Ok(product)
    }

    /// `[p] * self`, for a predicate without indices.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn given(&self, p: &Pred) -> Checked<Count> {
        match p {
            Pred::True => Ok(self.clone()),
            p => self.mul(&Count::piece(p.clone(), Vec::new(), Polynomial::constant(1))),
        }
    }

    /// The value for given sizes and relations, nothing where an index of an enclosing range or a relation is not known.
    ///
    /// # Errors
    /// Where the value leaves the range of 128-bit integers.
    pub fn evaluate<W: World + ?Sized>(&self, world: &W, relations: &dyn Relations) -> Option<Checked<i128>> {
        self.evaluate_at(world, relations, &BTreeMap::new())
    }

    /// The same, with values for indices of enclosing ranges.
    ///
    /// # Errors
    /// As [`Count::evaluate`].
    pub fn evaluate_at<W: World + ?Sized>(
        &self,
        world: &W,
        relations: &dyn Relations,
        at: &BTreeMap<IndexId, i64>,
    ) -> Option<Checked<i128>> {
        let mut sum: i128 = 0;
        for (factors, polynomial) in &self.pieces {
            match holds(&factors.condition, world, at) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(overflow) => return Some(Err(overflow)),
            }
            let mut unknown = |v: &Unknown| match v {
                Unknown::Index(i) => at.get(i).map(|i| i128::from(*i)),
                Unknown::Size(n) => Some(i128::from(world.size(*n))),
                Unknown::Entries(r) => entries(*r, None, world, relations),
                Unknown::Projected { relation, kept } => entries(*relation, Some(kept), world, relations),
            };
            let mut value = polynomial.evaluate(&mut unknown)?;
            for set in &factors.sets {
                value = value.and_then(|value| value.checked_mul(set.evaluate(world, at)?).ok_or(Overflow));
            }
            match value.and_then(|value| sum.checked_add(value).ok_or(Overflow)) {
                Ok(value) => sum = value,
                Err(overflow) => return Some(Err(overflow)),
            }
        }
        Some(Ok(sum))
    }

    /// How the count grows when all sizes do, see [`Hints`].
    pub fn estimate(&self, hints: &Hints, relations: &dyn Relations) -> Growth {
        let mut sum = Growth::zero();
        for (factors, polynomial) in &self.pieces {
            if !estimate::holds_eventually(&factors.condition, hints) {
                continue;
            }
            let mut growth = estimate::polynomial(polynomial, hints, relations);
            for set in &factors.sets {
                growth = growth.mul(&estimate::points(&set.indices(), &set.guard, hints, relations));
            }
            sum = sum.add(&growth);
        }
        sum
    }

    /// Whether it is a formula of sizes and numbers of entries alone: no set of points is left, and no condition on data.
    pub fn is_formula(&self) -> bool {
        let mut of_data = false;
        self.pieces.keys().for_each(|factors| factors.condition.visit_relations(&mut |_| of_data = true));
        self.is_closed() && !of_data
    }

    /// Whether it depends on the values of tensors, which are read as relations.
    pub fn reads_values(&self) -> bool {
        let mut reads = false;
        for factors in self.pieces.keys() {
            let guards = factors.sets.iter().map(|set| &set.guard);
            guards.chain([&factors.condition]).for_each(|p| p.visit_computed(&mut |_| reads = true));
        }
        reads
    }

    /// About how many points an evaluation looks at: those of the boxes around its sets, where relations give entries instead of indices.
    pub fn effort(&self, sample: &Sample) -> f64 {
        self.pieces.keys().flat_map(|factors| &factors.sets).map(|set| set.effort(sample)).sum()
    }

    /// Writes the pieces as a sum.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, f: &mut dyn Write, names: &dyn Names) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        for (at, piece) in self.pieces().enumerate() {
            piece.write(f, at == 0, names)?;
        }
        Ok(())
    }
}

impl Piece<'_> {
    /// Writes `[condition] * polynomial * #set`, after a sign: ` - ` or ` + `, of the first piece `-` or nothing.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, f: &mut dyn Write, first: bool, names: &dyn Names) -> fmt::Result {
        let bare = self.condition.is_true() && self.sets.is_empty();
        let leading = self.polynomial.terms().next().map_or(Rational::ZERO, |(_, k)| k);
        // A sum among other factors stands in parentheses, and so the sign of a single term comes first.
        let negative = leading.numerator() < 0 && (bare || self.polynomial.terms().len() == 1);
        f.write_str(match (first, negative) {
            (true, true) => "-",
            (true, false) => "",
            (false, true) => " - ",
            (false, false) => " + ",
        })?;
        let mut polynomial = String::new();
        self.polynomial.write(&mut polynomial, names)?;
        let polynomial = polynomial.strip_prefix('-').filter(|_| negative).unwrap_or(&polynomial);
        if bare {
            return f.write_str(polynomial);
        }
        let mut factors = Vec::new();
        if !self.condition.is_true() {
            let mut text = String::new();
            write_pred(&mut text, self.condition, 0, names)?;
            factors.push(format!("[{text}]"));
        }
        if self.polynomial.terms().len() > 1 {
            factors.push(format!("({polynomial})"));
        } else if polynomial != "1" {
            factors.push(polynomial.to_owned());
        }
        for set in self.sets {
            let mut text = String::new();
            set.write(&mut text, names)?;
            factors.push(text);
        }
        f.write_str(&factors.join(" * "))
    }
}

impl PointSet {
    /// The set with canonical names: the indices numbered in order, after those of enclosing ranges, then those that `exists` binds.
    fn new(indices: &[(IndexId, Size)], guard: &Pred) -> Checked<PointSet> {
        let mut outer = Vec::new();
        guard.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v {
                    outer.push(*i);
                }
            });
        });
        let mut bound = Vec::new();
        guard.visit_binders(&mut |i| bound.push(i));
        outer.retain(|i| !bound.contains(i) && !indices.iter().any(|(j, _)| j == i));
        let first = outer.iter().max().map_or(0, |i| i.index() + 1);
        let mut names: BTreeMap<IndexId, IndexId> =
            indices.iter().enumerate().map(|(at, (i, _))| (*i, IndexId::from_index(first + at))).collect();
        let guard = rename(guard, &mut names, first + indices.len())?;
        Ok(PointSet {
            first: IndexId::from_index(first),
            extents: indices.iter().map(|(_, n)| n.clone()).collect(),
            guard,
        })
    }

    /// The indices with their ranges.
    pub fn indices(&self) -> Vec<(IndexId, Size)> {
        let first = self.first.index();
        self.extents.iter().enumerate().map(|(at, n)| (IndexId::from_index(first + at), n.clone())).collect()
    }

    /// What holds of its points.
    pub fn guard(&self) -> &Pred {
        &self.guard
    }

    /// About how many points are looked at when they are visited.
    fn effort(&self, sample: &Sample) -> f64 {
        let extent = |n: &Size| sample.extent(n).map_or(f64::INFINITY, |n| n as f64);
        let mut open: BTreeMap<IndexId, f64> = self.indices().iter().map(|(i, n)| (*i, extent(n))).collect();
        let (mut atoms, mut relations, mut inner) = (vec![&self.guard], Vec::new(), 1.0);
        while let Some(p) = atoms.pop() {
            match p {
                Pred::All(ps) => atoms.extend(ps.iter()),
                Pred::Exists { index, extent: n, body } => {
                    open.insert(*index, extent(n));
                    atoms.push(body);
                }
                Pred::Relation { relation, args, holds: true } => relations.push((*relation, args)),
                p => p.visit_ranges(&mut |n| inner *= extent(n).max(1.0)),
            }
        }
        let mut effort: f64 = inner;
        for (relation, args) in relations {
            let given: Vec<IndexId> =
                args.iter().filter_map(Affine::as_index).filter(|i| open.contains_key(i)).collect();
            let volume: f64 = given.iter().filter_map(|i| open.remove(i)).product();
            effort *= volume.min(sample.entries(relation).max(1) as f64);
        }
        effort * open.values().product::<f64>()
    }

    /// The number of its points, by visiting them.
    fn evaluate<W: World + ?Sized>(&self, world: &W, at: &BTreeMap<IndexId, i64>) -> Checked<i128> {
        let bound: Vec<IndexId> = at.keys().copied().collect();
        let values: Vec<i64> = at.values().copied().collect();
        points(&Plan::new(&bound, &self.indices(), &self.guard), world, &values)
    }

    fn write(&self, f: &mut dyn Write, names: &dyn Names) -> fmt::Result {
        f.write_str("#{")?;
        for (at, (i, n)) in self.indices().iter().enumerate() {
            f.write_str(if at > 0 { ", " } else { "" })?;
            write!(f, "{} < ", names.index(*i))?;
            write_affine(f, n, names)?;
        }
        f.write_str(" | ")?;
        write_pred(f, &self.guard, 0, names)?;
        f.write_str("}")
    }
}

/// `p` with free indices renamed, and those that it binds numbered from `next` by their depth.
fn rename(p: &Pred, names: &mut BTreeMap<IndexId, IndexId>, next: usize) -> Checked<Pred> {
    Ok(match p {
        Pred::All(ps) => Pred::all(ps.iter().map(|p| rename(p, names, next)).collect::<Checked<Vec<_>>>()?),
        Pred::Any(ps) => Pred::any(ps.iter().map(|p| rename(p, names, next)).collect::<Checked<Vec<_>>>()?),
        Pred::Exists { index, extent, body } => {
            let fresh = IndexId::from_index(next);
            let outer = names.insert(*index, fresh);
            let body = rename(body, names, next + 1);
            match outer {
                Some(outer) => names.insert(*index, outer),
                None => names.remove(index),
            };
            Pred::exists(fresh, extent.clone(), body?)
        }
        atom => atom.substitute(&|i| names.get(&i).map(|j| Affine::index(*j)))?,
    })
}

fn points<W: World + ?Sized>(plan: &Plan, world: &W, bound: &[i64]) -> Checked<i128> {
    let mut points = 0;
    plan.for_each::<W, Overflow>(world, bound, &mut |_| {
        points += 1;
        Ok(())
    })?;
    Ok(points)
}

/// The number of tuples of a relation, or of their kept parts.
fn entries<W: World + ?Sized>(
    relation: RelationId,
    kept: Option<&[bool]>,
    world: &W,
    relations: &dyn Relations,
) -> Option<i128> {
    let relation = RelationRef::Input(relation);
    let places: Vec<(IndexId, &Size)> = (0..).map(IndexId).zip(relations.shape(relation)?).collect();
    let atom = Pred::relation(relation, Affine::indices(&places));
    let is_kept = |i: &IndexId| kept.is_none_or(|kept| kept.get(i.index()).copied().unwrap_or(false));
    let dropped = places.iter().rev().filter(|(i, _)| !is_kept(i));
    let guard = dropped.fold(atom, |body, (i, n)| Pred::exists(*i, (*n).clone(), body));
    let free: Vec<(IndexId, Size)> =
        places.iter().filter(|(i, _)| is_kept(i)).map(|(i, n)| (*i, (*n).clone())).collect();
    points(&Plan::new(&[], &free, &guard), world, &[]).ok()
}

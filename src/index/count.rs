//! How many integer points a guard has, as a formula in the sizes.
//!
//! A [`Count`] is a sum of pieces `[p] * q * #{i < n, .. | r}`: a predicate on sizes, a polynomial in sizes and numbers of entries, and
//! the sets of points that no formula was found for, which are kept as they are. So a count is always exact, for all sizes that satisfy the
//! facts, empty ranges included; what is found is only how much of it is closed.
//!
//! | guard | count | why |
//! |---|---|---|
//! | `p and q`, without a common index | product | the points are pairs |
//! | `p or q` | `#p + #q - #(p and q)` | |
//! | `p and a != 0` | `#p - #(p and a = 0)`, likewise `not R(..)` | where `a` has a value: no map applications |
//! | `i = a and p` | `p[a/i] and 0 <= a < n` | one `i` for each other point |
//! | `f(b, s)` of a map, `s` in no other atom | `b` in the range of the map | one target for each source |
//! | `R(i, j)`, `i` and `j` in no other atom | the number `|R|` of entries | |
//! | `exists k. R(i, k)`, likewise | the number `|R(*, _)|` of non-empty rows | |
//! | bounds with unit coefficients | see below | |
//! | anything else | opaque | |
//!
//! **Bounds.** An index lies between the largest of its lower bounds and the smallest of its upper ones. For each pair `l`, `u` of bounds
//! the case in which they are these is summed: `sum i = l .. u. q` is a polynomial, correct for `l <= u + 1` (see
//! [`Polynomial::sum`]). That `l` and `u` are the tightest, and `l <= u + 1`, become bounds on what is left, until only predicates on
//! sizes are. Cases that the facts exclude are dropped, and so are conditions that follow from them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use super::estimate::{self, Growth, Hints};
use super::points::holds;
use super::polynomial::{Polynomial, Rational, Unknown};
use super::print::{Names, write_affine, write_pred};
use super::{Affine, Checked, Facts, Overflow, Plan, Pred, RelationRef, Size, Var, World, exists, exists_all};
use crate::base::{Id, IndexId, RelationId};

/// How many rewriting steps one count may take; past it the points stay opaque.
const MAX_STEPS: usize = 256;
/// How many pieces a count may have and still be put together by comparing them.
const MAX_MERGED: usize = 48;
/// How many values of sizes are tried one by one when a piece is extended.
const MAX_EXTENSION: i64 = 8;

/// What a count needs to know of relations.
pub trait Relations {
    /// The ranges of the places, nothing for a relation that is not known.
    fn shape(&self, relation: RelationRef) -> Option<&[Size]>;

    /// Whether the last place is a function of the others. Each source of a map given at run time has a target; with a computed
    /// one the last axis must not be empty.
    fn is_map(&self, relation: RelationRef) -> bool;
}

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

/// The number of points of some indices, with their ranges, at which a guard holds.
///
/// Indices that are not listed are those of enclosing ranges: the count is a formula in them, and the facts may speak of them.
///
/// # Errors
/// Where a coefficient leaves the range of 128-bit integers.
pub fn count(
    indices: &[(IndexId, Size)],
    guard: &Pred,
    facts: &Facts,
    relations: &dyn Relations,
) -> Checked<Count> {
    Counter { facts, relations, steps: MAX_STEPS }.count(indices, guard)
}

/// The number of points of the kept indices for which the dropped ones have at least one point at which the guard holds.
///
/// # Errors
/// As [`count`], and where a coefficient leaves the range of 64-bit integers while indices are eliminated.
pub fn count_projected(
    kept: &[(IndexId, Size)],
    dropped: &[(IndexId, Size)],
    guard: &Pred,
    facts: &Facts,
    relations: &dyn Relations,
) -> Checked<Count> {
    count(kept, &exists_all(dropped, guard)?, facts, relations)
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

    /// The same count with conditions that the facts decide taken out, and with as few pieces as comparing neighbours finds.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn simplify(&self, facts: &Facts) -> Checked<Count> {
        let mut simpler = Count::zero();
        for (factors, polynomial) in &self.pieces {
            let condition = condition(&factors.condition, facts)?;
            let polynomial = on_equations(polynomial, &condition)?;
            simpler.insert(Factors { condition, sets: factors.sets.clone() }, &polynomial)?;
        }
        simpler.merge()
    }

    /// Puts pieces together that are one formula, see [`Line::merge`].
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn merge(&self) -> Checked<Count> {
        let mut count = self.clone();
        let conditional = |count: &Count| count.pieces.keys().any(|factors| !factors.condition.is_true());
        if !conditional(&count) || count.pieces.len() > MAX_MERGED {
            return Ok(count);
        }
        'again: loop {
            let directions: BTreeSet<Affine> =
                count.pieces.keys().flat_map(|factors| factors.condition.conjuncts()).filter_map(direction).collect();
            for (direction, by_points) in directions.iter().flat_map(|form| [(form, false), (form, true)]) {
                let merged = count.merge_along(direction, by_points)?;
                if merged.weight() < count.weight() {
                    count = merged;
                    continue 'again;
                }
            }
            return Ok(count);
        }
    }

    /// The number of pieces, and that of their conditions.
    fn weight(&self) -> (usize, usize) {
        (self.pieces.len(), self.pieces.keys().map(|factors| factors.condition.conjuncts().len()).sum())
    }

    /// Merges pieces whose conditions differ in how they bound one form, short intervals point by point where this is asked for.
    fn merge_along(&self, direction: &Affine, by_points: bool) -> Checked<Count> {
        let mut lines: BTreeMap<Factors, Line> = BTreeMap::new();
        for (factors, polynomial) in &self.pieces {
            let (interval, condition) = Interval::of(direction, &factors.condition);
            let rest = Factors { condition, sets: factors.sets.clone() };
            lines.entry(rest).or_default().0.push((interval, polynomial.clone()));
        }
        let mut merged = Count::zero();
        for (rest, line) in lines {
            for (interval, polynomial) in line.merge(direction, by_points)?.0 {
                let condition = interval.condition(direction)?.and(rest.condition.clone());
                let polynomial = on_equations(&polynomial, &condition)?;
                merged.insert(Factors { condition, sets: rest.sets.clone() }, &polynomial)?;
            }
        }
        Ok(merged)
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
    /// `[condition] * polynomial * #set`, after a sign unless it is the first.
    fn write(&self, f: &mut dyn Write, first: bool, names: &dyn Names) -> fmt::Result {
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
        collect_bound(guard, &mut bound);
        outer.retain(|i| !bound.contains(i) && !indices.iter().any(|(j, _)| j == i));
        let first = outer.iter().max().map_or(0, |i| i.index() + 1);
        let mut names: BTreeMap<IndexId, IndexId> =
            indices.iter().enumerate().map(|(at, (i, _))| (*i, IndexId::from_index(first + at))).collect();
        let guard = rename(guard, &mut names, first + indices.len())?;
        Ok(PointSet { first: IndexId::from_index(first), extents: indices.iter().map(|(_, n)| n.clone()).collect(), guard })
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

fn collect_bound(p: &Pred, bound: &mut Vec<IndexId>) {
    match p {
        Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| collect_bound(p, bound)),
        Pred::Exists { index, extent: _, body } => {
            bound.push(*index);
            collect_bound(body, bound);
        }
        Pred::True | Pred::False | Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_) | Pred::Relation { .. } => {}
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
    let atom = Pred::relation(relation, places.iter().map(|(i, _)| Affine::index(*i)).collect());
    let is_kept = |i: &IndexId| kept.is_none_or(|kept| kept.get(i.index()).copied().unwrap_or(false));
    let dropped = places.iter().rev().filter(|(i, _)| !is_kept(i));
    let guard = dropped.fold(atom, |body, (i, n)| Pred::exists(*i, (*n).clone(), body));
    let free: Vec<(IndexId, Size)> = places.iter().filter(|(i, _)| is_kept(i)).map(|(i, n)| (*i, (*n).clone())).collect();
    points(&Plan::new(&[], &free, &guard), world, &[]).ok()
}

// ---------------------------------------------------------------------------------------------------------------------------------

/// Counting in progress.
struct Counter<'a> {
    facts: &'a Facts,
    relations: &'a dyn Relations,
    /// How many steps are left.
    steps: usize,
}

/// Indices that atoms connect, and these atoms.
struct Component {
    indices: Vec<(IndexId, Size)>,
    atoms: Vec<Pred>,
}

impl Counter<'_> {
    fn count(&mut self, indices: &[(IndexId, Size)], guard: &Pred) -> Checked<Count> {
        if guard.is_false() {
            return Ok(Count::zero());
        }
        let (components, conditions) = components(indices, guard.conjuncts());
        let mut product = Count::polynomial(Polynomial::constant(1)).given(&Pred::all(conditions))?;
        for Component { indices, atoms } in components {
            let factor = match (indices.as_slice(), atoms.is_empty()) {
                ([(_, extent)], true) => self.range(extent)?,
                (indices, _) => self.component(indices, &Pred::all(atoms))?,
            };
            product = product.mul(&factor)?;
        }
        let plain = product.pieces.keys().all(|factors| factors.condition.is_true());
        if plain { Ok(product) } else { product.simplify(self.facts) }
    }

    /// `max(n, 0)`.
    fn range(&mut self, extent: &Size) -> Checked<Count> {
        // Extents are made of sizes.
        let Some(length) = Polynomial::affine(extent) else { return Err(Overflow) };
        let condition = match is_natural(extent) {
            true => Pred::True,
            false => Pred::non_negative(extent.clone()),
        };
        Ok(Count::piece(condition, Vec::new(), length))
    }

    /// A formula if there is one, else the set.
    fn component(&mut self, indices: &[(IndexId, Size)], guard: &Pred) -> Checked<Count> {
        let mut cases = Vec::new();
        let mut whole = vec![guard.clone()];
        for (i, extent) in indices {
            whole.push(Pred::in_range(&Affine::index(*i), extent)?);
        }
        let names: Vec<IndexId> = indices.iter().map(|(i, _)| *i).collect();
        // Where numbers do not fit the points can still be visited.
        let closed = self.closed(&names, &Pred::all(whole), &Polynomial::constant(1), &mut cases);
        if closed != Ok(true) {
            return Count::opaque(indices, guard);
        }
        let mut sum = Count::zero();
        for (condition, polynomial) in cases {
            sum.insert(Factors { condition, sets: Vec::new() }, &polynomial)?;
        }
        sum.simplify(self.facts)
    }

    /// `#{indices | guard} * factor` as `cases`; the guard holds the ranges of the indices. False where there is no formula.
    fn closed(
        &mut self,
        indices: &[IndexId],
        guard: &Pred,
        factor: &Polynomial,
        cases: &mut Vec<(Pred, Polynomial)>,
    ) -> Checked<bool> {
        let Some(steps) = self.steps.checked_sub(1) else { return Ok(false) };
        self.steps = steps;
        if guard.is_false() {
            return Ok(true);
        }
        let minus = || factor.scale(Rational::integer(-1));
        for (at, p) in guard.conjuncts().iter().enumerate().filter(|(_, p)| mentions_any(p, indices)) {
            let rest = || without(guard, &[at]);
            match p {
                // #[r and (p or q)]  ==  #[r and p] + #[r and q] - #[r and p and q]
                Pred::Any(ps) => {
                    let (first, others) = (ps[0].clone(), Pred::any(ps[1..].iter().cloned()));
                    let both = first.clone().and(others.clone());
                    return Ok(self.closed(indices, &rest().and(first), factor, cases)?
                        && self.closed(indices, &rest().and(others), factor, cases)?
                        && self.closed(indices, &rest().and(both), &minus()?, cases)?);
                }
                // #[r and not p]  ==  #r - #[r and p]
                Pred::NonZero(_) | Pred::Relation { holds: false, .. } if !applies(p) => {
                    let Some(p) = p.negate() else { return Ok(false) };
                    return Ok(self.closed(indices, &rest(), factor, cases)?
                        && self.closed(indices, &rest().and(p), &minus()?, cases)?);
                }
                Pred::Exists { index, extent, body } => {
                    let simpler = exists(*index, extent, body)?;
                    if simpler != *p {
                        return self.closed(indices, &rest().and(simpler), factor, cases);
                    }
                }
                _ => {}
            }
        }
        if let Some((at, i, value)) = solution(indices, guard) {
            // The range of i is among the rest.
            let rest = without(guard, &[at]).substitute(&|j| (j == i).then(|| value.clone()))?;
            let indices: Vec<IndexId> = indices.iter().copied().filter(|j| *j != i).collect();
            return self.closed(&indices, &rest, factor, cases);
        }
        self.data(indices, guard, factor, cases)
    }

    /// The same, without `or`, negations and equations with a solution.
    fn data(
        &mut self,
        indices: &[IndexId],
        guard: &Pred,
        factor: &Polynomial,
        cases: &mut Vec<(Pred, Polynomial)>,
    ) -> Checked<bool> {
        let atoms = guard.conjuncts();
        for (at, p) in atoms.iter().enumerate().filter(|(_, p)| mentions_any(p, indices)) {
            match p {
                Pred::NonNegative(a) if applies(p) => {
                    let Some(defined) = self.bound_on_target(a)? else { return Ok(false) };
                    return self.closed(indices, &without(guard, &[at]).and(defined), factor, cases);
                }
                Pred::NonNegative(_) => {}
                Pred::Relation { .. } | Pred::Exists { .. } if !applies(p) => {
                    let Some(data) = self.entries(at, p, indices, atoms)? else { return Ok(false) };
                    let indices: Vec<IndexId> = indices.iter().copied().filter(|i| !data.indices.contains(i)).collect();
                    let rest = without(guard, &data.atoms).and(data.condition);
                    return self.closed(&indices, &rest, &factor.mul(&data.count)?, cases);
                }
                _ => return Ok(false),
            }
        }
        self.sum(indices, guard, factor, cases)
    }

    /// A bound on the target of a map that says no more than that the source has one: the source is in range.
    fn bound_on_target(&self, a: &Affine) -> Checked<Option<Pred>> {
        let mut applications = a.terms().iter().filter_map(|(v, k)| match v {
            Var::Apply(application) => Some((application, *k)),
            _ => None,
        });
        let (Some((application, k)), None) = (applications.next(), applications.next()) else { return Ok(None) };
        let Some((target, source)) = self.map_shape(application.map) else { return Ok(None) };
        let rest = Affine::from_terms(
            a.terms().iter().filter(|(v, _)| !matches!(v, Var::Apply(_))).cloned(),
            a.offset(),
        )?;
        // 0 <= f(b) + c  where 0 <= c;  0 <= c - f(b)  where the last target is at most c.
        let slack = match k {
            1 => rest,
            -1 => rest.sub(target)?.add_constant(1)?,
            _ => return Ok(None),
        };
        if source.len() != application.args.len() || !Context::new(self.facts, &Pred::True).implies(&slack) {
            return Ok(None);
        }
        self.has_target(application.map, &application.args).map(Some)
    }

    /// The ranges of the target and of the source of a map.
    fn map_shape(&self, map: RelationRef) -> Option<(&Size, &[Size])> {
        self.relations.shape(map).filter(|_| self.relations.is_map(map))?.split_last()
    }

    /// Where a map has a target.
    fn has_target(&self, map: RelationRef, source: &[Affine]) -> Checked<Pred> {
        let Some((target, shape)) = self.map_shape(map) else { return Ok(Pred::False) };
        let mut conditions = Vec::new();
        for (a, n) in source.iter().zip(shape) {
            conditions.push(Pred::in_range(a, n)?);
        }
        if matches!(map, RelationRef::Computed { .. }) {
            conditions.push(Pred::lt(&Affine::constant(0), target)?);
        }
        Ok(Pred::all(conditions))
    }

    /// The points of indices that one atom of data is alone with.
    fn entries(&self, at: usize, atom: &Pred, indices: &[IndexId], atoms: &[Pred]) -> Checked<Option<Entries>> {
        let Some(projection) = Projection::of(atom, self.relations)? else { return Ok(None) };
        let Projection { relation, shape, places } = &projection;
        let kept: Vec<(&Affine, &Size)> =
            places.iter().zip(shape.iter()).filter_map(|(place, n)| Some((place.as_ref()?, n))).collect();
        // The last place of a map, where it is free or gone, says only that the source has a target.
        if let (Some((target, source)), true) = (places.split_last(), self.relations.is_map(*relation)) {
            let source: Option<Vec<Affine>> = source.iter().cloned().collect();
            let target: Vec<(&Affine, &Size)> = target.iter().zip(shape.last()).collect();
            if let Some(source) = source
                && let Some((indices, mut used)) = self.alone(at, &target, indices, atoms)?
                && !source.iter().any(|a| indices.iter().any(|i| a.mentions(*i)))
            {
                used.push(at);
                let condition = self.has_target(*relation, &source)?;
                return Ok(Some(Entries { indices, atoms: used, condition, count: Polynomial::constant(1) }));
            }
        }
        let RelationRef::Input(relation) = *relation else { return Ok(None) };
        let Some((indices, mut used)) = self.alone(at, &kept, indices, atoms)? else { return Ok(None) };
        used.push(at);
        let unknown = match kept.len() == places.len() {
            true => Unknown::Entries(relation),
            false => Unknown::Projected { relation, kept: places.iter().map(Option::is_some).collect() },
        };
        Ok(Some(Entries { indices, atoms: used, condition: Pred::True, count: Polynomial::unknown(unknown) }))
    }

    /// The indices of some places of atom number `at`, with the bounds on them, where these follow from the ranges of the places, and where
    /// the values of the places are in one-to-one correspondence with those of the indices.
    fn alone(
        &self,
        at: usize,
        places: &[(&Affine, &Size)],
        indices: &[IndexId],
        atoms: &[Pred],
    ) -> Checked<Option<(Vec<IndexId>, Vec<usize>)>> {
        let mut own: Vec<IndexId> = Vec::new();
        let mut known = Vec::new();
        for (a, n) in places {
            let mut inner = a.terms().iter().filter_map(|(v, k)| match v {
                Var::Index(i) if indices.contains(i) => Some((*i, *k)),
                _ => None,
            });
            match (inner.next(), inner.next()) {
                (Some((i, 1 | -1)), None) if !own.contains(&i) => own.push(i),
                _ => return Ok(None),
            }
            known.push(Pred::in_range(a, n)?);
        }
        let mut bounds = Vec::new();
        for (other, p) in atoms.iter().enumerate().filter(|(other, _)| *other != at) {
            match p {
                p if !mentions_any(p, &own) => known.extend(matches!(p, Pred::NonNegative(_)).then(|| p.clone())),
                Pred::NonNegative(a) => bounds.push((other, a)),
                _ => return Ok(None),
            }
        }
        let context = Pred::all(known);
        let context = Context::new(self.facts, &context);
        let implied = bounds.iter().all(|(_, a)| context.implies(a));
        Ok(implied.then(|| (own, bounds.into_iter().map(|(other, _)| other).collect())))
    }

    /// The same for bounds alone, and `value` a polynomial that may mention the indices.
    fn sum(
        &mut self,
        indices: &[IndexId],
        guard: &Pred,
        value: &Polynomial,
        cases: &mut Vec<(Pred, Polynomial)>,
    ) -> Checked<bool> {
        let Some(steps) = self.steps.checked_sub(1) else { return Ok(false) };
        self.steps = steps;
        if guard.is_false() {
            return Ok(true);
        }
        if indices.is_empty() {
            cases.push((guard.clone(), value.clone()));
            return Ok(true);
        }
        let Some(range) = indices.iter().rev().filter_map(|i| Range::of(*i, guard)).min_by_key(Range::cases) else {
            return match self.without_implied(indices, guard)? {
                Some(guard) => self.sum(indices, &guard, value, cases),
                None => Ok(false),
            };
        };
        let Range { index, rest, mut lower, mut upper } = range;
        let context = Context::new(self.facts, &rest);
        retain_tightest(&mut lower, |a, b| Ok(context.implies(&a.sub(b)?)))?;
        retain_tightest(&mut upper, |a, b| Ok(context.implies(&b.sub(a)?)))?;
        let left: Vec<IndexId> = indices.iter().copied().filter(|i| *i != index).collect();
        for (x, first) in lower.iter().enumerate() {
            for (y, last) in upper.iter().enumerate() {
                let mut conditions = vec![last.sub(first)?.add_constant(1)?];
                // Of equal bounds the first counts.
                for (z, other) in lower.iter().enumerate().filter(|(z, _)| *z != x) {
                    conditions.push(first.sub(other)?.add_constant(-i64::from(z < x))?);
                }
                for (z, other) in upper.iter().enumerate().filter(|(z, _)| *z != y) {
                    conditions.push(other.sub(last)?.add_constant(-i64::from(z < y))?);
                }
                let conditions = Pred::all(conditions.into_iter().filter(|a| !context.implies(a)).map(Pred::non_negative));
                let (Some(first), Some(last)) = (Polynomial::affine(first), Polynomial::affine(last)) else {
                    return Ok(false);
                };
                let value = value.sum(index, &first, &last)?;
                if !self.sum(&left, &rest.clone().and(conditions), &value, cases)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The guard without a bound that follows from the others, if there is one.
    fn without_implied(&self, indices: &[IndexId], guard: &Pred) -> Checked<Option<Pred>> {
        for (at, p) in guard.conjuncts().iter().enumerate() {
            let Pred::NonNegative(a) = p else { continue };
            let unit = |v: &Var, k: i64| !matches!(v, Var::Index(i) if indices.contains(i)) || k.abs() == 1;
            if a.terms().iter().all(|(v, k)| unit(v, *k)) {
                continue;
            }
            let rest = without(guard, &[at]);
            if Context::new(self.facts, &rest).implies(a) {
                return Ok(Some(rest));
            }
        }
        Ok(None)
    }
}

/// What an atom of data counts.
struct Entries {
    /// The indices that it determines.
    indices: Vec<IndexId>,
    /// The atoms that are used up.
    atoms: Vec<usize>,
    /// What is left to hold.
    condition: Pred,
    /// How many values the indices take.
    count: Polynomial,
}

/// `exists k, .. R(a, k, ..)`: a relation of which some places are dropped.
struct Projection<'a> {
    relation: RelationRef,
    shape: &'a [Size],
    /// Nothing for a place that is dropped.
    places: Vec<Option<Affine>>,
}

impl<'a> Projection<'a> {
    fn of(atom: &Pred, relations: &'a dyn Relations) -> Checked<Option<Self>> {
        let mut binders: Vec<(IndexId, &Size)> = Vec::new();
        let mut body = atom;
        while let Pred::Exists { index, extent, body: inner } = body {
            binders.push((*index, extent));
            body = inner;
        }
        let Pred::Relation { relation, args, holds: true } = body else { return Ok(None) };
        let Some(shape) = relations.shape(*relation).filter(|shape| shape.len() == args.len()) else { return Ok(None) };
        let mut places: Vec<Option<Affine>> = args.iter().cloned().map(Some).collect();
        for (k, extent) in &binders {
            // Each bound index is one place, over all its range.
            let mut at = (0..args.len()).filter(|at| args[*at].mentions(*k));
            match (at.next(), at.next()) {
                (Some(at), None) if args[at].as_index() == Some(*k) && covers(extent, &shape[at])? => places[at] = None,
                _ => return Ok(None),
            }
        }
        Ok(Some(Projection { relation: *relation, shape, places }))
    }
}

/// Whether `n <= extent`, plainly.
fn covers(extent: &Size, n: &Size) -> Checked<bool> {
    Ok(is_natural(&extent.sub(n)?))
}

/// The bounds of an index, all with unit coefficients.
struct Range {
    index: IndexId,
    /// The conjuncts that do not mention it.
    rest: Pred,
    lower: Vec<Affine>,
    upper: Vec<Affine>,
}

impl Range {
    fn of(index: IndexId, guard: &Pred) -> Option<Range> {
        let (mut rest, mut lower, mut upper) = (Vec::new(), Vec::new(), Vec::new());
        for p in guard.conjuncts() {
            let k = match p {
                Pred::NonNegative(a) => a.coefficient(&Var::Index(index)),
                _ => 0,
            };
            match (p, k) {
                (p, 0) => rest.push(p.clone()),
                // 0 <= i + b
                (Pred::NonNegative(a), 1) => lower.push(Affine::index(index).sub(a).ok()?),
                // 0 <= b - i
                (Pred::NonNegative(a), -1) => upper.push(a.add(&Affine::index(index)).ok()?),
                _ => return None,
            }
        }
        (!lower.is_empty() && !upper.is_empty()).then(|| Range { index, rest: Pred::all(rest), lower, upper })
    }

    fn cases(&self) -> usize {
        self.lower.len() * self.upper.len()
    }
}

/// Drops bounds that another one is always at least as tight as.
fn retain_tightest(bounds: &mut Vec<Affine>, tighter: impl Fn(&Affine, &Affine) -> Checked<bool>) -> Checked<()> {
    let mut at = 0;
    while at < bounds.len() {
        let mut dominated = false;
        for other in (0..bounds.len()).filter(|other| *other != at) {
            dominated = dominated || tighter(&bounds[other], &bounds[at])?;
        }
        if dominated {
            bounds.remove(at);
        } else {
            at += 1;
        }
    }
    Ok(())
}

/// What is known where a case is looked at: first asked is what two bounds at a time give, then a proof is sought.
struct Context<'a> {
    facts: &'a Facts,
    guard: &'a Pred,
    known: OnceCell<Facts>,
}

impl<'a> Context<'a> {
    fn new(facts: &'a Facts, guard: &'a Pred) -> Self {
        Context { facts, guard, known: OnceCell::new() }
    }

    /// Whether `0 <= a` follows.
    fn implies(&self, a: &Affine) -> bool {
        if is_natural(a) {
            return true;
        }
        if a.as_constant().is_some() {
            return false;
        }
        self.implies_simply(a) || self.known().proves(&Pred::non_negative(a.clone()))
    }

    fn known(&self) -> &Facts {
        self.known.get_or_init(|| {
            let mut facts = self.facts.clone();
            facts.assume(self.guard);
            facts
        })
    }

    /// `a = b + c + d` with bounds `0 <= b` and `0 <= c`, and `d` a sum of sizes.
    fn implies_simply(&self, a: &Affine) -> bool {
        let bounds = || {
            self.guard.conjuncts().iter().filter_map(|p| match p {
                Pred::NonNegative(b) => Some(b),
                _ => None,
            })
        };
        for (at, b) in bounds().enumerate() {
            // A bound that has nothing in common only makes it worse.
            if !b.terms().iter().any(|(v, k)| !matches!(v, Var::Size(_)) && a.coefficient(v).signum() == k.signum()) {
                continue;
            }
            let Ok(rest) = a.sub(b) else { continue };
            if is_natural(&rest) {
                return true;
            }
            if bounds().skip(at + 1).any(|c| rest.sub(c).is_ok_and(|rest| is_natural(&rest))) {
                return true;
            }
        }
        false
    }
}

/// Whether a size is plainly not negative.
fn is_natural(a: &Affine) -> bool {
    a.offset() >= 0 && a.terms().iter().all(|(v, k)| matches!(v, Var::Size(_)) && *k > 0)
}

fn mentions_any(p: &Pred, indices: &[IndexId]) -> bool {
    indices.iter().any(|i| p.mentions(*i))
}

/// Whether maps are applied in it.
fn applies(p: &Pred) -> bool {
    let mut found = false;
    p.visit_affine(&mut |a| found |= a.terms().iter().any(|(v, _)| matches!(v, Var::Apply(_))));
    found
}

/// The other conjuncts.
fn without(guard: &Pred, dropped: &[usize]) -> Pred {
    let kept = guard.conjuncts().iter().enumerate().filter(|(at, _)| !dropped.contains(at));
    Pred::all(kept.map(|(_, p)| p.clone()))
}

/// An equation `i = a` among the conjuncts: its place, `i` and `a`; of several the simplest.
fn solution(indices: &[IndexId], guard: &Pred) -> Option<(usize, IndexId, Affine)> {
    let mut best: Option<(usize, IndexId, Affine)> = None;
    for (at, p) in guard.conjuncts().iter().enumerate() {
        let Pred::Zero(a) = p else { continue };
        for (v, k) in a.terms() {
            let (Var::Index(i), 1 | -1) = (v, k) else { continue };
            // k*i + b = 0
            let Some(value) = a.scale(-k).and_then(|b| b.add(&Affine::index(*i))).ok() else { continue };
            let simpler = |other: &Affine| (value.nesting(), value.terms().len()) < (other.nesting(), other.terms().len());
            if indices.contains(i) && !value.mentions(*i) && best.as_ref().is_none_or(|(_, _, other)| simpler(other)) {
                best = Some((at, *i, value));
            }
        }
    }
    best
}

/// Indices that share no atom, and the atoms without any index.
fn components(indices: &[(IndexId, Size)], atoms: &[Pred]) -> (Vec<Component>, Vec<Pred>) {
    let mut components: Vec<Component> =
        indices.iter().map(|pair| Component { indices: vec![pair.clone()], atoms: Vec::new() }).collect();
    let mut conditions = Vec::new();
    for p in atoms {
        let touched = |c: &Component| c.indices.iter().any(|(i, _)| p.mentions(*i));
        let Some(home) = components.iter().position(touched) else {
            conditions.push(p.clone());
            continue;
        };
        while let Some(at) = components.iter().skip(home + 1).position(touched) {
            let other = components.remove(home + 1 + at);
            components[home].indices.extend(other.indices);
            components[home].atoms.extend(other.atoms);
        }
        components[home].atoms.push(p.clone());
    }
    (components, conditions)
}

// ---------------------------------------------------------------------------------------------------------------------------------

/// A condition without what the facts decide; two opposite bounds become an equation.
fn condition(p: &Pred, facts: &Facts) -> Checked<Pred> {
    if p.is_true() {
        return Ok(Pred::True);
    }
    let simple = facts.simplify(p);
    let mut atoms = simple.conjuncts().to_vec();
    for p in simple.conjuncts() {
        if let Pred::NonNegative(a) = p
            && let opposite = Pred::non_negative(a.scale(-1)?)
            && simple.conjuncts().contains(&opposite)
        {
            atoms.retain(|q| q != p && *q != opposite);
            atoms.push(Pred::zero(a.clone()));
        }
    }
    Ok(if simple.is_false() { Pred::False } else { Pred::all(atoms) })
}

/// The polynomial with sizes replaced that the equations of a condition determine.
fn on_equations(polynomial: &Polynomial, condition: &Pred) -> Checked<Polynomial> {
    let mut polynomial = polynomial.clone();
    for p in condition.conjuncts() {
        if let Pred::Zero(a) = p
            && let Some(on) = on_hyperplane(&polynomial, a)?
        {
            polynomial = on;
        }
    }
    Ok(polynomial)
}

/// The polynomial where `a = 0`, without a variable that has a unit coefficient in `a`; nothing if there is none.
fn on_hyperplane(polynomial: &Polynomial, a: &Affine) -> Checked<Option<Polynomial>> {
    let solved = a.terms().iter().rev().find(|(v, k)| matches!(v, Var::Size(_) | Var::Index(_)) && k.abs() == 1);
    let Some((v, k)) = solved else { return Ok(None) };
    let value = a.scale(-k)?.add(&Affine::var(v.clone()))?;
    let unknown = match v {
        Var::Size(n) => Unknown::Size(*n),
        Var::Index(i) => Unknown::Index(*i),
        Var::Apply(_) => return Ok(None),
    };
    match Polynomial::affine(&value) {
        Some(value) => polynomial.substitute(&unknown, &value).map(Some),
        None => Ok(None),
    }
}

/// The form that a bound or an equation bounds, without constant and with a positive first coefficient. Nothing for one with maps, which
/// may have no value, so that neither a bound nor its opposite holds.
fn direction(p: &Pred) -> Option<Affine> {
    let (Pred::NonNegative(a) | Pred::Zero(a)) = p else { return None };
    if applies(p) {
        return None;
    }
    let sign = a.terms().first()?.1.signum();
    a.add_constant(a.offset().checked_neg()?).ok()?.scale(sign).ok()
}

/// The values `first ..= last` of a form; nothing for an open end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: Option<i64>,
    last: Option<i64>,
}

impl Interval {
    /// How a condition bounds a form, and the rest of it.
    fn of(form: &Affine, condition: &Pred) -> (Interval, Pred) {
        let mut interval = Interval { first: None, last: None };
        let mut rest = Vec::new();
        let opposite = form.scale(-1).ok();
        for p in condition.conjuncts() {
            let (Pred::NonNegative(a) | Pred::Zero(a)) = p else {
                rest.push(p.clone());
                continue;
            };
            let equation = matches!(p, Pred::Zero(_));
            // 0 <= t + c, or t + c = 0
            if a.terms() == form.terms()
                && let Some(bound) = a.offset().checked_neg()
            {
                interval.first = interval.first.max(Some(bound));
                if equation {
                    interval.last = Some(bound);
                }
            // 0 <= c - t
            } else if opposite.as_ref().is_some_and(|opposite| a.terms() == opposite.terms()) && !equation {
                let bound = a.offset();
                interval.last = Some(interval.last.map_or(bound, |last| last.min(bound)));
            } else {
                rest.push(p.clone());
            }
        }
        (interval, Pred::all(rest))
    }

    fn condition(self, form: &Affine) -> Checked<Pred> {
        if let (Some(first), Some(last)) = (self.first, self.last)
            && first == last
        {
            return Pred::equal(form, &Affine::constant(first));
        }
        let first = self.first.map(|first| Pred::le(&Affine::constant(first), form)).transpose()?;
        let last = self.last.map(|last| Pred::le(form, &Affine::constant(last))).transpose()?;
        Ok(Pred::all(first.into_iter().chain(last)))
    }

    fn contains(self, other: Interval) -> bool {
        let first = self.first.is_none_or(|a| other.first.is_some_and(|b| a <= b));
        let last = self.last.is_none_or(|a| other.last.is_some_and(|b| b <= a));
        first && last
    }
}

/// Formulas by intervals of one form, which may overlap.
#[derive(Debug, Default)]
struct Line(Vec<(Interval, Polynomial)>);

impl Line {
    /// The same function on disjoint intervals; neighbours with the same formula are one, also where the formula of one happens to give
    /// the values of the other.
    fn merge(self, form: &Affine, by_points: bool) -> Checked<Line> {
        // Sizes are not negative.
        let least = is_natural(form).then_some(0);
        let mut starts: BTreeSet<Option<i64>> = [least].into();
        for (interval, _) in &self.0 {
            starts.insert(interval.first.max(least));
            if let Some(last) = interval.last {
                starts.insert(Some(last.checked_add(1).ok_or(Overflow)?));
            }
        }
        if by_points {
            let pairs: Vec<(Option<i64>, Option<i64>)> = starts.iter().copied().zip(starts.iter().skip(1).copied()).collect();
            for (first, next) in pairs {
                if let (Some(first), Some(next)) = (first, next)
                    && next.saturating_sub(first) <= MAX_EXTENSION
                {
                    starts.extend((first..next).map(Some));
                }
            }
        }
        let starts: Vec<Option<i64>> = starts.into_iter().filter(|start| *start >= least).collect();
        let mut merged: Vec<(Interval, Polynomial)> = Vec::new();
        for (at, first) in starts.iter().enumerate() {
            let last = starts.get(at + 1).copied().flatten().map(|next| next - 1);
            let interval = Interval { first: *first, last };
            let mut sum = Polynomial::zero();
            for (whole, polynomial) in &self.0 {
                let whole = Interval { first: whole.first.filter(|first| Some(*first) > least), ..*whole };
                if whole.contains(interval) {
                    sum = sum.add(polynomial)?;
                }
            }
            if let (true, Some(value)) = (by_points && *first == last, last)
                && let Some(on) = on_hyperplane(&sum, &form.add_constant(value.checked_neg().ok_or(Overflow)?)?)?
            {
                sum = on;
            }
            merged.push((interval, sum));
            while let [.., (before, a), (after, b)] = merged.as_mut_slice() {
                if agree(a, b, *before, form)? {
                    *a = b.clone();
                } else if !agree(a, b, *after, form)? {
                    break;
                }
                before.last = after.last;
                merged.pop();
            }
        }
        merged.retain(|(_, polynomial)| !polynomial.is_zero());
        for (interval, _) in &mut merged {
            interval.first = interval.first.filter(|first| Some(*first) > least);
        }
        Ok(Line(merged))
    }
}

/// Whether two formulas have the same values on an interval of a form.
fn agree(a: &Polynomial, b: &Polynomial, on: Interval, form: &Affine) -> Checked<bool> {
    if a == b {
        return Ok(true);
    }
    let (Some(first), Some(last)) = (on.first, on.last) else { return Ok(false) };
    if last.checked_sub(first).is_none_or(|length| length >= MAX_EXTENSION) {
        return Ok(false);
    }
    let difference = a.sub(b)?;
    for value in first..=last {
        match on_hyperplane(&difference, &form.add_constant(value.checked_neg().ok_or(Overflow)?)?)? {
            Some(difference) if difference.is_zero() => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::oracle::{MAP, Source, Toy};
    use super::super::{Application, View};
    use super::*;
    use crate::base::{SizeId, VarId};

    /// What [`Toy`] knows: `R0 : [4]`, `R1 : [4, 4]`, the map `R2 : [4] -> [4]`; `R3 : [n0, n1]` and the map `R4 : [n0] -> [n1]` for formulas.
    struct Shapes(Vec<Vec<Size>>);

    impl Shapes {
        fn new() -> Shapes {
            let [four, n, m] = [4.into(), Affine::size(SizeId(0)), Affine::size(SizeId(1))];
            let square = vec![four.clone(); 2];
            Shapes(vec![vec![four], square.clone(), square, vec![n.clone(), m.clone()], vec![n, m]])
        }
    }

    impl Relations for Shapes {
        fn shape(&self, relation: RelationRef) -> Option<&[Size]> {
            match relation {
                RelationRef::Input(r) => self.0.get(r.index()).map(Vec::as_slice),
                RelationRef::Computed { .. } => self.0.last().map(Vec::as_slice),
            }
        }
        fn is_map(&self, relation: RelationRef) -> bool {
            match relation {
                RelationRef::Input(r) => r.0 == 2 || r.0 == 4,
                RelationRef::Computed { view, .. } => view != View::Support,
            }
        }
    }

    struct Plain;
    impl Names for Plain {
        fn index(&self, i: IndexId) -> String {
            ["i", "j", "k", "l", "p", "q"].get(i.index()).map_or_else(|| i.to_string(), |i| (*i).to_owned())
        }
        fn size(&self, n: SizeId) -> String {
            ["n", "m"][n.index()].to_owned()
        }
        fn relation(&self, r: RelationId) -> String {
            r.to_string()
        }
        fn var(&self, x: VarId) -> String {
            x.to_string()
        }
    }

    fn text(count: &Count) -> String {
        let mut text = String::new();
        count.write(&mut text, &Plain).unwrap();
        text
    }

    fn le(a: &Affine, b: &Affine) -> Pred {
        Pred::le(a, b).unwrap()
    }

    fn equal(a: &Affine, b: &Affine) -> Pred {
        Pred::equal(a, b).unwrap()
    }

    fn plus(a: &Affine, k: i64) -> Affine {
        a.add_constant(k).unwrap()
    }

    /// What must have a formula, and which.
    #[test]
    fn counts_have_the_formulas_of_books() {
        let [n, m] = [0, 1].map(|at| Affine::size(SizeId(at)));
        let [i, j, k] = [0, 1, 2].map(|at| Affine::index(IndexId(at)));
        let related = |r: u32, args: &[&Affine]| {
            Pred::relation(RelationRef::Input(RelationId(r)), args.iter().map(|a| (*a).clone()).collect())
        };
        let not = |p: Pred| p.negate().unwrap();
        let square = [n.clone(), n.clone()];
        let matrix = [n.clone(), m.clone()];
        let cube = [n.clone(), n.clone(), n.clone()];
        let conv = plus(&n.add(&m).unwrap(), -1);
        let shifted = plus(&i.sub(&j).unwrap().add(&m).unwrap(), -1);
        let argmax = RelationRef::Computed { var: VarId(0), view: View::ArgMax };
        let cases: Vec<(Vec<Size>, Pred, &str)> = vec![
            (vec![], Pred::True, "1"),
            // Boxes.
            (matrix.to_vec(), Pred::True, "n*m"),
            (vec![conv.clone(), plus(&n, 2)], Pred::True, "[0 < n + m] * (n^2 + n*m + n + 2*m - 2)"),
            (matrix.to_vec(), le(&1.into(), &m), "n*m"),
            (square.to_vec(), le(&2.into(), &m), "[1 < m] * n^2"),
            (square.to_vec(), le(&1.into(), &i), "n^2 - n"),
            // Triangles.
            (square.to_vec(), le(&i, &j), "n^2/2 + n/2"),
            (square.to_vec(), le(&plus(&i, 1), &j), "n^2/2 - n/2"),
            (cube.to_vec(), le(&i, &j).and(le(&j, &k)), "n^3/6 + n^2/2 + n/3"),
            (cube.to_vec(), le(&plus(&i, 1), &j).and(le(&plus(&j, 1), &k)), "n^3/6 - n^2/2 + n/3"),
            (matrix.to_vec(), le(&i, &j), "[n <= m + 1] * (-n^2/2 + n*m + n/2) + [m + 1 < n] * (m^2/2 + m/2)"),
            (square.to_vec(), le(&i.add(&j).unwrap(), &plus(&n, -1)), "n^2/2 + n/2"),
            // Bands.
            (square.to_vec(), le(&i, &j).and(le(&j, &plus(&i, 1))), "[0 < n] * (2*n - 1)"),
            (square.to_vec(), le(&plus(&i, -1), &j).and(le(&j, &plus(&i, 1))), "[0 < n] * (3*n - 2)"),
            // Diagonals, and what is fixed by equations.
            (square.to_vec(), equal(&i, &j), "n"),
            (square.to_vec(), not(equal(&i, &j)), "n^2 - n"),
            (matrix.to_vec(), equal(&i, &j), "[n <= m] * n + [m < n] * m"),
            (cube.to_vec(), equal(&i, &j).and(equal(&j, &k)), "n"),
            (cube.to_vec(), equal(&i, &j).or(equal(&j, &k)), "2*n^2 - n"),
            (square.to_vec(), equal(&j, &plus(&i, 1)), "[0 < n] * (n - 1)"),
            (square.to_vec(), equal(&j, &0.into()), "n"),
            (vec![n.clone(), m.clone(), conv.clone()], equal(&k, &shifted), "n*m"),
            (vec![n.clone(), m.clone(), n.scale(2).unwrap()], equal(&k, &i.scale(2).unwrap()), "n*m"),
            (square.to_vec(), equal(&plus(&i.add(&j).unwrap(), 1), &n), "n"),
            // Relations.
            (matrix.to_vec(), related(3, &[&i, &j]), "|R3|"),
            (vec![n.clone(), m.clone(), n.clone()], related(3, &[&i, &j]), "n*|R3|"),
            (matrix.to_vec(), not(related(3, &[&i, &j])), "n*m - |R3|"),
            (matrix.to_vec(), related(3, &[&i, &j]).and(le(&i, &j)), "#{i < n, j < m | i <= j and R3(i, j)}"),
            (square.to_vec(), related(3, &[&i, &j]), "#{i < n, j < n | R3(i, j)}"),
            (vec![plus(&n, 1), m.clone()], related(3, &[&plus(&i, -1), &j]), "|R3|"),
            (vec![n.clone()], Pred::exists(IndexId(8), m.clone(), related(3, &[&i, &Affine::index(IndexId(8))])), "|R3(*, _)|"),
            (vec![m.clone()], Pred::exists(IndexId(8), n.clone(), related(3, &[&Affine::index(IndexId(8)), &i])), "|R3(_, *)|"),
            (vec![n.clone()], related(3, &[&i, &i]), "#{i < n | R3(i, i)}"),
            (vec![n.clone()], related(3, &[&0.into(), &0.into()]), "[R3(0, 0)] * n"),
            // Maps.
            (matrix.to_vec(), related(4, &[&i, &j]), "n"),
            (matrix.to_vec(), not(related(4, &[&i, &j])), "n*m - n"),
            (vec![n.clone(), m.clone(), n.clone()], related(4, &[&i, &j]).and(related(3, &[&k, &j])), "#{i < n, j < m, k < n | R3(k, j) and R4(i, j)}"),
            (vec![n.clone(), m.clone(), m.clone()], related(4, &[&i, &j]).and(related(4, &[&i, &k])), "n"),
            (vec![m.clone()], Pred::exists(IndexId(8), n.clone(), related(4, &[&Affine::index(IndexId(8)), &i])), "|R4(_, *)|"),
            (matrix.to_vec(), Pred::relation(argmax, vec![i.clone(), j.clone()]), "[0 < m] * n"),
            (matrix.to_vec(), related(4, &[&i, &j]).and(le(&j, &i)), "#{i < n, j < m | j <= i and R4(i, j)}"),
            // Independent parts, one of them opaque.
            (vec![n.clone(), m.clone(), n.clone()], related(3, &[&i, &i]).and(le(&j, &plus(&m, -2))), "[0 < m] * (n*m - n) * #{i < n | R3(i, i)}"),
            (vec![n.clone()], equal(&i.scale(2).unwrap(), &n), "#{i < n | 2*i = n}"),
        ];
        for (extents, guard, expected) in cases {
            let indices: Vec<(IndexId, Size)> = (0..).map(IndexId).zip(extents.iter().cloned()).collect();
            let found = count(&indices, &guard, &Facts::new(), &Shapes::new()).unwrap();
            assert_eq!(text(&found), expected, "{guard:?}");
        }
    }

    #[test]
    fn counts_use_what_is_assumed() {
        let [n, m] = [0, 1].map(|at| Affine::size(SizeId(at)));
        let [i, j] = [0, 1].map(|at| Affine::index(IndexId(at)));
        let cases: Vec<(Pred, Vec<Size>, Pred, &str)> = vec![
            (le(&2.into(), &n), vec![plus(&n, -1)], Pred::True, "n - 1"),
            (le(&n, &m), vec![n.clone(), m.clone()], le(&i, &j), "-n^2/2 + n*m + n/2"),
            (equal(&n, &m), vec![n.clone(), m.clone()], equal(&i, &j), "m"),
            (le(&2.into(), &n), vec![n.clone()], le(&n, &1.into()), "0"),
        ];
        for (assumption, extents, guard, expected) in cases {
            let mut facts = Facts::new();
            facts.assume(&assumption);
            let indices: Vec<(IndexId, Size)> = (0..).map(IndexId).zip(extents).collect();
            let found = count(&indices, &guard, &facts, &Shapes::new()).unwrap();
            assert_eq!(text(&found), expected, "{guard:?} given {assumption:?}");
        }
    }

    /// A world in which the map has a target everywhere.
    fn world(rng: &mut fastrand::Rng) -> Toy {
        let mut world = Toy::random(rng, 0);
        let RelationRef::Input(map) = MAP else { unreachable!() };
        world.relations[map.index()] = (0..4).map(|a| vec![a, rng.i64(0..4)]).collect();
        world
    }

    /// The number of points by trying every one.
    fn naive(world: &Toy, indices: &[(IndexId, Size)], at: &mut BTreeMap<IndexId, i64>, guard: &Pred) -> i128 {
        let Some(((i, extent), rest)) = indices.split_first() else { return i128::from(world.truth(guard, at)) };
        let extent = world.affine(extent, at).unwrap();
        let count = (0..extent).map(|value| {
            at.insert(*i, value);
            naive(world, rest, at, guard)
        });
        let count = count.sum();
        at.remove(i);
        count
    }

    /// What a random test saw.
    #[derive(Debug, Default)]
    struct Seen {
        cases: usize,
        closed: usize,
        points: i128,
    }

    /// Random guards of one kind, on several worlds each.
    fn agree_with_enumeration(seed: u64, cases: usize, guard: impl Fn(&mut fastrand::Rng, &[IndexId]) -> Pred) -> Seen {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut seen = Seen::default();
        for case in 0..cases {
            let names: Vec<IndexId> = (0..rng.u32(1..4)).map(IndexId).collect();
            let guard = guard(&mut rng, &names);
            let mut source = Source { rng: &mut rng, indices: vec![], relations: false, maps: false, exists: false };
            let extent = |source: &mut Source| if source.rng.bool() { source.extent() } else { 4.into() };
            let indices: Vec<(IndexId, Size)> = names.iter().map(|i| (*i, extent(&mut source))).collect();
            let split = rng.usize(0..=indices.len());
            let (kept, dropped) = indices.split_at(split);
            let mut facts = Facts::new();
            let assumption = Pred::le(&Affine::size(SizeId(0)), &Affine::size(SizeId(1))).unwrap();
            let assumed = rng.u8(0..4) == 0;
            if assumed {
                facts.assume(&assumption);
            }
            let all = count(&indices, &guard, &facts, &Shapes::new()).unwrap();
            let projected = count_projected(kept, dropped, &guard, &facts, &Shapes::new()).unwrap();
            let exists = dropped.iter().rev().fold(guard.clone(), |body, (i, n)| Pred::Exists {
                index: *i,
                extent: n.clone(),
                body: body.into(),
            });
            seen.cases += 1;
            seen.closed += usize::from(all.is_closed());
            for _ in 0..6 {
                let world = world(&mut rng);
                if assumed && !world.truth(&assumption, &mut BTreeMap::new()) {
                    continue;
                }
                for (what, count, indices, guard) in
                    [("points", &all, &indices[..], &guard), ("projection", &projected, kept, &exists)]
                {
                    let expected = naive(&world, indices, &mut BTreeMap::new(), guard);
                    seen.points += expected;
                    let found = count.evaluate(&world, &Shapes::new());
                    assert_eq!(
                        found,
                        Some(Ok(expected)),
                        "case {case}, {what}: {} for {guard:?} over {indices:?} in {world:?}",
                        text(count)
                    );
                }
            }
        }
        seen
    }

    /// Bounds on indices and on their differences: boxes, triangles, bands and diagonals.
    fn plain(rng: &mut fastrand::Rng, indices: &[IndexId]) -> Pred {
        let atom = |rng: &mut fastrand::Rng| {
            let mut terms = Vec::new();
            let sign = [1, -1][rng.usize(0..2)];
            for i in indices {
                if rng.bool() && terms.len() < 2 {
                    terms.push((Var::Index(*i), if terms.is_empty() { sign } else { -sign }));
                }
            }
            if rng.bool() {
                terms.push((Var::Size(SizeId(rng.u32(0..2))), rng.i64(-1..2)));
            }
            let a = Affine::from_terms(terms, rng.i64(-2..3)).unwrap();
            match rng.u8(0..6) {
                0 => Pred::zero(a),
                1 => Pred::non_zero(a),
                _ => Pred::non_negative(a),
            }
        };
        Pred::all((0..rng.usize(1..4)).map(|_| atom(rng)).collect::<Vec<_>>())
    }

    /// Any guard of the language.
    fn any(rng: &mut fastrand::Rng, indices: &[IndexId]) -> Pred {
        Source { rng, indices: indices.to_vec(), relations: true, maps: false, exists: true }.pred(2)
    }

    /// Conjunctions of relation atoms and plain bounds.
    fn data(rng: &mut fastrand::Rng, indices: &[IndexId]) -> Pred {
        let place = |rng: &mut fastrand::Rng| match rng.u8(0..8) {
            0 => Affine::index(indices[rng.usize(0..indices.len())]).add_constant(rng.i64(-1..2)).unwrap(),
            _ => Affine::index(indices[rng.usize(0..indices.len())]),
        };
        let atoms = (0..rng.usize(1..3)).map(|_| {
            let r = rng.u32(0..3);
            let args = (0..[1, 2, 2][r as usize]).map(|_| place(rng)).collect();
            Pred::Relation { relation: RelationRef::Input(RelationId(r)), args, holds: rng.u8(0..4) > 0 }
        });
        let mut atoms = Pred::all(atoms.collect::<Vec<_>>());
        if rng.u8(0..3) == 0 {
            // j + c (compare) f(i), where f has a target.
            let source = indices[rng.usize(0..indices.len())];
            let target = Var::Apply(Box::new(Application { map: MAP, args: vec![Affine::index(source)] }));
            let a = Affine::from_terms([(target, -1), (Var::Index(indices[0]), 1)], rng.i64(-1..2)).unwrap();
            let compared = [Pred::zero(a.clone()), Pred::non_negative(a.clone()), Pred::non_zero(a)];
            let defined = Pred::in_range(&Affine::index(source), &4.into()).unwrap();
            atoms = atoms.and(defined).and(compared[rng.usize(0..3)].clone());
        }
        if rng.u8(0..3) == 0 { atoms.and(plain(rng, indices)) } else { atoms }
    }

    #[test]
    fn counts_are_those_of_enumeration() {
        let linear = agree_with_enumeration(31, 1500, plain);
        let mixed = agree_with_enumeration(32, 1500, any);
        let related = agree_with_enumeration(33, 1500, data);
        println!("linear {linear:?}, any {mixed:?}, data {related:?}");
        assert_eq!(linear.closed, linear.cases, "bounds on differences always have a formula");
        assert!(related.closed * 100 > related.cases * 25, "{related:?}");
        assert!(linear.points + mixed.points + related.points > 50_000, "the cases are too thin");
    }

    /// A minute of work: `cargo test --release --lib index::count -- --ignored --nocapture`.
    #[test]
    #[ignore = "60,000 guards take a minute; the command is in the doc comment"]
    fn counts_are_those_of_enumeration_at_length() {
        for seed in 0..20 {
            let linear = agree_with_enumeration(1000 + seed, 1000, plain);
            let mixed = agree_with_enumeration(2000 + seed, 1000, any);
            let related = agree_with_enumeration(3000 + seed, 1000, data);
            println!("linear {linear:?}, any {mixed:?}, data {related:?}");
        }
    }

    /// Times, for who changes the rules: `cargo test --release --lib index::count::tests::times -- --ignored --nocapture`.
    #[test]
    #[ignore = "it measures, and checks nothing"]
    fn times() {
        let [n, m] = [0, 1].map(|at| Affine::size(SizeId(at)));
        let [i, j] = [0, 1].map(|at| Affine::index(IndexId(at)));
        let indices = [(IndexId(0), n.clone()), (IndexId(1), m)];
        let entries = Pred::relation(RelationRef::Input(RelationId(3)), vec![i.clone(), j.clone()]);
        let band = le(&plus(&i, -1), &j).and(le(&j, &plus(&i, 1)));
        let guards = [
            ("box", Pred::True),
            ("diagonal", equal(&i, &j)),
            ("entries", entries.clone()),
            ("triangle", le(&i, &j)),
            ("band", band),
            ("opaque", entries.and(le(&i, &j))),
        ];
        let (facts, relations, hints) = (Facts::new(), Shapes::new(), Hints::new());
        for (what, guard) in guards {
            const RUNS: u32 = 200;
            let start = std::time::Instant::now();
            for _ in 0..RUNS {
                std::hint::black_box(count(&indices, &guard, &facts, &relations).unwrap());
            }
            let exact = start.elapsed() / RUNS;
            let start = std::time::Instant::now();
            for _ in 0..RUNS {
                std::hint::black_box(estimate::points(&indices, &guard, &hints, &relations));
            }
            println!("{what}: {exact:?} to count, {:?} to estimate", start.elapsed() / RUNS);
        }
    }

    #[test]
    fn counts_obey_the_ring_laws() {
        let mut rng = fastrand::Rng::with_seed(34);
        let mut random = || {
            let indices = [(IndexId(0), Affine::size(SizeId(0))), (IndexId(1), 4.into())];
            let guard = any(&mut rng, &[IndexId(0), IndexId(1)]);
            count(&indices, &guard, &Facts::new(), &Shapes::new()).unwrap()
        };
        for _ in 0..200 {
            let (a, b, c) = (random(), random(), random());
            assert_eq!(a.add(&b), b.add(&a));
            assert_eq!(a.mul(&b), b.mul(&a));
            assert_eq!(a.mul(&b.add(&c).unwrap()), a.mul(&b).unwrap().add(&a.mul(&c).unwrap()));
            assert_eq!(a.sub(&a), Ok(Count::zero()));
        }
    }
}

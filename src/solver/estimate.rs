//! How fast a number of points grows, for comparing costs: all sizes are a multiple of one `N`, and only powers of it are kept.
//!
//! [`Count::estimate`](super::Count::estimate) reads a count that is known. [`points`] looks at a guard alone, without a proof and
//! in a few microseconds: the box, restricted by what plainly restricts it.
//!
//! | in the guard | what it takes |
//! |---|---|
//! | an equation | one of its indices |
//! | two opposite bounds of a form, a band | one index, for the width of the band |
//! | a map | its target |
//! | a relation | its indices, for its number of entries; where some are fixed, for its entries by those of a full box |
//! | bounds of one index | what they leave of its range, and the same share of a map or a relation that takes the index |
//! | one bound between indices | half |
//! | `or` | the sum of both sides |

use std::cmp::Ordering;
use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use super::knowledge::Relations;
use super::polynomial::{Polynomial, Unknown};
use crate::base::{IndexId, RelationId, SizeId, work};
use crate::index::{Affine, Pred, RelationRef, Size, Var};

/// How many cases of `or` and `exists` one estimate looks into.
const MAX_CASES: usize = 24;
/// How many bounds between indices halve a box.
const MAX_HALVES: usize = 3;
/// Coefficients that differ by less than this share of them are the same.
const ROUNDING: f64 = 1e-9;

/// What sizes and numbers of entries are, as multiples of a common `N`.
#[derive(Clone, Debug, PartialEq)]
pub struct Hints {
    /// The multiple of each size variable; 1 for those that are not listed.
    pub sizes: BTreeMap<SizeId, f64>,
    /// The multiple of each relation's number of entries; [`Hints::ENTRIES`] for those that are not listed.
    pub entries: BTreeMap<RelationId, f64>,
    /// Whether relations, maps aside, have all tuples there may be, whatever is said of them.
    pub full: bool,
}

impl Hints {
    /// The entries of a relation, by `N`, where nothing is said.
    pub const ENTRIES: f64 = 20.0;

    /// Nothing is said.
    pub fn new() -> Hints {
        Hints { sizes: BTreeMap::new(), entries: BTreeMap::new(), full: false }
    }

    /// The multiple of a size variable.
    pub fn size(&self, n: SizeId) -> f64 {
        self.sizes.get(&n).copied().unwrap_or(1.0)
    }

    /// The multiple of a relation's number of entries.
    pub fn entries(&self, r: RelationId) -> f64 {
        self.entries.get(&r).copied().unwrap_or(Hints::ENTRIES)
    }
}

impl Default for Hints {
    fn default() -> Self {
        Hints::new()
    }
}

/// `c0 + c1 * N + c2 * N^2 + ..`, ordered by what is larger for large `N`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    coefficients: SmallVec<[f64; 4]>,
}

impl Growth {
    /// Nothing.
    pub fn zero() -> Growth {
        Growth::default()
    }

    /// `coefficient * N^power`.
    pub fn monomial(coefficient: f64, power: usize) -> Growth {
        let mut coefficients = smallvec![0.0; power];
        coefficients.push(coefficient);
        Growth::trimmed(coefficients)
    }

    fn trimmed(mut coefficients: SmallVec<[f64; 4]>) -> Growth {
        while coefficients.last() == Some(&0.0) {
            coefficients.pop();
        }
        Growth { coefficients }
    }

    /// The growth of given coefficients, by powers of `N`.
    pub fn from_coefficients(coefficients: &[f64]) -> Growth {
        Growth::trimmed(coefficients.into())
    }

    /// The coefficients by powers of `N`, from the constant up; the last is not zero.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// The highest power and its coefficient; `(0, 0.0)` for nothing.
    pub fn leading(&self) -> (usize, f64) {
        let coefficient = self.coefficients.last().copied().unwrap_or(0.0);
        (self.coefficients.len().saturating_sub(1), coefficient)
    }

    /// The value at some `N`.
    pub fn at(&self, n: f64) -> f64 {
        self.coefficients.iter().rev().fold(0.0, |sum, c| sum * n + c)
    }

    /// `self + other`.
    pub fn add(&self, other: &Growth) -> Growth {
        let mut sum = self.clone();
        sum.add_assign(other);
        sum
    }

    /// Adds `other`.
    pub fn add_assign(&mut self, other: &Growth) {
        let other = other.coefficients.as_slice();
        if self.coefficients.len() < other.len() {
            self.coefficients.resize(other.len(), 0.0);
        }
        let own = self.coefficients.as_mut_slice();
        own.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        let length = own.iter().rposition(|c| *c != 0.0).map_or(0, |last| last + 1);
        self.coefficients.truncate(length);
    }

    /// `k * self`.
    pub fn scale(&self, k: f64) -> Growth {
        Growth::trimmed(self.coefficients.iter().map(|c| k * c).collect())
    }

    /// `self * other`.
    pub fn mul(&self, other: &Growth) -> Growth {
        if self.coefficients.is_empty() || other.coefficients.is_empty() {
            return Growth::zero();
        }
        let mut product = smallvec![0.0; self.coefficients.len() + other.coefficients.len() - 1];
        for (k, a) in self.coefficients.iter().enumerate() {
            for (l, b) in other.coefficients.iter().enumerate() {
                product[k + l] += a * b;
            }
        }
        Growth::trimmed(product)
    }

    /// The smaller one for large `N`.
    pub fn min(self, other: Growth) -> Growth {
        if self.compare(&other) == Ordering::Greater { other } else { self }
    }

    /// Which is larger for large `N`, rounding aside.
    pub fn compare(&self, other: &Growth) -> Ordering {
        let coefficient = |g: &Growth, k: usize| g.coefficients.get(k).copied().unwrap_or(0.0);
        for k in (0..self.coefficients.len().max(other.coefficients.len())).rev() {
            let (a, b) = (coefficient(self, k), coefficient(other, k));
            if (a - b).abs() > ROUNDING * (a.abs() + b.abs()) {
                return a.total_cmp(&b);
            }
        }
        Ordering::Equal
    }
}

/// `coefficient * N^power`; the power is negative for shares.
#[derive(Clone, Copy, Debug)]
struct Lead {
    coefficient: f64,
    power: i32,
}

impl Lead {
    const ONE: Lead = Lead { coefficient: 1.0, power: 0 };

    fn times(self, other: Lead) -> Lead {
        Lead { coefficient: self.coefficient * other.coefficient, power: self.power + other.power }
    }

    fn share(self, of: Lead) -> Lead {
        match of.coefficient > 0.0 {
            true => Lead { coefficient: self.coefficient / of.coefficient, power: self.power - of.power },
            false => self,
        }
    }

    fn compare(self, other: Lead) -> Ordering {
        match (self.coefficient > 0.0, other.coefficient > 0.0) {
            (true, true) => self.power.cmp(&other.power).then(self.coefficient.total_cmp(&other.coefficient)),
            (left, right) => left.cmp(&right),
        }
    }

    fn min(self, other: Lead) -> Lead {
        if self.compare(other) == Ordering::Greater { other } else { self }
    }

    fn plus(self, other: Lead) -> Lead {
        match self.power.cmp(&other.power) {
            _ if other.coefficient == 0.0 => self,
            _ if self.coefficient == 0.0 => other,
            Ordering::Less => other,
            Ordering::Equal => Lead { coefficient: self.coefficient + other.coefficient, ..self },
            Ordering::Greater => self,
        }
    }

    fn growth(self) -> Growth {
        match usize::try_from(self.power) {
            Ok(power) => Growth::monomial(self.coefficient, power),
            // Less than one point in a box that grows: at least there may be one.
            Err(_) => Growth::monomial(1.0, 0),
        }
    }
}

/// What an affine expression is for large `N`: its multiple of `N`, and the rest. An index counts as half of `N`.
fn affine(a: &Affine, hints: &Hints) -> (f64, f64) {
    let multiple = a.terms().iter().map(|(v, k)| match v {
        Var::Size(n) => *k as f64 * hints.size(*n),
        Var::Index(_) | Var::Apply(_) => *k as f64 / 2.0,
    });
    (multiple.sum(), a.offset() as f64)
}

/// `max(n, 0)`.
fn extent(n: &Size, hints: &Hints) -> Lead {
    match affine(n, hints) {
        (multiple, _) if multiple > 0.0 => Lead { coefficient: multiple, power: 1 },
        (multiple, _) if multiple < 0.0 => Lead { coefficient: 0.0, power: 0 },
        (_, rest) => Lead { coefficient: rest.max(0.0), power: 0 },
    }
}

fn product(extents: impl Iterator<Item = Lead>) -> Lead {
    extents.fold(Lead::ONE, Lead::times)
}

/// Whether a condition on sizes holds for large `N`; one on data is taken to hold.
pub(super) fn holds_eventually(p: &Pred, hints: &Hints) -> bool {
    match p {
        Pred::True | Pred::Relation { .. } | Pred::Exists { .. } => true,
        Pred::False => false,
        Pred::NonNegative(a) => match affine(a, hints) {
            (0.0, rest) => rest >= 0.0,
            (multiple, _) => multiple > 0.0,
        },
        Pred::Zero(a) => affine(a, hints) == (0.0, 0.0),
        Pred::NonZero(a) => affine(a, hints) != (0.0, 0.0),
        Pred::All(ps) => ps.iter().all(|p| holds_eventually(p, hints)),
        Pred::Any(ps) => ps.iter().any(|p| holds_eventually(p, hints)),
    }
}

/// How many tuples a relation has, or kept parts of them.
fn entries(relation: RelationRef, kept: Option<&[bool]>, hints: &Hints, relations: &dyn Relations) -> Lead {
    let RelationRef::Input(r) = relation else { return Lead { coefficient: f64::MAX, power: i32::MAX } };
    let own = Lead { coefficient: hints.entries(r), power: 1 };
    let Some(shape) = relations.shape(relation) else { return own };
    let volume = |places: &[Size]| product(places.iter().map(|n| extent(n, hints)));
    let own = match (relations.is_map(relation), shape.split_last()) {
        (true, Some((_, source))) => volume(source),
        _ if hints.full => volume(shape),
        _ => own.min(volume(shape)),
    };
    match kept {
        None => own,
        Some(kept) => {
            let kept = shape.iter().zip(kept).filter(|(_, kept)| **kept);
            own.min(product(kept.map(|(n, _)| extent(n, hints))))
        }
    }
}

/// How a polynomial grows.
pub(super) fn polynomial(p: &Polynomial, hints: &Hints, relations: &dyn Relations) -> Growth {
    let mut coefficients = SmallVec::new();
    for (monomial, k) in p.terms() {
        let mut lead = Lead { coefficient: k.to_f64(), power: 0 };
        for (v, exponent) in monomial.powers() {
            let unknown = match v {
                Unknown::Index(_) => Lead { coefficient: 0.5, power: 1 },
                Unknown::Size(n) => Lead { coefficient: hints.size(*n), power: 1 },
                Unknown::Entries(r) => entries(RelationRef::Input(*r), None, hints, relations),
                Unknown::Projected { relation, kept } => {
                    entries(RelationRef::Input(*relation), Some(kept), hints, relations)
                }
            };
            for _ in 0..*exponent {
                lead = lead.times(unknown);
            }
        }
        let power = usize::try_from(lead.power).unwrap_or(0);
        if coefficients.len() <= power {
            coefficients.resize(power + 1, 0.0);
        }
        coefficients[power] += lead.coefficient;
    }
    Growth::trimmed(coefficients)
}

/// About how many points of some indices, with their ranges, satisfy a guard.
pub fn points(indices: &[(IndexId, Size)], guard: &Pred, hints: &Hints, relations: &dyn Relations) -> Growth {
    let indices: Vec<(IndexId, Lead)> = indices.iter().map(|(i, n)| (*i, extent(n, hints))).collect();
    let atoms: Vec<&Pred> = guard.conjuncts().iter().collect();
    if guard.is_false() || !holds_eventually(&sizes_only(guard, &indices), hints) {
        return Growth::zero();
    }
    Estimate { hints, relations, cases: MAX_CASES }.points(indices, &atoms).growth()
}

/// The conjuncts that mention no index.
fn sizes_only(guard: &Pred, indices: &[(IndexId, Lead)]) -> Pred {
    let fixed = |p: &&Pred| !indices.iter().any(|(i, _)| p.mentions(*i));
    Pred::all(guard.conjuncts().iter().filter(fixed).cloned())
}

struct Estimate<'a> {
    hints: &'a Hints,
    relations: &'a dyn Relations,
    /// How many cases are left.
    cases: usize,
}

impl Estimate<'_> {
    fn points(&mut self, indices: Vec<(IndexId, Lead)>, atoms: &[&Pred]) -> Lead {
        work::charge(4 + 2 * (indices.len() + 1) * atoms.len());
        let case = atoms.iter().position(|p| matches!(p, Pred::Any(_) | Pred::Exists { .. } | Pred::False));
        let Some(at) = case else { return self.conjunction(indices, atoms) };
        let rest: Vec<&Pred> = atoms.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, p)| *p).collect();
        let all = self.points(indices.clone(), &rest);
        match atoms[at] {
            Pred::Any(ps) => {
                let mut sum = Lead { coefficient: 0.0, power: 0 };
                for p in ps.iter() {
                    let Some(cases) = self.cases.checked_sub(1) else { return all };
                    self.cases = cases;
                    let case: Vec<&Pred> = rest.iter().copied().chain(p.conjuncts()).collect();
                    sum = sum.plus(self.points(indices.clone(), &case));
                }
                all.min(sum)
            }
            Pred::Exists { index, extent: n, body } => {
                let Some(cases) = self.cases.checked_sub(1) else { return all };
                self.cases = cases;
                let mut more = indices;
                more.push((*index, extent(n, self.hints)));
                let case: Vec<&Pred> = rest.iter().copied().chain(body.conjuncts()).collect();
                all.min(self.points(more, &case))
            }
            _ => Lead { coefficient: 0.0, power: 0 },
        }
    }

    /// The box of the indices that nothing fixes, times what was paid for fixing the others.
    fn conjunction(&self, mut free: Vec<(IndexId, Lead)>, atoms: &[&Pred]) -> Lead {
        let mut paid = Lead::ONE;
        for p in atoms {
            if let Pred::Zero(a) = p
                && let Some(at) = longest(&free, a)
            {
                free.remove(at);
            }
        }
        for (at, a) in bounds(atoms).enumerate() {
            for b in bounds(atoms).skip(at + 1).filter(|b| opposite(a, b)) {
                let Some(index) = longest(&free, a) else { break };
                let Ok(width) = a.add(b).and_then(|width| width.add_constant(1)) else { break };
                let width = extent(&width, self.hints);
                if width.compare(free[index].1) == Ordering::Less {
                    free.remove(index);
                    paid = paid.times(width);
                }
            }
        }
        let (mut taken, mut before) = (Vec::new(), Vec::new());
        for p in atoms {
            if let Pred::Relation { relation, args, holds: true } = p {
                let earlier = before.iter().filter(|(known, _)| known == relation).map(|(_, args)| *args);
                paid = paid.times(self.relation(*relation, args, earlier, &mut free, &mut taken));
                before.push((*relation, args));
            }
        }
        let whole = taken.clone();
        let mut halves = 0;
        for a in bounds(atoms) {
            let others = a.terms().iter().filter(|(v, _)| !matches!(v, Var::Size(_))).count();
            let inside: Vec<usize> =
                (0..free.len()).filter(|at| a.coefficient(&Var::Index(free[*at].0)) != 0).collect();
            match inside.as_slice() {
                [one] if others == 1 => self.restrict(&mut free[*one], a),
                [_, _, ..] => halves += 1,
                [] if others == 1 => {
                    let own = taken.iter_mut().find(|(i, _)| a.coefficient(&Var::Index(*i)) != 0);
                    own.into_iter().for_each(|one| self.restrict(one, a));
                }
                // What is fixed already bounds the rest somehow.
                _ => {}
            }
        }
        for ((_, part), (_, all)) in taken.iter().zip(&whole) {
            paid = paid.times(part.share(*all));
        }
        for _ in 0..halves.min(MAX_HALVES) {
            paid.coefficient /= 2.0;
        }
        paid.times(product(free.into_iter().map(|(_, n)| n)))
    }

    /// What an atom of data costs for the indices that it fixes, which are no longer free but taken. Where an `earlier` tuple has the same places, but for those
    /// that this one fixes, there is one at least.
    fn relation<'e>(
        &self,
        relation: RelationRef,
        args: &[Affine],
        mut earlier: impl Iterator<Item = &'e Vec<Affine>>,
        free: &mut Vec<(IndexId, Lead)>,
        taken: &mut Vec<(IndexId, Lead)>,
    ) -> Lead {
        if self.relations.is_map(relation) {
            taken.extend(args.last().and_then(|target| longest(free, target)).map(|at| free.remove(at)));
            return Lead::ONE;
        }
        let Some(shape) = self.relations.shape(relation).filter(|_| matches!(relation, RelationRef::Input(_))) else {
            return Lead::ONE;
        };
        let mut share = entries(relation, None, self.hints, self.relations);
        let mut volume = Lead::ONE;
        let mut left = free.clone();
        let mut fixed = Vec::new();
        for (place, (a, n)) in args.iter().zip(shape).enumerate() {
            match longest(&left, a) {
                Some(at) => volume = volume.times(left.remove(at).1),
                // A place that is fixed leaves its share of the entries.
                None => {
                    share = share.share(extent(n, self.hints));
                    fixed.push(place);
                }
            }
        }
        if share.compare(Lead::ONE) == Ordering::Less
            && earlier.any(|other| fixed.iter().all(|place| other.get(*place) == args.get(*place)))
        {
            share = Lead::ONE;
        }
        if left.len() == free.len() || share.compare(volume) != Ordering::Less {
            return Lead::ONE;
        }
        taken.extend(free.iter().filter(|(i, _)| !left.iter().any(|(j, _)| i == j)).copied());
        *free = left;
        share
    }

    /// `0 <= k*i + b` for one index and its range.
    fn restrict(&self, (i, n): &mut (IndexId, Lead), a: &Affine) {
        let k = a.coefficient(&Var::Index(*i));
        let (multiple, rest) = affine(a, self.hints);
        // Without the index itself.
        let multiple = multiple - k as f64 / 2.0;
        let bound = |multiple: f64, rest: f64| match multiple > 0.0 {
            true => Lead { coefficient: multiple, power: 1 },
            false => Lead { coefficient: if multiple < 0.0 { 0.0 } else { rest.max(0.0) }, power: 0 },
        };
        let magnitude = k.unsigned_abs() as f64;
        if k < 0 {
            // i <= b / |k|
            *n = n.min(bound(multiple / magnitude, (rest / magnitude).floor() + 1.0));
        } else if n.power == 1 {
            // -b / k <= i < n
            *n = n.min(bound(n.coefficient + multiple / magnitude, 1.0));
        } else if multiple == 0.0 {
            // The same where the range is a constant.
            *n = n.min(bound(0.0, n.coefficient + (rest / magnitude).floor()));
        }
    }
}

fn bounds<'a>(atoms: &'a [&Pred]) -> impl Iterator<Item = &'a Affine> {
    atoms.iter().filter_map(|p| match p {
        Pred::NonNegative(a) => Some(a),
        _ => None,
    })
}

/// Whether two forms are opposite in their indices, of which there are at least two.
fn opposite(a: &Affine, b: &Affine) -> bool {
    let inner = |a: &Affine| a.terms().iter().filter(|(v, _)| !matches!(v, Var::Size(_))).count();
    let opposite =
        a.terms().iter().all(|(v, k)| matches!(v, Var::Size(_)) || k.checked_neg() == Some(b.coefficient(v)));
    opposite && inner(a) >= 2 && inner(a) == inner(b)
}

/// Of the free indices in a form the one with the longest range, and of these the last.
fn longest(free: &[(IndexId, Lead)], a: &Affine) -> Option<usize> {
    let inside = (0..free.len()).filter(|at| a.coefficient(&Var::Index(free[*at].0)) != 0);
    inside.max_by(|x, y| free[*x].1.compare(free[*y].1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `R0 : [n, m]`, and the map `R1 : [n] -> [m]`.
    struct Some(Vec<Size>);
    impl Relations for Some {
        fn shape(&self, _: RelationRef) -> Option<&[Size]> {
            Option::Some(&self.0)
        }
        fn is_map(&self, relation: RelationRef) -> bool {
            relation == RelationRef::Input(RelationId(1))
        }
    }

    type Ranges<'a> = &'a [(IndexId, Size)];

    #[test]
    fn estimates_follow_the_guard() {
        let [n, m] = [0, 1].map(|at| Affine::size(SizeId(at)));
        let [i, j, k] = [0, 1, 2].map(|at| Affine::index(IndexId(at)));
        let relations = Some(vec![n.clone(), m.clone()]);
        let box2 = [(IndexId(0), n.clone()), (IndexId(1), m.clone())];
        let box1 = [(IndexId(0), Affine::constant(5))];
        let box4 = [box2[0].clone(), (IndexId(1), Affine::constant(5))];
        let box3 = [box2[0].clone(), box2[1].clone(), (IndexId(2), n.clone())];
        let related = |r: u32, a: &Affine, b: &Affine| {
            Pred::relation(RelationRef::Input(RelationId(r)), vec![a.clone(), b.clone()])
        };
        let le = |a: &Affine, b: &Affine| Pred::le(a, b).unwrap();
        let equal = |a: &Affine, b: &Affine| Pred::equal(a, b).unwrap();
        let one = |a: &Affine| a.add_constant(1).unwrap();
        let cases: Vec<(Ranges, Pred, usize, f64)> = vec![
            (&[], Pred::True, 0, 1.0),
            (&box2, Pred::True, 2, 2.0),
            (&box2, le(&i, &j), 2, 1.0),
            (&box2, equal(&i, &j), 1, 1.0),
            (&box2, le(&i, &j).and(le(&j, &one(&one(&i)))), 1, 3.0),
            (&box2, le(&j, &3.into()), 1, 4.0),
            (&box1, le(&2.into(), &i), 0, 3.0),
            (&box2, le(&m.add(&1.into()).unwrap(), &n), 0, 0.0),
            (&box2, related(0, &i, &j), 1, 20.0),
            (&box3, related(0, &i, &j), 2, 20.0),
            (&box3, related(0, &i, &j).and(related(0, &k, &j)), 1, 200.0),
            (&box2, related(1, &i, &j), 1, 1.0),
            (&box2, equal(&i, &j).or(equal(&one(&i), &j)), 1, 2.0),
            (&box2[..1], Pred::exists(IndexId(9), m.clone(), related(0, &i, &Affine::index(IndexId(9)))), 1, 1.0),
            (&box3, equal(&i, &j).and(equal(&j, &k)), 1, 1.0),
            (&box4, related(1, &i, &j).and(le(&j, &2.into())), 1, 0.6),
            (&box2, related(0, &i, &j).and(le(&j, &2.into())), 0, 30.0),
        ];
        let hints = Hints { sizes: [(SizeId(1), 2.0)].into(), ..Hints::new() };
        for (indices, guard, power, coefficient) in cases {
            let found = points(indices, &guard, &hints, &relations);
            assert_eq!(found, Growth::monomial(coefficient, power), "{guard:?}");
        }
    }

    #[test]
    fn growths_compare_for_large_sizes() {
        let (a, b) = (Growth::monomial(1.0, 2), Growth::monomial(100.0, 1).add(&Growth::monomial(5.0, 0)));
        assert_eq!((a.compare(&b), b.compare(&a), a.compare(&a)), (Ordering::Greater, Ordering::Less, Ordering::Equal));
        assert_eq!(a.mul(&b).coefficients(), [0.0, 0.0, 5.0, 100.0]);
        assert_eq!(a.add(&a.scale(-1.0)), Growth::zero());
        assert_eq!((b.at(2.0), b.leading()), (205.0, (1, 100.0)));
    }
}

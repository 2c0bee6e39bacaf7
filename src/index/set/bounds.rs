//! Bounds and stride of one index, given the others.

use super::super::eliminate::{bezout, linear};
use super::super::{Affine, Checked, Facts, Overflow, Pred, Size};
use super::Set;
use crate::base::IndexId;

/// `floor(numerator / divisor)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Over the other indices and sizes.
    pub numerator: Affine,
    /// Positive.
    pub divisor: i64,
}

/// Every `step`-th integer: those that leave the same remainder as the residue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stride {
    /// At least 2.
    pub step: i64,
    /// Over the other indices and sizes.
    pub residue: Affine,
}

/// The values of an index, given the others: from the greatest of the lower bounds to the least of the upper ones, on the stride.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least each of these.
    pub lower: Vec<Bound>,
    /// At most each of these.
    pub upper: Vec<Bound>,
    /// On this stride.
    pub stride: Option<Stride>,
    /// What the set says without mentioning the index: nothing is in the set where it does not hold.
    pub guard: Pred,
    /// Whether all of these values are in the set where the guard holds. If not, they are a superset.
    pub exact: bool,
}

/// A bound with the atom that it is read off.
type Candidate = (Pred, Bound);

/// The bounds of an index of the space.
pub(super) fn bounds(set: &Set, index: IndexId) -> Checked<Option<Bounds>> {
    let Some((_, extent)) = set.space.indices().iter().find(|(i, _)| *i == index) else { return Ok(None) };
    let space = set.space.without(index);
    let mut found = Found::default();
    found.range(index, extent)?;
    let assumed = set.space.assumptions.iter().filter(|p| p.mentions(index));
    let (with, without): (Vec<Pred>, Vec<Pred>) = set.pred.conjuncts().iter().cloned().partition(|p| p.mentions(index));
    for p in assumed.chain(&with) {
        found.conjunct(index, p, space.facts())?;
    }
    let mut facts = space.facts().clone();
    without.iter().for_each(|p| facts.assume(p));
    let Found { mut lower, mut upper, stride, inexact } = found;
    drop_implied(&mut lower, &upper, &facts);
    drop_implied(&mut upper, &lower, &facts);
    let plain = |candidates: Vec<Candidate>| candidates.into_iter().map(|(_, bound)| bound).collect();
    let guard = if set.pred.is_false() { Pred::False } else { Pred::all(without) };
    Ok(Some(Bounds { lower: plain(lower), upper: plain(upper), stride, guard, exact: !inexact }))
}

/// Drops bounds that the others imply, those found first first.
fn drop_implied(candidates: &mut Vec<Candidate>, opposite: &[Candidate], facts: &Facts) {
    let mut at = 0;
    while at < candidates.len() {
        let mut known = facts.clone();
        let others = candidates.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, candidate)| candidate);
        // A bound that follows only because there is no value is not needed either.
        others.chain(opposite).for_each(|(p, _)| known.assume(p));
        if candidates.len() > 1 && known.derives(&candidates[at].0) {
            candidates.remove(at);
        } else {
            at += 1;
        }
    }
}

#[derive(Default)]
struct Found {
    lower: Vec<Candidate>,
    upper: Vec<Candidate>,
    stride: Option<Stride>,
    inexact: bool,
}

impl Found {
    /// `0 <= i <= n - 1`
    fn range(&mut self, index: IndexId, extent: &Size) -> Checked<()> {
        let i = Affine::index(index);
        self.bound(index, &i)?;
        self.bound(index, &extent.sub(&i)?.add_constant(-1)?)?;
        Ok(())
    }

    /// `0 <= a`; answers false where the index is not linear in it.
    fn bound(&mut self, index: IndexId, a: &Affine) -> Checked<bool> {
        let p = Pred::non_negative(a.clone());
        match linear(index, a) {
            Some((0, _)) | None => return Ok(false),
            // k*i + l >= 0  ==  i >= ceil(-l / k) = floor((k - 1 - l) / k)
            Some((k, l)) if k > 0 => {
                self.lower.push((p, Bound { numerator: l.scale(-1)?.add_constant(k - 1)?, divisor: k }));
            }
            // -k*i + u >= 0  ==  i <= floor(u / k)
            Some((k, u)) => {
                self.upper.push((p, Bound { numerator: u, divisor: k.checked_neg().ok_or(Overflow)? }));
            }
        }
        Ok(true)
    }

    fn conjunct(&mut self, index: IndexId, p: &Pred, facts: &Facts) -> Checked<()> {
        let understood = match p {
            Pred::NonNegative(a) => self.bound(index, a)?,
            Pred::Zero(a) => self.bound(index, a)? && self.bound(index, &a.scale(-1)?)?,
            Pred::Exists { index: bound, extent, body } => self.quotient(index, *bound, extent, body)?,
            Pred::Any(ps) => {
                self.union(index, ps, facts)?;
                false
            }
            _ => false,
        };
        self.inexact |= !understood;
        Ok(())
    }

    /// `exists t < m. k*t + l*i + b = 0`: a stride of `k`, and `0 <= t < m` bounds `i`.
    fn quotient(&mut self, index: IndexId, bound: IndexId, extent: &Size, body: &Pred) -> Checked<bool> {
        let Pred::Zero(a) = body else { return Ok(false) };
        let Some((k, rest)) = linear(bound, a) else { return Ok(false) };
        let Some((l, b)) = linear(index, &rest) else { return Ok(false) };
        let step = k.checked_abs().ok_or(Overflow)?;
        let (divisor, inverse, _) = bezout(l, step);
        if k == 0 || l == 0 || divisor != 1 || self.stride.is_some() {
            return Ok(false);
        }
        if step > 1 {
            // l*i = -b modulo k, and inverse * l = 1 modulo k
            let residue = b.scale(inverse.checked_neg().ok_or(Overflow)?)?;
            self.stride = Some(Stride { step, residue: remainder(&residue, step)? });
        }
        // |k| * t = -sign * rest
        let quotient = rest.scale(k.signum().checked_neg().ok_or(Overflow)?)?;
        let last = extent.add_constant(-1)?.scale(step)?;
        Ok(self.bound(index, &quotient)? && self.bound(index, &last.sub(&quotient)?)?)
    }

    /// Bounds of some side that all sides imply.
    fn union(&mut self, index: IndexId, ps: &[Pred], facts: &Facts) -> Checked<()> {
        let mut sides = Found::default();
        for p in ps {
            for q in p.conjuncts().iter().filter(|q| q.mentions(index)) {
                sides.conjunct(index, q, facts)?;
            }
        }
        let all: Vec<Facts> = ps
            .iter()
            .map(|p| {
                let mut known = facts.clone();
                // The range, found first, holds on every side.
                self.lower.iter().chain(&self.upper).for_each(|(p, _)| known.assume(p));
                known.assume(p);
                known
            })
            .collect();
        let common = |(p, _): &Candidate| all.iter().all(|known| known.derives(p));
        self.lower.extend(sides.lower.into_iter().filter(common));
        self.upper.extend(sides.upper.into_iter().filter(common));
        Ok(())
    }
}

/// An expression that is equal modulo `step`, with small coefficients.
fn remainder(a: &Affine, step: i64) -> Checked<Affine> {
    let terms = a.terms().iter().map(|(v, k)| (v.clone(), k.rem_euclid(step)));
    Affine::from_terms(terms, a.offset().rem_euclid(step))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::Var;
    use super::super::Space;
    use super::*;
    use crate::base::SizeId;

    const I: IndexId = IndexId(0);
    const J: IndexId = IndexId(1);
    const T: IndexId = IndexId(50);
    const N: SizeId = SizeId(0);

    /// `sum of coefficient * variable + constant`, where the variables are i, j and n.
    fn affine([i, j, n]: [i64; 3], constant: i64) -> Affine {
        Affine::from_terms([(Var::Index(I), i), (Var::Index(J), j), (Var::Size(N), n)], constant).unwrap()
    }

    #[test]
    fn bounds_are_read_off() {
        let zero = |a: [i64; 3], k: i64| Pred::zero(affine(a, k));
        let bound = |a: [i64; 3], k: i64| Pred::non_negative(affine(a, k));
        let floor = |a: [i64; 3], k: i64, divisor: i64| Bound { numerator: affine(a, k), divisor };
        let (first, last) = (floor([0, 0, 0], 0, 1), floor([0, 0, 1], -1, 1));
        // exists t < n + 1. 3*t = 2*i + j + 1
        let third = Affine::from_terms([(Var::Index(T), 3), (Var::Index(I), -2), (Var::Index(J), -1)], -1).unwrap();
        let third = Pred::exists(T, affine([0, 0, 1], 1), Pred::zero(third));
        let step = Stride { step: 3, residue: affine([0, 1, 0], 1) };
        let cases = [
            (Pred::True, vec![first.clone()], vec![last.clone()], None, true),
            // j + 2 <= i
            (bound([1, -1, 0], -2), vec![floor([0, 1, 0], 2, 1)], vec![last.clone()], None, true),
            // j <= 2*i and 3*i <= j + 4
            (
                bound([2, -1, 0], 0).and(bound([-3, 1, 0], 4)),
                vec![floor([0, 1, 0], 1, 2)],
                vec![last.clone(), floor([0, 1, 0], 4, 3)],
                None,
                true,
            ),
            (zero([3, -1, 0], 0), vec![floor([0, 1, 0], 2, 3)], vec![floor([0, 1, 0], 0, 3)], None, true),
            (third, vec![first.clone()], vec![last.clone()], Some(step), true),
            (bound([-1, 0, 0], 3).or(bound([-1, 1, 0], 0)), vec![first.clone()], vec![last.clone()], None, false),
            (Pred::non_zero(affine([1, -1, 0], 0)), vec![first], vec![last], None, false),
        ];
        let space = Arc::new(Space::new([(I, Affine::size(N)), (J, Affine::size(N))], [], []));
        for (p, lower, upper, stride, exact) in cases {
            let found = Set::new(&space, &p).bounds(I).unwrap();
            assert_eq!(found, Some(Bounds { lower, upper, stride, guard: Pred::True, exact }), "{p:?}");
        }
        assert_eq!(Set::new(&space, &Pred::True).bounds(T), Ok(None));
    }
}

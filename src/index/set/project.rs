//! Sets without one of their indices.
//!
//! [`exists`] does what leaves nothing behind: unit equations, scaling by others, bounds with unit coefficients on one side. Left is an
//! `exists i < n. r` of three kinds:
//!
//! 1. *Strides and relations*, `exists i < n. 2*i = a` and `exists i < n. R(i, j)`, which stay: they are facts about divisibility and data.
//!    Where another index is eliminated from a stride, `exists j < m. exists i < n. 2*i = 3*j + a and r`, the solutions of the equation
//!    are a line, `i = 3*t - a, j = 2*t - a`, and one unknown `t` remains.
//! 2. *Bounds* `k*i + l >= 0` and `-m*i + u >= 0` with `k, m > 1`. Every pair gives the real shadow `k*u + m*l >= 0`, which is necessary, and the dark
//!    shadow `k*u + m*l >= (k - 1) * (m - 1)`, which is sufficient. If the facts and the real one imply the dark one, the real one is exact.
//!    If not, a point outside the dark shadow lies close to a lower bound, `k*i + l = c` for few `c`: these cases are strides (Pugh,
//!    The Omega test, 1991). Where they are too many, the real shadow stands for the set, and the result is not exact.
//! 3. `or` and `!=` around these are distributed first, unless there are too many cases; then the `exists` stays.

use super::super::eliminate::{bezout, linear};
use super::super::{Affine, Checked, Facts, Overflow, Pred, Size, exists};
use super::{Set, Space};
use crate::base::IndexId;
use std::sync::Arc;

/// How many cases an `exists` is distributed into.
const MAX_CASES: usize = 16;
/// How many equations stand for the points outside the dark shadow.
const MAX_SPLINTERS: i64 = 6;

/// A set from which an index was eliminated.
#[derive(Clone, Debug)]
pub struct Elimination {
    /// Over the space without the index, which occurs only bound by an `exists`.
    pub set: Set,
    /// Whether a point of this set always extends to one of the original. If not, this is a superset of the projection.
    pub exact: bool,
}

/// The set of the other indices for which some value of the index, in its range, gives a point.
pub(super) fn eliminate(set: &Set, index: IndexId) -> Checked<Elimination> {
    let Some((_, extent)) = set.space.indices().iter().find(|(i, _)| *i == index) else {
        return Ok(Elimination { set: set.clone(), exact: true });
    };
    let space = Arc::new(set.space.without(index));
    let assumed = set.space.assumptions.iter().filter(|p| p.mentions(index));
    let body = Pred::all(assumed.cloned().chain([set.pred.clone()]));
    let quantified = exists(index, extent, &body)?;
    let mut projection = Projection { facts: space.facts(), index, exact: true };
    let pred = projection.pred(&quantified)?;
    Ok(Elimination { exact: projection.exact, set: Set::new(&space, &pred) })
}

impl Space {
    /// The space without an index and without what is assumed of it.
    pub(super) fn without(&self, index: IndexId) -> Space {
        let indices = self.indices.iter().filter(|(i, _)| *i != index).cloned();
        let assumptions = self.assumptions.iter().filter(|p| !p.mentions(index)).cloned();
        Space::new(indices, assumptions, self.maps.iter().copied())
    }
}

struct Projection<'a> {
    facts: &'a Facts,
    index: IndexId,
    exact: bool,
}

/// `coefficient * i + rest >= 0` for a lower bound, `-coefficient * i + rest >= 0` for an upper one; coefficients are positive.
type Bounds = Vec<(i64, Affine)>;

impl Projection<'_> {
    /// Eliminates the index where an `exists` binds it.
    fn pred(&mut self, p: &Pred) -> Checked<Pred> {
        Ok(match p {
            Pred::All(ps) => Pred::all(ps.iter().map(|p| self.pred(p)).collect::<Checked<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| self.pred(p)).collect::<Checked<Vec<_>>>()?),
            Pred::Exists { index, extent, body } if *index == self.index => match self.cases(body)? {
                Some(cases) => {
                    let cases = cases.iter().map(|case| self.case(extent, case));
                    Pred::any(cases.collect::<Checked<Vec<_>>>()?)
                }
                None => p.clone(),
            },
            Pred::Exists { index, extent, body } => Pred::exists(*index, extent.clone(), self.pred(body)?),
            atom => atom.clone(),
        })
    }

    /// The body as a union of conjunctions in which the index is in no `or` and no `!=`; nothing if there are too many.
    fn cases(&self, body: &Pred) -> Checked<Option<Vec<Pred>>> {
        let mut open = vec![body.clone()];
        let mut cases = Vec::new();
        while let Some(p) = open.pop() {
            let split = p
                .conjuncts()
                .iter()
                .position(|q| matches!(q, Pred::Any(_) | Pred::NonZero(_)) && q.mentions(self.index));
            match split {
                None => cases.extend((!p.is_false()).then_some(p)),
                Some(at) => {
                    let sides = match &p.conjuncts()[at] {
                        Pred::NonZero(a) => {
                            let minus = a.scale(-1)?.add_constant(-1)?;
                            vec![Pred::non_negative(a.add_constant(-1)?), Pred::non_negative(minus)]
                        }
                        q => q.disjuncts().to_vec(),
                    };
                    let rest = p.conjuncts().iter().enumerate().filter(|(other, _)| *other != at);
                    let rest = Pred::all(rest.map(|(_, q)| q.clone()));
                    open.extend(sides.into_iter().map(|side| rest.clone().and(side)));
                }
            }
            if open.len() + cases.len() > MAX_CASES {
                return Ok(None);
            }
        }
        Ok(Some(cases))
    }

    /// [[exists i < n. conjunction]]
    fn case(&mut self, extent: &Size, p: &Pred) -> Checked<Pred> {
        let (with, without): (Vec<Pred>, Vec<Pred>) =
            p.conjuncts().iter().cloned().partition(|q| q.mentions(self.index));
        let range = [(1, Affine::constant(0))];
        let limit = [(1, extent.add_constant(-1)?)];
        let Some((mut lower, mut upper, _)) = bounds(self.index, &with)? else {
            let on_line = match with.iter().find(|q| matches!(q, Pred::Exists { .. })) {
                Some(inner) => self.on_line(extent, inner, &with)?,
                None => None,
            };
            return match on_line {
                Some(projected) => Ok(projected.and(Pred::all(without))),
                None => exists(self.index, extent, p),
            };
        };
        lower.extend(range);
        upper.extend(limit);
        let (real, dark) = shadows(&lower, &upper)?;
        if self.implies(&without, &real, &dark) {
            return Ok(real.and(Pred::all(without)));
        }
        match self.splinters(extent, p, &lower, &upper)? {
            Some(splinters) => Ok(dark.and(Pred::all(without)).or(splinters)),
            None => {
                self.exact = false;
                Ok(real.and(Pred::all(without)))
            }
        }
    }

    fn implies(&self, without: &[Pred], real: &Pred, dark: &Pred) -> bool {
        let mut known = self.facts.clone();
        without.iter().chain([real]).for_each(|p| known.assume(p));
        known.derives(dark)
    }

    /// The points close to the bounds of one side; nothing if they are too many.
    fn splinters(&self, extent: &Size, p: &Pred, lower: &Bounds, upper: &Bounds) -> Checked<Option<Pred>> {
        let greatest = |bounds: &Bounds| bounds.iter().map(|(k, _)| *k).max().unwrap_or(1);
        // k*i + l = c for 0 <= c <= k - 1 - k / m, m being the greatest coefficient of the other side.
        let count = |k: i64, m: i64| {
            let most = i128::from(m) * i128::from(k) - i128::from(m) - i128::from(k);
            i64::try_from(most.div_euclid(i128::from(m)) + 1).unwrap_or(i64::MAX).max(0)
        };
        let total =
            |bounds: &Bounds, m: i64| bounds.iter().fold(0, |sum: i64, (k, _)| sum.saturating_add(count(*k, m)));
        let (of_lower, of_upper) = (total(lower, greatest(upper)), total(upper, greatest(lower)));
        if of_lower.min(of_upper) > MAX_SPLINTERS {
            return Ok(None);
        }
        let (side, sign, m) =
            if of_lower <= of_upper { (lower, 1, greatest(upper)) } else { (upper, -1, greatest(lower)) };
        let mut cases = Vec::new();
        for (k, rest) in side {
            let close = Affine::index(self.index).scale(sign * k)?.add(rest)?;
            for c in 0..count(*k, m) {
                let case = p.clone().and(Pred::zero(close.add_constant(-c)?));
                cases.push(exists(self.index, extent, &case)?);
            }
        }
        Ok(Some(Pred::any(cases)))
    }

    /// `exists j < m. r and exists i < n. c*i + d*j + a = 0 and q`, with bounds `q` and `r`: with `u*c + v*d = 1` the solutions of the equation are
    /// `i = d*t - u*a, j = -c*t - v*a`, and `t` is eliminated. Nothing where that is not exact.
    fn on_line(&self, extent: &Size, inner: &Pred, with: &[Pred]) -> Checked<Option<Pred>> {
        let Pred::Exists { index: bound, extent: inner_extent, body } = inner else { return Ok(None) };
        let (j, i) = (self.index, *bound);
        let equation = body.conjuncts().iter().find_map(|p| match p {
            Pred::Zero(a) => {
                let (c, rest) = linear(i, a)?;
                let (d, rest) = linear(j, &rest)?;
                (c != 0 && d != 0).then_some((c, d, rest))
            }
            _ => None,
        });
        let Some((c, d, a)) = equation else { return Ok(None) };
        let (divisor, u, v) = bezout(c, d);
        let others = with.iter().filter(|p| *p != inner);
        if divisor != 1 || others.clone().any(|p| p.mentions(i)) {
            return Ok(None);
        }
        let t = Affine::index(i);
        let value_i = t.scale(d)?.sub(&a.scale(u)?)?;
        let value_j = t.scale(c)?.add(&a.scale(v)?)?.scale(-1)?;
        let replace = |k: IndexId| match k {
            _ if k == i => Some(value_i.clone()),
            _ if k == j => Some(value_j.clone()),
            _ => None,
        };
        let ranges = [Pred::in_range(&value_i, inner_extent)?, Pred::in_range(&value_j, extent)?];
        let others = body.conjuncts().iter().chain(others).map(|p| p.substitute(&replace));
        let all = Pred::all(ranges.into_iter().chain(others.collect::<Checked<Vec<_>>>()?));
        if all.is_false() {
            return Ok(Some(Pred::False));
        }
        let Some((lower, upper, rest)) = bounds(i, all.conjuncts())? else { return Ok(None) };
        let (real, dark) = shadows(&lower, &upper)?;
        Ok(self.implies(&rest, &real, &dark).then(|| real.and(Pred::all(rest))))
    }
}

/// The lower and upper bounds of an index and what does not mention it; nothing where it is mentioned otherwise.
fn bounds(index: IndexId, ps: &[Pred]) -> Checked<Option<(Bounds, Bounds, Vec<Pred>)>> {
    let (mut lower, mut upper, mut rest) = (Bounds::new(), Bounds::new(), Vec::new());
    for p in ps {
        match p {
            p if !p.mentions(index) => rest.push(p.clone()),
            Pred::NonNegative(a) => match linear(index, a) {
                Some((k, l)) if k > 0 => lower.push((k, l)),
                Some((k, u)) if k < 0 => upper.push((k.checked_neg().ok_or(Overflow)?, u)),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }
    }
    Ok(Some((lower, upper, rest)))
}

/// What every real, and what certainly an integer, between the bounds needs.
fn shadows(lower: &Bounds, upper: &Bounds) -> Checked<(Pred, Pred)> {
    let (mut real, mut dark) = (Vec::new(), Vec::new());
    for (k, l) in lower {
        for (m, u) in upper {
            let gap = u.scale(*k)?.add(&l.scale(*m)?)?;
            let slack = (k - 1).checked_mul(m - 1).ok_or(Overflow)?;
            dark.push(Pred::non_negative(gap.add_constant(slack.checked_neg().ok_or(Overflow)?)?));
            real.push(Pred::non_negative(gap));
        }
    }
    Ok((Pred::all(real), Pred::all(dark)))
}

#[cfg(test)]
mod tests {
    use super::super::super::{RelationRef, Var};
    use super::*;
    use crate::base::{RelationId, SizeId};

    const I: IndexId = IndexId(0);
    const J: IndexId = IndexId(1);
    const N: SizeId = SizeId(0);

    /// `sum of coefficient * variable + constant`, where the variables are i, j and n.
    fn affine([i, j, n]: [i64; 3], constant: i64) -> Affine {
        Affine::from_terms([(Var::Index(I), i), (Var::Index(J), j), (Var::Size(N), n)], constant).unwrap()
    }

    #[test]
    fn indices_are_eliminated() {
        let zero = |a: [i64; 3], k: i64| Pred::zero(affine(a, k));
        let bound = |a: [i64; 3], k: i64| Pred::non_negative(affine(a, k));
        let related = Pred::relation(RelationRef::Input(RelationId(0)), vec![Affine::index(J), Affine::index(I)]);
        let some = |p: Pred| Pred::exists(I, Affine::size(N), p);
        // 0 <= i < n and 0 <= j < n; i is eliminated.
        let cases = [
            (zero([1, -1, 0], -1), bound([0, -1, 1], -2), true),
            (zero([2, -1, 0], 0), some(zero([2, -1, 0], 0)), true),
            (zero([2, -1, 0], 0).and(bound([1, 0, 0], -3)), some(zero([2, -1, 0], 0)).and(bound([0, 1, 0], -6)), true),
            (zero([2, -3, 0], 0), some(zero([2, -3, 0], 0)), true),
            (bound([1, -1, 0], 0).and(bound([-1, 0, 1], -3)), bound([0, -1, 1], -3), true),
            // j <= 2*i <= j + 1 has a solution for every j.
            (bound([2, -1, 0], 0).and(bound([-2, 1, 0], 1)).and(bound([0, -1, 1], -2)), bound([0, -1, 1], -2), true),
            // 3*i <= 2*j <= 3*i + 1: the remainder of 2*j by 3 is not 2, so that of j is not 1.
            (
                bound([-3, 2, 0], 0).and(bound([3, -2, 0], 1)),
                some(zero([3, -2, 0], 1)).or(some(zero([3, -2, 0], 0))),
                true,
            ),
            // 50*i <= 49*j <= 50*i + 20: too many cases.
            (bound([-50, 49, 0], 0).and(bound([50, -49, 0], 20)), Pred::True, false),
            (related.clone(), some(related.clone()), true),
            (
                related.clone().and(zero([1, -1, 0], 0)),
                Pred::relation(RelationRef::Input(RelationId(0)), vec![Affine::index(J); 2]),
                true,
            ),
            (Pred::non_zero(affine([1, -1, 0], 0)), bound([0, 0, 1], -2), true),
        ];
        let space = Arc::new(Space::new([(I, Affine::size(N)), (J, Affine::size(N))], [], []));
        for (p, expected, exact) in cases {
            let found = Set::new(&space, &p).eliminate(I).unwrap();
            assert_eq!((found.set.pred(), found.exact), (&expected, exact), "{p:?}");
        }
    }

    #[test]
    fn two_indices_on_a_line_are_eliminated() {
        // 2*i = 3*j + 1 with 1 <= j: j = 2*t + 1, i = 3*t + 2, so that n > 2.
        let space = Arc::new(Space::new([(I, Affine::size(N)), (J, Affine::size(N))], [], []));
        let p = Pred::zero(affine([2, -3, 0], -1)).and(Pred::non_negative(affine([0, 1, 0], -1)));
        let without_i = Set::new(&space, &p).eliminate(I).unwrap();
        let without_both = without_i.set.eliminate(J).unwrap();
        assert_eq!(without_both.set.pred(), &Pred::non_negative(affine([0, 0, 1], -3)));
        assert!(without_i.exact && without_both.exact);
    }
}

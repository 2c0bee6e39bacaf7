//! Affine index expressions with integer coefficients.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use super::{Checked, RelationRef};
use crate::base::integers::gcd;
use crate::base::{IndexId, SizeId, work};
use crate::error::Error;

/// Index arithmetic left the range of `i64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an index expression leaves the range of 64-bit integers")]
pub struct Overflow;

/// What an affine expression is affine in. Indices order before map applications, these before sizes, as in `i - j + n - 1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Var {
    /// An index variable.
    Index(IndexId),
    /// The target of a map: `cam(o)`, or `argmax k. e`.
    Apply(Box<Application>),
    /// A size variable.
    Size(SizeId),
}

/// A map applied to indices; the value is an index.
///
/// Applications nest to a depth of at most [`Affine::MAX_NESTING`], which the front ends enforce.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Application {
    /// A relation that has exactly one target for each source: a declared map, or a view `ArgMax` or `ArgMin`.
    pub map: RelationRef,
    /// The source.
    pub args: Vec<Affine>,
}

/// An affine expression `constant + sum of coefficient * variable`, an integer.
///
/// Canonical: variables are sorted and distinct, coefficients are not zero.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Affine {
    terms: Terms,
    constant: i64,
}

impl Clone for Affine {
    /// Expressions of at most two variables, which are most, are copied without a loop.
    fn clone(&self) -> Self {
        let terms = match self.terms.as_slice() {
            [] => Terms::new(),
            [(v, k)] => smallvec![(v.clone(), *k)],
            [(v, k), (w, l)] => smallvec![(v.clone(), *k), (w.clone(), *l)],
            many => many.iter().cloned().collect(),
        };
        Affine { terms, constant: self.constant }
    }
}

/// Most index expressions have one or two variables.
type Terms = SmallVec<[(Var, i64); 2]>;

#[derive(Serialize, Deserialize)]
struct Parts(Vec<(Var, i64)>, i64);

impl TryFrom<Parts> for Affine {
    type Error = Overflow;
    fn try_from(Parts(terms, constant): Parts) -> Result<Self, Overflow> {
        Affine::from_terms(terms, constant)
    }
}

impl From<Affine> for Parts {
    fn from(affine: Affine) -> Parts {
        Parts(affine.terms.into_vec(), affine.constant)
    }
}

impl From<Overflow> for Error {
    fn from(_: Overflow) -> Error {
        Error::Overflow
    }
}

impl Affine {
    /// How deep map applications may nest.
    pub const MAX_NESTING: usize = 16;

    /// The constant `k`.
    pub fn constant(k: i64) -> Self {
        Affine { terms: Terms::new(), constant: k }
    }

    /// The expression `v`.
    pub fn var(v: Var) -> Self {
        Affine { terms: smallvec![(v, 1)], constant: 0 }
    }

    /// The expression `i`.
    pub fn index(i: IndexId) -> Self {
        Affine::var(Var::Index(i))
    }

    /// The expressions `i, j, ..` of indices with their ranges.
    pub fn indices<N>(ranges: &[(IndexId, N)]) -> Vec<Affine> {
        ranges.iter().map(|(i, _)| Affine::index(*i)).collect()
    }

    /// The expression `n`.
    pub fn size(n: SizeId) -> Self {
        Affine::var(Var::Size(n))
    }

    /// The sum of terms in any order, with repetitions.
    pub fn from_terms(terms: impl IntoIterator<Item = (Var, i64)>, constant: i64) -> Checked<Self> {
        Affine::sum_of(terms.into_iter().collect(), constant)
    }

    fn sum_of(mut all: Terms, constant: i64) -> Checked<Self> {
        work::charge(1 + all.len());
        if all.is_sorted_by(|(v, _), (w, _)| v < w) && all.iter().all(|(_, k)| *k != 0) {
            return Ok(Affine { terms: all, constant });
        }
        all.sort_by(|(v, _), (w, _)| v.cmp(w));
        let mut sums = Terms::new();
        for (v, k) in all {
            match sums.last_mut() {
                Some((last, sum)) if *last == v => *sum = sum.checked_add(k).ok_or(Overflow)?,
                _ => sums.push((v, k)),
            }
        }
        sums.retain(|(_, k)| *k != 0);
        Ok(Affine { terms: sums, constant })
    }

    /// The terms, sorted by variable.
    pub fn terms(&self) -> &[(Var, i64)] {
        &self.terms
    }

    /// The part without variables.
    pub fn offset(&self) -> i64 {
        self.constant
    }

    /// The coefficient of a variable, zero where it does not occur.
    pub fn coefficient(&self, v: &Var) -> i64 {
        match self.terms.binary_search_by(|(w, _)| w.cmp(v)) {
            Ok(at) => self.terms[at].1,
            Err(_) => 0,
        }
    }

    /// `k` and `rest` of `k*i + rest`; nothing where the index occurs in the source of a map.
    pub fn split(&self, i: IndexId) -> Option<(i64, Affine)> {
        let v = Var::Index(i);
        let terms = self.terms.iter().filter(|(w, _)| *w != v).cloned().collect();
        let rest = Affine { terms, constant: self.constant };
        (!rest.mentions(i)).then(|| (self.coefficient(&v), rest))
    }

    /// The value of an index for which the expression is zero, where its coefficient is 1 or -1.
    pub fn root(&self, i: IndexId) -> Option<Affine> {
        match self.split(i)? {
            (1, rest) => rest.scale(-1).ok(),
            (-1, rest) => Some(rest),
            _ => None,
        }
    }

    /// The greatest common divisor of the coefficients, 0 where there are none.
    pub fn divisor(&self) -> u64 {
        let mut divisor = 0;
        for (_, k) in self.terms() {
            divisor = gcd(divisor, k.unsigned_abs().into());
            if divisor == 1 {
                break;
            }
        }
        // A divisor of numbers of 64 bits.
        divisor as u64
    }

    /// The value, where the expression has no variables.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The index, where the expression is just one.
    pub fn as_index(&self) -> Option<IndexId> {
        match (self.terms.as_slice(), self.constant) {
            ([(Var::Index(i), 1)], 0) => Some(*i),
            _ => None,
        }
    }

    /// The size variable, where the expression is just one.
    pub fn as_size(&self) -> Option<SizeId> {
        match (self.terms.as_slice(), self.constant) {
            ([(Var::Size(n), 1)], 0) => Some(*n),
            _ => None,
        }
    }

    /// Whether only size variables occur.
    pub fn is_size(&self) -> bool {
        self.terms.iter().all(|(v, _)| matches!(v, Var::Size(_)))
    }

    /// Whether a map is applied.
    pub fn applies_map(&self) -> bool {
        let mut found = false;
        self.visit(&mut |v| found |= matches!(v, Var::Apply(_)));
        found
    }

    /// Whether an index occurs, be it in the source of a map.
    pub fn has_indices(&self) -> bool {
        let mut found = false;
        self.visit(&mut |v| found |= matches!(v, Var::Index(_)));
        found
    }

    /// `self + other`.
    pub fn add(&self, other: &Affine) -> Checked<Affine> {
        self.plus(other, 1)
    }

    /// `self + factor * other`, by merging the terms, which are sorted.
    fn plus(&self, other: &Affine, factor: i64) -> Checked<Affine> {
        let scaled = |k: i64| k.checked_mul(factor).ok_or(Overflow);
        let constant = self.constant.checked_add(scaled(other.constant)?).ok_or(Overflow)?;
        work::charge(1 + self.terms.len() + other.terms.len());
        let mut terms = Terms::new();
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some((v, _)), Some((w, _))) => v.cmp(w),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(Affine { terms, constant }),
            };
            let a = if order.is_le() { left.next() } else { None };
            let b = if order.is_ge() { right.next() } else { None };
            let (k, l) = (a.map_or(0, |(_, k)| *k), scaled(b.map_or(0, |(_, l)| *l))?);
            let sum = k.checked_add(l).ok_or(Overflow)?;
            if let (true, Some((v, _))) = (sum != 0, a.or(b)) {
                terms.push((v.clone(), sum));
            }
        }
    }

    /// `self + k`.
    pub fn add_constant(&self, k: i64) -> Checked<Affine> {
        let constant = self.constant.checked_add(k).ok_or(Overflow)?;
        Ok(Affine { constant, ..self.clone() })
    }

    /// `self - other`.
    pub fn sub(&self, other: &Affine) -> Checked<Affine> {
        self.plus(other, -1)
    }

    /// `(q, r)` with `self == k * q + r`, where all coefficients of `r` and its constant are at least 0 and less than `k`, which is positive.
    pub fn div_rem(&self, k: i64) -> Checked<(Affine, Affine)> {
        let divided = self.terms.iter().map(|(v, c)| (v.clone(), c.div_euclid(k)));
        let quotient = Affine::from_terms(divided.filter(|(_, c)| *c != 0), self.constant.div_euclid(k))?;
        Ok((quotient.clone(), self.sub(&quotient.scale(k)?)?))
    }

    /// `k * self`.
    pub fn scale(&self, k: i64) -> Checked<Affine> {
        match k {
            0 => return Ok(Affine::constant(0)),
            1 => return Ok(self.clone()),
            _ => {}
        }
        let terms = self
            .terms
            .iter()
            .map(|(v, c)| Ok((v.clone(), c.checked_mul(k).ok_or(Overflow)?)))
            .collect::<Checked<Terms>>()?;
        Ok(Affine { terms, constant: self.constant.checked_mul(k).ok_or(Overflow)? })
    }

    /// Replaces indices, also inside map applications: `[i -> a] self`. Indices without a replacement stay.
    pub fn substitute(&self, replace: &impl Fn(IndexId) -> Option<Affine>) -> Checked<Affine> {
        self.replace(&mut |v| match v {
            Var::Index(i) => Ok(replace(*i)),
            _ => Ok(None),
        })
    }

    /// Replaces variables; the arguments of map applications are replaced first, and the new application is then offered.
    pub fn replace(&self, replace: &mut impl FnMut(&Var) -> Checked<Option<Affine>>) -> Checked<Affine> {
        // Most are just an index.
        if let ([(v @ (Var::Index(_) | Var::Size(_)), 1)], 0) = (self.terms.as_slice(), self.constant) {
            return Ok(replace(v)?.unwrap_or_else(|| self.clone()));
        }
        work::charge(2 + 2 * self.terms.len());
        let mut terms = Terms::new();
        let mut constant = self.constant;
        for (v, k) in &self.terms {
            let v = match v {
                Var::Apply(application) => Var::Apply(Box::new(Application {
                    map: application.map,
                    args: application.args.iter().map(|a| a.replace(replace)).collect::<Checked<_>>()?,
                })),
                other => other.clone(),
            };
            match replace(&v)? {
                Some(a) => {
                    let a = a.scale(*k)?;
                    constant = constant.checked_add(a.constant).ok_or(Overflow)?;
                    terms.extend(a.terms);
                }
                None => terms.push((v, *k)),
            }
        }
        Affine::sum_of(terms, constant)
    }

    /// Calls `visit` on every variable, those inside map applications included, before the application itself.
    pub fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a Var)) {
        for (v, _) in &self.terms {
            if let Var::Apply(application) = v {
                for a in &application.args {
                    a.visit(visit);
                }
            }
            visit(v);
        }
    }

    /// Whether an index occurs, also inside map applications.
    pub fn mentions(&self, i: IndexId) -> bool {
        let mut found = false;
        self.visit(&mut |v| found |= *v == Var::Index(i));
        found
    }

    /// How deep map applications nest: 0 without any.
    pub fn nesting(&self) -> usize {
        self.terms
            .iter()
            .map(|(v, _)| match v {
                Var::Apply(application) => 1 + application.args.iter().map(Affine::nesting).max().unwrap_or(0),
                _ => 0,
            })
            .max()
            .unwrap_or(0)
    }

    /// The value under an assignment of the variables, nothing where a variable has no value.
    pub fn evaluate(&self, value: &mut impl FnMut(&Var) -> Option<i64>) -> Option<Checked<i64>> {
        let mut sum = Some(i128::from(self.constant));
        for (v, k) in &self.terms {
            let term = i128::from(*k) * i128::from(value(v)?);
            sum = sum.and_then(|sum| sum.checked_add(term));
        }
        Some(sum.and_then(|sum| i64::try_from(sum).ok()).ok_or(Overflow))
    }

    /// Writes the expression with the caller's names: `2*i - j + n - 1`.
    pub fn write(&self, f: &mut impl fmt::Write, name: &mut impl FnMut(&Var) -> String) -> fmt::Result {
        let mut first = true;
        let mut sign = |f: &mut dyn fmt::Write, negative: bool| {
            let text = match (std::mem::take(&mut first), negative) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            f.write_str(text)
        };
        // Positive terms first: `j - i`, not `-i + j`.
        let (positive, negative): (Vec<_>, Vec<_>) = self.terms.iter().partition(|(_, k)| *k > 0);
        for (v, k) in positive.into_iter().chain(negative) {
            for part in readable(*k) {
                sign(f, *k < 0)?;
                match part {
                    1 => f.write_str(&name(v))?,
                    part => write!(f, "{part}*{}", name(v))?,
                }
            }
        }
        if self.constant != 0 || self.terms.is_empty() {
            for part in readable(self.constant) {
                sign(f, self.constant < 0)?;
                write!(f, "{part}")?;
            }
        }
        Ok(())
    }
}

/// The magnitude of a number as a sum of literals: that of the smallest integer is no 64-bit integer itself, so it is written in two.
pub(crate) fn readable(k: i64) -> impl Iterator<Item = u64> {
    const MAX: u64 = i64::MAX as u64;
    let k = k.unsigned_abs();
    [k.min(MAX)].into_iter().chain((k > MAX).then(|| k - MAX))
}

impl From<i64> for Affine {
    fn from(k: i64) -> Self {
        Affine::constant(k)
    }
}

impl From<IndexId> for Affine {
    fn from(i: IndexId) -> Self {
        Affine::index(i)
    }
}

impl From<SizeId> for Affine {
    fn from(n: SizeId) -> Self {
        Affine::size(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::RelationId;

    fn affine(terms: &[(u32, i64)], constant: i64) -> Affine {
        Affine::from_terms(terms.iter().map(|(i, k)| (Var::Index(IndexId(*i)), *k)), constant).unwrap()
    }

    fn apply(a: Affine) -> Affine {
        Affine::var(Var::Apply(Box::new(Application { map: RelationRef::Input(RelationId(0)), args: vec![a] })))
    }

    fn text(a: &Affine) -> String {
        let mut text = String::new();
        a.write(&mut text, &mut |v| match v {
            Var::Index(i) => i.to_string(),
            Var::Size(n) => n.to_string(),
            Var::Apply(application) => format!("f({})", self::text(&application.args[0])),
        })
        .unwrap();
        text
    }

    #[test]
    fn affine_obeys_the_ring_laws() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut random = || {
            let terms: Vec<_> = (0..rng.usize(0..4)).map(|_| (rng.u32(0..4), rng.i64(-3..4))).collect();
            affine(&terms, rng.i64(-3..4))
        };
        for _ in 0..500 {
            let (a, b, c) = (random(), random(), random());
            let sum = |a: &Affine, b: &Affine| a.add(b).unwrap();
            assert_eq!(sum(&a, &b), sum(&b, &a));
            assert_eq!(sum(&sum(&a, &b), &c), sum(&a, &sum(&b, &c)));
            assert_eq!(a.sub(&a), Ok(Affine::constant(0)));
            assert_eq!(sum(&a, &b).scale(-2), Ok(sum(&a.scale(-2).unwrap(), &b.scale(-2).unwrap())));
            assert_eq!(sum(&a, &a), a.scale(2).unwrap());
            // [i0 -> b] a, by value.
            let at = |a: &Affine, i0: i64| {
                let value = |v: &Var| Some(if *v == Var::Index(IndexId(0)) { i0 } else { 7 });
                a.evaluate(&mut { value }).unwrap().unwrap()
            };
            let replaced = a.substitute(&|i| (i == IndexId(0)).then(|| b.clone())).unwrap();
            assert_eq!(at(&replaced, 5), at(&a, at(&b, 5)));
        }
    }

    #[test]
    fn affine_reads_well() {
        let cases = [
            (affine(&[(0, -1), (1, 1)], 0), "i1 - i0"),
            (affine(&[(0, -2)], -3), "-2*i0 - 3"),
            (affine(&[], 0), "0"),
            (Affine::constant(i64::MIN), "-9223372036854775807 - 1"),
            (affine(&[(0, i64::MIN), (1, 1)], i64::MIN), "i1 - 9223372036854775807*i0 - i0 - 9223372036854775807 - 1"),
            (apply(affine(&[(0, 2)], 1)).add(&affine(&[(2, 1)], 0)).unwrap(), "i2 + f(2*i0 + 1)"),
        ];
        for (a, expected) in cases {
            assert_eq!(text(&a), expected);
        }
    }

    #[test]
    fn affine_substitutes_inside_applications() {
        let a = apply(apply(affine(&[(0, 1)], 0)));
        assert_eq!((a.nesting(), a.mentions(IndexId(0))), (2, true));
        let b = a.substitute(&|i| (i == IndexId(0)).then(|| affine(&[(1, 1)], 4))).unwrap();
        assert_eq!(text(&b), "f(f(i1 + 4))");
    }

    #[test]
    fn affine_reports_overflow() {
        let large = affine(&[(0, i64::MAX)], 0);
        assert_eq!(large.add(&large), Err(Overflow));
        assert_eq!(affine(&[(0, i64::MIN)], 0).scale(-1), Err(Overflow));
        assert_eq!(affine(&[], i64::MAX).add_constant(1), Err(Overflow));
        // 2^126 + 2^126 leaves even 128 bits.
        let huge = affine(&[(0, i64::MIN), (1, i64::MIN)], 0);
        assert_eq!(huge.evaluate(&mut |_| Some(i64::MIN)), Some(Err(Overflow)));
        assert_eq!(huge.evaluate(&mut |_| None), None);
    }
}

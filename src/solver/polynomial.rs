//! Polynomials with exact rational coefficients: what counts of points are made of.
//!
//! The sum `sum i = a .. b. p(i)` of a polynomial is a polynomial again, by Faulhaber's formula: with `S_k(n) = sum i < n. i^k`,
//!
//! ```text
//! n^(k+1)  =  sum i < n. (i+1)^(k+1) - i^(k+1)  =  sum j <= k. C(k+1, j) S_j(n)
//! ```
//!
//! determines `S_k` from the `S_j` before it. As an identity of polynomials it holds for `b = a - 1`, where the sum is empty and the
//! value 0, and for no smaller `b`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::base::integers::gcd;
use crate::base::{IndexId, RelationId, SizeId, work};
use crate::index::print::Names;
use crate::index::{Affine, Checked, Overflow, Var};

/// What a polynomial is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unknown {
    /// An index of an enclosing range.
    Index(IndexId),
    /// A size variable.
    Size(SizeId),
    /// `|R|`: how many tuples a relation has.
    Entries(RelationId),
    /// `|R(*, _)|`: in how many ways the kept places `*` of a relation are filled by its tuples. At least one place is not kept; where none
    /// is, the number is 1 unless the relation is empty.
    Projected {
        /// The relation.
        relation: RelationId,
        /// For each place whether it is kept.
        kept: Vec<bool>,
    },
}

/// A rational number in lowest terms, the denominator positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rational {
    numerator: i128,
    denominator: i128,
}

impl Rational {
    /// Zero.
    pub const ZERO: Rational = Rational { numerator: 0, denominator: 1 };

    /// An integer.
    pub fn integer(k: i128) -> Rational {
        Rational { numerator: k, denominator: 1 }
    }

    /// `numerator / denominator`.
    ///
    /// # Errors
    /// Where the denominator is zero or lowest terms do not fit.
    pub fn new(numerator: i128, denominator: i128) -> Checked<Rational> {
        let divisor =
            i128::try_from(gcd(numerator.unsigned_abs(), denominator.unsigned_abs())).map_err(|_| Overflow)?;
        if denominator == 0 {
            return Err(Overflow);
        }
        let (numerator, denominator) = (numerator / divisor, denominator / divisor);
        match denominator > 0 {
            true => Ok(Rational { numerator, denominator }),
            false => Ok(Rational {
                numerator: numerator.checked_neg().ok_or(Overflow)?,
                denominator: denominator.checked_neg().ok_or(Overflow)?,
            }),
        }
    }

    /// The numerator, which has the sign.
    pub fn numerator(self) -> i128 {
        self.numerator
    }

    /// The denominator, positive.
    pub fn denominator(self) -> i128 {
        self.denominator
    }

    /// The nearest floating-point number, or about that.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The integer that it is, if it is one.
    pub fn as_integer(self) -> Option<i128> {
        (self.denominator == 1).then_some(self.numerator)
    }

    fn add(self, other: Rational) -> Checked<Rational> {
        if self.denominator == 1 && other.denominator == 1 {
            return Ok(Rational::integer(self.numerator.checked_add(other.numerator).ok_or(Overflow)?));
        }
        let left = self.numerator.checked_mul(other.denominator).ok_or(Overflow)?;
        let right = other.numerator.checked_mul(self.denominator).ok_or(Overflow)?;
        let denominator = self.denominator.checked_mul(other.denominator).ok_or(Overflow)?;
        Rational::new(left.checked_add(right).ok_or(Overflow)?, denominator)
    }

    fn mul(self, other: Rational) -> Checked<Rational> {
        // Across first, so that what fits in lowest terms is found.
        let a = Rational::new(self.numerator, other.denominator)?;
        let b = Rational::new(other.numerator, self.denominator)?;
        let numerator = a.numerator.checked_mul(b.numerator).ok_or(Overflow)?;
        let denominator = a.denominator.checked_mul(b.denominator).ok_or(Overflow)?;
        Ok(Rational { numerator, denominator })
    }
}

/// A product of powers: the unknowns ascending, the exponents positive.
///
/// Orders as terms are written: by degree, highest first, then by the powers of the first unknown, and so on: `n^2, n*m, m^2, n, m, 1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Monomial(Vec<(Unknown, u32)>);

impl Monomial {
    /// The powers, by unknown.
    pub fn powers(&self) -> &[(Unknown, u32)] {
        &self.0
    }

    /// The sum of the exponents.
    pub fn degree(&self) -> u32 {
        self.0.iter().fold(0, |sum, (_, k)| sum.saturating_add(*k))
    }

    fn exponent(&self, v: &Unknown) -> u32 {
        self.0.iter().find(|(w, _)| w == v).map_or(0, |(_, k)| *k)
    }

    fn without(&self, v: &Unknown) -> Monomial {
        Monomial(self.0.iter().filter(|(w, _)| w != v).cloned().collect())
    }

    fn times(&self, other: &Monomial) -> Checked<Monomial> {
        if self.0.is_empty() || other.0.is_empty() {
            return Ok(if self.0.is_empty() { other.clone() } else { self.clone() });
        }
        let mut powers: BTreeMap<Unknown, u32> = self.0.iter().cloned().collect();
        for (v, k) in &other.0 {
            let power = powers.entry(v.clone()).or_insert(0);
            *power = power.checked_add(*k).ok_or(Overflow)?;
        }
        Ok(Monomial(powers.into_iter().collect()))
    }
}

impl Ord for Monomial {
    fn cmp(&self, other: &Self) -> Ordering {
        other.degree().cmp(&self.degree()).then_with(|| {
            let differ = self.0.iter().zip(&other.0).find(|(a, b)| a != b);
            match differ {
                Some(((v, k), (w, l))) => v.cmp(w).then(l.cmp(k)),
                None => other.0.len().cmp(&self.0.len()),
            }
        })
    }
}

impl PartialOrd for Monomial {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A polynomial in sizes, indices and numbers of entries.
///
/// Canonical: no coefficient is zero, so equal polynomials are equal as Rust values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Polynomial {
    terms: BTreeMap<Monomial, Rational>,
}

impl Polynomial {
    /// The zero polynomial.
    pub fn zero() -> Polynomial {
        Polynomial::default()
    }

    /// A constant.
    pub fn constant(k: i128) -> Polynomial {
        Polynomial::term(Rational::integer(k), Monomial::default())
    }

    /// An unknown.
    pub fn unknown(v: Unknown) -> Polynomial {
        Polynomial::term(Rational::integer(1), Monomial(vec![(v, 1)]))
    }

    fn term(k: Rational, m: Monomial) -> Polynomial {
        let mut polynomial = Polynomial::zero();
        if k != Rational::ZERO {
            polynomial.terms.insert(m, k);
        }
        polynomial
    }

    /// The same value as an affine expression, nothing for one with map applications.
    pub fn affine(a: &Affine) -> Option<Polynomial> {
        let mut polynomial = Polynomial::constant(a.offset().into());
        for (v, k) in a.terms() {
            let v = match v {
                Var::Index(i) => Unknown::Index(*i),
                Var::Size(n) => Unknown::Size(*n),
                Var::Apply(_) => return None,
            };
            // The variables of an affine expression are distinct and its coefficients not zero.
            polynomial.terms.insert(Monomial(vec![(v, 1)]), Rational::integer((*k).into()));
        }
        Some(polynomial)
    }

    /// The terms, as they are written.
    pub fn terms(&self) -> impl ExactSizeIterator<Item = (&Monomial, Rational)> {
        self.terms.iter().map(|(m, k)| (m, *k))
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value, where no unknown occurs.
    pub fn as_constant(&self) -> Option<Rational> {
        match self.terms.len() {
            0 => Some(Rational::ZERO),
            1 => self.terms.get(&Monomial::default()).copied(),
            _ => None,
        }
    }

    /// The largest sum of exponents of a term; 0 for a constant.
    pub fn degree(&self) -> u32 {
        self.terms.keys().map(Monomial::degree).max().unwrap_or(0)
    }

    /// The largest exponent of an unknown.
    pub fn degree_in(&self, v: &Unknown) -> u32 {
        self.terms.keys().map(|m| m.exponent(v)).max().unwrap_or(0)
    }

    /// `self + other`.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn add(&self, other: &Polynomial) -> Checked<Polynomial> {
        let mut sum = self.clone();
        sum.accumulate(other, Rational::integer(1))?;
        Ok(sum)
    }

    /// `self - other`.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn sub(&self, other: &Polynomial) -> Checked<Polynomial> {
        let mut sum = self.clone();
        sum.accumulate(other, Rational::integer(-1))?;
        Ok(sum)
    }

    /// `k * self`.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn scale(&self, k: Rational) -> Checked<Polynomial> {
        let mut scaled = Polynomial::zero();
        scaled.accumulate(self, k)?;
        Ok(scaled)
    }

    /// `self += k * other`.
    fn accumulate(&mut self, other: &Polynomial, k: Rational) -> Checked<()> {
        work::charge(4 * other.terms.len());
        for (m, l) in &other.terms {
            self.accumulate_term(m.clone(), l.mul(k)?)?;
        }
        Ok(())
    }

    fn accumulate_term(&mut self, m: Monomial, k: Rational) -> Checked<()> {
        let sum = self.terms.get(&m).copied().unwrap_or(Rational::ZERO).add(k)?;
        match sum == Rational::ZERO {
            true => self.terms.remove(&m),
            false => self.terms.insert(m, sum),
        };
        Ok(())
    }

    /// `self * other`.
    ///
    /// # Errors
    /// Where a coefficient or an exponent does not fit.
    pub fn mul(&self, other: &Polynomial) -> Checked<Polynomial> {
        work::charge(8 * self.terms.len() * other.terms.len());
        let mut product = Polynomial::zero();
        for (m, k) in &self.terms {
            for (n, l) in &other.terms {
                product.accumulate_term(m.times(n)?, k.mul(*l)?)?;
            }
        }
        Ok(product)
    }

    /// The coefficients of the powers of an unknown, from the constant one up; they are free of it.
    fn by_powers(&self, v: &Unknown) -> Vec<Polynomial> {
        let mut coefficients = vec![Polynomial::zero(); self.degree_in(v) as usize + 1];
        for (m, k) in &self.terms {
            // Distinct monomials of the same exponent stay distinct without it.
            coefficients[m.exponent(v) as usize].terms.insert(m.without(v), *k);
        }
        coefficients
    }

    /// `[v -> value] self`.
    ///
    /// # Errors
    /// Where a coefficient or an exponent does not fit.
    pub fn substitute(&self, v: &Unknown, value: &Polynomial) -> Checked<Polynomial> {
        if self.degree_in(v) == 0 {
            return Ok(self.clone());
        }
        // Horner's scheme.
        let mut result = Polynomial::zero();
        for coefficient in self.by_powers(v).iter().rev() {
            result = result.mul(value)?.add(coefficient)?;
        }
        Ok(result)
    }

    /// `sum i = first .. last. self`, for `first <= last + 1`.
    ///
    /// # Errors
    /// Where a coefficient or an exponent does not fit.
    pub fn sum(&self, i: IndexId, first: &Polynomial, last: &Polynomial) -> Checked<Polynomial> {
        let coefficients = self.by_powers(&Unknown::Index(i));
        let end = last.add(&Polynomial::constant(1))?;
        let mut sum = Polynomial::zero();
        // The only unknown of S_k, which occurs nowhere else here: the summed index.
        let n = Unknown::Index(i);
        for (coefficient, power) in coefficients.iter().zip(faulhaber(coefficients.len(), &n)?) {
            let range = power.substitute(&n, &end)?.sub(&power.substitute(&n, first)?)?;
            sum = sum.add(&coefficient.mul(&range)?)?;
        }
        Ok(sum)
    }

    /// The value under an assignment of the unknowns, nothing where one has no value.
    ///
    /// # Errors
    /// Where the value is no integer of 128 bits.
    pub fn evaluate(&self, value: &mut impl FnMut(&Unknown) -> Option<i128>) -> Option<Checked<i128>> {
        let mut sum = Ok(Rational::ZERO);
        for (m, k) in &self.terms {
            let mut term = Ok(*k);
            for (v, power) in &m.0 {
                let v = Rational::integer(value(v)?);
                for _ in 0..*power {
                    term = term.and_then(|term| term.mul(v));
                }
            }
            sum = sum.and_then(|sum| sum.add(term?));
        }
        Some(sum.and_then(|sum| sum.as_integer().ok_or(Overflow)))
    }

    /// Writes the terms, highest degree first: `n^2/2 + 3*n*m - 1`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, f: &mut dyn Write, names: &dyn Names) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        for (at, (m, k)) in self.terms.iter().enumerate() {
            f.write_str(match (at, k.numerator < 0) {
                (0, true) => "-",
                (0, false) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            })?;
            write_term(f, m, *k, names)?;
        }
        Ok(())
    }
}

/// `|k| * m`.
fn write_term(f: &mut dyn Write, m: &Monomial, k: Rational, names: &dyn Names) -> fmt::Result {
    let magnitude = k.numerator.unsigned_abs();
    if m.0.is_empty() || magnitude != 1 {
        write!(f, "{magnitude}")?;
    }
    for (at, (v, power)) in m.0.iter().enumerate() {
        if at > 0 || magnitude != 1 {
            f.write_str("*")?;
        }
        f.write_str(&unknown_text(v, names))?;
        if *power > 1 {
            write!(f, "^{power}")?;
        }
    }
    if k.denominator != 1 {
        write!(f, "/{}", k.denominator)?;
    }
    Ok(())
}

fn unknown_text(v: &Unknown, names: &dyn Names) -> String {
    match v {
        Unknown::Index(i) => names.index(*i),
        Unknown::Size(n) => names.size(*n),
        Unknown::Entries(r) => format!("|{}|", names.relation(*r)),
        Unknown::Projected { relation, kept } => {
            let places: Vec<&str> = kept.iter().map(|kept| if *kept { "*" } else { "_" }).collect();
            format!("|{}({})|", names.relation(*relation), places.join(", "))
        }
    }
}

/// `S_0 .. S_(count-1)`, polynomials in `n` with `S_k(n) = sum i < n. i^k`.
fn faulhaber(count: usize, n: &Unknown) -> Checked<Vec<Polynomial>> {
    let mut sums: Vec<Polynomial> = Vec::with_capacity(count);
    for k in 0..count {
        // (k+1) S_k = n^(k+1) - sum j < k. C(k+1, j) S_j
        let power = u32::try_from(k + 1).map_err(|_| Overflow)?;
        let mut sum = Polynomial::term(Rational::integer(1), Monomial(vec![(n.clone(), power)]));
        let mut binomial: i128 = 1;
        for (j, earlier) in sums.iter().enumerate() {
            sum.accumulate(earlier, Rational::integer(-binomial))?;
            // C(k+1, j+1) = C(k+1, j) (k+1-j) / (j+1)
            binomial = binomial.checked_mul((k + 1 - j) as i128).ok_or(Overflow)? / (j + 1) as i128;
        }
        sums.push(sum.scale(Rational::new(1, i128::from(power))?)?);
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Indices `i0`, sizes `n0`, relations `R0`.
    struct Plain;
    impl Names for Plain {
        fn index(&self, i: IndexId) -> String {
            i.to_string()
        }
        fn size(&self, n: SizeId) -> String {
            n.to_string()
        }
        fn relation(&self, r: RelationId) -> String {
            r.to_string()
        }
        fn var(&self, x: crate::base::VarId) -> String {
            x.to_string()
        }
    }

    fn n(at: u32) -> Polynomial {
        Polynomial::unknown(Unknown::Size(SizeId(at)))
    }

    fn random(rng: &mut fastrand::Rng, unknowns: u32) -> Polynomial {
        let mut p = Polynomial::zero();
        for _ in 0..rng.usize(0..4) {
            let mut m = Polynomial::constant(rng.i128(-3..4));
            for _ in 0..rng.usize(0..3) {
                m = m.mul(&n(rng.u32(0..unknowns))).unwrap();
            }
            p = p.add(&m.scale(Rational::new(1, rng.i128(1..4)).unwrap()).unwrap()).unwrap();
        }
        p
    }

    #[test]
    fn polynomials_obey_the_ring_laws() {
        let mut rng = fastrand::Rng::with_seed(21);
        for _ in 0..400 {
            let (a, b, c) = (random(&mut rng, 3), random(&mut rng, 3), random(&mut rng, 3));
            assert_eq!(a.add(&b), b.add(&a));
            assert_eq!(a.mul(&b), b.mul(&a));
            let (ab, bc) = (a.mul(&b).unwrap(), b.mul(&c).unwrap());
            assert_eq!(ab.mul(&c), a.mul(&bc));
            assert_eq!(a.mul(&b.add(&c).unwrap()), ab.add(&a.mul(&c).unwrap()));
            assert_eq!(a.sub(&a), Ok(Polynomial::zero()));
            // [n0 -> c] (a * b)  ==  [n0 -> c] a * [n0 -> c] b
            let at = Unknown::Size(SizeId(0));
            let [x, y, xy] = [&a, &b, &ab].map(|p| p.substitute(&at, &c).unwrap());
            assert_eq!(x.mul(&y), Ok(xy));
        }
    }

    #[test]
    fn polynomials_sum_like_loops() {
        let mut rng = fastrand::Rng::with_seed(22);
        let i = IndexId(7);
        for _ in 0..400 {
            // Integer coefficients, so that values are integers.
            let mut p = Polynomial::zero();
            for _ in 0..rng.usize(1..4) {
                let mut m = Polynomial::constant(rng.i128(-3..4));
                for _ in 0..rng.usize(0..6) {
                    m = m.mul(&if rng.bool() { n(0) } else { Polynomial::unknown(Unknown::Index(i)) }).unwrap();
                }
                p = p.add(&m).unwrap();
            }
            let (first, length, size) = (rng.i128(-4..5), rng.i128(0..6), rng.i128(0..5));
            let sum = p.sum(i, &n(1), &n(2)).unwrap();
            let at = |index: i128| {
                move |v: &Unknown| match v {
                    Unknown::Index(_) => Some(index),
                    Unknown::Size(SizeId(0)) => Some(size),
                    Unknown::Size(SizeId(1)) => Some(first),
                    _ => Some(first + length - 1),
                }
            };
            let naive = (first..first + length).map(|k| p.evaluate(&mut at(k)).unwrap().unwrap()).sum();
            assert_eq!(sum.evaluate(&mut at(0)), Some(Ok(naive)), "{p:?} from {first}, {length} summands");
        }
    }

    #[test]
    fn polynomials_read_well() {
        let half = Rational::new(1, 2).unwrap();
        let (a, b) = (n(0), n(1));
        let square = |p: &Polynomial| p.mul(p).unwrap();
        let entries = Polynomial::unknown(Unknown::Entries(RelationId(0)));
        let rows = Unknown::Projected { relation: RelationId(0), kept: vec![true, false] };
        let plus = |parts: &[Polynomial]| parts.iter().fold(Polynomial::zero(), |sum, p| sum.add(p).unwrap());
        let minus = |p: &Polynomial| p.scale(Rational::integer(-1)).unwrap();
        let cases = [
            (Polynomial::zero(), "0"),
            (Polynomial::constant(-3), "-3"),
            (plus(&[square(&a).scale(half).unwrap(), a.scale(half).unwrap()]), "n0^2/2 + n0/2"),
            (
                plus(&[b.clone(), a.mul(&b).unwrap(), square(&b), square(&a), minus(&a)]),
                "n0^2 + n0*n1 + n1^2 - n0 + n1",
            ),
            (plus(&[minus(&Polynomial::unknown(rows)), entries]), "|R0| - |R0(*, _)|"),
            (a.scale(Rational::new(-3, 2).unwrap()).unwrap(), "-3*n0/2"),
        ];
        for (p, expected) in cases {
            let mut text = String::new();
            p.write(&mut text, &Plain).unwrap();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn polynomials_report_overflow() {
        let huge = Polynomial::constant(i128::MAX);
        assert_eq!(huge.add(&huge), Err(Overflow));
        assert_eq!(huge.mul(&huge), Err(Overflow));
        assert_eq!(Rational::new(1, 0), Err(Overflow));
        assert_eq!(Rational::new(1, i128::MIN), Err(Overflow));
        assert_eq!(Rational::new(2, -4), Rational::new(-1, 2));
        let half = n(0).scale(Rational::new(1, 2).unwrap()).unwrap();
        assert_eq!(half.evaluate(&mut |_| Some(3)), Some(Err(Overflow)));
        assert_eq!(half.evaluate(&mut |_| Some(4)), Some(Ok(2)));
        assert_eq!(half.evaluate(&mut |_| None), None);
    }
}

//! Hyperbolic sine and cosine: with `a = k ln(2) + r` and `|r| <= ln(2) / 2` both are sums of `sinh(r)` and `cosh(r)` with powers of two for
//! factors, and an even polynomial for each of these.

use super::double::*;
use super::exponential::*;
use super::{V, choose, round, with_sign_of};

/// What both functions are made of, for `0 <= a < 1100`: `a = k ln(2) + r` with `r = high + low`.
pub struct Hyperbolic {
    /// As a number.
    pub k: f64,
    pub high: f64,
    /// `sinh(r) - r + low`
    pub sinh_tail: f64,
    /// `cosh(r) - 1`
    pub cosh_tail: f64,
    /// `2^(-2 k - 1)`, where that counts.
    pub small: f64,
}

#[inline(always)]
pub fn hyperbolic(a: f64) -> Hyperbolic {
    let k = round(a * LOG2_E);
    let high = a - k * LN_2_HIGH;
    let low = -(k * LN_2_LOW);
    let r = high + low;
    let z = r * r;
    let w = z * z;
    // sinh(r) = r + r z P(z), cosh(r) = 1 + z / 2 + z^2 Q(z)
    let even = 0.16666666666666669 + w * (0.00019841269864763302 + w * 2.5101617422857742e-08);
    let odd = 0.008333333333329715 + w * 2.7557265837029913e-06;
    let sinh_tail = r * z * (even + z * odd) + low;
    let even = 0.041666666666666664 + w * (2.480158731836542e-05 + w * 2.0912116371310077e-09);
    let odd = 0.0013888888888886305 + w * 2.7557281096438026e-07;
    let cosh_tail = 0.5 * z + w * (even + z * odd);
    let small = power_of_two(-1.0 - 2.0 * choose(k > 100.0, 100.0, k));
    Hyperbolic { k, high, sinh_tail, cosh_tail, small }
}

/// `x` within what [`hyperbolic`] takes, beyond which the functions are infinite; NaN stays.
#[inline(always)]
pub fn hyperbolic_domain(x: f64) -> f64 {
    choose(x.abs() > 711.0, 711.0, x.abs())
}

/// Hyperbolic sine, at most 1 unit in the last place off, for all `x`.
#[inline]
pub fn sinh<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = sinh_lane(*x);
    }
    x
}

#[inline(always)]
pub fn sinh_lane(x: f64) -> f64 {
    let a = hyperbolic_domain(x);
    let Hyperbolic { k, high, sinh_tail, cosh_tail, small } = hyperbolic(a);
    // 2^-k sinh(a) = (1/2 - small) cosh(r) + (1/2 + small) sinh(r), where the products with `high` are exact
    let (sum, lost) = ordered_sum(0.5, -small);
    let (factor, other) = (sum, 0.5 + small);
    let (sum, error) = ordered_sum(sum, 0.5 * high);
    let (sum, last) = ordered_sum(sum, small * high);
    let y = sum + (((lost + error) + last) + (factor * cosh_tail + other * sinh_tail));
    // So small that it is its own result.
    with_sign_of(x, choose(a < 1e-9, a, scale(y, k)))
}

/// Hyperbolic cosine, at most 1 unit in the last place off, for all `x`.
#[inline]
pub fn cosh<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = cosh_lane(*x);
    }
    x
}

#[inline(always)]
pub fn cosh_lane(x: f64) -> f64 {
    let Hyperbolic { k, high, sinh_tail, cosh_tail, small } = hyperbolic(hyperbolic_domain(x));
    // 2^-k cosh(a) = (1/2 + small) cosh(r) + (1/2 - small) sinh(r)
    let (sum, lost) = ordered_sum(0.5, small);
    let (factor, other) = (sum, 0.5 - small);
    let (sum, error) = ordered_sum(sum, 0.5 * high);
    let (sum, last) = ordered_sum(sum, -(small * high));
    let y = sum + (((lost + error) + last) + (factor * cosh_tail + other * sinh_tail));
    scale(y, k)
}

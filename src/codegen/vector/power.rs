//! Powers: the exponential of a logarithm, which has 64 bits since it is multiplied by up to 745.

use super::double::*;
use super::exponential::*;
use super::logarithm::*;
use super::mul_add::*;
use super::{V, choose};

/// Whether a number that is not negative is an integer.
#[inline(always)]
pub fn is_integer(x: f64) -> bool {
    let whole = (x + 4503599627370496.0) - 4503599627370496.0;
    x >= 4503599627370496.0 || whole == x
}

/// Whether a number is above 0 and finite, by its bits, which lanes compare faster.
#[inline(always)]
pub fn is_positive(x: f64) -> bool {
    x.to_bits().wrapping_sub(1) < f64::INFINITY.to_bits() - 1
}

/// What powers begin with: `ln(|x|) = high + low`.
#[derive(Clone, Copy, Debug)]
pub struct Base<const N: usize> {
    pub x: V<N>,
    pub high: V<N>,
    pub low: V<N>,
}

/// The parts of which powers of `x` are made.
#[inline(always)]
pub fn base_parts<const N: usize>(x: V<N>) -> Base<N> {
    let mut base = Base { x, high: x, low: x };
    for l in 0..N {
        (base.high.0[l], base.low.0[l]) = ln_parts(x.0[l].abs());
    }
    base
}

/// `x^y` as [`pow`], of what [`base_parts`] gives.
#[inline(always)]
pub fn pow_of_base<const N: usize>(base: Base<N>, y: V<N>) -> V<N> {
    let mut z = y;
    for l in 0..N {
        z.0[l] = ordinary_power(y.0[l], (base.high.0[l], base.low.0[l]));
    }
    // Few numbers are anything else, and then all lanes are looked at.
    if base.x.any(|x| !is_positive(x)) || y.any(|y| !is_positive(y.abs())) {
        z = special_powers(base.x, y, z);
    }
    z
}

/// `x^y`, given `|x|^y` where that is [ordinary](ordinary_power).
#[cold]
#[inline(never)]
pub fn special_powers<const N: usize>(x: V<N>, y: V<N>, mut z: V<N>) -> V<N> {
    for l in 0..N {
        z.0[l] = special_power(x.0[l], y.0[l], z.0[l]);
    }
    z
}

/// `x^y` as IEEE 754 defines it, at most 1 unit in the last place off: NaN for negative `x` unless `y` is an integer, 1 for `y = 0`
/// and for `x = 1`.
#[inline(always)]
pub fn pow<const N: usize>(x: V<N>, y: V<N>) -> V<N> {
    pow_of_base(base_parts(x), y)
}

/// `|x|^y` for finite numbers but 0, given the logarithm of `|x|`.
#[inline(always)]
pub fn ordinary_power(y: f64, (h, l): (f64, f64)) -> f64 {
    let (product, error) = two_product(y, h);
    // Beyond, the result is 0 or infinite.
    let p = exp_domain(product);
    let low = choose(p == product, mul_add(y, l, error), 0.0);
    let (h, _, k) = exp_parts(p, low);
    scale(h, k)
}

/// `x^y`, given `|x|^y` where that is [ordinary](ordinary_power).
#[inline(always)]
pub fn special_power(x: f64, y: f64, power: f64) -> f64 {
    let a = x.abs();
    let extreme = choose((a > 1.0) == (y > 0.0), f64::INFINITY, 0.0);
    let is_extreme = a == 0.0 || a == f64::INFINITY || y.abs() == f64::INFINITY;
    let power = choose(is_extreme, extreme, power);
    let power = choose(a == 1.0, 1.0, power);
    let integer = is_integer(y.abs());
    let odd = integer && !is_integer(0.5 * y.abs());
    let power = choose(x.is_sign_negative() && odd, -power, power);
    let undefined = x < 0.0 && a < f64::INFINITY && !integer;
    let power = choose(undefined || x.is_nan() || y.is_nan(), f64::NAN, power);
    choose(x == 1.0 || y == 0.0, 1.0, power)
}

//! Powers: the exponential of a logarithm, which has 64 bits since it is multiplied by up to 745.

use super::double::*;
use super::exponential::*;
use super::logarithm::*;
use super::{V, choose, choose_pair};

/// Whether a number that is not negative is an integer.
#[inline(always)]
pub fn is_integer(x: f64) -> bool {
    let whole = (x + 4503599627370496.0) - 4503599627370496.0;
    x >= 4503599627370496.0 || whole == x
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
#[inline]
pub fn pow_of_base<const N: usize>(base: Base<N>, y: V<N>) -> V<N> {
    let mut z = y;
    for l in 0..N {
        z.0[l] = pow_of_logarithm(base.x.0[l], y.0[l], (base.high.0[l], base.low.0[l]));
    }
    z
}

/// `x^y` as IEEE 754 defines it, at most 1 unit in the last place off: NaN for negative `x` unless `y` is an integer, 1 for `y = 0`
/// and for `x = 1`.
#[inline(always)]
pub fn pow<const N: usize>(x: V<N>, y: V<N>) -> V<N> {
    pow_of_base(base_parts(x), y)
}

/// `x^y`, given the logarithm of `|x|`.
#[inline(always)]
pub fn pow_of_logarithm(x: f64, y: f64, (h, l): (f64, f64)) -> f64 {
    let a = x.abs();
    let (p, error) = two_product(y, h);
    // Beyond, the result is 0 or infinite.
    let outside = p.abs() > 800.0;
    let limit = choose(p > 0.0, 800.0, -800.0);
    let (p, low) = choose_pair(outside, (limit, 0.0), (p, error + y * l));
    let (h, _, k) = exp_parts(exp_domain(p), low);
    let power = scale(h, k);
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

//! The exponential and what is made of it: `e^x = 2^k e^r` with `|r| <= ln(2) / 2`, and a polynomial for `e^r`. Where more follows, the
//! exponential is a sum of two numbers.

use super::double::*;
use super::logarithm::*;
use super::mul_add::*;
use super::{ROUND, V, choose, choose_pair, with_sign_of};

pub const LOG2_E: f64 = core::f64::consts::LOG2_E;
/// The natural logarithm of 2; the high part times an exponent is exact.
pub const LN_2_HIGH: f64 = f64::from_bits(0x3fe62e42fee00000);
pub const LN_2_LOW: f64 = f64::from_bits(0x3dea39ef35793c76);

/// `(e^r - 1 - r) / r^2` for `|r| <= ln(2) / 2`.
#[inline(always)]
pub fn exp_tail(r: f64) -> f64 {
    let square = r * r;
    let fourth = square * square;
    let a = mul_add(r, 0.04166666666666671, 0.1666666666666667);
    let b = mul_add(r, 0.0013888888888852825, 0.008333333333325671);
    let c = mul_add(r, 2.4801587406921497e-05, 0.00019841269876422768);
    let d = mul_add(r, 2.7557187671469136e-07, 2.7557253390377343e-06);
    let e = mul_add(r, 2.0946069940118525e-09, 2.510604433735163e-08);
    let low = mul_add(square, b, a);
    let high = mul_add(fourth, e, mul_add(square, d, c));
    mul_add(r, mul_add(fourth, high, low), 0.5)
}

/// `h`, `l` and `k` with `e^(x + y) = 2^k (h + l)` within 1/16 of a unit in the last place, for `|x| < 1100` and tiny `y`.
#[inline(always)]
pub fn exp_parts(x: f64, y: f64) -> (f64, f64, f64) {
    let k = mul_add(x, LOG2_E, ROUND) - ROUND;
    let high = mul_add(-k, LN_2_HIGH, x);
    let low = mul_add(-k, LN_2_LOW, y);
    let r = high + low;
    let tail = mul_add(r * r, exp_tail(r), low);
    let (sum, error) = ordered_sum(1.0, high);
    let (h, l) = ordered_sum(sum, error + tail);
    (h, l, k)
}

/// `2^k` for an integer `-1022 <= k <= 1023`.
#[inline(always)]
pub fn power_of_two(k: f64) -> f64 {
    f64::from_bits((k + (ROUND + 1023.0)).to_bits() << 52)
}

/// `x * 2^k` for an integer `-1100 < k < 1100`, in two steps so that neither power leaves the range: one for each half of the exponent.
#[inline(always)]
pub fn scale(x: f64, k: f64) -> f64 {
    let exponents = (k + (ROUND + 2046.0)).to_bits();
    let half = exponents >> 1;
    x * f64::from_bits(half << 52) * f64::from_bits((exponents - half) << 52)
}

/// `x` within what [`exp_parts`] takes, beyond which the exponential is 0 or infinite; NaN stays.
#[inline(always)]
pub fn exp_domain(x: f64) -> f64 {
    let x = choose(x > 710.0, 710.0, x);
    choose(x < -746.0, -746.0, x)
}

/// `e^x`, at most 1 unit in the last place off, for all `x`.
#[inline(always)]
pub fn exp<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = exp_lane(*x);
    }
    x
}

#[inline(always)]
pub fn exp_lane(x: f64) -> f64 {
    let (h, _, k) = exp_parts(exp_domain(x), 0.0);
    scale(h, k)
}

/// `(e^x - 1) / 2` as a sum, for `-60 < x < 710.1`.
#[inline(always)]
pub fn half_expm1(x: f64) -> (f64, f64) {
    let k = mul_add(x, LOG2_E, ROUND) - ROUND;
    let high = mul_add(-k, LN_2_HIGH, x);
    let low = -(k * LN_2_LOW);
    let r = high + low;
    let tail = r * r * exp_tail(r);
    // 2^(k - 1) (1 + r + tail) - 1/2
    let power = power_of_two(k - 1.0);
    let (whole, lost) = two_sum(power, -0.5);
    let (sum, error) = two_sum(whole, power * high);
    (sum, (error + lost) + power * (tail + low))
}

/// `e^x - 1`, at most 1 unit in the last place off, for all `x`.
#[inline]
pub fn expm1<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = expm1_lane(*x);
    }
    x
}

#[inline(always)]
pub fn expm1_lane(x: f64) -> f64 {
    let near = choose(x > 710.0, 710.0, x);
    let near = choose(near < -50.0, -50.0, near);
    let (h, l) = half_expm1(near);
    // So small that it is its own result; zeros keep their sign.
    choose(x.abs() < 1e-17, x, 2.0 * (h + l))
}

/// Hyperbolic tangent, at most 1.5 units in the last place off, for all `x`.
#[inline(always)]
pub fn tanh<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = tanh_lane(*x);
    }
    x
}

#[inline(always)]
pub fn tanh_lane(x: f64) -> f64 {
    // t / (t + 1) with t = (e^(2|x|) - 1) / 2
    let a = choose(x.abs() > 20.0, 20.0, x.abs());
    let (h, l) = half_expm1(a + a);
    let (t, lost) = ordered_sum(h, l);
    let (sum, error) = two_sum(t, 1.0);
    let q = t / sum;
    let y = q + (lost - q * (error + lost)) * (1.0 - q);
    let y = choose(a < 1e-17, a, y);
    with_sign_of(x, y)
}

/// `e^-|x|` as a sum.
#[inline(always)]
pub fn exp_of_minus(x: f64) -> (f64, f64) {
    let (h, l, k) = exp_parts(exp_domain(-x.abs()), 0.0);
    (scale(h, k), scale(l, k))
}

/// `1 / (1 + e^-x)`, at most 1.5 units in the last place off, for all `x`.
#[inline(always)]
pub fn sigmoid<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = sigmoid_lane(*x);
    }
    x
}

#[inline(always)]
pub fn sigmoid_lane(x: f64) -> f64 {
    let (h, l) = exp_of_minus(x);
    let (sum, error) = ordered_sum(1.0, h);
    let positive = x > 0.0;
    let (top, low) = choose_pair(positive, (1.0, 0.0), (h, l));
    let q = top / sum;
    // What the roundings of the quotient's parts are worth; 1 / (1 + e) is q or 1 - q.
    q + (low - q * (error + l)) * choose(positive, q, 1.0 - q)
}

/// `ln(1 + e^x)`, at most 1.5 units in the last place off, for all `x`.
#[inline(always)]
pub fn softplus<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = softplus_lane(*x);
    }
    x
}

#[inline(always)]
pub fn softplus_lane(x: f64) -> f64 {
    let (h, l) = exp_of_minus(x);
    // 1 + e = 2^k (1 + f)
    let near = h < 0.41421;
    let (sum, error) = ordered_sum(1.0, h);
    let f = choose(near, h, 0.5 * sum - 1.0);
    let lost = choose(near, l, 0.5 * (error + l));
    let (k_high, k_low) = choose_pair(near, (0.0, 0.0), (LN_2_HIGH, LN_2_LOW));
    // The logarithm grows by lost / (1 + f).
    let tail = ln_tail(f) + (k_low + lost * (1.0 - f * (1.0 - f)));
    let y = k_high - ((0.5 * f * f - tail) - f);
    choose(x > 0.0, x + y, y)
}

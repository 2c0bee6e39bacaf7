//! Logarithms: `ln(x) = k ln(2) + ln(1 + f)`, and a polynomial in `s^2` with `s = f / (2 + f)`, since `ln(1 + f) = 2 atanh(s)`.

use super::double::*;
use super::exponential::*;
use super::mul_add::*;
use super::{ROUND, V, choose};

/// `m` and `k` with `x = 2^k m` and `m` within a factor `sqrt(2)` of 1, for positive `x`.
#[inline(always)]
pub fn split(x: f64) -> (f64, f64) {
    // Numbers below the normal range are brought into it.
    let small = x < f64::MIN_POSITIVE;
    let x = choose(small, x * 18014398509481984.0, x);
    let shifted = x.to_bits().wrapping_add(0x3ff0000000000000 - 0x3fe6a09e00000000);
    // The exponent as a number: its bits are put where those of an integer are.
    let k = f64::from_bits((shifted >> 52) | ROUND.to_bits()) - (ROUND + 1023.0);
    let m = f64::from_bits((shifted & 0x000fffffffffffff).wrapping_add(0x3fe6a09e00000000));
    (m, choose(small, k - 54.0, k))
}

/// `ln(1 + f) - f + f^2 / 2`, which is `s (f^2 / 2 + R)` with `s = f / (2 + f)`, for `1 + f` within a factor `sqrt(2)` of 1.
#[inline(always)]
pub fn ln_tail(f: f64) -> f64 {
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = mul_add(w, mul_add(w, 0.13268669005111386, 0.18181795568589937), 0.28571428570800655);
    let odd = mul_add(w, mul_add(w, 0.1308771474739754, 0.15386243592665208), 0.222222223923837);
    let even = mul_add(w, even, 0.6666666666666666);
    let odd = mul_add(w, odd, 0.4000000000000088);
    s * mul_add(z, mul_add(z, odd, even), 0.5 * f * f)
}

/// `ln(x)` for positive finite `x`.
#[inline(always)]
pub fn ln_of_positive(x: f64) -> f64 {
    let (m, k) = split(x);
    let f = m - 1.0;
    let tail = mul_add(k, LN_2_LOW, ln_tail(f));
    mul_add(k, LN_2_HIGH, f - (0.5 * f * f - tail))
}

/// Natural logarithm, at most 1 unit in the last place off, for `x >= 0`; NaN for others.
#[inline(always)]
pub fn ln<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = ln_lane(*x);
    }
    x
}

#[inline(always)]
pub fn ln_lane(x: f64) -> f64 {
    let y = ln_of_positive(x);
    let y = choose(x < f64::INFINITY, y, x);
    let y = choose(x == 0.0, f64::NEG_INFINITY, y);
    choose(x < 0.0, f64::NAN, y)
}

/// `ln(1 + x)`, at most 1 unit in the last place off, for `x >= -1`; NaN for others.
#[inline(always)]
pub fn log1p<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = log1p_lane(*x);
    }
    x
}

#[inline(always)]
pub fn log1p_lane(x: f64) -> f64 {
    let (u, lost) = two_sum(1.0, x);
    let (m, k) = split(u);
    let near = x > -0.29289 && x < 0.41421;
    let f = choose(near, x, m - 1.0);
    let k = choose(near, 0.0, k);
    let lost = choose(near, 0.0, lost / u);
    let tail = ln_tail(f) + (k * LN_2_LOW + lost);
    let y = k * LN_2_HIGH - ((0.5 * f * f - tail) - f);
    // So small that x is its own result; zeros keep their sign.
    let y = choose(x.abs() < 1e-17, x, y);
    let y = choose(x < f64::INFINITY, y, x);
    let y = choose(x == -1.0, f64::NEG_INFINITY, y);
    choose(x < -1.0, f64::NAN, y)
}

/// `x * ln(y)`, at most 2 units in the last place off; 0 where `x` is 0, whatever `y` is.
#[inline(always)]
pub fn xlogy<const N: usize>(x: V<N>, y: V<N>) -> V<N> {
    let mut z = x;
    for (z, y) in z.0.iter_mut().zip(&y.0) {
        *z = xlogy_lane(*z, *y);
    }
    z
}

#[inline(always)]
pub fn xlogy_lane(x: f64, y: f64) -> f64 {
    choose(x == 0.0, 0.0, x * ln_lane(y))
}

/// `h` and `l` with `ln(x) = h + l` within `2^-64` of its size, for positive finite `x`.
#[inline(always)]
pub fn ln_parts(x: f64) -> (f64, f64) {
    let (m, k) = split(x);
    // s = f / (2 + f) as a sum of a quotient and a rest
    let f = m - 1.0;
    let (d, d_low) = ordered_sum(2.0, f);
    let inverse = 1.0 / d;
    let s = f * inverse;
    let s_low = mul_add(-s, d_low, mul_add(-s, d, f)) * inverse;
    // z = s^2, and ln(1 + f) = s (2 + z (2/3 + z R(z)))
    let (z, z_error) = two_product(s, s);
    let z_low = mul_add(2.0 * s, s_low, z_error);
    let w = z * z;
    let even = mul_add(w, mul_add(w, 0.11706154215034448, 0.1538459490609143), 0.22222222221653554);
    let odd = mul_add(w, mul_add(w, 0.11724037104235352, 0.13334807761696937), 0.18181818335921093);
    let rest = mul_add(z, mul_add(w, odd, 0.2857142857142937), mul_add(w, even, 0.4));
    let (t, t_error) = ordered_sum(2.0 / 3.0, z * rest);
    let t_low = t_error + 3.700743415417188e-17;
    let (p, p_error) = two_product(z, t);
    let p_low = p_error + mul_add(z, t_low, z_low * t);
    let (q, q_error) = two_product(s, p);
    let q_low = q_error + mul_add(s, p_low, s_low * p);
    // k ln(2) + 2 s + q
    let (sum, error) = ordered_sum(k * LN_2_HIGH, 2.0 * s);
    let (sum, other) = ordered_sum(sum, q);
    ordered_sum(sum, (error + other) + mul_add(k, LN_2_LOW, mul_add(2.0, s_low, q_low)))
}

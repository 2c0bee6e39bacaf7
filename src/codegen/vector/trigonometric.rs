//! Sine, cosine and tangent: polynomials for angles up to `pi / 4`, to which all are reduced.

use super::double::*;
use super::large_angle::*;
use super::{V, choose, choose_pair, last_bits, round};

pub const PI_2_HIGH: f64 = core::f64::consts::FRAC_PI_2;
pub const PI_2_LOW: f64 = 6.123233995736766e-17;

/// Beyond this, angles are reduced lane by lane.
pub const LARGE_ANGLE: f64 = 1e6;

/// `h`, `l` and `n` with `x = n pi / 2 + h + l` and `|h| < 0.7855`, for `|x| <= LARGE_ANGLE`; of `n` only the last two bits count.
///
/// After W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980): `pi / 2` in parts of 33 bits, so that products
/// with `n` are exact.
#[inline(always)]
pub fn reduce_angle(x: f64) -> (f64, f64, u64) {
    let n = round(x * core::f64::consts::FRAC_2_PI);
    let rest = x - n * f64::from_bits(0x3ff921fb54400000);
    let (rest, lost) = two_sum(rest, -(n * f64::from_bits(0x3dd0b4611a600000)));
    let (rest, other) = two_sum(rest, -(n * f64::from_bits(0x3ba3198a2e000000)));
    let (h, l) = ordered_sum(rest, (lost + other) - n * f64::from_bits(0x397b839a252049c1));
    (h, l, last_bits(n))
}

/// `sin(x + y) - x` for `|x| < 0.7855` and tiny `y`.
#[inline(always)]
pub fn sin_tail(x: f64, y: f64) -> f64 {
    let z = x * x;
    let w = z * z;
    let cube = z * x;
    let even = 0.008333333333333331 + w * (2.755731921933466e-06 + w * 1.6058531370931902e-10);
    let odd = -0.0001984126984126506 + w * (-2.505210623088241e-08 + w * -7.586682497157786e-13);
    (y - z * (0.5 * y - cube * (even + z * odd))) - cube * 0.16666666666666666
}

/// `cos(x + y)` as two numbers to be added, for `|x| < 0.7855` and tiny `y`.
#[inline(always)]
pub fn cos_terms(x: f64, y: f64) -> (f64, f64) {
    let z = x * x;
    let w = z * z;
    let half = 0.5 * z;
    let even = 0.041666666666666664 + w * (2.480158729876295e-05 + w * 2.087614597263508e-09);
    let odd = -0.0013888888888887395 + w * (-2.755731727031051e-07 + w * -1.1382611119025631e-11);
    let first = 1.0 - half;
    (first, ((1.0 - first) - half) + (w * (even + z * odd) - x * y))
}

/// The sine of a reduced angle.
#[inline(always)]
pub fn sin_reduced((h, l, n): (f64, f64, u64)) -> f64 {
    let sine = h + sin_tail(h, l);
    let (first, rest) = cos_terms(h, l);
    let y = choose(n & 1 == 0, sine, first + rest);
    choose(n & 2 == 0, y, -y)
}

/// The cosine of a reduced angle is the sine of the next quadrant.
#[inline(always)]
pub fn cos_reduced((h, l, n): (f64, f64, u64)) -> f64 {
    sin_reduced((h, l, n.wrapping_add(1)))
}

/// The tangent of a reduced angle.
#[inline(always)]
pub fn tan_reduced((h, l, n): (f64, f64, u64)) -> f64 {
    let (sine, sine_low) = ordered_sum(h, sin_tail(h, l));
    let (first, rest) = cos_terms(h, l);
    let (cosine, cosine_low) = ordered_sum(first, rest);
    let even = n & 1 == 0;
    let (top, top_low) = choose_pair(even, (sine, sine_low), (-cosine, -cosine_low));
    let (bottom, bottom_low) = choose_pair(even, (cosine, cosine_low), (sine, sine_low));
    let q = top / bottom;
    let inverse = reciprocal_estimate(bottom.abs());
    q + (top_low - q * bottom_low) * choose(bottom < 0.0, -inverse, inverse)
}

/// What a function of angles is where these are large: `far`, lane by lane, where there are any.
#[inline(always)]
pub fn where_large<const N: usize>(x: V<N>, mut y: V<N>, far: impl Fn(f64) -> f64) -> V<N> {
    if x.any(is_large_angle) {
        for l in 0..N {
            if is_large_angle(x.0[l]) {
                y.0[l] = far(x.0[l]);
            }
        }
    }
    y
}

/// Whether an angle is reduced by integers; also NaN.
#[inline(always)]
pub fn is_large_angle(x: f64) -> bool {
    x.is_nan() || x.abs() > LARGE_ANGLE
}

/// Sine, at most 1 unit in the last place off, for all finite `x`; NaN for others. Lanes beyond a million are done one by one.
#[inline(always)]
pub fn sin<const N: usize>(x: V<N>) -> V<N> {
    let mut y = x;
    for y in &mut y.0 {
        *y = sin_lane(*y);
    }
    where_large(x, y, |x| sin_reduced(reduce_large_angle(x)))
}

#[inline(always)]
pub fn sin_lane(x: f64) -> f64 {
    let y = sin_reduced(reduce_angle(x));
    // Zeros keep their sign.
    choose(x == 0.0, x, y)
}

/// Cosine, at most 1 unit in the last place off, for all finite `x`; NaN for others. Lanes beyond a million are done one by one.
#[inline(always)]
pub fn cos<const N: usize>(x: V<N>) -> V<N> {
    let mut y = x;
    for y in &mut y.0 {
        *y = cos_lane(*y);
    }
    where_large(x, y, |x| cos_reduced(reduce_large_angle(x)))
}

#[inline(always)]
pub fn cos_lane(x: f64) -> f64 {
    cos_reduced(reduce_angle(x))
}

/// Tangent, at most 1.5 units in the last place off, for all finite `x`; NaN for others. Lanes beyond a million are done one by one.
#[inline]
pub fn tan<const N: usize>(x: V<N>) -> V<N> {
    let mut y = x;
    for y in &mut y.0 {
        *y = tan_lane(*y);
    }
    where_large(x, y, |x| tan_reduced(reduce_large_angle(x)))
}

#[inline(always)]
pub fn tan_lane(x: f64) -> f64 {
    let y = tan_reduced(reduce_angle(x));
    choose(x == 0.0, x, y)
}

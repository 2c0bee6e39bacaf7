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

/// The sine and the cosine of `h + l`.
#[inline(always)]
pub fn sin_cos_reduced(h: f64, l: f64) -> (f64, f64) {
    let (first, rest) = cos_terms(h, l);
    (h + sin_tail(h, l), first + rest)
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

/// Whether an angle is reduced by integers; also NaN.
#[inline(always)]
pub fn is_large_angle(x: f64) -> bool {
    x.is_nan() || x.abs() > LARGE_ANGLE
}

/// What sine and cosine begin with: those of the reduced angle, and the quadrant, of which the last two bits count.
#[derive(Clone, Copy, Debug)]
pub struct Angle<const N: usize> {
    pub sine: V<N>,
    pub cosine: V<N>,
    pub quadrant: [u64; N],
}

/// The parts of which [`sin`] and [`cos`] are made.
#[inline(always)]
pub fn angle_parts<const N: usize>(x: V<N>) -> Angle<N> {
    let mut angle = Angle { sine: x, cosine: x, quadrant: [0; N] };
    for l in 0..N {
        let (high, low, quadrant) = reduce_angle(x.0[l]);
        let (sine, cosine) = sin_cos_reduced(high, low);
        // Zeros keep their sign.
        angle.sine.0[l] = choose(x.0[l] == 0.0, x.0[l], sine);
        angle.cosine.0[l] = cosine;
        angle.quadrant[l] = quadrant;
    }
    if x.any(is_large_angle) {
        for l in 0..N {
            if is_large_angle(x.0[l]) {
                let (high, low, quadrant) = reduce_large_angle(x.0[l]);
                (angle.sine.0[l], angle.cosine.0[l]) = sin_cos_reduced(high, low);
                angle.quadrant[l] = quadrant;
            }
        }
    }
    angle
}

/// The sine in a quadrant, given sine and cosine of the reduced angle.
#[inline(always)]
pub fn sin_in_quadrant(sine: f64, cosine: f64, quadrant: u64) -> f64 {
    let y = choose(quadrant & 1 == 0, sine, cosine);
    choose(quadrant & 2 == 0, y, -y)
}

/// Sine as [`sin`], of what [`angle_parts`] gives.
#[inline(always)]
pub fn sin_of_angle<const N: usize>(angle: Angle<N>) -> V<N> {
    let mut y = angle.sine;
    for l in 0..N {
        y.0[l] = sin_in_quadrant(y.0[l], angle.cosine.0[l], angle.quadrant[l]);
    }
    y
}

/// Cosine as [`cos`]: the sine in the next quadrant.
#[inline(always)]
pub fn cos_of_angle<const N: usize>(angle: Angle<N>) -> V<N> {
    let mut y = angle.sine;
    for l in 0..N {
        y.0[l] = sin_in_quadrant(y.0[l], angle.cosine.0[l], angle.quadrant[l].wrapping_add(1));
    }
    y
}

/// Sine, at most 1 unit in the last place off, for all finite `x`; NaN for others. Lanes beyond a million are done one by one.
#[inline(always)]
pub fn sin<const N: usize>(x: V<N>) -> V<N> {
    sin_of_angle(angle_parts(x))
}

/// Cosine, at most 1 unit in the last place off, for all finite `x`; NaN for others. Lanes beyond a million are done one by one.
#[inline(always)]
pub fn cos<const N: usize>(x: V<N>) -> V<N> {
    cos_of_angle(angle_parts(x))
}

/// Tangent, at most 1.5 units in the last place off, for all finite `x`; NaN for others. Lanes beyond a million are done one by one.
#[inline]
pub fn tan<const N: usize>(x: V<N>) -> V<N> {
    let mut y = x;
    for y in &mut y.0 {
        *y = tan_lane(*y);
    }
    if x.any(is_large_angle) {
        for l in 0..N {
            if is_large_angle(x.0[l]) {
                y.0[l] = tan_reduced(reduce_large_angle(x.0[l]));
            }
        }
    }
    y
}

#[inline(always)]
pub fn tan_lane(x: f64) -> f64 {
    let y = tan_reduced(reduce_angle(x));
    choose(x == 0.0, x, y)
}

//! Inverse trigonometric functions: an odd polynomial each for the arc tangent up to `tan(pi / 8)` and the arc sine up to 1/2, to which all
//! arguments are reduced.

use super::double::*;
use super::square_root::*;
use super::trigonometric::*;
use super::{V, choose, choose_pair, with_sign_of};

pub const PI_HIGH: f64 = core::f64::consts::PI;
pub const PI_LOW: f64 = 1.2246467991473532e-16;

/// A point that is turned towards the axis: its angle is `c pi / 2` and that of `(bottom, top)`, both with what is lost of them.
pub struct Turned {
    pub c: f64,
    pub top: f64,
    pub top_low: f64,
    pub bottom: f64,
    pub bottom_low: f64,
}

/// The point `(b, a)` of the first quadrant, turned by nothing, by `pi / 4` or by `pi / 2`, so that its angle is at most `pi / 8`.
#[inline(always)]
pub fn turned(a: f64, b: f64) -> Turned {
    // atan(a / b) = c pi / 2 + atan(t) with t = a / b, (a - b) / (a + b), or -b / a
    let (near, far) = (a < 0.4142 * b, a > 2.4142 * b);
    let (less, less_low) = two_sum(a, -b);
    let (more, more_low) = two_sum(a, b);
    let (top, top_low) = choose_pair(near, (a, 0.0), (less, less_low));
    let (top, top_low) = choose_pair(far, (-b, 0.0), (top, top_low));
    let (bottom, bottom_low) = choose_pair(near, (b, 0.0), (more, more_low));
    let (bottom, bottom_low) = choose_pair(far, (a, 0.0), (bottom, bottom_low));
    Turned { c: choose(near, 0.0, choose(far, 1.0, 0.5)), top, top_low, bottom, bottom_low }
}

/// `atan(t) - t` for `|t| < 0.4143`.
#[inline(always)]
pub fn atan_tail(t: f64) -> f64 {
    let z = t * t;
    let w = z * z;
    let even = -0.3333333333333333
        + w * (-0.14285714284662662
            + w * (-0.09090904565447815
                + w * (-0.066645073011504 + w * (-0.05085261338742964 + w * -0.019170224484694312))));
    let odd = 0.19999999999995502
        + w * (0.11111111014944319 + w * (0.07692182896409087 + w * (0.058581129024851 + w * 0.03922621674182299)));
    t * z * (even + z * odd)
}

/// Arc tangent, at most 1.5 units in the last place off, for all `x`.
#[inline(always)]
pub fn atan<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = atan_lane(*x);
    }
    x
}

#[inline(always)]
pub fn atan_lane(x: f64) -> f64 {
    // Beyond, the result is that of infinity.
    let a = choose(x.abs() > 1e20, 1e20, x.abs());
    let Turned { c, top, top_low, bottom, bottom_low } = turned(a, 1.0);
    let t = top / bottom;
    let low = (top_low - t * bottom_low) * reciprocal_estimate(bottom);
    let (sum, error) = two_sum(c * PI_2_HIGH, t);
    let y = sum + (atan_tail(t) + (error + low + c * PI_2_LOW));
    with_sign_of(x, y)
}

/// The angle of the point `(x, y)`, at most 1 unit in the last place off, for all `x` and `y`, as IEEE 754 defines it.
#[inline(always)]
pub fn atan2<const N: usize>(y: V<N>, x: V<N>) -> V<N> {
    let mut z = y;
    for (z, x) in z.0.iter_mut().zip(&x.0) {
        *z = atan2_lane(*z, *x);
    }
    z
}

#[inline(always)]
pub fn atan2_lane(y: f64, x: f64) -> f64 {
    let (a, b) = (y.abs(), x.abs());
    let largest = choose(a > b, a, b);
    // The quotient alone counts: an infinity is beyond all numbers, 0 / 0 is 0, and by 2^-30 or 2^600 sums and products stay in the range.
    let finite = |x: f64| choose(largest < f64::INFINITY, x, choose(x == f64::INFINITY, 1.0, 0.0));
    let (a, b) = (finite(a), finite(b));
    let b = choose(largest == 0.0, 1.0, b);
    let unit = choose(largest > 1e290, 9.313225746154785e-10, choose(largest < 1e-150, 4.149515568880993e180, 1.0));
    let (a, b) = (a * unit, b * unit);
    let Turned { c, top, top_low, bottom, bottom_low } = turned(a, b);
    let t = top / bottom;
    let (product, error) = two_product(t, bottom);
    let rest = ((top - product) - error) + (top_low - t * bottom_low);
    // Below the normal range the parts of the product are no longer exact.
    let rest = choose(product.abs() < 1e-280, 0.0, rest);
    let tail = atan_tail(t) + rest * reciprocal_estimate(bottom);
    // c pi / 2 + t + tail, which on the left is taken from pi.
    let left = x.is_sign_negative();
    let (whole, whole_low) = choose_pair(left, (PI_HIGH, PI_LOW), (0.0, 0.0));
    let (c, t, tail) = (choose(left, -c, c), choose(left, -t, t), choose(left, -tail, tail));
    let (sum, lost) = ordered_sum(whole, c * PI_2_HIGH);
    let (sum, error) = two_sum(sum, t);
    let angle = sum + (tail + ((lost + error) + (whole_low + c * PI_2_LOW)));
    choose(x.is_nan() || y.is_nan(), f64::NAN, with_sign_of(y, angle))
}

/// `asin(x) - x` for `|x| <= 1/2`, from the square of `x`.
#[inline(always)]
pub fn asin_tail(x: f64, z: f64) -> f64 {
    let w = z * z;
    let even = 0.16666666666666669
        + w * (0.04464285714635543
            + w * (0.02237217294214989
                + w * (0.013971212973552933
                    + w * (0.01032281435018578 + w * (0.01740087944269402 + w * 0.028757851367421566)))));
    let odd = 0.07499999999998433
        + w * (0.030381944138531247
            + w * (0.017352392720869973
                + w * (0.011479177415184906 + w * (0.005457506718640358 + w * -0.014851887071247204))));
    x * z * (even + z * odd)
}

/// `t` and `tail` with `asin(t) = t + tail`: for `a` itself up to 1/2, and beyond it for `sqrt((1 - a) / 2)`, of which the rounding is in
/// the tail. The arc sine of `a` is then `pi / 2` less twice that of `t`.
#[inline(always)]
pub fn asin_parts(a: f64) -> (f64, f64) {
    let far = a > 0.5;
    let half = 0.5 * (1.0 - a);
    let root = square_root(half);
    let (square, error) = two_product(root, root);
    let lost = ((half - square) - error) * (0.5 * reciprocal_estimate(root));
    let (t, low) = choose_pair(far, (root, lost), (a, 0.0));
    (t, asin_tail(t, choose(far, half, a * a)) + low)
}

/// Arc sine, at most 1 unit in the last place off, for `-1 <= x <= 1`; NaN for others.
#[inline]
pub fn asin<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = asin_lane(*x);
    }
    x
}

#[inline(always)]
pub fn asin_lane(x: f64) -> f64 {
    let a = x.abs();
    let (t, tail) = asin_parts(a);
    let (sum, error) = ordered_sum(PI_2_HIGH, -2.0 * t);
    let far = sum + (error + (PI_2_LOW - 2.0 * tail));
    with_sign_of(x, choose(a > 0.5, far, t + tail))
}

/// Arc cosine, at most 1 unit in the last place off, for `-1 <= x <= 1`; NaN for others.
#[inline]
pub fn acos<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = acos_lane(*x);
    }
    x
}

#[inline(always)]
pub fn acos_lane(x: f64) -> f64 {
    let a = x.abs();
    let (t, tail) = asin_parts(a);
    let (far, left) = (a > 0.5, x < 0.0);
    // pi / 2 - asin(x) near 0; beyond 2 asin(t), and pi - 2 asin(t) on the left.
    let (t, tail) = choose_pair(far, (2.0 * t, 2.0 * tail), (-t, -tail));
    let (t, tail) = choose_pair(left, (-t, -tail), (t, tail));
    let (whole, whole_low) = choose_pair(left, (PI_HIGH, PI_LOW), (0.0, 0.0));
    let (whole, whole_low) = choose_pair(far, (whole, whole_low), (PI_2_HIGH, PI_2_LOW));
    let (sum, error) = ordered_sum(whole, t);
    sum + (error + (whole_low + tail))
}

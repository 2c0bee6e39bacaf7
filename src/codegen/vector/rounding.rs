//! Numbers to integers, exactly: what is added to 2^52 has no fraction left, as the sum is rounded to the nearest integer, of two the even one.

use super::{V, choose, with_sign_of};

/// From here on all numbers are integers.
const INTEGERS: f64 = 4503599627370496.0;

/// The nearest integer, of two the even one; a zero has the sign of `x`.
#[inline(always)]
pub fn nearest<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = nearest_lane(*x);
    }
    x
}

#[inline(always)]
pub fn nearest_lane(x: f64) -> f64 {
    let a = x.abs();
    with_sign_of(x, choose(a < INTEGERS, (a + INTEGERS) - INTEGERS, a))
}

/// The largest integer that is not above `x`.
#[inline(always)]
pub fn floor<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = floor_lane(*x);
    }
    x
}

#[inline(always)]
pub fn floor_lane(x: f64) -> f64 {
    let y = nearest_lane(x);
    y - choose(y > x, 1.0, 0.0)
}

/// The smallest integer that is not below `x`; a zero has the sign of `x`.
#[inline(always)]
pub fn ceil<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = -floor_lane(-*x);
    }
    x
}

//! Square roots, which IEEE 754 rounds correctly, and cube roots.

use super::exponential::*;
use super::logarithm::*;
use super::square_root::*;
use super::{V, choose, round, with_sign_of};

/// Square root, correctly rounded, for `x >= 0`; NaN for others but for -0, which stays.
#[inline(always)]
pub fn sqrt<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = square_root(*x);
    }
    x
}

/// Cube root, at most 1 unit in the last place off, for all `x`.
#[inline(always)]
pub fn cbrt<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = cbrt_lane(*x);
    }
    x
}

#[inline(always)]
pub fn cbrt_lane(x: f64) -> f64 {
    let a = x.abs();
    // a = 2^(3 q + r) m with r = -1, 0, 1
    let (m, k) = split(a);
    let q = round(k * 0.3333333333333333);
    let r = k - 3.0 * q;
    let (two, root) = (choose(r > 0.5, 2.0, 1.0), choose(r > 0.5, 1.2599210498948732, 1.0));
    let (two, root) = (choose(r < -0.5, 0.5, two), choose(r < -0.5, 0.7937005259840998, root));
    // A guess within 2^-19, of which 17 bits are left, so that its cube is exact.
    let guess = (0.42330747432133364
        + m * (1.0479321140357474
            + m * (-0.8201597450464551
                + m * (0.49554107026423705 + m * (-0.172187742887452 + m * 0.02556621122702687)))))
        * root;
    let guess = f64::from_bits(guess.to_bits() & 0xfffffff000000000);
    let cube = guess * guess * guess;
    // The cube root of 1 + u is 1 + u / 3 - u^2 / 9 + 5 u^3 / 81 - ..
    let u = (two * m - cube) / cube;
    let more = u * (0.3333333333333333 - u * (0.1111111111111111 - u * 0.06172839506172839));
    let y = (guess + guess * more) * power_of_two(q);
    let y = choose(a == 0.0 || a == f64::INFINITY, a, y);
    with_sign_of(x, choose(a.is_nan(), a, y))
}

//! Sums of two numbers, the second below half a unit in the last place of the first, for twice the precision: T. J. Dekker, A
//! floating-point technique for extending the available precision, Numerische Mathematik 18 (1971).

use super::mul_add::*;

/// `a + b` as the rounded sum and its error.
#[inline(always)]
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let c = sum - a;
    (sum, (a - (sum - c)) + (b - c))
}

/// As [`two_sum`], where `a` is 0 or not smaller than `b`.
#[inline(always)]
pub fn ordered_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, (a - sum) + b)
}

/// `a * b` as the rounded product and its error.
#[inline(always)]
pub fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, mul_add(a, b, -product))
}

/// `1 / x` within 2 parts of 1000, for corrections: a guess from the bits of a positive `x`, and a step of Newton's method.
#[inline(always)]
pub fn reciprocal_estimate(x: f64) -> f64 {
    let guess = f64::from_bits(0x7fde623822fc16e6_u64.wrapping_sub(x.to_bits()));
    guess * (2.0 - x * guess)
}

//! The reduction of angles that are too large for products with parts of `pi / 2`.

use super::double::*;
use super::trigonometric::*;

/// The bits of `2 / pi` behind the point, after 64 zeros.
pub const TWO_OVER_PI: [u64; 21] = [
    0x0000000000000000,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
];

/// As [`reduce_angle`] for angles of 1 and more, by M. H. Payne and R. N. Hanek, Radian reduction for trigonometric functions,
/// SIGNUM Newsletter 18 (1983): an integer times those bits of `2 / pi` that decide the result.
#[inline(never)]
pub fn reduce_large_angle(x: f64) -> (f64, f64, u64) {
    let bits = x.to_bits();
    let exponent = (bits >> 52) & 0x7ff;
    if exponent == 0x7ff {
        return (f64::NAN, f64::NAN, 0);
    }
    // |x| = m 2^(exponent - 1075). The bits of 2 / pi whose product with the last bit of m is 4 or more do not count.
    let m = u128::from((bits & 0x000fffffffffffff) | 0x0010000000000000);
    let first = exponent.saturating_sub(1075 + 2 - 64) as usize;
    let word = |k: usize| u128::from(TWO_OVER_PI.get(first / 64 + k).copied().unwrap_or(0));
    let window = |k: usize| (((word(k) << 64 | word(k + 1)) << (first % 64)) >> 64) & 0xffffffffffffffff;
    // The last 192 bits of the product: 2 before the point.
    let low = m * window(2);
    let middle = m * window(1) + (low >> 64);
    let high = (m * window(0) + (middle >> 64)) & 0xffffffffffffffff;
    let quadrant = (high >> 62) as u64;
    let fraction = (high << 66) | ((middle & 0xffffffffffffffff) << 2) | ((low >> 62) & 3);
    let rest = (low << 2) as u64;
    // To the nearest: of more than half the complement is taken.
    let up = fraction >> 127 == 1;
    let (fraction, rest) = if up { (!fraction, !rest) } else { (fraction, rest) };
    let zeros = fraction.leading_zeros();
    let fraction = fraction.wrapping_shl(zeros) | u128::from(rest).wrapping_shl(zeros) >> 64;
    let (high, low) = ((fraction >> 75) as f64, ((fraction >> 22) & 0x1fffffffffffff) as f64);
    // 2^-(53 + zeros)
    let unit = f64::from_bits(u64::from(970_u32.wrapping_sub(zeros)) << 52);
    let low = low * 1.1102230246251565e-16;
    let (product, error) = two_product(high, PI_2_HIGH);
    let (h, l) = ordered_sum(product, error + (high * PI_2_LOW + low * PI_2_HIGH));
    let unit = if up == x.is_sign_negative() { unit } else { -unit };
    let n = quadrant.wrapping_add(u64::from(up));
    (h * unit, l * unit, if x.is_sign_negative() { n.wrapping_neg() } else { n })
}

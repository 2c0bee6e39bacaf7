//! Arithmetic of integers that several layers need.

/// The greatest common divisor of magnitudes; 0 for none but zeros.
///
/// Operations on 128 bits are slow, so it goes on in 64 as soon as both numbers fit.
pub fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = match (u64::try_from(a), u64::try_from(b)) {
            (Ok(a), Ok(b)) => (u128::from(b), u128::from(a % b)),
            _ => (b, a % b),
        };
    }
    a
}

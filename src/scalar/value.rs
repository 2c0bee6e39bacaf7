//! Values of the scalar functions that no library gives as we define them.

/// `a^k` by repeated squaring, lowest bit of `k` first; `1 / a^|k|` for negative `k`. This order of multiplications is the
/// definition: `f64::powi` gives other bits on other platforms.
pub(super) fn powi(a: f64, k: i32) -> f64 {
    let power = powu(a, k.unsigned_abs(), |a, b| a * b, 1.0);
    if k < 0 { 1.0 / power } else { power }
}

/// `a^k` in any ring. No square is taken that is not used, so nothing overflows that the power does not need.
pub(super) fn powu<T: Copy>(a: T, mut k: u32, mul: impl Fn(T, T) -> T, one: T) -> T {
    let (mut power, mut square) = (one, a);
    loop {
        if k & 1 == 1 {
            power = mul(power, square);
        }
        k >>= 1;
        if k == 0 {
            return power;
        }
        square = mul(square, square);
    }
}

/// The smaller; the first where equal; NaN where either is.
pub(super) fn min(a: f64, b: f64) -> f64 {
    if a <= b || a.is_nan() { a } else { b }
}

/// The larger; the first where equal; NaN where either is.
pub(super) fn max(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

/// `-1`, `0` or `1`; zeros keep their sign, NaN stays.
pub(super) fn sign(a: f64) -> f64 {
    if a > 0.0 {
        1.0
    } else if a < 0.0 {
        -1.0
    } else {
        a
    }
}

/// `1 / (1 + e^-a)`. The exponential never overflows, and the result is accurate also where it is tiny.
pub(super) fn sigmoid(a: f64) -> f64 {
    if a > 0.0 {
        1.0 / (1.0 + libm::exp(-a))
    } else {
        let e = libm::exp(a);
        e / (1.0 + e)
    }
}

/// `ln(1 + e^a)`. The exponential never overflows, and the result is accurate also where it is tiny.
pub(super) fn softplus(a: f64) -> f64 {
    if a > 0.0 { a + libm::log1p(libm::exp(-a)) } else { libm::log1p(libm::exp(a)) }
}

/// `a * ln(b)`, and 0 where `a` is 0, whatever `b` is.
pub(super) fn xlogy(a: f64, b: f64) -> f64 {
    if a == 0.0 { 0.0 } else { a * libm::log(b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powi_is_exact_on_integers() {
        for a in -9..=9_i64 {
            for k in 0..=15 {
                assert_eq!(powi(a as f64, k), a.pow(k as u32) as f64, "{a}^{k}");
            }
        }
        assert_eq!(powi(2.0, -3), 0.125);
        assert_eq!(powi(-2.0, 1023), -2.0_f64.powi(1023));
        assert_eq!(powi(-1.0, i32::MIN), 1.0);
        assert_eq!(powi(-1.0, i32::MAX), -1.0);
        // A square taken one time too often would overflow.
        assert_eq!(powi(1e154, 2), 1e154 * 1e154);
        assert_eq!(powi(1e200, 1), 1e200);
    }

    #[test]
    fn sigmoid_and_softplus_hold_their_precision_at_both_ends() {
        // Reference values by mpmath with 50 digits.
        let cases = [
            (-745.0, 5e-324, 5e-324),
            (-700.0, 9.85967654375977e-305, 9.85967654375977e-305),
            (-37.0, 8.533047625744065e-17, 8.533047625744065e-17),
            (-1.0, 0.2689414213699951, 0.31326168751822286),
            (0.0, 0.5, std::f64::consts::LN_2),
            (1e-17, 0.5, std::f64::consts::LN_2),
            (1.0, 0.7310585786300049, 1.3132616875182228),
            (37.0, 1.0, 37.0),
            (800.0, 1.0, 800.0),
            (-800.0, 0.0, 0.0),
            (f64::MAX, 1.0, f64::MAX),
        ];
        for (a, y, s) in cases {
            assert!((sigmoid(a) - y).abs() <= 4.0 * f64::EPSILON * y, "sigmoid({a}) = {} and not {y}", sigmoid(a));
            assert!((softplus(a) - s).abs() <= 4.0 * f64::EPSILON * s, "softplus({a}) = {} and not {s}", softplus(a));
        }
    }
}

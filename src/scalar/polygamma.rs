//! The polygamma functions: digamma, trigamma and all higher derivatives of `lgamma`.
//!
//! `psi_0(x)` is moved up by `psi_0(x) = psi_0(x + 1) - 1/x` until its asymptotic series holds, and negative arguments are
//! reflected: `psi_0(x) = psi_0(1 - x) - pi / tan(pi x)`.
//!
//! For `k >= 1`, `psi_k(x) = (-1)^(k+1) k! S(x)` with `s = k + 1` and `S(x) = sum_{j >= 0} (x + j)^-s`. For `x > 0` this is the
//! Hurwitz zeta function, by Euler-Maclaurin summation. For `x < 0` with `r` the distance to the nearest integer
//! `S(x) = sum_{j in Z} (r + j)^-s - sum_{j >= 1} (x - j)^-s`, three zeta functions of positive arguments.
//!
//! The relative error is about 1e-14 for small `k` away from zeros of the function, and grows in proportion to `k`, as the condition
//! of the problem does. Poles are 0 and the negative integers: for odd `k` the value there is `inf`; for even `k` it is the limit
//! from the side of the sign of zero at 0, and NaN at negative integers.

use std::f64::consts::PI;

/// `B_2j / (2j)` for `j = 1..=8`.
const DIGAMMA_SERIES: [f64; 8] =
    [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32_760.0, 1.0 / 12.0, -3617.0 / 8160.0];

/// `B_2j / (2j)!` for `j = 1..=12`.
const ZETA_SERIES: [f64; 12] = [
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-5,
    -8.267195767195768e-7,
    2.08767569878681e-8,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
];

/// `psi_k(x)`, the derivative of order `k + 1` of `ln |gamma(x)|`.
pub(super) fn polygamma(k: u32, x: f64) -> f64 {
    let odd = k % 2 == 1;
    if x == 0.0 || (x < 0.0 && x.fract() == 0.0) {
        return match (odd, x == 0.0) {
            (true, _) => f64::INFINITY,
            (false, true) => f64::INFINITY.copysign(-x),
            (false, false) => f64::NAN,
        };
    }
    if k == 0 {
        return digamma(x);
    }
    let s = f64::from(k) + 1.0;
    let value = if x < 0.0 {
        let r = x - libm::round(x);
        let sign = if odd { 1.0 } else { -1.0 };
        let all = libm::pow(r, -s) + zeta(s, 1.0 + r) + sign * zeta(s, 1.0 - r);
        factorial(k) * (all - sign * zeta(s, 1.0 - x))
    } else if x >= 1e17 * s {
        // The first term of the asymptotic series, also where `x^-(k + 1)` underflows.
        factorial_over_power(k - 1, x)
    } else {
        factorial_over_power(k, x) * scaled_zeta(s, x)
    };
    if odd { value } else { -value }
}

fn digamma(x: f64) -> f64 {
    if x < 0.0 {
        // `x` minus the nearest integer is exact, and the tangent has period 1 in it.
        let r = x - libm::round(x);
        return digamma(1.0 - x) - PI / libm::tan(PI * r);
    }
    let (mut z, mut shift) = (x, 0.0);
    while z < 10.0 {
        shift += 1.0 / z;
        z += 1.0;
    }
    let w = 1.0 / (z * z);
    let series = DIGAMMA_SERIES.iter().rev().fold(0.0, |sum, b| w * (b + sum));
    libm::log(z) - 0.5 / z - series - shift
}

/// The Hurwitz zeta function `sum_{j >= 0} (x + j)^-s` for `x > 0`, `s >= 2`.
fn zeta(s: f64, x: f64) -> f64 {
    libm::pow(x, -s) * scaled_zeta(s, x)
}

/// `x^s * zeta(s, x)`: of moderate size also where `zeta` is not.
fn scaled_zeta(s: f64, x: f64) -> f64 {
    if x == f64::INFINITY {
        // The limit of `x^s zeta(s, x)` is infinite, and only ever multiplied by a power of `1 / x` that wins.
        return 1.0;
    }
    let (mut z, mut sum) = (x, 0.0);
    // The loop ends after some hundred steps at most: for large `s` the terms fall below the last bit first.
    while z < s + 10.0 {
        let term = libm::pow(x / z, s);
        sum += term;
        if term < 1e-20 {
            return sum;
        }
        z += 1.0;
    }
    // Euler-Maclaurin from z on, in units of z^-s:
    // z / (s - 1) + 1/2 + sum_j B_2j / (2j)! * s (s + 1) .. (s + 2j - 2) / z^(2j - 1)
    let mut tail = z / (s - 1.0) + 0.5;
    let mut rising = s / z;
    let mut m = s;
    for b in ZETA_SERIES {
        tail += b * rising;
        rising *= (m + 1.0) / z * ((m + 2.0) / z);
        m += 2.0;
    }
    sum + libm::pow(x / z, s) * tail
}

/// `k!`, infinite from 171 on.
fn factorial(k: u32) -> f64 {
    if k > 170 { f64::INFINITY } else { (2..=k).fold(1.0, |product, m| product * f64::from(m)) }
}

/// `k! / x^(k + 1)` for `x > 0`, by logarithms where a part of it leaves the range of normal numbers.
fn factorial_over_power(k: u32, x: f64) -> f64 {
    let s = f64::from(k) + 1.0;
    let (product, power) = (factorial(k), libm::pow(x, s));
    if product.is_finite() && power.is_normal() {
        return product / power;
    }
    libm::exp(libm::lgamma(s) - s * libm::log(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_values() {
        // By mpmath with 40 digits.
        let cases: &[(u32, f64, f64)] = &[
            (0, 0.001, -1000.5755719318103),
            (0, 0.5, -1.9635100260214235),
            (0, 1.0, -0.5772156649015329),
            (0, 1.25, -0.22745353337626542),
            (0, 2.0, 0.42278433509846713),
            (0, 3.7, 1.1671535393615113),
            (0, 9.99, 2.250700372831201),
            (0, 10.5, 2.3030010342976865),
            (0, 100.0, 4.600161852738087),
            (0, 1e10, 23.025850929890456),
            (0, -0.25, 2.9141391202135276),
            (0, -1.75, -2.322691628614361),
            (0, -10.3, 4.662403493582087),
            (0, -1e-5, 99999.42276788563),
            (0, -1000.25, 10.050097693066705),
            (1, 0.001, 1000001.6425331958),
            (1, 0.5, 4.934802200544679),
            (1, 1.0, 1.6449340668482264),
            (1, 2.0, 0.6449340668482264),
            (1, 3.7, 0.3100378576700383),
            (1, 9.99, 0.10527695014824179),
            (1, 50.0, 0.020201333226697125),
            (1, 1e8, 1.000000005e-8),
            (1, 1e300, 1e-300),
            (2, 1e150, -1e-300),
            (3, 1e90, 2e-270),
            (1, -0.5, 8.934802200544679),
            (1, -1.75, 19.301637544529786),
            (1, -10.3, 14.986887065722637),
            (1, -1e-5, 10000000001.644957),
            (1, -1000.25, 19.738209551699786),
            (2, 0.5, -16.82879664423432),
            (2, 1.0, -2.4041138063191885),
            (2, 2.0, -0.4041138063191886),
            (2, 3.7, -0.09539530872855403),
            (2, 15.0, -0.004750602716551555),
            (2, -1.75, -124.21382135423057),
            (2, -0.3, 67.63908119988317),
            (3, 0.5, 97.40909103400244),
            (3, 1.0, 6.493939402266829),
            (3, 3.7, 0.058279217956563614),
            (3, 15.0, 0.0006544797782827373),
            (3, -1.75, 1558.3848404165494),
            (3, -0.3, 766.6198904191685),
            (5, 0.1, 120000069.30751093),
            (5, 1.0, 122.0811674381339),
            (5, 7.5, 0.0013927076560043099),
            (5, 40.0, 2.4938943509996704e-7),
            (5, -2.3, 165660.05361165272),
            (10, 1.0, -3630593.311606629),
            (10, 7.5, -0.0011745315735894313),
            (10, 40.0, -3.9130747998980846e-11),
            (100, 1.0, -9.332621544394415e157),
            (100, 30.0, -626546063.6686132),
            (100, 200.0, -9.356913302040697e-75),
            (300, 1000.0, -1.1808857237757736e-288),
            (300, 100.0, -3222042538708.512),
        ];
        for &(k, x, expected) in cases {
            let error = (polygamma(k, x) - expected).abs() / expected.abs();
            // Beyond 170 the factorial is a logarithm.
            let tolerance = if k > 170 { 1e-12 } else { 1e-14 * f64::from(k / 10 + 1) };
            assert!(error <= tolerance, "psi_{k}({x}) = {} and not {expected}: {error:e}", polygamma(k, x));
        }
    }

    #[test]
    fn special_values() {
        let inf = f64::INFINITY;
        for (k, x, expected) in [
            (0, 0.0, -inf),
            (0, -0.0, inf),
            (1, 0.0, inf),
            (1, -0.0, inf),
            (2, 0.0, -inf),
            (2, -0.0, inf),
            (0, -3.0, f64::NAN),
            (1, -3.0, inf),
            (2, -3.0, f64::NAN),
            (0, inf, inf),
            (1, inf, 0.0),
            (2, inf, -0.0),
            (0, -inf, f64::NAN),
            (1, -inf, f64::NAN),
            (2, -inf, f64::NAN),
            (0, 5e-324, -inf),
            (0, 1e308, 709.1962086421661),
            (0, f64::NAN, f64::NAN),
            (1, f64::NAN, f64::NAN),
            (u32::MAX, 1.0, inf),
            (u32::MAX, 1e300, 0.0),
            (u32::MAX, -0.75, inf),
            (u32::MAX - 1, 1.0, -inf),
        ] {
            let value = polygamma(k, x);
            assert!(
                value.to_bits() == expected.to_bits() || (value.is_nan() && expected.is_nan()),
                "psi_{k}({x}) = {value}"
            );
        }
    }
}

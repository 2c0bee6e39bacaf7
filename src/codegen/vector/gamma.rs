//! The logarithm of the gamma function, and its first two derivatives: asymptotic series from 8 on, to which the second derivative reduces all
//! smaller arguments by `gamma(x + 1) = x gamma(x)`; for the others rational functions from 1 to 3, to which those below 8 are reduced; and
//! reflection of negative arguments.

use super::double::*;
use super::inverse_trigonometric::*;
use super::logarithm::*;
use super::trigonometric::*;
use super::{V, choose, choose_pair};

/// `x - n` for the nearest integer `n`, for `x >= 0`.
#[inline(always)]
pub fn from_nearest_integer(x: f64) -> f64 {
    let n = (x + 4503599627370496.0) - 4503599627370496.0;
    choose(x < 4503599627370496.0, x - n, 0.0)
}

/// The sine and the cosine of `pi x` for `0 <= x <= 1/2`, each a sum.
#[inline(always)]
pub fn sin_cos_of_pi(x: f64) -> ((f64, f64), (f64, f64)) {
    let near = x < 0.25;
    let t = choose(near, x, 0.5 - x);
    let (h, error) = two_product(t, PI_HIGH);
    let l = error + t * PI_LOW;
    let sine = ordered_sum(h, sin_tail(h, l));
    let (first, rest) = cos_terms(h, l);
    let cosine = ordered_sum(first, rest);
    (choose_pair(near, sine, cosine), choose_pair(near, cosine, sine))
}

/// `ln(gamma(|a|))`.
#[inline(always)]
pub fn lgamma_of_positive(a: f64) -> f64 {
    let a = a.abs();
    let (small, large) = (a < 1.0, a >= 8.0);
    // With a = b + j and 2 < b <= 3 the gamma function of a is (a - 1) .. (a - j) times that of b.
    let step = |(product, b): (f64, f64), factor: f64| {
        let counts = factor > 2.0;
        (product * choose(counts, factor, 1.0), choose(counts, factor, b))
    };
    let (product, b) = step(step(step(step(step((1.0, a), a - 1.0), a - 2.0), a - 3.0), a - 4.0), a - 5.0);
    // ln(gamma(1 + v)) = v (v - 1) (7/16 + P(v) / Q(v)) for 0 <= v <= 2: most of the value is exact
    let v = choose(small, a, b - 1.0);
    let top = 0.13971566490153284
        + v * (0.21528402576366015
            + v * (-0.05449954668212295
                + v * (-0.26321672329514956
                    + v * (-0.17190295993774785
                        + v * (-0.04475574127121119
                            + v * (-0.004675528133142054
                                + v * (-0.00014651172015056602 + v * -3.4387534246231254e-08)))))));
    let bottom = 1.0
        + v * (3.2962330645658335
            + v * (4.283498617926743
                + v * (2.7922148253073
                    + v * (0.961953097690663
                        + v * (0.1693844804533058 + v * (0.013462840310043222 + v * 0.00034666036878764635))))));
    let base = v * (v - 1.0) * (0.4375 + top / bottom);
    let (h, l) = ln_parts(choose(small || large, a, product));
    // Stirling's series: (a - 1/2) (ln(a) - 1) + (ln(2 pi) - 1) / 2 + S(1 / a^2) / a
    let i = 1.0 / a;
    let z = i * i;
    let series = 0.08333333333333333
        + z * (-0.002777777777773988
            + z * (0.0007936507897524059
                + z * (-0.0005952365845057049
                    + z * (0.0008414700852503147 + z * (-0.001890382993887715 + z * 0.005065905360156132)))));
    let (less, lost) = ordered_sum(h, -1.0);
    let (p, error) = two_product(a - 0.5, less);
    let (sum, other) = ordered_sum(p, 0.4189385332046727);
    let stirling = sum + ((error + other + (a - 0.5) * (lost + l)) + i * series);
    let stirling = choose(p < f64::INFINITY, stirling, p);
    let (h, l) = choose_pair(small, (-h, -l), choose_pair(a <= 3.0, (0.0, 0.0), (h, l)));
    let y = choose(large, stirling, h + (base + l));
    let y = choose(a == 0.0, f64::INFINITY, y);
    choose(a.is_nan(), a, y)
}

/// `ln |gamma(x)|`: for positive `x` at most 3 units in the last place off; for negative `x` at most 3 units in the last place of the
/// largest of `|lgamma(x)|`, `|lgamma(-x)|` and 1, since zeros lie between floats. Infinite at the poles.
#[inline]
pub fn lgamma<const N: usize>(x: V<N>) -> V<N> {
    let mut y = x;
    for y in &mut y.0 {
        *y = lgamma_of_positive(*y);
    }
    if x.any(|x| x < 0.0) {
        for (y, x) in y.0.iter_mut().zip(&x.0) {
            *y = lgamma_reflected(*x, *y);
        }
    }
    y
}

/// `lgamma(x)`, given that of `|x|`.
#[inline(always)]
pub fn lgamma_reflected(x: f64, y: f64) -> f64 {
    // gamma(a) gamma(-a) = -pi / (a sin(pi a))
    let a = x.abs();
    let ((sine, _), _) = sin_cos_of_pi(from_nearest_integer(a).abs());
    let (h, l) = ln_parts(PI_HIGH / (a * sine));
    let reflected = choose(sine == 0.0, f64::INFINITY, (h - y) + l);
    // So small that there is no difference.
    choose(x < -1e-17, reflected, y)
}

/// `digamma(|a|)`.
#[inline(always)]
pub fn digamma_of_positive(a: f64) -> f64 {
    let a = a.abs();
    let (small, large) = (a < 1.0, a >= 8.0);
    // With a = b + j and 2 < b <= 3 the value at a is that at b and 1 / (a - 1) + .. + 1 / (a - j).
    let step = |(top, bottom, b): (f64, f64, f64), term: f64| {
        let counts = term > 2.0;
        let top = choose(counts, top * term + bottom, top);
        (top, bottom * choose(counts, term, 1.0), choose(counts, term, b))
    };
    let (top, bottom, b) = step(step(step(step(step((0.0, 1.0, a), a - 1.0), a - 2.0), a - 3.0), a - 4.0), a - 5.0);
    let q = choose(small || large, 1.0, top) / choose(small || large, a, bottom);
    // digamma(1 + v) = (v - r) (7/8 + P(v) / Q(v)) for 0 <= v <= 2, where 1 + r is the zero
    let v = choose(small, a, b - 1.0);
    let top = 0.3753801375034053
        + v * (-0.027733783294233663
            + v * (-0.48589639763666365
                + v * (-0.2956382451072402
                    + v * (-0.06599382668268812
                        + v * (-0.005797197143475156 + v * (-0.000154418114909547 + v * -1.578585859621291e-08))))));
    let bottom = 1.0
        + v * (2.2029923661052755
            + v * (1.7169749127558187
                + v * (0.6092694909208878
                    + v * (0.10266883844857362 + v * (0.007561224327355051 + v * 0.00017933601981804436)))));
    let base = ((v - 0.46163214496836236) + 1.5522348162858677e-17) * (0.875 + top / bottom);
    // ln(a) - 1 / (2 a) - S(1 / a^2) / a^2
    let z = q * q;
    let series = 0.08333333333333333
        + z * (-0.008333333333278636
            + z * (0.0039682539119537084
                + z * (-0.0041666448230497
                    + z * (0.007571689620283902 + z * (-0.020697987372370493 + z * 0.06362150587634356)))));
    let asymptotic = ln_of_positive(a) - (0.5 * q + z * series);
    let y = choose(large, asymptotic, base + choose(small, -q, q));
    choose(a < f64::INFINITY, y, a)
}

/// The logarithmic derivative of the gamma function: for positive `x` at most 3.5 units in the last place off; for negative `x` at most 5
/// units in the last place of the largest of `|digamma(x)|`, `|digamma(-x)|` and 1, since zeros lie between floats. At 0 infinite with
/// the sign opposite to that of the zero; NaN at the other poles.
#[inline]
pub fn digamma<const N: usize>(x: V<N>) -> V<N> {
    let mut y = x;
    for y in &mut y.0 {
        *y = digamma_of_positive(*y);
    }
    if x.any(f64::is_sign_negative) {
        for (y, x) in y.0.iter_mut().zip(&x.0) {
            *y = digamma_reflected(*x, *y);
        }
    }
    y
}

/// `digamma(x)`, given that of `|x|`.
#[inline(always)]
pub fn digamma_reflected(x: f64, y: f64) -> f64 {
    // digamma(-a) = digamma(a) + 1 / a + pi / tan(pi a)
    let a = x.abs();
    let r = from_nearest_integer(a);
    let ((sine, sine_low), (cosine, cosine_low)) = sin_cos_of_pi(r.abs());
    let q = cosine / sine;
    let low = (cosine_low - q * sine_low) * reciprocal_estimate(sine);
    let q = PI_HIGH * q + (PI_HIGH * low + PI_LOW * q);
    let reflected = (y + 1.0 / a) + choose(r < 0.0, -q, q);
    let reflected = choose(sine == 0.0, f64::NAN, reflected);
    // So small that the result is that of the pole at 0.
    let reflected = choose(a < 1e-17, 1.0 / a, reflected);
    choose(x.is_sign_negative(), reflected, y)
}

/// `1 / a^2` and `trigamma(a + 1)`, which add up to `trigamma(a)`, for positive `a` below 8; beyond, 0 and `trigamma(a)`.
#[inline(always)]
pub fn trigamma_parts(a: f64) -> (f64, f64) {
    let small = a < 8.0;
    // Below 8 the value at a is that at a + 8 and 1 / a^2 + .. + 1 / (a + 7)^2, of which all but the first are one quotient.
    let near = choose(small, a, 0.0);
    let step = |(top, bottom): (f64, f64), j: f64| {
        let square = (near + j) * (near + j);
        (top * square + bottom, bottom * square)
    };
    let first = (near + 1.0) * (near + 1.0);
    let (top, bottom) = step(step(step(step(step(step((1.0, first), 2.0), 3.0), 4.0), 5.0), 6.0), 7.0);
    // 1 / z + 1 / (2 z^2) + S(1 / z^2) / z^3
    let i = 1.0 / choose(small, a + 8.0, a);
    let z = i * i;
    let series = 0.16666666666666655
        + z * (-0.03333333333249287
            + z * (0.023809522943893217
                + z * (-0.03333299706371194
                    + z * (0.07569481310235808 + z * (-0.24699740954161503 + z * 0.8586880107331691)))));
    let far = i + z * (0.5 + i * series);
    let inverse = 1.0 / a;
    choose_pair(small, (inverse * inverse, top / bottom + far), (0.0, far))
}

/// `trigamma(|a|)`.
#[inline(always)]
pub fn trigamma_of_positive(a: f64) -> f64 {
    let (first, rest) = trigamma_parts(a.abs());
    first + rest
}

/// The derivative of [`digamma`], at most 4 units in the last place off, for all `x`. Infinite at the poles, NaN at minus infinity.
#[inline]
pub fn trigamma<const N: usize>(x: V<N>) -> V<N> {
    let mut y = x;
    for y in &mut y.0 {
        *y = trigamma_of_positive(*y);
    }
    if x.any(|x| x < 0.0) {
        for (y, x) in y.0.iter_mut().zip(&x.0) {
            *y = trigamma_reflected(*x, *y);
        }
    }
    y
}

/// `trigamma(x)`, given that of `|x|`.
#[inline(always)]
pub fn trigamma_reflected(x: f64, y: f64) -> f64 {
    // trigamma(-a) + trigamma(a + 1) = (pi / sin(pi a))^2, and trigamma(a + 1) = trigamma(a) - 1 / a^2
    let a = x.abs();
    let (_, rest) = trigamma_parts(a);
    let ((sine, sine_low), _) = sin_cos_of_pi(from_nearest_integer(a).abs());
    let q = PI_HIGH / sine;
    let (product, error) = two_product(q, sine);
    let low = (((PI_HIGH - product) - error) + (PI_LOW - q * sine_low)) * reciprocal_estimate(sine);
    let (square, error) = two_product(q, q);
    let inverse = 1.0 / a;
    let rest = choose(a < 8.0, rest, rest - inverse * inverse);
    let reflected = square + ((error + 2.0 * q * low) - rest);
    let reflected = choose(sine == 0.0, f64::INFINITY, reflected);
    // So small that the pole at 0 decides.
    let reflected = choose(a < 1e-17, inverse * inverse, reflected);
    let reflected = choose(a < f64::INFINITY, reflected, f64::NAN);
    choose(x < 0.0, reflected, y)
}

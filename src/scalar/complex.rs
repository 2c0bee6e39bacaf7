//! The scalar functions over the complex numbers, to check derivatives by complex steps: `f'(x) = Im f(x + ih) / h` with a tiny
//! `h`, without cancellation.
//!
//! The formulas owe nothing to the partial derivatives of the operator table, and keep the relative precision of a tiny imaginary
//! part. Functions that are not analytic decide by real parts. Where the real function is not defined, values mean nothing.

use num_complex::Complex64;

use super::value;

fn c(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

/// `a / b` by Smith's method, which does not overflow where the quotient does not.
pub(super) fn div(a: Complex64, b: Complex64) -> Complex64 {
    if b.re.abs() >= b.im.abs() {
        let ratio = b.im / b.re;
        let scale = b.re + b.im * ratio;
        c((a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale)
    } else {
        let ratio = b.re / b.im;
        let scale = b.re * ratio + b.im;
        c((a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale)
    }
}

pub(super) fn powi(a: Complex64, k: i32) -> Complex64 {
    let power = value::powu(a, k.unsigned_abs(), |a, b| a * b, c(1.0, 0.0));
    if k < 0 { div(c(1.0, 0.0), power) } else { power }
}

/// `e^(b ln a)`; a product for a real integer `b`, where `ln a` may have no value, or one on another branch.
pub(super) fn pow(a: Complex64, b: Complex64) -> Complex64 {
    let whole = b.re as i32;
    if b.im == 0.0 && f64::from(whole) == b.re {
        return powi(a, whole);
    }
    if a == c(0.0, 0.0) {
        // d/db a^b = a^b ln a, with 0 ln 0 = 0.
        let power = libm::pow(a.re, b.re);
        return c(power, if b.im == 0.0 { 0.0 } else { b.im * value::xlogy(power, a.re) });
    }
    exp(b * ln(a))
}

pub(super) fn exp(a: Complex64) -> Complex64 {
    let (sin, cos) = a.im.sin_cos();
    c(a.re.exp() * cos, a.re.exp() * sin)
}

pub(super) fn ln(a: Complex64) -> Complex64 {
    c(a.re.hypot(a.im).ln(), a.im.atan2(a.re))
}

/// `ln(1 + a)`, where `|1 + a|^2 = 1 + a.re (2 + a.re) + a.im^2`.
pub(super) fn log1p(a: Complex64) -> Complex64 {
    c(0.5 * (a.re * (2.0 + a.re) + a.im * a.im).ln_1p(), a.im.atan2(1.0 + a.re))
}

/// `e^a - 1`, where `cos(y) - 1 = -2 sin(y/2)^2`.
pub(super) fn expm1(a: Complex64) -> Complex64 {
    let half = (0.5 * a.im).sin();
    c(a.re.exp_m1() * a.im.cos() - 2.0 * half * half, a.re.exp() * a.im.sin())
}

/// `r + i y / (2 r)` with the real part `r` of the root.
pub(super) fn sqrt(a: Complex64) -> Complex64 {
    let re = (0.5 * (a.re.hypot(a.im) + a.re)).sqrt();
    c(re, a.im / (2.0 * re))
}

pub(super) fn sin(a: Complex64) -> Complex64 {
    c(a.re.sin() * a.im.cosh(), a.re.cos() * a.im.sinh())
}

pub(super) fn cos(a: Complex64) -> Complex64 {
    c(a.re.cos() * a.im.cosh(), -(a.re.sin() * a.im.sinh()))
}

pub(super) fn tan(a: Complex64) -> Complex64 {
    div(sin(a), cos(a))
}

/// `1 - 2 / (e^(2a) + 1)`, mirrored for negative real parts.
pub(super) fn tanh(a: Complex64) -> Complex64 {
    if a.re < 0.0 {
        return -tanh(-a);
    }
    let e = exp(-2.0 * a);
    div(-expm1(-2.0 * a), 1.0 + e)
}

pub(super) fn sinh(a: Complex64) -> Complex64 {
    c(a.re.sinh() * a.im.cos(), a.re.cosh() * a.im.sin())
}

pub(super) fn cosh(a: Complex64) -> Complex64 {
    c(a.re.cosh() * a.im.cos(), a.re.sinh() * a.im.sin())
}

/// Kahan's formulas by `sqrt(1 - a)` and `sqrt(1 + a)`, in which nothing cancels.
pub(super) fn asin(a: Complex64) -> Complex64 {
    let (p, q) = (sqrt(1.0 - a), sqrt(1.0 + a));
    c(a.re.atan2((p * q).re), (p.re * q.im - p.im * q.re).asinh())
}

pub(super) fn acos(a: Complex64) -> Complex64 {
    let (p, q) = (sqrt(1.0 - a), sqrt(1.0 + a));
    c(2.0 * p.re.atan2(q.re), (q.re * p.im - q.im * p.re).asinh())
}

/// The root next to the real one.
pub(super) fn cbrt(a: Complex64) -> Complex64 {
    if a.re < 0.0 { -cbrt(-a) } else { exp(ln(a) / 3.0) }
}

/// `atan2(2x, 1 - x^2 - y^2) / 2 + i/4 ln((x^2 + (1 + y)^2) / (x^2 + (1 - y)^2))` for `a = x + iy`.
pub(super) fn atan(a: Complex64) -> Complex64 {
    let (x, y) = (a.re, a.im);
    c(0.5 * (2.0 * x).atan2(1.0 - x * x - y * y), 0.25 * (4.0 * y / (x * x + (1.0 - y) * (1.0 - y))).ln_1p())
}

/// The angle of the real parts, and what remains after a rotation by it.
pub(super) fn atan2(a: Complex64, b: Complex64) -> Complex64 {
    atan(div(a * b.re - b * a.re, b * b.re + a * a.re)) + a.re.atan2(b.re)
}

pub(super) fn sigmoid(a: Complex64) -> Complex64 {
    if a.re > 0.0 {
        div(c(1.0, 0.0), 1.0 + exp(-a))
    } else {
        let e = exp(a);
        div(e, 1.0 + e)
    }
}

pub(super) fn softplus(a: Complex64) -> Complex64 {
    if a.re > 0.0 { a + log1p(exp(-a)) } else { log1p(exp(a)) }
}

pub(super) fn xlogy(a: Complex64, b: Complex64) -> Complex64 {
    if a == c(0.0, 0.0) { a } else { a * ln(b) }
}

/// `a` or `b`, whichever the real function gives for the real parts.
pub(super) fn choose(a: Complex64, b: Complex64, function: fn(f64, f64) -> f64) -> Complex64 {
    if function(a.re, b.re).to_bits() == a.re.to_bits() { a } else { b }
}

/// A piecewise constant function of the real part.
pub(super) fn constant(x: f64) -> Complex64 {
    c(x, 0.0)
}

/// `a` or `-a`, by the real part.
pub(super) fn abs(a: Complex64) -> Complex64 {
    if a.re < 0.0 { -a } else { a }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex64;

    use crate::scalar::{Op, complex};

    #[test]
    fn values_off_the_real_axis() {
        let a = Complex64::new(0.75, 0.5);
        let b = Complex64::new(1.25, -0.25);
        // Real and imaginary parts by mpmath with 30 digits.
        let cases: &[(Op, &[Complex64], f64, f64)] = &[
            (Op::Div, &[a, b], 0.5, 0.5),
            (Op::Powi(5), &[a], -0.5830078125, 0.119140625),
            (Op::Powi(-2), &[a], 0.47337278106508873, -1.136094674556213),
            (Op::Pow, &[a, b], 0.7367583182088244, 0.7015979079075899),
            (Op::Exp, &[a], 1.8578422981009126, 1.0149438731896383),
            (Op::Ln, &[a], -0.10381968238912224, 0.5880026035475675),
            (Op::Log1p, &[a], 0.5988515956561703, 0.27829965900511133),
            (Op::Expm1, &[a], 0.8578422981009126, 1.0149438731896383),
            (Op::Sqrt, &[a], 0.9086770105119854, 0.27512526135016874),
            (Op::Sin, &[a], 0.7686335646933927, 0.3812796346521781),
            (Op::Cos, &[a], 0.8250713669946073, -0.35519875789073846),
            (Op::Sinh, &[a], 0.7216508242975645, 0.620704231078055),
            (Op::Cosh, &[a], 1.136191473803348, 0.3942396421115833),
            (Op::Asin, &[a], 0.6822039655834323, 0.6063349998873514),
            (Op::Acos, &[a], 0.8885923612114643, -0.6063349998873514),
            (Op::Cbrt, &[a], 0.9474899108408234, 0.188124049656498),
            (Op::Cbrt, &[-a], -0.9474899108408234, -0.188124049656498),
            (Op::Tan, &[a], 0.6180963948062022, 0.7282118012804724),
            (Op::Tanh, &[a], 0.736084170551191, 0.2908934618296181),
            (Op::Tanh, &[-a], -0.736084170551191, -0.2908934618296181),
            (Op::Atan, &[a], 0.7232206661240675, 0.3104282830771958),
            (Op::Atan2, &[a, b], 0.5535743588970452, 0.40235947810852507),
            (Op::Sigmoid, &[a], 0.6892762649735801, 0.11035148836912119),
            (Op::Sigmoid, &[-a], 0.31072373502641987, -0.11035148836912119),
            (Op::Softplus, &[a], 1.1094589861360558, 0.3412495576190978),
            (Op::Softplus, &[-a], 0.3594589861360557, -0.1587504423809022),
            (Op::Xlogy, &[a, b], 0.2807632108430782, -0.02666971594198537),
        ];
        for (op, args, re, im) in cases {
            let value = complex(*op, args).unwrap();
            let error = (value - Complex64::new(*re, *im)).norm();
            assert!(
                error <= 4.0 * f64::EPSILON * value.norm().max(1.0),
                "{op:?}{args:?} = {value} and not {re} + {im}i"
            );
        }
    }
}

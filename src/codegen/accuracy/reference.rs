//! Scalar functions with 192 bits, from the arithmetic and the elementary functions of `astro-float`.

use std::ops::{Add, Div, Mul, Neg, Sub};

use astro_float_num::{BigFloat, Consts, RoundingMode, Sign};

use crate::scalar::Op;

const BITS: usize = 192;
const ROUNDING: RoundingMode = RoundingMode::None;

/// A number of 192 bits.
#[derive(Clone, Debug)]
pub struct Number(BigFloat);

impl From<f64> for Number {
    fn from(x: f64) -> Self {
        if x == 0.0 || x.abs() >= f64::MIN_POSITIVE {
            return Number(BigFloat::from_f64(x, BITS));
        }
        // Numbers below the normal range are not taken as they are.
        let mut number = BigFloat::from_f64(x * 2.0_f64.powi(200), BITS);
        let exponent = number.exponent().unwrap_or(0);
        number.set_exponent(exponent - 200);
        Number(number)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident),+) => { $(
        impl $trait for &Number {
            type Output = Number;
            fn $method(self, other: &Number) -> Number {
                Number(self.0.$method(&other.0, BITS, ROUNDING))
            }
        }
        impl $trait<f64> for &Number {
            type Output = Number;
            fn $method(self, other: f64) -> Number {
                self.$method(&Number::from(other))
            }
        }
    )+ };
}

operators! { Add add, Sub sub, Mul mul, Div div }

impl Neg for &Number {
    type Output = Number;
    fn neg(self) -> Number {
        Number(BigFloat::neg(&self.0))
    }
}

impl Number {
    /// The exponent of the next power of two above, very small for 0.
    fn exponent(&self) -> i32 {
        if self.0.is_zero() { i32::MIN / 2 } else { self.0.exponent().unwrap_or(i32::MAX / 2) }
    }

    /// Whether it is below `2^-bits` times the other.
    fn is_below(&self, other: &Number, bits: i32) -> bool {
        self.exponent() < other.exponent() - bits
    }

    pub fn abs(&self) -> Number {
        Number(self.0.abs())
    }

    /// Rounded toward zero; infinite beyond the range.
    pub fn to_f64(&self) -> f64 {
        let Some((words, _, sign, exponent, _)) = self.0.as_raw_parts() else { return f64::NAN };
        let Some(top) = words.last().filter(|_| !self.0.is_zero()) else { return 0.0 };
        // 0.words * 2^exponent, in steps that do not leave the range
        let mantissa = (*top >> 11) as f64 * 2.0_f64.powi(-53);
        let exponent = exponent.clamp(-1200, 1200);
        let y = mantissa * 2.0_f64.powi(exponent / 2) * 2.0_f64.powi(exponent - exponent / 2);
        if sign == Sign::Neg { -y } else { y }
    }

    /// `|self| / 2^k`, also where `2^k` is beyond the range.
    pub fn in_units(&self, k: i32) -> f64 {
        let mut scaled = self.0.abs();
        if !scaled.is_zero() {
            scaled.set_exponent(scaled.exponent().unwrap_or(0) - k);
        }
        Number(scaled).to_f64()
    }
}

/// The functions, with constants that are computed once.
pub struct Reference {
    consts: Consts,
    pi: Number,
    /// `B_2, B_4, ..`
    bernoulli: Vec<Number>,
}

impl Reference {
    pub fn new() -> Self {
        let mut consts = Consts::new().expect("memory for constants");
        let pi = Number(consts.pi(BITS, ROUNDING));
        Reference { consts, pi, bernoulli: bernoulli(40) }
    }

    /// The value of a function where it is finite.
    pub fn value(&mut self, op: Op, args: &[f64]) -> Number {
        let x = Number::from(args[0]);
        match op {
            Op::Exp => self.exp(&x),
            Op::Expm1 => self.expm1(&x),
            Op::Ln => self.ln(&x),
            Op::Log1p => self.log1p(&x),
            Op::Pow => {
                let power = &Number::from(args[1]) * &self.ln(&x.abs());
                let power = self.exp(&power);
                if args[0] < 0.0 && args[1] % 2.0 != 0.0 { -&power } else { power }
            }
            Op::Xlogy => &x * &self.ln(&Number::from(args[1])),
            Op::Sqrt => Number(x.0.sqrt(BITS, ROUNDING)),
            Op::Cbrt => self.cbrt(&x),
            Op::Floor => Number::from(args[0].floor()),
            Op::Ceil => Number::from(args[0].ceil()),
            Op::Round => Number::from(args[0].round_ties_even()),
            Op::Sinh => {
                // e^a - 1 = t, and e^a - e^-a = t + t / (1 + t)
                let t = self.expm1(&x.abs());
                let y = &(&t + &(&t / &(&t + 1.0))) * 0.5;
                if args[0] < 0.0 { -&y } else { y }
            }
            Op::Cosh => {
                let e = self.exp(&x);
                &(&e + &(&Number::from(1.0) / &e)) * 0.5
            }
            Op::Atan2 => self.atan2(args[0], args[1]),
            // For small arguments these are the arguments, which the library takes long to find.
            Op::Sin | Op::Tan | Op::Atan | Op::Asin if x.exponent() < -60 => x,
            Op::Sin => Number(x.0.sin(BITS, ROUNDING, &mut self.consts)),
            Op::Cos => Number(x.0.cos(BITS, ROUNDING, &mut self.consts)),
            Op::Tan => Number(x.0.tan(BITS, ROUNDING, &mut self.consts)),
            Op::Atan => Number(x.0.atan(BITS, ROUNDING, &mut self.consts)),
            Op::Asin => self.asin(&x),
            Op::Acos => &(&self.pi * 0.5) - &self.asin(&x),
            Op::Tanh if x.exponent() > 9 => Number::from(args[0].signum()),
            Op::Tanh => {
                let t = self.expm1(&(&x * 2.0));
                &t / &(&t + 2.0)
            }
            Op::Erf => self.erf(&x),
            Op::Sigmoid => &Number::from(1.0) / &(&self.exp(&-&x) + 1.0),
            Op::Softplus => {
                let e = self.exp(&-&x.abs());
                let tail = self.log1p(&e);
                if args[0] > 0.0 { &tail + &x } else { tail }
            }
            Op::Lgamma if args[0] > 0.0 => self.lgamma(&x),
            Op::Lgamma => {
                // gamma(a) gamma(-a) = -pi / (a sin(pi a))
                let (sine, _) = self.sin_cos_of_pi(args[0]);
                let q = (&self.pi / &(&x * &sine)).abs();
                &self.ln(&q) - &self.lgamma(&x.abs())
            }
            Op::Polygamma(0) if args[0] > 0.0 => self.digamma(&x),
            Op::Polygamma(0) => {
                // digamma(x) = digamma(-x) - 1 / x - pi / tan(pi x)
                let (sine, cosine) = self.sin_cos_of_pi(args[0]);
                let q = &(&self.pi * &cosine) / &sine;
                &(&self.digamma(&x.abs()) - &(&Number::from(1.0) / &x)) - &q
            }
            Op::Polygamma(1) if args[0] > 0.0 => self.trigamma(&x),
            Op::Polygamma(1) => {
                // trigamma(x) + trigamma(1 - x) = (pi / sin(pi x))^2
                let (sine, _) = self.sin_cos_of_pi(args[0]);
                let q = &self.pi / &sine;
                &(&q * &q) - &self.trigamma(&(&Number::from(1.0) - &x))
            }
            _ => panic!("{op:?} has no reference"),
        }
    }

    /// By Newton's method from the cube root of the machine.
    fn cbrt(&mut self, x: &Number) -> Number {
        // x = m 2^(3 q)
        let q = x.exponent().div_euclid(3);
        let mut m = x.clone();
        m.0.set_exponent(x.exponent() - 3 * q);
        let mut y = Number::from(m.to_f64().cbrt());
        for _ in 0..3 {
            y = &(&(&y * 2.0) + &(&m / &(&y * &y))) / 3.0;
        }
        let exponent = y.exponent() + q;
        y.0.set_exponent(exponent);
        y
    }

    /// `atan(x / sqrt((1 - x) (1 + x)))`, where the sums are exact.
    fn asin(&mut self, x: &Number) -> Number {
        let one = Number::from(1.0);
        let square = &(&one - x) * &(&one + x);
        if square.0.is_zero() {
            return &(&self.pi * 0.5) * x;
        }
        let root = Number(square.0.sqrt(BITS, ROUNDING));
        self.atan(&(x / &root))
    }

    fn atan(&mut self, x: &Number) -> Number {
        if x.exponent() < -60 {
            // x - x^3 / 3
            return x - &(&(&(x * x) * x) / 3.0);
        }
        Number(x.0.atan(BITS, ROUNDING, &mut self.consts))
    }

    fn atan2(&mut self, y: f64, x: f64) -> Number {
        let angle = self.atan(&(&Number::from(y.abs()) / &Number::from(x.abs())));
        let angle = if x < 0.0 { &self.pi - &angle } else { angle };
        if y < 0.0 { -&angle } else { angle }
    }

    fn exp(&mut self, x: &Number) -> Number {
        Number(x.0.exp(BITS, ROUNDING, &mut self.consts))
    }

    fn ln(&mut self, x: &Number) -> Number {
        Number(x.0.ln(BITS, ROUNDING, &mut self.consts))
    }

    fn expm1(&mut self, x: &Number) -> Number {
        if x.exponent() > -8 {
            return &self.exp(x) - 1.0;
        }
        let (mut term, mut sum) = (x.clone(), x.clone());
        for k in 2..20 {
            term = &(&term * x) / f64::from(k);
            sum = &sum + &term;
        }
        sum
    }

    fn log1p(&mut self, x: &Number) -> Number {
        if x.exponent() > -40 {
            // No bit of the argument is lost.
            let sum = Number::from(1.0).0.add(&x.0, BITS + 64, ROUNDING);
            return Number(sum.ln(BITS, ROUNDING, &mut self.consts));
        }
        let (mut power, mut sum) = (x.clone(), x.clone());
        for k in 2..6 {
            power = -&(&power * x);
            sum = &sum + &(&power / f64::from(k));
        }
        sum
    }

    /// `2 x / sqrt(pi) e^(-x^2) (1 + 2 x^2 / 3 + (2 x^2)^2 / (3 * 5) + ..)`
    fn erf(&mut self, x: &Number) -> Number {
        if x.exponent() > 3 {
            return if x.0.is_negative() { Number::from(-1.0) } else { Number::from(1.0) };
        }
        let square = x * x;
        let (mut term, mut sum) = (Number::from(1.0), Number::from(1.0));
        for k in 1..400 {
            term = &(&(&term * &square) * 2.0) / f64::from(2 * k + 1);
            if term.is_below(&sum, BITS as i32) {
                break;
            }
            sum = &sum + &term;
        }
        let root = Number(self.pi.0.sqrt(BITS, ROUNDING));
        &(&(&(x * 2.0) / &root) * &self.exp(&-&square)) * &sum
    }

    /// The sine and the cosine of `pi x`, up to a common sign.
    fn sin_cos_of_pi(&mut self, x: f64) -> (Number, Number) {
        let angle = &self.pi * (x - x.round());
        let cosine = Number(angle.0.cos(BITS, ROUNDING, &mut self.consts));
        let sine = if angle.exponent() < -60 { angle } else { Number(angle.0.sin(BITS, ROUNDING, &mut self.consts)) };
        (sine, cosine)
    }

    /// By Stirling's series at an argument that is large enough.
    fn lgamma(&mut self, x: &Number) -> Number {
        let (mut a, mut product) = (x.clone(), Number::from(1.0));
        while a.exponent() < 6 {
            product = &product * &a;
            a = &a + 1.0;
        }
        let mut sum = &(&(&a - 0.5) * &self.ln(&a)) - &a;
        sum = &sum + &(&self.ln(&(&self.pi * 2.0)) * 0.5);
        let (mut power, square) = (a.clone(), &a * &a);
        for (k, b) in (1..).zip(&self.bernoulli) {
            let term = &(b / f64::from(2 * k * (2 * k - 1))) / &power;
            if term.is_below(&sum, BITS as i32) {
                break;
            }
            sum = &sum + &term;
            power = &power * &square;
        }
        &sum - &self.ln(&product)
    }

    fn digamma(&mut self, x: &Number) -> Number {
        let (mut a, mut shift) = (x.clone(), Number::from(0.0));
        while a.exponent() < 6 {
            shift = &shift + &(&Number::from(1.0) / &a);
            a = &a + 1.0;
        }
        let mut sum = &self.ln(&a) - &(&Number::from(0.5) / &a);
        let square = &a * &a;
        let mut power = square.clone();
        for (k, b) in (1..).zip(&self.bernoulli) {
            let term = &(b / f64::from(2 * k)) / &power;
            if term.is_below(&sum, BITS as i32) {
                break;
            }
            sum = &sum - &term;
            power = &power * &square;
        }
        &sum - &shift
    }

    /// `1 / x + 1 / (2 x^2) + B_2 / x^3 + B_4 / x^5 + ..` at an argument that is large enough.
    fn trigamma(&mut self, x: &Number) -> Number {
        let one = Number::from(1.0);
        let (mut a, mut shift) = (x.clone(), Number::from(0.0));
        while a.exponent() < 6 {
            shift = &shift + &(&one / &(&a * &a));
            a = &a + 1.0;
        }
        let square = &a * &a;
        let mut sum = &(&one / &a) + &(&Number::from(0.5) / &square);
        let mut power = &square * &a;
        for b in &self.bernoulli {
            let term = b / &power;
            if term.is_below(&sum, BITS as i32) {
                break;
            }
            sum = &sum + &term;
            power = &power * &square;
        }
        &sum + &shift
    }
}

/// `B_2, B_4, .., B_2n`, by `B_m = -1 / (m + 1) (sum j < m. binomial(m + 1, j) B_j)`.
fn bernoulli(n: u32) -> Vec<Number> {
    const WIDE: usize = 512;
    let number = |k: u32| BigFloat::from_f64(f64::from(k), WIDE);
    let mut all = vec![number(1)];
    for m in 1..=2 * n {
        let (mut sum, mut binomial) = (number(0), number(1));
        for (j, b) in (0..m).zip(&all) {
            sum = sum.add(&binomial.mul(b, WIDE, ROUNDING), WIDE, ROUNDING);
            binomial = binomial.mul(&number(m + 1 - j), WIDE, ROUNDING).div(&number(j + 1), WIDE, ROUNDING);
        }
        all.push(sum.div(&number(m + 1).neg(), WIDE, ROUNDING));
    }
    all.into_iter().step_by(2).skip(1).map(Number).collect()
}

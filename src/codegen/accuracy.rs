//! How accurate the functions of [`vector`](super::vector) are: against sums of two floats, which have 106 bits.

use super::vector::{self, V};

/// `high + low`, where the low part is below half a unit of the high one.
#[derive(Clone, Copy, Debug)]
struct Double(f64, f64);

impl Double {
    fn new(x: f64) -> Self {
        Double(x, 0.0)
    }

    fn sum(a: f64, b: f64) -> Self {
        let s = a + b;
        let t = s - a;
        Double(s, (a - (s - t)) + (b - t))
    }

    fn add(self, other: Double) -> Self {
        let Double(s, e) = Double::sum(self.0, other.0);
        Double::sum(s, e + self.1 + other.1)
    }

    fn mul(self, other: Double) -> Self {
        let p = self.0 * other.0;
        let e = self.0.mul_add(other.0, -p);
        Double::sum(p, e + self.0 * other.1 + self.1 * other.0)
    }

    fn neg(self) -> Self {
        Double(-self.0, -self.1)
    }

    fn div(self, other: Double) -> Self {
        let q = self.0 / other.0;
        let r = self.add(other.mul(Double::new(q)).neg());
        let q2 = r.0 / other.0;
        let r = r.add(other.mul(Double::new(q2)).neg());
        Double::sum(q, q2).add(Double::new(r.0 / other.0))
    }

    fn scale(self, k: f64) -> Self {
        // In two steps, which are exact but for results below the normal range.
        let half = 2.0_f64.powi((k / 2.0).floor() as i32);
        let rest = 2.0_f64.powi(k as i32 - (k / 2.0).floor() as i32);
        Double(self.0 * half * rest, self.1 * half * rest)
    }

    const LN_2: Double = Double(std::f64::consts::LN_2, 2.319_046_813_846_3e-17);

    /// `e^r - 1` for `|r| < 0.4` by its series.
    fn series(r: Double) -> Double {
        let mut sum = Double::new(0.0);
        for k in (1..=30).rev() {
            // r/k * (1 + sum)
            sum = Double::new(1.0).add(sum).mul(r).div(Double::new(f64::from(k)));
        }
        sum
    }

    fn expm1(self) -> Double {
        let k = (self.0 / std::f64::consts::LN_2).round();
        let r = self.add(Double::LN_2.mul(Double::new(k)).neg());
        let e = Double::series(r);
        if k == 0.0 { e } else { e.add(Double::new(1.0)).scale(k).add(Double::new(-1.0)) }
    }

    fn exp(self) -> Double {
        let k = (self.0 / std::f64::consts::LN_2).round();
        let r = self.add(Double::LN_2.mul(Double::new(k)).neg());
        Double::series(r).add(Double::new(1.0)).scale(k)
    }

    /// `ln(1 + x)` by Newton's method on `expm1`.
    fn log1p(self) -> Double {
        let mut y = Double::new(self.0.ln_1p());
        for _ in 0..3 {
            // y - (e^y - 1 - x) / e^y
            let e = y.expm1();
            let step = e.add(self.neg()).div(e.add(Double::new(1.0)));
            y = y.add(step.neg());
        }
        y
    }
}

fn exact_ln(x: f64) -> Double {
    // x = 2^k (1 + f)
    let k = x.log2().round();
    let scaled = Double::new(x).scale(-k);
    let f = scaled.add(Double::new(-1.0));
    f.log1p().add(Double::LN_2.mul(Double::new(k)))
}

fn exact_sigmoid(x: f64) -> Double {
    let e = Double::new(-x.abs()).exp();
    let numerator = if x > 0.0 { Double::new(1.0) } else { e };
    numerator.div(e.add(Double::new(1.0)))
}

fn exact_softplus(x: f64) -> Double {
    let tail = Double::new(-x.abs()).exp().log1p();
    if x > 0.0 { tail.add(Double::new(x)) } else { tail }
}

fn exact_tanh(x: f64) -> Double {
    let t = Double::new(-2.0 * x.abs()).expm1();
    let y = t.neg().div(t.add(Double::new(2.0)));
    if x < 0.0 { y.neg() } else { y }
}

/// The distance in units in the last place of the exact value.
fn distance(found: f64, exact: Double) -> f64 {
    let unit = f64::from_bits(exact.0.abs().to_bits() + 1) - exact.0.abs();
    ((found - exact.0) - exact.1).abs() / unit
}

/// A function, its exact value, the arguments between which it is tested, and how far off it may be.
type Case = (&'static str, fn(V<8>) -> V<8>, fn(f64) -> Double, [f64; 2], f64);

const CASES: &[Case] = &[
    ("exp", vector::exp, |x| Double::new(x).exp(), [-700.0, 709.0], 1.0),
    ("exp near 0", vector::exp, |x| Double::new(x).exp(), [-1.0, 1.0], 1.0),
    ("expm1", vector::expm1, |x| Double::new(x).expm1(), [-50.0, 709.0], 1.0),
    ("expm1 near 0", vector::expm1, |x| Double::new(x).expm1(), [-2.0, 2.0], 1.0),
    ("ln", vector::ln, exact_ln, [1e-300, 1e300], 1.0),
    ("ln near 1", vector::ln, exact_ln, [0.4, 2.5], 1.0),
    ("log1p", vector::log1p, |x| Double::new(x).log1p(), [-0.999, 20.0], 1.0),
    ("log1p near 0", vector::log1p, |x| Double::new(x).log1p(), [-0.3, 0.5], 1.0),
    ("tanh", vector::tanh, exact_tanh, [-25.0, 25.0], 2.5),
    ("tanh near 0", vector::tanh, exact_tanh, [-0.7, 0.7], 2.5),
    ("sigmoid", vector::sigmoid, exact_sigmoid, [-700.0, 40.0], 2.5),
    ("sigmoid near 0", vector::sigmoid, exact_sigmoid, [-4.0, 4.0], 2.5),
    ("softplus", vector::softplus, exact_softplus, [-700.0, 700.0], 2.5),
    ("softplus near 0", vector::softplus, exact_softplus, [-4.0, 4.0], 2.5),
];

#[test]
fn functions_are_accurate() {
    for (name, f, exact, [from, to], limit) in CASES {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut worst = (0.0, 0.0);
        for round in 0..20_000 {
            let x = V::<8>::of(|_| {
                let uniform = from + (to - from) * rng.f64();
                // All magnitudes, for the functions that have arguments near 0.
                let tiny = 2.0_f64.powf(-60.0 * rng.f64()) * if rng.bool() { *to } else { from.max(-0.9) };
                if round % 2 == 0 || *from > 0.0 { uniform } else { tiny }
            });
            for (x, y) in x.0.iter().zip(f(x).0) {
                let off = distance(y, exact(*x));
                if off > worst.0 {
                    worst = (off, *x);
                }
            }
        }
        assert!(worst.0 <= *limit, "{name}: {} units off at {:e}", worst.0, worst.1);
        assert!(worst.0 > 0.2, "{name}: nothing was tested");
    }
}

/// The special values, and the same bits for every number of lanes.
#[test]
fn special_values() {
    use crate::scalar::Op;
    let values = [
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        f64::MIN_POSITIVE,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1e-17,
        -1e-17,
        1e-9,
        20.0,
        -20.0,
        36.7,
        -36.7,
        709.7,
        709.8,
        -745.0,
        -745.2,
        -800.0,
        1e300,
        -1e300,
        f64::MAX,
        f64::MIN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for op in [Op::Exp, Op::Ln, Op::Log1p, Op::Expm1, Op::Tanh, Op::Sigmoid, Op::Softplus] {
        for x in values {
            let [y] = super::in_lanes(op, [x]).unwrap();
            let expected = op.value(&[x]);
            let same =
                y == expected && y.is_sign_negative() == expected.is_sign_negative() || y.is_nan() && expected.is_nan();
            let close = (y - expected).abs() <= 4.0 * f64::EPSILON * expected.abs().max(f64::MIN_POSITIVE);
            assert!(same || close, "{op:?}({x:e}) = {y:e} and not {expected:e}");
            for l in 0..8 {
                let mut lanes = [0.3; 8];
                lanes[l] = x;
                let z = super::in_lanes(op, lanes).unwrap()[l];
                assert!(z.to_bits() == y.to_bits() || z.is_nan() && y.is_nan(), "{op:?}({x:e}) in lane {l}");
            }
        }
    }
}

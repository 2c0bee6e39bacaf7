//! The vector functions beside scalar ones: `cargo bench --bench functions`.
//!
//! Nanoseconds for each number, with 8 lanes, beside the scalar functions of `libm`, from which the operator table takes its values, and
//! those of the standard library, where it has them; digamma and trigamma are beside those of the table. Arguments are of the usual size, all
//! in the first-level cache; all run in turn, round after round; times are the best of all rounds. What the vectors of the processor at hand
//! can do shows with `RUSTFLAGS="-C target-cpu=native"`.

use std::hint::black_box;
use std::time::Instant;

use iverson::ir::codegen::vector::{self, V};
use iverson::ir::scalar::Op;

const COUNT: usize = 1024;
const ROUNDS: usize = 400;

/// A function of two numbers, of which most ignore the second.
type Many = fn(&[f64; 8], &[f64; 8], &mut [f64; 8]);
type One = fn(f64, f64) -> f64;

/// A function with its name, the arguments between which it is timed, and its scalar competitors.
struct Case {
    name: &'static str,
    range: [f64; 2],
    many: Many,
    libm: One,
    std: Option<One>,
}

macro_rules! case {
    ($name:ident, $range:expr, |$x:ident| $libm:expr $(, $std:expr)?) => {
        Case {
            name: stringify!($name),
            range: $range,
            many: |x, _, out| *out = vector::$name(V(*x)).0,
            libm: |$x, _| $libm,
            std: [$((|$x: f64, _: f64| $std) as One)?].first().copied(),
        }
    };
}

fn main() {
    let cases = [
        case!(exp, [-20.0, 20.0], |x| libm::exp(x), x.exp()),
        case!(expm1, [-5.0, 5.0], |x| libm::expm1(x), x.exp_m1()),
        case!(ln, [0.01, 100.0], |x| libm::log(x), x.ln()),
        case!(log1p, [-0.9, 10.0], |x| libm::log1p(x), x.ln_1p()),
        case!(sqrt, [0.01, 100.0], |x| libm::sqrt(x), x.sqrt()),
        case!(cbrt, [-100.0, 100.0], |x| libm::cbrt(x), x.cbrt()),
        case!(sin, [-10.0, 10.0], |x| libm::sin(x), x.sin()),
        case!(cos, [-10.0, 10.0], |x| libm::cos(x), x.cos()),
        case!(tan, [-10.0, 10.0], |x| libm::tan(x), x.tan()),
        case!(tanh, [-3.0, 3.0], |x| libm::tanh(x), x.tanh()),
        case!(sinh, [-5.0, 5.0], |x| libm::sinh(x), x.sinh()),
        case!(cosh, [-5.0, 5.0], |x| libm::cosh(x), x.cosh()),
        case!(asin, [-1.0, 1.0], |x| libm::asin(x), x.asin()),
        case!(acos, [-1.0, 1.0], |x| libm::acos(x), x.acos()),
        case!(atan, [-5.0, 5.0], |x| libm::atan(x), x.atan()),
        Case {
            name: "atan2",
            range: [-5.0, 5.0],
            many: |x, y, out| *out = vector::atan2(V(*x), V(*y)).0,
            libm: libm::atan2,
            std: Some(f64::atan2),
        },
        Case {
            name: "pow",
            range: [0.1, 10.0],
            many: |x, y, out| *out = vector::pow(V(*x), V(*y)).0,
            libm: libm::pow,
            std: Some(f64::powf),
        },
        case!(erf, [-3.0, 3.0], |x| libm::erf(x)),
        case!(sigmoid, [-10.0, 10.0], |x| 1.0 / (1.0 + libm::exp(-x)), 1.0 / (1.0 + (-x).exp())),
        case!(softplus, [-10.0, 10.0], |x| libm::log1p(libm::exp(x)), x.exp().ln_1p()),
        case!(lgamma, [0.1, 20.0], |x| libm::lgamma(x)),
        case!(digamma, [0.1, 20.0], |x| Op::Polygamma(0).value(&[x])),
        case!(trigamma, [0.1, 20.0], |x| Op::Polygamma(1).value(&[x])),
    ];
    println!("{:<10}{:>10}{:>10}{:>10}{:>12}", "ns", "8 lanes", "libm", "std", "libm/lanes");
    for case in cases {
        let [many, libm, std] = time(&case);
        let std = if case.std.is_some() { format!("{std:.2}") } else { "-".to_owned() };
        println!("{:<10}{many:>10.2}{libm:>10.2}{std:>10}{:>12.1}", case.name, libm / many);
    }
}

/// Nanoseconds for each number.
fn time(case: &Case) -> [f64; 3] {
    let mut rng = fastrand::Rng::with_seed(1);
    let [from, to] = case.range;
    let mut numbers = || -> Vec<f64> { (0..COUNT).map(|_| from + (to - from) * rng.f64()).collect() };
    let (x, y) = (numbers(), numbers());
    let mut out = vec![0.0; COUNT];
    let mut best = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        // So that the compiler sees one call of 8 lanes at a time, as in a kernel.
        let many = black_box(case.many);
        for ((x, y), out) in x.as_chunks().0.iter().zip(y.as_chunks().0).zip(out.as_chunks_mut().0) {
            many(x, y, out);
        }
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        black_box(&out);
        for (best, one) in best[1..].iter_mut().zip([Some(case.libm), case.std]) {
            let one = black_box(one.unwrap_or(case.libm));
            let start = Instant::now();
            for ((x, y), out) in x.iter().zip(&y).zip(&mut out) {
                *out = one(*x, *y);
            }
            *best = best.min(start.elapsed().as_secs_f64());
            black_box(&out);
        }
    }
    best.map(|seconds| 1e9 * seconds / COUNT as f64)
}

//! Floor division and remainders: random ones of indices and sizes against integers, on all engines, with derivatives, and as they read.

use fastrand::Rng;
use iverson::Function;
use iverson::ir::{reference, surface};
use iverson::tensor::{Inputs, Value};

use crate::kernels::{judge_itself, numbers};
use crate::support::compile;

/// An index expression.
enum I {
    Index(usize),
    Size,
    Constant(i64),
    Sum(Box<I>, Box<I>),
    Times(i64, Box<I>),
    Quotient(Box<I>, i64),
    Remainder(Box<I>, i64),
}

const NAMES: [&str; 3] = ["i", "j", "k"];

impl I {
    /// A random one, in which `scope` indices are in scope: `depth` operators, one of which divides.
    fn random(rng: &mut Rng, scope: usize, depth: usize) -> I {
        let part = |rng: &mut Rng| Box::new(I::random(rng, scope, depth - 1));
        match if depth == 0 { rng.usize(..4) } else { rng.usize(4..9) } {
            0 if rng.bool() => I::Size,
            1 => I::Constant(rng.i64(-3..=3)),
            0 | 2 | 3 => I::Index(rng.usize(..scope)),
            4 => I::Sum(part(rng), Box::new(I::random(rng, scope, 0))),
            5 => I::Times(rng.i64(-2..=3), part(rng)),
            6 | 7 => I::Quotient(part(rng), rng.i64(1..=4)),
            _ => I::Remainder(part(rng), rng.i64(1..=4)),
        }
    }

    fn text(&self) -> String {
        match self {
            I::Index(at) => NAMES[*at].to_owned(),
            I::Size => "n".to_owned(),
            I::Constant(k) => format!("({k})"),
            I::Sum(a, b) => format!("({} + {})", a.text(), b.text()),
            I::Times(k, a) => format!("({k} * {})", a.text()),
            I::Quotient(a, k) => format!("({} // {k})", a.text()),
            I::Remainder(a, k) => format!("({} % {k})", a.text()),
        }
    }

    fn value(&self, n: i64, at: &[i64]) -> i64 {
        match self {
            I::Index(index) => at[*index],
            I::Size => n,
            I::Constant(k) => *k,
            I::Sum(a, b) => a.value(n, at) + b.value(n, at),
            I::Times(k, a) => k * a.value(n, at),
            I::Quotient(a, k) => a.value(n, at).div_euclid(*k),
            I::Remainder(a, k) => a.value(n, at).rem_euclid(*k),
        }
    }
}

/// What a bracket asks.
enum P {
    Less(I, I),
    Equal(I, I),
    Not(Box<P>),
    And(Box<P>, Box<P>),
    Or(Box<P>, Box<P>),
    Exists(Box<P>),
}

impl P {
    fn random(rng: &mut Rng, scope: usize, depth: usize) -> P {
        let part = |rng: &mut Rng, scope| Box::new(P::random(rng, scope, depth - 1));
        let index = |rng: &mut Rng| {
            let depth = rng.usize(..3);
            I::random(rng, scope, depth)
        };
        match if depth == 0 { rng.usize(..2) } else { rng.usize(..6) } {
            0 => P::Less(index(rng), index(rng)),
            1 => P::Equal(index(rng), index(rng)),
            2 => P::Not(part(rng, scope)),
            3 => P::And(part(rng, scope), part(rng, scope)),
            4 => P::Or(part(rng, scope), part(rng, scope)),
            _ if scope < NAMES.len() => P::Exists(part(rng, scope + 1)),
            _ => P::Not(part(rng, scope)),
        }
    }

    fn text(&self, scope: usize) -> String {
        match self {
            P::Less(a, b) => format!("{} < {}", a.text(), b.text()),
            P::Equal(a, b) => format!("{} = {}", a.text(), b.text()),
            P::Not(p) => format!("not ({})", p.text(scope)),
            P::And(p, q) => format!("({}) and ({})", p.text(scope), q.text(scope)),
            P::Or(p, q) => format!("({}) or ({})", p.text(scope), q.text(scope)),
            P::Exists(p) => format!("exists {} < n. ({})", NAMES[scope], p.text(scope + 1)),
        }
    }

    fn holds(&self, n: i64, at: &mut Vec<i64>) -> bool {
        match self {
            P::Less(a, b) => a.value(n, at) < b.value(n, at),
            P::Equal(a, b) => a.value(n, at) == b.value(n, at),
            P::Not(p) => !p.holds(n, at),
            P::And(p, q) => p.holds(n, at) && q.holds(n, at),
            P::Or(p, q) => p.holds(n, at) || q.holds(n, at),
            P::Exists(p) => (0..n).any(|k| {
                at.push(k);
                let holds = p.holds(n, at);
                at.pop();
                holds
            }),
        }
    }
}

fn evaluated(function: &Function, inputs: &Inputs) -> Vec<f64> {
    numbers(&reference::evaluate(function.tensor_ssa(), inputs).unwrap_or_else(|e| panic!("{e}\n{function}")))
}

/// A program gives what is expected for some sizes: as it is written, as it prints, and simplified, by the reference and by kernels.
fn judge(text: &str, expected: impl Fn(&[f64]) -> Vec<f64>) {
    let source = surface::read(text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let printed = source.to_string();
    let back = surface::read(&printed, &[]).unwrap_or_else(|e| panic!("{e}\n{text}\n{printed}"));
    assert_eq!(back.to_string(), printed, "{text}");
    let function = compile(text);
    let simplified = function.simplify().unwrap_or_else(|e| panic!("{e}\n{text}"));
    for n in [0, 1, 2, 5, 8] {
        let x: Vec<f64> = (0..n).map(|i| f64::from(i * i % 7 + 1)).collect();
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(x.clone()));
        let expected = expected(&x);
        assert_eq!(evaluated(&function, &inputs), expected, "n = {n}\n{text}\n{printed}");
        assert_eq!(evaluated(&compile(&printed), &inputs), expected, "n = {n}\n{printed}");
        for program in [&function, &simplified] {
            judge_itself(program, &inputs, false).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
    }
}

#[test]
fn random_values() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let e = I::random(&mut rng, 1, 3);
        let text = format!("param x : [n] real\ngen i < n. real({}) * x[i]", e.text());
        judge(&text, |x| (0..x.len()).map(|i| e.value(x.len() as i64, &[i as i64]) as f64 * x[i]).collect());
    }
}

#[test]
fn random_brackets() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let p = P::random(&mut rng, 1, 2);
        let text = format!("param x : [n] real\ngen i < n. if {} then x[i] else 0.5", p.text(1));
        let holds = |x: &[f64], i: usize| p.holds(x.len() as i64, &mut vec![i as i64]);
        judge(&text, |x| (0..x.len()).map(|i| if holds(x, i) { x[i] } else { 0.5 }).collect());
    }
}

#[test]
fn random_ranges() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let (a, b, c) = (rng.i64(-2..=4), rng.i64(-4..=9), rng.i64(-1..=1));
        let (k, l) = (rng.i64(1..=5), rng.i64(1..=3));
        let text = format!("param x : [n] real\nsum i < (({a} * n + {b}) // {k} + {c}) // {l}. i + 1");
        let extent = |n: i64| ((a * n + b).div_euclid(k) + c).div_euclid(l).max(0);
        judge(&text, |x| vec![(0..extent(x.len() as i64)).map(|i| (i + 1) as f64).sum()]);
    }
}

/// Elements at quotients, in and out of bounds, and their adjoint.
#[test]
fn random_accesses() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let (a, b, k, s) = (rng.i64(-2..=3), rng.i64(-3..=5), rng.i64(1..=4), rng.i64(-2..=2));
        let e = format!("({a} * i + {b}) // {k} + {s}");
        let text = format!("param x : [n] real\ngen i < 2 * n. [0 <= {e} and {e} < n] * x[{e}] * (i % {k})");
        let read = |n: usize, i: i64| {
            let place = (a * i + b).div_euclid(k) + s;
            usize::try_from(place).ok().filter(|place| *place < n).map(|place| (place, (i.rem_euclid(k)) as f64))
        };
        let each = |n: usize| (0..2 * n as i64).map(move |i| read(n, i));
        judge(&text, |x| each(x.len()).map(|at| at.map_or(0.0, |(place, factor)| x[place] * factor)).collect());
        let adjoint = compile(&text).adjoint(["x"]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let n = 6;
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(vec![1.0; n]));
        let dy: Vec<f64> = (0..2 * n).map(|i| (i + 1) as f64).collect();
        let mut expected = vec![0.0; n];
        for (at, dy) in each(n).zip(&dy) {
            if let Some((place, factor)) = at {
                expected[place] += factor * dy;
            }
        }
        inputs.value("dy", Value::vector(dy));
        assert_eq!(evaluated(&adjoint, &inputs), expected, "{text}\n{adjoint}");
        judge_itself(&adjoint, &inputs, false).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
}

/// Programs, and what they and their adjoints by `x` read.
#[test]
fn as_they_read() {
    for (text, printed, adjoint) in [
        (
            "gen i < n // 2. max(x[2*i], x[2*i + 1])",
            "size n_2 = n // 2\ngen i < n_2. max(x[2*i], x[2*i + 1])",
            "gen i < n. (sum j < n_2. [i = 2*j + 1 and not x[2*j + 1] <= x[2*j]] * dy[j]) \
             + (sum j < n_2. [i = 2*j and x[2*j + 1] <= x[2*j]] * dy[j])",
        ),
        (
            "gen i < 2*n. x[i // 2]",
            "gen i < 2*n. sum q < n. [i <= 2*q + 1 and 2*q <= i] * x[q]",
            "gen i < n. sum j < 2*n. [2*i <= j and j <= 2*i + 1] * dy[j]",
        ),
        (
            "gen i < (n - 3) // 2 + 1. x[2*i] + x[2*i + 2]",
            "size n_2 = (n + 1) // 2\ngen i < n_2 - 1. x[2*i] + x[2*i + 2]",
            "gen i < n. (sum j < n_2 - 1. [i = 2*j + 2] * dy[j]) + (sum j < n_2 - 1. [i = 2*j] * dy[j])",
        ),
        (
            "sum i < n. [i % 2 = 0] * x[i]",
            "sum i < n. [exists q < n. i = 2*q] * x[i]",
            "gen i < n. [exists j < n. i = 2*j] * dy",
        ),
        (
            "let A = gen i < n, j < 3. x[i] * j in gen k < 3*n. A[k // 3, k % 3]",
            "let A = gen i < n, j < 3. x[i] * j\nin gen k < 3*n. sum q < n. [k <= 3*q + 2 and 3*q <= k] * A[q, k - 3*q]",
            "gen i < n. sum j < 3. j * dy[3*i + j]",
        ),
    ] {
        let function = compile(&format!("param x : [n] real\n{text}"));
        assert_eq!(function.to_string().trim_end(), format!("param x : [n] real\n{printed}"));
        let derivative = function.adjoint(["x"]).expect("it has an adjoint").to_string();
        let body = derivative.lines().filter(|line| !line.starts_with("param") && !line.starts_with("size"));
        let body = body.map(str::trim).collect::<Vec<_>>().join(" ");
        assert_eq!(body, adjoint, "{text}");
    }
}

/// Declared sizes, and those that inputs and assumptions leave one value.
#[test]
fn sizes_that_follow() {
    let bound = |text: &str, inputs: &Inputs| compile(text).eval(inputs).map(|results| results["value"].as_scalar());
    let with = |n: usize| {
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(vec![1.0; n]));
        inputs
    };
    let text = "param x : [n] real\nsize h = n // 2\nsize q = h // 2\nsize m = 2*h + 1\n\
                sum i < h, j < q, k < m. [k = 0 and j = 0 and i = 0] * 1 + x[2*i] * 0";
    assert_eq!(bound(text, &with(7)).expect("it runs"), Some(1.0));
    assert!(
        compile(text).to_string().contains("size h = n // 2\nsize q = n // 4\nassume 2*h + 1 = m\n"),
        "{}",
        compile(text)
    );
    let text = "size n\nsum i < n. i";
    let mut inputs = Inputs::new();
    let missing = bound(text, &inputs).expect_err("a size is missing").to_string();
    assert!(missing.contains("in Rust by `Inputs::size`, in Python by `sizes="), "{missing}");
    inputs.size("n", 5);
    assert_eq!(bound(text, &inputs).expect("it runs"), Some(10.0));
    assert_eq!(compile(text).to_string(), "size n\nsum i < n. i\n");
    let text = "param x : [n] real\nparam y : [n // 2] real\nsum(y)";
    let mut inputs = with(7);
    inputs.value("y", Value::vector(vec![1.0; 4]));
    let other = bound(text, &inputs).expect_err("the sizes differ").to_string();
    assert_eq!(other, "n_2: this size is 4, but n // 2 is 3: n = 7");
    // What was given is checked too, and what the assumptions leave open is asked for.
    inputs.value("y", Value::vector(vec![1.0; 3]));
    assert_eq!(bound(text, &inputs).expect("it runs"), Some(3.0));
    let open = bound("param x : [n] real\nassume 3*m <= n\nsum i < m. x[i]", &with(7)).expect_err("two are open");
    assert!(open.to_string().contains("does not follow"), "{open}");
    assert_eq!(bound("param x : [n] real\nassume 3*m = n\nsum i < m. x[i]", &with(6)).expect("it runs"), Some(2.0));
}

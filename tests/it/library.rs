//! The definitions that every program has, `src/surface/prelude.iv`: their values beside formulas in Rust, and their derivatives for reading.

use iverson::kernel::Engine;
use iverson::prelude::*;
use iverson::{Mode, Request};

const X: [f64; 4] = [0.5, -1.25, 2.0, 0.75];
const Y: [f64; 4] = [1.5, 0.25, -0.5, 3.0];
const A: [[f64; 3]; 2] = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]];
const B: [[f64; 3]; 3] = [[1.0, -2.0, 0.5], [0.0, 3.0, -1.5], [2.5, 1.0, -0.25]];

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn mean(a: &[f64]) -> f64 {
    a.iter().sum::<f64>() / a.len() as f64
}

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / a.len() as f64 - mean(a) * mean(b)
}

fn softmax(a: &[f64]) -> Vec<f64> {
    let total: f64 = a.iter().map(|x| x.exp()).sum();
    a.iter().map(|x| x.exp() / total).collect()
}

/// The coefficients of a product of polynomials.
fn full(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; a.len() + b.len() - 1];
    for (i, a) in a.iter().enumerate() {
        b.iter().enumerate().for_each(|(j, b)| product[i + j] += a * b);
    }
    product
}

fn each(f: impl Fn(f64) -> f64) -> Vec<f64> {
    X.iter().map(|x| f(*x)).collect()
}

/// Calls, and what they should give for the constants above.
fn calls() -> Vec<(&'static str, Vec<f64>)> {
    let [x, y] = [&X[..], &Y[..]];
    let rows = |f: &dyn Fn(&[f64]) -> Vec<f64>| A.iter().flat_map(|row| f(row)).collect::<Vec<f64>>();
    let square = |x: f64| x * x;
    let column = |j: usize| B.map(|row| row[j]);
    let attention = || {
        let weights = A.map(|q| softmax(&B.map(|k| dot(&q, &k) / 3_f64.sqrt())));
        weights.iter().flat_map(|w| (0..3).map(|j| dot(w, &column(j)))).collect::<Vec<f64>>()
    };
    let normed = |a: &[f64]| {
        let spread = (covariance(a, a) + 0.01).sqrt();
        a.iter().map(|x| (x - mean(a)) / spread).collect::<Vec<f64>>()
    };
    let distance = x.iter().zip(y).map(|(a, b)| square(a - b)).sum::<f64>();
    let (p, q) = (softmax(x), softmax(y));
    vec![
        ("dot(x, y)", vec![dot(x, y)]),
        ("squared_norm(x)", vec![dot(x, x)]),
        ("norm(x)", vec![dot(x, x).sqrt()]),
        ("norm1(x)", vec![4.5]),
        ("squared_distance(x, y)", vec![distance]),
        ("distance(x, y)", vec![distance.sqrt()]),
        ("cosine(x, y)", vec![dot(x, y) / dot(x, x).sqrt() / dot(y, y).sqrt()]),
        ("variance(x)", vec![covariance(x, x)]),
        ("covariance(x, y)", vec![covariance(x, y)]),
        ("correlation(x, y)", vec![covariance(x, y) / (covariance(x, x) * covariance(y, y)).sqrt()]),
        ("cross(A[0, :], A[1, :])", vec![0.25, 3.375, 1.625]),
        ("cumsum(x)", vec![0.5, -0.75, 1.25, 2.0]),
        ("cummax(x)", vec![0.5, 0.5, 2.0, 2.0]),
        ("cumprod(x)", vec![0.5, -0.625, -1.25, -0.9375]),
        ("prod(x)", vec![-0.9375]),
        ("zeros_like(A)", vec![0.0; 6]),
        ("ones_like(x)", vec![1.0; 4]),
        ("outer(x, y)", x.iter().flat_map(|a| y.iter().map(move |b| a * b)).collect()),
        ("diag(x)", (0..16).map(|k| if k % 5 == 0 { x[k / 5] } else { 0.0 }).collect()),
        ("trace(B)", vec![3.75]),
        ("transpose(A)", vec![0.5, 1.5, -1.0, 0.25, 2.0, -0.75]),
        ("matvec(B, A[0, :])", B.iter().map(|row| dot(row, &A[0])).collect()),
        ("matmul(A, B)", A.iter().flat_map(|row| (0..3).map(move |j| dot(row, &column(j)))).collect()),
        ("kron(A, B)", {
            let place = |k: usize| A[k / 27][k / 3 % 3] * B[k / 9 % 3][k % 3];
            (0..54).map(place).collect()
        }),
        ("khatri_rao(A, B)", (0..18).map(|k| A[k / 9][k % 3] * B[k / 3 % 3][k % 3]).collect()),
        ("conv(x, A[1, :])", (0..2).map(|i| (0..3).map(|j| x[i + 2 - j] * A[1][j]).sum()).collect()),
        ("conv2d(B, gen i < 2, j < 2. A[i, j])", {
            let at = |i: usize, j: usize| (0..4).map(|k| B[i + k / 2][j + k % 2] * A[k / 2][k % 2]).sum();
            vec![at(0, 0), at(0, 1), at(1, 0), at(1, 1)]
        }),
        ("conv_full(x, A[1, :])", full(x, &A[1])),
        ("conv_same(x, A[1, :])", full(x, &A[1])[1..5].to_vec()),
        ("conv_same(x, y)[1::2]", vec![full(x, y)[2], full(x, y)[4]]),
        ("conv2d_same(B, gen i < 2, j < 2. A[i, j])", {
            let at = |i: usize, j: usize| B.get(i).and_then(|row| row.get(j)).copied().unwrap_or(0.0);
            let sum = |i: usize, j: usize| (0..4).map(|k| at(i + k / 2, j + k % 2) * A[k / 2][k % 2]).sum();
            (0..9).map(|k| sum(k / 3, k % 3)).collect()
        }),
        ("max_pool(x)", vec![0.5, 2.0]),
        ("mean_pool(x)", vec![-0.375, 1.375]),
        ("max_pool2d(gen i < 4, j < 2. x[i] * y[j])", vec![0.75, 3.0]),
        ("mean_pool2d(gen i < 4, j < 2. x[i] * y[j])", vec![-0.375 * 0.875, 1.375 * 0.875]),
        ("laplacian(x)", vec![0.5 + 2.5 + 2.0, -1.25 - 4.0 + 0.75]),
        ("laplacian2d(B)", vec![-2.0 + 1.0 + 0.0 - 1.5 - 12.0]),
        ("total_variation(x)", vec![1.75 + 3.25 + 1.25]),
        ("clip(x, -1, 1)", vec![0.5, -1.0, 1.0, 0.75]),
        ("relu(x)", vec![0.5, 0.0, 2.0, 0.75]),
        ("leaky_relu(x, 0.5)", vec![0.5, -0.625, 2.0, 0.75]),
        ("elu(x)", each(|x| if x > 0.0 { x } else { x.exp() - 1.0 })),
        ("silu(x)", each(|x| x / (1.0 + (-x).exp()))),
        ("gelu(x)", each(|x| x * (1.0 + libm::erf(x / 2_f64.sqrt())) / 2.0)),
        ("huber(x, 1)", vec![0.125, 0.75, 1.5, 0.28125]),
        ("pinball(x, 0.75)", vec![0.375, 0.3125, 1.5, 0.5625]),
        ("hinge(x)", vec![0.5, 2.25, 0.0, 0.25]),
        ("logistic_loss(x, 1)", each(|x| -(1.0 / (1.0 + (-x).exp())).ln())),
        ("poisson_loss(y^2, x)", x.iter().zip(y).map(|(n, r)| r * r - n * (r * r).ln()).collect()),
        ("negative_binomial_loss(y^2, x^2, 1.5)", {
            let log_gamma = libm::lgamma;
            // Of the probabilities themselves, but for the factorials of the counts.
            let loss = |rate: f64, count: f64| {
                let success = 1.5 / (1.5 + rate);
                log_gamma(1.5) - log_gamma(count + 1.5) - 1.5 * success.ln() - count * (1.0 - success).ln()
            };
            x.iter().zip(y).map(|(n, r)| loss(r * r, n * n)).collect()
        }),
        ("cross_entropy(x, softmax(y))", vec![-p.iter().zip(&q).map(|(p, q)| q * p.ln()).sum::<f64>()]),
        ("kl(softmax(x), softmax(y))", vec![p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum()]),
        ("rbf(x, y, 2)", vec![(-distance / 8.0).exp()]),
        ("matern32(x^2, 2)", each(|x| (1.0 + 3_f64.sqrt() * x * x / 2.0) * (-(3_f64.sqrt()) * x * x / 2.0).exp())),
        (
            "matern52(x^2, 2)",
            each(|x| {
                let r = 5_f64.sqrt() * x * x / 2.0;
                (1.0 + r + r * r / 3.0) * (-r).exp()
            }),
        ),
        ("logsumexp(x)", vec![x.iter().map(|x| x.exp()).sum::<f64>().ln()]),
        ("softmax(A)", rows(&softmax)),
        ("log_softmax(A)", rows(&|a| softmax(a).iter().map(|p| p.ln()).collect())),
        ("layer_norm(A, 0.01)", rows(&normed)),
        ("attention(A, B, B)", attention()),
    ]
}

const DECLARED: &str = "param x : [4] real\nparam y : [4] real\nparam A : [2, 3] real\nparam B : [3, 3] real\n";

#[test]
fn values() -> iverson::Result<()> {
    let inputs = inputs! { "x" => X, "y" => Y, "A" => A, "B" => B };
    for (call, expected) in calls() {
        let function = Function::parse(&format!("{DECLARED}{call}"))?;
        let results = function.eval(&inputs)?;
        let found = results["value"].as_tensor().expect("a tensor").data().to_vec();
        assert_eq!(found.len(), expected.len(), "{call}: {found:?} for {expected:?}");
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() <= 1e-14 * b.abs().max(1.0), "{call}: {found:?} for {expected:?}");
        }
        let kernel = function.kernel(&inputs).engine(Engine::Interpreter).build()?;
        let found = kernel.call(&inputs)?;
        for (a, b) in found["value"].as_tensor().expect("a tensor").data().iter().zip(&expected) {
            assert!((a - b).abs() <= 1e-14 * b.abs().max(1.0), "{call} by a kernel: {a} for {b}");
        }
    }
    Ok(())
}

#[test]
fn all_are_called() {
    let calls = calls();
    let library = include_str!("../../src/surface/prelude.iv");
    let names = library.lines().filter_map(|line| line.strip_prefix("def ")?.split_once('('));
    for (name, _) in names {
        assert!(calls.iter().any(|(call, _)| call.starts_with(&format!("{name}("))), "{name}");
    }
}

/// Of a sum of the values, for open sizes.
#[test]
fn gradients() -> iverson::Result<()> {
    let mut text = String::new();
    let declared = "param x : [n] real\nparam y : [n] real\nparam a : real\nparam s : [2*n] real\nparam k : [m] real\nparam t : [n + m - 1] real\n\
                    param A : [n, m] real\nparam B : [m, m] real\nparam K : [2, 2] real\nparam S : [2*n, 2*m] real\nparam P2 : [n + 2, m + 2] real\nparam u : [n + 2] real\nparam c : real\nparam P : [n + 1, m + 1] real\nparam v : [3] real\nparam z : [3] real\nassume n >= 1\nassume m >= 1\n";
    for (call, by) in [
        ("dot(x, y)", "x"),
        ("squared_norm(x)", "x"),
        ("norm(x)", "x"),
        ("norm1(x)", "x"),
        ("squared_distance(x, y)", "x"),
        ("distance(x, y)", "x"),
        ("cosine(x, y)", "x"),
        ("variance(x)", "x"),
        ("covariance(x, y)", "x"),
        ("correlation(x, y)", "x"),
        ("sum(y * cumsum(x))", "x"),
        ("sum(y * cummax(x))", "x"),
        ("sum(y * cumprod(x))", "x"),
        ("prod(x)", "x"),
        ("cross(v, z) @ z + squared_norm(cross(v, z))", "v"),
        ("sum(outer(x, y))", "x"),
        ("sum(kron(A, B)^2)", "A"),
        ("sum(khatri_rao(A, B)^2)", "A"),
        ("trace(B)", "B"),
        ("sum(matvec(A, k))", "A"),
        ("sum(matmul(A, B))", "B"),
        ("sum(conv(t, k))", "k"),
        ("sum(conv2d(P, K))", "K"),
        ("sum(y * conv_same(x, k))", "x"),
        ("sum(conv_full(x, k)^2)", "k"),
        ("sum(max_pool(s))", "s"),
        ("sum(mean_pool(s))", "s"),
        ("sum(mean_pool2d(S))", "S"),
        ("sum(max_pool2d(S))", "S"),
        ("squared_norm(laplacian(u))", "u"),
        ("sum(laplacian2d(P2)^2)", "P2"),
        ("total_variation(x)", "x"),
        ("clip(a, -1, 1)", "a"),
        ("relu(a)", "a"),
        ("leaky_relu(a, 0.1)", "a"),
        ("elu(a)", "a"),
        ("silu(a)", "a"),
        ("gelu(a)", "a"),
        ("huber(a, 2)", "a"),
        ("pinball(a, 0.9)", "a"),
        ("hinge(a)", "a"),
        ("logistic_loss(a, 1)", "a"),
        ("poisson_loss(a, 3)", "a"),
        ("negative_binomial_loss(a, 3, 2)", "a"),
        ("cross_entropy(x, y)", "x"),
        ("kl(x, y)", "y"),
        ("matern32(a, c)", "a"),
        ("matern52(a, c)", "a"),
        ("rbf(x, y, a)", "x"),
        ("logsumexp(x)", "x"),
        ("sum(y * softmax(x))", "x"),
        ("sum(y * log_softmax(x))", "x"),
        ("sum(y * layer_norm(x, 1e-5))", "x"),
    ] {
        let gradient = Function::parse(&format!("{declared}{call}"))?.gradient([by])?.to_string();
        let body: Vec<&str> =
            gradient.lines().filter(|line| !line.starts_with("param ") && !line.starts_with("assume ")).collect();
        text += &format!("{call} by {by}\n    {}\n\n", body.join("\n    "));
    }
    insta::assert_snapshot!(text);
    Ok(())
}

/// Rows of which nothing is left but -inf, as the page of the library has them: values and gradients, on all engines, simplified and not.
#[test]
fn rows_of_nothing() -> iverson::Result<()> {
    let (none, p, q) = (f64::NEG_INFINITY, 1.0 / (1.0 + 1_f64.exp()), 1.0 / (1.0 + (-1_f64).exp()));
    let total = 2.0 + (-1_f64).exp().ln_1p();
    let rows = [[1.0, 2.0], [none, none], [none, 3.0]];
    let mut inputs = inputs! { "A" => rows, "w" => [1.0, 2.0, -1.0], "U" => [[1.0, 3.0], [1.0, 1.0], [2.0, 5.0]] };
    inputs.relation("R", Relation::from_tuples(&[3, 2], &[[0, 0], [0, 1], [2, 1]])?);
    let whole = inputs! { "A" => [[1.0, 2.0], [7.0, 8.0], [9.0, 3.0]], "w" => [1.0, 2.0, -1.0], "U" => [[1.0, 3.0], [1.0, 1.0], [2.0, 5.0]] };
    let mut masked = whole;
    masked.relation("R", Relation::from_tuples(&[3, 2], &[[0, 0], [0, 1], [2, 1]])?);
    let declared = "param A : [m, n] real\nrel R : [m, n]\nparam w : [m] real\nparam U : [m, n] real\n\
                    def total(a) = if max(a) <= -inf then -inf else logsumexp(a)\n\
                    def part(a) = [not max(a) <= -inf] * softmax(a)\n";
    // The gradient of a sum of logarithms is that of where there is something: the rest is masked.
    let logarithms = [p, q, 0.0, 0.0, 0.0, -1.0];
    let slope = 2.0 * p * q;
    for (body, at, value, by_a) in [
        ("sum i < m. [total(A[i, :]) > -inf] * w[i] * total(A[i, :])", &inputs, total - 3.0, logarithms),
        ("sum i < m. exp(total(A[i, :]))", &inputs, total.exp() + 3_f64.exp(), {
            [1_f64.exp(), 2_f64.exp(), 0.0, 0.0, 0.0, 3_f64.exp()]
        }),
        ("sum i < m. exp(total(gen j < n. if R(i, j) then A[i, j] else -inf))", &masked, total.exp() + 3_f64.exp(), {
            [1_f64.exp(), 2_f64.exp(), 0.0, 0.0, 0.0, 3_f64.exp()]
        }),
        ("sum i < m. sum(U[i, :] * part(A[i, :]))", &inputs, p + 3.0 * q + 5.0, {
            [-slope, slope, 0.0, 0.0, 0.0, 0.0]
        }),
        ("sum i < m. sum(U[i, :] * part(gen j < n. if R(i, j) then A[i, j] else -inf))", &masked, p + 3.0 * q + 5.0, {
            [-slope, slope, 0.0, 0.0, 0.0, 0.0]
        }),
    ] {
        let function = Function::parse(&format!("{declared}{body}"))?;
        let request = Request { with_value: true, ..Request::new(Mode::Gradient, &["A"]) };
        for simplify in [request.simplify.clone(), None] {
            let gradient = function.derive(&Request { simplify, ..request.clone() })?.function;
            let mut found = vec![gradient.eval(at)?];
            for engine in [Engine::Interpreter, Engine::Native] {
                found.push(gradient.kernel(at).engine(engine).build()?.call(at)?);
            }
            for results in found {
                let own = results["value"].as_scalar().expect("a number");
                assert!((own - value).abs() <= 1e-13 * value.abs(), "{body}: {own} for {value}");
                let own = results["grad_A"].as_tensor().expect("a tensor").data();
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-13 * b.abs().max(1.0);
                assert!(own.iter().zip(&by_a).all(near), "{body}: {own:?} for {by_a:?}");
            }
        }
    }
    Ok(())
}

/// A definition of the user takes the place of one of the library; a parameter may have its name.
#[test]
fn names_are_free() -> iverson::Result<()> {
    let own = Function::parse("param norm : [n] real\ndef clip(x : real) : real = x / 2\nsum(clip(norm))")?;
    let found = own.eval(&inputs! { "norm" => [1.0, 2.0] })?;
    assert_eq!(found["value"].as_scalar(), Some(1.5));
    Ok(())
}

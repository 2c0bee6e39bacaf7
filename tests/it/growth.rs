//! How the loops of values and gradients grow with the sizes of a program, all of them alike: as the sums that were written, and no faster.

use iverson::kernel::Engine;
use iverson::stages::Stages;
use iverson::{Error, Function};

use crate::kernels::fitting;
use crate::support::Numbers;

/// Programs, and the power of the size by which their loops grow.
const PROGRAMS: [(&str, &str, f64); 7] = [
    (
        "batch normalisation and relu",
        "param x : [n, d] real
         param w : [d] real
         let mu = gen j < d. mean i < n. x[i, j]
         let v = gen j < d. mean i < n. (x[i, j] - mu[j])^2
         sum i < n. (sum j < d. relu((x[i, j] - mu[j]) / sqrt(v[j] + 1)) * w[j])^2",
        2.0,
    ),
    ("logarithm of a sum of exponentials", "param x : [n] real\nlogsumexp(x)", 1.0),
    (
        "softmax of a product",
        "param A : [n, d] real
         param B : [d, m] real
         param y : [n, m] real
         let p = softmax(A @ B)
         sum((p - y)^2)",
        3.0,
    ),
    (
        "two steps over neighbours",
        "param u : [n + 4, n + 4] real
         let v = gen i < n + 2, j < n + 2. u[i + 1, j] + u[i + 1, j + 2] + u[i, j + 1] + u[i + 2, j + 1]
         let w = gen i < n, j < n. v[i + 1, j] + v[i + 1, j + 2] + v[i, j + 1] + v[i + 2, j + 1]
         sum(w^2)",
        2.0,
    ),
    (
        "pooling",
        "param x : [2 * n, 2 * n] real
         param y : [n, n] real
         sum i < n, j < n. ((max p < 2. max q < 2. x[2 * i + p, 2 * j + q]) - y[i, j])^2",
        2.0,
    ),
    (
        "partial likelihood of those at risk",
        "param x : [n] real
         param e : [n] real
         let risk = gen i < n. sum j < n. [i <= j] * exp(x[j])
         sum i < n. e[i] * (ln(risk[i]) - x[i])",
        1.0,
    ),
    (
        "sums of all earlier rows",
        "param x : [n, n] real
         param y : [n, n] real
         sum i < n, k < n. ((sum j < i. x[j, k]) - y[i, k])^2",
        2.0,
    ),
];

/// How many iterations the loops of a kernel take at a size.
fn iterations(function: &Function, size: i64) -> f64 {
    let inputs = fitting(function, size, &mut Numbers::new(1, true));
    match function.kernel(&inputs).engine(Engine::Interpreter).limit(0).build() {
        Err(Error::Limit { found, .. }) => found as f64,
        other => panic!("{other:?}"),
    }
}

#[test]
fn loops_grow_as_the_sums_that_were_written() {
    for (name, text, power) in PROGRAMS {
        let function = Function::parse(text).expect("it is right");
        let wrt: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
        for function in [function.value_and_gradient(&wrt).expect("one real result"), function] {
            let ratio = iterations(&function, 128) / iterations(&function, 32);
            assert!(ratio.log(4.0) < power + 0.2, "{name}: loops grow by the power {}", ratio.log(4.0));
        }
    }
}

/// A quotient is nothing where its dividend is, whatever the divisor: its sums run over entries.
#[test]
fn quotients_are_walked_as_their_dividends() {
    let text = "param A : csr [n, n] real
                param r : [n] real
                param out : [n] real
                gen j < n. sum i < n. A[i, j]^2 * r[i] / out[i]";
    let function = Function::parse(text).expect("it is right");
    let nests = function.loops(&mut Stages::new()).expect("small").to_string();
    assert!(nests.contains("in rows A?(1, 0)") && !nests.contains("find"), "{nests}");
}

//! Axes that are short where a program is bound: they are literals in its nests, and results are those of the language.

use iverson::ir::loops::{Domain, Stmt};
use iverson::tensor::Inputs;
use iverson::{Function, Mode, Request};

use crate::kernels::{fitting_sizes, judge_itself};
use crate::support::{Numbers, compile};

/// A mixture with diagonal covariances, distances, products of which a factor is narrow, sums of rows, and pooled rows.
const PROGRAMS: [&str; 5] = [
    "param X : [n, d] real
     param w : [k] real
     param M : [k, d] real
     param L : [k, d] real
     sum i < n. logsumexp(gen a < k. w[a] - (sum e < d. exp(L[a, e]) * (X[i, e] - M[a, e])^2))",
    "param x : [n, d] real
     param q : [k, d] real
     sum i < n. (sum j < k. exp(-(sum e < d. (x[i, e] - q[j, e])^2)))^2",
    "param X : [n, d] real
     param W : [d, k] real
     param y : [n, k] real
     sum i < n, j < k. ((sum e < d. X[i, e] * W[e, j]) - y[i, j])^2",
    "param X : [n, d] real
     param y : [n] real
     sum i < n. ((sum e < d. X[i, e]^2) - y[i] * (max e < d. X[i, e]))^2",
    "param x : [k, 2 * n] real
     param y : [k, n] real
     sum j < k, i < n. ((max e < 2, f < 2. x[j, 2 * i + f] * x[j, 2 * i + e]) - y[j, i])^2",
];

fn inputs(function: &Function, [n, d, k]: [i64; 3]) -> Inputs {
    let size = |name: &str| match name {
        "n" => n,
        "d" => d,
        _ => k,
    };
    fitting_sizes(function, &size, &mut Numbers::new(7, false))
}

fn with_gradients(text: &str) -> Function {
    let function = compile(text);
    let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = Request { with_value: true, ..Request::new(Mode::Adjoint, &wrt) };
    function.derive(&request).expect("it has gradients").function
}

#[test]
fn results_are_those_of_the_language() {
    for (k, text) in PROGRAMS.iter().enumerate() {
        let function = with_gradients(text);
        for sizes in [[70, 2, 9], [66, 6, 1], [5, 3, 64], [65, 8, 17], [33, 64, 32]] {
            judge_itself(&function, &inputs(&function, sizes), false)
                .unwrap_or_else(|why| panic!("{k} {sizes:?}: {why}"));
        }
        for sizes in [[70, 2, 9], [64, 24, 16]] {
            judge_itself(&function, &inputs(&function, sizes), true)
                .unwrap_or_else(|why| panic!("{k} {sizes:?} as native code: {why}"));
        }
    }
}

/// How many loops have this many values, as literals from 0 on.
fn loops_of(function: &Function, sizes: [i64; 3], values: i64) -> usize {
    let program = function.loops_for(&inputs(function, sizes)).expect("it has nests");
    let mut found = 0;
    for stmt in program.nests.iter().flat_map(|nest| &nest.body) {
        stmt.visit(&mut |stmt| {
            if let Stmt::For { domain: Domain::Range { upper, .. }, .. } = stmt {
                let last = upper.iter().find_map(|bound| bound.numerator.as_constant());
                found += usize::from(last == Some(values - 1));
            }
        });
    }
    found
}

#[test]
fn short_axes_are_literals_beside_long_ones() {
    let function = compile(PROGRAMS[0]);
    assert!(loops_of(&function, [1000, 6, 30], 6) > 0);
    assert!(loops_of(&function, [1000, 6, 32], 32) > 0);
    assert_eq!(loops_of(&function, [1000, 6, 33], 33), 0, "it is long");
    assert_eq!(loops_of(&function, [40, 6, 30], 6), 0, "all axes are short");
}

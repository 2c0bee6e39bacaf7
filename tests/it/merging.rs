//! Sums over places that all of several relations have, or any of them: searches that go on where the last one ended or were made when relations
//! were bound, and loops over one relation after the other, find what the reference evaluator finds, on both engines, exactly on integers.

use iverson::Function;
use iverson::ir::stages::Stages;

use crate::kernels::{fitting, judge_itself};
use crate::support::Numbers;

/// Programs over places that all of several relations have, and how many searches go on or are bound.
const INTERSECTIONS: [(&str, usize); 8] = [
    (
        "param A : csr [n, m] real\nparam B : csr [n, m] real\nparam x : [m] real\nsum i < n, j < m. A[i, j] * B[i, j] * x[j]",
        1,
    ),
    ("param A : csr [n, m] real\nparam B : csr [n, m] real\ngen j < m. sum i < n. A[i, j] * B[i, j]", 1),
    (
        "param A : csr [n, m] real\nrel R : [n, m]\nparam x : [m] real\ngen i < n. sum j < m. [R(i, j)] * A[i, j] * x[j]",
        1,
    ),
    ("param A : csr [n, n] real\nsum i < n, j < n. A[i, j] * A[j, i]", 1),
    ("param A : csr [n, m] real\ngen i < n. sum j < m - 1. A[i, j] * A[i, j + 1]", 1),
    ("param A : csr [n, m] real\nparam B : csr [l, m] real\ngen i < n, k < l. sum j < m. A[i, j] * B[k, j]", 0),
    ("param S : coo [n, m, l] real\nparam T : coo [n, m, l] real\nsum i < n, j < m, k < l. S[i, j, k] * T[i, j, k]", 2),
    ("param A : csr [n, m] real\nparam u : coo [n] real\nsum i < n, j < m. u[i] * A[i, j]^2", 0),
];

/// Programs over places that any of several relations and bands has, and how many searches go on or are bound. No loop takes all columns `m`.
const UNIONS: [(&str, usize); 12] = [
    ("param A : csr [n, m] real\nparam B : csr [n, m] real\nsum i < n, j < m. (A[i, j] - B[i, j])^2", 2),
    (
        "param A : csr [n, m] real\nparam B : csr [n, m] real\nparam x : [m] real\n\
         gen i < n. sum j < m. (A[i, j] + 2 * B[i, j]) * x[j]",
        2,
    ),
    ("param A : csr [n, m] real\nparam B : csr [n, m] real\ngen i < n, j < m. A[i, j] + B[i, j]", 2),
    (
        "param A : csr [n, m] real\nparam B : csr [n, m] real\nparam C : csr [n, m] real\n\
         sum i < n, j < m. abs(A[i, j] - B[i, j] + C[i, j])",
        6,
    ),
    ("param A : csr [n, m] real\nparam d : [n] real\nsum i < n, j < m. abs(A[i, j] + [i = j] * d[i])", 0),
    ("param A : csr [n, n] real\nsum i < n, j < n. (A[i, j] + A[j, i])^2", 2),
    (
        "param S : coo [n, m, l] real\nparam T : coo [n, m, l] real\nsum i < n, j < m, k < l. (S[i, j, k] - T[i, j, k])^2",
        4,
    ),
    (
        "param d : [n] real\nparam e : [n] real\nparam x : [m] real\n\
         gen i < n. sum j < m. ([j = i] * d[i] + [j = i + 1] * e[i])^2 * x[j]",
        0,
    ),
    (
        "param A : csr [m, n] real\nparam B : csr [m, n] real\nparam y : [m] real\n\
         gen j < n. sum i < m. abs(A[i, j] - B[i, j]) * y[i]",
        2,
    ),
    (
        "param A : csr [n, m] real\nparam B : csr [n, m] real\nrel R : [n, m]\n\
         sum i < n, j < m. [R(i, j)] * (A[i, j] + B[i, j])^2",
        2,
    ),
    ("param A : csr [n, m] real\nrel R : [n, m]\nsum i < n, j < m. [A?(i, j) or R(i, j)] * (A[i, j] + 1)^2", 1),
    (
        "param A : csr [n, m] real\nparam B : csr [n, m] real\nparam x : [m] real\n\
         let t = gen i < n, j < m. abs(A[i, j] - B[i, j])\n\
         in sum i < n. (sum j < m. t[i, j] * x[j]) * (sum j < m. t[i, j])",
        4,
    ),
];

#[test]
fn intersections() {
    for (text, searches) in INTERSECTIONS {
        judge_all(text, searches);
    }
}

#[test]
fn unions() {
    for (text, searches) in UNIONS {
        let nests = judge_all(text, searches);
        assert!(!nests.contains(".. m - 1"), "{text}\n{nests}");
    }
}

/// Judges a program and its derivatives by all parameters; gives its nests.
fn judge_all(text: &str, searches: usize) -> String {
    let mut numbers = Numbers::new(7, true);
    let function = Function::parse(text).expect("it compiles");
    let nests = function.loops(&mut Stages::new()).expect("it lowers").to_string();
    let found = [", onwards", ", bound in neighbours"].map(|how| nests.matches(how).count());
    assert_eq!(found.iter().sum::<usize>(), searches, "{text}\n{nests}");
    let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    let adjoint = function.adjoint(&wrt).expect("it has an adjoint");
    for size in [0, 1, 2, 3, 5, 8, 13, 40] {
        for function in [&function, &adjoint] {
            let inputs = fitting(function, size, &mut numbers);
            let judgement = judge_itself(function, &inputs, true);
            judgement.unwrap_or_else(|error| panic!("{text}\nsize {size}\n{error}"));
        }
    }
    nests
}

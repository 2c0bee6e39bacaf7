//! Sums over places that several relations have: searches that go on where the last one ended find what the reference evaluator finds, on
//! both engines, exactly on integers.

use iverson::Function;
use iverson::stages::Stages;

use crate::kernels::{fitting, judge};
use crate::support::Numbers;

/// Programs, and how many of their searches go on; the derivatives by all parameters are judged too.
const PROGRAMS: [(&str, usize); 8] = [
    (
        "param A : csr [n, m] real\nparam B : csr [n, m] real\nparam x : [m] real\nsum i < n, j < m. A[i, j] * B[i, j] * x[j]",
        1,
    ),
    ("param A : csr [n, m] real\nparam B : csr [n, m] real\ngen j < m. sum i < n. A[i, j] * B[i, j]", 0),
    (
        "param A : csr [n, m] real\nrel R : [n, m]\nparam x : [m] real\ngen i < n. sum j < m. [R(i, j)] * A[i, j] * x[j]",
        1,
    ),
    ("param A : csr [n, n] real\nsum i < n, j < n. A[i, j] * A[j, i]", 0),
    ("param A : csr [n, m] real\ngen i < n. sum j < m - 1. A[i, j] * A[i, j + 1]", 1),
    ("param A : csr [n, m] real\nparam B : csr [l, m] real\ngen i < n, k < l. sum j < m. A[i, j] * B[k, j]", 1),
    ("param S : coo [n, m, l] real\nparam T : coo [n, m, l] real\nsum i < n, j < m, k < l. S[i, j, k] * T[i, j, k]", 2),
    ("param A : csr [n, m] real\nparam u : coo [n] real\nsum i < n, j < m. u[i] * A[i, j]^2", 1),
];

#[test]
fn intersections() {
    let mut numbers = Numbers::new(7, true);
    for (text, searches) in PROGRAMS {
        let function = Function::parse(text).expect("it compiles");
        let nests = function.loops(&mut Stages::new()).expect("it lowers").to_string();
        assert_eq!(nests.matches(", onwards").count(), searches, "{text}\n{nests}");
        let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
        let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
        let adjoint = function.adjoint(&wrt).expect("it has an adjoint");
        for size in [0, 1, 2, 3, 5, 8, 13, 40] {
            for function in [&function, &adjoint] {
                let inputs = fitting(function, size, &mut numbers);
                let judgement = judge(function, &inputs, true, true);
                judgement.unwrap_or_else(|error| panic!("{text}\nsize {size}\n{error}"));
            }
        }
    }
}

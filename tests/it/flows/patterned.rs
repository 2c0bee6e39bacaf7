//! Values that are made of a sparse matrix before a loop: on what they are stored, and what becomes of derivatives.

use iverson::ir::flow;
use iverson::ir::ty::Storage;
use iverson::{Function, Mode, Request};

use super::{inputs, judge, usual};

const PARAMS: &str = "param A : csr [n, n] real\nparam y : [n] real\nparam d : [n] real\nsize T\n";

/// Programs with the values that are stored on the pattern of `A`.
const PROGRAMS: [(&str, &str, &[&str]); 6] = [
    ("rows", "let S = gen i < n, j < n. A[i, j] / (2 + d[i]) in sum(fold t < T, r = y. S @ r + y)", &["S"]),
    (
        "both sides",
        "let S = gen i < n, j < n. A[i, j] * d[i] / (3 + d[j]) in sum(fold t < T, r = y. S' @ r + S @ y)",
        &["S"],
    ),
    ("a function", "let S = gen i < n, j < n. tanh(A[i, j]) in sum(fold t < T, r = y. S @ r + y)", &["S"]),
    ("a sum", "let S = gen i < n, j < n. A[i, j] / 4 + sin(A[i, j]) in sum(fold t < T, r = y. S @ r + y)", &["S"]),
    // Other elements are not zero, or belong to a first state.
    ("more than it", "let S = gen i < n, j < n. A[i, j] + d[i] in sum(fold t < T, r = y. S @ r / n)", &[]),
    (
        "a first state",
        "let S = gen i < n, j < n. A[i, j] / (2 + d[i]) in sum(fold t < T, r = S. gen i < n, j < n. r[i, j] * d[j])",
        &[],
    ),
];

/// The names of values that are not dense.
fn sparse(flow: &flow::Program) -> Vec<&str> {
    let is_sparse = |value: &&flow::Value| value.storage != Storage::Dense;
    flow.values.values().filter(is_sparse).map(|value| value.name.as_str()).collect()
}

#[test]
fn values_on_patterns() {
    for (name, text, stored) in PROGRAMS {
        let function = Function::parse(&format!("{PARAMS}{text}")).unwrap_or_else(|error| panic!("{name}: {error}"));
        let simple = flow::on_patterns(function.flow().expect("it has a loop")).expect("it is small");
        simple.verify().unwrap_or_else(|violations| panic!("{name}: {violations:?}\n{simple}"));
        assert_eq!(sparse(&simple), stored, "{name}:\n{simple}");
        let given = inputs(&function, &[("n", 5), ("T", 3)], &usual, &[]);
        judge(name, &function, &given);
        // What is owed to such a value is on the pattern too.
        let request = Request::new(Mode::Adjoint, &["A", "y", "d"]);
        let adjoint = function.derive(&request).expect("it has one").function;
        let kernels = adjoint.flow_of_kernels().expect("it is small").expect("it has loops");
        let is_square = |value: &&flow::Value| {
            kernels.frame.types.real_dims(value.ty).is_some_and(|dims| dims.len() == 2 && dims[0] == dims[1])
        };
        let squares = kernels.values.values().filter(is_square).filter(|value| value.storage == Storage::Dense).count();
        assert!(stored.is_empty() || squares == 0, "{name}:\n{kernels}");
    }
}

//! What is zero for the sizes alone: a table of programs and sizes, and the statements that are left.

use iverson::Function;
use iverson::ir::tssa::vanishing::without_vanishing;
use iverson::kernel::Engine;
use iverson::tensor::{Csr, Inputs, Precision, Tensor, Value};

/// A body, values of `n` and `m`, and whether it is zero for them.
type Case = (&'static str, &'static [(i64, i64)], bool);

/// Bodies over `x: [n]`, `y: [m]`, the sparse `S: [n, n]`, a relation `E` and a map `f`.
const CASES: &[Case] = &[
    ("sum j < m. y[j]", &[(3, 0)], true),
    ("sum j < m. y[j]", &[(3, 1), (0, 1)], false),
    ("sum j < m. [j + 2 <= m] * y[j]", &[(3, 1)], true),
    ("sum j < m. [j + 2 <= m] * y[j]", &[(3, 2), (3, 1000)], false),
    // An `or` fails where both sides do.
    ("sum j < m. [n = 0 or 0 < j] * y[j]", &[(2, 1)], true),
    ("sum j < m. [n = 0 or 0 < j] * y[j]", &[(0, 1), (2, 2)], false),
    ("sum j < m. [(n = 3 or n = 4) and (0 < j or m = 2)] * y[j]", &[(5, 7), (3, 1)], true),
    ("sum j < m. [(n = 3 or n = 4) and (0 < j or m = 2)] * y[j]", &[(3, 7), (4, 2)], false),
    ("sum j < m. [exists k < n. j = k + 1] * y[j]", &[(4, 1), (0, 5)], true),
    ("sum j < m. [exists k < n. j = k + 1] * y[j]", &[(1, 2), (900, 800)], false),
    // No integers, in a small box and in large ones.
    ("sum j < m. [exists k < n. 2 * j = 2 * k + 1] * y[j]", &[(3, 3), (1000, 1000), (1 << 40, 1 << 40)], true),
    ("sum j < m. [exists k < n. 3 * j = 2 * k + 1] * y[j]", &[(3, 3), (1000, 1000), (1 << 40, 1 << 40)], false),
    ("sum j < m, k < n. [j < k and k < j] * y[j]", &[(5, 5), (1 << 40, 1 << 40)], true),
    ("sum j < m, k < n. [j < k and k < j + 2] * y[j]", &[(5, 5), (1 << 40, 1 << 40)], false),
    // What relations and maps say is left out.
    ("sum j < n. [E(j, 0) and not E(j, 0)] * x[j]", &[(1, 1)], true),
    ("sum j < n, k < n. [E(j, 0) and not E(k, 0)] * x[j]", &[(1, 1)], false),
    ("sum j < n, k < m. [f(j) = k and k = 1] * x[j]", &[(1, 1)], true),
    ("sum j < n, k < m. [f(j) = k] * x[j]", &[(1, 1)], false),
    ("sum j < n. [S?(j, j)] * S[j, j]", &[(1, 1)], false),
    // What additions, products and functions that keep zero make of such zeros.
    ("(sum j < m. y[j]) + (sum j < m. sin(y[j]))", &[(3, 0)], true),
    ("(sum j < m. y[j]) + (sum j < n. x[j])", &[(3, 0), (0, 1)], false),
    ("sqrt(sum j < m. y[j])", &[(3, 0)], true),
    ("exp(sum j < m. y[j])", &[(3, 0)], false),
    ("(sum j < m. y[j]) / (sum j < n. x[j])", &[(3, 0)], true),
    ("real(n - m)", &[(3, 3)], true),
    ("real(n - m)", &[(3, 2)], false),
];

#[test]
fn what_is_zero_for_the_sizes_annihilates() {
    for (body, sizes, expected) in CASES {
        let text = format!(
            "param x : [n] real\nparam y : [m] real\nparam S : csr [n, n] real\nrel E : [n, m]\nmap f : [n] -> [m]\nparam z : real\nz * ({body})"
        );
        let function = Function::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let program = function.tensor_ssa();
        for (n, m) in *sizes {
            let size = |at| if program.signature.sizes[at] == "n" { Ok(*n) } else { Ok(*m) };
            let left = without_vanishing(program, &size).expect("it is known");
            let zero = left.is_some_and(|left| !left.to_string().contains("input z"));
            assert_eq!(zero, *expected, "{body} for n = {n}, m = {m}\n{program}");
        }
    }
}

#[test]
fn patterns_leave_out_what_is_zero_for_the_sizes() {
    let text = "param S : csr [n, n] real\nparam y : [m] real\ngen i < n, k < n. S[i, k] * (sum j < m. y[j])";
    let mut assembly =
        Function::parse(text).and_then(|function| function.assemble(&["value"])).expect("it can be sparse");
    for (y, expected) in [(vec![], vec![]), (vec![1.5, 0.5], vec![f64::INFINITY, 6.0])] {
        let mut inputs = Inputs::new();
        let matrix = Csr::new(2, 2, vec![0, 1, 2], vec![1, 0], vec![f64::INFINITY, 3.0]).expect("it is valid");
        inputs.value("S", Value::from(Tensor::from(matrix))).value("y", Value::vector(y));
        let results = assembly.bind(&inputs, Engine::Interpreter).and_then(|kernel| kernel.call(&inputs));
        let results = results.expect("it runs");
        assert_eq!(*results[0].1.leaves()[0].data(), *expected);
        // What is asked of precision is kept for other sizes.
        assembly.store_in_single(&["value"]).expect("it is a result");
        let results = assembly.bind(&inputs, Engine::Interpreter).and_then(|kernel| kernel.call(&inputs));
        let results = results.expect("it runs");
        let result = &results[0].1.leaves()[0];
        assert_eq!((result.precision(), result.data()), (Precision::Single, &expected[..]));
    }
}

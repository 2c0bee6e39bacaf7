//! Sums along other views of matrices, with their terms in bins and without: the same bits from both engines, and what the reference evaluator
//! gives. Bins of a few entries stand for those of thousands.

use std::sync::Arc;

use iverson::ir::codegen::source::{Target, source};
use iverson::ir::loops::{Bins, Program};
use iverson::ir::reference;
use iverson::ir::stages::Stages;
use iverson::kernel::{Engine, Kernel};
use iverson::{Error, Function};

use crate::kernels::{fitting, numbers};
use crate::support::{Numbers, at_binding};

/// Programs, and how many sums have their terms in bins.
const PROGRAMS: [(&str, usize); 16] = [
    ("param X : csr [n, m] real\nparam s : [n] real\ngen j < m. sum i < n. X[i, j] * s[i]", 1),
    (
        "param X : csr [n, m] real\nparam s : [n] real\nparam v : [m] real\ngen j < m. v[j] * (sum i < n. X[i, j] * s[i])",
        1,
    ),
    ("param X : csr [n, m] real\ngen j < m. sum i < n. 2 * X[i, j]^2 + 3 * X[i, j]", 1),
    // A number of the column that was read before.
    (
        "param X : csr [n, m] real\nparam s : [n] real\nparam v : [m] real\ngen j < m. sum i < n. X[i, j] * (s[i] + v[j])^2",
        1,
    ),
    ("param X : csr [n, m] real\ngen j < m. sum i < n. X[i, j] * abs(X[i, j]) * (i + 1)", 1),
    ("param X : csr [n, m] real\nparam s : [n] real\ngen j < m. (sum i < n. X[i, j] * s[i], sum i < n. X[i, j]^2)", 1),
    (
        "param X : csr [n, m] real\nrel R : [n, m]\nparam s : [n] real\ngen j < m. sum i < n. [R(i, j)] * X[i, j] * s[i]",
        0,
    ),
    ("param X : csr [n, m] real\nparam s : [n] real\nsum j < m. (sum i < n. X[i, j] * s[i])^2", 1),
    // Two sums over the same rows, which are gone through once.
    (
        "param X : csr [n, m] real\nparam s : [n] real\n\
         (sum j < m. (sum i < n. X[i, j] * s[i])^2) + (sum j < m. (sum i < n. X[i, j]^2)^3)^2",
        1,
    ),
    // In the order of the matrix.
    ("param X : csr [n, m] real\nparam s : [m] real\ngen i < n. sum j < m. X[i, j] * s[j]", 0),
    // Not all columns, so there would be more work.
    ("param X : csr [n, m] real\nparam s : [n] real\nmap f : [p] -> [m]\ngen k < p. sum i < n. X[i, f(k)] * s[i]", 0),
    ("param X : csr [n, m] real\nparam s : [n] real\ngen j < m - 1. sum i < n. X[i, j + 1] * s[i]", 0),
    // A row of numbers for each entry.
    ("param X : csr [n, m] real\nparam D : [n, k] real\ngen j < m, q < k. sum i < n. X[i, j] * D[i, q]", 1),
    (
        "param X : csr [n, m] real\nparam s : [n] real\nparam D : [n, k] real\n\
         gen j < m, q < k. sum i < n. X[i, j]^2 * s[i] * D[i, q]",
        1,
    ),
    // Columns of the terms of rows.
    (
        "param X : csr [n, m] real\nparam U : [n, k] real\nparam V : [m, k] real\n\
         let e = gen i < n, j < m. [X?(i, j)] * (X[i, j] - (sum l < k. U[i, l] * V[j, l])) in\n\
         (gen j < m, l < k. sum i < n. e[i, j] * U[i, l], gen i < n, l < k. sum j < m. e[i, j] * V[j, l])",
        1,
    ),
    ("param S : coo [n, m, l] real\nparam s : [n] real\ngen k < l. sum i < n, j < m. S[i, j, k] * s[i]", 0),
];

fn nests(text: &str) -> (Function, Program) {
    let function = Function::parse(text).expect("it compiles");
    let nests = function.loops(&mut Stages::new()).expect("it lowers");
    (function, nests)
}

#[test]
fn bins_change_no_bit() {
    for (k, (text, count)) in PROGRAMS.into_iter().enumerate() {
        let (function, nests) = nests(text);
        let found = at_binding("bins", &nests, None).to_string();
        assert_eq!(found.matches("= places in bins").count(), count, "{text}\n{found}");
        for size in [0, 1, 3, 8, 35] {
            let inputs = fitting(&function, size, &mut Numbers::new(k as u64, true));
            let expected = numbers(&reference::evaluate(function.tensor_ssa(), &inputs).expect("it is evaluated"));
            for bins in
                [Bins::default(), Bins { least: 0, size: 1 }, Bins { least: 1, size: 5 }, Bins { least: 0, size: 300 }]
            {
                let program = Arc::new(Program { bins, ..nests.clone() });
                for engine in [Engine::Interpreter, Engine::Native] {
                    let kernel = Kernel::bind(Arc::clone(&program), &inputs, engine).expect("it binds");
                    let found = numbers(&kernel.call(&inputs).expect("it runs"));
                    assert_eq!(found, expected, "{text} at size {size}, {bins:?}, {engine:?}");
                }
            }
        }
    }
}

/// Rounded terms: the same numbers with bins, without, and where the matrix is constant.
#[test]
fn terms_are_rounded_alike() -> Result<(), Error> {
    for (text, _) in PROGRAMS {
        let (function, nests) = nests(text);
        let inputs = fitting(&function, 35, &mut Numbers::new(5, false));
        let bits = |program: Program, constants: &[&str]| -> Result<Vec<u64>, Error> {
            let kernel = Kernel::bind_with_constants(Arc::new(program), &inputs, constants, Engine::Native)?;
            Ok(numbers(&kernel.call(&inputs)?).into_iter().map(f64::to_bits).collect())
        };
        let expected = bits(nests.clone(), &[])?;
        let binned = Program { bins: Bins { least: 0, size: 7 }, ..nests.clone() };
        let matrix = if text.contains("param X") { "X" } else { "S" };
        assert_eq!(bits(binned.clone(), &[])?, expected, "{text}");
        assert_eq!(bits(nests, &[matrix])?, expected, "{text}");
        assert_eq!(bits(binned.clone(), &[matrix])?, expected, "{text}");
        assert_eq!(bits(binned, &["s"]).unwrap_or_else(|_| expected.clone()), expected, "{text}");
    }
    Ok(())
}

/// Both ways are in one source, which asks for what is read soon and stores each term once.
#[test]
fn nests_and_source() {
    let (_, nests) = nests(PROGRAMS[1].0);
    let binned = at_binding("bins", &nests, None);
    insta::assert_snapshot!(binned.explained());
    let text = source(&binned, Target::Module).expect("it is written").text;
    let (_, nests) = text.split_once("pub unsafe extern \"C\" fn nest_0").expect("there are nests");
    assert!(nests.contains("soon("), "{nests}");
}

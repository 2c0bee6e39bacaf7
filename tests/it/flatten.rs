//! Functions of the entries of short rows, computed for all entries: the same bits from both engines, and what stays as it is.

use std::sync::Arc;

use iverson::ir::base::RelationId;
use iverson::ir::codegen::source::{Target, source};
use iverson::ir::index::Size;
use iverson::ir::loops::Program;
use iverson::ir::schedule::Sizes;
use iverson::ir::stages::Stages;
use iverson::kernel::{Engine, Kernel};
use iverson::{Function, Mode, Request};

use crate::kernels::{fitting, numbers};
use crate::support::{Numbers, at_binding};

/// Programs, by what they are differentiated, and how many numbers are taken of rows and given to them.
const PROGRAMS: [(&str, &[&str], [usize; 2]); 14] = [
    // One number of the row; the sum stays in the row.
    (
        "param A : csr [n, n] real\nparam x : [n] real\nsum i < n. (sum j < n. A[i, j] * sin(x[j] - x[i]))^2",
        &[],
        [1, 1],
    ),
    // Sine and cosine of one angle, in two loops.
    (
        "param A : csr [n, n] real\nparam x : [n] real\nsum i < n. (sum j < n. A[i, j] * sin(x[j] - x[i]))^2",
        &["x"],
        [1, 2],
    ),
    // A chain of functions, of which one number is read.
    (
        "param W : csr [n, m] real\nparam s : [n] real\nparam t : [m] real\nsum i < n, j < m. W[i, j] * ln(1 + exp(t[j] - s[i]))",
        &[],
        [1, 1],
    ),
    // Three numbers of a row, beside what functions give: too many to be kept.
    (
        "rel N : [n, n]\nparam x : [n, 3] real\n\
         sum i < n, j < n. [N(i, j)] * (let r = sqrt(1 + sum d < 3. (x[i, d] - x[j, d])^2) in exp(-r) / r)",
        &[],
        [0, 0],
    ),
    // Rows that have entries, by their numbers.
    ("rel N : [n, n]\nparam x : [n] real\nsum i < n, j < n. [N(i, j)] * exp(x[i] - x[j])", &[], [1, 1]),
    ("rel N : [n, n]\nparam x : [n] real\nsum i < n, j < n. [N(i, j)] * exp(x[i] - x[j])", &["x"], [1, 1]),
    // Nothing is taken of the row.
    ("param A : csr [n, m] real\nparam x : [m] real\ngen i < n. sum j < m. exp(A[i, j] * x[j])", &[], [0, 1]),
    // One function makes what is stored on the entries, another one goes over it.
    (
        "rel A : [n, n]\nparam s : [n] real\nparam t : [n] real\nparam h : [n] real\n\
         let e = gen i < n, j < n. if A(i, j) then tanh(s[i] + t[j]) else 0\n\
         gen i < n. (sum j < n. [A(i, j)] * exp(e[i, j] - max k < n. if A(i, k) then e[i, k] else -inf) * h[j])",
        &[],
        [1, 1],
    ),
    // In the order of columns, which is not that of the entries.
    ("param A : csr [n, m] real\nparam x : [n] real\ngen j < m. sum i < n. A[i, j] * exp(x[i] * j)", &[], [0, 0]),
    ("param A : csc [n, m] real\nparam x : [n] real\ngen j < m. sum i < n. A[i, j] * exp(x[i] * j)", &[], [1, 1]),
    // A sum over each entry of its own.
    (
        "param Y : csr [n, m] real\nparam u : [n, 3] real\nparam v : [m, 3] real\n\
         sum i < n, j < m. [Y?(i, j)] * exp(Y[i, j] * sum k < 3. u[i, k] * v[j, k])",
        &[],
        [0, 1],
    ),
    // Functions of rows and columns alone are computed elsewhere.
    (
        "param A : csr [n, m] real\nparam x : [n] real\nparam y : [m] real\nsum i < n, j < m. A[i, j] * exp(x[i]) * y[j]",
        &[],
        [0, 0],
    ),
    // No functions.
    ("param A : csr [n, n] real\nparam x : [n] real\nsum i < n, j < n. A[i, j] * (x[i] - x[j])^2", &["x"], [0, 0]),
    ("param A : coo [n, m, l] real\nparam x : [n] real\nsum i < n, j < m, k < l. exp(A[i, j, k] * x[i])", &[], [0, 0]),
];

fn nests(text: &str, wrt: &[&str]) -> (Function, Program) {
    let mut function = Function::parse(text).expect("it compiles");
    if !wrt.is_empty() {
        let request = Request { with_value: true, ..Request::new(Mode::Gradient, wrt) };
        function = function.derive(&request).expect("it is differentiated").function;
    }
    let function = function.simplify().expect("it is simplified");
    let nests = function.loops(&mut Stages::new()).expect("it lowers");
    (function, nests)
}

/// The nests for relations that have as many tuples as there are rows.
fn flat(nests: &Program) -> Program {
    let (length, tuples) = (|_: &Size| Some(100), |_: RelationId| Some(100));
    at_binding("flatten", nests, Some(&Sizes { length: &length, tuples: &tuples, cached: 1 }))
}

#[test]
fn no_bit_changes() {
    for (k, (text, wrt, kept)) in PROGRAMS.into_iter().enumerate() {
        let (function, nests) = nests(text, wrt);
        let found = flat(&nests);
        let named = |what: &str| found.buffers.iter().filter(|(_, buffer)| buffer.name.ends_with(what)).count();
        let here = [named("_at_entries"), named("_of_entries")];
        assert_eq!(here, kept, "{text}\n{}", found.explained());
        for size in [0, 1, 3, 8, 35] {
            let inputs = fitting(&function, size, &mut Numbers::new(k as u64, false));
            let mut expected: Option<Vec<u64>> = None;
            for program in [&nests, &found] {
                for engine in [Engine::Interpreter, Engine::Native] {
                    let kernel = Kernel::bind_as_it_is(Arc::new(program.clone()), &inputs, engine).expect("it binds");
                    let found = numbers(&kernel.call(&inputs).expect("it runs"));
                    let found = found.into_iter().map(f64::to_bits).collect();
                    assert_eq!(
                        expected.get_or_insert_with(|| Vec::clone(&found)),
                        &found,
                        "{text} at size {size}, {engine:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn nests_are_these() {
    for (name, k) in [("angles", 1), ("best_of_a_row", 7)] {
        let (text, wrt, _) = PROGRAMS[k];
        insta::assert_snapshot!(name, flat(&nests(text, wrt).1).explained());
    }
}

/// Nests that do nothing with a row are one loop over all entries.
#[test]
fn rows_are_gone_through_at_once() {
    for (text, loops) in [
        (PROGRAMS[0].0, 1),
        ("param A : csr [n, m] real\ngen i < n, j < m. [A?(i, j)] * exp(A[i, j])", 1),
        // Its lanes are added up row by row.
        ("param A : csr [n, m] real\ngen i < n. sum j < m. A[i, j]^2", 0),
    ] {
        let text_of = source(&flat(&nests(text, &[]).1), Target::Module).expect("it is written").text;
        assert_eq!(text_of.matches("= below(s").count(), loops, "{text}\n{text_of}");
    }
}

//! Sums by target in the order of their sources: what the reference evaluator gives, from both engines and on any number of threads with the same bits,
//! with constants and without. A cache of a few numbers stands for one of thousands.

use std::sync::Arc;

use iverson::ir::loops::{Decision, Program};
use iverson::ir::schedule::Sizes;
use iverson::ir::stages::Stages;
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Inputs, bind};
use iverson::{Error, Function};

use crate::judge::{Expected, Ways};
use crate::kernels::{fitting, fitting_sizes, numbers};
use crate::support::{Numbers, at_binding};

/// Programs, and how many sums are scattered at size 25.
const PROGRAMS: [(&str, usize); 11] = [
    // Columns of a matrix by rows.
    ("param X : csr [n, m] real\nparam s : [n] real\ngen j < m. sum i < n. X[i, j] * s[i]", 1),
    (
        "param X : csr [n, m] real\nparam s : [n] real\nparam v : [m] real\ngen j < m. sum i < n. X[i, j] * (s[i] + v[j])^2",
        1,
    ),
    ("param X : csc [n, m] real\nparam s : [m] real\ngen i < n. sum j < m. X[i, j]^2 * s[j]", 1),
    // In the order of the matrix: nothing to be done.
    ("param X : csr [n, m] real\nparam s : [m] real\ngen i < n. sum j < m. X[i, j] * s[j]", 0),
    // Rows of numbers, on two levels.
    (
        "param T : coo [p, q, r] real\nparam D : [p, q, k] real\ngen t < r, l < k. sum i < p, j < q. T[i, j, t] * D[i, j, l]",
        1,
    ),
    // Coordinates that are statements: several sums of the same sources.
    (
        "param T : coo [p, q, r] real\nparam D : [p, q, 2] real\ngen t < r, l < 2. sum i < p, j < q. T[i, j, t] * D[i, j, l]",
        1,
    ),
    // A column that the sum is about is tested: it stays.
    ("param X : csr [n, m] real\nparam s : [n] real\ngen j < m. [j < 3] * (sum i < n. X[i, j] * s[i])", 0),
    // A search meets another relation: it stays.
    (
        "param X : csr [n, m] real\nrel R : [n, m]\nparam s : [n] real\ngen j < m. sum i < n. [R(i, j)] * X[i, j] * s[i]",
        0,
    ),
    ("param X : csr [n, m] real\nparam s : [n] real\nsum j < m. (sum i < n. X[i, j] * s[i])^2", 1),
    // There are as many sums as numbers that are taken: they fit the caches alike.
    ("rel R : [n, m]\nparam s : [n, k] real\ngen j < m, l < k. sum i < n. [R(i, j)] * s[i, l]", 0),
    ("param X : csr [n, m] real\nparam s : [n] real\ngen j < m. max i < n. X[i, j] * s[i]", 0),
];

/// Targets that are found at run time, and those of maps: values with gradients, by which parameters, and how many sums are scattered.
const GRADIENTS: [(&str, &[&str], usize); 7] = [
    ("param p : [n, d] real\nparam c : [5, d] real\nsum i < n. min a < 5. sum e < d. (p[i, e] - c[a, e])^2", &["c"], 1),
    ("param p : [n, d] real\nparam c : [5, d] real\nsum i < n. max a < 5. sum e < d. p[i, e] * c[a, e]", &["c"], 1),
    ("param p : [n] real\nparam c : [5] real\nsum i < n. min a < 5. abs(p[i] - c[a])", &["c"], 1),
    (
        "param x : [n] real\nparam w : [e] real\nmap a : [e] -> [n]\nmap b : [e] -> [n]\nsum k < e. w[k] * (x[a(k)] - x[b(k)])^2",
        &["x"],
        2,
    ),
    // Coordinates that are statements.
    (
        "param x : [n, 3] real\nparam w : [e] real\nmap a : [e] -> [n]\nmap b : [e] -> [n]\nsum k < e. w[k] * (sum c < 3. (x[a(k), c] - x[b(k), c])^2)",
        &["x"],
        2,
    ),
    ("param p : [n, 2] real\nparam c : [5, 2] real\nsum i < n. min a < 5. sum e < 2. (p[i, e] - c[a, e])^2", &["c"], 1),
    // Both coordinates of a place: it is a histogram already.
    (
        "param u : [3, 3] real\nparam w : [e] real\nmap a : [e] -> [2]\nmap b : [e] -> [2]\nsum k < e. (w[k] * u[a(k), b(k)] + u[a(k) + 1, b(k) + 1])^2",
        &["u"],
        1,
    ),
];

fn nests(function: &Function) -> Program {
    function.loops(&mut Stages::new()).expect("it lowers")
}

/// The program with its sums scattered, as for a cache of so many numbers; nothing where none are.
fn scattered(program: &Program, inputs: &Inputs, cached: u64) -> Option<Program> {
    let bindings = bind(&program.signature, inputs).expect("it binds");
    let length = |n: &_| bindings.length(n).ok().map(|n| n as u64);
    let tuples = |r| bindings.relations().get(r).map(|r| r.len() as u64);
    let found = at_binding("scatter", program, Some(&Sizes { length: &length, tuples: &tuples, cached }));
    Some(found).filter(|found| found.nests != program.nests)
}

fn count(program: &Option<Program>) -> usize {
    let decisions = program.iter().flat_map(|program| &program.nests).flat_map(|nest| &nest.decisions);
    decisions.filter(|decision| matches!(decision, Decision::Scattered { .. })).count()
}

fn bits(found: &[f64]) -> Vec<u64> {
    found.iter().map(|x| x.to_bits()).collect()
}

/// Integers, so that sums are exact in any order.
#[test]
fn the_same_numbers() {
    for (k, (text, scatters)) in PROGRAMS.into_iter().enumerate() {
        let function = Function::parse(text).expect("it compiles");
        let program = nests(&function);
        for size in [0, 1, 3, 8, 25] {
            let inputs = fitting(&function, size, &mut Numbers::new(k as u64, true));
            let expected = Expected::of(function.tensor_ssa(), &inputs).expect("it is evaluated");
            let found = scattered(&program, &inputs, 1);
            if size == 25 {
                assert_eq!(count(&found), scatters, "{text}\n{program}");
            }
            let Some(found) = found.map(Arc::new) else { continue };
            assert_eq!(found.unproved(), [""; 0], "{found}");
            for engine in [Engine::Interpreter, Engine::Native] {
                let kernel = Kernel::bind(Arc::clone(&found), &inputs, engine).expect("it binds");
                let found = numbers(&kernel.call(&inputs).expect("it runs"));
                let judged = expected.compare("scattered", &found, Ways::Raw);
                judged.unwrap_or_else(|e| panic!("{text} at size {size}, {engine:?}: {e}"));
            }
        }
    }
}

/// Inputs with many sources for each target.
fn many(function: &Function, numbers: &mut Numbers) -> Inputs {
    let has_edges = function.tensor_ssa().signature.sizes.values().any(|name| name == "e");
    let size = |name: &str| match (name, has_edges) {
        ("e", _) => 90,
        ("n", false) => 70,
        _ => 5,
    };
    fitting_sizes(function, &size, numbers)
}

/// One sum, whoever computes it: both engines, one thread or several, constants or none.
#[test]
fn the_same_bits() -> Result<(), Error> {
    for (k, (text, wrt, expected)) in GRADIENTS.into_iter().enumerate() {
        let function = Function::parse(text)?.value_and_gradient(wrt)?;
        let program = nests(&function);
        let inputs = many(&function, &mut Numbers::new(k as u64, false));
        let found = scattered(&program, &inputs, 1);
        assert_eq!(count(&found), expected, "{text}\n{program}");
        let found = Arc::new(found.expect("sums are scattered"));
        assert_eq!(found.unproved(), [""; 0], "{found}");
        let plain = Expected::of(function.tensor_ssa(), &inputs).expect("it is evaluated");
        let run = |constants: &[&str], engine, threads| -> Result<Vec<f64>, Error> {
            let kernel = Kernel::bind_with_constants(Arc::clone(&found), &inputs, constants, engine)?;
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            Ok(numbers(&pool.install(|| kernel.call(&inputs))?))
        };
        let first = run(&[], Engine::Interpreter, 1)?;
        plain.compare("scattered", &first, Ways::Raw).unwrap_or_else(|e| panic!("{text}: {e}\n{found}"));
        let constant = if text.contains("param w") { "w" } else { "p" };
        for (constants, engine, threads) in [
            (&[][..], Engine::Native, 1),
            (&[][..], Engine::Native, 3),
            (&[constant][..], Engine::Native, 2),
            (&[constant][..], Engine::Interpreter, 1),
        ] {
            let other = run(constants, engine, threads)?;
            assert_eq!(bits(&other), bits(&first), "{text}, {constants:?}, {engine:?}, {threads} threads\n{found}");
        }
    }
    Ok(())
}

/// Few sources for each target: the copies of the sums would be more than what is added.
#[test]
fn few_sources_stay() -> Result<(), Error> {
    let function = Function::parse(GRADIENTS[3].0)?.value_and_gradient(GRADIENTS[3].1)?;
    let inputs = fitting(&function, 5, &mut Numbers::new(0, false));
    assert_eq!(count(&scattered(&nests(&function), &inputs, 1)), 0);
    let inputs = many(&function, &mut Numbers::new(0, false));
    assert_eq!(count(&scattered(&nests(&function), &inputs, 1 << 16)), 0);
    Ok(())
}

#[test]
fn nests_of_both_kinds() -> Result<(), Error> {
    for (name, at) in [("places", 0), ("map", 3)] {
        let (text, wrt, _) = GRADIENTS[at];
        let function = Function::parse(text)?.value_and_gradient(wrt)?;
        let inputs = many(&function, &mut Numbers::new(0, false));
        let found = scattered(&nests(&function), &inputs, 1).expect("sums are scattered");
        insta::assert_snapshot!(name, found.explained());
    }
    Ok(())
}

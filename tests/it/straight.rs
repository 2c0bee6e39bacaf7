//! Rows of much arithmetic, and rows that start in steps: straight-line code in lanes gives the numbers of the reference evaluator, exactly
//! on integers, with any number of rows, on both engines.

use fastrand::Rng;
use iverson::ir::loops::Decision;
use iverson::ir::reference;
use iverson::ir::stages::Stages;
use iverson::kernel::Engine;
use iverson::tensor::{Dense, Inputs, Relation, Value};
use iverson::{Derived, Function, Mode, Request};

use crate::kernels::{fitting, judge_itself};
use crate::support::Numbers;

fn is_straight(function: &Function) -> bool {
    let loops = function.loops(&mut Stages::new()).expect("it lowers");
    loops.nests.iter().flat_map(|nest| &nest.decisions).any(|decision| matches!(decision, Decision::Unrolled { .. }))
}

/// Residuals of observations that read a camera and a point: sums over short axes, with guards on them, one after the other.
pub fn residuals(seed: u64) -> String {
    let mut rng = Rng::with_seed(seed);
    let mut text = "param c : [n, 4] real\nparam x : [n, 3] real\nparam w : [p] real\nmap f : [p] -> [n]\n\
                    map g : [p] -> [n]\nlet t0 = gen o < p, a < 3. x[g(o), a] - c[f(o), a] in\n"
        .to_owned();
    let guards = ["b <= a", "a != b", "a + b = 2", "b = a + 1 or b + 2 = a", "o >= 0 and a >= 1", "a <= b + 3"];
    let factors = ["c[f(o), b]", "w[o]", "x[g(o), a]", "c[f(o), a + 1]", "(w[o] - 2)"];
    for k in 1..8 {
        let mut summand = || {
            let guard = guards[rng.usize(..guards.len())];
            let factor = factors[rng.usize(..factors.len())];
            let other = ["b", "a", "2 - b"][rng.usize(..3)];
            format!("[{guard}] * t{}[o, {other}] * {factor}", rng.usize(..k))
        };
        let (one, two) = (summand(), summand());
        text += &format!("let t{k} = gen o < p, a < 3. sum b < 3. {one} - {two} in\n");
    }
    text + "gen o < p, e < 2. t7[o, e] * t2[o, e + 1] + t6[o, 2 * e] * w[o] - t5[o, 2]"
}

#[test]
fn random_residuals() {
    let mut straight = 0;
    for seed in 0..24 {
        let text = residuals(seed);
        let function = Function::parse(&text).expect("a program");
        straight += usize::from(is_straight(&function));
        for size in [1, 7, 8, 9, 21] {
            let inputs = fitting(&function, size, &mut Numbers::new(seed, true));
            // The source is the same for all sizes.
            let native = seed % 6 == 0;
            judge_itself(&function, &inputs, native).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
    }
    assert!(straight > 5, "{straight} of 24");
}

/// Rows of a few numbers are straight-line code, those with loops of unknown length stay; so does a tensor that another nest reads.
#[test]
fn few_numbers_and_others() {
    let declared = "param x : [n, 3] real\nparam y : [m] real\nmap f : [p] -> [n]\n";
    let cases = [
        ("gen o < p. sum a < 3. x[f(o), a]^2", true),
        ("gen o < p, a < 3. sum k < m. x[f(o), a] * y[k]", false),
        (
            "let t = gen o < p, a < 3. sum b < 3, c < 3. x[f(o), a] * x[f(o), b] * (x[f(o), c] + a) * (b + 1) in
             (gen o < p. sum a < 3. t[o, a] * x[f(o), 2 - a], gen a < 3. sum o < p. t[o, a])",
            true,
        ),
    ];
    for (body, expected) in cases {
        let text = format!("{declared}{body}");
        let function = Function::parse(&text).expect("a program");
        let explained = || function.loops(&mut Stages::new()).expect("it lowers").explained();
        assert_eq!(is_straight(&function), expected, "{text}\n{}", explained());
        for size in [1, 8, 19] {
            let inputs = fitting(&function, size, &mut Numbers::new(5, true));
            judge_itself(&function, &inputs, true).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
    }
}

/// Residuals of two kinds, and their Jacobian by some parameters.
fn jacobian(text: &str, wrt: &[&str]) -> Derived {
    let request = Request::new(Mode::Jacobian, wrt);
    Function::parse(text).and_then(|f| f.derive(&request)).expect("it derives")
}

/// As many cameras as points, and observations of them.
fn observations(seed: u64, n: usize, p: usize) -> Inputs {
    let mut numbers = Numbers::new(seed, true);
    let mut inputs = Inputs::new();
    for (name, width) in [("c", 4), ("x", 3)] {
        inputs.value(name, Dense::new(&[n, width], numbers.vector(n * width)).expect("it fits"));
    }
    let map = |step: usize| Relation::from_map(&[p], (0..p).map(|o| step * o % n).collect(), n).expect("in range");
    inputs.value("w", Value::vector(numbers.vector(p))).relation("f", map(1)).relation("g", map(3));
    inputs
}

/// Numbers that are stored at their places in the matrix, by any number of threads.
#[test]
fn any_number_of_threads() {
    let (n, p) = (7, 4003);
    let mut numbers = Numbers::new(3, false);
    let mut inputs = Inputs::new();
    for (name, shape) in [("cam", [n, 11]), ("x", [n, 3]), ("feat", [p, 2])] {
        let data = numbers.vector(shape.iter().product());
        inputs.value(name, Dense::new(&shape, data).expect("it fits"));
    }
    let map = |step: usize| Relation::from_map(&[p], (0..p).map(|o| step * o % n).collect(), n).expect("in range");
    inputs.value("w", Value::vector(numbers.vector(p))).relation("of", map(1)).relation("pt", map(3));
    let derived = jacobian(include_str!("../programs/k10_bundle_adjustment.iv"), &["cam", "x", "w"]);
    let mut expected: Option<Vec<f64>> = None;
    for engine in [Engine::Interpreter, Engine::Native] {
        let matrix = derived.matrix().and_then(|matrix| matrix.bind(&inputs, engine)).expect("it binds");
        assert_eq!(matrix.kernel().outputs().len(), 1);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let found = pool.install(|| matrix.call(&inputs)).expect("it runs").1.data().to_vec();
            assert!(*expected.get_or_insert_with(|| found.clone()) == found, "{engine:?}, {threads} threads");
        }
    }
}

/// The Jacobian as one matrix has the numbers that the reference evaluator finds for its blocks.
#[test]
fn jacobians_of_residuals() {
    let simple = [
        "gen o < p, e < 2. c[f(o), e] * x[g(o), e + 1] + w[o]",
        "gen o < p, e < 2. [o >= 1] * c[f(o), 0] * x[g(o), 2] * w[o]",
        "gen o < p, e < 2. [e = 1 and o != 2] * w[o]^2 * c[f(o), 3] + x[g(o), 0]",
    ];
    for seed in 0..9 {
        let residuals = residuals(seed);
        let (lets, body) = residuals.rsplit_once('\n').expect("lines");
        let body = simple.get(seed as usize).unwrap_or(&body);
        let text = format!("{lets}\n({body}, gen o < p. 1 - w[o]^2)");
        let derived = jacobian(&text, &["c", "x", "w"]);
        for (n, p) in [(1, 1), (2, 8), (3, 11), (4, 0)] {
            let inputs = observations(seed, n, p);
            // The blocks of each output, one after the other, by the elements of each parameter.
            let blocks = reference::evaluate(derived.function.tensor_ssa(), &inputs).expect("it runs");
            let columns = [4 * n, 3 * n, p];
            let mut expected: Vec<f64> = Vec::new();
            for (blocks, rows) in blocks.chunks(3).zip([2 * p, p]) {
                for row in 0..rows {
                    for ((_, block), width) in blocks.iter().zip(columns) {
                        expected.extend_from_slice(&block.leaves()[0].data()[row * width..][..width]);
                    }
                }
            }
            let mut bits: Option<Vec<u64>> = None;
            for engine in [Engine::Interpreter, Engine::Native] {
                let matrix = derived.matrix().expect("a matrix").bind(&inputs, engine).expect("it binds");
                // Stored at their places at once.
                assert!(seed >= 3 || matrix.kernel().outputs().len() == 1, "{text}");
                let found = matrix.call(&inputs).expect("it runs").1;
                assert_eq!(found.to_dense().expect("small").data(), expected, "{text}\nn = {n}, p = {p}, {engine:?}");
                let these = found.data().iter().map(|x| x.to_bits()).collect();
                assert_eq!(*bits.get_or_insert_with(|| Clone::clone(&these)), these, "{text}\nn = {n}, p = {p}");
            }
        }
    }
}

/// Hessians of chains have rows of as many entries each but at the ends.
#[test]
fn rows_in_steps() {
    let bodies = [
        ("sum i < n. x[i]^3", Some(1)),
        ("sum i < n - 1. 100 * (x[i + 1] - x[i]^2)^2 + (1 - x[i])^2", Some(3)),
        ("sum i < n - 2. x[i + 2] * x[i + 1] * x[i] + x[i]^3", Some(5)),
        // What entries of both triangles share is stored by itself, so the rows are not of one shape.
        ("sum i < n - 2. (x[i + 2] * x[i + 1] * x[i])^2 + x[i]^3", None),
    ];
    for (body, step) in bodies {
        let function = Function::parse(&format!("param x : [n] real\n{body}")).expect("a program");
        let derived = function.derive(&Request::new(Mode::Hessian, &["x"])).expect("it derives");
        let matrix = derived.matrix().expect("a matrix");
        let nests = matrix.assembly().values().to_string();
        if let Some(step) = step {
            assert!(nests.contains(&format!("in steps of {step}\n")), "{nests}");
        }
        for n in 0..=67 {
            let mut inputs = Inputs::new();
            inputs.value("x", Value::vector(Numbers::new(n as u64, true).vector(n)));
            let expected = reference::evaluate(derived.function.tensor_ssa(), &inputs).expect("it runs");
            let mut bits: Option<Vec<u64>> = None;
            for engine in [Engine::Interpreter, Engine::Native] {
                let found = matrix.bind(&inputs, engine).and_then(|kernel| kernel.call(&inputs)).expect("it runs").1;
                let dense = found.to_dense().expect("small");
                assert_eq!(dense.data(), expected[0].1.leaves()[0].data(), "{body}\nn = {n}, {engine:?}");
                let these = found.data().iter().map(|x| x.to_bits()).collect();
                assert_eq!(*bits.get_or_insert_with(|| Clone::clone(&these)), these, "{body}\nn = {n}");
            }
        }
    }
}

//! Sums over the fibres of sparse tensors, which are computed and stored where there is an entry: what the reference evaluator gives, from both engines, for
//! every axis that may be summed; and where such tensors are dense.

use std::sync::Arc;

use iverson::Function;
use iverson::ir::stages::Stages;
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Coo, Dense, Inputs};

use crate::judge::{Expected, Ways};
use crate::kernels::{fitting_entries, numbers};
use crate::loops_text::round_trip;
use crate::support::Numbers;

/// What is computed of `y`, a sum over an axis of `T` times a matrix, with axes `a`, `b` of `T` and `l` of the matrix; and whether `y`
/// lies on its fibres.
const READERS: [(&str, bool); 11] = [
    ("sum a < n, b < n, l < k. y[a, b, l]^2", true),
    ("gen a < n, l < k. sum b < n. sin(y[a, b, l])", true),
    ("gen b < n, l < k. sum a < n. y[a, b, l] * y[a, b, 0]", true),
    ("gen a < n, l < k. sum b < n. 3 * y[a, b, l] - y[a, b, l]^3", true),
    // Another factor may be infinite.
    ("sum a < n, b < n, l < k. y[a, b, l]^2 * w[a, l]", false),
    ("gen a < n, l < k. sum b < n. sin(y[a, b, l]) * w[b, l]", false),
    // Twice the sum, and the sum in another order.
    ("sum a < n, b < n, l < k. (2 * y[a, b, l]) * (y[b, a, l] * w[a, l])", false),
    // All places are asked for.
    ("gen a < n, b < n, l < k. y[a, b, l]", false),
    ("sum a < n, b < n, l < k. exp(y[a, b, l])", false),
    ("sum a < n, b < n, l < k. (y[a, b, l] + w[a, l])^2", false),
    ("gen a < n, l < k. max b < n. y[a, b, l] * w[b, l]", false),
];

/// The place of the axis that is summed.
const SUMMED: [[&str; 3]; 3] = [["t", "a", "b"], ["a", "t", "b"], ["a", "b", "t"]];

fn program(at: [&str; 3], reader: &str) -> String {
    let at = at.join(", ");
    format!(
        "param T : coo [n, n, n] real\nparam C : [n, k] real\nparam w : [n, k] real\nassume k >= 1\n\
         let y = gen a < n, b < n, l < k. sum t < n. T[{at}] * C[t, l]\nin {reader}"
    )
}

/// Every so many places, or fibres with all places and others with none.
fn entries(shape: &[usize], numbers: &mut Numbers, kind: usize) -> Coo {
    let mut columns = vec![Vec::new(); shape.len()];
    for place in 0..shape.iter().product::<usize>() {
        let below = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        let at: Vec<usize> = (0..shape.len()).map(|axis| place / below(axis) % shape[axis]).collect();
        let has = match kind {
            0 => false,
            1 => true,
            2 => (at[0] * 7 + at[1] * 5 + at[at.len() - 1] * 3).is_multiple_of(4),
            3 => (at[0] + 2 * at[1]) % 3 == 1,
            _ => at.iter().sum::<usize>() % 5 == 2 && at[0] != 1,
        };
        if has {
            columns.iter_mut().zip(at).for_each(|(column, at)| column.push(at));
        }
    }
    let data = numbers.vector(columns.first().map_or(0, Vec::len));
    Coo::new(shape.to_vec(), columns, data).expect("places in order")
}

/// Judges the loops of a program, with all passes and with those of its raw form.
fn judge(text: &str, function: &Function, size: i64, kind: usize) {
    judge_where(text, function, size, kind, false);
}

/// The same, perhaps with a factor that is infinite.
fn judge_where(text: &str, function: &Function, size: i64, kind: usize, is_infinite: bool) {
    let sizes = |name: &str| if name == "k" { 3 } else { size };
    let mut inputs =
        fitting_entries(function, &sizes, &|shape, numbers| entries(shape, numbers, kind), &mut Numbers::new(5, true));
    if is_infinite {
        let w = (0..3 * size).map(|k| if k % 4 == 1 { f64::INFINITY } else { k as f64 }).collect::<Vec<_>>();
        inputs.value("w", Dense::new(&[size as usize, 3], w).expect("as many numbers"));
    }
    let expected = Expected::of(function.tensor_ssa(), &inputs).expect("it is evaluated");
    let loops = Arc::new(function.loops(&mut Stages::new()).expect("it lowers"));
    assert_eq!(loops.unproved(), [""; 0], "{loops}");
    round_trip(&loops);
    for engine in [Engine::Interpreter, Engine::Native] {
        if engine == Engine::Native && (size, kind) != (5, 2) {
            continue;
        }
        let kernel = Kernel::bind(Arc::clone(&loops), &inputs, engine).expect("it binds");
        let found = numbers(&kernel.call(&inputs).expect("it runs"));
        let judged = expected.compare("fibres", &found, Ways::Raw);
        judged.unwrap_or_else(|e| panic!("{text}\nat size {size}, kind {kind}, {engine:?}: {e}\n{loops}"));
    }
}

#[test]
fn sums_over_each_axis() {
    for at in SUMMED {
        for (reader, on_fibres) in READERS {
            let text = program(at, reader);
            let function = Function::parse(&text).expect("it compiles");
            let loops = function.loops(&mut Stages::new()).expect("it lowers");
            let own: Vec<String> = (0..3).filter(|k| at[*k] != "t").map(|k| k.to_string()).collect();
            let relation = format!("T_{}?", own.join("_"));
            let has_it = loops.signature.relations.values().any(|found| found.name == relation);
            assert_eq!(has_it, on_fibres, "{text}\n{loops}");
            for (size, kind) in [(0, 1), (1, 1), (3, 0), (4, 1), (5, 2), (5, 3), (6, 4)] {
                judge(&text, &function, size, kind);
                judge_where(&text, &function, size, kind, true);
            }
        }
    }
}

/// Value and gradient, as the rules of differentiation leave them and simplified.
#[test]
fn gradients() {
    for at in SUMMED {
        for (reader, _) in READERS.iter().filter(|(reader, _)| reader.starts_with("sum")) {
            let text = program(at, reader);
            let function = Function::parse(&text).expect("it compiles");
            let mut request = iverson::Request::new(iverson::Mode::Gradient, &["T", "C", "w"]);
            request.with_value = true;
            for simplify in [None, Some(Default::default())] {
                request.simplify = simplify;
                let both = function.derive(&request).expect("it has one").function;
                for (size, kind) in [(4, 1), (5, 2), (5, 3), (6, 4)] {
                    judge(&text, &both, size, kind);
                }
            }
        }
    }
}

/// Four axes, of which one or two are summed, one after the other too.
#[test]
fn more_axes() {
    let header = "param T : coo [n, n, n, n] real\nparam C : [n, k] real\nassume k >= 1\n";
    let bodies = [
        "let y = gen a < n, b < n, l < k. sum c < n, t < n. T[a, c, b, t] * C[c, l] * C[t, l] in sum a < n, b < n, l < k. y[a, b, l]^2",
        "let y = gen a < n, b < n, c < n, l < k. sum t < n. T[a, b, t, c] * C[t, l] in \
         let z = gen a < n, b < n, l < k. sum c < n. y[a, b, c, l] * C[c, l] in sum a < n, b < n, l < k. z[a, b, l]^3",
        "let y = gen a < n, b < n. sum c < n, t < n. T[t, a, b, c] * C[c, 0] in sum a < n, b < n. y[a, b] * y[b, a]",
        "let y = gen a < n, b < n. sum t < n, c < n. [t + c < n] * T[a, t, b, c] in sum a < n, b < n, l < k. (y[a, b] * C[a, l])^2",
    ];
    for body in bodies {
        let text = format!("{header}{body}");
        let function = Function::parse(&text).expect("it compiles");
        let gradient = function.value_and_gradient(["T", "C"]);
        for function in [Some(function), gradient.ok()].into_iter().flatten() {
            for (size, kind) in [(2, 1), (3, 2), (4, 4)] {
                judge(&text, &function, size, kind);
            }
        }
    }
}

/// A relation that is given has projections as well, and its tuples may come in any order.
#[test]
fn relations() {
    let text = "rel R : [n, n, n]\nparam x : [n] real\n\
        let y = gen a < n, b < n. sum t < n. [R(a, t, b)] * x[t] in sum a < n, b < n. y[a, b]^2";
    let function = Function::parse(text).expect("it compiles");
    for function in [function.value_and_gradient(["x"]).expect("it has one"), function] {
        let loops = Arc::new(function.loops(&mut Stages::new()).expect("it lowers"));
        for size in [1, 4] {
            let mut inputs = Inputs::new();
            let places = entries(&[size; 3], &mut Numbers::new(1, true), 2).pattern().clone();
            inputs.relation("R", places).value("x", (0..size).map(|i| i as f64 - 1.0).collect::<Vec<f64>>());
            let expected = Expected::of(function.tensor_ssa(), &inputs).expect("it is evaluated");
            let kernel = Kernel::bind(Arc::clone(&loops), &inputs, Engine::Interpreter).expect("it binds");
            let found = numbers(&kernel.call(&inputs).expect("it runs"));
            expected.compare("relations", &found, Ways::Raw).unwrap_or_else(|e| panic!("size {size}: {e}\n{loops}"));
        }
    }
}

/// A map has a target at all of its sources, so sums over targets lie everywhere; not so those over some of the sources.
#[test]
fn maps() {
    for (sum, projected) in [
        ("gen i < n, j < m. sum v < k. [f(i, j) = v] * x[v]", false),
        ("gen i < n, v < k. sum j < m. [f(i, j) = v] * x[v]", true),
    ] {
        let text = format!("map f : [n, m] -> [k]\nparam x : [k] real\nlet y = {sum}\nsum(y * y)");
        let function = Function::parse(&text).expect("it compiles");
        let loops = function.loops(&mut Stages::new()).expect("it lowers");
        let has_it = loops.signature.relations.values().any(|found| found.kind.projection().is_some());
        assert_eq!(has_it, projected, "{text}\n{loops}");
    }
}

/// Leaves of a loop have the projections of all of it.
#[test]
fn in_loops() {
    let text = "param T : coo [n, n, n] real\nparam C : [n, k] real\nparam x : [n] real\nassume k >= 1\n\
        let v = fold s < 3, v = x.\n\
          let y = gen a < n, b < n, l < k. sum t < n. T[a, b, t] * C[t, l] * v[t]\n\
          in gen a < n. (sum b < n, l < k. y[a, b, l]^2) + (sum b < n, l < k. sin(y[b, a, l]))\n\
        in let z = gen a < n, b < n, l < k. sum t < n. T[a, t, b] * C[t, l] * v[t]\n\
        in sum a < n, b < n, l < k. z[a, b, l]^2";
    let functions = |text: &str| {
        let function = Function::parse(text).expect("it compiles");
        [function.value_and_gradient(["x", "C"]).expect("it has one"), function]
    };
    for (function, dense) in functions(text).into_iter().zip(functions(&text.replace("coo ", ""))) {
        for (size, kind) in [(2, 1), (3, 2), (4, 3)] {
            let sizes = |name: &str| if name == "k" { 2 } else { size };
            let numbers_of = &mut Numbers::new(5, true);
            let mut inputs =
                fitting_entries(&function, &sizes, &|shape, numbers| entries(shape, numbers, kind), numbers_of);
            let kernel = function.kernel(&inputs).as_written().engine(Engine::Interpreter).build().expect("it binds");
            assert!(kernel.program().signature.relations.len() >= 2, "{}", kernel.program());
            let found = numbers(&kernel.call(&inputs).expect("it runs"));
            let tensor = inputs.get("T").expect("it is there").to_dense().expect("it is a tensor");
            inputs.value("T", tensor);
            let expected = numbers(&dense.eval(&inputs).expect("it is evaluated"));
            assert_eq!(found.len(), expected.len());
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{a} {b}\n{function}");
            }
        }
    }
}

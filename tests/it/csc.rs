//! Matrices that are stored column by column: the same numbers as row by row, and columns that are walked as rows are.

use iverson::builder::{Builder, generate, sum};
use iverson::ir::loops::{Bins, Part};
use iverson::ir::stages::Stages;
use iverson::ir::ty::Storage;
use iverson::ir::{loops, term, tssa};
use iverson::kernel::{Engine, Leaf};
use iverson::tensor::{Coo, Csc, Csr, Dense, Inputs, Precision, Tensor, Value};
use iverson::{Function, Mode, Request};

use crate::support::compile;

const BOTH: [Engine; 2] = [Engine::Interpreter, Engine::Native];

const DECLARED: &str = "param A : csr [m, n] real\nparam x : [n] real\nparam y : [m] real\n";

/// Bodies whose sums are exact over small integers.
const BODIES: &[&str] = &[
    "gen i < m. sum j < n. A[i, j] * x[j]",
    "gen j < n. sum i < m. A[i, j] * y[i]",
    "sum i < m, j < n. A[i, j]^2",
    "sum i < m, j < n. [A?(i, j)] * (A.value(i, j) - y[i] * x[j])^2",
    "sum i < m. (y[i] - sum j < n. A[i, j] * x[j])^2",
    "gen i < m, j < n. A[i, j] * y[i] + [i = j] * 3",
    "gen j < n. sum i < m. [i <= j and A?(i, j)] * x[j]",
    "gen j < n, l < n. sum i < m. A[i, j] * A[i, l]",
    "sum i < m, j < n. [A?(i, j) or i = j] * (y[i] + x[j])",
    "sum i < m. [exists j < n. A?(i, j)] * y[i]^3",
    "sum j < n. [exists i < m. A?(i, j)] * x[j]^2",
    "gen d < m + n. sum i < m, j < n. [i + j = d] * A[i, j]",
];

/// The same program with the matrix column by column.
fn by_columns(text: &str) -> String {
    text.replace(": csr ", ": csc ")
}

/// A matrix with an empty row, an empty column and a zero that is stored.
fn matrix(rows: usize, cols: usize, number: impl Fn(usize) -> f64) -> Csr {
    let places: Vec<(usize, usize)> = (0..rows)
        .flat_map(|i| (0..cols).map(move |j| (i, j)))
        .filter(|(i, j)| *i != 2 && *j != 1 && (3 * i + 5 * j) % 4 < 2)
        .collect();
    let data = (0..places.len()).map(|k| if k == 3 { 0.0 } else { number(k) }).collect();
    let (i, j) = places.into_iter().unzip();
    Csr::from_coo(&Coo::new(vec![rows, cols], vec![i, j], data).expect("in order")).expect("a matrix")
}

fn inputs(a: impl Into<Value>, cols: usize, rows: usize, number: impl Fn(usize) -> f64) -> Inputs {
    let mut inputs = Inputs::new();
    inputs.value("A", a).value("x", Value::vector((0..cols).map(&number).collect()));
    inputs.value("y", Value::vector((0..rows).map(|k| number(k + 3)).collect()));
    inputs
}

fn small(k: usize) -> f64 {
    (k * k % 7) as f64 - 3.0
}

fn bits(data: &[f64]) -> Vec<u64> {
    data.iter().map(|x| (x + 0.0).to_bits()).collect()
}

/// The value, and the gradient of it or of the sum of its squares.
fn functions(text: &str) -> Vec<Function> {
    let function = compile(text);
    let loss = match function.tensor_ssa().outputs[0].ty {
        iverson::ir::ty::Types::REAL => function.clone(),
        _ => {
            let (declared, body) = text.split_at(text.rfind('\n').map_or(0, |end| end + 1));
            let axes = body.split(". ").next().expect("a body").trim_start_matches("gen ");
            let names: Vec<&str> = axes.split(", ").filter_map(|axis| axis.split(' ').next()).collect();
            compile(&format!("{declared}let v = {body} in sum {axes}. v[{}]^2", names.join(", ")))
        }
    };
    vec![function, loss.value_and_gradient(["A", "x"]).expect("it has a gradient")]
}

#[test]
fn numbers_are_those_of_rows() {
    for body in BODIES {
        let text = format!("{DECLARED}{body}");
        let csr = matrix(6, 5, small);
        let csc = Csc::from_csr(&csr).expect("few rows");
        for (row_wise, column_wise) in functions(&text).iter().zip(functions(&by_columns(&text))) {
            for precision in [Precision::Double, Precision::Single] {
                let by_row = inputs(csr.in_precision(precision), 5, 6, small);
                let by_column = inputs(csc.in_precision(precision), 5, 6, small);
                let expected =
                    row_wise.kernel(&by_row).engine(Engine::Interpreter).build().and_then(|k| k.call(&by_row));
                for engine in BOTH {
                    let found = column_wise.kernel(&by_column).engine(engine).build().and_then(|k| k.call(&by_column));
                    let (expected, found) = (expected.clone().expect(body), found.expect(body));
                    for ((name, expected), (_, found)) in expected.iter().zip(&found) {
                        let (expected, found) = (&expected.leaves()[0], &found.leaves()[0]);
                        assert_eq!(expected.pattern(), found.pattern(), "{name}: {text}");
                        let (expected, found) = (expected.lexicographic(), found.lexicographic());
                        assert_eq!(bits(&expected), bits(&found), "{name} by {engine:?}: {text}");
                    }
                }
            }
        }
    }
}

/// A gradient by a matrix has its format and its pattern.
#[test]
fn gradients_lie_by_columns() {
    let function = compile(&by_columns(&format!("{DECLARED}sum i < m. y[i] * sum j < n. A[i, j]^2 * x[j]")));
    let gradient = function.gradient(["A"]).expect("it has a gradient");
    let csc = Csc::from_csr(&matrix(6, 5, small)).expect("few rows");
    let inputs = inputs(csc.clone(), 5, 6, small);
    for engine in BOTH {
        let kernel = gradient.kernel(&inputs).engine(engine).build().expect("it binds");
        assert!(matches!(&kernel.outputs()[0].leaves[0], Leaf::Csc(pattern) if pattern == csc.pattern()));
        let results = kernel.call(&inputs).expect("it runs");
        let Tensor::Csc(found) = results[0].1.leaves()[0].as_ref() else { panic!("it is not by columns") };
        assert!(std::sync::Arc::ptr_eq(found.pattern(), csc.pattern()));
        let expected = csc.pattern().entries().zip(csc.data()).map(|((i, j), a)| 2.0 * small(i + 3) * a * small(j));
        assert_eq!(bits(found.data()), bits(&expected.collect::<Vec<_>>()));
        // A call with slices gives and takes the values as they lie.
        let mut values = vec![f64::NAN; csc.data().len()];
        let vectors: [Vec<f64>; 2] = [(0..5).map(small).collect(), (3..9).map(small).collect()];
        kernel.call_into((csc.data(), &vectors[0], &vectors[1]), &mut values).expect("it fits");
        assert_eq!(bits(&values), bits(found.data()));
    }
    let reference = iverson::ir::reference::evaluate(gradient.tensor_ssa(), &inputs).expect("it runs");
    let found =
        gradient.kernel(&inputs).engine(Engine::Interpreter).build().and_then(|k| k.call(&inputs)).expect("it runs");
    assert_eq!(reference[0].1, found[0].1);
}

/// The columns of a matrix in CSC format are the rows of the transposed one in CSR format: the same loops over the same arrays, and so the same
/// bits of any numbers.
#[test]
fn columns_are_walked_as_rows_are() {
    let rows =
        "param A : csr [m, n] real\nparam x : [n] real\nparam y : [m] real\ngen i < m. sum j < n. A[i, j] * x[j]";
    let columns =
        "param A : csc [n, m] real\nparam x : [n] real\nparam y : [m] real\ngen i < m. sum j < n. A[j, i] * x[j]";
    let number = |k: usize| 1.0 / (k as f64 + 1.7) - 0.3;
    let csr = matrix(7, 9, number);
    let csc = Csc::new(9, 7, csr.indptr().to_vec(), csr.indices().to_vec(), csr.data().to_vec()).expect("a matrix");
    let (by_row, by_column) = (inputs(csr, 9, 7, number), inputs(csc, 9, 7, number));
    let (row_wise, column_wise) = (compile(rows), compile(columns));
    let program = column_wise.loops(&mut Stages::new()).expect("it is lowered");
    assert!(program.arrays.values().all(|array| array.part != Part::Entries));
    for engine in BOTH {
        let expected = row_wise.kernel(&by_row).engine(engine).build().and_then(|k| k.call(&by_row)).expect("it runs");
        let found =
            column_wise.kernel(&by_column).engine(engine).build().and_then(|k| k.call(&by_column)).expect("it runs");
        assert_eq!(expected[0].1, found[0].1);
    }
    // Along the other axis entries are looked up, in either format.
    for text in [rows.replace("csr", "csc"), columns.replace("csc", "csr")] {
        let program = compile(&text).loops(&mut Stages::new()).expect("it is lowered");
        assert!(program.arrays.values().any(|array| array.part == Part::Entries && array.axes.len() == 2), "{text}");
    }
    // A sum over all entries looks nothing up, whatever the format.
    for format in ["csr", "csc", "coo"] {
        let program = compile(&format!("param A : {format} [m, n] real\nsum i < m, j < n. A[i, j]^3"));
        let program = program.loops(&mut Stages::new()).expect("it is lowered");
        assert!(program.arrays.values().all(|array| array.part != Part::Entries), "{format}");
    }
}

/// Sums along rows of a matrix that is large enough for bins.
#[test]
fn terms_along_rows_are_in_bins() {
    let text = by_columns(&format!("{DECLARED}gen i < m. sum j < n. A[i, j] * x[j]"));
    let program = compile(&text).loops(&mut Stages::new()).expect("it is lowered");
    let csr = matrix(40, 30, small);
    let csc = Csc::from_csr(&csr).expect("few rows");
    let inputs = inputs(csc, 30, 40, small);
    for (least, size) in [(usize::MAX, 1), (1, 1), (1, 7), (1, 1000)] {
        let binned = loops::Program { bins: Bins { least, size }, ..program.clone() };
        let kernel = iverson::kernel::Kernel::bind(binned.into(), &inputs, Engine::Interpreter).expect("it binds");
        let found = kernel.call(&inputs).expect("it runs");
        let expected: Vec<f64> = (0..40)
            .map(|i| csr.pattern().row(i).map(|k| csr.data()[k] * small(csr.indices()[k] as usize)).sum())
            .collect();
        assert_eq!(bits(found[0].1.leaves()[0].data()), bits(&expected), "bins of {size}");
    }
}

/// Jacobians, Hessians and Gauss-Newton matrices are those of a matrix row by row.
#[test]
fn matrices_of_derivatives() {
    let cases = [
        ("gen i < m. sum j < n. A[i, j] * x[j]^2", vec!["x"], Mode::Jacobian),
        ("gen i < m. sum j < n. A[i, j] * x[j]^2", vec!["A"], Mode::Jacobian),
        ("sum i < m. (sum j < n. A[i, j] * x[j])^2", vec!["x"], Mode::Hessian),
        ("sum i < m. (sum j < n. A[i, j]^2 * x[j])^2", vec!["A"], Mode::Hessian),
        ("gen i < m. sum j < n. A[i, j] * x[j]^2", vec!["x"], Mode::GaussNewton),
    ];
    let csr = matrix(6, 5, small);
    let by_row = inputs(csr.clone(), 5, 6, small);
    let by_column = inputs(Csc::from_csr(&csr).expect("few rows"), 5, 6, small);
    for (body, wrt, mode) in cases {
        let text = format!("{DECLARED}{body}");
        let run = |text: &str, inputs: &Inputs| {
            let derived = compile(text).derive(&Request::new(mode, &wrt)).expect(body);
            let kernel = derived.matrix().and_then(|m| m.bind(inputs, Engine::Interpreter)).expect(body);
            let (others, matrix) = kernel.call(inputs).expect(body);
            let blocks = derived
                .function
                .kernel(inputs)
                .engine(Engine::Interpreter)
                .build()
                .and_then(|k| k.call(inputs))
                .expect(body);
            (others, matrix, blocks)
        };
        let (expected, found) = (run(&text, &by_row), run(&by_columns(&text), &by_column));
        assert_eq!(expected.1.pattern(), found.1.pattern(), "{body}");
        assert_eq!(bits(expected.1.data()), bits(found.1.data()), "{body}");
        assert!(!expected.1.pattern().is_empty(), "{body}");
        for ((name, expected), (_, found)) in expected.2.iter().zip(&found.2) {
            let (expected, found) = (&expected.leaves()[0], &found.leaves()[0]);
            assert_eq!((expected.pattern(), expected.format()), (found.pattern(), found.format()), "{name}: {body}");
            assert_eq!(bits(expected.data()), bits(found.data()), "{name}: {body}");
        }
    }
}

/// Numbers of a constant matrix that are looked up are held in the order of the loop.
#[test]
fn constants_by_columns() {
    let text = by_columns(&format!("{DECLARED}gen i < m. sum j < n. exp(A[i, j]) * x[j]"));
    let csr = matrix(6, 5, small);
    let given = inputs(Csc::from_csr(&csr).expect("few rows"), 5, 6, small);
    let function = compile(&text);
    let expected =
        function.kernel(&given).engine(Engine::Interpreter).build().and_then(|k| k.call(&given)).expect("it runs");
    for engine in BOTH {
        let kernel = function.kernel(&given).constants(["A"]).engine(engine).build().expect("it binds");
        let found = kernel.call(&given).expect("it runs");
        assert_eq!(expected[0].1, found[0].1);
    }
}

/// Programs, and what is made of them, as text and as JSON.
#[test]
fn texts_and_json_are_read_back() {
    for body in BODIES {
        let source = iverson::ir::surface::read(&by_columns(&format!("{DECLARED}{body}")), &[]).expect(body);
        assert!(matches!(source.signature.params.values().next().map(|p| p.storage), Some(Storage::Sparse(..))));
        let printed = source.to_string();
        assert!(printed.contains("param A : csc [m, n] real"), "{printed}");
        let again = iverson::ir::surface::read(&printed, &[]).expect(&printed);
        assert_eq!(again.to_string(), printed);
        let json = source.to_json().expect("it is written");
        assert_eq!(term::Program::from_json(&json).expect("it is read").to_string(), printed);
        let gradient = Function::compile(source, &mut Stages::new()).expect(body);
        let gradient = gradient.tensor_ssa();
        let json = gradient.to_json().expect("it is written");
        assert_eq!(tssa::Program::from_json(&json).expect("it is read"), *gradient);
    }
    // A tangent has the format of its parameter.
    let forward = compile(&by_columns(&format!("{DECLARED}sum i < m, j < n. A[i, j]^2"))).forward(["A"]);
    let printed = forward.expect("it has a derivative").to_string();
    assert!(printed.contains("param dA : csc(A) [m, n] real"), "{printed}");
    assert_eq!(compile(&printed).to_string(), printed);
}

/// Parameters that share a pattern must have their entries in one order.
#[test]
fn shared_patterns_have_one_order() {
    let text = |of: &str, like: &str| {
        format!("param A : {of} [m, n] real\nparam B : {like}(A) [m, n] real\nsum i < m, j < n. A[i, j] * B[i, j]")
    };
    for (of, like) in [("csr", "coo"), ("coo", "csr"), ("csc", "csc")] {
        compile(&text(of, like));
    }
    for (of, like) in [("csr", "csc"), ("csc", "csr"), ("csc", "coo"), ("coo", "csc")] {
        let error = Function::parse(&text(of, like)).expect_err("another order").to_string();
        let expected = format!("the entries of `A` are in the order of {of}, which is not that of {like}");
        assert!(error.contains(&expected), "{error}");
    }
    let function = compile(&text("csc", "csc"));
    let csc = Csc::from_csr(&matrix(6, 5, small)).expect("few rows");
    let mut inputs = Inputs::new();
    inputs.value("A", csc.clone()).value("B", csc.clone());
    let found =
        function.kernel(&inputs).engine(Engine::Interpreter).build().and_then(|k| k.call(&inputs)).expect("it runs");
    assert_eq!(found[0].1.as_scalar(), Some(csc.data().iter().map(|x| x * x).sum()));
    inputs.value("B", Csc::from_dense(&Dense::zeros(&[6, 5]).expect("small")).expect("a matrix"));
    assert!(function.kernel(&inputs).engine(Engine::Interpreter).build().is_err());
}

/// A program from elsewhere that says otherwise is refused.
#[test]
fn other_orders_are_refused() {
    let text = "param A : csc [m, n] real\nparam B : csc(A) [m, n] real\nsum i < m, j < n. A[i, j]^2 * B[i, j]";
    let source = iverson::ir::surface::read(text, &[]).expect("it is sound");
    let json = source.to_json().expect("it is written");
    let error =
        term::Program::from_json(&json.replacen("\"csc\"", "\"csr\"", 1)).expect_err("another order").to_string();
    assert!(error.contains("the entries of `B` are in another order than those of `A`"), "{error}");
    let gradient = compile(text).gradient(["A"]).expect("it has a gradient");
    let json = gradient.tensor_ssa().to_json().expect("it is written");
    assert_eq!(tssa::Program::from_json(&json).expect("it is sound"), *gradient.tensor_ssa());
    let (before, after) = json.rsplit_once("\"csc\"").expect("the output has a format");
    let error = tssa::Program::from_json(&format!("{before}\"csr\"{after}")).expect_err("another order").to_string();
    assert!(error.contains("another order"), "{error}");
}

/// The Rust builder, and a matrix of another library.
#[test]
fn builder_and_sprs() {
    let mut triplets = iverson::sprs::TriMat::new((3, 2));
    [(0, 1, 2.0), (2, 0, 3.0), (2, 1, -1.0)].into_iter().for_each(|(i, j, x)| triplets.add_triplet(i, j, x));
    let matrix: iverson::sprs::CsMatI<f64, usize> = triplets.to_csc();
    let csc = Csc::from_sprs(matrix.view()).expect("it is by columns");
    let b = Builder::new();
    let (m, n) = (b.size("m"), b.size("n"));
    let a = b.csc("A", [m, n]);
    let sums = generate(n, |j| sum(m, |i| a.at([i, j])));
    let function = Function::build(&b.finish(sums).expect("it is sound")).expect("it is a program");
    let mut inputs = Inputs::new();
    inputs.value("A", csc.clone());
    let found =
        function.kernel(&inputs).engine(Engine::Interpreter).build().and_then(|k| k.call(&inputs)).expect("it runs");
    assert_eq!(found[0].1.leaves()[0].data(), [3.0, 1.0]);
    assert_eq!(csc.to_sprs().expect("the same invariants"), matrix);
}

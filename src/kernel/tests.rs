//! Kernels by hand: shapes, threads, limits.

use crate::driver::Function;
use crate::error::Error;
use crate::kernel::{Engine, Kernel, Status};
use crate::tensor::{Csr, Inputs, Relation, Tensor, Value};

fn assert_shared<T: Send + Sync>() {}

fn scalar(results: &[(String, Value)]) -> f64 {
    results[0].1.as_scalar().unwrap()
}

const SPARSE: &str = "param A : csr [m, n] real
param x : [n] real
gen i < m. sum j < n. A[i, j] * x[j]";

fn sparse_inputs() -> Inputs {
    // Rows 0 and 2 are empty.
    let csr = Csr::new(4, 3, vec![0, 0, 2, 2, 3], vec![0, 2, 1], vec![1.0, 2.0, 3.0]).unwrap();
    let mut inputs = Inputs::new();
    inputs.value("A", csr).value("x", Value::vector(vec![10.0, 20.0, 30.0]));
    inputs
}

#[test]
fn a_kernel_is_called_from_many_threads() {
    assert_shared::<Kernel>();
    let kernel = Function::parse(SPARSE).unwrap().kernel(&sparse_inputs()).engine(Engine::Interpreter).build().unwrap();
    assert_eq!(kernel.status(), Status::Interpreter);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let kernel = &kernel;
            scope.spawn(move || {
                for round in 0..100 {
                    let x = [f64::from(thread), f64::from(round), 1.0];
                    let mut y = [f64::NAN; 4];
                    kernel.call_into((&[1.0, 2.0, 3.0], &x), &mut y).unwrap();
                    assert_eq!(y, [0.0, x[0] + 2.0, 0.0, 3.0 * x[1]]);
                }
            });
        }
    });
}

#[test]
fn wrong_inputs_are_refused() {
    let inputs = sparse_inputs();
    let kernel = Function::parse(SPARSE).unwrap().kernel(&inputs).engine(Engine::Interpreter).build().unwrap();
    let mut y = [0.0; 4];
    let error = kernel.call_into(&[1.0; 3], &mut y).unwrap_err();
    assert_eq!(error.to_string(), "inputs: 2 leaves are expected, found 1");
    let error = kernel.call_into((&[1.0; 2], &[1.0; 3]), &mut y).unwrap_err();
    assert_eq!(error.to_string(), "A: 3 numbers are expected, found 2");
    let error = kernel.call_into((&[1.0; 3], &[1.0; 3]), &mut y[..3]).unwrap_err();
    assert_eq!(error.to_string(), "value: 4 numbers are expected, found 3");
    let mut other = inputs.clone();
    let csr = Csr::new(4, 3, vec![0, 0, 2, 2, 3], vec![0, 1, 1], vec![1.0, 2.0, 3.0]).unwrap();
    other.value("A", csr);
    let error = kernel.call(&other).unwrap_err();
    assert_eq!(error.to_string(), "A?: it has other tuples than those that the kernel was bound to");
    let missing =
        Function::parse(SPARSE).unwrap().kernel(&Inputs::new()).engine(Engine::Interpreter).build().unwrap_err();
    assert!(matches!(missing, Error::Data { .. }), "{missing}");
}

#[test]
fn extrema_take_the_first_and_a_nan_before_all() {
    let text = "param x : [n] real\nsum i < n. [i = argmax k < n. x[k]] * (i + 1)";
    let function = Function::parse(text).unwrap();
    let cases: &[(&[f64], f64)] =
        &[(&[], 0.0), (&[1.0, 3.0, 3.0], 2.0), (&[1.0, f64::NAN, 9.0, f64::NAN], 2.0), (&[-1.0], 1.0)];
    for (x, expected) in cases {
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(x.to_vec()));
        let kernel = function.kernel(&inputs).engine(Engine::Interpreter).build().unwrap();
        assert_eq!(scalar(&kernel.call(&inputs).unwrap()), *expected, "{x:?}");
    }
}

#[test]
fn sizes_that_are_too_large_are_refused() {
    // A workspace of 2^60 numbers.
    let text = "param x : [n] real
let y = gen i < n, j < n, k < n. exp(x[i] + x[j] * x[k])
in sum i < n, j < n, k < n. y[i, j, k] * y[j, i, k]";
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(vec![0.0; 1 << 20]));
    let error = Function::parse(text).unwrap().kernel(&inputs).engine(Engine::Interpreter).build().unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    // Rows of a relation with 2^40 sources would not fit.
    let text = "rel E : [n, m]\nparam x : [m] real\nsum i < n, j < m. [E(i, j) and E(i, 0)] * x[j]";
    let mut inputs = Inputs::new();
    inputs.relation("E", Relation::from_tuples(&[1 << 40, 1], &[[3, 0]]).unwrap());
    inputs.value("x", Value::vector(vec![0.0]));
    let kernel = Function::parse(text).unwrap().kernel(&inputs).engine(Engine::Interpreter).build();
    assert!(matches!(kernel, Err(Error::Limit { .. })), "{kernel:?}");
}

#[test]
fn memory_that_is_not_there_is_no_limit() {
    // 2^49 bytes are more than a process can address.
    let mut inputs = Inputs::new();
    inputs.value("x", Value::scalar(1.0)).size("n", 1 << 46).size("m", 1);
    for (text, what) in [
        ("param x : real\nassume n >= 1\ngen i < n. x", "elements of a result"),
        (
            "param x : real\nassume n >= 1\nassume m >= 1\nlet y = gen i < n. exp(i * x) in sum j < m, i < n. sin(y[i] * j)",
            "elements of an intermediate tensor",
        ),
    ] {
        // The memory for intermediate tensors is asked for when a kernel is bound.
        let nests = Function::parse(text).unwrap().loops(&mut crate::stages::Stages::new()).unwrap();
        let kernel = Kernel::bind_within(std::sync::Arc::new(nests), &inputs, &[], Engine::Interpreter, u64::MAX);
        let error = kernel.and_then(|kernel| kernel.call(&inputs)).unwrap_err();
        assert!(matches!(error, Error::Memory { wanted: 70368744177664, .. }), "{error}");
        assert_eq!(error.to_string(), format!("there is no memory for 70368744177664 {what}"));
    }
}

/// 2^40 empty rows take no time, an offset beyond 64 bits is an error.
#[test]
fn empty_axes_of_any_length() {
    let text = "param x : [m] real\nassume n >= 0\nrel E : [n, m]\nsum i < n, j < m. [E(i, j)] * x[j]";
    let mut inputs = Inputs::new();
    inputs.relation("E", Relation::from_tuples::<[usize; 2]>(&[1 << 40, 0], &[]).unwrap());
    inputs.value("x", Value::vector(Vec::new()));
    let kernel = Function::parse(text).unwrap().kernel(&inputs).engine(Engine::Interpreter).build().unwrap();
    assert_eq!(scalar(&kernel.call(&inputs).unwrap()), 0.0);
}

/// The pattern of a result follows from those of the inputs; its values are those of the dense result, and zero elsewhere.
#[test]
fn results_are_assembled() {
    let csr = |rows: usize, cols: usize, each: &dyn Fn(usize) -> Vec<u32>| {
        let rows: Vec<Vec<u32>> = (0..rows).map(each).collect();
        let indptr = std::iter::once(0).chain(rows.iter().scan(0, |n, row| {
            *n += row.len();
            Some(*n)
        }));
        let indices = rows.concat();
        let data = (0..indices.len()).map(|k| (k % 7) as f64 - 2.5).collect();
        Csr::new(rows.len(), cols, indptr.collect(), indices, data).unwrap()
    };
    let declared = "param A : csr [n, n] real\nparam B : csr [n, n] real\nparam x : [n] real\n";
    // A body, and how many entries it has.
    let cases = [
        ("gen i < n, j < n. sum k < n. A[i, k] * B[k, j]", None),
        ("gen i < n, j < n. A[i, j] + B[j, i]", None),
        ("gen i < n, j < n. [0 <= i - j and i - j <= 1] * x[i] * x[j]", Some(2 * 9 - 1)),
        ("gen i < n, j < n. sum k < n. [i = k + 1 and j = k] * x[k] + [i = j] * x[i]^2", Some(8 + 9)),
        ("gen i < n, j < n. sum k < n. A[k, i] * A[k, j] * exp(x[k])", None),
        ("gen i < n. sum j < n. A[i, j] * x[j]", None),
    ];
    for n in [9, 1, 0] {
        let mut inputs = Inputs::new();
        inputs.value(
            "A",
            csr(n, n, &|i| if i % 3 == 1 { vec![] } else { (0..n as u32).filter(|j| j % 4 == i as u32 % 4).collect() }),
        );
        inputs.value("B", csr(n, n, &|i| (0..n as u32).filter(|j| (*j as usize + i).is_multiple_of(5)).collect()));
        inputs.value("x", Value::vector((0..n).map(|k| k as f64 * 0.5 - 1.0).collect::<Vec<f64>>()));
        for (body, entries) in cases {
            let function = Function::parse(&format!("{declared}{body}")).unwrap();
            // What a program does not mention it is not given.
            let unused = |name: &str| function.tensor_ssa().signature.param(name).is_none();
            assert!(!["A", "B", "x"].into_iter().any(unused));
            let assembly = function.assemble(&["value"]).unwrap();
            let kernel = assembly.bind(&inputs, Engine::Interpreter).unwrap();
            let found = &kernel.call(&inputs).unwrap()[0].1;
            let expected = crate::reference::evaluate(function.tensor_ssa(), &inputs).unwrap()[0].1.clone();
            let expected = expected.leaves()[0].clone();
            let (dense, len) = match found.leaves()[0].as_ref() {
                Tensor::Csr(csr) => (csr.to_dense().unwrap(), csr.data().len()),
                Tensor::Csc(csc) => (csc.to_dense().unwrap(), csc.data().len()),
                Tensor::Coo(coo) => (coo.to_dense().unwrap(), coo.data().len()),
                Tensor::Dense(_) => panic!("{body}: dense"),
            };
            assert_eq!(dense.shape(), expected.shape());
            for (a, b) in dense.data().iter().zip(expected.data()) {
                assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{body}: {a} and {b}");
            }
            if let (Some(entries), 9) = (entries, n) {
                assert_eq!(len, entries, "{body}");
            }
            let native = assembly.bind(&inputs, Engine::Native).unwrap().call(&inputs).unwrap();
            assert_eq!(format!("{native:?}"), format!("{:?}", kernel.call(&inputs).unwrap()), "{body}");
        }
    }
}

#[test]
fn results_that_cannot_be_assembled() {
    let function = Function::parse("param x : [n] real\nsum i < n. x[i]").unwrap();
    assert!(matches!(function.assemble(&["value"]), Err(Error::Request(_))));
    assert!(matches!(function.assemble(&["other"]), Err(Error::Request(_))));
}

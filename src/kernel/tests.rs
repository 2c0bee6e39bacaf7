//! Kernels by hand: shapes, threads, limits.

use crate::driver::Function;
use crate::error::Error;
use crate::kernel::{Engine, Kernel, Status};
use crate::tensor::{Csr, Inputs, Relation, Value};

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
    let kernel = Function::parse(SPARSE).unwrap().kernel(&sparse_inputs(), Engine::Interpreter).unwrap();
    assert_eq!(kernel.status(), Status::Interpreter);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let kernel = &kernel;
            scope.spawn(move || {
                for round in 0..100 {
                    let x = [f64::from(thread), f64::from(round), 1.0];
                    let mut y = [f64::NAN; 4];
                    kernel.call_into(&[&[1.0, 2.0, 3.0], &x], &mut [&mut y]).unwrap();
                    assert_eq!(y, [0.0, x[0] + 2.0, 0.0, 3.0 * x[1]]);
                }
            });
        }
    });
}

#[test]
fn wrong_inputs_are_refused() {
    let inputs = sparse_inputs();
    let kernel = Function::parse(SPARSE).unwrap().kernel(&inputs, Engine::Interpreter).unwrap();
    let mut y = [0.0; 4];
    let error = kernel.call_into(&[&[1.0; 3]], &mut [&mut y]).unwrap_err();
    assert_eq!(error.to_string(), "inputs: 2 leaves are expected, found 1");
    let error = kernel.call_into(&[&[1.0; 2], &[1.0; 3]], &mut [&mut y]).unwrap_err();
    assert_eq!(error.to_string(), "A: 3 numbers are expected, found 2");
    let error = kernel.call_into(&[&[1.0; 3], &[1.0; 3]], &mut [&mut y[..3]]).unwrap_err();
    assert_eq!(error.to_string(), "value: 4 numbers are expected, found 3");
    let mut other = inputs.clone();
    let csr = Csr::new(4, 3, vec![0, 0, 2, 2, 3], vec![0, 1, 1], vec![1.0, 2.0, 3.0]).unwrap();
    other.value("A", csr);
    let error = kernel.call(&other).unwrap_err();
    assert_eq!(error.to_string(), "A?: it has other tuples than those that the kernel was bound to");
    let missing = Function::parse(SPARSE).unwrap().kernel(&Inputs::new(), Engine::Interpreter).unwrap_err();
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
        let kernel = function.kernel(&inputs, Engine::Interpreter).unwrap();
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
    let error = Function::parse(text).unwrap().kernel(&inputs, Engine::Interpreter).unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    // Rows of a relation with 2^40 sources would not fit.
    let text = "rel E : [n, m]\nparam x : [m] real\nsum i < n, j < m. [E(i, j) and E(i, 0)] * x[j]";
    let mut inputs = Inputs::new();
    inputs.relation("E", Relation::from_tuples(&[1 << 40, 1], &[[3, 0]]).unwrap());
    inputs.value("x", Value::vector(vec![0.0]));
    let kernel = Function::parse(text).unwrap().kernel(&inputs, Engine::Interpreter);
    assert!(matches!(kernel, Err(Error::Limit { .. })), "{kernel:?}");
}

/// 2^40 empty rows take no time, an offset beyond 64 bits is an error.
#[test]
fn empty_axes_of_any_length() {
    let text = "param x : [m] real\nassume n >= 0\nrel E : [n, m]\nsum i < n, j < m. [E(i, j)] * x[j]";
    let mut inputs = Inputs::new();
    inputs.relation("E", Relation::from_tuples::<[usize; 2]>(&[1 << 40, 0], &[]).unwrap());
    inputs.value("x", Value::vector(Vec::new()));
    let kernel = Function::parse(text).unwrap().kernel(&inputs, Engine::Interpreter).unwrap();
    assert_eq!(scalar(&kernel.call(&inputs).unwrap()), 0.0);
}

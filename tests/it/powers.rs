//! `x^y` where both are given at run time: values and derivatives at 0, of both orders, the same on all engines, simplified or not.

use iverson::ir::reference;
use iverson::tensor::{Inputs, Value};
use iverson::{Function, Mode, Request};

use crate::kernels::{judge_itself, numbers};
use crate::support::compile;

/// Base, exponent, the derivatives by both, and the second one by the base.
const CASES: [(f64, f64, f64, f64, f64); 9] = [
    (0.0, 0.0, 0.0, f64::NEG_INFINITY, 0.0),
    (-0.0, 0.0, 0.0, f64::NEG_INFINITY, 0.0),
    (0.0, 1.0, 1.0, 0.0, 0.0),
    (0.0, 2.0, 0.0, 0.0, 2.0),
    (0.0, 3.0, 0.0, 0.0, 0.0),
    (0.0, 2.5, 0.0, 0.0, 0.0),
    (2.0, 0.0, 0.0, std::f64::consts::LN_2, 0.0),
    (1.0, 3.0, 3.0, 0.0, 6.0),
    (4.0, 0.5, 0.25, 2.772588722239781, -0.03125),
];

fn inputs() -> Inputs {
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(CASES.iter().map(|case| case.0).collect()));
    inputs.value("y", Value::vector(CASES.iter().map(|case| case.1).collect()));
    inputs
}

fn derivative(function: &Function, mode: Mode, wrt: &[&str], simplify: bool) -> Function {
    let request = Request::new(mode, wrt);
    let request = if simplify { request } else { request.raw() };
    function.derive(&request).expect("it has a derivative").function
}

#[test]
fn derivatives_at_zero() {
    let function = compile("param x : [n] real\nparam y : [n] real\nsum i < n. x[i]^y[i]");
    for simplify in [false, true] {
        let gradient = derivative(&function, Mode::Gradient, &["x", "y"], simplify);
        let by_x = derivative(&function, Mode::Gradient, &["x"], simplify);
        let mut inputs = inputs();
        let found = numbers(&reference::evaluate(gradient.tensor_ssa(), &inputs).expect("it is evaluated"));
        let expected = CASES.iter().map(|case| case.2).chain(CASES.iter().map(|case| case.3));
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!((found - expected).abs() <= 1e-15 || *found == expected, "{at}: {found}, {expected}\n{gradient}");
        }
        judge_itself(&gradient, &inputs, true).unwrap_or_else(|e| panic!("{e}"));
        let second = derivative(&by_x, Mode::Forward, &["x"], simplify);
        inputs.value("dx", Value::vector(vec![1.0; CASES.len()]));
        let found = numbers(&reference::evaluate(second.tensor_ssa(), &inputs).expect("it is evaluated"));
        for (found, case) in found.iter().zip(&CASES) {
            assert!((found - case.4).abs() <= 1e-15, "{case:?}: {found}\n{second}");
        }
        judge_itself(&second, &inputs, true).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A literal exponent has no case for 0.
#[test]
fn literal_exponents_have_no_cases() {
    let function = compile("param x : [n] real\nsum i < n. x[i]^2.5");
    for simplify in [false, true] {
        let gradient = derivative(&function, Mode::Gradient, &["x"], simplify);
        assert!(!gradient.to_string().contains("equal"), "{gradient}");
    }
}

/// Simplification divides by powers what was divided several times. Kernels do not overflow there, and find what the derivative as the rules give it is.
#[test]
fn quotients_by_powers_stay_in_range() {
    let programs = [
        "param w : [n] real\nlet s = sum(w)\nsum i < n. (w[i] / s)^2",
        "param w : [n] real\nlet s = sum(w)\nsum i < n. w[i] / s * (w[i] / s) * real(i)",
        "param w : [n] real\nsum i < n - 1. w[i] / w[i + 1]",
        "param w : [n] real\nsum i < n. w[i] / (w[0] + w[i]) * real(i + 1)",
    ];
    for text in programs {
        for size in [1.0, 1e105, 1e-105] {
            let mut inputs = Inputs::new();
            inputs.value("w", Value::vector([3.0, 1.0, 2.0].iter().map(|x| x * size).collect()));
            let function = compile(text);
            let gradient = |simplify: bool| {
                let results = derivative(&function, Mode::Gradient, &["w"], simplify).eval(&inputs);
                results.expect("it runs")["grad_w"].as_slice().map(<[f64]>::to_vec).expect("a vector")
            };
            let (simple, written) = (gradient(true), gradient(false));
            let scale = written.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            let is_close = simple.iter().zip(&written).all(|(a, b)| (a - b).abs() <= 1e-13 * scale);
            assert!(scale > 0.0 && is_close, "{text} at {size}: {simple:?} for {written:?}");
        }
    }
}

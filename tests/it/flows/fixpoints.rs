//! Solutions of equations, and their derivatives by the implicit function theorem: in closed form, beside those of the steps, and by each other.

use fastrand::Rng;
use iverson::ir::base::SizeId;
use iverson::ir::flow::{Program, Stmt};
use iverson::ir::functional;
use iverson::ir::index::Affine;
use iverson::ir::reference::Environment;
use iverson::kernel::Engine;
use iverson::tensor::{Dense, Inputs, bind};
use iverson::{Error, Function, Mode};

use super::{close, gradient, inputs, judge, positive, program, usual};

fn parsed(text: &str) -> Function {
    Function::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

const ROOT: &str = "param a : real\nfixpoint s = a while abs(s^2 - a) > 1e-12 * a, at most 60. (s + a / s) / 2";

/// The square root by Newton's method, at 4: its derivatives are 1/4, -1/32 and 3/256, by each engine and of what is printed.
#[test]
fn derivatives_of_a_root() {
    let root = parsed(ROOT);
    let at = iverson::inputs! { "a" => 4.0 };
    let slope = root.gradient(["a"]).expect("it is derived");
    let curve = parsed(&slope.to_string()).gradient(["a"]).expect("it is derived again");
    let third = parsed(&curve.to_string()).gradient(["a"]).expect("and again");
    for (function, name, expected) in
        [(root, "value", 2.0), (slope, "grad_a", 0.25), (curve, "grad_a", -1.0 / 32.0), (third, "grad_a", 3.0 / 256.0)]
    {
        for engine in [Engine::Interpreter, Engine::Native] {
            let kernel = function.kernel(&at).engine(engine).build().expect("it is bound");
            let results = kernel.call(&at).expect("it runs");
            close(name, results[name].as_scalar().expect("a number"), expected, 1e-11);
        }
    }
}

/// Where the state has not converged the derivative is that of a solution, which the steps that were made do not have: of `s = s / 2 + x` it is 2.
#[test]
fn the_steps_are_no_part_of_the_derivative() {
    for most in [0, 1, 3] {
        // The equation needs its own steps: 60 of them.
        let text = format!(
            "param x : real\nlet s = iterate s = 5 while s > 1e-9, at most {most}. s / 2 + x in fixpoint s = s, at most 60. s / 2 + x"
        );
        let inputs = iverson::inputs! { "x" => 0.7 };
        close("by x", gradient(&parsed(&text), &inputs, "x")[0], 2.0, 1e-12);
        let expected = (0..=most).fold(5.0, |s: f64, _| s / 2.0 + 0.7);
        close("value", judge("half", &parsed(&text), &inputs).0, expected, 1e-14);
    }
    // With k steps for the equation it is 1 + 1/2 + .. + 1/2^k.
    for most in [0, 1, 3] {
        let text = format!("param x : real\nfixpoint s = 0, at most {most}. s / 2 + x");
        let expected = 2.0 - 0.5_f64.powi(most);
        close("by x", gradient(&parsed(&text), &iverson::inputs! { "x" => 0.7 }, "x")[0], expected, 0.0);
    }
}

/// The derivative of the solution is that of converged steps, as close as both have converged.
#[test]
fn as_by_the_steps() {
    type Case<'a> = (&'a str, &'a [(&'a str, i64)], &'a dyn Fn(usize, usize) -> f64);
    let shares = |p: usize, k: usize| match p {
        0 => usual(p, k).abs(),
        1 => [0.1, 0.2, 0.7][k],
        _ => [0.4, 0.3, 0.2, 0.1][k],
    };
    let root = positive(&[0]);
    let cases: [Case<'_>; 2] = [("equilibrium", &[("n", 4)], &usual), ("transport", &[("n", 3), ("m", 4)], &shares)];
    for (name, sizes, number) in cases {
        let function = program(name);
        let text = function.to_string();
        let steps = std::fs::read_to_string(format!("{}/tests/flows/{name}.iv", env!("CARGO_MANIFEST_DIR")));
        let steps = parsed(&steps.expect("it is there").replace("fixpoint", "iterate"));
        let inputs = inputs(&function, sizes, number, &[]);
        judge(name, &function, &inputs);
        judge(&format!("{name}, printed"), &parsed(&text), &inputs);
        for param in function.signature().params.values() {
            let (found, expected) = (gradient(&function, &inputs, &param.name), gradient(&steps, &inputs, &param.name));
            found.iter().zip(expected).for_each(|(a, b)| close(name, *a, b, 1e-11));
        }
    }
    let (fixpoint, steps) = (parsed(ROOT), parsed(&ROOT.replace("fixpoint", "iterate")));
    let inputs = inputs(&fixpoint, &[], &root, &[]);
    close("root", gradient(&fixpoint, &inputs, "a")[0], gradient(&steps, &inputs, "a")[0], 1e-9);
}

/// Equations that shrink distances, in every place that a loop may stand in.
#[test]
fn in_every_place() {
    let cases = [
        // Of tensors, of several, and of pairs of them.
        "param x : [n] real\nsum(fixpoint s = x, at most 80. gen i < n. sin(s[i]) / 3 + x[i] * (sum j < n. s[j]) / 9)",
        "param x : [n] real\nlet (s, r) = fixpoint (s, r) = (0, x), at most 80. (sin(sum(r)) / 4 + x[0], gen i < n. cos(r[i] + s) / 4) in s * sum(r)",
        "param x : [n] real\nlet (s, (r, q)) = fixpoint (s, (r, q)) = (0, (1, 2)), at most 80. (r / 3 + x[0], (cos(q) / 3, x[1])) in s + r + q",
        // Below indices and brackets.
        "param x : [n] real\nsum i < n. x[i] * (fixpoint s = 0, at most 80. cos(s + x[i]) / 3)",
        "param x : [n] real\nsum i < n. [i > 0] * (fixpoint s = x[i], at most 80. cos(s * x[i - 1]) / 3)",
        "param x : [n] real\nsum i < n, j < n. (fixpoint s = 0 while abs(cos(s + x[i] * x[j]) / 3 - s) > 1e-15, at most 80. cos(s + x[i] * x[j]) / 3)",
        // In loops, and loops in it.
        "param x : [n] real\nfold t < n, s = x[0]. fixpoint r = s, at most 80. sin(r + x[t]) / 4 + s / 2",
        "param x : [n] real\nlet s = scan t < n down, s = x[0]. fixpoint r = s while abs(r) > 1, at most 80. sin(r + x[t]) / 4 + s / 2 in sum t < n + 1. s[t]^2",
        "param x : [n] real\nfixpoint s = 0, at most 80. fold t < n, r = s. sin(r * x[t]) / 2 + x[t]",
        "param x : [n] real\nfixpoint s = 0 while abs(s) < 1, at most 80. sum((scan t < n, r = s. sin(r * x[t]) / 3 + x[t])) / 9",
        "param x : [n] real\nfixpoint s = x[0], at most 80. s / 9 + (fixpoint r = s, at most 80. sin(r + s) / 4 + x[1])",
        "param x : [n] real\nfixpoint s = x[0], at most 80. (iterate r = s while abs(r) > 0.2, at most 5. r / 2) / 9 + x[1]",
        "param x : [n] real\nfold t < n, s = x[0]. sum i < n. fixpoint r = s, at most 80. sin(r * x[i]) / 4 + s / 2 + x[t]",
        // In functions, and of functions.
        "param x : [n] real\ndef root(f : real -> real) = fixpoint s = 0, at most 80. f(s)\nsum i < n. root(fn s. cos(s) * x[i] / 2)",
        // One after the other, and where the state does not move.
        "param x : [n] real\nlet s = fixpoint s = 0, at most 80. cos(s * x[0]) / 2 in fixpoint r = s, at most 80. sin(r + s) / 3 + x[1]",
        "param x : [n] real\nx[0] * (fixpoint s = x[1], at most 80. 2)",
        "param x : [n] real\nfixpoint s = x[0], at most 80. x[1]^2",
    ];
    for (k, text) in cases.iter().enumerate() {
        let text = &text.replacen('\n', "\nassume n >= 3\n", 1);
        let function = parsed(text);
        let inputs = inputs(&function, &[("n", 3)], &usual, &[]);
        judge(text, &function, &inputs);
        if k % 4 == 0 {
            engines(text, &function, &inputs);
        }
    }
}

/// A function and its gradient give the same bits by both engines.
fn engines(name: &str, function: &Function, inputs: &Inputs) {
    for function in [function.clone(), function.gradient(["x"]).expect("it is derived")] {
        let of = |engine| {
            let kernel = function.kernel(inputs).engine(engine).build().expect("it is bound");
            let results = kernel.call(inputs).expect("it runs");
            let leaves = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
            leaves
                .flat_map(|leaf| leaf.lexicographic().iter().map(|x| x.to_bits()).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Engine::Interpreter), of(Engine::Native), "{name}");
    }
}

/// Random equations that shrink distances, of one to three numbers, nested to a depth of two.
#[test]
fn random_equations() {
    fn equation(rng: &mut Rng, state: &str, depth: usize) -> String {
        let inner = match rng.usize(0..if depth == 0 { 2 } else { 4 }) {
            0 => format!("x[{}]", rng.usize(0..3)),
            1 => format!("{state} * x[{}]", rng.usize(0..3)),
            2 => {
                format!("(fixpoint r{depth} = {state}, at most 90. {})", equation(rng, &format!("r{depth}"), depth - 1))
            }
            _ => format!("(fold t < 2, r{depth} = {state}. {})", equation(rng, &format!("r{depth}"), depth - 1)),
        };
        let f = ["sin", "cos", "tanh", "sigmoid"][rng.usize(0..4)];
        format!("{f}({state} / 2 + {inner}) / {} + {inner} / 9", rng.usize(2..5))
    }
    let mut rng = Rng::with_seed(24);
    for _ in 0..8 {
        let body = equation(&mut rng, "s", 2);
        let text = match rng.usize(0..3) {
            0 => format!("param x : [n] real\nassume n >= 3\nfixpoint s = x[0], at most 90. {body}"),
            1 => {
                format!("param x : [n] real\nassume n >= 3\nsum i < n. x[i] * (fixpoint s = x[i], at most 90. {body})")
            }
            _ => format!(
                "param x : [n] real\nassume n >= 3\nfold u < 3, v = x[1]. fixpoint s = v while abs(s) > 0.1, at most 90. {body} + v / 9"
            ),
        };
        let function = parsed(&text);
        let inputs = inputs(&function, &[("n", 3)], &usual, &[]);
        judge(&text, &function, &inputs);
    }
}

/// Jacobians, Hessians and products with them, of the solution of `s = cos(s + x) / 2`, by derivatives of the equation.
#[test]
fn matrices() {
    let text = "param x : [n] real\n\
                gen i < n. fixpoint s = 0 while abs(cos(s + x[i]) / 2 - s) > 1e-16, at most 200. cos(s + x[i]) / 2";
    let function = parsed(text);
    let at = iverson::inputs! { "x" => [0.3, -1.0, 2.0] };
    let solution = |x: f64| (0..200).fold(0.0, |s: f64, _| (s + x).cos() / 2.0);
    // s' = -sin(s + x) / 2 (1 + s'), and once more.
    let slope = |x: f64| {
        let half = (solution(x) + x).sin() / 2.0;
        -half / (1.0 + half)
    };
    let curve = |x: f64| {
        let (half, s) = ((solution(x) + x).sin() / 2.0, solution(x));
        -(s + x).cos() / 2.0 * (1.0 + slope(x)).powi(2) / (1.0 + half)
    };
    let entries = |function: &Function| {
        let results = function.clone().dense().eval(&at).expect("it runs");
        let found: Vec<f64> =
            results.iter().flat_map(|(_, value)| value.leaves()[0].lexicographic().into_owned()).collect();
        found
    };
    let diagonal = |of: &dyn Fn(f64) -> f64| {
        let mut all = vec![0.0; 9];
        [0.3, -1.0, 2.0].iter().enumerate().for_each(|(k, x)| all[4 * k] = of(*x));
        all
    };
    let found = entries(&function.jacobian(["x"]).expect("it is derived"));
    found.iter().zip(diagonal(&slope)).for_each(|(a, b)| close("Jacobian", *a, b, 1e-12));
    let total = parsed(&text.replace("gen i", "sum i"));
    let found = entries(&total.hessian(["x"]).expect("it is derived"));
    found.iter().zip(diagonal(&curve)).for_each(|(a, b)| close("Hessian", *a, b, 1e-11));
}

/// The transposed program of an equation that is linear solves the transposed one.
#[test]
fn linear_equations_are_transposed() {
    let text = "param A : [n, n] real\nparam b : [n] real\nfixpoint s = (gen i < n. 0), at most 200. gen i < n. b[i] + (sum j < n. A[i, j] * s[j]) / 4";
    let function = parsed(text);
    let transposed = function.transpose(["b"]).expect("it is linear");
    let mut inputs = inputs(&function, &[("n", 3)], &usual, &[]);
    let seed = [0.3, -0.7, 0.2];
    let mut expected = seed;
    for _ in 0..200 {
        let row = |j: usize| (0..3).map(|i| usual(0, 3 * i + j) * expected[i]).sum::<f64>();
        expected = [0, 1, 2].map(|j| seed[j] + row(j) / 4.0);
    }
    inputs.value("dy", Dense::new(&[3], seed.to_vec()).expect("a vector"));
    let found = transposed.eval(&inputs).expect("it runs");
    let found = found["adjoint_b"].leaves()[0].lexicographic().into_owned();
    found.iter().zip(expected).for_each(|(a, b)| close("transposed", *a, b, 1e-12));
}

/// The gradient of a fixpoint keeps no path: no buffer is as long as there are steps.
#[test]
fn no_path_is_kept() {
    let function = program("equilibrium");
    let inputs = inputs(&function, &[("n", 8)], &usual, &[]);
    let gradient = function.value_and_gradient(["W", "x"]).expect("it is derived");
    let kernel = gradient.kernel(&inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let n = Affine::size(SizeId(0));
    let buffers = &kernel.program().buffers;
    assert!(
        buffers
            .values()
            .all(|buffer| buffer.dims.iter().all(|dim| *dim == n || dim.as_constant().is_some_and(|k| k < 300))),
        "{}",
        kernel.program()
    );
}

/// Marks survive JSON, and what has none is refused.
#[test]
fn saved_and_verified() {
    let gradient = program("equilibrium").value_and_gradient(["W"]).expect("it is derived");
    let flow = gradient.flow().expect("it has loops");
    let again = Program::from_json(&flow.to_json().expect("it is written")).expect("it is read");
    assert_eq!(&again, flow);
    assert!(again.has_fixpoints());
    let mut broken = flow.clone();
    for stmt in &mut broken.body {
        if let Stmt::Scan(scan) = stmt
            && scan.implicit.is_some()
        {
            scan.down = true;
        }
    }
    let complaints = broken.verify().expect_err("a fixpoint goes up");
    assert!(complaints.iter().any(|complaint| complaint.contains("no index of a fixpoint")), "{complaints:?}");
}

/// What there is not: other methods, and bounds on costs.
#[test]
fn what_is_refused() {
    let root = parsed(ROOT);
    let inputs = iverson::inputs! { "a" => 2.0 };
    let term = root.term().expect("it has a source");
    let at = Environment::from_bindings(&bind(root.signature(), &inputs).expect("they fit")).expect("they are bound");
    let error = functional::elaborate::elaborate(&term, &at).map(|_| ()).expect_err("there is no such term");
    assert!(matches!(&error, Error::Limitation { feature, .. } if feature.contains("`fixpoint`")), "{error}");
    let gradient = root.gradient(["a"]).expect("it is derived");
    let error = root.certify(&gradient, Mode::Gradient).map(|_| ()).expect_err("there is no theorem");
    assert!(error.to_string().contains("`fixpoint`"), "{error}");
    assert!(root.cost().is_ok() && gradient.cost().is_ok());
}

//! Loops that end where a condition fails: which do, with what results, and that they run no further.

use super::{DIGITS, close, gradient, inputs, judge, program, usual};
use iverson::Function;
use iverson::ir::flow::{Program, Stmt};
use iverson::ir::reference::{Environment, Limits, Subject, eval_term};
use iverson::ir::stages::Stages;
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, bind};

fn parsed(text: &str) -> Function {
    Function::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Whether the loops of a program end early, in order.
fn early(text: &str) -> Vec<bool> {
    let function = parsed(text);
    let flow = function.flow().expect("it has loops");
    let is_early = |stmt: &Stmt| if let Stmt::Scan(scan) = stmt { Some(scan.early.is_some()) } else { None };
    flow.body.iter().filter_map(is_early).collect()
}

/// The value of a program by the evaluators of flows and of terms.
fn reference(function: &Function, inputs: &Inputs) -> [f64; 2] {
    let flow = function.flow().expect("it has loops");
    let at =
        Environment::from_bindings(&bind(&flow.signature, inputs).expect("the inputs fit")).expect("they are bound");
    let value = flow.evaluate(&at, None, Limits::default(), None).expect("it runs");
    let term = function.term().expect("it has a source");
    let by_term = eval_term::evaluate(&term, &at, Limits::default()).expect("it runs");
    [value[0][0].values()[0], by_term[0].values()[0]]
}

/// The square root is found in five steps, of 2^32 that there may be.
#[test]
fn newton() {
    let function = program("newton");
    let inputs = inputs(&function, &[], &|_, _| 2.0, &[]);
    reference(&function, &inputs).iter().for_each(|value| close("value", *value, 2.0_f64.sqrt(), 1e-12));
    for engine in [Engine::Interpreter, Engine::Native] {
        let gradient = function.value_and_gradient(["a"]).expect("it is derived");
        let kernel = gradient.kernel(&inputs).engine(engine).build().expect("it is bound");
        let results = kernel.call(&inputs).expect("it runs");
        close("value", results["value"].as_scalar().expect("a number"), 2.0_f64.sqrt(), 1e-12);
        close("by a", results["grad_a"].as_scalar().expect("a number"), 0.125_f64.sqrt(), 1e-9);
    }
}

/// Rays that take 1, 5, 7 and 9 steps.
#[test]
fn rays() {
    let function = program("march");
    let number = |p: usize, k: usize| [3.0, 1.0, 0.05 * k as f64][p];
    let inputs = inputs(&function, &[("k", 4)], &number, &[]);
    close("value", judge("march", &function, &inputs).0, 8.110908869, DIGITS);
    close("by c", gradient(&function, &inputs, "c")[0], 4.09639281, 1e-7);
    close("by r", gradient(&function, &inputs, "r")[0], -4.17826957, 1e-7);
}

/// A layer whose input is its output; the derivative is that of the equation.
#[test]
fn a_fixed_point() {
    let function = program("fixed_point");
    let inputs = inputs(&function, &[("n", 4)], &usual, &[]);
    judge("fixed_point", &function, &inputs);
}

/// A loop ends early if its condition is about the state alone, however it is written; not if a step counts.
#[test]
fn what_ends_early() {
    let cases: [(&str, &[bool]); 12] = [
        ("param a : real\niterate s = a while s < 9, at most 50. s + 1", &[true]),
        ("param a : real\nfold t < 50, s = a. if s < 9 then s + 1 else s", &[true]),
        ("param a : real\nfold t < 50, s = a. if 9 <= s then s else s + real(t)", &[true]),
        ("param a : real\nfold t < 50, (s, r) = (a, 1). if s < 9 then (s + r, r * 2) else (s, r)", &[true]),
        ("param x : [n] real\nsum i < n. iterate s = x[i] while s < 9, at most 50. s + 1", &[true]),
        ("param x : [n] real\nsum i < n. iterate s = x[i] while s < 9 and x[i] > 0, at most 50. s + 1", &[true]),
        // The condition is about the step.
        ("param a : real\nfold t < 50, s = a. if t < 5 then s + 1 else s", &[false]),
        ("param x : [50] real\nfold t < 50, s = 0. if s < x[t] then s + 1 else s", &[false]),
        // Something else goes on.
        (
            "param a : real\nlet (s, k) = fold t < 50, (s, k) = (a, 0). (if s < 9 then s + 1 else s, k + 1) in s * k",
            &[false],
        ),
        ("param a : real\nfold t < 50, s = a. if s < 9 then s + 1 else 0", &[false]),
        // All states are read: they are filled up behind the end, unless another loop is around.
        ("param a : real\nlet s = scan t < 50, s = a. if s < 9 then s + 1 else s in sum t < 51. s[t]", &[true]),
        ("param a : real\nlet s = scan t < 50 down, s = a. if s < 9 then s + 1 else s in sum t < 51. s[t]", &[false]),
    ];
    for (text, expected) in cases {
        assert_eq!(early(text), expected, "{text}");
    }
}

/// Neither a value nor a gradient depends on how many steps there may be.
#[test]
fn steps_that_may_be_are_not_made() {
    let text =
        |most: &str| format!("param a : real\nparam b : real\niterate s = a while s < b, at most {most}. s + 1 / s");
    let results = |most: &str, engine: Engine| {
        let function = parsed(&text(most)).value_and_gradient(["a", "b"]).expect("it is derived");
        let inputs = iverson::inputs! { "a" => 1.0, "b" => 8.0 };
        let kernel = function.kernel(&inputs).engine(engine).build().expect("it is bound");
        let results = kernel.call(&inputs).expect("it runs");
        ["value", "grad_a", "grad_b"].map(|name| results[name].as_scalar().expect("a number").to_bits())
    };
    let expected = results("100", Engine::Interpreter);
    for most in ["64", "1000000", "4294967296"] {
        assert_eq!(results(most, Engine::Interpreter), expected, "at most {most}");
    }
    assert_eq!(results("1000000", Engine::Native), expected);
    assert_ne!(results("5", Engine::Interpreter), expected);
    // The reference makes no more steps either.
    let inputs = iverson::inputs! { "a" => 1.0, "b" => 8.0 };
    assert_eq!(reference(&parsed(&text("4294967296")), &inputs).map(f64::to_bits), [expected[0]; 2]);
}

/// A loop in a loop: steps by the implicit Euler method, each solved by Newton's.
#[test]
fn loops_inside_of_others_end() {
    let text = "param a : real\nsize T\nfold t < T, y = a. \
                iterate z = y while abs(z - y + z^3 / 10) > 1e-12. z - (z - y + z^3 / 10) / (1 + 3 * z^2 / 10)";
    let function = parsed(text);
    let mut inputs = iverson::inputs! { "a" => 1.5 };
    inputs.size("T", 20);
    let (mut expected, mut slope) = (1.5_f64, 1.0);
    for _ in 0..20 {
        let y = expected;
        (0..50).for_each(|_| expected -= (expected - y + expected.powi(3) / 10.0) / (1.0 + 0.3 * expected.powi(2)));
        slope /= 1.0 + 0.3 * expected.powi(2);
    }
    reference(&function, &inputs).iter().for_each(|value| close("reference", *value, expected, 1e-11));
    for engine in [Engine::Interpreter, Engine::Native] {
        let kernel = function.kernel(&inputs).engine(engine).build().expect("it is bound");
        let value = kernel.call(&inputs).expect("it runs")["value"].as_scalar();
        close("kernel", value.expect("a number"), expected, 1e-11);
    }
    // Backwards the states of the inner loops are kept, so it is said how many there are.
    let bounded = text.replace("1e-12.", "1e-12, at most 8.");
    close("by a", gradient(&parsed(&bounded), &inputs, "a")[0], slope, 1e-10);
}

/// Of a loop that nobody bounds so many states are kept and no more, and it is said what to do.
#[test]
fn too_many_steps_are_an_error() {
    let function =
        parsed("param a : real\niterate s = a while 0 < s. s + 1 / s").gradient(["a"]).expect("it is derived");
    let inputs = iverson::inputs! { "a" => 1.0 };
    let kernel = function.kernel(&inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let message = kernel.call(&inputs).expect_err("it does not end").to_string();
    assert!(message.contains("after 65536 steps") && message.contains("at most"), "{message}");
}

/// Where the condition fails at once nothing changes, and derivatives are those of nothing.
#[test]
fn no_step_at_all() {
    let function = parsed("param a : real\niterate s = a while s < 0, at most 9. s * s * s");
    let inputs: Inputs = iverson::inputs! { "a" => 3.0 };
    assert_eq!(reference(&function, &inputs), [3.0; 2]);
    assert_eq!(gradient(&function, &inputs, "a"), [1.0]);
    assert_eq!(judge("no step", &function, &inputs).0, 3.0);
}

/// What loops say of their ends.
#[test]
fn ends_in_loops() {
    let function =
        parsed("param a : real\niterate s = a while s < 9, at most 50. s * s").gradient(["a"]).expect("derived");
    let text = function.loops(&mut Stages::new()).expect("it lowers").to_string();
    for line in ["end if r", "i0 = length steps, at most 50", "for i1 in 0 .. i0 - 1"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// Flows whose loops end early are written and read back; source for others has a bound on its steps.
#[test]
fn saved_and_emitted() {
    let gradient = program("newton").value_and_gradient(["a"]).expect("it is derived");
    let flow = gradient.flow_of_kernels().expect("it is made").expect("it has loops");
    let json = flow.to_json().expect("it is written");
    assert_eq!(&Program::from_json(&json).expect("it is read"), flow);
    let message = gradient.rust_source().expect_err("nobody looks at steps").to_string();
    assert!(message.contains("at most"), "{message}");
    let bounded = parsed("param a : real\niterate s = a while abs(s^2 - a) > 1e-12, at most 60. (s + a / s) / 2");
    let source = bounded.value_and_gradient(["a"]).expect("it is derived").rust_source().expect("it is written");
    assert!(source.contains("break;"), "{source}");
}

/// Sums over the steps of an inner loop have all steps, and outer loops go on.
#[test]
fn sums_over_inner_loops() {
    let text = "param x : [n] real\nsize T\n\
                fold t < T, y = 0. let s = scan u < 6, s = y. if s < 3 then s + 1 else s in y / 4 + (sum u < 7, i < n. s[u] * x[i])";
    let function = parsed(text);
    let inputs = inputs(&function, &[("n", 2), ("T", 4)], &usual, &[]);
    judge("sums over inner loops", &function, &inputs);
    let text = "param x : real\nsize T\nfold t < T, y = x. (iterate s = y while s < 3, at most 6. s * 1.5) / 2 + x";
    let function = parsed(text);
    let inputs = super::inputs(&function, &[("T", 5)], &|_, _| 0.7, &[]);
    judge("an inner loop that ends", &function, &inputs);
}

//! Functions of one number in one kernel: what they begin with is computed once, and native code has the bits of the interpreter, which computes each alone.

use std::sync::Arc;

use iverson::ir::codegen::source::{Target, source};
use iverson::ir::loops::{self, Program};
use iverson::ir::stages::Stages;
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Inputs, Value};
use iverson::{Function, Mode, Request};

use crate::kernels::{judge_itself, numbers};
use crate::support::compile;

/// Small and large angles, bases of powers, and what is special.
const NUMBERS: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    -7.0,
    std::f64::consts::FRAC_PI_2,
    1e5,
    -999999.9,
    1000000.1,
    -1e7,
    1e22,
    -1e300,
    f64::MAX,
    f64::MIN_POSITIVE,
    -5e-324,
    2e-310,
    1e-30,
    0.999999999,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

fn inputs(n: usize, s: f64) -> Inputs {
    let mut inputs = Inputs::new();
    let mut rng = fastrand::Rng::with_seed(n as u64);
    let x = (0..n).map(|k| if k % 3 == 2 { 40.0 * (rng.f64() - 0.5) } else { NUMBERS[(k + n) % NUMBERS.len()] });
    inputs.value("x", Value::vector(x.collect())).value("s", s);
    inputs
}

/// How often a function is called in the text of nests.
fn count(text: &str, call: &str) -> usize {
    let nests = text.lines().filter(|line| line.trim_start().starts_with("let ") && line.contains(call));
    nests.count()
}

/// Nests that store in `y`, from the lines inside of the loop over `i0`.
fn nests(how: &str, lines: &str) -> Program {
    let function = compile("param x : [n] real\nparam s : real\ngen i < n. x[i] * s");
    let lines: String = lines.lines().map(|line| format!("    {}\n", line.trim_end())).collect();
    let text = format!("y[n]:\n  for i0 in 0 .. n - 1{how}\n{lines}out y = y\n");
    loops::parse(&text, &function.tensor_ssa().signature).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Native code and the interpreter give the same bits, in all groups of lanes; the text of the kernel.
fn engines_agree(program: &Program) -> String {
    for n in [1, 7, 8, 67] {
        for s in [2.5, -3.0, 0.0] {
            let inputs = inputs(n, s);
            let run = |engine| -> Vec<u64> {
                let kernel = Kernel::bind(Arc::new(program.clone()), &inputs, engine).expect("it is bound");
                let found = numbers(&kernel.call(&inputs).expect("it runs"));
                found.into_iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
            };
            assert_eq!(run(Engine::Native), run(Engine::Interpreter), "{program}");
        }
    }
    source(program, Target::Library).expect("it is written").text
}

#[test]
fn beginnings_are_computed_once() {
    let lines = "r0 = x[i0]\nr1 = s\nr2 = sin(r0)\nr3 = pow(r0, r1)\nr4 = pow(r0, r2)\nr5 = cos(r0)\nr6 = r2 * r3\n\
                 r7 = r4 + r6\nr8 = r5 * r7\ny[i0] = r8";
    for how in ["", ", jam 4", ", lanes 8", ", lanes 16", ", lanes 32"] {
        let text = engines_agree(&nests(how, lines));
        let angles = count(&text, "= angle_parts(");
        assert!(angles > 0, "{text}");
        for call in ["= sin_of_angle(", "= cos_of_angle(", "= base_parts("] {
            assert_eq!(count(&text, call), angles, "{call}\n{text}");
        }
        assert_eq!(count(&text, "= pow_of_base("), 2 * angles, "{text}");
    }
}

/// A number that gets another value, a block that is not around, and a number for all lanes.
#[test]
fn beginnings_are_not_those_of_other_numbers() {
    let changed = "local r0\nr1 = x[i0]\nr0 += r1\nr2 = sin(r0)\nr0 += r1\nr3 = cos(r0)\nr4 = sin(r0)\nr5 = r2 * r3\n\
                   r6 = r4 * r5\ny[i0] = r6";
    let in_a_loop = "local r0\nlocal r9\nr1 = x[i0]\nr0 += r1\nr2 = sin(r0)\nfor i1 in 0 .. 3\n  r3 = cos(r0)\n  r9 += r3\n  \
                     r0 += r1\nr4 = sin(r0)\nr5 = r2 * r9\nr6 = r4 * r5\ny[i0] = r6";
    let in_a_branch = "local r9\nr0 = x[i0]\nr1 = s\nif r1 != 0\n  r2 = sin(r0)\n  r9 += r2\nr3 = cos(r0)\nr4 = sin(r0)\n\
                       r5 = r3 * r9\nr6 = r4 * r5\ny[i0] = r6";
    let around = "local r9\nr0 = x[i0]\nr1 = sin(r0)\nfor i1 in 0 .. 3\n  r2 = cos(r0)\n  r3 = sin(r0)\n  r9 += r3\n  r9 += r2\n\
                  r4 = r1 * r9\ny[i0] = r4";
    let narrow = "r0 = x[i0]\nr1 = s\nr2 = pow(r1, r0)\nr3 = r0 * r0\nr4 = pow(r1, r3)\nr5 = r2 * r4\ny[i0] = r5";
    for (lines, beginnings) in [(changed, 2), (in_a_loop, 3), (in_a_branch, 2), (around, 1)] {
        let text = engines_agree(&nests("", lines));
        assert_eq!(count(&text, "= angle_parts("), beginnings, "{text}");
        for how in [", lanes 16", ", jam 4"] {
            engines_agree(&nests(how, lines));
        }
    }
    assert_eq!(count(&engines_agree(&nests("", narrow)), "= base_parts("), 1);
    let text = engines_agree(&nests(", lanes 16", narrow));
    assert_eq!((count(&text, "= base_parts("), count(&text, "= pow_of_base(")), (0, 0), "{text}");
}

/// Values and gradients: one beginning for each argument.
#[test]
fn values_and_gradients_share_beginnings() {
    for (text, wrt, beginnings, calls) in [
        (
            "sum i < n. s * cos(x[i])",
            vec!["x", "s"],
            "= angle_parts(",
            ["sin_of_angle(angle_parts_", "cos_of_angle(angle_parts_"],
        ),
        (
            "sum i < n. sin(s * x[i])",
            vec!["x", "s"],
            "= angle_parts(",
            ["sin_of_angle(angle_parts_", "cos_of_angle(angle_parts_"],
        ),
        ("sum i < n. x[i]^s", vec!["x", "s"], "= base_parts(", ["pow_of_base(base_parts_"; 2]),
        ("sum i < n. [x[i] > 0] * x[i]^2.25", vec!["x"], "= base_parts(", ["pow_of_base(base_parts_"; 2]),
    ] {
        let function = compile(&format!("param x : [n] real\nparam s : real\n{text}"));
        let request = Request { with_value: true, ..Request::new(Mode::Gradient, &wrt) };
        let derived = function.derive(&request).expect("it has a gradient").function;
        for n in [1, 67, 500] {
            judge_itself(&derived, &inputs(n, 1.25), true).unwrap_or_else(|complaint| panic!("{complaint}"));
        }
        let nests = derived.loops(&mut Stages::new()).expect("it lowers");
        let text = source(&nests, Target::Module).expect("it is written").text;
        let (shared, used) = (count(&text, beginnings), calls.map(|call| count(&text, call)));
        let each = if calls[0] == calls[1] { 2 * shared } else { shared };
        assert!(shared > 0 && used == [each; 2], "{used:?} of {shared}\n{text}");
    }
}

/// A function alone is called by its name.
#[test]
fn functions_alone_are_as_they_were() {
    for text in ["gen i < n. sin(x[i])", "gen i < n. x[i]^1.5", "gen i < n. sin(x[i]) + cos(2 * x[i])"] {
        let function: Function = compile(&format!("param x : [n] real\n{text}"));
        let nests = function.loops(&mut Stages::new()).expect("it lowers");
        let text = source(&nests, Target::Module).expect("it is written").text;
        assert_eq!(count(&text, "= angle_parts(") + count(&text, "= base_parts("), 0, "{text}");
    }
}

//! The passes over loop nests, one by one: on programs as lowering left them, in their order, and all but one of them.
//!
//! Each is judged by the interpreter before and after, at the exactness that the pass has, on the programs of the tests with their gradients and
//! on random ones. The verifier looks at every result.

use std::sync::Arc;

use iverson::driver::{Mode, Request};
use iverson::kernel::{Engine, Kernel};
use iverson::loops::Program;
use iverson::schedule::{Exactness, PASSES};
use iverson::stages::{Stages, check};
use iverson::tensor::Inputs;
use iverson::{Function, lower, prepare, tssa};

use crate::generate::{self, Family};
use crate::judge::{Expected, Ways, numbers};
use crate::kernels::fitting;
use crate::straight::residuals;
use crate::support::{Numbers, compile, inputs, setting};

/// The bits of numbers, one pattern for all NaNs.
fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// A program as lowering leaves it.
fn lowered(program: &tssa::Program) -> Program {
    let prepared = prepare::prepare(program, &mut Stages::new()).expect("it is prepared");
    lower::lower(&prepared.program).expect("it lowers")
}

fn run(program: &Program, inputs: &Inputs) -> Vec<f64> {
    let kernel = Kernel::bind(Arc::new(program.clone()), inputs, Engine::Interpreter).expect("it binds");
    numbers(&kernel.call(inputs).expect("it runs"))
}

/// How often a pass changed a program.
type Changes = [usize; PASSES.len()];

fn judge(name: &str, function: &Function, inputs: &Inputs, changes: &mut Changes) {
    let expected = Expected::of(function.tensor_ssa(), inputs).expect("it is evaluated");
    let near = |what: &str, program: &Program, found: &[f64]| {
        let compared = expected.compare(what, found, Ways::Raw);
        compared.unwrap_or_else(|complaint| panic!("{name}: {complaint}\n{program}"));
    };
    let first = lowered(function.tensor_ssa());
    check("lower", &first).expect("well formed");
    let at_first = run(&first, inputs);
    near("lower", &first, &at_first);
    let mut program = first.clone();
    let mut before = at_first.clone();
    for (pass, count) in PASSES.iter().zip(changes) {
        let mut judged = |what: String, from: &Program, was: &[f64]| {
            let after = pass.apply(from.clone()).expect("it runs");
            check(pass.name, &after).unwrap_or_else(|error| panic!("{name}: {what}: {error}"));
            let found = run(&after, inputs);
            match pass.exactness {
                Exactness::Exact => assert_eq!(bits(&found), bits(was), "{name}: {what}\n{from}\n{after}"),
                Exactness::Contracts | Exactness::Reassociates => near(&what, &after, &found),
            }
            *count += usize::from(after.nests != from.nests);
            (after, found)
        };
        judged(format!("{} alone", pass.name), &first, &at_first);
        (program, before) = judged(pass.name.to_owned(), &program, &before);
    }
    for left_out in PASSES {
        let mut program = first.clone();
        for pass in PASSES.iter().filter(|pass| pass.name != left_out.name) {
            program = pass.apply(program).expect("it runs");
        }
        let what = format!("without {}", left_out.name);
        check(left_out.name, &program).unwrap_or_else(|error| panic!("{name}: {what}: {error}"));
        near(&what, &program, &run(&program, inputs));
    }
}

/// A function and its gradients by all parameters.
fn with_gradients(function: Function) -> Vec<Function> {
    let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = Request { with_value: true, ..Request::new(Mode::Adjoint, &wrt) };
    let derived = |request: &Request| function.derive(request, &mut Stages::new()).expect("it has one").function;
    vec![derived(&request.clone().raw()), derived(&request), function]
}

#[test]
fn passes_keep_programs() {
    let mut changes = Changes::default();
    for folder in ["programs", "regressions"] {
        let folder = format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR"));
        for file in std::fs::read_dir(&folder).expect("the folder is there") {
            let path = file.expect("the folder can be read").path();
            let text = std::fs::read_to_string(&path).expect("the file is there");
            // A thousand terms take long and show nothing new.
            if path.to_string_lossy().contains("unrolled") {
                continue;
            }
            for function in with_gradients(compile(&text)) {
                for size in [1, 5] {
                    let inputs = fitting(&function, size, &mut Numbers::new(size as u64, true));
                    judge(&path.display().to_string(), &function, &inputs, &mut changes);
                }
            }
        }
    }
    // Rows of much arithmetic.
    for seed in 0..3 {
        let function = compile(&residuals(seed));
        let inputs = fitting(&function, 9, &mut Numbers::new(seed, true));
        judge(&format!("residuals {seed}"), &function, &inputs, &mut changes);
    }
    for (pass, count) in PASSES.iter().zip(changes) {
        println!("{}: {count}", pass.name);
        assert!(count > 0, "{} changed nothing", pass.name);
    }
}

#[test]
fn passes_keep_random_programs() {
    let first = setting("IVERSON_SEED", 0);
    for seed in first..first + setting("IVERSON_PROGRAMS", 120) {
        let generated = generate::draw(seed, if seed % 3 == 0 { Family::Wide } else { Family::Exact });
        let inputs = inputs(&generated, &mut Numbers::new(seed, true));
        let function = compile(&generated.text);
        judge(&format!("seed {seed}"), &function, &inputs, &mut Changes::default());
    }
}

//! What kernels of loops store and compute: no step is computed three times.

use iverson::ir::flow::{self, Stmt};
use iverson::ir::loops::{BufferKind, Program};
use iverson::ir::reference::{Environment, Limits, Subject};
use iverson::ir::stages::Stages;
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, bind};
use iverson::{Function, Mode, Request};

use super::{inputs, numbers, program, usual};

/// The workspaces of a program whose first axis is at least as long as the loop, by their shapes.
fn over_time(program: &Program) -> Vec<String> {
    let signature = &program.signature;
    let time = signature.sizes.iter().find(|(_, name)| *name == "T").map(|(id, _)| id);
    let is_time = |n: &iverson::ir::index::Size| {
        let mut found = false;
        n.visit(&mut |v| found |= time.is_some_and(|t| *v == iverson::ir::index::Var::Size(t)));
        found
    };
    let own = program.buffers.iter().filter(|(_, buffer)| buffer.kind == BufferKind::Workspace);
    let written: Vec<_> = program.nests.iter().flat_map(|nest| nest.buffers.clone()).collect();
    let mut shapes: Vec<String> = own
        .filter(|(id, buffer)| written.contains(id) && buffer.dims.first().is_some_and(is_time))
        .map(|(_, buffer)| {
            let axes = buffer.dims.iter().skip(1).map(|n| match n.as_constant() {
                Some(n) => n.to_string(),
                None => "n".to_owned(),
            });
            axes.collect::<Vec<_>>().join(" ")
        })
        .collect();
    shapes.sort();
    shapes
}

fn value_and_gradient(name: &str, wrt: &[&str]) -> Function {
    let request = Request { with_value: true, ..Request::new(Mode::Gradient, wrt) };
    program(name).derive(&request).expect("it has a gradient").function
}

/// What is stored for all steps: states, what the way back needs, and what a product over all steps takes.
#[test]
fn what_is_stored_for_all_steps() {
    for (name, wrt, stored) in [
        // The states, the largest terms and the sums; what is owed to states, for the symbols. No term of a sum over states.
        ("hmm", ["A", "B", "p"].as_slice(), ["n"; 4].as_slice()),
        // The path alone.
        ("heat", &["u0", "c"], &["n"]),
        ("particles", &["p", "v"], &[]),
        // What is read of a path, and not the path: the elements before their update, the first one of each state, and what is owed to these; of a
        // matrix the rows, and not their squares.
        ("updates", &["s0", "A0", "w"], &["", "", "", "2", "2"]),
    ] {
        let function = value_and_gradient(name, wrt);
        let nests = function.loops(&mut Stages::new()).expect("it has nests");
        assert_eq!(over_time(&nests), stored, "{name}\n{nests}");
    }
}

/// Neither is what is the same in all steps, nor the neighbours on a ring or by a map, which are read again.
#[test]
fn what_is_made_again_is_not_stored() {
    for step in [
        "u[i]^2 * cos(a[i]) + c * exp(a[i])",
        "u[i] * (u[(i + 1) % n] - u[(i - 1) % n]) + c * a[i]",
        "u[i] * (u[up(i)] + c)^2 + cos(a[i]) * u[i]",
    ] {
        let text = format!(
            "param u0 : [n] real  param a : [n] real  param c : real  map up : [n] -> [n]  size T\n\
             let u = fold t < T, u = u0. gen i < n. {step} in sum(u^2)"
        );
        let function = Function::parse(&text).expect("it compiles");
        let both = function.value_and_gradient(["u0", "c"]).expect("it has a gradient");
        let nests = both.loops(&mut Stages::new()).expect("it has nests");
        assert_eq!(over_time(&nests), ["n"], "{step}\n{nests}");
    }
}

/// Of a recurrent net what each step gives to the weights is stored, and the weights get a product of matrices.
#[test]
fn products_over_all_steps_stay_products() {
    let function = value_and_gradient("lstm", &["W", "U", "b"]);
    let flow = function.flow_of_kernels().expect("it is made").expect("it has loops");
    let last = flow.body.iter().rev().find_map(|stmt| match stmt {
        Stmt::Leaf(leaf) => Some(leaf),
        Stmt::Scan(_) | Stmt::Call(_) => None,
    });
    let sums = |stmt: &iverson::ir::tssa::Stmt| stmt.rhs.sums().len();
    let last = last.expect("a leaf behind the loops");
    assert_eq!(last.program.stmts.values().filter(|stmt| sums(stmt) > 0 && stmt.dims.len() == 3).count(), 2);
    // Nothing of a step is computed again behind the loops.
    let calls = last
        .program
        .stmts
        .values()
        .filter(|stmt| matches!(&stmt.rhs, iverson::ir::tssa::Rhs::Map { function, .. } if function.is_call()));
    assert_eq!(calls.count(), 0, "{flow}");
}

/// Blocks of rows that no step mixes run on threads of their own, and give the same bits.
#[test]
fn rows_that_no_step_mixes() {
    let function = value_and_gradient("particles", &["p", "v"]);
    let given = inputs(&function, &[("k", 150), ("T", 7)], &usual, &[]);
    let text = function.loops_for(&given).expect("it has nests").explained_with_proofs();
    assert_eq!(text.matches("64 rows at a time go through all steps, which mix none").count(), 2, "{text}");
    let bits = |engine, threads| -> Vec<u64> {
        let kernel = function.kernel(&given).engine(engine).threads(threads).build().expect("it is bound");
        let results: Vec<_> = kernel.call(&given).expect("it runs").into_iter().collect();
        crate::judge::numbers(&results).into_iter().map(f64::to_bits).collect()
    };
    let one = bits(Engine::Interpreter, 1);
    assert_eq!(bits(Engine::Interpreter, 2), one);
    // A stencil mixes them.
    let function = value_and_gradient("heat", &["u0", "c"]);
    let given = inputs(&function, &[("n", 9), ("T", 5)], &usual, &[]);
    let text = function.loops_for(&given).expect("it has nests").explained_with_proofs();
    assert!(!text.contains("rows at a time"), "{text}");
}

/// All programs: the flow for kernels computes what the printed one does.
#[test]
fn flows_of_kernels_are_those_that_are_printed() {
    for (name, sizes) in [
        ("lstm", [("n", 3), ("m", 2), ("T", 5)].as_slice()),
        ("hmm", &[("K", 3), ("O", 2), ("T", 5)]),
        ("heat", &[("n", 5), ("T", 4)]),
        ("crf", &[("K", 2), ("T", 4)]),
        ("gru", &[("n", 3), ("m", 2), ("T", 5)]),
        ("tokens", &[("n", 2), ("V", 5), ("T", 6)]),
        ("updates", &[("n", 4), ("T", 6)]),
    ] {
        let function = program(name);
        let names: Vec<String> = function.signature().params.values().map(|param| param.name.clone()).collect();
        let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
        let function = value_and_gradient(name, &wrt);
        let printed = function.flow().expect("it has loops");
        let run = function.flow_of_kernels().expect("it is made").expect("it has loops");
        let given = inputs(&function, sizes, &usual, &[]);
        let at = environment(&function, &given);
        for flow in [run.clone(), flow::split(run, &|_| None).expect("it is split")] {
            flow.verify().expect("it is well formed");
            let found = flow.evaluate(&at, None, Limits::default(), None).expect("it runs").concat();
            let expected = printed.evaluate(&at, None, Limits::default(), None).expect("it runs").concat();
            let scale = numbers(&expected).iter().fold(1.0_f64, |scale, x| scale.max(x.abs()));
            for (x, y) in numbers(&found).iter().zip(numbers(&expected)) {
                assert!((x - y).abs() <= 1e-12 * scale, "{name}: {x} where {y} is expected\n{flow}");
            }
        }
    }
}

fn environment(function: &Function, given: &Inputs) -> Environment<f64> {
    Environment::from_bindings(&bind(function.signature(), given).expect("the inputs fit")).expect("they are bound")
}

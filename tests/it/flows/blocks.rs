//! Blocks of rows that go through all nests, of small programs too.

use std::sync::Arc;

use iverson::Function;
use iverson::ir::base::SizeId;
use iverson::ir::index::Size;
use iverson::ir::loops::Program;
use iverson::ir::schedule::Sizes;
use iverson::ir::stages::{Stages, check};
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Dense, Inputs, bind};

use crate::judge::numbers;
use crate::support::at_binding;

/// The nests as they are, and what blocks of rows go through, as if sizes were a thousand times as large; nothing where that is the same.
pub fn fused(function: &Function, inputs: &Inputs) -> Option<[Program; 2]> {
    let nests = function.loops(&mut Stages::new()).expect("it has loops");
    let bindings = bind(&nests.signature, inputs).expect("the inputs fit");
    let length = |n: &Size| {
        let scale = if n.as_constant().is_some() { 1 } else { 1000 };
        bindings.length(n).ok().map(|n| scale * n as u64)
    };
    let sizes = Sizes { length: &length, tuples: &|_| None, cached: 0 };
    let fused = at_binding("fuse-blocks", &nests, Some(&sizes));
    check("fuse-blocks", &fused).unwrap_or_else(|error| panic!("{error}"));
    let new: Vec<String> = fused.unproved().into_iter().filter(|line| !nests.unproved().contains(line)).collect();
    assert!(new.is_empty(), "{new:?}\n{fused}");
    (fused.nests != nests.nests).then_some([nests, fused])
}

/// What nests compute, without further passes.
pub fn results(nests: &Program, inputs: &Inputs) -> Vec<f64> {
    let kernel = Kernel::bind_as_it_is(Arc::new(nests.clone()), inputs, Engine::Interpreter);
    numbers(&kernel.and_then(|kernel| kernel.call(inputs)).expect("it runs").into_iter().collect::<Vec<_>>())
}

/// Small integers, other ones for each parameter.
fn integers(function: &Function, k: usize, steps: i64) -> Inputs {
    let signature = function.signature();
    let steps_of = |n: SizeId| signature.sizes.get(n).is_some_and(|name| name == "T").then_some(steps as usize);
    let extent = |n: &Size| match n.as_constant() {
        Some(n) => n as usize,
        None => n.as_size().and_then(steps_of).unwrap_or(k),
    };
    let mut inputs = Inputs::new();
    if signature.sizes.values().any(|name| name == "T") {
        inputs.size("T", steps);
    }
    for (id, param) in signature.params.iter() {
        let dims = signature.types.real_dims(param.ty).expect("tensors of reals");
        let shape: Vec<usize> = dims.iter().map(extent).collect();
        let count = shape.iter().product();
        let number = |at: usize| ((7 * at + 3 * id.0 as usize + 1) % 5) as f64 - 2.0;
        inputs.value(param.name.clone(), Dense::new(&shape, (0..count).map(number).collect()).expect("a tensor"));
    }
    inputs
}

/// Sums of integers are exact in any order, so all numbers are the same.
#[test]
fn integers_are_the_same() {
    let cases = [
        // One state, and what is of all steps: shared parameters, one by row.
        "param x : [k] real\nparam a : real\nparam c : [k] real\nsize T
         sum i < k. fold t < T, s = x[i]. a * s * c[i] - s + x[i]",
        // Sums over rows that go from step to step.
        "param x : [k] real\nparam y : [k] real\nparam a : real\nparam b : real\nsize T
         sum i < k. let (u, v) = fold t < T, (u, v) = (x[i], y[i]). (u + a * (v - u), v + u * v - b * u) in u * v",
        // Some numbers for each row.
        "param x : [k, 3] real\nparam a : real\nsize T
         sum i < k. let s = fold t < T, s = x[i]. gen c < 3. a * s[c] * s[0] - s[1] in s[0] * s[1] - s[2]",
        // The steps before count, too.
        "param x : [k] real\nparam a : real\nsize T
         sum i < k. let p = scan t < T, s = x[i]. a * s * s - s in sum t < T. p[t]^2 * x[i]",
        // From the last step to the first.
        "param x : [k] real\nparam a : real\nparam w : [T] real\nsize T
         sum i < k. fold t < T down, s = x[i]. w[t] * s * s - a * s",
        // Data decide how many steps.
        "param x : [k] real
         sum i < k. iterate s = x[i]^2 while s < 40, at most 7. s * s + 1",
        // The loss is no sum over rows.
        "param x : [k] real\nparam a : real\nsize T
         let e = gen i < k. fold t < T, s = x[i]. a * s * s - s
         (sum i < k. e[i])^2 + (sum i < k. e[i] * x[i])",
    ];
    for text in cases {
        let function = Function::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let names: Vec<&str> = function.signature().params.values().map(|param| param.name.as_str()).collect();
        let gradient = function.value_and_gradient(&names[..]).expect("it has one");
        for k in [1, 64, 130] {
            for steps in [0, 3] {
                let inputs = integers(&function, k, steps);
                let Some([before, after]) = fused(&gradient, &inputs) else { panic!("not in blocks: {text}") };
                assert_eq!(results(&after, &inputs), results(&before, &inputs), "{text}\n{after}");
            }
        }
    }
}

/// What each row keeps of all steps is kept for a block.
#[test]
fn memory_is_that_of_blocks() {
    let text = "param x : [k] real\nparam a : real\nsize T\nsum i < k. fold t < T, s = x[i]. a * s * s - s";
    let gradient = Function::parse(text).and_then(|f| f.value_and_gradient(["x", "a"])).expect("it has one");
    let bytes = |k: usize, steps: i64| {
        let mut inputs = Inputs::new();
        inputs.size("T", steps).value("x", vec![0.5; k]).value("a", 0.5);
        gradient.kernel(&inputs).engine(Engine::Interpreter).build().expect("it is bound").memory()
    };
    let [few, many] = [bytes(1 << 12, 1 << 10), bytes(1 << 15, 1 << 10)];
    assert!(many < 2 * few && many < (1 << 12) * (1 << 10) * 8 / 4, "{few} and {many} bytes");
}

/// Rows that a step mixes stay whole.
#[test]
fn mixed_rows_stay() {
    let text = "param x : [k] real\nparam a : real\nsize T
        let s = fold t < T, s = x. let m = sum i < k. s[i] in gen i < k. a * s[i] * s[i] - m
        sum i < k. s[i]";
    let gradient = Function::parse(text).and_then(|f| f.value_and_gradient(["x", "a"])).expect("it has one");
    let inputs = integers(&gradient, 200, 3);
    assert!(fused(&gradient, &inputs).is_none());
}

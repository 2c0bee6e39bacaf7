//! Kernels some of whose parameters are constant give the bits of those without: all subsets of parameters, both engines, any number of
//! threads, and other numbers for the parameters that are left.

use std::sync::Arc;

use iverson::ir::loops::{BufferKind, Part, Program};
use iverson::ir::schedule::Split;
use iverson::ir::stages::{Stages, check};
use iverson::ir::surface;
use iverson::ir::ty::RelationKind;
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Inputs, Precision, Slice, Tensor, Value, bind};
use iverson::{Error, Function, Mode, Request};

use crate::kernel_memory::{Flush, guarded};
use crate::support::{Numbers, compile, setting};
use crate::{allocations, generate, kernels, support};

const BOTH: &[Engine] = &[Engine::Interpreter, Engine::Native];

/// The bits of all numbers, one pattern for all NaNs.
fn bits(results: &[(String, Value)]) -> Vec<u64> {
    let leaves = results.iter().flat_map(|(_, value)| value.leaves());
    let numbers = leaves.flat_map(|leaf| leaf.data().to_vec());
    numbers.map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
}

fn params(function: &Function) -> Vec<String> {
    function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect()
}

/// The inputs without the constants, and with other numbers for the other parameters.
fn others(function: &Function, inputs: &Inputs, constants: &[&str], numbers: &mut Numbers) -> Inputs {
    let signature = &function.tensor_ssa().signature;
    let bindings = bind(signature, inputs).expect("they fit");
    let mut others = Inputs::new();
    for (name, size) in signature.sizes.values().zip(bindings.sizes().values()) {
        others.size(name, *size);
    }
    for (relation, tuples) in signature.relations.values().zip(bindings.relations().values()) {
        if !matches!(relation.kind, RelationKind::Pattern(_)) {
            others.relation(&relation.name, tuples.clone());
        }
    }
    for (param, value) in signature.params.values().zip(bindings.values().values()) {
        if constants.contains(&param.name.as_str()) {
            continue;
        }
        let leaves = value.leaves().iter().map(|leaf| {
            let precision = leaf.precision();
            let mut tensor: Tensor = leaf.in_precision(Precision::Double);
            let new = numbers.vector(tensor.data().len());
            tensor.data_mut().copy_from_slice(&new);
            Arc::new(tensor.in_precision(precision))
        });
        others.value(&param.name, Value::new(leaves.collect()));
    }
    others
}

/// Kernels with these constants agree with one without, also for other numbers of the rest.
fn judge(
    function: &Function,
    inputs: &Inputs,
    constants: &[&str],
    engines: &[Engine],
    numbers: &mut Numbers,
) -> Result<(), String> {
    let words = |error: Error| format!("{error}\nconstant {constants:?}\n{}", function.tensor_ssa());
    let plain = function.kernel(inputs).engine(Engine::Interpreter).build().map_err(words)?;
    let mut calls = vec![(inputs.clone(), bits(&plain.call(inputs).map_err(words)?))];
    for _ in 0..2 {
        let given = others(function, inputs, constants, numbers);
        let mut all = given.clone();
        let bindings = bind(&function.tensor_ssa().signature, inputs).map_err(words)?;
        for (name, value) in params(function).iter().zip(bindings.values().values()) {
            if constants.contains(&name.as_str()) {
                all.value(name, value.clone());
            }
        }
        calls.push((given, bits(&plain.call(&all).map_err(words)?)));
    }
    for engine in engines {
        let kernel = function.kernel(inputs).constants(constants).engine(*engine).build().map_err(words)?;
        for (given, expected) in &calls {
            let found = bits(&kernel.call(given).map_err(words)?);
            if found != *expected {
                let [setup, main] = split(function, constants).map(|program| program.explained());
                let text = format!("setup\n{setup}\nmain\n{main}\n{}", function.tensor_ssa());
                return Err(format!("{engine:?}, constant {constants:?}: {found:x?}, not {expected:x?}\n{text}"));
            }
        }
    }
    Ok(())
}

/// Both programs of a split.
fn split(function: &Function, constants: &[&str]) -> [Program; 2] {
    let Split { setup, main } = function.split(constants).expect("it splits");
    check("setup", &setup).and_then(|()| check("main", &main)).unwrap_or_else(|error| panic!("{error}"));
    [setup, main]
}

/// The subset of names that the bits of a number say.
fn subset(names: &[String], which: u64) -> Vec<&str> {
    names.iter().enumerate().filter(|(k, _)| which >> k & 1 == 1).map(|(_, name)| name.as_str()).collect()
}

/// The value and the gradient of a function by all its parameters, if it has one real result.
fn with_gradient(function: &Function, simplify: bool) -> Option<Function> {
    let names = params(function);
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = Request { with_value: true, ..Request::new(Mode::Gradient, &wrt) };
    let request = if simplify { request } else { request.raw() };
    function.derive(&request).ok().map(|derived| derived.function)
}

#[test]
fn random_programs() {
    let (mut subsets, count) = (0, setting("IVERSON_PROGRAMS", 240));
    for seed in 40_000..40_000 + count {
        let smooth = seed % 4 == 3;
        let generated = generate::program(seed, smooth);
        let program = surface::read(&generated.text, &[]).expect("generated programs are valid");
        let function = Function::compile(program, &mut Stages::new()).expect("they compile");
        let mut numbers = Numbers::new(seed ^ 0x5eed, !smooth);
        let inputs = support::inputs(&generated, &mut numbers);
        for (k, function) in std::iter::once(&function).chain(&with_gradient(&function, false)).enumerate() {
            let names = params(function);
            let all = 1_u64 << names.len().min(6);
            // All of up to three parameters, and a few of more.
            for which in (0..all).step_by((all / 8).max(1) as usize).chain([all - 1]) {
                let engines = if seed % 40 == k as u64 && which + 1 == all { BOTH } else { &BOTH[..1] };
                let result = judge(function, &inputs, &subset(&names, which), engines, &mut numbers);
                assert!(result.is_ok(), "seed {seed}, {}\n{}", result.unwrap_err(), generated.text);
                subsets += 1;
            }
        }
    }
    assert!(subsets > 4 * count, "only {subsets} subsets of {count} programs");
}

/// Programs with sparse, dense and mapped operands, sums of them, functions of them, tests of them, and what is made of constants alone.
const PROGRAMS: [&str; 11] = [
    include_str!("../programs/k03_sparse_logistic_regression.iv"),
    include_str!("../programs/k13_rank_one_residual.iv"),
    include_str!("../programs/k07_tensor_factorisation.iv"),
    include_str!("../programs/k15_embedding.iv"),
    "param X : csr [m, n] real\nparam c : [n] real\nparam w : [m] real\n\
     sum j < n. tanh((sum i < m. X[i, j] * w[i]) * (sum i < m. X[i, j]^2) * exp(c[j]))",
    "param X : [m, n] real\nparam w : [n] real\nsum i < m. (sum j < n. X[i, j] * w[j])^2 * (sum j < n. exp(X[i, j]))",
    "param a : [n] real\nparam b : [n] real\nparam w : [n] real\n\
     sum i < n, j < n. [a[i] > b[j]] * ln(a[i] - b[j]) * w[i]",
    "param a : [n] real\nparam T : coo [n, n, n] real\nparam w : [n] real\n\
     sum i < n, j < n, k < n. T[i, j, k] * a[j] * w[k]^2 * w[i]",
    "param a : [n] real\nmap f : [n] -> [n]\nparam w : [n] real\n\
     (sum i < n. exp(a[f(i)]) * w[i]^2) + sum j < n. [j = (argmax i < n. a[i])] * w[j]^3",
    "param A : [n, n] real\nparam w : [n] real\n\
     let G = gen i < n, j < n. sum k < n. A[k, i] * A[k, j]\nin sum i < n. tanh(sum j < n. G[i, j] * w[j]) + sum i < n. G[i, i]",
    "param a : csr [m, n] real\nparam x : [m] real\nparam z : [m] real\n\
     (gen j < n. [j < 2] * sum i < m. a[i, j] * x[i], gen j < n. tanh(sum i < m. a[i, j] * z[i]))",
];

#[test]
fn all_subsets_and_sizes() {
    for text in PROGRAMS {
        let primal = compile(text);
        for function in std::iter::once(&primal).chain(&with_gradient(&primal, true)) {
            let names = params(function);
            for size in 0..=6 {
                for which in 0..1 << names.len() {
                    let mut numbers = Numbers::new(size as u64, which % 2 == 0);
                    let inputs = kernels::fitting(function, size, &mut numbers);
                    // One compilation serves all sizes.
                    let engines = if which % 3 == 1 { BOTH } else { &BOTH[..1] };
                    let result = judge(function, &inputs, &subset(&names, which), engines, &mut numbers);
                    assert!(result.is_ok(), "size {size}, {}", result.unwrap_err());
                }
            }
        }
    }
}

/// Matrices of all second derivatives, of which some blocks have no entries and some do not change.
#[test]
fn matrices() {
    let several = "param x : [n] real\nparam y : [n] real\nparam a : [n] real\nparam unused : real\n\
                   sum i < n. a[i] * x[i]^2 * y[i] + exp(a[i]) + x[i]";
    let mut compared = 0;
    for text in PROGRAMS[..6].iter().copied().chain([several]) {
        let function = compile(text);
        let names = params(&function);
        for which in 0..1u64 << names.len() {
            let (constants, wrt) = (subset(&names, which), subset(&names, !which));
            let request = Request::new(Mode::Hessian, &wrt);
            // Of several results there is no Hessian.
            let Ok(derived) = function.derive(&request) else { continue };
            let matrix = derived.matrix().expect("it is a matrix");
            for size in [0, 3] {
                let mut numbers = Numbers::new(size as u64, false);
                let inputs = kernels::fitting(&derived.function, size, &mut numbers);
                let taken = |name: &&str| derived.function.tensor_ssa().signature.param(name).is_some();
                let constants: Vec<&str> = constants.iter().copied().filter(taken).collect();
                let [all, some] = [&[][..], &constants].map(|constants| {
                    let kernel = matrix.bind_with_constants(&inputs, constants, Engine::Interpreter);
                    let kernel = kernel.unwrap_or_else(|error| panic!("constant {constants:?}: {error}\n{text}"));
                    kernel.call(&inputs).expect("it runs").1
                });
                assert_eq!(all.pattern(), some.pattern(), "constant {constants:?}\n{text}");
                let bits = |x: &f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
                assert!(all.data().iter().map(bits).eq(some.data().iter().map(bits)), "constant {constants:?}\n{text}");
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared}");
}

/// Sums that are cut into parts and lanes, on several threads.
#[test]
fn any_number_of_threads() {
    for (text, constants, wrt) in
        [(PROGRAMS[0], &["X", "y"][..], "w"), (PROGRAMS[1], &["X"], "v"), (PROGRAMS[5], &["X"], "w")]
    {
        let function = compile(text).value_and_gradient([wrt]).expect("one real result");
        let inputs = kernels::fitting(&function, 300, &mut Numbers::new(5, false));
        let expected = bits(
            &function.kernel(&inputs).engine(Engine::Native).build().and_then(|k| k.call(&inputs)).expect("it runs"),
        );
        for threads in [1, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let found = pool.install(|| {
                let kernel = function.kernel(&inputs).constants(constants).engine(Engine::Native).build()?;
                kernel.call(&inputs)
            });
            assert!(bits(&found.expect("it runs")) == expected, "{threads} threads give other bits\n{text}");
        }
    }
}

/// Calls read nothing outside of what they are given, and take no memory.
#[test]
fn calls_between_guard_pages() {
    let function = compile(PROGRAMS[0]).value_and_gradient(["w"]).expect("one real result");
    for n in 0..=35 {
        let inputs = kernels::fitting(&function, n, &mut Numbers::new(n as u64, false));
        let bound = bind(&function.tensor_ssa().signature, &inputs).expect("it fits");
        let data: Vec<Vec<f64>> = bound.values().values().map(|v| v.leaves()[0].data().to_vec()).collect();
        let plain = function.kernel(&inputs).engine(Engine::Interpreter).build().expect("it binds");
        let expected = guarded(&plain, &data, Flush::End);
        for engine in BOTH {
            let kernel = function.kernel(&inputs).constants(["X", "y"]).engine(*engine).build().expect("it binds");
            assert_eq!(guarded(&kernel, &data[2..], Flush::End), expected, "n = {n}");
            let (mut value, mut gradient) = ([0.0], vec![0.0; data[2].len()]);
            let count = allocations::of(|| {
                kernel.call_into(&data[2], (&mut value, &mut gradient)).expect("it fits");
            });
            assert_eq!(count, 0);
        }
    }
}

/// The two programs of sparse logistic regression and of the residual of rank one, with their data constant: no sum over the data alone, no
/// places of entries at a call.
#[test]
fn nests_with_constants() {
    let mut text = String::new();
    for (program, constants, wrt) in [(PROGRAMS[0], &["X", "y"][..], &["w"][..]), (PROGRAMS[1], &["X"], &["u", "v"])] {
        let function = compile(program).value_and_gradient(wrt).expect("one real result");
        let [setup, main] = split(&function, constants);
        assert!(main.arrays.values().all(|array| array.part != Part::Entries));
        let places = function.loops(&mut Stages::new()).expect("it lowers");
        assert!(places.arrays.values().any(|array| array.part == Part::Entries));
        let title = function.tensor_ssa().outputs.iter().map(|o| o.name.as_str()).collect::<Vec<_>>().join(", ");
        text += &format!(
            "# {title}, with {} constant: setup\n{setup}\n# main\n{}\n",
            constants.join(", "),
            main.explained()
        );
    }
    insta::assert_snapshot!(text);
}

fn held(main: &Program) -> usize {
    main.buffers.values().filter(|buffer| matches!(buffer.kind, BufferKind::Held(_))).count()
}

/// What is held, as a number of buffers.
#[test]
fn what_is_worth_it() {
    let table = [
        // Sums, functions, Gram matrices.
        ("param a : [n] real\nparam x : real\nx * sum i < n. a[i]", 1),
        ("param a : [n] real\nparam x : [n] real\ngen i < n. ln(a[i]) * x[i]", 1),
        ("param a : [n, m] real\nparam x : [n] real\ngen i < n. (sum j < m. a[i, j]^2) * x[i]", 1),
        (PROGRAMS[9], 2),
        // Products are cheap; there are more of them than operands.
        ("param a : [n] real\nparam x : [n] real\ngen i < n. 2 * a[i] * x[i]", 0),
        ("param a : [n] real\nparam x : [n, n] real\ngen i < n, j < n. a[i] * a[j] * x[i, j]", 0),
        ("param a : [n] real\nparam x : [n, n] real\ngen i < n, j < n. exp(a[i] - a[j]) * x[i, j]", 0),
        // A function of a row, which is outside of the loop over columns.
        ("param a : [n] real\nparam x : [n, n] real\ngen i < n, j < n. exp(a[i]) * x[i, j]", 1),
        // In the order in which it is stored, and in the other one.
        ("param a : csr [m, n] real\nparam x : [n] real\ngen i < m. sum j < n. a[i, j] * x[j]", 0),
        ("param a : csr [m, n] real\nparam x : [m] real\ngen j < n. sum i < m. a[i, j] * x[i]", 1),
        // Both results read the same copy.
        (
            "param a : csr [m, n] real\nparam x : [m] real\nparam z : [m] real\n\
             (gen j < n. tanh(sum i < m. a[i, j] * x[i]), gen j < n. 2 * sum i < m. a[i, j] * z[i])",
            1,
        ),
        // The first columns alone are not enough for the second result.
        (PROGRAMS[10], 2),
    ];
    for (text, expected) in table {
        let [setup, main] = split(&compile(text), if text.contains("param a") { &["a"] } else { &["A"] });
        assert_eq!(held(&main), expected, "{text}\n{setup}\n{}", main.explained());
    }
}

/// None of the parameters is a constant, or all of them are.
#[test]
fn none_or_all() {
    let function = compile("rel E : [n, n]\nparam x : [n] real\nsum i < n. x[i]^2 / (1 + sum j < n. [E(i, j)] * 1)");
    for names in [&[][..], &["x"]] {
        let mut numbers = Numbers::new(3, false);
        let inputs = kernels::fitting(&function, 5, &mut numbers);
        let kernel = function.kernel(&inputs).constants(names).engine(Engine::Interpreter).build().expect("it binds");
        assert_eq!(kernel.inputs().len(), 1 - names.len());
        assert_eq!(kernel.constants(), names);
        judge(&function, &inputs, names, BOTH, &mut numbers).unwrap_or_else(|complaint| panic!("{complaint}"));
    }
    // Degrees depend on relations alone; nothing is left of the loop over the entries.
    let [_, main] = split(&function, &[]);
    assert!(held(&main) == 1 && main.arrays.is_empty(), "{}", main.explained());
    // Nothing is left but a load.
    let [_, main] = split(&function, &["x"]);
    assert!(held(&main) == 1 && main.nests.len() == 1, "{}", main.explained());
}

/// A copy of a constant in single precision is one.
#[test]
fn single_precision() {
    let function = compile(PROGRAMS[0]).value_and_gradient(["w"]).expect("one real result");
    let mut numbers = Numbers::new(11, false);
    let mut inputs = kernels::fitting(&function, 23, &mut numbers);
    assert!(inputs.store_in_single("X"));
    judge(&function, &inputs, &["X", "y"], BOTH, &mut numbers).unwrap_or_else(|complaint| panic!("{complaint}"));
    let kernel = function.kernel(&inputs).constants(["X"]).engine(Engine::Interpreter).build().expect("it binds");
    let copies = kernel.program().buffers.values().filter(|buffer| matches!(buffer.kind, BufferKind::Held(_)));
    assert_eq!(copies.map(|buffer| buffer.precision).collect::<Vec<_>>(), [Precision::Single]);
    // Results in single precision, of which one is read.
    let mut nests = function.loops(&mut Stages::new()).expect("it lowers");
    nests.store_results_in_single().expect("they are there");
    let nests = Arc::new(nests);
    let plain =
        Kernel::bind(nests.clone(), &inputs, Engine::Interpreter).and_then(|k| k.call(&inputs)).expect("it runs");
    let kernel = Kernel::bind_with_constants(nests, &inputs, &["X", "y"], Engine::Interpreter).expect("it binds");
    let found = kernel.call(&inputs).expect("it runs");
    assert!(found.iter().all(|(_, v)| matches!(v.leaves()[0].numbers(), Slice::Single(_))));
    assert_eq!(bits(&found), bits(&plain));
}

#[test]
fn refusals() {
    let function = compile("rel E : [n, n]\nparam x : [n] real\nparam w : [n] real\nsum i < n. x[i] * w[i]");
    let mut numbers = Numbers::new(1, true);
    let inputs = kernels::fitting(&function, 3, &mut numbers);
    let bind = |names: &[&str]| function.kernel(&inputs).constants(names).engine(Engine::Interpreter).build();
    let message = |names: &[&str]| bind(names).expect_err("a wrong name").to_string();
    let unknown = "the program has no parameter `q` that could be constant; it has: x, w";
    assert_eq!(message(&["x", "q"]), unknown);
    assert_eq!(
        message(&["E"]),
        "the program has no parameter `E` that could be constant; tuples of relations are bound in any kernel; of its \
         parameters, constants may be: x, w"
    );
    let kernel = bind(&["x", "x"]).expect("once is enough");
    assert_eq!(kernel.constants(), ["x"]);
    // Other numbers for a constant are refused, a wrong count of inputs too.
    let mut other = inputs.clone();
    other.value("x", Value::vector(vec![7.0; 3]));
    let refused = kernel.call(&other).expect_err("other numbers").to_string();
    assert!(refused.starts_with("x: ") && refused.contains("bind again"), "{refused}");
    let mut out = [0.0];
    let refused = kernel.call_into((&[1.0; 3], &[1.0; 3]), &mut out).expect_err("a constant is given");
    assert!(refused.to_string().contains("1 leaves are expected, found 2"), "{refused}");
}

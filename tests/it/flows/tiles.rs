//! Loops in time tiles, judged by the same loops as a whole: values to the bit, derivatives exactly where numbers are exact, else by running error bounds.

use fastrand::Rng;
use iverson::ir::base::SizeId;
use iverson::ir::flow::{self, Why};
use iverson::ir::reference::{Environment, Field, Limits, Rounded, Subject};
use iverson::ir::stages::check as verify;
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Inputs, bind};
use iverson::{Error, Function, Mode, Request};

use super::programs::{Drawn, program as drawn};
use super::random::{self, Judged, Report, World};
use super::{inputs, program, usual};
use crate::judge::{Expected, Ways, is_undecided};

/// Positive numbers, so that programs with logarithms and roots have values.
fn positive(param: usize, place: usize) -> f64 {
    usual(param, place).abs() + 0.1
}

/// Sizes for all programs, with loops of some steps.
const SIZES: [(&str, i64); 12] = [
    ("T", 17),
    ("n", 9),
    ("m", 4),
    ("k", 3),
    ("K", 3),
    ("O", 4),
    ("V", 5),
    ("U", 6),
    ("s", 3),
    ("a", 2),
    ("h", 3),
    ("d", 2),
];

fn given(function: &Function) -> Inputs {
    let known = |name: &str| function.signature().sizes.values().any(|own| own == name);
    let sizes: Vec<(&str, i64)> = SIZES.iter().filter(|(name, _)| known(name)).copied().collect();
    inputs(function, &sizes, &positive, &[])
}

/// All programs with loops, by name.
fn all() -> Vec<String> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows");
    let files = std::fs::read_dir(directory).expect("it is there").map(|file| file.expect("a file").path());
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "iv"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

fn tiled(function: &Function, inputs: &Inputs, levels: u32) -> Option<flow::Tiling> {
    let flow = function.flow().expect("it has loops");
    let bindings = bind(&flow.signature, inputs).expect("the inputs fit");
    let length = |n: SizeId| bindings.sizes().get(n).copied();
    let tiling = flow::tile_time(flow, &length, levels).expect("no overflow")?;
    verify("tiles", &tiling.program).expect("it is well formed");
    Some(tiling)
}

fn call(kernel: &Kernel, inputs: &Inputs) -> Vec<f64> {
    let results = kernel.call(inputs).expect("it runs");
    let leaves = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
    leaves.flat_map(|leaf| leaf.lexicographic().into_owned()).collect()
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

fn kernel_of(function: &Function, inputs: &Inputs) -> Kernel {
    function.kernel(inputs).engine(Engine::Interpreter).build().expect("it is bound")
}

fn names(function: &Function) -> Vec<String> {
    function.signature().params.values().map(|param| param.name.clone()).collect()
}

fn with_gradient(function: &Function) -> Function {
    function.value_and_gradient(names(function)).expect("it has a gradient")
}

/// What a function gives, with running error bounds; nothing where rounding decides a test.
fn expected(function: &Function, inputs: &Inputs) -> Option<Expected> {
    let flow = function.flow().expect("it has loops");
    let at = Environment::from_bindings(&bind(&flow.signature, inputs).expect("the inputs fit")).expect("it is bound");
    let at = at.map(|_, _, leaf| leaf.map(|x| Ok(Rounded::new(*x)))).expect("nothing fails");
    let found = match flow.evaluate(&at, None, Limits::default(), None) {
        Err(error) if is_undecided(&error) => return None,
        found => found.expect("it runs"),
    };
    Some(Expected::from(found.into_iter().flatten().flat_map(|leaf| leaf.values().to_vec()).collect::<Vec<_>>()))
}

#[test]
fn gradients_of_all_programs() {
    let (mut finite, mut in_tiles) = (0, 0);
    for name in all() {
        let function = program(&name);
        let signature = function.signature();
        let one_place = signature.relations.values().all(|relation| relation.shape.len() == 2);
        if !one_place || signature.sizes.values().any(|n| SIZES.iter().all(|(known, _)| known != n)) {
            continue;
        }
        let inputs = given(&function);
        // Some have results that are tensors.
        let Ok(whole) = function.value_and_gradient(names(&function)) else { continue };
        let Some(expected) = expected(&whole, &inputs).filter(Expected::is_finite) else { continue };
        finite += 1;
        for levels in 2..=3 {
            let Some(tiling) = tiled(&function, &inputs, levels) else { continue };
            in_tiles += usize::from(!tiling.tiled.is_empty());
            let derived = with_gradient(&Function::from_flow(tiling.program));
            let found = call(&kernel_of(&derived, &inputs), &inputs);
            let judged = expected.compare(&format!("{name} in {levels} levels"), &found, Ways::Simplified);
            judged.unwrap_or_else(|complaint| panic!("{complaint}"));
        }
    }
    println!("{finite} programs, {in_tiles} times in tiles");
    assert!(finite >= 20 && in_tiles >= 20, "{finite} programs, {in_tiles} times in tiles");
}

/// One random program in tiles, over numbers of a kind.
fn judge<X: Judged>(report: &mut Report, function: &Function, given: &Inputs, world: &World<X>) -> random::Judgement {
    let mut whole = Vec::new();
    for mode in [Mode::Forward, Mode::Adjoint] {
        whole.push(random::derive(function, mode, false)?);
    }
    let expected = world.adjoint(report, "adjoint identity", &whole[1])?;
    for levels in 1..=3 {
        let Some(tiling) = tiled(function, given, levels) else { continue };
        if !tiling.tiled.is_empty() {
            report.judge(["", "", "in two levels", "in three levels"][levels as usize], Ok(()))?;
        }
        let tiles = Function::from_flow(tiling.program);
        world.value(report, "tiled = whole", &tiles)?;
        for simplified in [false, true] {
            let forward = random::derive(&tiles, Mode::Forward, simplified)?;
            world.forward(report, "tiled forward = dual numbers", &forward)?;
            let adjoint = random::derive(&tiles, Mode::Adjoint, simplified)?;
            let found = world.adjoint(report, "tiled adjoint identity", &adjoint)?;
            report.judge("tiled adjoint = adjoint", X::same("adjoint", &found, &expected))?;
            for flow in random::of_kernels(&adjoint.flow)? {
                let other =
                    random::Derivative { function: adjoint.function.clone(), flow, added: adjoint.added.clone() };
                let found = world.adjoint(report, "tiled adjoint identity, for kernels", &other)?;
                report.judge("tiled adjoint for kernels = adjoint", X::same("adjoint", &found, &expected))?;
            }
        }
    }
    Ok(())
}

/// Over a prime field, where all that should be equal is equal; loops are longer than those of other random programs.
fn over_a_field(seeds: std::ops::Range<u64>) {
    let mut report = Report::default();
    let mut failures = Vec::new();
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let Drawn { text, mut sizes } = drawn(2 * seed, false);
        for (name, value) in &mut sizes {
            if *name != "n" {
                *value = rng.i64(3..14);
            }
        }
        let drawn = Drawn { text, sizes };
        let function = Function::parse(&drawn.text).expect("it is a program");
        let Some(flow) = function.flow() else { continue };
        let judged = (|| {
            let given = random::inputs(&function, &drawn, &mut rng, true);
            let at = Environment::from_bindings(&bind(function.signature(), &given).map_err(random::words)?);
            let at = at.map_err(random::words)?;
            let at = at.map(|_, _, leaf| leaf.map(|_| Ok(Field::draw(&mut rng, true)))).map_err(random::words)?;
            let term = function.term().map_err(random::words)?;
            let world = World::new(&term, flow, at, &mut rng, true).map_err(random::words)?;
            judge(&mut report, &function, &given, &world)
        })();
        if let Err(complaint) = judged {
            failures.push(format!("seed {seed}, {:?}: {complaint}\n{}", drawn.sizes, drawn.text));
        }
    }
    report.print();
    failures.sort_by_key(String::len);
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures[0]);
    assert!(report.count("in three levels") > 0, "no loop was long enough");
}

#[test]
fn random_programs_in_tiles() {
    over_a_field(0..40);
}

/// Minutes of work: `cargo test --release --test it flows::tiles::full -- --ignored --nocapture`.
#[test]
#[ignore = "2,000 programs take minutes"]
fn full() {
    let setting = crate::support::setting;
    let first = setting("IVERSON_SEED", 0) as u64;
    over_a_field(first..first + setting("IVERSON_PROGRAMS", 2000) as u64);
}

/// The budgets at which a kernel keeps less: all that it takes, and then one byte less each time.
fn budgets(function: &Function, inputs: &Inputs) -> Vec<Kernel> {
    let mut kernels = vec![kernel_of(function, inputs)];
    while let Some(last) = kernels.last() {
        let Some(less) = last.memory().checked_sub(1) else { break };
        match function.kernel(inputs).engine(Engine::Interpreter).memory(less).build() {
            Ok(kernel) => {
                assert!(kernel.memory() <= less, "{} bytes of {less}", kernel.memory());
                kernels.push(kernel);
            }
            Err(Error::Request(message)) => {
                assert!(message.contains(&format!("may keep {less}")), "{message}");
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    kernels
}

/// Sums of integers have the same bits in any order.
#[test]
fn budgets_change_no_integer() {
    let text = "param A : [n, n] real  param s : [n] real  param x : [T, n] real
        let path = scan t < T, s = s. gen i < n. (sum j < n. A[i, j] * s[j]) - [s[i] > 3] * 4 * s[i] + x[t, i]
        in sum t < T, i < n. path[t + 1, i] * x[t, i]";
    let function = Function::parse(text).expect("it is a program");
    // Powers of a matrix below its diagonal end.
    let below = |k: usize| f64::from(u8::from(k % 3 < k / 3));
    let integers = |p: usize, k: usize| [below(k), (k % 4) as f64 - 1.0, (k % 3) as f64 - 1.0][p];
    let inputs = inputs(&function, &[("n", 3), ("T", 400)], &integers, &[]);
    let kernels = budgets(&with_gradient(&function), &inputs);
    let whole = call(&kernels[0], &inputs);
    assert!(whole.iter().all(|x| x.abs() < 1e15 && x.fract() == 0.0), "{whole:?}");
    assert!(kernels.len() >= 3, "{} budgets", kernels.len());
    for kernel in &kernels[1..] {
        assert_eq!(bits(&call(kernel, &inputs)), bits(&whole), "{:?}", kernel.memory_notes());
    }
}

/// Both engines, and any number of threads, give the same bits.
#[test]
fn engines_agree_in_tiles() {
    for (name, sizes) in [("lstm", &[("T", 90), ("n", 9), ("m", 5)][..]), ("heat", &[("n", 70), ("T", 200)])] {
        let function = program(name);
        let inputs = inputs(&function, sizes, &usual, &[]);
        let gradient = with_gradient(&function);
        let budget = kernel_of(&gradient, &inputs).memory() / 2;
        let by = |engine, threads| {
            let kernel = gradient.kernel(&inputs).engine(engine).threads(threads).memory(budget).build();
            let kernel = kernel.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(kernel.memory_notes().iter().any(|note| note.contains("tiles")), "{:?}", kernel.memory_notes());
            bits(&call(&kernel, &inputs))
        };
        let expected = by(Engine::Interpreter, 1);
        for threads in [1, 4] {
            assert_eq!(by(Engine::Native, threads), expected, "{name} on {threads} threads");
        }
    }
}

/// Of a million steps two levels keep 2,000 states, and three 300.
#[test]
fn states_of_a_million_steps() {
    let function = Function::parse("param a : real\nsize T\nfold t < T, s = a. s + sin(s) / 100").expect("a program");
    let inputs = inputs(&function, &[("T", 1_000_000)], &usual, &[]);
    let gradient = function.gradient(["a"]).expect("it has a gradient");
    let within = |bytes| gradient.kernel(&inputs).engine(Engine::Interpreter).memory(bytes).build();
    let states = |bytes| within(bytes).expect("there is room").memory() / 8;
    assert!((1_000_000..1_000_020).contains(&states(1 << 30)));
    assert!((2_000..2_050).contains(&states(100_000)));
    assert!((300..350).contains(&states(10_000)));
    let message = within(100).expect_err("too small").to_string();
    assert!(message.starts_with("a kernel keeps at least ") && message.contains("may keep 100"), "{message}");
}

/// Loops that keep all states say why.
#[test]
fn loops_that_are_not_tiled() {
    let why = |text: &str| {
        let function = Function::parse(text).expect("it is a program");
        let names: Vec<String> = function.signature().sizes.values().cloned().collect();
        let sizes: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 40)).collect();
        let inputs = inputs(&function, &sizes, &positive, &[]);
        let tiling = tiled(&function, &inputs, 2);
        tiling.map_or_else(Vec::new, |tiling| tiling.kept.into_iter().map(|kept| kept.why).collect())
    };
    let rest = "let b = fold t < T, s = a. s * x[t] in ";
    assert_eq!(why(&format!("param a : real  param x : [T] real\n{rest}b")), []);
    assert_eq!(
        why(&format!("param a : real  param x : [T] real\n{rest}(b, scan t < T, s = a. s + x[t])")),
        [Why::Read]
    );
    let product = "let p = scan t < T, s = a. s + x[t] in fold t < T down, s = b. s + p[t] * p[T - t]";
    assert_eq!(why(&format!("param a : real  param x : [T] real\n{rest}{product}")), [Why::Read]);
    let decided = "iterate s = b while s > 0.01, at most 500. s / 2";
    assert_eq!(why(&format!("param a : real  param x : [T] real\n{rest}{decided}")), [Why::Decided]);
}

/// A derivative of a derivative is derived of tiles as well; one that was read from a text keeps what it says.
#[test]
fn derivatives_of_derivatives_within_a_budget() {
    let function = program("kalman");
    let mut inputs = given(&function);
    let product = function.hessian_product(["r"]).expect("it is differentiated twice");
    inputs.value("dr", iverson::tensor::Dense::new(&[], vec![1.0]).expect("a number"));
    let kernels = budgets(&product, &inputs);
    assert!(kernels.len() > 1, "it is never tiled");
    let whole = expected(&product, &inputs).expect("no test");
    for kernel in &kernels {
        let found = call(kernel, &inputs);
        whole.compare("hessian", &found, Ways::Simplified).unwrap_or_else(|complaint| panic!("{complaint}"));
    }
    let read =
        Function::parse(&function.gradient(["r"]).expect("it has a gradient").to_string()).expect("it is parsed");
    let error = read.kernel(&inputs).memory(10).build().expect_err("it keeps all states").to_string();
    assert!(error.contains("not read from a text"), "{error}");
}

/// What is asked for beside a budget is there, too.
#[test]
fn budgets_beside_other_requests() {
    let function = program("heat");
    let inputs = inputs(&function, &[("n", 5), ("T", 60)], &|p, k| usual(p, k) / 5.0, &[]);
    let request = Request { with_value: true, ..Request::new(Mode::Jacobian, &["u0"]) };
    let jacobian = function.derive(&request).expect("it has a Jacobian").function;
    let whole = jacobian.kernel(&inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let less = jacobian.kernel(&inputs).engine(Engine::Interpreter).memory(whole.memory() - 1).build();
    if let Ok(less) = less {
        assert!(less.memory() < whole.memory());
    }
    let gradient = function.gradient(["u0"]).expect("it has a gradient");
    let kernel = gradient.kernel(&inputs).constants(["z", "c"]).single(["grad_u0"]).memory(2_000).build();
    let kernel = kernel.expect("there is room");
    assert!(kernel.memory() <= 2_000);
    let mut slope = [0.0_f32; 5];
    kernel.call_into(&numbers_of(&inputs, "u0"), &mut slope).expect("it runs");
    let whole = gradient.eval(&inputs).expect("it runs")["grad_u0"].leaves()[0].lexicographic().into_owned();
    for (a, b) in slope.iter().zip(whole) {
        assert!((f64::from(*a) - b).abs() <= 1e-6 * b.abs(), "{a} and {b}");
    }
}

fn numbers_of(inputs: &Inputs, name: &str) -> Vec<f64> {
    inputs.get(name).expect("it is given").leaves()[0].lexicographic().into_owned()
}

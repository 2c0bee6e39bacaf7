//! Kernels against the reference evaluator: random programs and their gradients, and the workloads.

use std::sync::Arc;

use iverson::codegen::source::{Target, source};
use iverson::driver::{Mode, Request};
use iverson::index::Size;
use iverson::kernel::{Engine, Kernel, Status};
use iverson::loops::{Bins, Program};
use iverson::stages::Stages;
use iverson::tensor::{Coo, Csr, Dense, Inputs, Relation, Tensor, Value};
use iverson::ty::{RelationKind, Storage};
use iverson::{Function, reference, surface};

use crate::generate;
use crate::support::{Numbers, inputs, setting};

/// Equal numbers; zeros of either sign are equal, and so are NaNs.
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

pub fn numbers(values: &[(String, Value)]) -> Vec<f64> {
    values.iter().flat_map(|(_, value)| value.leaves().iter().flat_map(|leaf| leaf.data().to_vec())).collect()
}

/// The kernel gives what the reference evaluator gives: exactly for integers, nearly for others.
pub fn judge(function: &Function, inputs: &Inputs, exact: bool, native: bool) -> Result<(), String> {
    let words = |error: iverson::Error| error.to_string();
    let program = function.tensor_ssa();
    let expected = reference::evaluate(program, inputs).map_err(words)?;
    let nests = function.loops(&mut Stages::new()).map_err(words)?;
    let explained = nests.explained();
    let text = || format!("{program}\n{explained}");
    let kernel = function.kernel(inputs, Engine::Interpreter).map_err(|e| format!("{e}\n{}", text()))?;
    let found = kernel.call(inputs).map_err(|e| format!("{e}\n{}", text()))?;
    let (a, b) = (numbers(&found), numbers(&expected));
    let scale = b.iter().filter(|x| x.is_finite()).fold(1.0_f64, |s, x| s.max(x.abs()));
    let close = |x: f64, y: f64| same(x, y) || (!exact && (x - y).abs() <= 1e-10 * scale);
    if a.len() != b.len() || !a.iter().zip(&b).all(|(x, y)| close(*x, *y)) {
        return Err(format!("{a:?} and {b:?}:\n{}", text()));
    }
    // A second call finds the memory of the first.
    let again = kernel.call(inputs).map_err(words)?;
    if numbers(&again).iter().zip(&a).any(|(x, y)| x.to_bits() != y.to_bits()) {
        return Err(format!("a second call gives {:?}, the first {a:?}:\n{}", numbers(&again), text()));
    }
    // Bins change no bit.
    let binned = Program { bins: Bins { least: 0, size: 2 }, ..nests };
    let engine = if native { Engine::Native } else { Engine::Interpreter };
    let binned = Kernel::bind(Arc::new(binned), inputs, engine).map_err(|e| format!("{e}\n{}", text()))?;
    let in_bins = numbers(&binned.call(inputs).map_err(words)?);
    if in_bins.iter().zip(&a).any(|(x, y)| x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan())) {
        return Err(format!("with bins {in_bins:?}, without {a:?}:\n{}", binned.program().explained()));
    }
    if native {
        let kernel = function.kernel(inputs, Engine::Native).map_err(|e| format!("{e}\n{}", text()))?;
        let compiled = numbers(&kernel.call(inputs).map_err(words)?);
        if compiled.iter().zip(&a).any(|(x, y)| x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan())) {
            return Err(format!("native code gives {compiled:?}, the interpreter {a:?}:\n{}", text()));
        }
    }
    Ok(())
}

/// How programs are judged.
#[derive(Clone, Copy)]
struct Campaign {
    simplify: bool,
    /// Every so many programs are compiled to native code too; none for 0.
    native: u64,
}

fn campaign(first: u64, count: u64, Campaign { simplify, native }: Campaign) {
    let mut failures = Vec::new();
    for seed in first..first + count {
        let smooth = seed % 4 == 3;
        let generated = generate::program(seed, smooth);
        let source = surface::read(&generated.text, &[]).expect("generated programs are valid");
        let function = Function::compile(source, &mut Stages::new()).expect("they compile");
        let mut numbers = Numbers::new(seed ^ 0x5eed, !smooth);
        let inputs = inputs(&generated, &mut numbers);
        let mut complain = |what: &str, result: Result<(), String>| {
            if let Err(complaint) = result {
                failures.push(format!("seed {seed}, {what}: {complaint}\n{}", generated.text));
            }
        };
        complain("program", judge(&function, &inputs, !smooth, native > 0 && seed % native == 0));
        let wrt: Vec<&str> = generated.params.iter().map(|(name, _)| name.as_str()).collect();
        let wrt: Vec<&str> =
            wrt.into_iter().filter(|w| function.tensor_ssa().signature.params.values().any(|p| p.name == *w)).collect();
        let request = Request { with_value: true, ..Request::new(Mode::Gradient, &wrt) };
        let request = if simplify { request } else { request.raw() };
        // Only programs with one real result have a gradient.
        if let Ok(derived) = function.derive(&request, &mut Stages::new()) {
            complain("gradient", judge(&derived.function, &inputs, !smooth, native > 0 && seed % native == 1));
        }
    }
    assert!(failures.is_empty(), "{} failures, the first of them:\n{}", failures.len(), failures[0]);
}

#[test]
fn random_programs() {
    campaign(0, 300, Campaign { simplify: false, native: 0 });
    // A sparse result that is zero everywhere, since its guard is false.
    campaign(12_771, 1, Campaign { simplify: false, native: 0 });
}

#[test]
fn simplified_random_programs() {
    campaign(5000, 40, Campaign { simplify: true, native: 0 });
}

/// Inputs for a program whose sizes all have one value: sparse tensors are about half full, maps are onto what there is.
pub fn fitting(function: &Function, size: i64, numbers: &mut Numbers) -> Inputs {
    let signature = &function.tensor_ssa().signature;
    let length = |n: &Size| {
        let value = n.evaluate(&mut |_| Some(size)).expect("all sizes have a value").expect("small numbers");
        usize::try_from(value).unwrap_or(0)
    };
    let mut inputs = Inputs::new();
    for name in signature.sizes.values() {
        inputs.size(name, size);
    }
    for param in signature.params.values() {
        let leaves = signature.types.leaves(param.ty).expect("few leaves");
        let tensors = leaves.iter().map(|leaf| {
            let shape: Vec<usize> = leaf.dims.iter().map(length).collect();
            Arc::new(match param.storage {
                Storage::Dense => {
                    let data = numbers.vector(shape.iter().product());
                    Tensor::from(Dense::new(&shape, data).expect("the data fill the shape"))
                }
                Storage::Csr(_) => Csr::from_coo(&sparse(&shape, numbers)).expect("a matrix").into(),
                Storage::Coo(_) => sparse(&shape, numbers).into(),
            })
        });
        inputs.value(&param.name, Value::new(tensors.collect()));
    }
    for relation in signature.relations.values() {
        let shape: Vec<usize> = relation.shape.iter().map(length).collect();
        match relation.kind {
            RelationKind::Pattern(_) => {}
            RelationKind::Free => {
                inputs.relation(&relation.name, sparse(&shape, numbers).pattern().clone());
            }
            RelationKind::Map => {
                let (sources, targets) = shape.split_at(shape.len() - 1);
                let count = sources.iter().product();
                let at = (0..count).map(|k| (7 * k + 3) % targets[0].max(1)).collect();
                inputs.relation(&relation.name, Relation::from_map(sources, at, targets[0]).expect("in range"));
            }
        }
    }
    inputs
}

/// Every other place of a box, more or less.
fn sparse(shape: &[usize], numbers: &mut Numbers) -> Coo {
    let volume: usize = shape.iter().product();
    let places: Vec<usize> = (0..volume).filter(|_| numbers.next() > 0.0).collect();
    let column = |axis: usize| {
        let below: usize = shape[axis + 1..].iter().product();
        places.iter().map(|k| (k / below) % shape[axis]).collect()
    };
    let columns = (0..shape.len()).map(column).collect();
    Coo::new(shape.to_vec(), columns, numbers.vector(places.len())).expect("sorted and unique")
}

/// The programs of `tests/programs` with their gradients by all parameters, simplified; sizes around the numbers of lanes.
#[test]
fn workloads() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).expect("it is there").map(|f| f.expect("a file").path()).collect();
    files.sort();
    let mut failures = Vec::new();
    for file in files {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let primal = Function::parse(&std::fs::read_to_string(&file).expect("text")).expect("it compiles");
        let wrt: Vec<String> = primal.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
        let wrt: Vec<&str> = wrt.iter().map(String::as_str).collect();
        let gradient = primal.value_and_gradient(&wrt).ok();
        // The unrolled hole reads a thousand places. The largest size is more than the lanes of any loop.
        let sizes: &[i64] = match name.as_str() {
            "e06_unrolled_hole" => &[1003],
            "e02_row_times_column" => &[1, 3, 35],
            "e12_rosenbrock" => &[2, 3, 35],
            _ if ["e08", "k03", "k04", "k05", "k15"].iter().any(|start| name.starts_with(start)) => &[0, 1, 3, 9, 35],
            _ => &[0, 1, 3, 9],
        };
        for size in sizes {
            let mut numbers = Numbers::new(*size as u64, false);
            for function in std::iter::once(&primal).chain(&gradient) {
                let inputs = fitting(function, *size, &mut numbers);
                if let Err(complaint) =
                    judge(function, &inputs, false, name.starts_with('k') && sizes.last() == Some(size))
                {
                    failures.push(format!("{name} at size {size}: {complaint}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures, the first of them:\n{}", failures.len(), failures[0]);
}

/// The nests of some derivatives, with the reasons.
#[test]
fn nests_of_derivatives() {
    let cases = [
        ("e02_row_times_column", "x"),
        ("e08_deconvolution", "w"),
        ("k03_sparse_logistic_regression", "w"),
        ("k04_sparse_times_dense", "S"),
        ("k07_tensor_factorisation", "B"),
        ("k15_embedding", "E"),
    ];
    let mut text = String::new();
    for (name, wrt) in cases {
        let nests = derivative(name, wrt).loops(&mut Stages::new()).expect("it lowers");
        text.push_str(&format!("# {name}, by {wrt}\n{}\n", nests.explained()));
    }
    insta::assert_snapshot!(text);
}

fn derivative(name: &str, wrt: &str) -> Function {
    let path = format!("{}/tests/programs/{name}.iv", env!("CARGO_MANIFEST_DIR"));
    let primal = Function::parse(&std::fs::read_to_string(path).expect("text")).expect("it compiles");
    primal.gradient(&[wrt]).expect("one real result")
}

/// Nothing is added to memory: stores write, and sums are registers.
#[test]
fn sources_add_to_registers_only() {
    let mut seen = 0;
    for (name, wrt) in
        [("e08_deconvolution", "w"), ("k03_sparse_logistic_regression", "w"), ("k07_tensor_factorisation", "C")]
    {
        let nests = derivative(name, wrt).loops(&mut Stages::new()).expect("it lowers");
        let text = source(&nests, Target::Module).expect("it is written").text;
        for line in text.lines().filter(|line| line.contains("+=")) {
            seen += 1;
            let (left, _) = line.split_once("+=").expect("it is there");
            // A loop index, or a lane of an array on the stack.
            let left = left.trim();
            let counter =
                left == "lane" || left.strip_prefix('i').is_some_and(|k| k.chars().all(|c| c.is_ascii_digit()));
            let lane = left.contains("_tail[lane & ") || left == "self.0[l]";
            assert!(counter || lane, "{line}");
        }
        assert!(!text.contains("Atomic"));
        let writes = text.lines().filter(|line| line.trim_start().starts_with("put(out") || line.contains("store(out"));
        assert!(writes.count() > 0, "nothing is written:\n{text}");
    }
    assert!(seen > 10, "only {seen} additions in place");
}

#[test]
fn native_random_programs() {
    campaign(7000, 30, Campaign { simplify: false, native: 3 });
}

/// Every function that both engines have in lanes, at special values, small and large numbers, for full and partial groups of lanes.
#[test]
fn functions_of_both_engines() {
    let unary = "exp expm1 ln log1p sin cos tan tanh atan erf sigmoid softplus lgamma digamma";
    let calls = unary.split(' ').map(|name| format!("{name}(x[i])"));
    let calls = calls.chain(["pow(x[i], y[i])".to_owned(), "xlogy(x[i], y[i])".to_owned()]);
    let tensors = calls.map(|call| format!("(gen i < n. {call})"));
    let pairs = tensors.reduce(|pairs, tensor| format!("({pairs}, {tensor})")).expect("some functions");
    let function = Function::parse(&format!("param x : [n] real\nparam y : [n] real\n{pairs}")).expect("it compiles");
    let special =
        [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 5e-324, 1e-300, 1e300, -1e9, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for n in [1, 7, 8, 67] {
        let mut numbers = Numbers::new(n as u64, false);
        let mut vector = |step: usize| -> Vec<f64> {
            let mut x = numbers.vector(n);
            x.iter_mut().enumerate().for_each(|(k, x)| {
                if k % 3 == 1 {
                    *x = special[k / step % special.len()]
                }
            });
            x
        };
        let mut inputs = Inputs::new();
        inputs.size("n", n as i64).value("x", Value::vector(vector(3))).value("y", Value::vector(vector(5)));
        judge(&function, &inputs, false, true).unwrap_or_else(|complaint| panic!("{complaint}"));
    }
}

/// The interpreter serves until native code is there, with the same bits.
#[test]
fn native_code_comes_in_the_background() {
    let function = derivative("k03_sparse_logistic_regression", "w");
    let inputs = fitting(&function, 9, &mut Numbers::new(1, false));
    let kernel = function.kernel(&inputs, Engine::Auto).expect("it binds");
    let bits = |kernel: &Kernel| -> Vec<u64> {
        numbers(&kernel.call(&inputs).expect("it runs")).into_iter().map(f64::to_bits).collect()
    };
    let first = bits(&kernel);
    for _ in 0..600 {
        assert_eq!(bits(&kernel), first);
        if kernel.status() != Status::Compiling {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(kernel.status(), Status::Native);
    assert_eq!(bits(&kernel), first);
}

/// The example that is compiled with its kernel, by `rustc` alone: the kernel needs nothing of this crate.
#[test]
fn a_kernel_ahead_of_time() {
    let directory = tempfile::tempdir().expect("a directory");
    run_ahead_of_time(std::process::Command::new(ahead_of_time(directory.path(), "x86-64")));
}

/// `cargo test --test it kernels::valgrind -- --ignored`, for processors that valgrind knows: with and without fused instructions.
#[test]
#[ignore = "needs valgrind"]
fn valgrind_finds_nothing() {
    for processor in ["x86-64", "haswell"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut valgrind = std::process::Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9"]).arg(ahead_of_time(directory.path(), processor));
        run_ahead_of_time(valgrind);
    }
}

fn run_ahead_of_time(mut command: std::process::Command) {
    let run = command.output().expect("it runs");
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && printed.starts_with("loss "), "{printed}{}", String::from_utf8_lossy(&run.stderr));
}

/// Compiles the example for a processor.
fn ahead_of_time(directory: &std::path::Path, processor: &str) -> std::path::PathBuf {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/ahead_of_time");
    let program = std::fs::read_to_string(format!("{example}/../programs/deconvolution.iv")).expect("text");
    let function = Function::parse(&program).and_then(|f| f.value_and_gradient(&["w"])).expect("it compiles");
    let nests = function.loops(&mut Stages::new()).expect("it lowers");
    std::fs::write(directory.join("kernel.rs"), source(&nests, Target::Included).expect("it is written").text)
        .expect("a file");
    let binary = directory.join("ahead_of_time");
    let mut compiler = std::process::Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    if cfg!(target_arch = "x86_64") {
        compiler.arg(format!("-Ctarget-cpu={processor}"));
    }
    compiler.args(["--edition", "2024", "-O", "-o"]).arg(&binary).arg(format!("{example}/src/main.rs"));
    let compiled = compiler.env("OUT_DIR", directory).output().expect("rustc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    binary
}

/// Without a compiler the tool says so, and the interpreter works.
#[test]
fn without_a_compiler() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("three.iv");
    std::fs::write(&program, "1 + 2\n").expect("a file");
    let run = |engine: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_iverson"));
        command.arg("run").arg(&program).args(["--engine", engine]).env("RUSTC", "/nowhere/rustc");
        command.env("XDG_CACHE_HOME", directory.path()).output().expect("it runs")
    };
    let native = run("native");
    let complaint = String::from_utf8_lossy(&native.stderr).into_owned();
    assert_eq!(native.status.code(), Some(3), "{complaint}");
    assert!(complaint.contains("native code: `/nowhere/rustc` does not run"), "{complaint}");
    let interpreted = run("interpreter");
    assert_eq!(String::from_utf8_lossy(&interpreted.stdout), "value: 3.0\n");
}

/// `cargo test --release --test it kernels::full -- --ignored --nocapture`; `IVERSON_PROGRAMS` sets how many, `IVERSON_SEED` the first.
#[test]
#[ignore = "thousands of programs take minutes; the command is in the doc comment"]
fn full() {
    campaign(
        setting("IVERSON_SEED", 10_000),
        setting("IVERSON_PROGRAMS", 5_000),
        Campaign { simplify: false, native: 0 },
    );
}

/// The nearest centroid of a point is looked for once, not for each element of the gradient.
#[test]
fn extrema_are_looked_for_once_for_each_row() {
    let text = "param x : [n, d] real\nparam c : [k, d] real\nsum i < n. min j < k. sum a < d. (x[i, a] - c[j, a])^2";
    let gradient = crate::support::compile(text).gradient(&["x", "c"]).expect("it has a gradient");
    let loops = gradient.loops(&mut iverson::stages::Stages::new()).expect("it lowers").to_string();
    let places: Vec<&str> = loops.lines().filter(|line| line.contains("= argmin")).collect();
    // In one loop, over the points, which gives `grad_x` its centroids and notes them for `grad_c`.
    let depth = |line: &&str| (line.len() - line.trim_start().len()) / 2 - 1;
    assert!(places.iter().map(depth).eq([1, 1]), "{loops}");
}

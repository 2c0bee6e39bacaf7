//! Kernels against the reference evaluator: random programs and their gradients, and the workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use iverson::ir::base::RelationId;
use iverson::ir::codegen::source::{Target, source};
use iverson::ir::index::{Size, Var};
use iverson::ir::loops::{Bins, Program};
use iverson::ir::reference::Environment;
use iverson::ir::stages::Stages;
use iverson::ir::ty::{RelationKind, Storage, Types};
use iverson::ir::{simplify, surface, tssa};
use iverson::kernel::{Engine, Kernel, Status};
use iverson::tensor::{Coo, Dense, Inputs, Relation, Tensor, Value};
use iverson::{Function, Mode, Request};

use crate::campaign;
use crate::generate::{self, Family};
use crate::jacobians::energy;
pub use crate::judge::numbers;
use crate::judge::{Expected, Tally, Ways, dense};
use crate::support::{Numbers, environment, evaluate, flat, inputs, setting};

/// The bits of a number, one pattern for all NaNs.
fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// Kernels of a function give what is expected: interpreted, called twice, with bins, and as native code if asked, all with the same bits.
pub fn judge(
    function: &Function,
    expected: &Expected,
    inputs: &Inputs,
    ways: Ways,
    native: bool,
) -> Result<Tally, String> {
    let words = |error: iverson::Error| error.to_string();
    let nests = function.loops_for(inputs).map_err(words)?;
    let text = || format!("{}\n{}", function.tensor_ssa(), nests.explained());
    let wrong = |complaint: String| format!("{complaint}\n{}", text());
    let kernel = |program: &Program, engine| Kernel::bind(Arc::new(program.clone()), inputs, engine);
    let interpreted = kernel(&nests, Engine::Interpreter).map_err(|e| wrong(words(e)))?;
    let run = |kernel: &Kernel| kernel.call(inputs).map(|found| numbers(&found)).map_err(|e| wrong(words(e)));
    let found = run(&interpreted)?;
    let tally = expected.compare("interpreter", &found, ways).map_err(wrong)?;
    let same = |what: &str, other: Vec<f64>| {
        let equal = other.len() == found.len() && other.iter().zip(&found).all(|(x, y)| bits(*x) == bits(*y));
        if equal { Ok(()) } else { Err(wrong(format!("{what} gives {other:?}, the interpreter {found:?}"))) }
    };
    // A second call finds the memory of the first.
    same("a second call", run(&interpreted)?)?;
    let binned = Program { bins: Bins { least: 0, size: 2 }, ..nests.clone() };
    let engine = if native { Engine::Native } else { Engine::Interpreter };
    same("the kernel with bins", run(&kernel(&binned, engine).map_err(|e| wrong(words(e)))?)?)?;
    if native {
        same("native code", run(&kernel(&nests, Engine::Native).map_err(|e| wrong(words(e)))?)?)?;
    }
    Ok(tally)
}

/// Kernels of a function give what the reference evaluator makes of the same statements.
pub fn judge_itself(function: &Function, inputs: &Inputs, native: bool) -> Result<Tally, String> {
    let expected = Expected::of(function.tensor_ssa(), inputs)?;
    judge(function, &expected, inputs, Ways::Raw, native)
}

/// How programs are judged.
#[derive(Clone, Copy)]
struct Campaign {
    family: Family,
    simplify: bool,
}

/// What a campaign saw.
#[derive(Default)]
struct Report {
    programs: usize,
    kernels: usize,
    finite: usize,
    tally: Tally,
    constructs: BTreeMap<&'static str, usize>,
    failures: Vec<String>,
}

impl Report {
    fn print(&self, name: &str) {
        let Report { programs, kernels, finite, tally, .. } = self;
        let Tally { exact, bounded, not_finite, undecided, worst } = tally;
        println!(
            "{name}: {programs} programs, {kernels} kernels, {finite} of them finite everywhere; {exact} numbers exact, {bounded} within \
             {worst:.2} bounds, {not_finite} not finite, {undecided} undecided"
        );
        let constructs: Vec<String> = self.constructs.iter().map(|(name, count)| format!("{name} {count}")).collect();
        println!("  {}", constructs.join(", "));
    }

    fn judge(&mut self, what: String, expected: &Expected, judgement: Result<Tally, String>) {
        self.kernels += 1;
        self.finite += usize::from(expected.is_finite());
        match judgement {
            Ok(tally) => self.tally.add(tally),
            Err(complaint) => self.failures.push(format!("{what}: {complaint}")),
        }
    }
}

/// Tensors of reals as sparse results, whose patterns are found out, have the numbers of dense ones.
pub fn judge_assembled(function: &Function, expected: &Expected, inputs: &Inputs) -> Result<Tally, String> {
    let words = |error: iverson::Error| format!("{error}\n{function}");
    let program = function.tensor_ssa();
    let is_tensor = |ty| program.signature.types.real_dims(ty).is_some_and(|dims| !dims.is_empty());
    let tensors = program.outputs.iter().filter(|output| output.storage == Storage::Dense && is_tensor(output.ty));
    let names: Vec<&str> = tensors.map(|output| output.name.as_str()).collect();
    if names.is_empty() {
        return Ok(Tally::default());
    }
    let kernel = function.assemble(&names).and_then(|assembly| assembly.bind(inputs, Engine::Interpreter));
    let values = kernel.and_then(|kernel| kernel.call(inputs)).map_err(words)?;
    let all = |value: &(String, Value)| match names.contains(&value.0.as_str()) {
        true => dense(std::slice::from_ref(value)),
        false => numbers(std::slice::from_ref(value)),
    };
    let found: Vec<f64> = values.iter().flat_map(all).collect();
    expected.compare("assembled", &found, Ways::Raw).map_err(|complaint| format!("{complaint}\n{function}"))
}

/// A simplified program, evaluated by the reference: it reads nothing outside of axes and patterns. It costs no more than before, and a second
/// time changes nothing.
fn judge_simplified(
    function: &Function,
    expected: &Expected,
    at: &Environment<f64>,
    inputs: &Inputs,
) -> Result<Tally, String> {
    let options = simplify::Options { budget: campaign::SMALL, ..simplify::Options::default() };
    let simplified = function.simplify_with(&options).map_err(|error| error.to_string())?.function;
    settles(function.tensor_ssa(), simplified.tensor_ssa(), &options)?;
    let found = evaluate(simplified.meant(), at).map_err(|error| format!("{error}\n{}", simplified.tensor_ssa()))?;
    let text = simplified.to_string();
    surface::read(&text, &[]).map_err(|error| format!("what is printed is not read: {error}\n{text}"))?;
    let compared = expected.compare("reference", &flat(&found), Ways::Simplified);
    compared.map_err(|complaint| format!("{complaint}\n{}", simplified.meant()))?;
    judge(&simplified, expected, inputs, Ways::Simplified, false)
}

/// What the simplifier promises of its result.
fn settles(program: &tssa::Program, simplified: &tssa::Program, options: &simplify::Options) -> Result<(), String> {
    let words = |error: iverson::Error| format!("{error}\n{simplified}");
    if !simplify::is_no_dearer(simplified, program, &options.hints).map_err(words)? {
        return Err(format!("it costs more\n{program}simplified\n{simplified}"));
    }
    let again = simplify::simplify(simplified, options).map_err(words)?.program;
    if again.stmts != simplified.stmts {
        return Err(format!("a second time changes it\n{program}once\n{simplified}twice\n{again}"));
    }
    Ok(())
}

/// A program, and the gradient of it or of the sum of squares of all that it gives, without simplification or with it.
fn judge_program(report: &mut Report, seed: u64, Campaign { family, simplify }: Campaign) -> Result<(), String> {
    let words = |error: iverson::Error| error.to_string();
    let generated = generate::draw(seed, family);
    generated.constructs.iter().for_each(|name| *report.constructs.entry(name).or_default() += 1);
    report.programs += 1;
    let source = surface::read(&generated.text, &[]).map_err(words)?;
    let inputs = inputs(&generated, &mut Numbers::new(seed ^ 0x5eed, family != Family::Smooth));
    let (_, at) = environment(&source, &inputs).map_err(words)?;
    let function = Function::compile(source.clone(), &mut Stages::new()).map_err(words)?;
    let what = |name: &str| format!("seed {seed}, {name}\n{}", generated.text);
    let expected = Expected::of_term(&source, &at)?.with_signs_of(function.tensor_ssa(), &at)?;
    report.judge(what("program"), &expected, judge(&function, &expected, &inputs, Ways::Raw, false));
    if family != Family::Special {
        report.judge(what("assembled"), &expected, judge_assembled(&function, &expected, &inputs));
    }
    if simplify {
        report.judge(what("simplified"), &expected, judge_simplified(&function, &expected, &at, &inputs));
    }
    if expected.is_open() {
        return Ok(());
    }
    let single = function.tensor_ssa().outputs.iter().all(|output| output.ty == Types::REAL);
    let loss = match single {
        true => function,
        false => Function::from_tensor_ssa(energy(function.tensor_ssa()).map_err(words)?),
    };
    let wrt: Vec<&str> = loss.tensor_ssa().signature.params.values().map(|p| p.name.as_str()).collect();
    let request = Request { with_value: true, ..Request::new(Mode::Gradient, &wrt) }.raw();
    let gradient = loss.derive(&request).map_err(words)?.function;
    let value = expected;
    let expected = Expected::at(gradient.tensor_ssa(), &at)?.with_signs_of(gradient.tensor_ssa(), &at)?;
    report.judge(what("gradient"), &expected, judge(&gradient, &expected, &inputs, Ways::Raw, false));
    if family != Family::Special {
        report.judge(what("assembled gradient"), &expected, judge_assembled(&gradient, &expected, &inputs));
    }
    if simplify {
        let expected = expected.of_derivative(&value);
        report.judge(what("simplified gradient"), &expected, judge_simplified(&gradient, &expected, &at, &inputs));
    }
    Ok(())
}

fn campaign(name: &str, first: u64, count: u64, how: Campaign) {
    let mut report = Report::default();
    for seed in first..first + count {
        if let Err(complaint) = judge_program(&mut report, seed, how) {
            report.failures.push(format!("seed {seed}: {complaint}"));
        }
    }
    report.print(name);
    report.failures.sort_by_key(String::len);
    let Some(shortest) = report.failures.first() else { return };
    let seeds: Vec<&str> = report.failures.iter().filter_map(|text| text.split(['\n', ':']).next()).collect();
    panic!("{} failures: {}\nthe shortest of them:\n{shortest}", seeds.len(), seeds.join("; "));
}

#[test]
fn exact_programs() {
    campaign(
        "exact",
        setting("IVERSON_SEED", 0),
        setting("IVERSON_PROGRAMS", 2500),
        Campaign { family: Family::Exact, simplify: false },
    );
    // A sparse result that is zero everywhere, since its guard is false.
    campaign("exact", 12_771, 1, Campaign { family: Family::Exact, simplify: false });
}

#[test]
fn smooth_programs() {
    campaign(
        "smooth",
        setting("IVERSON_SEED", 0),
        setting("IVERSON_PROGRAMS", 1000),
        Campaign { family: Family::Smooth, simplify: false },
    );
}

#[test]
fn special_programs() {
    campaign(
        "special",
        setting("IVERSON_SEED", 0),
        setting("IVERSON_PROGRAMS", 2000),
        Campaign { family: Family::Special, simplify: false },
    );
}

#[test]
fn wide_programs() {
    campaign(
        "wide",
        setting("IVERSON_SEED", 0),
        setting("IVERSON_PROGRAMS", 300),
        Campaign { family: Family::Wide, simplify: false },
    );
}

#[test]
fn simplified_wide_programs() {
    campaign(
        "simplified wide",
        setting("IVERSON_SEED", 5000),
        setting("IVERSON_PROGRAMS", 150),
        Campaign { family: Family::Wide, simplify: true },
    );
}

#[test]
fn simplified_exact_programs() {
    campaign(
        "simplified exact",
        setting("IVERSON_SEED", 5000),
        setting("IVERSON_PROGRAMS", 300),
        Campaign { family: Family::Exact, simplify: true },
    );
}

#[test]
fn simplified_smooth_programs() {
    campaign(
        "simplified smooth",
        setting("IVERSON_SEED", 5000),
        setting("IVERSON_PROGRAMS", 150),
        Campaign { family: Family::Smooth, simplify: true },
    );
}

#[test]
fn simplified_special_programs() {
    campaign(
        "simplified special",
        setting("IVERSON_SEED", 5000),
        setting("IVERSON_PROGRAMS", 250),
        Campaign { family: Family::Special, simplify: true },
    );
    // Copies at one place, which a second simplification would have copied.
    campaign("simplified special", 13_048, 1, Campaign { family: Family::Special, simplify: true });
    campaign("simplified special", 14_331, 1, Campaign { family: Family::Special, simplify: true });
}

/// Inputs for a program whose sizes all have one value: sparse tensors are about half full, maps are onto what there is.
pub fn fitting(function: &Function, size: i64, numbers: &mut Numbers) -> Inputs {
    fitting_sizes(function, &|_| size, numbers)
}

/// The same, for sizes by name.
pub fn fitting_sizes(function: &Function, size: &dyn Fn(&str) -> i64, numbers: &mut Numbers) -> Inputs {
    fitting_entries(function, size, &sparse, numbers)
}

/// The same, with other places of entries than every other one.
pub fn fitting_entries(
    function: &Function,
    size: &dyn Fn(&str) -> i64,
    sparse: &dyn Fn(&[usize], &mut Numbers) -> Coo,
    numbers: &mut Numbers,
) -> Inputs {
    let signature = &function.tensor_ssa().signature;
    let length = |n: &Size| {
        let named = |v: &Var| match v {
            Var::Size(id) => signature.sizes.get(*id).map(|name| size(name)),
            Var::Index(_) | Var::Apply(_) => None,
        };
        let value = n.evaluate(&mut |v| named(v)).expect("all sizes have a value").expect("small numbers");
        usize::try_from(value).unwrap_or(0)
    };
    let mut inputs = Inputs::new();
    for name in signature.sizes.values() {
        inputs.size(name, size(name));
    }
    // Parameters that share a pattern have the places of the first of them.
    let mut patterns: BTreeMap<RelationId, Arc<Relation>> = BTreeMap::new();
    for param in signature.params.values() {
        let leaves = signature.types.leaves(param.ty).expect("few leaves");
        let mut entries = |shape: &[usize], r: RelationId, numbers: &mut Numbers| match patterns.get(&r) {
            Some(known) => {
                let data = numbers.vector(known.len());
                Coo::with_pattern(known.clone(), data).expect("a number for each")
            }
            None => {
                let coo = sparse(shape, numbers);
                patterns.insert(r, coo.pattern().clone());
                coo
            }
        };
        let tensors = leaves.iter().map(|leaf| {
            let shape: Vec<usize> = leaf.dims.iter().map(length).collect();
            Arc::new(match param.storage {
                Storage::Dense => {
                    let data = numbers.vector(shape.iter().product());
                    Tensor::from(Dense::new(&shape, data).expect("the data fill the shape"))
                }
                Storage::Sparse(format, r) => {
                    Tensor::sparse(format, entries(&shape, r, numbers)).expect("its axes fit")
                }
            })
        });
        inputs.value(&param.name, Value::new(tensors.collect()));
    }
    for relation in signature.relations.values() {
        let shape: Vec<usize> = relation.shape.iter().map(length).collect();
        match relation.kind {
            RelationKind::Pattern(_) | RelationKind::Projection(..) => {}
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
        let request = Request { with_value: true, ..Request::new(Mode::Gradient, &wrt) };
        let gradient = primal.value_and_gradient(&wrt).ok();
        let raw = primal.derive(&request.raw()).ok().map(|derived| derived.function);
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
            let gradient = gradient.as_ref().zip(raw.as_ref());
            for (function, source) in std::iter::once((&primal, &primal)).chain(gradient) {
                let inputs = fitting(function, *size, &mut numbers);
                let native = name.starts_with('k') && sizes.last() == Some(size);
                let expected = Expected::of(source.tensor_ssa(), &inputs).expect("it is evaluated");
                if let Err(complaint) = judge(function, &expected, &inputs, Ways::Simplified, native) {
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

/// What is made of two points is made again where it is read, tests and all, rather than stored for all pairs.
#[test]
fn pairs_are_not_stored() {
    let squares = "let d = gen i < n, j < n. sum k < 3. (x[i, k] - x[j, k])^2";
    let energies = [
        "[j < i] * (if d[i, j] < cutoff^2 then 4 * (1 / d[i, j]^6 - 1 / d[i, j]^3) else 0)",
        "[i != j] * (if d[i, j] < cutoff then (cutoff - d[i, j])^2 / (1 + d[i, j]) else 0)",
    ];
    for energy in energies {
        let text = format!("param x : [n, 3] real\nparam cutoff : real\n{squares}\nsum i < n, j < n. {energy}");
        let gradient = Function::parse(&text).expect("it compiles").gradient(["x"]).expect("one real result");
        let nests = gradient.loops(&mut Stages::new()).expect("it lowers").to_string();
        assert!(!nests.contains("[n, n]"), "{nests}");
        assert!(!nests.contains("if "), "{nests}");
    }
}

/// Products of the gradient of a layer have no mask but where a row of them has a NaN, and their sums run in any case.
#[test]
fn masks_leave_products() {
    let programs = [
        "let z = gen i < n, j < m. relu((sum k < l. x[i, k] * w[j, k]) + c[j])\nsum((z @ v - y)^2)",
        "let z = gen i < n, j < m. max(0.1 * c[j], sum k < l. x[i, k] * w[j, k])\nsum((z @ v - y)^2)",
        "let z = gen i < n, j < m. relu(sum k < l. x[i, k] * w[j, k])^2\nsum((z @ v - y)^2)",
    ];
    for program in programs {
        let params = "param x : [n, l] real\nparam w : [m, l] real\nparam c : [m] real\nparam v : [m, o] real\nparam y : [n, o] real\n";
        let gradient = Function::parse(&format!("{params}{program}")).expect("it compiles").gradient(["w", "v"]);
        let nests = gradient.expect("one real result").loops(&mut Stages::new()).expect("it lowers").to_string();
        let (mut masked, mut inside, mut speculated) = (Vec::new(), None, 0);
        for line in nests.lines() {
            let indent = line.len() - line.trim_start().len();
            if indent == 0 {
                masked.clear();
            }
            if inside.is_some_and(|around| indent <= around) {
                inside = None;
            }
            if line.trim_start().starts_with("if r") && line.ends_with("!= 0") {
                inside = Some(indent);
                speculated += 1;
            }
            if line.contains("!= 0] ") {
                masked.push(line.split_whitespace().next().expect("a register"));
            }
            let adds = line.split_once(" += ").filter(|(_, product)| product.contains('*'));
            let of_masked =
                adds.is_some_and(|(_, product)| product.split(" * ").any(|factor| masked.contains(&factor)));
            assert!(!of_masked || inside.is_some(), "{line}\n{nests}");
        }
        assert_eq!(speculated, 1, "{nests}");
    }
}

fn derivative(name: &str, wrt: &str) -> Function {
    let path = format!("{}/tests/programs/{name}.iv", env!("CARGO_MANIFEST_DIR"));
    let primal = Function::parse(&std::fs::read_to_string(path).expect("text")).expect("it compiles");
    primal.gradient([wrt]).expect("one real result")
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

/// How many programs one library is made of.
const TOGETHER: u64 = 20;

/// Programs of all families, several in each library, with the gradients of the sums of their squares.
#[test]
fn native_programs() {
    let mut tally = Tally::default();
    let count = setting("IVERSON_PROGRAMS", 160) / TOGETHER;
    for batch in 0..count {
        let family = [Family::Exact, Family::Special, Family::Smooth, Family::Wide][batch as usize % 4];
        let first = 7000 + batch * TOGETHER;
        let drawn: Vec<_> = (first..first + TOGETHER).map(|seed| generate::draw(seed, family)).collect();
        let generated = generate::Generated::together(&drawn);
        let function = crate::support::compile(&generated.text);
        let inputs = inputs(&generated, &mut Numbers::new(first, family != Family::Smooth));
        let loss = Function::from_tensor_ssa(energy(function.tensor_ssa()).expect("small"));
        let wrt: Vec<&str> = loss.tensor_ssa().signature.params.values().map(|p| p.name.as_str()).collect();
        let gradient = loss.derive(&Request::new(Mode::Gradient, &wrt).raw()).expect("one real");
        for function in [&function, &gradient.function] {
            let judged = judge_itself(function, &inputs, true);
            tally.add(judged.unwrap_or_else(|complaint| panic!("{complaint}\n{}", generated.text)));
        }
    }
    println!("{} programs as native code: {tally:?}", count * TOGETHER);
}

/// Every function that both engines have in lanes, at special values, small and large numbers, for full and partial groups of lanes.
#[test]
fn functions_of_both_engines() {
    let unary = "exp expm1 ln log1p sqrt cbrt sin cos tan tanh sinh cosh asin acos atan erf sigmoid softplus lgamma \
                 digamma trigamma abs sign";
    let calls = unary.split(' ').map(|name| format!("{name}(x[i])"));
    let binary = "pow xlogy atan2 min max".split(' ').map(|name| format!("{name}(x[i], y[i])"));
    let calls = calls.chain(binary);
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
        judge_itself(&function, &inputs, true).unwrap_or_else(|complaint| panic!("{complaint}"));
    }
}

/// The interpreter serves until native code is there, with the same bits.
#[test]
fn native_code_comes_in_the_background() {
    let function = derivative("k03_sparse_logistic_regression", "w");
    let inputs = fitting(&function, 9, &mut Numbers::new(1, false));
    let kernel = function.kernel(&inputs).engine(Engine::Auto).build().expect("it binds");
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
    let function = Function::parse(&program).and_then(|f| f.value_and_gradient(["w"])).expect("it compiles");
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

/// A loop in lanes with a function in several places is one of vectors: what is done in a lane is inlined, and not called lane by lane.
#[test]
fn functions_in_lanes_are_vectors() {
    let functions = [
        "exp", "log", "log1p", "expm1", "tanh", "sigmoid", "softplus", "erf", "lgamma", "digamma", "trigamma", "sin",
        "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "cbrt", "sqrt",
    ];
    let twice = functions.map(|f| format!("{f}(x[i]) * {f}(x[i] / 3)")).join(" + ");
    let text =
        format!("param x : [n] real\nsum i < n. {twice} + x[i]^2.5 * x[i]^0.3 + atan2(x[i], 2) * atan2(3, x[i])");
    let nests = crate::support::compile(&text).loops(&mut Stages::new()).expect("it lowers");
    let directory = tempfile::tempdir().expect("a directory");
    let [from, to] = ["kernel.rs", "kernel.s"].map(|file| directory.path().join(file));
    std::fs::write(&from, source(&nests, Target::Library).expect("it is written").text).expect("a file");
    let mut compiler = std::process::Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    if cfg!(target_arch = "x86_64") {
        compiler.arg("-Ctarget-cpu=haswell");
    }
    compiler.args([
        "--edition=2024",
        "--crate-type=cdylib",
        "-Cpanic=abort",
        "-Ccodegen-units=1",
        "-Copt-level=3",
        "--emit=asm",
        "-o",
    ]);
    let compiled = compiler.arg(&to).arg(&from).output().expect("rustc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let text = std::fs::read_to_string(&to).expect("text");
    let called: Vec<&str> = text.lines().filter(|line| line.contains("ops8function")).collect();
    assert_eq!(called, [""; 0]);
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

/// `cargo test --release --test it kernels::full -- --ignored --nocapture`; `IVERSON_PROGRAMS` sets how many of each family,
/// `IVERSON_SEED` the first.
#[test]
#[ignore = "thousands of programs take minutes; the command is in the doc comment"]
fn full() {
    let (first, count) = (setting("IVERSON_SEED", 10_000), setting("IVERSON_PROGRAMS", 5_000));
    for family in [Family::Exact, Family::Smooth, Family::Special, Family::Wide] {
        for simplify in [false, true] {
            campaign(&format!("{family:?}, simplified: {simplify}"), first, count, Campaign { family, simplify });
        }
    }
}

/// The nearest centroid of a point is looked for once, not for each element of the gradient.
#[test]
fn extrema_are_looked_for_once_for_each_row() {
    let text = "param x : [n, d] real\nparam c : [k, d] real\nsum i < n. min j < k. sum a < d. (x[i, a] - c[j, a])^2";
    let gradient = crate::support::compile(text).gradient(["x", "c"]).expect("it has a gradient");
    let loops = gradient.loops(&mut iverson::ir::stages::Stages::new()).expect("it lowers").to_string();
    let places: Vec<&str> = loops.lines().filter(|line| line.contains("= argmin")).collect();
    // In one loop, over the points, which gives `grad_x` its centroids and notes them for `grad_c`.
    let depth = |line: &&str| (line.len() - line.trim_start().len()) / 2 - 1;
    assert!(places.iter().map(depth).eq([1]), "{loops}");
}

/// Half powers are roots, at all numbers that there are.
#[test]
fn half_powers_are_those_of_the_standard() {
    let x = [f64::NEG_INFINITY, -2.0, -0.0, 0.0, 1e-300, 0.25, 1.0, 4.0, 1e200, f64::INFINITY, f64::NAN];
    let inputs = iverson::inputs! { "x" => x };
    for exponent in [0.5, -0.5, 1.5, -1.5, 2.5, 15.5, 16.5] {
        let function =
            Function::parse(&format!("param x : [n] real\ngen i < n. x[i]^({exponent})")).expect("it is right");
        for engine in [Engine::Interpreter, Engine::Native] {
            let kernel = function.kernel(&inputs).as_written().engine(engine).build().expect("it binds");
            for (x, found) in x.iter().zip(numbers(&kernel.call(&inputs).expect("it runs"))) {
                let expected = x.powf(exponent);
                let is_close =
                    (found - expected).abs() <= 1e-14 * expected.abs() || found.to_bits() == expected.to_bits();
                assert!(is_close || found.is_nan() && expected.is_nan(), "{x}^{exponent}: {found}, not {expected}");
            }
        }
    }
}

/// Functions under a test of a number give what they give, whether some lane asks for them or none.
#[test]
fn functions_where_some_lane_asks() {
    let text = "param x : [n] real\nparam p : real\nsum i < n. [x[i] > 1] * x[i]^p * exp(x[i])";
    let function = Function::parse(text).expect("it is right");
    for few in [0, 1, 37] {
        let x: Vec<f64> = (0..100).map(|i| if i < few { 1.5 } else { f64::NEG_INFINITY }).collect();
        let inputs = iverson::inputs! { "x" => x, "p" => 2.0 };
        for engine in [Engine::Interpreter, Engine::Native] {
            let kernel = function.kernel(&inputs).as_written().engine(engine).build().expect("it binds");
            let found = kernel.call(&inputs).expect("it runs")["value"].as_scalar().expect("a number");
            let expected = f64::from(few) * 2.25 * 1.5_f64.exp();
            assert!((found - expected).abs() <= 1e-13 * expected, "{few}: {found}, not {expected}");
        }
    }
}

//! The passes over Tensor-SSA for lowering, those over loop nests, and those at binding, one by one: on programs as they come, in their order, and, of
//! those over loop nests, all but one of them.
//!
//! Each is judged by the reference evaluator, or the interpreter, before and after, at the exactness that the pass has, on the programs of the tests
//! with their gradients, on random ones, and on random nests. The verifier looks at every result.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use fastrand::Rng;
use iverson::ir::base::RelationId;
use iverson::ir::index::Size;
use iverson::ir::loops::{self, Decision, Nest, Program};
use iverson::ir::reference::Environment;
use iverson::ir::schedule::{AT_BINDING, PASSES, Sizes};
use iverson::ir::stages::{Exactness, Stages, check};
use iverson::ir::tssa::vanishing::without_vanishing;
use iverson::ir::{lower, prepare, tssa};
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{self, Dense, Inputs};
use iverson::{Function, Mode, Request};

use crate::generate::{self, Family};
use crate::judge::{Expected, Ways, numbers};
use crate::kernels::fitting;
use crate::straight::residuals;
use crate::support::{Numbers, compile, evaluate, flat, inputs, setting};

/// The bits of numbers, one pattern for all NaNs.
fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// A program as lowering leaves it.
fn lowered(program: &tssa::Program) -> Program {
    let prepared = prepare::prepare(program, &mut Stages::new()).expect("it is prepared");
    lower::lower(&prepared.program).expect("it lowers")
}

/// The same for the sizes of inputs, as kernels take it.
fn lowered_for(program: &tssa::Program, inputs: &Inputs) -> Program {
    let sizes = tensor::sizes(&program.signature, inputs).expect("the inputs fit");
    let vanished = without_vanishing(program, &|n| Ok(sizes[n])).expect("it is known");
    lowered(vanished.as_ref().unwrap_or(program))
}

fn run(program: &Program, inputs: &Inputs) -> Vec<f64> {
    let kernel = Kernel::bind_as_it_is(Arc::new(program.clone()), inputs, Engine::Interpreter).expect("it binds");
    numbers(&kernel.call(inputs).expect("it runs"))
}

/// Holds a pass to its exactness: programs before and after it, and what they give.
fn keeps<P: Display>(exactness: Exactness, what: &str, expected: &Expected, before: (&P, &[f64]), after: (&P, &[f64])) {
    match exactness {
        Exactness::Exact => assert_eq!(bits(after.1), bits(before.1), "{what}\n{}\n{}", before.0, after.0),
        Exactness::Contracts | Exactness::Reassociates => {
            let compared = expected.compare(what, after.1, Ways::Raw);
            compared.unwrap_or_else(|complaint| panic!("{complaint}\n{}", after.0));
        }
    }
}

/// How often a pass changed a program.
type Changes = BTreeMap<&'static str, usize>;

/// Judges the passes before lowering.
fn judge_prepared(name: &str, program: &tssa::Program, inputs: &Inputs, expected: &Expected, changes: &mut Changes) {
    let bindings = tensor::bind(&program.signature, inputs).expect("the inputs fit");
    let at = Environment::from_bindings(&bindings).expect("the inputs fit");
    let run = |program: &tssa::Program| flat(&evaluate(program, &at).expect("it is evaluated"));
    let at_first = run(program);
    let mut current = program.clone();
    let mut before = at_first.clone();
    for pass in prepare::PASSES {
        let mut judged = |what: String, from: &tssa::Program, was: &[f64]| {
            let after = pass.apply(from).expect("it runs");
            check(pass.name, &after).unwrap_or_else(|error| panic!("{name}: {what}: {error}"));
            let found = run(&after);
            keeps(pass.exactness, &format!("{name}: {what}"), expected, (from, was), (&after, &found));
            *changes.entry(pass.name).or_default() += usize::from(after.stmts != from.stmts);
            (after, found)
        };
        judged(format!("{} alone", pass.name), program, &at_first);
        (current, before) = judged(pass.name.to_owned(), &current, &before);
    }
}

/// Judges the passes at binding, alone and in their order. That little fits a cache lets them do what they do for large programs.
fn judge_at_binding(name: &str, program: &Program, inputs: &Inputs, expected: &Expected, changes: &mut Changes) {
    let bindings = tensor::bind(&program.signature, inputs).expect("the inputs fit");
    let length = |n: &Size| bindings.length(n).ok().map(|n| n as u64);
    let tuples = |r: RelationId| bindings.relations().get(r).map(|r| r.len() as u64);
    let small = Sizes { length: &length, tuples: &tuples, cached: 1 };
    // Whether a row is long only decides what is done.
    let long = |n: &Size| length(n).map(|n| 1000 * n);
    let long = Sizes { length: &long, tuples: &tuples, cached: 1 };
    let at_first = run(program, inputs);
    let (mut current, mut before) = (program.clone(), at_first.clone());
    for pass in AT_BINDING {
        let mut judged = |what: String, from: &Program, was: &[f64]| {
            let sizes = if ["privatise-rows", "fuse-blocks"].contains(&pass.name) { &long } else { &small };
            let after = pass.apply(from.clone(), Some(sizes)).expect("it runs");
            check(pass.name, &after).unwrap_or_else(|error| panic!("{name}: {what}: {error}"));
            let found = run(&after, inputs);
            keeps(pass.exactness, &format!("{name}: {what}"), expected, (from, was), (&after, &found));
            *changes.entry(pass.name).or_default() += usize::from(after.nests != from.nests);
            (after, found)
        };
        judged(format!("{} alone", pass.name), program, &at_first);
        (current, before) = judged(pass.name.to_owned(), &current, &before);
    }
}

fn judge(name: &str, function: &Function, inputs: &Inputs, changes: &mut Changes) {
    let expected = Expected::of(function.tensor_ssa(), inputs).expect("it is evaluated");
    let near = |what: &str, program: &Program, found: &[f64]| {
        let compared = expected.compare(what, found, Ways::Raw);
        compared.unwrap_or_else(|complaint| panic!("{name}: {complaint}\n{program}"));
    };
    judge_prepared(name, function.tensor_ssa(), inputs, &expected, changes);
    let first = lowered_for(function.tensor_ssa(), inputs);
    check("lower", &first).expect("well formed");
    let at_first = run(&first, inputs);
    near("lower", &first, &at_first);
    let mut program = first.clone();
    let mut before = at_first.clone();
    for pass in PASSES {
        let mut judged = |what: String, from: &Program, was: &[f64]| {
            let after = pass.apply(from.clone()).expect("it runs");
            check(pass.name, &after).unwrap_or_else(|error| panic!("{name}: {what}: {error}"));
            let found = run(&after, inputs);
            // The best of a row and the number of all other places may be zeros of either sign.
            let folds_rows = |nest: &Nest| nest.decisions.contains(&Decision::FoldedInRows {});
            let without_signs = pass.name == "fold-extrema" && after.nests.iter().any(folds_rows);
            let compared = |numbers: &[f64]| match without_signs {
                true => numbers.iter().map(|x| x + 0.0).collect(),
                false => numbers.to_vec(),
            };
            let (was, given) = (compared(was), compared(&found));
            keeps(pass.exactness, &format!("{name}: {what}"), &expected, (from, &was), (&after, &given));
            // What was proved of places goes on to be so.
            if from.unproved().is_empty() {
                assert_eq!(after.unproved(), Vec::<String>::new(), "{name}: {what}\n{from}\n{after}");
            }
            *changes.entry(pass.name).or_default() += usize::from(after.nests != from.nests);
            let known = |who: &str| who == "lower" || PASSES.iter().any(|pass| pass.name == who);
            assert!(
                after.nests.iter().flat_map(|nest| &nest.decisions).all(|decision| known(decision.by())),
                "{after}"
            );
            (after, found)
        };
        judged(format!("{} alone", pass.name), &first, &at_first);
        (program, before) = judged(pass.name.to_owned(), &program, &before);
    }
    judge_at_binding(name, &program, inputs, &expected, changes);
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

/// Each file of `tests/nests` is a comment, the parameters, and nests as the pass finds them that the name of the file begins with; the snapshot has
/// those that it makes of them. A file whose comment says that something stays is left as it is.
#[test]
fn passes_make_of_nests() {
    insta::glob!("..", "nests/*.txt", |path| {
        let text = std::fs::read_to_string(path).expect("the file is there");
        let (head, nests) = text.split_once("\n\n").expect("an empty line is between parameters and nests");
        let function = compile(&format!("{head}\n0.0"));
        let signature = &lowered(function.tensor_ssa()).signature;
        let before = loops::parse(nests, signature).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        let pass = PASSES.iter().find(|pass| name.starts_with(&format!("{}.", pass.name))).expect("there is the pass");
        let after = pass.apply(before.clone()).expect("it runs");
        check(pass.name, &after).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(after.unproved(), before.unproved(), "{name}");
        assert_eq!(after.nests == before.nests, head.contains("stays"), "{name}");
        insta::assert_snapshot!(after.explained());
    });
}

/// Each file of `tests/prepared` is a program, of which the snapshot has what the pass before lowering makes that the name of the file begins with. A file
/// whose comment says that all stays is left as it is.
#[test]
fn passes_make_of_programs() {
    insta::glob!("..", "prepared/*.iv", |path| {
        let text = std::fs::read_to_string(path).expect("the file is there");
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        let before = compile(&text).simplify().expect("it is simplified").tensor_ssa().clone();
        let pass = prepare::PASSES
            .iter()
            .find(|pass| name.starts_with(&format!("{}.", pass.name)))
            .expect("there is the pass");
        let after = pass.apply(&before).expect("it runs");
        check(pass.name, &after).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(after.stmts == before.stmts, text.contains("all stays"), "{name}");
        insta::assert_snapshot!(after);
    });
}

/// What is read at elements alone is computed whether there are any or not; a result keeps its test. (Simplification leaves no such test.)
#[test]
fn numbers_that_elements_read_have_no_test() {
    let text =
        "param x : [n] real\nparam c : real\nlet d = ln(c)^2\n(gen i < n. x[i]^2 / (d + exp(d)), [n >= 1] * ln(c))";
    let pass = prepare::PASSES.iter().find(|pass| pass.name == "empty-sums").expect("there is the pass");
    let before = compile(text).tensor_ssa().clone();
    let tested = |program: &dyn std::fmt::Display| program.to_string().matches("[0 < n]").count();
    assert_eq!([tested(&before), tested(&pass.apply(&before).expect("it runs"))], [4, 1]);
}

/// A function and its gradients by all parameters.
fn with_gradients(function: Function) -> Vec<Function> {
    let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = Request { with_value: true, ..Request::new(Mode::Adjoint, &wrt) };
    let derived = |request: &Request| function.derive(request).expect("it has one").function;
    vec![derived(&request.clone().raw()), derived(&request), function]
}

/// A norm over two axes, a convolution with a stride, one in two dimensions for each channel, a pooling, a softmax over a middle axis, a norm of channels,
/// columns in groups, and a polynomial.
const LAYERS: [&str; 8] = [
    "param x : [b, c, h, w] real
     param y : [b, c, h, w] real
     param g : [c] real
     let mu = gen s < b, k < c. (sum i < h, j < w. x[s, k, i, j]) / (h * w)
     let v = gen s < b, k < c. (sum i < h, j < w. (x[s, k, i, j] - mu[s, k])^2) / (h * w)
     sum s < b, k < c, i < h, j < w. (g[k] * (x[s, k, i, j] - mu[s, k]) / sqrt(v[s, k] + 1) - y[s, k, i, j])^2",
    "param x : [b, c, 2 * n + 3] real
     param f : [o, c, 5] real
     sum s < b, k < o, i < n. relu(sum a < c, p < 5. x[s, a, 2 * i + p] * f[k, a, p])^2",
    "param x : [b, c, h + 2, w + 2] real
     param f : [c, 3, 3] real
     sum s < b, k < c, i < h, j < w. (sum p < 3, q < 3. x[s, k, i + p, j + q] * f[k, p, q])^2",
    "param x : [b, 2 * h, 2 * w + 1] real
     sum s < b, i < h, j < w. (sum p < 2, q < 3. x[s, 2 * i + p, 2 * j + q])^2",
    "param x : [b, m, d] real
     let top = gen s < b, a < d. max k < m. x[s, k, a]
     let e = gen s < b, k < m, a < d. exp(x[s, k, a] - top[s, a])
     sum s < b, a < d, k < m. (e[s, k, a] / (sum l < m. e[s, l, a]))^2",
    "param x : [b, c, n] real
     param y : [b, c, n] real
     param g : [c] real
     let mu = gen k < c. (sum s < b, i < n. x[s, k, i]) / (b * n)
     let v = gen k < c. (sum s < b, i < n. (x[s, k, i] - mu[k])^2) / (b * n)
     sum s < b, k < c, i < n. (g[k] * (x[s, k, i] - mu[k]) / sqrt(v[k] + 1) - y[s, k, i])^2",
    "param x : [n, m, 3] real
     param w : [m, 3] real
     param y : [n] real
     sum i < n. ((sum a < m, b < 3. x[i, a, b] * w[a, b]) - y[i])^2",
    "param x : [n] real
     param c : [5] real
     param y : [n] real
     sum i < n. (y[i] - (sum k < 5. c[k] * x[i]^k))^2",
];

/// Sums over all pairs, of one statement and of two, and what reads a few coordinates of many points.
const POINTS: [&str; 6] = [
    "param x : [n, 3] real
     param q : [n] real
     sum i < n, j < n. [i != j] * q[i] * q[j] / (1 + (sum k < 3. (x[i, k] - x[j, k])^2))^2",
    "param x : [n, 2] real
     param a : [n] real
     let r = gen i < n, j < n. sqrt((sum k < 2. (x[i, k] - x[j, k])^2) + 1)
     (sum i < n, j < n. a[i] * (1 + r[i, j]) * exp(-r[i, j]) * a[j]) + sum(a^2)",
    "param x : [n, m] real
     param w : [m] real
     sum k < m. w[k] * (sum i < n, j < n. abs(x[i, k] - x[j, k]))^2",
    "param x : [n, 3] real
     let d = gen i < n, j < n. (sum k < 3. (x[i, k] - x[j, k])^2) + 1
     sum i < n, j < n. [j < i] * (1 / d[i, j]^6 - 1 / d[i, j]^3)",
    "param p : [n, 3] real
     param y : [n, 3] real
     param R : [3, 3] real
     param t : [3] real
     param s : real
     sum i < n, a < 3. (s * (sum b < 3. R[a, b] * p[i, b]) + t[a] - y[i, a])^2",
    "param x : [n, 3] real
     map a : [f] -> [n]
     map b : [f] -> [n]
     let u = gen o < f, k < 3. x[b(o), k] - x[a(o), k]
     (sum o < f. sqrt(1 + (sum k < 3. u[o, k]^2))) - (sum o < f. u[o, 0] * u[o, 1] * x[a(o), 2])",
];

#[test]
fn passes_keep_programs() {
    let mut changes = Changes::default();
    for text in POINTS {
        for function in with_gradients(compile(text)) {
            for size in [1, 2, 9, 19] {
                let inputs = fitting(&function, size, &mut Numbers::new(size as u64, true));
                judge(text, &function, &inputs, &mut changes);
            }
        }
    }
    for text in LAYERS {
        let function = compile(text);
        let params = function.tensor_ssa().signature.params.values().map(|p| p.name.clone());
        let unknown: Vec<String> = params.filter(|name| name != "y").collect();
        let function = function.value_and_gradient(&unknown).expect("one real result");
        judge(text, &function, &fitting(&function, 4, &mut Numbers::new(4, true)), &mut changes);
    }
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
    // Sums over the sources of a map, by target.
    let bags = compile(include_str!("../../bench/programs/embedding_bag.iv"));
    for function in with_gradients(bags) {
        judge("bags", &function, &fitting(&function, 5, &mut Numbers::new(5, true)), &mut changes);
    }
    // Terms that know their places.
    let own = [
        include_str!("../growth/two_maps.iv"),
        include_str!("../growth/spgemm_sq.iv"),
        include_str!("../growth/feature_grid.iv"),
        include_str!("../growth/upper_places.iv"),
        include_str!("../growth/chamfer.iv"),
        "param x : [n, 3] real\nparam y : [m, 3] real\nlet d = gen i < n, j < m. sum c < 3. (x[i, c] - y[j, c])^2
         (sum i < n. min j < m. d[i, j]) + (sum j < m. min i < n. d[i, j])",
        include_str!("../growth/dilate.iv"),
        include_str!("../growth/shifted_place.iv"),
        include_str!("../growth/spline.iv"),
        include_str!("../growth/blend.iv"),
        include_str!("../growth/hyperedges_tv.iv"),
        include_str!("../growth/group_max.iv"),
        include_str!("../growth/masked_logsumexp.iv"),
        include_str!("../growth/softplus_of_all.iv"),
        include_str!("../growth/groups_of_all.iv"),
        include_str!("../growth/ratings.iv"),
        include_str!("../growth/no_sooner.iv"),
        include_str!("../prepared/axis-order.heads.iv"),
        include_str!("../prepared/sink-guards.cutoff.iv"),
        "param x : [n, d] real\nparam w : [4, d, k] real\nparam b : [4, k] real\ngen g < 4, s < n, u < k. b[g, u] + (sum a < d. x[s, a] * w[g, a, u])",
        include_str!("../prepared/distribute-sums.edges.iv"),
        include_str!("../prepared/tabulate.kernel.iv"),
        "param x : [n, m] real\nsum i < n, j < m. (sum a < n, b < m. [a <= i and j <= b] * x[a, b])^2",
        "param x : [h, w] real\nparam s : real
         let e = gen i < h, j < w, a < 3, b < 3. [1 <= i + a and i + a <= h and 1 <= j + b and j + b <= w] * exp(-(x[i, j] - x[i + a - 1, j + b - 1])^2 / s)
         sum i < h, j < w. (sum a < 3, b < 3. e[i, j, a, b])^2",
    ];
    for text in own {
        for function in with_gradients(compile(text)) {
            judge("rows", &function, &fitting(&function, 5, &mut Numbers::new(5, true)), &mut changes);
        }
    }
    // A product whose nest is joined by another one, and gets other lanes.
    let layers = include_str!("../programs/k06_graph_convolution.iv");
    let function = compile(layers).simplify().expect("it is simplified");
    judge("k06, simplified", &function, &fitting(&function, 5, &mut Numbers::new(5, true)), &mut changes);
    // A filter, in the order that simplification leaves it in.
    let filter = compile(include_str!("../prepared/exchange-sums.filters.iv")).simplify().expect("it is simplified");
    judge("a filter, simplified", &filter, &fitting(&filter, 5, &mut Numbers::new(5, true)), &mut changes);
    println!("{changes:?}");
    let names = prepare::PASSES.iter().map(|pass| pass.name).chain(PASSES.iter().map(|pass| pass.name));
    // Blocks of rows are judged beside programs with loops over time.
    let at_binding = AT_BINDING.iter().map(|pass| pass.name).filter(|name| *name != "fuse-blocks");
    for name in names.chain(at_binding) {
        assert!(changes.get(name).is_some_and(|count| *count > 0), "{name} changed nothing");
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

/// Random nests, as text: loops whose bounds and tests mention the indices around them.
struct Nests {
    rng: Rng,
    text: String,
    indices: usize,
    reals: usize,
}

/// What is in scope: indices with the sizes of their ranges, and registers.
#[derive(Clone, Default)]
struct Scope {
    indices: Vec<(String, &'static str)>,
    reals: Vec<String>,
}

impl Scope {
    fn with(&self, index: &str, size: &'static str) -> Scope {
        let mut next = self.clone();
        next.indices.push((index.to_owned(), size));
        next
    }
}

impl Nests {
    fn line(&mut self, depth: usize, text: &str) {
        self.text += &format!("{}{text}\n", "  ".repeat(depth));
    }

    fn index(&mut self) -> String {
        self.indices += 1;
        format!("i{}", self.indices - 1)
    }

    fn real(&mut self, scope: &mut Scope) -> String {
        self.reals += 1;
        scope.reals.push(format!("r{}", self.reals - 1));
        format!("r{}", self.reals - 1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.rng.usize(0..from.len())]
    }

    /// Of one index or two, the last most often.
    fn affine(&mut self, scope: &Scope) -> String {
        let last = scope.indices.len() - 1;
        let at = if self.rng.bool() { last } else { self.rng.usize(0..=last) };
        let (i, other) = (&scope.indices[at].0, &scope.indices[self.rng.usize(0..=last)].0);
        let text = match self.rng.u8(0..6) {
            0 | 1 => i.clone(),
            2 | 3 => format!("-{i}"),
            4 if i != other => format!("{i} - {other}"),
            _ if i != other => format!("-{i} + {other}"),
            _ => format!("2*{i}"),
        };
        match self.rng.u8(0..4) {
            0 => text,
            1 => format!("{text} + {}", self.rng.u8(1..4)),
            2 => format!("{text} - {}", self.rng.u8(1..4)),
            _ => format!("{text} + {} - 2", self.pick(&["n", "m"])),
        }
    }

    fn value(&mut self, depth: usize, scope: &mut Scope, tensors: &[&str]) -> String {
        let of = |size: &str| scope.indices.iter().rev().find(|(_, n)| *n == size).map(|(i, _)| i.clone());
        let (rows, cols) = (of("n").expect("the outer loop"), of("m"));
        let mut values = vec![format!("x[{rows}]"), format!("real({})", self.affine(scope))];
        if let Some(cols) = cols {
            values.push(format!("y[{cols}]"));
            values.extend(tensors.iter().map(|x| format!("{x}[{rows}, {cols}]")));
        }
        let sum = (!scope.reals.is_empty() && self.rng.bool()).then(|| {
            let pair = [self.pick(&scope.reals).clone(), self.pick(&scope.reals).clone()];
            pair.join([" + ", " * "][self.rng.usize(0..2)])
        });
        let is_load = sum.is_none();
        let value = sum.unwrap_or_else(|| self.pick(&values).clone());
        let r = match is_load {
            true => self.real(scope),
            // Products of products would be too large for sums in any order.
            false => self.real(&mut Scope::default()),
        };
        self.line(depth, &format!("{r} = {value}"));
        r
    }

    /// What adds to a register, and what sets another one.
    fn body(&mut self, depth: usize, [total, last]: [&str; 2], scope: &Scope, tensors: &[&str], loops: usize) {
        let mut scope = scope.clone();
        for _ in 0..self.rng.usize(1..4) {
            match self.rng.u8(0..12) {
                0..=3 if loops > 0 => {
                    let size = *self.pick(&["n", "m"]);
                    let i = self.index();
                    let (a, b) = (self.affine(&scope), self.affine(&scope));
                    let lower = self.pick(&["0", "1", "a", "a"]).replace('a', &format!("max(0, {a})"));
                    let upper = self.pick(&["z", "z", "b"]).replace('b', &format!("min({size} - 1, {b})"));
                    let upper = upper.replace('z', &format!("{size} - 1"));
                    let own = self.rng.bool().then(|| self.real(&mut Scope::default()));
                    if let Some(sum) = &own {
                        self.line(depth, &format!("local {sum}"));
                    }
                    self.line(depth, &format!("for {i} in {lower} .. {upper}"));
                    let inner = scope.with(&i, size);
                    self.body(depth + 1, [own.as_deref().unwrap_or(total), last], &inner, tensors, loops - 1);
                    if let Some(sum) = own {
                        self.line(depth, &format!("{total} += {sum}"));
                    }
                }
                4..=6 => {
                    let a = self.affine(&scope);
                    let test = self.pick(&["0 <= a", "0 <= a", "0 <= a", "a = 0", "a != 0"]).replace('a', &a);
                    self.line(depth, &format!("if {test}"));
                    self.body(depth + 1, [total, last], &scope, tensors, loops);
                }
                8 if loops > 0 => {
                    let (size, i, best) = (*self.pick(&["n", "m"]), self.index(), self.real(&mut Scope::default()));
                    let word = *self.pick(&["max", "min"]);
                    self.line(depth, &format!("local {best}"));
                    self.line(depth, &format!("for {i} in 0 .. {size} - 1"));
                    let r = self.value(depth + 1, &mut scope.with(&i, size), tensors);
                    self.line(depth + 1, &format!("{best} {word}= {r}"));
                    self.line(depth, &format!("{total} += {best}"));
                }
                7 => {
                    let r = self.value(depth, &mut scope, tensors);
                    self.line(depth, &format!("{last} := {r}"));
                }
                _ => {
                    let r = self.value(depth, &mut scope, tensors);
                    let factor =
                        if self.rng.bool() { format!(" * {}", self.pick(&scope.reals)) } else { String::new() };
                    self.line(depth, &format!("{total} += {r}{factor}"));
                }
            }
        }
        let r = self.value(depth, &mut scope, tensors);
        self.line(depth, &format!("{total} += {r}"));
    }

    /// A nest that stores each element of a tensor.
    fn nest(&mut self, name: &str, tensors: &[&str]) {
        (self.indices, self.reals) = (0, 0);
        self.line(0, &format!("{name}[n, m]:"));
        let (i, j) = (self.index(), self.index());
        self.line(1, &format!("for {i} in 0 .. n - 1"));
        self.line(2, &format!("for {j} in 0 .. m - 1"));
        let scope = Scope::default().with(&i, "n").with(&j, "m");
        self.reals = 2;
        self.line(3, "local r0");
        self.line(3, "local r1");
        self.body(3, ["r0", "r1"], &scope, tensors, 2);
        self.line(3, "r0 += r1");
        self.line(3, &format!("{name}[{i}, {j}] = r0"));
    }
}

/// A pass takes whatever the verifier accepts, be it what programs become or not.
#[test]
fn passes_keep_random_nests() {
    let declared =
        "param x : [n] real\nparam y : [m] real\nparam A : [n, m] real\ngen i < n, j < m. x[i] * y[j] * A[i, j]";
    let signature = compile(declared).tensor_ssa().signature.clone();
    let mut changes = Changes::default();
    let first = setting("IVERSON_SEED", 0);
    for seed in first..first + setting("IVERSON_PROGRAMS", 120) {
        let mut nests = Nests { rng: Rng::with_seed(seed), text: String::new(), indices: 0, reals: 0 };
        nests.nest("t", &["A"]);
        nests.nest("z", &["A", "t"]);
        let text = nests.text + "out value = z\n";
        let program = loops::parse(&text, &signature).unwrap_or_else(|error| panic!("{error}\n{text}"));
        check("by hand", &program).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut numbers = Numbers::new(seed, true);
        let all: Vec<(Inputs, Vec<f64>)> = [(1, 1), (2, 5), (4, 3), (6, 6), (3, 0)]
            .into_iter()
            .map(|(n, m)| {
                let mut inputs = Inputs::new();
                for (name, shape) in [("x", vec![n]), ("y", vec![m]), ("A", vec![n, m])] {
                    let data = numbers.vector(shape.iter().product());
                    inputs.value(name, Dense::new(&shape, data).expect("it fits"));
                }
                let expected = run(&program, &inputs);
                (inputs, expected)
            })
            .collect();
        let mut scheduled = program.clone();
        for pass in PASSES {
            let mut judged = |from: &Program| {
                let after = pass.apply(from.clone()).expect("it runs");
                check(pass.name, &after).unwrap_or_else(|error| panic!("{seed}: {error}\n{text}"));
                if after.nests == from.nests {
                    return after;
                }
                *changes.entry(pass.name).or_default() += 1;
                for (inputs, expected) in &all {
                    // Sums of integers are the same in any order.
                    assert_eq!(run(&after, inputs), *expected, "{seed}: {}\n{from}\n{after}", pass.name);
                }
                after
            };
            judged(&program);
            scheduled = judged(&scheduled);
        }
    }
    println!("{changes:?}");
    for name in ["split", "pack", "layout", "fuse", "contract", "vectorise"] {
        assert!(changes.contains_key(name), "{name} changed nothing");
    }
}

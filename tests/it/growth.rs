//! How the loops of values and gradients grow with the sizes of a program, all of them alike: as the sums that were written, and no faster.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use iverson::builder::{Formula, UserFunction};
use iverson::ir::stages::Stages;
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, Relation};
use iverson::{Error, Function};

use crate::kernels::{fitting, fitting_sizes};
use crate::support::Numbers;

/// Programs, and the power of the size by which their loops grow.
const PROGRAMS: [(&str, &str, f64); 13] = [
    (
        "values of the best of some actions",
        "param R : [n, n] real
         param P : [n, n, n] real
         param v : [n] real
         sum i < n. max k < n. R[i, k] + (sum j < n. P[k, i, j] * v[j])",
        3.0,
    ),
    (
        "batch normalisation and relu",
        "param x : [n, d] real
         param w : [d] real
         let mu = gen j < d. mean i < n. x[i, j]
         let v = gen j < d. mean i < n. (x[i, j] - mu[j])^2
         sum i < n. (sum j < d. relu((x[i, j] - mu[j]) / sqrt(v[j] + 1)) * w[j])^2",
        2.0,
    ),
    (
        "batch normalisation with scales, relu and a linear head",
        "param x : [n, d] real
         param gamma : [d] real
         param beta : [d] real
         param head : [d] real
         param y : [n] real
         let mu = gen j < d. mean i < n. x[i, j]
         let v = gen j < d. mean i < n. (x[i, j] - mu[j])^2
         let z = gen i < n, j < d. gamma[j] * (x[i, j] - mu[j]) / sqrt(v[j] + 1) + beta[j]
         mean((relu(z) @ head - y)^2)",
        2.0,
    ),
    ("logarithm of a sum of exponentials", "param x : [n] real\nlogsumexp(x)", 1.0),
    (
        "softmax of a product",
        "param A : [n, d] real
         param B : [d, m] real
         param y : [n, m] real
         let p = softmax(A @ B)
         sum((p - y)^2)",
        3.0,
    ),
    (
        "two steps over neighbours",
        "param u : [n + 4, n + 4] real
         let v = gen i < n + 2, j < n + 2. u[i + 1, j] + u[i + 1, j + 2] + u[i, j + 1] + u[i + 2, j + 1]
         let w = gen i < n, j < n. v[i + 1, j] + v[i + 1, j + 2] + v[i, j + 1] + v[i + 2, j + 1]
         sum(w^2)",
        2.0,
    ),
    (
        "pooling",
        "param x : [2 * n, 2 * n] real
         param y : [n, n] real
         sum i < n, j < n. ((max p < 2. max q < 2. x[2 * i + p, 2 * j + q]) - y[i, j])^2",
        2.0,
    ),
    (
        "pooling by reads",
        "param x : [3, 2 * n, 2 * n] real
         let y = gen c < 3, i < n, j < n. max(x[c, 2 * i, 2 * j], x[c, 2 * i, 2 * j + 1])
         let z = gen c < 3, i < n, j < n. max(x[c, 2 * i + 1, 2 * j], x[c, 2 * i + 1, 2 * j + 1])
         sum c < 3, i < n, j < n. max(y[c, i, j], z[c, i, j])^2",
        2.0,
    ),
    (
        "words of sentences",
        "param e : [v, d] real
         param w : [m, d] real
         map word : [n, m] -> [v]
         sum i < n. (sum t < m, k < d. e[word(i, t), k] * w[t, k])^2",
        3.0,
    ),
    (
        "partial likelihood of those at risk",
        "param x : [n] real
         param e : [n] real
         let risk = gen i < n. sum j < n. [i <= j] * exp(x[j])
         sum i < n. e[i] * (ln(risk[i]) - x[i])",
        1.0,
    ),
    (
        "sums of all earlier rows",
        "param x : [n, n] real
         param y : [n, n] real
         sum i < n, k < n. ((sum j < i. x[j, k]) - y[i, k])^2",
        2.0,
    ),
    (
        "sums over all rectangles from a corner",
        "param x : [n, n] real
         param y : [n, n] real
         sum i < n, j < n. ((sum a < n, b < n. [a <= i and b <= j] * x[a, b]) - y[i, j])^2",
        2.0,
    ),
    (
        "sums over all boxes up to a place, of what lies behind it in one direction",
        "param x : [n, n, n] real
         param y : [n, n, n] real
         sum i < n, j < n, k < n. ((sum a < i, b < j + 1, c < n. [k <= c] * x[a, b, c]) - y[i, j, k])^2",
        3.0,
    ),
];

/// How many iterations the loops of a kernel take at a size.
fn iterations(function: &Function, size: i64) -> f64 {
    iterations_of(function, &fitting(function, size, &mut Numbers::new(1, true)))
}

pub fn iterations_of(function: &Function, inputs: &Inputs) -> f64 {
    match function.kernel(inputs).as_written().engine(Engine::Interpreter).limit(0).build() {
        Err(Error::Limit { found, .. }) => found as f64,
        other => panic!("{other:?}"),
    }
}

#[test]
fn loops_grow_as_the_sums_that_were_written() {
    for (name, text, power) in PROGRAMS {
        let function = Function::parse(text).expect("it is right");
        let wrt: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
        for function in [function.value_and_gradient(&wrt).expect("one real result"), function] {
            let ratio = iterations(&function, 128) / iterations(&function, 32);
            assert!(ratio.log(4.0) < power + 0.2, "{name}: loops grow by the power {}", ratio.log(4.0));
        }
    }
}

/// Loops over time: values and gradients take iterations in proportion to the steps, and gradients a few times those of values.
#[test]
fn loops_over_time_grow_with_their_steps() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows");
    let mut judged = 0;
    for file in std::fs::read_dir(folder).expect("it is there") {
        let path = file.expect("it can be read").path();
        let name = path.display();
        let function = Function::parse(&std::fs::read_to_string(&path).expect("a text")).expect("it is right");
        let params: Vec<String> = function.signature().params.values().map(|p| p.name.clone()).collect();
        let Ok(gradient) = function.value_and_gradient(&params) else { continue };
        if function.signature().sizes.values().all(|size| size != "T") {
            continue;
        }
        judged += 1;
        let at = |function: &Function, steps: i64| {
            let size = |name: &str| if name == "T" { steps } else { 6 };
            iterations_of(function, &fitting_sizes(function, &size, &mut Numbers::new(1, true)))
        };
        // A state may have as many numbers as there are steps.
        let [value, power] = [&function, &gradient].map(|function| (at(function, 1024) / at(function, 256)).log(4.0));
        assert!(
            value < 2.1 && power < value + 0.1,
            "{name}: loops grow by the power {power} of the steps, {value} of values"
        );
        let ratio = at(&gradient, 512) / at(&function, 512);
        assert!(ratio < 12.0, "{name}: the gradient takes {ratio} times the iterations");
    }
    assert!(judged > 15, "{judged} programs");
}

/// A step that updates one element of its state, and reads another one, takes no longer than that, and its derivative keeps no more.
#[test]
fn one_element_of_a_state_in_each_step() {
    const PARAMS: &str =
        "param h : [n] real\nparam w : [T] real\nmap k : [T] -> [n]\nmap l : [T] -> [n]\nassume n >= 1\n";
    for step in [
        "gen i < n. if i = k(t) then sin(s[i]) * w[t] else s[i]",
        "gen i < n. s[i] + [i = k(t)] * w[t]",
        "gen i < n. [i != k(t)] * s[i] + [i = k(t)] * exp(s[i] + w[t])",
        "gen i < n. if i = 0 then s[i] * s[i] + w[t] else s[i]",
        "let e = s[l(t)] in gen i < n. s[i] + [i = k(t)] * (w[t] * e)",
    ] {
        let text = format!("{PARAMS}let s = fold t < T, s = h. {step}\nin sum i < n. s[i]^2");
        let function = Function::parse(&text).expect("it is right");
        let gradient = function.value_and_gradient(["h", "w"]).expect("one real result");
        let bytes = |size: i64| {
            let inputs = fitting(&gradient, size, &mut Numbers::new(1, true));
            gradient.kernel(&inputs).engine(Engine::Interpreter).build().expect("it is bound").memory()
        };
        for function in [&function, &gradient] {
            let [few, many] = [128, 512].map(|size| iterations(function, size));
            assert!(many < 4.2 * few && many < 20.0 * 512.0, "{step}: {few} and {many} iterations\n{function}");
        }
        let [few, many] = [128, 512].map(bytes);
        assert!(many < 5 * few && many < 10 * 8 * 512, "{step}: {few} and {many} bytes");
    }
    // An element that the state tells, or that is found out.
    for (text, power) in [
        (
            "let (s, j) = fold t < T, (s, j : index n) = (h, 0). (gen i < n. if i = j then w[t] * sin(s[i]) else s[i], if j + 1 < n then j + 1 else 0) in sum(s)",
            1.0,
        ),
        (
            "let s = fold t < T, s = h. let j = argmax j < n. h[j] * w[t] in gen i < n. if i = j then w[t] * s[i] else s[i] in sum(s)",
            2.0,
        ),
    ] {
        let function = Function::parse(&format!("{PARAMS}{text}")).expect("it is right");
        let ratio = iterations(&function, 512) / iterations(&function, 128);
        assert!(ratio.log(4.0) < power + 0.05, "{text}: loops grow by the power {}", ratio.log(4.0));
    }
}

/// A product of many factors is multiplied in an order that keeps what is in between small, in gradients too.
#[test]
fn gradients_of_products_take_a_few_times_the_iterations() {
    let text = "param T : coo [l, m, n] real
                param G : [8, 8, 8] real
                param A : [l, 8] real
                param B : [m, 8] real
                param C : [n, 8] real
                sum i < l, j < m, k < n. [T?(i, j, k)] *
                  (T[i, j, k] - (sum p < 8, q < 8, r < 8. G[p, q, r] * A[i, p] * B[j, q] * C[k, r]))^2";
    let value = Function::parse(text).expect("it is right");
    let gradient = value.value_and_gradient(["T", "G", "A", "B", "C"]).expect("one real result");
    let (value, gradient) = (iterations(&value, 24), iterations(&gradient, 24));
    assert!(gradient < 8.0 * value, "{value} and {gradient}");
}

/// Sources of a map with several axes are at hand by their number; nothing is searched for.
#[test]
fn maps_of_several_sources_are_read_at_once() {
    for extent in ["m", "4"] {
        let text = format!(
            "param e : [v, d] real
             map word : [n, {extent}] -> [v]
             gen i < n, t < {extent}, k < d. e[word(i, t), k]"
        );
        let function = Function::parse(&text).expect("it is right");
        let nests = function.loops(&mut Stages::new()).expect("small").to_string();
        assert!(nests.contains("nodes 2 word(0, 1, 2)[") && !nests.contains("find"), "{nests}");
    }
}

/// What is a sum over a row that a map chooses, and of nothing else of the source, is made once for each target.
#[test]
fn sums_of_rows_behind_maps_are_shared() {
    let text = "param e : [v, d] real
                param w : [d] real
                param s : [p] real
                map word : [p] -> [v]
                gen o < p. s[o] * (sum k < d. e[word(o), k] * w[k])";
    let function = Function::parse(text).expect("it is right");
    let nests = function.loops(&mut Stages::new()).expect("small").to_string();
    assert!(nests.contains("in roots word(1, 0)"), "{nests}");
}

/// The gradient by what all sources share is made of sums for each target: the number of sources is not multiplied by the length of a row.
#[test]
fn gradients_by_what_sources_share_are_sums_of_targets() {
    for sources in ["n", "n, n"] {
        let (o, all) = if sources == "n" { ("o", "o < n") } else { ("o, u", "o < n, u < n") };
        let text = format!(
            "param e : [v, d] real
             param w : [d] real
             param s : [{sources}] real
             map word : [{sources}] -> [v]
             sum {all}. s[{o}] * tanh(sum k < d. e[word({o}), k] * w[k])"
        );
        let function = Function::parse(&text).expect("it is right");
        let function = function.value_and_gradient(["e", "w"]).expect("one real result");
        let mut inputs = fitting(&function, 24, &mut Numbers::new(1, true));
        let power = if sources == "n" { 1 } else { 2 };
        let shape = vec![24; power];
        let targets = (0..24usize.pow(power as u32)).map(|o| o % 8).collect();
        inputs.relation("word", Relation::from_map(&shape, targets, 24).expect("in range"));
        let found = iterations_of(&function, &inputs);
        // Some loops over sources, and some over the rows of 8 targets in use.
        let most = 6.0 * 24f64.powi(power as i32) + 6.0 * 8.0 * 24.0;
        assert!(found < most, "{sources}: {found} of {most}");
    }
}

/// A quotient is nothing where its dividend is, whatever the divisor: its sums run over entries.
#[test]
fn quotients_are_walked_as_their_dividends() {
    let text = "param A : csr [n, n] real
                param r : [n] real
                param out : [n] real
                gen j < n. sum i < n. A[i, j]^2 * r[i] / out[i]";
    let function = Function::parse(text).expect("it is right");
    let nests = function.loops(&mut Stages::new()).expect("small").to_string();
    assert!(nests.contains("in rows A?(1, 0)") && !nests.contains("find"), "{nests}");
}

/// An arm runs where it is taken, in values and in gradients: a scalar function in it is called as often as that, and numbers that are none do no harm
/// elsewhere.
#[test]
fn arms_run_where_they_are_taken() {
    let arms = [
        // The arm, and how often it calls the function.
        ("(sum i < n. f(s * w[i]))", 6),
        ("(sum i < n, j < n. f(s * w[i] + w[j]))", 36),
        ("(fold i < n, r = s. f(r * w[i]))", 6),
    ];
    for (arm, calls) in arms {
        let text = format!(
            "param x : [T] real\nparam w : [n] real\nparam s0 : real\nassume n >= 1\nfold t < T, s = s0. if x[t] > 0 then {arm} else s / 2"
        );
        for (taken, not_a_number) in [(0, true), (0, false), (1, false), (3, false)] {
            let count = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&count);
            let value = move |x: &[f64]| {
                counted.fetch_add(1, Ordering::Relaxed);
                (-x[0] * x[0]).exp()
            };
            let slope = Formula::Number(-2.0) * Formula::Arg(0) * Formula::Result;
            let f = UserFunction::native("f", 1, value, vec![slope]).expect("it is right");
            let none = &mut |_: &str, _: &str| Err(String::new());
            let function = Function::parse_with(&text, &[f], none).expect("it is right");
            let w = if not_a_number { f64::NAN } else { 0.3 };
            let x: Vec<f64> = (0..9).map(|t| if t % 3 == 1 && t / 3 < taken { 1.0 } else { -1.0 }).collect();
            let inputs = iverson::inputs! { "x" => x, "w" => vec![w; 6], "s0" => 0.7 };
            let run = |function: &Function| {
                let kernel =
                    function.kernel(&inputs).as_written().engine(Engine::Interpreter).build().expect("it is bound");
                count.store(0, Ordering::Relaxed);
                let results = kernel.call(&inputs).expect("it runs");
                for (name, value) in results.iter() {
                    assert!(value.leaves()[0].lexicographic().iter().all(|x| x.is_finite()), "{arm}: {name}");
                }
                count.load(Ordering::Relaxed)
            };
            assert_eq!(run(&function), taken * calls, "{arm}, taken {taken} times");
            let gradient = run(&function.gradient(["x", "w", "s0"]).expect("it is derived"));
            assert!(gradient <= 4 * taken * calls, "{arm}, taken {taken} times: {gradient} calls of a gradient");
        }
    }
}

/// A loop in an arm that is not taken ends with its first step, and keeps no path.
#[test]
fn loops_in_arms_end() {
    for arm in ["(fold i < n, r = s. sin(r * w[i]))", "(iterate r = s while r < 5, at most n. r + w[0])"] {
        let text = format!(
            "param x : [T] real\nparam w : [n] real\nparam s0 : real\nassume n >= 1\nfold t < T, s = s0. if x[t] > 0 then {arm} else s"
        );
        let loops =
            Function::parse(&text).expect("it is right").loops(&mut Stages::new()).expect("it lowers").to_string();
        assert!(loops.contains("end if r") && !loops.contains("[n + 1]"), "{loops}");
    }
}

/// A kernel of one thread runs on that which calls it, from whatever pool; one of several has others for its parts.
#[test]
fn threads_of_a_kernels_own() {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let noted = Arc::clone(&seen);
    let value = move |x: &[f64]| {
        noted.lock().expect("no thread panics").insert(std::thread::current().id());
        x[0].sin()
    };
    let f = UserFunction::native("f", 1, value, vec![Formula::Arg(0)]).expect("it is right");
    let text = "param x : [n] real\nsum i < n. f(x[i])";
    let none = &mut |_: &str, _: &str| Err(String::new());
    let function = Function::parse_with(text, &[f], none).expect("it compiles");
    let given = iverson::inputs! { "x" => Numbers::new(1, false).vector(100_000) };
    let mut values = HashSet::new();
    for threads in [1, 2, 3] {
        let kernel = function.kernel(&given).engine(Engine::Native).threads(threads).build().expect("it binds");
        let mut run = || {
            seen.lock().expect("no thread panics").clear();
            let value = kernel.call(&given).expect("it runs")["value"].as_scalar().expect("a number");
            values.insert(value.to_bits());
            let here = HashSet::from([std::thread::current().id()]);
            assert_eq!(*seen.lock().expect("no thread panics") == here, threads == 1, "{threads} threads");
        };
        run();
        rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads").install(run);
    }
    assert_eq!(values.len(), 1, "bits depend on threads");
}

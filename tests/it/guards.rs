//! Guards that repeat each other: one of them is needless where another one stands, and not all of them are.

use iverson::ir::reference::Environment;
use iverson::ir::stages::Stages;
use iverson::tensor::{Inputs, Relation, Value, bind};
use iverson::{Function, Mode, Request};

use crate::judge::{Expected, Ways};
use crate::kernels::{fitting, judge};
use crate::support::{Numbers, compile, evaluate, flat};

/// Guards that save next to nothing, so that one may go wherever another one says the same.
const GUARDS: [&str; 8] = [
    "1 <= i",
    "i + 1 < n",
    "1 <= i and i + 1 < n",
    "2 <= n",
    "i != 0",
    "exists k < n. R(i, k)",
    "exists k < n. R(k, i)",
    "(exists k < n. R(i, k)) and 1 <= i",
];

/// Programs with three places for a guard on `i`: at what is read, at what reads it, and at what reads that.
const SHAPES: [&str; 5] = [
    "let y = gen i < n. P(x[i] + 1) in let z = gen i < n. Q(y[i] * y[i]) in sum i < n. S(z[i] + 1)",
    "let y = gen i < n. P(x[i] + 1) in let z = gen i < n. Q(y[i] * x[i]) in gen i < n. S(z[i] * y[i])",
    "let y = gen i < n. P(x[i] + 1) in let z = gen j < n. sum i < n. Q([R(i, j)] * y[i] * x[j]) in gen i < n. S(z[i] * y[i])",
    "let y = gen i < n. P(x[i]^2 + 1) in gen i < n. Q(y[i] + x[i]) + S(y[i] * x[i])",
    "let y = gen i < n. P(sum j < n. [R(i, j)] * x[j]) in let z = gen i < n. Q(y[i] + 2) in sum i < n. S(z[i] * y[i])",
];

fn value(function: &Function, n: usize, seed: u64) -> Vec<f64> {
    let signature = &function.tensor_ssa().signature;
    let mut numbers = Numbers::new(seed, true);
    let mut inputs = Inputs::new();
    inputs.size("n", n as i64);
    inputs.value("x", Value::vector(numbers.vector(n)));
    let places = (0..n).flat_map(|i| (0..n).map(move |j| vec![i, j]));
    let tuples: Vec<Vec<usize>> = places.filter(|_| numbers.next() > 1.0).collect();
    inputs.relation("R", Relation::from_tuples(&[n, n], &tuples).expect("sorted and unique"));
    let bindings = bind(signature, &inputs).expect("the inputs fit");
    let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
    flat(&evaluate(function.tensor_ssa(), &environment).expect("it evaluates"))
}

#[test]
fn guards_that_repeat_each_other_leave_one() {
    let mut judged = 0;
    for (shape, guard) in SHAPES.iter().flat_map(|shape| GUARDS.iter().map(move |guard| (shape, guard))) {
        for places in 1..8_u8 {
            let mut body = (*shape).to_owned();
            for (bit, place) in ["P(", "Q(", "S("].into_iter().enumerate() {
                let with = if places & (1 << bit) != 0 { format!("[{guard}] * (") } else { "(".to_owned() };
                body = body.replace(place, &with);
            }
            let text = format!("param x : [n] real\nrel R : [n, n]\n{body}");
            let function = compile(&text);
            let simplified = function.simplify().expect("it is simplified");
            let mut pairs = vec![(function.clone(), simplified)];
            if shape.contains("in sum") {
                let gradient = |request: Request| function.derive(&request).expect("it has a gradient").function;
                let request = Request::new(Mode::Gradient, &["x"]);
                pairs.push((gradient(request.clone().raw()), gradient(request)));
            }
            for (raw, simplified) in &pairs {
                for (n, seed) in [(0, 1), (1, 2), (2, 3), (4, 4), (5, 5)] {
                    let (found, expected) = (value(simplified, n, seed), value(raw, n, seed));
                    assert_eq!(found, expected, "n = {n}:\n{text}\n{}", simplified.tensor_ssa());
                    judged += 1;
                }
            }
        }
    }
    assert!(judged > 1900, "only {judged} values were judged");
}

/// Programs whose first and last places are other than the rest.
const WITH_ENDS: [&str; 5] = [
    // Ordinal regression: the thresholds beside a level, none below the first and above the last.
    "map level : [n] -> [K]\nparam X : [n, d] real\nparam beta : [d] real\nparam first : real\nparam gap : [K - 2] real
     let cut = gen k < K - 1. first + sum j < k. exp(gap[j])
     let eta = X @ beta
     let under = gen i < n, k < K + 1. if k = 0 then 0 else if k = K then 1 else sigmoid(cut[k - 1] - eta[i])
     -(sum i < n. ln(under[i, level(i) + 1] - under[i, level(i)]))",
    // The first class is the reference.
    "map y : [n] -> [K]\nparam X : [n, d] real\nparam B : [K - 1, d] real
     let score = gen i < n, k < K. if k = 0 then 0 else sum j < d. X[i, j] * B[k - 1, j]
     -(sum i < n. score[i, y(i)] - log(sum k < K. exp(score[i, k])))",
    // A rod with a clamped first and a free last point.
    "param u : [n] real\nparam k : [n - 1] real\nparam f : [n] real
     let force = gen i < n. if i = 0 then u[0] else if i = n - 1 then k[i - 1] * (u[i] - u[i - 1])
       else k[i - 1] * (u[i] - u[i - 1]) - k[i] * (u[i + 1] - u[i])
     sum i < n. (force[i] - f[i])^2",
    // The last class takes the rest of the stick.
    "map z : [n] -> [K]\nparam v : [K - 1] real\nparam mu : [K] real\nparam x : [n] real
     let logw = gen k < K. (if k = K - 1 then 0 else log(sigmoid(v[k]))) + sum j < k. log(1 - sigmoid(v[j]))
     -(sum i < n. logw[z(i)] - (x[i] - mu[z(i)])^2 / 2)",
    "param a : [T] real\nparam w : real
     let p = gen t < T. if t = 0 then a[t] else if t = T - 1 then a[t] * w else tanh(a[t] + w * a[t - 1])
     sum t < T. [t != 0 and t != T - 1] * (p[t + 1] - p[t - 1])^2",
];

#[test]
fn guards_at_the_ends_of_ranges() {
    for text in WITH_ENDS {
        let function = compile(text);
        let params = function.tensor_ssa().signature.params.values();
        let names: Vec<String> = params.map(|param| param.name.clone()).collect();
        let gradient = function.gradient(&names).expect("it has a gradient");
        let loops = gradient.loops(&mut Stages::new()).expect("it lowers").to_string();
        // What constants decide is not tested, and no loop ends before it begins.
        for needless in ["if -1 != 0", "if 1 != 0", "if 0 = 0", "K + 1 .. -1", "in K .. 0"] {
            assert!(!loops.contains(needless), "{needless}:\n{text}\n{loops}");
        }
        let printed = gradient.to_string();
        for needless in ["!= 0 and", "-(-", "[K >= ", "exists k < K + 1"] {
            assert!(!printed.contains(needless), "{needless}:\n{printed}");
        }
        for size in [3, 6] {
            let inputs = fitting(&gradient, size, &mut Numbers::new(size as u64, true));
            let expected = Expected::of(gradient.tensor_ssa(), &inputs).expect("it is evaluated");
            judge(&gradient, &expected, &inputs, Ways::Raw, false).unwrap_or_else(|e| panic!("{text}, {size}: {e}"));
        }
    }
}

#[test]
fn ordinal_regression_reads_plainly() {
    let gradient = compile(WITH_ENDS[0]).gradient(["beta"]).expect("it has a gradient").to_string();
    assert!(gradient.trim_end().ends_with("in gen i < d. sum j < n. -X[j, i] * t4[j]"), "{gradient}");
    assert!(!gradient.contains("exists"), "{gradient}");
}

/// An axis of length `n - 1` says that `n` is at least 1, which need not be assumed.
#[test]
fn axes_say_how_small_sizes_are() {
    let text = "param x : [n] real\nparam a : [n - 1] real\nx[0] + sum i < n - 1. a[i]";
    let printed = compile(text).to_string();
    assert!(!printed.contains("assume"), "{printed}");
    assert!(Function::parse(&text.replace("n - 1", "n")).is_err());
    let contradiction = format!("assume n = 0\n{text}");
    let error = Function::parse(&contradiction).expect_err("no size fits").to_string();
    assert!(error.contains("never true"), "{error}");
}

#[test]
fn branches_that_are_zero() {
    let choice = compile("param x : [n] real\ngen i < n. if i = 0 then 0 else if x[i] > 1 then sin(x[i]) else 0");
    assert!(choice.to_string().trim_end().ends_with("gen i < n. [i != 0] * [x[i] > 1] * sin(x[i])"), "{choice}");
}

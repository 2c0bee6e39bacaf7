//! Guards that repeat each other: one of them is needless where another one stands, and not all of them are.

use iverson::ir::reference::Environment;
use iverson::tensor::{Inputs, Relation, Value, bind};
use iverson::{Function, Mode, Request};

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

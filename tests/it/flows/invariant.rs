//! States that no step changes, and states that are copies of others: how many are left, and that no bit changes.

use iverson::ir::flow::{self, Stmt};
use iverson::ir::reference::{Environment, Limits, Subject};
use iverson::tensor::bind;
use iverson::{Function, Mode, Request};

use super::{inputs, numbers, usual};

/// How many states each loop has, outside in.
fn states(body: &[Stmt]) -> Vec<usize> {
    let mut found = Vec::new();
    for stmt in body {
        if let Stmt::Scan(scan) = stmt {
            found.push(scan.states.len());
            found.extend(states(&scan.body));
        }
    }
    found
}

/// The states of a flow before and after, which gives the same bits.
fn left(flow: &flow::Program, function: &Function) -> [Vec<usize>; 2] {
    let sizes = [("T", 4), ("U", 3), ("n", 3)];
    let given = inputs(function, &sizes, &usual, &[("k", &[2, 0, 2, 1])]);
    let at = Environment::from_bindings(&bind(function.signature(), &given).expect("the inputs fit")).expect("bound");
    let without = flow::without_invariant_states(flow).expect("it has no such states");
    without.verify().expect("it is well formed");
    let run = |flow: &flow::Program| {
        let found = flow.evaluate(&at, None, Limits::default(), None).expect("it runs").concat();
        numbers(&found).into_iter().map(f64::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(run(&without), run(flow), "{flow}\n{without}");
    [states(&flow.body), states(&without.body)]
}

#[test]
fn states_of_programs() {
    const A: &str = "param a : real  param w : [T] real\n";
    let mut wrong = Vec::new();
    for (text, before, after) in [
        // As it is, and through a loop inside.
        ("fst (fold t < T, (r, s) = (0, a). (r + s * w[t], s))", [2].as_slice(), [1].as_slice()),
        ("fold t < T, r = 0. r + a * (fold u < T, s = a. s)", &[1, 1], &[1]),
        ("fst (fold t < T, (r, s) = (0, a). let v = (fold u < T, v = s. v) in (r + v, v))", &[2, 1], &[1]),
        // Only together, and only from equal first states.
        ("let (p, q) = (fold t < T, (p, q) = (a, a). (q, p)) in p - q", &[2], &[]),
        ("let (p, q) = (fold t < T, (p, q) = (a, 2). (q, p)) in p - q", &[2], &[2]),
        // A step may compute what it was given.
        ("fold t < T, s = 0. 0", &[1], &[]),
        ("fold t < T, s = 1. 0", &[1], &[1]),
        ("fst (fold t < T, (r, s) = (0, a + 1). (r + s * w[t], a + 1))", &[2], &[1]),
        // Copies, also of each other's, and those that are none from some step on.
        ("let (p, q) = (fold t < T, (p, q) = (a, a). (sin(p) + w[t], sin(q) + w[t])) in p * q", &[2], &[1]),
        ("let (p, q) = (fold t < T, (p, q) = (a, a). (q * w[t], p * w[t])) in p * q", &[2], &[1]),
        ("let (p, q) = (fold t < T, (p, q) = (a, a). (p + q * w[t], p * w[t] + q)) in p * q", &[2], &[1]),
        ("let (p, q) = (fold t < T, (p, q) = (a, a). (p * w[t], p * a)) in p * q", &[2], &[2]),
        ("let (p, (q, r)) = (fold t < T, (p, (q, r)) = (0, (0, 0)). (q, (r, w[t]))) in p + q + r", &[3], &[3]),
        // Paths, which are as long as the loop, and go down.
        ("let p = (scan t < T down, (r, s) = (0, a). (r + s * w[t], s)) in sum t < T. snd p[t + 1] * w[t]", &[1], &[]),
        ("let (p, q) = (scan t < T, (p, q) = (a, a). (p * w[t], q * w[t])) in sum t < T. p[t] * q[t + 1]", &[2], &[1]),
        // What a step keeps in either case, as in a loop that ends early.
        ("fst (iterate (s, c) = (a, a) while abs(s) > c / 4, at most 9. (s / 2, c))", &[2], &[1]),
        ("fst (fold t < T, (s, c) = (a, a). if s > c then (s * w[t], c) else (s, w[t]))", &[2], &[2]),
    ] {
        let function = Function::parse(&format!("{A}{text}")).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
        let flow = function.flow().expect("it has loops");
        let found = left(flow, &function);
        if found != [before, after] {
            wrong.push(format!("{found:?}: {text}\n{flow}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_owed_to_accumulators_is_no_state() {
    for (text, printed) in [
        ("param x : [T] real\nfold t < T, s = 0. s + x[t]^2\n", "param x : [T] real\ngen i < T. 2 * x[i]\n"),
        (
            "param h : [n] real\nparam w : [T] real\nmap k : [T] -> [n]
             let s = fold t < T, s = h. gen i < n. s[i] + [i = k(t)] * w[t] in sum i < n. s[i]^2",
            "param h : [n] real
param w : [T] real
map k : [T] -> [n]
let s = fold t < T, s = h. gen i < n. s[i] + [k(t) = i] * w[t]
in let s_adj = gen i < n. 2 * s[i]
in (s_adj, gen i < T. s_adj[k(i)])
",
        ),
    ] {
        let function = Function::parse(text).expect("it is a program");
        let names: Vec<String> = function.signature().params.values().map(|param| param.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let request = Request::new(Mode::Gradient, &names);
        assert_eq!(function.derive(&request).expect("it has a gradient").function.to_string(), printed);
        let raw = function.derive(&request.raw()).expect("it has a gradient").function;
        left(raw.flow().expect("it has loops"), &raw);
    }
}

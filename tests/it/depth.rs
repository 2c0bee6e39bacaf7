//! Deep programs: a million `let`s, additions or brackets need no more stack than one, and time linear in the program.
//!
//! `cargo test` takes programs of some hundred and some thousand levels through everything. The times of each step at two depths, compared on an
//! idle machine, and the depth of a million, with the times printed:
//!
//! ```text
//! cargo test --release --test it depth::growth -- --ignored --nocapture
//! cargo test --release --test it depth::million -- --ignored --nocapture
//! ```
//!
//! `IVERSON_DEPTH` sets another depth, `IVERSON_CASE` picks the programs whose name contains it. The heaviest programs take 10
//! minutes each and 15 GB.

use std::fmt::Write;
use std::time::{Duration, Instant};

use iverson::builder::{Builder, Expr, generate, let_, sum};
use iverson::ir::codegen::source::{Target, source};
use iverson::ir::diff::{self, Options, Seed};
use iverson::ir::reference::count::{cost_io, count_term, count_tssa};
use iverson::ir::reference::{Environment, Limits, Partials};
use iverson::ir::stages::{Stages, check};
use iverson::ir::surface::ast::Ast;
use iverson::ir::{normalize, present, surface, term, tssa};
use iverson::tensor::{Inputs, Value, bind};
use iverson::{Error, Style};

use crate::support::{compile, evaluate, evaluate_term, flat, on_small_stack};

enum Source {
    Text(String),
    Built(Box<dyn Fn() -> Ast>),
}

/// A real function of `x`, deep in some way.
struct Case {
    name: &'static str,
    source: Source,
    inputs: Inputs,
    value: f64,
    /// By `x`.
    gradient: Vec<f64>,
}

/// Measures the time that a thread works: not that of others, where the system tells (Linux).
struct Stopwatch {
    at: Instant,
    worked: Option<Duration>,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch { at: Instant::now(), worked: Stopwatch::worked() }
    }

    fn worked() -> Option<Duration> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
    }

    fn elapsed(&self) -> Duration {
        let worked = self.worked.zip(Stopwatch::worked()).and_then(|(from, to)| to.checked_sub(from));
        worked.unwrap_or_else(|| self.at.elapsed())
    }
}

/// How long each step took.
#[derive(Default)]
struct Clock {
    times: Vec<(&'static str, Duration)>,
    loud: bool,
}

impl Clock {
    fn time<T>(&mut self, step: &'static str, run: impl FnOnce() -> T) -> T {
        let start = Stopwatch::start();
        let result = run();
        let time = start.elapsed();
        if self.loud {
            println!("    {step}: {:.3} s", time.as_secs_f64());
        }
        self.times.push((step, time));
        result
    }
}

fn env(signature: &iverson::ir::ty::Signature, inputs: &Inputs) -> Environment<f64> {
    Environment::from_bindings(&bind(signature, inputs).unwrap()).unwrap()
}

/// Takes a program through everything there is.
fn journey(case: Case, clock: &mut Clock) {
    let Case { name: _, source, inputs, value, gradient } = case;
    let ast = match &source {
        Source::Text(text) => {
            let (ast, problems) = clock.time("parse", || surface::parse(text));
            assert_eq!(problems, []);
            ast
        }
        Source::Built(build) => clock.time("build", build),
    };
    let source = clock.time("elaborate", || surface::elaborate(&ast, &[]).unwrap());
    clock.time("drop ast", || drop(ast));
    let environment = env(&source.signature, &inputs);

    clock.time("verify", || check("elaborate", &source).unwrap());
    let copy = clock.time("clone", || source.clone());
    clock.time("same", || assert!(source.same(&copy)));
    let text = clock.time("print", || source.to_string());
    clock.time("print unicode", || source.print(Style::Unicode));
    clock.time("print latex", || source.print(Style::Latex));
    let back = clock.time("read", || surface::read(&text, &[]).unwrap());
    clock.time("read same", || assert!(back.same(&source)));
    let json = clock.time("json", || source.to_json().unwrap());
    let back = clock.time("from json", || term::Program::from_json(&json).unwrap());
    assert!(back.same(&source));
    drop((copy, back, text, json));
    clock.time("dot", || source.to_dot());
    let found = clock.time("evaluate term", || evaluate_term(&source, &environment).unwrap());
    assert_eq!(flat(&found), [value]);
    clock.time("count term", || count_term(&source, &environment, Limits::default()).unwrap());

    let lifted = clock.time("let-lifting", || normalize::lift_lets(&source).unwrap());
    clock.time("verify", || check("let-lifting", &lifted).unwrap());
    let pair_free = clock.time("pair-elimination", || normalize::eliminate_pairs(&lifted).unwrap());
    clock.time("verify", || check("pair-elimination", &pair_free).unwrap());
    let pushed = clock.time("gen-pushout", || normalize::push_out_gens(&pair_free).unwrap());
    clock.time("verify", || check("gen-pushout", &pushed).unwrap());
    let program = clock.time("tensor-ssa", || normalize::to_tensor_ssa(&pushed).unwrap());
    clock.time("verify tensor-ssa", || check("tensor-ssa", &program).unwrap());
    clock.time("drop terms", || drop((source, lifted, pair_free, pushed)));

    clock.time("print tensor-ssa", || program.to_string());
    let json = clock.time("json tensor-ssa", || program.to_json().unwrap());
    let back = clock.time("from json tensor-ssa", || tssa::Program::from_json(&json).unwrap());
    clock.time("compare tensor-ssa", || assert!(back == program));
    drop((json, back));
    clock.time("dot tensor-ssa", || program.to_dot());
    let found = clock.time("evaluate tensor-ssa", || evaluate(&program, &environment).unwrap());
    assert_eq!(flat(&found), [value]);
    clock.time("count tensor-ssa", || count_tssa(&program, &environment, Limits::default()).unwrap());

    let (x, param) = program.signature.params.iter().find(|(_, param)| param.name == "x").expect("a parameter");
    let (x, x_name) = (x, param.name.clone());
    let forward = clock.time("forward", || diff::forward(&program, &[x], true).unwrap().program);
    clock.time("verify forward", || check("forward", &forward).unwrap());
    let options = Options { seed: Seed::One, with_value: true, derivation: false };
    let adjoint = clock.time("adjoint", || diff::adjoint(&program, &[x], options).unwrap().program);
    clock.time("verify adjoint", || check("adjoint", &adjoint).unwrap());
    let cost = count_tssa(&program, &environment, Limits::default()).unwrap().total(Partials::Free).unwrap();
    let cost_with_io = cost_io(&program, &environment, Partials::Free, Limits::default()).unwrap();
    for (step, derivative) in [("forward", forward), ("adjoint", adjoint)] {
        let mut inputs = inputs.clone();
        let mut expected = vec![value];
        if step == "forward" {
            let dx = vec![1.0; gradient.len()];
            let scalar = derivative.signature.params[x].ty == iverson::ir::ty::Types::REAL;
            inputs.value(format!("d{x_name}"), if scalar { Value::scalar(1.0) } else { Value::vector(dx) });
            expected.push(gradient.iter().sum());
        } else {
            expected.extend(&gradient);
        }
        let environment = env(&derivative.signature, &inputs);
        let work = count_tssa(&derivative, &environment, Limits::default()).unwrap().total(Partials::Free).unwrap();
        let bound = if step == "forward" { 4 * cost } else { 4 * cost_with_io - (cost_with_io - cost) };
        assert!(
            work <= bound,
            "{step}: {work} operations, of the program {cost}, with input and output {cost_with_io}"
        );
        let program = clock.time("expand-partials", || diff::expand_partials(&derivative).unwrap());
        clock.time("verify expand-partials", || check("expand-partials", &program).unwrap());
        let found = clock.time("evaluate derivative", || evaluate(&program, &environment).unwrap());
        assert_eq!(flat(&found), expected);
        clock.time("count derivative", || count_tssa(&program, &environment, Limits::default()).unwrap());
        clock.time("print derivative", || program.to_string());
        let shown = clock.time("present", || present::present(&program).unwrap());
        clock.time("verify present", || check("present", &shown).unwrap());
        let text = clock.time("print present", || shown.to_string());
        let back = clock.time("read present", || surface::read(&text, &[]));
        match &back {
            Ok(back) => {
                let found = clock.time("evaluate present", || evaluate_term(back, &environment).unwrap());
                assert_eq!(flat(&found), expected);
            }
            // The derivative of a million levels may be longer than a text may be.
            Err(Error::Program(found)) if found[0].code == "too-large" => assert!(text.len() > 64 << 20),
            Err(error) => panic!("{error}"),
        }
        if step == "adjoint" {
            let twice = clock.time("forward over adjoint", || diff::forward(&program, &[x], false).unwrap().program);
            clock.time("verify forward over adjoint", || check("forward", &twice).unwrap());
        }
        clock.time("drop derivative", || drop((derivative, program, shown, back)));
    }
}

/// The text of a chain of `let`s, `y1` from `y0` by `step`, in something around the last.
fn lets(n: usize, start: &str, step: impl Fn(&str) -> String, last: impl Fn(&str) -> String) -> String {
    let mut text = start.to_owned();
    let mut before = "y0".to_owned();
    for k in 1..=n {
        let name = format!("y{k}");
        writeln!(text, "let {name} = {} in", step(&before)).unwrap();
        before = name;
    }
    text.push_str(&last(&before));
    text
}

fn number(x: f64) -> Inputs {
    let mut inputs = Inputs::new();
    inputs.value("x", Value::scalar(x));
    inputs
}

fn vector(x: &[f64]) -> Inputs {
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(x.to_vec()));
    inputs
}

const SCALAR: &str = "param x : real\nlet y0 = x in\n";

/// `y1 = y0 + x`, `y2 = y1 + x`, ..
fn let_chain(n: usize) -> Case {
    let text = lets(n, SCALAR, |y| format!("{y} + x"), str::to_owned);
    let value = (n + 1) as f64;
    Case { name: "lets", source: Source::Text(text), inputs: number(1.0), value, gradient: vec![value] }
}

/// `x + x + ..`
fn additions(n: usize) -> Case {
    let text = format!("param x : real\nx{}", " + x".repeat(n));
    let value = (n + 1) as f64;
    Case { name: "additions", source: Source::Text(text), inputs: number(1.0), value, gradient: vec![value] }
}

/// `x + (x + (..))`
fn additions_to_the_right(n: usize) -> Case {
    let text = format!("param x : real\n{}x{}", "x + (".repeat(n), ")".repeat(n));
    let value = (n + 1) as f64;
    Case {
        name: "additions to the right",
        source: Source::Text(text),
        inputs: number(1.0),
        value,
        gradient: vec![value],
    }
}

/// `x * x * ..` at 1.
fn products(n: usize) -> Case {
    let text = format!("param x : real\nx{}", " * x".repeat(n));
    Case {
        name: "products",
        source: Source::Text(text),
        inputs: number(1.0),
        value: 1.0,
        gradient: vec![(n + 1) as f64],
    }
}

/// `((..x..))`
fn parentheses(n: usize) -> Case {
    let text = format!("param x : real\n{}x{}", "(".repeat(n), ")".repeat(n));
    Case { name: "parentheses", source: Source::Text(text), inputs: number(2.0), value: 2.0, gradient: vec![1.0] }
}

/// `abs(abs(..))`
fn functions(n: usize) -> Case {
    let text = format!("param x : real\n{}x{}", "abs(".repeat(n), ")".repeat(n));
    Case { name: "functions", source: Source::Text(text), inputs: number(2.0), value: 2.0, gradient: vec![1.0] }
}

/// `relu(y) + x`, whose partials are indicators.
fn kinks(n: usize) -> Case {
    let text = lets(n, SCALAR, |y| format!("relu({y}) + x"), str::to_owned);
    let value = (n + 1) as f64;
    Case { name: "kinks", source: Source::Text(text), inputs: number(1.0), value, gradient: vec![value] }
}

/// Signs, `-(-(..))`.
fn signs(n: usize) -> Case {
    let n = n - n % 2;
    let text = format!("param x : real\n{}x{}", "-(".repeat(n), ")".repeat(n));
    Case { name: "signs", source: Source::Text(text), inputs: number(2.0), value: 2.0, gradient: vec![1.0] }
}

/// `let a = (let a = (..) in a + x) in a + x`
fn lets_in_values(n: usize) -> Case {
    let text = format!("param x : real\n{}x{}", "let a = ".repeat(n), " in a + x".repeat(n));
    let value = (n + 1) as f64;
    Case { name: "lets in values", source: Source::Text(text), inputs: number(1.0), value, gradient: vec![value] }
}

/// A chain of `let`s below a `gen`: each is lifted and gets an axis.
fn lets_below_gen(n: usize) -> Case {
    let start = "param x : [n] real\nlet v = gen i < n. let y0 = x[i] in\n";
    let text = lets(n, start, |y| format!("{y} + x[i]"), |y| format!("{y}\nin sum i < n. v[i]"));
    let value = (n + 1) as f64;
    let inputs = vector(&[1.0, 2.0]);
    Case { name: "lets below gen", source: Source::Text(text), inputs, value: 3.0 * value, gradient: vec![value; 2] }
}

/// The same below a guard.
fn lets_below_guard(n: usize) -> Case {
    let start = "param x : [n] real\nlet v = gen i < n. [i > 0] * (let y0 = x[i - 1] in\n";
    let text = lets(n, start, |y| format!("{y} + x[i - 1]"), |y| format!("{y})\nin sum i < n. v[i]"));
    let value = (n + 1) as f64;
    let inputs = vector(&[1.0, 2.0, 4.0]);
    let gradient = vec![value, value, 0.0];
    Case { name: "lets below guard", source: Source::Text(text), inputs, value: 3.0 * value, gradient }
}

/// `y1[i] = [i > 0] * y0[i - 1] + y0[i]`, ..
fn shifts(n: usize) -> Case {
    let start = "param x : [n] real\nlet y0 = x in\n";
    let step = |y: &str| format!("gen i < n. [i > 0] * {y}[i - 1] + {y}[i]");
    let text = lets(n, start, step, |y| format!("sum i < n. {y}[i]"));
    let d = n as f64;
    // The rows of Pascal's triangle.
    let gradient = vec![d * (d - 1.0) / 2.0 + d + 1.0, d + 1.0, 1.0];
    let value = gradient.iter().sum();
    Case { name: "shifts", source: Source::Text(text), inputs: vector(&[1.0; 3]), value, gradient }
}

/// Shifts to and fro, whose guards do not repeat.
fn guards_on_values(n: usize) -> Case {
    let start = "param x : [n] real\nlet y0 = x in\n";
    let step = |y: &str| format!("gen i < n. [{y}[i] > 0] * ({y}[i] + x[i])");
    let text = lets(n, start, step, |y| format!("sum i < n. {y}[i]"));
    let d = (n + 1) as f64;
    let inputs = vector(&[1.0, -1.0]);
    Case { name: "guards on values", source: Source::Text(text), inputs, value: d, gradient: vec![d, 0.0] }
}

/// `y1 = y0 + y0`, ..
fn doubling(n: usize) -> Case {
    let text = lets(n, SCALAR, |y| format!("{y} + {y}"), str::to_owned);
    let value = 2.0_f64.powi(n as i32);
    Case { name: "doubling", source: Source::Text(text), inputs: number(1.0), value, gradient: vec![value] }
}

/// `y1 = c * y0`, ..
fn scaling(n: usize) -> Case {
    let start = "param x : real\nparam c : real\nlet y0 = x in\n";
    let text = lets(n, start, |y| format!("{y} * c"), str::to_owned);
    let value = 2.0_f64.powi(n as i32);
    let mut inputs = number(1.0);
    inputs.value("c", Value::scalar(2.0));
    Case { name: "scaling", source: Source::Text(text), inputs, value, gradient: vec![value] }
}

/// `y1 = y0 * y0`, .. at 1.
fn squaring(n: usize) -> Case {
    let text = lets(n, SCALAR, |y| format!("{y} * {y}"), str::to_owned);
    let gradient = vec![2.0_f64.powi(n as i32)];
    Case { name: "squaring", source: Source::Text(text), inputs: number(1.0), value: 1.0, gradient }
}

fn built(name: &'static str, value: f64, gradient: f64, build: impl Fn(Expr<'_>) -> Expr<'_> + 'static) -> Case {
    let source = move || {
        let b = Builder::new();
        let x = b.scalar("x");
        b.finish(build(x)).unwrap()
    };
    Case { name, source: Source::Built(Box::new(source)), inputs: number(1.0), value, gradient: vec![gradient] }
}

fn built_doubling(n: usize) -> Case {
    let value = 2.0_f64.powi(n as i32);
    built("built doubling", value, value, move |x| (0..n).fold(x, |y, _| y + y))
}

fn built_squaring(n: usize) -> Case {
    built("built squaring", 1.0, 2.0_f64.powi(n as i32), move |x| (0..n).fold(x, |y, _| y * y))
}

fn built_additions(n: usize) -> Case {
    let value = (n + 1) as f64;
    built("built additions", value, value, move |x| (0..n).fold(x, |y, _| y + x))
}

/// Handles shared by two neighbours: `y2 = y1 * y0` at 1, with a gradient that stays small.
fn built_shared(n: usize) -> Case {
    let value = (n + 1) as f64;
    built("built shared", value, value, move |x| (0..n).fold(x, |y, _| y + y * 0.0 + x))
}

fn built_lets(n: usize) -> Case {
    let value = (n + 1) as f64;
    built("built lets", value, value, move |x| (0..n).fold(x, |y, _| let_(y, |y| y + x)))
}

/// `y1 = gen i < n. y0[i] / 2 + y0[i] / 2 + x[i]`, .. over one element: the `let` of a shared handle stands around its uses, within
/// the `gen`, so before let-lifting longer vectors cost their length to the power of the depth.
fn built_vectors(n: usize) -> Case {
    let source = move || {
        let b = Builder::new();
        let size = b.size("n");
        let x = b.param("x", [size]);
        let y = (0..n).fold(x, |y, _| generate(size, |i| y.at([i]) * 0.5 + y.at([i]) * 0.5 + x.at([i])));
        b.finish(sum(size, |i| y.at([i]))).unwrap()
    };
    let value = (n + 1) as f64;
    let source = Source::Built(Box::new(source));
    Case { name: "built vectors", source, inputs: vector(&[1.0]), value, gradient: vec![value] }
}

/// `(gen i < n. (gen i < n. ..)[i] + x[i])[i]` over one element: on two it costs 2 to the power of the depth.
fn gens_in_accesses(n: usize) -> Case {
    let text = format!("param x : [n] real\nsum i < n. {}x[i]{}", "(gen i < n. ".repeat(n), " + x[i])[i]".repeat(n));
    let value = (n + 1) as f64;
    Case { name: "gens in accesses", source: Source::Text(text), inputs: vector(&[1.0]), value, gradient: vec![value] }
}

/// `(x, (x, ..))` with projections all the way.
fn pairs(n: usize) -> Case {
    let text = format!("param x : real\n{}x{}", "fst (".repeat(n), " + x, x)".repeat(n));
    let value = (n + 1) as f64;
    Case { name: "pairs", source: Source::Text(text), inputs: number(1.0), value, gradient: vec![value] }
}

/// A pair in each `let`.
fn lets_of_pairs(n: usize) -> Case {
    let start = "param x : real\nlet y0 = (x, x) in\n";
    let text = lets(n, start, |y| format!("(snd {y}, fst {y} + x)"), |y| format!("fst {y} + snd {y}"));
    let value = (n + 2) as f64;
    Case { name: "lets of pairs", source: Source::Text(text), inputs: number(1.0), value, gradient: vec![value] }
}

/// `sum i < n. (x[i] + sum i < n. (..))` over one element.
fn sums(n: usize) -> Case {
    let text = format!("param x : [n] real\n{}0{}", "sum i < n. (x[i] + ".repeat(n), ")".repeat(n));
    let value = n as f64;
    Case { name: "sums", source: Source::Text(text), inputs: vector(&[1.0]), value, gradient: vec![value] }
}

/// `[x > 0] * (x + [x > 0] * (..))`
fn brackets(n: usize) -> Case {
    let text = format!("param x : [n] real\nsum i < n. {}0{}", "[i > 0] * (x[i - 1] + ".repeat(n), ")".repeat(n));
    let value = n as f64;
    let inputs = vector(&[1.0, 2.0]);
    Case { name: "brackets", source: Source::Text(text), inputs, value, gradient: vec![value, 0.0] }
}

type Make = fn(usize) -> Case;

/// `[i > 0] * (x[i] + [i > -1] * (..))`: no two brackets are alike, and all but the outermost say nothing new.
fn weaker_brackets(n: usize) -> Case {
    let mut text = "param x : [n] real\nsum i < n. ".to_owned();
    (0..n).for_each(|k| write!(text, "[i > 0 - {k}] * (x[i] + ").unwrap());
    write!(text, "0{}", ")".repeat(n)).unwrap();
    let value = n as f64;
    let inputs = vector(&[1.0, 1.0]);
    Case { name: "weaker brackets", source: Source::Text(text), inputs, value, gradient: vec![0.0, value] }
}

/// `[i > 0] * (x[i] + [i > 1] * (..))`: each bracket says more than all around it.
fn stronger_brackets(n: usize) -> Case {
    let mut text = "param x : [n] real\nsum i < n. ".to_owned();
    (0..n).for_each(|k| write!(text, "[i > {k}] * (x[i] + ").unwrap());
    write!(text, "0{}", ")".repeat(n)).unwrap();
    let inputs = vector(&[1.0; 3]);
    Case { name: "stronger brackets", source: Source::Text(text), inputs, value: 3.0, gradient: vec![0.0, 1.0, 2.0] }
}

/// `[x[i] > -1] * (x[i] + [x[i] > -2] * (..))`: every bracket compares numbers, so none implies another for the compiler. Each
/// statement repeats the brackets around it, so this one is quadratic.
fn brackets_on_values(n: usize) -> Case {
    let mut text = "param x : [n] real\nsum i < n. ".to_owned();
    (0..n).for_each(|k| write!(text, "[x[i] > -{k}] * (x[i] + ").unwrap());
    write!(text, "0{}", ")".repeat(n)).unwrap();
    let inputs = vector(&[1.0, 2.0]);
    let value = n as f64;
    Case {
        name: "brackets on values",
        source: Source::Text(text),
        inputs,
        value: 3.0 * value,
        gradient: vec![value; 2],
    }
}

/// Chains of scalars.
const SCALARS: [Make; 12] = [
    let_chain,
    additions,
    additions_to_the_right,
    products,
    parentheses,
    functions,
    signs,
    lets_in_values,
    built_additions,
    built_lets,
    pairs,
    lets_of_pairs,
];

/// Chains with loops.
const LOOPS: [Make; 5] = [lets_below_gen, built_shared, built_vectors, gens_in_accesses, sums];

/// Chains with guards.
const GUARDS: [Make; 7] =
    [lets_below_guard, shifts, brackets, weaker_brackets, stronger_brackets, kinks, guards_on_values];

/// Chains whose values grow too fast for more than a thousand levels.
const DOUBLING: [Make; 5] = [doubling, scaling, squaring, built_doubling, built_squaring];

/// The times of each step, in order.
fn times(make: Make, depth: usize) -> Vec<(&'static str, Duration)> {
    on_small_stack(move || {
        let case = make(depth);
        let mut clock = Clock::default();
        journey(case, &mut clock);
        clock.times
    })
}

/// Eight times the depth takes no step much more than eight times as long; 64 times would be quadratic.
///
/// The machine may be busy, so each step counts with its shortest time, and has several chances.
fn assert_linear(makes: &[Make], depth: usize) {
    const FACTOR: usize = 8;
    const ALLOWED: u32 = 4 * FACTOR as u32;
    const NOISE: Duration = Duration::from_millis(100);
    for make in makes {
        let shortest = |best: &mut Vec<(&'static str, Duration)>, depth| {
            let found = times(*make, depth);
            match best.is_empty() {
                true => *best = found,
                false => best.iter_mut().zip(found).for_each(|(best, found)| best.1 = best.1.min(found.1)),
            }
        };
        let (mut small, mut large) = (Vec::new(), Vec::new());
        let mut slow = Vec::new();
        for _ in 0..4 {
            shortest(&mut small, depth / FACTOR);
            shortest(&mut large, depth);
            let pairs = small.iter().zip(&large);
            let is_slow =
                |((_, small), (_, large)): &(&(_, Duration), &(_, Duration))| *large > *small * ALLOWED + NOISE;
            slow = pairs.filter(is_slow).map(|((step, small), (_, large))| (*step, *small, *large)).collect();
            if slow.is_empty() {
                break;
            }
        }
        let name = make(1).name;
        assert!(slow.is_empty(), "{name}: {} and {depth} levels take {slow:?}", depth / FACTOR);
    }
}

#[test]
fn deep_scalars() {
    SCALARS.into_iter().for_each(|make| drop(times(make, 1 << 13)));
}

#[test]
fn deep_loops() {
    LOOPS.into_iter().for_each(|make| drop(times(make, 1 << 13)));
}

#[test]
fn deep_guards() {
    GUARDS.into_iter().for_each(|make| drop(times(make, 1 << 11)));
}

/// Times are compared, so nothing else should run on the machine.
#[test]
#[ignore = "compares times, which a busy machine spoils; the command is in the module documentation"]
fn growth() {
    assert_linear(&SCALARS, 1 << 13);
    assert_linear(&LOOPS, 1 << 13);
    assert_linear(&GUARDS, 1 << 11);
    many_parameters_are_linear();
}

#[test]
fn programs_that_grow_faster() {
    for make in DOUBLING {
        times(make, 1000);
    }
    times(brackets_on_values, 60);
}

/// The time to differentiate a sum of `n` parameters by all of them.
fn many_parameters(n: usize) -> Duration {
    {
        let names: Vec<String> = (0..n).map(|k| format!("x{k}")).collect();
        let declared: Vec<String> = names.iter().map(|x| format!("param {x} : real\n")).collect();
        let text = format!("{}{}", declared.concat(), names.join(" + "));
        let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
        let start = Stopwatch::start();
        let function = compile(&text);
        let gradient = function.value_and_gradient(&wrt).unwrap();
        assert_eq!(gradient.tensor_ssa().outputs.len(), n + 1);
        let forward = function.forward(&wrt).unwrap();
        assert_eq!(forward.tensor_ssa().signature.params.len(), 2 * n);
        assert!(gradient.to_string().lines().count() > n);
        start.elapsed()
    }
}

#[test]
fn differentiates_by_many_parameters() {
    many_parameters(1000);
}

/// Eight times as many parameters take no more than 32 times as long.
fn many_parameters_are_linear() {
    let attempt = |_| {
        let (small, large) = (many_parameters(500), many_parameters(4000));
        (large > small * 32, small, large)
    };
    let attempts: Vec<_> = (0..4).map(attempt).take_while(|(slow, ..)| *slow).collect();
    assert!(attempts.len() < 4, "{attempts:?}");
}

/// Minutes of work; see the command above.
#[test]
#[ignore = "a depth of a million takes minutes; the command is in the module documentation"]
fn million() {
    let depth = std::env::var("IVERSON_DEPTH").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let wanted = std::env::var("IVERSON_CASE").unwrap_or_default();
    for make in SCALARS.into_iter().chain(LOOPS).chain(GUARDS) {
        if !make(1).name.contains(&wanted) {
            continue;
        }
        on_small_stack(move || {
            let case = make(depth);
            println!("{}, {depth} levels", case.name);
            let mut clock = Clock { loud: true, ..Clock::default() };
            journey(case, &mut clock);
            println!("  {:.1} s", clock.times.iter().map(|(_, t)| t.as_secs_f64()).sum::<f64>());
        });
    }
}

/// Thousands of conjuncts in one bracket: comparisons are one test, and tests of relations that would be inside of each other are refused.
#[test]
fn many_conjuncts() {
    let joined = |count: usize, conjunct: &dyn Fn(usize) -> String| -> String {
        (0..count).map(conjunct).collect::<Vec<_>>().join(" and ")
    };
    let compared = format!("param x : [n] real\nsum i < n. [{}] * x[i]", joined(10_000, &|k| format!("i != {k}")));
    let relation = "param x : [n] real\nrel E : [n, m]\nassume m >= 3000\n";
    let related = format!("{relation}sum i < n. [{}] * x[i]", joined(3000, &|k| format!("E(i, {k})")));
    on_small_stack(move || {
        let nests = compile(&compared).loops(&mut Stages::new()).expect("it lowers");
        assert!(nests.to_string().contains("out value"));
        source(&nests, Target::Module).expect("it is written");
    });
    let refused = on_small_stack(move || compile(&related).loops(&mut Stages::new())).expect_err("it is too deep");
    assert_eq!(refused.to_string(), "loops and tests inside of each other: 129 is over the limit of 128");
}

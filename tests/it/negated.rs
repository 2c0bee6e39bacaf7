//! Brackets that say that something does not exist: random ones against a brute-force evaluation, on all engines, with their derivatives, and
//! as they are printed.

use fastrand::Rng;
use iverson::Function;
use iverson::ir::{reference, surface};
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, Relation, Value};

use crate::kernels::{judge_itself, numbers};
use crate::support::compile;

const DECLARATIONS: &str = "param x : [n] real\nrel E : [n, n]\nmap f : [n] -> [n]\n";

/// A predicate over the indices in scope, the outermost first.
enum P {
    Edge(usize, usize),
    Mapped(usize, usize),
    Less(usize, usize),
    Equal(usize, usize, i64),
    Positive(usize),
    Not(Box<P>),
    And(Box<P>, Box<P>),
    Or(Box<P>, Box<P>),
    Exists(Box<P>),
}

struct World {
    n: usize,
    x: Vec<f64>,
    edges: Vec<[usize; 2]>,
    f: Vec<usize>,
}

impl World {
    fn new(n: usize, rng: &mut Rng) -> World {
        let density = [0, 20, 60][rng.usize(..3)];
        let places = (0..n).flat_map(|i| (0..n).map(move |j| [i, j]));
        World {
            n,
            x: (0..n).map(|_| f64::from(rng.i8(-3..=3))).collect(),
            edges: places.filter(|_| rng.u8(..100) < density).collect(),
            f: (0..n).map(|_| rng.usize(..n)).collect(),
        }
    }

    fn inputs(&self) -> Inputs {
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(self.x.clone()));
        inputs.relation("E", Relation::from_tuples(&[self.n, self.n], &self.edges).expect("sorted and unique"));
        inputs.relation("f", Relation::from_map(&[self.n], self.f.clone(), self.n).expect("targets in range"));
        inputs
    }

    fn holds(&self, p: &P, at: &mut Vec<usize>) -> bool {
        match p {
            P::Edge(a, b) => self.edges.contains(&[at[*a], at[*b]]),
            P::Mapped(a, b) => self.edges.contains(&[self.f[at[*a]], at[*b]]),
            P::Less(a, b) => at[*a] < at[*b],
            P::Equal(a, b, k) => at[*a] as i64 == 2 * at[*b] as i64 + k,
            P::Positive(a) => self.x[at[*a]] > 0.5,
            P::Not(p) => !self.holds(p, at),
            P::And(p, q) => self.holds(p, at) && self.holds(q, at),
            P::Or(p, q) => self.holds(p, at) || self.holds(q, at),
            P::Exists(p) => (0..self.n).any(|k| {
                at.push(k);
                let holds = self.holds(p, at);
                at.pop();
                holds
            }),
        }
    }
}

const NAMES: [&str; 5] = ["i", "a", "b", "c", "d"];

impl P {
    /// A random predicate, in which `scope` indices are in scope.
    fn random(rng: &mut Rng, scope: usize, depth: usize) -> P {
        let part = |rng: &mut Rng, scope| Box::new(P::random(rng, scope, depth - 1));
        match if depth == 0 { rng.usize(..5) } else { rng.usize(3..11) } {
            0 => P::Edge(rng.usize(..scope), rng.usize(..scope)),
            1 => P::Mapped(rng.usize(..scope), rng.usize(..scope)),
            2 => P::Less(rng.usize(..scope), rng.usize(..scope)),
            3 => P::Equal(rng.usize(..scope), rng.usize(..scope), rng.i64(-2..=2)),
            4 => P::Positive(rng.usize(..scope)),
            5 => P::And(part(rng, scope), part(rng, scope)),
            6 => P::Or(part(rng, scope), part(rng, scope)),
            7 | 8 if scope < NAMES.len() => P::Not(Box::new(P::Exists(part(rng, scope + 1)))),
            9 if scope < NAMES.len() => P::Exists(part(rng, scope + 1)),
            _ => P::Not(part(rng, scope)),
        }
    }

    fn text(&self, scope: usize) -> String {
        let name = |k: &usize| NAMES[*k];
        match self {
            P::Edge(a, b) => format!("E({}, {})", name(a), name(b)),
            P::Mapped(a, b) => format!("E(f({}), {})", name(a), name(b)),
            P::Less(a, b) => format!("{} < {}", name(a), name(b)),
            P::Equal(a, b, k) => format!("{} = 2*{} + {k}", name(a), name(b)).replace("+ -", "- "),
            P::Positive(a) => format!("x[{}] > 0.5", name(a)),
            P::Not(p) => format!("not ({})", p.text(scope)),
            P::And(p, q) => format!("({}) and ({})", p.text(scope), q.text(scope)),
            P::Or(p, q) => format!("({}) or ({})", p.text(scope), q.text(scope)),
            P::Exists(p) => format!("exists {} < n. ({})", NAMES[scope], p.text(scope + 1)),
        }
    }
}

/// The numbers of a program by the reference evaluator.
fn evaluated(function: &Function, inputs: &Inputs) -> Vec<f64> {
    numbers(&reference::evaluate(function.tensor_ssa(), inputs).unwrap_or_else(|e| panic!("{e}\n{function}")))
}

#[test]
fn random_brackets() {
    let mut negated = 0;
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let depth = 2 + rng.usize(..2);
        let p = P::random(&mut rng, 1, depth);
        let text = format!("{DECLARATIONS}gen i < n. [{}] * x[i]^2", p.text(1));
        let Ok(source) = surface::read(&text, &[]).map_err(|e| panic!("{e}\n{text}"));
        negated += usize::from(source.to_string().contains("not (exists") || source.to_string().contains("= 0]"));
        let back = surface::read(&source.to_string(), &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
        assert!(back.same(&source), "{text}\n{source}\n{back}");
        let function = compile(&text);
        let simplified = function.simplify().expect("it is simplified");
        let forward = function.forward(["x"]).expect("it has a derivative");
        for n in [1, 4] {
            let world = World::new(n, &mut rng);
            let mut inputs = world.inputs();
            let expected: Vec<f64> =
                (0..n).map(|i| if world.holds(&p, &mut vec![i]) { world.x[i] * world.x[i] } else { 0.0 }).collect();
            assert_eq!(evaluated(&function, &inputs), expected, "{text}\n{source}");
            assert_eq!(evaluated(&compile(&source.to_string()), &inputs), expected, "{source}");
            for program in [&function, &simplified] {
                judge_itself(program, &inputs, false).unwrap_or_else(|e| panic!("{e}\n{text}"));
            }
            inputs.value("dx", Value::vector(vec![1.0; n]));
            let tangent: Vec<f64> =
                (0..n).map(|i| if world.holds(&p, &mut vec![i]) { 2.0 * world.x[i] } else { 0.0 }).collect();
            assert_eq!(evaluated(&forward, &inputs), tangent, "{text}\n{forward}");
            judge_itself(&forward, &inputs, false).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
    }
    assert!(negated > 20, "{negated} of 60");
}

/// Printed as they were written, with their gradients, and the same on all engines.
#[test]
fn brackets_as_they_read() {
    let head = "param x : [n] real\nparam S : csr [n, n] real\nrel E : [n, n]\nmap f : [n] -> [n]\n";
    for (text, gradient) in [
        (
            "sum i < n. [not (exists k < n. k < i and E(i, k))] * x[i]^2",
            "gen i < n. [not (exists k < n. k < i and E(i, k))] * 2 * x[i]",
        ),
        ("sum i < n. [not (exists k < n. S?(i, k))] * x[i]^2", "gen i < n. [not (exists k < n. S?(i, k))] * 2 * x[i]"),
        // No index is left here, so there is nothing to count.
        ("sum i < n. [not (exists k < n. k < i)] * x[i]^2", "gen i < n. [i <= 0] * 2 * x[i]"),
    ] {
        let function = compile(&format!("{head}{text}"));
        let last = |f: &Function| f.to_string().lines().skip(4).collect::<Vec<_>>().join(" ");
        if !gradient.contains("i <= 0") {
            assert_eq!(last(&function), text);
        }
        let derivative = function.gradient(["x"]).expect("it has a gradient");
        let mut inputs = World { n: 3, x: vec![1.0, 2.0, 3.0], edges: vec![[1, 0], [2, 2]], f: vec![0; 3] }.inputs();
        inputs.value("S", iverson::tensor::Csr::new(3, 3, vec![0, 0, 1, 1], vec![2], vec![5.0]).expect("a matrix"));
        for program in [&function, &derivative] {
            judge_itself(program, &inputs, true).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
        let expected = compile(&format!("{head}{gradient}"));
        assert_eq!(evaluated(&derivative, &inputs), evaluated(&expected, &inputs), "{derivative}");
    }
}

/// `select` negates what it selects by, and nothing is left of an empty range.
#[test]
fn selects_and_empty_ranges() {
    let text = "param x : [n] real\nrel E : [n, m]\ngen i < n. select(exists k < m. E(i, k), x[i], -1)";
    let function = compile(text);
    for (m, edges, expected) in
        [(0, vec![], [-1.0, -1.0]), (2, vec![[1, 0], [1, 1]], [-1.0, 7.0]), (1, vec![[0, 0]], [5.0, -1.0])]
    {
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(vec![5.0, 7.0]));
        inputs.relation("E", Relation::from_tuples(&[2, m], &edges).expect("sorted and unique"));
        assert_eq!(evaluated(&function, &inputs), expected);
        let kernel = function.kernel(&inputs).as_written().engine(Engine::Interpreter).build().expect("it binds");
        assert_eq!(numbers(&kernel.call(&inputs).expect("it runs")), expected);
    }
}

/// Assumptions speak of sizes, and nothing is counted there.
#[test]
fn assumptions_count_nothing() {
    let text = "param x : [n] real\nassume not (exists k < n. 2*k + 1 = n)\nsum i < n. x[i]";
    let error = surface::read(text, &[]).expect_err("it is refused").to_string();
    assert!(error.contains("an assumption speaks of sizes only"), "{error}");
}

//! What the tests share: inputs for random programs, and shorthands for the reference evaluators.

use std::sync::Arc;

use fastrand::Rng;
use iverson::reference::{Environment, Leaf, Limits, Numeric, eval_term, eval_tssa};
use iverson::tensor::{Bindings, Coo, Csr, Dense, Inputs, Relation, Tensor, Value, bind};
use iverson::{Function, Result, term, tssa};

use crate::generate::{Extent, Generated, ParamKind, Ty};

/// Random numbers for inputs.
pub struct Numbers {
    rng: Rng,
    integers: bool,
}

impl Numbers {
    pub fn new(seed: u64, integers: bool) -> Self {
        Numbers { rng: Rng::with_seed(seed), integers }
    }

    pub fn next(&mut self) -> f64 {
        match self.integers {
            true => f64::from(self.rng.i8(-3..=3)),
            false => self.rng.f64() * 4.0 - 2.0,
        }
    }

    pub fn vector(&mut self, len: usize) -> Vec<f64> {
        (0..len).map(|_| self.next()).collect()
    }

    /// A random subset of the places of a box, in order.
    fn tuples(&mut self, shape: &[usize]) -> Vec<Vec<usize>> {
        let density = [0, 20, 50, 100][self.rng.usize(0..4)];
        places(shape).into_iter().filter(|_| self.rng.u8(0..100) < density).collect()
    }
}

fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![Vec::new()], |tuples, n| {
        tuples.iter().flat_map(|t| (0..*n).map(move |k| t.iter().copied().chain([k]).collect())).collect()
    })
}

fn length(n: &Extent) -> usize {
    usize::try_from(n.value).unwrap_or(0)
}

fn shape(dims: &[Extent]) -> Vec<usize> {
    dims.iter().map(length).collect()
}

/// The shapes of the leaves of a type, in order.
fn leaves(ty: &Ty, outer: &[usize], into: &mut Vec<Vec<usize>>) {
    match ty {
        Ty::Real => into.push(outer.to_vec()),
        Ty::Pair(a, b) => {
            leaves(a, outer, into);
            leaves(b, outer, into);
        }
        Ty::Tensor(n, element) => leaves(element, &[outer, &[length(n)]].concat(), into),
    }
}

fn columns(rank: usize, tuples: &[Vec<usize>]) -> Vec<Vec<usize>> {
    (0..rank).map(|axis| tuples.iter().map(|t| t[axis]).collect()).collect()
}

/// Inputs that fit a random program.
pub fn inputs(program: &Generated, numbers: &mut Numbers) -> Inputs {
    let mut inputs = Inputs::new();
    for (name, value) in &program.sizes {
        inputs.size(name, *value);
    }
    for (name, kind) in &program.params {
        match kind {
            ParamKind::Dense(ty) => {
                let mut shapes = Vec::new();
                leaves(ty, &[], &mut shapes);
                let leaves = shapes.iter().map(|shape| {
                    let data = numbers.vector(shape.iter().product());
                    Arc::new(Tensor::Dense(Dense::new(shape, data).expect("the data fill the shape")))
                });
                inputs.value(name, Value::new(leaves.collect()));
            }
            ParamKind::Csr(dims) | ParamKind::Coo(dims) => {
                let shape = shape(dims);
                let tuples = numbers.tuples(&shape);
                let data = numbers.vector(tuples.len());
                let coo = Coo::new(shape.clone(), columns(shape.len(), &tuples), data).expect("sorted and unique");
                match kind {
                    ParamKind::Csr(_) => inputs.value(name, Csr::from_coo(&coo).expect("a matrix")),
                    _ => inputs.value(name, coo),
                };
            }
            ParamKind::Relation(dims) => {
                let shape = shape(dims);
                let tuples = numbers.tuples(&shape);
                inputs.relation(name, Relation::from_tuples(&shape, &tuples).expect("sorted and unique"));
            }
            ParamKind::Map(source, target) => {
                let (source, target) = (length(source), length(target));
                let targets = (0..source).map(|_| numbers.rng.usize(0..target.max(1))).collect();
                inputs.relation(name, Relation::from_map(&[source], targets, target).expect("targets in range"));
            }
        }
    }
    inputs
}

/// What a program is run on.
pub fn environment(program: &term::Program, inputs: &Inputs) -> Result<(Bindings, Environment<f64>)> {
    let bindings = bind(&program.signature, inputs)?;
    let environment = Environment::from_bindings(&bindings)?;
    Ok((bindings, environment))
}

/// The leaves that a term evaluates to.
pub fn evaluate_term<T: Numeric>(program: &term::Program, environment: &Environment<T>) -> Result<Vec<Leaf<T>>> {
    eval_term::evaluate(program, environment, Limits::default())
}

/// The leaves of all outputs of a program in Tensor-SSA.
pub fn evaluate<T: Numeric>(program: &tssa::Program, environment: &Environment<T>) -> Result<Vec<Leaf<T>>> {
    Ok(eval_tssa::evaluate(program, environment, eval_tssa::Options::default())?.concat())
}

/// Random leaves with the places of those given.
pub fn like(leaves: &[Leaf<f64>], numbers: &mut Numbers) -> Vec<Leaf<f64>> {
    leaves.iter().map(|leaf| leaf.map(|_| Ok(numbers.next())).expect("nothing fails")).collect()
}

/// The numbers of leaves, one after the other.
pub fn flat(leaves: &[Leaf<f64>]) -> Vec<f64> {
    leaves.iter().flat_map(|leaf| leaf.values().iter().copied()).collect()
}

/// `<a, b>`.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "an inner product of vectors of different lengths");
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Compiles a program that is known to be right.
pub fn compile(text: &str) -> Function {
    Function::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The declarations of a program as it prints, a line each, and the rest.
pub fn declarations(text: &str) -> (Vec<String>, String) {
    let declares = |line: &&str| ["param ", "rel ", "map ", "assume "].iter().any(|word| line.starts_with(word));
    let header: Vec<String> = text.lines().take_while(declares).map(str::to_owned).collect();
    let body = text.lines().skip(header.len()).collect::<Vec<_>>().join("\n");
    (header, body)
}

/// Runs on a thread with a stack of 2 MiB.
pub fn on_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread starts");
    thread.join().expect("the thread ends well")
}

/// What an environment variable says, for long runs; the default where it says nothing.
pub fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

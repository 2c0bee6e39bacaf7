//! What the tests share: inputs for random programs, and shorthands for the reference evaluators.

use std::sync::Arc;

use fastrand::Rng;
use iverson::ir::codegen::source::{Target, source};
use iverson::ir::reference::{Environment, Leaf, Limits, Numeric, eval_term, eval_tssa};
use iverson::ir::schedule::{AT_BINDING, Sizes};
use iverson::ir::{loops, term, tssa};
use iverson::tensor::{Bindings, Coo, Csc, Csr, Dense, Inputs, Relation, Tensor, Value, bind};
use iverson::{Function, Result};

use crate::generate::{Extent, Generated, ParamKind, Ty};

/// Random numbers for inputs.
pub struct Numbers {
    rng: Rng,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// From -3 to 3.
    Integers,
    /// From -2 to 2.
    Reals,
    /// From 0.5 to 1.5.
    Positive,
}

impl Numbers {
    pub fn new(seed: u64, integers: bool) -> Self {
        let kind = if integers { Kind::Integers } else { Kind::Reals };
        Numbers { rng: Rng::with_seed(seed), kind }
    }

    /// Numbers where logarithms, roots and quotients are tame.
    pub fn positive(seed: u64) -> Self {
        Numbers { rng: Rng::with_seed(seed), kind: Kind::Positive }
    }

    pub fn are_integers(&self) -> bool {
        matches!(self.kind, Kind::Integers)
    }

    pub fn next(&mut self) -> f64 {
        match self.kind {
            Kind::Integers => f64::from(self.rng.i8(-3..=3)),
            Kind::Reals => self.rng.f64() * 4.0 - 2.0,
            Kind::Positive => self.rng.f64() + 0.5,
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

    /// The same; in a special program most subsets have no wild indices.
    fn tuples_of(&mut self, program: &Generated, dims: &[Extent]) -> Vec<Vec<usize>> {
        let tuples = self.tuples(&shape(dims));
        if program.wild.is_empty() || self.rng.u8(0..5) == 0 {
            return tuples;
        }
        tuples.into_iter().filter(|tuple| !is_wild(program, dims, tuple)).collect()
    }

    /// A number for each of some places: a special one at wild places, in most tensors of a special program.
    fn fill(&mut self, program: &Generated, dims: &[Extent], tuples: &[Vec<usize>]) -> Vec<f64> {
        if program.wild.is_empty() || self.rng.u8(0..4) == 0 {
            return self.vector(tuples.len());
        }
        // All of a kind, so that programs with overflow but without NaN in their data are frequent.
        let specials: &[f64] = match self.rng.u8(0..4) {
            0 => &[1000.0],
            1 => &[1000.0, -1000.0, 1e200, -1e200, 1e308, 0.0, -0.0, 5e-324],
            2 => &[f64::NAN],
            _ => &[f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e308, 0.0],
        };
        let number = |tuple: &Vec<usize>| match is_wild(program, dims, tuple) {
            true => specials[self.rng.usize(0..specials.len())],
            false => self.next(),
        };
        tuples.iter().map(number).collect()
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

/// The axes of the leaves of a type, in order.
fn leaves(ty: &Ty, outer: &[Extent], into: &mut Vec<Vec<Extent>>) {
    match ty {
        Ty::Real => into.push(outer.to_vec()),
        Ty::Pair(a, b) => {
            leaves(a, outer, into);
            leaves(b, outer, into);
        }
        Ty::Tensor(n, element) => leaves(element, &[outer, std::slice::from_ref(n)].concat(), into),
    }
}

/// Whether a place has a wild index.
fn is_wild(program: &Generated, dims: &[Extent], place: &[usize]) -> bool {
    dims.iter().zip(place).any(|(n, k)| program.wild.iter().any(|wild| wild.size == n.text && wild.places.contains(k)))
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
                let mut all = Vec::new();
                leaves(ty, &[], &mut all);
                let leaves = all.iter().map(|dims| {
                    let shape = shape(dims);
                    let data = numbers.fill(program, dims, &places(&shape));
                    Arc::new(Tensor::Dense(Dense::new(&shape, data).expect("the data fill the shape")))
                });
                inputs.value(name, Value::new(leaves.collect()));
            }
            ParamKind::Csr(dims) | ParamKind::Csc(dims) | ParamKind::Coo(dims) => {
                let shape = shape(dims);
                let tuples = numbers.tuples_of(program, dims);
                let data = numbers.fill(program, dims, &tuples);
                let coo = Coo::new(shape.clone(), columns(shape.len(), &tuples), data).expect("sorted and unique");
                match kind {
                    ParamKind::Csr(_) => inputs.value(name, Csr::from_coo(&coo).expect("a matrix")),
                    ParamKind::Csc(_) => inputs.value(name, Csc::from_coo(&coo).expect("a matrix")),
                    _ => inputs.value(name, coo),
                };
            }
            ParamKind::Relation(dims) => {
                let shape = shape(dims);
                let tuples = numbers.tuples_of(program, dims);
                inputs.relation(name, Relation::from_tuples(&shape, &tuples).expect("sorted and unique"));
            }
            ParamKind::Mask(n) => {
                let shape = [length(n)];
                let tuples: Vec<Vec<usize>> = places(&shape)
                    .into_iter()
                    .filter(|tuple| !is_wild(program, std::slice::from_ref(n), tuple))
                    .collect();
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

/// The program after a pass that runs at binding.
pub fn at_binding(name: &str, program: &loops::Program, sizes: Option<&Sizes<'_>>) -> loops::Program {
    let pass = AT_BINDING.iter().find(|pass| pass.name == name).expect("there is such a pass");
    pass.apply(program.clone(), sizes).expect("no number is large")
}

/// What a `main` prints that runs the emitted source of nests, the module `kernel`, compiled by `rustc` alone. It may give `nothing` as the callback.
pub fn run_alone(nests: &loops::Program, main: &str) -> String {
    let head = r#"
#[path = "kernel.rs"]
#[allow(warnings)]
mod kernel;

unsafe extern "C" fn nothing(_: *const core::ffi::c_void, _: u32, _: *const f64) -> f64 {
    f64::NAN
}
"#;
    let directory = tempfile::tempdir().expect("a directory");
    let text = source(nests, Target::Module).expect("it is written").text;
    std::fs::write(directory.path().join("kernel.rs"), text).expect("a file");
    std::fs::write(directory.path().join("main.rs"), format!("{head}{main}")).expect("a file");
    let mut compiler = std::process::Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let compiled = compiler.args(["--edition", "2024", "-O", "main.rs"]).current_dir(directory.path()).output();
    let compiled = compiled.expect("rustc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = std::process::Command::new(directory.path().join("main")).output().expect("it runs");
    String::from_utf8_lossy(&run.stdout).into_owned()
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

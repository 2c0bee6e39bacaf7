//! The evaluations: what each computes, and the form of its arguments and results.

use std::error::Error;
use std::time::Instant;

use iverson::kernel::{Assembly, Engine, Kernel, Leaf};
use iverson::tensor::{Dense, Inputs};
use iverson::{Function, Mode, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::bundle;
use super::protocol::{Runs, Timing};

/// An error is for the answer.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The output of a function, and how long its runs took.
pub type Outcome = (Value, Vec<Timing>);

/// The functions of an evaluation, derived.
pub struct Module {
    functions: Vec<(&'static str, Assembly)>,
    evaluate: fn(Task<'_>) -> Result<Outcome>,
}

impl Module {
    /// Derives the functions of an evaluation.
    ///
    /// # Errors
    /// If there is no such evaluation, and those of the driver.
    pub fn define(name: &str) -> Result<Module> {
        let (functions, evaluate): (_, fn(Task<'_>) -> Result<Outcome>) = match name {
            "hello" => (with_gradient(["square", "double"], include_str!("hello.iv"), &["x"])?, hello),
            "lse" => (with_gradient(["primal", "gradient"], include_str!("lse.iv"), &["x"])?, lse),
            "llsq" => (with_gradient(["primal", "gradient"], include_str!("llsq.iv"), &["x"])?, llsq),
            "gmm" => {
                let wrt = ["alpha", "mu", "q", "L"];
                (with_gradient(["objective", "jacobian"], include_str!("gmm.iv"), &wrt)?, gmm)
            }
            "kmeans" => (kmeans_functions()?, kmeans),
            "lstm" => {
                let wrt = ["main", "extra"];
                (with_gradient(["objective", "jacobian"], include_str!("lstm.iv"), &wrt)?, lstm)
            }
            "ode" => (ode_functions()?, ode),
            "ba" => (bundle::functions()?, bundle::evaluate),
            _ => return Err(format!("there is no module `{name}`").into()),
        };
        Ok(Module { functions, evaluate })
    }

    /// Evaluates a function at an input, as often as the input says.
    ///
    /// # Errors
    /// If there is no such function or the input does not fit.
    pub fn evaluate(&self, function: &str, input: Value, engine: Engine) -> Result<Outcome> {
        let known = self.functions.iter().find(|(name, _)| *name == function);
        let (function, program) = known.ok_or_else(|| format!("there is no function `{function}`"))?;
        (self.evaluate)(Task { function, program, input, engine })
    }
}

/// A program of which no result is sparse.
pub fn dense(function: &Function) -> Result<Assembly> {
    Ok(function.assemble(&[])?)
}

/// A program that was written, simplified as derivatives are.
pub fn simple(function: &Function) -> Result<Assembly> {
    dense(&function.simplify()?)
}

fn with_gradient(names: [&'static str; 2], text: &str, wrt: &[&str]) -> Result<Vec<(&'static str, Assembly)>> {
    let function = Function::parse(text)?;
    let [value, gradient] = names;
    Ok(vec![(value, simple(&function)?), (gradient, dense(&function.gradient(wrt)?)?)])
}

/// A function that is to be evaluated.
pub struct Task<'a> {
    /// Its name.
    pub function: &'a str,
    program: &'a Assembly,
    input: Value,
    engine: Engine,
}

impl Task<'_> {
    /// The input in the form of the evaluation.
    pub fn input<T: DeserializeOwned>(&mut self) -> Result<T> {
        Ok(serde_json::from_value(self.input.take())?)
    }

    /// The program as a kernel.
    pub fn bind(&self, inputs: &Inputs) -> Result<Bound> {
        let start = Instant::now();
        let kernel = match self.program.bind(inputs, self.engine) {
            // There is no compiler.
            Err(iverson::Error::Limitation { .. }) => self.program.bind(inputs, Engine::Interpreter)?,
            bound => bound?,
        };
        let leaves = kernel.outputs().iter().flat_map(|output| &output.leaves);
        let results = leaves.map(|leaf| vec![0.0; leaf.len()]).collect();
        Ok(Bound { kernel, results, prepared: Timing::new("prepare", start.elapsed()) })
    }

    /// Runs the program on numbers, the parameters in order; an output is made of the results of the last run.
    fn run(
        &self,
        inputs: &Inputs,
        data: &[&[f64]],
        runs: Runs,
        output: impl FnOnce(&[Vec<f64>]) -> Result<Value>,
    ) -> Result<Outcome> {
        let mut bound = self.bind(inputs)?;
        let timings = runs.time(|| bound.call(data))?;
        Ok((output(&bound.results)?, bound.timings(timings)))
    }
}

/// A kernel with room for its results.
pub struct Bound {
    /// The kernel.
    pub kernel: Kernel,
    /// The leaves of its results.
    pub results: Vec<Vec<f64>>,
    prepared: Timing,
}

impl Bound {
    /// Computes the results from the numbers of the parameters, in order.
    pub fn call(&mut self, data: &[&[f64]]) -> Result<()> {
        let mut results: Vec<&mut [f64]> = self.results.iter_mut().map(Vec::as_mut_slice).collect();
        self.kernel.call_into(data, &mut results)?;
        Ok(())
    }

    /// The leaves of its results, as they are stored.
    pub fn leaves(&self) -> impl Iterator<Item = (&str, &Leaf)> {
        let outputs = self.kernel.outputs().iter();
        outputs.flat_map(|output| output.leaves.iter().map(|leaf| (output.name.as_str(), leaf)))
    }

    /// What is told of the time that it took to bind it, and of that of its runs.
    pub fn timings(&self, runs: Vec<Timing>) -> Vec<Timing> {
        [vec![self.prepared], runs].concat()
    }
}

/// The one number of the one result.
fn number(results: &[Vec<f64>]) -> Result<Value> {
    match results {
        [result] if result.len() == 1 => Ok(json!(result[0])),
        _ => Err("the program has another result than a number".into()),
    }
}

/// The one result.
fn vector(results: &[Vec<f64>]) -> Result<Value> {
    match results {
        [result] => Ok(json!(result)),
        _ => Err("the program has other results than a vector".into()),
    }
}

/// Rows of numbers.
fn rows(data: &[f64], columns: usize) -> Value {
    data.chunks(columns.max(1)).collect()
}

/// A matrix that is written as its rows.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Vec<Vec<f64>>")]
struct Matrix {
    rows: usize,
    columns: usize,
    data: Vec<f64>,
}

impl TryFrom<Vec<Vec<f64>>> for Matrix {
    type Error = String;

    fn try_from(rows: Vec<Vec<f64>>) -> std::result::Result<Matrix, String> {
        let columns = rows.first().map_or(0, Vec::len);
        if rows.iter().any(|row| row.len() != columns) {
            return Err("the rows of a matrix have different lengths".to_owned());
        }
        Ok(Matrix { rows: rows.len(), columns, data: rows.concat() })
    }
}

impl Matrix {
    fn tensor(&self) -> Result<Dense> {
        Ok(Dense::new(&[self.rows, self.columns], self.data.clone())?)
    }

    fn check(&self, name: &str, rows: usize, columns: usize) -> Result<()> {
        if (self.rows, self.columns) == (rows, columns) || (rows == 0 && self.rows == 0) {
            return Ok(());
        }
        let Matrix { rows: found, columns: wide, .. } = self;
        Err(format!("`{name}` is expected to be {rows} by {columns}, found {found} by {wide}").into())
    }
}

fn hello(mut task: Task<'_>) -> Result<Outcome> {
    let x: f64 = task.input()?;
    let mut inputs = Inputs::new();
    inputs.value("x", Dense::scalar(x));
    task.run(&inputs, &[&[x]], Runs::default(), number)
}

fn lse(mut task: Task<'_>) -> Result<Outcome> {
    #[derive(Deserialize)]
    struct Input {
        x: Vec<f64>,
        #[serde(flatten)]
        runs: Runs,
    }
    let Input { x, runs } = task.input()?;
    let mut inputs = Inputs::new();
    inputs.value("x", Dense::vector(x.clone()));
    let output = if task.function == "primal" { number } else { vector };
    task.run(&inputs, &[&x], runs, output)
}

fn llsq(mut task: Task<'_>) -> Result<Outcome> {
    #[derive(Deserialize)]
    struct Input {
        x: Vec<f64>,
        n: i64,
        #[serde(flatten)]
        runs: Runs,
    }
    let Input { x, n, runs } = task.input()?;
    let mut inputs = Inputs::new();
    let steps = i64::try_from(x.len().div_ceil(16))?;
    inputs.value("x", Dense::vector(x.clone())).size("n", n).size("c", steps);
    let output = if task.function == "primal" { number } else { vector };
    task.run(&inputs, &[&x], runs, output)
}

/// The triangles below the diagonals, which GradBench packs column by column, are unpacked and packed again in each run.
fn gmm(mut task: Task<'_>) -> Result<Outcome> {
    #[derive(Deserialize)]
    struct Input {
        d: usize,
        k: usize,
        n: usize,
        alpha: Vec<f64>,
        mu: Matrix,
        q: Matrix,
        l: Matrix,
        x: Matrix,
        gamma: f64,
        m: f64,
        #[serde(flatten)]
        runs: Runs,
    }
    let Input { d, k, n, alpha, mu, q, l, x, gamma, m, runs } = task.input()?;
    // The sizes say nothing that the matrices do not, unless they are wrong.
    let packed = d.checked_mul(d.saturating_sub(1)).ok_or("`d` is too large")? / 2;
    mu.check("mu", k, d)?;
    q.check("q", k, d)?;
    l.check("l", k, packed)?;
    x.check("x", n, d)?;
    let mut lower = vec![0.0; k * d * d];
    let mut inputs = Inputs::new();
    inputs
        .value("alpha", Dense::vector(alpha.clone()))
        .value("mu", mu.tensor()?)
        .value("q", q.tensor()?)
        .value("L", Dense::new(&[k, d, d], lower.clone())?)
        .value("x", x.tensor()?)
        .value("gamma", Dense::scalar(gamma))
        .value("m", Dense::scalar(m));
    let below: Vec<usize> = (0..d).flat_map(|column| (column + 1..d).map(move |row| row * d + column)).collect();
    let mut bound = task.bind(&inputs)?;
    let mut gradient = vec![0.0; l.data.len()];
    let timings = runs.time(|| {
        for (lower, l) in lower.chunks_mut((d * d).max(1)).zip(l.data.chunks(packed.max(1))) {
            below.iter().zip(l).for_each(|(at, l)| lower[*at] = *l);
        }
        bound.call(&[&alpha, &mu.data, &q.data, &lower, &x.data, &[gamma], &[m]])?;
        if let [_, _, _, lower] = bound.results.as_slice() {
            for (lower, l) in lower.chunks((d * d).max(1)).zip(gradient.chunks_mut(packed.max(1))) {
                below.iter().zip(l).for_each(|(at, l)| *l = lower[*at]);
            }
        }
        Ok(())
    })?;
    let output = match bound.results.as_slice() {
        [_] => number(&bound.results)?,
        [alpha, mu, q, _] => json!({
            "alpha": alpha,
            "mu": rows(mu, d),
            "q": rows(q, d),
            // Of one dimension, rows have nothing in them.
            "l": if packed == 0 { json!(vec![[0.0; 0]; k]) } else { rows(&gradient, packed) },
        }),
        _ => return Err("the program has other results than a number or four gradients".into()),
    };
    Ok((output, bound.timings(timings)))
}

/// The cost, and the direction of a Newton step.
fn kmeans_functions() -> Result<Vec<(&'static str, Assembly)>> {
    let cost = Function::parse(include_str!("kmeans.iv"))?;
    // The Hessian is diagonal. It is derived from the gradient, and shares the work for it.
    let diagonal = Request { with_value: true, ..Request::new(Mode::Hessian, &["centroids"]).diagonal() };
    let both = cost.derive(&diagonal)?.function;
    Ok(vec![("cost", simple(&cost)?), ("dir", dense(&both)?)])
}

fn kmeans(mut task: Task<'_>) -> Result<Outcome> {
    #[derive(Deserialize)]
    struct Input {
        points: Matrix,
        centroids: Matrix,
        #[serde(flatten)]
        runs: Runs,
    }
    let Input { points, centroids, runs } = task.input()?;
    let mut inputs = Inputs::new();
    inputs.value("points", points.tensor()?).value("centroids", centroids.tensor()?);
    let mut bound = task.bind(&inputs)?;
    let mut step = Vec::new();
    let timings = runs.time(|| {
        bound.call(&[&points.data, &centroids.data])?;
        if let [_, gradient, hessian] = bound.results.as_slice() {
            step.clear();
            step.extend(gradient.iter().zip(hessian).map(|(g, h)| g / h));
        }
        Ok(())
    })?;
    let output = if task.function == "cost" { number(&bound.results)? } else { rows(&step, centroids.columns) };
    Ok((output, bound.timings(timings)))
}

fn lstm(mut task: Task<'_>) -> Result<Outcome> {
    #[derive(Deserialize)]
    struct Input {
        main_params: Matrix,
        extra_params: Matrix,
        state: Matrix,
        sequence: Matrix,
        #[serde(flatten)]
        runs: Runs,
    }
    let Input { main_params: main, extra_params: extra, state, sequence, runs } = task.input()?;
    let (layers, bits) = (main.rows / 2, sequence.columns);
    main.check("main_params", 2 * layers, 4 * bits)?;
    extra.check("extra_params", 3, bits)?;
    state.check("state", 2 * layers, bits)?;
    let mut inputs = Inputs::new();
    inputs
        .value("main", Dense::new(&[layers, 2, 4, bits], main.data.clone())?)
        .value("extra", extra.tensor()?)
        .value("state", Dense::new(&[layers, 2, bits], state.data.clone())?)
        .value("sequence", sequence.tensor()?);
    let data: [&[f64]; 4] = [&main.data, &extra.data, &state.data, &sequence.data];
    task.run(&inputs, &data, runs, |results| match results {
        [main, extra] => Ok(json!([&main[..], extra].concat())),
        results => number(results),
    })
}

/// All elements at the end, and the gradient of the last of them.
fn ode_functions() -> Result<Vec<(&'static str, Assembly)>> {
    let end = Function::parse(include_str!("ode.iv"))?;
    let last = Function::parse("param y : [n] real\nassume n >= 1\ny[n - 1]")?.compose(&end)?;
    Ok(vec![("primal", simple(&end)?), ("gradient", dense(&last.gradient(["x"])?)?)])
}

fn ode(mut task: Task<'_>) -> Result<Outcome> {
    #[derive(Deserialize)]
    struct Input {
        x: Vec<f64>,
        s: i64,
        #[serde(flatten)]
        runs: Runs,
    }
    let Input { x, s, runs } = task.input()?;
    let mut inputs = Inputs::new();
    inputs.value("x", Dense::vector(x.clone())).size("s", s);
    task.run(&inputs, &[&x], runs, vector)
}

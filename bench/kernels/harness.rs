//! Interleaved timing, the table, and what the hand-written kernels share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iverson::codegen::vector::V;
use iverson::kernel::{Engine, Input, Kernel, Status};
use iverson::tensor::{Csr, Inputs, Precision, SliceMut, Tensor, bind};
use iverson::{Function, Result};
use serde::Serialize;

use crate::peers;

/// What is timed: a run gives a number made of its results.
pub type Run<'a> = Box<dyn FnMut() -> f64 + Send + 'a>;

/// What binds a kernel for an engine.
type Bind<'a> = &'a dyn Fn(Engine) -> Result<Kernel>;

/// A line of the table; times are medians in milliseconds.
#[derive(Serialize)]
pub struct Line {
    pub workload: String,
    pub by_hand: f64,
    pub native: f64,
    pub native_two_threads: f64,
    pub interpreter: f64,
    pub native_over_by_hand: f64,
}

/// All measurements.
pub struct Table {
    pub lines: Vec<Line>,
    one: rayon::ThreadPool,
    two: rayon::ThreadPool,
    filter: Option<String>,
    rounds: usize,
    /// Where inputs go, if other programs take turns.
    peers: Option<PathBuf>,
}

impl Table {
    pub fn new(filter: Option<String>, rounds: usize, peers: Option<PathBuf>) -> Table {
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        if peers.is_none() {
            println!(
                "{:<62}{:>11}{:>11}{:>11}{:>12}{:>9}{:>9}",
                "ms", "by hand", "native", "2 threads", "interpreter", "ratio", "interp."
            );
        }
        Table { lines: Vec::new(), one: pool(1), two: pool(2), filter, rounds, peers }
    }

    /// Whether a workload was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }

    /// Measures a program, simplified, beside hand-written kernels of its value, and of its value and gradient.
    pub fn compare(&mut self, case: Case<'_>, value: Run<'_>, gradient: Run<'_>) -> Result<()> {
        let primal = Function::parse(case.text)?;
        let simple = primal.simplify(&Default::default())?.function;
        let both = primal.value_and_gradient(case.wrt)?;
        if let Some(directory) = &self.peers {
            let native = |function: &Function| case.kernel(function, Engine::Native);
            let kernels = [native(&simple)?, native(&both)?];
            let path = directory.join(format!("{}.npz", case.name));
            peers::write_archive(&path, &kernels[1], case.inputs)?;
            println!("{}", serde_json::json!({ "workload": case.name, "file": path }));
            let [of_value, of_gradient] = kernels.each_ref().map(|kernel| run(kernel, case.data));
            return peers::take_turns(&self.one, &mut [[value, of_value], [gradient, of_gradient]]);
        }
        self.line(case.name.to_owned(), &|engine| case.kernel(&simple, engine), case.data, value)?;
        self.line(format!("{}, with gradient", case.name), &|engine| case.kernel(&both, engine), case.data, gradient)
    }

    /// Measures the value and gradient of a program, of which some results are sparse.
    pub fn compare_sparse(&mut self, case: &Case<'_>, sparse: &[&str], gradient: Run<'_>) -> Result<()> {
        if self.peers.is_some() {
            return Ok(());
        }
        let assembly = Function::parse(case.text)?.value_and_gradient(case.wrt)?.assemble(sparse)?;
        self.line(case.name.to_owned(), &|engine| assembly.bind(case.inputs, engine), case.data, gradient)
    }

    /// Measures the value and gradient of a program over inputs in single precision, beside the same over these numbers in double precision.
    pub fn in_single(&mut self, name: String, function: &Function, inputs: &Inputs) -> Result<()> {
        if self.peers.is_some() {
            return Ok(());
        }
        let single = inputs.in_precision(Precision::Single);
        let double = single.in_precision(Precision::Double);
        let kernel = |inputs: &Inputs, engine| function.kernel(inputs, engine);
        let (wide, native) = (kernel(&double, Engine::Native)?, kernel(&single, Engine::Native)?);
        let interpreter = kernel(&single, Engine::Interpreter)?;
        let leaves = |inputs: &Inputs| -> Result<Vec<Arc<Tensor>>> {
            let bound = bind(&function.tensor_ssa().signature, inputs)?;
            Ok(bound.values().values().flat_map(|value| value.leaves().to_vec()).collect())
        };
        let (double, single) = (leaves(&double)?, leaves(&single)?);
        let narrow = || run_with(&native, &single);
        self.rounds(name, [run_with(&wide, &double), narrow(), narrow(), run_with(&interpreter, &single)]);
        Ok(())
    }

    fn line(&mut self, name: String, kernel: Bind<'_>, data: &[&[f64]], by_hand: Run<'_>) -> Result<()> {
        let native = kernel(Engine::Native)?;
        assert_eq!(native.status(), Status::Native);
        let interpreter = kernel(Engine::Interpreter)?;
        let runs = [by_hand, run(&native, data), run(&native, data), run(&interpreter, data)];
        self.rounds(name, runs);
        Ok(())
    }

    /// A line of the table: a hand-written kernel, native code twice, and the interpreter.
    pub fn rounds(&mut self, name: String, mut runs: [Run<'_>; 4]) {
        let mut times = [const { Vec::<Duration>::new() }; 4];
        let mut values = [0.0; 4];
        for round in 0..self.rounds {
            for (k, ((run, times), value)) in runs.iter_mut().zip(&mut times).zip(&mut values).enumerate() {
                // The interpreter is there for comparison; a few rounds say enough.
                if k == 3 && round >= 3 {
                    continue;
                }
                let pool = if k == 2 { &self.two } else { &self.one };
                let (found, time) = pool.install(|| {
                    let start = Instant::now();
                    (run(), start.elapsed())
                });
                *value = found;
                times.push(time);
            }
        }
        let [by_hand, native, native_two_threads, interpreter] = times.map(|mut times| {
            times.sort();
            1e3 * times[times.len() / 2].as_secs_f64()
        });
        let ratio = native / by_hand;
        println!(
            "{name:<62}{by_hand:>11.3}{native:>11.3}{native_two_threads:>11.3}{interpreter:>12.3}{ratio:>9.2}{:>9.1}",
            interpreter / by_hand
        );
        let scale = values[0].abs().max(1.0);
        assert!(values.iter().all(|x| (x - values[0]).abs() <= 1e-8 * scale), "{name}: {values:?}");
        assert_eq!(values[1].to_bits(), values[2].to_bits(), "{name}: two threads give other bits");
        assert_eq!(values[1].to_bits(), values[3].to_bits(), "{name}: the interpreter gives other bits");
        let workload = name;
        self.lines.push(Line {
            workload,
            by_hand,
            native,
            native_two_threads,
            interpreter,
            native_over_by_hand: ratio,
        });
    }
}

/// A program with its inputs.
pub struct Case<'a> {
    pub name: &'a str,
    pub text: &'a str,
    pub wrt: &'a [&'a str],
    pub inputs: &'a Inputs,
    /// Parameters whose numbers are the same at each call.
    pub constants: &'a [&'a str],
    /// The numbers of the others.
    pub data: &'a [&'a [f64]],
}

impl Case<'_> {
    fn kernel(&self, function: &Function, engine: Engine) -> Result<Kernel> {
        function.kernel_with_constants(self.inputs, self.constants, engine)
    }
}

/// A run of a kernel.
fn run<'a>(kernel: &'a Kernel, data: &'a [&'a [f64]]) -> Run<'a> {
    let leaves = kernel.outputs().iter().flat_map(|o| &o.leaves);
    let mut outputs: Vec<Vec<f64>> = leaves.map(|leaf| vec![0.0; leaf.len()]).collect();
    Box::new(move || {
        let mut slices: Vec<&mut [f64]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        kernel.call_into(data, &mut slices).expect("the inputs fit");
        digest(outputs.iter().map(Vec::as_slice))
    })
}

/// A run of a kernel on leaves in either precision.
fn run_with<'a>(kernel: &'a Kernel, leaves: &'a [Arc<Tensor>]) -> Run<'a> {
    let lengths = kernel.outputs().iter().flat_map(|o| &o.leaves).map(|leaf| leaf.len());
    let mut outputs: Vec<Vec<f64>> = lengths.map(|len| vec![0.0; len]).collect();
    Box::new(move || {
        let inputs: Vec<Input<'_>> = leaves.iter().map(|leaf| leaf.numbers().into()).collect();
        let mut slices: Vec<SliceMut<'_>> = outputs.iter_mut().map(SliceMut::from).collect();
        kernel.call_with(&inputs, &mut slices).expect("the inputs fit");
        digest(outputs.iter().map(Vec::as_slice))
    })
}

/// The absolute values of some results.
pub fn digest<'a>(outputs: impl IntoIterator<Item = &'a [f64]>) -> f64 {
    outputs.into_iter().map(|x| x.iter().step_by(97).map(|x| x.abs()).sum::<f64>()).sum()
}

pub fn random(len: usize, seed: u64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| rng.f64() * 2.0 - 1.0).collect()
}

/// A sparse matrix with about so many entries in each row.
pub fn sparse(rows: usize, cols: usize, each: usize, seed: u64) -> Csr {
    with_rows(rows, cols, seed, |_| each)
}

/// A sparse matrix with about so many entries in a row in the mean: half of the rows have at most half of that, few have hundreds of times as
/// many.
pub fn by_power_law(rows: usize, cols: usize, each: usize, seed: u64) -> Csr {
    with_rows(rows, cols, seed, |rng| {
        ((each as f64 / 3.0 / rng.f64().max(1e-9).powf(2.0 / 3.0)) as usize).clamp(1, cols)
    })
}

fn with_rows(rows: usize, cols: usize, seed: u64, each: impl Fn(&mut fastrand::Rng) -> usize) -> Csr {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut indptr, mut indices) = (vec![0], Vec::new());
    for _ in 0..rows {
        let each = each(&mut rng);
        let mut row: Vec<u32> = (0..each).map(|_| rng.u32(0..cols as u32)).collect();
        row.sort_unstable();
        row.dedup();
        indices.extend(row);
        indptr.push(indices.len());
    }
    let data = random(indices.len(), seed + 1);
    Csr::new(rows, cols, indptr, indices, data).expect("sorted and in range")
}

/// Eight numbers.
pub type Lanes = V<8>;

/// `a * b + c`, one instruction where the processor has it.
#[inline(always)]
pub fn fused(a: Lanes, b: Lanes, c: Lanes) -> Lanes {
    V(std::array::from_fn(|l| a.0[l].mul_add(b.0[l], c.0[l])))
}

/// The eight numbers from a place on.
#[inline(always)]
pub fn lanes(x: &[f64], at: usize) -> Lanes {
    V(*x[at..].first_chunk().expect("eight numbers"))
}

/// The sum of products, with four vectors of partial sums.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut sums = [Lanes::splat(0.0); 4];
    let (a_blocks, b_blocks) = (a.chunks_exact(32), b.chunks_exact(32));
    let (a_rest, b_rest) = (a_blocks.remainder().chunks_exact(8), b_blocks.remainder().chunks_exact(8));
    let rest: f64 = a_rest.remainder().iter().zip(b_rest.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_blocks.zip(b_blocks) {
        for (c, sum) in sums.iter_mut().enumerate() {
            *sum = fused(lanes(x, 8 * c), lanes(y, 8 * c), *sum);
        }
    }
    for (x, y) in a_rest.zip(b_rest) {
        sums[0] = fused(lanes(x, 0), lanes(y, 0), sums[0]);
    }
    ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum() + rest
}

/// `y += s * x`
#[inline(always)]
pub fn add_scaled(y: &mut [f64], s: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = s.mul_add(*x, *y));
}

/// The sum of `values[k] * x[columns[k]]`.
#[inline(always)]
pub fn gathered(columns: &[u32], values: &[f64], x: &[f64]) -> f64 {
    let (column_blocks, value_blocks) = (columns.chunks_exact(8), values.chunks_exact(8));
    let rest = column_blocks.remainder().iter().zip(value_blocks.remainder());
    let rest: f64 = rest.map(|(j, v)| v * x[*j as usize]).sum();
    let mut sum = Lanes::splat(0.0);
    for (j, v) in column_blocks.zip(value_blocks) {
        sum = fused(lanes(v, 0), V(std::array::from_fn(|l| x[j[l] as usize])), sum);
    }
    sum.sum() + rest
}

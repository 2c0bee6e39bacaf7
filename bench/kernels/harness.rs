//! Interleaved timing, the table, and the inputs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iverson::kernel::{Engine, Input, Kernel, Status};
use iverson::tensor::{Csr, Inputs, Precision, SliceMut, Tensor, bind};
use iverson::{Function, Result};
use serde::Serialize;

use crate::peers;

/// What is timed: it writes all its results, in the order of the leaves of the kernel's.
pub type Run<'a> = Box<dyn FnMut(&mut [Vec<f64>]) + Send + 'a>;

/// A run with the memory of its results.
pub struct Timed<'a> {
    run: Run<'a>,
    results: Vec<Vec<f64>>,
}

impl<'a> Timed<'a> {
    /// Results of so many numbers each; they are NaN until they are written.
    pub fn new(run: Run<'a>, lengths: &[usize]) -> Timed<'a> {
        Timed { run, results: lengths.iter().map(|len| vec![f64::NAN; *len]).collect() }
    }

    pub fn call(&mut self) {
        (self.run)(&mut self.results);
    }

    fn numbers(&self) -> impl Iterator<Item = &f64> {
        self.results.iter().flatten()
    }
}

/// Compares all numbers: each may differ by 1e-9 of the largest one of its result.
pub fn assert_close(name: &str, ours: &Timed<'_>, by_hand: &Timed<'_>) {
    for (leaf, (x, y)) in ours.results.iter().zip(&by_hand.results).enumerate() {
        let scale = y.iter().fold(0.0_f64, |scale, y| scale.max(y.abs()));
        for (k, (x, y)) in x.iter().zip(y).enumerate() {
            assert!((x - y).abs() <= 1e-9 * scale, "{name}: number {k} of result {leaf} is {x}, and {y} by hand");
        }
    }
}

/// Compares all numbers bit by bit.
fn assert_same(name: &str, ours: &Timed<'_>, other: &Timed<'_>, who: &str) {
    let same = ours.numbers().zip(other.numbers()).all(|(x, y)| x.to_bits() == y.to_bits());
    assert!(same, "{name}: {who} gives other bits");
}

/// What binds a kernel for an engine.
type Bind<'a> = &'a dyn Fn(Engine) -> Result<Kernel>;

/// A line of the table; times are medians in milliseconds.
#[derive(Serialize)]
pub struct Line {
    pub family: &'static str,
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
    /// The family of the lines that come next.
    pub family: &'static str,
    one: rayon::ThreadPool,
    two: rayon::ThreadPool,
    filter: Option<String>,
    rounds: usize,
    /// Where inputs go, if other programs take turns.
    peers: Option<PathBuf>,
    /// What is done with a program and its value with gradient instead, if anything is.
    instead: Option<Instead>,
}

/// Does something else with a program, simplified, and with its value and gradient.
pub type Instead = Box<dyn FnMut(&Case<'_>, [&Function; 2]) -> Result<()>>;

impl Table {
    pub fn new(filter: Option<String>, rounds: usize, peers: Option<PathBuf>, instead: Option<Instead>) -> Table {
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        if peers.is_none() && instead.is_none() {
            println!(
                "{:<62}{:>11}{:>11}{:>11}{:>12}{:>9}{:>9}",
                "ms", "by hand", "native", "2 threads", "interpreter", "ratio", "interp."
            );
        }
        Table { lines: Vec::new(), family: "", one: pool(1), two: pool(2), filter, rounds, peers, instead }
    }

    /// Whether a workload was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }

    /// Measures a program, simplified, beside hand-written kernels of its value, and of its value and gradient.
    pub fn compare(&mut self, case: Case<'_>, value: Run<'_>, gradient: Run<'_>) -> Result<()> {
        let primal = Function::parse(case.text)?;
        let simple = primal.simplify()?;
        let both = primal.value_and_gradient(case.wrt)?;
        if let Some(instead) = &mut self.instead {
            return instead(&case, [&simple, &both]);
        }
        if let Some(directory) = &self.peers {
            let native = |function: &Function| case.kernel(function, Engine::Native);
            let kernels = [native(&simple)?, native(&both)?];
            let path = directory.join(format!("{}.npz", case.name));
            peers::write_archive(&path, &kernels[1], case.inputs)?;
            println!("{}", serde_json::json!({ "workload": case.name, "file": path }));
            let mut pairs = [(value, &kernels[0]), (gradient, &kernels[1])].map(|(by_hand, kernel)| {
                let lengths = lengths(kernel);
                [Timed::new(by_hand, &lengths), Timed::new(run(kernel, case.data), &lengths)]
            });
            for [by_hand, ours] in &mut pairs {
                by_hand.call();
                ours.call();
                assert_close(case.name, ours, by_hand);
            }
            return peers::take_turns(&self.one, &mut pairs);
        }
        self.line(case.name.to_owned(), &|engine| case.kernel(&simple, engine), case.data, value)?;
        self.line(format!("{}, with gradient", case.name), &|engine| case.kernel(&both, engine), case.data, gradient)
    }

    /// Measures the value and gradient of a program, of which some results are sparse.
    pub fn compare_sparse(&mut self, case: &Case<'_>, sparse: &[&str], gradient: Run<'_>) -> Result<()> {
        if self.peers.is_some() || self.instead.is_some() {
            return Ok(());
        }
        let assembly = Function::parse(case.text)?.value_and_gradient(case.wrt)?.assemble(sparse)?;
        self.line(case.name.to_owned(), &|engine| assembly.bind(case.inputs, engine), case.data, gradient)
    }

    /// Measures the value and gradient of a program over inputs in single precision, beside the same over these numbers in double precision.
    pub fn in_single(&mut self, name: String, function: &Function, inputs: &Inputs) -> Result<()> {
        if self.peers.is_some() || self.instead.is_some() {
            return Ok(());
        }
        let single = inputs.in_precision(Precision::Single);
        let double = single.in_precision(Precision::Double);
        let kernel = |inputs: &Inputs, engine| function.kernel(inputs).engine(engine).build();
        let (wide, native) = (kernel(&double, Engine::Native)?, kernel(&single, Engine::Native)?);
        let interpreter = kernel(&single, Engine::Interpreter)?;
        let leaves = |inputs: &Inputs| -> Result<Vec<Arc<Tensor>>> {
            let bound = bind(&function.tensor_ssa().signature, inputs)?;
            Ok(bound.values().values().flat_map(|value| value.leaves().to_vec()).collect())
        };
        let (double, single) = (leaves(&double)?, leaves(&single)?);
        let narrow = || run_with(&native, &single);
        let runs = [run_with(&wide, &double), narrow(), narrow(), run_with(&interpreter, &single)];
        self.rounds(name, &lengths(&native), runs);
        Ok(())
    }

    /// Prints the median and the largest ratio of native code over code by hand, by family, and of all lines that take a millisecond or more.
    pub fn summary(&self) {
        println!("\n{:<62}{:>11}{:>11}{:>11}  worst on", "native over by hand", "lines", "median", "worst");
        let mut families: Vec<&str> = self.lines.iter().map(|line| line.family).collect();
        families.dedup();
        for family in families {
            summarise(family, self.lines.iter().filter(|line| line.family == family));
        }
        summarise("all that take 1 ms or more", self.lines.iter().filter(|line| line.native >= 1.0));
    }

    fn line(&mut self, name: String, kernel: Bind<'_>, data: &[&[f64]], by_hand: Run<'_>) -> Result<()> {
        let native = kernel(Engine::Native)?;
        assert_eq!(native.status(), Status::Native);
        let interpreter = kernel(Engine::Interpreter)?;
        let runs = [by_hand, run(&native, data), run(&native, data), run(&interpreter, data)];
        self.rounds(name, &lengths(&native), runs);
        Ok(())
    }

    /// A line of the table: a hand-written kernel, native code twice, and the interpreter, whose results have so many numbers each.
    pub fn rounds(&mut self, name: String, lengths: &[usize], runs: [Run<'_>; 4]) {
        let mut runs = runs.map(|run| Timed::new(run, lengths));
        let mut times = [const { Vec::<Duration>::new() }; 4];
        for round in 0..self.rounds {
            for (k, (run, times)) in runs.iter_mut().zip(&mut times).enumerate() {
                // The interpreter is there for comparison; a few rounds say enough.
                if k == 3 && round >= 3 {
                    continue;
                }
                let pool = if k == 2 { &self.two } else { &self.one };
                times.push(pool.install(|| {
                    let start = Instant::now();
                    run.call();
                    start.elapsed()
                }));
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
        let [hand, one, two, interpreted] = &runs;
        assert_close(&name, one, hand);
        assert_same(&name, one, two, "the kernel on two threads");
        assert_same(&name, one, interpreted, "the interpreter");
        let workload = name;
        self.lines.push(Line {
            family: self.family,
            workload,
            by_hand,
            native,
            native_two_threads,
            interpreter,
            native_over_by_hand: ratio,
        });
    }
}

fn summarise<'a>(what: &str, lines: impl Iterator<Item = &'a Line>) {
    let mut lines: Vec<&Line> = lines.collect();
    lines.sort_by(|a, b| a.native_over_by_hand.total_cmp(&b.native_over_by_hand));
    if let Some(worst) = lines.last() {
        let (count, ratio) = (lines.len(), |line: &Line| line.native_over_by_hand);
        let median = (ratio(lines[(count - 1) / 2]) + ratio(lines[count / 2])) / 2.0;
        println!("{what:<62}{count:>11}{median:>11.2}{:>11.2}  {}", ratio(worst), worst.workload);
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
        function.kernel(self.inputs).constants(self.constants).engine(engine).build()
    }
}

/// A run of a kernel.
pub fn run<'a>(kernel: &'a Kernel, data: &'a [&'a [f64]]) -> Run<'a> {
    Box::new(move |results| {
        let mut slices: Vec<&mut [f64]> = results.iter_mut().map(Vec::as_mut_slice).collect();
        kernel.call_into(data, &mut slices).expect("the inputs fit");
    })
}

/// A run of a kernel on leaves in either precision.
fn run_with<'a>(kernel: &'a Kernel, leaves: &'a [Arc<Tensor>]) -> Run<'a> {
    Box::new(move |results| {
        let inputs: Vec<Input<'_>> = leaves.iter().map(|leaf| leaf.numbers().into()).collect();
        let mut slices: Vec<SliceMut<'_>> = results.iter_mut().map(SliceMut::from).collect();
        kernel.call_into(&inputs, &mut slices).expect("the inputs fit");
    })
}

/// How many numbers each result of a kernel has.
pub fn lengths(kernel: &Kernel) -> Vec<usize> {
    kernel.outputs().iter().flat_map(|o| &o.leaves).map(|leaf| leaf.len()).collect()
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

//! What each pass over loops gains: `cargo bench --bench ablation -- [WORKLOAD] [--large]`.
//!
//! For each workload of the bench `kernels`, its value, and its value with its gradient: native code of all passes, and of all but one, for each
//! pass that changes something, in turn, round after round on one thread. The ratio is the time without the pass over the time with it, of medians;
//! above 1 the pass gains. The tables are those of `bench/README.md`.

// The kernels by hand are there for the other bench.
#![allow(dead_code)]

#[path = "../kernels/convolution.rs"]
mod convolution;
#[path = "../kernels/factorisation.rs"]
mod factorisation;
#[path = "../kernels/gemm.rs"]
mod gemm;
#[path = "../kernels/harness.rs"]
mod harness;
#[path = "../kernels/merging.rs"]
mod merging;
#[path = "../kernels/mixture.rs"]
mod mixture;
#[path = "../kernels/network.rs"]
mod network;
#[path = "../kernels/peers.rs"]
mod peers;
#[path = "../kernels/regression.rs"]
mod regression;
#[path = "../kernels/simd.rs"]
mod simd;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iverson::ir::schedule::PASSES;
use iverson::ir::stages::Stages;
use iverson::ir::{loops, lower, prepare};
use iverson::kernel::{Engine, Kernel};
use iverson::{Function, Result};

use harness::{Case, Table, Timed, assert_close, lengths, run};

const ROUNDS: usize = 9;

/// A workload without each of the passes that change it.
struct Without {
    workload: String,
    /// With all passes.
    milliseconds: f64,
    /// The time without a pass over that with all.
    ratios: BTreeMap<&'static str, f64>,
}

fn main() -> Result<()> {
    let (mut filter, mut large) = (None, false);
    for arg in std::env::args().skip(1).filter(|arg| arg != "--bench") {
        match arg.as_str() {
            "--large" => large = true,
            _ => filter = Some(arg),
        }
    }
    let rows = Rc::new(RefCell::new(Vec::new()));
    let found = Rc::clone(&rows);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let instead = move |case: &Case<'_>, [value, both]: [&Function; 2]| {
        // What is split by constants is scheduled before.
        if case.constants.is_empty() {
            for (name, function) in [(case.name.to_owned(), value), (format!("{}, with gradient", case.name), both)] {
                found.borrow_mut().push(without_each(name, function, case, &pool)?);
            }
        }
        Ok(())
    };
    let mut table = Table::new(filter, ROUNDS, None, Some(Box::new(instead)));
    if large {
        convolution::large(&mut table)?;
        regression::large(&mut table)?;
        factorisation::large(&mut table)?;
        mixture::large(&mut table)?;
    } else {
        convolution::run(&mut table)?;
        regression::run(&mut table)?;
        factorisation::run(&mut table)?;
        network::run(&mut table)?;
        mixture::run(&mut table)?;
        merging::run(&mut table)?;
    }
    print(&rows.borrow());
    Ok(())
}

/// Measures a program scheduled by all passes, and by all but one, for each that changes it.
fn without_each(workload: String, function: &Function, case: &Case<'_>, pool: &rayon::ThreadPool) -> Result<Without> {
    let prepared = prepare::prepare(function.tensor_ssa(), &mut Stages::new())?;
    let lowered = lower::lower(&prepared.program)?;
    let scheduled = |without: &str| -> Result<loops::Program> {
        let mut passes = PASSES.iter().filter(|pass| pass.name != without);
        passes.try_fold(lowered.clone(), |program, pass| pass.apply(program))
    };
    let bind = |program: loops::Program| Kernel::bind(Arc::new(program), case.inputs, Engine::Native);
    let whole = scheduled("")?;
    let mut kernels: Vec<(&'static str, Kernel)> = Vec::new();
    for pass in PASSES {
        let program = scheduled(pass.name)?;
        if program.nests != whole.nests {
            kernels.push((pass.name, bind(program)?));
        }
    }
    let whole = bind(whole)?;
    let timed = |kernel| Timed::new(run(kernel, case.data), &lengths(kernel));
    let mut runs: Vec<Timed<'_>> = std::iter::once(&whole).chain(kernels.iter().map(|(_, k)| k)).map(timed).collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); runs.len()];
    for _ in 0..ROUNDS {
        for (run, times) in runs.iter_mut().zip(&mut times) {
            times.push(pool.install(|| milliseconds(run)));
        }
    }
    let (first, others) = runs.split_first().expect("there is the one of all passes");
    others.iter().for_each(|other| assert_close(&workload, other, first));
    let mut medians = times.into_iter().map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let milliseconds = medians.next().expect("there is the one of all passes");
    let ratios = kernels.iter().zip(medians).map(|((name, _), time)| (*name, time / milliseconds)).collect();
    eprintln!("{workload}: {milliseconds:.3} ms {ratios:.2?}");
    Ok(Without { workload, milliseconds, ratios })
}

/// The time of a call; short ones are repeated for a millisecond.
fn milliseconds(run: &mut Timed<'_>) -> f64 {
    let (start, mut calls) = (Instant::now(), 0);
    while calls == 0 || start.elapsed() < Duration::from_millis(1) {
        run.call();
        calls += 1;
    }
    1e3 * start.elapsed().as_secs_f64() / f64::from(calls)
}

fn print(rows: &[Without]) {
    println!("| pass | changes | time without it over time with it: median, best, worst | best on |");
    println!("|---|---|---|---|");
    for pass in PASSES {
        let mut ratios: Vec<(f64, &str)> =
            rows.iter().filter_map(|row| Some((*row.ratios.get(pass.name)?, row.workload.as_str()))).collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(worst), Some(best)) = (ratios.first(), ratios.last()) else {
            println!("| `{}` | 0 of {} | | |", pass.name, rows.len());
            continue;
        };
        let median = ratios[ratios.len() / 2].0;
        println!(
            "| `{}` | {} of {} | {median:.2}, {:.2}, {:.2} | {} |",
            pass.name,
            ratios.len(),
            rows.len(),
            best.0,
            worst.0,
            best.1
        );
    }
    let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
    println!("\n| workload | ms | {} |", names.join(" | "));
    println!("|---|---{}|", "|---".repeat(names.len()));
    for Without { workload, milliseconds, ratios } in rows {
        let cell =
            |ratios: &BTreeMap<&str, f64>, name: &str| ratios.get(name).map_or_else(String::new, |r| format!("{r:.2}"));
        let cells: Vec<String> = names.iter().map(|name| cell(ratios, name)).collect();
        println!("| {workload} | {milliseconds:.3} | {} |", cells.join(" | "));
    }
}

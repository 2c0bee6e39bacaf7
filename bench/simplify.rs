//! What simplification takes, for each program of `tests/programs` and its derivative: `cargo bench --bench simplify`, or of those with
//! a word in their names: `cargo bench --bench simplify -- k13`.
//!
//! The derivative is the gradient by all parameters, or the adjoint where there are several results. Times are medians of five runs.

use std::path::Path;
use std::time::{Duration, Instant};

use iverson::ir::simplify::{Options, simplify};
use iverson::ir::tssa::Program;
use iverson::{Function, Mode, Request};

const RUNS: usize = 5;

/// What each should take at most.
const TARGET: Duration = Duration::from_millis(50);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files: Vec<_> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"))?
        .map(|file| Ok(file?.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    println!("{:<44}{:>7}{:>9}{:>8}{:>9}{:>9}  stop", "", "nodes", "classes", "rounds", "matches", "ms");
    let (mut all, mut slow) = (0, 0);
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let primal = Function::parse(&std::fs::read_to_string(&file)?)?;
        let names: Vec<String> = primal.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
        let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
        let derive = |mode| primal.derive(&Request::new(mode, &wrt).raw());
        let derivative = derive(Mode::Gradient).or_else(|_| derive(Mode::Adjoint))?.function;
        for (what, function) in [("", &primal), (", derivative", &derivative)] {
            let time = measure(&format!("{name}{what}"), function.tensor_ssa())?;
            (all, slow) = (all + 1, slow + usize::from(time > TARGET));
        }
    }
    println!("{slow} of {all} take more than {} ms", TARGET.as_millis());
    Ok(())
}

/// Prints a line of the table, and gives the median.
fn measure(name: &str, program: &Program) -> iverson::Result<Duration> {
    let options = Options::default();
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let start = Instant::now();
        simplify(program, &options)?;
        times.push(start.elapsed());
    }
    times.sort();
    let median = times.get(RUNS / 2).copied().unwrap_or_default();
    let report = simplify(program, &options)?.report;
    println!(
        "{name:<44}{:>7}{:>9}{:>8}{:>9}{:>9.1}  {:?}",
        report.nodes,
        report.classes,
        report.rounds,
        report.matches,
        1e3 * median.as_secs_f64(),
        report.stop
    );
    Ok(median)
}

//! From text to something that can be called: `cargo bench --bench latency`, or of programs with a word in their names:
//! `cargo bench --bench latency -- k03`.
//!
//! For each program of `tests/programs`, with its gradient by all parameters, or its adjoint where there are several results: reading it,
//! with all checks, up to Tensor-SSA; differentiating and simplifying; loop nests, after which the interpreter can run; and native code,
//! which `rustc` compiles in the background meanwhile, without its cache. Milliseconds, medians of five runs, one run of `rustc`.

use std::path::Path;
use std::time::{Duration, Instant};

use iverson::ir::codegen::compile::{Library, library};
use iverson::ir::codegen::source::{Target, source};
use iverson::ir::loops;
use iverson::ir::stages::Stages;
use iverson::{Function, Mode, Request};

const RUNS: usize = 5;

/// What it should take until the interpreter can run.
const TARGET: Duration = Duration::from_millis(50);

/// The times of one way from the text to loop nests.
struct Run {
    parts: [Duration; 4],
    loops: loops::Program,
}

fn compile(text: &str) -> iverson::Result<Run> {
    let start = Instant::now();
    let primal = Function::parse(text)?;
    let parsed = start.elapsed();
    let names: Vec<String> = primal.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    let derive = |mode| primal.derive(&Request { with_value: true, ..Request::new(mode, &wrt).raw() });
    let raw = derive(Mode::Gradient).or_else(|_| derive(Mode::Adjoint))?.function;
    let derived = start.elapsed();
    let function = raw.simplify()?;
    let simplified = start.elapsed();
    let loops = function.loops(&mut Stages::new())?;
    let lowered = start.elapsed();
    Ok(Run { parts: [parsed, derived - parsed, simplified - derived, lowered - simplified], loops })
}

/// Takes a library out of the cache.
fn remove(library: &Library) -> Result<(), String> {
    library.kept().map_or(Ok(()), |path| std::fs::remove_file(path).map_err(|error| error.to_string()))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files: Vec<_> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"))?
        .map(|file| Ok(file?.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    println!(
        "{:<32}{:>9}{:>9}{:>10}{:>9}{:>9}{:>10}",
        "milliseconds", "read", "derive", "simplify", "loops", "in all", "rustc"
    );
    let (mut all, mut slow) = (0, 0);
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let text = std::fs::read_to_string(&file)?;
        let runs = (0..RUNS).map(|_| compile(&text)).collect::<iverson::Result<Vec<_>>>()?;
        let parts: Vec<Duration> =
            (0..4).map(|part| median(runs.iter().map(|run| run.parts[part]).collect())).collect();
        let total = median(runs.iter().map(|run| run.parts.iter().sum()).collect());
        (all, slow) = (all + 1, slow + usize::from(total > TARGET));
        let start = Instant::now();
        let native = match runs.first().map(|run| source(&run.loops, Target::Library)).transpose()? {
            Some(source) => {
                // A source that the cache does not know.
                let made = library(&format!("{}\n// {start:?}\n", source.text));
                let time = start.elapsed();
                made.map_err(|why| why.to_string()).and_then(|library| remove(&library).map(|()| time))
            }
            None => Err("it was not compiled".to_owned()),
        };
        let ms = |time: &Duration| 1e3 * time.as_secs_f64();
        print!("{name:<32}");
        let widths = [9, 9, 10, 9];
        parts.iter().zip(widths).for_each(|(part, width)| print!("{:>width$.1}", ms(part)));
        match native {
            Ok(time) => println!("{:>9.1}{:>10.0}", ms(&total), ms(&time)),
            Err(why) => println!("{:>9.1}  {why}", ms(&total)),
        }
    }
    println!("{slow} of {all} take more than {} ms until the interpreter can run", TARGET.as_millis());
    Ok(())
}

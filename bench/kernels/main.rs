//! Kernels beside hand-written ones.
//!
//! ```text
//! RUSTFLAGS="-C target-cpu=native -C target-feature=-prefer-256-bit" cargo bench --bench kernels -- [WORKLOAD] [--large] [--json FILE] [--peers DIR]
//! ```
//!
//! The flags let `rustc` use the same instructions for both, and nothing is measured without them; without a file, results go to
//! `target/kernels.json`. For each workload, its value, and its value with its gradient: a hand-written kernel, native code on one and on two
//! threads, and the interpreter, in turn, round after round; times are medians, and the ratio is native on one thread over hand-written. The
//! hand-written kernels are what an expert writes: fused, in vectors whose instructions are called by name, in tiles that stay in registers, with
//! indices of 32 bits, nothing allocated while it is timed, on one thread, so they add to memory where that saves a pass. All numbers are compared
//! with those by hand. At the end stand the median and the worst ratio of each family, and of all lines that take a millisecond or more.
//!
//! The programs of the later families are in `bench/programs`, written as a user would, and tuned for nothing; loops over time are in `tests/flows`.
//!
//! Where a name says `constant`, the numbers of these parameters are bound with the kernel, and the kernel by hand has what depends on them alone, such
//! as a transposed copy, beforehand.
//!
//! `--large` takes the largest sizes instead, for which all of it takes a quarter of an hour and a few gigabytes.
//!
//! `--peers` is for `bench/peers/run.py`: it writes inputs and results of each workload to a directory, and measures when it is asked to.

mod bodies;
mod chains;
mod convolution;
mod factorisation;
mod filters;
mod gemm;
mod geometry;
mod graphs;
mod growth;
mod harness;
mod layers;
mod matrices;
mod merging;
mod mixture;
mod network;
mod peers;
mod pictures;
mod polybench;
mod products;
mod program;
mod recurrences;
mod regression;
mod simd;
mod statistics;
mod stencils;
mod tables;

use std::path::PathBuf;

use iverson::Result;

/// How the kernels by hand must be compiled: native ones are compiled so.
const FLAGS: [&str; 2] = ["target-cpu=native", "-prefer-256-bit"];

/// Measures the workloads of a family.
type Family = fn(&mut harness::Table) -> Result<()>;

/// Families that `bench/peers` has too.
const PEERS: [(&str, Family); 5] = [
    ("deconvolution", convolution::run),
    ("sparse regression", regression::run),
    ("factorisation", factorisation::run),
    ("networks", network::run),
    ("mixture", mixture::run),
];

/// The others.
const OTHERS: [(&str, Family); 14] = [
    ("merging", merging::run),
    ("PolyBench", polybench::run),
    ("products", products::run),
    ("stencils", stencils::run),
    ("pictures", pictures::run),
    ("layers", layers::run),
    ("filters", filters::run),
    ("statistics", statistics::run),
    ("tables", tables::run),
    ("graphs", graphs::run),
    ("geometry", geometry::run),
    ("pairs", bodies::run),
    ("chains and tensors", chains::run),
    ("loops over time", recurrences::run),
];

fn main() -> Result<()> {
    let flags = option_env!("RUSTFLAGS").unwrap_or_default();
    if cfg!(target_arch = "x86_64") && !FLAGS.iter().all(|flag| flags.contains(flag)) {
        eprintln!("the kernels by hand are not compiled for this processor, so no ratio would be fair; set");
        eprintln!("RUSTFLAGS=\"-C target-cpu=native -C target-feature=-prefer-256-bit\"");
        std::process::exit(2);
    }
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (mut filter, mut peers, mut large, mut path) =
        (None, None, false, concat!(env!("CARGO_MANIFEST_DIR"), "/target/kernels.json").to_owned());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--peers" => peers = args.next().map(PathBuf::from),
            "--large" => large = true,
            "--json" => path = args.next().unwrap_or(path),
            name => filter = Some(name.to_owned()),
        }
    }
    let turns = peers.is_some();
    let mut table = harness::Table::new(filter, 7, peers, None);
    if large {
        convolution::large(&mut table)?;
        regression::large(&mut table)?;
        factorisation::large(&mut table)?;
        mixture::large(&mut table)?;
        matrices::large(&mut table)?;
        return write(&path, &serde_json::json!({ "kernels": table.lines }));
    }
    for (family, run) in PEERS {
        table.family = family;
        run(&mut table)?;
    }
    if turns {
        return Ok(());
    }
    for (family, run) in OTHERS {
        table.family = family;
        run(&mut table)?;
    }
    table.family = "matrices of derivatives";
    let bindings = matrices::run(&mut table)?;
    table.summary();
    let growth = growth::run(&mut table)?;
    write(&path, &serde_json::json!({ "kernels": table.lines, "growth": growth, "bindings": bindings }))
}

fn write(path: &str, results: &serde_json::Value) -> Result<()> {
    match std::fs::write(path, format!("{results:#}\n")) {
        Ok(()) => println!("\n{path}"),
        Err(error) => eprintln!("{path}: {error}"),
    }
    Ok(())
}

//! The examples reach what they promise, and the README shows what the tool prints.

use std::fs;
use std::path::Path;
use std::process::Command;

/// An example is a program of its own, so here its `main` has no caller, and what several share is there several times.
macro_rules! examples {
    ($($name:ident $path:literal),* $(,)?) => {$(
        #[path = $path]
        #[allow(dead_code, clippy::duplicate_mod)]
        mod $name;
    )*};
}

examples! {
    builder "../../examples/builder.rs",
    deblur "../../examples/deblur.rs",
    deconvolution "../../examples/deconvolution.rs",
    every_stage "../../examples/every_stage.rs",
    gaussian_process "../../examples/gaussian_process.rs",
    graph_denoising "../../examples/graph_denoising.rs",
    heat "../../examples/heat.rs",
    logistic_regression "../../examples/logistic_regression.rs",
    methods "../../examples/methods.rs",
    mixture "../../examples/mixture.rs",
    network "../../examples/network.rs",
    pathological "../../examples/pathological.rs",
    populations "../../examples/populations.rs",
    ratings "../../examples/ratings.rs",
    river "../../examples/river.rs",
    table "../../examples/table.rs",
    sparse_logistic_regression "../../examples/sparse_logistic_regression.rs",
    text "../../examples/text.rs",
}

fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).expect("examples print text")
}

#[test]
fn deconvolution_recovers_the_kernel() {
    let fit = deconvolution::run(&mut Vec::new()).expect("the example runs");
    let (first, last) = (fit.losses[0], fit.losses[fit.losses.len() - 1]);
    assert!(last < 1e-18 * first, "the loss fell from {first} to {last}");
    assert!(fit.max_error < 1e-8, "a weight is wrong by {}", fit.max_error);
}

#[test]
fn table_is_fitted_through_code_from_outside() {
    let (first, last) = table::run(&mut Vec::new()).expect("the example runs");
    assert!(first > 0.4 && last < 0.02, "the loss fell from {first} to {last}");
}

#[test]
fn logistic_regression_learns() {
    let fit = logistic_regression::run(&mut Vec::new()).expect("the example runs");
    let (first, last) = (fit.losses[0], fit.losses[fit.losses.len() - 1]);
    assert!((first - f64::ln(2.0)).abs() < 1e-12, "weights 0 give the loss ln 2, found {first}");
    assert!(last < 0.1, "the loss fell to {last} only");
    assert!(fit.accuracy > 0.98, "the accuracy is {}", fit.accuracy);
}

#[test]
fn sparse_logistic_regression_keeps_the_pattern() {
    let fit = sparse_logistic_regression::run(&mut Vec::new()).expect("the example runs");
    let (first, last) = (fit.losses[0], fit.losses[fit.losses.len() - 1]);
    assert!(last < 0.1 * first, "the loss fell from {first} to {last} only");
    assert!(fit.same_pattern);
    assert_eq!(fit.stored, 9634);
}

#[test]
fn ratings_are_predicted() {
    let fit = ratings::run(&mut Vec::new()).expect("the example runs");
    let (around, predicted) = fit.squares;
    assert!(fit.losses[fit.losses.len() - 1] < 0.1 * fit.losses[0]);
    // The noise is 0.1, so no prediction is much better than that.
    assert!(around > 0.5 && predicted < 0.02, "the squares are {around} and {predicted}");
}

#[test]
fn mixture_finds_the_clusters() {
    let fit = mixture::run(&mut Vec::new()).expect("the example runs");
    assert!(fit.losses[fit.losses.len() - 1] < fit.losses[0]);
    assert!(fit.furthest < 0.3, "a mean is {} from that of its cluster", fit.furthest);
}

#[test]
fn deblur_sharpens() {
    let fit = deblur::run(&mut Vec::new()).expect("the example runs");
    let (before, after) = fit.errors;
    assert!(after < 0.3 * before, "the mean squares of the errors are {before} and {after}");
}

#[test]
fn graph_denoising_takes_the_noise_out() {
    let fit = graph_denoising::run(&mut Vec::new()).expect("the example runs");
    let (before, after) = fit.errors;
    assert!(3.0 * after < before, "the mean squares of the errors are {before} and {after}");
}

#[test]
fn network_learns_the_spiral() {
    let fit = network::run(&mut Vec::new()).expect("the example runs");
    assert!(fit.losses[fit.losses.len() - 1] < 0.1, "the loss fell to {} only", fit.losses[fit.losses.len() - 1]);
    assert!(fit.accuracy > 0.97, "the accuracy is {}", fit.accuracy);
}

#[test]
fn gaussian_process_finds_the_noise() {
    let fit = gaussian_process::run(&mut Vec::new()).expect("the example runs");
    let noise = fit.found[2];
    assert!((noise - 0.2).abs() < 0.05, "the noise is 0.2, found {noise}");
}

#[test]
fn text_is_learnt_by_heart() {
    let fit = text::run(&mut Vec::new()).expect("the example runs");
    assert!(fit.losses[fit.losses.len() - 1] < 0.1 * fit.losses[0]);
    assert!(fit.right > 0.9, "{} of the letters are right", fit.right);
}

#[test]
fn populations_follow_the_pelts() {
    let fit = populations::run(&mut Vec::new()).expect("the example runs");
    // Those of Carpenter, "Predator-Prey Population Dynamics: the Lotka-Volterra model in Stan", 2018, which have priors.
    for (found, expected) in fit.rates.iter().zip([0.545, 0.028, 0.024, 0.803]) {
        assert!((found / expected - 1.0).abs() < 0.05, "a rate is {found}, and {expected} is expected");
    }
}

#[test]
fn river_finds_the_variances() {
    let fit = river::run(&mut Vec::new()).expect("the example runs");
    for (found, expected) in fit.variances.iter().zip([1469.1, 15098.5]) {
        assert!((found / expected - 1.0).abs() < 2e-4, "a variance is {found}, and {expected} is expected");
    }
}

#[test]
fn heat_runs_backwards() {
    let fit = heat::run(&mut Vec::new()).expect("the example runs");
    let (before, after) = fit.errors;
    assert!(after < 0.4 * before, "the mean squares of the errors are {before} and {after}");
}

#[test]
fn pathological_programs_stay_cheap() {
    let costs = pathological::run(&mut Vec::new()).expect("the example runs");
    assert_eq!(costs.len(), 7);
    for cost in costs.iter().flatten() {
        let pathological::Cost { primal, derivative } = cost;
        assert!(*derivative <= 4 * primal, "the derivative takes {derivative} operations and the program {primal}");
    }
}

#[test]
fn methods_agree() {
    let rows = methods::run(&mut Vec::new()).expect("the example runs");
    let mut programs: Vec<&str> = rows.iter().map(|row| row.program).collect();
    programs.dedup();
    assert_eq!(programs.len(), 10);
    for program in programs {
        let rows: Vec<&methods::Row> = rows.iter().filter(|row| row.program == program).collect();
        let adjoint = rows[0];
        // All but continuations take all programs.
        assert!(rows.len() >= 5, "{program}");
        for row in &rows {
            let scale = adjoint.gradient.iter().fold(1.0_f64, |scale, x| scale.max(x.abs()));
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * scale;
            assert!(row.gradient.iter().zip(&adjoint.gradient).all(near), "{program} by {}", row.method);
            assert!(near((&row.value, &adjoint.value)), "{program} by {}", row.method);
        }
        // What is proved of efficient CHAD is seen: its operations grow as those of the program, and its factor is small.
        let efficient = rows.iter().find(|row| row.method.name() == "efficient").expect("it takes all programs");
        assert!(efficient.ratio < 5.0, "{program}: {}", efficient.ratio);
        assert!(efficient.growth.is_none_or(|(of, program)| of < program + 0.15), "{program}: {:?}", efficient.growth);
    }
}

#[test]
fn every_stage_prints() {
    let mut out = Vec::new();
    let printed = every_stage::run(&mut out).expect("the example runs");
    let out = text(out);
    assert!(printed.steps > 0);
    for stage in &printed.stages {
        assert!(out.contains(stage.as_str()));
    }
    // After pair elimination no pair is made any more.
    assert!(printed.stages[0].contains("snd d") && !printed.stages[2].contains("snd d"));
}

#[test]
fn builder_multiplies_with_the_hessian() {
    let computed = builder::run(&mut Vec::new()).expect("the example runs");
    assert_eq!(computed.product.len(), 5);
    for (product, difference) in computed.product.iter().zip(&computed.differences) {
        assert!((product - difference).abs() < 1e-9, "{product} and, by differences, {difference}");
    }
    // A chain that is moved as a whole does not bend.
    assert!(computed.product.iter().sum::<f64>().abs() < 1e-14);
}

/// What a command of the README prints: the tool, run where the README is, or an example.
fn output_of(command: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    if let Some(arguments) = command.strip_prefix("iverson ") {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_iverson"));
        let run = tool.args(arguments.split_whitespace()).current_dir(root).output().expect("the tool runs");
        return text([run.stdout, run.stderr].concat());
    }
    let mut out = Vec::new();
    match command {
        "cargo run --release --example deconvolution" => deconvolution::run(&mut out).map(drop),
        _ => panic!("the README has a command that its test does not know: {command}"),
    }
    .expect("the example runs");
    text(out)
}

/// Every ```` ```console ```` block of the README is what its commands print. `INSTA_UPDATE=always` writes it there.
#[test]
fn readme_shows_what_is_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).expect("there is a README");
    let mut right = String::new();
    let (mut shown, mut commands) = (false, 0);
    for line in readme.lines() {
        shown = shown && line != "```";
        if shown && !line.starts_with("$ ") {
            continue;
        }
        right.push_str(line);
        right.push('\n');
        if let Some(command) = line.strip_prefix("$ ").filter(|_| shown) {
            commands += 1;
            let output = output_of(command);
            right.extend(output.lines().flat_map(|line| [line.trim_end(), "\n"]));
        }
        shown = shown || line == "```console";
    }
    assert!(commands > 0, "the README shows no command");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&path, right).expect("the README can be written");
    } else {
        let differing = readme.lines().zip(right.lines()).find(|(shown, printed)| shown != printed);
        assert!(
            readme == right,
            "the README shows other lines than are printed, first (shown, printed): {differing:?}"
        );
    }
}

/// The program in the README is the one that its commands read.
#[test]
fn readme_shows_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).expect("there is a README");
    let program = fs::read_to_string(root.join("examples/programs/deconvolution.iv")).expect("there is a program");
    assert!(readme.contains(&program));
}

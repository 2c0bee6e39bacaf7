//! The examples at small sizes.

use iverson::kernel::Engine;
use newton::{bundle_adjustment, rosenbrock};

#[test]
fn a_chain_ends_where_it_is_flat() {
    let end = rosenbrock::run(&mut Vec::new(), 100, Engine::Interpreter).expect("the example runs");
    assert_eq!(end.entries, 298);
    assert!(end.gradient <= 1e-9, "the gradient is {}", end.gradient);
    assert!(end.losses.is_sorted_by(|a, b| a >= b || (b - a) < 1e-9), "a step led up: {:?}", end.losses);
}

#[test]
fn an_adjustment_ends_at_the_noise() {
    let (n, m, each) = (4, 200, 3);
    let end = bundle_adjustment::run(&mut Vec::new(), [n, m, each], Engine::Interpreter).expect("the example runs");
    assert_eq!(end.entries, 2 * m * each * (9 + 3));
    let free = 2 * m * each + 7 - 9 * n - 3 * m;
    let sigma = (end.losses[end.losses.len() - 1] / free as f64).sqrt();
    assert!((0.95..1.05).contains(&(sigma / bundle_adjustment::NOISE)), "what is left is {sigma}: {:?}", end.losses);
}

/// The program of 25 lines ends after a few steps: the last line has the step and the length of the gradient.
#[test]
fn a_short_program_converges() {
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_short")).output().expect("the program runs");
    let text = String::from_utf8(run.stdout).expect("it prints text");
    let last: Vec<&str> = text.lines().last().expect("it prints a line").split_whitespace().collect();
    let (step, slope): (u32, f64) = (last[0].parse().expect("a step"), last[2].parse().expect("a length"));
    assert!(run.status.success() && step <= 8 && slope < 1e-9, "{text}");
}

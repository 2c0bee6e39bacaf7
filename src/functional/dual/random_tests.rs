//! Random programs: all variants agree, and the work is bounded.

use super::programs::{self, squares_of_array};
use super::tests::{all_options, close, doubled, forward, numbers, reals};
use super::*;
use crate::functional::lambda::evaluate;
use crate::functional::lambda::random::{Config, Random, Scalars, random_arguments, random_program};
use crate::reference::numeric::{Dual, Field};

/// How many programs; `IVERSON_PROGRAMS` chooses another number.
fn programs_to_judge(usual: u64) -> u64 {
    std::env::var("IVERSON_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Programs, arguments, and the cost of evaluating them, which is at most 10^5.
fn random_cases<T: Numeric>(config: Config, n: u64) -> impl Iterator<Item = (u64, Program, Vec<Value<T>>, u64)> {
    (0..n).filter_map(move |seed| {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        let args = random_arguments::<T>(&mut random, &program).unwrap();
        let mut machine = crate::functional::lambda::Machine::new(&program).unwrap().with_limit(100_000);
        machine.evaluate(&args).ok()?;
        let steps = machine.counts().steps;
        drop(machine);
        Some((seed, program, args, steps))
    })
}

/// The gradient, or nothing where the naive variant calls too often.
fn bounded_gradient<T: Numeric + Send + Sync>(
    program: &Program,
    args: &[Value<T>],
    options: Options,
) -> Option<(T, Vec<Value<T>>, Counts)> {
    match gradient(program, args, Options { limit: 1 << 20, ..options }) {
        Err(Error::Limit { .. }) if options.variant == Variant::Naive => None,
        result => Some(result.unwrap()),
    }
}

/// Exact modulo a prime: all variants give the numbers of forward mode.
#[test]
fn random_programs_exactly() {
    let config = Config { scalars: Scalars::Polynomial, ..Config::all(60) };
    let (mut judged, mut partials) = (0, 0);
    for (seed, program, args, _) in random_cases::<Field>(config, programs_to_judge(400)) {
        let inputs: usize = args.iter().map(|arg| arg.numbers().len()).sum();
        let tangent = |k: usize| {
            let mut at = 0;
            let mut dual = |x: &Field| {
                at += 1;
                Ok(if at == k + 1 { Dual::new(*x, Field::new(1)) } else { Dual::constant(*x) })
            };
            let args: Vec<_> = args.iter().map(|arg| arg.map(&mut dual).unwrap()).collect();
            evaluate(&program, &args).unwrap().0.as_real().unwrap().derivative()
        };
        let expected: Vec<Field> = (0..inputs).map(tangent).collect();
        for options in all_options() {
            let Some((_, gradient, counts)) = bounded_gradient(&program, &args, options) else { continue };
            let found: Vec<Field> = gradient.iter().flat_map(|v| v.numbers()).copied().collect();
            assert_eq!(found, expected, "seed {seed} {options:?}\n{program}");
            assert!(counts.most <= 1 || options.variant == Variant::Naive);
        }
        judged += 1;
        partials += inputs;
    }
    println!("{judged} programs, {partials} partial derivatives, exact modulo a prime");
}

/// In floating point with all functions and comparisons. Fork-join has the bits of the tape, on one thread and on three.
#[test]
fn random_programs() {
    let mut judged = 0;
    for (seed, program, args, _) in random_cases::<f64>(Config::all(80), programs_to_judge(400)) {
        let expected = forward(&program, &args);
        if !expected.iter().all(|x| x.is_finite() && x.abs() < 1e12) {
            continue;
        }
        let mut tape = None;
        for options in all_options() {
            let Some((_, gradient, _)) = bounded_gradient(&program, &args, options) else { continue };
            let gradient = numbers(&gradient);
            close_or_say(&gradient, &expected, seed, options, &program);
            let bits: Vec<u64> = gradient.iter().map(|x| x.to_bits()).collect();
            match options {
                Options { variant: Variant::Tape, leaf_calls: false, .. } => tape = Some(bits),
                Options { variant: Variant::ForkJoin, leaf_calls: false, .. } => {
                    assert_eq!(tape.as_ref(), Some(&bits), "seed {seed}");
                    let (_, again, _) = gradient_on(&program, &args, 3);
                    assert_eq!(numbers(&again).iter().map(|x| x.to_bits()).collect::<Vec<_>>(), bits, "seed {seed}");
                }
                _ => {}
            }
        }
        judged += 1;
    }
    println!("{judged} programs in floating point");
}

fn gradient_on(program: &Program, args: &[Value<f64>], threads: usize) -> (f64, Vec<Value<f64>>, Counts) {
    gradient(program, args, Options { threads, ..Options::of(Variant::ForkJoin) }).unwrap()
}

fn close_or_say(a: &[f64], b: &[f64], seed: u64, options: Options, program: &Program) {
    let largest = b.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= 1e-9 * largest, "seed {seed} {options:?}\n{a:?}\n{b:?}\n{program}");
    }
}

/// The figures as transformations, which are verified, on the language of the paper.
#[test]
fn random_programs_by_the_figures() {
    let config = Config {
        scalars: Scalars::Polynomial,
        arrays: false,
        maps: false,
        reductions: false,
        scans: false,
        loops: false,
        par: false,
        ..Config::all(60)
    };
    let mut judged = 0;
    let mut worst = [0f64; 5];
    for (seed, program, args, cost) in random_cases::<Field>(config, programs_to_judge(300)) {
        let size: usize = args.iter().map(|arg| arg.numbers().len()).sum();
        let (_, gradient, _) = gradient(&program, &args, Options::of(Variant::Tape)).unwrap();
        let expected: Vec<Field> = gradient.iter().flat_map(|v| v.numbers()).copied().collect();
        for (figure, worst) in Figure::ALL.into_iter().zip(&mut worst) {
            let transformed = transform(&program, figure).unwrap();
            let (_, found, steps) = transformed.run(&args, &[Field::new(1)]).unwrap();
            assert_eq!(found, expected, "seed {seed} {figure:?}\n{program}");
            let all = steps.forward + steps.reverse + steps.external;
            *worst = worst.max(all as f64 / (cost + size as u64) as f64);
            judged += 1;
        }
    }
    for (figure, worst) in Figure::ALL.into_iter().zip(worst) {
        println!("{figure:?}: worst steps of the evaluator / (cost + size): {worst:.2}");
        assert!(worst <= 40.0 || !matches!(figure, Figure::Arrays | Figure::Contrib));
    }
    assert!(judged > 100);
}

/// The bound of section 9: `work <= K (cost(P x) + size x)`, with one K for all programs. The cost is in steps of the evaluator.
const K: f64 = 8.0;

fn work(counts: &Counts) -> f64 {
    (counts.forward + counts.identifiers + counts.work) as f64
}

#[test]
fn work_is_bounded() {
    let with_arrays = all_options().into_iter().filter(|o| !o.variant.is_pure());
    let mut worst: Vec<(Options, f64)> = with_arrays.map(|o| (o, 0.0)).collect();
    let mut judged = 0;
    for (_, program, args, cost) in random_cases::<f64>(Config::all(100), programs_to_judge(1000)) {
        let size: usize = args.iter().map(|arg| arg.numbers().len()).sum();
        for (options, worst) in &mut worst {
            let (_, _, counts) = gradient(&program, &args, *options).unwrap();
            *worst = worst.max(work(&counts) / (cost + size as u64) as f64);
        }
        judged += 1;
    }
    for (options, worst) in worst {
        let leaf = if options.leaf_calls { ", leaf calls" } else { "" };
        println!("{:?}{leaf}: worst work / (cost + size) of {judged} programs: {worst:.2}", options.variant);
        assert!(worst <= K, "{options:?} {worst}");
    }
}

/// `work / (cost + size)` of `sum of x_i * x_i` over an array of a length.
fn ratio(variant: Variant, n: u32) -> f64 {
    let program = squares_of_array();
    let args = [Value::reals((0..n).map(f64::from))];
    let (_, cost) = evaluate(&program, &args).unwrap();
    let (_, _, counts) = gradient(&program, &args, Options::of(variant)).unwrap();
    work(&counts) / (cost.steps + u64::from(n)) as f64
}

/// What is left to remove after each step: a factor of the input, a logarithm, nothing.
#[test]
fn growth_of_the_variants() {
    let exponent = |variant, n: u32| (ratio(variant, 4 * n) / ratio(variant, n)).log2() / 2.0;
    let staged = exponent(Variant::Staged, 1 << 8);
    println!("staged: work grows with the exponent {:.3}", 1.0 + staged);
    assert!((0.9..1.05).contains(&staged));
    // With maps each doubling of n costs the same more.
    let steps: Vec<f64> = (10..=16).step_by(2).map(|k| ratio(Variant::Scalars, 1 << k)).collect();
    println!("scalars: work / (cost + size) at 2^10, 2^12, 2^14, 2^16: {steps:.3?}");
    let rises: Vec<f64> = steps.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(rises.iter().all(|r| *r > 0.1 && (r / rises[0] - 1.0).abs() < 0.5), "{rises:?}");
    for variant in [Variant::Arrays, Variant::OneArray, Variant::Contrib, Variant::Tape, Variant::ForkJoin] {
        let flat = exponent(variant, 1 << 12);
        println!("{variant:?}: work grows with the exponent {:.4}", 1.0 + flat);
        assert!(flat.abs() < 0.02);
    }
    // The naive variant on sharing: twice for each doubling, Fig. 2.
    let naive = |n: usize| {
        let (_, _, counts) = gradient(&doubled(n), &reals(&[1.0]), Options::of(Variant::Naive)).unwrap();
        counts.work as f64
    };
    println!("naive: one more sharing costs times {:.3}", naive(16) / naive(15));
    assert!((naive(16) / naive(15) - 2.0).abs() < 0.01);
}

/// A tuple `((x1, x2), x3) ..` is as deep as it is long, so that Fig. 9 pays for paths and section 8 does not.
#[test]
fn paths_of_deep_inputs() {
    let per_input = |variant, n: usize| {
        let (program, args) = programs::squares_of_list(n);
        let (_, gradient, counts) = gradient(&program, &args, Options::of(variant)).unwrap();
        let expected: Vec<f64> = numbers(&args).iter().map(|x| 2.0 * x).collect();
        close(&numbers(&gradient), &expected, 1e-15);
        work(&counts) / n as f64
    };
    assert!(per_input(Variant::Cayley, 800) > 3.0 * per_input(Variant::Cayley, 200));
    assert!(per_input(Variant::Scalars, 800) < 1.3 * per_input(Variant::Scalars, 200));
    assert!(per_input(Variant::Arrays, 800) < 1.01 * per_input(Variant::Arrays, 200));
}

/// One identifier for a leaf call: a step of a particle is one, of four numbers, in place of 24 scalars.
#[test]
fn identifiers_of_leaf_calls() {
    let steps = 100;
    let (program, args) = (programs::particles(steps), programs::some_particles(4));
    let identifiers = |leaf_calls| {
        let (_, _, counts) = gradient(&program, &args, Options { leaf_calls, ..Options::of(Variant::Tape) }).unwrap();
        counts.identifiers
    };
    // 16 inputs, the steps, 4 products, 3 sums.
    assert_eq!(identifiers(true), 16 + 4 * 100 + 4 + 3);
    // In each step 2 times 3 scalars of places and 9 of speeds, among them the literals.
    assert_eq!(identifiers(false), 16 + 4 * 100 * 2 * (3 + 9) + 4 + 3);
}

/// A map is one identifier: 2 arrays, their products, the sum.
#[test]
fn identifiers_of_maps() {
    let wave = |n: usize| Value::reals((0..n).map(|i| (i as f64).sin()));
    for n in [0, 1, 1000] {
        let args = [wave(n), wave(n)];
        let options = Options { leaf_calls: true, ..Options::of(Variant::ForkJoin) };
        let (_, found, counts) = gradient(&programs::dot_product(), &args, options).unwrap();
        assert_eq!(counts.identifiers, 2 * n as u64 + u64::from(n > 0) + 1);
        let (_, expected, _) = gradient(&programs::dot_product(), &args, Options::of(Variant::Tape)).unwrap();
        assert_eq!(numbers(&found), numbers(&expected));
    }
}

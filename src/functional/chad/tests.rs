use super::*;
use crate::functional::lambda::random::{Config, Random, Scalars, random_arguments, random_program};
use crate::functional::lambda::{evaluate, pairing, parse};
use crate::reference::{Dual, Field};

const TWO_CALLS: &str = "param x : real\nparam y : real\nlet f = fn z : real. x * z + y in f y * f x";

#[test]
fn golden_value() {
    let program = parse(TWO_CALLS).unwrap();
    let args = [Value::Real(2.0), Value::Real(3.0)];
    let reverse = differentiate(&program, Mode::Reverse).unwrap();
    let (value, cotangents) = reverse.cotangents(&args, &Value::Real(1.0)).unwrap();
    assert_eq!((value, cotangents), (Value::Real(63.0), vec![Value::Real(57.0), Value::Real(30.0)]));
    let forward = differentiate(&program, Mode::Forward).unwrap();
    for (tangents, expected) in [([1.0, 0.0], 57.0), ([0.0, 1.0], 30.0)] {
        let (_, tangent) = forward.tangent(&args, &tangents.map(Value::Real)).unwrap();
        assert_eq!(tangent, Value::Real(expected));
    }
}

/// The derivative along random tangents: forward, reverse, and by dual numbers.
fn three_ways<T: Numeric>(random: &mut Random, program: &Program) -> Option<[T; 3]> {
    let args = random_arguments::<T>(random, program).unwrap();
    let tangents: Vec<Value<T>> = args.iter().map(|arg| arg.map(|_| T::literal(random.real())).unwrap()).collect();
    let mut duals = Vec::new();
    for (arg, tangent) in args.iter().zip(&tangents) {
        let mut numbers = tangent.numbers().into_iter();
        duals.push(arg.map(|x| Ok(Dual::new(x.clone(), numbers.next().unwrap().clone()))).unwrap());
    }
    let expected = evaluate(program, &duals).unwrap().0.as_real().unwrap().derivative();
    let derivative = |mode| match differentiate(program, mode) {
        Err(Error::Limitation { feature, .. }) if feature.contains("loop") => None,
        derivative => Some(derivative.unwrap()),
    };
    let linear: Vec<Value<T>> = tangents.iter().map(|tangent| as_tangent(tangent).unwrap()).collect();
    let (_, forward) = derivative(Mode::Forward)?.tangent(&args, &linear).unwrap();
    let (_, cotangents) = derivative(Mode::Reverse)?.cotangents(&args, &Value::Real(T::integer(1))).unwrap();
    let mut reverse = T::zero();
    for (tangent, cotangent) in tangents.iter().zip(&cotangents) {
        reverse = reverse.add(&pairing(tangent, cotangent).unwrap());
    }
    Some([forward.as_real().unwrap().clone(), reverse, expected])
}

#[test]
fn derivatives_of_random_programs_are_exact() {
    let config = Config { recursion: false, scalars: Scalars::Polynomial, ..Config::all(40) };
    let mut done = 0;
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        if let Some([forward, reverse, expected]) = three_ways::<Field>(&mut random, &program) {
            assert_eq!((forward, reverse), (expected, expected), "{seed}\n{program}");
            done += 1;
        }
    }
    println!("{done} programs");
}

#[test]
fn derivatives_of_random_programs_are_close() {
    let config = Config { recursion: false, ..Config::all(40) };
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        if let Some([forward, reverse, expected]) = three_ways::<f64>(&mut random, &program) {
            let scale = expected.abs().max(1.0);
            assert!((forward - expected).abs() <= 1e-9 * scale, "{seed} {forward} {expected}\n{program}");
            assert!((reverse - expected).abs() <= 1e-9 * scale, "{seed} {reverse} {expected}\n{program}");
        }
    }
}

/// Corollary 7.2: the size of the derivative by that of the program, for programs of all sizes.
#[test]
fn code_grows_by_a_constant_factor() {
    let config = Config { recursion: false, loops: false, ..Config::all(0) };
    for mode in [Mode::Forward, Mode::Reverse] {
        let mut worst: Vec<f64> = Vec::new();
        for size in [20, 80, 320, 1280] {
            let mut most: f64 = 0.0;
            for seed in 0..50 {
                let program = random_program(&mut Random::new(seed), &Config { size, ..config }).unwrap();
                let derivative = differentiate(&program, mode).unwrap();
                most = most.max(derivative.program.size() as f64 / program.size() as f64);
            }
            worst.push(most);
        }
        println!("{mode:?}: size of the derivative by that of programs of 20, 80, 320, 1280: at most {worst:.1?}");
        assert!(worst.iter().all(|factor| *factor < 100.0));
        assert!(worst[3] <= worst[0] * 1.1);
    }
    // One chain of n products under n lets: exactly linear.
    let chain = |n: usize| {
        let lets: String = (0..n).map(|k| format!("let y{} = y{k} * x in ", k + 1)).collect();
        parse(&format!("param x : real\nlet y0 = x in {lets} y{n}")).unwrap()
    };
    for mode in [Mode::Forward, Mode::Reverse] {
        let size = |n| differentiate(&chain(n), mode).unwrap().program.size();
        assert_eq!(size(300) - size(200), size(200) - size(100));
    }
}

/// What [003] does not say: functions of which each calls the one before run d (d + 1) / 2 bodies again, since what a body owes to what it captures is
/// found by running it once more, with all that it calls.
#[test]
fn chained_functions_run_again() {
    let chain = |d: usize| {
        // A comparison in each body counts how often it is run; its derivative takes none.
        let body = |k: usize| format!("fn z : real. (if z < x then 1.0 else 2.0) * f{k} z");
        let lets: String = (0..d).map(|k| format!("let f{} = {} in ", k + 1, body(k))).collect();
        parse(&format!("param x : real\nlet f0 = fn z : real. z in {lets} f{d} x")).unwrap()
    };
    let runs = |d: usize| {
        let program = chain(d);
        let derivative = differentiate(&program, Mode::Reverse).unwrap();
        let mut machine = derivative.machine::<f64>().unwrap();
        let result = machine.evaluate(&[Value::Real(1.0)]).unwrap();
        let once = machine.counts().functions;
        machine.call(result.as_pair().unwrap().1, Value::Real(1.0)).unwrap();
        (once, machine.counts().functions - once)
    };
    for d in [1u64, 2, 5, 10, 20] {
        assert_eq!(runs(d as usize), (d, d * (d + 1) / 2), "{d}");
    }
    // The efficient one runs none again.
    let gradient = crate::functional::efficient::differentiate(&chain(20), crate::functional::efficient::Stage::Array);
    let gradient = gradient.unwrap();
    let mut machine = Machine::<f64>::new(&gradient.program).unwrap();
    let result = machine.evaluate(&[Value::Real(1.0)]).unwrap();
    let once = machine.counts().functions;
    machine.call(result.as_pair().unwrap().1, Value::Real(1.0)).unwrap();
    assert_eq!((once, machine.counts().functions), (20, 20));
}

/// `(fn x. (.. (fn x. x) x ..) x) x`, of [000], section 9: each level calls the derivative of the one beneath twice.
#[test]
fn nested_functions_take_exponential_time() {
    let nested = |n: usize| {
        let inner = (0..n).fold("x0".to_string(), |body, k| format!("((fn x{k} : real. {body}) x{})", k + 1));
        parse(&format!("param x{n} : real\n{inner}")).unwrap()
    };
    let calls = |n: usize| {
        let derivative = differentiate(&nested(n), Mode::Reverse).unwrap();
        let mut machine = derivative.machine::<f64>().unwrap();
        let result = machine.evaluate(&[Value::Real(1.0)]).unwrap();
        let before = machine.counts().calls;
        machine.call(result.as_pair().unwrap().1, Value::Real(1.0)).unwrap();
        machine.counts().calls - before
    };
    // The backpropagators of applications are called 2^n - 1 times, and make eight calls each, but for the innermost body.
    for n in 1..=12 {
        assert_eq!(calls(n), 8 * ((1 << n) - 1) - (2 * n as u64 - 1), "{n}");
    }
}

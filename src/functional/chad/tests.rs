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

use super::*;
use crate::functional::compare;
use crate::functional::lambda::random::{Config, Random, Scalars, random_arguments, random_program};
use crate::functional::lambda::{pairing, parse};
use crate::reference::Field;

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
fn three_ways<T: Numeric>(random: &mut Random, program: &Program) -> [T; 3] {
    let args = random_arguments::<T>(random, program).unwrap();
    let tangents: Vec<Value<T>> = args.iter().map(|arg| arg.map(|_| T::literal(random.real())).unwrap()).collect();
    let (_, expected) = compare::forward(program, &args, &tangents).unwrap();
    let derivative = |mode| differentiate(program, mode).unwrap();
    let linear: Vec<Value<T>> = tangents.iter().map(|tangent| as_tangent(tangent).unwrap()).collect();
    let (_, forward) = derivative(Mode::Forward).tangent(&args, &linear).unwrap();
    let (_, cotangents) = derivative(Mode::Reverse).cotangents(&args, &Value::Real(T::integer(1))).unwrap();
    let mut reverse = T::zero();
    for (tangent, cotangent) in tangents.iter().zip(&cotangents) {
        reverse = reverse.add(&pairing(tangent, cotangent).unwrap());
    }
    [forward.as_real().unwrap().clone(), reverse, expected]
}

#[test]
fn derivatives_of_random_programs_are_exact() {
    exact(0..1000);
}

/// Twenty thousand programs.
#[test]
#[ignore = "20,000 programs take a minute; the command is in CONTRIBUTING.md"]
fn full() {
    exact(10_000..30_000);
}

fn exact(seeds: std::ops::Range<u64>) {
    let config = Config { recursion: false, scalars: Scalars::Polynomial, ..Config::all(40) };
    for seed in seeds {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        let [forward, reverse, expected] = three_ways::<Field>(&mut random, &program);
        assert_eq!((forward, reverse), (expected, expected), "{seed}\n{program}");
    }
}

#[test]
fn derivatives_of_random_programs_are_close() {
    let config = Config { recursion: false, ..Config::all(40) };
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        let [forward, reverse, expected] = three_ways::<f64>(&mut random, &program);
        let scale = expected.abs().max(1.0);
        assert!((forward - expected).abs() <= 1e-9 * scale, "{seed} {forward} {expected}\n{program}");
        assert!((reverse - expected).abs() <= 1e-9 * scale, "{seed} {reverse} {expected}\n{program}");
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

/// What \[003\] does not say: functions of which each calls the one before run d (d + 1) / 2 bodies again, since what a body owes to what it captures is
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

/// `(fn x. (.. (fn x. x) x ..) x) x`, of \[000\], section 9: each level calls the derivative of the one beneath twice.
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

/// Figures 1 and 2 of \[003\]: the programs of (a) and (b), and what their derivatives (c) and (d) compute, as printed there but for the order of factors, and
/// that known functions are written where they are called.
#[test]
fn figures() {
    let cases = [
        (
            Mode::Forward,
            "param x : real\nlet y = 2.0 * x in let z = x * y in let w = cos z in let v = ((y, z), w) in v",
            "param x : real\nlet y = 2.0 * x in\nlet z = x * y in\nlet w = cos z in\n(((y, z), w), \
             fn x' : real. let y' = 2.0 * x' in\nlet z' = y * x' + x * y' in\nlet w' = -sin z * z' in\n((y', z'), w'))\n",
        ),
        (
            Mode::Reverse,
            "param x1 : real\nparam x2 : real\nparam x3 : real\nparam x4 : real\n\
             let y = x1 * x4 + 2.0 * x2 in let z = y * x3 in let w = z + x4 in let v = sin w in v",
            "param x1 : real\nparam x2 : real\nparam x3 : real\nparam x4 : real\n\
             let y = x1 * x4 + 2.0 * x2 in\nlet z = y * x3 in\nlet w = z + x4 in\nlet v = sin w in\n\
             (v, fn v' : real. let w' = cos w * v' in\nlet y' = x3 * w' in\n\
             (((x4 * y', 2.0 * y'), y * w'), w' + x1 * y'))\n",
        ),
        (
            Mode::Forward,
            "param x : real\nparam n : int\nlet f = fn z : real. x * z + 1.0 in let zs = build i < n. x in let ys = map z in zs. f z in ys",
            "param x : real\nparam n : int\nlet zs = build i_2 < n. x in\nlet ys = map x_3 in zs. x * x_3 + 1.0 in\n\
             (ys, fn v : real * unit. let x' = fst v in\nlet zs' = build i_3 < n. x' in\n\
             let ys' = map x_6 in zs, x_7 in zs'. x_6 * x' + x * x_7 in\nys')\n",
        ),
        (
            Mode::Reverse,
            "param x1 : real\nparam x2 : [real]\nlet f = fn x2i : real. x1 * x2i in let ys = map x2i in x2. f x2i in let w = sum ys in w",
            "param x1 : real\nparam x2 : [real]\nlet ys = map x_2 in x2. x1 * x_2 in\nlet w = sum ys in\n\
             (w, fn w' : real. let ys' = map x_4 in ys. w' in\n\
             (sum (map x_7 in x2, x_8 in ys'. x_7 * x_8), map x_6 in ys'. x1 * x_6))\n",
        ),
    ];
    for (mode, text, expected) in cases {
        let derivative = differentiate(&parse(text).unwrap(), mode).unwrap();
        assert_eq!(derivative.readable().unwrap().to_string(), expected);
    }
}

/// Derivatives for reading compute the same.
#[test]
fn readable_derivatives_are_derivatives() {
    let config = Config {
        recursion: false,
        loops: false,
        sums: false,
        reductions: false,
        scans: false,
        data: false,
        scalars: Scalars::Polynomial,
        ..Config::all(25)
    };
    let (mut done, mut refused) = (0, std::collections::BTreeMap::new());
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        let args = random_arguments::<Field>(&mut random, &program).unwrap();
        let derivative = differentiate(&program, Mode::Reverse).unwrap();
        let readable = match derivative.readable() {
            Ok(readable) => readable,
            Err(error) => {
                *refused.entry(error.to_string()).or_insert(0) += 1;
                continue;
            }
        };
        let one = Field::integer(1);
        let (value, expected) = derivative.cotangents(&args, &Value::Real(one)).unwrap();
        let mut machine = Machine::new(&readable).unwrap();
        let result = machine.evaluate(&args).unwrap();
        let (found, map) = result.as_pair().unwrap();
        assert_eq!(*found, value, "{seed}");
        let owed = machine.call(map, Value::Real(one)).unwrap();
        let tangents: Vec<Value<Field>> =
            args.iter().map(|arg| arg.map(|_| Ok(Field::new(random.bits()))).unwrap()).collect();
        let tangent = Value::tuple(tangents);
        let found = pairing(&tangent, &owed).unwrap();
        assert_eq!(found, pairing(&tangent, &Value::tuple(expected)).unwrap(), "{seed}\n{program}\n{readable}");
        done += 1;
    }
    println!("{done} programs; refused: {refused:?}");
    assert!(done > 200);
}

use super::*;
use crate::functional::compare;
use crate::functional::lambda::random::{Config, Random, Scalars, random_arguments, random_program};
use crate::functional::lambda::{Builder, Term, TermId, pairing};
use crate::reference::Field;

/// `x * x` and others, over one real.
fn of_real(body: impl FnOnce(&mut Builder, crate::base::VarId) -> Result<TermId>) -> Program {
    let mut b = Builder::new();
    let real = b.types().real();
    let x = b.param("x", real);
    let body = body(&mut b, x).unwrap();
    b.finish(body).unwrap()
}

fn square(b: &mut Builder, x: crate::base::VarId) -> Result<TermId> {
    let (l, r) = (b.var(x), b.var(x));
    b.mul(l, r)
}

/// The cost of the program, and those of its derivative, for arguments 2 and the seed 1.
fn costs(program: &Program) -> (u64, u64, u64, u64) {
    let args = vec![Value::Real(2.0); program.params.len()];
    let (_, counts) = crate::functional::lambda::evaluate(program, &args).unwrap();
    let derivative = differentiate(program, Stage::Array).unwrap();
    let found = derivative.run(&args, &Value::Real(1.0)).unwrap();
    (counts.steps, found.costs.run, found.costs.call, found.costs.monad)
}

#[test]
fn golden_costs() {
    assert_eq!(costs(&of_real(|b, x| Ok(b.var(x)))), (1, 3, 2, 4));
    assert_eq!(costs(&of_real(square)), (4, 25, 39, 8));
    let cube = of_real(|b, x| {
        let y = square(b, x)?;
        b.let_("y", y, |b, y| {
            let (y, x) = (b.var(y), b.var(x));
            b.mul(y, x)
        })
    });
    assert_eq!(costs(&cube), (9, 61, 49, 60));
    let case = of_real(|b, x| {
        let real = b.types().real();
        let arg = b.var(x);
        let sum = b.inl(arg, real)?;
        b.case(
            sum,
            ("a", |b, a| {
                let (a, x) = (b.var(a), b.var(x));
                b.mul(a, x)
            }),
            ("b", |b, y| Ok(b.var(y))),
        )
    });
    assert_eq!(costs(&case), (7, 46, 49, 25));
    let nested = of_real(|b, x| {
        let (x1, x2, x3) = (b.var(x), b.var(x), b.var(x));
        let inner = b.pair(x2, x3)?;
        let pair = b.pair(x1, inner)?;
        b.push(Term::Fst(pair))
    });
    assert_eq!(costs(&nested), (6, 40, 46, 12));
}

/// The derivative along random tangents, by the method and by dual numbers.
fn both_ways<T: Numeric>(random: &mut Random, program: &Program, stage: Stage) -> (T, T) {
    let args = random_arguments::<T>(random, program).unwrap();
    let tangents: Vec<Value<T>> = args.iter().map(|arg| arg.map(|_| T::literal(random.real())).unwrap()).collect();
    let (_, expected) = compare::forward(program, &args, &tangents).unwrap();
    let gradient = differentiate(program, stage).unwrap().run(&args, &Value::Real(T::integer(1))).unwrap();
    let mut found = T::zero();
    for (tangent, cotangent) in tangents.iter().zip(&gradient.cotangents) {
        found = found.add(&pairing(tangent, cotangent).unwrap());
    }
    (found, expected)
}

#[test]
fn derivatives_of_random_programs_are_exact() {
    let config = Config { scalars: Scalars::Polynomial, ..Config::all(60) };
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        for stage in Stage::ALL {
            let (found, expected) = both_ways::<Field>(&mut random, &program, stage);
            if seed < 100 {
                let text = differentiate(&program, stage).unwrap().program.to_string();
                let read = crate::functional::lambda::parse(&text).unwrap_or_else(|error| panic!("{error:#}"));
                assert_eq!(read.to_string(), text);
            }
            assert_eq!(found, expected, "{seed} {stage:?}\n{program}");
        }
    }
}

/// Twenty thousand programs: exact derivatives on the last stage, and Eq. 7.
#[test]
#[ignore = "20,000 programs take a minute; the command is in CONTRIBUTING.md"]
fn full() {
    let config = Config { scalars: Scalars::Polynomial, ..Config::all(60) };
    for seed in 10_000..30_000 {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        let (found, expected) = both_ways::<Field>(&mut random, &program, Stage::Array);
        assert_eq!(found, expected, "{seed}\n{program}");
    }
    bound(10_000..30_000);
}

#[test]
fn derivatives_of_random_programs_are_close() {
    let config = Config::all(60);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let program = random_program(&mut random, &config).unwrap();
        for stage in Stage::ALL {
            let (found, expected) = both_ways::<f64>(&mut random, &program, stage);
            let scale = found.abs().max(expected.abs()).max(1.0);
            assert!(
                (found - expected).abs() <= 1e-9 * scale || found == expected || found.is_nan(),
                "{seed} {stage:?} {found} {expected}\n{program}"
            );
        }
    }
}

/// Eq. 7, with its constants, on the language that it is proved for.
#[test]
fn the_bound_holds() {
    bound(0..3000);
}

fn bound(seeds: std::ops::Range<u64>) {
    let mut worst: f64 = 0.0;
    for seed in seeds {
        let mut random = Random::new(seed);
        let size = 1 + random.below(120);
        let program = random_program(&mut random, &Config::first_order(size)).unwrap();
        let args = random_arguments::<f64>(&mut random, &program).unwrap();
        let (_, counts) = crate::functional::lambda::evaluate(&program, &args).unwrap();
        let derivative = differentiate(&program, Stage::Array).unwrap();
        let seed_value = Value::Real(1.0);
        let costs = derivative.run(&args, &seed_value).unwrap().costs;
        let cost = costs.of_term(derivative.zero_steps());
        let extra = 5 + size_of(&seed_value) + 4 * program.params.len() as u64;
        assert!(cost <= extra + 34 * counts.steps, "{seed}: {cost} steps of {}\n{program}", counts.steps);
        worst = worst.max((cost - extra.min(cost)) as f64 / counts.steps as f64);
    }
    println!("the largest factor is {worst:.2}, of 34");
}

fn size_of(value: &Value<f64>) -> u64 {
    super::size(value).unwrap()
}

/// The theorem with potential (Eq. 6, and TH1 of Appendix D): cells need not start at zero, and what they have grown by pays for later sums.
#[test]
fn the_bound_with_potential_holds() {
    let mut least = i64::MAX;
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let size = 1 + random.below(80);
        let program = random_program(&mut random, &Config::first_order(size)).unwrap();
        let args = random_arguments::<f64>(&mut random, &program).unwrap();
        let (_, counts) = crate::functional::lambda::evaluate(&program, &args).unwrap();
        let derivative = differentiate(&program, Stage::Array).unwrap();
        let cells = derivative.run(&args, &Value::Real(1.0)).unwrap().cotangents;
        let mut machine = Machine::new(&derivative.program).unwrap();
        let result = machine.evaluate(&args).unwrap();
        let owed = machine.call(result.as_pair().unwrap().1, Value::Real(1.0)).unwrap();
        let before = potential(&cells);
        let (_, after) = machine.run_action(&owed, cells).unwrap();
        let n = program.params.len() as i64;
        let left = machine.counts().steps as i64 - 1 - before + potential(&after) - n;
        let right = 34 * counts.steps as i64;
        assert!(left <= right, "{seed}: {left} {right}\n{program}");
        least = least.min(right - left);
    }
    println!("at least {least} steps are left");
}

fn potential(cells: &[Value<f64>]) -> i64 {
    cells.iter().map(|cell| size_of(cell) as i64).sum()
}

/// Deep programs are differentiated and run on a stack of 2 MiB.
#[test]
fn depth() {
    deep(30_000);
}

#[test]
#[ignore = "8 GB of memory, a minute; the command is in CONTRIBUTING.md"]
fn depth_of_a_million() {
    deep(1_000_000);
}

fn deep(n: usize) {
    let deep = move || -> Result<()> {
        let mut b = Builder::new();
        let real = b.types().real();
        let x = b.param("x", real);
        let vars: Vec<_> = std::iter::once(x).chain((0..n).map(|_| b.fresh("y", real))).collect();
        let mut body = b.var(vars[vars.len() - 1]);
        for pair in vars.windows(2).rev() {
            let (l, r) = (b.var(pair[0]), b.var(x));
            let value = b.add(l, r)?;
            body = b.push(Term::Let(pair[1], value, body))?;
        }
        let program = b.finish(body)?;
        let gradient = differentiate(&program, Stage::Array)?.run(&[Value::Real(1.0)], &Value::Real(1.0))?;
        assert_eq!(gradient.cotangents, [Value::Real(n as f64 + 1.0)]);
        Ok(())
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(deep).unwrap().join().unwrap().unwrap();
}

//! Theorems and agreement on random programs.

use std::collections::BTreeMap;

use super::random::{Grammar, Sample, sample};
use super::testing::{
    agrees, arguments, at_length, by_continuations, count, forward, introduction, numbers, optimised, shapes,
};
use super::*;
use crate::error::{Error, Result};
use crate::functional::lambda::{self, Term, Value};
use crate::reference::{Dual, Field, Numeric};

/// Programs of each nesting, with and without what is beyond the paper, on arrays of `least` elements and more.
fn programs(seed: u64, n: usize, least: u64, functions: bool) -> impl Iterator<Item = Result<Sample>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..n).map(move |k| {
        let grammar = Grammar { nesting: k % 4, functions, all: k % 3 != 0, size: 1 + k % 8 };
        sample(&mut rng, grammar, least + (k % 5) as u64)
    })
}

fn point(sample: &Sample, rng: &mut fastrand::Rng) -> Vec<Field> {
    (0..count(sample)).map(|_| Field::new(rng.u64(..))).collect()
}

/// Gradients by continuations, and those that users get, against forward mode.
fn check_modulo_a_prime(seed: u64, n: usize) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut operations = 0;
    for sample in programs(seed, n, 0, false) {
        let sample = sample?;
        let at = point(&sample, &mut rng);
        let (expected, args) = (forward(&sample, &at)?, arguments(&sample, &at));
        let by_continuations = by_continuations(&sample.program)?;
        assert_eq!(numbers(&by_continuations, &args)?, expected, "{}\n{by_continuations}", sample.program);
        let by_users = gradient_of(&sample.program)?;
        assert_eq!(numbers(&by_users, &args)?, expected, "{}\n{by_users}", sample.program);
        operations += sample.program.size();
    }
    println!("{n} programs, {operations} operations: gradients equal modulo 2^61 - 1");
    Ok(())
}

#[test]
fn gradients_modulo_a_prime() -> Result<()> {
    check_modulo_a_prime(1, 4000)
}

#[test]
#[ignore = "100,000 programs take a minute; the command is in CONTRIBUTING.md"]
fn many_gradients_modulo_a_prime() -> Result<()> {
    check_modulo_a_prime(101, 100_000)
}

#[test]
fn gradients_in_floating_point() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut worst: f64 = 0.0;
    for sample in programs(2, 2000, 0, true) {
        let sample = sample?;
        let at: Vec<f64> = (0..count(&sample)).map(|_| rng.f64() * 1.5 - 0.75).collect();
        let expected = forward(&sample, &at)?;
        let found = numbers(&gradient_of(&sample.program)?, &arguments(&sample, &at))?;
        assert_eq!(found.len(), expected.len());
        // Beyond this size, sums of large numbers of both signs have no digits in common.
        if !expected.iter().all(|x| x.abs() < 1e4) {
            continue;
        }
        let scale = expected.iter().fold(1.0_f64, |scale, x| scale.max(x.abs()));
        for (a, b) in found.iter().zip(&expected) {
            worst = worst.max((a - b).abs() / scale);
        }
    }
    println!("largest difference to forward mode: {worst:e}");
    assert!(worst < 1e-11);
    Ok(())
}

/// How often continuation variables occur, as calls.
fn count_calls(block: &Block, calls: &mut BTreeMap<Cont, u32>, bound: &mut Vec<Cont>) {
    let fun = |fun: &Fun, calls: &mut BTreeMap<Cont, u32>, bound: &mut Vec<Cont>| {
        if let Answer::Call(cont, _) = fun.answer {
            *calls.entry(cont).or_insert(0) += 1;
        }
        let bodies = fun.lets.iter().filter_map(|stmt| stmt.rhs.body());
        bodies.for_each(|(_, body)| count_calls(body, calls, bound));
    };
    if let Some((cont, start)) = &block.start {
        bound.push(*cont);
        fun(start, calls, bound);
    }
    for stmt in &block.stmts {
        if let Some((_, body)) = stmt.rhs.body() {
            count_calls(body, calls, bound);
        }
        if let Some((cont, back)) = &stmt.back {
            bound.push(*cont);
            fun(back, calls, bound);
        }
    }
    if let Tail::Pair(_, last) | Tail::Apply(last, _) = &block.tail {
        fun(last, calls, bound);
    }
}

/// "Every variable Y which is not of ground type has exactly one occurrence in the term."
#[test]
fn each_continuation_variable_occurs_once() -> Result<()> {
    let mut n = 0;
    for sample in programs(3, 2000, 0, true) {
        let derivative = differentiate(&sample?.program)?;
        let (mut calls, mut bound) = (BTreeMap::new(), Vec::new());
        count_calls(&derivative.body, &mut calls, &mut bound);
        n += bound.len();
        bound.sort_unstable();
        assert!(bound.iter().eq(calls.keys()), "{derivative}");
        assert!(calls.values().all(|n| *n == 1), "{derivative}");
    }
    println!("{n} continuation variables occur once");
    Ok(())
}

/// "After the partial evaluation step, D(e) does not have lambda abstractions"; nothing but pure terms of the first order is left.
#[test]
fn no_lambda_is_left() -> Result<()> {
    for sample in programs(4, 1000, 0, true) {
        let sample = sample?;
        let derivative = differentiate(&sample.program)?;
        assert!(is_unary_form(&derivative).is_err());
        let g = partially_evaluate(&derivative, Seeds::Variables, Rules::default())?;
        assert_eq!(is_unary_form(&g), Ok(()), "{g}");
        let is_pure = |term: &Term| match term {
            Term::Var(_) | Term::Let(..) | Term::Real(_) | Term::Unit | Term::Prim(..) => true,
            Term::Pair(..) | Term::Fst(_) | Term::Snd(_) => true,
            Term::Map(..) | Term::Reduce { .. } | Term::Scan { .. } => true,
            // Functions, applications, and whatever has effects or control.
            _ => false,
        };
        assert!(to_lambda(&g)?.terms.values().all(is_pure), "{g}");
    }
    Ok(())
}

/// A derivative answers the same cotangents with its continuations, without them, and as it is made at once.
#[test]
fn partial_evaluation_keeps_the_meaning() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(12);
    for sample in programs(5, 1000, 0, false) {
        let sample = sample?;
        let at = point(&sample, &mut rng);
        let args = arguments(&sample, &at);
        let derivative = differentiate(&sample.program)?;
        let with = to_lambda(&derivative)?;
        let mut machine = lambda::Machine::new(&with)?;
        let result = machine.evaluate(&args)?;
        let (value, back) = result.as_pair()?;
        let starts = arguments(&sample, &vec![Field::zero(); at.len()]);
        let cotangents =
            machine.call(back, Value::tuple(starts.into_iter().chain([Value::Real(Field::integer(1))])))?;
        let before: Vec<Field> =
            [*value.as_real()?].into_iter().chain(cotangents.numbers().into_iter().copied()).collect();
        let g = by_continuations(&sample.program)?;
        assert_eq!(before, numbers(&g, &args)?, "{derivative}\n{g}");
        let at_once = adjoint(&sample.program, Seeds::One)?;
        verify("adjoint", &at_once)?;
        assert_eq!(before, numbers(&at_once, &args)?, "{at_once}");
        let at_once = partially_evaluate(&at_once, Seeds::One, Rules::default())?;
        assert_eq!(at_once.to_string(), g.to_string());
    }
    Ok(())
}

/// The costs of a program and of its derivative, after partial evaluation by some rules.
fn costs(sample: &Sample, seeds: Seeds, rules: Rules) -> Result<(Cost, Cost)> {
    let derivative = partially_evaluate(&differentiate(&sample.program)?, seeds, rules)?;
    let mut all = shapes(sample);
    let e = cost(&sample.program, &all)?;
    if seeds == Seeds::Variables {
        all.extend(shapes(sample));
    }
    all.push(Shape::Real);
    Ok((e, cost(&derivative, &all)?))
}

fn ratio((e, g): (Cost, Cost)) -> f64 {
    g.total() as f64 / e.total() as f64
}

/// `cost(G) <= 4 * 3^p * cost(e)`, on arrays that have an element.
#[test]
fn cheap_gradient_principle() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(6);
    for p in 0..4 {
        let bound = 4 * 3_u64.pow(p);
        let (mut n, mut worst, mut at) = (0, 0.0, String::new());
        for k in 0..8000 {
            let grammar = Grammar { nesting: p as usize, functions: true, all: false, size: 1 + k % 8 };
            let sample = sample(&mut rng, grammar, 1 + (k % 9) as u64)?;
            if array_nesting(&sample.program) != p as usize {
                continue;
            }
            let (e, g) = costs(&sample, Seeds::Zero, Rules::default())?;
            assert!(g.total() <= bound * e.total(), "{g} > {bound} * {e}\n{}", sample.program);
            n += 1;
            if e.total() > 0 && ratio((e, g)) > worst {
                (worst, at) = (ratio((e, g)), format!("{e} -> {g}: {}", sample.program).replace('\n', " "));
            }
        }
        println!("p = {p}: {worst:.3} of {bound} on {n} programs; {}", if at.len() < 200 { &at } else { "" });
        assert!(p > 0 || worst == 4.0);
    }
    Ok(())
}

/// Without `0 + e == e` the constant is more than 4.
#[test]
fn cheap_gradient_principle_needs_the_rule_of_zero() -> Result<()> {
    let without = Rules { zero: false, ..Rules::default() };
    let mut b = Builder::new();
    let (x, y) = (b.param("x1", Type::Real), b.param("x2", Type::Real));
    let result = b.mul(x, y)?;
    let product = at_length(b.finish(result)?, 0);
    let seen = ratio(costs(&product, Seeds::Variables, without)?);
    println!(
        "x1 * x2: {seen:.3} without 0 + e == e, {:.3} with it",
        ratio(costs(&product, Seeds::Zero, Rules::default())?)
    );
    assert_eq!(seen, 5.0);
    assert_eq!(ratio(costs(&product, Seeds::Zero, Rules::default())?), 3.0);
    Ok(())
}

/// The sum of the four counts is bounded, a count alone is not: `x * x` has no addition, its derivative has one.
#[test]
fn cheap_gradient_principle_does_not_hold_for_each_count() -> Result<()> {
    let mut b = Builder::new();
    let x = b.param("x", Type::Real);
    let result = b.mul(x, x)?;
    let (e, g) = costs(&at_length(b.finish(result)?, 0), Seeds::Zero, Rules::default())?;
    println!("x * x: {e} -> {g}");
    assert_eq!((e.to_string(), g.to_string()), ("(3, 0, 1, 0)".to_string(), "(12, 1, 3, 0)".to_string()));
    assert_eq!(g.total(), 4 * e.total());
    assert!(g.adds > 4 * e.adds);
    Ok(())
}

/// Nothing is a bound on an empty array: the fold costs nothing, and the cotangent of its start takes a product.
#[test]
fn cheap_gradient_principle_needs_elements() -> Result<()> {
    let mut b = Builder::new();
    let (a, x) = (b.param("A", Type::array(Type::Real)), b.param("x", Type::Real));
    let result = b.reduce(x, a, |b, s, y| b.mul(s, y))?;
    let program = b.finish(result)?;
    let (e, g) = costs(&at_length(program.clone(), 0), Seeds::Zero, Rules::default())?;
    assert_eq!(e.total(), 0);
    assert!(g.total() > 0);
    let (e, g) = costs(&at_length(program, 1), Seeds::Zero, Rules::default())?;
    assert!(g.total() <= 12 * e.total(), "{e} {g}");
    Ok(())
}

/// `e_p = sum (map (y. e_(p-1)(x * y)) A)` and `e_0 = x * x`.
fn nest(p: usize) -> Result<Program> {
    fn of(b: &mut Builder, a: Var, x: Atom, p: usize) -> Result<Atom> {
        if p == 0 {
            return b.mul(x, x);
        }
        let map = b.map(&[a.into()], |b, y| {
            let product = b.mul(x, y[0])?;
            of(b, a, product, p - 1)
        })?;
        b.reduce(0.0, map, |b, x, y| b.add(x, y))
    }
    let mut b = Builder::new();
    let (a, x) = (b.param("A", Type::array(Type::Real)), b.param("x", Type::Real));
    let result = of(&mut b, a, x.into(), p)?;
    b.finish(result)
}

/// The ratio grows with the nesting: each level calls the gradients of its body in series of their own.
#[test]
fn ratio_of_nested_arrays() -> Result<()> {
    let mut ratios = Vec::new();
    for p in 0..5 {
        let sample = at_length(nest(p)?, 8);
        let seen = ratio(costs(&sample, Seeds::Zero, Rules::default())?);
        let optimised = optimised(&sample.program, Assumptions::default())?.program;
        let after = cost(&optimised, &shapes(&sample))?.total() as f64
            / cost(&sample.program, &shapes(&sample))?.total() as f64;
        println!("p = {p}: {seen:.2} of {}, {after:.2} after the optimiser", 4 * 3_u32.pow(p as u32));
        assert!(seen <= 4.0 * 3.0_f64.powi(p as i32));
        ratios.push(seen);
    }
    assert!(ratios.windows(2).all(|pair| pair[0] < pair[1]), "{ratios:?}");
    Ok(())
}

#[test]
fn optimiser_keeps_the_meaning_and_saves_work() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(13);
    let mut applied: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut before, mut after) = (0, 0);
    for sample in programs(7, 2000, 1, false) {
        let sample = sample?;
        let at = point(&sample, &mut rng);
        let args = arguments(&sample, &at);
        let g = by_continuations(&sample.program)?;
        let expected = numbers(&g, &args)?;
        // Arrays may become empty by shifts, so nothing is assumed of their lengths.
        let optimised = optimise(&g, Assumptions::default())?;
        verify("optimise", &optimised.program)?;
        assert_eq!(numbers(&optimised.program, &args)?, expected, "{g}\n{}", optimised.program);
        let again = optimise(&optimised.program, Assumptions::default())?;
        assert_eq!(again.program.to_string(), optimised.program.to_string());
        before += cost(&g, &shapes(&sample))?.total();
        after += cost(&optimised.program, &shapes(&sample))?.total();
        optimised.applied.into_iter().for_each(|(name, n)| *applied.entry(name).or_insert(0) += n);
    }
    println!("cost {before} before, {after} after; {applied:?}");
    assert!(after < before);
    Ok(())
}

/// Each rule of the optimiser is applied somewhere: in random programs and in the closed forms.
#[test]
fn each_equation_is_applied() -> Result<()> {
    let mut left: Vec<&str> = EQUATIONS.iter().map(|equation| equation.name).collect();
    let mut apply = |optimised: Optimised| left.retain(|name| !optimised.applied.contains_key(name));
    apply(optimised(&testing::prod()?, Assumptions { non_empty: true })?);
    let mut b = Builder::new();
    let pair = Type::tuple([Type::Real, Type::Real]);
    let (p, q) = (b.param("p", pair.clone()), b.param("q", pair));
    let sum = b.add(p, q)?;
    let result = b.part(sum, 1)?;
    apply(optimise(&b.finish(result)?, Assumptions::default())?);
    let mut b = Builder::new();
    let a = b.param("A", Type::array(Type::Real));
    let squares = b.map(&[a.into()], |b, x| b.mul(x[0], x[0]))?;
    let result = b.drop(End::First, squares)?;
    apply(optimise(&b.finish(result)?, Assumptions::default())?);
    for sample in programs(8, 1500, 0, false) {
        apply(optimised(&sample?.program, Assumptions::default())?);
    }
    assert!(left.is_empty(), "not applied: {left:?}");
    Ok(())
}

/// Programs survive the way to the lambda calculus and back.
#[test]
fn lambda_terms_and_back() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(14);
    for sample in programs(9, 1000, 0, false) {
        let sample = sample?;
        let lambda = to_lambda(&sample.program)?;
        let again = from_lambda(&lambda)?;
        let at = point(&sample, &mut rng);
        let args = arguments(&sample, &at);
        assert_eq!(numbers(&again, &args)?, numbers(&sample.program, &args)?, "{lambda}\n{again}");
        let gradient = lambda::evaluate(&gradient(&lambda)?, &args)?.0;
        let expected = forward(&sample, &at)?;
        assert_eq!(gradient.numbers(), expected.iter().collect::<Vec<_>>());
    }
    Ok(())
}

/// Programs of the generator that all methods share, where the source language has them.
#[test]
fn gradients_of_shared_programs() -> Result<()> {
    use crate::functional::lambda::random::{Config, Random, Scalars, random_arguments, random_program};
    let config = Config {
        scalars: Scalars::Polynomial,
        arrays: true,
        maps: true,
        reductions: true,
        scans: true,
        sums: false,
        ..Config::first_order(30)
    };
    let mut random = Random::new(16);
    let (mut n, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let program = random_program(&mut random, &config)?;
        let args = random_arguments::<Field>(&mut random, &program)?;
        let gradient = match gradient(&program) {
            Err(Error::Limitation { .. }) => {
                refused += 1;
                continue;
            }
            gradient => gradient?,
        };
        let mut found = lambda::evaluate(&gradient, &args)?.0.numbers().into_iter().copied().collect::<Vec<_>>();
        let numbers: Vec<Field> = args.iter().flat_map(|arg| arg.numbers()).copied().collect();
        for k in (0..numbers.len()).rev() {
            let mut j = 0;
            let mut dual = |x: &Field| {
                let tangent = (j == k).then(|| Field::integer(1));
                j += 1;
                Ok(Dual { value: *x, tangent })
            };
            let duals = args.iter().map(|arg| arg.map(&mut dual)).collect::<Result<Vec<_>>>()?;
            let expected = lambda::evaluate(&program, &duals)?.0.as_real()?.derivative();
            assert_eq!(found.pop(), Some(expected), "{program}\n{gradient}");
        }
        n += 1;
    }
    println!("{n} programs agree, {refused} are not of the source language");
    assert!(n > 1000);
    Ok(())
}

/// The language is closed under gradients: those of a component of a gradient are second derivatives.
#[test]
fn second_derivatives() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(15);
    for (k, sample) in programs(10, 400, 0, false).enumerate() {
        let mut sample = sample?;
        let at = point(&sample, &mut rng);
        let Some(first) = first_cotangent(gradient_of(&sample.program)?) else { continue };
        sample.program = first;
        assert!(agrees(&sample, &at)?, "{k}: {}", sample.program);
    }
    // With functions: d2/dx2 of tanh(x)^2.
    let mut b = Builder::new();
    let x = b.param("x", Type::Real);
    let y = b.op(crate::scalar::Op::Tanh, &[x.into()])?;
    let result = b.mul(y, y)?;
    let program = b.finish(result)?;
    let first = first_cotangent(gradient_of(&program)?).unwrap_or(introduction()?);
    let found = numbers(&gradient_of(&first)?, &[Value::Real(0.4)])?;
    let dual = |x: f64| Dual::new(Dual::new(x, 1.0), Dual::constant(1.0));
    let expected = lambda::evaluate(&to_lambda(&program)?, &[Value::Real(dual(0.4))])?.0.as_real()?.derivative();
    assert!((found[0] - expected.value).abs() < 1e-14 && (found[1] - expected.derivative()).abs() < 1e-14);
    Ok(())
}

/// The program of the cotangent of the first parameter, which is a real number in random programs.
fn first_cotangent(mut gradient: Program) -> Option<Program> {
    let components = |program: &Program, a: Atom| match program.body.stmts.iter().find(|stmt| Some(stmt.var) == a.var())
    {
        Some(Stmt { rhs: Rhs::Tuple(of), .. }) => Some(of.clone()),
        _ => None,
    };
    let result = gradient.body.result().ok()?;
    let cotangents = *components(&gradient, result)?.get(1)?;
    let first = *components(&gradient, cotangents)?.first()?;
    gradient.body.tail = Tail::Value(first);
    Some(gradient)
}

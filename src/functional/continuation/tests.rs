use super::random::{Grammar, Sample, sample};
use super::*;
use crate::error::Result;
use crate::functional::lambda::{self, Value};
use crate::reference::{Dual, Field, Numeric};

/// A value of a type, of numbers one after the other; all arrays have the length `n`.
fn value<T: Numeric>(ty: &Type, n: u64, next: &mut impl FnMut() -> T) -> Value<T> {
    match ty {
        Type::Real => Value::Real(next()),
        Type::Tuple(of) => Value::tuple(of.iter().map(|ty| value(ty, n, next)).collect::<Vec<_>>()),
        Type::Array(element) => Value::array((0..n).map(|_| value(element, n, next)).collect()),
    }
}

fn arguments<T: Numeric>(sample: &Sample, next: &mut impl FnMut() -> T) -> Vec<Value<T>> {
    sample.program.params.iter().map(|x| value(sample.program.ty(*x), sample.n, next)).collect()
}

fn numbers<T: Numeric>(program: &Program, args: &[Value<T>]) -> Result<Vec<T>> {
    let lambda = to_lambda(program)?;
    let value = lambda::evaluate(&lambda, args)?.0;
    Ok(value.numbers().into_iter().cloned().collect())
}

/// The value and all partial derivatives by forward mode.
fn forward<T: Numeric>(sample: &Sample, at: &[T]) -> Result<Vec<T>> {
    let lambda = to_lambda(&sample.program)?;
    let mut all = Vec::new();
    for k in 0..at.len() {
        let mut j = 0;
        let args = arguments(sample, &mut || {
            j += 1;
            let x = at[j - 1].clone();
            if j - 1 == k { Dual::new(x, T::integer(1)) } else { Dual::constant(x) }
        });
        let value = lambda::evaluate(&lambda, &args)?.0;
        let result = value.numbers();
        if k == 0 {
            all.extend(result.iter().map(|d| d.value.clone()));
        }
        all.extend(result.iter().map(|d| d.derivative()));
    }
    Ok(all)
}

fn count(sample: &Sample) -> usize {
    let mut n = 0;
    arguments(sample, &mut || {
        n += 1;
        0.0
    });
    n
}

fn gradient_program(program: &Program) -> Result<Program> {
    let g = partially_evaluate(&differentiate(program)?, Seeds::One, Rules::default())?;
    verify("partial-evaluation", &g)?;
    Ok(g)
}

#[test]
fn random_gradients_modulo_a_prime() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut operations = 0;
    for k in 0..3000 {
        let grammar = Grammar { nesting: k % 4, functions: false, all: k % 3 != 0, size: 8 };
        let sample = sample(&mut rng, grammar, (k % 5) as u64)?;
        let at: Vec<Field> = (0..count(&sample)).map(|_| Field::new(rng.u64(..))).collect();
        let expected = forward(&sample, &at)?;
        let g = gradient_program(&sample.program)?;
        operations += sample.program.size();
        let mut next = at.iter().copied();
        let args = arguments(&sample, &mut || next.next().unwrap_or(Field::new(0)));
        let found = numbers(&g, &args)?;
        assert_eq!(found, expected, "{}\n---\n{}\n---\n{g}", sample.program, differentiate(&sample.program)?);
    }
    println!("operations: {operations}");
    Ok(())
}

fn shapes(sample: &Sample) -> Vec<Shape> {
    sample.program.params.iter().map(|x| Shape::of(sample.program.ty(*x), sample.n)).collect()
}

#[test]
fn random_bound() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(2);
    for all in [false, true] {
        for nesting in 0..4 {
            for (seeds, rules) in [(Seeds::Zero, Rules::default()), (Seeds::Variables, Rules { zero: false, one: true })] {
                let mut worst = (0.0, String::new());
                for k in 0..20000 {
                    let grammar = Grammar { nesting, functions: true, all, size: 1 + k % 8 };
                    let sample = sample(&mut rng, grammar, 1 + (k % 9) as u64)?;
                    let p = array_nesting(&sample.program);
                    if p != nesting { continue }
                    let g = partially_evaluate(&differentiate(&sample.program)?, seeds, rules)?;
                    let e = cost(&sample.program, &shapes(&sample))?;
                    let mut all_shapes = shapes(&sample);
                    if seeds == Seeds::Variables { all_shapes.extend(shapes(&sample)); }
                    all_shapes.push(Shape::Real);
                    let g_cost = cost(&g, &all_shapes)?;
                    if e.total() == 0 { assert!(seeds == Seeds::Variables || g_cost.total() == 0, "{}\n{g}", sample.program); continue }
                    let ratio = g_cost.total() as f64 / e.total() as f64;
                    if ratio > worst.0 {
                        worst = (ratio, format!("n = {} {e} {g_cost}\n{}\n{g}", sample.n, sample.program));
                    }
                }
                println!("all {all} nesting {nesting} {seeds:?}: {} of {}\n{}", worst.0, 4 * 3u32.pow(nesting as u32), if worst.1.len() < 1500 { &worst.1 } else { "" });
            }
        }
    }
    Ok(())
}

#[test]
fn closed_forms() -> Result<()> {
    let non_empty = Assumptions { non_empty: true };
    let real_array = || Type::array(Type::Real);
    let mut b = Builder::new();
    let a = b.param("A", real_array());
    let r = b.reduce(1.0, a, |b, x, y| b.mul(x, y))?;
    let prod = b.finish(r)?;
    let mut b = Builder::new();
    let a = b.param("A", real_array());
    let r = b.reduce(0.0, a, |b, x, y| b.add(x, y))?;
    let sum = b.finish(r)?;
    let mut b = Builder::new();
    let (a1, a2) = (b.param("A", real_array()), b.param("B", real_array()));
    let c = b.map(&[a1.into(), a2.into()], |b, x| b.mul(x[0], x[1]))?;
    let r = b.reduce(0.0, c, |b, x, y| b.add(x, y))?;
    let dot = b.finish(r)?;
    for p in [prod, sum, dot] {
        let g = optimise(&gradient_program(&p)?, non_empty)?;
        verify("optimise", &g.program)?;
        println!("{}\n{}\n{:?}", g.program, print_component(&g.program, &[1, 0]), g.applied);
    }
    Ok(())
}

#[test]
fn random_optimised_gradients() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut applied = std::collections::BTreeMap::new();
    let (mut before, mut after) = (0, 0);
    for k in 0..2000 {
        let grammar = Grammar { nesting: k % 4, functions: false, all: k % 3 != 0, size: 8 };
        let sample = sample(&mut rng, grammar, (k % 5) as u64)?;
        let at: Vec<Field> = (0..count(&sample)).map(|_| Field::new(rng.u64(..))).collect();
        let expected = forward(&sample, &at)?;
        let g = gradient_program(&sample.program)?;
        let optimised = optimise(&g, Assumptions::default())?;
        verify("optimise", &optimised.program)?;
        optimised.applied.into_iter().for_each(|(name, n)| *applied.entry(name).or_insert(0) += n);
        before += cost(&g, &shapes(&sample))?.total();
        after += cost(&optimised.program, &shapes(&sample))?.total();
        let mut next = at.iter().copied();
        let args = arguments(&sample, &mut || next.next().unwrap_or(Field::new(0)));
        let found = numbers(&optimised.program, &args)?;
        assert_eq!(found, expected, "{}\n---\n{g}\n---\n{}", sample.program, optimised.program);
    }
    println!("cost: {before} before, {after} after; {applied:?}");
    Ok(())
}

#[test]
fn random_round_trip_and_second_order() -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(4);
    let (mut size, mut size2) = (0, 0);
    for k in 0..600 {
        let grammar = Grammar { nesting: k % 3, functions: false, all: k % 3 != 0, size: 4 };
        let sample = sample(&mut rng, grammar, (k % 4) as u64)?;
        let again = from_lambda(&to_lambda(&sample.program)?)?;
        let again = Sample { program: again, ..sample };
        let at: Vec<Field> = (0..count(&again)).map(|_| Field::new(rng.u64(..))).collect();
        let expected = forward(&again, &at)?;
        let g = gradient_of(&again.program)?;
        let mut next = at.iter().copied();
        let args = arguments(&again, &mut || next.next().unwrap_or(Field::new(0)));
        assert_eq!(numbers(&g, &args)?, expected, "{}", again.program);
        // The value and the sum of the cotangents of all real parameters.
        let mut b = Builder::new();
        let _ = &mut b;
        let mut h = g.clone();
        let Tail::Value(Atom::Var(x)) = h.body.tail else { continue };
        let Some(Rhs::Tuple(of)) = h.body.stmts.iter().find(|s| s.var == x).map(|s| s.rhs.clone()) else { continue };
        let Some(Rhs::Tuple(parts)) = h.body.stmts.iter().find(|s| Some(s.var) == of[1].var()).map(|s| s.rhs.clone()) else { continue };
        h.body.tail = Tail::Value(parts[0]);
        let h = from_lambda(&to_lambda(&h)?)?;
        let hs = Sample { program: h, n: again.n };
        let expected = forward(&hs, &at)?;
        let hg = gradient_of(&hs.program)?;
        size += hs.program.size(); size2 += hg.size();
        assert_eq!(numbers(&hg, &args)?, expected, "{}", hs.program);
    }
    println!("{size} {size2}");
    Ok(())
}

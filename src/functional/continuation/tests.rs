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

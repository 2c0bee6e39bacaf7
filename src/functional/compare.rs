//! Judges of gradients that share no code with the methods: forward mode by evaluation at dual numbers, and the complex step.
//!
//! ```text
//! e (x + ε dx)       ==  e x + ε (De x dx)          for dual numbers, whose ε² is 0: exact, also modulo a prime
//! Im e (x + i h dx)  ==  h (De x dx) + O(h³)        for complex numbers: no difference is taken, so h may be tiny
//! ```
//!
//! Both run the program itself in the evaluator, so they take every term that it takes: sums, functions, loops, recursion, fork-join. A gradient of `n`
//! numbers takes `n` evaluations. Integers have no tangents. Where a comparison depends on a real number, both follow the branch that is taken. At a kink, such
//! as that of `abs` at 0, dual numbers have the derivative of the operator table, and the complex step that of a side.
//!
//! Refused by the complex step: scalar functions without an elementary formula over the complex numbers, such as `erf`.

use num_complex::Complex64;

use crate::error::{Error, Result};
use crate::functional::lambda::{Program, Value, evaluate};
use crate::reference::{Dual, Numeric};

/// The `h` of the complex step: its square vanishes beside any normal number.
pub const STEP: f64 = 1e-100;

/// The result of a program of type real.
fn real<T: Numeric>(program: &Program, args: &[Value<T>]) -> Result<T> {
    let (value, _) = evaluate(program, args)?;
    match value {
        Value::Real(x) => Ok(x),
        _ => Err(Error::Request("a derivative is that of a program of type real".to_string())),
    }
}

/// The arguments, with a number that each of their numbers becomes by its place.
fn with<T, U>(args: &[Value<T>], mut f: impl FnMut(usize, &T) -> Result<U>) -> Result<Vec<Value<U>>> {
    let mut place = 0;
    let mut next = |x: &T| {
        place += 1;
        f(place - 1, x)
    };
    args.iter().map(|arg| arg.map(&mut next)).collect()
}

/// The number of real numbers in arguments.
fn count<T>(args: &[Value<T>]) -> usize {
    args.iter().map(|arg| arg.numbers().len()).sum()
}

/// The tangents of arguments, number by number.
fn tangents<T: Numeric>(args: &[Value<T>], along: &[Value<T>]) -> Result<Vec<T>> {
    let tangents: Vec<T> = along.iter().flat_map(|tangent| tangent.numbers()).cloned().collect();
    match tangents.len() == count(args) {
        true => Ok(tangents),
        false => Err(Error::Request(format!("{} tangents for {} numbers", tangents.len(), count(args)))),
    }
}

/// The value of a program of type real, and its derivative along tangents of the shapes of the arguments, at dual numbers.
///
/// # Errors
/// Of the evaluator; [`Error::Request`] where the result is no real number or the tangents are not as many as the numbers.
pub fn forward<T: Numeric>(program: &Program, args: &[Value<T>], along: &[Value<T>]) -> Result<(T, T)> {
    let tangents = tangents(args, along)?;
    let result = real(program, &with(args, |k, x| Ok(Dual::new(x.clone(), tangents[k].clone())))?)?;
    let derivative = result.derivative();
    Ok((result.value, derivative))
}

/// The value of a program of type real, and its partial derivatives by all numbers of the arguments, from left to right, at dual numbers.
///
/// # Errors
/// Of the evaluator; [`Error::Request`] where the result is no real number.
pub fn forward_gradient<T: Numeric>(program: &Program, args: &[Value<T>]) -> Result<(T, Vec<T>)> {
    let value = real(program, args)?;
    let partial = |k: usize| {
        // The others are constants, so that no partial derivative is taken that does not exist.
        let duals = with(args, |j, x| Ok(Dual { value: x.clone(), tangent: (j == k).then(|| T::integer(1)) }))?;
        Ok(real(program, &duals)?.derivative())
    };
    Ok((value, (0..count(args)).map(partial).collect::<Result<_>>()?))
}

/// The derivative of a program of type real along tangents of the shapes of the arguments, by the complex step.
///
/// # Errors
/// As [`forward`]; [`Error::Limitation`] for functions that are not defined over the complex numbers.
pub fn complex_step(program: &Program, args: &[Value<f64>], along: &[Value<f64>]) -> Result<f64> {
    let tangents = tangents(args, along)?;
    let result = real(program, &with(args, |k, x| Ok(Complex64::new(*x, STEP * tangents[k])))?)?;
    Ok(result.im / STEP)
}

/// The partial derivatives of a program of type real by all numbers of the arguments, from left to right, by the complex step.
///
/// # Errors
/// As [`complex_step`].
pub fn complex_step_gradient(program: &Program, args: &[Value<f64>]) -> Result<Vec<f64>> {
    let partial = |k: usize| {
        let result = real(program, &with(args, |j, x| Ok(Complex64::new(*x, if j == k { STEP } else { 0.0 })))?)?;
        Ok(result.im / STEP)
    };
    (0..count(args)).map(partial).collect()
}

/// The largest difference of two gradients, relative to the largest number among them, or to 1 where all are smaller; nothing where their lengths differ.
/// Two NaN, and two infinities of one sign, are equal.
pub fn difference(found: &[f64], expected: &[f64]) -> Option<f64> {
    let finite = found.iter().chain(expected).filter(|x| x.is_finite());
    let scale = finite.fold(1.0_f64, |scale, x| scale.max(x.abs()));
    let one =
        |(a, b): (&f64, &f64)| if a == b || (f64::is_nan(*a) && f64::is_nan(*b)) { 0.0 } else { (a - b).abs() / scale };
    let largest = found
        .iter()
        .zip(expected)
        .map(one)
        .fold(0.0, |largest: f64, d| if f64::is_nan(d) { d } else { largest.max(d) });
    (found.len() == expected.len()).then_some(largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functional::lambda::parse;
    use crate::functional::lambda::random::{Config, Random, Scalars, random_arguments, random_program};
    use crate::reference::Field;

    #[test]
    fn judges_of_a_recursion() -> Result<()> {
        let program = parse("param x : real\n(rec f(k : int) : real. if k < 1 then 1.0 else f (k + -1) * x) 5")?;
        let args = [Value::Real(1.5)];
        assert_eq!(forward_gradient(&program, &args)?, (1.5_f64.powi(5), vec![5.0 * 1.5_f64.powi(4)]));
        assert_eq!(
            difference(&complex_step_gradient(&program, &args)?, &[5.0 * 1.5_f64.powi(4)]).map(|d| d < 1e-15),
            Some(true)
        );
        assert_eq!(forward(&program, &args, &[Value::Real(2.0)])?.1, 10.0 * 1.5_f64.powi(4));
        Ok(())
    }

    #[test]
    fn judges_agree_on_random_programs() -> Result<()> {
        let mut random = Random::new(20);
        let (mut n, mut worst) = (0, 0.0_f64);
        for _ in 0..3000 {
            let program = random_program(&mut random, &Config::all(50))?;
            // Multiples of 1/8 meet kinks, where the two judges may take different sides.
            let args = with(&random_arguments::<f64>(&mut random, &program)?, |_, x| Ok(x + 0.0137))?;
            let (_, expected) = forward_gradient(&program, &args)?;
            let found = match complex_step_gradient(&program, &args) {
                Err(Error::Limitation { .. }) => continue,
                found => found?,
            };
            if expected.iter().any(|x| !x.is_finite()) {
                continue;
            }
            worst = worst.max(difference(&found, &expected).unwrap_or(f64::INFINITY));
            n += 1;
        }
        println!("{n} programs: dual numbers and the complex step differ by {worst:e} at most");
        assert!(n > 1000 && worst < 1e-9);
        Ok(())
    }

    #[test]
    fn directions_are_sums_of_partials_modulo_a_prime() -> Result<()> {
        let config = Config { scalars: Scalars::Polynomial, ..Config::all(40) };
        let mut random = Random::new(21);
        for _ in 0..1000 {
            let program = random_program(&mut random, &config)?;
            let args = random_arguments::<Field>(&mut random, &program)?;
            let along = with(&args, |k, _| Ok(Field::new(3 * k as u64 + 1)))?;
            let (value, gradient) = forward_gradient(&program, &args)?;
            let sum = (0..).zip(&gradient).fold(Field::zero(), |sum, (k, d)| sum.add(&d.mul(&Field::new(3 * k + 1))));
            assert_eq!(forward(&program, &args, &along)?, (value, sum), "{program}");
        }
        Ok(())
    }

    #[test]
    fn difference_of_special_values() {
        assert_eq!(difference(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(difference(&[f64::NAN, f64::INFINITY], &[f64::NAN, f64::INFINITY]), Some(0.0));
        assert_eq!(difference(&[f64::NAN], &[1.0]).map(f64::is_nan), Some(true));
        assert_eq!(difference(&[3.0, 0.0], &[4.0, 0.0]), Some(0.25));
    }
}

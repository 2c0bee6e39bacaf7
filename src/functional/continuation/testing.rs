//! What the tests share: random programs at random points, and forward mode as the judge.

use super::data::{Program, Type};
use super::export::to_lambda;
use super::gradient::gradient_of;
use super::partial::{Rules, partially_evaluate};
use super::random::Sample;
use super::reverse::{Seeds, differentiate};
use super::verify::verify;
use super::{Assumptions, Builder, Optimised, Shape, optimise};
use crate::error::Result;
use crate::functional::lambda::{self, Value};
use crate::reference::{Dual, Numeric};

/// A value of a type, of numbers one after the other; all arrays have the length `n`.
fn value<T: Numeric>(ty: &Type, n: u64, next: &mut impl FnMut() -> T) -> Value<T> {
    match ty {
        Type::Real => Value::Real(next()),
        Type::Tuple(of) => Value::tuple(of.iter().map(|ty| value(ty, n, next)).collect::<Vec<_>>()),
        Type::Array(element) => Value::array((0..n).map(|_| value(element, n, next)).collect()),
    }
}

/// The arguments of a program, of numbers one after the other.
pub(super) fn arguments<T: Numeric>(sample: &Sample, at: &[T]) -> Vec<Value<T>> {
    let mut next = at.iter().cloned();
    let mut next = || next.next().unwrap_or_else(T::zero);
    sample.program.params.iter().map(|x| value(sample.program.ty(*x), sample.n, &mut next)).collect()
}

/// The number of numbers in the arguments of a program.
pub(super) fn count(sample: &Sample) -> usize {
    shapes(sample).iter().map(|shape| shape.size() as usize).sum()
}

/// The shapes of the parameters.
pub(super) fn shapes(sample: &Sample) -> Vec<Shape> {
    sample.program.params.iter().map(|x| Shape::of(sample.program.ty(*x), sample.n)).collect()
}

/// All numbers of the result of a program.
pub(super) fn numbers<T: Numeric>(program: &Program, args: &[Value<T>]) -> Result<Vec<T>> {
    let value = lambda::evaluate(&to_lambda(program)?, args)?.0;
    Ok(value.numbers().into_iter().cloned().collect())
}

/// The value and all partial derivatives of a program of type real by forward mode: one evaluation at dual numbers for each.
pub(super) fn forward<T: Numeric>(sample: &Sample, at: &[T]) -> Result<Vec<T>> {
    let lambda = to_lambda(&sample.program)?;
    let mut all = vec![lambda::evaluate(&lambda, &arguments(sample, at))?.0.as_real()?.clone()];
    for k in 0..at.len() {
        let mut duals: Vec<Dual<T>> = at.iter().cloned().map(Dual::constant).collect();
        duals[k].tangent = Some(T::integer(1));
        all.push(lambda::evaluate(&lambda, &arguments(sample, &duals))?.0.as_real()?.derivative());
    }
    Ok(all)
}

/// The gradient with continuations, partially evaluated and not optimised.
pub(super) fn by_continuations(program: &Program) -> Result<Program> {
    let derivative = differentiate(program)?;
    verify("reverse", &derivative)?;
    let g = partially_evaluate(&derivative, Seeds::One, Rules::default())?;
    verify("partial-evaluation", &g)?;
    Ok(g)
}

/// The gradient by all steps of the paper.
pub(super) fn optimised(program: &Program, assumptions: Assumptions) -> Result<Optimised> {
    let optimised = optimise(&by_continuations(program)?, assumptions)?;
    verify("optimise", &optimised.program)?;
    Ok(optimised)
}

/// `prod`, `sum` and `dot`.
pub(super) fn prod() -> Result<Program> {
    let mut b = Builder::new();
    let a = b.param("A", Type::array(Type::Real));
    let result = b.reduce(1.0, a, |b, x, y| b.mul(x, y))?;
    b.finish(result)
}

pub(super) fn sum() -> Result<Program> {
    let mut b = Builder::new();
    let a = b.param("A", Type::array(Type::Real));
    let result = b.reduce(0.0, a, |b, x, y| b.add(x, y))?;
    b.finish(result)
}

pub(super) fn dot() -> Result<Program> {
    let mut b = Builder::new();
    let (x, y) = (b.param("A", Type::array(Type::Real)), b.param("B", Type::array(Type::Real)));
    let products = b.map(&[x.into(), y.into()], |b, x| b.mul(x[0], x[1]))?;
    let result = b.reduce(0.0, products, |b, x, y| b.add(x, y))?;
    b.finish(result)
}

/// `let w1 = x1 * x2 in let w2 = w1 * x1 in w2`, of three parameters: the example of the introduction of \[004\].
pub(super) fn introduction() -> Result<Program> {
    let mut b = Builder::new();
    let (x1, x2, _) = (b.param("x1", Type::Real), b.param("x2", Type::Real), b.param("x3", Type::Real));
    let w1 = b.mul(x1, x2)?;
    let w2 = b.mul(w1, x1)?;
    b.finish(w2)
}

/// A program with the lengths of its arrays.
pub(super) fn at_length(program: Program, n: u64) -> Sample {
    Sample { program, n }
}

/// The gradient that users get, checked against forward mode at a point.
pub(super) fn agrees<T: Numeric + PartialEq>(sample: &Sample, at: &[T]) -> Result<bool> {
    Ok(numbers(&gradient_of(&sample.program)?, &arguments(sample, at))? == forward(sample, at)?)
}

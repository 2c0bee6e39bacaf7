//! Operations on reals, and their partial derivatives.

use smallvec::{SmallVec, smallvec};

use crate::error::{Error, Result};
use crate::functional::lambda::Prim;
use crate::reference::Numeric;
use crate::reference::numeric::{Dual, Users};
use crate::scalar::{self, Function, Partial};

/// A partial derivative at a point: a factor, or nothing where it is 1 by definition, or selects the cotangent.
pub(super) type Weight<T> = Option<T>;

/// Partial derivatives, with the numbers of the arguments that they are by.
pub(super) type Partials<T> = SmallVec<[(usize, Weight<T>); 2]>;

/// `d * weight`.
pub(super) fn scale<T: Numeric>(weight: &Weight<T>, d: &T) -> T {
    match weight {
        Some(weight) => weight.mul(d),
        None => d.clone(),
    }
}

/// Whether an operation takes reals and gives one, so that it has a backpropagator.
pub(super) fn is_differentiable(prim: Prim) -> bool {
    matches!(prim, Prim::Add | Prim::Mul | Prim::Neg | Prim::Scalar(_) | Prim::Sum)
}

/// `op(x1, .., xn)`.
pub(super) fn value<T: Numeric>(prim: Prim, args: &[T], users: &Users) -> Result<T> {
    match (prim, args) {
        (Prim::Add, [a, b]) => Ok(a.add(b)),
        (Prim::Mul, [a, b]) => Ok(a.mul(b)),
        (Prim::Neg, [a]) => Ok(T::integer(-1).mul(a)),
        (Prim::Scalar(function), args) => T::apply(function, users, args),
        (Prim::Sum, args) => Ok(args.iter().fold(T::zero(), |sum, a| sum.add(a))),
        _ => Err(Error::bug("dual", "an operation of reals is needed")),
    }
}

/// `∂k op(x1, .., xn)` for each argument that the result depends on.
///
/// An indicator selects: the argument that loses is left out, so that no infinite cotangent beside it makes a NaN.
pub(super) fn partials<T: Numeric>(prim: Prim, args: &[T], users: &Users) -> Result<Partials<T>> {
    Ok(match (prim, args) {
        (Prim::Add, [_, _]) => smallvec![(0, None), (1, None)],
        (Prim::Mul, [a, b]) => smallvec![(0, Some(b.clone())), (1, Some(a.clone()))],
        (Prim::Neg, [_]) => smallvec![(0, Some(T::integer(-1)))],
        (Prim::Sum, args) => (0..args.len()).map(|k| (k, None)).collect(),
        (Prim::Scalar(Function::Value(primitive)), args) => {
            let mut found = SmallVec::new();
            for k in 0..args.len() {
                let index = k as u8;
                match scalar::partial(primitive, index, users) {
                    Partial::Zero => {}
                    Partial::Formula(_) => {
                        found.push((k, Some(T::apply(Function::Partial(primitive, index), users, args)?)));
                    }
                    Partial::Indicator(..) | Partial::Otherwise(_) => {
                        if !T::apply(Function::Partial(primitive, index), users, args)?.is_zero()? {
                            found.push((k, None));
                        }
                    }
                }
            }
            found
        }
        // A partial derivative as a function: its own partial derivatives are tangents of its formula.
        (Prim::Scalar(function @ Function::Partial(..)), args) => {
            let mut found = SmallVec::new();
            for k in 0..args.len() {
                let seeded = |(j, x): (usize, &T)| match j == k {
                    true => Dual::new(x.clone(), T::integer(1)),
                    false => Dual::constant(x.clone()),
                };
                let args: Vec<Dual<T>> = args.iter().enumerate().map(seeded).collect();
                if let Some(tangent) = Dual::apply(function, users, &args)?.tangent {
                    found.push((k, Some(tangent)));
                }
            }
            found
        }
        _ => return Err(Error::bug("dual", "an operation of reals is needed")),
    })
}

//! Partial derivatives of scalar functions, and what they cost.

use super::{Comparison, Formula, Op, Primitive, UserFunction};
use crate::base::{Arena, FunctionId};

/// A partial derivative of a scalar function, as a formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partial {
    /// 0 everywhere.
    Zero,
    /// A formula in the arguments and the value.
    Formula(Formula),
    /// 1 where the comparison holds, else 0. It *selects* the derivative that comes in: where the comparison does not hold the result is 0
    /// even if that derivative is infinite or NaN.
    Indicator(Comparison, Formula, Formula),
    /// 1 where the partial derivative by the argument of this number, an [indicator](Partial::Indicator), is 0, else 0: of two arguments one is
    /// selected. So nothing is asked twice, and that one of both is selected needs no comparison.
    Otherwise(u8),
}

impl From<Formula> for Partial {
    fn from(e: Formula) -> Partial {
        Partial::Formula(e)
    }
}

impl From<&Formula> for Partial {
    fn from(e: &Formula) -> Partial {
        Partial::Formula(e.clone())
    }
}

impl Partial {
    /// The number of scalar operations it takes to compute; a comparison is one.
    pub fn cost(&self) -> u64 {
        match self {
            Partial::Zero => 0,
            Partial::Otherwise(_) => 1,
            Partial::Formula(e) => e.cost(),
            Partial::Indicator(_, a, b) => 1 + a.cost() + b.cost(),
        }
    }
}

/// The partial derivative of a function by its argument of the given number; a function does not depend on an argument that it does
/// not have. NaN for a function that is not in `users`, which [`check`](super::check) reports.
pub fn partial(primitive: Primitive, arg: u8, users: &Arena<FunctionId, UserFunction>) -> Partial {
    let arg = usize::from(arg);
    match primitive {
        Primitive::Op(op) => op.partials().into_iter().nth(arg).unwrap_or(Partial::Zero),
        Primitive::User(id) => match users.get(id) {
            Some(user) => user.partials().get(arg).map_or(Partial::Zero, Partial::from),
            None => Partial::Formula(Formula::Number(f64::NAN)),
        },
    }
}

/// The same as a formula: comparisons are functions, 1 where they hold and 0 elsewhere.
pub fn partial_formula(primitive: Primitive, arg: u8, users: &Arena<FunctionId, UserFunction>) -> Formula {
    match partial(primitive, arg, users) {
        Partial::Zero => Formula::Number(0.0),
        Partial::Formula(e) => e,
        Partial::Indicator(comparison, a, b) => Formula::Apply(Op::Compare(comparison).into(), vec![a, b]),
        Partial::Otherwise(other) => {
            let sides = vec![partial_formula(primitive, other, users), Formula::Number(0.0)];
            Formula::Apply(Op::Compare(Comparison::Equal).into(), sides)
        }
    }
}

/// The number of scalar operations of one partial derivative when it is expanded into the language. The value of a function is one.
pub fn expansion_cost(primitive: Primitive, arg: u8, users: &Arena<FunctionId, UserFunction>) -> u64 {
    partial(primitive, arg, users).cost()
}

/// The number of scalar operations of one application together with its derivative, expanded:
/// `y = f(x0, ..)` and `y' = d0 * x0' + ..`, where partials that are 0 fall away and indicators select instead of multiply.
///
/// It is the constant of the function in the bound of Theorem 6.1 when partial derivatives are not black boxes. An adjoint takes the same
/// partial derivatives and products.
pub fn expanded_cost(primitive: Primitive, users: &Arena<FunctionId, UserFunction>) -> u64 {
    let partials: Vec<Partial> = match primitive {
        Primitive::Op(op) => op.partials(),
        Primitive::User(id) => users.get(id).map_or(Vec::new(), |f| f.partials().iter().map(Partial::from).collect()),
    };
    let summands = partials.iter().filter(|p| **p != Partial::Zero).count() as u64;
    let products = partials.iter().filter(|p| matches!(p, Partial::Formula(_))).count() as u64;
    1 + partials.iter().map(Partial::cost).sum::<u64>() + products + summands.saturating_sub(1)
}

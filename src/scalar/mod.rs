//! Scalar functions.

mod number;
pub mod text_f64;

pub use number::Number;

use serde::{Deserialize, Serialize};

use crate::base::FunctionId;

/// A built-in scalar function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// `a / b`.
    Div,
    /// `a^k` for an integer constant `k`.
    Powi(i32),
    /// `pow(a, b)`, real exponent.
    Pow,
    /// The smaller; the first where equal.
    Min,
    /// The larger; the first where equal.
    Max,
    /// `1` where the comparison holds, else `0`.
    Compare(Comparison),
    /// `-1`, `0` or `1`.
    Sign,
    /// `|a|`.
    Abs,
    /// `e^a`.
    Exp,
    /// Natural logarithm.
    Ln,
    /// `ln(1 + a)`.
    Log1p,
    /// `e^a - 1`.
    Expm1,
    /// Square root.
    Sqrt,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Hyperbolic tangent.
    Tanh,
    /// Arc tangent.
    Atan,
    /// `atan2(y, x)`: the angle of the point `(x, y)`.
    Atan2,
    /// The error function.
    Erf,
    /// `1 / (1 + e^-a)`.
    Sigmoid,
    /// `ln(1 + e^a)`.
    Softplus,
    /// `ln |gamma(a)|`.
    Lgamma,
    /// The derivative of order `k + 1` of `lgamma`; `digamma` is `polygamma` of order 0.
    Polygamma(u32),
    /// `a * ln(b)`, and 0 where `a` is 0: the partial of `pow` by its exponent.
    Xlogy,
}

/// A comparison of reals. `>` and `>=` swap their operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparison {
    /// `a < b`.
    Less,
    /// `a <= b`.
    LessEqual,
    /// `a = b`.
    Equal,
    /// `a != b`.
    NotEqual,
}

/// A scalar function: built in or registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Primitive {
    /// Built in.
    Op(Op),
    /// Registered by the user.
    User(FunctionId),
}

/// What a program may apply to scalars: a primitive, or one of its partial derivatives kept as a black box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Function {
    /// `f(x0, ..)`.
    Value(Primitive),
    /// The partial derivative of `f(x0, ..)` by its argument of the given number, a function of all arguments.
    Partial(Primitive, u8),
}

impl From<Op> for Function {
    fn from(op: Op) -> Self {
        Function::Value(Primitive::Op(op))
    }
}

/// A scalar function registered by the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserFunction {
    /// Its name.
    pub name: String,
}

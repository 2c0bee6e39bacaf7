//! Scalar functions: the operator table, formulas, functions of the user, and what happens at special values.
//!
//! [`Op`] is the list of built-in functions, and the table in `table.rs` holds one row for each: name, value, partial derivatives,
//! domain, algebraic facts, and complex value for checks. Everything else reads the table. Users register further functions with their
//! partial derivatives ([`UserFunction`]); both kinds are a [`Primitive`].
//!
//! Partial derivatives are formulas ([`Formula`]) in the arguments and the value, or indicators ([`Partial::Indicator`]), or their opposites, that select. The
//! built-in functions are closed under partial derivatives, so derivatives of any order exist.
//!
//! Values come from the pure Rust crate `libm` and the code here, so they are the same bits on every platform.
//!
#![doc = include_str!("special_values.md")]

mod complex;
mod evaluate;
pub mod external;
mod formula;
pub(crate) mod names;
mod number;
mod partial;
mod polygamma;
mod table;
#[cfg(test)]
mod tests;
pub mod text_f64;
mod user;
mod value;

pub use evaluate::{evaluate, try_evaluate};
pub use formula::{Formula, Names};
pub use number::Number;
pub use partial::{Partial, expanded_cost, expansion_cost, partial, partial_formula};
pub use table::{CALL, Facts, Monotone, Op, Parity, Row, Totality, complex};
pub use user::{Native, UserFunction, UserValue, check, check_functions, register};

use user::wrong_arity;

use serde::{Deserialize, Serialize};

use crate::base::FunctionId;

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

impl Comparison {
    /// All comparisons.
    pub const ALL: [Comparison; 4] = [Comparison::Less, Comparison::LessEqual, Comparison::Equal, Comparison::NotEqual];

    /// The operator as programs write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessEqual => "<=",
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
        }
    }

    /// The name of the function that is 1 where the comparison holds and 0 elsewhere.
    pub fn name(self) -> &'static str {
        match self {
            Comparison::Less => "less",
            Comparison::LessEqual => "less_equal",
            Comparison::Equal => "equal",
            Comparison::NotEqual => "not_equal",
        }
    }

    /// Whether it holds. With NaN only `!=` does.
    pub fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Comparison::Less => a < b,
            Comparison::LessEqual => a <= b,
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b,
        }
    }
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

impl Function {
    /// How long it takes, in multiplications; partial derivatives and registered functions are taken for calls.
    pub fn work(self) -> u64 {
        match self {
            Function::Value(Primitive::Op(op)) => op.work(),
            Function::Value(Primitive::User(_)) | Function::Partial(..) => CALL,
        }
    }

    /// Of which arguments it has finite values; nothing is known of partial derivatives and registered functions.
    pub fn totality(self) -> Totality {
        match self {
            Function::Value(Primitive::Op(op)) => op.totality(),
            Function::Value(Primitive::User(_)) | Function::Partial(..) => Totality::Partial,
        }
    }

    /// Whether it is NaN wherever one of its arguments is; nothing is known of partial derivatives and registered functions.
    pub fn keeps_nan(self) -> bool {
        match self {
            Function::Value(Primitive::Op(op)) => !op.facts().forgets_nan,
            Function::Value(Primitive::User(_)) | Function::Partial(..) => false,
        }
    }

    /// Whether it is more than a few instructions.
    pub fn is_call(self) -> bool {
        self.work() >= CALL
    }
}

impl From<Op> for Primitive {
    fn from(op: Op) -> Self {
        Primitive::Op(op)
    }
}

impl From<Op> for Function {
    fn from(op: Op) -> Self {
        Function::Value(Primitive::Op(op))
    }
}

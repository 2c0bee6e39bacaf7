//! The primitive operations, on values.

use super::count::Counts;
use super::data::Prim;
use super::value::Value;
use crate::error::{Error, Result};
use crate::reference::Numeric;
use crate::reference::numeric::Users;
use crate::scalar::{Comparison, Function, Op};

/// The value of a primitive operation.
pub(super) fn apply<T: Numeric>(prim: Prim, arg: &Value<T>, users: &Users, counts: &mut Counts) -> Result<Value<T>> {
    Ok(match prim {
        Prim::Add => {
            let (a, b) = arg.as_pair()?;
            counts.adds += 1;
            Value::Real(a.as_real()?.add(b.as_real()?))
        }
        Prim::Mul | Prim::Scale => {
            let (a, b) = arg.as_pair()?;
            counts.muls += 1;
            Value::Real(a.as_real()?.mul(b.as_real()?))
        }
        Prim::Neg | Prim::Opposite => {
            counts.adds += 1;
            Value::Real(T::integer(-1).mul(arg.as_real()?))
        }
        Prim::Scalar(function) => {
            counts.functions += 1;
            Value::Real(T::apply(function, users, &operands(arg, super::types::arity(function, users))?)?)
        }
        Prim::Compare(comparison) => {
            let (a, b) = arg.as_pair()?;
            counts.functions += 1;
            Value::truth(holds(comparison, a.as_real()?, b.as_real()?, users)?)
        }
        Prim::Order => {
            counts.functions += 1;
            order(arg.as_real()?, users)?
        }
        Prim::ToReal => Value::Real(T::integer(arg.as_int()?)),
        Prim::IntAdd | Prim::IntMul | Prim::IntDiv | Prim::IntRem | Prim::IntCompare(_) => {
            let (a, b) = arg.as_pair()?;
            integers(prim, a.as_int()?, b.as_int()?)?
        }
        Prim::IntNeg => Value::Int(arg.as_int()?.checked_neg().ok_or(Error::Overflow)?),
        Prim::Sum => {
            let mut total = T::zero();
            for item in arg.as_array()? {
                total = total.add(item.as_real()?);
            }
            counts.adds += arg.as_array()?.len() as u64;
            counts.steps += arg.as_array()?.len() as u64;
            Value::Real(total)
        }
        Prim::DropFirst | Prim::DropLast => {
            let items = arg.as_array()?;
            counts.steps += items.len() as u64;
            shifted(prim, items)?
        }
    })
}

/// Whether a number is negative, positive, or neither: `inl true`, `inl false`, `inr ()`.
pub(in crate::ir::functional) fn order<T: Numeric, U>(x: &T, users: &Users) -> Result<Value<U>> {
    let zero = T::zero();
    Ok(match (holds(Comparison::Less, x, &zero, users)?, holds(Comparison::Less, &zero, x, users)?) {
        (true, _) => Value::inl(Value::truth(true)),
        (_, true) => Value::inl(Value::truth(false)),
        _ => Value::inr(Value::Unit),
    })
}

/// An operation on two integers.
pub(in crate::ir::functional) fn integers<U>(prim: Prim, a: i64, b: i64) -> Result<Value<U>> {
    let value = match prim {
        Prim::IntCompare(comparison) => {
            return Ok(Value::truth(match comparison {
                Comparison::Less => a < b,
                Comparison::LessEqual => a <= b,
                Comparison::Equal => a == b,
                Comparison::NotEqual => a != b,
            }));
        }
        Prim::IntAdd => a.checked_add(b),
        Prim::IntMul => a.checked_mul(b),
        _ if b == 0 => return Err(Error::data("division", "an integer is divided by zero")),
        Prim::IntDiv => floor_div(a, b),
        _ => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
    };
    value.map(Value::Int).ok_or(Error::Overflow)
}

/// An array without its first or its last element.
pub(in crate::ir::functional) fn shifted<U: Clone>(prim: Prim, items: &[Value<U>]) -> Result<Value<U>> {
    let rest = match prim {
        Prim::DropFirst => items.get(1..),
        _ => items.len().checked_sub(1).and_then(|n| items.get(..n)),
    };
    Ok(Value::array(rest.ok_or_else(|| Error::data("shift", "an array without elements"))?.to_vec()))
}

/// Rounded towards minus infinity.
fn floor_div(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
}

/// The operands of a scalar function, from their tuple.
fn operands<T: Numeric>(arg: &Value<T>, n: usize) -> Result<Vec<T>> {
    let mut args = Vec::with_capacity(n);
    let mut rest = arg;
    for _ in 1..n {
        let (first, last) = rest.as_pair()?;
        args.push(last.as_real()?.clone());
        rest = first;
    }
    args.push(rest.as_real()?.clone());
    args.reverse();
    Ok(args)
}

/// Whether a comparison holds, as the operator table says.
pub(in crate::ir::functional) fn holds<T: Numeric>(
    comparison: Comparison,
    a: &T,
    b: &T,
    users: &Users,
) -> Result<bool> {
    let value = T::apply(Function::from(Op::Compare(comparison)), users, &[a.clone(), b.clone()])?;
    value.is_zero().map(|zero| !zero)
}

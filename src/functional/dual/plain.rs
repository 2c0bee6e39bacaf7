//! Operations that have no derivative: on integers, comparisons, and shifts of arrays.

use super::backpropagator::Scalar;
use crate::error::{Error, Result};
use crate::functional::lambda::{Prim, Value};
use crate::reference::Numeric;
use crate::reference::numeric::Users;
use crate::scalar::{Comparison, Function, Op};

/// The value of an operation on its operands, of which only the values matter.
pub(super) fn apply<T: Numeric>(
    prim: Prim,
    args: &[Value<Scalar<T>>],
    users: &Users,
    steps: &mut u64,
) -> Result<Value<Scalar<T>>> {
    Ok(match (prim, args) {
        (Prim::Compare(comparison), [a, b]) => {
            Value::truth(holds(comparison, &a.as_real()?.value, &b.as_real()?.value, users)?)
        }
        (Prim::Order, [x]) => {
            let (x, zero) = (&x.as_real()?.value, T::zero());
            match (holds(Comparison::Less, x, &zero, users)?, holds(Comparison::Less, &zero, x, users)?) {
                (true, _) => Value::inl(Value::truth(true)),
                (_, true) => Value::inl(Value::truth(false)),
                _ => Value::inr(Value::Unit),
            }
        }
        (Prim::IntNeg, [a]) => Value::Int(a.as_int()?.checked_neg().ok_or(Error::Overflow)?),
        (Prim::IntCompare(comparison), [a, b]) => {
            let (a, b) = (a.as_int()?, b.as_int()?);
            Value::truth(match comparison {
                Comparison::Less => a < b,
                Comparison::LessEqual => a <= b,
                Comparison::Equal => a == b,
                Comparison::NotEqual => a != b,
            })
        }
        (Prim::IntAdd | Prim::IntMul | Prim::IntDiv | Prim::IntRem, [a, b]) => {
            Value::Int(integers(prim, a.as_int()?, b.as_int()?)?)
        }
        (Prim::DropFirst | Prim::DropLast, [array]) => {
            let items = array.as_array()?;
            let rest = match prim {
                Prim::DropFirst => items.get(1..),
                _ => items.len().checked_sub(1).and_then(|n| items.get(..n)),
            };
            *steps += items.len() as u64;
            Value::array(rest.ok_or_else(|| Error::data("shift", "an array without elements"))?.to_vec())
        }
        _ => return Err(Error::bug("dual", "an operation of other operands")),
    })
}

fn integers(prim: Prim, a: i64, b: i64) -> Result<i64> {
    let value = match prim {
        Prim::IntAdd => a.checked_add(b),
        Prim::IntMul => a.checked_mul(b),
        _ if b == 0 => return Err(Error::data("division", "an integer is divided by zero")),
        // Rounded towards minus infinity.
        Prim::IntDiv => a.checked_div(b).map(|q| if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }),
        _ => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
    };
    value.ok_or(Error::Overflow)
}

fn holds<T: Numeric>(comparison: Comparison, a: &T, b: &T, users: &Users) -> Result<bool> {
    let value = T::apply(Function::from(Op::Compare(comparison)), users, &[a.clone(), b.clone()])?;
    value.is_zero().map(|zero| !zero)
}

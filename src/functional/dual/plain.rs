//! Operations that have no derivative: on integers, comparisons, and shifts of arrays. Of numbers their values matter alone.

use super::backpropagator::Scalar;
use crate::error::{Error, Result};
use crate::functional::lambda::prim::{holds, integers, order, shifted};
use crate::functional::lambda::{Prim, Value};
use crate::reference::Numeric;
use crate::reference::numeric::Users;

/// The value of an operation on its operands.
pub(super) fn apply<T: Numeric>(
    prim: Prim,
    args: &[Value<Scalar<T>>],
    users: &Users,
    steps: &mut u64,
) -> Result<Value<Scalar<T>>> {
    match (prim, args) {
        (Prim::Compare(comparison), [a, b]) => {
            holds(comparison, &a.as_real()?.value, &b.as_real()?.value, users).map(Value::truth)
        }
        (Prim::Order, [x]) => order(&x.as_real()?.value, users),
        (Prim::IntNeg, [a]) => a.as_int()?.checked_neg().map(Value::Int).ok_or(Error::Overflow),
        (Prim::IntAdd | Prim::IntMul | Prim::IntDiv | Prim::IntRem | Prim::IntCompare(_), [a, b]) => {
            integers(prim, a.as_int()?, b.as_int()?)
        }
        (Prim::DropFirst | Prim::DropLast, [array]) => {
            let items = array.as_array()?;
            *steps += items.len() as u64;
            shifted(prim, items)
        }
        _ => Err(Error::bug("dual", "an operation of other operands")),
    }
}

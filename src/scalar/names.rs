//! Functions by the names that texts have for them.

use super::{Comparison, Function, Op, Primitive};

/// The built-in function, or the black-box derivative of one, that a name means: `exp`, `exp'0`, `powi'3'0`, `powi'_3'0`.
pub(crate) fn builtin(name: &str) -> Option<Function> {
    let Some((base, at)) = name.rsplit_once('\'') else { return Op::from_name(name).map(Function::from) };
    let op = match base.split_once('\'') {
        Some(("powi", k)) => Op::Powi(match k.strip_prefix('_') {
            Some(k) => k.parse::<i32>().ok()?.checked_neg()?,
            None => k.parse().ok()?,
        }),
        Some(("polygamma", k)) => Op::Polygamma(k.parse().ok()?),
        Some(_) => return None,
        None => match base {
            "div" => Op::Div,
            "less" => Op::Compare(Comparison::Less),
            "less_equal" => Op::Compare(Comparison::LessEqual),
            "equal" => Op::Compare(Comparison::Equal),
            "not_equal" => Op::Compare(Comparison::NotEqual),
            _ => Op::from_name(base)?,
        },
    };
    partial(Primitive::Op(op), usize::from(op.arity()), at)
}

/// The partial derivative of a function by the argument of a number as written.
pub(crate) fn partial(primitive: Primitive, arity: usize, at: &str) -> Option<Function> {
    let at: u8 = at.parse().ok()?;
    (usize::from(at) < arity).then_some(Function::Partial(primitive, at))
}

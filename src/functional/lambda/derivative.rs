//! Derivatives of primitive operations, by the operator table.
//!
//! ```text
//! tangent      op at a, da    sum over k of partial_k(a) da_k
//! cotangent    op at a, d     (partial_1(a) d, .., partial_n(a) d)
//! ```
//!
//! Both read the operand `a` from a variable. A partial derivative that is 0 is no product; one that selects is a `case`, so that nothing is multiplied by
//! zero where it is not selected.

use super::build::Builder;
use super::data::{Prim, Term, TermId};
use super::linear::{Linear, LinearType};
use super::types::arity;
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::scalar::{self, Comparison, Formula, Function, Partial, Primitive};

/// A source of terms for one value; each use is a term of its own.
type Uses<'a> = &'a dyn Fn(&mut Builder) -> Result<TermId>;

/// The operand of number `k` of `n`, of the tuple that a variable has.
pub fn operand(b: &mut Builder, tuple: VarId, k: usize, n: usize) -> Result<TermId> {
    let mut e = b.var(tuple);
    // ((a0, a1), a2): all but the first one are the second part of a pair.
    for _ in 0..if k == 0 { n.saturating_sub(1) } else { n.saturating_sub(1 + k) } {
        e = b.fst(e)?;
    }
    if k > 0 { b.snd(e) } else { Ok(e) }
}

/// A formula without the value of the function, over the operands that a variable has.
// Formulas nest to a bounded depth.
fn formula(b: &mut Builder, f: &Formula, tuple: VarId, n: usize) -> Result<TermId> {
    match f {
        Formula::Arg(k) => operand(b, tuple, usize::from(*k), n),
        Formula::Number(x) => b.real(*x),
        Formula::Add(x, y) | Formula::Mul(x, y) => {
            let operands = [formula(b, x, tuple, n)?, formula(b, y, tuple, n)?];
            b.prim(if matches!(f, Formula::Add(..)) { Prim::Add } else { Prim::Mul }, &operands)
        }
        Formula::Apply(g, args) => {
            let operands = args.iter().map(|x| formula(b, x, tuple, n)).collect::<Result<Vec<_>>>()?;
            b.prim(Prim::Scalar(Function::Value(*g)), &operands)
        }
        Formula::Result => Err(Error::bug("derivative", "a comparison mentions the value of the function")),
    }
}

/// `partial_k(a) d`, of type `~real`.
fn times_partial(b: &mut Builder, primitive: Primitive, k: u8, tuple: VarId, d: Uses) -> Result<TermId> {
    let zero = |b: &mut Builder| {
        let real = b.types().linear_real();
        b.push(Term::Linear(Linear::Zero(real)))
    };
    let n = arity(Function::Value(primitive), &b.context.users);
    match scalar::partial(primitive, k, &b.context.users) {
        Partial::Zero => zero(b),
        Partial::Formula(_) => {
            let (d, a) = (d(b)?, b.var(tuple));
            let partial = b.push(Term::Prim(Prim::Scalar(Function::Partial(primitive, k)), a))?;
            b.prim(Prim::Scale, &[d, partial])
        }
        Partial::Indicator(comparison, x, y) => {
            let test = indicator(b, comparison, &x, &y, tuple, n)?;
            b.case(test, ("holds", |b, _| d(b)), ("fails", |b, _| zero(b)))
        }
        Partial::Otherwise(other) => match scalar::partial(primitive, other, &b.context.users) {
            Partial::Indicator(comparison, x, y) => {
                let test = indicator(b, comparison, &x, &y, tuple, n)?;
                b.case(test, ("holds", |b, _| zero(b)), ("fails", |b, _| d(b)))
            }
            _ => Err(Error::bug("derivative", "the opposite of what is no indicator")),
        },
    }
}

fn indicator(b: &mut Builder, c: Comparison, x: &Formula, y: &Formula, tuple: VarId, n: usize) -> Result<TermId> {
    let (x, y) = (formula(b, x, tuple, n)?, formula(b, y, tuple, n)?);
    b.compare(c, x, y)
}

/// The primitive that a scalar function is.
fn primitive(function: Function) -> Result<Primitive> {
    match function {
        Function::Value(primitive) => Ok(primitive),
        Function::Partial(..) => {
            let feature = "derivatives of a partial derivative that is kept as a black box".to_string();
            Err(Error::Limitation { feature, span: None })
        }
    }
}

/// The cotangent of the operand of a primitive, from that of its result `d`: reals are `~real`, pairs `~*`, other types zero.
///
/// # Errors
/// [`Error::Limitation`] for partial derivatives of partial derivatives, and for operations on arrays.
pub fn cotangent(b: &mut Builder, prim: Prim, tuple: VarId, d: VarId) -> Result<TermId> {
    let (real, unit) = (b.types().linear_real(), b.types().linear_unit());
    let pair = |b: &mut Builder, x, y| b.push(Term::Linear(Linear::Pair(x, y)));
    let zero = |b: &mut Builder, ty| b.push(Term::Linear(Linear::Zero(ty)));
    match prim {
        Prim::Add => {
            let (x, y) = (b.var(d), b.var(d));
            pair(b, x, y)
        }
        Prim::Mul => {
            let mut factor = |k: usize| {
                let (d, other) = (b.var(d), operand(b, tuple, 1 - k, 2)?);
                b.prim(Prim::Scale, &[d, other])
            };
            let (x, y) = (factor(0)?, factor(1)?);
            pair(b, x, y)
        }
        Prim::Neg => {
            let d = b.var(d);
            b.prim(Prim::Opposite, &[d])
        }
        Prim::Scalar(function) => {
            let primitive = primitive(function)?;
            let n = arity(function, &b.context.users);
            let d = move |b: &mut Builder| Ok(b.var(d));
            let mut all = times_partial(b, primitive, 0, tuple, &d)?;
            for k in 1..n {
                // Functions have at most 255 operands.
                let next = times_partial(b, primitive, k as u8, tuple, &d)?;
                all = pair(b, all, next)?;
            }
            Ok(all)
        }
        Prim::Compare(_) => {
            let ty = b.types().linear(LinearType::Pair(real, real));
            zero(b, ty)
        }
        Prim::Order => zero(b, real),
        Prim::ToReal | Prim::IntNeg => zero(b, unit),
        Prim::IntAdd | Prim::IntMul | Prim::IntDiv | Prim::IntRem | Prim::IntCompare(_) => {
            let ty = b.types().linear(LinearType::Pair(unit, unit));
            zero(b, ty)
        }
        Prim::Sum | Prim::DropFirst | Prim::DropLast | Prim::Scale | Prim::Opposite => unsupported(),
    }
}

/// The tangent of the result of a primitive, from that of its operand `da`.
///
/// # Errors
/// As of [`cotangent`].
pub fn tangent(b: &mut Builder, prim: Prim, tuple: VarId, da: VarId) -> Result<TermId> {
    let zero = |b: &mut Builder, ty| b.push(Term::Linear(Linear::Zero(ty)));
    // The tangent of the operand of number `k` of `n`.
    let part = move |b: &mut Builder, k: usize, n: usize| {
        let mut e = b.var(da);
        for _ in 0..if k == 0 { n - 1 } else { n - 1 - k } {
            e = b.push(Term::Linear(Linear::Fst(e)))?;
        }
        if k > 0 { b.push(Term::Linear(Linear::Snd(e))) } else { Ok(e) }
    };
    match prim {
        Prim::Add => {
            let (x, y) = (part(b, 0, 2)?, part(b, 1, 2)?);
            b.push(Term::Linear(Linear::Plus(x, y)))
        }
        Prim::Mul => {
            let mut factor = |k: usize| {
                let (d, other) = (part(b, k, 2)?, operand(b, tuple, 1 - k, 2)?);
                b.prim(Prim::Scale, &[d, other])
            };
            let (x, y) = (factor(0)?, factor(1)?);
            b.push(Term::Linear(Linear::Plus(x, y)))
        }
        Prim::Neg => {
            let d = b.var(da);
            b.prim(Prim::Opposite, &[d])
        }
        Prim::Scalar(function) => {
            let primitive = primitive(function)?;
            let n = arity(function, &b.context.users);
            let mut sum = None;
            for k in 0..n {
                let next = times_partial(b, primitive, k as u8, tuple, &move |b| part(b, k, n))?;
                sum = Some(match sum {
                    Some(sum) => b.push(Term::Linear(Linear::Plus(sum, next)))?,
                    None => next,
                });
            }
            sum.map_or_else(unsupported, Ok)
        }
        Prim::ToReal => {
            let real = b.types().linear_real();
            zero(b, real)
        }
        Prim::Compare(_) | Prim::IntCompare(_) | Prim::Order => {
            let unit = b.types().linear_unit();
            let truth = b.types().linear(LinearType::Sum(unit, unit));
            let order = b.types().linear(LinearType::Sum(truth, unit));
            zero(b, if prim == Prim::Order { order } else { truth })
        }
        Prim::IntAdd | Prim::IntMul | Prim::IntDiv | Prim::IntRem | Prim::IntNeg => {
            let unit = b.types().linear_unit();
            zero(b, unit)
        }
        Prim::Sum | Prim::DropFirst | Prim::DropLast | Prim::Scale | Prim::Opposite => unsupported(),
    }
}

fn unsupported<T>() -> Result<T> {
    Err(Error::Limitation { feature: "this primitive operation in a derivative".to_string(), span: None })
}

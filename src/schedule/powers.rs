//! Powers whose exponents have become literals are products.
//!
//! ```text
//! r0 = real(2)                        r1 = x^2
//! r1 = pow(x, r0)            ==       r2 = r1 * x
//! r2 = pow(x, 3)
//! ```
//!
//! The exponents of a polynomial, `sum k < 4. c[k] * x[i]^k`, are indices until its loop is [unrolled](super::unroll). A function of two numbers takes
//! as long as thirty products.
//!
//! **Why it is right.** `x^0` is 1 and `x^1` is `x`, whatever `x` is. A product of `k` factors is rounded `k - 1` times, as literal powers of the
//! language are; with the power below at hand these are its roundings and one more.
//!
//! **Where it is done.** For whole exponents of at most 64 in size, as for more of them the roundings add up.

use std::collections::{BTreeMap, BTreeSet};

use super::quotients::binary;
use super::unroll::needed;
use crate::error::Result;
use crate::loops::{Decision, Program, Real, RealId, Stmt};
use crate::scalar::{Function, Op, Primitive};

/// The largest exponent of a product.
const MOST: f64 = 64.0;

/// Multiplies powers out.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        let mut literals = BTreeMap::new();
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                if let Stmt::Define(r, real) = stmt {
                    literals.extend(literal(real).map(|x| (*r, x)));
                }
            });
        }
        let found = body(&mut nest.body, &literals, &mut BTreeMap::new());
        if found > 0 {
            nest.decisions.push(Decision::Powers { powers: found });
        }
    }
    Ok(())
}

fn literal(real: &Real) -> Option<f64> {
    match real {
        Real::Literal(x) => Some(*x),
        // Indices that are constants are small.
        Real::Index(a) => a.as_constant().map(|k| k as f64),
        _ => None,
    }
}

/// Multiplies powers out in a body, where some are known, and leaves out literals that nobody reads any more; how many powers.
fn body(body: &mut Vec<Stmt>, literals: &BTreeMap<RealId, f64>, known: &mut BTreeMap<(RealId, i32), RealId>) -> usize {
    let mut found = 0;
    for stmt in body.iter_mut() {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
                found += self::body(body, literals, &mut known.clone());
            }
            Stmt::Define(r, real) => {
                if let Some((x, k)) = power(real, literals) {
                    *real = match (k, known.get(&(x, k.saturating_sub(1)))) {
                        (0, _) => Real::Literal(1.0),
                        (2.., Some(below)) => Real::Mul(*below, x),
                        _ => Real::apply(Op::Powi(k), [x]),
                    };
                    found += 1;
                    known.insert((x, k), *r);
                } else if let Real::Apply(Function::Value(Primitive::Op(Op::Powi(k))), args) = real {
                    known.extend(args.first().map(|x| ((*x, *k), *r)));
                }
            }
            _ => {}
        }
    }
    if found > 0 {
        let is_literal = |stmt: &Stmt| matches!(stmt, Stmt::Define(_, real) if literal(real).is_some());
        *body = needed(std::mem::take(body), |stmt| !is_literal(stmt));
    }
    found
}

/// The base and the exponent of a power with a whole literal.
fn power(real: &Real, literals: &BTreeMap<RealId, f64>) -> Option<(RealId, i32)> {
    let (x, e) = binary(real, Op::Pow)?;
    let k = literals.get(&e).copied().filter(|k| k.fract() == 0.0 && k.abs() <= MOST)?;
    Some((x, k as i32))
}

/// Whether an index of a loop is the exponent of a power.
pub(super) fn has_indices(body: &[Stmt]) -> bool {
    let (mut exponents, mut found) = (BTreeSet::new(), false);
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Define(r, Real::Index(a)) => exponents.extend(a.as_index().map(|_| *r)),
            Stmt::Define(_, real) => found |= binary(real, Op::Pow).is_some_and(|(_, e)| exponents.contains(&e)),
            _ => {}
        });
    }
    found
}

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

use crate::base::IndexId;
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
            let mut read = BTreeSet::new();
            nest.body.iter().for_each(|stmt| {
                stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| read.extend([r])));
            });
            without_unread(&mut nest.body, &read);
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

/// Multiplies powers out in a body, where some are known; how many.
fn body(body: &mut [Stmt], literals: &BTreeMap<RealId, f64>, known: &mut BTreeMap<(RealId, i32), RealId>) -> usize {
    let mut found = 0;
    for stmt in body {
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
    found
}

/// Leaves out literals that nobody reads.
fn without_unread(body: &mut Vec<Stmt>, read: &BTreeSet<RealId>) {
    body.retain(|stmt| !matches!(stmt, Stmt::Define(r, real) if literal(real).is_some() && !read.contains(r)));
    for stmt in body {
        if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = stmt {
            without_unread(body, read);
        }
    }
}

/// The base and the exponent of a power with a whole literal.
fn power(real: &Real, literals: &BTreeMap<RealId, f64>) -> Option<(RealId, i32)> {
    let (x, e) = general_power(real)?;
    let k = literals.get(&e).copied().filter(|k| k.fract() == 0.0 && k.abs() <= MOST)?;
    Some((x, k as i32))
}

/// The base and the exponent of `pow(x, e)`.
fn general_power(real: &Real) -> Option<(RealId, RealId)> {
    match real {
        Real::Apply(Function::Value(Primitive::Op(Op::Pow)), args) => match args.as_slice() {
            [x, e] => Some((*x, *e)),
            _ => None,
        },
        _ => None,
    }
}

/// The indices that are exponents of powers.
pub(super) fn of_indices(body: &[Stmt]) -> Vec<IndexId> {
    let (mut exponents, mut found) = (BTreeMap::new(), Vec::new());
    for stmt in body {
        stmt.visit(&mut |stmt| {
            if let Stmt::Define(r, real) = stmt {
                if let Real::Index(a) = real {
                    exponents.extend(a.as_index().map(|i| (*r, i)));
                }
                found.extend(general_power(real).and_then(|(_, e)| exponents.get(&e).copied()));
            }
        });
    }
    found
}

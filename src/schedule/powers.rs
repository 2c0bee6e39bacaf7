//! Powers whose exponents have become literals are products, with a square root.
//!
//! ```text
//! r0 = real(2)                        r1 = x^2
//! r1 = pow(x, r0)            ==       r2 = r1 * x
//! r2 = pow(x, 3)                      r3 = r2 * sqrt(x)
//! r3 = pow(x, 3.5)
//! ```
//!
//! The exponents of a polynomial, `sum k < 4. c[k] * x[i]^k`, are indices until its loop is [unrolled](super::unroll). A function of two numbers takes
//! as long as thirty products.
//!
//! **Why it is right.** `x^0` is 1 and `x^1` is `x`, whatever `x` is. A product of `k` factors is rounded `k - 1` times, as literal powers of the
//! language are; with the power below at hand these are its roundings and one more.
//!
//! Half a power is a square root, but at two numbers: `pow(-0, 0.5)` is +0, so 0 is added before, and `pow(-inf, 0.5)` is the infinity, so it is chosen
//! there. Of [what is never negative](super::signs) it is the root in any case. By such a power quotients divide as by one of the root, for which
//! [`quotients`](super::quotients) has a reciprocal.
//!
//! **Where it is done.** For whole exponents of at most 64 in size, as for more of them the roundings add up, and for halves of at most 16.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::{HALF_POWER, POWER};
use super::quotients::{binary, division};
use super::signs::not_negative;
use super::unroll::needed;
use crate::error::Result;
use crate::loops::{Decision, Fresh, Nest, Program, Real, RealId, Stmt};
use crate::scalar::{Comparison, Function, Op, Primitive};

/// The largest power of a root that is divided by.
const MOST_DIVIDED: i32 = super::quotients::MOST;

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
        let mut found = body(&mut nest.body, &literals, &mut BTreeMap::new());
        if has_halves(nest, &literals) {
            let (not_negative, divisors) = (not_negative(nest), divisors(&nest.body));
            let mut halves = Halves { literals: &literals, not_negative, divisors, names: Fresh::after(&nest.body) };
            found += halves.body(&mut nest.body);
        }
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
        leave_out_literals(body);
    }
    found
}

/// Leaves out literals that nobody reads.
fn leave_out_literals(body: &mut Vec<Stmt>) {
    let is_literal = |stmt: &Stmt| matches!(stmt, Stmt::Define(_, real) if literal(real).is_some());
    *body = needed(std::mem::take(body), |stmt| !is_literal(stmt));
}

/// Whether a nest has powers whose exponents are a half more than whole numbers.
fn has_halves(nest: &Nest, literals: &BTreeMap<RealId, f64>) -> bool {
    let mut found = false;
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| {
            found |= matches!(stmt, Stmt::Define(_, real) if half_power(real, literals).is_some());
        });
    }
    found
}

/// The numbers that are divided by, and read by nothing else.
fn divisors(body: &[Stmt]) -> BTreeSet<RealId> {
    let (mut divided, mut others) = (BTreeSet::new(), BTreeSet::new());
    for stmt in body {
        stmt.visit(&mut |stmt| {
            let quotient = if let Stmt::Define(_, real) = stmt { division(real) } else { None };
            match quotient {
                Some((a, d)) => {
                    others.insert(a);
                    divided.insert(d);
                }
                None => stmt.visit_reads(&mut |r| others.extend([r])),
            }
        });
    }
    divided.retain(|r| !others.contains(r));
    divided
}

/// Makes roots of powers whose exponents are a half more than whole numbers.
struct Halves<'a> {
    literals: &'a BTreeMap<RealId, f64>,
    not_negative: BTreeSet<RealId>,
    divisors: BTreeSet<RealId>,
    names: Fresh,
}

impl Halves<'_> {
    /// In a body; how many.
    fn body(&mut self, body: &mut Vec<Stmt>) -> usize {
        let mut found = 0;
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in std::mem::take(body) {
            match &mut stmt {
                Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
                    found += self.body(body)
                }
                Stmt::Define(r, real) => {
                    if let Some((x, e)) = half_power(real, self.literals) {
                        let real = self.root(*r, x, e, &mut out);
                        out.push(Stmt::Define(*r, real));
                        found += 1;
                        continue;
                    }
                }
                _ => {}
            }
            out.push(stmt);
        }
        *body = out;
        if found > 0 {
            leave_out_literals(body);
        }
        found
    }

    /// `r = pow(x, e)`, where `e` is a half more than a whole number.
    fn root(&mut self, r: RealId, x: RealId, e: f64, out: &mut Vec<Stmt>) -> Real {
        let is_root = self.not_negative.contains(&x);
        let mut define = |real: Real| {
            let r = self.names.fresh_real();
            out.push(Stmt::Define(r, real));
            r
        };
        let base = if is_root {
            x
        } else {
            let zero = define(Real::Literal(0.0));
            define(Real::Add(x, zero))
        };
        let root = Real::apply(Op::Sqrt, [base]);
        let whole = e.abs().floor() as i32;
        let odd = 2 * whole + 1;
        let power = if is_root && whole > 0 && (e < 0.0 || self.divisors.contains(&r)) && odd <= MOST_DIVIDED {
            let root = define(root);
            Real::apply(Op::Powi(odd), [root])
        } else if whole > 0 {
            let root = define(root);
            let product = if whole == 1 { base } else { define(Real::apply(Op::Powi(whole), [base])) };
            Real::Mul(product, root)
        } else {
            root
        };
        let power = if e < 0.0 {
            let [power, one] = [power, Real::Literal(1.0)].map(&mut define);
            Real::apply(Op::Div, [one, power])
        } else {
            power
        };
        if is_root {
            return power;
        }
        let [power, zero, least] = [power, Real::Literal(0.0), Real::Literal(f64::MIN)].map(&mut define);
        let compare = |comparison, a, b| Real::apply(Op::Compare(comparison), [a, b]);
        let is_infinite = define(compare(Comparison::Less, x, least));
        let is_other = define(compare(Comparison::Equal, is_infinite, zero));
        let other = Real::Select(is_other, power);
        if e < 0.0 {
            return other;
        }
        let infinity = define(Real::Literal(f64::INFINITY));
        let [other, there] = [other, Real::Select(is_infinite, infinity)].map(define);
        Real::Add(other, there)
    }
}

/// The base and the exponent of a power with half a literal.
fn half_power(real: &Real, literals: &BTreeMap<RealId, f64>) -> Option<(RealId, f64)> {
    let (x, e) = binary(real, Op::Pow)?;
    literals.get(&e).copied().filter(|e| e.fract().abs() == 0.5 && e.abs() <= HALF_POWER).map(|e| (x, e))
}

/// The base and the exponent of a power with a whole literal.
fn power(real: &Real, literals: &BTreeMap<RealId, f64>) -> Option<(RealId, i32)> {
    let (x, e) = binary(real, Op::Pow)?;
    let k = literals.get(&e).copied().filter(|k| k.fract() == 0.0 && k.abs() <= POWER)?;
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

//! Quotients by powers of one number share its reciprocal, and by a power what is divided is divided factor by factor.
//!
//! ```text
//! a = 1 / d^3                   q = 1 / d
//! b = a / d^3                   a = q^3
//! c = 1 / d^6         ==        b = a * q^3
//!                               c = q^6
//! ```
//!
//! Potentials and their derivatives divide by powers of a distance, kernels by powers of what they add 1 to. A division takes as long as a dozen products.
//!
//! **Why it is right.** A product with a reciprocal is rounded once more. For `d` between the least normal number and its reciprocal, `q` has all its digits,
//! and what is multiplied by it again and again lies between the numerator and the quotient all the way, so nothing overflows or loses digits that does not at
//! the end. The square of a smaller `d` is 0, and `q` is infinite: the quotient is infinite either way, or no number for a numerator of 0. Of a
//! larger one the quotient is below 1e-307 or 0 either way.
//!
//! That is also why one quotient alone is computed so: `w / s^2` is what simplification makes of `w / s / s`, and the square of an `s` near 1e160 is infinite
//! where both quotients are ordinary numbers.
//!
//! **Where it is done.** Where a body has two quotients by powers of one number, each with another exponent than 1, or with the numerator 1, or with another such
//! quotient for a numerator; and where another numerator than 1 is divided by a power.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::loops::{Decision, Fresh, Program, Real, RealId, Stmt};
use crate::scalar::{Function, Op, Primitive};

/// Up to which exponent a numerator is multiplied by the reciprocal again and again.
pub(super) const MOST: i32 = 4;

/// Shares reciprocals of numbers that quotients divide by.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        let (mut literals, mut powers) = (BTreeMap::new(), BTreeMap::new());
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| match stmt {
                Stmt::Define(r, Real::Literal(x)) => {
                    literals.insert(*r, *x);
                }
                Stmt::Define(r, Real::Apply(Function::Value(Primitive::Op(Op::Powi(k))), args)) if *k > 1 => {
                    powers.extend(args.first().map(|base| (*r, (*base, *k))));
                }
                _ => {}
            });
        }
        let mut pass = Pass { names: Fresh::after(&nest.body), literals, powers, found: 0 };
        pass.body(&mut nest.body);
        if pass.found > 0 {
            nest.decisions.push(Decision::Quotients { quotients: pass.found });
        }
    }
    Ok(())
}

struct Pass {
    names: Fresh,
    literals: BTreeMap<RealId, f64>,
    /// What is a power of which number, with exponents from 2 on.
    powers: BTreeMap<RealId, (RealId, i32)>,
    found: usize,
}

/// A quotient by a power of a number.
struct Quotient {
    base: RealId,
    exponent: i32,
    numerator: Numerator,
}

/// What is divided.
#[derive(Clone, Copy, PartialEq)]
enum Numerator {
    One,
    /// 1 over a power of the same number.
    Reciprocal(RealId),
    Other(RealId),
}

impl Quotient {
    /// Whether a power may be too large or too small to divide by at once.
    fn is_by_power(&self) -> bool {
        self.exponent > 1 && matches!(self.numerator, Numerator::Other(_))
    }
}

impl Pass {
    fn body(&mut self, body: &mut Vec<Stmt>) {
        let quotients = self.quotients(body);
        let mut count: BTreeMap<RealId, usize> = BTreeMap::new();
        quotients.values().for_each(|quotient| *count.entry(quotient.base).or_insert(0) += 1);
        let mut reciprocals: BTreeMap<(RealId, i32), RealId> = BTreeMap::new();
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in std::mem::take(body) {
            match &mut stmt {
                Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.body(body),
                Stmt::Define(r, real) => {
                    let shares = |q: &Quotient| count.get(&q.base).is_some_and(|n| *n > 1);
                    let quotient = quotients.get(r).filter(|q| shares(q) || q.is_by_power());
                    if let Some(product) = quotient.and_then(|q| self.product(*r, q, &mut reciprocals, &mut out)) {
                        *real = product;
                        self.found += 1;
                    }
                }
                _ => {}
            }
            out.push(stmt);
        }
        *body = out;
    }

    /// The quotients of a body.
    fn quotients(&self, body: &[Stmt]) -> BTreeMap<RealId, Quotient> {
        let mut found: BTreeMap<RealId, Quotient> = BTreeMap::new();
        for stmt in body {
            let Stmt::Define(r, real) = stmt else { continue };
            let Some((a, d)) = division(real) else { continue };
            let (base, exponent) = self.powers.get(&d).copied().unwrap_or((d, 1));
            let of_one = found.get(&a).is_some_and(|q| q.base == base && !matches!(q.numerator, Numerator::Other(_)));
            let numerator = match self.literals.get(&a) {
                Some(x) if x.to_bits() == 1.0_f64.to_bits() => Numerator::One,
                _ if of_one => Numerator::Reciprocal(a),
                _ => Numerator::Other(a),
            };
            let is_general = matches!(numerator, Numerator::Other(_));
            if !self.literals.contains_key(&d) && (!is_general || (2..=MOST).contains(&exponent)) {
                found.insert(*r, Quotient { base, exponent, numerator });
            }
        }
        found
    }

    /// What a quotient is by the reciprocal; nothing for the reciprocal itself.
    fn product(
        &mut self,
        r: RealId,
        quotient: &Quotient,
        reciprocals: &mut BTreeMap<(RealId, i32), RealId>,
        out: &mut Vec<Stmt>,
    ) -> Option<Real> {
        let Quotient { base, exponent, numerator } = *quotient;
        if (exponent, numerator) == (1, Numerator::One) {
            reciprocals.insert((base, 1), r);
            return None;
        }
        let q = *reciprocals.entry((base, 1)).or_insert_with(|| {
            let (defined, q) = reciprocal(base, &mut self.names);
            out.extend(defined);
            q
        });
        let power = |exponent: i32| Real::apply(Op::Powi(exponent), [q]);
        match numerator {
            Numerator::One => {
                reciprocals.insert((base, exponent), r);
                Some(power(exponent))
            }
            Numerator::Reciprocal(a) => {
                let by = *reciprocals.entry((base, exponent)).or_insert_with(|| {
                    let by = self.names.fresh_real();
                    out.push(Stmt::Define(by, power(exponent)));
                    by
                });
                Some(Real::Mul(a, by))
            }
            Numerator::Other(mut a) => {
                for _ in 1..exponent {
                    let next = self.names.fresh_real();
                    out.push(Stmt::Define(next, Real::Mul(a, q)));
                    a = next;
                }
                Some(Real::Mul(a, q))
            }
        }
    }
}

/// `1 / d`: what computes it, and where it is.
pub(super) fn reciprocal(d: RealId, names: &mut Fresh) -> ([Stmt; 2], RealId) {
    let (one, q) = (names.fresh_real(), names.fresh_real());
    ([Stmt::Define(one, Real::Literal(1.0)), Stmt::Define(q, Real::apply(Op::Div, [one, d]))], q)
}

/// The numbers of a division.
pub(super) fn division(real: &Real) -> Option<(RealId, RealId)> {
    binary(real, Op::Div)
}

/// The two numbers that a function is applied to.
pub(super) fn binary(real: &Real, op: Op) -> Option<(RealId, RealId)> {
    match real {
        Real::Apply(Function::Value(Primitive::Op(own)), args) if *own == op => match args.as_slice() {
            [a, b] => Some((*a, *b)),
            _ => None,
        },
        _ => None,
    }
}

//! Divisions by one square root become products with its reciprocal.
//!
//! ```text
//! d = sqrt(x)                  d = sqrt(x)
//! s += a / d                   q = 1 / d
//! t[i] = b / d         ==      s += a * q
//! u[i] = c / d                 t[i] = b * q
//!                              u[i] = c * q
//! ```
//!
//! A potential and its derivatives divide by a distance again and again, and a division takes as long as a dozen products.
//!
//! **Why it is right.** A number that is divided by another one is rounded once, and multiplied with its reciprocal twice, so the last bit may differ. Square
//! roots of numbers other than 0 and infinity, subnormal ones too, lie between 1e-162 and 1e155, so reciprocals neither overflow nor lose digits,
//! as they do for other divisors. Of 0, infinity and NaN the reciprocal gives the same as the division: `x / 0 = x * (1 / 0)`, and likewise for the others.
//!
//! **Where it is done.** Where statements of one body divide by it at least twice.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::loops::{Decision, Fresh, Program, Real, RealId, Stmt};
use crate::scalar::{Function, Op, Primitive};

/// Computes reciprocals of square roots once.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        let mut roots = BTreeSet::new();
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                if let Stmt::Define(r, Real::Apply(Function::Value(Primitive::Op(Op::Sqrt)), _)) = stmt {
                    roots.insert(*r);
                }
            });
        }
        if roots.is_empty() {
            continue;
        }
        let mut pass = Pass { roots, names: Fresh::after(&nest.body), found: 0 };
        pass.body(&mut nest.body);
        if pass.found > 0 {
            nest.decisions.push(Decision::Reciprocals { roots: pass.found });
        }
    }
    Ok(())
}

struct Pass {
    /// The square roots of the nest.
    roots: BTreeSet<RealId>,
    names: Fresh,
    /// How many have a reciprocal.
    found: usize,
}

impl Pass {
    fn body(&mut self, body: &mut Vec<Stmt>) {
        let mut divisions: BTreeMap<RealId, usize> = BTreeMap::new();
        for stmt in body.iter() {
            if let Some((_, d)) = division(stmt).filter(|(_, d)| self.roots.contains(d)) {
                *divisions.entry(d).or_default() += 1;
            }
        }
        divisions.retain(|_, count| *count > 1);
        let mut reciprocals: BTreeMap<RealId, RealId> = BTreeMap::new();
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in std::mem::take(body) {
            if let Some((a, d)) = division(&stmt).filter(|(_, d)| divisions.contains_key(d)) {
                let q = match reciprocals.get(&d) {
                    Some(q) => *q,
                    None => {
                        let (one, q) = (self.names.fresh_real(), self.names.fresh_real());
                        out.push(Stmt::Define(one, Real::Literal(1.0)));
                        out.push(Stmt::Define(q, Real::Apply(Op::Div.into(), vec![one, d])));
                        reciprocals.insert(d, q);
                        self.found += 1;
                        q
                    }
                };
                if let Stmt::Define(_, real) = &mut stmt {
                    *real = Real::Mul(a, q);
                }
            }
            if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut stmt {
                self.body(body);
            }
            out.push(stmt);
        }
        *body = out;
    }
}

/// The numbers of a division.
fn division(stmt: &Stmt) -> Option<(RealId, RealId)> {
    match stmt {
        Stmt::Define(_, Real::Apply(Function::Value(Primitive::Op(Op::Div)), args)) => match args.as_slice() {
            [a, b] => Some((*a, *b)),
            _ => None,
        },
        _ => None,
    }
}

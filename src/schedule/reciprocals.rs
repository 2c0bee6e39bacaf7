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
//! **Where it is done.** Where statements of the body in which it is defined divide by it at least twice, or a loop inside does, as where rows are
//! normalised. What is loaded from a workspace that holds square roots alone, and zeros, is one too.

use std::collections::{BTreeMap, BTreeSet};

use super::quotients::{division, reciprocal};
use crate::error::Result;
use crate::loops::{BufferId, BufferKind, Decision, Fresh, Nest, Program, Real, RealId, Stmt};
use crate::scalar::{Function, Op, Primitive};

/// Computes reciprocals of square roots once.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let stored = stored_roots(program);
    for nest in &mut program.nests {
        let roots = roots(nest, &stored);
        if roots.is_empty() {
            continue;
        }
        let mut pass = Pass { roots, reciprocals: BTreeMap::new(), names: Fresh::after(&nest.body) };
        pass.body(&mut nest.body);
        if !pass.reciprocals.is_empty() {
            nest.decisions.push(Decision::Reciprocals { roots: pass.reciprocals.len() });
        }
    }
    Ok(())
}

/// The registers of a nest that are square roots, where some buffers hold nothing else.
fn roots(nest: &Nest, stored: &BTreeSet<BufferId>) -> BTreeSet<RealId> {
    let mut roots = BTreeSet::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Define(r, Real::Apply(Function::Value(Primitive::Op(Op::Sqrt)), _)) => {
                roots.insert(*r);
            }
            Stmt::Define(r, Real::Load(place)) if stored.contains(&place.buffer) => {
                roots.insert(*r);
            }
            _ => {}
        });
    }
    roots
}

/// The workspaces that hold square roots alone.
fn stored_roots(program: &Program) -> BTreeSet<BufferId> {
    let (mut found, mut others) = (BTreeSet::new(), BTreeSet::new());
    for nest in &program.nests {
        let roots = roots(nest, &BTreeSet::new());
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                if let Stmt::Store(place, r) = stmt {
                    let known = if roots.contains(r) { &mut found } else { &mut others };
                    known.insert(place.buffer);
                }
            });
        }
    }
    let is_workspace = |b: &BufferId| program.buffers.get(*b).is_some_and(|b| b.kind == BufferKind::Workspace);
    found.retain(|b| is_workspace(b) && !others.contains(b));
    found
}

struct Pass {
    /// The square roots of the nest.
    roots: BTreeSet<RealId>,
    /// The reciprocals of some of them.
    reciprocals: BTreeMap<RealId, RealId>,
    names: Fresh,
}

impl Pass {
    fn body(&mut self, body: &mut Vec<Stmt>) {
        // Those that are to have a reciprocal, before the first statement that divides by them.
        let mut wanted = BTreeSet::new();
        for (at, stmt) in body.iter().enumerate() {
            if let Stmt::Define(r, _) = stmt
                && self.roots.contains(r)
                && divisions(&body[at + 1..], *r) > 1
            {
                wanted.insert(*r);
            }
        }
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in std::mem::take(body) {
            let here: Vec<RealId> =
                wanted.iter().copied().filter(|d| divisions(std::slice::from_ref(&stmt), *d) > 0).collect();
            for d in here {
                let (defined, q) = reciprocal(d, &mut self.names);
                out.extend(defined);
                self.reciprocals.insert(d, q);
                wanted.remove(&d);
            }
            let quotient = quotient_of(&stmt).and_then(|(a, d)| Some((a, *self.reciprocals.get(&d)?)));
            if let (Some((a, q)), Stmt::Define(_, real)) = (quotient, &mut stmt) {
                *real = Real::Mul(a, q);
            }
            if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut stmt {
                self.body(body);
            }
            out.push(stmt);
        }
        *body = out;
    }
}

/// How often statements divide by a number, where a loop does it twice.
fn divisions(body: &[Stmt], d: RealId) -> usize {
    let of = |stmt: &Stmt| match stmt {
        Stmt::For { body, .. } => divisions(body, d).saturating_mul(2),
        stmt => divisions(stmt.body(), d).saturating_add(usize::from(quotient_of(stmt).is_some_and(|(_, by)| by == d))),
    };
    body.iter().map(of).fold(0, usize::saturating_add)
}

/// The numbers that a statement divides.
fn quotient_of(stmt: &Stmt) -> Option<(RealId, RealId)> {
    match stmt {
        Stmt::Define(_, real) => division(real),
        _ => None,
    }
}

//! Divisions by one number become products with its reciprocal.
//!
//! ```text
//! d = sqrt(x)                  d = sqrt(x)
//! s += a / d                   q = 1 / d
//! t[i] = b / d         ==      s += a * q
//! u[i] = c / d                 t[i] = b * q
//!                              u[i] = c * q
//! ```
//!
//! A potential and its derivatives divide by a distance again and again, and a division takes as long as a dozen products. What is no square root is
//! scaled before, as where [a loop does not change it](super::divisions), which takes ten operations more.
//!
//! **Why it is right.** A number that is divided by another one is rounded once, and multiplied with its reciprocal twice, so the last bit may differ. Square
//! roots of numbers other than 0 and infinity, subnormal ones too, lie between 1e-162 and 1e155, so reciprocals neither overflow nor lose digits,
//! as they do for other divisors. Of 0, infinity and NaN the reciprocal gives the same as the division: `x / 0 = x * (1 / 0)`, and likewise for the others.
//!
//! **Where it is done.** Where statements of the body in which it is defined divide by it at least twice, or a loop inside does, as where rows are
//! normalised. What is loaded from a workspace that holds square roots alone, and zeros, is one too. Other numbers are made in the
//! body of a loop over many values.

use std::collections::{BTreeMap, BTreeSet};

use super::divisions::{Reciprocal, has_many, quotients, scaled};
use super::quotients::{division, reciprocal};
use crate::error::Result;
use crate::loops::{BufferId, BufferKind, Decision, Fresh, Nest, Program, Real, RealId, Stmt};
use crate::scalar::{Function, Op, Primitive};

/// Computes reciprocals once.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let stored = stored_roots(program);
    for nest in &mut program.nests {
        let mut divisors: BTreeSet<RealId> = quotients(&nest.body).into_iter().map(|(_, d)| d).collect();
        if divisors.is_empty() {
            continue;
        }
        let roots = roots(nest, &stored);
        without_reciprocal(nest, &mut divisors);
        let mut pass = Pass { roots, divisors, reciprocals: BTreeMap::new(), names: Fresh::after(&nest.body) };
        pass.body(&mut nest.body, false);
        if !pass.reciprocals.is_empty() {
            nest.decisions.push(Decision::Reciprocals { divisors: pass.reciprocals.len() });
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

/// Leaves out divisors that get no reciprocal here: literals, and powers, whose [quotients](super::quotients) share that of their base.
fn without_reciprocal(nest: &Nest, divisors: &mut BTreeSet<RealId>) {
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| {
            if let Stmt::Define(
                r,
                Real::Literal(_) | Real::Index(_) | Real::Apply(Function::Value(Primitive::Op(Op::Powi(2..))), _),
            ) = stmt
            {
                divisors.remove(r);
            }
        });
    }
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
    /// What else it divides by.
    divisors: BTreeSet<RealId>,
    /// The reciprocals of some numbers.
    reciprocals: BTreeMap<RealId, Reciprocal>,
    names: Fresh,
}

impl Pass {
    /// In a body, which a loop over more than a few values has or has not.
    fn body(&mut self, body: &mut Vec<Stmt>, is_loop: bool) {
        // Those that are to have a reciprocal, before the first statement that divides by them.
        let mut wanted = BTreeSet::new();
        for (at, stmt) in body.iter().enumerate() {
            if let Stmt::Define(r, _) = stmt {
                let is_known = self.roots.contains(r) || is_loop && self.divisors.contains(r);
                if is_known && divisions(&body[at + 1..], *r) > 1 {
                    wanted.insert(*r);
                }
            }
        }
        let mut out = Vec::with_capacity(body.len());
        for mut stmt in std::mem::take(body) {
            let here: Vec<RealId> =
                wanted.iter().copied().filter(|d| divisions(std::slice::from_ref(&stmt), *d) > 0).collect();
            for d in here {
                let by = if self.roots.contains(&d) {
                    let (defined, reciprocal) = reciprocal(d, &mut self.names);
                    out.extend(defined);
                    Reciprocal { scale: None, reciprocal }
                } else {
                    let (scale, reciprocal) = scaled(d, &mut self.names, &mut out);
                    Reciprocal { scale: Some(scale), reciprocal }
                };
                self.reciprocals.insert(d, by);
                wanted.remove(&d);
            }
            let quotient = quotient_of(&stmt).and_then(|(a, d)| Some((a, *self.reciprocals.get(&d)?)));
            if let (Some((a, by)), Stmt::Define(_, real)) = (quotient, &mut stmt) {
                *real = by.product(a, &mut self.names, &mut out);
            }
            match &mut stmt {
                Stmt::For { domain, body, .. } => self.body(body, has_many(domain)),
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.body(body, is_loop),
                _ => {}
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

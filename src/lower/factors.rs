//! A factor that a loop does not change leaves the sum.
//!
//! ```text
//! for i { t += a(i) * (b(i) * c) }   ==   local s; for i { s += a(i) * b(i) }; t += s * c
//! ```
//!
//! This is done for innermost loops, where it is one multiplication less in every round. Simplification does the same for whole tensors; what is
//! left are factors of tensors that are computed in place.

use std::collections::{BTreeMap, BTreeSet};

use super::names::Names;
use crate::loops::{Nest, Real, RealId, Stmt};

/// Takes factors out of the innermost loops of a nest.
pub(super) fn hoist(nest: &mut Nest) {
    let mut uses: BTreeMap<RealId, usize> = BTreeMap::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| *uses.entry(r).or_default() += 1));
    }
    let mut pass = Pass { names: Names::after(&nest.body), uses, found: false };
    nest.body = pass.body(std::mem::take(&mut nest.body));
    if pass.found {
        nest.reasons.push("a factor that a loop does not change is taken out of its sum".to_owned());
    }
}

struct Pass {
    names: Names,
    uses: BTreeMap<RealId, usize>,
    found: bool,
}

impl Pass {
    fn body(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in stmts {
            match &mut stmt {
                Stmt::For { body, .. } if body.iter().all(|stmt| stmt.body().is_empty()) => {
                    let (before, after) = self.innermost(body);
                    out.extend(before);
                    out.push(stmt);
                    out.extend(after);
                    continue;
                }
                Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
                    *body = self.body(std::mem::take(body));
                }
                _ => {}
            }
            out.push(stmt);
        }
        out
    }

    /// What comes before an innermost loop, and after it.
    fn innermost(&mut self, body: &mut Vec<Stmt>) -> (Vec<Stmt>, Vec<Stmt>) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut inside = BTreeSet::new();
        let mut added: BTreeMap<RealId, usize> = BTreeMap::new();
        let mut products = BTreeMap::new();
        for stmt in body.iter() {
            match stmt {
                Stmt::Define(r, real) => {
                    inside.insert(*r);
                    if let Real::Mul(a, b) = real {
                        products.insert(*r, (*a, *b));
                    }
                }
                Stmt::Local(r) => {
                    inside.insert(*r);
                }
                Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) => *added.entry(*r).or_default() += 1,
                _ => {}
            }
        }
        let read: BTreeSet<RealId> = {
            let mut read = BTreeSet::new();
            let mut note = |r| {
                read.insert(r);
            };
            body.iter().for_each(|stmt| stmt.visit_reads(&mut note));
            read
        };
        let mut at = 0;
        while let Some(stmt) = body.get(at) {
            at += 1;
            let Stmt::Accumulate(sum, product) = *stmt else { continue };
            if inside.contains(&sum) || added.get(&sum) != Some(&1) || read.contains(&sum) {
                continue;
            }
            let Some((leaves, gone)) = self.leaves(product, &products) else { continue };
            let is_fixed = |r: &RealId| !inside.contains(r) && !added.contains_key(r);
            let (fixed, rest): (Vec<RealId>, Vec<RealId>) = leaves.into_iter().partition(is_fixed);
            if fixed.is_empty() || rest.is_empty() {
                continue;
            }
            self.found = true;
            let part = self.names.fresh_real();
            before.push(Stmt::Local(part));
            let mut smaller = Vec::new();
            let summand = self.product(&rest, &mut smaller);
            let mut factors = fixed;
            factors.insert(0, part);
            let whole = self.product(&factors, &mut after);
            after.push(Stmt::Accumulate(sum, whole));
            body[at - 1] = Stmt::Accumulate(part, summand);
            let here = at - 1;
            body.splice(here..here, smaller);
            body.retain(|stmt| !matches!(stmt, Stmt::Define(r, _) if gone.contains(r)));
            at = body.iter().position(|stmt| *stmt == Stmt::Accumulate(part, summand)).map_or(body.len(), |k| k + 1);
        }
        (before, after)
    }

    /// The factors of a product, and the registers of products that are used for it alone. Nothing where there is no product.
    fn leaves(
        &self,
        product: RealId,
        products: &BTreeMap<RealId, (RealId, RealId)>,
    ) -> Option<(Vec<RealId>, BTreeSet<RealId>)> {
        let (mut leaves, mut gone, mut todo) = (Vec::new(), BTreeSet::new(), vec![product]);
        while let Some(r) = todo.pop() {
            match products.get(&r) {
                Some((a, b)) if self.uses.get(&r) == Some(&1) => {
                    gone.insert(r);
                    todo.extend([*b, *a]);
                }
                _ => leaves.push(r),
            }
        }
        (!gone.is_empty()).then_some((leaves, gone))
    }

    /// The product of factors, of which there is at least one.
    fn product(&mut self, factors: &[RealId], stmts: &mut Vec<Stmt>) -> RealId {
        let Some((first, rest)) = factors.split_first() else { return RealId(0) };
        rest.iter().fold(*first, |product, factor| {
            let r = self.names.fresh_real();
            stmts.push(Stmt::Define(r, Real::Mul(product, *factor)));
            self.uses.insert(r, 1);
            r
        })
    }
}

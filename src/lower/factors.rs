//! A factor that a loop does not change leaves the sum.
//!
//! ```text
//! for i { t += a(i) * (b(i) * c) }   ==   local s; for i { s += a(i) * b(i) }; t += s * c
//! ```
//!
//! This is done for innermost loops, where it is one multiplication less in every round. Simplification does the same for whole tensors; what is
//! left are factors of tensors that are computed in place.
//!
//! Of more than two factors that stay, those come first that the outer loops change least: `(a(k) * b(j, k)) * c(i, k)` is one product for each `i`
//! where iterations over `i` are interleaved, and the first one is there for all.

use std::collections::{BTreeMap, BTreeSet};

use super::names::Names;
use crate::base::IndexId;
use crate::loops::{Domain, Nest, Real, RealId, Stmt};

/// Takes factors out of the innermost loops of a nest.
pub(super) fn hoist(nest: &mut Nest) {
    let mut uses: BTreeMap<RealId, usize> = BTreeMap::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| *uses.entry(r).or_default() += 1));
    }
    let names = Names::after(&nest.body);
    let mut pass = Pass { names, uses, around: Vec::new(), changes: BTreeMap::new(), found: false };
    nest.body = pass.body(std::mem::take(&mut nest.body));
    if pass.found {
        nest.reasons.push("a factor that a loop does not change is taken out of its sum".to_owned());
    }
}

/// The bit of a loop with so many around.
fn bit(depth: usize) -> u64 {
    1 << 63_usize.saturating_sub(depth)
}

struct Pass {
    names: Names,
    uses: BTreeMap<RealId, usize>,
    /// The loops around.
    around: Vec<IndexId>,
    /// By which of the loops around a register is changed: the outermost ones are the highest bits.
    changes: BTreeMap<RealId, u64>,
    found: bool,
}

impl Pass {
    fn body(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in stmts {
            self.note(&stmt);
            match &mut stmt {
                Stmt::For { domain, body, .. } if body.iter().all(|stmt| stmt.body().is_empty()) => {
                    let in_order = matches!(domain, Domain::Range { .. });
                    let (before, after) = self.innermost(body, in_order);
                    out.extend(before);
                    out.push(stmt);
                    out.extend(after);
                    continue;
                }
                Stmt::For { index, body, .. } => {
                    self.around.push(*index);
                    *body = self.body(std::mem::take(body));
                    self.around.pop();
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
                    *body = self.body(std::mem::take(body));
                }
                _ => {}
            }
            out.push(stmt);
        }
        out
    }

    /// Notes by which loops a register is changed.
    fn note(&mut self, stmt: &Stmt) {
        let all = (0..self.around.len()).fold(0, |all, k| all | bit(k));
        match stmt {
            Stmt::Define(r, Real::Literal(_)) => self.changes.insert(*r, 0),
            Stmt::Define(r, Real::Load(place)) => {
                let inside = |i: &IndexId| place.at.iter().any(|a| a.mentions(*i));
                let changes =
                    self.around.iter().zip(0..).filter(|(i, _)| inside(i)).fold(0, |all, (_, k)| all | bit(k));
                self.changes.insert(*r, changes)
            }
            Stmt::Define(r, real @ (Real::Add(..) | Real::Mul(..) | Real::MulAdd(..) | Real::Apply(..))) => {
                let mut changes = 0;
                real.visit_reads(&mut |a| changes |= self.changes.get(&a).copied().unwrap_or(all));
                self.changes.insert(*r, changes)
            }
            Stmt::Define(r, _) | Stmt::Local(r) => self.changes.insert(*r, all),
            _ => None,
        };
    }

    /// What comes before an innermost loop, and after it; its factors are put in order if it is over a range.
    fn innermost(&mut self, body: &mut Vec<Stmt>, in_order: bool) -> (Vec<Stmt>, Vec<Stmt>) {
        let in_order = in_order && !body.iter().any(|stmt| matches!(stmt, Stmt::Let { .. } | Stmt::Find { .. }));
        body.iter().for_each(|stmt| self.note(stmt));
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
            let (fixed, mut rest): (Vec<RealId>, Vec<RealId>) = leaves.into_iter().partition(is_fixed);
            let given = rest.clone();
            if in_order && rest.len() > 2 {
                rest.sort_by_key(|r| self.changes.get(r).copied().unwrap_or(u64::MAX));
            }
            if rest.is_empty() || fixed.is_empty() && rest == given {
                continue;
            }
            let mut part = sum;
            if !fixed.is_empty() {
                self.found = true;
                part = self.names.fresh_real();
                before.push(Stmt::Local(part));
            }
            let mut smaller = Vec::new();
            let summand = self.product(&rest, &mut smaller);
            if !fixed.is_empty() {
                let mut factors = fixed;
                factors.insert(0, part);
                let whole = self.product(&factors, &mut after);
                after.push(Stmt::Accumulate(sum, whole));
            }
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

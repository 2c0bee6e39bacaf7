//! Sums over what a loop has counted, behind a test of the count.
//!
//! ```text
//! for k in D { if p(k) { c += 1 } }                 for k in D { if p(k) { c += 1 }; if p(k) { s += f(k) } }
//! if c != 0                                         if c != 0
//!   for k in D { if p(k) { s += f(k) } }     ==       r += a * s
//!   r += a * s
//! ```
//!
//! A product with a sum that is asked not to be over nothing, as gradients have it, would go through its terms twice, and search twice for what it finds.
//!
//! **Why it is right.** The sum is a register of the test, so nobody else sees it. It keeps the order of its terms, and where the count is 0 it is not read.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::index::Affine;
use crate::loops::{Cond, Fresh, Nest, RealId, Stmt, changed, has_calls, has_loop, stores};

/// Adds such sums up with their counts; how many there were.
pub(super) fn with_counts(nest: &mut Nest) -> Result<usize> {
    let mut any = false;
    nest.body
        .iter()
        .for_each(|stmt| stmt.visit(&mut |stmt| any |= matches!(stmt, Stmt::If { cond: Cond::Support(_), .. })));
    if !any {
        return Ok(0);
    }
    let mut names = Fresh::after(&nest.body);
    body(&mut nest.body, &mut names)
}

// Loops nest to a bounded depth.
fn body(stmts: &mut Vec<Stmt>, names: &mut Fresh) -> Result<usize> {
    let mut found = 0;
    let mut at = 1;
    while at < stmts.len() {
        let sum = match stmts.get(at - 1..=at) {
            Some([counts, Stmt::If { cond, body }]) => sum_of(counts, cond, body),
            _ => None,
        };
        let Some(sum) = sum else {
            at += 1;
            continue;
        };
        let Some(Stmt::If { body: inside, .. }) = stmts.get_mut(at) else { break };
        let Stmt::For { index, body: terms, .. } = inside.remove(sum) else { break };
        let sums = changed(&terms);
        let mut locals = Vec::new();
        inside.retain(|stmt| match stmt {
            Stmt::Local(r) if sums.contains(r) => {
                locals.push(stmt.clone());
                false
            }
            _ => true,
        });
        if let Some(Stmt::For { index: own, body: counting, .. }) = stmts.get_mut(at - 1) {
            names.again();
            names.fix(index, Affine::index(*own));
            counting.extend(names.body(&terms)?);
            found += 1;
        }
        let count = locals.len();
        stmts.splice(at - 1..at - 1, locals);
        at += count;
    }
    for stmt in stmts {
        if let Stmt::For { body: inner, .. } | Stmt::If { body: inner, .. } = stmt {
            found += body(inner, names)?;
        }
    }
    Ok(found)
}

/// The place of a loop inside of a test that sums up over what a loop has counted, if the test is of this count.
fn sum_of(counts: &Stmt, cond: &Cond, inside: &[Stmt]) -> Option<usize> {
    let (Stmt::For { domain, body: counting, .. }, Cond::Support(count)) = (counts, cond) else { return None };
    let at = inside.iter().position(|stmt| matches!(stmt, Stmt::For { .. }))?;
    let (before, behind) = inside.split_at(at);
    let Some(Stmt::For { domain: other, body: terms, .. }) = behind.first() else { return None };
    let (mut locals, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for stmt in before {
        match stmt {
            Stmt::Local(r) => locals.extend([*r]),
            Stmt::Define(r, _) => numbers.extend([*r]),
            _ => return None,
        }
    }
    let mut needs = BTreeSet::<RealId>::new();
    let mut own = BTreeSet::new();
    for stmt in terms {
        stmt.visit(&mut |stmt| {
            stmt.visit_reads(&mut |r| needs.extend([r]));
            own.extend(stmt.changes());
        });
    }
    let loops = [counting, terms].into_iter().all(|body| !body.iter().any(has_loop) && stores(body).is_empty());
    let is_sum = own.is_subset(&locals) && needs.is_disjoint(&numbers) && needs.is_disjoint(&locals);
    (loops && is_sum && domain == other && changed(counting).contains(count) && !has_calls(terms)).then_some(at)
}

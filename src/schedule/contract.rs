//! Products that are added and read nowhere else are rounded once, with the sum.
//!
//! ```text
//! r = a * b                        r = a * b
//! s += r       ==  s += a * b      s = x + r     ==  s = a * b + x
//! ```
//!
//! where nothing in between changes `a` or `b`. This is one instruction where there were two, and nearer to the exact sum. Products that may be
//! stored before they are added, in [bins](super::bins), stay.

use std::collections::{BTreeMap, BTreeSet};

use super::bins;
use crate::error::Result;
use crate::loops::{Program, Real, RealId, Stmt};

/// Puts products into sums.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { arrays, nests, .. } = program;
    let stored_before = |stmt: &Stmt| bins::Gather::of(arrays, stmt).is_some_and(|gather| gather.alone);
    nests.iter_mut().for_each(|nest| add_unless(&stored_before, &mut nest.body));
    Ok(())
}

/// Puts products into the sums of statements.
pub(super) fn add_in(stmts: &mut Vec<Stmt>) {
    add_unless(&|_| false, stmts);
}

/// Puts products into the sums of statements, but for those inside of some.
fn add_unless(stay: &dyn Fn(&Stmt) -> bool, stmts: &mut Vec<Stmt>) {
    let mut uses: BTreeMap<RealId, usize> = BTreeMap::new();
    for stmt in stmts.iter() {
        stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| *uses.entry(r).or_default() += 1));
    }
    let once = uses.into_iter().filter(|(_, count)| *count == 1).map(|(r, _)| r).collect();
    body(stay, stmts, &once);
}

fn body(stay: &dyn Fn(&Stmt) -> bool, stmts: &mut Vec<Stmt>, once: &BTreeSet<RealId>) {
    // Products of this body that may still move, with their operands.
    let mut products: BTreeMap<RealId, (RealId, RealId)> = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for stmt in stmts.iter_mut() {
        match stmt {
            _ if stay(stmt) => {}
            Stmt::For { body: inner, .. } | Stmt::Extremum { body: inner, .. } | Stmt::If { body: inner, .. } => {
                body(stay, inner, once);
            }
            Stmt::Accumulate(sum, r) => {
                if let Some((a, b)) = products.remove(r) {
                    gone.insert(*r);
                    *stmt = Stmt::MulAdd(*sum, a, b);
                }
            }
            Stmt::Define(_, real) => {
                if let Real::Add(x, y) = *real {
                    let (product, other) = if products.contains_key(&y) { (y, x) } else { (x, y) };
                    if let Some((a, b)) = products.remove(&product) {
                        gone.insert(product);
                        *real = Real::MulAdd(a, b, other);
                    }
                }
            }
            _ => {}
        }
        stmt.visit(&mut |stmt| {
            if let Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) = stmt {
                products.retain(|_, (a, b)| a != r && b != r);
            }
        });
        if let Stmt::Define(r, Real::Mul(a, b)) = stmt
            && once.contains(r)
        {
            products.insert(*r, (*a, *b));
        }
    }
    stmts.retain(|stmt| !matches!(stmt, Stmt::Define(r, _) if gone.contains(r)));
}

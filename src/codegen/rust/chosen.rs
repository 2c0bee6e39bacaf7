//! Calls of functions that are made where some lane asks for them.
//!
//! ```text
//! r1 = exp(r0)                    r1 = if some lane of p is not 0 { exp(r0) } else { 0 }
//! r2 = [p != 0] r1        ==      r2 = [p != 0] r1
//! ```
//!
//! Where tests of numbers became choices, functions are computed in lanes that do not need them. A group of lanes of which none does leaves them out: a
//! rare test, as one for pairs of points that are near each other, costs what it asks and little more.
//!
//! **Why it is right.** Nothing else reads what the call gives, and what is not chosen does not matter.

use std::collections::BTreeMap;

use crate::loops::{Nest, Real, RealId, Stmt};

/// For each call that is only read where a number is not 0, that number.
pub(super) fn chosen(nest: &Nest) -> BTreeMap<RealId, RealId> {
    let mut reads: BTreeMap<RealId, usize> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| {
            stmt.visit_reads(&mut |r| *reads.entry(r).or_default() += 1);
            find(stmt.body(), &mut found);
        });
    }
    find(&nest.body, &mut found);
    found.retain(|call, _| reads.get(call) == Some(&1));
    found
}

/// Those of which the choice is the next statement, so that the test is known before the call.
fn find(body: &[Stmt], found: &mut BTreeMap<RealId, RealId>) {
    for pair in body.windows(2) {
        if let [Stmt::Define(call, Real::Apply(function, _)), Stmt::Define(_, Real::Select(test, chosen))] = pair
            && chosen == call
            && test != call
            && function.is_call()
        {
            found.insert(*call, *test);
        }
    }
}

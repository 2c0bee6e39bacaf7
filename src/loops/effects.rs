//! What statements do to what is outside of them.

use std::collections::BTreeSet;

use super::{Bound, Domain, Program, Real, RealId, Stmt, changed, loads, stores};
use crate::base::IndexId;
use crate::index::Var;

/// Whether a statement is a loop or has one inside.
pub(crate) fn has_loop(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { .. } | Stmt::Extremum { .. }) || stmt.body().iter().any(has_loop)
}

/// How many statements there are, with those inside.
pub(crate) fn size<'a>(body: impl IntoIterator<Item = &'a Stmt>) -> usize {
    let mut size = 0;
    body.into_iter().for_each(|stmt| stmt.visit(&mut |_| size += 1));
    size
}

impl Program {
    /// Whether it calls functions of tensors from outside.
    pub(crate) fn calls_outside(&self) -> bool {
        let mut found = false;
        for stmt in self.nests.iter().flat_map(|nest| &nest.body) {
            stmt.visit(&mut |stmt| found |= matches!(stmt, Stmt::Call { .. }));
        }
        found
    }
}

/// Whether statements have functions of more than a few instructions.
pub(crate) fn has_calls(body: &[Stmt]) -> bool {
    let mut found = false;
    for stmt in body {
        stmt.visit(&mut |stmt| found |= matches!(stmt, Stmt::Define(_, Real::Apply(f, _)) if f.is_call()));
    }
    found
}

/// The registers that are declared outside of statements and get a value there.
pub(crate) fn changed_outside(body: &[Stmt]) -> BTreeSet<RealId> {
    let mut outside = changed(body);
    for stmt in body {
        stmt.visit(&mut |stmt| {
            if let Stmt::Local(r) = stmt {
                outside.remove(r);
            }
        });
    }
    outside
}

/// Whether statements give a value to a register that is declared outside.
pub(crate) fn changes_outside(body: &[Stmt]) -> bool {
    !changed_outside(body).is_empty()
}

/// Whether statements change registers outside by adding to them alone, and nothing else is done once for all iterations.
pub(crate) fn only_sums(body: &[Stmt]) -> bool {
    let (mut inside, mut assigned, mut fills) = (BTreeSet::new(), BTreeSet::new(), false);
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Local(r) => {
                inside.insert(*r);
            }
            Stmt::Assign(r, _) | Stmt::Extend(_, r, _) => {
                assigned.insert(*r);
            }
            Stmt::Fill(_) | Stmt::End(_) => fills = true,
            _ => {}
        });
    }
    assigned.is_subset(&inside) && !fills
}

/// Whether a range lies in `k * i + c .. k * i + c + k - 1`, so that it has no value in common with that of another `i`.
fn is_block(domain: &Domain, i: IndexId) -> bool {
    let Domain::Range { lower, upper } = domain else { return false };
    lower.iter().filter(|bound| bound.divisor == 1).any(|first| {
        let k = first.numerator.coefficient(&Var::Index(i));
        let is_last = |last: &Bound| {
            let length = last.numerator.sub(&first.numerator).ok().and_then(|length| length.as_constant());
            last.divisor == 1 && length.is_some_and(|length| length < k)
        };
        k > 0 && upper.iter().any(is_last)
    })
}

/// Whether iterations of a loop add to places that data tell, so that two of them may meet: they come one after the other.
pub(crate) fn adds_where_told(index: IndexId, domain: &Domain, body: &[Stmt]) -> bool {
    let mut told = BTreeSet::new();
    let mut own = BTreeSet::from([index]);
    let over_nodes = matches!(domain.whole_of(), Domain::Segment(_));
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            // What a segment goes through is there once.
            Stmt::Let { at, .. } if over_nodes && at.as_index() == Some(index) => {}
            Stmt::Let { index, .. } | Stmt::Length { index, .. } | Stmt::Find { index, .. } => {
                told.insert(*index);
            }
            // So are parts, and what is below other nodes.
            Stmt::For { index: inner, domain, .. } => {
                let above = match domain {
                    Domain::Part { part, .. } => part,
                    Domain::Segment(segment) => &segment.at,
                    Domain::Range { .. } if own.iter().any(|i| is_block(domain, *i)) => {
                        own.insert(*inner);
                        return;
                    }
                    Domain::Range { .. } => return,
                };
                if own.iter().any(|i| above.as_index() == Some(*i)) {
                    own.insert(*inner);
                }
            }
            _ => {}
        });
    }
    if told.is_empty() {
        return false;
    }
    let loads = loads(body);
    stores(body).into_iter().any(|place| {
        let is_of = |which: &BTreeSet<IndexId>| place.at.iter().any(|a| which.iter().any(|i| a.mentions(*i)));
        is_of(&told) && !is_of(&own) && loads.contains(&place)
    })
}

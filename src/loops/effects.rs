//! What statements do to what is outside of them.

use std::collections::BTreeSet;

use super::{Program, Real, RealId, Stmt, changed};

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

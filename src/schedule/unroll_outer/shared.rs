//! A loop over a few values inside of a long one, where much of what that does is the same for all values.
//!
//! ```text
//! for c in 0 .. 2                                   for k
//!   for k                                             r = f(k)
//!     r = f(k)                             ==         s0 += r * x[k, 0]
//!     s += r * x[k, c]                                s1 += r * x[k, 1]
//!   y[c] = s                                          s2 += r * x[k, 2]
//!                                                   y[0] = s0
//!                                                   ..
//! ```
//!
//! `f` may have tests and functions, as forces have that depend on the distance of two points. What depends on the value is there once for each value,
//! what does not is there once.
//!
//! **Why it is right.** For each value the same statements run in the same order, and read what they read before: what is there once is no other
//! number for another value.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::{few, has_calls, is_number, literals};
use crate::base::IndexId;
use crate::index::{Affine, Checked};
use crate::loops::{Fresh, RealId, Stmt, has_loop};

/// What depends on the index of a loop.
struct Depends {
    index: IndexId,
    reals: BTreeSet<RealId>,
    indices: BTreeSet<IndexId>,
}

impl Depends {
    fn on(index: IndexId, body: &[Stmt]) -> Depends {
        let mut depends = Depends { index, reals: BTreeSet::new(), indices: BTreeSet::new() };
        loop {
            let before = depends.reals.len() + depends.indices.len();
            depends.mark(body, false);
            if depends.reals.len() + depends.indices.len() == before {
                return depends;
            }
        }
    }

    // Loops and tests nest to a bounded depth.
    fn mark(&mut self, body: &[Stmt], around: bool) {
        for stmt in body {
            let own = around || self.is_of(stmt);
            if own {
                self.indices.extend(stmt.defines());
                self.reals.extend(stmt.changes());
                if let Stmt::Define(r, _) = stmt {
                    self.reals.insert(*r);
                }
            }
            self.mark(stmt.body(), own);
        }
    }

    /// Whether a statement, but for those inside, depends on the index.
    fn is_of(&self, stmt: &Stmt) -> bool {
        let mut own = matches!(stmt, Stmt::Local(r) if self.reals.contains(r));
        own |= stmt.changes().is_some_and(|r| self.reals.contains(&r));
        stmt.visit_reads(&mut |r| own |= self.reals.contains(&r));
        stmt.visit_indices(&mut |i| own |= i == self.index || self.indices.contains(&i));
        own
    }

    /// The same of it and of those inside.
    fn is_in(&self, stmt: &Stmt) -> bool {
        let mut any = false;
        stmt.visit(&mut |stmt| any |= self.is_of(stmt));
        any
    }
}

/// The statements of a loop over a few values around long ones that share tests or functions.
pub(super) fn shared(stmt: &Stmt, names: &mut Fresh) -> Checked<Option<Vec<Stmt>>> {
    let Some((index, values, depends)) = values(stmt) else { return Ok(None) };
    let mut copies = Vec::new();
    for value in values {
        names.again();
        names.fix(index, Affine::constant(value));
        for stmt in stmt.body() {
            stmt.visit(&mut |stmt| {
                stmt.defines().filter(|i| !depends.indices.contains(i)).for_each(|i| names.keep(i, i));
                if let Stmt::Define(r, _) | Stmt::Local(r) = stmt
                    && !depends.reals.contains(r)
                {
                    names.alias(*r, *r);
                }
            });
        }
        copies.push(names.body(stmt.body())?);
    }
    let mut out = Vec::new();
    zip(&depends, stmt.body(), copies, &mut out);
    Ok(Some(out))
}

/// Whether [`shared`] has statements for a loop.
pub(super) fn is_shared(stmt: &Stmt) -> bool {
    values(stmt).is_some()
}

/// The index of such a loop, its values, and what depends on them.
fn values(stmt: &Stmt) -> Option<(IndexId, RangeInclusive<i64>, Depends)> {
    let Stmt::For { index, domain, lanes: 1, jam: 1, body, .. } = stmt else { return None };
    let values = few(domain)?;
    let is_long =
        |stmt: &Stmt| matches!(stmt, Stmt::For { domain, lanes: 1, jam: 1, .. } if literals(domain).is_none());
    let plain = |stmt: &Stmt| matches!(stmt, Stmt::Store(..) | Stmt::Assign(..)) || is_number(stmt);
    let longs = body.iter().filter(|stmt| is_long(stmt)).count();
    let fine = body.iter().all(|stmt| is_long(stmt) && stmt.body().iter().all(is_plain) || plain(stmt));
    if longs == 0 || !fine {
        return None;
    }
    let depends = Depends::on(*index, body);
    // The same loops and tests for all values, and nothing that takes long for each of them.
    let (mut same, mut tests) = (true, false);
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::For { .. } => same &= !depends.is_of(stmt),
            Stmt::If { .. } => {
                same &= !depends.is_of(stmt);
                tests = true;
            }
            stmt => {
                let calls = has_calls(std::slice::from_ref(stmt));
                same &= !(calls && depends.is_of(stmt));
                tests |= calls;
            }
        });
    }
    (same && tests).then_some((*index, values, depends))
}

/// The copies of statements, those once that are the same.
// Loops and tests nest to a bounded depth.
fn zip(depends: &Depends, body: &[Stmt], copies: Vec<Vec<Stmt>>, out: &mut Vec<Stmt>) {
    let mut copies: Vec<_> = copies.into_iter().map(Vec::into_iter).collect();
    for stmt in body {
        let mut own = copies.iter_mut().filter_map(Iterator::next);
        if !depends.is_in(stmt) {
            out.extend(own.next());
            own.for_each(drop);
        } else if stmt.body().is_empty() {
            out.extend(own);
        } else {
            let mut first = own.next();
            let mut inside: Vec<Vec<Stmt>> = first.iter().map(|stmt| stmt.body().to_vec()).collect();
            inside.extend(own.map(|stmt| stmt.body().to_vec()));
            if let Some(Stmt::For { body: joined, .. } | Stmt::If { body: joined, .. }) = &mut first {
                joined.clear();
                zip(depends, stmt.body(), inside, joined);
            }
            out.extend(first);
        }
    }
}

/// Whether a statement is a number or a sum, a loop over a few values of such, or any of these under a test.
// Tests nest to a bounded depth.
fn is_plain(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { domain, body, lanes: 1, jam: 1, .. } => {
            few(domain).is_some() && !body.iter().any(has_loop) && body.iter().all(is_plain)
        }
        Stmt::If { body, .. } => body.iter().all(is_plain),
        Stmt::Assign(..) => true,
        stmt => is_number(stmt),
    }
}

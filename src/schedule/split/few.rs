//! Loops over a few values that are tested against each other.
//!
//! ```text
//! for a in max(0, 1 - i) .. 2                if i - 1 >= 0
//!   for b in 0 .. 2                            for b in 0 .. 2
//!     if a - 1 != 0 or b - 1 != 0                A(0, b)
//!       A(a, b)                       ==     for b in 0 .. 2
//!                                              if b - 1 != 0
//!                                                A(1, b)
//!                                            for b in 0 .. 2
//!                                              A(2, b)
//! ```
//!
//! The neighbours of a place without the place itself, pairs of a few columns: no end of one loop decides such a test. For each value of the
//! outer one it is a test of the inner one alone, at which that is [cut](super::innermost).
//!
//! **Why it is right.** The statements are those of the loop, in its order, with a constant for the index and registers of their own, under a test
//! that the constant is between the ends. A test that the constant decides says what it said.
//!
//! **Where it is done.** In loops inside of others, from a literal to a literal at most and over fewer values than a loop has that gets lanes, around
//! a test that mentions the index and that of a loop inside over as few, and nothing else; where that is not much code.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::super::machine::{FEW_STATEMENTS, SHORT};
use super::rows::within;
use crate::base::IndexId;
use crate::index::{Affine, Checked, Var};
use crate::loops::predicate::rooms;
use crate::loops::{Bound, Cond, Domain, Fresh, Nest, Stmt, size};
use crate::solver::Facts;

/// Makes statements of such loops of a nest; whether there were any.
pub(super) fn unroll(nest: &mut Nest) -> Checked<bool> {
    let mut names = Fresh::after(&nest.body);
    let mut found = false;
    for stmt in &mut nest.body {
        if let Stmt::For { body, .. } = stmt {
            *body = inside(std::mem::take(body), &mut names, &mut found)?;
        }
    }
    Ok(found)
}

// Loops nest to a bounded depth.
fn inside(stmts: Vec<Stmt>, names: &mut Fresh, found: &mut bool) -> Checked<Vec<Stmt>> {
    let mut out = Vec::with_capacity(stmts.len());
    for mut stmt in stmts {
        if let Some((index, values)) = values(&stmt) {
            *found = true;
            for value in values {
                names.again();
                names.fix(index, Affine::constant(value));
                let body = names.body(stmt.body())?;
                let all = Stmt::If { cond: Cond::All(between(value, &stmt)?), body };
                let body = within(&[all], &Facts::default())?;
                out.extend(inside(body, names, found)?);
            }
            continue;
        }
        if let Stmt::For { body, .. } | Stmt::If { body, .. } = &mut stmt {
            *body = inside(std::mem::take(body), names, found)?;
        }
        out.push(stmt);
    }
    Ok(out)
}

/// The values of a loop that becomes statements, with its index.
fn values(stmt: &Stmt) -> Option<(IndexId, RangeInclusive<i64>)> {
    let Stmt::For { index, domain, body, .. } = stmt else { return None };
    let values = few(domain)?;
    let copies = usize::try_from(values.end().checked_sub(*values.start())?).ok()?.saturating_add(1);
    (size(body).saturating_mul(copies) <= FEW_STATEMENTS && is_tested(*index, body)).then_some((*index, values))
}

/// The values that a domain has at most, where they are few, as literals.
fn few(domain: &Domain) -> Option<RangeInclusive<i64>> {
    let Domain::Range { lower, upper } = domain else { return None };
    let literals = |bounds: &[Bound]| -> Vec<i64> {
        bounds.iter().filter(|bound| bound.divisor == 1).filter_map(|bound| bound.numerator.as_constant()).collect()
    };
    let (first, last) = (literals(lower).into_iter().max()?, literals(upper).into_iter().min()?);
    last.checked_sub(first).is_some_and(|steps| (1..SHORT - 1).contains(&steps)).then_some(first..=last)
}

/// What says that a value is one of a loop: that it is between its ends.
fn between(value: i64, stmt: &Stmt) -> Checked<Vec<Cond>> {
    let Stmt::For { domain: Domain::Range { lower, upper }, .. } = stmt else { return Ok(Vec::new()) };
    let rooms = rooms(&Affine::constant(value), (lower, upper), &|a| Ok(a.clone()))?;
    Ok(rooms.into_iter().map(Cond::NonNegative).collect())
}

/// Whether a body tests an index against those of loops over a few values inside.
fn is_tested(index: IndexId, body: &[Stmt]) -> bool {
    let (mut within, mut found) = (BTreeSet::new(), false);
    body.iter().for_each(|stmt| {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::For { index, domain, .. } => within.extend(few(domain).map(|_| *index)),
            Stmt::If { cond, .. } => found |= compares(cond, index, &within),
            _ => {}
        });
    });
    found
}

/// Whether a condition, or a part of a conjunction, is about an index, some others and nothing else.
fn compares(cond: &Cond, index: IndexId, others: &BTreeSet<IndexId>) -> bool {
    if let Cond::All(conds) = cond
        && conds.iter().any(|cond| compares(cond, index, others))
    {
        return true;
    }
    let (mut own, mut other, mut only) = (false, false, true);
    cond.visit_reads(&mut |_| only = false);
    cond.visit_affine(&mut |a| {
        for (var, _) in a.terms() {
            match var {
                Var::Index(i) if *i == index => own = true,
                Var::Index(i) if others.contains(i) => other = true,
                _ => only = false,
            }
        }
    });
    own && other && only
}

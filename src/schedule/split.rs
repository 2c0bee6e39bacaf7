//! Loops whose bodies test where their index is.
//!
//! ```text
//! for i in D                       for i in D where i <= a
//!   if 0 <= a - i                    A(i)
//!     A(i)                  ==       B(i)
//!   B(i)                           for i in D where a < i
//!                                    B(i)
//! ```
//!
//! and the same for `0 <= i - a`, with the loops the other way round. Each value is in exactly one of the two, and they come in the same order,
//! so this holds whatever the statements do. It is done where `A` has a loop: what is left in each of the two can then run in lanes, and be
//! interleaved. The loop at the top of a nest stays whole, since nests over the same rows become one; so does a loop that would be copied
//! again and again. Loops over a few values that are tested [against each other](few) become statements. Of loops around others
//! [rows at the borders](rows) are told from the rest. [Innermost loops](innermost) are cut at all their tests, and loops around sums over a few
//! places next to them where these places [are others](taps).

mod few;
pub(super) mod innermost;
pub(super) mod rows;
pub(super) mod taps;

use super::machine::COPIED_STATEMENTS;
use super::vectorise::literal;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked, Var};
use crate::loops::{Bound, Cond, Decision, Domain, Fresh, Program, Stmt, defined, has_loop, inside_of_loops, size};

/// Cuts loops.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let facts = program.signature.facts();
    for nest in &mut program.nests {
        inside_of_loops(nest, &Decision::Split {}, inside)?;
        let few = few::unroll(nest)?;
        if rows::tell(nest, &facts)? {
            nest.decisions.push(Decision::Borders {});
        }
        if innermost::cut(nest, &facts)? || few {
            nest.decisions.push(Decision::Decided {});
        }
        if taps::cut(nest, &facts)? {
            nest.decisions.push(Decision::Taps {});
        }
        drop_empty(&mut nest.body);
    }
    Ok(())
}

/// Drops loops whose literal bounds leave them no values, and those in which nothing is left.
fn drop_empty(body: &mut Vec<Stmt>) {
    for stmt in body.iter_mut() {
        if let Stmt::For { body, .. } | Stmt::If { body, .. } = stmt {
            drop_empty(body);
        }
    }
    let is_empty = |stmt: &Stmt| match stmt {
        Stmt::For { domain, body, .. } => body.is_empty() || literal(domain).is_some_and(|n| n <= 0),
        _ => false,
    };
    body.retain(|stmt| !is_empty(stmt));
}

fn inside(body: &mut Vec<Stmt>, names: &mut Fresh, found: &mut bool) -> Checked<()> {
    for mut stmt in std::mem::take(body) {
        if let Stmt::For { body, .. } | Stmt::If { body, .. } = &mut stmt {
            inside(body, names, found)?;
        }
        match in_two(&stmt, names)? {
            Some(both) => {
                *found = true;
                body.extend(both);
            }
            None => body.push(stmt),
        }
    }
    Ok(())
}

/// The two loops that a loop becomes.
fn in_two(stmt: &Stmt, names: &mut Fresh) -> Checked<Option<[Stmt; 2]>> {
    let Stmt::For { index, domain: Domain::Range { lower, upper }, body, .. } = stmt else { return Ok(None) };
    let size = size([stmt]);
    let test = body.iter().find_map(|stmt| match stmt {
        Stmt::If { cond: Cond::NonNegative(a), body: inner } if inner.iter().any(has_loop) => {
            Some((a, ends(a, *index, body)?))
        }
        _ => None,
    });
    let Some((test, sign)) = test.filter(|_| size <= COPIED_STATEMENTS) else { return Ok(None) };
    let mut with = Vec::with_capacity(body.len());
    let mut without = Vec::with_capacity(body.len());
    for stmt in body {
        for (holds, piece) in [(true, &mut with), (false, &mut without)] {
            match (stmt, decided(stmt, test, holds)?) {
                (Stmt::If { body, .. }, Some(true)) => piece.extend(body.iter().cloned()),
                (_, Some(false)) => {}
                (stmt, _) => piece.push(stmt.clone()),
            }
        }
    }
    // sign*i + rest >= 0
    let rest = test.sub(&Affine::index(*index).scale(sign)?)?;
    names.again();
    let other = names.index(*index);
    let without = names.body(&without)?;
    let part = |index: IndexId, lower: Vec<Bound>, upper: Vec<Bound>, body: Vec<Stmt>| {
        Stmt::one_by_one(index, Domain::Range { lower, upper }, body)
    };
    Ok(Some(if sign < 0 {
        [
            part(*index, lower.clone(), and(upper, Bound::exact(rest.clone()), -1)?, with),
            part(other, and(lower, Bound::exact(rest.add_constant(1)?), 1)?, upper.clone(), without),
        ]
    } else {
        let first = rest.scale(-1)?;
        [
            part(other, lower.clone(), and(upper, Bound::exact(first.add_constant(-1)?), -1)?, without),
            part(*index, and(lower, Bound::exact(first), 1)?, upper.clone(), with),
        ]
    }))
}

/// What becomes of a test where it is known whether `0 <= test`, as far as that decides it: the same one, one that asks for less, or the contrary.
fn decided(stmt: &Stmt, test: &Affine, holds: bool) -> Checked<Option<bool>> {
    let Stmt::If { cond: Cond::NonNegative(a), .. } = stmt else { return Ok(None) };
    // Where the test fails, `0 <= -1 - test`.
    let known = if holds { test.clone() } else { test.scale(-1)?.add_constant(-1)? };
    let (more, sum) = (a.sub(&known)?.as_constant(), a.add(&known)?.as_constant());
    Ok(match (more, sum) {
        (Some(0..), _) => Some(true),
        (_, Some(..0)) => Some(false),
        _ => None,
    })
}

/// Bounds and one more, instead of one that is a literal away, where it is tighter than that: with `sign` 1 lower ones.
fn and(bounds: &[Bound], new: Bound, sign: i64) -> Checked<Vec<Bound>> {
    let mut all = bounds.to_vec();
    for bound in all.iter_mut().filter(|bound| bound.divisor == new.divisor) {
        if let Some(more) = new.numerator.sub(&bound.numerator)?.as_constant() {
            if more.saturating_mul(sign) > 0 {
                *bound = new;
            }
            return Ok(all);
        }
    }
    all.push(new);
    Ok(all)
}

/// The sign of an index in a test of where it is, if all else that the test mentions is known before the loop.
fn ends(test: &Affine, index: IndexId, body: &[Stmt]) -> Option<i64> {
    let sign = test.coefficient(&Var::Index(index));
    let known = sign.unsigned_abs() == 1 && !defined(body).into_iter().any(|i| test.mentions(i));
    known.then_some(sign)
}

//! Loops over a few values, as a literal, around sums that share what they load, become statements for each value.
//!
//! ```text
//! for c in 0 .. 2                                   for k { s0 += w[k] * x[k, 0] }
//!   for k { s += w[k] * x[k, c] }                   y[0] = s0
//!   y[c] = s                              ==        for k { s1 += w[k] * x[k, 1] }
//!                                                   y[1] = s1
//!                                                   ..
//! ```
//!
//! The coordinates of a point, the channels of a picture: too few for lanes, and around a long sum they have it go through its operands for each
//! of them. Loops that are beside each other then become one ([`merge`](super::merge)), which loads once what they share, and has lanes itself.
//!
//! Where what the long loop does has tests, or functions that take long, which are the same for all values, the values come [inside of it](shared), from
//! outside of all loops over the elements of a tensor too.
//!
//! In the body of a search for an extremum loops over a few values, as a sum of squares over three coordinates, become statements as well: then the search
//! has lanes.
//!
//! **Why it is right.** The statements are those of the loop, in its order, with a constant for the index and registers of their own.
//!
//! **Where it is done.** In a loop inside of another one, with at most four values, or up to seven around a short sum, whose body has loops that are innermost, over ranges of an unknown
//! length that do not depend on the index, and that load something at places without the index, or all find the coordinates of the same entries. They
//! may be under tests. Sums over a few values inside of these are no loops.

mod shared;

use std::ops::RangeInclusive;

use super::interchange::{Chain, chain, ordered};
use super::machine::{FEW, SHORT, SHORT_STATEMENTS};
use super::split::rows::within;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{Bound, Decision, Domain, Fresh, Nest, Program, Stmt, has_calls, has_loop, loads, size};
use crate::solver::Facts;

/// Unrolls short loops around long sums.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        if let Some(body) = few_inside(nest) {
            nest.body = body;
        }
        let mut pass = Pass { names: Fresh::after(&nest.body), unrolled: 0 };
        for stmt in &mut nest.body {
            if let Stmt::For { body, .. } = stmt {
                *body = pass.body(std::mem::take(body))?;
            }
        }
        if pass.unrolled > 0 {
            nest.decisions.push(Decision::UnrolledOuter { loops: pass.unrolled });
        }
    }
    Ok(())
}

/// The loops of a nest with the outermost one innermost, where that is over a few values that then come [inside](shared) of a long one.
fn few_inside(nest: &Nest) -> Option<Vec<Stmt>> {
    let Chain { loops, between, innermost } = chain(nest)?;
    let ((index, domain), others) = loops.split_first().filter(|(_, others)| !others.is_empty())?;
    let mut depends = false;
    others.iter().for_each(|(_, domain)| domain.visit_affine(&mut |a| depends |= a.mentions(*index)));
    if depends || few(domain).is_none() {
        return None;
    }
    let loops = others.iter().chain([&(*index, *domain)]).map(|(i, domain)| (*i, (*domain).clone())).collect();
    let body = ordered(loops, between.into_iter().chain(innermost), &|_| false)?;
    let mut inside = body.last()?;
    while let Stmt::For { index: own, body, .. } = inside
        && own != index
    {
        inside = body.last()?;
    }
    shared::is_shared(inside).then_some(body)
}

struct Pass {
    names: Fresh,
    unrolled: usize,
}

impl Pass {
    fn body(&mut self, stmts: Vec<Stmt>) -> Checked<Vec<Stmt>> {
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in stmts {
            if let Some(stmts) = shared::shared(&stmt, &mut self.names)? {
                self.unrolled += 1;
                out.extend(stmts);
                continue;
            }
            match values(&stmt) {
                Some((index, values)) => {
                    self.unrolled += 1;
                    each(index, values, stmt.body(), &mut self.names, &mut out)?;
                }
                None => {
                    match &mut stmt {
                        Stmt::For { body, .. } => *body = self.body(std::mem::take(body))?,
                        Stmt::Extremum { body, .. } if body.iter().all(is_simple) => {
                            self.unrolled += body.iter().filter(|stmt| is_few(stmt)).count();
                            *body = statements(std::mem::take(body), &mut self.names)?;
                        }
                        _ => {}
                    }
                    out.push(stmt);
                }
            }
        }
        Ok(out)
    }
}

/// Statements with those of loops over a few values, for each value.
pub(super) fn statements(stmts: Vec<Stmt>, names: &mut Fresh) -> Checked<Vec<Stmt>> {
    let mut out = Vec::with_capacity(stmts.len());
    for stmt in stmts {
        match &stmt {
            Stmt::For { index, domain, body, .. } if is_few(&stmt) => {
                each(*index, few(domain).into_iter().flatten(), body, names, &mut out)?;
            }
            _ => out.push(stmt),
        }
    }
    Ok(out)
}

/// The statements of a loop for each value of its index, without the tests that the value decides.
fn each(
    index: IndexId,
    values: impl Iterator<Item = i64>,
    body: &[Stmt],
    names: &mut Fresh,
    out: &mut Vec<Stmt>,
) -> Checked<()> {
    for value in values {
        names.again();
        names.fix(index, Affine::constant(value));
        out.extend(within(&names.body(body)?, &Facts::default())?);
    }
    Ok(())
}

/// The values of a loop that is to be unrolled, with its index.
fn values(stmt: &Stmt) -> Option<(IndexId, RangeInclusive<i64>)> {
    let Stmt::For { index, domain, body, .. } = stmt else { return None };
    let values = short(domain, size(body))?;
    let mut left: Vec<&Stmt> = body.iter().collect();
    let mut sums = Vec::new();
    while let Some(stmt) = left.pop() {
        match stmt {
            Stmt::If { body, .. } => left.extend(body),
            stmt => sums.extend(has_loop(stmt).then_some(stmt)),
        }
    }
    let shares = !sums.is_empty() && sums.iter().all(|stmt| is_shared(*index, stmt));
    (shares && !has_calls(body)).then_some((*index, values))
}

/// The values of a domain with a few, or with so many that a body of some statements is not long for all of them.
fn short(domain: &Domain, statements: usize) -> Option<RangeInclusive<i64>> {
    let is_short = |values: &RangeInclusive<i64>| {
        let steps = values.end().checked_sub(*values.start()).filter(|steps| (1..SHORT - 1).contains(steps));
        let copies = steps.and_then(|steps| usize::try_from(steps).ok()).map(|steps| steps.saturating_add(1));
        copies.is_some_and(|copies| copies.saturating_mul(statements) <= SHORT_STATEMENTS)
    };
    few(domain).or_else(|| literals(domain).filter(is_short))
}

/// The values of a domain with a few, but more than one, as literals.
pub(super) fn few(domain: &Domain) -> Option<RangeInclusive<i64>> {
    up_to(domain, FEW)
}

/// The values of a domain with at most so many, but more than one, as literals.
pub(super) fn up_to(domain: &Domain, most: i64) -> Option<RangeInclusive<i64>> {
    literals(domain).filter(|values| values.end().checked_sub(*values.start()).is_some_and(|n| (1..most).contains(&n)))
}

/// The values of a domain whose ends are literals.
fn literals(domain: &Domain) -> Option<RangeInclusive<i64>> {
    let Domain::Range { lower, upper } = domain else { return None };
    let ([lower], [upper]) = (lower.as_slice(), upper.as_slice()) else { return None };
    let literal = |bound: &Bound| bound.numerator.as_constant().filter(|_| bound.divisor == 1);
    let (from, to) = (literal(lower)?, literal(upper)?);
    Some(from..=to)
}

/// Whether a statement is an innermost loop over a few values, one by one.
pub(super) fn is_few(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { domain, body, lanes: 1, jam: 1, .. }
        if few(domain).is_some() && body.iter().all(|stmt| stmt.body().is_empty()))
}

/// Whether a statement is an innermost loop of a length that is not known, not by the index, which loads something without the index, or finds
/// the coordinates of entries.
fn is_shared(index: IndexId, stmt: &Stmt) -> bool {
    let Stmt::For { index: inner, domain, body, .. } = stmt else { return false };
    let (mut moves, mut known) = (false, true);
    domain.visit_affine(&mut |a| moves |= a.mentions(index));
    domain.visit_affine(&mut |a| known &= a.as_constant().is_some());
    let finds = body.iter().any(|stmt| matches!(stmt, Stmt::Let { .. }));
    let shared = finds
        || loads(body).into_iter().any(|place| {
            let mentions = |index: IndexId| place.at.iter().any(|a| a.mentions(index));
            mentions(*inner) && !mentions(index)
        });
    !moves && !known && shared && body.iter().all(is_simple)
}

/// Whether a statement is a number or a sum, a loop over a few values of such, or any of these under a test.
fn is_simple(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { domain, body, .. } => few(domain).is_some() && body.iter().all(is_number),
        Stmt::If { body, .. } => body.iter().all(is_simple),
        stmt => is_number(stmt),
    }
}

fn is_number(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Let { .. } | Stmt::Define(..) | Stmt::Local(_) | Stmt::Accumulate(..) | Stmt::MulAdd(..))
}

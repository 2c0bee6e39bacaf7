//! Loops around others whose tests fail for a few values at their ends alone.
//!
//! ```text
//! for i in 0 .. m - 1              for i in 0 .. m - 1
//!   for j                            if 0 <= i - 1 and 0 <= m - i - 2
//!     if 0 <= i - 1                    for j { A, B, C }
//!       A                            if 0 <= -i or 0 <= i - m + 1
//!     if 0 <= m - i - 2       ==       for j
//!       B                                if 0 <= i - 1
//!     C                                    A
//!                                        if 0 <= m - i - 2
//!                                          B
//!                                        C
//! ```
//!
//! A stencil asks of each place whether its neighbours are there. [Innermost loops](super::innermost) are cut where their own index decides that; here
//! rows that have all their neighbours are told from those at the borders, once for each row. Their innermost loops have one kind of test less, so
//! fewer pieces, which run in lanes.
//!
//! **Why it is right.** One of the two conditions holds, and the tests that are left out hold in the rows of the first.
//!
//! **Where it is done.** The loop has ends that are exact, and each test that goes fails for a number of rows that is a literal, and small.

use super::super::machine::{BORDER_ROWS, PIECES_STATEMENTS};
use super::innermost::decided;
use crate::base::IndexId;
use crate::index::{Affine, Checked, Var};
use crate::loops::predicate::{assume, under};
use crate::loops::{Bound, Cond, Domain, Fresh, Nest, Stmt, has_loop};
use crate::solver::Facts;

/// Tells rows at borders from the others; whether there were any.
pub(super) fn tell(nest: &mut Nest, facts: &Facts) -> Checked<bool> {
    let mut pass = Pass { names: Fresh::after(&nest.body), found: false };
    let mut body = std::mem::take(&mut nest.body);
    for stmt in &mut body {
        pass.inside(stmt, facts)?;
    }
    nest.body = body;
    Ok(pass.found)
}

struct Pass {
    names: Fresh,
    found: bool,
}

impl Pass {
    /// Loops in a statement, from outside in, but not those of rows at borders.
    fn inside(&mut self, stmt: &mut Stmt, known: &Facts) -> Checked<()> {
        let Stmt::For { index, domain, body, .. } = stmt else { return Ok(()) };
        let mut here = known.clone();
        assume(&mut here, *index, domain)?;
        let Some([inner, border]) = ends(*index, domain, body)? else {
            return body.iter_mut().try_for_each(|stmt| self.inside(stmt, &here));
        };
        self.found = true;
        let here = under(&here, &inner)?;
        let mut whole = within(body, &here)?;
        whole.iter_mut().try_for_each(|stmt| self.inside(stmt, &here))?;
        self.names.again();
        let rest = self.names.body(body)?;
        *body = vec![Stmt::If { cond: inner, body: whole }, Stmt::If { cond: border, body: rest }];
        Ok(())
    }
}

/// Statements without the tests that are decided, in loops too.
pub(in super::super) fn within(body: &[Stmt], known: &Facts) -> Checked<Vec<Stmt>> {
    let mut out = decided(body, known)?;
    for stmt in &mut out {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
                *body = within(body, known)?
            }
            _ => {}
        }
    }
    Ok(out)
}

/// Where an index is if all tests at its ends hold, and where it is if some fails; nothing where there are none inside of loops.
fn ends(index: IndexId, domain: &Domain, body: &[Stmt]) -> Checked<Option<[Cond; 2]>> {
    let Domain::Range { lower, upper } = domain else { return Ok(None) };
    let ([Bound { numerator: low, divisor: 1 }], [Bound { numerator: high, divisor: 1 }]) =
        (lower.as_slice(), upper.as_slice())
    else {
        return Ok(None);
    };
    let (mut tests, mut size) = (Vec::new(), 0);
    for stmt in body.iter().filter(|stmt| matches!(stmt, Stmt::For { .. }) && !stmt.body().is_empty()) {
        stmt.visit(&mut |stmt| {
            size += 1;
            if let Stmt::If { cond, .. } = stmt {
                atoms(cond, &mut tests);
            }
        });
    }
    // How many rows each test cuts off at the one end or the other.
    let (mut below, mut above) = (0, 0);
    for test in tests {
        let sign = test.coefficient(&Var::Index(index));
        let rest = test.sub(&Affine::index(index).scale(sign)?)?;
        let (end, cut) = match sign {
            1 => (&mut below, rest.scale(-1)?.sub(low)?),
            -1 => (&mut above, high.sub(&rest)?),
            _ => continue,
        };
        if let Some(rows) = cut.as_constant().filter(|rows| (1..=BORDER_ROWS).contains(rows)) {
            *end = rows.max(*end);
        }
    }
    if (below, above) == (0, 0) || size > PIECES_STATEMENTS || !body.iter().any(has_loop) {
        return Ok(None);
    }
    let (mut inner, mut border) = (Vec::new(), Vec::new());
    let from_low = Affine::index(index).sub(low)?.add_constant(-below)?;
    let from_high = high.sub(&Affine::index(index))?.add_constant(-above)?;
    for (rows, distance) in [(below, from_low), (above, from_high)] {
        if rows > 0 {
            border.push(Cond::NonNegative(distance.scale(-1)?.add_constant(-1)?));
            inner.push(Cond::NonNegative(distance));
        }
    }
    let one = |mut conds: Vec<Cond>, many: fn(Vec<Cond>) -> Cond| match conds.pop() {
        Some(only) if conds.is_empty() => only,
        last => many(conds.into_iter().chain(last).collect()),
    };
    Ok(Some([one(inner, Cond::All), one(border, Cond::Any)]))
}

/// The expressions that a condition asks to be not negative.
fn atoms<'a>(cond: &'a Cond, tests: &mut Vec<&'a Affine>) {
    match cond {
        Cond::NonNegative(a) => tests.push(a),
        Cond::All(conds) | Cond::Any(conds) => conds.iter().for_each(|cond| atoms(cond, tests)),
        Cond::Zero(_) | Cond::NonZero(_) | Cond::Support(_) | Cond::NoSupport(_) => {}
    }
}

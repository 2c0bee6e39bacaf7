//! Loops without their edges.
//!
//! The bounds of a sum in a loop over `i` may depend on `i`, as in `for i { sum of k in max(0, a - i) .. min(m, b - i) }`: a convolution
//! at its ends. Where `a <= i <= b - m` they do not, and the loop is cut into three:
//!
//! ```text
//! for i in lo .. min(hi, a - 1)            max(0, a - i) .. min(m, b - i)
//! for i in max(lo, a) .. min(hi, b - m)    0 .. m
//! for i in max(lo, a, b - m + 1) .. hi     max(0, a - i) .. min(m, b - i)
//! ```
//!
//! Each value of `i` is in exactly one of them, also where the middle is empty. The middle one can then run in lanes, which is why this is
//! done; where it cannot, the loop stays whole.
//!
//! Loops at the top of nests that test where their index is, as stencils do at their ends, are cut where the tests change, as
//! [`split`](super::split) cuts those inside; nests are not made one any more, so nothing is lost by it. This too is done where a piece then runs in lanes:
//!
//! ```text
//! for i in 0 .. n - 1              for i in 0 .. min(n - 1, 0)
//!   local r                          y[i] = 0
//!   if 0 <= i - 1           ==     for i in max(0, 1) .. n - 1
//!     r := x[i - 1]                  y[i] = x[i - 1]
//!   y[i] = r
//! ```

use super::contract::Contraction;
use super::split::innermost::{is_window, pieces_of};
use super::split::taps;
use super::vectorise::{Plan, has_lanes, independent, literal};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked, Var};
use crate::loops::{Bound, Cond, Decision, Domain, Fresh, Nest, Program, RangeEnd, Stmt};
use crate::solver::Facts;

/// Cuts the outer loops of which a piece can run in lanes.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let facts = program.signature.facts();
    Ok(program.nests.iter_mut().try_for_each(|nest| peel(nest, &facts))?)
}

fn peel(nest: &mut Nest, facts: &Facts) -> Checked<()> {
    let mut names = Fresh::after(&nest.body);
    let mut body = Vec::with_capacity(nest.body.len());
    for stmt in std::mem::take(&mut nest.body) {
        let (parts, decision) = match three(&stmt, &mut names)? {
            Some(parts) => (Vec::from(parts), Decision::Peeled {}),
            None => match in_pieces(&stmt, facts, &mut names)? {
                Some(parts) => (parts, Decision::Ends {}),
                None => {
                    body.push(stmt);
                    continue;
                }
            },
        };
        body.extend(parts);
        if !nest.decisions.contains(&decision) {
            nest.decisions.push(decision);
        }
    }
    nest.body = body;
    Ok(())
}

/// The pieces of a loop that tests its index, or has sums whose ends follow it, of which one can run in lanes where the whole loop cannot.
fn in_pieces(stmt: &Stmt, facts: &Facts, names: &mut Fresh) -> Checked<Option<Vec<Stmt>>> {
    let any_lanes = |stmts: &[Stmt]| Plan::of_body(stmts, Contraction::default()).any_vector(stmts);
    let own_lanes =
        |stmt: &Stmt| matches!(stmt, Stmt::For { index, domain, body, .. } if has_lanes(*index, domain, body));
    let has_at_most =
        |stmt: &Stmt, n| matches!(stmt, Stmt::For { domain, .. } if literal(domain).is_some_and(|values| values <= n));
    // Most loops have neither.
    let (has_tests, has_sums) = (!tests_places(stmt), taps::has_sums(stmt));
    if !has_tests && !has_sums || own_lanes(stmt) {
        return Ok(None);
    }
    // Lanes of a sum that ends next to the index are worth less than those of the loop.
    let inner = any_lanes(std::slice::from_ref(stmt));
    if inner && !has_window(stmt) {
        return Ok(None);
    }
    let at_tests = if has_tests { pieces_of(stmt, facts, names)? } else { None };
    let pieces = match at_tests {
        None if has_sums => taps::pieces_of(stmt, facts, names)?,
        pieces => pieces,
    };
    let Some(pieces) = pieces else { return Ok(None) };
    let mut all = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match three(&piece, names)? {
            Some(parts) if !has_at_most(&parts[1], 1) => {
                all.extend(parts.into_iter().filter(|part| !has_at_most(part, 0)));
            }
            _ => all.push(piece),
        }
    }
    let gains = if inner { all.iter().any(own_lanes) } else { any_lanes(&all) };
    Ok(gains.then_some(all))
}

/// Whether a loop has a sum in its body over the places next to its index.
fn has_window(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { index, body, .. } if body.iter().any(|stmt| is_window(stmt, *index)))
}

/// Whether a loop tests for a place that is no literal, or not from where on or up to where it is. If its step of a loop over time
/// changes some places alone, this is worth more than lanes.
fn tests_places(stmt: &Stmt) -> bool {
    let (mut told, mut only_places) = (false, true);
    stmt.visit(&mut |stmt| {
        let Stmt::If { cond, .. } = stmt else { return };
        let mut conds = vec![cond];
        while let Some(cond) = conds.pop() {
            match cond {
                Cond::All(inner) | Cond::Any(inner) => conds.extend(inner),
                Cond::NonNegative(_) => only_places = false,
                Cond::Zero(a) | Cond::NonZero(a) => told |= a.terms().len() > 1,
                Cond::Support(_) | Cond::NoSupport(_) => {}
            }
        }
    });
    told || only_places
}

/// From where, and up to where, bounds do not depend on the outer index.
#[derive(Default)]
struct Middle {
    from: Vec<Affine>,
    to: Vec<Affine>,
}

fn three(stmt: &Stmt, names: &mut Fresh) -> Checked<Option<[Stmt; 3]>> {
    let Stmt::For { index, domain: Domain::Range { lower, upper }, body, .. } = stmt else { return Ok(None) };
    if independent(*index, body) {
        return Ok(None);
    }
    let mut middle = Middle::default();
    let Some(inner) = simpler(body, *index, &mut middle)? else { return Ok(None) };
    let ([from], [to]) = (middle.from.as_slice(), middle.to.as_slice()) else { return Ok(None) };
    if !independent(*index, &inner) {
        return Ok(None);
    }
    let mut part = |lower: Vec<Bound>, upper: Vec<Bound>, body: &[Stmt]| {
        names.again();
        let index = names.index(*index);
        let body = names.body(body)?;
        Ok(Stmt::one_by_one(index, Domain::Range { lower, upper }, body))
    };
    let begin = part(lower.clone(), Bound::and(upper, from.add_constant(-1)?), body)?;
    let inside = part(Bound::and(lower, from.clone()), Bound::and(upper, to.clone()), &inner)?;
    let end = part(Bound::and(&Bound::and(lower, from.clone()), to.add_constant(1)?), upper.clone(), body)?;
    Ok(Some([begin, inside, end]))
}

/// The statements with the bounds that do not depend on the index, and where they are the ones in force; nothing where others do.
fn simpler(body: &[Stmt], i: IndexId, middle: &mut Middle) -> Checked<Option<Vec<Stmt>>> {
    let mut simple = Vec::with_capacity(body.len());
    for stmt in body {
        let Stmt::For { index, domain, lanes, jam, parallel, body } = stmt else {
            simple.push(stmt.clone());
            continue;
        };
        let Some(body) = simpler(body, i, middle)? else { return Ok(None) };
        let domain = match domain {
            Domain::Range { lower, upper } => {
                let lower = in_force(lower, i, middle, RangeEnd::Lower)?;
                let upper = in_force(upper, i, middle, RangeEnd::Upper)?;
                let (Some(lower), Some(upper)) = (lower, upper) else { return Ok(None) };
                Domain::Range { lower, upper }
            }
            domain => domain.clone(),
        };
        simple.push(Stmt::For { index: *index, domain, lanes: *lanes, jam: *jam, parallel: *parallel, body });
    }
    Ok(Some(simple))
}

/// Of two bounds the one without the index.
fn in_force(bounds: &[Bound], i: IndexId, middle: &mut Middle, side: RangeEnd) -> Checked<Option<Vec<Bound>>> {
    let (moving, fixed): (Vec<&Bound>, Vec<&Bound>) = bounds.iter().partition(|b| b.numerator.mentions(i));
    let (moving, fixed) = match (moving.as_slice(), fixed.as_slice()) {
        ([], _) => return Ok(Some(bounds.to_vec())),
        ([moving], [fixed]) if moving.divisor == 1 && fixed.divisor == 1 => (*moving, *fixed),
        _ => return Ok(None),
    };
    // k*i + rest is no tighter than the fixed bound: k*i <= fixed - rest for lower bounds, k*i >= fixed - rest for upper ones.
    let k = moving.numerator.coefficient(&Var::Index(i));
    let rest = moving.numerator.sub(&Affine::index(i).scale(k)?)?;
    let limit = fixed.numerator.sub(&rest)?;
    // The index of a loop inside is not there yet.
    if !limit.is_size() {
        return Ok(None);
    }
    let limits = match (k, side) {
        (1, RangeEnd::Lower) => (&mut middle.to, limit),
        (1, RangeEnd::Upper) => (&mut middle.from, limit),
        (-1, RangeEnd::Lower) => (&mut middle.from, limit.scale(-1)?),
        (-1, RangeEnd::Upper) => (&mut middle.to, limit.scale(-1)?),
        _ => return Ok(None),
    };
    if !limits.0.contains(&limits.1) {
        limits.0.push(limits.1);
    }
    Ok(Some(vec![fixed.clone()]))
}

//! Innermost loops, and loops around loops over a few values alone, whose bounds could decide their tests.
//!
//! ```text
//! for i in 0 .. n                  for i in 0 .. min(n, a - 1)
//!   local r                          x = e(i)
//!   if 0 <= a - i - 1                s += x
//!     x = e(i)              ==     for i in max(0, a) .. n
//!     r := x                         r = 0.0
//!   s += r                           s += r
//! ```
//!
//! A loop is cut where a test of its index begins or ceases to hold, once more for each test that is left, and what a piece decides goes: a
//! triangular product has no test in its inner loop, and a stencil has some at its borders only. Equations cut off one value.
//!
//! **Why it is right.** Pieces are disjoint, together they are the loop, and they come in its order. What the bounds of a piece and of the loops around
//! prove of a test holds at each of its values.

use super::super::machine::{MAX_PIECES, PIECES_STATEMENTS};
use super::super::vectorise::is_short;
use super::ends;
use crate::base::IndexId;
use crate::index::{Affine, Checked, Pred};
use crate::loops::predicate::{self, assume, says, under};
use crate::loops::{Bound, Cond, Domain, Fresh, Nest, Real, RealId, Stmt, reads};
use crate::solver::Facts;

/// Cuts the innermost loops of a nest inside of others; whether there were any.
pub(super) fn cut(nest: &mut Nest, facts: &Facts) -> Checked<bool> {
    if !nest.body.iter().flat_map(Stmt::body).any(tests_inside) {
        return Ok(false);
    }
    let mut cutter = Cutter { names: Fresh::after(&nest.body), found: false };
    in_loops(nest, facts, |body, known| cutter.body(body, known))?;
    Ok(cutter.found)
}

/// Whether a loop of this body has tests, and no long loop, inside.
fn may_be_cut(body: &[Stmt]) -> bool {
    !body.iter().any(has_long_loop) && body.iter().any(|stmt| matches!(stmt, Stmt::If { .. }))
}

/// Whether a loop is over the places next to an index, as both its ends follow that.
pub(in super::super) fn is_window(stmt: &Stmt, around: IndexId) -> bool {
    let Stmt::For { domain: Domain::Range { lower, upper }, .. } = stmt else { return false };
    let follow = |bounds: &[Bound]| bounds.iter().any(|bound| bound.numerator.mentions(around));
    follow(lower) && follow(upper)
}

/// The pieces of a loop without long ones inside, but for those over places next to its index, whose bounds decide tests; nothing where they decide none.
pub(in super::super) fn pieces_of(stmt: &Stmt, known: &Facts, names: &mut Fresh) -> Checked<Option<Vec<Stmt>>> {
    let Stmt::For { index, domain: Domain::Range { lower, upper }, body, .. } = stmt else { return Ok(None) };
    let is_next = |stmt: &Stmt| is_window(stmt, *index) && !stmt.body().iter().any(has_long_loop);
    let has_long = |stmt: &Stmt| has_long_loop(stmt) && !is_next(stmt);
    if body.iter().any(has_long) || !body.iter().any(|stmt| matches!(stmt, Stmt::If { .. })) {
        return Ok(None);
    }
    let Some(pieces) = pieces(*index, (lower, upper), body, known)? else { return Ok(None) };
    let mut loops = Vec::with_capacity(pieces.len());
    for (lower, upper, body) in pieces {
        names.again();
        let index = names.index(*index);
        let body = renamed(names, &body)?;
        loops.push(Stmt::one_by_one(index, Domain::Range { lower, upper }, body));
    }
    Ok(Some(loops))
}

/// Makes other bodies of the outermost loops of a nest, of whose indices the ranges are known there.
pub(super) fn in_loops(
    nest: &mut Nest,
    facts: &Facts,
    mut rewrite: impl FnMut(Vec<Stmt>, &Facts) -> Checked<Vec<Stmt>>,
) -> Checked<()> {
    for stmt in &mut nest.body {
        if let Stmt::For { index, domain, body, .. } = stmt {
            let mut known = facts.clone();
            assume(&mut known, *index, domain)?;
            *body = rewrite(std::mem::take(body), &known)?;
        }
    }
    Ok(())
}

/// Whether a statement is a loop with a test inside, or has one.
fn tests_inside(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.visit(&mut |inner| {
        let is_loop = matches!(inner, Stmt::For { .. });
        found |= is_loop && inner.body().iter().any(|stmt| matches!(stmt, Stmt::If { .. }));
    });
    found
}

/// Whether a statement is a loop, or has one, that is not over a few values: those become statements.
fn has_long_loop(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { domain, body, .. } => !is_short(domain) || body.iter().any(has_long_loop),
        Stmt::Extremum { .. } => true,
        stmt => stmt.body().iter().any(has_long_loop),
    }
}

struct Cutter {
    names: Fresh,
    found: bool,
}

/// The bounds of a piece, and what it does.
type Piece = (Vec<Bound>, Vec<Bound>, Vec<Stmt>);

impl Cutter {
    fn body(&mut self, stmts: Vec<Stmt>, known: &Facts) -> Checked<Vec<Stmt>> {
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in stmts {
            match &mut stmt {
                Stmt::For { body, .. } if may_be_cut(body) => {
                    if let Some(pieces) = pieces_of(&stmt, known, &mut self.names)? {
                        self.found = true;
                        out.extend(pieces);
                        continue;
                    }
                }
                Stmt::For { index, domain, body, .. } => {
                    let mut inside = known.clone();
                    assume(&mut inside, *index, domain)?;
                    *body = self.body(std::mem::take(body), &inside)?;
                }
                Stmt::If { cond, body } => {
                    *body = self.body(std::mem::take(body), &under(known, cond)?)?;
                }
                _ => {}
            }
            out.push(stmt);
        }
        Ok(out)
    }
}

/// Statements under new names, in which a register that gets one value for sure is that value.
fn renamed(names: &mut Fresh, body: &[Stmt]) -> Checked<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for (at, stmt) in body.iter().enumerate() {
        match stmt {
            Stmt::Local(r) => match value(*r, &body[at + 1..]) {
                Value::None => {
                    let zero = Stmt::Define(*r, Real::Literal(0.0));
                    out.extend(names.body(&[zero])?);
                }
                Value::One => {}
                Value::Some => out.extend(names.body(std::slice::from_ref(stmt))?),
            },
            Stmt::Assign(r, x) if is_value(body, *r) => names.alias(*r, *x),
            stmt => out.extend(names.body(std::slice::from_ref(stmt))?),
        }
    }
    Ok(out)
}

/// What becomes of a register behind its declaration.
enum Value {
    /// It stays 0.
    None,
    /// It gets one value, before it is read.
    One,
    /// It changes otherwise.
    Some,
}

fn value(r: RealId, rest: &[Stmt]) -> Value {
    let mut changes = 0;
    for stmt in rest {
        stmt.visit(&mut |stmt| changes += usize::from(stmt.changes() == Some(r)));
    }
    let assigned = rest.iter().position(|stmt| matches!(stmt, Stmt::Assign(s, _) if *s == r));
    match (changes, assigned) {
        (0, _) => Value::None,
        (1, Some(at)) if !reads(&rest[..at], |read| read == r) => Value::One,
        _ => Value::Some,
    }
}

/// Whether a register is declared among statements, and gets one value.
fn is_value(body: &[Stmt], r: RealId) -> bool {
    let declared = body.iter().position(|stmt| *stmt == Stmt::Local(r));
    declared.is_some_and(|at| matches!(value(r, &body[at + 1..]), Value::One))
}

/// The pieces of a loop; nothing where no test goes.
fn pieces(
    index: IndexId,
    (lower, upper): (&[Bound], &[Bound]),
    body: &[Stmt],
    known: &Facts,
) -> Checked<Option<Vec<Piece>>> {
    let size = count(body, |_| true);
    let room = MAX_PIECES.min(PIECES_STATEMENTS / size.max(1));
    let mut left = vec![(lower.to_vec(), upper.to_vec())];
    let mut pieces: Vec<Piece> = Vec::new();
    while let Some((lower, upper)) = left.pop() {
        let mut here = known.clone();
        here.assume(&predicate::of_range(&Affine::index(index), (&lower, &upper), &|a| Ok(a.clone()))?);
        if here.contradictory() {
            continue;
        }
        let decided = decided(body, &here)?;
        let place = if pieces.len() + left.len() + 1 < room { place(&decided, index, body, &here)? } else { None };
        match place {
            Some(first) if !lower.contains(&Bound::exact(first.clone())) => {
                let before = Bound::and(&upper, first.add_constant(-1)?);
                left.push((Bound::and(&lower, first), upper));
                left.push((lower, before));
            }
            _ => {
                let (lower, upper) =
                    (tightest(lower, known, |a, b| a.sub(b))?, tightest(upper, known, |a, b| b.sub(a))?);
                if !decided.is_empty() {
                    pieces.push((lower, upper, decided));
                }
            }
        }
    }
    let tests = |body: &[Stmt]| count(body, |stmt| matches!(stmt, Stmt::If { .. }));
    let most = pieces.iter().map(|(_, _, body)| tests(body)).min();
    Ok((most < Some(tests(body))).then_some(pieces))
}

/// Bounds without those that others imply; `beyond` is not negative where the first is as tight as the second.
fn tightest(
    mut bounds: Vec<Bound>,
    known: &Facts,
    beyond: impl Fn(&Affine, &Affine) -> Checked<Affine>,
) -> Checked<Vec<Bound>> {
    let mut at = 0;
    while let Some(bound) = bounds.get(at) {
        let mut implied = false;
        for other in bounds.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, other)| other) {
            if !implied && bound.divisor == 1 && other.divisor == 1 {
                implied = known.proves(&Pred::non_negative(beyond(&other.numerator, &bound.numerator)?));
            }
        }
        match implied {
            true => drop(bounds.remove(at)),
            false => at += 1,
        }
    }
    Ok(bounds)
}

fn count(body: &[Stmt], is: impl Fn(&Stmt) -> bool) -> usize {
    let mut found = 0;
    body.iter().for_each(|stmt| stmt.visit(&mut |stmt| found += usize::from(is(stmt))));
    found
}

/// The condition that never holds.
const NEVER: Cond = Cond::Any(Vec::new());

/// What is left of a condition: nothing of one that holds.
fn left_of(cond: &Cond, known: &Facts) -> Checked<Option<Cond>> {
    Ok(match cond {
        Cond::All(conds) => {
            let left = conds.iter().filter_map(|cond| left_of(cond, known).transpose());
            let mut left: Vec<Cond> = left.collect::<Checked<_>>()?;
            match left.len() {
                _ if left.contains(&NEVER) => Some(NEVER),
                0 => None,
                1 => left.pop(),
                _ => Some(Cond::All(left)),
            }
        }
        Cond::Any(conds) => {
            let left: Option<Vec<Cond>> = conds.iter().map(|cond| left_of(cond, known)).collect::<Checked<_>>()?;
            let Some(mut left) = left else { return Ok(None) };
            left.retain(|cond| *cond != NEVER);
            left.dedup();
            if left.len() == 1 { left.pop() } else { Some(Cond::Any(left)) }
        }
        cond => match says(cond)? {
            Some(p) if known.proves(&p) => None,
            Some(p) if p.negate().is_some_and(|not| known.proves(&not)) => Some(NEVER),
            _ => Some(cond.clone()),
        },
    })
}

/// Statements without the tests that are decided.
pub(super) fn decided(body: &[Stmt], known: &Facts) -> Checked<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        let Stmt::If { cond, body } = stmt else {
            out.push(stmt.clone());
            continue;
        };
        match left_of(cond, known)? {
            None => out.extend(decided(body, known)?),
            Some(cond) if cond == NEVER => {}
            Some(cond) => {
                out.push(Stmt::If { body: decided(body, &under(known, &cond)?)?, cond });
            }
        }
    }
    Ok(out)
}

/// The first value of the second piece, by the first test of the index that depends on nothing else inside.
fn place(decided: &[Stmt], index: IndexId, body: &[Stmt], known: &Facts) -> Checked<Option<Affine>> {
    let mut tests = Vec::new();
    for stmt in decided {
        stmt.visit(&mut |stmt| {
            if let Stmt::If { cond, .. } = stmt {
                tests.push(cond);
            }
        });
    }
    tests.reverse();
    while let Some(cond) = tests.pop() {
        match cond {
            Cond::All(conds) | Cond::Any(conds) => tests.extend(conds.iter().rev()),
            Cond::NonNegative(a) | Cond::Zero(a) | Cond::NonZero(a) => {
                if let Some(sign) = ends(a, index, body) {
                    return first(cond, a, sign, index, known).map(Some);
                }
            }
            Cond::Support(_) | Cond::NoSupport(_) => {}
        }
    }
    Ok(None)
}

/// The first value from which on a test is another one: where it says `sign * index + rest`.
fn first(cond: &Cond, a: &Affine, sign: i64, index: IndexId, known: &Facts) -> Checked<Affine> {
    let index = Affine::index(index);
    let rest = a.sub(&index.scale(sign)?)?;
    let zero = rest.scale(-sign)?;
    match cond {
        Cond::NonNegative(_) if sign > 0 => Ok(zero),
        Cond::NonNegative(_) => zero.add_constant(1),
        _ if known.proves(&Pred::non_negative(index.sub(&zero)?)) => zero.add_constant(1),
        _ => Ok(zero),
    }
}

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
//! triangular product has no test in its inner loop, and a stencil has some at its borders only. Equations cut off one value. Where tests tell
//! several places near an end, these are cut off together first, so that what is between the ends has no test, whatever is left to decide there.
//!
//! **Why it is right.** Pieces are disjoint, together they are the loop, and they come in its order. What the bounds of a piece and of the loops around
//! prove of a test holds at each of its values.

use std::collections::BTreeSet;

use super::super::machine::{FEW_VALUES, MAX_PIECES, PIECES_STATEMENTS};
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

/// Statements under new names, in which a register that gets one value for sure is that value, and a sum of one term is that of 0 and the term.
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
            Stmt::Accumulate(r, x) if is_value(body, *r) => {
                let zero = names.fresh_real();
                out.push(Stmt::Define(zero, Real::Literal(0.0)));
                out.extend(names.body(&[Stmt::Define(*r, Real::Add(zero, *x))])?);
            }
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
    let assigned = rest.iter().position(|stmt| matches!(stmt, Stmt::Assign(s, _) | Stmt::Accumulate(s, _) if *s == r));
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

/// Some of the values of a loop.
struct Part {
    lower: Vec<Bound>,
    upper: Vec<Bound>,
    /// What is known there.
    known: Facts,
    /// What the loop does there.
    body: Vec<Stmt>,
    turn: Turn,
}

/// When a part is cut: what there is room for goes to those that come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// There may be many values.
    Long,
    /// It is [a few](FEW_VALUES) values that were cut off, and is cut at literal distances from an end.
    End,
    /// The same, where these are done: it is cut anywhere.
    Rest,
    Never,
}

impl Part {
    /// Nothing where there are no values.
    fn new(
        index: IndexId,
        (lower, upper): (Vec<Bound>, Vec<Bound>),
        body: &[Stmt],
        around: &Facts,
    ) -> Checked<Option<Part>> {
        let lower = tightest(lower, around, |a, b| a.sub(b))?;
        let upper = tightest(upper, around, |a, b| b.sub(a))?;
        let mut known = around.clone();
        known.assume(&predicate::of_range(&Affine::index(index), (&lower, &upper), &|a| Ok(a.clone()))?);
        if known.contradictory() {
            return Ok(None);
        }
        let body = without_zeros(decided(body, &known)?);
        Ok(Some(Part { lower, upper, known, body, turn: Turn::Long }))
    }

    /// Whether there are [a few](FEW_VALUES) values at most.
    fn is_short(&self) -> Checked<bool> {
        for lower in self.lower.iter().filter(|bound| bound.divisor == 1) {
            for upper in self.upper.iter().filter(|bound| bound.divisor == 1) {
                let room = lower.numerator.sub(&upper.numerator)?.add_constant(FEW_VALUES - 1)?;
                if self.known.proves(&Pred::non_negative(room)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn size(&self) -> usize {
        count(&self.body, |_| true)
    }
}

/// The pieces of a loop; nothing where no test goes.
fn pieces(
    index: IndexId,
    (lower, upper): (&[Bound], &[Bound]),
    body: &[Stmt],
    known: &Facts,
) -> Checked<Option<Vec<Piece>>> {
    let mut parts: Vec<Part> = Vec::from_iter(Part::new(index, (lower.to_vec(), upper.to_vec()), body, known)?);
    let next = |parts: &[Part]| (0..parts.len()).min_by_key(|at| parts[*at].turn);
    while let Some(at) = next(&parts).filter(|at| parts[*at].turn != Turn::Never) {
        let sizes: usize = parts.iter().map(Part::size).sum();
        let has_room = parts.len() < MAX_PIECES && sizes + parts[at].size() <= PIECES_STATEMENTS;
        let place = if has_room { place(&parts[at], index, body)? } else { None };
        let Some(first) = place else {
            parts[at].turn = if parts[at].turn == Turn::End { Turn::Rest } else { Turn::Never };
            continue;
        };
        let part = parts.remove(at);
        let before = Bound::and(&part.upper, first.add_constant(-1)?);
        let ranges = [(part.lower.clone(), before), (Bound::and(&part.lower, first), part.upper)];
        let mut halves = Vec::with_capacity(2);
        for range in ranges {
            if let Some(mut half) = Part::new(index, range, &part.body, known)? {
                half.turn = if half.is_short()? { Turn::End } else { Turn::Long };
                halves.push(half);
            }
        }
        parts.splice(at..at, halves);
    }
    parts.retain(|part| !part.body.is_empty());
    let tests = |body: &[Stmt]| count(body, |stmt| matches!(stmt, Stmt::If { .. }));
    let gains = parts.iter().any(|part| tests(&part.body) < tests(body));
    Ok(gains.then(|| parts.into_iter().map(|part| (part.lower, part.upper, part.body)).collect()))
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

/// Conditions without those that another one settles: all, where `settled` says so of what it says more than the other, `a >= 0` beside `b >= 0` with
/// `a - b` a literal.
fn beside_others(mut conds: Vec<Cond>, settled: fn(i64) -> bool) -> Vec<Cond> {
    conds.dedup();
    let more = |cond: &Cond, other: &Cond| match (cond, other) {
        (Cond::NonNegative(a), Cond::NonNegative(b)) => a.sub(b).ok()?.as_constant(),
        _ => None,
    };
    let is_settled = |cond: &&Cond| conds.iter().any(|other| more(cond, other).is_some_and(settled));
    conds.iter().filter(|cond| !is_settled(cond)).cloned().collect()
}

/// What is left of a condition: nothing of one that holds.
fn left_of(cond: &Cond, known: &Facts) -> Checked<Option<Cond>> {
    Ok(match cond {
        Cond::All(conds) => {
            let left = conds.iter().filter_map(|cond| left_of(cond, known).transpose());
            let mut left = beside_others(left.collect::<Checked<_>>()?, |more| more > 0);
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
            left = beside_others(left, |more| more < 0);
            if left.len() == 1 { left.pop() } else { Some(Cond::Any(left)) }
        }
        cond => match says(cond)? {
            Some(p) if known.proves(&p) => None,
            Some(p) if p.negate().is_some_and(|not| known.proves(&not)) => Some(NEVER),
            _ => Some(cond.clone()),
        },
    })
}

/// Statements without tests of registers that stay 0.
fn without_zeros(mut body: Vec<Stmt>) -> Vec<Stmt> {
    loop {
        let (mut zeros, mut changed) = (BTreeSet::new(), BTreeSet::new());
        body.iter().for_each(|stmt| {
            stmt.visit(&mut |stmt| {
                changed.extend(stmt.changes());
                if let Stmt::Local(r) = stmt {
                    zeros.insert(*r);
                }
            })
        });
        zeros.retain(|r| !changed.contains(r));
        if !drop_tests_of(&mut body, &zeros) {
            return body;
        }
    }
}

/// Statements without the tests that registers are not 0 which are; whether there were any.
fn drop_tests_of(body: &mut Vec<Stmt>, zeros: &BTreeSet<RealId>) -> bool {
    let before = body.len();
    body.retain(|stmt| !matches!(stmt, Stmt::If { cond: Cond::Support(r), .. } if zeros.contains(r)));
    let mut any = body.len() < before;
    for stmt in body {
        if let Stmt::For { body, .. } | Stmt::If { body, .. } = stmt {
            any |= drop_tests_of(body, zeros);
        }
    }
    any
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

/// The first value of the second of two parts. What tests tell near an end stays together with that end.
fn place(part: &Part, index: IndexId, body: &[Stmt]) -> Checked<Option<Affine>> {
    let (mut near_lower, mut near_upper, mut other) = (None, None, None);
    for first in firsts(part, index, body)? {
        let inside = Affine::index(index).sub(&first)?;
        let outside = inside.scale(-1)?.add_constant(-1)?;
        if [inside, outside].into_iter().any(|all| part.known.proves(&Pred::non_negative(all))) {
            continue;
        }
        let before = values(&part.lower, |lower| first.sub(lower))?;
        let after = values(&part.upper, |upper| upper.sub(&first)?.add_constant(1))?;
        farther(&mut near_lower, before, &first);
        farther(&mut near_upper, after, &first);
        other.get_or_insert(first);
    }
    let near = near_lower.or(near_upper).map(|(_, first)| first);
    Ok(near.or(other.filter(|_| part.turn != Turn::End)))
}

/// The first place, and the farthest one of those that are near.
fn farther(best: &mut Option<(i64, Affine)>, distance: Option<i64>, first: &Affine) {
    if let Some(n) = distance.filter(|n| best.as_ref().is_none_or(|(least, _)| n > least)) {
        *best = Some((n, first.clone()));
    }
}

/// How many values there are to an end, where they are [a few](FEW_VALUES).
fn values(bounds: &[Bound], to: impl Fn(&Affine) -> Checked<Affine>) -> Checked<Option<i64>> {
    for bound in bounds.iter().filter(|bound| bound.divisor == 1) {
        let values = to(&bound.numerator)?.as_constant();
        if let Some(n) = values.filter(|n| (1..=FEW_VALUES).contains(n)) {
            return Ok(Some(n));
        }
    }
    Ok(None)
}

/// From where on the tests of an index that depend on nothing else inside are others, in their order.
fn firsts(part: &Part, index: IndexId, body: &[Stmt]) -> Checked<Vec<Affine>> {
    let mut tests = Vec::new();
    for stmt in &part.body {
        stmt.visit(&mut |stmt| {
            if let Stmt::If { cond, .. } = stmt {
                tests.push(cond);
            }
        });
    }
    tests.reverse();
    let mut firsts = Vec::new();
    while let Some(cond) = tests.pop() {
        match cond {
            Cond::All(conds) | Cond::Any(conds) => tests.extend(conds.iter().rev()),
            Cond::NonNegative(a) | Cond::Zero(a) | Cond::NonZero(a) => {
                let Some(sign) = ends(a, index, body) else { continue };
                // sign * index + rest
                let zero = a.sub(&Affine::index(index).scale(sign)?)?.scale(-sign)?;
                let next = zero.add_constant(1)?;
                match cond {
                    Cond::NonNegative(_) if sign > 0 => firsts.push(zero),
                    Cond::NonNegative(_) => firsts.push(next),
                    _ => firsts.extend([zero, next]),
                }
            }
            Cond::Support(_) | Cond::NoSupport(_) => {}
        }
    }
    Ok(firsts)
}

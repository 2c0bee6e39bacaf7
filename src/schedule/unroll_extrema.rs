//! Of a few numbers, as a literal, the place of the largest is known by comparing each with it.
//!
//! ```text
//! i1 = argmax i0 < 2. r3 where            r4 = e(0)
//!   r3 = e(i0)                            r5 = e(1)
//! if i1 = 1                      ==       r6 := r4, r6 max= r5
//!   ..                                    r7 = [r4 = r6], r8 = [r5 = r6]
//!                                         if r8 != 0 and r7 = 0
//!                                           ..
//! ```
//!
//! A search has no lanes, and tests of its result are as good as random: the gradient of a pooling is nothing else.
//!
//! **Why it is right.** The search finds the first of the numbers that is equal to the largest, where that is a number. Else it finds the first that is
//! none, and all others differ from it: so a NaN counts as equal, which no number is then taken for. What is asked of the place holds for some of the
//! values that it can have, each of which is one test.
//!
//! **Where it is done.** The body of the search is arithmetic, and its result is asked for in tests of itself alone: not where a number is loaded at it.

use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked, Size, Var, View};
use crate::loops::{Cond, Decision, Fresh, Program, Real, RealId, Stmt, inside_of_loops};
use crate::scalar::{Comparison, Op};

use super::machine::SHORT;

/// Unrolls searches among a few numbers.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let decision = Decision::Compared {};
    program.nests.iter_mut().try_for_each(|nest| inside_of_loops(nest, &decision, unroll))?;
    Ok(())
}

fn unroll(body: &mut Vec<Stmt>, names: &mut Fresh, found: &mut bool) -> Checked<()> {
    let mut at = 0;
    while at < body.len() {
        let (before, rest) = body.split_at_mut(at + 1);
        if let Some(search) = before.last().and_then(Search::of)
            && rest.iter().all(|stmt| search.is_only_tested(stmt))
        {
            let (stmts, places) = search.compare(names)?;
            rest.iter_mut().try_for_each(|stmt| search.replace(stmt, &places))?;
            let after = at + stmts.len();
            body.splice(at..=at, stmts);
            at = after;
            *found = true;
            continue;
        }
        if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut body[at] {
            unroll(body, names, found)?;
        }
        at += 1;
    }
    Ok(())
}

/// A search among a few numbers.
struct Search {
    index: IndexId,
    view: View,
    /// How many numbers, from 1 on.
    extent: i64,
    at: IndexId,
    body: Vec<Stmt>,
    value: RealId,
}

impl Search {
    fn of(stmt: &Stmt) -> Option<Search> {
        let Stmt::Extremum { index, view, extent, at, body, value } = stmt else { return None };
        let extent = Size::as_constant(extent).filter(|n| (1..SHORT).contains(n))?;
        let is_arithmetic = body.iter().all(|stmt| matches!(stmt, Stmt::Define(..)));
        is_arithmetic.then(|| Search { index: *index, view: *view, extent, at: *at, body: body.clone(), value: *value })
    }

    /// What is asked of the place, as an expression of it alone.
    fn asked<'a>(&self, cond: &'a Cond) -> Option<&'a Affine> {
        let (Cond::NonNegative(a) | Cond::Zero(a) | Cond::NonZero(a)) = cond else { return None };
        matches!(a.terms(), [(Var::Index(i), _)] if *i == self.index).then_some(a)
    }

    /// Whether a condition mentions the place in tests of it alone, if at all.
    fn is_test(&self, cond: &Cond) -> bool {
        match cond {
            Cond::All(conds) | Cond::Any(conds) => conds.iter().all(|cond| self.is_test(cond)),
            Cond::Support(_) | Cond::NoSupport(_) => true,
            Cond::NonNegative(a) | Cond::Zero(a) | Cond::NonZero(a) => {
                !a.mentions(self.index) || self.asked(cond).is_some()
            }
        }
    }

    fn is_only_tested(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::If { cond, body } => self.is_test(cond) && body.iter().all(|stmt| self.is_only_tested(stmt)),
            stmt => {
                let mut mentions = false;
                stmt.visit_affine(&mut |a| mentions |= a.mentions(self.index));
                !mentions && stmt.body().iter().all(|stmt| self.is_only_tested(stmt))
            }
        }
    }

    /// The numbers, and of each whether it is equal to the best.
    fn compare(&self, names: &mut Fresh) -> Checked<(Vec<Stmt>, Vec<RealId>)> {
        let (mut stmts, mut values) = (Vec::new(), Vec::new());
        for place in 0..self.extent {
            names.again();
            names.fix(self.at, Affine::constant(place));
            stmts.extend(names.body(&self.body)?);
            values.push(names.read(self.value));
        }
        names.again();
        let best = names.fresh_real();
        stmts.push(Stmt::Local(best));
        for (at, value) in values.iter().enumerate() {
            stmts.push(if at == 0 { Stmt::Assign(best, *value) } else { Stmt::Extend(self.view, best, *value) });
        }
        let mut places = Vec::new();
        for value in values {
            let [equal, none, place] = std::array::from_fn(|_| names.fresh_real());
            let compare = |comparison, a, b| Real::apply(Op::Compare(comparison), [a, b]);
            stmts.push(Stmt::Define(equal, compare(Comparison::Equal, value, best)));
            stmts.push(Stmt::Define(none, compare(Comparison::NotEqual, value, value)));
            stmts.push(Stmt::Define(place, Real::Add(equal, none)));
            places.push(place);
        }
        Ok((stmts, places))
    }

    /// Tests of numbers in place of those of the place.
    fn replace(&self, stmt: &mut Stmt, places: &[RealId]) -> Checked<()> {
        match stmt {
            Stmt::If { cond, body } => {
                self.replace_in(cond, places)?;
                body.iter_mut().try_for_each(|stmt| self.replace(stmt, places))
            }
            Stmt::For { body, .. } | Stmt::Extremum { body, .. } => {
                body.iter_mut().try_for_each(|stmt| self.replace(stmt, places))
            }
            _ => Ok(()),
        }
    }

    fn replace_in(&self, cond: &mut Cond, places: &[RealId]) -> Checked<()> {
        if let Some(a) = self.asked(cond) {
            let mut first = Vec::new();
            for at in 0..places.len() {
                if self.holds(cond, a, at as i64)? {
                    let own = Cond::Support(places[at]);
                    let others = places[..at].iter().map(|other| Cond::NoSupport(*other));
                    first.push(if at == 0 { own } else { Cond::All(std::iter::once(own).chain(others).collect()) });
                }
            }
            *cond = match (first.pop(), first.is_empty()) {
                _ if first.len() + 1 == places.len() => Cond::All(Vec::new()),
                (Some(only), true) => only,
                (only, _) => Cond::Any(first.into_iter().chain(only).collect()),
            };
            return Ok(());
        }
        match cond {
            Cond::All(conds) | Cond::Any(conds) => conds.iter_mut().try_for_each(|cond| self.replace_in(cond, places)),
            _ => Ok(()),
        }
    }

    /// Whether what is asked holds of a place.
    fn holds(&self, cond: &Cond, asked: &Affine, place: i64) -> Checked<bool> {
        let at = asked.substitute(&|i| (i == self.index).then(|| Affine::constant(place)))?;
        let value = at.as_constant();
        Ok(match cond {
            Cond::NonNegative(_) => value >= Some(0),
            Cond::Zero(_) => value == Some(0),
            _ => value != Some(0),
        })
    }
}

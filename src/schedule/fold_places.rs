//! The place of an extremum is kept as a number, where columns are searched.
//!
//! ```text
//! for i                                      for i
//!   k = argmin j < n. r where                  best := inf, place := 0
//!     r = x[j, i]                              for j in 0 .. n - 1
//!   if 0 <= k                                    r = x[j, i]
//!     s = real(k)                    ==          new = [best is a number] not (best <= r)
//!     t[i] = s                                   place := [new] real(j) + [not new] place
//!                                                best := [new] r + [not new] best
//!                                              if 0 <= n - 1
//!                                                s = place
//!                                                t[i] = s
//! ```
//!
//! A search has lanes along what it searches. Where that is a column its numbers are far apart, and neighbours are in other columns; where it is short most
//! lanes are empty. With a place for each lane many columns are searched side by side, in the order in which they lie.
//!
//! **Why it is right.** A number is new where it is better than all before, or the first NaN: the last place that is new is the one that the search finds. The
//! first number is new, unless it is as good as the infinity that the best begins with: then its place is 0, from which places begin.
//!
//! **Where it is done.** The body of a search is arithmetic, and its result serves as a number alone, in a test behind the search whether there is any. It is
//! inside of a loop over many values, and of numbers that all are apart along what is searched, but not along such a loop; or it is short, and no number is
//! a long sum: these have lanes of their own, and are searched as they are made.

use std::collections::BTreeSet;

use super::machine::SHORT;
use super::vectorise::is_short;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Size, View};
use crate::loops::{
    BufferId, Cond, Decision, Domain, Fresh, Place, Program, Real, RealId, Stmt, changes_outside, loads,
};
use crate::scalar::{Comparison, Op};

/// Keeps places as numbers.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let sums = long_sums(program);
    for nest in &mut program.nests {
        let mut pass = Pass { names: Fresh::after(&nest.body), sums: &sums, found: false };
        pass.body(&mut nest.body, &mut Vec::new())?;
        if pass.found {
            nest.decisions.push(Decision::PlacesFolded {});
        }
    }
    Ok(())
}

/// The tensors whose elements are sums over many values.
fn long_sums(program: &Program) -> BTreeSet<BufferId> {
    let mut found = BTreeSet::new();
    for nest in &program.nests {
        let mut is_long = false;
        nest.body.iter().for_each(|stmt| {
            stmt.visit(&mut |stmt| {
                is_long |= matches!(stmt, Stmt::For { domain, body, .. } if !is_short(domain) && changes_outside(body));
            });
        });
        found.extend(nest.buffers.iter().filter(|_| is_long));
    }
    found
}

struct Pass<'a> {
    names: Fresh,
    sums: &'a BTreeSet<BufferId>,
    found: bool,
}

impl Pass<'_> {
    /// `around` are the indices of the loops around over many values.
    fn body(&mut self, stmts: &mut Vec<Stmt>, around: &mut Vec<IndexId>) -> Result<()> {
        let mut at = 0;
        while at < stmts.len() {
            if let Some(search) = Search::of(&stmts[at..]).filter(|search| search.lies(around, self.sums)) {
                let folded = self.folded(&search)?;
                stmts.splice(at..at + 2, folded);
                self.found = true;
                continue;
            }
            match &mut stmts[at] {
                Stmt::For { index, domain, body, .. } => {
                    let many = usize::from(!is_short(domain));
                    around.extend(std::iter::repeat_n(*index, many));
                    self.body(body, around)?;
                    around.truncate(around.len() - many);
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.body(body, around)?,
                _ => {}
            }
            at += 1;
        }
        Ok(())
    }

    /// The loop over all places in place of a search, and what is done with the one that is found.
    fn folded(&mut self, search: &Search<'_>) -> Result<Vec<Stmt>> {
        let Search { index, view, extent, at, body, value, then } = *search;
        let [best, place, start, zero] = self.fresh();
        let [left, is_left, number, new, old, here] = self.fresh();
        let [new_place, old_place, places, new_best, old_best, bests] = self.fresh();
        let compare = |comparison, a, b| Real::apply(Op::Compare(comparison), [a, b]);
        let (from, sides) = match view {
            View::ArgMin => (f64::INFINITY, (best, value)),
            _ => (f64::NEG_INFINITY, (value, best)),
        };
        let mut inside = body.to_vec();
        inside.extend([
            Stmt::Define(left, compare(Comparison::LessEqual, sides.0, sides.1)),
            Stmt::Define(is_left, compare(Comparison::Equal, left, zero)),
            Stmt::Define(number, compare(Comparison::Equal, best, best)),
            Stmt::Define(new, Real::Select(number, is_left)),
            Stmt::Define(old, compare(Comparison::Equal, new, zero)),
            Stmt::Define(here, Real::Index(at.into())),
            Stmt::Define(new_place, Real::Select(new, here)),
            Stmt::Define(old_place, Real::Select(old, place)),
            Stmt::Define(places, Real::Add(new_place, old_place)),
            Stmt::Assign(place, places),
            Stmt::Define(new_best, Real::Select(new, value)),
            Stmt::Define(old_best, Real::Select(old, best)),
            Stmt::Define(bests, Real::Add(new_best, old_best)),
            Stmt::Assign(best, bests),
        ]);
        let mut folded = vec![
            Stmt::Define(start, Real::Literal(from)),
            Stmt::Define(zero, Real::Literal(0.0)),
            Stmt::Local(best),
            Stmt::Assign(best, start),
            Stmt::Local(place),
            Stmt::one_by_one(at, Domain::whole(extent)?, inside),
        ];
        let then = then.iter().map(|stmt| match stmt {
            Stmt::Define(r, Real::Index(a)) if a.as_index() == Some(index) => Stmt::Define(*r, Real::Add(place, zero)),
            stmt => stmt.clone(),
        });
        match extent.as_constant() {
            Some(_) => folded.extend(then),
            None => {
                let cond = Cond::NonNegative(extent.add_constant(-1)?);
                folded.push(Stmt::If { cond, body: then.collect() });
            }
        }
        Ok(folded)
    }

    fn fresh<const N: usize>(&mut self) -> [RealId; N] {
        std::array::from_fn(|_| self.names.fresh_real())
    }
}

/// A search whose place serves as a number alone.
struct Search<'a> {
    index: IndexId,
    view: View,
    extent: &'a Size,
    at: IndexId,
    body: &'a [Stmt],
    value: RealId,
    /// What is done in the test behind it, where there is a place.
    then: &'a [Stmt],
}

impl<'a> Search<'a> {
    /// That with which statements begin.
    fn of(stmts: &'a [Stmt]) -> Option<Search<'a>> {
        let [Stmt::Extremum { index, view, extent, at, body, value }, test, rest @ ..] = stmts else { return None };
        let Stmt::If { cond: Cond::NonNegative(a), body: then } = test else { return None };
        let is_place = |a: &Affine| a.as_index() == Some(*index);
        let mentions = |stmts: &[Stmt]| {
            let mut found = 0;
            let mut count = |i: IndexId| found += usize::from(i == *index);
            stmts.iter().for_each(|stmt| stmt.visit(&mut |stmt| stmt.visit_indices(&mut count)));
            found
        };
        let numbers = then.iter().filter(|stmt| matches!(stmt, Stmt::Define(_, Real::Index(a)) if is_place(a))).count();
        let is_arithmetic = body.iter().all(|stmt| matches!(stmt, Stmt::Define(..)));
        let serves = is_place(a) && numbers > 0 && mentions(then) == numbers && mentions(rest) == 0;
        let search = || Search { index: *index, view: *view, extent, at: *at, body, value: *value, then };
        (is_arithmetic && serves).then(search)
    }

    /// Whether lanes of a loop around find neighbours, and those of the search do not.
    fn lies(&self, around: &[IndexId], sums: &BTreeSet<BufferId>) -> bool {
        let places = loads(self.body);
        match self.extent.as_constant() {
            Some(n) => {
                let is_made = places.iter().any(|place| sums.contains(&place.buffer));
                (1..SHORT).contains(&n) && !around.is_empty() && !is_made
            }
            None => {
                let apart = |a: &Affine| !a.mentions(self.at) && around.iter().any(|i| a.mentions(*i));
                let is_searched = |place: &&&Place| place.at.iter().any(|a| a.mentions(self.at));
                let mut searched = places.iter().filter(is_searched).peekable();
                searched.peek().is_some() && searched.all(|place| place.at.last().is_some_and(apart))
            }
        }
    }
}

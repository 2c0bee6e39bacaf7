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
//! Where all places but those of a row have the same number the loop is [over the row](super::members). Behind it, the first place that is missing in the row
//! is compared, which is where the places of the row first leave a gap.
//!
//! **Where it is done.** The result of a search serves as a number alone, in a test behind the search whether there is any. The search is in a row, or its
//! body is arithmetic and it is inside of a loop over many values, and of numbers that all are apart along what is searched, but not along such a loop; or it is short, and no number is
//! a long sum: these have lanes of their own, and are searched as they are made.

use std::collections::BTreeSet;

use super::machine::SHORT;
use super::members::Members;
use super::vectorise::is_short;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Size, View};
use crate::loops::{
    Array, ArrayId, BufferId, Cond, Decision, Domain, Fresh, Place, Program, Real, RealId, Stmt, changes_outside, loads,
};
use crate::scalar::{Comparison, Op};
use crate::ty::Signature;

/// Keeps places as numbers.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let sums = long_sums(program);
    let Program { arrays, nests, signature, .. } = program;
    for nest in nests {
        let mut pass = Pass { names: Fresh::after(&nest.body), sums: &sums, arrays, signature, found: BTreeSet::new() };
        pass.body(&mut nest.body, &mut Vec::new())?;
        nest.decisions.extend(pass.found.into_iter().map(|in_rows| match in_rows {
            true => Decision::PlacesFoldedInRows {},
            false => Decision::PlacesFolded {},
        }));
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
    arrays: &'a mut Arena<ArrayId, Array>,
    signature: &'a Signature,
    /// Whether searches that were folded were those of rows.
    found: BTreeSet<bool>,
}

impl Pass<'_> {
    /// `around` are the indices of the loops around over many values.
    fn body(&mut self, stmts: &mut Vec<Stmt>, around: &mut Vec<IndexId>) -> Result<()> {
        let mut at = 0;
        while at < stmts.len() {
            if let Some(search) = Search::of(&stmts[at..]) {
                let own = (search.at, search.body, search.value);
                let members = Members::of(self.arrays, self.signature, &mut self.names, own)?;
                if members.is_some() || search.lies(around, self.sums) {
                    self.found.insert(members.is_some());
                    let folded = self.folded(&search, members, search.is_across(around))?;
                    stmts.splice(at..at + 2, folded);
                    continue;
                }
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

    /// The loop over all places, or those of a row, in place of a search, and what is done with the one that is found.
    fn folded(&mut self, search: &Search<'_>, members: Option<Members>, in_lanes: bool) -> Result<Vec<Stmt>> {
        let Search { index, view, extent, at, body, value, then } = *search;
        let [best, place, start, zero] = self.fresh();
        let from = if view == View::ArgMin { f64::INFINITY } else { f64::NEG_INFINITY };
        let mut folded = vec![
            Stmt::Define(start, Real::Literal(from)),
            Stmt::Define(zero, Real::Literal(0.0)),
            Stmt::Local(best),
            Stmt::Assign(best, start),
            Stmt::Local(place),
        ];
        let known = Known { view, best, place, zero };
        match members {
            None => {
                let inside = body.iter().cloned().chain(self.compared(known, at, value)).collect();
                folded.push(Stmt::one_by_one(at, Domain::whole(extent)?, inside));
            }
            // Where the best is as good as the others, the first place of all has it.
            Some(members) if members.literal() == Some(from) => {
                let behind = self.compared_in_row(known, at, members.value, in_lanes);
                folded.extend(members.visited(behind));
            }
            Some(members) => {
                let [gap, here, follows, count, less, minus, left] = self.fresh();
                let mut behind = self.compared_in_row(known, at, members.value, in_lanes);
                behind.extend([
                    Stmt::Define(here, Real::Index(at.into())),
                    Stmt::Define(follows, equal(here, gap)),
                    Stmt::Accumulate(gap, follows),
                ]);
                let (missing, other) = (members.outside.clone(), members.other);
                folded.push(Stmt::Local(gap));
                folded.extend(members.visited(behind));
                folded.extend([
                    Stmt::Define(count, Real::Index(extent.clone())),
                    Stmt::Define(less, Real::Literal(-1.0)),
                    Stmt::Define(minus, Real::Mul(less, gap)),
                    Stmt::Define(left, Real::Add(count, minus)),
                ]);
                folded.extend(missing);
                folded.extend(self.compared_missing(known, gap, left, other));
            }
        }
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

    /// Compares the number at a place with the best.
    fn compared(&mut self, known: Known, at: IndexId, value: RealId) -> Vec<Stmt> {
        let (mut stmts, new, here) = self.is_new(known, value);
        stmts.push(Stmt::Define(here, Real::Index(at.into())));
        stmts.extend(self.taken(known, new, here, value));
        stmts
    }

    /// The same in a row. In a loop without lanes it is tested, as few numbers of a row are new.
    fn compared_in_row(&mut self, known: Known, at: IndexId, value: RealId, in_lanes: bool) -> Vec<Stmt> {
        if in_lanes {
            return self.compared(known, at, value);
        }
        let (mut stmts, new, here) = self.is_new(known, value);
        let place = Stmt::Define(here, Real::Index(at.into()));
        let body = vec![place, Stmt::Assign(known.place, here), Stmt::Assign(known.best, value)];
        stmts.push(Stmt::If { cond: Cond::Support(new), body });
        stmts
    }

    /// Whether a number is better than the best, or the first NaN; and a register for its place.
    fn is_new(&mut self, known: Known, value: RealId) -> (Vec<Stmt>, RealId, RealId) {
        let [is_left, number, new, here] = self.fresh();
        let mut stmts = self.is_not_better(known, value, is_left);
        stmts.extend([
            Stmt::Define(number, equal(known.best, known.best)),
            Stmt::Define(new, Real::Select(number, is_left)),
        ]);
        (stmts, new, here)
    }

    /// Compares the number that all missing places have, if some are left, with the best; these begin at a gap. It is new as well where it is as good, or
    /// both are NaN, and the place of the best comes later.
    fn compared_missing(&mut self, known: Known, gap: RealId, left: RealId, value: RealId) -> Vec<Stmt> {
        let [worse, number, is_number, better, earlier] = self.fresh();
        let [nan, other_nan, both_nan, same, as_good, tied, best, new] = self.fresh();
        let mut stmts = self.is_not_better(known, value, worse);
        let less = |a, b| Real::apply(Op::Compare(Comparison::Less), [a, b]);
        stmts.extend([
            Stmt::Define(number, equal(known.best, known.best)),
            Stmt::Define(is_number, equal(value, value)),
            Stmt::Define(better, Real::Select(number, worse)),
            Stmt::Define(nan, equal(number, known.zero)),
            Stmt::Define(other_nan, equal(is_number, known.zero)),
            Stmt::Define(both_nan, Real::Select(nan, other_nan)),
            Stmt::Define(same, equal(known.best, value)),
            Stmt::Define(as_good, Real::Add(same, both_nan)),
            Stmt::Define(earlier, less(gap, known.place)),
            Stmt::Define(tied, Real::Select(as_good, earlier)),
            Stmt::Define(best, Real::Add(better, tied)),
            Stmt::Define(new, Real::Select(left, best)),
        ]);
        stmts.extend(self.taken(known, new, gap, value));
        stmts
    }

    /// Whether the best is not as good as a number: it is worse, or one of them is NaN.
    fn is_not_better(&mut self, Known { view, best, zero, .. }: Known, value: RealId, not: RealId) -> Vec<Stmt> {
        let [left] = self.fresh();
        let sides = if view == View::ArgMin { (best, value) } else { (value, best) };
        let left_is = Real::apply(Op::Compare(Comparison::LessEqual), [sides.0, sides.1]);
        vec![Stmt::Define(left, left_is), Stmt::Define(not, equal(left, zero))]
    }

    /// Takes a number for the best, and its place, where that is so.
    fn taken(&mut self, Known { best, place, zero, .. }: Known, new: RealId, here: RealId, value: RealId) -> [Stmt; 9] {
        let [old, new_place, old_place, places, new_best, old_best, bests] = self.fresh();
        [
            Stmt::Define(old, equal(new, zero)),
            Stmt::Define(new_place, Real::Select(new, here)),
            Stmt::Define(old_place, Real::Select(old, place)),
            Stmt::Define(places, Real::Add(new_place, old_place)),
            Stmt::Assign(place, places),
            Stmt::Define(new_best, Real::Select(new, value)),
            Stmt::Define(old_best, Real::Select(old, best)),
            Stmt::Define(bests, Real::Add(new_best, old_best)),
            Stmt::Assign(best, bests),
        ]
    }

    fn fresh<const N: usize>(&mut self) -> [RealId; N] {
        std::array::from_fn(|_| self.names.fresh_real())
    }
}

/// What is known while places are compared.
#[derive(Clone, Copy)]
struct Known {
    view: View,
    best: RealId,
    place: RealId,
    zero: RealId,
}

fn equal(a: RealId, b: RealId) -> Real {
    Real::apply(Op::Compare(Comparison::Equal), [a, b])
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
        let serves = is_place(a) && numbers > 0 && mentions(then) == numbers && mentions(rest) == 0;
        let search = || Search { index: *index, view: *view, extent, at: *at, body, value: *value, then };
        serves.then(search)
    }

    /// Whether the body is arithmetic, and lanes of a loop around find neighbours, and those of the search do not.
    fn lies(&self, around: &[IndexId], sums: &BTreeSet<BufferId>) -> bool {
        let places = loads(self.body);
        if !self.body.iter().all(|stmt| matches!(stmt, Stmt::Define(..))) {
            return false;
        }
        match self.extent.as_constant() {
            Some(n) => {
                let is_made = places.iter().any(|place| sums.contains(&place.buffer));
                (1..SHORT).contains(&n) && !around.is_empty() && !is_made
            }
            None => self.is_across(around),
        }
    }

    /// Whether numbers that are searched are far apart, but not those that a loop around searches side by side.
    fn is_across(&self, around: &[IndexId]) -> bool {
        let apart = |a: &Affine| !a.mentions(self.at) && around.iter().any(|i| a.mentions(*i));
        let places = loads(self.body);
        let is_searched = |place: &&&Place| place.at.iter().any(|a| a.mentions(self.at));
        let mut searched = places.iter().filter(is_searched).peekable();
        searched.peek().is_some() && searched.all(|place| place.at.last().is_some_and(apart))
    }
}

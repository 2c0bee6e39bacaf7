//! The largest and the smallest of numbers are folded where nobody asks for their place.
//!
//! An extremum is lowered as what stands at its place, which is looked for first. Where the place serves for nothing else, the number is kept
//! instead, as a sum is, so that later passes give it lanes and join its loop with others:
//!
//! ```text
//! local r0                                local r1
//! i1 = argmax i0 < n. r3 where            r2 = -inf
//!   r3 = e(i0)                            r1 := r2
//! if 0 <= i1                              for i0 in 0 .. n - 1
//!   r4 = e(i1)                    ==        r3 = e(i0)
//!   r0 := r4                                r1 max= r3
//!                                         r5 = real(n)
//!                                         r0 = [r5 != 0] r1
//! ```
//!
//! Where another search asks for places in the same numbers the place is known anyway, and stays, unless the numbers are a few, as a literal: these are
//! compared in lanes. So are those of a row, where the search would go through all places.
//!
//! Where all places but those of a row have the same number the loop is [over the row](super::members), and the other number is compared once, behind those of the
//! row: where the best are zeros of either sign, another one may be kept.
//!
//! **Why it is right.** What is done under the test is the body of the search with the place for its index, which is compared statement by statement,
//! so the register has what the search has found the best: the first number that attains the extremum, a NaN before all, and 0 where there is none.
//! A sum that gets the number gets it behind the fold, or 0, which leaves it as it is.
//! Of a row that the search takes from zero where a test fails, the register under the test is in the place of the one that the body declares.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::SHORT;
use super::members::Members;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Size, View};
use crate::loops::{Array, ArrayId, BufferId, Cond, Decision, Domain, Fresh, Nest, Program, Real, RealId, Stmt, loads};
use crate::scalar::{Comparison, Op};
use crate::ty::Signature;

/// Folds extrema whose places serve for nothing else.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let mut placed = BTreeSet::new();
    program.nests.iter().for_each(|nest| Uses::of(nest).placed(&nest.body, &mut placed));
    let Program { arrays, nests, signature, .. } = program;
    for nest in nests {
        let (uses, names) = (Uses::of(nest), Fresh::after(&nest.body));
        let mut pass = Pass { uses, placed: &placed, arrays, signature, names, found: BTreeSet::new() };
        pass.body(&mut nest.body)?;
        nest.decisions.extend(pass.found.into_iter().map(|in_rows| match in_rows {
            true => Decision::FoldedInRows {},
            false => Decision::Folded {},
        }));
    }
    Ok(())
}

/// How often expressions mention an index, and how many statements change a register.
#[derive(Default)]
struct Uses {
    indices: BTreeMap<IndexId, usize>,
    changes: BTreeMap<RealId, usize>,
}

impl Uses {
    fn of(nest: &Nest) -> Uses {
        let mut uses = Uses::default();
        nest.body.iter().for_each(|stmt| stmt.visit(&mut |stmt| uses.note(stmt)));
        uses
    }

    fn note(&mut self, stmt: &Stmt) {
        if let Some(r) = stmt.changes() {
            *self.changes.entry(r).or_default() += 1;
        }
        stmt.visit_indices(&mut |i| *self.indices.entry(i).or_default() += 1);
    }

    /// The buffers that searches load whose places serve for something.
    fn placed(&self, stmts: &[Stmt], found: &mut BTreeSet<(View, BufferId)>) {
        for (at, stmt) in stmts.iter().enumerate() {
            if let Stmt::Extremum { view, body, .. } = stmt
                && self.search(stmts, at).is_none()
            {
                found.extend(loads(body).into_iter().map(|place| (*view, place.buffer)));
            }
            self.placed(stmt.body(), found);
        }
    }

    /// The search at a place among statements, if what follows is nothing but the number at its place.
    fn search<'a>(&self, stmts: &'a [Stmt], at: usize) -> Option<Search<'a>> {
        let [Stmt::Extremum { index, view, extent, at: each, body, value }, test, ..] = stmts.get(at..)? else {
            return None;
        };
        let Stmt::If { cond: Cond::NonNegative(a), body: then } = test else { return None };
        let mut inside = 0;
        test.visit(&mut |stmt| stmt.visit_indices(&mut |i| inside += usize::from(i == *index)));
        if a.as_index() != Some(*index) || self.indices.get(index) != Some(&inside) {
            return None;
        }
        let (number, is_sum) = number_of(*index, *each, body, *value, then)?;
        let search = |declared| Search { view: *view, extent, at: *each, body, value: *value, number, declared };
        if is_sum {
            return Some(search(None));
        }
        let declared = stmts[..at].iter().rposition(|stmt| *stmt == Stmt::Local(number))?;
        let mut read = false;
        for stmt in &stmts[declared..at] {
            stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| read |= r == number));
        }
        let once = self.changes.get(&number) == Some(&1) && !read;
        once.then(|| search(Some(declared)))
    }
}

struct Pass<'a> {
    uses: Uses,
    /// The buffers of which places are searched for anyway.
    placed: &'a BTreeSet<(View, BufferId)>,
    arrays: &'a mut Arena<ArrayId, Array>,
    signature: &'a Signature,
    names: Fresh,
    /// Whether extrema that were folded were those of rows.
    found: BTreeSet<bool>,
}

/// A search, the body that it has, and the register that gets the number at its place.
struct Search<'a> {
    view: View,
    extent: &'a Size,
    at: IndexId,
    body: &'a [Stmt],
    value: RealId,
    number: RealId,
    /// Where the register is declared that is the number; nothing where it is a sum that the number is added to.
    declared: Option<usize>,
}

impl Pass<'_> {
    fn body(&mut self, stmts: &mut Vec<Stmt>) -> Result<()> {
        let mut at = 0;
        while at < stmts.len() {
            if let Some((declared, folded)) = self.folded(stmts, at)? {
                stmts.splice(at..at + 2, folded);
                // On with the fold itself: there may be others inside of it.
                if let Some(declared) = declared {
                    stmts.remove(declared);
                    at -= 1;
                }
                continue;
            }
            if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut stmts[at] {
                self.body(body)?;
            }
            at += 1;
        }
        Ok(())
    }

    /// What takes the place of the search at a place among statements and of the test behind it, and where the register is declared.
    fn folded(&mut self, stmts: &[Stmt], at: usize) -> Result<Option<(Option<usize>, Vec<Stmt>)>> {
        let Some(Search { view, extent, at, body, value, number, declared }) = self.uses.search(stmts, at) else {
            return Ok(None);
        };
        let is_short = extent.as_constant().is_some_and(|n| n < SHORT);
        let members = Members::of(self.arrays, self.signature, &mut self.names, (at, body, value))?;
        let is_placed = || loads(body).iter().any(|place| self.placed.contains(&(view, place.buffer)));
        if !is_short && members.is_none() && is_placed() {
            return Ok(None);
        }
        let (best, none, count) = (self.names.fresh_real(), self.names.fresh_real(), self.names.fresh_real());
        let start = if view == View::ArgMin { f64::INFINITY } else { f64::NEG_INFINITY };
        let found = if declared.is_some() { number } else { self.names.fresh_real() };
        let mut folded = vec![Stmt::Local(best), Stmt::Define(none, Real::Literal(start)), Stmt::Assign(best, none)];
        let extent_is = Stmt::Define(count, Real::Index(extent.clone()));
        let extend = |r| Stmt::Extend(view, best, r);
        self.found.insert(members.is_some());
        match members {
            None => {
                let inside = body.iter().cloned().chain([extend(value)]).collect();
                folded.extend([Stmt::one_by_one(at, Domain::whole(extent)?, inside), extent_is]);
            }
            Some(members) if members.literal() == Some(start) => {
                let value = members.value;
                folded.extend(members.visited([extend(value)]));
                folded.push(extent_is);
            }
            Some(members) => {
                let places = (count, extent_is);
                folded.extend(self.best_of_row(members, (view, best, none), places));
            }
        }
        folded.push(Stmt::Define(found, Real::Select(count, best)));
        if declared.is_none() {
            folded.push(Stmt::Accumulate(number, found));
        }
        Ok(Some((declared, folded)))
    }

    /// The best of a row, and the number that all missing places have, if there are some. It is compared in any case, with nothing where there are none, so that
    /// many rows are compared side by side.
    fn best_of_row(
        &mut self,
        members: Members,
        (view, best, none): (View, RealId, RealId),
        (count, extent_is): (RealId, Stmt),
    ) -> Vec<Stmt> {
        let [seen, one, less, minus, left] = std::array::from_fn(|_| self.names.fresh_real());
        let [is_full, zero, other, nothing, compared] = std::array::from_fn(|_| self.names.fresh_real());
        let extend = |r| Stmt::Extend(view, best, r);
        let (missing, value, missing_value) = (members.outside.clone(), members.value, members.other);
        let mut stmts = vec![Stmt::Local(seen), Stmt::Define(one, Real::Literal(1.0))];
        stmts.extend(members.visited([extend(value), Stmt::Accumulate(seen, one)]));
        stmts.extend([
            extent_is,
            Stmt::Define(less, Real::Literal(-1.0)),
            Stmt::Define(minus, Real::Mul(less, seen)),
            Stmt::Define(left, Real::Add(count, minus)),
        ]);
        stmts.extend(missing);
        stmts.extend([
            Stmt::Define(zero, Real::Literal(0.0)),
            Stmt::Define(is_full, Real::apply(Op::Compare(Comparison::Equal), [left, zero])),
            Stmt::Define(other, Real::Select(left, missing_value)),
            Stmt::Define(nothing, Real::Select(is_full, none)),
            Stmt::Define(compared, Real::Add(other, nothing)),
            extend(compared),
        ]);
        stmts
    }
}

/// The register that statements give the number at the place of a search, and nothing else; whether they add it.
fn number_of(index: IndexId, at: IndexId, body: &[Stmt], value: RealId, then: &[Stmt]) -> Option<(RealId, bool)> {
    if let Some((last @ (Stmt::Assign(number, from) | Stmt::Accumulate(number, from)), before)) = then.split_last()
        && is_same(body, before, (at, index), Value::Of(value, *from))
    {
        return Some((*number, matches!(last, Stmt::Accumulate(..))));
    }
    // The register is changed in the place of the one that the body declares.
    let declared = body.iter().position(|stmt| *stmt == Stmt::Local(value))?;
    let rest: Vec<Stmt> = body[..declared].iter().chain(&body[declared + 1..]).cloned().collect();
    let mut last = None;
    then.iter().for_each(|stmt| stmt.visit(&mut |stmt| last = stmt.changes().or(last)));
    let number = last?;
    is_same(&rest, then, (at, index), Value::Changes(value, number)).then_some((number, false))
}

/// The register that has the number of a search, and the one that has it among other statements.
#[derive(Clone, Copy)]
enum Value {
    /// The statements define it, or it is known before them.
    Of(RealId, RealId),
    /// The statements change it.
    Changes(RealId, RealId),
}

/// Whether statements are those of a search, with the place for its index and another register for its number.
fn is_same(body: &[Stmt], found: &[Stmt], index: (IndexId, IndexId), value: Value) -> bool {
    let mut names = Fresh::after(&[]);
    names.keep(index.0, index.1);
    let (own, other) = (Defined::of(body), Defined::of(found));
    if own.reals.len() != other.reals.len() || own.indices.len() != other.indices.len() {
        return false;
    }
    own.indices.iter().zip(&other.indices).for_each(|(i, j)| names.keep(*i, *j));
    own.reals.iter().zip(&other.reals).for_each(|(r, s)| names.alias(*r, *s));
    let is_value = match value {
        Value::Of(value, from) => names.read(value) == from,
        Value::Changes(value, number) => {
            names.alias(value, number);
            true
        }
    };
    is_value && names.body(body).is_ok_and(|body| body == found)
}

/// What statements define, in order.
#[derive(Default)]
struct Defined {
    indices: Vec<IndexId>,
    reals: Vec<RealId>,
}

impl Defined {
    fn of(stmts: &[Stmt]) -> Defined {
        let mut defined = Defined::default();
        for stmt in stmts {
            stmt.visit(&mut |stmt| {
                defined.indices.extend(stmt.defines());
                if let Stmt::Define(r, _) | Stmt::Local(r) = stmt {
                    defined.reals.push(*r);
                }
            });
        }
        defined
    }
}

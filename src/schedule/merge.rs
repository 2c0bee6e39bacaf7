//! Loops beside each other in a body become one.
//!
//! ```text
//! for i                                      for i
//!   for j { t[i, j] = f(i, j) }                for j
//!   for k { s += t[i, k] * b[k] }      ==        t[i, j] = f(i, j)
//!                                                s += t[i, j] * b[j]
//! ```
//!
//! Where [`fuse`](super::fuse) has put nests over the same rows together, each row is still gone through once for each of them. One loop
//! loads once what they share, and what one stores and the next loads is still in a register ([`reuse`](super::reuse)).
//!
//! **Where it is done.** The loops are innermost, over the same range or the same row of a relation, with the same functions that take long, and use some
//! place alike, or find a coordinate alike; or they are around others, and one reads rows that the other has stored, as where rows of rows are
//! normalised, or both sum up for the nest and read rows alike. What is computed of a number of each row, in an innermost loop, follows the row too:
//! it would be in the way of the next loop around others.
//!
//! Inside of interleaved iterations, or of a loop that has lanes, loops stay apart: partial sums fill the registers there. They are still joined if
//! - both divide, take roots or call the same functions, which takes longer than to store and load a sum;
//! - they have few sums that read the same numbers in lanes: the matrix that several columns of results are made of is gone through once;
//! - they have few sums of what the first one has stored, which is then in a register;
//! - both walk over the same tuples.
//!
//! Of sums along the columns of a matrix in CSR, whose terms may be [in bins](super::bins), a few become one loop.
//!
//! A sum over nothing but what a loop before has [counted](counted) is added up with the count.
//!
//! A sum over a few values inside of one of them, as a distance of points, becomes statements if they can be one then. Tests of the same condition
//! become one test before, so that what is behind it for each coordinate of a place is beside each other.
//!
//! **Why it is right.** An iteration of the second loop moves before the later ones of the first. It reads no register that the first one
//! changes, and where one of them stores to a buffer that the other uses, all places of that buffer in both are the same, with the loop index on
//! some axis, or lie in steps that never meet or at two constants, or, of loops around others, have the index on the same axis: then only equal
//! iterations meet, in the order of before. Of what is between the two, numbers that the second loop needs move before the first one; they are not
//! loaded from what is written in between or by the first one, nor read what changes there. Each sum keeps the order of its summands.

mod counted;

use std::collections::{BTreeMap, BTreeSet};

use super::bins::{Gather, MAX_TERMS};
use super::contract::Contraction;
use super::key::{IndexKey, renamed};
use super::reuse::find_once;
use super::unroll_outer::{is_few, statements};
use super::vectorise::Plan;
use crate::base::{Arena, IndexId, work};
use crate::error::Result;
use crate::index::{Affine, Var};
use crate::loops::{
    Array, ArrayId, BufferId, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, changed, has_loop,
    loads, stored, stores,
};
use crate::scalar::{Function, Op, Primitive};
use crate::ty::Signature;

/// To how many sums a loop inside of lanes may add: their registers are what lanes have.
const MAX_SUMS: usize = 4;
/// The same of a loop over tuples, around which lanes are twice as many.
const MAX_WALKED: usize = 2;

/// Makes loops one that are beside each other.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { nests, signature, arrays, .. } = program;
    nests.iter_mut().try_for_each(|nest| merge(nest, signature, arrays))
}

fn merge(nest: &mut Nest, signature: &Signature, arrays: &Arena<ArrayId, Array>) -> Result<()> {
    let counted = counted::with_counts(nest)?;
    // So that tests of what is found are alike.
    find_once(nest)?;
    let vectors = vectors(nest);
    let names = Fresh::after(&nest.body);
    let mut pass = Pass { signature, arrays, vectors, names, vector: None, merged: counted };
    let mut body = std::mem::take(&mut nest.body);
    pass.sums(&mut body)?;
    pass.body(&mut body)?;
    for stmt in &mut body {
        pass.inside(stmt)?;
    }
    nest.body = body;
    if pass.merged > 0 {
        nest.decisions.push(Decision::Merged { loops: pass.merged });
    }
    Ok(())
}

/// The loops with loops inside that will have lanes or interleaved iterations.
fn vectors(nest: &Nest) -> BTreeSet<IndexId> {
    let plan = Plan::of(nest, Contraction::of(&nest.body));
    let mut found = BTreeSet::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| {
            if let Stmt::For { index, body, .. } = stmt
                && body.iter().any(has_loop)
                && plan.is_vector(stmt)
            {
                found.insert(*index);
            }
        });
    }
    found
}

struct Pass<'a> {
    signature: &'a Signature,
    arrays: &'a Arena<ArrayId, Array>,
    vectors: BTreeSet<IndexId>,
    names: Fresh,
    /// The loop around that has lanes or interleaved iterations.
    vector: Option<IndexId>,
    merged: usize,
}

impl Pass<'_> {
    fn inside(&mut self, stmt: &mut Stmt) -> Result<()> {
        match stmt {
            Stmt::For { index, body, .. } if self.vectors.contains(index) => {
                self.vector = Some(*index);
                let done = self.walks(body);
                self.vector = None;
                done
            }
            Stmt::For { body, .. } | Stmt::If { body, .. } => {
                self.tests(body)?;
                self.outer(body)?;
                for stmt in body.iter_mut() {
                    self.inside(stmt)?;
                }
                self.body(body)
            }
            _ => Ok(()),
        }
    }

    /// Inside of lanes: each walk over tuples becomes part of the first one over the same that it can join, and so do loops inside of walks.
    fn walks(&mut self, body: &mut Vec<Stmt>) -> Result<()> {
        self.joined(body, |this, body, candidates, at| {
            let walk = |k: usize| body.get(k).and_then(Simple::walk);
            let found = candidates.iter().copied().find_map(|first| {
                let (one, other) = (walk(first)?, walk(at)?);
                let few = sums_of(&body[first]) + sums_of(&body[at]) <= MAX_WALKED;
                Some((first, this.needs_of(body, (first, &one), (at, &other)).filter(|_| few)?))
            });
            Ok(found)
        })?;
        for stmt in body.iter_mut().filter(|stmt| Simple::walk(stmt).is_some()) {
            if let Stmt::For { body, .. } = stmt {
                self.walks(body)?;
            }
        }
        self.body(body)
    }

    /// Each test becomes part of the first one of the same condition that it can join.
    fn tests(&mut self, body: &mut Vec<Stmt>) -> Result<()> {
        let mut at = 1;
        while at < body.len() {
            let Some(Stmt::If { cond, .. }) = body.get(at) else {
                at += 1;
                continue;
            };
            work::charge(1 + at);
            work::check()?;
            let is_same = |stmt: &Stmt| matches!(stmt, Stmt::If { cond: other, .. } if other == cond);
            let needs = body[..at].iter().rposition(is_same).and_then(|first| {
                let (one, other) = (Uses::of_test(body.get(first)?)?, Uses::of_test(body.get(at)?)?);
                Some((first, self.needs_between(body, (first, &one), (at, &other))?))
            });
            match needs {
                Some((first, needs)) => {
                    let Stmt::If { body: inside, .. } = taken(body, first, at, &needs) else { continue };
                    if let Some(Stmt::If { body, .. }) = body.get_mut(first + needs.len()) {
                        body.extend(inside);
                    }
                    self.merged += 1;
                }
                None => at += 1,
            }
        }
        Ok(())
    }

    /// Each loop that sums up for the nest, and stores nothing, becomes part of the first one before it that it can join.
    fn sums(&mut self, body: &mut Vec<Stmt>) -> Result<()> {
        self.joined(body, |this, body, candidates, at| {
            let sums = |k: usize| {
                let stmt = body.get(k)?;
                let found = Simple::around(stmt, &this.vectors).or_else(|| Simple::of(stmt))?;
                found.uses.stores.is_empty().then_some(found)
            };
            let found = candidates.iter().copied().find_map(|first| {
                let (one, other) = (sums(first)?, sums(at)?);
                Some((first, this.needs_of(body, (first, &one), (at, &other))?))
            });
            Ok(found)
        })
    }

    /// Each loop around others becomes part of the last one before it that it can join.
    fn outer(&mut self, body: &mut Vec<Stmt>) -> Result<()> {
        self.joined(body, |this, body, candidates, at| {
            let around = |k: usize| body.get(k).and_then(|stmt| Simple::around(stmt, &this.vectors));
            let found = candidates.iter().rev().copied().find_map(|first| {
                let (one, other) = (around(first)?, around(at).or_else(|| Simple::of(of_rows(body, first, at)?))?);
                Some((first, this.needs_of(body, (first, &one), (at, &other))?))
            });
            Ok(found)
        })
    }

    /// Each loop becomes part of the first one that it can join.
    fn body(&mut self, body: &mut Vec<Stmt>) -> Result<()> {
        self.joined(body, |this, body, candidates, at| {
            let found = candidates.iter().find_map(|first| Some((*first, this.needs(body, *first, at)?)));
            match found {
                Some(found) => Ok(Some(found)),
                None => this.unrolled(body, candidates, at),
            }
        })
    }

    /// Each loop becomes part of the one before it that is found for it, with what it needs of what is between the two. Only loops that use a buffer
    /// or an array alike can be one.
    fn joined(
        &mut self,
        body: &mut Vec<Stmt>,
        find: impl Fn(&mut Self, &mut Vec<Stmt>, &[usize], usize) -> Result<Option<(usize, BTreeSet<usize>)>>,
    ) -> Result<()> {
        let mut uses: Vec<BTreeSet<Used>> = body.iter().map(used).collect();
        let mut at = 1;
        while at < body.len() {
            // Each is held against all before it.
            work::charge(1 + at);
            work::check()?;
            let (before, rest) = uses.split_at(at);
            let alike = |(k, there): (usize, &BTreeSet<Used>)| {
                rest.first().is_some_and(|own| !own.is_disjoint(there)).then_some(k)
            };
            let candidates: Vec<usize> = before.iter().enumerate().filter_map(alike).collect();
            match find(self, body, &candidates, at)? {
                Some((first, needs)) => {
                    self.join(body, first, at, &needs)?;
                    let own = taken(&mut uses, first, at, &needs);
                    uses[first + needs.len()].extend(own);
                    self.merged += 1;
                }
                None => at += 1,
            }
        }
        Ok(())
    }

    /// The same where short loops inside of the two become statements, which is done then.
    fn unrolled(
        &mut self,
        body: &mut Vec<Stmt>,
        candidates: &[usize],
        second: usize,
    ) -> Result<Option<(usize, BTreeSet<usize>)>> {
        for &first in candidates {
            let pair = [first, second];
            if !pair.iter().any(|at| body.get(*at).is_some_and(|stmt| stmt.body().iter().any(is_few))) {
                continue;
            }
            let mut other = body.clone();
            for at in pair {
                if let Some(Stmt::For { body, .. }) = other.get_mut(at) {
                    *body = statements(std::mem::take(body), &mut self.names)?;
                }
            }
            if let Some(needs) = self.needs(&other, first, second) {
                *body = other;
                return Ok(Some((first, needs)));
            }
        }
        Ok(None)
    }

    /// The statements between two loops of a body that the second one needs, if it can join the first.
    fn needs(&self, body: &[Stmt], first: usize, second: usize) -> Option<BTreeSet<usize>> {
        let (one, other) = (Simple::of(body.get(first)?)?, Simple::of(body.get(second)?)?);
        if let Some(vector) = self.vector
            && ![first, second].iter().all(|at| body.get(*at).is_some_and(divides))
            && !(sums_of(&body[first]) + sums_of(&body[second]) <= MAX_SUMS
                && (Same::of(&one, &other).shares_lanes(vector)
                    || sums_of(&body[first]) == 0 && Same::of(&one, &other).feeds_lanes(vector)))
        {
            return None;
        }
        // Their terms may be in bins, if there are few of them.
        let pair = [first, second].map(|at| body.get(at));
        let gathers = |stmt: &&Stmt| Gather::of(self.signature, self.arrays, stmt).is_some();
        if pair.iter().flatten().all(gathers) && pair.into_iter().flatten().map(sums_of).sum::<usize>() > MAX_TERMS {
            return None;
        }
        self.needs_of(body, (first, &one), (second, &other))
    }

    fn needs_of(
        &self,
        body: &[Stmt],
        (first, one): (usize, &Simple<'_>),
        (second, other): (usize, &Simple<'_>),
    ) -> Option<BTreeSet<usize>> {
        if one.domain != other.domain || one.calls != other.calls {
            return None;
        }
        let same = Same::of(one, other);
        if !same.uses_alike() || !same.keeps_order() {
            return None;
        }
        self.needs_between(body, (first, &one.uses), (second, &other.uses))
    }

    /// The statements between two of a body that the second one needs, if it can join the first.
    fn needs_between(
        &self,
        body: &[Stmt],
        (first, one): (usize, &Uses<'_>),
        (second, other): (usize, &Uses<'_>),
    ) -> Option<BTreeSet<usize>> {
        let between = first + 1..second;
        let (mut reads, mut indices) = (other.reads.clone(), other.indices.clone());
        let mut needs = BTreeSet::new();
        for at in between.clone().rev() {
            let stmt = body.get(at)?;
            let needed = match stmt {
                Stmt::Define(r, _) | Stmt::Local(r) => reads.contains(r) || other.changes.contains(r),
                Stmt::Let { index, .. } => indices.contains(index),
                // Where it starts.
                Stmt::Assign(r, _) => other.changes.contains(r),
                _ => false,
            };
            if needed {
                if !can_move(stmt, &body[first..at], one) {
                    return None;
                }
                stmt.visit_reads(&mut |r| {
                    reads.insert(r);
                });
                stmt.visit_indices(&mut |i| indices.extend([i]));
                needs.insert(at);
            } else if !other.passes(stmt) {
                return None;
            }
        }
        // What is needed may not be changed in between.
        let stays = changed(between.filter(|at| !needs.contains(at)).filter_map(|at| body.get(at)));
        (reads.is_disjoint(&one.changes) && reads.is_disjoint(&stays)).then_some(needs)
    }

    fn join(&mut self, body: &mut Vec<Stmt>, first: usize, second: usize, needs: &BTreeSet<usize>) -> Result<()> {
        let Stmt::For { index: from, body: inside, .. } = taken(body, first, second, needs) else { return Ok(()) };
        if let Some(Stmt::For { index, body, .. }) = body.get_mut(first + needs.len()) {
            self.names.again();
            let same = common((*index, body), (from, &inside));
            same.iter().for_each(|(there, here)| self.names.keep(*there, *here));
            let is_new = |stmt: &&Stmt| !stmt.defines().any(|i| same.contains_key(&i));
            let rest: Vec<Stmt> = inside.iter().filter(is_new).cloned().collect();
            body.extend(self.names.body(&rest)?);
        }
        Ok(())
    }
}

/// Whether a number can be made before a loop, and the statements behind it, instead of behind them.
fn can_move(stmt: &Stmt, past: &[Stmt], over: &Uses<'_>) -> bool {
    let mut fixed = stmt.changes().is_none_or(|r| !over.reads.contains(&r) && !over.changes.contains(&r));
    stmt.visit_reads(&mut |r| fixed &= !over.changes.contains(&r));
    fixed && stmt.load().is_none_or(|place| !stored(past).contains(&place.buffer))
}

/// The second of two items of a list, which leaves it, after what it needs of those between the two has moved before the first.
fn taken<T>(list: &mut Vec<T>, first: usize, second: usize, needs: &BTreeSet<usize>) -> T {
    let item = list.remove(second);
    let moved: Vec<T> = needs.iter().rev().map(|at| list.remove(*at)).collect();
    list.splice(first..first, moved.into_iter().rev());
    item
}

/// What a loop has from outside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Used {
    Buffer(BufferId),
    Array(ArrayId),
}

/// What a loop uses; nothing of other statements.
fn used(stmt: &Stmt) -> BTreeSet<Used> {
    let mut found = BTreeSet::new();
    if let Stmt::For { body, .. } = stmt {
        found.extend(loads(body).into_iter().chain(stores(body)).map(|place| Used::Buffer(place.buffer)));
        body.iter().for_each(|stmt| {
            stmt.visit(&mut |stmt| match stmt {
                Stmt::Let { array, .. } => found.extend([Used::Array(*array)]),
                Stmt::Find { segment, .. } => found.extend([Used::Array(segment.pointers)]),
                _ => {}
            });
        });
    }
    found
}

/// What may follow each row of an earlier loop around others: not where these become statements, as the two are innermost ones then.
fn of_rows(body: &[Stmt], first: usize, at: usize) -> Option<&Stmt> {
    let becomes_innermost = body.get(first)?.body().iter().any(is_few);
    body.get(at).filter(|_| !becomes_innermost)
}

/// Whether a loop divides, takes roots, or has functions that take long.
fn divides(stmt: &Stmt) -> bool {
    let long = |stmt: &Stmt| match stmt {
        Stmt::Define(_, Real::Apply(function, _)) => {
            function.is_call() || matches!(function, Function::Value(Primitive::Op(Op::Div | Op::Sqrt)))
        }
        _ => false,
    };
    stmt.body().iter().any(long)
}

/// The functions of a loop that take long.
fn calls(stmt: &Stmt) -> BTreeSet<Function> {
    let mut found = BTreeSet::new();
    stmt.visit(&mut |stmt| {
        if let Stmt::Define(_, Real::Apply(function, _)) = stmt
            && function.is_call()
        {
            found.insert(*function);
        }
    });
    found
}

/// How many sums a loop adds to, and loops inside of it.
fn sums_of(stmt: &Stmt) -> usize {
    let mut sums = 0;
    stmt.visit(&mut |stmt| {
        sums += usize::from(matches!(stmt, Stmt::Accumulate(..) | Stmt::MulAdd(..) | Stmt::Extend(..)));
    });
    sums
}

/// The indices of one loop that are those of another, where the loops are at the same value: that of each, and what both bodies find alike. Those
/// here by those there.
fn common((index, here): (IndexId, &[Stmt]), (other, there): (IndexId, &[Stmt])) -> BTreeMap<IndexId, IndexId> {
    let known: Vec<(IndexId, IndexKey)> = here.iter().filter_map(|stmt| IndexKey::of(stmt, &BTreeMap::new())).collect();
    let mut same = BTreeMap::from([(other, index)]);
    for stmt in there {
        if let Some((i, key)) = IndexKey::of(stmt, &same)
            && let Some((known, _)) = known.iter().find(|(_, known)| *known == key)
        {
            same.insert(i, *known);
        }
    }
    same
}

/// A loop of numbers, sums and stores: an innermost one over a range or a row, or one over a range around such loops.
struct Simple<'a> {
    is_innermost: bool,
    index: IndexId,
    domain: &'a Domain,
    body: &'a [Stmt],
    uses: Uses<'a>,
    /// The functions that take long, of a loop without others inside.
    calls: BTreeSet<Function>,
}

/// What a loop or a test uses.
struct Uses<'a> {
    /// The registers that it reads, and those that it changes, declared inside or not.
    reads: BTreeSet<RealId>,
    changes: BTreeSet<RealId>,
    indices: BTreeSet<IndexId>,
    loads: Vec<&'a Place>,
    stores: Vec<&'a Place>,
}

impl<'a> Simple<'a> {
    fn of(stmt: &'a Stmt) -> Option<Simple<'a>> {
        let Stmt::For { index, domain, lanes: 1, jam: 1, parallel: false, body } = stmt else { return None };
        let simple = |stmt: &Stmt| {
            matches!(
                stmt,
                Stmt::Let { .. }
                    | Stmt::Define(..)
                    | Stmt::Local(_)
                    | Stmt::Accumulate(..)
                    | Stmt::MulAdd(..)
                    | Stmt::Extend(..)
                    | Stmt::Store(..)
            )
        };
        let is_whole = !matches!(domain, Domain::Part { .. });
        (is_whole && body.iter().all(simple))
            .then(|| Simple { calls: calls(stmt), ..Simple::seen(stmt, *index, domain, body) })
    }

    /// A loop around loops, without lanes or interleaved iterations.
    fn around(stmt: &'a Stmt, vectors: &BTreeSet<IndexId>) -> Option<Simple<'a>> {
        let Stmt::For { index, domain: domain @ Domain::Range { .. }, lanes: 1, jam: 1, parallel: false, body } = stmt
        else {
            return None;
        };
        let mut plain = body.iter().any(has_loop) && !vectors.contains(index);
        stmt.visit(&mut |stmt| {
            plain &= matches!(
                stmt,
                Stmt::For { domain: Domain::Range { .. }, .. }
                    | Stmt::Define(..)
                    | Stmt::Local(_)
                    | Stmt::Accumulate(..)
                    | Stmt::MulAdd(..)
                    | Stmt::Store(..)
            );
        });
        plain.then(|| Simple { is_innermost: false, ..Simple::seen(stmt, *index, domain, body) })
    }

    /// A loop over tuples that adds up, under tests and in loops over tuples below.
    fn walk(stmt: &'a Stmt) -> Option<Simple<'a>> {
        let Stmt::For { index, domain: domain @ Domain::Segment(_), lanes: 1, jam: 1, parallel: false, body } = stmt
        else {
            return None;
        };
        let mut plain = true;
        stmt.visit(&mut |stmt| {
            plain &= matches!(
                stmt,
                Stmt::For { domain: Domain::Segment(_), .. }
                    | Stmt::If { .. }
                    | Stmt::Let { .. }
                    | Stmt::Define(..)
                    | Stmt::Local(_)
                    | Stmt::Accumulate(..)
                    | Stmt::MulAdd(..)
            );
        });
        plain.then(|| Simple::seen(stmt, *index, domain, body))
    }

    fn seen(stmt: &'a Stmt, index: IndexId, domain: &'a Domain, body: &'a [Stmt]) -> Simple<'a> {
        Simple { is_innermost: true, index, domain, body, uses: Uses::of(stmt), calls: BTreeSet::new() }
    }
}

impl<'a> Uses<'a> {
    /// Those of a statement with others inside.
    fn of(stmt: &'a Stmt) -> Uses<'a> {
        let (mut reads, mut indices) = (BTreeSet::new(), BTreeSet::new());
        stmt.visit(&mut |stmt| {
            stmt.visit_reads(&mut |r| {
                reads.insert(r);
            });
            stmt.visit_indices(&mut |i| indices.extend([i]));
        });
        let body = stmt.body();
        Uses { reads, changes: changed(body), indices, loads: loads(body), stores: stores(body) }
    }

    /// Those of a test of numbers, sums, stores, and loops of these.
    fn of_test(stmt: &'a Stmt) -> Option<Uses<'a>> {
        let mut plain = matches!(stmt, Stmt::If { .. });
        let is_plain =
            |stmt: &Stmt| !matches!(stmt, Stmt::Fill(_) | Stmt::End(_) | Stmt::Call { .. } | Stmt::Tuple(..));
        stmt.visit(&mut |stmt| plain &= is_plain(stmt));
        plain.then(|| Uses::of(stmt))
    }

    fn places(&self) -> impl Iterator<Item = &'a Place> {
        self.loads.iter().chain(&self.stores).copied()
    }

    /// Whether these may be before a statement that they are behind, and do not need.
    fn passes(&self, stmt: &Stmt) -> bool {
        let mut free = true;
        stmt.visit(&mut |stmt| {
            stmt.visit_reads(&mut |r| free &= !self.changes.contains(&r));
            let filled = if let Stmt::Fill(buffer) = stmt { Some(*buffer) } else { None };
            let written = stmt.stores().map(|place| place.buffer).chain(filled);
            free &= written.into_iter().all(|b| self.places().all(|own| own.buffer != b));
            free &= stmt.loads().all(|place| self.stores.iter().all(|own| own.buffer != place.buffer));
            free &= stmt.changes().is_none_or(|r| !self.changes.contains(&r));
            // What is behind the end of a loop does not run in its last iteration.
            free &= !matches!(stmt, Stmt::End(_));
            free &= !stmt.defines().any(|i| self.indices.contains(&i));
        });
        free
    }
}

/// Whether lanes over an index are neighbours at a place.
fn is_in_lanes(place: &Place, lanes: IndexId) -> bool {
    place.at.last().is_some_and(|a| a.mentions(lanes))
}

/// Two loops, and what is the same in both.
struct Same<'a> {
    one: &'a Simple<'a>,
    other: &'a Simple<'a>,
    /// The indices of the first one that are what those of the second are.
    indices: BTreeMap<IndexId, IndexId>,
}

impl<'a> Same<'a> {
    fn of(one: &'a Simple<'a>, other: &'a Simple<'a>) -> Same<'a> {
        let indices = common((one.index, one.body), (other.index, other.body));
        Same { one, other, indices }
    }

    /// An index expression of the second loop in the first.
    fn renamed(&self, a: &Affine) -> Option<Affine> {
        renamed(a, &self.indices)
    }

    /// Whether two loops use a place alike that changes with the index.
    fn uses_alike(&self) -> bool {
        let (one, other) = (self.one, self.other);
        let any_load = |is_alike: &dyn Fn(&Place) -> bool| other.uses.loads.iter().any(|load| is_alike(load));
        let varies = |place: &Place| place.at.iter().any(|a| a.mentions(one.index));
        match one.is_innermost {
            innermost
                if innermost != other.is_innermost && one.uses.stores.is_empty() && other.uses.stores.is_empty() =>
            {
                false
            }
            true => {
                let finds_alike = self.indices.len() > 1;
                finds_alike
                    || one.uses.places().any(|place| varies(place) && any_load(&|load| self.is_same(place, load)))
            }
            false if one.uses.stores.is_empty() => {
                one.uses.loads.iter().any(|place| any_load(&|load| self.is_row(place, load)))
            }
            false => one.uses.stores.iter().any(|place| any_load(&|load| self.is_own_row(place, load))),
        }
    }

    /// Whether two loops that store nothing load a place alike of which lanes over an index outside load neighbours.
    fn shares_lanes(&self, lanes: IndexId) -> bool {
        let (one, other) = (self.one, self.other);
        let is_alike = |place: &Place| other.uses.loads.iter().any(|load| self.is_same(place, load));
        one.uses.stores.is_empty()
            && other.uses.stores.is_empty()
            && one.uses.loads.iter().any(|place| is_in_lanes(place, lanes) && is_alike(place))
    }

    /// Whether the second loop loads what the first one has stored, at the same places, of which lanes over an index outside are neighbours.
    fn feeds_lanes(&self, lanes: IndexId) -> bool {
        let is_loaded = |place: &Place| self.other.uses.loads.iter().any(|load| self.is_same(place, load));
        self.one.uses.stores.iter().any(|place| is_in_lanes(place, lanes) && is_loaded(place))
    }

    /// Whether two places are the same where the indices of the loops are.
    fn is_same(&self, place: &Place, there: &Place) -> bool {
        place.buffer == there.buffer
            && place.at.len() == there.at.len()
            && place.at.iter().zip(&there.at).all(|(a, b)| self.renamed(b).as_ref() == Some(a))
    }

    /// Whether the indices of the loops are on the same axis of two places of a buffer.
    fn is_own_row(&self, place: &Place, there: &Place) -> bool {
        let (here, other) = (self.one.index, self.other.index);
        let own = |(a, b): (&Affine, &Affine)| a.as_index() == Some(here) && b.as_index() == Some(other);
        place.buffer == there.buffer && place.at.iter().zip(&there.at).any(own)
    }

    /// Whether two places are in the same row where the indices of the loops are.
    fn is_row(&self, place: &Place, there: &Place) -> bool {
        let alike = |(a, b): (&Affine, &Affine)| a.mentions(self.one.index) && self.renamed(b).as_ref() == Some(a);
        place.buffer == there.buffer && place.at.iter().zip(&there.at).any(alike)
    }

    /// Whether two places lie in steps that never meet, as the even ones and the odd ones along some axis, or at two constants.
    fn never_meets(&self, place: &Place, there: &Place) -> bool {
        let apart = |(a, b): (&Affine, &Affine)| {
            let b = self.renamed(b)?;
            let step = a.coefficient(&Var::Index(self.one.index));
            let distance = b.sub(a).ok()?.as_constant()?;
            // What an iteration finds is no step.
            let finds = self.one.body.iter().flat_map(Stmt::defines).any(|i| a.mentions(i));
            Some(step > 1 && distance % step != 0 && !finds || a.as_constant().is_some() && distance != 0)
        };
        place.at.iter().zip(&there.at).any(|pair| apart(pair) == Some(true))
    }

    /// Whether each iteration of the second loop may come before the later ones of the first.
    fn keeps_order(&self) -> bool {
        let (one, other) = (self.one, self.other);
        let own_place = |place: &Place| place.at.iter().any(|a| a.as_index() == Some(one.index));
        let apart = |here: &Place, there: &Place| {
            here.buffer != there.buffer
                || own_place(here) && self.is_same(here, there)
                || !one.is_innermost && self.is_own_row(here, there)
                || self.never_meets(here, there)
        };
        let stored = one.uses.stores.iter().all(|here| other.uses.places().all(|there| apart(here, there)));
        let loaded = one.uses.loads.iter().all(|here| other.uses.stores.iter().all(|there| apart(here, there)));
        stored
            && loaded
            && one.uses.changes.is_disjoint(&other.uses.reads)
            && one.uses.changes.is_disjoint(&other.uses.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::Uses;
    use crate::base::FunctionId;
    use crate::index::Affine;
    use crate::loops::{Place, Run, Stmt, parse};

    /// A loop that loads `x` and stores `y`, and a call of a function from outside that takes or gives a row of some buffer. The text of nests has
    /// no calls.
    #[test]
    fn calls_are_in_the_way_of_what_they_take_and_give() {
        let source = crate::surface::read("param x : [n] real\nparam z : [n] real\n0.0", &[]).expect("it is sound");
        let text =
            "y[n]:\n  for i0 in 0 .. n - 1\n    r0 = x[i0]\n    r1 = z[i0]\n    y[i0] = r0\nother[n]:\n  other = 0\n";
        let program = parse(text, &source.signature).expect("it is sound");
        let moved = &program.nests[0].body[0];
        for (name, takes, gives) in [("x", true, false), ("y", false, false), ("other", true, true)] {
            let buffer = program.buffers.iter().find(|(_, buffer)| buffer.name == name).expect("it is there").0;
            let run = || vec![Run { place: Place { buffer, at: Vec::new() }, shape: vec![Affine::constant(1)] }];
            let call = |takes, gives| Stmt::Call { function: FunctionId(0), takes, gives };
            let passes = |call: Stmt| Uses::of(moved).passes(&call);
            assert_eq!(passes(call(run(), Vec::new())), takes, "takes {name}");
            assert_eq!(passes(call(Vec::new(), run())), gives, "gives {name}");
        }
    }
}

//! Sums of which each term knows its place are added up in a row, term by term.
//!
//! ```text
//! for j                                    for t { w[i, t] = 0 }
//!   s = 0                                  for k in D(i)
//!   for k in D(i)                            t = m(k)
//!     t = m(k)                       ==      w[i, t] += e(k, t + c)
//!     if j = t + c { s += e(k, j) }        for j
//!   x[i, j] = s                              x[i, j] = w[i, j - c]
//! ```
//!
//! The left side goes through all of `D(i)` for each `j`, and finds that most terms are of other places. The right side takes a step for each term. What
//! tells the place is
//!
//! - the target of a map, `t = m(k)`, as where a grid is read at the two coordinates of a point;
//! - a number, if it is an integer: `if number(k) = j`;
//! - an entry of a matrix that is looked for, which is there for few `j`: `find k in rows B at j`. Then the entries of row `k` of the other view are gone
//!   through, as in a product of sparse matrices (Gustavson, 1978);
//! - the row that is gone through, `for k in rows A at j`, where what is found in another one does not depend on `j`: the two change places.
//!
//! Loops that the place of a term does not depend on become innermost, `w[i, t, c] += e(k, t, c)`, as neighbours of the row lie along them; the outermost of
//! all loops stays.
//!
//! It is the *workspace* of Kjolstad, Ahrens, Kamil and Amarasinghe (2019). The loop around belongs to one thread, and so does its row.
//!
//! **Why it is right.** For each `j` the same terms are added, in the order of `k`, or, where the rows change places, in that of the other view; those of
//! one row of a matrix are different places. Places that no `j` asks for get sums that nobody reads. What is tested around the sum and mentions `j` is
//! tested for each term if the term mentions `j`, so nothing is read out of bounds.
//!
//! **What it refuses.** Outermost loops, which [`histograms`](super::histograms) and [`scatter`](super::scatter) see to; axes of a few places, for which terms
//! are masked in lanes; terms that need what the loop over `j` has found or summed. Of places with several axes that terms tell, where they are no
//! [histogram](super::histograms), the last one is added to: terms are gone through once for each place on the others.

mod depends;
mod rows;
mod terms;

use std::collections::{BTreeMap, BTreeSet};

use super::hold::compact;
use super::machine::SHORT;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Pred, Size};
use crate::loops::{
    Array, ArrayId, Buffer, BufferId, Cond, Decision, Domain, Fresh, Place, Program, Real, RealId, Stmt,
    changed_outside, changes_outside, mentioned, predicate, title,
};
use crate::solver::Facts;
use crate::ty::Signature;
pub(super) use depends::{
    along_axis, asks_any, asks_numbers, bounds, cond_mentions, cond_varies, mentions_any, needed, one, reads_any, unit,
    varies,
};
pub(super) use terms::{terms, tested};

use depends::{Tells, below};
use rows::Rows;

/// Gives such sums workspaces.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let facts = program.signature.facts();
    let Program { signature, arrays, buffers, nests, .. } = program;
    let before = (arrays.len(), buffers.len());
    for nest in nests {
        let names = Fresh::after(&nest.body);
        let name = format!("{}_row", title(buffers, nest));
        let mut pass = Pass { signature, arrays, buffers, names, name, added: Vec::new(), sums: 0 };
        nest.body = pass.body(std::mem::take(&mut nest.body), &[], &facts)?;
        let Pass { added, sums, .. } = pass;
        nest.buffers.extend(added);
        if sums > 0 {
            nest.decisions.push(Decision::InRows { sums });
        }
    }
    if before != (program.arrays.len(), program.buffers.len()) {
        compact(program);
    }
    Ok(())
}

struct Pass<'a> {
    signature: &'a Signature,
    arrays: &'a mut Arena<ArrayId, Array>,
    buffers: &'a mut Arena<BufferId, Buffer>,
    names: Fresh,
    /// What workspaces of the nest are called.
    name: String,
    /// The workspaces that the nest got, and how many sums are added up in rows.
    added: Vec<BufferId>,
    sums: usize,
}

/// A loop around, as an axis of workspaces: a coordinate and how many there are; nothing where none tells its iterations apart.
type Axis = Option<(IndexId, Size)>;

/// The loop over places.
struct Places<'s> {
    index: IndexId,
    domain: &'s Domain,
    around: &'s [(IndexId, Size)],
}

/// A loop over a whole axis that tells no place.
#[derive(Clone)]
struct Rank {
    index: IndexId,
    extent: Size,
}

/// What stands before a sum in the loop over places.
#[derive(Clone, Default)]
struct Before {
    /// Numbers, in order.
    numbers: Vec<Stmt>,
    /// The tests around.
    tests: Vec<Cond>,
    /// What is known there.
    facts: Facts,
    /// The loops inside of that over places, from outside in.
    ranks: Vec<Rank>,
    /// Indices and registers that are none of these numbers.
    indices: BTreeSet<IndexId>,
    locals: BTreeSet<RealId>,
}

/// What makes the workspaces of a sum.
struct Made {
    /// Numbers that are the same for all places.
    numbers: Vec<Stmt>,
    /// What is asked before: where a sum is not read at all it is not made.
    test: Option<Cond>,
    zeros: Vec<Stmt>,
    terms: Vec<Stmt>,
}

impl Made {
    /// What makes several; those under the same test one after the other, so that loops over the same terms are beside each other.
    fn joined(all: Vec<Made>) -> Vec<Stmt> {
        let mut out = Vec::new();
        let mut left = all.into_iter().peekable();
        while let Some(Made { mut numbers, test, zeros, mut terms }) = left.next() {
            let mut together = zeros;
            while let Some(next) = left.next_if(|next| next.test == test) {
                numbers.extend(next.numbers);
                together.extend(next.zeros);
                terms.extend(next.terms);
            }
            together.extend(terms);
            out.extend(numbers);
            match test {
                Some(cond) => out.push(Stmt::If { cond, body: together }),
                None => out.extend(together),
            }
        }
        out
    }
}

impl Pass<'_> {
    // Loops and tests nest to a bounded depth.
    fn body(&mut self, body: Vec<Stmt>, around: &[Axis], facts: &Facts) -> Result<Vec<Stmt>> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            if let Some(sunk) = self.sunk(&stmt, around) {
                let before = self.sums;
                let made = self.stmt(sunk, around, facts)?;
                if self.sums > before {
                    out.extend(made);
                    continue;
                }
            }
            out.extend(self.stmt(stmt, around, facts)?);
        }
        Ok(out)
    }

    /// A statement, with what goes before it.
    fn stmt(&mut self, mut stmt: Stmt, around: &[Axis], facts: &Facts) -> Result<Vec<Stmt>> {
        match &mut stmt {
            Stmt::For { index, domain, body, .. } => {
                let within: Vec<Axis> = around.iter().cloned().chain([self.axis(*index, domain, body)]).collect();
                let mut known = facts.clone();
                predicate::assume(&mut known, *index, domain)?;
                *body = self.body(std::mem::take(body), &within, &known)?;
            }
            Stmt::If { cond, body } => {
                *body = self.body(std::mem::take(body), around, &predicate::under(facts, cond)?)?;
            }
            _ => {}
        }
        let own: Option<Vec<(IndexId, Size)>> = around.iter().cloned().collect();
        let (Some(around), Stmt::For { index, domain, lanes: 1, jam: 1, body, .. }) = (own, &mut stmt) else {
            return Ok(vec![stmt]);
        };
        if around.is_empty() || !may_be_long(domain) {
            return Ok(vec![stmt]);
        }
        let places = Places { index: *index, domain, around: &around };
        let mut facts = facts.clone();
        predicate::assume(&mut facts, *index, domain)?;
        let mut made = Vec::new();
        self.sums(&places, body, Before { facts, ..Before::default() }, &mut made)?;
        let mut out = Made::joined(made);
        if !self.in_place(&places, body, &mut out) {
            out.push(stmt);
        }
        Ok(out)
    }

    /// Loops inside of each other, of which the innermost is over places that what is summed up inside tells, with those that tell nothing inside of that
    /// one; nothing where there are none of these, or no others.
    fn sunk(&self, stmt: &Stmt, around: &[Axis]) -> Option<Stmt> {
        let (mut loops, mut numbers, mut inner) = (Vec::new(), Vec::new(), std::slice::from_ref(stmt));
        while let [defined @ .., Stmt::For { index, domain, lanes: 1, jam: 1, parallel: false, body }] = inner
            && defined.iter().all(|stmt| matches!(stmt, Stmt::Define(..)))
            && domain.whole_extent().is_some()
        {
            numbers.extend_from_slice(defined);
            loops.push((*index, domain));
            inner = body;
        }
        let (places, outer) = loops.split_last()?;
        let mut tells = Tells::default();
        inner.iter().for_each(|stmt| tells.note(stmt));
        let told = tells.indices(numbers.iter().chain(inner));
        let is_rank = |(i, domain): &&(IndexId, &Domain)| {
            let is_long = domain.whole_extent().is_some_and(|n| n.as_constant().is_none());
            is_long && !told.contains(i)
        };
        let (ranks, others): (Vec<_>, Vec<_>) = outer.iter().partition(is_rank);
        if ranks.is_empty() || !told.contains(&places.0) || others.is_empty() && around.is_empty() {
            return None;
        }
        let body = numbers.iter().chain(inner).cloned().collect();
        let order = others.into_iter().chain([places]).chain(ranks);
        let nested =
            order.rev().fold(body, |body, (index, domain)| vec![Stmt::one_by_one(*index, (*domain).clone(), body)]);
        nested.into_iter().next()
    }

    /// What tells the iterations of a loop apart.
    fn axis(&self, index: IndexId, domain: &Domain, body: &[Stmt]) -> Axis {
        match domain {
            Domain::Range { .. } => Some((index, along_axis(domain)?)),
            Domain::Segment(_) => body.iter().find_map(|stmt| match stmt {
                Stmt::Let { index: i, array, at, .. } if at.as_index() == Some(index) => {
                    Some((*i, self.nodes(*array)?.clone()))
                }
                _ => None,
            }),
            Domain::Part { .. } => None,
        }
    }

    /// How many values the nodes of an array may have.
    fn nodes(&self, array: ArrayId) -> Option<&Size> {
        self.arrays.get(array)?.extent(self.signature)
    }

    /// Takes sums out of the body of a loop over places; what they become goes `first`.
    fn sums(
        &mut self,
        places: &Places<'_>,
        body: &mut Vec<Stmt>,
        mut before: Before,
        first: &mut Vec<Made>,
    ) -> Result<()> {
        let mut at = 0;
        while at < body.len() {
            match &mut body[at] {
                stmt @ Stmt::Define(..) => before.numbers.push(stmt.clone()),
                Stmt::Local(r) => before.locals.extend([*r]),
                Stmt::If { cond, body: inside } => {
                    let mut inner = before.clone();
                    inner.tests.push(cond.clone());
                    inner.facts = predicate::under(&inner.facts, cond)?;
                    self.sums(places, inside, inner, first)?;
                }
                stmt @ Stmt::For { .. } => {
                    if let Some((made, read)) = self.sum(places, stmt, &before)? {
                        first.push(made);
                        let count = read.len();
                        body.splice(at..=at, read);
                        at += count;
                        continue;
                    }
                    if let Stmt::For { index, domain, lanes: 1, jam: 1, body: inside, .. } = stmt
                        && let Some(extent) = domain.whole_extent()
                        && !changes_outside(inside)
                    {
                        let mut inner = before.clone();
                        predicate::assume(&mut inner.facts, *index, domain)?;
                        inner.ranks.push(Rank { index: *index, extent });
                        self.sums(places, inside, inner, first)?;
                    }
                }
                stmt => before.indices.extend(stmt.defines()),
            }
            at += 1;
        }
        Ok(())
    }

    /// What makes the workspaces of a sum, and what reads them; nothing where terms do not know their places.
    fn sum(&mut self, places: &Places<'_>, stmt: &Stmt, before: &Before) -> Result<Option<(Made, Vec<Stmt>)>> {
        let sums: Vec<RealId> = changed_outside(std::slice::from_ref(stmt)).into_iter().collect();
        let is_found = |i: &IndexId| before.indices.contains(i);
        let asks = |cond: &Cond| before.indices.iter().any(|i| depends::cond_mentions(cond, *i));
        if sums.is_empty() || mentioned([stmt]).iter().any(is_found) || before.tests.iter().any(asks) {
            return Ok(None);
        }
        let free: BTreeSet<IndexId> = before.ranks.iter().map(|rank| rank.index).chain([places.index]).collect();
        self.names.again();
        // What is declared inside of the loop is not known before it.
        let mut varying = before.locals.clone();
        let mut known = BTreeMap::new();
        let (mut fixed, mut dependent) = (Vec::new(), Vec::new());
        for number in &before.numbers {
            if let Stmt::Define(r, real) = number {
                known.insert(*r, real.clone());
            }
            match varies(number, &free, &mut varying) {
                true => dependent.push(number.clone()),
                false => fixed.push(number.clone()),
            }
        }
        let around: Vec<&Cond> = before.tests.iter().filter(|cond| !cond_varies(cond, &free, &varying)).collect();
        let fixed = needed(&fixed, &[std::slice::from_ref(stmt), &dependent], &around);
        let numbers = self.names.body(&fixed)?;
        let tests = self
            .names
            .body(&[Stmt::If { cond: Cond::All(around.into_iter().cloned().collect()), body: Vec::new() }])?;
        let (coordinates, made) = (BTreeMap::new(), None);
        let mut rows = Rows {
            pass: self,
            places,
            before,
            sums: &sums,
            numbers: known,
            coordinates,
            free,
            dependent,
            varying,
            made,
        };
        let mut terms = Vec::new();
        if !rows.stmts(std::slice::from_ref(stmt), &mut terms)? {
            return Ok(None);
        }
        let Some((made, extent, shift)) = rows.made else { return Ok(None) };

        let each = self.names.fresh_index();
        let others: Vec<IndexId> = before.ranks.iter().map(|_| self.names.fresh_index()).collect();
        let zero = self.names.fresh_real();
        let stores = made.iter().map(|w| Stmt::Store(places.place(*w, each.into(), &others), zero));
        let mut zeros: Vec<Stmt> = [Stmt::Define(zero, Real::Literal(0.0))].into_iter().chain(stores).collect();
        for (index, rank) in others.iter().zip(&before.ranks).rev() {
            zeros = vec![Stmt::one_by_one(*index, Domain::whole(&rank.extent)?, zeros)];
        }
        let zeros = vec![Stmt::one_by_one(each, Domain::whole(&extent)?, zeros)];
        let test = match tests.into_iter().next() {
            Some(Stmt::If { cond: Cond::All(conds), .. }) if !conds.is_empty() => Some(one(conds)),
            _ => None,
        };
        let first = Made { numbers, test, zeros, terms };
        let ranks: Vec<IndexId> = before.ranks.iter().map(|rank| rank.index).collect();

        let at = Affine::index(places.index).sub(&shift)?;
        let mut read = Vec::new();
        for (r, w) in sums.iter().zip(&made) {
            let x = self.names.fresh_real();
            read.push(Stmt::Define(x, Real::Load(places.place(*w, at.clone(), &ranks))));
            read.push(Stmt::Accumulate(*r, x));
        }
        let sides = [at.clone(), extent.sub(&at)?.add_constant(-1)?];
        let beyond = sides.into_iter().filter(|side| !before.facts.proves(&Pred::non_negative(side.clone())));
        let beyond: Vec<Cond> = beyond.map(Cond::NonNegative).collect();
        if !beyond.is_empty() {
            read = vec![Stmt::If { cond: one(beyond), body: read }];
        }
        self.sums += sums.len();
        self.added.extend(made);
        Ok(Some((first, read)))
    }
}

impl Pass<'_> {
    /// Whether a loop does nothing any more but to copy a row, which then is made where it is copied to.
    fn in_place(&mut self, places: &Places<'_>, body: &[Stmt], first: &mut [Stmt]) -> bool {
        let (mut ranks, mut body) = (Vec::new(), body);
        while let [Stmt::For { index, lanes: 1, jam: 1, body: inside, .. }] = body {
            ranks.push(*index);
            body = inside;
        }
        let (numbers, others): (Vec<&Stmt>, Vec<&Stmt>) =
            body.iter().partition(|stmt| matches!(stmt, Stmt::Define(..)));
        let [Stmt::Local(r), Stmt::Accumulate(into, x), Stmt::Store(to, stored)] = others.as_slice() else {
            return false;
        };
        let from = numbers.iter().find_map(|stmt| match stmt {
            Stmt::Define(known, Real::Load(from)) if known == x => Some(from),
            _ => None,
        });
        let Some(from) = from.filter(|_| into == r && stored == r) else { return false };
        let (Some(row), Some(buffer)) = (self.buffers.get(from.buffer), self.buffers.get(to.buffer)) else {
            return false;
        };
        // Each axis of the row is one of what it is copied to, as a whole.
        let first_axis = places.around.len();
        let along: Vec<IndexId> = [places.index].into_iter().chain(ranks.iter().copied()).collect();
        let is_whole = (first_axis..from.at.len()).zip(&along).all(|(axis, i)| {
            let mut own = to.at.iter().enumerate().filter(|(_, a)| a.mentions(*i));
            let (Some((other, at)), None) = (own.next(), own.next()) else { return false };
            at.as_index() == Some(*i) && from.at.get(axis) == Some(at) && row.dims.get(axis) == buffer.dims.get(other)
        });
        let is_all = places.extent().as_ref() == row.dims.get(first_axis) && places.starts_at_zero();
        let is_own = self.added.last() == Some(&from.buffer) && from.at.len() == first_axis + 1 + ranks.len();
        if !is_whole || !is_all || !is_own || buffer.entries.is_some() {
            return false;
        }
        let (own, to) = (from.buffer, to.clone());
        let mut put = |place: &mut Place| {
            if place.buffer == own {
                let value = |i: IndexId| {
                    let at = along.iter().position(|other| *other == i)?;
                    place.at.get(first_axis + at).cloned()
                };
                let at: Vec<Affine> =
                    to.at.iter().map(|a| a.as_index().and_then(value).unwrap_or_else(|| a.clone())).collect();
                *place = Place { buffer: to.buffer, at };
            }
        };
        first.iter_mut().for_each(|stmt| visit_places(stmt, &mut put));
        self.added.pop();
        true
    }
}

impl Places<'_> {
    fn starts_at_zero(&self) -> bool {
        let Domain::Range { lower, .. } = self.domain else { return false };
        lower.iter().all(|b| b.numerator.as_constant() == Some(0))
    }

    fn place(&self, buffer: BufferId, coordinate: Affine, ranks: &[IndexId]) -> Place {
        let around = self.around.iter().map(|(i, _)| *i).map(Affine::index);
        Place { buffer, at: around.chain([coordinate]).chain(ranks.iter().copied().map(Affine::index)).collect() }
    }

    /// How many places there are at most, over sizes.
    fn extent(&self) -> Option<Size> {
        below(self.domain)
    }

    /// What the bounds of the loop say of a place; nothing where one of them is divided.
    fn bounds(&self) -> Option<Vec<Cond>> {
        bounds(self.index, self.domain)
    }
}

/// Whether a loop may take many values.
fn may_be_long(domain: &Domain) -> bool {
    match domain {
        Domain::Range { upper, .. } => {
            !upper.iter().any(|b| b.divisor == 1 && b.numerator.as_constant().is_some_and(|last| last < SHORT))
        }
        Domain::Segment(_) | Domain::Part { .. } => false,
    }
}

pub(super) fn visit_places(stmt: &mut Stmt, visit: &mut dyn FnMut(&mut Place)) {
    match stmt {
        Stmt::For { body, .. } | Stmt::If { body, .. } => body.iter_mut().for_each(|stmt| visit_places(stmt, visit)),
        Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) => visit(place),
        _ => {}
    }
}

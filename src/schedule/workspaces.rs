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
//! Loops inside of that over places which change neither terms nor what tells their places stay inside, `w[i, t, c] += e(k, t, c)`, and those outside move
//! there, but for the outermost one: they are rows of neighbours.
//!
//! It is the *workspace* of Kjolstad, Ahrens, Kamil and Amarasinghe (2019). The loop around belongs to one thread, and so does its row.
//!
//! **Why it is right.** For each `j` the same terms are added, in the order of `k`, or, where the rows change places, in that of the other view; those of
//! one row of a matrix are different places. Places that no `j` asks for get sums that nobody reads. What is tested around the sum and mentions `j` is
//! tested for each term if the term mentions `j`, so nothing is read out of bounds.
//!
//! **What it refuses.** Outermost loops, which [`scatter`](super::scatter) sees to; axes of a few places, for which terms are masked in lanes; terms that
//! need what the loop over `j` has found or summed.

use std::collections::{BTreeMap, BTreeSet};

use super::hold::compact;
use super::machine::SHORT;
use crate::base::{Arena, IndexId, RelationId};
use crate::error::Result;
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::loops::{
    Array, ArrayId, Bound, Buffer, BufferId, Cond, Decision, Domain, Fresh, Part, Place, Program, Real, RealId,
    Segment, Stmt, changed_outside, changes_outside, mentioned, only_sums, predicate, reads, title,
};
use crate::scalar::{Comparison, Function, Op};
use crate::solver::Facts;
use crate::ty::Signature;

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

/// What tells the place of a term: the place is a coordinate and a constant.
struct Told {
    /// In the new names.
    coordinate: Affine,
    /// How many values it may have.
    extent: Size,
    shift: Affine,
    /// What holds of the coordinate where it has one of these, in the new names.
    asked: Option<Cond>,
}

/// A matrix that is a relation, as it is gone through.
struct View {
    relation: RelationId,
    axes: [usize; 2],
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

/// What adds the terms of a sum to workspaces.
struct Rows<'p, 'a> {
    pass: &'p mut Pass<'a>,
    places: &'p Places<'p>,
    before: &'p Before,
    /// The registers that the sum adds to.
    sums: &'p [RealId],
    /// Numbers that are known, and coordinates.
    numbers: BTreeMap<RealId, Real>,
    coordinates: BTreeMap<IndexId, ArrayId>,
    /// The indices of places and of ranks.
    free: BTreeSet<IndexId>,
    /// The numbers that depend on these, in order, and which those are.
    dependent: Vec<Stmt>,
    varying: BTreeSet<RealId>,
    /// The workspaces, how long their rows are, and what is added to a coordinate to be a place.
    made: Option<(Vec<BufferId>, Size, Affine)>,
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
            Domain::Range { lower, upper } => {
                let least = |b: &Bound| b.divisor == 1 && b.numerator.as_constant().is_some_and(|k| k >= 0);
                let last = upper.iter().find(|b| b.divisor == 1 && is_of_sizes(&b.numerator))?;
                let extent = last.numerator.add_constant(1).ok()?;
                lower.iter().any(least).then_some((index, extent))
            }
            Domain::Segment(_) => body.iter().find_map(|stmt| match stmt {
                Stmt::Let { index: i, array, at, .. } if at.as_index() == Some(index) => {
                    Some((*i, self.nodes(*array)?))
                }
                _ => None,
            }),
            Domain::Part { .. } => None,
        }
    }

    /// How many values the nodes of an array may have.
    fn nodes(&self, array: ArrayId) -> Option<Size> {
        let Array { relation, axes, part: Part::Nodes(level) } = self.arrays.get(array)? else { return None };
        self.signature.relations.get(*relation)?.shape.get(*axes.get(usize::from(*level))?).cloned()
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
        if sums.is_empty() || mentioned([stmt]).iter().any(|i| before.indices.contains(i)) {
            return Ok(None);
        }
        let free: BTreeSet<IndexId> = before.ranks.iter().map(|rank| rank.index).chain([places.index]).collect();
        self.names.again();
        let mut varying = BTreeSet::new();
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
        let (sums, numbers_known) = (sums.as_slice(), known);
        let mut rows = Rows {
            pass: self,
            places,
            before,
            sums,
            numbers: numbers_known,
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
        let Domain::Range { upper, .. } = self.domain else { return None };
        let last = upper.iter().find(|b| b.divisor == 1 && is_of_sizes(&b.numerator))?;
        last.numerator.add_constant(1).ok()
    }

    /// What the bounds of the loop say of a place; nothing where one of them is divided.
    fn bounds(&self) -> Option<Vec<Cond>> {
        let Domain::Range { lower, upper } = self.domain else { return None };
        let own = Affine::index(self.index);
        let above = lower.iter().map(|b| (b.divisor == 1).then(|| own.sub(&b.numerator).ok())?);
        let below = upper.iter().map(|b| (b.divisor == 1).then(|| b.numerator.sub(&own).ok())?);
        above.chain(below).map(|a| a.map(Cond::NonNegative)).collect()
    }
}

impl Rows<'_, '_> {
    /// Statements under new names, of terms whose place is not known yet, where it becomes known before anything is added.
    // Loops and tests nest to a bounded depth.
    fn stmts(&mut self, stmts: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        for (at, stmt) in stmts.iter().enumerate() {
            match stmt {
                Stmt::Define(r, real) => {
                    self.numbers.insert(*r, real.clone());
                    match varies(stmt, &self.free, &mut self.varying) {
                        true => self.dependent.push(stmt.clone()),
                        false => self.again(stmt, out)?,
                    }
                }
                Stmt::Local(_) => self.again(stmt, out)?,
                Stmt::Let { index, array, at, .. } if !mentions_any(at, &self.free) => {
                    self.coordinates.insert(*index, *array);
                    self.again(stmt, out)?;
                }
                Stmt::Find { .. } => return self.found(&stmts[at..], out),
                Stmt::If { cond, body } if !cond_varies(cond, &self.free, &self.varying) => {
                    let Some(Stmt::If { cond, .. }) = self.head(&Stmt::If { cond: cond.clone(), body: Vec::new() })?
                    else {
                        continue;
                    };
                    let mut inside = Vec::new();
                    if !self.stmts(body, &mut inside)? {
                        return Ok(false);
                    }
                    out.push(Stmt::If { cond, body: inside });
                }
                Stmt::If { cond, body } => {
                    let added = match cond {
                        Cond::Zero(a) => match self.equation(a)? {
                            Some(told) => self.add(&told, None, body, out)?,
                            None => false,
                        },
                        Cond::Support(r) => match self.number(*r, out)? {
                            Some(told) => self.add(&told, Some(cond), body, out)?,
                            None => false,
                        },
                        _ => false,
                    };
                    if !added {
                        return Ok(false);
                    }
                }
                Stmt::Accumulate(..) | Stmt::MulAdd(..) => {
                    let Some((selector, told)) = self.selected(stmt, out)? else { return Ok(false) };
                    if !self.add(&told, Some(&Cond::Support(selector)), std::slice::from_ref(stmt), out)? {
                        return Ok(false);
                    }
                }
                Stmt::For { index, domain, lanes: 1, jam: 1, parallel: false, body } => {
                    let mut mentions = false;
                    domain.visit_affine(&mut |a| mentions |= mentions_any(a, &self.free));
                    if mentions {
                        return self.swapped(stmt, out);
                    }
                    let head = self.head(&Stmt::one_by_one(*index, domain.clone(), Vec::new()))?;
                    let Some(Stmt::For { index, domain, .. }) = head else { return Ok(false) };
                    let mut inside = Vec::new();
                    if !self.stmts(body, &mut inside)? {
                        return Ok(false);
                    }
                    out.push(Stmt::one_by_one(index, domain, inside));
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// A statement under new names.
    fn again(&mut self, stmt: &Stmt, out: &mut Vec<Stmt>) -> Result<()> {
        out.extend(self.pass.names.body(std::slice::from_ref(stmt))?);
        Ok(())
    }

    /// The same of a loop or a test without a body.
    fn head(&mut self, stmt: &Stmt) -> Result<Option<Stmt>> {
        Ok(self.pass.names.body(std::slice::from_ref(stmt))?.pop())
    }

    /// `a = 0` says that the place is the target of a map and a constant.
    fn equation(&self, a: &Affine) -> Result<Option<Told>> {
        let own = Affine::index(self.places.index);
        let value = match coefficient(a, self.places.index) {
            1 => own.sub(a)?,
            -1 => own.add(a)?,
            _ => return Ok(None),
        };
        let Some((t, shift)) = unit(&value)? else { return Ok(None) };
        let Some(extent) = self.coordinates.get(&t).and_then(|array| self.pass.nodes(*array)) else { return Ok(None) };
        Ok(Some(Told { coordinate: self.pass.names.affine(&t.into())?, extent, shift, asked: None }))
    }

    /// A register that is not zero where a number is the place and a constant.
    fn number(&mut self, r: RealId, out: &mut Vec<Stmt>) -> Result<Option<Told>> {
        let equal = Function::from(Op::Compare(Comparison::Equal));
        let Some(Real::Apply(function, sides)) = self.numbers.get(&r) else { return Ok(None) };
        let ([a, b], true) = (sides.as_slice(), *function == equal) else { return Ok(None) };
        let (place, told) = match (self.numbers.get(a), self.numbers.get(b)) {
            (Some(Real::Load(place)), Some(Real::Index(told))) => (place, told),
            (Some(Real::Index(told)), Some(Real::Load(place))) => (place, told),
            _ => return Ok(None),
        };
        let j = self.places.index;
        let Some((i, shift)) = unit(told)? else { return Ok(None) };
        if i != j || place.at.iter().any(|a| mentions_any(a, &self.free)) {
            return Ok(None);
        }
        let (Some(extent), Some(shift_by)) = (self.places.extent(), shift.as_constant()) else { return Ok(None) };
        let extent = extent.add_constant(shift_by.max(0))?;
        let at = place.at.iter().map(|a| self.pass.names.affine(a)).collect::<Checked<_>>()?;
        let index = self.pass.names.fresh_index();
        let place = Place { buffer: place.buffer, at };
        out.push(Stmt::Length { index, place, most: extent.clone() });
        let below = extent.sub(&index.into())?.add_constant(-1)?;
        let (coordinate, shift) = (index.into(), shift.scale(-1)?);
        Ok(Some(Told { coordinate, extent, shift, asked: Some(Cond::NonNegative(below)) }))
    }

    /// The number that selects what is added, and tells its place.
    fn selected(&mut self, stmt: &Stmt, out: &mut Vec<Stmt>) -> Result<Option<(RealId, Told)>> {
        let mut open = Vec::new();
        stmt.visit_reads(&mut |r| open.push(r));
        while let Some(r) = open.pop() {
            if let Some(Real::Select(selector, a)) = self.numbers.get(&r).cloned() {
                if let Some(told) = self.number(selector, out)? {
                    return Ok(Some((selector, told)));
                }
                open.push(a);
            }
        }
        Ok(None)
    }

    /// A search for an entry in a row of a matrix, of which row or entry are told by the place, and what is done where it is there: all of the
    /// entries of the other row, or of this one.
    fn found(&mut self, stmts: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        let j = self.places.index;
        let [Stmt::Find { index, segment, key: Some((_, key)), .. }, Stmt::If { cond: Cond::NonNegative(a), body }] =
            stmts
        else {
            return Ok(false);
        };
        let Some(view) = self.pass.view(segment).filter(|_| a.as_index() == Some(*index)) else { return Ok(false) };
        let free = &self.free;
        let told = match (mentions_any(&segment.at, free), mentions_any(key, free)) {
            (true, false) => unit(&segment.at)?,
            (false, true) => unit(key)?,
            _ => None,
        };
        let Some((_, shift)) = told.filter(|(i, _)| *i == j) else { return Ok(false) };
        let is_swapped = segment.at.mentions(j);
        let (at, [first, second]) =
            if is_swapped { (key, [view.axes[1], view.axes[0]]) } else { (&segment.at, view.axes) };
        let at = self.pass.names.affine(at)?;
        let through = View { relation: view.relation, axes: [first, second] };
        let (node, coordinate) = (self.pass.names.fresh_index(), self.pass.names.fresh_index());
        let mut inside = vec![self.pass.second(&through, node, coordinate)];
        let body = match is_swapped {
            true => self.entry(*index, &view, &through, node, body, &mut inside)?,
            false => {
                self.pass.names.keep(*index, node);
                Some(body.to_vec())
            }
        };
        let (Some(body), Some(extent)) = (body, self.pass.extent(&through)) else { return Ok(false) };
        let told = Told { coordinate: coordinate.into(), extent, shift: shift.scale(-1)?, asked: None };
        if !self.add(&told, None, &body, &mut inside)? {
            return Ok(false);
        }
        out.push(self.pass.row(&through, node, at, inside));
        Ok(true)
    }

    /// A loop over the row at the place whose entries are looked for in a row elsewhere: the entries of that one, and for each of them those of the
    /// first matrix.
    fn swapped(&mut self, stmt: &Stmt, out: &mut Vec<Stmt>) -> Result<bool> {
        let Stmt::For { index: k, domain: Domain::Segment(own), body, .. } = stmt else { return Ok(false) };
        let [
            Stmt::Let { index: n, array, at, .. },
            Stmt::Find { index: f, segment, key: Some((_, key)), .. },
            Stmt::If { cond: Cond::NonNegative(a), body },
        ] = body.as_slice()
        else {
            return Ok(false);
        };
        let (Some(view), Some(other)) = (self.pass.view(own), self.pass.view(segment)) else { return Ok(false) };
        let is_node = self.pass.arrays.get(*array).is_some_and(|array| array.part == Part::Nodes(1));
        let (Some((j, shift)), Some((sought, by))) = (unit(&own.at)?, unit(key)?) else { return Ok(false) };
        let elsewhere = [j, *k, *n];
        if j != self.places.index
            || !is_node
            || at.as_index() != Some(*k)
            || sought != *n
            || a.as_index() != Some(*f)
            || elsewhere.iter().chain(&self.free).any(|i| segment.at.mentions(*i))
        {
            return Ok(false);
        }
        let names = &mut self.pass.names;
        let at = names.affine(&segment.at)?;
        let [outer, second, node, coordinate] = [(); 4].map(|()| names.fresh_index());
        let row = Affine::index(second).sub(&by)?;
        names.keep(*f, outer);
        names.fix(*n, row.clone());
        let through = View { relation: view.relation, axes: [view.axes[1], view.axes[0]] };
        let mut inside = vec![self.pass.second(&through, node, coordinate)];
        let Some(body) = self.entry(*k, &view, &through, node, body, &mut inside)? else { return Ok(false) };
        let Some(extent) = self.pass.extent(&through) else { return Ok(false) };
        let told = Told { coordinate: coordinate.into(), extent, shift: shift.scale(-1)?, asked: None };
        if !self.add(&told, None, &body, &mut inside)? {
            return Ok(false);
        }
        let inside = vec![self.pass.second(&other, outer, second), self.pass.row(&through, node, row, inside)];
        out.push(self.pass.row(&other, outer, at, inside));
        Ok(true)
    }

    /// Statements in which the node of one view has the entry that the node of the other one has; nothing where they ask for more.
    fn entry(
        &mut self,
        index: IndexId,
        view: &View,
        through: &View,
        node: IndexId,
        body: &[Stmt],
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Vec<Stmt>>> {
        let is_stored = |pass: &Pass<'_>, view: &View| pass.signature.stored_order(view.relation) == view.axes;
        let entry = match is_stored(self.pass, through) {
            true => node,
            false => {
                let entry = self.pass.names.fresh_index();
                let array = self.pass.array(through, Part::Entries);
                out.push(Stmt::Let { index: entry, array, at: node.into(), step: None });
                entry
            }
        };
        if is_stored(self.pass, view) {
            self.pass.names.keep(index, entry);
            return Ok(Some(body.to_vec()));
        }
        let (asks, others): (Vec<&Stmt>, Vec<&Stmt>) = body.iter().partition(|stmt| match stmt {
            Stmt::Let { array, at, .. } => {
                let part = self.pass.arrays.get(*array).map(|array| array.part);
                at.as_index() == Some(index) && part == Some(Part::Entries)
            }
            _ => false,
        });
        for stmt in asks {
            stmt.defines().for_each(|i| self.pass.names.keep(i, entry));
        }
        let body: Vec<Stmt> = others.into_iter().cloned().collect();
        Ok((!mentioned(&body).contains(&index)).then_some(body))
    }

    /// Adds what a body adds for a place that is told, where `also` holds.
    fn add(&mut self, told: &Told, also: Option<&Cond>, body: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        let j = self.places.index;
        let (buffers, extent, shift) = match &self.made {
            Some(made) => made.clone(),
            None => {
                let buffers = self.pass.workspaces(self.places, self.before, self.sums.len(), &told.extent);
                self.made.insert((buffers, told.extent.clone(), told.shift.clone())).clone()
            }
        };
        if extent != told.extent || shift != told.shift {
            return Ok(false);
        }
        let needs = needed(&self.dependent, &[body], &also.into_iter().collect::<Vec<_>>());
        let mut tests = Vec::new();
        if !needs.is_empty() || mentioned(body).contains(&j) {
            let Some(bounds) = self.places.bounds() else { return Ok(false) };
            let own = self.before.tests.iter().filter(|cond| cond_varies(cond, &self.free, &self.varying));
            tests = bounds.into_iter().chain(own.cloned()).collect();
        }
        let needs = needed(&self.dependent, &[body], &tests.iter().chain(also).collect::<Vec<_>>());
        let locals = &self.before.locals;
        if reads_any(&[&needs, body], locals) || tests.iter().chain(also).any(|cond| asks_any(cond, locals)) {
            return Ok(false);
        }
        self.pass.names.fix(j, told.coordinate.add(&told.shift)?);
        let mut ranks = Vec::new();
        for rank in &self.before.ranks {
            let head = Stmt::one_by_one(rank.index, Domain::whole(&rank.extent)?, Vec::new());
            let Some(Stmt::For { index, domain, .. }) = self.head(&head)? else { return Ok(false) };
            ranks.push((index, domain));
        }
        let own: Vec<IndexId> = ranks.iter().map(|(i, _)| *i).collect();
        let place = |w: &BufferId| self.places.place(*w, told.coordinate.clone(), &own);
        let places: BTreeMap<RealId, Place> = self.sums.iter().copied().zip(buffers.iter().map(place)).collect();
        // What tells places is asked once for all ranks.
        let is_outside = |cond: &Cond| !self.before.ranks.iter().any(|rank| cond_mentions(cond, rank.index));
        let (outside, inside): (Vec<Cond>, Vec<Cond>) =
            tests.into_iter().partition(|cond| !asks_numbers(cond) && is_outside(cond));
        let mut told_once = Vec::new();
        let mut inner = needs;
        if let Some(Cond::Support(selector)) = also
            && !ranks.is_empty()
        {
            told_once = needed(&inner, &[], &[&Cond::Support(*selector)]);
            inner.retain(|stmt| !told_once.contains(stmt));
        }
        let mut first = self.pass.names.body(&told_once)?;
        let mut all = self.pass.names.body(&inner)?;
        let Some(terms) = self.pass.terms(body, &places)? else { return Ok(false) };
        let is_first = !told_once.is_empty();
        let beside = inside.into_iter().chain(also.filter(|_| !is_first).cloned()).collect();
        all.extend(self.pass.under(beside, None, terms)?);
        for (index, domain) in ranks.into_iter().rev() {
            all = vec![Stmt::one_by_one(index, domain, all)];
        }
        if is_first {
            all = self.pass.under(also.cloned().into_iter().collect(), None, all)?;
        }
        first.extend(all);
        let mut all = self.pass.under(outside, told.asked.as_ref(), first)?;
        if let Some(asked) = &told.asked {
            all = vec![Stmt::If { cond: asked.clone(), body: all }];
        }
        out.extend(all);
        Ok(true)
    }
}

impl Pass<'_> {
    /// The statements, under new names, that add to places what others add to registers; nothing where these do something else with them.
    // Loops and tests nest to a bounded depth.
    fn terms(&mut self, body: &[Stmt], places: &BTreeMap<RealId, Place>) -> Result<Option<Vec<Stmt>>> {
        let mut out = Vec::new();
        for stmt in body {
            let changed = stmt.changes().filter(|r| places.contains_key(r));
            let sum = match stmt {
                Stmt::Accumulate(_, a) => Some((*a, None)),
                Stmt::MulAdd(_, a, b) => Some((*a, Some(*b))),
                _ => None,
            };
            match (changed, sum) {
                (Some(r), Some((a, b))) => {
                    let (before, after) = (self.names.fresh_real(), self.names.fresh_real());
                    let a = self.names.read(a);
                    let sum = match b {
                        None => Real::Add(before, a),
                        Some(b) => Real::MulAdd(a, self.names.read(b), before),
                    };
                    let place = places[&r].clone();
                    out.push(Stmt::Define(before, Real::Load(place.clone())));
                    out.push(Stmt::Define(after, sum));
                    out.push(Stmt::Store(place, after));
                    continue;
                }
                (Some(_), None) => return Ok(None),
                (None, _) => {}
            }
            let inside: Vec<RealId> =
                changed_outside(std::slice::from_ref(stmt)).into_iter().filter(|r| places.contains_key(r)).collect();
            match stmt {
                Stmt::If { cond, body } if !inside.is_empty() => {
                    let Some(body) = self.terms(body, places)? else { return Ok(None) };
                    out.extend(self.under(vec![cond.clone()], None, body)?);
                }
                // What an inner loop adds is added when it is done.
                Stmt::For { .. } if !inside.is_empty() => {
                    if !only_sums(stmt.body()) {
                        return Ok(None);
                    }
                    for r in &inside {
                        let own = self.names.fresh_real();
                        out.push(Stmt::Local(own));
                        self.names.rename(*r, own);
                    }
                    out.extend(self.names.body(std::slice::from_ref(stmt))?);
                    for r in &inside {
                        let (before, after) = (self.names.fresh_real(), self.names.fresh_real());
                        out.push(Stmt::Define(before, Real::Load(places[r].clone())));
                        out.push(Stmt::Define(after, Real::Add(before, self.names.read(*r))));
                        out.push(Stmt::Store(places[r].clone(), after));
                    }
                }
                stmt => out.extend(self.names.body(std::slice::from_ref(stmt))?),
            }
        }
        Ok(Some(out))
    }

    /// Statements under tests that are renamed, but for those that always hold, and one that is asked anyway.
    fn under(&mut self, tests: Vec<Cond>, asked: Option<&Cond>, body: Vec<Stmt>) -> Result<Vec<Stmt>> {
        let test = self.names.body(&[Stmt::If { cond: Cond::All(tests), body: Vec::new() }])?;
        let Some(Stmt::If { cond: Cond::All(conds), .. }) = test.into_iter().next() else { return Ok(Vec::new()) };
        let holds = |cond: &Cond| asked == Some(cond) || matches!(cond, Cond::NonNegative(a) if is_positive(a));
        let open: Vec<Cond> = conds.into_iter().filter(|cond| !holds(cond)).collect();
        Ok(if open.is_empty() { body } else { vec![Stmt::If { cond: one(open), body }] })
    }

    fn workspaces(&mut self, places: &Places<'_>, before: &Before, count: usize, extent: &Size) -> Vec<BufferId> {
        let around = places.around.iter().map(|(_, n)| n);
        let dims: Vec<Size> =
            around.chain([extent]).chain(before.ranks.iter().map(|rank| &rank.extent)).cloned().collect();
        (0..count).map(|_| self.buffers.push(Buffer::workspace(self.name.clone(), None, dims.clone()))).collect()
    }

    /// The matrix of which a segment is a row.
    fn view(&self, segment: &Segment) -> Option<View> {
        let Array { relation, axes, part: Part::Rows } = self.arrays.get(segment.pointers)? else { return None };
        Some(View { relation: *relation, axes: axes.as_slice().try_into().ok()? })
    }

    /// How long the columns of a matrix are, as it is gone through.
    fn extent(&self, view: &View) -> Option<Size> {
        self.signature.relations.get(view.relation)?.shape.get(view.axes[1]).cloned()
    }

    fn array(&mut self, view: &View, part: Part) -> ArrayId {
        let array = Array { relation: view.relation, axes: view.axes.to_vec(), part };
        let known = self.arrays.iter().find(|(_, known)| **known == array).map(|(id, _)| id);
        known.unwrap_or_else(|| self.arrays.push(array))
    }

    /// The second coordinate of a node.
    fn second(&mut self, view: &View, node: IndexId, coordinate: IndexId) -> Stmt {
        let array = self.array(view, Part::Nodes(1));
        Stmt::Let { index: coordinate, array, at: node.into(), step: None }
    }

    /// A loop over a row.
    fn row(&mut self, view: &View, node: IndexId, at: Affine, body: Vec<Stmt>) -> Stmt {
        let pointers = self.array(view, Part::Rows);
        Stmt::one_by_one(node, Domain::Segment(Segment { pointers, at }), body)
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

fn visit_places(stmt: &mut Stmt, visit: &mut dyn FnMut(&mut Place)) {
    match stmt {
        Stmt::For { body, .. } | Stmt::If { body, .. } => body.iter_mut().for_each(|stmt| visit_places(stmt, visit)),
        Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) => visit(place),
        _ => {}
    }
}

/// All of some tests.
fn one(mut conds: Vec<Cond>) -> Cond {
    match conds.len() {
        1 => conds.remove(0),
        _ => Cond::All(conds),
    }
}

fn coefficient(a: &Affine, i: IndexId) -> i64 {
    a.terms().iter().find(|(v, _)| *v == Var::Index(i)).map_or(0, |(_, k)| *k)
}

fn is_of_sizes(a: &Affine) -> bool {
    a.terms().iter().all(|(v, _)| matches!(v, Var::Size(_)))
}

/// An index and what is added to it, over sizes.
fn unit(a: &Affine) -> Result<Option<(IndexId, Affine)>> {
    let index = a.terms().iter().find_map(|(v, k)| if let (Var::Index(i), 1) = (v, k) { Some(*i) } else { None });
    let Some(i) = index else { return Ok(None) };
    let rest = a.sub(&i.into())?;
    Ok(is_of_sizes(&rest).then_some((i, rest)))
}

/// Whether an expression is never negative since indices and sizes are not.
fn is_positive(a: &Affine) -> bool {
    a.offset() >= 0 && a.terms().iter().all(|(v, k)| *k >= 0 && !matches!(v, Var::Apply(_)))
}

/// Whether a number depends on some indices, or on one of those that do, which it then is.
fn varies(stmt: &Stmt, free: &BTreeSet<IndexId>, varying: &mut BTreeSet<RealId>) -> bool {
    let mut found = false;
    stmt.visit_affine(&mut |a| found |= mentions_any(a, free));
    stmt.visit_reads(&mut |r| found |= varying.contains(&r));
    if let (true, Stmt::Define(r, _)) = (found, stmt) {
        varying.insert(*r);
    }
    found
}

fn mentions_any(a: &Affine, free: &BTreeSet<IndexId>) -> bool {
    free.iter().any(|i| a.mentions(*i))
}

fn cond_varies(cond: &Cond, free: &BTreeSet<IndexId>, varying: &BTreeSet<RealId>) -> bool {
    asks_any(cond, varying) || free.iter().any(|i| cond_mentions(cond, *i))
}

fn cond_mentions(cond: &Cond, i: IndexId) -> bool {
    let mut found = false;
    cond.visit_affine(&mut |a| found |= a.mentions(i));
    found
}

fn asks_any(cond: &Cond, which: &BTreeSet<RealId>) -> bool {
    let mut found = false;
    cond.visit_reads(&mut |r| found |= which.contains(&r));
    found
}

fn asks_numbers(cond: &Cond) -> bool {
    let mut found = false;
    cond.visit_reads(&mut |_| found = true);
    found
}

fn reads_any(bodies: &[&[Stmt]], which: &BTreeSet<RealId>) -> bool {
    reads(bodies.iter().copied().flatten(), |r| which.contains(&r))
}

/// The numbers, of some in their order, that statements and tests need.
fn needed(numbers: &[Stmt], bodies: &[&[Stmt]], tests: &[&Cond]) -> Vec<Stmt> {
    let mut asked = BTreeSet::new();
    let mut note = |r: RealId| asked.extend([r]);
    bodies.iter().copied().flatten().for_each(|stmt| stmt.visit(&mut |stmt| stmt.visit_reads(&mut note)));
    tests.iter().for_each(|cond| cond.visit_reads(&mut note));
    let mut kept = Vec::new();
    for stmt in numbers.iter().rev() {
        if matches!(stmt, Stmt::Define(r, _) if asked.contains(r)) {
            stmt.visit_reads(&mut |r| asked.extend([r]));
            kept.push(stmt.clone());
        }
    }
    kept.reverse();
    kept
}

/// What the places of terms may depend on.
#[derive(Default)]
struct Tells {
    indices: BTreeSet<IndexId>,
    /// The registers that select terms.
    selectors: BTreeSet<RealId>,
}

impl Tells {
    // Loops and tests nest to a bounded depth.
    fn note(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Define(_, Real::Select(selector, _)) => self.selectors.extend([*selector]),
            Stmt::Define(..) | Stmt::Local(_) | Stmt::Store(..) => {}
            Stmt::If { cond, .. } => cond.visit_reads(&mut |r| self.selectors.extend([r])),
            _ => {}
        }
        match stmt {
            Stmt::Define(..) | Stmt::Store(..) => {}
            Stmt::For { domain, .. } => domain.visit_affine(&mut |a| self.mention(a)),
            Stmt::If { cond, .. } => cond.visit_affine(&mut |a| self.mention(a)),
            stmt if stmt.body().is_empty() => stmt.visit_affine(&mut |a| self.mention(a)),
            stmt => stmt.visit_indices(&mut |i| self.indices.extend([i])),
        }
        stmt.body().iter().for_each(|stmt| self.note(stmt));
    }

    fn mention(&mut self, a: &Affine) {
        a.visit(&mut |v| {
            if let Var::Index(i) = v {
                self.indices.insert(*i);
            }
        });
    }

    /// All indices, with those of the numbers that selectors are made of.
    fn indices<'a>(mut self, stmts: impl DoubleEndedIterator<Item = &'a Stmt>) -> BTreeSet<IndexId> {
        let mut numbers = Vec::new();
        stmts.for_each(|stmt| stmt.visit(&mut |stmt| numbers.extend(matches!(stmt, Stmt::Define(..)).then_some(stmt))));
        for stmt in numbers.into_iter().rev() {
            if matches!(stmt, Stmt::Define(r, _) if self.selectors.contains(r)) {
                stmt.visit_reads(&mut |r| self.selectors.extend([r]));
                stmt.visit_affine(&mut |a| self.mention(a));
            }
        }
        self.indices
    }
}

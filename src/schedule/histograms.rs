//! Sums of which each term knows its whole place are added up term by term, in the order of their sources.
//!
//! ```text
//! for i, j                                         w = 0
//!   s = 0                                          for p in sources
//!   for p in sources of i - c along m     ==         i = m(p) + c, j = n(p) + d
//!     if j = n(p) + d { s += e(p, i, j) }            w[i, j] += e(p, i, j)
//!   x[i, j] = f(s)                                 for i, j
//!                                                    x[i, j] = f(w[i, j])
//! ```
//!
//! The left side goes through all sources of `i` once for each `j`, and takes what belongs to a source from anywhere. The right side takes a step for
//! each source, in the order in which they lie. It is the generalised *histogram* (reduce by index) of Henriksen, Hellfritzsch, Sadayappan and Oancea
//! (2020). Gradients by grids that are read at the coordinates of points are such sums, one for each corner.
//!
//! - Loops around that tell no place but on which terms depend stay inside: `w[i, j, k] += e(p, i, j, k)`.
//! - Tests around a sum that mention its places are asked for each term, unless what a map says of its targets decides them. Where they fail there is
//!   nothing to read but zeros, so readers do not ask. Readers alone ask for numbers that are other such sums.
//! - Sums at the same place that are added, and read by nobody else, are one.
//! - What is nothing but such a sum is added up where it is stored.
//!
//! **Why it is right.** A source has one target, so the sources of all `i` are all sources, and each is that of one `i`. Of each place the same terms are
//! added, in the order of the sources on both sides; only sums that become one have another order. Terms take nothing that the nest writes.
//!
//! **What it refuses.** Sums that one coordinate tells, or none: see [`workspaces`](super::workspaces), and [`scatter`](super::scatter), which also cuts
//! what is here into parts. Terms of which an inner loop over anything but a whole axis is a place. A tensor of places that is larger than all tensors
//! there are.

use std::collections::{BTreeMap, BTreeSet};

use super::hold::compact;
use super::workspaces::{
    along_axis, asks_numbers, bounds, cond_mentions, cond_varies, mentions_any, needed, reads_any, terms, tested, unit,
    varies, visit_places,
};
use crate::base::{Arena, IndexId, RelationId};
use crate::error::Result;
use crate::index::{Affine, Pred, Size, Var};
use crate::loops::{
    Array, ArrayId, Buffer, BufferId, Cond, Decision, Domain, Fresh, Nest, Part, Place, Program, Real, RealId, Stmt,
    changed_outside, has_calls, loads, mentioned, predicate, reads, stores, title,
};
use crate::solver::Facts;
use crate::ty::{Precision, RelationKind, Signature};

/// How many axes are told at least.
const AXES: usize = 2;

/// Gives such sums tensors of their own.
pub(super) fn run(program: &mut Program) -> Result<()> {
    if !program.signature.relations.values().any(|relation| relation.kind == RelationKind::Map) {
        return Ok(());
    }
    let facts = program.signature.facts();
    let before = (program.arrays.len(), program.buffers.len());
    let mut nests = Vec::with_capacity(program.nests.len());
    for nest in std::mem::take(&mut program.nests) {
        let mut pass = Pass {
            signature: &program.signature,
            arrays: &mut program.arrays,
            buffers: &mut program.buffers,
            names: Fresh::after(&nest.body),
            facts: &facts,
            nest: &nest,
            made: BTreeMap::new(),
        };
        let mut body = nest.body.clone();
        pass.sums(&mut body, &Scope::default())?;
        if pass.made.is_empty() {
            nests.push(nest);
            continue;
        }
        pass.joined(&mut body)?;
        let copied = pass.in_place(&body);
        let Pass { made, .. } = pass;
        for (buffer, histogram) in made {
            nests.push(histogram.nest(buffer)?);
        }
        if !copied {
            nests.push(Nest { body: without_unread(body), ..nest });
        }
    }
    program.nests = nests;
    if before != (program.arrays.len(), program.buffers.len()) {
        compact(program);
    }
    Ok(())
}

/// Sums at the places of a tensor.
struct Histogram {
    /// How many sums.
    sums: usize,
    /// Numbers that are the same for all sources.
    shared: Vec<Stmt>,
    /// How many sources there are, and what each of them adds.
    terms: Vec<(Source, Vec<Stmt>)>,
}

/// A loop over all sources.
#[derive(Clone)]
struct Source {
    index: IndexId,
    extent: Size,
}

impl Histogram {
    fn nest(self, buffer: BufferId) -> Result<Nest> {
        let mut body = vec![Stmt::Fill(buffer)];
        body.extend(self.shared);
        let mut loops: Vec<(Source, Vec<Stmt>)> = Vec::new();
        for (source, term) in self.terms {
            match loops.iter_mut().find(|(known, _)| known.extent == source.extent) {
                Some((known, all)) => {
                    let mut names = Fresh::none(&term);
                    names.keep(source.index, known.index);
                    all.extend(names.body(&term)?);
                }
                None => loops.push((source, term)),
            }
        }
        for (source, term) in loops {
            body.push(Stmt::one_by_one(source.index, Domain::whole(&source.extent)?, term));
        }
        let body = Fresh::after(&[]).body(&body)?;
        Ok(Nest { buffers: vec![buffer], decisions: vec![Decision::Histogram { sums: self.sums }], body })
    }
}

/// A loop around over an axis.
#[derive(Clone)]
struct Axis {
    index: IndexId,
    domain: Domain,
    /// How many values there are at most.
    extent: Size,
}

impl Axis {
    fn of(index: IndexId, domain: &Domain) -> Option<Axis> {
        Some(Axis { index, domain: domain.clone(), extent: along_axis(domain)? })
    }
}

/// What is around a sum.
#[derive(Clone, Default)]
struct Scope {
    /// The loops over axes, from outside in.
    around: Vec<Axis>,
    /// Numbers, in order.
    numbers: Vec<Stmt>,
    tests: Vec<Cond>,
    /// Other indices and registers.
    indices: BTreeSet<IndexId>,
    locals: BTreeSet<RealId>,
}

struct Pass<'a> {
    signature: &'a Signature,
    arrays: &'a mut Arena<ArrayId, Array>,
    buffers: &'a mut Arena<BufferId, Buffer>,
    names: Fresh,
    facts: &'a Facts,
    nest: &'a Nest,
    made: BTreeMap<BufferId, Histogram>,
}

impl Pass<'_> {
    /// Takes sums out of statements.
    // Loops and tests nest to a bounded depth.
    fn sums(&mut self, body: &mut Vec<Stmt>, scope: &Scope) -> Result<()> {
        let mut scope = scope.clone();
        let mut at = 0;
        while at < body.len() {
            let read = match &mut body[at] {
                stmt @ Stmt::Define(..) => {
                    scope.numbers.push(stmt.clone());
                    None
                }
                Stmt::Local(r) => {
                    scope.locals.insert(*r);
                    None
                }
                Stmt::If { cond, body: inside } => {
                    let mut inner = scope.clone();
                    inner.tests.push(cond.clone());
                    self.sums(inside, &inner)?;
                    (!asks_numbers(cond)).then(|| self.untested(inside)).flatten()
                }
                stmt @ Stmt::For { domain: Domain::Segment(_), .. } => self.sum(stmt, &scope)?,
                Stmt::For { index, domain, lanes: 1, jam: 1, body: inside, .. } => {
                    if let Some(axis) = Axis::of(*index, domain) {
                        let mut inner = scope.clone();
                        inner.around.push(axis);
                        self.sums(inside, &inner)?;
                    }
                    None
                }
                stmt => {
                    scope.indices.extend(stmt.defines());
                    None
                }
            };
            match read {
                Some(read) => {
                    let count = read.len();
                    body.splice(at..=at, read);
                    at += count;
                }
                None => at += 1,
            }
        }
        Ok(())
    }

    /// What is done under a test, if it does nothing but to read sums, which are 0 where the test fails.
    fn untested(&self, inside: &[Stmt]) -> Option<Vec<Stmt>> {
        let mut own = BTreeSet::new();
        let mut out = Vec::with_capacity(inside.len());
        for stmt in inside {
            out.push(match stmt {
                Stmt::Define(r, Real::Load(place)) if self.made.contains_key(&place.buffer) => {
                    own.insert(*r);
                    stmt.clone()
                }
                Stmt::Local(r) => {
                    own.insert(*r);
                    stmt.clone()
                }
                Stmt::Define(..) => continue,
                Stmt::Assign(r, a) | Stmt::Accumulate(r, a) if own.contains(a) => Stmt::Accumulate(*r, *a),
                _ => return None,
            });
        }
        Some(out)
    }

    /// Has a sum over the sources of a map in a tensor of its own, and gives what reads it; nothing where terms do not know their places.
    fn sum(&mut self, stmt: &Stmt, scope: &Scope) -> Result<Option<Vec<Stmt>>> {
        let Stmt::For { index, domain: Domain::Segment(segment), lanes: 1, jam: 1, parallel: false, body } = stmt
        else {
            return Ok(None);
        };
        let Some(Array { relation, axes, part: Part::Rows }) = self.arrays.get(segment.pointers).cloned() else {
            return Ok(None);
        };
        let map = self.signature.relations.get(relation).filter(|map| map.kind == RelationKind::Map);
        let (Some(map), [1, 0], Some((first, shift))) = (map, axes.as_slice(), unit(&segment.at)?) else {
            return Ok(None);
        };
        let sums: Vec<RealId> = changed_outside(std::slice::from_ref(stmt)).into_iter().collect();
        let ([sum], [sources, targets]) = (sums.as_slice(), map.shape.as_slice()) else { return Ok(None) };
        let own = self.nest.buffers.as_slice();
        let is_own = |stmts: &[Stmt]| loads(stmts).iter().any(|place| own.contains(&place.buffer));
        if !scope.around.iter().any(|axis| axis.index == first)
            || mentioned([stmt]).iter().any(|i| scope.indices.contains(i))
            || scope.tests.iter().any(|cond| scope.indices.iter().any(|i| cond_mentions(cond, *i)))
            || is_own(std::slice::from_ref(stmt))
            || is_own(&scope.numbers)
            || reads(body, |r| r == *sum)
        {
            return Ok(None);
        }
        self.names.again();
        let mut free: BTreeSet<IndexId> = scope.around.iter().map(|axis| axis.index).collect();
        let mut varying = BTreeSet::new();
        let (dependent, fixed): (Vec<Stmt>, Vec<Stmt>) =
            scope.numbers.iter().cloned().partition(|number| varies(number, &free, &mut varying));
        let asked: Vec<&Cond> = scope.tests.iter().collect();
        let shared = self.names.body(&needed(&fixed, &[std::slice::from_ref(stmt), &dependent], &asked))?;

        let (source, target) = (self.names.fresh_index(), self.names.fresh_index());
        let body = self.of_source(body, (*index, relation), source);
        let mut facts = self.facts.clone();
        facts.range(source, sources);
        facts.range(target, targets);
        let array = self.arrays.find_or_push(Array { relation, axes: vec![0, 1], part: Part::Nodes(1) });
        let mut out = vec![Stmt::Let { index: target, array, at: source.into(), step: None }];
        self.names.fix(first, Affine::index(target).sub(&shift)?);
        free.remove(&first);
        let mut term = Term {
            pass: self,
            scope,
            sum: *sum,
            told: BTreeSet::from([first]),
            free,
            coordinates: BTreeMap::new(),
            dependent,
            varying,
            facts,
            made: None,
        };
        if !term.stmts(&body, &mut out)? || mentioned(&out).contains(index) {
            return Ok(None);
        }
        let Some((buffer, at)) = term.made else { return Ok(None) };
        let source = Source { index: source, extent: sources.clone() };
        self.made.insert(buffer, Histogram { sums: 1, shared, terms: vec![(source, out)] });
        let x = self.names.fresh_real();
        let place = Place { buffer, at: at.into_iter().map(Affine::index).collect() };
        Ok(Some(vec![Stmt::Define(x, Real::Load(place)), Stmt::Accumulate(*sum, x)]))
    }

    /// What is done for a node of the sources of a target, without what only says which source it is.
    // Loops and tests nest to a bounded depth.
    fn of_source(&mut self, body: &[Stmt], (node, map): (IndexId, RelationId), source: IndexId) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            let mut stmt = stmt.clone();
            match &mut stmt {
                Stmt::Let { index, array, at, .. } if at.as_index() == Some(node) => {
                    let is_source = self.arrays.get(*array).is_some_and(|array| {
                        let is_view = array.relation == map && array.axes == [1, 0];
                        is_view && matches!(array.part, Part::Nodes(1) | Part::Entries)
                    });
                    if is_source {
                        self.names.keep(*index, source);
                        continue;
                    }
                }
                Stmt::For { body, .. } | Stmt::If { body, .. } => *body = self.of_source(body, (node, map), source),
                _ => {}
            }
            out.push(stmt);
        }
        out
    }

    /// How many values the coordinates of an array may have.
    fn extent(&self, array: ArrayId) -> Option<&Size> {
        self.arrays.get(array)?.extent(self.signature)
    }

    /// Whether there is a tensor as large as one with such axes, but for constants.
    fn has_room(&self, dims: &[Size]) -> bool {
        self.buffers.values().any(|buffer| {
            let mut left: Vec<&Size> = buffer.dims.iter().collect();
            dims.iter().filter(|n| n.as_constant().is_none()).all(|n| {
                let is_same = |m: &&Size| n.sub(m).is_ok_and(|rest| rest.as_constant().is_some());
                left.iter().position(is_same).map(|at| left.remove(at)).is_some()
            })
        })
    }
}

/// What a source adds.
struct Term<'p, 'a> {
    pass: &'p mut Pass<'a>,
    scope: &'p Scope,
    sum: RealId,
    /// The indices of loops around that are told, and those that are not.
    told: BTreeSet<IndexId>,
    free: BTreeSet<IndexId>,
    /// What maps say, by index.
    coordinates: BTreeMap<IndexId, ArrayId>,
    /// The numbers that depend on the loops around, and which those are.
    dependent: Vec<Stmt>,
    varying: BTreeSet<RealId>,
    /// What is known, in the new names.
    facts: Facts,
    /// The tensor of sums, and the loops around that are its axes.
    made: Option<(BufferId, Vec<IndexId>)>,
}

impl Term<'_, '_> {
    /// Statements under new names, for the place that they tell; whether they add to it and do nothing else.
    // Loops and tests nest to a bounded depth.
    fn stmts(&mut self, stmts: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        for (at, stmt) in stmts.iter().enumerate() {
            if !self.tells(&stmts[at..]) {
                return self.add(&stmts[at..], out);
            }
            let is_last = at + 1 == stmts.len();
            match stmt {
                Stmt::Define(..) if varies(stmt, &self.scope_indices(), &mut self.varying) => {
                    self.dependent.push(stmt.clone());
                }
                Stmt::Define(..) | Stmt::Local(_) => self.again(stmt, out)?,
                Stmt::Let { index, array, at, .. } if !mentions_any(at, &self.free) => {
                    self.coordinates.insert(*index, *array);
                    self.again(stmt, out)?;
                    let index = self.pass.names.index(*index);
                    if let Some(extent) = self.pass.extent(*array) {
                        self.facts.range(index, extent);
                    }
                }
                Stmt::If { cond, body } if is_last => {
                    let told = if let Cond::Zero(a) = cond { self.equation(a)? } else { None };
                    if let Some((i, place)) = told {
                        self.pass.names.fix(i, place);
                        self.told.insert(i);
                        self.free.remove(&i);
                        return self.stmts(body, out);
                    }
                    if cond_varies(cond, &self.free, &self.varying) {
                        return Ok(false);
                    }
                    let Some(Stmt::If { cond, .. }) = self.head(&Stmt::If { cond: cond.clone(), body: Vec::new() })?
                    else {
                        return Ok(false);
                    };
                    self.facts = predicate::under(&self.facts, &cond)?;
                    let mut inside = Vec::new();
                    let done = self.stmts(body, &mut inside)?;
                    out.push(Stmt::If { cond, body: inside });
                    return Ok(done);
                }
                Stmt::For { index, domain, lanes: 1, jam: 1, parallel: false, body } if is_last => {
                    let mut mentions = false;
                    domain.visit_affine(&mut |a| mentions |= mentions_any(a, &self.free));
                    let head = self.head(&Stmt::one_by_one(*index, domain.clone(), Vec::new()))?;
                    let (Some(Stmt::For { index, domain, .. }), false) = (head, mentions) else { return Ok(false) };
                    predicate::assume(&mut self.facts, index, &domain)?;
                    let mut inside = Vec::new();
                    let done = self.stmts(body, &mut inside)?;
                    out.push(Stmt::one_by_one(index, domain, inside));
                    return Ok(done);
                }
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn scope_indices(&self) -> BTreeSet<IndexId> {
        self.scope.around.iter().map(|axis| axis.index).collect()
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

    /// Whether there is an equation that may tell an index.
    fn tells(&self, stmts: &[Stmt]) -> bool {
        let mut found = false;
        let mut ask = |stmt: &Stmt| {
            if let Stmt::If { cond: Cond::Zero(a), .. } = stmt {
                let others = a.terms().iter().any(|(v, _)| matches!(v, Var::Index(i) if !self.free.contains(i)));
                found |= others && mentions_any(a, &self.free);
            }
        };
        stmts.iter().for_each(|stmt| stmt.visit(&mut ask));
        found
    }

    /// `a = 0` says that an index is the target of a map and a constant.
    fn equation(&self, a: &Affine) -> Result<Option<(IndexId, Affine)>> {
        let unknown: Vec<IndexId> = self.free.iter().copied().filter(|i| a.mentions(*i)).collect();
        let [i] = unknown.as_slice() else { return Ok(None) };
        let value = match a.coefficient(&Var::Index(*i)) {
            1 => Affine::index(*i).sub(a)?,
            -1 => Affine::index(*i).add(a)?,
            _ => return Ok(None),
        };
        let Some((t, _)) = unit(&value)?.filter(|(t, _)| self.coordinates.contains_key(t)) else { return Ok(None) };
        let is_axis = self.coordinates.get(&t).is_some_and(|array| self.pass.extent(*array).is_some());
        Ok(if is_axis { Some((*i, self.pass.names.affine(&value)?)) } else { None })
    }

    /// Adds to the place that was told what a body adds.
    fn add(&mut self, body: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        let is_sum = changed_outside(body).iter().all(|r| *r == self.sum) && stores(body).is_empty();
        if self.told.len() < AXES || !is_sum {
            return Ok(false);
        }
        let own = |r: RealId| self.scope.locals.contains(&r);
        let mut tests: Vec<Cond> = self.scope.tests.iter().map(|test| without(test, &own)).collect();
        for axis in self.scope.around.iter().filter(|axis| self.told.contains(&axis.index)) {
            let Some(bounds) = bounds(axis.index, &axis.domain) else { return Ok(false) };
            tests.extend(bounds);
        }
        let needs = needed(&self.dependent, &[body], &tests.iter().collect::<Vec<_>>());
        if has_calls(&needs)
            || reads_any(&[&needs, body], &self.scope.locals.iter().copied().filter(|r| *r != self.sum).collect())
        {
            return Ok(false);
        }
        let asked = vec![Stmt::If { cond: Cond::All(tests.clone()), body: Vec::new() }];
        let all = mentioned(needs.iter().chain(body).chain(&asked));
        let used: Vec<&Axis> = self
            .scope
            .around
            .iter()
            .filter(|axis| self.told.contains(&axis.index) || all.contains(&axis.index))
            .collect();
        let ranks: Vec<&Axis> = used.iter().copied().filter(|axis| !self.told.contains(&axis.index)).collect();
        let dims: Vec<Size> = used.iter().map(|axis| axis.extent.clone()).collect();
        if ranks.iter().any(|axis| axis.domain.whole_extent().is_none()) || !self.pass.has_room(&dims) {
            return Ok(false);
        }
        let mut loops = Vec::new();
        for axis in &ranks {
            let head = Stmt::one_by_one(axis.index, axis.domain.clone(), Vec::new());
            let Some(Stmt::For { index, domain, .. }) = self.head(&head)? else { return Ok(false) };
            self.facts.range(index, &axis.extent);
            loops.push((index, domain));
        }
        let name = format!("{}_sum", title(self.pass.buffers, self.pass.nest));
        let buffer = self.pass.buffers.push(Buffer::workspace(name, None, dims));
        let at = used.iter().map(|axis| self.pass.names.affine(&axis.index.into()));
        let place = Place { buffer, at: at.collect::<crate::index::Checked<_>>()? };
        let numbers = self.pass.names.body(&needs)?;
        let Some(added) = terms(&mut self.pass.names, body, &BTreeMap::from([(self.sum, place)]))? else {
            return Ok(false);
        };
        let Some(Stmt::If { cond: Cond::All(conds), .. }) = self.head(&asked[0])? else { return Ok(false) };
        let (mut first, mut inside, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for cond in conds {
            let says = predicate::says(&cond)?;
            if asks_numbers(&cond) {
                last.push(cond);
            } else if says.is_some_and(|p: Pred| self.facts.proves(&p)) {
            } else if loops.iter().any(|(i, _)| cond_mentions(&cond, *i)) {
                inside.push(cond);
            } else {
                first.push(cond);
            }
        }
        let mut all = numbers;
        all.extend(tested(last, added));
        all = tested(inside, all);
        for (index, domain) in loops.into_iter().rev() {
            all = vec![Stmt::one_by_one(index, domain, all)];
        }
        out.extend(tested(first, all));
        self.made = Some((buffer, used.iter().map(|axis| axis.index).collect()));
        Ok(true)
    }
}

impl Pass<'_> {
    /// Sums that are read into a register are that register, and such sums at one place that are added are one.
    // Loops and tests nest to a bounded depth.
    fn joined(&mut self, body: &mut Vec<Stmt>) -> Result<()> {
        let mut changes: BTreeMap<RealId, usize> = BTreeMap::new();
        for stmt in body.iter_mut() {
            if let Stmt::For { body, .. } | Stmt::If { body, .. } = stmt {
                self.joined(body)?;
            }
            stmt.visit(&mut |stmt| {
                if let Some(r) = stmt.changes() {
                    *changes.entry(r).or_default() += 1;
                }
            });
        }
        let mut names = Fresh::none(body);
        let mut read: BTreeSet<RealId> = BTreeSet::new();
        let mut locals: BTreeSet<RealId> = BTreeSet::new();
        let mut known: BTreeSet<RealId> = BTreeSet::new();
        body.retain(|stmt| match stmt {
            Stmt::Define(r, Real::Load(place)) if self.made.contains_key(&place.buffer) => read.insert(*r),
            Stmt::Local(r) if changes.get(r) == Some(&1) => locals.insert(*r),
            Stmt::Accumulate(r, x) if locals.contains(r) && read.contains(&names.read(*x)) => {
                names.alias(*r, *x);
                known.insert(*r);
                false
            }
            _ => true,
        });
        body.retain(|stmt| !matches!(stmt, Stmt::Local(r) if known.contains(r)));
        *body = names.body(body)?;
        self.added(body);
        Ok(())
    }

    /// Makes one of sums that are added.
    fn added(&mut self, body: &mut Vec<Stmt>) {
        let mut uses: BTreeMap<RealId, usize> = BTreeMap::new();
        body.iter()
            .for_each(|stmt| stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| *uses.entry(r).or_default() += 1)));
        let mut read: BTreeMap<RealId, Place> = BTreeMap::new();
        let mut gone: BTreeSet<RealId> = BTreeSet::new();
        for stmt in body.iter_mut() {
            let Stmt::Define(z, real) = stmt else { continue };
            match real {
                Real::Load(place) if self.made.contains_key(&place.buffer) && uses.get(z) == Some(&1) => {
                    read.insert(*z, place.clone());
                }
                Real::Add(x, y) => {
                    let (x, y) = (*x, *y);
                    let (Some(a), Some(b)) = (read.get(&x), read.get(&y)) else { continue };
                    let dims = |place: &Place| self.buffers.get(place.buffer).map(|buffer| buffer.dims.clone());
                    if a.buffer == b.buffer || a.at != b.at || dims(a) != dims(b) {
                        continue;
                    }
                    let (a, b) = (a.clone(), b.buffer);
                    if let Some(Histogram { sums, shared, terms }) = self.made.remove(&b)
                        && let Some(all) = self.made.get_mut(&a.buffer)
                    {
                        all.sums += sums;
                        all.shared.extend(shared);
                        let into = |place: &mut Place| {
                            if place.buffer == b {
                                place.buffer = a.buffer;
                            }
                        };
                        all.terms.extend(terms.into_iter().map(|(source, mut term)| {
                            term.iter_mut().for_each(|stmt| visit_places(stmt, &mut |place| into(place)));
                            (source, term)
                        }));
                    }
                    gone.extend([x, y]);
                    *real = Real::Load(a.clone());
                    if uses.get(z) == Some(&1) {
                        read.insert(*z, a);
                    }
                }
                _ => {}
            }
        }
        body.retain(|stmt| !matches!(stmt, Stmt::Define(r, _) if gone.contains(r)));
    }

    /// Whether a nest does nothing any more but to copy such sums, which then are added up where it copies them to.
    fn in_place(&mut self, body: &[Stmt]) -> bool {
        let body = without_unread(body.to_vec());
        let (mut loops, mut inner) = (Vec::new(), body.as_slice());
        while let [Stmt::For { index, domain, body, .. }] = inner {
            loops.extend(domain.whole_extent().map(|n| (*index, n)));
            inner = body;
        }
        let [Stmt::Define(x, Real::Load(from)), Stmt::Store(to, stored)] = inner else { return false };
        let (Some(row), Some(buffer)) = (self.buffers.get(from.buffer), self.buffers.get(to.buffer)) else {
            return false;
        };
        let axis = |a: &Affine| from.at.iter().position(|b| a == b);
        let axes: Option<Vec<usize>> = to.at.iter().map(axis).collect();
        let Some(axes) = axes.filter(|axes| axes.iter().collect::<BTreeSet<_>>().len() == from.at.len()) else {
            return false;
        };
        let is_whole = axes.iter().zip(&buffer.dims).all(|(k, n)| {
            let own = from.at[*k].as_index();
            row.dims.get(*k) == Some(n) && loops.iter().any(|(i, m)| Some(*i) == own && m == n)
        });
        let is_all = x == stored && is_whole && loops.len() == axes.len() && buffer.dims.len() == axes.len();
        if !is_all
            || buffer.entries.is_some()
            || buffer.precision != Precision::Double
            || self.nest.buffers != [to.buffer]
        {
            return false;
        }
        let Some(mut histogram) = self.made.remove(&from.buffer) else { return false };
        let mut put = |place: &mut Place| {
            if place.buffer == from.buffer {
                let at = axes.iter().filter_map(|k| place.at.get(*k).cloned()).collect();
                *place = Place { buffer: to.buffer, at };
            }
        };
        histogram.terms.iter_mut().flat_map(|(_, term)| term).for_each(|stmt| visit_places(stmt, &mut put));
        self.made.insert(to.buffer, histogram);
        true
    }
}

/// A test without what it asks of some numbers: it holds wherever the test does.
fn without(test: &Cond, numbers: &dyn Fn(RealId) -> bool) -> Cond {
    let all = |tests: &[Cond]| tests.iter().map(|test| without(test, numbers)).collect::<Vec<_>>();
    let always = Cond::All(Vec::new());
    match test {
        Cond::Support(r) | Cond::NoSupport(r) if numbers(*r) => always,
        Cond::All(tests) => Cond::All(all(tests).into_iter().filter(|test| *test != always).collect()),
        Cond::Any(tests) => {
            let any = all(tests);
            if any.contains(&always) { always } else { Cond::Any(any) }
        }
        test => test.clone(),
    }
}

/// A body without numbers that nobody reads.
fn without_unread(mut body: Vec<Stmt>) -> Vec<Stmt> {
    fn keep(body: &mut Vec<Stmt>, asked: &mut BTreeSet<RealId>) {
        for at in (0..body.len()).rev() {
            if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut body[at] {
                keep(body, asked);
            }
            match &body[at] {
                Stmt::Define(r, _) if !asked.contains(r) => drop(body.remove(at)),
                stmt => stmt.visit_reads(&mut |r| asked.extend([r])),
            }
        }
    }
    keep(&mut body, &mut BTreeSet::new());
    body
}

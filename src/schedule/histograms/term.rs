//! What a source adds, and where: its coordinates say it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::workspaces::{
    asks_any, asks_numbers, bounds, cond_mentions, cond_varies, mentions_any, needed, reads_any, terms, tested, unit,
    varies,
};
use super::{Axis, MAX_BESIDE, Pass, Scope};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Pred, Size, Var};
use crate::loops::{
    ArrayId, Buffer, BufferId, Cond, Domain, Place, RangeEnd, RealId, Stmt, changed_outside, has_calls, mentioned,
    predicate, stores, title,
};
use crate::solver::Facts;

/// How many axes are told at least.
const AXES: usize = 2;

/// What a source adds.
pub(super) struct Term<'p, 'a> {
    pub pass: &'p mut Pass<'a>,
    pub scope: &'p Scope,
    pub sum: RealId,
    /// The indices of loops around that are told, and those that are not.
    pub told: BTreeSet<IndexId>,
    pub free: BTreeSet<IndexId>,
    /// What maps say, by index.
    pub coordinates: BTreeMap<IndexId, ArrayId>,
    /// The numbers that depend on the loops around, and which those are.
    pub dependent: Vec<Stmt>,
    pub varying: BTreeSet<RealId>,
    /// What is known, in the new names.
    pub facts: Facts,
    /// The bounds that tests around give for indices that are not told yet.
    pub bounds: Vec<(IndexId, RangeEnd, Affine)>,
    /// The tensor of sums, and the loops around that are its axes.
    pub made: Option<(BufferId, Vec<IndexId>)>,
}

impl Term<'_, '_> {
    /// Statements under new names, for the place that they tell; whether they add to it and do nothing else.
    // Loops and tests nest to a bounded depth.
    pub fn stmts(&mut self, stmts: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
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
                    let told = if let Cond::Zero(a) = cond { self.near_target(a)? } else { None };
                    if let Some((i, place)) = told {
                        let place = self.pass.names.affine(&place)?;
                        self.tell(i, place);
                        return self.stmts(body, out);
                    }
                    if let Cond::NonNegative(a) = cond
                        && let Some((i, end, bound)) = self.bound(a)?
                    {
                        self.bounds.push((i, end, bound));
                        let Some((first, extent)) = self.window(i)? else { return self.stmts(body, out) };
                        self.bounds.retain(|(j, ..)| *j != i);
                        let offset = self.pass.names.fresh_index();
                        self.facts.range(offset, &extent);
                        let place = self.pass.names.affine(&first)?.add(&offset.into())?;
                        self.tell(i, place);
                        let mut inside = Vec::new();
                        let done = self.stmts(body, &mut inside)?;
                        out.push(Stmt::one_by_one(offset, Domain::whole(&extent)?, inside));
                        return Ok(done);
                    }
                    if cond_varies(cond, &self.free, &self.varying) || asks_any(cond, &self.scope.locals) {
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

    /// An index of a loop around has a place, in the new names.
    fn tell(&mut self, i: IndexId, place: Affine) {
        self.pass.names.fix(i, place);
        self.told.insert(i);
        self.free.remove(&i);
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

    /// Whether there is an equation that may tell an index, or two bounds that may.
    fn tells(&self, stmts: &[Stmt]) -> bool {
        let mut found = false;
        let mut ends: BTreeSet<(IndexId, RangeEnd)> = self.bounds.iter().map(|(i, end, _)| (*i, *end)).collect();
        let mut ask = |stmt: &Stmt| {
            let Stmt::If { cond: Cond::Zero(a) | Cond::NonNegative(a), .. } = stmt else { return };
            let Some((i, end)) = self.only_free(a) else { return };
            let is_equation = matches!(stmt, Stmt::If { cond: Cond::Zero(_), .. });
            found |= is_equation || ends.contains(&(i, end.other()));
            ends.insert((i, end));
        };
        stmts.iter().for_each(|stmt| stmt.visit(&mut ask));
        found
    }

    /// The only index that is not told, where others are mentioned, and the end of its range that `0 <= a` gives.
    fn only_free(&self, a: &Affine) -> Option<(IndexId, RangeEnd)> {
        let (mut free, mut others) = (None, false);
        for (v, k) in a.terms() {
            match v {
                Var::Index(i) if self.free.contains(i) && free.is_none() => free = Some((*i, *k)),
                Var::Index(i) if self.free.contains(i) => return None,
                Var::Index(_) => others = true,
                _ => {}
            }
        }
        free.filter(|_| others).map(|(i, k)| (i, if k > 0 { RangeEnd::Lower } else { RangeEnd::Upper }))
    }

    /// What `0 <= a` says of the only index that is not told: a bound at a distance from a target.
    fn bound(&self, a: &Affine) -> Result<Option<(IndexId, RangeEnd, Affine)>> {
        let Some((_, end)) = self.only_free(a) else { return Ok(None) };
        Ok(self.near_target(a)?.map(|(i, value)| (i, end, value)))
    }

    /// The first of the places beside each other that two bounds leave for an index, and how many there are, where these are few.
    fn window(&self, i: IndexId) -> Result<Option<(Affine, Size)>> {
        let of = |end: RangeEnd| {
            let mut own = self.bounds.iter().filter(move |(j, own, _)| *j == i && *own == end).map(|(.., a)| a);
            own.next().filter(|_| own.next().is_none())
        };
        let (Some(low), Some(high)) = (of(RangeEnd::Lower), of(RangeEnd::Upper)) else { return Ok(None) };
        let extent = high.sub(low)?.add_constant(1)?;
        let is_few = extent.as_constant().is_some_and(|n| (1..=MAX_BESIDE).contains(&n));
        Ok(is_few.then(|| (low.clone(), extent)))
    }

    /// `a = 0` says that the only index that is not told is the target of a map and a constant.
    fn near_target(&self, a: &Affine) -> Result<Option<(IndexId, Affine)>> {
        let unknown: Vec<IndexId> = self.free.iter().copied().filter(|i| a.mentions(*i)).collect();
        let [i] = unknown.as_slice() else { return Ok(None) };
        let Some(value) = a.root(*i) else { return Ok(None) };
        let Some((t, _)) = unit(&value)? else { return Ok(None) };
        let is_target = self.coordinates.get(&t).is_some_and(|array| self.pass.extent(*array).is_some());
        Ok(is_target.then_some((*i, value)))
    }

    /// Adds to the place that was told what a body adds.
    fn add(&mut self, body: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        let is_sum = changed_outside(body).iter().all(|r| *r == self.sum) && stores(body).is_empty();
        if self.told.len() < AXES || !is_sum || !self.bounds.is_empty() {
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

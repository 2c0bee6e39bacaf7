//! Sums over all places up to an index, or from it on, become running sums.
//!
//! ```text
//! for i in 0 .. n - 1                  for i in 0 .. n - 1              for i in 0 .. n - 1
//!   local r                              local r                          local r
//!   for j in 0 .. i                      for j in 0 .. i                  r += sums[i - 1]                     but for i = 0
//!     r += e(j)               ==           r += e(j)             ==       r += e(i)
//!   .. r ..                              sums[i] = r                      sums[i] = r
//!                                      for i in 0 .. n - 1              for i in 0 .. n - 1
//!                                        .. sums[i] ..                    .. sums[i] ..
//! ```
//!
//! Cumulative sums, those at risk in a survival model, and the derivatives of both: what takes `n^2 / 2` additions takes `n`. A sum `j in i .. n - 1`
//! runs from the end. (Gautam and Rajopadhye, "Simplifying reductions", 2006, of which this is the case of one index.)
//!
//! The first step, `growing-sums`, comes early: what reads the sums is scheduled as what it is then, a loop over elements, and nothing
//! [joins](super::fuse) the loops of the sums. The second, `prefix-sums`, comes late, since a loop that goes on from its last iteration is nothing that
//! other passes should have to think of.
//!
//! **Why it is right.** The places of `i` are those of `i - 1` and `i + c`. Sums from the front are added in the order of before, but in one sum in place of
//! lanes.
//!
//! **Where it is done.** One end of the loop over `j` is the index of a loop around, over a whole axis, plus a number, and the first such sum has one
//! place at most; what is summed mentions indices of such loops alone, not this one, and nothing that the same nest writes. A window `i - w .. i`, of
//! which both ends move, stays: to subtract what leaves it would lose digits. Short axes stay, too. There is a running sum for each place of the other
//! loops whose indices are mentioned. Sums that are asked for where a number is not zero are computed everywhere.

use std::collections::BTreeSet;

use super::scatter::replace;
use super::vectorise::is_short;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Checked, Pred};
use crate::loops::{
    Bound, Buffer, BufferId, Cond, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, changed,
    declared, defined, loads, mentioned, outer_sums, reads, stored, title,
};
use crate::solver::Facts;

/// Gives sums up to an index, or from it on, nests of their own.
pub(super) fn apart(program: &mut Program) -> Result<()> {
    let Program { buffers, nests, .. } = program;
    let mut all = Vec::with_capacity(nests.len());
    for mut nest in std::mem::take(nests) {
        while let Some(sum) = Growing::of(&nest).filter(|sum| sum.stores(&nest).is_none()) {
            all.push(sum.apart(&mut nest, buffers)?);
        }
        all.push(nest);
    }
    *nests = all;
    Ok(())
}

/// Makes running sums of those that have nests of their own.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        if let Some(sum) = Growing::of(nest)
            && let Some(stores) = sum.stores(nest)
        {
            nest.body = sum.running(&stores)?;
            nest.decisions.push(Decision::RunningSums {});
        }
    }
    Ok(())
}

/// Whether a nest computes growing sums and nothing else.
pub(super) fn is_apart(nest: &Nest) -> bool {
    Growing::of(nest).is_some_and(|sum| sum.stores(nest).is_some())
}

/// A loop around a sum.
#[derive(Clone)]
struct Around {
    index: IndexId,
    /// How many values it has.
    extent: Affine,
    lanes: u32,
    parallel: bool,
}

/// The indices of the loops around a statement, with the loops that are over a whole axis.
type Path = Vec<(IndexId, Option<Around>)>;

/// Sums that grow with an index.
struct Growing {
    /// Where the loop is.
    path: Vec<usize>,
    /// The loops around whose indices what is summed mentions, and that of the growing index, which is at this place among them.
    around: Vec<Around>,
    at: usize,
    /// The numbers from outside that it needs.
    needs: Vec<Stmt>,
    /// The loop.
    j: IndexId,
    /// What `j` is at the place that a step adds, less the growing index.
    shift: i64,
    /// Whether the sums run from the end.
    down: bool,
    /// The steps `t` for which there is a place to add are those with `0 <= t + left`; all where there is none.
    left: Option<Affine>,
    body: Vec<Stmt>,
    sums: Vec<RealId>,
}

/// The first growing sum of a body, inside of these loops, behind these statements of those bodies.
fn find<'a>(body: &'a [Stmt], around: &mut Path, before: &mut Vec<&'a Stmt>, nest: &Nest) -> Option<Growing> {
    let known = before.len();
    for (at, stmt) in body.iter().enumerate() {
        let found = match stmt {
            Stmt::For { index, domain, lanes, parallel, body: inside, .. } => growing(stmt, body, around, before, nest)
                .or_else(|| {
                    let over = |extent| Around { index: *index, extent, lanes: *lanes, parallel: *parallel };
                    around.push((*index, whole(domain).map(over)));
                    let found = find(inside, around, before, nest);
                    around.pop();
                    found
                }),
            // Places are the same whether the number is zero or not.
            Stmt::If { cond: Cond::Support(_) | Cond::NoSupport(_), body: inside } => {
                find(inside, around, before, nest)
            }
            _ => None,
        };
        if let Some(mut found) = found {
            found.path.insert(0, at);
            before.truncate(known);
            return Some(found);
        }
        before.push(stmt);
    }
    before.truncate(known);
    None
}

/// The length of an axis, where a domain is all of it or a part.
pub(super) fn whole(domain: &Domain) -> Option<Affine> {
    let Domain::Range { lower, upper } = domain.whole_of() else { return None };
    let ([lower], [upper]) = (lower.as_slice(), upper.as_slice()) else { return None };
    let exact = lower.divisor == 1 && upper.divisor == 1 && lower.numerator.as_constant() == Some(0);
    (exact && upper.numerator.is_size()).then(|| upper.numerator.add_constant(1).ok()).flatten()
}

/// A loop as growing sums, if it is that.
fn growing(stmt: &Stmt, beside: &[Stmt], around: &Path, before: &[&Stmt], nest: &Nest) -> Option<Growing> {
    let facts = Facts::new();
    let Stmt::For { index: j, domain: Domain::Range { lower, upper }, body, .. } = stmt else { return None };
    let mut moving = around.iter().filter_map(|(index, over)| {
        let moves = |bounds: &[Bound]| bounds.iter().any(|bound| bound.numerator.mentions(*index));
        (moves(lower) || moves(upper)).then_some((over, moves(lower), moves(upper)))
    });
    let (Some((Some(i), down, up)), None) = (moving.next(), moving.next()) else { return None };
    let extent = &i.extent;
    let (ends, others) = if up { (upper, lower) } else { (lower, upper) };
    if up == down || is_short(&Domain::whole(extent).ok()?) {
        return None;
    }
    let [other] = others.as_slice() else { return None };
    let mut moving = ends.iter().filter(|bound| bound.numerator.mentions(i.index));
    let (Some(end), None) = (moving.next(), moving.next()) else { return None };
    let shift = end.numerator.sub(&Affine::index(i.index)).ok()?.as_constant()?;
    let last = extent.add_constant(shift.checked_sub(1)?).ok()?;
    // Another end of the same kind must say nothing.
    let idle = |bound: &Bound| {
        let beyond = if up { bound.numerator.sub(&last) } else { Affine::constant(shift).sub(&bound.numerator) };
        bound.divisor == 1 && beyond.is_ok_and(|a| facts.proves(&Pred::non_negative(a)))
    };
    if !ends.iter().all(|bound| bound == end || idle(bound)) {
        return None;
    }
    if end.divisor != 1 || other.divisor != 1 || !other.numerator.is_size() {
        return None;
    }
    // The first sum has at most the place that its step adds.
    let first = if up { Affine::constant(shift) } else { last };
    let beyond = if up { other.numerator.sub(&first) } else { first.sub(&other.numerator) }.ok()?;
    if !facts.proves(&Pred::non_negative(beyond.clone())) {
        return None;
    }
    let left = beyond.scale(-1).ok()?;
    let left = (!facts.proves(&Pred::non_negative(left.clone()))).then_some(left);
    let sums = outer_sums(body);
    let own = changed(body).into_iter().filter(|r| !declared(body).contains(r)).all(|r| sums.contains(&r));
    let plain = stored(body).is_empty() && sums.iter().all(|r| !reads(body, |read| read == *r));
    let once = |r: &RealId| {
        beside.contains(&Stmt::Local(*r)) && beside.iter().filter(|s| changed([*s]).contains(r)).count() == 1
    };
    let foreign = loads(body).into_iter().all(|place| !nest.buffers.contains(&place.buffer));
    if sums.is_empty() || !own || !plain || !foreign || !sums.iter().all(once) {
        return None;
    }
    let needs = needs(body, before, nest)?;
    let mentioned = mentioned(needs.iter().chain(body));
    let is_known = |i: &IndexId| *i == *j || around.iter().any(|(index, _)| index == i) || defined(body).contains(i);
    if mentioned.contains(&i.index) || !mentioned.iter().all(is_known) {
        return None;
    }
    let kept = around.iter().filter(|(index, _)| *index == i.index || mentioned.contains(index));
    let kept: Vec<Around> = kept.map(|(_, over)| over.clone()).collect::<Option<_>>()?;
    Some(Growing {
        path: Vec::new(),
        at: kept.iter().position(|one| one.index == i.index)?,
        around: kept,
        needs,
        j: *j,
        shift,
        down,
        left,
        body: body.clone(),
        sums: sums.into_iter().collect(),
    })
}

/// The definitions of the numbers from outside that statements read, in order; nothing where some are no plain numbers.
fn needs(body: &[Stmt], before: &[&Stmt], nest: &Nest) -> Option<Vec<Stmt>> {
    let own = declared(body);
    let sums = outer_sums(body);
    let mut missing: BTreeSet<RealId> = BTreeSet::new();
    body.iter().for_each(|stmt| stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| missing.extend([r]))));
    missing.retain(|r| !own.contains(r) && !sums.contains(r));
    let mut needs = Vec::new();
    for stmt in before.iter().rev() {
        if let Stmt::Define(r, _) = stmt
            && missing.remove(r)
        {
            if stmt.load().is_some_and(|place| nest.buffers.contains(&place.buffer)) {
                return None;
            }
            stmt.visit_reads(&mut |read| missing.extend([read]));
            needs.push((*stmt).clone());
        }
    }
    needs.reverse();
    missing.is_empty().then_some(needs)
}

impl Growing {
    /// The first of a nest.
    fn of(nest: &Nest) -> Option<Growing> {
        find(&nest.body, &mut Vec::new(), &mut Vec::new(), nest)
    }

    /// Where the sums are stored, in a nest that computes nothing else: numbers and one loop in another, and behind the sums a store of each at the
    /// indices of all loops.
    fn stores(&self, nest: &Nest) -> Option<Vec<(Place, RealId)>> {
        let (last, path) = self.path.split_last()?;
        let number = |stmt: &Stmt| matches!(stmt, Stmt::Define(..) | Stmt::Local(_));
        let mut body = nest.body.as_slice();
        for at in path {
            let (before, [stmt]) = body.split_at_checked(*at)? else { return None };
            if !before.iter().all(number) {
                return None;
            }
            body = stmt.body();
        }
        let (before, [_, after @ ..]) = body.split_at_checked(*last)? else { return None };
        let store = |stmt: &Stmt| match stmt {
            Stmt::Store(place, r) => Some((place.clone(), *r)),
            _ => None,
        };
        let stores: Vec<(Place, RealId)> = after.iter().map(store).collect::<Option<_>>()?;
        let own: BTreeSet<IndexId> = self.around.iter().map(|one| one.index).collect();
        let each = |place: &Place| {
            let at: BTreeSet<IndexId> = place.at.iter().filter_map(Affine::as_index).collect();
            at.len() == place.at.len() && at == own
        };
        let once = self.sums.iter().all(|r| stores.iter().any(|(_, stored)| stored == r));
        let alone = before.iter().all(number) && path.len() == own.len() && stores.len() == self.sums.len();
        (alone && once && stores.iter().all(|(place, _)| each(place))).then_some(stores)
    }

    /// The nest of the sums; in the other one they are loaded then.
    fn apart(self, nest: &mut Nest, buffers: &mut Arena<BufferId, Buffer>) -> Result<Nest> {
        let title = title(buffers, nest);
        let dims: Vec<Affine> = self.around.iter().map(|one| one.extent.clone()).collect();
        let mut names = Fresh::after(&nest.body);
        let (mut own, mut loaded, mut stores) = (Vec::new(), Vec::new(), Vec::new());
        for (k, r) in self.sums.iter().enumerate() {
            let name = if self.sums.len() == 1 { format!("{title}_sum") } else { format!("{title}_sum_{k}") };
            let buffer = buffers.push(Buffer::workspace(name, None, dims.clone()));
            let place = Place { buffer, at: self.around.iter().map(|one| one.index.into()).collect() };
            let x = names.fresh_real();
            loaded.extend([Stmt::Define(x, Real::Load(place.clone())), Stmt::Accumulate(*r, x)]);
            stores.push(Stmt::Store(place, *r));
            own.push(buffer);
        }
        let sum = self.loop_in(&nest.body).cloned();
        replace(&mut nest.body, &self.path, loaded);
        nest.decisions.push(Decision::Running {});
        let mut body = self.locals();
        body.extend(self.needs.iter().cloned().chain(sum).chain(stores));
        for around in self.around.iter().rev() {
            body = vec![Stmt::one_by_one(around.index, Domain::whole(&around.extent)?, body)];
        }
        Ok(Nest { buffers: own, decisions: Vec::new(), body })
    }

    /// The loop itself.
    fn loop_in<'a>(&self, body: &'a [Stmt]) -> Option<&'a Stmt> {
        let (last, path) = self.path.split_last()?;
        path.iter().try_fold(body, |body, at| Some(body.get(*at)?.body()))?.get(*last)
    }

    /// The sums as running ones, stored where they were: the first one, and those that go on from the one before.
    fn running(self, stores: &[(Place, RealId)]) -> Result<Vec<Stmt>> {
        let mut names = Fresh::after(&[self.needs.as_slice(), &self.body, &self.locals()].concat());
        self.around.iter().for_each(|one| names.keep(one.index, one.index));
        let mut all = Vec::with_capacity(2);
        for first in [true, false] {
            let mut body = self.locals();
            body.extend(self.needs.iter().cloned());
            body.extend(self.step(stores, first, &mut names)?);
            for k in (0..self.around.len()).rev() {
                let around = &self.around[k];
                let mut domain = Domain::whole(&around.extent)?;
                let (mut lanes, mut parallel) = (around.lanes, around.parallel && k == 0);
                if let (true, Domain::Range { lower, upper }) = (k == self.at, &mut domain) {
                    (lanes, parallel) = (1, false);
                    match first {
                        true => upper.insert(0, Bound::exact(Affine::constant(0))),
                        false => *lower = vec![Bound::exact(Affine::constant(1))],
                    }
                }
                body = vec![Stmt::For { index: around.index, domain, lanes, jam: 1, parallel, body }];
            }
            // Each part has names of its own.
            names.again();
            all.extend(names.body(&body)?);
        }
        Ok(all)
    }

    /// What one step does behind what it needs.
    fn step(&self, stores: &[(Place, RealId)], first: bool, names: &mut Fresh) -> Result<Vec<Stmt>> {
        let Around { index: i, extent, .. } = &self.around[self.at];
        let i = *i;
        // From the end the step of a number `t` is at `n - 1 - t`.
        let (here, last) = if self.down {
            let after = extent.sub(&Affine::index(i))?;
            (after.add_constant(-1)?, after)
        } else {
            (Affine::index(i), Affine::index(i).add_constant(-1)?)
        };
        let at = |place: &Place, value: &Affine| -> Result<Place> {
            let value = |index: IndexId| (index == i).then(|| value.clone());
            let at = place.at.iter().map(|a| a.substitute(&value)).collect::<Checked<_>>()?;
            Ok(Place { buffer: place.buffer, at })
        };
        let mut body = Vec::new();
        for (place, r) in stores.iter().filter(|_| !first) {
            let x = names.fresh_real();
            body.extend([Stmt::Define(x, Real::Load(at(place, &last)?)), Stmt::Accumulate(*r, x)]);
        }
        let mut inside = Fresh::after(&[self.needs.as_slice(), &self.body, &self.locals(), &body].concat());
        inside.fix(self.j, here.add_constant(self.shift)?);
        let added = inside.body(&self.body)?;
        // The first places, or the last ones, may have none to add.
        let rounds = i64::from(!first);
        match &self.left {
            Some(left) if !Facts::new().proves(&Pred::non_negative(left.add_constant(rounds)?)) => {
                body.push(Stmt::If { cond: Cond::NonNegative(left.add(&Affine::index(i))?), body: added });
            }
            _ => body.extend(added),
        }
        for (place, r) in stores {
            body.push(Stmt::Store(at(place, &here)?, *r));
        }
        Ok(body)
    }

    fn locals(&self) -> Vec<Stmt> {
        self.sums.iter().map(|r| Stmt::Local(*r)).collect()
    }
}

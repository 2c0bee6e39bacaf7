//! Loops over the points of a guard.
//!
//! `[[for indices where p. body]]` takes the conjuncts of `p` one by one, each time the first of these that applies:
//!
//! | conjunct | becomes | why |
//! |---|---|---|
//! | all its indices are known | a test around the rest, unless it is known to hold | tested once, as far out as possible |
//! | `s = a` | `s` is replaced by `a`, `0 <= a < n` joins the guard | the range of `s` becomes bounds of the indices of `a` |
//! | `f(b, s)`, `f` a map or the place of an extremum, `b` known | `s = f(b)` | there is one target |
//! | `c[b, s] != 0`, where `s` is a number that is stored, `b` known | a test of `s = k[b]` | one place is asked, see `one_hot` |
//! | `exists o. f(o, s)`, `f` a map | a loop over the targets in use | there may be far fewer than targets |
//! | `R(a, .., s)` | a walk over the nodes of the view that has the known axes first | only entries are visited |
//! | `q or r` with relations or equations on both sides, `a != 0` | one loop for `q`, one for `r and not q`, both within a loop over the rows of a CSR or the columns of a CSC matrix | the sides are disjoint |
//! | `a <= s <= a + k`, where `R(.., s, ..)` and nothing is known of `R` | a loop over these few values | `R` is walked from each of them |
//! | `R(.., a - s, ..)`, where `s` has few values and nothing is known of `R` | a loop over these few values | `R` is walked from each of them |
//! | bounds and `k*s = a` | the bounds of a loop over `s`; `k*s = a` leaves one value or none | no test in the loop |
//!
//! Of several relations the one with the most known places is walked, and the others are searched at each of its entries.

use super::PASS;
use super::scope::Nester;
use super::witness::witnesses;
use crate::base::{IndexId, RelationId, work};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, RelationRef, Size, Var, View};
use crate::loops::{Bound, Cond, Decision, Domain, Part, RangeEnd, Stmt};
use crate::solver::{Facts, Relations, solutions};

/// Of how many values an index is gone through where another one would be, too, whose values a relation gives then.
const FEW_VALUES: i64 = 16;

/// How many loops of their own the sides of all `or`s around a point may get.
const MAX_SIDES: usize = 16;

/// The values of the indices at a point.
pub(super) struct Point {
    solved: Vec<(IndexId, Affine)>,
}

impl Point {
    /// An expression over the indices, over those of the nest.
    pub fn value(&self, a: &Affine) -> Checked<Affine> {
        let mut a = a.clone();
        // A value may mention an index that was solved later.
        for (i, value) in &self.solved {
            a = a.substitute(&|j| (j == *i).then(|| value.clone()))?;
        }
        Ok(a)
    }
}

/// What is done at each point.
pub(super) type Body<'b, 'a> = &'b mut dyn FnMut(&mut Nester<'a>, &Point) -> Result<()>;

/// What is left to do.
#[derive(Clone)]
pub(super) struct Open {
    /// The indices without a value.
    pub unbound: Vec<(IndexId, Size)>,
    /// Those of which it only matters that there is a value.
    witnesses: Vec<IndexId>,
    pub conjuncts: Vec<Pred>,
    /// Indices with a value, in the order in which they got it.
    solved: Vec<(IndexId, Affine)>,
    /// Values whose range is among the conjuncts.
    pending: Vec<(Affine, Size)>,
    /// Indices that a walk gives values.
    walked: Vec<IndexId>,
    /// How many sides of `or`s there are by now.
    sides: usize,
}

impl Open {
    /// The values of the indices that have one.
    pub fn point(&self) -> Point {
        Point { solved: self.solved.clone() }
    }

    fn is_unbound(&self, i: IndexId) -> bool {
        self.unbound.iter().any(|(j, _)| *j == i)
    }

    /// Whether an expression mentions indices without a value.
    pub fn waits(&self, a: &Affine) -> bool {
        self.unbound.iter().any(|(i, _)| a.mentions(*i))
    }

    /// Whether a conjunct that can be tested is about numbers.
    pub fn asks_numbers(&self) -> bool {
        self.conjuncts.iter().filter(|p| !self.pred_waits(p)).any(Pred::reads_computed)
    }

    /// Whether all indices but witnesses are known: none is left, and no value depends on those that are.
    fn is_found(&self) -> Checked<bool> {
        if self.unbound.iter().any(|(i, _)| !self.witnesses.contains(i)) {
            return Ok(false);
        }
        let point = self.point();
        for (i, _) in self.solved.iter().filter(|(i, _)| !self.witnesses.contains(i)) {
            if self.waits(&point.value(&Affine::index(*i))?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn pred_waits(&self, p: &Pred) -> bool {
        let mut waits = false;
        p.visit_free(&mut |i| waits |= self.is_unbound(i));
        waits
    }

    /// The only index without a value, if its coefficient is 1 or -1.
    pub fn unit(&self, a: &Affine) -> Option<IndexId> {
        let mut indices = self.unbound.iter().filter(|(i, _)| a.mentions(*i));
        let (i, _) = indices.next()?;
        (indices.next().is_none() && a.root(*i).is_some()).then_some(*i)
    }

    pub fn without(&self, at: usize) -> Open {
        let mut next = self.clone();
        next.conjuncts.remove(at);
        next
    }

    /// `s = a`, where `in_range` says whether `a` is within the range of `s` anyway.
    fn solve(&self, s: IndexId, a: &Affine, in_range: bool) -> Result<Open> {
        let mut next = self.clone();
        let Some(at) = next.unbound.iter().position(|(i, _)| *i == s) else {
            return Err(Error::bug(PASS, "an index is solved twice"));
        };
        let (_, extent) = next.unbound.remove(at);
        let replace = |i: IndexId| (i == s).then(|| a.clone());
        for p in &mut next.conjuncts {
            *p = p.substitute(&replace)?;
        }
        for (b, _) in &mut next.pending {
            *b = b.substitute(&replace)?;
        }
        next.solved.push((s, a.clone()));
        if !in_range {
            next.conjuncts.extend(Pred::in_range(a, &extent)?.conjuncts().iter().cloned());
        }
        next.pending.push((a.clone(), extent));
        let mut conjuncts: Vec<Pred> = Vec::new();
        for p in next.conjuncts.iter().flat_map(flat) {
            if !conjuncts.contains(&p) {
                conjuncts.push(p);
            }
        }
        next.conjuncts = conjuncts;
        Ok(next)
    }
}

/// The same indices, one of them first.
fn rotated(indices: &[(IndexId, Size)], first: usize) -> Vec<(IndexId, Size)> {
    let (before, from) = indices.split_at(first.min(indices.len()));
    match from.split_first() {
        Some((one, after)) => [std::slice::from_ref(one), before, after].concat(),
        None => before.to_vec(),
    }
}

/// Whether nothing is known of a relation that mentions an index: it would be walked from the beginning.
fn is_unknown(open: &Open, i: IndexId) -> bool {
    let mut relations = open.conjuncts.iter().filter_map(read);
    relations.any(|args| args.iter().any(|a| a.mentions(i)) && args.iter().all(|a| open.waits(a)))
}

/// An index that bounds leave a few values, where they are known, and a relation is walked from it then.
fn narrow(open: &Open) -> Option<usize> {
    let side = |p: &Pred, i: IndexId, sign: i64| match p {
        Pred::NonNegative(a) if a.coefficient(&Var::Index(i)) == sign => {
            Some(a.clone()).filter(|a| open.unit(a) == Some(i))
        }
        _ => None,
    };
    open.unbound.iter().position(|(i, n)| {
        let lower = open.conjuncts.iter().filter_map(|p| side(p, *i, 1));
        let width = lower.flat_map(|low| {
            let upper = open.conjuncts.iter().filter_map(|p| side(p, *i, -1));
            upper.filter_map(move |high| low.add(&high).ok()?.as_constant()).collect::<Vec<_>>()
        });
        let is_few = width.min().is_some_and(|width| width < FEW_VALUES);
        is_few && n.as_constant().is_none_or(|n| n > FEW_VALUES) && is_unknown(open, *i)
    })
}

/// An index of few values that alone keeps a relation from being walked from a known place, where nothing is known of any relation.
fn few(open: &Open) -> Option<usize> {
    let relations: Vec<&[Affine]> = open.conjuncts.iter().filter_map(read).collect();
    if relations.iter().any(|args| args.iter().any(|a| !open.waits(a))) {
        return None;
    }
    open.unbound.iter().position(|(i, n)| {
        let is_offset = |a: &Affine| open.unit(a) == Some(*i) && a.as_index().is_none();
        n.as_constant().is_some_and(|n| n <= FEW_VALUES) && relations.iter().any(|args| args.iter().any(is_offset))
    })
}

/// The places of a relation that has to hold.
fn read(p: &Pred) -> Option<&[Affine]> {
    match p {
        Pred::Relation { relation: RelationRef::Input(_), args, holds: true } => Some(args),
        _ => None,
    }
}

/// The conjuncts, `false` among them.
fn flat(p: &Pred) -> Vec<Pred> {
    if p.is_false() { vec![Pred::False] } else { p.conjuncts().to_vec() }
}

impl<'a> Nester<'a> {
    /// Runs `body` at every point of the indices where all conjuncts hold, each point once.
    pub fn points(&mut self, indices: Vec<(IndexId, Size)>, conjuncts: Vec<Pred>, body: Body<'_, 'a>) -> Result<()> {
        self.points_with_witnesses(indices, Vec::new(), conjuncts, body)
    }

    /// Runs `body` at every point of the indices for which there are values of others such that all conjuncts hold; some points more than once.
    pub fn points_with_witnesses(
        &mut self,
        mut indices: Vec<(IndexId, Size)>,
        others: Vec<(IndexId, Size)>,
        conjuncts: Vec<Pred>,
        body: Body<'_, 'a>,
    ) -> Result<()> {
        let conjuncts = conjuncts.iter().flat_map(flat).collect();
        let witnesses = others.iter().map(|(i, _)| *i).collect();
        indices.extend(others);
        self.step(
            Open {
                unbound: indices,
                witnesses,
                conjuncts,
                solved: Vec::new(),
                pending: Vec::new(),
                walked: Vec::new(),
                sides: 1,
            },
            body,
        )
    }

    /// Tests what can be tested, and goes on inside.
    pub fn settle(&mut self, open: Open, then: &mut dyn FnMut(&mut Nester<'a>, Open) -> Result<()>) -> Result<()> {
        let (waiting, ready): (Vec<Pred>, Vec<Pred>) = open.conjuncts.iter().cloned().partition(|p| open.pred_waits(p));
        let ready = self.prune(ready)?;
        let open = Open { conjuncts: waiting, ..open };
        self.guarded(&ready, &mut |nester| {
            let mut open = open.clone();
            let (waiting, known): (Vec<_>, Vec<_>) =
                open.pending.drain(..).partition(|(a, _)| open.unbound.iter().any(|(i, _)| a.mentions(*i)));
            open.pending = waiting;
            for (a, extent) in &known {
                nester.claim(a, extent);
                if let Ok(p) = Pred::in_range(a, extent) {
                    flat(&p).iter().for_each(|p| nester.know(p));
                }
            }
            then(nester, open)
        })
    }

    pub fn step(&mut self, open: Open, body: Body<'_, 'a>) -> Result<()> {
        work::charge(4 + open.conjuncts.len() * open.unbound.len());
        work::check()?;
        self.settle(open, &mut |nester, open| nester.bind_next(open, body))
    }

    /// Gives a value to an index.
    fn bind_next(&mut self, open: Open, body: Body<'_, 'a>) -> Result<()> {
        if open.is_found()? {
            let rest = witnesses(&open.unbound, &open.conjuncts)?;
            return self.guarded(&rest, &mut |nester| body(nester, &open.point()));
        }
        if let Some(next) = self.equation(&open)? {
            return self.step(next, body);
        }
        if let Some(at) = self.target(&open) {
            return self.bind_target(&open, at, body);
        }
        if let Some(at) = self.told(&open) {
            return self.bind_told(&open, at, body);
        }
        if let Some(next) = self.unfolded(&open)? {
            return self.step(next, body);
        }
        if let Some(few) = narrow(&open).or_else(|| few(&open)) {
            return self.range(Open { unbound: rotated(&open.unbound, few), ..open }, body);
        }
        if let Some(at) = self.driver(&open) {
            return match self.row(&open, at) {
                Some(row) => self.range(Open { unbound: rotated(&open.unbound, row), ..open }, body),
                None => self.walk(&open, at, body),
            };
        }
        if let Some(at) = self.targets_in_use(&open) {
            return self.walk_targets(&open, at, body);
        }
        if let Some(first) = self.source_of_told(&open) {
            return self.range(Open { unbound: rotated(&open.unbound, first), ..open }, body);
        }
        if let Some((at, sides)) = self.sides(&open)? {
            if let Some(row) = sides.iter().find_map(|side| self.row_of_side(&open, side)) {
                return self.range(Open { unbound: rotated(&open.unbound, row), ..open }, body);
            }
            let copies = open.sides.saturating_mul(sides.len());
            for side in sides {
                let mut next = Open { sides: copies, ..open.without(at) };
                next.conjuncts.extend(side);
                // A scope of its own, since what one side finds out does not hold in the other.
                let stmts = self.body(true, &mut |nester| nester.step(next.clone(), body))?;
                stmts.into_iter().for_each(|stmt| self.emit(stmt));
            }
            return Ok(());
        }
        self.range(open, body)
    }

    /// `s = a`: an index that no relation mentions if possible, with a value that is in range anyway, the last of them. But where a relation of which
    /// nothing is known mentions it, and few values of the others are left, these are gone through, and the relation is walked from `a`.
    fn equation(&mut self, open: &Open) -> Result<Option<Open>> {
        let related = |i: IndexId| {
            open.conjuncts.iter().any(|p| matches!(p, Pred::Relation { holds: true, .. }) && p.mentions(i))
        };
        let unbound: Vec<IndexId> = open.unbound.iter().map(|(i, _)| *i).collect();
        let mut candidates: Vec<(usize, IndexId, Affine)> = solutions(&unbound, &open.conjuncts).collect();
        candidates.retain(|(_, s, value)| !open.walked.contains(s) || !open.waits(value));
        let is_few = |i: IndexId| {
            let extent = open.unbound.iter().find(|(j, _)| *j == i).and_then(|(_, n)| n.as_constant());
            extent.is_some_and(|n| n <= FEW_VALUES)
        };
        let opens = |s: IndexId, value: &Affine| {
            let others_are_few = unbound.iter().all(|i| !value.mentions(*i) || is_few(*i));
            others_are_few && !is_few(s) && open.waits(value) && is_unknown(open, s)
        };
        let around = (candidates.len() > 1).then(|| self.scope().facts.under(&open.unbound, []));
        let rank = |(_, s, value): &(usize, IndexId, Affine)| {
            let place = unbound.iter().position(|i| i == s);
            let range = place.and_then(|place| Pred::in_range(value, &open.unbound[place].1).ok());
            let inside = around.as_ref().zip(range).is_some_and(|(facts, range)| facts.proves(&range));
            (opens(*s, value), !related(*s), inside, place)
        };
        let Some((at, s, value)) = candidates.iter().max_by_key(|candidate| rank(candidate)) else {
            return Ok(None);
        };
        self.decide(Decision::Solved {});
        open.without(*at).solve(*s, value, false).map(Some)
    }

    /// Whether a relation is a map, or the place of an extremum.
    pub(super) fn is_map(&self, relation: RelationRef) -> bool {
        match relation {
            RelationRef::Input(_) => self.program.signature.is_map(relation),
            RelationRef::Computed { view, .. } => view != View::Support,
        }
    }

    /// An atom of a map whose source is known.
    fn target(&self, open: &Open) -> Option<usize> {
        open.conjuncts.iter().position(|p| {
            let Pred::Relation { relation, args, holds: true } = p else { return false };
            let Some((last, source)) = args.split_last() else { return false };
            self.is_map(*relation) && open.unit(last).is_some() && !source.iter().any(|a| open.waits(a))
        })
    }

    fn bind_target(&mut self, open: &Open, at: usize, body: Body<'_, 'a>) -> Result<()> {
        let atom = open.conjuncts[at].clone();
        let next = open.without(at);
        let Pred::Relation { relation, args, .. } = &atom else { return Err(Error::bug(PASS, "no atom of a map")) };
        let Some((last, source)) = args.split_last() else { return Err(Error::bug(PASS, "a map without a target")) };
        let shape = match relation {
            RelationRef::Input(r) => self.program.signature.relations[*r].shape.clone(),
            RelationRef::Computed { var, .. } => self.program.stmts[*var].dims.clone(),
        };
        let Some((extent, sources)) = shape.split_last() else { return Err(Error::bug(PASS, "a map without axes")) };
        let ranges = self.ranges_of(source, sources)?;
        self.guarded(&ranges, &mut |nester| {
            source.iter().zip(sources).for_each(|(a, n)| nester.claim(a, n));
            match relation {
                RelationRef::Input(r) => {
                    let (index, _) = nester.load_target(*r, source, sources, extent)?;
                    let next = nester.bind(&next, last, index, extent)?;
                    nester.step(next, body)
                }
                RelationRef::Computed { var, view } => {
                    let index = nester.extremum(*var, *view, source)?;
                    nester.test(Cond::NonNegative(index.into()), &mut |nester| {
                        nester.claim_index(index, extent);
                        let args = source.iter().cloned().chain([index.into()]).collect();
                        nester.know(&Pred::relation(*relation, args));
                        let next = nester.bind(&next, last, index, extent)?;
                        nester.step(next, body)
                    })
                }
            }
        })
    }

    /// The target of a source of a map, which is in range, and the number of the source.
    pub fn load_target(
        &mut self,
        map: RelationId,
        source: &[Affine],
        sources: &[Size],
        extent: &Size,
    ) -> Result<(IndexId, Affine)> {
        if let Some((target, entry)) = self.target_known(map, source)
            && let Some(index) = target.as_index()
        {
            return Ok((index, entry));
        }
        let title = self.relation_name(map);
        self.decide(Decision::Target { map: title });
        let at = self.source(map, source, sources)?;
        let level = u8::try_from(sources.len()).map_err(|_| Error::bug(PASS, "too many axes"))?;
        let axes = self.program.signature.stored_order(map);
        let array = self.array(map, &axes, Part::Nodes(level));
        let index = self.fresh_index();
        self.emit(Stmt::Let { index, array, at: at.clone(), step: None });
        self.claim_index(index, extent);
        let args: Vec<Affine> = source.iter().cloned().chain([index.into()]).collect();
        self.remember_entry(map, &args, at.clone());
        self.know(&Pred::relation(RelationRef::Input(map), args));
        Ok((index, at))
    }

    /// The number of a source of a map among all of them, which is that of its entry: each has one target. Where axes have no literal length,
    /// pointers say where the sources of a row begin.
    fn source(&mut self, map: RelationId, source: &[Affine], sources: &[Size]) -> Result<Affine> {
        let axes = self.program.signature.stored_order(map);
        let mut number = Affine::constant(0);
        for (level, (a, n)) in source.iter().zip(sources).enumerate() {
            let below = u8::try_from(level).ok().and_then(|level| level.checked_sub(1));
            let first = match (below, n.as_constant()) {
                (None, _) => Affine::constant(0),
                (_, Some(n)) => number.scale(n)?,
                (Some(below), None) => {
                    let part = if below == 0 { Part::Rows } else { Part::Children(below) };
                    let (index, array) = (self.fresh_index(), self.array(map, &axes, part));
                    self.emit(Stmt::Let { index, array, at: number, step: None });
                    index.into()
                }
            };
            number = first.add(a)?;
        }
        Ok(number)
    }

    /// `arg = v`, where `v` is within an extent.
    pub fn bind(&mut self, open: &Open, arg: &Affine, v: IndexId, extent: &Size) -> Result<Open> {
        let difference = arg.sub(&v.into())?;
        let Some((s, value)) = open.unit(arg).and_then(|s| Some((s, difference.root(s)?))) else {
            let mut next = open.clone();
            next.conjuncts.extend(flat(&Pred::zero(difference)));
            return Ok(next);
        };
        let same = open.unbound.iter().any(|(i, n)| *i == s && n == extent);
        open.solve(s, &value, same && arg.as_index().is_some())
    }

    /// The relation with the most known places whose other places give an index each. A map of which the target is not known leaves out no source, so
    /// others come first.
    fn driver(&self, open: &Open) -> Option<usize> {
        let mut best: Option<((bool, usize), usize)> = None;
        for (at, p) in open.conjuncts.iter().enumerate() {
            let Pred::Relation { relation: RelationRef::Input(relation), args, holds: true } = p else { continue };
            let known = args.iter().filter(|a| !open.waits(a)).count();
            let walks = args.iter().all(|a| !open.waits(a) || open.unit(a).is_some());
            let rank = (self.leaves_out(*relation, args, open), known);
            if walks && best.is_none_or(|(most, _)| rank > most) {
                best = Some((rank, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// Whether a walk over a relation may visit less than all: not where it is a map whose target is not known.
    fn leaves_out(&self, relation: RelationId, args: &[Affine], open: &Open) -> bool {
        let is_open = args.last().is_some_and(|target| open.waits(target));
        !(is_open && self.program.signature.is_map(RelationRef::Input(relation)))
    }

    /// A relation of which something is known with an index of its own in the place of an expression that mentions several: the relation gives this one,
    /// and an equation one of the others.
    fn unfolded(&mut self, open: &Open) -> Result<Option<Open>> {
        for p in &open.conjuncts {
            let Pred::Relation { relation: RelationRef::Input(relation), args, holds: true } = p else { continue };
            let is_known = args.iter().any(|a| !open.waits(a)) && self.leaves_out(*relation, args, open);
            let folded = |a: &Affine| open.waits(a) && open.unit(a).is_none();
            let (true, Some(axis)) = (is_known, args.iter().position(folded)) else { continue };
            let Some(extent) = self.program.signature.relations[*relation].shape.get(axis).cloned() else { continue };
            let with = |index: IndexId| {
                let args = args.iter().enumerate().map(|(k, a)| if k == axis { index.into() } else { a.clone() });
                Pred::relation(RelationRef::Input(*relation), args.collect())
            };
            let is_solved = open.unbound.iter().any(|(i, _)| args[axis].root(*i).is_some());
            if !is_solved || open.walked.iter().any(|i| open.conjuncts.contains(&with(*i))) {
                continue;
            }
            let index = self.fresh_index();
            // The relation stays as it was, too: where an index gets its value from elsewhere, it is asked.
            let mut next = open.clone();
            next.conjuncts.push(with(index));
            next.conjuncts.extend(flat(&Pred::zero(args[axis].sub(&index.into())?)));
            next.unbound.push((index, extent));
            next.walked.push(index);
            return Ok(Some(next));
        }
        Ok(None)
    }

    /// The index of the axis with offsets of a sparse tensor no place of which is known, such as the rows of a CSR matrix: they are visited in
    /// order, empty ones too, as dense loops around others do. So are the sources of a map whose target is not known, as all have one.
    fn row(&self, open: &Open, at: usize) -> Option<usize> {
        let Some(Pred::Relation { relation: RelationRef::Input(relation), args, .. }) = open.conjuncts.get(at) else {
            return None;
        };
        let signature = &self.program.signature;
        let waits = |a: &Affine| open.waits(a);
        let mut storages = signature.params.values().map(|param| param.storage);
        let offsets = storages.find_map(|storage| {
            let format = storage.format().filter(|_| storage.pattern() == Some(*relation))?;
            format.capabilities().offsets
        });
        let (target, source) = args.split_last()?;
        let at_index = |i: IndexId| open.unbound.iter().position(|(j, _)| *j == i);
        let Some(axis) = offsets else {
            // A source at a distance from an index too: the others would be gone through in vain.
            let is_map = signature.is_map(RelationRef::Input(*relation)) && waits(target);
            let i = source.iter().find(|a| is_map && waits(a)).and_then(|a| open.unit(a))?;
            return at_index(i).filter(|_| args.iter().filter(|a| a.mentions(i)).count() == 1);
        };
        let (row, extent) = (args.get(axis)?, signature.relations.get(*relation)?.shape.get(axis)?);
        let at = at_index(row.as_index().filter(|_| args.iter().all(waits))?)?;
        let is_whole = open.unbound[at].1 == *extent;
        (is_whole && args.iter().filter(|a| *a == row).count() == 1).then_some(at)
    }

    /// The index of the rows of a CSR matrix, or the columns of a CSC matrix, that a side walks: what the sides add to a row is added in one
    /// visit, and rows have loops that can be shared out.
    fn row_of_side(&self, open: &Open, side: &[Pred]) -> Option<usize> {
        let open = Open { conjuncts: side.to_vec(), ..open.clone() };
        self.row(&open, self.driver(&open)?)
    }

    /// A conjunct with disjoint sides that get loops of their own.
    fn sides(&self, open: &Open) -> Result<Option<(usize, Vec<Vec<Pred>>)>> {
        for (at, p) in open.conjuncts.iter().enumerate() {
            match p {
                Pred::NonZero(a)
                    if 2 * open.sides <= MAX_SIDES
                        && open.unbound.iter().filter(|(i, _)| a.mentions(*i)).count() == 1 =>
                {
                    let below = Pred::non_negative(a.scale(-1)?.add_constant(-1)?);
                    let above = Pred::non_negative(a.add_constant(-1)?);
                    return Ok(Some((at, vec![flat(&below), flat(&above)])));
                }
                Pred::Any(ps) if open.sides.saturating_mul(ps.len()) <= MAX_SIDES => {
                    let driven = |p: &Pred| {
                        p.conjuncts().iter().any(|q| {
                            let gives = matches!(
                                q,
                                Pred::Zero(_) | Pred::Relation { relation: RelationRef::Input(_), holds: true, .. }
                            );
                            gives && open.pred_waits(q)
                        })
                    };
                    let Some(negated) = ps.iter().map(Pred::negate).collect::<Option<Vec<_>>>() else { continue };
                    if !ps.iter().all(driven) {
                        continue;
                    }
                    let side = |k: usize| {
                        let p = ps.iter().skip(k).take(1).chain(negated.iter().take(k));
                        p.flat_map(flat).collect::<Vec<Pred>>()
                    };
                    return Ok(Some((at, (0..ps.len()).map(side).collect())));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// A loop over the first index, with the bounds that the conjuncts give.
    pub fn range(&mut self, mut open: Open, body: Body<'_, 'a>) -> Result<()> {
        let Some((s, extent)) = open.unbound.first().cloned() else {
            return Err(Error::bug(PASS, "a loop over no index"));
        };
        if !self.loops_over(s) {
            // The sides of an `or` loop over the same index.
            let fresh = self.fresh_index();
            open.unbound[0].0 = fresh;
            for p in &mut open.conjuncts {
                *p = p.substitute(&|i| (i == s).then(|| fresh.into()))?;
            }
            for (a, _) in &mut open.pending {
                *a = a.substitute(&|i| (i == s).then(|| fresh.into()))?;
            }
            open.solved.push((s, fresh.into()));
            return self.range(open, body);
        }
        open.unbound.remove(0);
        let mut facts = self.scope().facts.clone();
        let around = facts.clone();
        facts.range(s, &extent);
        let mut lower = vec![Bound::exact(Affine::constant(0))];
        let mut upper = vec![Bound::exact(extent.add_constant(-1)?)];
        let mut taken = Vec::new();
        let mut left = Vec::new();
        for p in std::mem::take(&mut open.conjuncts) {
            let bounds = if open.pred_waits(&p) { None } else { bounds(&p, s)? };
            match bounds {
                Some(_) if facts.proves(&p) => {}
                Some((from, to)) => {
                    from.into_iter().for_each(|b| tighten(&mut lower, b, &around, RangeEnd::Lower));
                    to.into_iter().for_each(|b| tighten(&mut upper, b, &around, RangeEnd::Upper));
                    taken.push(p);
                }
                None => left.push(p),
            }
        }
        if !taken.is_empty() {
            self.decide(Decision::Bounds {});
        }
        let domain = Domain::Range { lower, upper };
        let open = Open { conjuncts: left, ..open };
        self.inside(
            false,
            &mut |nester| {
                nester.claim_index(s, &extent);
                taken.iter().for_each(|p| nester.know(p));
                nester.step(open.clone(), body)
            },
            |body| Stmt::one_by_one(s, domain, body),
        )
    }
}

/// The lower and upper bounds that an atom gives for an index.
type Limits = (Option<Bound>, Option<Bound>);

/// The bounds of `s` in `k*s + rest >= 0` or `k*s + rest = 0`.
fn bounds(p: &Pred, s: IndexId) -> Result<Option<Limits>> {
    let (a, equation) = match p {
        Pred::NonNegative(a) => (a, false),
        Pred::Zero(a) => (a, true),
        _ => return Ok(None),
    };
    let Some((k, rest)) = a.split(s).filter(|(k, _)| *k != 0) else { return Ok(None) };
    // d*s >= -r and, for an equation, d*s <= -r with d positive.
    let (d, r) = if k > 0 { (k, rest) } else { (k.checked_neg().ok_or(Error::Overflow)?, rest.scale(-1)?) };
    let minus = r.scale(-1)?;
    let ceiling = Bound { numerator: minus.add_constant(d - 1)?, divisor: d };
    let floor = Bound { numerator: minus, divisor: d };
    Ok(Some(match (equation, k > 0) {
        (true, _) => (Some(ceiling), Some(floor)),
        (false, true) => (Some(ceiling), None),
        // k*s + rest >= 0 with k < 0: d*s <= rest = -r
        (false, false) => (None, Some(floor)),
    }))
}

/// Adds a bound; the first one, the end of the range, goes where the new one is at least as tight.
fn tighten(bounds: &mut Vec<Bound>, b: Bound, facts: &Facts, end: RangeEnd) {
    let tighter = match (b.divisor, bounds.first()) {
        (1, Some(first)) if bounds.len() == 1 => {
            let difference = match end {
                RangeEnd::Lower => b.numerator.sub(&first.numerator),
                RangeEnd::Upper => first.numerator.sub(&b.numerator),
            };
            difference.is_ok_and(|d| facts.proves(&Pred::non_negative(d)))
        }
        _ => false,
    };
    if tighter {
        bounds.clear();
    }
    bounds.push(b);
}

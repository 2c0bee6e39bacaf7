//! Tests: what is left of guards when all their indices are known.

use super::PASS;
use super::scope::Nester;
use crate::base::{Id, IndexId, RelationId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, RelationRef, Size, View};
use crate::loops::{Cond, Decision, List, Part, Real, Segment, Stmt};
use crate::solver::Relations;

/// How many comparisons are tests inside of each other, each of which knows that the ones before hold.
const ONE_BY_ONE: usize = 32;

/// What a search has found.
pub(super) struct Found {
    /// The place in a view; negative where there is none.
    pub node: Affine,
    /// The order of axes of the view.
    pub axes: Vec<usize>,
}

/// Adds to the guard of loops over some indices what holds wherever there is anything to do. An `or` would only be tested where a relation
/// drives the loops anyway.
pub(super) fn also(guard: &mut Vec<Pred>, support: &Pred, of_loops: &dyn Fn(&Pred) -> bool) {
    let drives = |p: &Pred| matches!(p, Pred::Relation { holds: true, .. }) && of_loops(p);
    for p in support.conjuncts().iter().chain(support.is_false().then_some(support)) {
        let is_new = (of_loops(p) || p.is_false()) && !guard.contains(p);
        if is_new && !(matches!(p, Pred::Any(_)) && guard.iter().any(drives)) {
            guard.push(p.clone());
        }
    }
}

impl Nester<'_> {
    /// A guard over the indices of the nest: index `k` of the statement becomes `at[k]`, bound indices become fresh.
    pub fn open(&mut self, p: &Pred, at: &[Affine]) -> Result<Pred> {
        Ok(match p {
            Pred::All(ps) => Pred::all(ps.iter().map(|p| self.open(p, at)).collect::<Result<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| self.open(p, at)).collect::<Result<Vec<_>>>()?),
            Pred::Exists { index, extent, body } => {
                let fresh = self.fresh_index();
                let mut inner = at.to_vec();
                // Bound indices are numbered on from those in scope.
                inner.truncate(index.index());
                inner.push(Affine::index(fresh));
                if inner.len() != index.index() + 1 {
                    return Err(Error::bug(PASS, "a bound index is out of order"));
                }
                Pred::exists(fresh, extent.clone(), self.open(body, &inner)?)
            }
            atom => atom.substitute(&|i| at.get(i.index()).cloned())?,
        })
    }

    /// The conjuncts that do not follow from what is known.
    pub fn prune(&mut self, conjuncts: Vec<Pred>) -> Result<Vec<Pred>> {
        let all = Pred::all(conjuncts.iter().cloned());
        let excluded = |p: &Pred| matches!(p, Pred::Relation { .. }) && p.negate().is_some_and(|p| self.holds(&p));
        if all.is_false() || all.conjuncts().iter().any(excluded) {
            return Ok(vec![Pred::False]);
        }
        Ok(conjuncts.iter().flat_map(|p| p.conjuncts().to_vec()).filter(|p| !self.holds(p)).collect())
    }

    /// Runs `body` where all of these hold, and nowhere else.
    pub fn guarded(&mut self, conjuncts: &[Pred], body: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if let Some((comparisons, rest)) = self.comparisons(conjuncts) {
            let conds = comparisons.iter().map(|p| self.cond(p)).collect::<Result<_>>()?;
            return self.test(Cond::All(conds), &mut |nester| {
                comparisons.iter().for_each(|p| nester.know(p));
                nester.guarded(&rest, body)
            });
        }
        let mut waiting = conjuncts;
        while let Some((first, rest)) = waiting.split_first() {
            waiting = rest;
            if self.holds(first) {
                continue;
            }
            match first {
                p if p.is_false() => return Ok(()),
                Pred::All(ps) => return self.guarded(&[ps, rest].concat(), body),
                Pred::Relation { relation: RelationRef::Input(relation), args, holds: true } => {
                    if self.entry(*relation, args).is_some() {
                        continue;
                    }
                    let beside = self.beside_target(*relation, args)?;
                    if beside.is_none() {
                        let ranges = self.source_ranges(*relation, args)?;
                        if !ranges.is_empty() {
                            let first = std::slice::from_ref(first);
                            return self.guarded(&[&ranges, first, rest].concat(), body);
                        }
                    }
                    return self.at_tuple(first, *relation, args, beside, &mut |nester| nester.guarded(rest, body));
                }
                p => {
                    let mut inside = |nester: &mut Self| {
                        nester.know(p);
                        nester.guarded(rest, body)
                    };
                    if let Some(told) = self.of_target(p)? {
                        return self.guarded(&[told], &mut inside);
                    }
                    let cond = self.cond(p)?;
                    return self.test(cond, &mut inside);
                }
            }
        }
        body(self)
    }

    /// Runs `body` where a relation holds, whose entry it knows: where the target that is `beside` it is the one asked for, or a search finds it.
    fn at_tuple(
        &mut self,
        atom: &Pred,
        relation: RelationId,
        args: &[Affine],
        beside: Option<(Affine, Affine)>,
        body: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let (cond, known, found) = match beside {
            Some((same, entry)) => (Cond::Zero(same), Some(entry), None),
            None => {
                let found = self.locate(relation, args)?;
                (Cond::NonNegative(found.node.clone()), None, Some(found))
            }
        };
        self.test(cond, &mut |nester| {
            nester.know(atom);
            let entry = known.clone().or_else(|| found.as_ref().map(|found| nester.entry_at(relation, found)));
            let entry = entry.ok_or_else(|| Error::bug(PASS, "a tuple without an entry"))?;
            nester.remember_entry(relation, args, entry);
            nester.know_ranges(relation, args);
            body(nester)
        })
    }

    /// Those of many conjuncts that compare indices, and are not known to hold, and the others; nothing where there are few of the former. They need
    /// nothing computed before, so one test of all of them does, and as many tests inside of each other are avoided.
    fn comparisons(&mut self, conjuncts: &[Pred]) -> Option<(Vec<Pred>, Vec<Pred>)> {
        let compares = |p: &Pred| matches!(p, Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_));
        if conjuncts.iter().filter(|p| compares(p)).count() <= ONE_BY_ONE {
            return None;
        }
        let (comparisons, rest): (Vec<Pred>, Vec<Pred>) = conjuncts.iter().cloned().partition(compares);
        let comparisons: Vec<Pred> = comparisons.into_iter().filter(|p| !self.holds(p)).collect();
        (comparisons.len() > ONE_BY_ONE).then_some((comparisons, rest))
    }

    /// What says the same as `exists c. m(a, c) and p(c)` where `a` is a source of the map: `p(m(a))`.
    fn of_target(&mut self, p: &Pred) -> Result<Option<Pred>> {
        let Pred::Exists { index, extent, body } = p else { return Ok(None) };
        let target = Affine::index(*index);
        let source = |q: &Pred| match q {
            Pred::Relation { relation: RelationRef::Input(map), args, holds: true } => {
                let (last, source) = args.split_last()?;
                let is_told = *last == target && !source.iter().any(|a| a.mentions(*index));
                let shape = &self.program.signature.relations.get(*map)?.shape;
                (is_told && shape.last() == Some(extent)).then(|| (*map, source.to_vec()))
            }
            _ => None,
        };
        let atoms = || body.conjuncts().iter().enumerate();
        let Some((at, (map, source))) = atoms().find_map(|(at, q)| Some((at, source(q)?))) else { return Ok(None) };
        let Some((found, _)) = self.target_of(map, &source)? else { return Ok(None) };
        let rest =
            atoms().filter(|(k, _)| *k != at).map(|(_, q)| q.substitute(&|i| (i == *index).then(|| found.clone())));
        Ok(Some(Pred::all(rest.collect::<Checked<Vec<_>>>()?)))
    }

    /// What is zero where the last argument is the target of the others, which are a source of a map, and the entry of that source. In a loop over targets
    /// the target is compared, and not looked for.
    fn beside_target(&mut self, map: RelationId, args: &[Affine]) -> Result<Option<(Affine, Affine)>> {
        let Some((last, source)) = args.split_last() else { return Ok(None) };
        let known = self.target_of(map, source)?;
        known.map(|(target, entry)| Ok((last.sub(&target)?, entry))).transpose()
    }

    /// The target of a source of a map, loaded where the source is known, and the entry of the source. Nothing where the source may be out of range.
    fn target_of(&mut self, map: RelationId, source: &[Affine]) -> Result<Option<(Affine, Affine)>> {
        if !self.program.signature.is_map(RelationRef::Input(map)) {
            return Ok(None);
        }
        if let Some(known) = self.target_known(map, source) {
            return Ok(Some(known));
        }
        let shape = self.program.signature.relations[map].shape.clone();
        let Some((extent, sources)) = shape.split_last() else { return Ok(None) };
        // As far out as the source is known to be one.
        let outermost = source.iter().map(|a| self.level_of(a)).max().unwrap_or(0);
        let mut loaded = None;
        for level in [outermost, self.innermost()] {
            if loaded.is_none() {
                loaded = self.at_level(level, |nester| match nester.ranges_of(source, sources)?.is_empty() {
                    true => nester.load_target(map, source, sources, extent).map(Some),
                    false => Ok(None),
                })?;
            }
        }
        Ok(loaded.map(|(target, entry)| (target.into(), entry)))
    }

    /// What has to hold for arguments of a map to begin with a source; nothing of other relations.
    fn source_ranges(&mut self, map: RelationId, args: &[Affine]) -> Result<Vec<Pred>> {
        if !self.program.signature.is_map(RelationRef::Input(map)) {
            return Ok(Vec::new());
        }
        let shape = self.program.signature.relations[map].shape.clone();
        let source = args.split_last().map_or(&[][..], |(_, source)| source);
        self.ranges_of(source, &shape)
    }

    /// The arguments of a relation that holds are in its shape.
    pub fn know_ranges(&mut self, relation: RelationId, args: &[Affine]) {
        let shape = self.program.signature.relations.get(relation).map(|r| r.shape.clone()).unwrap_or_default();
        for (a, n) in args.iter().zip(&shape) {
            if let Ok(p) = Pred::in_range(a, n) {
                p.conjuncts().iter().for_each(|p| self.know(p));
            }
            self.claim(a, n);
        }
    }

    pub fn test(&mut self, cond: Cond, body: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.inside(true, body, |body| Stmt::If { cond, body })
    }

    /// A condition for a predicate whose indices are known, with what it needs computed before.
    fn cond(&mut self, p: &Pred) -> Result<Cond> {
        Ok(match p {
            Pred::True => Cond::All(Vec::new()),
            Pred::False => Cond::Any(Vec::new()),
            Pred::NonNegative(a) => Cond::NonNegative(a.clone()),
            Pred::Zero(a) => Cond::Zero(a.clone()),
            Pred::NonZero(a) => Cond::NonZero(a.clone()),
            Pred::All(ps) => Cond::All(ps.iter().map(|p| self.cond(p)).collect::<Result<_>>()?),
            Pred::Any(ps) => Cond::Any(ps.iter().map(|p| self.cond(p)).collect::<Result<_>>()?),
            Pred::Relation { relation: RelationRef::Input(relation), args, holds } => {
                if let Some((same, _)) = self.beside_target(*relation, args)? {
                    return Ok(if *holds { Cond::Zero(same) } else { Cond::NonZero(same) });
                }
                let Found { node, .. } = self.locate(*relation, args)?;
                // -1 where there is none
                let absent = node.scale(-1)?.add_constant(-1)?;
                Cond::NonNegative(if *holds { node } else { absent })
            }
            Pred::Relation { relation: RelationRef::Computed { var, view }, args, holds } => {
                let flag = self.computed_relation(*var, *view, args)?;
                if *holds { Cond::Support(flag) } else { Cond::NoSupport(flag) }
            }
            Pred::Exists { index, extent, body } => {
                return match self.of_target(p)? {
                    Some(told) => self.cond(&told),
                    None => self.witness(*index, extent, body),
                };
            }
        })
    }

    /// A register that is not zero where a relation that is computed from a tensor holds.
    fn computed_relation(&mut self, x: VarId, view: View, args: &[Affine]) -> Result<crate::loops::RealId> {
        let dims = self.program.stmts[x].dims.clone();
        let ranges = self.ranges_of(args, &dims)?;
        if view == View::Support && ranges.is_empty() {
            return self.element(x, args);
        }
        let flag = self.local();
        self.guarded(&ranges, &mut |nester| {
            args.iter().zip(&dims).for_each(|(a, n)| nester.claim(a, n));
            match (view, args.split_last()) {
                (View::Support, _) | (_, None) => {
                    let element = nester.element(x, args)?;
                    nester.emit(Stmt::Assign(flag, element));
                    Ok(())
                }
                (_, Some((last, source))) => {
                    let place = nester.extremum(x, view, source)?;
                    let same = Cond::Zero(Affine::index(place).sub(last)?);
                    nester.test(same, &mut |nester| {
                        let one = nester.define(Real::Literal(1.0));
                        nester.emit(Stmt::Assign(flag, one));
                        Ok(())
                    })
                }
            }
        })?;
        Ok(flag)
    }

    /// The conjuncts that say that arguments are within axes, without those that are known.
    pub fn ranges_of(&mut self, args: &[Affine], dims: &[Size]) -> Result<Vec<Pred>> {
        let mut ranges = Vec::new();
        for (a, n) in args.iter().zip(dims) {
            if self.range_level(a, n).is_none() {
                ranges.extend(Pred::in_range(a, n)?.conjuncts().iter().cloned());
            }
        }
        self.prune(ranges)
    }

    /// The place of the largest or smallest element along the last axis; the source is in range.
    pub fn extremum(&mut self, x: VarId, view: View, source: &[Affine]) -> Result<IndexId> {
        if let Some(found) = self.extremum_found(x, view, source) {
            return Ok(found);
        }
        let dims = &self.program.stmts[x].dims;
        let extent = dims.last().cloned().ok_or_else(|| Error::bug(PASS, "an extremum of a number"))?;
        let mut level = 0;
        for (a, n) in source.iter().zip(dims) {
            level = level.max(self.range_level(a, n).unwrap_or(self.innermost()));
        }
        let level = self.past_tests(level);
        self.decide(Decision::Extremum {});
        self.at_level(level, |nester| {
            let (index, at) = (nester.fresh_index(), nester.fresh_index());
            let place: Vec<Affine> = source.iter().cloned().chain([at.into()]).collect();
            let mut value = None;
            let body = nester.body(false, &mut |nester| {
                nester.claim_index(at, &extent);
                value = Some(nester.element(x, &place)?);
                Ok(())
            })?;
            let value = value.ok_or_else(|| Error::bug(PASS, "an extremum without elements"))?;
            nester.emit(Stmt::Extremum { index, view, extent: extent.clone(), at, body, value });
            nester.remember_extremum(x, view, source, index);
            Ok(index)
        })
    }

    /// The place of a tuple, which may be anywhere, in the view whose first axes are known furthest out: the keys of what is left come in
    /// order.
    pub fn locate(&mut self, relation: RelationId, args: &[Affine]) -> Result<Found> {
        let mut axes = self.program.signature.stored_order(relation);
        if let Some((_, node)) = self.entry(relation, args) {
            return Ok(Found { node, axes });
        }
        if !self.program.signature.is_map(RelationRef::Input(relation)) {
            let shape = &self.program.signature.relations[relation].shape;
            let known = |k: &usize| self.range_level(args.get(*k)?, shape.get(*k)?);
            axes.sort_by_key(|k| known(k).unwrap_or(usize::MAX));
        }
        let args: Vec<Affine> = axes.iter().filter_map(|k| args.get(*k).cloned()).collect();
        let name = self.relation_name(relation);
        self.decide(match axes.as_slice() {
            [1, 0] => Decision::SearchInColumn { relation: name },
            axes if axes.is_sorted() => Decision::SearchInRow { relation: name },
            axes => Decision::Search { relation: name, axes: List(axes.to_vec()) },
        });
        let (first, rest) = args.split_first().ok_or_else(|| Error::bug(PASS, "a relation without axes"))?;
        let rows = self.own_array(relation, &axes, Part::Rows);
        let mut segment = Segment { pointers: rows, at: first.clone() };
        if rest.is_empty() {
            return Ok(Found { node: self.find(segment, None), axes });
        }
        let mut node = first.clone();
        for (level, key) in (1u8..).zip(rest) {
            let nodes = self.own_array(relation, &axes, Part::Nodes(level));
            node = self.find(segment.clone(), Some((nodes, key.clone())));
            if usize::from(level) + 1 < axes.len() {
                segment =
                    Segment { pointers: self.own_array(relation, &axes, Part::Children(level)), at: node.clone() };
            }
        }
        Ok(Found { node, axes })
    }

    /// The entry at a place that was found.
    pub fn entry_at(&mut self, relation: RelationId, found: &Found) -> Affine {
        if found.axes == self.program.signature.stored_order(relation) {
            return found.node.clone();
        }
        let array = self.array(relation, &found.axes, Part::Entries);
        let index = self.fresh_index();
        self.emit(Stmt::Let { index, array, at: found.node.clone(), step: None });
        index.into()
    }

    pub fn relation_name(&self, relation: RelationId) -> String {
        self.program.signature.relations.get(relation).map_or_else(|| relation.to_string(), |r| r.name.clone())
    }

    /// Whether there is an index such that.
    fn witness(&mut self, index: IndexId, extent: &Size, body: &Pred) -> Result<Cond> {
        if let Some(cond) = self.row_is_not_empty(index, extent, body)? {
            return Ok(cond);
        }
        let mut indices = vec![(index, extent.clone())];
        let mut body = body;
        while let Pred::Exists { index, extent, body: inner } = body {
            indices.push((*index, extent.clone()));
            body = inner;
        }
        let flag = self.local();
        let conjuncts = if body.is_false() { vec![Pred::False] } else { body.conjuncts().to_vec() };
        self.points(indices, conjuncts, &mut |nester, _| {
            let one = nester.define(Real::Literal(1.0));
            nester.emit(Stmt::Accumulate(flag, one));
            Ok(())
        })?;
        Ok(Cond::Support(flag))
    }

    /// `exists k. R(a, k, b)` is a search for the node of the known arguments.
    fn row_is_not_empty(&mut self, index: IndexId, extent: &Size, body: &Pred) -> Result<Option<Cond>> {
        let mut free = vec![(index, extent.clone())];
        let mut body = body;
        while let Pred::Exists { index, extent, body: inner } = body {
            free.push((*index, extent.clone()));
            body = inner;
        }
        let Pred::Relation { relation: RelationRef::Input(relation), args, holds: true } = body else {
            return Ok(None);
        };
        let Some(shape) = self.program.signature.relations.get(*relation).map(|r| r.shape.clone()) else {
            return Ok(None);
        };
        let position = |a: &Affine| a.as_index().and_then(|i| free.iter().position(|(j, _)| *j == i));
        let mut seen = Vec::new();
        let (mut axes, mut open) = (Vec::new(), Vec::new());
        for (axis, (a, n)) in args.iter().zip(&shape).enumerate() {
            match position(a) {
                Some(k) if free.get(k).is_some_and(|(_, extent)| extent == n) && !seen.contains(&k) => {
                    seen.push(k);
                    open.push(axis);
                }
                Some(_) => return Ok(None),
                None if free.iter().any(|(i, _)| a.mentions(*i)) => return Ok(None),
                None => axes.push(axis),
            }
        }
        if seen.len() != free.len() {
            return Ok(None);
        }
        let known = axes.len();
        axes.extend(open);
        let mut segment = match known {
            0 => Segment { pointers: self.array(*relation, &axes, Part::Roots), at: Affine::constant(0) },
            _ => Segment { pointers: self.array(*relation, &axes, Part::Rows), at: args[axes[0]].clone() },
        };
        for level in 1..known {
            let depth = u8::try_from(level).map_err(|_| Error::bug(PASS, "too many axes"))?;
            let nodes = self.array(*relation, &axes, Part::Nodes(depth));
            let node = self.find(segment, Some((nodes, args[axes[level]].clone())));
            segment = Segment { pointers: self.array(*relation, &axes, Part::Children(depth)), at: node };
        }
        let relation = self.relation_name(*relation);
        self.decide(Decision::Starts { relation });
        Ok(Some(Cond::NonNegative(self.find(segment, None))))
    }
}

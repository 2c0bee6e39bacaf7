//! Finds the number of points of a guard as a formula.
//!
//! | guard | count | why |
//! |---|---|---|
//! | `p and q`, without a common index | product | the points are pairs |
//! | `p or q` | `#p + #q - #(p and q)` | |
//! | `p and a != 0` | `#p - #(p and a = 0)`, likewise `not R(..)` | where `a` has a value: no map applications |
//! | `i = a and p` | `p[a/i] and 0 <= a < n` | one `i` for each other point |
//! | `f(b, s)` of a map, `s` in no other atom | `b` in the range of the map | one target for each source |
//! | `R(i, j)`, `i` and `j` in no other atom | the number `|R|` of entries | |
//! | `exists k. R(i, k)`, likewise | the number `|R(*, _)|` of non-empty rows | |
//! | bounds with unit coefficients | see below | |
//! | anything else | opaque | |
//!
//! **Bounds.** An index lies between the largest of its lower bounds and the smallest of its upper ones. For each pair `l`, `u` of bounds
//! the case in which they are these is summed: `sum i = l .. u. q` is a polynomial, correct for `l <= u + 1` (see
//! [`Polynomial::sum`]). That `l` and `u` are the tightest, and `l <= u + 1`, become bounds on what is left, until only predicates on
//! sizes are. Cases that the facts exclude are dropped, and so are conditions that follow from them.

use std::cell::OnceCell;

use super::super::fix::simplest_solution;
use super::super::knowledge::Relations;
use super::super::polynomial::{Polynomial, Rational, Unknown};
use super::super::{Facts, exists, exists_all};
use super::{Count, Factors};
use crate::base::IndexId;
use crate::index::{Affine, Checked, Overflow, Pred, RelationRef, Size, Var};

/// How many rewriting steps one count may take; past it the points stay opaque.
const MAX_STEPS: usize = 256;
/// How many pieces a formula may have; past it the points stay opaque.
const MAX_CASES: usize = 64;

/// The number of points of some indices, with their ranges, at which a guard holds.
///
/// Indices that are not listed are those of enclosing ranges: the count is a formula in them, and the facts may speak of them.
///
/// # Errors
/// Where a coefficient leaves the range of 128-bit integers.
pub fn count(indices: &[(IndexId, Size)], guard: &Pred, facts: &Facts, relations: &dyn Relations) -> Checked<Count> {
    Counter { facts, relations, steps: MAX_STEPS }.count(indices, guard)
}

/// The number of points of the kept indices for which the dropped ones have at least one point at which the guard holds.
///
/// # Errors
/// As [`count`], and where a coefficient leaves the range of 64-bit integers while indices are eliminated.
pub fn count_projected(
    kept: &[(IndexId, Size)],
    dropped: &[(IndexId, Size)],
    guard: &Pred,
    facts: &Facts,
    relations: &dyn Relations,
) -> Checked<Count> {
    count(kept, &exists_all(dropped, guard)?, facts, relations)
}

/// Counting in progress.
struct Counter<'a> {
    facts: &'a Facts,
    relations: &'a dyn Relations,
    /// How many steps are left.
    steps: usize,
}

/// Indices that atoms connect, and these atoms.
struct Component {
    indices: Vec<(IndexId, Size)>,
    atoms: Vec<Pred>,
}

impl Counter<'_> {
    /// Takes a step; whether there was one left.
    fn step(&mut self) -> bool {
        let left = self.steps.checked_sub(1);
        self.steps = left.unwrap_or(0);
        left.is_some()
    }

    fn count(&mut self, indices: &[(IndexId, Size)], guard: &Pred) -> Checked<Count> {
        if guard.is_false() {
            return Ok(Count::zero());
        }
        let (components, conditions) = components(indices, guard.conjuncts());
        let (factor, conditions) = self.emptiness(conditions)?;
        let mut product = Count::polynomial(factor).given(&Pred::all(conditions))?;
        for Component { indices, atoms } in components {
            let factor = match (indices.as_slice(), atoms.is_empty()) {
                ([(_, extent)], true) => self.range(extent)?,
                (indices, _) => self.component(indices, &Pred::all(atoms))?,
            };
            product = product.mul(&factor)?;
        }
        let plain = product.pieces.keys().all(|factors| factors.condition.is_true());
        if plain { Ok(product) } else { product.simplify(self.facts) }
    }

    /// `[exists i, j. R(i, j)]` is the number `|R(_, _)|`: the other conditions, and the product of these.
    fn emptiness(&self, conditions: Vec<Pred>) -> Checked<(Polynomial, Vec<Pred>)> {
        let mut product = Polynomial::constant(1);
        let mut others = Vec::new();
        for p in conditions {
            match Projection::of(&p, self.relations)? {
                Some(Projection { relation: RelationRef::Input(relation), places, .. })
                    if places.iter().all(Option::is_none) =>
                {
                    let kept = vec![false; places.len()];
                    product = product.mul(&Polynomial::unknown(Unknown::Projected { relation, kept }))?;
                }
                _ => others.push(p),
            }
        }
        Ok((product, others))
    }

    /// `max(n, 0)`.
    fn range(&mut self, extent: &Size) -> Checked<Count> {
        // Extents are made of sizes.
        let Some(length) = Polynomial::affine(extent) else { return Err(Overflow) };
        let condition = match is_natural(extent) {
            true => Pred::True,
            false => Pred::non_negative(extent.clone()),
        };
        Ok(Count::piece(condition, Vec::new(), length))
    }

    /// A formula if there is one, else the set.
    fn component(&mut self, indices: &[(IndexId, Size)], guard: &Pred) -> Checked<Count> {
        let mut cases = Vec::new();
        let mut whole = vec![guard.clone()];
        for (i, extent) in indices {
            whole.push(Pred::in_range(&Affine::index(*i), extent)?);
        }
        let names: Vec<IndexId> = indices.iter().map(|(i, _)| *i).collect();
        // Where numbers do not fit the points can still be visited.
        let closed = self.closed(&names, &Pred::all(whole), &Polynomial::constant(1), &mut cases);
        if closed != Ok(true) || cases.len() > MAX_CASES {
            return Count::opaque(indices, guard);
        }
        let mut sum = Count::zero();
        for (condition, polynomial) in cases {
            sum.insert(Factors { condition, sets: Vec::new() }, &polynomial)?;
        }
        sum.simplify(self.facts)
    }

    /// `#{indices | guard} * factor` as `cases`; the guard holds the ranges of the indices. False where there is no formula.
    fn closed(
        &mut self,
        indices: &[IndexId],
        guard: &Pred,
        factor: &Polynomial,
        cases: &mut Vec<(Pred, Polynomial)>,
    ) -> Checked<bool> {
        if !self.step() {
            return Ok(false);
        }
        if guard.is_false() {
            return Ok(true);
        }
        let minus = || factor.scale(Rational::integer(-1));
        for (at, p) in guard.conjuncts().iter().enumerate().filter(|(_, p)| mentions_any(p, indices)) {
            let rest = || without(guard, &[at]);
            match p {
                // #[r and (p or q)]  ==  #[r and p] + #[r and q] - #[r and p and q]
                Pred::Any(ps) => {
                    let (first, others) = (ps[0].clone(), Pred::any(ps[1..].iter().cloned()));
                    let both = first.clone().and(others.clone());
                    return Ok(self.closed(indices, &rest().and(first), factor, cases)?
                        && self.closed(indices, &rest().and(others), factor, cases)?
                        && self.closed(indices, &rest().and(both), &minus()?, cases)?);
                }
                // #[r and not p]  ==  #r - #[r and p]
                Pred::NonZero(_) | Pred::Relation { holds: false, .. } if !applies(p) => {
                    let Some(p) = p.negate() else { return Ok(false) };
                    return Ok(self.closed(indices, &rest(), factor, cases)?
                        && self.closed(indices, &rest().and(p), &minus()?, cases)?);
                }
                Pred::Exists { index, extent, body } => {
                    let simpler = exists(*index, extent, body)?;
                    if simpler != *p {
                        return self.closed(indices, &rest().and(simpler), factor, cases);
                    }
                }
                _ => {}
            }
        }
        if let Some((at, i, value)) = simplest_solution(indices, guard.conjuncts()) {
            // The range of i is among the rest.
            let rest = without(guard, &[at]).substitute(&|j| (j == i).then(|| value.clone()))?;
            let indices: Vec<IndexId> = indices.iter().copied().filter(|j| *j != i).collect();
            return self.closed(&indices, &rest, factor, cases);
        }
        self.data(indices, guard, factor, cases)
    }

    /// The same, without `or`, negations and equations with a solution.
    fn data(
        &mut self,
        indices: &[IndexId],
        guard: &Pred,
        factor: &Polynomial,
        cases: &mut Vec<(Pred, Polynomial)>,
    ) -> Checked<bool> {
        let atoms = guard.conjuncts();
        for (at, p) in atoms.iter().enumerate().filter(|(_, p)| mentions_any(p, indices)) {
            match p {
                Pred::NonNegative(a) if applies(p) => {
                    let Some(defined) = self.bound_on_target(a)? else { return Ok(false) };
                    return self.closed(indices, &without(guard, &[at]).and(defined), factor, cases);
                }
                Pred::NonNegative(_) => {}
                Pred::Relation { .. } | Pred::Exists { .. } if !applies(p) => {
                    let Some(data) = self.entries(at, p, indices, atoms)? else { return Ok(false) };
                    let indices: Vec<IndexId> = indices.iter().copied().filter(|i| !data.indices.contains(i)).collect();
                    let rest = without(guard, &data.atoms).and(data.condition);
                    return self.closed(&indices, &rest, &factor.mul(&data.count)?, cases);
                }
                _ => return Ok(false),
            }
        }
        self.sum(indices, guard, factor, cases)
    }

    /// A bound on the target of a map that says no more than that the source has one: the source is in range.
    fn bound_on_target(&self, a: &Affine) -> Checked<Option<Pred>> {
        let mut applications = a.terms().iter().filter_map(|(v, k)| match v {
            Var::Apply(application) => Some((application, *k)),
            _ => None,
        });
        let (Some((application, k)), None) = (applications.next(), applications.next()) else { return Ok(None) };
        let Some((target, source)) = self.map_shape(application.map) else { return Ok(None) };
        let rest =
            Affine::from_terms(a.terms().iter().filter(|(v, _)| !matches!(v, Var::Apply(_))).cloned(), a.offset())?;
        // 0 <= f(b) + c  where 0 <= c;  0 <= c - f(b)  where the last target is at most c.
        let slack = match k {
            1 => rest,
            -1 => rest.sub(target)?.add_constant(1)?,
            _ => return Ok(None),
        };
        if source.len() != application.args.len() || !Context::new(self.facts, &Pred::True).implies(&slack) {
            return Ok(None);
        }
        self.has_target(application.map, &application.args).map(Some)
    }

    /// The ranges of the target and of the source of a map.
    fn map_shape(&self, map: RelationRef) -> Option<(&Size, &[Size])> {
        self.relations.shape(map).filter(|_| self.relations.is_map(map))?.split_last()
    }

    /// Where a map has a target.
    fn has_target(&self, map: RelationRef, source: &[Affine]) -> Checked<Pred> {
        let Some((target, shape)) = self.map_shape(map) else { return Ok(Pred::False) };
        let mut conditions = Vec::new();
        for (a, n) in source.iter().zip(shape) {
            conditions.push(Pred::in_range(a, n)?);
        }
        if matches!(map, RelationRef::Computed { .. }) {
            conditions.push(Pred::lt(&Affine::constant(0), target)?);
        }
        Ok(Pred::all(conditions))
    }

    /// The points of indices that one atom of data is alone with.
    fn entries(&self, at: usize, atom: &Pred, indices: &[IndexId], atoms: &[Pred]) -> Checked<Option<Entries>> {
        let Some(projection) = Projection::of(atom, self.relations)? else { return Ok(None) };
        let Projection { relation, shape, places } = &projection;
        let kept: Vec<(&Affine, &Size)> =
            places.iter().zip(shape.iter()).filter_map(|(place, n)| Some((place.as_ref()?, n))).collect();
        // The last place of a map, where it is free or gone, says only that the source has a target.
        if let (Some((target, source)), true) = (places.split_last(), self.relations.is_map(*relation)) {
            let source: Option<Vec<Affine>> = source.iter().cloned().collect();
            let target: Vec<(&Affine, &Size)> = target.iter().zip(shape.last()).collect();
            if let Some(source) = source
                && let Some((indices, mut used)) = self.alone(at, &target, indices, atoms)?
                && !source.iter().any(|a| indices.iter().any(|i| a.mentions(*i)))
            {
                used.push(at);
                let condition = self.has_target(*relation, &source)?;
                return Ok(Some(Entries { indices, atoms: used, condition, count: Polynomial::constant(1) }));
            }
        }
        let RelationRef::Input(relation) = *relation else { return Ok(None) };
        let Some((indices, mut used)) = self.alone(at, &kept, indices, atoms)? else { return Ok(None) };
        used.push(at);
        let unknown = match kept.len() == places.len() {
            true => Unknown::Entries(relation),
            false => Unknown::Projected { relation, kept: places.iter().map(Option::is_some).collect() },
        };
        Ok(Some(Entries { indices, atoms: used, condition: Pred::True, count: Polynomial::unknown(unknown) }))
    }

    /// The indices of some places of atom number `at`, with the bounds on them, where these follow from the ranges of the places, and where
    /// the values of the places are in one-to-one correspondence with those of the indices.
    fn alone(
        &self,
        at: usize,
        places: &[(&Affine, &Size)],
        indices: &[IndexId],
        atoms: &[Pred],
    ) -> Checked<Option<(Vec<IndexId>, Vec<usize>)>> {
        let mut own: Vec<IndexId> = Vec::new();
        let mut known = Vec::new();
        for (a, n) in places {
            let mut inner = a.terms().iter().filter_map(|(v, k)| match v {
                Var::Index(i) if indices.contains(i) => Some((*i, *k)),
                _ => None,
            });
            match (inner.next(), inner.next()) {
                (Some((i, 1 | -1)), None) if !own.contains(&i) => own.push(i),
                _ => return Ok(None),
            }
            known.push(Pred::in_range(a, n)?);
        }
        let mut bounds = Vec::new();
        for (other, p) in atoms.iter().enumerate().filter(|(other, _)| *other != at) {
            match p {
                p if !mentions_any(p, &own) => known.extend(matches!(p, Pred::NonNegative(_)).then(|| p.clone())),
                Pred::NonNegative(a) => bounds.push((other, a)),
                _ => return Ok(None),
            }
        }
        let context = Pred::all(known);
        let context = Context::new(self.facts, &context);
        let implied = bounds.iter().all(|(_, a)| context.implies(a));
        Ok(implied.then(|| (own, bounds.into_iter().map(|(other, _)| other).collect())))
    }

    /// The same for bounds alone, and `value` a polynomial that may mention the indices.
    fn sum(
        &mut self,
        indices: &[IndexId],
        guard: &Pred,
        value: &Polynomial,
        cases: &mut Vec<(Pred, Polynomial)>,
    ) -> Checked<bool> {
        if !self.step() {
            return Ok(false);
        }
        if guard.is_false() {
            return Ok(true);
        }
        if indices.is_empty() {
            cases.push((guard.clone(), value.clone()));
            return Ok(true);
        }
        let Some(range) = indices.iter().rev().filter_map(|i| Range::of(*i, guard)).min_by_key(Range::cases) else {
            return match self.without_implied(indices, guard)? {
                Some(guard) => self.sum(indices, &guard, value, cases),
                None => Ok(false),
            };
        };
        let Range { index, rest, mut lower, mut upper } = range;
        let context = Context::new(self.facts, &rest);
        retain_tightest(&mut lower, |a, b| Ok(context.implies(&a.sub(b)?)))?;
        retain_tightest(&mut upper, |a, b| Ok(context.implies(&b.sub(a)?)))?;
        let left: Vec<IndexId> = indices.iter().copied().filter(|i| *i != index).collect();
        for (x, first) in lower.iter().enumerate() {
            for (y, last) in upper.iter().enumerate() {
                let mut conditions = vec![last.sub(first)?.add_constant(1)?];
                // Of equal bounds the first counts.
                for (z, other) in lower.iter().enumerate().filter(|(z, _)| *z != x) {
                    conditions.push(first.sub(other)?.add_constant(-i64::from(z < x))?);
                }
                for (z, other) in upper.iter().enumerate().filter(|(z, _)| *z != y) {
                    conditions.push(other.sub(last)?.add_constant(-i64::from(z < y))?);
                }
                let conditions =
                    Pred::all(conditions.into_iter().filter(|a| !context.implies(a)).map(Pred::non_negative));
                let (Some(first), Some(last)) = (Polynomial::affine(first), Polynomial::affine(last)) else {
                    return Ok(false);
                };
                let value = value.sum(index, &first, &last)?;
                if !self.sum(&left, &rest.clone().and(conditions), &value, cases)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The guard without a bound that follows from the others, if there is one.
    fn without_implied(&self, indices: &[IndexId], guard: &Pred) -> Checked<Option<Pred>> {
        for (at, p) in guard.conjuncts().iter().enumerate() {
            let Pred::NonNegative(a) = p else { continue };
            let unit = |v: &Var, k: i64| !matches!(v, Var::Index(i) if indices.contains(i)) || k.unsigned_abs() == 1;
            if a.terms().iter().all(|(v, k)| unit(v, *k)) {
                continue;
            }
            let rest = without(guard, &[at]);
            if Context::new(self.facts, &rest).implies(a) {
                return Ok(Some(rest));
            }
        }
        Ok(None)
    }
}

/// What an atom of data counts.
struct Entries {
    /// The indices that it determines.
    indices: Vec<IndexId>,
    /// The atoms that are used up.
    atoms: Vec<usize>,
    /// What is left to hold.
    condition: Pred,
    /// How many values the indices take.
    count: Polynomial,
}

/// `exists k, .. R(a, k, ..)`: a relation of which some places are dropped.
struct Projection<'a> {
    relation: RelationRef,
    shape: &'a [Size],
    /// Nothing for a place that is dropped.
    places: Vec<Option<Affine>>,
}

impl<'a> Projection<'a> {
    fn of(atom: &Pred, relations: &'a dyn Relations) -> Checked<Option<Self>> {
        let mut binders: Vec<(IndexId, &Size)> = Vec::new();
        let mut body = atom;
        while let Pred::Exists { index, extent, body: inner } = body {
            binders.push((*index, extent));
            body = inner;
        }
        let Pred::Relation { relation, args, holds: true } = body else { return Ok(None) };
        let Some(shape) = relations.shape(*relation).filter(|shape| shape.len() == args.len()) else { return Ok(None) };
        let mut places: Vec<Option<Affine>> = args.iter().cloned().map(Some).collect();
        for (k, extent) in &binders {
            // Each bound index is one place, over all its range.
            let mut at = (0..args.len()).filter(|at| args[*at].mentions(*k));
            match (at.next(), at.next()) {
                (Some(at), None) if args[at].as_index() == Some(*k) && covers(extent, &shape[at])? => places[at] = None,
                _ => return Ok(None),
            }
        }
        Ok(Some(Projection { relation: *relation, shape, places }))
    }
}

/// Whether `n <= extent`, plainly.
fn covers(extent: &Size, n: &Size) -> Checked<bool> {
    Ok(is_natural(&extent.sub(n)?))
}

/// The bounds of an index, all with unit coefficients.
struct Range {
    index: IndexId,
    /// The conjuncts that do not mention it.
    rest: Pred,
    lower: Vec<Affine>,
    upper: Vec<Affine>,
}

impl Range {
    fn of(index: IndexId, guard: &Pred) -> Option<Range> {
        let (mut rest, mut lower, mut upper) = (Vec::new(), Vec::new(), Vec::new());
        for p in guard.conjuncts() {
            match p {
                p if !p.mentions(index) => rest.push(p.clone()),
                Pred::NonNegative(a) => {
                    let bounds = if a.coefficient(&Var::Index(index)) > 0 { &mut lower } else { &mut upper };
                    bounds.push(a.root(index)?);
                }
                _ => return None,
            }
        }
        (!lower.is_empty() && !upper.is_empty()).then(|| Range { index, rest: Pred::all(rest), lower, upper })
    }

    fn cases(&self) -> usize {
        self.lower.len() * self.upper.len()
    }
}

/// Drops bounds that another one is always at least as tight as.
fn retain_tightest(bounds: &mut Vec<Affine>, tighter: impl Fn(&Affine, &Affine) -> Checked<bool>) -> Checked<()> {
    let mut at = 0;
    while at < bounds.len() {
        let mut dominated = false;
        for other in (0..bounds.len()).filter(|other| *other != at) {
            dominated = dominated || tighter(&bounds[other], &bounds[at])?;
        }
        if dominated {
            bounds.remove(at);
        } else {
            at += 1;
        }
    }
    Ok(())
}

/// What is known where a case is looked at: first asked is what two bounds at a time give, then a proof is sought.
struct Context<'a> {
    facts: &'a Facts,
    guard: &'a Pred,
    known: OnceCell<Facts>,
}

impl<'a> Context<'a> {
    fn new(facts: &'a Facts, guard: &'a Pred) -> Self {
        Context { facts, guard, known: OnceCell::new() }
    }

    /// Whether `0 <= a` follows.
    fn implies(&self, a: &Affine) -> bool {
        if is_natural(a) {
            return true;
        }
        if a.as_constant().is_some() {
            return false;
        }
        self.implies_simply(a) || self.known().proves(&Pred::non_negative(a.clone()))
    }

    fn known(&self) -> &Facts {
        self.known.get_or_init(|| self.facts.under([], [self.guard]))
    }

    /// `a = b + c + d` with bounds `0 <= b` and `0 <= c`, and `d` a sum of sizes.
    fn implies_simply(&self, a: &Affine) -> bool {
        let bounds = || {
            self.guard.conjuncts().iter().filter_map(|p| match p {
                Pred::NonNegative(b) => Some(b),
                _ => None,
            })
        };
        for (at, b) in bounds().enumerate() {
            // A bound that has nothing in common only makes it worse.
            if !b.terms().iter().any(|(v, k)| !matches!(v, Var::Size(_)) && a.coefficient(v).signum() == k.signum()) {
                continue;
            }
            let Ok(rest) = a.sub(b) else { continue };
            if is_natural(&rest) {
                return true;
            }
            if bounds().skip(at + 1).any(|c| rest.sub(c).is_ok_and(|rest| is_natural(&rest))) {
                return true;
            }
        }
        false
    }
}

/// Whether a size is plainly not negative.
pub(super) fn is_natural(a: &Affine) -> bool {
    a.offset() >= 0 && a.terms().iter().all(|(v, k)| matches!(v, Var::Size(_)) && *k > 0)
}

fn mentions_any(p: &Pred, indices: &[IndexId]) -> bool {
    indices.iter().any(|i| p.mentions(*i))
}

/// Whether maps are applied in it.
pub(super) fn applies(p: &Pred) -> bool {
    let mut found = false;
    p.visit_affine(&mut |a| found |= a.terms().iter().any(|(v, _)| matches!(v, Var::Apply(_))));
    found
}

/// The other conjuncts.
fn without(guard: &Pred, dropped: &[usize]) -> Pred {
    let kept = guard.conjuncts().iter().enumerate().filter(|(at, _)| !dropped.contains(at));
    Pred::all(kept.map(|(_, p)| p.clone()))
}

/// Indices that share no atom, and the atoms without any index.
fn components(indices: &[(IndexId, Size)], atoms: &[Pred]) -> (Vec<Component>, Vec<Pred>) {
    let mut components: Vec<Component> =
        indices.iter().map(|pair| Component { indices: vec![pair.clone()], atoms: Vec::new() }).collect();
    let mut conditions = Vec::new();
    for p in atoms {
        let touched = |c: &Component| c.indices.iter().any(|(i, _)| p.mentions(*i));
        let Some(home) = components.iter().position(touched) else {
            conditions.push(p.clone());
            continue;
        };
        while let Some(at) = components.iter().skip(home + 1).position(touched) {
            let other = components.remove(home + 1 + at);
            components[home].indices.extend(other.indices);
            components[home].atoms.extend(other.atoms);
        }
        components[home].atoms.push(p.clone());
    }
    (components, conditions)
}

//! What a node costs: scalar work first, then numbers stored, then its length as text.
//!
//! Costs are compared asymptotically: every size is a multiple of one large number `N`, so a cost is a polynomial in `N`, and the
//! higher power decides. The multiples are hints; the number of tuples of a relation is a multiple of `N` too. In order,
//!
//! 1. the power of `N` that work or storage grows with, whichever is higher: what is stored has to be written;
//! 2. the same power where relations have all tuples there may be: of what costs as much for tuples here and there, the better one is that which gets no
//!    worse where they stand together, as in the fibres of a tensor;
//! 3. the work, where a number that is stored counts as half an operation;
//! 4. the storage, and the length.
//!
//! A tensor is stored as a box, or at the tuples of a relation over some of its axes, times the other ones. It is larger than what it is made of
//! then, so its numbers go through memory, and count as four operations each.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use super::expr::{Expr, Real};
use super::graph::Scope;
use super::lang::{Head, Node, Slot};
use crate::base::{Id as _, IndexId, RelationId, work};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Op, Primitive};
use crate::solver::estimate::{self, Growth, Hints};
use crate::solver::{Relations as _, have_one_value};
use crate::tssa::patterns::{Pattern, Projected};
use crate::ty::Signature;

/// The operations that a stored number counts for.
pub(super) const STORED: f64 = 0.5;

/// How many numbers each one counts for of a tensor on the tuples of a relation and on other axes.
const BESIDE_TUPLES: f64 = 8.0;

/// What share of a coefficient is more than rounding.
const PLAIN: f64 = 1e-6;

/// The length of a name.
const NAME: f64 = 1.0;

/// The cost of a node, or of several.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    work: Growth,
    stored: Growth,
    /// The work, where a number that is stored counts too.
    effort: Growth,
    /// The highest power of either.
    power: usize,
    /// The effort where relations have all tuples.
    full: Growth,
    length: f64,
}

impl Cost {
    /// Nothing.
    pub(super) fn zero() -> Cost {
        Cost::new(Growth::zero(), Growth::zero(), Growth::zero(), 0.0)
    }

    fn new(work: Growth, stored: Growth, full: Growth, length: f64) -> Cost {
        let effort = effort(&work, &stored);
        let power = work.leading().0.max(stored.leading().0);
        Cost { work, stored, effort, power, full, length }
    }

    /// The cost of a whole program, whatever its length: its work and what it stores, and both where relations have all tuples.
    pub(super) fn of([work, stored]: [Growth; 2], full: [Growth; 2]) -> Cost {
        Cost::new(work, stored, effort(&full[0], &full[1]), 0.0)
    }

    /// The power that this grows with where relations have all tuples.
    pub(super) fn full_power(&self) -> usize {
        self.full.leading().0
    }

    /// Compares what grows with `N`: the highest power, that where relations have all tuples, then the work, where a number that is stored counts too.
    pub(super) fn compare_effort(&self, other: &Cost) -> Ordering {
        let powers = self.power.cmp(&other.power).then_with(|| self.full_power().cmp(&other.full_power()));
        powers.then_with(|| self.effort.compare(&other.effort))
    }

    /// Compares the operations alone.
    #[cfg(test)]
    pub(super) fn compare_work(&self, other: &Cost) -> Ordering {
        self.work.compare(&other.work)
    }

    /// What it is at some `N`.
    #[cfg(test)]
    pub(super) fn at(&self, n: f64) -> f64 {
        self.effort.at(n)
    }

    pub(super) fn compare(&self, other: &Cost) -> Ordering {
        self.compare_effort(other)
            .then_with(|| self.stored.compare(&other.stored))
            .then_with(|| self.length.total_cmp(&other.length))
    }
}

/// Work, where half a unit is added for each number stored.
fn effort(work: &Growth, stored: &Growth) -> Growth {
    work.add(&stored.scale(STORED))
}

/// The costs of many nodes, to be added up: of each the coefficients of work, of storage and of the effort where relations have all tuples, as many as
/// the largest has, and the length.
pub(super) struct Costs {
    powers: usize,
    rows: Vec<f64>,
}

impl Costs {
    pub(super) fn new<'c>(costs: impl Iterator<Item = &'c Cost> + Clone) -> Costs {
        let growths = |cost: &'c Cost| [&cost.work, &cost.stored, &cost.full].map(Growth::coefficients);
        let powers = costs.clone().flat_map(growths).map(<[f64]>::len).max().unwrap_or(0);
        let mut rows = Vec::new();
        for cost in costs {
            for coefficients in growths(cost) {
                let padding = powers - coefficients.len();
                rows.extend(coefficients.iter().copied().chain(std::iter::repeat_n(0.0, padding)));
            }
            rows.push(cost.length);
        }
        Costs { powers, rows }
    }

    fn width(&self) -> usize {
        3 * self.powers + 1
    }

    /// The cost of a node.
    pub(super) fn of(&self, node: usize) -> &[f64] {
        let width = self.width();
        self.rows.get(node * width..(node + 1) * width).unwrap_or_default()
    }

    /// No node.
    pub(super) fn nothing(&self) -> Sum {
        Sum { powers: self.powers, row: smallvec![0.0; self.width()] }
    }
}

/// [`Costs`] that were added up.
pub(super) struct Sum {
    powers: usize,
    row: SmallVec<[f64; 16]>,
}

impl Sum {
    /// The coefficients of work and storage, those of the effort where relations have all tuples, and the length.
    fn parts(&self) -> ([&[f64]; 3], f64) {
        let (work, rest) = self.row.split_at(self.powers);
        let (stored, rest) = rest.split_at(self.powers);
        let (full, length) = rest.split_at(self.powers);
        ([work, stored, full], length.first().copied().unwrap_or(0.0))
    }

    pub(super) fn add(&mut self, cost: &[f64]) {
        work::charge(1 + cost.len() / 8);
        self.row.iter_mut().zip(cost).for_each(|(a, b)| *a += b);
    }

    /// Adds the multiple of a cost.
    pub(super) fn add_times(&mut self, cost: &[f64], factor: f64) {
        self.row.iter_mut().zip(cost).for_each(|(a, b)| *a += factor * b);
    }

    /// Adds names for tensors.
    pub(super) fn add_names(&mut self, count: f64) {
        if let Some(length) = self.row.last_mut() {
            *length += count * NAME;
        }
    }

    /// The sum with one more cost.
    pub(super) fn plus(&self, cost: &[f64]) -> Sum {
        let mut sum = Sum { powers: self.powers, row: self.row.clone() };
        sum.add(cost);
        sum
    }

    /// Whether whatever contains this costs no less than another, as far as that is plain.
    pub(super) fn is_no_lower(&self, other: &Cost) -> bool {
        let ([work, stored, full], length) = self.parts();
        // It may be lower for relations that have all tuples, unless it grows faster than that for the others.
        let highest = |growths: &[&[f64]]| {
            (0..self.powers).rev().find(|power| growths.iter().any(|growth| growth[*power] != 0.0)).unwrap_or(0)
        };
        let power = highest(&[work, stored]);
        match highest(&[full]).cmp(&other.full_power()) {
            Ordering::Less => return power > other.power,
            Ordering::Greater if power >= other.power => return true,
            Ordering::Greater | Ordering::Equal => {}
        }
        let of = |growth: &Growth, power: usize| growth.coefficients().get(power).copied().unwrap_or(0.0);
        for power in (0..self.powers).rev() {
            let (effort, known) = (work[power] + STORED * stored[power], of(&other.effort, power));
            if known >= 0.0 && effort > known + PLAIN * known {
                return true;
            }
            if effort != known {
                return false;
            }
        }
        stored.iter().enumerate().all(|(power, stored)| *stored == of(&other.stored, power)) && length >= other.length
    }

    /// Whether a cost that changes by this plainly becomes no lower: nothing of higher power changes, and the change is no matter of rounding.
    pub(super) fn raises(&self, cost: &Cost) -> bool {
        let ([work, stored, full], length) = self.parts();
        if full.iter().rev().find(|change| **change != 0.0).is_some_and(|change| *change < 0.0) {
            return false;
        }
        let mut changes = work.iter().zip(stored).enumerate().rev();
        match changes.find(|(_, (work, stored))| **work != 0.0 || **stored != 0.0) {
            Some((power, (work, stored))) => {
                let known = cost.effort.coefficients().get(power).copied().unwrap_or(0.0);
                known >= 0.0 && work + STORED * stored > PLAIN * known
            }
            None => length >= 0.0,
        }
    }

    pub(super) fn total(&self) -> Cost {
        let (growths, length) = self.parts();
        let [work, stored, full] = growths.map(Growth::from_coefficients);
        Cost::new(work, stored, full, length)
    }
}

/// What sizes and relations are taken to be.
#[derive(Clone)]
pub(super) struct Model<'a> {
    signature: &'a Signature,
    hints: Hints,
    /// Whether there are relations of which it may make a difference that they have all tuples.
    has_relations: bool,
}

impl<'a> Model<'a> {
    /// Hints are by name, of sizes and of relations; those of unknown names say nothing.
    pub(super) fn new(signature: &'a Signature, hints: &BTreeMap<String, f64>) -> Self {
        let mut found = Hints::new();
        for (n, name) in signature.sizes.iter() {
            found.sizes.extend(hints.get(name).map(|multiple| (n, *multiple)));
        }
        for (r, relation) in signature.relations.iter() {
            found.entries.extend(hints.get(&relation.name).map(|multiple| (r, *multiple)));
        }
        let is_free = |r: RelationId| !signature.is_map(RelationRef::Input(r));
        let has_relations = signature.relations.ids().any(is_free);
        Model { signature, hints: signature.with_quotients(&found), has_relations }
    }

    /// The model where relations have all tuples, if that may make a difference.
    pub(super) fn full(&self) -> Option<Model<'a>> {
        let hints = Hints { full: true, ..self.hints.clone() };
        self.has_relations.then(|| Model { hints, has_relations: false, ..self.clone() })
    }

    /// About how many points of a box satisfy a guard.
    pub(super) fn points(&self, indices: &[(IndexId, Size)], guard: &Pred) -> Growth {
        estimate::points(indices, guard, &self.hints, self.signature)
    }

    /// How many numbers a tensor takes that is zero where a guard fails.
    pub(super) fn stored(&self, gens: &[(IndexId, Size)], guard: &Pred) -> Growth {
        let axis = |i: IndexId| gens.iter().position(|(j, _)| *j == i);
        let extent = |i: IndexId| axis(i).map(|at| &gens[at].1);
        let named = |pattern: Pattern| pattern.renamed(|i| axis(IndexId::from_index(i)));
        let patterns = Pattern::of_guard(self.signature, guard, extent).into_iter().filter_map(named);
        let (inside, weight) = stored_where(&patterns.collect::<Vec<_>>(), gens);
        self.points(gens, &inside).scale(weight)
    }

    /// How many numbers a sum takes that is stored where a relation has some tuple for it, if there is one.
    fn at_projections(&self, gens: &[(IndexId, Size)], sums: &[Size], guard: &Pred) -> Option<Growth> {
        let all: Vec<&Size> = gens.iter().map(|(_, n)| n).chain(sums).collect();
        let patterns = Pattern::of_guard(self.signature, guard, |i| all.get(i.index()).copied());
        let stored = patterns.iter().filter_map(|pattern| {
            let (places, weight) = stored_at(&pattern.projected(self.signature, gens.len())?, self.signature, gens);
            Some(self.points(gens, &places).scale(weight))
        });
        stored.min_by(Growth::compare)
    }

    /// Which two of at least three factors, given by the indices they read, are multiplied first, over which indices, and at how many
    /// points: those where the product is cheapest. More indices than both read can be cheaper, where a relation ties them.
    pub(super) fn merge(
        &self,
        all: &[(IndexId, Size)],
        guard: &Pred,
        sets: &[Vec<bool>],
    ) -> Option<(usize, usize, Vec<bool>, Growth)> {
        let mut best: Option<(usize, usize, Vec<bool>, Growth)> = None;
        for i in 0..sets.len() {
            for j in i + 1..sets.len() {
                let union: Vec<bool> = sets[i].iter().zip(&sets[j]).map(|(a, b)| *a || *b).collect();
                let axes = chosen(all, &union);
                let points = self.points(&axes, &inside(all, &union, guard));
                let better = |points: &Growth| {
                    best.as_ref().is_none_or(|(_, _, _, least)| points.compare(least) == Ordering::Less)
                };
                if better(&points) {
                    best = Some((i, j, union, points));
                }
            }
        }
        let (i, j, union, points) = best?;
        let whole: Vec<bool> = (0..all.len()).map(|k| sets.iter().any(|set| set.get(k) == Some(&true))).collect();
        let tied = self.points(&chosen(all, &whole), &inside(all, &whole, guard));
        if tied.compare(&points) == Ordering::Less { Some((i, j, whole, tied)) } else { Some((i, j, union, points)) }
    }

    /// Whether the factors of `a * (sum I. e)` are cheaper to multiply, or to keep, in an order that does not begin with those of `e`. The last
    /// `summed` indices are `I`; what comes before are the indices around, of which those are summed that the whole product sums.
    pub(super) fn reorders(&self, all: &[(IndexId, Size)], given: &Pred, a: &Expr, e: &Expr, summed: usize) -> bool {
        if summed == 0 {
            return true;
        }
        let (outer, inner) = (a.clone().into_product(), e.clone().into_product());
        let guard = given.clone().and(outer.guard).and(inner.guard);
        let set =
            |e: &Expr| all.iter().zip(0..).filter(|((i, _), _)| e.mentions(*i)).fold(0u64, |set, (_, k)| set | 1 << k);
        let is_literal = |e: &&Expr| e.as_number().is_none();
        let first: Vec<u64> = outer.factors.iter().filter(is_literal).map(set).collect();
        let second: Vec<u64> = inner.factors.iter().filter(is_literal).map(set).collect();
        if all.len() >= 60 || first.len() + second.len() > 5 {
            return false;
        }
        let factors = first.iter().chain(&second).copied().collect();
        let order = Contraction { model: self, all, guard: &guard, factors, inner: all.len() - summed };
        let whole = (1usize << order.factors.len()) - 1;
        let unit = whole & !((1 << first.len()) - 1);
        let (free, kept) =
            (order.least(whole, 0, &mut BTreeMap::new()), order.least(whole, unit, &mut BTreeMap::new()));
        match free.compare(&kept) {
            Ordering::Less => true,
            Ordering::Greater => false,
            // As much work, but the tensor in between is larger than that.
            Ordering::Equal => {
                let axes: Scope = e.free(&all[..all.len() - summed]);
                self.stored(&axes, &guard).leading().0 > kept.leading().0
            }
        }
    }

    /// `sum s. [p] * f0 * ..`: factors are multiplied two at a time as [`decode`](super::decode) does, literals
    /// last. The work, and how many products stand between the factors and the result.
    fn product_work(
        &self,
        all: &[(IndexId, Size)],
        gens: usize,
        guard: &Pred,
        factors: &[Slot],
        points: &Growth,
        places: &Growth,
    ) -> (Growth, Growth) {
        let axes = |slot: &Slot| {
            let mut found = vec![false; all.len()];
            let mut meet = |a: &Affine| {
                a.visit(&mut |v| {
                    if let Var::Index(i) = v
                        && let Some(found) = found.get_mut(crate::base::Id::index(*i))
                    {
                        *found = true;
                    }
                });
            };
            match slot {
                Slot::Number(_) => {}
                Slot::Index(a) => meet(a),
                Slot::Read(indices) => indices.iter().for_each(meet),
            }
            found
        };
        let has_sums = all.len() > gens;
        let mut sets: Vec<Vec<bool>> = Vec::new();
        let mut scalars = 0u32;
        for slot in factors {
            let set = axes(slot);
            let summed = set.iter().skip(gens).any(|x| *x);
            match slot {
                // Alone under its sums.
                Slot::Number(Real::ONE) => {}
                Slot::Number(_) | Slot::Index(_) if !summed && has_sums => scalars += 1,
                _ => sets.push(set),
            }
        }
        let (mut work, mut between) = (Growth::zero(), Growth::zero());
        while sets.len() > 2 {
            let Some((i, j, union, points)) = self.merge(all, guard, &sets) else { break };
            sets.remove(j);
            sets.remove(i);
            work = work.add(&points);
            between = between.add(&points);
            sets.push(union);
        }
        if sets.len() == 2 {
            work = work.add(points);
        }
        if has_sums {
            work = work.add(&points.add(&places.scale(-1.0)));
        }
        (work.add(&places.scale(f64::from(scalars))), between)
    }

    /// Whether a product of one factor, over axes and then sums, is that factor at one place of it: no number is added to another one.
    pub(super) fn is_view(&self, all: &[(IndexId, Size)], axes: usize, guard: &Pred) -> bool {
        let sums: Vec<IndexId> = all.iter().skip(axes).map(|(i, _)| *i).collect();
        have_one_value(&sums, guard.conjuncts(), &|relation| self.signature.is_map(relation))
    }

    /// The cost of a node, its children aside; `full` is the model where relations have all tuples.
    pub(super) fn node(&self, node: &Node, full: Option<&Model<'_>>) -> Cost {
        let (work, stored, length) = self.growth(node);
        let full = full.map_or_else(
            || effort(&work, &stored),
            |full| {
                let (work, stored, _) = full.growth(node);
                effort(&work, &stored)
            },
        );
        Cost::new(work, stored, full, length)
    }

    /// The work of a node, what it stores, and its length.
    fn growth(&self, node: &Node) -> (Growth, Growth, f64) {
        let gens = super::graph::slots(node.head.dims());
        match &*node.head {
            Head::Input { .. } => (Growth::zero(), Growth::zero(), 0.0),
            Head::Product { sums, guard, factors, .. } => {
                let all: Vec<(IndexId, Size)> =
                    gens.iter().map(|(_, n)| n).chain(sums).zip(0..).map(|(n, at)| (IndexId(at), n.clone())).collect();
                let summed: Vec<IndexId> = all.iter().skip(gens.len()).map(|(i, _)| *i).collect();
                let outside = guard.conjuncts().iter().filter(|p| !summed.iter().any(|i| p.mentions(*i))).cloned();
                let outside = Pred::all(outside);
                let points = self.points(&all, guard);
                // A place without any point needs no addition.
                let places = self.points(&gens, &outside).min(points.clone());
                let (work, between) = self.product_work(&all, gens.len(), guard, factors, &points, &places);
                let is_view = work == Growth::zero() && self.is_view(&all, gens.len(), guard);
                let stored = match is_view {
                    true => Growth::zero(),
                    false => {
                        let own = self.stored(&gens, &outside);
                        let own = self.at_projections(&gens, sums, guard).map_or(own.clone(), |other| own.min(other));
                        own.add(&between)
                    }
                };
                (work, stored, 1.0 + sums.len() as f64 + length(guard, factors, 0.5))
            }
            Head::Sum { terms, .. } => {
                let mut points: Vec<Growth> = terms.iter().map(|(p, _)| self.points(&gens, p)).collect();
                points.sort_by(|a, b| b.compare(a));
                let work = points.iter().skip(1).fold(Growth::zero(), |sum, g| sum.add(g));
                let text: f64 = terms.iter().map(|(p, a)| length(p, std::slice::from_ref(a), 0.5)).sum();
                let stored =
                    terms.iter().map(|(p, _)| self.stored(&gens, p)).max_by(Growth::compare).unwrap_or_default();
                (work, stored, text + 1.0)
            }
            Head::Apply { guard, args, function, .. } => {
                let points = self.points(&gens, guard);
                // A negative exponent stands in parentheses.
                let signed = matches!(function, Function::Value(Primitive::Op(Op::Powi(k))) if *k < 0);
                let text = 1.0 + f64::from(u8::from(signed)) + length(guard, args, 1.0);
                (points, self.stored(&gens, guard), text)
            }
        }
    }
}

/// Where a tensor that lies on patterns has numbers, at the entries of one or everywhere, and how many each of them counts for.
pub(super) fn stored_where(patterns: &[Pattern], gens: &[(IndexId, Size)]) -> (Pred, f64) {
    match Pattern::for_storage(patterns) {
        None => (Pred::True, 1.0),
        Some(pattern) => {
            let weight = if pattern.axes.len() < gens.len() { BESIDE_TUPLES } else { 1.0 };
            (pattern.atom(&Affine::indices(gens)), weight)
        }
    }
}

/// The same of a tensor on a projection.
pub(super) fn stored_at(projected: &Projected, signature: &Signature, gens: &[(IndexId, Size)]) -> (Pred, f64) {
    let weight = if projected.axes.len() < gens.len() { BESIDE_TUPLES } else { 1.0 };
    (projected.exists(signature, gens.len()), weight)
}

/// The factors of a product, by the indices that they read.
struct Contraction<'c, 'a> {
    model: &'c Model<'a>,
    all: &'c [(IndexId, Size)],
    guard: &'c Pred,
    factors: Vec<u64>,
    /// The first of the indices over which the unit is summed.
    inner: usize,
}

impl Contraction<'_, '_> {
    /// The least work to multiply a set of factors, where those of `unit` are multiplied among themselves first. A factor may be summed before.
    fn least(&self, set: usize, unit: usize, known: &mut BTreeMap<usize, Growth>) -> Growth {
        if set.count_ones() < 2 {
            let read = self.read(set);
            let sums = self.factors.len() > 1 && read != self.needed(set, unit);
            return if sums { self.points(read) } else { Growth::zero() };
        }
        if let Some(growth) = known.get(&set) {
            return growth.clone();
        }
        let mut best: Option<Growth> = None;
        let mut part = (set - 1) & set;
        while part > 0 {
            let other = set & !part;
            // Either side may hold all of the unit or nothing of it, unless the set lies inside.
            let splits = |side: usize| side & unit != 0 && side & unit != unit;
            let allowed = set & !unit == 0 || !(splits(part) || splits(other));
            if part < other && allowed {
                let (a, b) = (self.least(part, unit, known), self.least(other, unit, known));
                let union = self.needed(part, unit) | self.needed(other, unit);
                let growth = a.add(&b).add(&self.points(union).scale(2.0));
                if best.as_ref().is_none_or(|least| growth.compare(least) == Ordering::Less) {
                    best = Some(growth);
                }
            }
            part = (part - 1) & set;
        }
        let growth = best.unwrap_or(Growth::zero());
        known.insert(set, growth.clone());
        growth
    }

    /// The points of a set of indices.
    fn points(&self, indices: u64) -> Growth {
        let axes: Vec<bool> = (0..self.all.len()).map(|k| indices >> k & 1 == 1).collect();
        self.model.points(&chosen(self.all, &axes), &inside(self.all, &axes, self.guard))
    }

    /// The indices that a set of factors reads.
    fn read(&self, set: usize) -> u64 {
        let inside = self.factors.iter().enumerate().filter(|(k, _)| set >> k & 1 == 1);
        inside.fold(0, |all, (_, factor)| all | factor)
    }

    /// The indices that the product of a set still has when its own sums are done: those that stay in the end, and those that a factor
    /// outside reads, or a guard ties to others. The rest is summed as soon as the set is complete; of a part of the unit only the indices of the
    /// unit.
    fn needed(&self, set: usize, unit: usize) -> u64 {
        let inside = self.read(set);
        let mut summed = inside & !self.read(!set) & !self.gens();
        if set & !unit == 0 && set != unit {
            summed &= u64::MAX << self.inner;
        }
        for conjunct in self.guard.conjuncts() {
            let mentioned = self.all.iter().zip(0..).filter(|((i, _), _)| conjunct.mentions(*i));
            let mentioned = mentioned.fold(0u64, |all, (_, k)| all | 1 << k);
            if mentioned & !inside != 0 {
                summed &= !mentioned;
            }
        }
        inside & !summed
    }

    /// Indices that stay in the end: slots of the class have the lowest numbers.
    fn gens(&self) -> u64 {
        let is_slot = |i: &IndexId| i.0 < super::graph::FIRST_FRESH;
        self.all.iter().zip(0..).filter(|((i, _), _)| is_slot(i)).fold(0, |set, (_, k)| set | 1 << k)
    }
}

/// The indices of a set.
pub(super) fn chosen(all: &[(IndexId, Size)], set: &[bool]) -> Vec<(IndexId, Size)> {
    all.iter().zip(set).filter(|(_, x)| **x).map(|(a, _)| a.clone()).collect()
}

/// The conjuncts that the indices of a set decide.
pub(super) fn inside(all: &[(IndexId, Size)], set: &[bool], guard: &Pred) -> Pred {
    let inside = |p: &&Pred| all.iter().zip(set).all(|((i, _), x)| *x || !p.mentions(*i));
    Pred::all(guard.conjuncts().iter().filter(inside).cloned())
}

/// About how long guards and arguments are to read; -1 is a sign in products and sums.
fn length(guard: &Pred, slots: &[Slot], sign: f64) -> f64 {
    let terms = |a: &Affine| (a.terms().len() + usize::from(a.offset() != 0)) as f64;
    let slot = |slot: &Slot| match slot {
        Slot::Number(x) if x.get() == -1.0 => sign,
        Slot::Number(_) => 1.0,
        Slot::Index(a) => 1.0 + terms(a),
        Slot::Read(indices) => 1.0 + 0.25 * indices.iter().map(terms).sum::<f64>(),
    };
    let mut text = 0.0;
    guard.visit_affine(&mut |a| text += 0.5 + 0.25 * terms(a));
    text + slots.iter().map(slot).sum::<f64>()
}

//! What a node costs: scalar work first, then numbers stored, then its length as text.
//!
//! Costs are compared asymptotically: every size is a multiple of one large number `N`, so a cost is a polynomial in `N`, and the
//! higher power decides. The multiples are hints; the number of tuples of a relation is a multiple of `N` too.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::expr::Expr;
use super::lang::{Head, Node, Slot};
use crate::base::{IndexId, SizeId};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::ty::{RelationKind, Signature};

/// How many powers of `N` are told apart.
const POWERS: usize = 10;

/// A polynomial in `N`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth([f64; POWERS]);

impl Growth {
    pub(super) const ZERO: Growth = Growth([0.0; POWERS]);

    fn constant(c: f64) -> Growth {
        let mut growth = Growth::ZERO;
        growth.0[0] = c;
        growth
    }

    fn plus(&self, other: &Growth) -> Growth {
        Growth(std::array::from_fn(|k| self.0[k] + other.0[k]))
    }

    fn minus(&self, other: &Growth) -> Growth {
        Growth(std::array::from_fn(|k| self.0[k] - other.0[k]))
    }

    fn scaled(&self, c: f64) -> Growth {
        Growth(self.0.map(|x| c * x))
    }

    fn times(&self, other: &Growth) -> Growth {
        let mut product = Growth::ZERO;
        for (i, x) in self.0.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            for (j, y) in other.0.iter().enumerate() {
                product.0[(i + j).min(POWERS - 1)] += x * y;
            }
        }
        product
    }

    pub(super) fn compare(&self, other: &Growth) -> Ordering {
        for (x, y) in self.0.iter().zip(&other.0).rev() {
            if (x - y).abs() > 1e-9 * (x.abs() + y.abs()) {
                return x.total_cmp(y);
            }
        }
        Ordering::Equal
    }
}

/// The cost of a node, or of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    work: Growth,
    stored: Growth,
    length: f64,
}

impl Cost {
    pub(super) const ZERO: Cost = Cost { work: Growth::ZERO, stored: Growth::ZERO, length: 0.0 };

    /// A name for a tensor.
    pub(super) const NAME: Cost = Cost { work: Growth::ZERO, stored: Growth::ZERO, length: 1.0 };

    pub(super) fn plus(&self, other: &Cost) -> Cost {
        Cost {
            work: self.work.plus(&other.work),
            stored: self.stored.plus(&other.stored),
            length: self.length + other.length,
        }
    }

    pub(super) fn compare(&self, other: &Cost) -> Ordering {
        self.work
            .compare(&other.work)
            .then_with(|| self.stored.compare(&other.stored))
            .then_with(|| self.length.total_cmp(&other.length))
    }
}

/// What sizes and relations are taken to be.
pub(super) struct Model<'a> {
    signature: &'a Signature,
    hints: &'a BTreeMap<String, f64>,
}

/// The tuples of a relation for each unit of `N`, without a hint.
const ENTRIES: f64 = 16.0;

impl<'a> Model<'a> {
    pub(super) fn new(signature: &'a Signature, hints: &'a BTreeMap<String, f64>) -> Self {
        Model { signature, hints }
    }

    fn size(&self, n: SizeId) -> f64 {
        let name = self.signature.sizes.get(n);
        name.and_then(|name| self.hints.get(name)).copied().unwrap_or(1.0)
    }

    fn extent(&self, n: &Size) -> Growth {
        let mut growth = Growth::constant(n.offset() as f64);
        for (v, k) in n.terms() {
            if let Var::Size(size) = v {
                growth.0[1] += *k as f64 * self.size(*size);
            }
        }
        // A difference of sizes that cancel out.
        if growth.compare(&Growth::ZERO) == Ordering::Less { Growth::constant(1.0) } else { growth }
    }

    /// About how many points of a box satisfy a guard.
    pub(super) fn points(&self, indices: &[(IndexId, Size)], guard: &Pred) -> Growth {
        self.conjunction(indices, guard.conjuncts())
    }

    fn conjunction(&self, indices: &[(IndexId, Size)], conjuncts: &[Pred]) -> Growth {
        let mut left: Vec<(IndexId, Size)> = indices.to_vec();
        let mut growth = Growth::constant(1.0);
        // A relation that ties several indices counts once for all of them; those that tie most come first.
        let mut relations: Vec<(Vec<IndexId>, RelationRef)> = Vec::new();
        for p in conjuncts {
            if let Pred::Relation { relation, args, holds: true } = p {
                relations.push((args.iter().filter_map(Affine::as_index).collect(), *relation));
            }
        }
        relations.sort_by_key(|(tied, _)| std::cmp::Reverse(tied.len()));
        for (tied, relation) in relations {
            let open = left.iter().filter(|(i, _)| tied.contains(i)).count();
            let (is_map, entries) = match relation {
                RelationRef::Input(r) => {
                    let relation = self.signature.relations.get(r);
                    let hint = relation.and_then(|r| self.hints.get(&r.name)).copied();
                    (relation.is_some_and(|r| r.kind == RelationKind::Map), hint.unwrap_or(ENTRIES))
                }
                RelationRef::Computed { view, .. } => (view != crate::index::View::Support, ENTRIES),
            };
            if is_map {
                // f(b, s) fixes s.
                if let Some(target) = tied.last()
                    && left.iter().any(|(i, _)| i == target)
                {
                    left.retain(|(i, _)| i != target);
                }
            } else if open >= 2 && open == tied.len() {
                left.retain(|(i, _)| !tied.contains(i));
                let mut tuples = Growth::ZERO;
                tuples.0[1] = entries;
                growth = growth.times(&tuples);
            } else if open == 1 && tied.len() >= 2 {
                // A row of the relation.
                left.retain(|(i, _)| !tied.contains(i));
                growth = growth.scaled(entries);
            }
        }
        for p in conjuncts {
            match p {
                Pred::Zero(a) => {
                    let fixed = a.terms().iter().rev().find_map(|(v, _)| match v {
                        Var::Index(i) => left.iter().position(|(j, _)| i == j),
                        _ => None,
                    });
                    if let Some(at) = fixed {
                        left.remove(at);
                    }
                }
                Pred::NonNegative(a) => {
                    let tied = a
                        .terms()
                        .iter()
                        .filter(|(v, _)| matches!(v, Var::Index(i) if left.iter().any(|(j, _)| i == j)));
                    if tied.count() >= 2 {
                        growth = growth.scaled(0.5);
                    }
                }
                _ => {}
            }
        }
        let whole = left.iter().fold(growth, |g, (_, n)| g.times(&self.extent(n)));
        for p in conjuncts {
            if let Pred::Any(cases) = p {
                let others: Vec<Pred> = conjuncts.iter().filter(|q| *q != p).cloned().collect();
                let mut sum = Growth::ZERO;
                for case in cases.iter().take(8) {
                    let mut all = others.clone();
                    all.extend(case.conjuncts().iter().cloned());
                    sum = sum.plus(&self.conjunction(indices, &all));
                }
                if cases.len() <= 8 && sum.compare(&whole) == Ordering::Less {
                    return sum;
                }
                return whole;
            }
        }
        whole
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

    /// Whether the factors of `a * (sum I. e)` are cheaper to multiply in an order that does not begin with those of `e`. The last
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
        let order =
            Contraction { model: self, all, guard: &guard, factors: first.iter().chain(&second).copied().collect() };
        let whole = (1usize << order.factors.len()) - 1;
        let unit = whole & !((1 << first.len()) - 1);
        let (free, kept) =
            (order.least(whole, 0, &mut BTreeMap::new()), order.least(whole, unit, &mut BTreeMap::new()));
        free.compare(&kept) == Ordering::Less
    }

    /// `sum s. [p] * f0 * ..`: factors are multiplied two at a time as [`decode`](super::decode) does, literals last.
    fn product_work(
        &self,
        all: &[(IndexId, Size)],
        gens: usize,
        guard: &Pred,
        factors: &[Slot],
        points: &Growth,
        places: &Growth,
    ) -> Growth {
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
                Slot::Number(_) | Slot::Index(_) if !summed && has_sums => scalars += 1,
                _ => sets.push(set),
            }
        }
        let mut work = Growth::ZERO;
        while sets.len() > 2 {
            let Some((i, j, union, points)) = self.merge(all, guard, &sets) else { break };
            sets.remove(j);
            sets.remove(i);
            work = work.plus(&points);
            sets.push(union);
        }
        if sets.len() == 2 {
            work = work.plus(points);
        }
        if has_sums {
            work = work.plus(&points.minus(places));
        }
        work.plus(&places.scaled(f64::from(scalars)))
    }

    /// The cost of a node, its children aside.
    pub(super) fn node(&self, node: &Node) -> Cost {
        let gens = super::graph::slots(node.head.dims());
        match &node.head {
            Head::Input { .. } => Cost::ZERO,
            Head::Product { sums, guard, factors, .. } => {
                let all: Vec<(IndexId, Size)> =
                    gens.iter().map(|(_, n)| n).chain(sums).zip(0..).map(|(n, at)| (IndexId(at), n.clone())).collect();
                let summed: Vec<IndexId> = all.iter().skip(gens.len()).map(|(i, _)| *i).collect();
                let outside = guard.conjuncts().iter().filter(|p| !summed.iter().any(|i| p.mentions(*i))).cloned();
                let outside = Pred::all(outside);
                let (points, places) = (self.points(&all, guard), self.points(&gens, &outside));
                let work = self.product_work(&all, gens.len(), guard, factors, &points, &places);
                let is_view = work == Growth::ZERO;
                let stored = if is_view { Growth::ZERO } else { places };
                Cost { work, stored, length: 1.0 + sums.len() as f64 + length(guard, factors) }
            }
            Head::Sum { terms, .. } => {
                let mut points: Vec<Growth> = terms.iter().map(|(p, _)| self.points(&gens, p)).collect();
                points.sort_by(|a, b| b.compare(a));
                let work = points.iter().skip(1).fold(Growth::ZERO, |sum, g| sum.plus(g));
                let text: f64 = terms.iter().map(|(p, a)| length(p, std::slice::from_ref(a))).sum();
                let stored = points.first().copied().unwrap_or(Growth::ZERO);
                Cost { work, stored, length: text + 1.0 }
            }
            Head::Apply { guard, args, .. } => {
                let points = self.points(&gens, guard);
                Cost { work: points, stored: points, length: 1.0 + length(guard, args) }
            }
        }
    }
}

/// The factors of a product, by the indices that they read.
struct Contraction<'c, 'a> {
    model: &'c Model<'a>,
    all: &'c [(IndexId, Size)],
    guard: &'c Pred,
    factors: Vec<u64>,
}

impl Contraction<'_, '_> {
    /// The least work to multiply a set of factors, where those of `unit` are multiplied among themselves first.
    fn least(&self, set: usize, unit: usize, known: &mut BTreeMap<usize, Growth>) -> Growth {
        if set.count_ones() < 2 {
            return Growth::ZERO;
        }
        if let Some(growth) = known.get(&set) {
            return *growth;
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
                let union = self.needed(part) | self.needed(other);
                let axes: Vec<bool> = (0..self.all.len()).map(|k| union >> k & 1 == 1).collect();
                let points = self.model.points(&chosen(self.all, &axes), &inside(self.all, &axes, self.guard));
                let growth = a.plus(&b).plus(&points.scaled(2.0));
                if best.is_none_or(|least| growth.compare(&least) == Ordering::Less) {
                    best = Some(growth);
                }
            }
            part = (part - 1) & set;
        }
        let growth = best.unwrap_or(Growth::ZERO);
        known.insert(set, growth);
        growth
    }

    /// The indices that the product of a set still has when its own sums are done: those that a factor outside reads, or none reads
    /// outside but which are not summed inside. An index that only the set reads is summed as soon as the set is complete.
    fn needed(&self, set: usize) -> u64 {
        let of = |inside: bool| {
            let chosen = self.factors.iter().enumerate().filter(|(k, _)| (set >> k & 1 == 1) == inside);
            chosen.fold(0u64, |all, (_, factor)| all | factor)
        };
        let (inside, outside) = (of(true), of(false));
        let gens = self.gens();
        inside & (outside | gens) | if set.count_ones() == 1 { inside } else { 0 }
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

/// About how long guards and arguments are to read.
fn length(guard: &Pred, slots: &[Slot]) -> f64 {
    let terms = |a: &Affine| (a.terms().len() + usize::from(a.offset() != 0)) as f64;
    let slot = |slot: &Slot| match slot {
        // Read as a sign.
        Slot::Number(x) if x.get() == -1.0 => 0.5,
        Slot::Number(_) => 1.0,
        Slot::Index(a) => 1.0 + terms(a),
        Slot::Read(indices) => 1.0 + 0.25 * indices.iter().map(terms).sum::<f64>(),
    };
    let mut text = 0.0;
    guard.visit_affine(&mut |a| text += 0.5 + 0.25 * terms(a));
    text + slots.iter().map(slot).sum::<f64>()
}

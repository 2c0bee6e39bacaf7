//! Visits the points of a box at which a predicate holds, in lexicographic order, without trying every place.
//!
//! For each index in turn, with the ones before it fixed, [`Points::candidates`] answers a *superset* of the values for which the
//! predicate can still hold: from bounds and equations that have one unknown left, and from the tuples of relations, sorted so that the known
//! places come first. Each value is then tested by every conjunct whose indices are all known. So a mistake in the candidates could
//! lose points and never add any; the tests compare with loops over all places.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::inputs::{Inputs, Tuples, place, tuple_at};
use super::scope::{Indices, Scope, Tensors};
use crate::base::{IndexId, RelationId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Var, View};

/// The tuples of a relation under other orders of its places, sorted once.
#[derive(Debug, Default)]
pub(super) struct Orders {
    sorted: RefCell<FxHashMap<(RelationId, Vec<usize>), Rc<Sorted>>>,
}

#[derive(Debug)]
struct Sorted {
    dims: Vec<u64>,
    keys: Vec<u128>,
}

impl Orders {
    fn sorted<T>(&self, inputs: &Inputs<T>, relation: RelationId, order: Vec<usize>) -> Result<Rc<Sorted>> {
        let key = (relation, order);
        if let Some(known) = self.sorted.borrow().get(&key) {
            return Ok(known.clone());
        }
        let tuples = inputs.relation(relation)?;
        let sorted = Rc::new(permute(tuples, &key.1));
        self.sorted.borrow_mut().insert(key, sorted.clone());
        Ok(sorted)
    }
}

fn permute(tuples: &Tuples, order: &[usize]) -> Sorted {
    let pick = |from: &[i64]| -> Vec<i64> { order.iter().filter_map(|at| from.get(*at).copied()).collect() };
    let dims: Vec<u64> = order.iter().filter_map(|at| tuples.shape().get(*at).copied()).collect();
    let mut keys: Vec<u128> = if order.is_sorted() {
        tuples.keys().to_vec()
    } else {
        tuples.keys().iter().filter_map(|key| place(&dims, &pick(&tuple_at(tuples.shape(), *key)))).collect()
    };
    keys.sort_unstable();
    Sorted { dims, keys }
}

/// A superset of the values that an index can take.
#[derive(Clone, Debug, PartialEq)]
enum Candidates {
    /// `low <= i <= high`.
    Range(i128, i128),
    /// Sorted and distinct.
    List(Vec<i64>),
}

impl Candidates {
    const ALL: Candidates = Candidates::Range(i128::MIN, i128::MAX);
    const NONE: Candidates = Candidates::List(Vec::new());

    fn intersect(self, other: Candidates) -> Candidates {
        match (self, other) {
            (Candidates::Range(a, b), Candidates::Range(c, d)) => Candidates::Range(a.max(c), b.min(d)),
            (Candidates::List(mut xs), Candidates::Range(a, b))
            | (Candidates::Range(a, b), Candidates::List(mut xs)) => {
                xs.retain(|x| (a..=b).contains(&i128::from(*x)));
                Candidates::List(xs)
            }
            (Candidates::List(mut xs), Candidates::List(ys)) => {
                xs.retain(|x| ys.binary_search(x).is_ok());
                Candidates::List(xs)
            }
        }
    }

    fn unite(self, other: Candidates) -> Candidates {
        match (self, other) {
            (Candidates::List(mut xs), Candidates::List(ys)) => {
                xs.extend(ys);
                xs.sort_unstable();
                xs.dedup();
                Candidates::List(xs)
            }
            (a, b) => match (a.hull(), b.hull()) {
                (None, other) | (other, None) => other.map_or(Candidates::NONE, |(l, h)| Candidates::Range(l, h)),
                (Some((a, b)), Some((c, d))) => Candidates::Range(a.min(c), b.max(d)),
            },
        }
    }

    fn hull(&self) -> Option<(i128, i128)> {
        match self {
            Candidates::Range(a, b) => (a <= b).then_some((*a, *b)),
            Candidates::List(xs) => Some((i128::from(*xs.first()?), i128::from(*xs.last()?))),
        }
    }
}

/// A place of a relation's tuple as seen from one index.
enum Place {
    Known(i64),
    Wanted,
    Unknown,
}

/// Enumerates the points of predicates.
pub(super) struct Points<'a, T, V> {
    pub scope: Scope<'a, T, V>,
    pub orders: &'a Orders,
}

impl<T, V: Tensors> Points<'_, T, V> {
    /// Calls `visit` with every point of the box `order` at which `guard` holds, in lexicographic order. A visit answers whether to go
    /// on.
    pub fn visit(
        &self,
        order: &[(IndexId, u64)],
        guard: &Pred,
        indices: &mut Indices,
        visit: &mut dyn FnMut(&Indices) -> Result<bool>,
    ) -> Result<()> {
        // An empty axis anywhere leaves no point, however long the others are.
        if guard.is_false() || order.iter().any(|(_, n)| *n == 0) {
            return Ok(());
        }
        let unknown: Vec<IndexId> = order.iter().map(|(i, _)| *i).collect();
        // The conjuncts that become known at each level; those known from the start come first.
        let mut tests: Vec<Vec<&Pred>> = vec![Vec::new(); order.len() + 1];
        for p in guard.conjuncts() {
            let level = (0..unknown.len()).rev().find(|k| p.mentions(unknown[*k])).map_or(0, |k| k + 1);
            tests[level].push(p);
        }
        if !self.all_hold(&tests[0], indices)? {
            return Ok(());
        }
        if order.is_empty() {
            return visit(indices).map(|_| ());
        }
        let mut loops: Vec<Loop> = vec![self.enter(order, &unknown, 0, guard, indices)?];
        while let Some(innermost) = loops.last_mut() {
            let Some(value) = innermost.next() else {
                loops.pop();
                continue;
            };
            let level = loops.len();
            self.scope.limits.step(&mut indices.steps)?;
            indices.set(order[level - 1].0, value);
            if !self.all_hold(&tests[level], indices)? {
                continue;
            }
            if level == order.len() {
                if !visit(indices)? {
                    return Ok(());
                }
            } else {
                loops.push(self.enter(order, &unknown, level, guard, indices)?);
            }
        }
        Ok(())
    }

    fn enter(
        &self,
        order: &[(IndexId, u64)],
        unknown: &[IndexId],
        level: usize,
        guard: &Pred,
        indices: &Indices,
    ) -> Result<Loop> {
        let (i, extent) = order[level];
        let mut later = unknown[level + 1..].to_vec();
        let found = self.candidates(guard, i, &mut later, indices)?;
        Ok(match found.intersect(Candidates::Range(0, i128::from(extent) - 1)) {
            // Within 0 .. extent, so they fit.
            Candidates::Range(low, high) if low <= high => Loop::Range(low as i64, high as i64),
            Candidates::Range(..) => Loop::Range(0, -1),
            Candidates::List(xs) => Loop::List(xs.into_iter()),
        })
    }

    fn all_hold(&self, tests: &[&Pred], indices: &mut Indices) -> Result<bool> {
        for p in tests {
            if !self.holds(p, indices)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// As [`Scope::holds`], with `exists` over the candidates only.
    pub fn holds(&self, p: &Pred, indices: &mut Indices) -> Result<bool> {
        match p {
            Pred::All(ps) => {
                for p in ps.iter() {
                    if !self.holds(p, indices)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Pred::Any(ps) => {
                for p in ps.iter() {
                    if self.holds(p, indices)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Pred::Exists { index, extent, body } => {
                let mut found = false;
                let extent = self.scope.inputs.extent(extent)?;
                self.visit(&[(*index, extent)], body, indices, &mut |_| {
                    found = true;
                    Ok(false)
                })?;
                Ok(found)
            }
            atom => self.scope.holds(atom, indices),
        }
    }

    /// A superset of the values of `i` for which `p` can hold, for some values of the `unknown` indices and the given values of all
    /// others.
    fn candidates(&self, p: &Pred, i: IndexId, unknown: &mut Vec<IndexId>, indices: &Indices) -> Result<Candidates> {
        Ok(match p {
            Pred::True | Pred::NonZero(_) | Pred::Relation { holds: false, .. } => Candidates::ALL,
            Pred::False => Candidates::NONE,
            Pred::NonNegative(a) => match self.split(a, i, unknown, indices)? {
                // k*i + rest >= 0
                Some((k, rest)) if k > 0 => Candidates::Range(-rest.div_euclid(k), i128::MAX),
                Some((k, rest)) => Candidates::Range(i128::MIN, rest.div_euclid(-k)),
                None => Candidates::ALL,
            },
            Pred::Zero(a) => match self.split(a, i, unknown, indices)? {
                Some((k, rest)) if rest % k == 0 => Candidates::Range(-(rest / k), -(rest / k)),
                Some(_) => Candidates::NONE,
                None => Candidates::ALL,
            },
            Pred::Relation { relation, args, holds: true } => self.related(*relation, args, i, unknown, indices)?,
            Pred::All(ps) => ps.iter().try_fold(Candidates::ALL, |all, p| {
                Ok::<_, Error>(all.intersect(self.candidates(p, i, unknown, indices)?))
            })?,
            Pred::Any(ps) => ps.iter().try_fold(Candidates::NONE, |any, p| {
                Ok::<_, Error>(any.unite(self.candidates(p, i, unknown, indices)?))
            })?,
            Pred::Exists { index, body, .. } => {
                unknown.push(*index);
                let found = self.candidates(body, i, unknown, indices);
                unknown.pop();
                found?
            }
        })
    }

    /// `a` as `k*i + rest` with `k != 0` and a known rest.
    fn split(&self, a: &Affine, i: IndexId, unknown: &[IndexId], indices: &Indices) -> Result<Option<(i128, i128)>> {
        let mut rest = i128::from(a.offset());
        let mut coefficient = 0;
        for (v, k) in a.terms() {
            if *v == Var::Index(i) {
                coefficient = i128::from(*k);
                continue;
            }
            let term = Affine::var(v.clone());
            if term.mentions(i) || unknown.iter().any(|j| term.mentions(*j)) {
                return Ok(None);
            }
            let Some(value) = self.scope.affine(&term, indices)? else { return Ok(None) };
            // Products of 64-bit numbers; an expression has far fewer than 2^60 terms.
            rest += i128::from(*k) * i128::from(value);
        }
        Ok((coefficient != 0).then_some((coefficient, rest)))
    }

    fn related(
        &self,
        relation: RelationRef,
        args: &[Affine],
        i: IndexId,
        unknown: &[IndexId],
        indices: &Indices,
    ) -> Result<Candidates> {
        let mut places = Vec::with_capacity(args.len());
        for a in args {
            places.push(if a.as_index() == Some(i) {
                Place::Wanted
            } else if a.mentions(i) || unknown.iter().any(|j| a.mentions(*j)) {
                Place::Unknown
            } else {
                match self.scope.affine(a, indices)? {
                    Some(value) => Place::Known(value),
                    // No tuple of the atom's arguments has a value.
                    None => return Ok(Candidates::NONE),
                }
            });
        }
        let Some(wanted) = places.iter().position(|p| matches!(p, Place::Wanted)) else { return Ok(Candidates::ALL) };
        let known = |at: &usize| match places.get(*at) {
            Some(Place::Known(value)) => Some(*value),
            _ => None,
        };
        match relation {
            RelationRef::Input(r) => {
                let (mut order, rest): (Vec<usize>, Vec<usize>) =
                    (0..places.len()).filter(|at| *at != wanted).partition(|at| known(at).is_some());
                let prefix: Vec<i64> = order.iter().filter_map(known).collect();
                order.push(wanted);
                order.extend(rest);
                let sorted = self.orders.sorted(self.scope.inputs, r, order)?;
                Ok(Candidates::List(distinct(&sorted, &prefix)))
            }
            RelationRef::Computed { var, view: view @ (View::ArgMax | View::ArgMin) } if wanted + 1 == places.len() => {
                let source: Option<Vec<i64>> = (0..wanted).map(|at| known(&at)).collect();
                match source {
                    Some(source) => {
                        Ok(Candidates::List(self.scope.tensors.extremum(var, view, &source)?.into_iter().collect()))
                    }
                    None => Ok(Candidates::ALL),
                }
            }
            RelationRef::Computed { .. } => Ok(Candidates::ALL),
        }
    }
}

/// The distinct values after a prefix, sorted.
fn distinct(sorted: &Sorted, prefix: &[i64]) -> Vec<i64> {
    let (outer, inner) = sorted.dims.split_at(prefix.len().min(sorted.dims.len()));
    let (Some(row), Some((extent, rest))) = (place(outer, prefix), inner.split_first()) else { return Vec::new() };
    // The box has a volume, so its parts have.
    let stride: u128 = rest.iter().map(|n| u128::from(*n)).product();
    let begin = row * u128::from(*extent) * stride;
    let end = begin + u128::from(*extent) * stride;
    let mut keys = &sorted.keys[sorted.keys.partition_point(|k| *k < begin)..];
    let mut values = Vec::new();
    while let Some(key) = keys.first().filter(|key| **key < end) {
        let value = (key - begin) / stride;
        // Below an extent that a tuple of `i64` has reached.
        values.push(value as i64);
        let next = begin + (value + 1) * stride;
        // Mostly the next key; else search.
        keys = match keys.get(1) {
            Some(key) if *key >= next => &keys[1..],
            _ => &keys[keys.partition_point(|k| *k < next)..],
        };
    }
    values
}

enum Loop {
    Range(i64, i64),
    List(std::vec::IntoIter<i64>),
}

impl Loop {
    fn next(&mut self) -> Option<i64> {
        match self {
            Loop::Range(low, high) => {
                let value = *low;
                (value <= *high).then(|| {
                    *low += 1;
                    value
                })
            }
            Loop::List(xs) => xs.next(),
        }
    }
}

//! Exact sets of index tuples.
//!
//! A [`Set`] is a predicate together with the [`Space`] that it is read in: the ranges of its indices and what is assumed of sizes. Its
//! points are the values of the indices, for given sizes and relations, at which the ranges, the assumptions and the predicate hold.
//!
//! | question | how | answer |
//! |---|---|---|
//! | is there a point, for any sizes and relations? | `decide`: Fourier-Motzkin elimination, then search | proved, disproved by a point, or unknown |
//! | `s` within `t`, `s = t` | `s and not t` is empty | the same |
//! | `s and t`, `s or t`, `not s`, `s - t` | of predicates, then [`simplify_union`] | exact |
//! | without an index | [`Set::eliminate`] | exact, or a superset and says so |
//! | bounds and stride of an index | [`Set::bounds`] | exact, or a superset and says so |
//!
//! Predicates themselves are kept short by [`simplify_union`] and solved for an index by [`solve`].

mod bounds;
mod cell;
mod decide;
mod line;
mod project;
mod simplify;
mod solve;
mod witness;

pub use bounds::{Bound, Bounds, Stride};
pub use project::Elimination;
pub use simplify::simplify_union;
pub use solve::{Solution, solve};

#[cfg(test)]
mod campaign;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Checked, Facts, Pred, RelationRef, Size};
use crate::base::{IndexId, SizeId};
use decide::{Decision, Model, decide};

/// What is known around a set: the ranges of its indices, assumptions on sizes and relations, and which relations are maps.
#[derive(Clone, Debug)]
pub struct Space {
    indices: Vec<(IndexId, Size)>,
    assumptions: Vec<Pred>,
    maps: BTreeSet<RelationRef>,
    facts: Facts,
}

impl Space {
    /// Indices with their ranges, `0 <= index < extent`, and assumptions.
    pub fn new(
        indices: impl IntoIterator<Item = (IndexId, Size)>,
        assumptions: impl IntoIterator<Item = Pred>,
        maps: impl IntoIterator<Item = RelationRef>,
    ) -> Self {
        let indices: Vec<_> = indices.into_iter().collect();
        let assumptions: Vec<_> = assumptions.into_iter().collect();
        let maps: BTreeSet<_> = maps.into_iter().collect();
        let mut facts = Facts::new();
        maps.iter().for_each(|map| facts.functional(*map));
        indices.iter().for_each(|(i, n)| facts.range(*i, n));
        assumptions.iter().for_each(|p| facts.assume(p));
        Space { indices, assumptions, maps, facts }
    }

    /// The indices and their ranges.
    pub fn indices(&self) -> &[(IndexId, Size)] {
        &self.indices
    }

    /// The ranges and assumptions as facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The ranges and assumptions as predicates; nothing where a range leaves 64-bit integers.
    fn known(&self) -> Option<Vec<Pred>> {
        let ranges = self.indices.iter().map(|(i, n)| Pred::in_range(&(*i).into(), n).ok());
        ranges.chain(self.assumptions.iter().cloned().map(Some)).collect()
    }
}

/// An answer that is never wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// For all sizes, relations and maps that the space allows.
    Yes,
    /// Not for some of them. A relation may then be of any shape that the assumptions allow.
    No,
    /// Neither was shown within the limits.
    Unknown,
}

/// A point of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// A value of each index.
    pub indices: BTreeMap<IndexId, i64>,
    /// A value of each size variable.
    pub sizes: BTreeMap<SizeId, i64>,
    /// The tuples of the relations; all others are not in.
    pub relations: BTreeMap<RelationRef, BTreeSet<Vec<i64>>>,
}

/// The points of a space at which a predicate holds.
#[derive(Clone, Debug)]
pub struct Set {
    space: Arc<Space>,
    pred: Pred,
}

impl Set {
    /// The set of a predicate, simplified.
    pub fn new(space: &Arc<Space>, p: &Pred) -> Self {
        Set { space: Arc::clone(space), pred: simplify_union(p, space.facts()) }
    }

    /// The predicate, as short as is known. It says nothing that the space implies.
    pub fn pred(&self) -> &Pred {
        &self.pred
    }

    /// Where the set lies.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Whether there is no point, for whatever sizes and relations.
    pub fn is_empty(&self) -> Answer {
        match self.decide(&Pred::True) {
            Decision::Empty => Answer::Yes,
            Decision::Point(_) => Answer::No,
            Decision::Open => Answer::Unknown,
        }
    }

    /// A point, for some sizes and relations, if one is found.
    pub fn point(&self) -> Option<Point> {
        match self.decide(&Pred::True) {
            Decision::Point(model) => Some(self.point_of(model)),
            Decision::Empty | Decision::Open => None,
        }
    }

    /// Whether every point satisfies `p`, for whatever sizes and relations.
    pub fn implies(&self, p: &Pred) -> Answer {
        let mut answer = Answer::Yes;
        for q in p.conjuncts() {
            match self.violation(q) {
                Decision::Empty => {}
                Decision::Point(_) => return Answer::No,
                Decision::Open => answer = Answer::Unknown,
            }
        }
        answer
    }

    /// A point that does not satisfy `p`, for some sizes and relations, if one is found.
    pub fn counterexample(&self, p: &Pred) -> Option<Point> {
        p.conjuncts().iter().find_map(|q| match self.violation(q) {
            Decision::Point(model) => Some(self.point_of(model)),
            Decision::Empty | Decision::Open => None,
        })
    }

    /// `self and not p`, where `p` is no conjunction.
    fn violation(&self, p: &Pred) -> Decision {
        // not (q or r) == not q and not r, where `r` are the sides without a negation: those over an `exists`.
        let (plain, quantified): (Vec<Pred>, Vec<Pred>) =
            p.disjuncts().iter().cloned().partition(|q| q.negate().is_some());
        let Some(opposite) = Pred::any(plain).negate() else { return Decision::Open };
        match self.decide(&opposite) {
            Decision::Empty => Decision::Empty,
            // The relations of a model hold nowhere else, so that an `exists` can be evaluated.
            Decision::Point(model) if quantified.is_empty() || model.holds(p) == Some(false) => Decision::Point(model),
            Decision::Point(_) | Decision::Open => {
                let mut facts = self.space.facts.clone();
                facts.assume(&self.pred);
                if facts.proves(p) { Decision::Empty } else { Decision::Open }
            }
        }
    }

    fn point_of(&self, model: Model) -> Point {
        let mut indices = model.indices;
        indices.retain(|i, _| self.space.indices.iter().any(|(j, _)| i == j));
        Point { indices, sizes: model.sizes, relations: model.relations }
    }

    /// Whether every point is one of the other set, over the same space.
    pub fn is_subset(&self, other: &Set) -> Answer {
        self.implies(&other.pred)
    }

    /// Whether two sets over the same space have the same points.
    pub fn equals(&self, other: &Set) -> Answer {
        match (self.is_subset(other), other.is_subset(self)) {
            (Answer::Yes, Answer::Yes) => Answer::Yes,
            (Answer::No, _) | (_, Answer::No) => Answer::No,
            _ => Answer::Unknown,
        }
    }

    /// The points of both, over the same space.
    pub fn intersect(&self, other: &Set) -> Set {
        Set::new(&self.space, &self.pred.clone().and(other.pred.clone()))
    }

    /// The points of either, over the same space.
    pub fn union(&self, other: &Set) -> Set {
        Set::new(&self.space, &self.pred.clone().or(other.pred.clone()))
    }

    /// The other points of the space. Nothing for a set with an `exists`, whose opposite is not in the language.
    pub fn complement(&self) -> Option<Set> {
        Some(Set::new(&self.space, &self.pred.negate()?))
    }

    /// The points that are not in the other, over the same space. Nothing where the other has an `exists`.
    pub fn difference(&self, other: &Set) -> Option<Set> {
        Some(Set::new(&self.space, &self.pred.clone().and(other.pred.negate()?)))
    }

    /// The set of the other indices for which some value of the index gives a point.
    ///
    /// # Errors
    /// Where a coefficient of the result would leave the range of 64-bit integers.
    pub fn eliminate(&self, index: IndexId) -> Checked<Elimination> {
        project::eliminate(self, index)
    }

    /// The values of an index given the others: bounds, and a stride. Nothing for an index that is not of the space.
    ///
    /// # Errors
    /// Where a coefficient of the result would leave the range of 64-bit integers.
    pub fn bounds(&self, index: IndexId) -> Checked<Option<Bounds>> {
        bounds::bounds(self, index)
    }

    fn decide(&self, p: &Pred) -> Decision {
        let Some(mut all) = self.space.known() else { return Decision::Open };
        all.extend([self.pred.clone(), p.clone()]);
        decide(&all, &self.space.maps)
    }
}

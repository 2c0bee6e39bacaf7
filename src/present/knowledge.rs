//! What is known at a place: ranges of the indices around, guards around, assumptions on sizes. What follows from it need not be said.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, MAX_WEIGHT, Presenter};
use crate::base::{Id, IndexId};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::solver::{Facts, target_ranges, within_shapes};

impl Presenter<'_> {
    /// The ranges of the places of a relation over variables of the term.
    pub(super) fn shape(&self, relation: RelationRef) -> Vec<Size> {
        match relation {
            RelationRef::Input(r) => self.source.signature.relations[r].shape.clone(),
            RelationRef::Computed { var, .. } => {
                self.term.types.real_dims(self.term.variables[var].ty).unwrap_or_default()
            }
        }
    }

    /// Whether the sources of all maps that an expression applies are known to be in range.
    pub(super) fn has_value(&self, a: &Affine, more: &[Pred], context: Context) -> bool {
        let mut all = true;
        a.visit(&mut |v| {
            if let Var::Apply(application) = v {
                let shape = self.shape(application.map);
                all &=
                    application.args.iter().zip(&shape).all(|(source, n)| {
                        Pred::in_range(source, n).is_ok_and(|range| self.proves(&range, more, context))
                    });
            }
        });
        all
    }

    /// What is known at a place, as far as it is connected with a predicate.
    pub(super) fn facts(&self, goal: &Pred, more: &[Pred], context: Context) -> Facts {
        let shape = |relation: RelationRef| self.shape(relation);
        let around = self.guards_around(context).filter(|guard| guard.weight() <= MAX_WEIGHT);
        let mut known: Vec<Pred> = more.iter().chain(around).map(|p| within_shapes(p, &shape)).collect();
        known.extend(target_ranges(goal, &shape));
        let mut indices = BTreeSet::new();
        for p in known.iter().chain([goal]) {
            p.visit_free(&mut |i| {
                indices.insert(i);
            });
        }
        let range = |i: IndexId| Some((i, self.ranges.get(i.index())?.clone()?));
        let ranges: Vec<(IndexId, Size)> = indices.into_iter().filter_map(range).collect();
        self.source.signature.facts().under(&ranges, &known)
    }

    pub(super) fn proves(&self, goal: &Pred, more: &[Pred], context: Context) -> bool {
        goal.is_true() || self.facts(goal, more, context).proves(goal)
    }

    pub(super) fn simplify(&self, guard: &Pred, context: Context) -> Pred {
        if guard.is_true() || guard.is_false() || guard.weight() > MAX_WEIGHT {
            return guard.clone();
        }
        // What keeps the source of a map in range must not go because the map has a value.
        let mut levels: BTreeMap<usize, Vec<Pred>> = BTreeMap::new();
        for p in guard.conjuncts() {
            levels.entry(p.applied()).or_default().push(p.clone());
        }
        let mut simpler = Pred::True;
        for level in levels.into_values().map(Pred::all) {
            simpler = self.facts(&level, std::slice::from_ref(&simpler), context).simplify(&level).and(simpler);
        }
        simpler
    }
}

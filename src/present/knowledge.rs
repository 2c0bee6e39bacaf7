//! What is known at a place: ranges of the indices around, guards around, assumptions on sizes. What follows from it need not be said.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, MAX_GUARDS, MAX_WEIGHT, Presenter};
use crate::base::Id;
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::solver::Facts;

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
        let mut known: Vec<Pred> = self.source.signature.assumptions.clone();
        known.extend_from_slice(more);
        let mut at = context.guards;
        for _ in 0..MAX_GUARDS {
            let Some(here) = at.checked_sub(1) else { break };
            let (guard, around) = &self.guards[here];
            if guard.weight() <= MAX_WEIGHT {
                known.push(guard.clone());
            }
            at = *around;
        }
        let mut implied = Vec::new();
        let mut indices = BTreeSet::new();
        let mut maps = BTreeSet::new();
        for p in known.iter().chain([goal]) {
            p.visit_affine(&mut |a| {
                a.visit(&mut |v| match v {
                    Var::Index(i) => drop(indices.insert(*i)),
                    Var::Size(_) => {}
                    Var::Apply(application) => {
                        maps.insert(application.map);
                        if let Some(n) = self.shape(application.map).last() {
                            implied.extend(Pred::in_range(&Affine::var(v.clone()), n));
                        }
                    }
                });
            });
        }
        for p in known.iter().flat_map(Pred::conjuncts) {
            if let Pred::Relation { relation, args, holds: true } = p {
                let ranges = args.iter().zip(self.shape(*relation));
                implied.extend(ranges.filter_map(|(a, n)| Pred::in_range(a, &n).ok()));
            }
        }
        let mut facts = Facts::new();
        maps.into_iter().for_each(|map| facts.functional(map));
        for i in indices {
            if let Some(Some(extent)) = self.ranges.get(i.index()) {
                facts.range(i, extent);
            }
        }
        known.iter().chain(&implied).for_each(|p| facts.assume(p));
        facts
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

//! What is known at a place: what was known around it, the ranges of indices that were opened since, and what holds there.
//!
//! Outermost are the facts of a signature ([`Signature::facts`](crate::ty::Signature::facts)): its assumptions, and which relations are maps.
//! [`Facts::under`] goes one place further in. What predicates say by their relations and maps is made explicit by [`within_shapes`].

use std::collections::BTreeSet;

use super::Facts;
use crate::base::IndexId;
use crate::index::{Affine, Pred, RelationRef, Size, Var};

/// The ranges of the places of a relation, none where it is unknown.
pub type Shapes<'s> = &'s dyn Fn(RelationRef) -> Vec<Size>;

/// What is known of relations.
pub trait Relations {
    /// The ranges of the places, nothing for a relation that is not known.
    fn shape(&self, relation: RelationRef) -> Option<&[Size]>;

    /// Whether the last place is a function of the others. Each source of a map given at run time has a target; with a computed
    /// one the last axis must not be empty.
    fn is_map(&self, relation: RelationRef) -> bool;
}

impl Facts {
    /// What is known where further indices are in their ranges and further predicates hold.
    #[must_use]
    pub fn under<'p>(
        &self,
        ranges: impl IntoIterator<Item = &'p (IndexId, Size)>,
        holds: impl IntoIterator<Item = &'p Pred>,
    ) -> Facts {
        let mut facts = self.clone();
        ranges.into_iter().for_each(|(i, n)| facts.range(*i, n));
        holds.into_iter().for_each(|p| facts.assume(p));
        facts
    }
}

/// The predicate with what its relations and maps imply: a tuple of a relation is in its shape, the target of a map in its range.
pub fn within_shapes(p: &Pred, shape: Shapes<'_>) -> Pred {
    let with_ranges = |atom: &Pred| {
        let mut all = target_ranges(atom, shape);
        if let Pred::Relation { relation, args, holds: true } = atom {
            all.extend(args.iter().zip(&shape(*relation)).filter_map(|(a, n)| Pred::in_range(a, n).ok()));
        }
        all.push(atom.clone());
        Ok::<_, ()>(Pred::all(all))
    };
    p.rebuild(&mut { with_ranges }).unwrap_or_else(|()| p.clone())
}

/// That the targets of the maps that a predicate applies are in their ranges.
pub fn target_ranges(p: &Pred, shape: Shapes<'_>) -> Vec<Pred> {
    let mut applied = BTreeSet::new();
    p.visit_affine(&mut |a| {
        a.visit(&mut |v| {
            if matches!(v, Var::Apply(_)) {
                applied.insert(v);
            }
        });
    });
    applied.into_iter().filter_map(|v| target_range(v, shape)).collect()
}

/// That the target of a map is in its range.
pub fn target_range(v: &Var, shape: Shapes<'_>) -> Option<Pred> {
    let Var::Apply(application) = v else { return None };
    let extent = shape(application.map).pop()?;
    Pred::in_range(&Affine::var(v.clone()), &extent).ok()
}

//! Projections of relations, which leaves that are lowered have beyond the relations of the flow, as relations of all of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Arena, RelationId};
use crate::loops::{Array, Part, Program};
use crate::ty::{Relation, Signature};

/// The relations of a flow with the projections that its leaves have.
pub(super) struct Relations(Arena<RelationId, Relation>);

impl Relations {
    pub fn of(signature: &Signature) -> Relations {
        Relations(signature.relations.clone())
    }

    /// Has a leaf call its projections as the flow does.
    pub fn take_in(&mut self, leaf: &mut Program) {
        let mut names: BTreeMap<RelationId, RelationId> = BTreeMap::new();
        for (own, relation) in leaf.signature.relations.iter().filter(|(_, own)| own.kind.projection().is_some()) {
            let known = self.0.iter().find(|(_, known)| known.kind == relation.kind).map(|(known, _)| known);
            names.insert(own, known.unwrap_or_else(|| self.0.push(relation.clone())));
        }
        if names.is_empty() {
            return;
        }
        let name = |r: RelationId| names.get(&r).copied().unwrap_or(r);
        let renamed = |array: &Array| {
            let part = match array.part {
                Part::Projected(r) => Part::Projected(name(r)),
                Part::Neighbours(mut neighbours) => {
                    neighbours.relation = name(neighbours.relation);
                    Part::Neighbours(neighbours)
                }
                part => part,
            };
            Array { relation: name(array.relation), axes: array.axes.clone(), part }
        };
        leaf.arrays = leaf.arrays.values().map(renamed).collect();
        let buffers: Vec<_> = leaf.buffers.ids().collect();
        for buffer in buffers {
            let entries = &mut leaf.buffers[buffer].entries;
            *entries = entries.map(name);
        }
        leaf.signature = Arc::new(self.within(&leaf.signature));
    }

    /// A signature with these relations.
    pub fn within(&self, signature: &Signature) -> Signature {
        Signature { relations: self.0.clone(), ..signature.clone() }
    }
}

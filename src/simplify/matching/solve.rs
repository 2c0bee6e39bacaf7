//! Equations of guards, and lists of indices that are the same in another order.

use crate::base::IndexId;
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::simplify::bindings::Value;
use crate::solver::value_of;

/// The orders in which `to` may be renamed to `from`, range by range.
pub(super) fn orders(to: &[(IndexId, Size)], from: &[(IndexId, Size)]) -> Vec<Vec<(IndexId, IndexId)>> {
    let mut found: Vec<Vec<(IndexId, IndexId)>> = vec![Vec::new()];
    for (target, n) in to {
        let mut longer = Vec::new();
        for partial in &found {
            for (source, m) in from {
                if m == n && !partial.iter().any(|(used, _)| used == source) {
                    longer.push(partial.iter().copied().chain([(*source, *target)]).collect());
                }
            }
        }
        found = longer;
        found.truncate(6);
    }
    found
}

/// `i = a` for the index of an equation, or for each index that an atom gives a value.
pub(super) fn solutions(p: &Pred, index: Option<&Value>, maps: &dyn Fn(RelationRef) -> bool) -> Vec<(IndexId, Affine)> {
    let open: Vec<IndexId> = match index {
        Some(Value::Index(i)) => vec![*i],
        Some(_) => Vec::new(),
        None => {
            let mut found = Vec::new();
            p.visit_free(&mut |i| found.push(i));
            found.sort_unstable();
            found.dedup();
            found
        }
    };
    open.into_iter().filter_map(|i| Some((i, value_of(i, p, maps)?))).collect()
}

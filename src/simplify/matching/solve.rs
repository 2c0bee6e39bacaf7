//! Equations of guards, and lists of indices that are the same in another order.

use crate::base::IndexId;
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};
use crate::simplify::bindings::Value;

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

/// `i = a` for the index of an equation, or for each index with a unit coefficient.
pub(super) fn solutions(p: &Pred, index: Option<&Value>, maps: &dyn Fn(RelationRef) -> bool) -> Vec<(IndexId, Affine)> {
    match p {
        Pred::Zero(a) => {
            let mut found = Vec::new();
            for (v, k) in a.terms() {
                let Var::Index(i) = v else { continue };
                if k.unsigned_abs() != 1 || index.is_some_and(|known| *known != Value::Index(*i)) {
                    continue;
                }
                // k*i + b = 0  ==  i = -k*b
                let solved = Affine::index(*i).scale(*k).and_then(|term| a.sub(&term)).and_then(|b| b.scale(-*k));
                if let Ok(solved) = solved
                    && !solved.mentions(*i)
                {
                    found.push((*i, solved));
                }
            }
            found
        }
        // f(b, i) fixes i = f(b).
        Pred::Relation { relation: relation @ RelationRef::Input(_), args, holds: true } if maps(*relation) => {
            let Some((target, source)) = args.split_last() else { return Vec::new() };
            let Some(i) = target.as_index() else { return Vec::new() };
            if index.is_some_and(|known| *known != Value::Index(i)) || source.iter().any(|a| a.mentions(i)) {
                return Vec::new();
            }
            vec![(i, Affine::var(Var::Apply(Box::new(Application { map: *relation, args: source.to_vec() }))))]
        }
        _ => Vec::new(),
    }
}

//! Guards that give indices their values, so that a sum over these has at most one summand.

use crate::base::IndexId;
use crate::index::{Affine, Application, Pred, RelationRef, Var};

/// Whether a guard gives every index of `open` one value where all other indices are known: by an equation in which the index has the
/// coefficient 1 or -1, or as the target of a map. One that was given a value gives values to others.
///
/// ```text
/// sum k. [k = i + 1] * x[k]  ==  x[i + 1]              sum o, k. [o = i and cam(o, k)] * x[k]  ==  x[cam(i)]
/// ```
pub fn are_determined(open: &[IndexId], guard: &Pred, is_map: &dyn Fn(RelationRef) -> bool) -> bool {
    let mut open = open.to_vec();
    while !open.is_empty() {
        let waits = |a: &Affine, but: IndexId| open.iter().any(|i| *i != but && a.mentions(*i));
        let unit = |a: &Affine, i: IndexId| a.coefficient(&Var::Index(i)).unsigned_abs() == 1 && !waits(a, i);
        let gives = |p: &Pred, i: IndexId| match p {
            Pred::Zero(a) => unit(a, i) && !inside_of_maps(a, i),
            Pred::Relation { relation, args, holds: true } if is_map(*relation) => {
                let Some((target, source)) = args.split_last() else { return false };
                unit(target, i) && source.iter().all(|a| !open.iter().any(|j| a.mentions(*j)))
            }
            _ => false,
        };
        let determined = open.iter().position(|i| guard.conjuncts().iter().any(|p| gives(p, *i)));
        match determined {
            Some(at) => open.remove(at),
            None => return false,
        };
    }
    true
}

/// The value that an atom gives an index where everything else in it is known: `a` by `i = a`, and `f(a)` by `f(a, i)` for a map, which
/// has a value where the atom holds.
pub fn value_of(i: IndexId, atom: &Pred, is_map: &dyn Fn(RelationRef) -> bool) -> Option<Affine> {
    match atom {
        // k * i + rest = 0 with k = 1 or -1
        Pred::Zero(a) => {
            let k = a.coefficient(&Var::Index(i));
            let rest = a.sub(&Affine::index(i).scale(k).ok()?).ok()?;
            (k.unsigned_abs() == 1 && !rest.mentions(i)).then(|| rest.scale(-k).ok()).flatten()
        }
        Pred::Relation { relation, args, holds: true } if is_map(*relation) => {
            let (target, source) = args.split_last()?;
            let known = source.iter().all(|a| !a.mentions(i) && a.nesting() < Affine::MAX_NESTING);
            let value = || Var::Apply(Box::new(Application { map: *relation, args: source.to_vec() }));
            (known && target.as_index() == Some(i)).then(|| Affine::var(value()))
        }
        _ => None,
    }
}

/// Whether an index occurs in the source of a map that an expression applies.
fn inside_of_maps(a: &Affine, i: IndexId) -> bool {
    a.terms().iter().any(|(v, _)| match v {
        Var::Apply(application) => application.args.iter().any(|a| a.mentions(i)),
        Var::Index(_) | Var::Size(_) => false,
    })
}

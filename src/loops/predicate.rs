//! What loops and tests say of indices, as predicates; indices may have other names in them.

use super::{Bound, Cond, Domain};
use crate::base::IndexId;
use crate::index::{Affine, Checked, Pred, Size};
use crate::solver::Facts;

/// Adds what the bounds of a loop say of its index.
pub(crate) fn assume(known: &mut Facts, index: IndexId, domain: &Domain) -> Checked<()> {
    if let Domain::Range { lower, upper } = domain.whole_of() {
        known.assume(&of_range(&Affine::index(index), (lower, upper), &|a| Ok(a.clone()))?);
    }
    Ok(())
}

/// What a condition says of indices; nothing of one on numbers.
pub(crate) fn says(cond: &Cond) -> Checked<Option<Pred>> {
    of_test(cond, &|a| Ok(a.clone()))
}

/// What is known where a condition holds, too.
pub(crate) fn under(known: &Facts, cond: &Cond) -> Checked<Facts> {
    let mut inside = known.clone();
    inside.assume(&says(cond)?.unwrap_or(Pred::True));
    Ok(inside)
}

/// Whether indices are known to be in the ranges of dense axes.
pub(crate) fn are_in_range(known: &Facts, at: &[Affine], dims: &[Size]) -> Checked<bool> {
    for (a, n) in at.iter().zip(dims) {
        if !known.proves(&Pred::in_range(a, n)?) {
            return Ok(false);
        }
    }
    Ok(at.len() == dims.len())
}

/// What a range says of its index: from the greatest of the lower bounds to the least of the upper ones.
pub(crate) fn of_range(
    index: &Affine,
    (lower, upper): (&[Bound], &[Bound]),
    rename: &dyn Fn(&Affine) -> Checked<Affine>,
) -> Checked<Pred> {
    Ok(Pred::all(rooms(index, (lower, upper), rename)?.into_iter().map(Pred::non_negative)))
}

/// What is not negative where an index is in a range: how far it is from each of the ends.
pub(crate) fn rooms(
    index: &Affine,
    (lower, upper): (&[Bound], &[Bound]),
    rename: &dyn Fn(&Affine) -> Checked<Affine>,
) -> Checked<Vec<Affine>> {
    let mut all = Vec::with_capacity(lower.len() + upper.len());
    for bound in lower {
        // floor(a / d) <= i
        let last = rename(&bound.numerator)?.add_constant(1 - bound.divisor)?;
        all.push(index.scale(bound.divisor)?.sub(&last)?);
    }
    for bound in upper {
        all.push(rename(&bound.numerator)?.sub(&index.scale(bound.divisor)?)?);
    }
    Ok(all)
}

/// What a test says, without what it says of numbers; nothing where it is about these alone.
pub(crate) fn of_test(cond: &Cond, rename: &dyn Fn(&Affine) -> Checked<Affine>) -> Checked<Option<Pred>> {
    Ok(match cond {
        Cond::NonNegative(a) => Some(Pred::non_negative(rename(a)?)),
        Cond::Zero(a) => Some(Pred::zero(rename(a)?)),
        Cond::NonZero(a) => Some(Pred::non_zero(rename(a)?)),
        Cond::Support(_) | Cond::NoSupport(_) => None,
        Cond::All(conds) => {
            let mut all = Vec::new();
            for cond in conds {
                all.extend(of_test(cond, rename)?);
            }
            Some(Pred::all(all))
        }
        Cond::Any(conds) => {
            let any: Vec<Option<Pred>> = conds.iter().map(|cond| of_test(cond, rename)).collect::<Checked<_>>()?;
            any.into_iter().collect::<Option<Vec<Pred>>>().map(Pred::any)
        }
    })
}

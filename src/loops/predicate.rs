//! What loops and tests say of indices, as predicates; indices may have other names in them.

use super::{Bound, Cond};
use crate::index::{Affine, Checked, Pred};

/// What a range says of its index: from the greatest of the lower bounds to the least of the upper ones.
pub(crate) fn of_range(
    index: &Affine,
    (lower, upper): (&[Bound], &[Bound]),
    rename: &dyn Fn(&Affine) -> Checked<Affine>,
) -> Checked<Pred> {
    let mut all = Vec::with_capacity(lower.len() + upper.len());
    for bound in lower {
        // floor(a / d) <= i
        let last = rename(&bound.numerator)?.add_constant(1 - bound.divisor)?;
        all.push(Pred::le(&last, &index.scale(bound.divisor)?)?);
    }
    for bound in upper {
        all.push(Pred::le(&index.scale(bound.divisor)?, &rename(&bound.numerator)?)?);
    }
    Ok(Pred::all(all))
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

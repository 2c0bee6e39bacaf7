//! How many values a loop has, as far as its bounds tell.
//!
//! A range from `floor(a / d)` to `floor(b / d)`, both included, has at most `ceil((b - a) / d) + 1` values, and exactly so many where `d` is 1.
//! That is known beforehand where `b - a` is a number.
//!
//! A loop of fewer than [`SHORT`] values is short, and one of up to [`FEW`] becomes statements.

use super::{FEW, SHORT};
use crate::index::Var;
use crate::loops::{Bound, Domain, Stmt};

/// How many values a loop has at most, if that is known beforehand: its ends are literals apart, or such fractions.
pub(in crate::ir::schedule) fn literal(domain: &Domain) -> Option<i64> {
    let Domain::Range { lower, upper } = domain else { return None };
    let between = |(lower, upper): (&Bound, &Bound)| {
        let steps = upper.numerator.sub(&lower.numerator).ok()?.as_constant()?;
        // floor(a / d) - floor(b / d) is at most (a - b) / d, rounded up.
        let apart = steps.checked_add(lower.divisor - 1)?.div_euclid(lower.divisor);
        (lower.divisor == upper.divisor).then(|| apart.checked_add(1)).flatten()
    };
    lower.iter().flat_map(|low| upper.iter().map(move |high| (low, high))).filter_map(between).min()
}

/// Whether a loop is known to have few values.
pub(in crate::ir::schedule) fn is_short(domain: &Domain) -> bool {
    literal(domain).is_some_and(|n| n < SHORT)
}

/// Whether a loop from an index on, `i + 1 .. 4`, has few values, if the index counts from 0.
pub(super) fn ends_soon(domain: &Domain) -> bool {
    let Domain::Range { lower, upper } = domain else { return false };
    let ([Bound { numerator: first, divisor: 1 }], [Bound { numerator: last, divisor: 1 }]) =
        (lower.as_slice(), upper.as_slice())
    else {
        return false;
    };
    let counts = first.offset() >= 0 && first.terms().iter().all(|(v, c)| matches!(v, Var::Index(_)) && *c > 0);
    counts && last.as_constant().is_some_and(|last| last < SHORT - 1)
}

/// Whether an end of a range is a fraction, which depends on indices around.
pub(in crate::ir::schedule) fn has_fractions(domain: &Domain) -> bool {
    let Domain::Range { lower, upper } = domain else { return false };
    lower.iter().chain(upper).any(|bound| bound.divisor != 1)
}

/// Whether all loops in statements have a few values, as literals.
pub(in crate::ir::schedule) fn only_few(body: &[Stmt]) -> bool {
    let mut few = true;
    for stmt in body {
        stmt.visit(&mut |stmt| {
            if let Stmt::For { domain, .. } = stmt {
                few &= literal(domain).is_some_and(|n| n <= FEW);
            }
        });
    }
    few
}

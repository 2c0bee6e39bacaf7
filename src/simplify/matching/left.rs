//! What of an expression is left to match: parts are crossed out, never copied.

use crate::index::Pred;
use crate::simplify::expr::{Expr, Product};

/// Some of the parts of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mask(u64);

impl Mask {
    pub(super) const NONE: Mask = Mask(0);

    /// All parts; nothing where there are more than 64.
    pub(super) fn all(parts: usize) -> Option<Mask> {
        match parts {
            0..64 => Some(Mask((1 << parts) - 1)),
            64 => Some(Mask(u64::MAX)),
            _ => None,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) fn without(self, at: usize) -> Mask {
        Mask(self.0 & !(1 << at))
    }

    /// Those that are not in another one.
    pub(super) fn except(self, other: Mask) -> Mask {
        Mask(self.0 & !other.0)
    }

    /// The places, in order.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let at = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(at)
        })
    }

    /// The parts.
    pub(super) fn of<T>(self, list: &[T]) -> impl Iterator<Item = &T> {
        self.iter().filter_map(|at| list.get(at))
    }

    /// The places of those parts that satisfy a condition.
    pub(super) fn filter<T>(self, list: &[T], mut keep: impl FnMut(&T) -> bool) -> Mask {
        let kept = self.iter().filter(|at| list.get(*at).is_some_and(&mut keep));
        Mask(kept.fold(0, |mask, at| mask | 1 << at))
    }
}

/// What is left of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left<'p> {
    pub(super) product: &'p Product,
    pub(super) sums: Mask,
    pub(super) conjuncts: Mask,
    pub(super) factors: Mask,
}

impl<'p> Left<'p> {
    /// All of it; nothing for a product of too many parts.
    pub(super) fn all(product: &'p Product) -> Option<Left<'p>> {
        Some(Left {
            product,
            sums: Mask::all(product.sums.len())?,
            conjuncts: Mask::all(product.guard.conjuncts().len())?,
            factors: Mask::all(product.factors.len())?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sums.is_empty() && self.conjuncts.is_empty() && self.factors.is_empty()
    }

    /// The conjuncts of a mask as one predicate.
    pub(super) fn guard(&self, conjuncts: Mask) -> Pred {
        Pred::all(conjuncts.of(self.product.guard.conjuncts()).cloned())
    }

    /// The factors of a mask.
    pub(super) fn factors(&self, factors: Mask) -> Vec<Expr> {
        factors.of(&self.product.factors).cloned().collect()
    }

    /// What is left as a product.
    pub(super) fn to_product(self) -> Product {
        Product {
            sums: self.sums.of(&self.product.sums).cloned().collect(),
            guard: self.guard(self.conjuncts),
            factors: self.factors(self.factors),
        }
    }
}

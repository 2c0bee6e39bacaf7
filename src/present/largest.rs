//! The largest element of a row, `max k < n. v[i, k]`.
//!
//! ```text
//! max k < n. v[i, k]  ==  (sum k < n. [(argmax l < n. v[i, l]) = k] * v[i, k]) + [n <= 0] * -inf
//! ```
//!
//! The second summand may be missing where `n >= 1` is known, which is how elaboration leaves it too. It is put back in the value of a
//! variable all of whose uses stand where `n >= 1`: there the values are the same, and nothing looks at the others.

use std::collections::BTreeSet;

use super::sums::Contraction;
use super::{Context, MAX_GUARDS, MAX_WEIGHT, Presenter};
use crate::base::{Id, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::scalar::Number;
use crate::term::{Term, TermId};

/// How a contraction reads.
pub(super) enum Largest {
    /// As it is.
    No,
    /// As `max`, where there is an element.
    Found,
    /// As `max`, with this value where there is none.
    Or(f64),
}

impl Presenter<'_> {
    /// Whether a contraction is the largest element of a row.
    pub(super) fn largest(&self, contraction: &Contraction, context: Context) -> Largest {
        let Contraction { sums, guard, operands } = contraction;
        let ([(s, n)], [(x, place)]) = (sums.as_slice(), operands.as_slice()) else { return Largest::No };
        let mut mentions = guard.conjuncts().iter().filter(|p| p.mentions(*s));
        let (Some(atom), None) = (mentions.next(), mentions.next()) else { return Largest::No };
        let Pred::Relation { relation: relation @ RelationRef::Computed { var, view }, args, holds: true } = atom
        else {
            return Largest::No;
        };
        let limit = match view {
            View::Support => return Largest::No,
            View::ArgMax => f64::NEG_INFINITY,
            View::ArgMin => f64::INFINITY,
        };
        let own = self.whole_param(*x).map(|param| self.term.param(param)).or(self.vars[x.index()]);
        let shape = self.shape(*relation);
        let Some((last, outer)) = args.split_last() else { return Largest::No };
        let in_range = |(a, n): (&Affine, &Size)| {
            a.as_index().and_then(|i| self.ranges.get(i.index())).is_some_and(|range| range.as_ref() == Some(n))
        };
        if own != Some(*var)
            || args != place
            || last.as_index() != Some(*s)
            || shape.last() != Some(n)
            || !outer.iter().zip(&shape).all(in_range)
            || outer.iter().any(|a| a.mentions(*s))
        {
            return Largest::No;
        }
        if self.positive_sizes(guard, context).contains(n) || self.assumed_positive(n) {
            Largest::Found
        } else if self.assured.contains(n) {
            Largest::Or(limit)
        } else {
            Largest::No
        }
    }

    /// The sizes that are positive at a place by the loops around and what the guards around say.
    fn positive_sizes(&self, guard: &Pred, context: Context) -> BTreeSet<Size> {
        let mut sizes = BTreeSet::new();
        let mut at = context.loops;
        for _ in 0..MAX_GUARDS {
            let Some(here) = at.checked_sub(1) else { break };
            let (index, around, _) = self.loops[here];
            sizes.extend(self.ranges.get(index.index()).cloned().flatten());
            at = around;
        }
        let mut claims = |p: &Pred| {
            if p.weight() <= MAX_WEIGHT {
                for p in p.conjuncts() {
                    if let Pred::NonNegative(a) = p
                        && a.is_size()
                    {
                        sizes.extend(a.add_constant(1).ok());
                    }
                }
            }
        };
        claims(guard);
        let mut at = context.guards;
        for _ in 0..MAX_GUARDS {
            let Some(here) = at.checked_sub(1) else { break };
            let (guard, around) = &self.guards[here];
            claims(guard);
            at = *around;
        }
        sizes
    }

    fn assumed_positive(&self, n: &Size) -> bool {
        n.as_constant().is_some_and(|n| n >= 1)
            || n.add_constant(-1).is_ok_and(|n| self.source.signature.assumptions.contains(&Pred::NonNegative(n)))
    }

    /// A variable is read at a place.
    pub(super) fn record_use(&mut self, x: VarId, context: Context) {
        let mut sizes = self.positive_sizes(&Pred::True, context);
        sizes.extend(self.assured.iter().cloned());
        let known = &mut self.assured_by_uses[x.index()];
        *known = Some(match known.take() {
            Some(known) => known.intersection(&sizes).cloned().collect(),
            None => sizes,
        });
    }

    /// A variable is read somewhere.
    pub(super) fn record_other_use(&mut self, x: VarId) {
        self.assured_by_uses[x.index()] = Some(BTreeSet::new());
    }

    /// `e + [n <= 0] * limit`.
    pub(super) fn or_limit(&mut self, e: TermId, n: &Size, limit: f64) -> Result<Term> {
        let limit = self.term.push(Term::Number(Number::Literal(limit)))?;
        let guard = Pred::non_negative(n.scale(-1)?);
        let otherwise = self.term.push(Term::Iverson { guard, body: limit })?;
        Ok(Term::Add(e, otherwise))
    }
}

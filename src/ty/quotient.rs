//! Floor division of sizes by positive integers.
//!
//! ```text
//! floor((k*q + r) / k)  ==  q + floor(r / k)            where 0 <= c < k for all coefficients c of r
//! h = floor(r / k)      <=>  k*h <= r  and  r <= k*h + k - 1
//! ```
//!
//! A quotient is a size of its own, which two assumptions define; so all that proves, counts and binds knows of it what it knows of other
//! assumptions. There is one for each remainder and divisor, so equal quotients are equal sizes, and one that has no remainder is none.

use std::collections::{BTreeMap, BTreeSet};

use super::Signature;
use crate::base::integers::gcd;
use crate::base::{SizeId, work};
use crate::index::{Affine, Checked, Overflow, Pred, Size, Var};
use crate::solver::estimate::Hints;

/// `size = floor(of / by)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotient {
    /// The quotient.
    pub size: SizeId,
    /// What is divided: sizes with positive factors, and an integer that is not negative.
    pub of: Size,
    /// The divisor, at least 2.
    pub by: i64,
}

impl Quotient {
    /// How it is written, given how what it divides is: `n // 2`, `(n + m) // 2`.
    pub(crate) fn text(&self, of: &str) -> String {
        format!("{} // {}", dividend(&self.of, of), self.by)
    }

    /// What defines it.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn definition(&self) -> Checked<[Pred; 2]> {
        let multiple = Affine::size(self.size).scale(self.by)?;
        let rest = self.of.sub(&multiple)?;
        let below = Affine::constant(self.by - 1).sub(&rest)?;
        Ok([Pred::non_negative(rest), Pred::non_negative(below)])
    }
}

/// What is divided, as it is written in front of the divisor: in parentheses if it has several terms.
pub(crate) fn dividend(of: &Affine, text: &str) -> String {
    match of.terms().len() == 1 && of.offset() == 0 {
        true => text.to_owned(),
        false => format!("({text})"),
    }
}

impl Signature {
    /// The sizes that assumptions define as quotients, in the order of the assumptions.
    pub fn quotients(&self) -> Vec<Quotient> {
        let said: BTreeSet<&Pred> = self.assumptions.iter().flat_map(Pred::conjuncts).collect();
        let mut seen = BTreeSet::new();
        let is_defined =
            |quotient: &Quotient| quotient.definition().is_ok_and(|both| both.iter().all(|p| said.contains(p)));
        self.divisions(|_| true).filter(|quotient| is_defined(quotient) && seen.insert(quotient.size)).collect()
    }

    /// The quotients that have one half of a definition, `of - by*size` for which `may_be` holds.
    fn divisions(&self, may_be: impl Fn(&Affine) -> bool) -> impl Iterator<Item = Quotient> {
        work::charge(self.assumptions.len());
        let rests = self.assumptions.iter().flat_map(Pred::conjuncts).filter_map(move |p| match p {
            Pred::NonNegative(rest) if may_be(rest) => Some(rest),
            _ => None,
        });
        let of = |rest: &Affine, v: &Var, k: i64| {
            let (Var::Size(size), Some(by)) = (v, k.checked_neg().filter(|by| *by >= 2)) else { return None };
            let of = rest.add(&Affine::size(*size).scale(by).ok()?).ok()?;
            let positive = of.offset() >= 0 && of.terms().iter().all(|(_, k)| *k > 0);
            positive.then_some(Quotient { size: *size, of, by })
        };
        rests.flat_map(move |rest| rest.terms().iter().filter_map(move |(v, k)| of(rest, v, *k)))
    }

    /// Of the quotients for which `may_be` holds, the first that is as wanted.
    fn quotient_where(
        &self,
        may_be: impl Fn(&Affine) -> bool,
        is_wanted: impl Fn(&Quotient) -> bool,
    ) -> Option<Quotient> {
        let is_said = |p: &Pred| self.assumptions.iter().any(|said| said.conjuncts().contains(p));
        let is_defined = |quotient: &Quotient| quotient.definition().is_ok_and(|both| both.iter().all(is_said));
        self.divisions(may_be).find(|quotient| is_wanted(quotient) && is_defined(quotient))
    }

    /// The quotient that a size is.
    pub(crate) fn quotient_of(&self, size: SizeId) -> Option<Quotient> {
        let divides = |rest: &Affine| rest.coefficient(&Var::Size(size)) < -1;
        self.quotient_where(divides, |quotient| quotient.size == size)
    }

    /// The values of quotients, where those of all other sizes are known.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn quotient_values(&self, value: impl Fn(SizeId) -> Option<i64>) -> Checked<BTreeMap<SizeId, i64>> {
        let mut known: BTreeMap<SizeId, i64> = BTreeMap::new();
        for Quotient { size, of, by } in self.quotients() {
            let found = of.evaluate(&mut |v| match v {
                Var::Size(n) => known.get(n).copied().or_else(|| value(*n)),
                Var::Index(_) | Var::Apply(_) => None,
            });
            if let Some(found) = found {
                known.insert(size, found?.div_euclid(by));
            }
        }
        Ok(known)
    }

    /// Hints with what they imply for quotients of which nothing is said.
    pub(crate) fn with_quotients(&self, hints: &Hints) -> Hints {
        let mut hints = hints.clone();
        for Quotient { size, of, by } in self.quotients() {
            let multiple = |(v, k): &(Var, i64)| match v {
                Var::Size(n) => *k as f64 * hints.size(*n),
                Var::Index(_) | Var::Apply(_) => 0.0,
            };
            let multiple = of.terms().iter().map(multiple).sum::<f64>() / by as f64;
            hints.sizes.entry(size).or_insert(multiple);
        }
        hints
    }

    /// `floor(of / by)`, and the assumptions that were added: where no size is this quotient, `own` becomes it, or a new one whose name is free.
    /// `by` is positive.
    pub(crate) fn quotient(
        &mut self,
        of: &Size,
        by: i64,
        own: Option<SizeId>,
        is_free: &dyn Fn(&str) -> bool,
    ) -> Checked<(Size, Vec<Pred>)> {
        let (mut whole, mut rest, mut by) = (Affine::constant(0), of.clone(), by);
        loop {
            let (quotient, remainder) = rest.div_rem(by)?;
            whole = whole.add(&quotient)?;
            rest = remainder;
            let common = rest
                .terms()
                .iter()
                .fold(by.unsigned_abs(), |g, (_, k)| gcd(u128::from(g), u128::from(k.unsigned_abs())) as u64);
            let common = i64::try_from(common).map_err(|_| Overflow)?;
            if common > 1 {
                by /= common;
                rest = rest.div_rem(common)?.0;
            }
            if rest.terms().is_empty() {
                // What is left is less than the divisor.
                return Ok((whole, Vec::new()));
            }
            // floor((floor(n / a) + c) / b)  ==  floor((n + a*c) / (a*b))
            let inner = rest.add_constant(rest.offset().checked_neg().ok_or(Overflow)?)?.as_size();
            match inner.and_then(|inner| self.quotient_of(inner)) {
                Some(inner) => {
                    let shift = inner.by.checked_mul(rest.offset()).ok_or(Overflow)?;
                    rest = inner.of.add_constant(shift)?;
                    by = by.checked_mul(inner.by).ok_or(Overflow)?;
                }
                None => break,
            }
        }
        let as_long = |other: &Affine| other.offset() == rest.offset() && other.terms().len() == rest.terms().len() + 1;
        if let Some(found) = self.quotient_where(as_long, |quotient| quotient.of == rest && quotient.by == by) {
            return Ok((whole.add(&Affine::size(found.size))?, Vec::new()));
        }
        let size = match own.filter(|own| whole == Size::default() && rest.coefficient(&Var::Size(*own)) == 0) {
            Some(own) => own,
            None => self.sizes.push(self.quotient_name(&rest, by, is_free)),
        };
        let definition = Quotient { size, of: rest, by }.definition()?;
        self.assumptions.extend(definition.iter().cloned());
        Ok((whole.add(&Affine::size(size))?, definition.to_vec()))
    }

    /// `n_2` for `n // 2`.
    fn quotient_name(&self, of: &Size, by: i64, is_free: &dyn Fn(&str) -> bool) -> String {
        let sizes = of.terms().iter().filter_map(|(v, _)| match v {
            Var::Size(n) => self.sizes.get(*n).map(String::as_str),
            Var::Index(_) | Var::Apply(_) => None,
        });
        let stem = sizes.collect::<Vec<_>>().join("_");
        let stem = format!("{stem}_{by}");
        let taken = |name: &str| !is_free(name) || self.sizes.values().any(|size| size == name);
        let numbered = (2..).map(|k| format!("{stem}_{k}"));
        std::iter::once(stem.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(stem)
    }
}

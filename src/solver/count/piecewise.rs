//! Puts together pieces of a count that are one formula.
//!
//! Pieces whose conditions differ only in how they bound one form `t` of the sizes are a function of the value of `t`, given by intervals.
//! Neighbouring intervals are one where a formula happens to give the values of the other as well: `n*(n+1)/2` for `n >= 1`, and nothing
//! for `n = 0`, is `n*(n+1)/2`. What is found replaces the pieces where it is shorter.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Facts;
use super::super::polynomial::{Polynomial, Unknown};
use super::closed_form::{applies, is_natural};
use super::{Count, Factors};
use crate::index::{Affine, Checked, Overflow, Pred, Var};

/// How many pieces a count may have and still be put together by comparing them.
const MAX_MERGED: usize = 48;
/// How many values of sizes are tried one by one when a piece is extended.
const MAX_EXTENSION: i64 = 8;

impl Count {
    /// The same count with conditions that the facts decide taken out, and with as few pieces as comparing neighbours finds.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn simplify(&self, facts: &Facts) -> Checked<Count> {
        let mut simpler = Count::zero();
        for (factors, polynomial) in &self.pieces {
            let condition = condition(&factors.condition, facts)?;
            let polynomial = on_equations(polynomial, &condition)?;
            simpler.insert(Factors { condition, sets: factors.sets.clone() }, &polynomial)?;
        }
        simpler.merge()
    }

    /// Puts pieces together that are one formula: those whose conditions only bound one form of the sizes differently.
    ///
    /// # Errors
    /// Where a coefficient does not fit.
    pub fn merge(&self) -> Checked<Count> {
        let mut count = self.clone();
        let conditional = |count: &Count| count.pieces.keys().any(|factors| !factors.condition.is_true());
        if !conditional(&count) || count.pieces.len() > MAX_MERGED {
            return Ok(count);
        }
        'again: loop {
            let directions: BTreeSet<Affine> =
                count.pieces.keys().flat_map(|factors| factors.condition.conjuncts()).filter_map(direction).collect();
            for (direction, by_points) in directions.iter().flat_map(|form| [(form, false), (form, true)]) {
                let merged = count.merge_along(direction, by_points)?;
                if merged.weight() < count.weight() {
                    count = merged;
                    continue 'again;
                }
            }
            return Ok(count);
        }
    }

    /// The number of pieces, and that of their conditions.
    fn weight(&self) -> (usize, usize) {
        (self.pieces.len(), self.pieces.keys().map(|factors| factors.condition.conjuncts().len()).sum())
    }

    /// Merges pieces whose conditions differ in how they bound one form, short intervals point by point where this is asked for.
    fn merge_along(&self, direction: &Affine, by_points: bool) -> Checked<Count> {
        let mut lines: BTreeMap<Factors, Line> = BTreeMap::new();
        for (factors, polynomial) in &self.pieces {
            let (interval, condition) = Interval::of(direction, &factors.condition);
            let rest = Factors { condition, sets: factors.sets.clone() };
            lines.entry(rest).or_default().0.push((interval, polynomial.clone()));
        }
        let mut merged = Count::zero();
        for (rest, line) in lines {
            for (interval, polynomial) in line.merge(direction, by_points)?.0 {
                let condition = interval.condition(direction)?.and(rest.condition.clone());
                let polynomial = on_equations(&polynomial, &condition)?;
                merged.insert(Factors { condition, sets: rest.sets.clone() }, &polynomial)?;
            }
        }
        Ok(merged)
    }
}

/// A condition without what the facts decide; two opposite bounds become an equation.
fn condition(p: &Pred, facts: &Facts) -> Checked<Pred> {
    if p.is_true() {
        return Ok(Pred::True);
    }
    let simple = facts.simplify(p);
    let mut atoms = simple.conjuncts().to_vec();
    for p in simple.conjuncts() {
        if let Pred::NonNegative(a) = p
            && let opposite = Pred::non_negative(a.scale(-1)?)
            && simple.conjuncts().contains(&opposite)
        {
            atoms.retain(|q| q != p && *q != opposite);
            atoms.push(Pred::zero(a.clone()));
        }
    }
    Ok(if simple.is_false() { Pred::False } else { Pred::all(atoms) })
}

/// The polynomial with sizes replaced that the equations of a condition determine.
fn on_equations(polynomial: &Polynomial, condition: &Pred) -> Checked<Polynomial> {
    let mut polynomial = polynomial.clone();
    for p in condition.conjuncts() {
        if let Pred::Zero(a) = p
            && let Some(on) = on_hyperplane(&polynomial, a)?
        {
            polynomial = on;
        }
    }
    Ok(polynomial)
}

/// The polynomial where `a = 0`, without a variable that has a unit coefficient in `a`; nothing if there is none.
fn on_hyperplane(polynomial: &Polynomial, a: &Affine) -> Checked<Option<Polynomial>> {
    let solved =
        a.terms().iter().rev().find(|(v, k)| matches!(v, Var::Size(_) | Var::Index(_)) && k.unsigned_abs() == 1);
    let Some((v, k)) = solved else { return Ok(None) };
    let value = a.scale(-k)?.add(&Affine::var(v.clone()))?;
    let unknown = match v {
        Var::Size(n) => Unknown::Size(*n),
        Var::Index(i) => Unknown::Index(*i),
        Var::Apply(_) => return Ok(None),
    };
    match Polynomial::affine(&value) {
        Some(value) => polynomial.substitute(&unknown, &value).map(Some),
        None => Ok(None),
    }
}

/// The form that a bound or an equation bounds, without constant and with a positive first coefficient. Nothing for one with maps, which
/// may have no value, so that neither a bound nor its opposite holds.
fn direction(p: &Pred) -> Option<Affine> {
    let (Pred::NonNegative(a) | Pred::Zero(a)) = p else { return None };
    if applies(p) {
        return None;
    }
    let sign = a.terms().first()?.1.signum();
    a.add_constant(a.offset().checked_neg()?).ok()?.scale(sign).ok()
}

/// The values `first ..= last` of a form; nothing for an open end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: Option<i64>,
    last: Option<i64>,
}

impl Interval {
    /// How a condition bounds a form, and the rest of it.
    fn of(form: &Affine, condition: &Pred) -> (Interval, Pred) {
        let mut interval = Interval { first: None, last: None };
        let mut rest = Vec::new();
        let opposite = form.scale(-1).ok();
        for p in condition.conjuncts() {
            let (Pred::NonNegative(a) | Pred::Zero(a)) = p else {
                rest.push(p.clone());
                continue;
            };
            let equation = matches!(p, Pred::Zero(_));
            // 0 <= t + c, or t + c = 0
            if a.terms() == form.terms()
                && let Some(bound) = a.offset().checked_neg()
            {
                interval.first = interval.first.max(Some(bound));
                if equation {
                    interval.last = Some(bound);
                }
            // 0 <= c - t
            } else if opposite.as_ref().is_some_and(|opposite| a.terms() == opposite.terms()) && !equation {
                let bound = a.offset();
                interval.last = Some(interval.last.map_or(bound, |last| last.min(bound)));
            } else {
                rest.push(p.clone());
            }
        }
        (interval, Pred::all(rest))
    }

    fn condition(self, form: &Affine) -> Checked<Pred> {
        if let (Some(first), Some(last)) = (self.first, self.last)
            && first == last
        {
            return Pred::equal(form, &Affine::constant(first));
        }
        let first = self.first.map(|first| Pred::le(&Affine::constant(first), form)).transpose()?;
        let last = self.last.map(|last| Pred::le(form, &Affine::constant(last))).transpose()?;
        Ok(Pred::all(first.into_iter().chain(last)))
    }

    fn contains(self, other: Interval) -> bool {
        let first = self.first.is_none_or(|a| other.first.is_some_and(|b| a <= b));
        let last = self.last.is_none_or(|a| other.last.is_some_and(|b| b <= a));
        first && last
    }
}

/// Formulas by intervals of one form, which may overlap.
#[derive(Debug, Default)]
struct Line(Vec<(Interval, Polynomial)>);

impl Line {
    /// The same function on disjoint intervals; neighbours with the same formula are one, also where the formula of one happens to give
    /// the values of the other.
    fn merge(self, form: &Affine, by_points: bool) -> Checked<Line> {
        // Sizes are not negative.
        let least = is_natural(form).then_some(0);
        let mut starts: BTreeSet<Option<i64>> = [least].into();
        for (interval, _) in &self.0 {
            starts.insert(interval.first.max(least));
            if let Some(last) = interval.last {
                starts.insert(Some(last.checked_add(1).ok_or(Overflow)?));
            }
        }
        if by_points {
            let pairs: Vec<(Option<i64>, Option<i64>)> =
                starts.iter().copied().zip(starts.iter().skip(1).copied()).collect();
            for (first, next) in pairs {
                if let (Some(first), Some(next)) = (first, next)
                    && next.saturating_sub(first) <= MAX_EXTENSION
                {
                    starts.extend((first..next).map(Some));
                }
            }
        }
        let starts: Vec<Option<i64>> = starts.into_iter().filter(|start| *start >= least).collect();
        let mut merged: Vec<(Interval, Polynomial)> = Vec::new();
        for (at, first) in starts.iter().enumerate() {
            let last = starts.get(at + 1).copied().flatten().map(|next| next - 1);
            let interval = Interval { first: *first, last };
            let mut sum = Polynomial::zero();
            for (whole, polynomial) in &self.0 {
                let whole = Interval { first: whole.first.filter(|first| Some(*first) > least), ..*whole };
                if whole.contains(interval) {
                    sum = sum.add(polynomial)?;
                }
            }
            if let (true, Some(value)) = (by_points && *first == last, last)
                && let Some(on) = on_hyperplane(&sum, &form.add_constant(value.checked_neg().ok_or(Overflow)?)?)?
            {
                sum = on;
            }
            merged.push((interval, sum));
            while let [.., (before, a), (after, b)] = merged.as_mut_slice() {
                if agree(a, b, *before, form)? {
                    *a = b.clone();
                } else if !agree(a, b, *after, form)? {
                    break;
                }
                before.last = after.last;
                merged.pop();
            }
        }
        merged.retain(|(_, polynomial)| !polynomial.is_zero());
        for (interval, _) in &mut merged {
            interval.first = interval.first.filter(|first| Some(*first) > least);
        }
        Ok(Line(merged))
    }
}

/// Whether two formulas have the same values on an interval of a form.
fn agree(a: &Polynomial, b: &Polynomial, on: Interval, form: &Affine) -> Checked<bool> {
    if a == b {
        return Ok(true);
    }
    let (Some(first), Some(last)) = (on.first, on.last) else { return Ok(false) };
    if last.checked_sub(first).is_none_or(|length| length >= MAX_EXTENSION) {
        return Ok(false);
    }
    let difference = a.sub(b)?;
    for value in first..=last {
        match on_hyperplane(&difference, &form.add_constant(value.checked_neg().ok_or(Overflow)?)?)? {
            Some(difference) if difference.is_zero() => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

//! Sizes from the equations of the axes: an unknown at a time, then as a linear system. What is left open may follow from the assumptions, where
//! they leave one value: `n // 2`, or `assume m = 2*n`.

use std::collections::{BTreeMap, BTreeSet};

use super::text::affine_text;
use crate::base::{Arena, Id, SizeId};
use crate::error::{Error, Result};
use crate::index::{Pred, Size, Var};
use crate::solver::polynomial::Rational;
use crate::solver::{self, Unsolved};
use crate::ty::Signature;

/// `max(formula, 0) = length`
pub(super) struct Equation {
    pub formula: Size,
    pub length: i64,
    pub origin: Origin,
}

pub(super) enum Origin {
    /// A size that was given by name.
    Given(String),
    /// An axis of a tensor or relation.
    Axis { subject: String, axis: usize },
}

impl Equation {
    /// Whether the formula itself is known: an axis of length 0 may have any formula that is not positive.
    fn is_exact(&self) -> bool {
        self.length > 0 || matches!(self.origin, Origin::Given(_))
    }

    fn text(&self) -> String {
        match &self.origin {
            Origin::Given(name) => format!("{name} = {} was given", self.length),
            Origin::Axis { subject, axis } => format!("axis {axis} of `{subject}` has length {}", self.length),
        }
    }

    fn subject(&self) -> &str {
        match &self.origin {
            Origin::Given(name) | Origin::Axis { subject: name, .. } => name,
        }
    }
}

pub(super) struct Solver<'a> {
    signature: &'a Signature,
    equations: Vec<Equation>,
    /// The unknown terms of each equation, and the value of the rest.
    open: Vec<(BTreeMap<usize, i128>, i128)>,
    /// The equations in which a variable occurs.
    uses: Vec<Vec<usize>>,
    /// The value of each variable and the equations it came from.
    known: Vec<Option<(i64, BTreeSet<usize>)>>,
    steps: u64,
}

impl<'a> Solver<'a> {
    /// How many operations on coefficients the solution may take; ordinary programs need a handful.
    const MAX_STEPS: u64 = 100_000_000;

    pub fn new(signature: &'a Signature, mut equations: Vec<Equation>) -> Result<Self> {
        // Given sizes and plain variables first: they make the clearest reasons.
        equations.sort_by_key(|e| (!matches!(e.origin, Origin::Given(_)), e.formula.as_size().is_none()));
        let mut uses = vec![Vec::new(); signature.sizes.len()];
        let mut open = Vec::with_capacity(equations.len());
        for (at, equation) in equations.iter().enumerate() {
            let mut terms = BTreeMap::new();
            for (v, k) in equation.formula.terms() {
                match v {
                    Var::Size(n) if n.index() < uses.len() => {
                        terms.insert(n.index(), i128::from(*k));
                        uses[n.index()].push(at);
                    }
                    _ => return Err(Error::bug("bind", "a shape depends on something other than the sizes")),
                }
            }
            open.push((terms, i128::from(equation.formula.offset())));
        }
        let known = vec![None; signature.sizes.len()];
        Ok(Solver { signature, equations, open, uses, known, steps: 0 })
    }

    pub fn solve(mut self) -> Result<Arena<SizeId, i64>> {
        let mut queue: Vec<usize> = (0..self.equations.len()).rev().collect();
        loop {
            while let Some(at) = queue.pop() {
                self.propagate(at, &mut queue)?;
            }
            for row in self.reduced()? {
                if let Some((&v, &k)) = row.terms.first_key_value()
                    && row.terms.len() == 1
                {
                    self.assign(v, k, row.constant, row.reasons, &mut queue)?;
                }
            }
            if queue.is_empty() && !self.assumed(&mut queue)? {
                break;
            }
        }
        let names = self.signature.sizes.values();
        let unknown: Vec<&String> =
            names.zip(&self.known).filter(|(_, known)| known.is_none()).map(|(name, _)| name).collect();
        if let Some(name) = unknown.first() {
            let all: Vec<String> = unknown.iter().take(8).map(|name| format!("`{name}`")).collect();
            let (which, them) = match unknown.len() {
                1 => ("this size does".to_owned(), "it"),
                _ => (format!("the sizes {} do", all.join(", ")), "them"),
            };
            let message = format!(
                "{which} not follow from the shapes of the inputs; give {them}, by `--size {name}=3`, in Rust by `Inputs::size`, in Python by `sizes={{\"{name}\": 3}}`"
            );
            return Err(Error::data(*name, message));
        }
        for at in 0..self.equations.len() {
            self.check(at)?;
        }
        Ok(self.known.into_iter().flatten().map(|(n, _)| n).collect())
    }

    /// Gives a value to sizes for which the assumptions leave one; whether there is such a size.
    fn assumed(&mut self, queue: &mut Vec<usize>) -> Result<bool> {
        let signature = self.signature;
        let mut ranges: BTreeMap<usize, (i128, i128, BTreeSet<usize>)> = BTreeMap::new();
        for p in signature.assumptions.iter().flat_map(Pred::conjuncts) {
            let (Pred::NonNegative(a) | Pred::Zero(a)) = p else { continue };
            let (mut open, mut rest, mut from) = (None, i128::from(a.offset()), BTreeSet::new());
            let mut alone = true;
            for (v, k) in a.terms() {
                let Var::Size(n) = v else { continue };
                match self.known.get(n.index()) {
                    Some(Some((value, reasons))) => {
                        rest = rest.checked_add(i128::from(*k) * i128::from(*value)).ok_or(Error::Overflow)?;
                        from.extend(reasons.iter().copied());
                    }
                    _ => alone &= open.replace((n.index(), i128::from(*k))).is_none(),
                }
            }
            self.step(a.terms().len())?;
            let Some((n, k)) = open.filter(|_| alone) else { continue };
            let (low, high, reasons) = ranges.entry(n).or_insert((0, i128::MAX, BTreeSet::new()));
            // k * n + rest >= 0
            let bound = -rest.div_euclid(k.abs());
            match k > 0 {
                true => *low = (*low).max(bound),
                false => *high = (*high).min(rest.div_euclid(-k)),
            }
            if matches!(p, Pred::Zero(_)) {
                match k > 0 {
                    true => *high = (*high).min((-rest).div_euclid(k)),
                    false => *low = (*low).max(-(-rest).div_euclid(-k)),
                }
            }
            reasons.extend(from);
        }
        let found: Vec<_> = ranges.into_iter().filter(|(_, (low, high, _))| low == high).collect();
        for (n, (value, _, from)) in &found {
            self.assign(*n, 1, *value, from.clone(), queue)?;
        }
        Ok(!found.is_empty())
    }

    fn step(&mut self, count: usize) -> Result<()> {
        self.steps = self.steps.saturating_add(count as u64 + 1);
        if self.steps > Self::MAX_STEPS { Err(self.too_long()) } else { Ok(()) }
    }

    fn too_long(&self) -> Error {
        let (what, limit) = ("steps to solve for the sizes", Self::MAX_STEPS);
        Error::Limit { what, limit, found: self.steps.max(limit + 1) }
    }

    /// What an equation says about its unknowns by itself.
    fn propagate(&mut self, at: usize, queue: &mut Vec<usize>) -> Result<()> {
        let (terms, rest) = &self.open[at];
        let (exact, length) = (self.equations[at].is_exact(), i128::from(self.equations[at].length));
        if terms.is_empty() {
            return self.check(at);
        }
        let rest = *rest;
        if exact {
            if let Some((&v, &k)) = terms.first_key_value()
                && terms.len() == 1
            {
                let from = BTreeSet::from([at]);
                self.assign(v, k, length.checked_sub(rest).ok_or(Error::Overflow)?, from, queue)?;
            }
            return Ok(());
        }
        // sum of k * v + rest <= 0 with k > 0 and v >= 0: a term with k + rest > 0 must vanish.
        if terms.values().all(|&k| k > 0) {
            if rest > 0 {
                return Err(self.conflict(at, &format!("at least {rest}"), []));
            }
            let zero: Vec<usize> = terms.iter().filter(|&(_, &k)| k > -rest).map(|(&v, _)| v).collect();
            let count = terms.len();
            self.step(count)?;
            for v in zero {
                self.assign(v, 1, 0, BTreeSet::from([at]), queue)?;
            }
        }
        Ok(())
    }

    /// `coefficient * v = constant`
    fn assign(
        &mut self,
        v: usize,
        coefficient: i128,
        constant: i128,
        from: BTreeSet<usize>,
        queue: &mut Vec<usize>,
    ) -> Result<()> {
        if self.known[v].is_some() {
            return Ok(());
        }
        let name = self.signature.sizes.get(SizeId::from_index(v)).cloned().unwrap_or_default();
        let reasons = self.reasons(&from);
        let (value, remainder) = (constant.checked_div(coefficient), constant.checked_rem(coefficient));
        let (Some(value), Some(remainder)) = (value, remainder) else { return Err(Error::Overflow) };
        if remainder != 0 {
            let value = Rational::new(constant, coefficient)?;
            let (above, below) = (value.numerator(), value.denominator());
            return Err(Error::data(name, format!("this size would be {above}/{below}, not an integer: {reasons}")));
        }
        if value < 0 {
            return Err(Error::data(
                name,
                format!("this size would be {value}, but a size is not negative: {reasons}"),
            ));
        }
        let value = i64::try_from(value).map_err(|_| Error::Overflow)?;
        self.known[v] = Some((value, from));
        for &at in &self.uses[v] {
            let (terms, rest) = &mut self.open[at];
            if let Some(k) = terms.remove(&v) {
                let term = k.checked_mul(i128::from(value)).ok_or(Error::Overflow)?;
                *rest = rest.checked_add(term).ok_or(Error::Overflow)?;
                queue.push(at);
            }
        }
        self.step(self.uses[v].len())
    }

    /// Compares a formula without unknowns with its length.
    fn check(&self, at: usize) -> Result<()> {
        let (terms, value) = &self.open[at];
        let equation = &self.equations[at];
        if !terms.is_empty() || (*value).max(0) == i128::from(equation.length) {
            return Ok(());
        }
        let from = equation.formula.terms().iter().filter_map(|(v, _)| match v {
            Var::Size(n) => self.known.get(n.index())?.as_ref().map(|(value, from)| (*n, *value, from)),
            _ => None,
        });
        Err(self.conflict(at, &(*value).max(0).to_string(), from))
    }

    fn conflict<'b>(
        &self,
        at: usize,
        value: &str,
        known: impl IntoIterator<Item = (SizeId, i64, &'b BTreeSet<usize>)>,
    ) -> Error {
        let equation = &self.equations[at];
        let found = match &equation.origin {
            Origin::Given(_) => format!("{} was given", equation.length),
            Origin::Axis { axis, .. } => format!("axis {axis} has length {}", equation.length),
        };
        let mut message = format!("{found}, but {} is {value}", affine_text(self.signature, &equation.formula));
        for (k, (n, value, from)) in known.into_iter().take(4).enumerate() {
            let name = self.signature.sizes.get(n).map_or("?", String::as_str);
            let link = if k == 0 { ":" } else { "," };
            let given = from.len() == 1 && from.iter().all(|at| matches!(self.equations[*at].origin, Origin::Given(_)));
            message += &match given {
                true => format!("{link} {name} = {value} was given"),
                false => format!("{link} {name} = {value} because {}", self.reasons(from)),
            };
        }
        Error::data(equation.subject(), message)
    }

    fn reasons(&self, from: &BTreeSet<usize>) -> String {
        let mut texts: Vec<String> = from.iter().take(4).map(|&at| self.equations[at].text()).collect();
        if from.len() > 4 {
            texts.push("..".to_string());
        }
        texts.join(" and ")
    }

    /// The equations with several unknowns in reduced form.
    fn reduced(&mut self) -> Result<Vec<solver::Equation>> {
        let mut rows = Vec::new();
        for (at, (terms, rest)) in self.open.iter().enumerate() {
            if self.equations[at].is_exact() && !terms.is_empty() {
                let constant = i128::from(self.equations[at].length).checked_sub(*rest).ok_or(Error::Overflow)?;
                rows.push(solver::Equation { terms: terms.clone(), constant, reasons: BTreeSet::from([at]) });
            }
        }
        let mut steps = Self::MAX_STEPS.saturating_sub(self.steps);
        let found = solver::reduced(rows, &mut steps);
        self.steps = Self::MAX_STEPS - steps;
        found.map_err(|unsolved| match unsolved {
            Unsolved::Contradiction(from) => {
                let last = from.last().map_or("", |at| self.equations[*at].subject());
                Error::data(last, format!("these contradict each other: {}", self.reasons(&from)))
            }
            Unsolved::Steps => self.too_long(),
            Unsolved::Overflow => Error::Overflow,
        })
    }
}

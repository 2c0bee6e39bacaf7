//! What expressions, tests and numbers depend on.

use std::collections::BTreeSet;

use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Size, Var};
use crate::loops::{Bound, Cond, Domain, Real, RealId, Stmt, reads};

/// All of some tests.
pub(in super::super) fn one(mut conds: Vec<Cond>) -> Cond {
    match conds.len() {
        1 => conds.remove(0),
        _ => Cond::All(conds),
    }
}

fn is_of_sizes(a: &Affine) -> bool {
    a.terms().iter().all(|(v, _)| matches!(v, Var::Size(_)))
}

/// The sizes that the values of a loop over a range are below.
pub(super) fn below(domain: &Domain) -> Option<Size> {
    let Domain::Range { upper, .. } = domain else { return None };
    let last = upper.iter().find(|b| b.divisor == 1 && is_of_sizes(&b.numerator))?;
    last.numerator.add_constant(1).ok()
}

/// The same, where the values are not negative: they are some of an axis.
pub(in super::super) fn along_axis(domain: &Domain) -> Option<Size> {
    let Domain::Range { lower, .. } = domain else { return None };
    let least = |b: &Bound| b.divisor == 1 && b.numerator.as_constant().is_some_and(|k| k >= 0);
    below(domain).filter(|_| lower.iter().any(least))
}

/// What the bounds of a loop over a range say of its index; nothing where one of them is divided.
pub(in super::super) fn bounds(index: IndexId, domain: &Domain) -> Option<Vec<Cond>> {
    let Domain::Range { lower, upper } = domain else { return None };
    let own = Affine::index(index);
    let above = lower.iter().map(|b| (b.divisor == 1).then(|| own.sub(&b.numerator).ok())?);
    let below = upper.iter().map(|b| (b.divisor == 1).then(|| b.numerator.sub(&own).ok())?);
    above.chain(below).map(|a| a.map(Cond::NonNegative)).collect()
}

/// An index and what is added to it, over sizes.
pub(in super::super) fn unit(a: &Affine) -> Result<Option<(IndexId, Affine)>> {
    let index = a.terms().iter().find_map(|(v, k)| if let (Var::Index(i), 1) = (v, k) { Some(*i) } else { None });
    let Some(i) = index else { return Ok(None) };
    let rest = a.sub(&i.into())?;
    Ok(is_of_sizes(&rest).then_some((i, rest)))
}

/// Whether an expression is never negative since some indices and sizes are not.
pub(super) fn is_positive(a: &Affine, positive: &BTreeSet<IndexId>) -> bool {
    let is_known = |v: &Var| match v {
        Var::Index(i) => positive.contains(i),
        Var::Size(_) => true,
        Var::Apply(_) => false,
    };
    a.offset() >= 0 && a.terms().iter().all(|(v, k)| *k >= 0 && is_known(v))
}

/// Whether a number depends on some indices, or on one of those that do, which it then is.
pub(in super::super) fn varies(stmt: &Stmt, free: &BTreeSet<IndexId>, varying: &mut BTreeSet<RealId>) -> bool {
    let mut found = false;
    stmt.visit_affine(&mut |a| found |= mentions_any(a, free));
    stmt.visit_reads(&mut |r| found |= varying.contains(&r));
    if let (true, Stmt::Define(r, _)) = (found, stmt) {
        varying.insert(*r);
    }
    found
}

pub(in super::super) fn mentions_any(a: &Affine, free: &BTreeSet<IndexId>) -> bool {
    free.iter().any(|i| a.mentions(*i))
}

pub(in super::super) fn cond_varies(cond: &Cond, free: &BTreeSet<IndexId>, varying: &BTreeSet<RealId>) -> bool {
    asks_any(cond, varying) || free.iter().any(|i| cond_mentions(cond, *i))
}

pub(in super::super) fn cond_mentions(cond: &Cond, i: IndexId) -> bool {
    let mut found = false;
    cond.visit_affine(&mut |a| found |= a.mentions(i));
    found
}

pub(in super::super) fn asks_any(cond: &Cond, which: &BTreeSet<RealId>) -> bool {
    let mut found = false;
    cond.visit_reads(&mut |r| found |= which.contains(&r));
    found
}

pub(in super::super) fn asks_numbers(cond: &Cond) -> bool {
    let mut found = false;
    cond.visit_reads(&mut |_| found = true);
    found
}

pub(in super::super) fn reads_any(bodies: &[&[Stmt]], which: &BTreeSet<RealId>) -> bool {
    reads(bodies.iter().copied().flatten(), |r| which.contains(&r))
}

/// The numbers, of some in their order, that statements and tests need.
pub(in super::super) fn needed(numbers: &[Stmt], bodies: &[&[Stmt]], tests: &[&Cond]) -> Vec<Stmt> {
    let mut asked = BTreeSet::new();
    let mut note = |r: RealId| asked.extend([r]);
    bodies.iter().copied().flatten().for_each(|stmt| stmt.visit(&mut |stmt| stmt.visit_reads(&mut note)));
    tests.iter().for_each(|cond| cond.visit_reads(&mut note));
    let mut kept = Vec::new();
    for stmt in numbers.iter().rev() {
        if matches!(stmt, Stmt::Define(r, _) if asked.contains(r)) {
            stmt.visit_reads(&mut |r| asked.extend([r]));
            kept.push(stmt.clone());
        }
    }
    kept.reverse();
    kept
}

/// What the places of terms may depend on.
#[derive(Default)]
pub(super) struct Tells {
    indices: BTreeSet<IndexId>,
    /// The registers that select terms.
    selectors: BTreeSet<RealId>,
}

impl Tells {
    // Loops and tests nest to a bounded depth.
    pub fn note(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Define(_, Real::Select(selector, _)) => self.selectors.extend([*selector]),
            Stmt::Define(..) | Stmt::Local(_) | Stmt::Store(..) => {}
            Stmt::If { cond, .. } => cond.visit_reads(&mut |r| self.selectors.extend([r])),
            _ => {}
        }
        match stmt {
            Stmt::Define(..) | Stmt::Store(..) => {}
            Stmt::For { domain, .. } => domain.visit_affine(&mut |a| self.mention(a)),
            Stmt::If { cond, .. } => cond.visit_affine(&mut |a| self.mention(a)),
            stmt if stmt.body().is_empty() => stmt.visit_affine(&mut |a| self.mention(a)),
            stmt => stmt.visit_indices(&mut |i| self.indices.extend([i])),
        }
        stmt.body().iter().for_each(|stmt| self.note(stmt));
    }

    fn mention(&mut self, a: &Affine) {
        a.visit(&mut |v| {
            if let Var::Index(i) = v {
                self.indices.insert(*i);
            }
        });
    }

    /// All indices, with those of the numbers that selectors are made of.
    pub fn indices<'a>(mut self, stmts: impl DoubleEndedIterator<Item = &'a Stmt>) -> BTreeSet<IndexId> {
        let mut numbers = Vec::new();
        stmts.for_each(|stmt| stmt.visit(&mut |stmt| numbers.extend(matches!(stmt, Stmt::Define(..)).then_some(stmt))));
        for stmt in numbers.into_iter().rev() {
            if matches!(stmt, Stmt::Define(r, _) if self.selectors.contains(r)) {
                stmt.visit_reads(&mut |r| self.selectors.extend([r]));
                stmt.visit_affine(&mut |a| self.mention(a));
            }
        }
        self.indices
    }
}

//! Going through the statements of nests. Recursion is on the nesting of loops and tests, which lowering limits.

use std::collections::BTreeSet;

use super::data::{Cond, Domain, Place, Real, RealId, Stmt};
use crate::base::IndexId;
use crate::index::Affine;

impl Stmt {
    /// The statements inside.
    pub fn body(&self) -> &[Stmt] {
        match self {
            Stmt::For { body, .. } | Stmt::Extremum { body, .. } | Stmt::If { body, .. } => body,
            Stmt::Let { .. }
            | Stmt::Find { .. }
            | Stmt::Define(..)
            | Stmt::Local(_)
            | Stmt::Assign(..)
            | Stmt::Accumulate(..)
            | Stmt::MulAdd(..)
            | Stmt::Store(..)
            | Stmt::Fill(_)
            | Stmt::Tuple(..) => &[],
        }
    }

    /// Calls `visit` on this statement and on all inside, from outside in.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Stmt)) {
        visit(self);
        self.body().iter().for_each(|stmt| stmt.visit(visit));
    }

    /// Calls `visit` on the index expressions of this statement alone.
    pub fn visit_affine<'a>(&'a self, visit: &mut dyn FnMut(&'a Affine)) {
        match self {
            Stmt::For { domain, .. } => domain.visit_affine(visit),
            Stmt::Let { at, .. } => visit(at),
            Stmt::Find { segment, key, .. } => {
                visit(&segment.at);
                if let Some((_, key)) = key {
                    visit(key);
                }
            }
            Stmt::If { cond, .. } => cond.visit_affine(visit),
            Stmt::Extremum { extent, .. } => visit(extent),
            Stmt::Define(_, Real::Index(a)) => visit(a),
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) => place.at.iter().for_each(visit),
            Stmt::Tuple(_, at) => at.iter().for_each(visit),
            Stmt::Define(..)
            | Stmt::Local(_)
            | Stmt::Assign(..)
            | Stmt::Accumulate(..)
            | Stmt::MulAdd(..)
            | Stmt::Fill(_) => {}
        }
    }

    /// Calls `visit` on the registers that this statement alone reads.
    pub fn visit_reads(&self, visit: &mut dyn FnMut(RealId)) {
        match self {
            Stmt::Define(_, real) => real.visit_reads(visit),
            Stmt::Assign(_, r) | Stmt::Accumulate(_, r) | Stmt::Store(_, r) => visit(*r),
            Stmt::MulAdd(_, a, b) => {
                visit(*a);
                visit(*b);
            }
            Stmt::If { cond, .. } => cond.visit_reads(visit),
            Stmt::Extremum { value, .. } => visit(*value),
            Stmt::For { .. }
            | Stmt::Let { .. }
            | Stmt::Find { .. }
            | Stmt::Local(_)
            | Stmt::Fill(_)
            | Stmt::Tuple(..) => {}
        }
    }

    /// The place that this statement alone loads from.
    pub fn load(&self) -> Option<&Place> {
        match self {
            Stmt::Define(_, Real::Load(place)) => Some(place),
            _ => None,
        }
    }
}

/// The registers that statements add to and do not declare.
pub fn outer_sums(body: &[Stmt]) -> BTreeSet<RealId> {
    let (mut inside, mut sums) = (BTreeSet::new(), BTreeSet::new());
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Local(r) => {
                inside.insert(*r);
            }
            Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) => {
                sums.insert(*r);
            }
            _ => {}
        });
    }
    &sums - &inside
}

/// Whether iterations of a loop over an index may be interleaved: they give no value to a register outside, and what differs from one to
/// the next is loads, arithmetic and stores, neither loops nor tests nor indices.
pub fn can_jam(index: IndexId, body: &[Stmt]) -> bool {
    let (mut inside, mut changed) = (BTreeSet::new(), BTreeSet::new());
    // Registers that differ from one iteration to the next.
    let mut differs: BTreeSet<RealId> = BTreeSet::new();
    let mut allowed = true;
    for stmt in body {
        stmt.visit(&mut |stmt| {
            let mut mentions = false;
            stmt.visit_affine(&mut |a| mentions |= a.mentions(index));
            match stmt {
                Stmt::For { .. } | Stmt::Let { .. } | Stmt::Find { .. } => allowed &= !mentions,
                Stmt::If { cond, .. } => {
                    allowed &= !mentions;
                    cond.visit_reads(&mut |r| allowed &= !differs.contains(&r));
                }
                Stmt::Extremum { .. } | Stmt::Fill(_) | Stmt::Tuple(..) => allowed = false,
                Stmt::Define(r, real) => {
                    real.visit_reads(&mut |a| mentions |= differs.contains(&a));
                    // What was stored in another iteration could be read, so loads differ.
                    if mentions {
                        differs.insert(*r);
                    }
                    inside.insert(*r);
                }
                Stmt::Local(r) => {
                    differs.insert(*r);
                    inside.insert(*r);
                }
                Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) => {
                    changed.insert(*r);
                }
                Stmt::Store(..) => allowed &= mentions,
            }
        });
    }
    allowed && changed.is_subset(&inside)
}

impl Domain {
    /// Calls `visit` on the index expressions.
    pub fn visit_affine<'a>(&'a self, visit: &mut dyn FnMut(&'a Affine)) {
        match self {
            Domain::Range { lower, upper } => lower.iter().chain(upper).for_each(|bound| visit(&bound.numerator)),
            Domain::Segment(segment) => visit(&segment.at),
            Domain::Part { whole, part, .. } => {
                whole.visit_affine(visit);
                visit(part);
            }
        }
    }

    /// The domain that this one is a part of, or itself.
    pub fn whole_of(&self) -> &Domain {
        let mut domain = self;
        while let Domain::Part { whole, .. } = domain {
            domain = whole;
        }
        domain
    }
}

impl Real {
    /// Calls `visit` on the registers read.
    pub fn visit_reads(&self, visit: &mut dyn FnMut(RealId)) {
        match self {
            Real::Literal(_) | Real::Index(_) | Real::Load(_) => {}
            Real::Add(a, b) | Real::Mul(a, b) | Real::Select(a, b) => {
                visit(*a);
                visit(*b);
            }
            Real::MulAdd(a, b, c) => [a, b, c].into_iter().for_each(|r| visit(*r)),
            Real::Apply(_, args) => args.iter().for_each(|r| visit(*r)),
        }
    }
}

impl Cond {
    /// Calls `visit` on the index expressions.
    pub fn visit_affine<'a>(&'a self, visit: &mut dyn FnMut(&'a Affine)) {
        match self {
            Cond::NonNegative(a) | Cond::Zero(a) | Cond::NonZero(a) => visit(a),
            Cond::Support(_) | Cond::NoSupport(_) => {}
            Cond::All(conds) | Cond::Any(conds) => conds.iter().for_each(|cond| cond.visit_affine(visit)),
        }
    }

    /// Calls `visit` on the registers read.
    pub fn visit_reads(&self, visit: &mut dyn FnMut(RealId)) {
        match self {
            Cond::NonNegative(_) | Cond::Zero(_) | Cond::NonZero(_) => {}
            Cond::Support(r) | Cond::NoSupport(r) => visit(*r),
            Cond::All(conds) | Cond::Any(conds) => conds.iter().for_each(|cond| cond.visit_reads(visit)),
        }
    }
}

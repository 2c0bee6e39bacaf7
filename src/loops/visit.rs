//! Going through the statements of nests. Recursion is on the nesting of loops and tests, which lowering limits.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{BufferId, Cond, Domain, Place, Real, RealId, Search, Stmt};
use crate::base::{IndexId, work};
use crate::index::{Affine, Var, View};
use crate::scalar::Op;

impl Stmt {
    /// A loop over values one by one, on one thread.
    pub fn one_by_one(index: IndexId, domain: Domain, body: Vec<Stmt>) -> Stmt {
        Stmt::For { index, domain, lanes: 1, jam: 1, parallel: false, body }
    }

    /// The statements inside.
    pub fn body(&self) -> &[Stmt] {
        match self {
            Stmt::For { body, .. } | Stmt::Extremum { body, .. } | Stmt::If { body, .. } => body,
            Stmt::Let { .. }
            | Stmt::Find { .. }
            | Stmt::Length { .. }
            | Stmt::End(_)
            | Stmt::Define(..)
            | Stmt::Local(_)
            | Stmt::Assign(..)
            | Stmt::Accumulate(..)
            | Stmt::MulAdd(..)
            | Stmt::Extend(..)
            | Stmt::Store(..)
            | Stmt::Fill(_)
            | Stmt::Call { .. }
            | Stmt::Tuple(..) => &[],
        }
    }

    /// The statement with others inside, if there are any inside of it.
    pub(crate) fn with_body(&self, inside: Vec<Stmt>) -> Stmt {
        match self {
            Stmt::For { index, domain, lanes, jam, parallel, body: _ } => Stmt::For {
                index: *index,
                domain: domain.clone(),
                lanes: *lanes,
                jam: *jam,
                parallel: *parallel,
                body: inside,
            },
            Stmt::If { cond, body: _ } => Stmt::If { cond: cond.clone(), body: inside },
            Stmt::Extremum { index, view, extent, at, body: _, value } => {
                let (index, view, extent) = (*index, *view, extent.clone());
                Stmt::Extremum { index, view, extent, at: *at, body: inside, value: *value }
            }
            stmt => stmt.clone(),
        }
    }

    /// The indices that this statement alone defines.
    pub fn defines(&self) -> impl Iterator<Item = IndexId> + use<> {
        let (one, other) = match self {
            Stmt::For { index, .. }
            | Stmt::Let { index, .. }
            | Stmt::Find { index, .. }
            | Stmt::Length { index, .. } => (Some(*index), None),
            Stmt::Extremum { index, at, .. } => (Some(*index), Some(*at)),
            _ => (None, None),
        };
        one.into_iter().chain(other)
    }

    /// Calls `visit` on this statement and on all inside, from outside in.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Stmt)) {
        work::charge(1);
        visit(self);
        self.body().iter().for_each(|stmt| stmt.visit(visit));
    }

    /// Calls `visit` on the index expressions of this statement alone.
    pub fn visit_affine<'a>(&'a self, visit: &mut dyn FnMut(&'a Affine)) {
        match self {
            Stmt::For { domain, .. } => domain.visit_affine(visit),
            Stmt::Let { at, .. } => visit(at),
            Stmt::Find { segment, key, how, .. } => {
                visit(&segment.at);
                if let Some((_, key)) = key {
                    visit(key);
                }
                if let Search::Bound(_, at) = how {
                    visit(at);
                }
            }
            Stmt::If { cond, .. } => cond.visit_affine(visit),
            Stmt::Extremum { extent, .. } => visit(extent),
            Stmt::Define(_, Real::Index(a)) => visit(a),
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) => place.at.iter().for_each(visit),
            Stmt::Tuple(_, at) => at.iter().for_each(visit),
            Stmt::Length { place, most, .. } => place.at.iter().chain([most]).for_each(visit),
            Stmt::Call { takes, gives, function: _ } => {
                takes.iter().chain(gives).flat_map(|run| run.place.at.iter().chain(&run.shape)).for_each(visit);
            }
            Stmt::End(_)
            | Stmt::Define(..)
            | Stmt::Local(_)
            | Stmt::Assign(..)
            | Stmt::Accumulate(..)
            | Stmt::MulAdd(..)
            | Stmt::Extend(..)
            | Stmt::Fill(_) => {}
        }
    }

    /// Calls `visit` on the indices in the index expressions of this statement alone, once for each expression.
    pub fn visit_indices(&self, visit: &mut dyn FnMut(IndexId)) {
        self.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v {
                    visit(*i);
                }
            });
        });
    }

    /// Calls `visit` on the registers that this statement alone reads.
    pub fn visit_reads(&self, visit: &mut dyn FnMut(RealId)) {
        match self {
            Stmt::Define(_, real) => real.visit_reads(visit),
            Stmt::Assign(_, r) | Stmt::Accumulate(_, r) | Stmt::Extend(_, _, r) | Stmt::Store(_, r) | Stmt::End(r) => {
                visit(*r)
            }
            Stmt::MulAdd(_, a, b) => {
                visit(*a);
                visit(*b);
            }
            Stmt::If { cond, .. } => cond.visit_reads(visit),
            Stmt::Extremum { value, .. } => visit(*value),
            Stmt::For { .. }
            | Stmt::Let { .. }
            | Stmt::Find { .. }
            | Stmt::Length { .. }
            | Stmt::Local(_)
            | Stmt::Fill(_)
            | Stmt::Call { .. }
            | Stmt::Tuple(..) => {}
        }
    }

    /// The places that this statement alone loads from, those of a call among them.
    pub fn loads(&self) -> impl Iterator<Item = &Place> {
        let called = if let Stmt::Call { takes, .. } = self { takes.as_slice() } else { &[] };
        self.load().into_iter().chain(called.iter().map(|run| &run.place))
    }

    /// The places that this statement alone stores to, those of a call among them.
    pub fn stores(&self) -> impl Iterator<Item = &Place> {
        let called = if let Stmt::Call { gives, .. } = self { gives.as_slice() } else { &[] };
        self.store().into_iter().chain(called.iter().map(|run| &run.place))
    }

    /// The place that this statement alone loads from.
    pub fn load(&self) -> Option<&Place> {
        match self {
            Stmt::Define(_, Real::Load(place)) | Stmt::Length { place, .. } => Some(place),
            _ => None,
        }
    }

    /// The place that this statement alone stores to.
    pub fn store(&self) -> Option<&Place> {
        match self {
            Stmt::Store(place, _) => Some(place),
            _ => None,
        }
    }

    /// The register that this statement alone gives another value than that of its declaration.
    pub fn changes(&self) -> Option<RealId> {
        match self {
            Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) | Stmt::Extend(_, r, _) => Some(*r),
            _ => None,
        }
    }
}

/// The places that statements load from, and those inside of them.
pub(crate) fn loads<'a>(stmts: impl IntoIterator<Item = &'a Stmt>) -> Vec<&'a Place> {
    let mut loads = Vec::new();
    stmts.into_iter().for_each(|stmt| stmt.visit(&mut |stmt| loads.extend(stmt.loads())));
    loads
}

/// The places that statements store to, and those inside of them.
pub(crate) fn stores<'a>(stmts: impl IntoIterator<Item = &'a Stmt>) -> Vec<&'a Place> {
    let mut stores = Vec::new();
    stmts.into_iter().for_each(|stmt| stmt.visit(&mut |stmt| stores.extend(stmt.stores())));
    stores
}

/// Whether statements, or those inside of them, read some register.
pub(crate) fn reads<'a>(stmts: impl IntoIterator<Item = &'a Stmt>, which: impl Fn(RealId) -> bool) -> bool {
    let mut any = false;
    stmts.into_iter().for_each(|stmt| stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| any |= which(r))));
    any
}

/// The indices that statements define, and those inside of them.
pub fn defined<'a>(stmts: impl IntoIterator<Item = &'a Stmt>) -> BTreeSet<IndexId> {
    let mut defined = BTreeSet::new();
    stmts.into_iter().for_each(|stmt| stmt.visit(&mut |stmt| defined.extend(stmt.defines())));
    defined
}

/// The indices that statements mention, and those inside of them.
pub(crate) fn mentioned<'a>(stmts: impl IntoIterator<Item = &'a Stmt>) -> BTreeSet<IndexId> {
    let mut mentioned = BTreeSet::new();
    stmts.into_iter().for_each(|stmt| stmt.visit(&mut |stmt| stmt.visit_indices(&mut |i| mentioned.extend([i]))));
    mentioned
}

/// Statements and those in tests among them, in order, but none in further loops.
pub fn outside_loops(body: &[Stmt]) -> Vec<&Stmt> {
    let mut found = Vec::new();
    let mut rest: Vec<&Stmt> = body.iter().rev().collect();
    while let Some(stmt) = rest.pop() {
        found.push(stmt);
        if let Stmt::If { body, .. } = stmt {
            rest.extend(body.iter().rev());
        }
    }
    found
}

/// The buffers that statements store to or fill, in order.
pub(crate) fn stored(body: &[Stmt]) -> Vec<BufferId> {
    let mut buffers = Vec::new();
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Store(Place { buffer, .. }, _) | Stmt::Fill(buffer) if !buffers.contains(buffer) => {
                buffers.push(*buffer);
            }
            Stmt::Call { gives, .. } => {
                for run in gives {
                    if !buffers.contains(&run.place.buffer) {
                        buffers.push(run.place.buffer);
                    }
                }
            }
            _ => {}
        });
    }
    buffers
}

/// The registers that statements declare or define.
pub(crate) fn declared<'a>(stmts: impl IntoIterator<Item = &'a Stmt>) -> BTreeSet<RealId> {
    let mut declared = BTreeSet::new();
    for stmt in stmts {
        stmt.visit(&mut |stmt| {
            if let Stmt::Define(r, _) | Stmt::Local(r) = stmt {
                declared.insert(*r);
            }
        });
    }
    declared
}

/// The registers that statements [change](Stmt::changes).
pub(crate) fn changed<'a>(stmts: impl IntoIterator<Item = &'a Stmt>) -> BTreeSet<RealId> {
    let mut changed = BTreeSet::new();
    for stmt in stmts {
        stmt.visit(&mut |stmt| changed.extend(stmt.changes()));
    }
    changed
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

/// The registers that statements extend and do not declare, and how.
pub fn outer_extrema(body: &[Stmt]) -> BTreeMap<RealId, View> {
    let (mut inside, mut extrema) = (BTreeSet::new(), BTreeMap::new());
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Local(r) => {
                inside.insert(*r);
            }
            Stmt::Extend(view, r, _) => {
                extrema.insert(*r, *view);
            }
            _ => {}
        });
    }
    extrema.retain(|r, _| !inside.contains(r));
    extrema
}

/// Whether iterations of a loop over an index may be interleaved, statement by statement, without a change of any result:
///
/// - What differs from one to the next is loads, arithmetic and stores, neither tests nor indices nor searches.
/// - A register outside is added to by one statement, which no loop or test is around, and read by none: it is then added to in the order of
///   the iterations. No other register outside changes.
/// - The bounds of a loop inside may differ where it is innermost and has no lanes: values that all iterations have are interleaved, those
///   before and after are not. Where it has lanes that are independent, the last value may differ: lanes beyond it store nothing. A loop that
///   has nothing to do with numbers of the iteration is run for one after the other, so its bounds may be any.
pub fn can_jam(index: IndexId, body: &[Stmt]) -> bool {
    could_jam(&AsItIs, index, body)
}

/// What loops and sums will be, for questions that are asked before a pass makes them so.
pub(crate) trait Outlook {
    /// The lanes of a loop.
    fn lanes(&self, index: IndexId, now: u32) -> u32;
    /// Whether a statement adds a product to a register, rounded once.
    fn adds_product(&self, stmt: &Stmt) -> bool;
}

/// Nothing changes.
struct AsItIs;

impl Outlook for AsItIs {
    fn lanes(&self, _: IndexId, now: u32) -> u32 {
        now
    }

    fn adds_product(&self, stmt: &Stmt) -> bool {
        matches!(stmt, Stmt::MulAdd(..))
    }
}

/// Whether [`can_jam`] will hold.
pub(crate) fn could_jam(outlook: &dyn Outlook, index: IndexId, body: &[Stmt]) -> bool {
    let (inside, changed, differs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut jam = Jam { outlook, index, inside, changed, differs, allowed: true };
    let mut added: BTreeMap<RealId, usize> = BTreeMap::new();
    for stmt in body {
        match stmt {
            Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) if !jam.inside.contains(r) => {
                *added.entry(*r).or_default() += 1
            }
            stmt => stmt.visit(&mut |stmt| jam.stmt(stmt)),
        }
    }
    let mut ordered = added.values().all(|count| *count == 1);
    for stmt in body {
        stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| ordered &= !added.contains_key(&r)));
    }
    let elsewhere = jam.changed.is_subset(&jam.inside) && added.keys().all(|r| !jam.inside.contains(r));
    jam.allowed && ordered && elsewhere
}

/// What iterations do that are to be interleaved.
struct Jam<'a> {
    outlook: &'a dyn Outlook,
    index: IndexId,
    /// Registers that are defined inside, and those that change.
    inside: BTreeSet<RealId>,
    changed: BTreeSet<RealId>,
    /// Registers that differ from one iteration to the next.
    differs: BTreeSet<RealId>,
    allowed: bool,
}

impl Jam<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        let mut mentions = false;
        stmt.visit_affine(&mut |a| mentions |= a.mentions(self.index));
        match stmt {
            Stmt::For { .. } => self.allowed &= !mentions || self.ends_apart(stmt),
            Stmt::Let { .. } | Stmt::Find { .. } | Stmt::Length { .. } => self.allowed &= !mentions,
            Stmt::If { cond, .. } => {
                self.allowed &= !mentions;
                cond.visit_reads(&mut |r| self.allowed &= !self.differs.contains(&r));
            }
            Stmt::Extremum { .. } | Stmt::Fill(_) | Stmt::Tuple(..) | Stmt::Call { .. } | Stmt::End(_) => {
                self.allowed = false;
            }
            Stmt::Define(r, real) => {
                real.visit_reads(&mut |a| mentions |= self.differs.contains(&a));
                // What was stored in another iteration could be read, so loads differ.
                if mentions {
                    self.differs.insert(*r);
                }
                self.inside.insert(*r);
            }
            Stmt::Local(r) => {
                self.differs.insert(*r);
                self.inside.insert(*r);
            }
            Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) | Stmt::Extend(_, r, _) => {
                self.changed.insert(*r);
            }
            Stmt::Store(..) => self.allowed &= mentions,
        }
    }

    /// Whether a loop may have other bounds in each iteration.
    fn ends_apart(&self, stmt: &Stmt) -> bool {
        let Stmt::For { index, domain, lanes, body, .. } = stmt else { return false };
        if would_stand_alone(self.outlook, body, &self.differs) {
            return true;
        }
        let Domain::Range { lower, .. } = domain else { return false };
        match self.outlook.lanes(*index, *lanes) {
            1 => body.iter().all(|stmt| stmt.body().is_empty()),
            _ => {
                let first_is_one = !lower.iter().any(|bound| bound.numerator.mentions(self.index));
                first_is_one && outer_sums(body).is_empty() && body.iter().all(|stmt| self.simple_inside(stmt))
            }
        }
    }

    /// Whether loops inside of lanes that end apart have the same bounds in each iteration, or none inside of them.
    fn simple_inside(&self, stmt: &Stmt) -> bool {
        let mut mentions = false;
        if let Stmt::For { domain, .. } = stmt {
            domain.visit_affine(&mut |a| mentions |= a.mentions(self.index));
        }
        let innermost = stmt.body().iter().all(|stmt| stmt.body().is_empty());
        (!mentions || innermost) && stmt.body().iter().all(|stmt| self.simple_inside(stmt))
    }
}

/// Whether the body of a loop in interleaved iterations adds no products, and uses none of these registers, which each of them has for itself.
pub fn stands_alone(body: &[Stmt], own: &BTreeSet<RealId>) -> bool {
    would_stand_alone(&AsItIs, body, own)
}

fn would_stand_alone(outlook: &dyn Outlook, body: &[Stmt], own: &BTreeSet<RealId>) -> bool {
    let mut alone = true;
    for stmt in body {
        stmt.visit(&mut |stmt| {
            stmt.visit_reads(&mut |r| alone &= !own.contains(&r));
            if let Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::Extend(_, r, _) = stmt {
                alone &= !own.contains(r);
            }
            alone &= !outlook.adds_product(stmt);
        });
    }
    alone
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
    /// An operation on registers.
    pub fn apply(op: Op, args: impl Into<Vec<RealId>>) -> Real {
        Real::Apply(op.into(), args.into())
    }

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
    /// Whether it holds nowhere, as constants say.
    pub fn is_never(&self) -> bool {
        match self {
            Cond::NonNegative(a) => a.as_constant().is_some_and(|a| a < 0),
            Cond::Zero(a) => a.as_constant().is_some_and(|a| a != 0),
            Cond::NonZero(a) => a.as_constant() == Some(0),
            Cond::Support(_) | Cond::NoSupport(_) => false,
            Cond::All(conds) => conds.iter().any(Cond::is_never),
            Cond::Any(conds) => conds.iter().all(Cond::is_never),
        }
    }

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

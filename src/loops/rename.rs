//! Statements under other names, for when they occur twice or beside others.

use std::collections::BTreeMap;

use super::{
    ArrayId, Bound, BufferId, Cond, Decision, Domain, Nest, Place, Program, Real, RealId, Rounded, Run, Search,
    Segment, Stmt,
};
use crate::base::{Id, IndexId, SizeId};
use crate::index::{Affine, Checked, Var};

/// Rewrites the bodies of the loops of a nest with fresh names; says so, if the rewriting reports that something was found.
pub(crate) fn inside_of_loops(
    nest: &mut Nest,
    decision: &Decision,
    rewrite: fn(&mut Vec<Stmt>, &mut Fresh, &mut bool) -> Checked<()>,
) -> Checked<()> {
    let mut names = Fresh::after(&nest.body);
    let mut found = false;
    for stmt in &mut nest.body {
        if let Stmt::For { body, .. } = stmt {
            rewrite(body, &mut names, &mut found)?;
        }
    }
    nest.decisions.extend(found.then(|| decision.clone()));
    Ok(())
}

impl Program {
    /// Calls functions on each mention of a buffer and of an array: in nests, among the outputs, and where numbers are rounded.
    pub(crate) fn visit_mentions_mut(
        &mut self,
        buffer: &mut dyn FnMut(&mut BufferId),
        array: &mut dyn FnMut(&mut ArrayId),
    ) {
        for nest in &mut self.nests {
            nest.buffers.iter_mut().for_each(&mut *buffer);
            visit_mentions_mut(&mut nest.body, buffer, array);
        }
        self.outputs.iter_mut().flat_map(|(_, leaves)| leaves).for_each(&mut *buffer);
        for Rounded { from, to } in &mut self.rounded {
            buffer(from);
            buffer(to);
        }
        self.limits.iter_mut().for_each(|limit| buffer(&mut limit.steps));
    }
}

fn visit_mentions_mut(body: &mut [Stmt], buffer: &mut dyn FnMut(&mut BufferId), array: &mut dyn FnMut(&mut ArrayId)) {
    for stmt in body {
        match stmt {
            Stmt::For { domain, body, .. } => {
                let mut whole = domain;
                while let Domain::Part { whole: inner, .. } = whole {
                    whole = inner;
                }
                if let Domain::Segment(segment) = whole {
                    array(&mut segment.pointers);
                }
                visit_mentions_mut(body, buffer, array);
            }
            Stmt::If { body, .. } | Stmt::Extremum { body, .. } => visit_mentions_mut(body, buffer, array),
            Stmt::Let { array: from, .. } => array(from),
            Stmt::Find { segment, key, how, .. } => {
                array(&mut segment.pointers);
                key.iter_mut().for_each(|(nodes, _)| array(nodes));
                if let Search::Bound(found, _) = how {
                    array(found);
                }
            }
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. } => {
                buffer(&mut place.buffer);
            }
            Stmt::Fill(filled) => buffer(filled),
            Stmt::Call { takes, gives, .. } => {
                takes.iter_mut().chain(gives).for_each(|run| buffer(&mut run.place.buffer));
            }
            Stmt::End(_)
            | Stmt::Define(..)
            | Stmt::Local(_)
            | Stmt::Assign(..)
            | Stmt::Accumulate(..)
            | Stmt::MulAdd(..)
            | Stmt::Extend(..)
            | Stmt::Tuple(..) => {}
        }
    }
}

/// New names for the indices and registers that statements define.
#[derive(Default)]
pub(crate) struct Fresh {
    indices: BTreeMap<IndexId, IndexId>,
    reals: BTreeMap<RealId, RealId>,
    /// The values of indices that have one.
    values: BTreeMap<IndexId, Affine>,
    /// Those of sizes that have one.
    sizes: BTreeMap<SizeId, Affine>,
    next_index: usize,
    next_real: usize,
}

impl Fresh {
    /// Names that do not occur in these statements.
    pub fn after(body: &[Stmt]) -> Fresh {
        let (mut next_index, mut next_real) = (0, 0);
        for stmt in body {
            stmt.visit(&mut |stmt| match stmt {
                Stmt::For { index, .. }
                | Stmt::Let { index, .. }
                | Stmt::Find { index, .. }
                | Stmt::Length { index, .. } => {
                    next_index = next_index.max(index.index() + 1);
                }
                Stmt::Extremum { index, at, .. } => next_index = next_index.max(index.index().max(at.index()) + 1),
                Stmt::Define(r, _) | Stmt::Local(r) => next_real = next_real.max(r.index() + 1),
                Stmt::If { .. }
                | Stmt::End(_)
                | Stmt::Assign(..)
                | Stmt::Accumulate(..)
                | Stmt::MulAdd(..)
                | Stmt::Extend(..)
                | Stmt::Store(..)
                | Stmt::Fill(_)
                | Stmt::Call { .. }
                | Stmt::Tuple(..) => {}
            });
        }
        Fresh { next_index, next_real, ..Fresh::default() }
    }

    /// Names that stay as they are.
    pub fn none(body: &[Stmt]) -> Fresh {
        let mut names = Fresh::default();
        for stmt in body {
            stmt.visit(&mut |stmt| {
                stmt.defines().for_each(|i| names.keep(i, i));
                if let Stmt::Define(r, _) | Stmt::Local(r) = stmt {
                    names.reals.insert(*r, *r);
                }
            });
        }
        names
    }

    /// Names in order, where some sizes have values.
    pub fn at_sizes(sizes: &BTreeMap<SizeId, i64>) -> Fresh {
        let sizes = sizes.iter().map(|(n, value)| (*n, Affine::constant(*value))).collect();
        Fresh { sizes, ..Fresh::default() }
    }

    /// One size takes a value.
    pub fn fix_size(&mut self, n: SizeId, value: Affine) {
        self.sizes.insert(n, value);
    }

    /// The new name of an index.
    pub fn index(&mut self, i: IndexId) -> IndexId {
        let next = self.next_index;
        *self.indices.entry(i).or_insert_with(|| {
            self.next_index += 1;
            IndexId::from_index(next)
        })
    }

    /// An index that occurs nowhere.
    pub fn fresh_index(&mut self) -> IndexId {
        self.next_index += 1;
        IndexId::from_index(self.next_index - 1)
    }

    /// A register that occurs nowhere.
    pub fn fresh_real(&mut self) -> RealId {
        self.next_real += 1;
        RealId::from_index(self.next_real - 1)
    }

    /// One index takes the name of another.
    pub fn keep(&mut self, i: IndexId, name: IndexId) {
        self.indices.insert(i, name);
    }

    /// One index takes a value.
    pub fn fix(&mut self, i: IndexId, value: Affine) {
        self.values.insert(i, value);
    }

    /// One register takes the new name of another.
    pub fn alias(&mut self, r: RealId, name: RealId) {
        let name = self.read(name);
        self.reals.insert(r, name);
    }

    /// Forgets the names given so far; those to come are fresh as well. Sizes keep their values.
    pub fn again(&mut self) {
        self.indices.clear();
        self.reals.clear();
        self.values.clear();
    }

    /// The new name of a register that is defined here.
    fn real(&mut self, r: RealId) -> RealId {
        let next = self.next_real;
        *self.reals.entry(r).or_insert_with(|| {
            self.next_real += 1;
            RealId::from_index(next)
        })
    }

    /// The name of a register that is read: what is defined elsewhere keeps its own.
    pub fn read(&self, r: RealId) -> RealId {
        self.reals.get(&r).copied().unwrap_or(r)
    }

    /// An index expression under the new names.
    pub fn affine(&self, a: &Affine) -> Checked<Affine> {
        let index = |i: &IndexId| self.values.get(i).cloned().or_else(|| self.indices.get(i).map(|j| (*j).into()));
        a.replace(&mut |v| {
            Ok(match v {
                Var::Index(i) => index(i),
                Var::Size(n) => self.sizes.get(n).cloned(),
                Var::Apply(_) => None,
            })
        })
    }

    fn place(&self, place: &Place) -> Checked<Place> {
        let at = place.at.iter().map(|a| self.affine(a)).collect::<Checked<_>>()?;
        Ok(Place { buffer: place.buffer, at })
    }

    fn segment(&self, segment: &Segment) -> Checked<Segment> {
        Ok(Segment { pointers: segment.pointers, at: self.affine(&segment.at)? })
    }

    fn bounds(&self, bounds: &[Bound]) -> Checked<Vec<Bound>> {
        let bound = |b: &Bound| Ok(Bound { numerator: self.affine(&b.numerator)?, divisor: b.divisor });
        bounds.iter().map(bound).collect()
    }

    fn domain(&self, domain: &Domain) -> Checked<Domain> {
        Ok(match domain {
            Domain::Range { lower, upper } => Domain::Range { lower: self.bounds(lower)?, upper: self.bounds(upper)? },
            Domain::Segment(segment) => Domain::Segment(self.segment(segment)?),
            Domain::Part { whole, part, parts, grain } => {
                let (whole, part) = (Box::new(self.domain(whole)?), self.affine(part)?);
                Domain::Part { whole, part, parts: *parts, grain: *grain }
            }
        })
    }

    fn cond(&self, cond: &Cond) -> Checked<Cond> {
        Ok(match cond {
            Cond::NonNegative(a) => Cond::NonNegative(self.affine(a)?),
            Cond::Zero(a) => Cond::Zero(self.affine(a)?),
            Cond::NonZero(a) => Cond::NonZero(self.affine(a)?),
            Cond::Support(r) => Cond::Support(self.read(*r)),
            Cond::NoSupport(r) => Cond::NoSupport(self.read(*r)),
            Cond::All(conds) => Cond::All(conds.iter().map(|c| self.cond(c)).collect::<Checked<_>>()?),
            Cond::Any(conds) => Cond::Any(conds.iter().map(|c| self.cond(c)).collect::<Checked<_>>()?),
        })
    }

    /// Statements under new names, without those under tests that hold nowhere now.
    pub fn body(&mut self, body: &[Stmt]) -> Checked<Vec<Stmt>> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            let stmt = self.stmt(stmt)?;
            out.extend((!matches!(&stmt, Stmt::If { cond, .. } if cond.is_never())).then_some(stmt));
        }
        Ok(out)
    }

    fn stmt(&mut self, stmt: &Stmt) -> Checked<Stmt> {
        Ok(match stmt {
            Stmt::For { index, domain, lanes, jam, parallel, body } => {
                let domain = self.domain(domain)?;
                let index = self.index(*index);
                let body = self.body(body)?;
                Stmt::For { index, domain, lanes: *lanes, jam: *jam, parallel: *parallel, body }
            }
            Stmt::Let { index, array, at, step } => {
                let at = self.affine(at)?;
                Stmt::Let { index: self.index(*index), array: *array, at, step: *step }
            }
            Stmt::Find { index, segment, key, how } => {
                let segment = self.segment(segment)?;
                let key = match key {
                    Some((nodes, key)) => Some((*nodes, self.affine(key)?)),
                    None => None,
                };
                let how = match how {
                    Search::Halving => Search::Halving,
                    Search::Onwards => Search::Onwards,
                    Search::Bound(array, at) => Search::Bound(*array, self.affine(at)?),
                };
                Stmt::Find { index: self.index(*index), segment, key, how }
            }
            Stmt::Extremum { index, view, extent, at, body, value } => {
                let (index, at) = (self.index(*index), self.index(*at));
                let body = self.body(body)?;
                Stmt::Extremum { index, view: *view, extent: self.affine(extent)?, at, body, value: self.read(*value) }
            }
            Stmt::If { cond, body } => Stmt::If { cond: self.cond(cond)?, body: self.body(body)? },
            Stmt::Define(r, real) => {
                let real = match real {
                    Real::Literal(x) => Real::Literal(*x),
                    Real::Index(a) => Real::Index(self.affine(a)?),
                    Real::Load(place) => Real::Load(self.place(place)?),
                    Real::Add(a, b) => Real::Add(self.read(*a), self.read(*b)),
                    Real::Mul(a, b) => Real::Mul(self.read(*a), self.read(*b)),
                    Real::MulAdd(a, b, c) => Real::MulAdd(self.read(*a), self.read(*b), self.read(*c)),
                    Real::Select(a, b) => Real::Select(self.read(*a), self.read(*b)),
                    Real::Apply(f, args) => Real::Apply(*f, args.iter().map(|a| self.read(*a)).collect()),
                };
                Stmt::Define(self.real(*r), real)
            }
            Stmt::Local(r) => Stmt::Local(self.real(*r)),
            Stmt::Assign(r, a) => Stmt::Assign(self.read(*r), self.read(*a)),
            Stmt::Accumulate(r, a) => Stmt::Accumulate(self.read(*r), self.read(*a)),
            Stmt::MulAdd(r, a, b) => Stmt::MulAdd(self.read(*r), self.read(*a), self.read(*b)),
            Stmt::Extend(view, r, a) => Stmt::Extend(*view, self.read(*r), self.read(*a)),
            Stmt::Store(place, a) => Stmt::Store(self.place(place)?, self.read(*a)),
            Stmt::Length { index, place, most } => {
                let (place, most) = (self.place(place)?, self.affine(most)?);
                Stmt::Length { index: self.index(*index), place, most }
            }
            Stmt::End(r) => Stmt::End(self.read(*r)),
            Stmt::Fill(buffer) => Stmt::Fill(*buffer),
            Stmt::Call { function, takes, gives } => {
                let mut run = |run: &Run| {
                    let shape = run.shape.iter().map(|n| self.affine(n)).collect::<Checked<_>>()?;
                    Ok(Run { place: self.place(&run.place)?, shape })
                };
                let takes = takes.iter().map(&mut run).collect::<Checked<_>>()?;
                Stmt::Call { function: *function, takes, gives: gives.iter().map(run).collect::<Checked<_>>()? }
            }
            Stmt::Tuple(number, at) => Stmt::Tuple(*number, at.iter().map(|a| self.affine(a)).collect::<Checked<_>>()?),
        })
    }
}

//! What a body has at hand is neither computed nor loaded again, and what nobody reads is not stored.
//!
//! ```text
//! r1 = sqrt(r0)                      r1 = sqrt(r0)
//! t[i, j] = r1                ==     s += r1
//! r2 = t[i, j]
//! s += r2
//! ```
//!
//! Lowering computes once what one tensor reads twice. Where [`fuse`](super::fuse) and [`merge`](super::merge) have put several into one body, this
//! does the same for all of them:
//!
//! 1. An index that is found in the same array at the same place is found once, also where the first is outside of a loop; so is the place of the
//!    largest or the smallest number of a row.
//! 2. A load from where the body has stored is the number stored, if the buffer rounds nothing.
//! 3. What is made in the same way of the same registers is made once, also where the first is outside of a loop.
//! 4. A sum of the same numbers in the same order is made once, where all that is added stands in one body: a short sum whose loop was unrolled.
//! 5. A tensor of this nest that no nest reads by then is not stored, nor what was made for it.
//!
//! **Why it is right.** Arrays do not change. A place in a buffer that the nest writes holds a known number until a statement stores to that buffer
//! at a place that is not known to be another one, on some axis by a literal; loops and tests with such stores inside count as one. Other buffers do
//! not change. A register that
//! sums up is known where it changes no more: behind the last statement that changes it.

use std::collections::{BTreeMap, BTreeSet};

use super::hold;
use super::key::{IndexKey, Key};
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Var};
use crate::loops::{
    Buffer, BufferId, BufferKind, Cond, Decision, Fresh, Nest, Place, Program, Real, RealId, Stmt, loads, name_of,
    stores,
};
use crate::ty::Precision;

/// Uses what is at hand in nests of several tensors.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { nests, buffers, rounded, .. } = &mut *program;
    for nest in nests.iter_mut() {
        find_once(nest)?;
        let mut pass = Pass::of(nest, buffers);
        nest.body = pass.body(std::mem::take(&mut nest.body));
    }
    let read: BTreeSet<BufferId> = nests.iter().flat_map(|nest| loads(&nest.body)).map(|place| place.buffer).collect();
    let rounded: BTreeSet<BufferId> = rounded.iter().map(|rounded| rounded.from).collect();
    let is_needed = |b: &BufferId| {
        read.contains(b) || rounded.contains(b) || buffers.get(*b).is_none_or(|b| b.kind != BufferKind::Workspace)
    };
    let mut found = false;
    for nest in nests.iter_mut().filter(|nest| nest.buffers.len() > 1 && nest.buffers.iter().any(is_needed)) {
        let gone: BTreeSet<BufferId> = nest.buffers.iter().copied().filter(|b| !is_needed(b)).collect();
        nest.decisions.extend(gone.iter().map(|b| Decision::Forwarded { tensor: name_of(buffers, *b) }));
        nest.buffers.retain(|b| !gone.contains(b));
        nest.body = Needed::default().body(std::mem::take(&mut nest.body), &gone);
        found |= !gone.is_empty();
    }
    if found {
        hold::compact(program);
    }
    Ok(())
}

/// Leaves of the statements that find an index in the same way the first one.
pub(super) fn find_once(nest: &mut Nest) -> Result<()> {
    let mut found = FoundOnce { at_hand: Vec::new(), same: BTreeMap::new() };
    nest.body = found.body(std::mem::take(&mut nest.body));
    if !found.same.is_empty() {
        let mut names = Fresh::none(&nest.body);
        found.same.iter().for_each(|(i, known)| names.keep(*i, *known));
        nest.body = names.body(&nest.body)?;
    }
    Ok(())
}

struct FoundOnce {
    /// What is at hand in the scopes around, and here.
    at_hand: Vec<Vec<(IndexId, IndexKey)>>,
    /// The names of what is found again.
    same: BTreeMap<IndexId, IndexId>,
}

impl FoundOnce {
    fn body(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        self.at_hand.push(Vec::new());
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in stmts {
            if let Some((index, key)) = IndexKey::of(&stmt, &self.same) {
                if let Some((known, _)) = self.at_hand.iter().flatten().find(|(_, known)| *known == key) {
                    self.same.insert(index, *known);
                    continue;
                }
                self.at_hand.last_mut().into_iter().for_each(|scope| scope.push((index, key.clone())));
            } else {
                let mut changed: BTreeSet<BufferId> = stores([&stmt]).into_iter().map(|place| place.buffer).collect();
                stmt.visit(&mut |stmt| {
                    changed.extend(if let Stmt::Fill(buffer) = stmt { Some(*buffer) } else { None })
                });
                self.forget(&changed);
                if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut stmt {
                    *body = self.body(std::mem::take(body));
                    self.forget(&changed);
                }
            }
            out.push(stmt);
        }
        self.at_hand.pop();
        out
    }

    /// Nothing is known of the places of extrema in buffers any more.
    fn forget(&mut self, buffers: &BTreeSet<BufferId>) {
        for scope in self.at_hand.iter_mut().filter(|_| !buffers.is_empty()) {
            scope.retain(|(_, key)| !key.searched().is_some_and(|buffer| buffers.contains(&buffer)));
        }
    }
}

struct Pass {
    /// The buffers that the nest writes, and those of them that round.
    written: BTreeSet<BufferId>,
    rounds: BTreeSet<BufferId>,
    /// Behind how many statements a register changes no more.
    settled: BTreeMap<RealId, usize>,
    /// How many statements there were so far.
    at: usize,
    /// The registers that others are read for.
    same: BTreeMap<RealId, RealId>,
    /// The values at hand in the scopes around, and here.
    scopes: Vec<BTreeMap<Key, RealId>>,
}

impl Pass {
    fn of(nest: &Nest, buffers: &Arena<BufferId, Buffer>) -> Pass {
        let written: BTreeSet<BufferId> = nest.buffers.iter().copied().collect();
        let rounds = |b: &BufferId| buffers.get(*b).is_none_or(|b| b.precision != Precision::Double);
        let rounds = written.iter().copied().filter(rounds).collect();
        let (mut settled, mut at) = (BTreeMap::new(), 0);
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                at += 1;
                if let Some(r) = changed(stmt) {
                    settled.insert(r, at);
                }
            });
        }
        Pass { written, rounds, settled, at: 0, same: BTreeMap::new(), scopes: vec![BTreeMap::new()] }
    }

    fn body(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        let mut sums = straight_sums(&stmts);
        let mut gone: BTreeSet<RealId> = BTreeSet::new();
        for mut stmt in stmts {
            self.at += 1;
            if let Stmt::Define(r, real) = &mut stmt {
                self.read(real);
                if let Some(known) = self.known(real) {
                    self.same.insert(*r, known);
                    continue;
                }
                self.learn(Key::of(real), *r);
            }
            self.stmt(&mut stmt);
            if let Stmt::Accumulate(r, a) = &stmt
                && let Some(sum) = sums.get_mut(r)
                && let Some(known) = self.add(sum, *r, *a)
            {
                self.same.insert(*r, known);
                gone.insert(*r);
            }
            out.push(stmt);
        }
        out.retain(|stmt| !matches!(stmt, Stmt::Local(r) | Stmt::Accumulate(r, _) if gone.contains(r)));
        out
    }

    /// Adds to a sum. With the last summand, the register that already holds the same sum, if there is one.
    fn add(&mut self, sum: &mut StraightSum, r: RealId, a: RealId) -> Option<RealId> {
        if self.is_settled(a) {
            sum.known.push(a);
        }
        sum.left = sum.left.checked_sub(1)?;
        if sum.left > 0 || sum.known.len() != sum.all {
            return None;
        }
        let key = Key::Sum(std::mem::take(&mut sum.known));
        let known = self.scopes.iter().rev().find_map(|scope| scope.get(&key).copied());
        if known.is_none() {
            self.insert(key, r);
        }
        known
    }

    fn stmt(&mut self, stmt: &mut Stmt) {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
                let stored: BTreeSet<BufferId> = stores(body.iter()).into_iter().map(|place| place.buffer).collect();
                stored.iter().for_each(|buffer| self.forget(*buffer));
                self.scopes.push(BTreeMap::new());
                *body = self.body(std::mem::take(body));
                self.scopes.pop();
                stored.iter().for_each(|buffer| self.forget(*buffer));
            }
            Stmt::Store(place, r) => {
                self.replace(r);
                self.forget_at(place);
                let is_settled = self.is_settled(*r);
                if is_settled && !self.rounds.contains(&place.buffer) {
                    self.insert(Key::Load(place.buffer, place.at.clone()), *r);
                }
            }
            Stmt::Fill(buffer) => self.forget(*buffer),
            Stmt::Assign(_, a) | Stmt::Accumulate(_, a) | Stmt::Extend(_, _, a) | Stmt::End(a) => self.replace(a),
            Stmt::MulAdd(_, a, b) => {
                self.replace(a);
                self.replace(b);
            }
            Stmt::Define(..)
            | Stmt::Let { .. }
            | Stmt::Find { .. }
            | Stmt::Length { .. }
            | Stmt::Call { .. }
            | Stmt::Local(_)
            | Stmt::Tuple(..) => {}
        }
        match stmt {
            Stmt::If { cond, .. } => self.cond(cond),
            Stmt::Extremum { value, .. } => self.replace(value),
            _ => {}
        }
    }

    fn replace(&self, r: &mut RealId) {
        *r = self.same.get(r).copied().unwrap_or(*r);
    }

    fn read(&self, real: &mut Real) {
        match real {
            Real::Literal(_) | Real::Index(_) | Real::Load(_) => {}
            Real::Add(a, b) | Real::Mul(a, b) | Real::Select(a, b) => [a, b].into_iter().for_each(|r| self.replace(r)),
            Real::MulAdd(a, b, c) => [a, b, c].into_iter().for_each(|r| self.replace(r)),
            Real::Apply(_, args) => args.iter_mut().for_each(|r| self.replace(r)),
        }
    }

    fn cond(&self, cond: &mut Cond) {
        match cond {
            Cond::Support(r) | Cond::NoSupport(r) => self.replace(r),
            Cond::All(conds) | Cond::Any(conds) => conds.iter_mut().for_each(|cond| self.cond(cond)),
            Cond::NonNegative(_) | Cond::Zero(_) | Cond::NonZero(_) => {}
        }
    }

    /// Whether a register changes no more.
    fn is_settled(&self, r: RealId) -> bool {
        self.settled.get(&r).is_none_or(|last| *last < self.at)
    }

    fn known(&self, real: &Real) -> Option<RealId> {
        let key = Key::of(real);
        self.scopes.iter().rev().find_map(|scope| scope.get(&key).copied())
    }

    fn learn(&mut self, key: Key, r: RealId) {
        let settled = match &key {
            Key::Literal(_) | Key::Index(_) | Key::Load(..) => true,
            Key::Add(a, b) | Key::Mul(a, b) | Key::Select(a, b) => self.is_settled(*a) && self.is_settled(*b),
            Key::MulAdd(a, b, c) => [a, b, c].into_iter().all(|r| self.is_settled(*r)),
            Key::Apply(_, args) | Key::Sum(args) => args.iter().all(|r| self.is_settled(*r)),
        };
        if settled {
            self.insert(key, r);
        }
    }

    fn insert(&mut self, key: Key, r: RealId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, r);
        }
    }

    /// Nothing is known of a place any more that the nest writes, nor of places that may be the same.
    fn forget_at(&mut self, place: &Place) {
        let differs =
            |a: &Affine, b: &Affine| a.sub(b).ok().and_then(|a| a.as_constant()).is_some_and(|apart| apart != 0);
        let may_be = |at: &[Affine]| !at.iter().zip(&place.at).any(|(a, b)| differs(a, b));
        if self.written.contains(&place.buffer) {
            for scope in &mut self.scopes {
                scope.retain(|key, _| !matches!(key, Key::Load(b, at) if *b == place.buffer && may_be(at)));
            }
        }
    }

    /// Nothing is known of a buffer any more that the nest writes.
    fn forget(&mut self, buffer: BufferId) {
        if self.written.contains(&buffer) {
            for scope in &mut self.scopes {
                scope.retain(|key, _| !matches!(key, Key::Load(b, _) if *b == buffer));
            }
        }
    }
}

/// The register that a statement alone declares or changes.
fn changed(stmt: &Stmt) -> Option<RealId> {
    match stmt {
        Stmt::Local(r) => Some(*r),
        stmt => stmt.changes(),
    }
}

/// A register of a body that numbers are added to there and nowhere else, before anything reads it.
#[derive(Default)]
struct StraightSum {
    /// How many numbers are added, and how many are still to come.
    all: usize,
    left: usize,
    /// Those so far that change no more.
    known: Vec<RealId>,
}

/// Those of a body whose summands change no more when they are added.
fn straight_sums(stmts: &[Stmt]) -> BTreeMap<RealId, StraightSum> {
    let mut found: BTreeMap<RealId, StraightSum> = BTreeMap::new();
    // What is read of them while more is added.
    let mut read: BTreeSet<RealId> = BTreeSet::new();
    for stmt in stmts {
        let r = match stmt {
            Stmt::Local(r) => {
                found.insert(*r, StraightSum::default());
                continue;
            }
            Stmt::Accumulate(r, a) => {
                read.insert(*a);
                r
            }
            stmt => {
                stmt.visit(&mut |stmt| {
                    stmt.visit_reads(&mut |r| {
                        read.insert(r);
                    });
                });
                stmt.visit(&mut |stmt| {
                    if let Some(r) = changed(stmt) {
                        found.remove(&r);
                    }
                });
                continue;
            }
        };
        if read.contains(r) {
            found.remove(r);
        } else if let Some(sum) = found.get_mut(r) {
            sum.all += 1;
            sum.left += 1;
        }
    }
    found
}

/// The registers, indices that statements behind read.
#[derive(Default)]
struct Needed {
    reals: BTreeSet<RealId>,
    indices: BTreeSet<IndexId>,
}

impl Needed {
    /// The statements without those that store to or fill buffers that are gone, and without the numbers that nobody reads then. Each number and
    /// index is defined before it is read, so one way back finds them.
    fn body(&mut self, stmts: Vec<Stmt>, gone: &BTreeSet<BufferId>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in stmts.into_iter().rev() {
            let needed = match &stmt {
                Stmt::Store(Place { buffer, .. }, _) | Stmt::Fill(buffer) => !gone.contains(buffer),
                Stmt::Define(r, _) => self.reals.contains(r),
                Stmt::Let { index, .. } => self.indices.contains(index),
                _ => true,
            };
            if !needed {
                continue;
            }
            stmt.visit_reads(&mut |r| {
                self.reals.insert(r);
            });
            if let Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } = &mut stmt {
                *body = self.body(std::mem::take(body), gone);
                if body.is_empty() && !matches!(stmt, Stmt::Extremum { .. }) {
                    continue;
                }
            }
            stmt.visit_affine(&mut |a| {
                a.visit(&mut |v| {
                    if let Var::Index(i) = v {
                        self.indices.insert(*i);
                    }
                });
            });
            out.push(stmt);
        }
        out.reverse();
        out
    }
}

//! Intermediate tensors of which nothing is read but what was stored are not made zero before.
//!
//! ```text
//! t = 0                                      for i in 0 .. n - 1
//! for i in 0 .. n - 1                          for j in i + 1 .. n - 1
//!   for j in i + 1 .. n - 1           ==         t[i, j] = f(i, j)
//!     t[i, j] = f(i, j)                      for k in 0 .. n - 1
//! for k in 0 .. n - 1                          for l in 0 .. k - 1
//!   for l in 0 .. k - 1                          s += t[l, k]
//!     s += t[l, k]
//! ```
//!
//! Lowering makes a tensor zero where its guard leaves places out, as it does not look at readers. These have the guard of the tensor in
//! their own, mostly, so they run over the same places, and to write zeros to a whole matrix takes as long as to compute half of it.
//!
//! **Why it is right.** A store runs over ranges, under tests of its loop indices, with a loop index, or one place, on each axis and each loop index on some
//! axis: it writes all places that satisfy the bounds and the tests. The loops and tests around a load imply those of some store, of the place that it loads
//! from; where those of one may fail, of another one. And the store comes first: it is in an earlier nest, or in an earlier statement of the same
//! iteration of the outer loop, whose index both places have on the same axis.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::workspaces::asks_numbers;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked, Pred};
use crate::loops::{BufferId, BufferKind, Cond, Decision, Domain, Place, Program, Stmt, name_of, predicate};
use crate::solver::Facts;

/// How many cases are gone through to see that a load is from where some store has been.
const MAX_CASES: usize = 96;

/// Leaves out zeros that nobody reads.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let rounded: BTreeSet<BufferId> = program.rounded.iter().map(|rounded| rounded.from).collect();
    let mut filled: BTreeSet<BufferId> = BTreeSet::new();
    for stmt in program.nests.iter().flat_map(|nest| &nest.body) {
        if let Stmt::Fill(buffer) = stmt
            && !rounded.contains(buffer)
            && program.buffers.get(*buffer).is_some_and(|b| b.kind == BufferKind::Workspace && b.entries.is_none())
        {
            filled.insert(*buffer);
        }
    }
    if filled.is_empty() {
        return Ok(());
    }
    let facts = program.signature.facts();
    let accesses = accesses(program, &filled);
    let mut needless = BTreeSet::new();
    for (buffer, all) in &accesses {
        if is_needless(all, &facts)? {
            needless.insert(*buffer);
        }
    }
    for nest in &mut program.nests {
        nest.body.retain(|stmt| !matches!(stmt, Stmt::Fill(buffer) if needless.contains(buffer)));
        let own = nest.buffers.iter().filter(|buffer| needless.contains(buffer));
        nest.decisions.extend(own.map(|b| Decision::NotFilled { tensor: name_of(&program.buffers, *b) }));
    }
    Ok(())
}

/// What is around a statement.
#[derive(Clone, Copy)]
enum Frame<'a> {
    Loop(IndexId, &'a Domain),
    Test(&'a Cond),
    Other,
}

/// A load or a store, in which nest, in which statement inside of its outermost one, and what is around it.
struct Access<'a> {
    place: &'a Place,
    stores: bool,
    nest: usize,
    at: (usize, usize),
    path: Vec<Frame<'a>>,
}

fn accesses<'a>(program: &'a Program, of: &BTreeSet<BufferId>) -> BTreeMap<BufferId, Vec<Access<'a>>> {
    let mut found: BTreeMap<BufferId, Vec<Access<'a>>> = BTreeMap::new();
    for (nest, body) in program.nests.iter().map(|nest| &nest.body).enumerate() {
        for (top, stmt) in body.iter().enumerate() {
            let mut walk = Walk { of, nest, at: (top, 0), path: Vec::new(), found: &mut found };
            walk.stmt(stmt);
        }
    }
    found
}

struct Walk<'a, 'f> {
    of: &'f BTreeSet<BufferId>,
    nest: usize,
    at: (usize, usize),
    path: Vec<Frame<'a>>,
    found: &'f mut BTreeMap<BufferId, Vec<Access<'a>>>,
}

impl<'a> Walk<'a, '_> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        let frame = match stmt {
            Stmt::For { index, domain, .. } => Frame::Loop(*index, domain),
            Stmt::If { cond, .. } => Frame::Test(cond),
            _ => Frame::Other,
        };
        let place = stmt.load().or_else(|| stmt.store()).filter(|place| self.of.contains(&place.buffer));
        if let Some(place) = place {
            let (stores, path) = (stmt.store().is_some(), self.path.clone());
            let access = Access { place, stores, nest: self.nest, at: self.at, path };
            self.found.entry(place.buffer).or_default().push(access);
        }
        self.path.push(frame);
        for (at, stmt) in stmt.body().iter().enumerate() {
            if self.path.len() == 1 {
                self.at.1 = at;
            }
            self.stmt(stmt);
        }
        self.path.pop();
    }
}

/// Whether each load is from where a store has been.
fn is_needless(all: &[Access<'_>], facts: &Facts) -> Checked<bool> {
    let (stores, loads): (Vec<&Access<'_>>, Vec<&Access<'_>>) = all.iter().partition(|access| access.stores);
    for load in loads {
        let mut here = facts.clone();
        for frame in &load.path {
            match frame {
                Frame::Loop(i, Domain::Range { lower, upper }) => {
                    here.assume(&predicate::of_range(&(*i).into(), (lower, upper), &|a| Ok(a.clone()))?);
                }
                Frame::Test(cond) => {
                    if let Some(p) = predicate::of_test(cond, &|a| Ok(a.clone()))? {
                        here.assume(&p);
                    }
                }
                Frame::Loop(..) | Frame::Other => {}
            }
        }
        let before = stores.iter().filter(|store| store.comes_before(load)).map(|store| store.region(load.place));
        let regions: Vec<Vec<Pred>> = before.filter_map(Checked::transpose).collect::<Checked<_>>()?;
        let is_in = |region: &Vec<Pred>| region.iter().all(|p| here.proves(p));
        if !regions.iter().any(is_in) && !is_covered(&here, &regions, &mut { MAX_CASES }) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Access<'_> {
    /// Whether what this one stores is there when another one loads, in all iterations that have their place in common.
    fn comes_before(&self, load: &Access<'_>) -> bool {
        if self.nest != load.nest {
            return self.nest < load.nest;
        }
        let (Some(Frame::Loop(i, _)), Some(Frame::Loop(j, _))) = (self.path.first(), load.path.first()) else {
            return false;
        };
        let axis = |access: &Access<'_>| access.place.at.iter().position(|a| a.as_index() == Some(*i));
        i == j && self.at.0 == load.at.0 && self.at.1 < load.at.1 && axis(self).is_some() && axis(self) == axis(load)
    }

    /// What is to hold for the store to write a place: together the ranges and tests around it, of the index at each axis. Nothing where an iteration is not
    /// told by its place.
    fn region(&self, place: &Place) -> Checked<Option<Vec<Pred>>> {
        let mut at: BTreeMap<IndexId, &Affine> = BTreeMap::new();
        let mut region = Vec::new();
        for (own, a) in self.place.at.iter().zip(&place.at) {
            match own.as_index() {
                Some(i) if at.insert(i, a).is_none() => {}
                // The same place in all iterations.
                None if !own.has_indices() => region.push(Pred::equal(own, a)?),
                _ => return Ok(None),
            }
        }
        let other = Cell::new(false);
        let told = |i: IndexId| {
            other.set(other.get() || !at.contains_key(&i));
            at.get(&i).map(|a| (*a).clone())
        };
        let there = |a: &Affine| a.substitute(&told);
        for frame in &self.path {
            match frame {
                Frame::Loop(i, Domain::Range { lower, upper }) if at.contains_key(i) => {
                    let range = predicate::of_range(&there(&(*i).into())?, (lower, upper), &there)?;
                    region.extend(range.conjuncts().iter().cloned());
                }
                Frame::Test(cond) if !asks_numbers(cond) => {
                    let Some(test) = predicate::of_test(cond, &there)? else { return Ok(None) };
                    region.extend(test.conjuncts().iter().cloned());
                }
                _ => return Ok(None),
            }
        }
        Ok((!other.get()).then_some(region))
    }
}

/// Whether all places of which something is known lie in some region: where a conjunct of the first one fails, in one of the others.
fn is_covered(here: &Facts, regions: &[Vec<Pred>], steps: &mut usize) -> bool {
    let Some(left) = steps.checked_sub(1) else { return false };
    *steps = left;
    if here.contradictory() {
        return true;
    }
    let Some((first, others)) = regions.split_first() else { return false };
    let mut inside = here.clone();
    for p in first {
        if inside.proves(p) {
            continue;
        }
        let Some(not) = p.negate() else { return is_covered(here, others, steps) };
        let mut outside = inside.clone();
        outside.assume(&not);
        if !is_covered(&outside, others, steps) {
            return false;
        }
        inside.assume(p);
    }
    true
}

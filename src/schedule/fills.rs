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
//! **Why it is right.** Some store runs over ranges, without tests, with a loop index, or one place, on each axis and each loop index on some axis: it
//! writes all places that satisfy the bounds of its loops. The loops and tests around a load imply these bounds, of the place that it loads from. And the
//! store comes first: it is in an earlier nest, or in an earlier statement of the same iteration of the outer loop, whose index both places have
//! on the same axis.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{BufferId, BufferKind, Cond, Decision, Domain, Place, Program, Stmt, name_of, predicate};
use crate::solver::Facts;

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
        let mut covered = false;
        for store in &stores {
            covered = covered || store.comes_before(load) && store.writes(load.place, &here)?;
        }
        if !covered {
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

    /// Whether the store writes a place of which something is known.
    fn writes(&self, place: &Place, here: &Facts) -> Checked<bool> {
        let mut at: BTreeMap<IndexId, &Affine> = BTreeMap::new();
        for (own, a) in self.place.at.iter().zip(&place.at) {
            match own.as_index() {
                Some(i) if at.insert(i, a).is_none() => {}
                // The same place in all iterations.
                None if own == a && !own.has_indices() => {}
                _ => return Ok(false),
            }
        }
        let loops: BTreeSet<IndexId> =
            self.path.iter().filter_map(|frame| if let Frame::Loop(i, _) = frame { Some(*i) } else { None }).collect();
        if loops.len() != self.path.len() || !loops.iter().eq(at.keys()) {
            return Ok(false);
        }
        let there = |a: &Affine| a.substitute(&|i| at.get(&i).map(|a| (*a).clone()));
        for frame in &self.path {
            let Frame::Loop(i, Domain::Range { lower, upper }) = frame else { return Ok(false) };
            let goal = predicate::of_range(&there(&(*i).into())?, (lower, upper), &there)?;
            if !here.proves(&goal) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

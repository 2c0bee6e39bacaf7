//! What is read before and behind a sum that it is a part of.
//!
//! ```text
//! g = gen b. sum i, j. t[i, j, b]                 s = gen i. sum j. t[i, j]
//! y = gen i, j. sum b. t[i, j, b] * g[b]          y = gen i, j. t[i, j] / s[i]
//! ```
//!
//! On the left all of `t` has been gone through before `y` begins, so it takes all of its memory or is made again. On the right that is so for a row
//! at a time: nests over the same rows join, and a row of `t` is kept.
//!
//! Large is what [`outgrows`] parameters and results. The *pass* of a tensor is how many sums of large tensors, one after the other, have to be there
//! before it can be computed.

use std::collections::BTreeSet;

use super::plan::outgrows;
use super::readers::{collect_places, collect_uses};
use crate::base::{SideTable, VarId, work};
use crate::index::Size;
use crate::tssa::Program;

/// What is known of the large tensors of a program.
pub(super) struct Barriers {
    large: SideTable<VarId, bool>,
    passes: SideTable<VarId, usize>,
    /// Who reads a large tensor.
    readers: SideTable<VarId, Vec<VarId>>,
}

impl Barriers {
    pub fn of(program: &Program, live: &SideTable<VarId, bool>, outside: &[&[Size]]) -> Barriers {
        let len = program.stmts.len();
        let (mut large, mut passes) = (SideTable::new(len, false), SideTable::new(len, 0));
        let mut readers: SideTable<VarId, Vec<VarId>> = SideTable::new(len, Vec::new());
        for (x, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
            large.set(x, outgrows(&stmt.dims, outside));
            let (mut pass, mut of_large) = (0, false);
            collect_uses(stmt, &mut |y, _| {
                pass = pass.max(passes[y]);
                of_large |= large[y];
                if large[y] && readers[y].last() != Some(&x) {
                    readers[y].push(x);
                }
            });
            // What a sum gives is there for the pass behind its own.
            passes.set(x, if of_large && !large[x] { pass + 1 } else { pass });
        }
        Barriers { large, passes, readers }
    }

    /// Whether a large tensor is read in several passes, and a row of it can be kept from one to the next.
    pub fn keep_row(&self, program: &Program, x: VarId, outside: &[&[Size]]) -> bool {
        let sums = self.sums(x);
        let first = sums.iter().map(|s| self.passes[*s]).min();
        let mut later = sums.iter().filter(|s| Some(self.passes[**s]) > first).peekable();
        if later.peek().is_none() {
            return false;
        }
        let dims = &program.stmts[x].dims;
        let is_short = |axis: usize| {
            let mut row = dims.clone();
            row.remove(axis);
            !outgrows(&row, outside)
        };
        let axes: Vec<usize> = (0..dims.len()).filter(|axis| is_short(*axis)).collect();
        later.all(|s| self.is_by_rows(program, x, *s, &axes))
    }

    /// The tensors, not large themselves, that are made of a large one.
    fn sums(&self, x: VarId) -> BTreeSet<VarId> {
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::from([x]));
        let mut open = vec![x];
        while let Some(y) = open.pop() {
            work::charge(1 + self.readers[y].len());
            for reader in &self.readers[y] {
                if !self.large[*reader] {
                    found.insert(*reader);
                } else if seen.insert(*reader) {
                    open.push(*reader);
                }
            }
        }
        found
    }

    /// Whether a sum reads a large tensor together with what has the same index on one of some axes, of all that is there after the pass in which this can be
    /// computed.
    fn is_by_rows(&self, program: &Program, x: VarId, sum: VarId, axes: &[usize]) -> bool {
        let stmt = &program.stmts[sum];
        let mut names = stmt.dims.len() + stmt.rhs.sums().len();
        let mut open = vec![(sum, (0..names).collect::<Vec<usize>>())];
        let (mut seen, mut rows, mut later) = (BTreeSet::new(), Vec::new(), Vec::new());
        while let Some((y, at)) = open.pop() {
            work::charge(4);
            collect_places(&program.stmts[y], &at, &mut names, &mut |z, place| {
                let Some(place) = place else { return };
                if z == x {
                    rows.push(place);
                } else if self.large[z] {
                    if seen.insert((z, place.clone())) {
                        open.push((z, place));
                    }
                } else if self.passes[z] > self.passes[x] {
                    later.push(place);
                }
            });
        }
        let joins = |axis: &usize| {
            let mut names = rows.iter().map(|row: &Vec<usize>| row.get(*axis));
            names.all(|name| name.is_some_and(|name| later.iter().all(|place| place.contains(name))))
        };
        axes.iter().any(joins)
    }
}

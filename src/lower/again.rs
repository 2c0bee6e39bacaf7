//! Large tensors that are made again for each reader.
//!
//! ```text
//! t[i, j] = f(x[i, j], r[i])
//! y = sum i, j. g(t[i, j])        ==    y = sum i, j. g(f(x[i, j], r[i]))
//! z[i, j] = h(t[i, j])                  z[i, j] = h(f(x[i, j], r[i]))
//! ```
//!
//! To store a tensor takes as long as to read `x` three times: to write it, to read what is written over, and to read it. So what takes a few operations
//! on one tensor that is stored anyway, and on numbers of its rows and columns, is made again. The sums of rows among these are stored for that: they
//! are small.
//!
//! **Why it is right.** Elements are made of the same numbers by the same operations wherever they are read.

use super::plan::{Effort, LOOP, Placement, Plan, outgrows};
use super::readers::{Use, reads_few_times, reads_once};
use super::straight::Straight;
use crate::base::{SideTable, VarId};
use crate::index::Size;
use crate::loops::Decision;
use crate::tssa::{Program, Stmt};

/// Work that is rather done again for each reader than stored in more memory than parameters and results take.
const RECOMPUTED: u64 = 16;
/// The same where no such memory is left then, neither what it is made of nor what is made of it: some ten functions, or the force between two points.
const RECOMPUTED_ALONE: u64 = 288;

impl Plan {
    /// Why a matrix is made again for each reader from one that is stored anyway, and rows and columns.
    pub(super) fn made_of_one(&self, program: &Program, x: VarId, readers: &[&Use]) -> Option<Decision> {
        let straight = self.of_one(program, x, readers, &|_| false)?;
        let (tensor, operations) = (self.names.get(x), straight.work);
        Some(Decision::OfOne { tensor, operations, readers: readers.len() })
    }

    /// The sums that are in place once for each row of a matrix, where this would be [made of one](Plan::made_of_one) if they were stored.
    pub(super) fn rows_beside(
        &self,
        program: &Program,
        x: VarId,
        efforts: &SideTable<VarId, Effort>,
        readers: &[&Use],
    ) -> Vec<VarId> {
        let rank = long_axes(&program.stmts[x]);
        let is_row = |y: VarId| efforts[y].work >= LOOP && long_axes(&program.stmts[y]) < rank;
        let loads = self.of_one(program, x, readers, &is_row).map(|straight| straight.loads).unwrap_or_default();
        loads.into_iter().filter(|y| matches!(self.placements[*y], Placement::Inline(_))).collect()
    }

    /// A matrix as straight-line code of one that is stored, and of rows and columns, with what is taken as stored.
    fn of_one<'a>(
        &'a self,
        program: &'a Program,
        x: VarId,
        readers: &[&Use],
        stored: &'a dyn Fn(VarId) -> bool,
    ) -> Option<Straight<'a>> {
        let stmt = &program.stmts[x];
        let rank = long_axes(stmt);
        if rank < 2 || !readers.iter().all(|read| reads_once(program, read)) {
            return None;
        }
        let straight = Straight::beside(program, self, x, stored)?;
        let mut large = straight.loads.iter().map(|y| &program.stmts[*y]).filter(|y| long_axes(y) >= rank);
        let of_one = large.next().is_some_and(|y| y.dims == stmt.dims) && large.next().is_none();
        (of_one && !straight.calls && straight.work <= RECOMPUTED).then_some(straight)
    }

    /// Why a large tensor is made again for each reader; nothing where storing it is better. `beside` says that what is made of it is stored.
    pub(super) fn made_again(
        &self,
        program: &Program,
        x: VarId,
        readers: &[&Use],
        outside: &[&[Size]],
        beside: bool,
    ) -> Option<Decision> {
        let Straight { work: operations, calls, loads, .. } = Straight::of(program, self, x)?;
        let (tensor, count) = (self.names.get(x), readers.len());
        if operations <= RECOMPUTED && readers.iter().all(|read| reads_once(program, read)) {
            return Some(Decision::Large { tensor, operations, readers: count });
        }
        let is_of_small = !loads.iter().any(|y| outgrows(&program.stmts[*y].dims, outside));
        let alone = !beside && is_of_small && (!calls || !self.barriers.keep_row(program, x, outside));
        let few = || readers.iter().all(|read| reads_few_times(program, read));
        (alone && operations <= RECOMPUTED_ALONE && few()).then_some(Decision::Alone {
            tensor,
            operations,
            readers: count,
        })
    }

    /// Whether a large tensor takes so little work that it is made where it is read, of what is not large.
    pub(super) fn is_made_alone(&self, program: &Program, x: VarId, outside: &[&[Size]]) -> bool {
        let straight = || Straight::of(program, self, x);
        let small = |straight: Straight<'_>| {
            straight.work <= RECOMPUTED_ALONE
                && !straight.loads.iter().any(|y| outgrows(&program.stmts[*y].dims, outside))
        };
        outgrows(&program.stmts[x].dims, outside) && straight().is_some_and(small)
    }
}

/// How many axes grow with a size.
fn long_axes(stmt: &Stmt) -> usize {
    stmt.dims.iter().filter(|n| n.as_constant().is_none()).count()
}

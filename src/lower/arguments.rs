//! Sums in what functions are taken of.
//!
//! ```text
//! y[i, j, k] = exp(f(s[i, j], w[k]))          s[i, j] stored,  y = exp(f(s[i, j], w[k]))
//! y[i, j]    = exp(sum k. a[i, k] * b[k, j])  z[i, j] stored,  y = exp(z[i, j])
//! ```
//!
//! Functions such as `exp` run in lanes, and no loop stands in the lanes beside them. So what a function is taken of is stored if it has a sum; or the
//! sum is, where it has fewer axes: the distance of two points takes less room than what it is to each of many centres.

use std::collections::BTreeSet;

use super::plan::{Effort, LOOP, Placement, Plan};
use super::readers::collect_uses;
use crate::base::{SideTable, VarId, work};
use crate::index::Size;
use crate::loops::Decision;
use crate::tssa::patterns::Pattern;
use crate::tssa::{Program, Rhs, Stmt};

impl Plan {
    /// Stores what a function is taken of, if it has a sum; or gives the sums that are to be stored instead.
    pub(super) fn store_arguments(
        &mut self,
        program: &Program,
        stmt: &Stmt,
        outside: &[&[Size]],
        efforts: &mut SideTable<VarId, Effort>,
    ) -> BTreeSet<VarId> {
        let mut apart = BTreeSet::new();
        let Rhs::Map { function, args, .. } = &stmt.rhs else { return apart };
        if !function.is_call() || stmt.dims.is_empty() {
            return apart;
        }
        for arg in args {
            let has_sum = matches!(self.placements[*arg], Placement::Inline(_)) && efforts[*arg].work >= LOOP;
            if !has_sum || self.is_made_alone(program, *arg, outside) {
                continue;
            }
            match self.sums_of_fewer_axes(program, *arg, efforts) {
                Some(sums) => apart.extend(sums),
                None => self.store_operand(program, *arg, efforts, |stored| Decision::Argument { stored }),
            }
        }
        apart
    }

    /// The tensors of fewer axes that have all the sums that are computed in place for an element; nothing where one has as many axes, or would be
    /// stored at more places than the entries that the element is one of.
    fn sums_of_fewer_axes(
        &self,
        program: &Program,
        arg: VarId,
        efforts: &SideTable<VarId, Effort>,
    ) -> Option<BTreeSet<VarId>> {
        let rank = program.stmts[arg].dims.len();
        let has_entries = |x: VarId| Pattern::for_storage(&self.patterns[x]).is_some();
        let mut sums = BTreeSet::new();
        let mut open = vec![arg];
        while let Some(x) = open.pop() {
            work::charge(1);
            let stmt = &program.stmts[x];
            if stmt.dims.len() < rank && (has_entries(x) || !has_entries(arg)) {
                sums.insert(x);
                continue;
            }
            if !stmt.rhs.sums().is_empty() && stmt.cases(&program.signature).is_none() {
                return None;
            }
            collect_uses(stmt, &mut |y, _| {
                let in_place = matches!(self.placements[y], Placement::Inline(_)) && efforts[y].work >= LOOP;
                open.extend(in_place.then_some(y));
            });
        }
        (!sums.is_empty()).then_some(sums)
    }
}

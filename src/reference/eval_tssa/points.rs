//! The points of guards: visited in lexicographic order, and counted.

use std::cell::{Cell, RefCell};

use super::Evaluation;
use super::tensors::Alive;
use crate::base::{IndexId, SizeId};
use crate::error::{Error, Result};
use crate::index::{Pred, RelationRef, Size, View};
use crate::reference::count::Counts;
use crate::reference::numeric::Numeric;
use crate::reference::scope::Scope;
use crate::solver::{Plan, World};

/// What the guards of Tensor-SSA talk about.
///
/// The enumeration of points cannot fail half-way, so the first error is kept and ends it at the next point.
struct Facts<'s, 'a, T> {
    alive: &'s Alive<'a, T>,
    failed: RefCell<Option<Error>>,
    /// How many values indices have taken.
    tried: Cell<u64>,
}

impl<T: Numeric> Facts<'_, '_, T> {
    fn answer<U>(&self, answer: Result<U>) -> Option<U> {
        answer.map_err(|error| self.failed.borrow_mut().get_or_insert(error).clone()).ok()
    }

    fn check(&self) -> Result<()> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    fn scope(&self) -> Scope<'_, T, Alive<'_, T>> {
        Scope { inputs: self.alive.inputs, tensors: self.alive, limits: self.alive.limits }
    }
}

impl<T: Numeric> World for Facts<'_, '_, T> {
    fn size(&self, size: SizeId) -> i64 {
        self.answer(self.alive.inputs.size(size)).unwrap_or(0)
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        self.answer(self.scope().contains(relation, tuple)).unwrap_or(false)
    }

    fn candidates(&self, relation: RelationRef, known: &[Option<i64>], axis: usize) -> Option<Vec<i64>> {
        match relation {
            RelationRef::Input(r) => Some(self.answer(self.alive.inputs.relation(r))?.candidates(known, axis)),
            RelationRef::Computed { view: View::Support, .. } => None,
            RelationRef::Computed { .. } => {
                let (_, source) = known.split_last().filter(|(_, source)| source.len() == axis)?;
                let source: Vec<i64> = source.iter().copied().collect::<Option<_>>()?;
                Some(self.answer(self.scope().target(relation, &source))?.into_iter().collect())
            }
        }
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        self.answer(self.scope().target(map, source))?
    }

    fn tries(&self, values: u128, in_all: u128) -> bool {
        let tried = u128::from(self.tried.get());
        self.tried.set(u64::try_from(tried + values).unwrap_or(u64::MAX));
        self.answer(self.alive.limits.steps(tried.saturating_add(in_all))).is_some()
    }
}

impl<T: Numeric> Evaluation<'_, T> {
    /// Visits the points of a guard in lexicographic order.
    pub(super) fn visit(
        &self,
        order: &[(IndexId, &Size)],
        guard: &Pred,
        visit: &mut dyn FnMut(&[i64]) -> Result<()>,
    ) -> Result<()> {
        let alive = &self.alive;
        // An empty axis anywhere leaves no point, however long the others are.
        for (_, n) in order {
            if alive.inputs.extent(n)? == 0 {
                return Ok(());
            }
        }
        let facts = Facts { alive, failed: RefCell::new(None), tried: Cell::new(0) };
        let free: Vec<(IndexId, Size)> = order.iter().map(|(i, n)| (*i, (*n).clone())).collect();
        Plan::new(&[], &free, guard).for_each(&facts, &[], &mut |at| {
            facts.check()?;
            visit(at)
        })?;
        facts.check()
    }

    /// How many points a guard has, and how many places of the `gen` axes have at least one.
    ///
    /// Indices that the guard does not mention multiply both.
    pub(super) fn points(&self, gens: &[Size], sums: &[Size], guard: &Pred) -> Result<(u128, u128)> {
        let (mut free_points, mut free_elements) = (1, 1);
        let mut order = Vec::new();
        let mut outer = 0;
        for (at, (i, size)) in numbered(gens, sums).enumerate() {
            let n = self.alive.inputs.extent(size)?;
            if n > 0 && guard.mentions(i) {
                order.push((i, size));
                outer += usize::from(at < gens.len());
                continue;
            }
            free_points = Counts::times(free_points, u128::from(n))?;
            // Without summands no element costs anything.
            if at < gens.len() || n == 0 {
                free_elements = Counts::times(free_elements, u128::from(n))?;
            }
        }
        let (mut points, mut elements) = (0u128, 0u128);
        let mut last: Option<Vec<i64>> = None;
        if free_points > 0 {
            self.visit(&order, guard, &mut |at| {
                points += 1;
                let at = at.get(..outer).unwrap_or(at);
                if last.as_deref() != Some(at) {
                    elements += 1;
                    last = Some(at.to_vec());
                }
                Ok(())
            })?;
        }
        Ok((Counts::times(points, free_points)?, Counts::times(elements, free_elements)?))
    }
}

/// The indices of a statement with their ranges: `gen` indices first, then `sum` indices, numbered in this order.
pub(super) fn numbered<'s>(gens: &'s [Size], sums: &'s [Size]) -> impl Iterator<Item = (IndexId, &'s Size)> {
    (0..).map(IndexId).zip(gens.iter().chain(sums))
}

//! How much work an element of a tensor is, where it is computed in place with all that is computed in place for it.
//!
//! Each number is counted once that is made or loaded at the same indices, or at exchanged ones where axes can be exchanged: what reads it shares
//! it. A sum over a few values is as many statements.

use std::collections::BTreeSet;

use super::plan::{LOOP, MAX_INLINED, Placement, Plan, guard_work};
use super::readers::collect_places;
use crate::base::VarId;
use crate::scalar::{Function, Number, Op, Primitive};
use crate::schedule::machine::{FEW, HALF_POWER};
use crate::tssa::exchanges::order;
use crate::tssa::{Program, Rhs};

/// The work of a power that becomes a product with a square root.
const SHORT_POWER: u64 = 8;

/// An element of a tensor as straight-line code.
pub(super) struct Straight<'a> {
    program: &'a Program,
    plan: &'a Plan,
    /// What is loaded though it is computed in place.
    stored: &'a dyn Fn(VarId) -> bool,
    /// What was counted, at which indices: those of the tensor by number, and those of sums from there on.
    seen: BTreeSet<(VarId, Vec<usize>)>,
    names: usize,
    /// Its operations.
    pub work: u64,
    /// Whether it has functions that take long.
    pub calls: bool,
    /// What is loaded.
    pub loads: BTreeSet<VarId>,
}

impl<'a> Straight<'a> {
    /// Nothing where it needs a loop over more than a few values, or reads numbers in guards.
    pub fn of(program: &'a Program, plan: &'a Plan, x: VarId) -> Option<Straight<'a>> {
        Straight::beside(program, plan, x, &|_| false)
    }

    /// The same if something else were stored as well.
    pub fn beside(
        program: &'a Program,
        plan: &'a Plan,
        x: VarId,
        stored: &'a dyn Fn(VarId) -> bool,
    ) -> Option<Straight<'a>> {
        let rank = program.stmts[x].dims.len();
        let (seen, loads) = (BTreeSet::new(), BTreeSet::new());
        let mut pass = Straight { program, plan, stored, seen, names: rank, work: 0, calls: false, loads };
        let mut open = vec![(x, (0..rank).collect::<Vec<usize>>(), 1)];
        while let Some((x, at, times)) = open.pop() {
            if pass.seen.len() > MAX_INLINED {
                return None;
            }
            if pass.seen.insert((x, at.clone())) {
                pass.stmt(x, &at, times, &mut open)?;
            }
        }
        Some(pass)
    }

    /// Whether a function is a power that [becomes](mod@crate::schedule) a product, with a square root or without.
    fn is_product(&self, function: &Function, args: &[VarId]) -> bool {
        let Function::Value(Primitive::Op(Op::Pow)) = function else { return false };
        let Some(mut x) = args.get(1).copied() else { return false };
        loop {
            match &self.program.stmts[x].rhs {
                Rhs::Number(Number::Literal(k)) => return (2.0 * k).fract() == 0.0 && k.abs() <= HALF_POWER,
                Rhs::Contract { guard: _, sums, operands } if sums.is_empty() => match operands.as_slice() {
                    [one] => x = one.var,
                    _ => return false,
                },
                _ => return false,
            }
        }
    }

    /// Counts a statement at some indices, so many times, and opens what it reads.
    fn stmt(&mut self, x: VarId, at: &[usize], times: u64, open: &mut Vec<(VarId, Vec<usize>, u64)>) -> Option<()> {
        let stmt = &self.program.stmts[x];
        let (mut own, mut times) = (0, times);
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add([(p, _), (q, _)]) => own = 1 + guard_work(p) + guard_work(q),
            Rhs::Map { guard, function, args } => {
                let short = self.is_product(function, args);
                own = if short { SHORT_POWER } else { function.work() } + guard_work(guard);
                self.calls |= function.is_call() && !short;
            }
            Rhs::Contract { sums, guard, operands } => {
                own = operands.len().saturating_sub(1) as u64 + guard_work(guard);
                if let Some(cases) = stmt.cases(&self.program.signature) {
                    own += cases as u64 - 1;
                } else {
                    own += 1;
                    for n in sums {
                        let n = n.as_constant().filter(|n| (0..=FEW).contains(n))?;
                        times = times.checked_mul(n.unsigned_abs())?;
                    }
                }
            }
        }
        if own >= LOOP {
            return None;
        }
        self.work = self.work.saturating_add(own.saturating_mul(times));
        let (mut names, mut guards) = (self.names, false);
        collect_places(stmt, at, &mut names, &mut |y, place| {
            let Some(mut at) = place else {
                guards = true;
                return;
            };
            order(&self.plan.exchanges[y], &mut at);
            if matches!(self.plan.placements[y], Placement::Inline(_)) && !(self.stored)(y) {
                open.push((y, at, times));
            } else {
                self.loads.insert(y);
                self.work +=
                    if self.seen.insert((y, at)) && !self.program.stmts[y].dims.is_empty() { times } else { 0 };
            }
        });
        self.names = names;
        (!guards).then_some(())
    }
}

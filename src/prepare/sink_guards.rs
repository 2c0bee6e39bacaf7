//! Searches in guards of what loops have in common go to where they are needed.
//!
//! ```text
//! let c = [exists i < n. m[i] != 0] * exp(a)            let c = exp(a)
//! let s = sum i < n. [m[i] != 0] * 1                    let s = sum i < n. [m[i] != 0] * 1
//! (sum i < n. [m[i] != 0] * c * x[i]) + c * s    ==     (sum i < n. [m[i] != 0] * c * x[i]) + [s != 0] * c * s
//! ```
//!
//! What a sum under a mask has in common leaves it, and so that it counts for nothing where the mask holds nowhere, it has a guard that says that the mask holds
//! somewhere. To find that out takes as long as the sum, and all of `m`, before the sum can begin. Under the mask itself nobody has to ask, and beside a count of
//! its places the count says it.
//!
//! **Why it is right.** Where the guard fails `c` is 0. A reader under a guard that implies it does not see that. A product of 0 with a finite literal, with another
//! number under the same guard, or with a sum that is over nothing then, is 0, as under a guard of its own; so is a function that is 0 at 0, and a summand that
//! is left out. A sum of positive literals is other than 0 if it has a term. The sign of a zero may change.
//!
//! **Where it is done.** For guards without free indices that ask numbers, from one statement to those that read it, as long as all of them have no more axes and
//! no sums of their own, or imply the guard.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::empty_sums::{are_empty, is_implied, without};
use crate::base::{Id, IndexId, SideTable, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, View};
use crate::scalar::{Function, Number, Primitive};
use crate::tssa::{Builder, Program, Rhs, Stmt};

/// The names of what moved guards bind begin here, behind those of all statements.
const FIRST_NAME: usize = 1 << 24;
/// How many nested searches are compared with a count in all orders.
const MAX_NESTED: usize = 3;

/// The program in which searches are where they are needed.
pub(super) fn sunk(program: &Program) -> Result<Cow<'_, Program>> {
    let asks = |stmt: &Stmt| stmt.rhs.guards().any(|p| searches(p).next().is_some());
    if !program.stmts.values().any(asks) {
        return Ok(Cow::Borrowed(program));
    }
    let mut pass = Pass::of(program);
    let mut changed = false;
    for x in program.stmts.ids() {
        work::charge(4);
        changed |= pass.sink(x)?;
    }
    for x in program.stmts.ids() {
        changed |= pass.count(x);
    }
    if !changed {
        return Ok(Cow::Borrowed(program));
    }
    let mut builder = Builder::new(program.signature.clone());
    let mut names: SideTable<VarId, Option<VarId>> = SideTable::new(program.stmts.len(), None);
    let outputs = builder.append_with(program, |builder, x, _| {
        let y = builder.push(&pass.program.stmts[x].rename(&|operand| names[operand])?)?;
        names.set(x, Some(y));
        Ok(y)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// Whether a conjunct without free indices goes through numbers to find out whether something exists.
fn is_search(p: &Pred) -> bool {
    let (mut computed, mut free) = (false, false);
    if matches!(p, Pred::Exists { .. }) {
        p.visit_computed(&mut |_| computed = true);
        p.visit_free(&mut |_| free = true);
    }
    computed && !free
}

/// The searches of a guard.
fn searches(guard: &Pred) -> impl Iterator<Item = &Pred> {
    guard.conjuncts().iter().filter(|p| is_search(p))
}

/// Whether two conjuncts are the same, whatever they call what they bind.
fn are_same(p: &Pred, q: &Pred) -> bool {
    matches!(p, Pred::Exists { .. }) && p.alpha_normal() == q.alpha_normal()
}

/// Whether a guard has a conjunct.
fn has(guard: &Pred, p: &Pred) -> bool {
    guard.conjuncts().iter().any(|q| are_same(q, p))
}

/// The guards, in the order of [`Rhs::guards`].
fn guards_mut(rhs: &mut Rhs) -> impl Iterator<Item = &mut Pred> {
    let (first, second) = match rhs {
        Rhs::Input { .. } | Rhs::Number(_) => (None, None),
        Rhs::Add([(p, _), (q, _)]) => (Some(p), Some(q)),
        Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => (Some(guard), None),
    };
    first.into_iter().chain(second)
}

struct Pass {
    program: Program,
    readers: BTreeMap<VarId, BTreeSet<VarId>>,
    /// What guards ask, and results.
    fixed: BTreeSet<VarId>,
    /// The numbers that are sums of positive literals.
    counts: Vec<VarId>,
    /// The last name of what a moved guard binds.
    bound: usize,
}

impl Pass {
    fn of(program: &Program) -> Pass {
        let mut readers: BTreeMap<VarId, BTreeSet<VarId>> = BTreeMap::new();
        let mut fixed: BTreeSet<VarId> = program.outputs.iter().flat_map(|output| &output.leaves).copied().collect();
        for (x, stmt) in program.stmts.iter() {
            stmt.rhs.for_each_operand(|y| readers.entry(y).or_default().extend([x]));
            stmt.rhs.guards().for_each(|p| p.visit_computed(&mut |y| fixed.extend([y])));
        }
        let is_positive = |y: VarId| matches!(program.stmts[y].rhs, Rhs::Number(Number::Literal(x)) if x > 0.0);
        let counts = program.stmts.iter().filter(|(_, stmt)| match &stmt.rhs {
            Rhs::Contract { sums, operands, .. } => {
                let is_nested = (1..=MAX_NESTED).contains(&sums.len());
                stmt.dims.is_empty() && is_nested && operands.iter().all(|operand| is_positive(operand.var))
            }
            _ => false,
        });
        let counts = counts.map(|(x, _)| x).collect();
        Pass { program: program.clone(), readers, fixed, counts, bound: FIRST_NAME }
    }

    /// Moves the searches of a statement to its readers; whether there are any that can go.
    fn sink(&mut self, x: VarId) -> Result<bool> {
        if self.fixed.contains(&x) {
            return Ok(false);
        }
        // Those of all operands.
        let rhs = &self.program.stmts[x].rhs;
        let first = rhs.guards().take(1).flat_map(searches);
        let found: Vec<Pred> = first.filter(|p| rhs.guards().all(|guard| has(guard, p))).cloned().collect();
        let mut changed = false;
        for p in found {
            let readers = self.readers.get(&x).into_iter().flatten();
            let takers: Option<Vec<(VarId, [bool; 2])>> =
                readers.map(|user| Some((*user, self.takes(*user, x, &p)?))).collect();
            let Some(takers) = takers else { continue };
            changed = true;
            for guard in guards_mut(&mut self.program.stmts[x].rhs) {
                *guard = without(guard, &|q| are_same(q, &p));
            }
            for (user, which) in takers {
                // What it binds has names that no statement has.
                let own = p.rebind(&mut |_| {
                    self.bound += 1;
                    IndexId::from_index(self.bound)
                })?;
                let guards = guards_mut(&mut self.program.stmts[user].rhs).zip(which);
                for (guard, _) in guards.filter(|(_, takes)| *takes) {
                    *guard = guard.clone().and(own.clone());
                }
            }
        }
        Ok(changed)
    }

    /// Which guards of a reader take a search, where it is not implied; nothing if it cannot go there.
    fn takes(&self, user: VarId, x: VarId, p: &Pred) -> Option<[bool; 2]> {
        let stmt = &self.program.stmts[user];
        let implied = |guard: &Pred| is_implied(p, stmt, &self.with_what_is_asked(guard), 0);
        if let Rhs::Add(sides) = &stmt.rhs {
            return Some(sides.each_ref().map(|(guard, y)| *y == x && !implied(guard)));
        }
        if stmt.rhs.guards().any(implied) {
            return Some([false, false]);
        }
        let keeps_zero = match &stmt.rhs {
            Rhs::Map { function: Function::Value(Primitive::Op(op)), args, .. } => args.len() == 1 && op.facts().zero,
            Rhs::Contract { sums, operands, .. } => {
                let is_small = sums.is_empty() && stmt.dims.len() <= self.program.stmts[x].dims.len();
                is_small && operands.iter().all(|operand| operand.var == x || self.is_zero(operand.var, p))
            }
            _ => false,
        };
        keeps_zero.then_some([true, false])
    }

    /// Whether a factor makes 0 of 0 where a search fails: it is finite, has the guard, or is a sum over nothing.
    fn is_zero(&self, x: VarId, p: &Pred) -> bool {
        let rhs = &self.program.stmts[x].rhs;
        let mut guards = rhs.guards().peekable();
        rhs.is_finite_literal()
            || guards.peek().is_some() && guards.all(|guard| has(guard, p))
            || are_empty(p, x, &|x| &self.program.stmts[x])
    }

    /// A guard, and the guards of the tensors whose elements it asks to be other than 0.
    fn with_what_is_asked(&self, guard: &Pred) -> Pred {
        let mut all: Vec<Pred> = guard.conjuncts().to_vec();
        for p in guard.conjuncts() {
            let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } = p
            else {
                continue;
            };
            let Stmt { dims, rhs: Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } } = &self.program.stmts[*var]
            else {
                continue;
            };
            let own = guard.conjuncts().iter().filter(|p| {
                let mut outside = true;
                p.visit_free(&mut |i| outside &= i.index() < dims.len());
                outside
            });
            all.extend(own.filter_map(|p| p.substitute(&|i| args.get(i.index()).cloned()).ok()));
        }
        Pred::all(all)
    }

    /// Asks counts instead of searching; whether there are any.
    fn count(&mut self, x: VarId) -> bool {
        let found: BTreeSet<Pred> = self.program.stmts[x].rhs.guards().flat_map(searches).cloned().collect();
        let mut changed = false;
        for p in found {
            let before = self.counts.iter().take_while(|y| **y < x);
            let Some(count) = before.copied().find(|y| self.counts_places(*y, &p)) else { continue };
            let is_some = Pred::relation(RelationRef::Computed { var: count, view: View::Support }, Vec::new());
            for guard in guards_mut(&mut self.program.stmts[x].rhs) {
                let all = guard.conjuncts().iter().map(|q| if *q == p { is_some.clone() } else { q.clone() });
                *guard = Pred::all(all.collect::<Vec<_>>());
            }
            changed = true;
        }
        changed
    }

    /// Whether a sum of positive literals is over the places for which a search looks.
    fn counts_places(&self, count: VarId, p: &Pred) -> bool {
        let Rhs::Contract { sums, guard, .. } = &self.program.stmts[count].rhs else { return false };
        let conjuncts = |p: &Pred| -> BTreeSet<Pred> { p.alpha_normal().conjuncts().iter().cloned().collect() };
        let guard = conjuncts(guard);
        let mut open = vec![(p.clone(), BTreeSet::new())];
        while let Some((p, used)) = open.pop() {
            work::charge(1);
            if used.len() == sums.len() {
                if conjuncts(&p) == guard {
                    return true;
                }
            } else if let Pred::Exists { index, extent, body } = &p {
                let alike = sums.iter().enumerate().filter(|(_, n)| *n == extent).map(|(k, _)| k);
                for k in alike.filter(|k| !used.contains(k)) {
                    let summed = Affine::index(IndexId::from_index(k));
                    if let Ok(body) = body.substitute(&|i| (i == *index).then(|| summed.clone())) {
                        open.push((body, used.iter().copied().chain([k]).collect()));
                    }
                }
            }
        }
        false
    }
}

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

use super::empty_sums::{are_empty, is_implied};
use crate::base::{Id, IndexId, SideTable, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Overflow, Pred, RelationRef, View};
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
        changed |= pass.sink(x);
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

/// A guard without a conjunct.
fn without(guard: &Pred, p: &Pred) -> Pred {
    Pred::all(guard.conjuncts().iter().filter(|q| !are_same(q, p)).cloned().collect::<Vec<_>>())
}

struct Pass {
    program: Program,
    readers: BTreeMap<VarId, BTreeSet<VarId>>,
    /// What guards ask, and results.
    fixed: BTreeSet<VarId>,
    /// The last name of what a moved guard binds.
    bound: usize,
}

/// Where a guard goes in a statement that reads what had it.
enum Place {
    /// Nowhere: it is implied.
    Nowhere,
    /// To the guard of a function or a product.
    Guard,
    /// To the guards of summands.
    Sides([bool; 2]),
}

impl Pass {
    fn of(program: &Program) -> Pass {
        let mut readers: BTreeMap<VarId, BTreeSet<VarId>> = BTreeMap::new();
        let mut fixed: BTreeSet<VarId> = program.outputs.iter().flat_map(|output| &output.leaves).copied().collect();
        for (x, stmt) in program.stmts.iter() {
            stmt.rhs.for_each_operand(|y| readers.entry(y).or_default().extend([x]));
            stmt.rhs.guards().for_each(|p| p.visit_computed(&mut |y| fixed.extend([y])));
        }
        Pass { program: program.clone(), readers, fixed, bound: FIRST_NAME }
    }

    /// Moves the searches of a statement to its readers; whether there are any that can go.
    fn sink(&mut self, x: VarId) -> bool {
        if self.fixed.contains(&x) {
            return false;
        }
        // Those of all operands.
        let searches: Vec<Pred> = match &self.program.stmts[x].rhs {
            Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => searches(guard).cloned().collect(),
            Rhs::Add([(p, _), (q, _)]) => searches(p).filter(|search| has(q, search)).cloned().collect(),
            Rhs::Input { .. } | Rhs::Number(_) => Vec::new(),
        };
        let mut changed = false;
        for p in searches {
            let readers = self.readers.get(&x).into_iter().flatten();
            let places: Option<Vec<(VarId, Place)>> =
                readers.map(|user| Some((*user, self.place(*user, x, &p)?))).collect();
            let Some(places) = places else { continue };
            changed = true;
            match &mut self.program.stmts[x].rhs {
                Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => *guard = without(guard, &p),
                Rhs::Add(sides) => sides.iter_mut().for_each(|(guard, _)| *guard = without(guard, &p)),
                Rhs::Input { .. } | Rhs::Number(_) => {}
            }
            for (user, place) in places {
                // What it binds has names that no statement has.
                let own = p.rebind(&mut |_| {
                    self.bound += 1;
                    IndexId::from_index(self.bound)
                });
                let own = own.unwrap_or_else(|Overflow| p.clone());
                let also = |guard: &mut Pred| *guard = guard.clone().and(own.clone());
                match (place, &mut self.program.stmts[user].rhs) {
                    (Place::Guard, Rhs::Map { guard, .. } | Rhs::Contract { guard, .. }) => also(guard),
                    (Place::Sides(which), Rhs::Add(sides)) => {
                        sides.iter_mut().zip(which).filter(|(_, own)| *own).for_each(|((guard, _), _)| also(guard));
                    }
                    _ => {}
                }
            }
        }
        changed
    }

    /// Where a search goes in a reader; nothing if it cannot.
    fn place(&self, user: VarId, x: VarId, p: &Pred) -> Option<Place> {
        let stmt = &self.program.stmts[user];
        let implied = |guard: &Pred| is_implied(p, stmt, &self.with_what_is_asked(guard), 0);
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => None,
            Rhs::Add(sides) => Some(Place::Sides(
                [0, 1].map(|k: usize| sides.get(k).is_some_and(|(guard, y)| *y == x && !implied(guard))),
            )),
            Rhs::Map { guard, function, args } => {
                let keeps_zero =
                    matches!((function, args.as_slice()), (Function::Value(Primitive::Op(op)), [_]) if op.facts().zero);
                if implied(guard) { Some(Place::Nowhere) } else { keeps_zero.then_some(Place::Guard) }
            }
            Rhs::Contract { guard, sums, operands } => {
                let is_small = sums.is_empty() && stmt.dims.len() <= self.program.stmts[x].dims.len();
                let is_zero = |y: VarId| y == x || self.is_zero(y, p);
                if implied(guard) {
                    Some(Place::Nowhere)
                } else {
                    (is_small && operands.iter().all(|operand| is_zero(operand.var))).then_some(Place::Guard)
                }
            }
        }
    }

    /// Whether a factor makes 0 of 0 where a search fails: it is finite, has the guard, or is a sum over nothing.
    fn is_zero(&self, x: VarId, p: &Pred) -> bool {
        let stmt = &self.program.stmts[x];
        match &stmt.rhs {
            Rhs::Number(Number::Literal(x)) => x.is_finite(),
            Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } if has(guard, p) => true,
            Rhs::Add(sides) if sides.iter().all(|(guard, _)| has(guard, p)) => true,
            _ => are_empty(p, x, &|x| &self.program.stmts[x]),
        }
    }

    /// A guard, and the guards of the tensors whose elements it asks to be other than 0.
    fn with_what_is_asked(&self, guard: &Pred) -> Pred {
        let mut all: Vec<Pred> = guard.conjuncts().to_vec();
        for p in guard.conjuncts() {
            let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } = p
            else {
                continue;
            };
            if let Rhs::Map { guard, .. } | Rhs::Contract { guard, sums: _, operands: _ } =
                &self.program.stmts[*var].rhs
            {
                let rank = self.program.stmts[*var].dims.len();
                let own = guard.conjuncts().iter().filter(|p| {
                    let mut outside = true;
                    p.visit_free(&mut |i| outside &= i.index() < rank);
                    outside
                });
                all.extend(own.filter_map(|p| p.substitute(&|i| args.get(i.index()).cloned()).ok()));
            }
        }
        Pred::all(all)
    }

    /// Asks counts instead of searching; whether there are any.
    fn count(&mut self, x: VarId) -> bool {
        let searches: BTreeSet<Pred> = self.program.stmts[x].rhs.guards().flat_map(searches).cloned().collect();
        let mut changed = false;
        for p in searches {
            let before = self.program.stmts.iter().take_while(|(y, _)| *y < x);
            let found = before.filter(|(_, stmt)| self.counts(stmt, &p)).map(|(y, _)| y).next();
            let Some(count) = found else { continue };
            let relation = RelationRef::Computed { var: count, view: View::Support };
            let is_some = Pred::relation(relation, Vec::new());
            let instead = |guard: &mut Pred| {
                let all = guard.conjuncts().iter().map(|q| if *q == p { is_some.clone() } else { q.clone() });
                *guard = Pred::all(all.collect::<Vec<_>>());
            };
            match &mut self.program.stmts[x].rhs {
                Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => instead(guard),
                Rhs::Add(sides) => sides.iter_mut().for_each(|(guard, _)| instead(guard)),
                Rhs::Input { .. } | Rhs::Number(_) => {}
            }
            changed = true;
        }
        changed
    }

    /// Whether a number is the sum of a positive literal over the places for which a search looks.
    fn counts(&self, stmt: &Stmt, p: &Pred) -> bool {
        let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return false };
        let is_positive = |y: VarId| matches!(self.program.stmts[y].rhs, Rhs::Number(Number::Literal(x)) if x > 0.0);
        if !stmt.dims.is_empty() || sums.is_empty() || !operands.iter().all(|operand| is_positive(operand.var)) {
            return false;
        }
        let guard: BTreeSet<Pred> = guard.alpha_normal().conjuncts().iter().cloned().collect();
        let mut open = vec![(p.clone(), BTreeSet::new())];
        while let Some((p, used)) = open.pop() {
            work::charge(1);
            if let Pred::Exists { index, extent, body } = &p
                && used.len() < sums.len()
            {
                if sums.len() > MAX_NESTED {
                    return false;
                }
                let alike = sums.iter().enumerate().filter(|(_, n)| *n == extent).map(|(k, _)| k);
                for k in alike.filter(|k| !used.contains(k)) {
                    let summed = Affine::index(IndexId::from_index(k));
                    if let Ok(body) = body.substitute(&|i| (i == *index).then(|| summed.clone())) {
                        open.push((body, used.iter().copied().chain([k]).collect()));
                    }
                }
            } else if used.len() == sums.len() {
                let own: BTreeSet<Pred> = p.alpha_normal().conjuncts().iter().cloned().collect();
                if own == guard {
                    return true;
                }
            }
        }
        false
    }
}

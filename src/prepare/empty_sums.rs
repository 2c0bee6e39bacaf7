//! A sum over nothing is 0 without being told.
//!
//! ```text
//! [exists s. R(s, i)] * x[i] + e   ==   x[i] + e        where   x = gen i. sum s. [R(s, i) and q] * f
//! [exists s. R(s, i)] * x[i] * c   ==   x[i] * c        where   c is a literal
//! ```
//!
//! The same of a number that is read at elements alone:
//!
//! ```text
//! gen i < n. x[i] * c   ==   gen i < n. x[i] * d        where   c = [0 < n] * d
//! ```
//!
//! Derivatives come with such guards, and where the numbers that they leave out are few they save additions by the count. A loop over the entries
//! of a row takes as long to find that there are none as the sum does, and has to find it for each element of the row.
//!
//! **Why it is right.** Where the guard fails the sum is over nothing, which is 0. What is left is a sum with 0 in place of one with nothing, or a product
//! of 0 and a finite number, which is -0 where that is negative. An axis with an element is not empty, so where the guard of a number fails nobody reads it.

use std::borrow::Cow;
use std::cell::{Cell, LazyCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Id, IndexId, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Pred, Size};
use crate::tssa::{Builder, Program, Rhs, Stmt};

/// How many sums are added up at most.
const MAX_TERMS: usize = 16;
/// For how many indices in all it is tried which index of a sum is one of which something exists.
const MAX_TRIES: usize = 64;

/// The program without such guards.
pub(super) fn unguarded(program: &Program) -> Result<Cow<'_, Program>> {
    let says_nothing = |stmt: &Stmt| match &stmt.rhs {
        Rhs::Add(sides) => {
            sides.iter().any(|(p, x)| p.conjuncts().iter().any(|p| are_empty(p, *x, &|x| &program.stmts[x])))
        }
        Rhs::Contract { guard, .. } => guard.conjuncts().iter().any(|p| is_zero(p, stmt, &|x| &program.stmts[x])),
        _ => false,
    };
    let read = read_at_elements(program);
    if read.is_empty() && !program.stmts.values().any(says_nothing) {
        return Ok(Cow::Borrowed(program));
    }
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let mut unguarded = stmt.clone();
        match &mut unguarded.rhs {
            _ if !read.contains(&x) => {}
            Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => *guard = Pred::True,
            Rhs::Add([(p, _), (q, _)]) => (*p, *q) = (Pred::True, Pred::True),
            Rhs::Input { .. } | Rhs::Number(_) => {}
        }
        match &mut unguarded.rhs {
            Rhs::Add(sides) => {
                for (p, x) in sides {
                    *p = without(p, &|p| are_empty(p, *x, &|x| builder.stmt(x)));
                }
            }
            Rhs::Contract { guard, .. } => *guard = without(guard, &|p| is_zero(p, stmt, &|x| builder.stmt(x))),
            _ => {}
        }
        builder.push(&unguarded)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// The numbers, made of others without a loop, whose guards say of sizes what holds wherever they are read.
fn read_at_elements(program: &Program) -> BTreeSet<VarId> {
    let is_of_sizes = |p: &Pred| matches!(p, Pred::NonNegative(a) if a.is_size());
    let guard_of = |stmt: &Stmt| match &stmt.rhs {
        Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => Some(guard.clone()),
        _ => None,
    };
    let guarded = |stmt: &Stmt| {
        let guard = match &stmt.rhs {
            Rhs::Add([(p, _), (q, _)]) => Some(p.clone().and(q.clone())),
            _ => guard_of(stmt),
        };
        let guard = guard.filter(|guard| !guard.is_true())?;
        let is_number = stmt.dims.is_empty() && stmt.rhs.sums().is_empty();
        (is_number && guard.conjuncts().iter().all(is_of_sizes)).then_some(guard)
    };
    let mut found: BTreeMap<VarId, Pred> =
        program.stmts.iter().filter_map(|(x, stmt)| Some((x, guarded(stmt)?))).collect();
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| drop(found.remove(x)));
    for stmt in program.stmts.values() {
        if found.is_empty() {
            break;
        }
        stmt.rhs.guards().for_each(|p| p.visit_computed(&mut |x| drop(found.remove(&x))));
        let mut read: Vec<(VarId, Pred)> = Vec::new();
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add(sides) => read.extend(sides.iter().map(|(p, x)| (*x, p.clone()))),
            rhs => rhs.for_each_operand(|x| read.push((x, guard_of(stmt).unwrap_or(Pred::True)))),
        }
        for (x, guard) in read {
            let Some(asked) = found.get(&x) else { continue };
            if !stmt.facts(&guard).proves(asked) {
                found.remove(&x);
            }
        }
    }
    found.into_keys().collect()
}

/// A guard without some of its conjuncts.
pub(super) fn without(guard: &Pred, goes: &dyn Fn(&Pred) -> bool) -> Pred {
    Pred::all(guard.conjuncts().iter().filter(|p| !goes(p)).cloned().collect::<Vec<_>>())
}

/// Whether what a statement multiplies is zero where a predicate over its axes fails.
fn is_zero<'a>(p: &Pred, stmt: &Stmt, of: &dyn Fn(VarId) -> &'a Stmt) -> bool {
    matches!(p, Pred::Exists { .. } | Pred::Any(_))
        && inside(p, stmt, of).is_some_and(|(p, factor)| are_empty(&p, factor, of))
}

/// The [only factor](Rhs::only_factor) of a product, or of the terms of a sum, and a predicate of the product over its axes.
fn inside<'a>(p: &Pred, product: &Stmt, of: &dyn Fn(VarId) -> &'a Stmt) -> Option<(Pred, VarId)> {
    let factor = product.rhs.only_factor(of)?;
    let axis = |i: IndexId| factor.indices.iter().position(|j| *j == i).map(IndexId::from_index);
    let mut known = true;
    p.visit_free(&mut |i| known &= axis(i).is_some());
    known.then(|| p.substitute(&|i| axis(i).map(Affine::index)).ok().map(|p| (p, factor.var)))?
}

/// Whether a predicate over the axes of a tensor, or one of several, says that an element is no sum over nothing, or none of such sums that are added
/// up: where the predicate fails all of them are.
pub(super) fn are_empty<'a>(p: &Pred, x: VarId, of: &dyn Fn(VarId) -> &'a Stmt) -> bool {
    let mut left = vec![(p.clone(), x)];
    for _ in 0..MAX_TERMS {
        let Some((p, x)) = left.pop() else { return true };
        work::charge(1);
        let stmt = of(x);
        match &stmt.rhs {
            _ if any_of(&p).iter().any(|p| is_empty_sum(p, stmt)) => {}
            Rhs::Add(sides) => {
                let fails = |q: &Pred| any_of(q).iter().all(|q| any_of(&p).contains(q));
                let others = sides.iter().filter(|(q, _)| !q.conjuncts().iter().any(fails));
                left.extend(others.map(|(_, y)| (p.clone(), *y)));
            }
            // The same elements, or multiples, some of them left out, perhaps with their axes in another order, or sums of these.
            Rhs::Contract { .. } => match inside(&p, stmt, of) {
                Some(factor) => left.push(factor),
                None => return false,
            },
            _ => return false,
        }
    }
    false
}

/// The predicates of which one has to hold.
fn any_of(p: &Pred) -> &[Pred] {
    match p {
        Pred::Any(ps) => ps,
        p => std::slice::from_ref(p),
    }
}

/// Whether a predicate over the axes of a sum says that it is not over nothing: wherever there is a term, it holds, and each `exists` in it of an index of
/// the sum.
fn is_empty_sum(p: &Pred, stmt: &Stmt) -> bool {
    let Rhs::Contract { sums, guard, .. } = &stmt.rhs else { return false };
    if !p.conjuncts().iter().any(|p| matches!(p, Pred::Exists { .. })) {
        return false;
    }
    !sums.is_empty() && is_implied(p, stmt, guard, stmt.dims.len())
}

/// Whether a guard of a statement implies a predicate, with indices of the statement from some number on for those of which something exists.
pub(super) fn is_implied(p: &Pred, stmt: &Stmt, guard: &Pred, from: usize) -> bool {
    // What `exists` binds has names that no other index has, inside of each other too.
    let (p, guard) = (p.alpha_normal(), guard.alpha_normal());
    let term = LazyCell::new(|| stmt.facts(&guard));
    let holds = |p: &Pred| {
        let p = p.alpha_normal();
        guard.conjuncts().contains(&p) || term.proves(&p)
    };
    let ranges: Vec<(usize, &Size)> = stmt.dims.iter().chain(stmt.rhs.sums()).enumerate().skip(from).collect();
    let tries = Cell::new(MAX_TRIES);
    p.conjuncts().iter().all(|p| guard.conjuncts().contains(p) || holds_with(p, &ranges, &holds, &tries))
}

/// Whether a predicate holds, with some indices for those of which something exists, which may be inside of each other.
fn holds_with(p: &Pred, ranges: &[(usize, &Size)], holds: &dyn Fn(&Pred) -> bool, tries: &Cell<usize>) -> bool {
    let Pred::Exists { index, extent, body } = p else { return holds(p) };
    let Some(left) = tries.get().checked_sub(1) else { return false };
    tries.set(left);
    work::charge(1 + ranges.len());
    ranges.iter().filter(|(_, n)| *n == extent).any(|(k, _)| {
        let known = Affine::index(IndexId::from_index(*k));
        let body = body.substitute(&|i| (i == *index).then(|| known.clone()));
        body.is_ok_and(|body| body.conjuncts().iter().all(|p| holds_with(p, ranges, holds, tries)))
    })
}

//! A sum over nothing is 0 without being told.
//!
//! ```text
//! [exists s. R(s, i)] * x[i] + e   ==   x[i] + e        where   x = gen i. sum s. [R(s, i) and q] * f
//! ```
//!
//! Derivatives come with such guards, and where the numbers that they leave out are few they save additions by the count. A loop over the entries
//! of a row takes as long to find that there are none as the sum does, and has to find it for each element of the row.
//!
//! **Why it is right.** Where the guard fails the sum is over nothing, which is 0. What is left is a sum with 0 in place of one with nothing.

use std::borrow::Cow;

use crate::base::{Id, IndexId};
use crate::error::Result;
use crate::index::{Affine, Pred};
use crate::tssa::{Builder, Program, Rhs, Stmt};

/// The program without such guards.
pub(super) fn unguarded(program: &Program) -> Result<Cow<'_, Program>> {
    let says_nothing = |stmt: &Stmt| match &stmt.rhs {
        Rhs::Add(sides) => sides.iter().any(|(p, x)| p.conjuncts().iter().any(|p| is_empty_sum(p, &program.stmts[*x]))),
        _ => false,
    };
    if !program.stmts.values().any(says_nothing) {
        return Ok(Cow::Borrowed(program));
    }
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, stmt| {
        let mut stmt = stmt.clone();
        if let Rhs::Add(sides) = &mut stmt.rhs {
            for (p, x) in sides {
                let sum = builder.stmt(*x);
                let kept = p.conjuncts().iter().filter(|p| !is_empty_sum(p, sum)).cloned();
                *p = Pred::all(kept.collect::<Vec<_>>());
            }
        }
        builder.push(&stmt)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// Whether a predicate over the axes of a tensor says that its sum is not over nothing.
fn is_empty_sum(p: &Pred, stmt: &Stmt) -> bool {
    let (Pred::Exists { index, extent, body }, Rhs::Contract { sums, guard, .. }) = (p, &stmt.rhs) else {
        return false;
    };
    sums.iter().enumerate().any(|(k, n)| {
        let summed = Affine::index(IndexId::from_index(stmt.dims.len() + k));
        let body = body.substitute(&|i| (i == *index).then(|| summed.clone()));
        n == extent && body.is_ok_and(|body| body.conjuncts().iter().all(|p| guard.conjuncts().contains(p)))
    })
}

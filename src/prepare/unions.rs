//! A sum over a union of places is one sum for each of them.
//!
//! ```text
//! sum s. [p or q] * f * z[s]   ==   (sum s. [p] * f * a[s]) + (sum s. [q] * f * b[s])   where   z = gen s. [p] * a + [q] * b
//! ```
//!
//! A tensor of which elements are looked up in two ways, `(sum i. min j. d[i, j]) + (sum j. min i. d[i, j])`, has an adjoint that is zero but at the
//! places that either of them finds, and what is multiplied by it is summed there. Each of `p` and `q` alone gives an index its value, by the place
//! of an extremum, a map or an equation, so that its sum is a reading, or one addition for each source. Both together give none, and all would be
//! asked. Where the sum has another guard, as a relation in which both are, it stays in each of the parts.
//!
//! **Why it is right.** It is the distributive law; where `p` holds so does `p or q`. Sums are in another order.

use std::borrow::Cow;

use crate::base::{Id, IndexId, VarId};
use crate::error::Result;
use crate::index::{Affine, Checked, Pred, RelationRef};
use crate::tssa::{Builder, OpenStmt, Operand, Program, Rhs, Stmt};
use crate::ty::Signature;

/// How many tensors that are added up are looked at.
const MAX_TERMS: usize = 16;

/// The program with such sums.
pub(super) fn separated(program: &Program) -> Result<Cow<'_, Program>> {
    let signature = &program.signature;
    let is_union = |stmt: &Stmt| match &stmt.rhs {
        Rhs::Contract { sums, guard, operands } => {
            let adds = |x: &Operand| matches!(program.stmts[x.var].rhs, Rhs::Add(_));
            !sums.is_empty() && (unions(signature, guard).next().is_some() || operands.iter().any(adds))
        }
        _ => false,
    };
    if !program.stmts.values().any(is_union) {
        return Ok(Cow::Borrowed(program));
    }
    let mut builder = Builder::new(signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let parts = if is_union(&program.stmts[x]) { parts(signature, builder, stmt)? } else { Vec::new() };
        let mut total = None;
        for part in parts {
            let axes = builder.fresh_indices(&stmt.dims);
            total = Some(match total {
                Some(others) => builder.add(&axes, [(Pred::True, others), (Pred::True, part)])?,
                None => part,
            });
        }
        total.map_or_else(|| builder.push(stmt), Ok)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// The sums that a sum over a union is made of; none where nothing is added up in it.
fn parts(signature: &Signature, builder: &mut Builder, stmt: &Stmt) -> Result<Vec<VarId>> {
    let OpenStmt { gens, sums, rhs } = builder.open_stmt(stmt)?;
    let Rhs::Contract { guard, operands, .. } = rhs else { return Ok(Vec::new()) };
    let mut found = None;
    for (at, union) in unions(signature, &guard) {
        let union: Vec<Pred> = union.iter().map(Pred::alpha_normal).collect();
        let is_part = |p: &Pred| union.contains(&p.alpha_normal());
        for (k, operand) in operands.iter().enumerate() {
            if let Some(terms) = terms(builder, &guard, operand, &is_part)? {
                found = Some((Some(at), k, terms));
            }
        }
    }
    let in_guard = found.is_some();
    for (k, operand) in operands.iter().enumerate().filter(|_| !in_guard) {
        // The union is that of all that is added up. What a map tells is read, not searched.
        let is_searched = |p: &Pred| {
            let is_computed = matches!(p, Pred::Relation { relation: RelationRef::Computed { .. }, .. });
            is_computed && finds(signature, p)
        };
        found = found.or(terms(builder, &guard, operand, &is_searched)?.map(|terms| (None, k, terms)));
    }
    let Some((at, k, terms)) = found else { return Ok(Vec::new()) };
    let others = || guard.conjuncts().iter().enumerate().filter(|(k, _)| Some(*k) != at).map(|(_, p)| p.clone());
    let part = |(p, term)| {
        let guard = Pred::all(others().chain([p]).collect::<Vec<_>>());
        let mut factors = operands.clone();
        factors[k] = term;
        builder.contract(&gens, &sums, guard, factors)
    };
    terms.into_iter().map(part).collect()
}

/// Whether an atom gives an index its value by the place of an extremum or a map.
fn finds(signature: &Signature, p: &Pred) -> bool {
    match p {
        Pred::Relation { relation, holds, .. } => *holds && signature.gives_targets(*relation),
        _ => false,
    }
}

/// The conjuncts that are unions of places, and where they stand: each part gives an index its value, not all of them by equations.
fn unions<'p>(signature: &'p Signature, guard: &'p Pred) -> impl Iterator<Item = (usize, &'p [Pred])> {
    guard.conjuncts().iter().enumerate().filter_map(move |(at, p)| match p {
        Pred::Any(parts) => {
            let told = |p: &Pred| p.conjuncts().iter().any(|p| finds(signature, p) || matches!(p, Pred::Zero(_)));
            let found = |p: &Pred| p.conjuncts().iter().any(|p| finds(signature, p));
            (parts.iter().all(told) && parts.iter().any(found)).then_some((at, &**parts))
        }
        _ => None,
    })
}

/// What an operand adds up under the parts of a union, if there is nothing else in it.
fn terms(
    builder: &Builder,
    guard: &Pred,
    operand: &Operand,
    is_part: &dyn Fn(&Pred) -> bool,
) -> Result<Option<Vec<(Pred, Operand)>>> {
    let mut left = vec![(Pred::True, operand.clone())];
    let mut terms = Vec::new();
    for _ in 0..MAX_TERMS {
        let Some((p, x)) = left.pop() else { break };
        let is_part = p.conjuncts().iter().any(is_part);
        let stmt = builder.stmt(x.var);
        let at = |p: &Pred| -> Checked<Pred> { p.substitute(&|i| x.indices.get(i.index()).map(|j| Affine::index(*j))) };
        match &stmt.rhs {
            _ if is_part => terms.push((p, x)),
            Rhs::Add(sides) => {
                for (q, y) in sides {
                    left.push((p.clone().and(at(q)?), Operand { var: *y, indices: x.indices.clone() }));
                }
            }
            // A copy, perhaps with its axes in another order.
            Rhs::Contract { sums, guard: own, operands } if sums.is_empty() && operands.len() == 1 => {
                let own = at(own)?;
                if !own.conjuncts().iter().all(|p| guard.conjuncts().contains(p)) {
                    return Ok(None);
                }
                let inside = |i: &IndexId| x.indices.get(i.index()).copied();
                let indices = operands[0].indices.iter().filter_map(inside).collect();
                left.push((p, Operand { var: operands[0].var, indices }));
            }
            _ => return Ok(None),
        }
    }
    let is_sum = terms.iter().any(|(_, x): &(Pred, Operand)| x.var != operand.var);
    Ok((left.is_empty() && is_sum && terms.len() > 1).then_some(terms))
}

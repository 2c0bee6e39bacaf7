//! Sums of what is read through several maps are a sum for each of them.
//!
//! ```text
//! gen o, c. sum i. x[f(o), i] * A[i, c] + x[g(o), i] * B[i, c]
//!   ==   gen o, c. (sum i. x[f(o), i] * A[i, c]) + (sum i. x[g(o), i] * B[i, c])
//! gen v, i. sum o. [g(o) = v] * ((sum c. A[i, c] * t[o, c]) + (sum c. B[i, c] * u[o, c]))
//!   ==   gen v, i. (sum o. [g(o) = v] * sum c. A[i, c] * t[o, c]) + (sum o. [g(o) = v] * sum c. B[i, c] * u[o, c])
//! ```
//!
//! Messages along the edges of a graph are like the first, and what is owed to what they are made of is like the second. As one sum they take products for each edge; each
//! of the terms is a product for each node, as [`per_target`](super::per_target) and [`group_sums`](super::group_sums) find then.
//!
//! **Why it is right.** It is the distributive law; terms are added in another order.
//!
//! **Where it is done.** Nobody else reads the terms together. They are read through different maps, of which the sources stay; or the sources of a map are summed
//! up, and each term is a sum of products. The additions are as many as before.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Scope;
use super::exchange_sums::readers;
use super::needs::has_maps;
use crate::base::{Id, IndexId, RelationId, VarId};
use crate::error::Result;
use crate::index::{Pred, Size};
use crate::solver::Relations;
use crate::tssa::patterns::Pattern;
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};
use crate::ty::Signature;

/// How many sums are inside of each other.
const MAX_DEPTH: usize = 8;

/// The program in which such sums are several.
pub(super) fn distributed(program: &Program) -> Result<Cow<'_, Program>> {
    let sums_terms = |stmt: &Stmt| match &stmt.rhs {
        Rhs::Contract { sums, operands, .. } => {
            let is_sum = |x: &Operand| matches!(program.stmts[x.var].rhs, Rhs::Add(_));
            !sums.is_empty() && matches!(operands.as_slice(), [x] if is_sum(x))
        }
        _ => false,
    };
    if !has_maps(program) || !program.stmts.values().any(sums_terms) {
        return Ok(Cow::Borrowed(program));
    }
    let readers = readers(program);
    let mut found = false;
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        if !sums_terms(&program.stmts[x]) {
            return builder.push(stmt);
        }
        let mut alone = true;
        program.stmts[x].rhs.for_each_operand(|y| alone &= readers[y] == 1);
        let open = builder.open_stmt(stmt)?;
        let Rhs::Contract { guard, operands, .. } = open.rhs else { return builder.push(stmt) };
        match operands.into_iter().next() {
            Some(terms) if alone => {
                let sum = Sum { gens: open.gens, sums: open.sums };
                sum.of(builder, guard, terms, MAX_DEPTH, &mut found)
            }
            _ => builder.push(stmt),
        }
    })?;
    Ok(if found { Cow::Owned(builder.finish(outputs).prune()?) } else { Cow::Borrowed(program) })
}

/// A sum over some indices.
struct Sum {
    gens: Scope,
    sums: Scope,
}

impl Sum {
    /// The sum of what is read under a guard: one for each term, where that is worth it.
    fn of(&self, builder: &mut Builder, guard: Pred, terms: Operand, depth: usize, found: &mut bool) -> Result<VarId> {
        let sides = match &builder.stmt(terms.var).rhs {
            Rhs::Add(sides) if depth > 0 && self.is_apart(builder, &guard, &terms, sides) => sides.clone(),
            _ => return builder.contract(&self.gens, &self.sums, guard, vec![terms]),
        };
        *found = true;
        let axis = |i: IndexId| terms.indices.get(i.index()).copied();
        let mut of_side = |builder: &mut Builder, (p, var): (Pred, VarId)| {
            let own = builder.freshen(&p, &axis)?;
            let term = Operand { var, indices: terms.indices.clone() };
            self.of(builder, guard.clone().and(own), term, depth - 1, found)
        };
        let [a, b] = sides;
        let (a, b) = (of_side(builder, a)?, of_side(builder, b)?);
        builder.add(&self.gens, [(Pred::True, a), (Pred::True, b)])
    }

    /// Whether the sides of a sum had better be summed up one by one.
    fn is_apart(&self, builder: &Builder, guard: &Pred, terms: &Operand, sides: &[(Pred, VarId); 2]) -> bool {
        let signature = builder.signature();
        let is_summed = |i: &IndexId| self.sums.iter().any(|(s, _)| s == i);
        let [a, b] = sides.each_ref().map(|(_, x)| maps(builder, signature, *x, MAX_DEPTH));
        let stays = |(_, axes): &(RelationId, Vec<usize>)| {
            axes.iter().all(|k| terms.indices.get(*k).is_some_and(|i| !is_summed(i)))
        };
        if a != b && a.union(&b).all(stays) {
            return true;
        }
        let sums_sources = guard.conjuncts().iter().any(|p| match p {
            Pred::Relation { relation, args, holds: true } if signature.is_map(*relation) => {
                let sources = args.split_last().map_or(&[][..], |(_, sources)| sources);
                sources.iter().all(|a| a.as_index().is_some_and(|i| is_summed(&i) && terms.indices.contains(&i)))
            }
            _ => false,
        });
        sums_sources && sides.iter().all(|(_, x)| is_sum_of_products(builder, *x, MAX_DEPTH))
    }
}

/// The maps through which a tensor, or each term of it, is read, and the axes that are their sources.
fn maps(builder: &Builder, signature: &Signature, x: VarId, depth: usize) -> BTreeSet<(RelationId, Vec<usize>)> {
    let stmt = builder.stmt(x);
    match &stmt.rhs {
        Rhs::Add([(_, a), (_, b)]) if depth > 0 => {
            let mut all = maps(builder, signature, *a, depth - 1);
            all.append(&mut maps(builder, signature, *b, depth - 1));
            all
        }
        Rhs::Contract { sums, guard, .. } => {
            let extent = |i: IndexId| -> Option<&Size> { stmt.dims.iter().chain(sums).nth(i.index()) };
            let of_map = |p: &Pred| {
                let Pattern { relation, mut axes } = Pattern::of_map(signature, p, extent)?;
                let target = axes.pop()?;
                (target >= stmt.dims.len()).then_some((relation, axes))
            };
            guard.conjuncts().iter().filter_map(of_map).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Whether a tensor, or each term of it, is a sum of products.
fn is_sum_of_products(builder: &Builder, x: VarId, depth: usize) -> bool {
    match &builder.stmt(x).rhs {
        Rhs::Add([(_, a), (_, b)]) if depth > 0 => {
            is_sum_of_products(builder, *a, depth - 1) && is_sum_of_products(builder, *b, depth - 1)
        }
        Rhs::Contract { sums, operands, .. } => !sums.is_empty() && operands.len() == 2,
        _ => false,
    }
}

//! What is asked of the target of a map is asked once for each target.
//!
//! ```text
//! gen I. sum o. [(exists c. m(o, c) and q) and p] * A * B[o, s]
//!   ==   let y = gen c, s. sum o. [m(o, c)] * B[o, s] in gen I. sum c. [q and p] * A * y[c, s]
//! gen o, J. sum K. [(exists c. m(o, c) and q) and p] * A * B[K, s]
//!   ==   let y = gen c, s. sum K. [q] * B[K, s] in gen o, J. sum c. [m(o, c) and p] * A * y[c, s]
//! ```
//!
//! where `q` bounds `c` by other indices that are no sources, as `c >= i` does. So a sum over all that comes no sooner, `sum o. [time(o) >= i] * x[o]`, adds up what
//! comes at each time, and then these from the last one on, which is a running sum; and what is owed to `x[o]` is what is owed to all sums up to its time, which is
//! known for each time.
//!
//! **Why it is right.** A map has one target for each source, so one `c` makes the guard true, if any does. Where terms are added up by target first, they are in
//! another order.
//!
//! **It is not more work** than what was asked of each source, for as many targets as another index has values, over which the statement went before: so `B` has
//! not all that bounds `c`.

use std::borrow::Cow;

use super::Scope;
use super::needs::has_maps;
use crate::base::{Id, IndexId, RelationId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::scalar::Number;
use crate::tssa::patterns::Pattern;
use crate::tssa::{Builder, OpenStmt, Operand, Program, Rhs, Stmt};
use crate::ty::Signature;

/// The program in which targets are asked so.
pub(super) fn by_target(program: &Program) -> Result<Cow<'_, Program>> {
    let asks = |stmt: &Stmt| match &stmt.rhs {
        Rhs::Contract { sums, guard, .. } => {
            !sums.is_empty() && guard.conjuncts().len() + usize::from(guard.binds()) > 1
        }
        _ => false,
    };
    if !has_maps(program) || !program.stmts.values().any(asks) {
        return Ok(Cow::Borrowed(program));
    }
    let mut found = false;
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, _, stmt| {
        if !asks(stmt) {
            return builder.push(stmt);
        }
        let mut open = builder.open_stmt(stmt)?;
        while let Some(target) = Target::of(builder.signature(), &open) {
            found = true;
            open = target.apart(builder, open)?;
        }
        builder.close(open)
    })?;
    Ok(if found { Cow::Owned(builder.finish(outputs).prune()?) } else { Cow::Borrowed(program) })
}

/// A target that a conjunct asks about.
struct Target {
    /// `c` with its range.
    index: (IndexId, Size),
    map: RelationId,
    sources: Vec<IndexId>,
    /// `q`, and `p`
    asked: Vec<Pred>,
    rest: Vec<Pred>,
    /// The indices of the sum over which nothing but `y` goes: `o`, or `K`.
    summed: Vec<IndexId>,
    /// Whether these are sources.
    sums_sources: bool,
}

/// What is asked of a target, and what else.
struct Asked {
    map: RelationId,
    sources: Vec<IndexId>,
    index: (IndexId, Size),
    asked: Vec<Pred>,
    rest: Vec<Pred>,
}

/// A map at plain indices, its sources and its target.
fn of_map(
    signature: &Signature,
    open: &OpenStmt,
    p: &Pred,
    bound: Option<&(IndexId, Size)>,
) -> Option<(RelationId, Vec<IndexId>, (IndexId, Size))> {
    let range = |i: IndexId| {
        let mut all = open.gens.iter().chain(&open.sums).chain(bound);
        all.find(|(j, _)| *j == i).map(|(_, n)| n)
    };
    let Pattern { relation, axes } = Pattern::of_map(signature, p, range)?;
    let (target, sources) = axes.split_last()?;
    let target = IndexId::from_index(*target);
    Some((relation, sources.iter().map(|i| IndexId::from_index(*i)).collect(), (target, range(target)?.clone())))
}

impl Target {
    /// The first of one; those that are indices of a sum already come before others, which may then be asked of fewer.
    fn of(signature: &Signature, open: &OpenStmt) -> Option<Target> {
        let Rhs::Contract { guard, operands, .. } = &open.rhs else { return None };
        let conjuncts = guard.conjuncts();
        let is_summed = |i: IndexId| open.sums.iter().any(|(j, _)| i == *j);
        let named = conjuncts.iter().filter_map(|p| {
            let (map, sources, index) = of_map(signature, open, p, None)?;
            let is_read = operands.iter().any(|x| x.indices.contains(&index.0));
            let (asked, rest) = conjuncts.iter().filter(|q| *q != p).cloned().partition(|q| q.mentions(index.0));
            let is_own = is_summed(index.0) && !is_read && sources.iter().all(|i| is_summed(*i));
            is_own.then_some(Asked { map, sources, index, asked, rest })
        });
        let bound = conjuncts.iter().filter_map(|p| {
            let Pred::Exists { index, extent, body } = p else { return None };
            let bound = (*index, extent.clone());
            let find = |q: &Pred| Some((q.clone(), of_map(signature, open, q, Some(&bound))?));
            let (atom, (map, sources, index)) =
                body.conjuncts().iter().find_map(|q| find(q).filter(|(_, (.., found))| *found == bound))?;
            let asked: Vec<Pred> = body.conjuncts().iter().filter(|q| **q != atom).cloned().collect();
            let bounds = |p: &Pred| match p {
                Pred::NonNegative(a) | Pred::Zero(a) => {
                    a.split(index.0).is_some_and(|(k, rest)| k.abs() == 1 && rest.has_indices())
                }
                _ => false,
            };
            let rest = conjuncts.iter().filter(|q| *q != p).cloned().collect();
            asked.iter().all(bounds).then_some(Asked { map, sources, index, asked, rest })
        });
        named.chain(bound).find_map(|asked| Target::by(open, operands, asked))
    }

    fn by(open: &OpenStmt, operands: &[Operand], asked: Asked) -> Option<Target> {
        let Asked { map, sources, index, asked, rest } = asked;
        let all = || open.gens.iter().chain(&open.sums);
        let is_in = |scope: &Scope| sources.iter().all(|i| scope.iter().any(|(j, _)| i == j));
        let is_free = |indices: &[IndexId], ps: &[Pred]| !indices.iter().any(|i| ps.iter().any(|p| p.mentions(*i)));
        let others: Vec<IndexId> = open.sums.iter().map(|(i, _)| *i).filter(|i| *i != index.0).collect();
        let sums_sources = is_in(&open.sums);
        let summed = if sums_sources { sources.clone() } else { others };
        let (of_summed, rest): (Vec<Pred>, Vec<Pred>) =
            rest.into_iter().partition(|p| summed.iter().any(|i| p.mentions(*i)));
        let reads_both = |x: &Operand| [&sources, &summed].iter().all(|all| all.iter().any(|i| x.indices.contains(i)));
        let is_apart = match sums_sources {
            true => of_summed.is_empty(),
            false => is_in(&open.gens) && is_free(&sources, &of_summed) && !operands.iter().any(reads_both),
        };
        let is_known = all().any(|(i, n)| *n == index.1 && !sources.contains(i));
        // Another index that is asked about goes over as many values again, unless what is added up by target has it too.
        let is_added = |i: &IndexId| {
            operands.iter().any(|x| x.indices.contains(i) && summed.iter().any(|k| x.indices.contains(k)))
        };
        let others = |i: &IndexId| *i != index.0 && !sources.contains(i) && !(sums_sources && is_added(i));
        let is_asked =
            all().any(|(i, _)| others(i) && asked.iter().any(|p| p.mentions(*i))) && is_free(&sources, &asked);
        (is_known && is_asked && is_apart).then(|| {
            let asked = asked.into_iter().chain(of_summed).collect();
            Target { index, map, sources, asked, rest, summed, sums_sources }
        })
    }

    /// The statement over `y`.
    fn apart(self, builder: &mut Builder, open: OpenStmt) -> Result<OpenStmt> {
        let OpenStmt { gens, sums, rhs } = open;
        let Rhs::Contract { operands, .. } = rhs else { return Ok(OpenStmt { gens, sums, rhs }) };
        let Target { index, map, sources, asked, rest, summed, sums_sources } = self;
        let args = sources.iter().chain([&index.0]).map(|i| Affine::index(*i)).collect();
        let atom = Pred::relation(RelationRef::Input(map), args);
        let (inner, outer) = if sums_sources { (vec![atom], asked) } else { (asked, vec![atom]) };
        let is_own = |x: &Operand| x.indices.iter().any(|i| summed.contains(i));
        let (mut own, mut others): (Vec<Operand>, Vec<Operand>) = operands.into_iter().partition(is_own);
        if own.is_empty() {
            own.push(Operand { var: builder.number(&[], Number::Literal(1.0))?, indices: Vec::new() });
        }
        let sums = sums.into_iter().filter(|(i, _)| *i != index.0);
        let (first, mut left): (Scope, Scope) = sums.partition(|(i, _)| summed.contains(i));
        let is_read = |i: IndexId| own.iter().any(|x| x.indices.contains(&i)) || inner.iter().any(|p| p.mentions(i));
        let kept = gens.iter().chain(&left).filter(|(i, _)| is_read(*i));
        let axes: Scope = [&index].into_iter().chain(kept).cloned().collect();
        let var = builder.contract(&axes, &first, Pred::all(inner), own)?;
        others.push(Operand { var, indices: axes.iter().map(|(i, _)| *i).collect() });
        left.push(index);
        let guard = Pred::all(rest.into_iter().chain(outer));
        let rhs = Rhs::Contract { sums: left.iter().map(|(_, n)| n.clone()).collect(), guard, operands: others };
        Ok(OpenStmt { gens, sums: left, rhs })
    }
}

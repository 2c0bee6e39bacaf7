//! What is left of predicates given others. Questions come again and again, so answers are kept.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::super::expr::rename_pred;
use super::{Graph, Scope, slots};
use crate::base::IndexId;
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::solver::{Facts, Relations, Shapes, simplify_union, target_range, target_ranges};

/// Larger guards are left as they are.
const MAX_WEIGHT: usize = 24;

/// What is left of predicates given others: a matter of the signature, not of an e-graph, since relations are but names.
#[derive(Default)]
pub(in crate::ir::simplify) struct Answers {
    /// Under canonical names.
    canonical: FxHashMap<(Vec<Size>, Pred, Pred), Pred>,
    /// Under the names that were asked for, with the ranges of those that occur: most questions come again.
    asked: FxHashMap<(Scope, Pred, Pred), Pred>,
}

impl Graph<'_> {
    /// What is left of `p` where `given` holds and the indices are in their ranges.
    pub(in crate::ir::simplify) fn given(&mut self, scope: &[(IndexId, Size)], given: &Pred, p: &Pred) -> Result<Pred> {
        let large_union = matches!(p, Pred::Any(_)) && given.is_true();
        if p.is_true() || p.is_false() || given.weight() > MAX_WEIGHT || p.weight() > MAX_WEIGHT && !large_union {
            return Ok(p.clone());
        }
        if p.conjuncts().iter().all(|q| given.conjuncts().contains(q)) {
            return Ok(Pred::True);
        }
        let mut occurring: Scope = Vec::new();
        let mut meet = |a: &Affine| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v
                    && !occurring.iter().any(|(j, _)| j == i)
                    && let Some(entry) = scope.iter().find(|(j, _)| j == i)
                {
                    occurring.push(entry.clone());
                }
            });
        };
        given.visit_affine(&mut meet);
        p.visit_affine(&mut meet);
        let question = (occurring, given.clone(), p.clone());
        if let Some(known) = self.answers.asked.get(&question) {
            return Ok(known.clone());
        }
        let left = self.remaining(&question)?;
        self.answers.asked.insert(question, left.clone());
        Ok(left)
    }

    /// What is left of a predicate given another, over indices with their ranges.
    fn remaining(&mut self, (scope, given, p): &(Scope, Pred, Pred)) -> Result<Pred> {
        let mut names: BTreeMap<IndexId, IndexId> =
            scope.iter().zip(0..).map(|((i, _), at)| (*i, IndexId(at))).collect();
        let mut depth = scope.len() as u32;
        let mut bind = |i: IndexId| {
            names.entry(i).or_insert_with(|| {
                depth += 1;
                IndexId(depth - 1)
            });
        };
        given.visit_binders(&mut bind);
        p.visit_binders(&mut bind);
        let mut all_known = true;
        for q in [given, p] {
            // Those that it binds are among the names.
            q.visit_affine(&mut |a| {
                a.visit(&mut |v| all_known &= !matches!(v, Var::Index(i) if !names.contains_key(i)));
            });
        }
        if !all_known {
            return Err(Error::bug("simplify", "a question about an index without a range"));
        }
        let ranges: Vec<Size> = scope.iter().map(|(_, n)| n.clone()).collect();
        let key = (ranges, rename_pred(given, &names)?, rename_pred(p, &names)?);
        let back: BTreeMap<IndexId, IndexId> = names.iter().map(|(from, to)| (*to, *from)).collect();
        if let Some(known) = self.answers.canonical.get(&key) {
            return Ok(rename_pred(known, &back)?);
        }
        let shape = |r: RelationRef| self.signature.shape(r).map(<[Size]>::to_vec).unwrap_or_default();
        // Where a predicate holds, its maps have targets.
        let targets = target_ranges(&key.1, &shape);
        let mut facts = self.assumed.under(&slots(&key.0), targets.iter().chain([&key.1]));
        let sources = sources_in_range(&key.2, &mut facts, &shape);
        let simplified = if has_union(&key.2) { simplify_union(&key.2, &facts) } else { facts.simplify(&key.2) };
        let simplified = sources.and(simplified);
        self.answers.canonical.insert(key, simplified.clone());
        Ok(rename_pred(&simplified, &back)?)
    }
}

/// What keeps the sources of the maps in range that a predicate applies, as far as the facts do not, and the facts with that, and with the targets of
/// these maps.
///
/// An atom is false where a map in it has no target. So what an atom needs may stand beside it, and that the target is in range is no reason for its
/// source to be. Inside of an `or` or `exists` nothing may be assumed but of maps whose sources are known to be in range.
fn sources_in_range(p: &Pred, facts: &mut Facts, shape: Shapes<'_>) -> Pred {
    let mut all = Pred::True;
    for conjunct in p.conjuncts() {
        let is_atom = !matches!(conjunct, Pred::All(_) | Pred::Any(_) | Pred::Exists { .. });
        let mut bound = Vec::new();
        conjunct.visit_binders(&mut |i| bound.push(i));
        // The maps in the source of a map come before it.
        conjunct.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                let Var::Apply(application) = v else { return };
                if application.args.iter().any(|a| bound.iter().any(|i| a.mentions(*i))) {
                    return;
                }
                let dims = shape(application.map);
                let ranges = application.args.iter().zip(&dims);
                // What overflows is not known.
                let ranges = ranges.map(|(a, n)| Pred::in_range(a, n)).collect::<std::result::Result<Vec<Pred>, _>>();
                let Ok(ranges) = ranges else { return };
                let source = facts.simplify(&Pred::all(ranges));
                if source.is_true() || is_atom {
                    facts.assume(&source);
                    target_range(v, shape).iter().for_each(|target| facts.assume(target));
                    all = std::mem::replace(&mut all, Pred::True).and(source);
                }
            });
        });
    }
    all
}

/// Whether there is an `or`, or an `exists` of more than an atom.
fn has_union(p: &Pred) -> bool {
    match p {
        Pred::All(ps) => ps.iter().any(has_union),
        Pred::Any(_) => true,
        Pred::Exists { body, .. } => body.nesting() > 0,
        _ => false,
    }
}

//! Sums with fewer indices: one that an equation or a map fixes is replaced by its value, and that the value is in range joins the guard.

use super::{Context, Presenter};
use crate::base::{IndexId, ParamId, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size};
use crate::solver::value_of;
use crate::tssa::Rhs;

/// A contraction under construction, over indices of the term.
pub(super) struct Contraction {
    pub(super) sums: Vec<(IndexId, Size)>,
    pub(super) guard: Pred,
    pub(super) operands: Vec<(VarId, Vec<Affine>)>,
}

/// The value of an index that a conjunct fixes, and what must hold for it.
struct Solution {
    index: IndexId,
    /// Which conjunct fixes it.
    atom: usize,
    value: Affine,
    condition: Pred,
    /// Whether the other conjuncts say the condition.
    known: bool,
}

impl Presenter<'_> {
    /// Replaces `sum` indices that the guard fixes.
    pub(super) fn solve(&mut self, mut contraction: Contraction, context: Context) -> Result<Contraction> {
        // That the sources of maps are in range, where this was known.
        let mut sources: Vec<Pred> = Vec::new();
        // That there are targets, since there is one.
        let mut targets: Vec<Pred> = Vec::new();
        while let Some(Solution { index, atom, value, condition, known }) = self.solution(&contraction, context)? {
            if let Some((_, extent)) = contraction.sums.iter().find(|(s, _)| *s == index && value.nesting() > 0) {
                targets.push(Pred::non_negative(extent.add_constant(-1)?));
            }
            let replace = |i: IndexId| (i == index).then(|| value.clone());
            let replaced = |p: &Pred| -> Result<Pred> { Ok(p.substitute(&replace)?) };
            sources = sources.iter().map(replaced).collect::<Result<_>>()?;
            let kept = contraction.guard.conjuncts().iter().enumerate().filter(|(at, _)| *at != atom);
            let kept = Pred::all(kept.map(|(_, p)| replaced(p)).collect::<Result<Vec<_>>>()?);
            contraction.guard = match known {
                true => {
                    sources.extend((value.nesting() > 0).then_some(condition));
                    kept
                }
                false => kept.and(condition),
            };
            contraction.sums.retain(|(s, _)| *s != index);
            for a in contraction.operands.iter_mut().flat_map(|(_, place)| place) {
                *a = a.substitute(&replace)?;
            }
        }
        // What said so may now mention the target: it has to be said without.
        for p in sources {
            let plain: Vec<Pred> =
                contraction.guard.conjuncts().iter().filter(|p| !p.applies_maps()).cloned().collect();
            if !self.proves(&p, &plain, context) {
                contraction.guard = contraction.guard.and(p);
            }
        }
        for p in targets {
            if self.reads_need(&contraction, &p, context) {
                contraction.guard = contraction.guard.and(p);
            }
        }
        contraction.guard = self.simplify(&contraction.guard, context);
        Ok(contraction)
    }

    /// Whether an operand is known to be read within its axes by a predicate alone, but for what maps say.
    fn reads_need(&self, contraction: &Contraction, p: &Pred, context: Context) -> bool {
        let plain = contraction.guard.conjuncts().iter().filter(|p| !p.applies_maps()).cloned().collect::<Vec<_>>();
        let with: Vec<Pred> = plain.iter().chain([p]).cloned().collect();
        contraction.operands.iter().any(|(x, place)| {
            place.iter().zip(&self.source.stmts[*x].dims).filter(|(a, _)| a.nesting() == 0).any(|(a, n)| {
                Pred::in_range(a, n)
                    .is_ok_and(|range| !self.proves(&range, &plain, context) && self.proves(&range, &with, context))
            })
        })
    }

    /// The best index to replace: one whose value is known to be in range, else that of the operand which is least known to the reader, so
    /// that a sum runs over the places of a parameter rather than over those of what is computed from it.
    fn solution(&self, contraction: &Contraction, context: Context) -> Result<Option<Solution>> {
        let Contraction { sums, guard, operands } = contraction;
        let mut best: Option<(Option<_>, Solution)> = None;
        for (atom, p) in guard.conjuncts().iter().enumerate() {
            for (index, extent) in sums {
                let Some((value, condition)) = self.fixed(p, *index, extent)? else { continue };
                let others: Vec<Pred> =
                    guard.conjuncts().iter().filter(|q| *q != p && !q.mentions(*index)).cloned().collect();
                let known = self.proves(&condition, &others, context);
                let solution = Solution { index: *index, atom, value, condition, known };
                if known {
                    return Ok(Some(solution));
                }
                let rank = operands.iter().filter(|(_, place)| place.iter().any(|a| a.mentions(*index)));
                let rank = rank.map(|(x, _)| self.familiarity(*x)).min();
                if best.as_ref().is_none_or(|(other, _)| rank > *other) {
                    best = Some((rank, solution));
                }
            }
        }
        Ok(best.map(|(_, solution)| solution))
    }

    /// Parameters come first, in order, and then what is computed.
    fn familiarity(&self, x: VarId) -> (Option<VarId>, Option<ParamId>) {
        match &self.source.stmts[x].rhs {
            Rhs::Input { param, .. } => (None, Some(*param)),
            _ => (Some(x), None),
        }
    }

    /// The value that an atom fixes for an index, and when it has one.
    fn fixed(&self, p: &Pred, index: IndexId, extent: &Size) -> Result<Option<(Affine, Pred)>> {
        let Some(value) = value_of(index, p, &|map| self.is_map(map)) else { return Ok(None) };
        match p {
            Pred::Relation { relation, args, .. } => {
                let shape = self.shape(*relation);
                let (Some((_, source)), true) = (args.split_last(), shape.len() == args.len()) else { return Ok(None) };
                let ranges = source.iter().zip(&shape).map(|(a, n)| Pred::in_range(a, n));
                let mut condition = Pred::all(ranges.collect::<std::result::Result<Vec<_>, _>>()?);
                if shape.last() != Some(extent) {
                    condition = condition.and(Pred::in_range(&value, extent)?);
                }
                if let (RelationRef::Computed { .. }, Some(last)) = (relation, shape.last()) {
                    // Of an empty range there is no largest element, and a guard cannot keep the expression from having none.
                    let some = Pred::non_negative(last.add_constant(-1)?);
                    if !self.proves(&some, &[], Context::default()) {
                        return Ok(None);
                    }
                }
                Ok(Some((value, condition)))
            }
            _ => {
                let condition = Pred::in_range(&value, extent)?;
                Ok(Some((value, condition)))
            }
        }
    }
}

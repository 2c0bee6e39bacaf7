//! Which statements are variables: those with several uses, and those that would be computed more often where they are used.

use std::collections::BTreeSet;

use super::{Context, MAX_GUARDS, MAX_LOOPS, Presenter};
use crate::base::{Id, IndexId, ParamId, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Var, View};
use crate::scalar::Number;
use crate::tssa::{Program, Rhs};
use crate::ty::RelationKind;

/// What a statement is -1 times, without a guard.
pub(super) fn negation(source: &Program, x: VarId) -> Option<VarId> {
    let Rhs::Contract { sums, guard: Pred::True, operands } = &source.stmts[x].rhs else { return None };
    let [a, b] = operands.as_slice() else { return None };
    let minus = |y: VarId| matches!(source.stmts[y].rhs, Rhs::Number(Number::Literal(-1.0)));
    match (minus(a.var), minus(b.var)) {
        _ if !sums.is_empty() => None,
        (true, _) => Some(b.var),
        (_, true) => Some(a.var),
        _ => None,
    }
}

impl Presenter<'_> {
    /// The parameter that a statement is all of.
    pub(super) fn whole_param(&self, x: VarId) -> Option<ParamId> {
        match &self.source.stmts[x].rhs {
            Rhs::Input { param, path } if path.is_empty() => Some(*param),
            _ => None,
        }
    }

    /// Whether reads of a statement are written as those of a variable.
    pub(super) fn is_variable(&self, x: VarId) -> bool {
        self.shared[x.index()] && !self.plain[x.index()]
    }

    /// Whether a statement reads one element of a parameter or a variable, under a short guard at most.
    pub(super) fn is_view(&self, x: VarId) -> Result<bool> {
        let Rhs::Contract { sums, guard, operands } = &self.source.stmts[x].rhs else { return Ok(false) };
        let [operand] = operands.as_slice() else { return Ok(false) };
        let leaf = matches!(self.source.stmts[operand.var].rhs, Rhs::Input { .. } | Rhs::Number(_));
        if !(leaf || self.is_variable(operand.var)) || guard.weight() > sums.len() + 1 {
            return Ok(false);
        }
        // Each `sum` index is fixed by an equation of its own.
        let first = self.source.stmts[x].dims.len();
        let fixed = |s: usize| {
            let s = Var::Index(IndexId::from_index(s));
            guard.conjuncts().iter().any(|p| match p {
                Pred::Zero(a) => {
                    let others = a.terms().iter().filter(|(v, _)| *v != s);
                    let mut others = others.map(|(v, _)| v);
                    a.coefficient(&s).unsigned_abs() == 1
                        && others.all(|v| !matches!(v, Var::Index(i) if i.index() >= first))
                }
                _ => false,
            })
        };
        Ok((first..first + sums.len()).all(fixed))
    }

    /// What a read comes to through statements that are no variables and all elements of another one, with the axes in another order or
    /// repeated.
    pub(super) fn arranged(&self, x: VarId, place: &[Affine]) -> (VarId, Vec<Affine>) {
        let (mut x, mut place) = (x, place.to_vec());
        while let Rhs::Contract { sums, guard: Pred::True, operands } = &self.source.stmts[x].rhs
            && let ([], [operand]) = (sums.as_slice(), operands.as_slice())
            && !self.is_variable(x)
        {
            place = operand.indices.iter().filter_map(|i| place.get(i.index()).cloned()).collect();
            x = operand.var;
        }
        (x, place)
    }

    /// Makes a statement a variable that would be computed more often at a place.
    pub(super) fn share_costly(&mut self, x: VarId, place: &[Affine], context: Context) {
        let at = x.index();
        self.shared[at] = self.shared[at] || !self.plain[at] && !self.is_affordable(x, place, context);
    }

    /// Whether writing a statement here does not repeat its work: it has none, or every loop around is one of its axes, or makes a single
    /// round for them, by an equation or a map.
    fn is_affordable(&self, x: VarId, place: &[Affine], context: Context) -> bool {
        if let Rhs::Contract { sums, operands, .. } = &self.source.stmts[x].rhs
            && sums.is_empty()
            && operands.len() == 1
        {
            return true;
        }
        let mut open = BTreeSet::new();
        let mut at = context.loops;
        while let Some(here) = at.checked_sub(1) {
            let (index, around, _) = self.loops[here];
            open.insert(index);
            // More loops than a few are not looked at.
            if open.len() > MAX_LOOPS {
                return false;
            }
            at = around;
        }
        open.retain(|i| !place.iter().any(|a| a.as_index() == Some(*i)));
        let mut at = context.guards;
        for _ in 0..MAX_GUARDS {
            let Some(here) = at.checked_sub(1) else { break };
            let (guard, around) = &self.guards[here];
            guard.conjuncts().iter().for_each(|p| self.close(p, &mut open));
            at = *around;
        }
        open.is_empty()
    }

    /// Removes the index that a conjunct fixes by others than the open ones.
    fn close(&self, p: &Pred, open: &mut BTreeSet<IndexId>) {
        let mentioned = |a: &Affine| open.iter().copied().filter(|i| a.mentions(*i)).collect::<Vec<_>>();
        let fixed = match p {
            Pred::Zero(a) => match mentioned(a).as_slice() {
                [i] => Some(*i),
                _ => None,
            },
            Pred::Relation { relation, args, holds: true } if self.is_map(*relation) => match args.split_last() {
                Some((target, source)) if source.iter().all(|a| mentioned(a).is_empty()) => target.as_index(),
                _ => None,
            },
            _ => None,
        };
        open.retain(|i| fixed != Some(*i));
    }

    pub(super) fn is_map(&self, relation: RelationRef) -> bool {
        match relation {
            RelationRef::Input(r) => self.source.signature.relations[r].kind == RelationKind::Map,
            RelationRef::Computed { view, .. } => view != View::Support,
        }
    }
}

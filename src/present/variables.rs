//! Which statements are variables: those with several uses, and those that would be computed more often where they are used.

use super::{Context, MAX_GUARDS, MAX_LOOPS, Presenter};
use crate::base::{Id, IndexId, ParamId, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef};
use crate::scalar::Number;
use crate::solver::{are_determined, have_one_value};
use crate::tssa::{Program, Rhs, Stmt};

/// What a statement is -1 times, without a guard.
fn negation(source: &Program, x: VarId) -> Option<VarId> {
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

/// What a statement repeats along some axes: `gen i < n. s`.
fn repeated(source: &Program, x: VarId) -> Option<VarId> {
    let Stmt { dims, rhs: Rhs::Contract { sums, guard: Pred::True, operands } } = &source.stmts[x] else { return None };
    let ([], [operand]) = (sums.as_slice(), operands.as_slice()) else { return None };
    (0..dims.len()).any(|axis| !operand.indices.contains(&IndexId::from_index(axis))).then_some(operand.var)
}

/// What a statement stands for that is written wherever it is read: as a sign, or as what is the same along an axis.
pub(super) fn stands_for(source: &Program, x: VarId) -> Option<VarId> {
    negation(source, x).or_else(|| repeated(source, x))
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
        let first = self.source.stmts[x].dims.len();
        let sums: Vec<IndexId> = (first..first + sums.len()).map(IndexId::from_index).collect();
        Ok(are_determined(&sums, guard.conjuncts(), &|_| false))
    }

    /// What a read comes to through statements that are no variables and all elements of another one, with the axes in another order or
    /// repeated.
    pub(super) fn arranged(&self, x: VarId, place: &[Affine]) -> (VarId, Vec<Affine>) {
        let (mut x, mut place) = (x, place.to_vec());
        while let Rhs::Contract { sums, guard: Pred::True, operands } = &self.source.stmts[x].rhs
            && let ([], [operand]) = (sums.as_slice(), operands.as_slice())
            && !self.is_variable(x)
        {
            work::charge(1 + place.len());
            place = operand.indices.iter().filter_map(|i| place.get(i.index()).cloned()).collect();
            x = operand.var;
        }
        (x, place)
    }

    /// Makes a statement a variable that would be computed more often at a place.
    pub(super) fn share_costly(&mut self, x: VarId, place: &[Affine], context: Context) {
        let at = x.index();
        if !self.shared[at] && !self.plain[at] && !self.is_affordable(x, place, context) {
            self.shared[at] = true;
            self.late_variables += 1;
        }
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
        let mut open = Vec::new();
        let mut at = context.loops;
        while let Some(here) = at.checked_sub(1) {
            let (index, around, _) = self.loops[here];
            open.push(index);
            // More loops than a few are not looked at.
            if open.len() > MAX_LOOPS {
                return false;
            }
            at = around;
        }
        open.retain(|i| !place.iter().any(|a| a.as_index() == Some(*i)));
        let around = self.guards_around(context).flat_map(|guard| guard.conjuncts());
        open.is_empty() || have_one_value(&open, around, &|relation| self.is_map(relation))
    }

    /// The guards around a place, innermost first, of which a few are looked at.
    pub(super) fn guards_around(&self, context: Context) -> impl Iterator<Item = &Pred> {
        let next = |(_, around): &&(Pred, usize)| self.guards.get(around.checked_sub(1)?);
        let innermost = context.guards.checked_sub(1).and_then(|at| self.guards.get(at));
        std::iter::successors(innermost, next).map(|(guard, _)| guard).take(MAX_GUARDS)
    }

    pub(super) fn is_map(&self, relation: RelationRef) -> bool {
        self.source.signature.gives_targets(relation)
    }
}

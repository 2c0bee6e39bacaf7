//! Which statements depend on the chosen parameters, differentiably.

use std::collections::BTreeSet;

use crate::base::{ParamId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::scalar::{self, Function, Partial};
use crate::tssa::{Program, Rhs};
use crate::ty::Signature;

/// The statements whose tangent may differ from zero.
///
/// A statement is active if it is an input of a chosen parameter, or reads an active one other than as a relation or through a
/// function that is piecewise constant in it.
pub(crate) fn active(program: &Program, wrt: &[ParamId]) -> Result<SideTable<VarId, bool>> {
    let wrt: BTreeSet<ParamId> = wrt.iter().copied().collect();
    let mut active = SideTable::new(program.stmts.len(), false);
    for (x, stmt) in program.stmts.iter() {
        let is_active = match &stmt.rhs {
            Rhs::Input { param, .. } => wrt.contains(param),
            Rhs::Number(_) => false,
            Rhs::Add(sides) => sides.iter().any(|(_, x)| active[*x]),
            Rhs::Map { function, args, .. } => {
                let mut found = false;
                for (at, _) in (0..).zip(args).filter(|(_, arg)| active[**arg]) {
                    found |= partial(*function, at, &program.signature)? != Partial::Zero;
                }
                found
            }
            Rhs::Contract { operands, .. } => operands.iter().any(|x| active[x.var]),
        };
        active.set(x, is_active);
    }
    Ok(active)
}

/// The active statements that are made of parameters by sums and by products with literals alone: nothing that may be infinite is ever multiplied by what
/// becomes of their adjoint.
pub(crate) fn linear(program: &Program, active: &SideTable<VarId, bool>) -> SideTable<VarId, bool> {
    let mut linear = SideTable::new(program.stmts.len(), false);
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| active[*x]) {
        let is_literal = |x: VarId| program.stmts[x].rhs.is_finite_literal();
        let is_linear = match &stmt.rhs {
            Rhs::Input { .. } => true,
            Rhs::Number(_) | Rhs::Map { .. } => false,
            Rhs::Add(sides) => sides.iter().all(|(_, x)| !active[*x] || linear[*x]),
            Rhs::Contract { operands, .. } => {
                let (own, others): (Vec<_>, Vec<_>) = operands.iter().map(|x| x.var).partition(|x| active[*x]);
                own.len() == 1 && own.iter().all(|x| linear[*x]) && others.into_iter().all(is_literal)
            }
        };
        linear.set(x, is_linear);
    }
    linear
}

/// The partial derivative of a function by an argument.
///
/// # Errors
/// [`Error::Bug`] for a partial derivative that was not expanded.
pub(super) fn partial(function: Function, arg: u8, signature: &Signature) -> Result<Partial> {
    match function {
        Function::Value(primitive) => Ok(scalar::partial(primitive, arg, &signature.functions)),
        Function::Partial(..) => Err(Error::bug("diff", "a partial derivative was not expanded")),
    }
}

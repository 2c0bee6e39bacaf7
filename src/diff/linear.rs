//! Linear programs and their transposition.
//!
//! A program is linear in some parameters if each result is. By the form of its statements, with `0` the tensor of zeros:
//!
//! | statement | is |
//! |---|---|
//! | an input of these parameters | linear |
//! | another input, a number | constant |
//! | `[p] X + [q] Y` | linear if both are linear or zero; constant if both are constant |
//! | `sum s. [p] X * Y` | linear if one is linear and the other constant |
//! | `[p] X / Y` | linear if `X` is linear and `Y` constant |
//! | `[p] f(X, ..)` | constant if all arguments are |
//!
//! A guard that reads a linear tensor as a relation makes a statement neither. The check is one of form: `x^2 / x` is refused.

use super::adjoint::{Adjoint, Options, Seed, adjoint};
use super::{expand_partials, params_by_name};
use crate::base::{ParamId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::Pred;
use crate::scalar::{Function, Number, Op, Primitive};
use crate::tssa::{Program, Rhs, Stmt};
use crate::ty::Storage;

/// An adjoint that takes its seed as a parameter.
pub(super) const SEEDED: Options = Options { seed: Seed::Parameter, with_value: false, derivation: false };

/// How a statement depends on the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependence {
    Zero,
    Constant,
    Linear,
    Other,
}

impl Dependence {
    /// Of a sum.
    pub fn plus(self, other: Dependence) -> Dependence {
        match (self, other) {
            (Dependence::Zero, x) | (x, Dependence::Zero) => x,
            (x, y) if x == y => x,
            _ => Dependence::Other,
        }
    }

    /// Of a product.
    fn times(self, other: Dependence) -> Dependence {
        match (self, other) {
            // Beside zero, too: the transpose would read what is not linear.
            (Dependence::Other, _) | (_, Dependence::Other) => Dependence::Other,
            (Dependence::Zero, _) | (_, Dependence::Zero) => Dependence::Zero,
            (Dependence::Constant, x) | (x, Dependence::Constant) => x,
            _ => Dependence::Other,
        }
    }
}

/// How each statement of a program depends on some parameters, where it is said of its own.
pub(crate) fn dependences(program: &Program, of: &dyn Fn(ParamId) -> Dependence) -> SideTable<VarId, Dependence> {
    let mut all = SideTable::new(program.stmts.len(), Dependence::Other);
    for (x, stmt) in program.stmts.iter() {
        all.set(x, dependence(stmt, of, &all));
    }
    all
}

/// The first statement that computes what is neither linear nor constant, in words.
pub(crate) fn culprit(program: &Program, all: &SideTable<VarId, Dependence>) -> Option<String> {
    let computes = |x: &VarId| !matches!(program.stmts[*x].rhs, Rhs::Input { .. });
    let x = program.stmts.ids().find(|x| all[*x] == Dependence::Other && computes(x))?;
    Some(text_of(program, x, "is no linear function of them"))
}

/// `x = y * y is no linear function of them`
fn text_of(program: &Program, x: VarId, why: &str) -> String {
    let names = program.stmt_names();
    let text = crate::tssa::print::rhs_text(&program.signature, &names, &program.stmts[x]);
    format!("`{} = {text}` {why}", names.get(x))
}

/// Says what is not linear in parameters of these names.
pub(crate) fn not_linear(wrt: &[&str], what: &str) -> Error {
    Error::Request(format!("a program that is transposed is linear in its parameters {}, but {what}", wrt.join(", ")))
}

/// Checks that a program is linear in some of its parameters, by its form.
///
/// # Errors
/// [`Error::Request`] with a statement that is not.
pub fn check_linear(program: &Program, wrt: &[ParamId]) -> Result<()> {
    let of = |param: ParamId| if wrt.contains(&param) { Dependence::Linear } else { Dependence::Constant };
    let all = dependences(program, &of);
    for x in program.outputs.iter().flat_map(|output| &output.leaves) {
        let what = match all[*x] {
            Dependence::Zero | Dependence::Linear => continue,
            Dependence::Constant => text_of(program, *x, "does not depend on them"),
            // The first that is neither, of which the operands are.
            Dependence::Other => culprit(program, &all).unwrap_or_default(),
        };
        let wrt: Vec<&str> = wrt.iter().map(|id| program.signature.params[*id].name.as_str()).collect();
        return Err(not_linear(&wrt, &what));
    }
    Ok(())
}

fn dependence(stmt: &Stmt, of: &dyn Fn(ParamId) -> Dependence, all: &SideTable<VarId, Dependence>) -> Dependence {
    let known = |x: VarId| all[x];
    let decided = |p: &Pred| {
        let mut constant = true;
        p.visit_computed(&mut |x| constant &= matches!(known(x), Dependence::Zero | Dependence::Constant));
        constant
    };
    match &stmt.rhs {
        Rhs::Input { param, .. } => of(*param),
        Rhs::Number(Number::Literal(c)) if *c == 0.0 => Dependence::Zero,
        Rhs::Number(_) => Dependence::Constant,
        Rhs::Add([(p, x), (q, y)]) if decided(p) && decided(q) => known(*x).plus(known(*y)),
        Rhs::Contract { guard, operands, .. } if decided(guard) => {
            operands.iter().map(|x| known(x.var)).fold(Dependence::Constant, Dependence::times)
        }
        Rhs::Map { guard, function, args } if decided(guard) => {
            let constant = |x: &VarId| matches!(known(*x), Dependence::Zero | Dependence::Constant);
            match (function, args.as_slice()) {
                (Function::Value(Primitive::Op(Op::Div)), [x, y]) if constant(y) => known(*x),
                (_, args) if args.iter().all(constant) => Dependence::Constant,
                _ => Dependence::Other,
            }
        }
        _ => Dependence::Other,
    }
}

/// The transposed program of one that is linear in some parameters: it takes a seed for each output in their place, and its results are called
/// `adjoint_x`. A sparse parameter stays, for its pattern.
///
/// # Errors
/// [`Error::Request`] for a program that is not linear in them; [`Error::Overflow`] and [`Error::Bug`].
pub fn transpose(program: &Program, wrt: &[ParamId]) -> Result<Adjoint> {
    let Adjoint { program, seeds, derivation } = transposed(program, wrt)?;
    let dense = |id: &ParamId| program.signature.params[*id].storage == Storage::Dense;
    let gone: Vec<ParamId> = wrt.iter().copied().filter(dense).collect();
    let names: Vec<String> = seeds.iter().map(|id| program.signature.params[*id].name.clone()).collect();
    let program = program.without(&gone)?;
    let seeds = params_by_name(&program.signature, &names)?;
    Ok(Adjoint { program, seeds, derivation })
}

/// The adjoint of a program that is linear in some parameters, which it does not read unless they are sparse.
pub(super) fn transposed(program: &Program, wrt: &[ParamId]) -> Result<Adjoint> {
    let program = &expand_partials(program)?;
    check_linear(program, wrt)?;
    let adjoint = adjoint(program, wrt, SEEDED)?;
    Ok(Adjoint { program: expand_partials(&adjoint.program)?, ..adjoint })
}

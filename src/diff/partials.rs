//! Expands `f'k(X0, ..)` into the expression that the operator table gives for it.
//!
//! `gen g. [p] f'k(X0[g], ..)` becomes one statement for each operation of the expression, all under the guard `p`. Where the
//! expression uses the value of `f` itself, the statement `gen g. [p] f(X0[g], ..)` is shared with the primal program, if that has it.
//! What the expression adds for arguments that a literal excludes is left out: `a^2.5` has no case `[2.5 = 0]`.

use crate::base::{IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Pred, Size};
use crate::scalar::{self, Expr, Function, Number, Op, Primitive};
use crate::tssa::{Builder, Operand, Program, Rhs};

use super::forward::{aligned, product};

/// The program with all partial derivatives expanded; itself if it has none.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn expand_partials(program: &Program) -> Result<Program> {
    let is_partial = |rhs: &Rhs| matches!(rhs, Rhs::Map { function: Function::Partial(..), .. });
    if !program.stmts.values().any(|stmt| is_partial(&stmt.rhs)) {
        return Ok(program.clone());
    }
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, stmt| {
        let Rhs::Map { function: Function::Partial(primitive, at), args, .. } = &stmt.rhs else {
            return builder.push(stmt);
        };
        let open = builder.open_stmt(stmt)?;
        let Rhs::Map { guard, .. } = open.rhs else {
            return Err(Error::bug("expand-partials", "opening a statement changed its form"));
        };
        let expression = scalar::partial_formula(*primitive, *at, &program.signature.functions);
        Expansion { builder, gens: &open.gens, guard, primitive: *primitive, args }.expr(&expression)
    })?;
    builder.finish(outputs).prune()
}

struct Expansion<'a> {
    builder: &'a mut Builder,
    gens: &'a [(IndexId, Size)],
    guard: Pred,
    primitive: Primitive,
    args: &'a [VarId],
}

impl Expansion<'_> {
    /// `[[e]] = X` with `X[g] = [p] e(X0[g], ..)`. Table expressions nest to a bounded depth.
    fn expr(&mut self, e: &Expr) -> Result<VarId> {
        match e {
            Expr::Arg(at) => match self.args.get(usize::from(*at)) {
                Some(x) => Ok(*x),
                None => Err(Error::bug("expand-partials", "a partial derivative reads an argument that is not there")),
            },
            Expr::Result => self.apply(Function::Value(self.primitive), self.args.to_vec()),
            Expr::Number(c) => self.builder.number(self.gens, Number::Literal(*c)),
            Expr::Add(a, b) if self.is_zero(b) => self.expr(a),
            Expr::Add(a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let guard = || self.guard.clone();
                self.builder.add(self.gens, [(guard(), a), (guard(), b)])
            }
            Expr::Mul(a, b) => {
                let operands = vec![self.factor(a)?, self.factor(b)?];
                product(self.builder, self.gens, &[], self.guard.clone(), operands)
            }
            Expr::Apply(primitive, args) => {
                let args = args.iter().map(|a| self.expr(a)).collect::<Result<_>>()?;
                self.apply(Function::Value(*primitive), args)
            }
        }
    }

    /// Whether a term is 0 by the arguments that are literals: a product of comparisons, one of which fails.
    fn is_zero(&self, e: &Expr) -> bool {
        let literal = |e: &Expr| match e {
            Expr::Number(c) => Some(*c),
            Expr::Arg(at) => match self.builder.stmt(*self.args.get(usize::from(*at))?).rhs {
                Rhs::Number(Number::Literal(c)) => Some(c),
                _ => None,
            },
            _ => None,
        };
        let comparison = |e: &Expr| match e {
            Expr::Apply(Primitive::Op(Op::Compare(k)), args) => match args.as_slice() {
                [a, b] => Some(literal(a).zip(literal(b)).map(|(a, b)| k.holds(a, b))),
                _ => None,
            },
            _ => None,
        };
        match e {
            Expr::Mul(a, b) => match (comparison(a), comparison(b)) {
                (Some(a), Some(b)) => a == Some(false) || b == Some(false),
                _ => false,
            },
            e => comparison(e) == Some(Some(false)),
        }
    }

    /// A factor of a product; numbers need no axes.
    fn factor(&mut self, e: &Expr) -> Result<Operand> {
        Ok(match e {
            Expr::Number(c) => aligned(&[], self.builder.number(&[], Number::Literal(*c))?),
            e => aligned(self.gens, self.expr(e)?),
        })
    }

    fn apply(&mut self, function: Function, args: Vec<VarId>) -> Result<VarId> {
        self.builder.map(self.gens, self.guard.clone(), function, args)
    }
}

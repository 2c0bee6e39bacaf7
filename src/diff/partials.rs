//! Expands `f'k(X0, ..)` into the expression that the operator table gives for it.
//!
//! `gen g. [p] f'k(X0[g], ..)` becomes one statement for each operation of the expression, all under the guard `p`. Where the
//! expression uses the value of `f` itself, the statement `gen g. [p] f(X0[g], ..)` is shared with the primal program, if that has it.
//! What the expression adds for arguments that a literal excludes is left out: `a^2.5` has no case `[2.5 = 0]`.

use crate::base::{IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Pred, Size};
use crate::scalar::{self, Formula, Function, Number, Op, Primitive};
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
    let outputs = builder.append_with(program, |builder, _, stmt| {
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
    fn expr(&mut self, e: &Formula) -> Result<VarId> {
        match e {
            Formula::Arg(at) => match self.args.get(usize::from(*at)) {
                Some(x) => Ok(*x),
                None => Err(Error::bug("expand-partials", "a partial derivative reads an argument that is not there")),
            },
            Formula::Result => self.apply(Function::Value(self.primitive), self.args.to_vec()),
            Formula::Number(c) => self.builder.number(self.gens, Number::Literal(*c)),
            Formula::Add(a, b) if self.is_zero(b) => self.expr(a),
            Formula::Add(a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let guard = || self.guard.clone();
                self.builder.add(self.gens, [(guard(), a), (guard(), b)])
            }
            Formula::Mul(a, b) => {
                let operands = vec![self.factor(a)?, self.factor(b)?];
                product(self.builder, self.gens, &[], self.guard.clone(), operands)
            }
            Formula::Apply(primitive, args) => {
                let args = args.iter().map(|a| self.expr(a)).collect::<Result<_>>()?;
                self.apply(Function::Value(*primitive), args)
            }
        }
    }

    /// Whether a term is 0 by the arguments that are literals: a product of comparisons, one of which fails.
    fn is_zero(&self, e: &Formula) -> bool {
        let literal = |e: &Formula| match e {
            Formula::Number(c) => Some(*c),
            Formula::Arg(at) => match self.builder.stmt(*self.args.get(usize::from(*at))?).rhs {
                Rhs::Number(Number::Literal(c)) => Some(c),
                _ => None,
            },
            _ => None,
        };
        let comparison = |e: &Formula| match e {
            Formula::Apply(Primitive::Op(Op::Compare(k)), args) => match args.as_slice() {
                [a, b] => Some(literal(a).zip(literal(b)).map(|(a, b)| k.holds(a, b))),
                _ => None,
            },
            _ => None,
        };
        match e {
            Formula::Mul(a, b) => match (comparison(a), comparison(b)) {
                (Some(a), Some(b)) => a == Some(false) || b == Some(false),
                _ => false,
            },
            e => comparison(e) == Some(Some(false)),
        }
    }

    /// A factor of a product; numbers need no axes.
    fn factor(&mut self, e: &Formula) -> Result<Operand> {
        Ok(match e {
            Formula::Number(c) => aligned(&[], self.builder.number(&[], Number::Literal(*c))?),
            e => aligned(self.gens, self.expr(e)?),
        })
    }

    fn apply(&mut self, function: Function, args: Vec<VarId>) -> Result<VarId> {
        self.builder.map(self.gens, self.guard.clone(), function, args)
    }
}

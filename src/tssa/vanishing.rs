//! What is zero for the sizes alone, and annihilates.
//!
//! A product with a sum over an empty range is 0, whatever the other factors are: infinities and NaN, too. So a factor may leave a sum over the
//! whole of a range without a bracket that says that the range is not empty, and
//!
//! ```text
//! sum i < n, j < m. u[i]^2 * v[j]^2  ==  (sum i < n. u[i]^2) * (sum j < m. v[j]^2)      also for m = 0, where u[0] is no number
//! ```
//!
//! Whether a tensor is zero for the sizes alone is known as soon as these are: it is a sum over an empty range, stands under a guard that they
//! refute, is 0 as a literal or as an index expression without indices, is made of such tensors by an addition or a function that keeps zero, or
//! is a product with one of them. Evaluators and kernels take the program with these tensors replaced by the literal 0; sources that are emitted, and
//! kernels of results on patterns that are found out, do not. Nothing of it remains where no range is empty, no bracket on sizes fails, no size is
//! 0 and no literal is.

use super::build::Builder;
use super::data::{Output, Program, Rhs, Stmt};
use crate::base::{SideTable, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Pred, Size, Var};
use crate::scalar::{Function, Number, Op, Primitive, try_evaluate};
use crate::ty::Signature;

/// The program with what is zero for these sizes as literals; nothing where it is the same.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn without_vanishing(program: &Program, size: &dyn Fn(SizeId) -> Result<i64>) -> Result<Option<Program>> {
    let live = program.live();
    let sizes = Sizes { size };
    let mut some = false;
    let is_zero = |x: VarId| matches!(program.stmts[x].rhs, Rhs::Number(Number::Literal(0.0)));
    for (_, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        stmt.rhs.for_each_operand(|x| some |= is_zero(x));
        some = some || sizes.leave_nothing(stmt)?;
    }
    if !some {
        return Ok(None);
    }
    let mut zero = SideTable::new(program.stmts.len(), false);
    let mut replaced = false;
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        let vanishes = sizes.vanishes(&program.signature, stmt, &zero)?;
        zero.set(x, vanishes);
        replaced |= vanishes && !matches!(stmt.rhs, Rhs::Number(Number::Literal(_)));
    }
    if !replaced {
        return Ok(None);
    }
    let mut builder = Builder::new(program.signature.clone());
    let mut vars: SideTable<VarId, Option<VarId>> = SideTable::new(program.stmts.len(), None);
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        let y = match zero[x] {
            true => builder.push(&Stmt { dims: stmt.dims.clone(), rhs: Rhs::Number(Number::Literal(0.0)) })?,
            false => builder.push(&stmt.rename(&|operand| vars[operand])?)?,
        };
        builder.suggest_name(y, &program.names[x]);
        vars.set(x, Some(y));
    }
    let lost = || Error::bug("vanishing", "an output has no statement");
    let mut outputs = Vec::with_capacity(program.outputs.len());
    for output in &program.outputs {
        let leaves = output.leaves.iter().map(|x| vars[*x].ok_or_else(lost)).collect::<Result<_>>()?;
        outputs.push(Output { leaves, ..output.clone() });
    }
    builder.finish(outputs).prune().map(Some)
}

/// The values of sizes.
struct Sizes<'s> {
    size: &'s dyn Fn(SizeId) -> Result<i64>,
}

impl Sizes<'_> {
    fn value(&self, n: &Size) -> Result<i64> {
        let mut failed = None;
        let value = n.evaluate(&mut |v| match v {
            Var::Size(n) => (self.size)(*n).map_err(|error| failed = Some(error)).ok(),
            Var::Index(_) | Var::Apply(_) => None,
        });
        match (value, failed) {
            (Some(value), _) => Ok(value?),
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::bug("vanishing", "a size mentions an index")),
        }
    }

    /// Whether the sizes alone say that a guard holds nowhere.
    fn fails(&self, guard: &Pred) -> Result<bool> {
        for p in guard.conjuncts() {
            let fails = match p {
                Pred::False => true,
                Pred::NonNegative(a) if a.is_size() => self.value(a)? < 0,
                Pred::Zero(a) if a.is_size() => self.value(a)? != 0,
                Pred::NonZero(a) if a.is_size() => self.value(a)? == 0,
                _ => false,
            };
            if fails {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a statement is a size that is 0, or has a range without places or a guard that the sizes refute.
    fn leave_nothing(&self, stmt: &Stmt) -> Result<bool> {
        if let Rhs::Number(Number::Index(a)) = &stmt.rhs
            && a.is_size()
            && self.value(a)? == 0
        {
            return Ok(true);
        }
        for n in stmt.dims.iter().chain(stmt.rhs.sums()) {
            if self.value(n)? <= 0 {
                return Ok(true);
            }
        }
        for guard in stmt.rhs.guards() {
            if self.fails(guard)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a statement is zero, where that is known of its operands.
    fn vanishes(&self, signature: &Signature, stmt: &Stmt, zero: &SideTable<VarId, bool>) -> Result<bool> {
        Ok(match &stmt.rhs {
            Rhs::Input { .. } => false,
            Rhs::Number(Number::Literal(c)) => *c == 0.0,
            Rhs::Number(Number::Index(a)) => a.is_size() && self.value(a)? == 0,
            Rhs::Add(sides) => {
                for (p, x) in sides {
                    if !zero[*x] && !self.fails(p)? {
                        return Ok(false);
                    }
                }
                true
            }
            Rhs::Map { guard, function, args } => {
                let args: Vec<bool> = args.iter().map(|x| zero[*x]).collect();
                keeps_zero(signature, *function, &args) || self.fails(guard)?
            }
            Rhs::Contract { sums, guard, operands } => {
                for n in sums {
                    if self.value(n)? <= 0 {
                        return Ok(true);
                    }
                }
                operands.iter().any(|operand| zero[operand.var]) || self.fails(guard)?
            }
        })
    }
}

/// Whether a function is zero for arguments of which some are. A quotient is a product with a reciprocal.
fn keeps_zero(signature: &Signature, function: Function, zero: &[bool]) -> bool {
    if function == Function::Value(Primitive::Op(Op::Div)) {
        return zero.first() == Some(&true);
    }
    let all = zero.iter().all(|zero| *zero) && !zero.is_empty();
    all && try_evaluate(function, &signature.functions, &vec![0.0; zero.len()]).is_ok_and(|y| y == 0.0)
}

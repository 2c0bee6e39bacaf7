//! What is zero for the sizes alone, and annihilates.
//!
//! A product with a sum over an empty range is 0, whatever the other factors are: infinities and NaN, too. So a factor may leave a sum over the
//! whole of a range without a bracket that says that the range is not empty, and
//!
//! ```text
//! sum i < n, j < m. u[i]^2 * v[j]^2  ==  (sum i < n. u[i]^2) * (sum j < m. v[j]^2)      also for m = 0, where u[0] is no number
//! ```
//!
//! Whether a tensor is zero for the sizes alone is known as soon as these are: it is a sum over an empty range, stands under a guard whose
//! comparisons no place satisfies, is 0 as a literal or as an index expression without indices, is made of such tensors by an addition or a
//! function that keeps zero, or is a product with one of them. Evaluators and kernels take the program with these tensors replaced by the
//! literal 0; sources that are emitted know no sizes, and do not. Nothing of it remains where no range is empty, every guard holds somewhere, no
//! size is 0 and no literal is.
//!
//! What a guard says of indices and sizes is [`Pred::comparisons`]; relations and maps are left out. Whether that holds somewhere is decided by all
//! places of small boxes, and by the [facts](crate::solver::Facts) in others.

use std::cell::Cell;

use super::build::Builder;
use super::data::{Output, Program, Rhs, Stmt};
use crate::base::{IndexId, SideTable, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Overflow, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Number, Op, Primitive, try_evaluate};
use crate::solver::{Facts, Plan, World};
use crate::ty::Signature;

/// In how many values of indices all places of a box are looked at.
const MAX_VALUES: u128 = 1000;

/// The program with what is zero for these sizes as literals; nothing where it is the same.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn without_vanishing(program: &Program, size: &dyn Fn(SizeId) -> Result<i64>) -> Result<Option<Program>> {
    without_vanishing_where(program, &|n| size(n).map(Some))
}

/// The same where some sizes have no value: what they decide stays.
///
/// # Errors
/// Those of [`without_vanishing`].
pub fn without_vanishing_where(
    program: &Program,
    size: &dyn Fn(SizeId) -> Result<Option<i64>>,
) -> Result<Option<Program>> {
    let live = program.live();
    let sizes = Sizes { size };
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

/// The values of sizes that have one.
struct Sizes<'s> {
    size: &'s dyn Fn(SizeId) -> Result<Option<i64>>,
}

impl Sizes<'_> {
    /// Nothing where a size has no value.
    fn value(&self, n: &Size) -> Result<Option<i64>> {
        let (mut failed, mut known) = (None, true);
        let value = n.evaluate(&mut |v| match v {
            Var::Size(n) => {
                let value = (self.size)(*n).map_err(|error| failed = Some(error)).ok()?;
                known &= value.is_some();
                value
            }
            Var::Index(_) | Var::Apply(_) => None,
        });
        match (value, failed) {
            (Some(value), _) => Ok(Some(value?)),
            (None, Some(error)) => Err(error),
            (None, None) if !known => Ok(None),
            (None, None) => Err(Error::bug("vanishing", "a size mentions an index")),
        }
    }

    /// Whether no place of some ranges satisfies a guard, as far as its comparisons of indices and sizes tell.
    fn fails(&self, ranges: &[&Size], guard: &Pred) -> Result<bool> {
        let p = guard.comparisons();
        if p.is_true() || p.is_false() {
            return Ok(p.is_false());
        }
        let extents = ranges.iter().map(|n| self.value(n)).collect::<Result<Vec<Option<i64>>>>()?;
        if extents.iter().flatten().any(|n| *n <= 0) {
            return Ok(true);
        }
        let Some(extents) = extents.into_iter().collect::<Option<Vec<i64>>>() else { return Ok(false) };
        let mut failed = None;
        // A size without a value leaves nothing known, as one out of range does.
        let mut value = |n: SizeId| {
            let value = (self.size)(n).map_err(|error| failed = Some(error)).map_err(|_| Overflow)?;
            value.ok_or(Overflow)
        };
        let at_sizes = p.map_affine(&mut |a| with_sizes(a, &mut value));
        if let Some(error) = failed {
            return Err(error);
        }
        // Beyond the range of numbers nothing is known.
        let Ok(p) = at_sizes else { return Ok(false) };
        Ok(p.is_false() || !p.is_true() && !holds_somewhere(&p, &extents))
    }

    /// Whether a statement is zero, where that is known of its operands.
    fn vanishes(&self, signature: &Signature, stmt: &Stmt, zero: &SideTable<VarId, bool>) -> Result<bool> {
        let all: Vec<&Size> = stmt.dims.iter().chain(stmt.rhs.sums()).collect();
        Ok(match &stmt.rhs {
            Rhs::Input { .. } => false,
            Rhs::Number(Number::Literal(c)) => *c == 0.0,
            Rhs::Number(Number::Index(a)) => a.is_size() && self.value(a)? == Some(0),
            Rhs::Add(sides) => {
                for (p, x) in sides {
                    if !zero[*x] && !self.fails(&all, p)? {
                        return Ok(false);
                    }
                }
                true
            }
            Rhs::Map { guard, function, args } => {
                let args: Vec<bool> = args.iter().map(|x| zero[*x]).collect();
                keeps_zero(signature, *function, &args) || self.fails(&all, guard)?
            }
            Rhs::Contract { sums, guard, operands } => {
                for n in sums {
                    if self.value(n)?.is_some_and(|n| n <= 0) {
                        return Ok(true);
                    }
                }
                operands.iter().any(|operand| zero[operand.var]) || self.fails(&all, guard)?
            }
        })
    }
}

/// An index expression with numbers for its sizes.
fn with_sizes(a: &Affine, value: &mut impl FnMut(SizeId) -> Checked<i64>) -> Checked<Affine> {
    let mut found = Affine::constant(a.offset());
    for (v, k) in a.terms() {
        let term = if let Var::Size(n) = v { Affine::constant(value(*n)?) } else { Affine::var(v.clone()) };
        found = found.add(&term.scale(*k)?)?;
    }
    Ok(found)
}

/// Whether a predicate without sizes holds somewhere in a box, or may.
fn holds_somewhere(p: &Pred, extents: &[i64]) -> bool {
    let ranges: Vec<(IndexId, Size)> = (0..).map(IndexId).zip(extents.iter().map(|n| Affine::constant(*n))).collect();
    let few = Few::default();
    let found = Plan::new(&[], &ranges, p).holds(&few, &[]);
    if let (Ok(found), false) = (found, few.exceeded.get()) {
        return found;
    }
    !Facts::new().under(&ranges, [p]).contradictory()
}

/// No sizes and no relations, and only so many values.
#[derive(Default)]
struct Few {
    exceeded: Cell<bool>,
}

impl World for Few {
    fn size(&self, _: SizeId) -> i64 {
        0
    }

    fn holds(&self, _: RelationRef, _: &[i64]) -> bool {
        true
    }

    fn candidates(&self, _: RelationRef, _: &[Option<i64>], _: usize) -> Option<Vec<i64>> {
        None
    }

    fn apply(&self, _: RelationRef, _: &[i64]) -> Option<i64> {
        None
    }

    fn tries(&self, _: u128, in_all: u128) -> bool {
        let few = in_all <= MAX_VALUES;
        self.exceeded.set(self.exceeded.get() || !few);
        few
    }
}

/// Whether a function is zero for arguments of which some are. A quotient is a product with a reciprocal.
pub(crate) fn keeps_zero(signature: &Signature, function: Function, zero: &[bool]) -> bool {
    if function == Function::Value(Primitive::Op(Op::Div)) {
        return zero.first() == Some(&true);
    }
    let all = zero.iter().all(|zero| *zero) && !zero.is_empty();
    all && try_evaluate(function, &signature.functions, &vec![0.0; zero.len()]).is_ok_and(|y| y == 0.0)
}

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
//! literal 0; sources that are emitted, and kernels of results on patterns that are found out, do not. Nothing of it remains where no range is
//! empty, every guard holds somewhere, no size is 0 and no literal is.
//!
//! Whether a guard holds somewhere is decided by a place that is looked for, and by the [facts](crate::index::Facts) where none is found; what
//! relations say is left out.

use super::build::Builder;
use super::data::{Output, Program, Rhs, Stmt};
use crate::base::{Id as _, IndexId, SideTable, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Facts, Pred, Size, Var};
use crate::scalar::{Function, Number, Op, Primitive, try_evaluate};
use crate::ty::Signature;

/// The program with what is zero for these sizes as literals; nothing where it is the same.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn without_vanishing(program: &Program, size: &dyn Fn(SizeId) -> Result<i64>) -> Result<Option<Program>> {
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

    /// An index expression with numbers for its sizes; nothing where it applies a map or leaves the range of numbers.
    fn at_sizes(&self, a: &Affine) -> Result<Option<Affine>> {
        let (mut found, mut applies) = (Affine::constant(a.offset()), false);
        for (v, k) in a.terms() {
            let term = match v {
                Var::Size(n) => Affine::constant((self.size)(*n)?),
                Var::Index(i) => Affine::index(*i),
                Var::Apply(_) => {
                    applies = true;
                    continue;
                }
            };
            let Ok(sum) = term.scale(*k).and_then(|term| found.add(&term)) else { return Ok(None) };
            found = sum;
        }
        Ok((!applies).then_some(found))
    }

    /// Whether no place of some ranges satisfies a guard, as far as its comparisons of indices and sizes tell.
    fn fails(&self, ranges: &[&Size], guard: &Pred) -> Result<bool> {
        let mut comparisons = Vec::new();
        for p in guard.conjuncts() {
            let (kind, a): (fn(Affine) -> Pred, _) = match p {
                Pred::False => return Ok(true),
                Pred::NonNegative(a) => (Pred::non_negative, a),
                Pred::Zero(a) => (Pred::zero, a),
                Pred::NonZero(a) => (Pred::non_zero, a),
                _ => continue,
            };
            comparisons.extend(self.at_sizes(a)?.map(kind));
        }
        if comparisons.is_empty() {
            return Ok(false);
        }
        let extents = ranges.iter().map(|n| self.value(n)).collect::<Result<Vec<i64>>>()?;
        if extents.iter().any(|n| *n <= 0) {
            return Ok(true);
        }
        // Most guards hold somewhere, and one of these places is often found at once.
        let starts: [fn(i64) -> i64; 3] = [|n| n / 2, |_| 0, |n| n - 1];
        if starts.into_iter().any(|start| holds_near(&comparisons, &extents, start)) {
            return Ok(false);
        }
        let mut facts = Facts::new();
        (0..).map(IndexId).zip(&extents).for_each(|(i, n)| facts.range(i, &Affine::constant(*n)));
        comparisons.iter().for_each(|p| facts.assume(p));
        Ok(facts.contradictory())
    }

    /// Whether a statement is zero, where that is known of its operands.
    fn vanishes(&self, signature: &Signature, stmt: &Stmt, zero: &SideTable<VarId, bool>) -> Result<bool> {
        let all: Vec<&Size> = stmt.dims.iter().chain(stmt.rhs.sums()).collect();
        Ok(match &stmt.rhs {
            Rhs::Input { .. } => false,
            Rhs::Number(Number::Literal(c)) => *c == 0.0,
            Rhs::Number(Number::Index(a)) => a.is_size() && self.value(a)? == 0,
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
                    if self.value(n)? <= 0 {
                        return Ok(true);
                    }
                }
                operands.iter().any(|operand| zero[operand.var]) || self.fails(&all, guard)?
            }
        })
    }
}

/// Whether comparisons hold at a place of a box that is looked for from one other on: each equation gives one index its value.
fn holds_near(comparisons: &[Pred], extents: &[i64], start: fn(i64) -> i64) -> bool {
    let mut place: Vec<i64> = extents.iter().map(|n| start(*n)).collect();
    let mut given = vec![false; place.len()];
    for p in comparisons {
        let Pred::Zero(a) = p else { continue };
        let Some(value) = at(a, &place) else { return false };
        let free = a.terms().iter().find_map(|(v, k)| match v {
            Var::Index(i) if k.abs() == 1 && given.get(i.index()) == Some(&false) => Some((i.index(), *k)),
            _ => None,
        });
        if let Some((i, k)) = free {
            place[i] = place[i].saturating_sub(k.saturating_mul(value));
            given[i] = true;
        }
    }
    let inside = place.iter().zip(extents).all(|(i, n)| (0..*n).contains(i));
    inside
        && comparisons.iter().all(|p| match p {
            Pred::NonNegative(a) => at(a, &place).is_some_and(|x| x >= 0),
            Pred::Zero(a) => at(a, &place) == Some(0),
            Pred::NonZero(a) => at(a, &place).is_some_and(|x| x != 0),
            // What has no indices.
            p => p.is_true(),
        })
}

/// The value of an index expression at a place.
fn at(a: &Affine, place: &[i64]) -> Option<i64> {
    let mut index = |v: &Var| if let Var::Index(i) = v { place.get(i.index()).copied() } else { None };
    a.evaluate(&mut index)?.ok()
}

/// Whether a function is zero for arguments of which some are. A quotient is a product with a reciprocal.
fn keeps_zero(signature: &Signature, function: Function, zero: &[bool]) -> bool {
    if function == Function::Value(Primitive::Op(Op::Div)) {
        return zero.first() == Some(&true);
    }
    let all = zero.iter().all(|zero| *zero) && !zero.is_empty();
    all && try_evaluate(function, &signature.functions, &vec![0.0; zero.len()]).is_ok_and(|y| y == 0.0)
}

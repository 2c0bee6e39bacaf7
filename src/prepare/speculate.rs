//! Products are computed without the masks of their factors, and with them where the result is no number.
//!
//! ```text
//! gen i, j. sum k. [x[i, k] > 0] * p[i, k] * q[k, j]
//!   ==  let m = gen i, k. [x[i, k] > 0] * p[i, k]
//!       in let f = gen i, j. sum k. m[i, k] * q[k, j]
//!       in let nan = gen i. sum j. [f[i, j] != f[i, j]]
//!       in gen i, j. if nan[i] = 0 then f[i, j] else sum k. [x[i, k] > 0] * m[i, k] * q[k, j]
//! ```
//!
//! Where the mask fails the product is 0 whatever `q` has there, NaN among it. So a loop over products tests, or chooses twice, for each
//! product, which takes two or three times as long as the product itself and is none of those that run in [panels](crate::schedule). The gradient of
//! each layer with `relu` is like that.
//!
//! **Why it is right.** Where the mask fails `m` is 0, so a term that the first sum has more is 0 where `q` is finite, and NaN elsewhere. A sum with a
//! NaN is NaN, so where `f` is a number both sums are of the same numbers and of zeros. Sums begin with +0, so zeros of either sign leave them as they are.
//! Where a row of `f` has a NaN the sums with the mask say what it is. That is *speculation*: computed as if all were finite, verified, and computed again
//! where it was wrong.
//!
//! **Where it is done.** For sums of unknown length of products of two dense tensors, all of whose elements are needed. The mask is about numbers, at
//! indices of one factor, some of which the result has or determines; where it is about summed indices alone whole rows are left out, and it stays.
//! And there is some other index, so that the mask would be asked again and again.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::needs::wanted;
use crate::base::{Id, IndexId, SideTable, VarId};
use crate::error::Result;
use crate::index::{Checked, Pred, RelationRef, Size, View};
use crate::scalar::{Comparison, Op};
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};

/// How often a mask would be asked at least, where that is known.
const REPEATED: i64 = 4;

/// The program in which such products are computed without masks.
pub(super) fn speculated(program: &Program) -> Result<Cow<'_, Program>> {
    let wanted = wanted(program);
    let mut found = BTreeSet::new();
    let mut is_apart = SideTable::new(program.stmts.len(), false);
    for (x, stmt) in program.stmts.iter() {
        if let Some(masked) = Masked::of(stmt).filter(|masked| wanted[x] && masked.is_repeated(stmt)) {
            found.insert((masked.factor.var, masked.of_factor()?));
            is_apart.set(x, true);
        }
    }
    if found.is_empty() {
        return Ok(Cow::Borrowed(program));
    }
    // Sums of a factor that is masked anyway need no mask.
    for (x, stmt) in program.stmts.iter() {
        if let Some(masked) = Masked::of(stmt).filter(|masked| masked.other.is_none()) {
            let mask = masked.of_factor()?;
            let is_masked = has(&program.stmts[masked.factor.var], &mask) || found.contains(&(masked.factor.var, mask));
            is_apart.set(x, is_masked);
        }
    }
    let mut builder = Builder::new(program.signature.clone());
    let mut all_apart = program.stmts.ids().map(|x| is_apart[x]);
    let outputs = builder.append_with(program, |builder, stmt| {
        let is_apart = all_apart.next() == Some(true);
        match Masked::of(stmt).filter(|_| is_apart) {
            Some(masked) => masked.apart(stmt, builder),
            None => builder.push(stmt),
        }
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// A product with a mask.
struct Masked<'a> {
    /// The factor whose indices the mask is about, and the other one, if there is one.
    factor: &'a Operand,
    other: Option<&'a Operand>,
    sums: &'a [Size],
    guard: &'a Pred,
    mask: Vec<&'a Pred>,
}

impl<'a> Masked<'a> {
    fn of(stmt: &'a Stmt) -> Option<Masked<'a>> {
        let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return None };
        let is_long = sums.iter().any(|n| n.as_constant().is_none());
        let mut dense = is_long;
        guard.visit_relations(&mut |relation| dense &= matches!(relation, RelationRef::Computed { .. }));
        if !dense {
            return None;
        }
        let ways: &[(usize, Option<usize>)] =
            if operands.len() == 2 { &[(0, Some(1)), (1, Some(0))] } else { &[(0, None)] };
        ways.iter().find_map(|(factor, other)| {
            let (factor, other) = (operands.get(*factor)?, other.and_then(|k| operands.get(k)));
            let mask = guard.conjuncts().iter().filter(|p| is_mask(p, factor)).collect();
            Some(Masked { factor, other, sums, guard, mask }).filter(|masked| !masked.mask.is_empty())
        })
    }

    /// Whether the mask depends on what the result does, and is asked for several values of other indices.
    fn is_repeated(&self, stmt: &Stmt) -> bool {
        let rank = stmt.dims.len();
        let asked = |i: IndexId| self.mask.iter().any(|p| p.mentions(i));
        let rest = || self.guard.conjuncts().iter().filter(|p| !self.mask.contains(p));
        let indices = || (0..rank + self.sums.len()).map(IndexId::from_index);
        let ties = |p: &&Pred| matches!(p, Pred::Zero(_)) && indices().any(|i| asked(i) && p.mentions(i));
        let is_tied = |i: IndexId| rest().filter(ties).any(|p| p.mentions(i));
        let gens = || (0..rank).map(IndexId::from_index);
        if !gens().any(|i| asked(i) || is_tied(i)) {
            return false;
        }
        // An equation gives one of its indices a value.
        let equations = rest().filter(ties).count();
        let extents = stmt.dims.iter().chain(self.sums);
        let others = indices().zip(extents).filter(|(i, _)| !asked(*i)).map(|(_, n)| n);
        let (literal, long): (Vec<&Size>, Vec<&Size>) = others.partition(|n| n.as_constant().is_some());
        let times = literal.iter().filter_map(|n| n.as_constant()).fold(1, i64::saturating_mul);
        long.len() > equations || times >= REPEATED
    }

    /// The statements that the product becomes.
    fn apart(&self, stmt: &Stmt, builder: &mut Builder) -> Result<VarId> {
        let masked = Operand { var: self.masked(builder)?, indices: self.factor.indices.clone() };
        let without: Vec<Pred> = self.guard.conjuncts().iter().filter(|p| !self.mask.contains(p)).cloned().collect();
        let product = |guard: Pred| {
            let operands = std::iter::once(&masked).chain(self.other).cloned().collect();
            Stmt { dims: stmt.dims.clone(), rhs: Rhs::Contract { sums: self.sums.to_vec(), guard, operands } }
        };
        let first = builder.push(&product(Pred::all(without)))?;
        if self.other.is_none() {
            return Ok(first);
        }
        let second = builder.push(&product(self.guard.clone()))?;
        // Rows are asked as a whole.
        let gens = builder.fresh_indices(&stmt.dims);
        let differ = Op::Compare(Comparison::NotEqual).into();
        let is_nan = builder.map(&gens, Pred::True, differ, vec![first, first])?;
        let indices = gens.iter().map(|(i, _)| *i).collect();
        let (rows, row) = gens.split_at(gens.len() - usize::from(gens.len() > 1));
        let no_numbers = builder.contract(rows, row, Pred::True, vec![Operand { var: is_nan, indices }])?;
        let is_none = |holds: bool| {
            let relation = RelationRef::Computed { var: no_numbers, view: View::Support };
            Pred::Relation { relation, args: rows.iter().map(|(i, _)| (*i).into()).collect(), holds }
        };
        let sides = [(is_none(false), first), (is_none(true), second)];
        builder.add(&gens, sides)
    }

    /// The mask at the axes of the factor.
    fn of_factor(&self) -> Checked<Vec<Pred>> {
        let axis = |i: IndexId| self.factor.indices.iter().position(|j| *j == i).map(|k| IndexId::from_index(k).into());
        self.mask.iter().map(|p| p.substitute(&axis)).collect()
    }

    /// The factor where the mask holds.
    fn masked(&self, builder: &mut Builder) -> Result<VarId> {
        let (var, mask) = (self.factor.var, self.of_factor()?);
        let stmt = builder.stmt(var);
        if has(stmt, &mask) {
            return Ok(var);
        }
        let dims = stmt.dims.clone();
        let indices = (0..dims.len()).map(IndexId::from_index).collect();
        let (sums, guard, operands) = (Vec::new(), Pred::all(mask), vec![Operand { var, indices }]);
        builder.push(&Stmt { dims, rhs: Rhs::Contract { sums, guard, operands } })
    }
}

/// Whether a tensor is 0 where a mask fails, as its statement says.
fn has(stmt: &Stmt, mask: &[Pred]) -> bool {
    match &stmt.rhs {
        Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => mask.iter().all(|p| guard.conjuncts().contains(p)),
        Rhs::Input { .. } | Rhs::Number(_) | Rhs::Add(_) => false,
    }
}

/// Whether a conjunct says where numbers are, or are not, zero, at indices of a factor, which has each of them once.
fn is_mask(p: &Pred, factor: &Operand) -> bool {
    let Pred::Relation { relation: RelationRef::Computed { view: View::Support, .. }, args, .. } = p else {
        return false;
    };
    let once = |i: IndexId| factor.indices.iter().filter(|j| **j == i).count() == 1;
    args.iter().all(|a| a.as_index().is_some_and(once)) && factor.indices.iter().all(|i| once(*i))
}

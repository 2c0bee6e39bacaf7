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
//! product, which takes two or three times as long as the product itself. The gradient of
//! each layer with `relu` is like that.
//!
//! **Why it is right.** Where the mask fails `m` is 0, so a term that the first sum has more is 0 where `q` is finite, and NaN elsewhere. A sum with a
//! NaN is NaN, so where `f` is a number both sums are of the same numbers and of zeros. Sums begin with +0, so zeros of either sign leave them
//! as they are. Where a row of `f` has a NaN the sums with the mask say what it is. That is *speculation*: computed as if all were finite,
//! verified, and computed again where it was wrong.
//!
//! A factor that is a sum over nothing where the mask fails is 0 there by itself, and needs no mask.
//!
//! What sums such products further, or multiplies them by numbers, and is their only reader, is verified in their place: `f` is as small as it gets.
//!
//! A sum of numbers with a mask, as of the rows of `X` whose error for class `i` is positive, is a product with the mask:
//!
//! ```text
//! gen i, j. sum k. [t[k, i] > 0] * X[k, j]   ==   let m = gen k, i. [t[k, i] > 0] * 1 in gen i, j. sum k. m[k, i] * X[k, j]
//! ```
//!
//! **Where it is done.** For sums of unknown length of products of two dense tensors, or of such a mask and one, all of whose elements are needed, or
//! may be where numbers decide it: what comes back through a layer is needed where the `relu` before it is not 0, and to ask that for each element
//! takes longer than the product. The mask is about numbers, that two indices differ, that a relation of the data does not hold, or bounds by what its rows
//! have, at indices of one factor, some of which the result has or determines; where it is about summed indices alone whole rows are left out, and it
//! stays. And there is some other index, so that the mask would be asked again and again. A mask is no factor where it holds at the place of an extremum alone, and
//! there is nothing to be done where a number tells its place.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::empty_sums::are_empty;
use super::needs::maybe_wanted;
use crate::base::{Id, IndexId, SideTable, VarId};
use crate::error::Result;
use crate::index::{Affine, Checked, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Number, Op};
use crate::solver::{solution, solutions};
use crate::tssa::one_hot::OneHot;
use crate::tssa::patterns::distinct;
use crate::tssa::{Builder, Operand, Program, Rhs, Stmt};

/// How often a mask would be asked at least, where that is known.
const REPEATED: i64 = 4;

/// The program in which such products are computed without masks.
pub(super) fn speculated(program: &Program) -> Result<Cow<'_, Program>> {
    let product = |stmt| {
        let masked = Masked::of(stmt).filter(|masked| masked.other.is_some() && masked.is_repeated(stmt));
        masked.filter(|masked| !masked.is_one_hot(program))
    };
    if !program.stmts.values().any(|stmt| product(stmt).is_some()) {
        return Ok(Cow::Borrowed(program));
    }
    let carriers = carriers(program);
    // Whether all elements are needed of the statement that gets the sum in the end. Carriers come after what they carry.
    let mut wanted = maybe_wanted(program);
    for x in program.stmts.ids().rev() {
        if let Some(y) = carriers[x] {
            wanted.set(x, wanted[y]);
        }
    }
    let mut found = BTreeSet::new();
    let mut roles = SideTable::new(program.stmts.len(), Role::Other);
    for (x, stmt) in program.stmts.iter() {
        // What sums a product is verified for that, and keeps its own mask.
        if roles[x] == Role::Other
            && let Some(masked) = product(stmt).filter(|_| wanted[x])
        {
            if let Factor::Operand(factor) = masked.factor {
                found.insert((factor.var, masked.of_factor()?));
            }
            roles.set(x, Role::Product);
        }
        if let (Role::Product | Role::Carrier, Some(y)) = (roles[x], carriers[x]) {
            roles.set(y, Role::Carrier);
        }
    }
    if !program.stmts.ids().any(|x| roles[x] == Role::Product) {
        return Ok(Cow::Borrowed(program));
    }
    // Sums of a factor that is masked anyway need no mask.
    for (x, stmt) in program.stmts.iter() {
        if let Some(masked) = Masked::of(stmt).filter(|masked| masked.other.is_none() && roles[x] == Role::Other)
            && let Factor::Operand(factor) = masked.factor
        {
            let mask = masked.of_factor()?;
            if has(&|x| &program.stmts[x], factor.var, &mask) || found.contains(&(factor.var, mask)) {
                roles.set(x, Role::Sum);
            }
        }
    }
    let mut builder = Builder::new(program.signature.clone());
    // With masks, by what it is without.
    let mut with_masks: BTreeMap<VarId, VarId> = BTreeMap::new();
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let [first, second] = match (roles[x], Masked::of(stmt)) {
            (Role::Product, Some(masked)) => masked.products(stmt, builder)?,
            (Role::Sum, Some(masked)) => return masked.sum(stmt, builder),
            (Role::Carrier, _) => {
                let second = stmt.rename(&|y| Some(with_masks.get(&y).copied().unwrap_or(y)))?;
                [builder.push(stmt)?, builder.push(&second)?]
            }
            _ => return builder.push(stmt),
        };
        if carriers[x].is_none() {
            return verified(builder, &stmt.dims, [first, second]);
        }
        with_masks.insert(first, second);
        Ok(first)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// What a statement is here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A product with a mask.
    Product,
    /// A sum of a factor with a mask.
    Sum,
    /// A sum, or a multiple, of a product with a mask.
    Carrier,
    Other,
}

/// The only reader of each tensor, where it sums it, puts its axes in another order, or multiplies it by numbers, and does nothing else.
fn carriers(program: &Program) -> SideTable<VarId, Option<VarId>> {
    let mut readers: SideTable<VarId, Vec<Option<VarId>>> = SideTable::new(program.stmts.len(), Vec::new());
    for (x, stmt) in program.stmts.iter() {
        stmt.rhs.guards().for_each(|p| p.visit_computed(&mut |y| readers[y].push(None)));
        let is_number = |y: VarId| matches!(program.stmts[y].rhs, Rhs::Number(_));
        match &stmt.rhs {
            Rhs::Contract { operands, .. } if operands.iter().filter(|y| !is_number(y.var)).count() == 1 => {
                operands.iter().for_each(|y| readers[y.var].push(Some(x)));
            }
            rhs => rhs.for_each_operand(|y| readers[y].push(None)),
        }
    }
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| readers[*x].push(None));
    let mut carriers = SideTable::new(program.stmts.len(), None);
    for x in program.stmts.ids() {
        if let [only] = readers[x].as_slice() {
            carriers.set(x, *only);
        }
    }
    carriers
}

/// The first of two tensors, and the second one in rows where the first has a NaN.
pub(super) fn verified(builder: &mut Builder, dims: &[Size], [first, second]: [VarId; 2]) -> Result<VarId> {
    let gens = builder.fresh_indices(dims);
    let differ = Op::Compare(Comparison::NotEqual).into();
    let is_nan = builder.map(&gens, Pred::True, differ, vec![first, first])?;
    let indices = gens.iter().map(|(i, _)| *i).collect();
    let (rows, row) = gens.split_at(gens.len() - usize::from(gens.len() > 1));
    let no_numbers = builder.contract(rows, row, Pred::True, vec![Operand { var: is_nan, indices }])?;
    let is_none = |holds: bool| {
        let relation = RelationRef::Computed { var: no_numbers, view: View::Support };
        Pred::Relation { relation, args: rows.iter().map(|(i, _)| (*i).into()).collect(), holds }
    };
    builder.add(&gens, [(is_none(false), first), (is_none(true), second)])
}

/// A factor with a mask.
enum Factor<'a> {
    Operand(&'a Operand),
    /// The mask itself, as a number, at these indices.
    Mask(Vec<IndexId>),
}

/// A product with a mask.
struct Masked<'a> {
    /// The factor whose indices the mask is about, and the other one, if there is one.
    factor: Factor<'a>,
    other: Option<&'a Operand>,
    sums: &'a [Size],
    guard: &'a Pred,
    /// Conjuncts of the guard, and what they say at the indices of the factor.
    mask: Vec<(&'a Pred, Pred)>,
}

impl<'a> Masked<'a> {
    fn of(stmt: &'a Stmt) -> Option<Masked<'a>> {
        let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return None };
        let is_long = sums.iter().any(|n| n.as_constant().is_none());
        if !is_long || !guard.conjuncts().iter().all(is_dense) {
            return None;
        }
        let all_at = |indices: &[IndexId]| -> Vec<(&'a Pred, Pred)> {
            guard.conjuncts().iter().filter_map(|p| Some((p, at_factor(p, indices, guard)?))).collect()
        };
        let of_operand = (0..operands.len()).find_map(|at| {
            let factor = operands.get(at)?;
            let other = operands.iter().enumerate().find(|(k, _)| *k != at).map(|(_, other)| other);
            let mask = all_at(&factor.indices);
            let factor = Factor::Operand(factor);
            Some(Masked { factor, other, sums, guard, mask }).filter(|masked| !masked.mask.is_empty())
        });
        of_operand.or_else(|| {
            let [other] = operands.as_slice() else { return None };
            // As large as a tensor that there is.
            let indices = guard.conjuncts().iter().find_map(|p| match p {
                Pred::Relation { relation: RelationRef::Computed { view: View::Support, .. }, args, .. } => {
                    args.iter().map(Affine::as_index).collect::<Option<Vec<IndexId>>>()
                }
                _ => None,
            })?;
            let is_summed = |i: &IndexId| i.index() >= stmt.dims.len();
            let joins = indices.iter().any(|i| is_summed(i) && other.indices.contains(i));
            let is_apart = indices.iter().any(|i| !is_summed(i))
                && indices.iter().all(|i| is_summed(i) == other.indices.contains(i));
            let mask = all_at(&indices);
            (joins && is_apart && !mask.is_empty()).then_some(Masked {
                factor: Factor::Mask(indices),
                other: Some(other),
                sums,
                guard,
                mask,
            })
        })
    }

    fn indices(&self) -> &[IndexId] {
        match &self.factor {
            Factor::Operand(factor) => &factor.indices,
            Factor::Mask(indices) => indices,
        }
    }

    /// Whether the mask is 1 at one place of each row, which a number tells, or, as a number, that of an extremum: its sums are found in one pass over
    /// these places.
    fn is_one_hot(&self, program: &Program) -> bool {
        if self.mask.iter().any(|(p, _)| OneHot::asked(program, p).is_some()) {
            return true;
        }
        let of_extremum = |p: &Pred| {
            let mut found = false;
            p.visit_computed(&mut |x| {
                for guard in program.stmts[x].rhs.guards() {
                    guard.visit_relations(&mut |relation| {
                        found |= matches!(relation, RelationRef::Computed { view: View::ArgMax | View::ArgMin, .. });
                    });
                }
            });
            found
        };
        matches!(self.factor, Factor::Mask(_)) && self.mask.iter().any(|(p, _)| of_extremum(p))
    }

    /// Whether the mask depends on what the result does, and is asked for several values of other indices.
    fn is_repeated(&self, stmt: &Stmt) -> bool {
        let rank = stmt.dims.len();
        let asked = |i: IndexId| self.mask.iter().any(|(_, p)| p.mentions(i));
        let rest = || self.without_mask();
        let indices = || (0..rank + self.sums.len()).map(IndexId::from_index);
        let ties = |p: &&Pred| matches!(p, Pred::Zero(_)) && indices().any(|i| asked(i) && p.mentions(i));
        let is_tied = |i: IndexId| rest().filter(ties).any(|p| p.mentions(i));
        let gens = || (0..rank).map(IndexId::from_index);
        if !gens().any(|i| asked(i) || is_tied(i)) {
            return false;
        }
        // An equation gives one of its indices a value.
        let mut open: Vec<IndexId> = indices().filter(|i| !asked(*i)).collect();
        let mut equations: Vec<Pred> = rest().cloned().collect();
        loop {
            let first = solutions(&open, &equations).next().map(|(at, given, _)| (at, given));
            let Some((at, given)) = first else { break };
            equations.remove(at);
            open.retain(|i| *i != given);
        }
        let extent = |i: &IndexId| stmt.dims.iter().chain(self.sums).nth(i.index());
        let (literal, long): (Vec<&Size>, Vec<&Size>) =
            open.iter().filter_map(extent).partition(|n| n.as_constant().is_some());
        let times = literal.iter().filter_map(|n| n.as_constant()).fold(1, i64::saturating_mul);
        !long.is_empty() || times >= REPEATED
    }

    fn without_mask(&self) -> impl Iterator<Item = &'a Pred> {
        self.guard.conjuncts().iter().filter(|p| !self.mask.iter().any(|(own, _)| own == p))
    }

    /// The sum without the mask, of the factor where that holds.
    fn sum(&self, stmt: &Stmt, builder: &mut Builder) -> Result<VarId> {
        let guard = Pred::all(self.without_mask().cloned().collect::<Vec<_>>());
        let product = self.product(stmt, builder, guard)?;
        builder.push(&product)
    }

    /// The same, and the sum with the mask.
    fn products(&self, stmt: &Stmt, builder: &mut Builder) -> Result<[VarId; 2]> {
        let second = self.product(stmt, builder, self.guard.clone())?;
        Ok([self.sum(stmt, builder)?, builder.push(&second)?])
    }

    /// The product of the factor where the mask holds.
    fn product(&self, stmt: &Stmt, builder: &mut Builder, guard: Pred) -> Result<Stmt> {
        let masked = Operand { var: self.masked(stmt, builder)?, indices: self.indices().to_vec() };
        let operands = std::iter::once(&masked).chain(self.other).cloned().collect();
        Ok(Stmt { dims: stmt.dims.clone(), rhs: Rhs::Contract { sums: self.sums.to_vec(), guard, operands } })
    }

    /// The mask at the axes of the factor.
    fn of_factor(&self) -> Checked<Vec<Pred>> {
        let axis = |i: IndexId| self.indices().iter().position(|j| *j == i).map(|k| IndexId::from_index(k).into());
        self.mask.iter().map(|(_, p)| p.substitute(&axis)).collect()
    }

    /// The factor where the mask holds.
    fn masked(&self, stmt: &Stmt, builder: &mut Builder) -> Result<VarId> {
        let mask = self.of_factor()?;
        let (dims, operand) = match &self.factor {
            Factor::Operand(Operand { var, .. }) => {
                if has(&|x| builder.stmt(x), *var, &mask) {
                    return Ok(*var);
                }
                let dims = builder.stmt(*var).dims.clone();
                let indices = (0..dims.len()).map(IndexId::from_index).collect();
                (dims, Operand { var: *var, indices })
            }
            Factor::Mask(indices) => {
                let extents: Vec<&Size> = stmt.dims.iter().chain(self.sums).collect();
                let dims = indices.iter().filter_map(|i| extents.get(i.index()).copied().cloned()).collect();
                let one = Stmt { dims: Vec::new(), rhs: Rhs::Number(Number::Literal(1.0)) };
                (dims, Operand { var: builder.push(&one)?, indices: Vec::new() })
            }
        };
        let (sums, guard, operands) = (Vec::new(), Pred::all(mask), vec![operand]);
        builder.push(&Stmt { dims, rhs: Rhs::Contract { sums, guard, operands } })
    }
}

/// Whether a tensor is 0 where a mask fails, as its statement says: it has the mask itself, or it is a sum over nothing there.
fn has<'a>(stmt: &dyn Fn(VarId) -> &'a Stmt, x: VarId, mask: &[Pred]) -> bool {
    let own = match &stmt(x).rhs {
        Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => guard.conjuncts(),
        Rhs::Input { .. } | Rhs::Number(_) | Rhs::Add(_) => return false,
    };
    mask.iter().all(|p| own.contains(p) || said(stmt, p).is_some_and(|p| are_empty(&p, x, stmt)))
}

/// The predicate whose truth value a conjunct asks for.
fn said<'a>(stmt: &dyn Fn(VarId) -> &'a Stmt, p: &Pred) -> Option<Pred> {
    let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } = p else {
        return None;
    };
    let Rhs::Contract { sums, guard, operands } = &stmt(*var).rhs else { return None };
    let is_one = |x: &Operand| matches!(stmt(x.var).rhs, Rhs::Number(Number::Literal(x)) if x == 1.0);
    let is_truth = sums.is_empty() && operands.iter().all(is_one);
    is_truth.then(|| guard.substitute(&|i| args.get(i.index()).cloned()).ok()).flatten()
}

/// Whether a conjunct holds at many places, as far as is known.
fn is_dense(p: &Pred) -> bool {
    let mut dense = true;
    match p {
        Pred::Relation { holds: false, .. } => {}
        p if is_range(p) => {}
        p => p.visit_relations(&mut |relation| dense &= matches!(relation, RelationRef::Computed { .. })),
    }
    dense
}

/// Whether a conjunct bounds an index by what relations of the data have in its row, as `t <= last(i)` does.
fn is_range(p: &Pred) -> bool {
    let Pred::Exists { index, body, .. } = p else { return false };
    let is_row = |p: &Pred| {
        matches!(p, Pred::Relation { relation: RelationRef::Input(_), args, holds: true }
            if args.iter().filter(|a| a.as_index() == Some(*index)).count() == 1 && args.iter().all(|a| a.as_index().is_some()))
    };
    let is_bound = |p: &Pred| matches!(p, Pred::NonNegative(a) if a.mentions(*index));
    let (rows, others): (Vec<&Pred>, Vec<&Pred>) = body.conjuncts().iter().partition(|p| is_row(p));
    rows.len() == 1 && !others.is_empty() && others.into_iter().all(is_bound)
}

/// What a conjunct says at indices of a factor, which has each of them once: of numbers, whether they are zero, that indices differ, or that a relation
/// does not hold.
fn at_factor(p: &Pred, indices: &[IndexId], guard: &Pred) -> Option<Pred> {
    if !distinct(indices) {
        return None;
    }
    let (relation, args, holds) = match p {
        Pred::NonZero(a) => {
            let is_own = |(v, _): &(Var, i64)| match v {
                Var::Index(i) => indices.contains(i),
                Var::Size(_) => true,
                Var::Apply(_) => false,
            };
            let differ = indices.iter().filter(|i| a.mentions(**i)).count() >= 2;
            return (differ && a.terms().iter().all(is_own)).then(|| p.clone());
        }
        Pred::Exists { .. } if is_range(p) => {
            let mut is_own = true;
            p.visit_free(&mut |i| is_own &= indices.contains(&i));
            return is_own.then(|| p.clone());
        }
        Pred::Relation { relation: relation @ RelationRef::Computed { view: View::Support, .. }, args, holds } => {
            (relation, args, holds)
        }
        Pred::Relation { relation: relation @ RelationRef::Input(_), args, holds: holds @ false } => {
            (relation, args, holds)
        }
        _ => return None,
    };
    // An equation may give the value of an index of the factor.
    let named = |a: &Affine| match a.as_index() {
        Some(i) if indices.contains(&i) => Some(i),
        _ => indices.iter().copied().find(|i| guard.conjuncts().iter().any(|p| solution(*i, p).as_ref() == Some(a))),
    };
    let args = args.iter().map(|a| named(a).map(Affine::index)).collect::<Option<_>>()?;
    Some(Pred::Relation { relation: *relation, args, holds: *holds })
}

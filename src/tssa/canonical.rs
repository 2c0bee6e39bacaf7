//! Canonical index names inside a statement.
//!
//! `gen` indices are numbered by axis, `sum` indices by their first occurrence in the operands and then in the guard, bound indices by
//! their depth. An equation `s = i` between a `sum` index and another index of the same range is solved: `s` is renamed to `i`.

use std::collections::BTreeMap;

use super::build::Builder;
use super::data::{Operand, Rhs, Stmt};
use crate::base::{IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::solver::{Facts, solutions};

/// A renaming of the indices of one statement to their canonical numbers.
pub(super) struct Canonical {
    numbers: BTreeMap<IndexId, IndexId>,
}

impl Canonical {
    pub(super) fn new(gens: &[(IndexId, Size)], sums: &[IndexId]) -> Self {
        let indices = gens.iter().map(|(i, _)| *i).chain(sums.iter().copied());
        Canonical { numbers: indices.zip(0..).map(|(i, number)| (i, IndexId(number))).collect() }
    }

    pub(super) fn affine(&self, a: &Affine) -> Checked<Affine> {
        a.substitute(&|i| self.numbers.get(&i).copied().map(Affine::index))
    }

    /// Renames free indices by the table and bound ones by depth.
    pub(super) fn pred(&mut self, p: &Pred) -> Checked<Pred> {
        Ok(match p {
            Pred::All(ps) => Pred::all(ps.iter().map(|p| self.pred(p)).collect::<Checked<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| self.pred(p)).collect::<Checked<Vec<_>>>()?),
            Pred::Exists { index, extent, body } => {
                // The table holds the indices in scope, so its size is the next number.
                let number = IndexId(self.numbers.len() as u32);
                let shadowed = self.numbers.insert(*index, number);
                let body = self.pred(body)?;
                match shadowed {
                    Some(outer) => self.numbers.insert(*index, outer),
                    None => self.numbers.remove(index),
                };
                Pred::exists(number, extent.clone(), body)
            }
            atom => atom.map_affine(&mut |a| self.affine(a))?,
        })
    }
}

/// A guard over some axes with indices numbered: equal for guards that differ in the names of indices only.
pub(crate) fn canonical_guard(axes: &[(IndexId, Size)], guard: &Pred) -> Checked<Pred> {
    Canonical::new(axes, &[]).pred(guard)
}

/// Larger guards are left as they are.
const MAX_SIMPLIFIED: usize = 24;

/// The guard without what the ranges of its indices imply.
pub(crate) fn within<'a>(ranges: impl Iterator<Item = &'a (IndexId, Size)>, guard: Pred) -> Pred {
    if guard.is_true() || guard.weight() > MAX_SIMPLIFIED {
        return guard;
    }
    Facts::new().under(ranges, []).simplify(&guard)
}

/// `gen g. sum s. [p] * X0[..] * ..`, canonical.
pub(super) fn contract(
    builder: &mut Builder,
    gens: &[(IndexId, Size)],
    sums: &[(IndexId, Size)],
    guard: Pred,
    mut operands: Vec<Operand>,
) -> Result<VarId> {
    if !(1..=2).contains(&operands.len()) {
        return Err(Error::bug("tensor-ssa", format!("a contraction over {} operands", operands.len())));
    }
    let (sums, guard) = solve(gens, sums.to_vec(), guard, &mut operands)?;
    let guard = within(gens.iter().chain(&sums), guard);
    let mut best: Option<Stmt> = None;
    operands.sort_by_key(|x| x.var);
    let same = operands.len() == 2 && operands[0].var == operands[1].var;
    // Two reads of one tensor have no order of their own: the smaller statement wins.
    for swap in [false, true] {
        if swap && !same {
            break;
        }
        let mut operands = operands.clone();
        if swap {
            operands.reverse();
        }
        let stmt = number(gens, &sums, &guard, operands)?;
        let key = |stmt: &Stmt| match &stmt.rhs {
            Rhs::Contract { operands, guard, .. } => Some((operands.clone(), guard.clone())),
            _ => None,
        };
        if best.as_ref().is_none_or(|b| key(&stmt) < key(b)) {
            best = Some(stmt);
        }
    }
    let stmt = best.ok_or_else(|| Error::bug("tensor-ssa", "no contraction"))?;
    Ok(builder.intern(stmt))
}

/// Solves `s = i` for `sum` indices `s`, where both have the same range.
fn solve(
    gens: &[(IndexId, Size)],
    mut sums: Vec<(IndexId, Size)>,
    mut guard: Pred,
    operands: &mut [Operand],
) -> Result<(Vec<(IndexId, Size)>, Pred)> {
    loop {
        let range = |i: IndexId| gens.iter().chain(&sums).find(|(j, _)| *j == i).map(|(_, n)| n);
        let summed: Vec<IndexId> = sums.iter().map(|(s, _)| *s).collect();
        let solved = guard.conjuncts().iter().find_map(|p| {
            let equal = solutions(&summed, std::slice::from_ref(p)).filter_map(|(_, s, a)| Some((s, a.as_index()?)));
            // The later of two `sum` indices goes.
            equal.filter(|(s, i)| range(*s) == range(*i)).last()
        });
        let Some((from, to)) = solved else { return Ok((sums, guard)) };
        sums.retain(|(s, _)| *s != from);
        guard = guard.substitute(&|i| (i == from).then(|| Affine::index(to)))?;
        for i in operands.iter_mut().flat_map(|x| &mut x.indices) {
            if *i == from {
                *i = to;
            }
        }
    }
}

/// The statement under canonical numbers, for operands in a given order.
fn number(gens: &[(IndexId, Size)], sums: &[(IndexId, Size)], guard: &Pred, operands: Vec<Operand>) -> Result<Stmt> {
    let mut order: Vec<IndexId> = Vec::with_capacity(sums.len());
    let mut meet = |i: IndexId| {
        if sums.iter().any(|(s, _)| *s == i) && !order.contains(&i) {
            order.push(i);
        }
    };
    operands.iter().flat_map(|x| &x.indices).for_each(|i| meet(*i));
    guard.visit_affine(&mut |a| {
        a.visit(&mut |v| {
            if let Var::Index(i) = v {
                meet(*i);
            }
        });
    });
    sums.iter().for_each(|(s, _)| meet(*s));
    let mut canonical = Canonical::new(gens, &order);
    let guard = canonical.pred(guard)?;
    let operands = operands
        .into_iter()
        .map(|x| {
            let indices = x.indices.iter().map(|i| canonical.numbers.get(i).copied());
            let indices = indices.collect::<Option<Vec<_>>>();
            let indices = indices.ok_or_else(|| Error::bug("tensor-ssa", "an operand is read at an unbound index"))?;
            Ok(Operand { var: x.var, indices })
        })
        .collect::<Result<Vec<_>>>()?;
    let extent = |s: &IndexId| sums.iter().find(|(i, _)| i == s).map(|(_, n)| n.clone());
    let sums = order.iter().filter_map(extent).collect();
    Ok(Stmt { dims: gens.iter().map(|(_, n)| n.clone()).collect(), rhs: Rhs::Contract { sums, guard, operands } })
}

//! Axes of intermediate tensors come in the order in which they are read.
//!
//! ```text
//! let t = gen j, k, i. f(a[i, j, k]) in gen i, j. sum k. t[j, k, i] * b[i, j, k]
//!   ==  let t = gen i, j, k. f(a[i, j, k]) in gen i, j. sum k. t[i, j, k] * b[i, j, k]
//! ```
//!
//! Loops over a tensor are in the order of its axes, and nests join where their outer loops are alike. Simplification numbers axes as expressions happen to
//! mention them, so the heads of a layer may be innermost in one tensor and outermost in the next.
//!
//! Each read at two `gen` indices of its reader wishes the axis of the outer one to come before that of the inner one. From the results back, an axis comes
//! before another one if more reads wish so than the contrary; else they stay. `sum` indices wish nothing: products are computed in blocks, however they lie.
//!
//! **Why it is right.** A tensor with its axes in another order, read with its indices in that order, has the same elements, and sums stay as they are.
//!
//! **What it refuses.** What has axes in common stays together: what is added up or given to a function has the axes of the result. Parameters, results, and
//! tensors that guards ask keep theirs, and so do those together with them; numbers are written anew.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::base::{Id, IndexId, SideTable, VarId, work};
use crate::error::Result;
use crate::tssa::{Builder, Program, Rhs, Stmt};

/// For each axis in its new order the one that it was.
type Order = Vec<usize>;

/// The program with such axes.
pub(super) fn ordered(program: &Program) -> Result<Cow<'_, Program>> {
    let orders = orders(program);
    if program.stmts.ids().all(|x| orders[x].is_none()) {
        return Ok(Cow::Borrowed(program));
    }
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let mut open = builder.open_stmt(stmt)?;
        let order = orders[x].as_ref();
        open.gens = in_order(order, &open.gens);
        match (&mut open.rhs, &program.stmts[x].rhs) {
            (Rhs::Contract { operands, .. }, Rhs::Contract { operands: before, .. }) => {
                for (operand, before) in operands.iter_mut().zip(before) {
                    operand.indices = in_order(orders[before.var].as_ref(), &operand.indices);
                }
            }
            (Rhs::Add([(_, y), (_, z)]), _) => (*y, *z) = (number(builder, *y, order)?, number(builder, *z, order)?),
            (Rhs::Map { args, .. }, _) => {
                for y in args {
                    *y = number(builder, *y, order)?;
                }
            }
            _ => {}
        }
        builder.close(open)
    })?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// What there is for each axis, in another order of the axes.
fn in_order<T: Clone>(order: Option<&Order>, axes: &[T]) -> Vec<T> {
    match order {
        Some(order) => order.iter().filter_map(|k| axes.get(*k).cloned()).collect(),
        None => axes.to_vec(),
    }
}

/// An operand along the axes of a statement: a number for each element is written with these in their order.
fn number(builder: &mut Builder, x: VarId, order: Option<&Order>) -> Result<VarId> {
    if order.is_none() || !matches!(builder.stmt(x).rhs, Rhs::Number(_)) {
        return Ok(x);
    }
    let mut open = builder.open(x)?;
    open.gens = in_order(order, &open.gens);
    builder.close(open)
}

/// The tensors that have their axes in common.
struct Groups {
    /// Of each statement a group, and of each group one that it became a part of.
    of: Vec<usize>,
}

impl Groups {
    fn new(program: &Program) -> Groups {
        let mut groups = Groups { of: (0..program.stmts.len()).collect() };
        for (x, stmt) in program.stmts.iter().filter(|(_, stmt)| matches!(stmt.rhs, Rhs::Add(_) | Rhs::Map { .. })) {
            let operands: Vec<VarId> = match &stmt.rhs {
                Rhs::Add(sides) => sides.iter().map(|(_, y)| *y).collect(),
                Rhs::Map { args, .. } => args.clone(),
                _ => Vec::new(),
            };
            for y in operands.into_iter().filter(|y| !matches!(program.stmts[*y].rhs, Rhs::Number(_))) {
                let (a, b) = (groups.find(x), groups.find(y));
                groups.of[a.min(b)] = a.max(b);
            }
        }
        groups
    }

    /// The group of a statement, by its last one.
    fn find(&mut self, x: VarId) -> usize {
        let mut at = x.index();
        while self.of[at] != at {
            self.of[at] = self.of[self.of[at]];
            at = self.of[at];
        }
        at
    }
}

/// The orders of the axes of tensors that are not as they were.
fn orders(program: &Program) -> SideTable<VarId, Option<Order>> {
    let mut groups = Groups::new(program);
    let mut fixed: BTreeSet<usize> = BTreeSet::new();
    let mut stay: Vec<VarId> = program.outputs.iter().flat_map(|output| output.leaves.iter().copied()).collect();
    for (x, stmt) in program.stmts.iter() {
        stmt.rhs.guards().for_each(|p| p.visit_computed(&mut |y| stay.push(y)));
        if stmt.dims.len() < 2 || matches!(stmt.rhs, Rhs::Input { .. } | Rhs::Number(_)) {
            stay.push(x);
        }
    }
    fixed.extend(stay.into_iter().map(|x| groups.find(x)));

    let mut orders: SideTable<VarId, Option<Order>> = SideTable::new(program.stmts.len(), None);
    let mut wishes: Vec<Vec<(usize, usize)>> = vec![Vec::new(); program.stmts.len()];
    let mut members: Vec<Vec<VarId>> = vec![Vec::new(); program.stmts.len()];
    for x in program.stmts.ids() {
        members[groups.find(x)].push(x);
    }
    // A group comes after all that read its last tensor; of the others some may not be known yet, and count as they are.
    for last in program.stmts.ids().rev() {
        let group = groups.find(last);
        if group != last.index() {
            continue;
        }
        let rank = program.stmts[last].dims.len();
        let order = if fixed.contains(&group) { None } else { order(rank, &wishes[group]) };
        for x in &members[group] {
            orders.set(*x, order.clone());
            wish(&program.stmts[*x], order.as_ref(), &mut |y, pair| wishes[groups.find(y)].push(pair));
        }
    }
    orders
}

/// Which axes of what a statement reads would come before which other ones.
fn wish(stmt: &Stmt, order: Option<&Order>, wish: &mut dyn FnMut(VarId, (usize, usize))) {
    let Rhs::Contract { guard, operands, .. } = &stmt.rhs else { return };
    let rank = stmt.dims.len();
    let place = |k: usize| order.map_or(Some(k), |order| order.iter().position(|axis| *axis == k));
    let tied = |i: IndexId| if i.index() < rank { Some(i) } else { stmt.tied(i, guard.conjuncts()) };
    for operand in operands {
        work::charge(1 + operand.indices.len());
        let places: Vec<Option<usize>> =
            operand.indices.iter().map(|i| tied(*i).and_then(|i| place(i.index()))).collect();
        for (a, outer) in places.iter().enumerate() {
            for (b, inner) in places.iter().enumerate() {
                if let (Some(outer), Some(inner)) = (outer, inner)
                    && outer < inner
                {
                    wish(operand.var, (a, b));
                }
            }
        }
    }
}

/// The order of axes with which wishes that some come before others are met, those first that are first; nothing for that which they have.
fn order(rank: usize, wishes: &[(usize, usize)]) -> Option<Order> {
    work::charge(wishes.len());
    let mut counts = vec![vec![0_usize; rank]; rank];
    for (outer, inner) in wishes {
        counts[*outer][*inner] += 1;
    }
    let mut left: Vec<usize> = (0..rank).collect();
    let mut order = Vec::with_capacity(rank);
    while let Some(first) = left.first().copied() {
        // On to one that comes before it, as long as there is one; wishes may go round.
        let (mut axis, mut passed) = (first, BTreeSet::new());
        while passed.insert(axis)
            && let Some(before) = left.iter().find(|b| counts[**b][axis] > counts[axis][**b] && !passed.contains(b))
        {
            axis = *before;
        }
        left.retain(|other| *other != axis);
        order.push(axis);
    }
    (!order.iter().copied().eq(0..rank)).then_some(order)
}

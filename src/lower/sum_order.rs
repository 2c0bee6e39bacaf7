//! The order of the indices of a sum over several.
//!
//! `sum i < m, j < n. f(a[i], Y[j, i])` is the same number with its indices in another order, and programs say nothing by it: simplification puts them as
//! it finds them. Where nothing but their ranges tells them, the index comes last with which what is read at several indices is gone through row
//! by row: the last one of most of these places, where it is no other one's earlier one. Summands that are sums themselves stay as they are, since
//! products are computed in blocks of registers; but for those over a part of a range that one of the indices tells, as rows of a triangle, or over the entries of
//! a row of a relation, which have no blocks: the other index comes innermost, and each row is gone through once for all of its values.
//!
//! What is stored between counts as it will be stored, with the axis last along which it is made of neighbours.
//!
//! Indices of a few values, as the coordinates of a point, come behind those of many: what depends on the points alone is computed once for all
//! coordinates, and parts and lanes are of many values.
//!
//! Summands are added in another order than the one that is written.

use std::collections::BTreeSet;

use super::plan::{MAX_INLINED, Placement};
use super::readers::collect_places;
use crate::base::{Id, SideTable, VarId};
use crate::index::{Pred, Size};
use crate::schedule::machine::FEW;
use crate::tssa::{Program, Stmt};

/// The indices of a sum by number, from the outermost to the innermost; nothing where they may stay as they are.
pub(super) fn order(program: &Program, placements: &SideTable<VarId, Placement>, x: VarId) -> Option<Vec<usize>> {
    let sums = program.stmts[x].rhs.sums();
    let literals: Vec<Option<i64>> = sums.iter().map(Size::as_constant).collect();
    if sums.len() < 2 || literals.iter().flatten().any(|n| *n > FEW) {
        return None;
    }
    let (few, mut order): (Vec<usize>, Vec<usize>) =
        (0..sums.len()).partition(|k| literals.get(*k).is_some_and(Option::is_some));
    if few.is_empty() {
        let innermost = order.remove(innermost(program, placements, x)?);
        order.push(innermost);
        return Some(order);
    }
    order.extend(few);
    (!order.is_sorted()).then_some(order)
}

/// By number, the index of a sum that comes innermost; nothing where the last one may.
fn innermost(program: &Program, placements: &SideTable<VarId, Placement>, x: VarId) -> Option<usize> {
    let stmt = &program.stmts[x];
    let (rank, sums) = (stmt.dims.len(), stmt.rhs.sums());
    let names: Vec<usize> = (rank..rank.saturating_add(sums.len())).collect();
    let mut places = loads(program, placements, x)?;
    // What is stored between will have its axes as what it is made of has them.
    places.iter_mut().for_each(|(y, at)| {
        if matches!(&placements[*y], Placement::Stored(stored) if stored.entries.is_none())
            && let Some(axis) = last_axis(program, placements, *y).filter(|axis| *axis < at.len())
        {
            let last = at.remove(axis);
            at.push(last);
        }
    });
    neighbours(&names, &places)
}

/// The axis along which neighbours are read for what is stored; nothing where it is the last one.
fn last_axis(program: &Program, placements: &SideTable<VarId, Placement>, x: VarId) -> Option<usize> {
    let stmt = &program.stmts[x];
    if stmt.dims.len() < 2 || !stmt.rhs.sums().is_empty() && stmt.cases(&program.signature).is_none() {
        return None;
    }
    let names: Vec<usize> = (0..stmt.dims.len()).collect();
    neighbours(&names, &loads(program, placements, x)?)
}

/// By number, the index that is the last one of most places, where it is no other one's earlier one; nothing where the last of them is.
fn neighbours(names: &[usize], places: &[(VarId, Vec<usize>)]) -> Option<usize> {
    let mut gains = vec![0_i64; names.len()];
    for (_, at) in places {
        let Some((last, before)) = at.split_last().filter(|(_, before)| !before.is_empty()) else { continue };
        for (name, gain) in names.iter().zip(&mut gains) {
            if before.contains(name) {
                *gain = gain.saturating_sub(1);
            } else if last == name {
                *gain = gain.saturating_add(1);
            }
        }
    }
    let (own, others) = gains.split_last()?;
    let best = others.iter().copied().enumerate().max_by_key(|(at, gain)| (*gain, std::cmp::Reverse(*at)));
    best.filter(|(_, gain)| gain > own && *gain > 0).map(|(at, _)| at)
}

/// Whether a sum goes over a part of a range, or the entries of a row, that an axis tells.
fn is_ragged(stmt: &Stmt) -> bool {
    let rank = stmt.dims.len();
    let is_bound = |p: &Pred| {
        let (mut of_axis, mut of_sum) = (false, false);
        p.visit_free(&mut |i| {
            of_axis |= i.index() < rank;
            of_sum |= i.index() >= rank;
        });
        let tells = match p {
            Pred::NonNegative(_) => true,
            Pred::Relation { relation, holds, .. } => *holds && relation.computed_from().is_none(),
            _ => false,
        };
        tells && of_axis && of_sum
    };
    stmt.rhs.guards().any(|guard| guard.conjuncts().iter().any(is_bound))
}

/// What is loaded for a summand, and where: the axes of the tensor by number, then the indices of its sum, then others. Nothing where that is much, or
/// takes another loop.
fn loads(program: &Program, placements: &SideTable<VarId, Placement>, x: VarId) -> Option<Vec<(VarId, Vec<usize>)>> {
    let own = &program.stmts[x];
    let mut names = own.dims.len().saturating_add(own.rhs.sums().len());
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    let mut open = vec![(x, (0..names).collect::<Vec<usize>>())];
    while let Some((y, at)) = open.pop() {
        let stmt = &program.stmts[y];
        let stays = || stmt.cases(&program.signature).is_none() && !is_ragged(stmt);
        if seen.len() > MAX_INLINED || y != x && stays() {
            return None;
        }
        collect_places(stmt, &at, &mut names, &mut |z, place| {
            let Some(place) = place else { return };
            if !matches!(placements[z], Placement::Inline(_)) {
                found.insert((z, place));
            } else if seen.insert((z, place.clone())) {
                open.push((z, place));
            }
        });
    }
    Some(found.into_iter().collect())
}

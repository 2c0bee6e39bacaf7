//! Rows that no step mixes, a block of them through all steps.
//!
//! ```text
//! for t                                   for b in 0 .. (n - 1)/64, parallel
//!   for i in 0 .. n - 1                     for t
//!     q[i, ..] = F(q[i, ..])      ==          for i in 64b .. min(64b + 63, n - 1)
//!   for i in 0 .. n - 1                         q[i, ..] = F(q[i, ..])
//!     w[i, ..] = G(q[i, ..])                  for i in 64b .. min(64b + 63, n - 1)
//!                                               w[i, ..] = G(q[i, ..])
//! ```
//!
//! So the states of a block stay in the first cache, and blocks run at the same time. A step may be cut so if it is loops over one range, and of each
//! buffer that it writes all places have the loop's index at one axis: what a row needs of other steps is of the same row. Every number is computed as
//! before. A loop that ends where no row changes has each block end where its rows do not: further steps would leave them as they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::IndexId;
use crate::index::{Affine, Checked};
use crate::loops::{Bound, BufferId, Decision, Domain, Fresh, Place, RealId, Stmt, changed_outside, loads, stores};
use crate::schedule::Rows;
use crate::schedule::machine::STEP_ROWS;

/// Has the loop over steps at the end of a nest run for blocks of rows, and what gives the first states before it, if that is of rows, too.
pub(super) fn in_blocks(nest: &mut Vec<Stmt>, names: &mut Fresh) -> Checked<Option<Decision>> {
    let Some((Stmt::For { body, lanes: 1, jam: 1, parallel: false, .. }, first)) = nest.split_last() else {
        return Ok(None);
    };
    let Some(last) = last_row(body.iter()) else { return Ok(None) };
    let all = last_row(first.iter().chain(body)).is_some();
    let Some(mut steps) = nest.pop() else { return Ok(None) };
    let block = names.fresh_index();
    let rows = Rows { last };
    let (blocks, rows) = (rows.blocks(), rows.of_block(&block.into())?);
    let of_block = |stmt: &mut Stmt| {
        if let Stmt::For { domain, .. } = stmt {
            *domain = rows.clone();
        }
    };
    if let Stmt::For { body, .. } = &mut steps {
        body.iter_mut().for_each(of_block);
    }
    let mut inside = if all { std::mem::take(nest) } else { Vec::new() };
    inside.iter_mut().for_each(of_block);
    inside.push(steps);
    nest.push(Stmt::For { index: block, domain: blocks, lanes: 1, jam: 1, parallel: true, body: inside });
    Ok(Some(Decision::RowsOfSteps { rows: STEP_ROWS }))
}

/// The last row, where statements do not mix rows.
fn last_row<'s>(stmts: impl Iterator<Item = &'s Stmt> + Clone) -> Option<Affine> {
    let written: Vec<BufferId> = stores(stmts.clone()).into_iter().map(|place| place.buffer).collect();
    // What a step adds up is asked for by its end alone.
    let ends = stmts.clone().filter_map(|stmt| if let Stmt::End(r) = stmt { Some(*r) } else { None });
    let ends: BTreeSet<RealId> = ends.collect();
    let is_written = |place: &&Place| written.contains(&place.buffer);
    let mut all: Option<&Domain> = None;
    // The axes at which a buffer has the row in all places.
    let mut axes: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
    for stmt in stmts {
        match stmt {
            Stmt::Define(..) if stmt.load().filter(is_written).is_none() => {}
            Stmt::Local(r) if ends.contains(r) => {}
            Stmt::End(_) => {}
            Stmt::For { index, domain, parallel: false, body, .. } => {
                let same = all.is_none_or(|all| all == domain);
                let mut fills = false;
                stmt.visit(&mut |stmt| fills |= matches!(stmt, Stmt::Fill(_) | Stmt::Tuple(..)));
                if !same || fills || !changed_outside(body).is_subset(&ends) {
                    return None;
                }
                all = Some(domain);
                for place in loads([stmt]).into_iter().chain(stores([stmt])).filter(is_written) {
                    let known = axes.entry(place.buffer).or_insert_with(|| (0..place.at.len()).collect());
                    known.retain(|axis| is_row(place, *axis, *index));
                }
            }
            _ => return None,
        }
    }
    let Domain::Range { lower, upper } = all? else { return None };
    let from_zero = *lower == [Bound::exact(Affine::constant(0))];
    match upper.as_slice() {
        [Bound { numerator, divisor: 1 }] if from_zero && axes.values().all(|axes| !axes.is_empty()) => {
            Some(numerator.clone())
        }
        _ => None,
    }
}

fn is_row(place: &Place, axis: usize, row: IndexId) -> bool {
    place.at.get(axis).and_then(Affine::as_index) == Some(row)
}

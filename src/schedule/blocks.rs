//! Long sums of a matrix product, a block of terms at a time.
//!
//! ```text
//! for i, jam 8                               for q in 0 .. 15
//!   for j, lanes 16                            for t in 0 .. (p - 1)/256
//!     local r                                    for i in part q of 16, jam 8
//!     for k in 0 .. p - 1              ==          for j, lanes 16
//!       r += a[k, i] * b[k, j]                       local r
//!     c[i, j] = r                                    if t >= 1: r := c[i, j]
//!                                                    for k in 256t .. min(256t + 255, p - 1)
//!                                                      r += a[k, i] * b[k, j]
//!                                                    c[i, j] = r
//! ```
//!
//! Terms far apart in memory are in as many lines and pages as there are terms, of which each holds some for the next columns and rows too. Those of
//! a block are still in the nearest caches then. A sum goes on from what is stored of it, so it has the same terms in the same order, and
//! this changes no bit. It is refused where anything but the sum is stored.

use super::machine::{BLOCK_ROWS, BLOCK_TERMS, PANEL_PARTS};
use crate::base::IndexId;
use crate::index::{Affine, Checked};
use crate::loops::{Bound, Cond, Domain, Fresh, Place, Real, RealId, Stmt};

/// A product whose rows are cut into parts, each of which computes its sums in blocks; nothing where it cannot be.
pub(super) fn in_blocks(rows: &Stmt, column: IndexId, summed: IndexId, names: &mut Fresh) -> Checked<Option<Stmt>> {
    let [part, block] = [(); 2].map(|()| names.fresh_index());
    let before = names.fresh_real();
    let mut rows = rows.clone();
    if !go_on(&mut rows, &Indices { column, summed, block }, before)? {
        return Ok(None);
    }
    let Stmt::For { domain, parallel, body, .. } = &mut rows else { return Ok(None) };
    let Some(last) = last_term(body, summed) else { return Ok(None) };
    *parallel = false;
    let whole = Box::new(domain.clone());
    *domain = Domain::Part { whole, part: part.into(), parts: PANEL_PARTS, grain: BLOCK_ROWS };
    let blocks = Domain::Range {
        lower: vec![Bound::exact(Affine::constant(0))],
        upper: vec![Bound { numerator: last, divisor: BLOCK_TERMS }],
    };
    Ok(Some(Stmt::For {
        index: part,
        domain: Domain::whole(&Affine::constant(i64::from(PANEL_PARTS)))?,
        lanes: 1,
        jam: 1,
        parallel: true,
        body: vec![Stmt::one_by_one(block, blocks, vec![rows])],
    }))
}

struct Indices {
    column: IndexId,
    summed: IndexId,
    block: IndexId,
}

/// The last term of the sum, of those that it had as a whole: the first of its ends.
fn last_term(body: &[Stmt], summed: IndexId) -> Option<Affine> {
    let mut found = None;
    body.iter().for_each(|stmt| {
        stmt.visit(&mut |stmt| {
            if let Stmt::For { index, domain: Domain::Range { upper, .. }, .. } = stmt
                && *index == summed
            {
                found = upper.first().map(|bound| bound.numerator.clone());
            }
        });
    });
    found
}

/// Has the sum of a column take the terms of a block, and go on from what is stored. Whether it can.
fn go_on(stmt: &mut Stmt, indices: &Indices, before: RealId) -> Checked<bool> {
    let Stmt::For { index, body, .. } = stmt else { return Ok(false) };
    if *index != indices.column {
        let Some(inside) = body.iter_mut().find(|stmt| matches!(stmt, Stmt::For { .. })) else { return Ok(false) };
        return go_on(inside, indices, before);
    }
    let Some((sum, place)) = only_sum(body) else { return Ok(false) };
    let block = Affine::index(indices.block);
    for stmt in body.iter_mut() {
        if let Stmt::For { index, domain: Domain::Range { lower, upper }, .. } = stmt
            && *index == indices.summed
        {
            let first = block.scale(BLOCK_TERMS)?;
            *lower = vec![Bound::exact(first.clone())];
            upper.push(Bound::exact(first.add_constant(BLOCK_TERMS - 1)?));
        }
    }
    let goes_on = vec![Stmt::Define(before, Real::Load(place)), Stmt::Assign(sum, before)];
    body.insert(1, Stmt::If { cond: Cond::NonNegative(block.add_constant(-1)?), body: goes_on });
    Ok(true)
}

/// The sum that is all that a column computes and stores, and its place.
fn only_sum(body: &[Stmt]) -> Option<(RealId, Place)> {
    match body {
        [Stmt::Local(sum), Stmt::For { .. }, Stmt::Store(place, stored)] if sum == stored => {
            Some((*sum, place.clone()))
        }
        _ => None,
    }
}

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
//! this changes no bit. What is computed of the sum, and stored in its place, is so behind the last block. It is refused where anything else is stored.

use super::machine::{BLOCK_ROWS, BLOCK_TERMS, PANEL_PARTS};
use crate::base::IndexId;
use crate::index::{Affine, Checked};
use crate::loops::{Bound, Cond, Domain, Fresh, Place, Real, RealId, Stmt, changed};

/// A product whose rows are cut into parts, each of which computes its sums in blocks; nothing where it cannot be.
pub(super) fn in_blocks(rows: &Stmt, column: IndexId, last: &Affine, names: &mut Fresh) -> Checked<Option<Stmt>> {
    let [part, block] = [(); 2].map(|()| names.fresh_index());
    let mut rows = rows.clone();
    if !go_on(&mut rows, [column, block], last, names.fresh_real())? {
        return Ok(None);
    }
    let Stmt::For { domain, parallel, .. } = &mut rows else { return Ok(None) };
    *parallel = false;
    let whole = Box::new(domain.clone());
    *domain = Domain::Part { whole, part: part.into(), parts: PANEL_PARTS, grain: BLOCK_ROWS };
    let blocks = Domain::Range {
        lower: vec![Bound::exact(Affine::constant(0))],
        upper: vec![Bound { numerator: last.clone(), divisor: BLOCK_TERMS }],
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

/// Has the sum of a column, whose last term is given, take the terms of a block, and go on from what is stored. Whether it can.
fn go_on(stmt: &mut Stmt, [column, block]: [IndexId; 2], last: &Affine, before: RealId) -> Checked<bool> {
    let Stmt::For { index, body, .. } = stmt else { return Ok(false) };
    if *index != column {
        let Some(inside) = body.iter_mut().find(|stmt| matches!(stmt, Stmt::For { .. })) else { return Ok(false) };
        return go_on(inside, [column, block], last, before);
    }
    let Some((at, sum, place)) = only_sum(body) else { return Ok(false) };
    let block = Affine::index(block);
    let first = block.scale(BLOCK_TERMS)?;
    if let Some(Stmt::For { domain: Domain::Range { lower, upper }, .. }) = body.get_mut(at) {
        *lower = vec![Bound::exact(first.clone())];
        upper.push(Bound::exact(first.add_constant(BLOCK_TERMS - 1)?));
    }
    let then = body.split_off(at + 1);
    let goes_on = vec![Stmt::Define(before, Real::Load(place.clone())), Stmt::Assign(sum, before)];
    body.insert(at, Stmt::If { cond: Cond::NonNegative(block.add_constant(-1)?), body: goes_on });
    match then.as_slice() {
        [Stmt::Store(_, stored)] if *stored == sum => body.extend(then),
        _ => {
            let left = last.sub(&first)?.add_constant(-BLOCK_TERMS)?;
            let ends = left.scale(-1)?.add_constant(-1)?;
            body.push(Stmt::If { cond: Cond::NonNegative(left), body: vec![Stmt::Store(place, sum)] });
            body.push(Stmt::If { cond: Cond::NonNegative(ends), body: then });
        }
    }
    Ok(true)
}

/// Where among the statements of a column the loop is whose sum alone it computes something of, the sum, and the place where that is stored.
fn only_sum(body: &[Stmt]) -> Option<(usize, RealId, Place)> {
    let (Stmt::Store(place, _), rest) = body.split_last()? else { return None };
    let at = rest.iter().position(|stmt| matches!(stmt, Stmt::For { .. }))?;
    let (before, after) = (&rest[..at], &rest[at + 1..]);
    let plain =
        |stmt: &Stmt| matches!(stmt, Stmt::Define(..) | Stmt::Local(_) | Stmt::Accumulate(..) | Stmt::MulAdd(..));
    let declares = |stmt: &Stmt| matches!(stmt, Stmt::Define(..) | Stmt::Local(_));
    if !before.iter().all(declares) || !after.iter().all(plain) {
        return None;
    }
    let changed = changed(&rest[at..=at]);
    let mut sums = before.iter().filter_map(|stmt| match stmt {
        Stmt::Local(r) if changed.contains(r) => Some(*r),
        _ => None,
    });
    let sum = sums.next()?;
    sums.next().is_none().then(|| (at, sum, place.clone()))
}

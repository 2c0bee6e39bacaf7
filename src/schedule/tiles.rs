//! Matrix products inside of other loops, a panel of columns at a time.
//!
//! ```text
//! for i, jam 8                               for p in 0 .. (n - 1)/256
//!   for j in 0 .. n - 1, lanes 16              for i, jam 8
//!     local r                                    for j in 256p .. min(256p + 255, n - 1), lanes 16
//!     for k                           ==           local r
//!       r += a[i, k] * b[k, j]                     for k
//!     c[i, j] = r                                    r += a[i, k] * b[k, j]
//!                                                  c[i, j] = r
//! ```
//!
//! What is read of `b` for eight rows of the result is read again for the next eight: of so many columns it is in the second cache. So is the
//! result for loops over the same columns that follow, which take part. Every element is the same sum in the same order, so this changes no
//! bit. It is refused where columns have other bounds in other rows, where anything else is done for a row, and where the loops read what
//! they store. (Products at the top of a nest are [put in panels](super::panels) that lie together, since threads share their rows.)

use super::machine::TILE_COLUMNS;
use super::panels;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{
    Bound, Decision, Domain, Fresh, Place, Program, Stmt, changes_outside, has_loop, inside_of_loops, loads, stores,
};

/// Cuts the columns of products inside of loops.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        inside_of_loops(nest, &Decision::Tiled { columns: TILE_COLUMNS }, inside)?;
    }
    Ok(())
}

fn inside(body: &mut Vec<Stmt>, names: &mut Fresh, found: &mut bool) -> Checked<()> {
    let mut rest = std::mem::take(body).into_iter().peekable();
    while let Some(mut stmt) = rest.next() {
        let Some((column, last)) = last_column(&stmt) else {
            if let Stmt::For { body, .. } | Stmt::If { body, .. } = &mut stmt {
                inside(body, names, found)?;
            }
            body.push(stmt);
            continue;
        };
        *found = true;
        let panel = names.fresh_index();
        let first = Affine::index(panel).scale(TILE_COLUMNS)?;
        let columns = Domain::Range {
            lower: vec![Bound::exact(first.clone())],
            upper: vec![Bound::exact(last.clone()), Bound::exact(first.add_constant(TILE_COLUMNS - 1)?)],
        };
        let mut together = Vec::new();
        let all = Domain::whole(&last.add_constant(1)?)?;
        let rows = stmt.clone();
        if let Stmt::For { body, .. } = &mut stmt
            && let Some(Stmt::For { domain, .. }) = body.last_mut()
        {
            *domain = columns.clone();
        }
        together.push(stmt);
        while let Some(mut next) = rest.next_if(|next| is_before(&rows, next) || follows(&rows, column, &all, next)) {
            match &mut next {
                Stmt::For { domain, .. } => {
                    *domain = columns.clone();
                    together.push(next);
                }
                _ => body.push(next),
            }
        }
        let panels = Domain::Range {
            lower: vec![Bound::exact(Affine::constant(0))],
            upper: vec![Bound { numerator: last, divisor: TILE_COLUMNS }],
        };
        body.push(Stmt::one_by_one(panel, panels, together));
    }
    Ok(())
}

/// Whether a statement loads from a buffer that it stores to.
fn reads_what_it_stores(stmt: &Stmt) -> bool {
    let stores = stores([stmt]);
    loads([stmt]).into_iter().any(|load| stores.iter().any(|place| place.buffer == load.buffer))
}

/// Whether a statement is a number that may as well be known before a product.
fn is_before(rows: &Stmt, next: &Stmt) -> bool {
    let unwritten = |place: &Place| stores([rows]).iter().all(|other| other.buffer != place.buffer);
    matches!(next, Stmt::Define(..)) && next.load().is_none_or(unwritten)
}

/// Whether a loop over all columns that comes after a product reads of it the same column only, and nothing is carried from column to column.
fn follows(rows: &Stmt, column: IndexId, all: &Domain, next: &Stmt) -> bool {
    let Stmt::For { index, domain, parallel: false, body, .. } = next else { return false };
    let written = stores([rows]);
    let axes = |i: IndexId, place: &Place| place.at.iter().map(|a| a.as_index() == Some(i)).collect::<Vec<_>>();
    let same = |load: &Place| {
        let mut here = written.iter().filter(|place| place.buffer == load.buffer);
        here.all(|place| axes(column, place) == axes(*index, load))
    };
    let own = |place: &Place| place.at.iter().any(|a| a.as_index() == Some(*index));
    let mut once = false;
    next.visit(&mut |stmt| once |= matches!(stmt, Stmt::Fill(_) | Stmt::Tuple(..)));
    domain == all
        && !once
        && !changes_outside(body)
        && !reads_what_it_stores(next)
        && loads([next]).into_iter().all(same)
        && stores([next]).into_iter().all(own)
}

/// The column and the last one of a product whose rows are interleaved, if nothing else is done for a row.
fn last_column(rows: &Stmt) -> Option<(IndexId, Affine)> {
    let Stmt::For { lanes: 1, jam: 2.., parallel: false, body, .. } = rows else { return None };
    let (Stmt::For { index, domain, lanes: 2.., jam: 1, body: column, .. }, before) = body.split_last()? else {
        return None;
    };
    let plain = before.iter().all(|stmt| matches!(stmt, Stmt::Define(..)));
    if !plain || !column.iter().any(has_loop) || changes_outside(body) || reads_what_it_stores(rows) {
        return None;
    }
    let last = panels::last(domain)?;
    last.as_constant().is_none_or(|last| TILE_COLUMNS <= last).then(|| (*index, last.clone()))
}

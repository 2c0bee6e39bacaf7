//! Loops over rows that do nothing but go over the entries of each row, as one loop over entries.
//!
//! ```text
//! for i in rows { for p in row i { A } }   ==   for p in rows { A }
//! ```
//!
//! Neighbouring rows have neighbouring entries, so all lanes are in use though rows are short. **Where**: `A` does not know the row, and changes
//! no register outside, of which each row would add up the lanes.

use crate::base::{Id, IndexId};
use crate::loops::{Domain, Program, Stmt, changes_outside, mentioned};

/// The loop over the entries of all rows.
pub(super) struct Flat<'a> {
    pub index: IndexId,
    pub lanes: u32,
    pub body: &'a [Stmt],
    /// The array of where the entries of each row are.
    pub pointers: usize,
}

/// What a loop over rows does, where that is all.
pub(super) fn inside<'a>(program: &Program, row: IndexId, body: &'a [Stmt]) -> Option<Flat<'a>> {
    let [Stmt::For { index, domain: Domain::Segment(segment), lanes, jam: 1, body, .. }] = body else { return None };
    program.arrays.get(segment.pointers)?.level_below()?;
    // What an array gives in steps, it does within a row.
    let is_line =
        |stmt: &Stmt| stmt.body().is_empty() && !matches!(stmt, Stmt::End(_) | Stmt::Let { step: Some(_), .. });
    let flat = segment.at.as_index() == Some(row) && !mentioned(body).contains(&row) && !changes_outside(body);
    let flat = flat && body.iter().all(is_line);
    flat.then_some(Flat { index: *index, lanes: *lanes, body, pointers: segment.pointers.index() })
}

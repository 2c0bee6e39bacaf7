//! Loops of long nests as functions of their own.
//!
//! ```text
//! for i { for j { A }  for k { B }  .. }   ==   for i { apart(|| for j { A })  apart(|| for k { B })  .. }
//! ```
//!
//! What a compiler knows of loops it finds out anew for a whole function after each change of one of them, so a function of many loops takes longer than
//! its length says: the nest of a convolution with pooling and of its gradient is compiled in 28 seconds as one function, and in 7 as nine.
//!
//! **Where it is done.** Among many statements, for loops that have others beside them, around which nothing has lanes or interleaved iterations. They
//! change no register outside, so what they read of registers is copied.

use std::collections::BTreeSet;

use crate::base::IndexId;
use crate::loops::{Nest, Stmt, changes_outside, size};

/// From how many statements on a nest is long.
const LONG: usize = 96;
/// The least statements of a loop that becomes a function.
const LEAST: usize = 8;

/// The loops that become functions.
pub(super) fn apart(nest: &Nest) -> BTreeSet<IndexId> {
    let mut found = BTreeSet::new();
    beside_others(&nest.body, &mut found);
    found
}

/// Those among long statements, and in what is still long of them.
fn beside_others(body: &[Stmt], found: &mut BTreeSet<IndexId>) {
    if size(body) < LONG {
        return;
    }
    let loops: Vec<&Stmt> = body.iter().filter(|stmt| matches!(stmt, Stmt::For { .. })).collect();
    if loops.len() > 1 {
        found.extend(loops.iter().filter_map(|stmt| own_function(stmt)));
    }
    for stmt in loops {
        if let Stmt::For { lanes: 1, jam: 1, body, .. } = stmt {
            beside_others(body, found);
        }
    }
}

/// The index of a loop that can be a function and is long enough.
fn own_function(stmt: &Stmt) -> Option<IndexId> {
    let Stmt::For { index, body, .. } = stmt else { return None };
    (size(body) >= LEAST && !changes_outside(body)).then_some(*index)
}

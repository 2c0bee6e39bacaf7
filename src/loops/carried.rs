//! Places that a loop reads before it stores to them: what iterations before have stored.
//!
//! ```text
//! h[0, ..] = ..                       the first row, before the loop
//! for t in 0 .. T - 1
//!   .. h[t, ..] ..                    the row of the iteration before
//!   h[t + 1, ..] = ..                 the row of this one
//! ```
//!
//! Where a load stands before a store to the same buffer, in the text of a loop around both, it is asked of some such loop that on some axis
//!
//! - both are at the row of the iteration, and something before the load in the same loop stores there, too; or
//! - the load is one row behind the store, iterations come one after the other in the direction of the rows, and before the loop something stores
//!   to the row that the first iteration reads.
//!
//! A buffer that the nest makes zero has numbers in any case.

use std::collections::BTreeSet;

use super::data::{Bound, BufferId, Domain, Nest, Place, Program, Stmt, name_of};
use crate::base::IndexId;
use crate::index::{Affine, Checked, Var};

/// What is read before it may have been stored, in words.
pub(super) fn complaints(program: &Program, nest: &Nest) -> Vec<String> {
    let mut walk = Walk::default();
    nest.body.iter().for_each(|stmt| walk.stmt(stmt));
    let Walk { accesses, filled, .. } = walk;
    let stored: BTreeSet<BufferId> = accesses.iter().filter(|a| a.stores).map(|a| a.place.buffer).collect();
    let mut complaints = Vec::new();
    for (at, load) in accesses.iter().enumerate() {
        let buffer = load.place.buffer;
        if load.stores || filled.contains(&buffer) || !stored.contains(&buffer) {
            continue;
        }
        let (before, after) = accesses.split_at(at);
        let before: Vec<&Access<'_>> = before.iter().filter(|a| a.stores && a.place.buffer == buffer).collect();
        let after = after.iter().filter(|a| a.stores && a.place.buffer == buffer);
        let is_wrong = |store: &Access<'_>| {
            let mut around = load.loops.iter().zip(&store.loops).take_while(|(a, b)| std::ptr::eq(**a, **b)).peekable();
            around.peek().is_some() && !around.any(|(around, _)| follows(around, load, store, &before).unwrap_or(false))
        };
        if after.into_iter().any(is_wrong) {
            complaints.push(format!("{} is read where a later statement stores", name_of(&program.buffers, buffer)));
        }
    }
    complaints
}

/// A place that is loaded or stored to, with the loops around, outside in.
struct Access<'a> {
    place: &'a Place,
    stores: bool,
    loops: Vec<&'a Stmt>,
}

#[derive(Default)]
struct Walk<'a> {
    loops: Vec<&'a Stmt>,
    accesses: Vec<Access<'a>>,
    filled: BTreeSet<BufferId>,
}

impl<'a> Walk<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Fill(buffer) = stmt {
            self.filled.insert(*buffer);
        }
        if let Some(place) = stmt.load().or_else(|| stmt.store()) {
            self.accesses.push(Access { place, stores: stmt.store().is_some(), loops: self.loops.clone() });
        }
        let is_loop = matches!(stmt, Stmt::For { .. });
        if is_loop {
            self.loops.push(stmt);
        }
        stmt.body().iter().for_each(|stmt| self.stmt(stmt));
        if is_loop {
            self.loops.pop();
        }
    }
}

/// Whether a loop around both says that what is loaded was stored, although the store comes later in its text.
fn follows(around: &Stmt, load: &Access<'_>, store: &Access<'_>, before: &[&Access<'_>]) -> Checked<bool> {
    let Stmt::For { index, domain, lanes, jam, parallel, .. } = around else { return Ok(false) };
    let inside = |a: &&&Access<'_>| a.loops.iter().any(|other| std::ptr::eq(*other, around));
    for (axis, (read, written)) in load.place.at.iter().zip(&store.place.at).enumerate() {
        let Some(direction) = rows(read, *index).filter(|by| rows(written, *index) == Some(*by)) else { continue };
        let at = |a: &Access<'_>| a.place.at.get(axis).cloned();
        let distance = written.sub(read)?.as_constant();
        if distance == Some(0) && before.iter().filter(inside).any(|a| at(a).as_ref() == Some(read)) {
            return Ok(true);
        }
        let first = match (domain, distance) {
            (Domain::Range { lower, .. }, Some(by))
                if by == direction && (*lanes, *jam, *parallel) == (1, 1, false) =>
            {
                let [Bound { numerator, divisor: 1 }] = lower.as_slice() else { continue };
                read.substitute(&|i| (i == *index).then(|| numerator.clone()))?
            }
            _ => continue,
        };
        if before.iter().filter(|a| !inside(a)).any(|a| at(a).as_ref() == Some(&first)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// In which direction an expression goes through rows, one after the other, as an index grows.
fn rows(a: &Affine, index: IndexId) -> Option<i64> {
    Some(a.coefficient(&Var::Index(index))).filter(|k| k.abs() == 1)
}

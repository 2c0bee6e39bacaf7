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
//! - both are at the row of the iteration, and something before the load stores there, too, in the same loop or in one through the rows; or
//! - the load is one row behind the store, iterations come one after the other in the direction of the rows, and before the loop something stores
//!   to the row that the first iteration reads.
//!
//! Or both are at places that are the same in all iterations, which come one after the other, and a test keeps the first one from loading, or something
//! stores to the buffer before the loop. There the load may be at a row of the iteration, if what stores before the loop goes through the rows.
//!
//! A buffer that the nest makes zero has numbers in any case.

use std::collections::BTreeSet;

use super::data::{Bound, BufferId, Cond, Domain, Nest, Place, Program, Stmt, name_of};
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
        let after: Vec<&Access<'_>> = after.iter().filter(|a| a.stores && a.place.buffer == buffer).collect();
        let around = |store: &Access<'_>| {
            let both = load.loops.iter().zip(&store.loops).take_while(|(a, b)| std::ptr::eq(**a, **b));
            both.map(|(around, _)| *around).collect::<Vec<_>>()
        };
        let waits = |store: &&Access<'_>| around(store).iter().any(|around| is_not_first(around, load, store));
        let is_wrong = |store: &&Access<'_>| {
            let around = around(store);
            let follows = |around: &&Stmt| follows(around, load, store, &before).unwrap_or(false);
            !around.is_empty() && !around.iter().any(follows)
        };
        if !after.iter().any(waits) && after.iter().any(is_wrong) {
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
    tests: Vec<&'a Cond>,
}

#[derive(Default)]
struct Walk<'a> {
    loops: Vec<&'a Stmt>,
    tests: Vec<&'a Cond>,
    accesses: Vec<Access<'a>>,
    filled: BTreeSet<BufferId>,
}

impl<'a> Walk<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Fill(buffer) = stmt {
            self.filled.insert(*buffer);
        }
        let stores = stmt.stores().map(|place| (place, true));
        for (place, stores) in stmt.loads().map(|place| (place, false)).chain(stores) {
            let (loops, tests) = (self.loops.clone(), self.tests.clone());
            self.accesses.push(Access { place, stores, loops, tests });
        }
        let before = (self.loops.len(), self.tests.len());
        match stmt {
            Stmt::For { .. } => self.loops.push(stmt),
            Stmt::If { cond, .. } => self.tests.push(cond),
            _ => {}
        }
        stmt.body().iter().for_each(|stmt| self.stmt(stmt));
        self.loops.truncate(before.0);
        self.tests.truncate(before.1);
    }
}

/// Whether a loop stores to the place that it loads, in each iteration, and a test keeps the first one from loading: so what is loaded is what the
/// iteration before has stored, wherever else the buffer is stored to.
fn is_not_first(around: &Stmt, load: &Access<'_>, store: &Access<'_>) -> bool {
    let Stmt::For { index, lanes: 1, jam: 1, parallel: false, .. } = around else { return false };
    let Some(first) = first_value(around) else { return false };
    let fails = |test: &&Cond| match test {
        Cond::NonNegative(a) => replaced(a, *index, first).is_ok_and(|a| a.as_constant().is_some_and(|a| a < 0)),
        _ => false,
    };
    load.place == store.place && !load.place.at.iter().any(|a| a.mentions(*index)) && load.tests.iter().any(fails)
}

/// Whether a loop around both says that what is loaded was stored, although the store comes later in its text.
fn follows(around: &Stmt, load: &Access<'_>, store: &Access<'_>, before: &[&Access<'_>]) -> Checked<bool> {
    let Stmt::For { index, lanes, jam, parallel, .. } = around else { return Ok(false) };
    let first = first_value(around).filter(|_| (*lanes, *jam, *parallel) == (1, 1, false));
    let at_first = |a: &Affine| first.map_or(Ok(None), |first| replaced(a, *index, first).map(Some));
    let stays = |place: &Place| !place.at.iter().any(|a| a.mentions(*index));
    let inside = |a: &Access<'_>| a.loops.iter().any(|other| std::ptr::eq(*other, around));
    // Every iteration stores to the same places, and the first one reads among those that were stored to before.
    let among = |earlier: &Access<'_>| {
        let mut axes = load.place.at.iter().zip(&earlier.place.at);
        axes.all(|(read, at)| !read.mentions(*index) || goes_through_rows(at, earlier, load))
    };
    if first.is_some() && stays(store.place) && before.iter().any(|earlier| !inside(earlier) && among(earlier)) {
        return Ok(true);
    }
    // A coordinate of what the loop goes through tells its iterations apart as well.
    let is_coordinate = |stmt: &Stmt, own: &Affine| match stmt {
        Stmt::Let { index: i, at, .. } => at.as_index() == Some(*index) && own.as_index() == Some(*i),
        _ => false,
    };
    for (axis, (read, written)) in load.place.at.iter().zip(&store.place.at).enumerate() {
        let is_own = read == written && around.body().iter().any(|stmt| is_coordinate(stmt, read));
        if is_own && before.iter().any(|earlier| inside(earlier) && earlier.place.at.get(axis) == Some(read)) {
            return Ok(true);
        }
        let Some(direction) = rows(read, *index).filter(|by| rows(written, *index) == Some(*by)) else { continue };
        let distance = written.sub(read)?.as_constant();
        for earlier in before {
            let Some(at) = earlier.place.at.get(axis) else { continue };
            let is_stored = match inside(earlier) {
                true => distance == Some(0) && at == read,
                false if distance == Some(0) => goes_through_rows(at, earlier, load),
                false => distance == Some(direction) && Some(lowest(at, earlier)?) == at_first(read)?,
            };
            if is_stored {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a loop around a store, and not around a load, goes through rows with it.
fn goes_through_rows(at: &Affine, store: &Access<'_>, load: &Access<'_>) -> bool {
    let own = store.loops.iter().filter(|around| !load.loops.iter().any(|other| std::ptr::eq(*other, **around)));
    own.flat_map(|around| around.defines()).any(|i| at.mentions(i))
}

/// The least value of a loop, where one expression says it.
fn first_value(stmt: &Stmt) -> Option<&Affine> {
    let Stmt::For { domain: Domain::Range { lower, .. }, .. } = stmt else { return None };
    match lower.as_slice() {
        [Bound { numerator, divisor: 1 }] => Some(numerator),
        _ => None,
    }
}

/// An expression in the first iterations of the loops around.
fn lowest(a: &Affine, access: &Access<'_>) -> Checked<Affine> {
    let mut lowest = a.clone();
    for around in access.loops.iter().rev() {
        if let (Stmt::For { index, .. }, Some(first)) = (around, first_value(around)) {
            lowest = replaced(&lowest, *index, first)?;
        }
    }
    Ok(lowest)
}

fn replaced(a: &Affine, index: IndexId, by: &Affine) -> Checked<Affine> {
    a.substitute(&|i| (i == index).then(|| by.clone()))
}

/// In which direction an expression goes through rows, one after the other, as an index grows.
fn rows(a: &Affine, index: IndexId) -> Option<i64> {
    Some(a.coefficient(&Var::Index(index))).filter(|k| k.unsigned_abs() == 1)
}

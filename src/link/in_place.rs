//! States that go on where they are.
//!
//! ```text
//! for i { b[i] = F(a[i]) }; for i { a[i] = b[i] }   ==  for i { a[i] = F(a[i]) }
//! ```
//!
//! The state after a step may be stored over the one before it if each number of that is loaded before it is written, and never behind: by statements
//! that come earlier and share no loop with the store, or at the very place that the same iteration stores later, or at one that no store ever meets. A
//! place belongs to one iteration if each loop that the two share gives one of its indices. What stores at the place of the step is left alone.

use crate::base::IndexId;
use crate::index::Var;
use crate::loops::{BufferId, Place, Real, Stmt};

/// Where a statement is: its number in the order of the program, and the loops around it.
struct Event<'a> {
    order: usize,
    loops: Vec<IndexId>,
    /// Nothing for all of a buffer.
    place: Option<&'a Place>,
}

#[derive(Default)]
struct Events<'a> {
    loads: Vec<Event<'a>>,
    stores: Vec<Event<'a>>,
    next: usize,
}

impl<'a> Events<'a> {
    // Loops nest to a bounded depth.
    fn collect(&mut self, body: &'a [Stmt], before: BufferId, after: BufferId, loops: &mut Vec<IndexId>) {
        for stmt in body {
            self.next += 1;
            let event = |place| Event { order: self.next, loops: loops.clone(), place };
            match stmt {
                Stmt::Define(_, Real::Load(place)) | Stmt::Length { place, .. } if place.buffer == before => {
                    self.loads.push(event(Some(place)))
                }
                Stmt::Store(place, _) if place.buffer == after => self.stores.push(event(Some(place))),
                Stmt::Fill(buffer) if *buffer == after => self.stores.push(event(None)),
                // What is called reads all of the state at once.
                Stmt::Call { takes, .. } if takes.iter().any(|run| run.place.buffer == before) => {
                    self.loads.push(event(None));
                }
                _ => {}
            }
            let count = loops.len();
            match stmt {
                Stmt::For { index, .. } => loops.push(*index),
                Stmt::Extremum { at, .. } => loops.push(*at),
                _ => {}
            }
            self.collect(stmt.body(), before, after, loops);
            loops.truncate(count);
        }
    }
}

/// Whether the statements of a step, which load the state before it from one buffer and store the one after it in another, may use one for both.
pub(super) fn may_be_one(body: &[Stmt], before: BufferId, after: BufferId) -> bool {
    let mut events = Events::default();
    events.collect(body, before, after, &mut Vec::new());
    let is_safe = |load: &Event<'_>, store: &Event<'_>| {
        let shared: Vec<IndexId> =
            load.loops.iter().zip(&store.loops).take_while(|(a, b)| a == b).map(|(i, _)| *i).collect();
        let own = || match (load.place, store.place) {
            (Some(from), Some(to)) => {
                from.at == to.at && shared.iter().all(|i| to.at.iter().any(|a| a.as_index() == Some(*i)))
            }
            _ => false,
        };
        let apart = || load.place.zip(store.place).is_some_and(|(from, to)| are_apart(from, to));
        apart() || load.order < store.order && (shared.is_empty() || own())
    };
    // What is stored at the place of the step is not all of the state.
    let is_all = |store: &Event<'_>| {
        let mut own = true;
        let mut look = |v: &Var| own &= !matches!(v, Var::Index(i) if !store.loops.contains(i));
        store.place.into_iter().flat_map(|place| &place.at).for_each(|a| a.visit(&mut look));
        own
    };
    events.stores.iter().all(|store| is_all(store) && events.loads.iter().all(|load| is_safe(load, store)))
}

/// Whether two places of a buffer never meet, whatever iterations they are of: an axis has another constant in each, as the coordinates of points do.
pub(super) fn are_apart(a: &Place, b: &Place) -> bool {
    a.at.iter().zip(&b.at).any(|(a, b)| matches!((a.as_constant(), b.as_constant()), (Some(a), Some(b)) if a != b))
}

/// Has statements load from and store to one buffer in place of another one of the same axes.
pub(super) fn replace(body: &mut [Stmt], from: BufferId, to: BufferId) {
    for stmt in body {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => replace(body, from, to),
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. }
                if place.buffer == from =>
            {
                place.buffer = to
            }
            Stmt::Fill(buffer) if *buffer == from => *buffer = to,
            Stmt::Call { takes, gives, .. } => {
                let runs = takes.iter_mut().chain(gives).filter(|run| run.place.buffer == from);
                runs.for_each(|run| run.place.buffer = to);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Id;
    use crate::index::Affine;
    use crate::loops::{Domain, RealId};

    const BEFORE: BufferId = BufferId(0);
    const AFTER: BufferId = BufferId(1);

    fn load(r: u32, at: &[Affine]) -> Stmt {
        Stmt::Define(RealId(r), Real::Load(Place { buffer: BEFORE, at: at.to_vec() }))
    }

    fn store(r: u32, at: &[Affine]) -> Stmt {
        Stmt::Store(Place { buffer: AFTER, at: at.to_vec() }, RealId(r))
    }

    fn each(i: usize, body: Vec<Stmt>) -> Stmt {
        let whole = Domain::whole(&Affine::constant(9)).expect("it fits");
        Stmt::one_by_one(IndexId::from_index(i), whole, body)
    }

    fn index(i: usize) -> Affine {
        Affine::index(IndexId::from_index(i))
    }

    #[test]
    fn numbers_that_are_loaded_where_they_are_stored() {
        let elementwise = [each(0, vec![load(0, &[index(0)]), store(0, &[index(0)])])];
        assert!(may_be_one(&elementwise, BEFORE, AFTER));
        let nested = [each(0, vec![each(1, vec![load(0, &[index(0), index(1)]), store(0, &[index(0), index(1)])])])];
        assert!(may_be_one(&nested, BEFORE, AFTER));
        let columns = [each(
            0,
            vec![
                load(0, &[index(0), Affine::constant(0)]),
                store(0, &[index(0), Affine::constant(0)]),
                load(1, &[index(0), Affine::constant(1)]),
                store(1, &[index(0), Affine::constant(1)]),
            ],
        )];
        assert!(may_be_one(&columns, BEFORE, AFTER));
        let all_before = [each(0, vec![load(0, &[index(0)])]), each(1, vec![store(0, &[index(1)])])];
        assert!(may_be_one(&all_before, BEFORE, AFTER));
    }

    #[test]
    fn numbers_that_are_needed_later() {
        let neighbour = index(0).add_constant(-1).expect("it fits");
        let shifted = [each(0, vec![load(0, &[neighbour]), store(0, &[index(0)])])];
        assert!(!may_be_one(&shifted, BEFORE, AFTER));
        let too_late = [each(0, vec![store(0, &[index(0)]), load(1, &[index(0)])])];
        assert!(!may_be_one(&too_late, BEFORE, AFTER));
        let other_column = [each(
            0,
            vec![
                store(0, &[index(0), Affine::constant(0)]),
                load(1, &[index(0), Affine::constant(1)]),
                load(2, &[index(0), Affine::constant(0)]),
            ],
        )];
        assert!(!may_be_one(&other_column, BEFORE, AFTER));
        let behind = [each(0, vec![store(0, &[index(0)])]), each(1, vec![load(1, &[index(1)])])];
        assert!(!may_be_one(&behind, BEFORE, AFTER));
        // Each iteration of the loop around stores it again.
        let again = [each(0, vec![each(1, vec![load(0, &[index(1)]), store(0, &[index(1)])])])];
        assert!(!may_be_one(&again, BEFORE, AFTER));
        // Only the place of the step is stored, as by an index from outside.
        let one = [each(0, vec![load(0, &[index(0)])]), store(0, &[index(9)])];
        assert!(!may_be_one(&one, BEFORE, AFTER));
        let product = [each(0, vec![each(1, vec![load(0, &[index(1)])]), store(0, &[index(0)])])];
        assert!(!may_be_one(&product, BEFORE, AFTER));
    }
}

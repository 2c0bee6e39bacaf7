//! States that go on where they are.
//!
//! ```text
//! for i { b[i] = F(a[i]) }; for i { a[i] = b[i] }   ==  for i { a[i] = F(a[i]) }
//! ```
//!
//! The state after a step may be stored over the one before it if each number of that is loaded before it is written, and never behind: by statements
//! that come earlier and share no loop with the store, or at the very place that the same iteration stores later, or at one that no store ever meets, as in
//! another piece of a loop that was cut. A place belongs to one iteration if each loop that the two share gives one index of both places, or has one
//! iteration. What stores at the place of the step is left alone.
//!
//! What a step loads of single elements of the state is [moved](load_early) in front of the store, where that is the only thing in the way.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::IndexId;
use crate::index::{Affine, Var};
use crate::loops::{
    Bound, BufferId, Domain, Place, Real, Stmt, changed, declared, defined, loads, mentioned, reads, stores,
};

/// Where a statement is: its number in the order of the program, and the loops around it.
struct Event<'a> {
    order: usize,
    loops: Vec<IndexId>,
    /// Those of the loops that have one iteration at most.
    single: Vec<IndexId>,
    /// Nothing for all of a buffer.
    place: Option<&'a Place>,
}

#[derive(Default)]
struct Events<'a> {
    loads: Vec<Event<'a>>,
    stores: Vec<Event<'a>>,
    ranges: BTreeMap<IndexId, &'a Domain>,
    next: usize,
}

impl<'a> Events<'a> {
    // Loops nest to a bounded depth.
    fn collect(
        &mut self,
        body: &'a [Stmt],
        [before, after]: [BufferId; 2],
        loops: &mut Vec<IndexId>,
        single: &mut Vec<IndexId>,
    ) {
        for stmt in body {
            self.next += 1;
            let event = |place| Event { order: self.next, loops: loops.clone(), single: single.clone(), place };
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
            let (count, alone) = (loops.len(), single.len());
            match stmt {
                Stmt::For { index, domain, .. } => {
                    loops.push(*index);
                    single.extend(is_single(domain).then_some(*index));
                    self.ranges.insert(*index, domain);
                }
                Stmt::Extremum { at, .. } => loops.push(*at),
                _ => {}
            }
            self.collect(stmt.body(), [before, after], loops, single);
            loops.truncate(count);
            single.truncate(alone);
        }
    }

    /// Whether two places of a buffer never meet since on some axis they have the indices of loops whose ranges have no value in common.
    fn are_of_pieces(&self, a: &Place, b: &Place) -> bool {
        let range = |a: &Affine| self.ranges.get(&a.as_index()?).copied();
        a.at.iter()
            .zip(&b.at)
            .any(|(a, b)| range(a).zip(range(b)).is_some_and(|(a, b)| ends_before(a, b) || ends_before(b, a)))
    }
}

/// Whether a range ends before another one begins, whatever the sizes are.
fn ends_before(one: &Domain, other: &Domain) -> bool {
    let (Domain::Range { upper, .. }, Domain::Range { lower, .. }) = (one, other) else { return false };
    let fixed = |bound: &&Bound| bound.divisor == 1 && bound.numerator.is_size();
    upper.iter().filter(fixed).any(|last| {
        lower.iter().filter(fixed).any(|first| {
            let apart = first.numerator.sub(&last.numerator).ok().and_then(|a| a.as_constant());
            apart.is_some_and(|apart| apart > 0)
        })
    })
}

/// Whether a domain has one value at most: a bound from below that is one from above.
fn is_single(domain: &Domain) -> bool {
    match domain {
        Domain::Range { lower, upper } => lower.iter().any(|bound| upper.contains(bound)),
        Domain::Segment(_) | Domain::Part { .. } => false,
    }
}

/// Whether the statements of a step, which load the state before it from one buffer and store the one after it in another, may use one for both.
pub(super) fn may_be_one(body: &[Stmt], before: BufferId, after: BufferId) -> bool {
    let mut events = Events::default();
    events.collect(body, [before, after], &mut Vec::new(), &mut Vec::new());
    let is_safe = |load: &Event<'_>, store: &Event<'_>| {
        let shared = load.loops.iter().zip(&store.loops).take_while(|(a, b)| a == b).map(|(i, _)| *i);
        let shared: Vec<IndexId> = shared.filter(|i| !store.single.contains(i)).collect();
        let own = || match (load.place, store.place) {
            (Some(from), Some(to)) => {
                let is_index = |i: IndexId, (a, b): (&Affine, &Affine)| a == b && a.as_index() == Some(i);
                shared.iter().all(|i| from.at.iter().zip(&to.at).any(|axis| is_index(*i, axis)))
            }
            _ => false,
        };
        let apart = || {
            let places = load.place.zip(store.place);
            places.is_some_and(|(from, to)| from.is_apart(to) || events.are_of_pieces(from, to))
        };
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

/// Moves what loads numbers of a state behind the first statement that stores the state after the step in front of that, with what it depends on. Only
/// statements that store nothing are moved, and none whose registers others in between read or change.
pub(super) fn load_early(body: &mut [Stmt], before: BufferId, after: BufferId) {
    let stores_after = |stmt: &Stmt| stores([stmt]).into_iter().any(|place| place.buffer == after);
    let Some(mut first) = body.iter().position(stores_after) else { return };
    for at in first + 1..body.len() {
        let is_load = loads([&body[at]]).into_iter().any(|place| place.buffer == before);
        let Some(moved) = is_load.then(|| movable(body, first, at)).flatten() else { continue };
        for from in moved {
            body[first..=from].rotate_right(1);
            first += 1;
        }
    }
}

/// Statements of a range that may be made in front of it: the last one, and those that it depends on.
fn movable(body: &[Stmt], first: usize, last: usize) -> Option<Vec<usize>> {
    let (mut indices, mut reals) = (BTreeSet::new(), BTreeSet::new());
    let (mut moved, mut stay): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for at in (first..=last).rev() {
        let own = std::slice::from_ref(&body[at]);
        let (made, changes) = (declared(own), changed(own));
        let is_wanted =
            defined(own).iter().any(|i| indices.contains(i)) || made.iter().chain(&changes).any(|r| reals.contains(r));
        if at != last && !is_wanted {
            stay.push(at);
            continue;
        }
        indices.extend(mentioned(own));
        body[at].visit(&mut |stmt| stmt.visit_reads(&mut |r| reals.extend([r])));
        reals.extend(changes);
        moved.push(at);
    }
    moved.reverse();
    let of = |places: &[usize]| places.iter().map(|at| &body[*at]).collect::<Vec<&Stmt>>();
    let (moves, stays) = (of(&moved), of(&stay));
    let stored: BTreeSet<BufferId> = stores(stays.iter().copied()).into_iter().map(|place| place.buffer).collect();
    let mut is_pure = loads(moves.iter().copied()).into_iter().all(|place| !stored.contains(&place.buffer));
    moves.iter().for_each(|stmt| {
        stmt.visit(&mut |stmt| {
            is_pure &=
                !matches!(stmt, Stmt::Store(..) | Stmt::Fill(_) | Stmt::Call { .. } | Stmt::Tuple(..) | Stmt::End(_))
        })
    });
    let changes = changed(moves.iter().copied());
    let is_read = reads(stays.iter().copied(), |r| changes.contains(&r));
    let is_changed = !changed(stays.iter().copied()).is_disjoint(&reals);
    (is_pure && !is_read && !is_changed).then_some(moved)
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
    use crate::loops::{ArrayId, Cond, RealId};

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

    /// The pieces of a loop that was cut, and two that share a place.
    #[test]
    fn pieces_of_a_loop() {
        let size = Affine::size(crate::base::SizeId::from_index(0));
        let piece = |i: usize, first: &Affine, last: &Affine| {
            let domain =
                Domain::Range { lower: vec![Bound::exact(first.clone())], upper: vec![Bound::exact(last.clone())] };
            Stmt::one_by_one(
                IndexId::from_index(i),
                domain,
                vec![load(i as u32, &[index(i)]), store(i as u32, &[index(i)])],
            )
        };
        let [zero, one, middle] = [0, 1, 5].map(Affine::constant);
        let [before, last] = [-2, -1].map(|k| size.add_constant(k).expect("it fits"));
        let cut = |first: &Affine, to: &Affine, from: &Affine| {
            may_be_one(&[piece(0, first, to), piece(1, from, &last)], BEFORE, AFTER)
        };
        assert!(cut(&zero, &zero, &one));
        assert!(cut(&one, &before, &last));
        assert!(!cut(&zero, &middle, &middle));
        assert!(!cut(&zero, &before, &middle));
    }

    /// Behind the store come the definition of a place, and what is loaded there.
    #[test]
    fn elements_that_are_loaded_later() {
        let place =
            |i: usize, at: Affine| Stmt::Let { index: IndexId::from_index(i), array: ArrayId(0), at, step: None };
        let update = || each(0, vec![load(0, &[index(0)]), store(0, &[index(0)])]);
        let given = vec![load(1, &[index(8)]), Stmt::Assign(RealId(2), RealId(1))];
        let arm = || Stmt::If { cond: Cond::NonNegative(index(8)), body: given.clone() };
        for later in [vec![load(1, &[index(8)])], vec![Stmt::Local(RealId(2)), arm()]] {
            let mut body = [vec![update(), place(8, index(9))], later].concat();
            assert!(!may_be_one(&body, BEFORE, AFTER));
            load_early(&mut body, BEFORE, AFTER);
            assert!(may_be_one(&body, BEFORE, AFTER), "{body:?}");
        }
        // Others read the register before it changes, or change it.
        let read = Stmt::Store(Place { buffer: BufferId(2), at: vec![] }, RealId(2));
        for other in [read, Stmt::Assign(RealId(2), RealId(0))] {
            let mut body = vec![Stmt::Local(RealId(2)), update(), other, arm()];
            load_early(&mut body, BEFORE, AFTER);
            assert!(!may_be_one(&body, BEFORE, AFTER), "{body:?}");
        }
        // The place is that of a number which the loop makes.
        let most = Affine::constant(9);
        let found = Stmt::Length { index: IndexId::from_index(8), place: Place { buffer: AFTER, at: vec![] }, most };
        let mut body = vec![update(), found, load(1, &[index(8)])];
        load_early(&mut body, BEFORE, AFTER);
        assert!(!may_be_one(&body, BEFORE, AFTER), "{body:?}");
    }

    /// A loop of one iteration loads all that it needs before it stores; a loop of two does not.
    #[test]
    fn loops_of_one_iteration() {
        let next = index(0).add_constant(1).expect("it fits");
        let mut update = each(0, vec![load(0, &[next]), store(0, &[index(0)])]);
        assert!(!may_be_one(std::slice::from_ref(&update), BEFORE, AFTER));
        if let Stmt::For { domain: Domain::Range { upper, .. }, .. } = &mut update {
            *upper = crate::loops::Bound::and(upper, index(9));
            assert!(!may_be_one(std::slice::from_ref(&update), BEFORE, AFTER));
        }
        if let Stmt::For { domain: Domain::Range { lower, .. }, .. } = &mut update {
            *lower = crate::loops::Bound::and(lower, index(9));
        }
        assert!(may_be_one(std::slice::from_ref(&update), BEFORE, AFTER));
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

//! Loops over no more of a state than a step changes.
//!
//! ```text
//! for i in D { z = 0; if 0 <= i - a { z = e }; s[i] = s[i] + z }   ==   for i in D, a <= i { z = 0; if 0 <= i - a { z = e }; s[i] = s[i] + z }
//! ```
//!
//! Where the tests do not hold, 0 is added, and nothing else is done: a number plus 0 is that number, if `-0` counts as 0. So a tile adds what it owes to
//! its own part of a tensor, and not zeros to all of it. Tests that compare the index of a loop with what is outside of the loop become bounds of it;
//! they stay where they are. Refused where the body stores anything else, or reads the state at another place.

use crate::base::IndexId;
use crate::index::{Affine, Checked, Var};
use crate::loops::{Bound, BufferId, Cond, Domain, Place, Real, RealId, Stmt, loads, stores};

/// Cuts loops that add to a buffer down to where they add something.
pub(super) fn cut_loops(body: &mut [Stmt], buffer: BufferId) -> Checked<()> {
    body.iter_mut().filter(|stmt| matches!(stmt, Stmt::For { .. })).try_for_each(|stmt| cut(stmt, buffer))
}

fn cut(nest: &mut Stmt, buffer: BufferId) -> Checked<()> {
    let mut loops: Vec<IndexId> = Vec::new();
    let mut stmt = &*nest;
    let body = loop {
        let Stmt::For { index, body, .. } = stmt else { return Ok(()) };
        loops.push(*index);
        match body.as_slice() {
            [inner @ Stmt::For { .. }] => stmt = inner,
            _ => break body,
        }
    };
    let Some(added) = added_to(body, buffer) else { return Ok(()) };
    let mut tests = Vec::new();
    tests_of(body, added, &mut tests);
    let mut bounds = Vec::new();
    for test in tests {
        let (a, is_zero) = match test {
            Cond::NonNegative(a) => (a, false),
            Cond::Zero(a) => (a, true),
            _ => continue,
        };
        // The innermost of its loops: the others are outside of that one.
        let Some(at) = loops.iter().rposition(|i| a.coefficient(&Var::Index(*i)) != 0) else { continue };
        let mut inside = false;
        a.visit(&mut |v| {
            inside |=
                matches!(v, Var::Index(i) if !loops.contains(i) && defined_in(body, *i)) || matches!(v, Var::Apply(_));
        });
        if !inside {
            bounds.push((at, a, is_zero));
        }
    }
    bounds.into_iter().try_for_each(|(at, a, is_zero)| bound(nest, (at, loops[at]), &a, is_zero))
}

/// Whether statements define an index.
fn defined_in(body: &[Stmt], i: IndexId) -> bool {
    let mut found = false;
    body.iter().for_each(|stmt| stmt.visit(&mut |stmt| found |= stmt.defines().any(|index| index == i)));
    found
}

/// The register that statements add to a place of a buffer, if they do nothing else.
fn added_to(body: &[Stmt], buffer: BufferId) -> Option<RealId> {
    let [.., Stmt::Store(to, sum)] = body else { return None };
    let from = |r: RealId| {
        body.iter().any(|stmt| matches!(stmt, Stmt::Define(x, Real::Load(place)) if *x == r && place == to))
    };
    let is_here = |places: Vec<&Place>| places.iter().filter(|place| place.buffer == buffer).count();
    let mut quiet = stores(body).len() == 1 && is_here(loads(body)) == 1 && to.buffer == buffer;
    for stmt in body {
        stmt.visit(&mut |stmt| {
            quiet &= !matches!(stmt, Stmt::Fill(_) | Stmt::Call { .. } | Stmt::Tuple(..) | Stmt::End(_))
        });
    }
    let added = body.iter().find_map(|stmt| match stmt {
        Stmt::Define(x, Real::Add(a, b)) if x == sum => match (from(*a), from(*b)) {
            (true, false) => Some(*b),
            (false, true) => Some(*a),
            _ => None,
        },
        _ => None,
    });
    added.filter(|_| quiet)
}

/// Tests of which all hold where a register is not 0.
// Tests nest to a bounded depth.
fn tests_of(body: &[Stmt], register: RealId, tests: &mut Vec<Cond>) {
    if !body.iter().any(|stmt| matches!(stmt, Stmt::Local(r) if *r == register)) {
        return;
    }
    let mut given = 0;
    for stmt in body {
        stmt.visit(&mut |stmt| {
            given += match stmt {
                Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) | Stmt::Extend(_, r, _) => {
                    usize::from(*r == register)
                }
                _ => 0,
            };
        });
    }
    let found = body.iter().find_map(|stmt| match stmt {
        Stmt::If { cond, body } => {
            let value = body.iter().find_map(|stmt| match stmt {
                Stmt::Assign(r, x) if *r == register => Some(*x),
                _ => None,
            });
            value.map(|x| (cond, body, x))
        }
        _ => None,
    });
    if let (1, Some((cond, body, x))) = (given, found) {
        match cond {
            Cond::All(all) => tests.extend(all.iter().cloned()),
            one => tests.push(one.clone()),
        }
        tests_of(body, x, tests);
    }
}

/// Gives a loop, so deep in a nest, the bounds within which an expression is not negative, or zero.
fn bound(nest: &mut Stmt, (depth, index): (usize, IndexId), a: &Affine, is_zero: bool) -> Checked<()> {
    let mut stmt = nest;
    for _ in 0..depth {
        let Stmt::For { body, .. } = stmt else { return Ok(()) };
        let Some(inner) = body.first_mut() else { return Ok(()) };
        stmt = inner;
    }
    let Stmt::For { domain: Domain::Range { lower, upper }, .. } = stmt else { return Ok(()) };
    let Some((coefficient, rest)) = a.split(index) else { return Ok(()) };
    if coefficient == 1 {
        *lower = Bound::and(lower, rest.scale(-1)?);
    }
    if coefficient == -1 {
        *upper = Bound::and(upper, rest.clone());
    }
    if is_zero && coefficient == 1 {
        *upper = Bound::and(upper, rest.scale(-1)?);
    }
    if is_zero && coefficient == -1 {
        *lower = Bound::and(lower, rest);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Id;

    const STATE: BufferId = BufferId(0);

    fn index(i: usize) -> Affine {
        Affine::index(IndexId::from_index(i))
    }

    fn at(buffer: BufferId, places: &[Affine]) -> Place {
        Place { buffer, at: places.to_vec() }
    }

    /// `for i, j { z = 0; if test { z = e[j] }; s[i, j] = s[i, j] + z }`, and more in the loop.
    fn adds(test: Cond, more: Vec<Stmt>) -> Stmt {
        let [number, zero, sum, term] = [0, 1, 2, 3].map(RealId);
        let here = at(STATE, &[index(0), index(1)]);
        let given = vec![Stmt::Define(term, Real::Load(at(BufferId(1), &[index(1)]))), Stmt::Assign(zero, term)];
        let mut body = vec![
            Stmt::Define(number, Real::Load(here.clone())),
            Stmt::Local(zero),
            Stmt::If { cond: test, body: given },
            Stmt::Define(sum, Real::Add(number, zero)),
        ];
        body.extend(more);
        body.push(Stmt::Store(here, sum));
        let whole = || Domain::whole(&Affine::constant(9)).expect("it fits");
        let inner = Stmt::one_by_one(IndexId::from_index(1), whole(), body);
        Stmt::one_by_one(IndexId::from_index(0), whole(), vec![inner])
    }

    fn bounds(stmt: &Stmt) -> (usize, usize) {
        match stmt {
            Stmt::For { domain: Domain::Range { lower, upper }, .. } => (lower.len(), upper.len()),
            _ => (0, 0),
        }
    }

    fn cut(mut stmt: Stmt) -> [(usize, usize); 2] {
        cut_loops(std::slice::from_mut(&mut stmt), STATE).expect("it fits");
        [bounds(&stmt), bounds(&stmt.body()[0])]
    }

    #[test]
    fn tests_become_bounds_of_their_loop() {
        // i - 2 u, where u is outside.
        let of_rows = index(0).sub(&index(9).scale(2).expect("it fits")).expect("it fits");
        assert_eq!(cut(adds(Cond::NonNegative(of_rows.clone()), Vec::new())), [(2, 1), (1, 1)]);
        let below = of_rows.scale(-1).expect("it fits");
        assert_eq!(cut(adds(Cond::NonNegative(below), Vec::new())), [(1, 2), (1, 1)]);
        assert_eq!(cut(adds(Cond::Zero(of_rows), Vec::new())), [(2, 2), (1, 1)]);
        // j - i is a test of the inner loop.
        let triangle = index(1).sub(&index(0)).expect("it fits");
        assert_eq!(cut(adds(Cond::NonNegative(triangle), Vec::new())), [(1, 1), (2, 1)]);
    }

    #[test]
    fn loops_that_do_more_stay() {
        let test = || Cond::NonNegative(index(0));
        let whole = [(1, 1), (1, 1)];
        let other = vec![Stmt::Store(at(BufferId(2), &[index(0)]), RealId(3))];
        assert_eq!(cut(adds(test(), other)), whole);
        let elsewhere = vec![Stmt::Define(RealId(4), Real::Load(at(STATE, &[index(1), index(0)])))];
        assert_eq!(cut(adds(test(), elsewhere)), whole);
        assert_eq!(cut(adds(Cond::Any(vec![test(), test()]), Vec::new())), whole);
        assert_eq!(cut(adds(Cond::NonNegative(index(0).scale(2).expect("it fits")), Vec::new())), whole);
    }
}

//! Loops over no more of a state than a step changes.
//!
//! ```text
//! for i in D { if i = a { s[i] = F(s[i]) } else { s[i] = s[i] } }   ==   for i in D, a <= i <= a { .. }
//! for i in D { z = 0; if 0 <= i - a { z = e }; s[i] = s[i] + z }     ==   for i in D, a <= i { .. }
//! ```
//!
//! A state whose step is stored over it keeps what is not stored. So iterations of a loop that [leave it as it is](unchanged) where a test of the loop's index
//! fails need not run where it fails: the test becomes bounds of the loop, and stays where it is as well. A step that updates one element of `n` takes one iteration,
//! wherever that is known: an index, the target of a map, the place of a largest element, or a number that is compared with the index, whose integer
//! part is the only place where they may be equal. A tile adds what it owes to its own part of a tensor, and not zeros to all of it.
//!
//! What a bound mentions is defined before the loop, moved there where it does not depend on the loop.

mod unchanged;

use std::collections::{BTreeMap, BTreeSet};

use crate::base::IndexId;
use crate::index::{Affine, Checked, Size, Var};
use crate::loops::{Bound, BufferId, Cond, Domain, Fresh, Real, RealId, Stmt, defined, loads, mentioned, reads};
use unchanged::{Number, Registers, Test};

/// How many tests of a loop are looked at.
const FEW: usize = 8;

/// Which tests become bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tests {
    /// Those that one value of the index passes at most.
    OfPlaces,
    All,
}

/// Cuts loops over states, which are stored over those before them, down to where they change something.
pub(super) fn cut_loops(
    body: &mut Vec<Stmt>,
    states: &BTreeSet<BufferId>,
    tests: Tests,
    names: &mut Fresh,
) -> Checked<()> {
    let mut cut = Cut { states, tests, names, around: BTreeMap::new(), places: Vec::new() };
    cut.block(body)?;
    let places = std::mem::take(&mut cut.places);
    tell(body, &places);
    Ok(())
}

/// Defines the integer parts of numbers behind these.
// Loops and tests nest to a bounded depth.
fn tell(body: &mut Vec<Stmt>, all: &[Told]) {
    if all.is_empty() {
        return;
    }
    let mut at = 0;
    while at < body.len() {
        let mut told = Vec::new();
        match &mut body[at] {
            Stmt::Define(r, Real::Load(place)) => {
                let length = |Told { index, most, .. }: &Told| Stmt::Length {
                    index: *index,
                    place: place.clone(),
                    most: most.clone(),
                };
                told.extend(all.iter().filter(|told| told.number == *r).map(length));
            }
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => tell(body, all),
            _ => {}
        }
        at += 1;
        let count = told.len();
        body.splice(at..at, told);
        at += count;
    }
}

/// The integer part of the number of a register that is defined outside of a loop.
struct Told {
    number: RealId,
    index: IndexId,
    most: Size,
}

struct Cut<'a> {
    states: &'a BTreeSet<BufferId>,
    tests: Tests,
    names: &'a mut Fresh,
    /// What is known of the registers so far.
    around: Registers,
    places: Vec<Told>,
}

impl Cut<'_> {
    // Loops and tests nest to a bounded depth.
    fn block(&mut self, body: &mut Vec<Stmt>) -> Checked<()> {
        let mut at = 0;
        while at < body.len() {
            let mut ahead = Vec::new();
            match &mut body[at] {
                Stmt::Define(r, real) => drop(self.around.insert(*r, unchanged::source(real))),
                Stmt::If { body, .. } => self.block(body)?,
                stmt @ Stmt::For { .. } => {
                    if let Stmt::For { body, .. } = stmt {
                        self.block(body)?;
                    }
                    self.cut(stmt, &mut ahead)?;
                }
                _ => {}
            }
            at += ahead.len() + 1;
            let here = at - ahead.len() - 1;
            body.splice(here..here, ahead);
        }
        Ok(())
    }

    fn cut(&mut self, nest: &mut Stmt, ahead: &mut Vec<Stmt>) -> Checked<()> {
        let Stmt::For { index, domain: Domain::Range { .. }, body, .. } = nest else { return Ok(()) };
        let index = *index;
        let tests = self.tests(index, body);
        for test in tests {
            let Stmt::For { domain: Domain::Range { lower, upper }, lanes, jam, body, .. } = nest else {
                return Ok(());
            };
            if !unchanged::leaves(body, &test, self.states, &self.around) {
                continue;
            }
            let (a, is_zero) = match &test {
                Test::Zero(a) => (a.clone(), true),
                Test::NonNegative(a) => (a.clone(), false),
                Test::Number(_, number) => match self.told(number, upper, body, ahead)? {
                    Some(told) => (Affine::index(index).sub(&told.into())?, true),
                    None => continue,
                },
            };
            let Some((coefficient, rest)) = a.split(index) else { continue };
            if !before_loop(body, index, &rest, self.states, ahead) {
                continue;
            }
            if coefficient == 1 || is_zero {
                *lower = Bound::and(lower, rest.scale(-coefficient)?);
            }
            if coefficient == -1 || is_zero {
                *upper = Bound::and(upper, rest.scale(-coefficient)?);
            }
            if is_zero {
                (*lanes, *jam) = (1, 1);
            }
        }
        Ok(())
    }

    /// The tests in a loop of its index.
    fn tests(&self, index: IndexId, body: &[Stmt]) -> Vec<Test> {
        let mut known: Registers = BTreeMap::new();
        let mut tests: Vec<Test> = Vec::new();
        let is_unit = |a: &Affine| a.split(index).is_some_and(|(k, _)| k.abs() == 1);
        for stmt in body {
            stmt.visit(&mut |stmt| match stmt {
                Stmt::Define(r, real) => {
                    let compared = unchanged::compared(real, &known, &self.around).filter(|(i, _)| *i == index);
                    tests.extend(compared.map(|(i, number)| Test::Number(i, number)));
                    known.insert(*r, unchanged::source(real));
                }
                Stmt::If { cond, .. } => atoms(cond, &mut |atom| match atom {
                    Cond::Zero(a) | Cond::NonZero(a) if is_unit(a) => tests.push(Test::Zero(a.clone())),
                    Cond::NonNegative(a) if self.tests == Tests::All && is_unit(a) => {
                        tests.push(Test::NonNegative(a.clone()))
                    }
                    _ => {}
                }),
                _ => {}
            });
        }
        let mut distinct: Vec<Test> = Vec::new();
        for test in tests {
            if distinct.len() < FEW && !distinct.contains(&test) {
                distinct.push(test);
            }
        }
        distinct
    }

    /// The integer part of a number, cut to the length of a loop that goes over a whole axis.
    fn told(
        &mut self,
        number: &Number,
        upper: &[Bound],
        body: &[Stmt],
        ahead: &mut Vec<Stmt>,
    ) -> Checked<Option<IndexId>> {
        let Some(Bound { numerator, divisor: 1 }) = upper.first() else { return Ok(None) };
        let most = numerator.add_constant(1)?;
        if most.terms().iter().any(|(v, _)| !matches!(v, Var::Size(_))) {
            return Ok(None);
        }
        match number {
            Number::Around(r) => {
                let known = self.places.iter().find(|told| told.number == *r && told.most == most);
                if let Some(told) = known {
                    return Ok(Some(told.index));
                }
                let index = self.names.fresh_index();
                self.places.push(Told { number: *r, index, most });
                Ok(Some(index))
            }
            Number::Inside(place) => {
                let inside = defined(body);
                let depends = place.at.iter().any(|a| inside.iter().any(|i| a.mentions(*i)));
                if depends || self.states.contains(&place.buffer) {
                    return Ok(None);
                }
                let index = self.names.fresh_index();
                ahead.push(Stmt::Length { index, place: place.clone(), most });
                Ok(Some(index))
            }
        }
    }
}

/// The atoms of a condition.
// Conditions nest to a bounded depth.
fn atoms<'c>(cond: &'c Cond, visit: &mut dyn FnMut(&'c Cond)) {
    match cond {
        Cond::All(all) | Cond::Any(all) => all.iter().for_each(|cond| atoms(cond, visit)),
        atom => visit(atom),
    }
}

/// Has what an expression mentions defined before a loop, as far as it can be moved there; says whether all of it is.
fn before_loop(
    body: &mut Vec<Stmt>,
    index: IndexId,
    a: &Affine,
    states: &BTreeSet<BufferId>,
    ahead: &mut Vec<Stmt>,
) -> bool {
    let inside = defined(body);
    let mut wanted: BTreeSet<IndexId> = BTreeSet::new();
    let mut known = true;
    a.visit(&mut |v| match v {
        Var::Index(i) if inside.contains(i) => drop(wanted.insert(*i)),
        Var::Apply(_) => known = false,
        Var::Index(_) | Var::Size(_) => {}
    });
    let may_move = |stmt: &Stmt| {
        let own = defined(std::slice::from_ref(stmt));
        let depends = |i: &IndexId| *i == index || inside.contains(i) && !own.contains(i);
        let is_loaded = loads([stmt]).into_iter().any(|place| states.contains(&place.buffer));
        let moves = matches!(stmt, Stmt::Let { .. } | Stmt::Length { .. } | Stmt::Extremum { .. });
        moves && !is_loaded && !mentioned([stmt]).iter().any(depends) && !reads_outside(stmt)
    };
    let defines = |stmt: &Stmt| stmt.defines().any(|i| wanted.contains(&i));
    let found = body.iter().filter(|stmt| defines(stmt) && may_move(stmt)).count();
    if !known || found != wanted.len() {
        return false;
    }
    ahead.extend(body.extract_if(.., |stmt| defines(stmt)));
    true
}

/// Whether a statement reads registers that it does not define.
fn reads_outside(stmt: &Stmt) -> bool {
    let mut own = BTreeSet::new();
    stmt.visit(&mut |stmt| {
        own.extend(match stmt {
            Stmt::Define(r, _) | Stmt::Local(r) => Some(*r),
            _ => None,
        })
    });
    reads([stmt], |r| !own.contains(&r))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Id;
    use crate::loops::Place;

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

    fn cut(stmt: Stmt) -> [(usize, usize); 2] {
        let mut body = vec![stmt];
        cut_loops(&mut body, &BTreeSet::from([STATE]), Tests::All, &mut Fresh::default()).expect("it fits");
        [bounds(&body[0]), bounds(&body[0].body()[0])]
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
        let elsewhere = vec![Stmt::Store(at(STATE, &[index(1), index(0)]), RealId(0))];
        assert_eq!(cut(adds(test(), elsewhere)), whole);
        let sum = vec![Stmt::Accumulate(RealId(9), RealId(3))];
        assert_eq!(cut(adds(test(), sum)), whole);
        assert_eq!(cut(adds(Cond::NonNegative(index(0).scale(2).expect("it fits")), Vec::new())), whole);
        let either = Cond::Any(vec![test(), Cond::NonNegative(index(1))]);
        assert_eq!(cut(adds(either, Vec::new())), whole);
    }

    /// Statements around `for i { old = s[i]; .. s[i] = new }`, of which the tests are of a place `i8`, and the number `r8`.
    fn updates(ahead: Vec<Stmt>, more: Vec<Stmt>, new: u32, tests: Tests) -> Vec<Stmt> {
        let mut inner = vec![Stmt::Define(RealId(0), Real::Load(at(STATE, &[index(0)])))];
        inner.extend(more);
        inner.push(Stmt::Store(at(STATE, &[index(0)]), RealId(new)));
        let mut body = ahead;
        let whole = Domain::whole(&Affine::constant(9)).expect("it fits");
        body.push(Stmt::For {
            index: IndexId::from_index(0),
            domain: whole,
            lanes: 8,
            jam: 1,
            parallel: false,
            body: inner,
        });
        let mut names = Fresh::default();
        for _ in 0..10 {
            names.fresh_index();
        }
        cut_loops(&mut body, &BTreeSet::from([STATE]), tests, &mut names).expect("it fits");
        body
    }

    /// `r1 = 0; if test { r1 = r2 }`, and `r3` the sum of that and of what was there.
    fn added(test: Cond) -> Vec<Stmt> {
        let [old, some, given, sum] = [0, 1, 2, 3].map(RealId);
        vec![
            Stmt::Define(given, Real::Load(at(BufferId(1), &[]))),
            Stmt::Local(some),
            Stmt::If { cond: test, body: vec![Stmt::Assign(some, given)] },
            Stmt::Define(sum, Real::Add(old, some)),
        ]
    }

    fn equal(a: u32, b: u32) -> Real {
        let function = crate::scalar::Op::Compare(crate::scalar::Comparison::Equal);
        Real::Apply(crate::scalar::Function::Value(crate::scalar::Primitive::Op(function)), vec![RealId(a), RealId(b)])
    }

    #[test]
    fn one_element_is_one_iteration() {
        let here = || index(0).sub(&index(8)).expect("it fits");
        let place =
            || Stmt::Let { index: IndexId::from_index(8), array: crate::loops::ArrayId(0), at: index(9), step: None };
        // The place is known before the loop, or in it.
        let body = updates(vec![place()], added(Cond::Zero(here())), 3, Tests::OfPlaces);
        assert!(matches!(&body[1], stmt @ Stmt::For { lanes: 1, .. } if bounds(stmt) == (2, 2)), "{body:?}");
        let inside = [vec![place()], added(Cond::Zero(here()))].concat();
        let body = updates(Vec::new(), inside, 3, Tests::OfPlaces);
        assert!(matches!(body.as_slice(), [Stmt::Let { .. }, stmt] if bounds(stmt) == (2, 2)), "{body:?}");
        // It depends on the loop.
        let place =
            Stmt::Let { index: IndexId::from_index(8), array: crate::loops::ArrayId(0), at: index(0), step: None };
        let body = updates(Vec::new(), [vec![place], added(Cond::Zero(here()))].concat(), 3, Tests::OfPlaces);
        assert!(matches!(body.as_slice(), [stmt] if bounds(stmt) == (1, 1)), "{body:?}");
        // The element gets another number: what was there is asked for elsewhere.
        let other = [
            vec![
                Stmt::Local(RealId(4)),
                Stmt::If { cond: Cond::NonZero(here()), body: vec![Stmt::Assign(RealId(4), RealId(0))] },
            ],
            added(Cond::Zero(here())),
            vec![Stmt::Define(RealId(5), Real::Add(RealId(4), RealId(1)))],
        ];
        let body = updates(Vec::new(), other.concat(), 5, Tests::OfPlaces);
        assert!(matches!(body.as_slice(), [stmt] if bounds(stmt) == (2, 2)), "{body:?}");
        // Ranges only where they are asked for.
        let below = added(Cond::NonNegative(here()));
        assert_eq!(
            updates(Vec::new(), below.clone(), 3, Tests::OfPlaces).iter().map(bounds).collect::<Vec<_>>(),
            [(1, 1)]
        );
        assert_eq!(updates(Vec::new(), below, 3, Tests::All).iter().map(bounds).collect::<Vec<_>>(), [(2, 1)]);
    }

    #[test]
    fn numbers_tell_places() {
        let number = |r| Stmt::Define(RealId(r), Real::Load(at(BufferId(3), &[])));
        let asked = |r| vec![Stmt::Define(RealId(6), Real::Index(index(0))), Stmt::Define(RealId(7), equal(r, 6))];
        let update = |r| [asked(r), added(Cond::Support(RealId(7)))].concat();
        // It is loaded before the loop, or in it.
        let body = updates(vec![number(8)], update(8), 3, Tests::OfPlaces);
        assert!(matches!(body.as_slice(), [_, Stmt::Length { .. }, stmt] if bounds(stmt) == (2, 2)), "{body:?}");
        let body = updates(Vec::new(), [vec![number(8)], update(8)].concat(), 3, Tests::OfPlaces);
        assert!(matches!(body.as_slice(), [Stmt::Length { .. }, stmt] if bounds(stmt) == (2, 2)), "{body:?}");
        // What the test asks is the other way round, or of another number than that before the loop.
        let not = [asked(8), added(Cond::NoSupport(RealId(7)))].concat();
        assert_eq!(updates(vec![number(8)], not, 3, Tests::OfPlaces).len(), 2);
        let stored = Stmt::Define(RealId(8), Real::Load(at(STATE, &[index(5)])));
        let body = updates(Vec::new(), [vec![stored], update(8)].concat(), 3, Tests::OfPlaces);
        assert!(matches!(body.as_slice(), [stmt] if bounds(stmt) == (1, 1)), "{body:?}");
    }

    /// What is multiplied by 0 may be NaN, and what was loaded before a loop may have changed since.
    #[test]
    fn what_is_not_known_to_stay() {
        let here = || index(0).sub(&index(8)).expect("it fits");
        let times = vec![
            Stmt::Local(RealId(1)),
            Stmt::If { cond: Cond::Zero(here()), body: vec![Stmt::Assign(RealId(1), RealId(0))] },
            Stmt::Define(RealId(2), Real::Mul(RealId(0), RealId(1))),
            Stmt::Define(RealId(3), Real::Add(RealId(0), RealId(2))),
        ];
        let body = updates(Vec::new(), times, 3, Tests::OfPlaces);
        assert!(matches!(body.as_slice(), [stmt] if bounds(stmt) == (1, 1)), "{body:?}");
        let before = vec![Stmt::Define(RealId(9), Real::Load(at(STATE, &[index(0)])))];
        let body = updates(before, added(Cond::Zero(here())), 9, Tests::OfPlaces);
        assert!(matches!(body.as_slice(), [_, stmt] if bounds(stmt) == (1, 1)), "{body:?}");
    }
}

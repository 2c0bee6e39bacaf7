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
//! ```text
//! for i in D { if i = a { s[i] = F(s[i]) } else if i = b { s[i] = G(s[i]) } else { s[i] = s[i] } }
//!   ==   for i in D, i = a { .. }; if b != a { for i in D, i = b { .. } }
//! ```
//!
//! Where it takes several tests to fail, and each holds at one place, the loop runs once for each of these places, of equal ones for the first. Iterations
//! may change their order: each stores at places of its own index alone, and loads of the states no others. So a step that updates `k` elements takes `k`
//! iterations.
//!
//! [A loop of one iteration](singles) that does not depend on the loop around is a test of it.
//!
//! Left as they are: loops with more than [`MOST_PLACES`] such tests, since their statements are written once for each place; tests of ranges, of which an
//! iteration has no place; places that the loop computes.
//!
//! What a bound mentions is defined before the loop, moved there where it does not depend on the loop.

mod singles;
mod unchanged;

use std::collections::{BTreeMap, BTreeSet};

use crate::base::IndexId;
use crate::index::{Affine, Checked, Size, Var};
use crate::loops::{
    Bound, BufferId, Cond, Domain, Fresh, Place, Real, RealId, Stmt, declared, defined, loads, mentioned, reads, stores,
};
use unchanged::{Number, Registers, Test};

/// How many tests of a loop are looked at.
const MAX_TESTS: usize = 8;
/// At how many places a loop runs at most that takes several tests to fail.
const MOST_PLACES: usize = 4;

/// Which tests become bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tests {
    /// Those that one value of the index passes at most.
    OfPlaces,
    All,
}

/// The buffers that states after a step are stored in, each with that of the state before it, which the former is to be stored over.
pub(super) type States = BTreeMap<BufferId, BufferId>;

/// Cuts loops over states, which are stored over those before them, down to where they change something: to one range each.
pub(super) fn cut_loops(body: &mut Vec<Stmt>, states: &States, tests: Tests, names: &mut Fresh) -> Checked<()> {
    cut(body, states, tests, false, names)
}

/// [`cut_loops`], also to several places, where states are stored over those before them already.
pub(super) fn cut_loops_to_places(
    body: &mut Vec<Stmt>,
    states: &BTreeSet<BufferId>,
    tests: Tests,
    names: &mut Fresh,
) -> Checked<()> {
    let states = states.iter().map(|b| (*b, *b)).collect();
    cut(body, &states, tests, true, names)
}

fn cut(body: &mut Vec<Stmt>, states: &States, tests: Tests, several: bool, names: &mut Fresh) -> Checked<()> {
    let mut cut = Cut { states, tests, several, names, around: BTreeMap::new(), places: Vec::new() };
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
    states: &'a States,
    tests: Tests,
    /// Whether a loop may run at several places.
    several: bool,
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
            let (mut ahead, mut behind) = (Vec::new(), Vec::new());
            match &mut body[at] {
                Stmt::Define(r, real) => drop(self.around.insert(*r, unchanged::source(real))),
                Stmt::If { body, .. } => self.block(body)?,
                stmt @ Stmt::For { .. } => {
                    singles::move_out(stmt)?;
                    if let Stmt::For { body, .. } = stmt {
                        self.block(body)?;
                    }
                    if !self.cut(stmt, &mut ahead)? && self.several {
                        behind = self.cut_to_places(stmt, &mut ahead)?;
                    }
                }
                _ => {}
            }
            let next = at + 1;
            let (before, after) = (ahead.len(), behind.len());
            body.splice(next..next, behind);
            body.splice(at..at, ahead);
            at = next + before + after;
        }
        Ok(())
    }

    /// Cuts a loop by tests of which each is enough; says whether one holds at one place.
    fn cut(&mut self, nest: &mut Stmt, ahead: &mut Vec<Stmt>) -> Checked<bool> {
        let Stmt::For { index, domain: Domain::Range { .. }, body, .. } = nest else { return Ok(true) };
        let index = *index;
        let tests = self.tests(index, body);
        let mut is_one = false;
        for test in tests {
            let Stmt::For { domain: Domain::Range { upper, .. }, body, .. } = nest else { return Ok(true) };
            if !unchanged::leaves(body, std::slice::from_ref(&test), self.states, &self.around) {
                continue;
            }
            let Some((coefficient, rest)) = self.known_before(index, &test, upper, body, ahead)? else { continue };
            match test {
                Test::NonNegative(_) => {
                    if let Stmt::For { domain: Domain::Range { lower, upper }, .. } = nest {
                        let bounds = if coefficient == 1 { lower } else { upper };
                        *bounds = Bound::and(bounds, rest.scale(-coefficient)?);
                    }
                }
                Test::Zero(_) | Test::Number(..) => {
                    run_at(nest, rest.scale(-coefficient)?);
                    is_one = true;
                }
            }
        }
        Ok(is_one)
    }

    /// Has a loop run at the few places outside of which it leaves the states as they are; gives what follows the loop for the first of them.
    fn cut_to_places(&mut self, nest: &mut Stmt, ahead: &mut Vec<Stmt>) -> Checked<Vec<Stmt>> {
        let Stmt::For { index, domain: Domain::Range { upper, .. }, body, .. } = nest else { return Ok(Vec::new()) };
        let index = *index;
        let leaves = |body: &[Stmt], tests: &[Test]| unchanged::leaves(body, tests, self.states, &self.around);
        let mut tests = self.tests(index, body);
        tests.retain(|test| !matches!(test, Test::NonNegative(_)));
        let is_own = |place: &Place| place.at.iter().any(|a| a.as_index() == Some(index));
        if !leaves(body, &tests) || !stores(&*body).into_iter().all(is_own) {
            return Ok(Vec::new());
        }
        let mut at = 0;
        while at < tests.len() {
            let others: Vec<Test> = [&tests[..at], &tests[at + 1..]].concat();
            match leaves(body, &others) {
                true => tests = others,
                false => at += 1,
            }
        }
        if tests.len() > MOST_PLACES {
            return Ok(Vec::new());
        }
        let mut places: Vec<Affine> = Vec::new();
        for test in &tests {
            let Some((coefficient, rest)) = self.known_before(index, test, upper, body, ahead)? else {
                return Ok(Vec::new());
            };
            places.push(rest.scale(-coefficient)?);
        }
        let Some((first, rest)) = places.split_first() else { return Ok(Vec::new()) };
        let (whole, mut behind) = (nest.clone(), Vec::new());
        run_at(nest, first.clone());
        for (at, place) in rest.iter().enumerate() {
            let differs = places[..=at].iter().map(|other| Ok(Cond::NonZero(place.sub(other)?)));
            self.names.again();
            let mut body = self.names.body(std::slice::from_ref(&whole))?;
            body.iter_mut().for_each(|nest| run_at(nest, place.clone()));
            behind.push(Stmt::If { cond: Cond::All(differs.collect::<Checked<_>>()?), body });
        }
        Ok(behind)
    }

    /// A test of the index of a loop as `coefficient * index + rest`, where the rest is known before the loop.
    fn known_before(
        &mut self,
        index: IndexId,
        test: &Test,
        upper: &[Bound],
        body: &mut Vec<Stmt>,
        ahead: &mut Vec<Stmt>,
    ) -> Checked<Option<(i64, Affine)>> {
        let a = match test {
            Test::Zero(a) | Test::NonNegative(a) => a.clone(),
            Test::Number(_, number) => match self.told(number, upper, body, ahead)? {
                Some(told) => Affine::index(index).sub(&told.into())?,
                None => return Ok(None),
            },
        };
        let split = a.split(index);
        Ok(split.filter(|(_, rest)| before_loop(body, index, rest, self.states, ahead)))
    }

    /// The tests in a loop of its index.
    fn tests(&self, index: IndexId, body: &[Stmt]) -> Vec<Test> {
        let mut known: Registers = BTreeMap::new();
        let mut tests: Vec<Test> = Vec::new();
        let is_unit = |a: &Affine| a.split(index).is_some_and(|(k, _)| k.unsigned_abs() == 1);
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
            if distinct.len() < MAX_TESTS && !distinct.contains(&test) {
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
                if depends || is_state(self.states, place.buffer) {
                    return Ok(None);
                }
                let index = self.names.fresh_index();
                ahead.push(Stmt::Length { index, place: place.clone(), most });
                Ok(Some(index))
            }
        }
    }
}

/// Has a loop run at one place.
fn run_at(nest: &mut Stmt, place: Affine) {
    if let Stmt::For { domain: Domain::Range { lower, upper }, lanes, jam, .. } = nest {
        *lower = Bound::and(lower, place.clone());
        *upper = Bound::and(upper, place);
        (*lanes, *jam) = (1, 1);
    }
}

fn is_state(states: &States, buffer: BufferId) -> bool {
    states.iter().any(|(after, before)| [after, before].contains(&&buffer))
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
fn before_loop(body: &mut Vec<Stmt>, index: IndexId, a: &Affine, states: &States, ahead: &mut Vec<Stmt>) -> bool {
    let inside = defined(&*body);
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
        let is_loaded = loads([stmt]).into_iter().any(|place| is_state(states, place.buffer));
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
    let own = declared([stmt]);
    reads([stmt], |r| !own.contains(&r))
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

    fn cut(stmt: Stmt) -> [(usize, usize); 2] {
        let mut body = vec![stmt];
        cut_loops_to_places(&mut body, &BTreeSet::from([STATE]), Tests::All, &mut Fresh::default()).expect("it fits");
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
        cut_loops_to_places(&mut body, &BTreeSet::from([STATE]), tests, &mut names).expect("it fits");
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

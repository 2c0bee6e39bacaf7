//! Whether statements leave states as they are, if some tests fail.
//!
//! Statements are run on what is known of numbers: that they are 0, an index, what a place held. Where the tests fail they must store nothing but the number
//! that the place holds already, and do nothing else that lasts. What is added to 0 is itself, if `-0` counts as 0; what is multiplied by 0 may be NaN.
//!
//! A number of which nothing is known, as the condition of an arm, is 0 or not: statements that ask are run once for each.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::IndexId;
use crate::index::Affine;
use crate::loops::{BufferId, Cond, Place, Real, RealId, Stmt, changed};
use crate::scalar::{Comparison, Function, Op, Primitive};

/// A test of the index of a loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// `a = 0`.
    Zero(Affine),
    /// `0 <= a`.
    NonNegative(Affine),
    /// A number is the index.
    Number(IndexId, Number),
}

impl Test {
    /// Whether an expression is not 0 where the test fails.
    fn excludes_zero(&self, a: &Affine) -> bool {
        matches!(self, Test::Zero(b) | Test::NonNegative(b) if a == b || opposite(b).as_ref() == Some(a))
    }
}

/// A number that a place held: when a register outside of the loop was defined, or in the loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Around(RealId),
    Inside(Place),
}

/// What is known of a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    Zero,
    Index(Affine),
    /// What a place held when it was loaded.
    At(Place),
    NotZero,
    Nothing,
}

/// What is known of registers.
pub(super) type Registers = BTreeMap<RealId, Known>;

const EQUAL: Function = Function::Value(Primitive::Op(Op::Compare(Comparison::Equal)));

/// How many numbers are taken to be 0 or not.
const MAX_ASKED: usize = 3;

/// Whether statements leave the states as they are where all tests fail, and do nothing else that lasts. A state after a step is stored over the one before it:
/// `states` has the latter for both.
pub(super) fn leaves(body: &[Stmt], tests: &[Test], states: &BTreeMap<BufferId, BufferId>, around: &Registers) -> bool {
    let asked = asked(body);
    (0..1u32 << asked.len()).all(|world| {
        let zero = asked.iter().enumerate().map(|(at, r)| (*r, world & 1 << at == 0)).collect();
        let mut run = Run { tests, states, known: BTreeMap::new(), around, zero };
        run.statements(body).is_some()
    })
}

/// Registers that are asked for being 0, and are the same throughout.
fn asked(body: &[Stmt]) -> Vec<RealId> {
    let (mut asked, mut changes) = (Vec::new(), BTreeSet::new());
    let mut ask = |r: RealId| {
        if !asked.contains(&r) {
            asked.push(r);
        }
    };
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Local(r) => drop(changes.insert(*r)),
            Stmt::Define(_, Real::Select(r, _)) => ask(*r),
            Stmt::If { cond, .. } => cond.visit_reads(&mut ask),
            _ => {}
        });
    }
    asked.retain(|r| !changes.contains(r));
    asked.truncate(MAX_ASKED);
    asked
}

/// An index, and the number that a comparison asks for being it. Registers are known inside of a loop and around it.
pub(super) fn compared(real: &Real, inside: &Registers, around: &Registers) -> Option<(IndexId, Number)> {
    let Real::Apply(function, args) = real else { return None };
    let ([a, b], true) = (args.as_slice(), *function == EQUAL) else { return None };
    let number = |r: &RealId| match (inside.get(r), around.get(r)) {
        (Some(Known::At(place)), _) => Some(Number::Inside(place.clone())),
        (None, Some(Known::At(_))) => Some(Number::Around(*r)),
        _ => None,
    };
    let index = |r: &RealId| match inside.get(r) {
        Some(Known::Index(a)) => a.as_index(),
        _ => None,
    };
    [(a, b), (b, a)].into_iter().find_map(|(i, x)| Some((index(i)?, number(x)?)))
}

/// What is known of a number that is made of no others.
pub(super) fn source(real: &Real) -> Known {
    match real {
        Real::Literal(0.0) => Known::Zero,
        Real::Index(a) => Known::Index(a.clone()),
        Real::Load(place) => Known::At(place.clone()),
        _ => Known::Nothing,
    }
}

struct Run<'a> {
    tests: &'a [Test],
    states: &'a BTreeMap<BufferId, BufferId>,
    known: Registers,
    /// What is known of registers of the statements around, which is not what places hold now.
    around: &'a Registers,
    /// Registers that are taken to be 0, or not to be.
    zero: BTreeMap<RealId, bool>,
}

impl Run<'_> {
    fn of(&self, r: RealId) -> Known {
        match self.known.get(&r) {
            Some(Known::Nothing) | None if self.zero.get(&r) == Some(&true) => Known::Zero,
            Some(known) => known.clone(),
            None => Known::Nothing,
        }
    }

    /// Whether a number is 0, where that is known.
    fn is_zero(&self, r: RealId) -> Option<bool> {
        match self.of(r) {
            Known::Zero => Some(true),
            Known::NotZero => Some(false),
            _ => self.zero.get(&r).copied(),
        }
    }

    // Loops and tests nest to a bounded depth.
    fn statements(&mut self, body: &[Stmt]) -> Option<()> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &Stmt) -> Option<()> {
        match stmt {
            Stmt::Define(r, real) => {
                let known = self.real(real);
                self.known.insert(*r, known);
            }
            Stmt::Local(r) => drop(self.known.insert(*r, Known::Zero)),
            Stmt::Assign(r, x) => {
                let known = self.of(*x);
                *self.known.get_mut(r)? = known;
            }
            Stmt::Accumulate(r, x) => {
                let sum = add(self.known.get(r)?.clone(), self.of(*x));
                self.known.insert(*r, sum);
            }
            Stmt::MulAdd(r, ..) | Stmt::Extend(_, r, _) => *self.known.get_mut(r)? = Known::Nothing,
            Stmt::If { cond, body } => match self.holds(cond) {
                Some(true) => self.statements(body)?,
                Some(false) => {}
                None => {
                    let before = self.known.clone();
                    self.statements(body)?;
                    self.known.retain(|r, _| before.contains_key(r));
                    let differs = self.known.iter_mut().filter(|(r, known)| before.get(r) != Some(known));
                    differs.for_each(|(_, known)| *known = Known::Nothing);
                }
            },
            Stmt::For { body, .. } | Stmt::Extremum { body, .. } => {
                let changed = changed(body);
                let forget = |known: &mut Registers| {
                    known
                        .iter_mut()
                        .filter(|(r, _)| changed.contains(r))
                        .for_each(|(_, known)| *known = Known::Nothing);
                };
                forget(&mut self.known);
                self.statements(body)?;
                forget(&mut self.known);
            }
            Stmt::Store(place, x) => {
                let before = self.states.get(&place.buffer)?;
                let same = self.of(*x) == Known::At(Place { buffer: *before, at: place.at.clone() });
                return same.then_some(());
            }
            Stmt::Let { .. } | Stmt::Find { .. } | Stmt::Length { .. } => {}
            Stmt::End(_) | Stmt::Fill(_) | Stmt::Call { .. } | Stmt::Tuple(..) => return None,
        }
        Some(())
    }

    fn real(&self, real: &Real) -> Known {
        match real {
            Real::Add(a, b) => add(self.of(*a), self.of(*b)),
            Real::Select(_, b) if self.of(*b) == Known::Zero => Known::Zero,
            Real::Select(a, b) => match self.is_zero(*a) {
                Some(true) => Known::Zero,
                Some(false) => self.of(*b),
                None => Known::Nothing,
            },
            Real::Apply(function, args) if *function == EQUAL => self.equal(real, args),
            other => source(other),
        }
    }

    /// What is known of a comparison: of an index and the number of a test, or of a number and 0.
    fn equal(&self, comparison: &Real, args: &[RealId]) -> Known {
        let asked = compared(comparison, &self.known, self.around);
        if asked.is_some_and(|(i, x)| self.tests.contains(&Test::Number(i, x))) {
            return Known::Zero;
        }
        let [a, b] = args else { return Known::Nothing };
        let other = [(a, b), (b, a)].into_iter().find(|(zero, _)| self.known.get(zero) == Some(&Known::Zero));
        match other.and_then(|(_, x)| self.is_zero(*x)) {
            Some(true) => Known::NotZero,
            Some(false) => Known::Zero,
            None => Known::Nothing,
        }
    }

    /// Whether a condition holds, where that is known.
    fn holds(&self, cond: &Cond) -> Option<bool> {
        match cond {
            Cond::Zero(a) => self.tests.iter().any(|test| test.excludes_zero(a)).then_some(false),
            Cond::NonZero(a) => self.tests.iter().any(|test| test.excludes_zero(a)).then_some(true),
            Cond::NonNegative(a) => self.tests.iter().find_map(|test| match test {
                Test::NonNegative(b) if a == b => Some(false),
                // Below 0 is at most -1.
                Test::NonNegative(b) if opposite(b).and_then(|b| b.add_constant(-1).ok()).as_ref() == Some(a) => {
                    Some(true)
                }
                _ => None,
            }),
            Cond::Support(r) => self.is_zero(*r).map(|zero| !zero),
            Cond::NoSupport(r) => self.is_zero(*r),
            Cond::All(all) => {
                let all: Vec<Option<bool>> = all.iter().map(|cond| self.holds(cond)).collect();
                match all.contains(&Some(false)) {
                    true => Some(false),
                    false => all.iter().all(|holds| *holds == Some(true)).then_some(true),
                }
            }
            Cond::Any(any) => {
                let any: Vec<Option<bool>> = any.iter().map(|cond| self.holds(cond)).collect();
                match any.contains(&Some(true)) {
                    true => Some(true),
                    false => any.iter().all(|holds| *holds == Some(false)).then_some(false),
                }
            }
        }
    }
}

fn opposite(a: &Affine) -> Option<Affine> {
    a.scale(-1).ok()
}

fn add(a: Known, b: Known) -> Known {
    match (a, b) {
        (Known::Zero, Known::Zero) => Known::Zero,
        (Known::Zero, known @ Known::At(_)) | (known @ Known::At(_), Known::Zero) => known,
        _ => Known::Nothing,
    }
}

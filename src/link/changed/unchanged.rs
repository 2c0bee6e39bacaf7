//! Whether statements leave states as they are, if a test fails.
//!
//! Statements are run on what is known of numbers: that they are 0, an index, what a place held. Where the test fails they must store nothing but the number
//! that the place holds already, and do nothing else that lasts. What is added to 0 is itself, if `-0` counts as 0; what is multiplied by 0 may be NaN.

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
    Nothing,
}

/// What is known of registers.
pub(super) type Registers = BTreeMap<RealId, Known>;

/// Whether statements leave the states as they are where the test fails, and do nothing else that lasts.
pub(super) fn leaves(body: &[Stmt], test: &Test, states: &BTreeSet<BufferId>, around: &Registers) -> bool {
    let mut run = Run { test, states, known: BTreeMap::new(), around };
    run.statements(body).is_some()
}

/// An index, and the number that a comparison asks for being it. Registers are known inside of a loop and around it.
pub(super) fn compared(real: &Real, inside: &Registers, around: &Registers) -> Option<(IndexId, Number)> {
    const EQUAL: Function = Function::Value(Primitive::Op(Op::Compare(Comparison::Equal)));
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
    test: &'a Test,
    states: &'a BTreeSet<BufferId>,
    known: Registers,
    /// What is known of registers of the statements around, which is not what places hold now.
    around: &'a Registers,
}

impl Run<'_> {
    fn of(&self, r: RealId) -> Known {
        self.known.get(&r).cloned().unwrap_or(Known::Nothing)
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
                let same = self.states.contains(&place.buffer) && self.of(*x) == Known::At(place.clone());
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
            Real::Select(a, _) if self.of(*a) == Known::Zero => Known::Zero,
            Real::Select(_, b) if self.of(*b) == Known::Zero => Known::Zero,
            Real::Apply(..) => match (self.test, compared(real, &self.known, self.around)) {
                (Test::Number(i, x), Some((j, y))) if *i == j && *x == y => Known::Zero,
                _ => Known::Nothing,
            },
            other => source(other),
        }
    }

    /// Whether a condition holds, where that is known.
    fn holds(&self, cond: &Cond) -> Option<bool> {
        match cond {
            Cond::Zero(a) => self.is_zero(a),
            Cond::NonZero(a) => self.is_zero(a).map(|zero| !zero),
            Cond::NonNegative(a) => match self.test {
                Test::NonNegative(b) if a == b => Some(false),
                // Below 0 is at most -1.
                Test::NonNegative(b) if opposite(b).and_then(|b| b.add_constant(-1).ok()).as_ref() == Some(a) => {
                    Some(true)
                }
                _ => None,
            },
            Cond::Support(r) => (self.of(*r) == Known::Zero).then_some(false),
            Cond::NoSupport(r) => (self.of(*r) == Known::Zero).then_some(true),
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

    fn is_zero(&self, a: &Affine) -> Option<bool> {
        match self.test {
            Test::Zero(b) | Test::NonNegative(b) if a == b || opposite(b).as_ref() == Some(a) => Some(false),
            _ => None,
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

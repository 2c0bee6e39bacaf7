//! What is done under tests of numbers is done in any case, and chosen.
//!
//! ```text
//! for j                                   for j
//!   local r0                                t = [b != 0]
//!   if a != 0 and b = 0                     r1 = x[j]
//!     r1 = x[j]                    ==       r2 = [t != 0] r1
//!     r0 := r1                              r0 = [a != 0] r2
//!   s += r0                                 s += r0
//! ```
//!
//! A test of a number that differs from one iteration to the next keeps its loop from having lanes, and a processor guesses it wrong. This is
//! *if-conversion* (Allen, Kennedy, Porterfield and Warren, 1983). Tests of what the data of relations tell are converted where text is written
//! (`codegen::rust::if_conversion`), as nothing must be loaded there.
//!
//! **Why it is right.** A register that is given a number once has 0 else, as it is chosen. Where a sum gets 0 it keeps its bits, since sums begin with
//! +0 and are never -0. A place that is written under the test was made zero before, and is written 0 now. What is computed for nothing has no effect:
//! it is arithmetic, on numbers that are loaded from places in bounds, which is proved without the test.
//!
//! A test of an index that an array tells, as the target of a map, is one of a number as well: `0 <= a` is `less_equal(0, real(a))`.
//!
//! **Where it is done.** In loops over ranges, and in those over a row of a relation that is the same for all values of a range around, for little
//! arithmetic, if no such test is left in the loop then, nor in loops beside it. Calls of functions are made for nothing where a range is asked for,
//! in which most targets are, or where one of two is made in any case. Under a test of a number what a call gives is chosen at once, so
//! [code](crate::codegen) makes it where some lane passes the test; functions of the user are called where they are asked for. Sums over a few values,
//! as a literal, are no loops here: they become statements. A longer sum of products is taken as well if what is tested was computed for each element, as in the gradient of a layer with `relu`: about every
//! other element passes such a test, and the same sum for the other elements costs less than that none of them runs in lanes.

use std::collections::{BTreeMap, BTreeSet};

use super::unroll_outer::{few, is_few};
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Checked, Var};
use crate::loops::predicate::{self, assume, under};
use crate::loops::{
    Buffer, BufferId, BufferKind, Cond, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, has_loop,
};
use crate::scalar::{Comparison, Function, Op, Primitive};
use crate::solver::Facts;

/// How many numbers are computed under the tests of a loop at most: about what is lost where a processor guesses wrong every other time.
const MOST_NUMBERS: usize = 32;

/// How many statements a sum of products has at most.
const MOST_FACTORS: usize = 8;

/// Converts tests of numbers.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let known = program.signature.facts();
    let in_doubt = |nest: &Nest| program.in_doubt(&nest.body).into_iter().cloned().collect();
    let in_doubt: Vec<Option<Vec<Place>>> =
        program.nests.iter().map(|nest| tests_in_rows(&nest.body).then(|| in_doubt(nest))).collect();
    let Program { buffers, nests, .. } = program;
    for (nest, in_doubt) in nests.iter_mut().zip(in_doubt) {
        let mut pass = Pass { in_doubt, ..Pass::of(buffers, nest) };
        pass.body(&mut nest.body, &known, None)?;
        if pass.converted > 0 {
            nest.decisions.push(Decision::Converted { tests: pass.converted });
        }
    }
    Ok(())
}

struct Pass<'a> {
    buffers: &'a Arena<BufferId, Buffer>,
    names: Fresh,
    /// How many statements change a register.
    changes: BTreeMap<RealId, usize>,
    /// Registers that are more than a sum of numbers.
    set: BTreeSet<RealId>,
    /// Buffers that the nest makes zero before all else.
    zero: BTreeSet<BufferId>,
    /// Of a nest with tests in loops over rows of relations, the places that are not known to be in bounds.
    in_doubt: Option<Vec<Place>>,
    converted: usize,
}

impl<'a> Pass<'a> {
    fn of(buffers: &'a Arena<BufferId, Buffer>, nest: &Nest) -> Self {
        let (mut changes, mut set) = (BTreeMap::new(), BTreeSet::new());
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                if let Some(r) = stmt.changes() {
                    *changes.entry(r).or_default() += 1;
                    set.extend((!matches!(stmt, Stmt::Accumulate(..))).then_some(r));
                }
            });
        }
        let names = Fresh::after(&nest.body);
        let fills = nest.body.iter().map_while(|stmt| match stmt {
            Stmt::Fill(buffer) => Some(Some(*buffer)),
            Stmt::Define(..) | Stmt::Local(_) => Some(None),
            _ => None,
        });
        let zero = fills.flatten().collect();
        Pass { buffers, names, changes, set, zero, in_doubt: None, converted: 0 }
    }

    /// Statements inside of a loop over a range, if there is one around.
    fn body(&mut self, body: &mut Vec<Stmt>, known: &Facts, around: Option<IndexId>) -> Checked<()> {
        for stmt in body {
            match stmt {
                Stmt::For { index, domain, body, .. } => {
                    let mut inside = known.clone();
                    assume(&mut inside, *index, domain)?;
                    let (is_range, is_row) = (matches!(domain, Domain::Range { .. }), is_row_of_lanes(domain, around));
                    let around = if is_range { Some(*index) } else { around };
                    if is_range {
                        self.convert_loop(body, &inside, around)?;
                    }
                    self.body(body, &inside, around)?;
                    // Loops inside may have no tests now.
                    if is_row || is_range && body.iter().any(has_loop) {
                        self.convert_loop(body, &inside, around)?;
                    }
                }
                Stmt::If { cond, body } => self.body(body, &under(known, cond)?, around)?,
                Stmt::Extremum { body, .. } => self.body(body, known, around)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Converts all tests in the body of a loop, or none. An index may have lanes.
    fn convert_loop(&mut self, body: &mut Vec<Stmt>, known: &Facts, lanes: Option<IndexId>) -> Checked<()> {
        let is_test = |stmt: &Stmt| matches!(stmt, Stmt::If { .. });
        let is_straight = |stmt: &Stmt| stmt.body().is_empty() || is_few(stmt) || is_loop(stmt, lanes);
        let is_long = |stmt: &Stmt| stmt.body().iter().any(|stmt| has_loop(stmt) && !is_few(stmt));
        if body.iter().any(|stmt| is_test(stmt) && is_long(stmt)) && !self.tests_computed(body) {
            return Ok(());
        }
        if !body.iter().any(is_test) || !body.iter().all(|stmt| is_test(stmt) || is_straight(stmt)) {
            return Ok(());
        }
        let mut numbers = 0;
        for stmt in body.iter().filter(|stmt| is_test(stmt)) {
            stmt.visit(&mut |stmt| numbers += usize::from(matches!(stmt, Stmt::Define(..))));
        }
        if numbers > MOST_NUMBERS {
            return Ok(());
        }
        let mut told = BTreeSet::new();
        let mut tell = |stmt: &Stmt| told.extend(if let Stmt::Let { index, .. } = stmt { Some(*index) } else { None });
        body.iter().for_each(|stmt| stmt.visit(&mut tell));
        let others = body.iter().filter_map(|stmt| match stmt {
            Stmt::If { cond: Cond::NonZero(a), .. } => Some(a.clone()),
            _ => None,
        });
        let mut conversion = Conversion { told, others: others.collect(), ..Conversion::new(known.clone()) };
        if conversion.stmts(self, body)? && conversion.declares_once(&self.changes) {
            self.converted += conversion.converted;
            *body = conversion.out;
        }
        Ok(())
    }

    /// Whether numbers that the body of a loop loads from intermediate tensors are what it tests.
    fn tests_computed(&self, body: &[Stmt]) -> bool {
        let mut computed = BTreeSet::new();
        for stmt in body {
            let Stmt::Define(r, real) = stmt else { continue };
            let mut is_computed = stmt.load().is_some_and(|place| {
                self.buffers
                    .get(place.buffer)
                    .is_some_and(|buffer| !matches!(buffer.kind, BufferKind::Param(..) | BufferKind::Held(_)))
            });
            real.visit_reads(&mut |a| is_computed |= computed.contains(&a));
            if is_computed {
                computed.insert(*r);
            }
        }
        body.iter().all(|stmt| match stmt {
            Stmt::If { cond: Cond::Support(r) | Cond::NoSupport(r), .. } => computed.contains(r),
            Stmt::If { .. } => false,
            _ => true,
        })
    }
}

/// Whether a statement is a loop in which nothing is tested, and whose rows are the same for all values of an index.
fn is_loop(stmt: &Stmt, lanes: Option<IndexId>) -> bool {
    let mut tests = false;
    stmt.visit(&mut |stmt| {
        let is_loop = match stmt {
            Stmt::For { domain, .. } => matches!(domain, Domain::Range { .. }) || is_row_of_lanes(domain, lanes),
            _ => false,
        };
        tests |= !is_loop && !stmt.body().is_empty()
    });
    matches!(stmt, Stmt::For { .. }) && !tests
}

/// Whether a loop is over a row of a relation that is the same for all values of an index around, which may have lanes.
fn is_row_of_lanes(domain: &Domain, around: Option<IndexId>) -> bool {
    matches!(domain, Domain::Segment(segment) if around.is_some_and(|i| !segment.at.mentions(i)))
}

/// Whether there are tests in loops over ranges with such loops inside.
fn tests_in_rows(body: &[Stmt]) -> bool {
    let mut found = false;
    let mut look = |stmt: &Stmt| {
        let Stmt::For { index, domain: Domain::Range { .. }, body, .. } = stmt else { return };
        let [mut rows, mut tests] = [false; 2];
        let mut inside = |stmt: &Stmt| {
            rows |= matches!(stmt, Stmt::For { domain, .. } if is_row_of_lanes(domain, Some(*index)));
            tests |= matches!(stmt, Stmt::If { .. });
        };
        body.iter().for_each(|stmt| stmt.visit(&mut inside));
        found |= rows && tests;
    };
    body.iter().for_each(|stmt| stmt.visit(&mut look));
    found
}

/// Whether a statement is a sum of products, one by one: of numbers that are loaded and multiplied.
fn is_product_sum(stmt: &Stmt) -> bool {
    let Stmt::For { domain: Domain::Range { .. }, body, lanes: 1, jam: 1, .. } = stmt else { return false };
    body.len() <= MOST_FACTORS
        && body.iter().all(|stmt| match stmt {
            Stmt::Define(_, real) => matches!(real, Real::Load(_) | Real::Literal(_) | Real::Mul(..)),
            stmt => matches!(stmt, Stmt::Accumulate(..)),
        })
}

/// What a test asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asks {
    /// A range of indices that an array tells, or all but one, or one where something else is done for all others.
    Range,
    /// One of them.
    Place,
    /// What a number is.
    Number,
}

/// The body of a loop without tests.
struct Conversion {
    /// What loops and tests of indices around say.
    known: Facts,
    out: Vec<Stmt>,
    /// The indices that arrays tell in the loop.
    told: BTreeSet<IndexId>,
    /// What is done in any case but where these are 0, in which case something else is.
    others: Vec<Affine>,
    /// The numbers that are not 0 where the tests around hold, from outside in.
    tests: Vec<RealId>,
    /// What each of them asks for.
    asks: Vec<Asks>,
    /// Inside of how many tests registers are declared.
    declared: BTreeMap<RealId, usize>,
    converted: usize,
}

impl Conversion {
    fn new(known: Facts) -> Conversion {
        Conversion {
            known,
            out: Vec::new(),
            told: BTreeSet::new(),
            others: Vec::new(),
            tests: Vec::new(),
            asks: Vec::new(),
            declared: BTreeMap::new(),
            converted: 0,
        }
    }

    /// Adds statements; whether they can be converted.
    fn stmts(&mut self, pass: &mut Pass<'_>, stmts: &[Stmt]) -> Checked<bool> {
        for stmt in stmts {
            if !self.stmt(pass, stmt)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn stmt(&mut self, pass: &mut Pass<'_>, stmt: &Stmt) -> Checked<bool> {
        let depth = self.tests.len();
        if let Stmt::If { cond, body } = stmt {
            if !self.test(pass, cond) {
                return Ok(false);
            }
            self.converted += 1;
            let can = self.stmts(pass, body)?;
            self.tests.truncate(depth);
            self.asks.truncate(depth);
            return Ok(can);
        }
        if matches!(stmt, Stmt::For { .. }) && depth > 0 {
            return self.sum(pass, stmt);
        }
        if let Stmt::Local(r) = stmt {
            self.declared.insert(*r, depth);
        }
        // The tests that a register has not around it.
        let changed = match stmt {
            Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::Extend(_, r, _) => Some(*r),
            _ => None,
        };
        let outside = changed.and_then(|r| self.declared.get(&r).copied()).unwrap_or(0);
        let tests = self.tests.get(outside..).unwrap_or_default().to_vec();
        if tests.is_empty() || changed.is_none() && depth == 0 {
            self.out.push(stmt.clone());
            return Ok(true);
        }
        match stmt {
            Stmt::Define(_, Real::Load(place)) if !self.is_in_bounds(pass, place)? => return Ok(false),
            Stmt::Define(r, called @ Real::Apply(function, _)) if function.is_call() => {
                let number = self.asks.iter().rposition(|asks| *asks == Asks::Number);
                let is_built_in = matches!(function, Function::Value(Primitive::Op(_)));
                if self.asks.contains(&Asks::Place) || number.is_some() && !is_built_in {
                    return Ok(false);
                }
                let chosen = match number.and_then(|at| self.tests.get(at)).copied() {
                    Some(test) => Real::Select(test, self.define(pass, called.clone())),
                    None => called.clone(),
                };
                self.out.push(Stmt::Define(*r, chosen));
            }
            // Where the tests are about numbers, indices are what they are without them.
            Stmt::Let { .. } if self.asks.iter().any(|asks| *asks != Asks::Number) => return Ok(false),
            Stmt::Define(..) | Stmt::Local(_) | Stmt::Let { step: None, .. } => self.out.push(stmt.clone()),
            Stmt::Assign(r, a) => {
                let Some(local) = self.out.iter().rposition(|stmt| *stmt == Stmt::Local(*r)) else { return Ok(false) };
                let mut read = false;
                self.out[local..].iter().for_each(|stmt| stmt.visit_reads(&mut |a| read |= a == *r));
                if read {
                    return Ok(false);
                }
                self.out.remove(local);
                let chosen = self.chosen(pass, *a, &tests[1..]);
                self.out.push(Stmt::Define(*r, Real::Select(tests[0], chosen)));
            }
            Stmt::Accumulate(r, a) if !pass.set.contains(r) => {
                let a = self.chosen(pass, *a, &tests);
                self.out.push(Stmt::Accumulate(*r, a));
            }
            Stmt::Store(place, a) if pass.zero.contains(&place.buffer) && self.is_in_bounds(pass, place)? => {
                let a = self.chosen(pass, *a, &tests);
                self.out.push(Stmt::Store(place.clone(), a));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Adds a loop over a few values, or a sum of products, that is under tests.
    fn sum(&mut self, pass: &mut Pass<'_>, stmt: &Stmt) -> Checked<bool> {
        let Stmt::For { index, domain, body, .. } = stmt else { return Ok(false) };
        if few(domain).is_none() && !is_product_sum(stmt) {
            return Ok(false);
        }
        let mut inside = self.known.clone();
        assume(&mut inside, *index, domain)?;
        let around = (std::mem::replace(&mut self.known, inside), std::mem::take(&mut self.out));
        let can = self.stmts(pass, body)?;
        self.known = around.0;
        let body = std::mem::replace(&mut self.out, around.1);
        self.out.push(Stmt::one_by_one(*index, domain.clone(), body));
        Ok(can)
    }

    /// Whether a place is in bounds whatever the tests say.
    fn is_in_bounds(&self, pass: &Pass<'_>, place: &Place) -> Checked<bool> {
        if let Some(in_doubt) = &pass.in_doubt {
            return Ok(self.asks.iter().all(|asks| *asks == Asks::Number) && !in_doubt.contains(place));
        }
        match pass.buffers.get(place.buffer).filter(|buffer| buffer.entries.is_none()) {
            Some(buffer) => predicate::are_in_range(&self.known, &place.at, &buffer.dims),
            None => Ok(false),
        }
    }

    /// A number where tests hold, else 0.
    fn chosen(&mut self, pass: &mut Pass<'_>, a: RealId, tests: &[RealId]) -> RealId {
        tests.iter().rev().fold(a, |a, test| self.define(pass, Real::Select(*test, a)))
    }

    fn define(&mut self, pass: &mut Pass<'_>, real: Real) -> RealId {
        let r = pass.names.fresh_real();
        self.out.push(Stmt::Define(r, real));
        r
    }

    /// Adds the numbers of a condition to the tests; whether it is about numbers alone, and indices that arrays tell.
    fn test(&mut self, pass: &mut Pass<'_>, cond: &Cond) -> bool {
        let (number, asks) = match cond {
            Cond::Support(r) => (*r, Asks::Number),
            Cond::NoSupport(r) => (self.is_zero(pass, *r), Asks::Number),
            Cond::All(conds) => return conds.iter().all(|cond| self.test(pass, cond)),
            Cond::Any(conds) => {
                let one = self.define(pass, Real::Literal(1.0));
                let depth = self.tests.len();
                let (mut any, mut asks) = (None, Asks::Range);
                for cond in conds {
                    if !self.test(pass, cond) {
                        return false;
                    }
                    let tests = self.tests.split_off(depth);
                    asks = self.asks.drain(depth..).fold(asks, Asks::max);
                    let holds = self.chosen(pass, one, &tests);
                    any = Some(any.map_or(holds, |any| self.define(pass, Real::Add(any, holds))));
                }
                (any.unwrap_or_else(|| self.define(pass, Real::Literal(0.0))), asks)
            }
            Cond::NonNegative(a) | Cond::Zero(a) | Cond::NonZero(a) => {
                // Sums of which a loop around is the target are added up by target.
                let is_place = matches!(cond, Cond::Zero(_));
                let of_others = |v: &Var| matches!(v, Var::Index(i) if !self.told.contains(i));
                let others = a.terms().iter().any(|(v, _)| of_others(v));
                if !self.told.iter().any(|i| a.mentions(*i)) || others && is_place {
                    return false;
                }
                let index = self.define(pass, Real::Index(a.clone()));
                match cond {
                    Cond::NonNegative(_) => {
                        let zero = self.define(pass, Real::Literal(0.0));
                        let test = Real::apply(Op::Compare(Comparison::LessEqual), [zero, index]);
                        (self.define(pass, test), Asks::Range)
                    }
                    Cond::Zero(a) if !self.others.contains(a) => (self.is_zero(pass, index), Asks::Place),
                    Cond::Zero(_) => (self.is_zero(pass, index), Asks::Range),
                    _ => (index, Asks::Range),
                }
            }
        };
        self.tests.push(number);
        self.asks.push(asks);
        true
    }

    fn is_zero(&mut self, pass: &mut Pass<'_>, r: RealId) -> RealId {
        let zero = self.define(pass, Real::Literal(0.0));
        self.define(pass, Real::apply(Op::Compare(Comparison::Equal), [r, zero]))
    }

    /// Whether registers that are chosen now were given a number by no other statement.
    fn declares_once(&self, changes: &BTreeMap<RealId, usize>) -> bool {
        let defines = |stmt: &Stmt| matches!(stmt, Stmt::Define(r, _) if changes.get(r).is_some_and(|n| *n > 1));
        !self.out.iter().any(defines)
    }
}

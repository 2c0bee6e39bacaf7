//! Tests of neighbours in relations, without branches.
//!
//! ```text
//! i = neighbours .. [p] - 1                    let c = mask(i >= 0);
//! if 0 <= i                                    let r1 = at_where(c, u, ..);
//!   r1 = u[..]                          ==     let r2 = r1 * r1;
//!   r2 = r1^2                                  r0 = r0 + where_else(c, r2, 0.0);
//!   r0 += r2
//! ```
//!
//! Whether a tuple has a neighbour is as good as random, so a processor guesses wrong again and again, and each time loses more than a few loads
//! and products take. What is under the test is computed in any case, of zeros where it does not hold, and thrown away then. This is
//! *if-conversion* (Allen, Kennedy, Porterfield and Warren, 1983), done where text is written, so that nests and the interpreter know nothing of it.
//!
//! **Why it is right.** Nothing is loaded under a test that does not hold, but a zero of our own. A register that the body changes keeps its bits
//! then: it is chosen, or, where it was 0 at first and numbers were only added to it, plus 0 is added, since such a sum is never -0.
//!
//! A test inside of another one, which it implies, does not wait for it: lowering tests whether any of several numbers is there before it looks for
//! each of them. Nor is it tested whether a coordinate is in range that was found. What is loaded at the coordinates of a tuple that is at hand
//! is there in any case.
//!
//! **Where it is done.** Outside of lanes, under tests of places that were found when relations were bound, around loads and little arithmetic. Tests
//! inside are converted too. What has loops, searches, stores or calls stays.

use std::collections::{BTreeMap, BTreeSet};

use super::Emitter;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Size};
use crate::loops::{Array, Cond, Domain, Nest, Part, Place, Program, Real, RealId, Search, Stmt};

/// What a body takes at most, in multiplications: about what is lost where a processor guesses wrong every other time.
const MOST_WORK: u64 = 48;

/// What is known of a nest to convert tests, and the test that a statement is under.
#[derive(Default)]
pub(super) struct Conversion {
    /// Indices that were found when relations were bound, with what is not negative where they are not.
    found: BTreeMap<IndexId, Vec<Affine>>,
    /// Coordinates of tuples that are at hand, with the lengths of their axes.
    coordinates: BTreeMap<IndexId, Size>,
    /// How many statements change a register.
    changes: BTreeMap<RealId, usize>,
    /// Registers that take a value which is 0 where the test around does not hold.
    plain: BTreeSet<RealId>,
    /// Registers that may be -0: they are set, extended, or products are added to them.
    other: BTreeSet<RealId>,
    /// Indices of nodes, which are not negative.
    nodes: BTreeSet<IndexId>,
    /// The converted tests that are around, from outside in.
    around: Vec<Cond>,
}

impl Conversion {
    pub fn of(program: &Program, nest: &Nest) -> Conversion {
        let mut conversion = Conversion::default();
        for stmt in &nest.body {
            conversion.coordinates(program, stmt);
            stmt.visit(&mut |stmt| match stmt {
                Stmt::Find { index, segment, key, how: Search::Bound(..) } => {
                    let mut holds = Vec::new();
                    let pointers = program.arrays.get(segment.pointers);
                    let first = pointers.and_then(|array| length(program, array, 0));
                    holds.extend(first.and_then(|n| inside(&segment.at, n)).into_iter().flatten());
                    if let Some((nodes, key)) = key {
                        let n = program.arrays.get(*nodes).and_then(|array| array_length(program, array));
                        holds.extend(n.and_then(|n| inside(key, n)).into_iter().flatten());
                    }
                    conversion.found.insert(*index, holds);
                }
                Stmt::For { index, domain, .. } if matches!(domain.whole_of(), Domain::Segment(_)) => {
                    conversion.nodes.insert(*index);
                }
                Stmt::Assign(r, _) | Stmt::MulAdd(r, ..) | Stmt::Extend(_, r, _) => {
                    conversion.other.insert(*r);
                    *conversion.changes.entry(*r).or_default() += 1;
                }
                Stmt::Accumulate(r, _) => *conversion.changes.entry(*r).or_default() += 1,
                _ => {}
            });
        }
        conversion
    }

    /// The coordinates of tuples in loops, under no test.
    fn coordinates(&mut self, program: &Program, stmt: &Stmt) {
        match stmt {
            Stmt::For { body, .. } => body.iter().for_each(|stmt| self.coordinates(program, stmt)),
            Stmt::Let { index, array, .. } => {
                let n = program.arrays.get(*array).and_then(|array| array_length(program, array));
                self.coordinates.extend(n.map(|n| (*index, n.clone())));
            }
            _ => {}
        }
    }

    /// Whether some test is around.
    pub fn is_inside(&self) -> bool {
        !self.around.is_empty()
    }

    /// Whether a condition follows from what is known to hold.
    fn follows(&self, cond: &Cond, known: &[&Cond]) -> bool {
        let each = |known: &Cond| match known {
            Cond::Any(any) => any.iter().all(|one| {
                let mut all = Vec::new();
                parts(one, &mut all);
                self.follows(cond, &all)
            }),
            _ => false,
        };
        known.iter().any(|known| *known == cond || each(known))
            || match cond {
                Cond::NonNegative(a) => a.as_index().is_some_and(|i| self.nodes.contains(&i)),
                Cond::All(conds) => conds.iter().all(|cond| self.follows(cond, known)),
                Cond::Any(conds) => conds.iter().any(|cond| self.follows(cond, known)),
                Cond::Zero(_) | Cond::NonZero(_) | Cond::Support(_) | Cond::NoSupport(_) => false,
            }
    }

    /// What is not negative where something was found.
    fn holds_with(&self, cond: &Cond) -> Option<&[Affine]> {
        match cond {
            Cond::NonNegative(a) => self.found.get(&a.as_index()?).map(Vec::as_slice),
            _ => None,
        }
    }

    /// Whether a register is 0 where the test around statements does not hold: it is added up of registers that are declared there, and change under
    /// tests alone that imply it.
    fn is_zero_outside(&self, r: RealId, body: &[Stmt], outer: &Cond) -> bool {
        let mut declared = false;
        for stmt in body {
            match stmt {
                Stmt::Define(known, real) if *known == r => {
                    return matches!(real, Real::Add(a, b) if [a, b].iter().all(|r| self.is_zero_outside(**r, body, outer)));
                }
                Stmt::Local(known) if *known == r => declared = true,
                Stmt::Assign(known, _) | Stmt::Accumulate(known, _) | Stmt::MulAdd(known, ..) if *known == r => {
                    return false;
                }
                Stmt::If { cond, body } => {
                    let mut changes = false;
                    body.iter().for_each(|stmt| {
                        stmt.visit(&mut |stmt| {
                            changes |= matches!(stmt, Stmt::Assign(known, _) | Stmt::Accumulate(known, _)
                                | Stmt::MulAdd(known, ..) if *known == r);
                        });
                    });
                    if changes && !self.follows(outer, &chain(cond, body).0) {
                        return false;
                    }
                }
                _ => {}
            }
        }
        declared
    }

    /// Whether a condition depends on what was found.
    fn is_of_found(&self, cond: &Cond) -> bool {
        let mut any = false;
        cond.visit_affine(&mut |a: &Affine| any |= self.found.keys().any(|i| a.mentions(*i)));
        any
    }
}

/// The length of an axis of a view.
fn length<'a>(program: &'a Program, array: &Array, level: usize) -> Option<&'a Size> {
    program.signature.relations.get(array.relation)?.shape.get(*array.axes.get(level)?)
}

/// The length of the axis whose coordinates an array holds.
fn array_length<'a>(program: &'a Program, array: &Array) -> Option<&'a Size> {
    match array.part {
        Part::Nodes(level) => length(program, array, usize::from(level)),
        _ => None,
    }
}

/// What is not negative where an expression is in range.
fn inside(a: &Affine, n: &Size) -> Option<[Affine; 2]> {
    Some([a.clone(), n.sub(a).ok()?.add_constant(-1).ok()?])
}

/// Tests of which each is all that is in the one around it, and what is in the last one.
fn chain<'a>(cond: &'a Cond, body: &'a [Stmt]) -> (Vec<&'a Cond>, &'a [Stmt]) {
    let (mut conds, mut inside) = (Vec::new(), body);
    parts(cond, &mut conds);
    while let [Stmt::If { cond, body }] = inside {
        parts(cond, &mut conds);
        inside = body;
    }
    (conds, inside)
}

/// What statements take that may run where they are not asked to; nothing for others.
fn work(body: &[Stmt], own: &dyn Fn(&Stmt) -> bool) -> Option<u64> {
    let mut sum = 0;
    for stmt in body {
        sum += match stmt {
            Stmt::Define(..) if stmt.load().is_some_and(|_| own(stmt)) => return None,
            Stmt::Define(_, Real::Apply(function, _)) if function.is_call() => return None,
            Stmt::Define(_, Real::Apply(function, _)) => function.work(),
            Stmt::Define(..) | Stmt::Accumulate(..) | Stmt::MulAdd(..) | Stmt::Let { .. } => 1,
            Stmt::Local(_) | Stmt::Assign(..) => 0,
            Stmt::If { body, .. } => work(body, own)?,
            Stmt::For { .. }
            | Stmt::Find { .. }
            | Stmt::Length { .. }
            | Stmt::Call { .. }
            | Stmt::End(_)
            | Stmt::Extremum { .. }
            | Stmt::Extend(..)
            | Stmt::Store(..)
            | Stmt::Fill(_)
            | Stmt::Tuple(..) => return None,
        };
    }
    Some(sum)
}

/// The conditions all of which are a condition.
fn parts<'a>(cond: &'a Cond, found: &mut Vec<&'a Cond>) {
    match cond {
        Cond::All(conds) => conds.iter().for_each(|cond| parts(cond, found)),
        cond => found.push(cond),
    }
}

impl Emitter<'_> {
    /// Whether a test becomes a choice.
    pub(super) fn is_converted(&self, cond: &Cond, body: &[Stmt]) -> bool {
        let own = |stmt: &Stmt| stmt.load().is_some_and(|place| self.is_target(place));
        let scalar = self.lanes.is_none() && self.jam.is_none();
        let pays = || self.conversion.is_of_found(cond) && work(body, &own).is_some_and(|work| work <= MOST_WORK);
        scalar && (self.conversion.is_inside() || pays())
    }

    /// The test that the statement on the way is under.
    pub fn where_it_counts(&self) -> Option<String> {
        self.conversion.around.len().checked_sub(1).map(|depth| format!("where_{depth}"))
    }

    /// What is done for statements under a test that was converted.
    pub(super) fn without_branch(&mut self, cond: &Cond, body: &[Stmt]) -> Result<()> {
        let (conds, inside) = chain(cond, body);
        let found: Vec<&Affine> = conds.iter().filter_map(|cond| self.conversion.holds_with(cond)).flatten().collect();
        let is_open = |cond: &&&Cond| !matches!(cond, Cond::NonNegative(a) if found.contains(&a));
        let open = conds.iter().filter(is_open);
        let texts = open.map(|cond| self.cond_without_branch(cond)).collect::<Result<Vec<_>>>()?;
        let holds = format!("mask({})", if texts.is_empty() { "true".to_owned() } else { texts.join(" & ") });
        let implied = self.conversion.around.iter().all(|outer| self.conversion.follows(outer, &conds));
        let all = match self.where_it_counts().filter(|_| !implied) {
            None => holds,
            Some(outer) => format!("{outer} & {holds}"),
        };
        self.open("{");
        self.line(&format!("let where_{} = {all};", self.conversion.around.len()));
        let all = Cond::All(conds.into_iter().cloned().collect());
        for stmt in inside {
            if let Stmt::Assign(r, a) = stmt
                && self.conversion.changes.get(r) == Some(&1)
                && self.conversion.is_zero_outside(*a, inside, &all)
            {
                self.conversion.plain.insert(*r);
            }
        }
        self.conversion.around.push(all);
        self.body(inside)?;
        self.conversion.around.pop();
        self.close();
        Ok(())
    }

    /// A condition all parts of which are computed.
    fn cond_without_branch(&self, cond: &Cond) -> Result<String> {
        let all = |conds: &[Cond], word: &str, none: &str| -> Result<String> {
            let texts = conds.iter().map(|c| self.cond_without_branch(c)).collect::<Result<Vec<_>>>()?;
            Ok(if texts.is_empty() { none.to_owned() } else { format!("({})", texts.join(word)) })
        };
        match cond {
            Cond::All(conds) => all(conds, " & ", "true"),
            Cond::Any(conds) => all(conds, " | ", "false"),
            Cond::NonNegative(_) | Cond::Zero(_) | Cond::NonZero(_) | Cond::Support(_) | Cond::NoSupport(_) => {
                Ok(format!("({})", self.cond(cond)?))
            }
        }
    }

    /// The test under which a place is loaded, if it may not be there.
    pub fn where_needed(&self, place: &Place) -> Option<String> {
        let buffer = self.program.buffers.get(place.buffer)?;
        let known =
            |(a, n): (&Affine, &Size)| a.as_index().and_then(|i| self.conversion.coordinates.get(&i)) == Some(n);
        let is_there = buffer.entries.is_none() && !place.at.is_empty() && place.at.iter().zip(&buffer.dims).all(known);
        self.where_it_counts().filter(|_| !is_there)
    }

    /// `r += x`, or what else a register becomes, where a test holds.
    pub(super) fn change_where(&mut self, holds: &str, stmt: &Stmt) {
        let read = |r: &RealId| self.read(*r, false, super::Copy::default());
        let text = match stmt {
            Stmt::Assign(r, a) if self.conversion.plain.contains(r) => format!("{r} = {};", read(a)),
            Stmt::Assign(r, a) => format!("{r} = where_else({holds}, {}, {r});", read(a)),
            Stmt::Accumulate(r, a) if !self.conversion.other.contains(r) => {
                format!("{r} = {r} + where_else({holds}, {}, 0.0);", read(a))
            }
            Stmt::Accumulate(r, a) => format!("{r} = where_else({holds}, {r} + {}, {r});", read(a)),
            Stmt::MulAdd(r, a, b) => {
                format!("{r} = where_else({holds}, mul_add({}, {}, {r}), {r});", read(a), read(b))
            }
            _ => return,
        };
        self.line(&text);
    }
}

//! Enumeration of the integer points of a predicate.
//!
//! A [`Plan`] visits the points of some indices, in lexicographic order, at which a guard holds, without trying all of them. For each
//! index in turn it
//!
//! 1. takes a superset of the values that can satisfy the guard, given the indices before it: a solved equation leaves one value, a
//!    bound an interval, a relation atom the values that occur in the relation beside the known ones; `and` intersects, `or` unites,
//!    and what depends on later indices restricts nothing;
//! 2. tests each conjunct as soon as its last index has a value.
//!
//! Step 2 decides alone, so step 1 can only cost time, never correctness. `exists` is evaluated in the same way.

use std::collections::BTreeMap;

use crate::base::{IndexId, SizeId};
use crate::index::{Affine, Checked, Overflow, Pred, RelationRef, Size, Var};

/// What predicates talk about: sizes, relations and maps with their data.
pub trait World {
    /// The value of a size variable.
    fn size(&self, size: SizeId) -> i64;

    /// Whether a tuple belongs to a relation; no tuple outside its shape does.
    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool;

    /// The distinct values, ascending, that place `axis` takes among the tuples that agree with the known entries. Nothing where
    /// the relation cannot be enumerated. The entry at `axis` is not known.
    fn candidates(&self, relation: RelationRef, known: &[Option<i64>], axis: usize) -> Option<Vec<i64>>;

    /// The target of a source under a map. Where there is none, the atom around the application is false; predicates should not
    /// ask, since their canonical form takes targets for granted: `3*f(i) + 1 != 0` is `true`.
    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64>;

    /// Told before an index takes so many values, which lead to `in_all` values at least, those of further indices counted. Where the answer is
    /// no they are not tried, as if there were none; who gives it has to say so to whoever asked.
    fn tries(&self, _values: u128, _in_all: u128) -> bool {
        true
    }
}

/// Whether a predicate holds, given values for its free indices.
///
/// # Errors
/// Where a value leaves the range of 128-bit integers.
pub fn holds<W: World + ?Sized>(p: &Pred, world: &W, at: &BTreeMap<IndexId, i64>) -> Checked<bool> {
    let bound: Vec<IndexId> = at.keys().copied().collect();
    let values: Vec<i64> = at.values().copied().collect();
    Plan::new(&bound, &[], p).holds(world, &values)
}

/// How to visit the points at which a guard holds. Made once, run for every value of the bound indices.
#[derive(Clone, Debug)]
pub struct Plan {
    bound: usize,
    /// What the bound indices alone decide.
    first: Vec<Test>,
    levels: Vec<Level>,
    /// How many values there are: bound, free, and those of `exists`.
    slots: usize,
}

/// One free index.
#[derive(Clone, Debug)]
struct Level {
    slot: usize,
    extent: Form,
    /// The conjuncts that mention the index.
    sources: Vec<Test>,
    /// Those of which it is the last index.
    tests: Vec<Test>,
}

/// A predicate over slots.
#[derive(Clone, Debug)]
enum Test {
    Constant(bool),
    NonNegative(Form),
    Zero(Form),
    NonZero(Form),
    Relation { relation: RelationRef, args: Vec<Form>, holds: bool },
    All(Vec<Test>),
    Any(Vec<Test>),
    Exists { slot: usize, extent: Form, body: Box<Test> },
}

/// An affine expression over slots.
#[derive(Clone, Debug)]
struct Form {
    terms: Vec<(Factor, i64)>,
    constant: i64,
}

#[derive(Clone, Debug)]
enum Factor {
    Slot(usize),
    Size(SizeId),
    Apply {
        map: RelationRef,
        args: Vec<Form>,
    },
    /// An index that nobody gave a value; the atom is false.
    Unbound,
}

/// A value that may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Known(i128),
    /// It depends on an index without a value so far.
    Unknown,
    /// A map has no target.
    Undefined,
}

/// Values that an index may take.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Set {
    /// From the first to the last, both included.
    Interval(i64, i64),
    /// Ascending and distinct.
    List(Vec<i64>),
}

/// Renames indices to slots.
struct Compiler {
    scope: BTreeMap<IndexId, usize>,
    slots: usize,
}

impl Compiler {
    fn form(&self, a: &Affine) -> Form {
        let factor = |v: &Var| match v {
            Var::Index(i) => self.scope.get(i).map_or(Factor::Unbound, |slot| Factor::Slot(*slot)),
            Var::Size(n) => Factor::Size(*n),
            Var::Apply(application) => {
                Factor::Apply { map: application.map, args: application.args.iter().map(|a| self.form(a)).collect() }
            }
        };
        Form { terms: a.terms().iter().map(|(v, k)| (factor(v), *k)).collect(), constant: a.offset() }
    }

    fn test(&mut self, p: &Pred) -> Test {
        match p {
            Pred::True => Test::Constant(true),
            Pred::False => Test::Constant(false),
            Pred::NonNegative(a) => Test::NonNegative(self.form(a)),
            Pred::Zero(a) => Test::Zero(self.form(a)),
            Pred::NonZero(a) => Test::NonZero(self.form(a)),
            Pred::Relation { relation, args, holds } => {
                Test::Relation { relation: *relation, args: args.iter().map(|a| self.form(a)).collect(), holds: *holds }
            }
            Pred::All(ps) => Test::All(ps.iter().map(|p| self.test(p)).collect()),
            Pred::Any(ps) => Test::Any(ps.iter().map(|p| self.test(p)).collect()),
            Pred::Exists { index, extent, body } => {
                let slot = self.slots;
                self.slots += 1;
                let extent = self.form(extent);
                let outer = self.scope.insert(*index, slot);
                let body = Box::new(self.test(body));
                match outer {
                    Some(outer) => self.scope.insert(*index, outer),
                    None => self.scope.remove(index),
                };
                Test::Exists { slot, extent, body }
            }
        }
    }
}

impl Plan {
    /// A plan for the points of `free`, with their ranges, at which `guard` holds, given values for the indices of `bound`.
    pub fn new(bound: &[IndexId], free: &[(IndexId, Size)], guard: &Pred) -> Plan {
        let indices = bound.iter().copied().chain(free.iter().map(|(i, _)| *i));
        let mut compiler = Compiler { scope: indices.zip(0..).collect(), slots: bound.len() + free.len() };
        let mut plan = Plan { bound: bound.len(), first: Vec::new(), levels: Vec::new(), slots: 0 };
        for (slot, (_, extent)) in (bound.len()..).zip(free) {
            let extent = compiler.form(extent);
            plan.levels.push(Level { slot, extent, sources: Vec::new(), tests: Vec::new() });
        }
        let false_guard = [Pred::False];
        let conjuncts = if guard.is_false() { &false_guard } else { guard.conjuncts() };
        for p in conjuncts {
            let test = compiler.test(p);
            let mut slots = Vec::new();
            test.visit_slots(&mut |slot| slots.push(slot));
            // The slots of `exists` come after those of the levels.
            slots.retain(|slot| (bound.len()..bound.len() + free.len()).contains(slot));
            slots.sort_unstable();
            slots.dedup();
            for slot in &slots {
                plan.levels[slot - bound.len()].sources.push(test.clone());
            }
            match slots.last() {
                Some(slot) => plan.levels[slot - bound.len()].tests.push(test),
                None => plan.first.push(test),
            }
        }
        for level in &mut plan.levels {
            // Equations and bounds are cheaper to ask than relations, these cheaper than the rest.
            level.sources.sort_by_key(|test| match test {
                Test::Constant(_) | Test::NonNegative(_) | Test::Zero(_) | Test::NonZero(_) => 0,
                Test::Relation { .. } => 1,
                Test::All(_) | Test::Any(_) | Test::Exists { .. } => 2,
            });
        }
        plan.slots = compiler.slots;
        plan
    }

    /// Visits the points in lexicographic order. `bound` holds a value for each bound index; `visit` gets these, followed by the
    /// values of the free indices.
    ///
    /// # Errors
    /// The first error of `visit`; overflow where an index expression leaves the range of 128-bit integers.
    pub fn for_each<W, E>(
        &self,
        world: &W,
        bound: &[i64],
        visit: &mut impl FnMut(&[i64]) -> Result<(), E>,
    ) -> Result<(), E>
    where
        W: World + ?Sized,
        E: From<Overflow>,
    {
        let mut run = Run { world, values: vec![0; self.slots], known: vec![false; self.slots] };
        for (slot, value) in bound.iter().take(self.bound).enumerate() {
            (run.values[slot], run.known[slot]) = (*value, true);
        }
        if !run.all(&self.first)? {
            return Ok(());
        }
        let points = self.bound + self.levels.len();
        let mut open: Vec<Cursor> = Vec::with_capacity(self.levels.len());
        loop {
            // Down to a point, or on to the next value of the innermost level that has one.
            if open.len() == self.levels.len() {
                visit(&run.values[..points])?;
            } else {
                let set = run.level(&self.levels[open.len()])?;
                let values = set.len();
                if !world.tries(values, values.saturating_mul(run.below(&self.levels[open.len()..])?)) {
                    return Ok(());
                }
                open.push(Cursor::new(set));
            }
            loop {
                let depth = open.len();
                let Some(cursor) = open.last_mut() else { return Ok(()) };
                let level = &self.levels[depth - 1];
                let Some(value) = cursor.next() else {
                    run.known[level.slot] = false;
                    open.pop();
                    continue;
                };
                (run.values[level.slot], run.known[level.slot]) = (value, true);
                if run.all(&level.tests)? {
                    break;
                }
            }
        }
    }

    /// Whether there is a point; without free indices, whether the guard holds.
    ///
    /// # Errors
    /// Where an index expression leaves the range of 128-bit integers.
    pub fn holds<W: World + ?Sized>(&self, world: &W, bound: &[i64]) -> Checked<bool> {
        /// A point was found, or an expression was out of range.
        enum Stop {
            Found,
            Overflow,
        }
        impl From<Overflow> for Stop {
            fn from(_: Overflow) -> Stop {
                Stop::Overflow
            }
        }
        match self.for_each(world, bound, &mut |_| Err(Stop::Found)) {
            Ok(()) => Ok(false),
            Err(Stop::Found) => Ok(true),
            Err(Stop::Overflow) => Err(Overflow),
        }
    }
}

impl Form {
    fn visit_slots(&self, visit: &mut impl FnMut(usize)) {
        for (factor, _) in &self.terms {
            match factor {
                Factor::Slot(slot) => visit(*slot),
                Factor::Apply { args, .. } => args.iter().for_each(|a| a.visit_slots(visit)),
                Factor::Size(_) | Factor::Unbound => {}
            }
        }
    }
}

impl Test {
    fn visit_slots(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Test::Constant(_) => {}
            Test::NonNegative(a) | Test::Zero(a) | Test::NonZero(a) => a.visit_slots(visit),
            Test::Relation { args, .. } => args.iter().for_each(|a| a.visit_slots(visit)),
            Test::All(ps) | Test::Any(ps) => ps.iter().for_each(|p| p.visit_slots(visit)),
            Test::Exists { slot: _, extent, body } => {
                extent.visit_slots(visit);
                body.visit_slots(visit);
            }
        }
    }
}

/// The values of a set that are still to come.
struct Cursor {
    set: Set,
    /// How many have been taken.
    taken: usize,
}

impl Cursor {
    fn new(set: Set) -> Self {
        Cursor { set, taken: 0 }
    }
}

impl Iterator for Cursor {
    type Item = i64;
    fn next(&mut self) -> Option<i64> {
        match &mut self.set {
            Set::Interval(first, last) => {
                let value = *first;
                if value > *last {
                    return None;
                }
                // Past the last value the interval is empty, also where `last` has no successor.
                match first.checked_add(1) {
                    Some(next) => *first = next,
                    None => (*first, *last) = (0, -1),
                }
                Some(value)
            }
            Set::List(values) => {
                let value = values.get(self.taken).copied();
                self.taken += 1;
                value
            }
        }
    }
}

impl Set {
    const ALL: Set = Set::Interval(i64::MIN, i64::MAX);
    const EMPTY: Set = Set::Interval(0, -1);

    /// At least, or at most, a number; what is outside of `i64` is cut off.
    fn from_to(first: i128, last: i128) -> Set {
        let (first, last) = (first.max(i64::MIN.into()), last.min(i64::MAX.into()));
        match (i64::try_from(first), i64::try_from(last)) {
            (Ok(first), Ok(last)) if first <= last => Set::Interval(first, last),
            _ => Set::EMPTY,
        }
    }

    /// How many values there are.
    fn len(&self) -> u128 {
        match self {
            Set::Interval(first, last) => u128::try_from(i128::from(*last) - i128::from(*first) + 1).unwrap_or(0),
            Set::List(values) => values.len() as u128,
        }
    }

    /// Whether there are at most as many values as given.
    fn is_within(&self, count: usize) -> bool {
        match self {
            Set::Interval(first, last) => i128::from(*last) - i128::from(*first) < count as i128,
            Set::List(values) => values.len() <= count,
        }
    }

    fn intersect(self, other: Set) -> Set {
        match (self, other) {
            (Set::Interval(a, b), Set::Interval(c, d)) => Set::from_to(a.max(c).into(), b.min(d).into()),
            (Set::Interval(a, b), Set::List(mut values)) | (Set::List(mut values), Set::Interval(a, b)) => {
                values.retain(|v| (a..=b).contains(v));
                Set::List(values)
            }
            (Set::List(mut values), Set::List(others)) => {
                values.retain(|v| others.binary_search(v).is_ok());
                Set::List(values)
            }
        }
    }

    /// A superset of the union: long intervals become their hull.
    fn unite(self, other: Set) -> Set {
        const SHORT: usize = 16;
        if self.is_within(0) {
            return other;
        }
        if other.is_within(0) {
            return self;
        }
        let short = |set: &Set| matches!(set, Set::List(_)) || set.is_within(SHORT);
        if short(&self) && short(&other) {
            let mut values: Vec<i64> = Cursor::new(self).chain(Cursor::new(other)).collect();
            values.sort_unstable();
            values.dedup();
            return Set::List(values);
        }
        let ends = |set: &Set| match set {
            Set::Interval(first, last) => (*first, *last),
            // Not empty, see above.
            Set::List(values) => (values.first().copied().unwrap_or(0), values.last().copied().unwrap_or(-1)),
        };
        let ((a, b), (c, d)) = (ends(&self), ends(&other));
        Set::Interval(a.min(c), b.max(d))
    }
}

/// The values at hand.
struct Run<'a, W: ?Sized> {
    world: &'a W,
    values: Vec<i64>,
    known: Vec<bool>,
}

impl<W: World + ?Sized> Run<'_, W> {
    /// The values that a level has to try.
    fn level(&mut self, level: &Level) -> Checked<Set> {
        let extent = match self.value(&level.extent)? {
            Value::Known(extent) => extent,
            Value::Unknown | Value::Undefined => 0,
        };
        let mut set = Set::from_to(0, extent - 1);
        for test in &level.sources {
            set = self.narrow(set, test, level.slot)?;
        }
        Ok(set)
    }

    /// How many values the levels below one have for each of its values, as far as nothing restricts them.
    fn below(&self, levels: &[Level]) -> Checked<u128> {
        let mut product = 1u128;
        for pair in levels.windows(2) {
            let [level, next] = pair else { break };
            if !level.tests.is_empty() || !next.sources.is_empty() {
                break;
            }
            let Value::Known(extent) = self.value(&next.extent)? else { break };
            product = product.saturating_mul(u128::try_from(extent).unwrap_or(0));
        }
        Ok(product)
    }

    fn narrow(&mut self, set: Set, test: &Test, slot: usize) -> Checked<Set> {
        // One or two values are tested faster than a relation is searched.
        Ok(if set.is_within(2) { set } else { set.intersect(self.reach(test, slot)?) })
    }

    fn all(&mut self, tests: &[Test]) -> Checked<bool> {
        for test in tests {
            if !self.truth(test)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn value(&self, form: &Form) -> Checked<Value> {
        self.linear(form, usize::MAX).map(|(_, rest)| rest)
    }

    /// `k` and the value of `rest` in `form = k * slot + rest`. Unknown where the slot occurs inside a map application.
    fn linear(&self, form: &Form, slot: usize) -> Checked<(i128, Value)> {
        let (mut k, mut sum, mut unknown) = (0, i128::from(form.constant), false);
        for (factor, coefficient) in &form.terms {
            let value = match factor {
                Factor::Slot(s) if *s == slot => {
                    k = i128::from(*coefficient);
                    continue;
                }
                Factor::Slot(s) if self.known[*s] => self.values[*s],
                Factor::Slot(_) => {
                    unknown = true;
                    continue;
                }
                Factor::Size(n) => self.world.size(*n),
                Factor::Unbound => return Ok((k, Value::Undefined)),
                Factor::Apply { map, args } => match self.application(*map, args, slot)? {
                    Ok(value) => value,
                    Err(Value::Undefined) => return Ok((k, Value::Undefined)),
                    Err(_) => {
                        unknown = true;
                        continue;
                    }
                },
            };
            let term = i128::from(value) * i128::from(*coefficient);
            sum = sum.checked_add(term).ok_or(Overflow)?;
        }
        // Half of the range, so that no later step needs a check.
        if sum.unsigned_abs() > 1 << 126 {
            return Err(Overflow);
        }
        Ok((k, if unknown { Value::Unknown } else { Value::Known(sum) }))
    }

    fn application(&self, map: RelationRef, args: &[Form], slot: usize) -> Checked<Result<i64, Value>> {
        let mut source = Vec::with_capacity(args.len());
        for a in args {
            match self.linear(a, slot)? {
                (0, Value::Known(value)) => match i64::try_from(value) {
                    Ok(value) => source.push(value),
                    Err(_) => return Ok(Err(Value::Undefined)),
                },
                (_, Value::Undefined) => return Ok(Err(Value::Undefined)),
                _ => return Ok(Err(Value::Unknown)),
            }
        }
        Ok(self.world.apply(map, &source).ok_or(Value::Undefined))
    }

    /// Whether a test holds; all its indices have values.
    fn truth(&mut self, test: &Test) -> Checked<bool> {
        Ok(match test {
            Test::Constant(truth) => *truth,
            Test::NonNegative(a) => matches!(self.value(a)?, Value::Known(0..)),
            Test::Zero(a) => self.value(a)? == Value::Known(0),
            Test::NonZero(a) => matches!(self.value(a)?, Value::Known(value) if value != 0),
            Test::Relation { relation, args, holds } => match self.tuple(args)? {
                Some(Some(tuple)) => self.world.holds(*relation, &tuple) == *holds,
                // Outside of every shape.
                Some(None) => !holds,
                None => false,
            },
            Test::All(ps) => return self.all(ps),
            Test::Any(ps) => {
                for p in ps {
                    if self.truth(p)? {
                        return Ok(true);
                    }
                }
                false
            }
            Test::Exists { slot, extent, body } => {
                let Value::Known(extent) = self.value(extent)? else { return Ok(false) };
                let range = Set::from_to(0, extent - 1);
                for value in Cursor::new(self.narrow(range, body, *slot)?) {
                    // One at a time, since mostly one of the first will do.
                    if !self.world.tries(1, 1) {
                        return Ok(false);
                    }
                    (self.values[*slot], self.known[*slot]) = (value, true);
                    let holds = self.truth(body);
                    self.known[*slot] = false;
                    if holds? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }

    /// The values of a tuple: nothing where a map has no target, and `Some(None)` where one is outside of 64 bits.
    fn tuple(&self, args: &[Form]) -> Checked<Option<Option<Vec<i64>>>> {
        let mut tuple = Some(Vec::with_capacity(args.len()));
        for a in args {
            let Value::Known(value) = self.value(a)? else { return Ok(None) };
            match i64::try_from(value) {
                Ok(value) => {
                    if let Some(tuple) = &mut tuple {
                        tuple.push(value);
                    }
                }
                Err(_) => tuple = None,
            }
        }
        Ok(Some(tuple))
    }

    /// A superset of the values of `slot` for which the test can hold, given the known values.
    fn reach(&mut self, test: &Test, slot: usize) -> Checked<Set> {
        Ok(match test {
            Test::Constant(true) => Set::ALL,
            Test::Constant(false) => Set::EMPTY,
            Test::NonNegative(a) => match self.linear(a, slot)? {
                (_, Value::Undefined) => Set::EMPTY,
                (_, Value::Unknown) => Set::ALL,
                (0, Value::Known(rest)) if rest < 0 => Set::EMPTY,
                (0, Value::Known(_)) => Set::ALL,
                // k*i + rest >= 0
                (k, Value::Known(rest)) if k > 0 => Set::from_to(-rest.div_euclid(k), i128::MAX),
                (k, Value::Known(rest)) => Set::from_to(i128::MIN, rest.div_euclid(-k)),
            },
            Test::Zero(a) => match self.linear(a, slot)? {
                (_, Value::Undefined) => Set::EMPTY,
                (_, Value::Unknown) => Set::ALL,
                (0, Value::Known(rest)) if rest != 0 => Set::EMPTY,
                (0, Value::Known(_)) => Set::ALL,
                // k*i + rest = 0
                (k, Value::Known(rest)) if rest % k == 0 => Set::from_to(-rest / k, -rest / k),
                (_, Value::Known(_)) => Set::EMPTY,
            },
            Test::NonZero(_) | Test::Relation { holds: false, .. } => Set::ALL,
            Test::Relation { relation, args, holds: true } => self.candidates(*relation, args, slot)?,
            Test::All(ps) => {
                let mut set = Set::ALL;
                for p in ps {
                    set = self.narrow(set, p, slot)?;
                }
                set
            }
            Test::Any(ps) => {
                let mut set = Set::EMPTY;
                for p in ps {
                    set = set.unite(self.reach(p, slot)?);
                }
                set
            }
            Test::Exists { body, .. } => self.reach(body, slot)?,
        })
    }

    /// The values of `slot` with which the known part of a tuple occurs in a relation.
    fn candidates(&self, relation: RelationRef, args: &[Form], slot: usize) -> Checked<Set> {
        let mut known = Vec::with_capacity(args.len());
        let mut place = None;
        for (axis, a) in args.iter().enumerate() {
            match self.linear(a, slot)? {
                (_, Value::Undefined) => return Ok(Set::EMPTY),
                (0, Value::Known(value)) => match i64::try_from(value) {
                    Ok(value) => known.push(Some(value)),
                    Err(_) => return Ok(Set::EMPTY),
                },
                (k, Value::Known(rest)) => {
                    // Of several places that mention the index the first restricts it.
                    place = place.or(Some((axis, k, rest)));
                    known.push(None);
                }
                (_, Value::Unknown) => known.push(None),
            }
        }
        let Some((axis, k, rest)) = place else { return Ok(Set::ALL) };
        let Some(places) = self.world.candidates(relation, &known, axis) else { return Ok(Set::ALL) };
        // k*i + rest = place
        let solve = |place: i64| {
            let multiple = i128::from(place) - rest;
            (multiple % k == 0).then(|| i64::try_from(multiple / k).ok())?
        };
        let mut values: Vec<i64> = places.into_iter().filter_map(solve).collect();
        values.sort_unstable();
        Ok(Set::List(values))
    }
}

#[cfg(test)]
mod tests {
    use super::super::oracle::{Source, Toy};
    use super::*;

    /// All points of a box, in order, by trying every one.
    fn naive(world: &Toy, at: &BTreeMap<IndexId, i64>, free: &[(IndexId, Size)], guard: &Pred) -> Vec<Vec<i64>> {
        let mut points = vec![Vec::new()];
        for (_, extent) in free {
            let extent = world.affine(extent, at).expect("sizes have values");
            points = points.iter().flat_map(|p| (0..extent).map(|i| [p.as_slice(), &[i]].concat())).collect();
        }
        points.retain(|point| {
            let mut at = at.clone();
            at.extend(free.iter().map(|(i, _)| *i).zip(point.iter().copied()));
            world.truth(guard, &mut at)
        });
        points
    }

    fn visited(plan: &Plan, world: &Toy, bound: &[i64]) -> Vec<Vec<i64>> {
        let mut points = Vec::new();
        plan.for_each::<_, Overflow>(world, bound, &mut |point| {
            assert_eq!(&point[..bound.len()], bound);
            points.push(point[bound.len()..].to_vec());
            Ok(())
        })
        .expect("small numbers");
        points
    }

    #[test]
    fn points_are_those_of_nested_loops() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut found = 0;
        for case in 0..10_000 {
            let world = Toy::random(&mut rng, -1);
            let bound: Vec<IndexId> = (0..rng.u32(0..3)).map(IndexId).collect();
            // Opened statements have large numbers.
            let indices: Vec<IndexId> = (0..rng.u32(0..4)).map(|i| IndexId(1_000_000 + i)).collect();
            let scope = bound.iter().chain(&indices).copied().collect();
            let mut source = Source { rng: &mut rng, indices: scope, relations: true, maps: true, exists: true };
            let free: Vec<(IndexId, Size)> = indices.iter().map(|i| (*i, source.extent())).collect();
            let guard = source.pred(3);
            let values: Vec<i64> = bound.iter().map(|_| rng.i64(-1..4)).collect();
            let at: BTreeMap<IndexId, i64> = bound.iter().copied().zip(values.iter().copied()).collect();
            let plan = Plan::new(&bound, &free, &guard);
            let expected = naive(&world, &at, &free, &guard);
            found += expected.len();
            assert_eq!(visited(&plan, &world, &values), expected, "case {case}: {guard:?} over {free:?} in {world:?}");
            assert_eq!(plan.holds(&world, &values), Ok(!expected.is_empty()), "case {case}");
        }
        assert!(found > 10_000, "only {found} points: the cases are too thin");
    }

    #[test]
    fn points_of_a_solved_equation_or_a_relation_need_no_search() {
        /// A relation `{(i, 2*i)}` over astronomic ranges.
        struct Sparse;
        impl World for Sparse {
            fn size(&self, _: SizeId) -> i64 {
                i64::MAX
            }
            fn holds(&self, _: RelationRef, tuple: &[i64]) -> bool {
                (0..5).contains(&tuple[0]) && tuple[1] == 2 * tuple[0]
            }
            fn candidates(&self, _: RelationRef, known: &[Option<i64>], axis: usize) -> Option<Vec<i64>> {
                let tuples = (0..5).map(|i| [i, 2 * i]);
                Some(tuples.filter(|t| known[1 - axis].is_none_or(|k| k == t[1 - axis])).map(|t| t[axis]).collect())
            }
            fn apply(&self, _: RelationRef, _: &[i64]) -> Option<i64> {
                None
            }
        }
        let [i, j, k] = [0, 1, 2].map(IndexId);
        let n = Affine::size(SizeId(0));
        let ranges: Vec<_> = [i, j, k].map(|i| (i, n.clone())).into();
        let at = |i| Affine::index(i);
        let related = Pred::relation(RelationRef::Input(crate::base::RelationId(0)), vec![at(i), at(j)]);
        let sum = Pred::equal(&at(i).add(&at(j)).unwrap(), &at(k).scale(3).unwrap()).unwrap();
        let guards = [
            related.clone().and(sum.clone()),
            Pred::exists(IndexId(9), n.clone(), related.substitute(&|x| (x == j).then(|| at(IndexId(9)))).unwrap())
                .and(Pred::equal(&at(j), &at(i).scale(2).unwrap()).unwrap())
                .and(sum.clone()),
            related.clone().or(related.and(sum.clone())).and(sum),
        ];
        for guard in guards {
            let mut points = Vec::new();
            let plan = Plan::new(&[], &ranges, &guard);
            plan.for_each::<_, Overflow>(&Sparse, &[], &mut |p| {
                points.push(p.to_vec());
                Ok(())
            })
            .unwrap();
            assert_eq!(points, (0..5).map(|i| vec![i, 2 * i, i]).collect::<Vec<_>>(), "{guard:?}");
        }
    }

    #[test]
    fn points_report_overflow() {
        let huge =
            Affine::from_terms([(Var::Index(IndexId(0)), i64::MAX), (Var::Size(SizeId(0)), i64::MAX)], 0).unwrap();
        struct Huge;
        impl World for Huge {
            fn size(&self, _: SizeId) -> i64 {
                i64::MAX
            }
            fn holds(&self, _: RelationRef, _: &[i64]) -> bool {
                false
            }
            fn candidates(&self, _: RelationRef, _: &[Option<i64>], _: usize) -> Option<Vec<i64>> {
                None
            }
            fn apply(&self, _: RelationRef, _: &[i64]) -> Option<i64> {
                None
            }
        }
        let at = [(IndexId(0), i64::MAX)].into();
        assert_eq!(holds(&Pred::NonNegative(huge), &Huge, &at), Err(Overflow));
    }
}

//! Rows of much arithmetic become straight-line code, which runs in lanes.
//!
//! ```text
//! for i in D                             for i in D, lanes 8
//!   for k in 0 .. 2                        r0 = f(0)
//!     t[i, k] = f(k)             ==        r1 = f(1)
//!   for k in 0 .. 1                        x[s(i)] = r0 / r1
//!     if k = 0
//!       x[s(i) + k] = t[i, k] / t[i, k + 1]
//! ```
//!
//! A residual of an observation that reads its camera and its point through maps, and its derivatives all the more, is hundreds of operations
//! on some dozen numbers that are far apart. Vectors of rows pay for these loads and stores many times over; but short loops inside, and
//! intermediate tensors, would have to be taken through memory in lanes. So the body of such a loop is run once with numbers that nobody
//! knows yet, index by index:
//!
//! 1. Loops of literal length are unrolled, tests that constants or the range of the loop decide are made.
//! 2. A register that is added to becomes a new one each time. A sum begins with 0, which is left out before what is never -0.
//! 3. What a row stores and reads again is read from the register. Tensors that nobody else reads are gone.
//! 4. What was loaded or computed before from the same is not loaded or computed again.
//!
//! **Why it is right.** These are the same operations on the same numbers, each at most as often, but for sums and products with 0 that are known. What a row reads of the tensors of its own nest is at places that have the
//! index of the row on one axis and constants on the others, as all places have that the nest stores to there: equal places are equal
//! expressions, and no other row stores to them.
//!
//! **Where it is done.** In a nest that is one loop over a range, which has no lanes as it is, nor a loop inside that is not short, with all tests
//! decided, and with at least 48 operations, and three for each number that is loaded from afar or stored afar. Anything else
//! stays.
//!
//! What depends on the target of a map alone is computed anew for each source, but for what is stored over targets already. To collect
//! coefficients over targets would save operations, which are cheap in lanes, for numbers from afar, which are not: a rotation and its
//! derivatives are 36 of these.

use std::collections::{BTreeMap, BTreeSet};

use super::contract::Contraction;
use super::hold;
use super::key::Key;
use super::machine::{ROW_STATEMENTS, SHORT};
use super::vectorise::{Plan, is_long_row};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked, Pred, Var};
use crate::loops::{
    ArrayId, Bound, Buffer, BufferId, BufferKind, Cond, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId,
    Stmt, loads,
};
use crate::solver::Facts;

/// Makes rows straight-line code where that gives them lanes.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let facts = program.signature.facts();
    let mut readers: BTreeMap<BufferId, BTreeSet<usize>> = BTreeMap::new();
    for (at, nest) in program.nests.iter().enumerate() {
        for place in loads(&nest.body) {
            readers.entry(place.buffer).or_default().insert(at);
        }
    }
    let mut found = false;
    for (at, nest) in program.nests.iter_mut().enumerate() {
        let Some(row) = straight(nest, &facts)? else { continue };
        let read_elsewhere = |b: &BufferId| readers.get(b).is_some_and(|nests| nests.iter().any(|k| *k != at));
        let own = nest.buffers.iter().copied().filter(|b| !read_elsewhere(b));
        let is_workspace = |b: &Buffer| b.kind == BufferKind::Workspace;
        let gone: BTreeSet<BufferId> = own.filter(|b| program.buffers.get(*b).is_some_and(is_workspace)).collect();
        let mut whole = nest.clone();
        whole.buffers.retain(|b| !gone.contains(b));
        whole.body.retain(|stmt| !matches!(stmt, Stmt::Fill(buffer) if gone.contains(buffer)));
        let Some(Stmt::For { index, body, .. }) = whole.body.last_mut() else { continue };
        *body = needed(row, |stmt| match stmt {
            Stmt::Store(place, _) => !gone.contains(&place.buffer),
            stmt => !matches!(stmt, Stmt::Define(..) | Stmt::Let { .. }),
        });
        if !is_long_row(*index, body) {
            continue;
        }
        whole.decisions.push(Decision::Unrolled { statements: body.len() });
        *nest = whole;
        found = true;
    }
    if found {
        hold::compact(program);
    }
    Ok(())
}

/// The statements that are wanted, and those before them that compute what these read.
pub(super) fn needed(row: Vec<Stmt>, wanted: impl Fn(&Stmt) -> bool) -> Vec<Stmt> {
    let (mut reals, mut indices) = (BTreeSet::new(), BTreeSet::new());
    let mut kept: Vec<Stmt> = Vec::with_capacity(row.len());
    for stmt in row.into_iter().rev() {
        let is_read = match &stmt {
            Stmt::Define(r, _) => reals.contains(r),
            Stmt::Let { index, .. } => indices.contains(index),
            _ => false,
        };
        if is_read || wanted(&stmt) {
            stmt.visit_reads(&mut |r| {
                reals.insert(r);
            });
            stmt.visit_affine(&mut |a| {
                a.visit(&mut |v| {
                    if let Var::Index(i) = v {
                        indices.insert(*i);
                    }
                });
            });
            kept.push(stmt);
        }
    }
    kept.reverse();
    kept
}

/// The body of the loop of a nest as straight-line code, with all its stores; nothing where it has no such form.
fn straight(nest: &Nest, facts: &Facts) -> Checked<Option<Vec<Stmt>>> {
    let Some((Stmt::For { index, domain: Domain::Range { lower, upper }, body, .. }, before)) = nest.body.split_last()
    else {
        return Ok(None);
    };
    let shared = |stmt: &Stmt| match stmt {
        Stmt::Define(_, Real::Load(place)) => !nest.buffers.contains(&place.buffer),
        stmt => matches!(stmt, Stmt::Define(..) | Stmt::Fill(_)),
    };
    if !before.iter().all(shared) {
        return Ok(None);
    }
    let plan = Plan::of(nest, Contraction::of(&nest.body));
    if nest.body.iter().any(|stmt| plan.is_vector(stmt)) {
        return Ok(None);
    }
    let mut inside = false;
    for stmt in nest.body.iter().flat_map(Stmt::body) {
        stmt.visit(&mut |stmt| inside |= plan.is_vector(stmt));
    }
    let mut facts = facts.clone();
    for bound in lower.iter().filter(|bound| bound.divisor == 1) {
        facts.assume(&Pred::le(&bound.numerator, &(*index).into())?);
    }
    for bound in upper.iter().filter(|bound| bound.divisor == 1) {
        facts.assume(&Pred::le(&(*index).into(), &bound.numerator)?);
    }
    let mut row = Row {
        outer: *index,
        facts,
        own: &nest.buffers,
        filled: BTreeSet::new(),
        names: Fresh::after(&nest.body),
        indices: BTreeMap::new(),
        reals: BTreeMap::new(),
        literals: BTreeMap::new(),
        never_minus_zero: BTreeSet::new(),
        decided: BTreeMap::new(),
        lets: BTreeMap::new(),
        values: BTreeMap::new(),
        stored: BTreeMap::new(),
        axes: BTreeMap::new(),
        read_again: BTreeSet::new(),
        out: Vec::new(),
        longest: 0,
        steps: 0,
    };
    for stmt in before {
        match stmt {
            Stmt::Fill(buffer) => {
                row.filled.insert(*buffer);
            }
            Stmt::Define(r, real @ Real::Literal(x)) => {
                row.literals.insert(*r, *x);
                if row.is_never_minus_zero(real) {
                    row.never_minus_zero.insert(*r);
                }
                let first = *row.values.entry(Key::Literal(x.to_bits())).or_insert(*r);
                row.reals.insert(*r, if x.to_bits() == 0 { Value::Zero } else { Value::Register(first) });
            }
            Stmt::Define(r, _) => {
                row.reals.insert(*r, Value::Register(*r));
            }
            _ => {}
        }
    }
    if row.body(body)?.is_none() || (inside && row.longest >= SHORT) {
        return Ok(None);
    }
    // What is read again may be at no other places.
    let apart = row.read_again.iter().all(|buffer| matches!(row.axes.get(buffer), None | Some(Some(_))));
    Ok(apart.then_some(row.out))
}

/// What a register holds.
#[derive(Clone, Copy)]
enum Value {
    /// The literal 0, or a sum of nothing so far.
    Zero,
    Register(RealId),
}

/// A row on the way.
struct Row<'a> {
    /// The index of the rows.
    outer: IndexId,
    facts: Facts,
    /// The buffers that the nest writes, and those of them that are zero before.
    own: &'a [BufferId],
    filled: BTreeSet<BufferId>,
    names: Fresh,
    /// The values of indices and of registers so far.
    indices: BTreeMap<IndexId, Affine>,
    reals: BTreeMap<RealId, Value>,
    literals: BTreeMap<RealId, f64>,
    never_minus_zero: BTreeSet<RealId>,
    /// Conditions that were decided: whether an expression is not negative.
    decided: BTreeMap<Affine, Option<bool>>,
    lets: BTreeMap<(ArrayId, Affine), IndexId>,
    values: BTreeMap<Key, RealId>,
    stored: BTreeMap<(BufferId, Vec<Affine>), Value>,
    /// For each buffer that is stored to the axis that has the index of the row, where all others are constants; nothing where some are not.
    axes: BTreeMap<BufferId, Option<usize>>,
    read_again: BTreeSet<BufferId>,
    out: Vec<Stmt>,
    /// How many values the longest loop has.
    longest: i64,
    steps: usize,
}

/// Nothing where there is no such form.
type Found<T> = Checked<Option<T>>;

impl Row<'_> {
    fn body(&mut self, body: &[Stmt]) -> Found<()> {
        for stmt in body {
            self.steps += 1;
            if self.steps > ROW_STATEMENTS || self.stmt(stmt)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Found<()> {
        match stmt {
            Stmt::For { index, domain: Domain::Range { lower, upper }, body, .. } => {
                let ends = (self.best(lower, i64::max)?, self.best(upper, i64::min)?);
                let (Some(from), Some(to)) = ends else { return Ok(None) };
                self.longest = self.longest.max(to.saturating_sub(from).saturating_add(1));
                let mut value = from;
                while value <= to {
                    self.steps += 1;
                    self.indices.insert(*index, Affine::constant(value));
                    if self.steps > ROW_STATEMENTS || self.body(body)?.is_none() {
                        return Ok(None);
                    }
                    value += 1;
                }
            }
            Stmt::Let { index, array, at, step } => {
                let at = self.affine(at)?;
                let known = self.lets.get(&(*array, at.clone())).copied();
                let name = known.unwrap_or_else(|| {
                    let name = self.names.fresh_index();
                    let step = step.filter(|_| at.as_index().is_some());
                    self.out.push(Stmt::Let { index: name, array: *array, at: at.clone(), step });
                    self.lets.insert((*array, at), name);
                    name
                });
                self.indices.insert(*index, name.into());
            }
            Stmt::If { cond, body } => match self.decide(cond)? {
                Some(true) => return self.body(body),
                Some(false) => {}
                None => return Ok(None),
            },
            Stmt::Define(r, real) => {
                let Some(value) = self.real(real)? else { return Ok(None) };
                self.reals.insert(*r, value);
            }
            Stmt::Local(r) => {
                self.reals.insert(*r, Value::Zero);
            }
            Stmt::Assign(r, a) | Stmt::Accumulate(r, a) | Stmt::MulAdd(r, a, _) => {
                let (Some(old), Some(a)) = (self.reals.get(r).copied(), self.read(*a)) else { return Ok(None) };
                let value = match stmt {
                    Stmt::Accumulate(..) => self.add(old, a),
                    Stmt::MulAdd(_, _, b) => {
                        let Some(b) = self.read(*b) else { return Ok(None) };
                        self.mul_add(a, b, old)
                    }
                    _ => a,
                };
                self.reals.insert(*r, value);
            }
            Stmt::Store(place, r) => {
                let (at, Some(value)) = (self.place(place)?, self.read(*r)) else { return Ok(None) };
                let axis = self.axis(&at);
                let known = self.axes.entry(place.buffer).or_insert(axis);
                *known = known.filter(|known| axis == Some(*known));
                self.stored.insert((place.buffer, at.clone()), value);
                let r = self.register(value);
                self.out.push(Stmt::Store(Place { buffer: place.buffer, at }, r));
            }
            Stmt::For { .. }
            | Stmt::Find { .. }
            | Stmt::Length { .. }
            | Stmt::Call { .. }
            | Stmt::End(_)
            | Stmt::Extremum { .. }
            | Stmt::Extend(..)
            | Stmt::Fill(_)
            | Stmt::Tuple(..) => {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn affine(&self, a: &Affine) -> Checked<Affine> {
        a.substitute(&|i| self.indices.get(&i).cloned())
    }

    fn place(&self, place: &Place) -> Checked<Vec<Affine>> {
        place.at.iter().map(|a| self.affine(a)).collect()
    }

    /// The axis that has the index of the row, where the others have constants.
    fn axis(&self, at: &[Affine]) -> Option<usize> {
        let axis = at.iter().position(|a| a.as_index() == Some(self.outer))?;
        at.iter().enumerate().all(|(k, a)| k == axis || a.as_constant().is_some()).then_some(axis)
    }

    /// The best of bounds that are constants.
    fn best(&self, bounds: &[Bound], better: fn(i64, i64) -> i64) -> Found<i64> {
        let mut best = None;
        for bound in bounds {
            let Some(value) = self.affine(&bound.numerator)?.as_constant() else { return Ok(None) };
            let value = value.div_euclid(bound.divisor.max(1));
            best = Some(best.map_or(value, |best| better(best, value)));
        }
        Ok(best)
    }

    /// Whether a condition holds in all rows, or in none.
    fn decide(&mut self, cond: &Cond) -> Found<bool> {
        Ok(match cond {
            Cond::NonNegative(a) => self.non_negative(&self.affine(a)?)?,
            Cond::Zero(a) => self.zero(&self.affine(a)?)?,
            Cond::NonZero(a) => self.zero(&self.affine(a)?)?.map(|zero| !zero),
            Cond::Support(_) | Cond::NoSupport(_) => None,
            Cond::All(conds) => self.decide_all(conds, true)?,
            Cond::Any(conds) => self.decide_all(conds, false)?,
        })
    }

    /// All of some conditions, or any of them.
    fn decide_all(&mut self, conds: &[Cond], all: bool) -> Found<bool> {
        let mut open = false;
        for cond in conds {
            match self.decide(cond)? {
                Some(holds) if holds != all => return Ok(Some(holds)),
                known => open |= known.is_none(),
            }
        }
        Ok((!open).then_some(all))
    }

    fn non_negative(&mut self, a: &Affine) -> Found<bool> {
        if let Some(k) = a.as_constant() {
            return Ok(Some(k >= 0));
        }
        if let Some(known) = self.decided.get(a) {
            return Ok(*known);
        }
        let known = match self.facts.proves(&Pred::non_negative(a.clone())) {
            true => Some(true),
            false => self.facts.proves(&Pred::non_negative(a.scale(-1)?.add_constant(-1)?)).then_some(false),
        };
        self.decided.insert(a.clone(), known);
        Ok(known)
    }

    fn zero(&mut self, a: &Affine) -> Found<bool> {
        let (above, below) = (self.non_negative(a)?, self.non_negative(&a.scale(-1)?)?);
        Ok(match (above, below) {
            (Some(true), Some(true)) => Some(true),
            (Some(false), _) | (_, Some(false)) => Some(false),
            _ => None,
        })
    }

    /// What a register holds; nothing for one that is defined elsewhere.
    fn read(&self, r: RealId) -> Option<Value> {
        self.reals.get(&r).copied()
    }

    /// A register that holds a value.
    fn register(&mut self, value: Value) -> RealId {
        match value {
            Value::Register(r) => r,
            Value::Zero => self.define(Key::Literal(0), Real::Literal(0.0)),
        }
    }

    /// A number, computed unless it was before.
    fn define(&mut self, key: Key, real: Real) -> RealId {
        if let Some(known) = self.values.get(&key) {
            return *known;
        }
        let r = self.names.fresh_real();
        if let Real::Literal(x) = real {
            self.literals.insert(r, x);
        }
        if self.is_never_minus_zero(&real) {
            self.never_minus_zero.insert(r);
        }
        self.out.push(Stmt::Define(r, real));
        self.values.insert(key, r);
        r
    }

    /// Whether a number is never -0: a sum of two of them is, of which one is not.
    fn is_never_minus_zero(&self, real: &Real) -> bool {
        let never = |r: &RealId| self.never_minus_zero.contains(r);
        match real {
            Real::Literal(x) => x.to_bits() != (-0.0_f64).to_bits(),
            Real::Index(_) => true,
            Real::Add(a, b) => never(a) || never(b),
            Real::Mul(a, b) => a == b,
            Real::MulAdd(_, _, x) | Real::Select(_, x) => never(x),
            Real::Load(_) | Real::Apply(..) => false,
        }
    }

    fn add(&mut self, a: Value, b: Value) -> Value {
        match (a, b) {
            (Value::Zero, Value::Zero) => Value::Zero,
            (Value::Zero, Value::Register(x)) | (Value::Register(x), Value::Zero)
                if self.never_minus_zero.contains(&x) =>
            {
                Value::Register(x)
            }
            (a, b) => {
                let (a, b) = (self.register(a), self.register(b));
                Value::Register(self.define(Key::Add(a.min(b), a.max(b)), Real::Add(a, b)))
            }
        }
    }

    /// The sign of a product of 0 and a literal, which is 0; nothing of other products.
    fn sign_of_zero(&self, a: Value, b: Value) -> Option<f64> {
        let literal = |x: Value| match x {
            Value::Zero => Some(0.0),
            Value::Register(r) => self.literals.get(&r).copied().filter(|x| x.is_finite()),
        };
        let is_zero = |x: Value| matches!(x, Value::Zero);
        (is_zero(a) || is_zero(b)).then_some(())?;
        Some((literal(a)? * literal(b)?).signum())
    }

    fn mul(&mut self, a: Value, b: Value) -> Value {
        if self.sign_of_zero(a, b) == Some(1.0) {
            return Value::Zero;
        }
        let (a, b) = (self.register(a), self.register(b));
        Value::Register(self.define(Key::Mul(a.min(b), a.max(b)), Real::Mul(a, b)))
    }

    fn mul_add(&mut self, a: Value, b: Value, c: Value) -> Value {
        match self.sign_of_zero(a, b) {
            Some(1.0) => self.add(Value::Zero, c),
            Some(_) => c,
            None => {
                let (a, b, c) = (self.register(a), self.register(b), self.register(c));
                Value::Register(self.define(Key::MulAdd(a.min(b), a.max(b), c), Real::MulAdd(a, b, c)))
            }
        }
    }

    fn real(&mut self, real: &Real) -> Found<Value> {
        Ok(match real {
            Real::Literal(x) if x.to_bits() == 0 => Some(Value::Zero),
            Real::Literal(x) => Some(Value::Register(self.define(Key::Literal(x.to_bits()), Real::Literal(*x)))),
            Real::Index(a) => {
                let a = self.affine(a)?;
                Some(Value::Register(self.define(Key::Index(a.clone()), Real::Index(a))))
            }
            Real::Load(place) => {
                let at = self.place(place)?;
                if self.own.contains(&place.buffer) {
                    return Ok(self.again(place.buffer, at));
                }
                let load = Real::Load(Place { buffer: place.buffer, at: at.clone() });
                Some(Value::Register(self.define(Key::Load(place.buffer, at), load)))
            }
            Real::Add(a, b) => match (self.read(*a), self.read(*b)) {
                (Some(a), Some(b)) => Some(self.add(a, b)),
                _ => None,
            },
            Real::Mul(a, b) => match (self.read(*a), self.read(*b)) {
                (Some(a), Some(b)) => Some(self.mul(a, b)),
                _ => None,
            },
            Real::MulAdd(a, b, c) => match (self.read(*a), self.read(*b), self.read(*c)) {
                (Some(a), Some(b), Some(c)) => Some(self.mul_add(a, b, c)),
                _ => None,
            },
            Real::Select(p, x) => match (self.read(*p), self.read(*x)) {
                (Some(Value::Zero), Some(_)) | (Some(_), Some(Value::Zero)) => Some(Value::Zero),
                (Some(Value::Register(p)), Some(Value::Register(x))) => {
                    Some(Value::Register(self.define(Key::Select(p, x), Real::Select(p, x))))
                }
                _ => None,
            },
            Real::Apply(function, args) => {
                let mut registers = Vec::with_capacity(args.len());
                for arg in args {
                    let Some(value) = self.read(*arg) else { return Ok(None) };
                    registers.push(self.register(value));
                }
                let key = Key::Apply(*function, registers.clone());
                Some(Value::Register(self.define(key, Real::Apply(*function, registers))))
            }
        })
    }

    /// What the row has stored at a place, or what was there before.
    fn again(&mut self, buffer: BufferId, at: Vec<Affine>) -> Option<Value> {
        let axis = self.axis(&at)?;
        let known = *self.axes.entry(buffer).or_insert(Some(axis));
        if known != Some(axis) {
            return None;
        }
        self.read_again.insert(buffer);
        let known = self.stored.get(&(buffer, at)).copied();
        known.or_else(|| self.filled.contains(&buffer).then_some(Value::Zero))
    }
}

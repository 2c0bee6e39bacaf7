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
//! **Why it is right.** These are the same operations on the same numbers, each at most as often, but for sums and products with 0 that are known. What a
//! row reads of the tensors of its own nest is at places that have the index of the row on one axis and constants on the others, as all places have
//! that the nest stores to there: equal places are equal expressions, and no other row stores to them. What the rows add up keeps its order.
//!
//! **Where it is done.** In a nest that is one loop over a range, with all tests decided, where
//!
//! - all loops inside are over a few values, as those over the coordinates of points are, or over up to 16 that are exponents, or
//! - they are short, nothing has lanes as it is, and there are at least 48 operations, and three for each number that is loaded from afar or stored afar.
//!
//! Of other nests the bodies of loops inside that hold loops over a few values alone, as a sum of distances along the entries of a row. Rows whose elements
//! are made of elements in the same column alone stay, as all of these are neighbours, and so does anything else.
//!
//! What depends on the target of a map alone is computed anew for each source, but for what is stored over targets already. To collect
//! coefficients over targets would save operations, which are cheap in lanes, for numbers from afar, which are not: a rotation and its
//! derivatives are 36 of these.

use std::collections::{BTreeMap, BTreeSet};

use super::contract::Contraction;
use super::hold;
use super::key::Key;
use super::machine::{FEW, FEW_POWERS, FEW_STATEMENTS, ROW_STATEMENTS, SHORT};
use super::powers;
use super::vectorise::{Plan, has_lanes, is_long_row, is_short, only_few};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Checked, Pred};
use crate::loops::{
    ArrayId, Bound, Buffer, BufferId, BufferKind, Cond, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId,
    Stmt, changes_outside, has_loop, loads, stores,
};
use crate::scalar::{Function, Op, Primitive};
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
        let Some(Straight { row, is_few }) = straight(nest, &facts)? else {
            let mut names = Fresh::after(&nest.body);
            let mut loops = 0;
            for stmt in &mut nest.body {
                if let Stmt::For { body, .. } = stmt {
                    loops += inside(body, &mut names, &facts)?;
                }
            }
            if loops > 0 {
                nest.decisions.push(Decision::UnrolledInside { loops });
            }
            continue;
        };
        let read_elsewhere = |b: &BufferId| readers.get(b).is_some_and(|nests| nests.iter().any(|k| *k != at));
        let outside = nest.body.iter().filter(|stmt| !has_loop(stmt)).map(std::slice::from_ref);
        let kept = outside.flat_map(|stmt| loads(stmt).into_iter().chain(stores(stmt)));
        let kept: BTreeSet<BufferId> = kept.map(|place| place.buffer).collect();
        let own = nest.buffers.iter().copied().filter(|b| !read_elsewhere(b) && !kept.contains(b));
        let is_workspace = |b: &Buffer| b.kind == BufferKind::Workspace;
        let gone: BTreeSet<BufferId> = own.filter(|b| program.buffers.get(*b).is_some_and(is_workspace)).collect();
        let mut whole = nest.clone();
        whole.buffers.retain(|b| !gone.contains(b));
        whole.body.retain(|stmt| !matches!(stmt, Stmt::Fill(buffer) if gone.contains(buffer)));
        let Some(Stmt::For { index, domain, body, .. }) = whole.body.iter_mut().find(|stmt| has_loop(stmt)) else {
            continue;
        };
        *body = needed(row, |stmt| match stmt {
            Stmt::Store(place, _) => !gone.contains(&place.buffer),
            stmt => !matches!(stmt, Stmt::Define(..) | Stmt::Let { .. }),
        });
        if !(is_long_row(*index, body) || is_few && has_lanes(*index, domain, body)) {
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
            Stmt::Define(r, _) | Stmt::Local(r) => reals.contains(r),
            Stmt::Let { index, .. } => indices.contains(index),
            _ => false,
        };
        if is_read || wanted(&stmt) {
            stmt.visit(&mut |stmt| {
                stmt.visit_reads(&mut |r| {
                    reals.insert(r);
                });
                stmt.visit_indices(&mut |i| {
                    indices.insert(i);
                });
            });
            kept.push(stmt);
        }
    }
    kept.reverse();
    kept
}

/// The body of the loop of a nest as straight-line code, with all its stores; nothing where it has no such form.
fn straight(nest: &Nest, facts: &Facts) -> Checked<Option<Straight>> {
    let Some(at) = nest.body.iter().position(has_loop) else { return Ok(None) };
    let (before, rest) = nest.body.split_at(at);
    let Some((Stmt::For { index, domain: domain @ Domain::Range { .. }, body, .. }, after)) = rest.split_first() else {
        return Ok(None);
    };
    let shared = |stmt: &Stmt| match stmt {
        Stmt::Define(_, Real::Load(place)) => !nest.buffers.contains(&place.buffer),
        stmt => matches!(stmt, Stmt::Define(..) | Stmt::Fill(_) | Stmt::Local(_)),
    };
    if !before.iter().all(shared) || after.iter().any(has_loop) || !body.iter().any(has_loop) && changes_outside(body) {
        return Ok(None);
    }
    let plan = Plan::of(nest, Contraction::of(&nest.body));
    let has_lanes = plan.any_vector(&nest.body);
    let mut inside = false;
    for stmt in nest.body.iter().flat_map(Stmt::body) {
        stmt.visit(&mut |stmt| inside |= plan.is_vector(stmt));
    }
    let mut names = Fresh::after(&nest.body);
    let mut row = Row::new(*index, domain, body, &mut names, facts)?;
    row.own = nest.buffers.iter().copied().collect();
    for stmt in before {
        row.before(stmt);
    }
    let most = if powers::has_indices(body) { FEW_POWERS } else { FEW };
    if row.body(body)?.is_none() || inside && row.longest >= SHORT.max(most + 1) || !row.reads_apart() {
        return Ok(None);
    }
    let is_few = (1..=most).contains(&row.longest) && !are_elements(body);
    // What has lanes around a few values has them without, and what is added up has them either way.
    let gains = is_few && row.out.len() <= FEW_STATEMENTS;
    Ok((gains || !has_lanes && (is_few || !changes_outside(body))).then_some(Straight { row: row.out, is_few }))
}

/// The statements of a row, and whether its loops were over a few values each.
struct Straight {
    row: Vec<Stmt>,
    is_few: bool,
}

/// Makes straight-line code of the bodies of loops that hold others over a few values alone; how many there are.
fn inside(body: &mut [Stmt], names: &mut Fresh, facts: &Facts) -> Checked<usize> {
    let mut found = 0;
    for stmt in body {
        match stmt {
            Stmt::For { index, domain, body, .. }
                if !is_short(domain)
                    && body.iter().any(has_loop)
                    && only_few(body)
                    && !are_elements(body)
                    && !is_window_of_products(domain, body) =>
            {
                let mut row = Row::new(*index, domain, body, names, facts)?;
                if row.body(body)?.is_some() && row.reads_apart() && row.out.len() <= FEW_STATEMENTS {
                    *body = needed(row.out, |stmt| !matches!(stmt, Stmt::Define(..) | Stmt::Let { .. }));
                    found += 1;
                }
            }
            Stmt::For { body, .. } | Stmt::If { body, .. } => found += inside(body, names, facts)?,
            _ => {}
        }
    }
    Ok(found)
}

/// Whether a range is gone through for a sum of products over a window of a few places along two axes or more, as a convolution of pictures: it is
/// computed in blocks of registers, for several places at a time.
fn is_window_of_products(domain: &Domain, body: &[Stmt]) -> bool {
    let (mut depth, mut at) = (0, body);
    while let [Stmt::For { body, .. }] = at {
        (depth, at) = (depth + 1, body);
    }
    let is_product = |stmt: &Stmt| {
        matches!(stmt, Stmt::Define(_, Real::Load(_) | Real::Mul(..)) | Stmt::Accumulate(..) | Stmt::MulAdd(..))
    };
    let sums = at.iter().filter(|stmt| matches!(stmt, Stmt::Accumulate(..) | Stmt::MulAdd(..))).count();
    depth >= 2 && sums == 1 && at.iter().all(is_product) && matches!(domain, Domain::Range { .. })
}

/// Whether rows are gone through element by element: each is made of elements in the same column, so all of them are neighbours.
pub(super) fn are_elements(body: &[Stmt]) -> bool {
    body.iter().all(|stmt| match stmt {
        Stmt::For { index, body, .. } => body.iter().all(|stmt| match stmt {
            Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) => {
                place.at.last().and_then(Affine::as_index) == Some(*index)
            }
            stmt => matches!(stmt, Stmt::Define(..)),
        }),
        stmt => matches!(stmt, Stmt::Define(_, Real::Literal(_))),
    })
}

/// What a register holds.
#[derive(Clone, Copy)]
enum Value {
    /// The literal 0, or a sum of nothing so far.
    Zero,
    Register(RealId),
}

/// A row on the way.
struct Row<'n> {
    /// The index of the rows.
    outer: IndexId,
    facts: Facts,
    /// The buffers that the nest writes, and those of them that are zero before.
    own: BTreeSet<BufferId>,
    filled: BTreeSet<BufferId>,
    names: &'n mut Fresh,
    /// The values of indices and of registers so far; others are what they are outside.
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

impl<'n> Row<'n> {
    fn new(index: IndexId, domain: &Domain, body: &[Stmt], names: &'n mut Fresh, facts: &Facts) -> Checked<Self> {
        let mut facts = facts.clone();
        if let Domain::Range { lower, upper } = domain {
            for bound in lower.iter().filter(|bound| bound.divisor == 1) {
                facts.assume(&Pred::le(&bound.numerator, &index.into())?);
            }
            for bound in upper.iter().filter(|bound| bound.divisor == 1) {
                facts.assume(&Pred::le(&index.into(), &bound.numerator)?);
            }
        }
        Ok(Row {
            outer: index,
            facts,
            own: stores(body).into_iter().map(|place| place.buffer).collect(),
            filled: BTreeSet::new(),
            names,
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
        })
    }

    /// A number or zeros before the loop.
    fn before(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Fill(buffer) => {
                self.filled.insert(*buffer);
            }
            Stmt::Define(r, real @ Real::Literal(x)) => {
                self.literals.insert(*r, *x);
                if self.is_never_minus_zero(real) {
                    self.never_minus_zero.insert(*r);
                }
                let first = *self.values.entry(Key::Literal(x.to_bits())).or_insert(*r);
                self.reals.insert(*r, if x.to_bits() == 0 { Value::Zero } else { Value::Register(first) });
            }
            _ => {}
        }
    }

    /// Whether what is read again may be at no other places.
    fn reads_apart(&self) -> bool {
        self.read_again.iter().all(|buffer| matches!(self.axes.get(buffer), None | Some(Some(_))))
    }

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
                let (old, a) = (self.reals.get(r).copied(), self.read(*a));
                let value = match (stmt, old) {
                    (Stmt::Accumulate(..), Some(old)) => self.add(old, a),
                    (Stmt::MulAdd(_, _, b), Some(old)) => {
                        let b = self.read(*b);
                        self.mul_add(a, b, old)
                    }
                    (Stmt::Assign(..), Some(_)) => a,
                    // A sum of the loop itself.
                    (Stmt::Accumulate(..), None) => {
                        let a = self.register(a);
                        self.out.push(Stmt::Accumulate(*r, a));
                        return Ok(Some(()));
                    }
                    _ => return Ok(None),
                };
                self.reals.insert(*r, value);
            }
            Stmt::Store(place, r) => {
                let (at, value) = (self.place(place)?, self.read(*r));
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

    /// What a register holds.
    fn read(&self, r: RealId) -> Value {
        self.reals.get(&r).copied().unwrap_or(Value::Register(r))
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
            Real::Apply(Function::Value(Primitive::Op(op)), _) => match op {
                Op::Powi(k) => k % 2 == 0,
                Op::Abs | Op::Exp => true,
                _ => false,
            },
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
            Real::Add(a, b) => Some(self.add(self.read(*a), self.read(*b))),
            Real::Mul(a, b) => Some(self.mul(self.read(*a), self.read(*b))),
            Real::MulAdd(a, b, c) => Some(self.mul_add(self.read(*a), self.read(*b), self.read(*c))),
            Real::Select(p, x) => Some(match (self.read(*p), self.read(*x)) {
                (Value::Zero, _) | (_, Value::Zero) => Value::Zero,
                (Value::Register(p), Value::Register(x)) => {
                    Value::Register(self.define(Key::Select(p, x), Real::Select(p, x)))
                }
            }),
            Real::Apply(function, args) => {
                let args: Vec<RealId> = args.iter().map(|arg| self.register(self.read(*arg))).collect();
                let key = Key::Apply(*function, args.clone());
                Some(Value::Register(self.define(key, Real::Apply(*function, args))))
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

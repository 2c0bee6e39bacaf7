//! Tensors that depend on their indices through sums of these alone.
//!
//! ```text
//! x = gen i, j. f(real(i) + -1 * real(j))   ==   t = gen k < n + n. f(real(k - n + 1));  x = gen i, j. t[i - j + n - 1]
//! x = gen i, a. f(y[i + a])                 ==   t = gen k. f(y[k]);                     x = gen i, a. t[i + a]
//! ```
//!
//! In one forward loop each tensor gets its *places*: linear forms `L` of its indices, so that its elements depend on the indices through these alone.
//!
//! ```text
//! real(a)                            the linear part of a; so for sums of such, which are exact
//! f(X, ..), X + Y, X * Y             those of the operands
//! X[a, b, ..]                        those of X, with its indices replaced
//! anything else                      each index
//! ```
//!
//! A function that takes long, and that has fewer places than elements, is computed over these, in a *table*: its operands are written once more, over
//! indices of places in place of their own, and the tensor becomes a read. In a loop over time the step is an index as others.
//!
//! **Why it is right.** The same is done to the same numbers in the same order, so the bits are the same. What a view reads is [proven](Facts::proves) to be
//! there under the guard of the function, since a sum over nothing would be 0; and at each place of the table. Guards inside are among those of the
//! function, so they hold where it is read; at the other places of the table is some number that nobody reads. `-1 * real(i)` may be a negative zero, but no
//! integer alone is one, nor is a sum that has such an integer: only these are taken for one integer.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::exchanges::ranges;
use super::{Builder, Operand, Program, Rhs, Stmt};
use crate::base::{Id, IndexId, SideTable, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::scalar::Number;
use crate::solver::estimate::{Hints, points};
use crate::solver::{Facts, solutions};

/// Through how many statements a function may be followed to what it is made of.
const MAX_DEPTH: usize = 24;
/// How many places a tensor may have, how many reads at one of them, and how many conditions.
const MAX_PLACES: usize = 6;
const MAX_READS: usize = 6;
const MAX_CONDITIONS: usize = 24;
/// How many times fewer applications there have to be.
const GAIN: f64 = 2.0;
/// The largest coefficient of an index, so that integers stay exact numbers.
const MAX_COEFFICIENT: i64 = 1 << 10;

/// A linear form of the indices of a tensor, whose first coefficient is positive, and what is read there.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    linear: Affine,
    reads: Vec<Read>,
}

/// Some tensor is read at `factor * linear + offset`, along an axis of this length.
#[derive(Clone, Debug, PartialEq)]
struct Read {
    factor: i64,
    offset: Affine,
    dim: Size,
}

/// What is known of a tensor.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Those places that its elements depend on.
    places: Vec<Place>,
    /// Under which guards they do.
    guards: Vec<Pred>,
    /// What has to be within which range for that.
    within: Vec<(Affine, Size)>,
    /// The integer that its elements are, and whether one of them may be a negative zero.
    integer: Option<(Affine, bool)>,
    /// Whether it is read as it is, and whether a table may read it.
    opaque: Option<bool>,
    /// How many statements it goes through down to what is.
    depth: usize,
}

impl Known {
    /// What is known of a tensor that is read as it is.
    fn opaque(stmt: &Stmt, is_there: bool) -> Known {
        let place = |(k, n): (usize, &Size)| {
            let read = Read { factor: 1, offset: Affine::constant(0), dim: n.clone() };
            Place { linear: Affine::index(IndexId::from_index(k)), reads: vec![read] }
        };
        Known { places: stmt.dims.iter().enumerate().map(place).collect(), opaque: Some(is_there), ..Known::default() }
    }

    /// Takes in what an operand depends on, which is read at `at`; whether that can be said.
    fn read(&mut self, operand: &Known, at: &[Affine], time: Option<SizeId>) -> Checked<bool> {
        if operand.opaque == Some(false) {
            return Ok(false);
        }
        let inner = |i: IndexId| at.get(i.index()).cloned();
        for place in &operand.places {
            let Some((linear, offset)) = parts(&place.linear.substitute(&inner)?, time) else { return Ok(false) };
            let (linear, sign) = upright(linear)?;
            let mut reads = Vec::with_capacity(place.reads.len());
            for read in &place.reads {
                let offset = read.offset.add(&offset.scale(read.factor)?)?;
                reads.push(Read { factor: sign * read.factor, offset, dim: read.dim.clone() });
            }
            match self.places.iter_mut().find(|own| own.linear == linear) {
                Some(own) => {
                    reads.retain(|read| !own.reads.contains(read));
                    own.reads.append(&mut reads);
                }
                None => self.places.push(Place { linear, reads }),
            }
        }
        for p in &operand.guards {
            let p = p.substitute(&inner)?;
            if !self.guards.contains(&p) {
                self.guards.push(p);
            }
        }
        for (a, n) in &operand.within {
            let condition = (a.substitute(&inner)?, n.clone());
            if !self.within.contains(&condition) {
                self.within.push(condition);
            }
        }
        self.depth = self.depth.max(operand.depth + 1);
        let fits = self.places.iter().all(|place| place.reads.len() <= MAX_READS);
        let few = self.guards.len().max(self.within.len()) <= MAX_CONDITIONS;
        Ok(fits && few && self.places.len() <= MAX_PLACES && self.depth <= MAX_DEPTH)
    }

    /// What is an integer depends on it alone.
    fn with_integer(mut self, integer: Option<(Affine, bool)>, time: Option<SizeId>) -> Checked<Known> {
        let small = |a: &Affine| a.terms().iter().all(|(_, k)| k.abs() <= MAX_COEFFICIENT);
        self.integer = integer.filter(|(a, _)| small(a));
        if let Some((a, false)) = &self.integer {
            match parts(a, time) {
                Some((linear, _)) if linear.terms().is_empty() => self.places = Vec::new(),
                Some((linear, _)) => self.places = vec![Place { linear: upright(linear)?.0, reads: Vec::new() }],
                None => self.integer = None,
            }
        }
        Ok(self)
    }
}

/// The indices of an expression, and the rest; nothing where it has anything else than indices and sizes. The step of a loop is one of the indices.
fn parts(a: &Affine, time: Option<SizeId>) -> Option<(Affine, Affine)> {
    let is_index = |v: &Var| match v {
        Var::Index(_) => Some(true),
        Var::Size(n) => Some(time == Some(*n)),
        Var::Apply(_) => None,
    };
    let (mut indices, mut sizes) = (Vec::new(), Vec::new());
    for (v, k) in a.terms() {
        let terms = if is_index(v)? { &mut indices } else { &mut sizes };
        terms.push((v.clone(), *k));
    }
    Some((Affine::from_terms(indices, 0).ok()?, Affine::from_terms(sizes, a.offset()).ok()?))
}

/// A linear form with a positive first coefficient, and the sign that it had.
fn upright(linear: Affine) -> Checked<(Affine, i64)> {
    match linear.terms().first() {
        Some((_, k)) if *k < 0 => Ok((linear.scale(-1)?, -1)),
        _ => Ok((linear, 1)),
    }
}

/// The places of the tensors of a program.
pub(crate) struct Tables<'a> {
    program: &'a Program,
    /// The size that is the step of a loop, and how many steps there are.
    time: Option<(SizeId, Size)>,
    known: SideTable<VarId, Known>,
}

impl<'a> Tables<'a> {
    /// Those of a program, which may be that of a step, where tables may read some of its tensors.
    pub(crate) fn of(
        program: &'a Program,
        time: Option<(SizeId, Size)>,
        is_there: &dyn Fn(VarId) -> bool,
    ) -> Result<Self> {
        let mut tables = Tables { program, time, known: SideTable::new(program.stmts.len(), Known::default()) };
        for (x, stmt) in program.stmts.iter() {
            let known = tables.followed(stmt)?.unwrap_or_else(|| Known::opaque(stmt, is_there(x)));
            tables.known.set(x, known);
        }
        Ok(tables)
    }

    /// Whether a statement may be worth a table.
    pub(crate) fn is_long(stmt: &Stmt) -> bool {
        matches!(&stmt.rhs, Rhs::Map { function, .. } if function.is_call()) && !stmt.dims.is_empty()
    }

    /// Whether a tensor depends on the step of the loop.
    pub(crate) fn varies(&self, x: VarId) -> bool {
        let Some((time, _)) = &self.time else { return false };
        self.known[x].places.iter().any(|place| place.linear.coefficient(&Var::Size(*time)) != 0)
    }

    fn step(&self) -> Option<SizeId> {
        self.time.as_ref().map(|(time, _)| *time)
    }

    fn followed(&self, stmt: &Stmt) -> Checked<Option<Known>> {
        let gens = axes(stmt);
        let (mut known, time) = (Known::default(), self.step());
        match &stmt.rhs {
            Rhs::Input { .. } => Ok(None),
            Rhs::Number(Number::Literal(c)) => {
                let is_integer =
                    c.fract() == 0.0 && c.abs() <= MAX_COEFFICIENT as f64 && (*c != 0.0 || c.is_sign_positive());
                let integer = is_integer.then(|| (Affine::constant(*c as i64), false));
                known.with_integer(integer, time).map(Some)
            }
            Rhs::Number(Number::Index(a)) => {
                let known = known.with_integer(Some((a.clone(), false)), time)?;
                Ok(known.integer.is_some().then_some(known))
            }
            Rhs::Map { guard, args, .. } => {
                known.guards.extend(guard.conjuncts().iter().cloned());
                for y in args {
                    if !known.read(&self.known[*y], &gens, time)? {
                        return Ok(None);
                    }
                }
                Ok(Some(known))
            }
            Rhs::Add(sides) => {
                for (p, y) in sides {
                    known.guards.extend(
                        p.conjuncts().iter().filter(|p| !known.guards.contains(p)).cloned().collect::<Vec<_>>(),
                    );
                    if !known.read(&self.known[*y], &gens, time)? {
                        return Ok(None);
                    }
                }
                let [a, b] = sides.each_ref().map(|(_, y)| self.known[*y].integer.as_ref());
                let integer = match (a, b) {
                    (Some((a, p)), Some((b, q))) => Some((a.add(b)?, *p && *q)),
                    _ => None,
                };
                known.with_integer(integer, time).map(Some)
            }
            Rhs::Contract { sums, guard, operands } => {
                let Some(View { values, rest }) = View::of(stmt, sums, guard, time)? else { return Ok(None) };
                known.guards = rest;
                known.within = values.iter().cloned().zip(sums.iter().cloned()).collect();
                let mut integer = Some((Affine::constant(1), false));
                for operand in operands {
                    let at = places(&gens, &values, operand);
                    if !known.read(&self.known[operand.var], &at, time)? {
                        return Ok(None);
                    }
                    let own = self.known[operand.var].integer.as_ref();
                    integer = match (integer, own) {
                        (Some((a, _)), Some((b, negative))) => {
                            let b = b.substitute(&|i| at.get(i.index()).cloned())?;
                            product(&a, &b)?.map(|(c, zero)| (c, zero || *negative))
                        }
                        _ => None,
                    };
                }
                known.with_integer(integer, time).map(Some)
            }
        }
    }

    /// Over what a function is tabulated, if it is. With several places all elements have to be wanted.
    pub(crate) fn table(&self, x: VarId, wanted: bool) -> Checked<Option<Table>> {
        let (stmt, known) = (&self.program.stmts[x], &self.known[x]);
        let Rhs::Map { guard, .. } = &stmt.rhs else { return Ok(None) };
        if known.opaque.is_some() {
            return Ok(None);
        }
        let varies = known.places.iter().filter(|place| !place.linear.terms().is_empty());
        let count = varies.clone().count();
        let is_same = count >= stmt.dims.len() && varies.clone().all(|place| place.linear.as_index().is_some());
        if count == 0 || is_same || (count > 1 && !wanted) {
            return Ok(None);
        }
        if !known.guards.iter().all(|p| guard.conjuncts().contains(p)) {
            return Ok(None);
        }
        let mut axes = Vec::with_capacity(count);
        for place in varies {
            let Some(axis) = self.axis(stmt, place)? else { return Ok(None) };
            axes.push(axis);
        }
        let hints = Hints::default();
        let count = |ranges: &[(IndexId, Size)], guard: &Pred| points(ranges, guard, &hints, &*self.program.signature);
        let gens = ranges(stmt.dims.iter());
        let mut all = gens.clone();
        all.extend(self.time.iter().map(|(_, steps)| (IndexId::from_index(gens.len()), steps.clone())));
        let few = ranges(axes.iter().map(|axis| &axis.extent));
        let applications = count(&few, &Pred::True).scale(GAIN);
        if applications.compare(&count(&all, guard)) == Ordering::Greater {
            return Ok(None);
        }
        let facts = self.facts().under(&gens, guard.conjuncts());
        for (a, n) in &known.within {
            if !facts.proves(&Pred::in_range(a, n)?) {
                return Ok(None);
            }
        }
        Ok(Some(Table { x, axes }))
    }

    fn facts(&self) -> Facts {
        let mut facts = self.program.signature.facts();
        if let Some((time, steps)) = &self.time
            && let Ok(p) = Pred::in_range(&Affine::size(*time), steps)
        {
            facts.assume(&p);
        }
        facts
    }

    /// The axis of a table for a place: the values of the form where nothing is read, else the axis of what is read, where all reads stay in theirs.
    fn axis(&self, stmt: &Stmt, place: &Place) -> Checked<Option<Axis>> {
        if place.reads.is_empty() {
            let (mut least, mut extent) = (Affine::constant(0), Affine::constant(0));
            for (v, k) in place.linear.terms() {
                let length = match v {
                    Var::Index(i) => stmt.dims.get(i.index()),
                    _ => self.time.as_ref().map(|(_, steps)| steps),
                };
                let Some(n) = length else { return Ok(None) };
                extent = extent.add(&n.scale(k.abs())?)?;
                if *k < 0 {
                    least = least.add(&n.add_constant(-1)?.scale(*k)?)?;
                }
            }
            return Ok(Some(Axis { linear: place.linear.clone(), factor: 1, offset: least.scale(-1)?, extent }));
        }
        let at = Affine::index(IndexId::from_index(0));
        for read in &place.reads {
            let axis = Axis {
                linear: place.linear.clone(),
                factor: read.factor,
                offset: read.offset.clone(),
                extent: read.dim.clone(),
            };
            let form = axis.form(&at)?;
            let facts = self.facts().under(&[(IndexId::from_index(0), axis.extent.clone())], &[]);
            let mut all = true;
            for other in place.reads.iter().filter(|other| *other != read) {
                let there = form.scale(other.factor)?.add(&other.offset)?;
                all = all && facts.proves(&Pred::in_range(&there, &other.dim)?);
            }
            if all {
                return Ok(Some(axis));
            }
        }
        Ok(None)
    }
}

/// The product of two integers of which one is constant, and whether it may be a negative zero.
fn product(a: &Affine, b: &Affine) -> Checked<Option<(Affine, bool)>> {
    let (k, other) = match (a.as_constant(), b.as_constant()) {
        (Some(k), _) => (k, b),
        (_, Some(k)) => (k, a),
        _ => return Ok(None),
    };
    Ok(Some((other.scale(k)?, k <= 0)))
}

/// A contraction that sums nothing up: what its `sum` indices are, and what else holds.
struct View {
    values: Vec<Affine>,
    rest: Vec<Pred>,
}

impl View {
    fn of(stmt: &Stmt, sums: &[Size], guard: &Pred, time: Option<SizeId>) -> Checked<Option<View>> {
        let rank = stmt.dims.len();
        let open: Vec<IndexId> = (rank..rank + sums.len()).map(IndexId::from_index).collect();
        let mut rest = guard.conjuncts().to_vec();
        let mut values = Vec::with_capacity(open.len());
        for i in &open {
            let is_known = |a: &Affine| parts(a, time).is_some() && !open.iter().any(|j| a.mentions(*j));
            let found = solutions(std::slice::from_ref(i), &rest).find(|(_, _, value)| is_known(value));
            let Some((at, _, value)) = found else { return Ok(None) };
            rest.remove(at);
            values.push(value);
        }
        let inner = |i: IndexId| i.index().checked_sub(rank).and_then(|k| values.get(k).cloned());
        let rest = rest.iter().map(|p| p.substitute(&inner)).collect::<Checked<Vec<_>>>()?;
        Ok(Some(View { values, rest: rest.into_iter().filter(|p| !p.is_true()).collect() }))
    }
}

/// Where an operand is read, in terms of the `gen` indices.
fn places(gens: &[Affine], values: &[Affine], operand: &Operand) -> Vec<Affine> {
    operand.indices.iter().filter_map(|i| gens.iter().chain(values).nth(i.index()).cloned()).collect()
}

/// A table in place of a function.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    x: VarId,
    axes: Vec<Axis>,
}

/// An axis of a table, on which the form has the place `factor * linear + offset`.
#[derive(Clone, Debug)]
struct Axis {
    linear: Affine,
    factor: i64,
    offset: Affine,
    extent: Size,
}

impl Axis {
    /// The value of the form at a place of the table.
    fn form(&self, at: &Affine) -> Checked<Affine> {
        at.sub(&self.offset)?.scale(self.factor)
    }
}

impl Table {
    /// The axes.
    pub(crate) fn dims(&self) -> Vec<Size> {
        self.axes.iter().map(|axis| axis.extent.clone()).collect()
    }

    /// `gen k, .. f(..)`: the table itself.
    pub(crate) fn filled(&self, written: &mut Written<'_, '_>) -> Result<VarId> {
        let at = |axis: usize| Affine::index(IndexId::from_index(axis));
        let mut forms = Vec::new();
        for place in &written.tables.known[self.x].places {
            let axis = self.axes.iter().position(|axis| axis.linear == place.linear);
            forms.push(axis.map_or(Ok(Affine::constant(0)), |k| self.axes[k].form(&at(k)))?);
        }
        written.over(self.x, forms, &self.dims())
    }

    /// `gen i, .. [p] * (sum k, .. [k = f * L(i, ..) + o] * t[k, ..])`, in place of the function.
    pub(crate) fn read(&self, stmt: &Stmt, builder: &mut Builder, table: VarId) -> Result<VarId> {
        let guard = if let Rhs::Map { guard, .. } = &stmt.rhs { guard.clone() } else { Pred::True };
        let gens = builder.fresh_indices(&stmt.dims);
        let sums = builder.fresh_indices(&self.dims());
        let name = |i: IndexId| gens.get(i.index()).map(|(i, _)| *i);
        let mut all = builder.freshen(&guard, &name)?;
        for (axis, (k, _)) in self.axes.iter().zip(&sums) {
            let linear = axis.linear.substitute(&|i| name(i).map(Affine::index))?;
            let place = linear.scale(axis.factor)?.add(&axis.offset)?;
            all = all.and(Pred::equal(&Affine::index(*k), &place)?);
        }
        let operand = Operand { var: table, indices: sums.iter().map(|(k, _)| *k).collect() };
        builder.contract(&gens, &sums, all, vec![operand])
    }
}

/// What was written over the indices of tables: which tensor, over which forms of which axes.
pub(crate) type Memo = BTreeMap<(VarId, Vec<Affine>, Vec<Size>), VarId>;

/// Statements over the indices of tables.
pub(crate) struct Written<'a, 'b> {
    pub tables: &'a Tables<'a>,
    pub builder: &'b mut Builder,
    /// The tensors of the new program for those of the old one.
    pub vars: &'a SideTable<VarId, Option<VarId>>,
    pub memo: &'b mut Memo,
}

impl Written<'_, '_> {
    /// A tensor over a table with such axes, whose own places are these forms of the indices of the table. Calls go as deep as [`MAX_DEPTH`].
    fn over(&mut self, x: VarId, forms: Vec<Affine>, extents: &[Size]) -> Result<VarId> {
        let key = (x, forms, extents.to_vec());
        if let Some(y) = self.memo.get(&key) {
            return Ok(*y);
        }
        let ((_, forms, _), time) = (&key, self.tables.step());
        let (stmt, known) = (&self.tables.program.stmts[x], &self.tables.known[x]);
        let gens = self.builder.fresh_indices(extents);
        let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
        let named = |a: &Affine| a.substitute(&|i| indices.get(i.index()).map(|i| Affine::index(*i)));
        let y = match (&known.integer, &stmt.rhs) {
            _ if known.opaque.is_some() => {
                let var = self.vars[x].ok_or_else(|| Error::bug("tables", "a tensor is read ahead"))?;
                let sums = self.builder.fresh_indices(&stmt.dims);
                let mut guard = Pred::True;
                for ((k, _), form) in sums.iter().zip(forms) {
                    guard = guard.and(Pred::equal(&Affine::index(*k), &named(form)?)?);
                }
                let operand = Operand { var, indices: sums.iter().map(|(k, _)| *k).collect() };
                self.builder.contract(&gens, &sums, guard, vec![operand])?
            }
            (Some((a, false)), _) => {
                let form = forms.first().cloned().unwrap_or_else(|| Affine::constant(0));
                let (linear, rest) = parts(a, time).unwrap_or_else(|| (Affine::constant(0), a.clone()));
                let (_, sign) = upright(linear)?;
                self.builder.number(&gens, Number::Index(named(&form.scale(sign)?.add(&rest)?)?))?
            }
            (_, Rhs::Number(number)) => self.builder.number(&gens, number.clone())?,
            (_, Rhs::Map { function, args, .. }) => {
                let own = axes(stmt);
                let args = args.iter().map(|y| self.operand(x, *y, &own, forms, extents)).collect::<Result<_>>()?;
                self.builder.map(&gens, Pred::True, *function, args)?
            }
            (_, Rhs::Add([(_, a), (_, b)])) => {
                let own = axes(stmt);
                let a = self.operand(x, *a, &own, forms, extents)?;
                let b = self.operand(x, *b, &own, forms, extents)?;
                self.builder.add(&gens, [(Pred::True, a), (Pred::True, b)])?
            }
            (_, Rhs::Contract { sums, guard, operands }) => {
                let own = axes(stmt);
                let view =
                    View::of(stmt, sums, guard, time)?.ok_or_else(|| Error::bug("tables", "a sum is no view"))?;
                let mut factors = Vec::with_capacity(operands.len());
                for operand in operands {
                    let at = places(&own, &view.values, operand);
                    let var = self.operand(x, operand.var, &at, forms, extents)?;
                    factors.push(Operand { var, indices: indices.clone() });
                }
                self.builder.contract(&gens, &[], Pred::True, factors)?
            }
            (_, Rhs::Input { .. }) => return Err(Error::bug("tables", "an input is not read as it is")),
        };
        self.memo.insert(key, y);
        Ok(y)
    }

    /// An operand of `x` that is read at `at`.
    fn operand(&mut self, x: VarId, y: VarId, at: &[Affine], forms: &[Affine], extents: &[Size]) -> Result<VarId> {
        let (own, other) = (&self.tables.known[x], &self.tables.known[y]);
        let lost = || Error::bug("tables", "a place is no place of the reader");
        let mut inner = Vec::with_capacity(other.places.len());
        for place in &other.places {
            let there = place.linear.substitute(&|i| at.get(i.index()).cloned())?;
            let (linear, offset) = parts(&there, self.tables.step()).ok_or_else(lost)?;
            let (linear, sign) = upright(linear)?;
            let k = own.places.iter().position(|own| own.linear == linear).ok_or_else(lost)?;
            let form = forms.get(k).ok_or_else(lost)?;
            inner.push(form.scale(sign)?.add(&offset)?);
        }
        self.over(y, inner, extents)
    }
}

/// The `gen` indices of a statement.
fn axes(stmt: &Stmt) -> Vec<Affine> {
    Affine::indices(&ranges(stmt.dims.iter()))
}

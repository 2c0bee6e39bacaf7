//! Evaluates Tensor-SSA statement by statement, as its forms are defined in [`Rhs`].
//!
//! Each statement visits the points of its guard in lexicographic order, `gen` indices before `sum` indices, and reads its operands
//! there and nowhere else; so sums are taken in lexicographic order, and a guard that is a relation costs as many steps as it has
//! tuples. A sum begins with 0, unless it is an [access](Stmt::is_access): then its value is its only summand. A tensor is dense up to [`DENSE_VOLUME`] places; a larger one keeps the points where its guard holds, which is all that
//! anybody reads. A tensor is dropped after its last use.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;

use super::count::Counts;
use super::environment::{Elements, Environment, Leaf, Limits, box_volume, place, tuple_at};
use super::eval_term::{Extrema, better};
use super::numeric::Numeric;
use super::scope::{Indices, Scope, Tensors};
use crate::base::{Id, IndexId, SideTable, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Plan, Pred, RelationRef, Size, View, World};
use crate::scalar::Number;
use crate::tssa::vanishing::without_vanishing;
use crate::tssa::{Operand, Output, Program, Rhs, Stmt};

const PASS: &str = "evaluate";

/// Up to how many places a tensor is dense even if its guard holds nowhere.
pub const DENSE_VOLUME: u64 = 1 << 22;

/// How to evaluate.
#[derive(Default)]
pub struct Options<'a> {
    /// How much the evaluation may take.
    pub limits: Limits,
    /// The outputs wanted, by number; all where nothing is said. Statements that they do not need are not evaluated.
    pub outputs: Option<Vec<usize>>,
    /// Called with the number of statements done and of all to be done.
    pub progress: Option<&'a mut dyn FnMut(usize, usize)>,
}

/// The leaves of the wanted outputs. A sparse output has exactly the pattern of its storage.
///
/// # Errors
/// [`Error::Limit`], [`Error::Overflow`]; [`Error::Request`] for an output that there is not; [`Error::Limitation`] where the numbers lack a
/// function; [`Error::Bug`] where the program breaks a promise, such as reading a sparse parameter outside its pattern.
pub fn evaluate<T: Numeric>(
    program: &Program,
    inputs: &Environment<T>,
    options: Options<'_>,
) -> Result<Vec<Vec<Leaf<T>>>> {
    let Options { limits, outputs, mut progress } = options;
    let vanished = without_vanishing(program, &|n| inputs.size(n))?;
    let program = vanished.as_ref().unwrap_or(program);
    let wanted: Vec<&Output> = match &outputs {
        None => program.outputs.iter().collect(),
        Some(numbers) => {
            let output = |k: &usize| {
                program.outputs.get(*k).ok_or_else(|| Error::Request(format!("there is no output number {k}")))
            };
            numbers.iter().map(output).collect::<Result<_>>()?
        }
    };
    let results: Vec<VarId> = wanted.iter().flat_map(|output| output.leaves.iter().copied()).collect();
    let mut needed = SideTable::new(program.stmts.len(), false);
    for x in &results {
        needed.set(*x, true);
    }
    close_over_operands(program, &mut needed);

    // The statement after which a tensor is read no more; the results are read at the end.
    let mut dies_at: SideTable<VarId, Option<VarId>> = SideTable::new(program.stmts.len(), None);
    for (at, stmt) in program.stmts.iter().filter(|(x, _)| needed[*x]) {
        dies_at.set(at, Some(at));
        stmt.rhs.for_each_operand(|x| dies_at.set(x, Some(at)));
    }
    for x in &results {
        dies_at.set(*x, None);
    }

    let total = program.stmts.ids().filter(|x| needed[*x]).count();
    let mut done = 0;
    let mut evaluation = Evaluation::new(program, inputs, limits)?;
    for (at, stmt) in program.stmts.iter().filter(|(x, _)| needed[*x]) {
        evaluation.statement(at)?;
        let mut dead = Vec::new();
        stmt.rhs.for_each_operand(|x| dead.extend((dies_at[x] == Some(at)).then_some(x)));
        for x in dead {
            evaluation.drop(x);
        }
        done += 1;
        if let Some(progress) = &mut progress {
            progress(done, total);
        }
    }
    wanted.into_iter().map(|output| evaluation.output(output)).collect()
}

/// Adds what the statements read: one backward loop, users before operands.
fn close_over_operands(program: &Program, needed: &mut SideTable<VarId, bool>) {
    for (x, stmt) in program.stmts.iter().rev() {
        if needed[x] {
            stmt.rhs.for_each_operand(|y| needed.set(y, true));
        }
    }
}

/// A tensor while it lives.
struct Tensor<'a, T> {
    dims: Vec<u64>,
    data: Data<'a, T>,
    /// The extrema that were asked for.
    extrema: RefCell<Extrema>,
}

enum Data<'a, T> {
    /// A leaf of a parameter.
    Given(&'a Leaf<T>),
    /// The same number, or one that depends on the place only.
    Number(&'a Number),
    Dense(Vec<T>),
    /// Sorted places with their elements, zero elsewhere.
    Points {
        keys: Vec<u128>,
        values: Vec<T>,
    },
}

/// The tensors alive.
struct Alive<'a, T> {
    inputs: &'a Environment<T>,
    limits: Limits,
    tensors: SideTable<VarId, Option<std::rc::Rc<Tensor<'a, T>>>>,
}

impl<'a, T: Numeric> Alive<'a, T> {
    fn get(&self, x: VarId) -> Result<&Tensor<'a, T>> {
        self.tensors[x].as_deref().ok_or_else(|| Error::bug(PASS, format!("{x} is read before or after its life")))
    }

    /// An element; nothing outside the tensor.
    fn read(&self, x: VarId, tuple: &[i64]) -> Result<Option<T>> {
        let tensor = self.get(x)?;
        let Some(key) = place(&tensor.dims, tuple) else { return Ok(None) };
        let missing = || Error::bug(PASS, format!("{x} is read at {tuple:?}, outside its pattern"));
        Ok(Some(match &tensor.data {
            Data::Given(leaf) => leaf.at(key).cloned().ok_or_else(missing)?,
            Data::Number(Number::Literal(x)) => T::literal(*x)?,
            Data::Number(Number::Index(a)) => {
                let mut indices = Indices::default();
                for (i, k) in (0..).map(IndexId).zip(tuple) {
                    indices.set(i, *k);
                }
                let scope = Scope { inputs: self.inputs, tensors: self, limits: self.limits };
                scope.affine(a, &indices)?.map_or_else(T::zero, T::integer)
            }
            // The key is below the volume, which fits where the tensor is dense.
            Data::Dense(values) => values.get(key as usize).cloned().ok_or_else(missing)?,
            Data::Points { keys, values } => {
                let at = keys.binary_search(&key).ok();
                at.and_then(|at| values.get(at)).cloned().unwrap_or_else(T::zero)
            }
        }))
    }

    /// An element that must be there.
    fn element(&self, x: VarId, tuple: &[i64]) -> Result<T> {
        self.read(x, tuple)?.ok_or_else(|| Error::bug(PASS, format!("{x} is read at {tuple:?}, outside its axes")))
    }
}

impl<T: Numeric> Tensors for Alive<'_, T> {
    fn supports(&self, var: VarId, place: &[i64]) -> Result<bool> {
        Ok(match self.read(var, place)? {
            Some(x) => !x.is_zero()?,
            None => false,
        })
    }

    fn extremum(&self, var: VarId, view: View, source: &[i64]) -> Result<Option<i64>> {
        let tensor = self.get(var)?;
        let key = (view, source.to_vec());
        if let Some(known) = tensor.extrema.borrow().get(&key) {
            return Ok(*known);
        }
        let mut best: Option<(i64, T)> = None;
        let mut tuple = source.to_vec();
        for k in 0..i64::try_from(tensor.dims.last().copied().unwrap_or(0)).unwrap_or(i64::MAX) {
            tuple.truncate(source.len());
            tuple.push(k);
            let Some(x) = self.read(var, &tuple)? else { break };
            if better(view, &x, best.as_ref().map(|(_, x)| x))? {
                best = Some((k, x));
            }
        }
        let found = best.map(|(k, _)| k);
        tensor.extrema.borrow_mut().insert(key, found);
        Ok(found)
    }
}

/// How many points there are for each place.
#[derive(Clone, Copy)]
enum Places {
    /// One at most.
    Single,
    /// Any number, which are added up.
    Summed,
}

/// Elements in the order of their places.
struct Collected<T> {
    keys: Vec<u128>,
    values: Vec<T>,
}

impl<T: Numeric> Collected<T> {
    fn new() -> Self {
        Collected { keys: Vec::new(), values: Vec::new() }
    }

    /// A place behind the last one.
    fn push(&mut self, key: u128, x: T, limits: &Limits) -> Result<()> {
        self.keys.push(key);
        self.values.push(x);
        limits.elements(self.keys.len() as u128)
    }

    /// Adds to the last place, or begins a later one with 0.
    fn accumulate(&mut self, key: u128, x: T, limits: &Limits) -> Result<()> {
        match (self.keys.last(), self.values.last_mut()) {
            (Some(last), Some(sum)) if *last == key => *sum = sum.add(&x),
            _ => self.push(key, T::zero().add(&x), limits)?,
        }
        Ok(())
    }

    /// `[p] * X + [q] * Y` from the parts where `p` and where `q` hold. Where one of them fails its side is 0, which is added.
    fn merge(self, other: Collected<T>, limits: &Limits) -> Result<Collected<T>> {
        let mut sum = Collected::new();
        let mut left = self.keys.into_iter().zip(self.values).peekable();
        let mut right = other.keys.into_iter().zip(other.values).peekable();
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(sum),
            };
            let x = if order.is_le() { left.next() } else { None };
            let y = if order.is_ge() { right.next() } else { None };
            match (x, y) {
                (Some((key, x)), Some((_, y))) => sum.push(key, x.add(&y), limits)?,
                (Some((key, x)), None) | (None, Some((key, x))) => sum.push(key, x.add(&T::zero()), limits)?,
                (None, None) => return Ok(sum),
            }
        }
    }

    fn into_data<'a>(self, dims: &[u64], limits: &Limits) -> Result<Data<'a, T>> {
        let volume = box_volume(dims)?;
        if volume == self.keys.len() as u128 {
            return Ok(Data::Dense(self.values));
        }
        if volume > u128::from(DENSE_VOLUME) {
            return Ok(Data::Points { keys: self.keys, values: self.values });
        }
        limits.elements(volume)?;
        let mut dense = vec![T::zero(); volume as usize];
        for (key, x) in self.keys.into_iter().zip(self.values) {
            match dense.get_mut(key as usize) {
                Some(element) => *element = x,
                None => return Err(Error::bug(PASS, "an element outside its tensor")),
            }
        }
        Ok(Data::Dense(dense))
    }
}

/// A program under evaluation.
pub(super) struct Evaluation<'a, T> {
    program: &'a Program,
    alive: Alive<'a, T>,
}

/// What the guards of Tensor-SSA talk about.
///
/// The enumeration of points cannot fail half-way, so the first error is kept and ends it at the next point.
struct Facts<'s, 'a, T> {
    alive: &'s Alive<'a, T>,
    failed: RefCell<Option<Error>>,
    /// How many values indices have taken.
    tried: Cell<u64>,
}

impl<T: Numeric> Facts<'_, '_, T> {
    fn answer<U>(&self, answer: Result<U>) -> Option<U> {
        answer.map_err(|error| self.failed.borrow_mut().get_or_insert(error).clone()).ok()
    }

    fn check(&self) -> Result<()> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    fn scope(&self) -> Scope<'_, T, Alive<'_, T>> {
        Scope { inputs: self.alive.inputs, tensors: self.alive, limits: self.alive.limits }
    }
}

impl<T: Numeric> World for Facts<'_, '_, T> {
    fn size(&self, size: SizeId) -> i64 {
        self.answer(self.alive.inputs.size(size)).unwrap_or(0)
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        self.answer(self.scope().contains(relation, tuple)).unwrap_or(false)
    }

    fn candidates(&self, relation: RelationRef, known: &[Option<i64>], axis: usize) -> Option<Vec<i64>> {
        match relation {
            RelationRef::Input(r) => Some(self.answer(self.alive.inputs.relation(r))?.candidates(known, axis)),
            RelationRef::Computed { view: View::Support, .. } => None,
            RelationRef::Computed { .. } => {
                let (_, source) = known.split_last().filter(|(_, source)| source.len() == axis)?;
                let source: Vec<i64> = source.iter().copied().collect::<Option<_>>()?;
                Some(self.answer(self.scope().target(relation, &source))?.into_iter().collect())
            }
        }
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        self.answer(self.scope().target(map, source))?
    }

    fn tries(&self, values: u128, in_all: u128) -> bool {
        let tried = u128::from(self.tried.get());
        self.tried.set(u64::try_from(tried + values).unwrap_or(u64::MAX));
        self.answer(self.alive.limits.steps(tried.saturating_add(in_all))).is_some()
    }
}

impl<'a, T: Numeric> Evaluation<'a, T> {
    pub fn new(program: &'a Program, inputs: &'a Environment<T>, limits: Limits) -> Result<Self> {
        let alive = Alive { inputs, limits, tensors: SideTable::new(program.stmts.len(), None) };
        Ok(Evaluation { program, alive })
    }

    /// The statements that guards look at, with all that these read.
    pub fn guard_reads(&self) -> SideTable<VarId, bool> {
        let mut needed = SideTable::new(self.program.stmts.len(), false);
        for stmt in self.program.stmts.values() {
            for guard in stmt.rhs.guards() {
                guard.visit_computed(&mut |x| needed.set(x, true));
            }
        }
        close_over_operands(self.program, &mut needed);
        needed
    }

    pub fn drop(&mut self, x: VarId) {
        self.alive.tensors.set(x, None);
    }

    fn stmt(&self, x: VarId) -> Result<&'a Stmt> {
        self.program.stmts.get(x).ok_or_else(|| Error::bug(PASS, format!("an unknown statement {x}")))
    }

    /// Evaluates a statement whose operands are alive.
    pub fn statement(&mut self, x: VarId) -> Result<()> {
        let stmt = self.stmt(x)?;
        let dims = self.alive.inputs.extents(&stmt.dims)?;
        box_volume(&dims)?;
        let data = self.rhs(stmt, &dims)?;
        let tensor = Tensor { dims, data, extrema: RefCell::default() };
        self.alive.tensors.set(x, Some(std::rc::Rc::new(tensor)));
        Ok(())
    }

    fn rhs(&mut self, stmt: &'a Stmt, dims: &[u64]) -> Result<Data<'a, T>> {
        let limits = self.alive.limits;
        let gens = &stmt.dims;
        Ok(match &stmt.rhs {
            Rhs::Input { param, path } => {
                let signature = &self.program.signature;
                let param_type = signature.params.get(*param).map(|p| p.ty);
                let param_type = param_type.ok_or_else(|| Error::bug(PASS, "an unknown parameter"))?;
                let at = signature.types.leaves(param_type)?.iter().position(|leaf| leaf.path == *path);
                let leaf = at.and_then(|at| self.alive.inputs.param(*param).ok()?.get(at));
                let leaf = leaf.filter(|leaf| leaf.dims == dims);
                Data::Given(leaf.ok_or_else(|| Error::bug(PASS, format!("no value of shape {dims:?} for {param}")))?)
            }
            Rhs::Number(number) => Data::Number(number),
            Rhs::Add([(p, x), (q, y)]) => {
                let left = self.collect((gens, &[]), Places::Single, dims, p, |alive, at| alive.element(*x, at))?;
                let right = self.collect((gens, &[]), Places::Single, dims, q, |alive, at| alive.element(*y, at))?;
                left.merge(right, &limits)?.into_data(dims, &limits)?
            }
            Rhs::Map { guard, function, args } => {
                let users = &self.program.signature.functions;
                let apply = |alive: &Alive<'a, T>, at: &[i64]| {
                    let args = args.iter().map(|x| alive.element(*x, at)).collect::<Result<Vec<T>>>()?;
                    T::apply(*function, users, &args)
                };
                self.collect((gens, &[]), Places::Single, dims, guard, apply)?.into_data(dims, &limits)?
            }
            Rhs::Contract { sums, guard, operands } => {
                let product = |alive: &Alive<'a, T>, at: &[i64]| product(alive, operands, at);
                let single = sums.is_empty() || stmt.is_access(&self.program.signature);
                let places = if single { Places::Single } else { Places::Summed };
                self.collect((gens, sums), places, dims, guard, product)?.into_data(dims, &limits)?
            }
        })
    }

    /// The sums of `element` over the points of a guard.
    fn collect(
        &mut self,
        (gens, sums): (&[Size], &[Size]),
        places: Places,
        dims: &[u64],
        guard: &Pred,
        element: impl Fn(&Alive<'a, T>, &[i64]) -> Result<T>,
    ) -> Result<Collected<T>> {
        let mut collected = Collected::new();
        let order: Vec<(IndexId, &Size)> = numbered(gens, sums).collect();
        let alive = &self.alive;
        self.visit(&order, guard, &mut |at| {
            let key = at.get(..dims.len()).and_then(|gens| place(dims, gens));
            let key = key.ok_or_else(|| Error::bug(PASS, "a point outside the statement"))?;
            let x = element(alive, at)?;
            match places {
                Places::Single => collected.push(key, x, &alive.limits),
                Places::Summed => collected.accumulate(key, x, &alive.limits),
            }
        })?;
        Ok(collected)
    }

    /// Visits the points of a guard in lexicographic order.
    fn visit(
        &self,
        order: &[(IndexId, &Size)],
        guard: &Pred,
        visit: &mut dyn FnMut(&[i64]) -> Result<()>,
    ) -> Result<()> {
        let alive = &self.alive;
        // An empty axis anywhere leaves no point, however long the others are.
        for (_, n) in order {
            if alive.inputs.extent(n)? == 0 {
                return Ok(());
            }
        }
        let facts = Facts { alive, failed: RefCell::new(None), tried: Cell::new(0) };
        let free: Vec<(IndexId, Size)> = order.iter().map(|(i, n)| (*i, (*n).clone())).collect();
        Plan::new(&[], &free, guard).for_each(&facts, &[], &mut |at| {
            facts.check()?;
            visit(at)
        })?;
        facts.check()
    }

    /// Adds what a statement costs: Fig. 6 for its form.
    pub fn count(&self, x: VarId, counts: &mut Counts) -> Result<()> {
        let stmt = self.stmt(x)?;
        let gens = &stmt.dims;
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => Ok(()),
            // 4.24
            Rhs::Add([(p, _), (q, _)]) => {
                let both = p.clone().and(q.clone());
                counts.add(self.points(gens, &[], &both)?.0)
            }
            // 4.26
            Rhs::Map { guard, function, .. } => counts.apply(*function, self.points(gens, &[], guard)?.0),
            // 4.25 and 4.30: each point is added, but one for each element that has any.
            Rhs::Contract { sums, guard, operands } => {
                let (points, elements) = self.points(gens, sums, guard)?;
                counts.add(points.saturating_sub(elements))?;
                counts.mul(Counts::times(points, operands.len().saturating_sub(1) as u128)?)
            }
        }
    }

    /// How many points a guard has, and how many places of the `gen` axes have at least one.
    ///
    /// Indices that the guard does not mention multiply both.
    fn points(&self, gens: &[Size], sums: &[Size], guard: &Pred) -> Result<(u128, u128)> {
        let (mut free_points, mut free_elements) = (1, 1);
        let mut order = Vec::new();
        let mut outer = 0;
        for (at, (i, size)) in numbered(gens, sums).enumerate() {
            let n = self.alive.inputs.extent(size)?;
            if n > 0 && guard.mentions(i) {
                order.push((i, size));
                outer += usize::from(at < gens.len());
                continue;
            }
            free_points = Counts::times(free_points, u128::from(n))?;
            // Without summands no element costs anything.
            if at < gens.len() || n == 0 {
                free_elements = Counts::times(free_elements, u128::from(n))?;
            }
        }
        let (mut points, mut elements) = (0u128, 0u128);
        let mut last: Option<Vec<i64>> = None;
        if free_points > 0 {
            self.visit(&order, guard, &mut |at| {
                points += 1;
                let at = at.get(..outer).unwrap_or(at);
                if last.as_deref() != Some(at) {
                    elements += 1;
                    last = Some(at.to_vec());
                }
                Ok(())
            })?;
        }
        Ok((Counts::times(points, free_points)?, Counts::times(elements, free_elements)?))
    }

    /// The leaves of an output.
    fn output(&mut self, output: &Output) -> Result<Vec<Leaf<T>>> {
        let pattern = output.storage.pattern().map(|r| self.alive.inputs.relation(r)).transpose()?;
        let leaf = |x: &VarId| match pattern {
            Some(pattern) => {
                let dims = self.alive.get(*x)?.dims.clone();
                let element = |at: Vec<usize>| {
                    let at: Vec<i64> = at.into_iter().map(|k| k as i64).collect();
                    self.alive.element(*x, &at)
                };
                if dims.len() != pattern.rank() {
                    return Err(Error::bug(PASS, "a sparse output of another rank than its pattern"));
                }
                let values = pattern.tuples().map(element).collect::<Result<_>>()?;
                Leaf::sparse(pattern.clone(), values)
            }
            None => {
                let tensor = self.alive.get(*x)?;
                let volume = box_volume(&tensor.dims)?;
                self.alive.limits.elements(volume)?;
                let values = match &tensor.data {
                    Data::Dense(values) => values.clone(),
                    Data::Given(Leaf { elements: Elements::Dense(values), .. }) => values.clone(),
                    _ => {
                        let element = |key| self.alive.element(*x, &tuple_at(&tensor.dims, key));
                        (0..volume).map(element).collect::<Result<_>>()?
                    }
                };
                Leaf::dense(tensor.dims.clone(), values)
            }
        };
        output.leaves.iter().map(leaf).collect()
    }
}

fn product<T: Numeric>(alive: &Alive<'_, T>, operands: &[Operand], at: &[i64]) -> Result<T> {
    let mut product: Option<T> = None;
    for Operand { var, indices } in operands {
        let tuple: Option<Vec<i64>> = indices.iter().map(|i| at.get(i.index()).copied()).collect();
        let tuple = tuple.ok_or_else(|| Error::bug(PASS, format!("{var} is read at an unbound index")))?;
        let x = alive.element(*var, &tuple)?;
        product = Some(match product {
            Some(product) => product.mul(&x),
            None => x,
        });
    }
    product.ok_or_else(|| Error::bug(PASS, "a contraction without operands"))
}

/// The indices of a statement with their ranges: `gen` indices first, then `sum` indices, numbered in this order.
fn numbered<'s>(gens: &'s [Size], sums: &'s [Size]) -> impl Iterator<Item = (IndexId, &'s Size)> {
    (0..).map(IndexId).zip(gens.iter().chain(sums))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::count::{Partials, cost_io, count_tssa};
    use super::super::testing::*;
    use super::*;
    use crate::base::{ParamId, RelationId};
    use crate::index::Affine;
    use crate::scalar::{Comparison, Function, Op, Primitive};
    use crate::tensor::Relation;
    use crate::tssa::Builder;
    use crate::ty::{Format, Storage, Types};

    type Gens = Vec<(IndexId, Size)>;

    /// Shorthands over a builder.
    struct Stmts(Builder);

    impl Stmts {
        fn input(&mut self, p: ParamId) -> VarId {
            let dims = match p {
                X => vec![n()],
                Y => vec![m()],
                T => vec![],
                _ => vec![n(), m()],
            };
            self.0.input(p, Vec::new(), dims)
        }

        fn gens(&mut self, dims: &[Size]) -> Gens {
            self.0.fresh_indices(dims)
        }

        fn contract(&mut self, gens: &Gens, sums: &Gens, guard: Pred, operands: &[(VarId, &[IndexId])]) -> VarId {
            let operand = |(var, indices): &(VarId, &[IndexId])| Operand { var: *var, indices: indices.to_vec() };
            self.0.contract(gens, sums, guard, operands.iter().map(operand).collect()).unwrap()
        }

        fn map(&mut self, gens: &Gens, guard: Pred, op: Op, args: &[VarId]) -> VarId {
            self.0.map(gens, guard, op.into(), args.to_vec()).unwrap()
        }
    }

    fn program(build: impl FnOnce(&mut Stmts) -> VarId) -> Program {
        let mut stmts = Stmts(Builder::new(Arc::new(signature())));
        let x = build(&mut stmts);
        // The type of an output is read by the cost only.
        let output = Output { name: "value".into(), ty: Types::REAL, storage: Storage::Dense, leaves: vec![x] };
        stmts.0.finish(vec![output])
    }

    fn ids(gens: &Gens) -> Vec<IndexId> {
        gens.iter().map(|(i, _)| *i).collect()
    }

    /// Name, program, values, and `[additions, multiplications, functions, partials]`, worked out by hand.
    type Case = (&'static str, fn(&mut Stmts) -> VarId, &'static [f64], [u128; 4]);

    const CASES: &[Case] = &[
        (
            "matrix times vector",
            |b| {
                let (a, y, g, s) = (b.input(A), b.input(Y), b.gens(&[n()]), b.gens(&[m()]));
                b.contract(&g, &s, Pred::True, &[(a, &[g[0].0, s[0].0]), (y, &[s[0].0])])
            },
            &[50., 110., 170.],
            [3, 6, 0, 0],
        ),
        // 5.30: one summand each costs nothing.
        (
            "gather by a map",
            |b| {
                let (y, g, s) = (b.input(Y), b.gens(&[n()]), b.gens(&[m()]));
                b.contract(&g, &s, rel(CAM, &[g[0].0, s[0].0]), &[(y, &[s[0].0])])
            },
            &[20., 10., 20.],
            [0, 0, 0, 0],
        ),
        // Its adjoint: place 0 has one source, place 1 has two.
        (
            "scatter by a map",
            |b| {
                let (x, g, s) = (b.input(X), b.gens(&[m()]), b.gens(&[n()]));
                b.contract(&g, &s, rel(CAM, &[s[0].0, g[0].0]), &[(x, &[s[0].0])])
            },
            &[2., 4.],
            [1, 0, 0, 0],
        ),
        (
            "transposed sparse matrix times vector",
            |b| {
                let (a, x, g, s) = (b.input(S), b.input(X), b.gens(&[m()]), b.gens(&[n()]));
                let guard = rel(S_PATTERN, &[s[0].0, g[0].0]);
                b.contract(&g, &s, guard, &[(a, &[s[0].0, g[0].0]), (x, &[s[0].0])])
            },
            &[24., 7.],
            [0, 2, 0, 0],
        ),
        (
            "product at each place",
            |b| {
                let (x, g) = (b.input(X), b.gens(&[n()]));
                b.contract(&g, &Vec::new(), Pred::True, &[(x, &[g[0].0]), (x, &[g[0].0])])
            },
            &[1., 4., 9.],
            [0, 3, 0, 0],
        ),
        (
            "joint sum",
            |b| {
                let (a, s) = (b.input(A), b.gens(&[n(), m()]));
                b.contract(&Vec::new(), &s, Pred::True, &[(a, &ids(&s))])
            },
            &[21.],
            [5, 0, 0, 0],
        ),
        // The rows 1 and 2 have 1 and 2 points below the diagonal.
        (
            "sum under a triangle",
            |b| {
                let (a, g, s) = (b.input(A), b.gens(&[n()]), b.gens(&[m()]));
                b.contract(&g, &s, lt(s[0].0, g[0].0), &[(a, &[g[0].0, s[0].0])])
            },
            &[0., 3., 11.],
            [1, 0, 0, 0],
        ),
        (
            "equation with a coefficient",
            |b| {
                let (x, g, s) = (b.input(X), b.gens(&[n()]), b.gens(&[n()]));
                let guard = eq(Affine::index(s[0].0).scale(2).unwrap(), g[0].0);
                b.contract(&g, &s, guard, &[(x, &[s[0].0])])
            },
            &[1., 0., 2.],
            [0, 0, 0, 0],
        ),
        (
            "guarded addition",
            |b| {
                let (x, g) = (b.input(X), b.gens(&[n()]));
                let square = b.contract(&g, &Vec::new(), Pred::True, &[(x, &[g[0].0]), (x, &[g[0].0])]);
                b.0.add(&g, [(lt(g[0].0, 2), x), (lt(0, g[0].0), square)]).unwrap()
            },
            &[1., 6., 9.],
            [1, 3, 0, 0],
        ),
        (
            "addition where neither guard holds",
            |b| {
                let (x, g) = (b.input(X), b.gens(&[n()]));
                b.0.add(&g, [(eq(g[0].0, 0), x), (eq(g[0].0, 2), x)]).unwrap()
            },
            &[1., 0., 3.],
            [0, 0, 0, 0],
        ),
        (
            "function under a guard",
            |b| {
                let (x, g) = (b.input(X), b.gens(&[n()]));
                let k = b.0.number(&g, Number::Index(Affine::index(g[0].0))).unwrap();
                // 1 / 0 stands outside the guard.
                b.map(&g, lt(0, g[0].0), Op::Div, &[x, k])
            },
            &[0., 2., 1.5],
            [0, 0, 2, 0],
        ),
        (
            "partial derivative",
            |b| {
                let (x, g) = (b.input(X), b.gens(&[n()]));
                b.0.map(&g, Pred::True, Function::Partial(Primitive::Op(Op::Powi(2)), 0), vec![x]).unwrap()
            },
            &[2., 4., 6.],
            [0, 0, 0, 3],
        ),
        (
            "computed support",
            |b| {
                let (x, g) = (b.input(X), b.gens(&[n()]));
                let one = b.0.number(&g, Number::Literal(1.)).unwrap();
                let c = b.map(&g, Pred::True, Op::Compare(Comparison::Less), &[one, x]);
                let guard = rel(computed(c, View::Support), &[g[0].0]);
                b.contract(&Vec::new(), &g, guard, &[(x, &[g[0].0])])
            },
            &[5.],
            [1, 0, 3, 0],
        ),
        (
            "one-hot maximum of each row",
            |b| {
                let (a, g, s) = (b.input(A), b.gens(&[n()]), b.gens(&[m()]));
                let guard = rel(computed(a, View::ArgMax), &[g[0].0, s[0].0]);
                b.contract(&g, &s, guard, &[(a, &[g[0].0, s[0].0])])
            },
            &[2., 4., 6.],
            [0, 0, 0, 0],
        ),
        (
            "rows that are not empty",
            |b| {
                let (x, g) = (b.input(X), b.gens(&[n()]));
                let k = b.0.fresh_index();
                let guard = Pred::exists(k, n(), rel(E, &[g[0].0, k]));
                b.contract(&g, &Vec::new(), guard, &[(x, &[g[0].0])])
            },
            &[1., 2., 0.],
            [0, 0, 0, 0],
        ),
        (
            "sum over a negative size",
            |b| {
                let (t, s) = (b.input(T), b.gens(&[n_less(7)]));
                b.contract(&Vec::new(), &s, Pred::True, &[(t, &[])])
            },
            &[0.],
            [0, 0, 0, 0],
        ),
        (
            "2^40 empty rows",
            |b| {
                let (t, g) = (b.input(T), b.gens(&[Affine::constant(1 << 40), n_less(3)]));
                b.contract(&g, &Vec::new(), Pred::True, &[(t, &[])])
            },
            &[],
            [0, 0, 0, 0],
        ),
        // Free indices multiply: nothing is visited to count 2^40 summands.
        (
            "sum of nothing over 2^40",
            |b| {
                let (t, s) = (b.input(T), b.gens(&[Affine::constant(1 << 40), n_less(3)]));
                b.contract(&Vec::new(), &s, Pred::True, &[(t, &[])])
            },
            &[0.],
            [0, 0, 0, 0],
        ),
    ];

    fn run(program: &Program, at: &Environment<f64>) -> Result<Vec<Vec<Leaf<f64>>>> {
        evaluate(program, at, Options { limits: limits(), ..Options::default() })
    }

    #[test]
    fn values_and_counts() {
        let at = environment(|x| x as f64);
        for (name, build, expected, [additions, multiplications, functions, partials]) in CASES {
            let program = program(build);
            assert_eq!(run(&program, &at).unwrap()[0][0].values(), *expected, "{name}");
            let expected = Counts {
                additions: *additions,
                multiplications: *multiplications,
                functions: *functions,
                partials: *partials,
            };
            assert_eq!(count_tssa(&program, &at, limits()).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn counting_needs_no_visit_of_free_indices() {
        let huge = Affine::constant(1 << 40);
        let program = program(|b| {
            let (t, g, s) = (b.input(T), b.gens(std::slice::from_ref(&huge)), b.gens(&[huge.clone(), n()]));
            b.contract(&g, &s, lt(0, s[1].0), &[(t, &[]), (t, &[])])
        });
        let counts = count_tssa(&program, &environment(|x| x as f64), limits()).unwrap();
        let points = 2u128 << 80;
        assert_eq!((counts.additions, counts.multiplications), (points - (1 << 40), points));
    }

    #[test]
    fn costs_include_sizes() {
        // 2 multiplications; inputs 3 + 2 + 6 + 2 stored + 3 + 6 + 1; the output is declared as one number.
        let program = program(CASES[3].1);
        let at = environment(|x| x as f64);
        assert_eq!(cost_io(&program, &at, Partials::Counted, limits()).unwrap(), 2 + 23 + 1);
        // The partials of "partial derivative" are free or not.
        let counts = Counts { partials: 3, ..Counts::default() };
        assert_eq!([Partials::Free, Partials::Counted].map(|p| counts.total(p).unwrap()), [0, 3]);
    }

    /// A sparse matrix with 5e9 places: only entries are visited and kept, and a result on the pattern has exactly its entries.
    #[test]
    fn large_sparse_matrices() {
        let tuples = [[0, 49_999], [7, 3], [99_999, 0]];
        let pattern = Arc::new(Relation::from_tuples(&[100_000, 50_000], &tuples).unwrap());
        let mut at = environment(|x| x as f64);
        at.sizes = vec![100_000, 50_000];
        at.params[S.index()] = vec![Leaf::sparse(pattern.clone(), vec![1., 2., 3.]).unwrap()];
        at.relations[0] = pattern.clone();
        let mut b = Stmts(Builder::new(Arc::new(signature())));
        let s = b.input(S);
        let g = b.gens(&[n(), m()]);
        let stored = rel(S_PATTERN, &ids(&g));
        let squares = b.map(&g, stored.clone(), Op::Powi(2), &[s]);
        let both = b.0.add(&g, [(stored.clone(), squares), (eq(g[0].0, 7).and(stored.clone()), s)]).unwrap();
        let total = b.contract(&Vec::new(), &g, stored, &[(both, &ids(&g))]);
        let output = |x, storage| Output { name: "v".into(), ty: Types::REAL, storage, leaves: vec![x] };
        let outputs = vec![output(total, Storage::Dense), output(both, Storage::Sparse(Format::Csr, RelationId(0)))];
        let program = b.0.finish(outputs);
        let found = run(&program, &at).unwrap();
        assert_eq!(found[0][0].values(), [16.0]);
        assert_eq!(found[1][0], Leaf::sparse(pattern, vec![1., 6., 9.]).unwrap());
        let counts = count_tssa(&program, &at, limits()).unwrap();
        assert_eq!((counts.functions, counts.additions), (3, 1 + 2));
    }

    /// Only what the wanted outputs need is evaluated; progress counts it.
    #[test]
    fn outputs_on_demand() {
        let mut b = Stmts(Builder::new(Arc::new(signature())));
        let (x, s, g) = (b.input(X), b.input(S), b.gens(&[n(), m()]));
        // Reads the sparse parameter outside its pattern.
        let wrong = b.contract(&Vec::new(), &g, Pred::True, &[(s, &ids(&g))]);
        let output =
            |name: &str, x| Output { name: name.into(), ty: Types::REAL, storage: Storage::Dense, leaves: vec![x] };
        let program = b.0.finish(vec![output("wrong", wrong), output("x", x)]);
        let at = environment(|x| x as f64);
        let mut seen = Vec::new();
        let mut progress = |done, total| seen.push((done, total));
        let options = Options { outputs: Some(vec![1]), progress: Some(&mut progress), ..Options::default() };
        assert_eq!(evaluate(&program, &at, options).unwrap()[0][0].values(), [1., 2., 3.]);
        assert_eq!(seen, [(1, 1)]);
        let error = run(&program, &at).unwrap_err();
        assert!(matches!(&error, Error::Bug { message, .. } if message.contains("outside its pattern")), "{error}");
        let options = Options { outputs: Some(vec![2]), ..Options::default() };
        assert!(matches!(evaluate(&program, &at, options), Err(Error::Request(_))));
    }

    #[test]
    fn limits_are_errors() {
        // Too many elements are found when they are made, too many steps before the first one.
        for (places, most) in [(1 << 23, limits().elements), (1 << 40, limits().steps)] {
            let program = program(|b| {
                let (t, g) = (b.input(T), b.gens(&[Affine::constant(places)]));
                b.contract(&g, &Vec::new(), Pred::True, &[(t, &[])])
            });
            let error = run(&program, &environment(|x| x as f64)).unwrap_err();
            assert!(matches!(error, Error::Limit { limit, .. } if limit == most), "{error}");
        }
    }

    #[test]
    fn long_chains() {
        let program = program(|b| {
            let g = b.gens(&[n()]);
            let mut x = b.input(X);
            for _ in 0..100_000 {
                x = b.0.add(&g, [(lt(g[0].0, 2), x), (eq(g[0].0, 2), x)]).unwrap();
            }
            x
        });
        assert_eq!(run(&program, &environment(|x| x as f64)).unwrap()[0][0].values(), [1., 2., 3.]);
    }
}

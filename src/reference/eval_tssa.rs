//! Evaluates Tensor-SSA statement by statement, as its forms are defined in [`Rhs`].
//!
//! Each statement visits the points of its guard in lexicographic order, `gen` indices before `sum` indices, and reads its operands
//! there and nowhere else; so sums are taken in lexicographic order, and a guard that is a relation costs as many steps as it has
//! tuples. A sum begins with 0, unless it is an [access](Stmt::is_access): then its value is its only summand. A tensor is dense up to [`DENSE_VOLUME`] places; a larger one keeps the points where its guard holds, which is all that
//! anybody reads. A tensor is dropped after its last use.
//!
//! | file | job |
//! |---|---|
//! | `tensors` | the tensors alive |
//! | `collected` | the elements of a tensor while they are computed |
//! | `points` | the points of guards, visited and counted |

mod collected;
mod points;
mod tensors;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use self::collected::{Collected, Places};
use self::points::numbered;
use self::tensors::{Alive, Data, Tensor};
use super::count::Counts;
use super::environment::{Elements, Environment, Leaf, Limits, box_volume, place, tuple_at};
use super::numeric::Numeric;
use crate::base::{Id, IndexId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Pred, Size};
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

/// A program under evaluation.
pub(super) struct Evaluation<'a, T> {
    program: &'a Program,
    alive: Alive<'a, T>,
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

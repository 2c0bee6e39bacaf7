//! Evaluates a flow as it is defined: leaves by [`eval_tssa`], scans step by step.
//!
//! A loop index is a size while its body runs. All states are kept where a path is read. Where only the last one is, a loop whose steps do not mention
//! the index ends with a step that gives the state that it was given: so do all others, for the same operations. Where numbers have derivatives, those
//! of a fixpoint are iterated at its solution.

use std::collections::{BTreeMap, BTreeSet};

use super::count::{Counts, count_tssa};
use super::environment::{Elements, Environment, Leaf, Limits};
use super::eval_tssa;
use super::numeric::Numeric;
use crate::base::{Id, SizeId};
use crate::error::{Error, Result};
use crate::flow::{self, Call, Program, Scan, Stmt, ValueId};
use crate::index::Size;

const PASS: &str = "evaluate";

/// The values in scope.
type Values<T> = BTreeMap<ValueId, Vec<Leaf<T>>>;

/// The leaves of all results, in order.
///
/// # Errors
/// Those of [`eval_tssa::evaluate`].
pub fn evaluate<T: Numeric>(program: &Program, inputs: &Environment<T>, limits: Limits) -> Result<Vec<Vec<Leaf<T>>>> {
    Ok(run(program, inputs, limits, &mut |_, _, _| {}, false)?.0)
}

/// The leaves of all states, or of all results.
type States<T> = Vec<Vec<Leaf<T>>>;
/// What a run gives, and the steps of fixpoints that are noted.
pub type Noted<T> = (States<T>, BTreeSet<i64>);

/// The same, and for each fixpoint that ended at its last step with its condition still true how many steps it made.
///
/// # Errors
/// Those of [`evaluate`].
pub fn evaluate_noting<T: Numeric>(program: &Program, inputs: &Environment<T>, limits: Limits) -> Result<Noted<T>> {
    run(program, inputs, limits, &mut |_, _, _| {}, true)
}

fn run<'a, T: Numeric>(
    program: &'a Program,
    inputs: &Environment<T>,
    limits: Limits,
    observe: &'a mut Observer<'a, T>,
    asks: bool,
) -> Result<Noted<T>> {
    let (inputs, outer) = (inputs.clone(), inputs.params.len());
    let mut read = BTreeSet::new();
    program.body.iter().for_each(|stmt| stmt.visit_reads(&mut |x| read.extend([x])));
    read.extend(program.outputs.iter().flat_map(|output| &output.values));
    let fixpoints = Fixpoints { asks, open: BTreeMap::new(), unsolved: BTreeSet::new() };
    let mut machine =
        Machine { program, observe, inputs, outer, limits, values: Values::new(), read, times: 1, fixpoints };
    machine.inputs.sizes.resize(program.frame.sizes.len(), 0);
    machine.block(&program.body)?;
    let leaves = |output: &flow::Output| {
        let values = output.values.iter().map(|x| machine.value(*x));
        Ok(values.collect::<Result<Vec<_>>>()?.into_iter().flatten().cloned().collect())
    };
    let results = program.outputs.iter().map(leaves).collect::<Result<_>>()?;
    Ok((results, machine.fixpoints.unsolved))
}

/// How many operations an evaluation takes: those of each leaf as often as it runs, in loops that may end early as often as at most.
///
/// # Errors
/// Those of [`evaluate`], and [`Error::Overflow`].
pub fn count(program: &Program, inputs: &Environment<f64>, limits: Limits) -> Result<Counts> {
    let program = &flow::to_the_end(program)?;
    let mut counts = Counts::default();
    let mut failed = None;
    let mut count = |leaf: &flow::Leaf, at: &Environment<f64>, times: u128| {
        let found = count_tssa(&leaf.program, at, limits).and_then(|found| found.since(&Counts::default(), times));
        let added = found.and_then(|found| counts.join(&found));
        failed = failed.take().or(added.err());
    };
    run(program, inputs, limits, &mut count, false)?;
    failed.map_or(Ok(counts), Err)
}

/// Called before each leaf, with what it runs on, and for how many runs this one stands.
type Observer<'a, T> = dyn FnMut(&flow::Leaf, &Environment<T>, u128) + 'a;

/// What is known of fixpoints that ended at their last step.
struct Fixpoints<T> {
    /// Whether somebody asks.
    asks: bool,
    /// The last states of iterations whose condition still holds, by their indices, and how many steps there were.
    open: BTreeMap<SizeId, (States<T>, i64)>,
    /// The steps of those that a fixpoint goes on from.
    unsolved: BTreeSet<i64>,
}

struct Machine<'a, T> {
    program: &'a Program,
    observe: &'a mut Observer<'a, T>,
    /// What the flow takes from outside, with the values of loop indices.
    inputs: Environment<T>,
    outer: usize,
    limits: Limits,
    values: Values<T>,
    /// What statements and results read.
    read: BTreeSet<ValueId>,
    /// For how many runs one stands.
    times: u128,
    fixpoints: Fixpoints<T>,
}

impl<T: Numeric> Machine<'_, T> {
    fn value(&self, x: ValueId) -> Result<&Vec<Leaf<T>>> {
        self.values.get(&x).ok_or_else(|| Error::bug(PASS, format!("the value {x} is not in scope")))
    }

    // Scans nest to a bounded depth.
    fn block(&mut self, body: &[Stmt]) -> Result<()> {
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => self.leaf(leaf)?,
                Stmt::Scan(scan) => self.scan(scan)?,
                Stmt::Call(call) => self.call(call)?,
            }
        }
        Ok(())
    }

    fn leaf(&mut self, leaf: &flow::Leaf) -> Result<()> {
        self.inputs.params.truncate(self.outer);
        for x in &leaf.takes {
            let value = self.value(*x)?.clone();
            self.inputs.params.push(value);
        }
        (self.observe)(leaf, &self.inputs, self.times);
        let options = eval_tssa::Options { limits: self.limits, outputs: None, progress: None };
        let results = eval_tssa::evaluate(&leaf.program, &self.inputs, options)?;
        self.values.extend(leaf.gives.iter().copied().zip(results));
        Ok(())
    }

    /// Once for each point of the axes, whose tensors lie one after the other.
    fn call(&mut self, call: &Call) -> Result<()> {
        let program = self.program;
        let function = program.signature.functions.get(call.function);
        let function = function.and_then(|f| Some((f.name(), f.of_tensors()?)));
        let (name, external) = function.ok_or_else(|| Error::bug(PASS, "a call of no function of tensors"))?;
        let axes = call.axes.len();
        let shape = |x: ValueId| {
            let dims = program.frame.types.real_dims(program.values[x].ty);
            let dims = dims.ok_or_else(|| Error::bug(PASS, "a value that is no tensor of reals"))?;
            dims.iter().map(|n| self.inputs.extent(n)).collect::<Result<Vec<u64>>>()
        };
        let len = |dims: &[u64]| dims.iter().product::<u64>() as usize;
        let mut points = 1;
        let mut args = Vec::with_capacity(call.takes.len());
        for x in &call.takes {
            let dims = shape(*x)?;
            let [Leaf { elements: Elements::Dense(numbers), .. }] = self.value(*x)?.as_slice() else {
                return Err(Error::bug(PASS, "an argument that is not dense"));
            };
            points = len(&dims[..axes]);
            args.push((numbers.clone(), dims[axes..].to_vec()));
        }
        let asked = match call.when.map(|x| self.value(x)).transpose()?.map(Vec::as_slice) {
            Some([Leaf { elements: Elements::Dense(numbers), .. }]) => Some(numbers.clone()),
            _ => None,
        };
        let results = call.gives.iter().map(|x| shape(*x)).collect::<Result<Vec<_>>>()?;
        let lens: Vec<usize> = results.iter().map(|dims| len(&dims[axes..])).collect();
        let mut all: Vec<Vec<T>> = vec![Vec::new(); results.len()];
        for point in 0..points {
            if let Some(asked) = asked.as_ref().and_then(|asked| asked.get(point))
                && asked.is_zero()?
            {
                all.iter_mut().zip(&lens).for_each(|(all, len)| all.resize(all.len() + len, T::zero()));
                continue;
            }
            let mut own = Vec::with_capacity(args.len());
            for (numbers, dims) in &args {
                let n = len(dims);
                let part = numbers.get(point * n..(point + 1) * n).unwrap_or_default().to_vec();
                own.push((part, dims.iter().map(|n| *n as usize).collect()));
            }
            let found = T::call(name, external, &own, &lens)?;
            all.iter_mut().zip(found).for_each(|(all, found)| all.extend(found));
        }
        for ((x, dims), numbers) in call.gives.iter().zip(results).zip(all) {
            self.values.insert(*x, vec![Leaf::dense(dims, numbers)?]);
        }
        Ok(())
    }

    fn scan(&mut self, scan: &Scan) -> Result<()> {
        let early = scan.ends(|x| self.read.contains(x)).cloned();
        let most = early.as_ref().map_or(&scan.steps, |early| &early.most);
        let mut count = i64::try_from(self.inputs.extent(most)?).map_err(|_| Error::Overflow)?;
        let most_steps = count;
        let is_fold = scan.states.iter().all(|state| !self.read.contains(&state.path));
        let steady = is_fold && early.is_none() && scan.is_steady();
        let mut paths: Vec<Vec<Vec<Leaf<T>>>> = Vec::with_capacity(scan.states.len());
        for state in &scan.states {
            paths.push(vec![self.value(state.init)?.clone()]);
        }
        let mut step = 0;
        while step < count {
            if let Some(index) = self.inputs.sizes.get_mut(scan.index.index()) {
                *index = if scan.down { count - 1 - step } else { step };
            }
            for (state, path) in scan.states.iter().zip(&paths) {
                self.values.insert(state.before, path.last().cloned().unwrap_or_default());
            }
            self.block(&scan.body)?;
            let mut same = steady;
            for (state, path) in scan.states.iter().zip(&mut paths) {
                let after = self.value(state.after)?.clone();
                same &= path.last().is_some_and(|before| are_same(before, &after));
                path.truncate(if is_fold { 0 } else { path.len() });
                path.push(after);
            }
            if same && step + 1 < count {
                // One run for all that are left.
                let times = self.times;
                self.times = Counts::times(times, u128::try_from(count - step - 1).unwrap_or(0))?;
                self.block(&scan.body)?;
                self.times = times;
                break;
            }
            step += 1;
            if let Some(early) = &early
                && are_zero(self.value(early.changes)?)?
            {
                count = step;
            }
        }
        if self.fixpoints.asks && scan.implicit.is_none() && scan.is_steady() {
            self.note_end(scan, &paths, (step == most_steps).then_some(step))?;
        }
        if let (Some(early), Some(n)) = (&early, scan.steps.as_size())
            && early.most != scan.steps
            && let Some(size) = self.inputs.sizes.get_mut(n.index())
        {
            *size = count;
        }
        if let Some(most) = &scan.implicit {
            self.note_fixpoint(scan)?;
            for (path, last) in paths.iter_mut().zip(self.solution(scan, most)?) {
                path.truncate(path.len() - 1);
                path.push(last);
            }
        }
        for (state, mut path) in scan.states.iter().zip(paths) {
            self.values.insert(state.last, path.last().cloned().unwrap_or_default());
            if scan.down {
                path.reverse();
            }
            if !is_fold {
                self.values.insert(state.path, stacked(&path)?);
            }
        }
        Ok(())
    }
}

impl<T: Numeric> Machine<'_, T> {
    /// Notes an iteration that has made all of its steps, if one more would change something.
    fn note_end(&mut self, scan: &Scan, paths: &[Vec<Vec<Leaf<T>>>], all_steps: Option<i64>) -> Result<()> {
        self.fixpoints.open.remove(&scan.index);
        let Some(steps) = all_steps else { return Ok(()) };
        let last: States<T> = paths.iter().map(|path| path.last().cloned().unwrap_or_default()).collect();
        for (state, last) in scan.states.iter().zip(&last) {
            self.values.insert(state.before, last.clone());
        }
        self.block(&scan.body)?;
        for (state, before) in scan.states.iter().zip(&last) {
            if !are_same(before, self.value(state.after)?) {
                self.fixpoints.open.insert(scan.index, (last, steps));
                break;
            }
        }
        Ok(())
    }

    /// Notes a fixpoint that goes on from where such an iteration has ended.
    fn note_fixpoint(&mut self, scan: &Scan) -> Result<()> {
        let inits = scan.states.iter().map(|state| self.value(state.init)).collect::<Result<Vec<_>>>()?;
        let is_of = |last: &[Vec<Leaf<T>>]| {
            inits.len() == last.len() && inits.iter().zip(last).all(|(init, last)| are_same(init, last))
        };
        let unsolved = self.fixpoints.open.values().filter(|(last, _)| is_of(last)).map(|(_, steps)| *steps);
        let unsolved: Vec<i64> = unsolved.collect();
        self.fixpoints.unsolved.extend(unsolved);
        Ok(())
    }

    /// The states of a fixpoint behind its step: their values with derivatives that the step, at these values, does not change.
    fn solution(&mut self, scan: &Scan, most: &Size) -> Result<Vec<Vec<Leaf<T>>>> {
        let after = scan.states.iter().map(|state| self.value(state.after).cloned());
        let values: Vec<Vec<Leaf<T>>> = after.collect::<Result<_>>()?;
        let mut states = values.clone();
        for _ in 0..self.inputs.extent(most)? {
            for (state, value) in scan.states.iter().zip(&states) {
                self.values.insert(state.before, value.clone());
            }
            self.block(&scan.body)?;
            let mut next = Vec::with_capacity(states.len());
            for (state, value) in scan.states.iter().zip(&values) {
                match with_values_of(self.value(state.after)?, value) {
                    Some(state) => next.push(state),
                    None => return Ok(values),
                }
            }
            let same = states.iter().zip(&next).all(|(a, b)| are_same(a, b));
            states = next;
            if same {
                break;
            }
        }
        Ok(states)
    }
}

/// Numbers with the values of others, if they have derivatives.
fn with_values_of<T: Numeric>(own: &[Leaf<T>], values: &[Leaf<T>]) -> Option<Vec<Leaf<T>>> {
    let leaf = |(own, values): (&Leaf<T>, &Leaf<T>)| {
        let numbers = own.values().iter().zip(values.values());
        let numbers = numbers.map(|(a, b)| a.with_value_of(b)).collect::<Option<Vec<T>>>()?;
        Leaf::dense(own.dims.clone(), numbers).ok()
    };
    own.iter().zip(values).map(leaf).collect()
}

fn are_zero<T: Numeric>(value: &[Leaf<T>]) -> Result<bool> {
    for x in value.iter().flat_map(Leaf::values) {
        if !x.is_zero()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two values are the same to the last bit.
fn are_same<T: Numeric>(a: &[Leaf<T>], b: &[Leaf<T>]) -> bool {
    let same = |(a, b): (&Leaf<T>, &Leaf<T>)| a.values().iter().zip(b.values()).all(|(a, b)| a.is_same(b));
    a.iter().zip(b).all(same)
}

/// All states as one value, leaf by leaf.
fn stacked<T: Numeric>(states: &[Vec<Leaf<T>>]) -> Result<Vec<Leaf<T>>> {
    let leaves = states.first().map_or(0, Vec::len);
    let mut path = Vec::with_capacity(leaves);
    for at in 0..leaves {
        let mut dims = vec![states.len() as u64];
        let mut numbers = Vec::new();
        for (step, state) in states.iter().enumerate() {
            let Some(Leaf { dims: own, elements: Elements::Dense(values) }) = state.get(at) else {
                return Err(Error::bug(PASS, "a state that is not dense"));
            };
            if step == 0 {
                dims.extend(own);
            }
            numbers.extend(values.iter().cloned());
        }
        path.push(Leaf::dense(dims, numbers)?);
    }
    Ok(path)
}

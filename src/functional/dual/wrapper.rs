//! Running transformed programs: the wrapper of the paper, Figures 7 to 10, around [`transform`](super::transform()).
//!
//! `Interleave` makes the dual form of an input, `Deinterleave` takes that of an output apart, and `SResolve` calls the staged backpropagators from the
//! highest identifier down. The functions themselves are values of the evaluator, so its counter counts all that they do; what the external functions
//! look at, nodes of maps and numbers of cotangents, is counted besides.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use super::map::Map;
use super::transform::{Externals, Figure, Transformed};
use crate::base::Id as _;
use crate::error::{Error, Result};
use crate::functional::lambda::{ExternalId, Machine, Node, Value};
use crate::reference::Numeric;

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Steps of the evaluator in the forward pass.
    pub forward: u64,
    /// Its steps in the reverse pass.
    pub reverse: u64,
    /// Nodes and numbers that external functions looked at.
    pub external: u64,
    /// Calls of staged backpropagators.
    pub calls: u64,
}

/// `(c, {id -> (f, d)})`.
#[derive(Clone, Debug)]
struct Staged<T> {
    c: Cotangent<T>,
    calls: Map<(Value<T>, T)>,
}

/// The cotangent of the input: all numbers, or those that something was added to.
#[derive(Clone, Debug)]
enum Cotangent<T> {
    Dense(Vec<T>),
    Sparse(Map<T>),
}

impl Transformed {
    /// The value of a program, the cotangents of its input for those of its real numbers, and what it took.
    ///
    /// # Errors
    /// [`Error::Request`] for functions in the input or the result; those of evaluating the program.
    pub fn run<T: Numeric + Send + Sync + 'static>(
        &self,
        args: &[Value<T>],
        cotangents: &[T],
    ) -> Result<(Value<T>, Vec<T>, Steps)> {
        let inputs: usize = args.iter().map(|arg| arg.numbers().len()).sum();
        let external = Rc::new(Cell::new(0));
        let host = Host { externals: self.externals, figure: self.figure, inputs, work: external.clone() };
        let adder = host.clone();
        let mut machine = Machine::new(&self.program)?.with_host(move |f, arg| host.call(f, &arg));
        let pair = machine.evaluate(&[])?;
        let (input, function) = pair.as_pair()?;

        // Interleave.
        let mut k = 0;
        let mut dual_args = Vec::with_capacity(args.len());
        for arg in args {
            dual_args.push(map_scalars(arg, |x| {
                let backpropagator = machine.call(input, Value::Int(k))?;
                k += 1;
                Ok(Value::pair(x.clone(), backpropagator))
            })?);
        }
        let mut result = machine.call(function, Value::tuple(dual_args))?;
        let mut identifiers = 0;
        if self.figure != Figure::Naive {
            let with_next = machine.call(&result, Value::Int(k))?;
            let (value, next) = with_next.as_pair()?;
            (result, identifiers) = (value.clone(), usize::try_from(next.as_int()?).map_err(|_| Error::Overflow)?);
        }

        // Deinterleave.
        let mut outputs = Vec::new();
        let value = take_scalars(&result, &mut outputs)?;
        if outputs.len() != cotangents.len() {
            return Err(Error::Request(format!("the value has {} real numbers", outputs.len())));
        }
        let forward = machine.counts().steps;
        let mut steps = Steps { forward, ..Steps::default() };
        let seeds = outputs.into_iter().zip(cotangents.iter().cloned());
        let gradient = match self.figure {
            Figure::Naive => {
                let mut sum = vec![T::zero(); inputs];
                for (d, z) in seeds {
                    let c = machine.call(&d, Value::Real(z))?;
                    sum = adder.add(&sum, c.as_opaque::<Vec<T>>()?);
                }
                sum
            }
            Figure::Staged | Figure::Cayley => {
                let mut state = adder.zero();
                for (d, z) in seeds {
                    let (id, f) = d.as_pair()?;
                    state = adder.stage(&state, id.as_int()?, f.clone(), z)?;
                }
                resolve(&mut machine, &adder, state, &mut steps)?
            }
            Figure::Arrays | Figure::Contrib => {
                let mut arrays = Arrays::alloc(inputs, identifiers);
                for (d, z) in seeds {
                    let (id, f) = d.as_pair()?;
                    arrays.stage(id.as_int()?, f, z)?;
                }
                external.set(external.get() + (inputs + identifiers) as u64);
                match self.figure {
                    Figure::Arrays => resolve_arrays(&mut machine, arrays, &mut steps)?,
                    _ => resolve_lists(arrays, inputs, &adder, &mut steps)?,
                }
            }
        };
        steps.reverse = machine.counts().steps - forward;
        steps.external = external.get();
        Ok((value, gradient, steps))
    }
}

/// `SResolve`.
fn resolve<T: Numeric + Send + Sync + 'static>(
    machine: &mut Machine<'_, T>,
    host: &Host,
    mut state: Staged<T>,
    steps: &mut Steps,
) -> Result<Vec<T>> {
    loop {
        let Some((_, (f, d), rest)) = host.count(|work| state.calls.pop_max(work)) else { break };
        state.calls = rest;
        steps.calls += 1;
        let given = machine.call(&f, Value::Real(d))?;
        state = match host.figure {
            Figure::Cayley => machine.call(&given, Value::opaque(state))?.as_opaque::<Staged<T>>()?.clone(),
            _ => host.union(given.as_opaque()?, &state),
        };
    }
    Ok(match state.c {
        Cotangent::Dense(c) => c,
        Cotangent::Sparse(c) => {
            let find = |k: usize| host.count(|work| c.get(k as u32, work).cloned()).unwrap_or_else(T::zero);
            (0..host.inputs).map(find).collect()
        }
    })
}

/// The cotangent collector and the staging array of Fig. 10.
struct Arrays<T> {
    collector: Vec<T>,
    staging: Vec<Option<(Value<T>, T)>>,
    /// Identifiers from here on have been resolved.
    end: usize,
}

impl<T: Numeric> Arrays<T> {
    fn alloc(inputs: usize, identifiers: usize) -> Self {
        Arrays { collector: vec![T::zero(); inputs], staging: vec![None; identifiers], end: identifiers }
    }

    fn stage(&mut self, id: i64, f: &Value<T>, d: T) -> Result<()> {
        let place = usize::try_from(id).ok().filter(|k| *k < self.end).and_then(|k| self.staging.get_mut(k));
        let place = place.ok_or_else(|| Error::bug("dual", format!("a call of {id}, which is not older")))?;
        let sum = place.take().map_or(d.clone(), |(_, there)| there.add(&d));
        *place = Some((f.clone(), sum));
        Ok(())
    }

    /// The highest call that is left.
    fn pop(&mut self) -> Option<(Value<T>, T)> {
        while self.end > 0 {
            self.end -= 1;
            if let Some(call) = self.staging[self.end].clone() {
                return Some(call);
            }
        }
        None
    }
}

/// A panic of a thread that holds a lock; there is one thread.
fn poisoned<V, E>(_: E) -> Result<V> {
    Err(Error::bug("dual", "the arrays are in use"))
}

/// `SResolve` of Fig. 10.
fn resolve_arrays<T: Numeric + Send + Sync + 'static>(
    machine: &mut Machine<'_, T>,
    arrays: Arrays<T>,
    steps: &mut Steps,
) -> Result<Vec<T>> {
    let arrays = Arc::new(Mutex::new(arrays));
    let state = Value::opaque(Arc::clone(&arrays));
    loop {
        let Some((f, d)) = arrays.lock().or_else(poisoned)?.pop() else { break };
        steps.calls += 1;
        let update = machine.call(&f, Value::Real(d))?;
        machine.call(&update, state.clone())?;
    }
    let gradient = arrays.lock().or_else(poisoned)?.collector.clone();
    Ok(gradient)
}

/// `SResolve` of section 10.2, which interprets the lists.
fn resolve_lists<T: Numeric>(mut arrays: Arrays<T>, inputs: usize, host: &Host, steps: &mut Steps) -> Result<Vec<T>> {
    while let Some((mut list, d)) = arrays.pop() {
        steps.calls += 1;
        while let Err(cons) = list.as_sum()? {
            host.count(|work| *work += 1);
            let (entry, rest) = cons.as_pair()?;
            let (weight, callee) = entry.as_pair()?;
            let (id, contrib) = callee.as_pair()?;
            arrays.stage(id.as_int()?, contrib, weight.as_real()?.mul(&d))?;
            let rest = rest.clone();
            list = rest;
        }
    }
    let cotangent = |k: usize| arrays.staging.get(k).cloned().flatten().map_or_else(T::zero, |(_, d)| d);
    Ok((0..inputs).map(cotangent).collect())
}

/// The external functions.
#[derive(Clone)]
struct Host {
    externals: Externals,
    figure: Figure,
    inputs: usize,
    work: Rc<Cell<u64>>,
}

impl Host {
    /// Runs something that counts what it looks at.
    fn count<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let mut work = self.work.get();
        let result = f(&mut work);
        self.work.set(work);
        result
    }

    fn call<T: Numeric + Send + Sync + 'static>(&self, f: ExternalId, arg: &Value<T>) -> Result<Value<T>> {
        let naive = self.figure == Figure::Naive;
        if f == self.externals.zero {
            return Ok(if naive { Value::opaque(self.zeros::<T>()) } else { Value::opaque(self.zero::<T>()) });
        }
        if f == self.externals.plus {
            let (a, b) = arg.as_pair()?;
            return Ok(match naive {
                true => Value::opaque(self.add(a.as_opaque::<Vec<T>>()?, b.as_opaque::<Vec<T>>()?)),
                false => Value::opaque(self.union(a.as_opaque::<Staged<T>>()?, b.as_opaque()?)),
            });
        }
        if self.figure == Figure::Arrays {
            return self.update::<T>(f, arg);
        }
        // With Cayley the staged value is an argument, else it is empty.
        let (arg, state) = match self.figure {
            Figure::Cayley => {
                let (arg, state) = arg.as_pair()?;
                (arg, state.as_opaque::<Staged<T>>()?.clone())
            }
            Figure::Staged => (arg, self.zero()),
            _ => (arg, Staged { c: Cotangent::Dense(Vec::new()), calls: Map::empty() }),
        };
        let (place, d) = arg.as_pair()?;
        let d = d.as_real()?.clone();
        if f == self.externals.scall {
            let (id, function) = place.as_pair()?;
            return Ok(Value::opaque(self.stage(&state, id.as_int()?, function.clone(), d)?));
        }
        if f != self.externals.one_hot {
            return Err(Error::Request(format!("the external function {} is not given", f.index())));
        }
        let k = usize::try_from(place.as_int()?).map_err(|_| Error::Overflow)?;
        if naive {
            let mut c = self.zeros();
            if let Some(slot) = c.get_mut(k) {
                *slot = d;
            }
            return Ok(Value::opaque(c));
        }
        let c = match state.c {
            Cotangent::Dense(mut c) => {
                if let Some(slot) = c.get_mut(k) {
                    *slot = slot.add(&d);
                }
                Cotangent::Dense(c)
            }
            Cotangent::Sparse(c) => {
                Cotangent::Sparse(self.count(|work| c.insert_with(k as u32, d, &|a: &T, b: &T| a.add(b), work)))
            }
        };
        Ok(Value::opaque(Staged { c, calls: state.calls }))
    }

    /// `one_hot` and `scall` on arrays.
    fn update<T: Numeric + Send + Sync + 'static>(&self, f: ExternalId, arg: &Value<T>) -> Result<Value<T>> {
        let (arg, state) = arg.as_pair()?;
        let (place, d) = arg.as_pair()?;
        let d = d.as_real()?.clone();
        let mut arrays = state.as_opaque::<Arc<Mutex<Arrays<T>>>>()?.lock().or_else(poisoned)?;
        self.count(|work| *work += 1);
        if f == self.externals.scall {
            let (id, function) = place.as_pair()?;
            arrays.stage(id.as_int()?, function, d)?;
        } else if let Some(slot) = usize::try_from(place.as_int()?).ok().and_then(|k| arrays.collector.get_mut(k)) {
            *slot = slot.add(&d);
        }
        Ok(Value::Unit)
    }

    fn zeros<T: Numeric>(&self) -> Vec<T> {
        self.work.set(self.work.get() + self.inputs as u64);
        vec![T::zero(); self.inputs]
    }

    fn add<T: Numeric>(&self, a: &[T], b: &[T]) -> Vec<T> {
        self.work.set(self.work.get() + self.inputs as u64);
        a.iter().zip(b).map(|(a, b)| a.add(b)).collect()
    }

    /// The staged value 0; after the Cayley transformation the cotangent is a map (section 8).
    fn zero<T: Numeric>(&self) -> Staged<T> {
        let c = match self.figure {
            Figure::Cayley => Cotangent::Sparse(Map::empty()),
            _ => Cotangent::Dense(self.zeros()),
        };
        Staged { c, calls: Map::empty() }
    }

    /// `SCall`, added to a staged value.
    fn stage<T: Numeric>(&self, state: &Staged<T>, id: i64, f: Value<T>, d: T) -> Result<Staged<T>> {
        let id = u32::try_from(id).map_err(|_| Error::Overflow)?;
        let calls = self.count(|work| state.calls.insert_with(id, (f, d), &merge, work));
        Ok(Staged { c: state.c.clone(), calls })
    }

    /// The sum of two staged values.
    fn union<T: Numeric>(&self, a: &Staged<T>, b: &Staged<T>) -> Staged<T> {
        let c = match (&a.c, &b.c) {
            (Cotangent::Dense(a), Cotangent::Dense(b)) => Cotangent::Dense(self.add(a, b)),
            (Cotangent::Sparse(a), Cotangent::Sparse(b)) => {
                Cotangent::Sparse(self.count(|work| a.union_with(b, &|a: &T, b: &T| a.add(b), work)))
            }
            (a, _) => a.clone(),
        };
        Staged { c, calls: self.count(|work| a.calls.union_with(&b.calls, &merge, work)) }
    }
}

/// Two calls of one function are one: `f x + f y = f (x + y)`.
fn merge<T: Numeric>(a: &(Value<T>, T), b: &(Value<T>, T)) -> (Value<T>, T) {
    (a.0.clone(), a.1.add(&b.1))
}

/// A value with something else in place of its real numbers, from left to right.
fn map_scalars<T: Clone>(value: &Value<T>, mut f: impl FnMut(&Value<T>) -> Result<Value<T>>) -> Result<Value<T>> {
    rebuild(value, |value| matches!(value, Value::Real(_)).then(|| f(value)))
}

/// The value that a value in dual form stands for; its backpropagators, from left to right, are put aside.
fn take_scalars<T: Clone>(value: &Value<T>, outputs: &mut Vec<Value<T>>) -> Result<Value<T>> {
    rebuild(value, |value| {
        let (x, d) = value.as_pair().ok()?;
        matches!(x, Value::Real(_)).then(|| {
            outputs.push(d.clone());
            Ok(x.clone())
        })
    })
}

/// A value rebuilt with other parts where `f` gives them.
fn rebuild<T: Clone>(value: &Value<T>, mut f: impl FnMut(&Value<T>) -> Option<Result<Value<T>>>) -> Result<Value<T>> {
    enum Step<'a, T> {
        Visit(&'a Value<T>),
        Make(&'a Node<T>),
    }
    let (mut todo, mut done) = (vec![Step::Visit(value)], Vec::new());
    while let Some(step) = todo.pop() {
        match step {
            Step::Visit(value) => match (f(value), value) {
                (Some(other), _) => done.push(other?),
                (None, Value::Node(node)) => {
                    todo.push(Step::Make(node));
                    match &**node {
                        Node::Pair(a, b) => todo.extend([Step::Visit(b), Step::Visit(a)]),
                        Node::Inl(a) | Node::Inr(a) => todo.push(Step::Visit(a)),
                        Node::Array(items) => todo.extend(items.iter().rev().map(Step::Visit)),
                        _ => return Err(Error::Request("functions have no cotangents".to_string())),
                    }
                }
                (None, value) => done.push(value.clone()),
            },
            Step::Make(node) => {
                let n = match node {
                    Node::Pair(..) => 2,
                    Node::Array(items) => items.len(),
                    _ => 1,
                };
                let mut parts = done.split_off(done.len().saturating_sub(n)).into_iter();
                let value = match (node, parts.next(), parts.next()) {
                    (Node::Pair(..), Some(a), Some(b)) => Value::pair(a, b),
                    (Node::Inl(_), Some(a), _) => Value::inl(a),
                    (Node::Inr(_), Some(a), _) => Value::inr(a),
                    (Node::Array(_), a, b) => Value::array(a.into_iter().chain(b).chain(parts).collect()),
                    _ => return Err(Error::bug("dual", "a part is missing")),
                };
                done.push(value);
            }
        }
    }
    done.pop().ok_or_else(|| Error::bug("dual", "a value is missing"))
}

//! The variants whose cotangents are values: naive, staged, Cayley-transformed, and with only the scalars kept.
//!
//! **Naive** (Fig. 6). A call gives a cotangent of the whole input, `c`; calls of one backpropagator are not merged, so there are as many as there
//! are paths to it. A sum of two cotangents and a zero take as long as the input is large.
//!
//! **Staged** (Fig. 8). A call gives a *staged* value, `(c, {id -> d})`: a cotangent, and calls to be made later. A union adds the arguments of equal
//! calls, which is linear factoring, `f x + f y = f (x + y)`. Resolving from the highest identifier down meets each backpropagator once, since it is
//! called only by higher ones. Zeros and sums of `c` are left.
//!
//! **Cayley** (Fig. 9). A call gives a function that adds to a staged value, so zero is the identity and a sum is a composition. An input scalar is
//! added to by a rebuilt path of the tuple, which is as long as the scalar is deep.
//!
//! **Scalars** (section 8). The cotangent is a map from input numbers, so a path is logarithmic.

use std::sync::Arc;

use super::backpropagator::{Calls, Effect, Id, Jobs};
use super::map::Map;
use super::shape::{Shape, Tree};
use super::{Counts, Resolved};
use crate::error::{Error, Result};
use crate::reference::Numeric;

/// What calls one backpropagator after another, one cell each, in one job.
pub(super) struct Pure<'a, T> {
    jobs: &'a Jobs<T>,
    calls: Calls<'a>,
    inputs: usize,
    counts: Counts,
    /// How often each has been called.
    called: Vec<u64>,
}

/// A union of staged calls adds their arguments.
fn sum<T: Numeric>(a: &T, b: &T) -> T {
    a.add(b)
}

/// `(c, {id -> d})`.
struct Staged<T> {
    c: Vec<T>,
    calls: Map<T>,
}

impl<'a, T: Numeric> Pure<'a, T> {
    pub(super) fn new(jobs: &'a Jobs<T>, calls: Calls<'a>, inputs: usize) -> Self {
        let called = vec![0; jobs.job(jobs.last).entries.len()];
        Pure { jobs, calls, inputs, counts: Counts::default(), called }
    }

    fn finish(mut self, gradient: Vec<T>) -> Resolved<T> {
        self.counts.calls = self.called.iter().sum();
        self.counts.most = self.called.iter().copied().max().unwrap_or(0);
        Resolved { gradient, counts: self.counts, called: self.called }
    }

    /// Calls one backpropagator; what it does is for the variant to carry out.
    fn call(&mut self, cell: u32, d: T) -> Result<Vec<Effect<T>>> {
        let Some(entry) = self.jobs.job(self.jobs.last).entries.get(cell as usize) else {
            return Err(Error::bug("dual", "a call of a backpropagator that is not there"));
        };
        self.called[cell as usize] += 1;
        let mut effects = Vec::new();
        self.calls.effects(entry, &[Some(d)], &mut effects)?;
        self.counts.work += 1 + effects.len() as u64;
        Ok(effects)
    }

    /// `d1 z1 + .. + dn zn` for the outputs, each call carried out where it stands; these may be exponentially many, so they have a limit.
    pub(super) fn naive(mut self, seeds: &[(Id, T)], limit: u64) -> Result<Resolved<T>> {
        struct Frame<T> {
            effects: std::vec::IntoIter<Effect<T>>,
            sum: Option<Vec<T>>,
        }
        let start: Vec<Effect<T>> = seeds.iter().map(|(id, d)| Effect::Call(*id, d.clone())).collect();
        let mut frames = vec![Frame { effects: start.into_iter(), sum: None }];
        let mut total: u64 = 0;
        while let Some(frame) = frames.last_mut() {
            let given = match frame.effects.next() {
                Some(Effect::Call(id, d)) => {
                    total += 1;
                    if total > limit {
                        return Err(Error::Limit { what: "the calls of backpropagators", limit, found: total });
                    }
                    let effects = self.call(id.cell, d)?;
                    frames.push(Frame { effects: effects.into_iter(), sum: None });
                    continue;
                }
                Some(Effect::OneHot(k, d)) => {
                    self.counts.work += self.inputs as u64;
                    self.one_hot(k, d)
                }
                None => {
                    let Some(frame) = frames.pop() else { break };
                    self.counts.work += self.inputs as u64;
                    let c = frame.sum.unwrap_or_else(|| vec![T::zero(); self.inputs]);
                    if frames.is_empty() {
                        return Ok(self.finish(c));
                    }
                    c
                }
            };
            if let Some(frame) = frames.last_mut() {
                self.counts.work += self.inputs as u64;
                frame.sum = Some(match frame.sum.take() {
                    None => given,
                    Some(sum) => sum.iter().zip(&given).map(|(a, b)| a.add(b)).collect(),
                });
            }
        }
        Err(Error::bug("dual", "a naive call without an answer"))
    }

    fn one_hot(&self, k: u32, d: T) -> Vec<T> {
        let mut c = vec![T::zero(); self.inputs];
        if let Some(slot) = c.get_mut(k as usize) {
            *slot = d;
        }
        c
    }

    /// The staged value that a call gives: the sum of one for each effect.
    fn staged_call(&mut self, effects: Vec<Effect<T>>) -> Staged<T> {
        let mut all = self.staged_zero();
        for effect in effects {
            let one = match effect {
                Effect::OneHot(k, d) => Staged { c: self.one_hot(k, d), calls: Map::empty() },
                Effect::Call(id, d) => Staged { calls: Map::singleton(id.cell, d), ..self.staged_zero() },
            };
            all = self.staged_sum(&all, &one);
        }
        all
    }

    fn staged_zero(&mut self) -> Staged<T> {
        self.counts.work += self.inputs as u64;
        Staged { c: vec![T::zero(); self.inputs], calls: Map::empty() }
    }

    fn staged_sum(&mut self, a: &Staged<T>, b: &Staged<T>) -> Staged<T> {
        self.counts.work += self.inputs as u64;
        let c = a.c.iter().zip(&b.c).map(|(a, b)| a.add(b)).collect();
        Staged { c, calls: a.calls.union_with(&b.calls, &sum, &mut self.counts.work) }
    }

    /// Resolves staged calls from the highest identifier down. `history` gets the calls that are staged before each step.
    pub(super) fn staged(
        mut self,
        seeds: &[(Id, T)],
        stage_outputs: bool,
        mut history: Option<&mut Vec<Vec<(u32, T)>>>,
    ) -> Result<Resolved<T>> {
        let mut state = self.staged_zero();
        for (id, d) in seeds {
            let effects = match stage_outputs {
                true => vec![Effect::Call(*id, d.clone())],
                false => self.call(id.cell, d.clone())?,
            };
            let given = self.staged_call(effects);
            state = self.staged_sum(&state, &given);
        }
        loop {
            note(&mut history, &state.calls);
            let Some((cell, d, rest)) = state.calls.pop_max(&mut self.counts.work) else { break };
            let effects = self.call(cell, d)?;
            let given = self.staged_call(effects);
            state = self.staged_sum(&given, &Staged { c: state.c, calls: rest });
        }
        Ok(self.finish(state.c))
    }

    /// The same where calls give functions that add to the state; the cotangent is a tuple of the shape of the input.
    pub(super) fn cayley(
        self,
        seeds: &[(Id, T)],
        stage_outputs: bool,
        shape: &Shape,
        history: Option<&mut Vec<Vec<(u32, T)>>>,
    ) -> Result<Resolved<T>> {
        let mut work = shape.len() as u64;
        let start = shape.zero();
        let (mut pure, tree) = self.update(seeds, stage_outputs, history, start, |tree: Arc<Tree<T>>, k, d| {
            shape.add(&tree, k, d, &mut work)
        })?;
        pure.counts.work += work;
        let gradient = tree.scalars();
        Ok(pure.finish(gradient))
    }

    /// The same where the cotangent is a map from the numbers of input scalars.
    pub(super) fn scalars(
        self,
        seeds: &[(Id, T)],
        stage_outputs: bool,
        history: Option<&mut Vec<Vec<(u32, T)>>>,
    ) -> Result<Resolved<T>> {
        let mut work = 0;
        let (mut pure, map) = self.update(seeds, stage_outputs, history, Map::empty(), |map: Map<T>, k, d| {
            map.insert_with(k, d, &sum, &mut work)
        })?;
        let mut gradient = Vec::with_capacity(pure.inputs);
        for k in 0..pure.inputs {
            gradient.push(map.get(k as u32, &mut work).cloned().unwrap_or_else(T::zero));
        }
        pure.counts.work += work;
        Ok(pure.finish(gradient))
    }

    fn update<C>(
        mut self,
        seeds: &[(Id, T)],
        stage_outputs: bool,
        mut history: Option<&mut Vec<Vec<(u32, T)>>>,
        start: C,
        mut add: impl FnMut(C, u32, T) -> C,
    ) -> Result<(Self, C)> {
        let (mut c, mut calls) = (start, Map::empty());
        let mut apply = |pure: &mut Self, effects: Vec<Effect<T>>, mut c: C, mut calls: Map<T>| {
            // `f . g` does g first.
            for effect in effects.into_iter().rev() {
                match effect {
                    Effect::OneHot(k, d) => c = add(c, k, d),
                    Effect::Call(id, d) => calls = calls.insert_with(id.cell, d, &sum, &mut pure.counts.work),
                }
            }
            (c, calls)
        };
        for (id, d) in seeds.iter().rev() {
            let effects = match stage_outputs {
                true => vec![Effect::Call(*id, d.clone())],
                false => self.call(id.cell, d.clone())?,
            };
            (c, calls) = apply(&mut self, effects, c, calls);
        }
        loop {
            note(&mut history, &calls);
            let Some((cell, d, rest)) = calls.pop_max(&mut self.counts.work) else { break };
            let effects = self.call(cell, d)?;
            (c, calls) = apply(&mut self, effects, c, rest);
        }
        Ok((self, c))
    }
}

fn note<T: Clone>(history: &mut Option<&mut Vec<Vec<(u32, T)>>>, calls: &Map<T>) {
    if let Some(history) = history {
        history.push(calls.pairs().into_iter().map(|(cell, d)| (cell, d.clone())).collect());
    }
}

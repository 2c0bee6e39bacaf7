//! The variants with mutable arrays: two arrays, one array, `Contrib`, and the tape.
//!
//! **Two arrays** (Fig. 10). A call of a backpropagator adds to its place in a staging array; an input scalar adds to its place in the cotangent
//! collector. A place that nothing called holds the backpropagator `λz. 0`, so nothing is run for it. All that a call does takes constant time.
//!
//! **One array** (section 10.1). The collector repeats the staging array at the inputs, so it is dropped.
//! *Only if outputs are staged*: `Deinterleave` as printed calls them directly, and then the seed of `λx. x` is nowhere.
//!
//! **`Contrib`** (section 10.2). Partial derivatives are taken in the forward pass, so a backpropagator is a list.
//!
//! **Tape** (section 10.3). The lists stand in the array from the forward pass on; the reverse pass is a loop over it.
//!
//! Entries are found by their identifiers here, so what `SCall` writes beside the sum of arguments, the function, is known already.

use super::backpropagator::{Calls, Effect, Id, Jobs};
use super::{Counts, Resolved};
use crate::error::{Error, Result};
use crate::reference::Numeric;

/// Which arrays, and how outputs begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrays {
    /// Whether there is an array of cotangents of the input beside the staging array.
    pub collector: bool,
    /// Whether calls of outputs are staged.
    pub stage_outputs: bool,
}

/// Resolves all calls, highest identifier first, in a run of one job.
pub(super) fn resolve<T: Numeric>(
    jobs: &Jobs<T>,
    calls: Calls<'_>,
    inputs: usize,
    seeds: &[(Id, T)],
    arrays: Arrays,
) -> Result<Resolved<T>> {
    let job = jobs.job(jobs.last);
    let mut state = State {
        collector: arrays.collector.then(|| vec![T::zero(); inputs]),
        staging: vec![None; job.len()],
        counts: Counts::default(),
    };
    let (mut called, mut effects) = (vec![0u64; job.entries.len()], Vec::new());
    state.counts.work += (job.len() + inputs) as u64;
    for (id, d) in seeds {
        if arrays.stage_outputs {
            state.stage(job.len(), *id, d.clone())?;
            continue;
        }
        let entry = job.entry_of(id.cell);
        let cells = job.range(entry);
        let mut cotangents = vec![None; cells.len()];
        cotangents[id.cell as usize - cells.start] = Some(d.clone());
        called[entry] += 1;
        calls.effects(&job.entries[entry], &cotangents, &mut effects)?;
        state.perform(&mut effects, cells.start)?;
    }
    for (k, entry) in job.entries.iter().enumerate().rev() {
        let cells = job.range(k);
        state.counts.work += 1;
        if state.staging[cells.clone()].iter().all(Option::is_none) {
            continue;
        }
        called[k] += 1;
        calls.effects(entry, &state.staging[cells.clone()], &mut effects)?;
        state.perform(&mut effects, cells.start)?;
    }
    let State { collector, staging, mut counts } = state;
    counts.calls = called.iter().sum();
    counts.most = called.iter().copied().max().unwrap_or(0);
    let gradient = match collector {
        Some(collector) => collector,
        // Inputs are the first entries.
        None => staging.into_iter().take(inputs).map(|d| d.unwrap_or_else(T::zero)).collect(),
    };
    Ok(Resolved { gradient, counts, called })
}

struct State<T> {
    collector: Option<Vec<T>>,
    staging: Vec<Option<T>>,
    counts: Counts,
}

impl<T: Numeric> State<T> {
    /// Carries out what a backpropagator does whose first cell is given.
    fn perform(&mut self, effects: &mut Vec<Effect<T>>, cell: usize) -> Result<()> {
        self.counts.work += 1;
        for effect in effects.drain(..) {
            match effect {
                Effect::OneHot(k, d) => {
                    self.counts.work += 1;
                    if let Some(x) = self.collector.as_mut().and_then(|c| c.get_mut(k as usize)) {
                        *x = x.add(&d);
                    }
                }
                Effect::Call(id, d) => self.stage(cell, id, d)?,
            }
        }
        Ok(())
    }

    /// Adds to the argument of a call, which has to be below the given cell.
    fn stage(&mut self, below: usize, id: Id, d: T) -> Result<()> {
        self.counts.work += 1;
        let cell = id.cell as usize;
        if cell >= below {
            return Err(Error::bug("dual", format!("backpropagator {below} calls {cell}, which is not older")));
        }
        add_to(&mut self.staging[cell], d);
        Ok(())
    }
}

/// Adds to a cotangent that may not be there yet.
pub(super) fn add_to<T: Numeric>(cell: &mut Option<T>, d: T) {
    *cell = Some(match cell {
        Some(sum) => sum.add(&d),
        None => d,
    });
}

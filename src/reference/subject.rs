//! What the reference evaluator runs: straight-line programs, and those with loops.

use std::sync::Arc;

use super::count::{Counts, count_tssa};
use super::environment::{Environment, Leaf, Limits};
use super::numeric::Numeric;
use super::{eval_flow, eval_tssa};
use crate::error::Result;
use crate::ty::{Signature, Storage};
use crate::{flow, tssa};

/// The leaves of outputs.
pub type Leaves<T> = Vec<Vec<Leaf<T>>>;

/// A program that can be evaluated and counted.
pub trait Subject: Clone + PartialEq {
    /// What it takes from outside.
    fn signature(&self) -> &Arc<Signature>;

    /// The names of its outputs, and how they are stored.
    fn results(&self) -> Vec<(&str, Storage)>;

    /// The leaves of these outputs, or of all where nothing is said. `progress` is told how many statements are done, of how many.
    ///
    /// # Errors
    /// As [`eval_tssa::evaluate`].
    fn evaluate<T: Numeric>(
        &self,
        at: &Environment<T>,
        outputs: Option<Vec<usize>>,
        limits: Limits,
        progress: Option<&mut dyn FnMut(usize, usize)>,
    ) -> Result<Leaves<T>>;

    /// How many operations an evaluation takes.
    ///
    /// # Errors
    /// As [`eval_tssa::evaluate`].
    fn count(&self, at: &Environment<f64>, limits: Limits) -> Result<Counts>;
}

impl Subject for tssa::Program {
    fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    fn results(&self) -> Vec<(&str, Storage)> {
        self.outputs.iter().map(|output| (output.name.as_str(), output.storage)).collect()
    }

    fn evaluate<T: Numeric>(
        &self,
        at: &Environment<T>,
        outputs: Option<Vec<usize>>,
        limits: Limits,
        progress: Option<&mut dyn FnMut(usize, usize)>,
    ) -> Result<Leaves<T>> {
        eval_tssa::evaluate(self, at, eval_tssa::Options { limits, outputs, progress })
    }

    fn count(&self, at: &Environment<f64>, limits: Limits) -> Result<Counts> {
        count_tssa(self, at, limits)
    }
}

impl Subject for flow::Program {
    fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    fn results(&self) -> Vec<(&str, Storage)> {
        let storage = |output: &flow::Output| {
            let first = output.values.first().and_then(|x| self.values.get(*x));
            first.map_or(Storage::Dense, |value| value.storage)
        };
        self.outputs.iter().map(|output| (output.name.as_str(), storage(output))).collect()
    }

    fn evaluate<T: Numeric>(
        &self,
        at: &Environment<T>,
        outputs: Option<Vec<usize>>,
        limits: Limits,
        _: Option<&mut dyn FnMut(usize, usize)>,
    ) -> Result<Leaves<T>> {
        let all = eval_flow::evaluate(self, at, limits)?;
        Ok(match outputs {
            Some(numbers) => numbers.iter().filter_map(|k| all.get(*k).cloned()).collect(),
            None => all,
        })
    }

    fn count(&self, at: &Environment<f64>, limits: Limits) -> Result<Counts> {
        eval_flow::count(self, at, limits)
    }
}

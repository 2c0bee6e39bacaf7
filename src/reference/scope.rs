//! The meaning of the index language (the paper's Fig. 5), shared by the evaluators and the counters.
//!
//! Two points beyond the figure:
//! - A relation holds of no tuple outside its shape.
//! - A map application has no value where the relation has no tuple for the source, which happens for the argmax of an empty range.
//!   An atom that mentions such an application is false whatever its sense, as `exists k. (map(o, k) and ..)` would be.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::base::{Id, IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Pred, RelationRef, Var, View};

use super::environment::{Environment, Limits};
use super::numeric::Numeric;

/// The tensors that computed relations look at.
pub(super) trait Tensors {
    /// Whether the element at a place is not zero; false outside the tensor.
    fn supports(&self, var: VarId, place: &[i64]) -> Result<bool>;

    /// The first place of the largest or smallest element along the last axis, for given other places; nothing outside the tensor
    /// and for an empty axis.
    fn extremum(&self, var: VarId, view: View, source: &[i64]) -> Result<Option<i64>>;
}

/// The places of extrema along the last axis, for given other places; nothing along an empty axis.
pub(super) type Extrema = FxHashMap<(View, Vec<i64>), Option<i64>>;

/// Whether an element takes the place of the best one before it: if strictly beyond, where a NaN is beyond everything.
pub(super) fn better<T: Numeric>(view: View, x: &T, best: Option<&T>) -> Result<bool> {
    let Some(best) = best else { return Ok(true) };
    if best.is_nan()? || x.is_nan()? {
        return Ok(!best.is_nan()?);
    }
    Ok(match view {
        View::ArgMax => x.compare(best)? == Some(Ordering::Greater),
        View::ArgMin => x.compare(best)? == Some(Ordering::Less),
        View::Support => return Err(Error::bug("evaluate", "an extremum of a support")),
    })
}

/// The values of the indices in scope, and the number of steps taken.
#[derive(Debug, Default)]
pub(super) struct Indices {
    values: Vec<Option<i64>>,
    pub steps: u64,
}

impl Indices {
    pub fn set(&mut self, i: IndexId, value: i64) {
        if i.index() >= self.values.len() {
            self.values.resize(i.index() + 1, None);
        }
        self.values[i.index()] = Some(value);
    }

    pub fn get(&self, i: IndexId) -> Option<i64> {
        self.values.get(i.index()).copied().flatten()
    }
}

/// What index expressions and predicates are evaluated in.
pub(super) struct Scope<'a, T, V> {
    pub inputs: &'a Environment<T>,
    pub tensors: &'a V,
    pub limits: Limits,
}

impl<T, V: Tensors> Scope<'_, T, V> {
    /// `[[a | indices]]`, nothing where a map application has no value (4.13-4.17).
    pub fn affine(&self, a: &Affine, indices: &Indices) -> Result<Option<i64>> {
        let mut failed = None;
        let mut undefined = false;
        let value = a.evaluate(&mut |v| match v {
            Var::Index(i) => indices.get(*i),
            Var::Size(n) => self.inputs.sizes.get(n.index()).copied(),
            Var::Apply(application) => match self.apply(application, indices) {
                Ok(Some(target)) => Some(target),
                Ok(None) => {
                    undefined = true;
                    None
                }
                Err(error) => {
                    failed = Some(error);
                    None
                }
            },
        });
        match (value, failed, undefined) {
            (_, Some(error), _) => Err(error),
            (Some(value), None, _) => Ok(Some(value?)),
            (None, None, true) => Ok(None),
            (None, None, false) => Err(Error::bug("evaluate", format!("an index or size of {a:?} is not in scope"))),
        }
    }

    fn tuple(&self, args: &[Affine], indices: &Indices) -> Result<Option<Vec<i64>>> {
        args.iter().map(|a| self.affine(a, indices)).collect()
    }

    fn apply(&self, application: &Application, indices: &Indices) -> Result<Option<i64>> {
        let Some(source) = self.tuple(&application.args, indices)? else { return Ok(None) };
        self.target(application.map, &source)
    }

    /// The target of a source under a map, where it has one.
    pub fn target(&self, map: RelationRef, source: &[i64]) -> Result<Option<i64>> {
        match map {
            RelationRef::Input(r) => Ok(self.inputs.relation(r)?.target(source).and_then(|k| i64::try_from(k).ok())),
            RelationRef::Computed { var, view } => self.tensors.extremum(var, view, source),
        }
    }

    /// Whether a tuple is in a relation.
    pub fn contains(&self, relation: RelationRef, tuple: &[i64]) -> Result<bool> {
        match relation {
            RelationRef::Input(r) => Ok(self.inputs.relation(r)?.contains(tuple)),
            RelationRef::Computed { var, view: View::Support } => self.tensors.supports(var, tuple),
            RelationRef::Computed { var, view: view @ (View::ArgMax | View::ArgMin) } => match tuple.split_last() {
                Some((last, source)) => Ok(self.tensors.extremum(var, view, source)? == Some(*last)),
                None => Err(Error::bug("evaluate", "an argmax of a number")),
            },
        }
    }

    /// `[[p | indices]]` (4.18-4.21). Recursion is on predicates, whose nesting is limited.
    pub fn holds(&self, p: &Pred, indices: &mut Indices) -> Result<bool> {
        let affine =
            |a: &Affine, indices: &Indices, test: fn(i64) -> bool| Ok(self.affine(a, indices)?.is_some_and(test));
        match p {
            Pred::True => Ok(true),
            Pred::False => Ok(false),
            Pred::NonNegative(a) => affine(a, indices, |k| k >= 0),
            Pred::Zero(a) => affine(a, indices, |k| k == 0),
            Pred::NonZero(a) => affine(a, indices, |k| k != 0),
            Pred::Relation { relation, args, holds } => match self.tuple(args, indices)? {
                Some(tuple) => Ok(self.contains(*relation, &tuple)? == *holds),
                None => Ok(false),
            },
            Pred::All(ps) => {
                for p in ps.iter() {
                    if !self.holds(p, indices)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Pred::Any(ps) => {
                for p in ps.iter() {
                    if self.holds(p, indices)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Pred::Exists { index, extent, body } => {
                let extent = i64::try_from(self.inputs.extent(extent)?).unwrap_or(i64::MAX);
                for i in 0..extent {
                    self.limits.step(&mut indices.steps)?;
                    indices.set(*index, i);
                    if self.holds(body, indices)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

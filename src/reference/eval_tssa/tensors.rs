//! The tensors alive while a program is evaluated, and what computed relations ask of them.

use std::cell::RefCell;

use super::PASS;
use crate::base::{IndexId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::View;
use crate::reference::environment::{Environment, Leaf, Limits, place};
use crate::reference::numeric::Numeric;
use crate::reference::scope::{Extrema, Indices, Scope, Tensors, better};
use crate::scalar::Number;

/// A tensor while it lives.
pub(super) struct Tensor<'a, T> {
    pub(super) dims: Vec<u64>,
    pub(super) data: Data<'a, T>,
    /// The extrema that were asked for.
    pub(super) extrema: RefCell<Extrema>,
}

pub(super) enum Data<'a, T> {
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
pub(super) struct Alive<'a, T> {
    pub(super) inputs: &'a Environment<T>,
    pub(super) limits: Limits,
    pub(super) tensors: SideTable<VarId, Option<std::rc::Rc<Tensor<'a, T>>>>,
}

impl<'a, T: Numeric> Alive<'a, T> {
    pub(super) fn get(&self, x: VarId) -> Result<&Tensor<'a, T>> {
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
    pub(super) fn element(&self, x: VarId, tuple: &[i64]) -> Result<T> {
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

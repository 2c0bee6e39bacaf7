//! The variables in scope, and what computed relations ask of them.

use std::cell::RefCell;

use super::PASS;
use super::value::{Layout, Value, real};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::index::View as RelationView;
use crate::reference::numeric::Numeric;
use crate::reference::scope::{Extrema, Tensors, better};
use crate::ty::{TypeId, Types};

/// The variables in scope.
pub(super) struct Variables<'a, 'l, T> {
    pub(super) layout: &'l Layout<'l>,
    pub(super) bindings: Vec<Option<Binding<'a, T>>>,
}

pub(super) struct Binding<'a, T> {
    pub(super) value: Value<'a, T>,
    pub(super) ty: TypeId,
    /// The extrema that were asked for.
    pub(super) extrema: RefCell<Extrema>,
}

impl<'a, T: Numeric> Variables<'a, '_, T> {
    pub(super) fn bind(&mut self, x: VarId, value: Value<'a, T>, ty: TypeId) {
        if x.index() >= self.bindings.len() {
            self.bindings.resize_with(x.index() + 1, || None);
        }
        self.bindings[x.index()] = Some(Binding { value, ty, extrema: RefCell::default() });
    }

    pub(super) fn unbind(&mut self, x: VarId) {
        if let Some(binding) = self.bindings.get_mut(x.index()) {
            *binding = None;
        }
    }

    pub(super) fn get(&self, x: VarId) -> Result<&Binding<'a, T>> {
        let binding = self.bindings.get(x.index()).and_then(Option::as_ref);
        binding.ok_or_else(|| Error::bug(PASS, format!("the variable {x} is not in scope")))
    }

    /// The part of a tensor at given outer places, with its type; nothing outside.
    fn part(&self, x: VarId, outer: &[i64]) -> Result<Option<(Value<'a, T>, TypeId)>> {
        let binding = self.get(x)?;
        let (mut value, mut ty) = (binding.value.clone(), binding.ty);
        for k in outer {
            let (extent, element) = self.layout.tensor(ty)?;
            if !(0..i128::from(extent)).contains(&i128::from(*k)) {
                return Ok(None);
            }
            (value, ty) = (self.layout.element(&value, ty, *k)?, element);
        }
        Ok(Some((value, ty)))
    }
}

impl<T: Numeric> Tensors for Variables<'_, '_, T> {
    fn supports(&self, var: VarId, place: &[i64]) -> Result<bool> {
        match self.part(var, place)? {
            Some((value, Types::REAL)) => Ok(!real(&value)?.is_zero()?),
            Some(_) => Err(Error::bug(PASS, "a relation with too few arguments")),
            None => Ok(false),
        }
    }

    fn extremum(&self, var: VarId, view: RelationView, source: &[i64]) -> Result<Option<i64>> {
        let key = (view, source.to_vec());
        if let Some(known) = self.get(var)?.extrema.borrow().get(&key) {
            return Ok(*known);
        }
        let mut best: Option<(i64, T)> = None;
        if let Some((row, ty)) = self.part(var, source)? {
            for k in 0..i64::try_from(self.layout.tensor(ty)?.0).unwrap_or(i64::MAX) {
                let x = real(&self.layout.element(&row, ty, k)?)?;
                if better(view, &x, best.as_ref().map(|(_, x)| x))? {
                    best = Some((k, x));
                }
            }
        }
        let found = best.map(|(k, _)| k);
        self.get(var)?.extrema.borrow_mut().insert(key, found);
        Ok(found)
    }
}

//! Objectives as problems of argmin's solvers.
//!
//! A solver asks for the value and for the gradient at a point one after the other. Both are computed at the first question and kept for the second.
//! Hessians are sparse; they multiply with vectors, which is what `NewtonCG` asks of them.

use std::sync::PoisonError;

use argmin::core::{CostFunction, Error, Gradient, Hessian};
use argmin_math::ArgminDot;

use super::Objective;
use crate::tensor::Csr;

/// The value and the gradient at a point.
#[derive(Clone, Debug, Default)]
pub(super) struct Evaluated {
    point: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

impl Objective {
    /// What `answer` takes of the value and the gradient at a point.
    fn ask<T>(&self, point: &[f64], answer: impl Fn(&Evaluated) -> T) -> crate::Result<T> {
        let same = |x: &f64, y: &f64| x.to_bits() == y.to_bits();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref()
            && last.point.len() == point.len()
            && last.point.iter().zip(point).all(|(x, y)| same(x, y))
        {
            return Ok(answer(last));
        }
        let mut evaluated = last.take().unwrap_or_default();
        evaluated.gradient.resize(self.len(), 0.0);
        evaluated.value = self.evaluate(point, &mut evaluated.gradient)?;
        evaluated.point.clear();
        evaluated.point.extend_from_slice(point);
        Ok(answer(last.insert(evaluated)))
    }
}

/// The value, as the cost.
impl CostFunction for Objective {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, point: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.ask(point, |at| at.value)?)
    }
}

impl Gradient for Objective {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, point: &Vec<f64>) -> Result<Vec<f64>, Error> {
        Ok(self.ask(point, |at| at.gradient.clone())?)
    }
}

impl Hessian for Objective {
    type Param = Vec<f64>;
    type Hessian = Csr;

    fn hessian(&self, point: &Vec<f64>) -> Result<Csr, Error> {
        Ok(Objective::hessian(self, point)?)
    }
}

/// The product with a vector. What lies beyond the end of either is left out.
impl ArgminDot<Vec<f64>, Vec<f64>> for Csr {
    fn dot(&self, vector: &Vec<f64>) -> Vec<f64> {
        let product = |row: usize| {
            let entries = self.pattern().row(row);
            let entries = self.indices()[entries.clone()].iter().zip(&self.data()[entries]);
            entries.map(|(column, x)| x * vector.get(*column as usize).copied().unwrap_or(0.0)).sum()
        };
        (0..self.rows()).map(product).collect()
    }
}

//! Residuals as least-squares problems of the crate `levenberg-marquardt`, whose Jacobians are dense.
//!
//! A solver sets a point, asks for the residuals, and in most cases for the Jacobian. Both are computed when the point is set.

use levenberg_marquardt::LeastSquaresProblem;
use nalgebra::{DMatrix, DVector, Dyn, Owned};

use super::Residuals;

/// A point, and the residuals and the Jacobian there, unless they cannot be computed.
#[derive(Debug, Default)]
pub(super) struct Evaluated {
    point: Vec<f64>,
    values: Option<(DVector<f64>, DMatrix<f64>)>,
}

impl Residuals {
    /// The same at the unknowns of the inputs.
    pub(super) fn at_start(mut self) -> Residuals {
        self.set_point(self.start());
        self
    }

    fn set_point(&mut self, point: Vec<f64>) {
        let pattern = self.pattern();
        let mut residuals = DVector::zeros(pattern.rows());
        let mut entries = vec![0.0; pattern.len()];
        let evaluated = self.evaluate(&point, residuals.as_mut_slice(), &mut entries);
        let values = evaluated.ok().map(|()| {
            let mut jacobian = DMatrix::zeros(pattern.rows(), pattern.cols());
            pattern.entries().zip(&entries).for_each(|(place, entry)| jacobian[place] = *entry);
            (residuals, jacobian)
        });
        self.at = Evaluated { point, values };
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Residuals {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, point: &DVector<f64>) {
        self.set_point(point.as_slice().to_vec());
    }

    fn params(&self) -> DVector<f64> {
        DVector::from_column_slice(&self.at.point)
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        self.at.values.as_ref().map(|(residuals, _)| residuals.clone())
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        self.at.values.as_ref().map(|(_, jacobian)| jacobian.clone())
    }
}

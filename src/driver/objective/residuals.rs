//! Least squares: residuals and their Jacobian as functions of one vector.

#[cfg(feature = "levenberg-marquardt")]
mod levenberg_marquardt;

use std::sync::Arc;

use super::super::{Function, Mode, Names, Request};
use super::unknowns::{Unknowns, check_length, leaf_by_leaf};
use crate::error::{Error, Result};
use crate::kernel::{Engine, MatrixKernel, Output};
use crate::tensor::{CsrPattern, Inputs};

/// Residuals as a function of one vector, with their Jacobian, which is sparse: its rows are the residuals in order, its columns the numbers of a point.
///
/// ```
/// use iverson::prelude::*;
///
/// let chain = Function::parse("param x : [n] real\ngen i < n - 1. x[i + 1] - x[i]^2")?;
/// let chain = chain.residuals(&inputs! { "x" => [1.0, 2.0, 3.0] }, ["x"])?;
/// let (mut residuals, mut jacobian) = ([0.0; 2], [0.0; 4]);
/// chain.evaluate(&chain.start(), &mut residuals, &mut jacobian)?;
/// assert_eq!((residuals, jacobian), ([1.0, -1.0], [-2.0, 1.0, -4.0, 1.0]));
/// assert_eq!(chain.pattern().entries().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 1), (1, 2)]);
/// # Ok::<(), iverson::Error>(())
/// ```
///
/// With the feature `levenberg-marquardt` they are problems of the crate of that name:
///
#[cfg_attr(feature = "levenberg-marquardt", doc = "```")]
#[cfg_attr(not(feature = "levenberg-marquardt"), doc = "```ignore")]
/// use iverson::prelude::*;
/// use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
///
/// let decay = Function::parse("param t : [m] real\nparam y : [m] real\nparam a : real\nparam k : real\na * exp(-k * t) - y")?;
/// let inputs = inputs! { "t" => [0.0, 1.0, 2.0, 3.0], "y" => [8.0, 4.0, 2.0, 1.0], "a" => 1, "k" => 0 };
/// let (fitted, report) = LevenbergMarquardt::new().minimize(decay.residuals(&inputs, ["a", "k"])?);
/// assert!(report.termination.was_successful());
/// let found = fitted.params();
/// assert!((found[0] - 8.0).abs() < 1e-9 && (found[1] - f64::ln(2.0)).abs() < 1e-9);
/// # Ok::<(), iverson::Error>(())
/// ```
#[derive(Debug)]
pub struct Residuals {
    kernel: MatrixKernel,
    unknowns: Unknowns,
    /// Whether the residuals or their Jacobian depend on an unknown, for each leaf.
    are_read: Vec<bool>,
    /// Where the solver is, and what there is.
    #[cfg(feature = "levenberg-marquardt")]
    at: levenberg_marquardt::Evaluated,
}

impl Function {
    /// The result as residuals of least squares, with their Jacobian by some parameters, as functions of one vector; the inputs have the constants
    /// and where to start.
    ///
    /// # Errors
    /// As [`Function::objective`].
    pub fn residuals(&self, inputs: &Inputs, wrt: impl Names) -> Result<Residuals> {
        let unknowns = Unknowns::new(self, inputs, wrt)?;
        let request = Request { with_value: true, ..Request::new(Mode::Jacobian, &unknowns.names()) };
        let derived = self.derive(&request)?;
        let constants = unknowns.constants(&derived.function);
        let kernel = derived.matrix()?.bind_with_constants(&unknowns.inputs, &constants, Engine::Auto)?;
        let residuals = Residuals {
            are_read: unknowns.are_read(kernel.kernel()),
            #[cfg(feature = "levenberg-marquardt")]
            at: levenberg_marquardt::Evaluated::default(),
            kernel,
            unknowns,
        };
        let (pattern, len) = (residuals.pattern(), residuals.lengths().sum::<usize>());
        if (pattern.rows(), pattern.cols()) != (len, residuals.unknowns.len()) {
            return Err(Error::bug("residuals", "the Jacobian has another shape"));
        }
        #[cfg(feature = "levenberg-marquardt")]
        let residuals = residuals.at_start();
        Ok(residuals)
    }
}

impl Residuals {
    /// The unknowns as they are in the inputs.
    pub fn start(&self) -> Vec<f64> {
        self.unknowns.start()
    }

    /// Where the Jacobian has entries.
    pub fn pattern(&self) -> &Arc<CsrPattern> {
        self.kernel.pattern()
    }

    /// The residuals at a point, and the entries of the Jacobian there, row by row, into memory of the caller.
    ///
    /// # Errors
    /// [`Error::Data`] for a vector of another length.
    pub fn evaluate(&self, point: &[f64], residuals: &mut [f64], entries: &mut [f64]) -> Result<()> {
        self.unknowns.check("point", point.len())?;
        check_length("residuals", self.pattern().rows(), residuals.len())?;
        let mut leaves = leaf_by_leaf(self.lengths(), residuals);
        self.kernel.call_into(&self.unknowns.given(point, &self.are_read), &mut leaves, entries)?;
        Ok(())
    }

    /// The inputs, with the unknowns at a point: what the function and its other derivatives can be given.
    ///
    /// # Errors
    /// [`Error::Data`] for a point of another length.
    pub fn at(&self, point: &[f64]) -> Result<Inputs> {
        self.unknowns.at(point)
    }

    /// How many numbers the leaves of the results have, in order.
    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.kernel.others().flat_map(|Output { leaves, .. }| leaves.iter().map(|leaf| leaf.len()))
    }
}

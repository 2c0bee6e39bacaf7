//! What optimisers ask for: the value and the gradient of a function at a point, where a point is one vector of all unknowns.
//!
//! Bindings of L-BFGS and NLopt take a closure of a point and of memory for the gradient; [`Objective::evaluate`] is this closure. The unknowns lie in
//! the vector one after the other in the order of the parameters, each as its [`Value`](crate::tensor::Value) stores it: all elements of a dense tensor in
//! row-major order, the values of the entries of a sparse one. All other inputs are constants of the kernel.
//!
//! With the feature `argmin`, objectives are problems of the solvers of [argmin](https://docs.rs/argmin); with the feature `levenberg-marquardt`,
//! residuals are problems of [that crate](https://docs.rs/levenberg-marquardt).

#[cfg(feature = "argmin")]
mod argmin;
mod residuals;
mod unknowns;

use std::sync::{Arc, Mutex, PoisonError};

use super::{Function, Mode, Names, Request};
use crate::error::Result;
use crate::kernel::{Engine, Kernel, MatrixKernel};
use crate::tensor::{Csr, Inputs};
use unknowns::{Unknowns, leaf_by_leaf};

pub use residuals::Residuals;

/// A function of one vector, with its gradient.
///
/// ```
/// use iverson::prelude::*;
///
/// let loss = Function::parse("param A : [m, n] real\nparam x : [n] real\nparam s : real\nsum i < m. ((sum j < n. A[i, j] * x[j]) - s)^2")?;
/// let objective = loss.objective(&inputs! { "A" => [[1.0, 2.0], [3.0, 4.0]], "x" => [0.0, 0.0], "s" => 1 }, ["x", "s"])?;
/// let (mut point, mut gradient) = (objective.start(), vec![0.0; 3]);
/// for _ in 0..100 {
///     objective.evaluate(&point, &mut gradient)?;
///     point.iter_mut().zip(&gradient).for_each(|(x, slope)| *x -= 0.01 * slope);
/// }
/// let end = objective.at(&point)?;
/// assert_eq!(loss.eval(&end)?["value"].as_scalar().map(|end| end < 0.1), Some(true));
/// # Ok::<(), iverson::Error>(())
/// ```
#[derive(Debug)]
pub struct Objective {
    function: Function,
    kernel: Kernel,
    unknowns: Unknowns,
    /// Whether the value or the gradient depends on an unknown, for each leaf.
    are_read: Vec<bool>,
    /// The kernel of the Hessian, once it was asked for.
    hessian: Mutex<Option<Arc<MatrixKernel>>>,
    /// Where the value and the gradient were last asked for one by one, and what they are there.
    #[cfg(feature = "argmin")]
    last: Mutex<Option<argmin::Evaluated>>,
}

impl Function {
    /// The value and the gradient by some parameters as a function of one vector; the inputs have the constants and where to start.
    ///
    /// # Errors
    /// As [`Function::derive`] and [`KernelBuilder::build`](super::KernelBuilder::build); [`Error::Request`](crate::Error::Request) for a name that is given twice.
    pub fn objective(&self, inputs: &Inputs, wrt: impl Names) -> Result<Objective> {
        let unknowns = Unknowns::new(self, inputs, wrt)?;
        let derivative = self.value_and_gradient(unknowns.names())?;
        // What the value and its gradient do not read is no parameter of theirs.
        let constants = unknowns.constants(&derivative);
        let kernel = derivative.kernel(&unknowns.inputs).constants(constants).engine(Engine::Auto).build()?;
        Ok(Objective {
            function: self.clone(),
            are_read: unknowns.are_read(&kernel),
            kernel,
            unknowns,
            hessian: Mutex::default(),
            #[cfg(feature = "argmin")]
            last: Mutex::default(),
        })
    }
}

impl Objective {
    /// How many numbers a point has.
    pub fn len(&self) -> usize {
        self.unknowns.len()
    }

    /// Whether there is nothing unknown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kernel of the value and the gradient.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The unknowns as they are in the inputs.
    pub fn start(&self) -> Vec<f64> {
        self.unknowns.start()
    }

    /// The value at a point, and the gradient there into memory of the caller, at once.
    ///
    /// # Errors
    /// [`Error::Data`](crate::Error::Data) for a point or a gradient of another length.
    pub fn evaluate(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64> {
        self.unknowns.check("point", point.len())?;
        self.unknowns.check("gradient", gradient.len())?;
        let mut value = 0.0;
        let given = self.unknowns.given(point, &self.are_read);
        let mut wanted = vec![std::slice::from_mut(&mut value)];
        wanted.extend(leaf_by_leaf(self.unknowns.leaves(), gradient));
        self.kernel.call_into(&given, &mut wanted)?;
        Ok(value)
    }

    /// The Hessian at a point, in CSR format: its rows and columns are the numbers of a point in order. It is derived, and its pattern found, when it is
    /// first asked for.
    ///
    /// # Errors
    /// [`Error::Data`](crate::Error::Data) for a point of another length; those of [`Function::derive`] and of [`Matrix::bind`](crate::kernel::Matrix::bind).
    pub fn hessian(&self, point: &[f64]) -> Result<Csr> {
        let inputs = self.at(point)?;
        let bound = self.hessian.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kernel = match bound {
            Some(kernel) => kernel,
            None => {
                let request = Request::new(Mode::Hessian, &self.unknowns.names());
                let derived = self.function.derive(&request)?;
                let constants = self.unknowns.constants(&derived.function);
                let kernel = derived.matrix()?.bind_with_constants(&inputs, &constants, Engine::Auto)?;
                let kernel = Arc::new(kernel);
                *self.hessian.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&kernel));
                kernel
            }
        };
        Ok(kernel.call(&inputs)?.1)
    }

    /// The inputs, with the unknowns at a point: what the function and its other derivatives can be given.
    ///
    /// # Errors
    /// [`Error::Data`](crate::Error::Data) for a point of another length.
    pub fn at(&self, point: &[f64]) -> Result<Inputs> {
        self.unknowns.at(point)
    }
}

//! What optimisers ask for: the value and the gradient of a function at a point, where a point is one vector of all unknowns.
//!
//! Bindings of L-BFGS and NLopt take a closure of a point and of memory for the gradient; [`Objective::evaluate`] is this closure. The unknowns lie in
//! the vector one after the other in the order of the parameters, each as its [`Value`](crate::tensor::Value) stores it: all elements of a dense tensor in
//! row-major order, the values of the entries of a sparse one. All other inputs are constants of the kernel.
//!
//! With the feature `argmin`, objectives are problems of the solvers of [argmin](https://docs.rs/argmin).

#[cfg(feature = "argmin")]
mod argmin;

use std::sync::{Arc, Mutex, PoisonError};

use super::{Function, Mode, Names, Request};
use crate::error::{Error, Result};
use crate::kernel::{Engine, Kernel, MatrixKernel};
use crate::stages::Stages;
use crate::tensor::{Csr, Inputs, Precision, Value};
use crate::ty::is_part;

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
    inputs: Inputs,
    unknowns: Vec<Unknown>,
    /// The kernel of the Hessian, once it was asked for.
    hessian: Mutex<Option<Arc<MatrixKernel>>>,
    /// Where the value and the gradient were last asked for one by one, and what they are there.
    #[cfg(feature = "argmin")]
    last: Mutex<Option<argmin::Evaluated>>,
}

/// A parameter that is looked for, in the order of the parameters.
#[derive(Debug)]
struct Unknown {
    name: String,
    /// How many numbers each of its leaves has.
    lengths: Vec<usize>,
    /// Whether the value or the gradient depends on it.
    is_read: bool,
}

impl Function {
    /// The value and the gradient by some parameters as a function of one vector; the inputs have the constants and where to start.
    ///
    /// # Errors
    /// As [`Function::derive`] and [`KernelBuilder::build`](super::KernelBuilder::build); [`Error::Request`] for a name that is given twice.
    pub fn objective(&self, inputs: &Inputs, wrt: impl Names) -> Result<Objective> {
        let wrt = wrt.names();
        let params = self.tssa.signature.params.values().map(|param| &param.name);
        let (names, constants): (Vec<&String>, Vec<&String>) = params.partition(|name| wrt.contains(name));
        if names.len() != wrt.len() {
            let unknown = wrt.iter().find(|name| !names.contains(name));
            return Err(Error::Request(match unknown {
                Some(name) => format!("the program has no parameter `{name}`"),
                None => "an unknown is given twice".to_owned(),
            }));
        }
        let names: Vec<String> = names.into_iter().cloned().collect();
        let inputs = inputs.in_precision(Precision::Double);
        let function = self.value_and_gradient(&names)?;
        // What the value and its gradient do not read is no parameter of theirs.
        let taken = |name: &&&String| function.tssa.signature.param(name).is_some();
        let constants = constants.iter().filter(taken).copied();
        let kernel = function.kernel(&inputs).constants(constants).engine(Engine::Auto).build()?;
        let unknown = |name: String| Unknown {
            lengths: inputs
                .get(&name)
                .map_or_else(Vec::new, |value| value.leaves().iter().map(|leaf| leaf.data().len()).collect()),
            is_read: kernel.inputs().iter().any(|(read, _)| is_part(read, &name)),
            name,
        };
        let unknowns = names.into_iter().map(unknown).collect();
        Ok(Objective {
            function: self.clone(),
            kernel,
            inputs,
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
        self.unknowns.iter().flat_map(|unknown| &unknown.lengths).sum()
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
        let values = self.unknowns.iter().filter_map(|unknown| self.inputs.get(&unknown.name));
        values.flat_map(|value| value.leaves().iter().flat_map(|leaf| leaf.data().iter().copied())).collect()
    }

    /// The value at a point, and the gradient there into memory of the caller, at once.
    ///
    /// # Errors
    /// [`Error::Data`] for a point or a gradient of another length.
    pub fn evaluate(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64> {
        for (name, found) in [("point", point.len()), ("gradient", gradient.len())] {
            if found != self.len() {
                return Err(Error::data(name, format!("{} numbers are expected, found {found}", self.len())));
            }
        }
        let mut value = 0.0;
        let (mut point, mut gradient) = (point, gradient);
        let (mut given, mut wanted) = (Vec::new(), vec![std::slice::from_mut(&mut value)]);
        for unknown in &self.unknowns {
            for length in &unknown.lengths {
                let (x, others) = point.split_at(*length);
                let (slope, rest) = gradient.split_at_mut(*length);
                if unknown.is_read {
                    given.push(x);
                }
                wanted.push(slope);
                (point, gradient) = (others, rest);
            }
        }
        self.kernel.call_into(&given, &mut wanted)?;
        Ok(value)
    }

    /// The Hessian at a point, in CSR format: its rows and columns are the numbers of a point in order. It is derived, and its pattern found, when it is
    /// first asked for.
    ///
    /// # Errors
    /// [`Error::Data`] for a point of another length; those of [`Function::derive`] and of [`Matrix::bind`](crate::kernel::Matrix::bind).
    pub fn hessian(&self, point: &[f64]) -> Result<Csr> {
        let inputs = self.at(point)?;
        let bound = self.hessian.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kernel = match bound {
            Some(kernel) => kernel,
            None => {
                let names: Vec<&str> = self.unknowns.iter().map(|unknown| unknown.name.as_str()).collect();
                let request = Request::new(Mode::Hessian, &names);
                let derived = self.function.derive(&request, &mut Stages::new())?;
                let taken = |name: &&str| derived.function.tssa.signature.param(name).is_some();
                let constants: Vec<&str> = self.kernel.constants().into_iter().filter(taken).collect();
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
    /// [`Error::Data`] for a point of another length.
    pub fn at(&self, point: &[f64]) -> Result<Inputs> {
        if point.len() != self.len() {
            return Err(Error::data("point", format!("{} numbers are expected, found {}", self.len(), point.len())));
        }
        let (mut inputs, mut rest) = (self.inputs.clone(), point);
        for Unknown { name, .. } in &self.unknowns {
            let Some(value) = self.inputs.get(name) else { continue };
            let mut leaves = Vec::with_capacity(value.leaves().len());
            for leaf in value.leaves() {
                let (own, others) = rest.split_at(leaf.data().len().min(rest.len()));
                let mut leaf = (**leaf).clone();
                leaf.data_mut().copy_from_slice(own);
                leaves.push(std::sync::Arc::new(leaf));
                rest = others;
            }
            inputs.value(name, Value::new(leaves));
        }
        Ok(inputs)
    }
}

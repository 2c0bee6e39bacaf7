//! What optimisers ask for: the value and the gradient of a function at a point, where a point is one vector of all unknowns.
//!
//! Bindings of L-BFGS and NLopt take a closure of a point and of memory for the gradient; [`Objective::evaluate`] is this closure. The unknowns lie in
//! the vector one after the other in the order of the parameters, each as its [`Value`](crate::tensor::Value) stores it: all elements of a dense tensor in
//! row-major order, the values of the entries of a sparse one. All other inputs are constants of the kernel.

use super::{Function, Names};
use crate::error::{Error, Result};
use crate::kernel::{Engine, Kernel};
use crate::tensor::{Inputs, Precision, Value};

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
    kernel: Kernel,
    inputs: Inputs,
    /// The unknowns, in the order of the parameters.
    names: Vec<String>,
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
        Ok(Objective { kernel, inputs, names })
    }
}

impl Objective {
    /// How many numbers a point has.
    pub fn len(&self) -> usize {
        self.kernel.inputs().iter().map(|(_, leaf)| leaf.len()).sum()
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
        let values = self.names.iter().filter_map(|name| self.inputs.get(name));
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
        for (_, leaf) in self.kernel.inputs() {
            let (x, others) = point.split_at(leaf.len());
            let (slope, rest) = gradient.split_at_mut(leaf.len());
            given.push(x);
            wanted.push(slope);
            (point, gradient) = (others, rest);
        }
        self.kernel.call_into(&given, &mut wanted)?;
        Ok(value)
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
        for name in &self.names {
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

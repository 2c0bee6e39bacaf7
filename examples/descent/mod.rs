//! What the examples share: gradient descent on a program that gives its value and its gradient.

use iverson::tensor::{Inputs, Value};
use iverson::{Error, Function, Result, reference};

/// A descent in one vector, with the step lengths of Barzilai and Borwein: `|s|^2 / <s, g - g'>` after a step `s` from gradient `g'` to `g`.
pub struct Descent<'a> {
    function: &'a Function,
    /// The inputs, with the unknown where the descent is.
    pub inputs: Inputs,
    unknown: &'static str,
    /// Where the descent is.
    pub at: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// The gradient there.
    pub gradient: Vec<f64>,
    step: f64,
}

impl<'a> Descent<'a> {
    /// Starts from a point. A value is assumed to be positive; the first step would end at 0 if the function were linear.
    pub fn new(function: &'a Function, inputs: Inputs, unknown: &'static str, start: Vec<f64>) -> Result<Self> {
        let mut descent = Descent { function, inputs, unknown, at: start, value: 0.0, gradient: Vec::new(), step: 0.0 };
        descent.evaluate()?;
        descent.step = descent.value / dot(&descent.gradient, &descent.gradient);
        Ok(descent)
    }

    /// The length of the gradient.
    pub fn slope(&self) -> f64 {
        dot(&self.gradient, &self.gradient).sqrt()
    }

    /// Goes one step.
    pub fn go(&mut self) -> Result<()> {
        let s: Vec<f64> = self.gradient.iter().map(|g| -self.step * g).collect();
        self.at.iter_mut().zip(&s).for_each(|(x, s)| *x += s);
        let before = self.gradient.clone();
        self.evaluate()?;
        let change: Vec<f64> = self.gradient.iter().zip(&before).map(|(g, before)| g - before).collect();
        self.step = dot(&s, &s) / dot(&s, &change);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<()> {
        self.inputs.value(self.unknown, Value::vector(self.at.clone()));
        let results = reference::evaluate(self.function.tensor_ssa(), &self.inputs)?;
        let [(_, value), (_, gradient)] = results.as_slice() else {
            return Err(Error::Request("a descent needs a value and one gradient".to_owned()));
        };
        self.value = value.as_scalar().unwrap_or(f64::NAN);
        self.gradient = gradient.as_tensor().map(|g| g.data().to_vec()).unwrap_or_default();
        Ok(())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

//! What the examples share: gradient descent on a program that gives its value and its gradient.

use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Inputs, Value};
use iverson::{Function, Result};

/// A descent in one vector, with the step lengths of Barzilai and Borwein: `|s|^2 / <s, g - g'>` after a step `s` from gradient `g'` to `g`.
pub struct Descent {
    /// The value and the gradient for the unknown; everything else is constant.
    kernel: Kernel,
    inputs: Inputs,
    unknown: &'static str,
    /// Where the descent is.
    pub at: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// The gradient there.
    pub gradient: Vec<f64>,
    step: f64,
}

impl Descent {
    /// Starts from a point. A value is assumed to be positive; the first step would end at 0 if the function were linear.
    pub fn new(function: &Function, mut inputs: Inputs, unknown: &'static str, start: Vec<f64>) -> Result<Self> {
        inputs.value(unknown, Value::vector(start.clone()));
        let params = function.tensor_ssa().signature.params.values();
        let constants: Vec<&str> = params.map(|param| param.name.as_str()).filter(|name| *name != unknown).collect();
        let kernel = function.kernel(&inputs).constants(&constants).engine(Engine::Auto).build()?;
        let gradient = vec![0.0; start.len()];
        let mut descent = Descent { kernel, inputs, unknown, at: start, value: 0.0, gradient, step: 0.0 };
        descent.evaluate()?;
        descent.step = descent.value / dot(&descent.gradient, &descent.gradient);
        Ok(descent)
    }

    /// The inputs, with the unknown where the descent is.
    #[allow(dead_code, reason = "some examples look at nothing else")]
    pub fn inputs(&self) -> Inputs {
        let mut inputs = self.inputs.clone();
        inputs.value(self.unknown, Value::vector(self.at.clone()));
        inputs
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
        self.kernel.call_into(&self.at, (&mut self.value, &mut self.gradient))?;
        Ok(())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

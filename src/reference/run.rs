//! Runs and counts programs on named inputs.

use super::count::{Counts, count_tssa};
use super::environment::{Environment, Limits, to_value};
use super::eval_tssa;
use crate::error::Result;
use crate::tensor::{Inputs, Value, bind};
use crate::tssa::Program;

/// Binds the inputs and evaluates all results, each with its name, in order.
///
/// # Errors
/// [`Error::Data`](crate::Error::Data) for inputs that do not fit, and those of [`eval_tssa::evaluate`].
pub fn evaluate(program: &Program, inputs: &Inputs) -> Result<Vec<(String, Value)>> {
    evaluate_with_progress(program, inputs, &mut |_, _| {})
}

/// The same, telling how many statements are done, of how many.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_with_progress(
    program: &Program,
    inputs: &Inputs,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<(String, Value)>> {
    evaluate_within(program, inputs, Limits::default(), progress)
}

/// The same within other limits.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_within(
    program: &Program,
    inputs: &Inputs,
    limits: Limits,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<(String, Value)>> {
    let bindings = bind(&program.signature, inputs)?;
    let environment = Environment::from_bindings(&bindings)?;
    let options = eval_tssa::Options { limits, outputs: None, progress: Some(progress) };
    let results = eval_tssa::evaluate(program, &environment, options)?;
    let value = |(output, leaves): (&crate::tssa::Output, &Vec<_>)| {
        Ok((output.name.clone(), to_value(&program.signature, &bindings, output.storage, leaves)?))
    };
    program.outputs.iter().zip(&results).map(value).collect()
}

/// Binds the inputs and counts the scalar operations that an evaluation takes.
///
/// # Errors
/// As [`evaluate`].
pub fn count(program: &Program, inputs: &Inputs) -> Result<Counts> {
    let environment = Environment::from_bindings(&bind(&program.signature, inputs)?)?;
    count_tssa(program, &environment, Limits::default())
}

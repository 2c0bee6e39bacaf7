//! Runs and counts programs on named inputs.

use super::count::Counts;
use super::environment::{Environment, Limits, to_value};
use super::subject::Subject;
use crate::error::Result;
use crate::tensor::{Inputs, Value, bind};

/// Binds the inputs and evaluates all results, each with its name, in order.
///
/// # Errors
/// [`Error::Data`](crate::Error::Data) for inputs that do not fit, and those of [`Subject::evaluate`].
pub fn evaluate(program: &impl Subject, inputs: &Inputs) -> Result<Vec<(String, Value)>> {
    evaluate_with_progress(program, inputs, &mut |_, _| {})
}

/// The same, telling how many statements are done, of how many.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_with_progress(
    program: &impl Subject,
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
    program: &impl Subject,
    inputs: &Inputs,
    limits: Limits,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<(String, Value)>> {
    let bindings = bind(program.signature(), inputs)?;
    let environment = Environment::from_bindings(&bindings)?;
    let results = program.evaluate(&environment, None, limits, Some(progress))?;
    let value = |((name, storage), leaves): ((&str, _), &Vec<_>)| {
        Ok((name.to_owned(), to_value(program.signature(), &bindings, storage, leaves)?))
    };
    program.results().into_iter().zip(&results).map(value).collect()
}

/// Binds the inputs and counts the scalar operations that an evaluation takes.
///
/// # Errors
/// As [`evaluate`].
pub fn count(program: &impl Subject, inputs: &Inputs) -> Result<Counts> {
    let environment = Environment::from_bindings(&bind(program.signature(), inputs)?)?;
    program.count(&environment, Limits::default())
}

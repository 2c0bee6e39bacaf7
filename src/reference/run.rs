//! Runs and counts programs on named inputs.

use super::count::Counts;
use super::environment::{Environment, Limits, to_value};
use super::eval_flow;
use super::subject::{Leaves, Subject};
use crate::error::Result;
use crate::flow;
use crate::tensor::{Bindings, Inputs, Value, bind};

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
    named(program, &bindings, &results)
}

/// Results as values with their names.
fn named(program: &impl Subject, bindings: &Bindings, results: &Leaves<f64>) -> Result<Vec<(String, Value)>> {
    let value = |((name, storage), leaves): ((&str, _), &Vec<_>)| {
        Ok((name.to_owned(), to_value(program.signature(), bindings, storage, leaves)?))
    };
    program.results().into_iter().zip(results).map(value).collect()
}

/// Results with their names, and what there is to say of them.
pub type ResultsAndNotes = (Vec<(String, Value)>, Vec<String>);

/// The same of a program with loops, and a note for each fixpoint that made all of its steps and whose condition still holds.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_and_notes(program: &flow::Program, inputs: &Inputs, limits: Limits) -> Result<ResultsAndNotes> {
    let bindings = bind(program.signature(), inputs)?;
    let environment = Environment::from_bindings(&bindings)?;
    let (results, unsolved) = eval_flow::evaluate_noting::<f64>(program, &environment, limits)?;
    let values = named(program, &bindings, &results)?;
    let note = |steps: i64| {
        format!("the condition of the fixpoint still holds after {steps} {}", if steps == 1 { "step" } else { "steps" })
    };
    Ok((values, unsolved.into_iter().map(note).collect()))
}

/// Binds the inputs and counts the scalar operations that an evaluation takes.
///
/// # Errors
/// As [`evaluate`].
pub fn count(program: &impl Subject, inputs: &Inputs) -> Result<Counts> {
    let environment = Environment::from_bindings(&bind(program.signature(), inputs)?)?;
    program.count(&environment, Limits::default())
}

//! Efficient CHAD: \[000\], complete.
//!
//! `D[t]` has the parameters of `t`, and gives its value and its backpropagator, which takes a cotangent of the value and gives what is owed to the parameters.
//! The steps of the paper can be chosen, since they only change how linear types are represented ([`Store`]) and what backpropagators give:
//!
//! | [`Stage`] | section | backpropagators give | cotangents | the bound fails on |
//! |---|---|---|---|---|
//! | `Naive` | 2 | tuples | zeros are written out | unused parts, unused variables |
//! | `Sparse` | 4.1 | maps, united | sparse | trees of distinct variables (Appendix A) |
//! | `Map` | 4.2 | actions on a map | sparse | many variables, by a logarithm |
//! | `Array` | 5 | actions on an array | sparse | nothing: Eq. 7 |
//!
//! Eq. 7 says for `Array`, with costs by the steps of Appendix C:
//!
//! ```text
//! cost(run (snd D[t] d) zeros) <= 5 + 34 cost(t) + size(d) + 4 |parameters|
//! ```
//!
//! It is proved in the paper for programs without arrays, functions and loops. Functions are converted to closures first (Appendix B); arrays are those of
//! section 7; loops and scans have the rule of `let`, once a step. Refused: external functions, opaque values.
//!
//! | file | job |
//! |---|---|
//! | `transform` | the rules without arrays and loops |
//! | `arrays`, `loops` | the others |
//! | `style` | environment vectors and the monad |
//! | `types` | the types of derivatives |
//! | `closures`, `desugar` | what comes before |

mod arrays;
#[cfg(test)]
mod bounds;
mod closures;
mod desugar;
mod loops;
mod style;
#[cfg(test)]
mod tests;
mod transform;
mod types;

pub use closures::convert_closures;

use super::lambda::{Machine, Program, Store, Type, TypeId, Value};
use crate::error::{Error, Result};
use crate::reference::Numeric;
use style::Style;

/// How far the optimisations of the paper go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Section 2: everything is written out.
    Naive,
    /// Section 4.1: sparse cotangents, and environments that are united.
    Sparse,
    /// Section 4.2: the monad, on a functional map.
    Map,
    /// Section 5: the monad, on an array.
    Array,
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 4] = [Stage::Naive, Stage::Sparse, Stage::Map, Stage::Array];

    fn style(self) -> Style {
        if self <= Stage::Sparse { Style::Vectors } else { Style::Monad }
    }

    /// How values of linear types are represented.
    pub fn store(self) -> Store {
        match self {
            Stage::Naive => Store::Dense,
            Stage::Sparse | Stage::Map => Store::Map,
            Stage::Array => Store::Array,
        }
    }
}

/// The derivative of a program.
#[derive(Clone, Debug)]
pub struct Derivative {
    /// Of the value and the backpropagator.
    pub program: Program,
    /// The stage that it was made for.
    pub stage: Stage,
    /// The types of the cotangents of the parameters.
    pub cotangents: Vec<TypeId>,
}

/// What a derivative took, in steps of \[000\], Appendix C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Evaluating `D[t]`.
    pub run: u64,
    /// Calling the backpropagator.
    pub call: u64,
    /// Running the action that it gives, with a step and one for each parameter; 0 without the monad.
    pub monad: u64,
    /// Entries of the smaller environment, over all unions.
    pub unions: u64,
}

impl Costs {
    /// All steps.
    pub fn total(&self) -> u64 {
        self.run + self.call + self.monad
    }

    /// The left side of Eq. 7: the cost of `run (snd D[t] d) zeros`, for so many steps of making the zeros.
    pub fn of_term(&self, zeros: u64) -> u64 {
        // `run`, `snd`, the call, and `d`.
        self.total() + zeros + 4
    }
}

/// A value, and what is owed to the parameters.
#[derive(Clone, Debug)]
pub struct Gradient<T> {
    /// The value.
    pub value: Value<T>,
    /// The cotangent of each parameter.
    pub cotangents: Vec<Value<T>>,
    /// What it took.
    pub costs: Costs,
}

/// The derivative of a program. Its functions are converted to closures.
///
/// # Errors
/// [`Error::Limitation`] for what the method does not have.
pub fn differentiate(source: &Program, stage: Stage) -> Result<Derivative> {
    let has_functions = source.types.iter().any(|(_, ty)| matches!(ty, Type::Fn(..)));
    let program = match has_functions {
        true => convert_closures(source)?,
        false => source.clone(),
    };
    let program = desugar::desugar(&program)?;
    let (program, cells) = transform::transform(&program, stage.style())?;
    let mut cotangents = Vec::new();
    let mut rest = cells;
    while let Type::Cells(before, last) = program.types[rest] {
        cotangents.push(last);
        rest = before;
    }
    cotangents.reverse();
    Ok(Derivative { program, stage, cotangents })
}

impl Derivative {
    /// The value, and the cotangents of the parameters for that of the value.
    ///
    /// # Errors
    /// Of the evaluator.
    pub fn run<T: Numeric>(&self, args: &[Value<T>], seed: &Value<T>) -> Result<Gradient<T>> {
        let mut machine = Machine::new(&self.program)?.with_store(self.stage.store());
        let result = machine.evaluate(args)?;
        let (value, back) = result.as_pair()?;
        let after_run = machine.counts();
        let owed = machine.call(back, seed.clone())?;
        let after_call = machine.counts();
        let zeros = self.cotangents.iter().map(|ty| machine.zero_value(*ty)).collect::<Result<Vec<_>>>()?;
        let before = machine.counts();
        let cotangents = match self.stage.style() {
            Style::Monad => machine.run_action(&owed, zeros)?.1,
            Style::Vectors => machine.environment(&owed, zeros)?,
        };
        let costs = Costs {
            run: after_run.steps,
            call: (after_call - after_run).steps,
            monad: (machine.counts() - before).steps,
            unions: machine.counts().unions,
        };
        Ok(Gradient { value: value.clone(), cotangents, costs })
    }

    /// The steps of making zeros for the cells of all parameters, as pairs.
    pub fn zero_steps(&self) -> u64 {
        let real = |ty: &&TypeId| matches!(self.program.types[**ty], Type::Linear(super::lambda::LinearType::Real));
        // A pair and a zero for each, one more where it is a primitive, and the end.
        1 + 2 * self.cotangents.len() as u64 + self.cotangents.iter().filter(real).count() as u64
    }
}

/// The size of a cotangent: its places that are written out (\[000\], section 4.3).
///
/// # Errors
/// [`Error::Bug`] for another value.
pub fn size<T>(cotangent: &Value<T>) -> Result<u64> {
    let (mut todo, mut size) = (vec![cotangent], 0);
    while let Some(value) = todo.pop() {
        size += 1;
        if let Value::Node(_) = value {
            if let Ok((a, b)) = value.as_pair() {
                todo.extend([a, b]);
            } else {
                match value.as_sum().map_err(|_| Error::bug("size", "a cotangent is needed"))? {
                    Ok(a) | Err(a) => todo.push(a),
                }
            }
        }
    }
    Ok(size)
}

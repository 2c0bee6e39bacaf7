//! CHAD: \[003\], forward and reverse.
//!
//! `D[t]` has the parameters of `t`, and gives its value and a linear map: in forward mode from tangents of the parameters to that of the value, in reverse mode from
//! cotangents of the value to those of the parameters. Functions are differentiated as they are: the tangent of a function is a function (a power), its
//! cotangent a log of its calls (a copower `!D1 (x) D2`), so functions that nobody can look into may be arguments and results.
//!
//! What holds, and what does not: the code grows by a constant factor (Corollary 7.2); the time does not. A body is differentiated once for its argument and
//! once more for what it captures, so that of `d` functions, of which each calls the one before, `d (d + 1) / 2` bodies are run again (\[000\], section 9, refutes
//! the remark of \[003\] that nothing is computed twice; [`efficient`](super::efficient) repairs it).
//!
//! Sums have the rules of \[000\], Fig. 2; arrays those of section 10, with scans and folds in the same way. Refused: recursion,
//! which \[003\] does not have; external functions; opaque values.
//!
//! | file | job |
//! |---|---|
//! | `transform` | the rules without arrays |
//! | `arrays` | the others |
//! | `types` | the types of derivatives |
//! | `readable`, `write` | derivatives for reading |
//! | `desugar` | what comes before: folds and reductions by scans |

mod arrays;
mod desugar;
mod readable;
#[cfg(test)]
mod tests;
mod transform;
mod types;

use super::lambda::{LinearType, Machine, Node, Program, Store, Type, TypeId, Value};
use crate::error::{Error, Result};
use crate::reference::Numeric;

const PASS: &str = "CHAD";

/// The direction of derivatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From tangents of the parameters to the tangent of the value.
    Forward,
    /// From the cotangent of the value to those of the parameters.
    Reverse,
}

/// The derivative of a program.
#[derive(Clone, Debug)]
pub struct Derivative {
    /// Of the value and the linear map.
    pub program: Program,
    /// Its direction.
    pub mode: Mode,
    /// The types of tangents or cotangents of the parameters.
    pub parameters: Vec<TypeId>,
    /// The number of variables of the source, which are the first ones of the derivative.
    variables: usize,
}

/// The derivative of a program.
///
/// # Errors
/// [`Error::Limitation`] for what the method does not have.
pub fn differentiate(source: &Program, mode: Mode) -> Result<Derivative> {
    let program = desugar::desugar(source)?;
    let variables = program.vars.len();
    let (program, env) = transform::transform(&program, mode)?;
    let mut parameters = Vec::new();
    if let Type::Linear(LinearType::Environment(mut cells)) = program.types[env] {
        while let Type::Cells(rest, last) = program.types[cells] {
            parameters.push(last);
            cells = rest;
        }
    }
    parameters.reverse();
    Ok(Derivative { program, mode, parameters, variables })
}

impl Derivative {
    /// A machine for it.
    ///
    /// # Errors
    /// Of the evaluator.
    pub fn machine<T: Numeric>(&self) -> Result<Machine<'_, T>> {
        Ok(Machine::new(&self.program)?.with_store(Store::Dense))
    }

    /// The value and its tangent, for tangents of the parameters; in forward mode.
    ///
    /// # Errors
    /// Of the evaluator; [`Error::Request`] in the other mode.
    pub fn tangent<T: Numeric>(&self, args: &[Value<T>], tangents: &[Value<T>]) -> Result<(Value<T>, Value<T>)> {
        self.expect(Mode::Forward)?;
        let mut machine = self.machine()?;
        let result = machine.evaluate(args)?;
        let (value, map) = result.as_pair()?;
        let env = tangents.iter().cloned().fold(Value::Unit, Value::pair);
        Ok((value.clone(), machine.call(map, env)?))
    }

    /// The value and the cotangents of the parameters, for a cotangent of the value; in reverse mode.
    ///
    /// # Errors
    /// Of the evaluator; [`Error::Request`] in the other mode.
    pub fn cotangents<T: Numeric>(&self, args: &[Value<T>], seed: &Value<T>) -> Result<(Value<T>, Vec<Value<T>>)> {
        self.expect(Mode::Reverse)?;
        let mut machine = self.machine()?;
        let result = machine.evaluate(args)?;
        let (value, map) = result.as_pair()?;
        let env = machine.call(map, seed.clone())?;
        let zeros = self.parameters.iter().map(|ty| machine.zero_value(*ty)).collect::<Result<Vec<_>>>()?;
        let cotangents = machine.environment(&env, zeros)?;
        Ok((value.clone(), cotangents))
    }

    fn expect(&self, mode: Mode) -> Result<()> {
        match self.mode == mode {
            true => Ok(()),
            false => Err(Error::Request("the derivative is of the other mode".to_string())),
        }
    }
}

/// A tangent of a value of the source language, in the representation of linear types: integers have no tangent.
///
/// # Errors
/// [`Error::Request`] for functions.
pub fn as_tangent<T: Clone>(value: &Value<T>) -> Result<Value<T>> {
    enum Step<'a, T> {
        Visit(&'a Value<T>),
        Make(&'a Node<T>, usize),
    }
    let (mut todo, mut done) = (vec![Step::Visit(value)], Vec::new());
    while let Some(step) = todo.pop() {
        match step {
            Step::Visit(Value::Real(x)) => done.push(Value::Real(x.clone())),
            Step::Visit(Value::Int(_) | Value::Unit) => done.push(Value::Unit),
            Step::Visit(Value::Zero) => done.push(Value::Zero),
            Step::Visit(Value::Node(node)) => {
                let parts: Vec<&Value<T>> = match &**node {
                    Node::Pair(a, b) => vec![a, b],
                    Node::Inl(a) | Node::Inr(a) => vec![a],
                    Node::Array(items) => items.iter().collect(),
                    _ => return Err(Error::Request("a tangent of a function is a function".to_string())),
                };
                todo.push(Step::Make(node, parts.len()));
                todo.extend(parts.into_iter().rev().map(Step::Visit));
            }
            Step::Make(node, n) => {
                let parts = done.split_off(done.len() - n);
                let mut parts = parts.into_iter();
                done.push(match (node, parts.next(), parts.next()) {
                    (Node::Pair(..), Some(a), Some(b)) => Value::pair(a, b),
                    (Node::Inl(_), Some(a), _) => Value::inl(a),
                    (Node::Inr(_), Some(a), _) => Value::inr(a),
                    (_, first, second) => Value::array(first.into_iter().chain(second).chain(parts).collect()),
                });
            }
        }
    }
    done.pop().ok_or_else(|| Error::bug(PASS, "a tangent is missing"))
}

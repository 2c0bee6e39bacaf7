//! Values of scalar functions and of their partial derivatives at numbers.

use super::user::{MAX_CALLS, MAX_STEPS, of_tensors, unregistered, wrong_arity};
use super::{Formula, Function, Primitive, UserFunction, UserValue, partial_formula};
use crate::base::{Arena, FunctionId};
use crate::error::{Error, Result};

/// The value of a function. NaN where [`check_functions`](super::check_functions) or [`check`](super::check) has something to report.
///
/// Built-in functions take their values from the pure Rust crate `libm`: same bits on every platform.
pub fn evaluate(function: Function, users: &Arena<FunctionId, UserFunction>, args: &[f64]) -> f64 {
    match function {
        Function::Value(Primitive::Op(op)) => op.value(args),
        _ => try_evaluate(function, users, args).unwrap_or(f64::NAN),
    }
}

/// The value of a function.
///
/// # Errors
/// [`Error::Request`] for a function that is not there, has no code, or takes another number of arguments, [`Error::Limit`] for a
/// function that takes too many steps.
pub fn try_evaluate(function: Function, users: &Arena<FunctionId, UserFunction>, args: &[f64]) -> Result<f64> {
    super::check(function, args.len(), users)?;
    let mut evaluator = Evaluator::new(users);
    let (primitive, k) = match function {
        Function::Value(primitive) => return evaluator.primitive(primitive, args),
        Function::Partial(primitive, k) => (primitive, k),
    };
    let formula = partial_formula(primitive, k, users);
    let result = if formula.mentions_result() { evaluator.primitive(primitive, args)? } else { f64::NAN };
    evaluator.expr(&formula, args, result)
}

/// Evaluates formulas within counted limits, so that no set of functions, checked or not, can hang it or exhaust the stack: the depth
/// is at most [`Formula::MAX_NESTING`] times the nesting of calls.
pub(super) struct Evaluator<'a> {
    users: &'a Arena<FunctionId, UserFunction>,
    calls: usize,
    steps: u64,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(users: &'a Arena<FunctionId, UserFunction>) -> Self {
        Evaluator { users, calls: 0, steps: 0 }
    }

    fn primitive(&mut self, primitive: Primitive, args: &[f64]) -> Result<f64> {
        let id = match primitive {
            Primitive::Op(op) => return Ok(op.value(args)),
            Primitive::User(id) => id,
        };
        let Some(user) = self.users.get(id) else {
            return Err(Error::Request(format!("there is no registered function {id}")));
        };
        if args.len() != usize::from(user.arity()) {
            return Err(Error::Request(wrong_arity(user.name(), user.arity(), args.len())));
        }
        match user.value() {
            UserValue::Native(f) => Ok(f(args)),
            UserValue::Unregistered => Err(unregistered(user.name())),
            UserValue::External(_) => Err(of_tensors(user.name())),
            UserValue::Formula(body) => {
                self.calls += 1;
                if self.calls > MAX_CALLS {
                    let (limit, found) = (MAX_CALLS as u64, self.calls as u64);
                    return Err(Error::Limit { what: "the nesting of calls of scalar functions", limit, found });
                }
                let value = self.expr(body, args, f64::NAN)?;
                self.calls -= 1;
                Ok(value)
            }
        }
    }

    /// `[[arg k]] = args[k]`, `[[result]] = result`, `[[g(e, ..)]] = g([[e]], ..)`.
    pub(super) fn expr(&mut self, e: &Formula, args: &[f64], result: f64) -> Result<f64> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Error::Limit { what: "the steps of a scalar function", limit: MAX_STEPS, found: self.steps });
        }
        Ok(match e {
            Formula::Arg(k) => match args.get(usize::from(*k)) {
                Some(x) => *x,
                None => {
                    return Err(Error::Request(format!("argument {} of {} is missing", u32::from(*k) + 1, args.len())));
                }
            },
            Formula::Result => result,
            Formula::Number(x) => *x,
            Formula::Add(a, b) => self.expr(a, args, result)? + self.expr(b, args, result)?,
            Formula::Mul(a, b) => self.expr(a, args, result)? * self.expr(b, args, result)?,
            Formula::Apply(g, operands) => {
                let values = operands.iter().map(|e| self.expr(e, args, result)).collect::<Result<Vec<f64>>>()?;
                self.primitive(*g, &values)?
            }
        })
    }
}

//! One door to all ways to differentiate, so that they can be compared: the same program, the same numbers, one counter.
//!
//! | [`Method`] | takes | runs | refuses |
//! |---|---|---|---|
//! | `Adjoint` | the tensor language | the adjoint of the project, simplified, in the reference evaluator | the lambda calculus |
//! | `Forward` | both | the program at dual numbers, once for each number of its parameters | external functions |
//! | `Chad` | both | [`chad`] in reverse mode | recursion, external functions |
//! | `Efficient` | both | [`efficient`] on arrays | external functions |
//! | `Dual` | both | [`dual`] on one thread, with leaf calls | external functions |
//! | `Continuation` | both | [`continuation`] | all but real numbers, pairs, arrays, `map`, `reduce`, scans and shifts |
//!
//! A program of the tensor language is [elaborated](mod@super::elaborate) first, but for `Adjoint`; for `Continuation` its loops over indices become
//! maps and reductions, [`Elaborated::with_maps`].
//!
//! **Counts.** The numbers count what is done with them, whoever computes: additions, multiplications, scalar functions, and copies. Steps are those of
//! the evaluator of the lambda calculus; of `Dual` those of its own machine and of the reverse pass; `Adjoint` has none.
//!
//! ```
//! use iverson::ir::functional::methods::{Method, gradient_of_tensors};
//! use iverson::ir::{reference::Environment, surface};
//! use iverson::prelude::*;
//! use iverson::tensor::bind;
//!
//! let source = surface::read("param x : [n] real\nfold t < n, p = 1. p * x[t]", &[])?;
//! let at = Environment::from_bindings(&bind(&source.signature, &inputs! { "x" => [2.0, 3.0, 4.0] })?)?;
//! for method in Method::ALL {
//!     let found = gradient_of_tensors(&source, method, &at)?;
//!     assert_eq!(found.gradient[0][0].values(), [12.0, 8.0, 6.0], "{method}");
//! }
//! # Ok::<(), iverson::Error>(())
//! ```

mod counted;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use self::counted::{Counted, count};
use super::elaborate::{Elaborated, elaborate};
use super::lambda::{Counts, Machine, Node, Program, Value};
use super::{chad, continuation, dual, efficient, lambda};
use crate::base::{Id, ParamId};
use crate::driver::{Derived, Function, Mode, Request};
use crate::error::{Error, Result};
use crate::reference::{Dual, Environment, Leaf, Limits, Numeric, Subject};
use crate::term;

const PASS: &str = "methods";

/// A way to differentiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// The adjoint of the project.
    Adjoint,
    /// Dual numbers, one number of the parameters at a time.
    Forward,
    /// Combinatory homomorphic automatic differentiation.
    Chad,
    /// The same within a constant factor of the program.
    Efficient,
    /// Dual numbers with backpropagators.
    Dual,
    /// Continuations and partial evaluation.
    Continuation,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 6] =
        [Method::Adjoint, Method::Forward, Method::Chad, Method::Efficient, Method::Dual, Method::Continuation];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Method::Adjoint => "adjoint",
            Method::Forward => "forward",
            Method::Chad => "chad",
            Method::Efficient => "efficient",
            Method::Dual => "dual",
            Method::Continuation => "continuation",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Method::ALL.into_iter().find(|method| method.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Method::ALL.into_iter().map(Method::name).collect();
            Error::Request(format!("no method is named `{name}`; there are {}", names.join(", ")))
        })
    }
}

/// A value, its gradient, and what both took.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The value.
    pub value: T,
    /// The cotangent of each parameter, in its structure; `()` where it has none, as integers.
    pub gradient: Vec<Value<T>>,
    /// What it took.
    pub counts: Counts,
}

/// A value, its gradient, and what both took, for a program of the tensor language.
#[derive(Clone, Debug)]
pub struct TensorOutcome<T> {
    /// The value.
    pub value: T,
    /// The leaves of the gradient by each parameter.
    pub gradient: Vec<Vec<Leaf<T>>>,
    /// What it took.
    pub counts: Counts,
}

/// The derivative of a program of the lambda calculus by a method.
#[derive(Debug)]
pub struct Derivative<'p> {
    source: &'p Program,
    made: Made<'p>,
}

#[derive(Debug)]
enum Made<'p> {
    Forward,
    Chad(chad::Derivative),
    Efficient(efficient::Derivative),
    Dual(dual::Derivative<'p>),
    Continuation(Program),
}

/// The value of a program of type real, its gradient by a method, and what both take.
///
/// # Errors
/// As [`differentiate`] and [`Derivative::run`].
pub fn gradient<T: Numeric + Send + Sync>(program: &Program, method: Method, args: &[Value<T>]) -> Result<Outcome<T>> {
    differentiate(program, method)?.run(args)
}

/// The derivative of a program of type real by a method.
///
/// # Errors
/// [`Error::Limitation`], which names what the method does not have; [`Error::Request`] where the result is no real number, and for
/// [`Method::Adjoint`], which is for programs of the tensor language.
pub fn differentiate(program: &Program, method: Method) -> Result<Derivative<'_>> {
    if program.types[program.result()] != lambda::Type::Real {
        let ty = program.context.show(program.result());
        return Err(Error::Request(format!("a gradient is that of a real number, not of a value of type {ty}")));
    }
    let made = match method {
        Method::Adjoint => {
            let message =
                "the method `adjoint` is for programs of the tensor language, not for terms of the lambda calculus";
            return Err(Error::Request(message.to_string()));
        }
        Method::Forward => Made::Forward,
        Method::Chad => Made::Chad(chad::differentiate(program, chad::Mode::Reverse)?),
        Method::Efficient => Made::Efficient(efficient::differentiate(program, efficient::Stage::Array)?),
        Method::Dual => Made::Dual(dual::differentiate(program, dual::Options::default())?),
        Method::Continuation => Made::Continuation(continuation::gradient(program)?),
    };
    Ok(Derivative { source: program, made })
}

/// What a method makes of a program, for reading: of dual numbers that of section 10.2, of forward mode the program itself.
///
/// # Errors
/// As [`differentiate`]; [`Error::Limitation`] for what the transformation of a program by dual numbers does not have.
pub fn transformed(program: &Program, method: Method) -> Result<Program> {
    match method {
        Method::Dual => Ok(dual::transform(program, dual::Figure::Contrib)?.program),
        method => Ok(match differentiate(program, method)?.made {
            Made::Chad(derivative) => derivative.program,
            Made::Efficient(derivative) => derivative.program,
            Made::Continuation(gradient) => gradient,
            Made::Forward | Made::Dual(_) => program.clone(),
        }),
    }
}

impl Derivative<'_> {
    /// The value, the gradient, and what they take, at some arguments.
    ///
    /// # Errors
    /// Of the evaluators.
    pub fn run<T: Numeric + Send + Sync>(&self, args: &[Value<T>]) -> Result<Outcome<T>> {
        let args = args.iter().map(|arg| arg.map(|x| Ok(Counted(x.clone())))).collect::<Result<Vec<_>>>()?;
        let (found, tally) = count(|| match &self.made {
            Made::Forward => self.forward(&args),
            Made::Chad(derivative) => by_chad(derivative, &args),
            Made::Efficient(derivative) => by_efficient(derivative, &args),
            Made::Dual(derivative) => by_dual(derivative, &args),
            Made::Continuation(gradient) => by_continuation(gradient, &args),
        });
        let Found { value, cotangents, counts } = found?;
        let gradient = cotangents.iter().map(|d| d.map(|x| Ok(x.0.clone()))).collect::<Result<_>>()?;
        Ok(Outcome { value: value.0, gradient, counts: tally.of(counts) })
    }

    fn forward<T: Numeric>(&self, args: &[Value<T>]) -> Result<Found<T>> {
        let numbers: usize = args.iter().map(|arg| arg.numbers().len()).sum();
        let (mut partials, mut value, mut counts) = (Vec::with_capacity(numbers), None, Counts::default());
        for k in 0..numbers.max(1) {
            let mut place = 0;
            // The others are constants, so that no partial derivative is taken that does not exist.
            let mut dual = |x: &T| {
                let tangent = (place == k).then(|| T::integer(1));
                place += 1;
                Ok(Dual { value: x.clone(), tangent })
            };
            let args = args.iter().map(|arg| arg.map(&mut dual)).collect::<Result<Vec<_>>>()?;
            let (result, took) = lambda::evaluate(self.source, &args)?;
            let result = result.as_real()?;
            counts = counts + took;
            partials.push(result.derivative());
            value = Some(result.value.clone());
        }
        let mut partials = partials.into_iter();
        let cotangents = args.iter().map(|arg| {
            let like =
                arg.map(|_| partials.next().ok_or_else(|| Error::bug(PASS, "a partial derivative is missing")))?;
            cotangent_like(&like, vec![like.clone()])
        });
        let cotangents = cotangents.collect::<Result<_>>()?;
        Ok(Found { value: value.ok_or_else(|| Error::bug(PASS, "no value"))?, cotangents, counts })
    }
}

/// What a method has found.
struct Found<T> {
    value: T,
    cotangents: Vec<Value<T>>,
    counts: Counts,
}

impl<T: Numeric> Found<T> {
    fn new(value: &Value<T>, cotangents: &[Value<T>], args: &[Value<T>], counts: Counts) -> Result<Self> {
        if cotangents.len() != args.len() {
            return Err(Error::bug(PASS, "a cotangent is missing"));
        }
        let cotangents = args.iter().zip(cotangents).map(|(arg, d)| cotangent_like(arg, vec![d.clone()]));
        Ok(Found { value: value.as_real()?.clone(), cotangents: cotangents.collect::<Result<_>>()?, counts })
    }
}

fn by_chad<T: Numeric>(derivative: &chad::Derivative, args: &[Value<T>]) -> Result<Found<T>> {
    let mut machine = derivative.machine()?;
    let result = machine.evaluate(args)?;
    let (value, back) = result.as_pair()?;
    let env = machine.call(back, Value::Real(T::integer(1)))?;
    let zeros = derivative.parameters.iter().map(|ty| machine.zero_value(*ty)).collect::<Result<Vec<_>>>()?;
    let cotangents = machine.environment(&env, zeros)?;
    Found::new(value, &cotangents, args, machine.counts())
}

fn by_efficient<T: Numeric>(derivative: &efficient::Derivative, args: &[Value<T>]) -> Result<Found<T>> {
    let mut machine = Machine::new(&derivative.program)?.with_store(derivative.stage.store());
    let result = machine.evaluate(args)?;
    let (value, back) = result.as_pair()?;
    let action = machine.call(back, Value::Real(T::integer(1)))?;
    let zeros = derivative.cotangents.iter().map(|ty| machine.zero_value(*ty)).collect::<Result<Vec<_>>>()?;
    let (_, cotangents) = machine.run_action(&action, zeros)?;
    Found::new(value, &cotangents, args, machine.counts())
}

fn by_dual<T: Numeric + Send + Sync>(derivative: &dual::Derivative<'_>, args: &[Value<T>]) -> Result<Found<T>> {
    let run = derivative.run(args)?;
    let (cotangents, took) = run.pull_back(&[T::integer(1)])?;
    let counts = Counts { steps: took.forward + took.work, calls: took.calls, ..Counts::default() };
    Found::new(&run.value, &cotangents, args, counts)
}

fn by_continuation<T: Numeric>(gradient: &Program, args: &[Value<T>]) -> Result<Found<T>> {
    let (result, counts) = lambda::evaluate(gradient, args)?;
    let (value, mut rest) = result.as_pair()?;
    let mut cotangents = Vec::with_capacity(args.len());
    for _ in 1..args.len() {
        let (before, last) = rest.as_pair()?;
        cotangents.push(last.clone());
        rest = before;
    }
    if !args.is_empty() {
        cotangents.push(rest.clone());
    }
    cotangents.reverse();
    Found::new(value, &cotangents, args, counts)
}

/// The sum of cotangents, written out in the structure of a value: a bag becomes an array.
fn cotangent_like<T: Numeric>(like: &Value<T>, cotangents: Vec<Value<T>>) -> Result<Value<T>> {
    enum Step<'a, T> {
        Visit(&'a Value<T>, Vec<Value<T>>),
        Make(&'a Node<T>, usize),
    }
    let other = || Error::bug(PASS, "a cotangent of another structure");
    let (mut todo, mut done) = (vec![Step::Visit(like, cotangents)], Vec::new());
    while let Some(step) = todo.pop() {
        match step {
            Step::Visit(Value::Real(_), parts) => {
                let mut sum: Option<T> = None;
                for part in parts.iter().filter(|part| !matches!(part, Value::Zero)) {
                    let d = part.as_real()?;
                    sum = Some(sum.map_or_else(|| d.clone(), |sum| sum.add(d)));
                }
                done.push(Value::Real(sum.unwrap_or_else(T::zero)));
            }
            Step::Visit(Value::Node(node), parts) => match &**node {
                Node::Pair(a, b) => {
                    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
                    for part in parts.iter().filter(|part| !matches!(part, Value::Zero)) {
                        let (x, y) = part.as_pair()?;
                        of_a.push(x.clone());
                        of_b.push(y.clone());
                    }
                    todo.extend([Step::Make(node, 2), Step::Visit(b, of_b), Step::Visit(a, of_a)]);
                }
                Node::Inl(a) | Node::Inr(a) => {
                    let parts = parts.iter().filter(|part| !matches!(part, Value::Zero));
                    let under = parts.map(|part| part.as_sum().map(|side| side.unwrap_or_else(|d| d).clone()));
                    let under = under.collect::<Result<Vec<_>>>()?;
                    todo.extend([Step::Make(node, 1), Step::Visit(a, under)]);
                }
                Node::Array(items) => {
                    let elements = elements(items.len(), parts)?;
                    todo.push(Step::Make(node, items.len()));
                    todo.extend(items.iter().zip(elements).rev().map(|(item, parts)| Step::Visit(item, parts)));
                }
                // What is owed to a function is a log of its calls.
                _ => done.push(parts.into_iter().next().unwrap_or(Value::Zero)),
            },
            Step::Visit(Value::Int(_) | Value::Unit | Value::Zero, _) => done.push(Value::Unit),
            Step::Make(node, n) => {
                let from = done.len().checked_sub(n).ok_or_else(other)?;
                let mut parts = done.split_off(from);
                done.push(match (node, parts.pop()) {
                    (Node::Pair(..), Some(b)) => Value::pair(parts.pop().ok_or_else(other)?, b),
                    (Node::Inl(_), Some(a)) => Value::inl(a),
                    (Node::Inr(_), Some(a)) => Value::inr(a),
                    (_, last) => {
                        parts.extend(last);
                        Value::array(parts)
                    }
                });
            }
        }
    }
    done.pop().ok_or_else(other)
}

/// What is owed to each element of an array.
fn elements<T: Clone>(n: usize, parts: Vec<Value<T>>) -> Result<Vec<Vec<Value<T>>>> {
    let other = || Error::bug(PASS, "a cotangent of an array of another length");
    let mut elements: Vec<Vec<Value<T>>> = vec![Vec::new(); n];
    let mut todo: Vec<Value<T>> = parts.into_iter().rev().collect();
    while let Some(part) = todo.pop() {
        let Value::Node(node) = &part else { continue };
        match &**node {
            Node::Array(items) if items.len() == n => {
                elements.iter_mut().zip(items).for_each(|(element, item)| element.push(item.clone()));
            }
            Node::Entry(k, d) => {
                let element = usize::try_from(k.as_int()?).ok().and_then(|k| elements.get_mut(k));
                element.ok_or_else(other)?.push(d.clone());
            }
            Node::Plus(a, b) => todo.extend([b.clone(), a.clone()]),
            _ => return Err(other()),
        }
    }
    Ok(elements)
}

/// The value of a program of the tensor language whose result is a real number, its gradient by all parameters by a method, and what both take.
///
/// # Errors
/// As [`gradient`], [`elaborate`], and those of differentiation.
pub fn gradient_of_tensors<T: Numeric + Send + Sync>(
    source: &term::Program,
    method: Method,
    at: &Environment<T>,
) -> Result<TensorOutcome<T>> {
    if method == Method::Adjoint {
        return Adjoint::new(source)?.run(at);
    }
    let elaborated = elaborate(source, at)?;
    let args = elaborated.arguments(at)?;
    let outcome = match method {
        Method::Continuation => gradient(&elaborated.with_maps()?, method, &args)?,
        method => gradient(&elaborated.program, method, &args)?,
    };
    of_tensors(&elaborated, outcome, at)
}

/// What a method makes of a program of the tensor language for given sizes, for reading.
///
/// # Errors
/// As [`elaborate`] and [`transformed`].
pub fn transformed_tensors<T: Numeric>(source: &term::Program, method: Method, at: &Environment<T>) -> Result<Program> {
    let elaborated = elaborate(source, at)?;
    match method {
        Method::Continuation => transformed(&elaborated.with_maps()?, method),
        method => transformed(&elaborated.program, method),
    }
}

/// The same outcome with leaves.
fn of_tensors<T: Numeric>(
    elaborated: &Elaborated,
    outcome: Outcome<T>,
    at: &Environment<T>,
) -> Result<TensorOutcome<T>> {
    let Outcome { value, gradient, counts } = outcome;
    // Behind the parameters are relations.
    let of_params = gradient.iter().zip(0..at.params.len());
    let gradient = of_params.map(|(d, p)| elaborated.leaves_of_param(ParamId::from_index(p), d, at));
    Ok(TensorOutcome { value, gradient: gradient.collect::<Result<_>>()?, counts })
}

/// What evaluating a program of the tensor language takes in the lambda calculus, counted as its gradients are.
///
/// # Errors
/// As [`elaborate`], and those of the evaluator.
pub fn primal_counts<T: Numeric>(source: &term::Program, at: &Environment<T>) -> Result<Counts> {
    let elaborated = elaborate(source, at)?;
    let args = elaborated.arguments(at)?;
    let args = args.iter().map(|arg| arg.map(|x| Ok(Counted(x.clone())))).collect::<Result<Vec<_>>>()?;
    let (found, tally) = count(|| lambda::evaluate(&elaborated.program, &args));
    Ok(tally.of(found?.1))
}

/// The gradient of a program of the tensor language by the adjoint of the project.
#[derive(Debug)]
pub struct Adjoint {
    derived: Derived,
    params: Vec<String>,
}

impl Adjoint {
    /// Differentiates and simplifies.
    ///
    /// # Errors
    /// Those of differentiation.
    pub fn new(source: &term::Program) -> Result<Self> {
        let params: Vec<String> = source.signature.params.values().map(|param| param.name.clone()).collect();
        let function = Function::compile(source.clone(), &mut crate::stages::Stages::new())?;
        let request = Request { wrt: params.clone(), with_value: true, ..Request::new(Mode::Gradient, &[]) };
        Ok(Adjoint { derived: function.derive(&request)?, params })
    }

    /// The value and the gradient.
    ///
    /// # Errors
    /// Of the reference evaluator.
    pub fn run<T: Numeric>(&self, at: &Environment<T>) -> Result<TensorOutcome<T>> {
        match self.derived.function.flow() {
            Some(flow) => self.evaluate(flow, at),
            None => self.evaluate(self.derived.function.meant(), at),
        }
    }

    fn evaluate<T: Numeric>(&self, program: &impl Subject, at: &Environment<T>) -> Result<TensorOutcome<T>> {
        let at = at.map(|_, _, leaf| leaf.map(|x| Ok(Counted(x.clone()))))?;
        let (found, tally) = count(|| program.evaluate(&at, None, Limits::default(), None));
        let plain = |leaf: &Leaf<Counted<T>>| leaf.map(|x| Ok(x.0.clone()));
        let (mut value, mut gradient) = (None, vec![Vec::new(); self.params.len()]);
        for ((name, _), leaves) in program.results().into_iter().zip(found?) {
            let leaves = leaves.iter().map(plain).collect::<Result<Vec<_>>>()?;
            // A component of a pair is `grad_x.0`.
            let of = name.strip_prefix("grad_").map(|name| name.split('.').next().unwrap_or(name));
            match of.and_then(|of| self.params.iter().position(|param| param == of)) {
                Some(p) => gradient[p].extend(leaves),
                None => value = leaves.first().and_then(|leaf| leaf.values().first().cloned()).or(value),
            }
        }
        let value = value.ok_or_else(|| Error::bug(PASS, "a gradient without its value"))?;
        Ok(TensorOutcome { value, gradient, counts: tally.of(Counts::default()) })
    }
}

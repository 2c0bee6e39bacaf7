//! `--method`: gradients by the methods of `iverson::ir::functional`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use iverson::ir::diff::Part;
use iverson::ir::functional::lambda;
use iverson::ir::functional::methods::{self, Method};
use iverson::ir::reference::environment::to_value;
use iverson::ir::reference::{Counts, Environment};
use iverson::ir::term;
use iverson::ir::ty::Signature;
use iverson::tensor::{Inputs, Value, bind};
use iverson::{Error, Mode, Request, Result};

/// By which method.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct MethodArgument {
    /// How the gradient is found: by the adjoint of tensor programs, or for given sizes in the lambda calculus, by dual numbers one at a time,
    /// by CHAD, by efficient CHAD, by dual numbers with backpropagators, or by continuations.
    #[arg(long, requires = "derivative", value_parser = PossibleValuesParser::new(Method::ALL.map(Method::name))
        .try_map(|name| name.parse::<Method>()))]
    method: Option<Method>,
}

impl MethodArgument {
    /// The method, if it is none of tensor programs, for a derivative that all methods have.
    pub(super) fn of_lambda(&self, request: Option<&Request>, given: bool) -> Result<Option<Method>> {
        let Some(method) = self.method.filter(|method| *method != Method::Adjoint) else { return Ok(None) };
        let Some(request) = request else { return Ok(None) };
        let wrong = [
            (request.mode != Mode::Gradient, "gradients"),
            (request.columns.is_some() || request.part != Part::Whole || request.weighted, "whole gradients"),
            (given, "parameters that depend on no others, without --given and --implicit"),
        ];
        match wrong.into_iter().find(|(wrong, _)| *wrong) {
            Some((_, what)) => Err(Error::Request(format!("the method `{method}` is for {what}"))),
            None => Ok(Some(method)),
        }
    }
}

/// The gradient of a program at some inputs, named as results are, and what the program and the gradient take.
#[allow(clippy::type_complexity)]
pub(super) fn gradient(
    program: &term::Program,
    method: Method,
    request: &Request,
    inputs: &Inputs,
) -> Result<(Vec<(String, Value)>, [Counts; 2])> {
    let signature = &program.signature;
    let wrt: Vec<(&str, usize)> = request.wrt.iter().map(|name| parameter(signature, name)).collect::<Result<_>>()?;
    let bindings = bind(signature, inputs)?;
    let at = Environment::from_bindings(&bindings)?;
    let outcome = methods::gradient_of_tensors(program, method, &at)?;
    let mut results = Vec::new();
    if request.with_value {
        results.push(("value".to_owned(), Value::scalar(outcome.value)));
    }
    for (name, p) in wrt {
        let storage = signature.params.values().as_slice()[p].storage;
        results.push((format!("grad_{name}"), to_value(signature, &bindings, storage, &outcome.gradient[p])?));
    }
    Ok((results, [operations(methods::primal_counts(program, &at)?), operations(outcome.counts)]))
}

/// A parameter, and its place.
fn parameter<'a>(signature: &Signature, name: &'a str) -> Result<(&'a str, usize)> {
    let found = signature.params.values().position(|param| param.name == name);
    let found = found.ok_or_else(|| Error::Request(format!("there is no parameter `{name}`")))?;
    Ok((name, found))
}

fn operations(counts: lambda::Counts) -> Counts {
    Counts {
        additions: counts.adds.into(),
        multiplications: counts.muls.into(),
        functions: counts.functions.into(),
        partials: 0,
    }
}

/// What a method makes of a program for given sizes, which are `NAME=NUMBER`: its value, and the cotangents of all parameters.
pub(super) fn transformed(program: &term::Program, method: Method, sizes: &[String]) -> Result<String> {
    let names: Vec<&str> = program.signature.sizes.values().map(String::as_str).collect();
    let mut values: Vec<Option<i64>> = vec![None; names.len()];
    for argument in sizes {
        let wrong = || Error::Request(format!("--size takes NAME=NUMBER, a whole number, found `{argument}`"));
        let (name, number) = argument.split_once('=').ok_or_else(wrong)?;
        let number = number.parse().ok().filter(|n: &i64| *n >= 0).ok_or_else(wrong)?;
        let at = names.iter().position(|known| *known == name);
        let at =
            at.ok_or_else(|| Error::Request(format!("there is no size `{name}`; there are {}", names.join(", "))))?;
        values[at] = Some(number);
    }
    let missing: Vec<String> =
        names.iter().zip(&values).filter(|(_, n)| n.is_none()).map(|(name, _)| format!("--size {name}=4")).collect();
    if !missing.is_empty() {
        let missing = missing.join(" ");
        return Err(Error::Request(format!("the lambda calculus has numbers in the place of sizes: add {missing}")));
    }
    let sizes = values.into_iter().flatten().collect();
    let at: Environment<f64> = Environment { sizes, params: Vec::new(), relations: Vec::new() };
    Ok(methods::transformed_tensors(program, method, &at)?.to_string())
}

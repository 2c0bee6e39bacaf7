//! Functions in files, by `serde`: a program that was read is saved as its text, and a derivative as its statements, so what is loaded computes the
//! same bits. What is read is parsed and verified as anything else.
//!
//! ```
//! use iverson::prelude::*;
//!
//! let gradient = Function::parse("param x : [n] real\nsum i < n. x[i]^3")?.gradient(["x"])?;
//! let text = serde_json::to_string(&gradient).expect("it can be saved");
//! let again: Function = serde_json::from_str(&text).expect("it can be loaded");
//! assert_eq!(again.to_string(), gradient.to_string());
//! assert_eq!(again.eval(&inputs! { "x" => [2.0] })?["grad_x"].as_slice(), Some(&[12.0][..]));
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! Refused: native scalar functions, which are code, and parameters that [depend](Function::with_derivative) on others.

use std::sync::Arc;

use serde::{Deserialize, Serialize, de, ser};

use super::Function;
use super::flows::Steps;
use crate::scalar::UserValue;
use crate::{flow, tssa};

/// A function in a file: as text, or as statements in JSON, with loops around them or not.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Saved {
    Program(String),
    Statements { json: String, strict: Option<String>, sparse: Vec<String> },
    Flow { json: String, kernel: Option<String> },
}

impl Serialize for Function {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.dependents.is_empty() {
            return Err(ser::Error::custom("a function with parameters that depend on others cannot be saved"));
        }
        let functions = self.tssa.signature.functions.values();
        if let Some(native) = functions.into_iter().find(|f| !matches!(f.value(), UserValue::Formula(_))) {
            return Err(ser::Error::custom(format!(
                "the function `{}` is code in Rust and cannot be saved",
                native.name()
            )));
        }
        let saved = match &self.source {
            Some(source) if self.sparse.is_empty() => Saved::Program(source.to_string()),
            _ if let Some(flow) = &self.flow => {
                let kernel = match &self.steps {
                    Some(_) => self.flow_of_kernels().map_err(ser::Error::custom)?,
                    None => None,
                };
                let kernel = kernel.map(|flow| flow.to_json().map_err(ser::Error::custom)).transpose()?;
                Saved::Flow { json: flow.to_json().map_err(ser::Error::custom)?, kernel }
            }
            _ => Saved::Statements {
                json: self.tssa.to_json().map_err(ser::Error::custom)?,
                strict: self.strict.as_ref().map(|strict| strict.to_json()).transpose().map_err(ser::Error::custom)?,
                sparse: self.sparse.clone(),
            },
        };
        saved.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Function {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Function, D::Error> {
        match Saved::deserialize(deserializer)? {
            Saved::Program(text) => Function::parse(&text).map_err(de::Error::custom),
            Saved::Flow { json, kernel } => {
                let function = Function::from_flow(flow::Program::from_json(&json).map_err(de::Error::custom)?);
                let Some(kernel) = kernel else { return Ok(function) };
                let kernel = flow::Program::from_json(&kernel).map_err(de::Error::custom)?;
                if !function.flow().is_some_and(|flow| computes_the_same(flow, &kernel)) {
                    return Err(de::Error::custom("the kernel is that of another program"));
                }
                Ok(Function { steps: Some(Steps::from_made(kernel)), ..function })
            }
            Saved::Statements { json, strict, sparse } => {
                let read = |json: &String| tssa::Program::from_json(json).map_err(de::Error::custom);
                let (tssa, strict) = (read(&json)?, strict.as_ref().map(read).transpose()?.map(Arc::new));
                if strict.as_ref().is_some_and(|strict| !have_the_same_results(&tssa, strict)) {
                    return Err(de::Error::custom("what is meant is another program"));
                }
                if let Some(name) = sparse.iter().find(|name| tssa.outputs.iter().all(|output| output.name != **name)) {
                    return Err(de::Error::custom(format!("the program has no result `{name}`")));
                }
                Ok(Function { sparse, strict, ..Function::from_tensor_ssa(tssa) })
            }
        }
    }
}

/// Whether programs take the same and have results of the same names, types and formats.
fn have_the_same_results(program: &tssa::Program, strict: &tssa::Program) -> bool {
    let results = |program: &tssa::Program| {
        program.outputs.iter().map(|output| (output.name.clone(), output.ty, output.storage)).collect::<Vec<_>>()
    };
    program.signature == strict.signature && results(program) == results(strict)
}

/// Whether flows take the same and have results of the same names and types.
fn computes_the_same(flow: &flow::Program, kernel: &flow::Program) -> bool {
    let results = |flow: &flow::Program| {
        let leaves = |output: &flow::Output| Some((output.name.clone(), flow.frame.types.leaves(output.ty).ok()?));
        flow.outputs.iter().map(leaves).collect::<Option<Vec<_>>>()
    };
    flow.signature == kernel.signature && results(flow) == results(kernel)
}

//! Functions of tensors from outside, by headers as programs have them.
//!
//! ```text
//! f(x : [n] real, ..) : T     the parameters of `def f(x : [n] real, ..) : T = ..`, and the type of what it gives
//! ```
//!
//! The header is read as that of a definition, whose parameters and results are those of a program; so sizes and types are what they are elsewhere.
//! Refused are parameters that are no tensors of reals.

use std::fmt::Write;
use std::sync::Arc;

use super::ast::{Ast, Decl, Name, StorageKind};
use super::{elaborate, parse, read};
use crate::base::{ParamId, Span};
use crate::error::{Error, Result};
use crate::index::Size;
use crate::scalar::UserFunction;
use crate::scalar::external::{Argument, External};
use crate::term::Program;

impl UserFunction {
    /// A function of tensors: code that programs call by name and cannot look into. The header is that of a `def`; the code is given what the function
    /// takes, each tensor a slice with its shape, and fills what it gives, which is zero before. It gives the same for the same, and may be called from
    /// several threads, and again by a derivative.
    ///
    /// Derivatives go through it where it has one: [`with_adjoint`](UserFunction::with_adjoint), [`with_forward`](UserFunction::with_forward).
    ///
    /// ```
    /// use iverson::builder::UserFunction;
    /// use iverson::prelude::*;
    ///
    /// // Sums of all beginnings; what is owed to an element are the sums of all ends.
    /// let sums = UserFunction::external("sums(x : [n] real) : [n] real", |x, y| {
    ///     let mut sum = 0.0;
    ///     for (y, x) in y[0].iter_mut().zip(x[0].iter()) {
    ///         sum += x;
    ///         *y = sum;
    ///     }
    /// })?
    /// .with_adjoint(|given, owed| {
    ///     // What it takes, what it gives, what is owed to that.
    ///     let [_x, _y, dy] = given else { return };
    ///     let mut sum = 0.0;
    ///     for (dx, dy) in owed[0].iter_mut().zip(dy.iter()).rev() {
    ///         sum += dy;
    ///         *dx = sum;
    ///     }
    /// })?;
    /// let text = "param x : [n] real\nsum i < n. sums(gen i < n. x[i]^2)[i]^2 / 2";
    /// let loss = Function::parse_with(text, &[sums], &mut |_, _| Err("it imports nothing".to_owned()))?;
    /// let gradient = loss.gradient(["x"])?;
    /// assert_eq!(gradient.eval(&inputs! { "x" => [1.0, 2.0] })?["grad_x"].as_slice(), Some(&[12.0, 20.0][..]));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Program`] for a header that cannot be read, with its place in it; [`Error::Request`] for one that says too little, a result or what a
    /// size is, and for a name that no program can call.
    pub fn external(
        header: &str,
        code: impl Fn(&[Argument<'_>], &mut [&mut [f64]]) + Send + Sync + 'static,
    ) -> Result<UserFunction> {
        let text = format!("def {header} = 0\n0");
        let (mut ast, mut problems) = parse(&text);
        if !problems.is_empty() {
            ast.locate(&mut problems);
            return Err(Error::Program(problems));
        }
        let (name, params) = signature(&mut ast, header)?;
        let program = elaborate(&ast, &[]).map_err(Error::Program)?;
        let signature = &program.signature;
        let tensor = |at: usize| {
            let param = signature.params.get(ParamId(at as u32));
            let dims = param.and_then(|param| signature.types.real_dims(param.ty));
            dims.ok_or_else(|| Error::Request(format!("the function `{name}`: each parameter is a tensor of reals")))
        };
        let mut taken = Vec::with_capacity(params.len());
        for (at, param) in params.iter().enumerate() {
            taken.push((param.clone(), tensor(at)?));
        }
        let result = signature.params.get(ParamId(params.len() as u32));
        let result = result.ok_or_else(|| Error::bug("external", "a header without a result"))?;
        let results: Vec<Vec<Size>> = signature.types.leaves(result.ty)?.into_iter().map(|leaf| leaf.dims).collect();
        let sizes = signature.sizes.values().cloned().collect();
        UserFunction::from_external(&name, External::new(sizes, taken, results, Arc::new(code)))
    }
}

/// The program that calls a function of tensors with its parameters.
pub(crate) fn call_of(function: &UserFunction) -> Result<Program> {
    let external = function.of_tensors().ok_or_else(|| Error::bug("external", "a function of numbers"))?;
    let mut text = String::new();
    for (param, ty) in external.parameters() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "param {param} : {ty}");
    }
    let params: Vec<&str> = external.params.iter().map(|(param, _)| param.as_str()).collect();
    let _ = write!(text, "{}({})", function.name(), params.join(", "));
    read(&text, std::slice::from_ref(function))
}

/// Makes the declarations of a tree, one definition, parameters: those of the definition, and its result. Gives its name and theirs.
fn signature(ast: &mut Ast, header: &str) -> Result<(String, Vec<String>)> {
    let wrong =
        |what: &str| Error::Request(format!("the header `{header}` {what}, as in `f(x : [n] real) : [n] real`"));
    let [Decl::Def { name, params, result, .. }] = ast.decls.as_slice() else {
        return Err(wrong("is no header of a function"));
    };
    let Some(result) = result.clone() else { return Err(wrong("does not say what the function gives")) };
    let (name, params) = (name.text.clone(), params.clone());
    let names = params.iter().map(|(name, _)| name.text.clone()).collect();
    let result = (Name { text: format!("{name}'result"), span: Span::default() }, result);
    let all = params.into_iter().chain([result]);
    let param = |(name, ty)| Decl::Param { name, storage: StorageKind::Dense, like: None, ty };
    ast.decls = all.map(param).collect();
    Ok((name, names))
}

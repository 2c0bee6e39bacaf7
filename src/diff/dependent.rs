//! Parameters that depend on others: derivatives of what is computed outside of a program.
//!
//! A program may take a tensor `y = F(x)` that a solver, a simulation or another program computes, and that is a parameter like any other
//! until the program is differentiated by `x`. Then `F` brings its own derivative as a program, forward, `L(x, y; dx)`, or adjoint,
//! `L'(x, y; dy)`, which may use the value `y`. Either is linear in its last argument, so each is the transposed of the other, and
//! the one that is not given is derived. The rest is the chain rule, with `y` as an independent parameter of `f`:
//!
//! ```text
//! D f(x, y; dx)   =  Dx f dx + Dy f L(x, y; dx)                forward
//! D' f(x, y; dy)  =  Dx' f dy + L'(x, y; Dy' f dy)             adjoint
//! J               =  Jx + Jy JL                                Jacobian, as sums of guarded coefficients
//! ```
//!
//! A parameter that depends on parameters which depend on others comes after them. One that is differentiated by is independent.
//!
//! **Implicit functions.** Where `y` solves `g(x, y) = 0`, element by element, the residual `g` is enough: with `d` the diagonal of
//! `Dy g`, `L = -(Dx g dx) / d`. A residual whose elements mix elements of `y` is refused, as its derivative takes a solver too: there the
//! caller has `Dy' f dy` from one program, solves, and gives the solution to the adjoint of `g` by `x`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::adjoint::{Adjoint, Options, adjoint};
use super::blocks::elementwise;
use super::forward::{Forward, aligned, forward, product, zero};
use super::linear::transposed;
use super::{NewParams, expand_partials};
use crate::base::{ParamId, VarId};
use crate::error::{Error, Result};
use crate::index::Affine;
use crate::scalar::{Function, Number, Op};
use crate::tssa::{Builder, Output, Program, Rhs, import};
use crate::ty::{Leaf, Side, Signature, Storage};

/// A parameter that is computed from others outside of a program, with the derivatives of that computation.
///
/// The programs have the parameters of the program that they belong to, and more at the end.
#[derive(Clone, Debug)]
pub struct Dependent {
    /// The parameter.
    pub param: ParamId,
    /// `L(x, y; dx)`, with one output.
    pub(super) forward: Program,
    /// Each parameter that it depends on, with the parameter of `forward` that is its tangent.
    pub(super) tangents: Vec<(ParamId, ParamId)>,
    /// `L'(x, y; dy)`, with an output for each parameter that it depends on, in the order of `tangents`.
    adjoint: Program,
    /// The parameter of `adjoint` that is the seed.
    seed: ParamId,
}

impl Dependent {
    /// The parameter of a program of the given name, with the derivative of what computes it: forward, with a parameter `dx` for each
    /// parameter `x` that it depends on and a result like `y`, or adjoint, with a parameter `dy` and results `adjoint_x`.
    /// All other parameters are those of the program, by name.
    ///
    /// # Errors
    /// [`Error::Request`] for a derivative that is not of this form, or not linear in what it takes; [`Error::Overflow`] and [`Error::Bug`].
    pub fn new(signature: &Arc<Signature>, name: &str, derivative: &Program) -> Result<Dependent> {
        let param = named(signature, name)?;
        let derivative = &expand_partials(derivative)?;
        let seed = format!("d{name}");
        if derivative.signature.param(&seed).is_some() && signature.param(&seed).is_none() {
            Dependent::from_adjoint(signature, param, derivative)
        } else {
            Dependent::from_forward(signature, param, derivative)
        }
    }

    fn from_forward(signature: &Arc<Signature>, param: ParamId, derivative: &Program) -> Result<Dependent> {
        let mut params = NewParams::new(signature);
        let mut tangents = Vec::new();
        for (x, of) in signature.params.iter().filter(|(x, _)| *x != param) {
            let name = format!("d{}", of.name);
            if derivative.signature.param(&name).is_some() && signature.param(&name).is_none() {
                tangents.push((x, params.add(&name, of.ty, of.storage)));
            }
        }
        let name = &signature.params[param].name;
        if tangents.is_empty() {
            return Err(Error::Request(format!(
                "a derivative of `{name}` takes a tangent `dx` of a parameter `x`, or a seed `d{name}`; this one takes neither"
            )));
        }
        let forward = import(derivative, &params.signature)?;
        match forward.outputs.as_slice() {
            [output] => check_output(signature, param, &forward, output)?,
            outputs => {
                let found = outputs.len();
                return Err(Error::Request(format!("the tangent of `{name}` is one result, but there are {found}")));
            }
        }
        Dependent::transposing(param, forward, tangents)
    }

    fn from_adjoint(signature: &Arc<Signature>, param: ParamId, derivative: &Program) -> Result<Dependent> {
        let mut params = NewParams::new(signature);
        let of = &signature.params[param];
        let seed = params.add(&format!("d{}", of.name), of.ty, of.storage);
        let adjoint = import(derivative, &params.signature)?;
        let mut xs = Vec::new();
        for output in &adjoint.outputs {
            let x = output.name.strip_prefix("adjoint_").and_then(|x| signature.param(x));
            let x = x.filter(|x| *x != param).ok_or_else(|| {
                let message = "the results of an adjoint derivative are called `adjoint_x` for parameters `x`";
                Error::Request(format!("{message}, but one is called `{}`", output.name))
            })?;
            check_output(signature, x, &adjoint, output)?;
            xs.push(x);
        }
        let Adjoint { program: forward, seeds, .. } = transposed(&adjoint, &[seed])?;
        let tangents = xs.into_iter().zip(seeds).collect();
        Ok(Dependent { param, forward, tangents, adjoint, seed })
    }

    /// The parameter of the given name as the solution of `residual = 0`, element by element; the residual is a program with one result of
    /// the shape of the parameter.
    ///
    /// # Errors
    /// [`Error::Request`] for a residual of another shape, or one whose elements depend on other elements of the parameter;
    /// [`Error::Overflow`] and [`Error::Bug`].
    pub fn implicit(signature: &Arc<Signature>, name: &str, residual: &Program) -> Result<Dependent> {
        let param = named(signature, name)?;
        let residual = expand_partials(&import(residual, signature)?)?;
        match residual.outputs.as_slice() {
            [output] => check_output(signature, param, &residual, output)?,
            _ => return Err(Error::Request(format!("the residual of `{name}` is one result"))),
        }
        let Some(diagonal) = elementwise(&residual, param)? else {
            return Err(Error::Request(format!(
                "each element of the residual of `{name}` depends on the same element of `{name}` and on no other, which \
                 is not so for this one; give the derivative of `{name}` as a program"
            )));
        };
        let reads = |x: &ParamId| {
            let read = |rhs: &Rhs| matches!(rhs, Rhs::Input { param, .. } if param == x);
            *x != param && residual.stmts.values().any(|stmt| read(&stmt.rhs))
        };
        let wrt: Vec<ParamId> = signature.params.ids().filter(reads).collect();
        let Forward { program: ahead, tangents } = forward(&residual, &wrt, false)?;
        let mut builder = Builder::resume(&ahead);
        let divisor = builder.append(&diagonal, &|_, _| None)?;
        let leaf = |outputs: &[Output]| outputs.first().and_then(|output| output.leaves.first()).copied();
        let (Some(dg), Some(d)) = (leaf(&ahead.outputs), leaf(&divisor)) else {
            return Err(Error::bug("dependent", "a residual without elements"));
        };
        let axes = builder.dims(dg).to_vec();
        let axes = builder.fresh_indices(&axes);
        let stored = signature.params[param].storage.stored_at(&Affine::indices(&axes));
        let quotient = builder.map(&axes, stored.clone(), Function::from(Op::Div), vec![dg, d])?;
        let minus = builder.number(&[], Number::Literal(-1.0))?;
        let dy = product(&mut builder, &axes, &[], stored, vec![aligned(&[], minus), aligned(&axes, quotient)])?;
        let of = &signature.params[param];
        let output = Output { name: "tangent".to_owned(), ty: of.ty, storage: of.storage, leaves: vec![dy] };
        let forward = expand_partials(&builder.finish(vec![output]).prune()?)?;
        Dependent::transposing(param, forward, tangents)
    }

    /// By its forward derivative.
    fn transposing(param: ParamId, forward: Program, tangents: Vec<(ParamId, ParamId)>) -> Result<Dependent> {
        let wrt: Vec<ParamId> = tangents.iter().map(|(_, dx)| *dx).collect();
        let Adjoint { program: adjoint, seeds, .. } = transposed(&forward, &wrt)?;
        let [seed] = seeds.as_slice() else { return Err(Error::bug("dependent", "one output has one seed")) };
        Ok(Dependent { param, forward, tangents, adjoint, seed: *seed })
    }

    /// The parameters that it depends on.
    pub fn on(&self) -> impl Iterator<Item = ParamId> + '_ {
        self.tangents.iter().map(|(x, _)| *x)
    }
}

/// A parameter by its name.
fn named(signature: &Signature, name: &str) -> Result<ParamId> {
    signature.param(name).ok_or_else(|| Error::Request(format!("the program has no parameter `{name}`")))
}

/// Checks that a result is like a parameter.
fn check_output(signature: &Signature, param: ParamId, program: &Program, output: &Output) -> Result<()> {
    let like = &signature.params[param];
    let same = program.signature.types.leaves(output.ty)? == signature.types.leaves(like.ty)?;
    // What is dense may be more than a sparse parameter stores, but not the other way round.
    if same && (output.storage == like.storage || output.storage == Storage::Dense) {
        return Ok(());
    }
    Err(Error::Request(format!("the result `{}` is not of the shape of the parameter `{}`", output.name, like.name)))
}

/// The parameters that depend on some, except for these, in order.
fn reached<'a>(dependents: &'a [Dependent], wrt: &[ParamId]) -> Vec<&'a Dependent> {
    let mut moving: BTreeSet<ParamId> = wrt.iter().copied().collect();
    let mut reached = Vec::new();
    for dependent in dependents.iter().filter(|dependent| !wrt.contains(&dependent.param)) {
        if dependent.on().any(|x| moving.contains(&x)) {
            moving.insert(dependent.param);
            reached.push(dependent);
        }
    }
    reached
}

/// Some parameters, and those that depend on them.
fn with_reached(wrt: &[ParamId], reached: &[&Dependent]) -> Vec<ParamId> {
    wrt.iter().copied().chain(reached.iter().map(|dependent| dependent.param)).collect()
}

/// Tensors for leaves of parameters.
#[derive(Default)]
struct Tensors(BTreeMap<(ParamId, Vec<Side>), VarId>);

impl Tensors {
    fn get(&self, param: ParamId, path: &[Side]) -> Option<VarId> {
        self.0.get(&(param, path.to_vec())).copied()
    }

    fn insert(&mut self, param: ParamId, path: Vec<Side>, x: VarId) {
        self.0.insert((param, path), x);
    }
}

/// The leaves of a parameter.
fn leaves(signature: &Signature, param: ParamId) -> Result<Vec<Leaf>> {
    signature.types.leaves(signature.params[param].ty)
}

/// [`forward`] of a program some of whose parameters depend on others.
///
/// # Errors
/// As [`forward`].
pub fn forward_through(
    program: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
    with_value: bool,
) -> Result<Forward> {
    let reached = reached(dependents, wrt);
    let Forward { program: ahead, mut tangents } = forward(program, &with_reached(wrt, &reached), with_value)?;
    if reached.is_empty() {
        return Ok(Forward { program: ahead, tangents });
    }
    let signature = &program.signature;
    let mut builder = Builder::new(ahead.signature.clone());
    let mut known = Tensors::default();
    let given = tangents.split_off(wrt.len());
    for (x, dx) in &tangents {
        for leaf in leaves(signature, *x)? {
            known.insert(*x, leaf.path.clone(), builder.input(*dx, leaf.path, leaf.dims));
        }
    }
    for dependent in reached {
        let mut inner = Tensors::default();
        for (x, dx) in &dependent.tangents {
            for leaf in leaves(signature, *x)? {
                let tangent = match known.get(*x, &leaf.path) {
                    Some(tangent) => tangent,
                    None => zero(&mut builder, &leaf.dims)?,
                };
                inner.insert(*dx, leaf.path, tangent);
            }
        }
        let outputs = builder.append(&dependent.forward, &|param, path| inner.get(param, path))?;
        let y = dependent.param;
        for (leaf, x) in leaves(signature, y)?.into_iter().zip(outputs.iter().flat_map(|output| &output.leaves)) {
            known.insert(y, leaf.path, *x);
        }
    }
    let outputs = builder.append(&ahead, &|param, path| {
        let (y, _) = given.iter().find(|(_, dy)| *dy == param)?;
        known.get(*y, path)
    })?;
    let gone: Vec<ParamId> = given.iter().map(|(_, dy)| *dy).collect();
    Ok(Forward { program: builder.finish(outputs).prune()?.without(&gone)?, tangents })
}

/// [`adjoint`] of a program some of whose parameters depend on others. A derivation is that of the program with all of these as
/// independent.
///
/// # Errors
/// As [`adjoint`].
pub fn adjoint_through(
    program: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
    options: Options,
) -> Result<Adjoint> {
    let reached = reached(dependents, wrt);
    let all = with_reached(wrt, &reached);
    let Adjoint { program: mut back, seeds, derivation } = adjoint(program, &all, options)?;
    if reached.is_empty() {
        return Ok(Adjoint { program: back, seeds, derivation });
    }
    let signature = &program.signature;
    let mut builder = Builder::resume(&back);
    let mut outputs = std::mem::take(&mut back.outputs);
    let mut adjoints = outputs.split_off(outputs.len().saturating_sub(all.len()));
    for dependent in reached.iter().rev() {
        let at = |x: ParamId| all.iter().position(|y| *y == x);
        let Some(dy) = at(dependent.param).and_then(|at| adjoints.get(at)) else { continue };
        let mut seed = Tensors::default();
        for (leaf, x) in leaves(signature, dependent.param)?.into_iter().zip(&dy.leaves) {
            seed.insert(dependent.seed, leaf.path, *x);
        }
        let found = builder.append(&dependent.adjoint, &|param, path| seed.get(param, path))?;
        for (x, found) in dependent.on().zip(found) {
            let Some(sum) = at(x).and_then(|at| adjoints.get_mut(at)) else { continue };
            for (total, more) in sum.leaves.iter_mut().zip(found.leaves) {
                let axes = builder.dims(more).to_vec();
                let axes = builder.fresh_indices(&axes);
                let stored = sum.storage.stored_at(&Affine::indices(&axes));
                *total = builder.add(&axes, [(stored.clone(), *total), (stored, more)])?;
            }
        }
    }
    outputs.extend(adjoints.into_iter().take(wrt.len()));
    Ok(Adjoint { program: builder.finish(outputs).prune()?, seeds, derivation })
}

/// A program together with the derivatives of its parameters that depend on others.
#[derive(Debug)]
pub(super) struct Linked {
    /// The program; statements are added at the end, the outputs stay.
    pub program: Program,
    /// The derivatives, in order.
    pub links: Vec<Link>,
}

/// `y` with `L(x, y; dx)`.
#[derive(Debug)]
pub(super) struct Link {
    pub param: ParamId,
    /// `L`.
    pub tangent: Output,
    /// Each parameter `x` with `dx`, which is a new parameter of the program.
    pub tangents: Vec<(ParamId, ParamId)>,
}

/// The program with the forward derivatives of the parameters that depend on some.
pub(super) fn linked(program: &Program, dependents: &[Dependent], wrt: &[ParamId]) -> Result<Linked> {
    let mut params = NewParams::new(&program.signature);
    let mut builder = Builder::resume(program);
    let mut links = Vec::new();
    for dependent in reached(dependents, wrt) {
        let mut tangents = Vec::new();
        let mut inner = Tensors::default();
        for (x, dx) in &dependent.tangents {
            let of = &program.signature.params[*x];
            let new = params.add(&format!("d{}", of.name), of.ty, of.storage);
            builder.extend_signature(params.signature.clone());
            tangents.push((*x, new));
            for leaf in leaves(&program.signature, *x)? {
                inner.insert(*dx, leaf.path.clone(), builder.input(new, leaf.path, leaf.dims));
            }
        }
        let outputs = builder.append(&dependent.forward, &|param, path| inner.get(param, path))?;
        let tangent =
            outputs.into_iter().next().ok_or_else(|| Error::bug("dependent", "a derivative has no result"))?;
        let of = &program.signature.params[dependent.param];
        let tangent = Output { ty: of.ty, storage: of.storage, ..tangent };
        links.push(Link { param: dependent.param, tangent, tangents });
    }
    Ok(Linked { program: builder.finish(program.outputs.clone()), links })
}

//! Products of second derivatives with vectors, made of two first derivatives.

use super::NewParams;
use super::adjoint::Adjoint;
use super::dependent::{Dependent, adjoint_through, forward_through};
use super::forward::{aligned, product};
use super::linear::SEEDED;
use crate::base::{ParamId, VarId};
use crate::error::Result;
use crate::index::Affine;
use crate::tssa::{Builder, Output, Program};

/// The product of the Gauss-Newton matrix with a vector, `J' (J v)`, or `J' (W (J v))` with a new parameter `weight` of the shape of the
/// output: the adjoint at the forward derivative. It takes a tangent `dx` of each parameter `x`, and its results are `gauss_newton_x`.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn gauss_newton_product(
    program: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
    weighted: bool,
) -> Result<(Program, Vec<ParamId>)> {
    let Adjoint { program: back, seeds, derivation: _ } = adjoint_through(program, dependents, wrt, SEEDED)?;
    let ahead = forward_through(program, dependents, wrt, false)?;
    let mut params = NewParams::new(&ahead.program.signature);
    let mut builder = Builder::resume(&ahead.program);
    let mut seeded: Vec<(ParamId, Vec<VarId>)> = Vec::new();
    for ((output, tangent), seed) in program.outputs.iter().zip(&ahead.program.outputs).zip(seeds) {
        let mut leaves = tangent.leaves.clone();
        if weighted {
            let weight = params.weight(output);
            builder.extend_signature(params.signature.clone());
            for (leaf, x) in program.signature.types.leaves(output.ty)?.into_iter().zip(&mut leaves) {
                let factor = builder.input(weight, leaf.path, leaf.dims.clone());
                let gens = builder.fresh_indices(&leaf.dims);
                let stored = output.storage.stored_at(&Affine::indices(&gens));
                let operands = vec![aligned(&gens, factor), aligned(&gens, *x)];
                *x = product(&mut builder, &gens, &[], stored, operands)?;
            }
        }
        seeded.push((seed, leaves));
    }
    let mut outputs = builder.append(&back, &|param, path| {
        let (seed, leaves) = seeded.iter().find(|(seed, _)| *seed == param)?;
        let all = back.signature.types.leaves(back.signature.params[*seed].ty).ok()?;
        leaves.get(all.iter().position(|leaf| leaf.path == path)?).copied()
    })?;
    for output in &mut outputs {
        output.name = output.name.replacen("adjoint", "gauss_newton", 1);
    }
    let tangents = ahead.tangents.into_iter().map(|(_, tangent)| tangent).collect();
    Ok((builder.finish(outputs).prune()?, tangents))
}

/// The product of the Hessian with a vector: the forward derivative of a gradient. It takes a tangent `dx` of each parameter `x`, and its
/// results are `hessian_x`.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn hessian_product(
    gradient: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
) -> Result<(Program, Vec<ParamId>)> {
    let mut derived = forward_through(gradient, dependents, wrt, false)?;
    let rename = |output: Output| {
        let name = output.name.replacen("tangent_grad", "hessian", 1);
        Output { name, ..output }
    };
    derived.program.outputs = derived.program.outputs.into_iter().map(rename).collect();
    Ok((derived.program, derived.tangents.into_iter().map(|(_, tangent)| tangent).collect()))
}

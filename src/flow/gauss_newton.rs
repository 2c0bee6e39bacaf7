//! Gauss-Newton matrices and products of flows.
//!
//! ```text
//! J' W J v                ==  D^T f(x; w * D f(x; v))                       the cotangents begin with tangents
//! (J' W J)[c, d]          ==  sum r. w[r] * J[r, c] * J[r, d]               over all results
//! ```
//!
//! Both share the values of the program among what they compute.

use super::active::Active;
use super::adjoint::owed_to_params;
use super::build::Builder;
use super::data::{Loops, Output, Program, Stmt, ValueId};
use super::extend::extended;
use super::forward::{Direction, Forward};
use super::jacobian::{Blocks, Row, block_name, cheapest};
use super::join::join;
use super::leaf::{Joined, Small, Source};
use crate::base::{IndexId, ParamId, VarId};
use crate::diff::{Sweep, Work};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size};
use crate::tssa::Operand;
use crate::ty::{Block, Storage, TypeId, Types};

/// The parameters of the weights of all results: `weight`, or `weight_y` for the result `y`.
fn weights(program: &Program) -> Vec<(String, TypeId, Storage)> {
    let weight = |output: &Output| {
        let name = if output.name == "value" { "weight".to_owned() } else { format!("weight_{}", output.name) };
        let storage = output.values.first().map_or(Storage::Dense, |x| program.values[*x].storage);
        (name, output.ty, storage)
    };
    program.outputs.iter().map(weight).collect()
}

/// The product of the Gauss-Newton matrix with a vector, and the parameters of the vector; see
/// [`diff::gauss_newton_product`](crate::diff::gauss_newton_product).
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn gauss_newton_product(program: &Program, wrt: &[ParamId], weighted: bool) -> Result<(Program, Vec<ParamId>)> {
    let tangent = |x: &ParamId| {
        let param = &program.signature.params[*x];
        (format!("d{}", param.name), param.ty, param.storage)
    };
    let mut params: Vec<_> = wrt.iter().map(tangent).collect();
    if weighted {
        params.extend(weights(program));
    }
    let (program, mut added) = extended(program, &params)?;
    let weights = added.split_off(wrt.len());
    let loops = Loops::new();
    let tangents = wrt.iter().copied().zip(added.iter().copied().map(Source::Param)).collect();
    let direction = Direction::new(tangents, &program.body)?;
    let mut ahead = Forward::new(Builder::resume(&program), vec![direction]);
    let mut body = ahead.block(&program.body, &loops)?;
    let mut seeds: Vec<(ValueId, ValueId)> = Vec::new();
    for (at, output) in program.outputs.iter().enumerate() {
        let mut factors = Vec::new();
        if let Some(weight) = weights.get(at) {
            let leaf = Small { flow: &mut ahead.flow, loops: &loops }.parameter(*weight)?;
            factors.clone_from(&leaf.gives);
            body.push(Stmt::Leaf(leaf));
        }
        for (at, x) in output.values.iter().enumerate() {
            // What has no tangent owes nothing.
            let Some(mut seed) = ahead.directions.first().and_then(|direction| direction.tangent(*x)) else { continue };
            if let Some(weight) = factors.get(at) {
                let leaf = Small { flow: &mut ahead.flow, loops: &loops }.product("dy", *weight, seed)?;
                seed = leaf.given()?;
                body.push(Stmt::Leaf(leaf));
            }
            seeds.push((*x, seed));
        }
    }
    let mut active = Active { params: wrt.iter().copied().collect(), ..Active::default() };
    active.through(&program.body)?;
    let (mut flow, mut owed) = owed_to_params(ahead.flow, &program.body, &active, &seeds, &mut body)?;
    let mut outputs = Vec::with_capacity(wrt.len());
    for x in wrt {
        let param = program.signature.params[*x].clone();
        let name = format!("gauss_newton_{}", param.name);
        let mut values = Vec::new();
        for (at, part) in program.signature.types.leaves(param.ty)?.into_iter().enumerate() {
            values.push(match owed.remove(&(*x, at)) {
                Some(value) => value,
                None => {
                    let leaf = Small { flow: &mut flow, loops: &loops }.zeros(&name, &part.dims, param.storage)?;
                    let value = leaf.given()?;
                    body.push(Stmt::Leaf(leaf));
                    value
                }
            });
        }
        outputs.push(Output { name, ty: param.ty, values });
    }
    Ok((join(&flow.finish(body, outputs))?, added))
}

/// The Gauss-Newton matrix of a flow, and what its results are blocks of; see [`diff::gauss_newton`](crate::diff::gauss_newton).
///
/// # Errors
/// As [`diff::jacobian`](crate::diff::jacobian()).
pub fn gauss_newton(
    program: &Program,
    wrt: &[ParamId],
    sweep: Sweep,
    weighted: bool,
    work: Work<'_>,
) -> Result<(Program, Vec<Block>)> {
    let added = if weighted { weights(program) } else { Vec::new() };
    let (program, weights) = extended(program, &added)?;
    let mut of_rows = Vec::new();
    for (weight, output) in weights.iter().zip(&program.outputs) {
        let leaves = program.signature.types.leaves(output.ty)?;
        of_rows.extend(leaves.into_iter().map(|leaf| Weight { param: *weight, path: leaf.path }));
    }
    cheapest(&program, wrt, (sweep, work), None, &|blocks| {
        let columns = blocks.columns.len();
        let mut outputs = Vec::new();
        for (first, second) in (0..columns).flat_map(|first| (0..columns).map(move |second| (first, second))) {
            outputs.push(product(blocks, &of_rows, first, second)?);
        }
        Ok(outputs)
    })
}

/// The weights of a leaf of a result.
struct Weight {
    param: ParamId,
    path: Vec<crate::ty::Side>,
}

/// `gen c, d. sum r. w[r] * J[r, c] * J[r, d]` as a result, over all rows.
fn product(blocks: &mut Blocks, weights: &[Weight], first: usize, second: usize) -> Result<Output> {
    let (x, y) = (blocks.columns[first].end.clone(), blocks.columns[second].end.clone());
    let name = block_name("gauss_newton", &x, &y);
    let dims: Vec<Size> = x.leaf.dims.iter().chain(&y.leaf.dims).cloned().collect();
    let ty = blocks.flow.types().tensor_of(&dims, Types::REAL);
    let value = blocks.flow.value(&name, ty, Storage::Dense);
    let mut joined = Joined::new(&blocks.flow);
    let mut total: Option<VarId> = None;
    for (at, row) in blocks.rows.iter().enumerate() {
        let Some(term) = term(blocks, &mut joined, (at, row), weights.get(row.number), (first, second))? else {
            continue;
        };
        total = Some(match total {
            None => term,
            Some(total) => {
                let gens = joined.builder.fresh_indices(&dims);
                joined.builder.add(&gens, [(Pred::True, total), (Pred::True, term)])?
            }
        });
    }
    let loops = Loops::new();
    let leaf = match total {
        Some(total) => {
            joined.give(value, total);
            joined.finish(&blocks.flow, &loops, vec![value])?
        }
        None => Small { flow: &mut blocks.flow, loops: &loops }.constant(&name, &dims, 0.0)?,
    };
    blocks.result(name, leaf, (&x, &y))
}

/// The share of one leaf of a result, unless it is zero.
fn term(
    blocks: &Blocks,
    joined: &mut Joined,
    (at, row): (usize, &Row),
    weight: Option<&Weight>,
    (first, second): (usize, usize),
) -> Result<Option<VarId>> {
    let Some((left, right)) = blocks.blocks.get(&(at, first)).zip(blocks.blocks.get(&(at, second))) else {
        return Ok(None);
    };
    let read = |joined: &mut Joined, value| Ok::<VarId, Error>(joined.read(value, blocks.flow.dims(value)?));
    let (mut left_var, right_var) = (read(joined, left.value)?, read(joined, right.value)?);
    let builder = &mut joined.builder;
    let rows = builder.fresh_indices(&row.end.leaf.dims);
    let of = builder.fresh_indices(&blocks.columns[first].end.leaf.dims);
    let by = builder.fresh_indices(&blocks.columns[second].end.leaf.dims);
    let indices = |axes: &[(IndexId, Size)]| axes.iter().map(|(i, _)| *i).collect::<Vec<_>>();
    let (at_rows, at_of, at_by) = (indices(&rows), indices(&of), indices(&by));
    let on_pattern =
        |column: usize, axes: &[(IndexId, Size)]| blocks.columns[column].end.storage.stored_at(&Affine::indices(axes));
    let stored = row.end.storage.stored_at(&Affine::indices(&rows));
    let stored = stored.and(on_pattern(first, &of)).and(on_pattern(second, &by));
    let mut left_at = blocks.at((at, first), &at_rows, &at_of);
    if let Some(Weight { param, path }) = weight {
        let weight = builder.input(*param, path.clone(), row.end.leaf.dims.clone());
        let guard = row.end.storage.stored_at(&Affine::indices(&rows)).and(on_pattern(first, &of));
        let operands =
            vec![Operand { var: weight, indices: at_rows.clone() }, Operand { var: left_var, indices: left_at }];
        let gens = [rows.clone(), of.clone()].concat();
        left_var = builder.contract(&gens, &[], guard, operands)?;
        left_at = indices(&gens);
    }
    let right_at = blocks.at((at, second), &at_rows, &at_by);
    let operands = vec![Operand { var: left_var, indices: left_at }, Operand { var: right_var, indices: right_at }];
    builder.contract(&[of, by].concat(), &rows, stored, operands).map(Some)
}

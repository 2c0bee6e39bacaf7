//! Jacobians as sparse symbolic tensors: one-hot tensors pushed through the forward or the adjoint derivative.
//!
//! The column `c` of `J` is `D f(x; dx)` for a tangent `dx` with a single 1, at place `c`; the row `r` is `D^T f(x; dy)` for such a seed. All
//! columns at once are the forward derivative with an axis `c` more on every tangent, beginning with `[h = c] * 1`, and likewise for
//! rows. Both sweeps keep tangents and adjoints as [`Pieces`], in which a product with a one-hot tensor is a renaming:
//!
//! ```text
//! dX of an input                         =  [h = c] * 1
//! dX of [p] X0 + [q] X1                  =  [p] dX0 + [q] dX1                            6.4
//! dX of [p] f(X0, ..)                    =  [p] f'0(X0, ..) * dX0 + ..                   6.6
//! dX of sum s. [p] X0 X1                 =  sum s. [p] dX0 X1 + sum s. [p] X0 dX1        6.5
//!
//! dY of an output                        =  [r = h] * 1
//! dX0 of X = sum s. [p] X0[i] X1         =  sum g s. [p and h = i] dX[g] X1              6.28
//! ```
//!
//! and the adjoint of a statement is the sum over its readers. The result has for each output and parameter a block with the axes of both,
//! rows first. Which sweep is cheaper depends on the program: many columns for each row, as in the blocks of bundle adjustment,
//! are fewer operations by rows. [`Sweep::Cheapest`] makes both, and takes the one that does less by the judgement of the caller ([`Work`]).

use std::cmp::Ordering;

use super::blocks::{Derivative, End, Sweep, columns_of, derivatives, diagonal, result, rows_of};
use super::dependent::{Dependent, Linked, linked};
use super::pieces::{Axes, Pieces, Read, Summand};
use super::{NewParams, expand_partials};
use crate::base::{ParamId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size, Var};
use crate::tssa::{Builder, Output, Program};
use crate::ty::{Block, Signature};

/// Compares two programs by the work that they do for large sizes.
pub type Work<'a> = &'a dyn Fn(&Program, &Program) -> Result<Ordering>;

/// Which entries of a Jacobian are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All.
    #[default]
    Whole,
    /// Those where as many leading axes of row and column are equal, which the result has once: with all axes the diagonal, with the first one
    /// the blocks along it. Of a Hessian the blocks of a parameter by itself have it; of a Jacobian all have it, or there is none.
    Diagonal(usize),
}

/// How a Jacobian is derived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jacobian<'a> {
    /// In which direction.
    pub sweep: Sweep,
    /// Which entries.
    pub part: Part,
    /// What the names of outputs begin with that belong to a parameter: `grad` for gradients. Their Jacobian is a Hessian, and other outputs
    /// have no part in it.
    pub of: Option<&'a str>,
    /// Whether the program returns its own results as well.
    pub with_value: bool,
}

/// The Jacobian of a program by some of its parameters: a result `jacobian_x` for each parameter `x`, `jacobian_y_x` where the
/// output is called `y` and not `value`; for pairs, one for each component. Of outputs `grad_x` it is the Hessian, `hessian_x_y`.
///
/// # Errors
/// [`Error::Request`] for a diagonal that a block does not have; [`Error::Limit`] for more axes than tensors may have; [`Error::Overflow`] and
/// [`Error::Bug`].
pub fn jacobian(
    program: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
    how: Jacobian<'_>,
    work: Work<'_>,
) -> Result<(Program, Vec<Block>)> {
    cheapest(program, dependents, wrt, (how.sweep, work), how.of, &|blocks, program| {
        let kind = if how.of.is_some() { "hessian" } else { "jacobian" };
        let mut outputs = if how.with_value { program.outputs.clone() } else { Vec::new() };
        let mut all = std::mem::take(&mut blocks.blocks);
        if how.part != Part::Whole && how.of.is_some() {
            all.retain(|block| block.row.name == block.column.name);
            if all.is_empty() {
                let message = "the Hessian has no diagonal: no parameter belongs to its rows and to its columns";
                return Err(Error::Request(message.to_owned()));
            }
        }
        for Derivative { row, column, pieces, .. } in all {
            let pieces = match how.part {
                Part::Whole => pieces,
                Part::Diagonal(axes) => {
                    let axes = shared_axes(&program.signature, &row, &column, axes)?;
                    diagonal(&mut blocks.builder, &row, &pieces, axes)?
                }
            };
            outputs.push(blocks.output(kind, &row, &column, &pieces)?);
        }
        Ok(outputs)
    })
}

/// The Gauss-Newton matrix `J' J` of a program by some of its parameters, with a result `gauss_newton_x_y` for each two of them; with
/// weights `J' W J`, where the diagonal matrix `W` is a new parameter `weight`, or `weight_y` for the output `y`, of the shape of the output.
/// Pieces of one block are joined before they are multiplied.
///
/// # Errors
/// As [`jacobian`].
pub fn gauss_newton(
    program: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
    sweep: Sweep,
    weighted: bool,
    work: Work<'_>,
) -> Result<(Program, Vec<Block>)> {
    let mut params = NewParams::new(&program.signature);
    let mut weights = Vec::new();
    for output in program.outputs.iter().filter(|_| weighted) {
        weights.push((params.weight(output), output.ty));
    }
    let program = Program { signature: params.signature, ..program.clone() };
    cheapest(&program, dependents, wrt, (sweep, work), None, &|blocks, program| {
        let mut leaves = Vec::new();
        for (weight, ty) in &weights {
            let types = &program.signature.types;
            leaves.extend(types.leaves(*ty)?.into_iter().map(|leaf| (*weight, leaf)));
        }
        let mut all = std::mem::take(&mut blocks.blocks);
        for block in &mut all {
            block.pieces = block.pieces.joined(&mut blocks.builder)?;
        }
        let count = all.iter().filter(|block| block.output == 0).count();
        let mut outputs = Vec::new();
        for (first, second) in (0..count).flat_map(|first| (0..count).map(move |second| (first, second))) {
            let mut summands = Vec::new();
            let builder = &mut blocks.builder;
            let Some((x, y)) = all.get(first).zip(all.get(second)) else { continue };
            let (of, by) = (builder.fresh_indices(&x.column.leaf.dims), builder.fresh_indices(&y.column.leaf.dims));
            for (x, y) in all.iter().skip(first).step_by(count).zip(all.iter().skip(second).step_by(count)) {
                let rows = builder.fresh_indices(&x.row.leaf.dims);
                let at = |columns: &Axes| [Affine::indices(&rows), Affine::indices(columns)].concat();
                let weight = leaves.get(x.output).map(|(weight, leaf)| {
                    let var = builder.input(*weight, leaf.path.clone(), leaf.dims.clone());
                    Read::new(var, &rows)
                });
                for left in x.pieces.at(builder, &at(&of))? {
                    for right in y.pieces.at(builder, &at(&by))? {
                        let product = weight.iter().cloned().fold(left.clone().summed(&rows), Summand::times);
                        summands.push(product.with(right));
                    }
                }
            }
            let pieces = Pieces::new(&mut blocks.builder, [of, by].concat(), summands)?;
            outputs.push(blocks.output("gauss_newton", &x.column, &y.column, &pieces)?);
        }
        Ok(outputs)
    })
}

/// The derivatives of each output by each parameter, row by row.
#[derive(Debug)]
struct Blocks {
    builder: Builder,
    blocks: Vec<Derivative>,
    /// The parameters that stand for tangents of others, and that results do not mention.
    tangents: Vec<ParamId>,
    /// What became results.
    results: Vec<Block>,
}

impl Blocks {
    /// A sparse tensor as a result of the program.
    fn output(&mut self, kind: &str, row: &End, column: &End, pieces: &Pieces) -> Result<Output> {
        let names = [kind, &row.name, &column.name].into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>();
        let output = result(&mut self.builder, names.join("_"), pieces)?;
        let row_axes = row.leaf.dims.len().min(pieces.axes().len());
        self.results.push(Block {
            result: output.name.clone(),
            row: row.name.clone(),
            column: column.name.clone(),
            row_axes,
            column_axes: pieces.axes().len() - row_axes,
        });
        Ok(output)
    }
}

/// What is made of the blocks of a program, by the sweep that is asked for or the one that makes it cheaper.
fn cheapest(
    program: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
    (sweep, work): (Sweep, Work<'_>),
    of: Option<&str>,
    outputs: &dyn Fn(&mut Blocks, &Program) -> Result<Vec<Output>>,
) -> Result<(Program, Vec<Block>)> {
    let program = &expand_partials(program)?;
    let by = |sweep| {
        let mut blocks = blocks(program, dependents, wrt, sweep, of)?;
        let outputs = outputs(&mut blocks, program)?;
        let program = expand_partials(&blocks.builder.finish(outputs).prune()?)?;
        Ok((program.without(&blocks.tangents)?, blocks.results))
    };
    match sweep {
        Sweep::Cheapest => {
            let (forward, adjoint) = (by(Sweep::Forward)?, by(Sweep::Adjoint)?);
            let order = work(&forward.0, &adjoint.0)?;
            Ok(if order == Ordering::Greater { adjoint } else { forward })
        }
        sweep => by(sweep),
    }
}

/// How many leading axes row and column share where so many are asked for, or all that there are.
pub(crate) fn shared_axes(signature: &Signature, row: &End, column: &End, axes: usize) -> Result<usize> {
    let (rows, columns) = (&row.leaf.dims, &column.leaf.dims);
    let shared = axes.min(rows.len()).min(columns.len());
    let facts = signature.facts();
    let mut equal = axes == shared || rows.len() == columns.len();
    for (n, m) in rows.iter().zip(columns).take(shared) {
        equal = equal && (n == m || facts.proves(&Pred::equal(n, m)?));
    }
    if equal {
        return Ok(shared);
    }
    let output = if row.name.is_empty() { "the result".to_owned() } else { format!("the result `{}`", row.name) };
    let (of, by) = (shape_text(signature, rows)?, shape_text(signature, columns)?);
    let along = match axes > rows.len().max(columns.len()) {
        true => "a diagonal takes equal shapes".to_owned(),
        false => format!("it takes {axes} equal leading axes"),
    };
    Err(Error::Request(format!(
        "the derivative of {output}, of shape {of}, by `{}`, of shape {by}, has no such diagonal: {along}",
        column.name
    )))
}

/// `[n, 3]`
fn shape_text(signature: &Signature, dims: &[Size]) -> Result<String> {
    let mut lengths = Vec::with_capacity(dims.len());
    for n in dims {
        let mut text = String::new();
        let mut name = |v: &Var| match v {
            Var::Size(n) => signature.sizes.get(*n).cloned().unwrap_or_default(),
            Var::Index(_) | Var::Apply(_) => String::new(),
        };
        n.write(&mut text, &mut name).map_err(|_| Error::bug("jacobian", "a size that cannot be written"))?;
        lengths.push(text);
    }
    Ok(format!("[{}]", lengths.join(", ")))
}

/// All blocks by one of the two sweeps.
fn blocks(
    program: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
    sweep: Sweep,
    of: Option<&str>,
) -> Result<Blocks> {
    let Linked { program, links } = linked(program, dependents, wrt)?;
    let signature = &program.signature;
    let mut builder = Builder::resume(&program);
    let rows = rows_of(&program, of)?;
    let all = wrt.iter().copied().chain(links.iter().map(|link| link.param));
    let mut blocks = derivatives(&mut builder, &program, &rows, &columns_of(signature, all)?, sweep)?;
    for link in links.iter().rev() {
        let ends = End::all(signature, "", link.tangent.ty, link.tangent.storage)?;
        let rows: Vec<(End, VarId)> = ends.into_iter().zip(link.tangent.leaves.iter().copied()).collect();
        let columns = columns_of(signature, link.tangents.iter().map(|(_, dx)| *dx))?;
        for inner in derivatives(&mut builder, &program, &rows, &columns, sweep)? {
            let Some((x, _)) = link.tangents.iter().find(|(_, dx)| *dx == inner.by) else { continue };
            chain(&mut builder, &mut blocks, link.param, &inner, *x)?;
        }
    }
    blocks.retain(|block| wrt.contains(&block.by));
    let tangents = links.iter().flat_map(|link| &link.tangents).map(|(_, dx)| *dx).collect();
    Ok(Blocks { builder, blocks, tangents, results: Vec::new() })
}

/// `J[r, c] + sum h. Jy[r, h] * L[h, c]` for the blocks `J` by a parameter `x` that `y` depends on, `L` being a block of the derivative of `y`.
fn chain(builder: &mut Builder, blocks: &mut [Derivative], y: ParamId, inner: &Derivative, x: ParamId) -> Result<()> {
    let is =
        |block: &Derivative, param: ParamId, end: &End| block.by == param && block.column.leaf.path == end.leaf.path;
    let outer: Vec<(usize, Pieces)> = blocks
        .iter()
        .filter(|block| is(block, y, &inner.row))
        .map(|block| (block.output, block.pieces.clone()))
        .collect();
    for (output, outer) in outer {
        let Some(block) = blocks.iter_mut().find(|b| b.output == output && is(b, x, &inner.column)) else { continue };
        let rows = builder.fresh_indices(&block.row.leaf.dims);
        let columns = builder.fresh_indices(&block.column.leaf.dims);
        let between = builder.fresh_indices(&inner.row.leaf.dims);
        let [of, by, at] = [&rows, &columns, &between].map(|axes| Affine::indices(axes));
        let mut summands = block.pieces.at(builder, &[of.clone(), by.clone()].concat())?;
        for left in outer.at(builder, &[of, at.clone()].concat())? {
            for right in inner.pieces.at(builder, &[at.clone(), by.clone()].concat())? {
                summands.push(left.clone().summed(&between).with(right));
            }
        }
        block.pieces = Pieces::new(builder, [rows, columns].concat(), summands)?;
    }
    Ok(())
}

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
//! are fewer operations by rows. [`Sweep::Cheapest`] makes both, and takes the one with fewer for large sizes.

use std::cmp::Ordering;
use std::sync::Arc;

use super::activity::active;
use super::dependent::{Dependent, Linked, linked};
use super::forward::partial_factor;
use super::linear::without;
use super::pieces::{Axes, Pieces, Read, Summand};
use super::{NewParams, expand_partials};
use crate::base::{ParamId, SideTable, VarId};
use crate::certificate::growth;
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size, Var};
use crate::tssa::{Builder, OpenStmt, Output, Program, Rhs};
use crate::ty::{Block, Leaf, Side, Signature, Storage, TypeId, Types};

/// In which direction a Jacobian is derived. The result is the same function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sweep {
    /// Whichever takes fewer operations for large sizes.
    #[default]
    Cheapest,
    /// From the parameters on: one-hot tangents.
    Forward,
    /// From the outputs back: one-hot seeds.
    Adjoint,
}

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
) -> Result<(Program, Vec<Block>)> {
    cheapest(program, dependents, wrt, how.sweep, how.of, &|blocks, program| {
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
) -> Result<(Program, Vec<Block>)> {
    let mut params = NewParams::new(&program.signature);
    let mut weights = Vec::new();
    for output in program.outputs.iter().filter(|_| weighted) {
        weights.push((params.weight(output), output.ty));
    }
    let program = Program { signature: params.signature, ..program.clone() };
    cheapest(&program, dependents, wrt, sweep, None, &|blocks, program| {
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

/// A leaf of a parameter or of an output.
#[derive(Clone, Debug)]
struct End {
    /// Its part of the names of blocks; empty for `value`.
    name: String,
    leaf: Leaf,
    storage: Storage,
}

impl End {
    /// The leaves of a type under a name: `x`, or `x_0` and `x_1`.
    fn all(signature: &Signature, name: &str, ty: TypeId, storage: Storage) -> Result<Vec<End>> {
        let leaves = signature.types.leaves(ty)?;
        let end = |leaf: Leaf| {
            let path = leaf.path.iter().map(|side| if *side == Side::Fst { "_0" } else { "_1" }).collect::<String>();
            let name = if name.is_empty() { path.trim_start_matches('_').to_owned() } else { format!("{name}{path}") };
            End { name, leaf, storage }
        };
        Ok(leaves.into_iter().map(end).collect())
    }
}

/// The derivative of a leaf of an output by a leaf of a parameter.
#[derive(Debug)]
struct Derivative {
    /// Among the leaves of all outputs.
    output: usize,
    row: End,
    /// The parameter that the column is a leaf of.
    by: ParamId,
    column: End,
    pieces: Pieces,
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
        let result = names.join("_");
        let leaf = pieces.tensor(&mut self.builder)?;
        let dims = self.builder.dims(leaf).to_vec();
        if dims.len() > Types::MAX_RANK {
            let (limit, found) = (Types::MAX_RANK as u64, dims.len() as u64);
            return Err(Error::Limit { what: "axes of a derivative", limit, found });
        }
        let mut signature = (**self.builder.signature()).clone();
        let ty = signature.types.tensor_of(&dims, Types::REAL);
        self.builder.extend_signature(Arc::new(signature));
        let row_axes = row.leaf.dims.len().min(dims.len());
        self.results.push(Block {
            result: result.clone(),
            row: row.name.clone(),
            column: column.name.clone(),
            row_axes,
            column_axes: dims.len() - row_axes,
        });
        Ok(Output { name: result, ty, storage: Storage::Dense, leaves: vec![leaf] })
    }
}

/// What is made of the blocks of a program, by the sweep that is asked for or the one that makes it cheaper.
fn cheapest(
    program: &Program,
    dependents: &[Dependent],
    wrt: &[ParamId],
    sweep: Sweep,
    of: Option<&str>,
    outputs: &dyn Fn(&mut Blocks, &Program) -> Result<Vec<Output>>,
) -> Result<(Program, Vec<Block>)> {
    let program = &expand_partials(program)?;
    let by = |sweep| {
        let mut blocks = blocks(program, dependents, wrt, sweep, of)?;
        let outputs = outputs(&mut blocks, program)?;
        let program = expand_partials(&blocks.builder.finish(outputs).prune()?)?;
        Ok((without(program, &blocks.tangents)?, blocks.results))
    };
    match sweep {
        Sweep::Cheapest => {
            let (forward, adjoint) = (by(Sweep::Forward)?, by(Sweep::Adjoint)?);
            let order = growth(&forward.0)?.compare(&growth(&adjoint.0)?);
            Ok(if order == Ordering::Greater { adjoint } else { forward })
        }
        sweep => by(sweep),
    }
}

/// How many leading axes row and column share where so many are asked for, or all that there are.
fn shared_axes(signature: &Signature, row: &End, column: &End, axes: usize) -> Result<usize> {
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

/// The entries with equal leading axes of row and column, which the result has once.
fn diagonal(builder: &mut Builder, row: &End, pieces: &Pieces, axes: usize) -> Result<Pieces> {
    let (rows, columns) = pieces.axes().split_at(row.leaf.dims.len().min(pieces.axes().len()));
    let axes = axes.min(rows.len()).min(columns.len());
    let rows = builder.fresh_indices(&rows.iter().map(|(_, n)| n.clone()).collect::<Vec<_>>());
    let rest = builder.fresh_indices(&columns.iter().skip(axes).map(|(_, n)| n.clone()).collect::<Vec<_>>());
    let of = Affine::indices(&rows);
    let at = [of.as_slice(), of.get(..axes).unwrap_or_default(), &Affine::indices(&rest)].concat();
    let summands = pieces.at(builder, &at)?;
    Pieces::new(builder, [rows, rest].concat(), summands)
}

/// The derivative of each element of a tensor by the same element of a parameter, which is all that the Jacobian of the program is; nothing
/// where other entries may differ from zero.
pub(super) fn elementwise(program: &Program, param: ParamId) -> Result<Option<Program>> {
    let mut blocks = blocks(program, &[], &[param], Sweep::Forward, None)?;
    let all = std::mem::take(&mut blocks.blocks);
    let [Derivative { row, column, pieces, .. }] = all.as_slice() else { return Ok(None) };
    let rank = row.leaf.dims.len();
    if column.leaf.dims != row.leaf.dims || !pieces.is_diagonal(rank)? {
        return Ok(None);
    }
    let diagonal = diagonal(&mut blocks.builder, row, pieces, rank)?;
    let output = blocks.output("diagonal", row, column, &diagonal)?;
    Ok(Some(expand_partials(&blocks.builder.finish(vec![output]).prune()?)?))
}

/// The leaves of parameters, as columns.
fn columns_of(signature: &Signature, params: impl IntoIterator<Item = ParamId>) -> Result<Vec<(ParamId, End)>> {
    let mut columns = Vec::new();
    for id in params {
        let param = &signature.params[id];
        columns.extend(End::all(signature, &param.name, param.ty, param.storage)?.into_iter().map(|end| (id, end)));
    }
    Ok(columns)
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
    let mut rows = Vec::new();
    for output in &program.outputs {
        let name = match of {
            Some(of) => output.name.strip_prefix(of).and_then(|name| name.strip_prefix('_')),
            None => Some(if output.name == "value" { "" } else { &output.name }),
        };
        let Some(name) = name else { continue };
        let ends = End::all(signature, name, output.ty, output.storage)?;
        rows.extend(ends.into_iter().zip(output.leaves.iter().copied()));
    }
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

/// The derivative of each row by each column, row by row.
fn derivatives(
    builder: &mut Builder,
    program: &Program,
    rows: &[(End, VarId)],
    columns: &[(ParamId, End)],
    sweep: Sweep,
) -> Result<Vec<Derivative>> {
    let wrt: Vec<ParamId> = columns.iter().map(|(id, _)| *id).collect();
    let active = active(program, &wrt)?;
    let mut blocks = Vec::new();
    if sweep == Sweep::Adjoint {
        for (output, (row, x)) in rows.iter().enumerate() {
            let mut adjoints = adjoints(builder, program, &active, row, *x)?;
            for (id, column) in columns {
                let input = program.stmts.iter().find_map(|(x, stmt)| match &stmt.rhs {
                    Rhs::Input { param, path } if param == id && *path == column.leaf.path => Some(x),
                    _ => None,
                });
                let pieces = match input.and_then(|x| adjoints.take(x)) {
                    Some(pieces) => pieces,
                    None => {
                        let axes = builder.fresh_indices(&[row.leaf.dims.clone(), column.leaf.dims.clone()].concat());
                        Pieces::new(builder, axes, Vec::new())?
                    }
                };
                blocks.push(Derivative { output, row: row.clone(), by: *id, column: column.clone(), pieces });
            }
        }
    } else {
        for (id, column) in columns {
            let tangents = tangents(builder, program, &active, *id, column)?;
            for (output, (row, x)) in rows.iter().enumerate() {
                let axes = builder.fresh_indices(&[row.leaf.dims.clone(), column.leaf.dims.clone()].concat());
                let at = Affine::indices(&axes);
                let stored = row.storage.stored_at(at.get(..row.leaf.dims.len()).unwrap_or_default());
                let summands = match &tangents[*x] {
                    Some(tangent) => tangent.at(builder, &at)?,
                    None => Vec::new(),
                };
                let summands = summands.into_iter().map(|term| term.and(stored.clone())).collect();
                let pieces = Pieces::new(builder, axes, summands)?;
                blocks.push(Derivative { output, row: row.clone(), by: *id, column: column.clone(), pieces });
            }
        }
        // Stable, so that columns stay in order.
        blocks.sort_by_key(|block| block.output);
    }
    Ok(blocks)
}

/// `g = h`, axis by axis.
fn equal(g: &[Affine], h: &[Affine]) -> Result<Pred> {
    let equations = g.iter().zip(h).map(|(g, h)| Ok(Pred::equal(g, h)?));
    Ok(Pred::all(equations.collect::<Result<Vec<_>>>()?))
}

/// `sum s. [p] * X1[..] * dX0[i]`, one of the terms of the tangent of a statement.
struct Linear {
    operand: VarId,
    at: Vec<Affine>,
    /// The rest of the product, with the summed indices.
    rest: Summand,
}

/// `dX[g]` as a sum over the operands of `X` that are active, with the indices `g`.
fn linear(builder: &mut Builder, x: VarId, active: &SideTable<VarId, bool>) -> Result<(Axes, Vec<Linear>)> {
    let OpenStmt { gens, sums, rhs } = builder.open(x)?;
    let own = Affine::indices(&gens);
    let mut terms = Vec::new();
    match rhs {
        Rhs::Input { .. } | Rhs::Number(_) => {}
        Rhs::Add(sides) => {
            let sides =
                sides.into_iter().map(|(p, operand)| Linear { operand, at: own.clone(), rest: Summand::under(p) });
            terms.extend(sides);
        }
        Rhs::Map { guard, function, args } => {
            for (k, arg) in (0..).zip(&args).filter(|(_, arg)| active[**arg]) {
                if let Some((guard, factor)) = partial_factor(builder, &gens, guard.clone(), function, &args, k)? {
                    let factor = factor.map(|factor| Read::new(factor, &gens));
                    let rest = factor.into_iter().fold(Summand::under(guard), Summand::times);
                    terms.push(Linear { operand: *arg, at: own.clone(), rest });
                }
            }
        }
        Rhs::Contract { guard, operands, .. } => {
            for (k, operand) in operands.iter().enumerate() {
                let others = operands.iter().enumerate().filter(|(other, _)| *other != k);
                let rest =
                    others.map(|(_, other)| Read::operand(other)).fold(Summand::under(guard.clone()), Summand::times);
                let at = operand.indices.iter().copied().map(Affine::index).collect();
                terms.push(Linear { operand: operand.var, at, rest: rest.summed(&sums) });
            }
        }
    }
    terms.retain(|term| active[term.operand]);
    Ok((gens, terms))
}

/// The tangents of all statements, for every tangent of one leaf of a parameter with a single 1.
fn tangents(
    builder: &mut Builder,
    program: &Program,
    active: &SideTable<VarId, bool>,
    param: ParamId,
    column: &End,
) -> Result<SideTable<VarId, Option<Pieces>>> {
    let columns = builder.fresh_indices(&column.leaf.dims);
    let by = Affine::indices(&columns);
    let mut tangents: SideTable<VarId, Option<Pieces>> = SideTable::new(program.stmts.len(), None);
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| active[*x]) {
        let (gens, terms) = linear(builder, x, active)?;
        let mut summands = Vec::new();
        match &stmt.rhs {
            Rhs::Input { param: other, path } if *other == param && *path == column.leaf.path => {
                let own = Affine::indices(&gens);
                summands.push(Summand::under(equal(&own, &by)?).and(column.storage.stored_at(&by)));
            }
            _ => {}
        }
        for Linear { operand, at, rest } in terms {
            let Some(tangent) = &tangents[operand] else { continue };
            for term in tangent.at(builder, &[at.as_slice(), &by].concat())? {
                summands.push(term.with(rest.clone()));
            }
        }
        let pieces = Pieces::new(builder, [gens, columns.clone()].concat(), summands)?;
        tangents.set(x, (!pieces.is_zero()).then_some(pieces));
    }
    Ok(tangents)
}

/// The adjoints of the inputs, for every seed of one leaf of an output with a single 1.
fn adjoints(
    builder: &mut Builder,
    program: &Program,
    active: &SideTable<VarId, bool>,
    row: &End,
    output: VarId,
) -> Result<SideTable<VarId, Option<Pieces>>> {
    let rows = builder.fresh_indices(&row.leaf.dims);
    let of = Affine::indices(&rows);
    let mut axes: SideTable<VarId, Axes> = SideTable::new(program.stmts.len(), Vec::new());
    for (x, stmt) in program.stmts.iter() {
        axes.set(x, builder.fresh_indices(&stmt.dims));
    }
    let own = |x: VarId| Affine::indices(&axes[x]);
    let mut summands: SideTable<VarId, Vec<Summand>> = SideTable::new(program.stmts.len(), Vec::new());
    let mut adjoints: SideTable<VarId, Option<Pieces>> = SideTable::new(program.stmts.len(), None);
    summands.set(output, vec![Summand::under(equal(&of, &own(output))?).and(row.storage.stored_at(&of))]);
    for (x, stmt) in program.stmts.iter().rev().filter(|(x, _)| active[*x]) {
        let pieces = Pieces::new(builder, [rows.clone(), axes[x].clone()].concat(), summands.take(x))?;
        if pieces.is_zero() {
            continue;
        }
        if matches!(stmt.rhs, Rhs::Input { .. }) {
            adjoints.set(x, Some(pieces));
            continue;
        }
        let (gens, terms) = linear(builder, x, active)?;
        let indices = [of.as_slice(), &Affine::indices(&gens)].concat();
        for Linear { operand, at, rest } in terms {
            let link = equal(&own(operand), &at)?;
            let mut all = summands.take(operand);
            for seed in pieces.at(builder, &indices)? {
                all.push(seed.and(link.clone()).summed(&gens).with(rest.clone()));
            }
            summands.set(operand, all);
        }
    }
    Ok(adjoints)
}

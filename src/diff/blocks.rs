//! The derivative of each result by each parameter as guarded coefficients: one-hot tensors through a program, forwards or backwards.
//!
//! The equations of both sweeps are in [`jacobian`](super::jacobian()), which makes results of these blocks.

use super::activity::active;
use super::expand_partials;
use super::forward::partial_factor;
use super::pieces::{Axes, Pieces, Read, Summand};
use crate::base::{ParamId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred};
use crate::tssa::{Builder, OpenStmt, Output, Program, Rhs};
use crate::ty::{Leaf, Side, Signature, Storage, TypeId, Types};

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

/// A leaf of a parameter or of an output.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// Its part of the names of blocks; empty for `value`.
    pub name: String,
    pub leaf: Leaf,
    pub storage: Storage,
}

impl End {
    /// The leaves of a type under a name: `x`, or `x_0` and `x_1`.
    pub fn all(signature: &Signature, name: &str, ty: TypeId, storage: Storage) -> Result<Vec<End>> {
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
pub(super) struct Derivative {
    /// Among the leaves of all outputs.
    pub output: usize,
    pub row: End,
    /// The parameter that the column is a leaf of.
    pub by: ParamId,
    pub column: End,
    pub pieces: Pieces,
}

/// The derivative of each row by each column, row by row.
pub(super) fn derivatives(
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

/// The entries with equal leading axes of row and column, which the result has once.
pub(super) fn diagonal(builder: &mut Builder, row: &End, pieces: &Pieces, axes: usize) -> Result<Pieces> {
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
    let mut builder = Builder::resume(program);
    let rows = rows_of(program, None)?;
    let columns = columns_of(&program.signature, [param])?;
    let all = derivatives(&mut builder, program, &rows, &columns, Sweep::Forward)?;
    let [Derivative { row, column, pieces, .. }] = all.as_slice() else { return Ok(None) };
    let rank = row.leaf.dims.len();
    if column.leaf.dims != row.leaf.dims || !pieces.is_diagonal(rank)? {
        return Ok(None);
    }
    let diagonal = diagonal(&mut builder, row, pieces, rank)?;
    let output = result(&mut builder, "diagonal".to_owned(), &diagonal)?;
    Ok(Some(expand_partials(&builder.finish(vec![output]).prune()?)?))
}

/// A sparse tensor as a result of a program.
pub(super) fn result(builder: &mut Builder, name: String, pieces: &Pieces) -> Result<Output> {
    let leaf = pieces.tensor(builder)?;
    let dims = builder.dims(leaf).to_vec();
    if dims.len() > Types::MAX_RANK {
        let (limit, found) = (Types::MAX_RANK as u64, dims.len() as u64);
        return Err(Error::Limit { what: "axes of a derivative", limit, found });
    }
    let mut signature = (**builder.signature()).clone();
    let ty = signature.types.tensor_of(&dims, Types::REAL);
    builder.extend_signature(signature.into());
    Ok(Output { name, ty, storage: Storage::Dense, leaves: vec![leaf] })
}

/// The leaves of all outputs as rows; those of `of_x` alone, called `x`, where it is said what names begin with.
pub(super) fn rows_of(program: &Program, of: Option<&str>) -> Result<Vec<(End, VarId)>> {
    let mut rows = Vec::new();
    for output in &program.outputs {
        let name = match of {
            Some(of) => output.name.strip_prefix(of).and_then(|name| name.strip_prefix('_')),
            None => Some(if output.name == "value" { "" } else { &output.name }),
        };
        let Some(name) = name else { continue };
        let ends = End::all(&program.signature, name, output.ty, output.storage)?;
        rows.extend(ends.into_iter().zip(output.leaves.iter().copied()));
    }
    Ok(rows)
}

/// The leaves of parameters, as columns.
pub(super) fn columns_of(
    signature: &Signature,
    params: impl IntoIterator<Item = ParamId>,
) -> Result<Vec<(ParamId, End)>> {
    let mut columns = Vec::new();
    for id in params {
        let param = &signature.params[id];
        columns.extend(End::all(signature, &param.name, param.ty, param.storage)?.into_iter().map(|end| (id, end)));
    }
    Ok(columns)
}

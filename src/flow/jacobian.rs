//! Jacobians of flows: one-hot tangents or seeds, whose places become axes.
//!
//! The column `c` of a Jacobian is the forward derivative for a tangent with a single 1, at place `c`; the row `r` is the adjoint for such a seed. A
//! place is a size as loop indices are, and [lifting](super::lift) over it makes all columns or rows at once:
//!
//! ```text
//! J[r, c] by columns                ==  gen r, c. T[c, r]      T = gen c. D f(x; gen h. [h = c] * 1)
//! J[r, c] by rows                   ==  gen r, c. A[r, c]      A = gen r. D^T f(x; gen h. [h = r] * 1)
//! [scan t < T, (s, ds) = (a, da). (b, db)]  over c  ==  scan t < T, (s, ds) = (a, gen c. da). (b, gen c. db)
//! ```
//!
//! The states of the program have no more axes than before, and stand there once for all columns and rows; tangents and cotangents in loops are dense.
//! In leaves that no loop follows the simplifier finds the guards again: what does not go through a loop is as sparse as without loops. A derivative
//! that is zero by its form is a block of zeros.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::active::Active;
use super::adjoint::owed_to_params;
use super::build::Builder;
use super::data::{Loops, Output, Program, Stmt, ValueId};
use super::extend::extended;
use super::forward::{Direction, Forward};
use super::join::join;
use super::leaf::{Small, Source};
use super::lift::{self, Axis};
use super::tally::tally;
use crate::base::{IndexId, ParamId, SizeId};
use crate::diff::{self, End, Jacobian, Part, Sweep, Work};
use crate::error::{Error, Result};
use crate::index::{Affine, Size};
use crate::ty::{Block, Storage, Types};

/// The Jacobian of a flow by some of its parameters, and what its results are blocks of; see [`diff::jacobian`](diff::jacobian()).
///
/// # Errors
/// As [`diff::jacobian`](diff::jacobian()).
pub fn jacobian(
    program: &Program,
    wrt: &[ParamId],
    how: Jacobian<'_>,
    work: Work<'_>,
) -> Result<(Program, Vec<Block>)> {
    let (program, _) = extended(program, &[])?;
    cheapest(&program, wrt, (how.sweep, work), how.of, &|blocks| {
        let kind = if how.of.is_some() { "hessian" } else { "jacobian" };
        let diagonal = how.part != Part::Whole;
        let mut pairs = blocks.pairs();
        if diagonal && how.of.is_some() {
            pairs.retain(|(row, column)| blocks.rows[*row].end.name == blocks.columns[*column].end.name);
            if pairs.is_empty() {
                let message = "the Hessian has no diagonal: no parameter belongs to its rows and to its columns";
                return Err(Error::Request(message.to_owned()));
            }
        }
        let mut outputs = if how.with_value { blocks.outputs.clone() } else { Vec::new() };
        for pair in pairs {
            outputs.push(blocks.output(kind, pair, how.part)?);
        }
        Ok(outputs)
    })
}

/// A leaf of a result.
#[derive(Clone)]
pub(super) struct Row {
    pub end: End,
    value: ValueId,
    /// Among the leaves of all results.
    pub number: usize,
}

/// A leaf of a parameter.
#[derive(Clone)]
pub(super) struct Column {
    pub end: End,
    param: ParamId,
    /// Among the leaves of the parameter.
    leaf: usize,
}

/// A value that varies with some of the places of ones, which are its first axes.
#[derive(Clone)]
pub(super) struct Lifted {
    pub value: ValueId,
    pub places: Vec<SizeId>,
}

/// The blocks of a Jacobian: a derivative for each leaf of a result and of a parameter, unless it is zero.
pub(super) struct Blocks {
    pub flow: Builder,
    pub body: Vec<Stmt>,
    pub rows: Vec<Row>,
    pub columns: Vec<Column>,
    /// The results of the program.
    pub outputs: Vec<Output>,
    /// The derivatives by row and column.
    pub blocks: BTreeMap<(usize, usize), Lifted>,
    /// The places of ones, with the lengths of their axes: of each row or of each column.
    places: Vec<Vec<(SizeId, Size)>>,
    sweep: Sweep,
    results: Vec<Block>,
}

/// What is made of the blocks of a flow, by the sweep that is asked for or the one that makes it cheaper.
pub(super) fn cheapest(
    program: &Program,
    wrt: &[ParamId],
    (sweep, work): (Sweep, Work<'_>),
    of: Option<&str>,
    outputs: &dyn Fn(&mut Blocks) -> Result<Vec<Output>>,
) -> Result<(Program, Vec<Block>)> {
    let by = |sweep| {
        let mut blocks = Blocks::new(program, wrt, sweep, of)?;
        let outputs = outputs(&mut blocks)?;
        let Blocks { flow, body, results, .. } = blocks;
        Ok((join(&flow.finish(body, outputs))?, results))
    };
    match sweep {
        Sweep::Cheapest => match (by(Sweep::Forward), by(Sweep::Adjoint)) {
            (Ok(forward), Ok(adjoint)) => {
                let order = work(&tally(&forward.0)?, &tally(&adjoint.0)?)?;
                Ok(if order == Ordering::Greater { adjoint } else { forward })
            }
            // Of a function from outside one derivative alone may be given.
            (Ok(one), Err(Error::Request(_))) | (Err(Error::Request(_)), Ok(one)) => Ok(one),
            (Err(error), _) | (_, Err(error)) => Err(error),
        },
        sweep => by(sweep),
    }
}

/// The leaves of all results; those of `of_x` alone, called `x`, where it is said what names begin with.
fn rows_of(program: &Program, of: Option<&str>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut number = 0;
    for output in &program.outputs {
        let first = number;
        number += output.values.len();
        let name = match of {
            Some(of) => output.name.strip_prefix(of).and_then(|name| name.strip_prefix('_')),
            None => Some(if output.name == "value" { "" } else { &output.name }),
        };
        let Some(name) = name else { continue };
        // Each leaf has a storage of its own.
        let ends = End::all(&program.frame, name, output.ty, Storage::Dense)?;
        for ((end, value), number) in ends.into_iter().zip(&output.values).zip(first..) {
            let end = End { storage: program.values[*value].storage, ..end };
            rows.push(Row { end, value: *value, number });
        }
    }
    Ok(rows)
}

/// The leaves of parameters.
fn columns_of(program: &Program, wrt: &[ParamId]) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    for param in wrt {
        let of = &program.signature.params[*param];
        let ends = End::all(&program.signature, &of.name, of.ty, of.storage)?;
        columns.extend(ends.into_iter().enumerate().map(|(leaf, end)| Column { end, param: *param, leaf }));
    }
    Ok(columns)
}

impl Blocks {
    fn new(program: &Program, wrt: &[ParamId], sweep: Sweep, of: Option<&str>) -> Result<Blocks> {
        let (rows, columns) = (rows_of(program, of)?, columns_of(program, wrt)?);
        let flow = Builder::resume(program);
        let (body, blocks) = (Vec::new(), BTreeMap::new());
        let (outputs, places, results) = (program.outputs.clone(), Vec::new(), Vec::new());
        let mut all = Blocks { flow, body, rows, columns, outputs, blocks, places, sweep, results };
        match sweep {
            Sweep::Adjoint => all.by_rows(program, wrt)?,
            Sweep::Forward | Sweep::Cheapest => all.by_columns(program)?,
        }
        all.lift()?;
        Ok(all)
    }

    /// A block for each two of a row and a column, row by row.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let columns = self.columns.len();
        (0..self.rows.len()).flat_map(|row| (0..columns).map(move |column| (row, column))).collect()
    }

    /// A tensor with a single 1, at a place that is made here.
    fn one_hot(&mut self, end: &End, name: &str) -> Result<ValueId> {
        let dims = &end.leaf.dims;
        let places: Vec<SizeId> = dims.iter().map(|_| self.flow.index("place")).collect();
        self.places.push(places.iter().copied().zip(dims.iter().cloned()).collect());
        let loops = Loops::new();
        let leaf = Small { flow: &mut self.flow, loops: &loops }.one_hot(name, dims, &places, end.storage)?;
        self.push(leaf)
    }

    pub fn push(&mut self, leaf: super::Leaf) -> Result<ValueId> {
        let value = leaf.given()?;
        self.body.push(Stmt::Leaf(leaf));
        Ok(value)
    }

    /// The tangents of all rows, in a direction for each column.
    fn by_columns(&mut self, program: &Program) -> Result<()> {
        let mut directions = Vec::with_capacity(self.columns.len());
        for column in self.columns.clone() {
            let name = format!("d{}", column.end.name);
            let one = self.one_hot(&column.end, &name)?;
            let leaves = program.signature.types.leaves(program.signature.params[column.param].ty)?;
            let mut tangents = Vec::with_capacity(leaves.len());
            for (at, leaf) in leaves.into_iter().enumerate() {
                let value = match at == column.leaf {
                    true => one,
                    false => {
                        let mut small = Small { flow: &mut self.flow, loops: &Loops::new() };
                        let zeros = small.constant(&name, &leaf.dims, 0.0)?;
                        self.push(zeros)?
                    }
                };
                tangents.push((leaf.path, value));
            }
            let params = BTreeMap::from([(column.param, Source::Values(tangents))]);
            directions.push(Direction::new(params, &program.body)?);
        }
        let mut derive = Forward::new(self.flow.clone(), directions);
        let body = derive.block(&program.body, &Loops::new())?;
        self.body.extend(body);
        for (column, direction) in derive.directions.iter().enumerate() {
            for (row, Row { value, .. }) in self.rows.iter().enumerate() {
                if let Some(value) = direction.tangent(*value) {
                    self.blocks.insert((row, column), Lifted { value, places: Vec::new() });
                }
            }
        }
        self.flow = derive.flow;
        Ok(())
    }

    /// What is owed to all columns, for the seed of each row.
    fn by_rows(&mut self, program: &Program, wrt: &[ParamId]) -> Result<()> {
        let mut active = Active { params: wrt.iter().copied().collect(), ..Active::default() };
        active.through(&program.body)?;
        self.body.clone_from(&program.body);
        for (row, Row { end, value, .. }) in self.rows.clone().into_iter().enumerate() {
            let seed = self.one_hot(&end, "dy")?;
            let mut body = std::mem::take(&mut self.body);
            let (flow, owed) = owed_to_params(self.flow.clone(), &program.body, &active, &[(value, seed)], &mut body)?;
            (self.flow, self.body) = (flow, body);
            for (at, column) in self.columns.iter().enumerate() {
                if let Some(value) = owed.get(&(column.param, column.leaf)) {
                    self.blocks.insert((row, at), Lifted { value: *value, places: Vec::new() });
                }
            }
        }
        Ok(())
    }

    /// Makes axes of the places of ones.
    fn lift(&mut self) -> Result<()> {
        for (place, steps) in self.places.clone().into_iter().flatten().rev() {
            let mut known = BTreeMap::new();
            let axis = Axis { index: place, steps };
            self.body = lift::block(&mut self.flow, &self.body, &axis, &Loops::new(), &mut known)?;
            for block in self.blocks.values_mut() {
                let Some(found) = known.get(&block.value) else { continue };
                block.value = found.value;
                if found.varies {
                    block.places.insert(0, place);
                }
            }
            for x in self.outputs.iter_mut().flat_map(|output| &mut output.values) {
                *x = known.get(x).map_or(*x, |found| found.value);
            }
        }
        Ok(())
    }

    /// The indices at which a derivative is read for a place of its row and of its column.
    pub fn at<T: Clone>(&self, (row, column): (usize, usize), rows: &[T], columns: &[T]) -> Vec<T> {
        let (ones, (of, own)) = match self.sweep {
            Sweep::Adjoint => (row, (rows, columns)),
            Sweep::Forward | Sweep::Cheapest => (column, (columns, rows)),
        };
        let block = &self.blocks.get(&(row, column));
        let present = |place: &SizeId| block.is_some_and(|block| block.places.contains(place));
        let places = self.places.get(ones).into_iter().flatten();
        let of = places.zip(of).filter(|((place, _), _)| present(place)).map(|(_, i)| i.clone());
        of.chain(own.iter().cloned()).collect()
    }

    /// A block as a result.
    fn output(&mut self, kind: &str, pair: (usize, usize), part: Part) -> Result<Output> {
        let (row, column) = (self.rows[pair.0].end.clone(), self.columns[pair.1].end.clone());
        let shared = match part {
            Part::Whole => 0,
            Part::Diagonal(axes) => diff::shared_axes(self.flow.signature(), &row, &column, axes)?,
        };
        let (rows, columns) = (&row.leaf.dims, &column.leaf.dims);
        let dims: Vec<Size> = rows.iter().chain(columns.iter().skip(shared)).cloned().collect();
        let name = block_name(kind, &row, &column);
        let loops = Loops::new();
        let leaf = match self.blocks.get(&pair).cloned() {
            None => Small { flow: &mut self.flow, loops: &loops }.constant(&name, &dims, 0.0)?,
            Some(block) => {
                let indices: Vec<usize> = (0..dims.len()).collect();
                let of = indices.get(..rows.len()).unwrap_or_default();
                let by = [of.get(..shared).unwrap_or_default(), indices.get(rows.len()..).unwrap_or_default()].concat();
                let at = self.at(pair, of, &by);
                let stored = |gens: &[IndexId], places: &[usize]| -> Vec<Affine> {
                    places.iter().filter_map(|k| gens.get(*k)).map(|i| Affine::index(*i)).collect()
                };
                Small { flow: &mut self.flow, loops: &loops }.gather_where(&name, block.value, &dims, |gens| {
                    let guard = row.storage.stored_at(&stored(gens, of));
                    Ok((guard.and(column.storage.stored_at(&stored(gens, &by))), stored(gens, &at)))
                })?
            }
        };
        self.result(name, leaf, (&row, &column))
    }

    /// A leaf that gives a block becomes a result.
    pub fn result(&mut self, name: String, leaf: super::Leaf, (row, column): (&End, &End)) -> Result<Output> {
        let value = self.push(leaf)?;
        let ty = self.flow.get(value).ty;
        let axes = self.flow.frame().types.real_dims(ty).unwrap_or_default().len();
        if axes > Types::MAX_RANK {
            let (limit, found) = (Types::MAX_RANK as u64, axes as u64);
            return Err(Error::Limit { what: "axes of a derivative", limit, found });
        }
        let row_axes = row.leaf.dims.len().min(axes);
        self.results.push(Block {
            result: name.clone(),
            row: row.name.clone(),
            column: column.name.clone(),
            row_axes,
            column_axes: axes - row_axes,
        });
        Ok(Output { name, ty, values: vec![value] })
    }
}

/// `jacobian_y_x`
pub(super) fn block_name(kind: &str, row: &End, column: &End) -> String {
    let names = [kind, &row.name, &column.name].into_iter().filter(|name| !name.is_empty());
    names.collect::<Vec<_>>().join("_")
}

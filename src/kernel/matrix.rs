//! Jacobians, Hessians and Gauss-Newton matrices as one sparse matrix.
//!
//! A derivative of several outputs by several parameters has a result for each two, its [`Block`]s, with the axes of both. As one matrix the
//! elements of all outputs are its rows and those of all parameters its columns, each in row-major order and one after the other:
//!
//! ```text
//!            x              y
//! f   [ jacobian_f_x   jacobian_f_y ]
//! g   [ jacobian_g_x   jacobian_g_y ]
//! ```
//!
//! Binding lists the places of all blocks and sorts them by row and column. Where the entries of all blocks are written row by row, the kernel
//! stores each number at its place in the matrix ([`MATRIX`]); it is told where the rows of each block start there. Else each block
//! is computed on its own, and one more pass puts the numbers in order, for which binding keeps where that of each entry comes from; there is
//! none where the entries of the blocks are in the order of the matrix, as those of a single block are.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Arguments, Assembly, Copied, Engine, Kernel, Output, Status};
use crate::error::{Error, Result};
use crate::loops::MATRIX;
use crate::tensor::{Csr, CsrPattern, Inputs, Relation, Value};
use crate::ty::Block;

/// A derivative whose blocks are put together as one matrix.
#[derive(Clone, Debug)]
pub struct Matrix {
    assembly: Assembly,
    /// Whether the program takes the number of all entries.
    whole: bool,
    blocks: Vec<Block>,
}

impl Matrix {
    /// Blocks in the order of the results, those with axes on the patterns of an assembly, which takes the number of all entries if it is the `whole`.
    pub(crate) fn new(assembly: Assembly, whole: bool, blocks: Vec<Block>) -> Matrix {
        Matrix { assembly, whole, blocks }
    }

    /// The programs that list the entries of the blocks, and compute their numbers.
    pub fn assembly(&self) -> &Assembly {
        &self.assembly
    }

    /// Finds out the pattern for the sizes and relations of inputs.
    ///
    /// # Errors
    /// Those of [`Kernel::bind`], and [`Error::Limit`] for a matrix that is too large.
    pub fn bind(&self, inputs: &Inputs, engine: Engine) -> Result<MatrixKernel> {
        self.bind_with_constants(inputs, &[], engine)
    }

    /// The same, where the numbers of some parameters are constant: see [`Kernel::bind_with_constants`].
    ///
    /// # Errors
    /// Those of [`Matrix::bind`] and [`Kernel::bind_with_constants`].
    pub fn bind_with_constants(&self, inputs: &Inputs, constants: &[&str], engine: Engine) -> Result<MatrixKernel> {
        let other = self.assembly.for_inputs(inputs)?;
        let assembly = other.as_ref().unwrap_or(&self.assembly);
        let mut found = assembly.find(inputs)?;
        let mut patterns = found.patterns.iter().map(|(_, pattern)| pattern.as_ref());
        let blocks = self.blocks.iter().map(|block| (block, if block.has_axes() { patterns.next() } else { None }));
        let order = Order::new(&blocks.collect::<Vec<_>>())?;
        found.entries = self.whole.then_some(order.pattern.len() as i64);
        let starts = assembly.relations().iter().copied().zip(order.starts).collect();
        let kernel = assembly.bind_found(inputs, constants, (engine, engine.limit()), found, starts)?;
        let in_matrix = |name: &str| name == MATRIX || self.blocks.iter().any(|block| block.result == name);
        let is_block: Vec<bool> = kernel.outputs().iter().map(|output| in_matrix(&output.name)).collect();
        let in_order = kernel.outputs().iter().any(|output| output.name == MATRIX);
        let (pattern, sources) = (order.pattern, if in_order { Vec::new() } else { order.sources });
        Ok(MatrixKernel { kernel, stored: pattern.len(), pattern, is_block, sources, idle: Mutex::default() })
    }
}

/// A matrix that is bound to sizes and relations: a pattern, and a kernel that computes its numbers.
#[derive(Debug)]
pub struct MatrixKernel {
    kernel: Kernel,
    pattern: Arc<CsrPattern>,
    /// Which outputs of the kernel are blocks.
    is_block: Vec<bool>,
    /// Where the number of each entry comes from, among those of all blocks in order; empty where they are in order.
    sources: Vec<u32>,
    /// How many numbers all blocks have.
    stored: usize,
    /// Buffers for calls.
    idle: Mutex<Vec<Vec<f64>>>,
}

/// The rows or the columns of a matrix: names with where they start, and how many there are.
#[derive(Default)]
struct Side {
    parts: Vec<(String, usize)>,
    len: usize,
}

impl Side {
    /// Where a part starts, which is appended if it is new.
    fn start(&mut self, name: &str, shape: &[usize]) -> Result<usize> {
        if let Some((_, start)) = self.parts.iter().find(|(known, _)| known == name) {
            return Ok(*start);
        }
        let start = self.len;
        let len = shape.iter().try_fold(1usize, |len, n| len.checked_mul(*n));
        self.len = len
            .and_then(|len| start.checked_add(len))
            .filter(|len| *len <= u32::MAX as usize)
            .ok_or(Error::Limit { what: "rows or columns of a matrix", limit: u64::from(u32::MAX), found: u64::MAX })?;
        self.parts.push((name.to_owned(), start));
        Ok(start)
    }
}

/// The entries of all blocks in the order of the matrix.
struct Order {
    pattern: Arc<CsrPattern>,
    /// Where the number of each entry comes from, among those of all blocks in order; empty where they are in order.
    sources: Vec<u32>,
    /// For each row of each block that has axes where its entries start.
    starts: Vec<Vec<u32>>,
}

/// An entry: its row and column, its number among the entries of all blocks in order, and its block.
type Entry = (usize, usize, usize, usize);

impl Order {
    /// The order of blocks with their patterns; a block without axes has none, and one entry.
    fn new(blocks: &[(&Block, Option<&Relation>)]) -> Result<Order> {
        let (mut rows, mut columns) = (Side::default(), Side::default());
        let mut entries: Vec<Entry> = Vec::new();
        let mut parts: Vec<(usize, usize)> = Vec::new();
        for (number, (block, pattern)) in blocks.iter().enumerate() {
            let shape = pattern.map_or(&[][..], Relation::shape);
            let (of, by) = shape.split_at(block.row_axes.min(shape.len()));
            let (row, column) = (rows.start(&block.row, of)?, columns.start(&block.column, by)?);
            // The number of rows was multiplied with checks above.
            parts.push((row, of.iter().product()));
            let flat =
                |tuple: &[usize], shape: &[usize]| tuple.iter().zip(shape).fold(0, |place, (k, n)| place * n + k);
            let stored = entries.len();
            match pattern {
                Some(pattern) => entries.extend(pattern.tuples().enumerate().map(|(at, tuple)| {
                    let (i, j) = tuple.split_at(of.len().min(tuple.len()));
                    (row + flat(i, of), column + flat(j, by), stored + at, number)
                })),
                None => entries.push((row, column, stored, number)),
            }
        }
        let narrow = |x: usize| {
            let limit = u64::from(u32::MAX);
            u32::try_from(x).map_err(|_| Error::Limit { what: "entries of a matrix", limit, found: x as u64 })
        };
        narrow(entries.len())?;
        entries.sort_unstable();
        let mut starts: Vec<Vec<u32>> = parts.iter().map(|(_, len)| vec![0; *len]).collect();
        let mut last = None;
        for (at, (row, _, _, number)) in entries.iter().enumerate() {
            // The columns of a block are neighbours, so its entries in a row are.
            if last != Some((*row, *number))
                && let (Some(starts), Some((first, _))) = (starts.get_mut(*number), parts.get(*number))
                && let Some(start) = starts.get_mut(row - first)
            {
                *start = narrow(at)?;
            }
            last = Some((*row, *number));
        }
        let mut indptr = vec![0; rows.len + 1];
        entries.iter().for_each(|(row, ..)| indptr[row + 1] += 1);
        for row in 1..indptr.len() {
            indptr[row] += indptr[row - 1];
        }
        let indices = entries.iter().map(|(_, column, ..)| narrow(*column)).collect::<Result<_>>()?;
        let pattern = CsrPattern::new(rows.len, columns.len, indptr, indices);
        let pattern = Arc::new(pattern.map_err(|malformed| Error::bug("matrix", malformed.to_string()))?);
        let sorted = entries.iter().enumerate().all(|(at, (_, _, source, _))| at == *source);
        let sources = match sorted {
            true => Vec::new(),
            false => entries.iter().map(|(_, _, source, _)| narrow(*source)).collect::<Result<_>>()?,
        };
        let starts = starts.into_iter().zip(blocks).filter(|(_, (_, pattern))| pattern.is_some());
        Ok(Order { pattern, sources, starts: starts.map(|(starts, _)| starts).collect() })
    }
}

impl MatrixKernel {
    /// Where the matrix has entries.
    pub fn pattern(&self) -> &Arc<CsrPattern> {
        &self.pattern
    }

    /// The kernel that computes the numbers, those of each block as a result of its own or all as one result, and the results that are no blocks.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The results that are no blocks, in order.
    pub fn others(&self) -> impl Iterator<Item = &Output> {
        let outputs = self.kernel.outputs().iter().zip(&self.is_block);
        outputs.filter(|(_, is_block)| !**is_block).map(|(output, _)| output)
    }

    /// Which engine the next call uses, and why.
    pub fn status(&self) -> Status {
        self.kernel.status()
    }

    /// Computes the numbers of all entries, row by row, and the leaves of the results that are no blocks, from [`Arguments`] as
    /// [`Kernel::call_into`] takes them.
    ///
    /// # Errors
    /// [`Error::Data`] for a leaf or a result of another shape, length or precision than the one bound.
    pub fn call_into(
        &self,
        arguments: impl Arguments,
        others: &mut [&mut [f64]],
        values: &mut [f64],
    ) -> Result<Copied> {
        if values.len() != self.stored {
            let message = format!("{} numbers are expected, found {}", self.stored, values.len());
            return Err(Error::data("entries", message));
        }
        if self.sources.is_empty() {
            return self.kernel.call_into(arguments, &mut self.outputs(others, values));
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut blocks = idle.unwrap_or_else(|| vec![0.0; self.stored]);
        let result = self.kernel.call_into(arguments, &mut self.outputs(others, &mut blocks));
        for (value, number) in values.iter_mut().zip(self.in_order(&blocks)) {
            *value = number;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(blocks);
        result
    }

    /// The numbers of the blocks in the order of the entries, where it is another one.
    fn in_order(&self, blocks: &[f64]) -> impl Iterator<Item = f64> {
        self.sources.iter().map(|source| blocks.get(*source as usize).copied().unwrap_or(f64::NAN))
    }

    /// The outputs of the kernel in order: blocks one after the other, and the others.
    fn outputs<'a>(&self, others: &'a mut [&mut [f64]], mut blocks: &'a mut [f64]) -> Vec<&'a mut [f64]> {
        let mut others = others.iter_mut();
        let mut outputs: Vec<&mut [f64]> = Vec::new();
        for (output, is_block) in self.kernel.outputs().iter().zip(&self.is_block) {
            for leaf in &output.leaves {
                if *is_block {
                    let (own, rest) = blocks.split_at_mut(leaf.len().min(blocks.len()));
                    outputs.push(own);
                    blocks = rest;
                } else if let Some(other) = others.next() {
                    outputs.push(other);
                }
            }
        }
        outputs
    }

    /// Computes the results that are no blocks, each with its name, and the matrix.
    ///
    /// # Errors
    /// [`Error::Data`] for inputs that do not fit.
    pub fn call(&self, inputs: &Inputs) -> Result<(Vec<(String, Value)>, Csr)> {
        let results = self.kernel.call(inputs)?;
        let mut blocks = Vec::with_capacity(self.stored);
        let mut others = Vec::new();
        for (result, is_block) in results.into_iter().zip(&self.is_block) {
            match is_block {
                true => result.1.leaves().iter().for_each(|leaf| blocks.extend_from_slice(leaf.data())),
                false => others.push(result),
            }
        }
        let values = if self.sources.is_empty() { blocks } else { self.in_order(&blocks).collect() };
        let matrix = Csr::with_pattern(self.pattern.clone(), values);
        Ok((others, matrix.map_err(|malformed| Error::bug("matrix", malformed.to_string()))?))
    }
}

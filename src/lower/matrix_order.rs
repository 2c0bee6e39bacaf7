//! Blocks of a matrix, each number of which is stored where the matrix has it.
//!
//! The blocks of one row of blocks have their entries side by side in each row of the matrix: those of a block come one after the other, in
//! the order in which the block has them, so with
//!
//! ```text
//! starts(r)  =  where the entries of the block in its row r start in the matrix
//! ```
//!
//! the entry of row `r` that has `k` of its row before it belongs at `starts(r) + k`. Where the entries of all blocks are written row by
//! row ([`Rows`]) that `k` is known: a literal where rows have constant counts. Binding finds out `starts`, as it does where
//! entries of a relation start; the loops look it up once for each row, instead of where the row starts in the block.
//!
//! Every number is still stored once, by the nest of its block, at a place that no other one has: the entries of the matrix are those of the
//! blocks, each once. The blocks become buffers of one output, the matrix, of its whole length.
//!
//! What this refuses: a block whose entries are not written row by row, or that has no rows, or whose rows have several axes of which another
//! than the first has no literal length; and blocks that are one tensor, of which one would be read from the other. The blocks are then
//! outputs of their own, and whoever calls puts their numbers in order.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::Rows;
use crate::base::{RelationId, SizeId, VarId};
use crate::index::{Affine, Size};
use crate::loops::{BufferKind, MATRIX, Program};
use crate::prepare::Sparse;

/// The blocks that become one output.
#[derive(Clone, Debug)]
pub(super) struct MatrixOrder {
    outputs: BTreeSet<usize>,
    /// How many entries the matrix has.
    entries: SizeId,
    /// How many leading axes are rows, by the pattern of the block.
    pub row_axes: BTreeMap<RelationId, usize>,
}

/// A block with its tensor, the axes of it, and its rows where they are known.
pub(super) struct Block<'a> {
    pub sparse: Sparse,
    pub tensor: VarId,
    pub dims: &'a [Size],
    pub rows: Option<&'a Rows>,
}

impl MatrixOrder {
    /// The blocks of a matrix with so many entries; nothing where they have to be put in order afterwards, or are in order anyway.
    pub fn new(blocks: &[Block<'_>], entries: SizeId) -> Option<MatrixOrder> {
        let mut stored = BTreeSet::new();
        let fits = |block: &Block<'_>| {
            let Some((first, others)) = block.dims.get(..block.sparse.row_axes).and_then(<[Size]>::split_first) else {
                return false;
            };
            let literal = |n: &Size| n.as_constant().is_some_and(|n| n >= 0);
            let flat = others.iter().all(literal) && (first.is_size() || literal(first));
            block.rows.is_some_and(|rows| flat && (rows.is_empty() || stored.insert(block.tensor)))
        };
        (blocks.len() > 1 && blocks.iter().all(fits)).then(|| MatrixOrder {
            outputs: blocks.iter().map(|block| block.sparse.output).collect(),
            entries,
            row_axes: blocks.iter().map(|block| (block.sparse.relation, block.sparse.row_axes)).collect(),
        })
    }

    /// Makes one output of the blocks, after the others.
    pub fn put_together(&self, program: &mut Program) {
        let (mut others, mut blocks) = (Vec::new(), Vec::new());
        let mut numbers = BTreeMap::new();
        for (at, (name, leaves)) in std::mem::take(&mut program.outputs).into_iter().enumerate() {
            if self.outputs.contains(&at) {
                blocks.extend(leaves);
            } else {
                numbers.insert(at, others.len());
                others.push((name, leaves));
            }
        }
        let matrix = others.len();
        for id in program.buffers.ids() {
            let buffer = &mut program.buffers[id];
            let BufferKind::Output(output, leaf) = buffer.kind else { continue };
            buffer.kind = match numbers.get(&output) {
                Some(number) => BufferKind::Output(*number, leaf),
                None => {
                    buffer.entries = None;
                    buffer.dims = vec![Affine::size(self.entries)];
                    BufferKind::Output(matrix, 0)
                }
            };
        }
        // All blocks are of the shape of the matrix; one stands for it.
        others.push((MATRIX.to_owned(), blocks.into_iter().take(1).collect()));
        program.outputs = others;
    }
}

//! Results on patterns that are found out when a program is bound.
//!
//! ```text
//! out C = t    ==>    out C on R = t      with a new relation R, the places of C
//! ```
//!
//! Nobody declares the relation: the *structure* program lists its tuples, and the *values* program takes them.

use std::sync::Arc;

use crate::base::{RelationId, SizeId};
use crate::error::{Error, Result};
use crate::index::Size;
use crate::loops::{MATRIX, PLACES};
use crate::tssa::Program;
use crate::ty::{self, RelationKind, Storage};

/// An output on a pattern that is found out.
#[derive(Clone, Copy, Debug)]
pub struct Sparse {
    /// Its number.
    pub output: usize,
    /// The pattern.
    pub relation: RelationId,
    /// How many of its leading axes are rows, of a block of a matrix.
    pub row_axes: usize,
}

/// A program with outputs on patterns that are found out.
#[derive(Clone, Debug)]
pub struct OnPatterns {
    /// The program.
    pub program: Program,
    /// The outputs.
    pub sparse: Vec<Sparse>,
    /// How many entries all of them have, where they are the blocks of one matrix.
    pub entries: Option<SizeId>,
    /// The names and shapes of the patterns.
    pub patterns: Vec<(String, Vec<Size>)>,
}

/// Takes outputs of a program, tensors of reals, to be sparse, matrices in CSR and others in COO format; each with the number of its leading axes
/// that are rows, if they are all blocks of one matrix.
///
/// # Errors
/// [`Error::Request`] for an output that there is not or that cannot be sparse.
pub fn on_patterns(program: &Program, outputs: &[(&str, usize)], matrix: bool) -> Result<OnPatterns> {
    let mut numbers = Vec::new();
    for (name, row_axes) in outputs {
        let known = program.outputs.iter().position(|output| output.name == *name);
        let known = known.ok_or_else(|| {
            let all: Vec<&str> = program.outputs.iter().map(|output| output.name.as_str()).collect();
            Error::Request(format!("the program has no result `{name}`; it has: {}", all.join(", ")))
        })?;
        numbers.push((known, *row_axes));
    }
    let mut program = program.clone();
    let mut signature = (*program.signature).clone();
    let entries = matrix.then(|| signature.sizes.push(MATRIX.to_owned()));
    let (mut patterns, mut sparse) = (Vec::new(), Vec::new());
    for (number, row_axes) in numbers {
        let Some(output) = program.outputs.get_mut(number) else { continue };
        let [leaf] = output.leaves.as_slice() else {
            return Err(Error::Request(format!("`{}` is no tensor of reals", output.name)));
        };
        let shape = program.stmts[*leaf].dims.clone();
        if output.storage != Storage::Dense || shape.is_empty() {
            return Err(Error::Request(format!("`{}` has a format already, or no axes", output.name)));
        }
        let name = format!("{PLACES}{}", output.name);
        let relation = ty::Relation { name: name.clone(), shape: shape.clone(), kind: RelationKind::Free };
        let relation: RelationId = signature.relations.push(relation);
        output.storage = Storage::computed(shape.len(), relation);
        patterns.push((name, shape));
        sparse.push(Sparse { output: number, relation, row_axes });
    }
    program.signature = Arc::new(signature);
    Ok(OnPatterns { program, sparse, entries, patterns })
}

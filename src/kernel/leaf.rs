//! What the leaves of parameters and outputs look like: their format, shape or pattern, and how their numbers are stored.

use std::sync::Arc;

use crate::base::RelationId;
use crate::error::{Error, Result};
use crate::loops::{BufferKind, Program};
use crate::tensor::{
    Bindings, Coo, Csc, CscPattern, Csr, CsrPattern, Dense, Element, Precision, Relation, Tensor, Value,
};
use crate::ty::Signature;

/// How the outputs of a kernel are stored: their leaves.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// What each leaf looks like.
    pub leaves: Vec<Leaf>,
    /// How the numbers of each leaf are stored.
    pub precisions: Vec<Precision>,
}

/// The shape of a leaf of a parameter or an output.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// All elements in row-major order.
    Dense(Vec<usize>),
    /// The values of the entries of a sparse matrix, row by row.
    Csr(Arc<CsrPattern>),
    /// The values of the entries of a sparse matrix, column by column.
    Csc(Arc<CscPattern>),
    /// The values of the entries of a sparse tensor.
    Coo(Arc<Relation>),
}

impl Leaf {
    /// What a tensor looks like.
    pub(super) fn of(tensor: &Tensor) -> Leaf {
        match tensor {
            Tensor::Dense(dense) => Leaf::Dense(dense.shape().to_vec()),
            Tensor::Csr(csr) => Leaf::Csr(csr.pattern().clone()),
            Tensor::Csc(csc) => Leaf::Csc(csc.pattern().clone()),
            Tensor::Coo(coo) => Leaf::Coo(coo.pattern().clone()),
        }
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        match self {
            // Shapes of leaves were multiplied with checks when they were bound.
            Leaf::Dense(shape) => shape.iter().product(),
            Leaf::Csr(pattern) => pattern.len(),
            Leaf::Csc(pattern) => pattern.len(),
            Leaf::Coo(relation) => relation.len(),
        }
    }

    /// Whether it has no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensor with these numbers.
    pub(super) fn tensor<A: Element>(&self, data: Vec<A>) -> Result<Tensor> {
        let made = match self {
            Leaf::Dense(shape) => Dense::stored(shape, data).map(Tensor::from),
            Leaf::Csr(pattern) => Csr::stored(pattern.clone(), data).map(Tensor::from),
            Leaf::Csc(pattern) => Csc::stored(pattern.clone(), data).map(Tensor::from),
            Leaf::Coo(relation) => Coo::stored(relation.clone(), data).map(Tensor::from),
        };
        made.map_err(|malformed| Error::bug("kernel", malformed.to_string()))
    }
}

/// The leaves of the parameters that calls are given, with the names of the parameters, and how the numbers of each are stored.
pub(super) fn input_leaves(
    signature: &Signature,
    bindings: &Bindings,
    is_given: impl Fn(&str) -> bool,
) -> (Vec<(String, Leaf)>, Vec<Precision>) {
    let (mut leaves, mut precisions) = (Vec::new(), Vec::new());
    let params = signature.params.values().zip(bindings.values().values());
    for (param, value) in params.filter(|(param, _)| is_given(&param.name)) {
        for tensor in value.leaves() {
            leaves.push((param.name.clone(), Leaf::of(tensor)));
            precisions.push(tensor.precision());
        }
    }
    (leaves, precisions)
}

/// The outputs and their leaves.
pub(super) fn output_leaves(program: &Program, bindings: &Bindings) -> Result<Vec<Output>> {
    let mut outputs = Vec::new();
    for (name, buffers) in &program.outputs {
        let (mut leaves, mut precisions) = (Vec::new(), Vec::new());
        for buffer in buffers {
            let buffer =
                program.buffers.get(*buffer).ok_or_else(|| Error::bug("bind", "an output without a buffer"))?;
            precisions.push(buffer.precision);
            leaves.push(match buffer.entries {
                None => Leaf::Dense(buffer.axes().iter().map(|n| bindings.length(n)).collect::<Result<_>>()?),
                Some(relation) => sparse_leaf(program, bindings, relation)?,
            });
        }
        outputs.push(Output { name: name.clone(), leaves, precisions });
    }
    Ok(outputs)
}

/// The program with its parameters in the precision of the tensors that are bound.
///
/// # Errors
/// [`Error::Data`] for a tensor in double precision where the program wants single precision.
pub(super) fn in_bound_precision(mut program: Arc<Program>, bindings: &Bindings) -> Result<Arc<Program>> {
    let mut single = Vec::new();
    for (id, buffer) in program.buffers.iter() {
        let BufferKind::Param(param, leaf) = buffer.kind else { continue };
        let tensor = bindings.values().get(param).and_then(|value| value.leaves().get(leaf));
        match (buffer.precision, tensor.map(|tensor| tensor.precision()).unwrap_or_default()) {
            (Precision::Double, Precision::Single) => single.push(id),
            (Precision::Single, Precision::Double) => {
                let message = "the program stores it in single precision, the tensor is in double precision; round it with `in_precision`";
                return Err(Error::data(&buffer.name, message));
            }
            _ => {}
        }
    }
    if !single.is_empty() {
        let program = Arc::make_mut(&mut program);
        single.into_iter().try_for_each(|buffer| program.store_buffer_in_single(buffer))?;
    }
    Ok(program)
}

/// A leaf on a pattern: that of a sparse parameter, in the format of the parameter, or one that was found out.
fn sparse_leaf(program: &Program, bindings: &Bindings, relation: RelationId) -> Result<Leaf> {
    for (id, param) in program.signature.params.iter() {
        let tensor = bindings.values().get(id).and_then(Value::as_tensor);
        if let (true, Some(tensor)) = (param.storage.pattern() == Some(relation), tensor) {
            return Ok(Leaf::of(tensor));
        }
    }
    // A pattern of its own.
    let pattern = bindings.relations().get(relation).ok_or_else(|| Error::bug("bind", "a relation without tuples"))?;
    match pattern.shape() {
        [rows, cols] => {
            let malformed = |malformed: crate::tensor::Malformed| Error::bug("bind", malformed.to_string());
            let mut indptr: Vec<usize> = Vec::new();
            let room = indptr.try_reserve_exact(rows.saturating_add(1));
            room.map_err(|_| Error::Memory { what: "rows of a result", wanted: *rows as u64 })?;
            indptr.resize(rows + 1, 0);
            pattern.column(0).iter().for_each(|row| indptr[row + 1] += 1);
            for row in 0..*rows {
                indptr[row + 1] += indptr[row];
            }
            let indices = pattern.column(1).iter().map(|col| u32::try_from(*col));
            let indices = indices.collect::<std::result::Result<_, _>>().map_err(|_| Error::Overflow)?;
            CsrPattern::new(*rows, *cols, indptr, indices).map(|csr| Leaf::Csr(Arc::new(csr))).map_err(malformed)
        }
        _ => Ok(Leaf::Coo(pattern.clone())),
    }
}

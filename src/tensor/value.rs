//! Run-time values.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::{Array, ArrayViewD, Dimension};
use serde::{Deserialize, Serialize};
use sprs::CsMat;

use super::{Coo, Csc, Csr, Dense, Malformed, Precision, Relation, Slice};
use crate::error::{self, Error};
use crate::ty::Format;

/// A tensor of reals in one of the storage formats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tensor {
    /// Every element.
    Dense(Dense),
    /// A sparse matrix, row by row.
    Csr(Csr),
    /// A sparse matrix, column by column.
    Csc(Csc),
    /// A sparse tensor, as sorted coordinates.
    Coo(Coo),
}

impl Tensor {
    /// The lengths of the axes.
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Tensor::Dense(dense) => dense.shape().to_vec(),
            Tensor::Csr(csr) => vec![csr.rows(), csr.cols()],
            Tensor::Csc(csc) => vec![csc.rows(), csc.cols()],
            Tensor::Coo(coo) => coo.shape().to_vec(),
        }
    }

    /// The numbers as they are stored: all elements, or the values of the entries in the order of the format.
    pub fn numbers(&self) -> Slice<'_> {
        match self {
            Tensor::Dense(dense) => dense.numbers(),
            Tensor::Csr(csr) => csr.numbers(),
            Tensor::Csc(csc) => csc.numbers(),
            Tensor::Coo(coo) => coo.numbers(),
        }
    }

    /// How the numbers are stored.
    pub fn precision(&self) -> Precision {
        self.numbers().precision()
    }

    /// The tensor with its numbers widened or rounded.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Tensor {
        match self {
            Tensor::Dense(dense) => dense.in_precision(precision).into(),
            Tensor::Csr(csr) => csr.in_precision(precision).into(),
            Tensor::Csc(csc) => csc.in_precision(precision).into(),
            Tensor::Coo(coo) => coo.in_precision(precision).into(),
        }
    }

    /// The numbers that are stored: all elements, or the values of the entries in the order of the format; in single precision a wide copy.
    pub fn data(&self) -> &[f64] {
        match self {
            Tensor::Dense(dense) => dense.data(),
            Tensor::Csr(csr) => csr.data(),
            Tensor::Csc(csc) => csc.data(),
            Tensor::Coo(coo) => coo.data(),
        }
    }

    /// The numbers that are stored; makes a tensor in single precision one in double precision.
    pub fn data_mut(&mut self) -> &mut [f64] {
        match self {
            Tensor::Dense(dense) => dense.data_mut(),
            Tensor::Csr(csr) => csr.data_mut(),
            Tensor::Csc(csc) => csc.data_mut(),
            Tensor::Coo(coo) => coo.data_mut(),
        }
    }

    /// The format as it is called in programs.
    pub fn format(&self) -> &'static str {
        self.sparse_format().map_or("dense", Format::name)
    }

    /// The format of a sparse tensor.
    pub fn sparse_format(&self) -> Option<Format> {
        match self {
            Tensor::Dense(_) => None,
            Tensor::Csr(_) => Some(Format::Csr),
            Tensor::Csc(_) => Some(Format::Csc),
            Tensor::Coo(_) => Some(Format::Coo),
        }
    }

    /// The places of the entries of a sparse tensor, in lexicographic order.
    pub fn pattern(&self) -> Option<&Arc<Relation>> {
        match self {
            Tensor::Dense(_) => None,
            Tensor::Csr(csr) => Some(csr.pattern().relation()),
            Tensor::Csc(csc) => Some(csc.pattern().relation()),
            Tensor::Coo(coo) => Some(coo.pattern()),
        }
    }

    /// The numbers that are stored, those of a sparse tensor in the order of [`Tensor::pattern`]: a copy where the format has another order.
    pub fn lexicographic(&self) -> Cow<'_, [f64]> {
        match self {
            Tensor::Csc(csc) => Cow::Owned(csc.by_rows().into_wide()),
            Tensor::Dense(_) | Tensor::Csr(_) | Tensor::Coo(_) => Cow::Borrowed(self.data()),
        }
    }

    /// The tensor with other numbers, in double precision, which are given in the order of [`Tensor::lexicographic`].
    ///
    /// # Errors
    /// If there is not one number for each that is stored.
    pub fn with_lexicographic(&self, data: Vec<f64>) -> Result<Tensor, Malformed> {
        Ok(match self {
            Tensor::Dense(dense) => Dense::new(dense.shape(), data)?.into(),
            Tensor::Csr(csr) => Csr::with_pattern(csr.pattern().clone(), data)?.into(),
            Tensor::Csc(csc) => Csc::from_rows(csc.pattern().clone(), &data)?.into(),
            Tensor::Coo(coo) => Coo::with_pattern(coo.pattern().clone(), data)?.into(),
        })
    }

    /// A sparse tensor in a format.
    ///
    /// # Errors
    /// If the format does not store tensors of that shape.
    pub fn sparse(format: Format, coo: Coo) -> Result<Tensor, Malformed> {
        Ok(match format {
            Format::Csr => Csr::from_coo(&coo)?.into(),
            Format::Csc => Csc::from_coo(&coo)?.into(),
            Format::Coo => coo.into(),
        })
    }

    /// The tensor in dense storage, if it is.
    pub fn as_dense(&self) -> Option<&Dense> {
        match self {
            Tensor::Dense(dense) => Some(dense),
            _ => None,
        }
    }
}

impl From<Dense> for Tensor {
    fn from(dense: Dense) -> Self {
        Tensor::Dense(dense)
    }
}

impl From<Csr> for Tensor {
    fn from(csr: Csr) -> Self {
        Tensor::Csr(csr)
    }
}

impl From<Csc> for Tensor {
    fn from(csc: Csc) -> Self {
        Tensor::Csc(csc)
    }
}

impl From<Coo> for Tensor {
    fn from(coo: Coo) -> Self {
        Tensor::Coo(coo)
    }
}

/// A value of any type in struct-of-arrays form: its leaves in the order of [`Types::leaves`](crate::ty::Types::leaves).
///
/// `[n] (real, [m] real)` has two leaves, of shapes `[n]` and `[n, m]`. Leaves are shared: a clone copies no numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value {
    leaves: Vec<Arc<Tensor>>,
}

impl Value {
    /// A value with these leaves.
    pub fn new(leaves: Vec<Arc<Tensor>>) -> Self {
        Value { leaves }
    }

    pub(super) fn into_leaves(self) -> Vec<Arc<Tensor>> {
        self.leaves
    }

    /// A number.
    pub fn scalar(x: f64) -> Self {
        Value::from(Dense::scalar(x))
    }

    /// A vector of numbers.
    pub fn vector(data: Vec<f64>) -> Self {
        Value::from(Dense::vector(data))
    }

    /// A pair: `(real, real)` of two numbers, or `[n] (real, real)` of two vectors of one length.
    pub fn pair(fst: Value, snd: Value) -> Self {
        let mut leaves = fst.leaves;
        leaves.extend(snd.leaves);
        Value { leaves }
    }

    /// The value with all its numbers widened or rounded.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Value {
        Value { leaves: self.leaves.iter().map(|leaf| Arc::new(leaf.in_precision(precision))).collect() }
    }

    /// The leaves.
    pub fn leaves(&self) -> &[Arc<Tensor>] {
        &self.leaves
    }

    /// The leaf, of a value that has just one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self.leaves.as_slice() {
            [leaf] => Some(leaf),
            _ => None,
        }
    }

    /// The numbers that are stored, of a value of one leaf: all elements, or the values of the entries in the order of the format.
    pub fn as_slice(&self) -> Option<&[f64]> {
        Some(self.as_tensor()?.data())
    }

    /// The lengths of the axes, of a value of one leaf.
    pub fn shape(&self) -> Option<Vec<usize>> {
        Some(self.as_tensor()?.shape())
    }

    /// All elements as a dense tensor, of a value of one leaf in any format.
    ///
    /// # Errors
    /// [`Error::Request`] for a pair; and where there are more elements than memory.
    pub fn to_dense(&self) -> error::Result<Dense> {
        let Some(tensor) = self.as_tensor() else {
            return Err(Error::Request("a pair is no tensor: take one of its `leaves`".to_owned()));
        };
        let dense = match tensor {
            Tensor::Dense(dense) => Ok(dense.clone()),
            Tensor::Csr(csr) => csr.to_dense(),
            Tensor::Csc(csc) => csc.to_dense(),
            Tensor::Coo(coo) => coo.to_dense(),
        };
        dense.map_err(|malformed| malformed.of("this tensor"))
    }

    /// All elements in row-major order, of a value of one leaf in any format.
    ///
    /// # Errors
    /// As [`Value::to_dense`].
    pub fn to_vec(&self) -> error::Result<Vec<f64>> {
        Ok(self.to_dense()?.data().to_vec())
    }

    /// All elements as an array of `ndarray`, of a value of one leaf in any format: `let w: Array1<f64> = results["w"].to_array()?`.
    ///
    /// # Errors
    /// As [`Value::to_dense`], and [`Error::Request`] for another number of axes.
    pub fn to_array<D: Dimension>(&self) -> error::Result<Array<f64, D>> {
        let array = self.to_dense()?.into_array();
        let found = array.ndim();
        array.into_dimensionality().map_err(|_| {
            let axes = D::NDIM.map_or_else(|| "other".to_owned(), |axes| axes.to_string());
            Error::Request(format!("an array with {axes} axes is asked for, and the tensor has {found}"))
        })
    }

    /// The matrix as one of `sprs`, row by row: of a sparse one its entries, of a dense one all but the zeros.
    ///
    /// # Errors
    /// [`Error::Request`] for a value that is no matrix; and where there are more rows or columns than are stored.
    pub fn to_sprs(&self) -> error::Result<CsMat<f64>> {
        let csr = match self.as_tensor() {
            Some(Tensor::Csr(csr)) => Ok(csr.clone()),
            Some(Tensor::Csc(csc)) => Csr::from_csc(csc),
            Some(Tensor::Coo(coo)) => Csr::from_coo(coo),
            Some(Tensor::Dense(dense)) => Csr::from_dense(dense),
            None => return Err(Error::Request("a pair is no tensor: take one of its `leaves`".to_owned())),
        };
        csr.map_err(|malformed| malformed.of("this tensor"))?.to_sprs()
    }

    /// The array, of a value that is a dense tensor; [`Value::to_dense`] makes one of sparse ones too.
    pub fn as_array(&self) -> Option<ArrayViewD<'_, f64>> {
        Some(self.as_tensor()?.as_dense()?.view())
    }

    /// The matrix, of a value that is one in CSR format.
    pub fn as_csr(&self) -> Option<&Csr> {
        match self.as_tensor()? {
            Tensor::Csr(csr) => Some(csr),
            _ => None,
        }
    }

    /// The number, of a value that is one.
    #[doc(alias = "item")]
    pub fn as_scalar(&self) -> Option<f64> {
        self.as_tensor()?.as_dense()?.as_scalar()
    }
}

impl<T: Into<Tensor>> From<T> for Value {
    fn from(tensor: T) -> Self {
        Value { leaves: vec![Arc::new(tensor.into())] }
    }
}

//! Inputs as the Python half describes them: for each parameter a name and its leaves, each a tuple that starts with what it is.
//!
//! ```text
//! ("dense", array)                                        float32 or float64, row-major
//! ("csr", (rows, cols), indptr, indices, data)            also "csc"; index arrays of int32 or of int64
//! ("coo", shape, (coordinates, ..), data)                 int64, in lexicographic order
//! ("map", (sources, ..), targets)                         int64
//! ("rel", shape, (coordinates, ..))                       int64, in lexicographic order
//! ```
//!
//! The numbers of what is not constant are not looked at: zeros stand for them, in memory that nobody touches.

use std::collections::BTreeMap;
use std::sync::Arc;

use iverson::tensor::{Coo, Csc, CscPattern, Csr, CsrPattern, Dense, Inputs, Malformed, Relation, Tensor, Value};
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors;

/// A parameter and its leaves.
pub type Given<'py> = (String, Vec<Bound<'py, PyTuple>>);

/// The inputs of a program.
pub fn inputs(
    py: Python<'_>,
    values: Vec<Given<'_>>,
    sizes: BTreeMap<String, i64>,
    constants: &[String],
) -> PyResult<Inputs> {
    let mut inputs = Inputs::new();
    for (name, leaves) in values {
        let keep = constants.contains(&name);
        let mut tensors = Vec::new();
        for leaf in leaves {
            let kind: String = leaf.get_item(0)?.extract()?;
            match kind.as_str() {
                "map" => {
                    let targets = integers(&leaf.get_item(2)?)?;
                    inputs.map(&name, &leaf.get_item(1)?.extract::<Vec<usize>>()?, coordinates(py, &name, &targets)?);
                }
                "rel" => {
                    let relation = relation(py, &name, &leaf)?;
                    inputs.relation(&name, relation);
                }
                kind => tensors.push(Arc::new(tensor(py, &name, kind, &leaf, keep)?)),
            }
        }
        if !tensors.is_empty() {
            inputs.value(&name, Value::new(tensors));
        }
    }
    for (name, size) in sizes {
        inputs.size(name, size);
    }
    Ok(inputs)
}

/// Numbers, or zeros where they do not matter.
enum Numbers {
    Double(Vec<f64>),
    Single(Vec<f32>),
}

fn numbers(array: &Bound<'_, PyAny>, keep: bool) -> PyResult<(Vec<usize>, Numbers)> {
    if let Ok(array) = array.cast::<PyArrayDyn<f64>>() {
        let numbers = if keep { array.readonly().as_slice()?.to_vec() } else { vec![0.0; array.len()] };
        return Ok((array.shape().to_vec(), Numbers::Double(numbers)));
    }
    let array = array.cast::<PyArrayDyn<f32>>()?;
    let numbers = if keep { array.readonly().as_slice()?.to_vec() } else { vec![0.0; array.len()] };
    Ok((array.shape().to_vec(), Numbers::Single(numbers)))
}

fn tensor(py: Python<'_>, name: &str, kind: &str, leaf: &Bound<'_, PyTuple>, keep: bool) -> PyResult<Tensor> {
    let (shape, data) = numbers(&leaf.get_item(leaf.len() - 1)?, keep)?;
    let made = match kind {
        "dense" => match data {
            Numbers::Double(data) => Dense::new(&shape, data).map(Tensor::from),
            Numbers::Single(data) => Dense::single(&shape, data).map(Tensor::from),
        },
        "csr" | "csc" => {
            let (rows, cols): (usize, usize) = leaf.get_item(1)?.extract()?;
            let (indptr, indices) = (leaf.get_item(2)?, leaf.get_item(3)?);
            match (indptr.cast::<PyArray1<i32>>(), indices.cast::<PyArray1<i32>>()) {
                (Ok(indptr), Ok(indices)) => {
                    let (indptr, indices) = (indptr.readonly(), indices.readonly());
                    compressed(kind, (rows, cols), indptr.as_slice()?, indices.as_slice()?, data)
                }
                _ => compressed(kind, (rows, cols), &integers(&indptr)?, &integers(&indices)?, data),
            }
        }
        "coo" => {
            let pattern = Arc::new(relation(py, name, leaf)?);
            match data {
                Numbers::Double(data) => Coo::with_pattern(pattern, data).map(Tensor::from),
                Numbers::Single(data) => Coo::single(pattern, data).map(Tensor::from),
            }
        }
        _ => return Err(PyTypeError::new_err(format!("there is no format `{kind}`"))),
    };
    made.map_err(|malformed| refused(py, name, malformed))
}

/// A matrix row by row or column by column.
fn compressed<I: Copy + TryInto<i128>>(
    kind: &str,
    (rows, cols): (usize, usize),
    indptr: &[I],
    indices: &[I],
    data: Numbers,
) -> Result<Tensor, Malformed> {
    Ok(match kind {
        "csr" => {
            let pattern = Arc::new(CsrPattern::from_integers(rows, cols, indptr, indices)?);
            match data {
                Numbers::Double(data) => Csr::with_pattern(pattern, data)?.into(),
                Numbers::Single(data) => Csr::single(pattern, data)?.into(),
            }
        }
        _ => {
            let pattern = Arc::new(CscPattern::from_integers(rows, cols, indptr, indices)?);
            match data {
                Numbers::Double(data) => Csc::with_pattern(pattern, data)?.into(),
                Numbers::Single(data) => Csc::single(pattern, data)?.into(),
            }
        }
    })
}

/// The error for arrays that are no tensor.
fn refused(py: Python<'_>, name: &str, malformed: Malformed) -> PyErr {
    let inner = match &malformed {
        Malformed::ByColumns(inner) => inner,
        other => other,
    };
    let is_twice = matches!(inner, Malformed::DuplicateColumn { .. } | Malformed::DuplicateEntry { .. });
    let advice = if is_twice { "; `sum_duplicates()` adds up what is stored twice" } else { "" };
    errors::data(py, name, format!("{malformed}{advice}"))
}

/// The tuples of a relation, or the places of the entries of a tensor.
fn relation(py: Python<'_>, name: &str, leaf: &Bound<'_, PyTuple>) -> PyResult<Relation> {
    let shape: Vec<usize> = leaf.get_item(1)?.extract()?;
    let mut columns = Vec::new();
    for column in leaf.get_item(2)?.try_iter()? {
        columns.push(coordinates(py, name, &integers(&column?)?)?);
    }
    Relation::new(shape, columns).map_err(|malformed| refused(py, name, malformed))
}

fn integers(array: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    Ok(array.cast::<PyArray1<i64>>()?.readonly().as_slice()?.to_vec())
}

fn coordinates(py: Python<'_>, name: &str, integers: &[i64]) -> PyResult<Vec<usize>> {
    let coordinate = |(entry, k): (usize, &i64)| {
        usize::try_from(*k).map_err(|_| errors::data(py, name, format!("entry {entry} is negative: {k}")))
    };
    integers.iter().enumerate().map(coordinate).collect()
}

//! Sparse tensors of any rank, as sorted coordinates.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::malformed::{Checked, Malformed};
use super::serial::Floats;
use super::{Csr, Dense, Relation};

/// A sparse tensor of reals: the places that are stored, and their values in lexicographic order of the places.
///
/// The places are a [`Relation`], which a tensor and its gradient share. A stored zero is a stored entry; a place is stored
/// once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Coo {
    pattern: Arc<Relation>,
    data: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct Parts {
    shape: Vec<usize>,
    columns: Vec<Vec<usize>>,
    data: Floats,
}

impl TryFrom<Parts> for Coo {
    type Error = Malformed;
    fn try_from(parts: Parts) -> Checked<Self> {
        Coo::new(parts.shape, parts.columns, parts.data.into())
    }
}

impl From<Coo> for Parts {
    fn from(coo: Coo) -> Parts {
        let columns = (0..coo.shape().len()).map(|axis| coo.pattern.column(axis).to_vec()).collect();
        Parts { shape: coo.shape().to_vec(), columns, data: coo.data.into() }
    }
}

impl Coo {
    /// A tensor from one array of coordinates for each axis, the places in lexicographic order, and the values.
    ///
    /// # Errors
    /// As [`Relation::new`]; also if there is not one value for each place.
    pub fn new(shape: Vec<usize>, columns: Vec<Vec<usize>>, data: Vec<f64>) -> Checked<Self> {
        Coo::with_pattern(Arc::new(Relation::new(shape, columns)?), data)
    }

    /// A tensor that stores given places.
    ///
    /// # Errors
    /// If there is not one value for each place.
    pub fn with_pattern(pattern: Arc<Relation>, data: Vec<f64>) -> Checked<Self> {
        if pattern.len() != data.len() {
            return Err(Malformed::ValueCount { coordinates: pattern.len(), values: data.len() });
        }
        Ok(Coo { pattern, data })
    }

    /// A tensor from entries in any order.
    ///
    /// # Errors
    /// As [`Coo::new`]; a place that occurs twice is an error too.
    pub fn from_unsorted(shape: Vec<usize>, columns: Vec<Vec<usize>>, data: &[f64]) -> Checked<Self> {
        let (pattern, order, data) = sort(shape, columns, data)?;
        if let Some(at) = pattern.first_duplicate() {
            let entry = order.get(at).copied().unwrap_or(at);
            return Err(Malformed::DuplicateEntry { entry, tuple: pattern.tuple(at) });
        }
        Coo::with_pattern(Arc::new(pattern), data)
    }

    /// A tensor from entries in any order; the values of one place are added in the order in which they are given.
    ///
    /// # Errors
    /// As [`Coo::new`].
    pub fn sum_duplicates(shape: Vec<usize>, columns: Vec<Vec<usize>>, data: &[f64]) -> Checked<Self> {
        let (pattern, _, sorted) = sort(shape, columns, data)?;
        let mut sums: Vec<f64> = Vec::with_capacity(sorted.len());
        let mut previous = None;
        for (tuple, x) in pattern.tuples().zip(sorted) {
            match sums.last_mut() {
                Some(sum) if previous.as_ref() == Some(&tuple) => *sum += x,
                _ => sums.push(x),
            }
            previous = Some(tuple);
        }
        Coo::with_pattern(Arc::new(pattern.without_repetitions()), sums)
    }

    /// The elements of a dense tensor that are not zero; a NaN is not zero.
    ///
    /// # Errors
    /// If the tensor has no axes.
    pub fn from_dense(dense: &Dense) -> Checked<Self> {
        let support = dense.data().iter().map(|&x| if x != 0.0 { 1.0 } else { 0.0 }).collect();
        let pattern = Relation::from_dense(&Dense::new(dense.shape(), support)?)?;
        let data = dense.data().iter().copied().filter(|&x| x != 0.0).collect();
        Coo::with_pattern(Arc::new(pattern), data)
    }

    /// The tensor with its zeros.
    ///
    /// # Errors
    /// If it is too large for that.
    pub fn to_dense(&self) -> Checked<Dense> {
        let mut dense = Dense::zeros(self.shape())?;
        let elements = dense.data_mut();
        for (entry, &x) in self.data.iter().enumerate() {
            // Fits: the place is within a shape whose product was just checked.
            let place = (0..self.shape().len())
                .fold(0, |place, axis| place * self.shape()[axis] + self.pattern.column(axis)[entry]);
            elements[place] = x;
        }
        Ok(dense)
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        self.pattern.shape()
    }

    /// The places that are stored.
    pub fn pattern(&self) -> &Arc<Relation> {
        &self.pattern
    }

    /// The stored values, in lexicographic order of their places.
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// The stored values, in lexicographic order of their places.
    pub fn data_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// The stored value at a place, nothing where none is stored.
    pub fn get(&self, place: &[i64]) -> Option<f64> {
        self.pattern.position(place).and_then(|at| self.data.get(at).copied())
    }
}

/// Sorted places, where each came from, and the values in that order.
fn sort(shape: Vec<usize>, columns: Vec<Vec<usize>>, data: &[f64]) -> Checked<(Relation, Vec<usize>, Vec<f64>)> {
    let (pattern, order) = Relation::sorted(shape, columns)?;
    if pattern.len() != data.len() {
        return Err(Malformed::ValueCount { coordinates: pattern.len(), values: data.len() });
    }
    let sorted = order.iter().map(|&at| data[at]).collect();
    Ok((pattern, order, sorted))
}

impl From<&Csr> for Coo {
    fn from(csr: &Csr) -> Self {
        Coo { pattern: csr.pattern().relation().clone(), data: csr.data().to_vec() }
    }
}

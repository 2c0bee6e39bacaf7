//! Sparse tensors of any rank, as sorted coordinates.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::malformed::{Checked, Malformed};
use super::precision::{Element, List, Precision, Slice};
use super::serial::Floats;
use super::{Csc, Csr, Dense, Relation};

/// A sparse tensor of reals: the places that are stored, and their values in lexicographic order of the places.
///
/// The places are a [`Relation`], which a tensor and its gradient share. A stored zero is a stored entry; a place is stored
/// once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Coo {
    pattern: Arc<Relation>,
    data: List,
}

#[derive(Serialize, Deserialize)]
struct Parts {
    shape: Vec<usize>,
    columns: Vec<Vec<usize>>,
    data: Floats,
    #[serde(default, skip_serializing_if = "Precision::is_double")]
    precision: Precision,
}

impl TryFrom<Parts> for Coo {
    type Error = Malformed;
    fn try_from(parts: Parts) -> Checked<Self> {
        let coo = Coo::new(parts.shape, parts.columns, parts.data.into())?;
        Ok(if parts.precision.is_double() { coo } else { coo.in_precision(parts.precision) })
    }
}

impl From<Coo> for Parts {
    fn from(coo: Coo) -> Parts {
        let columns = (0..coo.shape().len()).map(|axis| coo.pattern.column(axis).to_vec()).collect();
        let (shape, precision) = (coo.shape().to_vec(), coo.precision());
        Parts { shape, columns, data: coo.data.into_wide().into(), precision }
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
        Coo::stored(pattern, data)
    }

    /// A tensor in single precision that stores given places.
    ///
    /// # Errors
    /// If there is not one value for each place.
    pub fn single(pattern: Arc<Relation>, data: Vec<f32>) -> Checked<Self> {
        Coo::stored(pattern, data)
    }

    pub(crate) fn stored<A: Element>(pattern: Arc<Relation>, data: Vec<A>) -> Checked<Self> {
        if pattern.len() != data.len() {
            return Err(Malformed::ValueCount { coordinates: pattern.len(), values: data.len() });
        }
        Ok(Coo { pattern, data: A::list(data) })
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
        for (entry, x) in sorted.into_iter().enumerate() {
            match sums.last_mut() {
                Some(sum) if pattern.repeats(entry) => *sum += x,
                _ => sums.push(x),
            }
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
        for (entry, &x) in self.data().iter().enumerate() {
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

    /// The stored values, in lexicographic order of their places; of a tensor in single precision a wide copy.
    pub fn data(&self) -> &[f64] {
        self.data.wide()
    }

    /// The stored values, in lexicographic order of their places; makes a tensor in single precision one in double precision.
    pub fn data_mut(&mut self) -> &mut [f64] {
        self.data.make_double().map_or(&mut [], Vec::as_mut_slice)
    }

    /// The stored values as they are stored, in that order.
    pub fn numbers(&self) -> Slice<'_> {
        self.data.numbers()
    }

    /// How the values are stored.
    pub fn precision(&self) -> Precision {
        self.data.precision()
    }

    /// The tensor with its values widened or rounded.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Coo {
        Coo { pattern: self.pattern.clone(), data: self.data.in_precision(precision) }
    }

    pub(super) fn list(&self) -> &List {
        &self.data
    }

    /// The stored value at a place, nothing where none is stored.
    pub fn get(&self, place: &[i64]) -> Option<f64> {
        self.pattern.position(place).and_then(|at| self.numbers().get(at))
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

impl From<&Csc> for Coo {
    fn from(csc: &Csc) -> Self {
        Coo { pattern: csc.pattern().relation().clone(), data: csc.by_rows() }
    }
}

impl From<&Csr> for Coo {
    fn from(csr: &Csr) -> Self {
        Coo { pattern: csr.pattern().relation().clone(), data: csr.list().clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coo_refuses_bad_data() {
        type Bad = (&'static [usize], &'static [&'static [usize]], usize, &'static str);
        let table: &[Bad] = &[
            (&[], &[], 0, "a sparse tensor or relation needs at least one axis"),
            (&[], &[], 1, "a sparse tensor or relation needs at least one axis"),
            (&[1; 17], &[], 0, "17 axes are more than the limit of 16"),
            (&[usize::MAX], &[&[]], 0, "axis 0 has length 18446744073709551615"),
            (&[2, 2], &[&[0]], 1, "2 axes need as many coordinate arrays, there are 1"),
            (&[2], &[&[0], &[0]], 1, "1 axes need as many coordinate arrays, there are 2"),
            (&[2, 2], &[&[0], &[0, 1]], 1, "axis 1 has 2 coordinates, axis 0 has 1"),
            (&[2, 2], &[&[0, 1], &[0]], 2, "axis 1 has 1 coordinates, axis 0 has 2"),
            (&[2, 2], &[&[0, 2], &[0, 0]], 2, "entry 1 has coordinate 2 on axis 0, whose length is 2"),
            (&[2, 0], &[&[0], &[0]], 1, "entry 0 has coordinate 0 on axis 1, whose length is 0"),
            (&[2, 2], &[&[0, 1], &[0, usize::MAX]], 2, "entry 1 has coordinate 18446744073709551615 on axis 1"),
            (&[2, 2], &[&[1, 0], &[0, 0]], 2, "entry 1 at [0, 0] comes before its predecessor"),
            (&[2, 2], &[&[0, 0], &[1, 0]], 2, "entry 1 at [0, 0] comes before its predecessor"),
            (&[2, 2], &[&[0, 0], &[1, 1]], 2, "entry 1 is at [0, 1] like another"),
            (&[2, 2], &[&[0, 1], &[0, 0]], 1, "2 coordinates are stored with 1 values"),
            (&[2, 2], &[&[0], &[0]], 2, "1 coordinates are stored with 2 values"),
        ];
        for &(shape, columns, values, message) in table {
            let columns: Vec<Vec<usize>> = columns.iter().map(|c| c.to_vec()).collect();
            let data = vec![1.0; values];
            let error = Coo::new(shape.to_vec(), columns.clone(), data.clone()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{message}: {error}");
            let text = serde_json::json!({ "shape": shape, "columns": columns, "data": data });
            let error = serde_json::from_value::<Coo>(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{message}: {error}");
        }
    }

    #[test]
    fn coo_sorts_and_sums_on_request() {
        let columns = || vec![vec![1, 0, 1, 0, 1], vec![0, 1, 0, 0, 0]];
        let data = [1.0, 2.0, 4.0, 8.0, 16.0];
        let error = Coo::from_unsorted(vec![2, 2], columns(), &data).unwrap_err();
        assert_eq!(error, Malformed::DuplicateEntry { entry: 2, tuple: vec![1, 0] });
        let coo = Coo::sum_duplicates(vec![2, 2], columns(), &data).unwrap();
        assert_eq!(coo.pattern().tuples().collect::<Vec<_>>(), [[0, 0], [0, 1], [1, 0]]);
        assert_eq!(coo.data(), [8.0, 2.0, 21.0]);
        let sorted = Coo::from_unsorted(vec![2, 2], vec![vec![1, 0], vec![0, 1]], &data[..2]).unwrap();
        assert_eq!((sorted.get(&[0, 1]), sorted.get(&[1, 0]), sorted.get(&[1, 1])), (Some(2.0), Some(1.0), None));
    }

    #[test]
    fn coo_of_vast_shape_takes_memory_for_its_entries_only() {
        let side = 1 << 40;
        let coo = Coo::new(vec![side; 3], vec![vec![0, side - 1]; 3], vec![1.0, 2.0]).unwrap();
        assert_eq!(coo.get(&[side as i64 - 1; 3]), Some(2.0));
        assert!(matches!(coo.to_dense(), Err(Malformed::TooManyElements { .. })));
        let back: Coo = serde_json::from_str(&serde_json::to_string(&coo).unwrap()).unwrap();
        assert_eq!(back, coo);
        assert_eq!(coo.pattern().candidates(&[None, Some(0), None], 2), [0]);
    }
}

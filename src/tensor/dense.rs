//! Dense tensors: every element, in row-major order.

use ndarray::{ArrayD, ArrayViewD, IxDyn};
use serde::{Deserialize, Serialize};

use super::malformed::{Checked, Malformed};
use super::precision::{Element, NdArray, Precision, Slice, Stored};
use super::serial::Floats;
use super::shape::{element_count, filled};

/// A dense tensor of reals: an [`ndarray::ArrayD`] that is contiguous and in row-major order, with fewer than 2^47 elements, in double
/// or in single [`Precision`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Dense {
    array: NdArray,
}

#[derive(Serialize, Deserialize)]
struct Parts {
    shape: Vec<usize>,
    data: Floats,
    #[serde(default, skip_serializing_if = "Precision::is_double")]
    precision: Precision,
}

impl TryFrom<Parts> for Dense {
    type Error = Malformed;
    fn try_from(parts: Parts) -> Checked<Self> {
        let dense = Dense::new(&parts.shape, parts.data.into())?;
        Ok(if parts.precision.is_double() { dense } else { dense.in_precision(parts.precision) })
    }
}

impl From<Dense> for Parts {
    fn from(dense: Dense) -> Parts {
        Parts { shape: dense.shape().to_vec(), precision: dense.precision(), data: dense.into_vec().into() }
    }
}

impl Dense {
    /// A tensor of a shape; the data is in row-major order.
    ///
    /// # Errors
    /// If the shape is too large or the data is not as long as the shape says.
    pub fn new(shape: &[usize], data: Vec<f64>) -> Checked<Self> {
        Dense::stored(shape, data)
    }

    /// A tensor in single precision.
    ///
    /// # Errors
    /// As [`Dense::new`].
    pub fn single(shape: &[usize], data: Vec<f32>) -> Checked<Self> {
        Dense::stored(shape, data)
    }

    pub(crate) fn stored<A: Element>(shape: &[usize], data: Vec<A>) -> Checked<Self> {
        let expected = element_count(shape)?;
        let found = data.len();
        let length = || Malformed::DataLength { shape: shape.to_vec(), expected, found };
        if found != expected {
            return Err(length());
        }
        let array = ArrayD::from_shape_vec(IxDyn(shape), data).map_err(|_| length())?;
        Ok(Dense { array: A::array(array) })
    }

    /// The elements of an array that is in row-major order and small enough: a vector, a table, a number.
    pub(super) fn in_row_major_order<A: Element>(array: ArrayD<A>) -> Self {
        Dense { array: A::array(array) }
    }

    /// A number.
    pub fn scalar(x: f64) -> Self {
        Dense { array: Stored::Double(ArrayD::from_elem(IxDyn(&[]), x)) }
    }

    /// A vector.
    pub fn vector(data: Vec<f64>) -> Self {
        Dense { array: Stored::Double(ndarray::Array1::from_vec(data).into_dyn()) }
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// If the shape is too large.
    pub fn zeros(shape: &[usize]) -> Checked<Self> {
        let data = filled(element_count(shape)?, 0.0)?;
        Dense::new(shape, data)
    }

    /// The tensor in an array of any layout, of `f64` or `f32`.
    ///
    /// # Errors
    /// If it has too many axes.
    pub fn from_array<A: Element, D: ndarray::Dimension>(from: ndarray::Array<A, D>) -> Checked<Self> {
        let from = from.into_dyn();
        let (shape, count) = (from.shape().to_vec(), element_count(from.shape())?);
        let data = if from.is_standard_layout() {
            let (mut data, offset) = from.into_raw_vec_and_offset();
            // A sliced array keeps the memory around it.
            data.drain(..offset.unwrap_or(0));
            data.truncate(count);
            data
        } else {
            from.iter().copied().collect()
        };
        Dense::stored(&shape, data)
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        match &self.array {
            Stored::Double(array) => array.shape(),
            Stored::Single(array, _) => array.shape(),
        }
    }

    /// How the elements are stored.
    pub fn precision(&self) -> Precision {
        self.array.precision()
    }

    /// The tensor with its elements widened or rounded.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Dense {
        Dense { array: self.array.in_precision(precision) }
    }

    /// The elements as they are stored, in row-major order.
    pub fn numbers(&self) -> Slice<'_> {
        self.array.numbers()
    }

    /// The elements in row-major order; of a tensor in single precision a wide copy.
    pub fn data(&self) -> &[f64] {
        self.array.wide().as_slice().unwrap_or(&[])
    }

    /// The elements in row-major order; makes a tensor in single precision one in double precision.
    pub fn data_mut(&mut self) -> &mut [f64] {
        self.array.make_double().and_then(|array| array.as_slice_mut()).unwrap_or(&mut [])
    }

    /// The elements in row-major order.
    pub fn into_vec(self) -> Vec<f64> {
        self.array.into_wide().into_raw_vec_and_offset().0
    }

    /// The elements as an array; of a tensor in single precision a wide copy.
    pub fn view(&self) -> ArrayViewD<'_, f64> {
        self.array.wide().view()
    }

    /// The elements as an array, if they are in single precision.
    pub fn single_view(&self) -> Option<ArrayViewD<'_, f32>> {
        match &self.array {
            Stored::Double(_) => None,
            Stored::Single(array, _) => Some(array.view()),
        }
    }

    /// The elements as an array.
    pub fn into_array(self) -> ArrayD<f64> {
        self.array.into_wide()
    }

    /// The element at a place, nothing outside.
    pub fn get(&self, place: &[usize]) -> Option<f64> {
        match &self.array {
            Stored::Double(array) => array.get(place).copied(),
            Stored::Single(array, _) => array.get(place).map(|x| x.widen()),
        }
    }

    /// The number, of a tensor without axes.
    pub fn as_scalar(&self) -> Option<f64> {
        if self.shape().is_empty() { self.get(&[]) } else { None }
    }
}

impl From<f64> for Dense {
    fn from(x: f64) -> Self {
        Dense::scalar(x)
    }
}

impl From<Vec<f64>> for Dense {
    fn from(data: Vec<f64>) -> Self {
        Dense::vector(data)
    }
}

impl<A: Element, D: ndarray::Dimension> TryFrom<ndarray::Array<A, D>> for Dense {
    type Error = Malformed;
    fn try_from(array: ndarray::Array<A, D>) -> Checked<Self> {
        Dense::from_array(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Axis, Slice, array};

    #[test]
    fn dense_checks_shapes_before_allocating() {
        let fits = |shape: &[usize]| Dense::zeros(shape).map(|dense| dense.data().len());
        assert_eq!(fits(&[]), Ok(1));
        assert_eq!(fits(&[0]), Ok(0));
        assert_eq!(fits(&[0, 1 << 40]), Ok(0));
        assert_eq!(fits(&[1 << 40, 0]), Ok(0));
        assert_eq!(fits(&[1; 16]), Ok(1));
        assert_eq!(fits(&[1; 17]), Err(Malformed::TooManyAxes { found: 17, limit: 16 }));
        for shape in [&[1 << 47][..], &[1 << 24, 1 << 23], &[1 << 40, 1 << 40], &[1 << 40, 0, 1 << 40]] {
            assert_eq!(fits(shape), Err(Malformed::TooManyElements { shape: shape.to_vec() }));
        }
        assert!(matches!(fits(&[usize::MAX, 0]), Err(Malformed::AxisTooLong { axis: 0, .. })));
        assert!(matches!(fits(&[(1 << 47) - 1]), Err(Malformed::OutOfMemory { .. })));
        let length = Malformed::DataLength { shape: vec![2, 3], expected: 6, found: 5 };
        assert_eq!(Dense::new(&[2, 3], vec![0.0; 5]), Err(length));
    }

    #[test]
    fn dense_is_row_major_whatever_it_came_from() {
        let a = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let columns = Dense::from_array(a.clone().reversed_axes()).unwrap();
        assert_eq!((columns.shape(), columns.data()), (&[3, 2][..], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0][..]));
        let mut slice = a.clone();
        slice.slice_axis_inplace(Axis(0), Slice::from(1..));
        let row = Dense::from_array(slice).unwrap();
        assert_eq!((row.shape(), row.data()), (&[1, 3][..], &[4.0, 5.0, 6.0][..]));
        assert_eq!(row.into_vec(), [4.0, 5.0, 6.0]);
        let mut backwards = a.clone();
        backwards.invert_axis(Axis(1));
        assert_eq!(Dense::from_array(backwards).unwrap().data(), [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
        let mut first = a;
        first.slice_axis_inplace(Axis(1), Slice::from(..1));
        assert_eq!(Dense::from_array(first).unwrap().into_vec(), [1.0, 4.0]);
        assert_eq!(Dense::scalar(2.5).as_scalar(), Some(2.5));
        assert_eq!(Dense::vector(vec![2.5]).as_scalar(), None);
    }

    #[test]
    fn dense_is_checked_when_deserialised() {
        let dense = Dense::new(&[2, 2], vec![-0.0, f64::INFINITY, 0.1, 1e-300]).unwrap();
        let text = serde_json::to_string(&dense).unwrap();
        let back: Dense = serde_json::from_str(&text).unwrap();
        assert_eq!(back, dense);
        assert!(back.data()[0].is_sign_negative());
        let error = serde_json::from_str::<Dense>(r#"{"shape":[2,2],"data":[1.0]}"#).unwrap_err();
        assert!(error.to_string().starts_with("the shape [2, 2] needs 4 numbers, the data has 1"));
        let error = serde_json::from_str::<Dense>(r#"{"shape":[1099511627776,1099511627776],"data":[]}"#).unwrap_err();
        assert!(error.to_string().contains("more elements than the limit"));
    }
}

//! What can be given as a value: numbers, vectors, slices and arrays of Rust, arrays of `ndarray`, matrices of `sprs`.
//!
//! `f64` gives double precision and `f32` single precision; integers are numbers in double precision, exact up to 2^53. Rows of a matrix may be vectors, of one length. What is borrowed is copied. An array or a
//! matrix may turn out to be no tensor, for example where its columns are not sorted: [`Inputs::value`](super::Inputs::value) keeps that for
//! whoever binds the inputs.

use ndarray::{ArrayBase, Data, Dimension};
use sprs::{CsMatBase, SpIndex};

use super::malformed::{Checked, Malformed};
use super::{Csc, Csr, Dense, Element, Tensor, Value};

/// What can be given as the value of a parameter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of a parameter",
    note = "a value is a number, a vector, an array, a matrix of `ndarray` or `sprs`, or a tensor such as `Dense::new(&[2, 3], numbers)?`",
    note = "numbers are `f64`, `f32`, `i32`, `i64`, `u32` or `usize`; the tuples of a relation are given by `Inputs::relation`"
)]
pub trait IntoValue {
    /// The value.
    ///
    /// # Errors
    /// If it is no tensor.
    fn into_value(self) -> Checked<Value>;
}

#[diagnostic::do_not_recommend]
impl<T: Into<Value>> IntoValue for T {
    fn into_value(self) -> Checked<Value> {
        Ok(self.into())
    }
}

impl<A: Element, S: Data<Elem = A>, D: Dimension> IntoValue for ArrayBase<S, D> {
    fn into_value(self) -> Checked<Value> {
        Dense::from_array(self.into_owned()).map(Value::from)
    }
}

impl<A: Element, S: Data<Elem = A>, D: Dimension> IntoValue for &ArrayBase<S, D> {
    fn into_value(self) -> Checked<Value> {
        Dense::from_array(self.to_owned()).map(Value::from)
    }
}

/// Row by row gives [`Csr`], column by column [`Csc`].
impl<A, I, P, R, C, V> IntoValue for &CsMatBase<A, I, R, C, V, P>
where
    A: Element,
    I: SpIndex,
    P: SpIndex,
    R: std::ops::Deref<Target = [P]>,
    C: std::ops::Deref<Target = [I]>,
    V: std::ops::Deref<Target = [A]>,
{
    fn into_value(self) -> Checked<Value> {
        match self.is_csr() {
            true => Csr::from_sprs(self.view()).map(Value::from),
            false => Csc::from_sprs(self.view()).map(Value::from),
        }
    }
}

/// Row by row gives [`Csr`], column by column [`Csc`].
impl<A, I, P, R, C, V> IntoValue for CsMatBase<A, I, R, C, V, P>
where
    A: Element,
    I: SpIndex,
    P: SpIndex,
    R: std::ops::Deref<Target = [P]>,
    C: std::ops::Deref<Target = [I]>,
    V: std::ops::Deref<Target = [A]>,
{
    fn into_value(self) -> Checked<Value> {
        (&self).into_value()
    }
}

/// A matrix, row by row.
impl<A: Element> IntoValue for &[Vec<A>] {
    fn into_value(self) -> Checked<Value> {
        let width = self.first().map_or(0, Vec::len);
        if let Some((row, found)) = self.iter().map(Vec::len).enumerate().find(|(_, found)| *found != width) {
            return Err(Malformed::RowLength { row, expected: width, found });
        }
        let numbers: Vec<A> = self.iter().flatten().copied().collect();
        let matrix = ndarray::Array2::from_shape_vec((self.len(), width), numbers);
        let malformed = |_| Malformed::TooManyElements { shape: vec![self.len(), width] };
        Dense::from_array(matrix.map_err(malformed)?).map(Value::from)
    }
}

impl<A: Element> IntoValue for Vec<Vec<A>> {
    fn into_value(self) -> Checked<Value> {
        self[..].into_value()
    }
}

impl<A: Element> IntoValue for &Vec<Vec<A>> {
    fn into_value(self) -> Checked<Value> {
        self[..].into_value()
    }
}

impl From<f64> for Tensor {
    fn from(x: f64) -> Self {
        Dense::scalar(x).into()
    }
}

impl From<&f64> for Tensor {
    fn from(x: &f64) -> Self {
        (*x).into()
    }
}

impl From<f32> for Tensor {
    fn from(x: f32) -> Self {
        Dense::in_row_major_order(ndarray::arr0(x).into_dyn()).into()
    }
}

/// Integers, which are numbers, and where a program has a map or a size its targets or it.
macro_rules! integers {
    ($($number:ty)*) => {$(
        impl From<$number> for Tensor {
            fn from(x: $number) -> Self {
                (x as f64).into()
            }
        }

        impl From<Vec<$number>> for Tensor {
            fn from(x: Vec<$number>) -> Self {
                x.into_iter().map(|x| x as f64).collect::<Vec<f64>>().into()
            }
        }

        impl From<&Vec<$number>> for Tensor {
            fn from(x: &Vec<$number>) -> Self {
                x.clone().into()
            }
        }

        impl<const N: usize> From<[$number; N]> for Tensor {
            fn from(x: [$number; N]) -> Self {
                x.map(|x| x as f64).into()
            }
        }

        /// A matrix, row by row.
        impl<const M: usize, const N: usize> From<[[$number; N]; M]> for Tensor {
            fn from(x: [[$number; N]; M]) -> Self {
                x.map(|row| row.map(|x| x as f64)).into()
            }
        }
    )*};
}

integers!(i32 i64 u32 usize);

/// A matrix, row by row.
impl<const N: usize> From<Vec<[f64; N]>> for Tensor {
    fn from(x: Vec<[f64; N]>) -> Self {
        Dense::in_row_major_order(ndarray::Array2::from(x).into_dyn()).into()
    }
}

/// Vectors and matrices of a type of numbers.
macro_rules! tensors_of {
    ($($number:ty)*) => {$(
        impl From<Vec<$number>> for Tensor {
            fn from(x: Vec<$number>) -> Self {
                Dense::in_row_major_order(ndarray::Array1::from_vec(x).into_dyn()).into()
            }
        }

        impl From<&Vec<$number>> for Tensor {
            fn from(x: &Vec<$number>) -> Self {
                x.clone().into()
            }
        }

        impl From<&[$number]> for Tensor {
            fn from(x: &[$number]) -> Self {
                x.to_vec().into()
            }
        }

        impl<const N: usize> From<[$number; N]> for Tensor {
            fn from(x: [$number; N]) -> Self {
                x.to_vec().into()
            }
        }

        impl<const N: usize> From<&[$number; N]> for Tensor {
            fn from(x: &[$number; N]) -> Self {
                x.to_vec().into()
            }
        }

        /// A matrix, row by row.
        impl<const M: usize, const N: usize> From<[[$number; N]; M]> for Tensor {
            fn from(x: [[$number; N]; M]) -> Self {
                Dense::in_row_major_order(ndarray::arr2(&x).into_dyn()).into()
            }
        }
    )*};
}

tensors_of!(f64 f32);

#[cfg(test)]
mod tests {
    use super::super::{Malformed, Precision};
    use super::*;
    use ndarray::{Array, IxDyn, array};
    use sprs::{CsMat, TriMat};

    fn tensor(value: impl IntoValue) -> Tensor {
        value.into_value().unwrap().as_tensor().unwrap().clone()
    }

    #[test]
    fn values_of_rust() {
        let double =
            [(tensor(2.0), vec![]), (tensor(2), vec![]), (tensor([2.0]), vec![1]), (tensor([[2.0]; 1]), vec![1, 1])];
        for (tensor, shape) in double {
            assert_eq!((tensor.shape(), tensor.data(), tensor.precision()), (shape, &[2.0][..], Precision::Double));
        }
        let (v, s) = (vec![0.5_f32, 3.0], &[0.5_f32, 3.0]);
        for tensor in [tensor(&v), tensor(v.clone()), tensor(&v[..]), tensor(*s), tensor(s)] {
            assert_eq!(
                (tensor.shape(), tensor.data(), tensor.precision()),
                (vec![2], &[0.5, 3.0][..], Precision::Single)
            );
        }
        assert_eq!(tensor(1.5_f32).precision(), Precision::Single);
        assert_eq!(tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).shape(), [2, 3]);
        assert_eq!(tensor([[0.0; 0]; 3]).shape(), [3, 0]);
    }

    #[test]
    fn values_of_ndarray() {
        let a = array![[1.0, 2.0], [3.0, 4.0]];
        for tensor in [tensor(&a), tensor(a.view()), tensor(a.clone())] {
            assert_eq!(tensor.data(), [1.0, 2.0, 3.0, 4.0]);
        }
        assert_eq!(tensor(a.t()).data(), [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(tensor(a.slice(ndarray::s![.., 1])).data(), [2.0, 4.0]);
        let deep = Array::<f64, _>::zeros(IxDyn(&[1; 17]));
        assert_eq!((&deep).into_value(), Err(Malformed::TooManyAxes { found: 17, limit: 16 }));
    }

    #[test]
    fn values_of_sprs() {
        let mut triplets = TriMat::new((2, 3));
        triplets.add_triplet(0, 2, 1.0);
        triplets.add_triplet(1, 0, 2.0);
        let by_rows: CsMat<f64> = triplets.to_csr();
        assert_eq!((tensor(&by_rows).format(), tensor(by_rows.view()).data()), ("csr", &[1.0, 2.0][..]));
        assert_eq!((tensor(by_rows.to_csc()).format(), tensor(by_rows.to_csc()).data()), ("csc", &[2.0, 1.0][..]));
    }
}

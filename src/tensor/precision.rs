//! Numbers at rest: in double precision, or in single.
//!
//! *Single precision is a storage format.* Numbers in it are widened when they are read, which is exact, all arithmetic is in double precision,
//! and a result is rounded once, to the nearest number, when it is stored. Against arithmetic in single precision:
//! - a sum of many terms is as accurate as its result can be, not worse by a factor that grows with the number of terms;
//! - there is one set of functions, with one table of bounds, and one set of derivatives;
//! - bits do not depend on how many lanes a processor has for which width;
//! - what is bound by memory takes half of the traffic all the same.
//!
//! A tensor in single precision reads like any other: [`Tensor::data`](super::Tensor::data) is a wide copy, made at the first call, and kept.
//! [`Tensor::numbers`](super::Tensor::numbers) are the numbers as they are stored.

use std::sync::OnceLock;

use ndarray::ArrayD;

pub use crate::ty::Precision;

mod sealed {
    use super::{List, NdArray};

    pub trait Sealed: Sized {
        fn list(data: Vec<Self>) -> List;
        fn array(array: ndarray::ArrayD<Self>) -> NdArray;
    }
}

/// A number as it is stored: `f32` or `f64`.
pub trait Element: sealed::Sealed + Copy + Default + std::fmt::Debug + Send + Sync + 'static {
    /// Which of them.
    const PRECISION: Precision;

    /// The number as it is computed with, exactly.
    fn widen(self) -> f64;

    /// The nearest number; of two the even one, beyond the largest infinity.
    fn narrow(x: f64) -> Self;

    /// Widens numbers, as many as there are places for.
    fn widen_to(from: &[Self], to: &mut [f64]);
}

impl sealed::Sealed for f64 {
    fn list(data: Vec<f64>) -> List {
        Stored::Double(data)
    }

    fn array(array: ArrayD<f64>) -> NdArray {
        Stored::Double(array)
    }
}

impl sealed::Sealed for f32 {
    fn list(data: Vec<f32>) -> List {
        Stored::Single(data, OnceLock::new())
    }

    fn array(array: ArrayD<f32>) -> NdArray {
        Stored::Single(array, OnceLock::new())
    }
}

impl Element for f64 {
    const PRECISION: Precision = Precision::Double;

    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrow(x: f64) -> f64 {
        x
    }

    #[inline(always)]
    fn widen_to(from: &[f64], to: &mut [f64]) {
        let len = from.len().min(to.len());
        to[..len].copy_from_slice(&from[..len]);
    }
}

impl Element for f32 {
    const PRECISION: Precision = Precision::Single;

    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(x: f64) -> f32 {
        x as f32
    }

    #[inline(always)]
    fn widen_to(from: &[f32], to: &mut [f64]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from.widen());
    }
}

/// Numbers in either precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slice<'a> {
    /// In double precision.
    Double(&'a [f64]),
    /// In single precision.
    Single(&'a [f32]),
}

/// Numbers in either precision, to be written.
#[derive(Debug, PartialEq)]
pub enum SliceMut<'a> {
    /// In double precision.
    Double(&'a mut [f64]),
    /// In single precision.
    Single(&'a mut [f32]),
}

impl<'a> Slice<'a> {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Slice::Double(x) => x.len(),
            Slice::Single(x) => x.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at a place, nothing outside.
    pub fn get(&self, place: usize) -> Option<f64> {
        match self {
            Slice::Double(x) => x.get(place).copied(),
            Slice::Single(x) => x.get(place).map(|x| x.widen()),
        }
    }

    /// How they are stored.
    pub fn precision(&self) -> Precision {
        match self {
            Slice::Double(_) => Precision::Double,
            Slice::Single(_) => Precision::Single,
        }
    }

    /// The numbers, if they are in double precision.
    pub fn as_double(&self) -> Option<&'a [f64]> {
        match self {
            Slice::Double(x) => Some(x),
            Slice::Single(_) => None,
        }
    }

    /// The numbers, if they are in single precision.
    pub fn as_single(&self) -> Option<&'a [f32]> {
        match self {
            Slice::Double(_) => None,
            Slice::Single(x) => Some(x),
        }
    }
}

impl SliceMut<'_> {
    /// The numbers, to be read.
    pub fn as_slice(&self) -> Slice<'_> {
        match self {
            SliceMut::Double(x) => Slice::Double(x),
            SliceMut::Single(x) => Slice::Single(x),
        }
    }

    /// The same numbers for a shorter time.
    pub fn reborrow(&mut self) -> SliceMut<'_> {
        match self {
            SliceMut::Double(x) => SliceMut::Double(x),
            SliceMut::Single(x) => SliceMut::Single(x),
        }
    }

    /// Writes a number, rounded to how it is stored; nothing outside.
    #[inline(always)]
    pub fn set(&mut self, place: usize, x: f64) -> Option<()> {
        match self {
            SliceMut::Double(data) => data.get_mut(place).map(|y| *y = x),
            SliceMut::Single(data) => data.get_mut(place).map(|y| *y = f32::narrow(x)),
        }
    }

    /// Makes all of them 0.
    pub fn clear(&mut self) {
        match self {
            SliceMut::Double(x) => x.fill(0.0),
            SliceMut::Single(x) => x.fill(0.0),
        }
    }

    /// Writes all of them, each rounded to how it is stored.
    pub fn round_from(&mut self, from: &[f64]) {
        match self {
            SliceMut::Double(to) => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
            SliceMut::Single(to) => to.iter_mut().zip(from).for_each(|(to, from)| *to = f32::narrow(*from)),
        }
    }
}

/// Slices of a type of numbers, shared and exclusive.
macro_rules! slices_of {
    ($number:ty, $variant:ident) => {
        impl<'a> From<&'a [$number]> for Slice<'a> {
            fn from(x: &'a [$number]) -> Self {
                Slice::$variant(x)
            }
        }

        impl<'a> From<&'a Vec<$number>> for Slice<'a> {
            fn from(x: &'a Vec<$number>) -> Self {
                Slice::$variant(x)
            }
        }

        impl<'a, const N: usize> From<&'a [$number; N]> for Slice<'a> {
            fn from(x: &'a [$number; N]) -> Self {
                Slice::$variant(x)
            }
        }

        impl<'a> From<&'a mut [$number]> for SliceMut<'a> {
            fn from(x: &'a mut [$number]) -> Self {
                SliceMut::$variant(x)
            }
        }

        impl<'a> From<&'a mut Vec<$number>> for SliceMut<'a> {
            fn from(x: &'a mut Vec<$number>) -> Self {
                SliceMut::$variant(x)
            }
        }

        impl<'a> From<&'a mut $number> for SliceMut<'a> {
            fn from(x: &'a mut $number) -> Self {
                SliceMut::$variant(std::slice::from_mut(x))
            }
        }

        impl<'a, const N: usize> From<&'a mut [$number; N]> for SliceMut<'a> {
            fn from(x: &'a mut [$number; N]) -> Self {
                SliceMut::$variant(x)
            }
        }
    };
}

slices_of!(f64, Double);
slices_of!(f32, Single);

/// Numbers of a tensor, `D` of `f64` or `S` of `f32`; those of `f64` as well once they were asked for.
#[derive(Clone, Debug)]
pub enum Stored<D, S> {
    Double(D),
    Single(S, OnceLock<D>),
}

/// The numbers of a sparse tensor.
pub type List = Stored<Vec<f64>, Vec<f32>>;

/// The numbers of a dense tensor.
pub type NdArray = Stored<ArrayD<f64>, ArrayD<f32>>;

/// Numbers in single precision, and what they are in double precision.
pub trait Widen<D> {
    fn widened(&self) -> D;
    fn rounded(wide: &D) -> Self;
}

impl Widen<Vec<f64>> for Vec<f32> {
    fn widened(&self) -> Vec<f64> {
        self.iter().map(|x| x.widen()).collect()
    }

    fn rounded(wide: &Vec<f64>) -> Self {
        wide.iter().map(|x| f32::narrow(*x)).collect()
    }
}

impl Widen<ArrayD<f64>> for ArrayD<f32> {
    fn widened(&self) -> ArrayD<f64> {
        self.map(|x| x.widen())
    }

    fn rounded(wide: &ArrayD<f64>) -> Self {
        wide.map(|x| f32::narrow(*x))
    }
}

impl<D, S: Widen<D>> Stored<D, S> {
    pub fn precision(&self) -> Precision {
        match self {
            Stored::Double(_) => Precision::Double,
            Stored::Single(..) => Precision::Single,
        }
    }

    /// The numbers as they are computed with.
    pub fn wide(&self) -> &D {
        match self {
            Stored::Double(x) => x,
            Stored::Single(x, wide) => wide.get_or_init(|| x.widened()),
        }
    }

    pub fn into_wide(self) -> D {
        match self {
            Stored::Double(x) => x,
            Stored::Single(x, mut wide) => wide.take().unwrap_or_else(|| x.widened()),
        }
    }

    /// The numbers, to be written; in double precision from now on.
    pub fn make_double(&mut self) -> Option<&mut D> {
        if let Stored::Single(x, wide) = self {
            let wide = wide.take().unwrap_or_else(|| x.widened());
            *self = Stored::Double(wide);
        }
        match self {
            Stored::Double(x) => Some(x),
            Stored::Single(..) => None,
        }
    }

    /// The same numbers, widened or rounded.
    pub fn in_precision(&self, precision: Precision) -> Self
    where
        D: Clone,
        S: Clone,
    {
        match (precision, self) {
            (Precision::Single, Stored::Double(x)) => Stored::Single(S::rounded(x), OnceLock::new()),
            (Precision::Single, Stored::Single(x, _)) => Stored::Single(x.clone(), OnceLock::new()),
            (Precision::Double, x) => Stored::Double(x.wide().clone()),
        }
    }
}

impl<D: PartialEq, S: PartialEq> PartialEq for Stored<D, S> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Stored::Double(x), Stored::Double(y)) => x == y,
            (Stored::Single(x, _), Stored::Single(y, _)) => x == y,
            _ => false,
        }
    }
}

impl List {
    pub fn numbers(&self) -> Slice<'_> {
        match self {
            Stored::Double(x) => Slice::Double(x),
            Stored::Single(x, _) => Slice::Single(x),
        }
    }
}

impl NdArray {
    pub fn numbers(&self) -> Slice<'_> {
        match self {
            Stored::Double(x) => Slice::Double(x.as_slice().unwrap_or(&[])),
            Stored::Single(x, _) => Slice::Single(x.as_slice().unwrap_or(&[])),
        }
    }
}

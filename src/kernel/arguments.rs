//! What calls are given and where their results go, as users of Rust write it: tuples in the order of the parameters and results, inputs by
//! name, or lists where their number is known at run time only.
//!
//! | written | what it is |
//! |---|---|
//! | `(&x, &w)` | arrays and slices of all leaves, in order; numbers by reference |
//! | `&x` | the array of the only leaf |
//! | `&inputs` | [`Inputs`] by name; constants may be left out |
//! | `&[input, ..]` | a list of [`Input`]s, or of slices `&[f64]` |
//! | `(&mut value, &mut gradient)` | where the numbers of the leaves of all results go, in order |
//! | `&mut value` | where those of the only leaf go |
//! | `&mut [slice, ..]` | a list of [`SliceMut`]s, or of slices `&mut [f64]` |
//!
//! Nothing of this allocates but what is given by name.

use ndarray::{Array, ArrayView, Dimension};

use super::slices::Wanted;
use super::{Input, Kernel};
use crate::error::Result;
use crate::tensor::{Inputs, SliceMut};

/// What a call is given, in a form that kernels take.
#[derive(Clone, Copy, Debug)]
pub enum Passed<'r, 'a> {
    /// Slices in double precision.
    Double(&'r [&'a [f64]]),
    /// Slices and arrays.
    Any(&'r [Input<'a>]),
}

/// What a kernel can be called with: the numbers of the leaves of its parameters.
pub trait Arguments: Sized {
    #[doc(hidden)]
    fn pass<T>(self, kernel: &Kernel, run: impl FnOnce(Passed<'_, '_>) -> Result<T>) -> Result<T>;
}

/// Where a call can write the numbers of the leaves of its results.
pub trait Destinations: Sized {
    #[doc(hidden)]
    fn pass<T>(self, run: impl FnOnce(Wanted<'_, '_>) -> T) -> T;
}

impl Arguments for &Inputs {
    fn pass<T>(self, kernel: &Kernel, run: impl FnOnce(Passed<'_, '_>) -> Result<T>) -> Result<T> {
        kernel.with_bindings(self, |inputs| run(Passed::Any(inputs)))
    }
}

/// Lists and single arguments.
macro_rules! arguments {
    ($([$($generic:tt)*] $list:ty => $variant:ident;)*) => {$(
        impl<$($generic)*> Arguments for $list {
            fn pass<T>(self, _: &Kernel, run: impl FnOnce(Passed<'_, '_>) -> Result<T>) -> Result<T> {
                run(Passed::$variant(self))
            }
        }
    )*};
    (single $([$($generic:tt)*] $array:ty;)*) => {$(
        impl<$($generic)*> Arguments for $array {
            fn pass<T>(self, _: &Kernel, run: impl FnOnce(Passed<'_, '_>) -> Result<T>) -> Result<T> {
                run(Passed::Any(&[self.into()]))
            }
        }
    )*};
}

arguments! {
    [] &[&[f64]] => Double;
    [] &Vec<&[f64]> => Double;
    [const N: usize] &[&[f64]; N] => Double;
    [] &[Input<'_>] => Any;
    [] &Vec<Input<'_>> => Any;
    [const N: usize] &[Input<'_>; N] => Any;
}

arguments! { single
    [] &f64;
    [] &[f64];
    [] &Vec<f64>;
    [const N: usize] &[f64; N];
    [D: Dimension] &Array<f64, D>;
    [D: Dimension] ArrayView<'_, f64, D>;
    [] &[f32];
    [] &Vec<f32>;
    [const N: usize] &[f32; N];
    [D: Dimension] &Array<f32, D>;
    [D: Dimension] ArrayView<'_, f32, D>;
}

/// Tuples.
macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<'a, $($name: Into<Input<'a>>),*> Arguments for ($($name,)*) {
            #[allow(non_snake_case, reason = "a variable is named as its type")]
            fn pass<T>(self, _: &Kernel, run: impl FnOnce(Passed<'_, '_>) -> Result<T>) -> Result<T> {
                let ($($name,)*) = self;
                run(Passed::Any(&[$($name.into()),*]))
            }
        }

        impl<'a, $($name: Into<SliceMut<'a>>),*> Destinations for ($($name,)*) {
            #[allow(non_snake_case, reason = "a variable is named as its type")]
            fn pass<T>(self, run: impl FnOnce(Wanted<'_, '_>) -> T) -> T {
                let ($($name,)*) = self;
                run(Wanted::Mixed(&mut [$($name.into()),*]))
            }
        }
    )*};
}

tuples! {
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
}

impl Arguments for () {
    fn pass<T>(self, _: &Kernel, run: impl FnOnce(Passed<'_, '_>) -> Result<T>) -> Result<T> {
        run(Passed::Double(&[]))
    }
}

macro_rules! destinations {
    ($([$($generic:tt)*] $list:ty => $variant:ident;)*) => {$(
        impl<$($generic)*> Destinations for $list {
            fn pass<T>(self, run: impl FnOnce(Wanted<'_, '_>) -> T) -> T {
                run(Wanted::$variant(self))
            }
        }
    )*};
    (single $([$($generic:tt)*] $slice:ty;)*) => {$(
        impl<$($generic)*> Destinations for $slice {
            fn pass<T>(self, run: impl FnOnce(Wanted<'_, '_>) -> T) -> T {
                run(Wanted::Mixed(&mut [self.into()]))
            }
        }
    )*};
}

destinations! {
    [] &mut [&mut [f64]] => Double;
    [] &mut Vec<&mut [f64]> => Double;
    [const N: usize] &mut [&mut [f64]; N] => Double;
    [] &mut [SliceMut<'_>] => Mixed;
    [] &mut Vec<SliceMut<'_>> => Mixed;
    [const N: usize] &mut [SliceMut<'_>; N] => Mixed;
}

destinations! { single
    [] &mut f64;
    [] &mut [f64];
    [] &mut Vec<f64>;
    [const N: usize] &mut [f64; N];
    [] &mut f32;
    [] &mut [f32];
    [] &mut Vec<f32>;
    [const N: usize] &mut [f32; N];
}

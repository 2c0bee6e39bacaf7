//! What a call is given for a leaf: a slice, or an array of any strides.
//!
//! Nests read their buffers in row-major order. An array that lies in memory like that is read where it is; any other one, transposed,
//! reversed, broadcast or sliced, is copied into memory that the kernel keeps for later calls, and the call says so in [`Copied`]. A copy is
//! one pass over the numbers; whoever calls often with the same array makes it contiguous once instead.

use ndarray::{Array, ArrayView, ArrayViewD, ArrayViewMutD, Dimension};

use super::Leaf;
use crate::error::{Error, Result};
use crate::tensor::{Element, Precision, Slice};

/// The numbers of a leaf of a parameter.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// All elements in row-major order, or the values of the entries.
    Slice(Slice<'a>),
    /// An array of the shape of the leaf, of any strides; of a sparse leaf a vector of the values of its entries.
    Double(ArrayViewD<'a, f64>),
    /// The same in single precision.
    Single(ArrayViewD<'a, f32>),
}

/// What a call had to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// How many leaves.
    pub leaves: usize,
    /// How many numbers they have.
    pub numbers: usize,
}

impl<'a> Input<'a> {
    /// The numbers where they are, if they lie in row-major order; otherwise a call copies them.
    pub fn as_slice(&self) -> Option<Slice<'a>> {
        match self {
            Input::Slice(slice) => Some(*slice),
            Input::Double(view) => view.to_slice().map(Slice::Double),
            Input::Single(view) => view.to_slice().map(Slice::Single),
        }
    }

    /// How the numbers are stored.
    pub fn precision(&self) -> Precision {
        match self {
            Input::Slice(slice) => slice.precision(),
            Input::Double(_) => Precision::Double,
            Input::Single(_) => Precision::Single,
        }
    }

    /// The shape, of an array.
    fn shape(&self) -> Option<&[usize]> {
        match self {
            Input::Slice(_) => None,
            Input::Double(view) => Some(view.shape()),
            Input::Single(view) => Some(view.shape()),
        }
    }

    /// Checks that an array has the shape of a leaf.
    pub(super) fn check(&self, name: &str, leaf: &Leaf) -> Result<()> {
        let Some(found) = self.shape() else { return Ok(()) };
        let stored = [leaf.len()];
        let expected = match leaf {
            Leaf::Dense(shape) => shape.as_slice(),
            Leaf::Csr(_) | Leaf::Csc(_) | Leaf::Coo(_) => &stored,
        };
        if found == expected {
            return Ok(());
        }
        Err(Error::data(name, format!("an array of the shape {expected:?} is expected, found one of {found:?}")))
    }
}

/// Slices and arrays of a type of numbers.
macro_rules! inputs_of {
    ($number:ty, $variant:ident) => {
        impl<'a, D: Dimension> From<ArrayView<'a, $number, D>> for Input<'a> {
            fn from(view: ArrayView<'a, $number, D>) -> Self {
                Input::$variant(view.into_dyn())
            }
        }

        impl<'a, D: Dimension> From<&'a Array<$number, D>> for Input<'a> {
            fn from(array: &'a Array<$number, D>) -> Self {
                Input::$variant(array.view().into_dyn())
            }
        }

        impl<'a> From<&'a [$number]> for Input<'a> {
            fn from(x: &'a [$number]) -> Self {
                Input::Slice(x.into())
            }
        }

        impl<'a> From<&'a Vec<$number>> for Input<'a> {
            fn from(x: &'a Vec<$number>) -> Self {
                Input::Slice(x.into())
            }
        }

        impl<'a, const N: usize> From<&'a [$number; N]> for Input<'a> {
            fn from(x: &'a [$number; N]) -> Self {
                Input::Slice(x.into())
            }
        }
    };
}

inputs_of!(f64, Double);
inputs_of!(f32, Single);

/// A number.
impl<'a> From<&'a f64> for Input<'a> {
    fn from(x: &'a f64) -> Self {
        Input::Slice(std::slice::from_ref(x).into())
    }
}

impl<'a> From<Slice<'a>> for Input<'a> {
    fn from(slice: Slice<'a>) -> Self {
        Input::Slice(slice)
    }
}

/// The memory for copies, kept between calls.
#[derive(Debug, Default)]
pub(super) struct Copies {
    leaves: Vec<(Vec<f64>, Vec<f32>)>,
    /// Empty between calls.
    slices: Vec<Slice<'static>>,
}

impl Copies {
    /// Makes room for what a number of leaves needs, so that calls that copy nothing allocate nothing.
    pub fn reserve(&mut self, leaves: usize) {
        self.leaves.resize_with(leaves, Default::default);
        self.slices.reserve(leaves);
    }

    /// Copies what does not lie in row-major order, and does something with the slices of all leaves.
    pub fn with(&mut self, inputs: &[Input<'_>], run: impl FnOnce(&[Slice<'_>]) -> Result<()>) -> Result<Copied> {
        let mut copied = Copied::default();
        self.leaves.resize_with(self.leaves.len().max(inputs.len()), Default::default);
        for (input, (double, single)) in inputs.iter().zip(&mut self.leaves) {
            let numbers = match input {
                Input::Double(view) if input.as_slice().is_none() => copy(view, double)?,
                Input::Single(view) if input.as_slice().is_none() => copy(view, single)?,
                _ => continue,
            };
            copied.leaves += 1;
            copied.numbers += numbers;
        }
        let mut slices: Vec<Slice<'_>> = std::mem::take(&mut self.slices);
        slices.extend(inputs.iter().zip(&self.leaves).map(|(input, (double, single))| {
            input.as_slice().unwrap_or(match input.precision() {
                Precision::Double => Slice::Double(double),
                Precision::Single => Slice::Single(single),
            })
        }));
        let result = run(&slices);
        slices.clear();
        // Nothing is left to convert: this only gives the memory back.
        self.slices = slices.into_iter().map(|_| Slice::Double(&[])).collect();
        result.map(|()| copied)
    }
}

/// Copies an array in row-major order, and says how many numbers it has.
fn copy<A: Element>(view: &ArrayViewD<'_, A>, to: &mut Vec<A>) -> Result<usize> {
    let len = view.len();
    to.clear();
    to.try_reserve_exact(len).map_err(|_| Error::Memory { what: "elements of a copy", wanted: len as u64 })?;
    to.resize(len, A::default());
    let target = ArrayViewMutD::from_shape(view.raw_dim(), to);
    target.map_err(|error| Error::bug("kernel", error.to_string()))?.assign(view);
    Ok(len)
}

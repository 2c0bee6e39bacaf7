//! The slices of a call: all in double precision, as most calls have them, or each in its own. Neither way allocates.

use crate::tensor::{Slice, SliceMut};

/// The numbers of the leaves of all parameters.
#[derive(Clone, Copy, Debug)]
pub enum Given<'r, 'd> {
    Double(&'r [&'d [f64]]),
    Mixed(&'r [Slice<'d>]),
}

/// Where the numbers of the leaves of all outputs go.
#[derive(Debug)]
pub enum Wanted<'r, 'o> {
    Double(&'r mut [&'o mut [f64]]),
    Mixed(&'r mut [SliceMut<'o>]),
}

impl<'d> Given<'_, 'd> {
    pub fn len(&self) -> usize {
        match self {
            Given::Double(x) => x.len(),
            Given::Mixed(x) => x.len(),
        }
    }

    #[inline(always)]
    pub fn get(&self, k: usize) -> Option<Slice<'d>> {
        match self {
            Given::Double(x) => x.get(k).map(|x| Slice::Double(x)),
            Given::Mixed(x) => x.get(k).copied(),
        }
    }
}

impl<'o> Wanted<'_, 'o> {
    pub fn len(&self) -> usize {
        match self {
            Wanted::Double(x) => x.len(),
            Wanted::Mixed(x) => x.len(),
        }
    }

    #[inline(always)]
    pub fn get(&self, k: usize) -> Option<Slice<'_>> {
        match self {
            Wanted::Double(x) => x.get(k).map(|x| Slice::Double(x)),
            Wanted::Mixed(x) => x.get(k).map(SliceMut::as_slice),
        }
    }

    #[inline(always)]
    pub fn get_mut(&mut self, k: usize) -> Option<SliceMut<'_>> {
        match self {
            Wanted::Double(x) => x.get_mut(k).map(|x| SliceMut::Double(x)),
            Wanted::Mixed(x) => x.get_mut(k).map(SliceMut::reborrow),
        }
    }

    /// The same slices for a shorter time.
    pub fn reborrow(&mut self) -> Wanted<'_, 'o> {
        match self {
            Wanted::Double(x) => Wanted::Double(x),
            Wanted::Mixed(x) => Wanted::Mixed(x),
        }
    }

    /// Calls `f` on each slice with its number.
    pub fn for_each<'a>(&'a mut self, mut f: impl FnMut(usize, SliceMut<'a>)) {
        match self {
            Wanted::Double(x) => x.iter_mut().enumerate().for_each(|(k, x)| f(k, SliceMut::Double(x))),
            Wanted::Mixed(x) => x.iter_mut().enumerate().for_each(|(k, x)| f(k, x.reborrow())),
        }
    }
}

//! The kernel that is meant, where another one runs that takes data to be finite.
//!
//! ```text
//! a call = { what the kernel found,  if no result has a NaN
//!          { what its stand-in finds,  otherwise
//! ```
//!
//! A product with a zero factor is 0 there, and `0 * inf` is NaN here, so results without a NaN are those of the program that is
//! [meant](crate::Function::meant). That kernel is made by the first call that asks for it, which takes as long as [making](crate::KernelBuilder::build)
//! the other one did; where NaN are in the results that are meant, as in data that have some, each call runs both.

use std::fmt;
use std::sync::OnceLock;

use super::slices::{Given, Wanted};
use super::{Kernel, Machine};
use crate::error::Result;
use crate::tensor::Slice;

/// How to make it, and what was made.
pub(super) struct StandIn {
    make: Box<dyn Fn() -> Result<Kernel> + Send + Sync>,
    made: OnceLock<Box<Kernel>>,
}

impl Kernel {
    /// From now on what `make` makes runs where a result has a NaN. It takes and gives what this kernel does.
    pub(crate) fn stand_in(&mut self, make: impl Fn() -> Result<Kernel> + Send + Sync + 'static) {
        self.stand_in = Some(StandIn { make: Box::new(make), made: OnceLock::new() });
    }

    /// What a call found, unless it has a NaN.
    pub(super) fn run_as_meant(
        &self,
        given: Given<'_, '_>,
        mut wanted: Wanted<'_, '_>,
        machine: &mut Machine,
    ) -> Result<()> {
        self.run(given, wanted.reborrow(), machine)?;
        let Some(StandIn { make, made }) = &self.stand_in else { return Ok(()) };
        if !(0..wanted.len()).any(|k| wanted.get(k).is_some_and(has_nan)) {
            return Ok(());
        }
        let kernel = match made.get() {
            Some(kernel) => kernel,
            None => {
                let kernel = Box::new(make()?);
                made.get_or_init(|| kernel)
            }
        };
        let mut scratch = kernel.scratch()?;
        let result = kernel.run(given, wanted, &mut scratch.machine);
        kernel.give_back(scratch);
        result
    }
}

fn has_nan(numbers: Slice<'_>) -> bool {
    match numbers {
        Slice::Double(numbers) => numbers.iter().any(|x| x.is_nan()),
        Slice::Single(numbers) => numbers.iter().any(|x| x.is_nan()),
    }
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIn").field("made", &self.made).finish_non_exhaustive()
    }
}

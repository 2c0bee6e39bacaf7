//! What a kernel keeps beside inputs and results.
//!
//! ```text
//! bytes = sum of 8 * elements of intermediate tensors + sum of bytes of what is computed once from constants
//! ```
//!
//! Known from the program and its sizes, before there is memory for any of it. Registers, and the pointers of relations, are not counted.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{self, Shape};
use super::leaf::in_bound_precision;
use super::specialised;
use crate::error::Result;
use crate::loops::{BufferKind, Program};
use crate::schedule::constants_by_name;
use crate::tensor::{Inputs, bind};

/// How many bytes a kernel keeps, and for what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    pub bytes: u64,
    /// The tensors that take most, with their bytes.
    pub largest: Vec<(String, u64)>,
}

impl Footprint {
    /// How many tensors are told.
    const TOLD: usize = 3;

    /// The footprint of a kernel that is not bound yet.
    ///
    /// # Errors
    /// Those of binding.
    pub fn of(nests: Program, inputs: &Inputs, constants: &[&str]) -> Result<Footprint> {
        let constants: BTreeSet<_> = constants_by_name(&nests.signature, constants)?;
        let bindings = bind(&nests.signature, inputs)?;
        let program = in_bound_precision(nests.into(), &bindings)?;
        let main = specialised(&program, &bindings, &constants)?.main;
        Ok(Footprint::new(&main, &layout::shapes(&main, &bindings)?))
    }

    pub(super) fn new(program: &Program, shapes: &[Shape]) -> Footprint {
        let (mut held, mut kept) = (BTreeMap::new(), Vec::new());
        for (buffer, shape) in program.buffers.values().zip(shapes) {
            let bytes = |each: usize| (shape.len as u64).saturating_mul(each as u64);
            match buffer.kind {
                BufferKind::Workspace => kept.push((buffer.name.clone(), bytes(8))),
                BufferKind::Held(number) => {
                    held.insert(number, (buffer.name.clone(), bytes(buffer.precision.bytes())));
                }
                BufferKind::Param(..) | BufferKind::Output(..) => {}
            }
        }
        kept.extend(held.into_values());
        let bytes = kept.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        kept.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        kept.truncate(Footprint::TOLD);
        Footprint { bytes, largest: kept }
    }
}

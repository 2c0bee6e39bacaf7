//! Shapes whose products are checked before anything is allocated.

use super::malformed::{Checked, Malformed};
use crate::ty::Types;

/// A dense tensor has fewer elements than this; also the largest number of sources of a map.
pub const MAX_ELEMENTS: u64 = 1 << 47;

/// Checks the number of axes, and that every coordinate fits the index arithmetic of programs.
pub(super) fn check_axes(shape: &[usize]) -> Checked<()> {
    if shape.len() > Types::MAX_RANK {
        return Err(Malformed::TooManyAxes { found: shape.len(), limit: Types::MAX_RANK });
    }
    for (axis, &length) in shape.iter().enumerate() {
        if i64::try_from(length).is_err() {
            return Err(Malformed::AxisTooLong { axis, length: length as u128, limit: i64::MAX as u64 });
        }
    }
    Ok(())
}

/// The number of elements of a dense tensor.
///
/// # Errors
/// If there are too many axes or 2^47 elements or more. A shape such as `[0, 2^40]` has none and is fine.
pub fn element_count(shape: &[usize]) -> Checked<usize> {
    check_axes(shape)?;
    let too_many = || Malformed::TooManyElements { shape: shape.to_vec() };
    // The strides are products of the other axes, so these are bounded even where one axis is empty.
    let mut extent = 1usize;
    for &length in shape.iter().filter(|&&length| length != 0) {
        extent = extent.checked_mul(length).filter(|&e| isize::try_from(e).is_ok()).ok_or_else(too_many)?;
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    if extent as u64 >= MAX_ELEMENTS {
        return Err(too_many());
    }
    Ok(extent)
}

/// `count` copies of `x`.
///
/// # Errors
/// If there is no memory for them.
pub(super) fn filled<T: Clone>(count: usize, x: T) -> Checked<Vec<T>> {
    let mut data = Vec::new();
    data.try_reserve_exact(count).map_err(|_| Malformed::OutOfMemory { count })?;
    data.resize(count, x);
    Ok(data)
}

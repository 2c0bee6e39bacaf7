//! The square root that the [vector text](super) uses within this crate. Sources have `core` alone, and `codegen/square_root.rs` in its
//! place.

/// The square root, rounded once; NaN for negative `x`.
#[inline(always)]
pub fn square_root(x: f64) -> f64 {
    x.sqrt()
}

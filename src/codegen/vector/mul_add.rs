//! The product that is added, as the [vector text](super) uses it within this crate. Sources have `core` alone, and `codegen/mul_add.rs` in its
//! place.

/// `a * b + c`, rounded once.
#[inline(always)]
pub fn mul_add(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

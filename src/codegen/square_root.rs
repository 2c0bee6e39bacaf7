// Square roots: the instruction for one number, of which the compiler makes that for lanes.

/// The square root, rounded once; NaN for negative `x`.
#[inline(always)]
pub fn square_root(x: f64) -> f64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every such processor has the instruction; arithmetic reads and writes nothing.
    return unsafe {
        let x = core::arch::x86_64::_mm_set_sd(x);
        core::arch::x86_64::_mm_cvtsd_f64(core::arch::x86_64::_mm_sqrt_sd(x, x))
    };
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    return unsafe {
        let root = core::arch::aarch64::vsqrt_f64(core::arch::aarch64::vdup_n_f64(x));
        core::arch::aarch64::vget_lane_f64::<0>(root)
    };
    #[allow(unreachable_code)]
    square_root_in_integers(x)
}

/// The square root, rounded once, for processors without an instruction that `core` names.
///
/// An integer with 54 bits more than the root of the significand has its integer part; the last of these bits rounds. No root is halfway between
/// two numbers, since its square would need 108 bits.
pub fn square_root_in_integers(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x < 0.0 {
        return f64::NAN;
    }
    // x = significand * 2^exponent, with 53 bits also below the normal range.
    let bits = x.to_bits();
    let (field, fraction) = ((bits >> 52) as i32, bits & 0x000f_ffff_ffff_ffff);
    let shift = if field > 0 { 0 } else { fraction.leading_zeros() as i32 - 11 };
    let (significand, exponent) =
        if field > 0 { (fraction | 1 << 52, field - 1075) } else { (fraction << shift, -1074 - shift) };
    // An even exponent, and a root of 54 bits.
    let odd = exponent & 1;
    let root = ((significand as u128) << (54 + odd)).isqrt() as u64;
    let rounded = (root >> 1) + (root & 1);
    let half = (exponent - odd - 54) / 2 + 1;
    // The root is in the normal range, and the first of its 53 bits adds to the exponent.
    f64::from_bits((((half + 1074) as u64) << 52) + rounded)
}

// Products that are added, rounded once.

/// `a * b + c`, rounded once.
#[inline(always)]
pub fn mul_add(a: f64, b: f64, c: f64) -> f64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "fma"))]
    // SAFETY: the instruction is there; arithmetic reads and writes nothing.
    return unsafe {
        use core::arch::x86_64::{_mm_cvtsd_f64, _mm_fmadd_sd, _mm_set_sd};
        _mm_cvtsd_f64(_mm_fmadd_sd(_mm_set_sd(a), _mm_set_sd(b), _mm_set_sd(c)))
    };
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    return unsafe {
        use core::arch::aarch64::{vdupq_n_f64, vfmaq_f64, vgetq_lane_f64};
        vgetq_lane_f64::<0>(vfmaq_f64(vdupq_n_f64(c), vdupq_n_f64(a), vdupq_n_f64(b)))
    };
    #[allow(unreachable_code)]
    mul_add_in_integers(a, b, c)
}

/// `a * b + c`, rounded once, for processors without an instruction for it.
///
/// The product of two significands has 106 bits. It and the addend are brought to one exponent in 128 bits, where what is shifted out on the
/// right leaves a sticky bit, and the sum is rounded to even.
pub fn mul_add_in_integers(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    if !(a.is_finite() && b.is_finite()) || a == 0.0 || b == 0.0 {
        return product + c;
    }
    if !c.is_finite() {
        return c;
    }
    if c == 0.0 && product.abs() > 1e-290 {
        return product;
    }
    // x = significand * 2^exponent, with 53 bits also below the normal range.
    let parts = |x: f64| {
        let bits = x.to_bits();
        let (field, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & 0x000f_ffff_ffff_ffff);
        if field > 0 {
            return (fraction | 1 << 52, field - 1075);
        }
        let shift = fraction.leading_zeros() as i32 - 11;
        if fraction == 0 { (0, -1074) } else { (fraction << shift, -1074 - shift) }
    };
    let ((ma, ea), (mb, eb), (mc, ec)) = (parts(a), parts(b), parts(c));
    let shift_right = |x: u128, by: i32| match by {
        ..=0 => x,
        1..=127 => x >> by | u128::from(x << (128 - by) != 0),
        _ => u128::from(x != 0),
    };
    // Room for a carry above, and below for what the larger one takes away.
    let (mut p, mut ep) = ((u128::from(ma) * u128::from(mb)) << 20, ea + eb - 20);
    let (mut q, mut eq) = (u128::from(mc) << 73, ec - 73);
    if q == 0 {
        eq = ep;
    }
    if ep < eq {
        (p, ep) = (shift_right(p, eq - ep), eq);
    } else {
        (q, eq) = (shift_right(q, ep - eq), ep);
    }
    let _ = eq;
    let negative = (a < 0.0) != (b < 0.0);
    let (sum, negative) = match (negative == (c < 0.0), p >= q) {
        (true, _) => (p + q, negative),
        (false, true) => (p - q, negative),
        (false, false) => (q - p, c < 0.0),
    };
    if sum == 0 {
        // An exact zero is positive, but for the sum of two negative zeros.
        return if negative && c == 0.0 { -0.0 } else { 0.0 };
    }
    // 53 bits are kept, fewer below the normal range.
    let excess = 128 - 53 - sum.leading_zeros() as i32;
    let excess = if ep + excess < -1074 { -1074 - ep } else { excess };
    let (mut kept, exponent) = match excess {
        ..=0 => (sum << -excess.max(-127), ep + excess),
        1..=127 => {
            let (kept, rest, half) = (sum >> excess, sum << (128 - excess), 1u128 << 127);
            (kept + u128::from(rest > half || rest == half && kept & 1 == 1), ep + excess)
        }
        _ => (0, -1074),
    };
    let mut exponent = exponent;
    if kept >> 53 != 0 {
        (kept, exponent) = (kept >> 1, exponent + 1);
    }
    let sign = u64::from(negative) << 63;
    if exponent > 971 {
        return f64::from_bits(sign | 0x7ff0_0000_0000_0000);
    }
    let field = if kept >> 52 == 0 { 0 } else { (exponent + 1075) as u64 };
    f64::from_bits(sign | field << 52 | kept as u64 & 0x000f_ffff_ffff_ffff)
}

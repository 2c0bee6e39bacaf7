// What is done where a test holds, without a branch: a mask has all bits where it holds, else none.

static ZERO: f64 = 0.0;

/// The mask of a test. The compiler does not see where it comes from, or it would make a branch of it again.
#[inline(always)]
fn mask(holds: bool) -> u64 {
    let mask = (holds as u64).wrapping_neg();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    let mask = {
        let mut mask = mask;
        unsafe { core::arch::asm!("/* {0} */", inout(reg) mask, options(pure, nomem, nostack, preserves_flags)) };
        mask
    };
    mask
}

/// The first where a test holds, else the second.
#[inline(always)]
fn where_else(mask: u64, one: f64, other: f64) -> f64 {
    f64::from_bits((one.to_bits() & mask) | (other.to_bits() & !mask))
}

/// A place where a test holds, else that of a zero.
#[inline(always)]
fn place_where<T>(mask: u64, x: &[T], k: i64) -> *const T {
    let place = x.as_ptr().wrapping_add(k as usize) as usize;
    let zero = &raw const ZERO as usize;
    ((place & mask as usize) | (zero & !mask as usize)) as *const T
}

#[inline(always)]
unsafe fn at_where(mask: u64, x: &[f64], k: i64) -> f64 {
    unsafe { *place_where(mask, x, k) }
}

#[inline(always)]
unsafe fn at_where_single(mask: u64, x: &[f32], k: i64) -> f64 {
    unsafe { *place_where(mask, x, k) as f64 }
}

#[inline(always)]
unsafe fn int_where(mask: u64, x: &[u32], k: i64) -> i64 {
    unsafe { *place_where(mask, x, k) as i64 }
}

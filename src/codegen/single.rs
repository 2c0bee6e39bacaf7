// Buffers in single precision: numbers are widened when they are loaded, and rounded to the nearest when they are stored.

impl Call {
    unsafe fn buffer_single(&self, k: usize) -> &[f32] {
        unsafe {
            let Reals { data, len } = *self.buffers.add(k);
            core::slice::from_raw_parts(data.cast(), len)
        }
    }

    unsafe fn target_single(&self, k: usize) -> *mut f32 {
        unsafe { (*self.buffers.add(k)).data.cast() }
    }

    unsafe fn fill_single(&self, k: usize) {
        unsafe {
            let Reals { data, len } = *self.buffers.add(k);
            core::ptr::write_bytes(data.cast::<f32>(), 0, len);
        }
    }

    /// Rounds the numbers of a workspace to an output of its length.
    unsafe fn round_single(&self, from: usize, to: usize) {
        unsafe {
            let to = self.target_single(to);
            for (k, x) in self.buffer(from).iter().enumerate() {
                *to.add(k) = *x as f32;
            }
        }
    }
}

#[inline(always)]
unsafe fn at_single(x: &[f32], k: i64) -> f64 {
    unsafe { *x.get_unchecked(k as usize) as f64 }
}

#[inline(always)]
unsafe fn put_single(x: *mut f32, k: i64, value: f64) {
    unsafe { *x.add(k as usize) = value as f32 }
}

/// Does something with registers of eight numbers, of which some are in single precision, where there are such.
macro_rules! wide_single {
    ($n:ident, $body:expr) => {
        #[cfg(all(target_arch = "x86_64", target_feature = "avx512f", target_feature = "avx512vl"))]
        if $n == 8 {
            #[allow(unused_imports)]
            use core::arch::x86_64::*;
            return unsafe { core::mem::transmute_copy(&$body) };
        }
    };
}

#[inline(always)]
unsafe fn load_single<const N: usize>(x: *const f32, k: i64) -> V<N> {
    wide_single!(N, _mm512_cvtps_pd(_mm256_loadu_ps(x.offset(k as isize))));
    V(core::array::from_fn(|l| unsafe { *x.offset(k as isize + l as isize) as f64 }))
}

/// The first `count` lanes, the others 0.
#[inline(always)]
unsafe fn load_some_single<const N: usize>(x: *const f32, k: i64, count: i64) -> V<N> {
    wide_single!(N, _mm512_cvtps_pd(_mm256_maskz_loadu_ps(first(count), x.offset(k as isize))));
    V(core::array::from_fn(|l| if (l as i64) < count { unsafe { *x.offset(k as isize + l as isize) as f64 } } else { 0.0 }))
}

/// Places far apart.
#[inline(always)]
unsafe fn gather_single<const N: usize>(x: *const f32, places: [i64; N]) -> V<N> {
    wide_single!(N, _mm512_cvtps_pd(_mm512_i64gather_ps::<4>(core::mem::transmute_copy(&places), x)));
    V(core::array::from_fn(|l| unsafe { *x.offset(places[l] as isize) as f64 }))
}

#[inline(always)]
unsafe fn gather_some_single<const N: usize>(x: *const f32, places: [i64; N], count: i64) -> V<N> {
    wide_single!(N, {
        let places = core::mem::transmute_copy(&places);
        _mm512_cvtps_pd(_mm512_mask_i64gather_ps::<4>(_mm256_setzero_ps(), first(count), places, x))
    });
    V(core::array::from_fn(|l| if (l as i64) < count { unsafe { *x.offset(places[l] as isize) as f64 } } else { 0.0 }))
}

#[inline(always)]
unsafe fn store_single<const N: usize>(x: *mut f32, k: i64, value: V<N>) {
    wide_single!(N, _mm256_storeu_ps(x.offset(k as isize), _mm512_cvtpd_ps(core::mem::transmute_copy(&value))));
    for l in 0..N {
        unsafe { *x.offset(k as isize + l as isize) = value.0[l] as f32 }
    }
}

/// Stores the first `count` lanes.
#[inline(always)]
unsafe fn store_some_single<const N: usize>(x: *mut f32, k: i64, value: V<N>, count: i64) {
    wide_single!(N, {
        let lanes = _mm512_cvtpd_ps(core::mem::transmute_copy(&value));
        _mm256_mask_storeu_ps(x.offset(k as isize), first(count), lanes)
    });
    for l in 0..N {
        if (l as i64) < count {
            unsafe { *x.offset(k as isize + l as isize) = value.0[l] as f32 }
        }
    }
}

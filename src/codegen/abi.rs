// What a kernel is given, and how it reads and writes: the beginning of every source.

/// Integers.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ints {
    pub data: *const u32,
    pub len: usize,
}

/// Numbers; written only where they are outputs or workspaces.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Reals {
    pub data: *mut f64,
    pub len: usize,
}

/// A function of this number, called back with its arguments.
pub type Callback = unsafe extern "C" fn(host: *const core::ffi::c_void, function: u32, args: *const f64) -> f64;

/// What a kernel is given.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Call {
    pub sizes: *const i64,
    pub arrays: *const Ints,
    pub buffers: *const Reals,
    pub callback: Callback,
    pub host: *const core::ffi::c_void,
}

impl Call {
    unsafe fn size(&self, k: usize) -> i64 {
        unsafe { *self.sizes.add(k) }
    }

    unsafe fn array(&self, k: usize) -> &[u32] {
        unsafe {
            let Ints { data, len } = *self.arrays.add(k);
            core::slice::from_raw_parts(data, len)
        }
    }

    unsafe fn buffer(&self, k: usize) -> &[f64] {
        unsafe {
            let Reals { data, len } = *self.buffers.add(k);
            core::slice::from_raw_parts(data, len)
        }
    }

    unsafe fn target(&self, k: usize) -> *mut f64 {
        unsafe { (*self.buffers.add(k)).data }
    }

    unsafe fn fill(&self, k: usize) {
        unsafe {
            let Reals { data, len } = *self.buffers.add(k);
            core::ptr::write_bytes(data, 0, len);
        }
    }

    #[inline(always)]
    unsafe fn apply<const K: usize>(&self, function: u32, args: [f64; K]) -> f64 {
        unsafe { (self.callback)(self.host, function, args.as_ptr()) }
    }
}

#[inline(always)]
unsafe fn at(x: &[f64], k: i64) -> f64 {
    unsafe { *x.get_unchecked(k as usize) }
}

#[inline(always)]
unsafe fn load<const N: usize>(x: &[f64], k: i64) -> V<N> {
    unsafe { V(core::ptr::read_unaligned(x.as_ptr().add(k as usize) as *const [f64; N])) }
}

/// Loads what this nest has stored.
#[inline(always)]
unsafe fn again(x: *mut f64, k: i64) -> f64 {
    unsafe { *x.add(k as usize) }
}

#[inline(always)]
unsafe fn reload<const N: usize>(x: *mut f64, k: i64) -> V<N> {
    unsafe { V(core::ptr::read_unaligned(x.add(k as usize) as *const [f64; N])) }
}

/// The first `count` lanes, the others 0.
#[inline(always)]
unsafe fn load_some<const N: usize>(x: *const f64, k: i64, count: i64) -> V<N> {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    if N == 8 {
        return unsafe {
            let lanes = core::arch::x86_64::_mm512_maskz_loadu_pd(first(count), x.offset(k as isize));
            core::mem::transmute_copy(&lanes)
        };
    }
    V(core::array::from_fn(|l| if (l as i64) < count { unsafe { *x.offset(k as isize + l as isize) } } else { 0.0 }))
}

/// Places far apart.
#[inline(always)]
unsafe fn gather<const N: usize>(x: *const f64, places: [i64; N]) -> V<N> {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    if N == 8 {
        return unsafe {
            let lanes = core::arch::x86_64::_mm512_i64gather_pd::<8>(core::mem::transmute_copy(&places), x);
            core::mem::transmute_copy(&lanes)
        };
    }
    V(core::array::from_fn(|l| unsafe { *x.offset(places[l] as isize) }))
}

#[inline(always)]
unsafe fn gather_some<const N: usize>(x: *const f64, places: [i64; N], count: i64) -> V<N> {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::{_mm512_mask_i64gather_pd, _mm512_setzero_pd};
            let places = core::mem::transmute_copy(&places);
            let lanes = _mm512_mask_i64gather_pd::<8>(_mm512_setzero_pd(), first(count), places, x);
            core::mem::transmute_copy(&lanes)
        };
    }
    V(core::array::from_fn(|l| if (l as i64) < count { unsafe { *x.offset(places[l] as isize) } } else { 0.0 }))
}

#[inline(always)]
unsafe fn put(x: *mut f64, k: i64, value: f64) {
    unsafe { *x.add(k as usize) = value }
}

#[inline(always)]
unsafe fn store<const N: usize>(x: *mut f64, k: i64, value: V<N>) {
    unsafe { core::ptr::write_unaligned(x.add(k as usize) as *mut [f64; N], value.0) }
}

/// Stores the first `count` lanes.
#[inline(always)]
unsafe fn store_some<const N: usize>(x: *mut f64, k: i64, value: V<N>, count: i64) {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    if N == 8 {
        return unsafe {
            let lanes = core::mem::transmute_copy(&value);
            core::arch::x86_64::_mm512_mask_storeu_pd(x.offset(k as isize), first(count), lanes)
        };
    }
    for l in 0..N {
        if (l as i64) < count {
            unsafe { *x.offset(k as isize + l as isize) = value.0[l] }
        }
    }
}

/// The first `count` of eight lanes as a mask.
#[inline(always)]
fn first(count: i64) -> u8 {
    match count {
        ..=0 => 0,
        1..=7 => (1u8 << count) - 1,
        _ => 255,
    }
}

/// The first `count` lanes of the one, the others of the other.
#[inline(always)]
fn keep<const N: usize>(count: i64, new: V<N>, old: V<N>) -> V<N> {
    V(core::array::from_fn(|l| if (l as i64) < count { new.0[l] } else { old.0[l] }))
}

/// The first `count` integers of neighbours, the others 0.
#[inline(always)]
unsafe fn some_ints<const N: usize>(x: &[u32], k: i64, count: i64) -> [i64; N] {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f", target_feature = "avx512vl"))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::{_mm256_maskz_loadu_epi32, _mm512_cvtepu32_epi64};
            let lanes = _mm256_maskz_loadu_epi32(first(count), x.as_ptr().offset(k as isize).cast());
            core::mem::transmute_copy(&_mm512_cvtepu32_epi64(lanes))
        };
    }
    core::array::from_fn(|l| if (l as i64) < count { unsafe { int(x, k + l as i64) } } else { 0 })
}

/// `a * b + c` in lanes, rounded once.
#[inline(always)]
fn fused<const N: usize>(a: V<N>, b: V<N>, c: V<N>) -> V<N> {
    V(core::array::from_fn(|l| mul_add(a.0[l], b.0[l], c.0[l])))
}

#[inline(always)]
unsafe fn int(x: &[u32], k: i64) -> i64 {
    unsafe { *x.get_unchecked(k as usize) as i64 }
}

/// The nodes below a node, none where there is no such node.
#[inline(always)]
fn segment(pointers: &[u32], at: i64) -> (i64, i64) {
    if at < 0 || at + 1 >= pointers.len() as i64 {
        return (0, 0);
    }
    unsafe { (int(pointers, at), int(pointers, at + 1)) }
}

/// The node with a coordinate, -1 where there is none.
#[inline(always)]
unsafe fn find(nodes: &[u32], (from, to): (i64, i64), key: i64) -> i64 {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if unsafe { int(nodes, middle) } < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if low < to && unsafe { int(nodes, low) } == key { low } else { -1 }
}

/// A part of a range, both ends included; its length is a multiple of `grain`, but for the last.
#[inline(always)]
fn cut(from: i64, to: i64, part: i64, parts: i64, grain: i64) -> (i64, i64) {
    if parts <= 1 {
        return (from, to);
    }
    let each = (to - from + parts) / parts;
    let each = (each + grain - 1) / grain * grain;
    let start = from + part * each;
    (start, if start + each - 1 < to { start + each - 1 } else { to })
}

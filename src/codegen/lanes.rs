// Vectors of lanes: loads, stores and arithmetic, of all lanes or of the first ones where a loop ends before its last group is full.
//
// Each is a line of `core` alone. Where the processor has registers of eight numbers, or of four, there are also the instructions by name, since
// compilers do not always find them and take long to look for them; all do the same.

/// Does something with registers of eight numbers, where there are such.
macro_rules! wide {
    ($n:ident, [$($x:ident),*], $body:expr) => {
        #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
        if $n == 8 {
            #[allow(unused_imports)]
            use core::arch::x86_64::*;
            #[allow(unused_unsafe)]
            return unsafe {
                $(let $x: __m512d = core::mem::transmute_copy(&$x);)*
                core::mem::transmute_copy(&$body)
            };
        }
    };
}

/// Does something with pairs of registers of four numbers, where there are such and none of eight: `h` is 0 and 1.
macro_rules! halves {
    ($n:ident, $h:ident, [$($x:ident),*], $body:expr) => {
        #[cfg(all(
            target_arch = "x86_64",
            target_feature = "avx2",
            target_feature = "fma",
            not(target_feature = "avx512f")
        ))]
        if $n == 8 {
            #[allow(unused_imports)]
            use core::arch::x86_64::*;
            #[allow(unused_unsafe)]
            return unsafe {
                $(let $x: [__m256d; 2] = core::mem::transmute_copy(&$x);)*
                let half = |$h: usize| {
                    $(let $x = $x[$h];)*
                    $body
                };
                core::mem::transmute_copy(&[half(0), half(1)])
            };
        }
    };
}

#[inline(always)]
fn all<const N: usize>(x: f64) -> V<N> {
    wide!(N, [], _mm512_set1_pd(x));
    halves!(N, h, [], _mm256_set1_pd(x));
    V::splat(x)
}

#[inline(always)]
fn plus<const N: usize>(a: V<N>, b: V<N>) -> V<N> {
    wide!(N, [a, b], _mm512_add_pd(a, b));
    halves!(N, h, [a, b], _mm256_add_pd(a, b));
    a + b
}

#[inline(always)]
fn times<const N: usize>(a: V<N>, b: V<N>) -> V<N> {
    wide!(N, [a, b], _mm512_mul_pd(a, b));
    halves!(N, h, [a, b], _mm256_mul_pd(a, b));
    a * b
}

#[inline(always)]
fn over<const N: usize>(a: V<N>, b: V<N>) -> V<N> {
    wide!(N, [a, b], _mm512_div_pd(a, b));
    halves!(N, h, [a, b], _mm256_div_pd(a, b));
    a / b
}

/// `a * b + c`, rounded once.
#[inline(always)]
fn fused<const N: usize>(a: V<N>, b: V<N>, c: V<N>) -> V<N> {
    wide!(N, [a, b, c], _mm512_fmadd_pd(a, b, c));
    halves!(N, h, [a, b, c], _mm256_fmadd_pd(a, b, c));
    V(core::array::from_fn(|l| mul_add(a.0[l], b.0[l], c.0[l])))
}

/// The sum of the lanes: lane `l` takes lane `l + h` for `h` = half of the lanes, a quarter, .., 1.
#[inline(always)]
fn total<const N: usize>(x: V<N>) -> f64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::*;
            let x: __m512d = core::mem::transmute_copy(&x);
            let x = _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd::<1>(x));
            let x = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
            _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
        };
    }
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(target_feature = "avx512f")))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::*;
            let [x, y]: [__m256d; 2] = core::mem::transmute_copy(&x);
            let x = _mm256_add_pd(x, y);
            let x = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
            _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
        };
    }
    x.sum()
}

/// The best of the lanes: lane `l` takes lane `l + h` for `h` = half of the lanes, a quarter, .., 1.
#[inline(always)]
fn folded<const N: usize>(x: V<N>, best: fn(f64, f64) -> f64) -> f64 {
    let (mut x, mut half) = (x.0, N / 2);
    while half > 0 {
        for lane in 0..half {
            x[lane] = best(x[lane], x[lane + half]);
        }
        half /= 2;
    }
    x[0]
}

/// The first `count` lanes of the one, the others of the other.
#[inline(always)]
fn keep<const N: usize>(count: i64, new: V<N>, old: V<N>) -> V<N> {
    wide!(N, [new, old], _mm512_mask_mov_pd(old, first(count), new));
    halves!(N, h, [new, old], _mm256_blendv_pd(old, new, _mm256_castsi256_pd(first_of_half(count, h))));
    V(core::array::from_fn(|l| if (l as i64) < count { new.0[l] } else { old.0[l] }))
}

#[inline(always)]
unsafe fn load<const N: usize>(x: *const f64, k: i64) -> V<N> {
    wide!(N, [], _mm512_loadu_pd(x.offset(k as isize)));
    halves!(N, h, [], _mm256_loadu_pd(x.offset(k as isize).add(4 * h)));
    unsafe { V(core::ptr::read_unaligned(x.offset(k as isize) as *const [f64; N])) }
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
    halves!(N, h, [], _mm256_maskload_pd(x.offset(k as isize).wrapping_add(4 * h), first_of_half(count, h)));
    V(core::array::from_fn(|l| if (l as i64) < count { unsafe { *x.offset(k as isize + l as isize) } } else { 0.0 }))
}

/// One column of eight rows of a few numbers each, from the row at `k` on: whole rows are loaded, and all columns of them share these loads.
#[inline(always)]
unsafe fn column<const N: usize, const D: usize>(x: *const f64, k: i64, a: i64) -> V<N> {
    let x = x.wrapping_offset(k as isize);
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::*;
            let part = |j: usize| _mm512_loadu_pd(x.add(8 * j));
            let places: [i64; 8] = core::array::from_fn(|l| (l * D) as i64 + a);
            let places: __m512i = core::mem::transmute(places);
            let first = _mm512_permutex2var_pd(part(0), places, part(1));
            // A place counts from the parts that are permuted: its higher bits are not looked at.
            let lanes = match D {
                2 => first,
                3 => {
                    let behind = _mm512_cmpge_epi64_mask(places, _mm512_set1_epi64(16));
                    _mm512_mask_permutexvar_pd(first, behind, places, part(2))
                }
                _ => _mm512_mask_blend_pd(0xf0, first, _mm512_permutex2var_pd(part(2), places, part(3))),
            };
            core::mem::transmute_copy(&lanes)
        };
    }
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(target_feature = "avx512f")))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::*;
            let half = |h: usize| {
                let part = |j: usize| _mm256_loadu_pd(x.add(4 * (D * h + j)));
                match (D, a) {
                    (2, 0) => _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_unpacklo_pd(part(0), part(1))),
                    (2, _) => _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_unpackhi_pd(part(0), part(1))),
                    (3, 0) => {
                        let two = _mm256_blend_pd::<0b0100>(part(0), part(1));
                        _mm256_permute4x64_pd::<0b01_10_11_00>(_mm256_blend_pd::<0b0010>(two, part(2)))
                    }
                    (3, 1) => {
                        let two = _mm256_blend_pd::<0b1001>(part(0), part(1));
                        _mm256_permute4x64_pd::<0b10_11_00_01>(_mm256_blend_pd::<0b0100>(two, part(2)))
                    }
                    (3, _) => {
                        let two = _mm256_blend_pd::<0b0010>(part(0), part(1));
                        _mm256_permute4x64_pd::<0b11_00_01_10>(_mm256_blend_pd::<0b1001>(two, part(2)))
                    }
                    (_, 0) => _mm256_permute2f128_pd::<0x20>(
                        _mm256_unpacklo_pd(part(0), part(1)),
                        _mm256_unpacklo_pd(part(2), part(3)),
                    ),
                    (_, 1) => _mm256_permute2f128_pd::<0x20>(
                        _mm256_unpackhi_pd(part(0), part(1)),
                        _mm256_unpackhi_pd(part(2), part(3)),
                    ),
                    (_, 2) => _mm256_permute2f128_pd::<0x31>(
                        _mm256_unpacklo_pd(part(0), part(1)),
                        _mm256_unpacklo_pd(part(2), part(3)),
                    ),
                    _ => _mm256_permute2f128_pd::<0x31>(
                        _mm256_unpackhi_pd(part(0), part(1)),
                        _mm256_unpackhi_pd(part(2), part(3)),
                    ),
                }
            };
            core::mem::transmute_copy(&[half(0), half(1)])
        };
    }
    V(core::array::from_fn(|l| unsafe { *x.offset((l * D) as isize + a as isize) }))
}

/// Places far apart: one load for each is as fast as the instruction that gathers, or faster.
#[inline(always)]
unsafe fn gather<const N: usize>(x: *const f64, places: [i64; N]) -> V<N> {
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
    // What is not in use is loaded from where the first lane is, which needs no branch for each lane.
    if count <= 0 {
        return all::<N>(0.0);
    }
    let places = core::array::from_fn(|l| if (l as i64) < count { places[l] } else { places[0] });
    keep(count, unsafe { gather::<N>(x, places) }, all::<N>(0.0))
}

#[inline(always)]
unsafe fn store<const N: usize>(x: *mut f64, k: i64, value: V<N>) {
    #[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
    if N == 8 {
        let lanes = unsafe { core::mem::transmute_copy(&value) };
        return unsafe { core::arch::x86_64::_mm512_storeu_pd(x.offset(k as isize), lanes) };
    }
    halves!(N, h, [value], _mm256_storeu_pd(x.offset(k as isize).add(4 * h), value));
    unsafe { core::ptr::write_unaligned(x.offset(k as isize) as *mut [f64; N], value.0) }
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
    // A store under a mask takes as long as many without one on some processors, and loads of what it stored wait.
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(target_feature = "avx512f")))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::*;
            let [mut half, other]: [__m256d; 2] = core::mem::transmute_copy(&value);
            let (mut x, mut count) = (x.wrapping_offset(k as isize), count);
            if count >= 4 {
                _mm256_storeu_pd(x, half);
                (half, x, count) = (other, x.wrapping_add(4), count - 4);
            }
            if count >= 4 {
                return _mm256_storeu_pd(x, half);
            }
            let mut pair = _mm256_castpd256_pd128(half);
            if count >= 2 {
                _mm_storeu_pd(x, pair);
                (pair, x, count) = (_mm256_extractf128_pd::<1>(half), x.wrapping_add(2), count - 2);
            }
            if count == 1 {
                _mm_store_sd(x, pair);
            }
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
    ((1u32 << count.max(0).min(8)) - 1) as u8
}

/// The lanes of a half that are among the first `count` of eight, as a mask.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
#[inline(always)]
unsafe fn first_of_half(count: i64, h: usize) -> core::arch::x86_64::__m256i {
    unsafe {
        use core::arch::x86_64::{_mm256_cmpgt_epi64, _mm256_set1_epi64x, _mm256_setr_epi64x};
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(count - 4 * h as i64), _mm256_setr_epi64x(0, 1, 2, 3))
    }
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
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(target_feature = "avx512f")))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::*;
            let (lanes, places) = (_mm256_set1_epi32(count.max(0).min(8) as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            let x = x.as_ptr().offset(k as isize).cast();
            let lanes = _mm256_maskload_epi32(x, _mm256_cmpgt_epi32(lanes, places));
            let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(lanes));
            let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(lanes));
            core::mem::transmute_copy(&[low, high])
        };
    }
    core::array::from_fn(|l| if (l as i64) < count { unsafe { int(x, k + l as i64) } } else { 0 })
}

/// Whether a lane is a number, or one of them is a NaN.
#[inline(always)]
fn attains<const N: usize>(x: V<N>, best: f64) -> bool {
    wide!(N, [x], _mm512_cmp_pd_mask::<_CMP_EQ_UQ>(x, _mm512_set1_pd(best)) != 0);
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(target_feature = "avx512f")))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::*;
            let [x, y]: [__m256d; 2] = core::mem::transmute_copy(&x);
            let best = _mm256_set1_pd(best);
            let [x, y] = [x, y].map(|x| _mm256_cmp_pd::<_CMP_EQ_UQ>(x, best));
            _mm256_movemask_pd(_mm256_or_pd(x, y)) != 0
        };
    }
    x.0.iter().any(|x| *x == best || x.is_nan())
}

/// Whether a lane is not 0.
#[inline(always)]
fn some<const N: usize>(x: V<N>) -> bool {
    wide!(N, [x], _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(x, _mm512_setzero_pd()) != 0);
    #[cfg(all(target_arch = "x86_64", target_feature = "avx2", not(target_feature = "avx512f")))]
    if N == 8 {
        return unsafe {
            use core::arch::x86_64::*;
            let [x, y]: [__m256d; 2] = core::mem::transmute_copy(&x);
            let [x, y] = [x, y].map(|x| _mm256_cmp_pd::<_CMP_NEQ_UQ>(x, _mm256_setzero_pd()));
            _mm256_movemask_pd(_mm256_or_pd(x, y)) != 0
        };
    }
    x.0.iter().any(|x| *x != 0.0)
}

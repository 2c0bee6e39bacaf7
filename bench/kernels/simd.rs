//! Eight numbers at once for the kernels by hand: one register of AVX-512, two of AVX2, or an array.
//!
//! The instructions are called by name, since compilers do not always find them.

#![allow(unsafe_code)]

use iverson::codegen::vector::V;

#[cfg(all(target_arch = "x86_64", target_feature = "avx512f"))]
mod registers {
    use std::arch::x86_64::*;

    pub type Eight = __m512d;

    // SAFETY of this module: the whole program is compiled for processors with AVX-512, and callers give eight numbers to read or write.

    #[inline(always)]
    pub fn splat(x: f64) -> Eight {
        unsafe { _mm512_set1_pd(x) }
    }
    #[inline(always)]
    pub fn load(x: &[f64; 8]) -> Eight {
        unsafe { _mm512_loadu_pd(x.as_ptr()) }
    }
    #[inline(always)]
    pub fn store(x: Eight, to: &mut [f64; 8]) {
        unsafe { _mm512_storeu_pd(to.as_mut_ptr(), x) }
    }
    #[inline(always)]
    pub fn add(a: Eight, b: Eight) -> Eight {
        unsafe { _mm512_add_pd(a, b) }
    }
    #[inline(always)]
    pub fn sub(a: Eight, b: Eight) -> Eight {
        unsafe { _mm512_sub_pd(a, b) }
    }
    #[inline(always)]
    pub fn mul(a: Eight, b: Eight) -> Eight {
        unsafe { _mm512_mul_pd(a, b) }
    }
    #[inline(always)]
    pub fn fused(a: Eight, b: Eight, c: Eight) -> Eight {
        unsafe { _mm512_fmadd_pd(a, b, c) }
    }

    /// The sums of eight vectors: pairs of lanes, pairs of pairs, and halves.
    #[inline(always)]
    pub fn sums([a, b, c, d, e, f, g, h]: [Eight; 8]) -> Eight {
        unsafe {
            let pair = |x, y| _mm512_add_pd(_mm512_unpacklo_pd(x, y), _mm512_unpackhi_pd(x, y));
            let (low, high) =
                (_mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15));
            let four = |x, y| _mm512_add_pd(_mm512_permutex2var_pd(x, low, y), _mm512_permutex2var_pd(x, high, y));
            let (first, last) = (four(pair(a, b), pair(c, d)), four(pair(e, f), pair(g, h)));
            let halves = _mm512_shuffle_f64x2::<0b01_00_01_00>(first, last);
            _mm512_add_pd(halves, _mm512_shuffle_f64x2::<0b11_10_11_10>(first, last))
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "avx2", target_feature = "fma", not(target_feature = "avx512f")))]
mod registers {
    use std::arch::x86_64::*;

    pub type Eight = [__m256d; 2];

    // SAFETY of this module: the whole program is compiled for processors with AVX2 and fused products, and callers give eight numbers.

    #[inline(always)]
    pub fn splat(x: f64) -> Eight {
        [unsafe { _mm256_set1_pd(x) }; 2]
    }
    #[inline(always)]
    pub fn load(x: &[f64; 8]) -> Eight {
        unsafe { [_mm256_loadu_pd(x.as_ptr()), _mm256_loadu_pd(x.as_ptr().add(4))] }
    }
    #[inline(always)]
    pub fn store(x: Eight, to: &mut [f64; 8]) {
        unsafe {
            _mm256_storeu_pd(to.as_mut_ptr(), x[0]);
            _mm256_storeu_pd(to.as_mut_ptr().add(4), x[1]);
        }
    }
    #[inline(always)]
    pub fn add(a: Eight, b: Eight) -> Eight {
        [0, 1].map(|k| unsafe { _mm256_add_pd(a[k], b[k]) })
    }
    #[inline(always)]
    pub fn sub(a: Eight, b: Eight) -> Eight {
        [0, 1].map(|k| unsafe { _mm256_sub_pd(a[k], b[k]) })
    }
    #[inline(always)]
    pub fn mul(a: Eight, b: Eight) -> Eight {
        [0, 1].map(|k| unsafe { _mm256_mul_pd(a[k], b[k]) })
    }
    #[inline(always)]
    pub fn fused(a: Eight, b: Eight, c: Eight) -> Eight {
        [0, 1].map(|k| unsafe { _mm256_fmadd_pd(a[k], b[k], c[k]) })
    }

    /// The sums of eight vectors: halves, pairs of lanes, and pairs of pairs.
    #[inline(always)]
    pub fn sums(all: [Eight; 8]) -> Eight {
        let half = |k: usize| unsafe { _mm256_add_pd(all[k][0], all[k][1]) };
        [0, 4].map(|k| unsafe {
            let (ab, cd) = (_mm256_hadd_pd(half(k), half(k + 1)), _mm256_hadd_pd(half(k + 2), half(k + 3)));
            _mm256_add_pd(_mm256_permute2f128_pd::<0x21>(ab, cd), _mm256_blend_pd::<0b1100>(ab, cd))
        })
    }
}

#[cfg(not(all(
    target_arch = "x86_64",
    any(target_feature = "avx512f", all(target_feature = "avx2", target_feature = "fma"))
)))]
mod registers {
    pub type Eight = [f64; 8];

    pub fn splat(x: f64) -> Eight {
        [x; 8]
    }
    pub fn load(x: &[f64; 8]) -> Eight {
        *x
    }
    pub fn store(x: Eight, to: &mut [f64; 8]) {
        *to = x;
    }
    pub fn add(a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|l| a[l] + b[l])
    }
    pub fn sub(a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|l| a[l] - b[l])
    }
    pub fn mul(a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|l| a[l] * b[l])
    }
    pub fn fused(a: Eight, b: Eight, c: Eight) -> Eight {
        std::array::from_fn(|l| a[l].mul_add(b[l], c[l]))
    }
    pub fn sums(all: [Eight; 8]) -> Eight {
        all.map(|x| x.iter().sum())
    }
}

/// Eight numbers.
#[derive(Clone, Copy)]
pub struct Lanes(registers::Eight);

impl Lanes {
    #[inline(always)]
    pub fn splat(x: f64) -> Lanes {
        Lanes(registers::splat(x))
    }

    /// The eight numbers from a place on.
    #[inline(always)]
    pub fn load(x: &[f64], at: usize) -> Lanes {
        Lanes(registers::load(x[at..].first_chunk().expect("eight numbers")))
    }

    #[inline(always)]
    pub fn store(self, to: &mut [f64], at: usize) {
        registers::store(self.0, to[at..].first_chunk_mut().expect("room for eight numbers"));
    }

    /// `self * b + c`, rounded once.
    #[inline(always)]
    pub fn fused(self, b: Lanes, c: Lanes) -> Lanes {
        Lanes(registers::fused(self.0, b.0, c.0))
    }

    #[inline(always)]
    pub fn array(self) -> [f64; 8] {
        let mut all = [0.0; 8];
        registers::store(self.0, &mut all);
        all
    }

    /// The sum of the lanes.
    #[inline(always)]
    pub fn sum(self) -> f64 {
        V(self.array()).sum()
    }

    /// The sums of eight vectors.
    #[inline(always)]
    pub fn sums(all: [Lanes; 8]) -> Lanes {
        Lanes(registers::sums(all.map(|x| x.0)))
    }

    /// A function of the crate, which the kernels that are compared call too.
    #[inline(always)]
    pub fn map(self, f: impl Fn(V<8>) -> V<8>) -> Lanes {
        Lanes(registers::load(&f(V(self.array())).0))
    }
}

impl std::ops::Add for Lanes {
    type Output = Lanes;
    #[inline(always)]
    fn add(self, other: Lanes) -> Lanes {
        Lanes(registers::add(self.0, other.0))
    }
}

impl std::ops::Sub for Lanes {
    type Output = Lanes;
    #[inline(always)]
    fn sub(self, other: Lanes) -> Lanes {
        Lanes(registers::sub(self.0, other.0))
    }
}

impl std::ops::Mul for Lanes {
    type Output = Lanes;
    #[inline(always)]
    fn mul(self, other: Lanes) -> Lanes {
        Lanes(registers::mul(self.0, other.0))
    }
}

/// The sum of products, with four vectors of partial sums.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut sums = [Lanes::splat(0.0); 4];
    let (a_blocks, b_blocks) = (a.chunks_exact(32), b.chunks_exact(32));
    let (a_rest, b_rest) = (a_blocks.remainder().chunks_exact(8), b_blocks.remainder().chunks_exact(8));
    let rest: f64 = a_rest.remainder().iter().zip(b_rest.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_blocks.zip(b_blocks) {
        for (c, sum) in sums.iter_mut().enumerate() {
            *sum = Lanes::load(x, 8 * c).fused(Lanes::load(y, 8 * c), *sum);
        }
    }
    for (x, y) in a_rest.zip(b_rest) {
        sums[0] = Lanes::load(x, 0).fused(Lanes::load(y, 0), sums[0]);
    }
    ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum() + rest
}

/// The sum of `values[k] * x[columns[k]]`.
#[inline(always)]
pub fn gathered(columns: &[u32], values: &[f64], x: &[f64]) -> f64 {
    let (column_blocks, value_blocks) = (columns.chunks_exact(8), values.chunks_exact(8));
    let rest = column_blocks.remainder().iter().zip(value_blocks.remainder());
    let rest: f64 = rest.map(|(j, v)| v * x[*j as usize]).sum();
    let mut sum = Lanes::splat(0.0);
    for (j, v) in column_blocks.zip(value_blocks) {
        let x: [f64; 8] = std::array::from_fn(|l| x[j[l] as usize]);
        sum = Lanes::load(v, 0).fused(Lanes::load(&x, 0), sum);
    }
    sum.sum() + rest
}

//! Eight numbers at once for the kernels by hand: one register of AVX-512, two of AVX2, or an array.
//!
//! The instructions are called by name, since compilers do not always find them.

#![allow(unsafe_code)]

use iverson::ir::codegen::vector::V;

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
    pub fn of(mut f: impl FnMut(usize) -> f64) -> Eight {
        unsafe { _mm512_setr_pd(f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)) }
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
    pub fn div(a: Eight, b: Eight) -> Eight {
        unsafe { _mm512_div_pd(a, b) }
    }
    #[inline(always)]
    pub fn max(a: Eight, b: Eight) -> Eight {
        unsafe { _mm512_max_pd(a, b) }
    }
    #[inline(always)]
    pub fn sqrt(a: Eight) -> Eight {
        unsafe { _mm512_sqrt_pd(a) }
    }
    /// `x` where `a < b`, else `y`.
    #[inline(always)]
    pub fn less(a: Eight, b: Eight, x: Eight, y: Eight) -> Eight {
        unsafe { _mm512_mask_blend_pd(_mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b), y, x) }
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

    /// Not an array: its elements would go through memory.
    pub type Eight = (__m256d, __m256d);

    // SAFETY of this module: the whole program is compiled for processors with AVX2 and fused products, and callers give eight numbers.

    #[inline(always)]
    pub fn splat(x: f64) -> Eight {
        let x = unsafe { _mm256_set1_pd(x) };
        (x, x)
    }
    #[inline(always)]
    pub fn of(mut f: impl FnMut(usize) -> f64) -> Eight {
        unsafe { (_mm256_setr_pd(f(0), f(1), f(2), f(3)), _mm256_setr_pd(f(4), f(5), f(6), f(7))) }
    }
    #[inline(always)]
    pub fn load(x: &[f64; 8]) -> Eight {
        unsafe { (_mm256_loadu_pd(x.as_ptr()), _mm256_loadu_pd(x.as_ptr().add(4))) }
    }
    #[inline(always)]
    pub fn store(x: Eight, to: &mut [f64; 8]) {
        unsafe {
            _mm256_storeu_pd(to.as_mut_ptr(), x.0);
            _mm256_storeu_pd(to.as_mut_ptr().add(4), x.1);
        }
    }
    #[inline(always)]
    pub fn add(a: Eight, b: Eight) -> Eight {
        unsafe { (_mm256_add_pd(a.0, b.0), _mm256_add_pd(a.1, b.1)) }
    }
    #[inline(always)]
    pub fn sub(a: Eight, b: Eight) -> Eight {
        unsafe { (_mm256_sub_pd(a.0, b.0), _mm256_sub_pd(a.1, b.1)) }
    }
    #[inline(always)]
    pub fn mul(a: Eight, b: Eight) -> Eight {
        unsafe { (_mm256_mul_pd(a.0, b.0), _mm256_mul_pd(a.1, b.1)) }
    }
    #[inline(always)]
    pub fn div(a: Eight, b: Eight) -> Eight {
        unsafe { (_mm256_div_pd(a.0, b.0), _mm256_div_pd(a.1, b.1)) }
    }
    #[inline(always)]
    pub fn max(a: Eight, b: Eight) -> Eight {
        unsafe { (_mm256_max_pd(a.0, b.0), _mm256_max_pd(a.1, b.1)) }
    }
    #[inline(always)]
    pub fn sqrt(a: Eight) -> Eight {
        unsafe { (_mm256_sqrt_pd(a.0), _mm256_sqrt_pd(a.1)) }
    }
    /// `x` where `a < b`, else `y`.
    #[inline(always)]
    pub fn less(a: Eight, b: Eight, x: Eight, y: Eight) -> Eight {
        let less = |a, b, x, y| unsafe { _mm256_blendv_pd(y, x, _mm256_cmp_pd::<_CMP_LT_OQ>(a, b)) };
        (less(a.0, b.0, x.0, y.0), less(a.1, b.1, x.1, y.1))
    }
    #[inline(always)]
    pub fn fused(a: Eight, b: Eight, c: Eight) -> Eight {
        unsafe { (_mm256_fmadd_pd(a.0, b.0, c.0), _mm256_fmadd_pd(a.1, b.1, c.1)) }
    }

    /// The sums of eight vectors: halves, pairs of lanes, and pairs of pairs.
    #[inline(always)]
    pub fn sums([a, b, c, d, e, f, g, h]: [Eight; 8]) -> Eight {
        let half = |x: Eight| unsafe { _mm256_add_pd(x.0, x.1) };
        let four = |a, b, c, d| unsafe {
            let (ab, cd) = (_mm256_hadd_pd(half(a), half(b)), _mm256_hadd_pd(half(c), half(d)));
            _mm256_add_pd(_mm256_permute2f128_pd::<0x21>(ab, cd), _mm256_blend_pd::<0b1100>(ab, cd))
        };
        (four(a, b, c, d), four(e, f, g, h))
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
    pub fn of(f: impl FnMut(usize) -> f64) -> Eight {
        std::array::from_fn(f)
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
    pub fn div(a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|l| a[l] / b[l])
    }
    pub fn max(a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|l| a[l].max(b[l]))
    }
    pub fn sqrt(a: Eight) -> Eight {
        a.map(f64::sqrt)
    }
    /// `x` where `a < b`, else `y`.
    pub fn less(a: Eight, b: Eight, x: Eight, y: Eight) -> Eight {
        std::array::from_fn(|l| if a[l] < b[l] { x[l] } else { y[l] })
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

    /// A number for each lane.
    #[inline(always)]
    pub fn of(f: impl FnMut(usize) -> f64) -> Lanes {
        Lanes(registers::of(f))
    }

    /// Eight numbers of `x` at places of their own.
    #[inline(always)]
    pub fn gather(x: &[f64], at: &[u32]) -> Lanes {
        let [all] = Lanes::gather_rows(x, at);
        all
    }

    /// Eight rows of so many numbers of `x`, column by column. All places are tested at once.
    #[inline(always)]
    pub fn gather_rows<const D: usize>(x: &[f64], at: &[u32]) -> [Lanes; D] {
        let at: &[u32; 8] = at.first_chunk().expect("eight places");
        let count = u32::try_from(x.len() / D).unwrap_or(u32::MAX);
        assert!(at.iter().fold(true, |all, at| all & (*at < count)), "rows of the matrix");
        // SAFETY: each place is below the number of rows.
        each(|k| Lanes::of(|l| unsafe { *x.get_unchecked(at[l] as usize * D + k) }))
    }

    /// Eight rows of so many numbers from the start of `x`, column by column.
    #[inline(always)]
    pub fn columns<const D: usize>(x: &[f64]) -> [Lanes; D] {
        let x = &x[..8 * D];
        each(|k| Lanes::of(|l| x[l * D + k]))
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
    pub fn max(self, other: Lanes) -> Lanes {
        Lanes(registers::max(self.0, other.0))
    }

    #[inline(always)]
    pub fn sqrt(self) -> Lanes {
        Lanes(registers::sqrt(self.0))
    }

    /// `x` where `self < other`, else `y`.
    #[inline(always)]
    pub fn less(self, other: Lanes, x: Lanes, y: Lanes) -> Lanes {
        Lanes(registers::less(self.0, other.0, x.0, y.0))
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
    pub fn sums([a, b, c, d, e, f, g, h]: [Lanes; 8]) -> Lanes {
        Lanes(registers::sums([a.0, b.0, c.0, d.0, e.0, f.0, g.0, h.0]))
    }

    /// A function of the crate, which the kernels that are compared call too.
    #[inline(always)]
    pub fn map(self, f: impl Fn(V<8>) -> V<8>) -> Lanes {
        Lanes(registers::load(&f(V(self.array())).0))
    }
}

impl Default for Lanes {
    #[inline(always)]
    fn default() -> Lanes {
        Lanes::splat(0.0)
    }
}

/// What a function gives for each place of an array; unlike `std::array::from_fn` it is always inlined, so that vectors stay in registers.
#[inline(always)]
pub fn each<T: Copy + Default, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    let mut all = [T::default(); N];
    for (k, x) in all.iter_mut().enumerate() {
        *x = f(k);
    }
    all
}

/// A function of each element of an array, for which the same holds.
#[inline(always)]
pub fn mapped<T: Copy, U: Copy + Default, const N: usize>(x: [T; N], mut f: impl FnMut(T) -> U) -> [U; N] {
    each(|k| f(x[k]))
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

impl std::ops::Div for Lanes {
    type Output = Lanes;
    #[inline(always)]
    fn div(self, other: Lanes) -> Lanes {
        Lanes(registers::div(self.0, other.0))
    }
}

impl std::ops::AddAssign for Lanes {
    #[inline(always)]
    fn add_assign(&mut self, other: Lanes) {
        *self = *self + other;
    }
}

/// `y += s * x`
#[inline(always)]
pub fn axpy(s: f64, x: &[f64], y: &mut [f64]) {
    x.iter().zip(y).for_each(|(x, y)| *y = s.mul_add(*x, *y));
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
        sum = Lanes::load(v, 0).fused(Lanes::gather(x, j), sum);
    }
    sum.sum() + rest
}

//! Vectors of numbers, and functions of them.
//!
//! Both engines compile this text, so they agree bit for bit. Every function works lane by lane, so the number of lanes does not change a
//! bit, nor does what the other lanes hold. Products are added with one rounding where `mul_add` says so and nowhere else, and all operations but
//! those of IEEE 754 are on bits: a processor changes nothing either. It needs Rust 1.88. Polynomials come from `bench/coefficients.py`.
//!
//! Each is a loop over the lanes that calls what is done in one by its name, so that this is always inlined, and the loop becomes one of vectors. As an
//! argument it would be called, lane by lane, wherever a kernel has the function twice. Functions of long text are not inlined themselves.
//! Sine, cosine and powers are each made of two functions, of which the first ([`angle_parts`], [`base_parts`]) serves all of one argument.
//!
//! How far off the functions are at most, in units in the last place of the exact value, tested over the whole range against numbers of
//! 192 bits; each is defined for all numbers that are in its domain as mathematics has it, and NaN elsewhere. Special values are those of
//! [the operator table](crate::scalar::Op).
//!
//! | function | units | |
//! |---|---|---|
//! | [`floor`], [`ceil`], [`nearest`] | 0 | |
//! | [`sqrt`] | 0.5 | the instruction |
//! | [`exp`], [`expm1`], [`ln`], [`log1p`], [`pow`] | 1 | |
//! | [`sinh`], [`cosh`], [`asin`], [`acos`], [`atan2`], [`cbrt`] | 1 | |
//! | [`sin`], [`cos`] | 1 | lanes beyond a million are reduced one by one, exactly |
//! | [`tan`] | 1.5 | as [`sin`] |
//! | [`tanh`], [`atan`], [`erf`], [`sigmoid`], [`softplus`] | 1.5 | |
//! | [`xlogy`] | 2 | |
//! | [`lgamma`] | 3 | for `x < 0` of the largest of `lgamma(x)`, `lgamma(-x)` and 1 |
//! | [`trigamma`] | 4 | |
//! | [`digamma`] | 3.5 | for `x < 0` 5, of the largest of `digamma(x)`, `digamma(-x)` and 1 |

mod double;
mod error_function;
mod exponential;
mod gamma;
mod hyperbolic;
mod inverse_trigonometric;
mod large_angle;
mod logarithm;
mod mul_add;
mod power;
mod root;
mod rounding;
mod square_root;
mod trigonometric;

pub use error_function::erf;
pub use exponential::{exp, expm1, sigmoid, softplus, tanh};
pub use gamma::{digamma, lgamma, trigamma};
pub use hyperbolic::{cosh, sinh};
pub use inverse_trigonometric::{acos, asin, atan, atan2};
pub use logarithm::{ln, log1p, xlogy};
pub use power::{base_parts, pow, pow_of_base};
pub use root::{cbrt, sqrt};
pub use rounding::{ceil, floor, nearest};
pub use trigonometric::{angle_parts, cos, cos_of_angle, sin, sin_of_angle, tan};

/// Numbers in lanes.
#[derive(Clone, Copy, Debug)]
pub struct V<const N: usize>(pub [f64; N]);

impl<const N: usize> V<N> {
    /// One number in all lanes.
    #[inline(always)]
    pub fn splat(x: f64) -> Self {
        V([x; N])
    }

    /// A number for each lane.
    #[inline(always)]
    pub fn of(mut f: impl FnMut(usize) -> f64) -> Self {
        let mut y = [0.0; N];
        for (l, y) in y.iter_mut().enumerate() {
            *y = f(l);
        }
        V(y)
    }

    /// A function in each lane.
    #[inline(always)]
    pub fn map(mut self, f: impl Fn(f64) -> f64) -> Self {
        for x in &mut self.0 {
            *x = f(*x);
        }
        self
    }

    /// A function of two numbers in each lane.
    #[inline(always)]
    pub fn zip(mut self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        for (x, y) in self.0.iter_mut().zip(&other.0) {
            *x = f(*x, *y);
        }
        self
    }

    /// The sum of the lanes: lane `l` takes lane `l + h` for `h` = half of the lanes, a quarter, .., 1.
    #[inline(always)]
    pub fn sum(mut self) -> f64 {
        let mut half = N / 2;
        while half > 0 {
            for l in 0..half {
                self.0[l] += self.0[l + half];
            }
            half /= 2;
        }
        self.0[0]
    }

    /// Whether something holds of a lane.
    #[inline(always)]
    pub fn any(self, p: impl Fn(f64) -> bool) -> bool {
        let mut any = false;
        for x in self.0 {
            any |= p(x);
        }
        any
    }
}

impl<const N: usize> core::ops::Add for V<N> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl<const N: usize> core::ops::Sub for V<N> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

impl<const N: usize> core::ops::Mul for V<N> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
}

impl<const N: usize> core::ops::Div for V<N> {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
}

/// `x` where `p` is not zero, else 0.
#[inline(always)]
pub fn select(p: f64, x: f64) -> f64 {
    if p != 0.0 { x } else { 0.0 }
}

/// `a^k` by repeated squaring, lowest bit of `k` first; `1 / a^|k|` for negative `k`.
#[inline(always)]
pub fn powi(a: f64, k: i32) -> f64 {
    let (mut power, mut square, mut rest) = (1.0, a, k.unsigned_abs());
    loop {
        if rest & 1 == 1 {
            power *= square;
        }
        rest >>= 1;
        if rest == 0 {
            return if k < 0 { 1.0 / power } else { power };
        }
        square *= square;
    }
}

/// The smaller; the first where equal; NaN where either is.
#[inline(always)]
pub fn min(a: f64, b: f64) -> f64 {
    if a <= b || a.is_nan() { a } else { b }
}

/// The larger; the first where equal; NaN where either is.
#[inline(always)]
pub fn max(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

/// `-1`, `0` or `1`; zeros keep their sign, NaN stays.
#[inline(always)]
pub fn sign(a: f64) -> f64 {
    if a > 0.0 {
        1.0
    } else if a < 0.0 {
        -1.0
    } else {
        a
    }
}

/// 1 or 0.
#[inline(always)]
pub fn indicator(p: bool) -> f64 {
    if p { 1.0 } else { 0.0 }
}

/// Adding and subtracting this rounds to an integer, which is then in the last bits.
pub const ROUND: f64 = 6755399441055744.0;

/// The nearest integer, the even one of two, for `|x| < 2^51`.
#[inline(always)]
pub fn round(x: f64) -> f64 {
    (x + ROUND) - ROUND
}

/// An integer below `2^51` as bits, of which the last 51 count.
#[inline(always)]
pub fn last_bits(x: f64) -> u64 {
    (x + ROUND).to_bits()
}

/// `y`, which is not negative, with the sign of `x`.
#[inline(always)]
pub fn with_sign_of(x: f64, y: f64) -> f64 {
    f64::from_bits(y.to_bits() | (x.to_bits() & 0x8000000000000000))
}

/// `x` where `p` holds, else `y`, without a branch: both are computed.
#[inline(always)]
pub fn choose(p: bool, x: f64, y: f64) -> f64 {
    core::hint::select_unpredictable(p, x, y)
}

/// As [`choose`], for pairs.
#[inline(always)]
pub fn choose_pair(p: bool, x: (f64, f64), y: (f64, f64)) -> (f64, f64) {
    (choose(p, x.0, y.0), choose(p, x.1, y.1))
}

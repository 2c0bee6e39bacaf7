// Vectors of numbers, and functions of them. Both engines compile this text, so they agree bit for bit; every function works
// lane by lane, so the number of lanes does not change a bit either. The algorithms of exp, ln, log1p and expm1 are those of fdlibm,
// with selections in the place of branches.

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
    pub fn of(f: impl FnMut(usize) -> f64) -> Self {
        V(core::array::from_fn(f))
    }

    /// A function in each lane.
    #[inline(always)]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        V(core::array::from_fn(|l| f(self.0[l])))
    }

    /// A function of two numbers in each lane.
    #[inline(always)]
    pub fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        V(core::array::from_fn(|l| f(self.0[l], other.0[l])))
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

    /// `x` where `p` holds of the lane, else `y`.
    #[inline(always)]
    fn choose(self, p: impl Fn(f64) -> bool, x: Self, y: Self) -> Self {
        V(core::array::from_fn(|l| if p(self.0[l]) { x.0[l] } else { y.0[l] }))
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

/// Adding and subtracting this rounds to an integer, which is then in the low bits.
const ROUND: f64 = 6755399441055744.0;
const LOG2_E: f64 = core::f64::consts::LOG2_E;
/// The natural logarithm of 2; the high part times an exponent is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe62e42fee00000);
const LN_2_LOW: f64 = f64::from_bits(0x3dea39ef35793c76);

/// `2^k` for `-1022 <= k <= 1023`, where `k` was rounded by adding `ROUND`.
#[inline(always)]
fn power_of_two(rounded: f64) -> f64 {
    let k = rounded.to_bits().wrapping_sub(ROUND.to_bits());
    f64::from_bits(k.wrapping_add(1023) << 52)
}

/// `x * 2^k`, in two steps so that neither power leaves the range.
#[inline(always)]
fn scale<const N: usize>(x: V<N>, k: V<N>) -> V<N> {
    let half = k.map(|k| (k * 0.5 + ROUND) - ROUND);
    let rest = k - half;
    x * half.map(|k| power_of_two(k + ROUND)) * rest.map(|k| power_of_two(k + ROUND))
}

/// `e^x`, at most 1 unit in the last place off.
#[inline(always)]
pub fn exp<const N: usize>(x: V<N>) -> V<N> {
    // Beyond these the result is 0 or infinite; a NaN fails both tests and stays.
    let x = x.map(|x| if x > 710.0 { 710.0 } else { x }).map(|x| if x < -746.0 { -746.0 } else { x });
    let k = x.map(|x| (x * LOG2_E + ROUND) - ROUND);
    let high = x - k.map(|k| k * LN_2_HIGH);
    let low = k.map(|k| k * LN_2_LOW);
    let r = high - low;
    let t = r * r;
    let p = t.map(|t| {
        t * (f64::from_bits(0x3fc555555555553e)
            + t * (f64::from_bits(0xbf66c16c16bebd93)
                + t * (f64::from_bits(0x3f11566aaf25de2c)
                    + t * (f64::from_bits(0xbebbbd41c5d26bf1) + t * f64::from_bits(0x3e66376972bea4d0)))))
    });
    let c = r - p;
    let y = V::splat(1.0) - ((low - (r * c) / (V::splat(2.0) - c)) - high);
    scale(y, k)
}

/// `f` and `k` with `x = 2^k (1 + f)` and `1 + f` within a factor `sqrt(2)` of 1, for positive normal `x`.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    let shifted = x.to_bits().wrapping_add(0x3ff0000000000000 - 0x3fe6a09e00000000);
    // The exponent as a number: its bits are put where those of an integer are.
    let k = f64::from_bits((shifted >> 52) | ROUND.to_bits()) - ROUND - 1023.0;
    let mantissa = f64::from_bits((shifted & 0x000fffffffffffff).wrapping_add(0x3fe6a09e00000000));
    (mantissa, k)
}

/// `s * (f^2 / 2 + R)` with `s = f / (2 + f)`: the part of `ln(1 + f)` beyond `f - f^2 / 2`.
#[inline(always)]
fn ln_tail<const N: usize>(f: V<N>) -> V<N> {
    let s = f / (V::splat(2.0) + f);
    let z = s * s;
    let w = z * z;
    let even = w.map(|w| {
        w * (f64::from_bits(0x3fd999999997fa04)
            + w * (f64::from_bits(0x3fcc71c51d8e78af) + w * f64::from_bits(0x3fc39a09d078c69f)))
    });
    let odd = w.map(|w| {
        f64::from_bits(0x3fe5555555555593)
            + w * (f64::from_bits(0x3fd2492494229359)
                + w * (f64::from_bits(0x3fc7466496cb03de) + w * f64::from_bits(0x3fc2f112df3e5244)))
    });
    let half = f.map(|f| 0.5 * f * f);
    s * (half + (even + z * odd))
}

/// Natural logarithm, at most 1 unit in the last place off.
#[inline(always)]
pub fn ln<const N: usize>(x: V<N>) -> V<N> {
    // Numbers below the normal range are brought into it.
    let small = x.map(|x| indicator(x < f64::MIN_POSITIVE));
    let normal = small.choose(|p| p != 0.0, x.map(|x| x * 18014398509481984.0), x);
    let mantissa = normal.map(|x| split(x).0);
    let k = normal.map(|x| split(x).1) - small.map(|p| p * 54.0);
    let f = mantissa - V::splat(1.0);
    let half = f.map(|f| 0.5 * f * f);
    let tail = ln_tail(f) + k.map(|k| k * LN_2_LOW);
    let y = k.map(|k| k * LN_2_HIGH) - ((half - tail) - f);
    let y = x.choose(|x| x < f64::INFINITY, y, x);
    let y = x.choose(|x| x == 0.0, V::splat(f64::NEG_INFINITY), y);
    x.choose(|x| x < 0.0, V::splat(f64::NAN), y)
}

/// `ln(1 + x)`, at most 1 unit in the last place off.
#[inline(always)]
pub fn log1p<const N: usize>(x: V<N>) -> V<N> {
    let u = V::splat(1.0) + x;
    let k = u.map(|u| split(u).1);
    // What is lost in 1 + x.
    let lost = V(core::array::from_fn(|l| {
        let (x, u) = (x.0[l], u.0[l]);
        if k.0[l] >= 2.0 { (1.0 - (u - x)) / u } else { (x - (u - 1.0)) / u }
    }));
    let near = |x: f64| x > -0.29289 && x < 0.41421;
    let f = x.choose(near, x, u.map(|u| split(u).0) - V::splat(1.0));
    let k = x.choose(near, V::splat(0.0), k);
    let lost = x.choose(near, V::splat(0.0), lost);
    let lost = k.choose(|k| k >= 54.0, V::splat(0.0), lost);
    let half = f.map(|f| 0.5 * f * f);
    let tail = ln_tail(f) + (k.map(|k| k * LN_2_LOW) + lost);
    let y = k.map(|k| k * LN_2_HIGH) - ((half - tail) - f);
    // So small that x is its own logarithm; zeros keep their sign.
    let y = x.choose(|x| x.abs() < 1.1102230246251565e-16, x, y);
    let y = x.choose(|x| x < f64::INFINITY, y, x);
    let y = x.choose(|x| x == -1.0, V::splat(f64::NEG_INFINITY), y);
    x.choose(|x| x < -1.0, V::splat(f64::NAN), y)
}

/// `e^x - 1`, at most 1 unit in the last place off.
#[inline(always)]
pub fn expm1<const N: usize>(x: V<N>) -> V<N> {
    let given = x;
    let x = x.map(|x| if x > 710.0 { 710.0 } else { x }).map(|x| if x < -60.0 { -60.0 } else { x });
    let k = x.map(|x| (x * LOG2_E + ROUND) - ROUND);
    let high = x - k.map(|k| k * LN_2_HIGH);
    let low = k.map(|k| k * LN_2_LOW);
    let r = high - low;
    let lost = (high - r) - low;
    let half = r.map(|r| 0.5 * r);
    let hxs = r * half;
    let r1 = hxs.map(|h| {
        1.0 + h
            * (f64::from_bits(0xbfa11111111110f4)
                + h * (f64::from_bits(0x3f5a01a019fe5585)
                    + h * (f64::from_bits(0xbf14ce199eaadbb7)
                        + h * (f64::from_bits(0x3ed0cfca86e65239) + h * f64::from_bits(0xbe8afdb76e09c32d)))))
    });
    let t = V::splat(3.0) - r1 * half;
    let e = hxs * ((r1 - t) / (V::splat(6.0) - r * t));
    // k = 0
    let none = r - (r * e - hxs);
    let e = (r * (e - lost) - lost) - hxs;
    let y = V(core::array::from_fn(|l| {
        let (r, e, k) = (r.0[l], e.0[l], k.0[l]);
        let inverse = power_of_two(ROUND - if k > 60.0 { 60.0 } else { k });
        if k == -1.0 {
            0.5 * (r - e) - 0.5
        } else if k == 1.0 {
            if r < -0.25 { -2.0 * (e - (r + 0.5)) } else { 1.0 + 2.0 * (r - e) }
        } else if k < 20.0 {
            (r - e) + (1.0 - inverse)
        } else {
            (r - (e + inverse)) + 1.0
        }
    }));
    let scaled = scale(y, k);
    let y = k.choose(|k| k == 1.0 || k == -1.0, y, scaled);
    let y = k.choose(|k| k == 0.0, none, y);
    // Zeros keep their sign.
    given.choose(|x| x == 0.0, given, y)
}

/// Hyperbolic tangent, at most 2.5 units in the last place off.
#[inline(always)]
pub fn tanh<const N: usize>(x: V<N>) -> V<N> {
    // With t = e^(2|x|) - 1, tanh |x| is 1 - 2 / (t + 2) where it is large, t / (t + 2) below; near 0 it is -t / (t + 2) with
    // t = e^(-2|x|) - 1.
    let large = |x: f64| x.abs() > 0.5493;
    let small = |x: f64| x.abs() < 0.255;
    let t = expm1(x.map(|x| if small(x) { -2.0 * x.abs() } else { 2.0 * x.abs() }));
    let q = x.choose(large, V::splat(2.0), x.choose(small, t.map(|t| -t), t)) / (t + V::splat(2.0));
    let y = x.choose(large, V::splat(1.0) - q, q);
    let y = V(core::array::from_fn(|l| if x.0[l] < 0.0 { -y.0[l] } else { y.0[l] }));
    x.choose(|x| x == 0.0, x, y)
}

/// `1 / (1 + e^-x)`, at most 2.5 units in the last place off.
#[inline(always)]
pub fn sigmoid<const N: usize>(x: V<N>) -> V<N> {
    let e = exp(x.map(|x| -x.abs()));
    let numerator = x.choose(|x| x > 0.0, V::splat(1.0), e);
    numerator / (V::splat(1.0) + e)
}

/// `ln(1 + e^x)`, at most 2.5 units in the last place off.
#[inline(always)]
pub fn softplus<const N: usize>(x: V<N>) -> V<N> {
    let tail = log1p(exp(x.map(|x| -x.abs())));
    x.choose(|x| x > 0.0, x + tail, tail)
}

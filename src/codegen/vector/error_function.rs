//! The error function: a polynomial up to 1, and beyond it 1 less a product of `e^(-x^2)`.

use super::exponential::*;
use super::{V, choose, with_sign_of};

/// The error function, at most 1.5 units in the last place off, for all `x`.
#[inline]
pub fn erf<const N: usize>(mut x: V<N>) -> V<N> {
    for x in &mut x.0 {
        *x = erf_lane(*x);
    }
    x
}

#[inline(always)]
pub fn erf_lane(x: f64) -> f64 {
    let a = choose(x.abs() > 6.0, 6.0, x.abs());
    let near = a < 1.0;
    // a + a P(a^2)
    let z = a * a;
    let w = z * z;
    let even = 0.1283791670955126
        + w * (0.11283791670954879
            + w * (0.0052239776248180145
                + w * (0.0001205533111164271
                    + w * (1.6461000484121368e-06 + w * (1.4659775274047436e-08 + w * 5.957176147748911e-11)))));
    let odd = -0.3761263890318375
        + w * (-0.026866170645076792
            + w * (-0.000854832698083379
                + w * (-1.4925595266831182e-05 + w * (-1.6350312701054695e-07 + w * -1.1372848856791674e-09))));
    let small = a + a * (even + z * odd);
    // 1 - e^(-a^2) Q(t)
    let t = (a - 3.0) / (a + 3.0);
    let u = t * t;
    let even = 0.17900115118138996
        + u * (0.24560380171233195
            + u * (0.07166583719774874
                + u * (0.004269136347508256
                    + u * (-0.0005970623517093284
                        + u * (6.406182073530546e-05 + u * (-8.008021319412685e-06 + u * 1.2801900862962662e-06))))));
    let odd = -0.32623356004303716
        + u * (-0.15011593650078744
            + u * (-0.024392499318273194
                + u * (0.0007077464443901538
                    + u * (4.525472635483354e-05 + u * (-1.284889451252353e-05 + u * 2.023603179641757e-06)))));
    let (h, _, k) = exp_parts(-z, 0.0);
    let large = 1.0 - (h * power_of_two(k)) * (even + t * odd);
    let y = choose(near, small, large);
    with_sign_of(x, y)
}

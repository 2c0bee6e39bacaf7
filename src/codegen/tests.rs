//! Products that are added, and square roots, where the processor has no instruction for them; which functions are in lanes.

use super::in_lanes;
use super::mul_add::mul_add_in_integers;
use super::square_root::{square_root, square_root_in_integers};
use crate::scalar::Op;

/// Sources write arithmetic and comparisons as they are, and call back polygamma functions of higher order alone.
#[test]
fn functions_of_the_table_are_in_lanes() {
    for op in Op::all() {
        let written = matches!(
            op,
            Op::Div | Op::Powi(_) | Op::Min | Op::Max | Op::Compare(_) | Op::StopGradient | Op::Sign | Op::Abs
        );
        let called = matches!(op, Op::Polygamma(2..));
        let in_lanes = in_lanes(op, &vec![[0.5; 8]; usize::from(op.arity())]).is_some();
        assert!(in_lanes != (written || called), "{op:?}");
    }
}

#[test]
fn integers_round_as_the_processor_does() {
    let special = [0.0, 5e-324, f64::MIN_POSITIVE, 1.0, 1.0 + f64::EPSILON, 2.0, 1e154, 1e308, f64::MAX, f64::INFINITY];
    let special: Vec<f64> = special.iter().flat_map(|x| [*x, -x]).chain([f64::NAN, 2.5e-308, 1e-162]).collect();
    let check = |a: f64, b: f64, c: f64| {
        let (found, expected) = (mul_add_in_integers(a, b, c), a.mul_add(b, c));
        let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
        assert!(same, "{a:e} * {b:e} + {c:e} is {expected:e}, not {found:e}");
    };
    for a in &special {
        for b in &special {
            special.iter().for_each(|c| check(*a, *b, *c));
        }
    }
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..1_000_000 {
        let (a, b) = (f64::from_bits(rng.u64(..)), f64::from_bits(rng.u64(..)));
        // An addend of about the size of the product, or of any other.
        let near = -(a * b) * (1.0 + (rng.f64() - 0.5) * 2f64.powi(-rng.i32(0..60)));
        check(a, b, near);
        check(a, b, near * 2f64.powi(rng.i32(-120..120)));
        check(a, 1.0 / a * rng.f64(), f64::from_bits(rng.u64(..)));
        // Results below the normal range.
        let (x, y) = (rng.f64() * 2f64.powi(rng.i32(-540..-500)), rng.f64() * 2f64.powi(rng.i32(-560..-500)));
        check(x, y, rng.f64() * 2f64.powi(rng.i32(-1074..-1000)));
    }
}

#[test]
fn square_roots_of_sources_are_those_of_the_processor() {
    let check = |x: f64| {
        let expected = x.sqrt();
        for found in [square_root(x), square_root_in_integers(x)] {
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(same, "the root of {x:e} is {expected:e}, not {found:e}");
        }
    };
    let special = [0.0, 5e-324, f64::MIN_POSITIVE, 1.0, 2.0, 4.0, f64::MAX, f64::INFINITY, f64::NAN];
    special.iter().for_each(|x| [*x, -x].into_iter().for_each(check));
    let mut rng = fastrand::Rng::with_seed(6);
    for _ in 0..1_000_000 {
        check(f64::from_bits(rng.u64(..)));
        // Squares and their neighbours; numbers below the normal range.
        let square = (1.0 + rng.f64()).powi(2);
        [square, square.next_up(), square.next_down()].into_iter().for_each(check);
        check(f64::from_bits(rng.u64(..1 << 52) >> rng.u32(0..52)));
    }
}

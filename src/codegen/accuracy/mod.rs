//! How accurate the functions of [`vector`](super::vector) are, against numbers of 192 bits.
//!
//! `cargo test` sweeps all exponents; the campaign, with some millions of arguments for each function, is
//!
//! ```text
//! cargo test --release --lib accuracy::campaign -- --ignored --nocapture
//! ```

mod reference;

use reference::{Number, Reference};

use super::in_lanes;
use crate::scalar::Op;

/// What is stated of a function: how many units in the last place it is off at most, for positive and for negative arguments.
struct Case {
    op: Op,
    bound: [f64; 2],
    /// The largest arguments of either sign that have a finite value, and are worth a test.
    range: [f64; 2],
}

const fn case(op: Op, bound: f64, range: [f64; 2]) -> Case {
    Case { op, bound: [bound, bound], range }
}

const MAX: f64 = f64::MAX;

const UNARY: &[Case] = &[
    case(Op::Exp, 1.0, [-745.2, 709.79]),
    case(Op::Expm1, 1.0, [-80.0, 709.79]),
    case(Op::Ln, 1.0, [0.0, MAX]),
    case(Op::Log1p, 1.0, [-1.0, MAX]),
    case(Op::Sqrt, 0.5, [0.0, MAX]),
    case(Op::Cbrt, 1.0, [-MAX, MAX]),
    case(Op::Floor, 0.0, [-MAX, MAX]),
    case(Op::Ceil, 0.0, [-MAX, MAX]),
    case(Op::Round, 0.0, [-MAX, MAX]),
    case(Op::Sin, 1.0, [-MAX, MAX]),
    case(Op::Cos, 1.0, [-MAX, MAX]),
    case(Op::Tan, 1.5, [-MAX, MAX]),
    case(Op::Tanh, 1.5, [-40.0, 40.0]),
    case(Op::Sinh, 1.0, [-710.4758600739439, 710.4758600739439]),
    case(Op::Cosh, 1.0, [-710.4758600739439, 710.4758600739439]),
    case(Op::Asin, 1.0, [-1.0, 1.0]),
    case(Op::Acos, 1.0, [-1.0, 1.0]),
    case(Op::Atan, 1.5, [-MAX, MAX]),
    case(Op::Erf, 1.5, [-7.0, 7.0]),
    case(Op::Sigmoid, 1.5, [-745.2, 60.0]),
    case(Op::Softplus, 1.5, [-745.2, MAX]),
    Case { op: Op::Lgamma, bound: [3.0, 3.0], range: [-1e15, 2.55e305] },
    Case { op: Op::Polygamma(0), bound: [3.5, 5.0], range: [-1e15, MAX] },
    case(Op::Polygamma(1), 4.0, [-1e15, MAX]),
];

const BINARY: &[Case] =
    &[case(Op::Pow, 1.0, [0.0, MAX]), case(Op::Xlogy, 2.0, [0.0, MAX]), case(Op::Atan2, 1.0, [-MAX, MAX])];

/// Arguments at which functions change their formula, or which are close to a zero, a pole or a multiple of `pi / 2`.
#[allow(clippy::approx_constant)]
const HARD: &[f64] = &[
    f64::MIN_POSITIVE,
    5e-324,
    2.225073858507201e-308,
    1e-17,
    1.1102230246251565e-16,
    1.4901161193847656e-8,
    0.25,
    0.29289,
    0.29289321881345254,
    0.34657359027997264,
    0.3465735902799727,
    0.34840327044403346,
    0.35457304557010816,
    0.4142,
    0.41421,
    0.41421356237309503,
    0.5,
    0.5040830082644554,
    0.7071067811865475,
    0.7071067811865476,
    std::f64::consts::FRAC_PI_4,
    0.9999999999999999,
    1.0,
    1.0000000000000002,
    1.0397207708399179,
    1.4142135623730951,
    1.4616321449683622,
    1.4616321449683625,
    1.5,
    std::f64::consts::FRAC_PI_2,
    1.5707963267948968,
    1.9999999999999998,
    2.0,
    2.0000000000000004,
    2.356194490192345,
    2.4142,
    2.4570247382208006,
    3.0,
    3.0000000000000004,
    3.141592653589793,
    4.71238898038469,
    5.921587195794507,
    7.999999999999999,
    8.0,
    19.061547465398498,
    20.0,
    22.0,
    36.7368005696771,
    37.42994775023705,
    51.0,
    355.0,
    708.3964185322641,
    709.782712893384,
    710.4758600739439,
    745.1332191019411,
    103993.0,
    1e6,
    1000000.0000000001,
    1647099.3291652855,
    1048576.0,
    1073741824.0,
    4503599627370495.5,
    4503599627370497.0,
    9007199254740991.0,
    // 6381956970095103 * 2^797 is the float of more than one half that is closest to a multiple of pi / 2.
    5.319372648326541e255,
    1e22,
    f64::MAX,
];

/// What was found: how many arguments, and for each sign the largest distance with its arguments.
#[derive(Default)]
struct Found {
    count: usize,
    worst: [(f64, [f64; 2]); 2],
}

/// The distance in units in the last place of the exact value, or of something larger.
fn distance(found: f64, exact: &Number, scale: f64) -> f64 {
    if found.is_nan() {
        return f64::INFINITY;
    }
    let scale = scale.max(exact.to_f64().abs());
    // What is beyond the range is judged as if the range went on.
    let (scale, found) = (scale.min(f64::MAX), found.clamp(-f64::MAX, f64::MAX));
    let exponent = (scale.to_bits() >> 52).max(1) as i32 - 1075;
    (exact - &Number::from(found)).in_units(exponent)
}

/// Judges a function at arguments, eight at a time; fewer lanes must give the same bits.
fn judge(case: &Case, args: &[[f64; 2]], reference: &mut Reference, found: &mut Found) {
    let arity = usize::from(case.op.arity());
    for group in args.chunks(8) {
        let lane = |k: usize| -> [f64; 8] { std::array::from_fn(|l| group.get(l).unwrap_or(&group[0])[k]) };
        let all = [lane(0), lane(1)];
        let y = in_lanes(case.op, &all[..arity]).unwrap();
        same_bits::<1>(case.op, &all[..arity], &y);
        same_bits::<2>(case.op, &all[..arity], &y);
        same_bits::<4>(case.op, &all[..arity], &y);
        for (args, y) in group.iter().zip(y) {
            let exact = reference.value(case.op, &args[..arity]);
            let negative = args[0] < 0.0;
            let has_scale = negative && matches!(case.op, Op::Lgamma | Op::Polygamma(0));
            let scale = if has_scale { reference.value(case.op, &[-args[0]]).to_f64().abs().max(1.0) } else { 0.0 };
            // Zeros of `lgamma` that are floats are exact.
            let off = if case.op == Op::Lgamma && [1.0, 2.0].contains(&args[0]) {
                y.abs() * f64::INFINITY
            } else {
                distance(y, &exact, scale)
            };
            let worst = &mut found.worst[usize::from(negative)];
            if off > worst.0 {
                *worst = (off, *args);
            }
            found.count += 1;
        }
    }
}

fn same_bits<const N: usize>(op: Op, args: &[[f64; 8]], y: &[f64; 8]) {
    for first in (0..8).step_by(N) {
        let part: Vec<[f64; N]> = args.iter().map(|x| std::array::from_fn(|l| x[first + l])).collect();
        for (l, z) in in_lanes(op, &part).unwrap().into_iter().enumerate() {
            let y = y[first + l];
            assert!(z.to_bits() == y.to_bits() || z.is_nan() && y.is_nan(), "{op:?} of lane {l} of {N} in {args:?}");
        }
    }
}

/// Whether the function has a finite value that is not known anyway.
fn is_judged(case: &Case, x: f64) -> bool {
    let is_pole = matches!(case.op, Op::Lgamma | Op::Polygamma(_)) && x < 0.0 && x.fract() == 0.0;
    let overflows = match case.op {
        Op::Polygamma(0) => x.abs() < 5.6e-309,
        Op::Polygamma(_) => x.abs() < 7.5e-155,
        _ => false,
    };
    (case.range[0]..=case.range[1]).contains(&x)
        && x != 0.0
        && !is_pole
        && !overflows
        && !(case.op == Op::Log1p && x == -1.0)
}

/// All exponents with some random signs and mantissas, more of the usual exponents, and all hard cases.
fn sweep(case: &Case, each: usize, reference: &mut Reference) -> Found {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut args: Vec<f64> = HARD.iter().flat_map(|x| [*x, -x]).collect();
    args.extend((1..60).flat_map(|k| [f64::from(k) * std::f64::consts::FRAC_PI_2, f64::from(-k) * 0.5]));
    for exponent in 0..0x7ff_u64 {
        let usual = (1023 - 12..1023 + 10).contains(&exponent);
        for _ in 0..if usual { 20 * each } else { each } {
            let mantissa = match rng.u8(0..16) {
                0 => 0,
                1 => (1 << 52) - 1,
                _ => rng.u64(0..1 << 52),
            };
            args.push(f64::from_bits(u64::from(rng.bool()) << 63 | exponent << 52 | mantissa));
        }
    }
    args.retain(|x| is_judged(case, *x));
    let mut found = Found::default();
    judge(case, &args.into_iter().map(|x| [x, 0.0]).collect::<Vec<_>>(), reference, &mut found);
    found
}

/// Pairs whose power is in the range: of all kinds, and near 1 with large exponents.
fn sweep_pairs(case: &Case, count: usize, reference: &mut Reference) -> Found {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut args = Vec::new();
    while args.len() < count {
        let any = |rng: &mut fastrand::Rng| f64::from_bits(rng.u64(1..0x7ff << 52));
        let x = match rng.u8(0..4) {
            0 => any(&mut rng),
            1 => 1.0 + (rng.f64() - 0.5) * 2.0_f64.powi(-rng.i32(1..50)),
            2 => f64::from(rng.i32(1..100)),
            _ => 10.0 * rng.f64(),
        };
        let y = match rng.u8(0..4) {
            0 => any(&mut rng),
            1 => f64::from(rng.i32(-40..40)) * 0.5,
            2 => (1455.0 * rng.f64() - 745.0) / x.ln(),
            _ => 20.0 * rng.f64() - 10.0,
        };
        let power = y * x.ln();
        let in_range = (-745.0..709.7).contains(&power) && y.is_finite();
        match case.op {
            Op::Pow if in_range && x != 1.0 && y != 0.0 => {
                args.push([x, y]);
                if y.fract() == 0.0 {
                    args.push([-x, y]);
                }
            }
            Op::Xlogy if power.is_finite() && power.abs() > 1e-290 => args.push([y, x]),
            Op::Atan2 if y != 0.0 => {
                // Of all sizes, of like sizes, and close to where the formula changes.
                let near = x
                    * [1.0, 0.4142, 2.4142][rng.usize(0..3)]
                    * (1.0 + (rng.f64() - 0.5) * 2.0_f64.powi(-rng.i32(1..50)));
                let like = x
                    * 2.0_f64.powi(if rng.bool() { rng.i32(-60..60) } else { rng.i32(-1020..1020) })
                    * (1.0 + rng.f64());
                for y in [y, near, like].into_iter().filter(|y| *y != 0.0 && y.is_finite()) {
                    let sign = |rng: &mut fastrand::Rng, x: f64| if rng.bool() { -x } else { x };
                    args.push([sign(&mut rng, y), sign(&mut rng, x)]);
                }
            }
            _ => {}
        }
    }
    let mut found = Found::default();
    judge(case, &args, reference, &mut found);
    found
}

fn assert_within(case: &Case, found: &Found) {
    for ((off, [x, y]), bound) in found.worst.into_iter().zip(case.bound) {
        assert!(off <= bound, "{:?}({x:e}, {y:e}) is {off:.3} units off", case.op);
    }
    assert!(found.count > 500, "{:?}: nothing was tested", case.op);
}

#[test]
fn functions_are_accurate() {
    let reference = &mut Reference::new();
    for case in UNARY {
        assert_within(case, &sweep(case, 1, reference));
    }
    for case in BINARY {
        assert_within(case, &sweep_pairs(case, 2000, reference));
    }
}

/// Millions of arguments for each function; prints how far off they are. `IVERSON_ARGUMENTS` multiplies their number.
#[test]
#[ignore = "takes many minutes; the command is in the module documentation"]
fn campaign() {
    let each = std::env::var("IVERSON_ARGUMENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_usize);
    let reference = &mut Reference::new();
    for case in UNARY.iter().chain(BINARY) {
        let found = match case.op.arity() {
            1 => sweep(case, 200 * each, reference),
            _ => sweep_pairs(case, 500_000 * each, reference),
        };
        let [(positive, at), (negative, below)] = found.worst;
        let below = if negative > 0.0 { format!(", {negative:.3} at {below:?}") } else { String::new() };
        println!(
            "{:<10} {:>9} arguments, at most {positive:.3} units off at {at:?}{below}",
            case.op.name(),
            found.count
        );
        assert_within(case, &found);
    }
}

/// Special values are those of the operator table.
#[test]
fn special_values() {
    let mut values: Vec<f64> =
        [0.0, 1.0, 2.0, 3.0, f64::INFINITY, f64::NAN, 1e154, 1e308, 7.5, 1e300, 20.0, 0.5, 1e-300].to_vec();
    values.extend(HARD);
    let values: Vec<f64> = values.into_iter().flat_map(|x| [x, -x]).collect();
    for Case { op, .. } in UNARY {
        for x in &values {
            assert_special(*op, &[*x]);
        }
    }
    for Case { op, .. } in BINARY {
        for x in &values {
            for y in &values {
                assert_special(*op, &[*x, *y]);
            }
        }
    }
}

fn assert_special(op: Op, args: &[f64]) {
    let lanes: Vec<[f64; 1]> = args.iter().map(|x| [*x]).collect();
    let [y] = in_lanes(op, &lanes).unwrap();
    let expected = op.value(args);
    let same = y == expected && y.is_sign_negative() == expected.is_sign_negative() || y.is_nan() && expected.is_nan();
    // The scale of negative arguments; tangents and zeros of the table's functions are less accurate than ours.
    let scale = if matches!(op, Op::Lgamma | Op::Polygamma(_)) { expected.abs().max(1.0) } else { expected.abs() };
    let close = (y - expected).abs() <= 16.0 * f64::EPSILON * scale.max(f64::MIN_POSITIVE);
    assert!(same || y != 0.0 && y.is_finite() && close, "{op:?}{args:?} = {y:e} and not {expected:e}");
    // Wherever the lane is, and whatever the others hold.
    for l in 0..8 {
        for other in [0.3, 1e9, -2.5, f64::NAN] {
            let lanes: Vec<[f64; 8]> =
                args.iter().map(|x| std::array::from_fn(|k| if k == l { *x } else { other })).collect();
            let z = in_lanes(op, &lanes).unwrap()[l];
            assert!(
                z.to_bits() == y.to_bits() || z.is_nan() && y.is_nan(),
                "{op:?}{args:?} in lane {l} beside {other}"
            );
        }
    }
}

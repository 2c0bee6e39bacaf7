//! Tests of every row of the operator table.

use num_complex::Complex64;

use super::*;
use crate::base::Arena;

fn no_users() -> Arena<FunctionId, UserFunction> {
    Arena::new()
}

/// Tuples of values, one for each argument.
fn tuples(values: &[f64], arity: u8) -> Vec<Vec<f64>> {
    (0..arity).fold(vec![Vec::new()], |tuples, _| {
        tuples.iter().flat_map(|t| values.iter().map(move |x| [t.as_slice(), &[*x]].concat())).collect()
    })
}

/// Irregular points, away from kinks and poles.
const POINTS: [f64; 12] = [-6.4, -3.3, -1.3, -0.83, -0.31, -0.07, 0.012, 0.11, 0.45, 1.37, 2.9, 8.4];

const SPECIAL: [f64; 25] = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    f64::MIN_POSITIVE,
    -f64::MIN_POSITIVE,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.0 + f64::EPSILON,
    1.0 - f64::EPSILON,
    2.0,
    -2.0,
    3.0,
    -2.5,
    1e154,
    -1e154,
    1e308,
    -1e308,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Points of a function's domain: where value and partial derivatives are finite.
fn domain_points(op: Op) -> Vec<Vec<f64>> {
    let finite =
        |args: &Vec<f64>| (0..op.arity()).all(|k| derivative(op, k, args).is_finite()) && op.value(args).is_finite();
    let jumps = |args: &Vec<f64>| matches!(op, Op::Floor | Op::Ceil | Op::Round) && (2.0 * args[0]).fract() == 0.0;
    // No two arguments are equal, so no point is a tie.
    let apart = |args: Vec<f64>| (1..).zip(args).map(|(k, x)| x * (1.0 + f64::from(k) / 64.0)).collect();
    let points: Vec<Vec<f64>> = tuples(&POINTS, op.arity()).into_iter().map(apart).filter(finite).collect();
    let points: Vec<Vec<f64>> = points.into_iter().filter(|args| !jumps(args)).collect();
    assert!(points.len() >= 6, "{op:?} has too few points: {points:?}");
    points
}

fn derivative(op: Op, k: u8, args: &[f64]) -> f64 {
    try_evaluate(Function::Partial(op.into(), k), &no_users(), args).unwrap()
}

/// The derivative of `f` by argument `k`, by five-point formulas with two steps and extrapolation, and a bound for its error: what the
/// two differ by, and rounding.
fn difference(f: impl Fn(&[f64]) -> f64, args: &[f64], k: usize) -> (f64, f64) {
    let five_points = |h: f64| {
        let values = [-2.0, -1.0, 1.0, 2.0].map(|steps| {
            let mut moved = args.to_vec();
            moved[k] += steps * h;
            f(&moved)
        });
        // Formulas such as `1 - y^2` round at the size of 1.
        let largest = values.iter().fold(1.0_f64, |m, v| m.max(v.abs()));
        let slope = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * h);
        (slope, 8.0 * f64::EPSILON * largest / h)
    };
    let h = 1e-3 * args[k].abs().min(1.0);
    let ((coarse, _), (fine, rounding)) = (five_points(h), five_points(0.5 * h));
    let truncation = (coarse - fine).abs();
    assert!(
        truncation <= 1e-6 * fine.abs() + rounding + 1e-9,
        "differences at {args:?} by {k} mean nothing: {coarse}, {fine}"
    );
    (fine + (fine - coarse) / 15.0, truncation + rounding)
}

#[test]
fn partials_agree_with_differences() {
    // The derivative of one function is not that of its value.
    for op in Op::all().into_iter().filter(|op| *op != Op::StopGradient) {
        for args in domain_points(op) {
            for k in 0..op.arity() {
                let exact = derivative(op, k, &args);
                let (slope, error) = difference(|x| op.value(x), &args, k.into());
                let tolerance = 1e-10 * exact.abs() + error;
                assert!((exact - slope).abs() <= tolerance, "{op:?}{args:?} by {k}: {exact}, by differences {slope}");
            }
        }
    }
}

#[test]
fn partials_agree_with_complex_steps() {
    let mut without = Vec::new();
    for op in Op::all() {
        for args in domain_points(op) {
            for k in 0..op.arity() {
                let h = 1e-100;
                let mut moved: Vec<Complex64> = args.iter().map(|x| Complex64::from(*x)).collect();
                moved[usize::from(k)].im = h;
                let Some(value) = complex(op, &moved) else {
                    if !without.contains(&op) {
                        without.push(op);
                    }
                    continue;
                };
                let (exact, step) = (derivative(op, k, &args), value.im / h);
                assert!(
                    (exact - step).abs() <= 1e-13 * exact.abs().max(1.0),
                    "{op:?}{args:?} by {k}: {exact}, by steps {step}"
                );
                let real = op.value(&args);
                assert!((value.re - real).abs() <= 1e-13 * real.abs().max(1.0), "{op:?}{args:?}: {value} and {real}");
            }
        }
    }
    let expected = [Op::Erf, Op::Lgamma, Op::Polygamma(0), Op::Polygamma(1), Op::Polygamma(2), Op::Polygamma(5)];
    assert_eq!(without, expected);
}

/// `D[arg j] = [i = j]`, `D[result] = partial`, sum, product and chain rule with the operator table's own partial derivatives.
/// Nothing where an indicator stands.
fn differentiate(e: &Formula, i: u8, result: &Formula) -> Option<Formula> {
    Some(match e {
        Formula::Arg(j) => Formula::Number(f64::from(u8::from(i == *j))),
        Formula::Number(_) => Formula::Number(0.0),
        Formula::Result => result.clone(),
        Formula::Add(a, b) => differentiate(a, i, result)? + differentiate(b, i, result)?,
        Formula::Mul(a, b) => differentiate(a, i, result)? * &**b + &**a * differentiate(b, i, result)?,
        Formula::Apply(g, args) => {
            let mut sum = Formula::Number(0.0);
            for (k, arg) in args.iter().enumerate() {
                let inner = differentiate(arg, i, result)?;
                match partial(*g, k as u8, &no_users()) {
                    Partial::Zero => {}
                    Partial::Formula(outer) => sum = sum + instantiate(&outer, args, e) * inner,
                    Partial::Indicator(..) | Partial::Otherwise(_) => return None,
                }
            }
            sum
        }
    })
}

/// The formula with arguments and result filled in.
fn instantiate(e: &Formula, args: &[Formula], result: &Formula) -> Formula {
    match e {
        Formula::Arg(k) => args[usize::from(*k)].clone(),
        Formula::Result => result.clone(),
        Formula::Number(x) => Formula::Number(*x),
        Formula::Add(a, b) => instantiate(a, args, result) + instantiate(b, args, result),
        Formula::Mul(a, b) => instantiate(a, args, result) * instantiate(b, args, result),
        Formula::Apply(g, operands) => {
            Formula::try_apply(*g, operands.iter().map(|e| instantiate(e, args, result)).collect()).unwrap()
        }
    }
}

#[test]
fn second_partials_exist_and_agree_with_differences() {
    let mut checked = 0;
    for op in Op::all() {
        for k in 0..op.arity() {
            for i in 0..op.arity() {
                let (Partial::Formula(first), by) =
                    (partial(op.into(), k, &no_users()), partial(op.into(), i, &no_users()))
                else {
                    continue;
                };
                let Partial::Formula(by) = by else { continue };
                let second = differentiate(&first, i, &by).unwrap();
                for args in domain_points(op) {
                    let exact = second.evaluate(&args, op.value(&args), &no_users());
                    let (slope, error) = difference(|x| derivative(op, k, x), &args, i.into());
                    let tolerance = 1e-10 * exact.abs() + error;
                    assert!(
                        (exact - slope).abs() <= tolerance,
                        "{op:?}{args:?} by {k}, {i}: {exact}, by differences {slope}"
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}

/// What the partial of `pow` by `a` adds at (0, 0) leaves its derivative by `b` as it is: `a^(b - 1) * (1 + b * ln(a))`, with 1 / a at 0.
#[test]
fn mixed_partials_of_powers() {
    let users = no_users();
    let [Partial::Formula(by_a), Partial::Formula(by_b)] = [0, 1].map(|k| partial(Op::Pow.into(), k, &users)) else {
        panic!()
    };
    let mixed = differentiate(&by_a, 1, &by_b).unwrap();
    for (a, b, expected) in [
        (0.0, 1.0, f64::NEG_INFINITY),
        (0.0, 2.0, 0.0),
        (0.0, 3.0, 0.0),
        (2.0, 0.0, 0.5),
        (0.25, 0.0, 4.0),
        (1.0, 5.0, 1.0),
    ] {
        assert_eq!(mixed.evaluate(&[a, b], Op::Pow.value(&[a, b]), &users), expected, "{a}^{b}");
    }
}

/// Complex steps of powers where a logarithm has no value: at 0, and at negative numbers.
#[test]
fn complex_steps_of_powers() {
    let h = 1e-100;
    for a in [-2.0, -0.5, 0.0, 1.0, 3.0] {
        for b in [-3.0, -1.0, 0.0, 1.0, 2.0, 2.5, 5.0] {
            let value = Op::Pow.value(&[a, b]);
            if !value.is_finite() {
                continue;
            }
            let (real, imaginary) = (Complex64::new, |x: f64| Complex64::new(x, h));
            let steps = [[imaginary(a), real(b, 0.0)], [real(a, 0.0), imaginary(b)]];
            for (k, step) in (0..).zip(steps) {
                let exact = derivative(Op::Pow, k, &[a, b]);
                if exact.is_nan() || (a == 0.0 && exact.is_infinite()) {
                    continue;
                }
                let found = complex(Op::Pow, &step).unwrap();
                assert!((found.re - value).abs() <= 1e-13 * value.abs() + h, "{a}^{b}: {found}, {value}");
                assert!((found.im / h - exact).abs() <= 1e-13 * exact.abs() + h, "{a}^{b} by {k}: {found}, {exact}");
            }
        }
    }
}

/// Values, partial derivatives and complex values can be evaluated whatever the arguments are, and NaN propagates as documented.
#[test]
fn special_grid_gives_values() {
    for op in Op::all() {
        for args in tuples(&SPECIAL, op.arity()) {
            let value = op.value(&args);
            let nan = args.iter().any(|x| x.is_nan());
            let ignores_nan = match op {
                Op::Powi(0) | Op::Compare(_) => true,
                Op::Pow => args[0] == 1.0 || args[1] == 0.0,
                Op::Xlogy => args[0] == 0.0,
                _ => false,
            };
            assert_eq!(nan && !value.is_nan(), nan && ignores_nan, "{op:?}{args:?} = {value}");
            assert_eq!(evaluate(op.into(), &no_users(), &args).to_bits(), value.to_bits());
            for k in 0..op.arity() {
                let _: f64 = derivative(op, k, &args);
                let moved: Vec<Complex64> = args.iter().map(|x| Complex64::new(*x, 1e-100)).collect();
                let _: Option<Complex64> = complex(op, &moved);
            }
        }
    }
}

#[test]
fn facts_hold_on_the_special_grid() {
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    let mut sorted: Vec<f64> = SPECIAL.into_iter().chain(POINTS).filter(|x| !x.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    for op in Op::all() {
        let Facts { parity, monotone, zero, commutative, forgets_nan } = op.facts();
        let f = |args: &[f64]| op.value(args);
        let arity = op.arity();
        let zeros = vec![0.0; arity.into()];
        assert_eq!(zero, f(&zeros) == 0.0, "{op:?}: zero");
        let forgets = |args: &Vec<f64>| args.iter().any(|x| x.is_nan()) && !f(args).is_nan();
        assert_eq!(forgets_nan, tuples(&SPECIAL, arity).iter().any(forgets), "{op:?}: forgets NaN");
        for args in tuples(&sorted, arity) {
            let value = f(&args);
            let mirrored = f(&args.iter().map(|x| -x).collect::<Vec<_>>());
            match parity {
                Some(Parity::Even) => assert!(same(value, mirrored), "{op:?}{args:?}: even"),
                Some(Parity::Odd) => assert!(same(value, -mirrored), "{op:?}{args:?}: odd"),
                None => {}
            }
            if commutative {
                assert_eq!(f(&[args[1], args[0]]), value, "{op:?}{args:?}: commutative");
            }
            for k in 0..usize::from(arity) {
                let mut next = args.clone();
                next[k] = sorted.iter().copied().find(|x| *x > args[k]).unwrap_or(args[k]);
                // Outside of the domain values are NaN and compare with nothing.
                let (falls, rises) = (f(&next) < value, f(&next) > value);
                match monotone {
                    Some(Monotone::Increasing) => assert!(!falls, "{op:?}{args:?}: increasing"),
                    Some(Monotone::Decreasing) => assert!(!rises, "{op:?}{args:?}: decreasing"),
                    None => {}
                }
            }
        }
    }
}

/// A fact that holds on irregular points but is not in the table was forgotten.
#[test]
fn facts_are_complete() {
    for op in Op::all() {
        let facts = op.facts();
        let points = tuples(&POINTS, op.arity());
        let finite: Vec<&Vec<f64>> = points.iter().filter(|p| op.value(p).is_finite()).collect();
        let mirrored = |p: &[f64]| op.value(&p.iter().map(|x| -x).collect::<Vec<_>>());
        if op.arity() == 1 {
            assert_eq!(
                facts.parity == Some(Parity::Even),
                finite.iter().all(|p| mirrored(p) == op.value(p)),
                "{op:?}: even"
            );
            assert_eq!(
                facts.parity == Some(Parity::Odd),
                finite.iter().all(|p| mirrored(p) == -op.value(p)),
                "{op:?}: odd"
            );
            let rises = finite.windows(2).all(|p| op.value(p[0]) <= op.value(p[1]));
            assert_eq!(facts.monotone == Some(Monotone::Increasing), rises, "{op:?}: increasing");
        } else {
            let commutes = finite.iter().all(|p| op.value(&[p[1], p[0]]) == op.value(p));
            assert_eq!(facts.commutative, commutes, "{op:?}: commutative");
        }
    }
}

#[test]
fn names_are_read_back() {
    for op in Op::all() {
        let word = op.name().starts_with(|c: char| c.is_ascii_alphabetic());
        assert_eq!(Op::from_name(&op.name()), word.then_some(op));
        let also_infix = matches!(op, Op::Pow | Op::Compare(_));
        assert_eq!(op.infix().is_some(), !word || also_infix, "{op:?}");
        let name = Formula::try_apply(op.into(), vec![Formula::Arg(0); op.arity().into()]).unwrap().to_string();
        assert!(name.contains(op.infix().unwrap_or(&op.name())), "{name}");
    }
    for (name, op) in [
        ("polygamma0", Some(Op::Polygamma(0))),
        ("polygamma17", Some(Op::Polygamma(17))),
        ("polygamma", None),
        ("polygamma02", None),
        ("polygamma+2", None),
        ("polygamma4294967296", None),
        ("", None),
        ("/", None),
        ("^", None),
        ("<", None),
        ("less", Some(Op::Compare(Comparison::Less))),
        ("Exp", None),
    ] {
        assert_eq!(Op::from_name(name), op, "{name}");
    }
}

#[test]
fn serialised_names_are_stable() {
    for (op, text) in [
        (Op::Div, r#""div""#),
        (Op::Powi(-2), r#"{"powi":-2}"#),
        (Op::Compare(Comparison::LessEqual), r#"{"compare":"less-equal"}"#),
        (Op::Log1p, r#""log1p""#),
        (Op::Polygamma(1), r#"{"polygamma":1}"#),
    ] {
        assert_eq!(serde_json::to_string(&op).unwrap(), text);
        assert_eq!(serde_json::from_str::<Op>(text).unwrap(), op);
    }
}

/// The documented costs: changing a partial derivative changes certificates, so it shows here.
#[test]
fn expansion_costs() {
    let users = no_users();
    let cases: &[(Op, &[u64], u64)] = &[
        (Op::Div, &[1, 2], 7),
        (Op::Powi(0), &[0], 1),
        (Op::Powi(1), &[0], 2),
        (Op::Powi(2), &[1], 3),
        (Op::Powi(3), &[2], 4),
        (Op::Pow, &[7, 1], 12),
        (Op::Min, &[1, 1], 4),
        (Op::Max, &[1, 1], 4),
        (Op::Compare(Comparison::Less), &[0, 0], 1),
        (Op::StopGradient, &[0], 1),
        (Op::Sign, &[0], 1),
        (Op::Abs, &[1], 3),
        (Op::Exp, &[0], 2),
        (Op::Tanh, &[3], 5),
        (Op::Atan2, &[4, 5], 13),
        (Op::Sigmoid, &[3], 5),
        (Op::Polygamma(3), &[1], 3),
    ];
    for (op, partials, total) in cases {
        let costs: Vec<u64> = (0..op.arity()).map(|k| expansion_cost((*op).into(), k, &users)).collect();
        assert_eq!((costs.as_slice(), expanded_cost((*op).into(), &users)), (*partials, *total), "{op:?}");
    }
    let worst = Op::all().into_iter().max_by_key(|op| expanded_cost((*op).into(), &users));
    assert_eq!(worst, Some(Op::Atan2));
}

#[test]
fn partials_print_as_formulas() {
    for (op, k, text) in [
        (Op::Div, 1, "-(result / b)"),
        (Op::Powi(2), 0, "2 * a"),
        (Op::Powi(-1), 0, "-a^(-2)"),
        (Op::Powi(i32::MIN), 0, "(-2147483648) * (result / a)"),
        (Op::Pow, 0, "b * a^(b + (-1) + (b = 0) * (a = 0))"),
        (Op::Pow, 1, "xlogy(result, a)"),
        (Op::Tanh, 0, "1 - result^2"),
        (Op::Sinh, 0, "cosh(a)"),
        (Op::Cosh, 0, "sinh(a)"),
        (Op::Asin, 0, "1 / sqrt((1 - a) * (1 + a))"),
        (Op::Acos, 0, "(-1) / sqrt((1 - a) * (1 + a))"),
        (Op::Cbrt, 0, "1 / (3 * result^2)"),
        (Op::Erf, 0, "1.1283791670955126 * exp(-a^2)"),
        (Op::Atan2, 1, "-(a / (a^2 + b^2))"),
        (Op::Sigmoid, 0, "result * sigmoid(-a)"),
        (Op::Lgamma, 0, "digamma(a)"),
        (Op::Polygamma(1), 0, "polygamma2(a)"),
    ] {
        let Partial::Formula(e) = partial(op.into(), k, &no_users()) else { panic!("{op:?}") };
        assert_eq!(e.to_string(), text);
    }
}

#[test]
fn indicators_of_min_and_max_sum_to_one() {
    for op in [Op::Min, Op::Max] {
        for args in tuples(&SPECIAL, 2) {
            let sum = derivative(op, 0, &args) + derivative(op, 1, &args);
            assert_eq!(sum, 1.0, "{op:?}{args:?}");
        }
    }
}

#[test]
fn reference_values() {
    // By mpmath with 40 digits.
    let cases: &[(Op, f64, f64)] = &[
        (Op::Erf, 1e-300, 1.1283791670955126e-300),
        (Op::Erf, 1e-10, 1.1283791670955126e-10),
        (Op::Erf, 0.1, 0.1124629160182849),
        (Op::Erf, 0.5, 0.5204998778130465),
        (Op::Erf, 1.0, 0.8427007929497149),
        (Op::Erf, 1.5, 0.9661051464753108),
        (Op::Erf, 2.0, 0.9953222650189527),
        (Op::Erf, 3.0, 0.9999779095030014),
        (Op::Erf, 5.0, 0.9999999999984626),
        (Op::Erf, -0.7, -0.6778011938374184),
        (Op::Lgamma, 1e-10, 23.025850929882736),
        (Op::Lgamma, 0.1, 2.252712651734206),
        (Op::Lgamma, 0.5, 0.5723649429247001),
        (Op::Lgamma, 1.5, -0.12078223763524522),
        (Op::Lgamma, 2.5, 0.2846828704729192),
        (Op::Lgamma, 3.0, std::f64::consts::LN_2),
        (Op::Lgamma, 10.0, 12.801827480081469),
        (Op::Lgamma, 100.5, 361.4355404677776),
        (Op::Lgamma, 1e10, 220258509288.81058),
        (Op::Lgamma, 1e100, 2.2925850929940456e102),
        (Op::Lgamma, -0.5, 1.2655121234846454),
        (Op::Lgamma, -1.5, 0.860047015376481),
        (Op::Lgamma, -2.25, 0.5555015450206475),
        (Op::Lgamma, -20.7, -43.105133189536225),
    ];
    for &(op, a, expected) in cases {
        let value = op.value(&[a]);
        assert!((value - expected).abs() <= 1e-14 * expected.abs(), "{op:?}({a}) = {value} and not {expected}");
    }
}

/// A function of the table of special values.
fn documented_op(text: &str) -> Option<Op> {
    let inner = text.strip_prefix('`')?.strip_suffix('`')?;
    if let Some(k) = inner.strip_prefix("a^") {
        return k.parse().ok().map(Op::Powi);
    }
    if let Some((name, _)) = inner.split_once('(') {
        return Op::from_name(name);
    }
    Op::all().into_iter().find(|op| op.infix().is_some_and(|infix| inner == format!("a {infix} b")))
}

#[test]
fn special_values_are_as_documented() {
    let rows: Vec<Vec<&str>> = include_str!("special_values.md")
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let (mut documented, mut wrong) = (Vec::new(), Vec::new());
    for row in &rows {
        let [function, a, b, value, by_a, by_b, _remark] = row.as_slice() else { panic!("{row:?}") };
        let op = documented_op(function).unwrap_or_else(|| panic!("{row:?}"));
        documented.push(op);
        let numbers = |texts: &[&str]| -> Vec<f64> {
            texts.iter().filter(|t| !t.is_empty()).map(|t| t.parse().unwrap_or_else(|_| panic!("{row:?}"))).collect()
        };
        let args = numbers(&[a, b]);
        let expected = numbers(&[value, by_a, by_b]);
        let mut found = vec![op.value(&args)];
        found.extend((0..op.arity()).map(|k| derivative(op, k, &args)));
        let bits = |xs: &[f64]| {
            xs.iter().map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect::<Vec<_>>()
        };
        if bits(&found) != bits(&expected) {
            wrong.push(format!("{row:?}: found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for op in Op::all() {
        let family = std::mem::discriminant(&op);
        assert!(documented.iter().any(|d| std::mem::discriminant(d) == family), "{op:?} is not documented");
    }
}

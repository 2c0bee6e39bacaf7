//! Integers at the ends of their range: guards with them read back as they were, hold where they should, or are refused as an overflow.

use fastrand::Rng;
use iverson::ir::stages::Stages;
use iverson::ir::{reference, surface, tssa};
use iverson::tensor::{Inputs, Value};
use iverson::{Error, Function};

use crate::kernels::{judge_itself, numbers};

/// A linear form: what `i`, `j` and `n` are multiplied by, and a constant, each a sum of literals.
struct Form {
    text: String,
    value: Box<dyn Fn(i128, i128, i128) -> i128>,
}

fn form(rng: &mut Rng) -> Form {
    let mut extreme = |small: i64| match rng.u8(..6) {
        0 => i64::MAX,
        1 => -i64::MAX,
        2 => i64::MIN,
        3 => rng.i64(..),
        4 => i64::MAX - rng.i64(0..3),
        _ => rng.i64(-small..=small),
    };
    let constant = extreme(3);
    let coefficients = [extreme(2), extreme(1), extreme(1)];
    // Two of three are plain, so that not all overflow.
    let keep = rng.usize(..4);
    let coefficients: Vec<i64> =
        coefficients.iter().enumerate().map(|(k, c)| if k == keep { *c } else { i64::from(rng.i8(-1..=1)) }).collect();
    let mut text = String::from("0");
    // The smallest integer is no literal.
    let parts = |k: i64| if k == i64::MIN { vec![-i64::MAX, -1] } else { vec![k] };
    for (k, name) in coefficients.iter().zip(["i", "j", "n"]) {
        for part in parts(*k) {
            text += &format!(" {} {}*{name}", if part < 0 { '-' } else { '+' }, part.unsigned_abs());
        }
    }
    for part in parts(constant) {
        text += &format!(" {} {}", if part < 0 { '-' } else { '+' }, part.unsigned_abs());
    }
    let [a, b, c] = [0, 1, 2].map(|k| i128::from(coefficients[k]));
    Form { text, value: Box::new(move |i, j, n| a * i + b * j + c * n + i128::from(constant)) }
}

#[test]
fn random_guards() {
    let (mut sound, mut refused) = (0, 0);
    for seed in 0..800 {
        let mut rng = Rng::with_seed(seed);
        let (left, right) = (form(&mut rng), form(&mut rng));
        let (symbol, holds): (&str, fn(i128, i128) -> bool) = [
            ("<", (|a, b| a < b) as fn(i128, i128) -> bool),
            ("<=", |a, b| a <= b),
            (">", |a, b| a > b),
            (">=", |a, b| a >= b),
            ("=", |a, b| a == b),
            ("!=", |a, b| a != b),
        ][rng.usize(..6)];
        let negated = rng.bool();
        let not = if negated { "not " } else { "" };
        let text = format!(
            "param x : [n] real\ngen i < n, j < n. [{not}({} {symbol} {})] * (x[i] + 1)",
            left.text, right.text
        );
        let source = match surface::read(&text, &[]) {
            Ok(source) => source,
            Err(Error::Program(problems)) => {
                assert!(problems.iter().all(|p| p.code == "overflow"), "{text}\n{problems:?}");
                refused += 1;
                continue;
            }
            Err(other) => panic!("{text}\n{other}"),
        };
        sound += 1;
        let back = surface::read(&source.to_string(), &[]).unwrap_or_else(|e| panic!("{e}\n{text}\n{source}"));
        assert!(back.same(&source), "{text}\n{source}\n{back}");
        let function = Function::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let written = function.tensor_ssa().to_string();
        let read = tssa::parse(&written, &function.tensor_ssa().signature).unwrap_or_else(|e| panic!("{e}\n{written}"));
        assert_eq!(read.to_string(), written, "{text}");
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(vec![1.0, 2.0]));
        let expected: Vec<f64> = (0..4i128)
            .map(|at| {
                let (i, j) = (at / 2, at % 2);
                let holds = holds((left.value)(i, j, 2), (right.value)(i, j, 2)) != negated;
                if holds { 2.0 + i as f64 } else { 0.0 }
            })
            .collect();
        // Evaluation may leave the range too: then it is an error, never another number.
        match reference::evaluate(function.tensor_ssa(), &inputs) {
            Ok(found) => {
                assert_eq!(numbers(&found), expected, "{text}\n{written}");
                if let Err(error) = judge_itself(&function, &inputs, false) {
                    assert!(error.contains("leaves the range"), "{error}\n{text}");
                }
            }
            Err(Error::Overflow) => {}
            Err(other) => panic!("{other}\n{text}"),
        }
    }
    assert!(sound > 200 && refused > 50, "{sound} are read, {refused} refused");
}

#[test]
fn ends_of_the_range() {
    for (guard, printed) in [
        ("i + 9223372036854775807 < n", "i + 9223372036854775807 < n"),
        ("not (i + 9223372036854775807 < n)", "n <= i + 9223372036854775807"),
        ("i - 9223372036854775807 - 1 >= 0", "i > 9223372036854775807"),
        ("0 <= n - 9223372036854775807*i - i", "n - 9223372036854775807*i - i >= 0"),
        ("n - i - 9223372036854775807 - 1 = 0", "n - i - 9223372036854775807 - 1 = 0"),
    ] {
        let text = format!("param x : [n] real\nsum i < n. [{guard}] * x[i]");
        let source = surface::read(&text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let expected = format!("sum i < n. [{printed}] * x[i]");
        assert_eq!(source.to_string().lines().last(), Some(expected.as_str()));
        assert!(surface::read(&source.to_string(), &[]).is_ok_and(|back| back.same(&source)), "{source}");
    }
    // In native code as well.
    let guards =
        ["i + 9223372036854775807 < n", "not (i + 9223372036854775807 < n)", "0 <= n - 9223372036854775807*i - i"];
    for guard in guards {
        let text = format!("param x : [n] real\ngen i < n. [{guard}] * x[i]");
        let function = Function::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(vec![1.0, 2.0]));
        if let Err(error) = judge_itself(&function, &inputs, true) {
            assert!(error.contains("leaves the range"), "{error}\n{text}");
        }
    }
    // A literal beyond the range is no real because of that.
    for guard in ["i + 9223372036854775808 <= n", "i < 1e300", "i = 18446744073709551616"] {
        let text = format!("param x : [n] real\nsum i < n. [{guard}] * x[i]");
        let error = surface::read(&text, &[]).expect_err("it is refused").to_string();
        assert!(error.contains("a number that is not a 64-bit integer"), "{error}");
    }
}

/// The smallest integer has no magnitude of 64 bits: as a step of an access, as a coefficient of a bound, and as the distance of a diagonal.
#[test]
fn smallest_integers_outside_of_guards() {
    let step = "0 - 9223372036854775807*i - i";
    for body in [
        format!("sum i < 1. x[{step}]"),
        format!("gen j < n. sum i < 1. x[{step}] * y[j]"),
        format!("gen k < n, j < n. [0 <= {} - k] * A[k, j]", step.replace('i', "j")),
        "gen i < n, j < n. [0 <= j - i - 9223372036854775807 - 1] * A[i, j]".to_owned(),
        "gen j < n, i < n. [0 <= i - j - 9223372036854775807 - 1] * A[j, i]".to_owned(),
        "gen i < n. sum j < n. [0 <= i - j - 9223372036854775807 - 1] * A[j, i] * y[j]".to_owned(),
    ] {
        let text = format!("param x : [1] real\nparam y : [n] real\nparam A : [n, n] real\n{body}");
        let source = match surface::read(&text, &[]) {
            Ok(source) => source,
            Err(error) => {
                assert!(matches!(error, Error::Program(_)), "{error:?}\n{text}");
                continue;
            }
        };
        let notation = source.matrix_notation();
        assert!(matches!(notation, Ok(_) | Err(Error::Limitation { .. })), "{notation:?}\n{text}");
        let function = Function::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let loops = function.loops(&mut Stages::new());
        assert!(matches!(loops, Ok(_) | Err(Error::Overflow)), "{loops:?}\n{text}");
    }
}

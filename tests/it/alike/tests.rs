//! Pairs of programs that must be the same, and pairs that must differ.

use super::{same_in_essence, same_up_to_renaming};
use iverson::ir::surface::read;
use iverson::ir::term::Program;

const DECLARATIONS: &str = "
    param x : [n] real
    param y : [n] real
    param B : [n, n] real
    param A : csr [n, n] real
    param s : real
    param t : real
    rel E : [n, n]
    map f : [n] -> [n]
";

fn program(body: &str) -> Program {
    read(&format!("{DECLARATIONS}{body}"), &[]).unwrap_or_else(|error| panic!("{error}\n{body}"))
}

/// Both ways round, so that the comparison is symmetric.
fn same(a: &str, b: &str, compare: fn(&Program, &Program) -> Result<(), String>) -> Result<(), String> {
    let (a, b) = (program(a), program(b));
    let (there, back) = (compare(&a, &b), compare(&b, &a));
    assert_eq!(there.is_ok(), back.is_ok(), "{there:?} and {back:?}\n{a}\n{b}");
    there
}

#[test]
fn differences_that_are_passed_over() {
    for (a, b) in [
        // Names.
        ("gen i < n. x[i]", "gen k < n. x[k]"),
        ("let a = s * t in a + a^2", "let b = t * s in b^2 + b"),
        // Order and nesting of operands.
        ("s + t + 1", "1 + (t + s)"),
        ("s * (t * 2)", "2 * s * t"),
        ("s - (t - 1)", "s - t + 1"),
        ("s - (t + 1)", "-1 + s - t"),
        ("-(2 * s)", "-2 * s"),
        ("2 * (s - t)", "-2 * (t - s)"),
        ("s * -t", "-(s * t)"),
        ("-(s - t) * s * [n >= 1] * 1", "s * (t - s) * [n >= 1] * 1"),
        // Order of guards and of what they compare.
        ("gen i < n, j < n. [i < j and E(i, j)] * x[i]", "gen i < n, j < n. [E(i, j) and j > i] * x[i]"),
        ("gen i < n, j < n. [i = 0 or E(i, j)] * x[i]", "gen i < n, j < n. [E(i, j) or 0 = i] * x[i]"),
        ("gen i < n, j < n. [i = j + 1] * x[i]", "gen i < n, j < n. [j = i - 1] * x[i]"),
        ("gen i < n. [exists k < n. E(i, k)] * x[i]", "gen i < n. [exists j < n. E(i, j)] * x[i]"),
        ("gen i < n. [x[i] > s] * y[i]", "gen j < n. [s < x[j]] * y[j]"),
        ("gen i < n. [x[i] = s] * y[i]", "gen j < n. [s = x[j]] * y[j]"),
        // Where guards stand.
        ("gen i < n. [i > 0] * (s * x[i])", "gen i < n. s * ([i > 0] * x[i])"),
        ("gen i < n. [i > 0] * [i < 3] * x[i]", "gen i < n. [0 < i < 3] * x[i]"),
        ("gen i < n. sum j < n. [i > 0 and j > i] * B[i, j]", "gen i < n. [i > 0] * (sum j < n. [j > i] * B[i, j])"),
        // Guards that factors bring.
        ("sum i < n, j < n. A[i, j] * s", "sum i < n, j < n. [A?(i, j)] * (A.value(i, j) * s)"),
        ("gen i < n, j < n. [A?(i, j)] * (A[i, j] - s)", "gen i < n, j < n. [A?(i, j)] * (A.value(i, j) - s)"),
        (
            "let r = gen i < n, j < n. [E(i, j)] * exp(B[i, j]) in gen i < n. sum j < n. r[j, i] * x[j]",
            "let r = gen i < n, j < n. [E(i, j)] * exp(B[i, j]) in gen i < n. sum j < n. [E(j, i)] * r[j, i] * x[j]",
        ),
        // Adjacent sums.
        ("sum i < n, j < n. x[i] * B[i, j]", "sum a < n, b < n. x[b] * B[b, a]"),
        ("gen k < n. sum i < n, j < n. B[i, j] * A[j, k]", "gen k < n. sum j < n, i < n. A[j, k] * B[i, j]"),
        // Order of lets, also where only their use tells them apart.
        ("let a = exp(s) in let b = exp(t) in a / b", "let b = exp(t) in let a = exp(s) in a / b"),
        ("let a = s in let b = s in a / b * a", "let b = s in let a = s in a / b * a"),
        ("let a = s in let b = s in a / b / b", "let a = s in let b = s in b / a / a"),
        (
            "let a = s + 1 in let b = a * t in let c = exp(s) in b - c",
            "let c = exp(s) in let a = 1 + s in let b = a * t in b - c",
        ),
        // Named comparisons.
        ("gen i < n. [exp(x[i]) < s] * y[i]", "let c = gen i < n. less(exp(x[i]), s) in gen i < n. [c[i] != 0] * y[i]"),
        // Sizes as numbers.
        ("(n + 1) * s", "s * (1 + n)"),
        ("gen i < n. x[f(i)]", "gen j < n. x[f(j)]"),
        ("(s, gen i < n. x[i])", "(s, gen j < n. x[j])"),
    ] {
        for compare in [same_up_to_renaming, same_in_essence] {
            if let Err(why) = same(a, b, compare) {
                panic!("{a}\n{b}\n{why}");
            }
        }
    }
}

#[test]
fn differences_that_count() {
    for (a, b) in [
        ("s + t", "s * t"),
        ("s + t", "s - t"),
        ("s + s", "2 * s"),
        ("s * s", "s^2"),
        ("s^2", "s^3"),
        ("s / t", "t / s"),
        ("exp(s)", "ln(s)"),
        ("s", "t"),
        ("s + t + t", "s + s + t"),
        ("s * t * t", "s * s * t"),
        ("0 * s", "s"),
        ("s * t + s", "s * (t + 1)"),
        ("gen i < n. x[i]", "gen i < n. y[i]"),
        ("gen i < n. s", "gen i < n + 1. s"),
        ("gen i < n, j < n. B[i, j]", "gen i < n, j < n. B[j, i]"),
        ("gen i < n. x[i]", "sum i < n. x[i]"),
        ("sum i < n, j < n. x[i] * B[i, j]", "sum i < n, j < n. x[i] * B[i, i]"),
        ("sum i < n. x[i] * (sum j < n. B[i, j])", "sum i < n, j < n. x[i] * B[i, j]"),
        ("gen i < n. [i > 0] * x[i]", "gen i < n. [i > 1] * x[i]"),
        ("gen i < n. [i > 0] * x[i]", "gen i < n. x[i]"),
        ("gen i < n. [i > 0] * x[i] + y[i]", "gen i < n. [i > 0] * (x[i] + y[i])"),
        ("gen i < n, j < n. [E(i, j)] * s", "gen i < n, j < n. [E(j, i)] * s"),
        ("gen i < n, j < n. [E(i, j)] * s", "gen i < n, j < n. [not E(i, j)] * s"),
        ("gen i < n. [x[i] > s] * y[i]", "gen i < n. [x[i] >= s] * y[i]"),
        ("gen i < n. [x[i] > s] * y[i]", "gen i < n. [x[i] > t] * y[i]"),
        ("gen i < n. [x[i] > s] * y[i]", "gen i < n. [x[i] < s] * y[i]"),
        // A pattern that no factor has.
        ("gen i < n, j < n. [A?(i, j)] * s", "gen i < n, j < n. s"),
        ("gen i < n, j < n. [A?(i, j)] * (A[i, j] - s)", "gen i < n, j < n. A[i, j] - s"),
        ("gen i < n, j < n. [A?(j, i)] * A[i, j]", "gen i < n, j < n. A[i, j]"),
        // Sharing is part of what is expected.
        ("let a = exp(s) in a * a", "exp(s) * exp(s)"),
        ("let a = exp(s) in a", "exp(s)"),
        ("let a = exp(s) in let b = exp(s) in a * b", "let a = exp(s) in let b = exp(s) in a * a"),
        ("let a = s in let b = t in a / b", "let a = s in let b = t in b / a"),
        ("gen i < n. let a = exp(x[i]) in a * a", "let a = gen i < n. exp(x[i]) in gen i < n. a[i] * a[i]"),
        ("gen i < n. x[f(i)]", "gen i < n. x[i]"),
        ("(s, t)", "(t, s)"),
        ("n * s", "(n + 1) * s"),
    ] {
        for compare in [same_up_to_renaming, same_in_essence] {
            assert!(same(a, b, compare).is_err(), "{a}\n{b}");
        }
    }
}

#[test]
fn declarations_count() {
    let programs = ["param x : [n] real\nx", "param x : [m] real\nx", "param y : [n] real\ny", "param x : real\nx"];
    let programs = programs.map(|text| read(text, &[]).unwrap());
    for (k, a) in programs.iter().enumerate() {
        for (l, b) in programs.iter().enumerate() {
            assert_eq!(same_up_to_renaming(a, b).is_ok(), k == l, "{a}\n{b}");
        }
    }
}

#[test]
fn constants_and_axes_may_move() {
    for (a, b) in [
        (
            "let r = gen i < n, j < n. exp(A[i, j]) in gen k < n. sum i < n, j < n. r[i, j] * B[j, k]",
            "let r = gen j < n, i < n. 2 * exp(A[i, j]) in gen k < n. sum i < n, j < n. 0.5 * r[j, i] * B[j, k]",
        ),
        (
            "let r = gen i < n, j < n. exp(A[i, j]) in gen i < n, j < n. r[i, j] / r[j, i]",
            "let r = gen i < n, j < n. exp(A[j, i]) in gen i < n, j < n. r[j, i] / r[i, j]",
        ),
        ("2 * (sum i < n. x[i])", "sum i < n. 2 * x[i]"),
        ("2 * (s - t)", "2 * s - 2 * t"),
        (
            "let r = gen i < n. 2 * x[i] in gen j < n. sum i < n. r[i] * r[j]",
            "let r = gen i < n. x[i] in gen j < n. sum i < n. 4 * r[i] * r[j]",
        ),
        (
            "let r = gen i < n. 2 * x[i] in gen j < n. sum i < n. r[i] * y[j]",
            "let r = gen i < n. x[i] in gen j < n. 2 * (sum i < n. r[i] * y[j])",
        ),
        ("let r = 3 * s in r^2 + t", "let r = s in 9 * r^2 + t"),
        ("2 * 3 * s", "6 * s"),
        ("(2 * 3 * s, t)", "(6 * s, t)"),
        ("s / (2 * t)", "0.5 * (s / t)"),
        ("sum i < n. -x[i]", "-(sum i < n. x[i])"),
    ] {
        if let Err(why) = same(a, b, same_in_essence) {
            panic!("{a}\n{b}\n{why}");
        }
        assert!(same(a, b, same_up_to_renaming).is_err(), "{a}\n{b}");
    }
}

#[test]
fn constants_may_not_change() {
    for (a, b) in [
        ("2 * s", "3 * s"),
        ("2 * s", "s"),
        ("0 * s", "0 * t"),
        ("s", "-s"),
        ("2 * s + t", "s + t"),
        ("let r = gen i < n, j < n. exp(A[i, j]) in r", "let r = gen i < n, j < n. exp(A[j, i]) in r"),
        (
            "let r = gen i < n, j < n. exp(A[i, j]) in gen i < n, j < n. r[i, j] / r[j, i]",
            "let r = gen i < n, j < n. exp(A[i, j]) in gen i < n, j < n. r[j, i] / r[i, j]",
        ),
        (
            "let r = gen i < n. 2 * x[i] in gen i < n. x[argmax k < n. r[k]] * r[i]",
            "let r = gen i < n. -x[i] in gen i < n. -2 * x[argmax k < n. r[k]] * r[i]",
        ),
        ("exp(2 * s)", "exp(s)"),
        ("let r = 2 * s in r * r", "let r = s in 2 * r * r"),
        ("(2 * s, t)", "(s, 2 * t)"),
    ] {
        assert!(same(a, b, same_in_essence).is_err(), "{a}\n{b}");
    }
}

/// A difference is told where it is.
#[test]
fn reasons() {
    for (a, b, reason) in [
        ("let r = exp(s) in r * r", "let r = exp(t) in r * r", "`let r`: the variables s and t"),
        ("gen i < n. 2 * x[i]", "gen i < n. 3 * x[i]", "in a Gen: the factors [2.0] and [3.0]"),
        ("s * exp(s) * 2", "s * exp(t) * 2", "Value(Op(Exp)): the variables s and t"),
        ("s + t", "s + t + 1", "2 and 3 terms"),
        ("gen i < n. [i > 2] * x[i]", "gen j < n. [j > 3] * x[j]", "in a Gen: the guards `[2 < i]` and `[3 < j]`"),
        ("gen i < n, j < n. B[i, j]", "gen i < n, j < n. B[j, i]", "in a Gen: the index expressions i and j"),
    ] {
        assert_eq!(same_up_to_renaming(&program(a), &program(b)), Err(reason.to_owned()));
    }
}

//! Programs with scans: their types, that they print and read back, and their values, worked out by hand.

use ndarray::arr2;

use crate::inputs;
use crate::reference::{Environment, Limits, eval_term};
use crate::surface::elaborate::text::show_type;
use crate::surface::read;
use crate::tensor::{Inputs, Relation, bind};
use crate::term::{Program, Style};

/// The program is sound, and reads back from its own text.
fn good(text: &str) -> Program {
    let sound = |text: &str| {
        let program = read(text, &[]).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
        program.verify().unwrap_or_else(|error| panic!("{text}\n{error}\n{program:?}"));
        program
    };
    let program = sound(text);
    let printed = program.print(Style::Ascii);
    let again = sound(&printed);
    assert_eq!(again.print(Style::Ascii), printed, "{text}");
    assert!(again.same(&program), "{text}\nprints as\n{printed}");
    program
}

/// All numbers of the value.
fn value(text: &str, inputs: &Inputs) -> Vec<f64> {
    let program = good(text);
    let bindings = bind(&program.signature, inputs).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let environment = Environment::from_bindings(&bindings).unwrap();
    let leaves = eval_term::evaluate(&program, &environment, Limits::default());
    let leaves = leaves.unwrap_or_else(|error| panic!("{text}\n{error}"));
    leaves.iter().flat_map(|leaf| leaf.values().to_vec()).collect()
}

#[test]
fn types() {
    for (text, ty) in [
        ("param x : [n] real\nfold t < n, s = 1. s * x[t]", "real"),
        ("param x : [n] real\nscan t < n, s = 1. s * x[t]", "[n + 1] real"),
        ("param x : [n] real\nscan t < n down, s = 0. s + x[t]", "[n + 1] real"),
        ("param x : [n] real\nassume n >= 1\nscan t < n - 1, s = x[0]. s + x[t + 1]", "[n] real"),
        ("param x : [n] real\nscan t < 3, x = x. x + x", "[4, n] real"),
        ("param x : [n] real\nfold t < 3, (a, b) = (x, 0). (x, b + a[0] * 0)\nassume n >= 1", "([n] real, real)"),
        ("param A : [n, n] real\nparam b : [n] real\nfold t <= m, s = b. A @ s\nassume m >= 0\nsize m", "[n] real"),
    ] {
        // Declarations may stand behind here, so that the head of a row is what is read first.
        let (body, declared): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("fold") || line.starts_with("scan"));
        let program = good(&[declared, body].concat().join("\n"));
        assert_eq!(show_type(&program, program.ty(program.root)), ty, "{text}");
    }
}

#[test]
fn values() {
    let x = || vec![2.0, 3.0, 4.0];
    let inputs = inputs! { "x" => x() };
    for (text, expected) in [
        ("fold t < n, s = 1. s * x[t]", vec![24.0]),
        ("scan t < n, s = 1. s * x[t]", vec![1.0, 2.0, 6.0, 24.0]),
        ("scan t < n down, s = 1. s * x[t]", vec![24.0, 12.0, 4.0, 1.0]),
        ("fold t < n down, s = 0. 2 * s + x[t]", vec![24.0]),
        ("fold t <= n, s = 0. s + t", vec![6.0]),
        ("scan t < 0, s = 7. x[0] + s", vec![7.0]),
        ("fold t < 0, s = 7. x[0] + s", vec![7.0]),
        // Fibonacci, by a pair.
        ("fold t < 10, (a, b) = (0, 1). (b, a + b)", vec![55.0, 89.0]),
        ("fst (fold t < 10, p = (0, 1). (snd p, fst p + snd p))", vec![55.0]),
        ("fold t < 2, (a, (b, c)) = (1, (2, 3)). (c, (a, b))", vec![2.0, 3.0, 1.0]),
        ("let h = scan t < n, h = 0. h + x[t] in h[n] - h[1]", vec![7.0]),
        ("sum t < n. (scan t < n, s = 1. s * x[t])[t + 1]", vec![32.0]),
        // The inner one begins with the state of the outer one.
        ("fold t < 2, s = 1. fold u < n, r = s. r * x[u]", vec![576.0]),
        ("scan t < 2, s = 1. (fold u < n, r = s. r + x[u]) * 2", vec![1.0, 20.0, 58.0]),
        ("(scan t < 1, p = (gen i < 2. i). scan u < 1, r = p[1]. r + p[0] + t)[1]", vec![1.0, 1.0]),
        // Below other binders.
        ("gen i < n. fold t < 2, s = x[i]. s * s", vec![16.0, 81.0, 256.0]),
        ("sum i < n. fold t < n, s = 0. s + [t <= i] * x[t]", vec![16.0]),
        ("max i < n. fold t < n, s = 0. s * i + x[t]", vec![4.0 + 6.0 + 8.0]),
        ("x + fold t < 2, s = x. s + x", vec![8.0, 12.0, 16.0]),
        // Of a comparison in the body, and of one with a scan in it.
        ("scan t < n, s = 0. if s > 1 then s - x[t] else s + x[t]", vec![0.0, 2.0, -1.0, 3.0]),
        ("scan t < n, s = 3. max(s, x[t])", vec![3.0, 3.0, 3.0, 4.0]),
        ("[(fold t < n, s = 0. s + x[t]) > 8] * 5", vec![5.0]),
        ("sum i < n. [exists t < n. (fold u < 2, s = x[t]. s * s) > 100 and t = i] * x[i]", vec![4.0]),
        ("fold t < n, s = 0. s + [exists i < n. x[i] > s and i <= t] * x[t]", vec![5.0]),
        ("fold t < n, s = x. [s > t + 5] * s * 2", vec![0.0, 0.0, 0.0]),
        ("fold t < n, s = x. [s > t + 2] * s * 2", vec![0.0, 24.0, 32.0]),
        ("fold t < n, s = x. gen i < n. s[argmax j < n. s[j] * x[t]] - s[i]", vec![2.0, 1.0, 0.0]),
        ("fold t < n, s = x. gen i < n. (max j < n. s[j]) - s[i]", vec![2.0, 1.0, 0.0]),
        ("fold t < n, s = x. let m = max(s) in [s != m] * s", vec![0.0, 0.0, 0.0]),
        // In a definition, and with a definition in it.
        ("def cumulate(a : [k] real) = scan t < k, s = 0. s + a[t]\ncumulate(x)", vec![0.0, 2.0, 5.0, 9.0]),
        ("def twice(a : real) = 2 * a\nfold t < n, s = 0. twice(s + x[t])", vec![36.0]),
        ("def step(s : [k] real, t : real) : [k] real = s + t\nfold t < n, s = x. step(s, t)", vec![5.0, 6.0, 7.0]),
        // Words of their own elsewhere.
        ("let down = 2 in fold t < n, s = down. s + x[t]", vec![11.0]),
        ("let fold' = 2 in fold' * x[0]", vec![4.0]),
        // A state, an index and a parameter of one name.
        ("fold x < n, x = 1. x + 1", vec![4.0]),
    ] {
        let (definition, body) = match text.split_once('\n') {
            Some((definition, body)) => (definition, body),
            None => ("", text),
        };
        let text = format!("param x : [n] real\n{definition}\nassume n >= 1\n{body}");
        assert_eq!(value(&text, &inputs), expected, "{text}");
    }
}

/// `h(t + 1) = A h(t) + B x(t)`, its states read by all, and the same backwards.
#[test]
fn linear_recurrence() {
    let inputs = inputs! {
        "A" => arr2(&[[0.0, 1.0], [1.0, 1.0]]),
        "x" => arr2(&[[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]),
    };
    let head = "param A : [d, d] real\nparam x : [n, d] real\n";
    let path = value(&format!("{head}scan t < n, h = gen i < d. 0. A @ h + x[t]"), &inputs);
    assert_eq!(path, [0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 4.0, 2.0]);
    let down = value(&format!("{head}scan t < n down, h = gen i < d. 0. A @ h + x[t]"), &inputs);
    assert_eq!(down, [4.0, 3.0, 0.0, 3.0, 2.0, 0.0, 0.0, 0.0]);
    let total = "let h = scan t < n, h = gen i < d. 0. A @ h + x[t]\nsum t < n, i < d. h[t + 1, i] * x[t, i]";
    assert_eq!(value(&format!("{head}{total}"), &inputs), [1.0 + 2.0 + 8.0]);
}

/// The step reads a map and a relation.
#[test]
fn maps_and_relations() {
    let mut inputs = inputs! { "x" => vec![5.0, 7.0] };
    inputs.map("f", &[3], vec![1, 0, 1]);
    inputs.relation("E", Relation::new(vec![3, 2], vec![vec![0, 0, 2], vec![0, 1, 1]]).unwrap());
    let head = "param x : [m] real\nmap f : [n] -> [m]\nrel E : [n, m]\n";
    for (body, expected) in [
        ("scan t < n, s = 0. s + x[f(t)]", vec![0.0, 7.0, 12.0, 19.0]),
        ("scan t < n, s = 0. s + sum i < m. [E(t, i)] * x[i]", vec![0.0, 12.0, 12.0, 19.0]),
        ("fold t < n, s = x. gen i < m. [f(t) = i] * s[i] + 1", vec![1.0, 2.0]),
    ] {
        assert_eq!(value(&format!("{head}{body}"), &inputs), expected, "{body}");
    }
}

/// Sizes that are equal by an assumption make one type.
#[test]
fn equal_sizes() {
    let inputs = inputs! { "x" => vec![1.0, 2.0], "y" => vec![3.0, 4.0] };
    let head = "param x : [n] real\nparam y : [m] real\nassume n = m\n";
    for (body, expected) in [
        ("fold t < 2, s = x. y", vec![3.0, 4.0]),
        ("fold t < 2, (s, k) = (x, 0). (y, k + 1)", vec![3.0, 4.0, 2.0]),
        ("fold t < 2, s = gen i < n. (x[i], 0). gen i < m. (y[i], 1)", vec![3.0, 4.0, 1.0, 1.0]),
    ] {
        assert_eq!(value(&format!("{head}{body}"), &inputs), expected, "{body}");
    }
}

#[test]
fn problems() {
    for (body, code, message) in [
        ("fold t < n, s = 0. x", "state-type", "`s` begins as `real`, but the body of the `fold` gives `[n] real`"),
        ("scan t < n, s = x. y", "state-type", "`s` begins as `[n] real`, but the body of the `scan` gives `[m] real`"),
        (
            "fold t < n, (s, r) = (0, 1). s + r",
            "state-type",
            "the state begins as `(real, real)`, but the body of the `fold` gives `real`",
        ),
        ("fold t < n, s = q. s + x[t]", "unknown-name", "`q` is not defined here"),
        ("fold t < n, s = s. s + x[t]", "unknown-name", "`s` is not defined here"),
        ("fold t < n, s = x[t]. s", "unknown-name", "`t` is not defined here"),
        ("(fold t < n, s = 0. s + x[t]) + s", "unknown-name", "`s` is not defined here"),
        ("fold t < k, s = 0. s", "unknown-size", "there is no size `k`"),
        (
            "fold t < n, s = 0. s + x[t + 1]",
            "out-of-bounds",
            "`x[t + 1]` may be out of bounds: `t + 1 < n` is not known where 0 <= t < n",
        ),
        (
            "fold t < n - 1, s = 0. s",
            "negative-steps",
            "`fold` may have a negative number of steps: `0 <= n - 1` is not known here",
        ),
        ("scan t < -2, s = 0. s", "negative-steps", "`scan` goes over `-2` steps, which is negative"),
        (
            "sum i < n. sum(scan t < i, s = 0. s + x[t])",
            "index-in-extent",
            "a `scan` goes over a size, found a range that ends at an index",
        ),
        (
            "x[fold t < n, s = 0. s + 1]",
            "not-an-index",
            "an index expression is built from indices, sizes, integers and maps, found a `fold`",
        ),
        (
            "gen i < (fold t < n, s = 0. s + 1). 1",
            "not-a-size",
            "a size is built from size variables and integers, found a `fold`",
        ),
        (
            "fold t < n, u < n, s = 0. s + x[u] + x[t]",
            "unexpected-token",
            "expected the state, as in `s = e0`, found another index, the name `u`",
        ),
        (
            "fold t < n, s = 0, r = 1. s + r + x[t]",
            "unexpected-token",
            "expected an operator, or `.` and the body, found `,`",
        ),
        ("fold t < n. x[t] + s", "unexpected-token", "expected an operator, or `,` and the state, found `.`"),
        ("fold t < n, s. s + x[t]", "unexpected-token", "expected `=` and the state at the beginning, found `.`"),
        (
            "fold t < n, s = 0 x[t] + s",
            "missing-body",
            "expected `.` and the body behind the state, found the name `x`",
        ),
        (
            "fold t < n s = 0. x[t] + s",
            "unexpected-token",
            "expected an operator, or `,` and the state, found the name `s`",
        ),
        ("fold t < n, s = 0: x[t] + s", "unexpected-token", "expected an operator, or `.` and the body, found `:`"),
        ("fold(x, 0)", "unexpected-token", "expected an index and a state, as in `fold t < n, s = e0. e`, found `(`"),
        ("fold s = 0, t < n. s + x[t]", "unexpected-token", "expected `<` and the range of the index, found `=`"),
        (
            "fold t < n down s = 0. s + x[t]",
            "unexpected-token",
            "expected `,` and the state behind `down`, found the name `s`",
        ),
        ("let scan = 1 in 2", "unexpected-token", "expected the name of a variable behind `let`, found `scan`"),
        ("lax.scan(x, 0)", "unexpected-token", "expected an operator or the end of the expression, found `.`"),
    ] {
        let text = format!("param x : [n] real\nparam y : [m] real\n{body}");
        let crate::Error::Program(found) = read(&text, &[]).expect_err(body) else { panic!("{body}") };
        let found: Vec<(&str, &str)> = found.iter().map(|d| (d.code, d.message.as_str())).collect();
        assert_eq!(found, [(code, message)], "{body}");
    }
}

#[test]
fn names_that_were_free() {
    let crate::Error::Program(found) = read("param fold : [n] real\n1", &[]).unwrap_err() else { panic!() };
    assert_eq!(found[0].help.as_deref(), Some("a keyword cannot be a name; add a letter or a `'`, as in `fold'`"));
}

/// A term of a sum in the body that has no index is told as others are.
#[test]
fn warnings() {
    let text = "param A : [n, m] real\nfold t < n, s = 0. sum j < m. A[t, j] + s";
    let found = crate::surface::read_with(text, &[], &mut |_, _| Err(String::new())).unwrap().warnings;
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["summand-without-index"]);
}

//! Programs with functions as values, each beside one without that has the same value, and what is said of those that are refused.

use crate::inputs;
use crate::reference::{Environment, Limits, eval_term};
use crate::surface::read;
use crate::tensor::{Relation, bind};
use crate::term::{Program, Style};

const HEAD: &str =
    "param x : [n] real\nparam y : real\nparam z : [2] real\nmap idx : [m] -> [n]\nassume n >= 1\nassume m >= 1\n";

/// The program is sound, and what it prints, which has no functions, reads back.
fn good(text: &str) -> Program {
    let program = read(text, &[]).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
    program.verify().unwrap_or_else(|error| panic!("{text}\n{error}\n{program:?}"));
    let printed = program.print(Style::Ascii);
    assert!(!printed.contains("fn ") && !printed.contains("def "), "{printed}");
    let again = read(&printed, &[]).unwrap_or_else(|error| panic!("{printed}\n{error:#}"));
    assert!(again.same(&program), "{text}\nprints as\n{printed}");
    program
}

fn value(body: &str) -> Vec<f64> {
    let text = format!("{HEAD}{body}");
    let program = good(&text);
    let mut inputs = inputs! {
        "x" => vec![2.0, 3.0, 4.0],
        "y" => 3.0,
        "z" => vec![1.0, 5.0],
    };
    inputs.relation("idx", Relation::from_map(&[2], vec![1, 2], 3).expect("a map"));
    let bindings = bind(&program.signature, &inputs).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let environment = Environment::from_bindings(&bindings).expect("they are bound");
    let leaves = eval_term::evaluate(&program, &environment, Limits::default());
    let leaves = leaves.unwrap_or_else(|error| panic!("{text}\n{error}"));
    leaves.iter().flat_map(|leaf| leaf.values().to_vec()).collect()
}

fn same(rows: &[(&str, &str)]) {
    for (body, expected) in rows {
        assert_eq!(value(body), value(expected), "{body}");
    }
}

#[test]
fn calls() {
    same(&[
        ("let f = fn a. y * a + 1\nf(y) * f(2)", "(y * y + 1) * (y * 2 + 1)"),
        ("(fn a. a + 1)(y)", "y + 1"),
        ("(fn a, b. a - b)(y, 1)", "y - 1"),
        ("(fn v : [n] real, a. v * a)(x, y)", "x * y"),
        ("let f = fn (a, b) : (real, real). a - b\nf((y, 2))", "y - 2"),
        (
            "let f = fn (a, b), (c, (v, d)) : (real, ([2] real, real)). a - b + c * d * v\nf((y, 2), (3, (z, y)))",
            "y - 2 + 3 * y * z",
        ),
        ("let f = fn a.\n  let b = a^2\n  let c = b + y\n  b * c\nf(2)", "4 * (4 + y)"),
        // A function of numbers goes through tensors, as a definition does.
        ("(fn a. a^2)(x)", "x^2"),
        ("(fn v : [k] real. sum i < k. v[i])(x) + (fn v : [k] real. v[0])(z)", "sum(x) + z[0]"),
        ("let f = exp\nf(y) + f(x)", "exp(y) + exp(x)"),
        ("let f = max\nlet g = pow\ng(f(y, 1), 2)", "max(y, 1)^2"),
        ("fun h(a) = a^3 with (3 * a^2)\nlet f = h\nf(y)", "y^3"),
        ("let f = softmax\nf(x)", "softmax(x)"),
    ]);
}

#[test]
fn arguments() {
    same(&[
        (
            "def twice(f : real -> real, a : real) = f(f(a))\ntwice(fn a. a * y, 2) + twice(exp, 0)",
            "2 * y * y + exp(1)",
        ),
        ("def twice(f : real -> real, a : real) = f(f(a))\ntwice(fn b. twice(sin, b), y)", "sin(sin(sin(sin(y))))"),
        ("def twice(f : [k] real -> [k] real, v : [k] real) = f(f(v))\ntwice(softmax, x)", "softmax(softmax(x))"),
        ("def twice(f : [k] real -> [k] real, v : [k] real) = f(f(v))\ntwice(fn v : [n] real. v * x, x)", "x * x * x"),
        ("def each(f : real -> real, v : [k] real) = f(v)\neach(fn a. a^2 + y, x)", "x^2 + y"),
        (
            "def at(f : (real, real) -> real, a : real) = f(a, 2)\nat(pow, y) + at(fn a, b. a / b, y) + at(max, y)",
            "y^2 + y / 2 + y",
        ),
        ("def both(p : (real -> real, real)) = (fst p)(snd p)\nboth((fn a. a * y, 2))", "2 * y"),
        // A size that only the type of a function has.
        ("def ones(f : [k] real -> real) = f(gen i < k. 1)\nones(fn v : [3] real. sum(v))", "3"),
        ("def total(f : real -> [k] real, a : real) = sum(f(a))\ntotal(fn a. a * x, y)", "y * sum(x)"),
        ("(fn f : real -> real. f(y))(sin)", "sin(y)"),
        ("def swap(f : (real, real) -> real) = fn a, b. f(b, a)\nswap(pow)(2, y)", "y^2"),
        ("def apply(f : real -> real -> real, a : real) = f(a)(2)\napply(fn a. fn b. a - b, y)", "y - 2"),
        ("def apply(f : (real -> real) -> real) = f(fn a. a * y)\napply(fn g : real -> real. g(g(2)))", "2 * y * y"),
    ]);
}

#[test]
fn results() {
    same(&[
        ("def scale(s : real) = fn a. s * a\nscale(y)(2) + scale(3)(y)", "5 * y"),
        ("def scale(s : real) : real -> real = fn a. s * a\nlet f = scale(y)\nf(f(1))", "y * y"),
        ("let compose = fn f : real -> real, g : real -> real. fn a. f(g(a))\ncompose(exp, ln)(y)", "exp(ln(y))"),
        ("let f = (let s = x[0] * 2 in fn a. a * s)\nf(3) + f(y)", "2 * x[0] * (3 + y)"),
        ("let add = fn a. fn b. fn c. a + b - c\nadd(1)(y)(2)", "y - 1"),
        ("let add = fn a. fn b. a + b\nlet inc = add(1)\ninc(inc(y))", "y + 2"),
    ]);
}

#[test]
fn pairs_and_choices() {
    same(&[
        ("let p = (fn a. a * y, 3)\n(fst p)(2) + snd p", "2 * y + 3"),
        ("let (f, (g, a)) = (fn a. a * y, (exp, y + 1))\nf(g(a))", "exp(y + 1) * y"),
        ("let f = if y > 2 then exp else fn a. a^2\nf(y)", "exp(y)"),
        ("let f = if y > 4 then exp else fn a. a^2\nf(x)", "x^2"),
        ("let (f, a) = if y > 4 then (exp, y) else (fn a. a * y, 2)\nf(a)", "2 * y"),
        (
            "sum i < n. (if i + 1 < n then fn a. a * x[i + 1] else fn a. a)(x[i])",
            "sum i < n. if i + 1 < n then x[i] * x[i + 1] else x[i]",
        ),
        // What one side uses is read where it is taken.
        (
            "gen i < n. (if i >= 1 then (let d = x[i - 1] in fn a. a * d) else fn a. a)(y)",
            "gen i < n. if i >= 1 then y * x[i - 1] else y",
        ),
        ("let f = if y > 2 then (if y > 4 then exp else sin) else cos\nf(y)", "sin(y)"),
        ("let f = if y > 2 then (fn a. fn b. a - b) else fn a. fn b. b - a\nf(y)(1)", "y - 1"),
        ("(if exists i < n. x[i] > 3 then fn a. a * y else ln)(2)", "2 * y"),
    ]);
}

/// What a function means is settled where it stands.
#[test]
fn scopes() {
    same(&[
        ("let a = y * 2\nlet f = fn b. a + b\nlet a = 5\nf(a)", "y * 2 + 5"),
        ("let f = fn y. y * 2\nlet y = 1\nf(y + x[0])", "2 * (1 + x[0])"),
        ("let f = fn a. fn b. a - b\nlet g = f(1)\nlet a = 7\ng(a)", "-6"),
        ("def inner(f : real -> real, y : real) = let x = y + 1 in f(x)\ninner(fn a. a * x[0] + y, 2)", "3 * x[0] + y"),
        ("def inner(f : real -> real) = sum i < 2. f(i)\ngen i < n. inner(fn a. a * x[i])", "x"),
        ("let exp = fn a. a + 1\nexp(y) + (let exp = 2 in exp(0))", "y + 2"),
        ("gen i < n. let f = fn a. a * x[i] in f(2) + f(y)", "x * 2 + x * y"),
        (
            "fold t < n, s = 0. let f = fn a. a * s + x[t] in f(f(1))",
            "fold t < n, s = 0. let a = s + x[t] in a * s + x[t]",
        ),
        ("fold t < n, s = 1.\n  let f = fn a. a + x[t]\n  let b = f(s)\n  b * s", "fold t < n, s = 1. (s + x[t]) * s"),
        ("sum i < n. [exists k < n. (let f = fn a. a + x[k] in f(y)) > 6 and k = i] * x[i]", "x[n - 1]"),
        ("let idx = fn a. a + 1\nidx(y)", "y + 1"),
        ("let f = fn v : [n] real. gen i < n. v[i] - x[i]\nf(2 * x)", "x"),
        ("let A = outer(x, x)\nlet f = fn a. (a * A')[0, 0]\nf(y)", "y * x[0]^2"),
        ("let f = fn a. x[idx(0)] * a\nf(y)", "x[idx(0)] * y"),
    ]);
}

/// Each argument is evaluated once, however often a function uses it, and a chain of calls grows as it is written.
#[test]
fn work_is_shared() {
    let text = format!("{HEAD}let f = fn a. a * a * a\nf(sum(x)) + f(exp(y))");
    let printed = good(&text).print(Style::Ascii);
    assert_eq!((printed.matches("sum i").count(), printed.matches("exp").count()), (1, 1), "{printed}");
    let chain: String = (0..100).map(|k| format!("let f{} = fn a. f{k}(a) * a\n", k + 1)).collect();
    let program = good(&format!("{HEAD}let f0 = fn a. a\n{chain}f100(y + 1)"));
    assert!(program.terms.len() < 1000, "{}", program.terms.len());
    let doubled: String = (0..60).map(|k| format!("let f{} = fn a. f{k}(f{k}(a))\n", k + 1)).collect();
    let chosen: String = (0..60).map(|k| format!("let f{} = if y > {k} then f{k} else f{k}\n", k + 1)).collect();
    for (lines, end) in [(doubled, "f60(y)"), (chosen, "f60(y)")] {
        let text = format!("{HEAD}let f0 = fn a. a * a\n{lines}{end}");
        let Err(crate::Error::Program(found)) = read(&text, &[]) else { panic!("{text}") };
        assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["too-large"], "{found:?}");
        assert_eq!(&text[found[0].span.range()], end);
    }
}

#[test]
fn depth_takes_no_stack() {
    let deep = 2000;
    let texts = [
        format!("({}y){}", "fn a. ".repeat(deep), "(1)".repeat(deep)),
        format!("{}y{}", "(fn a. ".repeat(deep), ")(y)".repeat(deep)),
        format!("let p = {}y{}\n(fst p)(y)", "(exp, ".repeat(deep), ")".repeat(deep)),
        format!("def g(f : real -> real, a : real) = f(a)\n{}b{}", "g(fn b. ".repeat(deep), ", y)".repeat(deep)),
    ];
    let read = move || texts.iter().for_each(|text| drop(read(&format!("{HEAD}{text}"), &[]).expect(text)));
    std::thread::Builder::new().stack_size(1 << 20).spawn(read).expect("a thread").join().expect("no overflow");
}

#[test]
fn advice() {
    for (body, help) in [
        ("let f = fn a. fn b. a + b\nf(1, 2)", "it gives a function, which takes the others: `f(..)(..)`"),
        ("let f = fn v. v[0]\nf(x)", "`v` is `real`, since no type is written: `fn v : [n] real. ..`"),
        ("exp + 1", "call it: `exp(..)`"),
        ("(y + 1)(2)", "a product needs its sign, as in `2 * (a + b)`"),
        ("fn a. a", "what it takes is a parameter of the program: `param x : real`, and then the value is `f(x)`"),
        ("if x > 1 then exp else ln", "apply them first: `if c then f(a) else g(a)`"),
    ] {
        let crate::Error::Program(found) = read(&format!("{HEAD}{body}"), &[]).expect_err(body) else {
            panic!("{body}")
        };
        assert_eq!(found[0].help.as_deref(), Some(help), "{body}");
    }
}

#[test]
fn problems() {
    for (body, code, at, message) in [
        (
            "fn a. a",
            "not-a-value",
            "fn a. a",
            "the value of a program is a number, a tensor or a pair of these, found a function",
        ),
        (
            "let f = exp\n(f, 1)",
            "not-a-value",
            "(f, 1)",
            "the value of a program is a number, a tensor or a pair of these, found a pair with a function",
        ),
        (
            "gen i < n. fn a. a * x[i]",
            "not-a-value",
            "fn a. a * x[i]",
            "the elements of a tensor are numbers and pairs of these, found a function",
        ),
        ("sum i < n. exp", "not-a-value", "exp", "`sum` takes numbers, found a function"),
        (
            "fold t < n, f = exp. f",
            "not-a-value",
            "exp",
            "the state of a `fold` is a number, a tensor or a pair of these, found a function",
        ),
        (
            "scan t < n, s = y. fn a. s",
            "not-a-value",
            "fn a. s",
            "the state of a `scan` is a number, a tensor or a pair of these, found a function",
        ),
        ("let f = fn a. a\nf + 1", "not-a-value", "f", "a value is expected, but `f` is a function"),
        ("exp(fn a. a)", "not-a-value", "fn a. a", "a value is expected, found a function"),
        ("let f = exp\n[f < 1] * y", "not-a-value", "f", "a value is expected, but `exp` is a function"),
        ("let f = exp\nf[0]", "not-a-value", "f", "a value is expected, but `exp` is a function"),
        ("let f = exp\nx[f]", "value-as-index", "f", "an index is expected, but `f` is a function"),
        ("let f = exp\ngen i < f. 1", "not-a-size", "f", "an extent is a size, but `f` is a function"),
        (
            "let f = exp\n[f] * y",
            "not-a-predicate",
            "f",
            "a predicate is expected, found a function without its arguments",
        ),
        ("let f = exp\n[f(y)] * y", "not-a-predicate", "f(y)", "a predicate is expected, but `f` is not a relation"),
        ("let f = exp\nfst f", "expected-pair", "fst f", "`fst` takes a pair, found a function"),
        ("let f = fn a. a\nf(1, 2)", "wrong-arity", "f(1, 2)", "`f` takes 1 argument, found 2"),
        ("let f = fn a, b. a\nf()", "wrong-arity", "f()", "`f` takes 2 arguments, found 0"),
        ("(y + 1)(2)", "not-a-function", "(y + 1)(2)", "what is called here has type `real`, not that of a function"),
        ("let p = (exp, 1)\np(2)", "not-a-function", "p(2)", "what is called here is a pair, not a function"),
        ("let f = fn a. f(a)\nf(y)", "unknown-name", "f", "there is no function or relation `f`"),
        (
            "def f(a : real) = g(f, a)\ndef g(h : real -> real, a : real) = h(a)\nf(y)",
            "recursion",
            "f",
            "`f` calls itself",
        ),
        ("def f(s : real) = fn a. f(s)(a)\nf(2)(y)", "recursion", "f(s)", "`f` calls itself"),
        ("(fn f : real -> real. f(f))(exp)", "type-mismatch", "f", "`f` takes `real`, found `real -> real`"),
        (
            "def g(f : real -> real) = f(1)\ng(y)",
            "type-mismatch",
            "y",
            "`g` takes `f` of type `real -> real`, found `real`",
        ),
        ("def g(a : real) = a\ng(exp)", "type-mismatch", "exp", "`g` takes `a` of type `real`, found `exp(..)`"),
        (
            "def g(f : real -> real) = f(1)\ng(fn a, b. a)",
            "type-mismatch",
            "fn a, b. a",
            "`g` takes `f` of type `real -> real`, found `fn a : real, b : real. ..`",
        ),
        (
            "def g(f : [k] real -> real, v : [k] real) = f(v)\ng(fn v : [3] real. v[0], z)",
            "size-mismatch",
            "z",
            "`g` takes `v` of type `[k] real` with k = 3, found `[2] real`",
        ),
        (
            "def g(f : [k] real -> [k] real, v : [k] real) = f(v)\ng(fn v : [k] real. v[0], z)",
            "type-mismatch",
            "f(v)",
            "`f` gives `[k] real` with k = 2, but its value has type `real`",
        ),
        (
            "def g(f : [k] real -> real, v : [k] real) = f(x)\ng(fn v : [k] real. v[0], z)",
            "size-mismatch",
            "x",
            "`f` takes `[k] real` with k = 2, found `[n] real`",
        ),
        (
            "def g(f : [k] real -> real) = f(gen i < k. 1)\ng(fn v : [j] real. sum(v))",
            "size-mismatch",
            "k",
            "the size `k` does not follow from what `g` is called with",
        ),
        (
            "def g(a : real) : real = fn b. a\ng(1)(2)",
            "type-mismatch",
            "real",
            "`g` gives `real`, but its value has type `fn b : real. ..`",
        ),
        (
            "let f = if x > 1 then exp else ln\nf(y)",
            "function-choice",
            "if x > 1 then exp else ln",
            "a condition that compares tensors chooses between numbers only, found functions",
        ),
        (
            "let f = if y > 1 then exp else 2\nf(y)",
            "function-choice",
            "if y > 1 then exp else 2",
            "both sides of a choice are functions, or pairs of one form, found others",
        ),
        ("(fn a, a. 1)(y, y)", "duplicate-name", "a", "`a` is a parameter of this definition already"),
        (
            "(fn v : [2] (real -> real). 1)(y)",
            "function-type",
            "(real -> real)",
            "the elements of a tensor are no functions",
        ),
        ("param f : real -> real\nf(y)", "function-type", "real -> real", "a parameter of the program is no function"),
        (
            "let f = fn a. x[3] * a\nf(y)",
            "out-of-bounds",
            "x[3]",
            "`x[3]` may be out of bounds: `3 < n` is not known here",
        ),
        ("let f = fn v. v[0]\nf(x)", "not-a-tensor", "v", "only a tensor can be indexed, found a value of type `real`"),
        // As other languages have them.
        ("let f = lambda a: a + 1\nf(y)", "unexpected-token", "lambda", "expected an expression, found `lambda`"),
        ("let f = function(a) a + 1\nf(y)", "unexpected-token", "function", "expected an expression, found `function`"),
        ("let f = fun a -> a + 1\nf(y)", "unexpected-token", "fun", "expected an expression, found `fun`"),
        (
            "let f = \\a b -> a + b\nf(y)",
            "bad-character",
            "\\a",
            "expected a name, a number or an operator, found `\\a`",
        ),
        (
            "let f = a => a + 1\nf(y)",
            "unexpected-token",
            "=>",
            "expected an operator or the end of the expression, found `=>`",
        ),
        (
            "let f = (a, b) -> a + b\nf(y)",
            "unexpected-token",
            "->",
            "expected an operator, or a line break or `in` and the rest of the program, found `->`",
        ),
        (
            "let f = fn a => a + 1\nf(y)",
            "unexpected-token",
            "=>",
            "expected an operator or the end of the expression, found `=>`",
        ),
        (
            "let f = fn a -> a + 1\nf(y)",
            "unexpected-token",
            "->",
            "expected `,` or `.` behind a parameter of `fn`, found `->`",
        ),
        (
            "let f = fn(a) a + 1\nf(y)",
            "unexpected-token",
            "a",
            "expected `,` or `.` behind a parameter of `fn`, found the name `a`",
        ),
        (
            "let f = fn a b. a + b\nf(y)",
            "unexpected-token",
            "b",
            "expected `,` or `.` behind a parameter of `fn`, found the name `b`",
        ),
        (
            "let f = fn g(a) = a + 1\nf(y)",
            "unexpected-token",
            "(",
            "expected `,` or `.` behind a parameter of `fn`, found `(`",
        ),
        ("fn\ny", "unexpected-token", "", "expected `,` or `.` behind a parameter of `fn`, found the end of the text"),
    ] {
        let text = format!("{HEAD}{body}");
        let crate::Error::Program(found) = read(&text, &[]).expect_err(body) else { panic!("{body}") };
        let found: Vec<(&str, &str, &str)> =
            found.iter().map(|d| (d.code, &text[d.span.range()], d.message.as_str())).collect();
        assert_eq!(found, [(code, at, message)], "{body}");
    }
}

//! Tensor-SSA as text: what is printed is read back, and what is wrong is told with its place.

use std::sync::Arc;

use iverson::ir::tssa::{self, Program};
use iverson::{Error, Function, Mode, Request};

use crate::generate;
use crate::support::compile;

/// Reads what a program prints: the same statements and outputs, printed alike.
fn round_trip(program: &Program) {
    let text = program.to_string();
    let back = tssa::parse(&text, &program.signature).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(back.stmts, program.stmts, "{text}\n{back}");
    assert_eq!(back.outputs, program.outputs, "{text}");
    assert_eq!(back.signature, program.signature, "{text}");
    assert_eq!(back.to_string(), text);
}

/// A program and its derivatives by all parameters, with partial derivatives expanded and kept.
fn round_trips(function: &Function) {
    round_trip(function.tensor_ssa());
    let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    for mode in [Mode::Forward, Mode::Adjoint] {
        for expand_partials in [false, true] {
            let request = Request { expand_partials, with_value: true, ..Request::new(mode, &wrt) };
            let derived = function.derive(&request).expect("it has a derivative").function;
            round_trip(derived.tensor_ssa());
        }
    }
}

#[test]
fn programs_and_derivatives_are_read_back() {
    for folder in ["programs", "regressions", "expected"] {
        let folder = format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR"));
        for file in std::fs::read_dir(&folder).expect("the folder is there") {
            let path = file.expect("the folder can be read").path();
            // A thousand terms take long and show nothing new.
            if path.to_string_lossy().contains("unrolled") {
                continue;
            }
            round_trips(&compile(&std::fs::read_to_string(&path).expect("the file is there")));
        }
    }
}

#[test]
fn random_programs_are_read_back() {
    for seed in 0..300 {
        round_trips(&compile(&generate::program(seed, seed % 2 == 0).text));
    }
}

#[test]
fn partials_and_special_numbers_are_read_back() {
    round_trips(&compile(
        "param x : [n] real
         param y : [n] real
         sum i < n. x[i]^3 + x[i]^-2 + x[i] / y[i] + pow(x[i], y[i]) + atan2(x[i], y[i]) + max(x[i], y[i]) + digamma(x[i])
             + 1e-300 * x[i] + inf * [x[i] > 2] * nan * y[i] + [i > 3] * -0.0 * i + exp(-1.5e22 * (2 * i + 1) * x[i])",
    ));
}

const DECLARATIONS: &str = "
    param x : [n] real
    param A : csr [n, m] real
    param p : ([n] real, [n] (real, real))
    rel E : [n, m]
    map f : [n] -> [m]
";

fn signature() -> Arc<iverson::ir::ty::Signature> {
    compile(&format!("{DECLARATIONS}x")).tensor_ssa().signature.clone()
}

/// Other spellings, and statements that are not canonical.
#[test]
fn edited_text_becomes_canonical() {
    for (text, canonical) in [
        ("a = input x : [n] real # the signal\n\nout y = a", "a = input x : [n] real\nout y = a\n"),
        (
            "a = input x : [n] real\nb = gen i < n. sum k < n. [k = i] * a[k] * a[i]\nout y = b",
            "a = input x : [n] real\nb = gen i < n. a[i] * a[i]\nout y = b\n",
        ),
        (
            "a = input x : [n] real\nb = gen q < n. exp(a[q])\nc = gen i < n. exp(a[i])\nd = gen i < n. [i ≥ 0 ∧ 1 ≤ i] * c[i] + a[i]\nout y = d",
            "a = input x : [n] real\nb = gen i < n. exp(a[i])\nd = gen i < n. a[i] + [0 < i] * b[i]\nout y = d\n",
        ),
        (
            "t0 = input x : [n] real\nb = sum i < n. [n >= 3 and exists j < m. E(i, j) and j > i] * t0[i]\nout y = b",
            "t0 = input x : [n] real\nb = sum i < n. [2 < n and (exists j < m. i < j and E(i, j))] * t0[i]\nout y = b\n",
        ),
        (
            "a = input fst p : [n] real\nb = input snd snd p : [n] real\nout y : [n] (real, real) = (a, b)",
            "a = input fst p : [n] real\nb = input snd snd p : [n] real\nout y : [n] (real, real) = (a, b)\n",
        ),
    ] {
        let read = tssa::parse(text, &signature());
        assert_eq!(read.unwrap_or_else(|error| panic!("{error}\n{text}")).to_string(), canonical);
    }
}

/// What is wrong, where `@` marks the place.
#[test]
fn problems_have_places() {
    for (text, code) in [
        ("a @input", "unexpected-token"),
        ("a = input @z : [n] real", "unknown-name"),
        ("a = input @p : [n] real", "unknown-leaf"),
        ("a = input x : @[m] real", "wrong-type"),
        ("a = input x : [@k] real", "unknown-name"),
        ("a = input x : @", "unexpected-token"),
        ("a = input x : [n] real @b = 1.0", "unexpected-token"),
        ("a = 1.0\n@a = 2.0", "duplicate-name"),
        ("@n = 1.0", "duplicate-name"),
        ("a = gen @n < n. 1.0", "duplicate-name"),
        ("a = gen i < n, @i < n. 1.0", "duplicate-name"),
        ("a = gen i < n, j < @i. 1.0", "not-a-size"),
        ("a = gen i < n. @", "unexpected-token"),
        ("a = gen i < n. 1.0 @+ 2.0", "unexpected-token"),
        ("a = @b", "unknown-name"),
        ("a = 1.0\nb = @f2(a)", "unknown-name"),
        ("a = 1.0\nb = @exp(a, a)", "wrong-call"),
        ("a = 1.0\nb = @exp'1(a)", "unknown-name"),
        ("a = 1.0\nb = gen i < n. [i < 3] * @a[i]", "wrong-rank"),
        ("a = input x : [n] real\nb = gen i < m. a[@i]", "wrong-range"),
        ("a = input x : [n] real\nb = gen i < n. a[@j]", "unknown-name"),
        ("a = input x : [n] real\nb = gen i < n, j < n. exp(@a[j])", "not-aligned"),
        ("a = input x : [n] real\nb = gen i < n, j < n. @a[j] + a[i]", "not-aligned"),
        ("a = 1.0\nb = a^@1.5", "unexpected-token"),
        ("a = 1.0\nb = a^@3000000000", "bad-number"),
        ("a = 1.0\nb = [@R(0)] * a", "unknown-name"),
        ("a = 1.0\nb = [@E(0)] * a", "wrong-rank"),
        ("a = 1.0\nb = [@a[0] != 0] * a", "wrong-rank"),
        ("a = 1.0\nb = [a != @1] * a", "unexpected-token"),
        ("a = 1.0\nb = [n +@] * a", "unexpected-token"),
        ("a = 1.0\nb = [n @] * a", "unexpected-token"),
        ("a = 1.0\nb = [n < 3 + @a", "unknown-name"),
        ("a = 1.0\nb = [n < 3 and@] * a", "unexpected-token"),
        ("a = input x : [n] real\nb = sum i < n. [argmax(a[@]) = i] * a[i]", "unexpected-token"),
        ("out y = @a", "unknown-name"),
        ("a = 1.0\nout y on @E = a", "wrong-pattern"),
        ("a = 1.0\nout y = @(a, a)", "missing-type"),
        ("a = 1.0\nout y : @real = (a, a)", "wrong-type"),
        ("a = @$", "bad-character"),
        ("a = @1.5.2", "bad-number"),
    ] {
        let place = text.find('@').expect("the place is marked");
        let text = text.replacen('@', "", 1);
        let read = tssa::parse(&text, &signature());
        let Err(Error::Program(diagnostics)) = read else { panic!("{text}\n{read:?}") };
        let first = &diagnostics[0];
        assert_eq!(first.span.start as usize, place, "{text}\n{first}");
        assert_eq!(first.code, code, "{text}\n{first:?}");
    }
}

/// Neither deep nor broken texts do harm.
#[test]
fn hostile_texts_are_refused() {
    let signature = signature();
    for text in [
        format!("a = 1.0\nb = [{}n < 3{}] * a", "(".repeat(100_000), ")".repeat(100_000)),
        format!("a = 1.0\nout y : {}real = a", "(real, ".repeat(100_000)),
        format!("a = 1.0\nb = [{} n < 3] * a", (0..1000).map(|k| format!("exists i{k} < n. ")).collect::<String>()),
        format!("a = real({}n)", "9223372036854775807*n + ".repeat(3)),
        "a = gen i < 99999999999999999999. 1.0".to_owned(),
    ] {
        assert!(tssa::parse(&text, &signature).is_err());
    }
    // Any part of a sound text is read or refused.
    let sound =
        compile("param x : [n] real\nparam A : csr [n, m] real\nsum i < n, j < m. max(0, A[i, j] / x[i] - 1.5)^2");
    let text = sound.gradient(["x", "A"]).expect("it has a gradient").tensor_ssa().to_string();
    for at in 0..text.len() {
        if text.is_char_boundary(at) {
            let _ = tssa::parse(&text[..at], &sound.tensor_ssa().signature);
            let _ = tssa::parse(&text[at..], &sound.tensor_ssa().signature);
        }
    }
}

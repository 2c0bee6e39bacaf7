//! What is read as what, and which problems are found where.

use super::*;
use crate::surface::MAX_TYPE_NESTING;
use crate::surface::sexpr::{decls, sexpr};

fn body(text: &str) -> String {
    let (ast, diagnostics) = parse(text);
    assert!(diagnostics.is_empty(), "{text}: {diagnostics:?}");
    sexpr(&ast, ast.body.expect(text))
}

fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(body(text), *expected, "{text}");
    }
}

#[test]
fn parse_levels_of_operators() {
    check(&[
        ("a + b * c", "(+ a (* b c))"),
        ("a - b - c", "(- (- a b) c)"),
        ("a / b * c", "(* (/ a b) c)"),
        ("a ^ b ^ c", "(^ a (^ b c))"),
        ("-x^2", "(neg (^ x 2))"),
        ("-x * y", "(* (neg x) y)"),
        ("2 ^ -x * y", "(* (^ 2 (neg x)) y)"),
        ("2 ^ -x ^ 2", "(^ 2 (neg (^ x 2)))"),
        ("a - -b", "(- a (neg b))"),
        ("-3", "(neg 3)"),
        ("(a + b) * c", "(* (+ a b) c)"),
        ("not a < b and c", "(and (not (< a b)) c)"),
        ("a or b and c", "(or a (and b c))"),
        ("a * not b < c", "(* a (not (< b c)))"),
        ("a + b < c - d", "(< (+ a b) (- c d))"),
        ("fst ab[i]", "(fst (at ab i))"),
        ("(fst ab)[i]", "(at (fst ab) i)"),
        ("fst snd x ^ 2", "(^ (fst (snd x)) 2)"),
        ("x[:, i]", "(at x : i)"),
        ("x[1:2]", "(at x (part _:_: 1 2))"),
        ("x[:-1, a + 1:]", "(at x (part :_: (neg 1)) (part _:: (+ a 1)))"),
        ("x[::2, i:i + k:3, ::, 1::2]", "(at x (part ::_ 2) (part _:_:_ i (+ i k) 3) : (part _::_ 1 2))"),
        ("-x² + a^b³ + (f(x))⁻¹", "(+ (+ (neg (^ x 2)) (^ a (^ b 3))) (^ (f x) (neg 1)))"),
        ("Aᵀ @ A", "(@ (transpose A) A)"),
        ("argmax(x + 1) + argmin(i < n) x[i]", "(+ (argmax (+ x 1)) (argmin i n (at x i)))"),
        ("let b = a\nfixpoint s = b, at most 5. s", "(let b a (fixpoint steps of s s 5 b s))"),
        ("x[i][j, k + 1]", "(at (at x i) j (+ k 1))"),
        ("f(x)[1]", "(at (f x) 1)"),
        ("max(a, b) - min(a, b)", "(- (max a b) (min a b))"),
        ("real(2*i - 1)", "(real (- (* 2 i) 1))"),
        ("select(x[i] > 0, a, b)", "(select (> (at x i) 0) a b)"),
        ("f()", "(f)"),
    ]);
}

#[test]
fn parse_functions() {
    check(&[
        ("fn x. x + 1", "(fn (x real) (+ x 1))"),
        ("fn x, y : [n + 1] real. x", "(fn (x real y [(+ n 1)]real) x)"),
        ("2 * fn x. x + 1", "(* 2 (fn (x real) (+ x 1)))"),
        ("(fn x. x)(1, 2) + 3", "(+ (apply (fn (x real) x) 1 2) 3)"),
        ("f(a)(b)()[i]", "(at (apply (apply (f a) b)) i)"),
        ("fst (p)(a)", "(fst (apply p a))"),
        ("let f = fn x. x, b = 2 in f", "(let f (fn (x real) x) (let b 2 f))"),
        ("f(fn x. x, max, b)", "(f (fn (x real) x) max b)"),
        ("let f = fn x.\n  let y = x\n  y\nf", "(let f (fn (x real) (let y x y)) f)"),
        ("f\n", "f"),
        (
            "fn (a, b) : (real, [2] real), (a, c). b",
            "(fn ((a ..) (real [2]real) (a ..)  (real real)) (let a (fst (a ..)) (let b (snd (a ..)) \
             (let a (fst (a ..) ) (let c (snd (a ..) ) b)))))",
        ),
        ("fn f : real -> real. f", "(fn (f (real -> real)) f)"),
        ("fn f : (real, [n] real) -> real -> (real, real). f", "(fn (f (real [n]real -> (real -> (real real)))) f)"),
        ("fn f : ((real, real)) -> (real -> real). f", "(fn (f ((real real) -> (real -> real))) f)"),
        ("fn f : [2] (real, real) -> [n] real. f", "(fn (f ([2](real real) -> [n]real)) f)"),
        ("fn f : (real -> real, real). f", "(fn (f ((real -> real) real)) f)"),
    ]);
}

#[test]
fn parse_ranges_that_are_not_written() {
    check(&[
        ("sum i. x[i]", "(sum i : (at x i))"),
        ("gen i, j. A[j, i]", "(gen i : (gen j : (at A j i)))"),
        ("sum (i, j) A[i, j]", "(sum i : (sum j : (at A i j)))"),
        ("sum(x) + 1", "(+ (sum x) 1)"),
        ("sum(x)[0]", "(at (sum x) 0)"),
        ("let s = sum(x)\ns * 2", "(let s (sum x) (* s 2))"),
        ("sum (i, j) A[i, j] + b", "(sum i : (sum j : (+ (at A i j) b)))"),
        ("fold t < n, s = max(a, b). s", "(fold t s n (max a b) s)"),
        ("max(a, b) [i]", "(at (max a b) i)"),
        ("sum i, j < n. e", "(sum i n (sum j n e))"),
        ("sum(i, j < n + 1) e", "(sum i (+ n 1) (sum j (+ n 1) e))"),
        ("sum j, i < j. e", "(sum j : (sum i j e))"),
        ("sum i < n, j. e", "(sum i n (sum j : e))"),
        ("mean i. x[i]", "(/ (sum i : (at x i)) (real :))"),
        ("prod i. x[i]", "(fold i product over i : 1 (* product over i (at x i)))"),
        ("exists j. p(j)", "(exists j : (p j))"),
        ("argmax i. x[i]", "(argmax i : (at x i))"),
    ]);
}

#[test]
fn parse_lines_that_give_names() {
    check(&[
        ("y = a\nz = y\ny + z", "(let y a (let z y (+ y z)))"),
        ("y = a; y;", "(let y a y)"),
        ("let a = 1\nb = a + 1\na * b", "(let a 1 (let b (+ a 1) (* a b)))"),
        ("f(a, b) = a * b\nf(1, 2)", "(let f (fn (a _ b _) (* a b)) (f 1 2))"),
        ("gen i < n.\n  y = x[i]\n  y + y", "(gen i n (let y (at x i) (+ y y)))"),
        ("fold t < n, s = 0.\n  r = s\n  r + 1", "(fold t s n 0 (let r s (+ r 1)))"),
        ("y = a + b\n  + c\ny", "(let y (+ (+ a b) c) y)"),
        ("y = if a < b then a else b\ny", "(let y (select (< a b) a b) y)"),
        ("y = sum i < n. x[i]\ny + 1", "(let y (sum i n (at x i)) (+ y 1))"),
        ("y = gen i < n.\n  z = x[i]\n  z + z\ny", "(let y (gen i n (let z (at x i) (+ z z))) y)"),
        ("y = -a\nz = let b = y in b\nz", "(let y (neg a) (let z (let b y b) z))"),
        ("y = a", "(= y a)"),
        ("let a = 1 in b = a\n", "(let a 1 (= b a))"),
        ("[y = a] * b", "(iv (= y a) b)"),
    ]);
}

#[test]
fn parse_signs_of_other_languages() {
    check(&[
        ("a ** -b ** c", "(^ a (neg (^ b c)))"),
        ("[a == b && !p || c != d] * e", "(iv (or (and (= a b) (not p)) (!= c d)) e)"),
        ("A.T @ x.T + f(a).T", "(+ (@ (transpose A) (transpose x)) (transpose (f a)))"),
        ("gen i < n. T[i]", "(gen i n (at T i))"),
        ("1[p] * e + 1 * [q]", "(+ (iv p e) (* 1 (iv q 1)))"),
        ("𝟙[p]", "(iv p 1)"),
        ("if a < b: a else: b", "(select (< a b) a b)"),
    ]);
}

#[test]
fn parse_scans() {
    check(&[
        ("fold t < n, s = a. s + x[t]", "(fold t s n a (+ s (at x t)))"),
        ("scan t <= n + 1 down, s = a + b. s * t", "(scan down t s (+ (+ n 1) 1) (+ a b) (* s t))"),
        ("2 * fold t < n, s = 0. s + 1", "(* 2 (fold t s n 0 (+ s 1)))"),
        ("(fold t < n, s = 0. s) + 1", "(+ (fold t s n 0 s) 1)"),
        ("fold t < down down, s = 0. s", "(fold down t s down 0 s)"),
        ("down + x[down]", "(+ down (at x down))"),
        ("let h = scan t < n, h = a. h in h[n]", "(let h (scan t h n a h) (at h n))"),
        ("let a = fold t < n, s = 0. s, b = 2 in a", "(let a (fold t s n 0 s) (let b 2 a))"),
        ("fold t < n, s = fold u < m, r = a. r. s", "(fold t s n (fold u r m a r) s)"),
        ("f(fold t < n, s = 0. s, b)", "(f (fold t s n 0 s) b)"),
        (
            "fold t < n, (a, b) = (0, 1). (b, a + b)",
            "(fold t (a ..) n (pair 0 1) (let a (fst (a ..)) (let b (snd (a ..)) (pair b (+ a b)))))",
        ),
        (
            "fold t < n, (a, (b, c)) = p. b",
            "(fold t (a ..) n p (let a (fst (a ..)) (let b (fst (snd (a ..))) (let c (snd (snd (a ..))) b))))",
        ),
        ("[p] * fold t < n, s = 0. s + 1", "(iv p (fold t s n 0 (+ s 1)))"),
        (
            "iterate s = a while s < b and p, at most n + 1. s + 1",
            "(iterate steps of s s (+ n 1) a (select (and (< s b) p) (+ s 1) s))",
        ),
        ("iterate s = a while s > 1. s / 2", "(iterate steps of s s 4294967296 a (select (> s 1) (/ s 2) s))"),
        (
            "iterate (s, r) = p while s < r, at most 9. (r, s)",
            "(iterate steps of (s ..) (s ..) 9 p (let s (fst (s ..)) (let r (snd (s ..)) (select (< s r) (pair r s) (s ..)))))",
        ),
        ("fixpoint s = a, at most n. s / 2", "(fixpoint steps of s s n a (/ s 2))"),
        (
            "fixpoint (s, r) = p, at most 9. (r, s)",
            "(fixpoint steps of (s ..) (s ..) 9 p (let s (fst (s ..)) (let r (snd (s ..)) (pair r s))))",
        ),
        (
            "fixpoint s = a while s < b, at most 9. let c = s in c + 1",
            "(fixpoint steps of s s 9 (iterate steps of s s 9 a (select (< s b) (let c s (+ c 1)) s)) (let c s (+ c 1)))",
        ),
        (
            "let k, p = unfold s = a while b, at most n. c in k",
            "(let (k ..) (unfold steps of s (s ..) n (pair a 0) (let s (fst (s ..)) (let count .. (snd (s ..)) (select b (pair c (+ count .. 1)) (s ..))))) (let k (fst (k ..)) (let p (snd (k ..)) k)))",
        ),
        ("while + at * most", "(+ while (* at most))"),
    ]);
}

#[test]
fn parse_vectors() {
    check(&[
        ("[a, b]", "(gen place in a vector 2 (+ (iv (= place in a vector 0) a) (iv (= place in a vector 1) b)))"),
        (
            "[p] * [a, b][0]",
            "(iv p (at (gen place in a vector 2 (+ (iv (= place in a vector 0) a) (iv (= place in a vector 1) b))) 0))",
        ),
        (
            "f([a, b], c)",
            "(f (gen place in a vector 2 (+ (iv (= place in a vector 0) a) (iv (= place in a vector 1) b))) c)",
        ),
    ]);
}

#[test]
fn parse_reach_of_brackets_binders_and_lets() {
    check(&[
        ("[p] * a * b + c", "(+ (iv p (* a b)) c)"),
        ("a * [p] * b", "(* a (iv p b))"),
        ("[p] * a / b", "(iv p (/ a b))"),
        ("[p] * [q] * e", "(iv p (iv q e))"),
        ("-[p] * a * b", "(neg (iv p (* a b)))"),
        ("[p] * a < b", "(< (iv p a) b)"),
        ("[i < j and (E(i, j) or i + 1 = j)] * e", "(iv (and (< i j) (or (E i j) (= (+ i 1) j))) e)"),
        ("[cam(o) = k] * e", "(iv (= (cam o) k) e)"),
        ("1 + sum i < n. x[i] + 2", "(+ 1 (sum i n (+ (at x i) 2)))"),
        ("(sum i < n. x[i]) + 2", "(+ (sum i n (at x i)) 2)"),
        ("2 * let y = 1 + z in y + 1", "(* 2 (let y (+ 1 z) (+ y 1)))"),
        ("let y = let z = a in z in y", "(let y (let z a z) y)"),
        ("gen i < n, j < m + 1. e", "(gen i n (gen j (+ m 1) e))"),
        ("[exists k < n, l < m. R(k, l) or p] * e", "(iv (exists k n (exists l m (or (R k l) p))) e)"),
        ("max i < n. x[i]", "(max i n (at x i))"),
        ("min i < n. x[i]", "(min i n (at x i))"),
        ("x[argmax i < n. x[i]]", "(at x (argmax i n (at x i)))"),
        ("argmin i < n. x[i]", "(argmin i n (at x i))"),
        ("gen i < 2. e", "(gen i 2 e)"),
        ("gen i < n. value(i)", "(gen i n (value i))"),
        ("sum i < n. [i < 2] * x[i] + y", "(sum i n (+ (iv (< i 2) (at x i)) y))"),
    ]);
}

#[test]
fn parse_chains_share_the_middle() {
    check(&[
        ("[0 <= i < n] * e", "(iv (and (<= 0 i) (< i n)) e)"),
        ("[0 <= i < j < n or p] * e", "(iv (or (and (and (<= 0 i) (< i j)) (< j n)) p) e)"),
        ("[n > i >= 0] * e", "(iv (and (> n i) (>= i 0)) e)"),
    ]);
    let (ast, _) = parse("[0 <= i < n] * e");
    assert_eq!(ast.exprs.values().filter(|expr| **expr == Expr::Name("i".into())).count(), 1);
}

#[test]
fn parse_pairs_calls_and_sparse_reads() {
    check(&[
        ("(a, b)", "(pair a b)"),
        ("(a, b, c)", "(pair a (pair b c))"),
        ("((a, b), c)", "(pair (pair a b) c)"),
        ("[A?(i, j)] * A.value(i, j)", "(iv (A? i j) (A.value i j))"),
        ("A.value[i, j] + 1", "(+ (A.value i j) 1)"),
        ("dot(a, gen i < n. b[i])", "(dot a (gen i n (at b i)))"),
    ]);
}

#[test]
fn parse_unicode_spellings() {
    check(&[
        ("⊞ i < n. Σ j < m. x[i] · y[j] × 2 − 1", "(gen i n (sum j m (- (* (* (at x i) (at y j)) 2) 1)))"),
        (
            "∑i < n. Σj<n. [i ≤ j ∧ ¬(i ≥ 2) ∨ i ≠ 1] · x'",
            "(sum i n (sum j n (iv (or (and (<= i j) (not (>= i 2))) (!= i 1)) x')))",
        ),
        ("[∃ k < n. R(k)] * größe₁", "(iv (exists k n (R k)) größe₁)"),
    ]);
}

#[test]
fn parse_blocks() {
    check(&[
        ("let a = 1\nlet b = a\na + b", "(let a 1 (let b a (+ a b)))"),
        ("let a = 1; let b = a in a + b", "(let a 1 (let b a (+ a b)))"),
        ("let a = 1, b = a\na + b", "(let a 1 (let b a (+ a b)))"),
        ("let a = x\n-a", "(let a x (neg a))"),
        ("let a = x\n  - b\na", "(let a (- x b) a)"),
        ("let a = x\n+ b\na", "(let a (+ x b) a)"),
        ("gen i < n. let a = x[i]\n  let b = a\n  -b", "(gen i n (let a (at x i) (let b a (neg b))))"),
        ("let a = gen i < n. x[i]\na", "(let a (gen i n (at x i)) a)"),
        ("let (a, b) = e\na", "(let (a ..) e (let a (fst (a ..)) (let b (snd (a ..)) a)))"),
        (
            "let ((a, b), c) = e in b",
            "(let (pair ..) e (let a (fst (fst (pair ..))) (let b (snd (fst (pair ..))) (let c (snd (pair ..)) b))))",
        ),
    ]);
}

#[test]
fn parse_habits() {
    check(&[
        ("if x > 0 then a else b + 1", "(select (> x 0) a (+ b 1))"),
        ("2 * if p then a else if q then b else c", "(* 2 (select p a (select q b c)))"),
        ("mean i < n. x[i]", "(/ (sum i n (at x i)) (real n))"),
        ("mean (i < n, j < m) e", "(/ (/ (sum i n (sum j m e)) (real n)) (real m))"),
        ("sum (i < n, j < m + 1) e", "(sum i n (sum j (+ m 1) e))"),
        ("gen (i < n). [i = 0] * e", "(gen i n (iv (= i 0) e))"),
        ("sum(x < y)", "(sum (< x y))"),
        ("sum(x < y) - 1", "(- (sum (< x y)) 1)"),
        ("sum(x * y) / 2", "(/ (sum (* x y)) 2)"),
        ("max (i < n) x[i]", "(max i n (at x i))"),
        ("[p]", "(iv p 1)"),
        ("[p] (a) + b", "(+ (iv p a) b)"),
        ("[p] + b", "(+ (iv p 1) b)"),
        ("x[i, :, j]", "(at x i : j)"),
        ("(a @ b)'", "(transpose (@ a b))"),
        ("-x[i]' @ a'", "(@ (neg (transpose (at x i))) a')"),
        ("a @ b / c", "(/ (@ a b) c)"),
        ("a // 2 * b", "(* (// a 2) b)"),
        ("a * b % 2 + c", "(+ (% (* a b) 2) c)"),
        ("a//b", "(// a b)"),
        ("a // a comment", "a"),
        ("a // b", "(// a b)"),
        ("x[a // b]", "(at x (// a b))"),
        ("a + // 2 more\nb", "(+ a b)"),
        ("a .* b .^ 2 .- c ./ 2 .+ 1", "(+ (- (* a (^ b 2)) (/ c 2)) 1)"),
        ("a\t.-\tb .-\n  c", "(- (- a b) c)"),
        ("exp.(x) + log.(y)", "(+ (exp x) (log y))"),
        ("gen i < n.(x[i])", "(gen i n (at x i))"),
        ("gen i < n.-x[i]", "(gen i n (neg (at x i)))"),
        ("a // half of it\n+ b", "(+ a b)"),
    ]);
}

#[test]
fn powers_of_sums() {
    for (text, expected) in [
        ("sum(x - y)^2", None),
        ("sum((x - y)^2)", None),
        ("sum (x - y) * 2", None),
        ("(sum (x - y))^2", None),
        ("sqrt (x)^2", None),
        ("sum (x - y)^2", Some("write `sum((x - y)^2)` for that of powers, `sum(x - y)^2` for a power of it")),
        ("1 + mean (x)² / 2", Some("write `mean((x)²)` for that of powers, `mean(x)²` for a power of it")),
        ("sum (x) ^ -p", Some("write `sum((x)^..)` for that of powers, `sum(x)^..` for a power of it")),
        ("sum (x) ^ p", Some("write `sum((x)^p)` for that of powers, `sum(x)^p` for a power of it")),
    ] {
        let (ast, problems) = parse(text);
        assert_eq!(problems, [], "{text}");
        let found: Vec<_> = ast.warnings.iter().map(|w| w.help.as_deref().unwrap_or("")).collect();
        assert_eq!(found, Vec::from_iter(expected), "{text}");
    }
}

#[test]
fn warnings_have_both_readings() {
    for (text, expected) in [
        ("sum i < n. x[i]", None),
        ("sum i < n. (x[i] + b)", None),
        ("(sum i < n. x[i]) + b", None),
        ("sum i < n. b + x[i]", None),
        ("sum i < n, j < m. (a[i, j] + b[i])", None),
        ("sum i < n, j < m. a[i] - b[j]", None),
        ("sum i < n, j < m. b[i] + a[i, j]", None),
        ("sum i < n, j < m. a[i, j] + b[i] + c[j]", None),
        (
            "sum (i < n, j < n) w[i, j] * x[i] * x[j] + h[i] * x[i]",
            Some((
                "h[i] * x[i]",
                "write `sum (i < n, j < n) (w[i, j] * x[i] * x[j] + h[i] * x[i])` if it is to be added each time, \
                 `sum i < n. (sum j < n. w[i, j] * x[i] * x[j]) + h[i] * x[i]` if once for each `i`",
            )),
        ),
        (
            "sum i < n, j <= i. a[i] * b[j] - a[i] + b[i]",
            Some((
                "a[i] + b[i]",
                "write `sum i < n, j <= i. (a[i] * b[j] - a[i] + b[i])` if it is to be added each time, \
                 `sum i < n. (sum j <= i. a[i] * b[j]) - a[i] + b[i]` if once for each `i`",
            )),
        ),
        (
            "sum i < n, j < m. a[i] + b",
            Some((
                "b",
                "write `sum i < n, j < m. (a[i] + b)` if it is to be added each time, `(sum i < n, j < m. a[i]) + b` if once",
            )),
        ),
        // Another index of the same name is bound inside.
        (
            "sum j < n, i < j. w[i, j] * x[i] * x[j] - sum i < n. h[i] * x[i]",
            Some((
                "sum i < n. h[i] * x[i]",
                "write `sum j < n, i < j. (w[i, j] * x[i] * x[j] - sum i < n. h[i] * x[i])` if it is to be added each time, \
                 `(sum j < n, i < j. w[i, j] * x[i] * x[j]) - sum i < n. h[i] * x[i]` if once",
            )),
        ),
        // Both readings have one value.
        ("mean i < n. x[i] - 1", None),
        ("gen i < n. x[i] + b", None),
        (
            "(sum j < d. x[i, j] * w[j] + b - y[i])^2",
            Some((
                "b - y[i]",
                "write `sum j < d. (x[i, j] * w[j] + b - y[i])` if it is to be added each time, `(sum j < d. x[i, j] * w[j]) + b - y[i]` if once",
            )),
        ),
        ("mean i < n. x[i] + b + y[i]", None),
    ] {
        let (ast, problems) = parse(text);
        assert_eq!(problems, [], "{text}");
        let found: Vec<_> =
            ast.warnings.iter().map(|w| (&text[w.span.range()], w.help.as_deref().unwrap_or(""))).collect();
        assert_eq!(found, Vec::from_iter(expected), "{text}");
    }
}

#[test]
fn zeros_of_extrema_are_told() {
    for (text, expected) in [
        ("max i < n. [x[i] > 0] * x[i]", Some("write `if x[i] > 0 then x[i] else -inf` ")),
        ("sum j < m. (argmin i < n. [E(i, j)] c[i])", Some("write `if E(i, j) then c[i] else inf` ")),
        ("max i < n. ([x[i] > 0] * x[i])", None),
        ("max i < n. [x[i] > 0]", None),
        ("max i < n. 1 + [x[i] > 0] * x[i]", None),
        ("sum i < n. [x[i] > 0] * x[i]", None),
    ] {
        let (ast, problems) = parse(text);
        assert_eq!(problems, [], "{text}");
        let found: Vec<_> = ast.warnings.iter().map(|w| w.help.as_deref().unwrap_or("")).collect();
        assert_eq!(found.len(), Vec::from_iter(expected).len(), "{text}: {found:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{text}: {found:?}");
    }
}

#[test]
fn comparisons_as_programs_are_told() {
    for (text, warns) in [
        ("x = 2", true),
        ("let y = x\nx = y + 1", true),
        ("[x = 2]", false),
        ("x^2 = 4", false),
        ("(x = 2) * y", false),
        ("x < 2", false),
    ] {
        let (ast, problems) = parse(text);
        assert_eq!(problems, [], "{text}");
        let found: Vec<&str> = ast.warnings.iter().map(|w| w.code).collect();
        assert_eq!(found, Vec::from_iter(warns.then_some("comparison-as-program")), "{text}");
    }
}

#[test]
fn parse_numbers() {
    check(&[
        ("1.5e-3 + 1e9 + 1.5 + 12", "(+ (+ (+ 0.0015r 1000000000r) 1.5r) 12)"),
        ("9223372036854775807 - 9223372036854775808", "(- 9223372036854775807 9223372036854776000r)"),
        ("-inf + nan", "(+ (neg infr) NaNr)"),
    ]);
}

#[test]
fn parse_declarations() {
    for (text, expected) in [
        ("param x : [n + m - 1] real", "(param x dense [(- (+ n m) 1)]real)"),
        ("param A : csr [m, n] real", "(param A csr [m n]real)"),
        ("param A : csc [m, n] real", "(param A csc [m n]real)"),
        ("param T : coo [p, q, r] real", "(param T coo [p q r]real)"),
        ("param ab : [n] (real, [3] real, real)", "(param ab dense [n](real ([3]real real)))"),
        ("param s : (real)", "(param s dense real)"),
        ("rel E : [n, n]", "(rel E [n n])"),
        ("map cam : [p] -> [c]", "(map cam [p] c)"),
        ("map f : [p, q] → [c + 1]", "(map f [p q] (+ c 1))"),
        ("assume n >= 2", "(assume (>= n 2))"),
        (
            "def dot(a : [k] real, b : [k] real) = sum i < k. a[i] * b[i]",
            "(def dot (a [k]real b [k]real) (sum i k (* (at a i) (at b i))))",
        ),
        ("fun f(a, b) = a * b with (b, a)", "(fun f (a b) (* a b) b a)"),
        ("fun g(a) = exp(a) with (result);", "(fun g (a) (exp a) result)"),
    ] {
        for end in ["\n0", "\n(0)", "\n[p] * 0", " let y = 0 in y", "\nparam z : real 0", "; -1"] {
            let (ast, diagnostics) = parse(&format!("{text}{end}"));
            assert!(diagnostics.is_empty(), "{text}{end}: {diagnostics:?}");
            assert_eq!(decls(&ast)[0], expected);
        }
    }
}

#[test]
fn parse_whole_program() {
    let text = "# deconvolution.iv                     comments run to the end of the line
        param x : [n + m - 1] real             # sizes are affine in size variables
        param w : [m] real
        param z : [n] real
        let y = gen i < n. sum j < m. x[i - j + m - 1] * w[j]
        in sum i < n. (y[i] - z[i])^2";
    let (ast, diagnostics) = parse(text);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(ast.decls.len(), 3);
    assert_eq!(
        sexpr(&ast, ast.body.unwrap()),
        "(let y (gen i n (sum j m (* (at x (- (+ (- i j) m) 1)) (at w j)))) (sum i n (^ (- (at y i) (at z i)) 2)))"
    );
}

#[test]
fn parse_spans_are_precise() {
    let text = "\u{feff}# Σ\nlet y = (a + b)[i] in gen i < n, j < m. f(y)";
    let (ast, _) = parse(text);
    let mut found: Vec<&str> = ast.spans.values().map(|span| &text[span.range()]).collect();
    found.sort();
    let mut expected = vec![
        "a",
        "b",
        "a + b",
        "i",
        "(a + b)[i]",
        "n",
        "m",
        "y",
        "f(y)",
        "j < m. f(y)",
        "gen i < n, j < m. f(y)",
        "let y = (a + b)[i] in gen i < n, j < m. f(y)",
    ];
    expected.sort();
    assert_eq!(found, expected);
}

/// Codes with the text at fault.
fn problems(text: &str) -> Vec<(&'static str, &str)> {
    let (ast, diagnostics) = parse(text);
    for (id, expr) in ast.exprs.iter() {
        for operand in crate::surface::sexpr::operands(expr) {
            assert!(operand < id, "{text}: operands come first");
        }
    }
    diagnostics.iter().map(|d| (d.code, &text[d.span.range()])).collect()
}

#[test]
fn parse_reports_problems() {
    for (text, expected) in [
        ("", vec![("missing-body", "")]),
        ("param x : real", vec![("missing-body", "")]),
        ("a +", vec![("unexpected-token", "")]),
        ("a b", vec![("unexpected-token", "b")]),
        ("(a + b", vec![("unclosed-bracket", "(")]),
        ("(a +", vec![("unclosed-bracket", "("), ("unexpected-token", "")]),
        ("x[i", vec![("unclosed-bracket", "[")]),
        ("f(a]", vec![("unclosed-bracket", "("), ("unmatched-bracket", "]")]),
        ("x[f(a]", vec![("unclosed-bracket", "(")]),
        ("a)", vec![("unexpected-token", ")")]),
        ("f(a))", vec![("unexpected-token", ")")]),
        ("1.5.2", vec![("bad-number", "1.5.2")]),
        ("2x", vec![("bad-number", "2x")]),
        ("1e + 2", vec![("bad-number", "1e")]),
        ("1e999", vec![("bad-number", "1e999")]),
        ("a @@ b", vec![("unexpected-token", "@")]),
        ("a $$ b", vec![("bad-character", "$$")]),
        ("a += b", vec![("unexpected-token", "+=")]),
        ("x[1:2:3:4]", vec![("unclosed-bracket", "[")]),
        ("x[1:", vec![("unclosed-bracket", "["), ("unexpected-token", "")]),
        ("x[(1:2)]", vec![("unclosed-bracket", "("), ("unmatched-bracket", ")")]),
        ("if a then b", vec![("missing-body", "")]),
        ("A.S", vec![("unexpected-token", ".")]),
        ("a & b", vec![("bad-character", "&")]),
        (".5", vec![("unexpected-token", ".")]),
        ("1 + +1", vec![("unexpected-token", "+")]),
        ("[p", vec![("unclosed-bracket", "[")]),
        ("[p < 1, q] * e", vec![("unexpected-token", ",")]),
        ("[not p, q] * e", vec![("unexpected-token", ",")]),
        ("[a, b", vec![("unclosed-bracket", "[")]),
        ("f([a, b)", vec![("unclosed-bracket", "[")]),
        ("[a, , b]", vec![("unexpected-token", ",")]),
        ("[0 < i > j] * e", vec![("ambiguous-comparison", ">")]),
        ("[i != j != k] * e", vec![("ambiguous-comparison", "!=")]),
        ("let y = a", vec![("missing-body", "")]),
        ("let y = a let z = b in y", vec![("missing-body", "let")]),
        ("let = a in b", vec![("unexpected-token", "=")]),
        ("let sum = a in b", vec![("unexpected-token", "sum")]),
        ("let y a in y", vec![("unexpected-token", "a")]),
        ("gen i < n x[i]", vec![("missing-body", "x")]),
        ("fold t < n, s = a s + t", vec![("missing-body", "s")]),
        ("(fold t < n, s = a)", vec![("missing-body", ")")]),
        ("f(scan t < n, b)", vec![("unexpected-token", ")")]),
        ("(scan t < n)", vec![("missing-body", ")")]),
        ("fold t < n. s", vec![("unexpected-token", ".")]),
        ("fold t < n, s. s", vec![("unexpected-token", ".")]),
        ("fold t < n s = a. s", vec![("unexpected-token", "s")]),
        ("fold t < n, u < m, s = a. s", vec![("unexpected-token", "u")]),
        ("fold t < n, s = a, r = b. s", vec![("unexpected-token", ",")]),
        ("fold t < n, s = a: s", vec![("unexpected-token", ":")]),
        ("fold t < n, (s, r = a. s", vec![("unclosed-bracket", "(")]),
        ("fold t < n down down, s = a. s", vec![("unexpected-token", "down")]),
        ("fold s = a, t < n. s", vec![("unexpected-token", "=")]),
        ("fold(f, a) + 1", vec![("unexpected-token", "(")]),
        ("iterate s = a. s", vec![("unexpected-token", ".")]),
        ("iterate s while s < 1. s", vec![("unexpected-token", "while")]),
        ("iterate s = a while s < 1, at least 9. s", vec![("unexpected-token", "least")]),
        ("iterate s = a while s < 1, 9. s", vec![("unexpected-token", "9")]),
        ("iterate s = a while s < 1", vec![("missing-body", "")]),
        ("(iterate s = a)", vec![("missing-body", ")")]),
        ("fixpoint s = a. s", vec![("unexpected-token", ".")]),
        ("fixpoint s = a while s < 1. s", vec![("unexpected-token", ".")]),
        ("let k, p = unfold s = a while s < 1. s in p[k]", vec![("unexpected-token", ".")]),
        ("let k, p = a in p", vec![("unexpected-token", ",")]),
        ("fixpoint s = a, 9. s", vec![("unexpected-token", "9")]),
        ("fixpoint s, at most 9. s", vec![("unexpected-token", ",")]),
        ("fixpoint s = a, at most 9", vec![("missing-body", "")]),
        ("(fixpoint s = a)", vec![("missing-body", ")")]),
        ("fn x", vec![("unexpected-token", "")]),
        ("fn . x", vec![("unexpected-token", ".")]),
        ("fn x : . x", vec![("unexpected-token", ".")]),
        ("f(fn x, b", vec![("unclosed-bracket", "("), ("unexpected-token", "")]),
        ("(fn x. x)(1", vec![("unclosed-bracket", "(")]),
        ("x[i](1)", vec![("unexpected-token", "(")]),
        ("let fn = 2 in 3", vec![("unexpected-token", "fn")]),
        ("a + \\b c -> d", vec![("bad-character", "\\b")]),
        ("let scan = a in b", vec![("unexpected-token", "scan")]),
        ("(gen i < n)", vec![("missing-body", ")")]),
        ("gen i >= n. e", vec![("unexpected-token", ">=")]),
        ("gen i in n. e", vec![("unexpected-token", "in")]),
        ("max + 1", vec![("unexpected-token", "+")]),
        ("x[]", vec![("unexpected-token", "]")]),
        ("(a, b,)", vec![("unexpected-token", ")")]),
        ("x\n[i]", vec![("unexpected-token", "[")]),
        ("(x\n[i])", vec![("unexpected-token", "[")]),
        ("2(a)", vec![("unexpected-token", "(")]),
        ("A? + 1", vec![("unexpected-token", "+")]),
        // One that does not end does so with its line.
        ("x /* a */ + y /* b\n+ z /* c\n+ u", vec![("block-comment", "/*"); 3]),
        ("param x real\n0", vec![("unexpected-token", "real")]),
        ("param x : [n real\n0", vec![("unclosed-bracket", "[")]),
        ("param x : [n]\n0", vec![("missing-type", "[n]")]),
        ("param let : real\n0", vec![("unexpected-token", "let")]),
        ("param\nlet x = 0 in x", vec![("unexpected-token", "let")]),
        ("param x : ()\n0", vec![("unexpected-token", "()")]),
        ("map f : [p] -> [c, d]\n0", vec![("unexpected-token", "[c, d]")]),
        ("map f : [p]\n0", vec![("unexpected-token", "0")]),
        ("fun f(a, b) = a with (b)\n0", vec![("partials-count", "f")]),
        ("fun f(a) = a\n0", vec![("unexpected-token", "0")]),
        ("x\nparam x : real\nparam y : real", vec![("misplaced-declaration", "param")]),
        ("parm x : real\nparam y : real\ny", vec![("unknown-declaration", "parm")]),
        ("x\nprm y", vec![("unexpected-token", "prm")]),
        ("let a = 1\n  - a", vec![("missing-body", "")]),
        ("a + \"b c\"", vec![("bad-character", "\"b c\"")]),
    ] {
        assert_eq!(problems(text), expected, "{text}");
    }
}

#[test]
fn parse_reports_several_problems_in_one_go() {
    let text =
        "param x : [n reel\nparam y : [m] real\nmap c : [p] >> [q]\ndef f(a : real) = a +\nlet u = (x[1 + ] * 2x in
        let v = sum i < n u[i] in [v > ] * (u + v";
    assert_eq!(
        problems(text),
        vec![
            ("unclosed-bracket", "["),
            ("unexpected-token", ">"),
            ("unclosed-bracket", "("),
            ("unexpected-token", "]"),
            ("bad-number", "2x"),
            ("missing-body", "u"),
            ("unexpected-token", "]"),
            ("unclosed-bracket", "("),
        ]
    );
}

#[test]
fn parse_messages_say_expected_and_found() {
    for (text, message) in [
        ("(a + b", "expected `)` to close this `(`, found the end of the text"),
        ("gen i < n x[i]", "expected `.` and the body behind the range, found the name `x`"),
        ("param x : 3\n0", "expected a type such as `real`, `[n] real` or `(real, real)`, found the number `3`"),
        ("a *", "expected an expression, found the end of the text"),
    ] {
        assert_eq!(parse(text).1[0].message, message);
    }
}

#[test]
fn parse_stops_at_limits() {
    let codes = |text: &str| parse(text).1.iter().map(|d| d.code).collect::<Vec<_>>();
    assert_eq!(codes(&" ".repeat(MAX_TEXT + 1)), ["too-large"]);
    assert_eq!(codes(&format!("param x : {}real 0", "[n]".repeat(MAX_TYPE_NESTING - 1))), [""; 0]);
    assert_eq!(codes(&format!("param x : {}real\n0", "[n]".repeat(MAX_TYPE_NESTING))), ["too-deep"]);
    assert_eq!(codes(&format!("param x : ({}real)\n0", "real, ".repeat(100))), ["too-deep"]);
    let many = codes(&format!("f({}", "f(a b), ".repeat(1000)));
    assert_eq!((many.len(), many.last()), (MAX_DIAGNOSTICS, Some(&"too-many-errors")));
    assert_eq!(codes(&"(".repeat(MAX_NESTING + 1)).last(), Some(&"too-deep"));
}

/// Runs with the stack of a small thread.
fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn parse_a_million_deep() {
    on_small_stack(|| {
        let deep = 1_000_000;
        for (text, exprs) in [
            (format!("{}x", "let x = 1 in ".repeat(deep)), 2 * deep + 1),
            (format!("{}x{}", "(".repeat(deep), ")".repeat(deep)), 1),
            (format!("x{}", " + x".repeat(deep)), 2 * deep + 1),
            (format!("x{}", "^x".repeat(deep)), 2 * deep + 1),
            (format!("{}x", "sum i < n. ".repeat(deep)), 2 * deep + 1),
            (format!("{}x", "fold t < n, s = x. ".repeat(deep)), 3 * deep + 1),
            (format!("{}x{}", "scan t < n, s = ".repeat(deep), ". x".repeat(deep)), 3 * deep + 1),
            (format!("{}x", "[p] * ".repeat(deep)), 2 * deep + 1),
            (format!("{}x", "fn x. ".repeat(deep)), deep + 1),
            (format!("(x){}", "(x)".repeat(deep)), 2 * deep + 1),
            (format!("{}x{}", "(x)(".repeat(deep), ")".repeat(deep)), 2 * deep + 1),
            (format!("{}x", "- ".repeat(deep)), deep + 1),
            (format!("({}x)", "x, ".repeat(deep)), 2 * deep + 1),
            (format!("{}x{}", "x[".repeat(deep), "]".repeat(deep)), 2 * deep + 1),
        ] {
            let (ast, diagnostics) = parse(&text);
            assert!(diagnostics.is_empty(), "{diagnostics:?}");
            assert_eq!(ast.exprs.len(), exprs);
        }
        for broken in ["(", "x[f(", "let x = ", "gen i < ", "[", "(]", ")", "[(", "x y ", "def f(a : "] {
            assert!(!parse(&broken.repeat(deep)).1.is_empty());
        }
        let far = format!("{}[{}x]", "(".repeat(deep), "(".repeat(deep));
        assert!(!parse(&far).1.is_empty());
    });
}

#[test]
fn parse_survives_any_text() {
    let pieces = [
        "let ",
        "in ",
        "gen ",
        "sum ",
        "max ",
        "i ",
        "< ",
        "n ",
        ". ",
        "( ",
        ") ",
        "[ ",
        "] ",
        ", ",
        "* ",
        "- ",
        "not ",
        "param ",
        "def ",
        ": ",
        "real ",
        "= ",
        "\n",
        "1 ",
        "A?",
        ".value(",
        "; ",
        "with ",
        "fun ",
        "map ",
        "-> ",
        "@",
        "Σ",
        "fst ",
        "1.5",
        "assume ",
        "rel ",
        "exists ",
        "#",
        "csr ",
        "^",
        "if ",
        "then ",
        "else ",
        "mean ",
        "'",
        "// ",
        ": ",
        "import ",
        "\"lib\" ",
        "sum (",
        ".*",
        "fold ",
        "fn ",
        "fn x. ",
        "=> ",
        "lambda ",
        "function(",
        "scan ",
        "down ",
        "fold t < n, s = 0. ",
        "scan t < n down, ",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let text: String = (0..random.usize(0..30)).map(|_| *random.choice(&pieces).unwrap()).collect();
        let (ast, diagnostics) = parse(&text);
        let errors = ast.exprs.values().any(|expr| *expr == Expr::Error);
        assert!(!diagnostics.is_empty() || ast.body.is_some() && !errors, "{text}");
        for diagnostic in &diagnostics {
            assert!(text.get(diagnostic.span.range()).is_some(), "{text}: {diagnostic:?}");
            assert!(diagnostic.message.starts_with("expected "), "{text}: {diagnostic:?}");
        }
        for (id, expr) in ast.exprs.iter() {
            assert!(crate::surface::sexpr::operands(expr).iter().all(|operand| *operand < id), "{text}");
        }
    }
}

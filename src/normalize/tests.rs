//! What each pass makes of a program text.

use std::fmt::Write;

use super::{eliminate_pairs, lift_lets, push_out_gens, to_tensor_ssa};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Var, View};
use crate::scalar::{Function, Number, Op, Primitive};
use crate::surface::read;
use crate::term::{Term, TermId};
use crate::ty::Types;
use crate::{term, tssa};

const DECLARATIONS: &str = "
    param x : [n] real
    param y : [n] real
    param w : [m] real
    param B : [n, m] real
    param A : csr [n, m] real
    param ab : [n] (real, [m] real)
    param s : real
    rel E : [n, m]
    map cam : [n] -> [m]
    assume m >= 1
";

fn program(text: &str) -> term::Program {
    read(&format!("{DECLARATIONS}{text}"), &[]).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// The text without declarations, on one line.
fn body(program: &term::Program) -> String {
    program.verify().unwrap_or_else(|e| panic!("{e}"));
    let text = program.to_string();
    let declares = |line: &&str| ["param ", "rel ", "map ", "assume "].iter().any(|word| line.starts_with(word));
    let lines = text.lines().skip_while(|line| declares(line) || line.is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(pass: impl Fn(&term::Program) -> Result<term::Program>, source: &str, expected: &str) {
    let source = program(source);
    let found = pass(&source).unwrap_or_else(|e| panic!("{source}{e}"));
    assert_eq!(body(&found), expected, "from {source}");
}

#[track_caller]
fn check_same(pass: impl Fn(&term::Program) -> Result<term::Program>, source: &str) {
    check(pass, source, source);
}

fn pair_free(source: &term::Program) -> Result<term::Program> {
    eliminate_pairs(&lift_lets(source)?)
}

fn pushed_out(source: &term::Program) -> Result<term::Program> {
    push_out_gens(&pair_free(source)?)
}

#[track_caller]
fn check_ssa(source: &str, expected: &[&str]) {
    let source = program(source);
    let found = pushed_out(&source).and_then(|p| to_tensor_ssa(&p)).unwrap_or_else(|e| panic!("{source}{e}"));
    let found = listing(&found);
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "from {source}");
}

/// 5.6 and 5.7: both sides bind `gen i. e0`.
#[test]
fn let_lifting_under_gen_and_sum() {
    check(
        lift_lets,
        "gen i < n. let t = x[i] * y[i] in sum j < m. t * B[i, j]",
        "let t = gen i < n. x[i] * y[i] in gen i < n. sum j < m. t[i] * B[i, j]",
    );
    check(
        lift_lets,
        "sum i < n. let t = x[i] * y[i] in t * t",
        "let t = gen i < n. x[i] * y[i] in sum i < n. t[i] * t[i]",
    );
}

/// No axis for an index that the value does not mention; but nothing is computed where its range is empty.
#[test]
fn let_lifting_adds_no_needless_axis() {
    check(lift_lets, "gen i < n. let t = s * s in t * x[i]", "let t = [n >= 1] * s * s in gen i < n. t * x[i]");
    check(lift_lets, "gen j < m. let t = s * s in t * w[j]", "let t = s * s in gen j < m. t * w[j]");
    check(
        lift_lets,
        "gen i < n, j < m. let t = x[i] * x[i] in let u = t + w[j] in u * u",
        "let t = gen i < n. x[i] * x[i] in let u = gen i < n, j < m. t[i] + w[j] in gen i < n, j < m. u[i, j] * u[i, j]",
    );
}

/// 5.9 and its case with indices: only the part that some index needs.
#[test]
fn let_lifting_under_guard() {
    check(
        lift_lets,
        "[s > 0] * (let t = ln(s) in t * t)",
        "let c = less(0, s) in let t = [c != 0] * ln(s) in [c != 0] * t * t",
    );
    check(
        lift_lets,
        "gen i < n. sum j < m. [E(i, j)] * (let t = exp(w[j]) in t * x[i])",
        "let t = gen j < m. [exists i < n. E(i, j)] * exp(w[j]) in gen i < n. sum j < m. [E(i, j)] * t[j] * x[i]",
    );
    check(
        lift_lets,
        "gen i < n. sum k < n. [k < i] * (let t = exp(x[k]) in t * t)",
        "let t = gen k < n. [k + 2 <= n] * exp(x[k]) in gen i < n. sum k < n. [k < i] * t[k] * t[k]",
    );
    check(
        lift_lets,
        "gen i < n. sum k < n. [k = i] * (let t = exp(x[k]) in t * t)",
        "let t = gen k < n. exp(x[k]) in gen i < n. sum k < n. [i = k] * t[k] * t[k]",
    );
}

/// 5.10: the inner `let` first.
#[test]
fn let_lifting_of_a_value() {
    check(lift_lets, "let a = (let b = s * s in b + b) in a * a", "let b = s * s in let a = b + b in a * a");
    check(
        lift_lets,
        "(let a = s * s in a + a) * (let b = s + s in b * b)",
        "let a = s * s in let b = s + s in (a + a) * (b * b)",
    );
}

/// A computed relation is a use of its variable: it takes the axes too.
#[test]
fn let_lifting_of_computed_relations() {
    check(
        lift_lets,
        "gen i < n. [x[i] > s] * ln(x[i])",
        "let c = gen i < n. less(s, x[i]) in gen i < n. [c[i] != 0] * ln(x[i])",
    );
    check(
        lift_lets,
        "gen i < n. max j < m. B[i, j] * x[i]",
        "let v = gen i < n, j < m. B[i, j] * x[i] in gen i < n. max j < m. v[i, j]",
    );
    check(
        lift_lets,
        "gen i < n. w[argmax j < m. B[i, j] * x[i]]",
        "let v = gen i < n, j < m. B[i, j] * x[i] in gen i < n. w[(argmax k < m. v[i, k])]",
    );
    check(
        lift_lets,
        "gen i < n. [x[i] > s] * (let t = ln(x[i]) in t * t)",
        "let c = gen i < n. less(s, x[i]) in let t = gen i < n. [c[i] != 0] * ln(x[i]) in gen i < n. [c[i] != 0] * t[i] * t[i]",
    );
}

#[test]
fn let_lifting_keeps_what_is_lifted() {
    check_same(lift_lets, "let t = gen i < n. x[i] * y[i] in let u = 3 in sum i < n. t[i] * u");
    check_same(lift_lets, "s * s");
}

/// 5.12, 5.18: components, not copies; those that nobody needs vanish.
#[test]
fn pair_elimination_of_lets() {
    check(
        pair_free,
        "let p = ((s, s * s), x) in fst (fst p) + snd (fst p)",
        "let p_0_0 = s in let p_0_1 = s * s in p_0_0 + p_0_1",
    );
    check(
        pair_free,
        "let u = gen i < n. (x[i] * y[i], y[i]) in gen i < n. snd (u[i])",
        "let u_1 = gen i < n. y[i] in gen i < n. u_1[i]",
    );
    check(
        pair_free,
        "gen i < n. sum k < n. [k < i] * (let t = (x[k], y[k]) in fst t * snd t)",
        "let t_0 = gen k < n. [k + 2 <= n] * x[k] in let t_1 = gen k < n. [k + 2 <= n] * y[k] \
         in gen i < n. sum k < n. [k < i] * t_0[k] * t_1[k]",
    );
    check(pair_free, "[0 < n] * fst ((gen i < n. (x[i], y[i]))[0])", "[n >= 1] * (gen i < n. x[i])[0]");
}

/// What is copied binds indices of its own; `verify` would complain.
#[test]
fn pair_elimination_of_shared_binders() {
    check(
        pair_free,
        "let u = gen i < n. [exists j < m. E(i, j)] * (x[i], y[i]) in gen i < n. fst u[i] + snd u[i]",
        "let u_0 = gen i < n. [exists j < m. E(i, j)] * x[i] in let u_1 = gen i < n. [exists j < m. E(i, j)] * y[i] \
         in gen i < n. u_0[i] + u_1[i]",
    );
}

#[test]
fn pair_elimination_of_parameters_and_outputs() {
    check(pair_free, "ab", "(fst ab, snd ab)");
    check(pair_free, "gen i < n. fst ab[i] * (snd ab[i])[0]", "gen i < n. (fst ab)[i] * (snd ab)[i, 0]");
    check(
        pair_free,
        "gen i < n. (x[i], gen j < m. B[i, j] * x[i])",
        "(gen i < n. x[i], gen i < n, j < m. B[i, j] * x[i])",
    );
    check_same(pair_free, "((s, x), y, s * s)");
}

/// Nested pairs double at each of 1000 levels; one component is asked for.
#[test]
fn pair_elimination_of_a_doubling_let() {
    let mut p = term::Program::new(program("s").signature.clone());
    let s = VarId(6);
    let mut lets = Vec::new();
    let (mut x, mut ty) = (s, Types::REAL);
    for _ in 0..1000 {
        let a = p.push(Term::Var(x)).unwrap();
        let b = p.push(Term::Var(x)).unwrap();
        let value = p.push(Term::Pair(a, b)).unwrap();
        ty = p.types.pair(ty, ty);
        x = p.fresh_var("d", ty);
        lets.push((x, value));
    }
    let mut body = p.push(Term::Var(x)).unwrap();
    for _ in 0..1000 {
        body = p.push(Term::Snd(body)).unwrap();
    }
    p.root = wrap(&mut p, lets, body);
    let found = pair_free(&p).unwrap();
    found.verify().unwrap();
    // Two terms for each `let`, and the output.
    assert_eq!(found.terms.len(), 2001);
}

/// The output would have 2^20 components.
#[test]
fn pair_elimination_refuses_a_huge_output() {
    let mut p = term::Program::new(program("s").signature.clone());
    let mut lets = Vec::new();
    let (mut x, mut ty) = (VarId(6), Types::REAL);
    for _ in 0..20 {
        let (a, b) = (p.push(Term::Var(x)).unwrap(), p.push(Term::Var(x)).unwrap());
        let value = p.push(Term::Pair(a, b)).unwrap();
        ty = p.types.pair(ty, ty);
        x = p.fresh_var("d", ty);
        lets.push((x, value));
    }
    let body = p.push(Term::Var(x)).unwrap();
    p.root = wrap(&mut p, lets, body);
    assert!(matches!(pair_free(&p), Err(Error::Limit { .. })));
}

/// 5.21-5.24.
#[test]
fn gen_pushout_meets_accesses() {
    check(pushed_out, "[0 < n] * (gen i < n. x[i] * y[i])[0]", "[n >= 1] * x[0] * y[0]");
    check(
        pushed_out,
        "gen i < n. (gen k < n. [E(k, 0)] * gen j < m. B[k, j] * x[i])[i][0]",
        "gen i < n. [E(i, 0)] * B[i, 0] * x[i]",
    );
    check(
        pushed_out,
        "gen i < n. [i > 0] * gen j < m. [E(i, j)] * B[i, j]",
        "gen i < n, j < m. [i >= 1 and E(i, j)] * B[i, j]",
    );
    check(pushed_out, "gen i < n. (gen k < m. w[k])[cam(i)] + real((i))", "gen i < n. w[cam(i)] + i");
}

#[test]
fn gen_pushout_expands_variables() {
    check(pushed_out, "let z = x in sum i < n. z[i]", "let z = gen i < n. x[i] in sum i < n. z[i]");
    check(
        pushed_out,
        "(B, ab)",
        "(gen i < n, j < m. B[i, j], gen i < n. (fst ab)[i], gen i < n, j < m. (snd ab)[i, j])",
    );
    check(pushed_out, "gen i < n. B[i]", "gen i < n, j < m. B[i, j]");
}

/// `(gen i. (gen i. .. x[i] ..)[succ(i)])[succ(i)]` nests applications deeper than an index expression may.
#[test]
fn gen_pushout_limits_nested_maps() {
    let nested = |depth: usize| {
        let text = (0..depth).fold("x[k0]".to_owned(), |e, k| format!("(gen k{k} < n. {e})[succ(k{})]", k + 1));
        let text = format!("map succ : [n] -> [n] gen k{depth} < n. {text}");
        pushed_out(&program(&text)).map(|_| ())
    };
    assert_eq!(nested(Affine::MAX_NESTING), Ok(()));
    assert!(matches!(nested(Affine::MAX_NESTING + 1), Err(Error::Limit { .. })));
}

/// A lifted variable would need 17 axes.
#[test]
fn let_lifting_limits_the_rank() {
    let lifted = |rank: usize| {
        let sums: String = (0..rank).map(|k| format!("sum k{k} < n. ")).collect();
        let value: String = (0..rank).map(|k| format!(" + x[k{k}]")).collect();
        lift_lets(&program(&format!("{sums} let t = s{value} in t * t"))).map(|_| ())
    };
    assert_eq!(lifted(Types::MAX_RANK), Ok(()));
    assert!(matches!(lifted(Types::MAX_RANK + 1), Err(Error::Limit { .. })));
}

/// A pass is told its input's form.
#[test]
fn passes_refuse_other_forms() {
    let source = program("s");
    let refused = |result: Result<()>| assert!(matches!(result, Err(Error::Bug { .. })));
    refused(eliminate_pairs(&source).map(|_| ()));
    refused(push_out_gens(&lift_lets(&source).unwrap()).map(|_| ()));
    refused(to_tensor_ssa(&source).map(|_| ()));
}

/// 5.30: an affine access is a contraction of its own, with the guards around it.
#[test]
fn tensor_ssa_of_accesses() {
    check_ssa(
        "gen i < n. [i + 1 < n] * x[i + 1] + [i > 0] * x[i - 1]",
        &[
            "%0 = gen i0 < n. x",
            "%1 = gen i0 < n. sum i1 < n. [i0 - i1 + 1 = 0] %0[i1]",
            "%2 = gen i0 < n. sum i1 < n. [i0 - i1 - 1 = 0] %0[i1]",
            "%3 = gen i0 < n. [n - i0 - 2 >= 0] %1[i0] + [i0 - 1 >= 0] %2[i0]",
            "%3",
        ],
    );
    check_ssa(
        "let z = gen i < n, j < m. B[i, j] in sum i < n, j < m. z[i, j]",
        &["%0 = gen i0 < n, i1 < m. B", "%1 = sum i0 < n, i1 < m. %0[i0, i1]", "%1"],
    );
}

/// An index of a smaller range than the axis is no plain index.
#[test]
fn tensor_ssa_of_an_index_of_another_range() {
    check_ssa(
        "gen i < n - 1. x[i]",
        &["%0 = gen i0 < n. x", "%1 = gen i0 < n - 1. sum i1 < n. [i0 - i1 = 0] %0[i1]", "%1"],
    );
}

#[test]
fn tensor_ssa_of_maps() {
    check_ssa(
        "gen i < n. 2 * w[cam(i)] + real(i)",
        &[
            "%0 = 2",
            "%1 = gen i0 < m. w",
            "%2 = gen i0 < n. sum i1 < m. [cam(i0, i1)] %1[i1]",
            "%3 = gen i0 < n. %0 * %2[i0]",
            "%4 = gen i0 < n. i0",
            "%5 = gen i0 < n. %3[i0] + %4[i0]",
            "%5",
        ],
    );
    check_ssa(
        "gen i < n. [cam(i) < i] * x[i] + [not (cam(i) < i)] * real(cam(i))",
        &[
            "%0 = gen i0 < n. x",
            "%1 = gen i0 < m. i0",
            "%2 = gen i0 < n. sum i1 < m. [cam(i0, i1) and exists i2 < m. i2 - i0 >= 0 and cam(i0, i2)] %1[i1]",
            "%3 = gen i0 < n. [exists i1 < m. i0 - i1 - 1 >= 0 and cam(i0, i1)] %0[i0] \
             + [exists i1 < m. i1 - i0 >= 0 and cam(i0, i1)] %2[i0]",
            "%3",
        ],
    );
    check_ssa(
        "gen i < n. w[argmax j < m. B[i, j]]",
        &[
            "%0 = gen i0 < m. w",
            "%1 = gen i0 < n, i1 < m. B",
            "%2 = gen i0 < n. sum i1 < m. [argmax %1(i0, i1)] %0[i1]",
            "%2",
        ],
    );
}

/// 4.30, 5.32, 5.34: a nest of sums over a product is one contraction.
#[test]
fn tensor_ssa_of_contractions() {
    check_ssa(
        "sum i < n. sum j < m. [E(i, j)] * (B[i, j] * x[i])",
        &[
            "%0 = gen i0 < n, i1 < m. B",
            "%1 = gen i0 < n. x",
            "%2 = sum i0 < n, i1 < m. [E(i0, i1)] %0[i0, i1] * %1[i0]",
            "%2",
        ],
    );
    check_ssa(
        "gen i < n. sum j < m. A[i, j] * w[j]",
        &[
            "%0 = gen i0 < n, i1 < m. A",
            "%1 = gen i0 < m. w",
            "%2 = gen i0 < n. sum i1 < m. [A?(i0, i1)] %0[i0, i1] * %1[i1]",
            "%2",
        ],
    );
}

/// Statements range over free indices only.
#[test]
fn tensor_ssa_of_invariants() {
    check_ssa(
        "gen i < n, j < m. exp(x[i]) * w[j]",
        &[
            "%0 = gen i0 < n. x",
            "%1 = gen i0 < n. exp(%0[i0])",
            "%2 = gen i0 < m. w",
            "%3 = gen i0 < n, i1 < m. %1[i0] * %2[i1]",
            "%3",
        ],
    );
    check_ssa(
        "sum i < n, j < m. [E(i, j)] * (exp(x[i]) * w[j])",
        &[
            "%0 = gen i0 < n. x",
            "%1 = gen i0 < n. [exists i1 < m. E(i0, i1)] exp(%0[i0])",
            "%2 = gen i0 < m. w",
            "%3 = sum i0 < n, i1 < m. [E(i0, i1)] %1[i0] * %2[i1]",
            "%3",
        ],
    );
}

/// 5.33: the guard of an argument is not the guard of the function; that of the function is also that of the argument.
#[test]
fn tensor_ssa_of_functions() {
    check_ssa(
        "gen i < n. exp([i > 0] * x[i])",
        &["%0 = gen i0 < n. x", "%1 = gen i0 < n. [i0 - 1 >= 0] %0[i0]", "%2 = gen i0 < n. exp(%1[i0])", "%2"],
    );
    check_ssa(
        "gen i < n. [i > 0] * ln(x[i] * x[i])",
        &[
            "%0 = gen i0 < n. x",
            "%1 = gen i0 < n. [i0 - 1 >= 0] %0[i0] * %0[i0]",
            "%2 = gen i0 < n. [i0 - 1 >= 0] ln(%1[i0])",
            "%2",
        ],
    );
    check_ssa(
        "gen i < n. [x[i] > 0] * ln(x[i])",
        &[
            "%0 = gen i0 < n. x",
            "%1 = gen i0 < n. 0",
            "%2 = gen i0 < n. less(%1[i0], %0[i0])",
            "%3 = gen i0 < n. [%2?(i0)] ln(%0[i0])",
            "%3",
        ],
    );
}

#[test]
fn tensor_ssa_of_numbers() {
    check_ssa("3", &["%0 = 3", "%0"]);
    check_ssa("gen i < n. 3", &["%0 = gen i0 < n. 3", "%0"]);
    check_ssa("gen i < n. [i > 0] * 3", &["%0 = 3", "%1 = gen i0 < n. [i0 - 1 >= 0] %0", "%1"]);
    check_ssa("gen i < n. [i < i] * x[i]", &["%0 = gen i0 < n. 0", "%0"]);
}

/// A thousand unused `let`s vanish.
#[test]
fn tensor_ssa_drops_what_no_output_needs() {
    let dead: String = (0..1000).map(|k| format!("let d{k} = exp(s + {k}) in ")).collect();
    check_ssa(&format!("{dead} s"), &["%0 = s", "%0"]);
}

/// The statements, one per line, then the output.
fn listing(program: &tssa::Program) -> String {
    let mut text = String::new();
    for (x, stmt) in program.stmts.iter() {
        let gens: Vec<String> =
            stmt.dims.iter().enumerate().map(|(i, n)| format!("i{i} < {}", affine(program, n))).collect();
        let own: String = (0..stmt.dims.len()).map(|i| format!("i{i}")).collect::<Vec<_>>().join(", ");
        let read = |x: &crate::base::VarId| if own.is_empty() { x.to_string() } else { format!("{x}[{own}]") };
        let bracket = |p: &Pred| if p.is_true() { String::new() } else { format!("[{}] ", pred(program, p)) };
        let rhs = match &stmt.rhs {
            tssa::Rhs::Input { param, path } => {
                let name = &program.signature.params[*param].name;
                path.iter().fold(name.clone(), |e, side| format!("{side:?} {e}").to_lowercase())
            }
            tssa::Rhs::Number(Number::Literal(c)) => c.to_string(),
            tssa::Rhs::Number(Number::Index(a)) => affine(program, a),
            tssa::Rhs::Add([(p, x), (q, y)]) => format!("{}{} + {}{}", bracket(p), read(x), bracket(q), read(y)),
            tssa::Rhs::Map { guard, function, args } => {
                let args: Vec<String> = args.iter().map(read).collect();
                format!("{}{}({})", bracket(guard), function_name(*function), args.join(", "))
            }
            tssa::Rhs::Contract { sums, guard, operands } => {
                let sums: Vec<String> = sums
                    .iter()
                    .enumerate()
                    .map(|(k, n)| format!("i{} < {}", stmt.dims.len() + k, affine(program, n)))
                    .collect();
                let operands: Vec<String> = operands
                    .iter()
                    .map(|x| {
                        let indices: Vec<String> = x.indices.iter().map(ToString::to_string).collect();
                        if indices.is_empty() {
                            x.var.to_string()
                        } else {
                            format!("{}[{}]", x.var, indices.join(", "))
                        }
                    })
                    .collect();
                let sum = if sums.is_empty() { String::new() } else { format!("sum {}. ", sums.join(", ")) };
                format!("{sum}{}{}", bracket(guard), operands.join(" * "))
            }
        };
        let gen_ = if gens.is_empty() { String::new() } else { format!("gen {}. ", gens.join(", ")) };
        let _ = writeln!(text, "{x} = {gen_}{rhs}");
    }
    for output in &program.outputs {
        let leaves: Vec<String> = output.leaves.iter().map(ToString::to_string).collect();
        let _ = write!(text, "{}", leaves.join(", "));
    }
    text
}

fn function_name(function: Function) -> String {
    match function {
        Function::Value(Primitive::Op(Op::Compare(c))) => format!("{c:?}").to_lowercase(),
        Function::Value(Primitive::Op(op)) => format!("{op:?}").to_lowercase(),
        other => format!("{other:?}"),
    }
}

fn affine(program: &tssa::Program, a: &Affine) -> String {
    let mut text = String::new();
    let _ = a.write(&mut text, &mut |v| match v {
        Var::Index(i) => i.to_string(),
        Var::Size(n) => program.signature.sizes[*n].clone(),
        Var::Apply(_) => "a map application".to_owned(),
    });
    text
}

fn pred(program: &tssa::Program, p: &Pred) -> String {
    let join = |ps: &[Pred], word: &str| ps.iter().map(|p| pred(program, p)).collect::<Vec<_>>().join(word);
    match p {
        Pred::True => "true".to_owned(),
        Pred::False => "false".to_owned(),
        Pred::NonNegative(a) => format!("{} >= 0", affine(program, a)),
        Pred::Zero(a) => format!("{} = 0", affine(program, a)),
        Pred::NonZero(a) => format!("{} != 0", affine(program, a)),
        Pred::Relation { relation, args, holds } => {
            let name = match relation {
                RelationRef::Input(r) => program.signature.relations[*r].name.clone(),
                RelationRef::Computed { var, view: View::Support } => format!("{var}?"),
                RelationRef::Computed { var, view } => format!("{view:?} {var}").to_lowercase(),
            };
            let args: Vec<String> = args.iter().map(|a| affine(program, a)).collect();
            format!("{}{name}({})", if *holds { "" } else { "not " }, args.join(", "))
        }
        Pred::All(ps) => join(ps, " and "),
        Pred::Any(ps) => join(ps, " or "),
        Pred::Exists { index, extent, body } => {
            format!("exists {index} < {}. {}", affine(program, extent), pred(program, body))
        }
    }
}

fn wrap(p: &mut term::Program, lets: Vec<(VarId, TermId)>, body: TermId) -> TermId {
    lets.into_iter().rev().fold(body, |body, (var, value)| p.push(Term::Let { var, value, body }).unwrap())
}

/// All passes on a small stack.
fn normalise_deep(build: fn(&mut term::Program) -> TermId) -> tssa::Program {
    let run = move || {
        let mut p = term::Program::new(program("s").signature.clone());
        p.root = build(&mut p);
        pushed_out(&p).and_then(|p| to_tensor_ssa(&p)).unwrap_or_else(|e| panic!("{e}"))
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap()
}

const DEEP: usize = 1_000_000;

fn size(p: &term::Program, k: usize) -> crate::index::Size {
    Affine::size(p.signature.sizes.ids().nth(k).unwrap())
}

/// `gen i < n. let t1 = t0 + t0 in let t2 = t1 + t1 in .. tk`
#[test]
fn a_million_lets_under_a_gen() {
    let ssa = normalise_deep(|p| {
        let i = p.fresh_index("i");
        let mut lets = Vec::new();
        let x = p.push(Term::Var(VarId(0))).unwrap();
        let mut last = p.access(x, [Affine::index(i)]).unwrap();
        for _ in 0..DEEP {
            let t = p.fresh_var("t", Types::REAL);
            lets.push((t, last));
            let (a, b) = (p.push(Term::Var(t)).unwrap(), p.push(Term::Var(t)).unwrap());
            last = p.push(Term::Add(a, b)).unwrap();
        }
        let body = wrap(p, lets, last);
        let extent = size(p, 0);
        p.push(Term::Gen { index: i, extent, body }).unwrap()
    });
    assert_eq!(ssa.stmts.len(), DEEP + 1);
}

/// `let t = (let t = (let t = s * s in t * t) in t * t) in t * t ..`
#[test]
fn a_million_lets_in_values() {
    let ssa = normalise_deep(|p| {
        let mut value = p.push(Term::Var(VarId(6))).unwrap();
        for _ in 0..DEEP {
            let t = p.fresh_var("t", Types::REAL);
            let (a, b) = (p.push(Term::Var(t)).unwrap(), p.push(Term::Var(t)).unwrap());
            let body = p.push(Term::Mul(a, b)).unwrap();
            value = p.push(Term::Let { var: t, value, body }).unwrap();
        }
        value
    });
    assert_eq!(ssa.stmts.len(), DEEP + 1);
}

/// `sum i < n. (x[i] + .. + x[i])`
#[test]
fn a_million_additions() {
    let ssa = normalise_deep(|p| {
        let i = p.fresh_index("i");
        let read = |p: &mut term::Program| {
            let x = p.push(Term::Var(VarId(0))).unwrap();
            p.access(x, [Affine::index(i)]).unwrap()
        };
        let mut e = read(p);
        for _ in 0..DEEP {
            let x = read(p);
            e = p.push(Term::Add(e, x)).unwrap();
        }
        let extent = size(p, 0);
        p.push(Term::Sum { index: i, extent, body: e }).unwrap()
    });
    assert_eq!(ssa.stmts.len(), DEEP + 2);
}

/// `sum i1. let t = s * s in t + sum i2. let t = s * s in t + ..`: guards stay short, and nothing is looked at for each index around.
#[test]
fn a_hundred_thousand_nested_sums_with_lets() {
    let ssa = normalise_deep(|p| {
        let extent = size(p, 0);
        let mut e = p.push(Term::Var(VarId(6))).unwrap();
        for _ in 0..DEEP / 10 {
            let t = p.fresh_var("t", Types::REAL);
            let i = p.fresh_index("i");
            let (a, b) = (p.push(Term::Var(VarId(6))).unwrap(), p.push(Term::Var(VarId(6))).unwrap());
            let value = p.push(Term::Mul(a, b)).unwrap();
            let own = p.push(Term::Var(t)).unwrap();
            let sum = p.push(Term::Add(own, e)).unwrap();
            let body = p.push(Term::Let { var: t, value, body: sum }).unwrap();
            e = p.push(Term::Sum { index: i, extent: extent.clone(), body }).unwrap();
        }
        e
    });
    assert!(ssa.stmts.len() > DEEP / 10);
}

/// `sum i1. sum i2. .. s`: one contraction.
#[test]
fn a_hundred_thousand_sums_in_one() {
    let ssa = normalise_deep(|p| {
        let extent = size(p, 0);
        let mut e = p.push(Term::Var(VarId(6))).unwrap();
        for _ in 0..DEEP / 10 {
            let i = p.fresh_index("i");
            e = p.push(Term::Sum { index: i, extent: extent.clone(), body: e }).unwrap();
        }
        e
    });
    assert_eq!(ssa.stmts.len(), 2);
}

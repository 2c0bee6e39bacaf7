use super::elaborate;
use super::text::show_type;
use crate::base::Span;
use crate::error::Error;
use crate::scalar::{self, UserFunction};
use crate::surface::ast::{Ast, BinaryOp, Expr, ExprId, Name};
use crate::surface::read;
use crate::term::{Program, Style};

fn good(text: &str) -> Program {
    match read(text, &[]) {
        Ok(program) => {
            program.verify().unwrap_or_else(|e| panic!("{text}\n{e}\n{program:?}"));
            program
        }
        Err(error) => panic!("{text}\n{error}"),
    }
}

/// The program has a type, is sound, and reads back from its own text.
fn check_type(text: &str, ty: &str) {
    let program = good(text);
    assert_eq!(show_type(&program, program.ty(program.root)), ty, "{text}");
    let printed = program.print(Style::Ascii);
    let functions: Vec<_> = program.signature.functions.values().cloned().collect();
    let again = match read(&printed, &functions) {
        Ok(again) => again,
        Err(error) => panic!("{text}\nprints as\n{printed}\n{error}"),
    };
    again.verify().unwrap_or_else(|e| panic!("{text}\nprints as\n{printed}\n{e}"));
    assert_eq!(again.print(Style::Ascii), printed, "{text}");
}

#[test]
fn types() {
    for (text, ty) in [
        ("1", "real"),
        ("-3 + 2^2 - 1.5e-3 / 2", "real"),
        ("param x : real\n(x, (x, x))", "(real, (real, real))"),
        ("param x : [n] real\nx", "[n] real"),
        ("param x : [n] real\ngen i < n, j < n. x[i] * x[j]", "[n, n] real"),
        ("param x : [n + m - 1] real\nparam w : [m] real\ngen i < n. sum j < m. x[i - j + m - 1] * w[j]", "[n] real"),
        ("param ab : [n] (real, [3] real)\ngen i < n. (snd ab[i])[2]", "[n] real"),
        ("param ab : [n] (real, [3] real)\nsum i < n. fst ab[i]", "real"),
        ("param p : (real, [n] real)\nsnd p", "[n] real"),
        ("param x : [n] (real, real)\ngen i < n. [i = 0] * x[i]", "[n] (real, real)"),
        ("param x : [2, 3] real\ngen i < 3. x[1][i]", "[3] real"),
        ("param x : [2, 3] real\nx[1]", "[3] real"),
        ("param x : [n] real\nlet y = gen i < n. x[i] in let z = y in (y, z)", "([n] real, [n] real)"),
        ("param x : [n] real\ngen i < n - 1. x[i + 1] - x[i]", "[n - 1] real"),
        ("param x : [n] real\ngen i < 2*n. [i < n] * x[i]", "[2*n] real"),
        ("param x : [n] real\nlet n = x in n", "[n] real"),
        ("param x : [n] real\nsum i < n. n * real(2*i - 1) * i * x[i]", "real"),
    ] {
        check_type(text, ty);
    }
}

#[test]
fn brackets() {
    for (text, ty) in [
        (
            "param x : [n] real\nrel E : [n, n]\ngen i < n. sum j < n. [i < j and (E(i, j) or i + 1 = j)] * x[j]",
            "[n] real",
        ),
        ("param x : [n] real\nrel E : [n, n]\ngen i < n. [exists j < n. E(i, j) and not i = j] * x[i]", "[n] real"),
        ("param x : [n] real\nsum i < n. [x[i] > 0] * ln(x[i])", "real"),
        ("param x : [n] real\nsum i < n. [0 < x[i] <= 1 or not (x[i] >= 2)] * x[i]", "real"),
        ("param x : [n] real\nsum i < n. [x[i] != 0] * x[i] + [0 = x[i]] * 1", "real"),
        ("param x : [n] real\nsum i < n. [i + 1 < n and x[i + 1] > x[i]] * x[i]", "real"),
        ("param a : [n, m] real\nsum i < n. [exists k < m. a[i, k] > 2] * 1", "real"),
        ("param a : [n, m] real\nsum i < n. [exists k < m. k + 1 < m and a[i, k + 1] > 2] * 1", "real"),
        ("param x : [n] real\nparam t : real\n[exists k < n, l < n. x[k] > t and x[l] < t and k < l] * t", "real"),
        ("param t : real\n[t != 0] * 1 + [t = 1] * 2", "real"),
        (
            "param x : [n] real\nparam y : real\nselect(y > 0, y, -y) + sum i < n. select(i + 1 < n, x[i + 1], 0)",
            "real",
        ),
        ("param x : [n] real\nparam t : real\nlet c = gen i < n. x[i] < t in [exists i < n. c[i] != 0] * t", "real"),
        ("param x : [n] real\n[(sum i < n. [x[i] > 0] * x[i]) > 1] * 2", "real"),
        ("param x : [n] real\n[1 < 2] * 1 + [2 < 1] * x[5 - 5]", "real"),
        ("param x : [n] real\nsum i < n, j < n. [2*i = j] * x[j]", "real"),
    ] {
        check_type(text, ty);
    }
}

#[test]
fn maps() {
    for (text, ty) in [
        ("param x : [c, 3] real\nmap cam : [p] -> [c]\ngen o < p. x[cam(o)]", "[p, 3] real"),
        (
            "param x : [c] real\nmap cam : [p] -> [c]\ngen o < p, k < c. [cam(o) = k] * x[k] + [k != cam(o)] * 1",
            "[p, c] real",
        ),
        (
            "param x : [c] real\nmap f : [p] -> [p]\nmap g : [p, p] -> [c]\ngen o < p. x[g(f(o), f(f(o)))] + f(o)",
            "[p] real",
        ),
        (
            "param x : [c] real\nmap f : [p] -> [p]\nmap g : [p] -> [c]\ngen o < p. [f(o) < o and g(f(o)) = 1 and f(o) = f(f(o))] * x[g(o)]",
            "[p] real",
        ),
        ("param x : [c] real\nmap f : [p] -> [c]\ngen o < p + 1, k < c. [f(o) = k] * x[k]", "[p + 1, c] real"),
        ("param x : [c] real\nmap f : [p] -> [c]\nsum o < p + 1. [o < p] * x[f(o)]", "real"),
    ] {
        check_type(text, ty);
    }
}

#[test]
fn largest() {
    for (text, ty) in [
        ("param x : [n] real\nmax i < n. x[i]", "real"),
        ("param x : [n] real\nmin i < n. x[i]^2", "real"),
        ("param a : [n, m] real\nassume m >= 1\ngen i < n. max j < m. a[i, j]", "[n] real"),
        ("param x : [n] real\nparam y : [n] real\nx[argmax i < n. y[i]]", "real"),
        ("param x : [n] real\nparam y : [n] real\nx[argmin i < n. y[i] * x[i]] + argmax i < n. x[i]", "real"),
        ("param a : [n, m] real\nparam x : [m] real\ngen i < n. x[argmax j < m. a[i, j]]", "[n] real"),
        (
            "param a : [n, m] real\nparam x : [m] real\ngen i < n, j < m. [(argmax k < m. a[i, k]) = j] * x[j]",
            "[n, m] real",
        ),
        (
            "param a : [n, m] real\nparam x : [m] real\ngen j < m. [exists i < n. (argmax k < m. a[i, k]^2) = j] * x[j]",
            "[m] real",
        ),
        ("param x : [n] real\nmax i < n - 1. x[i]", "real"),
        ("param x : real\nmax(x, 0) + min(x, 1, 2) + max(-x, 0)", "real"),
    ] {
        check_type(text, ty);
    }
}

#[test]
fn sparse() {
    for (text, ty) in [
        ("param A : csr [m, n] real\nsum i < m, j < n. A[i, j]", "real"),
        ("param A : csr [m, n] real\nA", "[m, n] real"),
        (
            "param A : csc [m, n] real\nparam dA : csc(A) [m, n] real\ngen j < n. sum i < m. A[i, j] * dA[i, j]",
            "[n] real",
        ),
        ("param A : csr [m, n] real\ngen i < m. A[i]", "[m, n] real"),
        ("param A : csr [m, n] real\nsum i < m, j < n. [A?(i, j)] * A.value(i, j)^2", "real"),
        ("param A : csr [m, n] real\nparam x : [n] real\nmatvec(A, x)", "[m] real"),
        ("param T : coo [p, q, r] real\nsum i < p, j < q, k < r. [T[i, j, k] > 0] * T[i, j, k]", "real"),
        ("param A : csr [m, n] real\nsum i < m, j < n. [not A?(i, j)] * 1 + A[i + 1, j]", "real"),
        ("param A : csr [m, n] real\ngen j < n. sum i < m. [A?(i, j) and i > 0] * exp(A.value(i, j))", "[n] real"),
    ] {
        check_type(text, ty);
    }
}

#[test]
fn definitions() {
    for (text, ty) in [
        ("param x : [n] real\nparam y : [n] real\ndot(x, y) + squared_norm(x) + mean(y)", "real"),
        ("param x : [n + 1] real\ndot(x, x) + dot(gen i < 2. i, gen i < 2. i)", "real"),
        ("param A : [m, n] real\nparam B : [n, k + 2] real\nmatmul(A, B)", "[m, k + 2] real"),
        ("param A : [m, n] real\ntranspose(matmul(A, transpose(A)))", "[m, m] real"),
        ("param A : [n, n] real\nparam x : [n] real\ntrace(matmul(matmul(diag(x), A), outer(x, x)))", "real"),
        ("param x : [9] real\nparam w : [3] real\nconv(x, w)", "[7] real"),
        ("param x : [n + m - 1] real\nparam w : [m] real\nconv(x, w)", "[n] real"),
        ("param x : [n] real\n(softmax(x), logsumexp(x))", "([n] real, real)"),
        ("param x : [n] real\ngen i < n. relu(relu(x[i]))", "[n] real"),
        ("def dot(a : real, b : real) = a + b\ndot(1, 2)", "real"),
        // The parameters of a definition do not see the caller's names, nor the caller theirs.
        ("param x : [n] real\ndef f(i : real) = sum j < n. i * x[j]\nsum j < n. f(x[j] + j)", "real"),
        ("param x : [2*n] real\ndef half(a : [2*k] real) = gen i < k. a[2*i] + a[2*i + 1]\nhalf(x)", "[n] real"),
        ("param p : ([n] real, real)\ndef f(q : ([k] real, real)) = gen i < k. (fst q)[i] * snd q\nf(p)", "[n] real"),
        ("param x : [n] real\nparam y : [m] real\nassume n = m\ndot(x, y)", "real"),
        (
            "fun f(a, b) = a * exp(b) with (exp(b), result)\nparam x : real\nf(x, f(x, 1)) + f'0(x, 2) + exp'0(x)",
            "real",
        ),
    ] {
        check_type(text, ty);
    }
}

#[test]
fn bounds() {
    for text in [
        "param x : [n] real\ngen i < n. x[0]",
        "param x : [n] real\nassume n >= 2\nx[1] + x[n - 1]",
        "param x : [n] real\n[n >= 2] * x[1]",
        "param x : [n] real\ngen i < n. [i > 0] * x[i - 1]",
        "param x : [n] real\nsum i < n, j < n. [i + j < n] * x[i + j]",
        "param x : [n] real\nsum i < n, j < n. [i <= j] * x[j - i]",
        "param x : [n] real\nsum i < n. [2*i + 1 < n] * x[2*i + 1]",
        "param x : [n] real\nrel E : [m, n]\nsum i < m, j < 2*n. [E(i, j)] * x[j]",
        "param x : [n] real\nsum i < n, j < n. [i = 2*j] * x[2*j]",
        "param x : [n] real\nmap f : [m] -> [n]\nsum o < m. [f(o) > 0] * x[f(o) - 1]",
        "param x : [n] real\nsum i < n. [exists j < n. i = j + 1] * x[i - 1]",
        "param x : [n] real\nsum i < n. [i < 3 or i > 5] * x[i]",
        "param x : [n] real\nrel E : [n, n]\nsum i < n. [exists j < n. E(i + 1, j)] * x[i + 1]",
        "param x : [n] real\nassume n = 2*m and m >= 1\nsum i < m. x[2*i + 1] + x[n - 1]",
        "param x : [n] real\nsum i < n - 3. x[i + 2]",
        "param x : [n] real\n[exists k < n. x[0] > 0 and x[k] > 0] * 1",
        "param x : [n] real\nsum i < n. select(i < 1, 0, x[i - 1])",
        "param x : [n] real\nsum i < n. [exists j < n, k < n. j + k < n and k > 0 and x[j + k] > x[k - 1] and i = j] * 1",
    ] {
        check_type(text, if text.contains("\ngen") { "[n] real" } else { "real" });
    }
}

/// A tree made by hand, as the builder does, behind declarations in text.
fn built(head: &str, build: impl FnOnce(&mut Ast) -> ExprId) -> Result<Program, Vec<&'static str>> {
    let (mut ast, _) = crate::surface::parse(&format!("{head}\n0"));
    ast.body = Some(build(&mut ast));
    elaborate(&ast, &[]).map_err(|problems| problems.iter().map(|d| d.code).collect())
}

fn node(ast: &mut Ast, expr: Expr) -> ExprId {
    ast.push(expr, Span::default())
}

fn name(ast: &mut Ast, name: &str) -> ExprId {
    node(ast, Expr::Name(name.to_owned()))
}

fn access(ast: &mut Ast, array: &str, offset: i64) -> ExprId {
    let (array, i) = (name(ast, array), name(ast, "i"));
    let offset = node(ast, Expr::Number { value: offset as f64, integer: Some(offset) });
    let index = node(ast, Expr::Binary(BinaryOp::Add, i, offset));
    node(ast, Expr::Access { array, indices: vec![index] })
}

fn gen_i(ast: &mut Ast, body: ExprId) -> ExprId {
    let extent = name(ast, "n");
    let index = Name { text: "i".to_owned(), span: Span::default() };
    node(ast, Expr::Binder { kind: crate::surface::ast::BinderKind::Gen, index, extent, body })
}

fn check_built(head: &str, build: impl FnOnce(&mut Ast) -> ExprId, expected: &str) {
    let program = built(head, build).unwrap_or_else(|problems| panic!("{problems:?}"));
    program.verify().unwrap();
    let printed = program.print(Style::Ascii);
    let body = printed.lines().filter(|line| !line.starts_with("param")).collect::<Vec<_>>().join(" ");
    assert_eq!(body.split_whitespace().collect::<Vec<_>>().join(" "), expected);
}

#[test]
fn shared_expressions() {
    let x = "param x : [n] real\nparam s : real";
    // Bound where the uses meet, below the binder.
    check_built(
        x,
        |ast| {
            let e = access(ast, "x", 0);
            let square = node(ast, Expr::Binary(BinaryOp::Mul, e, e));
            gen_i(ast, square)
        },
        "gen i < n. let e = x[i] in e * e",
    );
    // Needed outside the bracket anyway.
    check_built(
        x,
        |ast| {
            let e = access(ast, "x", 0);
            let zero = node(ast, Expr::Number { value: 0.0, integer: Some(0) });
            let guard = node(ast, Expr::Binary(BinaryOp::Greater, e, zero));
            let relu = node(ast, Expr::Iverson { guard, body: e });
            gen_i(ast, relu)
        },
        "gen i < n. let e = x[i] in [e > 0] * e",
    );
    // In bounds only inside the brackets.
    check_built(
        x,
        |ast| {
            let e = access(ast, "x", 1);
            let (i, last) = (access(ast, "x", 1), name(ast, "n"));
            let Expr::Access { indices, .. } = ast.exprs[i].clone() else { unreachable!() };
            let guard = node(ast, Expr::Binary(BinaryOp::Less, indices[0], last));
            let one = node(ast, Expr::Iverson { guard, body: e });
            let two = node(ast, Expr::Iverson { guard, body: e });
            let sum = node(ast, Expr::Binary(BinaryOp::Add, one, two));
            gen_i(ast, sum)
        },
        "gen i < n. [i + 2 <= n] * x[i + 1] + [i + 2 <= n] * x[i + 1]",
    );
    // An index expression is no value.
    check_built(
        x,
        |ast| {
            let i = name(ast, "i");
            let twice = node(ast, Expr::Binary(BinaryOp::Sub, i, i));
            let array = name(ast, "x");
            let e = node(ast, Expr::Access { array, indices: vec![twice] });
            let sum = node(ast, Expr::Binary(BinaryOp::Add, e, twice));
            gen_i(ast, sum)
        },
        "gen i < n. x[0] + (i - i)",
    );
}

#[test]
fn doubling() {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let run = || {
        for (op, depth) in [(BinaryOp::Add, 1000), (BinaryOp::Mul, 100_000)] {
            let program = built("param s : real", |ast| {
                let s = name(ast, "s");
                (0..depth).fold(s, |e, _| node(ast, Expr::Binary(op, e, e)))
            })
            .unwrap();
            program.verify().unwrap();
            assert!(program.terms.len() < 5 * depth);
        }
        // Indices have no `let`, so what doubles is too large.
        let doubled = built("param x : [n] real", |ast| {
            let n = name(ast, "n");
            let index = (0..1000).fold(n, |e, _| node(ast, Expr::Binary(BinaryOp::Add, e, e)));
            let array = name(ast, "x");
            node(ast, Expr::Access { array, indices: vec![index] })
        });
        assert!(doubled.is_err_and(|codes| codes.contains(&"overflow") || codes.contains(&"too-large")));
    };
    thread.spawn(run).unwrap().join().unwrap();
}

/// What a program means, as the printer spells it.
#[test]
fn meaning() {
    let x = "param x : [n] real\nparam t : real\n";
    for (head, text, expected) in [
        (x, "sum i < n. [x[i] > 0] * ln(x[i])", "sum i < n. [x[i] > 0] * ln(x[i])"),
        // A moved comparison keeps what its accesses need, and no more.
        (
            x,
            "sum i < n. [t > 0 and i + 1 < n and i > 0 and x[i + 1] > x[i]] * x[i]",
            "sum i < n. let c = less(0, t) in let c_2 = [i + 2 <= n] * less(x[i], x[i + 1]) \
             in [i + 2 <= n and i >= 1 and c != 0 and c_2 != 0] * x[i]",
        ),
        (
            "param a : [n, m] real\n",
            "sum i < n. [exists k < m. k + 1 < m and a[i, k + 1] > 2] * 1",
            "sum i < n. let c = gen k < m. [k + 2 <= m] * less(2, a[i, k + 1]) \
             in [exists k < m. k + 2 <= m and c[k] != 0]",
        ),
        (
            x,
            "[exists k < n, l < n. x[k] > t and x[l] < t and k < l] * t",
            "let c = gen k < n. less(t, x[k]) in let c_2 = gen l < n. less(x[l], t) \
             in [exists k < n. exists l < n. k < l and c[k] != 0 and c_2[l] != 0] * t",
        ),
        (
            x,
            "[exists k < n. x[0] > 0 and x[k] > 0] * 1",
            "let c = [n >= 1] * less(0, x[0]) in let c_2 = gen k < n. less(0, x[k]) \
             in [exists k < n. c != 0 and c_2[k] != 0]",
        ),
        (
            x,
            "sum i < n. select(x[i] >= 1, x[i], -x[i])",
            "sum i < n. let c = less_equal(1, x[i]) in [c != 0] * x[i] + [c = 0] * -x[i]",
        ),
        (x, "sum i < n. [x[i] != 0] * x[i] + [0 = x[i]] * 1", "sum i < n. [x[i] != 0] * x[i] + [x[i] = 0]"),
        (x, "max i < n. x[i]^2", "let v = gen i < n. x[i]^2 in max i < n. v[i]"),
        ("param x : [n] real\nassume n >= 1\n", "min i < n. x[i]", "min i < n. x[i]"),
        (
            "param a : [n, m] real\nparam x : [m] real\n",
            "gen j < m. [exists i < n. (argmax k < m. a[i, k]^2) = j] * x[j]",
            "gen j < m. let v = gen i < n, k < m. a[i, k]^2 in [exists i < n. (argmax k < m. v[i, k]) = j] * x[j]",
        ),
        // A sparse argument stays sparse.
        ("param A : csr [m, n] real\nparam x : [n] real\n", "matvec(A, x)", "gen i < m. sum j < n. A[i, j] * x[j]"),
        ("param A : csr [m, n] real\n", "A", "gen i < m, j < n. A[i, j]"),
        (
            "param x : [c] real\nmap f : [p] -> [p]\nmap g : [p] -> [c]\n",
            "gen o < p. [g(f(o)) = 1 and f(o) <= o] * x[g(o)]",
            "gen o < p. [f(o) <= o and g(f(o)) = 1] * x[g(o)]",
        ),
        (x, "squared_norm(gen i < n. x[i] - t)", "let a = gen i < n. x[i] - t in sum i < n. a[i]^2"),
    ] {
        let text = format!("{head}{text}");
        let printed = good(&text).print(Style::Ascii);
        let declared = |line: &&str| !["param", "map", "assume"].iter().any(|word| line.starts_with(word));
        let body: Vec<&str> = printed.lines().filter(declared).flat_map(str::split_whitespace).collect();
        assert_eq!(body.join(" "), expected, "{text}");
    }
}

#[test]
fn prelude() {
    let (ast, problems) = crate::surface::parse(include_str!("../prelude.iv"));
    assert_eq!(problems, []);
    // A definition of the user may take the place of each, and changes no other.
    let reserved: Vec<&str> = ast
        .decls
        .iter()
        .map(|d| match d {
            crate::surface::ast::Decl::Def { name, .. } => name.text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    for call in ast.exprs.values() {
        if let Expr::Call { callee, .. } = call {
            assert!(!reserved.contains(&callee.text.as_str()), "`{}` may be redefined", callee.text);
        }
    }
    // Problems inside the library are blamed on the call.
    check_bad("param x : [n] real\nsoftmax(x, x)", &[("wrong-arity", "softmax(x, x)")]);
}

#[test]
fn registered_functions() {
    let halve = UserFunction::native("halve", 1, |x| x[0] / 2.0, vec![scalar::Formula::Number(0.5)]).unwrap();
    let program = read("param x : real\nhalve(halve(x))", std::slice::from_ref(&halve)).unwrap();
    program.verify().unwrap();
    let codes = |text: &str| match read(text, std::slice::from_ref(&halve)) {
        Err(Error::Program(found)) => found.iter().map(|d| d.code).collect(),
        _ => Vec::new(),
    };
    assert_eq!(codes("halve(1, 2)"), ["wrong-arity"]);
    assert_eq!(codes("fun halve(x) = x with (1)\n1"), ["duplicate-name"]);
    assert_eq!(codes("fun third(x) = halve(x) / 3 with (1)\nthird(1)"), [""; 0]);
}

#[test]
fn messages() {
    for (text, message, help) in [
        (
            "param x : [n] real\nsum i < n. x[i + 1]",
            "`x[i + 1]` may be out of bounds: `i + 1 < n` is not known where 0 <= i < n",
            "put a guard before it: `[i + 1 < n] * ..`",
        ),
        ("param weight : [n] real\nwieght", "`wieght` is not defined here", "did you mean `weight`?"),
        (
            "param x : [n] real\nparam y : [m] real\ndot(x, y)",
            "`dot` takes `b` of type `[n] real`, found `[m] real`",
            "if they are equal, say so: `assume m = n`",
        ),
        (
            "param x : [n, m] real\nmax i < n. x",
            "`max` takes numbers, found a value of type `[n, m] real`",
            "write it for each element: `gen i < n. ..`",
        ),
        (
            "param x : [n] real\n[not (exists k < n. x > x[k])] * 1",
            "`not exists` asks one place, found a comparison of tensors",
            "write it for each element: `gen i < n. ..`",
        ),
        (
            "param x : [n] real\nparam y : [m] real\n[x > 0 and y > 0] * x",
            "`>` takes tensors of shapes that agree, found `[n]` and `[m]`",
            "if the sizes are equal, say so: `assume n = m`",
        ),
    ] {
        let Err(Error::Program(found)) = read(text, &[]) else { panic!("{text}") };
        let shown = (found[0].message.as_str(), found[0].help.as_deref().unwrap_or_default());
        assert_eq!(shown, (message, help));
    }
}

#[test]
fn limits() {
    let codes = |text: String| match read(&text, &[]) {
        Err(Error::Program(found)) => found.iter().map(|d| d.code).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let alternating = format!("[{}0 < 1{}] * 1", "n > 3 and (n < 2 or ".repeat(80), ")".repeat(80));
    assert_eq!(codes(format!("param x : [n] real\n{alternating}")), ["too-deep"]);
    let nested = format!("x[{}o{}]", "f(".repeat(40), ")".repeat(40));
    assert_eq!(codes(format!("param x : [p] real\nmap f : [p] -> [p]\nsum o < p. {nested}")), ["too-deep"]);
    let many = (0..200).map(|k| format!("y{k}")).collect::<Vec<_>>().join(" + ");
    assert_eq!(codes(many).len(), super::MAX_DIAGNOSTICS);
    // Chains do not nest.
    good(&format!("param x : [n] real\n[{}n < 9] * 1", "n > 3 and ".repeat(50_000)));
    good(&format!(
        "param x : [n] real\nsum i < n. [{}i < n] * x[i{}]",
        "i > 3 or ".repeat(50_000),
        " + 1 - 1".repeat(50_000)
    ));
}

/// A program of a depth, read on a small stack.
fn check_deep(depth: usize, build: impl Fn(usize) -> String + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            let (ast, problems) = crate::surface::parse(&build(depth));
            assert_eq!(problems, []);
            let program = super::elaborate(&ast, &[]).unwrap_or_else(|d| panic!("{:?}", d.first()));
            assert!(program.terms.len() >= depth);
        })
        .unwrap()
        .join()
        .unwrap()
}

#[test]
fn deep_programs() {
    let head = "param x : [n] real\nparam s : real\nassume n >= 1\n";
    type Build = fn(usize) -> String;
    let cases: [(&str, Build); 16] = [
        ("additions", |n| format!("s{}", " + s".repeat(n))),
        ("right additions", |n| format!("{}s{}", "s + (".repeat(n), ")".repeat(n))),
        ("lets", |n| format!("{}s", "let y = s in ".repeat(n))),
        ("chained lets", |n| format!("let y = s in {}y", "let y = y * x[0] in ".repeat(n))),
        ("lets in lets", |n| format!("{}s{}", "let y = ".repeat(n), " in y".repeat(n))),
        ("gens", |n| format!("{}s", "gen i < n. ".repeat(n))),
        ("sums with accesses", |n| format!("{}0", "sum i < n. x[i] + ".repeat(n))),
        ("sums with shifted accesses", |n| format!("{}0", "sum i < n. [i > 0] * x[i - 1] + ".repeat(n))),
        ("pairs", |n| format!("{}s{}", "(s, ".repeat(n), ")".repeat(n))),
        ("guards", |n| format!("{}s", "[n > 1] * ".repeat(n))),
        ("guards with accesses", |n| format!("{}0", "[n > 1] * x[1] * ".repeat(n))),
        ("calls", |n| format!("{}s{}", "relu(".repeat(n), ")".repeat(n))),
        ("comparisons", |n| format!("{}s{}", "([".repeat(n), " > 0] * s)".repeat(n))),
        ("quantified comparisons", |n| format!("{}s{}", "([exists k < n. ".repeat(n), " > x[k]] * s)".repeat(n))),
        ("maxima", |n| format!("{}x[i]", "max i < n. x[i] + ".repeat(n))),
        ("selects", |n| format!("{}s{}", "select(s > 0, 1, ".repeat(n), ")".repeat(n))),
    ];
    for (what, build) in cases {
        println!("{what}");
        check_deep(30_000, move |n| format!("{head}{}", build(n)));
    }
}

/// The problems as `code` and the text at fault.
fn check_bad(text: &str, expected: &[(&str, &str)]) {
    let found = match read(text, &[]) {
        Err(Error::Program(found)) => found,
        other => panic!("{text}\n{other:?}"),
    };
    let shown: Vec<(&str, &str)> = found.iter().map(|d| (d.code, &text[d.span.range()])).collect();
    assert_eq!(shown, expected, "{text}\n{found:#?}");
}

#[test]
fn problems() {
    let x = "param x : [n] real\n";
    let xy = "param x : [n] real\nparam y : [m] real\nparam s : real\nrel E : [n, n]\nmap f : [n] -> [m]\nparam A : csr [m, n] real\n";
    for (head, text, expected) in [
        ("", "y", vec![("unknown-name", "y")]),
        (x, "sum i < k. 1", vec![("unknown-size", "k")]),
        (x, "sum i < n. x[j]", vec![("unknown-name", "j")]),
        (x, "foo(x)", vec![("unknown-name", "foo")]),
        (
            x,
            "sum i < n. y[i] + z[i] + exq(i)",
            vec![("unknown-name", "y"), ("unknown-name", "z"), ("unknown-name", "exq")],
        ),
        // One mistake, one message.
        (x, "let y = z in let w = y + 1 in w * y[3] + exp(y)", vec![("unknown-name", "z")]),
        (x, "sum i < k. x[i + 7]", vec![("unknown-size", "k")]),
        (x, "sum i < n. [q(i)] * x[i + 1]", vec![("unknown-name", "q(i)")]),
        (x, "sum i < n. [q < 3 and x[i + 1] > 0] * 1", vec![("unknown-name", "q")]),
        (x, "gen i < n, j < i. x[j]", vec![("index-in-extent", "i")]),
        (x, "gen i < x[0]. 1", vec![("not-a-size", "x[0]")]),
        (xy, "gen i < s. 1", vec![("not-a-size", "s")]),
        (xy, "gen i < n*m. 1", vec![("not-affine", "n*m")]),
        (xy, "gen i < E. 1", vec![("not-a-size", "E")]),
        (x, "(x, 1) + 1", vec![("expected-real", "(x, 1)")]),
        (x, "exp((1, 2))", vec![("expected-real", "(1, 2)")]),
        (xy, "x + y", vec![("shape-mismatch", "x + y")]),
        (xy, "A * x", vec![("shape-mismatch", "A * x")]),
        (xy, "A @ y", vec![("shape-mismatch", "A @ y")]),
        (xy, "s @ y", vec![("expected-tensor", "s @ y")]),
        (xy, "x'", vec![("expected-tensor", "x'")]),
        (xy, "sum(s)", vec![("expected-tensor", "sum(s)")]),
        (xy, "sum(x, 0)", vec![("wrong-arity", "sum(x, 0)")]),
        (xy, "x^T", vec![("expected-tensor", "x^T")]),
        (x, "sum i. 1", vec![("unknown-range", "i")]),
        (xy, "sum i. x[i] * y[i]", vec![("unknown-range", "i")]),
        (xy, "gen i < n. x[(i + 3) % n]", vec![("out-of-bounds", "(i + 3) % n")]),
        (xy, "x[:, 0]", vec![("too-many-indices", "x[:, 0]")]),
        (x, "sum i < n. (x[i], 1)", vec![("expected-real", "(x[i], 1)")]),
        (x, "select(0 < n, (x, 1), x)", vec![("expected-real", "(x, 1)")]),
        ("def g(a : [n] real) : real = a\nparam x : [n] real\n", "g(x)", vec![("type-mismatch", "real")]),
        (
            "def g(a : [n] real) : [n + 1] real = a\nparam x : [n] real\n",
            "g(x)",
            vec![("type-mismatch", "[n + 1] real")],
        ),
        (x, "max i < n. x", vec![("expected-real", "x")]),
        (x, "[x > 1] * (1, 2)", vec![("shape-mismatch", "[x > 1] * (1, 2)")]),
        (x, "fst x", vec![("expected-pair", "fst x")]),
        (xy, "s[0]", vec![("not-a-tensor", "s")]),
        (x, "sum i < n. x[i, i]", vec![("too-many-indices", "x[i, i]")]),
        (xy, "sum i < n. A[i, i, i]", vec![("too-many-indices", "A[i, i, i]")]),
        (xy, "sum i < n. E[i, i]", vec![("not-a-value", "E")]),
        (xy, "sum i < n. x(i)", vec![("not-a-function", "x")]),
        (xy, "[s] * 1", vec![("not-a-predicate", "s")]),
        (xy, "[s + 1] * 1", vec![("not-a-predicate", "s + 1")]),
        (xy, "[exp(s)] * 1", vec![("not-a-predicate", "exp(s)")]),
        (xy, "[x?(0)] * 1", vec![("no-pattern", "x?(0)")]),
        (xy, "x.value(0)", vec![("no-pattern", "x.value(0)")]),
        (xy, "sum i < n. [E(i)] * 1", vec![("wrong-arity", "E(i)")]),
        (xy, "sum i < n. f(i, i)", vec![("wrong-arity", "f(i, i)")]),
        (xy, "exp(s, s)", vec![("wrong-arity", "exp(s, s)")]),
        (xy, "max(s)", vec![("expected-tensor", "max(s)")]),
        (xy, "dot(x)", vec![("wrong-arity", "dot(x)")]),
        (xy, "A.value(0)", vec![("wrong-arity", "A.value(0)")]),
        (xy, "x[s]", vec![("value-as-index", "s")]),
        (xy, "let k = s in x[k]", vec![("value-as-index", "k")]),
        (xy, "x[1.5]", vec![("not-an-index", "1.5")]),
        (xy, "sum i < n. x[i / 2]", vec![("not-an-index", "i / 2")]),
        (xy, "sum i < n. [i * i < n] * x[i]", vec![("not-affine", "i * i")]),
        (xy, "sum i < n. real(x[i])", vec![("not-an-index", "x[i]")]),
        (xy, "sum i < n. x[i + 1]", vec![("out-of-bounds", "x[i + 1]")]),
        (xy, "x[0]", vec![("out-of-bounds", "x[0]")]),
        (xy, "sum i < n. y[i]", vec![("out-of-bounds", "y[i]")]),
        (xy, "sum i < m. x[f(i)]", vec![("out-of-bounds", "f(i)")]),
        (xy, "sum i < n. x[f(i)]", vec![("out-of-bounds", "x[f(i)]")]),
        (xy, "sum i < n. [i > 0 or x[i - 1] > 0] * 1", vec![("out-of-bounds", "x[i - 1]")]),
        (xy, "sum i < n. [x[i + 1] > 0 and i + 1 < n] * 1", vec![("out-of-bounds", "x[i + 1]")]),
        (xy, "sum i < n. [i > 0] * x[i] + x[i - 1]", vec![("out-of-bounds", "x[i - 1]")]),
        (xy, "let y = x[1] in [n > 1] * y", vec![("out-of-bounds", "x[1]")]),
        (xy, "sum i < m, j < n. A.value(i, j)", vec![("unguarded-value", "A.value(i, j)")]),
        (xy, "sum i < m, j < n. [A?(i, j)] * A.value(j, i)", vec![("unguarded-value", "A.value(j, i)")]),
        (xy, "dot(x, y)", vec![("size-mismatch", "y")]),
        (xy, "dot(x, s)", vec![("type-mismatch", "s")]),
        (xy, "trace(A)", vec![("size-mismatch", "A")]),
        (
            "param x : [n] real\nassume not (exists k < n. 2*k + 1 = n)\n",
            "1",
            vec![("bad-assumption", "not (exists k < n. 2*k + 1 = n)")],
        ),
        (xy, "sum i < n. [i < 9223372036854775808] * x[i]", vec![("not-an-index", "9223372036854775808")]),
        (
            xy,
            "sum i < n. x[9223372036854775807*i + 9223372036854775807*i]",
            vec![("overflow", "9223372036854775807*i + 9223372036854775807*i")],
        ),
        ("def g(a : real) = g(a)\n", "g(1)", vec![("recursion", "g(a)")]),
        ("def g(a : real) = h(a)\ndef h(a : real) = g(a)\n", "g(1)", vec![("recursion", "g(a)")]),
        ("def g(a : [j + k] real) = 1\nparam x : [n] real\n", "g(x)", vec![("size-mismatch", "x")]),
        ("def g(a : [2*k] real) = 1\nparam x : [3] real\n", "g(x)", vec![("size-mismatch", "x")]),
        ("def g(a : real, a : real) = 1\n", "g(1, 2)", vec![("duplicate-name", "a")]),
        (
            "def g(a : real) = b\nparam b : [n] real\n",
            "let c = 1 in g(c)[n] + g(1)",
            vec![("out-of-bounds", "g(c)[n]")],
        ),
        ("def g(a : real) = c\n", "let c = 1 in g(c)", vec![("unknown-name", "c")]),
        ("param x : real\nparam x : real\n", "x", vec![("duplicate-name", "x")]),
        ("param n : real\nparam x : [n] real\n", "1", vec![("duplicate-name", "n")]),
        ("rel exp : [n]\n", "1", vec![("duplicate-name", "exp")]),
        ("param A : csr [n] real\n", "A[0]", vec![("bad-storage", "[n] real")]),
        ("param A : csc [n] real\n", "A[0]", vec![("bad-storage", "[n] real")]),
        ("param A : csr [n, n] real\nparam B : csc(A) [n, n] real\n", "1", vec![("bad-storage", "A")]),
        ("param A : csc [n, n] real\nparam B : coo(A) [n, n] real\n", "1", vec![("bad-storage", "A")]),
        ("param A : csr [n, n] (real, real)\n", "1", vec![("bad-storage", "[n, n] (real, real)")]),
        ("param A : coo real\n", "1", vec![("bad-storage", "real")]),
        ("param x : [n * n] real\n", "1", vec![("not-affine", "n * n")]),
        ("param x : [1.5] real\n", "x", vec![("not-a-size", "1.5")]),
        (
            "param x : [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] real\n",
            "1",
            vec![("too-large", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] real")],
        ),
        ("param x : [n] real\nassume x[0] > 1\n", "1", vec![("bad-assumption", "x[0]")]),
        ("param x : [n] real\nassume x > 1\n", "1", vec![("bad-assumption", "x > 1")]),
        ("param x : real\nassume x > 1\n", "1", vec![("bad-assumption", "x > 1")]),
        ("assume 1 > 2\n", "1", vec![("bad-assumption", "1 > 2")]),
        ("fun g(a) = b with (1)\n", "g(1)", vec![("unknown-name", "b")]),
        ("fun g(a) = sum i < n. a with (1)\n", "g(1)", vec![("bad-function", "sum i < n. a")]),
        ("fun g(a) = a with (1, 2)\n", "g(1)", vec![("partials-count", "g")]),
        ("fun g(a) = result with (1)\n", "g(1)", vec![("unknown-name", "result")]),
    ] {
        let text = format!("{head}{text}");
        check_bad(&text, &expected);
    }
}

/// What is written over whole tensors is the same as with indices.
#[test]
fn whole_tensors() {
    let head = "param x : [n] real\nparam y : [n] real\nparam A : [n, n] real\nparam S : csr [n, n] real\nparam s : real\nassume n >= 1\n";
    for (short, long) in [
        ("x + y * 2", "gen i < n. x[i] + y[i] * 2"),
        ("-x^2 / s", "gen i < n. -x[i]^2 / s"),
        ("(x + y) * (x - y)", "gen i < n. (x[i] + y[i]) * (x[i] - y[i])"),
        ("exp(A) + S", "gen i < n, j < n. exp(A[i, j]) + S[i, j]"),
        ("A[0] + x", "gen i < n. A[0, i] + x[i]"),
        ("A[0, :] * x", "gen i < n. A[0, i] * x[i]"),
        ("A[:, 0]", "gen i < n. A[i, 0]"),
        ("S[:, 0]", "gen i < n. S[i, 0]"),
        ("sum(x * y)", "sum i < n. x[i] * y[i]"),
        ("sum(A)", "sum i < n, j < n. A[i, j]"),
        ("mean(x)", "(sum i < n. x[i]) / n"),
        ("mean(A)", "(sum i < n, j < n. A[i, j]) / n / n"),
        ("mean i < n. x[i]", "(sum i < n. x[i]) / real(n)"),
        ("max(x)", "max i < n. x[i]"),
        ("max(x, 0)", "gen i < n. max(x[i], 0)"),
        ("[x > 0] * exp(x)", "let c = gen i < n. (x[i] > 0) in gen i < n. [c[i] != 0] * exp(x[i])"),
        ("[A > 0] * s", "let c = gen i < n, j < n. (A[i, j] > 0) in gen i < n, j < n. [c[i, j] != 0] * s"),
        (
            "if x > 0 and y < x then s else x^2",
            "let c = gen i < n. (x[i] > 0) in let d = gen i < n. (y[i] < x[i]) in gen i < n. if c[i] != 0 and d[i] != 0 then s else x[i]^2",
        ),
        (
            "sum(if not x > s then exp(x) else 0)",
            "let c = gen i < n. (x[i] > s) in sum i < n. if c[i] = 0 then exp(x[i]) else 0",
        ),
        (
            "gen k < n. sum([x > x[k] and k > 0] * x)",
            "gen k < n. let c = gen i < n. (x[i] > x[k]) in sum i < n. [c[i] != 0 and k > 0] * x[i]",
        ),
        (
            "exp(if x > 0 then (if y > 0 then x else y) else 1)",
            "let c = gen i < n. (x[i] > 0) in let d = gen i < n. (y[i] > 0) in gen i < n. exp(if c[i] != 0 then (if d[i] != 0 then x[i] else y[i]) else 1)",
        ),
        ("x @ y", "sum i < n. x[i] * y[i]"),
        ("A @ x", "gen i < n. sum j < n. A[i, j] * x[j]"),
        ("x @ S", "gen i < n. sum j < n. x[j] * S[j, i]"),
        ("A @ S", "gen i < n, j < n. sum k < n. A[i, k] * S[k, j]"),
        ("A'", "gen j < n, i < n. A[i, j]"),
        ("(S + A)'", "gen j < n, i < n. S[i, j] + A[i, j]"),
        ("A' @ x", "gen i < n. sum j < n. A[j, i] * x[j]"),
        ("A @ (x + y)", "let b = gen i < n. x[i] + y[i] in gen i < n. sum j < n. A[i, j] * b[j]"),
        ("x / sum(x)", "let t = sum i < n. x[i] in gen i < n. x[i] / t"),
        ("[0 < n] * x + y", "gen i < n. ([0 < n] * x[i]) + y[i]"),
        ("if s > 0 then x else 1", "let c = s > 0 in gen i < n. ([c != 0] * x[i]) + [not c != 0] * 1"),
        ("sum(x > 0)", "sum i < n. (x[i] > 0)"),
        ("let z = x + y\nz * z", "let z = gen i < n. x[i] + y[i] in gen i < n. z[i] * z[i]"),
        ("let x' = x in x' + y", "let x' = x in gen i < n. x'[i] + y[i]"),
        ("log(s) + pi", "ln(s) + 3.141592653589793"),
        ("let (a, b) = (x, y)\na + b", "let p = (x, y) in let a = fst p in let b = snd p in gen i < n. a[i] + b[i]"),
    ] {
        let [short, long] = [short, long].map(|text| good(&format!("{head}{text}")));
        short.verify().unwrap();
        assert!(short.same(&long), "{short}\n{long}");
        assert!(good(&short.to_string()).same(&short), "{short}");
    }
}

#[test]
fn imports() {
    let mut loader = |from: &str, path: &str| {
        let text = match path {
            "a.iv" => "import \"b.iv\"\ndef twice(x : real) = 2 * once(x)",
            "b.iv" => "import \"a.iv\"\ndef once(x : real) = soft(x)\nfun soft(a) = a^3 with (3 * a^2)",
            "bad.iv" => "def f(x : real) = \n\n)",
            "param.iv" => "param x : real",
            _ => return Err(format!("not there, for `{from}`")),
        };
        Ok(crate::surface::Import { name: path.to_owned(), text: text.to_owned() })
    };
    let mut read = |text: &str| crate::surface::read_with(text, &[], &mut loader);
    let program = read("import \"a.iv\"\nparam y : real\ntwice(y)").unwrap().program;
    assert!(program.to_string().trim_end().ends_with("2 * soft(y)"), "{program}");
    // A definition of the program takes the place of an imported one.
    let program = read("import \"a.iv\"\ndef once(x : real) = x\nparam y : real\ntwice(y)").unwrap().program;
    assert!(program.to_string().trim_end().ends_with("2 * y"), "{program}");
    for (text, message) in [
        ("import \"c.iv\"\n1", "`c.iv` cannot be imported: not there, for ``"),
        ("import \"bad.iv\"\n1", "`bad.iv`, line 3: expected an expression, found `)`"),
        (
            "import \"param.iv\"\n1",
            "`param.iv` holds more than definitions: only `def`, `fun` and `import` may be imported",
        ),
    ] {
        let Err(Error::Program(found)) = read(text) else { panic!("{text}") };
        assert_eq!((found[0].code, found[0].message.as_str()), ("import", message));
    }
}

#[test]
fn empty_results_are_told() {
    let mut nothing = |_: &str, _: &str| Err(String::new());
    for (sizes, warns) in [((3, 5), true), ((4, 5), true), ((5, 5), false), ((6, 5), false)] {
        let (n, m) = sizes;
        let text = format!("param x : [{n}] real\nparam w : [{m}] real\nsum(conv(x, w))");
        let read = crate::surface::read_with(&text, &[], &mut nothing).unwrap();
        let found: Vec<&str> = read.warnings.iter().map(|w| w.code).collect();
        assert_eq!(found, Vec::from_iter(warns.then_some("empty-by-size")), "{text}");
    }
    let text = "param x : [n] real\nparam w : [m] real\nassume n >= m\nassume m >= 1\nsum(conv(x, w))";
    assert_eq!(crate::surface::read_with(text, &[], &mut nothing).unwrap().warnings, []);
}

//! What is laid out how, and that nothing but white space changes.

use std::path::Path;

use super::super::parser::parse;
use super::super::sexpr::{decls, sexpr};
use super::format;

/// A text, and the same as it is laid out.
const CASES: &[(&str, &str)] = &[
    ("param x:[n]real\nsum i<n.x[i]^2", "param x : [n] real\nsum i < n. x[i]^2\n"),
    ("param x : real;  param y : real ; x*y-(-x)/ 2 ^ -y", "param x : real; param y : real; x * y - (-x) / 2^-y\n"),
    ("param x : [n] real\n-sum i<n. - x [ i ]*1e-3", "param x : [n] real\n-sum i < n. -x[i] * 1e-3\n"),
    // A block, its continued lines, and a body that is indented.
    (
        "param x : [n] real\nlet a = sum i < n.\nx[i]\n   let b = a +\na\nin a *\n   b",
        "param x : [n] real\nlet a = sum i < n.\n  x[i]\nlet b = a +\n  a\nin a *\n  b\n",
    ),
    // Deeper for each line on which something begins that goes on; a bracket closes where it was opened.
    (
        "param x : [n] real\ngen i < n.\nsum (\nj < n\n). [i < j] *\n(x[i]\n+ x[j]\n- 1)\n",
        "param x : [n] real\ngen i < n.\n  sum (\n    j < n\n  ). [i < j] *\n    (x[i]\n      + x[j]\n      - 1)\n",
    ),
    ("def f(a : real,\nb : real) =\na + b\nf(1,\n2)", "def f(a : real,\n  b : real) =\n  a + b\nf(1,\n  2)\n"),
    // A parenthesis begins the body.
    ("param x : real\n(x\n+ 1)", "param x : real\n(x\n  + 1)\n"),
    // A difference that goes on, and a body that begins with a sign.
    ("param x : real\nlet a = x\n    -x\na", "param x : real\nlet a = x\n  -x\na\n"),
    ("param x : real\nlet a = x\n-a", "param x : real\nlet a = x\n-a\n"),
    // Comments stay where they are: those that end lines below each other, those of their own with what follows.
    (
        "\n\n#  first\nparam x : [n] real # a\nparam long : real // b  \n\n\n# last of all\n\nsum i < n.\n# inside\nx[i] # c\n\n# end\n\n",
        "#  first\nparam x : [n] real  # a\nparam long : real   // b\n\n# last of all\n\nsum i < n.\n  # inside\n  x[i]  # c\n\n# end\n",
    ),
    // What may be written with a blank or without stays as it was written.
    (
        "param x : [n] real\nsum (i < n) x[i] + sum(x) + mean (i<n) x[i]",
        "param x : [n] real\nsum (i < n) x[i] + sum(x) + mean (i < n) x[i]\n",
    ),
    (
        "param A:csr[m,n]real\nparam dA:csr(A)[m,n]real\n[A?(0,0)]A.value( 0 , 0 )*[ A? (1,1) ]*2",
        "param A : csr[m, n] real\nparam dA : csr(A)[m, n] real\n[A?(0, 0)] A.value(0, 0) * [A?(1, 1)] * 2\n",
    ),
    ("param x : [n] real\nx[1:]-x[:-1]+x[ 0 : n-1 ]²", "param x : [n] real\nx[1:] - x[:-1] + x[0 : n - 1]²\n"),
    ("param A : [n, n] real\nA'@A [0,:].*A[:,0]", "param A : [n, n] real\nA' @ A[0, :] .* A[:, 0]\n"),
    (
        "map f:[n]->[m]\nrel E:[n,n]\nsum i<n.[not E(i,i)and f(i)!=i]*1",
        "map f : [n] -> [m]\nrel E : [n, n]\nsum i < n. [not E(i, i) and f(i) != i] * 1\n",
    ),
    ("param x : [2*n] real\n1/2*x[0]*x[1]+2 *x[0]", "param x : [2*n] real\n1/2*x[0] * x[1] + 2 * x[0]\n"),
    ("import   \"lib.iv\"\nparam x:real\nf (x)", "import \"lib.iv\"\nparam x : real\nf(x)\n"),
    (
        "param x : [n] real\n⊞i<n.Σj<n.[¬(i≤j)∧i≠j]·x[j]",
        "param x : [n] real\n⊞ i < n. Σ j < n. [¬(i ≤ j) ∧ i ≠ j] · x[j]\n",
    ),
    ("\u{feff}param x : real\r\nx\t+\t1\r\n", "param x : real\nx + 1\n"),
    // A block in a loop that data end.
    (
        "param x:real\nlet k,p=unfold (s,r)=(x,1)while s<2,at most 9.\nlet a=s\nlet b=a\nin (a+b,r)\nfst p[k]",
        "param x : real\nlet k, p = unfold (s, r) = (x, 1) while s < 2, at most 9.\n  let a = s\n  let b = a\n  in (a + b, r)\nfst p[k]\n",
    ),
    (
        "param x:real\niterate s=x while s<2,at most 9.\nlet a=s\nlet b=a\nin a+b",
        "param x : real\niterate s = x while s < 2, at most 9.\n  let a = s\n  let b = a\n  in a + b\n",
    ),
    // Functions and their types.
    (
        "param x:real\ndef g(f:(real,real)->real->real,h:[n]real->real)=f(x)(1)\nlet f=fn a:real,v:[2]real.\n# why\na+v[0]*x # behind\nlet k = fn (a,b):(real,real) .   a*b\n(f)(1,z)+k( (1,2))+ (fn a.a)(2)\n",
        "param x : real\ndef g(f : (real, real) -> real -> real, h : [n] real -> real) = f(x)(1)\nlet f = fn a : real, v : [2] real.\n  # why\n  a + v[0] * x  # behind\nlet k = fn (a, b) : (real, real). a * b\n(f)(1, z) + k((1, 2)) + (fn a. a)(2)\n",
    ),
    // Loops, with their comments.
    (
        "param x:[n]real\nlet h=scan t<n down ,h=0 .h*x[t]# a\nfold t<n,( a,b )=( 0,h[t] ) .# of two\n# the step\nlet c = a*b\n(b,# next\nc)",
        "param x : [n] real\nlet h = scan t < n down, h = 0. h * x[t]  # a\nfold t < n, (a, b) = (0, h[t]).           # of two\n  # the step\n  let c = a * b\n  (b,  # next\n    c)\n",
    ),
    (
        "param x : [n] real\nfold t < n,\ns = x[0]\n+ 1.\ns * x[t]",
        "param x : [n] real\nfold t < n,\n  s = x[0]\n    + 1.\n  s * x[t]\n",
    ),
    // A library.
    (
        "def f(a:real)=a\n\n# of two\ndef g(a:real)=\nf(a)",
        "def f(a : real) = a\n\n# of two\ndef g(a : real) =\n  f(a)\n",
    ),
];

/// What a text says, without places.
fn meaning(text: &str) -> (Vec<String>, Option<String>) {
    let (ast, problems) = parse(text);
    assert!(problems.iter().all(|problem| problem.code == "missing-body"), "{text}\n{problems:?}");
    let imports = ast.imports.iter().map(|import| import.text.clone());
    (decls(&ast).into_iter().chain(imports).collect(), ast.body.map(|body| sexpr(&ast, body)))
}

#[test]
fn texts_are_laid_out() {
    for (text, expected) in CASES {
        let laid_out = format(text).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
        assert_eq!(laid_out, *expected, "of\n{text}");
        assert_eq!(meaning(&laid_out), meaning(text), "of\n{text}");
        assert_eq!(format(&laid_out).unwrap(), laid_out, "of\n{text}");
    }
}

/// All programs of the examples and of the tests, as they are and with other blanks, keep their meaning, and are laid out once.
#[test]
fn programs_keep_their_meaning() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut seen = 0;
    for folder in ["examples/programs", "tests/habits", "tests/programs", "tests/regressions", "src/surface"] {
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "iv") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let Ok(laid_out) = format(&text) else {
                assert!(parse(&text).1.iter().any(|problem| problem.code != "missing-body"), "{}", path.display());
                continue;
            };
            seen += 1;
            for text in [text.clone(), with_other_blanks(&text, &mut random)] {
                let again = format(&text).unwrap();
                assert_eq!(meaning(&again), meaning(&text), "{}", path.display());
                assert_eq!(format(&again).unwrap(), again, "{}", path.display());
            }
            // Blanks do not matter where brackets stand as they did.
            let wider: String = text.split('\n').map(|line| line.to_owned() + "  \n").collect();
            assert_eq!(format(&wider).unwrap(), laid_out, "{}", path.display());
        }
    }
    assert!(seen >= 90, "{seen}");
}

/// A text with blanks between tokens doubled, at random.
fn with_other_blanks(text: &str, random: &mut fastrand::Rng) -> String {
    let mut other = String::new();
    for line in text.lines() {
        let code = line.split(['#', '"']).next().unwrap_or("");
        let code = code.split("//").next().unwrap_or("");
        let (indent, rest) = code.split_at(code.len() - code.trim_start().len());
        other += indent;
        for c in rest.chars() {
            other.push(c);
            if c == ' ' || matches!(c, ',' | '(') && random.bool() {
                other += ["", " ", "\t", "   "][random.usize(0..4)];
            }
        }
        other += &line[code.len()..];
        other.push('\n');
    }
    other
}

#[test]
fn what_does_not_parse_is_refused() {
    let error = format("param x : [n] real\nsum i < n. x[i").unwrap_err();
    assert!(error.to_string().contains("line 2, column 13"), "{error}");
}

/// Deep texts need no more stack than others.
#[test]
fn depth_costs_time_alone() {
    let depth = 20_000;
    let text = format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(format(&text).unwrap(), text.clone() + "\n");
    let text = "1\n+ ".repeat(depth) + "1";
    assert_eq!(format(&text).unwrap().lines().nth(depth), Some("  + 1"));
}

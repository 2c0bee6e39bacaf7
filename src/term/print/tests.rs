//! How terms are spelt, and that what is printed reads back as the same program.

use std::sync::Arc;

use super::Style;
use crate::base::{IndexId, ParamId, RelationId, VarId};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Formula, Function, Number, Op, Primitive, UserFunction};
use crate::surface;
use crate::term::{NormalForm, Program, Term, TermId};
use crate::ty::{Format, Param, Relation, RelationKind, Signature, Storage, Types};

/// Sizes n, m; parameters x : [n] real, A : csr [m, n] real, s : real, p : (real, [n] real); relation E : [n, n]; map cam : [n] -> [m].
fn signature() -> Signature {
    let mut sig = Signature::default();
    let n = Size::size(sig.sizes.push("n".into()));
    let m = Size::size(sig.sizes.push("m".into()));
    let vector = sig.types.tensor(n.clone(), Types::REAL);
    let matrix = sig.types.tensor(m.clone(), vector);
    let pair = sig.types.pair(Types::REAL, vector);
    let mut param = |name: &str, ty, storage| sig.params.push(Param { name: name.into(), ty, storage });
    param("x", vector, Storage::Dense);
    let a = param("A", matrix, Storage::Sparse(Format::Csr, RelationId(0)));
    param("s", Types::REAL, Storage::Dense);
    param("p", pair, Storage::Dense);
    let mut relation = |name: &str, shape: [&Size; 2], kind| {
        sig.relations.push(Relation { name: name.into(), shape: shape.map(Clone::clone).to_vec(), kind })
    };
    relation("A?", [&m, &n], RelationKind::Pattern(a));
    relation("E", [&n, &n], RelationKind::Free);
    relation("cam", [&n, &m], RelationKind::Map);
    sig
}

const HEADER: &str = "\
param x : [n] real
param A : csr [m, n] real
param s : real
param p : (real, [n] real)
rel E : [n, n]
map cam : [n] -> [m]
";

/// A program under construction; every function gives a new term.
struct Make(Program);

const X: VarId = VarId(0);
const A: VarId = VarId(1);
const S: VarId = VarId(2);
const P: VarId = VarId(3);

impl Make {
    fn new() -> Self {
        Make(Program::new(Arc::new(signature())))
    }
    fn n(&self) -> Size {
        Size::size(crate::base::SizeId(0))
    }
    fn m(&self) -> Size {
        Size::size(crate::base::SizeId(1))
    }
    fn push(&mut self, term: Term) -> TermId {
        self.0.push(term).expect("a typed term")
    }
    fn lit(&mut self, x: f64) -> TermId {
        self.push(Term::Number(Number::Literal(x)))
    }
    fn var(&mut self, x: VarId) -> TermId {
        self.push(Term::Var(x))
    }
    fn s(&mut self) -> TermId {
        self.var(S)
    }
    fn add(&mut self, a: TermId, b: TermId) -> TermId {
        self.push(Term::Add(a, b))
    }
    fn mul(&mut self, a: TermId, b: TermId) -> TermId {
        self.push(Term::Mul(a, b))
    }
    fn neg(&mut self, a: TermId) -> TermId {
        let minus = self.lit(-1.0);
        self.mul(minus, a)
    }
    fn op(&mut self, op: Op, args: &[TermId]) -> TermId {
        self.push(Term::Apply(op.into(), args.to_vec()))
    }
    fn at(&mut self, x: VarId, indices: &[Affine]) -> TermId {
        let array = self.var(x);
        self.0.access(array, indices.iter().cloned()).expect("a tensor")
    }
    fn guard(&mut self, guard: Pred, body: TermId) -> TermId {
        self.push(Term::Iverson { guard, body })
    }
    fn index(&mut self, name: &str) -> (IndexId, Affine) {
        let i = self.0.fresh_index(name);
        (i, Affine::index(i))
    }
    fn sum(&mut self, index: IndexId, extent: Size, body: TermId) -> TermId {
        self.push(Term::Sum { index, extent, body })
    }
    fn gen_(&mut self, index: IndexId, extent: Size, body: TermId) -> TermId {
        self.push(Term::Gen { index, extent, body })
    }
    fn bind(&mut self, name: &str, value: TermId) -> VarId {
        let ty = self.0.ty(value);
        self.0.fresh_var(name, ty)
    }
    fn let_(&mut self, var: VarId, value: TermId, body: TermId) -> TermId {
        self.push(Term::Let { var, value, body })
    }
}

fn made(build: impl FnOnce(&mut Make) -> TermId) -> Program {
    let mut make = Make::new();
    let root = build(&mut make);
    make.0.root = root;
    make.0.verify().unwrap_or_else(|errors| panic!("{errors}"));
    make.0
}

/// The canonical text behind the declarations.
#[track_caller]
fn check(expected: &str, build: impl FnOnce(&mut Make) -> TermId) {
    let program = made(build);
    let text = program.to_string();
    assert_eq!(text.strip_prefix(HEADER).map(str::trim_end), Some(expected), "{text}");
    let read = Program::from_json(&program.to_json().expect("json")).expect("a sound program");
    assert!(read.same(&program) && read.to_string() == text);
    for style in [Style::Ascii, Style::Unicode] {
        let text = program.print(style);
        let read = surface::read(&text, &[]).unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert!(read.same(&program), "{text}\nreads as\n{read}");
    }
}

#[test]
fn print_sums_and_signs() {
    check("s + 2 - s", |b| {
        let (s, two, t) = (b.s(), b.lit(2.0), b.s());
        let sum = b.add(s, two);
        let minus = b.neg(t);
        b.add(sum, minus)
    });
    check("s + (2 + s)", |b| {
        let (s, two, t) = (b.s(), b.lit(2.0), b.s());
        let sum = b.add(two, t);
        b.add(s, sum)
    });
    check("s - (s - s)", |b| {
        let (s, t, u) = (b.s(), b.s(), b.s());
        let u = b.neg(u);
        let inner = b.add(t, u);
        let inner = b.neg(inner);
        b.add(s, inner)
    });
    check("s - 3 + -3", |b| {
        let (s, three, minus) = (b.s(), b.lit(3.0), b.lit(-3.0));
        let three = b.neg(three);
        let sum = b.add(s, three);
        b.add(sum, minus)
    });
    check("(-1 * 3 * -s)", |b| {
        let three = b.lit(3.0);
        let three = b.neg(three);
        let s = b.s();
        let s = b.neg(s);
        b.mul(three, s)
    });
    check("(-(s * s))", |b| {
        let (s, t) = (b.s(), b.s());
        let product = b.mul(s, t);
        b.neg(product)
    });
    check("(-(-s))", |b| {
        let s = b.s();
        let s = b.neg(s);
        b.neg(s)
    });
}

#[test]
fn print_products_and_powers() {
    check("s * s / s * (s / s)", |b| {
        let s: Vec<_> = (0..5).map(|_| b.s()).collect();
        let left = b.mul(s[0], s[1]);
        let left = b.op(Op::Div, &[left, s[2]]);
        let right = b.op(Op::Div, &[s[3], s[4]]);
        b.mul(left, right)
    });
    check("(s + s)^3 * (-2)^(-1)", |b| {
        let (s, t, two) = (b.s(), b.s(), b.lit(-2.0));
        let sum = b.add(s, t);
        let cube = b.op(Op::Powi(3), &[sum]);
        let inverse = b.op(Op::Powi(-1), &[two]);
        b.mul(cube, inverse)
    });
    check("(-s^2 + (s^2)^2)", |b| {
        let (s, t) = (b.s(), b.s());
        let square = b.op(Op::Powi(2), &[s]);
        let square = b.neg(square);
        let other = b.op(Op::Powi(2), &[t]);
        let other = b.op(Op::Powi(2), &[other]);
        b.add(square, other)
    });
    check("pow(s, 2) + max(exp(s), s - s) + exp'0(s) + polygamma2(s) + digamma(s)", |b| {
        let s: Vec<_> = (0..7).map(|_| b.s()).collect();
        let two = b.lit(2.0);
        let pow = b.op(Op::Pow, &[s[0], two]);
        let exp = b.op(Op::Exp, &[s[1]]);
        let minus = b.neg(s[3]);
        let minus = b.add(s[2], minus);
        let max = b.op(Op::Max, &[exp, minus]);
        let sum = b.add(pow, max);
        let partial = b.push(Term::Apply(Function::Partial(Primitive::Op(Op::Exp), 0), vec![s[4]]));
        let sum = b.add(sum, partial);
        let poly = b.op(Op::Polygamma(2), &[s[5]]);
        let sum = b.add(sum, poly);
        let digamma = b.op(Op::Polygamma(0), &[s[6]]);
        b.add(sum, digamma)
    });
}

#[test]
fn print_literals() {
    let table = [
        (2.0, "2"),
        (0.1, "0.1"),
        (1e21, "1e21"),
        (1.5e-7, "1.5e-7"),
        (f64::INFINITY, "inf"),
        (f64::NAN, "nan"),
        (f64::MAX, "1.7976931348623157e308"),
        (5e-324, "5e-324"),
        (-2.5, "(-2.5)"),
        (-0.0, "(-0)"),
        (f64::NEG_INFINITY, "(-inf)"),
        (1e16, "10000000000000000"),
    ];
    for (x, expected) in table {
        check(expected, |b| b.lit(x));
    }
    check("sum i < n. (n + real(2*i - 1) + i + real(3))", |b| {
        let (i, at) = b.index("i");
        let n = Affine::size(crate::base::SizeId(0));
        let numbers = [n, at.scale(2).and_then(|a| a.add_constant(-1)).expect("small"), at, Affine::constant(3)];
        let numbers = numbers.map(|a| b.push(Term::Number(Number::Index(a))));
        let sum = numbers.into_iter().reduce(|a, c| b.add(a, c)).expect("four");
        let n = b.n();
        b.sum(i, n, sum)
    });
}

fn equal(a: &Affine, b: &Affine) -> Pred {
    Pred::equal(a, b).expect("small")
}

#[test]
fn print_binders_stand_bare_at_the_end_only() {
    check("s + (sum i < n. x[i]) * s", |b| {
        let (i, at) = b.index("i");
        let x = b.at(X, &[at]);
        let n = b.n();
        let (sum, s, t) = (b.sum(i, n, x), b.s(), b.s());
        let product = b.mul(sum, t);
        b.add(s, product)
    });
    check(
        "gen i < n, j < m.\n  sum k < n. [i != k] * sum l < n. [j <= l + 1] * (s * x[l] + exp(sum i_2 < n. x[i_2]))",
        |b| {
            let [(i, ia), (j, ja), (k, ka), (l, la), (h, ha)] = ["i", "j", "k", "l", "i"].map(|name| b.index(name));
            let (n, m) = (b.n(), b.m());
            let (s, x, y) = (b.s(), b.at(X, std::slice::from_ref(&la)), b.at(X, &[ha]));
            let inner = b.sum(h, n.clone(), y);
            let inner = b.op(Op::Exp, &[inner]);
            let product = b.mul(s, x);
            let body = b.add(product, inner);
            let guard = Pred::le(&ja, &la.add_constant(1).expect("small")).expect("small");
            let body = b.guard(guard, body);
            let body = b.sum(l, n.clone(), body);
            let body = b.guard(Pred::unequal(&ia, &ka).expect("small"), body);
            let body = b.sum(k, n.clone(), body);
            let body = b.gen_(j, m, body);
            b.gen_(i, n, body)
        },
    );
}

#[test]
fn print_brackets() {
    let at = |b: &mut Make, build: &dyn Fn(&Affine, &Affine) -> Pred| {
        let ((i, ia), (j, ja)) = (b.index("i"), b.index("j"));
        let s = b.s();
        let body = b.guard(build(&ia, &ja), s);
        let n = b.n();
        let body = b.sum(j, n.clone(), body);
        b.sum(i, n, body)
    };
    let input = |r: u32, args: &[&Affine]| {
        Pred::relation(RelationRef::Input(RelationId(r)), args.iter().map(|a| (*a).clone()).collect())
    };
    let lt = |a: &Affine, b: &Affine| Pred::lt(a, b).expect("small");
    let plus = |a: &Affine, k: i64| a.add_constant(k).expect("small");
    let apply = |a: &Affine| {
        let map = RelationRef::Input(RelationId(2));
        Affine::var(Var::Apply(Box::new(Application { map, args: vec![a.clone()] })))
    };
    let k = |at: u32| Affine::index(IndexId(at));
    type Build<'a> = Box<dyn Fn(&Affine, &Affine) -> Pred + 'a>;
    let cases: Vec<(&str, Build<'_>)> = vec![
        ("j < i", Box::new(|i, j| lt(j, i))),
        ("i + 3 <= j", Box::new(|i, j| lt(&plus(i, 2), j))),
        ("i <= j + 2", Box::new(|i, j| lt(i, &plus(j, 3)))),
        ("i >= 2", Box::new(|i, _| lt(&Affine::constant(1), i))),
        ("i <= 4", Box::new(|i, _| lt(i, &Affine::constant(5)))),
        ("2*i = j + 1", Box::new(|i, j| equal(&i.scale(2).expect("small"), &plus(j, 1)))),
        ("i + 1 != j", Box::new(|i, j| Pred::unequal(&plus(i, 1), j).expect("small"))),
        ("i = 3", Box::new(|i, _| equal(i, &Affine::constant(3)))),
        ("j < i and E(i, j + 1)", Box::new(|i, j| lt(j, i).and(input(1, &[i, &plus(j, 1)])))),
        ("not E(i, j)", Box::new(|i, j| input(1, &[i, j]).negate().expect("an atom"))),
        (
            "i <= j and (j < i or not E(i, j))",
            Box::new(|i, j| {
                let either = lt(j, i).or(input(1, &[i, j]).negate().expect("an atom"));
                Pred::all([Pred::le(i, j).expect("small"), either])
            }),
        ),
        ("j - cam(i) = 0", Box::new(|i, j| equal(j, &apply(i)))),
        ("2*cam(i) = 0", Box::new(|i, _| equal(&Affine::constant(0), &apply(i)))),
        ("j = cam(i) + 1", Box::new(|i, j| equal(&plus(&apply(i), 1), j))),
        ("cam(i) = cam(j)", Box::new(|i, j| equal(&apply(i), &apply(j)))),
        ("cam(i) != j", Box::new(|i, j| input(2, &[i, j]).negate().expect("an atom"))),
        ("cam(i) = j", Box::new(|i, j| input(2, &[i, j]))),
        (
            "i < j or (exists k < n. E(i, k) and E(k, j))",
            Box::new(|i, j| {
                let both = input(1, &[i, &k(2)]).and(input(1, &[&k(2), j]));
                Pred::any([lt(i, j), Pred::exists(IndexId(2), Affine::size(crate::base::SizeId(0)), both)])
            }),
        ),
    ];
    for (expected, build) in &cases {
        let expected = format!("sum i < n, j < n. [{expected}] * s");
        check(&expected, |b| {
            let root = at(b, build);
            b.0.fresh_index("k");
            root
        });
    }
    check("[0 = 1] * s * s - [0 = 0] * s", |b| {
        let (s, t, u) = (b.s(), b.s(), b.s());
        let product = b.mul(s, t);
        let left = b.guard(Pred::False, product);
        let right = b.guard(Pred::True, u);
        let right = b.neg(right);
        b.add(left, right)
    });
    check("([0 = 1] * s) * ([0 = 1] * s)", |b| {
        let (s, t) = (b.s(), b.s());
        let (left, right) = (b.guard(Pred::False, s), b.guard(Pred::False, t));
        b.mul(left, right)
    });
}

#[test]
fn print_sparse_reads() {
    let pattern =
        |i: &Affine, j: &Affine| Pred::relation(RelationRef::Input(RelationId(0)), vec![i.clone(), j.clone()]);
    check("sum i < m, j < n. A[i, j] * x[j] + [A?(i, j)] * A.value(i, j) * x[j]", |b| {
        let [(i, ia), (j, ja)] = ["i", "j"].map(|name| b.index(name));
        let read = b.at(A, &[ia.clone(), ja.clone()]);
        let read = b.guard(pattern(&ia, &ja), read);
        let x = b.at(X, std::slice::from_ref(&ja));
        let left = b.mul(read, x);
        let (value, x) = (b.at(A, &[ia.clone(), ja.clone()]), b.at(X, std::slice::from_ref(&ja)));
        let right = b.mul(value, x);
        let right = b.guard(pattern(&ia, &ja), right);
        let body = b.add(left, right);
        let (n, m) = (b.n(), b.m());
        let body = b.sum(j, n, body);
        b.sum(i, m, body)
    });
    // Another place than the one that is guarded.
    check("sum i < m, j < n. [A?(i, 0) and A?(i, j)] * A.value(i, 0)", |b| {
        let [(i, ia), (j, ja)] = ["i", "j"].map(|name| b.index(name));
        let read = b.at(A, &[ia.clone(), Affine::constant(0)]);
        let read = b.guard(pattern(&ia, &ja).and(pattern(&ia, &Affine::constant(0))), read);
        let (n, m) = (b.n(), b.m());
        let body = b.sum(j, n, read);
        b.sum(i, m, body)
    });
}

/// `let c = compare in [c != 0] * s`, used again or not.
fn compared(b: &mut Make, op: Comparison, again: bool, holds: bool) -> TermId {
    let (s, zero) = (b.s(), b.lit(0.0));
    let value = b.op(Op::Compare(op), &[zero, s]);
    let c = b.bind("c", value);
    let relation = RelationRef::Computed { var: c, view: View::Support };
    let atom = Pred::Relation { relation, args: Vec::new(), holds };
    let body = if again { b.var(c) } else { b.s() };
    let body = b.guard(atom, body);
    let body = b.let_(c, value, body);
    let s = b.s();
    b.mul(s, body)
}

#[test]
fn print_comparisons_of_reals() {
    check("s * ([s > 0] * s)", |b| compared(b, Comparison::Less, false, true));
    check("s * ([not s >= 0] * s)", |b| compared(b, Comparison::LessEqual, false, false));
    check("s * (let c = less(0, s)\n     in [c != 0] * c)", |b| compared(b, Comparison::Less, true, true));
    check("s * (let c = equal(0, s)\n     in [c = 0] * s)", |b| compared(b, Comparison::Equal, false, false));
}

#[test]
fn print_one_hot_relations() {
    let view = |view| {
        move |args: &[&Affine]| {
            let relation = RelationRef::Computed { var: X, view };
            Pred::relation(relation, args.iter().map(|a| (*a).clone()).collect())
        }
    };
    check("sum k < n. [(argmax i < n. x[i]) = k] * x[k]", |b| {
        let (k, at) = b.index("k");
        let x = b.at(X, std::slice::from_ref(&at));
        let body = b.guard(view(View::ArgMax)(&[&at]), x);
        let n = b.n();
        b.sum(k, n, body)
    });
    check("[n >= 1 and (argmin k < n. x[k]) + 2 <= n] * x[(argmin k < n. x[k]) + 1]", |b| {
        let map = RelationRef::Computed { var: X, view: View::ArgMin };
        let place = Affine::var(Var::Apply(Box::new(Application { map, args: Vec::new() })));
        let place = place.add_constant(1).expect("small");
        let n = b.n();
        let some = Pred::lt(&Affine::constant(0), &n).expect("small");
        let guard = some.and(Pred::lt(&place, &n).expect("small"));
        let read = b.at(X, &[place]);
        b.guard(guard, read)
    });
    check("sum i < n. [x[i] != 0] * x[i]", |b| {
        let (i, at) = b.index("i");
        let x = b.at(X, std::slice::from_ref(&at));
        let body = b.guard(view(View::Support)(&[&at]), x);
        let n = b.n();
        b.sum(i, n, body)
    });
}

#[test]
fn print_pairs_and_projections() {
    check("(s, (s, s, s), fst p * s + [n >= 1] * (snd p)[0])", |b| {
        let s: Vec<_> = (0..4).map(|_| b.s()).collect();
        let inner = b.push(Term::Pair(s[2], s[3]));
        // The pair in the middle is not the end of the tuple.
        let inner = b.push(Term::Pair(s[1], inner));
        let (p, q) = (b.var(P), b.var(P));
        let first = b.push(Term::Fst(p));
        let second = b.push(Term::Snd(q));
        let second = b.push(Term::Access { array: second, index: Affine::constant(0) });
        let some = Pred::lt(&Affine::constant(0), &b.n()).expect("small");
        let second = b.guard(some, second);
        let t = b.s();
        let product = b.mul(first, t);
        let sum = b.add(product, second);
        let rest = b.push(Term::Pair(inner, sum));
        b.push(Term::Pair(s[0], rest))
    });
}

#[test]
fn print_lets_one_per_line() {
    check(
        "let a = s + s\nin let b = (let c = s\n            in c * c)\nin gen i < n.\n  let d = x[i]\n  in a * b * d",
        |b| {
            let (s, t, u) = (b.s(), b.s(), b.s());
            let sum = b.add(s, t);
            let a = b.bind("a", sum);
            let c = b.bind("c", u);
            let (c0, c1) = (b.var(c), b.var(c));
            let square = b.mul(c0, c1);
            let inner = b.let_(c, u, square);
            let bb = b.bind("b", inner);
            let (i, at) = b.index("i");
            let x = b.at(X, &[at]);
            let d = b.bind("d", x);
            let (av, bv, dv) = (b.var(a), b.var(bb), b.var(d));
            let product = b.mul(av, bv);
            let product = b.mul(product, dv);
            let body = b.let_(d, x, product);
            let n = b.n();
            let body = b.gen_(i, n, body);
            let body = b.let_(bb, inner, body);
            b.let_(a, sum, body)
        },
    );
}

#[test]
fn print_names_never_clash() {
    // Names that are taken, reserved, or no names.
    let expected = "let x_2 = sum for_2 < n. x[for_2]\nin let t_let = x_2\nin let a_b = t_let\nin a_b";
    let expected = expected.replace("for_2", "i_for");
    check(&expected, |b| {
        let (i, at) = b.index("for");
        let x = b.at(X, &[at]);
        let n = b.n();
        let value = b.sum(i, n, x);
        let first = b.bind("x", value);
        let one = b.var(first);
        let second = b.bind("let", one);
        let two = b.var(second);
        let third = b.bind("a b", two);
        let three = b.var(third);
        let body = b.let_(third, two, three);
        let body = b.let_(second, one, body);
        b.let_(first, value, body)
    });
}

#[test]
fn print_long_lines_break() {
    let program = made(|b| {
        let mut sum = b.s();
        for k in 0..40 {
            let (s, c) = (b.s(), b.lit(f64::from(k)));
            let product = b.mul(c, s);
            sum = b.add(sum, product);
        }
        sum
    });
    let text = program.to_string();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.ends_with("* s\n") && text.lines().count() < 16, "{text}");
}

#[test]
fn print_styles() {
    let program = made(|b| {
        let [(i, ia), (j, ja)] = ["i", "j"].map(|name| b.index(name));
        let (s, x, t) = (b.s(), b.at(X, std::slice::from_ref(&ia)), b.s());
        let quotient = b.op(Op::Div, &[s, x]);
        let quotient = b.mul(quotient, t);
        let guard = Pred::le(&ia, &ja).expect("small").and(Pred::unequal(&ia, &ja).expect("small"));
        let body = b.guard(guard, quotient);
        let (n, m) = (b.n(), b.m());
        let body = b.sum(j, m, body);
        let body = b.gen_(i, n, body);
        let y = b.bind("y_0", body);
        let (k, ka) = b.index("row");
        let y_at = b.at(y, &[ka]);
        let y_at = b.op(Op::Exp, &[y_at]);
        let n = b.n();
        let loss = b.sum(k, n, y_at);
        b.let_(y, body, loss)
    });
    let unicode = program.print(Style::Unicode);
    let expected = "let y_0 = ⊞ i < n. Σ j < m. [i ≤ j ∧ i ≠ j] · s / x[i] · s\nin Σ row < n. exp(y_0[row])\n";
    assert_eq!(unicode.strip_prefix(HEADER), Some(expected));
    let latex = "\\begin{aligned}
& \\text{let } \\mathbf{y\\_0} = \\boxplus_{i < n} \\sum_{j < m} [i \\le j \\land i \\ne j] \\cdot \\frac{\\mathbf{s}}{\\mathbf{x}_{i}} \\, \\mathbf{s} \\\\
& \\text{in } \\sum_{\\mathit{row} < n} \\exp\\left(\\mathbf{y\\_0}_{\\mathit{row}}\\right)
\\end{aligned}
";
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeeze(&program.print(Style::Latex)), squeeze(latex));
}

#[test]
fn print_roots_in_latex() {
    let program = made(|b| {
        let (s, t, u) = (b.s(), b.s(), b.s());
        let root = b.op(Op::Sqrt, &[s]);
        let root = b.op(Op::Powi(3), &[root]);
        let cube = b.add(t, u);
        let cube = b.op(Op::Cbrt, &[cube]);
        let angle = b.op(Op::Atan, &[cube]);
        b.add(root, angle)
    });
    let latex = program.print(Style::Latex);
    let expected = "\\sqrt{\\mathbf{s}}^{3} + \\arctan\\left(\\sqrt[3]{\\mathbf{s} + \\mathbf{s}}\\right)";
    assert!(latex.contains(expected), "{latex}");
}

/// Programs of some numbers, and how formulas read.
#[test]
fn print_formulas_in_latex() {
    let table: &[(&str, &str)] = &[
        // No `-` stands between factors.
        ("a * -b", r"\mathbf{a} \, \left(-\mathbf{b}\right)"),
        ("a * -2", r"\mathbf{a} \cdot \left(-2\right)"),
        ("gen i < n. [i < 3] * (-a * b)", r"[i \le 2] \cdot \left(-\mathbf{a} \, \mathbf{b}\right)"),
        // Comparisons are brackets, and a bracket alone is a number.
        ("a + less(a, b)", r"\mathbf{a} + [\mathbf{a} < \mathbf{b}]"),
        ("equal(a, 0) * b", r"[\mathbf{a} = 0] \, \mathbf{b}"),
        ("[a <= b] * 1", r"[\mathbf{a} \le \mathbf{b}]"),
        ("[not a <= b] * a", r"[\mathbf{a} \not\le \mathbf{b}] \cdot \mathbf{a}"),
        ("[not a > 0] * a", r"[\mathbf{a} \not> 0] \cdot \mathbf{a}"),
        // Powers, fractions and functions.
        ("a^b", r"\mathbf{a}^{\mathbf{b}}"),
        ("pow(a + b, b - 1)^2", r"\left(\left(\mathbf{a} + \mathbf{b}\right)^{\mathbf{b} - 1}\right)^{2}"),
        ("a / b / (a + 1)", r"\frac{\mathbf{a}}{\mathbf{b} \, \left(\mathbf{a} + 1\right)}"),
        ("abs(a) * expm1(b)", r"\left|\mathbf{a}\right| \, \left(\exp\left(\mathbf{b}\right) - 1\right)"),
        ("log1p(a) - xlogy(a, b)", r"\ln\left(1 + \mathbf{a}\right) - \mathbf{a} \, \ln\left(\mathbf{b}\right)"),
        ("lgamma(a)", r"\ln\Gamma\left(\mathbf{a}\right)"),
        // Names of letters.
        ("sigma * sigma_2", r"\boldsymbol{\sigma} \, \boldsymbol{\sigma\_2}"),
    ];
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (body, expected) in table {
        let params = ["a", "b", "sigma", "sigma_2"].map(|name| format!("param {name} : real\n")).concat();
        let text = format!("size n\n{params}{body}");
        let read = surface::read(&text, &[]).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let latex = squeeze(&read.print(Style::Latex));
        let whole = match expected.starts_with("[i") {
            true => format!(r"\begin{{aligned}} & \boxplus_{{i < n}} {expected} \end{{aligned}}"),
            false => format!(r"\begin{{aligned}} & {expected} \end{{aligned}}"),
        };
        assert_eq!(latex, whole, "{body}");
    }
}

#[test]
fn print_deep_terms_on_a_small_stack() {
    let work = || {
        let depth = 1_000_000;
        let program = made(|b| {
            let mut e = b.s();
            for at in 0..depth {
                e = match at % 4 {
                    0 => {
                        let s = b.s();
                        b.add(s, e)
                    }
                    1 => b.op(Op::Exp, &[e]),
                    2 => b.guard(Pred::False, e),
                    _ => {
                        let x = b.bind("x", e);
                        let read = b.var(x);
                        b.let_(x, e, read)
                    }
                };
            }
            e
        });
        let text = program.to_string();
        assert!(text.len() > 4 * depth && text.len() < 100 * depth, "{}", text.len());
        let json = program.to_json().expect("json");
        assert!(Program::from_json(&json).expect("sound").same(&program));
        assert!(program.to_dot().len() > depth);
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}

#[test]
fn same_ignores_ids_and_bound_names() {
    let build = |swap: bool, name: &'static str, extra: bool| {
        made(move |b| {
            if extra {
                b.0.fresh_index("unused");
            }
            let [(i, ia), (j, ja)] = [name, "j"].map(|name| b.index(name));
            let (i, ia, j, ja) = if swap { (j, ja, i, ia) } else { (i, ia, j, ja) };
            let x = b.at(X, std::slice::from_ref(&ia));
            let guard = Pred::lt(&ia, &ja).expect("small").or(equal(&ja, &Affine::constant(7)));
            let body = b.guard(guard, x);
            let (n, m) = (b.n(), b.m());
            let body = b.sum(i, n, body);
            b.sum(j, m, body)
        })
    };
    let program = build(false, "i", false);
    assert!(program.same(&build(true, "i", false)));
    assert!(program.same(&build(true, "z", true)));
    let other = made(|b| {
        let [(i, ia), (j, ja)] = ["i", "j"].map(|name| b.index(name));
        let x = b.at(X, std::slice::from_ref(&ia));
        let guard = Pred::lt(&ja, &ia).expect("small").or(equal(&ja, &Affine::constant(7)));
        let body = b.guard(guard, x);
        let (n, m) = (b.n(), b.m());
        let body = b.sum(i, n, body);
        b.sum(j, m, body)
    });
    assert!(!program.same(&other));
}

#[test]
fn pair_eliminated_projections_print() {
    let mut make = Make::new();
    make.0.form = NormalForm::PairFree;
    let p = make.var(P);
    let second = make.push(Term::Snd(p));
    make.0.root = make.push(Term::Access { array: second, index: Affine::constant(1) });
    assert!(make.0.verify().is_ok());
    assert!(make.0.to_string().ends_with("(snd p)[1]\n"));
    assert_eq!(make.0.param(ParamId(3)), P);
}

#[test]
fn print_declarations() {
    let mut sig = signature();
    let n = Size::size(crate::base::SizeId(0));
    sig.assumptions.push(Pred::le(&Affine::constant(2), &n).expect("small"));
    sig.assumptions
        .push(Pred::zero(n.sub(&Size::size(crate::base::SizeId(1)).scale(2).expect("small")).expect("small")));
    let (a, b) = (Formula::Arg(0), Formula::Arg(1));
    let value = Formula::try_mul(a.clone(), b.clone()).expect("small");
    let f = sig.functions.push(UserFunction::formula("f", 2, value, vec![b, a]).expect("sound"));
    let mut program = Program::new(Arc::new(sig));
    let args = vec![program.push(Term::Var(S)).expect("typed"), program.literal(2.0).expect("typed")];
    program.root = program.push(Term::Apply(Function::Value(Primitive::User(f)), args)).expect("typed");
    let text = program.to_string();
    let rest = "fun f(a, b) = a * b with (b, a)\nassume n >= 2\nassume n = 2*m\nf(s, 2)\n";
    assert_eq!(text.strip_prefix(HEADER), Some(rest));
    let read = surface::read(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(read.same(&program));
    assert!(Program::from_json(&program.to_json().expect("json")).expect("sound").same(&program));
}

#[test]
fn deep_guards_survive_json() {
    let program = made(|b| {
        let n = b.n();
        let mut guard = Pred::zero(n.clone());
        for k in 1..=Pred::MAX_NESTING as i64 {
            let atom =
                Pred::zero(n.scale(3).and_then(|a| a.add(&b.m())).and_then(|a| a.add_constant(k)).expect("small"));
            guard = if k % 2 == 0 { guard.and(atom) } else { guard.or(atom) };
        }
        assert_eq!(guard.nesting(), Pred::MAX_NESTING);
        let s = b.s();
        b.guard(guard, s)
    });
    let text = program.to_json().expect("json");
    assert!(Program::from_json(&text).expect("sound").same(&program));
    // A guard is a tree: no node is used twice.
    let from = text.find("\"all\":[0,").expect("the outermost node") + "\"all\":[0,".len();
    let to = from + text[from..].find(']').expect("its end");
    let shared = format!("{}0{}", &text[..from], &text[to..]);
    let error = Program::from_json(&shared).expect_err("no tree");
    assert!(error.to_string().contains("not in order"), "{error}");
}

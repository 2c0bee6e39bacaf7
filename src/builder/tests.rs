//! What is built of what; where shared expressions are bound, and that this changes no value.

use rustc_hash::FxHashMap;

use super::graph::{BoundId, Graph, Kind, NodeId};
use super::*;
use crate::surface::ast::{self, Ast, BinaryOp, BinderKind, ExprId, UnaryOp};
use crate::surface::sexpr::{decls, operands, sexpr};

fn tree(ast: &Ast) -> String {
    let mut users = vec![0; ast.exprs.len()];
    for (id, expr) in ast.exprs.iter() {
        for operand in operands(expr) {
            assert!(operand < id);
            users[operand.0 as usize] += 1;
        }
    }
    assert!(users.iter().all(|n| *n <= 1), "a tree");
    sexpr(ast, ast.body.unwrap())
}

#[track_caller]
fn check(body: impl for<'b> FnOnce(&'b Builder<'b>, Index<'b>, Expr<'b>, Expr<'b>) -> Expr<'b>, expected: &str) {
    let b = Builder::new();
    let n = b.size("n");
    let x = b.param("x", [n]);
    let s = b.scalar("s");
    let body = body(&b, n, x, s);
    assert_eq!(tree(&b.finish(body).unwrap()), expected);
}

#[test]
fn builder_operators_and_literals() {
    check(|_, _, _, s| 2.0 * s + 1 - s / 0.5, "(- (+ (* 2r s) 1) (/ s 0.5r))");
    check(|_, n, _, s| n + s * n - -s, "(- (+ (real n) (* s (real n))) (neg s))");
    check(|_, _, _, s| -1.5 * s.powi(-2).powf(0.5), "(* (neg 1.5r) (^ (^ s (neg 2)) 0.5r))");
    check(|_, n, x, _| x.at([2 * n - 1 + n]), "(at x (+ (- (* 2 n) 1) n))");
    check(|_, n, x, _| x.at([n / 2 - (n + 1) % 3usize]), "(at x (- (// n 2) (% (+ n 1) 3)))");
    check(|_, _, _, s| s.exp().max(0.0).atan2(s), "(atan2 (max (exp s) 0r) s)");
    check(|_, _, _, s| s.pair(1.0).pair(s.pair(s).fst().snd()), "(pair (pair s 1r) (snd (fst (pair s s))))");
    check(|b, _, _, s| b.call("f", [s, s]), "(f s s)");
    check(|b, _, x, _| b.param("y", [0i64; 0]) * x.at([0i64; 0]), "(* y x)");
}

#[test]
fn builder_guards_and_binders() {
    check(
        |_, n, x, s| generate(n, |i| (i.lt(n - 1) & !(x.at([i]).gt(0.0) | i.eq(3))) * (x.at([i + 1]) * s)),
        "(gen i n (iv (and (< i (- n 1)) (not (or (> (at x i) 0r) (= i 3)))) (* (at x (+ i 1)) s)))",
    );
    check(|_, n, x, _| max(n, |i| x.at([i])) + min(n, |_| 1.0), "(+ (max i n (at x i)) (min j n 1r))");
    check(
        |_, n, x, _| x.at([argmax(n, |i| x.at([i]))]) + x.at([argmin(n, |i| -x.at([i]))]),
        "(+ (at x (argmax i n (at x i))) (at x (argmin j n (neg (at x j)))))",
    );
    check(|_, n, x, s| select(exists(n, |k| x.at([k]).ne(0.0)), s, 0.0), "(select (exists i n (!= (at x i) 0r)) s 0r)");
    check(|_, _, _, s| let_(s.exp(), |v| v * v), "(let t (exp s) (* t t))");
}

#[test]
fn builder_declares() {
    let b = Builder::new();
    let (n, m) = (b.size("n"), b.size("m"));
    let ab = b.param_of("ab", b.real_type().pair(b.real_type().tensor([3])).tensor([n]));
    let a = b.csr("A", [m, n]);
    let t = b.coo("T", [n, n + 1, n]);
    let e = b.relation("E", [n, n]);
    let cam = b.map("cam", [n], m);
    b.assume(n.ge(2));
    let f = b.fun("f", ["u", "v"], |[u, v]| (u * v).exp(), |[u, v], result| [v * result, u * result]);
    let body = sum(n, |i| {
        e.holds([i, i]) * f.call([ab.at([i]).fst(), a.at([cam.of([i]), i])])
            + a.stores([i, i]) * a.value([i, i])
            + t.at([i, i, i])
    });
    let ast = b.finish(body).unwrap();
    assert_eq!(
        decls(&ast),
        [
            "(param ab dense [n](real [3]real))",
            "(param A csr [m n]real)",
            "(param T coo [n (+ n 1) n]real)",
            "(rel E [n n])",
            "(map cam [n] m)",
            "(assume (>= n 2))",
            "(fun f (u v) (exp (* u v)) (* v result) (* u result))",
        ]
    );
    assert_eq!(
        tree(&ast),
        "(sum i n (+ (+ (iv (E i i) (f (fst (at ab i)) (at A (cam i) i))) (iv (A? i i) (A.value i i))) (at T i i i)))"
    );
}

#[test]
fn builder_binds_shared_expressions() {
    // Cheap expressions are repeated, others bound at the lowest common place.
    check(|_, n, x, _| x.at([n - 1]) * x.at([n - 1]), "(* (at x (- n 1)) (at x (- n 1)))");
    check(|_, _, _, s| 1.0 + (s.exp() + 1.0), "(+ 1r (+ (exp s) 1r))");
    check(
        |_, n, x, s| {
            let e = s.exp();
            1.0 + sum(n, |i| {
                let y = x.at([i]) * e;
                y * y + e
            }) + 2.0
        },
        "(+ (+ 1r (sum i n (let t (exp s) (+ (let t1 (* (at x i) t) (* t1 t1)) t)))) 2r)",
    );
    // Bound around the same place: operands first.
    check(
        |_, _, _, s| {
            let a = s.exp();
            let c = a.sin();
            (a + c) * c
        },
        "(let t (exp s) (let t1 (sin t) (* (+ t t1) t1)))",
    );
    // An argmax that is repeated has its values bound.
    check(
        |_, n, x, _| {
            let k = argmax(n, |i| x.at([i]).exp());
            x.at([k]) + x.at([k + 1])
        },
        "(let t (gen i n (exp (at x i))) (+ (at x (argmax j n (at t j))) (at x (+ (argmax j n (at t j)) 1))))",
    );
    // A predicate that is repeated has its real values bound.
    check(
        |_, _, _, s| {
            let p = s.exp().gt(1.0);
            p * s + p * 2.0
        },
        "(let t (exp s) (+ (iv (> t 1r) s) (iv (> t 1r) 2r)))",
    );
}

#[test]
fn builder_guards_shared_values() {
    // Union of the brackets.
    check(
        |b, n, x, _| {
            let e = x.at([b.index(3)]).ln();
            n.gt(3) * e + n.gt(4) * (e + 1.0)
        },
        "(let t (iv (or (> n 3) (> n 4)) (ln (at x 3))) (+ (iv (> n 3) t) (iv (> n 4) (+ t 1r))))",
    );
    // One use is free.
    check(
        |b, n, x, _| {
            let e = x.at([b.index(3)]).ln();
            n.gt(3) * e + e
        },
        "(let t (ln (at x 3)) (+ (iv (> n 3) t) t))",
    );
    // Binders between are quantified, ranges that are never empty do not count.
    check(
        |b, n, x, _| {
            let e = x.at([b.index(3)]).ln();
            sum(n, |i| i.gt(2) * (e * x.at([i]) + n.gt(5) * e)) + n.gt(7) * sum(b.index(2), |_| e)
        },
        "(let t (iv (or (or (exists i n (> i 2)) (exists i n (and (> i 2) (> n 5)))) (> n 7)) (ln (at x 3))) (+ (sum i n (iv (> i 2) (+ (* t (at x i)) (iv (> n 5) t)))) (iv (> n 7) (sum j 2 t))))",
    );
    // Both branches of a select.
    check(
        |_, _, _, s| {
            let e = s.ln();
            select(s.gt(1.0), e, 0.0) + select(s.gt(2.0), 1.0, e * e)
        },
        "(let t (iv (or (> s 1r) (not (> s 2r))) (ln s)) (+ (select (> s 1r) t 0r) (select (> s 2r) 1r (* t t))))",
    );
    // A bracket that reads a value bound further out is kept, one that reads a value which is not bound is left out.
    check(
        |_, _, _, s| {
            let v = s.exp();
            let e = v.ln();
            v.gt(0.0) * e + v.gt(1.0) * e
        },
        "(let t (exp s) (let t1 (iv (or (> t 0r) (> t 1r)) (ln t)) (+ (iv (> t 0r) t1) (iv (> t 1r) t1))))",
    );
    check(
        |_, _, _, s| {
            let e = s.ln();
            s.exp().gt(0.0) * e + s.sin().gt(1.0) * e
        },
        "(let t (ln s) (+ (iv (> (exp s) 0r) t) (iv (> (sin s) 1r) t)))",
    );
}

#[test]
fn builder_reports_problems() {
    fn code(build: impl for<'b> FnOnce(&'b Builder<'b>, Expr<'b>) -> Expr<'b>) -> String {
        let b = Builder::new();
        let s = b.scalar("s");
        let body = build(&b, s);
        match b.finish(body) {
            Err(Error::Program(problems)) => problems[0].code.to_string(),
            Err(error) => error.to_string(),
            Ok(ast) => sexpr(&ast, ast.body.unwrap()),
        }
    }
    assert_eq!(code(|b, s| s * b.scalar("a b")), "bad-name");
    assert_eq!(code(|b, s| s * b.scalar("let")), "bad-name");
    assert_eq!(
        code(|b, s| {
            let mut leaked = b.index(0);
            sum(b.size("n"), |i| {
                leaked = i;
                s
            }) + leaked
        }),
        "escaped-index"
    );
    let other = Builder::new();
    let b = Builder::new();
    let body = b.scalar("s") + other.scalar("s");
    assert!(matches!(b.finish(body), Err(Error::Program(p)) if p[0].code == "foreign-expression"));
    assert_eq!(
        code(|b, s| {
            let ty = (0..2000).fold(b.real_type(), |ty, _| ty.tensor([1]));
            s + b.param_of("y", ty)
        }),
        "nesting of a type: 65 is over the limit of 64"
    );
    // Predicates are repeated, so doubling them is refused, not expanded.
    let doubled = code(|b, s| (0..100).fold(b.size("n").gt(0), |p, _| p & p) * s);
    assert!(doubled.starts_with("expressions: "), "{doubled}");
}

#[test]
fn builder_is_linear_and_flat() {
    let work = || {
        let deep = 300_000;
        let b = Builder::new();
        let (s, n) = (b.scalar("s"), b.size("n"));
        let doubled = (0..1000).fold(s, |e, _| e + e);
        let ast = b.finish(doubled).unwrap();
        assert_eq!(ast.exprs.len(), 999 * 4 + 3);
        let guarded = (0..1000).fold(s, |e, _| n.gt(1) * e + n.gt(2) * e);
        assert!(b.finish(guarded).unwrap().exprs.len() < 30_000);
        let chain = (0..deep).fold(s, |e, _| e + s.exp());
        assert_eq!(b.finish(chain).unwrap().exprs.len(), deep * 3 + 1);
        let first = s.exp();
        let reused = (0..deep).fold(first, |e, k| if k % 2 == 0 { e.sin() } else { n.gt(3) * e + first });
        assert!(b.finish(reused).unwrap().exprs.len() < deep * 5);
        let shared = (0..deep).fold(s, |e, _| (e * e).sin());
        assert!(b.finish(shared).unwrap().exprs.len() < deep * 6);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

/// Random programs over `x : [4] real`; what was built can be used again while its indices are in scope.
struct Random<'b> {
    b: &'b Builder<'b>,
    x: Expr<'b>,
    random: fastrand::Rng,
    pool: Vec<Expr<'b>>,
    indices: Vec<Index<'b>>,
}

impl<'b> Random<'b> {
    fn index(&mut self) -> Index<'b> {
        match self.random.usize(0..3) {
            0 => self.b.index(self.random.i64(0..6)),
            _ => self.indices[self.random.usize(0..self.indices.len())] + self.random.i64(-1..2),
        }
    }

    fn guard(&mut self, depth: usize) -> Guard<'b> {
        let i = self.index();
        match self.random.usize(0..if depth == 0 { 2 } else { 6 }) {
            0 => i.lt(self.random.i64(0..5)),
            1 => i.ge(self.random.i64(0..5)),
            2 => self.guard(depth - 1) & self.guard(depth - 1),
            3 => self.guard(depth - 1) | self.guard(depth - 1),
            4 => !self.guard(depth - 1),
            _ => exists(self.b.size("n"), |k| {
                self.indices.push(k);
                let guard = self.guard(depth - 1);
                self.indices.pop();
                guard
            }),
        }
    }

    fn expr(&mut self, depth: usize) -> Expr<'b> {
        if !self.pool.is_empty() && self.random.usize(0..3) == 0 {
            return self.pool[self.random.usize(0..self.pool.len())];
        }
        let e = match self.random.usize(0..if depth == 0 { 2 } else { 8 }) {
            0 | 1 => {
                let i = self.index();
                self.x.at([i]) + self.random.i64(0..3)
            }
            2 => self.expr(depth - 1) + self.expr(depth - 1),
            3 => self.expr(depth - 1) * self.expr(depth - 1),
            4 | 5 => self.guard(1) * self.expr(depth - 1),
            6 => select(self.guard(1), self.expr(depth - 1), self.expr(depth - 1)),
            _ => {
                let kept = self.pool.len();
                let e = sum(self.b.size("n"), |i| {
                    self.indices.push(i);
                    let body = self.expr(depth - 1);
                    self.indices.pop();
                    body
                });
                self.pool.truncate(kept);
                e
            }
        };
        self.pool.push(e);
        e
    }
}

/// Integer value of a graph, guards first; nothing if an access is out of bounds. `i64` wraps.
fn value(graph: &Graph, id: NodeId, n: i64, env: &mut FxHashMap<BoundId, i64>) -> Option<i64> {
    let node = &graph.nodes[id as usize];
    let ops = &node.operands;
    Some(match &node.kind {
        Kind::Number { integer, .. } => integer.unwrap(),
        Kind::Name(name) if name == "n" => n,
        Kind::Bound(bound) => env[bound],
        Kind::Unary(UnaryOp::Neg) => -value(graph, ops[0], n, env)?,
        Kind::Unary(UnaryOp::Not) => 1 - value(graph, ops[0], n, env)?,
        Kind::Binary(op) => {
            let (a, b) = (value(graph, ops[0], n, env)?, value(graph, ops[1], n, env)?);
            apply(*op, a, b)
        }
        Kind::Iverson if value(graph, ops[0], n, env)? == 0 => 0,
        Kind::Iverson => value(graph, ops[1], n, env)?,
        Kind::Call(_) if value(graph, ops[0], n, env)? == 0 => value(graph, ops[2], n, env)?,
        Kind::Call(_) => value(graph, ops[1], n, env)?,
        Kind::Access => read(value(graph, ops[1], n, env)?)?,
        Kind::Binder(kind, bound) => {
            let mut total = 0;
            for i in 0..value(graph, ops[0], n, env)? {
                env.insert(*bound, i);
                total = join(*kind, total, value(graph, ops[1], n, env)?);
            }
            total
        }
        kind => unreachable!("{kind:?}"),
    })
}

/// The same for a tree, where the value of every `let` is computed.
fn tree_value(ast: &Ast, id: ExprId, n: i64, env: &mut FxHashMap<String, i64>) -> Option<i64> {
    Some(match &ast.exprs[id] {
        ast::Expr::Number { integer, .. } => integer.unwrap(),
        ast::Expr::Name(name) if name == "n" => n,
        ast::Expr::Name(name) => env[name],
        ast::Expr::Unary(UnaryOp::Neg, a) => -tree_value(ast, *a, n, env)?,
        ast::Expr::Unary(UnaryOp::Not, a) => 1 - tree_value(ast, *a, n, env)?,
        ast::Expr::Binary(op, a, b) => apply(*op, tree_value(ast, *a, n, env)?, tree_value(ast, *b, n, env)?),
        ast::Expr::Iverson { guard, body } => match tree_value(ast, *guard, n, env)? {
            0 => 0,
            _ => tree_value(ast, *body, n, env)?,
        },
        ast::Expr::Call { args, .. } => match tree_value(ast, args[0], n, env)? {
            0 => tree_value(ast, args[2], n, env)?,
            _ => tree_value(ast, args[1], n, env)?,
        },
        ast::Expr::Access { indices, .. } => read(tree_value(ast, indices[0], n, env)?)?,
        ast::Expr::Binder { kind, index, extent, body } => {
            let mut total = 0;
            for i in 0..tree_value(ast, *extent, n, env)? {
                env.insert(index.text.clone(), i);
                total = join(*kind, total, tree_value(ast, *body, n, env)?);
            }
            env.remove(&index.text);
            total
        }
        ast::Expr::Let { name, value, body } => {
            let value = tree_value(ast, *value, n, env)?;
            assert!(env.insert(name.text.clone(), value).is_none(), "names are unique");
            let body = tree_value(ast, *body, n, env);
            env.remove(&name.text);
            body?
        }
        expr => unreachable!("{expr:?}"),
    })
}

fn read(index: i64) -> Option<i64> {
    [3, -1, 4, 1].get(usize::try_from(index).ok()?).copied()
}

fn join(kind: BinderKind, a: i64, b: i64) -> i64 {
    if kind == BinderKind::Exists { a | b } else { a.wrapping_add(b) }
}

fn apply(op: BinaryOp, a: i64, b: i64) -> i64 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Less => i64::from(a < b),
        BinaryOp::GreaterEqual => i64::from(a >= b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        op => unreachable!("{op:?}"),
    }
}

#[test]
fn builder_scans() {
    check(|_, n, x, _| fold(n, 0, |t, s| s + x[t]), "(fold i t n 0 (+ t (at x i)))");
    check(|_, n, x, _| scan(n, 1.0, |t, s| s * x[t]), "(scan i t n 1r (* t (at x i)))");
    check(
        |_, n, x, s| fold_down(n + 1, s, |t, r| r * t).at([0i64; 0]) + x[0],
        "(+ (fold down i t (+ n 1) s (* t (real i))) (at x 0))",
    );
    check(|_, n, x, _| scan_down(n, x, |_, s| s)[(0, 0)], "(at (scan down i t n x t) 0 0)");
    check(
        |_, n, x, _| fold(n, x[0].pair(0), |t, p| p.snd().pair(p.fst() + x[t])).fst(),
        "(fst (fold i t n (pair (at x 0) 0) (pair (snd t) (+ (fst t) (at x i)))))",
    );
    // What a step does not depend on is bound around the loop, where it is used outside too; the rest inside.
    check(
        |_, n, x, s| {
            let e = s.exp();
            e + fold(n, e, |t, r| {
                let y = r * x[t];
                y * y + e
            })
        },
        "(let t (exp s) (+ t (fold i t2 n t (+ (let t1 (* t2 (at x i)) (* t1 t1)) t))))",
    );
    // A guard on the state is in scope inside alone.
    check(
        |_, n, x, s| {
            let e = s.ln();
            fold(n, 0, |t, r| r.gt(0) * e + x[t]) + fold(n, 0, |t, r| r.lt(0) * e + x[t])
        },
        "(let t (iv (< 0 n) (ln s)) (+ (fold i t1 n 0 (+ (iv (> t1 0) t) (at x i))) (fold j t2 n 0 (+ (iv (< t2 0) t) (at x j)))))",
    );
    check(
        |_, _, _, s| {
            let e = s.ln();
            let_(s.exp(), |v| v.gt(0) * e) + let_(s.sin(), |v| v.gt(0) * e)
        },
        "(let t (ln s) (+ (let t1 (exp s) (iv (> t1 0) t)) (let t2 (sin s) (iv (> t2 0) t))))",
    );
    let b = Builder::new();
    let n = b.size("n");
    let mut kept = None;
    let s = fold(n, 0, |_, s| {
        kept = Some(s);
        s
    });
    let Err(Error::Program(found)) = b.finish(s + kept.unwrap()) else { panic!() };
    assert_eq!(found[0].code, "escaped-index");
}

/// Sharing changes no value, and computes no shared value where the program reads none of its uses.
#[test]
fn builder_shared_values_agree_with_the_graph() {
    let (mut defined, mut lets) = (0, 0);
    for seed in 0..4000 {
        let b = Builder::new();
        let (n, x) = (b.size("n"), b.param("x", [4]));
        let mut random = Random { b: &b, x, random: fastrand::Rng::with_seed(seed), pool: vec![], indices: vec![n] };
        let body = random.expr(5);
        let ast = b.finish(body).unwrap();
        let text = tree(&ast);
        lets += text.matches("(let ").count();
        for n in 0..3 {
            let expected = value(&b.graph.borrow(), body.id, n, &mut FxHashMap::default());
            if expected.is_some() {
                defined += 1;
                let found = tree_value(&ast, ast.body.unwrap(), n, &mut FxHashMap::default());
                assert_eq!(found, expected, "seed {seed}, n = {n}: {text}");
            }
        }
    }
    assert!(defined > 1000 && lets > 1000, "{defined} {lets}");
}

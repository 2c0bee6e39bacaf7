//! Values and counts that were worked out by hand, and what is refused.

use super::super::environment::Elements;
use super::super::numeric::{Dual, Field};
use super::super::testing::*;
use super::*;
use crate::index::View as RelationView;
use crate::scalar::Op;

/// Name, program, the values of all leaves, and `[additions, multiplications, functions]`, worked out by hand.
type Case = (&'static str, fn(&mut Terms) -> TermId, &'static [f64], [u128; 3]);

const CASES: &[Case] = &[
    (
        "sum of squares",
        |b| {
            b.sum(n(), |b, i| {
                let (p, q) = (b.x(i), b.x(i));
                b.mul(p, q)
            })
        },
        &[14.],
        [2, 3, 0],
    ),
    // 4.30: three of the nine points hold.
    (
        "diagonal",
        |b| {
            b.sum(n(), |b, i| {
                b.sum(n(), |b, j| {
                    let (p, q) = (b.x(i), b.x(j));
                    let product = b.mul(p, q);
                    b.guard(eq(i, j), product)
                })
            })
        },
        &[14.],
        [2, 3, 0],
    ),
    ("a nest is one sum", |b| b.sum(n(), |b, i| b.sum(m(), |b, j| b.a(i, j))), &[21.], [5, 0, 0]),
    (
        "triangle",
        |b| {
            b.sum(n(), |b, i| {
                b.sum(m(), |b, j| {
                    let e = b.a(i, j);
                    b.guard(lt(j, i), e)
                })
            })
        },
        &[14.],
        [2, 0, 0],
    ),
    (
        "a nest none of whose points hold",
        |b| {
            b.sum(n(), |b, i| {
                b.sum(n(), |b, j| {
                    let e = b.x(j);
                    b.guard(lt(i, j).and(lt(j, i)), e)
                })
            })
        },
        &[0.],
        [0, 0, 0],
    ),
    // Rows 1 and 2: one addition in each, one between them.
    (
        "a guard splits a nest",
        |b| {
            b.sum(n(), |b, i| {
                let row = b.sum(m(), |b, j| b.a(i, j));
                b.guard(lt(0, i), row)
            })
        },
        &[18.],
        [3, 0, 0],
    ),
    (
        "a product splits a nest",
        |b| {
            b.sum(n(), |b, i| {
                let (x, row) = (b.x(i), b.sum(m(), |b, j| b.a(i, j)));
                b.mul(x, row)
            })
        },
        &[50.],
        [5, 3, 0],
    ),
    (
        "guards directly below each other are one",
        |b| {
            b.sum(n(), |b, i| {
                let x = b.x(i);
                let inner = b.guard(lt(i, 2), x);
                b.guard(lt(0, i), inner)
            })
        },
        &[2.],
        [0, 0, 0],
    ),
    // 4.24: both guards hold at 1 only.
    (
        "guarded addition",
        |b| {
            b.gen_(n(), |b, i| {
                let (p, q) = (b.x(i), b.x(i));
                let (p, q) = (b.guard(lt(i, 2), p), b.guard(lt(0, i), q));
                b.add(p, q)
            })
        },
        &[1., 4., 3.],
        [1, 0, 0],
    ),
    (
        "addition of a guarded and a plain term",
        |b| {
            b.gen_(n(), |b, i| {
                let (p, q) = (b.x(i), b.x(i));
                let p = b.guard(lt(i, 2), p);
                b.add(p, q)
            })
        },
        &[2., 4., 3.],
        [2, 0, 0],
    ),
    // x[i] / (x[i] - 2) is infinite at 1, outside the guard.
    (
        "a bracket is a select",
        |b| {
            b.gen_(n(), |b, i| {
                let (p, q, two) = (b.x(i), b.x(i), b.lit(-2.));
                let q = b.add(q, two);
                let e = b.op(Op::Div, &[p, q]);
                b.guard(lt(i, 1), e)
            })
        },
        &[-1., 0., 0.],
        [1, 0, 1],
    ),
    (
        "a product with a false bracket still multiplies",
        |b| {
            let (p, q) = (b.lit(2.), b.lit(3.));
            let q = b.guard(crate::index::Pred::False, q);
            b.mul(p, q)
        },
        &[0.],
        [0, 1, 0],
    ),
    ("sum over nothing", |b| b.sum(n_less(3), |b, i| b.x(i)), &[0.], [0, 0, 0]),
    ("sum over a negative size", |b| b.sum(n_less(7), |b, i| b.x(i)), &[0.], [0, 0, 0]),
    ("gen over a negative size", |b| b.gen_(n_less(7), |b, i| b.x(i)), &[], [0, 0, 0]),
    ("2^40 empty rows", |b| b.gen_(Affine::constant(1 << 40), |b, _| b.gen_(n_less(3), |b, j| b.x(j))), &[], [0; 3]),
    // v is computed once: 3 products; then 3 inner and 2 outer additions.
    (
        "a let is counted once",
        |b| {
            let v = b.gen_(n(), |b, i| {
                let (p, q) = (b.x(i), b.x(i));
                b.mul(p, q)
            });
            b.let_(v, |b, v| {
                b.sum(n(), |b, i| {
                    let v = b.var(v);
                    let p = b.push(Term::Access { array: v, index: i.into() });
                    let q = b.x(i);
                    b.add(p, q)
                })
            })
        },
        &[20.],
        [5, 3, 0],
    ),
    (
        "sparse parameter",
        |b| {
            b.sum(n(), |b, i| {
                b.sum(m(), |b, j| {
                    let (s, y) = (b.read(S, &[i.into(), j.into()]), b.read(Y, &[j.into()]));
                    let e = b.mul(s, y);
                    b.guard(rel(S_PATTERN, &[i, j]), e)
                })
            })
        },
        &[220.],
        [1, 2, 0],
    ),
    ("gather by a map", |b| b.sum(n(), |b, i| b.read(Y, &[apply_map(CAM, &[i])])), &[50.], [2, 0, 0]),
    (
        "array of pairs",
        |b| {
            b.sum(n(), |b, i| {
                let (p, q) = (b.read(AB, &[i.into()]), b.read(AB, &[i.into()]));
                let p = b.push(Term::Fst(p));
                let row = b.sum(m(), |b, j| {
                    let row = b.push(Term::Snd(q));
                    b.push(Term::Access { array: row, index: j.into() })
                });
                b.mul(p, row)
            })
        },
        &[50.],
        [5, 3, 0],
    ),
    (
        "maximum by a one-hot relation",
        |b| {
            b.sum(n(), |b, i| {
                let x = b.x(i);
                b.guard(rel(computed(VarId(X.0), RelationView::ArgMax), &[i]), x)
            })
        },
        &[3.],
        [0, 0, 0],
    ),
    (
        "argmin as an index",
        |b| {
            let at = apply_map(computed(VarId(X.0), RelationView::ArgMin), &[]);
            b.read(A, &[at, 1.into()])
        },
        &[2.],
        [0, 0, 0],
    ),
    (
        "argmax of nothing",
        |b| {
            let v = b.gen_(n_less(3), |b, i| b.x(i));
            b.let_(v, |b, v| b.read(X, &[apply_map(computed(v, RelationView::ArgMax), &[])]))
        },
        &[0.],
        [0, 0, 0],
    ),
    // The comparison is made three times; two summands count.
    (
        "a let between a sum and its guard",
        |b| {
            b.sum(n(), |b, i| {
                let (one, x) = (b.lit(1.), b.x(i));
                let c = b.less(one, x);
                b.let_(c, |b, c| {
                    let x = b.x(i);
                    b.guard(rel(computed(c, RelationView::Support), &[]), x)
                })
            })
        },
        &[5.],
        [1, 0, 3],
    ),
    (
        "rows that are not empty",
        |b| {
            b.gen_(n(), |b, i| {
                let k = b.0.fresh_index("k");
                let x = b.x(i);
                b.guard(crate::index::Pred::exists(k, n(), rel(E, &[i, k])), x)
            })
        },
        &[1., 2., 0.],
        [0, 0, 0],
    ),
    (
        "an index as a number",
        |b| {
            b.sum(n(), |b, i| {
                let a = Affine::index(i).scale(2).unwrap().add(&n()).unwrap();
                b.push(Term::Number(Number::Index(a)))
            })
        },
        &[15.],
        [2, 0, 0],
    ),
    (
        "pairs inside arrays come out as leaves",
        |b| {
            b.gen_(n(), |b, i| {
                let (x, row) = (b.x(i), b.gen_(m(), |b, j| b.a(i, j)));
                b.push(Term::Pair(x, row))
            })
        },
        &[1., 2., 3., 1., 2., 3., 4., 5., 6.],
        [0, 0, 0],
    ),
    (
        "zero of a pair",
        |b| {
            let (t, x) = (b.read(T, &[]), b.gen_(n(), |b, i| b.x(i)));
            let pair = b.push(Term::Pair(t, x));
            b.guard(lt(m(), 2), pair)
        },
        &[0., 0., 0., 0.],
        [0, 0, 0],
    ),
    ("a parameter as it is", |b| b.var(VarId(AB.0)), &[1., 2., 3., 1., 2., 3., 4., 5., 6.], [0, 0, 0]),
];

#[test]
fn values_and_counts() {
    for (name, build, expected, [additions, multiplications, functions]) in CASES {
        let mut terms = Terms::new();
        let root = build(&mut terms);
        let program = terms.finish(root);
        let (leaves, counts) = evaluate_and_count(&program, &environment(|x| x as f64), limits()).unwrap();
        let found: Vec<f64> = leaves.iter().flat_map(Leaf::values).copied().collect();
        assert_eq!(found, *expected, "{name}");
        let expected =
            Counts { additions: *additions, multiplications: *multiplications, functions: *functions, partials: 0 };
        assert_eq!(counts, expected, "{name}");
    }
}

/// Every number agrees with `f64` on what it can do; the prime field lacks an order.
#[test]
fn other_numbers_agree() {
    for (name, build, expected, _) in CASES {
        let mut terms = Terms::new();
        let root = build(&mut terms);
        let program = terms.finish(root);
        match evaluate(&program, &environment(Field::integer), limits()) {
            Ok(leaves) => {
                let found: Vec<Field> = leaves.iter().flat_map(Leaf::values).copied().collect();
                let expected: Vec<Field> = expected.iter().map(|x| Field::literal(*x).unwrap()).collect();
                assert_eq!(found, expected, "{name}");
            }
            Err(error) => assert!(matches!(error, Error::Limitation { .. }), "{name}: {error}"),
        }
        let duals = evaluate(&program, &environment(|x| Dual::constant(x as f64)), limits()).unwrap();
        let found: Vec<f64> = duals.iter().flat_map(Leaf::values).map(|x| x.value).collect();
        assert_eq!(found, *expected, "{name}");
    }
}

fn failure(build: impl FnOnce(&mut Terms) -> TermId) -> Error {
    let mut terms = Terms::new();
    let root = build(&mut terms);
    evaluate(&terms.finish(root), &environment(|x| x as f64), limits()).unwrap_err()
}

#[test]
fn broken_promises_are_bugs() {
    let outside = failure(|b| b.read(X, &[n()]));
    assert!(
        matches!(&outside, Error::Bug { message, .. } if message.contains("at 3 of an axis of extent 3")),
        "{outside}"
    );
    let unstored = failure(|b| b.read(S, &[0.into(), 0.into()]));
    assert!(matches!(&unstored, Error::Bug { message, .. } if message.contains("outside its pattern")), "{unstored}");
}

#[test]
fn limits_are_errors() {
    let large = failure(|b| b.gen_(Affine::constant(1 << 21), |b, _| b.lit(1.)));
    assert!(matches!(large, Error::Limit { limit, .. } if limit == 1 << 20), "{large}");
    let long = failure(|b| b.sum(Affine::constant(1 << 40), |b, _| b.lit(1.)));
    assert!(matches!(long, Error::Limit { limit, .. } if limit == 1 << 24), "{long}");
}

/// `D (x1 * x2 + ln x0)` along a basis vector, by dual numbers.
#[test]
fn dual_numbers_differentiate() {
    let mut b = Terms::new();
    let (p, q, r) = (b.read(X, &[1.into()]), b.read(X, &[2.into()]), b.read(X, &[0.into()]));
    let (product, ln) = (b.mul(p, q), b.op(Op::Ln, &[r]));
    let root = b.add(product, ln);
    let program = b.finish(root);
    let gradient: Vec<f64> = (0..3)
        .map(|k| {
            let mut at = environment(|x| Dual::constant(x as f64));
            if let Elements::Dense(xs) = &mut at.params[X.index()][0].elements {
                xs[k].tangent = Some(1.0);
            }
            evaluate(&program, &at, limits()).unwrap()[0].values()[0].derivative()
        })
        .collect();
    assert_eq!(gradient, [1.0, 3.0, 2.0]);
}

const DEPTH: usize = 1_000_000;

/// Each builder makes a program `DEPTH` deep; the value and the number of additions.
#[test]
fn deep_terms_on_a_small_stack() {
    type Deep = (fn(&mut Terms) -> TermId, f64, usize);
    let cases: [Deep; 5] = [
        (
            |b| {
                let one = b.lit(1.);
                (0..DEPTH).fold(one, |e, _| {
                    let one = b.lit(1.);
                    b.add(e, one)
                })
            },
            DEPTH as f64 + 1.,
            DEPTH,
        ),
        (
            |b| {
                let one = b.lit(1.);
                (0..DEPTH).fold(one, |e, _| {
                    let one = b.lit(1.);
                    b.add(one, e)
                })
            },
            DEPTH as f64 + 1.,
            DEPTH,
        ),
        (
            |b| {
                let one = b.lit(1.);
                (0..DEPTH).fold(one, |e, _| b.guard(lt(0, n()), e))
            },
            1.,
            0,
        ),
        // Nested to the right, with the innermost variable as the result.
        (
            |b| {
                let mut bound = Vec::new();
                let mut value = b.read(T, &[]);
                for _ in 0..DEPTH {
                    let var = b.0.fresh_var("v", Types::REAL);
                    bound.push((var, value));
                    value = b.var(var);
                }
                bound.into_iter().rev().fold(value, |body, (var, value)| b.push(Term::Let { var, value, body }))
            },
            5.,
            0,
        ),
        // A value as deep as the term, built and dropped.
        (
            |b| {
                let t = b.read(T, &[]);
                let pairs = (0..DEPTH).fold(t, |e, _| {
                    let one = b.lit(1.);
                    b.push(Term::Pair(e, one))
                });
                b.let_(pairs, |b, _| b.lit(2.))
            },
            2.,
            0,
        ),
    ];
    let check = move || {
        for (build, value, additions) in cases {
            let mut terms = Terms::new();
            let root = build(&mut terms);
            let program = terms.finish(root);
            let (leaves, counts) = evaluate_and_count(&program, &environment(|x| x as f64), limits()).unwrap();
            assert_eq!(leaves[0].values(), [value]);
            assert_eq!(counts.additions, additions as u128);
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap().join().unwrap();
}

/// A value that doubles at each of 1000 levels takes 1000 nodes.
#[test]
fn doubling_values_are_shared() {
    let mut b = Terms::new();
    let t = b.read(T, &[]);
    let mut bound = Vec::new();
    let mut value = t;
    for _ in 0..1000 {
        let ty = b.0.ty(value);
        let var = b.0.fresh_var("v", ty);
        bound.push((var, value));
        let (p, q) = (b.var(var), b.var(var));
        value = b.push(Term::Pair(p, q));
    }
    let root = (0..1000).fold(value, |e, _| b.push(Term::Fst(e)));
    let root = bound.into_iter().rev().fold(root, |body, (var, value)| b.push(Term::Let { var, value, body }));
    let leaves = evaluate(&b.finish(root), &environment(|x| x as f64), limits()).unwrap();
    assert_eq!(leaves[0].values(), [5.0]);
}

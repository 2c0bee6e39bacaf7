//! Values and counts that were worked out by hand, and what is refused.

use std::sync::Arc;

use super::super::count::{Partials, cost_io, count_tssa};
use super::super::testing::*;
use super::*;
use crate::base::{ParamId, RelationId};
use crate::index::{Affine, View};
use crate::scalar::{Comparison, Function, Number, Op, Primitive};
use crate::tensor::Relation;
use crate::tssa::Builder;
use crate::ty::{Format, Storage, Types};

type Gens = Vec<(IndexId, Size)>;

/// Shorthands over a builder.
struct Stmts(Builder);

impl Stmts {
    fn input(&mut self, p: ParamId) -> VarId {
        let dims = match p {
            X => vec![n()],
            Y => vec![m()],
            T => vec![],
            _ => vec![n(), m()],
        };
        self.0.input(p, Vec::new(), dims)
    }

    fn gens(&mut self, dims: &[Size]) -> Gens {
        self.0.fresh_indices(dims)
    }

    fn contract(&mut self, gens: &Gens, sums: &Gens, guard: Pred, operands: &[(VarId, &[IndexId])]) -> VarId {
        let operand = |(var, indices): &(VarId, &[IndexId])| Operand { var: *var, indices: indices.to_vec() };
        self.0.contract(gens, sums, guard, operands.iter().map(operand).collect()).unwrap()
    }

    fn map(&mut self, gens: &Gens, guard: Pred, op: Op, args: &[VarId]) -> VarId {
        self.0.map(gens, guard, op.into(), args.to_vec()).unwrap()
    }
}

fn program(build: impl FnOnce(&mut Stmts) -> VarId) -> Program {
    let mut stmts = Stmts(Builder::new(Arc::new(signature())));
    let x = build(&mut stmts);
    // The type of an output is read by the cost only.
    let output = Output { name: "value".into(), ty: Types::REAL, storage: Storage::Dense, leaves: vec![x] };
    stmts.0.finish(vec![output])
}

fn ids(gens: &Gens) -> Vec<IndexId> {
    gens.iter().map(|(i, _)| *i).collect()
}

/// Name, program, values, and `[additions, multiplications, functions, partials]`, worked out by hand.
type Case = (&'static str, fn(&mut Stmts) -> VarId, &'static [f64], [u128; 4]);

const CASES: &[Case] = &[
    (
        "matrix times vector",
        |b| {
            let (a, y, g, s) = (b.input(A), b.input(Y), b.gens(&[n()]), b.gens(&[m()]));
            b.contract(&g, &s, Pred::True, &[(a, &[g[0].0, s[0].0]), (y, &[s[0].0])])
        },
        &[50., 110., 170.],
        [3, 6, 0, 0],
    ),
    // 5.30: one summand each costs nothing.
    (
        "gather by a map",
        |b| {
            let (y, g, s) = (b.input(Y), b.gens(&[n()]), b.gens(&[m()]));
            b.contract(&g, &s, rel(CAM, &[g[0].0, s[0].0]), &[(y, &[s[0].0])])
        },
        &[20., 10., 20.],
        [0, 0, 0, 0],
    ),
    // Its adjoint: place 0 has one source, place 1 has two.
    (
        "scatter by a map",
        |b| {
            let (x, g, s) = (b.input(X), b.gens(&[m()]), b.gens(&[n()]));
            b.contract(&g, &s, rel(CAM, &[s[0].0, g[0].0]), &[(x, &[s[0].0])])
        },
        &[2., 4.],
        [1, 0, 0, 0],
    ),
    (
        "transposed sparse matrix times vector",
        |b| {
            let (a, x, g, s) = (b.input(S), b.input(X), b.gens(&[m()]), b.gens(&[n()]));
            let guard = rel(S_PATTERN, &[s[0].0, g[0].0]);
            b.contract(&g, &s, guard, &[(a, &[s[0].0, g[0].0]), (x, &[s[0].0])])
        },
        &[24., 7.],
        [0, 2, 0, 0],
    ),
    (
        "product at each place",
        |b| {
            let (x, g) = (b.input(X), b.gens(&[n()]));
            b.contract(&g, &Vec::new(), Pred::True, &[(x, &[g[0].0]), (x, &[g[0].0])])
        },
        &[1., 4., 9.],
        [0, 3, 0, 0],
    ),
    (
        "joint sum",
        |b| {
            let (a, s) = (b.input(A), b.gens(&[n(), m()]));
            b.contract(&Vec::new(), &s, Pred::True, &[(a, &ids(&s))])
        },
        &[21.],
        [5, 0, 0, 0],
    ),
    // The rows 1 and 2 have 1 and 2 points below the diagonal.
    (
        "sum under a triangle",
        |b| {
            let (a, g, s) = (b.input(A), b.gens(&[n()]), b.gens(&[m()]));
            b.contract(&g, &s, lt(s[0].0, g[0].0), &[(a, &[g[0].0, s[0].0])])
        },
        &[0., 3., 11.],
        [1, 0, 0, 0],
    ),
    (
        "equation with a coefficient",
        |b| {
            let (x, g, s) = (b.input(X), b.gens(&[n()]), b.gens(&[n()]));
            let guard = eq(Affine::index(s[0].0).scale(2).unwrap(), g[0].0);
            b.contract(&g, &s, guard, &[(x, &[s[0].0])])
        },
        &[1., 0., 2.],
        [0, 0, 0, 0],
    ),
    (
        "guarded addition",
        |b| {
            let (x, g) = (b.input(X), b.gens(&[n()]));
            let square = b.contract(&g, &Vec::new(), Pred::True, &[(x, &[g[0].0]), (x, &[g[0].0])]);
            b.0.add(&g, [(lt(g[0].0, 2), x), (lt(0, g[0].0), square)]).unwrap()
        },
        &[1., 6., 9.],
        [1, 3, 0, 0],
    ),
    (
        "addition where neither guard holds",
        |b| {
            let (x, g) = (b.input(X), b.gens(&[n()]));
            b.0.add(&g, [(eq(g[0].0, 0), x), (eq(g[0].0, 2), x)]).unwrap()
        },
        &[1., 0., 3.],
        [0, 0, 0, 0],
    ),
    (
        "function under a guard",
        |b| {
            let (x, g) = (b.input(X), b.gens(&[n()]));
            let k = b.0.number(&g, Number::Index(Affine::index(g[0].0))).unwrap();
            // 1 / 0 stands outside the guard.
            b.map(&g, lt(0, g[0].0), Op::Div, &[x, k])
        },
        &[0., 2., 1.5],
        [0, 0, 2, 0],
    ),
    (
        "partial derivative",
        |b| {
            let (x, g) = (b.input(X), b.gens(&[n()]));
            b.0.map(&g, Pred::True, Function::Partial(Primitive::Op(Op::Powi(2)), 0), vec![x]).unwrap()
        },
        &[2., 4., 6.],
        [0, 0, 0, 3],
    ),
    (
        "computed support",
        |b| {
            let (x, g) = (b.input(X), b.gens(&[n()]));
            let one = b.0.number(&g, Number::Literal(1.)).unwrap();
            let c = b.map(&g, Pred::True, Op::Compare(Comparison::Less), &[one, x]);
            let guard = rel(computed(c, View::Support), &[g[0].0]);
            b.contract(&Vec::new(), &g, guard, &[(x, &[g[0].0])])
        },
        &[5.],
        [1, 0, 3, 0],
    ),
    (
        "one-hot maximum of each row",
        |b| {
            let (a, g, s) = (b.input(A), b.gens(&[n()]), b.gens(&[m()]));
            let guard = rel(computed(a, View::ArgMax), &[g[0].0, s[0].0]);
            b.contract(&g, &s, guard, &[(a, &[g[0].0, s[0].0])])
        },
        &[2., 4., 6.],
        [0, 0, 0, 0],
    ),
    (
        "rows that are not empty",
        |b| {
            let (x, g) = (b.input(X), b.gens(&[n()]));
            let k = b.0.fresh_index();
            let guard = Pred::exists(k, n(), rel(E, &[g[0].0, k]));
            b.contract(&g, &Vec::new(), guard, &[(x, &[g[0].0])])
        },
        &[1., 2., 0.],
        [0, 0, 0, 0],
    ),
    (
        "sum over a negative size",
        |b| {
            let (t, s) = (b.input(T), b.gens(&[n_less(7)]));
            b.contract(&Vec::new(), &s, Pred::True, &[(t, &[])])
        },
        &[0.],
        [0, 0, 0, 0],
    ),
    (
        "2^40 empty rows",
        |b| {
            let (t, g) = (b.input(T), b.gens(&[Affine::constant(1 << 40), n_less(3)]));
            b.contract(&g, &Vec::new(), Pred::True, &[(t, &[])])
        },
        &[],
        [0, 0, 0, 0],
    ),
    // Free indices multiply: nothing is visited to count 2^40 summands.
    (
        "sum of nothing over 2^40",
        |b| {
            let (t, s) = (b.input(T), b.gens(&[Affine::constant(1 << 40), n_less(3)]));
            b.contract(&Vec::new(), &s, Pred::True, &[(t, &[])])
        },
        &[0.],
        [0, 0, 0, 0],
    ),
];

fn run(program: &Program, at: &Environment<f64>) -> Result<Vec<Vec<Leaf<f64>>>> {
    evaluate(program, at, Options { limits: limits(), ..Options::default() })
}

#[test]
fn values_and_counts() {
    let at = environment(|x| x as f64);
    for (name, build, expected, [additions, multiplications, functions, partials]) in CASES {
        let program = program(build);
        assert_eq!(run(&program, &at).unwrap()[0][0].values(), *expected, "{name}");
        let expected = Counts {
            additions: *additions,
            multiplications: *multiplications,
            functions: *functions,
            partials: *partials,
        };
        assert_eq!(count_tssa(&program, &at, limits()).unwrap(), expected, "{name}");
    }
}

#[test]
fn counting_needs_no_visit_of_free_indices() {
    let huge = Affine::constant(1 << 40);
    let program = program(|b| {
        let (t, g, s) = (b.input(T), b.gens(std::slice::from_ref(&huge)), b.gens(&[huge.clone(), n()]));
        b.contract(&g, &s, lt(0, s[1].0), &[(t, &[]), (t, &[])])
    });
    let counts = count_tssa(&program, &environment(|x| x as f64), limits()).unwrap();
    let points = 2u128 << 80;
    assert_eq!((counts.additions, counts.multiplications), (points - (1 << 40), points));
}

#[test]
fn costs_include_sizes() {
    // 2 multiplications; inputs 3 + 2 + 6 + 2 stored + 3 + 6 + 1; the output is declared as one number.
    let program = program(CASES[3].1);
    let at = environment(|x| x as f64);
    assert_eq!(cost_io(&program, &at, Partials::Counted, limits()).unwrap(), 2 + 23 + 1);
    // The partials of "partial derivative" are free or not.
    let counts = Counts { partials: 3, ..Counts::default() };
    assert_eq!([Partials::Free, Partials::Counted].map(|p| counts.total(p).unwrap()), [0, 3]);
}

/// A sparse matrix with 5e9 places: only entries are visited and kept, and a result on the pattern has exactly its entries.
#[test]
fn large_sparse_matrices() {
    let tuples = [[0, 49_999], [7, 3], [99_999, 0]];
    let pattern = Arc::new(Relation::from_tuples(&[100_000, 50_000], &tuples).unwrap());
    let mut at = environment(|x| x as f64);
    at.sizes = vec![100_000, 50_000];
    at.params[S.index()] = vec![Leaf::sparse(pattern.clone(), vec![1., 2., 3.]).unwrap()];
    at.relations[0] = pattern.clone();
    let mut b = Stmts(Builder::new(Arc::new(signature())));
    let s = b.input(S);
    let g = b.gens(&[n(), m()]);
    let stored = rel(S_PATTERN, &ids(&g));
    let squares = b.map(&g, stored.clone(), Op::Powi(2), &[s]);
    let both = b.0.add(&g, [(stored.clone(), squares), (eq(g[0].0, 7).and(stored.clone()), s)]).unwrap();
    let total = b.contract(&Vec::new(), &g, stored, &[(both, &ids(&g))]);
    let output = |x, storage| Output { name: "v".into(), ty: Types::REAL, storage, leaves: vec![x] };
    let outputs = vec![output(total, Storage::Dense), output(both, Storage::Sparse(Format::Csr, RelationId(0)))];
    let program = b.0.finish(outputs);
    let found = run(&program, &at).unwrap();
    assert_eq!(found[0][0].values(), [16.0]);
    assert_eq!(found[1][0], Leaf::sparse(pattern, vec![1., 6., 9.]).unwrap());
    let counts = count_tssa(&program, &at, limits()).unwrap();
    assert_eq!((counts.functions, counts.additions), (3, 1 + 2));
}

/// Only what the wanted outputs need is evaluated; progress counts it.
#[test]
fn outputs_on_demand() {
    let mut b = Stmts(Builder::new(Arc::new(signature())));
    let (x, s, g) = (b.input(X), b.input(S), b.gens(&[n(), m()]));
    // Reads the sparse parameter outside its pattern.
    let wrong = b.contract(&Vec::new(), &g, Pred::True, &[(s, &ids(&g))]);
    let output =
        |name: &str, x| Output { name: name.into(), ty: Types::REAL, storage: Storage::Dense, leaves: vec![x] };
    let program = b.0.finish(vec![output("wrong", wrong), output("x", x)]);
    let at = environment(|x| x as f64);
    let mut seen = Vec::new();
    let mut progress = |done, total| seen.push((done, total));
    let options = Options { outputs: Some(vec![1]), progress: Some(&mut progress), ..Options::default() };
    assert_eq!(evaluate(&program, &at, options).unwrap()[0][0].values(), [1., 2., 3.]);
    assert_eq!(seen, [(1, 1)]);
    let error = run(&program, &at).unwrap_err();
    assert!(matches!(&error, Error::Bug { message, .. } if message.contains("outside its pattern")), "{error}");
    let options = Options { outputs: Some(vec![2]), ..Options::default() };
    assert!(matches!(evaluate(&program, &at, options), Err(Error::Request(_))));
}

#[test]
fn limits_are_errors() {
    // Too many elements are found when they are made, too many steps before the first one.
    for (places, most) in [(1 << 23, limits().elements), (1 << 40, limits().steps)] {
        let program = program(|b| {
            let (t, g) = (b.input(T), b.gens(&[Affine::constant(places)]));
            b.contract(&g, &Vec::new(), Pred::True, &[(t, &[])])
        });
        let error = run(&program, &environment(|x| x as f64)).unwrap_err();
        assert!(matches!(error, Error::Limit { limit, .. } if limit == most), "{error}");
    }
}

#[test]
fn long_chains() {
    let program = program(|b| {
        let g = b.gens(&[n()]);
        let mut x = b.input(X);
        for _ in 0..100_000 {
            x = b.0.add(&g, [(lt(g[0].0, 2), x), (eq(g[0].0, 2), x)]).unwrap();
        }
        x
    });
    assert_eq!(run(&program, &environment(|x| x as f64)).unwrap()[0][0].values(), [1., 2., 3.]);
}

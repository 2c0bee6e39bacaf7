//! A small signature with data, and shorthands to build programs over it.

use std::sync::Arc;

use super::environment::{Environment, Leaf, Limits};
use crate::base::{IndexId, ParamId, RelationId, SizeId, VarId};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Op};
use crate::tensor::Relation;
use crate::term::{Program, Term, TermId};
use crate::ty::{Format, Param, RelationKind, Signature, Storage, Types};

pub const N: SizeId = SizeId(0);
pub const M: SizeId = SizeId(1);
/// `x : [n] real = [1, 2, 3]`
pub const X: ParamId = ParamId(0);
/// `y : [m] real = [10, 20]`
pub const Y: ParamId = ParamId(1);
/// `A : [n, m] real = [[1, 2], [3, 4], [5, 6]]`
pub const A: ParamId = ParamId(2);
/// `S : csr [n, m] real`, 7 at (0, 1) and 8 at (2, 0)
pub const S: ParamId = ParamId(3);
/// `ab : [n] (real, [m] real)`, the values of `x` and the rows of `A`
pub const AB: ParamId = ParamId(4);
/// `t : real = 5`
pub const T: ParamId = ParamId(5);
/// The pattern of `S`.
pub const S_PATTERN: RelationRef = RelationRef::Input(RelationId(0));
/// `E : [n, n]`, holding (0, 1) and (1, 2)
pub const E: RelationRef = RelationRef::Input(RelationId(1));
/// `map cam : [n] -> [m] = [1, 0, 1]`
pub const CAM: RelationRef = RelationRef::Input(RelationId(2));

pub fn n() -> Size {
    Affine::size(N)
}

pub fn m() -> Size {
    Affine::size(M)
}

/// `n - k`
pub fn n_less(k: i64) -> Size {
    n().add_constant(-k).unwrap()
}

pub fn signature() -> Signature {
    let mut types = Types::new();
    let real = Types::REAL;
    let row = types.tensor(m(), real);
    let pair = types.pair(real, row);
    let tys = [
        ("x", types.tensor(n(), real), Storage::Dense),
        ("y", row, Storage::Dense),
        ("A", types.tensor(n(), row), Storage::Dense),
        ("S", types.tensor(n(), row), Storage::Sparse(Format::Csr, RelationId(0))),
        ("ab", types.tensor(n(), pair), Storage::Dense),
        ("t", real, Storage::Dense),
    ];
    let relation =
        |name: &str, shape: [Size; 2], kind| crate::ty::Relation { name: name.into(), shape: shape.to_vec(), kind };
    Signature {
        types,
        sizes: ["n", "m"].map(String::from).into_iter().collect(),
        params: tys.into_iter().map(|(name, ty, storage)| Param { name: name.into(), ty, storage }).collect(),
        relations: [
            relation("S?", [n(), m()], RelationKind::Pattern(S)),
            relation("E", [n(), n()], RelationKind::Free),
            relation("cam", [n(), m()], RelationKind::Map),
        ]
        .into_iter()
        .collect(),
        ..Signature::default()
    }
}

/// The data of the signature, with numbers made by `number`.
pub fn environment<T: Clone>(number: impl Fn(i64) -> T) -> Environment<T> {
    let numbers = |xs: &[i64]| xs.iter().map(|x| number(*x)).collect::<Vec<T>>();
    let dense = |dims: &[u64], xs: &[i64]| Leaf::dense(dims.to_vec(), numbers(xs)).unwrap();
    let relation = |shape: [usize; 2], tuples: &[[usize; 2]]| Arc::new(Relation::from_tuples(&shape, tuples).unwrap());
    let x = dense(&[3], &[1, 2, 3]);
    let a = dense(&[3, 2], &[1, 2, 3, 4, 5, 6]);
    let pattern = relation([3, 2], &[[0, 1], [2, 0]]);
    Environment {
        sizes: vec![3, 2],
        params: vec![
            vec![x.clone()],
            vec![dense(&[2], &[10, 20])],
            vec![a.clone()],
            vec![Leaf::sparse(pattern.clone(), numbers(&[7, 8])).unwrap()],
            vec![x, a],
            vec![Leaf::scalar(number(5))],
        ],
        relations: vec![pattern, relation([3, 3], &[[0, 1], [1, 2]]), relation([3, 2], &[[0, 1], [1, 0], [2, 1]])],
    }
}

pub fn limits() -> Limits {
    Limits { elements: 1 << 20, steps: 1 << 24 }
}

pub fn eq(a: impl Into<Affine>, b: impl Into<Affine>) -> Pred {
    Pred::equal(&a.into(), &b.into()).unwrap()
}

pub fn lt(a: impl Into<Affine>, b: impl Into<Affine>) -> Pred {
    Pred::lt(&a.into(), &b.into()).unwrap()
}

pub fn rel(relation: RelationRef, args: &[IndexId]) -> Pred {
    Pred::relation(relation, args.iter().map(|i| Affine::index(*i)).collect())
}

pub fn computed(var: VarId, view: View) -> RelationRef {
    RelationRef::Computed { var, view }
}

pub fn apply_map(map: RelationRef, args: &[IndexId]) -> Affine {
    Affine::var(Var::Apply(Box::new(Application { map, args: args.iter().map(|i| Affine::index(*i)).collect() })))
}

/// Builds terms from the inside out.
pub struct Terms(pub Program);

impl Terms {
    pub fn new() -> Self {
        Terms(Program::new(Arc::new(signature())))
    }

    pub fn push(&mut self, term: Term) -> TermId {
        self.0.push(term).unwrap()
    }

    pub fn lit(&mut self, x: f64) -> TermId {
        self.0.literal(x).unwrap()
    }

    pub fn var(&mut self, x: VarId) -> TermId {
        self.push(Term::Var(x))
    }

    pub fn read(&mut self, p: ParamId, at: &[Affine]) -> TermId {
        let x = self.var(VarId(p.0));
        self.0.access(x, at.iter().cloned()).unwrap()
    }

    /// `x[i]`
    pub fn x(&mut self, i: IndexId) -> TermId {
        self.read(X, &[i.into()])
    }

    /// `A[i, j]`
    pub fn a(&mut self, i: IndexId, j: IndexId) -> TermId {
        self.read(A, &[i.into(), j.into()])
    }

    pub fn add(&mut self, a: TermId, b: TermId) -> TermId {
        self.push(Term::Add(a, b))
    }

    pub fn mul(&mut self, a: TermId, b: TermId) -> TermId {
        self.push(Term::Mul(a, b))
    }

    pub fn op(&mut self, op: Op, args: &[TermId]) -> TermId {
        self.push(Term::Apply(op.into(), args.to_vec()))
    }

    /// `a < b` as a number
    pub fn less(&mut self, a: TermId, b: TermId) -> TermId {
        self.op(Op::Compare(Comparison::Less), &[a, b])
    }

    pub fn guard(&mut self, guard: Pred, body: TermId) -> TermId {
        self.push(Term::Iverson { guard, body })
    }

    pub fn gen_(&mut self, extent: Size, body: impl FnOnce(&mut Self, IndexId) -> TermId) -> TermId {
        let index = self.0.fresh_index("i");
        let body = body(self, index);
        self.push(Term::Gen { index, extent, body })
    }

    pub fn sum(&mut self, extent: Size, body: impl FnOnce(&mut Self, IndexId) -> TermId) -> TermId {
        let index = self.0.fresh_index("i");
        let body = body(self, index);
        self.push(Term::Sum { index, extent, body })
    }

    pub fn let_(&mut self, value: TermId, body: impl FnOnce(&mut Self, VarId) -> TermId) -> TermId {
        let ty = self.0.ty(value);
        let var = self.0.fresh_var("v", ty);
        let body = body(self, var);
        self.push(Term::Let { var, value, body })
    }

    pub fn finish(mut self, root: TermId) -> Program {
        self.0.root = root;
        self.0
    }
}

//! Random programs: every pass must keep their meaning, reach its normal form, and not raise their operation count.

use std::sync::Arc;

use fastrand::Rng;

use super::{eliminate_pairs, lift_lets, push_out_gens, to_tensor_ssa};
use crate::base::{Arena, IndexId, ParamId, RelationId, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var, View};
use crate::reference::count::{count_term, count_tssa};
use crate::reference::{Environment, Leaf, Limits, Partials, eval_term, eval_tssa};
use crate::scalar::{Comparison, Number, Op};
use crate::tensor;
use crate::term::{Program, Term, TermId};
use crate::ty::{Format, Param, Relation, RelationKind, Signature, Storage, Type, TypeId, Types};

const N: SizeId = SizeId(0);
const M: SizeId = SizeId(1);

/// `x : [n] real, A : csr [n, m] real, ab : [n] (real, ([m] real, real)), s : real, rel E : [n, m], map cam : [n] -> [m]`
fn signature() -> Signature {
    let mut types = Types::new();
    let (n, m) = (Affine::size(N), Affine::size(M));
    let vector = types.tensor(n.clone(), Types::REAL);
    let other = types.tensor(m.clone(), Types::REAL);
    let matrix = types.tensor(n.clone(), other);
    let inner = types.pair(other, Types::REAL);
    let pair = types.pair(Types::REAL, inner);
    let pairs = types.tensor(n.clone(), pair);
    let param = |name: &str, ty, storage| Param { name: name.to_owned(), ty, storage };
    let relation = |name: &str, kind| Relation { name: name.to_owned(), shape: vec![n.clone(), m.clone()], kind };
    Signature {
        types,
        sizes: Arena::from_iter(["n".to_owned(), "m".to_owned()]),
        params: Arena::from_iter([
            param("x", vector, Storage::Dense),
            param("A", matrix, Storage::Sparse(Format::Csr, RelationId(0))),
            param("ab", pairs, Storage::Dense),
            param("s", Types::REAL, Storage::Dense),
        ]),
        relations: Arena::from_iter([
            relation("A?", RelationKind::Pattern(ParamId(1))),
            relation("E", RelationKind::Free),
            relation("cam", RelationKind::Map),
        ]),
        ..Signature::default()
    }
}

fn inputs(rng: &mut Rng) -> Result<Environment<f64>> {
    let (n, m) = (rng.u64(0..4), rng.u64(1..4));
    let numbers = |rng: &mut Rng, count: u64| (0..count).map(|_| f64::from(rng.i32(-2..3))).collect::<Vec<_>>();
    let relation = |tuples: Vec<[usize; 2]>| {
        let relation = tensor::Relation::from_tuples(&[n as usize, m as usize], &tuples);
        relation.map(Arc::new).map_err(|e| Error::data("relation", e.to_string()))
    };
    let some = |rng: &mut Rng| {
        let all = (0..n as usize).flat_map(|i| (0..m as usize).map(move |j| [i, j]));
        relation(all.filter(|_| rng.bool()).collect())
    };
    let pattern = some(rng)?;
    let edges = some(rng)?;
    let cam = relation((0..n as usize).map(|i| [i, rng.usize(0..m as usize)]).collect())?;
    let params = vec![
        vec![Leaf::dense(vec![n], numbers(rng, n))?],
        vec![Leaf::sparse(pattern.clone(), numbers(rng, pattern.len() as u64))?],
        vec![
            Leaf::dense(vec![n], numbers(rng, n))?,
            Leaf::dense(vec![n, m], numbers(rng, n * m))?,
            Leaf::dense(vec![n], numbers(rng, n))?,
        ],
        vec![Leaf::scalar(f64::from(rng.i32(-2..3)))],
    ];
    Ok(Environment { sizes: vec![n as i64, m as i64], params, relations: vec![pattern, edges, cam] })
}

struct Grow {
    program: Program,
    rng: Rng,
    vars: Vec<(VarId, TypeId)>,
    indices: Vec<(IndexId, Size)>,
    fuel: usize,
    /// Without tensors and pairs but parameters.
    flat: bool,
}

impl Grow {
    fn push(&mut self, term: Term) -> TermId {
        self.program.push(term).expect("the generator types its terms")
    }

    fn extent(&mut self) -> Size {
        Affine::size(if self.rng.bool() { N } else { M })
    }

    fn index_of(&mut self, extent: &Size) -> Option<Affine> {
        let fits: Vec<IndexId> = self.indices.iter().filter(|(_, n)| n == extent).map(|(i, _)| *i).collect();
        (!fits.is_empty()).then(|| Affine::index(fits[self.rng.usize(0..fits.len())]))
    }

    /// An index of the extent, and a guard that keeps it in range.
    fn place(&mut self, extent: &Size) -> Option<(Pred, Affine)> {
        match self.rng.u32(0..6) {
            0 => {
                let i = self.index_of(extent)?.add_constant(self.rng.i64(-1..2)).ok()?;
                Some((Pred::in_range(&i, extent).ok()?, i))
            }
            1 => {
                let i = self.index_of(extent)?.scale(2).ok()?;
                Some((Pred::in_range(&i, extent).ok()?, i))
            }
            2 => {
                let i = self.index_of(&Affine::size(N))?;
                let j = self.index_of(&Affine::size(M))?;
                let a = i.sub(&j).ok()?;
                Some((Pred::in_range(&a, extent).ok()?, a))
            }
            3 if extent.as_size() == Some(M) => {
                let i = self.index_of(&Affine::size(N))?;
                let map = RelationRef::Input(RelationId(2));
                Some((Pred::True, Affine::var(Var::Apply(Box::new(Application { map, args: vec![i] })))))
            }
            4 => {
                let (var, _) = self.computed(1)?;
                let ty = self.program.variables[var].ty;
                let dims = self.program.types.real_dims(ty)?;
                if dims[0] != *extent {
                    return None;
                }
                let view = if self.rng.bool() { View::ArgMax } else { View::ArgMin };
                let map = RelationRef::Computed { var, view };
                let not_empty = Pred::lt(&Affine::constant(0), extent).ok()?;
                Some((not_empty, Affine::var(Var::Apply(Box::new(Application { map, args: vec![] })))))
            }
            _ => Some((Pred::True, self.index_of(extent)?)),
        }
    }

    /// A variable that is a dense tensor of reals of a rank.
    fn computed(&mut self, rank: usize) -> Option<(VarId, Vec<Size>)> {
        let sparse = VarId(1);
        let fits: Vec<(VarId, Vec<Size>)> = self
            .vars
            .iter()
            .filter(|(x, _)| *x != sparse)
            .filter_map(|(x, ty)| Some((*x, self.program.types.real_dims(*ty)?)))
            .filter(|(_, dims)| dims.len() == rank)
            .collect();
        (!fits.is_empty()).then(|| fits[self.rng.usize(0..fits.len())].clone())
    }

    fn pred(&mut self, depth: usize) -> Option<Pred> {
        let (n, m) = (Affine::size(N), Affine::size(M));
        Some(match self.rng.u32(0..9) {
            0 => {
                let a = self.index_of(&n)?;
                Pred::equal(&a, &self.index_of(&m)?.add_constant(self.rng.i64(-1..2)).ok()?).ok()?
            }
            1 => {
                let a = self.index_of(&n).or_else(|| self.index_of(&m))?;
                let b = self.index_of(&m).unwrap_or(m);
                Pred::lt(&a, &b).ok()?
            }
            2 => {
                let a = self.index_of(&m)?;
                Pred::unequal(&a.scale(2).ok()?, &n).ok()?
            }
            3 => {
                let args = vec![self.index_of(&n)?, self.index_of(&m)?];
                let p = Pred::relation(RelationRef::Input(RelationId(self.rng.u32(0..3))), args);
                if self.rng.bool() { p.negate()? } else { p }
            }
            4 if depth > 0 => self.pred(depth - 1)?.and(self.pred(depth - 1)?),
            5 if depth > 0 => self.pred(depth - 1)?.or(self.pred(depth - 1)?),
            6 if depth > 0 => {
                let extent = self.extent();
                let k = self.program.fresh_index("k");
                self.indices.push((k, extent.clone()));
                let body = self.pred(depth - 1);
                self.indices.pop();
                Pred::exists(k, extent, body?)
            }
            7 => {
                let rank = self.rng.usize(0..2);
                let (var, dims) = self.computed(rank)?;
                let args = dims.iter().map(|n| self.index_of(n)).collect::<Option<Vec<_>>>()?;
                let p = Pred::relation(RelationRef::Computed { var, view: View::Support }, args);
                if self.rng.bool() { p.negate()? } else { p }
            }
            _ => {
                let (guard, a) = self.place(&m)?;
                let b = self.index_of(&m)?;
                guard.and(Pred::le(&a, &b).ok()?)
            }
        })
    }

    fn ty(&mut self, depth: usize) -> TypeId {
        if self.flat {
            return Types::REAL;
        }
        match self.rng.u32(0..6) {
            0 if depth > 0 => {
                let (a, b) = (self.ty(depth - 1), self.ty(depth - 1));
                self.program.types.pair(a, b)
            }
            1 | 2 if depth > 0 => {
                let n = self.extent();
                let element = self.ty(depth - 1);
                self.program.types.tensor(n, element)
            }
            _ => Types::REAL,
        }
    }

    fn guarded(&mut self, guard: Pred, body: TermId) -> TermId {
        match guard {
            Pred::True => body,
            guard => self.push(Term::Iverson { guard, body }),
        }
    }

    fn term(&mut self, ty: TypeId) -> TermId {
        self.fuel = self.fuel.saturating_sub(1);
        if self.fuel > 0 {
            match self.rng.u32(0..12) {
                0 => {
                    let bound = self.ty(2);
                    let value = self.term(bound);
                    let var = self.program.fresh_var("v", bound);
                    self.vars.push((var, bound));
                    let body = self.term(ty);
                    self.vars.pop();
                    return self.push(Term::Let { var, value, body });
                }
                1 | 2 => {
                    if let Some(guard) = self.pred(2) {
                        let body = self.term(ty);
                        return self.push(Term::Iverson { guard, body });
                    }
                }
                3 if !self.flat => {
                    let other = self.ty(1);
                    return if self.rng.bool() {
                        let pair = self.program.types.pair(ty, other);
                        let e = self.term(pair);
                        self.push(Term::Fst(e))
                    } else {
                        let pair = self.program.types.pair(other, ty);
                        let e = self.term(pair);
                        self.push(Term::Snd(e))
                    };
                }
                4 if !self.flat => {
                    let extent = self.extent();
                    if let Some((guard, index)) = self.place(&extent) {
                        let tensor = self.program.types.tensor(extent, ty);
                        let array = self.term(tensor);
                        let access = self.push(Term::Access { array, index });
                        return self.guarded(guard, access);
                    }
                }
                5 | 6 => {
                    let fits: Vec<VarId> = self.vars.iter().filter(|(_, t)| *t == ty).map(|(x, _)| *x).collect();
                    let sparse = VarId(1);
                    if let Some(x) = self.rng.choice(fits).filter(|x| *x != sparse) {
                        return self.push(Term::Var(x));
                    }
                }
                _ => {}
            }
        }
        match self.program.types.get(ty).clone() {
            Type::Real => self.scalar(),
            Type::Pair(a, b) => {
                let (a, b) = (self.term(a), self.term(b));
                self.push(Term::Pair(a, b))
            }
            Type::Tensor(extent, element) => {
                let index = self.program.fresh_index("g");
                self.indices.push((index, extent.clone()));
                let body = self.term(element);
                self.indices.pop();
                self.push(Term::Gen { index, extent, body })
            }
        }
    }

    fn scalar(&mut self) -> TermId {
        let choice = if self.fuel == 0 { self.rng.u32(0..3) } else { self.rng.u32(0..11) };
        match choice {
            0 => {
                let literal = f64::from(self.rng.i32(-2..3));
                self.push(Term::Number(Number::Literal(literal)))
            }
            1 => match self.place(&Affine::size(M)) {
                Some((guard, a)) => {
                    let number = self.push(Term::Number(Number::Index(a)));
                    self.guarded(guard, number)
                }
                None => self.push(Term::Number(Number::Index(Affine::size(N)))),
            },
            2..=4 => self.read().unwrap_or_else(|| self.push(Term::Var(VarId(3)))),
            5 | 6 => {
                let (a, b) = (self.term(Types::REAL), self.term(Types::REAL));
                self.push(Term::Add(a, b))
            }
            7 => {
                let (a, b) = (self.term(Types::REAL), self.term(Types::REAL));
                self.push(Term::Mul(a, b))
            }
            8 => {
                let a = self.term(Types::REAL);
                if self.rng.bool() {
                    return self.push(Term::Apply(Op::Powi(2).into(), vec![a]));
                }
                let b = self.term(Types::REAL);
                self.push(Term::Apply(Op::Compare(Comparison::Less).into(), vec![a, b]))
            }
            _ => {
                let extent = self.extent();
                let index = self.program.fresh_index("t");
                self.indices.push((index, extent.clone()));
                let body = self.term(Types::REAL);
                self.indices.pop();
                self.push(Term::Sum { index, extent, body })
            }
        }
    }

    /// An element of a variable, or of the sparse parameter under its pattern.
    fn read(&mut self) -> Option<TermId> {
        let (x, ty) = self.vars[self.rng.usize(0..self.vars.len())];
        let dims = self.program.types.real_dims(ty)?;
        let mut guards = Vec::new();
        let mut args = Vec::new();
        for n in &dims {
            let (guard, a) = self.place(n)?;
            guards.push(guard);
            args.push(a);
        }
        if x == VarId(1) {
            guards.push(Pred::relation(RelationRef::Input(RelationId(0)), args.clone()));
        }
        let var = self.push(Term::Var(x));
        let access = self.program.access(var, args).expect("the generator types its terms");
        Some(self.guarded(Pred::all(guards), access))
    }
}

fn is_flat(seed: u64) -> bool {
    seed.is_multiple_of(4)
}

fn grow(seed: u64) -> Program {
    let program = Program::new(Arc::new(signature()));
    let vars = program.variables.iter().map(|(x, variable)| (x, variable.ty)).collect();
    let mut rng = Rng::with_seed(seed);
    let fuel = rng.usize(5..60);
    let flat = is_flat(seed);
    let mut grow = Grow { program, rng, vars, indices: Vec::new(), fuel, flat };
    let ty = grow.ty(3);
    grow.program.root = grow.term(ty);
    grow.program
}

#[track_caller]
fn check(seed: u64) {
    let source = grow(seed);
    source.verify().unwrap_or_else(|e| panic!("seed {seed}: the generator is wrong: {e}"));
    let lifted = lift_lets(&source).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let pair_free = eliminate_pairs(&lifted).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let pushed_out = push_out_gens(&pair_free).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let ssa = to_tensor_ssa(&pushed_out).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let stages = [("let-lifting", &lifted), ("pair-elimination", &pair_free), ("gen-pushout", &pushed_out)];
    for (pass, program) in stages {
        program.verify().unwrap_or_else(|e| panic!("seed {seed}, after {pass}: {e}"));
    }
    let again = lift_lets(&lifted).expect("a lifted program");
    assert_eq!((&again.terms, again.root), (&lifted.terms, lifted.root), "seed {seed}: lifting twice");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..4 {
        let inputs = inputs(&mut rng).expect("valid inputs");
        // The evaluator does not look at values without elements, so it counts nothing for a `let` in one.
        let counts_all = is_flat(seed) || inputs.sizes.iter().all(|n| *n > 0);
        let limits = Limits::default();
        let expected = eval_term::evaluate(&source, &inputs, limits).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let mut cost = count_term(&source, &inputs, limits).and_then(|c| c.total(Partials::Counted)).expect("a count");
        for (pass, program) in stages {
            let found = eval_term::evaluate(program, &inputs, limits);
            let found = found.unwrap_or_else(|e| panic!("seed {seed}, after {pass}: {e}"));
            assert_eq!(found, expected, "seed {seed}, after {pass}");
            let count = count_term(program, &inputs, limits).and_then(|c| c.total(Partials::Counted)).expect("a count");
            assert!(!counts_all || count <= cost, "seed {seed}, after {pass}: {count} operations in place of {cost}");
            cost = count;
        }
        let found = eval_tssa::evaluate(&ssa, &inputs, eval_tssa::Options::default());
        let found = found.unwrap_or_else(|e| panic!("seed {seed}, Tensor-SSA: {e}"));
        assert_eq!(found, [expected], "seed {seed}, Tensor-SSA");
        let count = count_tssa(&ssa, &inputs, limits).and_then(|c| c.total(Partials::Counted)).expect("a count");
        assert!(!counts_all || count <= cost, "seed {seed}, Tensor-SSA: {count} operations in place of {cost}");
    }
}

#[test]
fn random_programs_keep_their_meaning_and_cost() {
    let count = std::env::var("RANDOM_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(1500);
    (0..count).for_each(check);
}

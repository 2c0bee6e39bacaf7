//! What statements read as, and that this is the same function.

use std::sync::Arc;

use super::present;
use crate::base::{IndexId, ParamId, RelationId, SizeId, VarId};
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::reference::{Environment, Field, Leaf, Limits, eval_term, eval_tssa};
use crate::scalar::{Number, Op};
use crate::tensor::Relation as Tuples;
use crate::tssa::{Builder, Operand, Output};
use crate::ty::{Format, Param, Relation, RelationKind, Side, Signature, Storage, TypeId, Types};

/// Sizes n, m; x : [n + m - 1] real, w : [m] real, z : [n] real, A : csr [n, m] real, ab : [n] (real, [m] real), s : real; cam : [n] -> [m].
fn signature() -> Signature {
    let mut sig = Signature::default();
    let n = Size::size(sig.sizes.push("n".into()));
    let m = Size::size(sig.sizes.push("m".into()));
    let wide = n.add(&m).and_then(|a| a.add_constant(-1)).expect("small");
    let vector = |sig: &mut Signature, n: &Size| sig.types.tensor(n.clone(), Types::REAL);
    let (x, w, z) = (vector(&mut sig, &wide), vector(&mut sig, &m), vector(&mut sig, &n));
    let a = sig.types.tensor(n.clone(), w);
    let pair = sig.types.pair(Types::REAL, w);
    let ab = sig.types.tensor(n.clone(), pair);
    let pattern = RelationId(0);
    for (name, ty, storage) in [
        ("x", x, Storage::Dense),
        ("w", w, Storage::Dense),
        ("z", z, Storage::Dense),
        ("A", a, Storage::Sparse(Format::Csr, pattern)),
        ("ab", ab, Storage::Dense),
        ("s", Types::REAL, Storage::Dense),
    ] {
        sig.params.push(Param { name: name.into(), ty, storage });
    }
    let kinds = [("A?", RelationKind::Pattern(ParamId(3))), ("cam", RelationKind::Map)];
    for (name, kind) in kinds {
        sig.relations.push(Relation { name: name.into(), shape: vec![n.clone(), m.clone()], kind });
    }
    sig
}

fn n() -> Size {
    Size::size(SizeId(0))
}

fn m() -> Size {
    Size::size(SizeId(1))
}

/// The sum of multiples of the first indices and a constant size expression.
fn at(i: u32) -> Affine {
    Affine::index(IndexId(i))
}

/// `k = i - j + m - 1`.
fn diagonal(k: u32, i: u32, j: u32) -> Pred {
    let a = at(i).sub(&at(j)).and_then(|a| a.add(&m())).and_then(|a| a.add_constant(-1)).expect("small");
    Pred::equal(&at(k), &a).expect("small")
}

fn operand(var: VarId, indices: &[u32]) -> Operand {
    Operand { var, indices: indices.iter().map(|i| IndexId(*i)).collect() }
}

struct Make(Builder);

impl Make {
    fn input(&mut self, param: u32, dims: &[Size]) -> VarId {
        self.0.input(ParamId(param), Vec::new(), dims.to_vec())
    }
    fn number(&mut self, x: f64, dims: &[Size]) -> VarId {
        let gens: Vec<_> = dims.iter().enumerate().map(|(k, n)| (IndexId(k as u32), n.clone())).collect();
        self.0.number(&gens, Number::Literal(x)).expect("small")
    }
    /// The axes are indices 0.., the sums those behind.
    fn contract(&mut self, gens: &[Size], sums: &[Size], guard: Pred, operands: Vec<Operand>) -> VarId {
        let mut all = gens.iter().chain(sums).enumerate().map(|(k, n)| (IndexId(k as u32), n.clone()));
        let gens: Vec<_> = all.by_ref().take(gens.len()).collect();
        let sums: Vec<_> = all.collect();
        self.0.contract(&gens, &sums, guard, operands).expect("small")
    }
    fn map(&mut self, gens: &[Size], guard: Pred, op: Op, args: &[VarId]) -> VarId {
        let gens: Vec<_> = gens.iter().enumerate().map(|(k, n)| (IndexId(k as u32), n.clone())).collect();
        self.0.map(&gens, guard, op.into(), args.to_vec()).expect("small")
    }
    fn add(&mut self, gens: &[Size], a: (Pred, VarId), b: (Pred, VarId)) -> VarId {
        let gens: Vec<_> = gens.iter().enumerate().map(|(k, n)| (IndexId(k as u32), n.clone())).collect();
        self.0.add(&gens, [a, b]).expect("small")
    }
    /// `sum j, k. [k = i - j + m - 1] * x[k] * w[j] - z[i]`.
    fn residual(&mut self) -> VarId {
        let wide = n().add(&m()).and_then(|a| a.add_constant(-1)).expect("small");
        let (x, w, z) = (self.input(0, std::slice::from_ref(&wide)), self.input(1, &[m()]), self.input(2, &[n()]));
        let y = self.contract(&[n()], &[m(), wide], diagonal(2, 0, 1), vec![operand(x, &[2]), operand(w, &[1])]);
        let minus = self.number(-1.0, &[n()]);
        let minus = self.contract(&[n()], &[], Pred::True, vec![operand(minus, &[0]), operand(z, &[0])]);
        self.add(&[n()], (Pred::True, minus), (Pred::True, y))
    }
}

/// n = 3, m = 2, small numbers.
fn environment() -> Environment<Field> {
    let leaf = |dims: &[u64], from: u64| {
        let count = dims.iter().product::<u64>();
        Leaf::dense(dims.to_vec(), (from..from + count).map(|k| Field::new(k * k + 3)).collect()).expect("a leaf")
    };
    let pattern = Arc::new(Tuples::from_tuples(&[3, 2], &[[0, 1], [1, 0], [2, 0], [2, 1]]).expect("sorted"));
    let cam = Arc::new(Tuples::from_tuples(&[3, 2], &[[0, 1], [1, 0], [2, 1]]).expect("sorted"));
    let values = (1..5).map(|k| Field::new(10 * k)).collect();
    let a = Leaf::sparse(pattern.clone(), values).expect("a leaf");
    let params = vec![
        vec![leaf(&[4], 0)],
        vec![leaf(&[2], 5)],
        vec![leaf(&[3], 7)],
        vec![a],
        vec![leaf(&[3], 20), leaf(&[3, 2], 30)],
        vec![leaf(&[], 40)],
    ];
    Environment { sizes: vec![3, 2], params, relations: vec![pattern, cam] }
}

/// The text behind the declarations; both programs have the same value.
#[track_caller]
fn check(expected: &str, ty: impl Fn(&Signature) -> TypeId, build: impl FnOnce(&mut Make) -> Vec<VarId>) {
    let mut sig = signature();
    // All types that the tests ask for.
    let types = [n(), m()].map(|n| sig.types.tensor(n, Types::REAL));
    sig.types.tensor(n(), types[1]);
    sig.types.tensor(m(), types[0]);
    let ty = ty(&sig);
    let mut make = Make(Builder::new(Arc::new(sig)));
    let leaves = build(&mut make);
    let output = Output { name: "value".into(), ty, storage: Storage::Dense, leaves };
    let program = make.0.finish(vec![output]);
    let term = present(&program).expect("a term");
    if let Err(errors) = term.verify() {
        panic!("{errors}\n{term}");
    }
    let text = term.to_string();
    let body: Vec<&str> = text.lines().filter(|l| !["param", "rel", "map"].iter().any(|d| l.starts_with(d))).collect();
    assert_eq!(body.join("\n"), expected);
    match crate::surface::read(&text, &[]) {
        Ok(read) => assert!(read.same(&term), "{text}\nreads as\n{read}"),
        Err(error) => panic!("{text}\n{error}"),
    }
    let inputs = environment();
    let values = eval_tssa::evaluate(&program, &inputs, eval_tssa::Options::default());
    let values: Vec<_> = values.map_or_else(|error| panic!("{error}"), |v| v.into_iter().flatten().collect());
    let found = eval_term::evaluate(&term, &inputs, Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    let numbers =
        |leaves: &[Leaf<Field>]| leaves.iter().map(|l| (l.dims.clone(), l.values().to_vec())).collect::<Vec<_>>();
    assert_eq!(numbers(&found), numbers(&values));
}

/// The type of a tensor of reals.
fn tensor(dims: &'static [char]) -> impl Fn(&Signature) -> TypeId {
    move |sig| {
        let dims: Vec<Size> = dims.iter().map(|c| if *c == 'n' { n() } else { m() }).collect();
        sig.types.clone().tensor_of(&dims, Types::REAL)
    }
}

#[test]
fn present_deconvolution_gradient() {
    let expected = "\
let t0 = gen i < n. 2 * ((sum j < m. x[i - j + m - 1] * w[j]) - z[i])
in gen i < m. sum j < n. x[j - i + m - 1] * t0[j]";
    check(expected, tensor(&['m']), |b| {
        let d = b.residual();
        let two = b.number(2.0, &[n()]);
        let r = b.contract(&[n()], &[], Pred::True, vec![operand(two, &[0]), operand(d, &[0])]);
        let wide = n().add(&m()).and_then(|a| a.add_constant(-1)).expect("small");
        let x = b.input(0, std::slice::from_ref(&wide));
        let operands = vec![operand(x, &[2]), operand(r, &[1])];
        vec![b.contract(&[m()], &[n(), wide], diagonal(2, 1, 0), operands)]
    });
}

#[test]
fn present_single_uses_in_place() {
    check("sum i < n. ((sum j < m. x[i - j + m - 1] * w[j]) - z[i])^2", tensor(&[]), |b| {
        let d = b.residual();
        let square = b.map(&[n()], Pred::True, Op::Powi(2), &[d]);
        vec![b.contract(&[], &[n()], Pred::True, vec![operand(square, &[0])])]
    });
}

#[test]
fn present_writes_negations_where_they_are_read() {
    check("gen i < n. (z[i]^3 - z[i])^2 - z[i]", tensor(&['n']), |b| {
        let z = b.input(2, &[n()]);
        let minus = b.number(-1.0, &[]);
        let negation = b.contract(&[n()], &[], Pred::True, vec![operand(minus, &[]), operand(z, &[0])]);
        let cube = b.map(&[n()], Pred::True, Op::Powi(3), &[z]);
        let difference = b.add(&[n()], (Pred::True, cube), (Pred::True, negation));
        let square = b.map(&[n()], Pred::True, Op::Powi(2), &[difference]);
        vec![b.add(&[n()], (Pred::True, square), (Pred::True, negation))]
    });
}

#[test]
fn present_sums_over_the_places_of_parameters() {
    // The range of the sum is that of `w`, not that of what is computed from `z`.
    let wide = n().add(&m()).and_then(|a| a.add_constant(-1)).expect("small");
    let dims = |sig: &Signature| sig.params[ParamId(0)].ty;
    check(
        "let t0 = gen i < n. z[i]^2\nin gen i < n + m - 1. sum j < m. [i + j + 2 <= n + m and m <= i + j + 1] * w[j] * t0[i + j - m + 1]",
        dims,
        |b| {
            let (w, z) = (b.input(1, &[m()]), b.input(2, &[n()]));
            let e = b.map(&[n()], Pred::True, Op::Powi(2), &[z]);
            let operands = vec![operand(w, &[1]), operand(e, &[2])];
            vec![b.contract(std::slice::from_ref(&wide), &[m(), n()], diagonal(0, 2, 1), operands)]
        },
    );
}

#[test]
fn present_shares_what_is_used_twice() {
    let expected = "\
let t0 = sum i < n. z[i]^2
in let t1 = gen i < n. t0 * z[i]
in gen i < n. t1[i]^2";
    check(expected, tensor(&['n']), |b| {
        let z = b.input(2, &[n()]);
        let square = b.map(&[n()], Pred::True, Op::Powi(2), &[z]);
        // A sum that every element needs is not repeated for each.
        let total = b.contract(&[], &[n()], Pred::True, vec![operand(square, &[0])]);
        let scaled = b.contract(&[n()], &[], Pred::True, vec![operand(total, &[]), operand(z, &[0])]);
        vec![b.contract(&[n()], &[], Pred::True, vec![operand(scaled, &[0]), operand(scaled, &[0])])]
    });
}

fn pattern(i: u32, j: u32) -> Pred {
    Pred::relation(RelationRef::Input(RelationId(0)), vec![at(i), at(j)])
}

#[test]
fn present_sparse_reads() {
    check("gen i < n. sum j < m. A[i, j] * w[j]", tensor(&['n']), |b| {
        let (a, w) = (b.input(3, &[n(), m()]), b.input(1, &[m()]));
        vec![b.contract(&[n()], &[m()], pattern(0, 1), vec![operand(a, &[0, 1]), operand(w, &[1])])]
    });
    // The transposed matrix, with a guard of its own.
    check("gen i < m. sum j < n. [j <= i] * A[j, i] * z[j]", tensor(&['m']), |b| {
        let (a, z) = (b.input(3, &[n(), m()]), b.input(2, &[n()]));
        let guard = pattern(1, 0).and(Pred::le(&at(1), &at(0)).expect("small"));
        vec![b.contract(&[m()], &[n()], guard, vec![operand(a, &[1, 0]), operand(z, &[1])])]
    });
    // What needs the guard keeps it.
    let expected = "gen i < n, j < m. [A?(i, j)] * w[j] * A.value(i, j) * A.value(i, j)";
    check(expected, tensor(&['n', 'm']), |b| {
        let (a, w) = (b.input(3, &[n(), m()]), b.input(1, &[m()]));
        let inner = b.contract(&[n(), m()], &[], pattern(0, 1), vec![operand(a, &[0, 1]), operand(w, &[1])]);
        let outer = vec![operand(a, &[0, 1]), operand(inner, &[0, 1])];
        vec![b.contract(&[n(), m()], &[], pattern(0, 1), outer)]
    });
    // A read shared by two statements is written twice.
    check("gen i < n. (sum j < m. A[i, j]) * (sum j < m. A[i, j] * w[j])", tensor(&['n']), |b| {
        let (a, w) = (b.input(3, &[n(), m()]), b.input(1, &[m()]));
        let read = b.contract(&[n(), m()], &[], pattern(0, 1), vec![operand(a, &[0, 1])]);
        let left = b.contract(&[n()], &[m()], Pred::True, vec![operand(read, &[0, 1])]);
        let right = b.contract(&[n()], &[m()], Pred::True, vec![operand(read, &[0, 1]), operand(w, &[1])]);
        vec![b.contract(&[n()], &[], Pred::True, vec![operand(left, &[0]), operand(right, &[0])])]
    });
}

#[test]
fn present_maps_as_index_expressions() {
    check("gen i < n. w[cam(i)] * z[i]", tensor(&['n']), |b| {
        let (w, z) = (b.input(1, &[m()]), b.input(2, &[n()]));
        let guard = Pred::relation(RelationRef::Input(RelationId(1)), vec![at(0), at(1)]);
        vec![b.contract(&[n()], &[m()], guard, vec![operand(w, &[1]), operand(z, &[0])])]
    });
    // Its adjoint has no target to solve for.
    check("gen i < m. sum j < n. [cam(j) = i] * z[j]", tensor(&['m']), |b| {
        let z = b.input(2, &[n()]);
        let guard = Pred::relation(RelationRef::Input(RelationId(1)), vec![at(1), at(0)]);
        vec![b.contract(&[m()], &[n()], guard, vec![operand(z, &[1])])]
    });
}

#[test]
fn present_guards() {
    // A target that may be out of range keeps its range as a guard; a bound that follows from the ranges goes.
    check("gen i < n. [i < m] * w[i]", tensor(&['n']), |b| {
        let w = b.input(1, &[m()]);
        let guard = Pred::equal(&at(1), &at(0)).expect("small").and(Pred::non_negative(at(0)));
        vec![b.contract(&[n()], &[m()], guard, vec![operand(w, &[1])])]
    });
    // The equation is solved, and its range becomes a guard.
    check("gen i < n. [2*i <= n and i < m and i >= 1] * z[2*i - 1]", tensor(&['n']), |b| {
        let z = b.input(2, &[n()]);
        let doubled = at(0).scale(2).expect("small");
        let guard = Pred::equal(&doubled, &at(1).add_constant(1).expect("small")).expect("small");
        let guard = guard.and(Pred::lt(&at(0), &m()).expect("small"));
        vec![b.contract(&[n()], &[n()], guard, vec![operand(z, &[1])])]
    });
    // A stride stays; what does not mention the index of a sum stands outside of it.
    check("gen i < n. [i < m] * sum j < n. [3*i = 2*j] * z[j]", tensor(&['n']), |b| {
        let z = b.input(2, &[n()]);
        let guard = Pred::equal(&at(0).scale(3).expect("small"), &at(1).scale(2).expect("small")).expect("small");
        let guard = guard.and(Pred::lt(&at(0), &m()).expect("small"));
        vec![b.contract(&[n()], &[n()], guard, vec![operand(z, &[1])])]
    });
    check("gen i < n. [i <= 1] * z[i] + [i >= 1] * z[i]^(-1)", tensor(&['n']), |b| {
        let z = b.input(2, &[n()]);
        let bound = |k: i64| Pred::le(&at(0), &Affine::constant(k)).expect("small");
        let inverse = b.map(&[n()], Pred::True, Op::Powi(-1), &[z]);
        let late = bound(0).negate().expect("an atom");
        vec![b.add(&[n()], (bound(1), z), (late, inverse))]
    });
}

#[test]
fn present_exists_under_its_own_name() {
    let expected = "gen i < n. [exists j < m. j <= i and A?(i, j)] * z[i]";
    check(expected, tensor(&['n']), |b| {
        let z = b.input(2, &[n()]);
        let body = pattern(0, 1).and(Pred::le(&at(1), &at(0)).expect("small"));
        let guard = Pred::exists(IndexId(1), m(), body);
        vec![b.contract(&[n()], &[], guard, vec![operand(z, &[0])])]
    });
}

#[test]
fn present_relations_computed_from_tensors() {
    let expected = "\
let t0 = gen i < n. s * z[i]
in gen i < n. [t0[i] != 0] * z[i]";
    check(expected, tensor(&['n']), |b| {
        let (z, s) = (b.input(2, &[n()]), b.input(5, &[]));
        let scaled = b.contract(&[n()], &[], Pred::True, vec![operand(z, &[0]), operand(s, &[])]);
        let relation = RelationRef::Computed { var: scaled, view: View::Support };
        let guard = Pred::relation(relation, vec![at(0)]);
        vec![b.contract(&[n()], &[], guard, vec![operand(z, &[0])])]
    });
    // A parameter is its own variable.
    check("sum i < n. [z[i] != 0] * z[i]", tensor(&[]), |b| {
        let z = b.input(2, &[n()]);
        let relation = RelationRef::Computed { var: z, view: View::Support };
        let guard = Pred::relation(relation, vec![at(0)]);
        vec![b.contract(&[], &[n()], guard, vec![operand(z, &[0])])]
    });
}

#[test]
fn present_pairs() {
    let ab = |sig: &Signature| sig.params[ParamId(4)].ty;
    check("(gen i < n. fst ab[i] * s, gen i < n, j < m. (snd ab[i])[j])", ab, |b| {
        let first = b.0.input(ParamId(4), vec![Side::Fst], vec![n()]);
        let second = b.0.input(ParamId(4), vec![Side::Snd], vec![n(), m()]);
        let s = b.input(5, &[]);
        vec![b.contract(&[n()], &[], Pred::True, vec![operand(first, &[0]), operand(s, &[])]), second]
    });
}

#[test]
fn present_is_linear_in_a_doubling_graph() {
    let work = || {
        let mut make = Make(Builder::new(Arc::new(signature())));
        let mut x = make.input(5, &[]);
        for _ in 0..1000 {
            x = make.contract(&[], &[], Pred::True, vec![operand(x, &[]), operand(x, &[])]);
        }
        for _ in 0..100_000 {
            x = make.map(&[], Pred::True, Op::Exp, &[x]);
        }
        let output = Output { name: "value".into(), ty: Types::REAL, storage: Storage::Dense, leaves: vec![x] };
        let term = present(&make.0.finish(vec![output])).expect("a term");
        assert!(term.verify().is_ok());
        assert_eq!(term.terms.len(), 100_000 + 3 * 1000 - 1);
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("a thread");
    thread.join().expect("no overflow");
}

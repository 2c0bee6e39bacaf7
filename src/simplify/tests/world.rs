//! What open expressions mean, by definition: the oracle of the rules.
//!
//! Nothing here is shared with the pass but the data types, and what a node says at given indices ([`lang::open`]). A read of a class is an
//! element of one of its nodes. A false guard gives 0 whatever stands behind it, and a sum over nothing is 0. Products are those of the numbers,
//! NaN and infinities among them.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Id as _, IndexId, ParamId, RelationId, SizeId};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::reference::{Field, Numeric};
use crate::scalar::{self, Function};
use crate::simplify::expr::{Expr, Read};
use crate::simplify::graph::{Graph, Scope};
use crate::simplify::lang::{self, Head};
use crate::ty::{Format, Param, Relation, RelationKind, Signature, Storage, Types};

/// The numbers that the oracle computes with.
pub(super) trait Scalar: Clone {
    fn number(x: f64) -> Option<Self>;
    fn product(factors: Vec<Self>) -> Self;
    fn total(terms: Vec<Self>) -> Self;
    /// Nothing where there is no such function of these numbers.
    fn apply(function: Function, args: &[Self]) -> Option<Self>;
}

/// Floats, bit for bit. Expressions have no order of factors and terms, so these are taken in the order of their values; data and
/// literals are small dyadic numbers, whose products are exact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits(pub(super) f64);

impl Bits {
    fn fold(mut xs: Vec<Self>, first: f64, fold: impl Fn(f64, f64) -> f64) -> Self {
        xs.sort_by(|a, b| a.0.total_cmp(&b.0));
        Bits(xs.into_iter().map(|x| x.0).reduce(fold).unwrap_or(first))
    }
}

impl Scalar for Bits {
    fn number(x: f64) -> Option<Self> {
        Some(Bits(x))
    }

    fn product(factors: Vec<Self>) -> Self {
        Bits::fold(factors, 1.0, |a, b| a * b)
    }

    fn total(terms: Vec<Self>) -> Self {
        Bits::fold(terms, 0.0, |a, b| a + b)
    }

    fn apply(function: Function, args: &[Self]) -> Option<Self> {
        let args: Vec<f64> = args.iter().map(|x| x.0).collect();
        Some(Bits(scalar::evaluate(function, &Default::default(), &args)))
    }
}

/// A float and a generous bound of its rounding error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Approx {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Approx {
    const UNIT: f64 = 1e-13;

    fn new(value: f64, error: f64) -> Self {
        Approx { value, error: error + value.abs() * Approx::UNIT }
    }
}

impl Scalar for Approx {
    fn number(x: f64) -> Option<Self> {
        Some(Approx { value: x, error: 0.0 })
    }

    fn product(factors: Vec<Self>) -> Self {
        let times = |a: Approx, b: Approx| {
            Approx::new(a.value * b.value, a.value.abs() * b.error + b.value.abs() * a.error + a.error * b.error)
        };
        factors.into_iter().reduce(times).unwrap_or(Approx { value: 1.0, error: 0.0 })
    }

    fn total(terms: Vec<Self>) -> Self {
        let plus = |a: Approx, b: Approx| {
            Approx::new(a.value + b.value, a.error + b.error + (a.value.abs() + b.value.abs()) * Approx::UNIT)
        };
        terms.into_iter().reduce(plus).unwrap_or(Approx { value: 0.0, error: 0.0 })
    }

    fn apply(function: Function, args: &[Self]) -> Option<Self> {
        let values: Vec<f64> = args.iter().map(|x| x.value).collect();
        let at = |values: &[f64]| scalar::evaluate(function, &Default::default(), values);
        let value = at(&values);
        let mut error = 0.0;
        for (k, arg) in args.iter().enumerate().filter(|(_, arg)| arg.error > 0.0) {
            for shifted in [arg.value - arg.error, arg.value + arg.error] {
                let mut near = values.clone();
                near[k] = shifted;
                let change = (at(&near) - value).abs();
                error += if change.is_nan() { f64::INFINITY } else { change };
            }
        }
        Some(Approx::new(value, error))
    }
}

impl Scalar for Field {
    fn number(x: f64) -> Option<Self> {
        Field::literal(x).ok()
    }

    fn product(factors: Vec<Self>) -> Self {
        factors.into_iter().fold(Field::new(1), |a, b| Numeric::mul(&a, &b))
    }

    fn total(terms: Vec<Self>) -> Self {
        terms.into_iter().fold(Field::new(0), |a, b| Numeric::add(&a, &b))
    }

    fn apply(function: Function, args: &[Self]) -> Option<Self> {
        <Field as Numeric>::apply(function, &Default::default(), args).ok()
    }
}

pub(super) const N: SizeId = SizeId(0);
pub(super) const M: SizeId = SizeId(1);
/// `x y z : [n]`
pub(super) const VECTORS: [ParamId; 3] = [ParamId(0), ParamId(1), ParamId(2)];
/// `u : [m]`
pub(super) const U: ParamId = ParamId(3);
/// `A : [n, n]`
pub(super) const A: ParamId = ParamId(4);
/// `S : csr [n, n]`
pub(super) const S: ParamId = ParamId(5);
pub(super) const S_PATTERN: RelationRef = RelationRef::Input(RelationId(0));
/// `E : [n, m]`
pub(super) const E: RelationRef = RelationRef::Input(RelationId(1));
/// `map g : [n] -> [n]`
pub(super) const G: RelationRef = RelationRef::Input(RelationId(2));

/// `x, y, z : [n]`, `u : [m]`, `A : [n, n]`, `S : csr [n, n]`, `E : [n, m]`, `map g : [n] -> [n]`
pub(super) fn signature() -> Signature {
    let (n, m) = (Affine::size(N), Affine::size(M));
    let mut types = Types::new();
    let vector = types.tensor(n.clone(), Types::REAL);
    let short = types.tensor(m.clone(), Types::REAL);
    let matrix = types.tensor(n.clone(), vector);
    let param = |name: &str, ty, storage| Param { name: name.into(), ty, storage };
    let relation =
        |name: &str, last: &Size, kind| Relation { name: name.into(), shape: vec![n.clone(), last.clone()], kind };
    Signature {
        types,
        sizes: ["n", "m"].map(String::from).into_iter().collect(),
        params: [("x", vector), ("y", vector), ("z", vector), ("u", short), ("A", matrix)]
            .map(|(name, ty)| param(name, ty, Storage::Dense))
            .into_iter()
            .chain([param("S", matrix, Storage::Sparse(Format::Csr, RelationId(0)))])
            .collect(),
        relations: [
            relation("S?", &n, RelationKind::Pattern(S)),
            relation("E", &m, RelationKind::Free),
            relation("g", &n, RelationKind::Map),
        ]
        .into_iter()
        .collect(),
        ..Signature::default()
    }
}

/// Which numbers the data may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Small dyadic numbers, zeros of both signs among them.
    Finite,
    /// Infinities and NaN too.
    All,
    /// Besides, numbers whose sums and products are rounded, overflow or vanish, for what holds bit for bit.
    Rough,
}

/// Sizes, data and relations.
#[derive(Clone, Debug)]
pub(super) struct World {
    sizes: [i64; 2],
    params: Vec<Vec<f64>>,
    relations: Vec<BTreeSet<Vec<i64>>>,
}

impl crate::solver::World for World {
    fn size(&self, size: SizeId) -> i64 {
        self.sizes[size.index()]
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        self.tuples(relation).contains(tuple)
    }

    fn candidates(&self, _: RelationRef, _: &[Option<i64>], _: usize) -> Option<Vec<i64>> {
        None
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        self.tuples(map).iter().find(|t| t[..source.len()] == *source).map(|t| t[source.len()])
    }
}

/// The values of indices.
pub(super) type Place = BTreeMap<IndexId, i64>;

impl World {
    /// Random data for given sizes.
    pub(super) fn random(rng: &mut fastrand::Rng, n: i64, m: i64, numbers: Numbers) -> World {
        let number = |rng: &mut fastrand::Rng| match (rng.u8(0..16), numbers) {
            (0, _) => 0.0,
            (1, _) => -0.0,
            (2, Numbers::All | Numbers::Rough) => f64::INFINITY,
            (3, Numbers::All | Numbers::Rough) => f64::NAN,
            (4, Numbers::All | Numbers::Rough) => f64::NEG_INFINITY,
            (5, _) => 1.0,
            (6, Numbers::Rough) => 1e200,
            (7, Numbers::Rough) => -1e-200,
            (8..=11, Numbers::Rough) => f64::from(rng.i32(-9..10)) / 7.0,
            _ => f64::from(rng.i32(-9..10)) / 4.0,
        };
        let volumes = [n, n, n, m, n * n, n * n];
        let params = volumes.map(|volume| (0..volume).map(|_| number(rng)).collect()).to_vec();
        let mut relations = vec![BTreeSet::new(); 3];
        for a in 0..n {
            for b in 0..n {
                if rng.bool() {
                    relations[0].insert(vec![a, b]);
                }
            }
            for b in 0..m {
                if rng.bool() {
                    relations[1].insert(vec![a, b]);
                }
            }
            relations[2].insert(vec![a, rng.i64(0..n)]);
        }
        World { sizes: [n, m], params, relations }
    }

    fn tuples(&self, relation: RelationRef) -> &BTreeSet<Vec<i64>> {
        match relation {
            RelationRef::Input(r) => &self.relations[r.index()],
            RelationRef::Computed { .. } => panic!("the oracle has no computed relations"),
        }
    }

    /// The value of an affine expression; nothing where a map has no target.
    pub(super) fn affine(&self, a: &Affine, at: &Place) -> Option<i64> {
        let value = a.evaluate(&mut |v| match v {
            Var::Index(i) => at.get(i).copied(),
            Var::Size(n) => Some(self.sizes[n.index()]),
            Var::Apply(application) => {
                let source: Option<Vec<i64>> = application.args.iter().map(|a| self.affine(a, at)).collect();
                crate::solver::World::apply(self, application.map, &source?)
            }
        });
        value.map(|value| value.expect("small numbers"))
    }

    /// Truth by definition; [`solver::holds`] makes a plan each time.
    pub(super) fn truth(&self, p: &Pred, at: &mut Place) -> bool {
        match p {
            Pred::True => true,
            Pred::False => false,
            Pred::NonNegative(a) => self.affine(a, at).is_some_and(|a| a >= 0),
            Pred::Zero(a) => self.affine(a, at) == Some(0),
            Pred::NonZero(a) => self.affine(a, at).is_some_and(|a| a != 0),
            Pred::Relation { relation, args, holds } => {
                let tuple: Option<Vec<i64>> = args.iter().map(|a| self.affine(a, at)).collect();
                tuple.is_some_and(|tuple| self.tuples(*relation).contains(&tuple) == *holds)
            }
            Pred::All(ps) => ps.iter().all(|p| self.truth(p, at)),
            Pred::Any(ps) => ps.iter().any(|p| self.truth(p, at)),
            Pred::Exists { index, extent, body } => {
                let extent = self.affine(extent, at).expect("sizes have values");
                let found = (0..extent).any(|i| {
                    at.insert(*index, i);
                    self.truth(body, at)
                });
                at.remove(index);
                found
            }
        }
    }

    /// The places of a scope.
    pub(super) fn places(&self, scope: &[(IndexId, Size)]) -> Vec<Place> {
        let mut found = vec![Place::new()];
        for (i, n) in scope {
            let n = self.affine(n, &Place::new()).expect("sizes have values");
            let longer = |place: &Place, k: i64| place.iter().map(|(j, v)| (*j, *v)).chain([(*i, k)]).collect();
            found = found.iter().flat_map(|place| (0..n).map(|k| longer(place, k)).collect::<Vec<Place>>()).collect();
        }
        found
    }
}

/// Evaluates expressions in a world.
pub(super) struct Oracle<'w, 'g, 'a> {
    pub(super) world: &'w World,
    pub(super) graph: &'g Graph<'a>,
    /// A place that a read cannot have makes the product or term around it zero, and so an argument, which is what closing adds guards for.
    /// Otherwise nothing around it has a value.
    pub(super) lenient: bool,
    /// Whether a product with a sum over an empty range is zero, whatever the other factors are. What comes out of a rule of the tier `finite` is
    /// evaluated so; what goes in is taken at its numbers.
    pub(super) annihilates: bool,
}

impl Oracle<'_, '_, '_> {
    /// Whether an expression is a product with a sum over an empty range.
    fn vanishes(&self, e: &Expr) -> bool {
        match e {
            Expr::Number(_) | Expr::Index(_) | Expr::Apply(..) => false,
            Expr::Read(read) => {
                let class = &self.graph.egraph[self.graph.egraph.find(read.class)];
                let Some(node) = class.nodes.first().filter(|node| !matches!(&*node.head, Head::Input { .. })) else {
                    return false;
                };
                let mut next = u32::MAX / 2;
                let mut fresh = || {
                    next += 1;
                    IndexId(next)
                };
                lang::open(node, &read.indices, &mut fresh).is_ok_and(|body| self.vanishes(&body))
            }
            Expr::Product(product) => {
                let empty = |(_, n): &(IndexId, Size)| self.world.affine(n, &Place::new()).is_some_and(|n| n <= 0);
                product.sums.iter().any(empty) || product.factors.iter().any(|e| self.vanishes(e))
            }
            Expr::Sum(terms) => terms.iter().all(|e| self.vanishes(e)),
        }
    }

    /// `[[e]]` at a place.
    pub(super) fn value<T: Scalar>(&self, e: &Expr, at: &mut Place) -> Option<T> {
        if self.annihilates && matches!(e, Expr::Product(_)) && self.vanishes(e) {
            return T::number(0.0);
        }
        match e {
            Expr::Number(x) => T::number(x.get()),
            Expr::Index(a) => T::number(self.world.affine(a, at)? as f64),
            Expr::Read(read) => self.read(read, at),
            Expr::Product(product) => {
                let mut terms = Vec::new();
                // Sums begin at 0.
                if !product.sums.is_empty() {
                    terms.push(T::number(0.0)?);
                }
                for inner in self.world.places(&product.sums) {
                    at.extend(inner);
                    if self.world.truth(&product.guard, at) {
                        terms.push(self.or_zero(self.factors(&product.factors, at))?);
                    } else {
                        terms.push(T::number(0.0)?);
                    }
                }
                for (i, _) in &product.sums {
                    at.remove(i);
                }
                Some(T::total(terms))
            }
            Expr::Sum(terms) => {
                let terms: Option<Vec<T>> = terms.iter().map(|e| self.or_zero(self.value(e, at))).collect();
                Some(T::total(terms?))
            }
            Expr::Apply(function, args) => {
                let args: Option<Vec<T>> = args.iter().map(|e| self.or_zero(self.value(e, at))).collect();
                self.or_zero(args.and_then(|args| T::apply(*function, &args)))
            }
        }
    }

    /// Literals first: those that a rule makes of index expressions are folded.
    fn factors<T: Scalar>(&self, factors: &[Expr], at: &mut Place) -> Option<T> {
        let is_literal = |e: &&Expr| matches!(e, Expr::Number(_) | Expr::Index(_));
        let (literals, others): (Vec<&Expr>, Vec<&Expr>) = factors.iter().partition(is_literal);
        let mut values = |es: Vec<&Expr>| es.into_iter().map(|e| self.value(e, at)).collect::<Option<Vec<T>>>();
        let mut all = values(others)?;
        let literals = values(literals)?;
        if !literals.is_empty() {
            all.push(T::product(literals));
        }
        Some(T::product(all))
    }

    fn or_zero<T: Scalar>(&self, x: Option<T>) -> Option<T> {
        x.or_else(|| if self.lenient { T::number(0.0) } else { None })
    }

    fn read<T: Scalar>(&self, read: &Read, at: &Place) -> Option<T> {
        let indices: Vec<i64> = read.indices.iter().map(|a| self.world.affine(a, at)).collect::<Option<_>>()?;
        let class = &self.graph.egraph[self.graph.egraph.find(read.class)];
        let mut place = 0;
        for (i, n) in indices.iter().zip(&class.data.dims) {
            let n = self.world.affine(n, &Place::new())?;
            if !(0..n).contains(i) {
                return None;
            }
            place = place * n + i;
        }
        let node = class.nodes.first()?;
        if let Head::Input { param, pattern, .. } = &*node.head {
            if pattern.is_some_and(|r| !self.world.relations[r.index()].contains(&indices)) {
                return None;
            }
            return T::number(self.world.params[param.index()][place as usize]);
        }
        let constants: Vec<Affine> = indices.into_iter().map(Affine::constant).collect();
        let mut next = u32::MAX / 3;
        let mut fresh = || {
            next += 1;
            IndexId(next)
        };
        let body = lang::open(node, &constants, &mut fresh).expect("small numbers");
        self.value(&body, &mut Place::new())
    }
}

/// The scope as far as it occurs in either expression.
pub(super) fn free_in_either(scope: &Scope, left: &Expr, right: &Expr) -> Scope {
    scope.iter().filter(|(i, _)| left.mentions(*i) || right.mentions(*i)).cloned().collect()
}

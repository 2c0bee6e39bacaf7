//! Open expressions: what rules match and build.
//!
//! An expression has free indices and reads e-classes, which are closed tensors: `2 * sum j < m. [j <= i] * X[i, j]` reads the class
//! `X` and is open in `i`. Bound indices are distinct from each other and from all free ones, so nothing is ever captured.
//!
//! Associativity and commutativity are part of the form: a product is a list of factors under one guard and one list of `sum`
//! indices, a sum is a list of terms. Literals of a product are folded.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::rc::Rc;

use egg::Id;
use rustc_hash::FxBuildHasher;
use smallvec::{SmallVec, smallvec};

use crate::base::{IndexId, work};
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::scalar::Function;

/// A real number that compares by its bits: `0` and `-0` differ, and a NaN equals itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Real(u64);

impl Real {
    pub(super) const ZERO: Real = Real::new(0.0);
    pub(super) const ONE: Real = Real::new(1.0);

    pub(super) const fn new(x: f64) -> Self {
        Real(x.to_bits())
    }

    pub(super) fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl std::fmt::Debug for Real {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

/// An element of an e-class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Read {
    pub(super) class: Id,
    pub(super) indices: Rc<[Affine]>,
}

/// `sum s. [p] * f0 * f1 * ..`
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Product {
    pub(super) sums: Vec<(IndexId, Size)>,
    pub(super) guard: Pred,
    pub(super) factors: Vec<Expr>,
}

/// An open expression. Parts are shared: matching copies expressions all the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Expr {
    /// A literal.
    Number(Real),
    /// An index expression as a real.
    Index(Rc<Affine>),
    /// An element of a class.
    Read(Read),
    /// A guarded product under sums.
    Product(Rc<Product>),
    /// A sum of at least two terms, none of which is a sum.
    Sum(Rc<[Expr]>),
    /// A scalar function.
    Apply(Function, Rc<[Expr]>),
}

impl Expr {
    pub(super) fn number(x: f64) -> Expr {
        Expr::Number(Real::new(x))
    }

    /// The integer `a` as a real; a literal where it is one.
    pub(super) fn index(a: Affine) -> Expr {
        match a.as_constant() {
            Some(k) if k.unsigned_abs() < 1 << 53 => Expr::number(k as f64),
            _ => Expr::Index(Rc::new(a)),
        }
    }

    pub(super) fn as_number(&self) -> Option<f64> {
        match self {
            Expr::Number(x) => Some(x.get()),
            _ => None,
        }
    }

    /// `sum s. [p] * f0 * ..`. Factors that are products without sums are merged, literals are multiplied.
    pub(super) fn product(sums: Vec<(IndexId, Size)>, guard: Pred, factors: Vec<Expr>) -> Expr {
        let mut guards: SmallVec<[Pred; 4]> = smallvec![guard];
        let mut flat = flattened(factors, |factor, parts| match factor {
            Expr::Product(inner) if inner.sums.is_empty() => {
                guards.push(inner.guard.clone());
                parts.extend_from_slice(&inner.factors);
                true
            }
            _ => false,
        });
        work::charge(2 + 2 * flat.len());
        let literal = folded(&mut flat, |a, b| a * b);
        let guard = Pred::all(guards);
        if guard.is_false() {
            return Expr::Number(Real::ZERO);
        }
        flat.sort();
        // A product of nothing is 1.
        let c = literal.unwrap_or(1.0);
        if c != 1.0 || flat.is_empty() {
            flat.insert(0, Expr::number(c));
        }
        match flat.as_mut_slice() {
            [only] if sums.is_empty() && guard.is_true() => std::mem::replace(only, Expr::Number(Real::ONE)),
            // sum s. [p] * (sum t. [q] * e)  ==  sum s t. [p and q] * e
            [Expr::Product(inner)] => {
                let sums = sums.into_iter().chain(inner.sums.iter().cloned()).collect();
                let guard = guard.and(inner.guard.clone());
                Expr::Product(Rc::new(Product { sums, guard, factors: inner.factors.clone() }))
            }
            _ => Expr::Product(Rc::new(Product { sums, guard, factors: flat })),
        }
    }

    /// `e0 + e1 + ..`, where terms that are sums are merged and literals are added.
    pub(super) fn sum(terms: Vec<Expr>) -> Expr {
        let mut flat = flattened(terms, |term, parts| match term {
            Expr::Sum(inner) => {
                parts.extend_from_slice(inner);
                true
            }
            _ => false,
        });
        work::charge(2 + 2 * flat.len());
        let literal = folded(&mut flat, |a, b| a + b);
        if let Some(c) = literal.filter(|c| *c != 0.0 || flat.is_empty()) {
            flat.push(Expr::number(c));
        }
        flat.sort();
        match flat.len() {
            0 => Expr::Number(Real::ZERO),
            1 => flat.remove(0),
            _ => Expr::Sum(flat.into()),
        }
    }

    /// The expression as a product: itself as the only factor where it is none.
    pub(super) fn into_product(self) -> Product {
        match self {
            Expr::Product(product) => Rc::unwrap_or_clone(product),
            other => Product { sums: Vec::new(), guard: Pred::True, factors: vec![other] },
        }
    }

    /// Calls `visit` on every affine expression, those of guards included.
    pub(super) fn visit_affine<'a>(&'a self, visit: &mut impl FnMut(&'a Affine)) {
        match self {
            Expr::Number(_) => {}
            Expr::Index(a) => visit(a),
            Expr::Read(read) => read.indices.iter().for_each(visit),
            Expr::Product(product) => {
                product.guard.visit_affine(visit);
                product.factors.iter().for_each(|e| e.visit_affine(visit));
            }
            Expr::Sum(es) | Expr::Apply(_, es) => es.iter().for_each(|e| e.visit_affine(visit)),
        }
    }

    /// Whether an index occurs.
    pub(super) fn mentions(&self, i: IndexId) -> bool {
        let mut found = false;
        self.visit_affine(&mut |a| found |= a.mentions(i));
        found
    }

    /// Whether one of the indices occurs.
    pub(super) fn mentions_any(&self, indices: &[IndexId]) -> bool {
        !indices.is_empty() && {
            let mut found = false;
            self.visit_affine(&mut |a| found |= indices.iter().any(|i| a.mentions(*i)));
            found
        }
    }

    /// Replaces free indices.
    pub(super) fn substitute(&self, replace: &impl Fn(IndexId) -> Option<Affine>) -> Checked<Expr> {
        Ok(match self {
            Expr::Number(_) => self.clone(),
            Expr::Index(a) => Expr::index(a.substitute(replace)?),
            Expr::Read(read) => Expr::Read(read.substitute(replace)?),
            Expr::Product(product) => {
                let factors = product.factors.iter().map(|e| e.substitute(replace)).collect::<Checked<_>>()?;
                Expr::product(product.sums.clone(), product.guard.substitute(replace)?, factors)
            }
            Expr::Sum(es) => Expr::sum(es.iter().map(|e| e.substitute(replace)).collect::<Checked<_>>()?),
            Expr::Apply(f, es) => Expr::Apply(*f, es.iter().map(|e| e.substitute(replace)).collect::<Checked<_>>()?),
        })
    }

    /// Gives every bound index a new name.
    pub(super) fn refresh(&self, fresh: &mut impl FnMut() -> IndexId) -> Checked<Expr> {
        let mut bound = BTreeMap::new();
        self.visit_binders(&mut |i| {
            bound.insert(i, fresh());
        });
        if bound.is_empty() { Ok(self.clone()) } else { self.rename(&bound) }
    }

    /// The reads, in order, each with the guards around it inside the expression.
    pub(super) fn reads(&self) -> Vec<(Read, Pred)> {
        let mut found = Vec::new();
        self.collect_reads(&Pred::True, &mut found);
        found
    }

    fn collect_reads(&self, around: &Pred, found: &mut Vec<(Read, Pred)>) {
        match self {
            Expr::Number(_) | Expr::Index(_) => {}
            Expr::Read(read) => found.push((read.clone(), around.clone())),
            Expr::Product(product) => {
                let around = around.clone().and(product.guard.clone());
                product.factors.iter().for_each(|e| e.collect_reads(&around, found));
            }
            Expr::Sum(es) | Expr::Apply(_, es) => es.iter().for_each(|e| e.collect_reads(around, found)),
        }
    }

    /// The sums around the read of a number, in the order of [`Expr::reads`], outermost first.
    pub(super) fn sums_around(&self, number: usize) -> Vec<(IndexId, Size)> {
        let mut sums = Vec::new();
        self.collect_sums(&mut { number }, &mut sums);
        sums
    }

    /// Whether the read was found, after so many others.
    fn collect_sums(&self, left: &mut usize, sums: &mut Vec<(IndexId, Size)>) -> bool {
        match self {
            Expr::Number(_) | Expr::Index(_) => false,
            Expr::Read(_) if *left == 0 => true,
            Expr::Read(_) => {
                *left -= 1;
                false
            }
            Expr::Product(product) => {
                let outside = sums.len();
                sums.extend(product.sums.iter().cloned());
                let found = product.factors.iter().any(|e| e.collect_sums(left, sums));
                if !found {
                    sums.truncate(outside);
                }
                found
            }
            Expr::Sum(es) | Expr::Apply(_, es) => es.iter().any(|e| e.collect_sums(left, sums)),
        }
    }

    /// The expression with the read of a number, in the order of [`Expr::reads`], replaced.
    pub(super) fn with_read(&self, number: usize, by: &Expr) -> Expr {
        self.replace_read(&mut Some(number), by)
    }

    fn replace_read(&self, left: &mut Option<usize>, by: &Expr) -> Expr {
        let mut all = |es: &[Expr]| es.iter().map(|e| e.replace_read(left, by)).collect::<Vec<_>>();
        match self {
            Expr::Number(_) | Expr::Index(_) => self.clone(),
            Expr::Read(_) => match *left {
                Some(0) => {
                    *left = None;
                    by.clone()
                }
                Some(k) => {
                    *left = Some(k - 1);
                    self.clone()
                }
                None => self.clone(),
            },
            Expr::Product(product) => {
                let factors = all(&product.factors);
                Expr::product(product.sums.clone(), product.guard.clone(), factors)
            }
            Expr::Sum(es) => Expr::sum(all(es)),
            Expr::Apply(f, es) => Expr::Apply(*f, all(es).into()),
        }
    }

    /// Renames indices, bound ones too.
    pub(super) fn rename(&self, names: &BTreeMap<IndexId, IndexId>) -> Checked<Expr> {
        let name = |i: IndexId| names.get(&i).copied();
        Ok(match self {
            Expr::Product(product) => {
                let sums = product.sums.iter().map(|(i, n)| (name(*i).unwrap_or(*i), n.clone())).collect();
                let factors = product.factors.iter().map(|e| e.rename(names)).collect::<Checked<_>>()?;
                Expr::product(sums, rename_pred(&product.guard, names)?, factors)
            }
            Expr::Sum(es) => Expr::sum(es.iter().map(|e| e.rename(names)).collect::<Checked<_>>()?),
            Expr::Apply(f, es) => Expr::Apply(*f, es.iter().map(|e| e.rename(names)).collect::<Checked<_>>()?),
            leaf => leaf.substitute(&|i| name(i).map(Affine::index))?,
        })
    }

    /// Calls `visit` on every index that is bound inside.
    pub(super) fn visit_binders(&self, visit: &mut impl FnMut(IndexId)) {
        match self {
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => {}
            Expr::Product(product) => {
                product.sums.iter().for_each(|(i, _)| visit(*i));
                product.guard.visit_binders(visit);
                product.factors.iter().for_each(|e| e.visit_binders(visit));
            }
            Expr::Sum(es) | Expr::Apply(_, es) => es.iter().for_each(|e| e.visit_binders(visit)),
        }
    }

    /// The indices of a scope that occur, in the order of their first occurrence; names do not matter for it. So the tensor of an
    /// expression has the same axes under whatever names, and in whatever order, the scope has them.
    pub(super) fn axes(&self, scope: &[(IndexId, Size)]) -> Vec<(IndexId, Size)> {
        let mut found: Vec<(IndexId, Size)> = Vec::new();
        self.visit_in_order(&mut |a| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v
                    && !found.iter().any(|(j, _)| j == i)
                    && let Some(entry) = scope.iter().find(|(j, _)| j == i)
                {
                    found.push(entry.clone());
                }
            });
        });
        found
    }

    /// Visits affine expressions, factors and terms in an order that does not depend on names; guards come last.
    fn visit_in_order(&self, visit: &mut impl FnMut(&Affine)) {
        let masked = |e: &&Expr| e.substitute(&|_| Some(Affine::constant(0))).unwrap_or_else(|_| (*e).clone());
        match self {
            Expr::Number(_) => {}
            Expr::Index(a) => visit(a),
            Expr::Read(read) => read.indices.iter().for_each(visit),
            Expr::Apply(_, es) => es.iter().for_each(|e| e.visit_in_order(visit)),
            Expr::Sum(es) => {
                let mut es: Vec<&Expr> = es.iter().collect();
                es.sort_by_cached_key(masked);
                es.into_iter().for_each(|e| e.visit_in_order(visit));
            }
            Expr::Product(product) => {
                let mut es: Vec<&Expr> = product.factors.iter().collect();
                es.sort_by_cached_key(masked);
                es.into_iter().for_each(|e| e.visit_in_order(visit));
                product.guard.visit_affine(visit);
            }
        }
    }

    /// The indices that occur free, in the order of a scope.
    pub(super) fn free(&self, scope: &[(IndexId, Size)]) -> Vec<(IndexId, Size)> {
        let mut mentioned = std::collections::BTreeSet::new();
        self.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v {
                    mentioned.insert(*i);
                }
            });
        });
        scope.iter().filter(|(i, _)| mentioned.contains(i)).cloned().collect()
    }

    /// Equal up to the names of bound indices.
    pub(super) fn same(&self, other: &Expr) -> bool {
        self == other
            || self.binds()
                && self.outline() == other.outline()
                && matches!((self.canonical(), other.canonical()), (Ok(a), Ok(b)) if a == b)
    }

    /// Whether any index is bound in the expression.
    fn binds(&self) -> bool {
        match self {
            Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => false,
            Expr::Product(product) => {
                !product.sums.is_empty() || product.guard.binds() || product.factors.iter().any(Expr::binds)
            }
            Expr::Sum(es) | Expr::Apply(_, es) => es.iter().any(Expr::binds),
        }
    }

    /// The expression with names of bound indices that depend on nothing outside of it.
    pub(super) fn canonical(&self) -> Checked<Expr> {
        let mut next = u32::MAX / 4;
        self.refresh(&mut || {
            next += 1;
            IndexId(next)
        })
    }

    /// A number that expressions have in common which are equal up to names: made of the classes and functions that occur, in any order.
    fn outline(&self) -> u64 {
        let all = |es: &[Expr]| es.iter().fold(0, |sum: u64, e| sum.wrapping_add(e.outline()));
        match self {
            Expr::Number(_) | Expr::Index(_) => 0,
            Expr::Read(read) => FxBuildHasher.hash_one(read.class),
            Expr::Product(product) => all(&product.factors).wrapping_add(product.sums.len() as u64),
            Expr::Sum(terms) => all(terms),
            Expr::Apply(function, args) => all(args).wrapping_add(FxBuildHasher.hash_one(function)),
        }
    }
}

/// A list in which an expression that `open` takes apart is replaced by its parts, at any depth.
fn flattened(es: Vec<Expr>, mut open: impl FnMut(&Expr, &mut Vec<Expr>) -> bool) -> Vec<Expr> {
    let mut parts = Vec::new();
    let Some(first) = es.iter().position(|e| open(e, &mut parts)) else { return es };
    let mut flat = Vec::with_capacity(es.len() + parts.len());
    let mut es = es.into_iter();
    flat.extend(es.by_ref().take(first));
    let mut pending: Vec<Expr> = es.skip(1).rev().collect();
    loop {
        pending.extend(parts.drain(..).rev());
        let Some(e) = pending.pop() else { return flat };
        if !open(&e, &mut parts) {
            flat.push(e);
        }
    }
}

/// Takes the literals out of a list, and joins them in order.
fn folded(es: &mut Vec<Expr>, join: impl Fn(f64, f64) -> f64) -> Option<f64> {
    let mut literal: Option<f64> = None;
    es.retain(|e| match e.as_number() {
        Some(x) => {
            literal = Some(literal.map_or(x, |c| join(c, x)));
            false
        }
        None => true,
    });
    literal
}

impl Read {
    pub(super) fn substitute(&self, replace: &impl Fn(IndexId) -> Option<Affine>) -> Checked<Read> {
        let indices = self.indices.iter().map(|a| a.substitute(replace)).collect::<Checked<_>>()?;
        Ok(Read { class: self.class, indices })
    }
}

/// Renames the indices of a predicate, bound ones too.
pub(super) fn rename_pred(p: &Pred, names: &BTreeMap<IndexId, IndexId>) -> Checked<Pred> {
    p.renamed(&|i| names.get(&i).copied().unwrap_or(i))
}

//! Predicates of Iverson brackets.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Affine, Checked, Overflow, Var};
use crate::base::{IndexId, RelationId, VarId, work};

/// What the outermost bound index is called where predicates are compared.
const FIRST_BOUND: u32 = 1 << 31;

/// A set of index tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationRef {
    /// Given at run time: declared, a map, or the pattern of a sparse parameter.
    Input(RelationId),
    /// Computed from the tensor that a variable holds.
    Computed {
        /// The tensor, of type `[n0] .. [nk] real`.
        var: VarId,
        /// Which tuples belong to the relation.
        view: View,
    },
}

impl RelationRef {
    /// The tensor that the relation is computed from, if it is.
    pub fn computed_from(self) -> Option<VarId> {
        match self {
            RelationRef::Computed { var, view: _ } => Some(var),
            RelationRef::Input(_) => None,
        }
    }
}

/// How a tensor of reals is read as a relation. All views are piecewise constant in the tensor, so their derivative is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The tuples whose element is not zero (a NaN is not zero).
    Support,
    /// The tuples `(.., i)` where `i` is the first place of the largest element along the last axis. A NaN is largest.
    ArgMax,
    /// The tuples `(.., i)` where `i` is the first place of the smallest element along the last axis. A NaN is smallest.
    ArgMin,
}

/// A predicate over indices, sizes and relations.
///
/// Build it with the functions below, which keep it canonical: constants folded, affine atoms reduced by their common divisor,
/// `and`/`or` flattened, sorted and free of repetitions, parallel bounds merged. A relation holds of no tuple outside its shape.
/// `and`, `or` and `exists` alternate to a depth of at most [`Pred::MAX_NESTING`], which the front ends and passes enforce.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pred {
    /// Always true.
    True,
    /// Never true.
    False,
    /// `0 <= a`.
    NonNegative(Affine),
    /// `a = 0`; the first coefficient is positive.
    Zero(Affine),
    /// `a != 0`; the first coefficient is positive.
    NonZero(Affine),
    /// `R(args)`, or `not R(args)`.
    Relation {
        /// The relation.
        relation: RelationRef,
        /// The tuple.
        args: Vec<Affine>,
        /// False for `not R(args)`.
        holds: bool,
    },
    /// All of at least two.
    All(Arc<[Pred]>),
    /// Any of at least two.
    Any(Arc<[Pred]>),
    /// There is an `index` with `0 <= index < extent` such that `body`.
    Exists {
        /// The bound index, which occurs nowhere else.
        index: IndexId,
        /// Its range; mentions no index.
        extent: Affine,
        /// What it must satisfy.
        body: Arc<Pred>,
    },
}

/// `p or (p and q)  ==  p`
fn absorb(alternatives: &mut Vec<Pred>) {
    work::charge(alternatives.len() * alternatives.len());
    let implies = |p: &Pred, q: &Pred| q.conjuncts().iter().all(|atom| p.conjuncts().contains(atom));
    let needless: Vec<bool> =
        alternatives.iter().map(|p| alternatives.iter().any(|q| p != q && implies(p, q))).collect();
    let mut at = needless.into_iter();
    alternatives.retain(|_| !at.next().unwrap_or(false));
}

/// Of predicates that are the same but for names of bound indices the first stays. Those that bind come last.
fn dedup_bound(sorted: &mut Vec<Pred>) {
    let first = sorted.partition_point(|p| !matches!(p, Pred::Exists { .. }));
    if sorted.len() < first + 2 {
        return;
    }
    let mut known: Vec<Pred> = Vec::new();
    let binding = sorted.split_off(first);
    sorted.extend(binding.into_iter().filter(|p| {
        let named = p.alpha_normal();
        let new = !known.contains(&named);
        known.push(named);
        new
    }));
}

/// The common divisor of the coefficients; 1 where it is none that could be divided by.
fn divisor(a: &Affine) -> i64 {
    i64::try_from(a.divisor()).map_or(1, |divisor| divisor.max(1))
}

/// The terms divided by a divisor of theirs, and another constant.
fn divided(a: Affine, divisor: i64, constant: i64) -> Affine {
    if divisor == 1 {
        return a;
    }
    let terms = a.terms().iter().map(|(v, k)| (v.clone(), k / divisor));
    Affine::from_terms(terms, constant).unwrap_or(a)
}

impl Pred {
    /// How deep `and`, `or` and `exists` may alternate.
    pub const MAX_NESTING: usize = 64;

    /// `0 <= a`.
    pub fn non_negative(a: Affine) -> Pred {
        if let Some(k) = a.as_constant() {
            return Pred::from(k >= 0);
        }
        // d*b + k >= 0  ==  b + floor(k / d) >= 0
        let d = divisor(&a);
        let constant = a.offset().div_euclid(d);
        Pred::NonNegative(divided(a, d, constant))
    }

    /// `a = 0`.
    pub fn zero(a: Affine) -> Pred {
        if let Some(k) = a.as_constant() {
            return Pred::from(k == 0);
        }
        // d*b + k = 0 has no solution unless d divides k.
        let d = divisor(&a);
        if a.offset() % d != 0 {
            return Pred::False;
        }
        let constant = a.offset() / d;
        let a = divided(a, d, constant);
        let negative = a.terms().first().is_some_and(|(_, k)| *k < 0);
        Pred::Zero(if negative { a.scale(-1).unwrap_or(a) } else { a })
    }

    /// `a != 0`.
    pub fn non_zero(a: Affine) -> Pred {
        match Pred::zero(a) {
            Pred::Zero(a) => Pred::NonZero(a),
            Pred::True => Pred::False,
            _ => Pred::True,
        }
    }

    /// `a <= b`.
    pub fn le(a: &Affine, b: &Affine) -> Checked<Pred> {
        Ok(Pred::non_negative(b.sub(a)?))
    }

    /// `a < b`.
    pub fn lt(a: &Affine, b: &Affine) -> Checked<Pred> {
        Ok(Pred::non_negative(b.sub(a)?.add_constant(-1)?))
    }

    /// `a = b`.
    pub fn equal(a: &Affine, b: &Affine) -> Checked<Pred> {
        Ok(Pred::zero(a.sub(b)?))
    }

    /// `a != b`.
    pub fn unequal(a: &Affine, b: &Affine) -> Checked<Pred> {
        Ok(Pred::non_zero(a.sub(b)?))
    }

    /// `0 <= a < extent`.
    pub fn in_range(a: &Affine, extent: &Affine) -> Checked<Pred> {
        Ok(Pred::non_negative(a.clone()).and(Pred::lt(a, extent)?))
    }

    /// `R(args)`.
    pub fn relation(relation: RelationRef, args: Vec<Affine>) -> Pred {
        Pred::Relation { relation, args, holds: true }
    }

    /// `exists index < extent. body`; the index may occur in `body` only. Nothing is eliminated here.
    pub fn exists(index: IndexId, extent: Affine, body: Pred) -> Pred {
        match body {
            Pred::False => Pred::False,
            body if !body.mentions(index) => match extent.add_constant(-1) {
                Ok(last) => body.and(Pred::non_negative(last)),
                Err(Overflow) => Pred::False,
            },
            body => Pred::Exists { index, extent, body: Arc::new(body) },
        }
    }

    /// That there are values for all of some indices, the first of which is the outermost.
    pub fn exists_each(indices: impl DoubleEndedIterator<Item = (IndexId, Affine)>, body: Pred) -> Pred {
        indices.rev().fold(body, |body, (index, extent)| Pred::exists(index, extent, body))
    }

    /// `self and other`.
    pub fn and(self, other: Pred) -> Pred {
        match (self, other) {
            (Pred::True, p) | (p, Pred::True) => p,
            (p, q) => Pred::all([p, q]),
        }
    }

    /// `self or other`.
    pub fn or(self, other: Pred) -> Pred {
        Pred::any([self, other])
    }

    /// The conjunction of all.
    pub fn all(preds: impl IntoIterator<Item = Pred>) -> Pred {
        let mut parts = preds.into_iter().filter(|p| !p.is_true());
        let Some(first) = parts.next() else { return Pred::True };
        // One alone is canonical.
        let Some(second) = parts.next() else { return first };
        let mut atoms = Vec::new();
        for p in [first, second].into_iter().chain(parts) {
            match p {
                Pred::False => return Pred::False,
                Pred::All(ps) => atoms.extend(ps.iter().cloned()),
                p => atoms.push(p),
            }
        }
        work::charge(8 * atoms.len());
        atoms.sort();
        atoms.dedup();
        // Of parallel bounds `a + k >= 0` the one with the smallest `k` implies the others. They are neighbours: terms order
        // before the constant.
        atoms.dedup_by(|later, kept| match (later, kept) {
            (Pred::NonNegative(a), Pred::NonNegative(b)) => a.terms() == b.terms(),
            _ => false,
        });
        dedup_bound(&mut atoms);
        if contradicts(&atoms) {
            return Pred::False;
        }
        match atoms.len() {
            0 => Pred::True,
            1 => atoms.remove(0),
            _ => Pred::All(atoms.into()),
        }
    }

    /// The disjunction of all.
    pub fn any(preds: impl IntoIterator<Item = Pred>) -> Pred {
        let mut atoms = Vec::new();
        for p in preds {
            match p {
                Pred::False => {}
                Pred::True => return Pred::True,
                Pred::Any(ps) => atoms.extend(ps.iter().cloned()),
                p => atoms.push(p),
            }
        }
        work::charge(8 * atoms.len());
        atoms.sort();
        atoms.dedup();
        // Of parallel bounds the one with the largest constant is implied by the others.
        atoms.reverse();
        atoms.dedup_by(|later, kept| match (later, kept) {
            (Pred::NonNegative(a), Pred::NonNegative(b)) => a.terms() == b.terms(),
            _ => false,
        });
        atoms.reverse();
        dedup_bound(&mut atoms);
        absorb(&mut atoms);
        // p or not p. Only for atoms: to negate an `and` builds an `or`, which would come back here, twice at each level.
        let is_atom = |p: &&Pred| !matches!(p, Pred::All(_) | Pred::Any(_) | Pred::Exists { .. });
        if atoms.iter().filter(is_atom).any(|p| p.negate().is_some_and(|q| atoms.binary_search(&q).is_ok())) {
            return Pred::True;
        }
        match atoms.len() {
            0 => Pred::False,
            1 => atoms.remove(0),
            _ => Pred::Any(atoms.into()),
        }
    }

    /// The predicate with bound indices named by how deep they are bound, so that those that differ in these names alone become the same; to compare
    /// with. No program has so many indices, and a prover counts those that it makes up down from the last.
    pub(crate) fn alpha_normal(&self) -> Pred {
        // A name in the place of a name does not overflow.
        self.bound_by_depth(0).unwrap_or_else(|Overflow| self.clone())
    }

    fn bound_by_depth(&self, depth: u32) -> Checked<Pred> {
        let all = |ps: &[Pred]| ps.iter().map(|p| p.bound_by_depth(depth)).collect::<Checked<Vec<Pred>>>();
        Ok(match self {
            Pred::All(ps) => Pred::all(all(ps)?),
            Pred::Any(ps) => Pred::any(all(ps)?),
            Pred::Exists { index, extent, body } => {
                let name = IndexId(FIRST_BOUND + depth);
                let body = body.substitute(&|i| (i == *index).then(|| Affine::index(name)))?;
                let body = Arc::new(body.bound_by_depth(depth + 1)?);
                Pred::Exists { index: name, extent: extent.clone(), body }
            }
            atom => atom.clone(),
        })
    }

    /// The predicate with other names for the indices that it binds, for a copy of it: binders never repeat.
    pub fn rebind(&self, fresh: &mut impl FnMut(IndexId) -> IndexId) -> Checked<Pred> {
        Ok(match self {
            Pred::All(ps) => Pred::all(ps.iter().map(|p| p.rebind(fresh)).collect::<Checked<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| p.rebind(fresh)).collect::<Checked<Vec<_>>>()?),
            Pred::Exists { index, extent, body } => {
                let name = fresh(*index);
                let body = body.substitute(&|i| (i == *index).then(|| Affine::index(name)))?;
                Pred::exists(name, extent.clone(), body.rebind(fresh)?)
            }
            atom => atom.clone(),
        })
    }

    /// `not self`, pushed to the atoms. Nothing for a predicate that holds an `exists`, whose negation is not in the language,
    /// or whose negated bound would overflow.
    pub fn negate(&self) -> Option<Pred> {
        Some(match self {
            Pred::True => Pred::False,
            Pred::False => Pred::True,
            // not (0 <= a + c)  ==  0 <= -a - c - 1, and -c - 1 is an integer whatever c is.
            Pred::NonNegative(a) => {
                let terms = a.terms().iter().map(|(v, k)| Some((v.clone(), k.checked_neg()?)));
                Pred::non_negative(Affine::from_terms(terms.collect::<Option<Vec<_>>>()?, !a.offset()).ok()?)
            }
            Pred::Zero(a) => Pred::NonZero(a.clone()),
            Pred::NonZero(a) => Pred::Zero(a.clone()),
            Pred::Relation { relation, args, holds } => {
                Pred::Relation { relation: *relation, args: args.clone(), holds: !holds }
            }
            Pred::All(ps) => Pred::any(ps.iter().map(Pred::negate).collect::<Option<Vec<_>>>()?),
            Pred::Any(ps) => Pred::all(ps.iter().map(Pred::negate).collect::<Option<Vec<_>>>()?),
            Pred::Exists { .. } => return None,
        })
    }

    /// What it says of indices and sizes alone: what follows where nothing is known of relations and maps.
    pub fn comparisons(&self) -> Pred {
        let kept = self.rebuild(&mut |atom| {
            let is_left_out = matches!(atom, Pred::Relation { .. }) || atom.applies_maps();
            Ok::<Pred, std::convert::Infallible>(if is_left_out { Pred::True } else { atom.clone() })
        });
        match kept {
            Ok(p) => p,
            Err(never) => match never {},
        }
    }

    /// The conjuncts: one, unless this is `true` or an `and`.
    pub fn conjuncts(&self) -> &[Pred] {
        match self {
            Pred::True => &[],
            Pred::All(ps) => ps,
            p => std::slice::from_ref(p),
        }
    }

    /// The disjuncts: one, unless this is `false` or an `or`.
    pub fn disjuncts(&self) -> &[Pred] {
        match self {
            Pred::False => &[],
            Pred::Any(ps) => ps,
            p => std::slice::from_ref(p),
        }
    }

    /// Whether each disjunct of another predicate is one of this, so that `self and q == q`.
    pub fn has_cases_of(&self, q: &Pred) -> bool {
        q.disjuncts().iter().all(|case| self.disjuncts().contains(case))
    }

    /// Whether this is the constant `true`.
    pub fn is_true(&self) -> bool {
        matches!(self, Pred::True)
    }

    /// Whether this is the constant `false`.
    pub fn is_false(&self) -> bool {
        matches!(self, Pred::False)
    }

    /// Replaces free indices. The replacements must not mention an index that this predicate binds; every pass keeps bound
    /// indices distinct from all others.
    pub fn substitute(&self, replace: &impl Fn(IndexId) -> Option<Affine>) -> Checked<Pred> {
        self.map_affine(&mut |a| a.substitute(replace))
    }

    /// The predicate with other names for its indices, those that it binds included. Different indices have different names.
    pub fn renamed(&self, name: &impl Fn(IndexId) -> IndexId) -> Checked<Pred> {
        Ok(match self {
            Pred::All(ps) => Pred::all(ps.iter().map(|p| p.renamed(name)).collect::<Checked<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| p.renamed(name)).collect::<Checked<Vec<_>>>()?),
            Pred::Exists { index, extent, body } => Pred::exists(name(*index), extent.clone(), body.renamed(name)?),
            atom => atom.substitute(&|i| Some(Affine::index(name(i))))?,
        })
    }

    /// Rebuilds the predicate with every affine expression replaced, extents of `exists` included.
    pub fn map_affine(&self, map: &mut impl FnMut(&Affine) -> Checked<Affine>) -> Checked<Pred> {
        work::charge(4);
        Ok(match self {
            Pred::True => Pred::True,
            Pred::False => Pred::False,
            Pred::NonNegative(a) => Pred::non_negative(map(a)?),
            Pred::Zero(a) => Pred::zero(map(a)?),
            Pred::NonZero(a) => Pred::non_zero(map(a)?),
            Pred::Relation { relation, args, holds } => Pred::Relation {
                relation: *relation,
                args: args.iter().map(&mut *map).collect::<Checked<_>>()?,
                holds: *holds,
            },
            Pred::All(ps) => Pred::all(ps.iter().map(|p| p.map_affine(map)).collect::<Checked<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| p.map_affine(map)).collect::<Checked<Vec<_>>>()?),
            Pred::Exists { index, extent, body } => Pred::exists(*index, map(extent)?, body.map_affine(map)?),
        })
    }

    /// Rebuilds the predicate with every atom (bound, equality, relation) replaced by a predicate.
    pub fn rebuild<E>(&self, atom: &mut impl FnMut(&Pred) -> Result<Pred, E>) -> Result<Pred, E> {
        work::charge(4);
        Ok(match self {
            Pred::All(ps) => Pred::all(ps.iter().map(|p| p.rebuild(atom)).collect::<Result<Vec<_>, E>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| p.rebuild(atom)).collect::<Result<Vec<_>, E>>()?),
            Pred::Exists { index, extent, body } => Pred::exists(*index, extent.clone(), body.rebuild(atom)?),
            p => atom(p)?,
        })
    }

    /// Rebuilds the predicate with every relation of an atom replaced.
    pub fn map_relations<E>(&self, map: &mut impl FnMut(RelationRef) -> Result<RelationRef, E>) -> Result<Pred, E> {
        self.rebuild(&mut |atom| {
            Ok(match atom {
                Pred::Relation { relation, args, holds } => {
                    Pred::Relation { relation: map(*relation)?, args: args.clone(), holds: *holds }
                }
                other => other.clone(),
            })
        })
    }

    /// Calls `visit` on every atom: bounds, equalities and relations.
    pub fn visit_atoms<'a>(&'a self, visit: &mut impl FnMut(&'a Pred)) {
        match self {
            Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| p.visit_atoms(visit)),
            Pred::Exists { body, .. } => body.visit_atoms(visit),
            p => visit(p),
        }
    }

    /// Calls `visit` on every affine expression, extents of `exists` included.
    pub fn visit_affine<'a>(&'a self, visit: &mut impl FnMut(&'a Affine)) {
        match self {
            Pred::True | Pred::False => {}
            Pred::NonNegative(a) | Pred::Zero(a) | Pred::NonZero(a) => visit(a),
            Pred::Relation { args, .. } => args.iter().for_each(visit),
            Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| p.visit_affine(visit)),
            Pred::Exists { extent, body, .. } => {
                visit(extent);
                body.visit_affine(visit);
            }
        }
    }

    /// Calls `visit` on every relation, those applied inside affine expressions included.
    pub fn visit_relations(&self, visit: &mut impl FnMut(RelationRef)) {
        self.visit_atoms(&mut |p| {
            if let Pred::Relation { relation, .. } = p {
                visit(*relation);
            }
        });
        self.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                if let Var::Apply(application) = v {
                    visit(application.map);
                }
            });
        });
    }

    /// Calls `visit` on every tensor that is read as a relation, inside affine expressions too.
    pub fn visit_computed(&self, visit: &mut impl FnMut(VarId)) {
        self.visit_computed_at(&mut |x, _| visit(x));
    }

    /// Whether it is about the target of a map.
    pub fn applies_map(&self) -> bool {
        let mut found = false;
        self.visit_affine(&mut |a| found |= a.applies_map());
        found
    }

    /// Whether a tensor is read as a relation.
    pub fn reads_computed(&self) -> bool {
        let mut found = false;
        self.visit_computed(&mut |_| found = true);
        found
    }

    /// Calls `visit` on every tensor that is read as a relation, and on what an atom asks of it, and where.
    pub fn visit_computed_at(&self, visit: &mut impl FnMut(VarId, Option<(View, &[Affine])>)) {
        self.visit_atoms(&mut |p| {
            if let Pred::Relation { relation: RelationRef::Computed { var, view }, args, .. } = p {
                visit(*var, Some((*view, args)));
            }
        });
        self.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                if let Var::Apply(application) = v {
                    application.map.computed_from().into_iter().for_each(|x| visit(x, None));
                }
            });
        });
    }

    /// Calls `visit` on the indices that the predicate does not bind. `exists` binds indices that occur nowhere else.
    pub fn visit_free(&self, visit: &mut dyn FnMut(IndexId)) {
        let mut bound = Vec::new();
        self.visit_binders(&mut |i| bound.push(i));
        self.visit_affine(&mut |a| {
            a.visit(&mut |v| match v {
                Var::Index(i) if !bound.contains(i) => visit(*i),
                _ => {}
            });
        });
    }

    /// Calls `visit` on every index that is bound, outside in.
    pub fn visit_binders(&self, visit: &mut dyn FnMut(IndexId)) {
        match self {
            Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| p.visit_binders(visit)),
            Pred::Exists { index, extent: _, body } => {
                visit(*index);
                body.visit_binders(visit);
            }
            Pred::True | Pred::False | Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_) => {}
            Pred::Relation { .. } => {}
        }
    }

    /// Calls `visit` on the range of every index that is bound, outside in.
    pub fn visit_ranges(&self, visit: &mut dyn FnMut(&Affine)) {
        match self {
            Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| p.visit_ranges(visit)),
            Pred::Exists { index: _, extent, body } => {
                visit(extent);
                body.visit_ranges(visit);
            }
            Pred::True | Pred::False | Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_) => {}
            Pred::Relation { .. } => {}
        }
    }

    /// Whether an index occurs free (or bound: bound indices are distinct from all others).
    pub fn mentions(&self, i: IndexId) -> bool {
        let mut found = false;
        self.visit_affine(&mut |a| found |= a.mentions(i));
        found
    }

    /// Whether it binds an index somewhere.
    pub fn binds(&self) -> bool {
        let mut found = false;
        self.visit_binders(&mut |_| found = true);
        found
    }

    /// Whether it is an `or` or an `exists`, which several cases or a search decide.
    pub fn has_cases(&self) -> bool {
        matches!(self, Pred::Any(_) | Pred::Exists { .. })
    }

    /// Whether a map is applied somewhere inside of an index.
    pub fn applies_maps(&self) -> bool {
        self.applied() > 0
    }

    /// How deep map applications nest, see [`Affine::nesting`].
    pub fn applied(&self) -> usize {
        let mut deepest = 0;
        self.visit_affine(&mut |a| deepest = deepest.max(a.nesting()));
        deepest
    }

    /// The number of atoms and quantifiers.
    pub fn weight(&self) -> usize {
        match self {
            Pred::True | Pred::False => 0,
            Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_) | Pred::Relation { .. } => 1,
            Pred::All(ps) | Pred::Any(ps) => ps.iter().map(Pred::weight).sum(),
            Pred::Exists { body, .. } => 1 + body.weight(),
        }
    }

    /// How deep `and`, `or` and `exists` alternate.
    pub fn nesting(&self) -> usize {
        match self {
            Pred::All(ps) | Pred::Any(ps) => 1 + ps.iter().map(Pred::nesting).max().unwrap_or(0),
            Pred::Exists { body, .. } => 1 + body.nesting(),
            _ => 0,
        }
    }
}

/// Whether sorted atoms contain an atom and its negation, or two parallel atoms that exclude each other.
fn contradicts(atoms: &[Pred]) -> bool {
    let parallel = |a: &Affine, b: &Affine| a.terms() == b.terms();
    let negated = atoms.iter().any(|p| matches!(p, Pred::NonZero(_) | Pred::Relation { holds: false, .. }));
    atoms.windows(2).any(|pair| match pair {
        // a + k = 0 and a + l = 0 with k != l
        [Pred::Zero(a), Pred::Zero(b)] => parallel(a, b),
        _ => false,
    }) || atoms.iter().any(|p| match p {
        // 0 <= a and 0 <= -a - k with k > 0
        Pred::NonNegative(a) => {
            let at = atoms.partition_point(|q| match q {
                Pred::NonNegative(b) => terms_beside_minus(b, a).is_lt(),
                q => *q < Pred::NonNegative(Affine::constant(i64::MIN)),
            });
            matches!(atoms.get(at), Some(Pred::NonNegative(b)) if terms_beside_minus(b, a).is_eq()
                && i128::from(a.offset()) + i128::from(b.offset()) < 0)
        }
        Pred::Relation { holds: true, .. } | Pred::Zero(_) => {
            negated && p.negate().is_some_and(|q| atoms.binary_search(&q).is_ok())
        }
        _ => false,
    })
}

/// How the terms of `a` order beside those of `-b`.
fn terms_beside_minus(a: &Affine, b: &Affine) -> Ordering {
    let minus = b.terms().iter().map(|(v, k)| (v, -i128::from(*k)));
    a.terms().iter().map(|(v, k)| (v, i128::from(*k))).cmp(minus)
}

impl From<bool> for Pred {
    fn from(value: bool) -> Pred {
        if value { Pred::True } else { Pred::False }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::solver::{Source, Toy};

    fn index(i: u32, k: i64, constant: i64) -> Affine {
        Affine::from_terms([(Var::Index(IndexId(i)), k)], constant).unwrap()
    }

    #[test]
    fn the_same_exists_is_said_once() {
        let related = |i| Pred::relation(RelationRef::Input(RelationId(0)), vec![index(0, 1, 0), index(i, 1, 0)]);
        let exists = |i, p| Pred::exists(IndexId(i), Affine::constant(7), p);
        let other = exists(3, related(3).and(Pred::non_negative(index(3, 1, -2))));
        let nested =
            |i, j| exists(i, related(i).and(exists(j, related(j).and(Pred::zero(index(i, 1, -1)).or(related(i))))));
        let cases = [
            (exists(1, related(1)).and(exists(2, related(2))), exists(1, related(1))),
            (exists(2, related(2)).or(exists(1, related(1))), exists(1, related(1))),
            (nested(1, 2).and(nested(3, 4)), nested(1, 2)),
            (other.clone().and(exists(2, related(2))).and(other.clone()), Pred::all([exists(2, related(2)), other])),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn pred_is_canonical() {
        let i = |k, c| index(0, k, c);
        let related = Pred::relation(RelationRef::Input(RelationId(0)), vec![i(1, 0)]);
        let not_related = related.negate().unwrap();
        let bound = |c| Pred::non_negative(i(1, c));
        let cases = [
            // 2*i + 3 >= 0  ==  i + 1 >= 0
            (Pred::non_negative(i(2, 3)), bound(1)),
            (Pred::non_negative(i(2, -3)), bound(-2)),
            (Pred::zero(i(2, 3)), Pred::False),
            (Pred::zero(i(-2, 4)), Pred::Zero(i(1, -2))),
            (Pred::non_zero(i(2, 3)), Pred::True),
            (bound(1).and(bound(-1)), bound(-1)),
            (bound(1).or(bound(-1)), bound(1)),
            (bound(-2).and(Pred::non_negative(i(-1, 1))), Pred::False),
            (bound(0).or(bound(0).negate().unwrap()), Pred::True),
            (related.clone().and(not_related.clone()), Pred::False),
            (related.clone().or(not_related.clone()), Pred::True),
            (Pred::zero(i(1, 0)).and(Pred::zero(i(1, -1))), Pred::False),
            (Pred::zero(i(1, 0)).and(Pred::non_zero(i(-1, 0))), Pred::False),
            (related.clone().and(bound(0)), bound(0).and(related.clone()).and(related.clone())),
            (Pred::exists(IndexId(5), Affine::constant(3), related.clone()), related.clone()),
            (Pred::exists(IndexId(5), Affine::constant(0), related), Pred::False),
        ];
        for (p, expected) in cases {
            assert_eq!(p, expected);
        }
    }

    #[test]
    fn pred_constructors_keep_the_meaning() {
        let mut rng = fastrand::Rng::with_seed(2);
        for case in 0..4000 {
            let indices = vec![IndexId(0), IndexId(1)];
            let mut source = Source { rng: &mut rng, indices, relations: true, maps: false, exists: true };
            let parts: Vec<Pred> = (0..source.rng.usize(1..4)).map(|_| source.pred(2)).collect();
            let shifted = source.affine(0);
            let (all, any) = (Pred::all(parts.clone()), Pred::any(parts.clone()));
            for _ in 0..4 {
                let world = Toy::random(&mut rng, -1);
                let mut at = BTreeMap::from([(IndexId(0), rng.i64(-2..5)), (IndexId(1), rng.i64(-2..5))]);
                let truths: Vec<bool> = parts.iter().map(|p| world.truth(p, &mut at)).collect();
                assert_eq!(world.truth(&all, &mut at), truths.iter().all(|t| *t), "case {case}: all of {parts:?}");
                assert_eq!(world.truth(&any, &mut at), truths.iter().any(|t| *t), "case {case}: any of {parts:?}");
                if let Some(negated) = any.negate() {
                    assert_eq!(world.truth(&negated, &mut at), !world.truth(&any, &mut at), "case {case}: not {any:?}");
                }
                let substituted = all.substitute(&|i| (i == IndexId(0)).then(|| shifted.clone())).unwrap();
                let before = world.truth(&substituted, &mut at);
                let value = world.affine(&shifted, &at).unwrap();
                at.insert(IndexId(0), value);
                assert_eq!(before, world.truth(&all, &mut at), "case {case}: {shifted:?} into {all:?}");
            }
        }
    }

    #[test]
    fn pred_survives_extreme_numbers() {
        for k in [i64::MIN, i64::MIN + 1, i64::MAX] {
            for c in [i64::MIN, -1, 0, i64::MAX] {
                let a = index(0, k, c);
                let atoms = [Pred::non_negative(a.clone()), Pred::zero(a.clone()), Pred::non_zero(a)];
                let joined = Pred::all(atoms.clone()).or(Pred::any(atoms));
                assert_eq!(joined.negate().and_then(|p| p.negate()).unwrap_or(joined.clone()), joined);
            }
        }
    }
}

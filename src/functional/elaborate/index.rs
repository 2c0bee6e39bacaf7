//! Index expressions and predicates as terms of the lambda calculus.
//!
//! ```text
//! [[c + k * i + ..]]            =  c + k * i + ..                    integers
//! [[map(a, ..)]]                =  map ! [[a]] ! ..
//! [[p and q]]                   =  if [[p]] then [[q]] else false
//! [[p or q]]                    =  if [[p]] then true else [[q]]
//! [[exists i < n. p]]           =  fold i < n, found = false. if found then true else [[p]]
//! [[R(a, ..)]]                  =  0 <= a < n and .. and R ! [[a]] ! .. = 1
//! ```
//!
//! An expression lies between the bounds that follow from the ranges of its indices; what they decide needs no test. An atom in which a map is applied
//! outside of its sources is false, whatever it says.

use super::{Elaborate, PASS};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{Prim, Term, TermId};
use crate::index::{Affine, Application, Pred, RelationRef, Var, View};
use crate::reference::Numeric;
use crate::scalar::Comparison;
use crate::ty;

/// A predicate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    /// Decided.
    Known(bool),
    /// Of type `unit + unit`.
    Term(TermId),
}

impl<T: Numeric> Elaborate<'_, T> {
    /// Makes variables for the relations that an index expression mentions.
    pub(super) fn bind_affine(&mut self, a: &Affine) -> Result<()> {
        let mut relations = Vec::new();
        a.visit(&mut |v| {
            if let Var::Apply(application) = v {
                relations.push(application.map);
            }
        });
        relations.into_iter().try_for_each(|relation| self.bind_reference(relation))
    }

    fn bind_reference(&mut self, relation: RelationRef) -> Result<()> {
        match relation {
            RelationRef::Input(r) => self.bind_relation(r),
            RelationRef::Computed { view: View::Support, .. } => Ok(()),
            RelationRef::Computed { var, view } => {
                if !self.extrema.contains_key(&(var, view)) {
                    let rank = self.dims(var)?.len();
                    let int = self.b.types().int();
                    let ty = (1..rank).fold(int, |ty, _| self.b.types().array(ty));
                    let at = self.b.fresh("at", ty);
                    self.extrema.insert((var, view), at);
                }
                Ok(())
            }
        }
    }

    /// The same of a predicate, and the ranges of its indices. Predicates nest at most [`Pred::MAX_NESTING`] deep.
    pub(super) fn bind_predicate(&mut self, p: &Pred) -> Result<()> {
        match p {
            Pred::True | Pred::False => Ok(()),
            Pred::NonNegative(a) | Pred::Zero(a) | Pred::NonZero(a) => self.bind_affine(a),
            Pred::Relation { relation, args, .. } => {
                self.bind_reference(*relation)?;
                args.iter().try_for_each(|a| self.bind_affine(a))
            }
            Pred::All(ps) | Pred::Any(ps) => ps.iter().try_for_each(|p| self.bind_predicate(p)),
            Pred::Exists { index, extent, body } => {
                self.set_range(*index, extent)?;
                self.bind_predicate(body)
            }
        }
    }

    /// The value of an expression of sizes.
    pub(super) fn constant(&self, a: &Affine) -> Result<Option<i64>> {
        let value = a.evaluate(&mut |v| match v {
            Var::Size(n) => self.at.sizes.get(n.index()).copied(),
            Var::Index(_) | Var::Apply(_) => None,
        });
        Ok(value.transpose()?)
    }

    /// `[[a]]`; nothing where a map that it applies has no targets.
    pub(super) fn affine(&mut self, a: &Affine) -> Result<Option<TermId>> {
        let (mut constant, mut sum) = (a.offset(), None);
        for (v, k) in a.terms() {
            let variable = match v {
                Var::Size(n) => {
                    let scaled = self.at.size(*n)?.checked_mul(*k);
                    constant = scaled.and_then(|scaled| scaled.checked_add(constant)).ok_or(Error::Overflow)?;
                    continue;
                }
                Var::Index(i) => {
                    let i = self.index_variable(*i)?;
                    self.b.var(i)
                }
                Var::Apply(application) => match self.apply(application)? {
                    Some(target) => target,
                    None => return Ok(None),
                },
            };
            let scaled = match k {
                1 => variable,
                -1 => self.b.prim(Prim::IntNeg, &[variable])?,
                k => {
                    let k = self.b.int(*k)?;
                    self.b.prim(Prim::IntMul, &[k, variable])?
                }
            };
            sum = Some(match sum {
                Some(sum) => self.b.prim(Prim::IntAdd, &[sum, scaled])?,
                None => scaled,
            });
        }
        Ok(Some(match sum {
            Some(sum) if constant == 0 => sum,
            Some(sum) => {
                let constant = self.b.int(constant)?;
                self.b.prim(Prim::IntAdd, &[sum, constant])?
            }
            None => self.b.int(constant)?,
        }))
    }

    /// The target of a map. Applications nest at most [`Affine::MAX_NESTING`] deep.
    fn apply(&mut self, application: &Application) -> Result<Option<TermId>> {
        match self.targets(application.map)? {
            Some(targets) => self.read(targets, &application.args),
            None => Ok(None),
        }
    }

    /// The variable of the targets of a map; nothing for extrema along an empty axis.
    fn targets(&self, map: RelationRef) -> Result<Option<VarId>> {
        let missing = || Error::bug(PASS, "a relation is not bound");
        match map {
            RelationRef::Input(r) => self.relations.get(&r).copied().map(Some).ok_or_else(missing),
            RelationRef::Computed { var, view } => match self.dims(var)?.last() {
                Some(0) => Ok(None),
                _ => self.extrema.get(&(var, view)).copied().map(Some).ok_or_else(missing),
            },
        }
    }

    /// `x ! [[a]] ! ..`
    fn read(&mut self, x: VarId, at: &[Affine]) -> Result<Option<TermId>> {
        let mut e = self.b.var(x);
        for a in at {
            let Some(k) = self.affine(a)? else { return Ok(None) };
            e = self.b.index(e, k)?;
        }
        Ok(Some(e))
    }

    /// The least and the greatest value of an expression; nothing where an index has no values.
    fn bounds(&self, a: &Affine) -> Result<Option<(i128, i128)>> {
        let (mut low, mut high) = (i128::from(a.offset()), i128::from(a.offset()));
        for (v, k) in a.terms() {
            let k = i128::from(*k);
            let (least, greatest) = match v {
                Var::Size(n) => (self.at.size(*n)?.into(), self.at.size(*n)?.into()),
                Var::Index(i) => (0, i128::from(self.ranges.get(i.index()).copied().unwrap_or(0)) - 1),
                Var::Apply(application) => match self.shape(application.map)?.last() {
                    Some(targets) => (0, i128::from(*targets) - 1),
                    None => return Ok(None),
                },
            };
            if greatest < least {
                return Ok(None);
            }
            let (x, y) = (k * least, k * greatest);
            (low, high) = (low + x.min(y), high + x.max(y));
        }
        Ok(Some((low, high)))
    }

    /// The ranges of the places of a relation.
    fn shape(&self, relation: RelationRef) -> Result<Vec<i64>> {
        match relation {
            RelationRef::Input(r) => {
                let found = self.source.signature.relations.get(r);
                let shape = &found.ok_or_else(|| Error::bug(PASS, format!("an unknown relation {r}")))?.shape;
                let extents = self.at.extents(shape)?.into_iter();
                extents.map(|n| i64::try_from(n).map_err(|_| Error::Overflow)).collect()
            }
            RelationRef::Computed { var, .. } => self.dims(var),
        }
    }

    /// `0 <= a < n`
    fn in_range(&mut self, a: &Affine, n: i64) -> Result<Condition> {
        let below = a.scale(-1)?.add_constant(n.checked_sub(1).ok_or(Error::Overflow)?)?;
        let (from, to) = (self.non_negative(a)?, self.non_negative(&below)?);
        self.and(from, to)
    }

    /// `0 <= a`
    fn non_negative(&mut self, a: &Affine) -> Result<Condition> {
        Ok(match self.bounds(a)? {
            Some((low, _)) if low >= 0 => Condition::Known(true),
            Some((_, high)) if high < 0 => Condition::Known(false),
            // An index without values: nobody asks.
            None => Condition::Known(false),
            Some(_) => self.compare(Comparison::LessEqual, a)?,
        })
    }

    /// `0 = a` and others.
    fn compare(&mut self, comparison: Comparison, a: &Affine) -> Result<Condition> {
        let Some(a) = self.affine(a)? else { return Ok(Condition::Known(false)) };
        let zero = self.b.int(0)?;
        Ok(Condition::Term(self.b.prim(Prim::IntCompare(comparison), &[zero, a])?))
    }

    /// That all maps in an expression are applied to their sources, the innermost ones first.
    fn sources(&mut self, a: &Affine) -> Result<Condition> {
        let mut all = Condition::Known(true);
        for (v, _) in a.terms() {
            if let Var::Apply(application) = v {
                let shape = self.shape(application.map)?;
                for (arg, n) in application.args.iter().zip(shape) {
                    let inner = self.sources(arg)?;
                    let here = self.in_range(arg, n)?;
                    let both = self.and(inner, here)?;
                    all = self.and(all, both)?;
                }
                if self.targets(application.map)?.is_none() {
                    all = Condition::Known(false);
                }
            }
        }
        Ok(all)
    }

    /// `p and q`; `q` is evaluated where `p` holds.
    fn and(&mut self, p: Condition, q: Condition) -> Result<Condition> {
        Ok(match (p, q) {
            (Condition::Known(false), _) | (_, Condition::Known(false)) => Condition::Known(false),
            (Condition::Known(true), other) | (other, Condition::Known(true)) => other,
            (Condition::Term(p), Condition::Term(q)) => {
                let no = self.truth(false)?;
                Condition::Term(self.if_(p, q, no)?)
            }
        })
    }

    fn or(&mut self, p: Condition, q: Condition) -> Result<Condition> {
        Ok(match (p, q) {
            (Condition::Known(true), _) | (_, Condition::Known(true)) => Condition::Known(true),
            (Condition::Known(false), other) | (other, Condition::Known(false)) => other,
            (Condition::Term(p), Condition::Term(q)) => {
                let yes = self.truth(true)?;
                Condition::Term(self.if_(p, yes, q)?)
            }
        })
    }

    fn negation(&mut self, p: Condition) -> Result<Condition> {
        Ok(match p {
            Condition::Known(holds) => Condition::Known(!holds),
            Condition::Term(p) => Condition::Term(self.not(p)?),
        })
    }

    /// `[[p]]`. Recursion is on predicates, whose nesting is limited.
    pub(super) fn predicate(&mut self, p: &Pred) -> Result<Condition> {
        match p {
            Pred::True => Ok(Condition::Known(true)),
            Pred::False => Ok(Condition::Known(false)),
            Pred::NonNegative(a) => {
                let (sources, holds) = (self.sources(a)?, self.non_negative(a)?);
                self.and(sources, holds)
            }
            Pred::Zero(a) | Pred::NonZero(a) => {
                let comparison = if matches!(p, Pred::Zero(_)) { Comparison::Equal } else { Comparison::NotEqual };
                let outside = self.bounds(a)?.is_none_or(|(low, high)| low > 0 || high < 0);
                let holds = match outside {
                    true => Condition::Known(comparison == Comparison::NotEqual),
                    false => self.compare(comparison, a)?,
                };
                let sources = self.sources(a)?;
                self.and(sources, holds)
            }
            Pred::Relation { relation, args, holds } => {
                let mut sources = Condition::Known(true);
                for a in args {
                    let of = self.sources(a)?;
                    sources = self.and(sources, of)?;
                }
                let mut contains = self.contains(*relation, args)?;
                if !holds {
                    contains = self.negation(contains)?;
                }
                self.and(sources, contains)
            }
            Pred::All(ps) => {
                let ps = ps.iter().map(|p| self.predicate(p)).collect::<Result<Vec<_>>>()?;
                ps.into_iter().rev().try_fold(Condition::Known(true), |rest, p| self.and(p, rest))
            }
            Pred::Any(ps) => {
                let ps = ps.iter().map(|p| self.predicate(p)).collect::<Result<Vec<_>>>()?;
                ps.into_iter().rev().try_fold(Condition::Known(false), |rest, p| self.or(p, rest))
            }
            Pred::Exists { index, extent, body } => {
                let n = i64::try_from(self.at.extent(extent)?).map_err(|_| Error::Overflow)?;
                match self.predicate(body)? {
                    _ if n == 0 => Ok(Condition::Known(false)),
                    Condition::Known(holds) => Ok(Condition::Known(holds)),
                    Condition::Term(body) => {
                        let boolean = self.b.types().boolean();
                        let found = self.b.fresh("found", boolean);
                        let (before, yes) = (self.b.var(found), self.truth(true)?);
                        let body = self.if_(before, yes, body)?;
                        let (count, init) = (self.b.int(n)?, self.truth(false)?);
                        let index = self.index_variable(*index)?;
                        Ok(Condition::Term(self.b.push(Term::Fold { count, index, state: found, init, body })?))
                    }
                }
            }
        }
    }

    /// Whether a tuple is in a relation: not where it is outside of its shape.
    fn contains(&mut self, relation: RelationRef, args: &[Affine]) -> Result<Condition> {
        let shape = self.shape(relation)?;
        let mut inside = Condition::Known(args.len() == shape.len());
        for (a, n) in args.iter().zip(&shape) {
            let here = self.in_range(a, *n)?;
            inside = self.and(inside, here)?;
        }
        let holds = match relation {
            RelationRef::Computed { var, view: View::Support } => {
                let x = self.variable(var)?;
                match self.read(x, args)? {
                    Some(element) => {
                        // A NaN is not zero.
                        let zero = self.b.real(0.0)?;
                        let zero = self.b.compare(Comparison::Equal, element, zero)?;
                        Condition::Term(self.not(zero)?)
                    }
                    None => Condition::Known(false),
                }
            }
            _ if self.source.signature.gives_targets(relation) => {
                let (last, source) = args.split_last().ok_or_else(|| Error::bug(PASS, "a map without a target"))?;
                let found = match self.targets(relation)? {
                    Some(targets) => self.read(targets, source)?,
                    None => None,
                };
                self.equal(found, last)?
            }
            RelationRef::Input(_) | RelationRef::Computed { .. } => {
                let found = match self.targets(relation)? {
                    Some(entries) => self.read(entries, args)?,
                    None => None,
                };
                self.equal(found, &Affine::constant(1))?
            }
        };
        self.and(inside, holds)
    }

    /// Whether an integer is an expression.
    fn equal(&mut self, found: Option<TermId>, a: &Affine) -> Result<Condition> {
        Ok(match (found, self.affine(a)?) {
            (Some(found), Some(a)) => Condition::Term(self.b.prim(Prim::IntCompare(Comparison::Equal), &[found, a])?),
            _ => Condition::Known(false),
        })
    }

    /// `[p] * e`: the body is evaluated where the guard holds.
    pub(super) fn select(&mut self, p: Condition, body: TermId, ty: ty::TypeId) -> Result<TermId> {
        match p {
            Condition::Known(true) => Ok(body),
            Condition::Known(false) => self.zero(ty),
            Condition::Term(p) => {
                let zero = self.zero(ty)?;
                self.if_(p, body, zero)
            }
        }
    }
}

//! Bound indices of which a map tells the value.
//!
//! ```text
//! exists k < c. y(i) = k and y(j) = k                  reads    y(i) = y(j)
//! exists k < g. i <= k and time(j) = k                 reads    i <= time(j)
//! exists l < k. exists p < m. label(p) = l and R(p)    reads    exists p < m. R(p)
//! ```
//!
//! The sources of the map have to be known to be in range, where the guard stands or by what binds them.

use super::{Context, Presenter};
use crate::base::IndexId;
use crate::index::{Affine, Application, Checked, Pred, RelationRef, Size, Var};

/// The value that a conjunct tells of a bound index.
struct Told {
    conjunct: usize,
    binder: usize,
    value: Affine,
    /// That the value is in the range of the index, if the map does not say so.
    within: Pred,
}

impl Presenter<'_> {
    /// A guard without bound indices of which a map tells the value.
    pub(super) fn without_told(&self, guard: &Pred, context: Context) -> Checked<Pred> {
        if !guard.binds() {
            return Ok(guard.clone());
        }
        let plain: Vec<Pred> = guard.conjuncts().iter().filter(|p| !p.applies_maps() && !p.binds()).cloned().collect();
        self.told_within(guard, &plain, context)
    }

    fn told_within(&self, p: &Pred, known: &[Pred], context: Context) -> Checked<Pred> {
        let each = |ps: &[Pred]| ps.iter().map(|p| self.told_within(p, known, context)).collect::<Checked<Vec<_>>>();
        Ok(match p {
            Pred::All(ps) => Pred::all(each(ps)?),
            Pred::Any(ps) => Pred::any(each(ps)?),
            Pred::Exists { .. } => {
                let (mut bound, mut body) = (Vec::new(), p);
                while let Pred::Exists { index, extent, body: inner } = body {
                    bound.push((*index, extent.clone()));
                    body = inner;
                }
                let mut body = self.told_within(body, known, context)?;
                while let Some(Told { conjunct, binder, value, within }) = self.told(&bound, &body, known, context)? {
                    let (index, _) = bound.remove(binder);
                    let rest = body.conjuncts().iter().enumerate().filter(|(at, _)| *at != conjunct);
                    let rest = Pred::all(rest.map(|(_, p)| p.clone()));
                    body = rest.substitute(&|i| (i == index).then(|| value.clone()))?.and(within);
                    let around = Self::around(known, &bound)?;
                    let equations = body.conjuncts().iter().map(|p| self.as_equation(p, &around, context));
                    body = if body.is_false() { body } else { Pred::all(equations.collect::<Checked<Vec<_>>>()?) };
                }
                Pred::exists_each(bound.into_iter(), body)
            }
            atom => atom.clone(),
        })
    }

    /// What is known where some indices are bound.
    fn around(known: &[Pred], bound: &[(IndexId, Size)]) -> Checked<Vec<Pred>> {
        let mut around = known.to_vec();
        for (i, n) in bound {
            around.push(Pred::in_range(&Affine::index(*i), n)?);
        }
        Ok(around)
    }

    /// Whether indices are known to be in the ranges of a map.
    fn are_sources(&self, source: &[Affine], ranges: &[Size], known: &[Pred], context: Context) -> Checked<bool> {
        let in_range = source.iter().zip(ranges).map(|(a, n)| Pred::in_range(a, n)).collect::<Checked<Vec<_>>>()?;
        Ok(self.proves(&Pred::all(in_range), known, context))
    }

    /// `f(a, g(b))` as `f(a) = g(b)`, and `f(g(b), a)` as `f(g(b)) = a`.
    fn as_equation(&self, p: &Pred, known: &[Pred], context: Context) -> Checked<Pred> {
        if let Pred::Relation { relation: relation @ RelationRef::Input(_), args, holds: true } = p
            && let Some((target, source)) = args.split_last().filter(|_| self.is_map(*relation))
            && args.iter().any(|a| a.nesting() > 0)
            && source.iter().all(|a| a.nesting() < Affine::MAX_NESTING)
            && let Some((_, ranges)) = self.shape(*relation).split_last()
            && self.are_sources(source, ranges, known, context)?
        {
            return Pred::equal(&target_of(*relation, source), target);
        }
        Ok(p.clone())
    }

    fn told(&self, bound: &[(IndexId, Size)], body: &Pred, known: &[Pred], context: Context) -> Checked<Option<Told>> {
        for (conjunct, p) in body.conjuncts().iter().enumerate() {
            let Pred::Relation { relation: relation @ RelationRef::Input(_), args, holds: true } = p else { continue };
            let Some((target, source)) = args.split_last().filter(|_| self.is_map(*relation)) else { continue };
            let shape = self.shape(*relation);
            let Some((range, sources)) = shape.split_last() else { continue };
            for (binder, (index, extent)) in bound.iter().enumerate() {
                let Some((1, shift)) = target.split(*index) else { continue };
                if source.iter().any(|a| a.mentions(*index) || a.nesting() >= Affine::MAX_NESTING) {
                    continue;
                }
                let others: Vec<(IndexId, Size)> = bound.iter().filter(|(other, _)| other != index).cloned().collect();
                if !self.are_sources(source, sources, &Self::around(known, &others)?, context)? {
                    continue;
                }
                let value = target_of(*relation, source).sub(&shift)?;
                let says = extent == range && shift.as_constant() == Some(0);
                let within = if says { Pred::True } else { Pred::in_range(&value, extent)? };
                return Ok(Some(Told { conjunct, binder, value, within }));
            }
        }
        Ok(None)
    }
}

fn target_of(map: RelationRef, source: &[Affine]) -> Affine {
    Affine::var(Var::Apply(Box::new(Application { map, args: source.to_vec() })))
}

//! Copying predicates and affine expressions under new names, and the variables that they read.

use std::collections::BTreeSet;

use crate::base::{IndexId, VarId};
use crate::index::{Affine, Application, Checked, Pred, RelationRef, Var};

/// New names for indices and relations.
pub(super) struct Renaming<I, R> {
    /// What stands for a free index, nothing where it keeps its name. The replacements mention no bound index.
    pub index: I,
    /// What stands for a relation: another one, and arguments to put before its own.
    pub relation: R,
}

/// Keeps every relation.
pub(super) fn same_relation(relation: RelationRef) -> (RelationRef, Vec<Affine>) {
    (relation, Vec::new())
}

impl<I, R> Renaming<I, R>
where
    I: Fn(IndexId) -> Option<Affine>,
    R: Fn(RelationRef) -> (RelationRef, Vec<Affine>),
{
    /// The expression under the new names.
    pub fn affine(&self, a: &Affine) -> Checked<Affine> {
        replace(a, &self.index, &self.relation)
    }

    /// The predicate under the new names; `bound` names the indices that it binds.
    pub fn pred(&self, p: &Pred, bound: &mut dyn FnMut(IndexId) -> IndexId) -> Checked<Pred> {
        copy(p, &self.index, &self.relation, bound)
    }
}

type IndexMap<'a> = &'a dyn Fn(IndexId) -> Option<Affine>;
type RelationMap<'a> = &'a dyn Fn(RelationRef) -> (RelationRef, Vec<Affine>);

fn replace(a: &Affine, index: IndexMap, relation: RelationMap) -> Checked<Affine> {
    a.replace(&mut |v| {
        Ok(match v {
            Var::Index(i) => index(*i),
            Var::Apply(application) => {
                // The arguments are replaced already.
                let (map, mut args) = relation(application.map);
                args.extend(application.args.iter().cloned());
                Some(Affine::var(Var::Apply(Box::new(Application { map, args }))))
            }
            Var::Size(_) => None,
        })
    })
}

// Predicates nest to a bounded depth, so this may recurse.
fn copy(p: &Pred, index: IndexMap, relation: RelationMap, bound: &mut dyn FnMut(IndexId) -> IndexId) -> Checked<Pred> {
    let affine = |a: &Affine| replace(a, index, relation);
    Ok(match p {
        Pred::True | Pred::False => p.clone(),
        Pred::NonNegative(a) => Pred::non_negative(affine(a)?),
        Pred::Zero(a) => Pred::zero(affine(a)?),
        Pred::NonZero(a) => Pred::non_zero(affine(a)?),
        Pred::Relation { relation: r, args, holds } => {
            let (r, mut all) = relation(*r);
            for a in args {
                all.push(affine(a)?);
            }
            Pred::Relation { relation: r, args: all, holds: *holds }
        }
        Pred::All(ps) => Pred::all(ps.iter().map(|p| copy(p, index, relation, bound)).collect::<Checked<Vec<_>>>()?),
        Pred::Any(ps) => Pred::any(ps.iter().map(|p| copy(p, index, relation, bound)).collect::<Checked<Vec<_>>>()?),
        Pred::Exists { index: i, extent, body } => {
            let fresh = bound(*i);
            let inner = |j: IndexId| if j == *i { Some(Affine::index(fresh)) } else { index(j) };
            Pred::exists(fresh, extent.clone(), copy(body, &inner, relation, bound)?)
        }
    })
}

/// The variables from which the maps in an expression are computed.
pub(super) fn vars_of_affine(a: &Affine) -> BTreeSet<VarId> {
    let mut vars = BTreeSet::new();
    a.visit(&mut |v| {
        if let Var::Apply(application) = v {
            vars.extend(application.map.computed_from());
        }
    });
    vars
}

/// The variables from which the relations in a predicate are computed.
pub(super) fn vars_of_pred(p: &Pred) -> BTreeSet<VarId> {
    let mut vars = BTreeSet::new();
    p.visit_computed(&mut |x| {
        vars.insert(x);
    });
    vars
}

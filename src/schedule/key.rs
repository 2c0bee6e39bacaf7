//! What numbers are made of and how indices are found, for passes that look for equal ones.

use std::collections::BTreeMap;

use crate::base::IndexId;
use crate::index::{Affine, Size, Var, View};
use crate::loops::{ArrayId, BufferId, Real, RealId, Search, Stmt};
use crate::scalar::Function;

/// What a number is made of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Literal(u64),
    Index(Affine),
    Load(BufferId, Vec<Affine>),
    Add(RealId, RealId),
    Mul(RealId, RealId),
    MulAdd(RealId, RealId, RealId),
    Select(RealId, RealId),
    Apply(Function, Vec<RealId>),
    /// A register that these are added to, in this order.
    Sum(Vec<RealId>),
}

impl Key {
    pub fn of(real: &Real) -> Key {
        match real {
            Real::Literal(x) => Key::Literal(x.to_bits()),
            Real::Index(a) => Key::Index(a.clone()),
            Real::Load(place) => Key::Load(place.buffer, place.at.clone()),
            Real::Add(a, b) => Key::Add(*a, *b),
            Real::Mul(a, b) => Key::Mul(*a, *b),
            Real::MulAdd(a, b, c) => Key::MulAdd(*a, *b, *c),
            Real::Select(a, b) => Key::Select(*a, *b),
            Real::Apply(f, args) => Key::Apply(*f, args.clone()),
        }
    }
}

/// How an index is found. Arrays do not change, so what is found in the same way is the same.
#[derive(Clone, PartialEq)]
pub(super) enum IndexKey {
    Let(ArrayId, Affine),
    Find(ArrayId, Affine, Option<(ArrayId, Affine)>),
    /// The place of an extremum of so many numbers in a buffer, as long as they do not change. On each axis a multiple of the place, and the rest.
    Best(View, Size, BufferId, Vec<(i64, Affine)>),
}

impl IndexKey {
    /// The index that a statement finds by what it reads alone, and how, where some indices have other names.
    pub fn of(stmt: &Stmt, names: &BTreeMap<IndexId, IndexId>) -> Option<(IndexId, IndexKey)> {
        match stmt {
            Stmt::Let { index, array, at, step: None } => Some((*index, IndexKey::Let(*array, renamed(at, names)?))),
            Stmt::Find { index, segment, key, how: Search::Halving } => {
                let key = match key {
                    Some((nodes, key)) => Some((*nodes, renamed(key, names)?)),
                    None => None,
                };
                Some((*index, IndexKey::Find(segment.pointers, renamed(&segment.at, names)?, key)))
            }
            Stmt::Extremum { index, view, extent, at: each, body, value } => {
                let [Stmt::Define(r, Real::Load(place))] = body.as_slice() else { return None };
                let axis = |a: &Affine| {
                    let step = a.coefficient(&Var::Index(*each));
                    let rest = a.sub(&Affine::index(*each).scale(step).ok()?).ok()?;
                    Some((step, renamed(&rest, names)?))
                };
                let axes = place.at.iter().map(axis).collect::<Option<_>>()?;
                (r == value).then(|| (*index, IndexKey::Best(*view, extent.clone(), place.buffer, axes)))
            }
            _ => None,
        }
    }

    /// The buffer in which an extremum is.
    pub fn searched(&self) -> Option<BufferId> {
        match self {
            IndexKey::Best(_, _, buffer, _) => Some(*buffer),
            IndexKey::Let(..) | IndexKey::Find(..) => None,
        }
    }
}

/// An index expression where some indices have other names; nothing where it overflows.
pub(super) fn renamed(a: &Affine, names: &BTreeMap<IndexId, IndexId>) -> Option<Affine> {
    a.substitute(&|i| names.get(&i).map(|i| (*i).into())).ok()
}

//! What numbers are made of, for passes that look for equal ones.

use crate::index::Affine;
use crate::loops::{BufferId, Real, RealId};
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

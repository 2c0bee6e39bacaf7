//! Numbers that do not depend on any input tensor.

use serde::{Deserialize, Serialize};

use super::text_f64;
use crate::index::Affine;

/// A number that does not depend on any input tensor.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Number {
    /// A literal.
    Literal(#[serde(with = "text_f64")] f64),
    /// The value of an index expression as a real: `n`, or `real(2*i - 1)`.
    Index(Affine),
}

impl Number {
    fn key(&self) -> (Option<u64>, Option<&Affine>) {
        match self {
            Number::Literal(x) => (Some(x.to_bits()), None),
            Number::Index(a) => (None, Some(a)),
        }
    }
}

// Bits, not values: `0.0` and `-0.0` differ, and a NaN equals itself.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Number {}

impl std::hash::Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

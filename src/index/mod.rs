//! The index language, shared by all IRs: sizes, affine index expressions and the predicates of Iverson brackets.
//!
//! | type | meaning | paper |
//! |---|---|---|
//! | [`Affine`] | `3*i - j + n - 1`, an integer | `a` of Fig. 3 |
//! | [`Pred`] | a truth value over indices, sizes and relations | `p` of Fig. 3 |
//! | [`RelationRef`] | a set of index tuples: given as data, or computed from a tensor | `R` of Fig. 3 |
//!
//! All values here are canonical: two equal expressions up to the ring laws of affine forms and the order of `and` and `or` are
//! equal as Rust values. Nothing here knows about terms or statements; a computed relation names a variable, and the IR
//! that owns the variable gives it meaning. What follows from a predicate, and how many points it has, is asked of [`crate::solver`].

mod affine;
pub(crate) mod bounds;
mod pred;
pub mod print;

pub(crate) use affine::readable;
pub use affine::{Affine, Application, Overflow, Var};
pub use pred::{Pred, RelationRef, View};

/// A size: an affine expression over size variables. A negative size means an empty range.
pub type Size = Affine;

/// The result of index arithmetic, which is checked.
pub type Checked<T> = std::result::Result<T, Overflow>;

//! The index language, shared by all IRs: sizes, affine index expressions and the predicates of Iverson brackets.
//!
//! | type | meaning | paper |
//! |---|---|---|
//! | [`Affine`] | `3*i - j + n - 1`, an integer | `a` of Fig. 3 |
//! | [`Pred`] | a truth value over indices, sizes and relations | `p` of Fig. 3 |
//! | [`Facts`] | what is known of indices and sizes, and what follows from it: the one decision procedure | supports, 6.25 |
//! | [`RelationRef`] | a set of index tuples: given as data, or computed from a tensor | `R` of Fig. 3 |
//! | [`Count`] | how many points a predicate has, as a formula in the sizes | `$` of Fig. 6 |
//!
//! All values here are canonical: two equal expressions up to the ring laws of affine forms and the order of `and` and `or` are
//! equal as Rust values. Nothing here knows about terms or statements; a computed relation names a variable, and the IR
//! that owns the variable gives it meaning.

mod affine;
#[cfg(test)]
mod campaign;
mod count;
mod determined;
mod eliminate;
pub mod estimate;
mod facts;
mod linear;
#[cfg(test)]
mod oracle;
mod points;
pub mod polynomial;
mod pred;
pub mod print;
mod sample;
mod union;

pub(crate) use affine::readable;
pub use affine::{Affine, Application, Overflow, Var};
pub use count::{Count, Piece, PointSet, Relations, count, count_projected};
pub use determined::{are_determined, value_of};
pub use eliminate::{exists, exists_all, solution};
pub use facts::Facts;
pub use points::{Plan, World, holds};
pub use pred::{Pred, RelationRef, View};
pub use sample::Sample;
pub use union::simplify_union;

/// A size: an affine expression over size variables. A negative size means an empty range.
pub type Size = Affine;

/// The result of index arithmetic, which is checked.
pub type Checked<T> = std::result::Result<T, Overflow>;

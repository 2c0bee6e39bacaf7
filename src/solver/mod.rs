//! Questions about predicates, answered once for all IRs: does this follow, which value does it fix, which points has it, how many.
//!
//! | file | question |
//! |---|---|
//! | `facts` | does `q` follow from what is known? The one decision procedure ([`Facts`]); `facts/model.rs` looks for a counterexample |
//! | `linear` | has a system of integer inequalities a solution? |
//! | `determined` | which index has one value under a guard, and which ([`value_of`], [`are_determined`]) |
//! | `eliminate` | `exists k < n. p` without `k`: by an equality, then by bounds (6.25, 6.28) |
//! | `union` | `p or q` as few disjoint pieces ([`simplify_union`]) |
//! | `points` | all points of a guard, from outer to inner ([`Plan`]), in a given [`World`] of sizes and relations |
//! | `count` | how many points, as a formula in the sizes: closed forms, pieces of them, or a sum that is left (`$` of Fig. 6) |
//! | `polynomial` | polynomials in sizes and counts of relations, over the rationals |
//! | `estimate` | how many points roughly, where sizes and densities are guessed |
//! | `sample` | a made-up world in which two programs are counted alike |
//!
//! Every answer is exact or says that it is none: "not known" is never "no". Work is counted, see [`crate::base::work`].

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
mod sample;
mod union;

pub use count::{Count, Piece, PointSet, Relations, count, count_projected};
pub use determined::{are_determined, value_of};
pub use eliminate::{exists, exists_all, solution};
pub use facts::Facts;
#[cfg(test)]
pub(crate) use oracle::{Source, Toy};
pub use points::{Plan, World, holds};
pub use sample::Sample;
pub use union::simplify_union;

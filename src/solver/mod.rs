//! Questions about predicates, answered once for all IRs: does this follow, which value does it fix, which points has it, how many.
//!
//! | file | question |
//! |---|---|
//! | `facts` | does `q` follow from what is known? The one decision procedure ([`Facts`]): `facts/refutation.rs` searches for a proof, `facts/model.rs` for a counterexample |
//! | `knowledge` | what is known at a place: [`Facts::under`] more indices and predicates, which say what shapes imply ([`within_shapes`]) |
//! | `linear` | has a system of integer inequalities a solution? |
//! | `equations` | what follows from linear equations, and from which of them ([`reduced`]) |
//! | `fix` | which value an equation or a map gives an index ([`value_of`], [`solutions`]); which indices have one value ([`are_determined`]) |
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
mod eliminate;
mod equations;
pub mod estimate;
mod facts;
mod fix;
mod knowledge;
mod linear;
#[cfg(test)]
mod oracle;
mod points;
pub mod polynomial;
mod sample;
mod union;

pub use count::{Count, Piece, PointSet, count, count_projected};
pub use eliminate::{exists, exists_all};
pub use equations::{Equation, Unsolved, reduced};
pub use facts::Facts;
pub use fix::{are_determined, have_one_value, solution, solutions, value_of};
pub use knowledge::{Relations, Shapes, target_range, target_ranges, within_shapes};
#[cfg(test)]
pub(crate) use oracle::{Source, Toy};
pub use points::{Plan, World, holds};
pub use sample::Sample;
pub use union::simplify_union;

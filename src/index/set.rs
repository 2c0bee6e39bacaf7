//! Exact sets of index tuples.

mod cell;
mod line;
mod simplify;
mod solve;

pub use simplify::simplify_union;
pub use solve::{Solution, solve};

//! Exact sets of index tuples.

mod cell;
mod line;
mod simplify;

pub use simplify::simplify_union;

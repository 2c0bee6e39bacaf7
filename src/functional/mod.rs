//! A lambda calculus, and four ways to differentiate it.

pub mod efficient;
pub mod lambda;

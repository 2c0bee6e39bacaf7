//! A lambda calculus, and four ways to differentiate it.

pub mod chad;
pub mod efficient;
pub mod lambda;

//! A lambda calculus, and four ways to differentiate it.

pub mod lambda;

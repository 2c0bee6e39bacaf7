//! Tensor-SSA: straight-line statements over whole tensors (the paper's Fig. 10).
//!
//! A [`Program`] is a list of statements `X = gen g0 < n0, .., gk < nk. rhs`, operands before users, each one of six forms ([`Rhs`]).
//! Every `X` is a tensor of reals. Arithmetic on indices happens in guards only: operands are accessed at plain index
//! variables, and a guard such as `[k = i - j + m - 1]` links them.
//!
//! **Indices.** Inside a statement indices are numbered: first the `gen` indices, one for each axis, in order; then the `sum` indices;
//! then the indices bound by `exists` in its guards, outside in. [`Builder`] renumbers on construction, so equal statements are equal
//! values, and hash-conses them. To work on the body of a statement under names of its own, [`Builder::open`] it.
//!
//! **Guards are selects**: a false guard gives 0 whatever the operands hold; operands are read only where the guard holds. A sum over nothing is 0,
//! and so is every product with a sum over an empty range, with what else is zero for the sizes alone, or with the literal 0 ([`vanishing`]); all
//! other arithmetic is that of IEEE 754, on NaN and infinities too. A guard of Tensor-SSA holds no map application: `x[cam(o)]` is
//! `sum k. [cam(o, k)] x[k]`.
//!
//! **Zeros have signs.** A guard that fails and a sum over nothing give +0. A sum begins with +0, so it is never -0, unless it is an
//! [access](Stmt::is_access): one whose guard determines all `sum` indices by equations and maps has the value of its only summand, -0 too.
//! `[p] * X + [q] * Y` adds two numbers, one of which may be the +0 of a guard that fails.
//!
//! **Text**: a program prints, one statement a line, and [`parse()`] reads it back.
//!
//! **Meaning of each form**: see [`Rhs`]. The value of a sparse parameter is read only where its pattern holds.

mod build;
mod canonical;
mod data;
pub mod deps;
pub(crate) mod exchanges;
mod import;
mod json;
pub(crate) mod one_hot;
mod parse;
pub mod patterns;
pub(crate) mod print;
pub(crate) mod tables;
pub mod vanishing;
mod verify;

pub(crate) use canonical::{canonical_guard, within};

pub use build::{Builder, OpenStmt};
pub use data::{Operand, Output, Program, Rhs, Stmt};
pub use import::import;
pub use parse::parse;
pub use print::StmtNames;

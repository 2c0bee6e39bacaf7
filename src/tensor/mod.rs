//! Run-time values, their storage formats and file formats, and how they are bound to a program.
//!
//! | type | holds |
//! |---|---|
//! | [`Dense`] | every element, row-major |
//! | [`Csr`] | a sparse matrix, row by row |
//! | [`Csc`] | a sparse matrix, column by column |
//! | [`Coo`] | a sparse tensor of any rank: sorted places and their values |
//! | [`Relation`] | a set of index tuples: a pattern, a graph, a map |
//! | [`Precision`], [`Slice`] | how numbers are stored; numbers in either precision |
//! | [`Value`] | a value of any type: its leaves, struct-of-arrays |
//! | [`IntoValue`] | what can be given as a value: numbers, vectors, arrays of `ndarray`, matrices of `sprs` |
//! | [`Inputs`], [`Bindings`] | what a program is given, by name; the same, validated against its signature |
//! | [`Results`] | what a program gives, by name |
//!
//! *Everything that exists is valid.* Constructors and deserialisation check all invariants, name the position of the first
//! violation ([`Malformed`]), and never repair: duplicates are summed and formats converted only by explicit calls. Shapes are
//! multiplied with checks before anything is allocated.
//!
//! `ndarray` and `sprs` come into the crate here and nowhere else.

mod bind;
mod convert;
mod coo;
mod csc;
mod csr;
mod dense;
mod frame;
mod inputs;
#[cfg(feature = "files")]
pub mod io;
mod malformed;
mod precision;
mod relation;
mod results;
mod serial;
mod shape;
mod targets;
mod value;

pub use bind::{Bindings, bind, sizes};
pub use convert::IntoValue;
pub use coo::Coo;
pub use csc::{Csc, CscPattern};
pub use csr::{Csr, CsrPattern, Transposed};
pub use dense::Dense;
pub(crate) use frame::Frame;
pub use inputs::Inputs;
pub use malformed::Malformed;
pub use precision::{Element, Precision, Slice, SliceMut};
pub use relation::Relation;
pub use results::Results;
pub(crate) use results::Returned;
pub use shape::{MAX_ELEMENTS, element_count};
pub use value::{Tensor, Value};

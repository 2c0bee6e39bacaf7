//! Loop nests: what a program does, step by step, on buffers of numbers and arrays of indices.
//!
//! A [`Program`] is a list of nests ([`Nest`]), each of which computes a buffer or several from parameters and buffers before it. A nest is a list
//! of statements ([`Stmt`]): loops over ranges or over the nodes of a relation, tests, loads of indices, searches, real arithmetic in
//! registers, stores. The order of every sum is fixed here, lane by lane, so all engines that run a program agree bit for bit.
//!
//! **Relations** are read through arrays ([`Array`]) of a *view*: the tuples of a relation sorted by some order of its axes, as a tree
//! whose nodes at level `k` are the distinct prefixes of length `k + 1`. The rows of a CSR matrix are such a view, its columns are
//! the view with the axes swapped. Views are built once, when a program is bound to data.
//!
//! The entries of a pattern are numbered in the order of the format of its parameter ([`Signature::stored_order`](crate::ty::Signature::stored_order)),
//! in which its values lie: by rows of a CSR matrix, by columns of a CSC matrix. Nodes of the view in this order are entries; of any
//! other one [`Part::Entries`] says which they are. The levels of a view of a [projection](crate::ty::RelationKind::Projection) are the first ones of a view
//! of its relation, so walks over either go through the same nodes; [`Part::Projected`] has the entry of a projection for each tuple.
//!
//! **Sums** are gathers: [`Stmt::Accumulate`] adds to a register that is declared in the same iteration of every enclosing parallel
//! loop, and a store writes each place once. There is no atomic, and no `+=` to memory but one: sums by target of a program that is bound may be kept
//! in a workspace that is zero at first, where each part of a parallel loop loads, adds to and stores what belongs to that part alone.
//!
//! **Lanes.** A loop with `lanes = L > 1` runs its body for `L` consecutive values at a time. A register declared outside and accumulated
//! inside then has `L` partial sums: the value at `from + k` goes to lane `k mod L`, and after the loop lane `l` takes lane `l + h` for
//! `h = L/2, L/4, .., 1`, and the register takes lane 0. A register outside that is extended (`r max= a`) has `L` partial extrema, which come
//! together likewise: of zeros with different signs, which are equal, it may keep another one than a loop without lanes. All other registers
//! hold one number for each lane.
//!
//! **Searches** for a coordinate are by halving. Where coordinates that are sought increase from one iteration to the next, a search goes on where
//! the last one ended ([`searches_onwards`]), in steps that double: entries of two relations are then found as by merging, or faster where one
//! has few. It changes no result.
//!
//! A search whose coordinates are those of a tuple that a loop is at, but for fixed distances, has one result for each tuple. It is made when relations
//! are bound, and read from an array of [`Part::Neighbours`].
//!
//! **Jam.** A loop with `jam = J > 1` may run `J` iterations at a time, statement by statement, so that what they load alike is loaded once and
//! their sums wait for nobody. It changes no result: [`can_jam`] says when, also where bounds of loops inside differ.
//!
//! **Rounding.** A product that is added is rounded once, with the sum, where the text says `r += a * b` or `a * b + c`; everything else is
//! rounded step by step.
//!
//! **Precision.** Parameters and outputs are stored in double or in single precision, buffer by buffer; registers and workspaces are in double
//! precision. A load widens, which is exact; a store rounds, and what was rounded is read by no nest. So all engines, and all ways to cut a
//! nest into parts, agree, and a result is as if everything had been computed in double precision and rounded at the end.
//!
//! **Loops that data end.** A loop one by one may [end](Stmt::End) where a register is 0. How many steps it made is a number that it stores, and
//! a nest behind it that goes over as many loads it as a [length](Stmt::Length). A loop that nobody bounds has a [limit](Program::limits).
//!
//! **Text.** A program prints, a statement a line, and [`parse()`] reads it back, with the decisions ([`Decision`]) as comments:
//!
//! ```text
//! y[n], y_sums[64]:                                          a nest, and the buffers that it writes
//!   parallel for i1 in 0 .. 63
//!     local r0
//!     for i0 in part i1 of 64 of 0 .. n - 1, lanes 16        blanks before a line say what it is part of
//!       r1 = x[i0]
//!       r2 = exp(r1)
//!       y[i0] = r2
//!       r0 += r2
//!     y_sums[i1] = r0
//! out y = y                                                  y is an output, y_sums a workspace
//! ```
//!
//! Sizes, relations, functions and parameters such as `x` are those of a signature, which is not part of the text. What is read is the
//! [canonical form](Program::canonical) of the program that was printed: buffers and arrays are numbered as the text mentions them. Where several
//! buffers have one name, the first mentioned has it alone, a parameter before all others, and the others are `y@2`, `y@3`; a name that the text
//! could mistake for something else is in quotes: `"r1"`.
//!
//! ```
//! use iverson::Function;
//! use iverson::ir::{loops, stages::Stages};
//!
//! let nests = Function::parse("param x : [n] real\ngen i < n. x[i] * x[i]")?.loops(&mut Stages::new())?;
//! let text = nests.explained();
//! assert_eq!(loops::parse(&text, &nests.signature)?, nests.canonical());
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! **Proofs.** [`Program::verify`] checks the form. [`Program::unproved`] says what of the rest it cannot prove: that places are in bounds, and that
//! iterations which run at the same time store to different places and load nothing that another one stores.
//!
//! **Indices** are integers named by [`IndexId`](crate::base::IndexId), each defined once; expressions are affine in them and in sizes.

mod canonical;
mod carried;
mod data;
mod decision;
mod effects;
mod names;
mod onwards;
mod parse;
mod precision;
pub(crate) mod predicate;
mod print;
mod private;
mod prove;
mod rename;
mod scan;
#[cfg(test)]
mod tests;
mod verify;
mod visit;

pub use data::{
    Array, ArrayId, Binned, Bins, Bound, Buffer, BufferId, BufferKind, Cond, Coordinate, Domain, MATRIX, Neighbours,
    Nest, PLACES, Part, Place, Program, RangeEnd, Real, RealId, Rounded, Run, Search, Segment, StepLimit, Stmt,
};
pub(crate) use data::{name_of, title};
pub use decision::{Decision, List, StoredAs};
pub(crate) use effects::{adds_where_told, changed_outside, changes_outside, has_calls, has_loop, only_sums, size};
pub use onwards::searches_onwards;
pub use parse::parse;
pub(crate) use rename::{Fresh, inside_of_loops};
pub(crate) use visit::{Outlook, changed, could_jam, declared, loads, mentioned, reads, stored, stores};
pub use visit::{can_jam, defined, outer_extrema, outer_sums, outside_loops, stands_alone};

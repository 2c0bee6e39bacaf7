//! Native code: loop nests as Rust source, compiled by `rustc`, kept in a cache on disk, and loaded.
//!
//! | module | does |
//! |---|---|
//! | [`source`] | writes the source of a program, for people and for `rustc` |
//! | [`rust`] | the function of each nest |
//! | [`vector`] | vectors and functions of them, the text that every source holds |
//! | [`compile`] | runs `rustc`, unless the cache has the library already |
//! | [`load`] | loads a library and calls it: the only unsafe code, but for the choice of instructions in [`kernel`](crate::kernel) |
//! | `expression` | indices, places, conditions and numbers as Rust |
//! | `abi`, `lanes`, `mul_add` | what every source begins with: what it is given, lanes of vectors, products that are added |
//!
//! The source needs `core` alone and names no machine: it says which numbers are added in which order, and the compiler finds the
//! instructions. It also says which products are added with one rounding, and no others are, so the interpreter, which compiles the same
//! [`vector`] text, gives the same bits. Functions that are not in that text are called back, with the code of the
//! operator table.

#[cfg(test)]
mod accuracy;
pub mod compile;
mod expression;
pub mod load;
#[cfg(test)]
#[allow(unsafe_code, dead_code)]
mod mul_add;
pub mod rust;
pub mod source;
#[cfg(test)]
mod tests;
/// Vectors of numbers and functions of them, lane by lane.
pub mod vector;

use crate::scalar::Op;

/// The functions that both engines take from [`vector`]; others are those of the operator table.
///
/// Nothing for other functions.
#[inline(always)]
pub fn in_lanes<const N: usize>(op: Op, x: [f64; N]) -> Option<[f64; N]> {
    let x = vector::V(x);
    Some(match op {
        Op::Exp => vector::exp(x).0,
        Op::Ln => vector::ln(x).0,
        Op::Log1p => vector::log1p(x).0,
        Op::Expm1 => vector::expm1(x).0,
        Op::Tanh => vector::tanh(x).0,
        Op::Sigmoid => vector::sigmoid(x).0,
        Op::Softplus => vector::softplus(x).0,
        _ => return None,
    })
}

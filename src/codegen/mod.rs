//! Native code: loop nests as Rust source, compiled by `rustc`, kept in a cache on disk, and loaded.
//!
//! | module | does |
//! |---|---|
//! | [`source`] | writes the source of a program, for people and for `rustc` |
//! | [`rust`] | the function of each nest |
//! | [`vector`] | vectors and functions of them, in text that sources hold too |
//! | `items` | picks what a source uses of that text |
//! | [`compile`] | runs `rustc`, unless the cache has the library already |
//! | `cache` | compiled kernels on disk, in a folder that is ours alone |
//! | `toolchain`, `processor` | which `rustc` and which processor a compiled kernel is for |
//! | [`load`] | loads a library and calls it: the only unsafe code, but for the choice of instructions in [`kernel`](crate::kernel) |
//! | `threads` | the threads that share a nest, also after a fork |
//! | `tile` | how many iterations and lanes of a loop go at a time, as registers allow |
//! | `expression` | indices, places, conditions and numbers as Rust |
//! | `abi`, `lanes`, `mul_add` | what every source begins with: what it is given, lanes of vectors, products that are added |
//! | `square_root` | the square root, for sources that use it |
//! | `single` | loads and stores in single precision, for sources with such buffers |
//! | `where` | loads and choices without a branch, for sources with tests that became choices |
//!
//! The source needs `core` alone and names no machine: it says which numbers are added in which order, and the compiler finds the
//! instructions. It also says which products are added with one rounding, and no others are, so the interpreter, which compiles the same
//! [`vector`] text, gives the same bits. Functions that are not in that text, which are polygamma functions
//! from order 2 on and those of the user, are called back, with the code of the operator table.

#[cfg(test)]
mod accuracy;
mod cache;
pub mod compile;
mod expression;
mod items;
pub mod load;
#[cfg(test)]
#[allow(unsafe_code, dead_code)]
mod mul_add;
mod processor;
pub mod rust;
pub mod source;
#[cfg(test)]
#[allow(unsafe_code, dead_code)]
mod square_root;
#[cfg(test)]
mod tests;
pub(crate) mod threads;
mod tile;
mod toolchain;
pub mod vector;

use crate::scalar::Op;

/// The functions that both engines take from [`vector`]; others are those of the operator table.
macro_rules! in_lanes {
    ($($op:pat => $name:ident($($x:ident),+)),+ $(,)?) => {
        /// A function of [`vector`] in lanes; nothing for functions that are not there.
        #[inline(always)]
        pub fn in_lanes<const N: usize>(op: Op, args: &[[f64; N]]) -> Option<[f64; N]> {
            match (op, args) {
                $( ($op, [$($x),+]) => Some(vector::$name($(vector::V(*$x)),+).0), )+
                _ => None,
            }
        }

        /// Its name there.
        fn name_in_lanes(op: Op) -> Option<&'static str> {
            match op {
                $( $op => Some(stringify!($name)), )+
                _ => None,
            }
        }
    };
}

in_lanes! {
    Op::Exp => exp(x),
    Op::Expm1 => expm1(x),
    Op::Ln => ln(x),
    Op::Log1p => log1p(x),
    Op::Pow => pow(x, y),
    Op::Sqrt => sqrt(x),
    Op::Cbrt => cbrt(x),
    Op::Floor => floor(x),
    Op::Ceil => ceil(x),
    Op::Round => nearest(x),
    Op::Sin => sin(x),
    Op::Cos => cos(x),
    Op::Tan => tan(x),
    Op::Tanh => tanh(x),
    Op::Sinh => sinh(x),
    Op::Cosh => cosh(x),
    Op::Asin => asin(x),
    Op::Acos => acos(x),
    Op::Atan => atan(x),
    Op::Atan2 => atan2(x, y),
    Op::Erf => erf(x),
    Op::Sigmoid => sigmoid(x),
    Op::Softplus => softplus(x),
    Op::Lgamma => lgamma(x),
    Op::Polygamma(0) => digamma(x),
    Op::Polygamma(1) => trigamma(x),
    Op::Xlogy => xlogy(x, y),
}

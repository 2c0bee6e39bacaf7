//! The typed lambda calculus that the four systems differentiate.
//!
//! Reals, integers, pairs, sums, functions, arrays, loops, recursion, fork-join: the language of \[000\] Fig. 1 and section 7 and \[003\] section 3, with what \[001\] and
//! \[004\] add. Values are by value, from left to right.
//!
//! | file | job |
//! |---|---|
//! | `data` | types, terms, programs |
//! | `types` | the typing rules |
//! | `build` | building programs |
//! | `verify` | checks all that a program promises |
//! | `print`, `parse` | programs as text |
//! | `eval`, `code`, `value`, `prim` | the evaluator, generic in its numbers |
//! | `linear`, `monoid`, `eval_linear` | linear types, for tangents and cotangents, and the monad of environments |
//! | `scans`, `bound`, `derived` | for passes: scans over indices, values bound to variables, the types of derivatives |
//! | `count` | what evaluation takes |
//! | `random` | random well-typed programs |

pub(in crate::ir::functional) mod bound;
mod build;
mod code;
mod count;
mod data;
mod derivative;
pub(in crate::ir::functional) mod derived;
mod eval;
mod eval_linear;
mod linear;
mod monoid;
mod pairing;
mod parse;
pub(in crate::ir::functional) mod prim;
mod print;
mod print_linear;
pub mod random;
pub(in crate::ir::functional) mod scans;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod verify;

pub use build::Builder;
pub use code::captured_variables;
pub use count::Counts;
pub use data::{Context, Data, DataId, End, External, ExternalId, Prim, Program, Term, TermId, Type, TypeId, Variable};
pub use derivative::{cotangent, operand, tangent};
pub use eval::{Machine, by_name, evaluate};
pub use linear::{Linear, LinearType, is_linear};
pub use monoid::Store;
pub use pairing::pairing;
pub use parse::{parse, parse_with};
pub use types::{Mismatch, Types, Typing, arity, infer};
pub use value::{Node, Value};
pub use verify::verify;

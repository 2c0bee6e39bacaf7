//! From text, or from Rust, to typed terms.
//!
//! ```text
//! text --lexer, parser--> ast --elaborate--> term
//! Rust --builder--------> ast
//! ```
//!
//! | file | job |
//! |---|---|
//! | [`ast`] | what was written |
//! | `parser`, `parser/` | text to [`ast`] |
//! | [`builder`], `builder/` | closures and operators of Rust to [`ast`] |
//! | `elaborate/` | [`ast`] to terms: names, sizes and types resolved, accesses proved in bounds |
//! | `prelude.iv` | the functions that every program has |
//! | `diagnostics` | problems with their places in the text, for people |
//! | `sexpr` | trees as text, for tests |

pub mod ast;
pub mod builder;
mod diagnostics;
mod elaborate;
mod parser;
#[cfg(test)]
mod sexpr;

pub use crate::base::MAX_TEXT;
pub use crate::ty::MAX_NESTING as MAX_TYPE_NESTING;
pub use diagnostics::{render, render_error};
pub use elaborate::{elaborate, read};
pub use parser::{MAX_DIAGNOSTICS, MAX_EXPRS, MAX_NESTING, parse};

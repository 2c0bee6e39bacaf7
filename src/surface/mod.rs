//! From text, or from Rust, to typed terms.
//!
//! ```text
//! text --lexer, parser--> ast --elaborate--> term
//! Rust --builder--------> ast
//! ```

pub mod ast;
pub mod builder;
mod diagnostics;
mod elaborate;
pub(crate) mod lexer;
mod parser;
#[cfg(test)]
mod sexpr;

pub use diagnostics::{render, render_error};
pub(crate) use elaborate::builtin;
pub use elaborate::{elaborate, read};
pub use parser::{MAX_DIAGNOSTICS, MAX_EXPRS, MAX_NESTING, MAX_TEXT, MAX_TYPE_NESTING, parse};

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
mod parser;
#[cfg(test)]
mod sexpr;

pub use crate::base::MAX_TEXT;
pub use crate::ty::MAX_NESTING as MAX_TYPE_NESTING;
pub use diagnostics::{render, render_error};
pub use elaborate::{elaborate, read};
pub use parser::{MAX_DIAGNOSTICS, MAX_EXPRS, MAX_NESTING, parse};

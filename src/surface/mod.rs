//! From text, or from Rust, to typed terms.
//!
//! ```text
//! text --lexer, parser--> ast --elaborate--> term
//! Rust --builder--------> ast
//! ```

pub mod ast;

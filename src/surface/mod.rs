//! From text to typed terms.
//!
//! ```text
//! text --lexer, parser--> ast --elaborate--> term
//! ```
//!
//! What is [built](crate::builder) in Rust is an [`ast`] as well.
//!
//! | file | job |
//! |---|---|
//! | [`ast`] | what was written |
//! | `parser`, `parser/` | text to [`ast`] |
//! | `elaborate/` | [`ast`] to terms: names, sizes and types resolved, accesses proved in bounds |
//! | `external` | functions of tensors from outside, by their headers |
//! | `format` | white space of a text, as others expect it |
//! | `import` | a program with the texts that it imports |
//! | `prelude.iv` | the functions that every program has |
//! | `sexpr` | trees as text, for tests |

pub mod ast;
#[cfg(test)]
mod editors;
mod elaborate;
mod external;
mod format;
mod import;
mod parser;
#[cfg(test)]
pub(crate) mod sexpr;

pub use crate::base::{MAX_TEXT, locate};
pub use crate::ty::MAX_NESTING as MAX_TYPE_NESTING;
pub use elaborate::elaborate;
pub(crate) use external::call_of;
pub use format::format;
pub use import::{Import, Loader, Reading, read, read_with};
pub use parser::{MAX_DIAGNOSTICS, MAX_EXPRS, MAX_NESTING, parse};

/// The functions that every program has.
const LIBRARY: &str = include_str!("prelude.iv");

/// The names of the functions that every program has.
fn library() -> impl Iterator<Item = &'static str> {
    LIBRARY.lines().filter_map(|line| Some(line.strip_prefix("def ")?.split_once('(')?.0))
}

//! Terms: the typed tensor language of the paper's Fig. 3.
//!
//! A [`Program`] is a *tree* in an arena: every term but the root is an operand of exactly one other term, and operands come before
//! their users. What is used twice is bound by a `let`. So a pass is two loops: a backward one hands contexts (guards, index
//! stacks, substitutions) from users to operands, a forward one builds results from operands to users. Nothing recurses.
//!
//! Meaning is that of the paper's Figs 4 and 5, with these points made definite:
//!
//! - `[p] * e` is a *select*: 0 of the type of `e` where `p` is false, whatever `e` would be.
//! - `gen i < n. e` and `sum i < n. e` range over `0 <= i < n`, over nothing where `n` is negative.
//! - An access outside the bounds has no meaning; the front ends prove that none happens where the guards around it hold.
//! - `a - b` is `a + -1 * b`, `-a` is `-1 * a`.
//! - A comparison of reals inside a bracket is a [`RelationRef::Computed`](crate::index::RelationRef) on a variable whose
//!   `let` holds the comparison's truth values.
//!
//! Binders never repeat: each index and each variable is bound once in a program.
//!
//! | file | job |
//! |---|---|
//! | `data` | the types of terms, and the builder that types them |
//! | `verify` | checks all that a [`Program`] promises |
//! | `print`, `print/` | the text of a program, which reads back as the same one; LaTeX |
//! | `names` | distinct names for a text |
//! | `same` | equality up to the names of what is bound, and ids |
//! | `json`, `dot` | programs as JSON, and as pictures |

mod data;
mod dot;
mod json;
mod names;
mod print;
mod same;
mod verify;

pub use data::{NormalForm, Program, Term, TermId, Variable, VariableKind};
pub use print::Style;
pub use verify::{VerifyErrors, Violation};

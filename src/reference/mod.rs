//! Slow and obviously right: evaluators, operation counters and checks of derivatives. For tests, and for whoever doubts a kernel.
//!
//! | module | does | follows |
//! |---|---|---|
//! | [`numeric`] | the numbers to compute with: reals, complex, dual, a prime field | |
//! | [`rounding`] | numbers with a bound on rounding errors; numbers that a false bracket makes zero | |
//! | [`environment`] | what a program is run on, and what it returns | |
//! | `scope` | evaluates index expressions and predicates, for terms and for Tensor-SSA | Fig. 5 |
//! | [`eval_term`], `eval_term/` | evaluates a term | Figs 4 and 5 |
//! | [`eval_flow`] | evaluates a flow | |
//! | [`eval_tssa`], `eval_tssa/` | evaluates Tensor-SSA | Fig. 10 |
//! | `subject` | what can be evaluated | |
//! | `run` | evaluates a program on named tensors | |
//! | [`mod@count`] | counts scalar operations | Figs 6 and 17 |
//! | [`check`] | checks derivatives: adjoint identity, dual numbers, complex step, finite differences | section 6 |
//! | `testing` | a small signature with data, for tests | |

pub mod check;
pub mod count;
pub mod environment;
pub mod eval_flow;
pub mod eval_term;
pub mod eval_tssa;
pub mod numeric;
pub mod rounding;
mod run;
mod scope;
mod subject;
#[cfg(test)]
mod testing;

pub use count::{Counts, Partials};
pub use environment::{Elements, Environment, Leaf, Limits, STEPS, leaves_of};
pub use numeric::{Dual, Field, Numeric};
pub use rounding::{Masked, Rounded};
pub use run::{count, evaluate, evaluate_and_notes, evaluate_with_progress, evaluate_within};
pub use subject::{Leaves, Subject};

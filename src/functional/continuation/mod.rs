//! Reverse mode with continuations, and partial evaluation that makes them vanish.
//!
//! ```text
//! lambda ─ import > unary form ─ reverse > with continuations ─ partial > unary form ─ optimise > unary form ─ export > lambda
//!                              └──────────── adjoint ────────────┘
//! ```
//!
//! A value goes with a function from its cotangent, and from those of all variables in scope, to the cotangents of the parameters:
//!
//! ```text
//! let w1 = x1 * x2 in let w2 = w1 * x1 in w2
//!
//! let w1, Y1 = <x1 * x2, fun (y1, y2, z) -> Y(y1 + x2 * z, y2 + x1 * z)> in
//! let w2, Y2 = <w1 * x1, fun (y1, y2, y3, z) -> Y1(y1 + w1 * z, y2, y3 + x1 * z)> in <w2, ..>
//! ```
//!
//! Each continuation variable occurs once, so partial evaluation puts its function there, and no function is left: sequences of operations, with no
//! mutation. The derivatives of `prod`, `sum` and `dot` are
//!
//! ```text
//! prod A    map2 * (scanr * 1 (shift1L A)) (shift1R (scanl * 1 A))
//! sum A     map (x -> 1) A
//! dot A B   B, A
//! ```
//!
//! | file | job |
//! |---|---|
//! | `data`, `build`, `print`, `verify` | programs: unary form, and with continuations |
//! | `import`, `export` | from terms of the lambda calculus and to them, where they are evaluated |
//! | `rules` | the reverse rule of each operation |
//! | `reverse` | the macro; the same at once, without continuations |
//! | `partial` | partial evaluation |
//! | `equations`, `optimise` | the rules of the optimiser, and the walk that applies them |
//! | `cost` | the cost of programs, and the cheap gradient principle |
//! | `gradient` | all of it: gradients of terms |
//!
//! Source: \[004\], M. Huot and A. Shaikhha, "Denotationally correct, purely functional, efficient reverse-mode automatic differentiation". What is decided
//! here where the paper leaves it open:
//!
//! - Bodies of operations on arrays may read variables around them, arrays have elements of any type, and `map`, `scanl`, `scanr`, `shift1L` and `shift1R`
//!   are source terms as well, so that gradients have gradients.
//! - Gradients do not depend on the lengths of arrays. A cotangent that nothing adds to is a zero of the shape of its variable.
//! - A scalar function of the operator table other than `+` and `*` counts as one operation, as does each of its partial derivatives.
//! - The cotangent of a scalar function is a product. An infinite partial times the cotangent 0 is no number, where other methods select.

mod build;
#[cfg(test)]
mod campaign;
mod copy;
mod cost;
mod data;
mod equations;
mod export;
mod gradient;
mod import;
mod optimise;
mod partial;
mod print;
#[cfg(test)]
mod random;
mod reverse;
mod rules;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod verify;

pub use build::{Builder, Operand};
pub use cost::{Cost, Shape, cost};
pub use data::{Answer, Atom, Block, Cont, End, Fun, Program, Rhs, Stmt, Sweep, Tail, Type, Var, Variable};
pub use equations::{EQUATIONS, Equation};
pub use export::to_lambda;
pub use gradient::{expand_partials, gradient, gradient_of};
pub use import::from_lambda;
pub use optimise::{Assumptions, Optimised, PASSES, optimise};
pub use partial::{Rules, partially_evaluate};
pub use print::print_component;
pub use reverse::{Seeds, adjoint, differentiate};
pub use verify::{Reason, array_nesting, is_unary_form, verify};

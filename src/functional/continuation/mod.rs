//! Reverse mode with continuations and partial evaluation.

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
mod reverse;
#[cfg(test)]
mod random;
mod rules;
mod verify;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

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

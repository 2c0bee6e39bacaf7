//! Normal forms: from terms to Tensor-SSA in four passes (the paper's section 5).
//!
//! | pass | result | forbids, on top of the forms before | rules |
//! |---|---|---|---|
//! | [`lift_lets`] | [`NormalForm::LetLifted`] | `let` anywhere but at the top | 5.1-5.10 |
//! | [`eliminate_pairs`] | [`NormalForm::PairFree`] | pairs but in the output tuple, projections but of parameters | 5.11-5.20 |
//! | [`push_out_gens`] | [`NormalForm::GenPushedOut`] | `gen` below anything but `gen`; access to anything but variables | 5.21-5.24 |
//! | [`to_tensor_ssa`] | [`tssa::Program`](crate::tssa::Program) | nested scalar operations, affine access | 5.25-5.34 |
//!
//! Every pass keeps the meaning and never raises the operation count of the paper's Fig. 6.
//! No pass recurses into a term: each walks the tree with a stack of tasks of its own, and takes time linear in its input and output.

mod gen_pushout;
mod let_lifting;
mod pair_elimination;
#[cfg(test)]
mod random;
mod renaming;
mod scope;
mod tensor_ssa;
#[cfg(test)]
mod tests;

pub use gen_pushout::push_out_gens;
pub use let_lifting::lift_lets;
pub use pair_elimination::eliminate_pairs;
pub use tensor_ssa::to_tensor_ssa;

use crate::base::VarId;
use crate::error::{Error, Result};
use crate::term::{NormalForm, Program, Term, TermId};

/// The `let`s at the top of a program, outermost first, and what they enclose.
pub(crate) fn let_chain(program: &Program) -> (Vec<(VarId, TermId)>, TermId) {
    let mut lets = Vec::new();
    let mut body = program.root;
    while let Term::Let { var, value, body: rest } = &program.terms[body] {
        lets.push((*var, *value));
        body = *rest;
    }
    (lets, body)
}

/// What a pass demands of its input.
fn expect_form(pass: &'static str, program: &Program, form: NormalForm) -> Result<()> {
    match program.form >= form {
        true => Ok(()),
        false => Err(Error::bug(pass, format!("the program is in the form {:?}, before {form:?}", program.form))),
    }
}

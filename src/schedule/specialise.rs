//! What is better for a program of which sizes, or the numbers of some parameters, are known.

use std::collections::BTreeSet;

use super::{AT_BINDING, Sizes, Split, hold};
use crate::base::ParamId;
use crate::error::Result;
use crate::loops::Program;

/// A program for what is known of it.
#[derive(Clone, Debug)]
pub struct Specialised {
    /// What runs once: its results, in order, are what [`main`](Specialised::main) holds. Nothing where there are no constants.
    pub setup: Option<Program>,
    /// What runs at each call.
    pub main: Program,
}

/// The program for these sizes, if they are known, and these constants.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn specialise(program: &Program, sizes: Option<&Sizes<'_>>, constants: &BTreeSet<ParamId>) -> Result<Specialised> {
    let [first, others @ ..] = AT_BINDING;
    let program = first.apply(program.clone(), sizes)?;
    let finish = |program: Program| others.iter().try_fold(program, |program, pass| pass.apply(program, sizes));
    if constants.is_empty() {
        return Ok(Specialised { setup: None, main: finish(program)? });
    }
    let Split { setup, main } = hold(&program, constants)?;
    Ok(Specialised { setup: Some(finish(setup)?), main: finish(main)? })
}

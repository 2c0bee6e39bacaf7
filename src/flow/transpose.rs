//! Transposed flows: the adjoint of one that is linear in some parameters, in place of which it takes seeds.
//!
//! What values depend on is found leaf by leaf, as [`diff::transpose`] does for statements. A state depends on what its first state
//! and a step's do together:
//!
//! ```text
//! [scan t < T, s = a. b]  is linear    ==    a and b are linear or zero, where s is
//! ```
//!
//! The adjoint of what is linear reads none of it, and so no path: the scans of the program go, and those that are left run backwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::adjoint::adjoint;
use super::data::{Program, Scan, Stmt, ValueId};
use super::extend::extended;
use crate::base::ParamId;
use crate::diff::{self, Dependence, Seed, dependences, not_linear};
use crate::error::Result;
use crate::tssa;
use crate::ty::{Signature, Storage};

/// The transposed flow, and the parameters of its seeds; see [`diff::transpose`].
///
/// # Errors
/// [`Error::Request`](crate::Error::Request) for a flow that is not linear in them; [`Error::Overflow`](crate::Error::Overflow) and
/// [`Error::Bug`](crate::Error::Bug).
pub fn transpose(program: &Program, wrt: &[ParamId]) -> Result<(Program, Vec<ParamId>)> {
    check_linear(&extended(program, &[])?.0, wrt)?;
    let (derived, seeds) = adjoint(program, wrt, Seed::Parameter, false)?;
    let dense = |id: &ParamId| program.signature.params[*id].storage == Storage::Dense;
    let gone: Vec<ParamId> = wrt.iter().copied().filter(dense).collect();
    let names: Vec<String> = seeds.iter().map(|id| derived.signature.params[*id].name.clone()).collect();
    let derived = without(derived, &gone)?;
    let seeds = diff::params_by_name(&derived.signature, &names)?;
    Ok((derived, seeds))
}

/// The flow without parameters that it does not read.
fn without(mut program: Program, gone: &[ParamId]) -> Result<Program> {
    let signature = |signature: &Arc<Signature>| {
        Ok::<_, crate::Error>(tssa::Builder::new(signature.clone()).finish(Vec::new()).without(gone)?.signature)
    };
    program.signature = signature(&program.signature)?;
    program.frame = signature(&program.frame)?;
    let mut stack: Vec<&mut Stmt> = program.body.iter_mut().collect();
    while let Some(stmt) = stack.pop() {
        match stmt {
            Stmt::Leaf(leaf) => leaf.program = leaf.program.clone().without(gone)?,
            Stmt::Scan(scan) => stack.extend(&mut scan.body),
            Stmt::Call(_) => {}
        }
    }
    Ok(program)
}

/// Checks that each result is linear in some parameters, by the form of statements.
fn check_linear(program: &Program, wrt: &[ParamId]) -> Result<()> {
    let mut check = Check { wrt, values: BTreeMap::new(), culprit: None };
    check.block(&program.body);
    let names: Vec<&str> = wrt.iter().map(|id| program.signature.params[*id].name.as_str()).collect();
    for output in &program.outputs {
        for x in &output.values {
            match check.of(*x) {
                Dependence::Zero | Dependence::Linear => {}
                Dependence::Constant => {
                    let what = format!("its result `{}` does not depend on them", output.name);
                    return Err(not_linear(&names, &what));
                }
                Dependence::Other => {
                    let result = || format!("its result `{}` is no linear function of them", output.name);
                    return Err(not_linear(&names, &check.culprit.take().unwrap_or_else(result)));
                }
            }
        }
    }
    Ok(())
}

struct Check<'a> {
    wrt: &'a [ParamId],
    /// How values depend on the parameters.
    values: BTreeMap<ValueId, Dependence>,
    /// The first statement that is not linear, in words.
    culprit: Option<String>,
}

impl Check<'_> {
    fn of(&self, x: ValueId) -> Dependence {
        self.values.get(&x).copied().unwrap_or(Dependence::Other)
    }

    // Scans nest to a bounded depth.
    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => {
                    let all = dependences(&leaf.program, &|param| match leaf.taken(param) {
                        Some(x) => self.of(*x),
                        None if self.wrt.contains(&param) => Dependence::Linear,
                        None => Dependence::Constant,
                    });
                    for (x, output) in leaf.gives.iter().zip(&leaf.program.outputs) {
                        let of = output.leaves.iter().map(|var| all[*var]).fold(Dependence::Zero, Dependence::plus);
                        if of == Dependence::Other && self.culprit.is_none() {
                            self.culprit = diff::culprit(&leaf.program, &all);
                        }
                        self.values.insert(*x, of);
                    }
                }
                Stmt::Call(call) => {
                    let constant = call.reads().all(|x| self.of(x) == Dependence::Constant);
                    if !constant {
                        self.culprit.get_or_insert_with(|| "it calls a function from outside".to_owned());
                    }
                    let of = if constant { Dependence::Constant } else { Dependence::Other };
                    self.values.extend(call.gives.iter().map(|x| (*x, of)));
                }
                Stmt::Scan(scan) => self.scan(scan),
            }
        }
    }

    fn scan(&mut self, scan: &Scan) {
        let first = |x| if scan.implicit.is_some() { Dependence::Zero } else { self.of(x) };
        let mut states: Vec<Dependence> = scan.states.iter().map(|state| first(state.init)).collect();
        // Each time around at least one state depends on more.
        loop {
            for (state, of) in scan.states.iter().zip(&states) {
                self.values.insert(state.before, *of);
            }
            self.block(&scan.body);
            let after = scan.states.iter().zip(&states).map(|(state, of)| of.plus(self.of(state.after)));
            let after: Vec<Dependence> = after.collect();
            if after == states {
                break;
            }
            states = after;
        }
        for (state, of) in scan.states.iter().zip(states) {
            self.values.extend([(state.path, of), (state.last, of)]);
        }
    }
}

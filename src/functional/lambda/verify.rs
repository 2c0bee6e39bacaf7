//! What every program promises. Run on the result of every pass.
//!
//! - terms come after their operands, and each term but the body of the program has one user;
//! - each variable is bound in one place, and used where it is in scope;
//! - each term has the type that the typing rules give it, and variables have the types of their values.

use super::data::{Program, Term, TermId};
use super::types::infer;
use crate::base::Id;
use crate::error::{Error, Result};

/// Checks a program; the error names the pass that made it.
///
/// # Errors
/// [`Error::Bug`] for the first promise that is broken.
pub fn verify(pass: &'static str, program: &Program) -> Result<()> {
    let check = shape(program).and_then(|()| scopes(program)).and_then(|()| typing(program));
    check.map_err(|message| Error::Bug { pass, message, program: super::print::excerpt(program) })
}

type Check = std::result::Result<(), String>;

fn shape(program: &Program) -> Check {
    let terms = &program.terms;
    if program.term_types.len() != terms.len() {
        return Err("there is not one type for each term".to_string());
    }
    let mut users = vec![0u32; terms.len()];
    let mut bad = None;
    for (e, term) in terms.iter() {
        term.for_each_operand(|operand, _| match users.get_mut(operand.index()) {
            Some(n) if operand < e => *n += 1,
            _ => bad = Some(e),
        });
    }
    if let Some(e) = bad {
        return Err(format!("{e} comes before an operand"));
    }
    match users.get_mut(program.body.index()) {
        Some(n) => *n += 1,
        None => return Err("the body is not a term".to_string()),
    }
    match users.iter().position(|n| *n != 1) {
        Some(k) => Err(format!("{} has {} users", TermId::from_index(k), users[k])),
        None => Ok(()),
    }
}

/// Scopes are intervals of a numbering of the terms: a term is in the scope of a variable that is bound over one of its users, or over itself.
fn scopes(program: &Program) -> Check {
    let mut bound_over: Vec<Option<TermId>> = vec![None; program.vars.len()];
    let mut seen = vec![false; program.vars.len()];
    let mut bad = None;
    for x in &program.params {
        match seen.get_mut(x.index()) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(format!("the parameter {x} is bound twice, or no variable")),
        }
    }
    for (e, term) in program.terms.iter() {
        let mut here: Vec<crate::base::VarId> = Vec::new();
        term.for_each_operand(|_, binders| {
            here.extend(binders.iter().filter(|x| !here.contains(x)).collect::<Vec<_>>())
        });
        for x in here {
            match seen.get_mut(x.index()) {
                Some(seen) if !*seen => *seen = true,
                _ => bad = Some(format!("{e} binds {x}, which is bound elsewhere, or no variable")),
            }
            if let Some(place) = bound_over.get_mut(x.index()) {
                *place = Some(e);
            }
        }
    }
    if let Some(bad) = bad {
        return Err(bad);
    }
    in_scope(program)
}

/// Walks the program in the order of evaluation with the set of variables in scope.
fn in_scope(program: &Program) -> Check {
    enum Step {
        Visit(TermId),
        Enter(crate::base::VarId),
        Leave(crate::base::VarId),
    }
    let mut scope = vec![false; program.vars.len()];
    for x in &program.params {
        scope[x.index()] = true;
    }
    let mut todo = vec![Step::Visit(program.body)];
    while let Some(step) = todo.pop() {
        match step {
            Step::Enter(x) => scope[x.index()] = true,
            Step::Leave(x) => scope[x.index()] = false,
            Step::Visit(e) => {
                let term = &program.terms[e];
                if let Term::Var(x) = term
                    && !scope.get(x.index()).copied().unwrap_or(false)
                {
                    return Err(format!("{e} mentions {x}, which is not in scope"));
                }
                let at = todo.len();
                term.for_each_operand(|operand, binders| {
                    todo.extend(binders.iter().map(|x| Step::Enter(*x)));
                    todo.push(Step::Visit(operand));
                    todo.extend(binders.iter().map(|x| Step::Leave(*x)));
                });
                todo[at..].reverse();
            }
        }
    }
    Ok(())
}

fn typing(program: &Program) -> Check {
    let mut context = super::data::Context { terms: Default::default(), ..program.context.clone() };
    for (e, term) in program.terms.iter() {
        let found = infer(&mut context, term).map_err(|mismatch| format!("{e}: {mismatch}"))?;
        if found != program.ty(e) {
            return Err(format!("{e} is of type {}, not {}", context.show(found), context.show(program.ty(e))));
        }
    }
    Ok(())
}

//! What every program promises. Run on the result of every pass.
//!
//! - terms come after their operands, and each term but the body of the program has one user;
//! - each variable is bound in one place, and used where it is in scope;
//! - each term has the type that the typing rules give it, and variables have the types of their values;
//! - a cell that is read or added to is one of its environment, and has the type of the value.

use super::data::{Context, Program, Term, TermId, Type, TypeId};
use super::linear::{Linear, LinearType};
use super::types::infer;
use crate::base::{Arena, Id, VarId};
use crate::error::{Error, Result};

/// Checks a program; the error names the pass that made it.
///
/// # Errors
/// [`Error::Bug`] for the first promise that is broken.
pub fn verify(pass: &'static str, program: &Program) -> Result<()> {
    let check =
        shape(program).and_then(|()| scopes(program)).and_then(|()| typing(program)).and_then(|()| cells(program));
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

/// Each variable is bound once, and used where it is in scope.
fn scopes(program: &Program) -> Check {
    let mut seen = vec![false; program.vars.len()];
    let mut bind = |x: VarId| match seen.get_mut(x.index()).map(|seen| std::mem::replace(seen, true)) {
        Some(false) => Ok(()),
        _ => Err(format!("{x} is bound twice, or no variable")),
    };
    program.params.iter().try_for_each(|x| bind(*x))?;
    for (_, term) in program.terms.iter() {
        // The condition and the body of a loop share their variable.
        let mut here: Vec<VarId> = Vec::new();
        term.for_each_operand(|_, binders| {
            let new: Vec<VarId> = binders.iter().copied().filter(|x| !here.contains(x)).collect();
            here.extend(new);
        });
        here.into_iter().try_for_each(&mut bind)?;
    }
    in_scope(program)
}

/// Walks the program in the order of evaluation with the set of variables in scope.
fn in_scope(program: &Program) -> Check {
    enum Step {
        Visit(TermId),
        Enter(VarId),
        Leave(VarId),
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
    let mut context = Context {
        types: program.types.clone(),
        data: program.data.clone(),
        users: program.users.clone(),
        externals: program.externals.clone(),
        vars: program.vars.clone(),
        terms: Arena::new(),
        term_types: program.term_types.clone(),
    };
    for (e, term) in program.terms.iter() {
        let found = infer(&mut context, term).map_err(|mismatch| format!("{e}: {mismatch}"))?;
        if found != program.ty(e) {
            return Err(format!("{e} is of type {}, not {}", context.show(found), context.show(program.ty(e))));
        }
    }
    Ok(())
}

/// Cells are there, and have the types of what is put to them.
fn cells(program: &Program) -> Check {
    let uses = |term: &Term| match term {
        Term::Linear(Linear::OneHot(cell, env, e)) => match program.types[*env] {
            Type::Linear(LinearType::Environment(cells)) => Some((cells, *cell, Some(*e))),
            _ => None,
        },
        Term::Linear(Linear::Add(cell, cells, e)) => Some((*cells, *cell, Some(*e))),
        Term::Linear(Linear::Split(cell, e)) => match program.types[program.ty(*e)] {
            Type::Linear(LinearType::Environment(cells)) => Some((cells, *cell, None)),
            _ => None,
        },
        _ => None,
    };
    let mut levels: Option<Levels> = None;
    for (e, term) in program.terms.iter() {
        let Some((cells, cell, value)) = uses(term) else { continue };
        let levels = levels.get_or_insert_with(|| Levels::new(program));
        let found = levels.cell(program, cells, cell);
        let right = match value {
            Some(value) => found == Some(program.ty(value)),
            // The last one is split off.
            None => found.is_some() && levels.depth(cells) == cell + 1,
        };
        if !right {
            return Err(format!("{e} is of the cell {cell} of {}", program.show(cells)));
        }
    }
    Ok(())
}

/// The number of cells of each type of cells, and a type of some of them: from one to the next so that any number of them is found in logarithmic time.
struct Levels {
    depth: Vec<u32>,
    jump: Vec<TypeId>,
}

impl Levels {
    fn new(program: &Program) -> Levels {
        let n = program.types.len();
        let mut levels = Levels { depth: vec![0; n], jump: (0..n).map(TypeId::from_index).collect() };
        for (ty, of) in program.types.iter() {
            if let Type::Cells(rest, _) = of {
                let (near, far) = (levels.jump[rest.index()], levels.jump[levels.jump[rest.index()].index()]);
                levels.depth[ty.index()] = levels.depth(*rest) + 1;
                let even = levels.depth(*rest) - levels.depth(near) == levels.depth(near) - levels.depth(far);
                levels.jump[ty.index()] = if even { far } else { *rest };
            }
        }
        levels
    }

    fn depth(&self, cells: TypeId) -> u32 {
        self.depth[cells.index()]
    }

    /// The type of a cell.
    fn cell(&self, program: &Program, cells: TypeId, cell: u32) -> Option<TypeId> {
        let (mut at, depth) = (cells, cell.checked_add(1)?);
        while self.depth(at) > depth {
            let jump = self.jump[at.index()];
            let Type::Cells(rest, _) = program.types[at] else { return None };
            at = if self.depth(jump) > cell { jump } else { rest };
        }
        match program.types[at] {
            Type::Cells(_, last) if self.depth(at) == depth => Some(last),
            _ => None,
        }
    }
}

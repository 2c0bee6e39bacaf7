//! Gradients of programs of the lambda calculus.

use super::copy::{Renaming, renamed};
use super::data::{Atom, Block, Program, Rhs, Stmt, Sweep, Tail, Type};
use super::export::to_lambda;
use super::import::from_lambda;
use super::optimise::{Assumptions, optimise};
use super::partial::{Rules, partially_evaluate};
use super::reverse::{Seeds, adjoint};
use super::verify::{rhs_type, verify};
use crate::error::{Error, Result};
use crate::functional::lambda;
use crate::scalar::{self, Formula, Function};

/// The value of a program of type real and its gradient, `(value, (cotangent of a parameter, ..))`, as a program of the same parameters.
///
/// # Errors
/// [`Error::Request`] where the result is no real number, [`Error::Limitation`] for programs that the source language of continuations does not
/// have, see [`from_lambda`], and for operations that have no [rule](super::differentiate).
pub fn gradient(program: &lambda::Program) -> Result<lambda::Program> {
    to_lambda(&gradient_of(&from_lambda(program)?)?)
}

/// The same in unary form.
///
/// # Errors
/// As [`gradient`].
pub fn gradient_of(program: &Program) -> Result<Program> {
    let ty = program.atom_ty(program.body.result()?);
    if ty != Type::Real {
        return Err(Error::Request(format!("a gradient is that of a real number, not of a value of type {ty}")));
    }
    let adjoint = adjoint(&expand_partials(program)?, Seeds::One)?;
    verify("adjoint", &adjoint)?;
    let simplified = partially_evaluate(&adjoint, Seeds::One, Rules::default())?;
    let optimised = optimise(&simplified, Assumptions::default())?;
    verify("optimise", &optimised.program)?;
    Ok(optimised.program)
}

/// The same program with the formulas of partial derivatives of scalar functions instead of black boxes, so that it has a derivative.
///
/// # Errors
/// [`Error::Bug`] for a program with continuations.
pub fn expand_partials(program: &Program) -> Result<Program> {
    let mut out = program.clone();
    let body = std::mem::replace(&mut out.body, Block::value(Atom::Number(0.0)));
    out.body = expand_block(&mut out, body)?;
    Ok(out)
}

fn expand_block(program: &mut Program, block: Block) -> Result<Block> {
    let result = block.result()?;
    let mut stmts = Vec::with_capacity(block.stmts.len());
    let mut names = Renaming::default();
    for stmt in block.stmts {
        let rhs = stmt.rhs.map_operands(|a| renamed(&names, a));
        match rhs {
            Rhs::Call(Function::Partial(primitive, k), args) => {
                let partial = scalar::partial_formula(primitive, k, &program.users);
                let value = match partial.mentions_result() {
                    true => let_(program, &mut stmts, Rhs::Call(Function::Value(primitive), args.clone()))?,
                    false => Atom::Number(0.0),
                };
                let a = formula(program, &mut stmts, &partial, &args, value)?;
                names.insert(stmt.var, a);
            }
            rhs => stmts.push(Stmt::new(stmt.var, expand_body(program, rhs, &names)?)),
        }
    }
    Ok(Block { start: None, stmts, tail: Tail::Value(renamed(&names, result)) })
}

fn expand_body(program: &mut Program, rhs: Rhs, names: &Renaming) -> Result<Rhs> {
    let expand = |program: &mut Program, body: Block| {
        let body = rename_block(body, names);
        expand_block(program, body)
    };
    Ok(match rhs {
        Rhs::Map { params, body, arrays } => Rhs::Map { params, body: Box::new(expand(program, *body)?), arrays },
        Rhs::Reduce(sweep) => Rhs::Reduce(Box::new(Sweep { body: expand(program, sweep.body.clone())?, ..*sweep })),
        Rhs::Scan(from, sweep) => {
            Rhs::Scan(from, Box::new(Sweep { body: expand(program, sweep.body.clone())?, ..*sweep }))
        }
        other => other,
    })
}

/// A block for other names of what it reads from around it.
fn rename_block(mut block: Block, names: &Renaming) -> Block {
    for stmt in &mut block.stmts {
        let rhs = std::mem::replace(&mut stmt.rhs, Rhs::Tuple(Vec::new()));
        let mut rhs = rhs.map_operands(|a| renamed(names, a));
        if let Some(body) = rhs.body_mut() {
            let inner = std::mem::replace(body, Block::value(Atom::Number(0.0)));
            *body = rename_block(inner, names);
        }
        stmt.rhs = rhs;
    }
    if let Tail::Value(a) = &mut block.tail {
        *a = renamed(names, *a);
    }
    block
}

fn let_(program: &mut Program, stmts: &mut Vec<Stmt>, rhs: Rhs) -> Result<Atom> {
    let ty = rhs_type(program, &rhs, None).map_err(|message| Error::bug("expand-partials", message))?;
    let var = program.fresh("d", ty);
    stmts.push(Stmt::new(var, rhs));
    Ok(Atom::Var(var))
}

/// The value of a formula. Formulas nest at most [`Formula::MAX_NESTING`] deep.
fn formula(program: &mut Program, stmts: &mut Vec<Stmt>, e: &Formula, args: &[Atom], value: Atom) -> Result<Atom> {
    match e {
        Formula::Arg(k) => {
            let missing = || Error::bug("expand-partials", "a formula mentions an argument that is not there");
            args.get(usize::from(*k)).copied().ok_or_else(missing)
        }
        Formula::Result => Ok(value),
        Formula::Number(r) => Ok(Atom::Number(*r)),
        Formula::Add(a, b) => {
            let (a, b) = (formula(program, stmts, a, args, value)?, formula(program, stmts, b, args, value)?);
            let_(program, stmts, Rhs::Add(a, b))
        }
        Formula::Mul(a, b) => {
            let (a, b) = (formula(program, stmts, a, args, value)?, formula(program, stmts, b, args, value)?);
            let_(program, stmts, Rhs::Mul(a, b))
        }
        Formula::Apply(g, of) => {
            let of = of.iter().map(|e| formula(program, stmts, e, args, value)).collect::<Result<Vec<_>>>()?;
            let_(program, stmts, Rhs::Call(Function::Value(*g), of))
        }
    }
}

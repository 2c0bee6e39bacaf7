//! Copies of blocks in unary form with variables of their own, and which variables a result depends on.

use rustc_hash::FxHashMap;

use super::data::{Atom, Block, Program, Rhs, Stmt, Sweep, Tail, Var};
use crate::error::Result;
use crate::scalar::{self, Function, Partial};

/// What stands for the variables of what is copied; others stay as they are.
pub(super) type Renaming = FxHashMap<Var, Atom>;

/// What stands for an atom.
pub(super) fn renamed(names: &Renaming, a: Atom) -> Atom {
    match a {
        Atom::Var(x) => names.get(&x).copied().unwrap_or(a),
        Atom::Zero(x) => match names.get(&x) {
            Some(Atom::Var(y) | Atom::Zero(y)) => Atom::Zero(*y),
            Some(Atom::Number(_)) => Atom::Number(0.0),
            None => a,
        },
        Atom::Number(_) => a,
    }
}

/// A new variable for one that is bound in what is copied.
pub(super) fn rebind(program: &mut Program, names: &mut Renaming, x: Var) -> Var {
    let y = program.fresh_like(x);
    names.insert(x, Atom::Var(y));
    y
}

/// A copy of a block.
///
/// # Errors
/// [`Error::Bug`](crate::error::Error::Bug) for a block with continuations.
pub(super) fn copy_block(program: &mut Program, block: &Block, names: &mut Renaming) -> Result<Block> {
    let result = block.result()?;
    let mut stmts = Vec::with_capacity(block.stmts.len());
    for stmt in &block.stmts {
        let rhs = copy_rhs(program, &stmt.rhs, names)?;
        stmts.push(Stmt::new(rebind(program, names, stmt.var), rhs));
    }
    Ok(Block { start: None, stmts, tail: Tail::Value(renamed(names, result)) })
}

fn copy_rhs(program: &mut Program, rhs: &Rhs, names: &mut Renaming) -> Result<Rhs> {
    Ok(match rhs {
        Rhs::Map { params, body, arrays } => {
            let params = params.iter().map(|x| rebind(program, names, *x)).collect();
            let body = copy_block(program, body, names)?;
            Rhs::Map { params, body: Box::new(body), arrays: arrays.iter().map(|a| renamed(names, *a)).collect() }
        }
        Rhs::Reduce(sweep) => Rhs::Reduce(Box::new(copy_sweep(program, sweep, names)?)),
        Rhs::Scan(from, sweep) => Rhs::Scan(*from, Box::new(copy_sweep(program, sweep, names)?)),
        other => other.clone().map_operands(|a| renamed(names, a)),
    })
}

/// A copy of what `reduce` and the scans have in common.
pub(super) fn copy_sweep(program: &mut Program, sweep: &Sweep, names: &mut Renaming) -> Result<Sweep> {
    Ok(Sweep {
        state: rebind(program, names, sweep.state),
        element: rebind(program, names, sweep.element),
        body: copy_block(program, &sweep.body, names)?,
        init: renamed(names, sweep.init),
        array: renamed(names, sweep.array),
    })
}

/// Whether an operand of a scalar function has a partial derivative that is not zero everywhere.
pub(super) fn has_partial(program: &Program, function: Function, k: usize) -> bool {
    match (function, u8::try_from(k)) {
        (Function::Value(primitive), Ok(k)) => scalar::partial(primitive, k, &program.users) != Partial::Zero,
        _ => true,
    }
}

/// The variables that the result of a block in unary form depends on by a path of operations with derivatives, as a table.
pub(super) fn active(program: &Program, block: &Block) -> Vec<bool> {
    let mut active = vec![false; program.vars.len()];
    if let Tail::Value(Atom::Var(x)) = block.tail {
        active[crate::base::Id::index(x)] = true;
    }
    mark(program, block, &mut active);
    active
}

/// Marks, backwards, what the active variables of a block depend on.
fn mark(program: &Program, block: &Block, active: &mut [bool]) {
    use crate::base::Id;
    for stmt in block.stmts.iter().rev() {
        if !active[stmt.var.index()] {
            continue;
        }
        for (k, a) in stmt.rhs.operands().into_iter().enumerate() {
            let differentiable = match stmt.rhs {
                Rhs::Call(function, _) => has_partial(program, function, k),
                _ => true,
            };
            if let (Atom::Var(x), true) = (a, differentiable) {
                active[x.index()] = true;
            }
        }
        if let Some((_, body)) = stmt.rhs.body() {
            if let Tail::Value(Atom::Var(x)) = body.tail {
                active[x.index()] = true;
            }
            mark(program, body, active);
        }
    }
}

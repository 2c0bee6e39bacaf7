//! What is finite, and where it is seen if something is not.

use crate::base::{SideTable, VarId};
use crate::scalar::{Function, Number, Op, Primitive, Totality};
use crate::tssa::{Program, Rhs};

/// Which statements have finite elements only, whatever the data are; or where data are finite and not so large that their powers overflow.
pub(super) fn total(program: &Program, finite_data: bool) -> SideTable<VarId, bool> {
    let mut total = SideTable::new(program.stmts.len(), false);
    for (x, stmt) in program.stmts.iter() {
        let operands = || match &stmt.rhs {
            Rhs::Input { .. } => finite_data,
            Rhs::Number(Number::Literal(c)) => c.is_finite(),
            Rhs::Number(Number::Index(_)) => true,
            Rhs::Add(sides) => sides.iter().all(|(_, y)| total[*y]),
            Rhs::Map { args, .. } => args.iter().all(|y| total[*y]),
            Rhs::Contract { operands, .. } => operands.iter().all(|y| total[y.var]),
        };
        let finite = match &stmt.rhs {
            Rhs::Map { function, .. } => match function.totality() {
                Totality::Always => true,
                Totality::OfFinite => !(finite_data && grows(*function)) && operands(),
                Totality::Partial => false,
            },
            _ => operands(),
        };
        total.set(x, finite);
    }
    total
}

/// Whether a NaN among the elements of a statement is one of a result, unless brackets and zeros of the program make it not matter: it goes there through
/// sums, products and functions that keep it, and no comparison, support or extremum reads it.
pub(super) fn seen_nans(program: &Program) -> SideTable<VarId, bool> {
    let mut seen = SideTable::new(program.stmts.len(), true);
    let live = program.live();
    for x in program.stmts.ids().rev().filter(|x| live[*x]) {
        let rhs = &program.stmts[x].rhs;
        let (keeps, operands): (bool, Vec<VarId>) = match rhs {
            Rhs::Input { .. } | Rhs::Number(_) => (true, Vec::new()),
            Rhs::Add(sides) => (true, sides.iter().map(|(_, y)| *y).collect()),
            Rhs::Map { function, args, .. } => (function.keeps_nan(), args.clone()),
            Rhs::Contract { operands, .. } => (true, operands.iter().map(|y| y.var).collect()),
        };
        if !keeps || !seen[x] {
            operands.into_iter().for_each(|y| seen.set(y, false));
        }
        rhs.guards().for_each(|p| p.visit_computed(&mut |y| seen.set(y, false)));
    }
    seen
}

/// Whether a function is a power of more than its argument.
fn grows(function: Function) -> bool {
    matches!(function, Function::Value(Primitive::Op(Op::Powi(2..))))
}

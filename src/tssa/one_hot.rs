//! Tensors that say at which place a number stands: one-hot tensors, `c = gen g, q. (k[g] = q)`. A number equals at most one integer, so at most one
//! element is not zero along `q`.

use crate::base::{Id, VarId};
use crate::index::{Affine, Pred, RelationRef, View};
use crate::scalar::{Comparison, Function, Number, Op, Primitive};

use super::{Program, Rhs};

/// A tensor that is zero but where its index on an axis is a number.
pub(crate) struct OneHot {
    /// The axis.
    pub axis: usize,
    /// The tensor that holds the number.
    pub number: VarId,
    /// The axes of the one-hot tensor that are those of the numbers.
    pub at: Vec<usize>,
}

impl OneHot {
    /// A tensor as such a one.
    pub fn of(program: &Program, x: VarId) -> Option<OneHot> {
        let Rhs::Map { function: Function::Value(Primitive::Op(Op::Compare(Comparison::Equal))), args, guard } =
            &program.stmts.get(x)?.rhs
        else {
            return None;
        };
        let [a, b] = args.as_slice() else { return None };
        [(a, b), (b, a)].into_iter().find_map(|(index, number)| {
            let (index, axes) = read_at(program, *index, guard);
            let Rhs::Number(Number::Index(index)) = &program.stmts.get(index)?.rhs else { return None };
            let axis = *axes.get(index.as_index()?.index())?;
            let (number, at) = read_at(program, *number, guard);
            (!at.contains(&axis)).then_some(OneHot { axis, number, at })
        })
    }

    /// An atom that asks a one-hot tensor, and its arguments.
    pub fn asked<'p>(program: &Program, p: &'p Pred) -> Option<(OneHot, &'p [Affine])> {
        let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } = p
        else {
            return None;
        };
        Some((OneHot::of(program, *var)?, args))
    }

    /// The arguments at which the number is read.
    pub fn source(&self, args: &[Affine]) -> Vec<Affine> {
        self.at.iter().filter_map(|axis| args.get(*axis).cloned()).collect()
    }
}

/// The tensor of which another is a copy with other axes where a guard holds, and which of the copy's axes it has.
fn read_at(program: &Program, copy: VarId, around: &Pred) -> (VarId, Vec<usize>) {
    let rank = program.stmts[copy].dims.len();
    let (mut x, mut at): (VarId, Vec<usize>) = (copy, (0..rank).collect());
    while let Rhs::Contract { sums, guard, operands } = &program.stmts[x].rhs {
        // The axes of the copy are those of the guard around.
        if !guard.is_true() && !(x == copy && guard == around) {
            break;
        }
        let ([], [operand]) = (sums.as_slice(), operands.as_slice()) else { break };
        let axes = operand.indices.iter().map(|i| at.get(i.index()).copied()).collect::<Option<Vec<usize>>>();
        let Some(axes) = axes else { break };
        (x, at) = (operand.var, axes);
    }
    (x, at)
}

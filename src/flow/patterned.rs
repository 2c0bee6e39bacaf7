//! Values that are zero outside of a relation are stored on it.
//!
//! ```text
//! S = F(); .. G(S) ..   ==   S = gen g. [R(g)] * F(); .. G(gen g. [R(g)] * S[g]) ..      with S stored on R
//! ```
//!
//! where `F` is zero outside of `R`, as `A[i, j] / degree[i]` is outside of the pattern of `A`. So a matrix that is made of a sparse one before a loop has the
//! entries of that one in each step, and what steps owe to it, which is then a sparse parameter of theirs, has them as well.
//!
//! **How far it is the same.** The quotient of 0 is 0, and a function of 0 that is 0 there, whatever else stands there, so this is done where simplification
//! of the [tier](crate::simplify::Tier) `finite` may do so. Where a value is a number, it is the same one.
//!
//! **Which values.** Those of leaves outside of all loops that are neither results, nor first states, nor given to code from outside, and lie on a relation
//! with all of their axes in its order.

use std::collections::{BTreeMap, BTreeSet};

use super::build::Builder;
use super::data::{Leaf, Loops, Program, Stmt, ValueId, with_leaves};
use crate::base::{Id, RelationId, SideTable, VarId};
use crate::error::Result;
use crate::index::{Affine, RelationRef};
use crate::solver::Relations;
use crate::tssa::patterns::{Pattern, patterns_of_numbers};
use crate::tssa::{self, Operand, Rhs};
use crate::ty::Storage;

/// The flow with such values on their relations.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn on_patterns(program: &Program) -> Result<Program> {
    let mut found: BTreeMap<ValueId, RelationId> = BTreeMap::new();
    for leaf in program.body.iter().filter_map(as_leaf) {
        let known = patterns_of_numbers(&leaf.program);
        for (x, output) in leaf.gives.iter().zip(&leaf.program.outputs) {
            let relation = output.leaves.first().and_then(|var| zero_outside(&leaf.program, *var, &known));
            found.extend(relation.filter(|_| output.storage == Storage::Dense).map(|relation| (*x, relation)));
        }
    }
    let dense = dense(program);
    found.retain(|x, _| !dense.contains(x));
    if found.is_empty() {
        return Ok(program.clone());
    }
    let mut flow = Builder::resume(program);
    for (x, relation) in &found {
        let rank = flow.dims(*x)?.len();
        flow.store(*x, Storage::computed(rank, *relation));
    }
    let body = with_leaves(&program.body, &mut Loops::new(), &mut |leaf, loops| stored(&flow, leaf, loops))?;
    Ok(flow.finish(body, program.outputs.clone()))
}

fn as_leaf(stmt: &Stmt) -> Option<&Leaf> {
    match stmt {
        Stmt::Leaf(leaf) => Some(leaf),
        Stmt::Scan(_) | Stmt::Call(_) => None,
    }
}

/// The values that are dense for those who take them.
fn dense(program: &Program) -> BTreeSet<ValueId> {
    let mut dense: BTreeSet<ValueId> =
        program.outputs.iter().flat_map(|output| output.values.iter().copied()).collect();
    let mut left: Vec<&Stmt> = program.body.iter().collect();
    while let Some(stmt) = left.pop() {
        match stmt {
            Stmt::Leaf(_) => {}
            Stmt::Call(call) => dense.extend(call.reads()),
            Stmt::Scan(scan) => {
                dense.extend(scan.states.iter().flat_map(|state| [state.init, state.after]));
                left.extend(&scan.body);
            }
        }
    }
    dense
}

/// The relation over all axes of a tensor, in their order, outside of which it is zero where it is a number.
fn zero_outside(program: &tssa::Program, x: VarId, known: &SideTable<VarId, Vec<Pattern>>) -> Option<RelationId> {
    let rank = program.stmts[x].dims.len();
    let is_map = |relation: RelationId| program.signature.is_map(RelationRef::Input(relation));
    let is_whole = |p: &&Pattern| p.axes.iter().copied().eq(0..rank) && !is_map(p.relation);
    known[x].iter().find(is_whole).map(|p| p.relation)
}

/// The leaf with what it takes and gives as it is stored now.
fn stored(flow: &Builder, leaf: &Leaf, loops: &Loops) -> Result<Leaf> {
    let has_changed = |(x, storage): (&ValueId, Storage)| flow.get(*x).storage != storage;
    let outer = flow.signature().params.len();
    let given = leaf.gives.iter().zip(leaf.program.outputs.iter().map(|output| output.storage));
    let taken = leaf.program.signature.params.values().skip(outer).map(|param| param.storage);
    if !leaf.takes.iter().zip(taken).any(has_changed) && !given.clone().any(has_changed) {
        return Ok(leaf.clone());
    }
    let mut builder = tssa::Builder::new(flow.leaf_signature(loops, &leaf.takes)?);
    let on = |builder: &mut tssa::Builder, x: VarId, storage: Storage| {
        let dims = builder.dims(x).to_vec();
        let gens = builder.fresh_indices(&dims);
        let indices = gens.iter().map(|(i, _)| *i).collect();
        let stored = storage.stored_at(&Affine::indices(&gens));
        builder.contract(&gens, &[], stored, vec![Operand { var: x, indices }])
    };
    let mut outputs = builder.append_with(&leaf.program, |builder, _, stmt| {
        let x = builder.push(stmt)?;
        match &stmt.rhs {
            Rhs::Input { param, .. } if param.index() >= outer => {
                let storage = builder.signature().params[*param].storage;
                if storage == leaf.program.signature.params[*param].storage { Ok(x) } else { on(builder, x, storage) }
            }
            _ => Ok(x),
        }
    })?;
    for (x, output) in leaf.gives.iter().zip(&mut outputs) {
        let storage = flow.get(*x).storage;
        if storage != output.storage {
            output.storage = storage;
            for var in &mut output.leaves {
                *var = on(&mut builder, *var, storage)?;
            }
        }
    }
    Ok(Leaf { program: builder.finish(outputs), ..leaf.clone() })
}

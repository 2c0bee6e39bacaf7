//! Results that one leaf gives, behind all others.
//!
//! ```text
//! [stmts], some results are ys        ==  [stmts; zs = leaf ys], they are zs
//! ```
//!
//! Joined, the leaf has all statements that no scan depends on. So the guards of a result stand where it is given, and say where it may differ from zero.

use std::collections::BTreeMap;

use super::build::Builder;
use super::data::{Leaf, Loops, Program, Stmt, ValueId};
use super::join::join;
use super::leaf::Joined;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::Pred;
use crate::tssa::Operand;

impl Program {
    /// The last statement, where it is a leaf.
    pub fn last_leaf(&self) -> Option<&Leaf> {
        match self.body.last() {
            Some(Stmt::Leaf(leaf)) => Some(leaf),
            Some(Stmt::Scan(_) | Stmt::Call(_)) | None => None,
        }
    }

    /// How many leaves of results each value is.
    fn results_of_values(&self) -> BTreeMap<ValueId, usize> {
        let mut counts = BTreeMap::new();
        for x in self.outputs.iter().flat_map(|output| &output.values) {
            *counts.entry(*x).or_default() += 1;
        }
        counts
    }
}

/// The flow, where the last statement is a leaf that gives some of the results, each by a value of its own. They are dense tensors.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn given_last(program: &Program, results: &[usize]) -> Result<Program> {
    let counts = program.results_of_values();
    let last = program.last_leaf().map_or(&[][..], |leaf| &leaf.gives);
    let values = || results.iter().filter_map(|k| program.outputs.get(*k)).flat_map(|output| &output.values);
    if values().all(|x| last.contains(x) && counts.get(x) == Some(&1)) {
        return Ok(program.clone());
    }
    let mut program = program.clone();
    let mut flow = Builder::resume(&program);
    let mut given = Vec::new();
    let mut copies = Vec::new();
    for k in results {
        let Some(output) = program.outputs.get_mut(*k) else { continue };
        for x in &mut output.values {
            let value = flow.get(*x).clone();
            let copy = flow.value(value.name, value.ty, value.storage);
            copies.push((*x, copy));
            given.push(copy);
            *x = copy;
        }
    }
    let mut joined = Joined::new(&flow);
    for (x, copy) in copies {
        let dims = flow.dims(x)?;
        let var = joined.read(x, dims.clone());
        let gens = joined.builder.fresh_indices(&dims);
        let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
        let var = joined.builder.contract(&gens, &[], Pred::True, vec![Operand { var, indices }])?;
        joined.give(copy, var);
    }
    let leaf = joined.finish(&flow, &Loops::new(), given)?;
    program.body.push(Stmt::Leaf(leaf));
    join(&flow.finish(program.body, program.outputs))
}

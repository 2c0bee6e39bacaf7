//! First states of tiles by leaves of their own.
//!
//! ```text
//! (ys, a) = leaf xs;  stmts;  tiles u < U, r = a. ..   ==   ys = leaf xs;  stmts;  a = leaf xs;  tiles u < U, r = a. ..
//! ```
//!
//! What tiles add up may be as long as time, and its first state is zeros, or what a few steps gave. A leaf right before the loop that gives nothing but
//! first states can store them where the states are; as a part of another leaf they would be stored twice. Nothing that adds up is moved: it may share
//! its work with the rest of its leaf.

use std::collections::BTreeMap;

use super::build::Builder;
use super::data::{Leaf, Loops, Program, Scan, Stmt, ValueId};
use super::leaf::only;
use crate::base::VarId;
use crate::error::Result;
use crate::tssa::{self, Rhs};

/// The flow with the first states of tiles at the top by leaves of their own.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn part_inits(program: &Program) -> Result<Program> {
    let is_tiles = |stmt: &Stmt| matches!(stmt, Stmt::Scan(scan) if scan.tiles);
    if !program.body.iter().any(is_tiles) {
        return Ok(program.clone());
    }
    let mut reads: BTreeMap<ValueId, usize> = BTreeMap::new();
    let mut read = |x: ValueId| *reads.entry(x).or_default() += 1;
    program.outputs.iter().flat_map(|output| &output.values).for_each(|x| read(*x));
    program.body.iter().for_each(|stmt| stmt.visit_reads(&mut read));
    let flow = Builder::resume(program);
    let mut body: Vec<Stmt> = Vec::with_capacity(program.body.len());
    for stmt in &program.body {
        let Stmt::Scan(scan) = stmt else {
            body.push(stmt.clone());
            continue;
        };
        let inits = if scan.tiles { part(&flow, &mut body, scan, &reads)? } else { Vec::new() };
        body.extend(inits.into_iter().map(Stmt::Leaf));
        body.push(stmt.clone());
    }
    body.retain(|stmt| !matches!(stmt, Stmt::Leaf(leaf) if leaf.gives.is_empty()));
    Ok(Program { body, ..program.clone() })
}

/// Takes first states of a loop that nobody else reads out of the leaves before it.
fn part(flow: &Builder, before: &mut [Stmt], scan: &Scan, reads: &BTreeMap<ValueId, usize>) -> Result<Vec<Leaf>> {
    let mut parts = Vec::new();
    for stmt in before {
        let Stmt::Leaf(leaf) = stmt else { continue };
        let is_init = |x: &ValueId| scan.states.iter().any(|state| state.init == *x) && reads.get(x) == Some(&1);
        let moved: Vec<ValueId> = leaf
            .gives
            .iter()
            .zip(&leaf.program.outputs)
            .filter(|(x, output)| is_init(x) && output.leaves.iter().all(|var| is_cheap(&leaf.program, *var)))
            .map(|(x, _)| *x)
            .collect();
        if moved.is_empty() {
            continue;
        }
        parts.push(only(leaf, &|x| moved.contains(&x), flow, &Loops::new())?);
        *leaf = only(leaf, &|x| !moved.contains(&x), flow, &Loops::new())?;
    }
    // One leaf, so that it is the one before the loop.
    match parts.len() {
        0 | 1 => Ok(parts),
        _ => {
            let mut joined = super::leaf::Joined::new(flow);
            let mut gives = Vec::new();
            for leaf in &parts {
                joined.leaf(leaf, &BTreeMap::new())?;
                gives.extend(leaf.gives.iter().copied());
            }
            Ok(vec![joined.finish(flow, &Loops::new(), gives)?])
        }
    }
}

/// Whether a statement and those that it reads add nothing up.
fn is_cheap(program: &tssa::Program, x: VarId) -> bool {
    let mut stack = vec![x];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(x) = stack.pop() {
        if !seen.insert(x) {
            continue;
        }
        let stmt = &program.stmts[x];
        if matches!(stmt.rhs, Rhs::Contract { .. }) && super::split::adds_up(stmt) {
            return false;
        }
        stmt.rhs.for_each_operand(|y| stack.push(y));
    }
    true
}

//! Leaves beside each other as one, and without what nobody needs.
//!
//! ```text
//! [ys = F(xs); stmts; zs = G(ws)]  ==  [(ys, zs) = (F; G)(..); stmts]      where stmts give none of ws
//! ```
//!
//! A leaf joins the last leaf before it that is behind all that gives what it takes. Rules of simplification see one leaf, so what two leaves
//! compute alike is computed once. What a leaf gives and nobody reads goes first, and with it states that no output depends on.

use std::collections::{BTreeMap, BTreeSet};

use super::build::Builder;
use super::data::{Leaf, Loops, Program, Scan, Stmt, ValueId};
use super::leaf::{Joined, sources, with_program};
use crate::error::Result;
use crate::tssa;

/// The flow with leaves joined, without what its outputs do not need.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn join(program: &Program) -> Result<Program> {
    let flow = Builder::resume(program);
    let mut needed: BTreeSet<ValueId> =
        program.outputs.iter().flat_map(|output| output.values.iter().copied()).collect();
    let body = live(&flow, &program.body, &mut needed, &Vec::new())?;
    let body = joined(&flow, body, &needed, &Vec::new())?;
    Ok(flow.finish(body, program.outputs.clone()))
}

/// The flow with other programs in its leaves, which give the same.
///
/// # Errors
/// Those of `other`.
pub fn map_leaves(
    program: &Program,
    other: &mut dyn FnMut(&tssa::Program) -> Result<tssa::Program>,
) -> Result<Program> {
    let flow = Builder::resume(program);
    let body = map_block(&flow, &program.body, &mut Vec::new(), other)?;
    Ok(flow.finish(body, program.outputs.clone()))
}

// Scans nest to a bounded depth.
fn map_block(
    flow: &Builder,
    body: &[Stmt],
    loops: &mut Loops,
    other: &mut dyn FnMut(&tssa::Program) -> Result<tssa::Program>,
) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        out.push(match stmt {
            Stmt::Leaf(leaf) => Stmt::Leaf(with_program(leaf, other(&leaf.program)?, flow, loops)?),
            Stmt::Scan(scan) => {
                loops.push((scan.index, scan.steps.clone()));
                let body = map_block(flow, &scan.body, loops, other)?;
                loops.pop();
                Stmt::Scan(Scan { body, ..scan.clone() })
            }
        });
    }
    Ok(out)
}

/// The statements that give something needed, and no more of it. What they read is needed as well.
fn live(flow: &Builder, body: &[Stmt], needed: &mut BTreeSet<ValueId>, loops: &Loops) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body.iter().rev() {
        match stmt {
            Stmt::Leaf(leaf) => {
                let kept: Vec<usize> = (0..leaf.gives.len()).filter(|at| needed.contains(&leaf.gives[*at])).collect();
                if kept.is_empty() {
                    continue;
                }
                let leaf = match kept.len() == leaf.gives.len() {
                    true => leaf.clone(),
                    false => {
                        let mut program = leaf.program.clone();
                        program.outputs = kept.iter().map(|at| program.outputs[*at].clone()).collect();
                        let gives = kept.iter().map(|at| leaf.gives[*at]).collect();
                        let leaf = Leaf { program: program.clone(), takes: leaf.takes.clone(), gives };
                        with_program(&leaf, program.prune()?, flow, loops)?
                    }
                };
                needed.extend(leaf.takes.iter().copied());
                out.push(Stmt::Leaf(leaf));
            }
            Stmt::Scan(scan) => {
                let mut inside = loops.clone();
                inside.push((scan.index, scan.steps.clone()));
                let mut kept: Vec<bool> = scan.states.iter().map(|state| needed.contains(&state.path)).collect();
                if !kept.contains(&true) {
                    continue;
                }
                // A state that a step of another one reads is needed, too.
                let body = loop {
                    let mut within = needed.clone();
                    let states = || scan.states.iter().zip(&kept).filter(|(_, kept)| **kept);
                    within.extend(states().map(|(state, _)| state.after));
                    let body = live(flow, &scan.body, &mut within, &inside)?;
                    let read = scan.states.iter().map(|state| within.contains(&state.before));
                    let now: Vec<bool> = kept.iter().zip(read).map(|(kept, read)| *kept || read).collect();
                    if now == kept {
                        *needed = within;
                        break body;
                    }
                    kept = now;
                };
                let states = scan.states.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(state, _)| *state);
                let states: Vec<_> = states.collect();
                needed.extend(states.iter().map(|state| state.init));
                out.push(Stmt::Scan(Scan { states, body, ..scan.clone() }));
            }
        }
    }
    out.reverse();
    Ok(out)
}

/// A statement, or leaves that become one.
enum Group {
    Leaves(Vec<Leaf>),
    Scan(Scan),
}

fn joined(flow: &Builder, body: Vec<Stmt>, needed: &BTreeSet<ValueId>, loops: &Loops) -> Result<Vec<Stmt>> {
    let mut groups: Vec<Group> = Vec::new();
    // In which group a value is given.
    let mut given: BTreeMap<ValueId, usize> = BTreeMap::new();
    for stmt in body {
        match stmt {
            Stmt::Leaf(leaf) => {
                let after = leaf.takes.iter().filter_map(|x| given.get(x)).max().copied().unwrap_or(0);
                let found = (after..groups.len()).find(|at| matches!(groups[*at], Group::Leaves(_)));
                let at = found.unwrap_or(groups.len());
                given.extend(leaf.gives.iter().map(|x| (*x, at)));
                match groups.get_mut(at) {
                    Some(Group::Leaves(leaves)) => leaves.push(leaf),
                    _ => groups.push(Group::Leaves(vec![leaf])),
                }
            }
            Stmt::Scan(scan) => {
                let mut inside = loops.clone();
                inside.push((scan.index, scan.steps.clone()));
                let mut wanted = needed.clone();
                wanted.extend(scan.states.iter().map(|state| state.after));
                let body = joined(flow, scan.body.clone(), &wanted, &inside)?;
                given.extend(scan.states.iter().map(|state| (state.path, groups.len())));
                groups.push(Group::Scan(Scan { body, ..scan }));
            }
        }
    }
    // What is read outside of the leaves that give it.
    let mut read_by: BTreeMap<ValueId, BTreeSet<usize>> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        let mut note = |x: ValueId| {
            read_by.entry(x).or_default().insert(at);
        };
        match group {
            Group::Leaves(leaves) => leaves.iter().flat_map(|leaf| &leaf.takes).for_each(|x| note(*x)),
            Group::Scan(scan) => Stmt::Scan(scan.clone()).visit_reads(&mut note),
        }
    }
    let mut out = Vec::with_capacity(groups.len());
    for (at, group) in groups.into_iter().enumerate() {
        out.push(match group {
            Group::Scan(scan) => Stmt::Scan(scan),
            Group::Leaves(leaves) => {
                let mut joined = Joined::new(flow);
                let mut gives = Vec::new();
                for leaf in &leaves {
                    let outputs =
                        joined.append(&leaf.program, leaf.outer_params(), &sources(leaf), &BTreeMap::new())?;
                    for (x, output) in leaf.gives.iter().zip(outputs) {
                        output.leaves.iter().for_each(|var| joined.give(*x, *var));
                        let read = read_by.get(x).is_some_and(|readers| readers.iter().any(|reader| *reader != at));
                        if read || needed.contains(x) {
                            gives.push(*x);
                        }
                    }
                }
                Stmt::Leaf(joined.finish(flow, loops, gives)?)
            }
        });
    }
    Ok(out)
}

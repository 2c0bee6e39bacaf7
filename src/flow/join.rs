//! Leaves beside each other as one, and without what nobody needs.
//!
//! ```text
//! [ys = F(xs); stmts; zs = G(ws)]  ==  [stmts; (ys, zs) = (F; G)(..)]      where stmts read none of ys
//! ```
//!
//! 1. What a leaf gives and nobody reads goes, and with it states that no output depends on.
//! 2. What is read of a path at its ends is the first or the last state: a path that nobody reads elsewhere need not be kept.
//! 3. A leaf without work, of literals and views, is written into the leaves that read it. A state that is a copy of the last state of a loop inside is that.
//! 4. A leaf joins the first one behind it that reads it; one that a scan reads joins a leaf before the scan. So it runs as late as it can. Rules of
//!    simplification see one leaf, so what two leaves compute alike is computed once.

use std::collections::{BTreeMap, BTreeSet};

use super::build::Builder;
use super::data::{Call, Leaf, Loops, Program, Scan, State, Stmt, ValueId, with_leaves};
use super::leaf::{Joined, only, with_program};
use crate::base::{Id, IndexId, VarId};
use crate::error::Result;
use crate::index::{Pred, Size};
use crate::tssa::{self, Operand, Rhs};
use crate::ty::Storage;

/// The flow with leaves joined, without what its outputs do not need.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn join(program: &Program) -> Result<Program> {
    let flow = Builder::resume(program);
    let mut needed: BTreeSet<ValueId> =
        program.outputs.iter().flat_map(|output| output.values.iter().copied()).collect();
    let outputs = needed.clone();
    let body = live(&flow, &program.body, &mut needed, &Vec::new())?;
    let body = inlined(&flow, body, &mut Around::default(), &Vec::new())?;
    let body = live(&flow, &body, &mut outputs.clone(), &Vec::new())?;
    let body = joined(&flow, body, &mut outputs.clone(), &Vec::new())?;
    Ok(flow.finish(body, program.outputs.clone()))
}

/// What is known of values.
#[derive(Default)]
struct Around {
    /// Those that leaves without work give.
    free: BTreeMap<ValueId, Leaf>,
    /// Paths: each place of an end, with the value that stands there.
    ends: BTreeMap<ValueId, [(Size, ValueId); 2]>,
    /// What leaves give that are last states of loops, as they are.
    copies: BTreeMap<ValueId, ValueId>,
}

/// The values that a leaf gives as it takes them, each with that.
fn copies(leaf: &Leaf) -> impl Iterator<Item = (ValueId, ValueId)> {
    leaf.gives.iter().zip(&leaf.program.outputs).filter_map(|(x, output)| {
        let Rhs::Input { param, .. } = &leaf.program.stmts.get(*output.leaves.first()?)?.rhs else { return None };
        let dense = output.storage == Storage::Dense;
        leaf.taken(*param).filter(|_| dense).map(|y| (*x, *y))
    })
}

/// Whether a leaf has no work: literals, parameters, and tensors read at other places.
fn is_free(leaf: &Leaf) -> bool {
    let signature = &leaf.program.signature;
    leaf.program.stmts.values().all(|stmt| match &stmt.rhs {
        Rhs::Input { .. } | Rhs::Number(_) => true,
        Rhs::Contract { sums, operands, .. } => {
            operands.len() == 1 && (sums.is_empty() || stmt.is_access(signature)) && !stmt.rhs.reads_computed()
        }
        Rhs::Add(_) | Rhs::Map { .. } => false,
    })
}

// Scans nest to a bounded depth.
fn inlined(flow: &Builder, body: Vec<Stmt>, around: &mut Around, loops: &Loops) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        match stmt {
            Stmt::Leaf(leaf) => {
                let mut joined = Joined::new(flow);
                write(&mut joined, &leaf, around)?;
                let leaf = joined.finish(flow, loops, leaf.gives)?;
                let is_last = |y: ValueId| around.ends.values().any(|[_, (_, last)]| *last == y);
                around.copies.extend(copies(&leaf).filter(|(_, y)| is_last(*y)));
                if is_free(&leaf) {
                    around.free.extend(leaf.gives.iter().map(|x| (*x, leaf.clone())));
                }
                out.push(Stmt::Leaf(leaf));
            }
            Stmt::Call(_) => out.push(stmt),
            Stmt::Scan(scan) => {
                let mut inside = loops.clone();
                inside.push((scan.index, scan.steps.clone()));
                // What the body adds is in scope in no other place, and read there only.
                let body = inlined(flow, scan.body.clone(), around, &inside)?;
                let inner: BTreeSet<ValueId> =
                    body.iter().filter(|stmt| matches!(stmt, Stmt::Scan(_))).flat_map(Stmt::gives).collect();
                let of = |x: ValueId| around.copies.get(&x).copied().filter(|y| inner.contains(y)).unwrap_or(x);
                let states: Vec<State> =
                    scan.states.iter().map(|state| State { after: of(state.after), ..*state }).collect();
                for state in &states {
                    let ends = [(scan.first_place(), state.init), (scan.last_place(), state.last)];
                    around.ends.insert(state.path, ends);
                }
                out.push(Stmt::Scan(Scan { states, body, ..scan }));
            }
        }
    }
    Ok(out)
}

/// Writes a leaf, and before it those without work that it reads. Each of these reads no other one, since others are written into it.
fn write(joined: &mut Joined, leaf: &Leaf, around: &Around) -> Result<()> {
    for x in &leaf.takes {
        if let Some(free) = around.free.get(x).filter(|_| !joined.knows(*x)) {
            joined.leaf(free, &BTreeMap::new())?;
        }
    }
    let vars = joined.statements_of(leaf, &mut |joined, x, stmt| {
        let Some(value) = end_of_path(leaf, x, around) else { return Ok(None) };
        let open = joined.builder.open_stmt(stmt)?;
        let (Rhs::Contract { guard, .. }, Some((at, _))) = (&open.rhs, open.sums.first()) else { return Ok(None) };
        let guard = Pred::all(guard.conjuncts().iter().filter(|p| !p.mentions(*at)).cloned());
        let var = joined.read(value, stmt.dims.clone());
        if guard.is_true() {
            return Ok(Some(var));
        }
        let indices = open.gens.iter().map(|(i, _)| *i).collect();
        joined.builder.contract(&open.gens, &[], guard, vec![Operand { var, indices }]).map(Some)
    })?;
    joined.give_all(leaf, &vars)
}

/// The first or the last state, if that is what a statement reads of a path, perhaps under a guard.
fn end_of_path(leaf: &Leaf, x: VarId, around: &Around) -> Option<ValueId> {
    let stmt = &leaf.program.stmts[x];
    let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return None };
    let ([_], [operand]) = (sums.as_slice(), operands.as_slice()) else { return None };
    let Rhs::Input { param, .. } = leaf.program.stmts[operand.var].rhs else { return None };
    let ends = around.ends.get(leaf.taken(param)?)?;
    let rank = stmt.dims.len();
    let at = IndexId::from_index(rank);
    let whole = (0..rank).map(IndexId::from_index);
    let is_whole = operand.indices.first() == Some(&at) && operand.indices[1..].iter().copied().eq(whole);
    let mut places = guard.conjuncts().iter().filter(|p| p.mentions(at));
    let (Some(Pred::Zero(a)), None, true) = (places.next(), places.next(), is_whole) else { return None };
    let place = a.root(at)?;
    ends.iter().find(|(end, _)| *end == place).map(|(_, value)| *value)
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
    let body = with_leaves(&program.body, &mut Loops::new(), &mut |leaf, loops| {
        with_program(leaf, other(&leaf.program)?, &flow, loops)
    })?;
    Ok(flow.finish(body, program.outputs.clone()))
}

/// The statements that give something needed, and no more of it. What they read is needed as well.
fn live(flow: &Builder, body: &[Stmt], needed: &mut BTreeSet<ValueId>, loops: &Loops) -> Result<Vec<Stmt>> {
    let mut out: Vec<Stmt> = Vec::with_capacity(body.len());
    for stmt in body.iter().rev() {
        match stmt {
            Stmt::Leaf(leaf) => {
                let leaf = only(leaf, &|x| needed.contains(&x), flow, loops)?;
                if leaf.gives.is_empty() {
                    continue;
                }
                needed.extend(leaf.takes.iter().copied());
                out.push(Stmt::Leaf(leaf));
            }
            Stmt::Call(call) => {
                if call.gives.iter().any(|x| needed.contains(x)) {
                    needed.extend(call.reads());
                    out.push(stmt.clone());
                }
            }
            Stmt::Scan(scan) => {
                let mut inside = loops.clone();
                inside.push((scan.index, scan.steps.clone()));
                let mut kept: Vec<bool> =
                    scan.states.iter().map(|s| needed.contains(&s.path) || needed.contains(&s.last)).collect();
                // How many steps it makes may be what others need to know.
                let finds = scan.early.as_ref().is_some_and(|early| early.most != scan.steps);
                let is_told = finds && scan.steps.as_size().is_some_and(|n| out.iter().any(|s| s.mentions(n)));
                if !kept.contains(&true) && !is_told {
                    continue;
                }
                needed.extend(scan.early.iter().map(|early| early.changes));
                // A state that a step of another one reads is needed, too.
                let body = loop {
                    let states = scan.states.iter().zip(&kept).filter(|(_, kept)| **kept);
                    needed.extend(states.map(|(state, _)| state.after));
                    let body = live(flow, &scan.body, needed, &inside)?;
                    let read = scan.states.iter().map(|state| needed.contains(&state.before));
                    let now: Vec<bool> = kept.iter().zip(read).map(|(kept, read)| *kept || read).collect();
                    if now == kept {
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
    Scan(Box<Scan>),
    Call(Call),
}

fn joined(flow: &Builder, body: Vec<Stmt>, needed: &mut BTreeSet<ValueId>, loops: &Loops) -> Result<Vec<Stmt>> {
    // The last one first, as are the leaves of a group.
    let mut groups: Vec<Group> = Vec::new();
    // The groups that read a value.
    let mut readers: BTreeMap<ValueId, BTreeSet<usize>> = BTreeMap::new();
    for stmt in body.into_iter().rev() {
        match stmt {
            Stmt::Leaf(leaf) => {
                let first = leaf.gives.iter().filter_map(|x| readers.get(x)?.last()).max().copied().unwrap_or(0);
                let found = (first..groups.len()).find(|at| matches!(groups[*at], Group::Leaves(_)));
                let at = found.unwrap_or(groups.len());
                for x in &leaf.takes {
                    readers.entry(*x).or_default().insert(at);
                }
                match groups.get_mut(at) {
                    Some(Group::Leaves(leaves)) => leaves.push(leaf),
                    _ => groups.push(Group::Leaves(vec![leaf])),
                }
            }
            Stmt::Call(call) => {
                for x in call.reads() {
                    readers.entry(x).or_default().insert(groups.len());
                }
                groups.push(Group::Call(call));
            }
            Stmt::Scan(scan) => {
                let at = groups.len();
                let mut inside = loops.clone();
                inside.push((scan.index, scan.steps.clone()));
                needed.extend(scan.states.iter().map(|state| state.after));
                needed.extend(scan.early.iter().map(|early| early.changes));
                let body = joined(flow, scan.body.clone(), needed, &inside)?;
                let scan = Stmt::Scan(Scan { body, ..scan });
                scan.visit_reads(&mut |x| {
                    readers.entry(x).or_default().insert(at);
                });
                if let Stmt::Scan(scan) = scan {
                    groups.push(Group::Scan(Box::new(scan)));
                }
            }
        }
    }
    let mut out = Vec::with_capacity(groups.len());
    for (at, group) in groups.into_iter().enumerate().rev() {
        out.push(match group {
            Group::Scan(scan) => Stmt::Scan(*scan),
            Group::Call(call) => Stmt::Call(call),
            Group::Leaves(leaves) => {
                let mut joined = Joined::new(flow);
                let mut gives = Vec::new();
                for leaf in leaves.iter().rev() {
                    joined.leaf(leaf, &BTreeMap::new())?;
                    gives.extend(leaf.gives.iter().filter(|x| {
                        let read = readers.get(x).is_some_and(|readers| readers.iter().any(|reader| *reader != at));
                        read || needed.contains(x)
                    }));
                }
                Stmt::Leaf(joined.finish(flow, loops, gives)?)
            }
        });
    }
    Ok(out)
}

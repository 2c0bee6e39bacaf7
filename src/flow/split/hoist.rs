//! What a step computes from no state, before the loop.
//!
//! ```text
//! scan t < T, s. F(X, Y(t), s)   ==  x = X;  Y' = gen t < T. Y(t);  scan t < T, s. F(x, Y'[t], s)
//! ```
//!
//! Of what is the same in all steps calls and sums are computed once. Of what is not sums are [lifted](super::super::lift): over all steps they are
//! products of matrices. So are functions such as `exp` of what is read of parameters for the step, as many numbers as that: over all steps they run in
//! lanes. What is cheap stays in the step, where it needs no memory.

use std::collections::{BTreeMap, BTreeSet};

use super::super::build::Builder;
use super::super::data::{Leaf, Loops, Scan, Stmt, ValueId};
use super::super::leaf::Joined;
use super::super::lift::{self, Axis, Lifted};
use super::Lengths;
use super::residual::work;
use super::step::{self, Changing, Instead};
use crate::base::{SideTable, VarId};
use crate::error::{Error, Result};
use crate::tssa::{self, Output, Rhs};
use crate::ty::{Storage, Types};

/// What is hoisted takes so many operations for each of its numbers.
const DEAR: f64 = 4.0;
/// What is lifted has at most so many times the numbers of the states.
const WIDE: f64 = 8.0;

/// The statements of a block with what their loops need not do.
pub(super) fn block(flow: &mut Builder, body: Vec<Stmt>, loops: &Loops, lengths: &Lengths<'_>) -> Result<Vec<Stmt>> {
    each_loop(body, |scan, out| hoisted(flow, scan, loops, lengths, out))
}

/// The statements of a block with other loops: `change` gives what stands for a loop, behind what it writes before it.
pub(super) fn each_loop(
    body: Vec<Stmt>,
    mut change: impl FnMut(Scan, &mut Vec<Stmt>) -> Result<Scan>,
) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        match stmt {
            Stmt::Scan(scan) => {
                let scan = change(scan, &mut out)?;
                out.push(Stmt::Scan(scan));
            }
            other @ (Stmt::Leaf(_) | Stmt::Call(_)) => out.push(other),
        }
    }
    Ok(out)
}

/// Computes statements of a program, each with a name, before a loop whose step takes some values: for all steps where they are not the same in all of them.
pub(super) fn before(
    flow: &mut Builder,
    scan: &Scan,
    takes: &[ValueId],
    mut program: tssa::Program,
    named: &[(&str, VarId)],
    loops: &Loops,
    out: &mut Vec<Stmt>,
) -> Result<Vec<Lifted>> {
    program.outputs.clear();
    let mut gives = Vec::with_capacity(named.len());
    for (name, x) in named {
        let ty = flow.types().tensor_of(&program.stmts[*x].dims, Types::REAL);
        let name = step::name(name).to_owned();
        gives.push(flow.value(&name, ty, Storage::Dense));
        program.outputs.push(Output { name, ty, storage: Storage::Dense, leaves: vec![*x] });
    }
    let leaf = Leaf { program: program.prune()?, takes: takes.to_vec(), gives: gives.clone() };
    let axis = Axis { index: scan.index, steps: scan.steps.clone() };
    let mut known: BTreeMap<ValueId, Lifted> = BTreeMap::new();
    out.extend(lift::block(flow, &[Stmt::Leaf(leaf)], &axis, loops, &mut known)?);
    let lifted = |value| known.get(value).copied().ok_or_else(|| Error::bug("split", "a lifted value is lost"));
    gives.iter().map(lifted).collect()
}

fn hoisted(flow: &mut Builder, scan: Scan, loops: &Loops, lengths: &Lengths<'_>, out: &mut Vec<Stmt>) -> Result<Scan> {
    let Some(leaf) = scan.single() else { return Ok(scan) };
    let mut inside = loops.clone();
    inside.push((scan.index, scan.steps.clone()));
    let mut joined = Joined::new(flow);
    let vars = step::append(flow, &mut joined, leaf, &mut |_, _| Ok(None))?;
    joined.give_all(leaf, &vars)?;
    let leaf = joined.finish(flow, &inside, leaf.gives.clone())?;
    let chosen = chosen(flow, &scan, &leaf, lengths);
    if chosen.is_empty() {
        return Ok(scan);
    }
    let named: Vec<(&str, VarId)> = chosen.iter().map(|x| (leaf.program.names[*x].as_str(), *x)).collect();
    let all = before(flow, &scan, &leaf.takes, leaf.program.clone(), &named, loops, out)?;
    let now = crate::index::Affine::size(scan.index);
    let mut instead: BTreeMap<VarId, Instead> = BTreeMap::new();
    for (x, lifted) in chosen.iter().zip(all) {
        let stands = match lifted.varies {
            true => Instead::Part(lifted.value, now.clone()),
            false => Instead::Value(lifted.value),
        };
        instead.insert(*x, stands);
    }
    let leaf = step::rewritten(flow, &leaf, &instead, &inside)?;
    Ok(Scan { body: vec![Stmt::Leaf(leaf)], ..scan })
}

/// Whether it takes some work for each of its numbers: what is the same in all steps is computed once then.
pub(super) fn is_dear(stmt: &tssa::Stmt, lengths: &Lengths<'_>) -> bool {
    work(stmt, lengths) >= DEAR * lengths.points(&stmt.dims)
}

/// How many numbers of parameters each statement depends on that are read at the step: of the tensors with most of them. The states of another loop, which are
/// kept for this one, are none of these.
fn read_for_step(leaf: &Leaf, varies: &BTreeSet<VarId>, lengths: &Lengths<'_>) -> SideTable<VarId, f64> {
    let mut read = SideTable::new(leaf.program.stmts.len(), 0.0_f64);
    for (x, stmt) in leaf.program.stmts.iter().filter(|(x, _)| varies.contains(x)) {
        let (mut most, mut is_first) = (0.0_f64, true);
        stmt.rhs.for_each_operand(|y| {
            most = most.max(read[y]);
            is_first &= !varies.contains(&y);
        });
        let is_given = |y: VarId| match &leaf.program.stmts[y].rhs {
            Rhs::Input { param, .. } => leaf.taken(*param).is_none(),
            _ => false,
        };
        let is_read = match &stmt.rhs {
            Rhs::Contract { operands, .. } => is_first && operands.iter().all(|operand| is_given(operand.var)),
            _ => false,
        };
        read.set(x, if is_read { lengths.points(&stmt.dims) } else { most });
    }
    read
}

/// The statements of a step that are computed before the loop.
fn chosen(flow: &Builder, scan: &Scan, leaf: &Leaf, lengths: &Lengths<'_>) -> Vec<VarId> {
    let states: f64 = scan
        .states
        .iter()
        .map(|state| {
            let dims = flow.frame().types.real_dims(flow.get(state.before).ty).unwrap_or_default();
            lengths.points(&dims)
        })
        .sum();
    let Changing { moves, varies } =
        step::changing(leaf.program.stmts.iter(), scan, |param| leaf.taken(param).copied());
    let read = read_for_step(leaf, &varies, lengths);
    let goes_ahead = |x: VarId| {
        let stmt = &leaf.program.stmts[x];
        let numbers = lengths.points(&stmt.dims);
        let is_call = matches!(&stmt.rhs, Rhs::Map { function, .. } if function.is_call());
        let fits = !varies.contains(&x)
            || step::adds_up(stmt) && numbers <= WIDE * states.max(1.0)
            || is_call && numbers <= read[x];
        fits && is_dear(stmt, lengths)
    };
    // From the outputs on, the first that can go.
    let mut found = BTreeSet::new();
    let outputs = leaf.program.outputs.iter().flat_map(|output| output.leaves.iter().copied());
    step::read_by(
        |x| &leaf.program.stmts[x],
        outputs,
        |x| {
            let goes = !moves.contains(&x) && goes_ahead(x);
            if goes {
                found.insert(x);
            }
            !goes
        },
    );
    found.into_iter().collect()
}

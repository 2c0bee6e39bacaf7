//! What a step computes from its number and from indices through sums of these alone, before the loop.
//!
//! ```text
//! scan t < T, s. F(gen j. f(2 * j - t), s)   ==   Y = gen k. f(k - T + 1);  scan t < T, s. F(gen j. Y[2 * j - t + T - 1], s)
//! ```
//!
//! The prices on a tree are such, `up^(2 * j - t)`, and what depends on how long ago something was: `T * n` applications of a function that takes long where
//! `T + 2 n` are enough. What is in the table and why the bits are the same is what [`tables`](crate::tssa::tables) say, for which the step is one more
//! index. Nothing of the states is read there.

use std::collections::BTreeMap;

use super::super::build::Builder;
use super::super::data::{Leaf, Loops, Scan, Stmt, ValueId};
use super::super::lift::{self, Axis, Lifted};
use super::Lengths;
use super::step::{self, Changing, Instead};
use crate::base::{SideTable, VarId};
use crate::error::{Error, Result};
use crate::tssa::tables::{Memo, Table, Tables, Written};
use crate::tssa::{self, Output};
use crate::ty::{Storage, Types};

/// The statements of a block with tables before their loops.
pub(super) fn block(flow: &mut Builder, body: Vec<Stmt>, loops: &Loops, _: &Lengths<'_>) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        match stmt {
            Stmt::Scan(scan) => {
                let scan = tabulated(flow, scan, loops, &mut out)?;
                out.push(Stmt::Scan(scan));
            }
            other @ (Stmt::Leaf(_) | Stmt::Call(_)) => out.push(other),
        }
    }
    Ok(out)
}

fn tabulated(flow: &mut Builder, scan: Scan, loops: &Loops, out: &mut Vec<Stmt>) -> Result<Scan> {
    let Some(leaf) = scan.single() else { return Ok(scan) };
    let program = &leaf.program;
    if !program.stmts.values().any(Tables::is_long) {
        return Ok(scan);
    }
    let Changing { moves, varies } = step::changing(program.stmts.iter(), &scan, |param| leaf.taken(param).copied());
    let is_there = |x| !moves.contains(&x) && !varies.contains(&x);
    let tables = Tables::of(program, Some((scan.index, scan.steps.clone())), &is_there)?;
    let mut chosen: Vec<(VarId, Table)> = Vec::new();
    for (x, stmt) in program.stmts.iter() {
        if Tables::is_long(stmt) && tables.varies(x) {
            chosen.extend(tables.table(x, false)?.map(|table| (x, table)));
        }
    }
    if chosen.is_empty() {
        return Ok(scan);
    }
    // The tables themselves, which do not vary any more.
    let mut builder = tssa::Builder::new(program.signature.clone());
    let mut vars: SideTable<VarId, Option<VarId>> = SideTable::new(program.stmts.len(), None);
    builder.append_with(program, |builder, x, stmt| {
        let y = builder.push(stmt)?;
        vars.set(x, Some(y));
        Ok(y)
    })?;
    let mut memo = Memo::new();
    let (mut outputs, mut gives) = (Vec::new(), Vec::new());
    for (x, table) in &chosen {
        let written = &mut Written { tables: &tables, builder: &mut builder, vars: &vars, memo: &mut memo };
        let filled = table.filled(written)?;
        let ty = flow.types().tensor_of(&table.dims(), Types::REAL);
        let name = step::name(&program.names[*x]).to_owned();
        gives.push(flow.value(&name, ty, Storage::Dense));
        outputs.push(Output { name, ty, storage: Storage::Dense, leaves: vec![filled] });
    }
    let filled = builder.finish(outputs).prune()?;
    let before = Leaf { program: filled, takes: leaf.takes.clone(), gives: gives.clone() };
    let axis = Axis { index: scan.index, steps: scan.steps.clone() };
    let mut known: BTreeMap<ValueId, Lifted> = BTreeMap::new();
    out.extend(lift::block(flow, &[Stmt::Leaf(before)], &axis, loops, &mut known)?);
    let mut instead: BTreeMap<VarId, Instead> = BTreeMap::new();
    for ((x, table), value) in chosen.into_iter().zip(gives) {
        let lifted = known.get(&value).filter(|lifted| !lifted.varies);
        let value = lifted.ok_or_else(|| Error::bug("split", "a table varies"))?.value;
        instead.insert(x, Instead::Table(value, table));
    }
    let mut inside = loops.clone();
    inside.push((scan.index, scan.steps.clone()));
    let leaf = step::rewritten(flow, leaf, &instead, &inside)?;
    Ok(Scan { body: vec![Stmt::Leaf(leaf)], ..scan })
}

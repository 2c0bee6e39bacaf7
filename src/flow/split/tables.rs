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
use super::super::data::{Loops, Scan, Stmt};
use super::Lengths;
use super::hoist;
use super::step::{self, Changing, Instead};
use crate::base::{SideTable, VarId};
use crate::error::{Error, Result};
use crate::tssa;
use crate::tssa::tables::{Memo, Table, Tables, Written};

/// The statements of a block with tables before their loops.
pub(super) fn block(flow: &mut Builder, body: Vec<Stmt>, loops: &Loops, _: &Lengths<'_>) -> Result<Vec<Stmt>> {
    hoist::each_loop(body, |scan, out| tabulated(flow, scan, loops, out))
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
    let mut named: Vec<(&str, VarId)> = Vec::with_capacity(chosen.len());
    for (x, table) in &chosen {
        let written = &mut Written { tables: &tables, builder: &mut builder, vars: &vars, memo: &mut memo };
        named.push((&program.names[*x], table.filled(written)?));
    }
    let filled = hoist::before(flow, &scan, &leaf.takes, builder.finish(Vec::new()), &named, loops, out)?;
    let mut instead: BTreeMap<VarId, Instead> = BTreeMap::new();
    for ((x, table), lifted) in chosen.into_iter().zip(filled) {
        if lifted.varies {
            return Err(Error::bug("split", "a table varies"));
        }
        instead.insert(x, Instead::Table(lifted.value, table));
    }
    let mut inside = loops.clone();
    inside.push((scan.index, scan.steps.clone()));
    let leaf = step::rewritten(flow, leaf, &instead, &inside)?;
    Ok(Scan { body: vec![Stmt::Leaf(leaf)], ..scan })
}

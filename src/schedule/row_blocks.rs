//! Sums along the columns of rows, a block of rows at a time.
//!
//! ```text
//! for i in 0 .. n - 1                     parallel for p in 0 .. min(63, (n - 1) / 8)
//!   t[i, ..] = f(i)                         for j { sums[p, j] = 0 }
//! for j                                     for q in part p of 64 of 0 .. (n - 1) / 8
//!   local r                                   for i in 8q .. min(8q + 7, n - 1)
//!   for i in 0 .. n - 1                         t[p, i - 8q, ..] = f(i)
//!     r += g(t[i, j])           ==            for j
//!   x[j] = h(r)                                 local r
//!                                               for i in 8q .. min(8q + 7, n - 1) { r += g(t[p, i - 8q, j]) }
//!                                               sums[p, j] = sums[p, j] + r
//!                                         for j
//!                                           local r
//!                                           for p in 0 .. min(63, (n - 1) / 8) { r += sums[p, j] }
//!                                           x[j] = h(r)
//! ```
//!
//! A sum along a column takes a line of each row, and rows are far apart: each is on another page. All columns of a block of rows are finished
//! before the next block is touched, so rows are read front to back, several at a time, whatever the number of columns is; and the parts may run at the same
//! time, where columns are few. Where the rows are written by a nest before, the sums of a block follow its rows, which are then in the nearest
//! cache. A workspace of which nobody else reads anything has room for the rows of one block in each part, and is never in memory.
//!
//! **Why it is right.** Every summand is added once. The rows of a block are written before they are read, as all of them are of the block. A part that
//! has no block has sums of 0. Which parts there are depends on sizes alone, and they are added in order, so bits do not depend on threads.
//!
//! Columns may have several axes, as of rows that are matrices: the loops over the outer ones stay around what is done for the innermost, which has lanes.
//!
//! **Where it is done.** In nests that are a loop in lanes over columns, whose sums are innermost loops over all rows and load neighbours in rows. Loops
//! over outer axes of the columns may be around it, and several such loops over the same columns beside each other, which are one then.
//! The rows are those of the last nest before that writes what is read, if it is a loop over the same rows, interleaved or not, and each row reads
//! and writes its own. Where a row is one number, as the error of an observation, rows may be in lanes, which blocks of [more rows](NUMBERS_BLOCK) fill;
//! and where that number is made of others of the same row, such as a product with the row of a matrix, the nests that make these come first in each
//! block, if nobody asks for them in between: the loss of a linear model and its gradient read the matrix once. Sums whose column is a number of the data are left to [`scatter`](super::scatter).

use std::collections::{BTreeMap, BTreeSet};

use super::machine::{NUMBERS_BLOCK, PARTS, ROW_BLOCK};
use super::panels::last;
use super::scatter::has_told_sums;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::Affine;
use crate::loops::{
    Bound, Buffer, BufferId, BufferKind, Cond, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt,
    changed, has_loop, loads, stores,
};

/// Cuts sums along columns into those of blocks of rows.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let mut uses = Uses::default();
    program.nests.iter().for_each(|nest| uses.note(nest));
    let mut at = 0;
    while at < program.nests.len() {
        let joined = with_one_loop(&program.nests[at])?;
        let nest = joined.as_ref().unwrap_or(&program.nests[at]);
        if let Some(columns) = Columns::of(nest).filter(|_| !has_told_sums(program, nest)) {
            if let Some(joined) = joined {
                program.nests[at] = joined;
            }
            let rows = partner(program, at, &columns);
            at = cut(program, &mut uses, at, rows)?;
        }
        at += 1;
    }
    Ok(())
}

/// A nest whose loops in lanes beside each other, inside of loops over outer axes, are one; nothing where there are no two, or they read what the
/// nest stores.
fn with_one_loop(nest: &Nest) -> Result<Option<Nest>> {
    let own = |place: &&Place| nest.buffers.contains(&place.buffer);
    if loads(&nest.body).iter().any(own) {
        return Ok(None);
    }
    let mut joined = nest.clone();
    let is_joined = join_loops(&mut joined.body, &mut Fresh::after(&nest.body))?;
    Ok(is_joined.then_some(joined))
}

fn join_loops(body: &mut Vec<Stmt>, names: &mut Fresh) -> Result<bool> {
    if let Some(Stmt::For { lanes: 1, body, .. }) = body.last_mut() {
        return join_loops(body, names);
    }
    let (loops, mut others): (Vec<Stmt>, Vec<Stmt>) = std::mem::take(body).into_iter().partition(has_loop);
    let mut loops = loops.into_iter();
    let Some(Stmt::For { index, domain, lanes, jam: 1, parallel: false, body: mut all }) = loops.next() else {
        return Ok(false);
    };
    let is_number = |stmt: &Stmt| matches!(stmt, Stmt::Define(..));
    let several = loops.len() > 0 && others.iter().all(is_number);
    for other in loops {
        match other {
            Stmt::For { index: i, domain: d, lanes: l, jam: 1, parallel: false, body } if d == domain && l == lanes => {
                names.again();
                names.keep(i, index);
                all.extend(names.body(&body)?);
            }
            _ => return Ok(false),
        }
    }
    others.push(Stmt::For { index, domain, lanes, jam: 1, parallel: false, body: all });
    *body = others;
    Ok(several)
}

/// Which nests use which buffers.
#[derive(Default)]
struct Uses {
    /// How many nests load from a buffer, or store to it.
    nests: BTreeMap<BufferId, usize>,
    /// Those that some nest sets to 0.
    filled: BTreeSet<BufferId>,
}

impl Uses {
    fn note(&mut self, nest: &Nest) {
        for buffer in used(nest) {
            *self.nests.entry(buffer).or_default() += 1;
        }
        let fills = nest.body.iter().filter_map(|stmt| match stmt {
            Stmt::Fill(buffer) => Some(*buffer),
            _ => None,
        });
        self.filled.extend(fills);
    }

    /// A nest is to be another one.
    fn forget(&mut self, nest: &Nest) {
        for buffer in used(nest) {
            self.nests.entry(buffer).and_modify(|count| *count = count.saturating_sub(1));
        }
    }

    /// The buffers of a nest that no other one uses, and none sets to 0.
    fn own(&self, nest: &Nest) -> Vec<BufferId> {
        let used = used(nest);
        let by_others = |b: &BufferId| self.nests.get(b).copied().unwrap_or(0) > usize::from(used.contains(b));
        nest.buffers.iter().copied().filter(|b| !self.filled.contains(b) && !by_others(b)).collect()
    }
}

/// The buffers that a nest loads from, and stores to.
fn used(nest: &Nest) -> BTreeSet<BufferId> {
    loads(&nest.body).into_iter().chain(stores(&nest.body)).map(|place| place.buffer).collect()
}

/// Loops over columns that sum up along them, the innermost one in lanes.
struct Columns {
    before: Vec<Stmt>,
    /// The loops over outer axes, from outside in, each with what is computed before the one inside of it.
    outer: Vec<Outer>,
    index: IndexId,
    domain: Domain,
    lanes: u32,
    /// What is done for a column.
    body: Vec<Stmt>,
    /// The last row.
    last_row: Affine,
    /// The loops over rows.
    loops: BTreeSet<IndexId>,
    /// The sums.
    sums: Vec<RealId>,
}

/// A loop over an outer axis of columns.
#[derive(Clone)]
struct Outer {
    index: IndexId,
    domain: Domain,
    /// What is computed before the loop inside.
    before: Vec<Stmt>,
}

impl Columns {
    fn of(nest: &Nest) -> Option<Columns> {
        let defines = |stmts: &[Stmt]| stmts.iter().all(|stmt| matches!(stmt, Stmt::Define(..)));
        let (mut columns, before) = nest.body.split_last()?;
        let mut outer: Vec<Outer> = Vec::new();
        while let Stmt::For { index, domain, lanes: 1, jam: 1, parallel, body } = columns {
            let (inner, numbers) = body.split_last()?;
            if *parallel != outer.is_empty() || last(domain).is_none() || !defines(numbers) {
                return None;
            }
            outer.push(Outer { index: *index, domain: domain.clone(), before: numbers.to_vec() });
            columns = inner;
        }
        let Stmt::For { index, domain, lanes: lanes @ 2.., jam: 1, parallel, body } = columns else { return None };
        let mut found = Columns {
            before: before.to_vec(),
            index: *index,
            domain: domain.clone(),
            lanes: *lanes,
            body: body.clone(),
            last_row: last(domain)?.clone(),
            loops: BTreeSet::new(),
            sums: Vec::new(),
            outer,
        };
        let neighbours = found.look_for_sums()?;
        let in_order = *parallel == found.outer.is_empty() && defines(before);
        (in_order && neighbours && found.sums_are_local()).then_some(found)
    }

    /// Finds the sums, which are over the same rows; whether neighbours in rows are read.
    fn look_for_sums(&mut self) -> Option<bool> {
        let mut last_rows = Vec::new();
        let mut neighbours = false;
        for stmt in &self.body {
            match stmt {
                Stmt::For { index: row, domain, lanes: 1, jam: 1, body, .. } => {
                    last_rows.push(last(domain)?);
                    self.loops.insert(*row);
                    for stmt in body {
                        match stmt {
                            Stmt::Define(_, real) => {
                                neighbours |= matches!(real, Real::Load(place) if in_row(place, *row, self.index));
                            }
                            Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) if !self.sums.contains(r) => {
                                self.sums.push(*r);
                            }
                            _ => return None,
                        }
                    }
                }
                // Sums outside of loops are of what is made of these, as multiples.
                Stmt::Define(..) | Stmt::Local(_) | Stmt::Store(..) | Stmt::Accumulate(..) | Stmt::MulAdd(..) => {}
                _ => return None,
            }
        }
        let (first, others) = last_rows.split_first()?;
        let rows = others.iter().all(|other| other == first) && first.as_constant().is_none();
        self.last_row = (*first).clone();
        rows.then_some(neighbours)
    }

    /// All that is computed before what is done for a column.
    fn numbers(&self) -> Vec<Stmt> {
        let inside = self.outer.iter().flat_map(|outer| &outer.before);
        self.before.iter().chain(inside).cloned().collect()
    }

    /// The place of a column in the room of a part for a sum.
    fn place(&self, buffer: BufferId, part: IndexId) -> Place {
        let columns = self.outer.iter().map(|outer| outer.index).chain([self.index]);
        Place { buffer, at: [part].into_iter().chain(columns).map(Affine::index).collect() }
    }

    /// Loops over all columns.
    fn over(&self, parallel: bool, body: Vec<Stmt>) -> Stmt {
        let is_outermost = self.outer.is_empty();
        let innermost = Stmt::For {
            index: self.index,
            domain: self.domain.clone(),
            lanes: self.lanes,
            jam: 1,
            parallel: parallel && is_outermost,
            body,
        };
        self.outer.iter().enumerate().rev().fold(innermost, |inner, (k, outer)| Stmt::For {
            index: outer.index,
            domain: outer.domain.clone(),
            lanes: 1,
            jam: 1,
            parallel: parallel && k == 0,
            body: needed([outer.before.as_slice(), &[inner]].concat(), &[]),
        })
    }

    /// Whether sums begin with 0, are added to nowhere else, and no loop reads one of another loop, or what is made of it.
    fn sums_are_local(&self) -> bool {
        let body = &self.body;
        let local = |r: &RealId| body.iter().any(|stmt| matches!(stmt, Stmt::Local(s) if s == r));
        let inside: Vec<&Stmt> = body.iter().filter(|stmt| !stmt.body().is_empty()).collect();
        let mut after: BTreeSet<RealId> = self.sums.iter().copied().collect();
        let mut free = true;
        for stmt in body {
            match stmt {
                Stmt::Define(r, real) => {
                    let mut reads = false;
                    real.visit_reads(&mut |a| reads |= after.contains(&a));
                    if reads {
                        after.insert(*r);
                    }
                }
                Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) => {
                    free &= local(r) && !self.sums.contains(r);
                    after.insert(*r);
                }
                _ => {}
            }
        }
        for stmt in inside {
            stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| free &= !after.contains(&r)));
        }
        free && self.sums.iter().all(local)
    }

    /// What of the body the sums need, and what of it comes after them.
    fn halves(&self) -> (Vec<Stmt>, Vec<Stmt>) {
        let is_loop = |stmt: &&Stmt| !stmt.body().is_empty();
        let own = |stmt: &&Stmt| !matches!(stmt, Stmt::Store(..) | Stmt::Accumulate(..) | Stmt::MulAdd(..));
        let sums: Vec<Stmt> = self.body.iter().filter(own).cloned().collect();
        let loops: Vec<Stmt> = self.body.iter().filter(is_loop).cloned().collect();
        let stores: Vec<Stmt> = self.body.iter().filter(|s| matches!(s, Stmt::Store(..))).cloned().collect();
        let rest: Vec<Stmt> = self.body.iter().filter(|stmt| !is_loop(stmt)).cloned().collect();
        (needed(sums, &loops), needed(rest, &stores))
    }
}

/// Whether neighbours along `j` lie together in the row `i`.
fn in_row(place: &Place, i: IndexId, j: IndexId) -> bool {
    let Some((column, others)) = place.at.split_last() else { return false };
    column.as_index() == Some(j) && others.iter().any(|a| a.as_index() == Some(i))
}

/// Whether a statement computes numbers, under tests or not.
// Tests nest to a bounded depth.
pub(super) fn is_number(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Define(..) | Stmt::Local(_) | Stmt::Assign(..) => true,
        Stmt::If { body, .. } => body.iter().all(is_number),
        _ => false,
    }
}

/// Those of some statements that others need: what these read, and what that reads.
pub(super) fn needed(stmts: Vec<Stmt>, by: &[Stmt]) -> Vec<Stmt> {
    let mut read = BTreeSet::new();
    let note = |stmt: &Stmt, read: &mut BTreeSet<RealId>| {
        stmt.visit(&mut |stmt| {
            stmt.visit_reads(&mut |r| {
                read.insert(r);
            });
            read.extend(stmt.changes());
        });
    };
    by.iter().for_each(|stmt| note(stmt, &mut read));
    let mut kept: Vec<Stmt> = Vec::with_capacity(stmts.len());
    for stmt in stmts.into_iter().rev() {
        let keep = match &stmt {
            Stmt::Define(r, _) | Stmt::Local(r) => read.contains(r),
            stmt if is_number(stmt) => !changed([stmt]).is_disjoint(&read),
            _ => true,
        };
        if keep {
            note(&stmt, &mut read);
            kept.push(stmt);
        }
    }
    kept.reverse();
    kept
}

/// A loop over rows, whole or in parts.
struct Rows {
    /// The statement of the nest that is the loop, or the one over its parts.
    at: usize,
    /// Where in the loop over parts it is, and the index of that one.
    inside: Option<(usize, IndexId)>,
    index: IndexId,
    lanes: u32,
}

impl Rows {
    fn of(nest: &Nest, last_row: &Affine) -> Option<Rows> {
        let at = nest.body.len().checked_sub(1)?;
        let (rows, before) = nest.body.split_last()?;
        let plain = before.iter().all(|stmt| matches!(stmt, Stmt::Define(..) | Stmt::Fill(_)));
        let Stmt::For { index, domain, lanes, parallel: true, body, .. } = rows else { return None };
        if !plain {
            return None;
        }
        // Rows in lanes are numbers, one each.
        let is_one = |lanes: u32, body: &[Stmt]| lanes == 1 || body.iter().all(|stmt| stmt.body().is_empty());
        if last(domain) == Some(last_row) {
            return is_one(*lanes, body).then_some(Rows { at, inside: None, index: *index, lanes: *lanes });
        }
        if *lanes > 1 || last(domain)?.as_constant() != Some(i64::from(PARTS) - 1) {
            return None;
        }
        let mut loops = body.iter().enumerate().filter(|(_, stmt)| !stmt.body().is_empty());
        let (k, Stmt::For { index: row, domain, lanes, body, .. }) = loops.next()? else { return None };
        let Domain::Part { whole, part, parts: PARTS, .. } = domain else { return None };
        let own = part.as_index() == Some(*index) && last(whole) == Some(last_row);
        let found = own && loops.next().is_none() && is_one(*lanes, body);
        found.then_some(Rows { at, inside: Some((k, *index)), index: *row, lanes: *lanes })
    }

    /// How many of them are a block: numbers fill lanes.
    fn block(&self) -> i64 {
        i64::from(self.lanes).clamp(ROW_BLOCK, NUMBERS_BLOCK)
    }

    /// For each buffer that the rows store to, the axes that have the index of the row in all places.
    fn written(&self, nest: &Nest) -> BTreeMap<BufferId, BTreeSet<usize>> {
        let mut written: BTreeMap<BufferId, BTreeSet<usize>> = BTreeMap::new();
        for place in stores(self.stmt(nest)) {
            let own = axes(place, &|i| i == self.index);
            written.entry(place.buffer).and_modify(|known| known.retain(|k| own.contains(k))).or_insert(own);
        }
        written
    }

    /// The statement that is the loop over rows.
    fn stmt<'a>(&self, nest: &'a Nest) -> Option<&'a Stmt> {
        let stmt = nest.body.get(self.at)?;
        match self.inside {
            Some((k, _)) => stmt.body().get(k),
            None => Some(stmt),
        }
    }
}

/// The nest whose rows the sums of a nest follow.
fn partner(program: &Program, at: usize, columns: &Columns) -> Option<usize> {
    let read = loads(&columns.body);
    let writes = |nest: &Nest| read.iter().any(|place| nest.buffers.contains(&place.buffer));
    let found = (0..at).rev().find(|k| program.nests.get(*k).is_some_and(writes))?;
    let nest = program.nests.get(found)?;
    let rows = Rows::of(nest, &columns.last_row)?;
    // What comes before the columns moves up to the rows.
    let numbers = columns.numbers();
    let moved = loads(&numbers);
    if program.nests.get(found..at)?.iter().any(|nest| moved.iter().any(|place| nest.buffers.contains(&place.buffer))) {
        return None;
    }
    let written = rows.written(nest);
    let mut read = read.into_iter().filter(|place| nest.buffers.contains(&place.buffer));
    read.all(|place| is_in_row(place, &written, &columns.loops)).then_some(found)
}

/// The axes of a place that have one of some indices.
fn axes(place: &Place, own: &dyn Fn(IndexId) -> bool) -> BTreeSet<usize> {
    let is_own = |a: &Affine| a.as_index().is_some_and(own);
    place.at.iter().enumerate().filter(|(_, a)| is_own(a)).map(|(k, _)| k).collect()
}

/// Whether a place is in the row at hand of what rows have written.
fn is_in_row(place: &Place, written: &BTreeMap<BufferId, BTreeSet<usize>>, rows: &BTreeSet<IndexId>) -> bool {
    let own = axes(place, &|i| rows.contains(&i));
    written.get(&place.buffer).is_some_and(|axes| !axes.is_disjoint(&own))
}

/// The loop over the blocks of a part.
struct Blocks<'a> {
    part: IndexId,
    index: IndexId,
    body: &'a mut Vec<Stmt>,
    /// The indices of rows of a block.
    rows: BTreeSet<IndexId>,
}

impl<'a> Blocks<'a> {
    fn of(nest: &'a mut Nest) -> Option<Blocks<'a>> {
        let Some(Stmt::For { index: part, body, .. }) = nest.body.last_mut() else { return None };
        let is_walk = |stmt: &&mut Stmt| matches!(stmt, Stmt::For { domain: Domain::Part { .. }, .. });
        let Stmt::For { index, body, .. } = body.iter_mut().find(is_walk)? else { return None };
        let mut rows = BTreeSet::new();
        body.iter().for_each(|stmt| {
            stmt.visit(&mut |stmt| {
                if let Stmt::For { index: row, domain: Domain::Range { lower, .. }, .. } = stmt
                    && lower.iter().any(|bound| bound.numerator.mentions(*index))
                {
                    rows.insert(*row);
                }
            });
        });
        Some(Blocks { part: *part, index: *index, body, rows })
    }
}

/// The last nest before one with blocks of rows that writes what is read there, if each of these is a number for a row, made in a loop or in none,
/// and no nest between them uses it.
fn feeder(nests: &mut [Nest], at: usize, last_row: &Affine) -> Option<usize> {
    let rows = Blocks::of(nests.get_mut(at)?)?.rows;
    let read = loads(&nests.get(at)?.body);
    let found = (0..at).rev().find(|k| read.iter().any(|place| nests[*k].buffers.contains(&place.buffer)))?;
    let nest = &nests[found];
    let fed = Rows::of(nest, last_row).filter(|rows| rows.inside.is_none())?;
    let is_number = |place: &Place| place.at.len() == 1;
    let innermost = |stmt: &Stmt| stmt.body().iter().all(|stmt| stmt.body().is_empty());
    let simple = fed.stmt(nest)?.body().iter().all(innermost) && stores(&nest.body).into_iter().all(is_number);
    let written = fed.written(nest);
    let mut own = read.into_iter().filter(|place| nest.buffers.contains(&place.buffer));
    let between = nests[found + 1..at].iter().flat_map(used).any(|buffer| nest.buffers.contains(&buffer));
    (simple && !between && own.all(|place| is_in_row(place, &written, &rows))).then_some(found)
}

/// Has the blocks of a nest begin with the rows of another one, which they read.
fn feed(nest: &mut Nest, by: Nest, block: i64, last_row: &Affine) -> Result<()> {
    let mut before = Fresh::after(&nest.body).body(&by.body)?;
    let Some(rows) = before.pop() else { return Ok(()) };
    if let Some(blocks) = Blocks::of(nest) {
        let domain = block_domain(blocks.index, last_row, block)?;
        blocks.body.insert(0, in_block(rows, domain, block));
    }
    nest.body.splice(0..0, before);
    nest.buffers.extend(by.buffers);
    nest.decisions.extend(by.decisions);
    Ok(())
}

/// A loop over rows as one over those of a block.
fn in_block(stmt: Stmt, domain: Domain, block: i64) -> Stmt {
    match stmt {
        Stmt::For { index, lanes, jam, body, .. } => {
            let lanes = u32::try_from(block).map_or(lanes, |block| lanes.min(block));
            Stmt::For { index, domain, lanes, jam, parallel: false, body }
        }
        other => other,
    }
}

/// Puts the sums of blocks into the nest of the rows, or a nest of their own; where the nest is then that adds them up.
fn cut(program: &mut Program, uses: &mut Uses, at: usize, partner: Option<usize>) -> Result<usize> {
    let Program { nests, buffers, .. } = program;
    let Some(columns) = nests.get(at).and_then(Columns::of) else { return Ok(at) };
    let last_row = columns.last_row.clone();
    let rows = partner.and_then(|k| Some((k, Rows::of(nests.get(k)?, &last_row)?)));
    let block = rows.as_ref().map_or(ROW_BLOCK, |(_, rows)| rows.block());
    let sums = workspaces(&columns, &nests[at], buffers)?;
    let added = combined(&columns, &sums, &nests[at], block)?;
    let decision = Decision::RowBlocks { rows: block };
    let Some((mut k, rows)) = rows else {
        let mut names = Fresh::after(&nests[at].body);
        let part = names.fresh_index();
        let inserted = columns.in_part(part, &sums, &mut names, block)?;
        let walk = walk(&inserted, part, &last_row, Vec::new())?;
        let parts = parts(part, &last_row, block, [inserted.zeros, vec![walk]].concat())?;
        let body = [columns.before, vec![parts]].concat();
        let before = Nest { buffers: sums, decisions: vec![decision], body };
        uses.forget(&nests[at]);
        [&added, &before].into_iter().for_each(|nest| uses.note(nest));
        nests[at] = added;
        nests.insert(at, before);
        return Ok(at + 1);
    };
    let mut names = Fresh::after(&nests[k].body);
    let renamed = Nest { body: names.body(&nests[at].body)?, ..nests[at].clone() };
    let Some(columns) = Columns::of(&renamed) else { return Ok(at) };
    let part = rows.inside.map_or_else(|| names.fresh_index(), |(_, part)| part);
    let inserted = columns.in_part(part, &sums, &mut names, block)?;
    [k, at].into_iter().for_each(|k| uses.forget(&nests[k]));
    let nest = &mut nests[k];
    in_blocks(nest, &rows, part, inserted, &last_row)?;
    nest.body.splice(rows.at..rows.at, columns.before);
    nest.buffers.extend(sums);
    nest.decisions.push(decision);
    nests[at] = added;
    let mut at = at;
    while let Some(found) = feeder(nests.get_mut(..=k).unwrap_or_default(), k, &last_row) {
        let by = nests.remove(found);
        uses.forget(&by);
        (k, at) = (k - 1, at - 1);
        feed(&mut nests[k], by, block, &last_row)?;
    }
    [k, at].into_iter().for_each(|k| uses.note(&nests[k]));
    let own = uses.own(&nests[k]);
    shrink(&mut nests[k], &own, block, buffers)?;
    Ok(at)
}

/// A place for each part and column, for each of the sums.
fn workspaces(columns: &Columns, nest: &Nest, buffers: &mut Arena<BufferId, Buffer>) -> Result<Vec<BufferId>> {
    let title = crate::loops::title(buffers, nest);
    let mut dims = vec![Affine::constant(i64::from(PARTS))];
    for domain in columns.outer.iter().map(|outer| &outer.domain).chain([&columns.domain]) {
        dims.push(last(domain).map_or(Ok(Affine::constant(0)), |last| last.add_constant(1))?);
    }
    let name = |k: usize| match columns.sums.len() {
        1 => format!("{title}_sums"),
        _ => format!("{title}_sums_{k}"),
    };
    Ok((0..columns.sums.len()).map(|k| buffers.push(Buffer::workspace(name(k), None, dims.clone()))).collect())
}

/// `for j { .. for p { r += sums[p, j] } .. }`
fn combined(columns: &Columns, sums: &[BufferId], nest: &Nest, block: i64) -> Result<Nest> {
    let (_, rest) = columns.halves();
    let mut names = Fresh::after(&nest.body);
    let part = names.fresh_index();
    let mut adds = Vec::new();
    for (r, buffer) in columns.sums.iter().zip(sums) {
        let x = names.fresh_real();
        adds.push(Stmt::Define(x, Real::Load(columns.place(*buffer, part))));
        adds.push(Stmt::Accumulate(*r, x));
    }
    let adds = Stmt::one_by_one(part, parts_domain(&columns.last_row, block)?, adds);
    // The sums are read after all of them are declared.
    let (locals, others): (Vec<Stmt>, Vec<Stmt>) = rest.into_iter().partition(|stmt| matches!(stmt, Stmt::Local(_)));
    let all = columns.over(true, [locals, vec![adds], others].concat());
    let before = needed(columns.before.clone(), std::slice::from_ref(&all));
    let body = [before, vec![all]].concat();
    Ok(Nest { buffers: nest.buffers.clone(), decisions: nest.decisions.clone(), body })
}

/// The parts that there may be: no more than blocks.
fn parts_domain(last_row: &Affine, block: i64) -> Result<Domain> {
    let blocks = Bound { numerator: last_row.clone(), divisor: block };
    Ok(Domain::Range {
        lower: vec![Bound::exact(Affine::constant(0))],
        upper: vec![Bound::exact(Affine::constant(i64::from(PARTS) - 1)), blocks],
    })
}

fn parts(index: IndexId, last_row: &Affine, block: i64, body: Vec<Stmt>) -> Result<Stmt> {
    Ok(Stmt::For { index, domain: parts_domain(last_row, block)?, lanes: 1, jam: 1, parallel: true, body })
}

/// The rows of a block of so many.
fn block_domain(block: IndexId, last_row: &Affine, rows: i64) -> Result<Domain> {
    let first = Affine::index(block).scale(rows)?;
    Ok(Domain::Range {
        lower: vec![Bound::exact(first.clone())],
        upper: vec![Bound::exact(last_row.clone()), Bound::exact(first.add_constant(rows - 1)?)],
    })
}

/// `for q in part p of 64 of the blocks`
fn walk(inserted: &Inserted, part: IndexId, last_row: &Affine, rows: Vec<Stmt>) -> Result<Stmt> {
    let whole = Domain::Range {
        lower: vec![Bound::exact(Affine::constant(0))],
        upper: vec![Bound { numerator: last_row.clone(), divisor: inserted.rows }],
    };
    let domain = Domain::Part { whole: Box::new(whole), part: part.into(), parts: PARTS, grain: 1 };
    Ok(Stmt::one_by_one(inserted.block, domain, [rows, inserted.sums.clone()].concat()))
}

/// What goes into a loop over parts.
struct Inserted {
    block: IndexId,
    /// How many rows are a block.
    rows: i64,
    zeros: Vec<Stmt>,
    sums: Vec<Stmt>,
}

impl Columns {
    /// The sums of blocks, to be put into a loop over parts.
    fn in_part(&self, part: IndexId, sums: &[BufferId], names: &mut Fresh, rows: i64) -> Result<Inserted> {
        let block = names.fresh_index();
        // Gets another name.
        let zero = self.sums.first().copied().unwrap_or(RealId(0));
        let mut zeros = vec![Stmt::Define(zero, Real::Literal(0.0))];
        zeros.extend(sums.iter().map(|buffer| Stmt::Store(self.place(*buffer, part), zero)));
        names.again();
        let zeros = names.body(&[self.over(false, zeros)])?;
        let (mut body, _) = self.halves();
        for stmt in &mut body {
            if let Stmt::For { domain, .. } = stmt {
                *domain = block_domain(block, &self.last_row, rows)?;
            }
        }
        for (r, buffer) in self.sums.iter().zip(sums) {
            let place = self.place(*buffer, part);
            let [so_far, with] = [(); 2].map(|()| names.fresh_real());
            body.push(Stmt::Define(so_far, Real::Load(place.clone())));
            body.push(Stmt::Define(with, Real::Add(so_far, *r)));
            body.push(Stmt::Store(place, with));
        }
        Ok(Inserted { block, rows, zeros, sums: vec![self.over(false, body)] })
    }
}

/// Has a loop over rows take a block at a time.
fn in_blocks(nest: &mut Nest, rows: &Rows, part: IndexId, inserted: Inserted, last_row: &Affine) -> Result<()> {
    let domain = block_domain(inserted.block, last_row, inserted.rows)?;
    let Some(stmt) = nest.body.pop() else { return Ok(()) };
    let body = match (rows.inside, stmt) {
        (Some((k, _)), Stmt::For { mut body, .. }) => {
            let after = body.split_off(k + 1);
            let inner = body.pop().map(|stmt| in_block(stmt, domain, inserted.rows));
            let walk = walk(&inserted, part, last_row, inner.into_iter().collect())?;
            // All of the parts store what they sum up; those without a block have no columns that anybody reads.
            let has_rows = last_row.sub(&Affine::index(part).scale(inserted.rows)?)?;
            let zeros = Stmt::If { cond: Cond::NonNegative(has_rows), body: inserted.zeros };
            let body = [body, vec![zeros, walk], after].concat();
            let domain = Domain::whole(&Affine::constant(i64::from(PARTS)))?;
            Stmt::For { index: part, domain, lanes: 1, jam: 1, parallel: true, body }
        }
        (_, stmt) => {
            let walk = walk(&inserted, part, last_row, vec![in_block(stmt, domain, inserted.rows)])?;
            parts(part, last_row, inserted.rows, [inserted.zeros, vec![walk]].concat())?
        }
    };
    nest.body.push(body);
    Ok(())
}

/// Workspaces of which only a block is read, by the nest that writes them, have room for one block in each part; of those given, which no other nest
/// uses.
fn shrink(nest: &mut Nest, own: &[BufferId], block: i64, buffers: &mut Arena<BufferId, Buffer>) -> Result<()> {
    let Some(Blocks { part, index, body, rows }) = Blocks::of(nest) else { return Ok(()) };
    for &id in own {
        let buffer = &mut buffers[id];
        if buffer.kind != BufferKind::Workspace || buffer.entries.is_some() {
            continue;
        }
        let mut axes: BTreeSet<usize> = (0..buffer.dims.len()).collect();
        let is_row = |a: &Affine| a.as_index().is_some_and(|i| rows.contains(&i));
        let places: Vec<&Place> = loads(body.iter()).into_iter().chain(stores(body.iter())).collect();
        let mut places = places.into_iter().filter(|place| place.buffer == id).peekable();
        if places.peek().is_none() {
            continue;
        }
        for place in places {
            axes.retain(|k| place.at.get(*k).is_some_and(is_row));
        }
        let Some(axis) = axes.first().copied() else { continue };
        buffer.dims[axis] = Affine::constant(block);
        buffer.dims.insert(0, Affine::constant(i64::from(PARTS)));
        let first = Affine::index(index).scale(block)?;
        body.iter_mut().try_for_each(|stmt| move_rows(stmt, id, axis, part, &first))?;
    }
    Ok(())
}

fn move_rows(stmt: &mut Stmt, buffer: BufferId, axis: usize, part: IndexId, first: &Affine) -> Result<()> {
    match stmt {
        Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
            body.iter_mut().try_for_each(|stmt| move_rows(stmt, buffer, axis, part, first))
        }
        Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. }
            if place.buffer == buffer =>
        {
            if let Some(at) = place.at.get_mut(axis) {
                *at = at.sub(first)?;
            }
            place.at.insert(0, part.into());
            Ok(())
        }
        _ => Ok(()),
    }
}

//! Sums over all of several rows become sums of those of each row, which follow the nest that has written the rows.
//!
//! ```text
//! for i { for j { .. t[i, j, ..] = e } }          for i { for j { .. t[i, j, ..] = e } }
//! for j                                           for i { for j
//!   local r                                         local s
//!   for i                                           for k { s += g(t[i, j, k]) }
//!     for k { r += g(t[i, j, k]) }          ==      x_rows[i, j] = s } }
//!   x[j] = h(r)                                   for j
//!                                                   local r
//!                                                   for i { r += x_rows[i, j] }
//!                                                   x[j] = h(r)
//! ```
//!
//! The gradient by what all samples share, as by the scale of a norm or a bias, reads again whatever all samples have written. The sum of a row
//! can be made while the row is at hand: loops over the same rows [join](super::fuse), the inner ones [too](super::merge), and where nobody
//! else reads the rows, they need not outlive it ([`privatise`](super::privatise)).
//!
//! **Why it is right.** Every summand is added once; which ones are added first depends on nothing but sizes.
//!
//! **Where it is done.** The loop over `j` is the only one at the top, around one sum over `i` and nothing else that loops, and the sum has loops inside;
//! there may be several loops over columns, each of them alone in the one around it. What is loaded inside of the sum at places with `i` has `j` as well:
//! each row is read for one `j`, so there is no product here that would read it again for another one. Where `j` has a few values, as a literal, a row is
//! read again while it is at hand. Some of it was written by an earlier nest whose outermost loop is over `i`.

use std::collections::{BTreeMap, BTreeSet};

use super::fuse;
use super::row_blocks::{is_number, needed};
use super::unroll_outer::few;
use crate::base::{Arena, IndexId};
use crate::error::{Error, Result};
use crate::index::Affine;
use crate::loops::{
    Buffer, BufferId, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, has_calls, has_loop, loads,
    outer_sums, stores, title,
};

/// Makes sums of rows of their own.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let mut writers: BTreeMap<BufferId, usize> = BTreeMap::new();
    let mut at = 0;
    while at < program.nests.len() {
        if let Some(sum) = Sum::of(&program.nests[at]).filter(|sum| sum.follows(program, &writers)) {
            let [rows, rest] = sum.halves(&program.nests[at], &mut program.buffers)?;
            program.nests[at] = rest;
            program.nests.insert(at, rows);
            writers.extend(program.nests[at].buffers.iter().map(|b| (*b, at)));
            at += 1;
        }
        writers.extend(program.nests[at].buffers.iter().map(|b| (*b, at)));
        at += 1;
    }
    Ok(())
}

/// Loops around each other, the outermost first.
type Loops = Vec<(IndexId, Domain)>;

/// Loops over columns around a sum over `i`.
#[derive(Clone)]
struct Sum {
    /// What is computed before all loops.
    before: Vec<Stmt>,
    columns: Loops,
    /// What is computed for each column before the sum, and behind it.
    first: Vec<Stmt>,
    last: Vec<Stmt>,
    i: IndexId,
    rows: Domain,
    row: Vec<Stmt>,
    r: RealId,
}

impl Sum {
    fn of(nest: &Nest) -> Option<Sum> {
        let (top, before) = nest.body.split_last()?;
        let (columns, body) = columns(top)?;
        let at = body.iter().position(has_loop)?;
        let (first, rest) = body.split_at(at);
        let (Stmt::For { index: i, domain: rows @ Domain::Range { .. }, body: row, .. }, last) = rest.split_first()?
        else {
            return None;
        };
        let plain = before.iter().chain(first).all(is_number)
            && last.iter().all(|stmt| is_number(stmt) || matches!(stmt, Stmt::Store(..)));
        let mut free = true;
        rows.visit_affine(&mut |a| free &= a.is_size());
        columns.iter().for_each(|(_, domain)| domain.visit_affine(&mut |a| free &= a.is_size()));
        if !plain || !free || !row.iter().any(has_loop) || !stores(row).is_empty() || has_calls(row) {
            return None;
        }
        let sums = outer_sums(row);
        let r = sums.first().copied().filter(|r| sums.len() == 1 && first.contains(&Stmt::Local(*r)))?;
        let mut only = true;
        row.iter().for_each(|stmt| stmt.visit(&mut |stmt| only &= is_plain(stmt, r)));
        let mentions = |place: &Place, index: IndexId| place.at.iter().any(|a| a.mentions(index));
        let own = |place: &Place| columns.iter().all(|(j, _)| mentions(place, *j));
        let read_again = |place: &&Place| {
            mentions(place, *i) && columns.iter().any(|(j, domain)| few(domain).is_none() && !mentions(place, *j))
        };
        let only = only && !loads(row).iter().any(read_again) && stores(body).iter().all(|place| own(place));
        only.then(|| Sum {
            before: before.to_vec(),
            columns: columns.clone(),
            first: first.to_vec(),
            last: last.to_vec(),
            i: *i,
            rows: rows.clone(),
            row: row.clone(),
            r,
        })
    }

    /// Whether rows are read that an earlier nest has written, one after the other.
    fn follows(&self, program: &Program, writers: &BTreeMap<BufferId, usize>) -> bool {
        loads(&self.row).into_iter().any(|place| {
            let before = writers.get(&place.buffer).and_then(|at| program.nests.get(*at));
            let outer = before.and_then(fuse::parts).filter(|outer| *outer.domain == self.rows);
            let (Some(before), Some(outer)) = (before, outer) else { return false };
            let is_row = |at: &Place| {
                let axis = at.at.iter().position(|a| a.as_index() == Some(outer.index));
                axis.is_some_and(|axis| place.at.get(axis).is_some_and(|a| a.as_index() == Some(self.i)))
            };
            stores(&before.body).into_iter().any(|at| at.buffer == place.buffer && is_row(at))
        })
    }

    /// The nest of the sums of rows, and the one that adds them up.
    fn halves(&self, nest: &Nest, buffers: &mut Arena<BufferId, Buffer>) -> Result<[Nest; 2]> {
        let extent = |domain: &Domain| -> Result<Affine> {
            let Domain::Range { upper, .. } = domain else { return Ok(Affine::constant(0)) };
            Ok(upper.first().map_or(Ok(Affine::constant(0)), |bound| bound.numerator.add_constant(1))?)
        };
        let name = format!("{}_rows", title(buffers, nest));
        let columns = self.columns.iter().map(|(_, domain)| domain);
        let dims = std::iter::once(&self.rows).chain(columns).map(extent).collect::<Result<Vec<Affine>>>()?;
        let buffer = buffers.push(Buffer::workspace(name, None, dims));
        let mut names = Fresh::after(&nest.body);
        let indices = std::iter::once(self.i).chain(self.columns.iter().map(|(j, _)| *j));
        let place = Place { buffer, at: indices.map(Affine::from).collect() };
        let in_columns = |body: Vec<Stmt>| {
            let around = |body, (j, domain): &(IndexId, Domain)| vec![Stmt::one_by_one(*j, domain.clone(), body)];
            self.columns.iter().rev().fold(body, around)
        };

        let first = needed(self.first.clone(), &self.row);
        let mut body = names.body(&[first.as_slice(), &self.row].concat())?;
        // The sum is declared where it was.
        let at = first.iter().position(|stmt| *stmt == Stmt::Local(self.r));
        let Some(Stmt::Local(r)) = at.and_then(|at| body.get(at)) else {
            return Err(Error::bug("row-sums", "a sum is declared before its loop"));
        };
        let r = *r;
        body.push(Stmt::Store(place.clone(), r));
        let rows = Stmt::one_by_one(self.i, self.rows.clone(), in_columns(body));
        let decisions = vec![Decision::RowSums {}];
        let mut body = needed(self.before.clone(), std::slice::from_ref(&rows));
        body.push(rows);
        let rows = Nest { buffers: vec![buffer], decisions, body };

        let x = names.fresh_real();
        let adds = vec![Stmt::Define(x, Real::Load(place)), Stmt::Accumulate(self.r, x)];
        let sum = Stmt::one_by_one(self.i, self.rows.clone(), adds);
        let body = [self.first.as_slice(), &[sum], &self.last].concat();
        let mut rest = nest.clone();
        rest.body = [self.before.clone(), in_columns(body)].concat();
        Ok([rows, rest])
    }
}

/// Loops over ranges, each alone in the one around it, and what is in the last of them that has more in it or a sum: its body.
fn columns(top: &Stmt) -> Option<(Loops, &[Stmt])> {
    let mut found = Vec::new();
    let mut at = top;
    loop {
        let Stmt::For { index, domain: domain @ Domain::Range { .. }, body, .. } = at else { return None };
        found.push((*index, domain.clone()));
        match body.as_slice() {
            [only @ Stmt::For { .. }] => at = only,
            _ => return Some((found, body)),
        }
    }
}

/// Whether a statement inside of a row computes numbers, and reads nothing of the sum over rows.
fn is_plain(stmt: &Stmt, r: RealId) -> bool {
    let mut reads: BTreeSet<RealId> = BTreeSet::new();
    stmt.visit_reads(&mut |read| {
        reads.insert(read);
    });
    let is_loop = matches!(stmt, Stmt::For { domain: Domain::Range { .. }, .. });
    let number = matches!(stmt, Stmt::Define(..) | Stmt::Local(_) | Stmt::Accumulate(..) | Stmt::MulAdd(..));
    (is_loop || number)
        && (!reads.contains(&r) || matches!(stmt, Stmt::Accumulate(s, _) | Stmt::MulAdd(s, ..) if *s == r))
}

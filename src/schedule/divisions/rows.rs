//! Divisors that are a row, the same one at each iteration of a loop around.
//!
//! ```text
//!                                for j
//!                                  s[j] = 1, 2^200 for |d(j)| < 2^-1000, 2^-200 for 2^1000 < |d(j)|
//!                                  q[j] = 1 / (d(j) * s[j])
//! for i                          for i
//!   for j                          for j
//!     x[i, j] = a(i, j) / d(j)  ==   x[i, j] = a(i, j) * s[j] * q[j]
//! ```
//!
//! So are the widths of a Gaussian mixture or the scales of features: each number of a table is divided by that of its column.
//!
//! **Why it is right.** As for divisors that do not change at all: scales and reciprocals are those, kept in two workspaces. What a divisor is made of are
//! elements that are there whether or not the loop runs, and that it does not store to.
//!
//! **Where it is done.** In the innermost loops over whole rows, before the outermost loop of many values around that changes nothing of which a divisor
//! is made. Loops between them test nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::super::prefix_sums::whole;
use super::super::vectorise::is_short;
use super::{Around, Pass, define, division, is_there, own, scaled};
use crate::base::{Arena, IndexId};
use crate::index::{Affine, Checked, Var};
use crate::loops::{Buffer, BufferId, Domain, Nest, Place, Real, RealId, Stmt, has_loop, stored};

/// Has the innermost loops of a nest multiply by reciprocals of rows.
pub(super) fn run(pass: &mut Pass, nest: &mut Nest, buffers: &mut Arena<BufferId, Buffer>) -> Checked<()> {
    let mut body = std::mem::take(&mut nest.body);
    let mut rows = Rows { pass, buffers, new: Vec::new() };
    let done = rows.block(&mut body, &mut Around::new());
    nest.buffers.append(&mut rows.new);
    nest.body = body;
    done
}

struct Rows<'a> {
    pass: &'a mut Pass,
    buffers: &'a mut Arena<BufferId, Buffer>,
    new: Vec<BufferId>,
}

/// What a loop around changes.
struct Outer {
    registers: BTreeSet<RealId>,
    buffers: BTreeSet<BufferId>,
}

impl Rows<'_> {
    // Loops and tests nest to a bounded depth.
    fn block(&mut self, body: &mut Vec<Stmt>, around: &mut Around) -> Checked<()> {
        let mut at = 0;
        while at < body.len() {
            let mut ahead = Vec::new();
            match &mut body[at] {
                Stmt::For { index, domain, body, .. } => {
                    if matches!(domain, Domain::Range { .. }) && !is_short(domain) && body.iter().any(has_loop) {
                        let (registers, buffers) = (own(body), stored(body.as_slice()).into_iter().collect());
                        self.inside(body, &Outer { registers, buffers }, around, &mut ahead)?;
                    }
                    around.push((*index, whole(domain)));
                    self.block(body, around)?;
                    around.pop();
                }
                Stmt::If { body, .. } => self.block(body, around)?,
                _ => {}
            }
            let next = at + ahead.len() + 1;
            body.splice(at..at, ahead);
            at = next;
        }
        Ok(())
    }

    /// Rewrites the innermost loops in a loop.
    fn inside(&mut self, body: &mut [Stmt], outer: &Outer, around: &Around, ahead: &mut Vec<Stmt>) -> Checked<()> {
        for stmt in body {
            let Stmt::For { index, domain, body, .. } = stmt else { continue };
            match whole(domain) {
                _ if body.iter().any(has_loop) => self.inside(body, outer, around, ahead)?,
                Some(length) if matches!(domain, Domain::Range { .. }) => {
                    let row = Row { index: *index, length, outer, around };
                    self.multiply(&row, domain, body, ahead)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Has a loop along a row multiply by reciprocals, which statements ahead find.
    fn multiply(&mut self, row: &Row<'_>, domain: &Domain, body: &mut Vec<Stmt>, ahead: &mut Vec<Stmt>) -> Checked<()> {
        let free = row.free(body, self.buffers);
        let mut known: BTreeMap<RealId, [Place; 2]> = BTreeMap::new();
        let mut out = Vec::with_capacity(body.len());
        for stmt in std::mem::take(body) {
            let quotient = match &stmt {
                Stmt::Define(r, real) => division(real).map(|(a, d)| (*r, a, d)),
                _ => None,
            };
            let Some((r, a, d)) =
                quotient.filter(|(_, a, d)| free.contains(d) && row.outer.registers.contains(a) && !free.contains(a))
            else {
                out.push(stmt);
                continue;
            };
            let places = match known.get(&d) {
                Some(places) => places.clone(),
                None => {
                    let places = self.find(row, domain, &slice(&out, d), d, ahead)?;
                    known.insert(d, places.clone());
                    places
                }
            };
            let [scale, reciprocal] = places.map(|place| define(Real::Load(place), &mut self.pass.names, &mut out));
            let scaled = define(Real::Mul(a, scale), &mut self.pass.names, &mut out);
            out.push(Stmt::Define(r, Real::Mul(scaled, reciprocal)));
            self.pass.found += 1;
        }
        drop_unread(&mut out, &free);
        *body = out;
        Ok(())
    }

    /// Adds a loop that stores the scales of divisors and their reciprocals; gives where they are for the loop along the row.
    fn find(
        &mut self,
        row: &Row<'_>,
        domain: &Domain,
        slice: &[Stmt],
        d: RealId,
        ahead: &mut Vec<Stmt>,
    ) -> Checked<[Place; 2]> {
        let mentions = |i: IndexId| {
            slice.iter().any(|stmt| {
                let mut found = false;
                stmt.visit_affine(&mut |a| found |= a.mentions(i));
                found
            })
        };
        let outside = row.around.iter().filter(|(i, _)| mentions(*i));
        let (mut indices, mut dims): (Vec<IndexId>, Vec<Affine>) =
            outside.filter_map(|(i, length)| Some((*i, length.clone()?))).unzip();
        indices.push(row.index);
        dims.push(row.length.clone());
        let names = &mut self.pass.names;
        names.again();
        let index = names.index(row.index);
        let mut body = names.body(slice)?;
        let d = names.read(d);
        let (scale, q) = scaled(d, &mut self.pass.names, &mut body);
        let places = ["scale", "reciprocal"].map(|name| {
            let buffer = self.buffers.push(Buffer::workspace(name.to_owned(), None, dims.clone()));
            self.new.push(buffer);
            Place { buffer, at: indices.iter().map(|i| Affine::index(*i)).collect() }
        });
        for (place, r) in places.iter().zip([scale, q]) {
            let at = indices.iter().map(|i| Affine::index(if *i == row.index { index } else { *i })).collect();
            body.push(Stmt::Store(Place { buffer: place.buffer, at }, r));
        }
        ahead.push(Stmt::one_by_one(index, domain.clone(), body));
        Ok(places)
    }
}

/// A loop along a row, in one that may not change what is divided by.
struct Row<'a> {
    index: IndexId,
    length: Affine,
    outer: &'a Outer,
    around: &'a Around,
}

impl Row<'_> {
    /// The registers of the body that are the same at each iteration of the outer loop, whether or not it runs.
    fn free(&self, body: &[Stmt], buffers: &Arena<BufferId, Buffer>) -> BTreeSet<RealId> {
        let mut around = self.around.clone();
        around.push((self.index, Some(self.length.clone())));
        let mut free = BTreeSet::new();
        for stmt in body {
            let Stmt::Define(r, real) = stmt else { continue };
            let is_free = match real {
                Real::Load(place) => {
                    let dims = buffers.get(place.buffer).filter(|b| b.entries.is_none()).map(|b| b.dims.as_slice());
                    let changes = self.outer.buffers.contains(&place.buffer);
                    !changes && dims.is_some_and(|dims| is_there(dims, place, &around))
                }
                Real::Index(a) => {
                    let is_whole = |i: &IndexId| around.iter().any(|(j, over)| j == i && over.is_some());
                    a.terms().iter().all(|(v, _)| match v {
                        Var::Index(i) => is_whole(i),
                        Var::Size(_) => true,
                        Var::Apply(_) => false,
                    })
                }
                _ => {
                    let mut all = true;
                    real.visit_reads(&mut |read| all &= free.contains(&read) || !self.outer.registers.contains(&read));
                    all
                }
            };
            if is_free {
                free.insert(*r);
            }
        }
        free
    }
}

/// Drops those of some numbers that nothing behind them reads any more.
fn drop_unread(body: &mut Vec<Stmt>, numbers: &BTreeSet<RealId>) {
    let mut read = BTreeSet::new();
    let mut kept = Vec::with_capacity(body.len());
    for stmt in std::mem::take(body).into_iter().rev() {
        if !matches!(&stmt, Stmt::Define(r, _) if numbers.contains(r) && !read.contains(r)) {
            stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| read.extend([r])));
            kept.push(stmt);
        }
    }
    kept.reverse();
    *body = kept;
}

/// The statements that make a number, in their order.
fn slice(body: &[Stmt], d: RealId) -> Vec<Stmt> {
    let mut wanted = BTreeSet::from([d]);
    let mut found = Vec::new();
    for stmt in body.iter().rev() {
        if let Stmt::Define(r, real) = stmt
            && wanted.contains(r)
        {
            real.visit_reads(&mut |read| wanted.extend([read]));
            found.push(stmt.clone());
        }
    }
    found.reverse();
    found
}

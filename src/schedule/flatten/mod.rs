//! Functions of the entries of short rows, computed for all entries one after the other.
//!
//! ```text
//!                                            parallel for i in rows
//!                                              v = F(i)
//!                                              for p in row i, lanes 8: at[p] = v
//! parallel for i in rows                     parallel for i in rows
//!   v = F(i)                                   for p in row i, lanes 8
//!   local r                            ==        j = column[p]
//!   for p in row i, lanes 8                      of[p] = sin(x[j] + at[p])
//!     j = column[p]                          parallel for i in rows
//!     r += A[p] * sin(x[j] + v)                local r
//!   y[i] = r                                   for p in row i, lanes 8
//!                                                r += A[p] * of[p]
//!                                              y[i] = r
//! ```
//!
//! The second of these nests does nothing with a row but go through it, so its loops are written as one, over all entries: all vectors but the last
//! one are full, where rows of three or six entries leave half of each empty. This is the *flattening* of nested data parallelism (Blelloch and Sabot,
//! Compiling collection-oriented languages onto massively parallel computers, 1990), of functions alone: what is added up stays in rows, in the
//! same lanes, so **no bit changes**.
//!
//! **What is flat** ([`cut`]): of the statements of an entry those that calls of functions depend on, and what follows from them alone. What these take
//! of the row is kept for each entry. Functions of several loops over the same row are computed together, each once. What loops over the same
//! entries make of a row, as the largest of them, is made twice. What the row stores before, and the functions read, is a nest of its own.
//!
//! **When.** Rows have up to [`SHORT_ROW`] entries in the mean, which is known when a program is bound. What is kept for the entries is some numbers
//! beside those that a matrix has: at most [`MOST_KEPT`].

mod cut;
mod slice;

use std::collections::{BTreeMap, BTreeSet};

use super::Sizes;
use super::bins::shared;
use super::hold;
use super::machine::{MOST_KEPT, SHORT_ROW, VECTOR};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Var};
use crate::loops::{
    Buffer, BufferId, Decision, Domain, Fresh, Nest, Part, Place, Program, Real, RealId, Segment, Stmt, changed,
    declared, defined, has_calls, loads, mentioned, reads, stored, title,
};
use cut::{Around, Cut, Of};
use slice::{Slice, without_unread};

/// Computes functions of the entries of short rows in nests of their own.
pub(super) fn run(mut program: Program, sizes: Option<&Sizes<'_>>) -> Result<Program> {
    let Some(sizes) = sizes else { return Ok(program) };
    let mut nests: Vec<Nest> = Vec::with_capacity(program.nests.len());
    for mut nest in std::mem::take(&mut program.nests) {
        while let Some((rows, found)) = find(&program, &nest, sizes) {
            let path = rows.path;
            let (before, body, why) = match found {
                Found::Functions(cuts) => rows.flatten(&cuts, &mut program)?,
                Found::Behind { at, again } => rows.split(at, again),
            };
            nest.buffers.retain(|buffer| !before.iter().any(|nest| nest.buffers.contains(buffer)));
            nests.extend(before);
            replace(&mut nest.body, path, body);
            without_unread(&mut nest.body);
            nest.decisions.push(why);
        }
        match nests.last_mut() {
            // Its last entries have taken all that it stored.
            Some(last) if nest.buffers.is_empty() => last.decisions.splice(..0, nest.decisions).for_each(drop),
            _ => nests.push(nest),
        }
    }
    program.nests = nests;
    hold::compact(&mut program);
    Ok(program)
}

/// What can be done about a loop over the entries of a row.
enum Found {
    /// It and others have functions, each with a cut.
    Functions(Vec<(usize, Cut)>),
    /// It will have, when what the statements before it store is known. Some of these are needed again behind them.
    Behind { at: usize, again: Vec<Stmt> },
}

/// The first loop of a nest over entries of short rows whose functions can be computed before.
fn find<'a>(program: &Program, nest: &'a Nest, sizes: &Sizes<'_>) -> Option<(Rows<'a>, Found)> {
    for (at, stmt) in nest.body.iter().enumerate() {
        let inside = matches!(stmt, Stmt::For { parallel: true, .. }).then(|| stmt.body()).unwrap_or_default();
        let loops = inside.iter().enumerate().map(|(k, stmt)| ((at, Some(k)), stmt));
        for (path, stmt) in std::iter::once(((at, None), stmt)).chain(loops) {
            let Stmt::For { index: row, domain, lanes: 1, parallel, body, .. } = stmt else { continue };
            let (rows, mut is_whole) = (domain.whole_of(), true);
            rows.visit_affine(&mut |a| is_whole &= !a.terms().iter().any(|(v, _)| matches!(v, Var::Index(_))));
            for (k, stmt) in body.iter().enumerate() {
                let Some(segment) = short(program, *row, stmt, sizes).filter(|_| is_whole) else { continue };
                let shared = shared(nest, nest.body.get(..at)?);
                let rows = Rows { nest, path, row: *row, rows, is_parallel: *parallel, body, shared, segment };
                if let Some(found) = rows.found(k) {
                    return Some((rows, found));
                }
            }
        }
    }
    None
}

/// Gives a loop another body.
fn replace(nest: &mut [Stmt], (at, inside): (usize, Option<usize>), rows: Vec<Stmt>) {
    let Some(Stmt::For { body, .. }) = nest.get_mut(at) else { return };
    match inside {
        None => *body = rows,
        Some(at) => replace(body, (at, None), rows),
    }
}

/// The entries that a loop in a row goes over, in their order, if it has functions and rows are short.
fn short<'a>(program: &Program, row: IndexId, stmt: &'a Stmt, sizes: &Sizes<'_>) -> Option<&'a Segment> {
    let Stmt::For { domain: Domain::Segment(segment), body, .. } = stmt else { return None };
    let array = program.arrays.get(segment.pointers).filter(|_| segment.at.as_index() == Some(row))?;
    let of_entries = matches!(array.part, Part::Rows | Part::Children(0)) && array.axes.len() == 2;
    if !of_entries || !array.is_stored_order(&program.signature) || !has_calls(body) {
        return None;
    }
    let rows = program.signature.relations.get(array.relation)?.shape.get(*array.axes.first()?)?;
    let most = (sizes.length)(rows)?.saturating_mul(SHORT_ROW);
    (sizes.tuples)(array.relation).filter(|entries| (1..=most).contains(entries)).map(|_| segment)
}

/// Adds statements under their new names. What is there already gives its own name to it.
fn add(out: &mut Vec<Stmt>, stmts: &[Stmt], names: &mut Fresh) -> Result<()> {
    for stmt in stmts {
        let Some(stmt) = names.body(std::slice::from_ref(stmt))?.pop() else { continue };
        let is_known = out.iter().any(|known| match (known, &stmt) {
            (Stmt::Define(q, a), Stmt::Define(r, b)) if a == b => {
                names.alias(*r, *q);
                true
            }
            (Stmt::Let { index: i, array: a, at: p, .. }, Stmt::Let { index: j, array: b, at: q, .. })
                if (a, p) == (b, q) =>
            {
                names.keep(*j, *i);
                true
            }
            _ => false,
        });
        if !is_known {
            out.push(stmt);
        }
    }
    Ok(())
}

/// Whether a statement takes no longer than an entry: it looks nothing up, or whether a row has entries.
fn is_line(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::If { body, .. } => body.iter().all(is_line),
        Stmt::Define(..) | Stmt::Let { .. } | Stmt::Local(_) | Stmt::Assign(..) | Stmt::Find { key: None, .. } => true,
        _ => false,
    }
}

/// The place of an entry.
fn at_entry(buffer: BufferId, entry: IndexId) -> Place {
    Place { buffer, at: vec![entry.into()] }
}

/// A loop over rows, with loops over the entries of each row in it.
struct Rows<'a> {
    nest: &'a Nest,
    /// Where it is: among the statements of the nest, and in the parallel loop there, if it is not that loop itself.
    path: (usize, Option<usize>),
    row: IndexId,
    rows: &'a Domain,
    is_parallel: bool,
    body: &'a [Stmt],
    /// What is the same for all rows.
    shared: Vec<(RealId, &'a Stmt)>,
    /// The entries of a row.
    segment: &'a Segment,
}

impl<'a> Rows<'a> {
    /// What can be done about a loop of the body.
    fn found(&self, at: usize) -> Option<Found> {
        let cuts = self.cuts(at, &self.nest.buffers);
        if !cuts.is_empty() {
            return Some(Found::Functions(cuts));
        }
        let (before, behind) = self.body.split_at_checked(at)?;
        let first = stored(before);
        let left: Vec<BufferId> = self.nest.buffers.iter().copied().filter(|b| !first.contains(b)).collect();
        let mut slice = Slice::default();
        slice.read(behind);
        let again = slice.of(before);
        // Rows that follow each other may read what those before have stored.
        let unknown = if self.is_parallel { &left } else { &self.nest.buffers };
        let is_apart = !first.is_empty()
            && first.iter().all(|buffer| self.stores_once(*buffer))
            && again.iter().all(is_line)
            && self.is_known(again.iter(), None, &self.nest.buffers)
            && self.is_known(before.iter(), None, unknown);
        (is_apart && !self.cuts(at, &left).is_empty()).then_some(Found::Behind { at, again })
    }

    /// The statements before one of the body as a nest of their own, and the body that is left.
    fn split(&self, at: usize, mut again: Vec<Stmt>) -> (Vec<Nest>, Vec<Stmt>, Decision) {
        let before = self.before(at);
        let nest = self.nest(stored(before), Decision::BeforeEntries {}, before.to_vec());
        again.extend(self.body.iter().skip(at).cloned());
        (vec![nest], again, Decision::BeforeEntries {})
    }

    /// A loop and those behind it that go over the same entries, each with its cut, as long as few numbers are kept; none where the first one cannot
    /// be cut.
    fn cuts(&self, first: usize, written: &[BufferId]) -> Vec<(usize, Cut)> {
        let (mut cuts, mut takes, mut gives) = (Vec::new(), BTreeSet::new(), 0);
        for (at, stmt) in self.body.iter().enumerate().skip(first) {
            if !matches!(stmt, Stmt::For { domain: Domain::Segment(segment), .. } if segment == self.segment) {
                continue;
            }
            let found = self.cut(at, written).filter(|(_, behind)| at == first || !behind);
            let behind = found.as_ref().is_some_and(|(_, behind)| *behind);
            if let Some((cut, _)) = found {
                let all = &takes | &cut.takes;
                if all.len() + gives + cut.gives.len() <= MOST_KEPT {
                    (takes, gives) = (all, gives + cut.gives.len());
                    cuts.push((at, cut));
                }
            }
            // What it takes of the row is known behind other loops, to which later ones may belong.
            if behind || cuts.is_empty() {
                break;
            }
        }
        cuts
    }

    /// How a loop over entries is cut, and whether what it takes of the row is made by other loops over them; nothing where it cannot be.
    fn cut(&self, at: usize, written: &[BufferId]) -> Option<(Cut, bool)> {
        let Stmt::For { index, body, .. } = self.body.get(at)? else { return None };
        let (reals, indices) = (declared(self.before(at)), defined(self.before(at)));
        let sums = changed(body);
        let index_of = |i: IndexId| if i == self.row || indices.contains(&i) { Of::ROW } else { Of::FIXED };
        let real_of = |r: RealId| match () {
            () if sums.contains(&r) => Of::FIXED,
            () if reals.contains(&r) => Of::ROW,
            () if self.shared.iter().any(|(shared, _)| *shared == r) => Of::NOTHING,
            () => Of::FIXED,
        };
        let stores = |place: &Place| place.at == [Affine::index(*index)] && self.stores_once(place.buffer);
        let around = Around { entry: *index, index: &index_of, real: &real_of, written, stores: &stores };
        let cut = Cut::of(body, &around)?;
        let mut slice = Slice::reading(&cut.takes);
        let of_entry = slice.of(body);
        let of_row = slice.of(self.before(at));
        let is_known = self.is_known(of_row.iter().chain(&of_entry), Some(*index), written);
        (is_known && self.is_quick(&of_row)).then(|| {
            let behind = of_row.iter().any(|stmt| matches!(stmt, Stmt::For { .. }));
            (cut, behind)
        })
    }

    fn before(&self, at: usize) -> &'a [Stmt] {
        self.body.get(..at).unwrap_or_default()
    }

    /// Whether statements of a row and of its entry may stand in another nest before this one: they need nothing that others of this one make.
    fn is_known<'s>(
        &self,
        stmts: impl Iterator<Item = &'s Stmt> + Clone,
        entry: Option<IndexId>,
        written: &[BufferId],
    ) -> bool {
        let (own, mut indices) = (declared(stmts.clone()), defined(stmts.clone()));
        indices.extend(entry.into_iter().chain([self.row]));
        let is_shared = |r: RealId| self.shared.iter().any(|(shared, _)| *shared == r);
        !reads(stmts.clone(), |r| !own.contains(&r) && !is_shared(r))
            && changed(stmts.clone()).is_subset(&own)
            && mentioned(stmts.clone()).is_subset(&indices)
            && loads(stmts).iter().all(|place| !written.contains(&place.buffer))
    }

    /// Whether statements of a row take no more time than to go over its entries.
    fn is_quick(&self, stmts: &[Stmt]) -> bool {
        stmts.iter().all(|stmt| match stmt {
            Stmt::For { domain: Domain::Segment(segment), body, .. } => {
                segment == self.segment && !has_calls(body) && body.iter().all(|stmt| stmt.body().is_empty())
            }
            stmt => is_line(stmt),
        })
    }

    /// Whether a buffer is written by one statement.
    fn stores_once(&self, buffer: BufferId) -> bool {
        let mut writes = 0;
        let mut count = |stmt: &Stmt| {
            let fills = matches!(stmt, Stmt::Fill(filled) if *filled == buffer);
            writes += usize::from(fills) + stmt.stores().filter(|place| place.buffer == buffer).count();
        };
        self.nest.body.iter().for_each(|stmt| stmt.visit(&mut count));
        writes == 1
    }

    /// The nests that compute what is kept for the entries, and the body of the rows that reads it.
    fn flatten(&self, cuts: &[(usize, Cut)], program: &mut Program) -> Result<(Vec<Nest>, Vec<Stmt>, Decision)> {
        let mut names = Fresh::none(&self.nest.body);
        let (mut at_entries, mut of_entries) = (Vec::new(), Vec::new());
        let (mut takes, mut gives) = (BTreeSet::new(), BTreeSet::new());
        let (mut entry, mut last) = (None, 0);
        for (at, cut) in cuts {
            let Some(Stmt::For { index, body, .. }) = self.body.get(*at) else { continue };
            last = *at;
            names.keep(*index, *entry.get_or_insert(*index));
            add(&mut at_entries, &Slice::reading(&cut.takes).of(body), &mut names)?;
            takes.extend(cut.takes.iter().map(|r| names.read(*r)));
            let flat: Vec<Stmt> = cut.flat.union(&cut.stores).filter_map(|k| body.get(*k)).cloned().collect();
            add(&mut of_entries, &flat, &mut names)?;
            gives.extend(cut.gives.iter().map(|r| names.read(*r)));
        }
        let entry = entry.unwrap_or(self.row);
        let relation = program.arrays.get(self.segment.pointers).map(|array| array.relation);
        let title = title(&program.buffers, self.nest);
        let mut keep = |numbers: &BTreeSet<RealId>, what: &str| -> BTreeMap<RealId, BufferId> {
            let buffer = || Buffer::workspace(format!("{title}_{what}"), relation, Vec::new());
            numbers.iter().map(|r| (*r, program.buffers.push(buffer()))).collect()
        };
        let (taken, given) = (keep(&takes, "at_entries"), keep(&gives, "of_entries"));
        let mut nests = Vec::new();
        if !takes.is_empty() {
            let mut slice = Slice::reading(&takes);
            slice.read(&at_entries);
            let mut body = slice.of(self.before(last));
            at_entries.extend(taken.iter().map(|(r, buffer)| Stmt::Store(at_entry(*buffer, entry), *r)));
            body.push(self.over_entries(entry, at_entries));
            nests.push(self.nest(taken.values().copied().collect(), Decision::AtEntries {}, body));
        }
        let loads = taken.iter().map(|(r, buffer)| Stmt::Define(*r, Real::Load(at_entry(*buffer, entry))));
        let stores = given.iter().map(|(r, buffer)| Stmt::Store(at_entry(*buffer, entry), *r));
        let body: Vec<Stmt> = loads.chain(of_entries).chain(stores).collect();
        nests.push(self.nest(stored(&body), Decision::OfEntries {}, vec![self.over_entries(entry, body)]));
        let rows = self.reading(cuts, |r| given.get(&names.read(r)).copied());
        Ok((nests, rows, Decision::Flattened { loops: cuts.len() }))
    }

    /// The body, which loads what is kept of moved statements.
    fn reading(&self, cuts: &[(usize, Cut)], kept: impl Fn(RealId) -> Option<BufferId>) -> Vec<Stmt> {
        let mut rows = self.body.to_vec();
        for (at, cut) in cuts {
            let Some(Stmt::For { index, body, .. }) = rows.get_mut(*at) else { continue };
            for (k, stmt) in std::mem::take(body).into_iter().enumerate() {
                match &stmt {
                    _ if cut.stores.contains(&k) => {}
                    Stmt::Define(r, _) if cut.gives.contains(r) => {
                        let load = kept(*r).map(|buffer| Real::Load(at_entry(buffer, *index)));
                        body.extend(load.map(|load| Stmt::Define(*r, load)));
                    }
                    _ => body.push(stmt),
                }
            }
        }
        rows
    }

    /// A loop over the entries of a row.
    fn over_entries(&self, index: IndexId, body: Vec<Stmt>) -> Stmt {
        let domain = Domain::Segment(self.segment.clone());
        Stmt::For { index, domain, lanes: VECTOR, jam: 1, parallel: false, body }
    }

    /// A nest that goes over all rows.
    fn nest(&self, buffers: Vec<BufferId>, why: Decision, body: Vec<Stmt>) -> Nest {
        let (index, domain) = (self.row, self.rows.clone());
        let mut all: Vec<Stmt> = self.shared.iter().map(|(_, stmt)| (*stmt).clone()).collect();
        all.push(Stmt::For { index, domain, lanes: 1, jam: 1, parallel: true, body });
        without_unread(&mut all);
        Nest { buffers, decisions: vec![why], body: all }
    }
}

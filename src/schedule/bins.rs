//! Terms of sums along another view of a relation, such as the columns of a CSR or the rows of a CSC matrix, computed in bins.
//!
//! Such a sum takes a number for each entry from a place far from the last one, so that each is in another line of memory, all of which come
//! again and again where the numbers do not fit the caches. Two passes read every line once:
//!
//! ```text
//! parallel for j in columns                parallel for b in bins of X
//!   local r                                  k = entries of bins[b];  i = axis 0 of bins[b]
//!   for q in column j                        terms[b] = X[k] * s[i]
//!     k = entries[q];  i = nodes[q]    ==
//!     t = X[k] * s[i]                      parallel for j in columns
//!     r += t                                 local r
//!   g[j] = r                                 for q in column j
//!                                              m = places in bins[q];  r += terms[m]
//!                                            g[j] = r
//! ```
//!
//! A [bin](crate::loops::Bins) is a run of entries, sorted as the view is: the first pass jumps about within a bin only, the second goes through all bins side by
//! side, from their first terms to their last. This is the *propagation blocking* of Beamer, Asanovic and Patterson (2017), with both of its
//! passes as gathers. The order of the bins is found when the relation is bound.
//!
//! **No bit changes**: the same terms are added in the same order, each rounded before it is added; `products` leaves these as they are.
//! So it may depend on the data which of the two is run: a nest has both, and arrays of bins that are empty where the relation is small.
//!
//! **What is taken**: an innermost loop over a row of a view of a matrix that is not in the order of the relation, inside of loops that come to
//! each entry, so that there is no more work. Of what it computes, a few numbers that are loaded through the entry's place, or made of such, depend
//! on the entry alone; all else takes the entry's coordinates at most. So what is multiplied by a row of a dense matrix, `X[k] * D[i, l]`, is
//! put in bins and the rows are not.

use std::collections::BTreeSet;

use super::Sizes;
use super::hold::graph::{Graph, index};
use super::hold::place::visits_all;
use super::machine::VECTOR;
use super::unroll::needed;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::Affine;
use crate::loops::Fresh;
use crate::loops::{
    Array, ArrayId, Binned, Buffer, BufferId, Cond, Decision, Domain, Nest, Part, Place, Program, Real, RealId,
    Segment, Stmt,
};
use crate::ty::Signature;

/// An innermost loop over a row of another view of a matrix that takes numbers through the places of its entries.
pub(super) struct Gather<'a> {
    /// The loop index, and the place of its entry in the order of the relation.
    index: IndexId,
    entry: IndexId,
    /// The index that is the first coordinate of all entries of the loop.
    row: IndexId,
    /// The array that tells where the entries of the row are.
    array: &'a Array,
    body: &'a [Stmt],
    /// Whether it knows nothing else but the entries and the row: then terms are rounded before they are added.
    pub alone: bool,
}

impl<'a> Gather<'a> {
    /// A statement as such a loop.
    pub fn of(signature: &Signature, arrays: &'a Arena<ArrayId, Array>, stmt: &'a Stmt) -> Option<Gather<'a>> {
        let Stmt::For { index, domain: Domain::Segment(segment), body, .. } = stmt else { return None };
        let (row, array) = (segment.at.as_index()?, arrays.get(segment.pointers)?);
        if array.part != Part::Rows || array.axes.len() != 2 || array.is_stored_order(signature) {
            return None;
        }
        let (mut known, mut entry, mut gathers) = (BTreeSet::from([*index, row]), None, false);
        let mut alone = true;
        for stmt in body {
            if !stmt.body().is_empty() {
                return None;
            }
            alone &= !mentions(stmt, |i| !known.contains(&i));
            if let Stmt::Let { index: i, array, at, .. } = stmt
                && at.as_index() == Some(*index)
                && arrays.get(*array)?.part == Part::Entries
            {
                entry = Some(*i);
            }
            known.extend(stmt.defines());
            gathers |= entry.is_some_and(|entry| through(stmt, entry));
        }
        Some(Gather { index: *index, entry: entry.filter(|_| gathers)?, row, array, body, alone })
    }
}

/// Whether a statement loads the number of an entry.
fn through(stmt: &Stmt, entry: IndexId) -> bool {
    stmt.load().is_some_and(|place| place.at.first().and_then(Affine::as_index) == Some(entry))
}

/// Computes terms in bins, where the relations are large enough.
pub(super) fn run(program: Program, _: Option<&Sizes<'_>>) -> Result<Program> {
    let mut binned = Program { nests: Vec::with_capacity(program.nests.len()), ..program.clone() };
    let graph = Graph::new(&program.nests);
    for (at, nest) in program.nests.iter().enumerate() {
        let mut rewritten = Nest { body: Vec::with_capacity(nest.body.len()), ..nest.clone() };
        let mut names = Fresh::after(&nest.body);
        let of = nest.buffers.first().and_then(|of| program.buffers.get(*of));
        let name = format!("{}_terms", of.map_or("", |of| of.name.as_str()));
        for (k, stmt) in nest.body.iter().enumerate() {
            let mut found: Vec<Terms> = Vec::new();
            let shared = shared(nest, &nest.body[..k]);
            if matches!(stmt, Stmt::For { .. }) {
                let finder = Finder { program: &program, graph: &graph, nest: at, shared: &shared };
                stmt.visit(&mut |stmt| found.extend(finder.terms(stmt)));
            }
            // One relation decides which of both is run.
            let array = found.first().map(|first| first.array.clone());
            found.retain(|terms| Some(&terms.array) == array.as_ref());
            let Some(first) = found.first() else {
                rewritten.body.push(stmt.clone());
                continue;
            };
            let mut other = vec![stmt.clone()];
            for terms in &found {
                let workspace = || Buffer::workspace(name.clone(), Some(terms.array.relation), Vec::new());
                let buffers: Vec<BufferId> = terms.terms.iter().map(|_| binned.buffers.push(workspace())).collect();
                terms.read(&mut other, &buffers, &mut binned.arrays);
                binned.nests.push(terms.nest(&shared, buffers, &mut binned.arrays));
            }
            let all = first.part(Binned::All, &mut binned.arrays);
            // Other loops of the nest have names of their own.
            names.again();
            let count = names.fresh_index();
            let plain = names.body(std::slice::from_ref(stmt))?;
            rewritten.body.push(Stmt::Let { index: count, array: all, at: Affine::constant(1), step: None });
            let some = Affine::from(count).add_constant(-1)?;
            rewritten.body.push(Stmt::If { cond: Cond::NonNegative(some), body: other });
            rewritten.body.push(Stmt::If { cond: Cond::Zero(count.into()), body: plain });
            rewritten.decisions.push(Decision::InBins {});
        }
        binned.nests.push(rewritten);
    }
    if cfg!(debug_assertions) {
        crate::stages::check("bins", &binned)?;
    }
    Ok(binned)
}

/// The numbers before a loop that are the same for all of the nest, with no loop or index, as statements.
pub(super) fn shared<'a>(nest: &Nest, before: &'a [Stmt]) -> Vec<(RealId, &'a Stmt)> {
    let mut shared: Vec<(RealId, &Stmt)> = Vec::new();
    for stmt in before {
        if let Stmt::Define(r, _) = stmt
            && !mentions(stmt, |_| true)
            && !reads(stmt, |r| !shared.iter().any(|(known, _)| *known == r))
            && !writes(nest, stmt)
        {
            shared.push((*r, stmt));
        }
    }
    shared
}

/// Whether a nest writes what a statement loads.
fn writes(nest: &Nest, stmt: &Stmt) -> bool {
    stmt.load().is_some_and(|place| nest.buffers.contains(&place.buffer))
}

fn mentions(stmt: &Stmt, which: impl Fn(IndexId) -> bool) -> bool {
    let mut any = false;
    stmt.visit_affine(&mut |a| any |= a.terms().iter().any(|(v, _)| index(v).is_some_and(&which)));
    any
}

fn reads(stmt: &Stmt, which: impl Fn(RealId) -> bool) -> bool {
    let mut any = false;
    stmt.visit_reads(&mut |r| any |= which(r));
    any
}

/// How many numbers of an entry go into bins.
pub(super) const MAX_TERMS: usize = 4;

/// A loop whose terms can be computed in bins.
struct Terms {
    /// The loop index, and the place of its entry in the order of the relation.
    index: IndexId,
    entry: IndexId,
    /// The arrays that tell where the entries of the view are.
    array: Array,
    /// The index that is the first coordinate of all entries of the loop.
    row: IndexId,
    /// What computes the terms, with the arrays of the view in place of those of bins.
    body: Vec<Stmt>,
    /// The terms.
    terms: Vec<RealId>,
    /// What the loop does with them.
    rest: Vec<Stmt>,
}

struct Finder<'a> {
    program: &'a Program,
    graph: &'a Graph<'a>,
    nest: usize,
    shared: &'a [(RealId, &'a Stmt)],
}

impl Finder<'_> {
    fn terms(&self, stmt: &Stmt) -> Option<Terms> {
        let arrays = &self.program.arrays;
        let Gather { index, entry, row, array, body, .. } = Gather::of(&self.program.signature, arrays, stmt)?;
        let here = (self.nest, index);
        let is_loop = |at: usize| matches!(self.graph.nodes[at].stmt, Stmt::For { .. });
        if !self.graph.around(self.graph.definer(here)?).all(is_loop) || !visits_all(self.program, self.graph, here) {
            return None;
        }
        // What is known of an entry, wherever it is: indices and numbers.
        let mut indices = BTreeSet::from([row]);
        let mut numbers: BTreeSet<RealId> = self.shared.iter().map(|(r, _)| *r).collect();
        let mut gathered = BTreeSet::new();
        let (mut own, mut rest): (Vec<&Stmt>, Vec<&Stmt>) = (Vec::new(), Vec::new());
        for stmt in body {
            let of_entry = !mentions(stmt, |i| !indices.contains(&i)) && !reads(stmt, |r| !numbers.contains(&r));
            match stmt {
                Stmt::Let { index: i, array: part, at, step: None } => {
                    let part = arrays.get(*part)?;
                    let of_view =
                        at.as_index() == Some(index) && part.relation == array.relation && part.axes == array.axes;
                    if !of_view && !of_entry {
                        return None;
                    }
                    indices.insert(*i);
                    own.push(stmt);
                }
                Stmt::Define(r, _) if of_entry && !writes(self.program.nests.get(self.nest)?, stmt) => {
                    if through(stmt, entry) || reads(stmt, |r| gathered.contains(&r)) {
                        gathered.insert(*r);
                    }
                    numbers.insert(*r);
                    own.push(stmt);
                }
                Stmt::Define(..) | Stmt::Accumulate(..) | Stmt::MulAdd(..) => rest.push(stmt),
                _ => return None,
            }
        }
        let mut used = BTreeSet::new();
        rest.iter().for_each(|stmt| stmt.visit_reads(&mut |r| used.extend(Some(r).filter(|r| gathered.contains(r)))));
        if !(1..=MAX_TERMS).contains(&used.len()) {
            return None;
        }
        let computes = |stmt: &&Stmt| matches!(stmt, Stmt::Define(r, _) if used.contains(r));
        let (of_terms, besides): (Vec<&Stmt>, Vec<&Stmt>) = own.iter().partition(|stmt| computes(stmt));
        let with_besides = |stmts: &[&Stmt]| {
            let all = besides.iter().chain(stmts).map(|stmt| (*stmt).clone()).collect();
            needed(all, |stmt| stmts.contains(&stmt))
        };
        let rest = with_besides(&rest);
        if rest.iter().flat_map(Stmt::defines).any(|i| i == entry) {
            return None;
        }
        let (body, terms) = (with_besides(&of_terms), used.into_iter().collect());
        Some(Terms { index, entry, array: array.clone(), row, body, terms, rest })
    }
}

impl Terms {
    fn part(&self, part: Binned, arrays: &mut Arena<ArrayId, Array>) -> ArrayId {
        arrays.find_or_push(Array { part: Part::Binned(part), ..self.array.clone() })
    }

    /// The nest that stores the terms, with those of the numbers before the loop that it reads.
    fn nest(&self, shared: &[(RealId, &Stmt)], buffers: Vec<BufferId>, arrays: &mut Arena<ArrayId, Array>) -> Nest {
        let at = || Affine::from(self.index);
        let axis = |k: usize| self.array.axes.get(k).copied().unwrap_or(0);
        let (first, last) = (axis(0), axis(1));
        let mut body = Vec::with_capacity(self.body.len() + 2);
        if self.body.iter().any(|stmt| mentions(stmt, |i| i == self.row)) {
            let array = self.part(Binned::Axis(first), arrays);
            body.push(Stmt::Let { index: self.row, array, at: at(), step: None });
        }
        for stmt in &self.body {
            body.push(match stmt {
                Stmt::Let { index, at, .. } if at.as_index() == Some(self.index) => {
                    let part = if *index == self.entry { Binned::Entries } else { Binned::Axis(last) };
                    Stmt::Let { index: *index, array: self.part(part, arrays), at: at.clone(), step: None }
                }
                stmt => stmt.clone(),
            });
        }
        for (term, buffer) in self.terms.iter().zip(&buffers) {
            body.push(Stmt::Store(Place { buffer: *buffer, at: vec![at()] }, *term));
        }
        let all = Segment { pointers: self.part(Binned::All, arrays), at: Affine::constant(0) };
        let domain = Domain::Segment(all);
        let mut stmts = vec![Stmt::For { index: self.index, domain, lanes: VECTOR, jam: 1, parallel: true, body }];
        for (r, stmt) in shared.iter().rev() {
            if crate::loops::reads(&stmts, |read| read == *r) {
                stmts.insert(0, (*stmt).clone());
            }
        }
        Nest { buffers, decisions: vec![Decision::Terms {}], body: stmts }
    }

    /// Has a loop read the terms.
    fn read(&self, body: &mut [Stmt], buffers: &[BufferId], arrays: &mut Arena<ArrayId, Array>) {
        for stmt in body {
            match stmt {
                Stmt::For { index, body, .. } if *index == self.index => {
                    let array = self.part(Binned::Places, arrays);
                    *body = vec![Stmt::Let { index: self.entry, array, at: self.index.into(), step: None }];
                    for (term, buffer) in self.terms.iter().zip(buffers) {
                        let place = Place { buffer: *buffer, at: vec![self.entry.into()] };
                        body.push(Stmt::Define(*term, Real::Load(place)));
                    }
                    body.extend_from_slice(&self.rest);
                }
                Stmt::For { body, .. } => self.read(body, buffers, arrays),
                _ => {}
            }
        }
    }
}

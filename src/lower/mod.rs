//! Tensor-SSA to loop nests: generation only. Which loops are joined, cut, or run in lanes is decided [afterwards](mod@crate::schedule).
//!
//! 1. `plan` decides which tensors are stored, and how; the others are computed where they are read.
//! 2. One nest for each stored tensor: loops over the points of its guard (`points`), and in them the element
//!    (`element`), with everything that it reads and that is not stored.
//!
//! | file | job |
//! |---|---|
//! | `plan` | which tensors are stored, dense or on the entries of a relation |
//! | `again` | which large tensors are made again for each reader |
//! | `barriers` | what is read before and behind a sum that it is a part of |
//! | `arguments` | which sums are stored for the functions that are taken of them |
//! | `readers` | who reads a tensor, where, and how often |
//! | `straight` | how much work an element is where it is computed in place |
//! | `support` | where the elements of a tensor may be other than 0 |
//! | `scope` | the nest on the way: what is known, what has been read, what is open |
//! | `points` | loops over the points of a guard |
//! | `walk` | the tuples of a relation, level by level |
//! | `witness` | loops over the places for which something exists |
//! | `one_hot` | places that numbers tell |
//! | `guard` | tests of what is left of a guard |
//! | `element` | an element of a statement |
//! | `sum_order` | the order of the indices of a sum |
//! | `rows` | the entries of a pattern that is found out, row by row |
//! | `matrix_order` | blocks of a matrix whose numbers are stored where the matrix has them |
//!
//! **Guards become loops.** A guard is a conjunction, and `points` takes its atoms one by one: an equation gives an index, bounds
//! become the bounds of a loop, a relation becomes a walk over its nodes, in the order of axes in which the known ones come first. What
//! is left is tested as soon as its indices are known. An atom that the ranges or the tests around it imply is not tested at all.
//!
//! **Patterns that are found out become rows.** Where the entries of a sparse result are known symbolically, row by row, they are written one
//! after the other (`rows`), and all guards on them are decided here; else the places of the pattern are walked, and tested. The blocks of a matrix
//! that are written so have each number stored where the matrix has it (`matrix_order`).
//!
//! **What is read is read as far out as possible.** An element depends on its indices only, so it is computed in the outermost scope in
//! which these are known to lie in its axes: nothing that a loop does not change is computed inside the loop, and what is read twice
//! at one place is computed once.
//!
//! **Where relations meet**, one is walked and the others are searched.
//!
//! **Why a load is in bounds.** An index expression is used at an axis only where the scopes around say that it lies within: as the index
//! of a loop over that axis, as a coordinate of a relation with that axis, or because its range was tested. A sparse parameter is read at
//! an entry that a walk or a search has found. Rows agree with the pattern since the program that finds it runs over the same rows.
//!
//! Relations are walked in the order of [`Part`](crate::loops::Part)s of a view; the text of the nests names it. Map applications do not
//! occur in Tensor-SSA. The nesting of inlined tensors is limited, so recursion is.

mod again;
mod arguments;
mod barriers;
mod element;
mod guard;
mod matrix_order;
mod one_hot;
mod plan;
mod points;
mod readers;
mod rows;
mod scope;
mod straight;
mod sum_order;
mod support;
mod walk;
mod witness;

use crate::base::{Arena, Id, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred};
use crate::loops::{self, BufferKind, Decision, Nest, Stmt};
use crate::prepare::{Prepared, Sparse};
use crate::tssa;

use matrix_order::MatrixOrder;
use plan::{Placement, Plan};
use scope::Nester;

const PASS: &str = "lower";

/// Lowers a program to one nest for each stored tensor.
///
/// # Errors
/// [`Error::Limit`] for nests of too many levels, [`Error::Overflow`] and [`Error::Bug`].
pub fn lower(program: &tssa::Program) -> Result<loops::Program> {
    nests(program, plan::plan(program)?)
}

fn nests(program: &tssa::Program, mut plan: Plan) -> Result<loops::Program> {
    let mut arrays = crate::base::Interner::new();
    let mut nests = Vec::new();
    for x in program.stmts.ids() {
        if let Placement::Stored(_) = plan.placements[x] {
            let mut nester = Nester::new(program, &plan, &mut arrays);
            nests.push(nester.stored(x)?);
        }
    }
    let mut outputs = Vec::new();
    for (at, output) in program.outputs.iter().enumerate() {
        let mut leaves = Vec::new();
        for (leaf, x) in output.leaves.iter().enumerate() {
            let kind = BufferKind::Output(at, leaf);
            let stored = plan.buffers.iter().find(|(_, buffer)| buffer.kind == kind).map(|(buffer, _)| buffer);
            let buffer = match stored {
                Some(buffer) => buffer,
                None => {
                    let storage = plan.copy(program, *x, at, leaf)?;
                    let mut nester = Nester::new(program, &plan, &mut arrays);
                    nests.push(nester.copied(*x, &storage)?);
                    storage.buffer
                }
            };
            leaves.push(buffer);
        }
        outputs.push((output.name.clone(), leaves));
    }
    let arrays = arrays.iter().map(|(_, array): (_, &loops::Array)| array.clone()).collect();
    let Plan { buffers, matrix_order, .. } = plan;
    let signature = program.signature.clone();
    let mut lowered = loops::Program {
        signature,
        arrays,
        buffers,
        nests,
        outputs,
        rounded: Vec::new(),
        limits: Vec::new(),
        bins: Default::default(),
    };
    if let Some(matrix) = matrix_order {
        matrix.put_together(&mut lowered);
    }
    Ok(lowered)
}

/// Lowers a program of which some outputs are on patterns that are found out. First the nests that list the patterns, one tuple or more for each
/// place; then the program on these places. If all of the outputs are the blocks of a matrix, with so many entries as a size says, they are
/// [one output](loops::MATRIX) where their numbers can be stored in its order.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn on_patterns(
    prepared: &Prepared,
    outputs: &[Sparse],
    entries: Option<SizeId>,
) -> Result<(loops::Program, loops::Program)> {
    let Prepared { program, unshared } = prepared;
    let mut plan = plan::plan(program)?;
    let supports = support::supports(unshared)?;
    let mut arrays = crate::base::Interner::new();
    let (mut structure, mut found) = (Vec::new(), Vec::new());
    for (number, sparse) in outputs.iter().enumerate() {
        let leaves = |program: &tssa::Program| program.outputs.get(sparse.output).map(|output| output.leaves.clone());
        let (now, before) = (leaves(program).unwrap_or_default(), leaves(unshared).unwrap_or_default());
        let ([x], [before]) = (now.as_slice(), before.as_slice()) else {
            return Err(Error::bug(PASS, "a pattern of an output that is no tensor"));
        };
        let support = &supports[*before];
        let dims = &program.stmts[*x].dims;
        let rows = rows::Rows::new(&program.signature, dims, sparse.row_axes, support);
        let mut nester = Nester::new(program, &plan, &mut arrays);
        if let Some(rows) = &rows {
            structure.push(nester.listed(rows, number)?);
        } else {
            for clause in support {
                let mut nester = Nester::new(program, &plan, &mut arrays);
                structure.push(nester.places(*x, number, clause)?);
            }
        }
        found.push((*x, rows));
    }
    let blocks = outputs.iter().zip(&found).map(|(sparse, (x, rows))| {
        let dims = program.stmts[*x].dims.as_slice();
        matrix_order::Block { sparse: *sparse, tensor: *x, dims, rows: rows.as_ref() }
    });
    plan.matrix_order = entries.and_then(|entries| MatrixOrder::new(&blocks.collect::<Vec<_>>(), entries));
    for (sparse, (_, rows)) in outputs.iter().zip(found) {
        plan.rows.extend(rows.map(|rows| (sparse.relation, rows)));
    }
    let arrays: Arena<_, _> = arrays.iter().map(|(_, array): (_, &loops::Array)| array.clone()).collect();
    let signature = program.signature.clone();
    let structure = loops::Program {
        signature,
        arrays,
        buffers: Arena::new(),
        nests: structure,
        outputs: Vec::new(),
        rounded: Vec::new(),
        limits: Vec::new(),
        bins: Default::default(),
    };
    Ok((structure, nests(program, plan)?))
}

impl Nester<'_> {
    /// The nest that lists the places of a clause.
    fn places(&mut self, x: VarId, number: usize, clause: &support::Clause) -> Result<Nest> {
        let dims = &self.program.stmts[x].dims;
        let mut gens: Vec<_> = dims.iter().chain(&clause.bound).map(|n| (self.fresh_index(), n.clone())).collect();
        let indices: Vec<Affine> = gens.iter().map(|(i, _)| (*i).into()).collect();
        let bound = gens.split_off(dims.len());
        let conjuncts = clause.conjuncts.iter().map(|p| self.open(p, &indices)).collect::<Result<_>>()?;
        let known = self.prune(conjuncts)?;
        let at = &indices[..dims.len()];
        self.points_with_witnesses(gens, bound, known, &mut |nester, point| {
            let tuple = at.iter().map(|a| point.value(a)).collect::<crate::index::Checked<_>>()?;
            nester.emit(Stmt::Tuple(number, tuple));
            Ok(())
        })?;
        Ok(Nest { buffers: Vec::new(), decisions: std::mem::take(&mut self.decisions), body: self.finish()? })
    }

    /// The nest that lists the places of rows.
    fn listed(&mut self, rows: &rows::Rows, number: usize) -> Result<Nest> {
        self.entries(rows, &mut |_, _, _| Ok(Affine::constant(0)), &mut |nester, at, _| {
            nester.emit(Stmt::Tuple(number, at.to_vec()));
            Ok(())
        })?;
        Ok(Nest { buffers: Vec::new(), decisions: std::mem::take(&mut self.decisions), body: self.finish()? })
    }

    /// The nest that computes a stored tensor.
    fn stored(&mut self, x: VarId) -> Result<Nest> {
        let Placement::Stored(storage) = &self.plan.placements[x] else {
            return Err(Error::bug(PASS, format!("{x} is not stored")));
        };
        let storage = storage.clone();
        self.nest(x, &storage, &mut |nester, at| nester.value(x, at))
    }

    /// The nest that copies a tensor to an output.
    fn copied(&mut self, x: VarId, storage: &plan::Stored) -> Result<Nest> {
        self.nest(x, storage, &mut |nester, at| nester.element(x, at))
    }

    /// `buffer[at] = element(at)` for all places of the buffer.
    fn nest(
        &mut self,
        x: VarId,
        storage: &plan::Stored,
        element: &mut dyn FnMut(&mut Self, &[Affine]) -> Result<loops::RealId>,
    ) -> Result<Nest> {
        let program = self.program;
        let dims = program.stmts[x].dims.clone();
        let gens: Vec<_> = dims.iter().map(|n| (self.fresh_index(), n.clone())).collect();
        let indices: Vec<Affine> = gens.iter().map(|(i, _)| (*i).into()).collect();
        self.decisions.extend(storage.decision.clone());
        let plan = self.plan;
        if let Some((relation, rows)) =
            storage.entries.as_ref().and_then(|pattern| plan.rows.get_key_value(&pattern.relation))
        {
            self.decisions.push(Decision::RowByRow {});
            let rank = dims.len();
            let row_axes = plan.matrix_order.as_ref().and_then(|matrix| matrix.row_axes.get(relation)).copied();
            let mut start = |nester: &mut Self, row: &Affine, step| match row_axes {
                Some(_) => Ok(Affine::constant(0)),
                None => nester.start(*relation, row, rank, step),
            };
            self.entries(rows, &mut start, &mut |nester, at, before| {
                let entry = match row_axes.and_then(|axes| at.get(..axes)) {
                    Some(row) => nester.start_in_matrix(*relation, &dims, row)?.add(&before.row)?,
                    None => before.first.clone(),
                };
                nester.remember_entry(*relation, at, entry);
                let value = element(nester, at)?;
                let place = nester.place_in(storage, at)?;
                nester.emit(Stmt::Store(place, value));
                Ok(())
            })?;
            let decisions = std::mem::take(&mut self.decisions);
            return Ok(Nest { buffers: vec![storage.buffer], decisions, body: self.finish()? });
        }
        // The pattern of the storage first: its order is that of the entries.
        let places = storage.pattern(&indices);
        let mut conjuncts: Vec<Pred> = places.iter().cloned().collect();
        for pattern in &self.plan.patterns[x] {
            guard::also(&mut conjuncts, &pattern.atom(&indices), &|_| true);
        }
        for p in self.outer_guard(x, &indices)? {
            if !conjuncts.contains(&p) {
                conjuncts.push(p);
            }
        }
        if places.is_none() {
            for said in [&self.plan.supports[x], &self.plan.targets[x]] {
                let said = self.open(said, &indices)?;
                guard::also(&mut conjuncts, &said, &|_| true);
            }
        }
        let known = self.prune(conjuncts)?;
        // Unless every place is visited, or nobody reads the others.
        if known.iter().any(|p| places.as_ref() != Some(p)) && !self.plan.read_in_use[x] {
            self.emit(Stmt::Fill(storage.buffer));
        }
        self.points(gens, known, &mut |nester, point| {
            let at: Vec<_> = indices.iter().map(|a| point.value(a)).collect::<crate::index::Checked<_>>()?;
            let value = element(nester, &at)?;
            let place = nester.place_in(storage, &at)?;
            nester.emit(Stmt::Store(place, value));
            Ok(())
        })?;
        Ok(Nest { buffers: vec![storage.buffer], decisions: std::mem::take(&mut self.decisions), body: self.finish()? })
    }

    /// The conjuncts of the guard of a statement that mention its `gen` indices only.
    fn outer_guard(&mut self, x: VarId, at: &[Affine]) -> Result<Vec<Pred>> {
        let program = self.program;
        let rank = at.len();
        let guard = match &program.stmts[x].rhs {
            tssa::Rhs::Map { guard, .. } | tssa::Rhs::Contract { guard, .. } => guard,
            tssa::Rhs::Input { .. } | tssa::Rhs::Number(_) | tssa::Rhs::Add(_) => return Ok(Vec::new()),
        };
        let sums = program.stmts[x].rhs.sums().len();
        // Indices that the guard binds are numbered behind the `sum` indices, which the conjuncts taken do not mention.
        let unused = std::iter::repeat_n(Affine::constant(0), sums);
        let at: Vec<_> = at.iter().cloned().chain(unused).collect();
        let mut outer = Vec::new();
        for p in guard.conjuncts().iter().chain(guard.is_false().then_some(guard)) {
            let mut free = true;
            p.visit_free(&mut |i| free &= i.index() < rank);
            if free {
                outer.push(self.open(p, &at)?);
            }
        }
        Ok(outer)
    }
}

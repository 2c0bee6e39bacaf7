//! Where the statements of a row's entries are cut: what is computed flat, what that takes of the row, and what the row takes of it.
//!
//! Each number is made of the row, of the entry, or of both. Calls of what an entry has a part in are flat, with all that they depend on and an entry has
//! a part in. They take numbers that are of the row alone. What depends on them follows as long as no more numbers are taken or given for it. What no
//! such call has a part in is computed on both sides, if both need it.
//!
//! What is made of row and entry, such as a distance of three coordinates, could stay in the row, and be kept for its functions. That costs more than it
//! saves: the rows are then gone through twice, with lanes that are not in use.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::IndexId;
use crate::loops::{BufferId, Place, Real, RealId, Stmt};

/// What a number or index depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Of {
    row: bool,
    entry: bool,
    /// A call of a function that an entry has a part in.
    call: bool,
    /// Something that is known in its own row alone, when that is computed.
    fixed: bool,
}

impl Of {
    pub const NOTHING: Of = Of { row: false, entry: false, call: false, fixed: false };
    pub const ROW: Of = Of { row: true, ..Of::NOTHING };
    const ENTRY: Of = Of { entry: true, ..Of::NOTHING };
    pub const FIXED: Of = Of { fixed: true, ..Of::NOTHING };

    fn and(self, other: Of) -> Of {
        Of {
            row: self.row || other.row,
            entry: self.entry || other.entry,
            call: self.call || other.call,
            fixed: self.fixed || other.fixed,
        }
    }
}

/// What statements of an entry may name beyond their own.
pub(super) struct Around<'a> {
    /// The index of the loop over the entries of a row.
    pub entry: IndexId,
    pub index: &'a dyn Fn(IndexId) -> Of,
    pub real: &'a dyn Fn(RealId) -> Of,
    /// What the nest writes.
    pub written: &'a [BufferId],
    /// Whether what is stored at a place is stored by nothing else.
    pub stores: &'a dyn Fn(&Place) -> bool,
}

/// How the body of a loop over the entries of a row is cut.
pub(super) struct Cut {
    /// The statements that are flat.
    pub flat: BTreeSet<usize>,
    /// The stores of what they make, at the entry.
    pub stores: BTreeSet<usize>,
    /// The numbers that these take of the row.
    pub takes: BTreeSet<RealId>,
    /// The numbers that the row takes of these, beside what they store.
    pub gives: BTreeSet<RealId>,
}

impl Cut {
    /// The cut of a body; nothing where no function can be flat.
    pub fn of(body: &[Stmt], around: &Around<'_>) -> Option<Cut> {
        let body = Body::of(body, around)?;
        let needed = body.needed(|at| body.calls[at] && !body.of[at].fixed);
        let is_flat = |at: &usize| body.of[*at].entry || body.of[*at] == Of::NOTHING;
        let mut cut = body.cut(needed.into_iter().filter(is_flat).collect())?;
        body.follow(&mut cut);
        Some(cut)
    }
}

struct Body<'a> {
    stmts: &'a [Stmt],
    /// What each statement depends on.
    of: Vec<Of>,
    /// Which statements mention an index of the row, call a function of what an entry has a part in, store what nothing else stores.
    at_row: Vec<bool>,
    calls: Vec<bool>,
    stores: Vec<bool>,
    /// The numbers that are not the same for all rows and entries.
    differ: BTreeSet<RealId>,
    definers: BTreeMap<RealId, usize>,
    indices: BTreeMap<IndexId, usize>,
}

impl<'a> Body<'a> {
    /// Nothing where there is a loop or a test inside.
    fn of(stmts: &'a [Stmt], around: &Around<'_>) -> Option<Body<'a>> {
        let (definers, indices) = (BTreeMap::new(), BTreeMap::new());
        let mut body = Body {
            stmts,
            of: Vec::new(),
            at_row: Vec::new(),
            calls: Vec::new(),
            stores: Vec::new(),
            differ: BTreeSet::new(),
            definers,
            indices,
        };
        for (at, stmt) in stmts.iter().enumerate() {
            let (mut of, mut at_row, mut calls) = (Of::NOTHING, false, false);
            stmt.visit_indices(&mut |i| {
                let index = match body.indices.get(&i) {
                    _ if i == around.entry => Of::ENTRY,
                    Some(definer) => body.of[*definer],
                    None => (around.index)(i),
                };
                at_row |= index.row;
                of = of.and(index);
            });
            stmt.visit_reads(&mut |r| {
                let number = body.definers.get(&r).map_or_else(|| (around.real)(r), |definer| body.of[*definer]);
                if number != Of::NOTHING {
                    body.differ.insert(r);
                }
                of = of.and(number);
            });
            if stmt.load().is_some_and(|place| around.written.contains(&place.buffer)) {
                of = of.and(Of::FIXED);
            }
            match stmt {
                Stmt::Let { index, .. } => {
                    body.indices.insert(*index, at);
                }
                Stmt::Find { index, .. } => {
                    body.indices.insert(*index, at);
                    of = of.and(Of::FIXED);
                }
                Stmt::Define(r, real) => {
                    calls = of.entry && matches!(real, Real::Apply(function, _) if function.is_call());
                    of.call |= calls;
                    body.definers.insert(*r, at);
                }
                Stmt::Local(r) => {
                    body.definers.insert(*r, at);
                    of = Of::FIXED;
                }
                Stmt::Assign(..) | Stmt::Accumulate(..) | Stmt::MulAdd(..) | Stmt::Extend(..) | Stmt::Store(..) => {
                    of = of.and(Of::FIXED);
                }
                _ => return None,
            }
            body.of.push(of);
            body.at_row.push(at_row);
            body.calls.push(calls);
            body.stores.push(stmt.store().is_some_and(around.stores));
        }
        Some(body)
    }

    /// The statements that make the indices and numbers that a statement names.
    fn operands(&self, at: usize) -> Vec<usize> {
        let mut operands = Vec::new();
        self.stmts[at].visit_indices(&mut |i| operands.extend(self.indices.get(&i)));
        self.stmts[at].visit_reads(&mut |r| operands.extend(self.definers.get(&r)));
        operands
    }

    /// Statements, and all that they depend on.
    fn needed(&self, which: impl Fn(usize) -> bool) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut rest: Vec<usize> = (0..self.stmts.len()).filter(|at| which(*at)).collect();
        while let Some(at) = rest.pop() {
            if needed.insert(at) {
                rest.extend(self.operands(at));
            }
        }
        needed
    }

    /// The cut that has some statements flat; nothing where they take an index of the row, or give nothing.
    fn cut(&self, flat: BTreeSet<usize>) -> Option<Cut> {
        let moved: BTreeSet<usize> = flat.iter().copied().filter(|at| self.of[*at].call).collect();
        let (takes, (gives, stores)) = (self.takes(&flat), self.gives(&moved));
        let is_possible = !(gives.is_empty() && stores.is_empty()) && flat.iter().all(|at| !self.at_row[*at]);
        is_possible.then_some(Cut { flat, stores, takes, gives })
    }

    /// The numbers that the row has a part in and flat statements read but do not make.
    fn takes(&self, flat: &BTreeSet<usize>) -> BTreeSet<RealId> {
        let mut takes = BTreeSet::new();
        for at in flat {
            self.stmts[*at].visit_reads(&mut |r| {
                if self.differ.contains(&r) && self.definers.get(&r).is_none_or(|definer| !flat.contains(definer)) {
                    takes.insert(r);
                }
            });
        }
        takes
    }

    /// The numbers that moved statements make and others read, and the stores that are moved with them.
    fn gives(&self, moved: &BTreeSet<usize>) -> (BTreeSet<RealId>, BTreeSet<usize>) {
        let (mut gives, mut stores) = (BTreeSet::new(), BTreeSet::new());
        for (at, stmt) in self.stmts.iter().enumerate().filter(|(at, _)| !moved.contains(at)) {
            stmt.visit_reads(&mut |r| match self.definers.get(&r) {
                Some(definer) if moved.contains(definer) => match self.stores[at] {
                    true => stores.extend([at]),
                    false => gives.extend([r]),
                },
                _ => {}
            });
        }
        (gives, stores)
    }

    /// Moves what depends on moved statements, as long as no more numbers are kept for it.
    fn follow(&self, cut: &mut Cut) {
        for (at, stmt) in self.stmts.iter().enumerate() {
            let of = self.of[at];
            if !matches!(stmt, Stmt::Define(..)) || !of.call || of.fixed || cut.flat.contains(&at) {
                continue;
            }
            // What an entry alone makes is computed on both sides.
            let mut flat = self.needed(|needed| needed == at);
            flat.retain(|needed| *needed == at || !self.of[*needed].call && !self.of[*needed].row);
            flat.extend(&cut.flat);
            let no_more = |next: &Cut| next.takes.is_subset(&cut.takes) && next.gives.len() <= cut.gives.len();
            if let Some(next) = self.cut(flat).filter(no_more) {
                *cut = next;
            }
        }
    }
}

//! Which loops run in lanes, and which in parallel.
//!
//! A loop at the top of a nest runs in parallel if it adds to no register outside. Of nested loops at most one has lanes:
//!
//! | loop | lanes | why |
//! |---|---|---|
//! | around other loops, where each load and store is of neighbours or the same for all lanes | 32 | vectors of elements; the inner loops are not cut |
//! | innermost over a range, adds to a register | 16 | enough partial sums to hide the latency of an addition |
//! | innermost over the entries of a relation, adds to a register | 4 | rows are short, and lanes are added up after each |
//! | innermost, stores only | 32, or 8 over entries | |
//!
//! A loop whose inner bounds, tests or searches differ from lane to lane, or that looks for an extremum, has none.

use std::collections::BTreeSet;

use crate::base::IndexId;
use crate::index::{Affine, Var};
use crate::loops::{Domain, Nest, Place, Real, RealId, Stmt};

/// Sets lanes and parallel loops of a nest.
pub(super) fn assign(nest: &mut Nest) {
    run_parallel(&mut nest.body);
    lanes(&mut nest.body);
}

/// The outermost loops that add to no register outside.
fn run_parallel(body: &mut [Stmt]) {
    for stmt in body {
        match stmt {
            Stmt::For { parallel, body, .. } => *parallel = !changes_outside(body),
            Stmt::If { body, .. } => run_parallel(body),
            _ => {}
        }
    }
}

/// Whether statements give a value to a register that is declared outside.
fn changes_outside(body: &[Stmt]) -> bool {
    let (mut inside, mut changed) = (BTreeSet::new(), BTreeSet::new());
    for stmt in body {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Local(r) => {
                inside.insert(*r);
            }
            Stmt::Assign(r, _) | Stmt::Accumulate(r, _) => {
                changed.insert(*r);
            }
            _ => {}
        });
    }
    !changed.is_subset(&inside)
}

fn lanes(body: &mut [Stmt]) {
    for stmt in body {
        match stmt {
            Stmt::For { index, domain, lanes: count, body, .. } => match choose(*index, domain, body) {
                Some(found) => *count = found,
                None => lanes(body),
            },
            Stmt::If { body, .. } | Stmt::Extremum { body, .. } => lanes(body),
            _ => {}
        }
    }
}

/// Whether a loop around others runs in lanes that are independent of each other.
pub(super) fn independent(index: IndexId, body: &[Stmt]) -> bool {
    let whole = Domain::Range { lower: Vec::new(), upper: Vec::new() };
    body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })) && choose(index, &whole, body).is_some()
}

/// The lanes of a loop, nothing where it has none.
fn choose(index: IndexId, domain: &Domain, body: &[Stmt]) -> Option<u32> {
    let mut seen = Seen {
        index,
        indices: [index].into(),
        reals: BTreeSet::new(),
        has_loops: false,
        neighbours: false,
        gathers: false,
    };
    if !seen.body(body) {
        return None;
    }
    let over_entries = matches!(domain, Domain::Segment(_));
    match (seen.has_loops, changes_outside(body)) {
        (true, _) if seen.gathers || !seen.neighbours => None,
        (true, _) => Some(32),
        (false, true) if over_entries => Some(4),
        (false, true) => Some(16),
        (false, false) if over_entries => Some(8),
        (false, false) => Some(32),
    }
}

/// What the body of a loop does that differs from lane to lane.
struct Seen {
    index: IndexId,
    indices: BTreeSet<IndexId>,
    reals: BTreeSet<RealId>,
    has_loops: bool,
    /// Neighbours are loaded or stored.
    neighbours: bool,
    /// Places far apart are.
    gathers: bool,
}

impl Seen {
    fn varies(&self, a: &Affine) -> bool {
        a.terms().iter().any(|(v, _)| matches!(v, Var::Index(i) if self.indices.contains(i)))
    }

    /// Whether statements can run in lanes.
    fn body(&mut self, body: &[Stmt]) -> bool {
        body.iter().all(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> bool {
        let mut varies = false;
        stmt.visit_affine(&mut |a| varies |= self.varies(a));
        match stmt {
            Stmt::For { body, .. } => {
                self.has_loops = true;
                !varies && self.body(body)
            }
            Stmt::If { cond, body } => {
                cond.visit_reads(&mut |r| varies |= self.reals.contains(&r));
                !varies && self.body(body)
            }
            Stmt::Find { .. } => !varies,
            Stmt::Extremum { .. } | Stmt::Fill(_) => false,
            Stmt::Let { index, .. } => {
                if varies {
                    self.indices.insert(*index);
                }
                true
            }
            Stmt::Define(r, real) => {
                real.visit_reads(&mut |a| varies |= self.reals.contains(&a));
                if varies {
                    self.reals.insert(*r);
                }
                if let Real::Load(place) = real {
                    self.place(place);
                }
                true
            }
            // A number for each lane.
            Stmt::Local(r) => {
                self.reals.insert(*r);
                true
            }
            Stmt::Assign(..) | Stmt::Accumulate(..) => true,
            Stmt::Store(place, _) => {
                self.place(place);
                true
            }
        }
    }

    fn place(&mut self, place: &Place) {
        let Some((last, others)) = place.at.split_last() else { return };
        let step = last.coefficient(&Var::Index(self.index));
        let rest = last.terms().iter().filter(|(v, _)| *v != Var::Index(self.index));
        let rest_varies = rest.into_iter().any(|(v, _)| matches!(v, Var::Index(i) if self.indices.contains(i)));
        let others_vary = others.iter().any(|a| self.varies(a));
        match (others_vary || rest_varies, step) {
            (false, 0) => {}
            (false, 1) => self.neighbours = true,
            _ => self.gathers = true,
        }
    }
}

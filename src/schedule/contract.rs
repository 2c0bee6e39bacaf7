//! Products that are added and read nowhere else are rounded once, with the sum.
//!
//! ```text
//! r = a * b                        r = a * b
//! s += r       ==  s += a * b      s = x + r     ==  s = a * b + x
//! ```
//!
//! where nothing in between changes `a` or `b`. This is one instruction where there were two, and nearer to the exact sum. Products that may be
//! stored before they are added, in [bins], stay.

use std::collections::{BTreeMap, BTreeSet};

use super::bins;
use crate::error::Result;
use crate::loops::{Program, Real, RealId, Stmt};

/// Puts products into sums.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { signature, arrays, nests, .. } = program;
    let stored_before = |stmt: &Stmt| bins::Gather::of(signature, arrays, stmt).is_some_and(|gather| gather.alone);
    for nest in nests {
        let contraction = Contraction::but_for(&stored_before, &nest.body);
        contraction.apply(&mut nest.body);
    }
    Ok(())
}

/// Which products go into sums, with their factors.
#[derive(Debug, Default)]
pub(super) struct Contraction {
    products: BTreeMap<RealId, (RealId, RealId)>,
}

impl Contraction {
    /// The products of statements that go into sums.
    pub(super) fn of(body: &[Stmt]) -> Contraction {
        Contraction::but_for(&|_| false, body)
    }

    /// The same, but for those inside of some statements.
    fn but_for(stay: &dyn Fn(&Stmt) -> bool, body: &[Stmt]) -> Contraction {
        let mut uses: BTreeMap<RealId, usize> = BTreeMap::new();
        for stmt in body {
            stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| *uses.entry(r).or_default() += 1));
        }
        let once = uses.into_iter().filter(|(_, count)| *count == 1).map(|(r, _)| r).collect();
        let mut found = Contraction::default();
        found.body(stay, body, &once);
        found
    }

    fn body(&mut self, stay: &dyn Fn(&Stmt) -> bool, stmts: &[Stmt], once: &BTreeSet<RealId>) {
        let mut movable = Movable::default();
        for stmt in stmts {
            let summands = match stmt {
                _ if stay(stmt) => [None, None],
                Stmt::For { body, .. } | Stmt::Extremum { body, .. } | Stmt::If { body, .. } => {
                    self.body(stay, body, once);
                    [None, None]
                }
                Stmt::Accumulate(_, r) => [Some(*r), None],
                Stmt::Define(_, Real::Add(x, y)) => [Some(*y), Some(*x)],
                _ => [None, None],
            };
            // Of two products one goes into the sum of both.
            let moved = summands.into_iter().flatten().find_map(|r| Some((r, movable.take(r)?)));
            self.products.extend(moved);
            stmt.visit(&mut |stmt| stmt.changes().into_iter().for_each(|r| movable.stop(r)));
            if let Stmt::Define(r, Real::Mul(a, b)) = stmt
                && once.contains(r)
            {
                movable.insert(*r, (*a, *b));
            }
        }
    }

    /// Whether a register is a product that goes into a sum.
    pub(super) fn moves(&self, r: RealId) -> bool {
        self.products.contains_key(&r)
    }

    /// Whether a statement adds, or will add, a product to a register.
    pub(super) fn adds_product(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::MulAdd(..) => true,
            Stmt::Accumulate(_, r) => self.moves(*r),
            _ => false,
        }
    }

    fn apply(&self, stmts: &mut Vec<Stmt>) {
        stmts.retain(|stmt| !matches!(stmt, Stmt::Define(r, _) if self.moves(*r)));
        for stmt in stmts {
            match stmt {
                Stmt::For { body, .. } | Stmt::Extremum { body, .. } | Stmt::If { body, .. } => self.apply(body),
                Stmt::Accumulate(sum, r) => {
                    if let Some((a, b)) = self.products.get(r) {
                        *stmt = Stmt::MulAdd(*sum, *a, *b);
                    }
                }
                Stmt::Define(_, real) => {
                    let &mut Real::Add(x, y) = real else { continue };
                    let (product, other) = if self.moves(y) { (y, x) } else { (x, y) };
                    if let Some((a, b)) = self.products.get(&product) {
                        *real = Real::MulAdd(*a, *b, other);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Products of a body that may still move, and of which of them a register is a factor.
#[derive(Default)]
struct Movable {
    products: BTreeMap<RealId, (RealId, RealId)>,
    readers: BTreeMap<RealId, Vec<RealId>>,
}

impl Movable {
    fn insert(&mut self, r: RealId, (a, b): (RealId, RealId)) {
        self.products.insert(r, (a, b));
        for factor in [a, b] {
            self.readers.entry(factor).or_default().push(r);
        }
    }

    fn take(&mut self, r: RealId) -> Option<(RealId, RealId)> {
        self.products.remove(&r)
    }

    /// A register changes: what it is a factor of stays where it is.
    fn stop(&mut self, factor: RealId) {
        for r in self.readers.remove(&factor).unwrap_or_default() {
            self.products.remove(&r);
        }
    }
}

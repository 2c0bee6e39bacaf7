//! Those of the statements of a row that some numbers depend on, and what nobody depends on.

use std::collections::BTreeSet;

use crate::base::IndexId;
use crate::loops::{RealId, Stmt};

/// What is read of statements, from the last one to the first.
#[derive(Default)]
pub(super) struct Slice {
    reals: BTreeSet<RealId>,
    indices: BTreeSet<IndexId>,
    /// Whether what is stored is read.
    stores: bool,
}

impl Slice {
    /// Some registers are read.
    pub fn reading(reals: &BTreeSet<RealId>) -> Slice {
        Slice { reals: reals.clone(), ..Slice::default() }
    }

    /// Statements are read, and those inside of them.
    pub fn read(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| stmt.visit(&mut |stmt| self.read_alone(stmt)));
    }

    /// The statements that make what is read, with the loops and tests around them.
    pub fn of(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        // What a loop reads may change further down in its body.
        loop {
            let known = (self.reals.len(), self.indices.len());
            let kept = self.once(body);
            if known == (self.reals.len(), self.indices.len()) {
                return kept;
            }
        }
    }

    fn once(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut kept = Vec::new();
        for stmt in body.iter().rev() {
            let stmt = match stmt {
                Stmt::For { body, .. } | Stmt::If { body, .. } => match self.once(body) {
                    inside if inside.is_empty() => continue,
                    inside => stmt.with_body(inside),
                },
                stmt if !self.is_read(stmt) => continue,
                stmt => {
                    self.read(stmt.body());
                    stmt.clone()
                }
            };
            self.read_alone(&stmt);
            kept.push(stmt);
        }
        kept.reverse();
        kept
    }

    fn is_read(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::For { .. } | Stmt::If { .. } => true,
            Stmt::Let { index, .. }
            | Stmt::Find { index, .. }
            | Stmt::Length { index, .. }
            | Stmt::Extremum { index, .. } => self.indices.contains(index),
            Stmt::Define(r, _)
            | Stmt::Local(r)
            | Stmt::Assign(r, _)
            | Stmt::Accumulate(r, _)
            | Stmt::MulAdd(r, ..)
            | Stmt::Extend(_, r, _) => self.reals.contains(r),
            Stmt::End(_) | Stmt::Store(..) | Stmt::Fill(_) | Stmt::Call { .. } | Stmt::Tuple(..) => self.stores,
        }
    }

    /// What a statement reads, without what is inside.
    fn read_alone(&mut self, stmt: &Stmt) {
        stmt.visit_reads(&mut |r| self.reals.extend([r]));
        stmt.visit_indices(&mut |i| self.indices.extend([i]));
    }
}

/// Drops what nothing that is stored depends on.
pub(super) fn without_unread(body: &mut Vec<Stmt>) {
    *body = Slice { stores: true, ..Slice::default() }.of(body);
}

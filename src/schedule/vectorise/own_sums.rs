//! Sums over a whole nest, of rows whose iterations are to be interleaved.
//!
//! ```text
//! for i                                for i
//!   for j, lanes 32                      local t
//!     local s                            for j, lanes 32
//!     for k { s += a[i, k] * b[k, j] }     local s
//!     r += f(s)                    ==      for k { s += a[i, k] * b[k, j] }
//!                                          t += f(s)
//!                                        r += t
//! ```
//!
//! The value of a loss adds up a function of the elements of a product, of which nothing is stored. Its rows would share what they load, but add to
//! one register in turn; with a register of their own they only do so at their ends.
//!
//! **Where it is done.** In loops whose iterations would be interleaved but for such sums, and around lanes that are around loops. A row that is gone
//! through several times stays in the cache, and shares less.

use super::{Gain, JAM, Plan, adds_up_loops, could_jam, literal};
use crate::base::IndexId;
use crate::loops::{Domain, Fresh, Nest, Outlook, RealId, Stmt, outer_sums};

/// Gives the iterations of loops sums of their own, where they can be interleaved then; whether there are any.
pub(super) fn give(plan: &Plan<'_>, nest: &mut Nest) -> bool {
    let mut pass = Pass { plan, names: Fresh::after(&nest.body), found: false };
    pass.body(&mut nest.body, 1);
    pass.found
}

struct Pass<'a> {
    plan: &'a Plan<'a>,
    names: Fresh,
    found: bool,
}

impl Pass<'_> {
    /// Innermost loops first; whether there is one whose iterations are interleaved. `around` are the lanes of the loops around.
    fn body(&mut self, body: &mut [Stmt], around: u32) -> bool {
        let mut any = false;
        for stmt in body {
            match stmt {
                Stmt::For { index, domain, lanes, jam, body, .. } => {
                    let lanes = self.plan.lanes(*index, *lanes);
                    let around = around.max(lanes);
                    let inside = self.body(body, around) || self.plan.jam(*index, *jam) > 1;
                    let is_long = literal(domain).is_none_or(|n| n > i64::from(JAM));
                    let can = !inside && lanes == 1 && is_long && matches!(domain, Domain::Range { .. });
                    any |= inside || can && self.give(*index, body, around);
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => any |= self.body(body, around),
                _ => {}
            }
        }
        any
    }

    /// Gives iterations sums of their own, if that is all that they need to be interleaved.
    fn give(&mut self, index: IndexId, body: &mut Vec<Stmt>, around: u32) -> bool {
        if !self.adds_up_in_lanes(body) {
            return false;
        }
        let gain = Gain::of(self.plan, index, body, around);
        if !gain.pays || !gain.fits || could_jam(self.plan, index, body) {
            return false;
        }
        let own = self.with_own_sums(body);
        let can = could_jam(self.plan, index, &own);
        if can {
            *body = own;
            self.found = true;
        }
        can
    }

    /// Whether lanes around loops add to a register outside.
    fn adds_up_in_lanes(&self, body: &[Stmt]) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::For { index, lanes, body, .. } if self.plan.lanes(*index, *lanes) > 1 => adds_up_loops(body),
            stmt => self.adds_up_in_lanes(stmt.body()),
        })
    }

    /// A body that adds to registers of its own, and what these have to those outside at its end.
    fn with_own_sums(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut all = Vec::with_capacity(body.len() + 2);
        let mut behind = Vec::new();
        let mut body = body.to_vec();
        for outside in outer_sums(&body) {
            let own = self.names.fresh_real();
            rename(&mut body, outside, own);
            all.push(Stmt::Local(own));
            behind.push(Stmt::Accumulate(outside, own));
        }
        all.append(&mut body);
        all.append(&mut behind);
        all
    }
}

/// Adds to one register what goes to another.
fn rename(body: &mut [Stmt], from: RealId, to: RealId) {
    for stmt in body {
        match stmt {
            Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) if *r == from => *r = to,
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => rename(body, from, to),
            _ => {}
        }
    }
}

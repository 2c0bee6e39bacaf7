//! A copy that no lanes read along its last axis is not read: what it was made from is.
//!
//! ```text
//! for j in 0 .. m - 1, lanes 64                 for j in 0 .. m - 1, lanes 64
//!   for k in 0 .. p - 1                           for k in 0 .. p - 1
//!     r += a_packed[k, i] * b[k, j]     ==          r += a[i, k] * b[k, j]
//! ```
//!
//! [`pack`] copies a parameter for the lanes that its readers would have. Where nests were [joined](super::fuse) they may have got others:
//! then a number of the copy is one for all lanes, and the innermost loop has neighbours in the parameter and not in the copy. A copy that nothing reads
//! any more goes.
//!
//! **Why it is right.** A copy has the numbers of the parameter, with their axes in another order.

use std::collections::BTreeSet;

use super::{hold, pack};
use crate::base::IndexId;
use crate::error::Result;
use crate::loops::{BufferId, Decision, Place, Program, Real, Stmt, loads, name_of};

/// Reads parameters instead of copies.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let copies = pack::copies(program);
    let mut found = false;
    for copy in &copies {
        for nest in program.nests.iter_mut().skip(copies.len()) {
            let mut uses = Uses { copy: copy.to, gains: false, reads: false };
            uses.body(&nest.body, &mut Around::default());
            if uses.reads && !uses.gains {
                restore(&mut nest.body, copy);
                nest.decisions.push(Decision::Uncopied { tensor: name_of(&program.buffers, copy.param) });
                found = true;
            }
        }
    }
    if found {
        let read: BTreeSet<BufferId> =
            program.nests.iter().flat_map(|nest| loads(&nest.body)).map(|place| place.buffer).collect();
        let gone: BTreeSet<BufferId> = copies.iter().map(|copy| copy.to).filter(|to| !read.contains(to)).collect();
        program.nests.retain(|nest| !nest.buffers.iter().any(|buffer| gone.contains(buffer)));
        hold::compact(program);
    }
    Ok(())
}

/// The loops around a statement.
#[derive(Default)]
struct Around {
    loops: Vec<IndexId>,
    lanes: Vec<IndexId>,
}

/// How a nest reads a copy.
struct Uses {
    copy: BufferId,
    reads: bool,
    /// Some lanes have neighbours in it, or there are none, or the innermost loop has.
    gains: bool,
}

impl Uses {
    fn body(&mut self, body: &[Stmt], around: &mut Around) {
        for stmt in body {
            if let Some(place) = stmt.load().filter(|place| place.buffer == self.copy) {
                self.reads = true;
                self.gains |= self.is_better(place, around);
            }
            if let Stmt::For { index, lanes, body, .. } = stmt {
                around.loops.push(*index);
                around.lanes.extend((*lanes > 1).then_some(*index));
                self.body(body, around);
                around.loops.pop();
                if *lanes > 1 {
                    around.lanes.pop();
                }
            } else {
                self.body(stmt.body(), around);
            }
        }
    }

    fn is_better(&self, place: &Place, around: &Around) -> bool {
        let varies = around.lanes.iter().any(|i| place.at.iter().any(|a| a.mentions(*i)));
        let next = |i: &IndexId| place.at.last().is_some_and(|a| a.mentions(*i));
        around.lanes.is_empty() || varies || around.loops.last().is_some_and(next)
    }
}

fn restore(body: &mut [Stmt], copy: &pack::Copy) {
    for stmt in body {
        match stmt {
            Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => restore(body, copy),
            Stmt::Define(_, Real::Load(place)) | Stmt::Length { place, .. } if place.buffer == copy.to => {
                place.buffer = copy.param;
                let last = place.at.pop();
                place.at.splice(copy.axis..copy.axis, last);
            }
            _ => {}
        }
    }
}

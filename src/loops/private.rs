//! Workspaces of which each iteration of a parallel loop has a row of its own that nobody else sees.
//!
//! ```text
//! parallel for i                            parallel for i
//!   for j { t[i, j] = f(i, j) }               for j { t[0, j] = f(i, j) }
//!   for j { s += t[i, j] * t[i, j] }   ==     for j { s += t[0, j] * t[0, j] }
//!   x[i] = s                                  x[i] = s
//! ```
//!
//! where each thread has a `t` of its own: a row is at hand while it is used, and the next one takes its place, so `t` needs room for as many rows as
//! there are threads. Text and numbers of the loops stay as they are; what a kernel allocates, and where a place is in it, follow from here.
//!
//! **Why it is right.** All places of such a workspace are in one loop at the top of one nest, with its index on one axis, and it is not made zero
//! before. What an iteration reads of it, the same iteration has stored: nests read no workspace at places where nothing was stored
//! ([`Program::verify`](super::Program::verify) and what makes nests see to that), and no other iteration stores there. Iterations of the loop are
//! neither interleaved nor in lanes, so one thread is at one of them at a time.

use std::collections::BTreeMap;

use super::data::{BufferId, BufferKind, Place, Program, Stmt};
use crate::base::IndexId;
use crate::index::Affine;

impl Program {
    /// The workspaces of which iterations have rows of their own, each with its axis of these iterations.
    pub(crate) fn private_axes(&self) -> BTreeMap<BufferId, usize> {
        let mut homes: BTreeMap<BufferId, Option<Home>> = BTreeMap::new();
        for (at, nest) in self.nests.iter().enumerate() {
            for (number, top) in nest.body.iter().enumerate() {
                let index = row_index(top);
                top.visit(&mut |stmt| match stmt {
                    Stmt::Fill(buffer) => drop(homes.insert(*buffer, None)),
                    stmt => {
                        for place in stmt.loads().chain(stmt.stores()) {
                            let here = index.and_then(|index| Home::of(place, index, (at, number)));
                            let known = homes.entry(place.buffer).or_insert_with(|| here.clone());
                            *known = known.take().zip(here).and_then(|(known, here)| known.and(&here));
                        }
                    }
                });
            }
        }
        let is_private = |b: &BufferId| {
            let kind = self.buffers.get(*b).map(|buffer| buffer.kind);
            kind == Some(BufferKind::Workspace) && self.rounded.iter().all(|rounded| rounded.from != *b)
        };
        let homes = homes.into_iter().filter(|(b, _)| is_private(b));
        homes.filter_map(|(b, home)| Some((b, *home?.axes.first()?))).collect()
    }
}

/// Where all places of a buffer are.
#[derive(Clone)]
struct Home {
    /// The nest, and the statement of its body.
    at: (usize, usize),
    /// The axes that have the index of the loop.
    axes: Vec<usize>,
}

impl Home {
    fn of(place: &Place, index: IndexId, at: (usize, usize)) -> Option<Home> {
        let own = |a: &Affine| a.as_index() == Some(index);
        let axes: Vec<usize> = place.at.iter().enumerate().filter(|(_, a)| own(a)).map(|(axis, _)| axis).collect();
        (!axes.is_empty()).then_some(Home { at, axes })
    }

    fn and(mut self, other: &Home) -> Option<Home> {
        self.axes.retain(|axis| other.axes.contains(axis));
        (self.at == other.at && !self.axes.is_empty()).then_some(self)
    }
}

/// The index of a loop whose iterations may run at the same time, each as a whole.
fn row_index(stmt: &Stmt) -> Option<IndexId> {
    match stmt {
        Stmt::For { index, lanes: 1, jam: 1, parallel: true, .. } => Some(*index),
        _ => None,
    }
}

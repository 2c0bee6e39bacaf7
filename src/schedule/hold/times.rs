//! What may change between calls: a forward analysis, repeated until nothing is added.
//!
//! A number changes if it is made of one that does, or under a test, a loop or an index that does; a register or a buffer, if anything that
//! is written to it does; what a function from outside gives is taken to change. So what does not change may be computed elsewhere, under the same loops and tests.

use std::collections::BTreeSet;

use super::graph::{Graph, Index, Register};
use crate::base::{Arena, ParamId};
use crate::loops::{Buffer, BufferId, BufferKind, Stmt};

/// What changes.
pub(super) struct Changing {
    reals: BTreeSet<Register>,
    indices: BTreeSet<Index>,
    buffers: BTreeSet<BufferId>,
}

impl Changing {
    pub fn new(graph: &Graph<'_>, buffers: &Arena<BufferId, Buffer>, constants: &BTreeSet<ParamId>) -> Changing {
        let given = |buffer: &Buffer| match buffer.kind {
            BufferKind::Param(param, _) => !constants.contains(&param),
            BufferKind::Held(_) | BufferKind::Output(..) | BufferKind::Workspace => false,
        };
        let given = buffers.iter().filter(|(_, buffer)| given(buffer)).map(|(id, _)| id).collect();
        let mut changing = Changing { reals: BTreeSet::new(), indices: BTreeSet::new(), buffers: given };
        // Each round adds a register, an index or a buffer, or is the last.
        while changing.round(graph) {}
        changing
    }

    /// Whether something was added.
    fn round(&mut self, graph: &Graph<'_>) -> bool {
        let mut around = vec![false; graph.nodes.len()];
        let mut added = false;
        for (at, node) in graph.nodes.iter().enumerate() {
            let changes = node.parent.is_some_and(|parent| around[parent])
                || graph.reads(at).iter().any(|r| self.reals.contains(r))
                || graph.mentions(at).iter().any(|i| self.indices.contains(i))
                || node.stmt.body().iter().any(|stmt| matches!(stmt, Stmt::End(r) if self.real((node.nest, *r))))
                || matches!(node.stmt, Stmt::Call { .. })
                || node.stmt.load().is_some_and(|place| self.buffers.contains(&place.buffer));
            if !changes {
                continue;
            }
            around[at] = true;
            added |= match node.stmt {
                Stmt::Define(r, _)
                | Stmt::Local(r)
                | Stmt::Assign(r, _)
                | Stmt::Accumulate(r, _)
                | Stmt::MulAdd(r, ..)
                | Stmt::Extend(_, r, _) => self.reals.insert((node.nest, *r)),
                Stmt::For { index, .. }
                | Stmt::Let { index, .. }
                | Stmt::Find { index, .. }
                | Stmt::Length { index, .. } => self.indices.insert((node.nest, *index)),
                Stmt::Extremum { index, at, .. } => {
                    self.indices.insert((node.nest, *at)) | self.indices.insert((node.nest, *index))
                }
                Stmt::Store(place, _) => self.buffers.insert(place.buffer),
                Stmt::Fill(buffer) => self.buffers.insert(*buffer),
                Stmt::Call { gives, .. } => {
                    gives.iter().fold(false, |added, run| added | self.buffers.insert(run.place.buffer))
                }
                Stmt::If { .. } | Stmt::End(_) | Stmt::Tuple(..) => false,
            };
        }
        added
    }

    pub fn real(&self, r: Register) -> bool {
        self.reals.contains(&r)
    }

    pub fn buffer(&self, buffer: BufferId) -> bool {
        self.buffers.contains(&buffer)
    }
}

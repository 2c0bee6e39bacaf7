//! Which buffers are stored in single precision.
//!
//! Lowering leaves all of them in double precision. A parameter may change at will, since a load widens what it holds. An output is rounded when
//! it is stored, so no nest may read it afterwards: one that is read becomes a workspace, and is rounded to the output at the end.

use std::collections::BTreeSet;

use super::data::{Buffer, BufferId, BufferKind, Program, Rounded};
use crate::error::{Error, Result};
use crate::tensor::Precision;

impl Program {
    /// Stores the parameters and the results of these names in single precision.
    ///
    /// A kernel then takes `f32` for these parameters, and rounds these results to `f32` once, when they are stored; everything is still
    /// computed in double precision. A name that a parameter and a result share is that of both.
    ///
    /// # Errors
    /// [`Error::Request`] for a name that neither has; nothing is changed then.
    pub fn store_in_single(&mut self, names: &[&str]) -> Result<()> {
        let mut found = Vec::new();
        for name in names {
            let before = found.len();
            let buffers = self.buffers.iter().filter(|(b, _)| self.name_of(*b) == Some(*name));
            found.extend(buffers.map(|(b, _)| b));
            // A parameter that no nest reads has no buffer.
            if found.len() == before && !self.signature.params.values().any(|param| param.name == *name) {
                return Err(Error::Request(format!("the program has no parameter and no result `{name}`")));
            }
        }
        for buffer in found {
            self.store_buffer_in_single(buffer)?;
        }
        Ok(())
    }

    /// Stores all results in single precision.
    ///
    /// # Errors
    /// [`Error::Bug`].
    pub fn store_results_in_single(&mut self) -> Result<()> {
        let all: Vec<BufferId> = self.outputs.iter().flat_map(|(_, leaves)| leaves.iter().copied()).collect();
        all.into_iter().try_for_each(|buffer| self.store_buffer_in_single(buffer))
    }

    /// The name of the parameter or result that a buffer is a leaf of.
    fn name_of(&self, buffer: BufferId) -> Option<&str> {
        match self.buffers.get(buffer)?.kind {
            BufferKind::Param(param, _) => self.signature.params.get(param).map(|param| param.name.as_str()),
            BufferKind::Output(output, _) => self.outputs.get(output).map(|(name, _)| name.as_str()),
            BufferKind::Workspace => None,
        }
    }

    /// Stores a leaf of a parameter or of a result in single precision.
    pub(crate) fn store_buffer_in_single(&mut self, buffer: BufferId) -> Result<()> {
        let unknown = || Error::bug("precision", "a buffer that is not there");
        let known = self.buffers.get(buffer).ok_or_else(unknown)?;
        match known.kind {
            BufferKind::Output(output, leaf) if self.reads().contains(&buffer) => {
                let result = Buffer { precision: Precision::Single, ..known.clone() };
                let wide =
                    Buffer { name: format!("{}.wide", result.name), kind: BufferKind::Workspace, ..known.clone() };
                self.buffers[buffer] = wide;
                let to = self.buffers.push(result);
                let leaves = self.outputs.get_mut(output).map(|(_, leaves)| leaves);
                *leaves.and_then(|leaves| leaves.get_mut(leaf)).ok_or_else(unknown)? = to;
                self.rounded.push(Rounded { from: buffer, to });
            }
            BufferKind::Param(..) | BufferKind::Output(..) => {
                self.buffers[buffer].precision = Precision::Single;
            }
            BufferKind::Workspace => return Err(Error::bug("precision", "a workspace in single precision")),
        }
        Ok(())
    }

    /// The buffers that nests read.
    fn reads(&self) -> BTreeSet<BufferId> {
        let mut reads = BTreeSet::new();
        for stmt in self.nests.iter().flat_map(|nest| &nest.body) {
            stmt.visit(&mut |stmt| reads.extend(stmt.load().map(|place| place.buffer)));
        }
        reads
    }
}

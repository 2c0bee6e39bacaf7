//! Which buffers are stored in single precision.
//!
//! Lowering leaves all of them in double precision. A parameter may change at will, since a load widens what it holds. An output is rounded when
//! it is stored, so no nest may read it afterwards: one that is read becomes a workspace, and is rounded to the output at the end.

use std::collections::BTreeSet;

use super::data::{Buffer, BufferId, BufferKind, Program, Rounded};
use crate::error::{Error, Result};
use crate::ty::{Precision, is_part, leaf_name};

impl Program {
    /// Stores the parameters and the results of these names in single precision.
    ///
    /// A kernel then takes `f32` for these parameters, and rounds these results to `f32` once, when they are stored; everything is still
    /// computed in double precision. A name that a parameter and a result share is that of both; a component is `ab.0`, and the second of several
    /// results `value.1`.
    ///
    /// # Errors
    /// [`Error::Request`] for a name that neither has; nothing is changed then.
    pub fn store_in_single(&mut self, names: &[&str]) -> Result<()> {
        let mut found = BTreeSet::new();
        for name in names {
            let is_named = |b: &BufferId| self.name_of(*b).is_some_and(|known| is_part(&known, name));
            let buffers: Vec<BufferId> = self.buffers.ids().filter(is_named).collect();
            // A parameter that no nest reads has no buffer.
            if buffers.is_empty() && !self.signature.params.values().any(|param| is_part(name, &param.name)) {
                return Err(Error::Request(format!("the program has no parameter and no result `{name}`")));
            }
            found.extend(buffers);
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

    /// The name of a leaf of a parameter or a result.
    fn name_of(&self, buffer: BufferId) -> Option<String> {
        match self.buffers.get(buffer)?.kind {
            BufferKind::Param(param, leaf) => {
                let param = self.signature.params.get(param)?;
                let leaves = self.signature.types.leaves(param.ty).ok()?;
                leaves.get(leaf).map(|leaf| leaf_name(&param.name, &leaf.path))
            }
            BufferKind::Output(output, leaf) => {
                let (name, leaves) = self.outputs.get(output)?;
                Some(if leaves.len() == 1 { name.clone() } else { format!("{name}.{leaf}") })
            }
            BufferKind::Held(_) | BufferKind::Workspace => None,
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
            BufferKind::Held(_) | BufferKind::Workspace => {
                return Err(Error::bug("precision", "what belongs to no parameter and no result has its precision"));
            }
        }
        Ok(())
    }

    /// The buffers that nests read.
    fn reads(&self) -> BTreeSet<BufferId> {
        let mut reads = BTreeSet::new();
        for stmt in self.nests.iter().flat_map(|nest| &nest.body) {
            stmt.visit(&mut |stmt| reads.extend(stmt.loads().map(|place| place.buffer)));
        }
        reads
    }
}

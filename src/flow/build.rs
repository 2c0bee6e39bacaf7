//! Building flows.

use std::sync::Arc;

use super::data::{Leaf, Loops, Output, Program, Stmt, Value, ValueId, free_name, leaf_signature};
use crate::base::{Arena, SizeId};
use crate::error::{Error, Result};
use crate::index::{Pred, Size};
use crate::tssa;
use crate::ty::{Signature, Storage, TypeId, Types};

/// Builds a flow: makes values and loop indices, and closes leaves.
#[derive(Clone, Debug)]
pub struct Builder {
    signature: Arc<Signature>,
    frame: Arc<Signature>,
    values: Arena<ValueId, Value>,
}

impl Builder {
    /// A flow without values.
    pub fn new(signature: Arc<Signature>) -> Builder {
        Builder { frame: signature.clone(), signature, values: Arena::new() }
    }

    /// Continues a flow, whose values and loop indices keep their numbers.
    pub fn resume(program: &Program) -> Builder {
        let Program { signature, frame, values, .. } = program;
        Builder { signature: signature.clone(), frame: frame.clone(), values: values.clone() }
    }

    /// What the flow takes from outside.
    pub fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// What leaves build on.
    pub fn frame(&self) -> &Arc<Signature> {
        &self.frame
    }

    /// The types of values, to which more may be added.
    pub fn types(&mut self) -> &mut Types {
        &mut Arc::make_mut(&mut self.frame).types
    }

    /// A new value.
    pub fn value(&mut self, name: impl Into<String>, ty: TypeId, storage: Storage) -> ValueId {
        self.values.push(Value { name: name.into(), ty, storage })
    }

    /// Gives a value another type.
    pub(super) fn retype(&mut self, x: ValueId, ty: TypeId) {
        self.values[x].ty = ty;
    }

    /// Gives a value another storage.
    pub(super) fn store(&mut self, x: ValueId, storage: Storage) {
        self.values[x].storage = storage;
    }

    /// A value that is there.
    pub fn get(&self, x: ValueId) -> &Value {
        &self.values[x]
    }

    /// The axes of a value.
    ///
    /// # Errors
    /// [`Error::Bug`] for one that is no tensor of reals.
    pub fn dims(&self, x: ValueId) -> Result<Vec<Size>> {
        let dims = self.frame.types.real_dims(self.get(x).ty);
        dims.ok_or_else(|| Error::bug("flow", "a value that is no tensor of reals"))
    }

    /// Has the flow assume something of its sizes.
    pub(super) fn assume(&mut self, p: Pred) {
        Arc::make_mut(&mut self.signature).assumptions.push(p.clone());
        Arc::make_mut(&mut self.frame).assumptions.push(p);
    }

    /// A new loop index.
    pub fn index(&mut self, name: &str) -> SizeId {
        let name = free_name(&self.frame, name);
        Arc::make_mut(&mut self.frame).sizes.push(name)
    }

    /// The signature of a leaf inside of some loops that takes some values.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn leaf_signature(&self, loops: &Loops, takes: &[ValueId]) -> Result<Arc<Signature>> {
        leaf_signature(&self.frame, &self.values, loops, takes)
    }

    /// A leaf of which each output is a new value, of the output's type and storage and with a name.
    pub fn leaf(&mut self, program: tssa::Program, takes: Vec<ValueId>, names: &[String]) -> Leaf {
        let mut gives = Vec::with_capacity(program.outputs.len());
        for (at, output) in program.outputs.iter().enumerate() {
            let name = names.get(at).map_or("t", String::as_str);
            gives.push(self.value(name, output.ty, output.storage));
        }
        Leaf { program, takes, gives }
    }

    /// The type of `[n] T` for the type `T` of some values.
    pub fn tensor(&mut self, n: Size, element: TypeId) -> TypeId {
        self.types().tensor(n, element)
    }

    /// Ends the flow.
    pub fn finish(self, body: Vec<Stmt>, outputs: Vec<Output>) -> Program {
        let Builder { signature, frame, values } = self;
        Program { signature, frame, values, body, outputs }
    }
}

/// A program with one output that is a tuple, with an output for each of its leaves, of these names and types.
///
/// # Errors
/// [`Error::Bug`] where the output has other leaves.
pub(super) fn untuple(mut program: tssa::Program, leaves: &[(String, TypeId)]) -> Result<tssa::Program> {
    let found: Vec<_> = program.outputs.iter().flat_map(|output| &output.leaves).copied().collect();
    if found.len() != leaves.len() {
        return Err(Error::bug("outline", "a leaf gives other values than it should"));
    }
    let output = |(x, (name, ty)): (_, &(String, TypeId))| tssa::Output {
        name: name.clone(),
        ty: *ty,
        storage: Storage::Dense,
        leaves: vec![x],
    };
    program.outputs = found.into_iter().zip(leaves).map(output).collect();
    Ok(program)
}

//! Kernels: programs of loop nests, bound to sizes and relations once, and called with numbers as often as one likes.
//!
//! [`Kernel::bind`] checks the inputs, builds the arrays that relations are read through, sizes all buffers and compiles; what
//! [`Kernel::call_into`] does then is arithmetic, and it allocates nothing once as many threads have called as ever do so at a time. A kernel
//! is immutable: any number of threads may call it at once, each with buffers of its own.
//!
//! **What is bound**: size variables, and the tuples of relations, patterns of sparse parameters and maps among them. The numbers of
//! parameters are given with each call, leaf by leaf as in [`Types::leaves`](crate::ty::Types::leaves): all elements of a dense leaf, the values
//! of the entries of a sparse one.

mod assemble;
mod code;
mod features;
mod interpret;
mod layout;
mod matrix;
mod native;
mod structure;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{Arena, Id, ParamId, RelationId};
use crate::error::{Error, Result};
use crate::loops::{BufferKind, Program};
use crate::tensor::{Bindings, Coo, Csr, CsrPattern, Dense, Inputs, Relation, Tensor, Value, bind};
use crate::ty::Storage;

use crate::codegen::load::Pointers;
use code::Code;
use interpret::{Location, Memory, Registers};
use native::Swap;

pub use assemble::Assembly;
pub use matrix::{Matrix, MatrixKernel};
pub use native::{Engine, Status};

/// How the outputs of a kernel are stored: their leaves.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// What each leaf looks like.
    pub leaves: Vec<Leaf>,
}

/// The shape of a leaf of a parameter or an output.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// All elements in row-major order.
    Dense(Vec<usize>),
    /// The values of the entries of a sparse matrix.
    Csr(Arc<CsrPattern>),
    /// The values of the entries of a sparse tensor.
    Coo(Arc<Relation>),
}

impl Leaf {
    /// How many numbers it has.
    pub fn len(&self) -> usize {
        match self {
            // Shapes of leaves were multiplied with checks when they were bound.
            Leaf::Dense(shape) => shape.iter().product(),
            Leaf::Csr(pattern) => pattern.len(),
            Leaf::Coo(relation) => relation.len(),
        }
    }

    /// Whether it has no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tensor(&self, data: Vec<f64>) -> Result<Tensor> {
        let made = match self {
            Leaf::Dense(shape) => Dense::new(shape, data).map(Tensor::from),
            Leaf::Csr(pattern) => Csr::with_pattern(pattern.clone(), data).map(Tensor::from),
            Leaf::Coo(relation) => Coo::with_pattern(relation.clone(), data).map(Tensor::from),
        };
        made.map_err(|malformed| Error::bug("kernel", malformed.to_string()))
    }
}

/// A program that is bound to sizes and relations.
#[derive(Debug)]
pub struct Kernel {
    program: Arc<Program>,
    arrays: Vec<Vec<u32>>,
    relations: Arena<RelationId, Arc<Relation>>,
    codes: Vec<Code>,
    locations: Vec<Location>,
    workspaces: Vec<usize>,
    native: Swap,
    inputs: Vec<(String, Leaf)>,
    outputs: Vec<Output>,
    /// The patterns of results that were found out, by the names under which the program takes them.
    assembled: Vec<(String, Arc<Relation>)>,
    /// What calls that ended left for those to come.
    idle: Mutex<Vec<Scratch>>,
}

/// What a call needs besides inputs and outputs.
#[derive(Debug, Default)]
struct Scratch {
    registers: Registers,
    workspaces: Vec<Vec<f64>>,
    pointers: Pointers,
}

impl Kernel {
    /// Binds a program to the sizes and relations of inputs. Of their numbers nothing is kept.
    ///
    /// # Errors
    /// [`Error::Data`] for inputs that do not fit, [`Error::Limit`] and [`Error::Overflow`] for sizes that are too large,
    /// [`Error::Limitation`] where native code is asked for and there is none, [`Error::Request`] for a program on patterns that
    /// [`Assembly::bind`] finds out.
    pub fn bind(program: Arc<Program>, inputs: &Inputs, engine: Engine) -> Result<Kernel> {
        // The program relies on them.
        if let Some(found) = program.signature.relations.values().find(|r| r.name.starts_with(assemble::PLACES)) {
            return Err(Error::Request(format!("the {} are found out, not given", found.name)));
        }
        Kernel::bind_on(program, inputs, engine)
    }

    /// Binds a program whose patterns were found out.
    fn bind_on(program: Arc<Program>, inputs: &Inputs, engine: Engine) -> Result<Kernel> {
        let bindings = bind(&program.signature, inputs)?;
        layout::check(&program, &bindings)?;
        let shapes = layout::shapes(&program, &bindings)?;
        let arrays = structure::arrays(&program.arrays, &bindings)?;
        let codes = code::compile_all(&program, &shapes, &bindings)?;
        let leaves = input_leaves(&program, &bindings)?;
        let outputs = output_leaves(&program, &bindings)?;
        let mut locations = Vec::with_capacity(shapes.len());
        let mut workspaces = Vec::new();
        for ((_, buffer), shape) in program.buffers.iter().zip(&shapes) {
            locations.push(match buffer.kind {
                BufferKind::Param(param, leaf) => Location::Input(first_leaf(&bindings, param) + leaf),
                BufferKind::Output(output, leaf) => {
                    let before = outputs.iter().take(output).map(|o| o.leaves.len()).sum::<usize>();
                    Location::Output(before + leaf)
                }
                BufferKind::Workspace => {
                    workspaces.push(shape.len);
                    Location::Workspace(workspaces.len() - 1)
                }
            });
        }
        let relations = bindings.relations().clone();
        let native = Swap::new(&program, &bindings, &arrays, engine)?;
        let idle = Mutex::default();
        let (inputs, assembled) = (leaves, Vec::new());
        let kernel = Kernel {
            program,
            arrays,
            relations,
            codes,
            locations,
            workspaces,
            native,
            inputs,
            outputs,
            assembled,
            idle,
        };
        // The first call finds its memory here, and a program that is too large is refused now.
        let scratch = kernel.scratch()?;
        kernel.give_back(scratch);
        Ok(kernel)
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Which engine the next call uses, and why.
    pub fn status(&self) -> Status {
        self.native.status()
    }

    /// The leaves of the parameters in order, with the names of the parameters.
    pub fn inputs(&self) -> &[(String, Leaf)] {
        &self.inputs
    }

    /// The outputs in order.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    fn scratch(&self) -> Result<Scratch> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(scratch) = idle {
            return Ok(scratch);
        }
        let mut scratch = Scratch::default();
        scratch.registers.reserve(&self.codes);
        for len in &self.workspaces {
            let mut buffer: Vec<f64> = Vec::new();
            buffer.try_reserve_exact(*len).map_err(|_| Error::Limit {
                what: "elements of an intermediate tensor that memory has room for",
                limit: 0,
                found: *len as u64,
            })?;
            buffer.resize(*len, 0.0);
            scratch.workspaces.push(buffer);
        }
        Ok(scratch)
    }

    fn give_back(&self, scratch: Scratch) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }

    /// Computes all outputs from the numbers of the leaves of all parameters, both in order.
    ///
    /// # Errors
    /// [`Error::Data`] if a leaf has another length than the one bound.
    pub fn call_into(&self, inputs: &[&[f64]], outputs: &mut [&mut [f64]]) -> Result<()> {
        let lengths = |what: &str, expected: usize, found: usize| {
            Err(Error::data(what, format!("{expected} numbers are expected, found {found}")))
        };
        if inputs.len() != self.inputs.len() {
            let message = format!("{} leaves are expected, found {}", self.inputs.len(), inputs.len());
            return Err(Error::data("inputs", message));
        }
        for ((name, leaf), data) in self.inputs.iter().zip(inputs) {
            if leaf.len() != data.len() {
                return lengths(name, leaf.len(), data.len());
            }
        }
        let leaves = self.outputs.iter().flat_map(|output| output.leaves.iter().map(|leaf| (&output.name, leaf)));
        if outputs.len() != leaves.clone().count() {
            let message = format!("{} leaves are expected, found {}", leaves.count(), outputs.len());
            return Err(Error::data("outputs", message));
        }
        for ((name, leaf), data) in leaves.zip(outputs.iter()) {
            if leaf.len() != data.len() {
                return lengths(name, leaf.len(), data.len());
            }
        }
        let mut scratch = self.scratch()?;
        let Scratch { registers, workspaces, pointers } = &mut scratch;
        if let Some(native) = self.native.get() {
            let mut session = pointers.session(&self.arrays, self.locations.len());
            for (buffer, location) in self.locations.iter().enumerate() {
                if let Location::Input(k) = location
                    && let Some(x) = inputs.get(*k)
                {
                    session.share(buffer, x);
                }
            }
            let places = |wanted: fn(&Location) -> bool| {
                self.locations.iter().enumerate().filter(move |(_, location)| wanted(location))
            };
            // Workspaces are numbered in the order of buffers; outputs are not.
            let work = places(|location| matches!(location, Location::Workspace(_)));
            for ((buffer, _), x) in work.zip(workspaces.iter_mut()) {
                session.lend(buffer, x);
            }
            for (k, x) in outputs.iter_mut().enumerate() {
                let buffer = self.locations.iter().position(|l| matches!(l, Location::Output(other) if *other == k));
                if let Some(buffer) = buffer {
                    session.lend(buffer, x);
                }
            }
            session.run(native, self.native.sizes(), &self.program.signature.functions, self.native.steps());
            self.give_back(scratch);
            return Ok(());
        }
        let mut memory = Memory {
            locations: &self.locations,
            inputs,
            outputs,
            workspaces,
            arrays: &self.arrays,
            functions: &self.program.signature.functions,
            tuples: &mut [],
        };
        let result = self.codes.iter().try_for_each(|code| features::run(code, registers, &mut memory));
        self.give_back(scratch);
        result
    }

    /// Computes all outputs, each with its name. The inputs must have the sizes and relations that were bound.
    ///
    /// # Errors
    /// [`Error::Data`] for inputs that do not fit.
    pub fn call(&self, inputs: &Inputs) -> Result<Vec<(String, Value)>> {
        let bindings = match self.assembled.as_slice() {
            [] => bind(&self.program.signature, inputs)?,
            assembled => bind(&self.program.signature, &assemble::add(inputs, assembled))?,
        };
        for (id, relation) in bindings.relations().iter() {
            let bound = self.relations.get(id);
            if bound.is_none_or(|bound| !Arc::ptr_eq(bound, relation) && bound != relation) {
                let name = self.program.signature.relations.get(id).map_or("a relation", |r| r.name.as_str());
                return Err(Error::data(name, "it has other tuples than those that the kernel was bound to"));
            }
        }
        let tensors: Vec<&Tensor> =
            bindings.values().values().flat_map(|value| value.leaves().iter().map(Arc::as_ref)).collect();
        let data: Vec<&[f64]> = tensors.iter().map(|tensor| tensor.data()).collect();
        let mut buffers = Vec::new();
        for leaf in self.outputs.iter().flat_map(|output| &output.leaves) {
            let mut buffer: Vec<f64> = Vec::new();
            let limit = || Error::Limit { what: "elements of a result", limit: 0, found: leaf.len() as u64 };
            buffer.try_reserve_exact(leaf.len()).map_err(|_| limit())?;
            buffer.resize(leaf.len(), f64::NAN);
            buffers.push(buffer);
        }
        let mut outputs: Vec<&mut [f64]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        self.call_into(&data, &mut outputs)?;
        let mut buffers = buffers.into_iter();
        let value = |output: &Output| {
            let leaves =
                output.leaves.iter().map(|leaf| Ok(Arc::new(leaf.tensor(buffers.next().unwrap_or_default())?)));
            Ok((output.name.clone(), Value::new(leaves.collect::<Result<_>>()?)))
        };
        self.outputs.iter().map(value).collect()
    }
}

/// The number of the first leaf of a parameter.
fn first_leaf(bindings: &Bindings, param: ParamId) -> usize {
    bindings.values().iter().filter(|(id, _)| id.index() < param.index()).map(|(_, value)| value.leaves().len()).sum()
}

fn input_leaves(program: &Program, bindings: &Bindings) -> Result<Vec<(String, Leaf)>> {
    let mut leaves = Vec::new();
    for (id, param) in program.signature.params.iter() {
        let value = bindings.values().get(id).ok_or_else(|| Error::bug("bind", "a parameter without a value"))?;
        for tensor in value.leaves() {
            let leaf = match tensor.as_ref() {
                Tensor::Dense(dense) => Leaf::Dense(dense.shape().to_vec()),
                Tensor::Csr(csr) => Leaf::Csr(csr.pattern().clone()),
                Tensor::Coo(coo) => Leaf::Coo(coo.pattern().clone()),
            };
            leaves.push((param.name.clone(), leaf));
        }
    }
    Ok(leaves)
}

fn output_leaves(program: &Program, bindings: &Bindings) -> Result<Vec<Output>> {
    let mut outputs = Vec::new();
    for (name, buffers) in &program.outputs {
        let mut leaves = Vec::new();
        for buffer in buffers {
            let buffer =
                program.buffers.get(*buffer).ok_or_else(|| Error::bug("bind", "an output without a buffer"))?;
            leaves.push(match buffer.entries {
                None => Leaf::Dense(buffer.dims.iter().map(|n| bindings.length(n)).collect::<Result<_>>()?),
                Some(relation) => sparse_leaf(program, bindings, relation)?,
            });
        }
        outputs.push(Output { name: name.clone(), leaves });
    }
    Ok(outputs)
}

/// A leaf on a pattern: that of a sparse parameter, in the format of the parameter, or one that was found out.
fn sparse_leaf(program: &Program, bindings: &Bindings, relation: RelationId) -> Result<Leaf> {
    for (id, param) in program.signature.params.iter() {
        let tensor = bindings.values().get(id).and_then(Value::as_tensor);
        match (param.storage, tensor) {
            (Storage::Csr(r), Some(Tensor::Csr(csr))) if r == relation => return Ok(Leaf::Csr(csr.pattern().clone())),
            (Storage::Coo(r), Some(Tensor::Coo(coo))) if r == relation => return Ok(Leaf::Coo(coo.pattern().clone())),
            _ => {}
        }
    }
    // A pattern of its own.
    let pattern = bindings.relations().get(relation).ok_or_else(|| Error::bug("bind", "a relation without tuples"))?;
    match pattern.shape() {
        [rows, cols] => {
            let malformed = |malformed: crate::tensor::Malformed| Error::bug("bind", malformed.to_string());
            let limit = || Error::Limit { what: "rows of a result", limit: 0, found: *rows as u64 };
            let mut indptr: Vec<usize> = Vec::new();
            indptr.try_reserve_exact(rows.saturating_add(1)).map_err(|_| limit())?;
            indptr.resize(rows + 1, 0);
            pattern.column(0).iter().for_each(|row| indptr[row + 1] += 1);
            for row in 0..*rows {
                indptr[row + 1] += indptr[row];
            }
            let indices = pattern.column(1).iter().map(|col| u32::try_from(*col));
            let indices = indices.collect::<std::result::Result<_, _>>().map_err(|_| Error::Overflow)?;
            CsrPattern::new(*rows, *cols, indptr, indices).map(|csr| Leaf::Csr(Arc::new(csr))).map_err(malformed)
        }
        _ => Ok(Leaf::Coo(pattern.clone())),
    }
}

//! Kernels: programs of loop nests, bound to sizes and relations once, and called with numbers as often as one likes.
//!
//! [`Kernel::bind`] checks the inputs, builds the arrays that relations are read through, sizes all buffers and compiles; what
//! [`Kernel::call_into`] does then is arithmetic, and it allocates nothing once as many threads have called as ever do so at a time. A kernel
//! is immutable: any number of threads may call it at once, each with buffers of its own.
//!
//! **What is bound**: size variables, and the tuples of relations, patterns of sparse parameters and maps among them. The numbers of
//! parameters are given with each call, leaf by leaf as in [`Types::leaves`](crate::ty::Types::leaves): all elements of a dense leaf, the values
//! of the entries of a sparse one in the order of its format.
//!
//! **Constants.** Where the numbers of some parameters are the same at each call, as data are in an optimiser,
//! [`Kernel::bind_with_constants`] binds them too. What depends on them alone is computed once ([`hold`](fn@crate::schedule::hold)): sums of squares, Gram
//! matrices, logarithms of data; and the values of a sparse constant that are read in the order of another view, such as the columns of a CSR
//! matrix or the rows of a CSC matrix, are kept in this order, so that each call reads them one after the other. Calls are given the other parameters; no bit changes.
//!
//! **What is bound decides how a program runs**: [`schedule::specialise`](fn@crate::schedule::specialise) makes it another one for its sizes and constants. No bit
//! changes but in sums by target, which are in an order that depends on sizes. Kernels of a [`Function`](crate::Function) know beforehand which
//! axes are [short](crate::schedule::short_axes), and have other orders of sums then.
//!
//! **Threads.** Native code shares much work among the threads that its kernel [was given](Kernel::set_threads), or else of the `rayon` pool that a
//! call comes from, or else of one pool for all kernels, of as many threads as `RAYON_NUM_THREADS` says or as there are processors. A child that the process forks makes a pool of its own when it
//! needs one; where native code was still being compiled when it was forked, it goes on with the interpreter.
//!
//! **Precision.** A parameter that is bound to a tensor in single precision is taken as `f32` by each call, and an output that the program
//! [stores in single precision](crate::loops::Program::store_in_single) is written as `f32`; they are widened and rounded where they are read and
//! written, and all arithmetic is in double precision.

mod arguments;
mod assemble;
mod call;
mod code;
mod effort;
mod features;
mod footprint;
mod held;
mod input;
mod interpret;
mod layout;
mod leaf;
mod matrix;
mod native;
mod registers;
mod slices;
mod stand_in;
mod structure;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{Arena, Id, ParamId, RelationId};
use crate::error::{Error, Result};
use crate::index::Size;
use crate::loops::{Array, BufferId, BufferKind, PLACES, Program, Rounded, StepLimit};
use crate::schedule::machine::CACHED;
use crate::schedule::{Sizes, Specialised, constants_by_name, specialise};
use crate::tensor::{Bindings, Frame, Inputs, Precision, Relation, Returned, bind};

use crate::codegen::compile::Note;
use crate::codegen::load::Pointers;
use crate::codegen::threads::Threads;
use assemble::Found;
use code::Code;
use held::Held;
use input::Copies;
use interpret::Location;
use leaf::{in_bound_precision, input_leaves, output_leaves};
use native::Swap;
use registers::Registers;
use stand_in::StandIn;

pub use arguments::{Arguments, Destinations};
pub use assemble::Assembly;
pub(crate) use assemble::ForSizes;
pub use effort::ITERATIONS;
pub(crate) use footprint::Footprint;
pub use input::{Copied, Input};
pub use leaf::{Leaf, Output};
pub use matrix::{Matrix, MatrixKernel};
pub use native::{Engine, Status};

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
    /// What there is to say of the native code that computed what is held.
    set_up_notes: Vec<Note>,
    /// What it keeps.
    footprint: Footprint,
    /// What there is to say of a budget of memory.
    memory_notes: Vec<String>,
    inputs: Vec<(String, Leaf)>,
    /// How the numbers of each leaf of a parameter are stored.
    precisions: Vec<Precision>,
    /// What does not change from call to call.
    held: Held,
    outputs: Vec<Output>,
    /// The numbers of workspaces that are rounded to outputs at the end.
    rounded: Vec<(usize, usize)>,
    /// The numbers of workspaces that say how many steps a loop made, with how many it may make.
    limits: Vec<(usize, u64)>,
    /// The patterns of results that were found out.
    assembled: Found,
    /// What the inputs that it was bound to are beside their numbers, if there are no constants.
    frame: Option<Frame>,
    /// Threads of its own for native code.
    threads: Option<Threads>,
    /// What runs where a result has a NaN.
    stand_in: Option<StandIn>,
    /// What calls that ended left for those to come.
    idle: Mutex<Vec<Scratch>>,
    /// What results left that were dropped.
    returned: Arc<Returned>,
}

/// What a kernel is made with, besides a program and bindings.
struct Parts {
    outputs: Vec<Output>,
    held: Held,
    /// Arrays that are known already.
    arrays: BTreeMap<Array, Vec<u32>>,
    /// How many iterations its loops may take.
    limit: u64,
}

/// What a call needs besides inputs and outputs.
#[derive(Debug, Default)]
struct Scratch {
    machine: Machine,
    copies: Copies,
}

/// What a run needs.
#[derive(Debug, Default)]
struct Machine {
    registers: Registers,
    workspaces: Vec<Vec<f64>>,
    pointers: Pointers,
}

impl Kernel {
    /// Binds a program to the sizes and relations of inputs, and to how their numbers are stored. Of the numbers nothing is kept.
    ///
    /// # Errors
    /// [`Error::Data`] for inputs that do not fit, [`Error::Limit`] and [`Error::Overflow`] for sizes that are too large,
    /// [`Error::Limitation`] where native code is asked for and there is none, [`Error::Request`] for a program on patterns that
    /// [`Assembly::bind`] finds out.
    pub fn bind(program: Arc<Program>, inputs: &Inputs, engine: Engine) -> Result<Kernel> {
        Kernel::bind_with_constants(program, inputs, &[], engine)
    }

    /// Binds a program to inputs, and to the numbers of some parameters, which are the same at each call. What depends on these alone is
    /// computed now, and kept; [`Kernel::inputs`] are the parameters that are left. All results have the same bits as those of
    /// [`Kernel::bind`].
    ///
    /// The tensors of the constants are shared, not copied, so they are kept as long as the kernel.
    ///
    /// # Errors
    /// Those of [`Kernel::bind`], and [`Error::Request`] for a name that no parameter has.
    pub fn bind_with_constants(
        program: Arc<Program>,
        inputs: &Inputs,
        constants: &[&str],
        engine: Engine,
    ) -> Result<Kernel> {
        Kernel::bind_within(program, inputs, constants, engine, engine.limit())
    }

    /// The same, where the loops may take so many [iterations](ITERATIONS) in place of [`Engine::limit`]. A call cannot be ended, so a program that
    /// plainly takes more is refused here.
    ///
    /// # Errors
    /// Those of [`Kernel::bind_with_constants`].
    pub fn bind_within(
        program: Arc<Program>,
        inputs: &Inputs,
        constants: &[&str],
        engine: Engine,
        limit: u64,
    ) -> Result<Kernel> {
        // The program relies on them.
        if let Some(found) = program.signature.relations.values().find(|r| r.name.starts_with(PLACES)) {
            return Err(Error::Request(format!("the {} are found out, not given", found.name)));
        }
        Kernel::bind_on(program, inputs, constants, (engine, limit), BTreeMap::new())
    }

    /// Binds a program without the [passes at binding](crate::schedule::AT_BINDING), for whoever judges what passes do.
    ///
    /// # Errors
    /// Those of [`Kernel::bind`].
    #[doc(hidden)]
    pub fn bind_as_it_is(program: Arc<Program>, inputs: &Inputs, engine: Engine) -> Result<Kernel> {
        let bindings = bind(&program.signature, inputs)?;
        let outputs = output_leaves(&program, &bindings)?;
        let parts = Parts { outputs, held: Held::default(), arrays: BTreeMap::new(), limit: engine.limit() };
        Kernel::over(program, &bindings, parts, engine)
    }

    /// Binds a program whose patterns were found out, with arrays that are known.
    fn bind_on(
        program: Arc<Program>,
        inputs: &Inputs,
        constants: &[&str],
        (engine, limit): (Engine, u64),
        mut arrays: BTreeMap<Array, Vec<u32>>,
    ) -> Result<Kernel> {
        let constants = constants_by_name(&program.signature, constants)?;
        let bindings = bind(&program.signature, inputs)?;
        let program = in_bound_precision(program, &bindings)?;
        let outputs = output_leaves(&program, &bindings)?;
        let Specialised { setup, main } = specialised(&program, &bindings, &constants)?;
        let (held, notes) = match setup {
            None => (Held::default(), Vec::new()),
            Some(setup) => {
                let held::SetUp { computed, arrays: read, notes } = held::set_up(setup, &bindings, engine)?;
                arrays.extend(read);
                (Held::new(&program.signature, &bindings, &constants, computed), notes)
            }
        };
        let parts = Parts { outputs, held, arrays, limit };
        let mut kernel = Kernel::over(Arc::new(main), &bindings, parts, engine)?;
        kernel.set_up_notes = notes;
        if constants.is_empty() {
            kernel.frame = Frame::of(&kernel.program.signature, inputs);
        }
        Ok(kernel)
    }

    /// The kernel of a program over bindings.
    fn over(program: Arc<Program>, bindings: &Bindings, parts: Parts, engine: Engine) -> Result<Kernel> {
        let Parts { outputs, held, arrays, limit } = parts;
        let arrays = structure::arrays(&program, bindings, arrays)?;
        effort::check(&program, bindings, &arrays, limit)?;
        layout::check(&program, bindings)?;
        let shapes = layout::shapes(&program, bindings)?;
        let footprint = Footprint::new(&program, &shapes);
        let codes = code::compile_all(&program, &shapes, bindings)?;
        let (inputs, precisions) = input_leaves(&program.signature, bindings, |name| !held.is_constant(name));
        let params = held.locations(&program.signature, bindings);
        let mut locations = Vec::with_capacity(shapes.len());
        let mut workspaces = Vec::new();
        for ((_, buffer), shape) in program.buffers.iter().zip(&shapes) {
            locations.push(match buffer.kind {
                BufferKind::Param(param, leaf) => {
                    let location = params.get(param.index()).and_then(|leaves| leaves.get(leaf));
                    *location.ok_or_else(|| Error::bug("bind", "a parameter without a value"))?
                }
                BufferKind::Held(number) => Location::Held(number),
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
        let native = Swap::new(&program, bindings, &arrays, engine)?;
        let rounded = rounded(&program, &locations)?;
        let limits = limits(&program, &locations);
        let (idle, assembled) = (Mutex::default(), Found::default());
        let kernel = Kernel {
            program,
            arrays,
            relations,
            codes,
            locations,
            workspaces,
            native,
            set_up_notes: Vec::new(),
            footprint,
            memory_notes: Vec::new(),
            inputs,
            precisions,
            held,
            outputs,
            rounded,
            limits,
            assembled,
            frame: None,
            threads: None,
            stand_in: None,
            idle,
            returned: Arc::default(),
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

    /// What there is to say of how its native code was found: that nothing is kept for the next process, or that the cache had something that was
    /// not what it should be. Nothing while there is no native code.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = self.set_up_notes.clone();
        let more = self.native.notes().iter().filter(|note| !self.set_up_notes.contains(note));
        notes.extend(more.cloned());
        notes
    }

    /// How many bytes it keeps beside inputs and results: the intermediate tensors of a call, and what was computed once from constants. Calls at the
    /// same time have intermediate tensors of their own.
    pub fn memory(&self) -> u64 {
        self.footprint.bytes
    }

    /// What there is to say of [`KernelBuilder::memory`](crate::KernelBuilder::memory): what it keeps, which loops run in tiles, and which keep all of
    /// their states, and why. Nothing where no budget was given.
    pub fn memory_notes(&self) -> &[String] {
        &self.memory_notes
    }

    pub(crate) fn with_memory_notes(self, memory_notes: Vec<String>) -> Kernel {
        Kernel { memory_notes, ..self }
    }

    pub(crate) fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// The leaves of the parameters in order, with the names of the parameters; constants are not among them.
    pub fn inputs(&self) -> &[(String, Leaf)] {
        &self.inputs
    }

    /// How the numbers of each of these leaves are stored.
    pub fn input_precisions(&self) -> &[Precision] {
        &self.precisions
    }

    /// The names of the constants, in the order of the parameters.
    pub fn constants(&self) -> Vec<&str> {
        self.held.names().collect()
    }

    /// The outputs in order.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Gives native code that many threads of its own, whatever pool a call comes from.
    ///
    /// # Errors
    /// [`Error::Request`] for no thread, or more than can be started.
    pub fn set_threads(&mut self, threads: usize) -> Result<()> {
        self.threads =
            Some(Threads::start(threads).map_err(|why| Error::Request(format!("{threads} threads: {why}")))?);
        Ok(())
    }

    fn scratch(&self) -> Result<Scratch> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(scratch) = idle {
            return Ok(scratch);
        }
        let mut scratch = Scratch::default();
        scratch.machine.registers.reserve(&self.codes);
        scratch.copies.reserve(self.inputs.len());
        for len in &self.workspaces {
            let mut buffer: Vec<f64> = Vec::new();
            let (what, wanted) = ("elements of an intermediate tensor", *len as u64);
            buffer.try_reserve_exact(*len).map_err(|_| Error::Memory { what, wanted })?;
            buffer.resize(*len, 0.0);
            scratch.machine.workspaces.push(buffer);
        }
        Ok(scratch)
    }

    fn give_back(&self, scratch: Scratch) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }
}

/// The program for the sizes of bindings, and these constants.
fn specialised(program: &Program, bindings: &Bindings, constants: &BTreeSet<ParamId>) -> Result<Specialised> {
    let length = |n: &Size| bindings.length(n).ok().and_then(|n| u64::try_from(n).ok());
    let tuples = |r: RelationId| bindings.relations().get(r).and_then(|r| u64::try_from(r.len()).ok());
    let sizes = Sizes { length: &length, tuples: &tuples, cached: CACHED };
    specialise(program, Some(&sizes), constants)
}

/// The numbers of the workspaces that say how many steps a loop made, with how many it may make.
fn limits(program: &Program, locations: &[Location]) -> Vec<(usize, u64)> {
    let of = |limit: &StepLimit| match locations.get(limit.steps.index()) {
        Some(Location::Workspace(steps)) => Some((*steps, limit.most)),
        _ => None,
    };
    program.limits.iter().filter_map(of).collect()
}

/// The numbers of the workspaces and outputs of what is rounded at the end.
fn rounded(program: &Program, locations: &[Location]) -> Result<Vec<(usize, usize)>> {
    let location = |buffer: BufferId| locations.get(buffer.index()).copied();
    let of = |rounded: &Rounded| match (location(rounded.from), location(rounded.to)) {
        (Some(Location::Workspace(from)), Some(Location::Output(to))) => Ok((from, to)),
        _ => Err(Error::bug("bind", "what is rounded is a workspace, and becomes an output")),
    };
    program.rounded.iter().map(of).collect()
}

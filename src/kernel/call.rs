//! Calls: what they take and give, how it is checked, and which engine runs.
//!
//! All ways to call a kernel end in [`Kernel::run_as_meant`], and so in [`Kernel::run`], which compares number, length and precision of all slices with what was bound; native
//! code relies on that.

use std::sync::Arc;

use super::arguments::{Arguments, Destinations, Passed};
use super::input::{Copied, Input};
use super::interpret::{Location, Memory};
use super::leaf::Leaf;
use super::slices::{Given, Wanted};
use super::{Kernel, Machine, Output, Scratch, features};
use crate::codegen::load::Native;
use crate::error::{Error, Result};
use crate::tensor::{Bindings, Element, Inputs, Precision, Results, Slice, SliceMut, Tensor, Value, bind};

impl Kernel {
    /// Computes all results into memory of the caller: `kernel.call_into((&x, &w), (&mut value, &mut gradient))?`, with [`Arguments`] and
    /// [`Destinations`] in the order of [`Kernel::inputs`] and [`Kernel::outputs`], leaf by leaf, each in the precision that was bound.
    ///
    /// A leaf may be given as an array of any strides. What does not lie in memory in row-major order is copied, into memory that is kept for
    /// later calls (an array of more than four axes takes a little memory anew); the result says how much that was, and [`Kernel::copied`]
    /// which parameters.
    ///
    /// ```
    /// use iverson::prelude::*;
    /// use iverson::kernel::Copied;
    /// use iverson::ndarray::array;
    ///
    /// let product = Function::parse("param A : [m, n] real\nparam x : [n] real\ngen i < m. sum j < n. A[i, j] * x[j]")?;
    /// let a = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let kernel = product.kernel(&inputs! { "A" => &a, "x" => [0.0; 2] }).build()?;
    /// let mut y = [0.0; 2];
    /// let copied = kernel.call_into((a.t(), &[1.0, 10.0]), &mut y)?;
    /// assert_eq!((y, copied), ([31.0, 42.0], Copied { leaves: 1, numbers: 4 }));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Data`] if a leaf has another shape, length or precision than the one bound, [`Error::Memory`] if there is none for a copy.
    pub fn call_into(&self, arguments: impl Arguments, results: impl Destinations) -> Result<Copied> {
        results.pass(|wanted| arguments.pass(self, |passed| self.call_passed(passed, wanted)))
    }

    fn call_passed(&self, passed: Passed<'_, '_>, outputs: Wanted<'_, '_>) -> Result<Copied> {
        match passed {
            Passed::Any(inputs) => self.call_given(inputs, outputs),
            Passed::Double(inputs) => {
                let mut scratch = self.scratch()?;
                let result = self.run_as_meant(Given::Double(inputs), outputs, &mut scratch.machine);
                self.give_back(scratch);
                result.map(|()| Copied::default())
            }
        }
    }

    pub(super) fn call_given(&self, inputs: &[Input<'_>], outputs: Wanted<'_, '_>) -> Result<Copied> {
        for ((name, leaf), input) in self.inputs.iter().zip(inputs) {
            input.check(name, leaf)?;
        }
        let mut scratch = self.scratch()?;
        let Scratch { machine, copies } = &mut scratch;
        let result = copies.with(inputs, |slices| self.run_as_meant(Given::Mixed(slices), outputs, machine));
        self.give_back(scratch);
        result
    }

    /// The names of the parameters that a call with these inputs copies, once for each leaf.
    pub fn copied(&self, inputs: &[Input<'_>]) -> Vec<&str> {
        let leaves = self.inputs.iter().zip(inputs).filter(|(_, input)| input.as_slice().is_none());
        leaves.map(|((name, _), _)| name.as_str()).collect()
    }

    /// Computes all results, each with its name: `kernel.call((&x, &w))?["value"]`. [`Inputs`] must have the sizes, relations and precisions
    /// that were bound; constants may be left out. Large results leave their memory to the next call when they are dropped.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let dot = Function::parse("param x : [n] real\nparam y : [n] real\nsum i < n. x[i] * y[i]")?;
    /// let inputs = inputs! { "x" => [1.0, 2.0], "y" => [3.0, 4.0] };
    /// let kernel = dot.kernel(&inputs).constants(["y"]).build()?;
    /// assert_eq!(kernel.call(&inputs)?["value"].as_scalar(), Some(11.0));
    /// assert_eq!(kernel.call(&[0.5, 0.5])?["value"].as_scalar(), Some(3.5));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Data`] for inputs that do not fit.
    pub fn call(&self, arguments: impl Arguments) -> Result<Results> {
        let leaves = || self.outputs.iter().flat_map(|output| output.leaves.iter().zip(&output.precisions));
        let is_large = leaves().map(|(leaf, _)| leaf.len()).sum::<usize>() >= REUSED;
        let mut again = if is_large { self.returned.take() } else { Vec::new() }.into_iter();
        let mut rooms = Vec::new();
        for (leaf, precision) in leaves() {
            rooms.push(match again.next() {
                Some(tensor) if tensor.precision() == Precision::Double => Place::Again(tensor),
                _ => Place::New(Room::new(*precision, leaf.len())?),
            });
        }
        let mut outputs: Vec<SliceMut<'_>> = rooms.iter_mut().map(Place::slice).collect();
        self.call_into(arguments, &mut outputs)?;
        let mut rooms = rooms.into_iter();
        let value = |output: &Output| {
            let leaves = output.leaves.iter().zip(&mut rooms).map(|(leaf, room)| Ok(Arc::new(room.tensor(leaf)?)));
            Ok((output.name.clone(), Value::new(leaves.collect::<Result<_>>()?)))
        };
        let results: Result<Vec<(String, Value)>> = self.outputs.iter().map(value).collect();
        let results = Results::from(results?);
        Ok(if is_large { results.with_home(&self.returned) } else { results })
    }

    /// Does something with the leaves of the parameters, which are given by name.
    pub(super) fn with_bindings<T>(&self, inputs: &Inputs, run: impl FnOnce(&[Input<'_>]) -> Result<T>) -> Result<T> {
        fn numbers(value: &Value) -> impl Iterator<Item = Input<'_>> {
            value.leaves().iter().map(|tensor| Input::Slice(tensor.numbers()))
        }
        // What was bound, with other numbers.
        let same = self.frame.as_ref().filter(|_| self.assembled.is_empty()).and_then(|frame| frame.values(inputs));
        if let Some(values) = same {
            return run(&values.into_iter().flat_map(numbers).collect::<Vec<_>>());
        }
        let bindings = self.bindings(inputs)?;
        let params = self.program.signature.params.values().zip(bindings.values().values());
        let given = params.filter(|(param, _)| !self.held.is_constant(&param.name));
        run(&given.flat_map(|(_, value)| numbers(value)).collect::<Vec<_>>())
    }

    /// Inputs that have the relations that were bound.
    fn bindings(&self, inputs: &Inputs) -> Result<Bindings> {
        let with_constants = self.held.add(inputs);
        let inputs = with_constants.as_ref().unwrap_or(inputs);
        let bindings = match self.assembled.is_empty() {
            true => bind(&self.program.signature, inputs)?,
            false => bind(&self.program.signature, &self.assembled.add(inputs))?,
        };
        self.held.check(&self.program.signature, &bindings)?;
        for (id, relation) in bindings.relations().iter() {
            let bound = self.relations.get(id);
            if bound.is_none_or(|bound| !Arc::ptr_eq(bound, relation) && bound != relation) {
                let name = self.program.signature.relations.get(id).map_or("a relation", |r| r.name.as_str());
                return Err(Error::data(name, "it has other tuples than those that the kernel was bound to"));
            }
        }
        Ok(bindings)
    }

    /// Runs all nests, on slices that are what was bound.
    pub(super) fn run(&self, inputs: Given<'_, '_>, mut outputs: Wanted<'_, '_>, machine: &mut Machine) -> Result<()> {
        self.check(&inputs, &outputs)?;
        match (self.native.get(), &self.threads) {
            (Some(native), Some(threads)) => {
                threads.run(|| self.run_native(native, &inputs, &mut outputs, machine))?;
            }
            (Some(native), None) => self.run_native(native, &inputs, &mut outputs, machine)?,
            (None, _) => self.interpret(inputs, &mut outputs, machine)?,
        }
        for (steps, most) in &self.limits {
            let made = machine.workspaces.get(*steps).and_then(|steps| steps.first());
            if made.is_some_and(|made| *made > *most as f64) {
                let message = format!(
                    "an `iterate` whose states are kept goes on after {most} steps: say how many there are at most, as in `while c, at most 1000000`"
                );
                return Err(Error::Request(message));
            }
        }
        for (from, to) in &self.rounded {
            if let (Some(from), Some(mut to)) = (machine.workspaces.get(*from), outputs.get_mut(*to)) {
                to.round_from(from);
            }
        }
        Ok(())
    }

    fn check<'k>(&'k self, inputs: &Given<'_, '_>, outputs: &Wanted<'_, '_>) -> Result<()> {
        count("inputs", self.inputs.len(), inputs.len())?;
        for (k, ((name, leaf), precision)) in self.inputs.iter().zip(&self.precisions).enumerate() {
            let advice = match precision {
                Precision::Single => "give `f32`, or bind a tensor in double precision",
                Precision::Double => "give `f64`, or bind a tensor in single precision",
            };
            fits(name, leaf, *precision, inputs.get(k), advice)?;
        }
        count("outputs", self.outputs.iter().map(|output| output.leaves.len()).sum(), outputs.len())?;
        let leaves = |output: &'k Output| output.leaves.iter().zip(&output.precisions).map(|leaf| (&output.name, leaf));
        for (k, (name, (leaf, precision))) in self.outputs.iter().flat_map(leaves).enumerate() {
            let advice = match precision {
                Precision::Single => "give `f32`, or do not store this result in single precision",
                Precision::Double => "give `f64`, or store this result in single precision with `store_in_single`",
            };
            fits(name, leaf, *precision, outputs.get(k), advice)?;
        }
        Ok(())
    }

    fn run_native(
        &self,
        native: &Native,
        inputs: &Given<'_, '_>,
        outputs: &mut Wanted<'_, '_>,
        machine: &mut Machine,
    ) -> Result<()> {
        let Machine { workspaces, pointers, .. } = machine;
        let mut session = pointers.session(&self.arrays, self.locations.len());
        let mut workspaces = workspaces.iter_mut();
        for (buffer, location) in self.locations.iter().enumerate() {
            match location {
                Location::Input(k) => inputs.get(*k).into_iter().for_each(|x| session.share(buffer, x)),
                Location::Held(k) => {
                    self.held.numbers().get(*k).into_iter().for_each(|x| session.share(buffer, x.slice()));
                }
                // Workspaces are numbered in the order of buffers; outputs are not.
                Location::Workspace(_) => workspaces.next().into_iter().for_each(|x| session.lend(buffer, x.into())),
                Location::Output(_) => {}
            }
        }
        outputs.for_each(|k, x| {
            let is_part = |l: &Location| matches!(l, Location::Output(other) if *other == k);
            let mut buffers = self.locations.iter().enumerate().filter(|(_, l)| is_part(l)).map(|(buffer, _)| buffer);
            if let Some(first) = buffers.next() {
                session.lend(first, x);
                buffers.for_each(|other| session.lend_again(first, other));
            }
        });
        session.run(native, self.native.sizes(), &self.program.signature.functions, self.native.steps())
    }

    fn interpret(&self, inputs: Given<'_, '_>, outputs: &mut Wanted<'_, '_>, machine: &mut Machine) -> Result<()> {
        let Machine { registers, workspaces, .. } = machine;
        let mut memory = Memory {
            locations: &self.locations,
            inputs,
            held: self.held.numbers(),
            outputs: outputs.reborrow(),
            workspaces,
            arrays: &self.arrays,
            functions: &self.program.signature.functions,
            tuples: &mut [],
        };
        self.codes.iter().try_for_each(|code| features::run(code, registers, &mut memory))
    }
}

fn count(what: &str, expected: usize, found: usize) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(Error::data(what, format!("{expected} leaves are expected, found {found}"))),
    }
}

/// Checks the length and the precision of a slice.
fn fits(name: &str, leaf: &Leaf, expected: Precision, found: Option<Slice<'_>>, advice: &str) -> Result<()> {
    let Some(found) = found else { return Ok(()) };
    if found.len() != leaf.len() {
        let message = format!("{} numbers are expected, found {}", leaf.len(), found.len());
        return Err(Error::data(name, message));
    }
    if found.precision() != expected {
        let message = format!("numbers in {expected} are expected, found {}; {advice}", found.precision());
        return Err(Error::data(name, message));
    }
    Ok(())
}

/// Results of so many numbers leave their memory to the next ones.
const REUSED: usize = 1 << 13;

/// Where the numbers of a leaf of a result go.
enum Place {
    New(Room),
    /// Into that of results before.
    Again(Tensor),
}

impl Place {
    fn slice(&mut self) -> SliceMut<'_> {
        match self {
            Place::New(room) => room.slice(),
            Place::Again(tensor) => tensor.data_mut().into(),
        }
    }

    fn tensor(self, leaf: &Leaf) -> Result<Tensor> {
        match self {
            Place::New(room) => room.tensor(leaf),
            Place::Again(tensor) => Ok(tensor),
        }
    }
}

/// Where the numbers of a result go.
#[derive(Debug)]
pub(super) enum Room {
    Double(Vec<f64>),
    Single(Vec<f32>),
}

impl Room {
    pub fn new(precision: Precision, len: usize) -> Result<Room> {
        Ok(match precision {
            Precision::Double => Room::Double(room(len)?),
            Precision::Single => Room::Single(room(len)?),
        })
    }

    pub fn slice(&mut self) -> SliceMut<'_> {
        match self {
            Room::Double(x) => x.into(),
            Room::Single(x) => x.into(),
        }
    }

    #[inline(always)]
    pub fn as_slice(&self) -> Slice<'_> {
        match self {
            Room::Double(x) => Slice::Double(x),
            Room::Single(x) => Slice::Single(x),
        }
    }

    fn tensor(self, leaf: &Leaf) -> Result<Tensor> {
        match self {
            Room::Double(x) => leaf.tensor(x),
            Room::Single(x) => leaf.tensor(x),
        }
    }
}

fn room<A: Element>(len: usize) -> Result<Vec<A>> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|_| Error::Memory { what: "elements of a result", wanted: len as u64 })?;
    room.resize(len, A::narrow(f64::NAN));
    Ok(room)
}

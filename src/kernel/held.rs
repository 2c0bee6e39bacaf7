//! Constants: parameters whose numbers are bound with their sizes and are the same at each call.
//!
//! When a kernel is bound, its program is [split](crate::schedule::hold()): what depends on constants alone is computed at once, by a kernel of
//! its own, and kept. A call is then given the other parameters. The tensors of constants are shared with the inputs, not copied.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeFrom;
use std::sync::Arc;

use super::call::Room;
use super::interpret::Location;
use super::leaf::{Leaf, Output};
use super::native::Swap;
use super::slices::{Given, Wanted};
use super::{Engine, Kernel, Parts, layout, native};
use crate::base::ParamId;
use crate::codegen::compile::Note;
use crate::error::{Error, Result};
use crate::loops::{Array, Program};
use crate::tensor::{Bindings, Inputs, Slice, SliceMut, Tensor, Value};
use crate::ty::{Param, Signature};

/// Numbers that are kept for calls.
#[derive(Debug)]
pub(super) enum Numbers {
    /// A leaf of a constant.
    Given(Arc<Tensor>),
    /// What was computed.
    Computed(Room),
}

impl Numbers {
    #[inline(always)]
    pub fn slice(&self) -> Slice<'_> {
        match self {
            Numbers::Given(tensor) => tensor.numbers(),
            Numbers::Computed(room) => room.as_slice(),
        }
    }
}

/// What a kernel keeps: its constants, and what was computed from them.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The names of the constants, and their values.
    constants: Vec<(String, Value)>,
    /// What was computed, then the leaves of the constants.
    numbers: Vec<Numbers>,
}

impl Held {
    /// The constants of bindings, with what was computed from them.
    pub fn new(signature: &Signature, bindings: &Bindings, constants: &BTreeSet<ParamId>, computed: Vec<Room>) -> Held {
        let mut held = Held { constants: Vec::new(), numbers: computed.into_iter().map(Numbers::Computed).collect() };
        for ((id, param), value) in signature.params.iter().zip(bindings.values().values()) {
            if constants.contains(&id) {
                held.constants.push((param.name.clone(), value.clone()));
                held.numbers.extend(value.leaves().iter().cloned().map(Numbers::Given));
            }
        }
        held
    }

    pub fn numbers(&self) -> &[Numbers] {
        &self.numbers
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.constants.iter().map(|(name, _)| name.as_str())
    }

    pub fn is_constant(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Where the leaves of each parameter are at a call.
    pub fn locations(&self, signature: &Signature, bindings: &Bindings) -> Vec<Vec<Location>> {
        let leaves: usize = self.constants.iter().map(|(_, value)| value.leaves().len()).sum();
        let (mut held, mut input) = ((self.numbers.len() - leaves).., 0..);
        let of = |(param, value): (&Param, &Value)| {
            let (next, location): (&mut RangeFrom<usize>, fn(usize) -> Location) = match self.is_constant(&param.name) {
                true => (&mut held, Location::Held),
                false => (&mut input, Location::Input),
            };
            next.take(value.leaves().len()).map(location).collect()
        };
        signature.params.values().zip(bindings.values().values()).map(of).collect()
    }

    /// The inputs of a call with the constants that it leaves out; nothing where it leaves out none.
    pub fn add(&self, inputs: &Inputs) -> Option<Inputs> {
        let mut all = None;
        for (name, value) in self.constants.iter().filter(|(name, _)| !inputs.gives(name)) {
            all.get_or_insert_with(|| inputs.clone()).value(name.clone(), value.clone());
        }
        all
    }

    /// Checks that constants that a call gives have the numbers that were bound.
    pub fn check(&self, signature: &Signature, bindings: &Bindings) -> Result<()> {
        let found = signature.params.values().zip(bindings.values().values());
        let found = found.filter(|(param, _)| self.is_constant(&param.name));
        for ((name, bound), (_, value)) in self.constants.iter().zip(found) {
            let same = |(a, b): (&Arc<Tensor>, &Arc<Tensor>)| Arc::ptr_eq(a, b) || same_bits(a.numbers(), b.numbers());
            if !bound.leaves().iter().zip(value.leaves()).all(same) {
                let message =
                    "it is a constant of this kernel, which was bound to other numbers; bind again to change them";
                return Err(Error::data(name, message));
            }
        }
        Ok(())
    }
}

fn same_bits(a: Slice<'_>, b: Slice<'_>) -> bool {
    match (a, b) {
        (Slice::Double(a), Slice::Double(b)) => a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits())),
        (Slice::Single(a), Slice::Single(b)) => a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits())),
        _ => false,
    }
}

/// Setups with more work than this are compiled, where native code is wanted: it takes about as long as to compile them.
const MUCH_WORK: u128 = 200_000_000;

/// What a setup leaves for calls.
pub(super) struct SetUp {
    /// Its results in order.
    pub computed: Vec<Room>,
    /// The arrays that it read.
    pub arrays: BTreeMap<Array, Vec<u32>>,
    /// What there is to say of how its native code was found.
    pub notes: Vec<Note>,
}

/// Runs a setup.
///
/// # Errors
/// Those of binding, and [`Error::Memory`] if there is no memory for a result.
pub(super) fn set_up(setup: Program, bindings: &Bindings, engine: Engine) -> Result<SetUp> {
    let shapes = layout::shapes(&setup, bindings)?;
    let (mut outputs, mut computed) = (Vec::new(), Vec::new());
    for (name, leaves) in &setup.outputs {
        let [leaf] = leaves.as_slice() else { return Err(Error::bug("hold", "what is held has several leaves")) };
        let precision = setup.buffers.get(*leaf).map(|buffer| buffer.precision).unwrap_or_default();
        let len = layout::shape_of(&shapes, *leaf)?.len;
        // Numbers one after the other: nobody else sees them.
        outputs.push(Output { name: name.clone(), leaves: vec![Leaf::Dense(vec![len])], precisions: vec![precision] });
        computed.push(Room::new(precision, len)?);
    }
    let parts = Parts { outputs, held: Held::default(), arrays: BTreeMap::new(), limit: Engine::Interpreter.limit() };
    let mut kernel = Kernel::over(Arc::new(setup), bindings, parts, Engine::Interpreter)?;
    let stmts = kernel.program.nests.iter().flat_map(|nest| &nest.body);
    if engine != Engine::Interpreter && native::work_of(stmts, bindings, &kernel.arrays)? >= MUCH_WORK {
        // The interpreter gives the same numbers where there is no native code.
        if let Ok(native) = Swap::new(&kernel.program, bindings, &kernel.arrays, Engine::Native) {
            kernel.native = native;
        }
    }
    let leaves = bindings.values().values().flat_map(|value| value.leaves());
    let given: Vec<Slice<'_>> = leaves.map(|tensor| tensor.numbers()).collect();
    let mut wanted: Vec<SliceMut<'_>> = computed.iter_mut().map(Room::slice).collect();
    let mut scratch = kernel.scratch()?;
    kernel.run(Given::Mixed(&given), Wanted::Mixed(&mut wanted), &mut scratch.machine)?;
    let notes = kernel.notes();
    let arrays = kernel.program.arrays.values().cloned().zip(kernel.arrays).collect();
    Ok(SetUp { computed, arrays, notes })
}

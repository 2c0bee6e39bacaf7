//! Sparse results whose pattern follows from those of the inputs.
//!
//! The support of a result is known before any number is: it is made of guards, relations and the patterns of sparse parameters, by products,
//! unions and sums. Two programs come out of it:
//! - the *structure* program lists the places of the support; it runs once, when sizes and relations are bound;
//! - the *values* program computes the result on the places listed, which it takes as one more relation; it runs at each call.
//!
//! ```text
//! C = gen i j. sum k. A[i, k] * B[k, j]        pattern C = { (i, j) | exists k. A?(i, k) and B?(k, j) }
//! ```
//!
//! A place where terms cancel stays in the pattern: it depends on no number.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Engine, Kernel, code, features, layout, structure};
use crate::base::{Arena, RelationId, SizeId};
use crate::error::{Error, Result};
use crate::index::Size;
use crate::kernel::interpret::Memory;
use crate::kernel::registers::Registers;
use crate::kernel::slices::{Given, Wanted};
use crate::loops;
use crate::tensor::{self, Bindings, Inputs, Relation, bind};

/// Makes the programs for given sizes, where tensors that are zero for these sizes alone make them others.
pub(crate) type ForSizes = dyn Fn(&Arena<SizeId, i64>) -> Result<Option<Assembly>> + Send + Sync;

/// A program of which some results are sparse, with patterns that are found out when it is bound.
#[derive(Clone)]
pub struct Assembly {
    structure: Arc<loops::Program>,
    values: Arc<loops::Program>,
    for_sizes: Arc<ForSizes>,
    /// What is stored in single precision: parameters and results by name, and whether all results are.
    single: Vec<String>,
    results_in_single: bool,
    /// The names and shapes of the relations that the values program takes, and their numbers.
    patterns: Vec<(String, Vec<Size>)>,
    relations: Vec<RelationId>,
}

/// The patterns that were found out, by the names under which the values program takes them; and how many entries the matrix has whose blocks
/// they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub patterns: Vec<(String, Arc<Relation>)>,
    pub entries: Option<i64>,
}

impl Found {
    /// Inputs with what was found out.
    pub fn add(&self, inputs: &Inputs) -> Inputs {
        let mut all = inputs.clone();
        for (name, relation) in &self.patterns {
            all.relation(name.clone(), relation.clone());
        }
        if let Some(entries) = self.entries {
            all.size(loops::MATRIX, entries);
        }
        all
    }

    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

impl fmt::Debug for Assembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Assembly");
        shown.field("structure", &self.structure).field("values", &self.values);
        shown.field("patterns", &self.patterns).field("relations", &self.relations).finish_non_exhaustive()
    }
}

impl Assembly {
    /// The programs that list the places of results, and compute the results on these places; both for given sizes; and of each pattern its name,
    /// its shape and the relation that the second program takes for it.
    pub(crate) fn new(
        structure: loops::Program,
        values: loops::Program,
        for_sizes: Arc<ForSizes>,
        patterns: Vec<(String, Vec<Size>)>,
        relations: Vec<RelationId>,
    ) -> Assembly {
        let (structure, values) = (Arc::new(structure), Arc::new(values));
        Assembly { structure, values, for_sizes, single: Vec::new(), results_in_single: false, patterns, relations }
    }

    /// The program that lists the places of the results.
    pub fn structure(&self) -> &loops::Program {
        &self.structure
    }

    /// The program that computes the results on these places.
    pub fn values(&self) -> &loops::Program {
        &self.values
    }

    /// Stores parameters and results in single precision, as [`loops::Program::store_in_single`] does.
    ///
    /// # Errors
    /// [`Error::Request`] for a name that no parameter and no result has.
    pub fn store_in_single(&mut self, names: &[&str]) -> Result<()> {
        Arc::make_mut(&mut self.values).store_in_single(names)?;
        self.single.extend(names.iter().map(|name| (*name).to_owned()));
        Ok(())
    }

    /// Stores all results in single precision.
    ///
    /// # Errors
    /// [`Error::Bug`].
    pub fn store_results_in_single(&mut self) -> Result<()> {
        self.results_in_single = true;
        Arc::make_mut(&mut self.values).store_results_in_single()
    }

    /// Finds out the patterns for the sizes and relations of inputs, and binds the values program to them.
    ///
    /// # Errors
    /// Those of [`Kernel::bind`].
    pub fn bind(&self, inputs: &Inputs, engine: Engine) -> Result<Kernel> {
        self.bind_with_constants(inputs, &[], engine)
    }

    /// The same, where the numbers of some parameters are constant: see [`Kernel::bind_with_constants`].
    ///
    /// # Errors
    /// Those of [`Kernel::bind_with_constants`].
    pub fn bind_with_constants(&self, inputs: &Inputs, constants: &[&str], engine: Engine) -> Result<Kernel> {
        self.bind_within(inputs, constants, engine, engine.limit())
    }

    /// The same, where the loops of a call may take so many iterations: see [`Kernel::bind_within`].
    ///
    /// # Errors
    /// Those of [`Kernel::bind_with_constants`].
    pub fn bind_within(&self, inputs: &Inputs, constants: &[&str], engine: Engine, limit: u64) -> Result<Kernel> {
        let other = self.for_inputs(inputs)?;
        let assembly = other.as_ref().unwrap_or(self);
        assembly.bind_found(inputs, constants, (engine, limit), assembly.find(inputs)?, BTreeMap::new())
    }

    /// The same on the patterns of another assembly of the same results, which have no entry that these have not.
    pub(crate) fn bind_on_patterns_of(
        &self,
        other: &Assembly,
        inputs: &Inputs,
        constants: &[&str],
        within: (Engine, u64),
    ) -> Result<Kernel> {
        let found = other.for_inputs(inputs)?.as_ref().unwrap_or(other).find(inputs)?;
        let own = self.for_inputs(inputs)?;
        own.as_ref().unwrap_or(self).bind_found(inputs, constants, within, found, BTreeMap::new())
    }

    /// Finds out the patterns for the sizes and relations of inputs.
    pub(super) fn find(&self, inputs: &Inputs) -> Result<Found> {
        let bindings = bind(&self.structure.signature, inputs)?;
        let names = self.patterns.iter().map(|(name, _)| name.clone());
        Ok(Found { patterns: names.zip(self.places(&bindings)?.into_iter().map(Arc::new)).collect(), entries: None })
    }

    /// The programs for the sizes of inputs, where they are others.
    pub(super) fn for_inputs(&self, inputs: &Inputs) -> Result<Option<Assembly>> {
        let sizes = tensor::sizes(&self.structure.signature, inputs)?;
        let Some(mut other) = (self.for_sizes)(&sizes)? else { return Ok(None) };
        let single: Vec<&str> = self.single.iter().map(String::as_str).collect();
        other.store_in_single(&single)?;
        if self.results_in_single {
            other.store_results_in_single()?;
        }
        Ok(Some(other))
    }

    /// Binds the values program to patterns; `starts` says for each of them where the rows of the block start in the matrix.
    pub(super) fn bind_found(
        &self,
        inputs: &Inputs,
        constants: &[&str],
        within: (Engine, u64),
        found: Found,
        starts: BTreeMap<RelationId, Vec<u32>>,
    ) -> Result<Kernel> {
        let mut arrays = BTreeMap::new();
        for array in self.values.arrays.values().filter(|array| array.part == loops::Part::Starts) {
            let known = starts.get(&array.relation).cloned();
            arrays.insert(array.clone(), known.ok_or_else(|| Error::bug("bind", "rows of a block that is not there"))?);
        }
        let mut kernel = Kernel::bind_on(self.values.clone(), &found.add(inputs), constants, within, arrays)?;
        kernel.assembled = found;
        Ok(kernel)
    }

    /// The relations of the patterns, in order.
    pub(super) fn relations(&self) -> &[RelationId] {
        &self.relations
    }

    /// The tuples of each pattern.
    fn places(&self, bindings: &Bindings) -> Result<Vec<Relation>> {
        let program = &self.structure;
        layout::check(program, bindings)?;
        let lengths = |shape: &Vec<Size>| shape.iter().map(|n| bindings.length(n)).collect::<Result<Vec<usize>>>();
        let lengths = self.patterns.iter().map(|(_, shape)| lengths(shape)).collect::<Result<Vec<_>>>()?;
        let shapes = lengths.iter().map(|lengths| layout::row_major(lengths)).collect::<Result<Vec<_>>>()?;
        let arrays = structure::arrays(program, bindings, BTreeMap::new())?;
        let codes = code::compile_all(program, &shapes, bindings)?;
        let mut registers = Registers::default();
        registers.reserve(&codes);
        let mut tuples = vec![Vec::new(); self.patterns.len()];
        let mut memory = Memory {
            locations: &[],
            inputs: Given::Double(&[]),
            held: &[],
            outputs: Wanted::Double(&mut []),
            workspaces: &mut [],
            arrays: &arrays,
            functions: &program.signature.functions,
            tuples: &mut tuples,
        };
        codes.iter().try_for_each(|code| features::run(code, &mut registers, &mut memory))?;
        let mut relations = Vec::with_capacity(tuples.len());
        for ((places, lengths), shape) in tuples.iter_mut().zip(lengths).zip(&shapes) {
            places.sort_unstable();
            places.dedup();
            let column = |axis: usize| {
                let (stride, n) = (shape.strides[axis].max(1), lengths[axis].max(1) as i64);
                // Places are within the shape, so none of these is negative.
                places.iter().map(|place| (place / stride % n) as usize).collect()
            };
            let columns = (0..lengths.len()).map(column).collect();
            let relation = Relation::new(lengths.clone(), columns);
            relations.push(relation.map_err(|malformed| Error::bug("assemble", malformed.to_string()))?);
        }
        Ok(relations)
    }
}

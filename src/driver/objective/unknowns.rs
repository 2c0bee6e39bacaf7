//! The unknowns of an optimiser as one vector.

use super::super::{Function, Names};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::tensor::{Inputs, Precision, Value};
use crate::ty::is_part;

/// Parameters that are looked for, in the order of the parameters, and where they start.
#[derive(Debug)]
pub(super) struct Unknowns {
    /// All inputs, in double precision.
    pub inputs: Inputs,
    /// The parameters.
    list: Vec<Unknown>,
}

/// A parameter that is looked for.
#[derive(Debug)]
struct Unknown {
    name: String,
    /// How many numbers each of its leaves has.
    lengths: Vec<usize>,
}

impl Unknowns {
    /// The parameters of the given names.
    ///
    /// # Errors
    /// [`Error::Request`] for a name that no parameter has, or that is given twice.
    pub fn new(function: &Function, inputs: &Inputs, wrt: impl Names) -> Result<Unknowns> {
        let wrt = wrt.names();
        let params = function.tssa.signature.params.values().map(|param| &param.name);
        let names: Vec<&String> = params.filter(|name| wrt.contains(name)).collect();
        if names.len() != wrt.len() {
            let unknown = wrt.iter().find(|name| !names.contains(name));
            return Err(Error::Request(match unknown {
                Some(name) => format!("the program has no parameter `{name}`"),
                None => "an unknown is given twice".to_owned(),
            }));
        }
        let inputs = inputs.in_precision(Precision::Double);
        let lengths = |value: &Value| value.leaves().iter().map(|leaf| leaf.data().len()).collect();
        let unknown =
            |name: &String| Unknown { lengths: inputs.get(name).map_or_else(Vec::new, lengths), name: name.clone() };
        let list = names.into_iter().map(unknown).collect();
        Ok(Unknowns { inputs, list })
    }

    /// Their names.
    pub fn names(&self) -> Vec<&str> {
        self.list.iter().map(|unknown| unknown.name.as_str()).collect()
    }

    /// The other parameters that a derivative of the function takes.
    pub fn constants<'f>(&self, derivative: &'f Function) -> Vec<&'f str> {
        let params = derivative.tssa.signature.params.values().map(|param| param.name.as_str());
        params.filter(|name| self.list.iter().all(|unknown| unknown.name != *name)).collect()
    }

    /// How many numbers a point has.
    pub fn len(&self) -> usize {
        self.list.iter().flat_map(|unknown| &unknown.lengths).sum()
    }

    /// The unknowns as they are in the inputs.
    pub fn start(&self) -> Vec<f64> {
        let values = self.list.iter().filter_map(|unknown| self.inputs.get(&unknown.name));
        values.flat_map(|value| value.leaves().iter().flat_map(|leaf| leaf.data().iter().copied())).collect()
    }

    /// A vector of as many numbers as a point has, leaf by leaf.
    pub fn leaves(&self) -> impl Iterator<Item = usize> {
        self.list.iter().flat_map(|unknown| unknown.lengths.iter().copied())
    }

    /// Whether a kernel reads an unknown, for each leaf.
    pub fn are_read(&self, kernel: &Kernel) -> Vec<bool> {
        let is_read = |name: &str| kernel.inputs().iter().any(|(read, _)| is_part(read, name));
        let leaves = |unknown: &Unknown| std::iter::repeat_n(is_read(&unknown.name), unknown.lengths.len());
        self.list.iter().flat_map(leaves).collect()
    }

    /// Checks the length of a vector that has a number for each of a point.
    pub fn check(&self, name: &str, found: usize) -> Result<()> {
        check_length(name, self.len(), found)
    }

    /// The leaves of a point that are read.
    pub fn given<'p>(&self, mut point: &'p [f64], are_read: &[bool]) -> Vec<&'p [f64]> {
        let mut given = Vec::with_capacity(are_read.len());
        for (length, is_read) in self.leaves().zip(are_read) {
            let (leaf, rest) = point.split_at(length.min(point.len()));
            if *is_read {
                given.push(leaf);
            }
            point = rest;
        }
        given
    }

    /// The inputs, with the unknowns at a point.
    pub fn at(&self, point: &[f64]) -> Result<Inputs> {
        self.check("point", point.len())?;
        let (mut inputs, mut rest) = (self.inputs.clone(), point);
        for Unknown { name, .. } in &self.list {
            let Some(value) = self.inputs.get(name) else { continue };
            let mut leaves = Vec::with_capacity(value.leaves().len());
            for leaf in value.leaves() {
                let (own, others) = rest.split_at(leaf.data().len().min(rest.len()));
                let mut leaf = (**leaf).clone();
                leaf.data_mut().copy_from_slice(own);
                leaves.push(std::sync::Arc::new(leaf));
                rest = others;
            }
            inputs.value(name, Value::new(leaves));
        }
        Ok(inputs)
    }
}

/// Memory cut into leaves of these lengths, which is as long as they are together.
pub(super) fn leaf_by_leaf(lengths: impl Iterator<Item = usize>, mut numbers: &mut [f64]) -> Vec<&mut [f64]> {
    let mut leaves = Vec::new();
    for length in lengths {
        let (leaf, rest) = numbers.split_at_mut(length);
        leaves.push(leaf);
        numbers = rest;
    }
    leaves
}

/// Checks the length of a vector.
pub(super) fn check_length(name: &str, expected: usize, found: usize) -> Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(Error::data(name, format!("{expected} numbers are expected, found {found}"))),
    }
}

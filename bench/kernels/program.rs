//! Programs of `bench/programs` with their inputs.

use iverson::Result;
use iverson::tensor::{Coo, Csr, Dense, Inputs, Relation};

use crate::harness::{Case, Run, Table};

/// A program with its inputs.
pub struct Program<'a> {
    name: String,
    text: &'a str,
    wrt: &'a [&'a str],
    inputs: Inputs,
    data: Vec<Vec<f64>>,
}

impl<'a> Program<'a> {
    /// A program, if the table wants it.
    pub fn new(table: &Table, name: String, text: &'a str, wrt: &'a [&'a str]) -> Option<Program<'a>> {
        table.wants(&name).then(|| Program { name, text, wrt, inputs: Inputs::new(), data: Vec::new() })
    }

    /// A dense parameter. Parameters are given in the order of their declarations.
    pub fn tensor(mut self, name: &str, shape: &[usize], data: Vec<f64>) -> Self {
        self.inputs.value(name, Dense::new(shape, data.clone()).expect("it fits"));
        self.data.push(data);
        self
    }

    /// A sparse matrix.
    pub fn csr(mut self, name: &str, matrix: &Csr) -> Self {
        self.inputs.value(name, matrix.clone());
        self.data.push(matrix.data().to_vec());
        self
    }

    /// A sparse tensor.
    pub fn coo(mut self, name: &str, tensor: Coo, data: Vec<f64>) -> Self {
        self.inputs.value(name, tensor);
        self.data.push(data);
        self
    }

    /// A map to so many targets.
    pub fn map(mut self, name: &str, sources: &[usize], targets: &[u32], codomain: usize) -> Self {
        let targets = targets.iter().map(|t| *t as usize).collect();
        self.inputs.relation(name, Relation::from_map(sources, targets, codomain).expect("in range"));
        self
    }

    /// A size that no shape gives.
    pub fn size(mut self, name: &str, size: usize) -> Self {
        self.inputs.size(name, size as i64);
        self
    }

    /// The numbers of the parameters.
    pub fn numbers<const N: usize>(&self) -> [&[f64]; N] {
        let all: Vec<&[f64]> = self.data.iter().map(Vec::as_slice).collect();
        all.try_into().expect("so many parameters")
    }

    /// Measures the program beside a kernel by hand, which is made once to run for the value and once for value and gradient: it has as many results as
    /// are asked for.
    pub fn compare<'b>(&'b self, table: &mut Table, by_hand: impl Fn() -> Run<'b>) -> Result<()> {
        let data: Vec<&[f64]> = self.data.iter().map(Vec::as_slice).collect();
        let case = Case {
            name: &self.name,
            text: self.text,
            wrt: self.wrt,
            inputs: &self.inputs,
            constants: &[],
            data: &data,
        };
        table.compare(case, by_hand(), by_hand())
    }
}

/// Integers below a bound.
pub fn random_below(len: usize, bound: usize, seed: u64) -> Vec<u32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| rng.u32(0..bound as u32)).collect()
}

/// Numbers between 0.1 and 1.
pub fn positive(len: usize, seed: u64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| 0.1 + 0.9 * rng.f64()).collect()
}

//! The storage formats of sparse tensors: one table of what each can do. Passes ask for a capability, never for a format by name.
//!
//! A pattern is a set of places, whatever the format. The format says in which order the entries at these places are numbered. The values lie in
//! this order where their owner keeps them, and kernels read and write them there: nothing is permuted in between.

use serde::{Deserialize, Serialize};

/// A storage format of sparse tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Compressed sparse rows.
    Csr,
    /// Compressed sparse columns.
    Csc,
    /// Sorted coordinates.
    Coo,
}

/// What a format can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What it is called in programs.
    pub name: &'static str,
    /// The only number of axes it stores; any but none where it says nothing.
    pub rank: Option<usize>,
    /// *Locate*: the axis at each of whose coordinates entries are found by an offset, also where there are none. Entries are numbered by this
    /// axis first, and visiting them in this order is as cheap as a dense loop.
    pub offsets: Option<usize>,
    /// The extension of the files that results are written to.
    pub extension: &'static str,
    /// Its type in Rust. It has `from_dense`; one of a given rank also `from_` the name of each other format, one of any rank `From` for them.
    pub tensor: &'static str,
}

const CSR: Capabilities =
    Capabilities { name: "csr", rank: Some(2), offsets: Some(0), extension: "mtx", tensor: "Csr" };

const CSC: Capabilities =
    Capabilities { name: "csc", rank: Some(2), offsets: Some(1), extension: "mtx", tensor: "Csc" };

const COO: Capabilities = Capabilities { name: "coo", rank: None, offsets: None, extension: "tns", tensor: "Coo" };

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::Csr, Format::Csc, Format::Coo];

    /// What it can do.
    pub fn capabilities(self) -> &'static Capabilities {
        match self {
            Format::Csr => &CSR,
            Format::Csc => &CSC,
            Format::Coo => &COO,
        }
    }

    /// What it is called in programs.
    pub fn name(self) -> &'static str {
        self.capabilities().name
    }

    /// The format of a name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Whether it stores tensors of so many axes.
    pub fn stores(self, rank: usize) -> bool {
        self.capabilities().rank.map_or(rank > 0, |only| rank == only)
    }

    /// The axes of a tensor of so many by which its entries are in order, the most significant first: the one with offsets, then the others.
    pub fn order(self, rank: usize) -> Vec<usize> {
        let first = self.capabilities().offsets;
        let others = (0..rank).filter(|axis| Some(*axis) != first);
        first.filter(|axis| *axis < rank).into_iter().chain(others).collect()
    }

    /// How a tensor of another format, or a dense one, is converted to it.
    pub fn conversion(self, from: Option<Format>) -> String {
        let Capabilities { rank, tensor, .. } = self.capabilities();
        match (from, rank) {
            (None, _) => format!("{tensor}::from_dense"),
            (Some(_), None) => format!("{tensor}::from"),
            (Some(from), Some(_)) => format!("{tensor}::from_{}", from.name()),
        }
    }
}

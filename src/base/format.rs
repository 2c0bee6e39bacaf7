//! The storage formats of sparse tensors: one table of what each can do. Passes ask for a capability, never for a format by name.
//!
//! The tuples of a pattern and the values beside them are in lexicographic order inside the compiler and its kernels. A format says how a user
//! declares and hands over a tensor, and how well its entries can be visited.

use serde::{Deserialize, Serialize};

/// A storage format of sparse tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Compressed sparse rows.
    Csr,
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
    /// *Locate*: the axis at each of whose coordinates entries are found by an offset, also where there are none. Visiting them in this order
    /// is as cheap as a dense loop.
    pub offsets: Option<usize>,
    /// The extension of the files that results are written to.
    pub extension: &'static str,
    /// How a sparse tensor of another format is converted to it.
    pub from_sparse: &'static str,
    /// How a dense tensor is converted to it.
    pub from_dense: &'static str,
}

const CSR: Capabilities = Capabilities {
    name: "csr",
    rank: Some(2),
    offsets: Some(0),
    extension: "mtx",
    from_sparse: "Csr::from_coo",
    from_dense: "Csr::from_dense",
};

const COO: Capabilities = Capabilities {
    name: "coo",
    rank: None,
    offsets: None,
    extension: "tns",
    from_sparse: "Coo::from",
    from_dense: "Coo::from_dense",
};

impl Format {
    /// All formats.
    pub const ALL: [Format; 2] = [Format::Csr, Format::Coo];

    /// What it can do.
    pub fn capabilities(self) -> &'static Capabilities {
        match self {
            Format::Csr => &CSR,
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
}

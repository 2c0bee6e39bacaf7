//! Types, and the signature of a program: what it takes from outside.

mod precision;
mod quotient;
mod signature;

pub use crate::base::{Capabilities, Format};
pub use precision::Precision;
pub use quotient::Quotient;
pub(crate) use quotient::dividend;
pub use signature::{Param, Relation, RelationKind, Signature, Storage};

use serde::{Deserialize, Serialize};

use crate::base::{Id, Interner};
use crate::error::{Error, Result};
use crate::index::Size;

/// The deepest nesting of a type; the components of a tuple nest to the right.
pub const MAX_NESTING: usize = 64;

crate::base::define_id!(
    /// A type in a [`Types`] table.
    TypeId,
    "t"
);

/// `T ::= real | (T, T) | [n] T`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Type {
    /// A number.
    Real,
    /// A pair.
    Pair(TypeId, TypeId),
    /// An array of as many elements as the size says, none where it is negative.
    Tensor(Size, TypeId),
}

/// How many steps an `iterate` makes at most where nothing is said.
pub const MOST_STEPS: i64 = 1 << 32;

/// One half of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The first component.
    Fst,
    /// The second component.
    Snd,
}

/// Whether a name is that of a whole, or of a component of it: `ab.0.1` of `ab`, and of `ab.0`.
pub(crate) fn is_part(name: &str, whole: &str) -> bool {
    name.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// `ab.0.1`
pub(crate) fn leaf_name(param: &str, path: &[Side]) -> String {
    let mut name = param.to_string();
    for side in path {
        name.push_str(match side {
            Side::Fst => ".0",
            Side::Snd => ".1",
        });
    }
    name
}

/// A leaf of a type in struct-of-arrays form: `[n] (real, [m] real)` has the leaves `[n] real` and `[n, m] real`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The projections that lead to the leaf, outermost pair first: `snd (fst x)` is `[Fst, Snd]`.
    pub path: Vec<Side>,
    /// The sizes of its axes, outermost first.
    pub dims: Vec<Size>,
}

/// A result that is a block of a matrix: the derivative of one tensor by another, with the axes of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The name of the result.
    pub result: String,
    /// What is differentiated: an output, or a parameter by which a gradient was taken; empty for `value`.
    pub row: String,
    /// The parameter that it is differentiated by.
    pub column: String,
    /// How many axes of the result belong to the row; they come first.
    pub row_axes: usize,
    /// How many belong to the column.
    pub column_axes: usize,
}

impl Block {
    /// Whether it is no single number.
    pub fn has_axes(&self) -> bool {
        self.row_axes + self.column_axes > 0
    }
}

/// Hash-consed types: equal types have equal ids, so a type that doubles at each of 1000 levels takes 1000 entries.
#[derive(Clone, Debug)]
pub struct Types {
    types: Interner<TypeId, Type>,
}

impl Types {
    /// The id of `real` in every table.
    pub const REAL: TypeId = TypeId(0);

    /// How many leaves a parameter or an output may have.
    pub const MAX_LEAVES: usize = 4096;

    /// How many axes a tensor may have.
    pub const MAX_RANK: usize = 16;

    /// A table that holds `real`.
    pub fn new() -> Self {
        let mut types = Interner::new();
        types.intern(Type::Real);
        Types { types }
    }

    /// The pair type `(a, b)`.
    pub fn pair(&mut self, a: TypeId, b: TypeId) -> TypeId {
        self.types.intern(Type::Pair(a, b))
    }

    /// The tensor type `[n] element`.
    pub fn tensor(&mut self, n: Size, element: TypeId) -> TypeId {
        self.types.intern(Type::Tensor(n, element))
    }

    /// The tensor type `[d0] .. [dk] element`.
    pub fn tensor_of(&mut self, dims: &[Size], element: TypeId) -> TypeId {
        dims.iter().rev().fold(element, |t, n| self.tensor(n.clone(), t))
    }

    /// What a type is.
    ///
    /// # Panics
    /// If the id is of another table.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id]
    }

    /// Whether the id is of this table.
    pub fn contains(&self, id: TypeId) -> bool {
        id.index() < self.types.len()
    }

    /// The types, components before what they are part of.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TypeId, &Type)> {
        self.types.iter()
    }

    /// The sizes of the outer axes, and what the elements are: `[n, m] (real, real)` gives `[n, m]` and the pair.
    pub fn peel(&self, mut id: TypeId) -> (Vec<&Size>, TypeId) {
        let mut dims = Vec::new();
        while let Type::Tensor(n, element) = self.get(id) {
            dims.push(n);
            id = *element;
        }
        (dims, id)
    }

    /// The axes of a tensor of reals (none for `real`), nothing where pairs occur.
    pub fn real_dims(&self, id: TypeId) -> Option<Vec<Size>> {
        let (dims, element) = self.peel(id);
        (element == Types::REAL).then(|| dims.into_iter().cloned().collect())
    }

    /// The leaves in struct-of-arrays form, from left to right.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are more than [`Types::MAX_LEAVES`].
    pub fn leaves(&self, id: TypeId) -> Result<Vec<Leaf>> {
        let mut leaves = Vec::new();
        let mut stack = vec![(id, Leaf { path: Vec::new(), dims: Vec::new() })];
        while let Some((id, mut leaf)) = stack.pop() {
            match self.get(id) {
                Type::Real => leaves.push(leaf),
                Type::Tensor(n, element) => {
                    leaf.dims.push(n.clone());
                    stack.push((*element, leaf));
                }
                Type::Pair(a, b) => {
                    let mut second = leaf.clone();
                    second.path.push(Side::Snd);
                    leaf.path.push(Side::Fst);
                    stack.push((*b, second));
                    stack.push((*a, leaf));
                }
            }
            let found = leaves.len() + stack.len();
            if found > Types::MAX_LEAVES {
                return Err(Error::Limit {
                    what: "components of one parameter or output",
                    limit: Types::MAX_LEAVES as u64,
                    found: found as u64,
                });
            }
        }
        Ok(leaves)
    }
}

impl PartialEq for Types {
    fn eq(&self, other: &Self) -> bool {
        self.types.iter().eq(other.types.iter())
    }
}

impl Default for Types {
    fn default() -> Self {
        Types::new()
    }
}

/// Types serialise as the list of their entries, components first.
impl Serialize for Types {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.types.iter().map(|(_, t)| t))
    }
}

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let entries = Vec::<Type>::deserialize(deserializer)?;
        let mut types = Interner::<TypeId, Type>::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let known = |id: &TypeId| id.index() < at;
            let sound = match &entry {
                Type::Real => at == 0,
                Type::Pair(a, b) => known(a) && known(b),
                Type::Tensor(n, element) => known(element) && n.is_size(),
            };
            if !sound || types.intern(entry).index() != at {
                return Err(serde::de::Error::custom(format!("entry {at} of the type table is not in order")));
            }
        }
        if types.is_empty() {
            return Err(serde::de::Error::custom("the type table is empty"));
        }
        Ok(Types { types })
    }
}

//! What a program takes from outside: sizes, parameters, relations, assumptions, scalar functions.

use serde::{Deserialize, Serialize};

use super::{TypeId, Types};
use crate::base::{Arena, FunctionId, ParamId, RelationId, SizeId};
use crate::index::{Pred, Size};
use crate::scalar::UserFunction;

/// The signature of a program, shared by all its stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// The types of the parameters, and of whatever the program needed when the signature was made.
    pub types: Types,
    /// The names of the size variables. A size variable is never negative.
    pub sizes: Arena<SizeId, String>,
    /// The parameters, in the order of their declaration.
    pub params: Arena<ParamId, Param>,
    /// The relations: declared ones, maps, and the patterns of sparse parameters.
    pub relations: Arena<RelationId, Relation>,
    /// What may be taken for granted of the sizes; checked when sizes are bound to data.
    pub assumptions: Vec<Pred>,
    /// The scalar functions that the user registered.
    pub functions: Arena<FunctionId, UserFunction>,
}

/// A tensor that the program is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type, in the types of the signature.
    pub ty: TypeId,
    /// How it is stored.
    pub storage: Storage,
}

/// How a parameter is stored. A sparse parameter `A` is a tensor of reals and brings its pattern `A?`;
/// `A[i, j]` in a program means `[A?(i, j)] * A.value(i, j)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// Every element.
    Dense,
    /// A sparse matrix, row by row. The relation is its pattern.
    Csr(RelationId),
    /// A sparse tensor of any rank, as sorted coordinates. The relation is its pattern.
    Coo(RelationId),
}

impl Storage {
    /// The relation that holds where an element is stored, nothing for dense storage.
    pub fn pattern(self) -> Option<RelationId> {
        match self {
            Storage::Dense => None,
            Storage::Csr(pattern) | Storage::Coo(pattern) => Some(pattern),
        }
    }
}

/// A set of index tuples that the program is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    /// Its name; the pattern of the parameter `A` is called `A?`.
    pub name: String,
    /// The ranges of its places. A tuple outside is not in the relation.
    pub shape: Vec<Size>,
    /// What is known of it.
    pub kind: RelationKind,
}

/// What is known of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationKind {
    /// Nothing.
    Free,
    /// The last place is a function of the others: `map cam : [p] -> [c]` has the shape `[p, c]`.
    Map,
    /// It is the pattern of a sparse parameter.
    Pattern(ParamId),
}

//! What is declared, as values of Rust: types of parameters, sparse parameters, relations, maps, scalar functions.

use super::Builder;
use super::graph::{Kind, Node, NodeId, Shape};
use super::handles::{Expr, Guard, Index, Place, Real};
use crate::surface::MAX_TYPE_NESTING;

/// The type of a parameter.
#[derive(Clone, Debug)]
pub struct Type<'b> {
    pub(super) builder: &'b Builder<'b>,
    pub(super) shape: Shape,
    pub(super) depth: usize,
}

impl<'b> Type<'b> {
    fn nest(builder: &'b Builder<'b>, depth: usize, shape: Shape) -> Self {
        if depth >= MAX_TYPE_NESTING {
            return Type { builder, shape: Shape::TooDeep, depth: 0 };
        }
        Type { builder, shape, depth }
    }

    /// `[n, ..] self`; itself without sizes.
    #[track_caller]
    pub fn tensor(self, shape: impl Place<'b>) -> Self {
        let sizes = self.builder.nodes(shape);
        if sizes.is_empty() {
            return self;
        }
        Type::nest(self.builder, self.depth + 1, Shape::Tensor(sizes, Box::new(self.shape)))
    }

    /// `(self, second)`
    #[track_caller]
    pub fn pair(self, second: Type<'b>) -> Self {
        let depth = self.depth.max(second.depth) + 1;
        Type::nest(self.builder, depth, Shape::Pair(Box::new(self.shape), Box::new(second.shape)))
    }
}

/// A sparse parameter.
#[derive(Clone, Copy, Debug)]
pub struct Sparse<'b> {
    pub(super) tensor: Expr<'b>,
}

impl<'b> Sparse<'b> {
    /// The tensor, to be passed whole.
    #[track_caller]
    pub fn tensor(self) -> Expr<'b> {
        self.tensor
    }

    /// `A[i, j]`: the stored value, and 0 where none is stored.
    #[track_caller]
    pub fn at(self, indices: impl Place<'b>) -> Expr<'b> {
        self.tensor.at(indices)
    }

    #[track_caller]
    fn member(self, suffix: &str, indices: impl Place<'b>) -> (Kind, Vec<NodeId>) {
        let builder = self.tensor.builder;
        let name = match builder.graph.borrow().nodes.get(self.tensor.id as usize) {
            Some(Node { kind: Kind::Name(name), .. }) => format!("{name}{suffix}"),
            _ => suffix.to_string(),
        };
        (Kind::Call(name), builder.nodes(indices))
    }

    /// `A.value(i, j)`: the stored value, where the guards around it imply [`Sparse::stores`].
    #[track_caller]
    pub fn value(self, indices: impl Place<'b>) -> Expr<'b> {
        let (kind, indices) = self.member(".value", indices);
        Expr::make(self.tensor.builder, kind, indices)
    }

    /// `A?(i, j)`: whether a value is stored there.
    #[track_caller]
    pub fn stores(self, indices: impl Place<'b>) -> Guard<'b> {
        let (kind, indices) = self.member("?", indices);
        Guard::make(self.tensor.builder, kind, indices)
    }
}

/// A declared relation. Its name leaves [`Relation`](crate::tensor::Relation) to the tuples, so that the prelude and this module are used together.
#[derive(Clone, Debug)]
pub struct DeclaredRelation<'b> {
    pub(super) builder: &'b Builder<'b>,
    pub(super) name: String,
}

impl<'b> DeclaredRelation<'b> {
    /// `R(i, ..)`
    #[track_caller]
    pub fn holds(&self, indices: impl Place<'b>) -> Guard<'b> {
        Guard::make(self.builder, Kind::Call(self.name.clone()), self.builder.nodes(indices))
    }
}

/// A declared map.
#[derive(Clone, Debug)]
pub struct Map<'b> {
    pub(super) builder: &'b Builder<'b>,
    pub(super) name: String,
}

impl<'b> Map<'b> {
    /// The target of `(i, ..)`.
    #[track_caller]
    pub fn of(&self, indices: impl Place<'b>) -> Index<'b> {
        Index::make(self.builder, Kind::Call(self.name.clone()), self.builder.nodes(indices))
    }
}

/// A declared scalar function. [`Function`](crate::Function) is a whole program.
#[derive(Clone, Debug)]
pub struct DeclaredFunction<'b> {
    pub(super) builder: &'b Builder<'b>,
    pub(super) name: String,
}

impl<'b> DeclaredFunction<'b> {
    /// `f(a, ..)`
    #[track_caller]
    pub fn call<R: Real<'b>>(&self, args: impl IntoIterator<Item = R>) -> Expr<'b> {
        self.builder.call(&self.name, args)
    }
}

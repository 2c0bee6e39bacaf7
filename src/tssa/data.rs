//! The data types of Tensor-SSA.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Arena, IndexId, ParamId, VarId};
use crate::index::{Pred, Size};
use crate::scalar::{Function, Number};
use crate::ty::{Side, Signature, Storage, TypeId};

/// A tensor read at index variables: `X[i, j]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Operand {
    /// The tensor.
    pub var: VarId,
    /// One index for each of its axes. The range of the index is the size of the axis.
    pub indices: Vec<IndexId>,
}

/// A right-hand side, under the `gen` indices `g` of its statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rhs {
    /// `pi .. pi x`: a leaf of a parameter, with all its axes as `gen` indices.
    Input {
        /// The parameter.
        param: ParamId,
        /// The projections, innermost first applied: `[Fst, Snd]` is `snd (fst x)`.
        path: Vec<Side>,
    },
    /// `c`, a number; it may mention the `gen` indices.
    Number(Number),
    /// `[p0] * X0[g] + [p1] * X1[g]`. Both guards mention `gen` indices only.
    Add([(Pred, VarId); 2]),
    /// `[p] * f(X0[g], ..)`.
    Map {
        /// Where the function is applied.
        guard: Pred,
        /// The function.
        function: Function,
        /// Tensors of the same axes as the statement.
        args: Vec<VarId>,
    },
    /// `sum s. [p] * X0[..] * X1[..]`, or `sum s. [p] * X0[..]`: the tensor contraction, over one or two operands.
    Contract {
        /// The ranges of the `sum` indices.
        sums: Vec<Size>,
        /// Which summands count.
        guard: Pred,
        /// One or two operands, in order.
        operands: Vec<Operand>,
    },
}

/// A statement: the axes of the tensor and its right-hand side.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stmt {
    /// The ranges of the `gen` indices.
    pub dims: Vec<Size>,
    /// The elements.
    pub rhs: Rhs,
}

impl Rhs {
    /// The guards: two of a sum, one of a function or a contraction.
    pub fn guards(&self) -> impl Iterator<Item = &Pred> {
        let (first, second) = match self {
            Rhs::Input { .. } | Rhs::Number(_) => (None, None),
            Rhs::Add([(p, _), (q, _)]) => (Some(p), Some(q)),
            Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => (Some(guard), None),
        };
        first.into_iter().chain(second)
    }

    /// Whether it is a literal, and finite: nothing that it is multiplied by becomes NaN.
    pub(crate) fn is_finite_literal(&self) -> bool {
        matches!(self, Rhs::Number(Number::Literal(c)) if c.is_finite())
    }

    /// Whether a guard reads a tensor as a relation.
    pub fn reads_computed(&self) -> bool {
        self.guards().any(Pred::reads_computed)
    }

    /// The ranges of the `sum` indices.
    pub fn sums(&self) -> &[Size] {
        match self {
            Rhs::Contract { sums, .. } => sums,
            Rhs::Input { .. } | Rhs::Number(_) | Rhs::Add(_) | Rhs::Map { .. } => &[],
        }
    }

    /// The only factor of a product, or of the terms of a sum, that is no finite literal.
    pub(crate) fn only_factor<'s>(&self, stmt: &dyn Fn(VarId) -> &'s Stmt) -> Option<&Operand> {
        let Rhs::Contract { operands, .. } = self else { return None };
        let mut others = operands.iter().filter(|x| !stmt(x.var).rhs.is_finite_literal());
        others.next().filter(|_| others.next().is_none())
    }

    /// The tensors read, in order, with repetitions; those that guards read as relations last.
    pub fn for_each_operand(&self, mut visit: impl FnMut(VarId)) {
        match self {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add(sides) => sides.iter().for_each(|(_, x)| visit(*x)),
            Rhs::Map { args, .. } => args.iter().copied().for_each(&mut visit),
            Rhs::Contract { operands, .. } => operands.iter().for_each(|x| visit(x.var)),
        }
        for guard in self.guards() {
            guard.visit_computed(&mut visit);
        }
    }
}

/// A result of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Its name: `value`, `grad_x`, `adjoint_x`, `tangent`.
    pub name: String,
    /// Its type, in the types of the signature.
    pub ty: TypeId,
    /// How it is stored: a derivative by a sparse parameter has the storage, and the pattern, of the parameter.
    pub storage: Storage,
    /// Its leaves in struct-of-arrays form.
    pub leaves: Vec<VarId>,
}

/// A program in Tensor-SSA. Made by a [`Builder`](super::Builder).
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What the program takes from outside.
    pub signature: Arc<Signature>,
    /// The statements, operands before users, no two equal.
    pub stmts: Arena<VarId, Stmt>,
    /// Names for reading, empty where none is known; they have no meaning.
    pub names: Arena<VarId, String>,
    /// The results.
    pub outputs: Vec<Output>,
}

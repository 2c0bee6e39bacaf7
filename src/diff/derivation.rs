//! The extended language of the adjoint: sums of guarded inner products under `let`s (the paper's Fig. 14), and the record of how one
//! was rewritten into another.
//!
//! A [`Derivation`] is a list of equations, from `<dy | D(f)>` to `<D^T f | dx>`. Each takes a part of the term and puts another in its
//! place, by one rule. What it prints can be checked line by line: every name is bound by the step that first uses it, or given at
//! the top; no name has two meanings; and the whole term stands under each step. [`Derivation::desugar`] gives the meaning of the term
//! after a step as a program, so that steps can be checked by numbers as well.

mod print;

use std::collections::BTreeMap;
use std::ops::Range;

use super::forward::{aligned, tangent_of, zero};
use crate::base::{Id, IndexId, ParamId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size};
use crate::scalar::Number;
use crate::tssa::{Builder, Output, Program, Rhs};
use crate::ty::Types;

/// The right side of an inner product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// `dX`, the tangent that a pending `let dX = D[..]` binds, or that of a parameter.
    Tangent(VarId),
    /// `D[X]` for the variable `X`.
    Variable(VarId),
    /// `D[e]` for the right-hand side `e` of `X`.
    Derivative(VarId),
}

impl Right {
    /// The statement whose tangent or derivative it is.
    pub fn stmt(self) -> VarId {
        match self {
            Right::Tangent(x) | Right::Variable(x) | Right::Derivative(x) => x,
        }
    }
}

/// A guarded inner product `<left | right>_[guard]` of two tensors of the same axes: `sum axes. [guard] left[axes] * right[axes]`.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerProduct {
    /// The left side, a statement. Reading it costs nothing.
    pub left: VarId,
    /// The right side.
    pub right: Right,
    /// The axes, with their ranges.
    pub axes: Vec<(IndexId, Size)>,
    /// Where the product counts.
    pub guard: Pred,
    /// Whether the left side is zero where the guard does not hold, so that the guard says where the work is and no more.
    pub covered: bool,
    /// Tells apart inner products that are alike.
    pub(super) serial: u32,
}

impl InnerProduct {
    /// The guard over other names for the axes.
    pub fn guard_over(&self, axes: &[(IndexId, Size)]) -> Result<Pred> {
        let position = |i: IndexId| self.axes.iter().position(|(j, _)| *j == i);
        Ok(self.guard.substitute(&|i| position(i).and_then(|at| axes.get(at)).map(|(j, _)| Affine::index(*j)))?)
    }
}

/// An inner product with a whole parameter, `<(.., left, ..) | dx>`: the left side is the adjoint of one leaf, the others are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// The adjoint of the leaf.
    pub left: VarId,
    /// The leaf, an input.
    pub input: VarId,
    /// Whether the right side is `dx` already; else it is `D[x]`.
    pub tangent: bool,
}

/// A sum of inner products: a part of a form.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// Inner products with statements.
    pub products: Vec<InnerProduct>,
    /// Inner products with parameters.
    pub collected: Vec<Collected>,
    /// How many summands are 0.
    pub zeros: usize,
}

/// A term of the extended language: `let X = .. in .. let dX = D[..] in .. sum of inner products`.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// How many statements are bound: those of the program, then what steps have bound.
    pub bound: usize,
    /// The tangents still bound, `let dX = D[e]` for each, in order.
    pub pending: Vec<VarId>,
    /// The sum of inner products.
    pub sum: Sum,
}

/// A part of a form, which a rule takes or makes.
#[derive(Clone, Debug)]
pub enum FormPart {
    /// `<dy | D(f)>`.
    Whole,
    /// `let X = e in let dX = D(e) in .. <dy | D(y)>`, with every tangent next to its statement.
    Interleaved,
    /// The names that are bound, in the order of their bindings.
    Order {
        /// Whether tangents come after all statements.
        tangents_last: bool,
    },
    /// `<(dy, dz) | D((y, z))>`.
    Outputs,
    /// `let dX = D(e) in S`, where `S` does not mention `dX`.
    Unused(VarId),
    /// What stands under a binding.
    Rest,
    /// `let dX = D(e) in <a | dX>`.
    Bound(InnerProduct),
    /// A part of the sum.
    Sum(Sum),
    /// `<(a, b) | (dx, dz)>` for all parameters that are differentiated, with the adjoints of their leaves; nothing for 0.
    Joined(Vec<(ParamId, Vec<Option<VarId>>)>),
}

/// One application of a rule.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the rule in the paper, such as `6.28`, or of the figure that defines inner products.
    pub rule: &'static str,
    /// What it does, in a few words.
    pub title: &'static str,
    /// The part that it replaced.
    pub before: FormPart,
    /// The statements that it bound, by number.
    pub lets: Range<usize>,
    /// What it put there, under these bindings.
    pub after: FormPart,
    /// The whole term behind the step.
    pub form: Form,
}

/// The rewriting of `<dy | D f>` into the adjoint, step by step.
#[derive(Clone, Debug)]
pub struct Derivation {
    /// The steps in order.
    pub steps: Vec<Step>,
    /// All statements that are bound in the end. Statements are only ever added.
    pub(super) builder: Builder,
    /// Which statements of the program depend on the parameters that are differentiated.
    pub(super) active: SideTable<VarId, bool>,
    /// How many statements the program has.
    pub(super) stmts: usize,
    /// The seeds, and the outputs they belong to, leaf by leaf.
    pub(super) outputs: Vec<(VarId, VarId)>,
    /// Each parameter that is differentiated, with a parameter to hold its tangent.
    pub(super) tangents: BTreeMap<ParamId, ParamId>,
}

impl Derivation {
    /// The meaning of the term behind a step: a program whose one output is the real number that the sum of inner products is, given
    /// tangents of the parameters. Every rule keeps it.
    ///
    /// # Errors
    /// [`Error::Overflow`], and [`Error::Bug`] where something is used that is not bound.
    pub fn desugar(&self, form: &Form) -> Result<Program> {
        let mut builder = self.builder.clone();
        let mut tangent: BTreeMap<VarId, VarId> = BTreeMap::new();
        let derive = |builder: &mut Builder, x: VarId, tangent: &BTreeMap<VarId, VarId>| {
            tangent_of(builder, x, &|operand| tangent.get(&operand).copied(), &self.tangents)
        };
        let whole = (0..self.stmts).map(VarId::from_index).filter(|x| is_whole(&self.builder, *x));
        for x in whole.chain(form.pending.iter().copied()) {
            if let Some(dx) = derive(&mut builder, x, &tangent)? {
                tangent.insert(x, dx);
            }
        }
        let mut total = zero(&mut builder, &[])?;
        let mut add =
            |builder: &mut Builder, axes: &[(IndexId, Size)], guard: Pred, left: VarId, right: Option<VarId>| {
                if left.index() >= form.bound {
                    return Err(Error::bug("diff", "an inner product with what is not bound"));
                }
                if let Some(right) = right {
                    let operands = vec![aligned(axes, left), aligned(axes, right)];
                    let product = builder.contract(&[], axes, guard, operands)?;
                    total = builder.add(&[], [(Pred::True, total), (Pred::True, product)])?;
                }
                Ok(())
            };
        for product in &form.sum.products {
            let right = match product.right {
                Right::Tangent(x) => match tangent.get(&x) {
                    Some(dx) => Some(*dx),
                    None => return Err(Error::bug("diff", "a tangent that is not bound")),
                },
                Right::Variable(x) => tangent.get(&x).copied(),
                Right::Derivative(x) => derive(&mut builder, x, &tangent)?,
            };
            add(&mut builder, &product.axes, product.guard.clone(), product.left, right)?;
        }
        for Collected { left, input, tangent: _ } in &form.sum.collected {
            let axes = builder.dims(*input).to_vec();
            let axes = builder.fresh_indices(&axes);
            let right = derive(&mut builder, *input, &tangent)?;
            let guard = stored(&builder, *input, &axes);
            add(&mut builder, &axes, guard, *left, right)?;
        }
        let output = Output {
            name: "value".to_owned(),
            ty: Types::REAL,
            storage: crate::ty::Storage::Dense,
            leaves: vec![total],
        };
        builder.finish(vec![output]).prune()
    }
}

/// Whether a statement is a whole parameter, as opposed to a part of one: a variable that nothing binds.
pub(super) fn is_whole(builder: &Builder, x: VarId) -> bool {
    matches!(&builder.stmt(x).rhs, Rhs::Input { path, .. } if path.is_empty())
}

/// Where an input has values: on its pattern, if it is sparse.
fn stored(builder: &Builder, input: VarId, axes: &[(IndexId, Size)]) -> Pred {
    let Rhs::Input { param, .. } = &builder.stmt(input).rhs else { return Pred::True };
    builder.signature().params[*param].storage.stored_at(&Affine::indices(axes))
}

/// The number 1 as the seed of a gradient.
pub(super) fn one(builder: &mut Builder) -> Result<VarId> {
    builder.number(&[], Number::Literal(1.0))
}

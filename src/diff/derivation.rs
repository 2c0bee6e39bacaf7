//! The extended language of the adjoint: sums of guarded inner products under `let`s (the paper's Fig. 14), and the record of how one
//! was rewritten into another.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::forward::{aligned, tangent_of, zero};
use crate::base::{Arena, IndexId, ParamId, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, Size};
use crate::scalar::Number;
use crate::tssa::{Builder, Output, Program, Rhs, StmtNames};
use crate::ty::Types;

/// The right side of an inner product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// `dX`, the tangent that a pending `let dX = D[..]` binds.
    Tangent(VarId),
    /// `D[e]` for the right-hand side `e` of `X`.
    Derivative(VarId),
}

impl Right {
    /// The statement whose tangent or derivative it is.
    pub fn stmt(self) -> VarId {
        match self {
            Right::Tangent(x) | Right::Derivative(x) => x,
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

/// A term of the extended language: `let X = .. in .. let dX = D[..] in .. sum of inner products`.
#[derive(Clone, Debug)]
pub struct Form {
    /// The bindings made so far: those of the primal program, then the final ones.
    pub(super) builder: Builder,
    /// The tangents still bound, `let dX = D[e]` for each, in order.
    pub pending: Vec<VarId>,
    /// The sum of inner products, by right side.
    pub products: Vec<InnerProduct>,
    /// The adjoints of the inputs that are complete: inner products with the tangent of a parameter.
    pub collected: Vec<(VarId, VarId)>,
    /// Each parameter that is differentiated, with a parameter to hold its tangent.
    pub(super) tangents: BTreeMap<ParamId, ParamId>,
    /// How many inner products were made.
    pub(super) serial: u32,
}

impl Form {
    /// An inner product that is told apart from all others.
    pub(super) fn product(
        &mut self,
        left: VarId,
        right: Right,
        axes: Vec<(IndexId, Size)>,
        guard: Pred,
        covered: bool,
    ) -> InnerProduct {
        self.serial += 1;
        InnerProduct { left, right, axes, guard, covered, serial: self.serial }
    }

    /// The meaning of the form: a program whose one output is the real number that the sum of inner products is, given tangents of
    /// the parameters. Every rule of the adjoint keeps it.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
    pub fn desugar(&self) -> Result<Program> {
        let mut builder = self.builder.clone();
        let mut tangent: BTreeMap<VarId, VarId> = BTreeMap::new();
        let derive = |builder: &mut Builder, x: VarId, tangent: &BTreeMap<VarId, VarId>| {
            tangent_of(builder, x, &|operand| tangent.get(&operand).copied(), &self.tangents)
        };
        for x in &self.pending {
            if let Some(dx) = derive(&mut builder, *x, &tangent)? {
                tangent.insert(*x, dx);
            }
        }
        let mut total = zero(&mut builder, &[])?;
        let mut add =
            |builder: &mut Builder, axes: &[(IndexId, Size)], guard: Pred, left: VarId, right: Option<VarId>| {
                if let Some(right) = right {
                    let operands = vec![aligned(axes, left), aligned(axes, right)];
                    let product = builder.contract(&[], axes, guard, operands)?;
                    total = builder.add(&[], [(Pred::True, total), (Pred::True, product)])?;
                }
                Ok::<_, crate::Error>(())
            };
        for product in &self.products {
            let right = match product.right {
                Right::Tangent(x) => tangent.get(&x).copied(),
                Right::Derivative(x) => derive(&mut builder, x, &tangent)?,
            };
            add(&mut builder, &product.axes, product.guard.clone(), product.left, right)?;
        }
        for (left, input) in &self.collected {
            let axes = builder.dims(*input).to_vec();
            let axes = builder.fresh_indices(&axes);
            let right = derive(&mut builder, *input, &tangent)?;
            let guard = self.stored(*input, &axes);
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

    /// Where an input has values: on its pattern, if it is sparse.
    fn stored(&self, input: VarId, axes: &[(IndexId, Size)]) -> Pred {
        let Rhs::Input { param, .. } = &self.builder.stmt(input).rhs else { return Pred::True };
        self.builder.signature().params[*param].storage.stored_at(&Affine::indices(axes))
    }

    /// The sum of inner products as text.
    pub(super) fn products_text(&self, products: &[InnerProduct], names: &StmtNames) -> String {
        let texts: Vec<String> = products.iter().map(|product| self.product_text(product, names)).collect();
        if texts.is_empty() { "0".to_owned() } else { texts.join(" + ") }
    }

    /// A right-hand side.
    pub(super) fn stmt_text(&self, x: VarId, names: &StmtNames) -> String {
        crate::tssa::print::rhs_text(self.builder.signature(), names, self.builder.stmt(x))
    }

    /// `D(e)` for the right-hand side of a statement.
    pub(super) fn derivative_text(&self, x: VarId, names: &StmtNames) -> String {
        format!("D({})", self.stmt_text(x, names))
    }

    /// `<(a, b) | (dx, dy)>` for adjoints of inputs.
    pub(super) fn collected_text(&self, collected: &[(VarId, VarId)], names: &StmtNames) -> String {
        let left = tuple(collected.iter().map(|(left, _)| names.get(*left)).collect());
        let right = tuple(collected.iter().map(|(_, input)| format!("d{}", names.get(*input))).collect());
        format!("<{left} | {right}>")
    }

    fn product_text(&self, product: &InnerProduct, names: &StmtNames) -> String {
        let signature = self.builder.signature();
        let right = match product.right {
            Right::Tangent(x) => format!("d{}", names.get(x)),
            Right::Derivative(x) => self.derivative_text(x, names),
        };
        let mut text = format!("<{} | {right}>", names.get(product.left));
        if !product.guard.is_true() {
            let numbered: Vec<(IndexId, Size)> =
                product.axes.iter().zip(0..).map(|((_, n), at)| (IndexId(at), n.clone())).collect();
            if let Ok(guard) = product.guard_over(&numbered) {
                let guard = crate::tssa::print::guard_text(signature, names, &guard);
                // Writing to a string does not fail.
                let _ = write!(text, "_[{guard}]");
            }
        }
        text
    }

    pub(super) fn names(&self) -> StmtNames {
        let suggested: Arena<VarId, String> = self.builder.names().clone();
        StmtNames::new(self.builder.signature(), suggested.values().map(String::as_str))
    }
}

/// `(a, b)`, or `a` alone.
pub(super) fn tuple(names: Vec<String>) -> String {
    match names.as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(", ")),
    }
}

/// One application of a rule.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the rule in the paper, such as `6.28`.
    pub rule: &'static str,
    /// What it does, in a few words.
    pub title: &'static str,
    /// The part that it replaced.
    pub before: String,
    /// What it put there.
    pub after: String,
    /// The whole term behind the step, for checking.
    pub form: Form,
}

/// The rewriting of `<dy | D f>` into the adjoint, step by step.
#[derive(Clone, Debug, Default)]
pub struct Derivation {
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl std::fmt::Display for Derivation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:3}. ({}) {}", at + 1, step.rule, step.title)?;
            for line in step.before.lines() {
                writeln!(f, "       {line}")?;
            }
            for (at, line) in step.after.lines().enumerate() {
                writeln!(f, "     {} {line}", if at == 0 { "=" } else { " " })?;
            }
        }
        Ok(())
    }
}

/// `gen g. c` as the seed of a gradient.
pub(super) fn one(builder: &mut Builder) -> Result<VarId> {
    builder.number(&[], Number::Literal(1.0))
}

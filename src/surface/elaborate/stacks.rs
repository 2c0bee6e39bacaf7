//! Definitions applied to each part of tensors that have more axes than they take.
//!
//! ```text
//! f(a)  ==  gen i < n. f(a[i])        f : real -> T or [m] real -> [m] real, and a has the axis n in front
//! ```
//!
//! A definition of numbers goes through all elements. One of tensors goes along the last axes of what has more of them, if its value is declared to have
//! the type of this parameter, as that of `softmax` is; elsewhere it would not be plain what is meant: `logsumexp(A)` is over all elements in other
//! languages. Axes in front agree as those of [elementwise arithmetic](super::tensors) do.

use super::super::ast::{ExprId, TypeExpr, TypeKind};
use super::functions::{Item, Place, ShapeId};
use super::sizes::show_formal;
use super::typings::Actual;
use super::{Elaborator, Source};
use crate::base::{IndexId, VarId};
use crate::index::Size;
use crate::term::{Term, TermId};

/// What a call gives to a parameter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    Variable(VarId),
    /// A value to bind.
    Value(TermId),
    Function(ShapeId),
}

/// What takes arguments.
pub(super) struct Formals<'s, 'a> {
    pub(super) name: &'s str,
    pub(super) source: &'a Source<'a>,
    pub(super) params: Vec<&'a TypeExpr>,
    pub(super) result: Option<&'a TypeExpr>,
}

/// What goes around an expanded definition.
pub(super) struct Stack {
    pub(super) indices: Vec<IndexId>,
    pub(super) shape: Vec<Size>,
    /// What all of its parts use.
    pub(super) lets: Vec<(VarId, TermId)>,
    /// In front of how many of the indices stand the axes of a part; behind all of them where nothing is said.
    pub(super) before: Option<usize>,
}

impl<'a> Elaborator<'a> {
    pub(super) fn type_of_argument(&self, argument: &Argument) -> Actual {
        match *argument {
            Argument::Variable(var) => Actual::Type(self.program.variables[var].ty),
            Argument::Value(value) => Actual::Type(self.program.ty(value)),
            Argument::Function(shape) => Actual::Function(shape),
        }
    }

    /// Replaces arguments by parts of them, where they have axes in front; nothing where they do not agree, which is reported.
    pub(super) fn stack(
        &mut self,
        at: ExprId,
        formals: &Formals<'_, 'a>,
        arguments: &mut [Argument],
    ) -> Option<Option<Stack>> {
        let Some(leading) = self.leading_axes(formals, arguments) else { return Some(None) };
        let span = self.span(at);
        let shape = self.common_shape(&leading, formals.name, span)?;
        let indices = self.fresh_indices(&shape, &[]);
        let mut lets = Vec::new();
        for (argument, axes) in arguments.iter_mut().zip(leading).filter(|(_, axes)| !axes.is_empty()) {
            let whole = match *argument {
                Argument::Variable(var) => self.push(Term::Var(var), span)?,
                Argument::Value(value) => self.bind_value(value, "s", &mut lets, span)?,
                Argument::Function(_) => continue,
            };
            *argument = Argument::Value(self.element_at(whole, &indices[shape.len() - axes.len()..], span)?);
        }
        Some(Some(Stack { indices, shape, lets, before: None }))
    }

    /// The axes that each argument has in front of those of its parameter; nothing if none has, or if it is not one that may.
    fn leading_axes(&self, formals: &Formals<'_, 'a>, arguments: &[Argument]) -> Option<Vec<Vec<Size>>> {
        let mut leading = Vec::with_capacity(arguments.len());
        let (mut numbers, mut same) = (true, true);
        for (formal, argument) in formals.params.iter().zip(arguments) {
            let Actual::Type(ty) = self.type_of_argument(argument) else {
                leading.push(Vec::new());
                continue;
            };
            let rank = match &formal.kind {
                TypeKind::Real | TypeKind::Index(_) => 0,
                TypeKind::Tensor(dims, element) if element.kind == TypeKind::Real => dims.len(),
                _ => return None,
            };
            let mut axes = self.program.types.real_dims(ty)?;
            axes.truncate(axes.len().checked_sub(rank)?);
            numbers &= rank == 0;
            if !axes.is_empty() {
                let shown = |ty| show_formal(formals.source, ty);
                same &= formals.result.is_some_and(|result| shown(result) == shown(formal));
                if matches!(argument, Argument::Variable(var) if self.sparse(*var).is_some()) {
                    return None;
                }
            }
            leading.push(axes);
        }
        ((numbers || same) && leading.iter().any(|axes| !axes.is_empty())).then_some(leading)
    }

    /// Puts it around a value.
    pub(super) fn around(&mut self, stack: Option<Stack>, item: Option<Item>, at: ExprId) -> Option<Item> {
        let Some(Stack { mut indices, mut shape, lets, before }) = stack else { return item };
        let span = self.span(at);
        let mut value = self.term_of(item, Place::Tensor)?;
        let own = self.real_shape(value).filter(|own| !own.is_empty());
        if let (Some(before), Some(own)) = (before, own) {
            let axes = self.fresh_indices(&own, &[value]);
            value = self.element_at(value, &axes, span)?;
            indices.splice(before..before, axes);
            shape.splice(before..before, own);
        }
        let tensor = self.gens(&indices, &shape, value, span);
        self.wrap_lets(lets, tensor, span).map(Item::Term)
    }
}

//! Definitions applied to each part of tensors that have more axes than they take.
//!
//! ```text
//! f(a)  ==  gen i < n. f(a[i])        f : real -> T or [m] real -> [m] real, and a has the axis n in front
//! ```
//!
//! A definition of numbers goes through all elements. One of tensors goes along the last axes of what has more of them, if its value is declared to have
//! the type of this parameter, as that of `softmax` is; elsewhere it would not be plain what is meant: `logsumexp(A)` is over all elements in other
//! languages. Axes in front agree as those of [elementwise arithmetic](super::tensors) do.

use super::super::ast::{ExprId, TypeKind};
use super::Elaborator;
use super::calls::Definition;
use super::sizes::show_formal;
use crate::base::{IndexId, VarId};
use crate::index::Size;
use crate::term::{Term, TermId};
use crate::ty::TypeId;

/// An argument: a variable, or a value to bind.
pub(super) type Argument = (Option<VarId>, Option<TermId>);

/// What goes around an expanded definition.
pub(super) struct Stack {
    pub(super) indices: Vec<IndexId>,
    pub(super) shape: Vec<Size>,
    /// What all of its parts use.
    pub(super) lets: Vec<(VarId, TermId)>,
}

impl<'a> Elaborator<'a> {
    pub(super) fn type_of_argument(&self, argument: &Argument) -> Option<TypeId> {
        match argument {
            (Some(var), _) => Some(self.program.variables.get(*var)?.ty),
            (None, Some(value)) => Some(self.program.ty(*value)),
            (None, None) => None,
        }
    }

    /// Replaces arguments by parts of them, where they have axes in front; nothing where they do not agree, which is reported.
    pub(super) fn stack(&mut self, at: ExprId, def: usize, arguments: &mut [Argument]) -> Option<Option<Stack>> {
        let definition = self.definitions[def];
        let Some(leading) = self.leading_axes(&definition, arguments) else { return Some(None) };
        let span = self.span(at);
        let shape = self.common_shape(&leading, &definition.name.text, span)?;
        let indices = self.fresh_indices(&shape, &[]);
        let mut lets = Vec::new();
        for (argument, axes) in arguments.iter_mut().zip(leading).filter(|(_, axes)| !axes.is_empty()) {
            let whole = match *argument {
                (Some(var), _) => self.push(Term::Var(var), span)?,
                (None, value) => self.bind_value(value?, "s", &mut lets, span)?,
            };
            *argument = (None, Some(self.element_at(whole, &indices[shape.len() - axes.len()..], span)?));
        }
        Some(Some(Stack { indices, shape, lets }))
    }

    /// The axes that each argument has in front of those of its parameter; nothing if none has, or if it is not one that may.
    fn leading_axes(&self, definition: &Definition<'a>, arguments: &[Argument]) -> Option<Vec<Vec<Size>>> {
        let mut leading = Vec::with_capacity(arguments.len());
        let (mut numbers, mut same) = (true, true);
        for ((_, formal), argument) in definition.params.iter().zip(arguments) {
            let rank = match &formal.kind {
                TypeKind::Real => 0,
                TypeKind::Tensor(dims, element) if element.kind == TypeKind::Real => dims.len(),
                _ => return None,
            };
            let mut axes = self.program.types.real_dims(self.type_of_argument(argument)?)?;
            axes.truncate(axes.len().checked_sub(rank)?);
            numbers &= rank == 0;
            if !axes.is_empty() {
                let shown = |ty| show_formal(definition.source, ty);
                same &= definition.result.is_some_and(|result| shown(result) == shown(formal));
                if argument.0.is_some_and(|var| self.sparse(var).is_some()) {
                    return None;
                }
            }
            leading.push(axes);
        }
        ((numbers || same) && leading.iter().any(|axes| !axes.is_empty())).then_some(leading)
    }

    /// Puts it around a value.
    pub(super) fn around(&mut self, stack: Option<Stack>, value: Option<TermId>, at: ExprId) -> Option<TermId> {
        let Some(Stack { indices, shape, lets }) = stack else { return value };
        let span = self.span(at);
        let tensor = self.gens(&indices, &shape, value?, span);
        self.wrap_lets(lets, tensor, span)
    }
}

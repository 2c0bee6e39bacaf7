//! Functions along an axis.
//!
//! ```text
//! sum(A, axis = 0)         ==  gen j < m. sum i < n. A[i, j]              mean, max and min likewise
//! sum(A, axis = (0, 2))    ==  sum(sum(A, axis = 2), axis = 0)            the same of these; also [0, 2]
//! f(A, axis = 0)           ==  gen j < m. f(gen i < n. A[i, j])           f : [n] real -> real, and A : [n, m] real
//! f(A, axis = 0)           ==  (gen j < m. f(gen i < n. A[i, j]))'        f : [n] real -> [n] real: the axis stays where it is
//! ```
//!
//! Axes are counted from 0, and from the end from -1 on, as in NumPy and PyTorch, which writes `dim`. It is the first argument that has the axis, so `f` is a
//! definition whose first parameter is a vector. Julia counts `dims` from 1: that word is answered by a sentence, as are several axes of a definition. With
//! `keepdims = True` the axis [is kept](super::added), of length 1.

use super::super::ast::{BinaryOp, Expr, ExprId, TypeKind, UnaryOp};
use super::names::{Global, Meaning};
use super::stacks::{Argument, Stack};
use super::{Elaborator, Task};
use crate::base::{IndexId, Span};
use crate::error::Diagnostic;
use crate::index::{Affine, Size, View};
use crate::scalar::{Function, Number, Op};
use crate::term::{Term, TermId};

/// A tensor taken apart along one of its axes: its element, and the indices and extents of the axis and of the others.
struct Taken {
    element: TermId,
    axis: (IndexId, Size),
    /// How many axes are before it.
    before: usize,
    others: Vec<IndexId>,
    shape: Vec<Size>,
}

impl<'a> Elaborator<'a> {
    /// Calls a function along an axis, where its last argument is `axis = k` and no other has a name.
    pub(super) fn goes_along_axis(&mut self, at: ExprId, name: &'a str, args: &'a [ExprId]) -> bool {
        let Some((last, others)) = args.split_last() else { return false };
        if self.keeps_axes(at, name, args) {
            return true;
        }
        if others.iter().any(|arg| self.is_named(*arg)) {
            return false;
        }
        if self.goes_along_several(at, name, args) {
            return true;
        }
        let Some(axis) = self.axis_named(*last) else { return false };
        match (name, self.globals.get(name).copied(), others) {
            ("sum" | "min" | "max", _, [tensor]) | ("mean", None, [tensor]) => {
                self.tasks.push(Task::TotalAlong(at, name, axis));
                self.tasks.push(Task::Value(*tensor));
                true
            }
            (_, Some(Global::Definition(def)), [_, ..]) => {
                let first = self.definitions[def].params.first().map(|(_, ty)| &ty.kind);
                let is_vector = matches!(first, Some(TypeKind::Tensor(dims, element)) if dims.len() == 1 && element.kind == TypeKind::Real);
                if is_vector {
                    self.call_definition(at, def, others, Some(axis));
                }
                is_vector
            }
            _ => false,
        }
    }

    /// Calls a total along several axes, `sum(A, axis = (0, 1))`: along one after the other.
    fn goes_along_several(&mut self, at: ExprId, name: &'a str, args: &'a [ExprId]) -> bool {
        let is_total = matches!(name, "sum" | "min" | "max") || name == "mean" && !self.globals.contains_key(name);
        let [tensor, last] = args else { return false };
        let Some(axes) = self.axes_named(*last).filter(|_| is_total) else { return false };
        self.tasks.extend(axes.into_iter().rev().map(|axis| Task::TotalAlong(at, name, axis)));
        self.tasks.push(Task::Value(*tensor));
        true
    }

    /// The numbers of `axis = (0, 1)` in an order in which none changes by those in front of it: all are counted from the same end.
    fn axes_named(&self, arg: ExprId) -> Option<Vec<i64>> {
        let Expr::Binary(BinaryOp::Equal, name, _) = self.expr(arg) else { return None };
        let is_axis = matches!(self.expr(*name), Expr::Name(name) if matches!(name.as_str(), "axis" | "dim" | "axes"));
        let mut axes = self.literal_integers(arg);
        axes.sort_by_key(|axis| if *axis < 0 { *axis } else { -*axis });
        let is_distinct = axes.windows(2).all(|pair| pair[0] != pair[1]);
        let is_from_one_end = axes.iter().all(|axis| *axis < 0) || axes.iter().all(|axis| *axis >= 0);
        let is_several = is_axis && self.is_named(arg) && axes.len() > 1;
        (is_several && is_distinct && is_from_one_end).then_some(axes)
    }

    /// The number of `axis = 0`.
    fn axis_named(&self, arg: ExprId) -> Option<i64> {
        let Expr::Binary(BinaryOp::Equal, name, axis) = self.expr(arg) else { return None };
        let is_axis = matches!(self.expr(*name), Expr::Name(name) if name == "axis" || name == "dim");
        let is_literal = match self.expr(*axis) {
            Expr::Unary(UnaryOp::Neg, axis) => matches!(self.expr(*axis), Expr::Number { .. }),
            axis => matches!(axis, Expr::Number { .. }),
        };
        (is_axis && is_literal && self.is_named(arg)).then(|| self.constant(*axis)).flatten()
    }

    /// Whether an argument has a name, `axis = 1`, which is a comparison with something unknown.
    pub(super) fn is_named(&self, arg: ExprId) -> bool {
        let Expr::Binary(BinaryOp::Equal, name, _) = self.expr(arg) else { return false };
        matches!(self.expr(*name), Expr::Name(name) if matches!(self.peek(name), Meaning::Unknown))
    }

    /// Takes a tensor apart; what is wrong is reported.
    fn take_along(&mut self, at: ExprId, value: TermId, axis: i64) -> Option<Taken> {
        let span = self.span(at);
        let mut shape = self.real_shape(value).unwrap_or_default();
        let rank = shape.len() as i64;
        let place =
            usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|place| *place < shape.len());
        let Some(place) = place else {
            let found = self.show_type(self.program.ty(value));
            let message = format!("there is no axis {axis} in a value of type `{found}`");
            let help = "axes are counted from 0, and from the end from -1 on";
            self.diagnose(Diagnostic::new("expected-tensor", span, message).help(help));
            return None;
        };
        let mut indices = self.fresh_indices(&shape, &[value]);
        let element = self.element_at(value, &indices, span)?;
        let axis = (indices.remove(place), shape.remove(place));
        Some(Taken { element, axis, before: place, others: indices, shape })
    }

    /// `sum(A, axis = k)`
    pub(super) fn finish_total_along(&mut self, at: ExprId, name: &str, axis: i64) {
        let value = self.pop_value();
        let value = value.and_then(|value| {
            let span = self.span(at);
            let mut lets = Vec::new();
            let value = self.leave_lets(value, &mut lets);
            let taken = self.take_along(at, value, axis)?;
            let total = match name {
                "max" => self.largest_along(at, View::ArgMax, taken, &mut lets)?,
                "min" => self.largest_along(at, View::ArgMin, taken, &mut lets)?,
                _ => {
                    let Taken { element, axis: (index, extent), others, shape, .. } = taken;
                    let mut total = self.push(Term::Sum { index, extent: extent.clone(), body: element }, span)?;
                    if name == "mean" {
                        let n = self.push(Term::Number(Number::Index(extent)), span)?;
                        total = self.push(Term::Apply(Function::from(Op::Div), vec![total, n]), span)?;
                    }
                    self.gens(&others, &shape, total, span)?
                }
            };
            self.wrap_lets(lets, Some(total), span)
        });
        self.values.push(value);
    }

    /// The extrema of a tensor whose last axis is the one that was taken.
    fn largest_along(
        &mut self,
        at: ExprId,
        view: View,
        taken: Taken,
        lets: &mut Vec<(crate::base::VarId, TermId)>,
    ) -> Option<TermId> {
        let span = self.span(at);
        let Taken { element, axis: (index, extent), others, shape, .. } = taken;
        let row = self.push(Term::Gen { index, extent: extent.clone(), body: element }, span)?;
        let tensor = self.gens(&others, &shape, row, span)?;
        let var = self.variable_for(tensor, "v", lets);
        let outer = self.fresh_indices(&shape, &[tensor]);
        let places = outer.iter().map(|i| Affine::index(*i)).collect();
        let largest = self.largest_element(at, view, var, places, extent)?;
        self.gens(&outer, &shape, largest, span)
    }

    /// Replaces the first argument of a definition by a vector along an axis of it.
    pub(super) fn stack_along(&mut self, at: ExprId, axis: i64, args: &mut [Argument]) -> Option<Stack> {
        let span = self.span(at);
        let whole = match args.first() {
            Some(Argument::Variable(var)) => {
                let var = *var;
                match self.sparse(var) {
                    Some(_) => self.stored_elements(var, Vec::new(), span)?,
                    None => self.push(Term::Var(var), span)?,
                }
            }
            Some(Argument::Value(value)) => *value,
            _ => return self.no_axis(span),
        };
        let mut lets = Vec::new();
        let whole = self.bind_value(whole, "s", &mut lets, span)?;
        let Taken { element, axis: (index, extent), before, others, shape } = self.take_along(at, whole, axis)?;
        let row = self.push(Term::Gen { index, extent, body: element }, span)?;
        args[0] = Argument::Value(row);
        Some(Stack { indices: others, shape, lets, before: Some(before) })
    }

    fn no_axis(&mut self, span: Span) -> Option<Stack> {
        self.report("expected-tensor", span, "a function has no axes");
        None
    }
}

//! Axes of length 1, which a program writes as in NumPy, and what goes with them.
//!
//! ```text
//! x[:, None]                       ==  gen i < n, o < 1. x[i]                          also newaxis
//! sum(A, axis = 1, keepdims = True) ==  gen i < n, o < 1. sum j < m. A[i, j]           also keepdim; mean, max, min, norm, ..
//! a + b                            ==  gen i < n, j < m. a[i, 0] + b[0, j]             a : [n, 1], b : [1, m]
//! ```
//!
//! An axis whose length is the literal 1 goes with each place of the other's axis, counted from the last one. A size that may be 1 when the program runs
//! is no such axis, so a shape says what goes with what.

use super::super::ast::{BinaryOp, Expr, ExprId};
use super::names::Meaning;
use super::{Elaborator, Task};
use crate::base::{IndexId, Span};
use crate::index::{Affine, Size};
use crate::term::{Term, TermId};

/// The functions that may keep the axis that they go along: those whose value along it is a number.
const TOTALS: &[&str] =
    &["sum", "mean", "max", "min", "prod", "norm", "norm1", "squared_norm", "variance", "logsumexp"];

fn is_one(n: &Size) -> bool {
    *n == Size::constant(1)
}

impl<'a> Elaborator<'a> {
    /// Whether an index is the `None` of `x[:, None]`.
    pub(super) fn is_new_axis(&self, index: ExprId) -> bool {
        match self.expr(index) {
            Expr::Name(name) => {
                matches!(name.as_str(), "None" | "newaxis") && matches!(self.peek(name), Meaning::Unknown)
            }
            _ => false,
        }
    }

    /// How many axes an access has places on.
    pub(super) fn old_axes(&self, indices: &[ExprId]) -> usize {
        indices.iter().filter(|index| !self.is_new_axis(**index)).count()
    }

    /// Adds the axes that an access has beside those of its tensor.
    pub(super) fn finish_new_axes(&mut self, at: ExprId) {
        let Expr::Access { indices, .. } = self.expr(at) else { return };
        let (mut places, mut axis) = (Vec::new(), 0);
        for index in indices {
            match self.expr(*index) {
                Expr::All | Expr::Part { .. } => axis += 1,
                _ if self.is_new_axis(*index) => {
                    places.push(axis);
                    axis += 1;
                }
                _ => {}
            }
        }
        let value = self.pop_value().and_then(|value| self.with_axes(value, &places, self.span(at)));
        self.values.push(value);
    }

    /// Adds the axes that a total has gone along, which are counted in the tensor that it went through.
    pub(super) fn finish_kept_axes(&mut self, at: ExprId, axes: &[i64]) {
        let value = self.pop_value().and_then(|value| {
            let rank = self.real_shape(value)?.len() + axes.len();
            let from_start = |axis: &i64| if *axis < 0 { axis + rank as i64 } else { *axis };
            let mut places: Vec<usize> = axes.iter().filter_map(|axis| from_start(axis).try_into().ok()).collect();
            places.sort_unstable();
            self.with_axes(value, &places, self.span(at))
        });
        self.values.push(value);
    }

    /// A tensor with axes of length 1 at these places of the result, in order.
    fn with_axes(&mut self, value: TermId, places: &[usize], span: Span) -> Option<TermId> {
        let mut shape = self.real_shape(value)?;
        let mut lets = Vec::new();
        let value = self.leave_lets(value, &mut lets);
        let mut indices = self.fresh_indices(&shape, &[value]);
        let element = self.element_at(value, &indices, span)?;
        for place in places {
            let place = (*place).min(shape.len());
            let index = self.program.fresh_index("o".to_owned());
            self.knowledge.declare(index, Some(Size::constant(1)));
            self.unread.insert(index);
            indices.insert(place, index);
            shape.insert(place, Size::constant(1));
        }
        let tensor = self.gens(&indices, &shape, element, span);
        self.wrap_lets(lets, tensor, span)
    }

    /// Calls a total that keeps its axes, `sum(A, axis = 1, keepdims = True)`, where its last argument says so.
    pub(super) fn keeps_axes(&mut self, at: ExprId, name: &'a str, args: &'a [ExprId]) -> bool {
        let Some((last, others)) = args.split_last() else { return false };
        let Some(keeps) = self.kept(*last).filter(|_| TOTALS.contains(&name)) else { return false };
        let axes = others.last().map(|axis| self.literal_integers(*axis)).unwrap_or_default();
        if axes.is_empty() || !others.last().is_some_and(|axis| self.is_named(*axis)) {
            return false;
        }
        let tasks = self.tasks.len();
        if keeps {
            self.tasks.push(Task::KeepAxes(at, axes));
        }
        let goes = self.goes_along_axis(at, name, others);
        if !goes {
            self.tasks.truncate(tasks);
        }
        goes
    }

    /// What `keepdims = True` or `keepdim = False` says.
    fn kept(&self, arg: ExprId) -> Option<bool> {
        let Expr::Binary(BinaryOp::Equal, name, value) = self.expr(arg) else { return None };
        match (self.expr(*name), self.expr(*value)) {
            (Expr::Name(name), Expr::Name(value)) if matches!(name.as_str(), "keepdims" | "keepdim") => {
                match value.as_str() {
                    "True" | "true" => Some(true),
                    "False" | "false" => Some(false),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Shapes whose axes of length 1 are as long as those of the others, counted from the last one.
    pub(super) fn stretched_shapes(&self, shapes: &[Vec<Size>]) -> Vec<Vec<Size>> {
        if !shapes.iter().flatten().any(is_one) {
            return shapes.to_vec();
        }
        let longest = |from_end: usize| {
            let at = |shape: &'_ Vec<Size>| shape.len().checked_sub(from_end + 1).and_then(|at| shape.get(at)).cloned();
            shapes.iter().filter_map(at).find(|n| !is_one(n))
        };
        let stretched = |shape: &Vec<Size>| {
            let rank = shape.len();
            let axes = shape.iter().enumerate();
            let axes =
                axes.map(|(at, n)| if is_one(n) { longest(rank - at - 1) } else { None }.unwrap_or_else(|| n.clone()));
            axes.collect()
        };
        shapes.iter().map(stretched).collect()
    }

    /// The element of a tensor at indices of these extents, which are those of its axes but where its own are of length 1.
    pub(super) fn element_stretched(
        &mut self,
        value: TermId,
        indices: &[IndexId],
        extents: &[Size],
        span: Span,
    ) -> Option<TermId> {
        let shape = self.real_shape(value)?;
        let is_stretched = |(own, extent): (&Size, &Size)| is_one(own) && !is_one(extent);
        if !shape.iter().zip(extents).any(is_stretched) {
            return self.element_at(value, indices, span);
        }
        let mut e = value;
        for ((own, extent), index) in shape.iter().zip(extents).zip(indices) {
            let is_stretched = is_stretched((own, extent));
            e = match self.program.terms[e].clone() {
                // No element depends on an axis that was added.
                Term::Gen { index: own, body, .. } if !is_stretched || self.unread.contains(&own) => {
                    self.aliases.insert(own, *index);
                    self.left_out = true;
                    body
                }
                _ => {
                    let index = if is_stretched { Affine::constant(0) } else { Affine::index(*index) };
                    self.push(Term::Access { array: e, index }, span)?
                }
            };
        }
        Some(e)
    }
}

//! Ranges that are not written: `sum i. x[i]`.
//!
//! ```text
//! sum i. e  ==  sum i < n. e        where e reads x[.., i, ..] along an axis of n places
//! ```
//!
//! An index has the range of the axes on which it alone is the place: of tensors, relations and maps that are in scope around the binder. All of these
//! have to be as long; where there is none, the range has to be written.

use rustc_hash::FxHashSet;

use super::super::ast::{Expr, ExprId, LoopKind, UnaryOp};
use super::names::{Global, Meaning};
use super::{Elaborator, bounds};
use crate::base::work;
use crate::error::Diagnostic;
use crate::index::{RelationRef, Size};

/// An axis on which an index is the place.
struct Axis<'a> {
    /// What is read.
    name: &'a str,
    /// How the access stands in a sentence.
    shown: String,
    at: usize,
}

impl<'a> Elaborator<'a> {
    /// The range of an index: as written, or else that of the axes it is a place on.
    pub(super) fn range(&mut self, extent: ExprId, index: &str, body: ExprId) -> Option<Size> {
        if !matches!(self.expr(extent), Expr::All) {
            return self.extent(extent);
        }
        let found = self.found_range(extent, index, body);
        match &found {
            Some(size) => {
                self.ranges.insert((self.frame.place, extent), size.clone());
            }
            None => self.fail(),
        }
        found
    }

    fn found_range(&mut self, extent: ExprId, index: &str, body: ExprId) -> Option<Size> {
        let span = self.span(extent);
        let mut found: Option<(Size, String)> = None;
        for Axis { name, shown, at } in self.axes_with(index, body) {
            let Some(size) = self.axis_of(name, at) else { continue };
            match &found {
                None => found = Some((size, shown)),
                Some((first, _)) if self.same_size(first, &size) => {}
                Some((first, where_)) => {
                    let (a, b) = (self.show(first), self.show(&size));
                    let message =
                        format!("the range of `{index}` would be `{a}` by `{where_}`, and `{b}` by `{shown}`");
                    let help = format!(
                        "write which it is, `{index} < {a}` or `{index} < {b}`; if both are equal, say so: `assume {b} = {a}`"
                    );
                    self.diagnose(Diagnostic::new("unknown-range", span, message).help(help));
                    return None;
                }
            }
        }
        if found.is_none() {
            let message = format!("the range of `{index}` is not written, and no tensor is read at `{index}` alone");
            let help = match self.peek(index) {
                Meaning::Var(_) => "a product needs its sign, as in `sum(x) * s`".to_owned(),
                _ => format!("a range ends at a size: `{index} < n`"),
            };
            self.diagnose(Diagnostic::new("unknown-range", span, message).help(help));
        }
        found.map(|(size, _)| size)
    }

    /// The axes on which an index is the place, in an expression that it is bound around.
    fn axes_with(&self, index: &str, body: ExprId) -> Vec<Axis<'a>> {
        let mut axes = Vec::new();
        // What is bound inside is not what its name means around.
        let mut inner: FxHashSet<&str> = FxHashSet::default();
        let mut stack = vec![body];
        while let Some(e) = stack.pop() {
            work::charge(1);
            if work::is_used_up() {
                break;
            }
            match self.expr(e) {
                Expr::Access { array, indices } => {
                    self.places_in(*array, indices, index, &mut axes);
                    stack.extend(indices.iter().rev());
                    stack.push(*array);
                }
                Expr::Call { callee, args } => {
                    let name = callee.text.trim_end_matches(".value").trim_end_matches('?');
                    self.places_among(name, 0, args, index, &mut axes);
                    stack.extend(args.iter().rev());
                }
                Expr::Binder { index: bound, extent, body, .. } => {
                    inner.insert(&bound.text);
                    stack.extend((bound.text != index).then_some(*body));
                    stack.push(*extent);
                }
                Expr::Let { name, value, body } => {
                    inner.insert(&name.text);
                    stack.extend((name.text != index).then_some(*body));
                    stack.push(*value);
                }
                Expr::Scan { index: bound, state, steps, init, body, .. } => {
                    inner.extend([bound.text.as_str(), state.text.as_str()]);
                    stack.extend((bound.text != index && state.text != index).then_some(*body));
                    stack.extend([*init, *steps]);
                }
                Expr::Function { params, body } => {
                    inner.extend(params.iter().map(|(name, _)| name.text.as_str()));
                    stack.extend(params.iter().all(|(name, _)| name.text != index).then_some(*body));
                }
                Expr::Case { value, arms } => {
                    for arm in arms.iter().rev() {
                        inner.extend(arm.names.iter().map(|name| name.text.as_str()));
                        stack.extend(arm.names.iter().all(|name| name.text != index).then_some(arm.body));
                    }
                    stack.push(*value);
                }
                expr => {
                    let first = stack.len();
                    expr.for_each_operand(|operand| stack.push(operand));
                    stack[first..].reverse();
                }
            }
        }
        axes.retain(|axis: &Axis<'_>| !inner.contains(axis.name));
        axes
    }

    /// The axes of `x[i][j, k]` on which an index is the place.
    fn places_in(&self, array: ExprId, indices: &'a [ExprId], index: &str, axes: &mut Vec<Axis<'a>>) {
        let (mut base, mut before) = (array, 0);
        while let Expr::Access { array, indices } = self.expr(base) {
            work::charge(1);
            // Whole axes stay in front of those behind them.
            if indices.iter().any(|e| matches!(self.expr(*e), Expr::All | Expr::Part { .. })) {
                return;
            }
            before += indices.len();
            base = *array;
        }
        let transposed = match self.expr(base) {
            Expr::Unary(UnaryOp::Transpose, of) => Some(*of),
            _ => None,
        };
        let Expr::Name(name) = self.expr(transposed.unwrap_or(base)) else { return };
        let first = axes.len();
        self.places_among(name, before, indices, index, axes);
        if transposed.is_some() {
            axes[first..].iter_mut().for_each(|axis| axis.at = 1usize.saturating_sub(axis.at));
        }
    }

    fn places_among(&self, name: &'a str, before: usize, indices: &'a [ExprId], index: &str, axes: &mut Vec<Axis<'a>>) {
        for (at, e) in indices.iter().enumerate() {
            if matches!(self.expr(*e), Expr::Name(place) if place == index) {
                let rest = |n: usize| vec!["_"; n];
                let places = [rest(before + at), vec![index], rest(indices.len() - at - 1)].concat().join(", ");
                axes.push(Axis { name, shown: format!("{name}[{places}]"), at: before + at });
            }
        }
    }

    /// How long an axis of what has a name is.
    fn axis_of(&self, name: &str, at: usize) -> Option<Size> {
        let dims = |var| self.program.types.peel(self.program.variables[var].ty).0;
        match self.peek(name) {
            Meaning::Var(var) => dims(var).get(at).map(|n| (*n).clone()),
            Meaning::Callable(Global::Relation(relation)) => {
                bounds::shape(&self.program, RelationRef::Input(relation)).get(at).cloned()
            }
            Meaning::Callable(Global::Map(map)) => {
                let mut shape = bounds::shape(&self.program, RelationRef::Input(map));
                shape.pop();
                shape.get(at).cloned()
            }
            // `A'` where nothing has that name.
            Meaning::Unknown => match self.peek(name.strip_suffix('\'')?) {
                Meaning::Var(var) => dims(var).get(1usize.checked_sub(at)?).map(|n| (*n).clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The range that was found for an index, where it stands for a number.
    pub(super) fn range_found(&self, extent: ExprId) -> Option<Size> {
        self.ranges.get(&(self.frame.place, extent)).cloned()
    }

    /// The number of steps of a loop, where it is that of a `prod` without a range.
    pub(super) fn range_of_loop(&mut self, at: ExprId, steps: ExprId) -> Option<Size> {
        match self.expr(at) {
            Expr::Scan { kind: LoopKind::Fold, index, body, .. } => self.range(steps, &index.text, *body),
            _ => self.extent(steps),
        }
    }
}

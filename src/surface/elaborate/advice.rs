//! What to write instead of something that there is not, where that depends on the types of what it was given.

use super::super::ast::{BinaryOp, Expr, ExprId};
use super::Elaborator;
use super::names::Meaning;
use crate::base::{VarId, work};
use crate::error::Diagnostic;
use crate::index::{Affine, Size, Var};
use crate::scalar::Number;
use crate::surface::ast::BinderKind;
use crate::term::Term;

/// The index of a vector that is written by its elements.
const PLACE: &str = "place in a vector";

impl<'a> Elaborator<'a> {
    /// The elements of `[a, b]`.
    pub(super) fn items_of_vector(&self, e: ExprId) -> Option<Vec<ExprId>> {
        let Expr::Binder { kind: BinderKind::Gen, index, body, .. } = self.expr(e) else { return None };
        let (mut items, mut rest) = (Vec::new(), *body);
        if index.text != PLACE {
            return None;
        }
        while let Expr::Binary(BinaryOp::Add, others, last) = self.expr(rest) {
            items.push(*last);
            rest = *others;
        }
        items.push(rest);
        let item = |e: ExprId| match self.expr(e) {
            Expr::Iverson { body, .. } => Some(*body),
            _ => None,
        };
        items.into_iter().rev().map(item).collect()
    }

    /// The name and the shape of a tensor that is a variable.
    fn named_tensor(&self, e: ExprId) -> Option<(&'a str, Vec<Size>)> {
        let Expr::Name(name) = self.expr(e) else { return None };
        let Meaning::Var(var) = self.peek(name) else { return None };
        Some((name, self.program.types.real_dims(self.program.variables[var].ty)?))
    }

    /// What to write instead of a function that joins two tensors which have names.
    pub(super) fn joined(&self, function: &str, args: &[ExprId]) -> Option<String> {
        let is_joined = ["concatenate", "concat", "append", "cat", "hstack", "vstack", "stack", "vcat", "hcat"];
        if !is_joined.contains(&function) {
            return None;
        }
        let pair = match args {
            [a, b] => [*a, *b],
            [both] => match (self.items_of_vector(*both).as_deref(), self.expr(*both)) {
                (Some([a, b]), _) => [*a, *b],
                (_, Expr::Pair(a, b)) => [*a, *b],
                _ => return None,
            },
            _ => return None,
        };
        let [(x, left), (y, right)] = [self.named_tensor(pair[0])?, self.named_tensor(pair[1])?];
        let text = |n: &Size| self.show(n);
        let behind = |n: &Size| if n.terms().len() > 1 || n.offset() != 0 { format!("({})", text(n)) } else { text(n) };
        let both = |n: &Size, m: &Size| n.add(m).ok().map(|sum| text(&sum));
        let tensor = match (function, left.as_slice(), right.as_slice()) {
            ("stack" | "vstack", [n], [m]) if n == m => return Some(format!("rows below each other are `[{x}, {y}]`")),
            ("stack", ..) => return None,
            ("hcat", [n], [m]) if n == m => return Some(format!("columns beside each other are `[{x}, {y}]'`")),
            (_, [n], [m]) => {
                format!("gen i < {}. if i < {} then {x}[i] else {y}[i - {}]", both(n, m)?, text(n), behind(n))
            }
            ("hcat" | "hstack", [rows, n], [_, m]) => format!(
                "gen i < {}, j < {}. if j < {} then {x}[i, j] else {y}[i, j - {}]",
                text(rows),
                both(n, m)?,
                text(n),
                behind(n)
            ),
            (_, [n, columns], [m, _]) => format!(
                "gen i < {}, j < {}. if i < {} then {x}[i, j] else {y}[i - {}, j]",
                both(n, m)?,
                text(columns),
                text(n),
                behind(n)
            ),
            _ => return None,
        };
        Some(format!("tensors are joined by a choice: `{tensor}`"))
    }

    /// Reports a remainder of a value that is no index, `x % 2`; whether it is one.
    pub(super) fn is_remainder_of_value(&mut self, of: ExprId, by: ExprId) -> bool {
        let Expr::Name(name) = self.expr(of) else { return false };
        let Meaning::Var(var) = self.peek(name) else { return false };
        if self.variable_as_size(var).is_some() || self.index_of_variable(var).is_some() {
            return false;
        }
        let by = self.constant(by).map_or_else(|| "s".to_owned(), |by| by.to_string());
        let message = format!("an index is expected, but `{name}` is a value of reals");
        let help = format!("of numbers the remainder is `{name} - {by} * floor({name} / {by})`");
        let span = self.span(of);
        self.diagnose(Diagnostic::new("value-as-index", span, message).help(help));
        true
    }

    /// What to write where a variable of reals is read as an index: a parameter without a type, or a part of the state of a loop.
    pub(super) fn meant_as_index(&self, var: VarId, name: &str) -> String {
        if let Some(n) = self.range_of_number(var) {
            return format!("a parameter that is an index says so: `{name} : index {}`", self.show(n));
        }
        if self.is_in_state(name) {
            return format!(
                "a part of a state that is an index says so where it is named: `({name} : index n, s) = ..`"
            );
        }
        "reals cannot be rounded to indices: use an index, a size, an integer, a `map`, or `argmax`; what is made of these has the type where its name \
         says so, `let k : index n = ..`"
            .to_owned()
    }

    /// What to assume where a tensor is bound to the places that `argmin` or `argmax` find in a range that may be empty.
    pub(super) fn search_of_nothing(&self, array: ExprId) -> Option<String> {
        let Expr::Name(name) = self.expr(array) else { return None };
        let exprs = &self.frame.source.ast.exprs;
        work::charge(exprs.len());
        let mut value = exprs.values().find_map(|expr| match expr {
            Expr::Let { name: bound, value, .. } if bound.text == *name => Some(*value),
            _ => None,
        })?;
        while let Expr::Binder { kind: BinderKind::Gen, body, .. } = self.expr(value) {
            value = *body;
        }
        match self.expr(value) {
            Expr::Binder { kind: kind @ (BinderKind::ArgMax | BinderKind::ArgMin), extent, .. } => {
                match self.expr(*extent) {
                    Expr::Name(n) => Some(format!(
                        "the `{}` over an empty range finds no place: say that there is one, `assume {n} >= 1`, and the elements of `{name}` are indices",
                        kind.word()
                    )),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a name is one of several for the parts of the state of a loop.
    fn is_in_state(&self, name: &str) -> bool {
        let exprs = &self.frame.source.ast.exprs;
        work::charge(exprs.len());
        let of_part = |expr: &'a Expr| match expr {
            Expr::Let { name: part, value, .. } if part.text == name => self.whole_of_pattern(*value),
            _ => None,
        };
        let wholes: Vec<&str> = exprs.values().filter_map(of_part).collect();
        !wholes.is_empty()
            && exprs.values().any(|e| matches!(e, Expr::Scan { state, .. } if wholes.contains(&state.text.as_str())))
    }

    /// The range of the index that a variable is bound to as a number: the argument of a parameter that is no index.
    fn range_of_number(&self, var: VarId) -> Option<&Size> {
        let bound = self.tasks.iter().rev().find_map(|task| match task {
            super::Task::Return { lets, .. } => lets.iter().find(|(other, _)| *other == var),
            _ => None,
        });
        match &self.program.terms[bound?.1] {
            Term::Number(Number::Index(a)) => self.range_of(a),
            _ => None,
        }
    }

    /// The range of an index alone.
    pub(super) fn range_of(&self, a: &Affine) -> Option<&Size> {
        match a.terms() {
            [(Var::Index(i), 1)] if a.offset() == 0 => self.knowledge.extent(*i),
            _ => None,
        }
    }
}

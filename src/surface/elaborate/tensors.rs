//! Arithmetic on whole tensors: elementwise operations, totals, products of matrices, transposes and slices, as `gen` and `sum`.
//!
//! ```text
//! a + b        ==  gen i < n. a[i] + b[i]               also f(a, ..), -a, a^k, a < b, if p then a else b; a number goes with each element
//! sum(a)       ==  sum i < n, j < m. a[i, j]            mean(a), max(a), min(a) likewise
//! A @ B        ==  gen i < n, j < m. sum k < l. A[i, k] * B[k, j]       A @ x, x @ B, x @ y with the axes that there are; axes in front go together
//! sum i. v     ==  gen k < m. sum i < n. v[k]            of tensors that depend on the index, m not n; mean likewise
//! A'           ==  gen j < m, i < n. A[i, j]
//! A[:, j]      ==  gen i < n. A[i, j]                see `parts`
//! ```
//!
//! Shapes must agree, for what is known of sizes. A tensor of fewer axes goes with each of the others' leading ones, as a bias with each row; where
//! it fits in another way as well, and where a matrix stands beside a vector in `*`, it is asked what is meant. Nothing else is stretched but axes of the
//! [length 1](super::added).
//!
//! **Rows.** A vector has one axis and is no row or column. `x'` is `x` where a product begins with it, alone or with factors, as in `x' @ A @ x`, and is
//! refused elsewhere: `x @ x'` and `x' + y` are matrices on paper.
//!
//! **Elements.** The element of a `gen` at an index is its body, with one index for the other; that of `[p] * a` is `[p] * a[i]`; `let`s around a
//! tensor go around the result. So `(a + b) * c` is one `gen` without an intermediate tensor. Indices are renamed when all terms are there, in
//! one pass over the program, which leaves out the terms that nothing uses any more.
//!
//! **What is used for several elements** is bound by a `let`, unless it is as cheap as an access: the number in `a / sum(a)`, the operands of a
//! product of matrices.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::ast::{Ast, BinaryOp, Expr, ExprId, UnaryOp};
use super::names::Meaning;
use super::sizes::may_be_equal;
use super::values::index_name;
use super::{Elaborator, Task};
use crate::base::{IndexId, SideTable, Span, VarId, work};
use crate::error::Diagnostic;
use crate::foreign;
use crate::index::{Affine, Checked, Pred, Size, View};
use crate::scalar::{Function, Number, Op};
use crate::term::{Term, TermId};
use crate::ty::Types;

/// The expressions that nothing uses but a product of matrices, as its first factor or a part of it.
pub(super) fn rows(ast: &Ast) -> FxHashSet<ExprId> {
    let (mut first, mut elsewhere) = (FxHashSet::default(), FxHashSet::default());
    // Users come behind operands.
    for (at, expr) in ast.exprs.iter().rev() {
        let row = first.contains(&at) && !elsewhere.contains(&at);
        expr.for_each_operand(|operand| {
            let begins = match expr {
                Expr::Binary(BinaryOp::MatMul, a, _) => *a == operand,
                Expr::Binary(BinaryOp::Div, a, _) => row && *a == operand,
                Expr::Binary(BinaryOp::Mul, ..) | Expr::Unary(UnaryOp::Neg, _) => row,
                _ => false,
            };
            if begins {
                first.insert(operand)
            } else {
                elsewhere.insert(operand)
            };
        });
    }
    first.retain(|at| !elsewhere.contains(at));
    first
}

/// A `let` to put around a term.
type Binding = (VarId, TermId);

impl<'a> Elaborator<'a> {
    /// The extents of a tensor of reals; none for a real.
    pub(super) fn real_shape(&self, value: TermId) -> Option<Vec<Size>> {
        self.program.types.real_dims(self.program.ty(value))
    }

    fn is_real(&self, value: TermId) -> bool {
        self.program.ty(value) == Types::REAL
    }

    /// Whether two sizes are equal for what is known here.
    pub(super) fn same_size(&mut self, a: &Size, b: &Size) -> bool {
        a == b || Pred::equal(a, b).is_ok_and(|goal| self.proves(&goal))
    }

    pub(super) fn fresh_indices(&mut self, shape: &[Size], like: &[TermId]) -> Vec<IndexId> {
        // The names of the first tensor that has names for its axes.
        let names = like.iter().map(|value| self.axis_names(*value)).find(|names| names.len() == shape.len());
        let name = |at: usize| match &names {
            Some(names) => names[at].clone(),
            None => index_name(at),
        };
        let names: Vec<String> = (0..shape.len()).map(name).collect();
        let mut indices = Vec::with_capacity(shape.len());
        for (name, extent) in names.into_iter().zip(shape) {
            let index = self.program.fresh_index(name);
            self.knowledge.declare(index, Some(extent.clone()));
            indices.push(index);
        }
        indices
    }

    fn axis_names(&self, value: TermId) -> Vec<String> {
        let mut names = Vec::new();
        let mut e = value;
        loop {
            match &self.program.terms[e] {
                Term::Let { body, .. } | Term::Iverson { body, .. } => e = *body,
                Term::Gen { index, .. } if self.unread.contains(index) => return Vec::new(),
                Term::Gen { index, body, .. } => {
                    names.push(self.program.indices[*index].clone());
                    e = *body;
                }
                _ => return names,
            }
        }
    }

    /// Whether reading an element takes no arithmetic.
    fn is_read(&self, value: TermId) -> bool {
        let mut e = value;
        loop {
            match &self.program.terms[e] {
                Term::Gen { body, .. } | Term::Iverson { body, .. } => e = *body,
                Term::Access { array, .. } => e = *array,
                Term::Fst(pair) | Term::Snd(pair) => e = *pair,
                Term::Number(_) | Term::Var(_) => return true,
                _ => return false,
            }
        }
    }

    /// Binds a value that is used more than once, and gives what to use.
    pub(super) fn bind_value(
        &mut self,
        value: TermId,
        name: &str,
        lets: &mut Vec<Binding>,
        span: Span,
    ) -> Option<TermId> {
        let value = self.leave_lets(value, lets);
        if self.is_read(value) {
            return Some(value);
        }
        let var = self.program.fresh_var(name, self.program.ty(value));
        lets.push((var, value));
        self.push(Term::Var(var), span)
    }

    /// Moves the `let`s around a value to the others.
    pub(super) fn leave_lets(&mut self, value: TermId, lets: &mut Vec<Binding>) -> TermId {
        let mut e = value;
        while let Term::Let { var, value, body } = self.program.terms[e] {
            lets.push((var, value));
            self.left_out = true;
            e = body;
        }
        e
    }

    /// The variable that a value is, or else a new one for it, with a `let`.
    pub(super) fn variable_for(&mut self, value: TermId, name: &str, lets: &mut Vec<(VarId, TermId)>) -> VarId {
        if let Term::Var(var) = self.program.terms[value] {
            self.left_out = true;
            return var;
        }
        let var = self.program.fresh_var(name, self.program.ty(value));
        lets.push((var, value));
        var
    }

    /// The element of a tensor at some indices, which are as many as its axes.
    pub(super) fn element_at(&mut self, value: TermId, indices: &[IndexId], span: Span) -> Option<TermId> {
        let mut e = value;
        let mut rest = indices;
        let mut around = Vec::new();
        while let Some((first, others)) = rest.split_first() {
            match self.program.terms[e].clone() {
                Term::Gen { index, body, .. } => {
                    self.aliases.insert(index, *first);
                    self.left_out = true;
                    e = body;
                    rest = others;
                }
                term @ (Term::Iverson { body, .. } | Term::Let { body, .. }) => {
                    self.left_out = true;
                    around.push(term);
                    e = body;
                }
                _ => {
                    e = self.push(Term::Access { array: e, index: Affine::index(*first) }, span)?;
                    rest = others;
                }
            }
        }
        around.into_iter().rev().try_fold(e, |body, term| {
            let term = match term {
                Term::Iverson { guard, .. } => Term::Iverson { guard, body },
                Term::Let { var, value, .. } => Term::Let { var, value, body },
                other => other,
            };
            self.push(term, span)
        })
    }

    /// `gen i < n, .. body`
    pub(super) fn gens(&mut self, indices: &[IndexId], shape: &[Size], body: TermId, span: Span) -> Option<TermId> {
        let axes = indices.iter().zip(shape).rev();
        axes.into_iter().try_fold(body, |body, (index, extent)| {
            self.push(Term::Gen { index: *index, extent: extent.clone(), body }, span)
        })
    }

    pub(super) fn sums(&mut self, indices: &[IndexId], shape: &[Size], body: TermId, span: Span) -> Option<TermId> {
        let axes = indices.iter().zip(shape).rev();
        axes.into_iter().try_fold(body, |body, (index, extent)| {
            self.push(Term::Sum { index: *index, extent: extent.clone(), body }, span)
        })
    }

    /// Applies an operation on reals to reals, or to each element of tensors: those of fewer axes go with each of the others' leading ones. `at`
    /// are the places of the operands, `what` is what the operation is called.
    pub(super) fn elementwise(
        &mut self,
        values: Vec<Option<TermId>>,
        at: &[ExprId],
        what: &str,
        span: Span,
        operation: impl FnOnce(&mut Self, Vec<TermId>) -> Option<TermId>,
    ) -> Option<TermId> {
        let whole = |value: &Option<TermId>| value.is_none_or(|value| self.is_real(value));
        if values.iter().all(whole) {
            let reals = self.reals(values, at, what)?;
            return operation(self, reals);
        }
        let mut shapes = Vec::with_capacity(values.len());
        for (value, at) in values.iter().zip(at) {
            let Some(value) = *value else { continue };
            let Some(shape) = self.real_shape(value) else {
                self.real(Some(value), *at, what);
                return None;
            };
            shapes.push(shape);
        }
        let shape = self.common_shape(&self.stretched_shapes(&shapes), what, span)?;
        let values: Vec<TermId> = values.into_iter().collect::<Option<_>>()?;
        let indices = self.fresh_indices(&shape, &values);
        let mut lets = Vec::new();
        let elements = self.elements_at(&values, &indices, &shape, &mut lets, span)?;
        let body = operation(self, elements)?;
        let tensor = self.gens(&indices, &shape, body, span);
        self.wrap_lets(lets, tensor, span)
    }

    /// The elements of some tensors at indices of these extents, of which those of fewer axes have the last ones. The `let`s around them go to the others.
    pub(super) fn elements_at(
        &mut self,
        values: &[TermId],
        indices: &[IndexId],
        extents: &[Size],
        lets: &mut Vec<Binding>,
        span: Span,
    ) -> Option<Vec<TermId>> {
        let mut elements = Vec::with_capacity(values.len());
        for value in values {
            let shape = self.real_shape(*value)?;
            let before = indices.len() - shape.len();
            let (indices, extents) = (&indices[before..], &extents[before..]);
            // What has fewer axes, or shorter ones, is used for each of the others.
            let value = match before > 0 || self.stretched_shapes(&[shape.clone(), extents.to_vec()])[0] != shape {
                true => self.bind_value(*value, "s", lets, span)?,
                false => self.leave_lets(*value, lets),
            };
            elements.push(self.element_stretched(value, indices, extents, span)?);
        }
        Some(elements)
    }

    /// Whether two shapes are equal for what is known here.
    pub(super) fn same_shape(&mut self, a: &[Size], b: &[Size]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same_size(a, b))
    }

    /// The shape with the most axes; the others are its last ones.
    pub(super) fn common_shape(&mut self, shapes: &[Vec<Size>], what: &str, span: Span) -> Option<Vec<Size>> {
        let most = shapes.iter().map(Vec::len).max()?;
        let longest = shapes.iter().find(|shape| shape.len() == most)?.clone();
        // A vector in front of a matrix whose rows are not as many as its elements multiplies no matrix.
        let is_scaling =
            shapes.first().is_some_and(|first| first.len() == 1) && !self.same_size(&shapes[0][0], &longest[0]);
        for shape in shapes {
            let mut fits = |axes: &[Size]| axes.iter().zip(shape).all(|(a, b)| self.same_size(a, b));
            // On paper a product of a matrix and a vector behind it is another one.
            let as_matrices = what == "*" && most == 2 && shape.len() == 1 && !is_scaling;
            if as_matrices || !fits(&longest[most - shape.len()..]) {
                self.report_shapes(what, &longest, shape, span);
                return None;
            }
            if (1..most).contains(&shape.len()) && fits(&longest[..shape.len()]) {
                self.report_two_ways(what, &longest, shape, span);
                return None;
            }
        }
        Some(longest)
    }

    fn report_two_ways(&mut self, what: &str, long: &[Size], short: &[Size], span: Span) {
        let (a, b) = (self.show_shape(long), self.show_shape(short));
        let message = format!("`{what}` fits tensors of the shapes `{a}` and `{b}` in two ways");
        let help = "say with which axes it goes: `gen i < n, j < n. a[i, j] + b[j]` is `b` in each row, `.. + b[i]` in each column";
        self.diagnose(Diagnostic::new("shape-mismatch", span, message).help(help));
    }

    fn show_shape(&self, shape: &[Size]) -> String {
        let sizes: Vec<String> = shape.iter().map(|n| self.show(n)).collect();
        format!("[{}]", sizes.join(", "))
    }

    pub(super) fn report_shapes(&mut self, what: &str, a: &[Size], b: &[Size], span: Span) {
        let message = format!(
            "`{what}` takes tensors of {}, found `{}` and `{}`",
            if what == "*" { "one shape" } else { "shapes that agree" },
            self.show_shape(a),
            self.show_shape(b)
        );
        let matrices = a.len().max(b.len()) == 2 && a.last() == b.first();
        let help = if what == "*" && matrices {
            let (long, short) = if a.len() == 2 { (a, b) } else { (b, a) };
            let place = if short.len() == 1 { "j" } else { "i, j" };
            format!(
                "the product of matrices and vectors is `@`, as in `A @ x`; element by element it is `gen i < {}, j < {}. A[i, j] * x[{place}]`",
                self.show(&long[0]),
                self.show(&long[1])
            )
        } else if a.len() == b.len() {
            let mut differ = a.iter().zip(b).filter(|(a, b)| a != b);
            match differ.next() {
                Some((n, m)) if may_be_equal(n, m) => {
                    format!("if the sizes are equal, say so: `assume {} = {}`", self.show(n), self.show(m))
                }
                _ => "write it for each element, as in `gen i < n. ..`".to_owned(),
            }
        } else {
            "the one with fewer axes has the last axes of the other; else write it for each element, as in `gen i < n, j < m. x[i, j] + b[i]`"
                .to_owned()
        };
        self.diagnose(Diagnostic::new("shape-mismatch", span, message).help(help));
    }

    /// `sum(a)`, `mean(a)`, `max(a)`, `min(a)`: over all axes of a tensor.
    pub(super) fn total(&mut self, at: ExprId, name: &'a str, args: &'a [ExprId]) {
        if args.len() != 1 {
            let span = self.span(at);
            let message = format!("`{name}` takes one tensor, found {} arguments", args.len());
            let name_of = |e: &ExprId| match self.expr(*e) {
                Expr::Name(name) => Some(name.as_str()),
                _ => None,
            };
            let first = args.first().and_then(name_of);
            let last = args.last().and_then(|e| self.constant(*e));
            let help = match (first, last) {
                (Some(f), _) if self.is_function(f) || foreign::function(f).is_some() => foreign::each_of(name, f),
                (tensor, Some(axis)) if args.len() == 2 => foreign::along(name, tensor.unwrap_or("A"), axis),
                (Some(index), _) if args.len() == 2 && matches!(self.peek(index), Meaning::Unknown) => {
                    format!("over an index it is `{name} {index} < n. e`")
                }
                _ => format!("`{name}(x)` is over all axes; over one it is `{name}(A, axis = 0)`"),
            };
            self.diagnose(Diagnostic::new("wrong-arity", span, message).help(help));
            self.values.push(None);
            return;
        }
        self.tasks.push(Task::Total(at, name));
        self.tasks.push(Task::Value(args[0]));
    }

    pub(super) fn finish_total(&mut self, at: ExprId, name: &str) {
        let span = self.span(at);
        let value = self.pop_value().and_then(|value| {
            let shape = self.real_shape(value);
            let Some(shape) = shape.filter(|shape| !shape.is_empty()) else {
                let found = self.show_type(self.program.ty(value));
                let message = format!("`{name}` takes a tensor of reals, found a value of type `{found}`");
                let help = match name {
                    "max" | "min" => format!("of two numbers it is `{name}(a, b)`, over an index `{name} i < n. e`"),
                    _ => format!("over an index it is written `{name} i < n. e`"),
                };
                self.diagnose(Diagnostic::new("expected-tensor", span, message).help(help));
                return None;
            };
            match name {
                "max" => self.largest_of_all(at, View::ArgMax, value, shape),
                "min" => self.largest_of_all(at, View::ArgMin, value, shape),
                _ => self.sum_of_all(value, &shape, name == "mean", span),
            }
        });
        self.values.push(value);
    }

    fn sum_of_all(&mut self, value: TermId, shape: &[Size], mean: bool, span: Span) -> Option<TermId> {
        let indices = self.fresh_indices(shape, &[value]);
        let mut lets = Vec::new();
        let value = self.leave_lets(value, &mut lets);
        let element = self.element_at(value, &indices, span)?;
        let mut total = self.sums(&indices, shape, element, span)?;
        if mean {
            for extent in shape {
                let n = self.push(Term::Number(Number::Index(extent.clone())), span)?;
                total = self.push(Term::Apply(Function::from(Op::Div), vec![total, n]), span)?;
            }
        }
        self.wrap_lets(lets, Some(total), span)
    }

    /// The shape of a tensor that is summed as a whole: none of its axes is as long as the range, which looks as if an index was left out.
    pub(super) fn shape_of_summand(&mut self, body: TermId, range: &Size) -> Option<Vec<Size>> {
        let shape = self.real_shape(body)?;
        (!shape.is_empty() && !shape.iter().any(|n| self.same_size(n, range))).then_some(shape)
    }

    /// `sum i < n. v`  ==  `gen k < m. sum i < n. v[k]`, for a `v` that depends on the index.
    pub(super) fn sum_of_tensors(
        &mut self,
        (index, extent): (IndexId, Size),
        shape: &[Size],
        body: TermId,
        span: Span,
    ) -> Option<TermId> {
        let indices = self.fresh_indices(shape, &[body]);
        let element = self.element_at(body, &indices, span)?;
        let sum = self.push(Term::Sum { index, extent, body: element }, span)?;
        self.gens(&indices, shape, sum, span)
    }

    /// Whether an expression mentions a name; what binds the same name hides nothing.
    pub(super) fn mentions_name(&self, e: ExprId, name: &str) -> bool {
        let mut stack = vec![e];
        while let Some(e) = stack.pop() {
            work::charge(1);
            match self.expr(e) {
                Expr::Name(found) if found == name => return true,
                expr => expr.for_each_operand(|e| stack.push(e)),
            }
        }
        false
    }

    /// The extremum over the last axis, then over the one before.
    fn largest_of_all(&mut self, at: ExprId, view: View, value: TermId, mut shape: Vec<Size>) -> Option<TermId> {
        let span = self.span(at);
        let mut lets = Vec::new();
        let mut tensor = self.leave_lets(value, &mut lets);
        while let Some(extent) = shape.pop() {
            let var = self.variable_for(tensor, "v", &mut lets);
            let outer = self.fresh_indices(&shape, &[]);
            let places = outer.iter().map(|i| Affine::index(*i)).collect();
            let element = self.largest_element(at, view, var, places, extent)?;
            tensor = self.gens(&outer, &shape, element, span)?;
        }
        self.wrap_lets(lets, Some(tensor), span)
    }

    /// `a @ b`
    pub(super) fn finish_product(&mut self, at: ExprId) {
        let span = self.span(at);
        let (b, a) = (self.pop_value(), self.pop_value());
        let value = a.zip(b).and_then(|(a, b)| self.product(a, b, span));
        self.values.push(value);
    }

    fn product(&mut self, a: TermId, b: TermId, span: Span) -> Option<TermId> {
        let shapes = self.real_shape(a).zip(self.real_shape(b));
        let Some((left, right)) = shapes.filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
            let (left, right) = (self.show_type(self.program.ty(a)), self.show_type(self.program.ty(b)));
            let message = format!("`@` multiplies matrices and vectors, found values of type `{left}` and `{right}`");
            let help = "numbers, and tensors element by element, are multiplied by `*`";
            self.diagnose(Diagnostic::new("expected-tensor", span, message).help(help));
            return None;
        };
        // Axes in front of those of matrices, as of a batch.
        let (batch_a, batch_b) = (left.len().saturating_sub(2), right.len().saturating_sub(2));
        let (inner, other) = (left.last()?.clone(), right.get(batch_b)?.clone());
        if !self.same_size(&inner, &other) {
            let message = format!(
                "`@` sums over the last axis of its left and the {} of its right side, found shapes `{}` and `{}`",
                if batch_b > 0 { "last axis but one" } else { "first axis" },
                self.show_shape(&left),
                self.show_shape(&right)
            );
            self.diagnose(Diagnostic::new("shape-mismatch", span, message).help("the transpose of a matrix is `A'`"));
            return None;
        }
        let leading = [left[..batch_a].to_vec(), right[..batch_b].to_vec()];
        let batch = if leading.iter().all(|axes| !axes.is_empty()) && !self.same_shape(&leading[0], &leading[1]) {
            self.report_shapes("@", &left, &right, span);
            return None;
        } else {
            leading.into_iter().max_by_key(Vec::len)?
        };
        let mut lets = Vec::new();
        // Each element of one operand is used for each of the axes that only the other has.
        let a = match right.len() > 1 {
            true => self.bind_value(a, "a", &mut lets, span)?,
            false => self.leave_lets(a, &mut lets),
        };
        let b = match left.len() > 1 {
            true => self.bind_value(b, "b", &mut lets, span)?,
            false => self.leave_lets(b, &mut lets),
        };
        let rows = left[batch_a..left.len() - 1].iter();
        let columns = right[batch_b..].iter().skip(1);
        let shape: Vec<Size> = batch.iter().chain(rows.clone()).chain(columns).cloned().collect();
        let mut names = self.fresh_indices(&[shape.clone(), vec![inner.clone()]].concat(), &[]);
        let k = names.pop()?;
        let (leading, own) = names.split_at(batch.len());
        let (of_rows, of_columns) = own.split_at(rows.len());
        let at_a = [&leading[batch.len() - batch_a..], of_rows, &[k]].concat();
        let at_b = [&leading[batch.len() - batch_b..], &[k], of_columns].concat();
        let a = self.element_at(a, &at_a, span)?;
        let b = self.element_at(b, &at_b, span)?;
        let body = self.push(Term::Mul(a, b), span)?;
        let body = self.push(Term::Sum { index: k, extent: inner, body }, span)?;
        let value = self.gens(&names, &shape, body, span);
        self.wrap_lets(lets, value, span)
    }

    /// `A'`
    pub(super) fn finish_transpose(&mut self, at: ExprId) {
        let value = self.pop_value().and_then(|value| self.transposed(value, at));
        self.values.push(value);
    }

    pub(super) fn transposed(&mut self, value: TermId, at: ExprId) -> Option<TermId> {
        let span = self.span(at);
        let shape = self.real_shape(value);
        if shape.as_ref().is_some_and(|shape| shape.len() == 1) && self.frame.source.rows.contains(&at) {
            return Some(value);
        }
        let Some([m, n]) = shape.and_then(|shape| <[Size; 2]>::try_from(shape).ok()) else {
            let found = self.show_type(self.program.ty(value));
            let message = format!("`'` transposes a matrix, found a value of type `{found}`");
            let help = match self.real_shape(value) {
                Some(shape) if shape.len() > 2 => {
                    "of more axes write which two change places: `gen b < l, j < n, i < m. A[b, i, j]`"
                }
                _ => "a vector has one axis: `x @ y` is a number, `outer(x, y)` a matrix, `x @ A @ x` a quadratic form",
            };
            self.diagnose(Diagnostic::new("expected-tensor", span, message).help(help));
            return None;
        };
        let mut indices = self.fresh_indices(&[m.clone(), n.clone()], &[value]);
        let mut lets = Vec::new();
        let value = self.leave_lets(value, &mut lets);
        let element = self.element_at(value, &indices, span)?;
        indices.reverse();
        let value = self.gens(&indices, &[n, m], element, span);
        self.wrap_lets(lets, value, span)
    }

    /// `gen k < n. A[i, k, ..]` for the whole axes among some places.
    pub(super) fn slice(&mut self, value: TermId, places: Vec<(Option<Affine>, Size)>, span: Span) -> Option<TermId> {
        let shape: Vec<Size> = places.iter().filter(|(at, _)| at.is_none()).map(|(_, n)| n.clone()).collect();
        let whole = self.fresh_indices(&shape, &[]);
        let mut fresh = whole.iter();
        let mut element = value;
        for (place, _) in places {
            let index = match place {
                Some(index) => index,
                None => Affine::index(*fresh.next()?),
            };
            element = self.push(Term::Access { array: element, index }, span)?;
        }
        self.gens(&whole, &shape, element, span)
    }

    /// `select(p, a, b)` of values that have their guards: `a + b`.
    pub(super) fn either(&mut self, a: TermId, b: TermId, at: &[ExprId], span: Span) -> Option<TermId> {
        self.elementwise(vec![Some(a), Some(b)], at, "select", span, |this, operands| {
            let [a, b] = <[TermId; 2]>::try_from(operands).ok()?;
            this.push(Term::Add(a, b), span)
        })
    }

    /// Renames indices and leaves out terms that nothing uses.
    pub(super) fn settle(&mut self, root: TermId) -> Checked<TermId> {
        if !self.left_out {
            return Ok(root);
        }
        let old = std::mem::take(&mut self.program.terms);
        let types = std::mem::take(&mut self.program.term_types);
        let spans = std::mem::replace(&mut self.program.spans, SideTable::new(0, Span::default()));
        let mut used = vec![false; old.len()];
        used[root.0 as usize] = true;
        for id in old.ids().rev() {
            if used[id.0 as usize] {
                old[id].for_each_operand(|e| used[e.0 as usize] = true);
            }
        }
        let mut new = vec![TermId(0); old.len()];
        let aliases = std::mem::take(&mut self.aliases);
        // A `gen` that is taken apart gives its index to one that may be taken apart itself.
        let mut names: FxHashMap<IndexId, IndexId> = FxHashMap::default();
        for first in aliases.keys() {
            let (mut path, mut end) = (Vec::new(), *first);
            while let (None, Some(next)) = (names.get(&end), aliases.get(&end)) {
                path.push(end);
                end = *next;
            }
            let end = names.get(&end).copied().unwrap_or(end);
            names.extend(path.into_iter().map(|index| (index, end)));
        }
        let last = |index: IndexId| names.get(&index).map(|at| Affine::index(*at));
        for (id, term) in old.iter().filter(|(id, _)| used[id.0 as usize]) {
            let mut term = term.map_operands(|e| new[e.0 as usize]);
            match &mut term {
                Term::Access { index, .. } => *index = index.substitute(&last)?,
                Term::Iverson { guard, .. } => *guard = guard.substitute(&last)?,
                Term::Number(Number::Index(index)) => *index = index.substitute(&last)?,
                _ => {}
            }
            new[id.0 as usize] = self.program.terms.push(term);
            self.program.term_types.push(types[id]);
            self.program.spans.set(new[id.0 as usize], spans[id]);
        }
        Ok(new[root.0 as usize])
    }
}

//! Values: everything that has a type.

use super::super::ast::{BinaryOp, BinderKind, Expr, ExprId, UnaryOp};
use super::found::Made;
use super::functions::{Item, Place};
use super::names::{Binding, Global, Meaning};
use super::parts::Places;
use super::sums::SumTask;
use super::text::{count, symbol};
use super::{Elaborator, Task};
use crate::base::{IndexId, Span, VarId};
use crate::error::Diagnostic;
use crate::foreign;
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Number, Op};
use crate::term::{Term, TermId};
use crate::ty::{Side, Type, TypeId};

impl<'a> Elaborator<'a> {
    pub(super) fn value(&mut self, at: ExprId) {
        match self.bound_share(at) {
            Some(var) => self.use_share(at, var),
            None if self.open_shares(at) => {}
            None => self.unshared_value(at),
        }
    }

    #[allow(clippy::too_many_lines, reason = "an arm for each form of expression")]
    pub(super) fn unshared_value(&mut self, at: ExprId) {
        if self.meets_expectation(at) {
            return;
        }
        let span = self.span(at);
        match self.expr(at) {
            Expr::Number { value, .. } => {
                let literal = self.push(Term::Number(Number::Literal(*value)), span);
                self.values.push(literal);
            }
            Expr::Name(name) if let Meaning::Callable(Global::Constructor(ty, k)) = self.peek(name) => {
                self.construct(at, (ty, k), &[]);
            }
            Expr::Name(name) if let Some(def) = self.constant_definition(name) => {
                self.call_definition(at, def, &[], None)
            }
            Expr::Name(_) if self.single_index(at).is_some() => self.index_value(at),
            Expr::Name(name) => {
                let item = self.name_item(name, at);
                self.values.push_item(item);
            }
            Expr::Unary(UnaryOp::Neg, e) => match self.expr(*e) {
                Expr::Number { value, .. } => {
                    let literal = self.push(Term::Number(Number::Literal(-value)), span);
                    self.values.push(literal);
                }
                _ => {
                    self.tasks.push(Task::Negate(at));
                    self.tasks.push(Task::Value(*e));
                }
            },
            Expr::Unary(UnaryOp::Transpose, e) => {
                self.tasks.push(Task::Transpose(at));
                self.tasks.push(Task::Value(*e));
            }
            Expr::Binary(BinaryOp::MatMul, a, b) => {
                self.tasks.push(Task::Product(at));
                self.tasks.extend([Task::Value(*b), Task::Value(*a)]);
            }
            Expr::Binary(BinaryOp::Pow, base, exponent) if self.is_transpose(*exponent) => {
                self.tasks.push(Task::Transpose(at));
                self.tasks.push(Task::Value(*base));
            }
            Expr::Binary(BinaryOp::Pow, base, exponent) => match self.power(*exponent) {
                Some(k) => {
                    self.tasks.push(Task::Power(at, k));
                    self.tasks.push(Task::Value(*base));
                }
                None => self.arithmetic(at, BinaryOp::Pow, *base, *exponent),
            },
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div), a, b) => {
                self.arithmetic(at, *op, *a, *b);
            }
            Expr::Binary(BinaryOp::FloorDiv | BinaryOp::Rem, ..) => self.index_value(at),
            // As a number, a comparison of reals is 1 where it holds and 0 elsewhere.
            Expr::Binary(op, a, b) if !matches!(op, BinaryOp::And | BinaryOp::Or) && !self.compares_indices(*a, *b) => {
                self.arithmetic(at, *op, *a, *b);
            }
            // And so is every other predicate.
            Expr::Unary(UnaryOp::Not, _) | Expr::Binary(..) | Expr::Binder { kind: BinderKind::Exists, .. } => {
                self.predicate_as_value(at)
            }
            Expr::Iverson { guard, body } => {
                self.enter_anchor();
                self.tasks.push(Task::Iverson(at));
                self.tasks.push(Task::Value(*body));
                self.tasks.push(Task::EnterGuard);
                self.tasks.push(Task::Pred(*guard));
            }
            Expr::Call { callee, args } => self.call(at, callee, args),
            Expr::Access { .. } if self.applied_map(at).is_some() => self.index_value(at),
            Expr::Access { array, indices } if self.sum_param(*array).is_some() => {
                self.sum_element(at, *array, indices)
            }
            Expr::Access { array, indices } => {
                if indices.iter().any(|index| self.is_new_axis(*index)) {
                    self.tasks.push(Task::AddAxes(at));
                }
                self.enter_anchor();
                let sparse = self.as_variable(*array).filter(|v| self.sparse(*v).is_some());
                self.tasks.push(match sparse {
                    Some(var) => Task::SparseAccess(at, var, self.old_axes(indices)),
                    None => Task::Access(at),
                });
                let given = self.index_operands(indices);
                self.tasks.extend(given.iter().rev().map(|i| Task::Index(*i)));
                if sparse.is_none() {
                    self.tasks.push(Task::Value(*array));
                }
            }
            Expr::Pair(a, b) => {
                self.tasks.push(Task::Pair(at));
                self.tasks.extend([Task::Value(*b), Task::Value(*a)]);
            }
            Expr::Fst(_) | Expr::Snd(_) if let Some(element) = self.element_of_pattern(at) => {
                let value = self.element_of_vector(at, element);
                self.values.push(value);
            }
            Expr::Fst(e) => {
                self.tasks.push(Task::Project(at, Side::Fst));
                self.tasks.push(Task::Value(*e));
            }
            Expr::Snd(e) => {
                self.tasks.push(Task::Project(at, Side::Snd));
                self.tasks.push(Task::Value(*e));
            }
            Expr::Binder { kind, index, extent, body } => match kind {
                BinderKind::ArgMax | BinderKind::ArgMin => self.index_value(at),
                BinderKind::Max | BinderKind::Min => self.largest(at, *kind, &index.text, *extent, *body),
                BinderKind::Sum if self.ends_at_index(*extent) => self.sum_below_index(at, &index.text, *extent, *body),
                _ => {
                    let extent = self.range(*extent, &index.text, *body);
                    let id = self.enter_index(&index.text, extent.as_ref());
                    self.tasks.push(Task::Bound { at, kind: *kind, index: id, extent });
                    self.tasks.push(Task::Value(*body));
                }
            },
            Expr::Let { value, .. } => {
                self.tasks.push(Task::BindLet(at));
                match self.bound_index(*value) {
                    Some(Made::AtRunTime) => self.index_value(*value),
                    Some(Made::OfBinders) => {
                        self.tasks.extend([Task::BoundIndex, Task::Index(*value), Task::Value(*value)]);
                    }
                    None => self.tasks.push(Task::Value(*value)),
                }
            }
            Expr::Typed { .. } => self.typed_value(at),
            Expr::Case { value, .. } => {
                self.tasks.push(Task::Sum(at, SumTask::Case));
                self.tasks.push(Task::Value(*value));
            }
            Expr::Scan { .. } => self.scan(at),
            Expr::Function { params, body } => self.closure(at, params, *body),
            Expr::Apply { function, args } => {
                self.supply(at, args);
                self.tasks.push(Task::Value(*function));
            }
            // The parser reads it among the indices of an access only.
            Expr::All | Expr::Part { .. } | Expr::Error => {
                self.fail();
                self.values.push(None);
            }
        }
    }

    /// `sum j < i. e` is `sum j < n. [j < i] * e`, where `i < n`.
    fn sum_below_index(&mut self, at: ExprId, name: &'a str, bound: ExprId, body: ExprId) {
        let bound = self.bound_by_index(bound);
        let extent = bound.as_ref().map(|(_, extent)| extent.clone());
        let index = self.enter_index(name, extent.as_ref());
        let guard = bound.and_then(|(bound, _)| {
            let below = Pred::lt(&Affine::index(index), &bound);
            self.checked(at, below)
        });
        self.enter_anchor();
        let span = self.span(at);
        let guard = guard.and_then(|guard| self.about_numbers(guard, span));
        self.preds.push(guard);
        self.tasks.push(Task::Bound { at, kind: BinderKind::Sum, index, extent });
        self.tasks.push(Task::Iverson(at));
        self.tasks.push(Task::Value(body));
        self.tasks.push(Task::EnterGuard);
    }

    /// Whether an exponent is the `T` of `A^T`.
    pub(super) fn is_transpose(&self, exponent: ExprId) -> bool {
        match self.expr(exponent) {
            Expr::Name(name) => {
                matches!(name.as_str(), "T" | "top" | "t") && matches!(self.peek(name), Meaning::Unknown)
            }
            _ => false,
        }
    }

    /// A name as a value.
    pub(super) fn name_value(&mut self, name: &str, at: ExprId) -> Option<TermId> {
        let span = self.span(at);
        match self.meaning(name) {
            Meaning::Var(var) => {
                self.read_as_numbers.insert(var);
                match self.sparse(var) {
                    Some(_) => self.stored_elements(var, Vec::new(), span),
                    None => self.push(Term::Var(var), span),
                }
            }
            Meaning::Index(i) => self.push(Term::Number(Number::Index(Affine::index(i))), span),
            Meaning::Size(n) => self.push(Term::Number(Number::Index(n)), span),
            Meaning::Callable(Global::Map(map)) => self.targets(RelationRef::Input(map), span),
            Meaning::Callable(_) | Meaning::Function(_) => {
                let message = format!("a value is expected, but `{name}` is {}", self.noun_of(name));
                let help = match self.globals.get(name) {
                    Some(super::names::Global::Relation(_)) => format!("ask it in a bracket: `[{name}(i, ..)] * e`"),
                    _ => format!("call it: `{name}(..)`"),
                };
                self.diagnose(Diagnostic::new("not-a-value", span, message).help(help));
                None
            }
            Meaning::Error => {
                self.fail();
                None
            }
            Meaning::Unknown => {
                if let Some(constant) = constant_named(name) {
                    return self.push(Term::Number(Number::Literal(constant)), span);
                }
                // `A'` where nothing has that name.
                if let Some(base) = name.strip_suffix('\'').filter(|base| matches!(self.peek(base), Meaning::Var(_))) {
                    let value = self.name_value(base, at)?;
                    return self.transposed(value, at);
                }
                self.unknown(name, span, false);
                None
            }
        }
    }

    /// A map as a value: the tensor of its targets as numbers, `gen i < n. f(i)`.
    fn targets(&mut self, map: RelationRef, span: Span) -> Option<TermId> {
        let mut shape: Vec<Size> = super::bounds::shape(&self.program, map);
        // Behind the places is the range of the target.
        shape.pop();
        let indices = self.fresh_indices(&shape, &[]);
        let args = indices.iter().map(|index| Affine::index(*index)).collect();
        let target = Affine::var(Var::Apply(Box::new(Application { map, args })));
        let target = self.number_of(&target, span)?;
        self.gens(&indices, &shape, target, span)
    }

    /// `[p]`
    pub(super) fn predicate_as_value(&mut self, at: ExprId) {
        self.enter_anchor();
        let one = self.push(Term::Number(Number::Literal(1.0)), self.span(at));
        self.values.push(one);
        self.tasks.extend([Task::Iverson(at), Task::EnterGuard, Task::Pred(at)]);
    }

    /// The definition that a name is, if it has no parameters: its value is meant.
    fn constant_definition(&self, name: &str) -> Option<usize> {
        match self.peek(name) {
            Meaning::Callable(Global::Definition(def)) if self.definitions[def].params.is_empty() => Some(def),
            _ => None,
        }
    }

    fn arithmetic(&mut self, at: ExprId, op: BinaryOp, a: ExprId, b: ExprId) {
        self.tasks.push(Task::Arithmetic(at, op));
        self.tasks.extend([Task::Value(b), Task::Value(a)]);
    }

    /// The exponent, where it is an integer literal.
    fn power(&self, exponent: ExprId) -> Option<i32> {
        let k = match self.expr(exponent) {
            Expr::Number { integer, .. } => (*integer)?,
            Expr::Unary(UnaryOp::Neg, k) => match self.expr(*k) {
                Expr::Number { integer, .. } => (*integer)?.checked_neg()?,
                _ => return None,
            },
            _ => return None,
        };
        i32::try_from(k).ok()
    }

    pub(super) fn finish_negate(&mut self, at: ExprId) {
        let span = self.span(at);
        let e = self.pop_value();
        let Expr::Unary(_, operand) = self.expr(at) else { return };
        let value = self.elementwise(vec![e], &[*operand], "-", span, |this, e| this.negative(*e.first()?, span));
        self.values.push(value);
    }

    /// `-1 * e`
    fn negative(&mut self, e: TermId, span: Span) -> Option<TermId> {
        let minus = self.push(Term::Number(Number::Literal(-1.0)), span)?;
        self.push(Term::Mul(minus, e), span)
    }

    pub(super) fn finish_arithmetic(&mut self, at: ExprId, op: BinaryOp) {
        let span = self.span(at);
        let b = self.pop_value();
        let a = self.pop_value();
        let Expr::Binary(_, left, right) = self.expr(at) else { return };
        let is_tensor = |e: &TermId| self.real_shape(*e).is_some_and(|shape| !shape.is_empty());
        if self.frame.source.ast.dots.contains(&at) && [a, b].iter().flatten().filter(|e| is_tensor(e)).count() == 2 {
            let message = "`·` between tensors has two readings";
            let help = foreign::DOT;
            self.diagnose(Diagnostic::new("product-of-tensors", span, message).help(help));
            self.values.push(None);
            return;
        }
        if self.joins_in_vector(at, [a, b]) {
            self.values.push(None);
            return;
        }
        if let (BinaryOp::Mul, Some(a), Some(b)) = (op, a, b) {
            self.warn_of_transpose(at, [*left, *right], [a, b]);
        }
        let value = self.elementwise(vec![a, b], &[*left, *right], symbol(op), span, |this, operands| {
            let [a, b] = <[TermId; 2]>::try_from(operands).ok()?;
            this.operation(op, a, b, span)
        });
        self.values.push(value);
    }

    fn operation(&mut self, op: BinaryOp, a: TermId, b: TermId, span: Span) -> Option<TermId> {
        let term = match op {
            BinaryOp::Add => Term::Add(a, b),
            // a - b  ==  a + -1 * b
            BinaryOp::Sub => Term::Add(a, self.negative(b, span)?),
            BinaryOp::Mul => Term::Mul(a, b),
            BinaryOp::Div => Term::Apply(Function::from(Op::Div), vec![a, b]),
            BinaryOp::Pow => Term::Apply(Function::from(Op::Pow), vec![a, b]),
            _ => return self.compare(op, a, b, span),
        };
        self.push(term, span)
    }

    pub(super) fn finish_power(&mut self, at: ExprId, k: i32) {
        let span = self.span(at);
        let base = self.pop_value();
        let Expr::Binary(_, operand, _) = self.expr(at) else { return };
        if base.is_some_and(|base| !self.allows_power(at, base, k)) {
            self.values.push(None);
            return;
        }
        let value = self.elementwise(vec![base], &[*operand], "^", span, |this, base| {
            this.push(Term::Apply(Function::from(Op::Powi(k)), base), span)
        });
        self.values.push(value);
    }

    pub(super) fn finish_pair(&mut self, at: ExprId) {
        let span = self.span(at);
        let b = self.values.pop();
        let a = self.values.pop();
        let pair = a.zip(b).and_then(|(a, b)| self.pair_of(a, b, span));
        self.values.push_item(pair);
    }

    pub(super) fn finish_project(&mut self, at: ExprId, side: Side) {
        let span = self.span(at);
        if let Some(part) = self.project_function(side, span) {
            self.values.push_item(part);
            return;
        }
        let value = self.pop_value().and_then(|e| {
            let ty = self.program.ty(e);
            let (axes, element) = self.program.types.peel(ty);
            if !axes.is_empty() && matches!(self.program.types.get(element), Type::Pair(..)) {
                let axes = axes.into_iter().cloned().collect();
                return self.project_each(e, axes, side, span);
            }
            if !matches!(self.program.types.get(ty), Type::Pair(..)) {
                let word = if side == Side::Fst { "fst" } else { "snd" };
                let diagnostic = Diagnostic::new(
                    "expected-pair",
                    span,
                    format!("`{word}` takes a pair, found a value of type `{}`", self.show_type(ty)),
                );
                let is_vector = self.real_shape(e).is_some_and(|shape| shape.len() == 1);
                // The name of what a pattern takes apart is none that can be written.
                match self.whole_of_pattern(at) {
                    Some(whole) => {
                        self.scopes.spoil(whole);
                        let first = whole.trim_matches(['(', ')']).trim_end_matches("..").trim_end();
                        let help = match is_vector {
                            true => format!("a pattern takes a pair apart; elements of a vector `v` are `let {first} = v[0]`, and so on"),
                            false => "a pattern takes a pair apart, as in `let (a, b) = (x, y)`".to_owned(),
                        };
                        self.diagnose(diagnostic.help(help));
                    }
                    None if is_vector => self.diagnose(diagnostic.help("an element of a vector is `v[0]`")),
                    None => self.diagnose(diagnostic),
                }
                return None;
            }
            self.push(if side == Side::Fst { Term::Fst(e) } else { Term::Snd(e) }, span)
        });
        self.values.push(value);
    }

    /// The name of the value that a pattern takes apart, of which a part is read here.
    pub(super) fn whole_of_pattern(&self, mut at: ExprId) -> Option<&'a str> {
        while let Expr::Fst(e) | Expr::Snd(e) = self.expr(at) {
            at = *e;
        }
        match self.expr(at) {
            Expr::Name(name) if name.starts_with('(') => Some(name),
            _ => None,
        }
    }

    /// The vector that a pattern takes apart, which has as many elements as the pattern has names, and the element of the name here:
    /// `let (a, b, c) = v`.
    fn element_of_pattern(&self, at: ExprId) -> Option<(VarId, i64)> {
        let (is_last, mut rest) = match self.expr(at) {
            Expr::Fst(e) => (false, *e),
            Expr::Snd(e) => (true, *e),
            _ => return None,
        };
        let mut element = i64::from(is_last);
        while let Expr::Snd(e) = self.expr(rest) {
            (element, rest) = (element + 1, *e);
        }
        let Expr::Name(whole) = self.expr(rest) else { return None };
        let Meaning::Var(var) = self.peek(self.whole_of_pattern(rest).filter(|name| *name == whole)?) else {
            return None;
        };
        let length = self.program.types.peel(self.program.variables[var].ty).0.first()?.as_constant()?;
        let fits = if is_last { element + 1 == length } else { element + 1 < length };
        fits.then_some((var, element))
    }

    fn element_of_vector(&mut self, at: ExprId, (var, element): (VarId, i64)) -> Option<TermId> {
        let span = self.span(at);
        let array = self.push(Term::Var(var), span)?;
        self.push(Term::Access { array, index: Affine::constant(element) }, span)
    }

    /// `fst e` of an array of pairs is the array of firsts: `let v = e in gen i < n. fst v[i]`.
    pub(super) fn project_each(&mut self, e: TermId, axes: Vec<Size>, side: Side, span: Span) -> Option<TermId> {
        let (var, bound) = match self.program.terms[e] {
            // The term that reads the variable whole is replaced by one for its elements.
            Term::Var(var) => (var, None),
            _ => {
                let ty = self.program.ty(e);
                let var = self.program.fresh_var("v", ty);
                (var, Some(e))
            }
        };
        let indices: Vec<IndexId> = axes.iter().map(|_| self.program.fresh_index("i")).collect();
        let array = match bound {
            None => e,
            Some(_) => self.push(Term::Var(var), span)?,
        };
        let element = indices
            .iter()
            .try_fold(array, |array, i| self.push(Term::Access { array, index: Affine::index(*i) }, span))?;
        let half = self.push(if side == Side::Fst { Term::Fst(element) } else { Term::Snd(element) }, span)?;
        let gens = indices.into_iter().zip(axes).rev();
        let body = gens
            .into_iter()
            .try_fold(half, |body, (index, extent)| self.push(Term::Gen { index, extent, body }, span))?;
        match bound {
            None => Some(body),
            Some(value) => self.push(Term::Let { var, value, body }, span),
        }
    }

    pub(super) fn finish_access(&mut self, at: ExprId) {
        let span = self.span(at);
        let Expr::Access { array, indices } = self.expr(at) else { return };
        let given = self.given_places(indices);
        let value = self.pop_value();
        let hoisted = self.leave_anchor();
        let value = value.and_then(|value| {
            let axes = self.axes(value, self.old_axes(indices), *array, span)?;
            let Places { at: places, parts } = self.places_on(given?, &axes)?;
            let places: Vec<(Option<Affine>, Size)> = places.into_iter().zip(axes).collect();
            let args: Vec<(Affine, Size)> =
                places.iter().filter_map(|(place, n)| Some((place.clone()?, n.clone()))).collect();
            let what = match self.expr(*array) {
                Expr::Name(name) => name.as_str(),
                _ => "..",
            };
            self.demand_in_bounds(at, what, &args)?;
            let element = self.element_told(value, places, span)?;
            self.gens_of_parts(parts, element, span)
        });
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// The extents of the first `n` axes of a tensor.
    fn axes(&mut self, value: TermId, n: usize, array: ExprId, span: Span) -> Option<Vec<Size>> {
        let ty = self.program.ty(value);
        let mut axes = Vec::with_capacity(n);
        let mut element = ty;
        while axes.len() < n {
            let Type::Tensor(extent, inner) = self.program.types.get(element) else {
                if axes.is_empty() {
                    let message =
                        format!("only a tensor can be indexed, found a value of type `{}`", self.show_type(ty));
                    let diagnostic = Diagnostic::new("not-a-tensor", self.span(array), message);
                    let is_pair = matches!(self.program.types.get(ty), Type::Pair(..));
                    self.diagnose(match self.untyped_parameter(array) {
                        _ if is_pair => diagnostic.help("the parts of a pair are `fst p` and `snd p`, and a pattern takes it apart: `let (a, b) = p`"),
                        Some(name) => diagnostic
                            .help(format!("`{name}` is `real`, since no type is written: `fn {name} : [n] real. ..`")),
                        None => diagnostic,
                    });
                } else {
                    self.too_many_indices(n, axes.len(), ty, span);
                }
                return None;
            };
            axes.push(extent.clone());
            element = *inner;
        }
        Some(axes)
    }

    fn too_many_indices(&mut self, found: usize, axes: usize, ty: TypeId, span: Span) {
        let (axes, ty) = (count(axes, "index", "indices"), self.show_type(ty));
        let message = format!("a value of type `{ty}` takes at most {axes}, found {found}");
        self.report("too-many-indices", span, message);
    }

    /// `A[i, j]` where `A` is sparse, or with fewer indices.
    pub(super) fn finish_sparse_access(&mut self, at: ExprId, var: VarId, n: usize) {
        let span = self.span(at);
        let Expr::Access { indices, .. } = self.expr(at) else { return };
        let given = self.given_places(indices);
        let hoisted = self.leave_anchor();
        let dims = self.program.types.real_dims(self.program.variables[var].ty).unwrap_or_default();
        let rank = dims.len();
        let value = if n > rank {
            self.too_many_indices(n, rank, self.program.variables[var].ty, span);
            None
        } else {
            given.and_then(|given| {
                let Places { at: places, parts } = self.places_on(given, &dims)?;
                let (places, told) = self.told(places, &[])?;
                let value = self.stored_elements(var, places, span);
                let value = self.around_told(told, value, span)?;
                self.gens_of_parts(parts, value, span)
            })
        };
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// `gen k. .. [A?(i, .., k, ..)] * A.value(i, .., k, ..)`, with a `gen` for each axis that has no index.
    ///
    /// Nothing is to be proved: a tuple of the pattern is in bounds.
    pub(super) fn stored_elements(&mut self, var: VarId, given: Vec<Option<Affine>>, span: Span) -> Option<TermId> {
        let pattern = self.sparse(var)?;
        let dims = self.program.types.real_dims(self.program.variables[var].ty)?;
        let mut axes = Vec::new();
        let mut places = Vec::with_capacity(dims.len());
        for (at, extent) in dims.into_iter().enumerate() {
            places.push(match given.get(at) {
                Some(Some(index)) => index.clone(),
                _ => {
                    let index = self.program.fresh_index(index_name(at));
                    self.knowledge.declare(index, Some(extent.clone()));
                    axes.push((index, extent));
                    Affine::index(index)
                }
            });
        }
        let stored = self.stored(var, &places, span)?;
        let element = self.push(Term::Iverson { guard: Pred::relation(pattern, places), body: stored }, span)?;
        axes.into_iter()
            .rev()
            .try_fold(element, |body, (index, extent)| self.push(Term::Gen { index, extent, body }, span))
    }

    /// `A.value(i, j)`
    fn stored(&mut self, var: VarId, places: &[Affine], span: Span) -> Option<TermId> {
        let tensor = self.push(Term::Var(var), span)?;
        places.iter().try_fold(tensor, |array, index| self.push(Term::Access { array, index: index.clone() }, span))
    }

    pub(super) fn finish_stored_access(&mut self, at: ExprId, var: VarId, n: usize) {
        let span = self.span(at);
        let places = self.pop_affines(n);
        let hoisted = self.leave_anchor();
        let value = places.and_then(|places| {
            let goal = Pred::relation(self.sparse(var)?, places.clone());
            if !self.proves(&goal) {
                let name = self.program.variables[var].name.clone();
                let shown: Vec<String> = places.iter().map(|a| self.show(a)).collect();
                let shown = shown.join(", ");
                let message = format!("`{name}.value({shown})` must stand where `{name}?({shown})` is known");
                self.diagnose(
                    Diagnostic::new("unguarded-value", span, message)
                        .help(format!("`{name}[{shown}]` reads as 0 where nothing is stored")),
                );
                return None;
            }
            let (places, told) = self.told(places.into_iter().map(Some).collect(), &[])?;
            let places = places.into_iter().collect::<Option<Vec<_>>>()?;
            let value = self.stored(var, &places, span);
            self.around_told(told, value, span)
        });
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// An index expression as a number.
    pub(super) fn index_value(&mut self, e: ExprId) {
        self.enter_anchor();
        self.tasks.push(Task::IndexValue(e));
        self.tasks.push(Task::Index(e));
    }

    pub(super) fn finish_index_value(&mut self, at: ExprId) {
        let span = self.span(at);
        let index = self.pop_affine();
        let hoisted = self.leave_anchor();
        let value = index.as_ref().and_then(|a| self.number_of(a, span));
        self.remember_index(value, index);
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// The value of a `let` is complete, as a number and as an index expression, for which the name stands.
    pub(super) fn finish_bound_index(&mut self) {
        if let (Some(index), Some(value)) = (self.pop_affine(), self.values.last_term()) {
            self.index_terms.insert(value, index);
        }
    }

    pub(super) fn finish_binder(&mut self, at: ExprId, kind: BinderKind, index: IndexId, extent: Option<Size>) {
        let span = self.span(at);
        let Expr::Binder { index: name, body: operand, .. } = self.expr(at) else { return };
        self.leave_index(&name.text, extent.as_ref());
        let body = self.pop_value_in(if kind == BinderKind::Gen { Place::Tensor } else { Place::Total(kind.word()) });
        if let (BinderKind::Sum, Some(body), Some(extent)) = (kind, body, &extent)
            && let Some(shape) = self.shape_of_summand(body, extent)
            && self.mentions_name(*operand, &name.text)
        {
            let sum = self.sum_of_tensors((index, extent.clone()), &shape, body, span);
            self.values.push(sum);
            return;
        }
        let body = match kind {
            BinderKind::Gen => body,
            _ => self.real(body, *operand, kind.word()),
        };
        let value = body.zip(extent).and_then(|(body, extent)| match kind {
            BinderKind::Gen => self.push(Term::Gen { index, extent, body }, span),
            BinderKind::Sum => self.push(Term::Sum { index, extent, body }, span),
            _ => self.finish_largest(at, kind, index, extent, body),
        });
        self.values.push(value);
    }

    pub(super) fn bind_let(&mut self, at: ExprId) {
        if self.bind_index(at).is_some() {
            return;
        }
        let Expr::Let { name, body, .. } = self.expr(at) else { return };
        let function = self.values.last_function();
        let value = self.values.last_term();
        let var = value.map(|value| self.program.fresh_var(&name.text, self.program.ty(value)));
        function.into_iter().for_each(|shape| self.name_function(shape, name));
        let binding = function.map(Binding::Function).or_else(|| var.map(Binding::Var));
        self.bind(&name.text, binding.unwrap_or(Binding::Error));
        self.tasks.push(Task::Let(at, var));
        self.tasks.push(Task::Value(*body));
    }

    pub(super) fn finish_let(&mut self, at: ExprId, var: Option<VarId>) {
        let span = self.span(at);
        let Expr::Let { name, .. } = self.expr(at) else { return };
        self.scopes.unbind(&name.text);
        let body = self.values.pop();
        let value = self.values.pop();
        let lets = match value {
            Some(Item::Term(value)) => var.map(|var| vec![(var, value)]),
            Some(Item::Function(held)) => Some(held.lets.into()),
            None => None,
        };
        let item = lets.zip(body).and_then(|(lets, body)| self.wrap_item(lets, body, span));
        self.values.push_item(item);
    }
}

/// The names of indices that are made up, outermost first.
pub(super) fn index_name(at: usize) -> String {
    const NAMES: [&str; 6] = ["i", "j", "k", "l", "p", "q"];
    NAMES.get(at).map_or_else(|| format!("i{at}"), |name| (*name).to_owned())
}

/// What a name stands for that nothing declares or binds.
pub(super) fn constant_named(name: &str) -> Option<f64> {
    matches!(name, "pi" | "π").then_some(std::f64::consts::PI)
}

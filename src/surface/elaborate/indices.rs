//! Index expressions to affine forms.
//!
//! A sum is taken apart from the top with the coefficient that its terms will get, so a sum of any length or shape takes one pass:
//! `index(2 * (i + 1) - j)` collects `(i, 2), (1, 2), (j, -1)`. Map applications and `argmax` are left to further tasks.
//! Refused: products of two indices, division but by integers, values.

use super::super::ast::{BinaryOp, BinderKind, Expr, ExprId, UnaryOp};
use super::names::{Global, Meaning};
use super::text::{count, noun};
use super::{Elaborator, MAX_OPERANDS, Task};
use crate::base::{RelationId, Span, VarId, work};
use crate::error::Diagnostic;
use crate::foreign;
use crate::index::{Affine, Application, Overflow, RelationRef, Size, Var, View};

/// What makes the elements of a tensor indices.
const ELEMENTS: &str = "a tensor of indices has the type where its name says so: `param idx : [m] index n`, or `let idx : [m] index n = gen i < m. ..`";

/// What makes a choice of places an index.
const CHOSEN: &str = "a choice of places is an index where its name says so: `let j : index n = if i >= 1 then i - 1 else 1 - i` on a line of its own or in front of `in`, and then `x[j]`";

/// A sum that is being collected.
#[derive(Default)]
struct Sum {
    terms: Vec<(Var, i64)>,
    constant: i64,
    /// Map applications, quotients and their coefficients.
    pending: Vec<(ExprId, i64)>,
    /// What is left to collect, with its coefficient.
    stack: Vec<(ExprId, i64)>,
}

impl<'a> Elaborator<'a> {
    pub(super) fn index(&mut self, at: ExprId) {
        let mut sum = Sum { stack: vec![(at, 1)], ..Sum::default() };
        let mut sound = true;
        while let Some((e, k)) = sum.stack.pop() {
            work::charge(4);
            if sum.terms.len() + sum.pending.len() > MAX_OPERANDS {
                let span = self.span(at);
                self.report("too-large", span, format!("an index expression has at most {MAX_OPERANDS} parts"));
                sound = false;
                break;
            }
            match self.collect(e, k, &mut sum) {
                Ok(()) => {}
                Err(diagnostic) => {
                    self.fail();
                    sound = false;
                    if let Some(diagnostic) = diagnostic {
                        self.diagnose(diagnostic);
                    }
                }
            }
        }
        if !sound {
            self.affines.push(None);
            return;
        }
        let Sum { terms, constant, pending, .. } = sum;
        if pending.is_empty() {
            let affine = Affine::from_terms(terms, constant);
            let affine = self.checked(at, affine);
            self.affines.push(affine);
            return;
        }
        let coefficients = pending.iter().map(|(_, k)| *k).collect();
        self.tasks.push(Task::Affine { at, terms, constant, coefficients });
        self.tasks.extend(pending.iter().rev().map(|(e, _)| Task::Application { at: *e, prove: true }));
    }

    /// Adds `k * e` to the sum.
    fn collect(&mut self, e: ExprId, k: i64, sum: &mut Sum) -> Result<(), Option<Diagnostic>> {
        let span = self.span(e);
        let overflow = || Some(Diagnostic::new("overflow", span, Overflow.to_string()));
        if let Some(c) = self.constant(e) {
            let c = c.checked_mul(k).ok_or_else(overflow)?;
            sum.constant = sum.constant.checked_add(c).ok_or_else(overflow)?;
            return Ok(());
        }
        match self.expr(e) {
            Expr::Name(_) if self.single_index(e).is_some() => sum.pending.push((e, k)),
            Expr::Name(name) => match self.meaning(name) {
                Meaning::Index(i) => sum.terms.push((Var::Index(i), k)),
                Meaning::Size(n) => {
                    let n = n.scale(k).map_err(|_| overflow())?;
                    sum.constant = sum.constant.checked_add(n.offset()).ok_or_else(overflow)?;
                    sum.terms.extend(n.terms().iter().cloned());
                }
                Meaning::Var(var) => {
                    let index = self.variable_as_index(var, name, span)?;
                    let index = index.scale(k).map_err(|_| overflow())?;
                    sum.constant = sum.constant.checked_add(index.offset()).ok_or_else(overflow)?;
                    sum.terms.extend(index.terms().iter().cloned());
                }
                Meaning::Callable(_) | Meaning::Function(_) => {
                    let message = format!("an index is expected, but `{name}` is {}", self.noun_of(name));
                    let diagnostic = Diagnostic::new("value-as-index", span, message);
                    return Err(Some(match self.globals.get(name.as_str()) {
                        Some(Global::Map(map)) => diagnostic.help(self.places_of_map(*map, name)),
                        _ => diagnostic,
                    }));
                }
                Meaning::Error => return Err(None),
                Meaning::Unknown => {
                    self.unknown(name, span, true);
                    return Err(None);
                }
            },
            Expr::All if let Some(n) = self.range_found(e) => {
                let n = n.scale(k).map_err(|_| overflow())?;
                sum.constant = sum.constant.checked_add(n.offset()).ok_or_else(overflow)?;
                sum.terms.extend(n.terms().iter().cloned());
            }
            Expr::Unary(UnaryOp::Neg, a) => sum.stack.push((*a, k.checked_neg().ok_or_else(overflow)?)),
            Expr::Binary(BinaryOp::Add, a, b) => sum.stack.extend([(*b, k), (*a, k)]),
            Expr::Binary(BinaryOp::Sub, a, b) => {
                sum.stack.extend([(*b, k.checked_neg().ok_or_else(overflow)?), (*a, k)]);
            }
            Expr::Binary(BinaryOp::Mul, a, b) => match (self.constant(*b), self.constant(*a)) {
                (Some(c), _) => sum.stack.push((*a, k.checked_mul(c).ok_or_else(overflow)?)),
                (None, Some(c)) => sum.stack.push((*b, k.checked_mul(c).ok_or_else(overflow)?)),
                (None, None) => {
                    let message = "an index expression is affine: one factor of a product must be an integer literal";
                    return Err(Some(Diagnostic::new("not-affine", span, message).help(
                        "a tensor with one axis for each factor needs no product; as numbers write `real(i) * real(j)`",
                    )));
                }
            },
            Expr::Call { .. } | Expr::Access { .. } if self.applied_map(e).is_some() => sum.pending.push((e, k)),
            Expr::Call { .. } if self.largest_place(e).is_some() => sum.pending.push((e, k)),
            Expr::Binder { kind: BinderKind::ArgMax | BinderKind::ArgMin, .. }
            | Expr::Binary(BinaryOp::FloorDiv | BinaryOp::Rem, ..) => sum.pending.push((e, k)),
            Expr::Access { .. } | Expr::Fst(_) | Expr::Snd(_) | Expr::Typed { .. } | Expr::Scan { .. }
                if self.is_found_index(e) =>
            {
                sum.pending.push((e, k));
            }
            Expr::Access { array, .. } if let Some(help) = self.search_of_nothing(*array) => {
                let message = "an index is expected, found an element of a tensor of places that may not be there";
                return Err(Some(Diagnostic::new("not-an-index", span, message).help(help)));
            }
            Expr::Error => return Err(None),
            // It was reported where it is declared.
            Expr::Call { callee, .. } if matches!(self.globals.get(callee.text.as_str()), Some(Global::Error)) => {
                return Err(None);
            }
            other => return Err(Some(not_an_index(other, span))),
        }
        Ok(())
    }

    /// What to write instead of a whole map in the place of an index.
    fn places_of_map(&self, map: RelationId, name: &str) -> String {
        let shape = super::bounds::shape(&self.program, RelationRef::Input(map));
        let places = shape.len().saturating_sub(1);
        let indices: Vec<String> = (0..places).map(super::values::index_name).collect();
        let ranges = indices.iter().zip(&shape).map(|(i, n)| format!("{i} < {}", self.show(n)));
        let (ranges, indices) = (ranges.collect::<Vec<_>>().join(", "), indices.join(", "));
        format!("each of its targets has indices, as in `gen {ranges}. x[{name}({indices})]`")
    }

    fn variable_as_index(&mut self, var: VarId, name: &str, span: Span) -> Result<Affine, Option<Diagnostic>> {
        if let Some(size) = self.variable_as_size(var) {
            return Ok(size);
        }
        self.index_of_variable(var).ok_or_else(|| {
            let message = format!("an index is expected, but `{name}` is a value of reals");
            let help = self.meant_as_index(var, name);
            Some(Diagnostic::new("value-as-index", span, message).help(help))
        })
    }

    pub(super) fn finish_affine(
        &mut self,
        at: ExprId,
        mut terms: Vec<(Var, i64)>,
        mut constant: i64,
        coefficients: &[i64],
    ) {
        let affine = self.pop_affines(coefficients.len()).and_then(|applications| {
            for (a, k) in applications.into_iter().zip(coefficients) {
                let a = self.checked(at, a.scale(*k))?;
                constant = self.checked(at, constant.checked_add(a.offset()).ok_or(Overflow))?;
                terms.extend(a.terms().iter().cloned());
            }
            self.checked(at, Affine::from_terms(terms, constant))
        });
        self.affines.push(affine);
    }

    /// A map applied, or `argmax`.
    pub(super) fn application(&mut self, at: ExprId, prove: bool) {
        if let Some((map, name, args)) = self.applied_map(at) {
            let places = super::bounds::shape(&self.program, map).len().saturating_sub(1);
            if args.len() != places {
                let span = self.span(at);
                let takes = count(places, "index", "indices");
                let message = format!("the map `{name}` takes {takes}, found {}", args.len());
                self.report("wrong-arity", span, message);
                self.affines.push(None);
                return;
            }
            self.tasks.push(Task::MapApplication { at, map, n: places, prove });
            self.tasks.extend(args.iter().rev().map(|a| Task::Index(*a)));
            return;
        }
        if let Some(map) = self.single_index(at) {
            self.affines.push(Some(Affine::constant(0)));
            self.tasks.push(Task::MapApplication { at, map, n: 1, prove });
            return;
        }
        if let Some((view, vector)) = self.largest_place(at) {
            self.arg_of_vector(at, view, vector);
            return;
        }
        match self.expr(at) {
            Expr::Binary(..) => self.quotient(at),
            Expr::Binder { kind, .. } => {
                let view = if *kind == BinderKind::ArgMin { View::ArgMin } else { View::ArgMax };
                self.arg_of(at, view, prove);
            }
            _ => self.found_index(at),
        }
    }

    pub(super) fn finish_map_application(&mut self, at: ExprId, map: RelationRef, n: usize, prove: bool) {
        let affine = self.pop_affines(n).and_then(|args| {
            if args.iter().any(|a| a.nesting() >= Affine::MAX_NESTING) {
                let span = self.span(at);
                let message = format!("maps nest to a depth of at most {}", Affine::MAX_NESTING);
                self.report("too-deep", span, message);
                return None;
            }
            let application = Application { map, args };
            if prove {
                self.demand_source(at, &application)?;
            }
            Some(Affine::var(Var::Apply(Box::new(application))))
        });
        self.affines.push(affine);
    }

    /// Demands that a map is applied inside its source.
    pub(super) fn demand_source(&mut self, at: ExprId, application: &Application) -> Option<()> {
        let shape: Vec<Size> = super::bounds::shape(&self.program, application.map);
        let args: Vec<(Affine, Size)> = application.args.iter().cloned().zip(shape).collect();
        let what = format!("{}(", self.show_relation(application.map));
        self.demand_in_bounds(at, &what, &args)
    }
}

/// What is no part of an index expression.
fn not_an_index(e: &Expr, span: Span) -> Diagnostic {
    let (found, help) = match e {
        Expr::Number { .. } => ("a number that is not a 64-bit integer", None),
        Expr::Binary(BinaryOp::Div, ..) => {
            (noun(e), Some("the quotient of indices and sizes is written `i // 2`, and the remainder `i % 2`"))
        }
        Expr::All | Expr::Part { .. } => (noun(e), Some("a whole axis is `x[i, :]`, a part of one `x[a:b]`")),
        // The arithmetic of indices is an index expression.
        Expr::Binary(op, ..) if !matches!(op, BinaryOp::MatMul | BinaryOp::Pow) => (noun(e), Some(foreign::MASK)),
        Expr::Unary(UnaryOp::Not, _) | Expr::Iverson { .. } => (noun(e), Some(foreign::MASK)),
        Expr::Access { .. } => (noun(e), Some(ELEMENTS)),
        Expr::Call { callee, .. } if matches!(callee.text.as_str(), "range" | "arange") => {
            (noun(e), Some(foreign::TOGETHER))
        }
        Expr::Call { callee, .. } if callee.text == "select" => ("a choice", Some(CHOSEN)),
        Expr::Call { callee, .. } => (noun(e), foreign::function(&callee.text)),
        _ => (noun(e), None),
    };
    let message = format!("an index expression is built from indices, sizes, integers and maps, found {found}");
    let diagnostic = Diagnostic::new("not-an-index", span, message);
    match help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

//! Sum types: constructors and `case`.
//!
//! ```text
//! box(a, b)                        ==  (1, (0, (a, b)))             the tag, and the fields of all constructors, of others zeros
//! case e of circle(r) -> a | ..    ==  let p = e in [fst p = 0] * (let r = fst snd p in a) + ..
//! s[i]                             ==  (s_tag(i), (s_circle[i], ..))     a parameter
//! ```
//!
//! A tensor of a sum type is a partition: a map says which constructor each element has, and a `case` of an element is a sum of brackets about it,
//! `[s_tag(i) = 0] * a + ..`. So values and derivatives of an arm are zero, whatever its terms are, where another is taken; the derivative by a field
//! is zero where the element has another constructor. Other values have a number as tag, which only constructors make.
//!
//! Refused: arms of several types, of one constructor twice, or not of all; functions as values of arms.

use std::collections::BTreeSet;

use super::super::ast::{Arm, Constructor, Expr, ExprId, Name};
use super::names::{Binding, Global, Meaning};
use super::text::count;
use super::{Elaborator, Task};
use crate::base::{RelationId, Span, VarId};
use crate::error::Diagnostic;
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Function, Number, Op};
use crate::term::{Term, TermId};
use crate::ty::{Type, TypeId};

/// A sum type.
pub(super) struct SumType<'a> {
    pub(super) name: &'a Name,
    pub(super) constructors: &'a [Constructor],
    /// The types of the fields of all constructors, in order.
    pub(super) fields: Vec<TypeId>,
}

impl SumType<'_> {
    /// The places of the fields of a constructor among those of all.
    fn fields_of(&self, constructor: usize) -> std::ops::Range<usize> {
        let before: usize = self.constructors.iter().take(constructor).map(|c| c.fields.len()).sum();
        before..before + self.constructors.get(constructor).map_or(0, |c| c.fields.len())
    }
}

/// A parameter of a sum type.
#[derive(Clone)]
pub(super) struct SumParam {
    pub(super) tag: RelationId,
    pub(super) fields: Vec<VarId>,
    pub(super) axes: Vec<Size>,
}

/// A step of a value of a sum type.
pub(super) enum SumTask {
    /// The fields of a constructor are complete.
    Construct(usize, usize),
    /// The indices of an element of a parameter are complete.
    Element(SumParam, usize),
    /// What is taken apart is complete.
    Case,
    /// The value of an arm is complete, in which these were bound.
    Arm(usize, Vec<(VarId, TermId)>),
    /// All arms are.
    EndCase(usize),
}

impl<'a> Elaborator<'a> {
    pub(super) fn sum_step(&mut self, at: ExprId, task: SumTask) {
        match task {
            SumTask::Construct(ty, constructor) => self.finish_construct(at, ty, constructor),
            SumTask::Element(param, n) => self.finish_element(at, &param, n),
            SumTask::Case => self.enter_case(at),
            SumTask::Arm(arm, lets) => self.finish_arm(at, arm, lets),
            SumTask::EndCase(arms) => self.finish_case(at, arms),
        }
    }

    /// The parameter of a sum type that an expression is.
    pub(super) fn sum_param(&self, e: ExprId) -> Option<usize> {
        match self.expr(e) {
            Expr::Name(name) => match self.peek(name) {
                Meaning::Callable(Global::Sum(param)) => Some(param),
                _ => None,
            },
            _ => None,
        }
    }

    /// `circle(r)`
    pub(super) fn construct(&mut self, at: ExprId, (ty, constructor): (usize, usize), args: &[ExprId]) {
        let span = self.span(at);
        let declared = &self.sum_types[ty].constructors[constructor];
        let (name, places) = (declared.name.text.as_str(), declared.fields.len());
        if args.len() != places {
            let fields = if places == 0 { "no fields".to_owned() } else { count(places, "field", "fields") };
            let message = format!("the constructor `{name}` has {fields}, found {}", args.len());
            let help = match places {
                0 => format!("it stands alone: `{name}`"),
                1 => format!("it is written `{name}(a)`"),
                _ => format!("it is written `{name}(a, ..)`"),
            };
            self.diagnose(Diagnostic::new("wrong-arity", span, message).help(help));
            self.values.push(None);
            return;
        }
        self.tasks.push(Task::Sum(at, SumTask::Construct(ty, constructor)));
        self.tasks.extend(args.iter().rev().map(|a| Task::Value(*a)));
    }

    fn finish_construct(&mut self, at: ExprId, ty: usize, constructor: usize) {
        let span = self.span(at);
        let sum = &self.sum_types[ty];
        let (own, all) = (sum.fields_of(constructor), sum.fields.clone());
        let name = sum.constructors[constructor].name.text.as_str();
        let values = self.pop_values(own.len());
        let value = values.into_iter().collect::<Option<Vec<_>>>().and_then(|values| {
            let mut parts = vec![self.push(Term::Number(Number::Literal(constructor as f64)), span)?];
            let mut values = values.into_iter();
            for (at, field) in all.iter().enumerate() {
                if !own.contains(&at) {
                    parts.push(self.zero(*field, span)?);
                    continue;
                }
                let value = values.next()?;
                let found = self.program.ty(value);
                if found != *field {
                    let (expected, found) = (self.show_type(*field), self.show_type(found));
                    let message = format!("a field of `{name}` is `{expected}`, found a value of type `{found}`");
                    self.report("type-mismatch", span, message);
                    return None;
                }
                parts.push(value);
            }
            self.pairs(parts, span)
        });
        self.values.push(value);
    }

    /// `(a, (b, c))`
    fn pairs(&mut self, mut parts: Vec<TermId>, span: Span) -> Option<TermId> {
        let last = parts.pop()?;
        parts.into_iter().rev().try_fold(last, |rest, part| self.push(Term::Pair(part, rest), span))
    }

    /// The value of a type that is made of zeros. Types nest to a bounded depth.
    fn zero(&mut self, ty: TypeId, span: Span) -> Option<TermId> {
        match self.program.types.get(ty).clone() {
            Type::Real => self.push(Term::Number(Number::Literal(0.0)), span),
            Type::Pair(a, b) => {
                let (a, b) = (self.zero(a, span)?, self.zero(b, span)?);
                self.push(Term::Pair(a, b), span)
            }
            Type::Tensor(extent, element) => {
                let body = self.zero(element, span)?;
                let index = self.program.fresh_index("i");
                self.knowledge.declare(index, Some(extent.clone()));
                self.push(Term::Gen { index, extent, body }, span)
            }
        }
    }

    /// A parameter of a sum type as a value.
    pub(super) fn sum_value(&mut self, param: usize, span: Span) -> Option<TermId> {
        let param = self.sum_params.get(param)?.clone();
        let indices = self.fresh_indices(&param.axes, &[]);
        let places: Vec<Affine> = indices.iter().map(|i| Affine::index(*i)).collect();
        let element = self.element_of(&param, &places, span)?;
        self.gens(&indices, &param.axes, element, span)
    }

    /// `s[i]`
    pub(super) fn sum_element(&mut self, at: ExprId, array: ExprId, indices: &[ExprId]) {
        let param = self.sum_param(array).and_then(|param| self.sum_params.get(param)).cloned();
        let Some(param) = param else { return self.values.push(None) };
        let whole = indices.iter().any(|i| matches!(self.expr(*i), Expr::All | Expr::Part { .. }));
        if indices.len() != param.axes.len() || whole {
            let span = self.span(at);
            let takes = count(param.axes.len(), "index", "indices");
            let message = format!(
                "a parameter of a sum type is taken apart element by element: it takes {takes} here, found {}",
                indices.len()
            );
            self.report("too-many-indices", span, message);
            self.values.push(None);
            return;
        }
        self.enter_anchor();
        self.tasks.push(Task::Sum(at, SumTask::Element(param, indices.len())));
        self.tasks.extend(indices.iter().rev().map(|i| Task::Index(*i)));
    }

    fn finish_element(&mut self, at: ExprId, param: &SumParam, n: usize) {
        let span = self.span(at);
        let places = self.pop_affines(n);
        let hoisted = self.leave_anchor();
        let value = places.and_then(|places| {
            let Expr::Access { array, .. } = self.expr(at) else { return None };
            let what = match self.expr(*array) {
                Expr::Name(name) => name.as_str(),
                _ => "..",
            };
            let args: Vec<(Affine, Size)> = places.iter().cloned().zip(param.axes.iter().cloned()).collect();
            self.demand_in_bounds(at, what, &args)?;
            self.element_of(param, &places, span)
        });
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// The pairs of an element. Each part is read on its own at places that are found at run time.
    fn element_of(&mut self, param: &SumParam, places: &[Affine], span: Span) -> Option<TermId> {
        let mut parts = Vec::with_capacity(1 + param.fields.len());
        for field in std::iter::once(None).chain(param.fields.iter().copied().map(Some)) {
            let (places, told) = self.told(places.iter().cloned().map(Some).collect(), &param.axes)?;
            let places = places.into_iter().collect::<Option<Vec<_>>>()?;
            let part = match field {
                None => {
                    let args = if places.is_empty() { vec![Affine::constant(0)] } else { places };
                    let tag = Application { map: RelationRef::Input(param.tag), args };
                    self.push(Term::Number(Number::Index(Affine::var(Var::Apply(Box::new(tag))))), span)
                }
                Some(field) => {
                    let tensor = self.push(Term::Var(field), span)?;
                    places.into_iter().try_fold(tensor, |array, index| self.push(Term::Access { array, index }, span))
                }
            };
            parts.push(self.around_told(told, part, span)?);
        }
        self.pairs(parts, span)
    }

    /// The sum type of the arms of a `case`, and for each constructor its arm.
    fn arms_of(&mut self, at: ExprId, arms: &'a [Arm]) -> Option<(usize, Vec<&'a Arm>)> {
        let mut of: Option<(usize, &str)> = None;
        let mut known: Vec<Option<&'a Arm>> = Vec::new();
        for arm in arms {
            let Name { text, span } = &arm.constructor;
            let span = self.blame(*span);
            let Some(Global::Constructor(ty, constructor)) = self.globals.get(text.as_str()).copied() else {
                let message = format!("there is no constructor `{text}`");
                let help = "constructors are declared in front of the expression: `type shape = circle real | nothing`";
                self.diagnose(Diagnostic::new("unknown-name", span, message).help(help));
                return None;
            };
            let sum = &self.sum_types[ty];
            if let Some((other, first)) = of
                && other != ty
            {
                let message = format!(
                    "`{first}` makes a `{}`, but `{text}` makes a `{}`: all arms of a `case` are of one type",
                    self.sum_types[other].name.text, sum.name.text
                );
                self.report("case-arms", span, message);
                return None;
            }
            known.resize(sum.constructors.len(), None);
            of = Some((ty, text));
            let fields = sum.constructors[constructor].fields.len();
            if fields != arm.names.len() {
                let found = arm.names.len();
                let message = format!(
                    "`{text}` has {}, found {}",
                    count(fields, "field", "fields"),
                    count(found, "name", "names")
                );
                let help = match fields {
                    0 => format!("its arm is `{text} -> ..`"),
                    1 => format!("its arm is `{text}(a) -> ..`"),
                    _ => format!("its arm has a name for each: `{text}(a, b, ..) -> ..`"),
                };
                self.diagnose(Diagnostic::new("wrong-arity", span, message).help(help));
                return None;
            }
            let distinct: BTreeSet<&str> = arm.names.iter().map(|name| name.text.as_str()).collect();
            if distinct.len() < arm.names.len() {
                self.report("duplicate-name", span, format!("two fields of `{text}` have one name here"));
                return None;
            }
            if known[constructor].replace(arm).is_some() {
                self.report("case-arms", span, format!("there is an arm for `{text}` already"));
                return None;
            }
        }
        let (ty, _) = of?;
        let missing = known.iter().zip(self.sum_types[ty].constructors).filter(|(arm, _)| arm.is_none());
        let missing: Vec<String> = missing.map(|(_, constructor)| format!("`{}`", constructor.name.text)).collect();
        if !missing.is_empty() {
            let span = self.span(at);
            let message = format!("this `case` has no arm for {}", missing.join(" and "));
            let help = "there is one for each constructor, as in `| nothing -> 0`";
            self.diagnose(Diagnostic::new("case-arms", span, message).help(help));
            return None;
        }
        Some((ty, known.into_iter().flatten().collect()))
    }

    /// What is taken apart is on the stack: its arms come next.
    fn enter_case(&mut self, at: ExprId) {
        let Expr::Case { value: of, arms } = self.expr(at) else { return };
        let (span, value) = (self.span(at), self.pop_value());
        let found = self.arms_of(at, arms);
        let parts = value.zip(found.as_ref()).and_then(|(value, (ty, _))| {
            let fields = self.sum_types[*ty].fields.clone();
            if !self.is_sum(self.program.ty(value), &fields) {
                let (name, found) = (&self.sum_types[*ty].name.text, self.show_type(self.program.ty(value)));
                let message = format!("this `case` takes a `{name}` apart, found a value of type `{found}`");
                let span = self.span(*of);
                self.report("type-mismatch", span, message);
                return None;
            }
            self.enter_anchor();
            let mut lets = Vec::new();
            let value = self.leave_lets(value, &mut lets);
            let parts = self.parts(value, fields.len() + 1, &mut lets, span);
            if let Some(anchor) = self.anchors.last_mut() {
                anchor.lets = lets;
            }
            let guards = parts.as_ref().and_then(|parts| self.tags(*parts.first()?, arms.len(), span));
            if guards.is_none() {
                self.leave_anchor();
            }
            parts.zip(guards)
        });
        let (Some((parts, guards)), Some((ty, arms))) = (parts, found) else {
            self.values.push(None);
            return;
        };
        self.tasks.push(Task::Sum(at, SumTask::EndCase(arms.len())));
        // Each arm opens its guard when those before it are complete.
        for (k, guard) in guards.into_iter().enumerate().rev() {
            let own = self.sum_types[ty].fields_of(k);
            let fields = parts.get(1 + own.start..1 + own.end).unwrap_or_default().to_vec();
            self.tasks.push(Task::EnterArm { at, arm: arms[k], fields, guard });
        }
    }

    /// Whether a type is that of the tag and these fields.
    fn is_sum(&self, ty: TypeId, fields: &[TypeId]) -> bool {
        let mut ty = ty;
        for field in std::iter::once(&crate::ty::Types::REAL).chain(fields).take(fields.len()) {
            let Type::Pair(a, b) = self.program.types.get(ty) else { return false };
            if a != field {
                return false;
            }
            ty = *b;
        }
        ty == fields.last().copied().unwrap_or(crate::ty::Types::REAL)
    }

    /// The parts of nested pairs, so many of them: those that are written, and projections of what is not.
    fn parts(&mut self, value: TermId, n: usize, lets: &mut Vec<(VarId, TermId)>, span: Span) -> Option<Vec<TermId>> {
        let (mut parts, mut rest) = (Vec::with_capacity(n), value);
        while parts.len() + 1 < n {
            let Term::Pair(a, b) = self.program.terms[rest] else { break };
            parts.push(a);
            rest = b;
        }
        self.left_out = true;
        let left = n - parts.len();
        if left == 1 {
            parts.push(rest);
            return Some(parts);
        }
        let whole = self.variable_for(rest, "p", lets);
        for at in 0..left {
            let mut part = self.push(Term::Var(whole), span)?;
            for _ in 0..at {
                part = self.push(Term::Snd(part), span)?;
            }
            parts.push(if at + 1 < left { self.push(Term::Fst(part), span)? } else { part });
        }
        Some(parts)
    }

    /// What says for each constructor that the tag is its number.
    fn tags(&mut self, tag: TermId, n: usize, span: Span) -> Option<Vec<Pred>> {
        let number = |k: usize| i64::try_from(k).map(Affine::constant).ok();
        if let Term::Number(Number::Index(a)) = &self.program.terms[tag] {
            let a = a.clone();
            return (0..n)
                .map(|k| match (a.terms(), a.offset()) {
                    ([(Var::Apply(application), 1)], 0) if application.args.iter().all(|a| a.nesting() == 0) => {
                        let args = application.args.iter().cloned().chain([number(k)?]).collect();
                        Some(Pred::relation(application.map, args))
                    }
                    _ => Pred::equal(&a, &number(k)?).ok(),
                })
                .collect();
        }
        let mut lets = Vec::new();
        let var = self.variable_for(tag, "tag", &mut lets);
        let mut guards = Vec::with_capacity(n);
        for k in 0..n {
            let tag = self.push(Term::Var(var), span)?;
            let literal = self.push(Term::Number(Number::Literal(k as f64)), span)?;
            let equal = Function::from(Op::Compare(Comparison::Equal));
            let value = self.push(Term::Apply(equal, vec![tag, literal]), span)?;
            let c = self.program.fresh_var("c", self.program.ty(value));
            lets.push((c, value));
            guards.push(Pred::relation(RelationRef::Computed { var: c, view: View::Support }, Vec::new()));
        }
        self.anchors.last_mut()?.lets.extend(lets);
        Some(guards)
    }

    /// Begins the value of an arm, under its guard and with its names.
    pub(super) fn enter_arm(&mut self, at: ExprId, arm: &'a Arm, fields: Vec<TermId>, guard: Pred) {
        let Expr::Case { arms, .. } = self.expr(at) else { return };
        let Some(number) = arms.iter().position(|other| std::ptr::eq(other, arm)) else { return };
        self.enter_branch(guard);
        let mut lets = Vec::new();
        for (name, field) in arm.names.iter().zip(fields) {
            let var = self.variable_for(field, &name.text, &mut lets);
            self.bind(&name.text, Binding::Var(var));
        }
        self.tasks.push(Task::Sum(at, SumTask::Arm(number, lets)));
        self.tasks.push(Task::Value(arm.body));
    }

    fn finish_arm(&mut self, at: ExprId, arm: usize, lets: Vec<(VarId, TermId)>) {
        let span = self.span(at);
        let Expr::Case { arms, .. } = self.expr(at) else { return };
        arms[arm].names.iter().rev().for_each(|name| self.scopes.unbind(&name.text));
        let body = self.pop_value();
        let Some(guard) = self.close_guard().and_then(|guard| guard.pred) else { return self.values.push(None) };
        let body = self.wrap_lets(lets, body, span);
        let value = body.and_then(|body| self.push(Term::Iverson { guard, body }, span));
        self.values.push(value);
    }

    fn finish_case(&mut self, at: ExprId, n: usize) {
        let span = self.span(at);
        let Expr::Case { arms, .. } = self.expr(at) else { return };
        let places: Vec<ExprId> = arms.iter().map(|arm| arm.body).collect();
        let values = self.pop_values(n).into_iter().collect::<Option<Vec<_>>>();
        let hoisted = self.leave_anchor();
        let value = values.and_then(|values| self.sum_of_cases(values, &places, span));
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// The sum of values of which one is not zero.
    fn sum_of_cases(&mut self, values: Vec<TermId>, at: &[ExprId], span: Span) -> Option<TermId> {
        let types: Vec<TypeId> = values.iter().map(|value| self.program.ty(*value)).collect();
        let first = *types.first()?;
        if types.iter().all(|ty| *ty == first) && matches!(self.program.types.get(first), Type::Pair(..)) {
            let lets: Vec<(VarId, TermId)> =
                values.into_iter().map(|value| (self.program.fresh_var("u", first), value)).collect();
            let vars: Vec<VarId> = lets.iter().map(|(var, _)| *var).collect();
            let body = self.component_sums(first, &vars, &mut Vec::new(), at, span);
            return self.wrap_lets(lets, body, span);
        }
        let other = types.iter().find(|ty| **ty != first);
        if let Some(other) = other
            && [first, *other].iter().any(|ty| self.program.types.real_dims(*ty).is_none())
        {
            let (first, other) = (self.show_type(first), self.show_type(*other));
            let message = format!("the arms of a `case` have values of one type, found `{first}` and `{other}`");
            self.report("type-mismatch", span, message);
            return None;
        }
        let mut values = values.into_iter();
        let first = values.next()?;
        values.try_fold(first, |sum, value| self.either(sum, value, at, span))
    }
}

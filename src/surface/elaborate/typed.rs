//! Types at names, and `let`s and parameters that are indices: see [`found`](super::found).
//!
//! *What has the type.* A name with `: index n`, whose value is proved to be in the range: an index expression, both sides of an `if`, all arms of a
//! `case`, the body of a bracket where 0 is in the range. An index expression that is bound by a `let` stands for itself.

use std::collections::BTreeMap;

use super::super::ast::{BinaryOp, BinderKind, Expr, ExprId, TypeKind, UnaryOp};
use super::calls::Definition;
use super::found::Refined;
use super::names::{Binding, Meaning};
use super::sizes::{Part, linear, resolve};
use super::stacks::Argument;
use super::{Elaborator, Task};
use crate::base::VarId;
use crate::error::Diagnostic;
use crate::index::{Affine, Pred, Size};
use crate::scalar::Number;
use crate::term::{Term, TermId};

/// An argument of a parameter that is an index.
#[derive(Clone)]
pub(super) enum Given {
    /// Of another type.
    Value,
    Affine(Affine),
    Found(Size),
}

/// How many parts of the value of a `let` are looked at to tell whether it is a size.
const MAX_PARTS_OF_SIZE: usize = 64;

/// Arguments of parameters that are indices, and what goes around the call.
type Arguments = (Vec<Given>, Vec<(VarId, TermId)>);

impl<'a> Elaborator<'a> {
    /// A value with a type at its name.
    pub(super) fn typed_value(&mut self, at: ExprId) {
        let Expr::Typed { value, ty, trusted } = self.expr(at) else { return };
        if *trusted {
            self.tasks.push(Task::Value(*value));
            return;
        }
        match self.refine(ty) {
            Some(refined) => {
                self.expect(*value, refined);
                self.tasks.push(Task::Conform(at));
                self.tasks.push(Task::Value(*value));
            }
            None => self.values.push(None),
        }
    }

    /// The value is complete: it has the type, but for what is said of indices, which was proved where they stand.
    pub(super) fn finish_typed(&mut self, at: ExprId) {
        let Expr::Typed { ty, .. } = self.expr(at) else { return };
        let (span, source) = (self.span(at), self.frame.source);
        let value = self.pop_value();
        let value = value.and_then(|value| {
            let mut axes = Vec::new();
            let found = self.program.ty(value);
            let mut same = self.match_type(source, ty, super::typings::Actual::Type(found), &mut axes, 0);
            for (formal, size) in axes {
                // A size that is none was reported.
                let formal = resolve(&formal, &mut |part| self.size_part(part))?;
                same &= formal.is_ok_and(|formal| self.same_size(&formal, &size));
            }
            if same {
                return Some(value);
            }
            let formal = super::sizes::show_formal(source, ty);
            let message =
                format!("a value of type `{formal}` is expected, found one of type `{}`", self.show_type(found));
            self.report("type-mismatch", span, message);
            None
        });
        self.values.push(value);
    }

    /// What is expected of an expression, when it is elaborated.
    fn expect(&mut self, e: ExprId, refined: Refined) {
        if refined != Refined::Any {
            self.expected.insert((self.frame.place, e), refined);
        }
    }

    /// Hands on to its parts what is expected of an expression. Whether it was elaborated as an index.
    pub(super) fn meets_expectation(&mut self, at: ExprId) -> bool {
        if self.expected.is_empty() {
            return false;
        }
        let Some(refined) = self.expected.remove(&(self.frame.place, at)) else { return false };
        match (self.expr(at), &refined) {
            (Expr::Let { body, .. }, _) => self.expect(*body, refined),
            (Expr::Call { callee, args }, _) if callee.text == "select" && args.len() == 3 => {
                self.expect(args[1], refined.clone());
                self.expect(args[2], refined);
            }
            (Expr::Case { arms, .. }, _) => arms.iter().for_each(|arm| self.expect(arm.body, refined.clone())),
            (Expr::Pair(a, b), Refined::Pair(first, second)) => {
                self.expect(*a, (**first).clone());
                self.expect(*b, (**second).clone());
            }
            (Expr::Binder { kind: BinderKind::Gen, body, .. }, Refined::Tensor(element)) => {
                self.expect(*body, (**element).clone());
            }
            (Expr::Iverson { body, .. }, Refined::Index(n)) => {
                self.demand_index(at, &Affine::constant(0), n);
                self.expect(*body, refined);
            }
            (_, Refined::Index(n)) => {
                if self.is_index_expression(at) {
                    self.enter_anchor();
                    self.tasks.push(Task::TypedIndex(at, n.clone()));
                    self.tasks.push(Task::Index(at));
                    return true;
                }
                self.not_typed(at, &refined);
            }
            _ if self.refined_of(at) == refined => {}
            _ => self.not_typed(at, &refined),
        }
        false
    }

    fn not_typed(&mut self, at: ExprId, refined: &Refined) {
        let span = self.span(at);
        let (what, found) = match refined {
            Refined::Index(n) => (format!("`index {}`", self.show(n)), super::text::noun(self.expr(at))),
            _ => ("indices".to_owned(), super::text::noun(self.expr(at))),
        };
        let message = format!("a value of type {what} is expected, found {found} that is not known to be one");
        let help = "an index is made of indices, sizes, integers, maps and `argmax`, by `if` and `case`; `let k : index n = ..` gives a name the type";
        self.diagnose(Diagnostic::new("expected-index", span, message).help(help));
    }

    pub(super) fn finish_typed_index(&mut self, at: ExprId, extent: &Size) {
        let span = self.span(at);
        let index = self.pop_affine();
        let hoisted = self.leave_anchor();
        let value = index.clone().and_then(|index| {
            self.demand_index(at, &index, extent)?;
            match index.as_constant() {
                Some(constant) => self.push(Term::Number(Number::Literal(constant as f64)), span),
                None => self.number_of(&index, span),
            }
        });
        self.remember_index(value, index);
        let value = self.wrap(hoisted, value, span);
        self.values.push(value);
    }

    /// Remembers the index expression that a number was, for a `let` that binds it.
    pub(super) fn remember_index(&mut self, value: Option<TermId>, index: Option<Affine>) {
        if let (Some(mut core), Some(index), false) = (value, index, self.stand_ins.is_empty()) {
            while let Term::Let { body, .. } = &self.program.terms[core] {
                core = *body;
            }
            self.index_terms.insert(core, index);
        }
    }

    /// Demands that an index expression is in a range.
    pub(super) fn demand_index(&mut self, at: ExprId, index: &Affine, extent: &Size) -> Option<()> {
        let range = Pred::in_range(index, extent);
        let range = self.checked(at, range)?;
        let holds = range.conjuncts().iter().all(|p| self.proves(p)) && !range.is_false();
        if holds {
            return Some(());
        }
        let (span, shown, n) = (self.span(at), self.show(index), self.show(extent));
        let message = format!("`{shown}` may be no `index {n}`: `0 <= {shown} < {n}` is not known here");
        let help = format!("say what it is elsewhere, as in `if {shown} < {n} then {shown} else 0`");
        self.diagnose(Diagnostic::new("out-of-bounds", span, message).help(help));
        None
    }

    /// An argument of a parameter that is an index.
    pub(super) fn index_argument(&mut self, e: ExprId) {
        match !self.is_found_index(e) && self.is_index_expression(e) {
            true => self.index_value(e),
            false => self.tasks.push(Task::Value(e)),
        }
    }

    /// The index that an argument is as a number.
    fn index_given(&self, argument: &Argument) -> Option<Affine> {
        let Argument::Value(value) = argument else { return None };
        match &self.program.terms[*value] {
            Term::Number(Number::Index(a)) if !a.is_size() => Some(a.clone()),
            _ => None,
        }
    }

    /// Demands that the arguments of parameters that are indices are in their ranges. One of a parameter without a type that is an index stays one.
    pub(super) fn index_arguments(
        &mut self,
        at: ExprId,
        definition: &Definition<'a>,
        args: &mut [Argument],
        sizes: &BTreeMap<&'a str, Size>,
    ) -> Option<Arguments> {
        let (places, mut lets) = (self.places_of_arguments(at), Vec::new());
        let mut found = Vec::with_capacity(args.len());
        for ((argument, (name, ty)), place) in args.iter_mut().zip(definition.params).zip(places) {
            let TypeKind::Index(n) = &ty.kind else {
                let index = self.index_given(argument).filter(|_| ty.kind == TypeKind::Inferred);
                found.push(index.map_or(Given::Value, Given::Affine));
                continue;
            };
            let size = linear(definition.source, *n).ok()?;
            let extent = resolve(&size, &mut |part| match part {
                Part::Name(name, span) => match sizes.get(name) {
                    Some(size) => Some(Ok(size.clone())),
                    None => self.size_part(Part::Name(name, span)),
                },
                part => self.size_part(part),
            })?;
            let extent = self.checked(at, extent)?;
            let given = match *argument {
                Argument::Variable(var) => self.index_of_variable(var).map(Given::Affine),
                Argument::Value(value) => {
                    let core = self.leave_lets(value, &mut lets);
                    *argument = Argument::Value(core);
                    let known = self.index_terms.remove(&core);
                    let refined = self.refined_of(*place);
                    match (&self.program.terms[core], refined) {
                        (Term::Number(Number::Index(a)), _) => Some(Given::Affine(a.clone())),
                        (_, Refined::Index(m)) => Some(Given::Found(m)),
                        _ => known.map(Given::Affine),
                    }
                }
                Argument::Function(_) => None,
            };
            let largest = |m: &Size| m.add_constant(-1);
            match &given {
                Some(Given::Affine(a)) => self.demand_index(*place, a, &extent)?,
                Some(Given::Found(m)) if *m == extent => {}
                Some(Given::Found(m)) => {
                    let largest = self.checked(at, largest(m))?;
                    self.demand_index(*place, &largest, &extent)?;
                }
                _ => {
                    let (span, n) = (self.span(*place), self.show(&extent));
                    let message = format!(
                        "`{}` takes an `index {n}` as `{}`, found another value",
                        definition.name.text, name.text
                    );
                    let help = "an index is made of indices, sizes, integers, maps and `argmax`; `let k : index n = ..` gives a name the type";
                    self.diagnose(Diagnostic::new("expected-index", span, message).help(help));
                    return None;
                }
            }
            found.push(given.unwrap_or(Given::Value));
        }
        Some((found, lets))
    }

    /// What is known of the variable of a parameter.
    pub(super) fn remember_argument(&mut self, var: VarId, given: Given) {
        match given {
            Given::Value => {}
            Given::Affine(affine) => {
                self.affine_of.insert(var, affine);
            }
            Given::Found(extent) => {
                self.refined.insert(var, Refined::Index(extent));
            }
        }
    }

    /// Binds the name of a `let` whose value is an index expression, or known to have a type. Nothing where it is a value like others.
    pub(super) fn bind_index(&mut self, at: ExprId) -> Option<()> {
        let Expr::Let { name, value: bound, body } = self.expr(at) else { return None };
        let value = self.values.last_term()?;
        let refined = match self.expr(*bound) {
            Expr::Typed { ty, .. } => self.refine(ty).unwrap_or(Refined::Any),
            _ => self.refined_of(*bound),
        };
        let is_trusted = matches!(self.expr(*bound), Expr::Typed { trusted: true, .. });
        if let (true, Term::Var(var)) = (is_trusted, &self.program.terms[value]) {
            let var = *var;
            self.values.pop();
            self.left_out = true;
            self.refined.entry(var).or_insert(refined);
            self.bind(&name.text, Binding::Var(var));
            self.tasks.push(Task::LetIndex(at, None, Vec::new()));
            self.tasks.push(Task::Value(*body));
            return Some(());
        }
        let mut core = value;
        while let Term::Let { body, .. } = &self.program.terms[core] {
            core = *body;
        }
        let known = self.index_terms.remove(&core);
        let affine = match &self.program.terms[core] {
            Term::Number(Number::Index(affine)) => Some(affine.clone()),
            Term::Number(Number::Literal(_)) => None,
            _ => known,
        };
        let Some(affine) = affine else {
            if refined == Refined::Any {
                return self.bind_size(at);
            }
            let var = self.program.fresh_var(&name.text, self.program.ty(value));
            self.refined.insert(var, refined);
            self.bind(&name.text, Binding::Var(var));
            self.tasks.push(Task::Let(at, Some(var)));
            self.tasks.push(Task::Value(*body));
            return Some(());
        };
        if affine.is_size() && refined == Refined::Any {
            return self.bind_size(at);
        }
        let mut lets = Vec::new();
        self.values.pop();
        let core = self.leave_lets(value, &mut lets);
        let var = self.program.fresh_var(&name.text, self.program.ty(core));
        self.affine_of.insert(var, affine);
        self.bind(&name.text, Binding::Var(var));
        self.tasks.push(Task::LetIndex(at, Some((var, core)), lets));
        self.tasks.push(Task::Value(*body));
        Some(())
    }

    /// Binds the name of a `let` whose value is made of sizes and integers: a number, and a size where one is expected.
    fn bind_size(&mut self, at: ExprId) -> Option<()> {
        let Expr::Let { name, value: bound, body } = self.expr(at) else { return None };
        let size = self.size_of_let(*bound)?;
        let value = self.pop_value()?;
        let var = self.program.fresh_var(&name.text, self.program.ty(value));
        self.size_of.insert(var, size);
        self.bind(&name.text, Binding::Var(var));
        self.tasks.push(Task::LetIndex(at, Some((var, value)), Vec::new()));
        self.tasks.push(Task::Value(*body));
        Some(())
    }

    /// Whether something reads the name of a `let` that stands for an index expression, or its name as a size.
    fn stands_for_index(&self, var: VarId) -> bool {
        self.affine_of.contains_key(&var) || self.read_as_sizes.contains(&var)
    }

    /// Leaves out parameters that stand for index expressions and are not read as numbers.
    pub(super) fn leave_out_indices(&mut self, lets: &mut Vec<(VarId, TermId)>) {
        let all = lets.len();
        lets.retain(|(var, _)| self.read_as_numbers.contains(var) || !self.affine_of.contains_key(var));
        self.left_out |= lets.len() < all;
    }

    /// A variable as the size that it is bound to.
    pub(super) fn variable_as_size(&mut self, var: VarId) -> Option<Size> {
        let size = self.size_of.get(&var).cloned()?;
        self.read_as_sizes.insert(var);
        Some(size)
    }

    /// The size that an expression is, if it is made of sizes and integers.
    fn size_of_let(&mut self, e: ExprId) -> Option<Size> {
        let mut stack = vec![e];
        for _ in 0..MAX_PARTS_OF_SIZE {
            let Some(e) = stack.pop() else { break };
            match self.expr(e) {
                Expr::Number { integer: Some(_), .. } => {}
                Expr::Name(name) => match self.peek(name) {
                    Meaning::Size(_) => {}
                    Meaning::Var(var) if self.size_of.contains_key(&var) => {}
                    _ => return None,
                },
                Expr::Unary(UnaryOp::Neg, a) => stack.push(*a),
                Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => stack.extend([*a, *b]),
                Expr::Binary(BinaryOp::FloorDiv | BinaryOp::Rem, a, b) if self.constant(*b).is_some_and(|b| b > 0) => {
                    stack.push(*a);
                }
                _ => return None,
            }
        }
        let size = linear(self.frame.source, e).ok().filter(|_| stack.is_empty())?;
        resolve(&size, &mut |part| self.size_part(part))?.ok()
    }

    /// The body is complete. A name that stands for an index expression is bound only where it is read as a number.
    pub(super) fn finish_let_index(
        &mut self,
        at: ExprId,
        bound: Option<(VarId, TermId)>,
        mut lets: Vec<(VarId, TermId)>,
    ) {
        let span = self.span(at);
        let Expr::Let { name, .. } = self.expr(at) else { return };
        self.scopes.unbind(&name.text);
        let body = self.values.pop();
        match bound {
            Some((var, _)) if !self.read_as_numbers.contains(&var) && self.stands_for_index(var) => {
                self.left_out = true
            }
            Some(bound) => lets.push(bound),
            None => {}
        }
        let item = body.and_then(|body| self.wrap_item(lets, body, span));
        self.values.push_item(item);
    }
}

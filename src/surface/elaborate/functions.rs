//! Functions as values. They exist while names get their meaning, and no term is one.
//!
//! ```text
//! (fn x : T. b)(e)                 ==  let x = e in b              as a call of a definition
//! (if c then f else g)(e)          ==  let x = e in if c then f(x) else g(x)
//! (let y = e in fn x. b)(a)        ==  let y = e in let x = a in b
//! fst (f, e)                       ==  f
//! ```
//!
//! An expression gives an [`Item`]: a term, or a value that holds a function. The parts of such a value are a [`Shape`]; what they use stands in `let`s
//! that go around the term in which the value is used. So an argument is evaluated once, whatever is made of it, and nothing is copied.
//!
//! *Scope is lexical.* A function keeps the bindings of the names in its text, and its body sees these and its parameters, nothing of its
//! caller. Variables and indices have identities, so none is captured by another of the same name. The scope of an index is left by numbers only: a
//! function is no element of a tensor, no term of a sum and no state.
//!
//! *No recursion.* A `let` is not in scope in its own value, a definition cannot be called in its own text, and parameters that are functions
//! say so in their types, which are finite. So every program that is read comes to an end.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::LazyLock;

use rustc_hash::FxHashSet;

use super::super::ast::{Expr, ExprId, Name, TypeExpr};
use super::calls::Definition;
use super::names::{Binding, Global, Meaning};
use super::sizes::check_parameters;
use super::stacks::{Argument, Stack};
use super::typings::{Typed, size_names};
use super::values::constant_named;
use super::{Elaborator, Frame, OpenGuard, Source, Task};
use crate::base::{Span, VarId, work};
use crate::error::Diagnostic;
use crate::index::{Pred, Size};
use crate::scalar::{Function, Primitive};
use crate::term::{Term, TermId};
use crate::ty::{Side, TypeId};

#[cfg(test)]
mod tests;

/// How much of a `fn` inside another is read for the names in it.
const MAX_NAMES_READ: usize = 256;

/// The name of a function that has none.
static ANONYMOUS: LazyLock<Name> = LazyLock::new(|| Name { text: "fn".to_owned(), span: Span::default() });

/// What an expression gives.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Term(TermId),
    Function(Held),
}

/// A value that holds a function.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) shape: ShapeId,
    /// What goes around the term in which it is used, outermost first.
    pub(super) lets: VecDeque<(VarId, TermId)>,
    pub(super) span: Span,
}

impl Held {
    pub(super) fn new(shape: ShapeId, span: Span) -> Self {
        Held { shape, lets: VecDeque::new(), span }
    }
}

/// A shape: they are kept in one list, since they refer to each other to any depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeId(usize);

/// A value that holds a function, or a part of one.
#[derive(Clone)]
pub(super) enum Shape<'a> {
    /// A part of a pair that holds no function.
    Value(VarId),
    Pair(ShapeId, ShapeId),
    /// A scalar function and its name.
    Scalar(Function, &'a str),
    Closure(Rc<Closure<'a>>),
    /// A function where the first predicate holds, and another where the second does.
    Choice(Rc<[Pred; 2]>, [ShapeId; 2]),
    Typed(Rc<Typed<'a>>),
}

/// A definition or a `fn`, with what is in scope where it stands.
pub(super) struct Closure<'a> {
    pub(super) def: usize,
    /// The `fn`; nothing for a definition.
    pub(super) at: Option<ExprId>,
    /// The bindings of the names in its text, by name.
    pub(super) scope: Vec<(&'a str, Binding)>,
    /// Where it stands.
    pub(super) frame: Frame<'a>,
}

/// What is known of a `fn` wherever its text is met again.
pub(super) struct Known<'a> {
    def: usize,
    /// The names in its text, sorted.
    names: Rc<[&'a str]>,
}

/// What an expression is for, where a function would be refused.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Any,
    /// The elements of a tensor.
    Tensor,
    /// What is added, compared and the like over an index.
    Total(&'static str),
    /// The state of a `fold` or `scan`.
    State(&'static str),
    Program,
}

/// A step of an application.
pub(super) enum FunctionTask<'a> {
    /// The arguments that are no variables are complete, and in front of them the function.
    Supply(Vec<Option<VarId>>),
    Apply(ShapeId, Vec<Argument>),
    /// The value of a function that has a declared type is complete.
    Conform(Rc<Typed<'a>>, Option<Stack>),
    /// The value is complete that needs these.
    Wrap(Vec<(VarId, TermId)>),
    /// The first branch is complete; the second one holds here.
    OtherBranch(Pred),
    Choose,
}

/// The values that are complete, nothing where a problem was reported.
#[derive(Default)]
pub(super) struct Values(Vec<Option<Item>>);

impl Values {
    pub(super) fn push(&mut self, value: Option<TermId>) {
        self.0.push(value.map(Item::Term));
    }

    pub(super) fn push_item(&mut self, item: Option<Item>) {
        self.0.push(item);
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        self.0.pop().flatten()
    }

    /// The last `n` in order.
    pub(super) fn take(&mut self, n: usize) -> Vec<Option<Item>> {
        self.0.split_off(self.0.len().saturating_sub(n))
    }

    /// The terms among them.
    pub(super) fn terms(&self) -> impl DoubleEndedIterator<Item = TermId> {
        self.0.iter().flatten().filter_map(|item| match item {
            Item::Term(term) => Some(*term),
            Item::Function(_) => None,
        })
    }

    pub(super) fn last_term(&self) -> Option<TermId> {
        match self.0.last() {
            Some(Some(Item::Term(term))) => Some(*term),
            _ => None,
        }
    }

    pub(super) fn last_function(&self) -> Option<ShapeId> {
        match self.0.last() {
            Some(Some(Item::Function(held))) => Some(held.shape),
            _ => None,
        }
    }
}

impl<'a> Elaborator<'a> {
    pub(super) fn function_step(&mut self, at: ExprId, task: FunctionTask<'a>) {
        match task {
            FunctionTask::Supply(variables) => self.finish_supply(at, variables),
            FunctionTask::Apply(function, args) => self.apply_function(at, function, args),
            FunctionTask::Conform(typed, stack) => self.finish_conform(at, &typed, stack),
            FunctionTask::Wrap(lets) => {
                let span = self.span(at);
                let item = self.values.pop();
                let item = item.and_then(|item| self.wrap_item(lets, item, span));
                self.values.push_item(item);
            }
            FunctionTask::OtherBranch(pred) => self.enter_other_branch(pred),
            FunctionTask::Choose => self.finish_branches(at, &[at, at]),
        }
    }

    pub(super) fn add_shape(&mut self, shape: Shape<'a>) -> ShapeId {
        work::charge(2);
        self.shapes.push(shape);
        ShapeId(self.shapes.len() - 1)
    }

    pub(super) fn shape(&self, shape: ShapeId) -> &Shape<'a> {
        &self.shapes[shape.0]
    }

    /// `fn x : T. e`, with the bindings that are in scope.
    pub(super) fn closure(&mut self, at: ExprId, params: &'a [(Name, TypeExpr)], body: ExprId) {
        let source = self.frame.source;
        let key = (std::ptr::from_ref(source) as usize, at);
        if !self.functions.contains_key(&key) {
            let problems = check_parameters(source, params, None);
            let sound = problems.is_ok();
            for mut problem in problems.err().unwrap_or_default() {
                problem.span = self.blame(problem.span);
                self.diagnose(problem);
            }
            let definition = Definition {
                source,
                name: &ANONYMOUS,
                params,
                result: None,
                body,
                sound,
                library: false,
                anonymous: true,
                expanded: 0,
            };
            self.definitions.push(definition);
            // The names of a `fn` around it are enough, and a long text is not read once for each `fn` in it.
            let outer = self.frame.function.and_then(|outer| self.functions.get(&(key.0, outer)));
            let limit = if outer.is_some() { MAX_NAMES_READ } else { usize::MAX };
            let names = match (names_in(source, params, body, limit), outer) {
                (None, Some(outer)) => outer.names.clone(),
                (names, _) => names.unwrap_or_default().into(),
            };
            self.functions.insert(key, Known { def: self.definitions.len() - 1, names });
        }
        let Some(Known { def, names }) = self.functions.get(&key) else { return };
        let (def, names) = (*def, names.clone());
        work::charge(names.len());
        let depth = self.depth();
        let found = names.iter().filter_map(|name| Some((*name, self.scopes.find(name, depth)?.clone())));
        let closure = Closure { def, at: Some(at), scope: found.collect(), frame: self.frame };
        let shape = self.add_shape(Shape::Closure(Rc::new(closure)));
        let span = self.span(at);
        self.values.push_item(Some(Item::Function(Held::new(shape, span))));
    }

    /// Gives a `fn` the name of the variable that it is bound to, for messages.
    pub(super) fn name_function(&mut self, shape: ShapeId, name: &'a Name) {
        if let Shape::Closure(closure) = self.shape(shape) {
            let def = closure.def;
            let definition = &mut self.definitions[def];
            if std::ptr::eq(definition.name, &raw const *ANONYMOUS) && !name.text.contains(' ') {
                definition.name = name;
            }
        }
    }

    /// What a name stands for as an expression.
    pub(super) fn name_item(&mut self, name: &'a str, at: ExprId) -> Option<Item> {
        let shape = match self.meaning(name) {
            Meaning::Function(shape) => shape,
            Meaning::Callable(Global::Definition(def)) => {
                if self.is_recursive(def, self.frame.call, at) {
                    return None;
                }
                let closure = Closure { def, at: None, scope: Vec::new(), frame: self.frame };
                self.add_shape(Shape::Closure(Rc::new(closure)))
            }
            Meaning::Callable(Global::Sum(param)) => {
                let span = self.span(at);
                return self.sum_value(param, span).map(Item::Term);
            }
            Meaning::Callable(Global::Function(f)) if self.is_external_value(f, at) => return None,
            Meaning::Callable(Global::Function(f)) => {
                self.add_shape(Shape::Scalar(Function::Value(Primitive::User(f)), name))
            }
            Meaning::Unknown if constant_named(name).is_none() => match self.scalar_function(name) {
                Some(function) => self.add_shape(Shape::Scalar(function, name)),
                None => return self.name_value(name, at).map(Item::Term),
            },
            _ => return self.name_value(name, at).map(Item::Term),
        };
        let span = self.span(at);
        Some(Item::Function(Held::new(shape, span)))
    }

    /// Puts `let`s around an item.
    pub(super) fn wrap_item(&mut self, lets: Vec<(VarId, TermId)>, item: Item, span: Span) -> Option<Item> {
        match item {
            Item::Term(term) => self.wrap_lets(lets, Some(term), span).map(Item::Term),
            Item::Function(mut held) => {
                lets.into_iter().rev().for_each(|bound| held.lets.push_front(bound));
                Some(Item::Function(held))
            }
        }
    }

    /// The shape of an item, with what it uses.
    fn shape_of(&mut self, item: Item, lets: &mut Vec<(VarId, TermId)>) -> ShapeId {
        let term = match item {
            Item::Function(held) => {
                lets.extend(held.lets);
                return held.shape;
            }
            Item::Term(term) => term,
        };
        let var = self.variable_for(term, "p", lets);
        self.add_shape(Shape::Value(var))
    }

    /// `(a, b)`
    pub(super) fn pair_of(&mut self, a: Item, b: Item, span: Span) -> Option<Item> {
        if let (Item::Term(a), Item::Term(b)) = (&a, &b) {
            return self.push(Term::Pair(*a, *b), span).map(Item::Term);
        }
        let mut lets = Vec::new();
        let a = self.shape_of(a, &mut lets);
        let b = self.shape_of(b, &mut lets);
        let shape = self.add_shape(Shape::Pair(a, b));
        Some(Item::Function(Held { shape, lets: lets.into(), span }))
    }

    /// A half of the value on top of the stack, where that holds a function.
    pub(super) fn project_function(&mut self, side: Side, span: Span) -> Option<Option<Item>> {
        self.values.last_function()?;
        let Some(Item::Function(held)) = self.values.pop() else { return Some(None) };
        let Shape::Pair(a, b) = *self.shape(held.shape) else {
            let word = if side == Side::Fst { "fst" } else { "snd" };
            self.report("expected-pair", span, format!("`{word}` takes a pair, found a function"));
            return Some(None);
        };
        let half = if side == Side::Fst { a } else { b };
        let item = match *self.shape(half) {
            Shape::Value(var) => self.push(Term::Var(var), span).map(Item::Term),
            _ => Some(Item::Function(Held::new(half, held.span))),
        };
        Some(item.and_then(|item| self.wrap_item(held.lets.into(), item, span)))
    }

    /// Applies the function on top of the stack, or what comes there next, to arguments.
    pub(super) fn supply(&mut self, at: ExprId, args: &[ExprId]) {
        let (variables, tasks) = self.arguments_of(args);
        self.tasks.push(Task::Function(at, FunctionTask::Supply(variables)));
        self.tasks.extend(tasks);
    }

    fn finish_supply(&mut self, at: ExprId, variables: Vec<Option<VarId>>) {
        let args = self.take_arguments(at, variables);
        match (self.values.pop(), args) {
            (Some(Item::Function(held)), Some(args)) => {
                self.wrap_later(at, held.lets.into());
                self.apply_function(at, held.shape, args);
            }
            (Some(Item::Term(value)), _) => {
                let span = self.span(at);
                let message =
                    format!("what is called here has type `{}`, not that of a function", self.program_type(value));
                let help = "a product needs its sign, as in `2 * (a + b)`";
                self.diagnose(Diagnostic::new("not-a-function", span, message).help(help));
                self.values.push(None);
            }
            _ => self.values.push(None),
        }
    }

    fn program_type(&self, value: TermId) -> String {
        self.show_type(self.program.ty(value))
    }

    /// Puts `let`s around the value that comes next.
    fn wrap_later(&mut self, at: ExprId, lets: Vec<(VarId, TermId)>) {
        if !lets.is_empty() {
            self.tasks.push(Task::Function(at, FunctionTask::Wrap(lets)));
        }
    }

    /// The arguments of a call. What those that are functions use goes around the value of the call.
    pub(super) fn take_arguments(&mut self, at: ExprId, variables: Vec<Option<VarId>>) -> Option<Vec<Argument>> {
        let computed = variables.iter().filter(|v| v.is_none()).count();
        let mut items = self.values.take(computed).into_iter();
        let mut lets = Vec::new();
        let mut args = Vec::with_capacity(variables.len());
        let places = variables.len();
        for var in variables {
            args.extend(match var {
                Some(var) => Some(Argument::Variable(var)),
                None => items.next().flatten().map(|item| match item {
                    Item::Term(value) => Argument::Value(value),
                    Item::Function(held) => {
                        lets.extend(held.lets);
                        Argument::Function(held.shape)
                    }
                }),
            });
        }
        self.wrap_later(at, lets);
        (args.len() == places).then_some(args)
    }

    /// The places of the arguments of a call.
    pub(super) fn places_of_arguments(&self, at: ExprId) -> &'a [ExprId] {
        match self.expr(at) {
            Expr::Call { args, .. } | Expr::Apply { args, .. } => args,
            _ => &[],
        }
    }

    fn apply_function(&mut self, at: ExprId, function: ShapeId, args: Vec<Argument>) {
        match self.shape(function).clone() {
            Shape::Scalar(function, name) => self.apply_scalar(at, function, name, &args),
            Shape::Closure(closure) => {
                if self.can_call(at, closure.def, closure.frame.call, args.len()) {
                    self.enter_definition(at, closure.def, Some(&closure), args, None);
                }
            }
            Shape::Typed(typed) => self.apply_typed(at, &typed, args),
            Shape::Choice(guards, branches) => self.apply_choice(at, &guards, branches, args),
            Shape::Value(_) | Shape::Pair(..) => {
                let span = self.span(at);
                let help = "its parts are `fst` and `snd`, or those of a pattern, `let (f, a) = ..`";
                let message = "what is called here is a pair, not a function";
                self.diagnose(Diagnostic::new("not-a-function", span, message).help(help));
                self.values.push(None);
            }
        }
    }

    /// The value of a variable; that of a sparse parameter has zeros where nothing is stored.
    fn variable(&mut self, var: VarId, span: Span) -> Option<TermId> {
        match self.sparse(var) {
            Some(_) => self.stored_elements(var, Vec::new(), span),
            None => self.push(Term::Var(var), span),
        }
    }

    fn apply_scalar(&mut self, at: ExprId, function: Function, name: &str, args: &[Argument]) {
        let span = self.span(at);
        let (Function::Value(primitive) | Function::Partial(primitive, _)) = function;
        if !self.takes(name, self.places(primitive), args.len(), span) {
            return;
        }
        let places = self.places_of_arguments(at);
        let mut values = Vec::with_capacity(args.len());
        for (argument, place) in args.iter().zip(places) {
            values.push(match *argument {
                Argument::Variable(var) => self.variable(var, span),
                Argument::Value(value) => Some(value),
                Argument::Function(shape) => {
                    let held = Held::new(shape, self.span(*place));
                    self.term_of(Some(Item::Function(held)), Place::Any)
                }
            });
        }
        let value =
            self.elementwise(values, places, name, span, |this, args| this.push(Term::Apply(function, args), span));
        self.values.push(value);
    }

    /// Each branch is applied where it is taken.
    fn apply_choice(&mut self, at: ExprId, guards: &[Pred; 2], branches: [ShapeId; 2], mut args: Vec<Argument>) {
        let span = self.span(at);
        let mut lets = Vec::new();
        for argument in &mut args {
            if let Argument::Value(value) = *argument {
                let var = self.program.fresh_var("a", self.program.ty(value));
                lets.push((var, value));
                *argument = Argument::Variable(var);
            }
        }
        let [p, q] = guards;
        let Some((p, q)) = self.rebound(p, span).zip(self.rebound(q, span)) else {
            self.values.push(None);
            return;
        };
        self.wrap_later(at, lets);
        self.enter_branch(p);
        let [first, second] = branches;
        let apply = |function, args| Task::Function(at, FunctionTask::Apply(function, args));
        self.tasks.push(Task::Function(at, FunctionTask::Choose));
        self.tasks.push(apply(second, args.clone()));
        self.tasks.push(Task::Function(at, FunctionTask::OtherBranch(q)));
        self.tasks.push(apply(first, args));
    }

    /// A predicate with names of its own for the indices that it binds.
    fn rebound(&mut self, p: &Pred, span: Span) -> Option<Pred> {
        let indices = &mut self.program.indices;
        let rebound = p.rebind(&mut |i| indices.push(indices[i].clone()));
        if let Err(overflow) = &rebound {
            self.report("overflow", span, overflow.to_string());
        }
        rebound.ok()
    }

    /// `if p then a else b`, where one of them holds a function. What they use is needed where they are taken only.
    pub(super) fn choose_functions(
        &mut self,
        branches: [Item; 2],
        first: OpenGuard,
        opposite: Option<Pred>,
        at: &[ExprId],
        span: Span,
    ) -> Option<Item> {
        let OpenGuard { pred, hoisted, axes, .. } = first;
        let one = axes.is_none() && hoisted.quotients.is_empty();
        let mut lets = hoisted.lets.clone();
        if !one {
            self.wrap(hoisted, None, span);
            let what = if axes.is_some() { "compares tensors" } else { "asks for a quotient of indices" };
            let message = format!("a condition that {what} chooses between numbers only, found functions");
            let help = "apply them first: `if c then f(a) else g(a)`";
            self.diagnose(Diagnostic::new("function-choice", span, message).help(help));
            return None;
        }
        let guards = [pred?, opposite?];
        let mut shapes = Vec::with_capacity(2);
        for (item, guard) in branches.into_iter().zip(&guards) {
            let mut used = Vec::new();
            shapes.push(self.shape_of(item, &mut used));
            for (var, value) in used {
                let guard = self.rebound(guard, span)?;
                lets.push((var, self.push(Term::Iverson { guard, body: value }, span)?));
            }
        }
        let shape = self.choose_shapes(<[ShapeId; 2]>::try_from(shapes).ok()?, guards, &mut lets, at, span)?;
        Some(Item::Function(Held { shape, lets: lets.into(), span }))
    }

    /// A choice for each function in two values of one form, and the chosen numbers and tensors.
    fn choose_shapes(
        &mut self,
        [a, b]: [ShapeId; 2],
        guards: [Pred; 2],
        lets: &mut Vec<(VarId, TermId)>,
        at: &[ExprId],
        span: Span,
    ) -> Option<ShapeId> {
        enum Step {
            Choose(ShapeId, ShapeId),
            Pair,
        }
        let guards = Rc::new(guards);
        let mut steps = vec![Step::Choose(a, b)];
        let mut done: Vec<ShapeId> = Vec::new();
        while let Some(step) = steps.pop() {
            let shape = match step {
                Step::Pair => {
                    let (b, a) = (done.pop()?, done.pop()?);
                    Shape::Pair(a, b)
                }
                Step::Choose(a, b) => match (self.shape(a), self.shape(b)) {
                    (Shape::Pair(a, b), Shape::Pair(c, d)) => {
                        steps.extend([Step::Pair, Step::Choose(*b, *d), Step::Choose(*a, *c)]);
                        continue;
                    }
                    (Shape::Value(v), Shape::Value(w)) => {
                        let (v, w) = (*v, *w);
                        let values = [self.push(Term::Var(v), span)?, self.push(Term::Var(w), span)?];
                        let guards = [self.rebound(&guards[0], span)?, self.rebound(&guards[1], span)?];
                        let value = self.selected(values, guards, &None, at, span)?;
                        let var = self.program.fresh_var("p", self.program.ty(value));
                        lets.push((var, value));
                        Shape::Value(var)
                    }
                    (Shape::Value(_) | Shape::Pair(..), _) | (_, Shape::Value(_) | Shape::Pair(..)) => {
                        let message = "both sides of a choice are functions, or pairs of one form, found others";
                        self.report("function-choice", span, message);
                        return None;
                    }
                    _ => Shape::Choice(guards.clone(), [a, b]),
                },
            };
            let shape = self.add_shape(shape);
            done.push(shape);
        }
        done.pop()
    }

    /// The term that an item is; a function is reported.
    pub(super) fn term_of(&mut self, item: Option<Item>, place: Place) -> Option<TermId> {
        let held = match item? {
            Item::Term(term) => return Some(term),
            Item::Function(held) => held,
        };
        let name = self.function_name(held.shape).map(str::to_owned);
        let is_pair = matches!(self.shape(held.shape), Shape::Pair(..));
        let found = if is_pair { "a pair with a function" } else { "a function" };
        let (message, help) = match place {
            Place::Any => match name {
                Some(name) => {
                    (format!("a value is expected, but `{name}` is a function"), format!("call it: `{name}(..)`"))
                }
                None if is_pair => (
                    format!("a value is expected, found {found}"),
                    "its parts are `fst` and `snd`, or those of a pattern, `let (f, a) = ..`".to_owned(),
                ),
                None => (
                    format!("a value is expected, found {found}"),
                    "call it, as in `(fn x. x^2)(3)`, or bind it by `let f = fn x. x^2`".to_owned(),
                ),
            },
            Place::Tensor => (
                format!("the elements of a tensor are numbers and pairs of these, found {found}"),
                "apply it in the body, as in `gen i < n. f(x[i])`".to_owned(),
            ),
            Place::Total(word) => (
                format!("`{word}` takes numbers, found {found}"),
                format!("apply it in the body, as in `{word} i < n. f(x[i])`"),
            ),
            Place::State(word) => (
                format!("the state of a `{word}` is a number, a tensor or a pair of these, found {found}"),
                format!("a function that all steps share is bound in front of the `{word}`: `let f = fn x. e`"),
            ),
            Place::Program => (
                format!("the value of a program is a number, a tensor or a pair of these, found {found}"),
                "what it takes is a parameter of the program: `param x : real`, and then the value is `f(x)`"
                    .to_owned(),
            ),
        };
        self.diagnose(Diagnostic::new("not-a-value", held.span, message).help(help));
        None
    }

    fn function_name(&self, shape: ShapeId) -> Option<&str> {
        match self.shape(shape) {
            Shape::Scalar(_, name) => Some(name),
            Shape::Closure(closure) => {
                let name = self.definitions[closure.def].name;
                (!std::ptr::eq(name, &raw const *ANONYMOUS)).then_some(name.text.as_str())
            }
            Shape::Typed(typed) => Some(typed.name),
            Shape::Choice(..) | Shape::Value(_) | Shape::Pair(..) => None,
        }
    }

    /// The name that an expression is, where it is a parameter of the `fn` around it that is written without a type.
    pub(super) fn untyped_parameter(&self, e: ExprId) -> Option<&'a str> {
        let (Expr::Name(name), Expr::Function { params, .. }) = (self.expr(e), self.expr(self.frame.function?)) else {
            return None;
        };
        let is_untyped = |(param, ty): &(Name, TypeExpr)| param.text == *name && ty.span == param.span;
        params.iter().any(is_untyped).then_some(name)
    }

    /// What a name that can be called is.
    pub(super) fn noun_of(&self, name: &str) -> &'static str {
        match (self.local_function(name), self.globals.get(name)) {
            (None, Some(global)) => global.noun(),
            _ => "a function",
        }
    }

    /// The sizes in the parameter types of a `fn` that are in scope where it stands.
    pub(super) fn known_sizes(&self, closure: &Closure<'a>) -> BTreeMap<&'a str, Size> {
        let definition = &self.definitions[closure.def];
        let mut names = Vec::new();
        if definition.anonymous {
            definition.params.iter().for_each(|(_, ty)| size_names(definition.source, ty, &mut names));
        }
        names.into_iter().filter_map(|name| Some((name, self.size_in(closure, name)?))).collect()
    }

    /// What a size means in the text of a `fn`.
    pub(super) fn size_in(&self, closure: &Closure<'a>, name: &str) -> Option<Size> {
        match closure.scope.binary_search_by_key(&name, |(name, _)| *name) {
            Ok(at) => match &closure.scope[at].1 {
                Binding::Size(size) => Some(size.clone()),
                _ => None,
            },
            Err(_) => match self.globals.get(name) {
                Some(Global::Size(size)) => Some(Size::size(*size)),
                _ => None,
            },
        }
    }

    /// The definition in whose text a size stands that is one of a function's type alone, and is not known.
    pub(super) fn open_size(&self, name: &str) -> Option<&'a str> {
        let (def, _) = self.calls.get(self.frame.call?)?;
        let definition = &self.definitions[*def];
        let mut names = Vec::new();
        definition.params.iter().for_each(|(_, ty)| size_names(definition.source, ty, &mut names));
        names.contains(&name).then_some(definition.name.text.as_str())
    }

    /// The type of a variable.
    pub(super) fn type_of(&self, var: VarId) -> TypeId {
        self.program.variables[var].ty
    }
}

/// The names in a function, those of sizes in types too, sorted; nothing if it is longer than the limit. More names than it uses do no harm.
fn names_in<'a>(
    source: &'a Source<'a>,
    params: &'a [(Name, TypeExpr)],
    body: ExprId,
    limit: usize,
) -> Option<Vec<&'a str>> {
    let mut names: Vec<&str> = Vec::new();
    params.iter().for_each(|(_, ty)| size_names(source, ty, &mut names));
    let mut stack = vec![body];
    let mut seen = FxHashSet::default();
    while let Some(e) = stack.pop() {
        work::charge(2);
        if !seen.insert(e) {
            continue;
        }
        if seen.len() > limit {
            return None;
        }
        let expr = &source.ast.exprs[e];
        match expr {
            Expr::Name(name) => {
                names.push(name);
                // `A'`
                names.extend(name.strip_suffix('\''));
            }
            Expr::Call { callee, .. } => names.push(&callee.text),
            Expr::Function { params, .. } => params.iter().for_each(|(_, ty)| size_names(source, ty, &mut names)),
            Expr::Typed { ty, .. } => size_names(source, ty, &mut names),
            _ => {}
        }
        expr.for_each_operand(|e| stack.push(e));
    }
    names.sort_unstable();
    names.dedup();
    Some(names)
}

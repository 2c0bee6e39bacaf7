//! Calls: scalar functions, and definitions, which are expanded.
//!
//! ```text
//! f(e, ..)  ==  let a = e in .. body        with the sizes of f bound by the types of the arguments
//! ```
//!
//! The body sees its parameters, its sizes and the declarations, nothing of the caller. An argument that is a variable is not bound
//! again.

use std::collections::BTreeMap;

use super::super::ast::{Expr, ExprId, Name, TypeExpr, TypeKind};
use super::functions::{Closure, Held, Item};
use super::names::{Binding, Global, Meaning, closest};
use super::predicates::is_comparison;
use super::sizes::show_formal;
use super::stacks::{Argument, Formals, Stack};
use super::text::count;
use super::typings::{Actual, Typing};
use super::{Elaborator, Frame, Source, Task};
use crate::base::{Span, VarId, work};
use crate::error::Diagnostic;
use crate::foreign;
use crate::index::Size;
use crate::scalar::names::{builtin, partial};
use crate::scalar::{Function, Op, Primitive};
use crate::term::{Term, TermId};

/// A `def`.
#[derive(Clone, Copy)]
pub(super) struct Definition<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) name: &'a Name,
    pub(super) params: &'a [(Name, TypeExpr)],
    pub(super) result: Option<&'a TypeExpr>,
    pub(super) body: ExprId,
    /// Whether its parameter types are sound.
    pub(super) sound: bool,
    /// Whether its text is that of the library.
    pub(super) library: bool,
    /// Whether it is a `fn`.
    pub(super) anonymous: bool,
    /// How often it has been expanded.
    pub(super) expanded: usize,
}

/// The names that calls have besides those of [`builtin`].
pub(super) const SPECIAL: [&str; 4] = ["min", "max", "select", "real"];

impl<'a> Elaborator<'a> {
    /// Whether a name can be called.
    pub(super) fn is_callable(&self, name: &str) -> bool {
        Op::from_name(synonym(name)).is_some()
            || name == "mean"
            || SPECIAL.contains(&name)
            || self.globals.contains_key(name)
    }

    /// Whether a name is that of a function.
    pub(super) fn is_function(&self, name: &str) -> bool {
        match self.peek(name) {
            Meaning::Function(_) | Meaning::Callable(Global::Function(_) | Global::Definition(_)) => true,
            Meaning::Unknown => self.is_callable(name),
            _ => false,
        }
    }

    /// Reports a callee that means nothing.
    pub(super) fn unknown_callee(&mut self, name: &str, span: Span) {
        if self.frame.source.ast.unread.contains(name) {
            return self.fail();
        }
        if let Some(help) = self.derivative_meant(name) {
            return self.unknown_callee_with(name, span, &help);
        }
        let builtin: Vec<String> = Op::all().iter().map(|op| op.name().into_owned()).collect();
        let candidates = builtin.iter().map(String::as_str).chain(SPECIAL).chain(self.globals.keys().copied());
        let close = closest(name, candidates).map(str::to_owned);
        match (foreign::function(name), close) {
            (Some(help), _) => self.unknown_callee_with(name, span, help),
            (None, Some(close)) => self.unknown_callee_with(name, span, &format!("did you mean `{close}`?")),
            (None, None) => {
                let help = format!(
                    "functions are declared as in `def {name}(a : real) = ..`, relations as in `rel {name} : [n, n]`"
                );
                self.unknown_callee_with(name, span, &help);
            }
        }
    }

    /// What to write instead of `f'`, where there is a function `f`.
    fn derivative_meant(&self, name: &str) -> Option<String> {
        let (base, _) = name.split_once('\'')?;
        let outside = foreign::function("derivative").unwrap_or_default();
        if Op::from_name(synonym(base)).is_some() || matches!(self.peek(base), Meaning::Callable(Global::Function(_))) {
            return Some(format!("the partial derivative by the first argument is `{base}'0(..)`; {outside}"));
        }
        self.is_function(base)
            .then(|| format!("{outside}; inside of one it is written out, as in `def {name}(x : real) = ..`"))
    }

    /// Reports a callee that means nothing, with what to write instead.
    fn unknown_callee_with(&mut self, name: &str, span: Span, help: &str) {
        let message = format!("there is no function or relation `{name}`");
        let help = if self.is_beside_operator(span) { foreign::as_operand(help) } else { help.to_owned() };
        self.diagnose(Diagnostic::new("unknown-name", span, message).help(help));
    }

    /// Whether the call whose name stands at a place is an operand of an operator.
    fn is_beside_operator(&self, name: Span) -> bool {
        let ast = self.frame.source.ast;
        work::charge(ast.exprs.len());
        let is_call = |e: &ExprId| matches!(ast.exprs.get(*e), Some(Expr::Call { callee, .. }) if callee.span == name);
        ast.exprs.iter().any(|(_, e)| match e {
            Expr::Binary(op, a, b) => !is_comparison(*op) && (is_call(a) || is_call(b)),
            Expr::Unary(_, a) => is_call(a),
            Expr::Access { array, .. } => is_call(array),
            _ => false,
        })
    }

    /// A call that should give a value.
    pub(super) fn call(&mut self, at: ExprId, callee: &'a Name, args: &'a [ExprId]) {
        let name = callee.text.as_str();
        let span = self.span(at);
        if let Some(param) = name.strip_suffix(".value") {
            self.stored_value(at, param, args, span);
            return;
        }
        if self.goes_along_axis(at, name, args) {
            return;
        }
        if self.local_function(name).is_none() && !self.globals.contains_key(name) && self.makes_array(at, name, args) {
            return;
        }
        if self.has_named_argument(name, args) {
            self.values.push(None);
            return;
        }
        if let Some(shape) = self.local_function(name) {
            self.values.push_item(Some(Item::Function(Held::new(shape, self.blame(callee.span)))));
            self.supply(at, args);
            return;
        }
        match (name, self.global_called(name)) {
            ("select", _) => self.enter_select(at, args, span),
            ("real", _) => {
                if self.arity(name, 1, args, span) {
                    self.index_value(args[0]);
                }
            }
            ("sum", _) | ("mean", None) => self.total(at, name, args),
            ("argmax" | "argmin", _) => {
                if self.arity(name, 1, args, span) {
                    self.index_value(at);
                }
            }
            ("min" | "max", _) if args.len() == 1 => self.total(at, name, args),
            ("min" | "max", _) => {
                if args.len() < 2 {
                    let message = format!("`{name}` takes at least 2 arguments, found {}", args.len());
                    self.diagnose(
                        Diagnostic::new("wrong-arity", span, message)
                            .help(format!("over an index it is written `{name} i < n. e`")),
                    );
                    self.values.push(None);
                    return;
                }
                let op = if name == "min" { Op::Min } else { Op::Max };
                self.tasks.push(Task::Fold(at, op, args.len()));
                self.tasks.extend(args.iter().rev().map(|a| Task::Value(*a)));
            }
            (_, Some(Global::Map(_))) => self.index_value(at),
            (_, Some(Global::Constructor(ty, constructor))) => self.construct(at, (ty, constructor), args),
            (_, Some(Global::Function(f))) if self.enter_external(at, f, args) => {}
            (_, Some(Global::Function(f))) => {
                if self.arity(name, self.places(Primitive::User(f)), args, span) {
                    self.apply(at, Function::Value(Primitive::User(f)), args);
                }
            }
            (_, Some(Global::Definition(def))) => self.call_definition(at, def, args, None),
            (_, Some(Global::Relation(_))) => self.predicate_as_value(at),
            _ if name.ends_with('?') => self.predicate_as_value(at),
            (_, Some(Global::Error)) => {
                self.fail();
                self.values.push(None);
            }
            _ => match self.scalar_function(name) {
                Some(function) => {
                    let (Function::Value(primitive) | Function::Partial(primitive, _)) = function;
                    if self.arity(name, self.places(primitive), args, span) {
                        self.apply(at, function, args);
                    }
                }
                None => {
                    self.not_callable(name, args, self.blame(callee.span));
                    self.values.push(None);
                }
            },
        }
    }

    /// What a declaration means by the name of a callee. A definition that takes the place of a built-in function leaves the library as it is.
    fn global_called(&self, name: &str) -> Option<Global> {
        let global = self.globals.get(name).copied()?;
        match global {
            Global::Definition(def) if self.frame.blame.is_some() && !self.definitions[def].library => {
                builtin(synonym(name)).is_none().then_some(global)
            }
            global => Some(global),
        }
    }

    /// `select(p, a, b)`
    fn enter_select(&mut self, at: ExprId, args: &[ExprId], span: Span) {
        if self.arity("select", 3, args, span) {
            self.enter_anchor();
            self.tasks.push(Task::Select(at));
            self.tasks.push(Task::Value(args[2]));
            self.tasks.push(Task::SelectElse(at));
            self.tasks.push(Task::Value(args[1]));
            self.tasks.push(Task::EnterGuard);
            self.tasks.push(Task::Pred(args[0]));
        }
    }

    /// Reports an argument with a name, `axis = 1`, which is a comparison with something unknown.
    fn has_named_argument(&mut self, function: &str, args: &[ExprId]) -> bool {
        let named = args.iter().filter(|arg| self.is_named(**arg)).find_map(|arg| match self.expr(*arg) {
            Expr::Binary(_, name, _) => match self.expr(*name) {
                Expr::Name(name) => Some((*arg, name)),
                _ => None,
            },
            _ => None,
        });
        // What is said of an axis that is kept is said of the axis, too.
        let named = args.iter().rev().find_map(|arg| self.kept_axis(*arg)).or(named);
        let Some((at, name)) = named.filter(|_| !matches!(function, "select" | "real")) else { return false };
        let tensor = match args.first().map(|first| self.expr(*first)) {
            Some(Expr::Name(name)) => name.as_str(),
            _ => "A",
        };
        let axes = self.literal_integers(at);
        let help = match foreign::argument(name, function, tensor, &axes) {
            _ if Op::from_name(synonym(function)).is_some() && !SPECIAL.contains(&function) => {
                format!("it is of numbers, and of a tensor that of each element: `{function}({tensor})`")
            }
            Some(help) => help,
            None => foreign::function(function)
                .map_or_else(|| format!("arguments stand in order, as in `{function}(a, b)`"), str::to_owned),
        };
        let message = match name.as_str() {
            "axis" | "axes" | "dim" | "dims" | "keepdims" | "keepdim" => {
                format!("an argument is expected, found `{name} = ..`")
            }
            _ => format!("an argument is expected, found `{name} = ..`: `axis` and `keepdims` alone have names"),
        };
        let span = self.span(at);
        self.diagnose(Diagnostic::new("named-argument", span, message).help(help));
        true
    }

    /// The integers that an argument with a name gives, `axis = 1`, `axis = (0, 1)` and `axis = [0, 1]`.
    pub(super) fn literal_integers(&self, arg: ExprId) -> Vec<i64> {
        let (mut found, mut rest) = (Vec::new(), Some(arg));
        if let Expr::Binary(_, _, value) = self.expr(arg) {
            rest = Some(*value);
            if let Some(items) = self.items_of_vector(*value) {
                return items.into_iter().filter_map(|item| self.constant(item)).collect();
            }
        }
        while let Some(e) = rest.take() {
            let integer = match self.expr(e) {
                Expr::Pair(first, others) => {
                    rest = Some(*others);
                    self.constant(*first)
                }
                _ => self.constant(e),
            };
            found.extend(integer);
        }
        found
    }

    /// The argument `keepdims = ..` and its name.
    fn kept_axis(&self, arg: ExprId) -> Option<(ExprId, &'a String)> {
        let Expr::Binary(_, name, _) = self.expr(arg) else { return None };
        match self.expr(*name) {
            Expr::Name(name) if matches!(name.as_str(), "keepdims" | "keepdim") => Some((arg, name)),
            _ => None,
        }
    }

    /// The number of arguments of a scalar function.
    pub(super) fn places(&self, primitive: Primitive) -> usize {
        usize::from(match primitive {
            Primitive::Op(op) => op.arity(),
            Primitive::User(f) => self.program.signature.functions.get(f).map_or(0, |f| f.arity()),
        })
    }

    /// The scalar function that a name means which is not declared.
    pub(super) fn scalar_function(&mut self, name: &'a str) -> Option<Function> {
        if let Some(function) = self.ops.get(name) {
            return *function;
        }
        let user = name.rsplit_once('\'').and_then(|(base, at)| match self.globals.get(base) {
            Some(Global::Function(f)) => partial(Primitive::User(*f), self.places(Primitive::User(*f)), at),
            _ => None,
        });
        let function = user.or_else(|| builtin(synonym(name)));
        self.ops.insert(name, function);
        function
    }

    fn not_callable(&mut self, name: &str, args: &[ExprId], span: Span) {
        match self.peek(name) {
            Meaning::Unknown => match self.joined(name, args) {
                Some(help) => self.unknown_callee_with(name, span, &help),
                None => self.unknown_callee(name, span),
            },
            Meaning::Error => self.fail(),
            _ => {
                let message = format!("`{name}` is not a function");
                let help = if args.len() == 1 {
                    format!("an element is written `{name}[i]`, a product `{name} * (..)`")
                } else {
                    format!("an element is written `{name}[i, ..]`")
                };
                self.diagnose(Diagnostic::new("not-a-function", span, message).help(help));
            }
        }
    }

    /// Whether a call has the right number of arguments; if not its value is missing.
    fn arity(&mut self, name: &str, places: usize, args: &[ExprId], span: Span) -> bool {
        self.takes(name, places, args.len(), span)
    }

    /// Whether a function takes so many arguments; if not the value of its call is missing.
    pub(super) fn takes(&mut self, name: &str, places: usize, found: usize, span: Span) -> bool {
        let help = (name == "select").then(|| "`select(p, a, b)` is `a` where `p` holds and `b` elsewhere".to_owned());
        self.takes_or(name, places, found, span, help)
    }

    fn takes_or(&mut self, name: &str, places: usize, found: usize, span: Span, help: Option<String>) -> bool {
        if found == places {
            return true;
        }
        let takes = count(places, "argument", "arguments");
        let mut diagnostic = Diagnostic::new("wrong-arity", span, format!("`{name}` takes {takes}, found {found}"));
        diagnostic.help = help.or(diagnostic.help);
        self.diagnose(diagnostic);
        self.values.push(None);
        false
    }

    fn apply(&mut self, at: ExprId, function: Function, args: &[ExprId]) {
        self.tasks.push(Task::Apply(at, function, args.len()));
        self.tasks.extend(args.iter().rev().map(|a| Task::Value(*a)));
    }

    /// All of these values as numbers, nothing if one is not. The first that is none is reported: the others are often wrong in
    /// the same way.
    pub(super) fn reals(&mut self, values: Vec<Option<TermId>>, at: &[ExprId], what: &str) -> Option<Vec<TermId>> {
        let complete = values.iter().all(Option::is_some);
        let mut reals = Vec::with_capacity(values.len());
        for (value, at) in values.into_iter().zip(at) {
            if value.is_some() {
                reals.push(self.real(value, *at, what)?);
            }
        }
        complete.then_some(reals)
    }

    pub(super) fn finish_apply(&mut self, at: ExprId, function: Function, n: usize) {
        let span = self.span(at);
        let values = self.pop_values(n);
        let Expr::Call { callee, args } = self.expr(at) else { return };
        let value = self
            .elementwise(values, args, &callee.text, span, |this, args| this.push(Term::Apply(function, args), span));
        self.values.push(value);
    }

    /// `max(max(a, b), c)`
    pub(super) fn finish_fold(&mut self, at: ExprId, op: Op, n: usize) {
        let span = self.span(at);
        let values = self.pop_values(n);
        let Expr::Call { callee, args } = self.expr(at) else { return };
        let value = self.elementwise(values, args, &callee.text, span, |this, args| {
            let (first, rest) = args.split_first()?;
            rest.iter().try_fold(*first, |a, b| this.push(Term::Apply(Function::from(op), vec![a, *b]), span))
        });
        self.values.push(value);
    }

    /// `A.value(i, j)`
    fn stored_value(&mut self, at: ExprId, param: &str, args: &'a [ExprId], span: Span) {
        let var = match self.globals.get(param) {
            Some(Global::Param(var)) => Some(*var).filter(|v| self.sparse(*v).is_some()),
            _ => None,
        };
        let Some(var) = var else {
            match self.globals.get(param) {
                Some(Global::Error) => self.fail(),
                Some(Global::Param(_)) => self.diagnose(
                    Diagnostic::new("no-pattern", span, format!("`{param}` is stored dense and has no pattern"))
                        .help(format!("an element is written `{param}[i, j]`")),
                ),
                _ => self.report("no-pattern", span, format!("there is no sparse parameter `{param}`")),
            }
            self.values.push(None);
            return;
        };
        let rank = self.program.types.peel(self.program.variables[var].ty).0.len();
        if self.arity(&format!("{param}.value"), rank, args, span) {
            self.enter_anchor();
            self.tasks.push(Task::StoredAccess(at, var, args.len()));
            self.tasks.extend(args.iter().rev().map(|a| Task::Index(*a)));
        }
    }

    /// Calls a definition, along an axis of its first argument where one is given.
    pub(super) fn call_definition(&mut self, at: ExprId, def: usize, args: &'a [ExprId], along: Option<i64>) {
        let site = self.frame.call;
        if self.can_call(at, def, site, args.len()) {
            let variables = self.arguments_of(args);
            self.tasks.push(Task::Expand { at, def, args: variables.0, along });
            let params = self.definitions[def].params;
            let is_index = |e: ExprId| {
                let at = args.iter().position(|arg| *arg == e);
                at.and_then(|at| params.get(at)).is_some_and(|(_, ty)| matches!(ty.kind, TypeKind::Index(_)))
            };
            self.tasks.extend(variables.1.into_iter().map(|task| match task {
                Task::Value(e) if is_index(e) => Task::IndexArgument(e),
                task => task,
            }));
        }
    }

    /// Whether a definition can be called with so many arguments from a text that stands in a call; if not the value is missing.
    pub(super) fn can_call(&mut self, at: ExprId, def: usize, site: Option<usize>, found: usize) -> bool {
        let span = self.span(at);
        let Definition { name, params, sound, anonymous, source, body, .. } = self.definitions[def];
        if !anonymous && self.is_recursive(def, site, at) {
            self.values.push(None);
            return false;
        }
        if !sound {
            self.fail();
            self.values.push(None);
            return false;
        }
        let name = name.text.as_str();
        let curried = found > params.len() && matches!(source.ast.exprs[body], Expr::Function { .. });
        let help = match params {
            _ if found == params.len() => None,
            _ if curried => Some(format!("it gives a function, which takes the others: `{name}(..)(..)`")),
            [(param, _)] if anonymous && param.text.starts_with('(') => {
                Some("its parameter is a pair; a function of two is `fn a, b. e`".to_owned())
            }
            _ if anonymous => None,
            _ => Some(self.declared_as(def)),
        };
        let help = help.map(|help| match (foreign::with_order(name), self.axis_without_name(at, def)) {
            (Some(others), _) if found > params.len() => others.to_owned(),
            (_, Some(with_name)) => with_name,
            _ => help,
        });
        self.takes_or(name, params.len(), found, span, help)
    }

    /// What to write instead of `softmax(A, 0)`: a definition of one vector, called with a tensor and an axis.
    fn axis_without_name(&self, at: ExprId, def: usize) -> Option<String> {
        let Expr::Call { callee, args } = self.expr(at) else { return None };
        let ([(_, ty)], [tensor, axis]) = (self.definitions[def].params, args.as_slice()) else { return None };
        let axis = self.constant(*axis).filter(|_| matches!(ty.kind, TypeKind::Tensor(..)))?;
        let tensor = match self.expr(*tensor) {
            Expr::Name(name) => name.as_str(),
            _ => "..",
        };
        Some(format!("an axis has its name, and is counted from 0: `{}({tensor}, axis = {axis})`", callee.text))
    }

    /// Whether a definition is called in its own text, which is reported.
    pub(super) fn is_recursive(&mut self, def: usize, site: Option<usize>, at: ExprId) -> bool {
        let recursive = self.is_inside(def, site);
        if recursive {
            let span = self.span(at);
            let message = format!("`{}` calls itself", self.definitions[def].name.text);
            let help = "definitions are expanded where they are called; what goes from step to step is a `fold`";
            self.diagnose(Diagnostic::new("recursion", span, message).help(help));
        }
        recursive
    }

    /// Whether a call stands in the text of a definition, or in that of one which is called there, and so on.
    fn is_inside(&self, def: usize, mut call: Option<usize>) -> bool {
        if self.definitions[def].expanded == 0 {
            return false;
        }
        while let Some((other, outer)) = call.and_then(|call| self.calls.get(call)) {
            work::charge(1);
            if *other == def {
                return true;
            }
            call = *outer;
        }
        false
    }

    /// The arguments that are variables, so that a sparse parameter stays sparse in what is called, and what the others take.
    pub(super) fn arguments_of(&mut self, args: &[ExprId]) -> (Vec<Option<VarId>>, Vec<Task<'a>>) {
        let variables: Vec<Option<VarId>> = args.iter().map(|a| self.as_variable(*a)).collect();
        self.read_as_numbers.extend(variables.iter().flatten());
        let computed = args.iter().zip(&variables).rev().filter(|(_, v)| v.is_none());
        let tasks = computed.map(|(a, _)| Task::Value(*a)).collect();
        (variables, tasks)
    }

    /// The arguments are values; the body comes next.
    pub(super) fn expand(&mut self, at: ExprId, def: usize, args: Vec<Option<VarId>>, along: Option<i64>) {
        match self.take_arguments(at, args) {
            Some(args) => self.enter_definition(at, def, None, args, along),
            None => self.values.push(None),
        }
    }

    /// Goes on with the body of a definition or of a `fn`, which sees what is in scope where it stands.
    pub(super) fn enter_definition(
        &mut self,
        at: ExprId,
        def: usize,
        closure: Option<&Closure<'a>>,
        mut args: Vec<Argument>,
        along: Option<i64>,
    ) {
        let definition = self.definitions[def];
        let Definition { source, name, params, result, body, library, anonymous, .. } = definition;
        let formals = Formals { name: &name.text, source, params: params.iter().map(|(_, ty)| ty).collect(), result };
        let known = closure.map_or_else(BTreeMap::new, |closure| self.known_sizes(closure));
        let stack = match along {
            Some(axis) => self.stack_along(at, axis, &mut args).map(Some),
            None => self.stack(at, &formals, &mut args),
        };
        let Some((stack, sizes)) =
            stack.and_then(|stack| Some((stack, self.argument_sizes(at, &definition, &args, known)?)))
        else {
            self.values.push(None);
            return;
        };
        let Some((found, around)) = self.index_arguments(at, &definition, &mut args, &sizes) else {
            self.values.push(None);
            return;
        };
        let span = self.span(at);
        self.warn_of_empty(def, &sizes, span);
        self.definitions[def].expanded += 1;
        self.expansions += 1;
        let here = closure.map_or(self.frame, |closure| closure.frame);
        let (blame, call) = if anonymous {
            (here.blame, here.call)
        } else {
            self.calls.push((def, here.call));
            (self.frame.blame.or(library.then_some(span)), Some(self.calls.len() - 1))
        };
        let function = closure.and_then(|closure| closure.at);
        let frame = Frame { source, place: self.expansions, blame, call, function };
        self.callers.push(std::mem::replace(&mut self.frame, frame));
        let scope = closure.map_or(&[][..], |closure| &closure.scope);
        work::charge(scope.len());
        let mut bound = Vec::with_capacity(scope.len() + params.len() + sizes.len());
        for (name, binding) in scope {
            self.bind(name, binding.clone());
            bound.push(*name);
        }
        let typing = std::rc::Rc::new(Typing { source, sizes });
        for (name, size) in &typing.sizes {
            self.bind(name, Binding::Size(size.clone()));
            bound.push(name);
        }
        let mut lets = around;
        for (((name, ty), argument), found) in params.iter().zip(args).zip(found) {
            let binding = match argument {
                Argument::Variable(var) => Binding::Var(var),
                Argument::Value(value) => {
                    let var = self.program.fresh_var(&name.text, self.program.ty(value));
                    lets.push((var, value));
                    self.remember_argument(var, found);
                    Binding::Var(var)
                }
                Argument::Function(shape) => Binding::Function(self.typed(shape, &name.text, ty, &typing)),
            };
            self.bind(&name.text, binding);
            bound.push(name.text.as_str());
        }
        self.tasks.push(Task::Return { at, def, lets, bound, stack });
        self.tasks.push(Task::Value(body));
    }

    /// Warns where a size of a definition is no number of places, as that of `conv(x, w)` is for a filter longer than the signal.
    fn warn_of_empty(&mut self, def: usize, sizes: &BTreeMap<&'a str, Size>, span: Span) {
        let empty = sizes.iter().find_map(|(name, size)| Some((name, size.as_constant().filter(|n| *n <= 0)?)));
        let Some((size, n)) = empty.filter(|_| self.depth() == 0) else { return };
        let message = format!("`{}` is empty here: its size `{size}` is {n}", self.definitions[def].name.text);
        let help = self.declared_as(def);
        self.warnings.push(Diagnostic::new("empty-by-size", span, message).help(help));
    }

    /// The header of a definition in a sentence.
    fn declared_as(&self, def: usize) -> String {
        let Definition { name, params, source, .. } = &self.definitions[def];
        let params: Vec<String> =
            params.iter().map(|(name, ty)| format!("{} : {}", name.text, show_formal(source, ty))).collect();
        format!("it is declared as `{}({})`", name.text, params.join(", "))
    }

    fn argument_sizes(
        &mut self,
        at: ExprId,
        definition: &Definition<'a>,
        bound: &[Argument],
        known: BTreeMap<&'a str, Size>,
    ) -> Option<BTreeMap<&'a str, Size>> {
        let places = self.places_of_arguments(at);
        let types: Vec<(Actual, Span)> =
            bound.iter().zip(places).map(|(argument, at)| (self.type_of_argument(argument), self.span(*at))).collect();
        self.match_sizes(definition, &types, known)
    }

    /// The body is complete.
    pub(super) fn return_from(
        &mut self,
        at: ExprId,
        def: usize,
        mut lets: Vec<(VarId, TermId)>,
        bound: Vec<&'a str>,
        stack: Option<Stack>,
    ) {
        let item = self.values.pop().and_then(|item| match self.definitions[def].result {
            Some(result) => self.with_result_type(def, item, result),
            None => Some(item),
        });
        for name in bound.iter().rev() {
            self.scopes.unbind(name);
        }
        if let Some(caller) = self.callers.pop() {
            self.frame = caller;
        }
        self.leave_out_indices(&mut lets);
        let span = self.span(at);
        let item = item.and_then(|item| self.wrap_item(lets, item, span));
        let item = self.around(stack, item, at);
        self.values.push_item(item);
    }
}

/// The name that the table of functions has for another.
pub(super) fn synonym(name: &str) -> &str {
    if name == "log" { "ln" } else { name }
}

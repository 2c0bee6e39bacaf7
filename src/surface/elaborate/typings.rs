//! Functions that are said to have a type: those that a parameter of a definition or of a `fn` stands for, and those that a definition gives.
//!
//! What such a function takes and gives is compared with its type where it is applied, since a `fn` is generic in what it gives. The sizes in the type are
//! those of the call that it belongs to; one that does not follow from the arguments of the call fits any.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::ast::{ExprId, Name, TypeExpr, TypeKind};
use super::functions::{FunctionTask, Held, Item, Shape, ShapeId};
use super::names::Meaning;
use super::sizes::{Linear, Meant, Part, linear, resolve, show_formal, show_function};
use super::stacks::{Argument, Formals, Stack};
use super::{Elaborator, Source, Task};
use crate::base::work;
use crate::index::Size;
use crate::ty::TypeId;

/// What a value is, as far as types tell.
#[derive(Clone, Copy, Debug)]
pub(super) enum Actual {
    Type(TypeId),
    /// A value that holds a function.
    Function(ShapeId),
}

/// What the sizes in types as written mean.
pub(super) struct Typing<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) sizes: BTreeMap<&'a str, Size>,
}

/// A function with a declared type.
pub(super) struct Typed<'a> {
    pub(super) function: ShapeId,
    /// What it is called where it has the type.
    pub(super) name: &'a str,
    args: &'a [TypeExpr],
    result: &'a TypeExpr,
    typing: Rc<Typing<'a>>,
}

/// How a value compares with a type.
#[derive(PartialEq)]
enum Agreement {
    Agrees,
    /// The form is another one.
    OtherForm,
    /// The sizes are others.
    OtherSize,
}

impl<'a> Elaborator<'a> {
    /// What an item is.
    pub(super) fn actual(&self, item: &Item) -> Actual {
        match item {
            Item::Term(term) => Actual::Type(self.program.ty(*term)),
            Item::Function(held) => Actual::Function(held.shape),
        }
    }

    fn actual_shape(&self, shape: ShapeId) -> Actual {
        match self.shape(shape) {
            Shape::Value(var) => Actual::Type(self.type_of(*var)),
            _ => Actual::Function(shape),
        }
    }

    /// Whether a value that holds a function has the form of a type; sizes that are known are collected.
    pub(super) fn match_shape(
        &self,
        source: &'a Source<'a>,
        formal: &'a TypeExpr,
        shape: ShapeId,
        axes: &mut Vec<(Linear<'a>, Size)>,
        depth: usize,
    ) -> bool {
        match (&formal.kind, self.shape(shape)) {
            (TypeKind::Pair(a, b), Shape::Pair(c, d)) => {
                self.match_type(source, a, self.actual_shape(*c), axes, depth + 1)
                    && self.match_type(source, b, self.actual_shape(*d), axes, depth + 1)
            }
            (TypeKind::Function(args, result), _) => self.match_function(source, args, result, shape, axes),
            _ => false,
        }
    }

    /// Whether a function takes as many arguments as its type has. What they are is seen where it is applied.
    fn match_function(
        &self,
        source: &'a Source<'a>,
        args: &'a [TypeExpr],
        result: &'a TypeExpr,
        shape: ShapeId,
        axes: &mut Vec<(Linear<'a>, Size)>,
    ) -> bool {
        let mut shape = shape;
        while let Shape::Choice(_, [first, _]) = self.shape(shape) {
            work::charge(1);
            shape = *first;
        }
        match self.shape(shape) {
            Shape::Scalar(function, _) => {
                let (crate::scalar::Function::Value(primitive) | crate::scalar::Function::Partial(primitive, _)) =
                    function;
                self.places(*primitive) == args.len()
            }
            Shape::Closure(closure) => {
                let definition = &self.definitions[closure.def];
                if definition.anonymous {
                    let size = |name: &str| self.size_in(closure, name);
                    for (formal, (_, other)) in args.iter().zip(definition.params) {
                        collect_sizes((source, formal), (definition.source, other), &size, axes);
                    }
                }
                definition.params.len() == args.len()
            }
            Shape::Typed(typed) => {
                let size = |name: &str| typed.typing.sizes.get(name).cloned();
                let pairs = args.iter().zip(typed.args).chain([(result, typed.result)]);
                for (formal, other) in pairs {
                    collect_sizes((source, formal), (typed.typing.source, other), &size, axes);
                }
                typed.args.len() == args.len()
            }
            Shape::Choice(..) | Shape::Value(_) | Shape::Pair(..) => false,
        }
    }

    /// A value with the types that are written for the functions in it. Types nest to a bounded depth.
    pub(super) fn typed(
        &mut self,
        shape: ShapeId,
        name: &'a str,
        ty: &'a TypeExpr,
        typing: &Rc<Typing<'a>>,
    ) -> ShapeId {
        match (&ty.kind, self.shape(shape)) {
            (TypeKind::Function(args, result), _) => {
                let typed = Typed { function: shape, name, args, result, typing: typing.clone() };
                self.add_shape(Shape::Typed(Rc::new(typed)))
            }
            (TypeKind::Pair(a, b), Shape::Pair(c, d)) => {
                let (c, d) = (*c, *d);
                let first = self.typed(c, name, a, typing);
                let second = self.typed(d, name, b, typing);
                self.add_shape(Shape::Pair(first, second))
            }
            _ => shape,
        }
    }

    pub(super) fn apply_typed(&mut self, at: ExprId, typed: &Rc<Typed<'a>>, mut args: Vec<Argument>) {
        let span = self.span(at);
        if !self.takes(typed.name, typed.args.len(), args.len(), span) {
            return;
        }
        let formals = Formals {
            name: typed.name,
            source: typed.typing.source,
            params: typed.args.iter().collect(),
            result: Some(typed.result),
        };
        let stack = match self.stack(at, &formals, &mut args) {
            Some(stack) if self.accepts(at, typed, &args) => stack,
            _ => {
                self.values.push(None);
                return;
            }
        };
        for (argument, ty) in args.iter_mut().zip(typed.args) {
            if let Argument::Function(shape) = argument {
                *shape = self.typed(*shape, typed.name, ty, &typed.typing);
            }
        }
        self.tasks.push(Task::Function(at, FunctionTask::Conform(typed.clone(), stack)));
        self.tasks.push(Task::Function(at, FunctionTask::Apply(typed.function, args)));
    }

    /// Whether arguments have the types that a function is said to take; the first that has another is reported.
    fn accepts(&mut self, at: ExprId, typed: &Typed<'a>, args: &[Argument]) -> bool {
        let places = self.places_of_arguments(at);
        for ((argument, formal), place) in args.iter().zip(typed.args).zip(places) {
            let actual = self.type_of_argument(argument);
            let agreement = self.agreement(&typed.typing, formal, actual);
            if agreement != Agreement::Agrees {
                let takes = self.show_with_sizes(&typed.typing, formal);
                let message = format!("`{}` takes {takes}, found `{}`", typed.name, self.show_actual(actual));
                let code = if agreement == Agreement::OtherForm { "type-mismatch" } else { "size-mismatch" };
                let span = self.span(*place);
                self.report(code, span, message);
                return false;
            }
        }
        true
    }

    /// The value of a function with a declared type is complete.
    pub(super) fn finish_conform(&mut self, at: ExprId, typed: &Rc<Typed<'a>>, stack: Option<Stack>) {
        let item = self.values.pop().and_then(|item| {
            let actual = self.actual(&item);
            if self.agreement(&typed.typing, typed.result, actual) != Agreement::Agrees {
                let gives = self.show_with_sizes(&typed.typing, typed.result);
                let message =
                    format!("`{}` gives {gives}, but its value has type `{}`", typed.name, self.show_actual(actual));
                let span = self.span(at);
                self.report("type-mismatch", span, message);
                return None;
            }
            Some(self.typed_item(item, typed.name, typed.result, &typed.typing))
        });
        let item = self.around(stack, item, at);
        self.values.push_item(item);
    }

    fn typed_item(&mut self, item: Item, name: &'a str, ty: &'a TypeExpr, typing: &Rc<Typing<'a>>) -> Item {
        match item {
            Item::Function(held) => Item::Function(Held { shape: self.typed(held.shape, name, ty, typing), ..held }),
            term => term,
        }
    }

    /// The value of a definition, if it has the type that is written, whose sizes are in scope.
    pub(super) fn with_result_type(&mut self, def: usize, item: Item, result: &'a TypeExpr) -> Option<Item> {
        let actual = self.actual(&item);
        if !self.has_type(def, actual, result) {
            return None;
        }
        if let Actual::Type(_) = actual {
            return Some(item);
        }
        let definition = self.definitions[def];
        let mut names = Vec::new();
        size_names(definition.source, result, &mut names);
        let mut sizes = BTreeMap::new();
        for name in names {
            if let Meaning::Size(size) = self.meaning(name) {
                sizes.insert(name, size);
            }
        }
        let typing = Rc::new(Typing { source: definition.source, sizes });
        Some(self.typed_item(item, &definition.name.text, result, &typing))
    }

    fn agreement(&mut self, typing: &Typing<'a>, formal: &'a TypeExpr, actual: Actual) -> Agreement {
        let mut axes = Vec::new();
        if !self.match_type(typing.source, formal, actual, &mut axes, 0) {
            return Agreement::OtherForm;
        }
        for (formal, size) in axes {
            let known = resolve(&formal, &mut |part| match part {
                Part::Name(name, _) => typing.sizes.get(name).cloned().map(Ok),
                Part::Quotient(of, by) => Some(self.size_quotient(&of, by)),
            });
            match known {
                // One that is not known fits any.
                None => {}
                Some(Ok(n)) if self.same_size(&n, &size) => {}
                Some(_) => return Agreement::OtherSize,
            }
        }
        Agreement::Agrees
    }

    /// A type as written, with what its sizes are.
    fn show_with_sizes(&self, typing: &Typing<'a>, ty: &'a TypeExpr) -> String {
        let mut names = Vec::new();
        size_names(typing.source, ty, &mut names);
        names.dedup();
        let sizes = names.into_iter().filter_map(|name| Some((name, typing.sizes.get(name)?)));
        format!("`{}`{}", show_formal(typing.source, ty), self.show_sizes(sizes))
    }

    /// ` with n = 2`
    pub(super) fn show_sizes<'s>(&self, sizes: impl Iterator<Item = (&'s str, &'s Size)>) -> String {
        let known: Vec<String> = sizes
            .map(|(name, n)| (name, self.show(n)))
            .filter(|(name, n)| name != n)
            .map(|(name, n)| format!("{name} = {n}"))
            .collect();
        if known.is_empty() { String::new() } else { format!(" with {}", known.join(", ")) }
    }

    /// What a value is, in a message.
    pub(super) fn show_actual(&self, actual: Actual) -> String {
        let mut shape = match actual {
            Actual::Type(ty) => return self.show_type(ty),
            Actual::Function(shape) => shape,
        };
        while let Shape::Choice(_, [first, _]) = self.shape(shape) {
            shape = *first;
        }
        let listed = |source, params: &[(Name, TypeExpr)]| {
            let params = params.iter().map(|(name, ty)| format!("{} : {}", name.text, show_formal(source, ty)));
            params.collect::<Vec<_>>().join(", ")
        };
        match self.shape(shape) {
            Shape::Scalar(_, name) => format!("{name}(..)"),
            Shape::Closure(closure) => {
                let definition = &self.definitions[closure.def];
                let params = listed(definition.source, definition.params);
                match definition.anonymous {
                    true => format!("fn {params}. .."),
                    false => format!("{}({params})", definition.name.text),
                }
            }
            Shape::Typed(typed) => show_function(typed.typing.source, typed.args, typed.result),
            Shape::Value(var) => self.show_type(self.type_of(*var)),
            Shape::Pair(..) | Shape::Choice(..) => "(.., ..)".to_owned(),
        }
    }
}

/// The names of sizes in a type.
pub(super) fn size_names<'a>(source: &Source<'a>, ty: &'a TypeExpr, names: &mut Vec<&'a str>) {
    match &ty.kind {
        TypeKind::Real | TypeKind::Inferred => {}
        TypeKind::Index(n) => names.extend(linear(source, *n).map(|size| size.names()).unwrap_or_default()),
        TypeKind::Sum(_, pairs) => size_names(source, pairs, names),
        TypeKind::Pair(a, b) => [a, b].into_iter().for_each(|ty| size_names(source, ty, names)),
        TypeKind::Function(args, result) => {
            args.iter().chain([&**result]).for_each(|ty| size_names(source, ty, names));
        }
        TypeKind::Tensor(dims, element) => {
            for dim in dims {
                // What is no size is reported with the declaration.
                names.extend(linear(source, *dim).map(|size| size.names()).unwrap_or_default());
            }
            size_names(source, element, names);
        }
    }
}

/// The sizes of one type by those of another of the same form, as far as they are known.
fn collect_sizes<'a>(
    (source, formal): (&Source<'a>, &'a TypeExpr),
    (other_source, other): (&Source<'a>, &'a TypeExpr),
    size: &dyn Fn(&str) -> Option<Size>,
    axes: &mut Vec<(Linear<'a>, Size)>,
) {
    match (&formal.kind, &other.kind) {
        (TypeKind::Pair(a, b), TypeKind::Pair(c, d)) => {
            collect_sizes((source, a), (other_source, c), size, axes);
            collect_sizes((source, b), (other_source, d), size, axes);
        }
        (TypeKind::Tensor(dims, element), TypeKind::Tensor(others, other)) if dims.len() == others.len() => {
            for (dim, other) in dims.iter().zip(others) {
                let known: Option<Meant> = linear(other_source, *other).ok().map(|other| {
                    resolve(&other, &mut |part| match part {
                        Part::Name(name, _) => size(name).map(Ok),
                        Part::Quotient(..) => None,
                    })
                });
                if let (Ok(formal), Some(Some(Ok(n)))) = (linear(source, *dim), known) {
                    axes.push((formal, n));
                }
            }
            collect_sizes((source, element), (other_source, other), size, axes);
        }
        _ => {}
    }
}

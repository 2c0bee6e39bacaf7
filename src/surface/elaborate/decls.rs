//! Declarations to a [`Signature`], and to what names mean in the program.
//!
//! 1. Size variables are declared by occurring in the types of parameters, relations and maps, in the order of the text; those of
//!    an `assume` are added.
//! 2. The library comes first, so declarations of the same name take its place.
//! 3. Parameters, relations, maps, scalar functions and definitions get their names.
//! 4. Assumptions are predicates on sizes; they need the names, so they come last.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::ast::{Ast, BinaryOp, Constructor, Decl, Expr, ExprId, Name, StorageKind, TypeExpr};
use super::bounds::Knowledge;
use super::calls::{Definition, SPECIAL};
use super::functions::Values;
use super::names::{Global, Scopes};
use super::sizes::{Part, check_parameters, declared_type, linear, resolve};
use super::sums::{SumParam, SumType};
use super::text::noun;
use super::{Elaborator, Frame, Source, Task};
use crate::base::{FunctionId, SizeId, Span, VarId, work};
use crate::error::Diagnostic;
use crate::index::{Checked, Pred, Size, Var};
use crate::scalar::{Op, UserFunction, check_functions};
use crate::term::Program;
use crate::ty::{Format, Param, Relation, RelationKind, Signature, Storage, TypeId, Types};

/// The library written in the language, read once.
pub(super) fn parse_prelude() -> Ast {
    super::super::parser::parse(super::super::LIBRARY).0
}

/// The declarations read so far.
pub(super) struct Declarations<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) signature: Signature,
    pub(super) globals: FxHashMap<&'a str, Global>,
    definitions: Vec<Definition<'a>>,
    sum_types: Vec<SumType<'a>>,
    sum_params: Vec<SumParam>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Whether something is wrong that is reported or that the parser has reported.
    pub(super) failed: bool,
}

impl<'a> Elaborator<'a> {
    /// The machine at the beginning of the program's expression.
    #[allow(clippy::too_many_lines, reason = "a list of all fields and a pass for each kind of declarations")]
    pub(super) fn declare(
        source: &'a Source<'a>,
        library: &'a Source<'a>,
        imported: &'a [Source<'a>],
        functions: &'a [UserFunction],
    ) -> Self {
        let mut declarations = Declarations {
            source,
            signature: Signature { functions: functions.iter().cloned().collect(), ..Signature::default() },
            globals: FxHashMap::default(),
            definitions: Vec::new(),
            sum_types: Vec::new(),
            sum_params: Vec::new(),
            diagnostics: Vec::new(),
            failed: false,
        };
        declarations.library(library);
        declarations.registered(functions);
        imported.iter().for_each(|imported| declarations.imported(imported));
        declarations.sizes();
        for decl in &source.ast.decls {
            if let Decl::Size { name, value: Some(value) } = decl {
                declarations.defined_size(name, *value);
            }
        }
        for decl in &source.ast.decls {
            declarations.declaration(decl);
        }
        declarations.assumed_sizes();
        let Declarations { signature, globals, definitions, sum_types, sum_params, diagnostics, failed, .. } =
            declarations;
        let mut elaborator = Elaborator {
            program: Program::new(Arc::new(signature)),
            globals,
            definitions,
            scopes: Scopes::default(),
            frame: Frame { source, place: 0, blame: None, call: None, function: None },
            callers: Vec::new(),
            calls: Vec::new(),
            shapes: Vec::new(),
            functions: FxHashMap::default(),
            tasks: Vec::new(),
            values: Values::default(),
            affines: Vec::new(),
            preds: Vec::new(),
            knowledge: Knowledge::default(),
            anchors: Vec::new(),
            hoists: Vec::new(),
            guards: Vec::new(),
            diagnostics: Vec::new(),
            warnings: Vec::new(),
            reported: FxHashSet::default(),
            failed,
            silent: 0,
            reports: 0,
            shares: FxHashMap::default(),
            index_like: FxHashMap::default(),
            expansions: 0,
            ops: FxHashMap::default(),
            aliases: BTreeMap::new(),
            unread: FxHashSet::default(),
            ranges: FxHashMap::default(),
            quotient_indices: BTreeMap::new(),
            refined: FxHashMap::default(),
            affine_of: FxHashMap::default(),
            read_as_numbers: FxHashSet::default(),
            size_of: FxHashMap::default(),
            read_as_sizes: FxHashSet::default(),
            index_terms: FxHashMap::default(),
            stand_ins: BTreeMap::new(),
            stand_in_of: FxHashMap::default(),
            expected: FxHashMap::default(),
            sum_types,
            sum_params,
            left_out: false,
        };
        diagnostics.into_iter().for_each(|d| elaborator.diagnose(d));
        let defined = elaborator.program.signature.assumptions.clone();
        defined.into_iter().for_each(|p| elaborator.knowledge.assume(p));
        for decl in &source.ast.decls {
            if let Decl::Assume { pred } = decl {
                elaborator.assumption(*pred);
            }
        }
        if !elaborator.failed
            && let Err(error) = check_functions(&elaborator.program.signature.functions)
        {
            elaborator.report("bad-function", Span::default(), error.to_string());
        }
        elaborator
    }

    fn assumption(&mut self, e: ExprId) {
        let span = self.span(e);
        // Its values need no further check.
        if let Some(inside) = self.no_size(e) {
            let found = noun(self.expr(inside));
            let message = format!("an assumption speaks of sizes only, such as `assume n >= 2`, found {found}");
            let place = self.span(inside);
            self.report("bad-assumption", place, message);
            self.silent += 1;
            return;
        }
        self.enter_anchor();
        self.tasks.push(Task::Pred(e));
        self.run();
        let hoisted = self.leave_anchor();
        let Some(p) = self.preds.pop().flatten() else {
            self.fail();
            // What it would have proved is not known.
            self.silent += 1;
            return;
        };
        let mut sizes_only = hoisted.lets.is_empty() && hoisted.quotients.is_empty();
        p.visit_relations(&mut |_| sizes_only = false);
        p.visit_affine(&mut |a| a.visit(&mut |v| sizes_only &= matches!(v, Var::Size(_))));
        if !sizes_only {
            self.report("bad-assumption", span, "an assumption speaks of sizes only, such as `assume n >= 2`");
            return;
        }
        if p.is_false() {
            self.report("bad-assumption", span, "this assumption is never true");
            return;
        }
        self.knowledge.assume(p.clone());
        if self.knowledge.contradictory() {
            let alone = self.program.signature.assumptions.is_empty();
            let others = if alone { "" } else { " where those before it hold" };
            self.report("bad-assumption", span, format!("this assumption is never true{others}"));
            return;
        }
        if !p.is_true() {
            Arc::make_mut(&mut self.program.signature).assumptions.push(p);
        }
    }
}

impl<'a> Elaborator<'a> {
    /// A part of an assumption that sizes do not have.
    fn no_size(&self, e: ExprId) -> Option<ExprId> {
        let mut stack = vec![e];
        let mut seen = FxHashSet::default();
        while let Some(e) = stack.pop() {
            if !seen.insert(e) {
                continue;
            }
            match self.expr(e) {
                Expr::Unary(_, a) => stack.push(*a),
                Expr::Binary(_, a, b) => stack.extend([*b, *a]),
                Expr::Access { .. }
                | Expr::All
                | Expr::Part { .. }
                | Expr::Fst(_)
                | Expr::Snd(_)
                | Expr::Let { .. }
                | Expr::Scan { .. }
                | Expr::Typed { .. }
                | Expr::Case { .. }
                | Expr::Iverson { .. } => {
                    return Some(e);
                }
                _ => {}
            }
        }
        None
    }
}

impl<'a> Declarations<'a> {
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.failed = true;
        self.diagnostics.push(diagnostic);
    }

    fn library(&mut self, library: &'a Source<'a>) {
        for decl in &library.ast.decls {
            if let Decl::Def { name, params, result, body } = decl {
                self.globals.insert(&name.text, Global::Definition(self.definitions.len()));
                self.definitions.push(Definition {
                    source: library,
                    name,
                    params,
                    result: result.as_ref(),
                    body: *body,
                    sound: true,
                    library: true,
                    anonymous: false,
                    expanded: 0,
                });
            }
        }
    }

    /// The definitions and functions of an imported text. A definition of the program with the same name takes the place of one there.
    fn imported(&mut self, imported: &'a Source<'a>) {
        let source = std::mem::replace(&mut self.source, imported);
        let before = self.diagnostics.len();
        for decl in &imported.ast.decls {
            if let Decl::Fun { name, params, value, partials } = decl {
                self.function(name, params, *value, partials);
            }
        }
        self.source = source;
        // Its places are those of another text.
        for diagnostic in self.diagnostics.iter_mut().skip(before) {
            diagnostic.span = Span::default();
        }
        self.library(imported);
    }

    /// Declares the size variables of all types, in the order of the text.
    fn sizes(&mut self) {
        for decl in &self.source.ast.decls {
            match decl {
                Decl::Param { ty, .. } => {
                    let mut stack = vec![ty];
                    while let Some(ty) = stack.pop() {
                        match &ty.kind {
                            super::super::ast::TypeKind::Real | super::super::ast::TypeKind::Inferred => {}
                            super::super::ast::TypeKind::Index(n) => self.size_variables(*n),
                            super::super::ast::TypeKind::Sum(_, pairs) => stack.push(pairs),
                            super::super::ast::TypeKind::Pair(a, b) => stack.extend([&**b, &**a]),
                            super::super::ast::TypeKind::Function(args, result) => {
                                stack.push(result);
                                stack.extend(args.iter().rev());
                            }
                            super::super::ast::TypeKind::Tensor(dims, element) => {
                                dims.iter().for_each(|dim| self.size_variables(*dim));
                                stack.push(element);
                            }
                        }
                    }
                }
                Decl::Relation { shape, .. } => shape.iter().for_each(|dim| self.size_variables(*dim)),
                Decl::Map { source, target, .. } => {
                    source.iter().chain([target]).for_each(|dim| self.size_variables(*dim));
                }
                Decl::Size { name, value } => {
                    self.size_variable(&name.text);
                    value.iter().for_each(|value| self.size_variables(*value));
                }
                Decl::Sum { axes, .. } => axes.iter().for_each(|dim| self.size_variables(*dim)),
                Decl::Assume { .. } | Decl::Def { .. } | Decl::Fun { .. } | Decl::Type { .. } => {}
            }
        }
    }

    fn size_variables(&mut self, dim: ExprId) {
        // Problems are reported where the size is used.
        if let Ok(size) = linear(self.source, dim) {
            for name in size.names() {
                self.size_variable(name);
            }
        }
    }

    /// `size h = n // 2`: the size is this quotient from here on, or equal to what else it is.
    fn defined_size(&mut self, name: &Name, value: ExprId) {
        let Some(Global::Size(size)) = self.globals.get(name.text.as_str()).copied() else { return };
        if work::is_used_up() {
            if !self.failed {
                let message = "checking the sizes takes too long, and was given up here";
                let help = "fewer sizes that are quotients make it shorter";
                self.report(Diagnostic::new("too-much-work", name.span, message).help(help));
            }
            return;
        }
        let divided = match &self.source.ast.exprs[value] {
            Expr::Binary(BinaryOp::FloorDiv, of, by) => {
                let by = self.source.constants.get(by.0 as usize).copied().flatten();
                by.filter(|by| *by > 0).map(|by| (*of, by))
            }
            _ => None,
        };
        let found = match divided {
            Some((of, by)) => self.size(of).map(|of| self.quotient(&of, by, Some(size))),
            None => self.size(value).map(Ok),
        };
        if found.is_none()
            && let Some(global) = self.globals.get_mut(name.text.as_str())
        {
            // What it is was reported.
            *global = Global::Error;
        }
        let equal = found.and_then(|found| {
            let equal = found.and_then(|found| Pred::equal(&Size::size(size), &found));
            self.checked(value, equal)
        });
        self.signature.assumptions.extend(equal.filter(|p| !p.is_true()));
    }

    fn quotient(&mut self, of: &Size, by: i64, own: Option<SizeId>) -> Checked<Size> {
        let (signature, globals) = (&mut self.signature, &self.globals);
        signature.quotient(of, by, own, &|name| !globals.contains_key(name)).map(|(size, _)| size)
    }

    /// The result of arithmetic on sizes; an overflow is reported.
    fn checked<T>(&mut self, e: ExprId, result: Checked<T>) -> Option<T> {
        if let Err(overflow) = &result {
            let span = self.source.ast.spans.get(e).copied().unwrap_or_default();
            self.report(Diagnostic::new("overflow", span, overflow.to_string()));
        }
        result.ok()
    }

    fn size_variable(&mut self, name: &'a str) {
        let known = matches!(self.globals.get(name), Some(global) if !self.is_library(*global));
        if !known {
            let id = self.signature.sizes.push(name.to_owned());
            self.globals.insert(name, Global::Size(id));
        }
    }

    fn is_library(&self, global: Global) -> bool {
        matches!(global, Global::Definition(def) if self.definitions[def].library)
    }

    /// Size variables that only assumptions mention.
    fn assumed_sizes(&mut self) {
        for decl in &self.source.ast.decls {
            let Decl::Assume { pred } = decl else { continue };
            let mut stack = vec![*pred];
            let mut seen = FxHashSet::default();
            while let Some(e) = stack.pop() {
                if !seen.insert(e) {
                    continue;
                }
                match &self.source.ast.exprs[e] {
                    Expr::Name(name) => self.size_variable(name),
                    Expr::Unary(_, a) => stack.push(*a),
                    Expr::Binary(_, a, b) => stack.extend([*b, *a]),
                    _ => {}
                }
            }
        }
    }

    /// Gives a name its meaning, unless it has one.
    pub(super) fn name(&mut self, name: &'a Name, global: Global) -> bool {
        let reserved = Op::from_name(&name.text).is_some() || SPECIAL.contains(&name.text.as_str());
        // A definition takes the place of a function that has a name, not of a word.
        let shadows = matches!(global, Global::Definition(_)) && !SPECIAL.contains(&name.text.as_str());
        if reserved && !shadows && !matches!(global, Global::Param(_)) {
            let message = format!("`{}` is a built-in function", name.text);
            self.report(Diagnostic::new("duplicate-name", name.span, message).help("choose another name"));
            return false;
        }
        if let Some(old) = self.globals.get(name.text.as_str()).copied()
            && !self.is_library(old)
        {
            let message = match old {
                Global::Size(_) => format!("`{}` is a size already, by its use in a type", name.text),
                old => format!("`{}` is declared already, as {}", name.text, old.noun()),
            };
            self.report(Diagnostic::new("duplicate-name", name.span, message).help("choose another name"));
            // Which of the two is meant elsewhere is not known.
            if !matches!(old, Global::Size(_)) {
                self.globals.insert(&name.text, Global::Error);
            }
            return false;
        }
        self.globals.insert(&name.text, global);
        true
    }

    fn declaration(&mut self, decl: &'a Decl) {
        match decl {
            Decl::Param { name, storage, like, ty } => self.param(name, *storage, like.as_ref(), ty),
            Decl::Type { name, constructors } => self.sum_type(name, constructors),
            Decl::Sum { name, axes, tag, fields, .. } => self.sum_param(name, axes, tag, fields),
            Decl::Relation { name, shape } => {
                let shape = self.shape(shape, name.span);
                let relation = shape.map(|shape| self.relation(&name.text, shape, RelationKind::Free));
                self.name(name, relation.map_or(Global::Error, Global::Relation));
            }
            Decl::Map { name, source, target } => {
                let places: Vec<ExprId> = source.iter().chain([target]).copied().collect();
                let shape = self.shape(&places, name.span);
                if source.is_empty() {
                    let message = format!("the map `{}` needs at least one source", name.text);
                    self.report(Diagnostic::new("wrong-arity", name.span, message));
                }
                let map = shape.map(|shape| self.relation(&name.text, shape, RelationKind::Map));
                self.name(name, map.map_or(Global::Error, Global::Map));
            }
            Decl::Def { name, params, result, body } => {
                let problems = check_parameters(self.source, params, result.as_ref());
                let sound = problems.is_ok();
                if let Err(problems) = problems {
                    self.failed = true;
                    self.diagnostics.extend(problems);
                }
                let definition = Definition {
                    source: self.source,
                    name,
                    params,
                    result: result.as_ref(),
                    body: *body,
                    sound,
                    library: false,
                    anonymous: false,
                    expanded: 0,
                };
                self.name(name, Global::Definition(self.definitions.len()));
                self.definitions.push(definition);
            }
            Decl::Fun { name, params, value, partials } => self.function(name, params, *value, partials),
            Decl::Assume { .. } | Decl::Size { .. } => {}
        }
    }

    /// Functions that the caller registered.
    fn registered(&mut self, functions: &'a [UserFunction]) {
        for (at, function) in functions.iter().enumerate() {
            self.globals.insert(function.name(), Global::Function(FunctionId(at as u32)));
        }
    }

    fn relation(&mut self, name: &str, shape: Vec<Size>, kind: RelationKind) -> crate::base::RelationId {
        self.signature.relations.push(Relation { name: name.to_owned(), shape, kind })
    }

    fn size(&mut self, e: ExprId) -> Option<Size> {
        let size = match linear(self.source, e) {
            Ok(size) => size,
            Err(diagnostic) => {
                self.failed = true;
                self.diagnostics.extend(diagnostic);
                return None;
            }
        };
        let size = resolve(&size, &mut |part| match part {
            Part::Name(name, _) => match self.globals.get(name) {
                Some(Global::Size(n)) => Some(Ok(Size::size(*n))),
                _ => None,
            },
            Part::Quotient(of, by) => Some(self.quotient(&of, by, None)),
        });
        if size.is_none() {
            self.failed = true;
        }
        self.checked(e, size?)
    }

    fn shape(&mut self, dims: &[ExprId], span: Span) -> Option<Vec<Size>> {
        if dims.len() > Types::MAX_RANK {
            let message = format!("a relation has at most {} places, found {}", Types::MAX_RANK, dims.len());
            self.report(Diagnostic::new("too-large", span, message));
            return None;
        }
        let shape: Vec<Option<Size>> = dims.iter().map(|dim| self.size(*dim)).collect();
        shape.into_iter().collect()
    }

    /// `type shape = circle real | nothing`
    fn sum_type(&mut self, name: &'a Name, constructors: &'a [Constructor]) {
        if let Some(other) = self.sum_types.iter().find(|other| other.name.text == name.text) {
            let message = format!("the type `{}` is declared already", other.name.text);
            self.report(Diagnostic::new("duplicate-name", name.span, message).help("choose another name"));
        }
        let mut fields = Vec::new();
        for field in constructors.iter().flat_map(|constructor| &constructor.fields) {
            // What is wrong with one is reported.
            fields.push(self.param_type(field).unwrap_or(Types::REAL));
        }
        for (k, constructor) in constructors.iter().enumerate() {
            self.name(&constructor.name, Global::Constructor(self.sum_types.len(), k));
        }
        self.sum_types.push(SumType { name, constructors, fields });
    }

    /// `param s : [n] shape`: a map, and a parameter for each field.
    fn sum_param(
        &mut self,
        name: &'a Name,
        axes: &'a [ExprId],
        (tag, constructors): &'a (Name, ExprId),
        fields: &'a [(Name, TypeExpr)],
    ) {
        let Some(axes) = self.shape(axes, name.span) else {
            self.name(name, Global::Error);
            return;
        };
        let source = if axes.is_empty() { vec![Size::constant(1)] } else { axes.clone() };
        let Some(constructors) = self.size(*constructors) else { return };
        let shape = source.into_iter().chain([constructors]).collect();
        let relation = self.relation(&tag.text, shape, RelationKind::Map);
        self.name(tag, Global::Map(relation));
        let mut vars = Vec::new();
        for (field, ty) in fields {
            self.param(field, StorageKind::Dense, None, ty);
            if let Some(Global::Param(var)) = self.globals.get(field.text.as_str()) {
                vars.push(*var);
            }
        }
        let sound = vars.len() == fields.len();
        let global = if sound { Global::Sum(self.sum_params.len()) } else { Global::Error };
        self.sum_params.push(SumParam { tag: relation, fields: vars, axes });
        self.name(name, global);
    }

    fn param(&mut self, name: &'a Name, storage: StorageKind, like: Option<&Name>, ty: &'a TypeExpr) {
        let Some(declared) = self.param_type(ty) else {
            self.failed = true;
            self.name(name, Global::Error);
            return;
        };
        let Some(storage) = self.storage(name, storage, like, ty, declared) else {
            self.name(name, Global::Error);
            return;
        };
        let param = Param { name: name.text.clone(), ty: declared, storage };
        let id = self.signature.params.push(param);
        self.name(name, Global::Param(VarId(id.0)));
    }

    fn param_type(&mut self, ty: &'a TypeExpr) -> Option<TypeId> {
        let mut types = std::mem::take(&mut self.signature.types);
        let mut problems = Vec::new();
        let source = self.source;
        let declared = declared_type(
            source,
            &mut types,
            ty,
            &mut |_, dim| self.size(dim),
            &mut |diagnostic| problems.push(diagnostic),
            0,
        );
        self.signature.types = types;
        problems.into_iter().for_each(|diagnostic| self.report(diagnostic));
        let declared = declared?;
        match self.signature.types.leaves(declared) {
            Err(error) => {
                self.report(Diagnostic::new("too-large", ty.span, error.to_string()));
                None
            }
            Ok(leaves) => match leaves.iter().map(|leaf| leaf.dims.len()).max() {
                Some(rank) if rank > Types::MAX_RANK => {
                    let message = format!("a tensor has at most {} axes, found {rank}", Types::MAX_RANK);
                    self.report(Diagnostic::new("too-large", ty.span, message));
                    None
                }
                _ => Some(declared),
            },
        }
    }

    /// The storage, with the pattern of a sparse parameter: its own, or that of the parameter it is like.
    fn storage(
        &mut self,
        name: &Name,
        kind: StorageKind,
        like: Option<&Name>,
        ty: &TypeExpr,
        declared: TypeId,
    ) -> Option<Storage> {
        let dims = self.signature.types.real_dims(declared);
        let StorageKind::Sparse(format) = kind else { return Some(Storage::Dense) };
        let Some(dims) = dims.filter(|dims| format.stores(dims.len())) else {
            let wanted = match format.capabilities().rank {
                Some(2) => "a tensor of reals with two axes, `[m, n] real`".to_owned(),
                Some(rank) => format!("a tensor of reals with {rank} axes"),
                None => "a tensor of reals".to_owned(),
            };
            let found = super::sizes::show_formal(self.source, ty);
            let message = format!("`{}` stores {wanted}, found `{found}`", format.name());
            self.report(Diagnostic::new("bad-storage", ty.span, message));
            return None;
        };
        let param = crate::base::ParamId(self.signature.params.len() as u32);
        let pattern = match like {
            Some(like) => self.shared_pattern(like, format, &dims)?,
            None => self.relation(&format!("{}?", name.text), dims, RelationKind::Pattern(param)),
        };
        Some(Storage::Sparse(format, pattern))
    }

    /// The pattern of a sparse parameter of the given axes.
    fn shared_pattern(&mut self, like: &Name, format: Format, dims: &[Size]) -> Option<crate::base::RelationId> {
        let storage = match self.globals.get(like.text.as_str()) {
            Some(Global::Param(x)) => self.signature.params.get(crate::base::ParamId(x.0)).map(|p| p.storage),
            _ => None,
        };
        let Some(pattern) = storage.and_then(Storage::pattern) else {
            let message =
                format!("`{}` is no sparse parameter declared before, so it has no entries to share", like.text);
            self.report(Diagnostic::new("bad-storage", like.span, message));
            return None;
        };
        if self.signature.relations[pattern].shape != dims {
            let message = format!("`{}` has other axes, so its entries cannot be shared", like.text);
            self.report(Diagnostic::new("bad-storage", like.span, message));
            return None;
        }
        let order = |format: Format| format.order(dims.len());
        if let Some(other) = storage.and_then(Storage::format).filter(|other| order(*other) != order(format)) {
            let message = format!(
                "the entries of `{}` are in the order of {}, which is not that of {}; declare it `{}({})`",
                like.text,
                other.name(),
                format.name(),
                other.name(),
                like.text
            );
            self.report(Diagnostic::new("bad-storage", like.span, message));
            return None;
        }
        Some(pattern)
    }
}

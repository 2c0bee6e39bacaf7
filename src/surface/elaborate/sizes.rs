//! Sizes and types as written, and the sizes that a call of a definition implies.
//!
//! A size as written is a linear form over *names*; what the names mean depends on where it stands: size variables of the
//! program in a declaration and as an extent, unknowns to solve for in the parameters of a definition.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::super::ast::{BinaryOp, Expr, ExprId, Name, TypeExpr, TypeKind, UnaryOp};
use super::bounds::Proof;
use super::calls::Definition;
use super::names::{Global, Meaning, closest};
use super::text::noun;
use super::typings::Actual;
use super::{Elaborator, Source};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign;
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::ty::{Type, TypeId, Types};

/// How deep a type may nest.
const MAX_TYPE_NESTING: usize = 64;

/// How many parts a size may have.
const MAX_SIZE_NODES: usize = 1_000_000;

/// How deep floor divisions of a size may nest.
const MAX_QUOTIENT_NESTING: usize = 16;

/// `constant + sum of coefficient * name + sum of coefficient * floor(size / by)`
pub(super) struct Linear<'a> {
    pub(super) terms: Vec<(&'a str, i64, Span)>,
    pub(super) quotients: Vec<(Linear<'a>, i64, i64)>,
    pub(super) constant: i64,
}

impl<'a> Linear<'a> {
    /// The names in it, in the order of the text but for those in quotients, which come last.
    pub(super) fn names(&self) -> Vec<&'a str> {
        let inner = self.quotients.iter().flat_map(|(of, ..)| of.names());
        self.terms.iter().map(|(name, ..)| *name).chain(inner).collect()
    }
}

/// A part of a size as written, for which a meaning is asked.
pub(super) enum Part<'a> {
    Name(&'a str, Span),
    /// `floor(size / by)`
    Quotient(Size, i64),
}

/// A size as written. Only quotients nest.
pub(super) fn linear<'a>(source: &Source<'a>, e: ExprId) -> Result<Linear<'a>, Option<Diagnostic>> {
    linear_within(source, e, 0)
}

fn linear_within<'a>(source: &Source<'a>, e: ExprId, depth: usize) -> Result<Linear<'a>, Option<Diagnostic>> {
    let mut size = Linear { terms: Vec::new(), quotients: Vec::new(), constant: 0 };
    let mut stack = vec![(e, 1i64)];
    let mut steps = 0;
    while let Some((e, k)) = stack.pop() {
        steps += 1;
        if steps > MAX_SIZE_NODES {
            let span = source.ast.spans.get(e).copied().unwrap_or_default();
            let message = format!("a size is built from at most {MAX_SIZE_NODES} parts");
            return Err(Some(Diagnostic::new("too-large", span, message)));
        }
        let span = source.ast.spans.get(e).copied().unwrap_or_default();
        let overflow = || Some(Diagnostic::new("overflow", span, crate::index::Overflow.to_string()));
        let constant = |e: &ExprId| source.constants.get(e.0 as usize).copied().flatten();
        match &source.ast.exprs[e] {
            Expr::Number { integer: Some(c), .. } => {
                let c = c.checked_mul(k).ok_or_else(overflow)?;
                size.constant = size.constant.checked_add(c).ok_or_else(overflow)?;
            }
            Expr::Name(name) => size.terms.push((name, k, span)),
            Expr::Unary(UnaryOp::Neg, a) => stack.push((*a, k.checked_neg().ok_or_else(overflow)?)),
            Expr::Binary(BinaryOp::Add, a, b) => stack.extend([(*b, k), (*a, k)]),
            Expr::Binary(BinaryOp::Sub, a, b) => {
                stack.extend([(*b, k.checked_neg().ok_or_else(overflow)?), (*a, k)]);
            }
            Expr::Binary(BinaryOp::Mul, a, b) => match (constant(b), constant(a)) {
                (Some(c), _) => stack.push((*a, k.checked_mul(c).ok_or_else(overflow)?)),
                (None, Some(c)) => stack.push((*b, k.checked_mul(c).ok_or_else(overflow)?)),
                (None, None) => {
                    let message = "a size is affine: it may be multiplied by an integer literal only";
                    let help = "give the product a name of its own, as in `[nm] real`, or use one axis for each factor, as `kron(A, B)` does";
                    return Err(Some(Diagnostic::new("not-affine", span, message).help(help)));
                }
            },
            Expr::Binary(op @ (BinaryOp::FloorDiv | BinaryOp::Rem), a, b) => {
                let Some(by) = constant(b).filter(|by| *by > 0) else {
                    return Err(Some(not_a_divisor(*op, span)));
                };
                if depth >= MAX_QUOTIENT_NESTING {
                    let message = format!("floor divisions nest to a depth of at most {MAX_QUOTIENT_NESTING}");
                    return Err(Some(Diagnostic::new("too-deep", span, message)));
                }
                let factor = match op {
                    BinaryOp::FloorDiv => k,
                    // a % b  ==  a - b * (a // b)
                    _ => {
                        stack.push((*a, k));
                        k.checked_neg().and_then(|k| k.checked_mul(by)).ok_or_else(overflow)?
                    }
                };
                size.quotients.push((linear_within(source, *a, depth + 1)?, by, factor));
            }
            Expr::Error => return Err(None),
            other => {
                let message = format!("a size is built from size variables and integers, found {}", noun(other));
                let diagnostic = Diagnostic::new("not-a-size", span, message);
                let help = "what is found for an index gets a name first, and a range ends at that: `let k = last[i] in sum t < k. ..`";
                let is_found = matches!(other, Expr::Call { .. } | Expr::Access { .. });
                return Err(Some(if is_found { diagnostic.help(help) } else { diagnostic }));
            }
        }
    }
    Ok(size)
}

/// Whether two sizes that differ may be declared to be equal: not where they never are, nor where sizes would have to be zero for it.
pub(super) fn may_be_equal(n: &Size, m: &Size) -> bool {
    let Ok(difference) = n.sub(m) else { return true };
    let signs = difference.terms().iter().map(|(_, k)| k.signum()).chain([difference.offset().signum()]);
    let (least, most) = signs.fold((0, 0), |(least, most), sign| (sign.min(least), sign.max(most)));
    least < 0 && most > 0 && !Pred::equal(n, m).is_ok_and(|p| p.is_false())
}

/// That `//` and `%` take a positive integer.
pub(super) fn not_a_divisor(op: BinaryOp, span: Span) -> Diagnostic {
    let message = "the divisor of `//` and `%` is a positive integer literal, or that of `%` a size";
    let sign = match op {
        BinaryOp::FloorDiv => "as in `n // 2`; a comment behind code begins with `#`",
        _ => "as in `i % 3`",
    };
    let help = format!(
        "{sign}; numbers are divided by `/`, and an index that stands for two is two indices, as in `kron(A, B)`"
    );
    Diagnostic::new("not-affine", span, message).help(help)
}

/// What a part of a size means; nothing where that is not known.
pub(super) type Meant = Option<Checked<Size>>;

/// The linear form with a meaning for every name and quotient.
pub(super) fn resolve<'a>(size: &Linear<'a>, meaning: &mut dyn FnMut(Part<'a>) -> Meant) -> Meant {
    let mut terms = Vec::new();
    let mut constant = Affine::constant(size.constant);
    // All names are looked up, so that all unknown ones are reported.
    let mut complete = true;
    let mut sum = || -> Checked<()> {
        let mut add = |n: Meant, k: i64| -> Checked<()> {
            let Some(n) = n else {
                complete = false;
                return Ok(());
            };
            let n = n?.scale(k)?;
            constant = constant.add_constant(n.offset())?;
            terms.extend(n.terms().iter().cloned());
            Ok(())
        };
        for (name, k, span) in &size.terms {
            add(meaning(Part::Name(name, *span)), *k)?;
        }
        for (of, by, k) in &size.quotients {
            let of = resolve(of, meaning).transpose()?;
            add(of.and_then(|of| meaning(Part::Quotient(of, *by))), *k)?;
        }
        Ok(())
    };
    if let Err(overflow) = sum() {
        return Some(Err(overflow));
    }
    complete.then(|| Affine::from_terms(terms, constant.offset()))
}

impl<'a> Elaborator<'a> {
    /// The extent of a binder.
    pub(super) fn extent(&mut self, e: ExprId) -> Option<Size> {
        let size = match linear(self.frame.source, e) {
            Ok(size) => size,
            Err(diagnostic) => {
                self.fail();
                if let Some(mut diagnostic) = diagnostic {
                    diagnostic.span = self.blame(diagnostic.span);
                    self.diagnose(diagnostic);
                }
                return None;
            }
        };
        let size = resolve(&size, &mut |part| self.size_part(part))?;
        self.checked(e, size)
    }

    /// Whether the range of a binder ends at an index.
    pub(super) fn is_below_index(&self, e: ExprId) -> bool {
        let size = linear(self.frame.source, e);
        size.is_ok_and(|size| size.names().iter().any(|name| self.index_named(name).is_some()))
    }

    /// An end of a range that is made of indices, and the largest value that it has; an index alone stands for its own range.
    pub(super) fn bound_by_index(&mut self, e: ExprId) -> Option<(Affine, Size)> {
        let size = linear(self.frame.source, e).ok()?;
        let span = self.span(e);
        let bound = resolve(&size, &mut |part| match part {
            Part::Name(name, span) => match (self.index_named(name), self.found_named(name)) {
                (Some(index), _) => Some(Ok(Affine::index(index))),
                (None, Some(var)) => self.index_of_variable(var).map(Ok),
                (None, None) => self.size_named(name, span).map(Ok),
            },
            Part::Quotient(of, _) if of.terms().iter().any(|(v, _)| matches!(v, Var::Index(_))) => {
                let message = "a range does not end at the quotient of an index";
                let help = "guard the body: `sum j < n. [j < i // 2] * ..`";
                self.diagnose(Diagnostic::new("index-in-extent", span, message).help(help));
                None
            }
            part => self.size_part(part),
        })?;
        let bound = self.checked(e, bound)?;
        let Some(largest) = self.largest_end(&bound) else {
            // It is wrong, and has been reported.
            self.fail();
            return None;
        };
        Some((bound, largest))
    }

    /// The largest value of an end of a range that is made of indices. An index of a binder that is alone stands for its own range.
    pub(super) fn largest_end(&self, bound: &Affine) -> Option<Size> {
        // Where a map is asked, and so where an index is found, does not say which values come of it.
        let mut largest = Affine::constant(bound.offset());
        for (v, k) in bound.terms() {
            let extent = match v {
                Var::Size(_) => None,
                Var::Index(index) => Some(self.knowledge.extent(*index).cloned()?),
                Var::Apply(application) => Some(super::bounds::shape(&self.program, application.map).pop()?),
            };
            let most = match extent {
                None => Affine::from_terms([(v.clone(), 1)], 0).ok()?,
                Some(extent) => {
                    let last = extent.add_constant(-1).ok()?;
                    // An axis that an index is found on has a place, but no size says so.
                    let some = Pred::non_negative(last.clone());
                    let alone = bound.as_index().is_some_and(|i| {
                        !self.is_stand_in(i) || self.knowledge.prove(&self.program, &some) != Proof::Known
                    });
                    match k {
                        1 if alone => extent,
                        1.. => last,
                        _ => continue,
                    }
                }
            };
            largest = largest.add(&most.scale(*k).ok()?).ok()?;
        }
        Some(largest)
    }

    /// What a name or a quotient means in a size.
    pub(super) fn size_part(&mut self, part: Part<'_>) -> Meant {
        match part {
            Part::Name(name, span) => self.size_named(name, span).map(Ok),
            Part::Quotient(of, by) => Some(self.size_quotient(&of, by)),
        }
    }

    /// `floor(of / by)` of a size.
    pub(super) fn size_quotient(&mut self, of: &Size, by: i64) -> Checked<Size> {
        let Elaborator { globals, program, knowledge, .. } = self;
        let signature = std::sync::Arc::make_mut(&mut program.signature);
        let (size, added) = signature.quotient(of, by, None, &|name| !globals.contains_key(name))?;
        added.into_iter().for_each(|p| knowledge.assume(p));
        Ok(size)
    }

    /// What a name means in a size.
    fn size_named(&mut self, name: &str, span: Span) -> Option<Size> {
        let span = self.blame(span);
        match self.meaning(name) {
            Meaning::Size(n) => return Some(n),
            Meaning::Error => self.fail(),
            Meaning::Index(_) => {
                let message = format!("an extent is a size, but `{name}` is an index");
                self.diagnose(
                    Diagnostic::new("index-in-extent", span, message).help(format!(
                        "range over the largest extent and guard the body: `sum j < n. [j < {name}] * ..`"
                    )),
                );
            }
            Meaning::Var(var) if self.size_of.contains_key(&var) => return self.variable_as_size(var),
            Meaning::Var(var) if self.is_index_variable(var) => self.found_in_type(name, var, span),
            Meaning::Var(_) => {
                let message = format!("an extent is a size, but `{name}` is a value");
                self.report("not-a-size", span, message);
            }
            Meaning::Callable(_) | Meaning::Function(_) => {
                let message = format!("an extent is a size, but `{name}` is {}", self.noun_of(name));
                self.report("not-a-size", span, message);
            }
            // A size of a declaration that could not be read.
            Meaning::Unknown if self.globals.values().any(|global| matches!(global, Global::Error)) => self.fail(),
            Meaning::Unknown if self.open_size(name).is_some() => {
                let function = self.open_size(name).unwrap_or_default();
                let message = format!("the size `{name}` does not follow from what `{function}` is called with");
                let help = "a function says the sizes that it takes, as in `fn x : [3] real. e`";
                self.diagnose(Diagnostic::new("size-mismatch", span, message).help(help));
            }
            Meaning::Unknown => {
                let sizes: Vec<String> = self.program.signature.sizes.values().cloned().collect();
                let mut diagnostic = Diagnostic::new("unknown-size", span, format!("there is no size `{name}`"));
                diagnostic = match closest(name, sizes.iter().map(String::as_str)) {
                    Some(close) => diagnostic.help(format!("did you mean `{close}`?")),
                    None => diagnostic.help(format!(
                        "sizes are declared by the types of parameters, by relations and by maps, and alone by `size {name}` in front"
                    )),
                };
                self.diagnose(diagnostic);
            }
        }
        None
    }

    /// Matches the types of arguments with the parameters of a definition, and solves for its sizes.
    ///
    /// Each axis gives an equation `formal = actual`. One with a single unknown binds it if its coefficient divides the rest;
    /// one without must hold.
    pub(super) fn match_sizes(
        &mut self,
        def: &Definition<'a>,
        args: &[(Actual, Span)],
        known: BTreeMap<&'a str, Size>,
    ) -> Option<BTreeMap<&'a str, Size>> {
        let mut equations = Vec::new();
        for (at, ((_, formal), (actual, span))) in def.params.iter().zip(args).enumerate() {
            let mut axes = Vec::new();
            if !self.match_type(def.source, formal, *actual, &mut axes, 0) {
                let diagnostic = self.other_type(def, at, *actual, *span);
                self.diagnose(diagnostic);
                return None;
            }
            equations.extend(axes.into_iter().map(|(formal, actual)| (at, formal, actual)));
        }
        let mut sizes = known;
        loop {
            let before = equations.len();
            let mut rest = Vec::new();
            for (at, formal, size) in std::mem::take(&mut equations) {
                match self.solve(&formal, &size, &mut sizes) {
                    Solved::Yes => {}
                    Solved::Later => rest.push((at, formal, size)),
                    Solved::No => {
                        let diagnostic = self.other_size(def, at, args[at], (&formal, &size), &sizes);
                        self.diagnose(diagnostic);
                        return None;
                    }
                }
            }
            equations = rest;
            if equations.is_empty() {
                return Some(sizes);
            }
            if equations.len() == before {
                // The sizes of a function's type may stay open: they are those of what it is applied to.
                equations.retain(|(at, ..)| !def.params[*at].1.has_function());
                let Some((at, ..)) = equations.first() else { return Some(sizes) };
                let at = *at;
                let message = format!(
                    "the sizes of `{}` do not follow from its arguments: `{}` leaves more than one unknown",
                    def.name.text,
                    show_formal(def.source, &def.params[at].1)
                );
                self.report("size-mismatch", args[at].1, message);
                return None;
            }
        }
    }

    /// That an argument has no type of the kind that its parameter has.
    fn other_type(&self, def: &Definition<'a>, at: usize, actual: Actual, span: Span) -> Diagnostic {
        let (name, formal) = &def.params[at];
        let message = format!(
            "`{}` takes `{}` of type `{}`, found `{}`",
            def.name.text,
            name.text,
            show_formal(def.source, formal),
            self.show_actual(actual)
        );
        let diagnostic = Diagnostic::new("type-mismatch", span, message);
        let is_vector = matches!(&formal.kind, TypeKind::Tensor(dims, _) if dims.len() == 1);
        let is_matrix = matches!(actual, Actual::Type(ty) if self.program.types.peel(ty).0.len() == 2);
        if !is_vector || !is_matrix {
            return diagnostic;
        }
        let name = &def.name.text;
        let call = |part: &str| {
            let args = (0..def.params.len()).map(|other| if other == at { part } else { ".." });
            format!("{name}({})", args.collect::<Vec<_>>().join(", "))
        };
        diagnostic.help(match foreign::of_matrix(name).filter(|_| def.library) {
            Some(help) => help.to_owned(),
            None if at == 0 && def.params.len() == 1 => {
                format!("of each row it is `{name}(A, axis = 1)`, of each column `{name}(A, axis = 0)`")
            }
            None => format!(
                "of each row it is `gen i < m. {}`, of each column `gen j < n. {}`",
                call("A[i, :]"),
                call("A[:, j]")
            ),
        })
    }

    /// That an axis of an argument has another size than others say.
    fn other_size(
        &self,
        def: &Definition<'a>,
        at: usize,
        (actual, span): (Actual, Span),
        (formal, size): (&Linear<'a>, &Size),
        sizes: &BTreeMap<&'a str, Size>,
    ) -> Diagnostic {
        let (name, ty) = &def.params[at];
        let known = self.show_sizes(sizes.iter().map(|(name, n)| (*name, n)));
        let message = format!(
            "`{}` takes `{}` of type `{}`{known}, found `{}`",
            def.name.text,
            name.text,
            show_formal(def.source, ty),
            self.show_actual(actual)
        );
        let diagnostic = Diagnostic::new("size-mismatch", span, message);
        let formal = resolve(formal, &mut |part| match part {
            Part::Name(name, _) => sizes.get(name).cloned().map(Ok),
            Part::Quotient(..) => None,
        });
        match formal {
            Some(Ok(n)) if self.depth() == 0 && may_be_equal(&n, size) => {
                let (n, size) = (self.show(&n), self.show(size));
                diagnostic.help(format!("if they are equal, say so: `assume {size} = {n}`"))
            }
            _ => diagnostic,
        }
    }

    /// Whether a value has the type that its definition says, which is reported otherwise. The sizes of the definition are in scope.
    pub(super) fn has_type(&mut self, def: usize, actual: Actual, result: &'a TypeExpr) -> bool {
        let definition = self.definitions[def];
        let mut axes = Vec::new();
        let mut same = self.match_type(definition.source, result, actual, &mut axes, 0);
        for (formal, size) in axes {
            let formal = resolve(&formal, &mut |part| match part {
                Part::Name(name, _) => match self.meaning(name) {
                    Meaning::Size(n) => Some(Ok(n)),
                    _ => None,
                },
                Part::Quotient(of, by) => Some(self.size_quotient(&of, by)),
            });
            same &= match formal {
                Some(Ok(n)) => n == size || Pred::equal(&n, &size).is_ok_and(|goal| self.proves(&goal)),
                _ => false,
            };
        }
        if !same {
            let (name, formal) = (&definition.name.text, show_formal(definition.source, result));
            let message = format!("`{name}` gives `{formal}`, but its value has type `{}`", self.show_actual(actual));
            let span = self.blame(result.span);
            self.report("type-mismatch", span, message);
        }
        same
    }

    /// Whether the forms agree; the axes are collected.
    pub(super) fn match_type(
        &self,
        source: &'a Source<'a>,
        formal: &'a TypeExpr,
        actual: Actual,
        axes: &mut Vec<(Linear<'a>, Size)>,
        depth: usize,
    ) -> bool {
        if depth > MAX_TYPE_NESTING {
            return false;
        }
        let actual = match actual {
            Actual::Type(ty) => ty,
            Actual::Function(_) if formal.kind == TypeKind::Inferred => return true,
            Actual::Function(shape) => return self.match_shape(source, formal, shape, axes, depth),
        };
        match (&formal.kind, self.program.types.get(actual).clone()) {
            (TypeKind::Real | TypeKind::Index(_), Type::Real) | (TypeKind::Inferred, _) => true,
            (TypeKind::Sum(_, pairs), _) => self.match_type(source, pairs, Actual::Type(actual), axes, depth + 1),
            (TypeKind::Pair(a, b), Type::Pair(c, d)) => {
                self.match_type(source, a, Actual::Type(c), axes, depth + 1)
                    && self.match_type(source, b, Actual::Type(d), axes, depth + 1)
            }
            (TypeKind::Tensor(dims, element), _) => {
                let mut actual = actual;
                for dim in dims {
                    let Type::Tensor(n, inner) = self.program.types.get(actual) else { return false };
                    let n = n.clone();
                    actual = *inner;
                    match linear(source, *dim) {
                        Ok(formal) => axes.push((formal, n)),
                        // Reported with the declaration.
                        Err(_) => return false,
                    }
                }
                self.match_type(source, element, Actual::Type(actual), axes, depth + 1)
            }
            _ => false,
        }
    }

    fn solve(&self, formal: &Linear<'a>, actual: &Size, sizes: &mut BTreeMap<&'a str, Size>) -> Solved {
        let mut unknown: BTreeMap<&'a str, i64> = BTreeMap::new();
        // rest = actual - known part of formal
        let mut rest = actual.clone();
        let mut subtract = || -> Checked<()> {
            rest = rest.sub(&Affine::constant(formal.constant))?;
            for (name, k, _) in &formal.terms {
                match sizes.get(name) {
                    Some(n) => rest = rest.sub(&n.scale(*k)?)?,
                    None => {
                        let sum = unknown.entry(name).or_insert(0);
                        *sum = sum.checked_add(*k).ok_or(crate::index::Overflow)?;
                    }
                }
            }
            Ok(())
        };
        if subtract().is_err() {
            return Solved::No;
        }
        unknown.retain(|_, k| *k != 0);
        let mut unknowns = unknown.into_iter();
        match (unknowns.next(), unknowns.next()) {
            (None, _) => {
                let same = Pred::zero(rest);
                match same.is_true() || self.knowledge.prove(&self.program, &same) == super::bounds::Proof::Known {
                    true => Solved::Yes,
                    false => Solved::No,
                }
            }
            (Some((name, k)), None) => {
                let divisible = rest.offset().checked_rem(k) == Some(0)
                    && rest.terms().iter().all(|(_, c)| c.checked_rem(k) == Some(0));
                if !divisible {
                    return Solved::No;
                }
                let terms = rest.terms().iter().map(|(v, c)| (v.clone(), c / k));
                match Affine::from_terms(terms, rest.offset() / k) {
                    Ok(n) => {
                        sizes.insert(name, n);
                        Solved::Yes
                    }
                    Err(_) => Solved::No,
                }
            }
            (Some(_), Some(_)) => Solved::Later,
        }
    }
}

enum Solved {
    Yes,
    Later,
    No,
}

/// A type of the program from a type as written. `None` where a problem was handed to `report`.
pub(super) fn declared_type<'a>(
    source: &Source<'a>,
    types: &mut Types,
    ty: &'a TypeExpr,
    size: &mut impl FnMut(&Source<'a>, ExprId) -> Option<Size>,
    report: &mut impl FnMut(Diagnostic),
    depth: usize,
) -> Option<TypeId> {
    if depth > MAX_TYPE_NESTING {
        let message = format!("types nest to a depth of at most {MAX_TYPE_NESTING}");
        report(Diagnostic::new("too-deep", ty.span, message));
        return None;
    }
    match &ty.kind {
        TypeKind::Function(..) => {
            report(Diagnostic::new("function-type", ty.span, "a parameter of the program is no function").help(
                "functions are passed to a `def` or a `fn`: `def f(x : real) = ..` declares one, and `fun` or `UserFunction` one with its own derivative",
            ));
            None
        }
        TypeKind::Real | TypeKind::Index(_) | TypeKind::Inferred => Some(Types::REAL),
        TypeKind::Sum(_, pairs) => declared_type(source, types, pairs, size, report, depth + 1),
        TypeKind::Pair(a, b) => {
            let a = declared_type(source, types, a, size, report, depth + 1);
            let b = declared_type(source, types, b, size, report, depth + 1);
            Some(types.pair(a?, b?))
        }
        TypeKind::Tensor(dims, element) => {
            let dims: Vec<Option<Size>> = dims.iter().map(|dim| size(source, *dim)).collect();
            let element = declared_type(source, types, element, size, report, depth + 1)?;
            let dims: Vec<Size> = dims.into_iter().collect::<Option<_>>()?;
            Some(types.tensor_of(&dims, element))
        }
    }
}

/// Checks the parameters of a definition: types as written, and distinct names. The sizes get their values at each call.
pub(super) fn check_parameters<'a>(
    source: &Source<'a>,
    params: &'a [(Name, TypeExpr)],
    result: Option<&'a TypeExpr>,
) -> Result<(), Vec<Diagnostic>> {
    let mut form = Form { source, sizes: Vec::new(), problems: Vec::new(), sound: true };
    params.iter().for_each(|(_, ty)| form.check(ty, false, 0));
    result.iter().for_each(|ty| form.check(ty, true, 0));
    let Form { sizes, mut problems, sound, .. } = form;
    let mut names: FxHashMap<&str, &'static str> = sizes.into_iter().map(|name| (name, "a size")).collect();
    for (name, _) in params {
        if let Some(old) = names.insert(&name.text, "a parameter") {
            let message = format!("`{}` is {old} of this definition already", name.text);
            problems.push(Diagnostic::new("duplicate-name", name.span, message).help("choose another name"));
        }
    }
    if sound && problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// What is found in the types of a definition.
struct Form<'s, 'a> {
    source: &'s Source<'a>,
    sizes: Vec<&'a str>,
    problems: Vec<Diagnostic>,
    sound: bool,
}

impl<'a> Form<'_, 'a> {
    /// Types nest to a bounded depth.
    fn check(&mut self, ty: &'a TypeExpr, in_result: bool, depth: usize) {
        if depth > MAX_TYPE_NESTING {
            let message = format!("types nest to a depth of at most {MAX_TYPE_NESTING}");
            self.problems.push(Diagnostic::new("too-deep", ty.span, message));
            return;
        }
        match &ty.kind {
            TypeKind::Real | TypeKind::Inferred => {}
            TypeKind::Index(n) => self.size(*n, in_result),
            TypeKind::Sum(_, pairs) => self.check(pairs, in_result, depth + 1),
            TypeKind::Pair(a, b) => [a, b].into_iter().for_each(|ty| self.check(ty, in_result, depth + 1)),
            TypeKind::Function(args, result) => {
                args.iter().for_each(|ty| self.check(ty, in_result, depth + 1));
                self.check(result, in_result, depth + 1);
            }
            TypeKind::Tensor(dims, element) => {
                dims.iter().for_each(|dim| self.size(*dim, in_result));
                if element.has_function() {
                    let message = "the elements of a tensor are no functions";
                    let help = "a function may give a tensor, `real -> [n] real`";
                    self.problems.push(Diagnostic::new("function-type", element.span, message).help(help));
                }
                self.check(element, in_result, depth + 1);
            }
        }
    }

    fn size(&mut self, dim: ExprId, in_result: bool) {
        match linear(self.source, dim) {
            Ok(size) => {
                self.sizes.extend(size.names());
                if !size.quotients.is_empty() && !in_result {
                    self.problems.push(not_solvable(self.source, dim));
                }
            }
            Err(problem) => {
                self.sound = false;
                self.problems.extend(problem);
            }
        }
    }
}

/// That an axis of a definition's parameter is no quotient.
fn not_solvable(source: &Source<'_>, dim: ExprId) -> Diagnostic {
    let span = source.ast.spans.get(dim).copied().unwrap_or_default();
    let message = "a size of a definition does not follow from a quotient";
    let help = "give the axis a name of its own: `def f(x : [n] real, y : [h] real) = ..`";
    Diagnostic::new("not-affine", span, message).help(help)
}

/// A type as written.
pub(super) fn show_formal(source: &Source<'_>, ty: &TypeExpr) -> String {
    match &ty.kind {
        TypeKind::Real => "real".into(),
        TypeKind::Index(n) => format!("index {}", show_size(source, *n)),
        TypeKind::Sum(name, _) => name.text.clone(),
        TypeKind::Inferred => "_".into(),
        TypeKind::Pair(a, b) => format!("({}, {})", show_formal(source, a), show_formal(source, b)),
        TypeKind::Function(args, result) => show_function(source, args, result),
        TypeKind::Tensor(dims, element) => {
            let dims: Vec<String> = dims.iter().map(|dim| show_size(source, *dim)).collect();
            format!("[{}] {}", dims.join(", "), show_formal(source, element))
        }
    }
}

/// `real -> real`, `(real, [n] real) -> real`
pub(super) fn show_function(source: &Source<'_>, args: &[TypeExpr], result: &TypeExpr) -> String {
    let one = matches!(args, [TypeExpr { kind: TypeKind::Real | TypeKind::Tensor(..), .. }]);
    let args: Vec<String> = args.iter().map(|ty| show_formal(source, ty)).collect();
    let args = if one { args.concat() } else { format!("({})", args.join(", ")) };
    format!("{args} -> {}", show_formal(source, result))
}

fn show_size(source: &Source<'_>, e: ExprId) -> String {
    linear(source, e).map_or_else(|_| "..".into(), |size| show_linear(&size))
}

fn show_linear(size: &Linear<'_>) -> String {
    let mut text = String::new();
    let names = size.terms.iter().map(|(name, k, _)| ((*name).to_owned(), *k));
    let quotients = size.quotients.iter().map(|(of, by, k)| (format!("(({}) // {by})", show_linear(of)), *k));
    for (name, k) in names.chain(quotients) {
        let sign = match (text.is_empty(), k < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        text.push_str(sign);
        match k.unsigned_abs() {
            1 => text.push_str(&name),
            k => text.push_str(&format!("{k}*{name}")),
        }
    }
    match size.constant {
        0 if !text.is_empty() => {}
        c if text.is_empty() => text = c.to_string(),
        c if c < 0 => text.push_str(&format!(" - {}", c.unsigned_abs())),
        c => text.push_str(&format!(" + {c}")),
    }
    text
}

//! From names to meaning: [`Ast`] to [`Program`].
//!
//! The grammar has one kind of expression; where it stands decides whether it is a *value*, an *index expression* or a *predicate*.
//! With `E` for the scope, the three judgements are
//!
//! ```text
//! value(e)  ==  a term and its type        x[i + 1] * 2
//! index(e)  ==  an affine form             i + 1
//! pred(e)   ==  a canonical predicate      i + 1 < n and E(i, j)
//! ```
//!
//! They are mutually recursive (a value holds brackets, a bracket may compare values, an index may be an `argmax` of values), so
//! one machine with an explicit task stack runs all three. Tasks of one kind push their result on the stack of that kind:
//! a term, an affine form or a predicate, or nothing where a problem was reported. Whoever uses a missing result produces a
//! missing result and says nothing, so one mistake gives one message.
//!
//! | file | what |
//! |---|---|
//! | `names` | scopes: local bindings, declarations, suggestions |
//! | `sizes` | sizes, types, matching the types of arguments |
//! | `parts` | the places of an access, parts of axes |
//! | `quotients` | floor division and remainders of indices |
//! | `values` | values |
//! | `brackets` | brackets around values, selects |
//! | `indices` | index expressions, maps |
//! | `predicates` | predicates |
//! | `computed` | relations computed from reals: comparisons, `argmax`; and `max` over an index |
//! | `sharing` | expressions with several users |
//! | `calls` | scalar functions, expansion of `def` |
//! | `found` | indices that are found at run time |
//! | `found_sizes` | ranges that end at such an index |
//! | `typed` | types at names, `let`s and parameters that are indices |
//! | `functions` | functions as values |
//! | `typings` | functions that are said to have a type |
//! | `axes` | functions along an axis |
//! | `added` | axes of length 1 that are added or kept |
//! | `advice` | what to write instead, where it depends on types |
//! | `arrays` | `zeros`, `eye` and the like, `einsum` |
//! | `ranges` | ranges that are not written |
//! | `bounds` | what is known at a place, and the proof that an access is in bounds |
//! | `decls` | declarations to a signature |
//! | `formulas` | the formulas of `fun` |
//! | `tensors` | arithmetic on whole tensors |
//! | `scans` | `fold` and `scan` |
//! | `sums` | sum types, `case` |
//! | `stacks` | definitions applied to each part of a tensor |
//! | `text` | names and types in messages |
//!
//! What a bracket computes from reals is bound by a `let` around the term that the bracket belongs to: an *anchor*. While a
//! predicate or an index is elaborated, the innermost anchor collects these lets.

mod added;
mod advice;
mod arrays;
mod axes;
mod bounds;
mod brackets;
mod calls;
mod computed;
mod decls;
mod externals;
mod formulas;
mod found;
mod found_sizes;
mod functions;
mod indices;
mod matrices;
mod names;
mod parts;
mod predicates;
mod quotients;
mod ranges;
mod scans;
mod sharing;
mod sizes;
mod stacks;
mod sums;
mod tensors;
mod text;
mod typed;
mod typings;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use self::bounds::Knowledge;
use self::calls::Definition;
use self::computed::{Anchor, Hoist, Hoisted};
use self::found::{Refined, StandIn};
use self::found_sizes::Behind;
use self::functions::{FunctionTask, Place, Shape, Values};
pub(super) use self::names::closest;
use self::names::{Global, Scopes};
use self::stacks::Stack;
use self::sums::{SumParam, SumTask, SumType};
use super::ast::{Arm, Ast, BinaryOp, BinderKind, Expr, ExprId, UnaryOp};
use super::parser::MAX_DIAGNOSTICS;
use crate::base::{FunctionId, IndexId, Span, VarId, work};
use crate::error::{Diagnostic, Error};
use crate::index::{Affine, Overflow, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Function, Op, UserFunction};
use crate::term::{Program, Term, TermId};
use crate::ty::Side;

/// How many operands one sum of indices, and one chain of `and` or `or`, may have.
const MAX_OPERANDS: usize = 1 << 22;
/// How many problems are met before elaboration stops, repetitions included.
const MAX_REPORTS: usize = 10_000;

/// Gives a program its meaning: names resolved, sizes and types inferred, every access proved in bounds.
///
/// `functions` are scalar functions that the caller registers; `fun` declarations of the program are added to them.
///
/// # Errors
/// Every problem found, in the order of the text. The list is empty if the only problems are those that the parser has reported.
pub fn elaborate(ast: &Ast, functions: &[UserFunction]) -> Result<Program, Vec<Diagnostic>> {
    elaborate_with(ast, &[], functions).map(|(program, _)| program).map_err(|mut problems| {
        ast.locate(&mut problems);
        problems
    })
}

/// Gives a program its meaning that has the definitions of some other texts, with warnings.
pub(super) fn elaborate_with(
    ast: &Ast,
    imported: &[Ast],
    functions: &[UserFunction],
) -> Result<(Program, Vec<Diagnostic>), Vec<Diagnostic>> {
    let prelude = &*PRELUDE;
    let functions = &UserFunction::with_derivatives(functions);
    let source = Source::new(ast);
    let imported: Vec<Source<'_>> = imported.iter().map(Source::new).collect();
    let elaborator = work::within(work::budget_of_text(ast.exprs.len()), || {
        let mut elaborator = Elaborator::declare(&source, prelude, &imported, functions);
        match ast.body {
            Some(body) => {
                elaborator.tasks.push(Task::Value(body));
                elaborator.run();
            }
            None => {
                let message = "the program has declarations but no expression";
                elaborator.report("missing-body", Span::default(), message);
            }
        }
        elaborator
    });
    elaborator.finish()
}

/// The library written in the language, see `prelude.iv`.
static PRELUDE: LazyLock<Source<'static>> = LazyLock::new(|| {
    static TEXT: LazyLock<Ast> = LazyLock::new(decls::parse_prelude);
    Source::new(&TEXT)
});

/// A tree and what is known of it before names have meaning.
struct Source<'a> {
    ast: &'a Ast,
    /// The values of the expressions that are built from integer literals only.
    constants: Vec<Option<i64>>,
    /// The expressions with several users.
    repeated: FxHashSet<ExprId>,
    /// Those of them that are bound, by where.
    shared: FxHashMap<ExprId, Vec<ExprId>>,
    /// The expressions that a product of matrices begins with: a vector is a row there.
    rows: FxHashSet<ExprId>,
    /// The powers that stand where matrices are multiplied.
    powers: FxHashMap<ExprId, matrices::Around>,
}

impl<'a> Source<'a> {
    fn new(ast: &'a Ast) -> Self {
        let mut constants: Vec<Option<i64>> = Vec::with_capacity(ast.exprs.len());
        for expr in ast.exprs.values() {
            let at = |e: &ExprId| constants.get(e.0 as usize).copied().flatten();
            let value = match expr {
                Expr::Number { integer, .. } => *integer,
                Expr::Unary(UnaryOp::Neg, a) => at(a).and_then(i64::checked_neg),
                Expr::Binary(op, a, b) => at(a).zip(at(b)).and_then(|(a, b)| match op {
                    BinaryOp::Add => a.checked_add(b),
                    BinaryOp::Sub => a.checked_sub(b),
                    BinaryOp::Mul => a.checked_mul(b),
                    BinaryOp::FloorDiv if b > 0 => Some(a.div_euclid(b)),
                    BinaryOp::Rem if b > 0 => Some(a.rem_euclid(b)),
                    _ => None,
                }),
                _ => None,
            };
            constants.push(value);
        }
        let (repeated, shared) = sharing::shared(ast);
        Source { ast, constants, repeated, shared, rows: tensors::rows(ast), powers: matrices::powers(ast) }
    }
}

/// Which tree a task reads, and whom to blame for problems in it.
#[derive(Clone, Copy)]
struct Frame<'a> {
    source: &'a Source<'a>,
    /// Distinct for each expansion of a definition.
    place: usize,
    /// The call, while the library is expanded: its own text is not the user's.
    blame: Option<Span>,
    /// The innermost call of a definition that the text in force stands in, among [`Elaborator::calls`].
    call: Option<usize>,
    /// The `fn` whose body it is.
    function: Option<ExprId>,
}

/// A bracket whose body is being elaborated.
struct OpenGuard {
    pred: Option<Pred>,
    /// The bracket without the quotients in it, and these.
    plain: Option<(Pred, Vec<quotients::Quotient>)>,
    hoisted: Hoisted,
    /// The places at which it asks, where it compares tensors.
    axes: Option<brackets::Axes>,
    /// How many facts were known before the bracket.
    facts: usize,
}

/// A step of the machine. The first three begin an expression, the others end one from the results of its parts.
enum Task<'a> {
    Value(ExprId),
    Pred(ExprId),
    Index(ExprId),
    /// A map application or `argmax`; in bounds unless it becomes the atom `map(..) = ..`.
    Application {
        at: ExprId,
        prove: bool,
    },

    /// A value whose shared parts are bound.
    Unshared(ExprId),
    Share(ExprId),
    CloseShares {
        at: ExprId,
        shared: Vec<ExprId>,
    },

    Negate(ExprId),
    Transpose(ExprId),
    Product(ExprId),
    Einsum(ExprId),
    Total(ExprId, &'a str),
    TotalAlong(ExprId, &'a str, i64),
    AddAxes(ExprId),
    KeepAxes(ExprId, Vec<i64>),
    Arithmetic(ExprId, BinaryOp),
    Power(ExprId, i32),
    Pair(ExprId),
    Project(ExprId, Side),
    Access(ExprId),
    SparseAccess(ExprId, VarId, usize),
    StoredAccess(ExprId, VarId, usize),
    IndexValue(ExprId),
    /// The value of a `let` is complete, as a number and as an index expression.
    BoundIndex,
    Apply(ExprId, Function, usize),
    Fold(ExprId, Op, usize),
    External(ExprId, FunctionId, usize),
    EnterGuard,
    Iverson(ExprId),
    SelectElse(ExprId),
    Select(ExprId),
    /// A body up to the end of its range, and what stands behind it.
    UpTo(ExprId, ExprId, Behind),
    Bound {
        at: ExprId,
        kind: BinderKind,
        index: IndexId,
        extent: Option<Size>,
    },
    LargestOf {
        at: ExprId,
        view: View,
        var: VarId,
        extent: Size,
        n: usize,
    },
    BindLet(ExprId),
    Let(ExprId, Option<VarId>),
    /// A `let` whose name is an index: the variable and its value, if there are such, and what goes around.
    LetIndex(ExprId, Option<(VarId, TermId)>, Vec<(VarId, TermId)>),
    /// An argument that is an index, where it is one.
    IndexArgument(ExprId),
    /// An index expression that is in the range of a type.
    TypedIndex(ExprId, Size),
    /// A part of a value that is an index of this range.
    FoundIndex(ExprId, Size),
    Conform(ExprId),
    Sum(ExprId, SumTask),
    EnterArm {
        at: ExprId,
        arm: &'a Arm,
        fields: Vec<TermId>,
        guard: Pred,
    },
    Function(ExprId, FunctionTask<'a>),
    EnterScan {
        at: ExprId,
        steps: Option<Size>,
    },
    Scan {
        at: ExprId,
        index: IndexId,
        /// How many steps it says.
        most: Option<Size>,
        state: Option<VarId>,
    },
    Expand {
        at: ExprId,
        def: usize,
        args: Vec<Option<VarId>>,
        along: Option<i64>,
    },
    Return {
        at: ExprId,
        def: usize,
        lets: Vec<(VarId, TermId)>,
        bound: Vec<&'a str>,
        stack: Option<Stack>,
    },

    /// The operands of `and` or `or` from `next` on.
    Chain {
        at: ExprId,
        op: BinaryOp,
        parts: Vec<ExprId>,
        next: usize,
        /// How many facts are known around the chain.
        facts: usize,
        negated: bool,
    },
    Exists {
        at: ExprId,
        index: IndexId,
        extent: Option<Size>,
        negated: bool,
    },
    CompareIndices {
        at: ExprId,
        op: BinaryOp,
        negated: bool,
    },
    CompareReals {
        at: ExprId,
        op: BinaryOp,
        negated: bool,
    },
    Relation {
        relation: RelationRef,
        n: usize,
        holds: bool,
    },

    Affine {
        at: ExprId,
        terms: Vec<(Var, i64)>,
        constant: i64,
        coefficients: Vec<i64>,
    },
    Quotient(ExprId),
    Remainder(ExprId),
    MapApplication {
        at: ExprId,
        map: RelationRef,
        n: usize,
        prove: bool,
    },
    ArgOfVector {
        at: ExprId,
        view: View,
    },
    ArgOf {
        at: ExprId,
        view: View,
        index: IndexId,
        extent: Option<Size>,
    },
}

/// The machine.
struct Elaborator<'a> {
    program: Program,
    globals: FxHashMap<&'a str, Global>,
    definitions: Vec<Definition<'a>>,
    scopes: Scopes<'a>,
    frame: Frame<'a>,
    callers: Vec<Frame<'a>>,
    /// The definitions that are or were expanded, each with the call in whose text it is called.
    calls: Vec<(usize, Option<usize>)>,
    /// The values that hold functions.
    shapes: Vec<Shape<'a>>,
    /// What is known of each `fn`, by its tree and place.
    functions: FxHashMap<(usize, ExprId), functions::Known<'a>>,

    tasks: Vec<Task<'a>>,
    values: Values,
    affines: Vec<Option<Affine>>,
    preds: Vec<Option<Pred>>,

    knowledge: Knowledge,
    anchors: Vec<Anchor>,
    hoists: Vec<Hoist>,
    guards: Vec<OpenGuard>,

    diagnostics: Vec<Diagnostic>,
    /// What is right and hardly meant.
    warnings: Vec<Diagnostic>,
    reported: FxHashSet<(&'static str, Span, String)>,
    /// How many problems were met.
    reports: usize,
    /// Whether the program is known to be wrong, reported or not.
    failed: bool,
    /// How many enclosing guards are erroneous: what they would have proved is not known.
    silent: usize,
    /// The variables of the shared expressions in scope, nothing for an erroneous one.
    shares: FxHashMap<(usize, ExprId), Option<VarId>>,
    /// Which shared expressions are made of indices only.
    index_like: FxHashMap<(usize, ExprId), bool>,
    /// How many definitions have been expanded.
    expansions: usize,
    /// The index that takes the place of another, since its `gen` was taken apart. It is younger.
    aliases: BTreeMap<IndexId, IndexId>,
    /// The indices of axes that were added, which no element mentions.
    unread: FxHashSet<IndexId>,
    /// The ranges that are not written, by the places where they would be.
    ranges: FxHashMap<(usize, ExprId), Size>,
    /// The indices that are quotients of others: what each divides, and by what.
    quotient_indices: BTreeMap<IndexId, (Affine, i64)>,
    /// What is known of variables beside their types.
    refined: FxHashMap<VarId, Refined>,
    /// The index expressions that variables are bound to, and those variables among them that are read as numbers.
    affine_of: FxHashMap<VarId, Affine>,
    read_as_numbers: FxHashSet<VarId>,
    /// The sizes that variables are bound to, and those variables among them that are read as sizes.
    size_of: FxHashMap<VarId, Size>,
    read_as_sizes: FxHashSet<VarId>,
    /// The index expressions that numbers about stand-ins were.
    index_terms: FxHashMap<TermId, Affine>,
    /// The indices that stand for variables.
    stand_ins: BTreeMap<IndexId, StandIn>,
    stand_in_of: FxHashMap<VarId, IndexId>,
    /// What is expected of expressions that come next, by place.
    expected: FxHashMap<(usize, ExprId), Refined>,
    /// The sum types of the program, and the parameters that have one.
    sum_types: Vec<SumType<'a>>,
    sum_params: Vec<SumParam>,
    /// Whether there are terms that nothing uses.
    left_out: bool,
    /// The built-in functions by name, as far as they were looked up.
    ops: FxHashMap<&'a str, Option<Function>>,
}

impl<'a> Elaborator<'a> {
    fn run(&mut self) {
        let limit = work::terms_of_text(self.frame.source.ast.exprs.len());
        while let Some(task) = self.tasks.pop() {
            work::charge(8);
            if self.program.terms.len() as u64 > limit {
                self.report_expansion(limit);
                self.tasks.clear();
                return;
            }
            if work::is_used_up() {
                self.report_work();
                self.tasks.clear();
                return;
            }
            if self.diagnostics.len() >= MAX_DIAGNOSTICS || self.reports >= MAX_REPORTS {
                self.tasks.clear();
                return;
            }
            self.step(task);
        }
    }

    /// The call in the program itself that is being expanded.
    fn outermost_call(&self) -> Option<Span> {
        let Some(frame) = self.callers.first() else {
            // The branches of a chosen function are applied in the program itself.
            let at = self.tasks.iter().find_map(|task| match task {
                Task::Function(at, FunctionTask::Choose) => Some(*at),
                _ => None,
            });
            return at.map(|at| self.span(at));
        };
        let at = self.tasks.iter().find_map(|task| match task {
            Task::Return { at, .. } => Some(*at),
            _ => None,
        })?;
        Some(frame.blame.unwrap_or(frame.source.ast.spans.get(at).copied().unwrap_or_default()))
    }

    /// Reports that the program is too large with its definitions expanded, and which of them was expanded most often.
    fn report_expansion(&mut self, limit: u64) {
        let span = self.outermost_call().unwrap_or_default();
        let most = self.definitions.iter().max_by_key(|definition| definition.expanded);
        let often = most.filter(|definition| definition.expanded > 0).map_or_else(String::new, |definition| {
            format!("; `{}` was expanded {} times", definition.name.text, definition.expanded)
        });
        let message = format!("the program has more than {limit} terms where its definitions are expanded{often}");
        let help = "a definition is expanded at each call: bind a result that is needed more than once by `let`, and leave out calls";
        self.diagnose(Diagnostic::new("too-large", span, message).help(help));
    }

    /// Reports that checking takes too long, at the expression that it has come to.
    fn report_work(&mut self) {
        let at = self
            .values
            .terms()
            .rev()
            .find_map(|term| Some(self.program.spans[term]).filter(|span| *span != Span::default()));
        let span = self.outermost_call().or(at).unwrap_or_default();
        let limit = work::budget_of_text(self.frame.source.ast.exprs.len());
        let message =
            format!("checking the program takes more than {limit} units of work, and was given up about here");
        let help = "fewer guards and indices around an access make the proof that it is in bounds shorter";
        self.diagnose(Diagnostic::new("too-much-work", span, message).help(help));
    }

    fn step(&mut self, task: Task<'a>) {
        match task {
            Task::Value(e) => self.value(e),
            Task::Pred(e) => self.pred(e),
            Task::Index(e) => self.index(e),
            Task::Application { at, prove } => self.application(at, prove),

            Task::Unshared(e) => self.unshared_value(e),
            Task::Share(e) => self.share(e),
            Task::CloseShares { at, shared } => self.close_shares(at, &shared),

            Task::Negate(at) => self.finish_negate(at),
            Task::Transpose(at) => self.finish_transpose(at),
            Task::Product(at) => self.finish_product(at),
            Task::Einsum(at) => self.finish_einsum(at),
            Task::Total(at, name) => self.finish_total(at, name),
            Task::TotalAlong(at, name, axis) => self.finish_total_along(at, name, axis),
            Task::AddAxes(at) => self.finish_new_axes(at),
            Task::KeepAxes(at, axes) => self.finish_kept_axes(at, &axes),
            Task::Arithmetic(at, op) => self.finish_arithmetic(at, op),
            Task::Power(at, k) => self.finish_power(at, k),
            Task::Pair(at) => self.finish_pair(at),
            Task::Project(at, side) => self.finish_project(at, side),
            Task::Access(at) => self.finish_access(at),
            Task::SparseAccess(at, var, n) => self.finish_sparse_access(at, var, n),
            Task::StoredAccess(at, var, n) => self.finish_stored_access(at, var, n),
            Task::IndexValue(at) => self.finish_index_value(at),
            Task::BoundIndex => self.finish_bound_index(),
            Task::Apply(at, function, n) => self.finish_apply(at, function, n),
            Task::Fold(at, op, n) => self.finish_fold(at, op, n),
            Task::External(at, f, n) => self.finish_external(at, f, n),
            Task::EnterGuard => self.enter_guard(),
            Task::Iverson(at) => self.finish_iverson(at),
            Task::SelectElse(at) => self.select_else(at),
            Task::Select(at) => self.finish_select(at),
            Task::UpTo(end, body, behind) => self.finish_up_to(end, body, behind),
            Task::Bound { at, kind, index, extent } => self.finish_binder(at, kind, index, extent),
            Task::LargestOf { at, view, var, extent, n } => self.finish_largest_of(at, view, var, extent, n),
            Task::BindLet(at) => self.bind_let(at),
            Task::Let(at, var) => self.finish_let(at, var),
            Task::LetIndex(at, bound, lets) => self.finish_let_index(at, bound, lets),
            Task::IndexArgument(e) => self.index_argument(e),
            Task::TypedIndex(at, extent) => self.finish_typed_index(at, &extent),
            Task::FoundIndex(at, extent) => self.finish_found_index(at, &extent),
            Task::Conform(at) => self.finish_typed(at),
            Task::Sum(at, task) => self.sum_step(at, task),
            Task::EnterArm { at, arm, fields, guard } => self.enter_arm(at, arm, fields, guard),
            Task::Function(at, task) => self.function_step(at, task),
            Task::EnterScan { at, steps } => self.enter_scan(at, steps),
            Task::Scan { at, index, most, state } => self.finish_scan(at, index, most, state),
            Task::Expand { at, def, args, along } => self.expand(at, def, args, along),
            Task::Return { at, def, lets, bound, stack } => self.return_from(at, def, lets, bound, stack),

            Task::Chain { at, op, parts, next, facts, negated } => self.chain(at, op, parts, next, facts, negated),
            Task::Exists { at, index, extent, negated } => self.finish_exists(at, index, extent, negated),
            Task::CompareIndices { at, op, negated } => self.finish_compare_indices(at, op, negated),
            Task::CompareReals { at, op, negated } => self.finish_compare_reals(at, op, negated),
            Task::Relation { relation, n, holds } => self.finish_relation(relation, n, holds),

            Task::Affine { at, terms, constant, coefficients } => {
                self.finish_affine(at, terms, constant, &coefficients);
            }
            Task::Quotient(at) => self.finish_quotient(at),
            Task::Remainder(at) => self.finish_remainder(at),
            Task::MapApplication { at, map, n, prove } => self.finish_map_application(at, map, n, prove),
            Task::ArgOfVector { at, view } => self.finish_arg_of_vector(at, view),
            Task::ArgOf { at, view, index, extent } => self.finish_arg_of(at, view, index, extent),
        }
    }

    /// The program and warnings, or the problems.
    fn finish(mut self) -> Result<(Program, Vec<Diagnostic>), Vec<Diagnostic>> {
        let root = self.pop_value_in(Place::Program);
        match root {
            Some(root) if !self.failed => match self.settle(root) {
                Ok(root) => {
                    self.program.root = root;
                    Ok((self.program, self.warnings))
                }
                Err(overflow) => Err(vec![Diagnostic::new("overflow", Span::default(), overflow.to_string())]),
            },
            _ => {
                self.diagnostics.sort_by_key(|d| d.span.start);
                Err(self.diagnostics)
            }
        }
    }

    fn expr(&self, e: ExprId) -> &'a Expr {
        &self.frame.source.ast.exprs[e]
    }

    fn span(&self, e: ExprId) -> Span {
        self.blame(self.frame.source.ast.spans.get(e).copied().unwrap_or_default())
    }

    /// A place of the text in force, or the call that the library is expanded for.
    fn blame(&self, span: Span) -> Span {
        self.frame.blame.unwrap_or(span)
    }

    fn constant(&self, e: ExprId) -> Option<i64> {
        self.frame.source.constants.get(e.0 as usize).copied().flatten()
    }

    fn report(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnose(Diagnostic::new(code, span, message));
    }

    /// Keeps a problem. A definition is expanded at each call, so the same problem may be met again.
    fn diagnose(&mut self, diagnostic: Diagnostic) {
        self.failed = true;
        self.reports += 1;
        let Diagnostic { code, span, message, .. } = &diagnostic;
        if self.diagnostics.len() < MAX_DIAGNOSTICS && self.reported.insert((*code, *span, message.clone())) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// The result of index arithmetic; an overflow is the program's fault.
    fn checked<T>(&mut self, at: ExprId, result: Result<T, Overflow>) -> Option<T> {
        if result.is_err() {
            let span = self.span(at);
            self.report("overflow", span, Overflow.to_string());
        }
        result.ok()
    }

    /// Appends a term. Its operands have been checked, so it has a type.
    fn push(&mut self, term: Term, span: Span) -> Option<TermId> {
        match self.program.push_at(term, span) {
            Ok(id) => Some(id),
            Err(error @ Error::Limit { .. }) => {
                self.report("too-much-work", span, error.to_string());
                None
            }
            Err(error) => {
                let message = match error {
                    Error::Bug { message, .. } => message,
                    other => other.to_string(),
                };
                self.report("compiler-bug", span, format!("compiler bug in `elaborate`: {message}"));
                None
            }
        }
    }

    fn pop_value(&mut self) -> Option<TermId> {
        self.pop_value_in(Place::Any)
    }

    fn pop_value_in(&mut self, place: Place) -> Option<TermId> {
        let item = self.values.pop();
        self.term_of(item, place)
    }

    /// The last `n` values in order.
    fn pop_values(&mut self, n: usize) -> Vec<Option<TermId>> {
        self.values.take(n).into_iter().map(|item| self.term_of(item, Place::Any)).collect()
    }

    fn pop_affine(&mut self) -> Option<Affine> {
        self.affines.pop().flatten()
    }

    /// The last `n` affine forms in order, nothing if one of them is missing.
    fn pop_affines(&mut self, n: usize) -> Option<Vec<Affine>> {
        let from = self.affines.len().saturating_sub(n);
        // Every one must be drained, whether or not one is missing.
        let all: Vec<Option<Affine>> = self.affines.drain(from..).collect();
        all.into_iter().collect()
    }

    /// The last `n` predicates in order, nothing if one of them is missing.
    fn pop_preds(&mut self, n: usize) -> Option<Vec<Pred>> {
        let from = self.preds.len().saturating_sub(n);
        let all: Vec<Option<Pred>> = self.preds.drain(from..).collect();
        all.into_iter().collect()
    }

    /// A problem has been reported, or the parser has reported one.
    fn fail(&mut self) {
        self.failed = true;
    }
}

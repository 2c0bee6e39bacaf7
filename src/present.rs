//! Tensor-SSA as a term that people can read.
//!
//! ```text
//! X = gen g < n. sum s < m. [s = a and p] * Y[s] * Z[g]     reads     let x = gen i < n. [p] * y[a] * z[i]
//! ```
//!
//! 1. **What stays a variable.** A statement with several uses, or one that a guard reads as a relation, becomes a `let`, in the order of the
//!    statements. One with a single use moves to where it is used, unless it would be computed more often there: every loop around the
//!    use must be one of its own axes. Parameters and numbers are written where they are read, and so are plain views of
//!    variables.
//! 2. **Indices.** A `sum` index that an equation with a unit coefficient fixes is replaced, `s = a`; that `a` is in the range of `s`
//!    joins the guard. An atom `f(b, s)` of a map fixes `s = f(b)`, with `b` in the range of the map.
//! 3. **Guards.** What follows from the ranges of the indices around, the guards around and the assumptions on sizes is dropped. The
//!    rest stands as far out as its indices allow: `sum s. [p] * e == [p] * sum s. e` where `p` does not mention `s`.
//!    `[p] * a + [p] * b == [p] * (a + b)`. A comparison that only guards read stands in the bracket itself.
//! 4. **Sparse parameters.** `[A?(a) and p] * A.value(a) * y` reads `[p] * A[a] * y` where `y` is a plain access that needs no guard.
//!    This is the only place where a factor is read outside a guard that it had: the products differ where `y` is infinite or
//!    NaN and `A` has no entry.
//!
//! 5. **Arithmetic.** Operands change places, and signs move, such that chains need no parentheses: `a - 2 * b` for `-2 * b + a`. A one-hot
//!    sum over an `argmax` is the `max` that it came from.
//!
//! All other steps keep every bit of every value, except that `0 + x` may lose the sign of a zero: so does `a - [p] * b` for
//! `a + [p] * -b`. No statement with work is written
//! twice, so the result is linear in the program; nothing recurses on statements.

mod arith;
mod brackets;
mod largest;
mod naming;

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Id, IndexId, ParamId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Facts, Pred, RelationRef, Size, Var, View, value_of};
use crate::scalar::{Function, Number};
use crate::term::{self, NormalForm, Term, TermId};
use crate::tssa::{Operand, Output, Program, Rhs};
use crate::ty::{RelationKind, Side, Type, Types};

use largest::Largest;

const PASS: &str = "present";

/// How many of the guards around take part in a proof, innermost first.
const MAX_GUARDS: usize = 16;

/// Inside of more loops every statement with work has a variable.
const MAX_LOOPS: usize = 64;

/// How many atoms a guard may have to be simplified.
const MAX_WEIGHT: usize = 32;

/// The program as a term: the outputs as a tuple (one output: itself), with pairs of tensors where an output is a tensor of
/// pairs.
///
/// # Errors
/// [`Error::Overflow`]; [`Error::Limit`] for an output of too many components; [`Error::Bug`] where a statement is not well formed.
pub fn present(program: &Program) -> Result<term::Program> {
    let mut presenter = Presenter::new(program)?;
    presenter.outputs()?;
    presenter.bindings()?;
    naming::name_indices(&mut presenter.term);
    without_unused(presenter.term)
}

/// The program without terms that nothing uses: reading forms replace parts of what was built.
fn without_unused(mut program: term::Program) -> Result<term::Program> {
    let mut used = crate::base::SideTable::new(program.terms.len(), false);
    used.set(program.root, true);
    for (e, term) in program.terms.iter().rev() {
        if used[e] {
            term.for_each_operand(|operand| used.set(operand, true));
        }
    }
    let terms = std::mem::take(&mut program.terms);
    program.term_types = crate::base::Arena::new();
    let mut moved = crate::base::SideTable::new(terms.len(), TermId(0));
    for (e, term) in terms.iter().filter(|(e, _)| used[*e]) {
        let kept = program.push(term.map_operands(|operand| moved[operand]))?;
        moved.set(e, kept);
    }
    program.root = moved[program.root];
    Ok(program)
}

/// What stands around a place: the innermost loop and guard.
#[derive(Clone, Copy, Default)]
struct Context {
    /// One more than its place in `loops`; zero for none.
    loops: usize,
    /// The same in `guards`.
    guards: usize,
}

enum Task {
    /// The element of a statement at a place.
    Visit(VarId, Vec<Affine>, Context),
    /// The same, of its right-hand side, even if it is a variable.
    Expand(VarId, Vec<Affine>, Context),
    /// Puts together the terms that were built last.
    Build(Build),
}

enum Build {
    Literal(f64),
    Add,
    Mul,
    Apply(Function, usize),
    Iverson(Pred),
    /// `[rest and f(..) != 0] * e`, with the opposite of the comparison where it does not hold; it reads the entries, as `rest` says.
    Compare {
        function: Function,
        arity: usize,
        holds: bool,
        entries: Pred,
        rest: Pred,
    },
    /// `e + [n <= 0] * limit`.
    OrLimit(Size, f64),
    Sum(IndexId, Size),
    Gen(IndexId, Size),
    Pair,
    Var(VarId),
}

struct Presenter<'a> {
    source: &'a Program,
    term: term::Program,
    /// The statements that are variables.
    shared: Vec<bool>,
    /// Views that are written wherever they are read.
    plain: Vec<bool>,
    vars: Vec<Option<VarId>>,
    /// The statements that are comparisons and read as relations only.
    comparison: Vec<bool>,
    /// Those of them that have a variable, by that.
    comparison_of: BTreeMap<VarId, VarId>,
    /// Those of them that some guard reads by name.
    asked: Vec<bool>,
    /// Sizes that are positive wherever what is being written is looked at.
    assured: BTreeSet<Size>,
    /// The same for the variables that are still to be written, by their uses so far.
    assured_by_uses: Vec<Option<BTreeSet<Size>>>,
    /// The loops around some place: the index and what is around it, and how many loops that makes.
    loops: Vec<(IndexId, usize, usize)>,
    /// The guards around some place: the guard and what is around it.
    guards: Vec<(Pred, usize)>,
    /// The ranges of the indices of the term, none for those that an `exists` binds, which may have no value.
    ranges: Vec<Option<Size>>,
    built: Vec<TermId>,
}

/// A contraction under construction, over indices of the term.
struct Contraction {
    sums: Vec<(IndexId, Size)>,
    guard: Pred,
    operands: Vec<(VarId, Vec<Affine>)>,
}

fn bug(message: &str) -> Error {
    Error::bug(PASS, message)
}

/// What a statement is -1 times, without a guard.
fn negation(source: &Program, x: VarId) -> Option<VarId> {
    let Rhs::Contract { sums, guard: Pred::True, operands } = &source.stmts[x].rhs else { return None };
    let [a, b] = operands.as_slice() else { return None };
    let minus = |y: VarId| matches!(source.stmts[y].rhs, Rhs::Number(Number::Literal(-1.0)));
    match (minus(a.var), minus(b.var)) {
        _ if !sums.is_empty() => None,
        (true, _) => Some(b.var),
        (_, true) => Some(a.var),
        _ => None,
    }
}

/// The value of an index that a conjunct fixes, and what must hold for it.
struct Solution {
    index: IndexId,
    /// Which conjunct fixes it.
    atom: usize,
    value: Affine,
    condition: Pred,
    /// Whether the other conjuncts say the condition.
    known: bool,
}

impl<'a> Presenter<'a> {
    fn new(source: &'a Program) -> Result<Self> {
        let n = source.stmts.len();
        let mut uses = vec![0u32; n];
        // How often a guard reads it, and whether as something else than its support.
        let mut read_as_relation = vec![0u32; n];
        let mut read_as_map = vec![false; n];
        let mut comparison = vec![false; n];
        let mut compared = vec![false; n];
        let mut count = |x: VarId| match uses.get_mut(x.index()) {
            Some(uses) => {
                *uses = uses.saturating_add(1);
                Ok(())
            }
            None => Err(bug("a statement reads what is not there")),
        };
        for x in source.outputs.iter().flat_map(|output| &output.leaves) {
            count(*x)?;
        }
        // Users come later, so the uses of a statement are known when it is met from behind.
        for (x, stmt) in source.stmts.iter().rev() {
            if uses[x.index()] == 0 {
                continue;
            }
            let mut sound = true;
            stmt.rhs.for_each_operand(|y| sound &= y < x);
            if !sound {
                return Err(bug("an operand does not come before its user"));
            }
            // A negation is written wherever it is read, as a sign.
            let readers = if negation(source, x).is_some() { uses[x.index()].max(1) } else { 1 };
            stmt.rhs.for_each_operand(|y| uses[y.index()] = uses[y.index()].saturating_add(readers));
            let mut relation = |p: &Pred| {
                p.visit_relations(&mut |r| {
                    if let RelationRef::Computed { var, view } = r {
                        let reads = &mut read_as_relation[var.index()];
                        *reads = reads.saturating_add(1);
                        read_as_map[var.index()] |= view != View::Support;
                    }
                });
            };
            stmt.rhs.guards().for_each(&mut relation);
            let relation_only = uses[x.index()] == read_as_relation[x.index()] && !read_as_map[x.index()];
            if relation_only && brackets::is_comparison(source, x) {
                comparison[x.index()] = true;
                stmt.rhs.for_each_operand(|y| compared[y.index()] = true);
            }
        }
        let mut presenter = Presenter {
            source,
            term: term::Program::new(source.signature.clone()),
            shared: vec![false; n],
            plain: vec![false; n],
            vars: vec![None; n],
            comparison,
            comparison_of: BTreeMap::new(),
            asked: vec![false; n],
            assured: BTreeSet::new(),
            assured_by_uses: vec![None; n],
            loops: Vec::new(),
            guards: Vec::new(),
            ranges: Vec::new(),
            built: Vec::new(),
        };
        presenter.term.form = NormalForm::LetLifted;
        for (x, stmt) in source.stmts.iter() {
            let at = x.index();
            let leaf = matches!(stmt.rhs, Rhs::Input { .. } | Rhs::Number(_));
            presenter.plain[at] = leaf || presenter.is_view(x)? || negation(source, x).is_some();
            let direct = presenter.whole_param(x).is_some();
            let several = (uses[at] > 1 || compared[at]) && !presenter.plain[at];
            presenter.shared[at] = read_as_relation[at] > 0 && !direct || several;
        }
        Ok(presenter)
    }

    /// Whether a tensor is a sum of which each side has a guard that is a case of `p`: then `p` need not be said again.
    fn says(&self, x: VarId, p: &Pred) -> bool {
        match &self.source.stmts[x].rhs {
            Rhs::Add(sides) => sides.iter().all(|(q, _)| p.has_cases_of(q)),
            _ => false,
        }
    }

    /// Whether a statement reads one element of a parameter or a variable, under a short guard at most.
    fn is_view(&self, x: VarId) -> Result<bool> {
        let Rhs::Contract { sums, guard, operands } = &self.source.stmts[x].rhs else { return Ok(false) };
        let [operand] = operands.as_slice() else { return Ok(false) };
        let leaf = matches!(self.source.stmts[operand.var].rhs, Rhs::Input { .. } | Rhs::Number(_));
        if !(leaf || self.is_variable(operand.var)) || guard.weight() > sums.len() + 1 {
            return Ok(false);
        }
        // Each `sum` index is fixed by an equation of its own.
        let first = self.source.stmts[x].dims.len();
        let fixed = |s: usize| {
            let s = Var::Index(IndexId::from_index(s));
            guard.conjuncts().iter().any(|p| match p {
                Pred::Zero(a) => {
                    let others = a.terms().iter().filter(|(v, _)| *v != s);
                    let mut others = others.map(|(v, _)| v);
                    a.coefficient(&s).unsigned_abs() == 1
                        && others.all(|v| !matches!(v, Var::Index(i) if i.index() >= first))
                }
                _ => false,
            })
        };
        Ok((first..first + sums.len()).all(fixed))
    }

    /// The parameter that a statement is all of.
    fn whole_param(&self, x: VarId) -> Option<ParamId> {
        match &self.source.stmts[x].rhs {
            Rhs::Input { param, path } if path.is_empty() => Some(*param),
            _ => None,
        }
    }

    /// Where a sparse parameter is read, the atom of its pattern: with it the element is written `A[i, j]`.
    fn pattern(&self, x: VarId, place: &[Affine]) -> Option<Pred> {
        let pattern = self.source.signature.params[self.whole_param(x)?].storage.pattern()?;
        Some(Pred::relation(RelationRef::Input(pattern), place.to_vec()))
    }

    fn outputs(&mut self) -> Result<()> {
        let mut tasks = Vec::new();
        let source = self.source;
        for output in &source.outputs {
            self.output(output, &mut tasks)?;
        }
        let outputs = source.outputs.len();
        if outputs == 0 {
            tasks.push(Task::Build(Build::Literal(0.0)));
        }
        tasks.extend((1..outputs).map(|_| Task::Build(Build::Pair)));
        self.term.root = self.run(tasks)?;
        Ok(())
    }

    /// The leaves of an output as pairs of tensors, in the order of [`Types::leaves`].
    fn output(&mut self, output: &Output, tasks: &mut Vec<Task>) -> Result<()> {
        let types = &self.source.signature.types;
        if types.leaves(output.ty)?.len() != output.leaves.len() {
            return Err(bug("an output has not the leaves of its type"));
        }
        enum Part {
            Type(crate::ty::TypeId),
            Pair,
        }
        let mut leaves = output.leaves.iter();
        let mut parts = vec![Part::Type(output.ty)];
        while let Some(part) = parts.pop() {
            match part {
                Part::Pair => tasks.push(Task::Build(Build::Pair)),
                Part::Type(ty) => match *self.source.signature.types.get(self.element(ty)) {
                    Type::Pair(a, b) => parts.extend([Part::Pair, Part::Type(b), Part::Type(a)]),
                    Type::Real | Type::Tensor(..) => {
                        let x = *leaves.next().ok_or_else(|| bug("an output lacks a leaf"))?;
                        self.leaf(x, tasks)?;
                    }
                },
            }
        }
        Ok(())
    }

    fn element(&self, ty: crate::ty::TypeId) -> crate::ty::TypeId {
        self.source.signature.types.peel(ty).1
    }

    fn leaf(&mut self, x: VarId, tasks: &mut Vec<Task>) -> Result<()> {
        let pattern = self.whole_param(x).and_then(|p| self.source.signature.params[p].storage.pattern());
        if self.shared[x.index()] {
            self.record_other_use(x);
            let var = self.var(x);
            tasks.push(Task::Build(Build::Var(var)));
        } else if let (Some(param), None) = (self.whole_param(x), pattern) {
            let var = self.term.param(param);
            tasks.push(Task::Build(Build::Var(var)));
        } else {
            self.tensor(x, tasks)?;
        }
        Ok(())
    }

    /// `gen g. rhs`.
    fn tensor(&mut self, x: VarId, tasks: &mut Vec<Task>) -> Result<()> {
        let mut context = Context::default();
        let dims = &self.source.stmts[x].dims;
        let gens: Vec<(IndexId, Size)> = dims.iter().map(|n| (self.enter_loop(n, &mut context), n.clone())).collect();
        let place = Affine::indices(&gens);
        let stored = self.pattern(x, &place).map(Build::Iverson);
        tasks.push(Task::Expand(x, place, context));
        tasks.extend(stored.map(Task::Build));
        tasks.extend(gens.into_iter().rev().map(|(i, n)| Task::Build(Build::Gen(i, n))));
        Ok(())
    }

    /// Binds the variables, the last one innermost.
    fn bindings(&mut self) -> Result<()> {
        let mut bound = Vec::new();
        for x in self.source.stmts.ids().rev() {
            // All uses have been written, so it is known whether anything refers to the variable.
            let (true, Some(var)) = (self.shared[x.index()], self.vars[x.index()]) else { continue };
            if self.comparison[x.index()] && !self.asked[x.index()] {
                continue;
            }
            self.assured = self.assured_by_uses[x.index()].take().unwrap_or_default();
            let mut tasks = Vec::new();
            self.tensor(x, &mut tasks)?;
            let value = self.run(tasks)?;
            self.term.root = self.term.push(Term::Let { var, value, body: self.term.root })?;
            bound.push((x, var));
        }
        let unnamed = bound.into_iter().rev().filter(|(x, _)| self.source.names[*x].is_empty());
        for (number, (_, var)) in unnamed.enumerate() {
            self.term.variables[var].name = format!("t{number}");
        }
        Ok(())
    }

    /// The variable of a statement, which is shared.
    fn var(&mut self, x: VarId) -> VarId {
        if let Some(var) = self.vars[x.index()] {
            return var;
        }
        let ty = self.term.types.tensor_of(&self.source.stmts[x].dims, Types::REAL);
        let var = self.term.fresh_var(self.source.names[x].clone(), ty);
        self.vars[x.index()] = Some(var);
        if self.comparison[x.index()] {
            self.comparison_of.insert(var, x);
        }
        var
    }

    fn enter_loop(&mut self, extent: &Size, context: &mut Context) -> IndexId {
        let depth = self.depth(*context);
        let index = self.index(Some(extent));
        self.loops.push((index, context.loops, depth + 1));
        context.loops = self.loops.len();
        index
    }

    fn index(&mut self, extent: Option<&Size>) -> IndexId {
        let index = self.term.fresh_index("i");
        self.ranges.push(extent.cloned());
        index
    }

    /// The number of loops around.
    fn depth(&self, context: Context) -> usize {
        context.loops.checked_sub(1).map_or(0, |at| self.loops[at].2)
    }

    fn enter_guard(&mut self, guard: &Pred, context: Context) -> Context {
        if guard.is_true() {
            return context;
        }
        self.guards.push((guard.clone(), context.guards));
        Context { guards: self.guards.len(), ..context }
    }

    fn run(&mut self, mut tasks: Vec<Task>) -> Result<TermId> {
        tasks.reverse();
        let mut more = Vec::new();
        while let Some(task) = tasks.pop() {
            match task {
                Task::Visit(x, place, context) => self.visit(x, place, context, &mut more)?,
                Task::Expand(x, place, context) => self.expand(x, place, context, &mut more)?,
                Task::Build(build) => self.build(build)?,
            }
            tasks.extend(more.drain(..).rev());
        }
        match (self.built.pop(), self.built.is_empty()) {
            (Some(term), true) => Ok(term),
            _ => Err(bug("the terms do not add up")),
        }
    }

    fn pop(&mut self) -> Result<TermId> {
        self.built.pop().ok_or_else(|| bug("an operand is missing"))
    }

    fn build(&mut self, build: Build) -> Result<()> {
        let term = match build {
            Build::Literal(x) => Term::Number(Number::Literal(x)),
            Build::Var(x) => Term::Var(x),
            Build::Add => {
                let (b, a) = (self.pop()?, self.pop()?);
                let sum = self.add(a, b)?;
                self.built.push(sum);
                return Ok(());
            }
            Build::Mul => {
                let (b, a) = (self.pop()?, self.pop()?);
                let product = self.mul(a, b)?;
                self.built.push(product);
                return Ok(());
            }
            Build::Apply(function, n) => {
                let from = self.built.len().checked_sub(n).ok_or_else(|| bug("an argument is missing"))?;
                Term::Apply(function, self.built.split_off(from))
            }
            Build::Iverson(guard) => match guard {
                Pred::True => return Ok(()),
                guard => {
                    let body = self.pop()?;
                    self.guarded(guard, body)
                }
            },
            Build::Compare { function, arity, holds, entries, rest } => {
                self.build_compare(function, arity, holds, entries, rest)?
            }
            Build::OrLimit(n, limit) => {
                let e = self.pop()?;
                self.or_limit(e, &n, limit)?
            }
            Build::Sum(index, extent) => Term::Sum { index, extent, body: self.pop()? },
            Build::Gen(index, extent) => Term::Gen { index, extent, body: self.pop()? },
            Build::Pair => {
                let (b, a) = (self.pop()?, self.pop()?);
                Term::Pair(a, b)
            }
        };
        let id = self.term.push(term)?;
        self.built.push(id);
        Ok(())
    }

    fn visit(&mut self, x: VarId, place: Vec<Affine>, context: Context, out: &mut Vec<Task>) -> Result<()> {
        self.share_costly(x, &place, context);
        // A parameter is read itself even where a guard needs a copy of it.
        if self.is_variable(x) {
            self.record_use(x, context);
            let array = Term::Var(self.var(x));
            let array = self.term.push(array)?;
            let read = self.term.access(array, place)?;
            self.built.push(read);
            return Ok(());
        }
        self.expand(x, place, context, out)
    }

    /// Makes a statement a variable that would be computed more often at a place.
    fn share_costly(&mut self, x: VarId, place: &[Affine], context: Context) {
        let at = x.index();
        self.shared[at] = self.shared[at] || !self.plain[at] && !self.is_affordable(x, place, context);
    }

    /// Whether writing a statement here does not repeat its work: it has none, or every loop around is one of its axes, or makes a single
    /// round for them, by an equation or a map.
    fn is_affordable(&self, x: VarId, place: &[Affine], context: Context) -> bool {
        if let Rhs::Contract { sums, operands, .. } = &self.source.stmts[x].rhs
            && sums.is_empty()
            && operands.len() == 1
        {
            return true;
        }
        let mut open = BTreeSet::new();
        let mut at = context.loops;
        while let Some(here) = at.checked_sub(1) {
            let (index, around, _) = self.loops[here];
            open.insert(index);
            // More loops than a few are not looked at.
            if open.len() > MAX_LOOPS {
                return false;
            }
            at = around;
        }
        open.retain(|i| !place.iter().any(|a| a.as_index() == Some(*i)));
        let mut at = context.guards;
        for _ in 0..MAX_GUARDS {
            let Some(here) = at.checked_sub(1) else { break };
            let (guard, around) = &self.guards[here];
            guard.conjuncts().iter().for_each(|p| self.close(p, &mut open));
            at = *around;
        }
        open.is_empty()
    }

    /// Removes the index that a conjunct fixes by others than the open ones.
    fn close(&self, p: &Pred, open: &mut BTreeSet<IndexId>) {
        let mentioned = |a: &Affine| open.iter().copied().filter(|i| a.mentions(*i)).collect::<Vec<_>>();
        let fixed = match p {
            Pred::Zero(a) => match mentioned(a).as_slice() {
                [i] => Some(*i),
                _ => None,
            },
            Pred::Relation { relation, args, holds: true } if self.is_map(*relation) => match args.split_last() {
                Some((target, source)) if source.iter().all(|a| mentioned(a).is_empty()) => target.as_index(),
                _ => None,
            },
            _ => None,
        };
        open.retain(|i| fixed != Some(*i));
    }

    fn is_map(&self, relation: RelationRef) -> bool {
        match relation {
            RelationRef::Input(r) => self.source.signature.relations[r].kind == RelationKind::Map,
            RelationRef::Computed { view, .. } => view != View::Support,
        }
    }

    /// The right-hand side of a statement with its axes at a place.
    fn expand(&mut self, x: VarId, place: Vec<Affine>, context: Context, out: &mut Vec<Task>) -> Result<()> {
        let source = self.source;
        let stmt = &source.stmts[x];
        if stmt.dims.len() != place.len() {
            return Err(bug("a tensor is read at the wrong number of indices"));
        }
        match &stmt.rhs {
            Rhs::Input { param, path } => {
                let read = self.read_param(*param, path, place)?;
                self.built.push(read);
            }
            Rhs::Number(number) => {
                let number = match number {
                    Number::Literal(x) => Number::Literal(*x),
                    Number::Index(a) => Number::Index(self.affine(a, &place)?),
                };
                let number = self.term.push(Term::Number(number))?;
                self.built.push(number);
            }
            Rhs::Add(sides) => {
                let mut summands = 0;
                let mut guards = Vec::with_capacity(sides.len());
                for (p, y) in sides {
                    let guard = self.pred(p, &place)?;
                    guards.push(if self.says(*y, p) { Pred::True } else { self.simplify(&guard, context) });
                }
                for (at, (_, y)) in sides.iter().enumerate().filter(|(at, _)| !guards[*at].is_false()) {
                    summands += 1;
                    let inner = self.enter_guard(&guards[at], context);
                    out.push(Task::Visit(*y, place.clone(), inner));
                    let atom = self.pattern(*y, &place);
                    // Said by the element, unless it guards both sides.
                    let both = atom.iter().all(|p| guards.iter().all(|guard| guard.conjuncts().contains(p)));
                    let said = |p: &&Pred| both || atom.as_ref() != Some(*p);
                    let guard = Pred::all(guards[at].conjuncts().iter().filter(said).cloned());
                    out.extend(atom.clone().map(|p| Task::Build(Build::Iverson(p))));
                    self.bracket(&guard, context, out);
                }
                out.push(Task::Build(match summands {
                    0 => Build::Literal(0.0),
                    1 => Build::Iverson(Pred::True),
                    _ => Build::Add,
                }));
            }
            Rhs::Map { guard, function, args } => {
                let guard = self.pred(guard, &place)?;
                let guard = self.simplify(&guard, context);
                if guard.is_false() {
                    out.push(Task::Build(Build::Literal(0.0)));
                    return Ok(());
                }
                let inner = self.enter_guard(&guard, context);
                for y in args {
                    out.push(Task::Visit(*y, place.clone(), inner));
                    out.extend(self.pattern(*y, &place).map(|p| Task::Build(Build::Iverson(p))));
                }
                out.push(Task::Build(Build::Apply(*function, args.len())));
                self.bracket(&guard, context, out);
            }
            Rhs::Contract { sums, guard, operands } => {
                let mut contraction = self.open(&place, sums, guard, operands)?;
                let largest = self.largest(&contraction, context);
                if let Largest::No = largest {
                    contraction = self.solve(contraction, context)?;
                }
                self.contract(contraction, context, largest, out);
            }
        }
        Ok(())
    }

    /// A leaf of a parameter at a place: projections and accesses in the order of its type.
    fn read_param(&mut self, param: ParamId, path: &[Side], place: Vec<Affine>) -> Result<TermId> {
        let (mut path, mut place) = (path.iter(), place.into_iter());
        let mut term = self.term.push(Term::Var(self.term.param(param)))?;
        loop {
            term = match self.term.types.get(self.term.ty(term)) {
                Type::Real => return Ok(term),
                Type::Pair(..) => {
                    let side = path.next().ok_or_else(|| bug("an input is no leaf of its parameter"))?;
                    self.term.push(match side {
                        Side::Fst => Term::Fst(term),
                        Side::Snd => Term::Snd(term),
                    })?
                }
                Type::Tensor(..) => {
                    let index = place.next().ok_or_else(|| bug("an input is read at too few indices"))?;
                    self.term.push(Term::Access { array: term, index })?
                }
            };
        }
    }

    /// An index expression of a statement whose first indices are given.
    fn affine(&self, a: &Affine, place: &[Affine]) -> Result<Affine> {
        Ok(a.substitute(&|i| place.get(i.index()).cloned())?)
    }

    /// A guard of a statement whose first indices are given, over indices and variables of the term.
    fn pred(&mut self, p: &Pred, place: &[Affine]) -> Result<Pred> {
        Ok(match p {
            Pred::All(ps) => Pred::all(ps.iter().map(|p| self.pred(p, place)).collect::<Result<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| self.pred(p, place)).collect::<Result<Vec<_>>>()?),
            Pred::Exists { index, extent, body } => {
                // Bound indices are numbered behind those in scope.
                if index.index() != place.len() {
                    return Err(bug("an index of an `exists` is out of order"));
                }
                let fresh = self.index(None);
                let mut place = place.to_vec();
                place.push(Affine::index(fresh));
                let body = self.pred(body, &place)?;
                Pred::exists(fresh, extent.clone(), body)
            }
            Pred::Relation { relation, args, holds } => {
                let args = args.iter().map(|a| self.affine(a, place)).collect::<Result<Vec<_>>>()?;
                match *relation {
                    RelationRef::Computed { var, view } => {
                        let own = self.guard_of_comparison(var, &args, *holds)?;
                        let relation = RelationRef::Computed { var: self.relation_var(var), view };
                        own.and(Pred::Relation { relation, args, holds: *holds })
                    }
                    relation => Pred::Relation { relation, args, holds: *holds },
                }
            }
            atom => atom.substitute(&|i| place.get(i.index()).cloned())?,
        })
    }

    fn relation_var(&mut self, x: VarId) -> VarId {
        match self.whole_param(x) {
            Some(param) => self.term.param(param),
            None => {
                self.record_other_use(x);
                self.var(x)
            }
        }
    }

    fn open(&mut self, place: &[Affine], sums: &[Size], guard: &Pred, operands: &[Operand]) -> Result<Contraction> {
        let sums: Vec<(IndexId, Size)> = sums.iter().map(|n| (self.index(Some(n)), n.clone())).collect();
        let place: Vec<Affine> = place.iter().cloned().chain(sums.iter().map(|(s, _)| Affine::index(*s))).collect();
        let guard = self.pred(guard, &place)?;
        let operands = operands
            .iter()
            .map(|x| {
                let indices = x.indices.iter().map(|i| place.get(i.index()).cloned()).collect::<Option<Vec<_>>>();
                Ok((x.var, indices.ok_or_else(|| bug("an operand is read at an unbound index"))?))
            })
            .collect::<Result<_>>()?;
        Ok(Contraction { sums, guard, operands })
    }

    /// Replaces `sum` indices that the guard fixes.
    fn solve(&mut self, mut contraction: Contraction, context: Context) -> Result<Contraction> {
        // That the sources of maps are in range, where this was known.
        let mut sources: Vec<Pred> = Vec::new();
        // That there are targets, since there is one.
        let mut targets: Vec<Pred> = Vec::new();
        while let Some(Solution { index, atom, value, condition, known }) = self.solution(&contraction, context)? {
            if let Some((_, extent)) = contraction.sums.iter().find(|(s, _)| *s == index && value.nesting() > 0) {
                targets.push(Pred::non_negative(extent.add_constant(-1)?));
            }
            let replace = |i: IndexId| (i == index).then(|| value.clone());
            let replaced = |p: &Pred| -> Result<Pred> { Ok(p.substitute(&replace)?) };
            sources = sources.iter().map(replaced).collect::<Result<_>>()?;
            let kept = contraction.guard.conjuncts().iter().enumerate().filter(|(at, _)| *at != atom);
            let kept = Pred::all(kept.map(|(_, p)| replaced(p)).collect::<Result<Vec<_>>>()?);
            contraction.guard = match known {
                true => {
                    sources.extend((value.nesting() > 0).then_some(condition));
                    kept
                }
                false => kept.and(condition),
            };
            contraction.sums.retain(|(s, _)| *s != index);
            for a in contraction.operands.iter_mut().flat_map(|(_, place)| place) {
                *a = a.substitute(&replace)?;
            }
        }
        // What said so may now mention the target: it has to be said without.
        for p in sources {
            let plain: Vec<Pred> =
                contraction.guard.conjuncts().iter().filter(|p| !p.applies_maps()).cloned().collect();
            if !self.proves(&p, &plain, context) {
                contraction.guard = contraction.guard.and(p);
            }
        }
        for p in targets {
            if self.reads_need(&contraction, &p, context) {
                contraction.guard = contraction.guard.and(p);
            }
        }
        contraction.guard = self.simplify(&contraction.guard, context);
        Ok(contraction)
    }

    /// Whether an operand is known to be read within its axes by a predicate alone, but for what maps say.
    fn reads_need(&self, contraction: &Contraction, p: &Pred, context: Context) -> bool {
        let plain = contraction.guard.conjuncts().iter().filter(|p| !p.applies_maps()).cloned().collect::<Vec<_>>();
        let with: Vec<Pred> = plain.iter().chain([p]).cloned().collect();
        contraction.operands.iter().any(|(x, place)| {
            place.iter().zip(&self.source.stmts[*x].dims).filter(|(a, _)| a.nesting() == 0).any(|(a, n)| {
                Pred::in_range(a, n)
                    .is_ok_and(|range| !self.proves(&range, &plain, context) && self.proves(&range, &with, context))
            })
        })
    }

    /// The best index to replace: one whose value is known to be in range, else that of the operand which is least known to the reader, so
    /// that a sum runs over the places of a parameter rather than over those of what is computed from it.
    fn solution(&self, contraction: &Contraction, context: Context) -> Result<Option<Solution>> {
        let Contraction { sums, guard, operands } = contraction;
        let mut best: Option<(Option<_>, Solution)> = None;
        for (atom, p) in guard.conjuncts().iter().enumerate() {
            for (index, extent) in sums {
                let Some((value, condition)) = self.fixed(p, *index, extent)? else { continue };
                let others: Vec<Pred> =
                    guard.conjuncts().iter().filter(|q| *q != p && !q.mentions(*index)).cloned().collect();
                let known = self.proves(&condition, &others, context);
                let solution = Solution { index: *index, atom, value, condition, known };
                if known {
                    return Ok(Some(solution));
                }
                let rank = operands.iter().filter(|(_, place)| place.iter().any(|a| a.mentions(*index)));
                let rank = rank.map(|(x, _)| self.familiarity(*x)).min();
                if best.as_ref().is_none_or(|(other, _)| rank > *other) {
                    best = Some((rank, solution));
                }
            }
        }
        Ok(best.map(|(_, solution)| solution))
    }

    /// Parameters come first, in order, and then what is computed.
    fn familiarity(&self, x: VarId) -> (Option<VarId>, Option<ParamId>) {
        match &self.source.stmts[x].rhs {
            Rhs::Input { param, .. } => (None, Some(*param)),
            _ => (Some(x), None),
        }
    }

    /// The value that an atom fixes for an index, and when it has one.
    fn fixed(&self, p: &Pred, index: IndexId, extent: &Size) -> Result<Option<(Affine, Pred)>> {
        match p {
            Pred::Zero(_) => {
                let Some(value) = value_of(index, p, &|_| false) else { return Ok(None) };
                let condition = Pred::in_range(&value, extent)?;
                Ok(Some((value, condition)))
            }
            Pred::Relation { relation, args, holds: true } => {
                let Some(value) = value_of(index, p, &|map| self.is_map(map)) else { return Ok(None) };
                let shape = self.shape(*relation);
                let (Some((_, source)), true) = (args.split_last(), shape.len() == args.len()) else { return Ok(None) };
                let ranges = source.iter().zip(&shape).map(|(a, n)| Pred::in_range(a, n));
                let mut condition = Pred::all(ranges.collect::<std::result::Result<Vec<_>, _>>()?);
                if shape.last() != Some(extent) {
                    condition = condition.and(Pred::in_range(&value, extent)?);
                }
                if let (RelationRef::Computed { .. }, Some(last)) = (relation, shape.last()) {
                    // Of an empty range there is no largest element, and a guard cannot keep the expression from having none.
                    let some = Pred::non_negative(last.add_constant(-1)?);
                    if !self.proves(&some, &[], Context::default()) {
                        return Ok(None);
                    }
                }
                Ok(Some((value, condition)))
            }
            _ => Ok(None),
        }
    }

    /// The ranges of the places of a relation over variables of the term.
    fn shape(&self, relation: RelationRef) -> Vec<Size> {
        match relation {
            RelationRef::Input(r) => self.source.signature.relations[r].shape.clone(),
            RelationRef::Computed { var, .. } => {
                self.term.types.real_dims(self.term.variables[var].ty).unwrap_or_default()
            }
        }
    }

    fn contract(&mut self, contraction: Contraction, context: Context, largest: Largest, out: &mut Vec<Task>) {
        let Contraction { sums, guard, operands } = contraction;
        if guard.is_false() {
            out.push(Task::Build(Build::Literal(0.0)));
            return;
        }
        // The conjuncts by the innermost `sum` that they mention.
        let mut levels: Vec<Vec<Pred>> = vec![Vec::new(); sums.len() + 1];
        for p in guard.conjuncts() {
            let level = sums.iter().rposition(|(s, _)| p.mentions(*s)).map_or(0, |at| at + 1);
            levels[level].push(p.clone());
        }
        let mut inner = self.enter_guard(&guard, context);
        for (index, _) in &sums {
            let depth = self.depth(inner);
            self.loops.push((*index, inner.loops, depth + 1));
            inner.loops = self.loops.len();
        }
        for (x, place) in &operands {
            self.share_costly(*x, place, inner);
            let (x, place) = self.arranged(*x, place);
            self.share_costly(x, &place, inner);
        }
        let stored = self.stored(&operands, &guard, context);
        let mut innermost = levels.pop().unwrap_or_default();
        // An atom is spelt at the access if it stands directly around, and no comparison in the bracket reads the entry.
        let here = |p: &Pred| innermost.contains(p) && !innermost.iter().any(|q| self.compares(q, p));
        let stored: Vec<Option<Pred>> = stored.into_iter().map(|p| p.filter(here)).collect();
        innermost.retain(|p| !stored.iter().flatten().any(|q| p == q));
        let factors = operands.len();
        for ((x, place), atom) in operands.into_iter().zip(stored) {
            out.push(Task::Visit(x, place, inner));
            out.extend(atom.map(|p| Task::Build(Build::Iverson(p))));
        }
        out.extend((1..factors).map(|_| Task::Build(Build::Mul)));
        self.bracket(&Pred::all(innermost), context, out);
        for ((index, extent), guard) in sums.into_iter().zip(levels).rev() {
            out.push(Task::Build(Build::Sum(index, extent.clone())));
            if let Largest::Or(limit) = largest {
                out.push(Task::Build(Build::OrLimit(extent, limit)));
            }
            self.bracket(&Pred::all(guard), context, out);
        }
    }

    /// Whether reads of a statement are written as those of a variable.
    fn is_variable(&self, x: VarId) -> bool {
        self.shared[x.index()] && !self.plain[x.index()]
    }

    /// What a read comes to through statements that are no variables and all elements of another one, with the axes in another order or
    /// repeated.
    fn arranged(&self, x: VarId, place: &[Affine]) -> (VarId, Vec<Affine>) {
        let (mut x, mut place) = (x, place.to_vec());
        while let Rhs::Contract { sums, guard: Pred::True, operands } = &self.source.stmts[x].rhs
            && let ([], [operand]) = (sums.as_slice(), operands.as_slice())
            && !self.is_variable(x)
        {
            place = operand.indices.iter().filter_map(|i| place.get(i.index()).cloned()).collect();
            x = operand.var;
        }
        (x, place)
    }

    /// For each factor the atom that guards it as a read of a sparse parameter, if it can be written there.
    fn stored(&self, operands: &[(VarId, Vec<Affine>)], guard: &Pred, context: Context) -> Vec<Option<Pred>> {
        let atom = |(x, place): &(VarId, Vec<Affine>)| {
            let atom = self.pattern(*x, place)?;
            guard.conjuncts().contains(&atom).then_some(atom)
        };
        let atoms: Vec<Option<Pred>> = operands.iter().map(atom).collect();
        let rest: Vec<Pred> =
            guard.conjuncts().iter().filter(|p| !atoms.iter().flatten().any(|q| q == *p)).cloned().collect();
        let free = operands.iter().zip(&atoms).all(|((x, place), atom)| {
            atom.is_some() || operands.len() == 1 || {
                let (x, place) = self.arranged(*x, place);
                let dense = match &self.source.stmts[x].rhs {
                    Rhs::Input { param, .. } => self.source.signature.params[*param].storage.pattern().is_none(),
                    Rhs::Number(_) => true,
                    _ => self.is_variable(x),
                };
                dense
                    && place.iter().zip(&self.source.stmts[x].dims).all(|(a, n)| {
                        Pred::in_range(a, n).is_ok_and(|range| self.proves(&range, &rest, context))
                            && self.has_value(a, &rest, context)
                    })
            }
        });
        if free { atoms } else { vec![None; operands.len()] }
    }

    /// Whether the sources of all maps that an expression applies are known to be in range.
    fn has_value(&self, a: &Affine, more: &[Pred], context: Context) -> bool {
        let mut all = true;
        a.visit(&mut |v| {
            if let Var::Apply(application) = v {
                let shape = self.shape(application.map);
                all &=
                    application.args.iter().zip(&shape).all(|(source, n)| {
                        Pred::in_range(source, n).is_ok_and(|range| self.proves(&range, more, context))
                    });
            }
        });
        all
    }

    /// What is known at a place, as far as it is connected with a predicate.
    fn facts(&self, goal: &Pred, more: &[Pred], context: Context) -> Facts {
        let mut known: Vec<Pred> = self.source.signature.assumptions.clone();
        known.extend_from_slice(more);
        let mut at = context.guards;
        for _ in 0..MAX_GUARDS {
            let Some(here) = at.checked_sub(1) else { break };
            let (guard, around) = &self.guards[here];
            if guard.weight() <= MAX_WEIGHT {
                known.push(guard.clone());
            }
            at = *around;
        }
        let mut implied = Vec::new();
        let mut indices = BTreeSet::new();
        let mut maps = BTreeSet::new();
        for p in known.iter().chain([goal]) {
            p.visit_affine(&mut |a| {
                a.visit(&mut |v| match v {
                    Var::Index(i) => drop(indices.insert(*i)),
                    Var::Size(_) => {}
                    Var::Apply(application) => {
                        maps.insert(application.map);
                        if let Some(n) = self.shape(application.map).last() {
                            implied.extend(Pred::in_range(&Affine::var(v.clone()), n));
                        }
                    }
                });
            });
        }
        for p in known.iter().flat_map(Pred::conjuncts) {
            if let Pred::Relation { relation, args, holds: true } = p {
                let ranges = args.iter().zip(self.shape(*relation));
                implied.extend(ranges.filter_map(|(a, n)| Pred::in_range(a, &n).ok()));
            }
        }
        let mut facts = Facts::new();
        maps.into_iter().for_each(|map| facts.functional(map));
        for i in indices {
            if let Some(Some(extent)) = self.ranges.get(i.index()) {
                facts.range(i, extent);
            }
        }
        known.iter().chain(&implied).for_each(|p| facts.assume(p));
        facts
    }

    fn proves(&self, goal: &Pred, more: &[Pred], context: Context) -> bool {
        goal.is_true() || self.facts(goal, more, context).proves(goal)
    }

    fn simplify(&self, guard: &Pred, context: Context) -> Pred {
        if guard.is_true() || guard.is_false() || guard.weight() > MAX_WEIGHT {
            return guard.clone();
        }
        // What keeps the source of a map in range must not go because the map has a value.
        let mut levels: BTreeMap<usize, Vec<Pred>> = BTreeMap::new();
        for p in guard.conjuncts() {
            levels.entry(p.applied()).or_default().push(p.clone());
        }
        let mut simpler = Pred::True;
        for level in levels.into_values().map(Pred::all) {
            simpler = self.facts(&level, std::slice::from_ref(&simpler), context).simplify(&level).and(simpler);
        }
        simpler
    }
}

#[cfg(test)]
#[path = "present_tests.rs"]
mod tests;

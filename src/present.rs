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
//!    `[p] * a + [p] * b == [p] * (a + b)`. That a sum has a term is not said: `[exists s. q] * sum s. [q] * e == sum s. [q] * e`.
//!    A comparison that only guards read stands in the bracket itself, also below `or`.
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
//!
//! **Work.** Each statement is visited once, and once more for each place that reads a view of a variable; what is looked at there are its
//! operands, a few guards and loops around it, and a few factors of a product. All proofs together have the budget of a pass: what is not
//! proved by then is said.
//!
//! | file | job |
//! |---|---|
//! | `variables` | which statements are variables |
//! | `statements` | the right-hand side of a statement at a place |
//! | `sums` | `sum` indices that the guard fixes |
//! | `knowledge` | what is known at a place |
//! | `brackets` | comparisons in the bracket that asks for them |
//! | `largest` | the largest element of a row |
//! | `arith` | how sums and products are spelt |
//! | `naming` | names of indices |

mod arith;
mod brackets;
mod knowledge;
mod largest;
mod naming;
mod statements;
mod sums;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::{BTreeMap, BTreeSet};

use self::brackets::Asked;
use self::variables::stands_for;
use crate::base::{Id, IndexId, VarId, work};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::scalar::{Function, Number};
use crate::term::{self, NormalForm, Term, TermId};
use crate::tssa::{Output, Program, Rhs};
use crate::ty::{Type, Types};

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
    work::within(work::budget(program.stmts.len()), || {
        let mut presenter = Presenter::new(program)?;
        presenter.outputs()?;
        presenter.bindings()?;
        naming::name_indices(&mut presenter.term);
        without_unused(presenter.term)
    })
}

/// The program without terms that nothing uses: reading forms replace parts of what was built.
pub(crate) fn without_unused(mut program: term::Program) -> Result<term::Program> {
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
    /// `[p] * e` where `p` asks some comparisons, `c` in the place of each.
    Either {
        guard: Pred,
        /// In the order of their arguments.
        asked: Vec<Asked>,
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
    /// How many of them are for the place where they are read.
    late_variables: usize,
    /// Where chains of multiples end, and how many late variables there were when they did.
    ends: Vec<Option<(VarId, usize)>>,
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

fn bug(message: &str) -> Error {
    Error::bug(PASS, message)
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
            let readers = if stands_for(source, x).is_some() { uses[x.index()].max(1) } else { 1 };
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
            late_variables: 0,
            ends: vec![None; n],
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
            presenter.plain[at] = leaf || presenter.is_view(x)? || stands_for(source, x).is_some();
            let direct = presenter.whole_param(x).is_some();
            let several = (uses[at] > 1 || compared[at]) && !presenter.plain[at];
            presenter.shared[at] = read_as_relation[at] > 0 && !direct || several;
        }
        Ok(presenter)
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
            work::charge(4);
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
            Build::Either { guard, asked } => {
                let bracket = self.build_either(&guard, asked)?;
                self.built.push(bracket);
                return Ok(());
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
}

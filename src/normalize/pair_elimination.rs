//! Pair elimination: every variable becomes a tensor of reals, one for each component that is needed (the paper's 5.11-5.20).
//!
//! A *path* is a list of projections, outermost pair first. `[[e]].p` is the component of `e` at the path `p`, as a tensor of reals:
//!
//! ```text
//! [[(a, b)]].(fst p) == [[a]].p              [[gen i. e]].p  == gen i. [[e]].p         [[x]].p == x_p
//! [[(a, b)]].(snd p) == [[b]].p              [[e[a]]].p      == ([[e]].p)[a]
//! [[fst e]].p        == [[e]].(fst p)        [[[q] * e]].p   == [q] * [[e]].p
//! [[let x = e0 in e1]] == let x_p = [[e0]].p, for each p that e1 needs, in [[e1]]
//! ```
//!
//! - *Demand.* Only paths that lead to a component of type `[n] .. real` are ever asked for: the output asks for all of its components, an operand
//!   of a scalar operation for the empty path. The `let`s are done from the last to the first, when all that they are asked for is known.
//!   A component that nobody asks for is not built, and pairs nested in pairs do not cost `2^k` copies. Variables that hold no pair stay, used
//!   or not.
//! - *Cost.* On the way down from the root of a value, the path at a term determines the path at the root. Paths at scalar operations
//!   are empty, so each scalar operation is built for one component at most: what is built twice costs nothing.
//!   (5.12 reads `fst (gen i. e) == gen i. fst e`.)
//! - *Parameters* keep their pairs: `x_p` is a chain of `fst` and `snd` directly on the parameter, also through its axes.
//! - *The output* becomes a tree of pairs over its components, in the order of [`Types::leaves`]: `[n] (T, U)` turns into `([n] T, [n] U)`.
//!
//! Paths are interned lists that share their tails, so a step costs constant time however long they are. Binders of a second copy get fresh indices.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use super::renaming::{Renaming, same_relation, vars_of_affine, vars_of_pred};
use crate::base::{Id, IndexId, Interner, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::Affine;
use crate::scalar::Number;
use crate::term::{NormalForm, Program, Term, TermId, VariableKind};
use crate::ty::{Side, Type, TypeId, Types};

const PASS: &str = "pair-elimination";

/// How many terms a program may grow to. Struct of arrays can be larger than array of structs by the number of components.
const MAX_TERMS: usize = 1 << 25;

/// How long a path may be to be spelled out in the name of a variable.
const MAX_NAMED_PATH: usize = 8;

/// Replaces pairs by their components; the program has its `let`s at the top.
///
/// # Errors
/// [`Error::Limit`] if the output has more components than [`Types::MAX_LEAVES`], or the result more terms than 2^25.
/// [`Error::Bug`] if the program is not let-lifted.
pub fn eliminate_pairs(program: &Program) -> Result<Program> {
    super::expect_form(PASS, program, NormalForm::LetLifted)?;
    if program.form >= NormalForm::PairFree {
        return Ok(program.clone());
    }
    let mut elimination = Elimination {
        source: program,
        out: program.successor(NormalForm::PairFree),
        paths: Interner::new(),
        lengths: Vec::new(),
        components: HashMap::new(),
        leaf_types: HashMap::new(),
        demands: SideTable::new(program.variables.len(), Vec::new()),
        bound_before: SideTable::new(program.indices.len(), false),
        names: SideTable::new(program.indices.len(), None),
    };
    elimination.paths.intern(Path::End);
    elimination.lengths.push(0);
    elimination.run()
}

crate::base::define_id!(
    /// A path, interned.
    PathId,
    "path"
);

/// The empty path is interned first.
const END: PathId = PathId(0);

/// A list of projections: the outermost and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Path {
    End,
    Step(Side, PathId),
}

enum Task {
    Build(TermId, PathId),
    Finish(TermId),
}

struct Elimination<'a> {
    source: &'a Program,
    out: Program,
    paths: Interner<PathId, Path>,
    lengths: Vec<usize>,
    /// The variables that stand for components.
    components: HashMap<(VarId, PathId), VarId>,
    leaf_types: HashMap<(TypeId, PathId), TypeId>,
    /// What was asked of a variable.
    demands: SideTable<VarId, Vec<PathId>>,
    /// Whether an index is bound in the result already, so that the next copy of its binder needs another.
    bound_before: SideTable<IndexId, bool>,
    /// The name of an index in the copy that is being built, where it is another one.
    names: SideTable<IndexId, Option<IndexId>>,
}

impl Elimination<'_> {
    fn run(mut self) -> Result<Program> {
        let (lets, body) = super::let_chain(self.source);
        let output = self.source.ty(body);
        let mut leaves = Vec::new();
        for leaf in self.source.types.leaves(output)? {
            let path = leaf.path.iter().rev().fold(END, |rest, side| self.step(*side, rest));
            leaves.push(self.build(body, path)?);
        }
        // From the last to the first, the innermost `let` of the result first.
        let mut components = Vec::new();
        for (x, value) in lets.into_iter().rev() {
            if self.source.types.real_dims(self.source.variables[x].ty).is_some() {
                self.component(x, END)?;
            }
            let mut demands = self.demands.take(x);
            demands.sort_by(|p, q| self.compare(*q, *p));
            for path in demands {
                let value = self.build(value, path)?;
                components.push((self.component(x, path)?, value));
            }
        }
        let mut root = self.output_tuple(output, leaves)?;
        for (var, value) in components {
            root = self.push(Term::Let { var, value, body: root })?;
        }
        self.out.root = root;
        Ok(self.out)
    }

    fn push(&mut self, term: Term) -> Result<TermId> {
        if self.out.terms.len() >= MAX_TERMS {
            let (limit, found) = (MAX_TERMS as u64, MAX_TERMS as u64 + 1);
            return Err(Error::Limit { what: "terms without pairs", limit, found });
        }
        self.out.push(term)
    }

    /// The components of the output in a tree of pairs.
    fn output_tuple(&mut self, ty: TypeId, leaves: Vec<TermId>) -> Result<TermId> {
        enum Shape {
            Type(TypeId),
            Pair,
        }
        let mut leaves = leaves.into_iter();
        let mut stack = vec![Shape::Type(ty)];
        let mut done = Vec::new();
        while let Some(shape) = stack.pop() {
            match shape {
                Shape::Type(ty) => match self.source.types.get(ty) {
                    Type::Real => done.extend(leaves.next()),
                    Type::Tensor(_, element) => stack.push(Shape::Type(*element)),
                    Type::Pair(a, b) => stack.extend([Shape::Pair, Shape::Type(*b), Shape::Type(*a)]),
                },
                Shape::Pair => {
                    let (b, a) = (pop(&mut done)?, pop(&mut done)?);
                    done.push(self.push(Term::Pair(a, b))?);
                }
            }
        }
        pop(&mut done)
    }

    fn step(&mut self, side: Side, rest: PathId) -> PathId {
        let path = self.paths.intern(Path::Step(side, rest));
        if path.index() == self.lengths.len() {
            self.lengths.push(self.lengths[rest.index()] + 1);
        }
        path
    }

    /// From left to right in the type.
    fn compare(&self, mut p: PathId, mut q: PathId) -> Ordering {
        while p != q {
            match (self.paths[p], self.paths[q]) {
                (Path::Step(a, rest), Path::Step(b, other)) if a == b => (p, q) = (rest, other),
                (Path::Step(a, _), Path::Step(b, _)) => return a.cmp(&b),
                (Path::End, _) => return Ordering::Less,
                (_, Path::End) => return Ordering::Greater,
            }
        }
        Ordering::Equal
    }

    /// The type of the component at a path, in struct-of-arrays form.
    fn leaf_type(&mut self, ty: TypeId, path: PathId) -> Result<TypeId> {
        let mut way = Vec::new();
        let mut at = (ty, path);
        // Down to what is known or to the element, then back up.
        let mut leaf = loop {
            if let Some(leaf) = self.leaf_types.get(&at) {
                break *leaf;
            }
            let next = match (self.out.types.get(at.0), self.paths[at.1]) {
                (Type::Real, Path::End) => break Types::REAL,
                (Type::Tensor(_, element), _) => (*element, at.1),
                (Type::Pair(a, _), Path::Step(Side::Fst, rest)) => (*a, rest),
                (Type::Pair(_, b), Path::Step(Side::Snd, rest)) => (*b, rest),
                _ => return Err(Error::bug(PASS, "a path that does not lead to a component")),
            };
            way.push(at);
            at = next;
        };
        for at in way.into_iter().rev() {
            if let Type::Tensor(n, _) = self.out.types.get(at.0) {
                let n = n.clone();
                leaf = self.out.types.tensor(n, leaf);
            }
            self.leaf_types.insert(at, leaf);
        }
        Ok(leaf)
    }

    /// The variable that stands for a component, which is asked for.
    fn component(&mut self, x: VarId, path: PathId) -> Result<VarId> {
        if let Some(component) = self.components.get(&(x, path)) {
            return Ok(*component);
        }
        let ty = self.leaf_type(self.source.variables[x].ty, path)?;
        let component = match path {
            END => x,
            _ => {
                let name = self.component_name(x, path);
                self.out.fresh_var(name, ty)
            }
        };
        self.components.insert((x, path), component);
        self.demands[x].push(path);
        Ok(component)
    }

    fn component_name(&self, x: VarId, mut path: PathId) -> String {
        let mut name = self.source.variables[x].name.clone();
        if self.lengths[path.index()] > MAX_NAMED_PATH {
            return name;
        }
        while let Path::Step(side, rest) = self.paths[path] {
            name.push_str(match side {
                Side::Fst => "_0",
                Side::Snd => "_1",
            });
            path = rest;
        }
        name
    }

    /// `[[e]].path`
    fn build(&mut self, e: TermId, path: PathId) -> Result<TermId> {
        let mut stack = vec![Task::Build(e, path)];
        let mut done = Vec::new();
        while let Some(task) = stack.pop() {
            match task {
                Task::Build(e, path) => self.descend(e, path, &mut stack, &mut done)?,
                Task::Finish(e) => {
                    let term = self.finish(e, &mut done)?;
                    done.push(term);
                }
            }
        }
        pop(&mut done)
    }

    fn descend(&mut self, e: TermId, path: PathId, stack: &mut Vec<Task>, done: &mut Vec<TermId>) -> Result<()> {
        let term = &self.source.terms[e];
        match term {
            Term::Fst(of) | Term::Snd(of) => {
                let side = if matches!(term, Term::Fst(_)) { Side::Fst } else { Side::Snd };
                let path = self.step(side, path);
                stack.push(Task::Build(*of, path));
            }
            Term::Pair(a, b) => match self.paths[path] {
                Path::Step(Side::Fst, rest) => stack.push(Task::Build(*a, rest)),
                Path::Step(Side::Snd, rest) => stack.push(Task::Build(*b, rest)),
                Path::End => return Err(Error::bug(PASS, "a pair where a component is needed")),
            },
            Term::Var(x) => done.push(self.variable(*x, path, e)?),
            Term::Gen { index, body, .. } => {
                self.bind(*index);
                stack.extend([Task::Finish(e), Task::Build(*body, path)]);
            }
            Term::Access { array, index } => {
                self.demand_vars(vars_of_affine(index))?;
                stack.extend([Task::Finish(e), Task::Build(*array, path)]);
            }
            Term::Iverson { guard, body } => {
                self.demand_vars(vars_of_pred(guard))?;
                stack.extend([Task::Finish(e), Task::Build(*body, path)]);
            }
            Term::Number(number) => {
                if let Number::Index(a) = number {
                    self.demand_vars(vars_of_affine(a))?;
                }
                stack.push(Task::Finish(e));
            }
            Term::Add(..) | Term::Mul(..) | Term::Apply(..) | Term::Sum { .. } => {
                if let Term::Sum { index, .. } = term {
                    self.bind(*index);
                }
                stack.push(Task::Finish(e));
                let first = stack.len();
                term.for_each_operand(|operand| stack.push(Task::Build(operand, END)));
                stack[first..].reverse();
            }
            Term::Let { .. } | Term::Scan { .. } | Term::Call { .. } => {
                return Err(Error::bug(PASS, "a `let` or a `scan` below the top"));
            }
        }
        Ok(())
    }

    fn variable(&mut self, x: VarId, path: PathId, e: TermId) -> Result<TermId> {
        let span = self.source.spans[e];
        if self.source.variables[x].kind == VariableKind::Let {
            let component = self.component(x, path)?;
            return self.out.push_at(Term::Var(component), span);
        }
        let mut term = self.out.push_at(Term::Var(x), span)?;
        let mut path = path;
        while let Path::Step(side, rest) = self.paths[path] {
            term = self.push(match side {
                Side::Fst => Term::Fst(term),
                Side::Snd => Term::Snd(term),
            })?;
            path = rest;
        }
        Ok(term)
    }

    /// Computed relations are on tensors of reals.
    fn demand_vars(&mut self, vars: BTreeSet<VarId>) -> Result<()> {
        for x in vars {
            if self.source.variables[x].kind == VariableKind::Let {
                self.component(x, END)?;
            }
        }
        Ok(())
    }

    /// Names an index for the copy of its binder that is being built.
    fn bind(&mut self, i: IndexId) -> IndexId {
        let fresh = self.bound_before[i].then(|| self.out.fresh_index(self.source.indices[i].clone()));
        self.bound_before.set(i, true);
        self.names.set(i, fresh);
        fresh.unwrap_or(i)
    }

    /// The term over operands that are built.
    fn finish(&mut self, e: TermId, done: &mut Vec<TermId>) -> Result<TermId> {
        let term = match &self.source.terms[e] {
            // Its `exists` are binders too.
            Term::Iverson { guard, body: _ } => {
                let mut bound = Vec::new();
                guard.visit_binders(&mut |i| bound.push(i));
                for i in bound {
                    self.bind(i);
                }
                let names = &self.names;
                let renaming = Renaming { index: |i| names[i].map(Affine::index), relation: same_relation };
                let guard = renaming.pred(guard, &mut |i| names[i].unwrap_or(i))?;
                Term::Iverson { guard, body: pop(done)? }
            }
            term => {
                let names = &self.names;
                let affine = |a: &Affine| a.substitute(&|i| names[i].map(Affine::index));
                let mut operands = 0;
                term.for_each_operand(|_| operands += 1);
                let first =
                    done.len().checked_sub(operands).ok_or_else(|| Error::bug(PASS, "an operand is missing"))?;
                let mut operands = done.split_off(first).into_iter();
                // As many as the term has operands.
                let term = term.map_operands(|operand| operands.next().unwrap_or(operand));
                match term {
                    Term::Gen { index, extent, body } => {
                        Term::Gen { index: names[index].unwrap_or(index), extent, body }
                    }
                    Term::Sum { index, extent, body } => {
                        Term::Sum { index: names[index].unwrap_or(index), extent, body }
                    }
                    Term::Access { array, index } => Term::Access { array, index: affine(&index)? },
                    Term::Number(Number::Index(a)) => Term::Number(Number::Index(affine(&a)?)),
                    term => term,
                }
            }
        };
        let built = self.push(term)?;
        self.out.spans.set(built, self.source.spans[e]);
        Ok(built)
    }
}

fn pop(done: &mut Vec<TermId>) -> Result<TermId> {
    done.pop().ok_or_else(|| Error::bug(PASS, "an operand is missing"))
}

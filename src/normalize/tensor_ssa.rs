//! Conversion to Tensor-SSA (the paper's 5.25-5.34): every scalar operation becomes a statement over whole tensors.
//!
//! Below the indices `I` and where the guard `p` holds, `[[e]]` is a tensor and the indices at which it has the value of `e`. `F` are the
//! indices of `I` that `e` mentions, in nesting order, and `m = exists (I \ F). p`; `X0`, `X1` are the tensors of the operands, read at their own
//! indices unless it says otherwise.
//!
//! ```text
//! [[x[i, j, i]]]              ==  x at (i, j, i)                                      plain indices, of the ranges of the axes
//! [[x[a, cam(i), j]]]         ==  gen F. sum k, t. [m and k = a and cam(i, t)] * x[k, t, j]                     (5.30)
//! [[c]]                       ==  c, a number; gen F. c if it mentions indices                                  (5.29)
//! [[[p0] * e0 + [p1] * e1]]   ==  gen F. [m and p0] * X0[F] + [m and p1] * X1[F]                                (5.31)
//! [[[p0] * e0 * [p1] * e1]]   ==  gen F. [m and p0 and p1] * X0 * X1                                            (5.32)
//! [[f(e0, ..)]]               ==  gen F. [m] * f(X0[F], ..)                                                     (5.33)
//! [[sum s. [q] * e0 * e1]]    ==  gen F. sum s. [m and q] * X0 * X1;  over one factor the same                  (5.34)
//! [[[q] * e]]                 ==  [[e]] with m and q for m, and F with the indices of q
//! ```
//!
//! - *Free indices only.* A statement ranges over `F`, not over all of `I`, so what does not vary is computed once. Where `X0[F]` is
//!   asked for and `X0` has other indices, a contraction without sums brings it there; it costs nothing.
//! - *Masks.* `m` holds the ranges of the indices outside `F` as well: what the program computes nowhere, its statements compute nowhere.
//!   A sparse parameter is read only where its pattern holds, for the guards around the access reach its statement.
//! - *Guards of factors* guard the whole product, on finite values the same number: `X[i, j] * w[j]` for a sparse `X` costs one multiplication for
//!   each stored entry. Sums directly below sums, with guards between or not, are one contraction: the joint count (4.30) is the smallest.
//! - *Guards of arguments* of functions stay with the argument: `f(0)` may be anything.
//! - *Maps.* A map application `cam(a)` in an access or a number becomes a `sum` index `t` with the atom `cam(a, t)`; in an atom of a guard,
//!   negated or not, `exists t. cam(a, t) and ..`: a map has exactly one target. An arg-max over an empty range has none and makes the atom false.
//! - *Computed relations* name the statement of their variable, which is exactly over the variable's axes.
//!
//! No statement costs more than its term: Fig. 6 counts the term once for every point of `I` with `p`, and each point of `F` with `m` extends to one.
//!
//! The walk over a right-hand side is a loop over a stack of tasks. The indices of the operands tell `F`, so nothing is looked
//! up twice; masks are kept by context and `F`. At the end statements that no output needs are dropped.
//!
//! Refused with [`Error::Limit`]: a statement of more axes than [`Types::MAX_RANK`](crate::ty::Types::MAX_RANK), guards nested too deeply, and
//! guards that are too long taken together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::renaming::{Renaming, vars_of_affine, vars_of_pred};
use super::scope::Scope;
use crate::base::{Arena, Id, IndexId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Checked, Pred, RelationRef, Size, Var};
use crate::scalar::{Function, Number};
use crate::term::{self, NormalForm, Term, TermId, VariableKind};
use crate::tssa::{self, Builder, Operand, Output, Rhs, Stmt};
use crate::ty::{Side, Signature, Storage, Type};

const PASS: &str = "tensor-ssa";

/// How many conjuncts a product may hand up from its factors; further ones guard their factor only.
const MAX_FACTOR_GUARDS: usize = 16;

/// How many conjuncts all contexts of a program may have together.
const MAX_CONTEXT_CONJUNCTS: usize = 1 << 26;

/// Converts a program whose `gen`s are at the top.
///
/// # Errors
/// [`Error::Limit`] for tensors of too many axes and for guards that nest too deeply or become too long; [`Error::Overflow`];
/// [`Error::Bug`] if the program is not in the form [`NormalForm::GenPushedOut`].
pub fn to_tensor_ssa(program: &term::Program) -> Result<tssa::Program> {
    super::expect_form(PASS, program, NormalForm::GenPushedOut)?;
    let signature = match program.types.iter().len() == program.signature.types.iter().len() {
        true => program.signature.clone(),
        // The types of the program extend those of the signature, and outputs are typed in the latter.
        false => Arc::new(Signature { types: program.types.clone(), ..(*program.signature).clone() }),
    };
    let mut conversion = Conversion {
        program,
        builder: Builder::new(signature.clone()),
        scope: Scope::new(&program.signature),
        next_index: program.indices.len(),
        env: SideTable::new(program.variables.len(), None),
        guards: SideTable::new(program.terms.len(), Pred::True),
        factor_guards: SideTable::new(program.terms.len(), Pred::True),
        contexts: Vec::new(),
        context_conjuncts: 0,
        masks: HashMap::new(),
        tasks: Vec::new(),
        done: Vec::new(),
    };
    let (lets, body) = super::let_chain(program);
    for (x, value) in lets {
        let stmt = conversion.right_hand_side(value)?;
        conversion.builder.suggest_name(stmt, &program.variables[x].name);
        conversion.env.set(x, Some(stmt));
    }
    let mut leaves = Vec::new();
    let mut stack = vec![body];
    while let Some(e) = stack.pop() {
        match &program.terms[e] {
            Term::Pair(a, b) => stack.extend([*b, *a]),
            _ => leaves.push(conversion.right_hand_side(e)?),
        }
    }
    let output = Output { name: "value".to_owned(), ty: program.ty(body), storage: Storage::Dense, leaves };
    prune(conversion.builder.finish(vec![output]))
}

/// A nest of indices and guards.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Context(usize);

/// What is asked of a term: `[exact] * e` wherever the guard of `base` holds. The guard of `inner` is both.
#[derive(Clone)]
struct Want {
    base: Context,
    exact: Pred,
    inner: Context,
}

enum Task {
    /// The term with its own guards, in a context.
    Convert(TermId, Context),
    /// The term without its own guards, which the context has: it need not be 0 where they fail.
    ConvertPeeled(TermId, Context),
    Add(Want, [Pred; 2]),
    Multiply(Want),
    Map(Want, Function, usize),
    Contract {
        want: Want,
        sums: usize,
        guard: Pred,
        operands: usize,
    },
}

struct Conversion<'a> {
    program: &'a term::Program,
    builder: Builder,
    scope: Scope,
    next_index: usize,
    /// The statements of the variables.
    env: SideTable<VarId, Option<VarId>>,
    /// The guards of brackets, for Tensor-SSA.
    guards: SideTable<TermId, Pred>,
    /// The guards of the factors of products and brackets.
    factor_guards: SideTable<TermId, Pred>,
    /// The guards of contexts.
    contexts: Vec<Pred>,
    context_conjuncts: usize,
    /// Projected guards, by context and kept indices.
    masks: HashMap<(Context, Vec<IndexId>), Pred>,
    tasks: Vec<Task>,
    done: Vec<Operand>,
}

impl Conversion<'_> {
    /// A statement exactly over the `gen` indices of a right-hand side.
    fn right_hand_side(&mut self, value: TermId) -> Result<VarId> {
        let mut e = value;
        while let Term::Gen { index, extent, body } = &self.program.terms[e] {
            self.scope.open(*index, extent)?;
            e = *body;
        }
        self.prepare_guards(e)?;
        let context = self.context(Pred::True)?;
        let all: BTreeSet<IndexId> = self.gens(value).map(|(i, _)| i).collect();
        let gens = self.scope.axes(&all)?;
        let stmt = match &self.program.terms[e] {
            Term::Number(number) if !applies_maps(number) => self.builder.number(&gens, number.clone())?,
            _ => {
                self.tasks.push(Task::Convert(e, context));
                self.run()?;
                let result = self.pop()?;
                self.align(result, &gens, &Pred::True)?
            }
        };
        for _ in &gens {
            self.scope.close();
        }
        self.masks.clear();
        self.contexts.clear();
        Ok(stmt)
    }

    fn gens(&self, mut e: TermId) -> impl Iterator<Item = (IndexId, Size)> {
        std::iter::from_fn(move || match &self.program.terms[e] {
            Term::Gen { index, extent, body } => {
                e = *body;
                Some((*index, extent.clone()))
            }
            _ => None,
        })
    }

    /// Translates the guards below a term and finds those that products have from their factors.
    fn prepare_guards(&mut self, e: TermId) -> Result<()> {
        let mut order = Vec::new();
        let mut stack = vec![e];
        while let Some(e) = stack.pop() {
            order.push(e);
            self.program.terms[e].for_each_operand(|operand| stack.push(operand));
        }
        // Users come before operands in `order`.
        for e in order.into_iter().rev() {
            let factors = match &self.program.terms[e] {
                Term::Iverson { guard, body } => {
                    let guard = self.guard(guard)?;
                    self.guards.set(e, guard.clone());
                    vec![guard, self.factor_guards[*body].clone()]
                }
                Term::Mul(a, b) => vec![self.factor_guards[*a].clone(), self.factor_guards[*b].clone()],
                _ => continue,
            };
            if factors.iter().map(|p| p.conjuncts().len()).sum::<usize>() <= MAX_FACTOR_GUARDS {
                self.factor_guards.set(e, Pred::all(factors));
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        while let Some(task) = self.tasks.pop() {
            match task {
                Task::Convert(e, base) => {
                    let (guards, e) = self.peel(e);
                    let known = &self.contexts[base.0];
                    let exact = Pred::all(guards.into_iter().filter(|p| !implies(known, p)));
                    let inner = match exact.is_true() {
                        true => base,
                        false => self.context(known.clone().and(exact.clone()))?,
                    };
                    self.convert(e, Want { base, exact, inner })?;
                }
                Task::ConvertPeeled(e, base) => {
                    let (_, e) = self.peel(e);
                    self.convert(e, Want { base, exact: Pred::True, inner: base })?;
                }
                Task::Add(want, own) => self.finish_add(want, own)?,
                Task::Multiply(want) => {
                    let operands = self.pop_many(2)?;
                    let result = self.contract(&want, Vec::new(), Pred::True, operands)?;
                    self.done.push(result);
                }
                Task::Map(want, function, n_args) => self.finish_map(want, function, n_args)?,
                Task::Contract { want, sums, guard, operands } => {
                    let operands = self.pop_many(operands)?;
                    let mut bound = Vec::with_capacity(sums);
                    for _ in 0..sums {
                        bound.extend(self.scope.innermost());
                        self.scope.close();
                    }
                    bound.reverse();
                    let result = self.contract(&want, bound, guard, operands)?;
                    self.done.push(result);
                }
            }
        }
        Ok(())
    }

    /// The conjuncts of the brackets around a term and of its factors, and the term below the brackets.
    fn peel(&self, mut e: TermId) -> (Vec<Pred>, TermId) {
        let mut guards = Vec::new();
        while let Term::Iverson { body, .. } = &self.program.terms[e] {
            guards.extend(conjuncts(&self.guards[e]));
            e = *body;
        }
        if let Term::Mul(..) = &self.program.terms[e] {
            guards.extend(conjuncts(&self.factor_guards[e]));
        }
        (guards, e)
    }

    /// Converts a term that is no bracket.
    fn convert(&mut self, e: TermId, want: Want) -> Result<()> {
        if self.contexts[want.inner.0].is_false() {
            // The value is 0, or does not matter.
            return self.number(Number::Literal(0.0), &Want { exact: Pred::True, ..want });
        }
        match &self.program.terms[e] {
            Term::Number(number) => self.number(number.clone(), &want),
            Term::Var(_) | Term::Fst(_) | Term::Snd(_) | Term::Access { .. } => self.access(e, &want),
            Term::Add(a, b) => {
                let own = [*a, *b].map(|e| Pred::all(self.peel(e).0));
                let contexts = [&own[0], &own[1]].map(|p| match p.is_true() {
                    true => Ok(want.inner),
                    false => self.context(self.contexts[want.inner.0].clone().and(p.clone())),
                });
                let [first, second] = contexts;
                let (first, second) = (first?, second?);
                self.tasks.extend([
                    Task::Add(want, own),
                    Task::ConvertPeeled(*b, second),
                    Task::ConvertPeeled(*a, first),
                ]);
                Ok(())
            }
            Term::Mul(a, b) => {
                let inner = want.inner;
                self.tasks.extend([Task::Multiply(want), Task::Convert(*b, inner), Task::Convert(*a, inner)]);
                Ok(())
            }
            Term::Apply(function, args) => {
                let inner = want.inner;
                self.tasks.push(Task::Map(want, *function, args.len()));
                self.tasks.extend(args.iter().rev().map(|e| Task::Convert(*e, inner)));
                Ok(())
            }
            Term::Sum { .. } => self.sum(e, want),
            Term::Gen { .. }
            | Term::Iverson { .. }
            | Term::Pair(..)
            | Term::Let { .. }
            | Term::Scan { .. }
            | Term::Call { .. } => Err(Error::bug(PASS, "a term that is not in normal form")),
        }
    }

    /// Sums below sums, with their guards, down to a product or another term.
    fn sum(&mut self, mut e: TermId, want: Want) -> Result<()> {
        let mut sums = 0;
        let mut guards = Vec::new();
        let body = loop {
            let (own, below) = self.peel(e);
            guards.extend(own);
            match &self.program.terms[below] {
                Term::Sum { index, extent, body } => {
                    self.scope.open(*index, extent)?;
                    sums += 1;
                    e = *body;
                }
                _ => break below,
            }
        };
        let guard = Pred::all(guards);
        let inner = self.context(self.contexts[want.inner.0].clone().and(guard.clone()))?;
        match &self.program.terms[body] {
            Term::Mul(a, b) => {
                self.tasks.push(Task::Contract { want, sums, guard, operands: 2 });
                self.tasks.extend([Task::Convert(*b, inner), Task::Convert(*a, inner)]);
            }
            _ => {
                self.tasks.push(Task::Contract { want, sums, guard, operands: 1 });
                self.tasks.push(Task::ConvertPeeled(body, inner));
            }
        }
        Ok(())
    }

    fn number(&mut self, number: Number, want: &Want) -> Result<()> {
        let (number, targets) = match number {
            Number::Literal(_) => (number, Targets::default()),
            Number::Index(a) => {
                let a = self.resolve(&a)?;
                let mut targets = Targets::default();
                let a = self.replace_maps(&a, &mut targets)?;
                (Number::Index(a), targets)
            }
        };
        let mut free = BTreeSet::new();
        let mut gens = Vec::new();
        if let Number::Index(a) = &number {
            self.scope.note(a, &mut free);
            gens = self.scope.axes(&free)?;
            gens.extend(targets.sums.iter().filter(|(t, _)| a.mentions(*t)).cloned());
        }
        let indices = gens.iter().map(|(i, _)| *i).collect();
        let operand = Operand { var: self.builder.number(&gens, number)?, indices };
        let result = match targets.sums.is_empty() && want.exact.is_true() {
            true => operand,
            false => self.contract(want, targets.sums, Pred::all(targets.atoms), vec![operand])?,
        };
        self.done.push(result);
        Ok(())
    }

    fn access(&mut self, e: TermId, want: &Want) -> Result<()> {
        let mut at = e;
        let mut path = Vec::new();
        let mut args = Vec::new();
        let var = loop {
            match &self.program.terms[at] {
                Term::Access { array, index } => {
                    args.push(index);
                    at = *array;
                }
                Term::Fst(of) => {
                    path.push(Side::Fst);
                    at = *of;
                }
                Term::Snd(of) => {
                    path.push(Side::Snd);
                    at = *of;
                }
                Term::Var(x) => break *x,
                _ => return Err(Error::bug(PASS, "access to something that is no variable")),
            }
        };
        args.reverse();
        path.reverse();
        let var = self.variable(var, path)?;
        let dims = self.builder.dims(var).to_vec();
        if dims.len() != args.len() {
            return Err(Error::bug(PASS, "an access does not reach a scalar"));
        }
        let mut targets = Targets::default();
        let mut indices = Vec::with_capacity(args.len());
        for (a, n) in args.into_iter().zip(&dims) {
            let a = self.resolve(a)?;
            let a = self.replace_maps(&a, &mut targets)?;
            let in_range = |i: &IndexId| {
                let target = targets.sums.iter().find(|(t, _)| t == i).map(|(_, n)| n);
                target.or_else(|| self.scope.extent(*i)) == Some(n)
            };
            // An index of another range than the axis is an affine index like any other.
            match a.as_index().filter(in_range) {
                Some(i) => indices.push(i),
                None => {
                    let k = self.fresh_index();
                    targets.atoms.push(Pred::equal(&Affine::index(k), &a)?);
                    targets.sums.push((k, n.clone()));
                    indices.push(k);
                }
            }
        }
        let operand = Operand { var, indices };
        let result = match targets.sums.is_empty() && want.exact.is_true() {
            true => operand,
            false => self.contract(want, targets.sums, Pred::all(targets.atoms), vec![operand])?,
        };
        self.done.push(result);
        Ok(())
    }

    fn finish_add(&mut self, want: Want, own: [Pred; 2]) -> Result<()> {
        let operands = self.pop_many(2)?;
        let gens = self.free(&want, own.iter(), &operands)?;
        let mask = self.mask(&want, &gens)?;
        let mut sides = Vec::with_capacity(2);
        for (p, operand) in own.into_iter().zip(operands) {
            let guard = mask.clone().and(p);
            sides.push((guard.clone(), self.align(operand, &gens, &guard)?));
        }
        let sides = sides.try_into().map_err(|_| Error::bug(PASS, "an addition of other than two operands"))?;
        let var = self.builder.add(&gens, sides)?;
        self.finish(var, &gens);
        Ok(())
    }

    fn finish_map(&mut self, want: Want, function: Function, n_args: usize) -> Result<()> {
        let args = self.pop_many(n_args)?;
        let gens = self.free(&want, [].into_iter(), &args)?;
        let guard = self.mask(&want, &gens)?;
        let args = args.into_iter().map(|x| self.align(x, &gens, &guard)).collect::<Result<Vec<_>>>()?;
        let var = self.builder.map(&gens, guard, function, args)?;
        self.finish(var, &gens);
        Ok(())
    }

    fn finish(&mut self, var: VarId, gens: &[(IndexId, Size)]) {
        self.done.push(Operand { var, indices: gens.iter().map(|(i, _)| *i).collect() });
    }

    /// `gen F. sum s. [m and guard] * X0 * ..`
    fn contract(
        &mut self,
        want: &Want,
        sums: Vec<(IndexId, Size)>,
        guard: Pred,
        operands: Vec<Operand>,
    ) -> Result<Operand> {
        // The sums are closed or were never open, so they are not among the free indices.
        let gens = self.free(want, [&guard].into_iter(), &operands)?;
        let guard = self.mask(want, &gens)?.and(guard);
        if guard.is_false() {
            let var = self.builder.number(&[], Number::Literal(0.0))?;
            return Ok(Operand { var, indices: Vec::new() });
        }
        let var = self.builder.contract(&gens, &sums, guard, operands)?;
        Ok(Operand { var, indices: gens.iter().map(|(i, _)| *i).collect() })
    }

    /// The tensor read at exactly the given indices in order.
    fn align(&mut self, operand: Operand, gens: &[(IndexId, Size)], guard: &Pred) -> Result<VarId> {
        if operand.indices.iter().eq(gens.iter().map(|(i, _)| i)) {
            return Ok(operand.var);
        }
        if let Rhs::Number(literal @ Number::Literal(_)) = &self.builder.stmt(operand.var).rhs {
            let literal = literal.clone();
            return self.builder.number(gens, literal);
        }
        self.builder.contract(gens, &[], guard.clone(), vec![operand])
    }

    /// The indices in scope that a statement ranges over.
    fn free<'p>(
        &self,
        want: &Want,
        guards: impl Iterator<Item = &'p Pred>,
        operands: &[Operand],
    ) -> Result<Vec<(IndexId, Size)>> {
        let mut free = BTreeSet::new();
        self.scope.note_pred(&want.exact, &mut free);
        guards.for_each(|p| self.scope.note_pred(p, &mut free));
        let indices = operands.iter().flat_map(|x| x.indices.iter().copied());
        free.extend(indices.filter(|i| self.scope.place(*i).is_some()));
        self.scope.axes(&free)
    }

    /// `exact and exists (I \ F). p`
    fn mask(&mut self, want: &Want, gens: &[(IndexId, Size)]) -> Result<Pred> {
        let key = (want.base, gens.iter().map(|(i, _)| *i).collect());
        let mask = match self.masks.get(&key) {
            Some(mask) => mask.clone(),
            None => {
                let mask = self.scope.project(&self.contexts[want.base.0], gens)?;
                check_nesting(&mask)?;
                self.masks.insert(key, mask.clone());
                mask
            }
        };
        Ok(mask.and(want.exact.clone()))
    }

    fn context(&mut self, guard: Pred) -> Result<Context> {
        self.context_conjuncts = self.context_conjuncts.saturating_add(guard.conjuncts().len());
        if self.context_conjuncts > MAX_CONTEXT_CONJUNCTS {
            let (limit, found) = (MAX_CONTEXT_CONJUNCTS as u64, self.context_conjuncts as u64);
            return Err(Error::Limit { what: "conjuncts of nested guards", limit, found });
        }
        self.contexts.push(guard);
        Ok(Context(self.contexts.len() - 1))
    }

    fn fresh_index(&mut self) -> IndexId {
        self.next_index += 1;
        IndexId::from_index(self.next_index - 1)
    }

    /// The statement of a variable, or of a component of a parameter.
    fn variable(&mut self, x: VarId, path: Vec<Side>) -> Result<VarId> {
        let variable = &self.program.variables[x];
        let VariableKind::Param(param) = variable.kind else {
            return self.env[x].ok_or_else(|| Error::bug(PASS, format!("{x} is used before its `let`")));
        };
        let mut dims = Vec::new();
        let mut ty = variable.ty;
        let mut sides = path.iter();
        loop {
            ty = match self.program.types.get(ty) {
                Type::Tensor(n, element) => {
                    dims.push(n.clone());
                    *element
                }
                Type::Pair(a, b) => match sides.next() {
                    Some(Side::Fst) => *a,
                    Some(Side::Snd) => *b,
                    None => return Err(Error::bug(PASS, "a pair where a tensor of reals is needed")),
                },
                Type::Real => break,
            };
        }
        let suffix = |side: &Side| if *side == Side::Fst { "_0" } else { "_1" };
        let name: String = std::iter::once(variable.name.as_str()).chain(path.iter().map(suffix)).collect();
        let stmt = self.builder.input(param, path, dims);
        self.builder.suggest_name(stmt, &name);
        Ok(stmt)
    }

    /// An expression with computed maps on statements in place of variables.
    fn resolve(&mut self, a: &Affine) -> Result<Affine> {
        let statements = self.statements(vars_of_affine(a))?;
        let renaming = Renaming { index: |_| None, relation: |r| (on_statement(&statements, r), Vec::new()) };
        Ok(renaming.affine(a)?)
    }

    /// A guard of Tensor-SSA: computed relations on statements, and without map applications.
    fn guard(&mut self, p: &Pred) -> Result<Pred> {
        let statements = self.statements(vars_of_pred(p))?;
        let renaming = Renaming { index: |_| None, relation: |r| (on_statement(&statements, r), Vec::new()) };
        let p = renaming.pred(p, &mut |i| i)?;
        let p = p.rebuild(&mut |atom| self.atom(atom))?;
        check_nesting(&p)?;
        Ok(p)
    }

    /// `atom` with `cam(a)` inside  ==  `exists t. cam(a, t) and atom[t]`
    fn atom(&mut self, atom: &Pred) -> Result<Pred> {
        let mut targets = Targets::default();
        let mut failure = None;
        let replaced = atom.map_affine(&mut |a| {
            self.replace_maps(a, &mut targets).or_else(|error| {
                failure = Some(error);
                Ok(a.clone())
            })
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        // Inner applications come first, and outer ones mention their targets.
        let mut result = replaced;
        for ((t, n), map) in targets.sums.into_iter().zip(targets.atoms).rev() {
            result = Pred::exists(t, n, map.and(result));
        }
        Ok(result)
    }

    /// Replaces map applications by their targets, inner ones first.
    fn replace_maps(&mut self, a: &Affine, targets: &mut Targets) -> Result<Affine> {
        let mut failure = None;
        let result = a.replace(&mut |v| -> Checked<Option<Affine>> {
            let Var::Apply(application) = v else { return Ok(None) };
            match self.target(application, targets) {
                Ok(t) => Ok(Some(Affine::index(t))),
                Err(error) => {
                    failure = Some(error);
                    Ok(None)
                }
            }
        })?;
        failure.map_or(Ok(result), Err)
    }

    fn target(&mut self, application: &Application, targets: &mut Targets) -> Result<IndexId> {
        if let Some((_, t)) = targets.known.iter().find(|(known, _)| known == application) {
            return Ok(*t);
        }
        let extent = match application.map {
            RelationRef::Input(map) => self.program.signature.relations.get(map).and_then(|r| r.shape.last()),
            RelationRef::Computed { var, view: _ } => self.builder.dims(var).last(),
        };
        let extent = extent.cloned().ok_or_else(|| Error::bug(PASS, "a map without a range"))?;
        let t = self.fresh_index();
        let mut args = application.args.clone();
        args.push(Affine::index(t));
        targets.atoms.push(Pred::relation(application.map, args));
        targets.sums.push((t, extent));
        targets.known.push((application.clone(), t));
        Ok(t)
    }

    /// The statements of variables that relations are computed from.
    fn statements(&mut self, vars: BTreeSet<VarId>) -> Result<Vec<(VarId, VarId)>> {
        vars.into_iter().map(|x| Ok((x, self.variable(x, Vec::new())?))).collect()
    }

    fn pop(&mut self) -> Result<Operand> {
        self.done.pop().ok_or_else(|| Error::bug(PASS, "an operand is missing"))
    }

    /// The last results, first one first.
    fn pop_many(&mut self, n: usize) -> Result<Vec<Operand>> {
        let first = self.done.len().checked_sub(n).ok_or_else(|| Error::bug(PASS, "an operand is missing"))?;
        Ok(self.done.split_off(first))
    }
}

/// The targets of map applications, and the atoms that link them.
#[derive(Default)]
struct Targets {
    known: Vec<(Application, IndexId)>,
    sums: Vec<(IndexId, Size)>,
    atoms: Vec<Pred>,
}

fn on_statement(statements: &[(VarId, VarId)], relation: RelationRef) -> RelationRef {
    match relation {
        RelationRef::Computed { var, view } => {
            let stmt = statements.iter().find(|(x, _)| *x == var).map_or(var, |(_, stmt)| *stmt);
            RelationRef::Computed { var: stmt, view }
        }
        input @ RelationRef::Input(_) => input,
    }
}

fn applies_maps(number: &Number) -> bool {
    matches!(number, Number::Index(a) if a.nesting() > 0)
}

/// The conjuncts, `false` included.
fn conjuncts(p: &Pred) -> impl Iterator<Item = Pred> {
    p.conjuncts().iter().cloned()
}

/// Whether one conjunct follows from a guard at a glance.
fn implies(known: &Pred, p: &Pred) -> bool {
    known.conjuncts().iter().any(|q| match (q, p) {
        (Pred::NonNegative(a), Pred::NonNegative(b)) => a.terms() == b.terms() && a.offset() <= b.offset(),
        _ => p == q,
    })
}

fn check_nesting(p: &Pred) -> Result<()> {
    match p.nesting() {
        found if found > Pred::MAX_NESTING => {
            let (limit, found) = (Pred::MAX_NESTING as u64, found as u64);
            Err(Error::Limit { what: "nested `and`, `or` and `exists`", limit, found })
        }
        _ => Ok(()),
    }
}

/// Drops the statements that no output needs. The others keep their order, and so stay canonical.
fn prune(program: tssa::Program) -> Result<tssa::Program> {
    let mut needed = SideTable::new(program.stmts.len(), false);
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| needed.set(*x, true));
    for (x, stmt) in program.stmts.iter().rev() {
        if needed[x] {
            stmt.rhs.for_each_operand(|operand| needed.set(operand, true));
        }
    }
    let mut renumbered = SideTable::new(program.stmts.len(), VarId(0));
    let mut stmts = Arena::new();
    let mut names = Arena::new();
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| needed[*x]) {
        let stmt = renumber(stmt, &|x| renumbered[x])?;
        renumbered.set(x, stmts.push(stmt));
        names.push(program.names[x].clone());
    }
    let leaves = |output: Output| Output { leaves: output.leaves.iter().map(|x| renumbered[*x]).collect(), ..output };
    let outputs = program.outputs.into_iter().map(leaves).collect();
    Ok(tssa::Program { signature: program.signature, stmts, names, outputs })
}

/// A statement on other variables, in the same order.
fn renumber(stmt: &Stmt, var: &dyn Fn(VarId) -> VarId) -> Result<Stmt> {
    let relation = |r| match r {
        RelationRef::Computed { var: x, view } => (RelationRef::Computed { var: var(x), view }, Vec::new()),
        input @ RelationRef::Input(_) => (input, Vec::new()),
    };
    let guard = |p: &Pred| Renaming { index: |_| None, relation }.pred(p, &mut |i| i);
    let rhs = match &stmt.rhs {
        Rhs::Input { .. } | Rhs::Number(_) => stmt.rhs.clone(),
        Rhs::Add([(p, x), (q, y)]) => Rhs::Add([(guard(p)?, var(*x)), (guard(q)?, var(*y))]),
        Rhs::Map { guard: p, function, args } => {
            Rhs::Map { guard: guard(p)?, function: *function, args: args.iter().map(|x| var(*x)).collect() }
        }
        Rhs::Contract { sums, guard: p, operands } => Rhs::Contract {
            sums: sums.clone(),
            guard: guard(p)?,
            operands: operands.iter().map(|x| Operand { var: var(x.var), indices: x.indices.clone() }).collect(),
        },
    };
    Ok(Stmt { dims: stmt.dims.clone(), rhs })
}

//! Flows as terms that people can read.
//!
//! ```text
//! leaf (x, y) = F(..)                    let x = .. in let y = .. in                 by crate::present
//! call y = gen g. [w != 0] * f(x[g])     let y = gen g. [w[g] != 0] * f(x[g]) in
//! scan t < T, (s, ..) = (a, ..). b       let s = scan t < T, s = a. b in
//! ```
//!
//! 1. A value that is read once, whole, as the first state, as the next one or as a result, is written there.
//! 2. Several states are one tuple, of which the body takes the components, and whoever reads a path takes the path of its component.
//! 3. A scan of which no path is read is a `fold`.

use std::collections::BTreeMap;

use super::data::{Call, Leaf, Program, Scan, Stmt, ValueId};
use super::early::to_the_end;
use super::outline::type_in;
use crate::base::{Id, IndexId, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var, View};
use crate::normalize::let_chain;
use crate::scalar::Number;
use crate::term::{self, Term, TermId};
use crate::ty::{Type, TypeId};

const PASS: &str = "present";

/// The flow as a term: the outputs as a tuple.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn present(program: &Program) -> Result<term::Program> {
    let program = &to_the_end(program)?;
    let mut uses: BTreeMap<ValueId, usize> = BTreeMap::new();
    for x in program.outputs.iter().flat_map(|output| &output.values) {
        *uses.entry(*x).or_insert(0) += 1;
    }
    count(&program.body, &mut uses);
    let mut presenter = Presenter {
        source: program,
        out: term::Program::new(program.signature.clone()),
        uses,
        values: BTreeMap::new(),
        indices: BTreeMap::new(),
    };
    let lets = presenter.block(&program.body)?;
    let mut tuple = Vec::new();
    for output in &program.outputs {
        let mut leaves = output.values.iter().copied();
        tuple.push(presenter.output(output.ty, &mut leaves)?);
    }
    let root = match tuple.pop() {
        None => presenter.out.literal(0.0)?,
        Some(last) => presenter.tuple(tuple, last)?,
    };
    presenter.out.root = presenter.bind(lets, root)?;
    crate::present::without_unused(presenter.out)
}

/// How often each value is read; twice for one that a leaf reads, which has it element by element.
fn count(body: &[Stmt], uses: &mut BTreeMap<ValueId, usize>) {
    for stmt in body {
        match stmt {
            Stmt::Leaf(leaf) => leaf.takes.iter().for_each(|x| *uses.entry(*x).or_insert(0) += 2),
            Stmt::Call(call) => {
                let reads = if call.axes.is_empty() { 1 } else { 2 };
                call.takes.iter().for_each(|x| *uses.entry(*x).or_insert(0) += reads);
                call.when.iter().for_each(|x| *uses.entry(*x).or_insert(0) += 2);
            }
            Stmt::Scan(scan) => {
                for state in &scan.states {
                    *uses.entry(state.init).or_insert(0) += 1;
                    *uses.entry(state.after).or_insert(0) += 1;
                }
                count(&scan.body, uses);
            }
        }
    }
}

/// What stands for a value.
#[derive(Clone, Copy)]
enum Meaning {
    /// A variable.
    Var(VarId),
    /// A term, for its only reader.
    Term(TermId),
}

struct Presenter<'a> {
    source: &'a Program,
    out: term::Program,
    uses: BTreeMap<ValueId, usize>,
    values: BTreeMap<ValueId, Meaning>,
    indices: BTreeMap<SizeId, IndexId>,
}

type Lets = Vec<(VarId, TermId)>;

impl Presenter<'_> {
    fn bind(&mut self, lets: Lets, mut body: TermId) -> Result<TermId> {
        for (var, value) in lets.into_iter().rev() {
            body = self.out.push(Term::Let { var, value, body })?;
        }
        Ok(body)
    }

    fn tuple(&mut self, mut first: Vec<TermId>, mut last: TermId) -> Result<TermId> {
        while let Some(e) = first.pop() {
            last = self.out.push(Term::Pair(e, last))?;
        }
        Ok(last)
    }

    /// Types nest to a bounded depth.
    fn output(&mut self, ty: TypeId, leaves: &mut impl Iterator<Item = ValueId>) -> Result<TermId> {
        let types = &self.source.frame.types;
        // A tensor of pairs is written as a pair of tensors.
        match types.get(types.peel(ty).1) {
            Type::Pair(a, b) => {
                let (a, b) = (*a, *b);
                let a = self.output(a, leaves)?;
                let b = self.output(b, leaves)?;
                self.out.push(Term::Pair(a, b))
            }
            Type::Real | Type::Tensor(..) => {
                let x = leaves.next().ok_or_else(|| Error::bug(PASS, "an output lacks a leaf"))?;
                self.read(x)
            }
        }
    }

    /// A value where it is read whole.
    fn read(&mut self, x: ValueId) -> Result<TermId> {
        match self.values.get(&x) {
            Some(Meaning::Var(var)) => self.out.push(Term::Var(*var)),
            Some(Meaning::Term(term)) => Ok(*term),
            None => Err(Error::bug(PASS, format!("{x} is not in scope"))),
        }
    }

    /// Gives a value a meaning: the term itself where it is read once, and a variable otherwise.
    fn give(&mut self, x: ValueId, term: TermId, lets: &mut Lets) {
        let plain = match self.out.terms[term] {
            Term::Var(var) => Some(var),
            _ => None,
        };
        let meaning = match (self.uses.get(&x).copied().unwrap_or(0), plain) {
            (1, _) => Meaning::Term(term),
            (_, Some(var)) => Meaning::Var(var),
            _ => {
                let ty = self.out.ty(term);
                let name = self.source.values.get(x).map_or("", |value| &value.name).to_owned();
                let var = self.out.fresh_var(name, ty);
                lets.push((var, term));
                Meaning::Var(var)
            }
        };
        self.values.insert(x, meaning);
    }

    // Scans nest to a bounded depth.
    fn block(&mut self, body: &[Stmt]) -> Result<Lets> {
        let mut lets = Lets::new();
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => self.leaf(leaf, &mut lets)?,
                Stmt::Scan(scan) => self.scan(scan, &mut lets)?,
                Stmt::Call(call) => self.call(call, &mut lets)?,
            }
        }
        Ok(lets)
    }

    fn leaf(&mut self, leaf: &Leaf, lets: &mut Lets) -> Result<()> {
        let source = &crate::present::present(&leaf.program)?;
        let (chain, root) = let_chain(source);
        let mut copy = Copy { source, vars: BTreeMap::new(), indices: BTreeMap::new() };
        let outer = leaf.outer_params();
        for (at, x) in leaf.takes.iter().enumerate() {
            let Some(Meaning::Var(var)) = self.values.get(x) else {
                return Err(Error::bug(PASS, format!("{x} has no variable")));
            };
            copy.vars.insert(VarId::from_index(outer + at), *var);
        }
        for (var, value) in chain {
            let value = copy.term(value, self)?;
            let ty = self.out.ty(value);
            let new = self.out.fresh_var(source.variables[var].name.clone(), ty);
            copy.vars.insert(var, new);
            lets.push((new, value));
        }
        let mut rest = root;
        for (at, x) in leaf.gives.iter().enumerate() {
            let part = match (&source.terms[rest], at + 1 == leaf.gives.len()) {
                (_, true) => rest,
                (Term::Pair(first, others), false) => {
                    rest = *others;
                    *first
                }
                _ => return Err(Error::bug(PASS, "a leaf gives less than it should")),
            };
            // What is a variable already needs no other.
            if let Term::Var(var) = source.terms[part]
                && let Some(var) = copy.vars.get(&var)
                && self.uses.get(x).copied().unwrap_or(0) != 1
            {
                self.values.insert(*x, Meaning::Var(*var));
                continue;
            }
            let term = copy.term(part, self)?;
            self.give(*x, term, lets);
        }
        Ok(())
    }

    /// `gen g. f(x[g], ..)`
    fn call(&mut self, call: &Call, lets: &mut Lets) -> Result<()> {
        let gens = self.gens(call);
        let mut args = Vec::with_capacity(call.takes.len());
        for x in &call.takes {
            let arg = self.read(*x)?;
            args.push(self.out.access(arg, gens.iter().map(|(i, _)| Affine::index(*i)))?);
        }
        let (function, sizes) = (call.function, call.sizes.clone());
        let mut value = self.out.push(Term::Call { function, sizes, args })?;
        if let Some(when) = call.when {
            let Some(Meaning::Var(var)) = self.values.get(&when) else {
                return Err(Error::bug(PASS, format!("{when} has no variable")));
            };
            let relation = RelationRef::Computed { var: *var, view: View::Support };
            let args = gens.iter().map(|(i, _)| Affine::index(*i)).collect();
            let guard = Pred::Relation { relation, args, holds: true };
            value = self.out.push(Term::Iverson { guard, body: value })?;
        }
        value = self.below(gens, value)?;
        if let [x] = call.gives.as_slice() {
            self.give(*x, value, lets);
            return Ok(());
        }
        let ty = self.out.ty(value);
        let whole = self.out.fresh_var("y", ty);
        lets.push((whole, value));
        for (at, x) in call.gives.iter().enumerate().filter(|(_, x)| self.uses.contains_key(x)).collect::<Vec<_>>() {
            let gens = self.gens(call);
            let tuple = self.out.push(Term::Var(whole))?;
            let tuple = self.out.access(tuple, gens.iter().map(|(i, _)| Affine::index(*i)))?;
            let part = self.component(tuple, at, call.gives.len())?;
            let part = self.below(gens, part)?;
            self.give(*x, part, lets);
        }
        Ok(())
    }

    fn gens(&mut self, call: &Call) -> Vec<(IndexId, Size)> {
        call.axes.iter().map(|n| (self.out.fresh_index("i"), n.clone())).collect()
    }

    fn below(&mut self, gens: Vec<(IndexId, Size)>, body: TermId) -> Result<TermId> {
        let mut gens = gens.into_iter().rev();
        gens.try_fold(body, |body, (index, extent)| self.out.push(Term::Gen { index, extent, body }))
    }

    fn scan(&mut self, scan: &Scan, lets: &mut Lets) -> Result<()> {
        let mut init = Vec::new();
        for state in &scan.states {
            init.push(self.read(state.init)?);
        }
        let last = init.pop().ok_or_else(|| Error::bug(PASS, "a scan without states"))?;
        let init = self.tuple(init, last)?;
        let name = |x: ValueId| self.source.values.get(x).map_or("", |value| &value.name).to_owned();
        let index = self.out.fresh_index(self.source.frame.sizes.get(scan.index).cloned().unwrap_or_default());
        self.indices.insert(scan.index, index);
        let ty = self.out.ty(init);
        let only = scan.states.len() == 1;
        let whole = if only { scan.states.first().map(|s| name(s.before)).unwrap_or_default() } else { "s".to_owned() };
        let state = self.out.fresh_var(whole.clone(), ty);
        let mut inner = Lets::new();
        for (at, part) in scan.states.iter().enumerate() {
            if only {
                self.values.insert(part.before, Meaning::Var(state));
                continue;
            }
            let term = self.out.push(Term::Var(state))?;
            let term = self.component(term, at, scan.states.len())?;
            let ty = self.out.ty(term);
            let var = self.out.fresh_var(self.source.values.get(part.before).map_or("", |x| &x.name).to_owned(), ty);
            inner.push((var, term));
            self.values.insert(part.before, Meaning::Var(var));
        }
        inner.extend(self.block(&scan.body)?);
        let mut next = Vec::new();
        for state in &scan.states {
            next.push(self.read(state.after)?);
        }
        let last = next.pop().ok_or_else(|| Error::bug(PASS, "a scan without states"))?;
        let next = self.tuple(next, last)?;
        let body = self.bind(inner, next)?;
        let (steps, down) = (scan.steps.clone(), scan.down);
        let path = self.out.push(Term::Scan { index, steps, down, state, init, body })?;
        let read = |x: &ValueId| self.uses.contains_key(x);
        let paths = scan.states.iter().any(|state| read(&state.path));
        let last = scan.last_place();
        if let ([state], false) = (scan.states.as_slice(), paths) {
            let term = self.out.access(path, [last])?;
            self.give(state.last, term, lets);
            return Ok(());
        }
        if let ([state], false) = (scan.states.as_slice(), scan.states.iter().any(|state| read(&state.last))) {
            self.give(state.path, path, lets);
            return Ok(());
        }
        // A fold where no path is read.
        let whole_value = if paths { path } else { self.out.access(path, [last.clone()])? };
        let ty = self.out.ty(whole_value);
        let var = self.out.fresh_var(whole, ty);
        lets.push((var, whole_value));
        for (at, state) in scan.states.iter().enumerate() {
            if self.uses.contains_key(&state.path) {
                let term = match only {
                    true => self.out.push(Term::Var(var))?,
                    false => {
                        let index = self.out.fresh_index("t");
                        let element = self.element(var, Affine::index(index))?;
                        let body = self.component(element, at, scan.states.len())?;
                        let extent = scan.steps.add_constant(1)?;
                        self.out.push(Term::Gen { index, extent, body })?
                    }
                };
                self.give(state.path, term, lets);
            }
            if self.uses.contains_key(&state.last) {
                let element = match paths {
                    true => self.element(var, last.clone())?,
                    false => self.out.push(Term::Var(var))?,
                };
                let term = self.component(element, at, scan.states.len())?;
                self.give(state.last, term, lets);
            }
        }
        Ok(())
    }

    fn element(&mut self, var: VarId, at: Affine) -> Result<TermId> {
        let whole = self.out.push(Term::Var(var))?;
        self.out.access(whole, [at])
    }

    /// A component of a tuple of so many.
    fn component(&mut self, mut tuple: TermId, at: usize, of: usize) -> Result<TermId> {
        for _ in 0..at {
            tuple = self.out.push(Term::Snd(tuple))?;
        }
        match at + 1 == of {
            true => Ok(tuple),
            false => self.out.push(Term::Fst(tuple)),
        }
    }
}

/// Copies the term of a leaf.
struct Copy<'a> {
    source: &'a term::Program,
    vars: BTreeMap<VarId, VarId>,
    indices: BTreeMap<IndexId, IndexId>,
}

impl Copy<'_> {
    fn term(&mut self, root: TermId, to: &mut Presenter<'_>) -> Result<TermId> {
        let mut terms = Vec::new();
        let mut stack = vec![root];
        while let Some(e) = stack.pop() {
            terms.push(e);
            let term = &self.source.terms[e];
            match term {
                Term::Gen { index, .. } | Term::Sum { index, .. } => self.index(*index, to),
                Term::Iverson { guard, .. } => guard.visit_binders(&mut |i| self.index(i, to)),
                Term::Let { var, .. } => {
                    let variable = &self.source.variables[*var];
                    let ty = type_in(&self.source.types, variable.ty, &mut to.out.types)?;
                    let new = to.out.fresh_var(variable.name.clone(), ty);
                    self.vars.insert(*var, new);
                }
                _ => {}
            }
            term.for_each_operand(|operand| stack.push(operand));
        }
        terms.sort_unstable();
        let mut built: BTreeMap<TermId, TermId> = BTreeMap::new();
        for e in terms {
            let term = self.source.terms[e].map_operands(|operand| built.get(&operand).copied().unwrap_or(TermId(0)));
            let var = |x: VarId| self.vars.get(&x).copied().unwrap_or(x);
            let index = |i: IndexId| self.indices.get(&i).copied().unwrap_or(i);
            let term = match term {
                Term::Var(x) => Term::Var(var(x)),
                Term::Number(Number::Index(a)) => Term::Number(Number::Index(self.affine(&a, to)?)),
                Term::Access { array, index } => Term::Access { array, index: self.affine(&index, to)? },
                Term::Iverson { guard, body } => Term::Iverson { guard: self.pred(&guard, to)?, body },
                Term::Let { var: x, value, body } => Term::Let { var: var(x), value, body },
                Term::Gen { index: i, extent, body } => Term::Gen { index: index(i), extent, body },
                Term::Sum { index: i, extent, body } => Term::Sum { index: index(i), extent, body },
                term => term,
            };
            built.insert(e, to.out.push(term)?);
        }
        built.get(&root).copied().ok_or_else(|| Error::bug(PASS, "an unknown term"))
    }

    fn index(&mut self, i: IndexId, to: &mut Presenter<'_>) {
        let name = self.source.indices.get(i).cloned().unwrap_or_default();
        let new = to.out.fresh_index(name);
        self.indices.insert(i, new);
    }

    fn relation(&self, relation: RelationRef) -> RelationRef {
        match relation {
            RelationRef::Computed { var, view } => {
                RelationRef::Computed { var: self.vars.get(&var).copied().unwrap_or(var), view }
            }
            input @ RelationRef::Input(_) => input,
        }
    }

    fn affine(&self, a: &Affine, to: &Presenter<'_>) -> Result<Affine> {
        Ok(a.replace(&mut |v| {
            Ok(match v {
                Var::Index(i) => self.indices.get(i).copied().map(Affine::index),
                Var::Size(n) => to.indices.get(n).copied().map(Affine::index),
                Var::Apply(application) => {
                    let map = self.relation(application.map);
                    Some(Affine::var(Var::Apply(Box::new(Application { map, args: application.args.clone() }))))
                }
            })
        })?)
    }

    // Predicates nest to a bounded depth.
    fn pred(&self, p: &Pred, to: &Presenter<'_>) -> Result<Pred> {
        let all = |ps: &[Pred]| ps.iter().map(|p| self.pred(p, to)).collect::<Result<Vec<_>>>();
        Ok(match p {
            Pred::True | Pred::False => p.clone(),
            Pred::NonNegative(a) => Pred::non_negative(self.affine(a, to)?),
            Pred::Zero(a) => Pred::zero(self.affine(a, to)?),
            Pred::NonZero(a) => Pred::non_zero(self.affine(a, to)?),
            Pred::Relation { relation, args, holds } => Pred::Relation {
                relation: self.relation(*relation),
                args: args.iter().map(|a| self.affine(a, to)).collect::<Result<_>>()?,
                holds: *holds,
            },
            Pred::All(ps) => Pred::all(all(ps)?),
            Pred::Any(ps) => Pred::any(all(ps)?),
            Pred::Exists { index, extent, body } => {
                let index = self.indices.get(index).copied().unwrap_or(*index);
                Pred::exists(index, extent.clone(), self.pred(body, to)?)
            }
        })
    }
}

//! Terms with scans to flows.
//!
//! Around its scans a program is a chain of `let`s whose values are scans or have none; what lies between two scans is a leaf.
//!
//! ```text
//! e[scan]                             ==  let p = scan in e[p]                              scans get names
//! gen D. let p = scan in e            ==  let p = gen D. scan in gen D. e[p -> p[D]]        let-lifting, which leaves bodies of scans alone
//! gen D. [g] * scan t < T, s = a. b   ==  gen D. gen t < T + 1. q[t][D]                     a state for all of D
//!                                         where q = scan t < T, s = gen D. [g] * a. gen D. [g] * b[s -> s[D]]
//! let x = e in f, e without scans     ==  leaf x = e, with the next of its like             what later statements read is given by the leaf
//! ```
//!
//! The body of a scan is outlined as a program of its own, whose parameters are the values that are in scope: so a scan in a scan is one of its
//! statements. A guard around a scan goes into its states: they are 0 where it fails, and nothing is read that the guard keeps from being
//! read. Refused with [`Error::Limitation`]: a bracket that compares elements of a path whose scan stands below indices, where a `let` around the
//! comparison says the same; with [`Error::Limit`]: scans that nest deeper than [`MAX_DEPTH`].

use std::collections::{BTreeMap, BTreeSet};

use super::build::{Builder, untuple};
use super::data::{Loops, Output, Program, Scan, State, Stmt, ValueId};
use crate::base::{Id, IndexId, SideTable, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};
use crate::normalize::{let_chain, lift_lets};
use crate::scalar::Number;
use crate::term::{self, NormalForm, Term, TermId};
use crate::tssa;
use crate::ty::{Storage, Type, TypeId, Types};

const PASS: &str = "outline";

/// How deep scans may nest.
pub const MAX_DEPTH: usize = 16;

/// Makes Tensor-SSA of a term without scans.
pub type Normalise<'a> = dyn FnMut(&term::Program) -> Result<tssa::Program> + 'a;

/// The flow of a program.
///
/// # Errors
/// [`Error::Limitation`] and [`Error::Limit`] for what the module's head says; those of normal forms; [`Error::Overflow`].
pub fn outline(program: &term::Program, normalise: &mut Normalise<'_>) -> Result<Program> {
    let builder = Builder::new(program.signature.clone());
    let mut outline = Outline { builder, outer: program.signature.params.len(), normalise };
    let (body, value) = outline.block(program, &[], &Vec::new(), "value")?;
    Ok(outline.builder.finish(body, vec![Output { name: "value".to_owned(), value }]))
}

struct Outline<'n, 'a> {
    builder: Builder,
    /// How many parameters the flow has.
    outer: usize,
    normalise: &'n mut Normalise<'a>,
}

/// What a variable of a block stands for.
#[derive(Clone)]
enum Meaning {
    /// A value.
    Value(ValueId),
    /// The path `gen D. gen t. q[t][D]` of a scan that stood below indices.
    Path { value: ValueId, dims: Vec<Size>, states: Size },
    /// The state of a scan that stood below these indices.
    State(ValueId, Vec<IndexId>),
}

impl Meaning {
    fn value(&self) -> ValueId {
        match self {
            Meaning::Value(x) | Meaning::Path { value: x, .. } | Meaning::State(x, _) => *x,
        }
    }
}

impl Outline<'_, '_> {
    /// The statements of a program whose parameters are those of the flow and then some values, and the value that it has.
    fn block(
        &mut self,
        program: &term::Program,
        visible: &[ValueId],
        loops: &Loops,
        name: &str,
    ) -> Result<(Vec<Stmt>, ValueId)> {
        let program = &lift_lets(&name_scans(program)?)?;
        let (chain, root) = let_chain(program);
        let mut meanings: BTreeMap<VarId, Meaning> = BTreeMap::new();
        for (at, x) in visible.iter().enumerate() {
            meanings.insert(VarId::from_index(self.outer + at), Meaning::Value(*x));
        }
        // What is read behind each `let`.
        let mut read = mentions(program, root);
        let mut read_behind = Vec::with_capacity(chain.len());
        for (_, value) in chain.iter().rev() {
            read_behind.push(read.clone());
            read.append(&mut mentions(program, *value));
        }
        read_behind.reverse();
        let mut stmts = Vec::new();
        let mut pending: Vec<(VarId, TermId)> = Vec::new();
        for ((var, value), behind) in chain.into_iter().zip(&read_behind) {
            let below = Below::new(program, value);
            let Term::Scan { index, steps, down, state, init, body } = &program.terms[below.term] else {
                pending.push((var, value));
                continue;
            };
            let mut needed = behind.clone();
            needed.append(&mut mentions(program, *body));
            let name = program.variables[*state].name.clone();
            let first = (format!("{name}0"), below.with(*init));
            let init = self.leaf(program, &mut pending, &needed, Some(first), &mut meanings, loops, &mut stmts)?;
            let init = init.ok_or_else(|| Error::bug(PASS, "a scan without a first state"))?;
            // The step.
            let ty = self.builder.get(init).ty;
            let counter = self.builder.index(&program.indices[*index]);
            let before = self.builder.value(name.clone(), ty, Storage::Dense);
            let mut inside = loops.clone();
            inside.push((counter, steps.clone()));
            if inside.len() > MAX_DEPTH {
                let (limit, found) = (MAX_DEPTH as u64, inside.len() as u64);
                return Err(Error::Limit { what: "scans inside of each other", limit, found });
            }
            meanings.insert(*state, Meaning::State(before, below.indices()));
            let seen: BTreeSet<ValueId> = mentions(program, *body)
                .iter()
                .filter_map(|x| meanings.get(x).map(Meaning::value))
                .chain(below.mentions().iter().filter_map(|x| meanings.get(x).map(Meaning::value)))
                .collect();
            let seen: Vec<ValueId> = seen.into_iter().collect();
            let root = below.with(*body);
            let step = self.copied(program, &[], &[root], &seen, &meanings, &inside, Some((*index, counter)))?.0;
            let (body, after) = self.block(&step, &seen, &inside, &name)?;
            let states = steps.add_constant(1)?;
            let path_ty = self.builder.tensor(states.clone(), ty);
            let path = self.builder.value(program.variables[var].name.clone(), path_ty, Storage::Dense);
            let dims: Vec<Size> = below.gens.iter().map(|(_, n)| n.clone()).collect();
            meanings.insert(var, Meaning::Path { value: path, dims, states });
            let states = vec![State { init, before, after, path }];
            stmts.push(Stmt::Scan(Scan { index: counter, steps: steps.clone(), down: *down, states, body }));
        }
        let last = (name.to_owned(), Root::plain(root));
        let value = self.leaf(program, &mut pending, &BTreeSet::new(), Some(last), &mut meanings, loops, &mut stmts)?;
        Ok((stmts, value.ok_or_else(|| Error::bug(PASS, "a block without a value"))?))
    }

    /// A leaf of the `let`s that wait, which gives those that are needed later and one more term; gives the value of that term.
    #[allow(clippy::too_many_arguments, reason = "what a block knows")]
    fn leaf(
        &mut self,
        program: &term::Program,
        pending: &mut Vec<(VarId, TermId)>,
        needed: &BTreeSet<VarId>,
        last: Option<(String, Root)>,
        meanings: &mut BTreeMap<VarId, Meaning>,
        loops: &Loops,
        stmts: &mut Vec<Stmt>,
    ) -> Result<Option<ValueId>> {
        let given: Vec<VarId> = pending.iter().map(|(x, _)| *x).filter(|x| needed.contains(x)).collect();
        // A value that is there already is no work.
        let mut last = last;
        let mut known = None;
        if let Some((_, root)) = &last
            && root.gens.is_empty()
            && root.guard.is_true()
            && let Term::Var(x) = program.terms[root.term]
            && let Some(Meaning::Value(value)) = meanings.get(&x)
        {
            (known, last) = (Some(*value), None);
        }
        if given.is_empty() && last.is_none() {
            return Ok(known);
        }
        let lets = std::mem::take(pending);
        let mut read = BTreeSet::new();
        for (_, value) in &lets {
            read.append(&mut mentions(program, *value));
        }
        if let Some((_, root)) = &last {
            read.append(&mut mentions(program, root.term));
            read.append(&mut mentions_of_pred(&root.guard));
        }
        let takes: BTreeSet<ValueId> = read.iter().filter_map(|x| meanings.get(x).map(Meaning::value)).collect();
        let takes: Vec<ValueId> = takes.into_iter().collect();
        let roots: Vec<Root> = given
            .iter()
            .map(|x| Root { var: Some(*x), ..Root::plain(program.root) })
            .chain(last.iter().map(|(_, root)| root.clone()))
            .collect();
        let (leaf, types) = self.copied(program, &lets, &roots, &takes, meanings, loops, None)?;
        let names: Vec<String> = given
            .iter()
            .map(|x| program.variables[*x].name.clone())
            .chain(last.iter().map(|(name, _)| name.clone()))
            .collect();
        let components: Vec<(String, TypeId)> = names.iter().cloned().zip(types).collect();
        let tssa = untuple((self.normalise)(&leaf)?, &components)?;
        let leaf = self.builder.leaf(tssa, takes, &names);
        for (x, value) in given.iter().zip(&leaf.gives) {
            meanings.insert(*x, Meaning::Value(*value));
        }
        let value = last.is_some().then(|| leaf.gives.last().copied()).flatten();
        stmts.push(Stmt::Leaf(leaf));
        Ok(value.or(known))
    }

    /// A program under the signature of a leaf that takes some values: `let`s, and a tuple of terms; with the types of these in the frame.
    #[allow(clippy::too_many_arguments, reason = "what a block knows")]
    fn copied(
        &mut self,
        program: &term::Program,
        lets: &[(VarId, TermId)],
        roots: &[Root],
        takes: &[ValueId],
        meanings: &BTreeMap<VarId, Meaning>,
        loops: &Loops,
        counter: Option<(IndexId, SizeId)>,
    ) -> Result<(term::Program, Vec<TypeId>)> {
        // The types of what it gives come before the signature is made, so that they have the same numbers in it.
        let mut types = Vec::with_capacity(roots.len());
        for root in roots {
            let own = root.var.map_or_else(|| program.ty(root.term), |x| program.variables[x].ty);
            let own = type_in(&program.types, own, self.builder.types())?;
            let dims: Vec<Size> = root.gens.iter().map(|(_, n)| n.clone()).collect();
            types.push(self.builder.types().tensor_of(&dims, own));
        }
        let signature = self.builder.leaf_signature(loops, takes)?;
        let mut out = term::Program::new(signature);
        out.form = NormalForm::Surface;
        out.indices = program.indices.clone();
        let params: BTreeMap<ValueId, VarId> =
            takes.iter().enumerate().map(|(at, x)| (*x, VarId::from_index(self.outer + at))).collect();
        let mut copy = Copy { source: program, out, outer: self.outer, params, vars: BTreeMap::new(), meanings, counter };
        let mut values = Vec::with_capacity(lets.len());
        for (var, value) in lets {
            let value = copy.term(*value)?;
            let ty = copy.out.ty(value);
            let new = copy.out.fresh_var(program.variables[*var].name.clone(), ty);
            copy.vars.insert(*var, new);
            values.push((new, value));
        }
        let mut tuple = Vec::with_capacity(roots.len());
        for root in roots {
            tuple.push(copy.root(root)?);
        }
        let mut value = tuple.pop().ok_or_else(|| Error::bug(PASS, "a leaf without values"))?;
        while let Some(first) = tuple.pop() {
            value = copy.out.push(Term::Pair(first, value))?;
        }
        for (var, bound) in values.into_iter().rev() {
            value = copy.out.push(Term::Let { var, value: bound, body: value })?;
        }
        copy.out.root = value;
        Ok((copy.out, types))
    }
}

/// A term below indices and a guard, or a variable.
#[derive(Clone)]
struct Root {
    gens: Vec<(IndexId, Size)>,
    guard: Pred,
    term: TermId,
    /// The variable that stands for it.
    var: Option<VarId>,
}

impl Root {
    fn plain(term: TermId) -> Root {
        Root { gens: Vec::new(), guard: Pred::True, term, var: None }
    }
}

/// The indices and the guard around the value of a `let`.
struct Below {
    gens: Vec<(IndexId, Size)>,
    guard: Pred,
    term: TermId,
}

impl Below {
    fn new(program: &term::Program, mut term: TermId) -> Below {
        let mut gens = Vec::new();
        while let Term::Gen { index, extent, body } = &program.terms[term] {
            gens.push((*index, extent.clone()));
            term = *body;
        }
        let mut guard = Pred::True;
        if let Term::Iverson { guard: p, body } = &program.terms[term] {
            (guard, term) = (p.clone(), *body);
        }
        Below { gens, guard, term }
    }

    fn indices(&self) -> Vec<IndexId> {
        self.gens.iter().map(|(i, _)| *i).collect()
    }

    fn mentions(&self) -> BTreeSet<VarId> {
        mentions_of_pred(&self.guard)
    }

    /// Another term in the same place.
    fn with(&self, term: TermId) -> Root {
        Root { gens: self.gens.clone(), guard: self.guard.clone(), term, var: None }
    }
}

/// Each scan as the value of a `let`.
fn name_scans(program: &term::Program) -> Result<term::Program> {
    let mut named = SideTable::new(program.terms.len(), false);
    for term in program.terms.values() {
        if let Term::Let { value, .. } = term {
            named.set(*value, true);
        }
    }
    let is_scan = |e: TermId| matches!(program.terms[e], Term::Scan { .. });
    if program.terms.ids().all(|e| !is_scan(e) || named[e]) {
        return Ok(program.clone());
    }
    let mut out = program.successor(NormalForm::Surface);
    let mut built = SideTable::new(program.terms.len(), TermId(0));
    for (e, term) in program.terms.iter() {
        let mut new = out.push_at(term.map_operands(|operand| built[operand]), program.spans[e])?;
        if let (Term::Scan { state, .. }, false) = (term, named[e]) {
            let ty = out.ty(new);
            let var = out.fresh_var(program.variables[*state].name.clone(), ty);
            let body = out.push(Term::Var(var))?;
            new = out.push(Term::Let { var, value: new, body })?;
        }
        built.set(e, new);
    }
    out.root = built[program.root];
    Ok(out)
}

/// The variables that a term mentions, those that it binds among them.
fn mentions(program: &term::Program, root: TermId) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    let mut stack = vec![root];
    while let Some(e) = stack.pop() {
        let term = &program.terms[e];
        match term {
            Term::Var(x) => {
                found.insert(*x);
            }
            Term::Number(Number::Index(a)) | Term::Access { index: a, .. } => mention(a, &mut found),
            Term::Iverson { guard, .. } => found.append(&mut mentions_of_pred(guard)),
            _ => {}
        }
        term.for_each_operand(|operand| stack.push(operand));
    }
    found
}

fn mentions_of_pred(p: &Pred) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    p.visit_computed(&mut |x| {
        found.insert(x);
    });
    p.visit_affine(&mut |a| mention(a, &mut found));
    found
}

fn mention(a: &Affine, found: &mut BTreeSet<VarId>) {
    a.visit(&mut |v| {
        if let Var::Apply(application) = v {
            found.extend(application.map.computed_from());
        }
    });
}

/// A type of one table in another.
pub(super) fn type_in(from: &Types, ty: TypeId, into: &mut Types) -> Result<TypeId> {
    // Components have smaller numbers; what is on the way is found first.
    let mut known: BTreeMap<TypeId, TypeId> = BTreeMap::new();
    let mut stack = vec![ty];
    while let Some(at) = stack.pop() {
        if known.contains_key(&at) {
            continue;
        }
        let parts = match from.get(at) {
            Type::Real => Vec::new(),
            Type::Pair(a, b) => vec![*a, *b],
            Type::Tensor(_, element) => vec![*element],
        };
        let missing: Vec<TypeId> = parts.into_iter().filter(|part| !known.contains_key(part)).collect();
        if !missing.is_empty() {
            stack.push(at);
            stack.extend(missing);
            continue;
        }
        let of = |part: &TypeId| known.get(part).copied().unwrap_or(Types::REAL);
        let new = match from.get(at) {
            Type::Real => Types::REAL,
            Type::Pair(a, b) => into.pair(of(a), of(b)),
            Type::Tensor(n, element) => into.tensor(n.clone(), of(element)),
        };
        known.insert(at, new);
    }
    known.get(&ty).copied().ok_or_else(|| Error::bug(PASS, "an unknown type"))
}

/// Copies terms into a program with another signature.
struct Copy<'a> {
    source: &'a term::Program,
    out: term::Program,
    /// How many parameters keep their numbers.
    outer: usize,
    /// The parameters that are values.
    params: BTreeMap<ValueId, VarId>,
    /// The variables that are bound here.
    vars: BTreeMap<VarId, VarId>,
    meanings: &'a BTreeMap<VarId, Meaning>,
    /// The loop index that becomes a size.
    counter: Option<(IndexId, SizeId)>,
}

impl Copy<'_> {
    fn root(&mut self, root: &Root) -> Result<TermId> {
        if let Some(x) = root.var {
            return self.variable(x);
        }
        let mut term = self.term(root.term)?;
        if !root.guard.is_true() {
            let guard = self.pred(&root.guard)?;
            term = self.out.push(Term::Iverson { guard, body: term })?;
        }
        for (index, extent) in root.gens.iter().rev() {
            term = self.out.push(Term::Gen { index: *index, extent: extent.clone(), body: term })?;
        }
        Ok(term)
    }

    /// A copy of a term, operands first.
    fn term(&mut self, root: TermId) -> Result<TermId> {
        let mut terms = Vec::new();
        let mut stack = vec![root];
        while let Some(e) = stack.pop() {
            terms.push(e);
            let term = &self.source.terms[e];
            if let Term::Let { var, .. } | Term::Scan { state: var, .. } = term {
                let variable = &self.source.variables[*var];
                let ty = type_in(&self.source.types, variable.ty, &mut self.out.types)?;
                let new = self.out.fresh_var(variable.name.clone(), ty);
                self.vars.insert(*var, new);
            }
            term.for_each_operand(|operand| stack.push(operand));
        }
        terms.sort_unstable();
        let mut built: BTreeMap<TermId, TermId> = BTreeMap::new();
        for e in terms {
            let new = match &self.source.terms[e] {
                Term::Var(x) => self.variable(*x)?,
                term => {
                    let of = |operand: TermId| built.get(&operand).copied().unwrap_or(TermId(0));
                    let bound = |x: &VarId| self.vars.get(x).copied().unwrap_or(*x);
                    let term = match term.map_operands(of) {
                        Term::Number(Number::Index(a)) => Term::Number(Number::Index(self.affine(&a)?)),
                        Term::Access { array, index } => Term::Access { array, index: self.affine(&index)? },
                        Term::Iverson { guard, body } => Term::Iverson { guard: self.pred(&guard)?, body },
                        Term::Let { var, value, body } => Term::Let { var: bound(&var), value, body },
                        Term::Scan { index, steps, down, state, init, body } => {
                            Term::Scan { index, steps, down, state: bound(&state), init, body }
                        }
                        term => term,
                    };
                    self.out.push_at(term, self.source.spans[e])?
                }
            };
            built.insert(e, new);
        }
        built.get(&root).copied().ok_or_else(|| Error::bug(PASS, "an unknown term"))
    }

    /// What stands for a variable.
    fn variable(&mut self, x: VarId) -> Result<TermId> {
        let Some(meaning) = self.meanings.get(&x).filter(|_| !self.vars.contains_key(&x)) else {
            let var = self.name(x)?;
            return self.out.push(Term::Var(var));
        };
        let param = self.params.get(&meaning.value());
        let param = *param.ok_or_else(|| Error::bug(PASS, "a value that is not taken"))?;
        let var = self.out.push(Term::Var(param))?;
        match meaning {
            Meaning::Value(_) => Ok(var),
            Meaning::State(_, indices) => self.out.access(var, indices.iter().map(|i| Affine::index(*i))),
            Meaning::Path { dims, .. } if dims.is_empty() => Ok(var),
            Meaning::Path { dims, states, .. } => {
                let step = self.out.fresh_index("t");
                let gens: Vec<(IndexId, Size)> =
                    dims.iter().map(|n| (self.out.fresh_index("i"), n.clone())).collect();
                let at = std::iter::once(Affine::index(step)).chain(gens.iter().map(|(i, _)| Affine::index(*i)));
                let element = self.out.access(var, at)?;
                let path = self.out.push(Term::Gen { index: step, extent: states.clone(), body: element })?;
                gens.into_iter()
                    .rev()
                    .try_fold(path, |body, (index, extent)| self.out.push(Term::Gen { index, extent, body }))
            }
        }
    }

    /// The variable that stands for a variable as it is.
    fn name(&self, x: VarId) -> Result<VarId> {
        if let Some(new) = self.vars.get(&x) {
            return Ok(*new);
        }
        match self.meanings.get(&x) {
            None if x.index() < self.outer => Ok(x),
            None => Err(Error::bug(PASS, format!("the variable {x} is not in scope"))),
            Some(Meaning::Path { dims, .. }) if !dims.is_empty() => Err(compared()),
            Some(Meaning::State(_, indices)) if !indices.is_empty() => Err(compared()),
            Some(meaning) => {
                let param = self.params.get(&meaning.value()).copied();
                param.ok_or_else(|| Error::bug(PASS, "a value that is not taken"))
            }
        }
    }

    fn affine(&self, a: &Affine) -> Result<Affine> {
        let mut failed = None;
        let new = a.replace(&mut |v| {
            Ok(match v {
                Var::Index(i) => self.counter.filter(|(index, _)| index == i).map(|(_, size)| Affine::size(size)),
                Var::Apply(application) => {
                    let map = self.relation(application.map).unwrap_or_else(|error| {
                        failed = Some(error);
                        application.map
                    });
                    let args = application.args.clone();
                    Some(Affine::var(Var::Apply(Box::new(Application { map, args }))))
                }
                Var::Size(_) => None,
            })
        })?;
        failed.map_or(Ok(new), Err)
    }

    fn relation(&self, relation: RelationRef) -> Result<RelationRef> {
        Ok(match relation {
            RelationRef::Computed { var, view } => RelationRef::Computed { var: self.name(var)?, view },
            input @ RelationRef::Input(_) => input,
        })
    }

    fn pred(&self, p: &Pred) -> Result<Pred> {
        let mut failed = None;
        let p = p.map_affine(&mut |a| {
            Ok(self.affine(a).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                a.clone()
            }))
        })?;
        let p = p.map_relations(&mut |r| {
            Ok::<_, Error>(self.relation(r).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                r
            }))
        })?;
        failed.map_or(Ok(p), Err)
    }
}

fn compared() -> Error {
    let feature = "a bracket that compares elements of a scan below indices; bind the comparison by `let`".to_owned();
    Error::Limitation { feature, span: None }
}

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
    let (body, values) = outline.block(program, &[], &Vec::new(), "value")?;
    let ty = type_in(&program.types, program.ty(program.root), outline.builder.types())?;
    Ok(outline.builder.finish(body, vec![Output { name: "value".to_owned(), ty, values }]))
}

struct Outline<'n, 'a> {
    builder: Builder,
    /// How many parameters the flow has.
    outer: usize,
    normalise: &'n mut Normalise<'a>,
}

/// What a variable of a block stands for.
#[derive(Clone)]
struct Meaning {
    /// The type of its values taken together, in the types of the frame.
    ty: TypeId,
    /// The leaves.
    values: Vec<ValueId>,
    form: Form,
}

/// How the values are those of the variable.
#[derive(Clone)]
enum Form {
    /// As they stand.
    Plain,
    /// They are the path `q` of a scan that stood below indices, which is `gen D. gen t. q[t][D]`.
    Path { dims: Vec<Size>, states: Size },
    /// They are the state of a scan that stood below these indices.
    State(Vec<IndexId>),
}

impl Meaning {
    fn plain(ty: TypeId, values: Vec<ValueId>) -> Meaning {
        Meaning { ty, values, form: Form::Plain }
    }

    fn is_plain(&self) -> bool {
        match &self.form {
            Form::Plain => true,
            Form::Path { dims, .. } => dims.is_empty(),
            Form::State(indices) => indices.is_empty(),
        }
    }
}

type Meanings = BTreeMap<VarId, Meaning>;

/// The values that stand for variables.
fn values_of(variables: &BTreeSet<VarId>, meanings: &Meanings) -> Vec<ValueId> {
    let values = variables.iter().filter_map(|x| meanings.get(x)).flat_map(|meaning| &meaning.values);
    values.copied().collect::<BTreeSet<_>>().into_iter().collect()
}

/// What is known around a leaf.
#[derive(Clone, Copy)]
struct Place<'a> {
    program: &'a term::Program,
    loops: &'a Loops,
    /// The number 1.
    one: TermId,
}

impl Outline<'_, '_> {
    /// The statements of a program whose parameters are those of the flow and then some values, and the values that it has.
    fn block(
        &mut self,
        program: &term::Program,
        visible: &[ValueId],
        loops: &Loops,
        name: &str,
    ) -> Result<(Vec<Stmt>, Vec<ValueId>)> {
        let mut program = lift_lets(&name_scans(program)?)?;
        let one = program.literal(1.0)?;
        let program = &program;
        let place = Place { program, loops, one };
        let (chain, root) = let_chain(program);
        let mut meanings = Meanings::new();
        for (at, x) in visible.iter().enumerate() {
            meanings.insert(VarId::from_index(self.outer + at), Meaning::plain(self.builder.get(*x).ty, vec![*x]));
        }
        // The last `let` that reads a variable; the body of all comes behind.
        let mut last_read: BTreeMap<VarId, usize> = BTreeMap::new();
        for (at, value) in chain.iter().map(|(_, value)| *value).chain([root]).enumerate() {
            last_read.extend(mentions(program, value).into_iter().map(|x| (x, at)));
        }
        let mut stmts = Vec::new();
        let mut pending: Vec<(VarId, TermId)> = Vec::new();
        for (at, (var, value)) in chain.into_iter().enumerate() {
            let below = Root::of(program, value);
            let (index, steps, down, state, init, body, implicit) = match &program.terms[below.term] {
                Term::Scan { index, steps, down, state, init, body, implicit } => {
                    (index, steps, down, state, init, body, implicit)
                }
                Term::Call { .. } => {
                    let later = |x: VarId| last_read.get(&x).is_some_and(|last| *last > at);
                    self.call(&place, &mut pending, (var, &below), &later, &mut meanings, &mut stmts)?;
                    continue;
                }
                _ => {
                    pending.push((var, value));
                    continue;
                }
            };
            let mut inside = mentions(program, *body);
            inside.append(&mut mentions_of_pred(&below.guard));
            let needed = |x: VarId| inside.contains(&x) || last_read.get(&x).is_some_and(|last| *last > at);
            let name = program.variables[*state].name.clone();
            let first = (name.clone(), below.with(*init));
            let init = self.leaf(&place, &mut pending, &needed, first, &mut meanings, &mut stmts)?;
            let seen = inside;
            let counter = self.builder.index(&program.indices[*index]);
            let mut inside = loops.clone();
            inside.push((counter, steps.clone()));
            if inside.len() > MAX_DEPTH {
                let (limit, found) = (MAX_DEPTH as u64, inside.len() as u64);
                return Err(Error::Limit { what: "scans inside of each other", limit, found });
            }
            let names = state_names(program, *state, *body, init.values.len());
            let before: Vec<ValueId> = init
                .values
                .iter()
                .zip(&names)
                .map(|(x, name)| self.builder.value(name, self.builder.get(*x).ty, Storage::Dense))
                .collect();
            let form = Form::State(below.gens.iter().map(|(i, _)| *i).collect());
            meanings.insert(*state, Meaning { ty: init.ty, values: before.clone(), form });
            let seen = values_of(&seen, &meanings);
            let root = below.with(*body);
            let inner = Place { loops: &inside, ..place };
            let step = self.copied(&inner, &[], &[root], &seen, &meanings, Some((*index, counter)))?.0;
            let (body, after) = self.block(&step, &seen, &inside, &name)?;
            if after.len() != before.len() {
                return Err(Error::bug(PASS, "a state of another type"));
            }
            let states = steps.add_constant(1)?;
            let mut of_scan = Vec::with_capacity(before.len());
            for (((init, before), after), name) in init.values.iter().zip(before).zip(after).zip(names) {
                of_scan.push(self.state(&name, *init, (before, after), &states));
            }
            let ty = self.builder.types().tensor(states.clone(), init.ty);
            let form = Form::Path { dims: below.gens.iter().map(|(_, n)| n.clone()).collect(), states };
            meanings.insert(var, Meaning { ty, values: of_scan.iter().map(|state| state.path).collect(), form });
            let (steps, states, implicit) = (steps.clone(), of_scan, implicit.clone());
            let (index, down, early, tiles) = (counter, *down, None, false);
            stmts.push(Stmt::Scan(Scan { index, steps, down, states, early, tiles, implicit, body }));
        }
        let last = (name.to_owned(), Root::of_term(root));
        let found = self.leaf(&place, &mut pending, &|_| false, last, &mut meanings, &mut stmts)?;
        Ok((stmts, found.values))
    }

    /// A state of a scan, of which there are so many.
    fn state(&mut self, name: &str, init: ValueId, (before, after): (ValueId, ValueId), states: &Size) -> State {
        let ty = self.builder.get(init).ty;
        let last = self.builder.value(name, ty, Storage::Dense);
        let ty = self.builder.types().tensor(states.clone(), ty);
        let path = self.builder.value(name, ty, Storage::Dense);
        State { init, before, after, path, last }
    }

    /// A call of a function from outside, the value of a variable; the leaves before it give its arguments.
    fn call(
        &mut self,
        place: &Place<'_>,
        pending: &mut Vec<(VarId, TermId)>,
        (var, below): (VarId, &Root),
        later: &dyn Fn(VarId) -> bool,
        meanings: &mut Meanings,
        stmts: &mut Vec<Stmt>,
    ) -> Result<()> {
        let program = place.program;
        let Term::Call { function, sizes, args } = &program.terms[below.term] else {
            return Err(Error::bug(PASS, "no call"));
        };
        let (_, external) = self.builder.external(*function)?;
        let mut read: BTreeSet<VarId> = args.iter().flat_map(|arg| mentions(program, *arg)).collect();
        read.append(&mut mentions_of_pred(&below.guard));
        let mut takes = Vec::with_capacity(args.len());
        let needed = |x: VarId| read.contains(&x) || later(x);
        let when = match below.guard.is_true() {
            true => None,
            false => {
                let last = ("when".to_owned(), below.with(place.one));
                self.leaf(place, pending, &needed, last, meanings, stmts)?.values.first().copied()
            }
        };
        for (arg, (param, _)) in args.iter().zip(&external.params) {
            let found = self.leaf(place, pending, &needed, (param.clone(), below.with(*arg)), meanings, stmts)?;
            takes.extend(found.values);
        }
        let axes = below.gens.iter().map(|(_, n)| n.clone()).collect();
        let names = vec![program.variables[var].name.clone(); external.results.len()];
        let call = self.builder.call(*function, sizes.clone(), (axes, when), takes, &names)?;
        let ty = type_in(&program.types, program.variables[var].ty, self.builder.types())?;
        meanings.insert(var, Meaning::plain(ty, call.gives.clone()));
        stmts.push(Stmt::Call(call));
        Ok(())
    }

    /// A leaf of the `let`s that wait, which gives those that are needed later and one more term; gives what that term is.
    fn leaf(
        &mut self,
        place: &Place<'_>,
        pending: &mut Vec<(VarId, TermId)>,
        needed: &dyn Fn(VarId) -> bool,
        (name, last): (String, Root),
        meanings: &mut Meanings,
        stmts: &mut Vec<Stmt>,
    ) -> Result<Meaning> {
        let program = place.program;
        let mut roots: Vec<(Option<VarId>, String, Root)> = Vec::new();
        for (x, _) in pending.iter().filter(|(x, _)| needed(*x)) {
            roots.push((Some(*x), program.variables[*x].name.clone(), Root::of_variable(*x)));
        }
        // What is there already is no work.
        let known = match program.terms[last.term] {
            Term::Var(x) if last.gens.is_empty() && last.guard.is_true() => meanings.get(&x),
            _ => None,
        };
        let known = known.filter(|meaning| meaning.is_plain()).cloned();
        if known.is_none() {
            roots.push((None, name, last));
        }
        if roots.is_empty() {
            return known.ok_or_else(|| Error::bug(PASS, "a leaf without values"));
        }
        let lets = std::mem::take(pending);
        let mut read = BTreeSet::new();
        for term in lets.iter().map(|(_, value)| *value).chain(roots.iter().filter_map(|(_, _, root)| root.own_term()))
        {
            read.append(&mut mentions(program, term));
        }
        for (_, _, root) in &roots {
            read.append(&mut mentions_of_pred(&root.guard));
        }
        let takes = values_of(&read, meanings);
        let terms: Vec<Root> = roots.iter().map(|(_, _, root)| root.clone()).collect();
        let (leaf, types) = self.copied(place, &lets, &terms, &takes, meanings, None)?;
        let mut leaves = Vec::new();
        for ((_, name, _), ty) in roots.iter().zip(&types) {
            let parts = self.builder.frame().types.leaves(*ty)?;
            let several = parts.len() > 1;
            for (at, part) in parts.into_iter().enumerate() {
                let ty = self.builder.types().tensor_of(&part.dims, Types::REAL);
                leaves.push((if several { format!("{name}_{at}") } else { name.clone() }, ty));
            }
        }
        let program = untuple((self.normalise)(&leaf)?, &leaves)?;
        let names: Vec<String> = leaves.into_iter().map(|(name, _)| name).collect();
        let leaf = self.builder.leaf(program, takes, &names);
        let mut given = leaf.gives.iter().copied();
        let mut found = known;
        for ((x, _, _), ty) in roots.iter().zip(types) {
            let count = self.builder.frame().types.leaves(ty)?.len();
            let meaning = Meaning::plain(ty, given.by_ref().take(count).collect());
            match x {
                Some(x) => drop(meanings.insert(*x, meaning)),
                None => found = Some(meaning),
            }
        }
        stmts.push(Stmt::Leaf(leaf));
        found.ok_or_else(|| Error::bug(PASS, "a leaf without values"))
    }

    /// A program under the signature of a leaf that takes some values: `let`s, and a tuple of terms; with the types of these in the frame.
    fn copied(
        &mut self,
        place: &Place<'_>,
        lets: &[(VarId, TermId)],
        roots: &[Root],
        takes: &[ValueId],
        meanings: &Meanings,
        counter: Option<(IndexId, SizeId)>,
    ) -> Result<(term::Program, Vec<TypeId>)> {
        let program = place.program;
        // The types of what it gives come before the signature is made, so that they have the same numbers in it.
        let mut types = Vec::with_capacity(roots.len());
        for root in roots {
            let own = match root.var {
                Some(x) => program.variables[x].ty,
                None => program.ty(root.term),
            };
            let own = type_in(&program.types, own, self.builder.types())?;
            let dims: Vec<Size> = root.gens.iter().map(|(_, n)| n.clone()).collect();
            let ty = self.builder.types().tensor_of(&dims, own);
            for part in self.builder.frame().types.leaves(ty)? {
                self.builder.types().tensor_of(&part.dims, Types::REAL);
            }
            types.push(ty);
        }
        let signature = self.builder.leaf_signature(place.loops, takes)?;
        let mut out = term::Program::new(signature);
        out.indices = program.indices.clone();
        let params = takes.iter().enumerate().map(|(at, x)| (*x, VarId::from_index(self.outer + at))).collect();
        let vars = BTreeMap::new();
        let mut copy = Copy { source: program, out, outer: self.outer, params, vars, meanings, counter };
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

/// The names of the parts of a state: those that the body gives them by `let`, as a pattern does.
fn state_names(program: &term::Program, state: VarId, body: TermId, parts: usize) -> Vec<String> {
    let name = &program.variables[state].name;
    let mut names = Vec::new();
    let mut rest = body;
    // `let p = s in let h = fst p in let c = snd p in ..`, and deeper patterns alike.
    let mut whole = vec![state];
    while let Term::Let { var, value, body } = &program.terms[rest] {
        let (mut of, mut ends) = (*value, false);
        while let Term::Fst(e) | Term::Snd(e) = &program.terms[of] {
            (of, ends) = (*e, true);
        }
        let of = if let Term::Var(x) = &program.terms[of] { Some(*x) } else { None };
        if !of.is_some_and(|of| whole.contains(&of)) {
            break;
        }
        whole.push(*var);
        if ends && !matches!(program.types.get(program.variables[*var].ty), Type::Pair(..)) {
            names.push(program.variables[*var].name.clone());
        }
        rest = *body;
    }
    match (parts, names.len() == parts) {
        (1, _) => vec![name.clone()],
        (_, true) => names,
        (parts, false) => (0..parts).map(|at| format!("{name}_{at}")).collect(),
    }
}

/// A term below indices and a guard, or a variable.
#[derive(Clone)]
struct Root {
    gens: Vec<(IndexId, Size)>,
    guard: Pred,
    term: TermId,
    /// The variable that stands in its place.
    var: Option<VarId>,
}

impl Root {
    fn of_term(term: TermId) -> Root {
        Root { gens: Vec::new(), guard: Pred::True, term, var: None }
    }

    fn of_variable(x: VarId) -> Root {
        Root { var: Some(x), ..Root::of_term(TermId(0)) }
    }

    /// The value of a `let`, with the indices and the guard around it apart.
    fn of(program: &term::Program, mut term: TermId) -> Root {
        let mut gens = Vec::new();
        while let Term::Gen { index, extent, body } = &program.terms[term] {
            gens.push((*index, extent.clone()));
            term = *body;
        }
        let mut guard = Pred::True;
        if let Term::Iverson { guard: p, body } = &program.terms[term] {
            (guard, term) = (p.clone(), *body);
        }
        Root { gens, guard, term, var: None }
    }

    /// Another term in the same place.
    fn with(&self, term: TermId) -> Root {
        Root { term, ..self.clone() }
    }

    fn own_term(&self) -> Option<TermId> {
        self.var.is_none().then_some(self.term)
    }
}

/// Each scan, and each call of a function from outside, as the value of a `let`.
fn name_scans(program: &term::Program) -> Result<term::Program> {
    let mut named = SideTable::new(program.terms.len(), false);
    for term in program.terms.values() {
        if let Term::Let { value, .. } = term {
            named.set(*value, true);
        }
    }
    let is_scan = |e: TermId| matches!(program.terms[e], Term::Scan { .. } | Term::Call { .. });
    if program.terms.ids().all(|e| !is_scan(e) || named[e]) {
        return Ok(program.clone());
    }
    let mut out = program.successor(NormalForm::Surface);
    let mut built = SideTable::new(program.terms.len(), TermId(0));
    for (e, term) in program.terms.iter() {
        let mut new = out.push_at(term.map_operands(|operand| built[operand]), program.spans[e])?;
        let name = match term {
            Term::Scan { state, .. } => Some(program.variables[*state].name.clone()),
            Term::Call { .. } => Some("y".to_owned()),
            _ => None,
        };
        if let Some(name) = name.filter(|_| !named[e]) {
            let ty = out.ty(new);
            let var = out.fresh_var(name, ty);
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
    meanings: &'a Meanings,
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
                        Term::Scan { index, steps, down, state, init, body, implicit } => {
                            Term::Scan { index, steps, down, state: bound(&state), init, body, implicit }
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
        let params = meaning.values.iter().map(|value| self.params.get(value).copied());
        let params: Option<Vec<VarId>> = params.collect();
        let params = params.ok_or_else(|| Error::bug(PASS, "a value that is not taken"))?;
        let whole = self.together(meaning.ty, &mut params.into_iter(), &[])?;
        match &meaning.form {
            Form::Plain => Ok(whole),
            Form::State(indices) => self.out.access(whole, indices.iter().map(|i| Affine::index(*i))),
            Form::Path { dims, .. } if dims.is_empty() => Ok(whole),
            Form::Path { dims, states } => {
                let step = self.out.fresh_index("t");
                let gens: Vec<(IndexId, Size)> = dims.iter().map(|n| (self.out.fresh_index("i"), n.clone())).collect();
                let at = std::iter::once(Affine::index(step)).chain(gens.iter().map(|(i, _)| Affine::index(*i)));
                let element = self.out.access(whole, at)?;
                let path = self.out.push(Term::Gen { index: step, extent: states.clone(), body: element })?;
                gens.into_iter()
                    .rev()
                    .try_fold(path, |body, (index, extent)| self.out.push(Term::Gen { index, extent, body }))
            }
        }
    }

    /// The value of a type whose leaves are variables, at places of these. Types nest to a bounded depth.
    fn together(&mut self, ty: TypeId, leaves: &mut impl Iterator<Item = VarId>, at: &[IndexId]) -> Result<TermId> {
        if self.out.types.real_dims(ty).is_some() {
            let leaf = leaves.next().ok_or_else(|| Error::bug(PASS, "a value lacks a leaf"))?;
            let leaf = self.out.push(Term::Var(leaf))?;
            return self.out.access(leaf, at.iter().map(|i| Affine::index(*i)));
        }
        match self.out.types.get(ty).clone() {
            Type::Pair(a, b) => {
                let a = self.together(a, leaves, at)?;
                let b = self.together(b, leaves, at)?;
                self.out.push(Term::Pair(a, b))
            }
            Type::Tensor(extent, element) => {
                let index = self.out.fresh_index("i");
                let at: Vec<IndexId> = at.iter().copied().chain([index]).collect();
                let body = self.together(element, leaves, &at)?;
                self.out.push(Term::Gen { index, extent, body })
            }
            Type::Real => Err(Error::bug(PASS, "a value without leaves")),
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
            Some(meaning) => match (meaning.is_plain(), meaning.values.as_slice()) {
                (true, [value]) => {
                    let param = self.params.get(value).copied();
                    param.ok_or_else(|| Error::bug(PASS, "a value that is not taken"))
                }
                _ => Err(compared()),
            },
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

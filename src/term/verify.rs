//! Checks everything that [`Program`] promises and its types do not enforce. All violations are reported.
//!
//! **Ids.** Every id is of its table. The variables begin with the parameters, in order; the types begin with those of the signature.
//!
//! **Signature.** Sizes are affine in size variables. A sparse parameter is a tensor of reals; its pattern is a relation of the same
//! shape that names it. A map has at least one source. Assumptions mention sizes only. A parameter has no more components than
//! [`Types::MAX_LEAVES`].
//!
//! **Shape.** Operands come before their users, every term but the root is the operand of exactly one term, and the root of none. Users
//! come later, so following them from any term ends at the root: all terms are reachable.
//!
//! **Scope.** Every index and every variable is bound at most once, those of `exists` included, and is used only where it is in
//! scope: in terms, accesses, guards, numbers, and as a computed relation.
//!
//! **Types.** The type of each term is the one that its typing rule gives. Extents are sizes. A function, a relation and a map have
//! as many arguments as they need; a computed relation reads a tensor of reals, and a map that is one is an arg-max or arg-min.
//!
//! **Predicates.** Canonical, and nested no deeper than [`Pred::MAX_NESTING`] and [`Affine::MAX_NESTING`].
//!
//! **Normal forms**, each on top of the ones before:
//! - [`NormalForm::LetLifted`]: a `let` is the root or the body of a `let` that is. There are no scans: these are taken apart before.
//! - [`NormalForm::PairFree`]: pairs are in the output tuple, below the `let`s, only; `fst` and `snd` apply to parameters and to each
//!   other only; variables are tensors of reals.
//! - [`NormalForm::GenPushedOut`]: every right-hand side is `gen .. gen e` with `e` scalar and free of `gen`; tensors occur in `e` only under
//!   accesses to all of their axes; a bracket directly inside a bracket is merged with it.
//!
//! The walk is a loop over an explicit stack; its time is linear in the program.

#[cfg(test)]
mod tests;

use std::fmt;

use super::data::{NormalForm, Program, Term, TermId, Variable, VariableKind};
use crate::base::{Id, IndexId, VarId};
use crate::error::Error;
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Function, Number, Primitive};
use crate::ty::{RelationKind, Type, TypeId, Types};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The term at fault, where there is one.
    pub term: Option<TermId>,
    /// What was expected and what was found.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.term {
            Some(term) => write!(f, "{term}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// All broken invariants of a program, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyErrors(pub Vec<Violation>);

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, violation) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}{violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyErrors {}

impl VerifyErrors {
    /// The complaint about a pass that made such a program.
    pub fn blame(self, pass: &'static str, program: &Program) -> Error {
        // A broken program may not be printable, so its terms are listed.
        let listed = program.terms.iter().take(1000).map(|(id, term)| format!("{id} = {term:?}\n")).collect();
        Error::Bug { pass, message: self.to_string(), program: listed }
    }
}

impl Program {
    /// Checks all invariants; the list is in the module's documentation.
    ///
    /// # Errors
    /// Every violation. Later groups of checks are left out where they would rest on broken ids or a broken tree.
    pub fn verify(&self) -> Result<(), VerifyErrors> {
        let mut verifier = Verifier {
            program: self,
            violations: Vec::new(),
            indices: vec![Scope::Unbound; self.indices.len()],
            vars: vec![Scope::Unbound; self.variables.len()],
        };
        verifier.signature();
        verifier.ids();
        if verifier.violations.is_empty() {
            verifier.shape();
        }
        if verifier.violations.is_empty() {
            verifier.types();
            verifier.scopes();
        }
        if verifier.violations.is_empty() {
            verifier.form();
        }
        match verifier.violations.is_empty() {
            true => Ok(()),
            false => Err(VerifyErrors(verifier.violations)),
        }
    }
}

/// Whether a binder was met.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Unbound,
    Open,
    Closed,
}

struct Verifier<'a> {
    program: &'a Program,
    violations: Vec<Violation>,
    indices: Vec<Scope>,
    vars: Vec<Scope>,
}

impl Verifier<'_> {
    fn complain(&mut self, term: impl Into<Option<TermId>>, message: impl Into<String>) {
        self.violations.push(Violation { term: term.into(), message: message.into() });
    }

    fn signature(&mut self) {
        if let Err(message) = self.program.signature.verify() {
            self.complain(None, message);
        }
    }

    fn ids(&mut self) {
        let Program { signature, types, variables, terms, term_types, root, .. } = self.program;
        if types.iter().len() < signature.types.iter().len()
            || !signature.types.iter().zip(types.iter()).all(|(a, b)| a == b)
        {
            self.complain(None, "the types do not begin with the types of the signature");
        }
        for (id, ty) in types.iter() {
            if let Type::Tensor(n, _) = ty
                && let Err(message) = signature.check_size(n)
            {
                self.complain(None, format!("type {id}: {message}"));
            }
        }
        for (id, param) in signature.params.iter() {
            let kind = VariableKind::Param(id);
            if variables.get(VarId(id.0)).is_none_or(|x| x.kind != kind || x.ty != param.ty) {
                self.complain(None, format!("variable {} does not stand for the parameter `{}`", id.0, param.name));
            }
        }
        for (id, x) in variables.iter() {
            if !types.contains(x.ty) {
                self.complain(None, format!("variable {id} has the unknown type {}", x.ty));
            }
            if id.index() >= signature.params.len() && x.kind != VariableKind::Let {
                self.complain(None, format!("variable {id} is a second one for a parameter"));
            }
        }
        if terms.len() != term_types.len() {
            self.complain(None, format!("{} terms have {} types", terms.len(), term_types.len()));
        }
        if terms.get(*root).is_none() {
            self.complain(None, format!("the root {root} is no term"));
        }
        for (id, ty) in term_types.iter() {
            if !types.contains(*ty) {
                self.complain(id, format!("the type {ty} is unknown"));
            }
        }
        for (id, term) in terms.iter() {
            let (var, index) = match term {
                Term::Var(var) | Term::Let { var, .. } => (Some(*var), None),
                Term::Scan { index, state, .. } => (Some(*state), Some(*index)),
                Term::Gen { index, .. } | Term::Sum { index, .. } => (None, Some(*index)),
                _ => (None, None),
            };
            if let Some(var) = var.filter(|x| variables.get(*x).is_none()) {
                self.complain(id, format!("the variable {var} is unknown"));
            }
            if let Some(index) = index.filter(|i| self.program.indices.get(*i).is_none()) {
                self.complain(id, format!("the index {index} is unknown"));
            }
        }
    }

    fn shape(&mut self) {
        let terms = &self.program.terms;
        let mut users = vec![0u8; terms.len()];
        for (id, term) in terms.iter() {
            term.for_each_operand(|operand| {
                if operand < id {
                    let users = &mut users[operand.index()];
                    *users = users.saturating_add(1);
                } else {
                    self.complain(id, format!("the operand {operand} does not come before it"));
                }
            });
        }
        for (id, users) in terms.ids().zip(users) {
            match (id == self.program.root, users) {
                (true, 0) | (false, 1) => {}
                (true, _) => self.complain(id, "the root is an operand"),
                (false, 0) => self.complain(id, "no term uses it"),
                (false, _) => self.complain(id, "it is the operand of more than one term"),
            }
        }
    }

    fn types(&mut self) {
        for (id, term) in self.program.terms.iter() {
            if let Err(message) = self.check_type(term, self.program.term_types[id]) {
                self.complain(id, message);
            }
        }
    }

    /// The typing rules, read backwards: does the term have this type?
    fn check_type(&self, term: &Term, ty: TypeId) -> Result<(), String> {
        let Program { types, variables, term_types, .. } = self.program;
        let of = |e: &TermId| term_types[*e];
        let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        let scalar = |e: &TermId| expect(of(e) == Types::REAL, &format!("the operand {e} is not a scalar"));
        let result = |expected: TypeId| expect(ty == expected, &format!("its type is {expected}, not {ty}"));
        match term {
            Term::Number(_) => result(Types::REAL),
            Term::Var(x) => result(variables[*x].ty),
            Term::Add(a, b) | Term::Mul(a, b) => {
                scalar(a)?;
                scalar(b)?;
                result(Types::REAL)
            }
            Term::Apply(function, args) => {
                self.check_arguments(*function, args.len())?;
                args.iter().try_for_each(scalar)?;
                result(Types::REAL)
            }
            Term::Pair(a, b) => {
                let is_pair = *types.get(ty) == Type::Pair(of(a), of(b));
                expect(is_pair, &format!("{ty} is not the pair of {} and {}", of(a), of(b)))
            }
            Term::Fst(e) | Term::Snd(e) => {
                let (dims, element) = types.peel(of(e));
                let Type::Pair(a, b) = types.get(element) else {
                    return Err(format!("the operand {e} is not a pair"));
                };
                let lifted = self.program.form >= NormalForm::PairFree;
                expect(dims.is_empty() || lifted, &format!("the operand {e} is not a pair"))?;
                // The component may be a tensor itself.
                let component = if matches!(term, Term::Fst(_)) { *a } else { *b };
                let mut rest = ty;
                for n in dims {
                    match types.get(rest) {
                        Type::Tensor(m, element) if m == n => rest = *element,
                        _ => return Err("its type is not that of the component".to_owned()),
                    }
                }
                expect(rest == component, "its type is not that of the component")
            }
            Term::Gen { extent, body, .. } => {
                self.check_extent(extent)?;
                let is_tensor = *types.get(ty) == Type::Tensor(extent.clone(), of(body));
                expect(is_tensor, &format!("{ty} is not the tensor of {}", of(body)))
            }
            Term::Sum { extent, body, .. } => {
                self.check_extent(extent)?;
                scalar(body)?;
                result(Types::REAL)
            }
            Term::Access { array, .. } => match types.get(of(array)) {
                Type::Tensor(_, element) => result(*element),
                _ => Err(format!("the operand {array} is not a tensor")),
            },
            Term::Iverson { body, .. } => result(of(body)),
            Term::Let { var, value, body } => {
                let kind = variables[*var].kind;
                expect(kind == VariableKind::Let, &format!("{var} is a parameter"))?;
                expect(variables[*var].ty == of(value), &format!("the value is not of the type of {var}"))?;
                result(of(body))
            }
            Term::Call { function, sizes, args } => {
                sizes.iter().try_for_each(|n| self.check_extent(n))?;
                let args: Vec<TypeId> = args.iter().map(of).collect();
                // Types that a call needs are there, unless it is of another type.
                let found = self.program.clone().type_of_call(*function, sizes, &args);
                expect(found == Ok(Some(ty)), "a call of another type")
            }
            Term::Scan { steps, state, init, body, .. } => {
                self.check_fixpoint(term)?;
                self.check_scan(steps, *state, [of(init), of(body)], ty)
            }
        }
    }

    /// Whether a function takes so many arguments, and is there.
    fn check_arguments(&self, function: Function, found: usize) -> Result<(), String> {
        let (Function::Value(primitive) | Function::Partial(primitive, _)) = function;
        let arity = match primitive {
            Primitive::Op(op) => op.arity(),
            Primitive::User(f) => {
                let function = self.program.signature.functions.get(f);
                function.ok_or_else(|| format!("the function {f} is unknown"))?.arity()
            }
        };
        if found != usize::from(arity) {
            return Err(format!("{found} arguments where {arity} are expected"));
        }
        match function {
            Function::Partial(_, k) if k >= arity => Err(format!("there is no partial derivative by argument {k}")),
            _ => Ok(()),
        }
    }

    /// What a scan promises if it is a fixpoint.
    fn check_fixpoint(&self, term: &Term) -> Result<(), String> {
        let Term::Scan { steps, down, implicit: Some(most), .. } = term else { return Ok(()) };
        self.check_extent(most)?;
        match *steps == Size::constant(1) && !down {
            true => Ok(()),
            false => Err("a fixpoint has one step".to_owned()),
        }
    }

    fn check_scan(&self, steps: &Size, state: VarId, values: [TypeId; 2], ty: TypeId) -> Result<(), String> {
        self.check_extent(steps)?;
        let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        let Variable { kind, ty: of_state, .. } = &self.program.variables[state];
        expect(*kind == VariableKind::Let, &format!("{state} is a parameter"))?;
        expect(values[0] == *of_state, "the first state is not of the type of the state")?;
        expect(values[1] == *of_state, "the next state is not of the type of the state")?;
        let states = steps.add_constant(1).map_err(|overflow| overflow.to_string())?;
        let is_tensor = *self.program.types.get(ty) == Type::Tensor(states, *of_state);
        expect(is_tensor, &format!("{ty} is not the tensor of {of_state}"))
    }

    fn check_extent(&self, extent: &Size) -> Result<(), String> {
        self.program.signature.check_size(extent)
    }

    /// Walks the tree with the binders in scope.
    fn scopes(&mut self) {
        enum Task {
            Visit(TermId),
            OpenVar(TermId, VarId),
            OpenIndex(TermId, IndexId),
            CloseVar(VarId),
            CloseIndex(IndexId),
        }
        for x in self.vars.iter_mut().take(self.program.signature.params.len()) {
            *x = Scope::Open;
        }
        let mut stack = vec![Task::Visit(self.program.root)];
        while let Some(task) = stack.pop() {
            let id = match task {
                Task::Visit(id) => id,
                Task::OpenVar(id, x) => {
                    if self.vars[x.index()] != Scope::Unbound {
                        self.complain(id, format!("the variable {x} is bound twice"));
                    }
                    self.vars[x.index()] = Scope::Open;
                    continue;
                }
                Task::OpenIndex(id, i) => {
                    self.open_index(id, i);
                    continue;
                }
                Task::CloseVar(x) => {
                    self.vars[x.index()] = Scope::Closed;
                    continue;
                }
                Task::CloseIndex(i) => {
                    self.indices[i.index()] = Scope::Closed;
                    continue;
                }
            };
            match &self.program.terms[id] {
                Term::Number(Number::Literal(_)) => {}
                Term::Number(Number::Index(a)) => self.affine(id, a),
                Term::Var(x) => self.var(id, *x),
                Term::Add(a, b) | Term::Mul(a, b) | Term::Pair(a, b) => {
                    stack.extend([Task::Visit(*b), Task::Visit(*a)])
                }
                Term::Apply(_, args) => stack.extend(args.iter().rev().map(|a| Task::Visit(*a))),
                Term::Fst(e) | Term::Snd(e) => stack.push(Task::Visit(*e)),
                Term::Gen { index, extent: _, body } | Term::Sum { index, extent: _, body } => {
                    self.open_index(id, *index);
                    stack.extend([Task::CloseIndex(*index), Task::Visit(*body)]);
                }
                Term::Access { array, index } => {
                    self.affine(id, index);
                    stack.push(Task::Visit(*array));
                }
                Term::Iverson { guard, body } => {
                    self.guard(id, guard);
                    stack.push(Task::Visit(*body));
                }
                Term::Call { args, .. } => stack.extend(args.iter().rev().map(|a| Task::Visit(*a))),
                Term::Let { var, value, body } => stack.extend([
                    Task::CloseVar(*var),
                    Task::Visit(*body),
                    Task::OpenVar(id, *var),
                    Task::Visit(*value),
                ]),
                Term::Scan { index, state, init, body, .. } => stack.extend([
                    Task::CloseVar(*state),
                    Task::CloseIndex(*index),
                    Task::Visit(*body),
                    Task::OpenVar(id, *state),
                    Task::OpenIndex(id, *index),
                    Task::Visit(*init),
                ]),
            }
        }
    }

    fn open_index(&mut self, id: TermId, i: IndexId) {
        match self.indices.get(i.index()) {
            None => return self.complain(id, format!("the index {i} is unknown")),
            Some(Scope::Unbound) => {}
            Some(Scope::Open | Scope::Closed) => self.complain(id, format!("the index {i} is bound twice")),
        }
        self.indices[i.index()] = Scope::Open;
    }

    fn var(&mut self, id: TermId, x: VarId) {
        if self.vars.get(x.index()) != Some(&Scope::Open) {
            self.complain(id, format!("the variable {x} is not in scope"));
        }
    }

    fn affine(&mut self, id: TermId, a: &Affine) {
        if a.nesting() > Affine::MAX_NESTING {
            return self.complain(id, "maps are nested too deep");
        }
        a.visit(&mut |v| match v {
            Var::Index(i) => {
                if self.indices.get(i.index()) != Some(&Scope::Open) {
                    self.complain(id, format!("the index {i} is not in scope"));
                }
            }
            Var::Size(n) => {
                if self.program.signature.sizes.get(*n).is_none() {
                    self.complain(id, format!("the size {n} is unknown"));
                }
            }
            Var::Apply(application) => {
                // The target is the last place.
                let places = application.args.len() + 1;
                let is_map = match application.map {
                    RelationRef::Input(r) => {
                        self.program.signature.relations.get(r).is_none_or(|r| r.kind == RelationKind::Map)
                    }
                    RelationRef::Computed { view, .. } => view != View::Support,
                };
                if !is_map {
                    self.complain(id, "a relation that is no map is applied");
                }
                self.relation(id, application.map, places);
            }
        });
    }

    /// A relation used with so many places.
    fn relation(&mut self, id: TermId, relation: RelationRef, places: usize) {
        let rank = match relation {
            RelationRef::Input(r) => match self.program.signature.relations.get(r) {
                Some(relation) => relation.shape.len(),
                None => return self.complain(id, format!("the relation {r} is unknown")),
            },
            RelationRef::Computed { var, view } => {
                self.var(id, var);
                let Some(x) = self.program.variables.get(var) else { return };
                match self.program.types.real_dims(x.ty) {
                    Some(dims) if view != View::Support && dims.is_empty() => {
                        return self.complain(id, format!("{var} has no axis to look for the largest element"));
                    }
                    Some(dims) => dims.len(),
                    None => return self.complain(id, format!("the relation {var} is not a tensor of reals")),
                }
            }
        };
        if rank != places {
            self.complain(id, format!("a relation over {rank} places is used with {places}"));
        }
    }

    fn guard(&mut self, id: TermId, p: &Pred) {
        if p.nesting() > Pred::MAX_NESTING {
            return self.complain(id, "the predicate is nested too deep");
        }
        if p.map_affine(&mut |a| Ok(a.clone())).is_ok_and(|q| q != *p) {
            self.complain(id, "the predicate is not canonical");
        }
        self.pred(id, p);
    }

    fn pred(&mut self, id: TermId, p: &Pred) {
        match p {
            Pred::True | Pred::False => {}
            Pred::NonNegative(a) | Pred::Zero(a) | Pred::NonZero(a) => self.affine(id, a),
            Pred::Relation { relation, args, holds: _ } => {
                self.relation(id, *relation, args.len());
                args.iter().for_each(|a| self.affine(id, a));
            }
            Pred::All(ps) | Pred::Any(ps) => ps.iter().for_each(|p| self.pred(id, p)),
            Pred::Exists { index, extent, body } => {
                if let Err(message) = self.check_extent(extent) {
                    self.complain(id, message);
                }
                self.open_index(id, *index);
                self.pred(id, body);
                if let Some(scope) = self.indices.get_mut(index.index()) {
                    *scope = Scope::Closed;
                }
            }
        }
    }

    fn form(&mut self) {
        let form = self.program.form;
        if form < NormalForm::LetLifted {
            return;
        }
        let terms = &self.program.terms;
        // Where a term stands, handed down from users to operands.
        let mut places = vec![Place::Inside; terms.len()];
        places[self.program.root.index()] = Place::Top;
        for (id, term) in terms.iter().rev() {
            let place = places[id.index()];
            self.check_form(id, term, place, form);
            let mut hand = |e: TermId, place: Place| places[e.index()] = place;
            match term {
                Term::Let { value, body, .. } => {
                    hand(*value, Place::Rhs);
                    hand(*body, if place == Place::Top { Place::Top } else { Place::Inside });
                }
                Term::Pair(a, b) => {
                    let inner = if matches!(place, Place::Top | Place::Output) { Place::Output } else { Place::Inside };
                    hand(*a, inner);
                    hand(*b, inner);
                }
                Term::Gen { body, .. } => {
                    let inner = if place == Place::Inside { Place::Inside } else { Place::Rhs };
                    hand(*body, inner);
                }
                Term::Access { array, .. } => hand(*array, Place::Array),
                // The array of an access is a projection of a parameter.
                Term::Fst(e) | Term::Snd(e) => hand(*e, Place::Array),
                Term::Iverson { body, .. } => hand(*body, Place::Guarded),
                Term::Number(_) | Term::Var(_) => {}
                Term::Add(..)
                | Term::Mul(..)
                | Term::Apply(..)
                | Term::Call { .. }
                | Term::Sum { .. }
                | Term::Scan { .. } => {}
            }
        }
        if form >= NormalForm::PairFree {
            for (id, x) in self.program.variables.iter() {
                let bound = self.vars.get(id.index()).is_some_and(|scope| *scope != Scope::Unbound);
                if x.kind == VariableKind::Let && bound && self.program.types.real_dims(x.ty).is_none() {
                    self.complain(None, format!("the variable {id} is not a tensor of reals"));
                }
            }
        }
    }

    fn check_form(&mut self, id: TermId, term: &Term, place: Place, form: NormalForm) {
        let (terms, types) = (&self.program.terms, &self.program.types);
        if matches!(term, Term::Let { .. }) && place != Place::Top {
            self.complain(id, "a `let` is not at the top");
        }
        if matches!(term, Term::Scan { .. }) {
            self.complain(id, "a `scan` is in a leaf");
        }
        if matches!(term, Term::Call { .. }) {
            self.complain(id, "a call of a function from outside is in a leaf");
        }
        if form < NormalForm::PairFree {
            return;
        }
        match term {
            Term::Pair(..) if !matches!(place, Place::Top | Place::Output) => {
                self.complain(id, "a pair is not in the output tuple");
            }
            Term::Fst(e) | Term::Snd(e) => {
                let sound = match &terms[*e] {
                    Term::Fst(_) | Term::Snd(_) => true,
                    Term::Var(x) => self.program.variables[*x].kind != VariableKind::Let,
                    _ => false,
                };
                if !sound {
                    self.complain(id, "a projection of what is no parameter");
                }
            }
            _ => {}
        }
        if form < NormalForm::GenPushedOut {
            return;
        }
        let ty = self.program.term_types[id];
        match term {
            Term::Gen { .. } if matches!(place, Place::Inside | Place::Guarded | Place::Array) => {
                self.complain(id, "a `gen` is inside a scalar");
            }
            Term::Gen { .. } | Term::Let { .. } | Term::Pair(..) => {}
            Term::Access { array, .. } => {
                let array = &terms[*array];
                if !matches!(array, Term::Access { .. } | Term::Var(_) | Term::Fst(_) | Term::Snd(_)) {
                    self.complain(id, "an access to what is neither a variable nor a projection");
                }
                if place != Place::Array && ty != Types::REAL {
                    self.complain(id, "an access to some of the axes only");
                }
            }
            Term::Iverson { .. } if place == Place::Guarded => {
                self.complain(id, "a bracket directly inside a bracket");
            }
            Term::Var(_) | Term::Fst(_) | Term::Snd(_) if place != Place::Array && ty != Types::REAL => {
                self.complain(id, "a tensor is used whole");
            }
            Term::Iverson { .. } if ty != Types::REAL => self.complain(id, "a bracket around what is no scalar"),
            _ => {}
        }
        if place == Place::Array && matches!(term, Term::Access { .. }) && types.real_dims(ty).is_none() {
            self.complain(id, "an access to pairs");
        }
    }
}

/// Where a term stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The root, or the body of a `let` at the top.
    Top,
    /// In the output tuple.
    Output,
    /// The value of a `let` at the top, below nothing but `gen`s.
    Rhs,
    /// What an access or a projection reads.
    Array,
    /// Directly inside a bracket.
    Guarded,
    /// Anywhere else.
    Inside,
}

//! Whether a program that people are to read says nothing in vain and does no work in vain.
//!
//! | fault | example | better |
//! |---|---|---|
//! | implied guard | `gen i < n. [i < n] * x[i]`, `[n >= 1] * (sum i < n. x[i])` | without the guard |
//! | sum of one term | `sum j < n. [j = i] * x[j]` | `x[i]` |
//! | `gen` indexed at once | `(gen i < n. x[i] + 1)[k]` | `x[k] + 1` |
//! | needless `let` | `let y = x[0] + 1 in y * 2`, `let y = gen i < n. e in gen i < n. y[i] * 2` | with the value in place |
//! | repeated work | `exp(s) * exp(s)`, the same sum in two loops | a `let` |
//! | work done again | `gen i < n. x[i] * (sum j < n. y[j])`, `sum i < n. s * x[i]` | the sum before the loop, the factor behind the sum |
//! | needless arithmetic | `1 * s`, `2 * 3 * s`, `s + 0` | `s`, `6 * s` |
//!
//! An element of a sparse parameter brings its guard, `X[i, j]` is `[X?(i, j)] * X.value(i, j)`, and a comparison in a bracket has a `let`:
//! these are no faults. Neither is a guard that says where a tensor read by the guarded product is not zero: it tells
//! which places to visit. What is shared only after products are taken apart is not found.

mod tests;

use std::collections::{BTreeMap, BTreeSet};

use iverson::ir::base::{IndexId, VarId};
use iverson::ir::index::{Affine, Pred, RelationRef, Size, Var, View};
use iverson::ir::scalar::{Comparison, Function, Number, Op, Primitive};
use iverson::ir::solver::Facts;
use iverson::ir::term::{Program, Term, TermId, VariableKind};
use iverson::ir::ty::{RelationKind, Type};

/// What is wrong with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    ImpliedGuard,
    SumOfOneTerm,
    GenIndexedAtOnce,
    NeedlessLet,
    RepeatedWork,
    WorkDoneAgain,
    NeedlessArithmetic,
}

/// All faults of a program, with what is at fault.
pub fn faults(program: &Program) -> Vec<(Fault, String)> {
    let mut facts = Facts::new();
    program.signature.assumptions.iter().for_each(|p| facts.assume(p));
    for (id, relation) in program.signature.relations.iter() {
        if relation.kind == RelationKind::Map {
            facts.functional(RelationRef::Input(id));
        }
    }
    let mut checker = Checker {
        program,
        found: BTreeSet::new(),
        uses: BTreeMap::new(),
        supports: BTreeMap::new(),
        depends: BTreeMap::new(),
        extents: BTreeMap::new(),
        nested: BTreeSet::new(),
    };
    checker.term(program.root, &facts, &mut Vec::new());
    checker.lets();
    checker.repetitions();
    checker.found.into_iter().collect()
}

/// A use of a `let`: the loops between the two, innermost last, and the place that is read.
struct Use {
    loops: Vec<IndexId>,
    place: Vec<Affine>,
    in_guard: bool,
}

struct Checker<'a> {
    program: &'a Program,
    found: BTreeSet<(Fault, String)>,
    /// By variable: the number of loops around its `let`, and its uses.
    uses: BTreeMap<VarId, (usize, Vec<Use>)>,
    /// What holds wherever an element of a `let` is not 0, by its indices.
    supports: BTreeMap<VarId, (Vec<IndexId>, Vec<Pred>)>,
    /// The indices of loops around its `let` that the value of a variable depends on.
    depends: BTreeMap<VarId, BTreeSet<IndexId>>,
    extents: BTreeMap<IndexId, Size>,
    /// The bodies of sums that stand in sums.
    nested: BTreeSet<TermId>,
}

fn is_literal(term: &Term, x: f64) -> bool {
    matches!(term, Term::Number(Number::Literal(y)) if *y == x)
}

impl<'a> Checker<'a> {
    fn get(&self, e: TermId) -> &'a Term {
        &self.program.terms[e]
    }

    fn report(&mut self, fault: Fault, what: impl Into<String>) {
        self.found.insert((fault, what.into()));
    }

    /// Looks at a term, given what is known where it stands and the loops around it.
    fn term(&mut self, e: TermId, facts: &Facts, loops: &mut Vec<IndexId>) {
        let term = self.get(e);
        self.invariant(e, loops);
        match term {
            Term::Iverson { guard, body } if self.is_sparse_element(guard, *body) => self.term(*body, facts, loops),
            Term::Iverson { guard, body } => {
                self.read_by_guard(guard, loops);
                self.guard(guard, *body, facts);
                let mut inner = facts.clone();
                self.assume(&mut inner, guard);
                self.term(*body, &inner, loops);
            }
            Term::Gen { index, extent, body } | Term::Sum { index, extent, body } => {
                self.extents.insert(*index, extent.clone());
                if matches!(term, Term::Sum { .. }) {
                    self.sum(*index, extent, *body, facts);
                }
                let mut inner = facts.clone();
                inner.range(*index, extent);
                loops.push(*index);
                self.term(*body, &inner, loops);
                loops.pop();
            }
            Term::Scan { index, steps, init, body, .. } => {
                self.extents.insert(*index, steps.clone());
                self.term(*init, facts, loops);
                let mut inner = facts.clone();
                inner.range(*index, steps);
                loops.push(*index);
                self.term(*body, &inner, loops);
                loops.pop();
            }
            Term::Let { var, value, body } => {
                let (binders, element) = self.element(*value);
                let support = self.support(element).into_iter();
                // What is known of indices bound inside is lost.
                let support = support.filter(|(_, bound)| bound.is_empty()).map(|(p, _)| p).collect();
                self.supports.insert(*var, (binders, support));
                self.depends.insert(*var, self.free_indices(*value));
                self.term(*value, facts, loops);
                self.uses.insert(*var, (loops.len(), Vec::new()));
                self.term(*body, facts, loops);
            }
            Term::Access { .. } => {
                let (array, place) = self.access(e);
                place.iter().for_each(|a| self.read_by_index(a, loops));
                if let Term::Gen { index, .. } = self.get(array) {
                    let name = self.program.indices[*index].clone();
                    self.report(Fault::GenIndexedAtOnce, format!("gen {name}"));
                }
                match self.get(array) {
                    Term::Var(x) => self.read(*x, place, loops, false),
                    _ => self.term(array, facts, loops),
                }
            }
            Term::Var(x) => self.read(*x, Vec::new(), loops, false),
            Term::Number(Number::Index(a)) => self.read_by_index(a, loops),
            Term::Number(Number::Literal(_)) => {}
            Term::Add(a, b) => {
                if [*a, *b].iter().any(|e| is_literal(self.get(*e), 0.0)) {
                    self.report(Fault::NeedlessArithmetic, self.text(e));
                }
                self.term(*a, facts, loops);
                self.term(*b, facts, loops);
            }
            Term::Mul(..) => {
                let factors = self.factors(e);
                let literals: Vec<f64> = factors
                    .iter()
                    .filter_map(|e| match self.get(*e) {
                        Term::Number(Number::Literal(x)) => Some(*x),
                        _ => None,
                    })
                    .collect();
                // A sign is no multiplication.
                let multiplied = literals.iter().filter(|x| **x != -1.0).count();
                let is_negative_literal = literals.len() == 2 && factors.len() == 2 && literals.contains(&-1.0);
                let needless = literals.iter().any(|x| *x == 1.0 || *x == 0.0) || multiplied > 1;
                if needless && !is_negative_literal {
                    self.report(Fault::NeedlessArithmetic, self.text(e));
                }
                factors.into_iter().for_each(|factor| self.term(factor, facts, loops));
            }
            Term::Apply(_, args) | Term::Call { args, .. } => args.iter().for_each(|e| self.term(*e, facts, loops)),
            Term::Pair(a, b) => {
                self.term(*a, facts, loops);
                self.term(*b, facts, loops);
            }
            Term::Fst(a) | Term::Snd(a) => self.term(*a, facts, loops),
        }
    }

    /// The factors of a product, through its products.
    fn factors(&self, e: TermId) -> Vec<TermId> {
        match self.get(e) {
            Term::Mul(a, b) => [self.factors(*a), self.factors(*b)].concat(),
            _ => vec![e],
        }
    }

    fn addends(&self, e: TermId) -> Vec<TermId> {
        match self.get(e) {
            Term::Add(a, b) => [self.addends(*a), self.addends(*b)].concat(),
            _ => vec![e],
        }
    }

    /// `x` and the places of `x[i, j]`.
    fn access(&self, e: TermId) -> (TermId, Vec<Affine>) {
        match self.get(e) {
            Term::Access { array, index } => {
                let (array, mut place) = self.access(*array);
                place.push(index.clone());
                (array, place)
            }
            _ => (e, Vec::new()),
        }
    }

    /// `i, j` and `e` of `gen i, j. e`.
    fn element(&self, e: TermId) -> (Vec<IndexId>, TermId) {
        match self.get(e) {
            Term::Gen { index, body, .. } => {
                let (mut binders, element) = self.element(*body);
                binders.insert(0, *index);
                (binders, element)
            }
            _ => (Vec::new(), e),
        }
    }

    /// Whether a bracket is what elaboration puts around `A.value(i, j)` to make it `A[i, j]`.
    fn is_sparse_element(&self, guard: &Pred, body: TermId) -> bool {
        let (array, place) = self.access(body);
        let Term::Var(x) = self.get(array) else { return false };
        let VariableKind::Param(p) = self.program.variables[*x].kind else { return false };
        let pattern = self.program.signature.params[p].storage.pattern();
        pattern.is_some_and(|r| *guard == Pred::relation(RelationRef::Input(r), place))
    }

    fn read(&mut self, x: VarId, place: Vec<Affine>, loops: &[IndexId], in_guard: bool) {
        if let Some((outside, uses)) = self.uses.get_mut(&x) {
            uses.push(Use { loops: loops[*outside..].to_vec(), place, in_guard });
        }
    }

    fn read_by_index(&mut self, a: &Affine, loops: &[IndexId]) {
        let mut maps = Vec::new();
        a.visit(&mut |v| {
            if let Var::Apply(application) = v
                && let RelationRef::Computed { var, .. } = application.map
            {
                maps.push(var);
            }
        });
        maps.into_iter().for_each(|x| self.read(x, Vec::new(), loops, true));
    }

    fn read_by_guard(&mut self, p: &Pred, loops: &[IndexId]) {
        let mut read = Vec::new();
        p.visit_relations(&mut |r| {
            if let RelationRef::Computed { var, .. } = r {
                read.push(var);
            }
        });
        read.into_iter().for_each(|x| self.read(x, Vec::new(), loops, true));
    }

    /// Adds a fact, with what its atoms say of their arguments: relations hold within their shapes only, and so do values of maps.
    fn assume(&self, facts: &mut Facts, p: &Pred) {
        facts.assume(p);
        self.assume_values(facts, p);
        for p in p.conjuncts() {
            if let Pred::Relation { relation: RelationRef::Input(r), args, holds: true } = p {
                for (a, n) in args.iter().zip(&self.program.signature.relations[*r].shape) {
                    facts.assume(&Pred::in_range(a, n).expect("small numbers"));
                }
            }
        }
    }

    fn assume_values(&self, facts: &mut Facts, p: &Pred) {
        p.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                let Var::Apply(application) = v else { return };
                let target = match application.map {
                    RelationRef::Input(r) => self.program.signature.relations[r].shape.last().cloned(),
                    RelationRef::Computed { var, .. } => self
                        .program
                        .types
                        .real_dims(self.program.variables[var].ty)
                        .and_then(|dims| dims.last().cloned()),
                };
                if let Some(n) = target {
                    facts.assume(&Pred::in_range(&Affine::var(v.clone()), &n).expect("small numbers"));
                }
            });
        });
    }

    /// Every conjunct must say something, given what is known, the other conjuncts and where the body is not 0 anyway.
    fn guard(&mut self, guard: &Pred, body: TermId, facts: &Facts) {
        let conjuncts = guard.conjuncts();
        let support = self.support(body);
        for (at, p) in conjuncts.iter().enumerate() {
            let mut known = facts.clone();
            self.assume_values(&mut known, guard);
            let others = conjuncts.iter().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, q)| self.assume(&mut known, q));
            let simpler = known.simplify(p);
            if simpler != *p {
                self.report(Fault::ImpliedGuard, format!("{} is {}", self.guard_text(p), self.guard_text(&simpler)));
                continue;
            }
            // Relations tell where to look, so they may be repeated.
            let affine = matches!(p, Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_));
            support.iter().for_each(|(q, _)| self.assume(&mut known, q));
            if affine && known.proves(p) {
                let text = self.guard_text(p);
                self.report(Fault::ImpliedGuard, format!("{text} holds wherever the guarded term is not 0"));
            }
        }
    }

    /// What holds wherever a term is not 0, with the indices bound on the way, which stand for some index.
    fn support(&self, e: TermId) -> Vec<(Pred, BTreeSet<IndexId>)> {
        let inside = |e: TermId, index: Option<(IndexId, &Size)>| {
            let mut support = self.support(e);
            if let Some((i, n)) = index {
                support.iter_mut().for_each(|(_, bound)| {
                    bound.insert(i);
                });
                let range = Pred::in_range(&Affine::index(i), n).expect("small numbers");
                support.push((range, BTreeSet::from([i])));
            }
            support
        };
        match self.get(e) {
            Term::Iverson { guard, body } => {
                let mut support = inside(*body, None);
                support.extend(guard.conjuncts().iter().map(|p| (p.clone(), BTreeSet::new())));
                support
            }
            Term::Mul(a, b) => [inside(*a, None), inside(*b, None)].concat(),
            Term::Sum { index, extent, body } | Term::Gen { index, extent, body } => {
                inside(*body, Some((*index, extent)))
            }
            Term::Let { body, .. } => inside(*body, None),
            Term::Scan { .. } | Term::Call { .. } => Vec::new(),
            Term::Access { .. } => {
                let (array, place) = self.access(e);
                let Term::Var(x) = self.get(array) else { return Vec::new() };
                let Some((binders, support)) = self.supports.get(x) else { return Vec::new() };
                if binders.len() != place.len() {
                    return Vec::new();
                }
                let at = |i| binders.iter().position(|j| *j == i).map(|axis| place[axis].clone());
                support.iter().map(|p| (p.substitute(&at).expect("small numbers"), BTreeSet::new())).collect()
            }
            Term::Number(_) | Term::Var(_) | Term::Add(..) | Term::Apply(..) => Vec::new(),
            Term::Pair(..) | Term::Fst(_) | Term::Snd(_) => Vec::new(),
        }
    }

    fn sum(&mut self, index: IndexId, extent: &Size, body: TermId, facts: &Facts) {
        let name = self.program.indices[index].clone();
        let at_most_one = Pred::le(extent, &Affine::constant(1)).expect("small numbers");
        if facts.proves(&at_most_one) {
            self.report(Fault::SumOfOneTerm, format!("sum {name}, of one index"));
        }
        for term in self.addends(body) {
            // `max i < n. x[i]` is made of such a sum.
            if !self.is_largest(term) && self.support(term).iter().any(|(p, bound)| self.fixes(p, index, bound)) {
                self.report(Fault::SumOfOneTerm, format!("sum {name}: {}", self.text(term)));
            }
        }
        if self.nested.contains(&body) {
            return;
        }
        // A factor that no index of this nest of sums changes belongs behind it.
        let (mut nest, mut inner) = (BTreeSet::from([index]), body);
        loop {
            match self.get(inner) {
                Term::Sum { index, body, .. } => {
                    nest.insert(*index);
                    self.nested.insert(*body);
                    inner = *body;
                }
                Term::Iverson { guard, body } if !self.is_sparse_element(guard, *body) => inner = *body,
                _ => break,
            }
        }
        // Behind the sum there may be more places than terms in it, where a map leaves each term to one of them.
        let scattered = self.support(body).iter().any(|(p, _)| matches!(p, Pred::Relation { relation: RelationRef::Input(r), args, .. }
            if self.program.signature.relations[*r].kind == RelationKind::Map && args.last().is_some_and(|a| !nest.iter().any(|i| a.mentions(*i)))));
        for factor in self.factors(inner).into_iter().filter(|_| !scattered) {
            let constant = matches!(self.get(factor), Term::Number(Number::Literal(x)) if *x == -1.0);
            if !constant && self.factors(inner).len() > 1 && self.free_indices(factor).is_disjoint(&nest) {
                self.report(Fault::WorkDoneAgain, format!("{} in each term of sum {name}", self.text(factor)));
            }
        }
    }

    /// Whether a term is `[(argmax j < n. x[j]) = i] * x[i]`.
    fn is_largest(&self, e: TermId) -> bool {
        let Term::Iverson { guard, body } = self.get(e) else { return false };
        let Pred::Relation { relation: RelationRef::Computed { var, view }, args, holds: true } = guard else {
            return false;
        };
        let (array, place) = self.access(*body);
        *view != View::Support && matches!(self.get(array), Term::Var(x) if x == var) && place == *args
    }

    /// Whether a predicate leaves one value to an index, given the indices outside.
    fn fixes(&self, p: &Pred, index: IndexId, bound: &BTreeSet<IndexId>) -> bool {
        let outside = |a: &Affine| bound.iter().all(|i| !a.mentions(*i));
        match p {
            Pred::Zero(a) => a.coefficient(&Var::Index(index)) != 0 && outside(a),
            Pred::Relation { relation, args, holds: true } => {
                let is_map = match relation {
                    RelationRef::Input(r) => self.program.signature.relations[*r].kind == RelationKind::Map,
                    RelationRef::Computed { view, .. } => matches!(view, View::ArgMax | View::ArgMin),
                };
                let Some((target, sources)) = args.split_last() else { return false };
                is_map
                    && target.coefficient(&Var::Index(index)) != 0
                    && args.iter().all(outside)
                    && sources.iter().all(|a| !a.mentions(index))
            }
            _ => false,
        }
    }

    /// The indices that the value of a term depends on and does not bind.
    fn free_indices(&self, e: TermId) -> BTreeSet<IndexId> {
        let mut free = BTreeSet::new();
        let mut var = |x: VarId| free.extend(self.depends.get(&x).into_iter().flatten().copied());
        let mut vars = Vec::new();
        let mut indices = BTreeSet::new();
        let term = self.get(e);
        let mut relation = |r: RelationRef| {
            if let RelationRef::Computed { var, .. } = r {
                vars.push(var);
            }
        };
        match term {
            Term::Var(x) => var(*x),
            Term::Access { index: a, .. } | Term::Number(Number::Index(a)) => a.visit(&mut |v| match v {
                Var::Index(i) => drop(indices.insert(*i)),
                Var::Apply(application) => relation(application.map),
                Var::Size(_) => {}
            }),
            Term::Iverson { guard, .. } => {
                guard.visit_affine(&mut |a| {
                    a.visit(&mut |v| {
                        if let Var::Index(i) = v {
                            indices.insert(*i);
                        }
                    });
                });
                guard.visit_relations(&mut relation);
            }
            _ => {}
        }
        vars.into_iter().for_each(&mut var);
        free.extend(indices);
        term.for_each_operand(|operand| free.extend(self.free_indices(operand)));
        match term {
            Term::Gen { index, .. } | Term::Sum { index, .. } => drop(free.remove(index)),
            _ => {}
        }
        free
    }

    /// Whether a term takes more than a few operations: it has a sum, or a function that is no integer power.
    fn is_costly(&self, e: TermId) -> bool {
        let here = match self.get(e) {
            Term::Sum { .. } => true,
            Term::Apply(Function::Value(Primitive::Op(Op::Powi(_) | Op::Compare(_))), _) => false,
            Term::Apply(..) => true,
            _ => false,
        };
        let mut costly = here;
        self.get(e).for_each_operand(|operand| costly |= self.is_costly(operand));
        costly
    }

    /// A sum, or a function, that an index around it does not change is computed again for each.
    fn invariant(&mut self, e: TermId, loops: &[IndexId]) {
        if !matches!(self.get(e), Term::Sum { .. } | Term::Apply(..)) || !self.is_costly(e) {
            return;
        }
        let free = self.free_indices(e);
        if let Some(i) = loops.iter().find(|i| !free.contains(i)) {
            let name = &self.program.indices[*i];
            self.report(Fault::WorkDoneAgain, format!("{} for each {name}", self.text(e)));
        }
    }

    fn lets(&mut self) {
        let uses = std::mem::take(&mut self.uses);
        for (x, (_, uses)) in &uses {
            let name = self.program.variables[*x].name.clone();
            match uses.as_slice() {
                [] => self.report(Fault::NeedlessLet, format!("{name} is never used")),
                [single] if !single.in_guard && self.is_used_once(single) => {
                    self.report(Fault::NeedlessLet, format!("{name} is used once"));
                }
                _ => {}
            }
        }
    }

    /// Whether every loop around a use moves the place that is read: then no element is read twice.
    fn is_used_once(&self, place: &Use) -> bool {
        let mut axes: Vec<&Affine> = place.place.iter().collect();
        place.loops.iter().all(|i| {
            // An axis that this index moves, and no other.
            let alone = |a: &&Affine| {
                let others = place.loops.iter().all(|j| j == i || !a.mentions(*j));
                a.coefficient(&Var::Index(*i)) != 0 && others
            };
            match axes.iter().position(alone) {
                Some(axis) => {
                    axes.remove(axis);
                    true
                }
                None => false,
            }
        })
    }

    /// Two equal terms with work, in the same scope; and two costly ones that are equal up to the names of the indices around.
    fn repetitions(&mut self) {
        let mut keys = Keys { program: self.program, extents: &self.extents, scoped: BTreeMap::new(), readable: false };
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut terms = vec![self.program.root];
        let mut order = Vec::new();
        while let Some(e) = terms.pop() {
            order.push(e);
            self.get(e).for_each_operand(|operand| terms.push(operand));
        }
        for e in order.iter().filter(|e| self.has_work(**e)) {
            for key in keys.of(*e, self.is_costly(*e)) {
                *counts.entry(key).or_default() += 1;
            }
        }
        // The largest repeated terms are told; what they consist of is repeated with them.
        let (mut terms, mut repetitions) = (vec![self.program.root], Vec::new());
        while let Some(e) = terms.pop() {
            let repeated = self.has_work(e) && keys.of(e, self.is_costly(e)).iter().any(|key| counts[key] > 1);
            match repeated {
                true => repetitions.push(e),
                false => self.get(e).for_each_operand(|operand| terms.push(operand)),
            }
        }
        for e in repetitions {
            self.report(Fault::RepeatedWork, self.text(e));
        }
    }

    /// Whether a term is a number that takes an operation other than a change of sign.
    fn has_work(&self, e: TermId) -> bool {
        if *self.program.types.get(self.program.ty(e)) != Type::Real {
            return false;
        }
        match self.get(e) {
            Term::Mul(a, b) if is_literal(self.get(*a), -1.0) => self.has_work(*b),
            // An element is computed where its tensor is.
            Term::Access { .. } => false,
            // Truth values of a bracket.
            Term::Apply(Function::Value(Primitive::Op(Op::Compare(_))), _) => false,
            Term::Add(..) | Term::Mul(..) | Term::Apply(..) | Term::Sum { .. } => true,
            Term::Iverson { body, .. } => self.has_work(*body),
            _ => false,
        }
    }

    /// A term as text, with the names that its indices have around it.
    fn text(&self, e: TermId) -> String {
        self.names().key(e, 0, &|i| self.program.indices[i].clone())
    }

    fn guard_text(&self, p: &Pred) -> String {
        self.names().pred(p, &|i| self.program.indices.get(i).cloned().unwrap_or_default())
    }

    fn names(&self) -> Keys<'_> {
        Keys { program: self.program, extents: &self.extents, scoped: BTreeMap::new(), readable: true }
    }
}

/// Texts that are equal for equal terms.
struct Keys<'a> {
    program: &'a Program,
    extents: &'a BTreeMap<IndexId, Size>,
    /// Names of indices while a key is made.
    scoped: BTreeMap<IndexId, String>,
    /// Names alone stand for variables and bound indices, though two may have the same.
    readable: bool,
}

impl Keys<'_> {
    /// The key within its scope, and, if wanted, one that is the same in other loops over the same ranges.
    fn of(&mut self, e: TermId, across: bool) -> Vec<String> {
        self.scoped.clear();
        let mut keys = vec![self.key(e, 0, &|i| format!("{i}"))];
        if across {
            self.scoped.clear();
            // Free indices are numbered as they occur first.
            let mut free = Vec::new();
            self.free(e, &mut free);
            let extents = self.extents;
            let name = |i: IndexId| match free.iter().position(|j| *j == i) {
                Some(at) => format!("free{at}<{:?}", extents.get(&i)),
                None => format!("{i}"),
            };
            keys.push(format!("in any loop: {}", self.key(e, 0, &name)));
        }
        keys
    }

    /// The free indices in the order of their first occurrence.
    fn free(&self, e: TermId, into: &mut Vec<IndexId>) {
        let mut bound = BTreeSet::new();
        self.visit_indices(e, &mut bound, into);
        into.retain(|i| !bound.contains(i));
    }

    fn visit_indices(&self, e: TermId, bound: &mut BTreeSet<IndexId>, into: &mut Vec<IndexId>) {
        let mut see = |a: &Affine| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v
                    && !into.contains(i)
                {
                    into.push(*i);
                }
            });
        };
        let term = &self.program.terms[e];
        match term {
            Term::Access { index: a, .. } | Term::Number(Number::Index(a)) => see(a),
            Term::Iverson { guard, .. } => guard.visit_affine(&mut see),
            Term::Gen { index, .. } | Term::Sum { index, .. } => drop(bound.insert(*index)),
            _ => {}
        }
        term.for_each_operand(|operand| self.visit_indices(operand, bound, into));
    }

    fn affine(&self, a: &Affine, name: &dyn Fn(IndexId) -> String) -> String {
        let mut parts: Vec<String> = a
            .terms()
            .iter()
            .map(|(v, k)| {
                let v = match v {
                    Var::Index(i) => self.scoped.get(i).cloned().unwrap_or_else(|| name(*i)),
                    Var::Size(n) => self.program.signature.sizes[*n].clone(),
                    Var::Apply(application) => {
                        let args: Vec<String> = application.args.iter().map(|a| self.affine(a, name)).collect();
                        format!("{}({})", self.relation(application.map), args.join(", "))
                    }
                };
                if *k == 1 { v } else { format!("{k} * {v}") }
            })
            .collect();
        parts.sort();
        if a.offset() != 0 || parts.is_empty() {
            parts.push(a.offset().to_string());
        }
        parts.join(" + ")
    }

    fn relation(&self, r: RelationRef) -> String {
        match r {
            RelationRef::Input(r) => self.program.signature.relations[r].name.clone(),
            RelationRef::Computed { var, view } if self.readable => {
                format!("{view:?} {}", self.program.variables[var].name)
            }
            RelationRef::Computed { var, view } => format!("{view:?} {var}"),
        }
    }

    fn pred(&self, p: &Pred, name: &dyn Fn(IndexId) -> String) -> String {
        let all = |ps: &[Pred], word: &str| {
            let mut parts: Vec<String> = ps.iter().map(|p| self.pred(p, name)).collect();
            parts.sort();
            format!("({})", parts.join(word))
        };
        match p {
            Pred::True => "true".to_owned(),
            Pred::False => "false".to_owned(),
            Pred::NonNegative(a) => format!("0 <= {}", self.affine(a, name)),
            // Orders of ids are no orders of names, so signs are made alike.
            Pred::Zero(a) => format!("0 = {}", self.signless(a, name)),
            Pred::NonZero(a) => format!("0 != {}", self.signless(a, name)),
            Pred::Relation { relation, args, holds } => {
                let args: Vec<String> = args.iter().map(|a| self.affine(a, name)).collect();
                format!("{}{}({})", if *holds { "" } else { "not " }, self.relation(*relation), args.join(", "))
            }
            Pred::All(ps) => all(ps, " and "),
            Pred::Any(ps) => all(ps, " or "),
            Pred::Exists { extent, body, .. } => {
                format!("exists < {}. {}", self.affine(extent, name), self.pred(body, name))
            }
        }
    }

    fn signless(&self, a: &Affine, name: &dyn Fn(IndexId) -> String) -> String {
        let opposite = a.scale(-1).expect("small numbers");
        self.affine(a, name).min(self.affine(&opposite, name))
    }

    /// Bound indices are numbered by depth; operands of sums and products are sorted.
    fn key(&mut self, e: TermId, depth: usize, name: &dyn Fn(IndexId) -> String) -> String {
        let program = self.program;
        let operands = |this: &mut Self, es: &[TermId], word: &str, sorted: bool| {
            let mut parts: Vec<String> = es.iter().map(|e| this.key(*e, depth, name)).collect();
            if sorted {
                parts.sort();
            }
            parts.join(word)
        };
        match &program.terms[e] {
            Term::Number(Number::Literal(x)) => format!("{x:?}"),
            Term::Number(Number::Index(a)) => format!("({})", self.affine(a, name)),
            Term::Var(x) if self.readable => program.variables[*x].name.clone(),
            Term::Var(x) => x.to_string(),
            Term::Add(..) => {
                let addends = flattened(program, e, |term| matches!(term, Term::Add(..)));
                format!("({})", operands(self, &addends, " + ", true))
            }
            Term::Mul(..) => {
                let factors = flattened(program, e, |term| matches!(term, Term::Mul(..)));
                format!("({})", operands(self, &factors, " * ", true))
            }
            Term::Apply(f, args) => format!("{f:?}({})", operands(self, args, ", ", is_symmetric(*f))),
            Term::Call { function, args, .. } => format!("{function}({})", operands(self, args, ", ", false)),
            Term::Pair(a, b) => format!("({})", operands(self, &[*a, *b], ", ", false)),
            Term::Fst(a) => format!("fst {}", self.key(*a, depth, name)),
            Term::Snd(a) => format!("snd {}", self.key(*a, depth, name)),
            term @ (Term::Gen { index, extent, body } | Term::Sum { index, extent, body }) => {
                let word = if matches!(term, Term::Gen { .. }) { "gen" } else { "sum" };
                let extent = self.affine(extent, name);
                let bound = if self.readable { name(*index) } else { format!("#{depth}") };
                self.scoped.insert(*index, bound.clone());
                let body = self.key(*body, depth + 1, name);
                format!("({word} {bound} < {extent}. {body})")
            }
            Term::Access { array, index } => {
                let array = self.key(*array, depth, name);
                format!("{array}[{}]", self.affine(index, name))
            }
            Term::Iverson { guard, body } => {
                let guard = self.pred(guard, name);
                format!("[{guard}] * {}", self.key(*body, depth, name))
            }
            Term::Let { var, value, body } => {
                let value = self.key(*value, depth, name);
                format!("let {var} = {value} in {}", self.key(*body, depth, name))
            }
            Term::Scan { index, steps, down, state, init, body } => {
                let (steps, init) = (self.affine(steps, name), self.key(*init, depth, name));
                let bound = if self.readable { name(*index) } else { format!("#{depth}") };
                self.scoped.insert(*index, bound.clone());
                let body = self.key(*body, depth + 1, name);
                format!("(scan {bound} < {steps}, down {down}, {state} = {init}. {body})")
            }
        }
    }
}

fn is_symmetric(f: Function) -> bool {
    match f {
        Function::Value(Primitive::Op(op)) => {
            matches!(op, Op::Max | Op::Min | Op::Compare(Comparison::Equal | Comparison::NotEqual))
        }
        _ => false,
    }
}

/// The operands of nested additions, or of nested products.
fn flattened(program: &Program, e: TermId, same: fn(&Term) -> bool) -> Vec<TermId> {
    let term = &program.terms[e];
    if !same(term) {
        return vec![e];
    }
    let mut operands = Vec::new();
    term.for_each_operand(|operand| operands.extend(flattened(program, operand, same)));
    operands
}

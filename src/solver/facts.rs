//! What is known of indices and sizes, and what follows from it.
//!
//! `facts |- goal` is shown by refuting `facts and not goal` over the integers:
//!
//! 1. facts are flattened into linear constraints, relation atoms and clauses; what an `exists` says is said of the value that an equation or a
//!    map gives its index, else of a name of its own (a Skolem constant, which is exact for facts), once, however often it is said under other
//!    names; `a != 0` becomes the clause `a >= 1 or a <= -1`;
//! 2. first only facts about the variables of the goal take part, then all that are connected to it through shared variables;
//! 3. equations are solved exactly: by substitution where a coefficient is 1, else after Euclid's algorithm on the coefficients,
//!    which renames unknowns until one is 1; a common divisor that the constant lacks excludes all solutions;
//! 4. inequalities go through Fourier-Motzkin elimination; every row is divided by the common divisor of its coefficients and its
//!    constant rounded down, which loses no integer point;
//! 5. clauses that can hold whatever the rest says are dropped, others are split, those with the fewest open cases first. `R(a)` and
//!    `not R(b)` give the clause `a != b`; a map gives `a != b or f(a) = f(b)`.
//!
//! Before all that a point is looked for at which everything holds (`model`): most goals that do not follow fail at a point near zero.
//!
//! Every step keeps all integer solutions, so a refutation is a proof. The converse fails: over a limit, on a budget of [`work`] that is
//! used up, or where only
//! integrality beyond step 4 refutes, the answer is "not proved". For conjunctions of linear facts the method finds every rational
//! consequence. Applications of maps are taken to have a value: who uses one
//! proves its source in range first. A size variable is never negative (see [`Signature::sizes`](crate::ty::Signature::sizes)), which is built in.

mod model;
mod refutation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use self::refutation::{Node, Reach, Refutation};
use super::value_of;
use crate::base::{IndexId, work};
use crate::index::{Affine, Application, Checked, Pred, RelationRef, Size, Var, View};

/// How many inequalities may be written down for one goal.
const MAX_CONSTRAINTS_OF_GOAL: usize = 16_000;
/// How many cases of clauses one goal may try.
const MAX_SPLITS: usize = 256;
/// How many witnesses are tried for an `exists` of a goal.
const MAX_WITNESSES: usize = 16;
/// How many steps are made to a point at which everything holds, for a first answer.
const QUICK_REPAIRS: usize = 8;
/// Up to so many variables are found one by one, which is faster than by their hashes.
const FEW_VARS: usize = 12;
/// Among how many variables a point is looked for at which all facts hold, whatever the goal is about.
const MAX_POINT: usize = 16;

/// What is left to spend on a goal.
#[derive(Clone, Copy, Debug)]
struct Budget {
    splits: usize,
    constraints: usize,
}

impl Budget {
    const GOAL: Budget = Budget { splits: MAX_SPLITS, constraints: MAX_CONSTRAINTS_OF_GOAL };
}

/// Facts about indices and sizes. Cloning is cheap enough to open a scope.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    vars: Vec<Var>,
    /// The places of the variables, where there are more than a few.
    columns: FxHashMap<Var, u32>,
    known: Conj,
    /// Those over an `exists`, or over cases with one, with bound indices named by how deep they are bound.
    existentials: Vec<Pred>,
    functional: BTreeSet<RelationRef>,
    /// The maps of which each source has a target, with the ranges of sources and targets.
    total: BTreeMap<RelationRef, Vec<Size>>,
    /// The relations of which some tuple is known, or supposed by a case, not to be in.
    negated: BTreeSet<RelationRef>,
    skolems: u32,
    contradictory: OnceLock<bool>,
}

/// `constant + sum of coefficient * column`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    terms: SmallVec<[(u32, i64); 4]>,
    constant: i64,
}

#[derive(Clone, Debug)]
struct RelationAtom {
    relation: RelationRef,
    args: Vec<Row>,
    holds: bool,
}

/// A clause: at least one of the cases is true.
type Clause = Vec<Conj>;

/// A conjunction in the form that the search works on.
#[derive(Clone, Debug, Default)]
struct Conj {
    /// `0 <= row`.
    bounds: Vec<Row>,
    /// `row = 0`.
    equations: Vec<Row>,
    relations: Vec<RelationAtom>,
    clauses: Vec<Clause>,
}

/// Columns of the facts, and further ones for variables that only the goal mentions.
struct Columns<'a> {
    facts: &'a Facts,
    extra: Vec<Var>,
}

trait Interner {
    fn column(&mut self, v: &Var) -> u32;
    /// An index that occurs nowhere else.
    fn skolem(&mut self) -> Option<IndexId>;
    /// Whether the last place of a relation is a function of the others.
    fn is_map(&self, relation: RelationRef) -> bool;
}

impl Interner for Columns<'_> {
    fn column(&mut self, v: &Var) -> u32 {
        if let Some(column) = self.facts.known_column(v) {
            return column;
        }
        let at = self.extra.iter().position(|w| w == v).unwrap_or_else(|| {
            self.extra.push(v.clone());
            self.extra.len() - 1
        });
        (self.facts.vars.len() + at) as u32
    }

    fn skolem(&mut self) -> Option<IndexId> {
        None
    }

    fn is_map(&self, relation: RelationRef) -> bool {
        self.facts.is_map(relation)
    }
}

impl Interner for Facts {
    fn column(&mut self, v: &Var) -> u32 {
        if let Some(column) = self.known_column(v) {
            return column;
        }
        let column = self.vars.len() as u32;
        self.vars.push(v.clone());
        match self.vars.len() {
            0..=FEW_VARS => {}
            many if many == FEW_VARS + 1 => self.columns = self.vars.iter().cloned().zip(0..).collect(),
            _ => {
                self.columns.insert(v.clone(), column);
            }
        }
        column
    }

    fn skolem(&mut self) -> Option<IndexId> {
        // Counted down from the top, where no program has indices.
        self.skolems += 1;
        Some(IndexId(u32::MAX - self.skolems))
    }

    fn is_map(&self, relation: RelationRef) -> bool {
        matches!(relation, RelationRef::Computed { view: View::ArgMax | View::ArgMin, .. })
            || self.functional.contains(&relation)
    }
}

impl Columns<'_> {
    fn var(&self, column: u32) -> &Var {
        let column = column as usize;
        self.facts.vars.get(column).unwrap_or_else(|| &self.extra[column - self.facts.vars.len()])
    }

    fn len(&self) -> usize {
        self.facts.vars.len() + self.extra.len()
    }

    /// Whether a point is found at which all facts hold, and what is supposed besides. It is not looked for where there are many
    /// variables, or maps.
    fn has_point<'c>(&self, supposed: impl Iterator<Item = &'c Conj>) -> bool {
        let vars = || self.facts.vars.iter().chain(&self.extra).zip(0..);
        if self.len() > MAX_POINT || vars().any(|(v, _)| matches!(v, Var::Apply(_))) {
            return false;
        }
        let sizes = vars().filter(|(v, _)| matches!(v, Var::Size(_)));
        let sizes: SmallVec<[Row; 4]> =
            sizes.map(|(_, column)| Row { terms: smallvec![(column, 1)], constant: 0 }).collect();
        let mut node =
            Node { bounds: Vec::with_capacity(self.facts.known.bounds.len() + MAX_POINT), ..Node::default() };
        work::charge(4 + self.facts.known.len());
        node.add(&self.facts.known);
        supposed.for_each(|conj| node.add(conj));
        node.bounds.extend(&sizes);
        let local: SmallVec<[u32; MAX_POINT]> = vars().map(|(_, column)| column).collect();
        let found = model::exists(&node, &local, self.len(), QUICK_REPAIRS);
        if found {
            // It has been said already, or is said here.
            let _ = self.facts.contradictory.set(false);
        }
        found
    }
}

/// Atoms and their opposites, over the columns of facts.
struct Atoms<'a> {
    columns: Columns<'a>,
    holds: Vec<Conj>,
    fails: Vec<Conj>,
    /// Whether a point is known at which all hold.
    consistent: bool,
}

impl<'a> Atoms<'a> {
    /// Nothing where one of the predicates is no atom.
    fn new(facts: &'a Facts, atoms: &[Pred]) -> Option<Self> {
        let mut columns = Columns { facts, extra: Vec::new() };
        let mut compiled = |p: &Pred| {
            let mut conj = Conj::default();
            compile(p, &mut columns, &mut conj);
            conj
        };
        let (mut holds, mut fails) = (Vec::with_capacity(atoms.len()), Vec::with_capacity(atoms.len()));
        for p in atoms {
            if matches!(p, Pred::All(_) | Pred::Any(_) | Pred::Exists { .. }) {
                return None;
            }
            holds.push(compiled(p));
            fails.push(compiled(&p.negate()?));
        }
        let mut atoms = Atoms { columns, holds, fails, consistent: false };
        atoms.consistent = atoms.columns.has_point(atoms.holds.iter());
        Some(atoms)
    }

    /// Whether a point is known at which all hold, and one is found at which all but one do.
    fn is_free(&self, at: usize) -> bool {
        let others = self.holds.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, conj)| conj);
        self.consistent && self.columns.has_point(others.chain(self.fails.get(at)))
    }

    fn remove(&mut self, at: usize) {
        self.holds.remove(at);
        self.fails.remove(at);
    }
}

fn row(a: &Affine, columns: &mut impl Interner) -> Row {
    work::charge(2 + a.terms().len());
    let terms = a.terms().iter().map(|(v, k)| (columns.column(v), *k)).collect();
    Row { terms, constant: a.offset() }
}

impl Row {
    /// `factor * self + constant`.
    fn scaled(&self, factor: i64, constant: i64) -> Option<Row> {
        let terms = self.terms.iter().map(|(c, k)| Some((*c, k.checked_mul(factor)?))).collect::<Option<_>>()?;
        Some(Row { terms, constant: self.constant.checked_mul(factor)?.checked_add(constant)? })
    }

    /// `self + factor * other`.
    fn plus(&self, other: &Row, factor: i64) -> Option<Row> {
        let mut terms = self.terms.clone();
        for (c, k) in &other.terms {
            let k = k.checked_mul(factor)?;
            match terms.iter_mut().find(|(d, _)| d == c) {
                Some((_, l)) => *l = l.checked_add(k)?,
                None => terms.push((*c, k)),
            }
        }
        terms.retain(|(_, k)| *k != 0);
        Some(Row { terms, constant: self.constant.checked_add(other.constant.checked_mul(factor)?)? })
    }

    fn minus(&self, other: &Row) -> Option<Row> {
        self.plus(other, -1)
    }
}

/// Adds `p` to a conjunction. What cannot be expressed is left out, which weakens the conjunction and so is sound.
fn compile(p: &Pred, columns: &mut impl Interner, into: &mut Conj) {
    match p {
        Pred::True => {}
        Pred::False => into.clauses.push(Vec::new()),
        Pred::NonNegative(a) => into.bounds.push(row(a, columns)),
        Pred::Zero(a) => into.equations.push(row(a, columns)),
        Pred::NonZero(a) => into.clauses.extend(unequal(&row(a, columns)).map(Vec::from)),
        Pred::Relation { relation, args, holds } => {
            // f(a, b) as a relation  ==>  f(a) = b
            if let (true, true, [source @ .., target]) = (*holds, columns.is_map(*relation), args.as_slice()) {
                let value = Affine::var(Var::Apply(Box::new(Application { map: *relation, args: source.to_vec() })));
                into.equations.extend(value.sub(target).map(|a| row(&a, columns)));
            }
            let args = args.iter().map(|a| row(a, columns)).collect();
            into.relations.push(RelationAtom { relation: *relation, args, holds: *holds });
        }
        Pred::All(ps) => ps.iter().for_each(|p| compile(p, columns, into)),
        Pred::Any(ps) => {
            let case = |p: &Pred| {
                let mut case = Conj::default();
                compile(p, columns, &mut case);
                case
            };
            into.clauses.push(ps.iter().map(case).collect());
        }
        Pred::Exists { index, extent, body } => {
            // exists i < n. i = a and p(i)   ==   a in range n and p(a)
            let mut given = body.conjuncts().iter().filter_map(|p| value_of(*index, p, &|map| columns.is_map(map)));
            let given = given.next();
            let Some(witness) = given.or_else(|| columns.skolem().map(Affine::index)) else { return };
            if let Ok(range) = Pred::in_range(&witness, extent) {
                compile(&range, columns, into);
            }
            if let Ok(body) = body.substitute(&|i| (i == *index).then(|| witness.clone())) {
                compile(&body, columns, into);
            }
        }
    }
}

/// `row >= 1`, `row <= -1`.
fn unequal(row: &Row) -> Option<[Conj; 2]> {
    let bound = |row| Conj { bounds: vec![row], ..Conj::default() };
    Some([bound(row.scaled(1, -1)?), bound(row.scaled(-1, -1)?)])
}

impl Conj {
    fn is_empty(&self) -> bool {
        self.bounds.is_empty() && self.equations.is_empty() && self.relations.is_empty() && self.clauses.is_empty()
    }

    /// How many parts it has, those inside of cases not counted.
    fn len(&self) -> usize {
        self.bounds.len() + self.equations.len() + self.relations.len() + self.clauses.len()
    }

    fn visit_rows<'a>(&'a self, visit: &mut impl FnMut(&'a Row)) {
        self.bounds.iter().for_each(&mut *visit);
        self.equations.iter().for_each(&mut *visit);
        self.relations.iter().flat_map(|r| &r.args).for_each(&mut *visit);
        self.clauses.iter().flatten().for_each(|case| case.visit_rows(visit));
    }

    fn visit_relations<'a>(&'a self, visit: &mut impl FnMut(&'a RelationAtom)) {
        self.relations.iter().for_each(&mut *visit);
        self.clauses.iter().flatten().for_each(|case| case.visit_relations(visit));
    }
}

impl Facts {
    /// Nothing is known, except that size variables are not negative.
    pub fn new() -> Self {
        Facts::default()
    }

    fn known_column(&self, v: &Var) -> Option<u32> {
        if self.vars.len() > FEW_VARS {
            return self.columns.get(v).copied();
        }
        self.vars.iter().position(|w| w == v).map(|at| at as u32)
    }

    /// Adds a fact. A relation atom says nothing of its arguments: who knows the shape of the relation adds that they are in range.
    pub fn assume(&mut self, p: &Pred) {
        self.contradictory = OnceLock::new();
        for p in p.conjuncts() {
            if p.binds() {
                let p = p.alpha_normal();
                // The same under other names would be said of another witness.
                if self.existentials.contains(&p) {
                    continue;
                }
                self.existentials.push(p);
            }
            let mut known = std::mem::take(&mut self.known);
            compile(p, self, &mut known);
            self.known = known;
        }
        p.visit_atoms(&mut |atom| {
            if let Pred::Relation { relation, holds: false, .. } = atom {
                self.negated.insert(*relation);
            }
        });
    }

    /// Adds the fact `0 <= index < extent`.
    pub fn range(&mut self, index: IndexId, extent: &Size) {
        let index = Affine::index(index);
        let below = Pred::lt(&index, extent);
        self.assume(&Pred::NonNegative(index));
        if let Ok(below) = below {
            self.assume(&below);
        }
    }

    /// Adds the fact that a relation is a map: its last place is a function of the others, the value of
    /// [`Var::Apply`]. Counts for facts added later. The views `ArgMax` and `ArgMin` are known to be maps.
    pub fn functional(&mut self, map: RelationRef) {
        self.contradictory = OnceLock::new();
        self.functional.insert(map);
    }

    /// Adds the fact that each source of a map has a target, where sources and targets have these ranges.
    pub fn total(&mut self, map: RelationRef, shape: &[Size]) {
        self.functional(map);
        self.total.insert(map, shape.to_vec());
    }

    /// Whether the goal follows from the facts. `false` means "not proved".
    pub fn proves(&self, goal: &Pred) -> bool {
        let mut conjuncts = goal.conjuncts().iter();
        conjuncts.all(|p| self.proves_within(p, &mut Budget::GOAL.clone())) || self.contradictory()
    }

    /// Whether the goal follows from the facts about what it mentions, without asking whether all facts contradict each other.
    pub(super) fn derives(&self, goal: &Pred) -> bool {
        self.proves_within(goal, &mut Budget::GOAL.clone())
    }

    /// The predicate without what the facts imply: equivalent where they hold. Conjuncts that follow from the facts and the
    /// other conjuncts go, and so do disjuncts that the facts exclude.
    pub fn simplify(&self, p: &Pred) -> Pred {
        match p {
            Pred::True | Pred::False => p.clone(),
            Pred::Any(ps) => {
                let open = ps.iter().map(|p| self.simplify(p)).filter(|p| !p.is_false());
                let open = Pred::any(open.collect::<Vec<_>>());
                if self.proves(&open) { Pred::True } else { open }
            }
            Pred::All(_) => self.simplify_conjunction(p.conjuncts()),
            atom if self.states(atom) => Pred::True,
            atom => match Atoms::new(self, std::slice::from_ref(atom)) {
                Some(atoms) if atoms.is_free(0) => self.as_equation(atom),
                _ => self.simplify_atom(atom),
            },
        }
    }

    /// An atom, if it neither follows nor contradicts.
    fn simplify_atom(&self, atom: &Pred) -> Pred {
        if self.proves(atom) {
            return Pred::True;
        }
        work::charge(8 + self.known.len());
        if self.under([], [atom]).contradictory() { Pred::False } else { self.as_equation(atom) }
    }

    /// `a != 0`, where `a` is 0 or 1 for what is known, as `a = 1`, and likewise for -1; other atoms as they are.
    fn as_equation(&self, atom: &Pred) -> Pred {
        let Pred::NonZero(a) = atom else { return atom.clone() };
        let is_between = |least: i64, most: i64| {
            let (above, below) = (a.add_constant(-least), Affine::constant(most).sub(a));
            let holds = |a: Checked<Affine>| a.is_ok_and(|a| self.derives(&Pred::non_negative(a)));
            holds(above) && holds(below)
        };
        let other = [1, -1].into_iter().find(|other| is_between((*other).min(0), (*other).max(0)));
        other.and_then(|other| a.add_constant(-other).ok()).map_or_else(|| atom.clone(), Pred::zero)
    }

    fn simplify_conjunction(&self, conjuncts: &[Pred]) -> Pred {
        // Bounds order before equations, so where both imply each other the bound goes.
        let mut kept: Vec<Pred> = conjuncts.iter().map(|p| self.as_equation(p)).collect();
        let mut atoms = Atoms::new(self, &kept);
        let mut at = 0;
        while at < kept.len() {
            if atoms.as_ref().is_some_and(|atoms| atoms.is_free(at)) {
                at += 1;
                continue;
            }
            work::charge(8 + self.known.len() + kept.len());
            let others = kept.iter().enumerate().filter(|(other, _)| *other != at);
            let facts = self.under([], others.map(|(_, q)| q));
            let simpler = match atoms {
                Some(_) => facts.simplify_atom(&kept[at]),
                None => facts.simplify(&kept[at]),
            };
            match simpler {
                Pred::False => return Pred::False,
                Pred::True => {
                    kept.remove(at);
                    atoms.iter_mut().for_each(|atoms| atoms.remove(at));
                }
                simpler => {
                    kept[at] = simpler;
                    at += 1;
                }
            }
        }
        Pred::all(kept)
    }

    /// Whether the facts contradict each other, so that anything follows. `false` means "not proved".
    pub fn contradictory(&self) -> bool {
        *self.contradictory.get_or_init(|| {
            !self.known.is_empty() && Refutation::new(self, Budget::GOAL).run(&Conj::default(), Reach::Everything)
        })
    }

    fn proves_within(&self, goal: &Pred, budget: &mut Budget) -> bool {
        work::charge(1);
        if work::is_used_up() {
            return goal.is_true();
        }
        match goal {
            Pred::True => true,
            Pred::All(ps) => ps.iter().all(|p| self.proves_within(p, budget)),
            Pred::Exists { index, extent, body } => self.proves_exists(goal, *index, extent, body, budget),
            _ if self.states(goal) => true,
            Pred::Relation { relation, args, holds: true } if self.is_own_target(*relation, args, budget) => true,
            _ => match (goal.negate(), goal) {
                (Some(negated), _) => self.refutes(&negated, budget),
                // An `or` over an `exists`: one side must hold, where the sides without `exists` count together.
                (None, Pred::Any(ps)) => {
                    if self.supposes_some(goal) {
                        return true;
                    }
                    let (plain, quantified): (Vec<_>, Vec<_>) = ps.iter().cloned().partition(|p| p.negate().is_some());
                    quantified.iter().any(|p| self.proves_within(p, budget))
                        || self.proves_within(&Pred::any(plain), budget)
                }
                // A bound whose opposite leaves the range of integers.
                (None, _) => false,
            },
        }
    }

    /// Whether a map is asked for its own target, `f(a, f(a))`, at a source that is known to be in range.
    fn is_own_target(&self, relation: RelationRef, args: &[Affine], budget: &mut Budget) -> bool {
        let Some((target, source)) = args.split_last() else { return false };
        let Some((_, sizes)) = self.total.get(&relation).and_then(|shape| shape.split_last()) else { return false };
        let [(Var::Apply(application), 1)] = target.terms() else { return false };
        let is_own = target.offset() == 0 && application.map == relation && application.args == source;
        is_own
            && source.iter().zip(sizes).all(|(a, n)| Pred::in_range(a, n).is_ok_and(|p| self.proves_within(&p, budget)))
    }

    /// Whether a bound is among the facts, or a tighter one parallel to it.
    fn states(&self, goal: &Pred) -> bool {
        let Pred::NonNegative(a) = goal else { return false };
        let column = |(v, k): &(Var, i64)| Some((self.known_column(v)?, *k));
        let Some(terms) = a.terms().iter().map(column).collect::<Option<Vec<_>>>() else { return false };
        self.known.bounds.iter().any(|row| row.constant <= a.offset() && *row.terms == *terms)
    }

    /// Whether an `or` is among the facts whose cases are all among those of a goal.
    fn supposes_some(&self, goal: &Pred) -> bool {
        let Pred::Any(cases) = goal.alpha_normal() else { return false };
        let is_part = |known: &Pred| matches!(known, Pred::Any(ps) if ps.iter().all(|p| cases.contains(p)));
        self.existentials.iter().any(is_part)
    }

    /// A witness proves an `exists`: the same `exists` among the facts, or an index at which a known relation atom holds.
    fn proves_exists(&self, goal: &Pred, index: IndexId, extent: &Size, body: &Pred, budget: &mut Budget) -> bool {
        if !self.existentials.is_empty() && self.existentials.contains(&goal.alpha_normal()) {
            return true;
        }
        if self.proves_target(index, extent, body, budget) {
            return true;
        }
        for witness in self.witnesses(index, body) {
            if budget.splits == 0 {
                return false;
            }
            budget.splits -= 1;
            let holds = Pred::in_range(&witness, extent).is_ok_and(|p| self.proves_within(&p, budget))
                && body
                    .substitute(&|i| (i == index).then(|| witness.clone()))
                    .is_ok_and(|p| self.proves_within(&p, budget));
            if holds {
                return true;
            }
        }
        false
    }

    /// Whether an `exists` holds since each source of a map has a target: of its cases, each of which asks for one, one holds.
    ///
    /// ```text
    /// exists i < n. (f(a, i + c) and p(i)) or ..   ==   (f(a) - c in range n and p(f(a) - c)) or ..        for `a` in range
    /// ```
    fn proves_target(&self, index: IndexId, extent: &Size, body: &Pred, budget: &mut Budget) -> bool {
        if body.binds() || self.total.is_empty() {
            return false;
        }
        let cases = match body {
            Pred::Any(cases) => cases,
            case => std::slice::from_ref(case),
        };
        let (mut open, mut ranges) = (Vec::new(), Vec::new());
        for case in cases {
            let found = case.conjuncts().iter().enumerate().find_map(|(at, p)| Some((at, self.target(index, p)?)));
            let Some((at, (value, sources, range))) = found else { continue };
            if budget.splits == 0 || !sources.iter().all(|p| self.proves_within(p, budget)) {
                continue;
            }
            budget.splits -= 1;
            let value = |i: IndexId| (i == index).then(|| value.clone());
            let others = case.conjuncts().iter().enumerate().filter(|(other, _)| *other != at);
            let others = others.map(|(_, p)| p.substitute(&value)).collect::<Checked<Vec<_>>>();
            let in_range = value(index).map_or(Ok(Pred::True), |value| Pred::in_range(&value, extent));
            let (Ok(others), Ok(in_range)) = (others, in_range) else { continue };
            open.push(Pred::all(others).and(in_range));
            ranges.push(range);
        }
        !open.is_empty() && self.under([], &ranges).proves_within(&Pred::any(open), budget)
    }

    /// The value of an index by `f(a, i + c)`, where each source has a target: that, that the sources are in range, and that the target is.
    fn target(&self, index: IndexId, p: &Pred) -> Option<(Affine, Vec<Pred>, Pred)> {
        let Pred::Relation { relation, args, holds: true } = p else { return None };
        let (target, source) = args.split_last()?;
        let (extent, sizes) = self.total.get(relation)?.split_last()?;
        let (1, shift) = target.split(index)? else { return None };
        if source.iter().any(|a| a.mentions(index) || a.nesting() >= Affine::MAX_NESTING) {
            return None;
        }
        let of = Affine::var(Var::Apply(Box::new(Application { map: *relation, args: source.to_vec() })));
        let sources = source.iter().zip(sizes).map(|(a, n)| Pred::in_range(a, n)).collect::<Checked<_>>().ok()?;
        Some((of.sub(&shift).ok()?, sources, Pred::in_range(&of, extent).ok()?))
    }

    /// Indices at which a relation atom or an equation of `body` may hold.
    fn witnesses(&self, index: IndexId, body: &Pred) -> Vec<Affine> {
        let mut witnesses: Vec<Affine> = Vec::new();
        let mut binders = Vec::new();
        // A witness that mentions one would be captured.
        body.visit_binders(&mut |i| binders.push(i));
        let mut add = |a: Affine| {
            let bound = a.mentions(index) || binders.iter().any(|i| a.mentions(*i));
            if !bound && !witnesses.contains(&a) && witnesses.len() < MAX_WITNESSES {
                witnesses.push(a);
            }
        };
        body.visit_atoms(&mut |atom| match atom {
            Pred::Relation { relation, args, holds } => {
                for (at, _) in args.iter().enumerate().filter(|(_, a)| a.as_index() == Some(index)) {
                    let known = self.known.relations.iter();
                    for fact in
                        known.filter(|r| r.holds == *holds && r.relation == *relation && r.args.len() == args.len())
                    {
                        let row = &fact.args[at];
                        let terms = row.terms.iter().map(|(c, k)| (self.vars[*c as usize].clone(), *k));
                        if let Ok(a) = Affine::from_terms(terms, row.constant) {
                            add(a);
                        }
                    }
                }
            }
            Pred::Zero(a) | Pred::NonNegative(a) => {
                // The end of an interval is as good a guess.
                a.root(index).into_iter().for_each(&mut add);
                // 2*index = a, where some 2*i = a is known
                if let (Pred::Zero(_), Some((k, _))) = (atom, a.split(index).filter(|(k, _)| k.unsigned_abs() > 1)) {
                    let rows = self.known.equations.iter().flat_map(|row| &row.terms);
                    let alike = rows.filter(|(_, l)| l.unsigned_abs() == k.unsigned_abs());
                    alike.for_each(|(c, _)| add(Affine::var(self.vars[*c as usize].clone())));
                }
            }
            _ => {}
        });
        add(Affine::constant(0));
        witnesses
    }

    /// Whether a bound is refuted by the sum of it and of one or two facts: the short proofs, without a search.
    fn opposes(&self, bound: &Row) -> bool {
        let Conj { bounds, equations, .. } = &self.known;
        let is_size = |c: u32| matches!(self.vars.get(c as usize), Some(Var::Size(_)));
        let fails = |sum: &Row| sum.constant < 0 && sum.terms.iter().all(|(c, k)| *k < 0 && is_size(*c));
        let cancels = |a: &Row, b: &Row| {
            a.terms.iter().any(|(c, k)| b.terms.iter().any(|(d, l)| c == d && k.checked_neg() == Some(*l)))
        };
        let with = |sum: &Row, fact: &Row, factor: i64| sum.plus(fact, factor).is_some_and(|sum| fails(&sum));
        let refuted = |sum: &Row| {
            work::charge(1 + bounds.len() + equations.len());
            fails(sum)
                || bounds.iter().any(|fact| cancels(sum, fact) && with(sum, fact, 1))
                || equations.iter().any(|fact| with(sum, fact, 1) || with(sum, fact, -1))
        };
        let mut sums = bounds.iter().filter(|fact| cancels(bound, fact)).filter_map(|fact| bound.plus(fact, 1));
        refuted(bound) || sums.any(|sum| refuted(&sum))
    }

    fn refutes(&self, p: &Pred, budget: &mut Budget) -> bool {
        let mut refutation = Refutation::new(self, *budget);
        let mut goal = Conj::default();
        compile(p, &mut refutation.columns, &mut goal);
        if refutation.columns.has_point(std::iter::once(&goal)) {
            return false;
        }
        if let ([bound], true) = (goal.bounds.as_slice(), matches!(p, Pred::NonNegative(_)))
            && self.opposes(bound)
        {
            return true;
        }
        let columns = refutation.columns.extra.len();
        [Reach::Narrow, Reach::Connected].into_iter().any(|reach| {
            refutation.columns.extra.truncate(columns);
            let refuted = refutation.run(&goal, reach);
            *budget = refutation.budget;
            refuted
        })
    }
}

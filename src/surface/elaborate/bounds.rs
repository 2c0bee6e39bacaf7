//! What is known at a place of the program, and the proof that an access is in bounds.
//!
//! Known are the assumptions of the program, the ranges of the indices in scope, the brackets around the place with what their
//! relations imply (a tuple of a relation is in its shape, a map's target is in its range), and inside a bracket the conjuncts
//! to the left.
//!
//! An access is proved in three steps, cheapest first: by the ranges of its own indices alone; by one known bound that is at least as
//! strong; and by [`Facts`] over the facts connected with the goal. Facts are found through the variables they mention, and
//! each variable keeps only its innermost ones, so a proof costs the same however deep the program nests.
//!
//! *Moved terms.* A comparison of reals leaves its bracket (see `computed`), and with it the conjuncts to its left. What is proved
//! only by them makes the moved term keep them as a guard of its own: [`Proof::Conditional`].

use std::cell::OnceCell;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::super::ast::{BinderKind, Expr, ExprId};
use super::{Elaborator, Task};
use crate::base::{Id, IndexId, work};
use crate::error::Diagnostic;
use crate::index::{Affine, Checked, Pred, RelationRef, Size, Var, View};
use crate::scalar::Op;
use crate::solver::{Facts, target_range, within_shapes};
use crate::term::Program;
use crate::ty::RelationKind;

/// How many brackets one variable contributes to a proof, innermost first.
const MAX_GUARDS_PER_VAR: usize = 24;
/// How many enclosing ranges one size contributes: each says no more than that the size is positive.
const MAX_RANGES_PER_SIZE: usize = 3;
/// How many facts take part in a proof.
const MAX_FACTS: usize = 96;
/// How heavy a fact may be.
const MAX_WEIGHT: usize = 64;

/// Whether something follows from what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// It does.
    Known,
    /// It does, by these facts that moved terms leave behind.
    Conditional(Vec<usize>),
    /// It was not shown.
    Unknown,
}

#[derive(Clone, Debug)]
enum Fact {
    /// `0 <= index < extent`, so the extent is positive.
    Range(IndexId, Size),
    /// A conjunct of a bracket.
    Guard(Pred),
    /// What a conjunct implies.
    Implied(Pred),
}

/// What is known in connection with a goal.
#[derive(Default)]
struct Relevant {
    /// Predicates, each with the fact that says it if that is left behind.
    known: Vec<(Pred, Option<usize>)>,
    ranges: Vec<(IndexId, Size)>,
    maps: BTreeSet<RelationRef>,
}

/// The facts in force, innermost last.
#[derive(Default)]
pub(super) struct Knowledge {
    assumptions: Vec<Pred>,
    /// By index: its extent, or nothing where that is erroneous.
    extents: Vec<Option<Size>>,
    facts: Vec<Fact>,
    guards_of: FxHashMap<Topic, Vec<usize>>,
    ranges_of: FxHashMap<Var, Vec<usize>>,
    /// The brackets that are never true.
    absurd: Vec<usize>,
    /// For each moved term around the place: the facts from its anchor to its beginning, which it leaves behind.
    left_behind: Vec<(usize, usize)>,
    /// What an index that an `exists` binds is called in the moved term.
    renamed: FxHashMap<IndexId, IndexId>,
    original: FxHashMap<IndexId, IndexId>,
    /// What brackets about numbers say of the indices that stand for them.
    meanings: FxHashMap<Pred, Pred>,
}

impl Knowledge {
    pub(super) fn assume(&mut self, p: Pred) {
        self.assumptions.extend(p.conjuncts().iter().cloned());
    }

    /// Whether the assumptions contradict each other.
    pub(super) fn contradictory(&self) -> bool {
        self.assumptions.len() <= MAX_FACTS && Facts::new().under([], &self.assumptions).contradictory()
    }

    /// How many facts are in force.
    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    /// Declares the extent of an index, without its range being in force where nothing mentions the index.
    pub(super) fn declare(&mut self, index: IndexId, extent: Option<Size>) {
        if self.extents.len() <= index.index() {
            self.extents.resize(index.index() + 1, None);
        }
        self.extents[index.index()] = extent;
    }

    /// The range of an index, if it is known.
    pub(super) fn extent(&self, index: IndexId) -> Option<&Size> {
        self.extents.get(index.index())?.as_ref()
    }

    /// Opens the scope of an index.
    pub(super) fn enter_range(&mut self, index: IndexId, extent: Option<&Size>) {
        self.declare(index, extent.cloned());
        let Some(extent) = extent else { return };
        for (v, _) in extent.terms() {
            self.ranges_of.entry(v.clone()).or_default().push(self.facts.len());
        }
        self.facts.push(Fact::Range(index, extent.clone()));
    }

    /// Opens the scope of a bracket.
    pub(super) fn enter_guard(&mut self, program: &Program, p: &Pred) {
        for conjunct in p.conjuncts() {
            self.add(Fact::Guard(conjunct.clone()));
            let implied = within_shapes(conjunct, &|r| shape(program, r));
            let implied = match self.meaning(conjunct) {
                Some(said) => implied.and(said),
                None => implied,
            };
            if implied != *conjunct {
                self.add(Fact::Implied(implied));
            }
        }
    }

    /// Remembers what a bracket says of the indices that stand for numbers.
    pub(super) fn remember_meaning(&mut self, said: Pred, meant: Pred) {
        self.meanings.insert(said, meant);
    }

    fn meaning(&self, said: &Pred) -> Option<Pred> {
        if self.meanings.is_empty() {
            return None;
        }
        let opposite = || self.meanings.get(&said.negate()?)?.negate();
        self.meanings.get(said).cloned().or_else(opposite)
    }

    fn add(&mut self, fact: Fact) {
        let (Fact::Guard(p) | Fact::Implied(p)) = &fact else { return };
        if p.is_false() {
            self.absurd.push(self.facts.len());
        }
        if p.weight() <= MAX_WEIGHT {
            for v in topics(p) {
                self.guards_of.entry(v).or_default().push(self.facts.len());
            }
        }
        self.facts.push(fact);
    }

    /// Closes all scopes opened since there were `len` facts.
    pub(super) fn leave(&mut self, len: usize) {
        while self.facts.len() > len {
            match self.facts.pop() {
                Some(Fact::Range(_, extent)) => {
                    for (v, _) in extent.terms() {
                        self.ranges_of.get_mut(v).map(Vec::pop);
                    }
                }
                Some(Fact::Guard(p) | Fact::Implied(p)) if p.weight() <= MAX_WEIGHT => {
                    if p.is_false() {
                        self.absurd.pop();
                    }
                    for v in topics(&p) {
                        self.guards_of.get_mut(&v).map(Vec::pop);
                    }
                }
                _ => {}
            }
        }
    }

    /// A term begins that will be moved to the anchor where `from` facts were in force.
    pub(super) fn enter_moved(&mut self, from: usize) {
        self.left_behind.push((from, self.facts.len()));
    }

    /// The moved term ends. Given the facts by which it is in bounds: what it must keep of what it leaves behind.
    pub(super) fn leave_moved(&mut self, needed: &BTreeSet<usize>) -> Vec<Pred> {
        self.left_behind.pop();
        let kept = |at: &usize| match self.facts.get(*at)? {
            // What a conjunct implies stands right behind it.
            Fact::Implied(_) => match self.facts.get(at.checked_sub(1)?)? {
                Fact::Guard(p) => Some(p.clone()),
                _ => None,
            },
            Fact::Guard(p) => Some(p.clone()),
            Fact::Range(i, extent) if !self.renamed.contains_key(i) => {
                Some(Pred::non_negative(extent.add_constant(-1).ok()?))
            }
            _ => None,
        };
        needed.iter().filter_map(kept).collect()
    }

    /// Inside a moved term an index is called by another name.
    pub(super) fn rename(&mut self, index: IndexId, other: IndexId) {
        self.renamed.insert(index, other);
        self.original.insert(other, index);
        let extent = self.extents.get(index.index()).cloned().flatten();
        self.declare(other, extent);
    }

    /// Ends a renaming.
    pub(super) fn unrename(&mut self, index: IndexId) {
        if let Some(other) = self.renamed.remove(&index) {
            self.original.remove(&other);
        }
    }

    /// Whether an index has an erroneous range, so that nothing can be said of it.
    fn is_doubtful(&self, p: &Pred) -> bool {
        variables(p).iter().any(|v| match v {
            Var::Index(i) => self.extents.get(i.index()).is_none_or(Option::is_none),
            _ => false,
        })
    }

    /// Whether `goal` follows.
    pub(super) fn prove(&self, program: &Program, goal: &Pred) -> Proof {
        if goal.is_true() || self.follows_from_ranges(goal) || self.is_doubtful(goal) {
            return Proof::Known;
        }
        let about_goal = topics(goal);
        // Brackets that contradict each other imply anything, whatever they are about.
        let about_guards = OnceCell::new();
        let follows = |left_behind: bool| {
            self.follows(program, goal, &about_goal, left_behind).or_else(|| {
                let topics: &Vec<Topic> = about_guards.get_or_init(|| self.guarded());
                if topics.is_empty() { None } else { self.follows(program, &Pred::False, topics, left_behind) }
            })
        };
        if follows(false).is_some() {
            return Proof::Known;
        }
        match self.left_behind.is_empty() {
            false => follows(true).map_or(Proof::Unknown, Proof::Conditional),
            true => Proof::Unknown,
        }
    }

    /// What the innermost brackets speak of.
    fn guarded(&self) -> Vec<Topic> {
        let guards = self.facts.iter().rev().filter_map(|fact| match fact {
            Fact::Guard(p) if p.weight() <= MAX_WEIGHT => Some(topics(p)),
            _ => None,
        });
        guards.take(MAX_GUARDS_PER_VAR).flatten().collect()
    }

    /// `0 <= a` at the corner of the box of ranges where `a` is least. Nothing but the ranges is used.
    fn follows_from_ranges(&self, goal: &Pred) -> bool {
        let Pred::NonNegative(a) = goal else { return false };
        // Sizes are never negative.
        self.least(a).is_some_and(|a| a.is_size() && a.offset() >= 0 && a.terms().iter().all(|(_, k)| *k >= 0))
    }

    /// `a` at the corner of the box of ranges where it is least.
    pub(super) fn least(&self, a: &Affine) -> Option<Affine> {
        if a.nesting() > 0 {
            return None;
        }
        let corner: Checked<Affine> = a.replace(&mut |v| match v {
            Var::Index(i) if a.coefficient(v) > 0 => {
                Ok(self.extents.get(i.index()).is_some_and(Option::is_some).then(Affine::default))
            }
            Var::Index(i) => match self.extents.get(i.index()) {
                Some(Some(extent)) => extent.add_constant(-1).map(Some),
                _ => Ok(None),
            },
            _ => Ok(None),
        });
        corner.ok()
    }

    /// The moved term that leaves a fact behind. The stretches of facts are disjoint and in order.
    fn left_by(&self, fact: usize) -> Option<usize> {
        let at = self.left_behind.partition_point(|(_, to)| *to <= fact);
        self.left_behind.get(at).is_some_and(|(from, _)| *from <= fact).then_some(at)
    }

    /// Whether a goal follows from what is connected with some topics: the facts left behind that may have been needed.
    fn follows(&self, program: &Program, goal: &Pred, topics: &[Topic], left_behind: bool) -> Option<Vec<usize>> {
        for at in self.absurd.iter().rev().take(MAX_RANGES_PER_SIZE) {
            match self.left_by(*at) {
                None => return Some(Vec::new()),
                Some(_) if left_behind => return Some(vec![*at]),
                Some(_) => {}
            }
        }
        let Relevant { known, ranges, maps } = self.relevant(program, topics, left_behind);
        work::charge(8 + 4 * known.len() + 4 * ranges.len());
        if let Some((_, by)) = known.iter().find(|(p, _)| implies(p, goal)) {
            return Some(by.iter().copied().collect());
        }
        let mut facts = Facts::new();
        for map in maps {
            facts.functional(map);
        }
        let facts = facts.under(&ranges, known.iter().map(|(p, _)| p));
        facts.proves(goal).then(|| known.iter().filter_map(|(_, by)| *by).collect())
    }

    /// The facts that are connected with some topics, the closest first.
    fn relevant(&self, program: &Program, about: &[Topic], left_behind: bool) -> Relevant {
        let Relevant { mut known, mut ranges, mut maps } = Relevant::default();
        let mut used = BTreeSet::new();
        let mut seen: BTreeSet<Topic> = BTreeSet::new();
        let mut queue = about.to_vec();
        let mut next = 0;
        while next < queue.len() && known.len() + ranges.len() < MAX_FACTS {
            let v = queue[next].clone();
            next += 1;
            if !seen.insert(v.clone()) {
                continue;
            }
            match &v {
                Topic::Relation(_) => {}
                Topic::Var(Var::Index(i)) => {
                    if let Some(Some(extent)) = self.extents.get(i.index()) {
                        ranges.push((*i, extent.clone()));
                        queue.extend(extent.terms().iter().map(|(v, _)| Topic::Var(v.clone())));
                    }
                }
                Topic::Var(v @ Var::Apply(application)) => {
                    maps.insert(application.map);
                    if let Some(range) = target_range(v, &|r| shape(program, r)) {
                        queue.extend(topics(&range));
                        known.push((range, None));
                    }
                }
                Topic::Var(v @ Var::Size(_)) => {
                    let around = self.ranges_of.get(v).map_or(&[][..], Vec::as_slice).iter().rev();
                    for at in around.take(MAX_RANGES_PER_SIZE) {
                        let Fact::Range(i, extent) = &self.facts[*at] else { continue };
                        // Renamed, the index is one of the moved term.
                        let by = self.left_by(*at).filter(|_| !self.renamed.contains_key(i));
                        if by.is_some() && !left_behind {
                            continue;
                        }
                        let positive = extent.add_constant(-1).map(Pred::non_negative);
                        known.extend(positive.map(|p| (p, by.map(|_| *at))));
                        // What is known of the index bounds the size: `3 <= i` gives `4 <= n`.
                        if by.is_none() {
                            queue.push(Topic::Var(Var::Index(*i)));
                        }
                    }
                }
            }
            // Facts from outside a moved term speak of an index under the name it has in the bracket.
            let outside = match &v {
                Topic::Var(Var::Index(i)) => self.original.get(i).map(|i| Topic::Var(Var::Index(*i))),
                _ => None,
            };
            let of = |v: &Topic| self.guards_of.get(v).map_or(&[][..], Vec::as_slice).iter().rev();
            let around = of(&v).chain(outside.iter().flat_map(of));
            for at in around.take(MAX_GUARDS_PER_VAR) {
                let by = self.left_by(*at);
                if (by.is_some() && !left_behind) || !used.insert(*at) {
                    continue;
                }
                if let Fact::Guard(p) | Fact::Implied(p) = &self.facts[*at] {
                    let renamed = p.substitute(&|i| self.renamed.get(&i).copied().map(Affine::index));
                    if let Ok(p) = renamed {
                        queue.extend(topics(&p));
                        p.visit_relations(&mut |r| {
                            if is_map(program, r) {
                                maps.insert(r);
                            }
                        });
                        known.push((p, by.map(|_| *at)));
                    }
                }
            }
        }
        known.extend(self.assumptions.iter().take(MAX_FACTS).map(|p| (p.clone(), None)));
        Relevant { known, ranges, maps }
    }
}

/// What facts are found by: `A?(0, i)` by the index and by the relation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Topic {
    Var(Var),
    Relation(RelationRef),
}

/// What a predicate speaks of. A map is one topic whether it stands as `f(i) = j` or inside of an index.
fn topics(p: &Pred) -> Vec<Topic> {
    let mut found = BTreeSet::new();
    for v in variables(p) {
        if let Var::Apply(application) = &v {
            found.insert(Topic::Relation(application.map));
        }
        found.insert(Topic::Var(v));
    }
    p.visit_atoms(&mut |atom| {
        if let Pred::Relation { relation, .. } = atom {
            found.insert(Topic::Relation(*relation));
        }
    });
    found.into_iter().collect()
}

/// Whether one bound is at least as strong as another, or the same atom.
fn implies(known: &Pred, goal: &Pred) -> bool {
    match (known, goal) {
        (Pred::NonNegative(a), Pred::NonNegative(b)) => a.terms() == b.terms() && a.offset() <= b.offset(),
        _ => known == goal,
    }
}

/// The variables of a predicate, map applications among them.
fn variables(p: &Pred) -> BTreeSet<Var> {
    let mut all = BTreeSet::new();
    p.visit_affine(&mut |a| {
        a.visit(&mut |v| {
            all.insert(v.clone());
        });
    });
    all
}

/// The ranges of the places of a relation.
pub(super) fn shape(program: &Program, relation: RelationRef) -> Vec<Size> {
    match relation {
        RelationRef::Input(r) => program.signature.relations.get(r).map_or_else(Vec::new, |r| r.shape.clone()),
        RelationRef::Computed { var, .. } => {
            let ty = program.variables.get(var).map(|v| v.ty);
            ty.and_then(|ty| program.types.real_dims(ty)).unwrap_or_default()
        }
    }
}

fn is_map(program: &Program, relation: RelationRef) -> bool {
    match relation {
        RelationRef::Input(r) => program.signature.relations.get(r).is_some_and(|r| r.kind == RelationKind::Map),
        RelationRef::Computed { view, .. } => matches!(view, View::ArgMax | View::ArgMin),
    }
}

impl<'a> Elaborator<'a> {
    /// Whether a goal follows here. A proof by conjuncts that are left behind makes the moved terms keep them.
    pub(super) fn proves(&mut self, goal: &Pred) -> bool {
        match self.knowledge.prove(&self.program, goal) {
            Proof::Known => true,
            Proof::Conditional(by) => {
                for fact in by {
                    let hoist = self.knowledge.left_by(fact).and_then(|at| self.hoists.get_mut(at));
                    if let Some(hoist) = hoist {
                        hoist.needed.insert(fact);
                    }
                }
                true
            }
            // That the proof was given up is reported once.
            Proof::Unknown => self.silent > 0 || work::is_used_up(),
        }
    }

    /// Adds `0 <= a` to a list of conditions on sizes; without a list if that is none, or never true.
    pub(super) fn and_non_negative(&self, sizes: Option<Vec<String>>, a: Option<Affine>) -> Option<Vec<String>> {
        let (mut sizes, a) = (sizes?, a.filter(Affine::is_size)?);
        if Pred::non_negative(a.clone()).is_false() {
            return None;
        }
        // Every term on the side on which it is positive.
        let side = |sign: i64| {
            let terms = a.terms().iter().filter(|(_, k)| k.signum() == sign);
            let terms = terms.map(|(v, k)| Some((v.clone(), k.checked_mul(sign)?))).collect::<Option<Vec<_>>>()?;
            let offset = if a.offset().signum() == sign { a.offset().checked_mul(sign)? } else { 0 };
            Affine::from_terms(terms, offset).ok()
        };
        sizes.push(format!("{} <= {}", self.show(&side(-1)?), self.show(&side(1)?)));
        Some(sizes)
    }

    /// Demands `0 <= a < extent` of the arguments of `what`, an access or a map application, at its place.
    pub(super) fn demand_in_bounds(&mut self, at: ExprId, what: &str, args: &[(Affine, Size)]) -> Option<()> {
        let mut missing = Vec::new();
        // What the sizes would have to satisfy for this to hold for all indices.
        let mut sizes: Option<Vec<String>> = Some(Vec::new());
        for (a, extent) in args {
            let lower = Pred::non_negative(a.clone());
            let upper = Pred::lt(a, extent);
            let upper = self.checked(at, upper)?;
            if !self.proves(&lower) {
                missing.push(format!("0 <= {}", self.show(a)));
                let enough = self.knowledge.least(a);
                sizes = self.and_non_negative(sizes, enough);
            }
            if !self.proves(&upper) {
                missing.push(format!("{} < {}", self.show(a), self.show(extent)));
                let room = extent.sub(a).and_then(|a| a.add_constant(-1)).ok();
                let enough = room.and_then(|room| self.knowledge.least(&room));
                sizes = self.and_non_negative(sizes, enough);
            }
        }
        if missing.is_empty() {
            return Some(());
        }
        let indices = self.indices_of(args.iter().map(|(a, _)| a));
        // The range of a quotient is not that of what it divides.
        let asks_quotients = args.iter().any(|(a, _)| self.quotient_indices.keys().any(|q| a.mentions(*q)));
        let sizes = sizes.filter(|_| !asks_quotients);
        let ranges: Vec<String> = indices
            .iter()
            .filter_map(|i| {
                let extent = self.knowledge.extents.get(i.index())?.as_ref()?;
                Some(format!("0 <= {} < {}", self.show(&Affine::index(*i)), self.show(extent)))
            })
            .collect();
        let shown = self.shown_places(at, args.iter().map(|(a, _)| self.show(a)).collect());
        let condition = missing.join(" and ");
        let place = if ranges.is_empty() { "here".into() } else { format!("where {}", ranges.join(", ")) };
        let (open, close) = if what.ends_with('(') { ("", ")") } else { ("[", "]") };
        let never = args
            .iter()
            .any(|(a, n)| a.as_constant().is_some_and(|k| k < 0) || Pred::lt(a, n).is_ok_and(|p| p.is_false()));
        let shown = shown.join(", ");
        let message = match never {
            true => format!("`{what}{open}{shown}{close}` is out of bounds: `{condition}` is never true"),
            false => format!("`{what}{open}{shown}{close}` may be out of bounds: `{condition}` is not known {place}"),
        };
        let span = self.span(at);
        let sizes = self.enough_by_one(args).or_else(|| sizes.map(|sizes| sizes.join(" and ")));
        let guard = match self.extremum_around() {
            Some(View::ArgMin) => format!("put a condition before it: `if {condition} then .. else inf`"),
            Some(_) => format!("put a condition before it: `if {condition} then .. else -inf`"),
            None => format!("put a guard before it: `[{condition}] * ..`"),
        };
        let from_one = if missing.len() == 1 { self.counts_from_one(args) } else { None };
        let help = match sizes {
            _ if never && args.iter().any(|(a, _)| a.as_constant().is_some_and(|k| k < 0)) => {
                let from_the_end = |(a, extent): &(Affine, Size)| match a.as_constant() {
                    Some(k) if k < 0 => extent.add_constant(k).map_or_else(|_| self.show(a), |a| self.show(&a)),
                    _ => self.show(a),
                };
                let places: Vec<String> = args.iter().map(from_the_end).collect();
                format!("indices count from 0; counted from the end it is `{what}{open}{}{close}`", places.join(", "))
            }
            _ if never => "indices count from 0".to_owned(),
            _ if from_one.is_some() => from_one.unwrap_or_default(),
            // A fact about sizes is seldom meant to vary.
            Some(sizes) if indices.is_empty() => {
                format!("declare `assume {sizes}`, or {guard}")
            }
            Some(sizes) => format!("{guard}, or declare `assume {sizes}`"),
            None => guard,
        };
        self.diagnose(Diagnostic::new("out-of-bounds", span, message).help(help));
        None
    }

    /// What to write instead of `1 <= i <= n`, where `i` alone is a place of an axis with the places below `n`.
    fn counts_from_one(&self, args: &[(Affine, Size)]) -> Option<String> {
        let is_one_more = |(a, n): &&(Affine, Size)| {
            self.range_of(a).is_some_and(|range| n.add_constant(1).is_ok_and(|end| *range == end))
        };
        let (a, n) = args.iter().find(is_one_more)?;
        Some(format!("places count from 0, and all of them are `{} < {}`", self.show(a), self.show(n)))
    }

    /// That a size is positive, where that is all that is missing because of a quotient of it: of `x[n // 2]` it is `1 <= n`.
    fn enough_by_one(&mut self, args: &[(Affine, Size)]) -> Option<String> {
        let of_sizes = args.iter().all(|(a, n)| a.is_size() && n.is_size());
        let [(a, n)] = args else { return None };
        let size = n.terms().first().filter(|_| of_sizes && n.terms().len() == 1 && n.offset() == 0)?.0.clone();
        let is_quotient = |v: &Var| matches!(v, Var::Size(n) if self.program.signature.quotient_of(*n).is_some());
        if !a.terms().iter().any(|(v, _)| is_quotient(v)) || is_quotient(&size) {
            return None;
        }
        let positive = Pred::non_negative(Affine::var(size).add_constant(-1).ok()?);
        let goal = Pred::non_negative(a.clone()).and(Pred::lt(a, n).ok()?);
        let facts = self.knowledge.len();
        self.knowledge.enter_guard(&self.program, &positive);
        let is_enough = self.knowledge.prove(&self.program, &goal) == Proof::Known;
        self.knowledge.leave(facts);
        is_enough.then(|| format!("1 <= {}", self.show(n)))
    }

    /// Places as they are written, with the `:` of whole axes among them.
    fn shown_places(&self, at: ExprId, places: Vec<String>) -> Vec<String> {
        let Expr::Access { indices, .. } = self.expr(at) else { return places };
        let is_whole = |e: &ExprId| matches!(self.expr(*e), Expr::All) && self.range_found(*e).is_none();
        let whole: Vec<bool> = indices.iter().map(is_whole).collect();
        if whole.iter().filter(|whole| !**whole).count() != places.len() {
            return places;
        }
        // A quotient alone needs no parentheses.
        let alone = |place: String| match place.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(inner) if !inner.contains(['(', ')']) => inner.to_owned(),
            _ => place,
        };
        let mut places = places.into_iter().map(alone);
        whole.into_iter().filter_map(|whole| if whole { Some(":".to_owned()) } else { places.next() }).collect()
    }

    /// The extremum around what is being read, of which a zero would be one of the numbers.
    fn extremum_around(&self) -> Option<View> {
        let around = self.tasks.iter().rev().find_map(|task| match task {
            Task::Bound { kind: BinderKind::Max, .. } | Task::Fold(_, Op::Max, _) => Some(Some(View::ArgMax)),
            Task::Bound { kind: BinderKind::Min, .. } | Task::Fold(_, Op::Min, _) => Some(Some(View::ArgMin)),
            Task::ArgOf { view, .. } => Some(Some(*view)),
            Task::Bound { .. } => Some(None),
            _ => None,
        });
        around.flatten()
    }

    /// The indices that some index expressions mention; of quotients, those in what they divide.
    fn indices_of<'b>(&self, all: impl Iterator<Item = &'b Affine>) -> Vec<IndexId> {
        let mut indices: Vec<IndexId> = Vec::new();
        let mut queue: Vec<Affine> = all.cloned().collect();
        queue.reverse();
        while let Some(a) = queue.pop() {
            a.visit(&mut |v| {
                let Var::Index(i) = v else { return };
                match self.quotient_indices.get(i) {
                    Some((of, _)) => queue.push(of.clone()),
                    None if indices.contains(i) => {}
                    None => indices.push(*i),
                }
            });
        }
        indices
    }
}

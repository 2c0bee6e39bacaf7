//! Is there a point at which some predicates hold?
//!
//! 1. An `exists` becomes an index of its own, a positive atom `f(a, b)` of a map the equation `f(a) = b`; bounds and equations form a linear
//!    system, whose variables are indices, sizes (not negative) and map applications.
//! 2. A point of the system is searched. Where there is none, neither have the predicates one.
//! 3. What the point violates is decided by cases: `a != 0` is `a >= 1 or a <= -1`; an `or` is one of its sides; `R(a)` and `not R(b)` with equal values
//!    give `a != b`; `f(a)` and `f(b)` with equal arguments and different values give `a != b or f(a) = f(b)`; `f(a)` and `not f(b, c)` with equal
//!    arguments and the value `c` are told apart too, but outside the sources of `f` they may both be: no proof comes of these cases.
//! 4. A point that violates nothing becomes a model: relations hold exactly where an atom says so. Every predicate is evaluated in it
//!    before it counts.
//!
//! All cases closed: no point, for whatever sizes, relations and maps. A model: a point, for some of them. Of an atom `R(a)` alone nothing
//! follows about `a`; who knows the shape of `R` says so. The search gives up at a limit.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Affine, Application, Checked, Overflow, Pred, RelationRef, Var, World, holds};
use super::witness::{Search, integer_point};
use crate::base::{IndexId, SizeId};

/// How many linear systems one question may look at.
const MAX_NODES: usize = 400;
/// How many values of columns it may try.
const MAX_STEPS: usize = 40_000;
/// How many variables may take part.
const MAX_COLUMNS: usize = 128;
/// A model with larger sizes is not evaluated, since an `exists` would count so far.
const MAX_SIZE: i64 = 4096;

/// What is known of the points of some predicates.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// There is none.
    Empty,
    /// There is one.
    Point(Model),
    /// Neither was shown.
    Open,
}

/// A world and a point in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) indices: BTreeMap<IndexId, i64>,
    pub(super) sizes: BTreeMap<SizeId, i64>,
    pub(super) relations: BTreeMap<RelationRef, BTreeSet<Vec<i64>>>,
    targets: BTreeMap<(RelationRef, Vec<i64>), i64>,
}

impl World for Model {
    fn size(&self, size: SizeId) -> i64 {
        self.sizes.get(&size).copied().unwrap_or(0)
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        self.relations.get(&relation).is_some_and(|tuples| tuples.contains(tuple))
    }

    fn candidates(&self, _: RelationRef, _: &[Option<i64>], _: usize) -> Option<Vec<i64>> {
        None
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        self.targets.get(&(map, source.to_vec())).copied()
    }
}

impl Model {
    /// Whether a predicate holds at the point; nothing where that is not known.
    pub(super) fn holds(&self, p: &Pred) -> Option<bool> {
        let small = self.sizes.values().all(|n| *n <= MAX_SIZE);
        small.then(|| holds(p, self, &self.indices).ok()).flatten()
    }
}

/// Whether all of `ps` hold at some point. The relations of `maps` have one target for each source, as have those that are applied.
pub(super) fn decide(ps: &[Pred], maps: &BTreeSet<RelationRef>) -> Decision {
    let mut search = Cases { goal: ps, maps, fresh: 0, nodes: MAX_NODES, steps: MAX_STEPS, complete: true };
    let mut root = Node::default();
    if !ps.iter().all(|p| search.add(p, &mut root)) {
        return Decision::Empty;
    }
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        let left = search.nodes.checked_sub(1);
        let Some(left) = left else { return Decision::Open };
        search.nodes = left;
        match search.node(node) {
            Outcome::Closed => {}
            Outcome::Cases(cases) => open.extend(cases.into_iter().rev()),
            Outcome::Model(model) => return Decision::Point(model),
        }
    }
    if search.complete { Decision::Empty } else { Decision::Open }
}

/// A conjunction.
#[derive(Clone, Debug, Default)]
struct Node {
    bounds: Vec<Affine>,
    equations: Vec<Affine>,
    /// `a != 0`, `or` and relations.
    others: Vec<Pred>,
}

enum Outcome {
    Closed,
    Cases(Vec<Node>),
    Model(Model),
}

type Values = BTreeMap<Var, i64>;

struct Cases<'a> {
    goal: &'a [Pred],
    maps: &'a BTreeSet<RelationRef>,
    /// How many indices were made for `exists`.
    fresh: u32,
    nodes: usize,
    steps: usize,
    /// Whether every node closed so far has no point.
    complete: bool,
}

impl Cases<'_> {
    /// Adds a predicate to a conjunction; false where it excludes all points.
    fn add(&mut self, p: &Pred, node: &mut Node) -> bool {
        match p {
            Pred::True => {}
            Pred::False => return false,
            Pred::NonNegative(a) => node.bounds.push(a.clone()),
            Pred::Zero(a) => node.equations.push(a.clone()),
            Pred::NonZero(_) | Pred::Any(_) => node.others.push(p.clone()),
            Pred::Relation { relation, args, holds } => {
                if let (true, true, [source @ .., target]) = (*holds, self.maps.contains(relation), args.as_slice()) {
                    let application = Application { map: *relation, args: source.to_vec() };
                    let value = Affine::var(Var::Apply(Box::new(application)));
                    match value.sub(target) {
                        Ok(a) => node.equations.push(a),
                        Err(_) => self.complete = false,
                    }
                }
                node.others.push(p.clone());
            }
            Pred::All(ps) => return ps.iter().all(|p| self.add(p, node)),
            Pred::Exists { index, extent, body } => {
                self.fresh += 1;
                let witness = Affine::index(IndexId(u32::MAX - self.fresh));
                let range = Pred::in_range(&witness, extent);
                let body = body.substitute(&|i| (i == *index).then(|| witness.clone()));
                match (range, body) {
                    (Ok(range), Ok(body)) => return self.add(&range, node) && self.add(&body, node),
                    _ => self.complete = false,
                }
            }
        }
        true
    }

    fn node(&mut self, node: Node) -> Outcome {
        let values = match self.point(&node) {
            Search::Empty => return Outcome::Closed,
            Search::Open => None,
            Search::Point(values) => Some(values),
        };
        let columns = columns(&node);
        let Some(values) = values.and_then(|values| {
            let values = values.into_iter().map(|x| i64::try_from(x).ok());
            columns.into_iter().zip(values).map(|(v, x)| Some((v, x?))).collect::<Option<Values>>()
        }) else {
            self.complete = false;
            return Outcome::Closed;
        };
        let model = match self.violated(&node, &values) {
            Ok(Some(cases)) => return Outcome::Cases(cases),
            Ok(None) => model(&node, &values),
            Err(Overflow) => None,
        };
        match model {
            Some(model) if self.goal.iter().all(|p| model.holds(p) == Some(true)) => Outcome::Model(model),
            _ => {
                self.complete = false;
                Outcome::Closed
            }
        }
    }

    /// A point of the bounds and equations.
    fn point(&mut self, node: &Node) -> Search {
        let columns = columns(node);
        if columns.len() > MAX_COLUMNS {
            return Search::Open;
        }
        let places: BTreeMap<&Var, usize> = columns.iter().zip(0..).collect();
        let width = columns.len();
        let dense = |a: &Affine| {
            let mut row = vec![0; width + 1];
            a.terms().iter().for_each(|(v, k)| {
                if let Some(at) = places.get(v) {
                    row[*at] = i128::from(*k);
                }
            });
            row[width] = i128::from(a.offset());
            row
        };
        let sizes = columns.iter().filter(|v| matches!(v, Var::Size(_))).map(|v| dense(&Affine::var(v.clone())));
        let bounds = node.bounds.iter().map(dense).chain(sizes).collect();
        integer_point(width, node.equations.iter().map(dense).collect(), bounds, &mut self.steps)
    }

    /// The cases of something that does not hold at a point; nothing where all holds.
    fn violated(&mut self, node: &Node, values: &Values) -> Checked<Option<Vec<Node>>> {
        for (at, p) in node.others.iter().enumerate() {
            let cases: Vec<Pred> = match p {
                Pred::NonZero(a) if value(a, values) == Some(0) => unequal(a)?,
                Pred::Any(ps) if !ps.iter().any(|p| linear_truth(p, values)) => ps.to_vec(),
                _ => continue,
            };
            let mut rest = node.clone();
            rest.others.remove(at);
            return Ok(Some(self.cases(&rest, cases)));
        }
        self.conflict(node, values)
    }

    fn cases(&mut self, node: &Node, cases: Vec<Pred>) -> Vec<Node> {
        let mut nodes = Vec::with_capacity(cases.len());
        for p in cases {
            let mut case = node.clone();
            if self.add(&p, &mut case) {
                nodes.push(case);
            }
        }
        nodes
    }

    /// The cases of two atoms of a relation, or two applications of a map, that contradict each other.
    fn conflict(&mut self, node: &Node, values: &Values) -> Checked<Option<Vec<Node>>> {
        let atoms = |sign: bool| {
            node.others.iter().filter_map(move |p| match p {
                Pred::Relation { relation, args, holds } if *holds == sign => Some((relation, args)),
                _ => None,
            })
        };
        for (relation, args) in atoms(true) {
            for (other, other_args) in atoms(false) {
                if relation == other && equal_tuples(args, other_args, values) {
                    return Ok(Some(self.cases(node, differ(args, other_args)?)));
                }
            }
        }
        let applications: Vec<(&Application, i64)> = values
            .iter()
            .filter_map(|(v, x)| match v {
                Var::Apply(application) => Some((&**application, *x)),
                _ => None,
            })
            .collect();
        for (at, (f, x)) in applications.iter().enumerate() {
            for (g, y) in &applications[at + 1..] {
                if f.map == g.map && x != y && equal_tuples(&f.args, &g.args, values) {
                    let mut cases = differ(&f.args, &g.args)?;
                    let apply = |f: &Application| Affine::var(Var::Apply(Box::new(f.clone())));
                    cases.push(Pred::equal(&apply(f), &apply(g))?);
                    return Ok(Some(self.cases(node, cases)));
                }
            }
        }
        for (f, x) in &applications {
            for (_, args) in atoms(false).filter(|(relation, _)| **relation == f.map) {
                let Some((target, source)) = args.split_last() else { continue };
                if value(target, values) == Some(*x) && equal_tuples(&f.args, source, values) {
                    self.complete = false;
                    let mut cases = differ(&f.args, source)?;
                    let apply = Affine::var(Var::Apply(Box::new(Application::clone(f))));
                    cases.extend(unequal(&apply.sub(target)?)?);
                    return Ok(Some(self.cases(node, cases)));
                }
            }
        }
        Ok(None)
    }
}

/// The variables of a conjunction, those inside map applications included.
fn columns(node: &Node) -> Vec<Var> {
    let mut columns = BTreeSet::new();
    let mut visit = |a: &Affine| {
        a.visit(&mut |v| {
            columns.insert(v.clone());
        });
    };
    node.bounds.iter().chain(&node.equations).for_each(&mut visit);
    node.others.iter().for_each(|p| p.visit_affine(&mut visit));
    columns.into_iter().collect()
}

fn value(a: &Affine, values: &Values) -> Option<i64> {
    a.evaluate(&mut |v| values.get(v).copied())?.ok()
}

fn equal_tuples(a: &[Affine], b: &[Affine], values: &Values) -> bool {
    let tuple = |args: &[Affine]| args.iter().map(|a| value(a, values)).collect::<Option<Vec<_>>>();
    tuple(a).is_some_and(|a| Some(a) == tuple(b))
}

/// `a >= 1`, `a <= -1`
fn unequal(a: &Affine) -> Checked<Vec<Pred>> {
    let below = a.scale(-1)?.add_constant(-1)?;
    Ok(vec![Pred::non_negative(a.add_constant(-1)?), Pred::non_negative(below)])
}

/// The cases of `a != b`.
fn differ(a: &[Affine], b: &[Affine]) -> Checked<Vec<Pred>> {
    let places = a.iter().zip(b).map(|(a, b)| unequal(&a.sub(b)?));
    Ok(places.collect::<Checked<Vec<_>>>()?.concat())
}

/// Whether a predicate without relations holds; false for others.
fn linear_truth(p: &Pred, values: &Values) -> bool {
    let holds = |a: &Affine, test: fn(i64) -> bool| value(a, values).is_some_and(test);
    match p {
        Pred::True => true,
        Pred::False | Pred::Relation { .. } | Pred::Exists { .. } => false,
        Pred::NonNegative(a) => holds(a, |x| x >= 0),
        Pred::Zero(a) => holds(a, |x| x == 0),
        Pred::NonZero(a) => holds(a, |x| x != 0),
        Pred::All(ps) => ps.iter().all(|p| linear_truth(p, values)),
        Pred::Any(ps) => ps.iter().any(|p| linear_truth(p, values)),
    }
}

/// The world in which nothing holds but what the conjunction says, and that maps have their values.
fn model(node: &Node, values: &Values) -> Option<Model> {
    let mut model = Model::default();
    let tuple = |args: &[Affine]| args.iter().map(|a| value(a, values)).collect::<Option<Vec<_>>>();
    for (v, x) in values {
        match v {
            Var::Index(i) => {
                model.indices.insert(*i, *x);
            }
            Var::Size(n) => {
                model.sizes.insert(*n, *x);
            }
            Var::Apply(f) => {
                let source = tuple(&f.args)?;
                let pair = source.iter().copied().chain([*x]).collect();
                model.relations.entry(f.map).or_default().insert(pair);
                model.targets.insert((f.map, source), *x);
            }
        }
    }
    for p in &node.others {
        if let Pred::Relation { relation, args, holds: true } = p {
            model.relations.entry(*relation).or_default().insert(tuple(args)?);
        }
    }
    Some(model)
}

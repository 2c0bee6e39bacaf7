//! Random sets, against the enumeration of small boxes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::oracle::Toy;
use super::super::{Affine, Pred, RelationRef, Size, Var};
use super::{Answer, Bound, Elimination, Point, Set, Space, Stride};
use crate::base::{IndexId, RelationId, SizeId};

/// How often an answer was definite.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    asked: usize,
    definite: usize,
}

impl Rate {
    fn note(&mut self, definite: bool) {
        self.asked += 1;
        self.definite += usize::from(definite);
    }

    fn percent(self) -> f64 {
        100.0 * self.definite as f64 / self.asked.max(1) as f64
    }
}

/// The rates of all answers, without and with relations.
type Rates = BTreeMap<(&'static str, bool), Rate>;

/// A random space with two sets in it.
struct Case {
    space: Arc<Space>,
    sizes: u32,
    relations: bool,
    p: Pred,
    q: Pred,
}

fn below(rng: &mut fastrand::Rng, n: usize) -> usize {
    rng.usize(..n)
}

fn extent(rng: &mut fastrand::Rng, sizes: u32) -> Size {
    let size = |n: u32| Affine::size(SizeId(n));
    match (sizes, below(rng, 4)) {
        (0, k) => Affine::constant(k as i64 + 1),
        (1, 0) => size(0).scale(2).unwrap(),
        (1, 1) => size(0).add_constant(1).unwrap(),
        (2, 0) => size(0).add(&size(1)).unwrap().add_constant(-1).unwrap(),
        (2, 1) => size(1),
        _ => size(0),
    }
}

fn affine(rng: &mut fastrand::Rng, indices: u32, sizes: u32) -> Affine {
    let mut terms = Vec::new();
    for i in 0..indices {
        if rng.u8(0..3) > 0 {
            terms.push((Var::Index(IndexId(i)), rng.i64(-3..4)));
        }
    }
    for n in 0..sizes {
        if rng.u8(0..3) == 0 {
            terms.push((Var::Size(SizeId(n)), rng.i64(-2..3)));
        }
    }
    Affine::from_terms(terms, rng.i64(-4..5)).unwrap()
}

fn atom(rng: &mut fastrand::Rng, indices: u32, sizes: u32, relations: bool) -> Pred {
    match rng.u8(0..if relations { 10 } else { 7 }) {
        0..=3 => Pred::non_negative(affine(rng, indices, sizes)),
        4 | 5 => Pred::zero(affine(rng, indices, sizes)),
        6 => Pred::non_zero(affine(rng, indices, sizes)),
        _ => {
            let places = 1 + rng.u32(0..2);
            let place = |rng: &mut fastrand::Rng| match rng.u8(0..3) {
                0 => affine(rng, indices, 0),
                _ => Affine::index(IndexId(rng.u32(..indices))),
            };
            let args = (0..places).map(|_| place(rng)).collect();
            let relation = RelationRef::Input(RelationId(places - 1));
            Pred::Relation { relation, args, holds: rng.u8(0..3) > 0 }
        }
    }
}

impl Case {
    fn random(rng: &mut fastrand::Rng) -> Case {
        let (indices, sizes, relations) = (rng.u32(1..4), rng.u32(0..3), rng.u8(0..3) == 0);
        let ranges: Vec<(IndexId, Size)> = (0..indices).map(|i| (IndexId(i), extent(rng, sizes))).collect();
        let assumptions = (0..below(rng, 2)).map(|_| Pred::non_negative(affine(rng, 0, sizes))).collect::<Vec<_>>();
        let mut pred = |most: usize| {
            let disjuncts = 1 + rng.usize(..most);
            Pred::any((0..disjuncts).map(|_| {
                Pred::all((0..rng.usize(1..5)).map(|_| atom(rng, indices, sizes, relations)).collect::<Vec<_>>())
            }))
        };
        let (p, q) = (pred(3), pred(2));
        Case { space: Arc::new(Space::new(ranges, assumptions, [])), sizes, relations, p, q }
    }

    /// Calls `visit` on the points of the space, for some sizes and relations.
    fn points(&self, rng: &mut fastrand::Rng, worlds: usize, mut visit: impl FnMut(&Toy, &mut BTreeMap<IndexId, i64>)) {
        for _ in 0..worlds {
            let mut world = Toy { enumerable: true, ..Toy::random(rng, 0) };
            world.sizes.truncate(self.sizes as usize);
            let mut at = BTreeMap::new();
            let known = self.space.assumptions.iter().all(|p| world.truth(p, &mut at));
            if known {
                self.points_from(&world, 0, &mut at, &mut visit);
            }
        }
    }

    fn points_from(
        &self,
        world: &Toy,
        from: usize,
        at: &mut BTreeMap<IndexId, i64>,
        visit: &mut impl FnMut(&Toy, &mut BTreeMap<IndexId, i64>),
    ) {
        let Some((index, extent)) = self.space.indices.get(from) else { return visit(world, at) };
        let extent = world.affine(extent, &BTreeMap::new()).unwrap();
        for value in 0..extent {
            at.insert(*index, value);
            self.points_from(world, from + 1, at, visit);
        }
        at.remove(index);
    }

    /// Whether `p` holds at a point of the space that the engine found.
    fn confirms(&self, point: &Point, p: &Pred) -> bool {
        let relation = |r: u32| point.relations.get(&RelationRef::Input(RelationId(r))).cloned().unwrap_or_default();
        let world = Toy {
            sizes: (0..2).map(|n| point.sizes.get(&SizeId(n)).copied().unwrap_or(0)).collect(),
            relations: vec![relation(0), relation(1), BTreeSet::new()],
            total: false,
            enumerable: true,
        };
        let mut at = point.indices.clone();
        let in_range = |(i, n): &(IndexId, Size)| {
            let extent = world.affine(n, &BTreeMap::new()).unwrap();
            at.get(i).is_some_and(|i| (0..extent).contains(i))
        };
        world.sizes.iter().all(|n| *n >= 0)
            && self.space.indices.iter().all(in_range)
            && self.space.assumptions.iter().all(|p| world.truth(p, &mut at))
            && world.truth(p, &mut at)
    }
}

/// What the engine says of a case.
struct Answers {
    s: Set,
    t: Set,
    both: Set,
    either: Set,
    without: Option<Set>,
    others: Option<Set>,
    empty: Answer,
    within: Answer,
    equal: Answer,
}

fn ask(case: &Case) -> Answers {
    let (s, t) = (Set::new(&case.space, &case.p), Set::new(&case.space, &case.q));
    Answers {
        both: s.intersect(&t),
        either: s.union(&t),
        without: s.difference(&t),
        others: s.complement(),
        empty: s.is_empty(),
        within: s.is_subset(&t),
        equal: s.equals(&t),
        s,
        t,
    }
}

fn check_algebra(number: usize, case: &Case, rng: &mut fastrand::Rng, worlds: usize, rates: &mut Rates) {
    let Case { p, q, relations, .. } = case;
    let answers = ask(case);
    let mut note = |name, definite| rates.entry((name, *relations)).or_default().note(definite);
    note("empty", answers.empty != Answer::Unknown);
    note("subset", answers.within != Answer::Unknown);
    note("equal", answers.equal != Answer::Unknown);
    let context = || format!("case {number}: {p:?} and {q:?} in {:?}", case.space);
    match (answers.empty, answers.s.point()) {
        (Answer::No, Some(point)) => assert!(case.confirms(&point, p), "{}: {point:?}", context()),
        (Answer::No, None) => panic!("{}: not empty, but no point", context()),
        (_, point) => assert_eq!(point, None, "{}", context()),
    }
    let outside = answers.s.counterexample(answers.t.pred());
    match (answers.within, outside) {
        (Answer::No, Some(point)) => {
            assert!(case.confirms(&point, p) && !case.confirms(&point, q), "{}: {point:?}", context());
        }
        (Answer::No, None) => panic!("{}: not within, but no point", context()),
        (_, point) => assert_eq!(point, None, "{}", context()),
    }
    case.points(rng, worlds, |world, at| {
        let (a, b) = (world.truth(p, at), world.truth(q, at));
        let mut same = |name: &str, set: &Set, expected: bool| {
            let found = world.truth(&set.pred, at);
            assert_eq!(found, expected, "{}: {name} {:?} at {at:?} in {world:?}", context(), set.pred);
        };
        same("first", &answers.s, a);
        same("second", &answers.t, b);
        same("both", &answers.both, a && b);
        same("either", &answers.either, a || b);
        answers.without.iter().for_each(|set| same("difference", set, a && !b));
        answers.others.iter().for_each(|set| same("complement", set, !a));
        assert!(!(a && answers.empty == Answer::Yes), "{}: a point {at:?} in {world:?}", context());
        assert!(!(a && !b && answers.within == Answer::Yes), "{}: a point {at:?} in {world:?}", context());
        assert!(!(a != b && answers.equal == Answer::Yes), "{}: a point {at:?} in {world:?}", context());
    });
}

fn check_projection(number: usize, case: &Case, rng: &mut fastrand::Rng, worlds: usize, rates: &mut Rates) {
    let set = Set::new(&case.space, &case.p);
    let index = IndexId(rng.u32(..case.space.indices().len() as u32));
    let Elimination { set: shadow, exact } = set.eliminate(index).unwrap();
    let bounds = set.bounds(index).unwrap().unwrap();
    let context = || format!("case {number}: {index} of {:?} in {:?}", case.p, case.space);
    let quantified = {
        let mut found = false;
        shadow.pred.visit_affine(&mut |a| found |= a.mentions(index));
        found
    };
    let mut note = |name, definite| rates.entry((name, case.relations)).or_default().note(definite);
    note("eliminated exactly", exact);
    note("eliminated without `exists`", exact && !quantified);
    note("bounded exactly", bounds.exact);
    let extent = case.space.indices().iter().find(|(i, _)| *i == index).unwrap().1.clone();
    let others = Case { space: Arc::clone(&shadow.space), p: Pred::True, q: Pred::True, ..*case };
    others.points(rng, worlds, |world, at| {
        let extent = world.affine(&extent, at).unwrap();
        let values: Vec<i64> = (0..extent)
            .filter(|x| {
                at.insert(index, *x);
                let holds = world.truth(&case.p, at);
                at.remove(&index);
                holds
            })
            .collect();
        let found = world.truth(&shadow.pred, at);
        let right = if exact { found != values.is_empty() } else { found || values.is_empty() };
        assert!(right, "{}: shadow {:?} at {at:?} in {world:?}: {values:?}", context(), shadow.pred);
        let value = |b: &Bound| world.affine(&b.numerator, at).unwrap().div_euclid(b.divisor);
        let low = bounds.lower.iter().map(value).max().unwrap();
        let high = bounds.upper.iter().map(value).min().unwrap();
        let guard = world.truth(&bounds.guard, at);
        let on_stride = |x: i64| {
            let residue = |s: &Stride| world.affine(&s.residue, at).unwrap();
            bounds.stride.as_ref().is_none_or(|s| (x - residue(s)) % s.step == 0)
        };
        let allowed: Vec<i64> = (low..=high).filter(|x| guard && on_stride(*x)).collect();
        let right = if bounds.exact { values == allowed } else { values.iter().all(|x| allowed.contains(x)) };
        assert!(right, "{}: {bounds:?} at {at:?} in {world:?}: {values:?}, allowed {allowed:?}", context());
    });
}

fn campaign(seed: u64, cases: usize, worlds: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut rates = Rates::new();
    for number in 0..cases {
        let case = Case::random(&mut rng);
        check_algebra(number, &case, &mut rng, worlds, &mut rates);
        check_projection(number, &case, &mut rng, worlds, &mut rates);
    }
    for ((name, relations), rate) in &rates {
        let with = if *relations { "with" } else { "without" };
        println!("{name}, {with} relations: {:.2} % of {}", rate.percent(), rate.asked);
    }
    for ((name, relations), rate) in &rates {
        let floor = match *name {
            "empty" | "subset" | "equal" => 99.0,
            "eliminated exactly" => 90.0,
            "eliminated without `exists`" if !relations => 60.0,
            "bounded exactly" if !relations => 20.0,
            _ => 5.0,
        };
        assert!(rate.percent() >= floor, "{name}, relations {relations}: {rate:?}");
    }
}

#[test]
fn sets_answer_what_enumeration_says() {
    campaign(21, 400, 3);
}

/// `IVERSON_SETS=100000 cargo test --release --lib sets_campaign -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes"]
fn sets_campaign() {
    let cases = std::env::var("IVERSON_SETS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    campaign(22, cases, 12);
}

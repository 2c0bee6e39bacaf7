//! Random questions to the prover, and random unions, against the enumeration of small boxes.
//!
//! What is proved holds at every point; and of what no small world refutes most is proved.

use std::collections::BTreeMap;

use super::oracle::{MAP, Toy};
use super::{Facts, simplify_union};
use crate::base::{IndexId, RelationId, SizeId};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};

/// How often something was proved that no small world refutes.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    asked: usize,
    proved: usize,
}

impl Rate {
    fn percent(self) -> f64 {
        100.0 * self.proved as f64 / self.asked.max(1) as f64
    }
}

/// What predicates are made of besides linear atoms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Linear,
    Relations,
    Maps,
    Exists,
}

impl Kind {
    /// The least share of what no small world refutes that is to be proved, in percent. Larger worlds, and other maps, may refute it.
    fn floor(self) -> f64 {
        match self {
            Kind::Linear => 80.0,
            Kind::Relations => 65.0,
            Kind::Maps => 45.0,
            Kind::Exists => 70.0,
        }
    }
}

type Rates = BTreeMap<(Kind, &'static str), Rate>;

/// Ranges, assumptions on sizes, and two predicates.
#[derive(Debug)]
struct Case {
    ranges: Vec<(IndexId, Size)>,
    assumptions: Vec<Pred>,
    sizes: u32,
    kind: Kind,
    p: Pred,
    q: Pred,
}

/// Makes atoms that mostly hold at one point, so that sets are not mostly empty.
struct Source<'a> {
    rng: &'a mut fastrand::Rng,
    kind: Kind,
    indices: Vec<IndexId>,
    sizes: u32,
    /// The largest coefficient of an index.
    steep: i64,
    planted: BTreeMap<Var, i64>,
}

impl Source<'_> {
    fn new(rng: &mut fastrand::Rng) -> Source<'_> {
        let kind = [Kind::Linear, Kind::Linear, Kind::Relations, Kind::Maps, Kind::Exists][rng.usize(..5)];
        let indices: Vec<IndexId> = (0..rng.u32(1..4)).map(IndexId).collect();
        let sizes = rng.u32(0..3);
        let mut planted: BTreeMap<Var, i64> = BTreeMap::new();
        planted.extend(indices.iter().map(|i| (Var::Index(*i), rng.i64(0..3))));
        planted.extend((0..sizes).map(|n| (Var::Size(SizeId(n)), rng.i64(2..5))));
        let steep = if rng.u8(0..12) == 0 { 12 } else { 3 };
        Source { rng, kind, indices, sizes, steep, planted }
    }

    fn extent(&mut self) -> Size {
        let size = |n: u32| Affine::size(SizeId(n));
        match (self.sizes, self.rng.i64(0..4)) {
            (0, k) => Affine::constant(k + 1),
            (1, 0) => size(0).scale(2).unwrap(),
            (1, 1) => size(0).add_constant(1).unwrap(),
            (2, 0) => size(0).add(&size(1)).unwrap().add_constant(-1).unwrap(),
            (2, 1) => size(1),
            _ => size(0),
        }
    }

    /// An expression with `value` at the planted point.
    fn affine(&mut self, indices: bool, value: i64) -> Affine {
        let mut terms = Vec::new();
        if indices {
            for i in self.indices.clone() {
                if self.rng.u8(0..3) > 0 {
                    terms.push((Var::Index(i), self.rng.i64(-self.steep..=self.steep)));
                }
            }
        }
        for n in 0..self.sizes {
            if self.rng.u8(0..3) == 0 {
                terms.push((Var::Size(SizeId(n)), self.rng.i64(-2..3)));
            }
        }
        let a = Affine::from_terms(terms, 0).unwrap();
        let planted = a.evaluate(&mut |v| self.planted.get(v).copied()).unwrap().unwrap();
        let a = a.add_constant(value - planted).unwrap();
        if indices && self.kind == Kind::Maps && self.rng.u8(0..4) == 0 {
            let k = self.rng.i64(-2..3);
            let source = Affine::index(self.indices[self.rng.usize(..self.indices.len())]);
            let f = Affine::var(Var::Apply(Box::new(Application { map: MAP, args: vec![source] })));
            return a.add(&f.scale(k).unwrap()).unwrap();
        }
        a
    }

    fn relation(&mut self) -> Pred {
        let least = if self.kind == Kind::Maps { 0 } else { 1 };
        let (relation, places) = [(2, 2), (0, 1), (1, 2)][self.rng.usize(least..3)];
        let place = |source: &mut Self| match source.rng.u8(0..3) {
            0 => {
                let value = source.rng.i64(0..4);
                source.affine(true, value)
            }
            _ => Affine::index(source.indices[source.rng.usize(..source.indices.len())]),
        };
        let args = (0..places).map(|_| place(self)).collect();
        Pred::Relation { relation: RelationRef::Input(RelationId(relation)), args, holds: self.rng.u8(0..3) > 0 }
    }

    fn atom(&mut self) -> Pred {
        let holds = self.rng.u8(0..4) > 0;
        match self.rng.u8(0..if self.kind == Kind::Linear { 8 } else { 11 }) {
            0..=4 => {
                let value = if holds { self.rng.i64(0..4) } else { self.rng.i64(-4..1) };
                Pred::non_negative(self.affine(true, value))
            }
            5 | 6 => Pred::zero(self.affine(true, if holds { 0 } else { 1 })),
            7 => Pred::non_zero(self.affine(true, i64::from(holds))),
            _ if self.kind == Kind::Exists => self.exists(),
            _ => self.relation(),
        }
    }

    fn exists(&mut self) -> Pred {
        // Bound indices differ from all others.
        let index = IndexId(100 + self.rng.u32(0..1000));
        let extent = self.extent();
        self.indices.push(index);
        self.planted.insert(Var::Index(index), 0);
        self.kind = if self.rng.bool() { Kind::Linear } else { Kind::Relations };
        let body = Pred::all((0..self.rng.usize(1..3)).map(|_| self.atom()).collect::<Vec<_>>());
        self.kind = Kind::Exists;
        self.indices.pop();
        Pred::exists(index, extent, body)
    }

    fn pred(&mut self, disjuncts: usize) -> Pred {
        let disjuncts = self.rng.usize(1..disjuncts + 1);
        Pred::any((0..disjuncts).map(|_| Pred::all((0..self.rng.usize(1..5)).map(|_| self.atom()).collect::<Vec<_>>())))
    }
}

impl Case {
    fn random(rng: &mut fastrand::Rng) -> Case {
        let mut source = Source::new(rng);
        let ranges = source.indices.clone().into_iter().map(|i| (i, source.extent())).collect();
        let assumptions = (0..source.rng.usize(..2))
            .map(|_| {
                let value = source.rng.i64(0..3);
                Pred::non_negative(source.affine(false, value))
            })
            .collect();
        Case { ranges, assumptions, p: source.pred(3), q: source.pred(2), sizes: source.sizes, kind: source.kind }
    }

    /// Ranges and assumptions.
    fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        facts.functional(MAP);
        self.ranges.iter().for_each(|(i, n)| facts.range(*i, n));
        self.assumptions.iter().for_each(|p| facts.assume(p));
        facts
    }

    /// Calls `visit` on the points of the ranges, for some sizes and relations.
    fn points(&self, rng: &mut fastrand::Rng, worlds: usize, mut visit: impl FnMut(&Toy, &mut BTreeMap<IndexId, i64>)) {
        for _ in 0..worlds {
            let mut world = Toy { enumerable: true, total: true, ..Toy::random(rng, 0) };
            world.sizes.truncate(self.sizes as usize);
            let mut at = BTreeMap::new();
            if self.assumptions.iter().all(|p| world.truth(p, &mut at)) {
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
        let Some((index, extent)) = self.ranges.get(from) else { return visit(world, at) };
        let extent = world.affine(extent, &BTreeMap::new()).unwrap();
        for value in 0..extent {
            at.insert(*index, value);
            self.points_from(world, from + 1, at, visit);
        }
        at.remove(index);
    }

    /// Asks whether `p` is empty, whether `q` follows from it, and for a shorter union, and judges the answers.
    fn judge(&self, rng: &mut fastrand::Rng, worlds: usize, rates: &mut Rates) {
        let Case { p, q, kind, .. } = self;
        let (known, mut facts) = (self.facts(), self.facts());
        facts.assume(p);
        let (empty, within) = (facts.contradictory(), facts.proves(q));
        let union = p.clone().or(q.clone());
        let shorter = simplify_union(&union, &known);
        assert!(shorter.weight() <= union.weight(), "{self:?}: {shorter:?}");
        assert_eq!(simplify_union(&shorter, &known), shorter, "{self:?}");
        let (mut is_empty, mut is_within) = (true, true);
        self.points(rng, worlds, |world, at| {
            let (a, b) = (world.truth(p, at), world.truth(q, at));
            assert!(!(a && empty), "{self:?}: a point {at:?} in {world:?}");
            assert!(!(a && !b && within), "{self:?}: a point {at:?} in {world:?}");
            assert_eq!(world.truth(&shorter, at), a || b, "{self:?}: {shorter:?} at {at:?} in {world:?}");
            is_empty &= !a;
            is_within &= !a || b;
        });
        for (name, open, proved) in [("empty", is_empty, empty), ("within", is_within, within)] {
            let rate = rates.entry((*kind, name)).or_default();
            rate.asked += usize::from(open);
            rate.proved += usize::from(open && proved);
        }
    }
}

fn campaign(seed: u64, cases: usize, worlds: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut rates = Rates::new();
    for _ in 0..cases {
        Case::random(&mut rng).judge(&mut rng, worlds, &mut rates);
    }
    for ((kind, name), rate) in &rates {
        println!("{kind:?}, {name}: {:.2} % of {}", rate.percent(), rate.asked);
        assert!(rate.percent() >= kind.floor(), "{kind:?}, {name}: {rate:?}");
    }
}

#[test]
fn what_is_proved_holds() {
    campaign(21, 1500, 12);
}

#[test]
fn proofs_end_at_a_limit() {
    // How many indices below how many values; whether it is proved that they are not pairwise unequal.
    for (count, values, expected) in [(4, 3, true), (6, 6, false), (12, 11, false), (20, 300, false)] {
        let mut facts = Facts::new();
        (0..count).for_each(|i| facts.range(IndexId(i), &Affine::constant(values)));
        for i in 0..count {
            for j in 0..i {
                let [i, j] = [i, j].map(|i| Affine::index(IndexId(i)));
                facts.assume(&Pred::unequal(&i, &j).unwrap());
            }
        }
        assert_eq!(facts.contradictory(), expected, "{count} indices below {values}");
    }
}

#[test]
fn proofs_survive_extreme_numbers() {
    let mut rng = fastrand::Rng::with_seed(23);
    let numbers = [i64::MIN, i64::MIN + 1, -(1 << 40), -3, -1, 1, 2, 3, 1 << 40, i64::MAX / 4 + 1, i64::MAX];
    let number = |rng: &mut fastrand::Rng| numbers[rng.usize(..numbers.len())];
    let [i, j] = [IndexId(0), IndexId(1)];
    let mut proved = 0;
    for _ in 0..400 {
        let atom = |rng: &mut fastrand::Rng| {
            let mut terms = Vec::new();
            for v in [Var::Index(i), Var::Index(j), Var::Size(SizeId(0))] {
                if rng.bool() {
                    terms.push((v, number(rng)));
                }
            }
            let a = Affine::from_terms(terms, number(rng)).unwrap();
            [Pred::non_negative(a.clone()), Pred::zero(a.clone()), Pred::non_zero(a)][rng.usize(..3)].clone()
        };
        let p = Pred::all([atom(&mut rng), atom(&mut rng)]).or(atom(&mut rng));
        let extent = Affine::from_terms([(Var::Size(SizeId(0)), 1)], [0, i64::MAX, i64::MIN][rng.usize(..3)]).unwrap();
        let mut facts = Facts::new();
        [i, j].into_iter().for_each(|i| facts.range(i, &extent));
        assert!(simplify_union(&p, &facts).weight() <= p.weight());
        proved += usize::from(facts.proves(&p));
        facts.assume(&p);
        proved += usize::from(facts.contradictory());
    }
    assert!(proved > 40, "{proved}");
}

/// `IVERSON_PROOFS=100000 cargo test --release --lib proofs_campaign -- --ignored --nocapture`
#[test]
#[ignore = "100,000 questions take minutes; the command is in the doc comment"]
fn proofs_campaign() {
    let cases = std::env::var("IVERSON_PROOFS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    campaign(22, cases, 12);
}

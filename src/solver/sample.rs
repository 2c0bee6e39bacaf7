//! A made-up world to count in: sizes as multiples of some `N`, and relations with tuples at random places.
//!
//! Counts of one world are consistent, whatever form the sets of points are written in; so what a theorem says of all worlds
//! holds for numbers counted here. The places are drawn from a fixed sequence: the same hints give the same world.

use std::collections::{BTreeMap, BTreeSet};

use super::World;
use super::estimate::Hints;
use super::knowledge::Relations;
use crate::base::{Id as _, RelationId, SizeId};
use crate::index::{RelationRef, Size, Var};

/// How many tuples a relation may have.
const MAX_TUPLES: i64 = 1 << 17;

/// Sizes and relations for some `N`.
#[derive(Clone, Debug)]
pub struct Sample {
    sizes: BTreeMap<SizeId, i64>,
    relations: BTreeMap<RelationId, Tuples>,
}

/// The tuples of a relation.
#[derive(Clone, Debug)]
struct Tuples {
    tuples: BTreeSet<Vec<i64>>,
    /// The tuples that have a value at an axis, axis by axis.
    by_axis: Vec<BTreeMap<i64, Vec<Vec<i64>>>>,
}

impl Tuples {
    fn new(rank: usize, tuples: BTreeSet<Vec<i64>>) -> Tuples {
        let mut by_axis = vec![BTreeMap::<i64, Vec<Vec<i64>>>::new(); rank];
        for tuple in &tuples {
            for (values, value) in by_axis.iter_mut().zip(tuple) {
                values.entry(*value).or_default().push(tuple.clone());
            }
        }
        Tuples { tuples, by_axis }
    }
}

/// A fixed sequence of numbers that look random (a multiplicative generator and a mixing of its bits).
struct Sequence(u64);

impl Sequence {
    /// A number below `n`, which is positive.
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // The product has 128 bits; its upper half is below `n`.
        ((u128::from(z) * u128::from(n.unsigned_abs())) >> 64) as i64
    }
}

impl Sample {
    /// The world that hints give for some `N`, with the given sizes and relations; nothing where a relation would be too large, or a map
    /// would have no targets.
    pub fn new(
        hints: &Hints,
        n: u32,
        sizes: impl Iterator<Item = SizeId>,
        relations: impl Iterator<Item = RelationId>,
        of: &dyn Relations,
    ) -> Option<Sample> {
        // A conversion that is out of range gives the nearest integer.
        let sizes = sizes.map(|size| (size, (hints.size(size) * f64::from(n)).round() as i64)).collect();
        let mut sample = Sample { sizes, relations: BTreeMap::new() };
        for r in relations {
            let relation = RelationRef::Input(r);
            let shape: Option<Vec<i64>> = of.shape(relation)?.iter().map(|n| sample.extent(n)).collect();
            let wanted = (hints.entries(r) * f64::from(n)).round() as i64;
            let tuples = tuples(r, &shape?, of.is_map(relation), wanted)?;
            sample.relations.insert(r, tuples);
        }
        Some(sample)
    }

    /// The value of a size, not below 0; nothing where it is out of range.
    pub fn extent(&self, n: &Size) -> Option<i64> {
        let value = n.evaluate(&mut |v| match v {
            Var::Size(n) => Some(self.size(*n)),
            Var::Index(_) | Var::Apply(_) => None,
        });
        value?.ok().map(|n| n.max(0))
    }

    /// How many tuples a relation has.
    pub fn entries(&self, relation: RelationRef) -> usize {
        self.tuples(relation).map_or(0, |of| of.tuples.len())
    }

    fn tuples(&self, relation: RelationRef) -> Option<&Tuples> {
        match relation {
            RelationRef::Input(r) => self.relations.get(&r),
            RelationRef::Computed { .. } => None,
        }
    }
}

/// Tuples at random places: one for each source of a map, else as many as wanted, and no more than there are places.
fn tuples(r: RelationId, shape: &[i64], is_map: bool, wanted: i64) -> Option<Tuples> {
    let volume = |shape: &[i64]| shape.iter().fold(1_i64, |volume, n| volume.saturating_mul(*n));
    let mut sequence = Sequence(r.index() as u64);
    let mut tuples = BTreeSet::new();
    let place = |mut at: i64, shape: &[i64]| {
        let mut tuple = vec![0; shape.len()];
        for (value, n) in tuple.iter_mut().zip(shape).rev() {
            (*value, at) = (at % n, at / n);
        }
        tuple
    };
    match shape.split_last() {
        Some((targets, sources)) if is_map => {
            let sources_volume = volume(sources);
            if sources_volume > MAX_TUPLES || (sources_volume > 0 && *targets <= 0) {
                return None;
            }
            for at in 0..sources_volume {
                let mut tuple = place(at, sources);
                tuple.push(sequence.below(*targets));
                tuples.insert(tuple);
            }
        }
        _ => {
            let places = volume(shape);
            let wanted = wanted.clamp(0, places);
            if wanted > MAX_TUPLES {
                return None;
            }
            // The last `wanted` draws of a shuffle (Floyd): each set of places is as likely as any other.
            for last in places - wanted..places {
                let at = sequence.below(last + 1);
                if !tuples.insert(place(at, shape)) {
                    tuples.insert(place(last, shape));
                }
            }
        }
    }
    Some(Tuples::new(shape.len(), tuples))
}

impl World for Sample {
    fn size(&self, size: SizeId) -> i64 {
        self.sizes.get(&size).copied().unwrap_or(0)
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        self.tuples(relation).is_some_and(|of| of.tuples.contains(tuple))
    }

    fn candidates(&self, relation: RelationRef, known: &[Option<i64>], axis: usize) -> Option<Vec<i64>> {
        let of = self.tuples(relation)?;
        let agrees =
            |tuple: &&Vec<i64>| tuple.iter().zip(known).all(|(value, known)| known.is_none_or(|k| k == *value));
        let fixed = known.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        let fewest = fixed
            .map(|(at, value)| of.by_axis.get(at).and_then(|values| values.get(&value)).map_or(&[][..], Vec::as_slice))
            .min_by_key(|tuples| tuples.len());
        let values: BTreeSet<i64> = match fewest {
            Some(tuples) => tuples.iter().filter(agrees).filter_map(|tuple| tuple.get(axis).copied()).collect(),
            None => of.by_axis.get(axis)?.keys().copied().collect(),
        };
        Some(values.into_iter().collect())
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        let of = self.tuples(map)?;
        let tuple = of.tuples.range(source.to_vec()..).next()?;
        tuple.strip_prefix(source).and_then(|target| target.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Affine;

    /// `R0 : [n, n]` and the map `R1 : [n] -> [n]`.
    struct Two(Vec<Size>);
    impl Relations for Two {
        fn shape(&self, _: RelationRef) -> Option<&[Size]> {
            Some(&self.0)
        }
        fn is_map(&self, relation: RelationRef) -> bool {
            relation == RelationRef::Input(RelationId(1))
        }
    }

    #[test]
    fn samples_have_as_many_tuples_as_hinted() {
        let n = Affine::size(SizeId(0));
        let shapes = Two(vec![n.clone(), n.clone()]);
        let sample = |at: u32| {
            let ids = [0, 1].map(RelationId).into_iter();
            Sample::new(&Hints::new(), at, [SizeId(0)].into_iter(), ids, &shapes).expect("it is small")
        };
        // Twenty times N, and no more than there are places.
        for (at, expected) in [(0, 0), (10, 100), (100, 2000)] {
            let world = sample(at);
            let relation = RelationRef::Input(RelationId(0));
            let rows = world.candidates(relation, &[None, None], 0).expect("it is known");
            let mut found = 0;
            for row in rows {
                let columns = world.candidates(relation, &[Some(row), None], 1).expect("it is known");
                assert!(columns.iter().all(|column| world.holds(relation, &[row, *column])));
                assert!(columns.iter().all(|column| (0..i64::from(at)).contains(column)));
                found += columns.len();
            }
            assert_eq!(found, expected);
            let map = RelationRef::Input(RelationId(1));
            for source in 0..i64::from(at) {
                let target = world.apply(map, &[source]).expect("a map has a target for each source");
                assert_eq!(world.candidates(map, &[Some(source), None], 1), Some(vec![target]));
            }
            assert_eq!(world.apply(map, &[at.into()]), None);
        }
    }
}

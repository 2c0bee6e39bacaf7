//! The values that conjuncts give indices where everything else in them is known.
//!
//! | conjunct | what it says of `i` | asked by |
//! |---|---|---|
//! | `k*i + a = 0` with `k` 1 or -1 | `i = -k*a` | [`solution`], [`solutions`], [`value_of`], [`are_determined`] |
//! | `f(a, k*i + b)` for a map `f`, with `k` 1 or -1 | `i = k*(f(a) - b)`, where the source has a target | [`value_of`] for `f(a, i)`, [`are_determined`] |
//! | `k*i + a = 0` with another `k` | one value, where `k` divides `a`, else none | [`have_one_value`] |
//!
//! An index that occurs in the source of a map that its own equation applies has no value by it.

use crate::base::IndexId;
use crate::index::{Affine, Application, Pred, RelationRef, Var};

/// `a` of an equation `i = a`.
pub fn solution(i: IndexId, atom: &Pred) -> Option<Affine> {
    match atom {
        Pred::Zero(a) => a.root(i),
        _ => None,
    }
}

/// The values that equations give indices: which conjunct, the index, its value.
pub fn solutions<'c>(
    open: &'c [IndexId],
    conjuncts: &'c [Pred],
) -> impl Iterator<Item = (usize, IndexId, Affine)> + 'c {
    let terms = |p: &'c Pred| match p {
        Pred::Zero(a) => a.terms(),
        _ => &[],
    };
    conjuncts.iter().enumerate().flat_map(move |(at, p)| {
        terms(p).iter().filter_map(move |(v, _)| match v {
            Var::Index(i) if open.contains(i) => Some((at, *i, solution(*i, p)?)),
            _ => None,
        })
    })
}

/// Of the values that equations give indices the simplest: fewest maps inside of each other, then fewest terms, then the first.
pub fn simplest_solution(open: &[IndexId], conjuncts: &[Pred]) -> Option<(usize, IndexId, Affine)> {
    solutions(open, conjuncts).min_by_key(|(_, _, value)| (value.nesting(), value.terms().len()))
}

/// The value that an atom gives an index: `a` by `i = a`, and `f(a)` by `f(a, i)` for a map, which has a value where the atom holds.
pub fn value_of(i: IndexId, atom: &Pred, is_map: &dyn Fn(RelationRef) -> bool) -> Option<Affine> {
    match atom {
        Pred::Relation { relation, args, holds: true } if is_map(*relation) => {
            let (target, source) = args.split_last()?;
            let known = source.iter().all(|a| !a.mentions(i) && a.nesting() < Affine::MAX_NESTING);
            let value = || Var::Apply(Box::new(Application { map: *relation, args: source.to_vec() }));
            (known && target.as_index() == Some(i)).then(|| Affine::var(value()))
        }
        equation => solution(i, equation),
    }
}

/// Whether conjuncts give every index of `open` one value where all other indices are known, so that a sum over these has one summand or none.
/// One that was given a value gives values to others.
///
/// ```text
/// sum k. [k = i + 1] * x[k]  ==  x[i + 1]              sum o, k. [o = i and cam(o, k)] * x[k]  ==  x[cam(i)]
/// ```
pub fn are_determined<'p>(
    open: &[IndexId],
    conjuncts: impl IntoIterator<Item = &'p Pred>,
    is_map: &dyn Fn(RelationRef) -> bool,
) -> bool {
    close(open, conjuncts, is_map, &|k| k.unsigned_abs() == 1)
}

/// The same, also by equations that only some values of the others solve: `2*i = a` leaves one value of `i`, or none.
pub fn have_one_value<'p>(
    open: &[IndexId],
    conjuncts: impl IntoIterator<Item = &'p Pred>,
    is_map: &dyn Fn(RelationRef) -> bool,
) -> bool {
    close(open, conjuncts, is_map, &|k| k != 0)
}

/// Whether all indices have a value, by equations in which their coefficients are such.
fn close<'p>(
    open: &[IndexId],
    conjuncts: impl IntoIterator<Item = &'p Pred>,
    is_map: &dyn Fn(RelationRef) -> bool,
    gives: &dyn Fn(i64) -> bool,
) -> bool {
    let mut open = open.to_vec();
    let mut conjuncts: Vec<&Pred> = conjuncts.into_iter().collect();
    let waits = |a: &Affine, open: &[IndexId]| open.iter().any(|i| a.mentions(*i));
    // The only index without a value in an expression that gives it one.
    let alone = |a: &Affine, open: &[IndexId]| {
        let mut inside = open.iter().copied().filter(|i| a.mentions(*i));
        let i = inside.next()?;
        (inside.next().is_none() && a.split(i).is_some_and(|(k, _)| gives(k))).then_some(i)
    };
    while !open.is_empty() {
        let determined = conjuncts.iter().enumerate().find_map(|(at, p)| {
            let i = match p {
                Pred::Zero(a) => alone(a, &open),
                Pred::Relation { relation, args, holds: true } if is_map(*relation) => {
                    let (target, source) = args.split_last()?;
                    alone(target, &open).filter(|_| !source.iter().any(|a| waits(a, &open)))
                }
                _ => None,
            };
            Some((at, i?))
        });
        let Some((at, i)) = determined else { return false };
        conjuncts.swap_remove(at);
        open.retain(|j| *j != i);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::oracle::{MAP, Source, Toy};
    use super::*;

    /// A random conjunction over three indices, and the worlds in which all maps have targets.
    fn random(rng: &mut fastrand::Rng) -> (Vec<IndexId>, Pred, Toy) {
        let indices: Vec<IndexId> = (0..3).map(IndexId).collect();
        let mut source = Source { rng, indices: indices.clone(), relations: true, maps: true, exists: false };
        let guard = Pred::all((0..3).map(|_| source.pred(0)).collect::<Vec<_>>());
        let toy = Toy { total: true, ..Toy::random(rng, -1) };
        (indices, guard, toy)
    }

    /// The points of a small box at which a guard holds.
    fn points(toy: &Toy, guard: &Pred) -> Vec<[i64; 3]> {
        let range = -3..5;
        let all = range.clone().flat_map(|i| range.clone().flat_map(move |j| (-3..5).map(move |k| [i, j, k])));
        let at = |point: &[i64; 3]| (0..).map(IndexId).zip(*point).collect::<BTreeMap<_, _>>();
        all.filter(|point| toy.truth(guard, &mut at(point))).collect()
    }

    #[test]
    fn values_are_those_of_all_points() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut found = [0; 3];
        for case in 0..2000 {
            let (indices, guard, toy) = random(&mut rng);
            let points = points(&toy, &guard);
            for (i, p) in indices.iter().flat_map(|i| guard.conjuncts().iter().map(move |p| (*i, p))) {
                let Some(value) = value_of(i, p, &|map| map == MAP) else { continue };
                found[0] += 1;
                for point in &points {
                    let at = (0..).map(IndexId).zip(*point).collect();
                    assert_eq!(
                        toy.affine(&value, &at),
                        Some(at[&i]),
                        "case {case}: {i} by {p:?} at {point:?} in {toy:?}"
                    );
                }
            }
            for open in [&indices[..1], &indices[1..], &indices[..]] {
                let determined = are_determined(open, guard.conjuncts(), &|map| map == MAP);
                let one = have_one_value(open, guard.conjuncts(), &|map| map == MAP);
                found[1] += usize::from(determined);
                found[2] += usize::from(one);
                assert!(one || !determined, "{guard:?}");
                let known = |point: &[i64; 3]| {
                    (0..).zip(*point).filter(|(k, _)| !open.contains(&IndexId(*k))).collect::<Vec<_>>()
                };
                let mut places: Vec<_> = points.iter().map(known).collect();
                places.sort_unstable();
                let several = places.windows(2).any(|pair| pair[0] == pair[1]);
                assert!(!one || !several, "case {case}: {open:?} in {guard:?} in {toy:?}");
            }
        }
        assert!(found.iter().all(|count| *count > 300), "{found:?}");
    }
}

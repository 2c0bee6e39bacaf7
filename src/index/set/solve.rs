//! Indices that a guard fixes.
//!
//! `sum s < m. [s = a and p] * e  ==  [0 <= a < m and p[a/s]] * e[a/s]` and, for a map `f`,
//! `sum s < m. [f(b, s) and p] * e  ==  [b in the sources of f and 0 <= f(b) < m and p[f(b)/s]] * e[f(b)/s]`.

use super::super::{Affine, Application, Checked, Facts, Pred, RelationRef, Size, Var};
use super::simplify::simplify_union;
use crate::base::IndexId;

/// The value of an index and the guard that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// What replaces the index.
    pub value: Affine,
    /// The guard without the index. It implies that the value is in the range of the index.
    pub guard: Pred,
}

/// Solves a guard for an index with `0 <= index < extent`. Nothing where no conjunct fixes the index: an equation in which it has
/// coefficient 1 or -1, a bound that the rest of the guard and the range of the index turn into one (`s <= 0`), or an atom `f(b, s)`
/// of a map whose source does not mention `s`. Of several, one without maps goes first, then one whose
/// value is in range anyway, then the shortest.
///
/// `shape` gives the extents of a relation that is a map, the last one that of its target, and nothing for others. A map that is a
/// view of a tensor counts only where the facts imply that its target range is not empty.
///
/// The facts must not speak of the index, its range included: they are used where it is gone. Given `0 <= s < m`, the guard
/// `s = 0` would lose `1 <= m`.
///
/// # Errors
/// Where a coefficient of the result would leave the range of 64-bit integers.
pub fn solve(
    guard: &Pred,
    index: IndexId,
    extent: &Size,
    facts: &Facts,
    shape: &dyn Fn(RelationRef) -> Option<Vec<Size>>,
) -> Checked<Option<Solution>> {
    let mut best: Option<(Rank, Fixed)> = None;
    for (at, p) in guard.conjuncts().iter().enumerate().filter(|(_, p)| p.mentions(index)) {
        let fixed = match p {
            Pred::Zero(a) => equation(a, index, extent)?,
            Pred::NonNegative(a) if tight(a, at, guard, index, extent, facts)? => equation(a, index, extent)?,
            Pred::Relation { relation, args, holds: true } => match shape(*relation) {
                Some(shape) => target(*relation, args, &shape, index, extent, facts)?,
                None => None,
            },
            _ => None,
        };
        let Some((value, condition)) = fixed else { continue };
        let mut known = facts.clone();
        guard.conjuncts().iter().filter(|q| !q.mentions(index)).for_each(|q| known.assume(q));
        let rank = (value.nesting(), !known.derives(&condition), value.terms().len());
        if best.as_ref().is_none_or(|(least, _)| rank < *least) {
            best = Some((rank, Fixed { atom: at, value, condition }));
        }
    }
    let Some((_, Fixed { atom, value, condition })) = best else { return Ok(None) };
    let rest = guard.conjuncts().iter().enumerate().filter(|(at, _)| *at != atom).map(|(_, p)| p.clone());
    let rest = Pred::all(rest).substitute(&|i| (i == index).then(|| value.clone()))?;
    Ok(Some(Solution { guard: simplify_union(&rest.and(condition), facts), value }))
}

/// How deep maps nest in the value; whether it may leave the range; its number of terms.
type Rank = (usize, bool, usize);

/// A conjunct that fixes the index.
struct Fixed {
    /// Its place in the guard.
    atom: usize,
    value: Affine,
    /// What the conjunct says besides the value, and that the value is in range.
    condition: Pred,
}

/// The solution of `a = 0`, and that it is in range.
fn equation(a: &Affine, index: IndexId, extent: &Size) -> Checked<Option<(Affine, Pred)>> {
    let k = a.coefficient(&Var::Index(index));
    if k != 1 && k != -1 {
        return Ok(None);
    }
    // k*s + rest = 0  ==  s = -k * rest
    let rest = a.sub(&Affine::index(index).scale(k)?)?;
    if rest.mentions(index) {
        return Ok(None);
    }
    let value = rest.scale(-k)?;
    let condition = Pred::in_range(&value, extent)?;
    Ok(Some((value, condition)))
}

/// Whether a bound `0 <= a` with the index in it holds as an equation wherever the guard holds.
fn tight(a: &Affine, at: usize, guard: &Pred, index: IndexId, extent: &Size, facts: &Facts) -> Checked<bool> {
    if !matches!(a.coefficient(&Var::Index(index)), 1 | -1) {
        return Ok(false);
    }
    let mut known = facts.clone();
    known.range(index, extent);
    guard.conjuncts().iter().enumerate().filter(|(other, _)| *other != at).for_each(|(_, p)| known.assume(p));
    Ok(known.derives(&Pred::non_negative(a.scale(-1)?)))
}

/// The solution of `f(b, s)`, and that source and solution are in range.
fn target(
    map: RelationRef,
    args: &[Affine],
    shape: &[Size],
    index: IndexId,
    extent: &Size,
    facts: &Facts,
) -> Checked<Option<(Affine, Pred)>> {
    let Some((target, source)) = args.split_last() else { return Ok(None) };
    let nested = source.iter().any(|a| a.nesting() >= Affine::MAX_NESTING);
    let (Some(last), true) = (shape.last(), shape.len() == args.len()) else { return Ok(None) };
    if nested || target.as_index() != Some(index) || source.iter().any(|a| a.mentions(index)) {
        return Ok(None);
    }
    // Of an empty range there is no largest element, and a guard cannot keep the application from having no value.
    let computed = matches!(map, RelationRef::Computed { .. });
    if computed && !facts.derives(&Pred::lt(&Affine::constant(0), last)?) {
        return Ok(None);
    }
    let ranges = source.iter().zip(shape).map(|(a, n)| Pred::in_range(a, n));
    let mut condition = Pred::all(ranges.collect::<Checked<Vec<_>>>()?);
    let value = Affine::var(Var::Apply(Box::new(Application { map, args: source.to_vec() })));
    if last != extent {
        condition = condition.and(Pred::in_range(&value, extent)?);
    }
    Ok(Some((value, condition)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::super::oracle::{MAP, Source, Toy};
    use super::*;
    use crate::base::{RelationId, SizeId, VarId};

    const I: IndexId = IndexId(0);
    const S: IndexId = IndexId(1);
    const N: SizeId = SizeId(0);
    const M: SizeId = SizeId(1);

    /// `sum of coefficient * variable + constant`, where the variables are i, s, n and m.
    fn affine([i, s, n, m]: [i64; 4], constant: i64) -> Affine {
        let terms = [(Var::Index(I), i), (Var::Index(S), s), (Var::Size(N), n), (Var::Size(M), m)];
        Affine::from_terms(terms, constant).unwrap()
    }

    fn apply(map: RelationRef, source: Affine) -> Affine {
        Affine::var(Var::Apply(Box::new(Application { map, args: vec![source] })))
    }

    #[test]
    fn guards_are_solved() {
        let (i, s, n, m) = (Affine::index(I), Affine::index(S), Affine::size(N), Affine::size(M));
        let largest = RelationRef::Computed { var: VarId(0), view: super::super::super::View::ArgMax };
        let shape = |r: RelationRef| (r == MAP || r == largest).then(|| vec![n.clone(), m.clone()]);
        let equal = |a: &Affine, b: &Affine| Pred::equal(a, b).unwrap();
        let atom = |map: RelationRef| Pred::relation(map, vec![i.clone(), s.clone()]);
        let other = Pred::relation(RelationRef::Input(RelationId(0)), vec![s.clone()]);
        let of_i = Pred::relation(RelationRef::Input(RelationId(0)), vec![i.clone()]);
        let below = |a: [i64; 4], k: i64| Pred::non_negative(affine(a, k));
        // 0 <= i < n is known, and the range of s is s < m.
        let cases: Vec<(Pred, Option<(Affine, Pred)>)> = vec![
            (equal(&s, &i), Some((i.clone(), below([-1, 0, 0, 1], -1)))),
            (equal(&s, &i).and(other.clone()), Some((i.clone(), below([-1, 0, 0, 1], -1).and(of_i)))),
            (equal(&s, &0.into()), Some((0.into(), below([0, 0, 0, 1], -1)))),
            (below([0, -1, 0, 0], 0), Some((0.into(), below([0, 0, 0, 1], -1)))),
            (below([0, 1, 0, -1], 1), Some((affine([0, 0, 0, 1], -1), below([0, 0, 0, 1], -1)))),
            (
                below([0, 1, -1, 0], 1).and(below([0, -1, 1, 0], -1)),
                Some((affine([0, 0, 1, 0], -1), below([0, 0, -1, 1], 0))),
            ),
            (equal(&s.scale(2).unwrap(), &i), None),
            (other.clone(), None),
            (atom(MAP), Some((apply(MAP, i.clone()), Pred::True))),
            (atom(largest), None),
            (
                atom(MAP).and(equal(&s, &i)),
                Some((i.clone(), below([-1, 0, 0, 1], -1).and(Pred::relation(MAP, vec![i.clone(), i.clone()])))),
            ),
        ];
        let mut facts = Facts::new();
        facts.range(I, &n);
        for (guard, expected) in cases {
            let found = solve(&guard, S, &m, &facts, &shape).unwrap();
            assert_eq!(found, expected.map(|(value, guard)| Solution { value, guard }), "{guard:?}");
        }
    }

    #[test]
    fn solutions_have_the_points_of_the_guard() {
        let mut rng = fastrand::Rng::with_seed(8);
        let mut solved = 0;
        let shape = |r: RelationRef| (r == MAP).then(|| vec![Affine::constant(4), Affine::constant(4)]);
        for case in 0..4000 {
            let maps = case % 2 == 0;
            let mut source = Source { rng: &mut rng, indices: vec![I, S], relations: true, maps, exists: false };
            let (extent, range) = (source.extent(), source.extent());
            let guard = Pred::all((0..source.rng.usize(1..4)).map(|_| source.pred(1)));
            let mut facts = Facts::new();
            facts.functional(MAP);
            facts.range(I, &range);
            let Some(Solution { value, guard: rest }) = solve(&guard, S, &extent, &facts, &shape).unwrap() else {
                continue;
            };
            solved += 1;
            assert!(!value.mentions(S) && !rest.mentions(S), "case {case}: {guard:?}");
            for _ in 0..4 {
                let mut world = Toy { total: true, ..Toy::random(&mut rng, 0) };
                // A map has a target for each source.
                for a in 0..4 {
                    if !world.relations[2].iter().any(|t| t[0] == a) {
                        world.relations[2].insert(vec![a, rng.i64(0..4)]);
                    }
                }
                let size = |n: &Affine| world.affine(n, &BTreeMap::new()).unwrap();
                for i in 0..size(&range) {
                    let mut at = BTreeMap::from([(I, i)]);
                    let at_value = world.truth(&rest, &mut at).then(|| world.affine(&value, &at).unwrap());
                    let points: Vec<i64> = (0..size(&extent))
                        .filter(|s| world.truth(&guard, &mut BTreeMap::from([(I, i), (S, *s)])))
                        .collect();
                    assert_eq!(points, Vec::from_iter(at_value), "case {case}: {guard:?} at {at:?} in {world:?}");
                }
            }
        }
        println!("{solved} solved");
        assert!(solved > 1000, "{solved}");
    }
}

//! Quantifier elimination: `exists i < n. p` as a predicate without `i`, wherever the language has one.
//!
//! Adjoints of sums and of functions need it (paper 6.25 and 6.28): the support of `sum i. [p] * e` is `exists i. p`. The result is
//! always equivalent over the integers, never an approximation:
//!
//! | `p` | result | why |
//! |---|---|---|
//! | `q or r` | both sides alone | `exists` distributes over `or` |
//! | `q and r`, `q` free of `i` | `q and exists i. r` | `i` does not occur in `q` |
//! | `i = a and r` | `0 <= a < n and r[a/i]` | the only witness is `a` |
//! | `k*i = a and r` | linear atoms of `r` are scaled by `k` and come out | divisibility is not in the language, so `exists i. k*i = a` stays |
//! | `k*i = a and l*i = b`, `k` and `l` coprime | the equation `i = u*a + v*b` with `u*k + v*l = 1` | Bezout |
//! | bounds | each lower bound against each upper bound | exact if one side has unit coefficients only: its extreme bound is an integer |
//! | `a != 0` beside bounds | `a >= 1 or a <= -1` | |
//! | relations, anything else | `exists i < n. r`, with only conjuncts that mention `i` | "row `i` is not empty" is a fact of the data |

use super::fix::{simplest_solution, solution};
use crate::base::{IndexId, work};
use crate::index::{Affine, Checked, Overflow, Pred, Size};

/// How many cases an `or` under an `exists` may be distributed into.
const MAX_CASES: usize = 16;
/// How many rewriting steps one elimination may take; past it an `exists` stays.
const MAX_STEPS: usize = 64;

/// `exists index < extent. body` without the index where possible, else with an `exists` around as little as possible.
///
/// The index may occur in `body` only.
///
/// # Errors
/// Where a coefficient of the result would leave the range of 64-bit integers.
pub fn exists(index: IndexId, extent: &Size, body: &Pred) -> Checked<Pred> {
    let mut steps = MAX_STEPS;
    eliminate(index, extent, body, &mut steps)
}

/// `exists` over several indices, the easiest first: an equation for one index may be what another is waiting for.
/// Those that remain are nested in the given order, the first outermost.
///
/// # Errors
/// As for [`exists`].
pub fn exists_all(indices: &[(IndexId, Size)], body: &Pred) -> Checked<Pred> {
    if let Pred::Any(ps) = body {
        return Ok(Pred::any(ps.iter().map(|p| exists_all(indices, p)).collect::<Checked<Vec<_>>>()?));
    }
    if let Some(found) = exists_through(indices, body)? {
        return Ok(found);
    }
    eliminate_all(indices.to_vec(), body.clone())
}

/// The same where none of them remains if what is bound inside is taken for bound outside: `exists i. exists k. p(k, i)` is `exists k. exists i. p(k, i)`.
fn exists_through(indices: &[(IndexId, Size)], body: &Pred) -> Checked<Option<Pred>> {
    let (mut inside, mut conjuncts) = (Vec::new(), Vec::new());
    for p in body.conjuncts() {
        match p {
            Pred::Exists { index, extent, body } if indices.iter().any(|(i, _)| body.mentions(*i)) => {
                inside.push((*index, extent.clone()));
                conjuncts.push((**body).clone());
            }
            p => conjuncts.push(p.clone()),
        }
    }
    if inside.is_empty() {
        return Ok(None);
    }
    let found = eliminate_all([indices, &inside].concat(), Pred::all(conjuncts))?;
    let mut remains = false;
    let mut left = vec![&found];
    while let Some(p) = left.pop() {
        match p {
            Pred::All(ps) | Pred::Any(ps) => left.extend(ps.iter()),
            Pred::Exists { index, body, .. } => {
                remains |= indices.iter().any(|(i, _)| i == index);
                left.push(body);
            }
            _ => {}
        }
    }
    Ok((!remains).then_some(found))
}

fn eliminate_all(mut left: Vec<(IndexId, Size)>, mut body: Pred) -> Checked<Pred> {
    // Of equally easy indices the last goes first, which makes it the innermost.
    while let Some(at) = (0..left.len()).rev().min_by_key(|at| difficulty(left[*at].0, &body)) {
        let (index, extent) = left.remove(at);
        body = exists(index, &extent, &body)?;
    }
    Ok(body)
}

/// 0 for an index without occurrence, 1 with an equation to solve, 2 with bounds only, 3 else.
fn difficulty(index: IndexId, body: &Pred) -> u8 {
    let mentioning = || body.conjuncts().iter().filter(|p| p.mentions(index));
    if mentioning().next().is_none() {
        0
    } else if mentioning().any(|p| solution(index, p).is_some()) {
        1
    } else if mentioning().all(|p| matches!(p, Pred::NonNegative(a) if a.split(index).is_some())) {
        2
    } else {
        3
    }
}

/// [[exists i < n. p]]; `steps` counts down.
fn eliminate(index: IndexId, extent: &Size, body: &Pred, steps: &mut usize) -> Checked<Pred> {
    if let Pred::Any(ps) = body {
        return Ok(Pred::any(ps.iter().map(|p| eliminate(index, extent, p, steps)).collect::<Checked<Vec<_>>>()?));
    }
    // exists i. q and r  ==  q and exists i. r
    let (with, without): (Vec<Pred>, Vec<Pred>) = body.conjuncts().iter().cloned().partition(|p| p.mentions(index));
    if body.is_false() {
        return Ok(Pred::False);
    }
    let without = Pred::all(without);
    if with.is_empty() {
        return Ok(without.and(Pred::lt(&Affine::constant(0), extent)?));
    }
    // exists i < n. i = a and r  ==  0 <= a < n and r[a/i]; of several equations the shortest.
    if let Some((_, _, a)) = simplest_solution(&[index], &with) {
        let rest = Pred::all(with).substitute(&|i| (i == index).then(|| a.clone()))?;
        return Ok(without.and(Pred::in_range(&a, extent)?).and(rest));
    }
    // exists i < n. i <= 0 and r  ==  0 < n and r[0/i]
    let at_most_zero = Pred::non_negative(Affine::index(index).scale(-1)?);
    if with.contains(&at_most_zero) {
        let rest = Pred::all(with).substitute(&|i| (i == index).then(|| Affine::constant(0)))?;
        return Ok(without.and(Pred::lt(&Affine::constant(0), extent)?).and(rest));
    }
    if *steps == 0 || work::is_used_up() {
        return Ok(without.and(Pred::exists(index, extent.clone(), Pred::all(with))));
    }
    *steps -= 1;
    if let Some(with) = scale_by_equation(index, &with)? {
        return Ok(without.and(eliminate(index, extent, &with, steps)?));
    }
    if let Some(shadow) = shadow(index, extent, &with)? {
        return Ok(without.and(shadow));
    }
    if let Some(swapped) = swap(index, extent, &with, steps)? {
        return Ok(without.and(swapped));
    }
    if let Some(distributed) = distribute(index, extent, &with, steps)? {
        return Ok(without.and(distributed));
    }
    Ok(without.and(Pred::exists(index, extent.clone(), Pred::all(with))))
}

/// With an equation `k*i = a`, `k` not 1, every other linear atom `l*i + b` of `i` is replaced by `|k| * b + l * a * sign(k)`.
/// Two equations with coprime coefficients give one for `i` itself. Nothing where this changes nothing.
fn scale_by_equation(index: IndexId, with: &[Pred]) -> Checked<Option<Pred>> {
    let equation = |p: &Pred| match p {
        Pred::Zero(a) => a.split(index).filter(|(k, _)| *k != 0),
        _ => None,
    };
    // k*i + rest = 0, the smallest k.
    let smallest = with.iter().filter_map(|p| Some((p, equation(p)?))).min_by_key(|(_, (k, _))| k.unsigned_abs());
    let Some((pivot, (k, rest))) = smallest else { return Ok(None) };
    for (l, other) in with.iter().filter(|p| *p != pivot).filter_map(equation) {
        let (divisor, u, v) = bezout(k, l);
        if divisor == 1 {
            // u * (k*i + rest) + v * (l*i + other) = 0
            let unit = Affine::index(index).add(&rest.scale(u)?)?.add(&other.scale(v)?)?;
            return Ok(Some(Pred::all(with.iter().cloned().chain([Pred::zero(unit)]))));
        }
    }
    let mut changed = false;
    let scale = |a: &Affine, changed: &mut bool| match a.split(index) {
        Some((l, b)) if l != 0 => {
            *changed = true;
            let magnitude = k.checked_abs().ok_or(Overflow)?;
            b.scale(magnitude)?.sub(&rest.scale(l.checked_mul(k.signum()).ok_or(Overflow)?)?)
        }
        _ => Ok(a.clone()),
    };
    let scaled = with.iter().map(|p| {
        Ok(match p {
            p if p == pivot => p.clone(),
            Pred::NonNegative(a) => Pred::non_negative(scale(a, &mut changed)?),
            Pred::Zero(a) => Pred::zero(scale(a, &mut changed)?),
            Pred::NonZero(a) => Pred::non_zero(scale(a, &mut changed)?),
            p => p.clone(),
        })
    });
    let scaled = Pred::all(scaled.collect::<Checked<Vec<_>>>()?);
    Ok(changed.then_some(scaled))
}

/// `(g, u, v)` with `u*a + v*b = g`, the common divisor of `a` and `b`, positive.
fn bezout(a: i64, b: i64) -> (i128, i64, i64) {
    let (mut r, mut s) = ((i128::from(a), 1_i128, 0_i128), (i128::from(b), 0, 1));
    while s.0 != 0 {
        let q = r.0 / s.0;
        (r, s) = (s, (r.0 - q * s.0, r.1 - q * s.1, r.2 - q * s.2));
    }
    let sign = r.0.signum();
    // The factors are no larger than a and b.
    let narrow = |k: i128| i64::try_from(sign * k).unwrap_or(0);
    (sign * r.0, narrow(r.1), narrow(r.2))
}

/// Fourier-Motzkin elimination where it is exact: bounds only, and unit coefficients on one side.
fn shadow(index: IndexId, extent: &Size, with: &[Pred]) -> Checked<Option<Pred>> {
    // 0 <= i, and i <= n - 1.
    let mut lower = vec![(1, Affine::constant(0))];
    let mut upper = vec![(1, extent.add_constant(-1)?)];
    for p in with {
        let Pred::NonNegative(a) = p else { return Ok(None) };
        match a.split(index) {
            // k*i + rest >= 0
            Some((k, rest)) if k > 0 => lower.push((k, rest)),
            Some((k, rest)) if k < 0 => upper.push((k.checked_neg().ok_or(Overflow)?, rest)),
            _ => return Ok(None),
        }
    }
    let unit = |bounds: &[(i64, Affine)]| bounds.iter().all(|(k, _)| *k == 1);
    if !unit(&lower) && !unit(&upper) {
        return Ok(None);
    }
    if work::is_used_up() {
        return Ok(None);
    }
    let mut pairs = Vec::with_capacity(lower.len() * upper.len());
    for (k, l) in &lower {
        for (m, u) in &upper {
            // -l/k <= i <= u/m
            pairs.push(Pred::non_negative(u.scale(*k)?.add(&l.scale(*m)?)?));
        }
    }
    Ok(Some(Pred::all(pairs)))
}

/// `exists i. q and exists j. r  ==  exists j. exists i. q and r`, where `r` has an equation for `i`.
fn swap(index: IndexId, extent: &Size, with: &[Pred], steps: &mut usize) -> Checked<Option<Pred>> {
    for (at, p) in with.iter().enumerate() {
        let Pred::Exists { index: inner, extent: inner_extent, body } = p else { continue };
        let others = || with.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, q)| q);
        // A sibling that binds the same name would capture.
        let capture = others().any(|q| q.mentions(*inner));
        if !capture && body.conjuncts().iter().any(|p| solution(index, p).is_some()) {
            let joined = Pred::all(body.conjuncts().iter().chain(others()).cloned());
            let joined = eliminate(index, extent, &joined, steps)?;
            return eliminate(*inner, inner_extent, &joined, steps).map(Some);
        }
    }
    Ok(None)
}

/// Distributes an `or`, or a single `a != 0` beside linear atoms, where this gets rid of the index in every case.
fn distribute(index: IndexId, extent: &Size, with: &[Pred], steps: &mut usize) -> Checked<Option<Pred>> {
    let negative = |a: &Affine| a.scale(-1)?.add_constant(-1);
    let split = with.iter().position(|p| matches!(p, Pred::Any(_))).or_else(|| {
        let mut unequal = with.iter().enumerate().filter(|(_, p)| matches!(p, Pred::NonZero(_)));
        let first = unequal.next().map(|(at, _)| at);
        first.filter(|_| unequal.next().is_none())
    });
    let Some(at) = split else { return Ok(None) };
    let cases = match &with[at] {
        // a != 0  ==  a >= 1 or a <= -1
        Pred::NonZero(a) => vec![Pred::non_negative(a.add_constant(-1)?), Pred::non_negative(negative(a)?)],
        p => p.disjuncts().to_vec(),
    };
    if cases.len() > MAX_CASES {
        return Ok(None);
    }
    let mut results = Vec::with_capacity(cases.len());
    for case in cases {
        let others = with.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, p)| p.clone());
        let result = eliminate(index, extent, &Pred::all(others.chain([case])), steps)?;
        if result.mentions(index) {
            return Ok(None);
        }
        results.push(result);
    }
    Ok(Some(Pred::any(results)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::oracle::{Source, Toy};
    use super::*;
    use crate::base::{RelationId, SizeId};
    use crate::index::{RelationRef, Var};

    const I: IndexId = IndexId(0);
    const J: IndexId = IndexId(1);
    const K: IndexId = IndexId(2);

    /// `sum of coefficient * index + constant`.
    fn affine(terms: &[(IndexId, i64)], constant: i64) -> Affine {
        Affine::from_terms(terms.iter().map(|(i, k)| (Var::Index(*i), *k)), constant).unwrap()
    }

    fn size() -> Size {
        Affine::size(SizeId(0))
    }

    fn related(args: &[IndexId]) -> Pred {
        let relation = RelationRef::Input(RelationId(args.len() as u32 - 1));
        Pred::relation(relation, args.iter().map(|i| Affine::index(*i)).collect())
    }

    #[test]
    fn exists_is_eliminated_where_the_language_allows() {
        let equal = |a: &Affine, b: &Affine| Pred::equal(a, b).unwrap();
        let le = |a: &Affine, b: &Affine| Pred::le(a, b).unwrap();
        let (i, j, k) = (affine(&[(I, 1)], 0), affine(&[(J, 1)], 0), affine(&[(K, 1)], 0));
        let in_range = |a: &Affine| Pred::in_range(a, &size()).unwrap();
        let row = |body: Pred| Pred::exists(K, size(), body);
        let cases: Vec<(Pred, Pred)> = vec![
            (Pred::True, le(&1.into(), &size())),
            (le(&i, &j), le(&i, &j).and(le(&1.into(), &size()))),
            // The support of a convolution: i - j + k = 2.
            (equal(&affine(&[(I, 1), (J, -1), (K, 1)], 0), &2.into()), in_range(&affine(&[(I, -1), (J, 1)], 2))),
            (le(&i, &k), le(&i, &size().add_constant(-1).unwrap()).and(le(&1.into(), &size()))),
            // i <= 2*k <= j has an integer solution only if one lies between.
            (equal(&affine(&[(K, 2)], 0), &i), row(equal(&affine(&[(K, 2)], 0), &i))),
            // 2*k = i and 3*k = j gives k = j - i.
            (
                equal(&affine(&[(K, 2)], 0), &i).and(equal(&affine(&[(K, 3)], 0), &j)),
                in_range(&affine(&[(J, 1), (I, -1)], 0)).and(equal(&affine(&[(I, 3)], 0), &affine(&[(J, 2)], 0))),
            ),
            // What does not mention k comes out, what an equation determines too.
            (
                equal(&affine(&[(K, 2)], 0), &i).and(le(&k, &j)).and(related(&[I])),
                row(equal(&affine(&[(K, 2)], 0), &i)).and(le(&i, &affine(&[(J, 2)], 0))).and(related(&[I])),
            ),
            (related(&[I, K]).and(le(&i, &j)), row(related(&[I, K])).and(le(&i, &j))),
            (related(&[I, K]).and(equal(&k, &j)), in_range(&j).and(related(&[I, J]))),
            (related(&[I, K]).or(equal(&k, &j)), row(related(&[I, K])).or(in_range(&j))),
        ];
        for (body, expected) in cases {
            assert_eq!(exists(K, &size(), &body), Ok(expected), "exists {K} < n. {body:?}");
        }
    }

    #[test]
    fn exists_all_starts_with_equations() {
        // exists j, k. 2*j = i and k = j and R(k, i): nothing is left of k.
        let body = Pred::equal(&affine(&[(J, 2)], 0), &affine(&[(I, 1)], 0))
            .and_then(|p| Ok(p.and(Pred::equal(&affine(&[(K, 1)], 0), &affine(&[(J, 1)], 0))?)))
            .unwrap();
        for order in [[J, K], [K, J]] {
            let result = exists_all(&order.map(|i| (i, size())), &body.clone().and(related(&[K, I]))).unwrap();
            assert_eq!(order.iter().filter(|i| result.mentions(**i)).count(), 1, "{result:?}");
        }
    }

    #[test]
    fn exists_reports_overflow() {
        let huge = Affine::from_terms([(Var::Index(K), 1), (Var::Index(I), i64::MAX)], 0).unwrap();
        let body = Pred::zero(huge).and(Pred::non_negative(affine(&[(K, i64::MAX), (I, 1)], 0)));
        assert_eq!(exists(K, &size(), &body), Err(Overflow));
    }

    #[test]
    fn exists_is_exact() {
        let mut rng = fastrand::Rng::with_seed(11);
        let (mut eliminated, mut linear) = (0, 0);
        for case in 0..12_000 {
            let relations = rng.bool();
            let free = rng.u32(0..3);
            let indices: Vec<IndexId> = (0..free).map(IndexId).collect();
            let bound = [IndexId(50), IndexId(51)];
            let bound = &bound[..rng.usize(1..3)];
            let scope = indices.iter().chain(bound).copied().collect();
            let mut source = Source { rng: &mut rng, indices: scope, relations, maps: relations, exists: relations };
            let ranges: Vec<(IndexId, Size)> = bound.iter().map(|i| (*i, source.extent())).collect();
            let body = if case % 3 == 0 && free == 2 { source.lattice(bound[0]) } else { source.pred(2) };
            let result = match ranges.as_slice() {
                [(i, n)] => exists(*i, n, &body),
                ranges => exists_all(ranges, &body),
            };
            let result = result.expect("small numbers");
            if !relations {
                linear += 1;
                eliminated += usize::from(!bound.iter().any(|i| result.mentions(*i)));
            }
            let original = ranges.iter().rev().fold(body, |body, (i, n)| Pred::Exists {
                index: *i,
                extent: n.clone(),
                body: body.into(),
            });
            for _ in 0..8 {
                // Without a target `3*f(i) + 1 != 0` would be false, but reduces to true.
                let world = Toy { total: true, ..Toy::random(&mut rng, -1) };
                let mut at: BTreeMap<IndexId, i64> = indices.iter().map(|i| (*i, rng.i64(-2..5))).collect();
                let expected = world.truth(&original, &mut at);
                assert_eq!(
                    world.truth(&result, &mut at),
                    expected,
                    "case {case}: {original:?} became {result:?} at {at:?} in {world:?}"
                );
            }
        }
        println!("{eliminated} of {linear} linear predicates are free of exists");
        assert!(eliminated * 100 > linear * 75, "{eliminated} of {linear}");
    }
}

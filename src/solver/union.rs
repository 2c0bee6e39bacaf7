//! Short predicates for unions.
//!
//! `simplify(p)` repeats one round until the predicate gets no simpler. A round goes down the predicate with what is known at each place:
//! the facts, and beside a conjunct the other conjuncts.
//!
//! | case | what is done |
//! |---|---|
//! | one linear form | its set of integers is written anew; what the facts exclude or imply of it is left out |
//! | atom | gone if it follows; `false` if its opposite does |
//! | `and` | conjuncts of one form intersect; each is simplified under the others |
//! | `or` | cells that differ in one form unite; each cell is simplified under the opposite of the others, which excludes nothing that the union needs; two cells become the conjunction of what they have in common where that is no larger; what all have in common comes out |
//! | `exists` | the body is simplified, the index eliminated where the result is no longer |
//!
//! Each step replaces a predicate by one that is equivalent where the facts hold. The order in which rounds descend is (weight,
//! nesting, disjuncts, inequalities, size of the numbers, order of predicates); only finitely many predicates are below a given one, so
//! rounds end, and the result is one that a further round keeps: simplification is idempotent.
//!
//! The number of proofs in a round is limited; past it a predicate is only rewritten form by form. A cell that applies a map keeps the
//! conjuncts that put the source in range: they are never dropped for a reason that has the application in it.

mod cell;
mod line;

use super::{Facts, exists};
use crate::base::{IndexId, work};
use crate::index::{Affine, Pred, Size, Var};
use cell::{Cell, merge, write_union};
use line::{Form, Known, Line, parse};

/// How many proofs one round may try.
const MAX_PROOFS: usize = 512;
/// How many cells of a union are compared by proofs, and how many conjuncts of a conjunction.
const MAX_CELLS: usize = 16;
const MAX_CONJUNCTS: usize = 32;
/// Of how many intervals of one form it is asked whether the facts exclude them.
const MAX_INTERVALS: usize = 16;

/// The predicate in its shortest form that is known: equivalent to `p` where the facts hold, and never of greater
/// [weight](Pred::weight). Conjunctions and atoms lose what follows from the facts, as with [`Facts::simplify`]; unions are
/// merged: given `0 <= i`, `i = 0 or i >= 2` is `i != 1`, and given `0 <= k <= n`, `0 <= i < k or k <= i < n` is `0 <= i < n`.
///
/// A bound that the facts turn into an equation is written as one: given `0 <= i`, `i <= 0` is `i = 0`.
pub fn simplify_union(p: &Pred, facts: &Facts) -> Pred {
    let mut best = p.clone();
    loop {
        let mut round = Round { proofs: MAX_PROOFS, solves: true };
        let next = round.pred(&best, facts);
        if next == best || measure(&next) >= measure(&best) || work::is_used_up() {
            return best;
        }
        best = next;
    }
}

/// What the rounds descend in.
fn measure(p: &Pred) -> (usize, usize, usize, usize, u128, &Pred) {
    let (mut inequalities, mut magnitude) = (0, 0_u128);
    p.visit_atoms(&mut |atom| {
        inequalities += match atom {
            Pred::NonNegative(_) => 1,
            Pred::NonZero(_) => 2,
            _ => 0,
        }
    });
    p.visit_affine(&mut |a| magnitude = magnitude.saturating_add(size_of_numbers(a)));
    (p.weight(), p.nesting(), disjuncts(p), inequalities, magnitude, p)
}

fn size_of_numbers(a: &Affine) -> u128 {
    let own = a.terms().iter().map(|(_, k)| u128::from(k.unsigned_abs())).sum::<u128>();
    let mut inner = 0;
    for (v, _) in a.terms() {
        if let Var::Apply(application) = v {
            inner += application.args.iter().map(size_of_numbers).fold(0, u128::saturating_add);
        }
    }
    own.saturating_add(inner).saturating_add(u128::from(a.offset().unsigned_abs()))
}

fn disjuncts(p: &Pred) -> usize {
    match p {
        Pred::Any(ps) => ps.len() + ps.iter().map(disjuncts).sum::<usize>(),
        Pred::All(ps) => ps.iter().map(disjuncts).sum(),
        Pred::Exists { body, .. } => disjuncts(body),
        _ => 0,
    }
}

/// One pass over a predicate.
struct Round {
    /// How many proofs are left.
    proofs: usize,
    /// Whether bounds may become equations: not where the facts are the opposite of other cells, since that cuts a cell short.
    solves: bool,
}

impl Round {
    fn proves(&mut self, facts: &Facts, goal: &Pred) -> bool {
        let left = self.proofs.checked_sub(1);
        self.proofs = left.unwrap_or(0);
        left.is_some() && facts.derives(goal)
    }

    fn refutes(&mut self, facts: &Facts, p: &Pred) -> bool {
        p.negate().is_some_and(|opposite| self.proves(facts, &opposite))
    }

    /// A predicate equivalent to `p` where the facts hold.
    fn pred(&mut self, p: &Pred, facts: &Facts) -> Pred {
        if let Some((form, line)) = parse(p) {
            return self.line(&form, line, facts);
        }
        match p {
            Pred::True | Pred::False => p.clone(),
            Pred::All(_) => self.conjunction(p, facts),
            Pred::Any(ps) => self.union(ps, facts),
            Pred::Exists { index, extent, body } => self.exists(*index, extent, body, facts),
            atom if self.proves(facts, atom) => Pred::True,
            atom if self.refutes(facts, atom) => Pred::False,
            atom => atom.clone(),
        }
    }

    /// What is left of `form in line` where the facts exclude parts of the line.
    fn line(&mut self, form: &Form, line: Line, facts: &Facts) -> Pred {
        let intervals = line.intervals();
        let few = intervals.len() <= MAX_INTERVALS;
        let outermost = |at: usize| at == 0 || at + 1 == intervals.len();
        let mut kept = Vec::with_capacity(intervals.len());
        for (at, interval) in intervals.iter().enumerate() {
            if !((few || outermost(at)) && self.refutes(facts, &form.within(*interval))) {
                kept.push(*interval);
            }
        }
        let mut line = Line::of(kept);
        let outside = line.complement();
        if few {
            let inner = outside.intervals().iter().filter(|interval| !Line::is_unbounded(**interval));
            let excluded: Vec<(i64, i64)> =
                inner.filter(|gap| self.refutes(facts, &form.within(**gap))).copied().collect();
            line = Line::union([&line, &Line::of(excluded)]);
        }
        if self.solves && form.mentions_index() {
            line = self.solve(form, line, facts);
        }
        let known = match line.ends() {
            Some((lower, upper)) => Known {
                lower: lower.is_some_and(|lower| self.proves(facts, &form.at_least(lower))),
                upper: upper.is_some_and(|upper| self.proves(facts, &form.at_most(upper))),
            },
            None => Known::default(),
        };
        line.write(form, known)
    }

    /// A half line becomes a point where the facts bound it from the other side.
    fn solve(&mut self, form: &Form, line: Line, facts: &Facts) -> Line {
        let end = match (line.intervals(), line.ends()) {
            ([_], Some((Some(lower), None))) if self.proves(facts, &form.at_most(lower)) => lower,
            ([_], Some((None, Some(upper)))) if self.proves(facts, &form.at_least(upper)) => upper,
            _ => return line,
        };
        Line::point(end)
    }

    fn conjunction(&mut self, p: &Pred, facts: &Facts) -> Pred {
        let Some(cell) = Cell::of(p) else { return Pred::False };
        let mut kept = cell.conjuncts();
        let alone = kept.len() > MAX_CONJUNCTS;
        let mut at = 0;
        while let Some(p) = kept.get(at) {
            let applied = p.applies_maps();
            let others = kept.iter().enumerate().filter(|(other, _)| *other != at && !alone).map(|(_, q)| q);
            let known = facts.under([], others.filter(|q| applied || !q.applies_maps()));
            match self.pred(&p.clone(), &known) {
                Pred::False => return Pred::False,
                Pred::True => drop(kept.remove(at)),
                simpler => {
                    kept[at] = simpler;
                    at += 1;
                }
            }
        }
        Pred::all(kept)
    }

    fn union(&mut self, ps: &[Pred], facts: &Facts) -> Pred {
        let mut cells = merge(ps.iter().filter_map(Cell::of).collect());
        if let [cell] = cells.as_slice() {
            return self.pred(&cell.to_pred(), facts);
        }
        if cells.len() > MAX_CELLS {
            return write_union(&cells);
        }
        let simpler: Vec<Pred> = cells.iter().map(|cell| self.pred(&cell.to_pred(), facts)).collect();
        cells = merge(simpler.iter().flat_map(Pred::disjuncts).filter_map(Cell::of).collect());
        self.cover(&mut cells, facts);
        while self.join(&mut cells, facts) {
            self.cover(&mut cells, facts);
        }
        write_union(&merge(cells))
    }

    /// Simplifies each cell where the others do not hold.
    fn cover(&mut self, cells: &mut Vec<Cell>, facts: &Facts) {
        let solves = std::mem::replace(&mut self.solves, false);
        let mut at = 0;
        while let Some(cell) = cells.get(at) {
            let others = cells.iter().enumerate().filter(|(other, _)| *other != at);
            let others: Vec<Pred> = others.filter_map(|(_, cell)| cell.to_pred().negate()).collect();
            let open = facts.under([], &others);
            let simpler = self.pred(&cell.to_pred(), &open);
            match Cell::of(&simpler) {
                None => drop(cells.remove(at)),
                Some(simpler) => {
                    if !cell.applies_maps() || keeps_plain(cell, &simpler) {
                        cells[at] = simpler;
                    }
                    at += 1;
                }
            }
        }
        self.solves = solves;
    }

    /// Replaces two cells by one, if it can.
    fn join(&mut self, cells: &mut Vec<Cell>, facts: &Facts) -> bool {
        for at in 0..cells.len() {
            for other in at + 1..cells.len() {
                if let Some(joined) = self.joined(&cells[at], &cells[other], facts) {
                    cells[at] = joined;
                    cells.remove(other);
                    return true;
                }
            }
        }
        false
    }

    /// A cell equivalent to `a or b`: the atoms of each that the other implies, if their conjunction implies `a or b`.
    fn joined(&mut self, a: &Cell, b: &Cell, facts: &Facts) -> Option<Cell> {
        if a.applies_maps() || b.applies_maps() {
            return None;
        }
        let (in_a, in_b) = (a.to_pred(), b.to_pred());
        let mut hull: Vec<Pred> = Vec::new();
        for (form, line) in &a.lines {
            if let Some(other) = b.lines.get(form) {
                hull.extend(Line::union([line, other]).write(form, Known::default()).conjuncts().iter().cloned());
            }
        }
        let (atoms_a, atoms_b) = (a.atoms(), b.atoms());
        let [where_a, where_b] = [&in_a, &in_b].map(|p| facts.under([], [p]));
        hull.extend(atoms_a.iter().filter(|p| self.proves(&where_b, p)).cloned());
        hull.extend(atoms_b.iter().filter(|p| self.proves(&where_a, p)).cloned());
        let hull = Pred::all(hull);
        let open = |atoms: Vec<Pred>| atoms.into_iter().filter(|p| !hull.conjuncts().contains(p)).collect::<Vec<_>>();
        let (open_a, open_b) = (open(atoms_a), open(atoms_b));
        // hull and not (a or b) is empty if the hull implies (p or q) for all conjuncts p of a and q of b.
        let known = facts.under([], [&hull]);
        let covered = open_a.iter().all(|p| open_b.iter().all(|q| self.proves(&known, &p.clone().or(q.clone()))));
        let hull = match (covered, open_a.as_slice(), open_b.as_slice()) {
            (true, ..) => hull,
            // 0 <= x + y + 1  ==>  0 <= x or 0 <= y
            (false, [Pred::NonNegative(x)], [Pred::NonNegative(y)]) => {
                let sum = Pred::non_negative(x.add(y).and_then(|sum| sum.add_constant(1)).ok()?);
                if !self.proves(&where_a, &sum) || !self.proves(&where_b, &sum) {
                    return None;
                }
                hull.and(sum)
            }
            _ => return None,
        };
        let lighter = hull.weight() < in_a.weight() + in_b.weight();
        lighter.then(|| Cell::of(&hull)).flatten()
    }

    fn exists(&mut self, index: IndexId, extent: &Size, body: &Pred, facts: &Facts) -> Pred {
        let inner = facts.under([&(index, extent.clone())], []);
        let kept = Pred::exists(index, extent.clone(), self.pred(body, &inner));
        let Pred::Exists { index, extent, body } = &kept else { return kept };
        match exists(*index, extent, body) {
            Ok(p) if p.weight() <= kept.weight() && !matches!(p, Pred::Exists { .. }) => p,
            _ if self.proves(facts, &kept) => Pred::True,
            _ => kept,
        }
    }
}

/// Whether `simpler` has the same conjuncts as `cell` besides those that apply maps.
fn keeps_plain(cell: &Cell, simpler: &Cell) -> bool {
    let plain = |cell: &Cell| cell.conjuncts().into_iter().filter(|p| !p.applies_maps()).collect::<Vec<_>>();
    plain(cell) == plain(simpler)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::oracle::{MAP, Source, Toy};
    use super::*;
    use crate::base::{RelationId, SizeId};
    use crate::index::{RelationRef, Var};

    const I: IndexId = IndexId(0);
    const J: IndexId = IndexId(1);
    const T: IndexId = IndexId(50);
    const N: SizeId = SizeId(0);
    const K: SizeId = SizeId(1);

    /// `sum of coefficient * variable + constant`, where the variables are i, j, n and k.
    fn affine([i, j, n, k]: [i64; 4], constant: i64) -> Affine {
        let terms = [(Var::Index(I), i), (Var::Index(J), j), (Var::Size(N), n), (Var::Size(K), k)];
        Affine::from_terms(terms, constant).unwrap()
    }

    /// `0 <= a`
    fn bound(terms: [i64; 4], constant: i64) -> Pred {
        Pred::non_negative(affine(terms, constant))
    }

    /// `i = value`
    fn at(value: i64) -> Pred {
        Pred::zero(affine([1, 0, 0, 0], -value))
    }

    fn relation(args: &[Affine]) -> Pred {
        Pred::relation(RelationRef::Input(RelationId(args.len() as u32 - 1)), args.to_vec())
    }

    #[test]
    fn unions_become_short() {
        let (i, j) = (Affine::index(I), Affine::index(J));
        let not = |p: &Pred| p.negate().unwrap();
        let i_from = |k: i64| bound([1, 0, 0, 0], -k);
        let i_to = |k: i64| bound([-1, 0, 0, 0], k);
        let (i_to_n, i_to_k) = (bound([-1, 0, 1, 0], -1), bound([-1, 0, 0, 1], -1));
        let k_to_i = bound([1, 0, 0, -1], 0);
        let (r, s) = (relation(std::slice::from_ref(&i)), relation(&[i.clone(), j.clone()]));
        let within = |p: Pred| Pred::exists(T, Affine::size(N), p);
        let next = |a: &Affine| a.add_constant(1).unwrap();
        let t = Affine::index(T);
        // Known everywhere: 0 <= i, 0 <= k <= n, 1 <= n, 0 <= j < n.
        let known = [
            i_from(0),
            bound([0, 0, 1, -1], 0),
            bound([0, 0, 1, 0], -1),
            bound([0, 1, 0, 0], 0),
            bound([0, -1, 1, 0], -1),
        ];
        let thousand = Pred::any((0..=1000).filter(|k| *k != 1).map(at));
        let cases = [
            (at(0).or(i_from(2)), Pred::non_zero(affine([1, 0, 0, 0], -1))),
            (i_to(5).or(i_to(5).and(bound([0, 0, 1, 0], -1))), i_to(5)),
            (i_to(5).or(i_to(5).and(bound([0, 0, 1, 0], -3))), i_to(5)),
            (i_to_k.clone().or(k_to_i.clone().and(i_to_n.clone())), i_to_n.clone()),
            (
                i_to_k.clone().and(r.clone()).or(k_to_i.clone().and(i_to_n.clone()).and(r.clone())),
                i_to_n.clone().and(r.clone()),
            ),
            (thousand, i_to(1000).and(Pred::non_zero(affine([1, 0, 0, 0], -1)))),
            (i_to_k.clone().or(Pred::zero(affine([1, 0, 0, -1], 0))), bound([-1, 0, 0, 1], 0)),
            (r.clone().and(s.clone()).or(s.clone().and(not(&r))), s.clone()),
            (r.clone().or(s.clone().and(not(&r))), r.clone().or(s.clone())),
            (r.clone().and(s.clone()).or(s.clone().and(i_to(3))), s.clone().and(r.clone().or(i_to(3)))),
            (at(3).or(i_from(3).and(i_to(7))).or(at(9)).or(at(8)), i_from(3).and(i_to(9))),
            (i_to(0), at(0)),
            (Pred::non_zero(i.clone()), i_from(1)),
            (i_to_n.clone().and(i_from(0)).and(bound([0, 0, 1, 0], 0)), i_to_n.clone()),
            (bound([1, -1, 0, 0], 0).and(bound([-1, 1, 0, 0], 0)), Pred::zero(affine([1, -1, 0, 0], 0))),
            (bound([1, 0, 0, 0], 1).negate().unwrap(), Pred::False),
            // exists t < n. t = i + 1 and R(t)
            (
                within(Pred::equal(&t, &next(&i)).unwrap().and(relation(std::slice::from_ref(&t)))),
                bound([-1, 0, 1, 0], -2).and(relation(&[next(&i)])),
            ),
            (
                r.clone().and(i_to_n.clone()).and(within(relation(std::slice::from_ref(&t)))),
                r.clone().and(i_to_n.clone()),
            ),
            // Given 0 <= j < n, j < n - 1 or 1 <= j is 2 <= n.
            (bound([0, -1, 1, 0], -2).or(bound([0, 1, 0, 0], -1)), bound([0, 0, 1, 0], -2)),
            (Pred::any([at(1), at(2)]).and(Pred::any([at(2), at(4)])), at(2)),
        ];
        let mut facts = Facts::new();
        known.iter().for_each(|p| facts.assume(p));
        for (p, expected) in cases {
            assert_eq!(simplify_union(&p, &facts), expected, "{p:?}");
        }
    }

    #[test]
    fn many_disjuncts_take_no_proofs() {
        let facts = Facts::new();
        let boxes = (0..1000).flat_map(|i| [bound([0, 1, -1, 0], -i % 2), at(i).and(bound([0, 1, 0, 0], -i))]);
        let p = Pred::any(boxes);
        let mut round = Round { proofs: 0, solves: true };
        assert!(round.pred(&p, &facts).weight() <= p.weight());
        let p = Pred::any((0..3000).filter(|k| *k != 7).map(|k| at(k).and(relation(&[Affine::index(J)]))));
        let simple = simplify_union(&p, &facts);
        assert_eq!(simple.weight(), 4, "{simple:?}");
    }

    #[test]
    fn simplify_union_is_short_equivalent_and_idempotent() {
        check(6, 1500);
    }

    /// `cargo test --release --lib simplify_union_long -- --ignored --nocapture`
    #[test]
    #[ignore = "200,000 unions take minutes; the command is in the doc comment"]
    fn simplify_union_long() {
        check(60, 200_000);
    }

    fn check(seed: u64, cases: usize) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut before, mut after, mut by_facts) = (0, 0, 0);
        for case in 0..cases {
            let (relations, maps) = (case % 2 == 0, case % 4 == 0);
            let mut source = Source { rng: &mut rng, indices: vec![I, J], relations, maps, exists: relations };
            let mut assumed: Vec<Pred> = Vec::new();
            for i in [I, J] {
                if source.rng.bool() {
                    assumed.push(Pred::in_range(&Affine::index(i), &source.extent()).unwrap());
                }
            }
            if source.rng.bool() {
                assumed.push(source.pred(1));
            }
            let p = match case % 3 {
                0 => Pred::any((0..source.rng.usize(2..5)).map(|_| source.lattice(I))),
                1 => Pred::any((0..source.rng.usize(1..4)).map(|_| source.pred(1))),
                _ => source.pred(3),
            };
            let mut facts = Facts::new();
            facts.functional(MAP);
            assumed.iter().for_each(|p| facts.assume(p));
            let simple = simplify_union(&p, &facts);
            assert!(simple.weight() <= p.weight(), "case {case}: {p:?} became {simple:?}");
            assert_eq!(simplify_union(&simple, &facts), simple, "case {case}: {p:?} under {assumed:?}");
            (before, after) = (before + p.weight(), after + simple.weight());
            by_facts += facts.simplify(&p).weight();
            for _ in 0..2 {
                let world = Toy { total: true, ..Toy::random(&mut rng, 0) };
                for (i, j) in (-2..5).flat_map(|i| (-2..5).map(move |j| (i, j))) {
                    let mut at = BTreeMap::from([(I, i), (J, j)]);
                    if assumed.iter().all(|p| world.truth(p, &mut at)) {
                        let expected = world.truth(&p, &mut at);
                        let found = world.truth(&simple, &mut at);
                        assert_eq!(
                            found, expected,
                            "case {case}: {assumed:?}: {p:?} to {simple:?} at {at:?} in {world:?}"
                        );
                    }
                }
            }
        }
        println!("weight {before}, by facts alone {by_facts}, here {after}");
        assert!(after < by_facts, "{after} of {by_facts}");
    }
}

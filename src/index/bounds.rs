//! Conjunctions as lists, in the order in which their parts were found.

use std::collections::{BTreeMap, BTreeSet};

use super::{Affine, Pred, Var};
use crate::base::work;

/// A linear form, without its constant.
type Form<'a> = &'a [(Var, i64)];

/// What a list of conjuncts says: bounds and equations by their forms, and all others as they are.
pub(crate) struct Said<'a> {
    tightest: BTreeMap<Form<'a>, &'a Affine>,
    values: BTreeMap<Form<'a>, i64>,
    others: BTreeSet<&'a Pred>,
}

impl<'a> Said<'a> {
    pub(crate) fn by(conjuncts: &'a [Pred]) -> Said<'a> {
        work::charge(8 * conjuncts.len());
        let mut said = Said { tightest: BTreeMap::new(), values: BTreeMap::new(), others: BTreeSet::new() };
        for p in conjuncts {
            if let Pred::NonNegative(a) = p {
                let bound = said.tightest.entry(a.terms()).or_insert(a);
                if a.offset() < bound.offset() {
                    *bound = a;
                }
                continue;
            }
            if let Pred::Zero(a) = p {
                said.values.entry(a.terms()).or_insert(a.offset());
            }
            said.others.insert(p);
        }
        said
    }

    /// Whether a predicate is one of the conjuncts, or a bound that one of its form implies.
    pub(crate) fn implies(&self, p: &Pred) -> bool {
        match p {
            Pred::True => true,
            Pred::NonNegative(a) => {
                self.tightest.get(a.terms()).is_some_and(|bound| bound.offset() <= a.offset()) || self.follows(a)
            }
            p => self.others.contains(p),
        }
    }

    /// Whether `0 <= a` follows from an equation.
    fn follows(&self, a: &Affine) -> bool {
        if self.values.is_empty() {
            return false;
        }
        // The first coefficient of an equation is positive.
        let negative = a.terms().first().is_some_and(|(_, k)| *k < 0);
        let Ok(positive) = a.scale(if negative { -1 } else { 1 }) else { return false };
        self.values.get(positive.terms()).is_some_and(|constant| {
            let value = -i128::from(*constant);
            i128::from(a.offset()) + if negative { -value } else { value } >= 0
        })
    }
}

/// Conjuncts without repetitions, and without bounds that another one implies: of `1 <= i` and `2 <= i` the second stays, in the place of the
/// first, and neither does beside `i = 3`.
pub(crate) fn tightest(conjuncts: &[Pred]) -> Vec<Pred> {
    let said = Said::by(conjuncts);
    let (mut bounds, mut others) = (said.tightest.clone(), said.others.clone());
    let new = conjuncts.iter().filter_map(|p| match p {
        Pred::NonNegative(a) => {
            let bound = bounds.remove(a.terms()).filter(|bound| !said.follows(bound));
            bound.map(|bound| Pred::NonNegative(bound.clone()))
        }
        p => others.remove(p).then(|| p.clone()),
    });
    new.collect()
}

/// The facts that two lists have in common, in the order of the first, which has no repetitions: of bounds of one form the looser one.
pub(crate) fn common(these: &[Pred], those: &[Pred]) -> Vec<Pred> {
    let said = Said::by(those);
    let both = these.iter().filter_map(|p| match p {
        Pred::NonNegative(a) => match said.tightest.get(a.terms()) {
            Some(b) if b.offset() > a.offset() => Some(Pred::NonNegative((*b).clone())),
            _ => said.implies(p).then(|| p.clone()),
        },
        p => said.implies(p).then(|| p.clone()),
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::IndexId;

    /// `k * i + constant`.
    fn form(k: i64, constant: i64) -> Affine {
        Affine::index(IndexId(0)).scale(k).unwrap().add_constant(constant).unwrap()
    }

    fn bound(k: i64, constant: i64) -> Pred {
        Pred::non_negative(form(k, constant))
    }

    /// Lists over one index mean the same wherever it is.
    fn same(one: &[Pred], other: &[Pred]) -> bool {
        (-9..10).all(|at| {
            let [one, other] = [one, other].map(|ps| {
                let here = |p: &Pred| p.substitute(&|_| Some(Affine::constant(at))).unwrap().is_true();
                ps.iter().all(here)
            });
            one == other
        })
    }

    #[test]
    fn one_bound_of_each_form_stays() {
        let [lower, upper] = [bound(1, -2), bound(-1, 5)];
        let all = [bound(1, -1), upper.clone(), lower.clone(), bound(-1, 7), lower.clone()];
        assert_eq!(tightest(&all), [lower.clone(), upper.clone()]);
        let three = Pred::zero(form(1, -3));
        assert_eq!(tightest(&[lower.clone(), three.clone(), upper, three.clone()]), std::slice::from_ref(&three));
        assert!(Said::by(std::slice::from_ref(&three)).implies(&lower) && !Said::by(&[lower]).implies(&three));
    }

    #[test]
    fn lists_mean_what_they_meant() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let mut atom =
                |_| match (form(rng.i64(1..3) * if rng.bool() { 1 } else { -1 }, rng.i64(-5..6)), rng.u8(0..4)) {
                    (a, 0) => Pred::zero(a),
                    (a, 1) => Pred::non_zero(a),
                    (a, _) => Pred::non_negative(a),
                };
            let all: Vec<Pred> = (0..4).map(&mut atom).collect();
            let found = tightest(&all);
            assert!(same(&all, &found), "{all:?} {found:?}");
            assert_eq!(tightest(&found), found);
            // What both say each of them says.
            let others = tightest(&(0..4).map(&mut atom).collect::<Vec<_>>());
            let both = common(&found, &others);
            for one in [&found, &others] {
                assert!(same(&[one.as_slice(), &both].concat(), one), "{found:?} {others:?} {both:?}");
            }
        }
    }
}

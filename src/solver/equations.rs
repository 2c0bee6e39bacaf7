//! Linear equations over the integers, each with the reasons that it follows from.
//!
//! ```text
//! n + m = 5 (a)    n - m = 1 (b)    ==>    n = 3 (a, b)    m = 2 (a, b)
//! ```
//!
//! Gauss-Jordan elimination without fractions: two rows are combined so that a column vanishes, and divided by the common divisor of what is
//! left, which keeps the solutions. Where `linear` only asks whether there is a solution, this says what follows and why, for people.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::integers::gcd;
use crate::index::Overflow;

/// `sum of coefficient * unknown = constant`, and the reasons that it was combined from.
#[derive(Clone, Debug)]
pub struct Equation {
    /// The coefficients by unknown, none zero.
    pub terms: BTreeMap<usize, i128>,
    /// The right-hand side.
    pub constant: i128,
    /// What it follows from.
    pub reasons: BTreeSet<usize>,
}

/// Why a system has no reduced form.
#[derive(Debug)]
pub enum Unsolved {
    /// These contradict each other.
    Contradiction(BTreeSet<usize>),
    /// It takes more steps than allowed.
    Steps,
    /// A coefficient does not fit.
    Overflow,
}

impl From<Overflow> for Unsolved {
    fn from(_: Overflow) -> Self {
        Unsolved::Overflow
    }
}

/// The equations in reduced form: each has an unknown that occurs in no other. `steps` counts down operations on coefficients.
///
/// # Errors
/// [`Unsolved`] says which reasons contradict each other, or what is too large.
pub fn reduced(equations: impl IntoIterator<Item = Equation>, steps: &mut u64) -> Result<Vec<Equation>, Unsolved> {
    let mut spend = |count: usize| {
        *steps = steps.checked_sub(count as u64 + 1).ok_or(Unsolved::Steps)?;
        Ok::<(), Unsolved>(())
    };
    // Each row with its pivot, which occurs in no other row.
    let mut rows: Vec<(usize, Equation)> = Vec::new();
    for mut row in equations {
        for (pivot, other) in &rows {
            if row.terms.contains_key(pivot) {
                spend(other.terms.len())?;
                row = without(&row, other, *pivot)?;
            }
        }
        spend(row.terms.len() + rows.len())?;
        let Some((&pivot, _)) = row.terms.first_key_value() else {
            if row.constant != 0 {
                return Err(Unsolved::Contradiction(row.reasons));
            }
            continue;
        };
        for (_, other) in rows.iter_mut().filter(|(_, other)| other.terms.contains_key(&pivot)) {
            spend(row.terms.len())?;
            *other = without(other, &row, pivot)?;
        }
        rows.push((pivot, row));
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The combination of two rows in which `pivot` does not occur, divided by its common divisor.
fn without(row: &Equation, other: &Equation, pivot: usize) -> Result<Equation, Overflow> {
    let coefficient = |row: &Equation, v: usize| row.terms.get(&v).copied().unwrap_or(0);
    let (a, b) = (coefficient(row, pivot), coefficient(other, pivot));
    let combine = |x: i128, y: i128| x.checked_mul(b)?.checked_sub(y.checked_mul(a)?);
    let unknowns: BTreeSet<usize> = row.terms.keys().chain(other.terms.keys()).copied().collect();
    let mut terms = BTreeMap::new();
    for v in unknowns {
        let k = combine(coefficient(row, v), coefficient(other, v)).ok_or(Overflow)?;
        if k != 0 {
            terms.insert(v, k);
        }
    }
    let mut constant = combine(row.constant, other.constant).ok_or(Overflow)?;
    let divisor = terms.values().fold(constant.unsigned_abs(), |g, k| gcd(g, k.unsigned_abs()));
    // The magnitude of the least integer does not fit, and not dividing by it is right too.
    if let Ok(divisor @ 2..) = i128::try_from(divisor) {
        constant /= divisor;
        terms.values_mut().for_each(|k| *k /= divisor);
    }
    Ok(Equation { terms, constant, reasons: &row.reasons | &other.reasons })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of `sum of coefficients * unknowns = constant`, the reason of each its place.
    fn equations(rows: &[(Vec<i128>, i128)]) -> Vec<Equation> {
        let row = |(at, (coefficients, constant)): (usize, &(Vec<i128>, i128))| Equation {
            terms: coefficients.iter().copied().enumerate().filter(|(_, k)| *k != 0).collect(),
            constant: *constant,
            reasons: BTreeSet::from([at]),
        };
        rows.iter().enumerate().map(row).collect()
    }

    #[test]
    fn reduced_systems_have_the_same_solutions() {
        let mut rng = fastrand::Rng::with_seed(11);
        let (mut solvable, mut contradictory) = (0, 0);
        for case in 0..2000 {
            let rows: Vec<(Vec<i128>, i128)> = (0..rng.usize(1..5))
                .map(|_| ((0..3).map(|_| i128::from(rng.i8(-2..3))).collect(), i128::from(rng.i8(-4..5))))
                .collect();
            let all = equations(&rows);
            let holds =
                |at: &[i128; 3], e: &Equation| e.terms.iter().map(|(v, k)| k * at[*v]).sum::<i128>() == e.constant;
            let box_of_points = || (-4..5).flat_map(|x| (-4..5).flat_map(move |y| (-4..5).map(move |z| [x, y, z])));
            match reduced(all.clone(), &mut 1000) {
                Ok(found) => {
                    solvable += 1;
                    for (k, e) in found.iter().enumerate() {
                        let own = |v: &usize| found.iter().enumerate().all(|(l, f)| k == l || !f.terms.contains_key(v));
                        assert!(e.terms.keys().any(own), "case {case}: {found:?}");
                    }
                    for at in box_of_points() {
                        let [before, after] = [&all, &found].map(|es| es.iter().all(|e| holds(&at, e)));
                        assert_eq!(before, after, "case {case}: {rows:?} at {at:?}");
                        // A row holds wherever its reasons do.
                        for e in &found {
                            assert!(holds(&at, e) || !e.reasons.iter().all(|r| holds(&at, &all[*r])), "{e:?}");
                        }
                    }
                }
                Err(Unsolved::Contradiction(reasons)) => {
                    contradictory += 1;
                    let together = |at| reasons.iter().all(|r| holds(&at, &all[*r]));
                    assert!(!box_of_points().any(together), "case {case}: {rows:?}");
                }
                Err(other) => panic!("case {case}: {other:?}"),
            }
        }
        assert!(solvable > 300 && contradictory > 300, "{solvable} {contradictory}");
    }

    #[test]
    fn systems_end_at_their_limits() {
        let rows = equations(&[(vec![1, 2, 0], 3), (vec![2, 1, 1], 3)]);
        assert!(matches!(reduced(rows.clone(), &mut 3), Err(Unsolved::Steps)));
        let large = equations(&[(vec![i128::MAX, 3], 1), (vec![i128::MAX - 1, 5], 1)]);
        assert!(matches!(reduced(large, &mut 100), Err(Unsolved::Overflow)));
    }
}

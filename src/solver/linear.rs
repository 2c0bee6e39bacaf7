//! Systems of linear equations and inequalities over the integers, as dense rows: the coefficients of the columns, then the constant.
//!
//! Every step keeps all integer solutions. Equations are solved exactly, by substitution where a coefficient is 1, else after Euclid's
//! algorithm on the coefficients, which renames unknowns until one is 1. Inequalities go through Fourier-Motzkin elimination; each
//! row is divided by the common divisor of its coefficients and its constant rounded down.

use crate::base::integers::gcd;
use crate::base::work;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Feasible {
    /// There is no integer point.
    No,
    /// None was excluded.
    Perhaps,
}

/// The common divisor of the coefficients, 0 where there are none.
fn divisor(row: &[i128]) -> u128 {
    let mut divisor = 0;
    for k in &row[..row.len() - 1] {
        if *k != 0 {
            divisor = gcd(k.unsigned_abs(), divisor);
            if divisor == 1 {
                break;
            }
        }
    }
    divisor
}

/// `target := target * f + source * g` with `f > 0` such that column `c` vanishes; nothing on overflow.
fn cancel(target: &[i128], source: &[i128], c: usize) -> Option<Vec<i128>> {
    work::charge(1 + target.len() / 4);
    let (a, b) = (target[c], source[c]);
    let common = i128::try_from(gcd(a.unsigned_abs(), b.unsigned_abs())).ok()?;
    // Most coefficients are 0, 1 or -1, and operations on wide integers are slow.
    let by = |k: i128| if common == 1 { k } else { k / common };
    let times = |k: i128, factor: i128| match (k, factor) {
        (0, _) => Some(0),
        (_, 1) => Some(k),
        _ => k.checked_mul(factor),
    };
    let f = by(b).checked_abs()?;
    let g = -by(a) * b.signum();
    target.iter().zip(source).map(|(t, s)| times(*t, f)?.checked_add(times(*s, g)?)).collect()
}

/// Solves all equations and substitutes the solutions into the rows. Answers false where there is no integer solution.
/// A row that would overflow is dropped.
pub(super) fn solve(equations: &mut Vec<Vec<i128>>, rows: &mut Vec<Vec<i128>>) -> bool {
    loop {
        work::charge(1 + equations.iter().map(|row| row.len() / 4).sum::<usize>() + rows.len());
        // The equation and column of the smallest coefficient.
        let mut best: Option<(u128, usize, usize)> = None;
        let mut at = 0;
        while at < equations.len() {
            let equation = &mut equations[at];
            let n = equation.len() - 1;
            let divisor = i128::try_from(divisor(equation)).unwrap_or(1);
            if divisor == 0 {
                if equation[n] != 0 {
                    return false;
                }
                equations.swap_remove(at);
                continue;
            }
            // d * a + k = 0 has no solution unless d divides k.
            if equation[n] % divisor != 0 {
                return false;
            }
            if divisor != 1 {
                equation.iter_mut().for_each(|k| *k /= divisor);
            }
            let coefficients = equation[..n].iter().enumerate().filter(|(_, k)| **k != 0);
            if let Some((k, c)) = coefficients.map(|(c, k)| (k.unsigned_abs(), c)).min()
                && best.is_none_or(|(b, ..)| k < b)
            {
                best = Some((k, at, c));
            }
            at += 1;
        }
        let Some((k, at, c)) = best else { return true };
        if k == 1 {
            let equation = equations.swap_remove(at);
            for others in [&mut *equations, &mut *rows] {
                others.retain_mut(|row| {
                    row[c] == 0 || cancel(row, &equation, c).map(|cancelled| *row = cancelled).is_some()
                });
            }
            continue;
        }
        // A new unknown y = x + sum of q * z in the place of x leaves remainders, smaller than k, of the other coefficients.
        let equation = &equations[at];
        let quotients: Vec<i128> =
            (0..equation.len() - 1).map(|d| if d == c { 0 } else { equation[d].div_euclid(equation[c]) }).collect();
        for others in [&mut *equations, &mut *rows] {
            others.retain_mut(|row| {
                let factor = row[c];
                factor == 0
                    || row.iter_mut().zip(&quotients).all(|(k, q)| {
                        let changed = q.checked_mul(factor).and_then(|product| k.checked_sub(product));
                        changed.map(|changed| *k = changed).is_some()
                    })
            });
        }
    }
}

/// Inequalities `0 <= row`, no two parallel.
pub(super) struct System {
    width: usize,
    rows: Vec<Vec<i128>>,
    /// How many rows were made so far.
    pub(super) made: usize,
    limit: usize,
}

impl System {
    pub(super) fn new(width: usize, limit: usize) -> Self {
        System { width, rows: Vec::new(), made: 0, limit }
    }

    /// Adds a row, reduced. Answers `No` where it contradicts a constant or an opposite row.
    pub(super) fn insert(&mut self, mut row: Vec<i128>) -> Feasible {
        let n = self.width;
        work::charge(1 + n / 4 + self.rows.len());
        match i128::try_from(divisor(&row)) {
            Ok(0) if row[n] < 0 => return Feasible::No,
            Ok(0) | Err(_) => return Feasible::Perhaps,
            Ok(1) => {}
            // d * a + k >= 0  ==  a + floor(k / d) >= 0
            Ok(d) => row.iter_mut().for_each(|k| *k = k.div_euclid(d)),
        }
        for known in &mut self.rows {
            if known[..n] == row[..n] {
                known[n] = known[n].min(row[n]);
                return self.opposed(&row);
            }
        }
        let feasible = self.opposed(&row);
        self.rows.push(row);
        feasible
    }

    /// `0 <= a + k` and `0 <= -a + l` with `k + l < 0`.
    fn opposed(&self, row: &[i128]) -> Feasible {
        let n = self.width;
        let opposed = |known: &Vec<i128>| {
            known[..n].iter().zip(&row[..n]).all(|(a, b)| a.checked_add(*b) == Some(0))
                && known[n].checked_add(row[n]).is_some_and(|sum| sum < 0)
        };
        if self.rows.iter().any(opposed) { Feasible::No } else { Feasible::Perhaps }
    }

    /// Fourier-Motzkin elimination of all columns.
    pub(super) fn eliminate(&mut self) -> Feasible {
        loop {
            work::charge(self.width * self.rows.len() / 4);
            // The column that makes the fewest rows.
            let mut best: Option<(usize, usize)> = None;
            for c in 0..self.width {
                let lower = self.rows.iter().filter(|r| r[c] > 0).count();
                let upper = self.rows.iter().filter(|r| r[c] < 0).count();
                // Sorted by rows made less rows removed, without going below zero.
                let growth = self.rows.len() + lower * upper - lower - upper;
                if lower + upper > 0 && best.is_none_or(|(b, _)| growth < b) {
                    best = Some((growth, c));
                }
            }
            let Some((_, c)) = best else { return Feasible::Perhaps };
            let (rest, with): (Vec<_>, Vec<_>) = std::mem::take(&mut self.rows).into_iter().partition(|r| r[c] == 0);
            self.rows = rest;
            let (lower, upper): (Vec<_>, Vec<_>) = with.into_iter().partition(|r| r[c] > 0);
            for l in &lower {
                for u in &upper {
                    self.made += 1;
                    if self.made > self.limit || work::is_used_up() {
                        return Feasible::Perhaps;
                    }
                    // Dropping a row that overflows excludes nothing.
                    if let Some(row) = cancel(l, u, c)
                        && self.insert(row) == Feasible::No
                    {
                        return Feasible::No;
                    }
                }
            }
        }
    }
}

//! A quick look for a point at which all constraints hold: where there is one, nothing is refuted, and no search is needed.
//!
//! From zero, the first constraint that fails is repaired by the variable in it that was changed longest ago, until all hold or the steps are
//! used up. A point that is found is a proof; that none is found means nothing.

use smallvec::{SmallVec, smallvec};

use super::refutation::Node;
use super::{Conj, Row};
use crate::base::work;

/// A point, by local columns.
struct Point<'p> {
    local: &'p [u32],
    values: SmallVec<[i64; 16]>,
    /// The repair in which each was changed last.
    changed: SmallVec<[usize; 16]>,
}

/// What a row should be.
#[derive(Clone, Copy)]
enum Goal {
    NonNegative,
    Zero,
}

/// Whether constraints hold at a point.
enum Answer<'n> {
    Hold,
    /// The first row that fails.
    Fail(&'n Row, Goal),
    /// Beyond what is looked at: numbers that are too large, clauses inside of clauses.
    Unknown,
}

/// Whether a point is found at which the constraints hold. Relation atoms that all hold exclude none: relations may have any tuples.
pub(super) fn exists(node: &Node<'_>, local: &[u32], width: usize, repairs: usize) -> bool {
    let mut plain = node.relations.iter().all(|r| r.holds);
    node.clauses.iter().copied().flatten().for_each(|case| case.visit_relations(&mut |_| plain = false));
    if !plain {
        return false;
    }
    let mut point = Point { local, values: smallvec![0; width], changed: smallvec![0; width] };
    let size = node.bounds.len() + node.equations.len() + node.clauses.iter().map(|clause| clause.len()).sum::<usize>();
    for repair in 1..=repairs {
        work::charge(1 + size);
        match point.check(node) {
            Answer::Hold => return true,
            Answer::Fail(row, goal) if point.repair(row, goal, repair).is_some() => {}
            Answer::Fail(..) | Answer::Unknown => return false,
        }
    }
    false
}

impl Point<'_> {
    fn column(&self, c: u32) -> usize {
        self.local[c as usize] as usize
    }

    /// Nothing on overflow.
    fn value(&self, row: &Row) -> Option<i64> {
        row.terms
            .iter()
            .try_fold(row.constant, |sum, (c, k)| sum.checked_add(k.checked_mul(self.values[self.column(*c)])?))
    }

    fn check<'n>(&self, node: &Node<'n>) -> Answer<'n> {
        match self.rows(node.equations.iter().copied(), node.bounds.iter().copied()) {
            Answer::Hold => {}
            other => return other,
        }
        node.clauses
            .iter()
            .map(|clause| self.clause(clause))
            .find(|answer| !matches!(answer, Answer::Hold))
            .unwrap_or(Answer::Hold)
    }

    /// One case must hold; else the first one is what fails.
    fn clause<'n>(&self, clause: &'n [Conj]) -> Answer<'n> {
        let mut answer = Answer::Unknown;
        for case in clause {
            match (self.case(case), &answer) {
                (Answer::Hold, _) => return Answer::Hold,
                (found, Answer::Unknown) => answer = found,
                _ => {}
            }
        }
        answer
    }

    fn case<'n>(&self, case: &'n Conj) -> Answer<'n> {
        let Conj { bounds, equations, relations: _, clauses } = case;
        if clauses.is_empty() { self.rows(equations.iter(), bounds.iter()) } else { Answer::Unknown }
    }

    fn rows<'n>(&self, equations: impl Iterator<Item = &'n Row>, bounds: impl Iterator<Item = &'n Row>) -> Answer<'n> {
        let goals = equations.map(|row| (row, Goal::Zero)).chain(bounds.map(|row| (row, Goal::NonNegative)));
        for (row, goal) in goals {
            match (self.value(row), goal) {
                (None, _) => return Answer::Unknown,
                (Some(0), Goal::Zero) | (Some(0..), Goal::NonNegative) => {}
                (Some(_), _) => return Answer::Fail(row, goal),
            }
        }
        Answer::Hold
    }

    /// Changes one variable so that the row holds; nothing where none can.
    fn repair(&mut self, row: &Row, goal: Goal, repair: usize) -> Option<()> {
        let lacking = self.value(row)?.checked_neg()?;
        let step = |k: i64| match goal {
            Goal::Zero => (lacking.checked_rem(k)? == 0).then(|| lacking.checked_div(k))?,
            // What lacks is positive here, and is rounded up.
            Goal::NonNegative => {
                let size = k.checked_abs()?;
                Some(lacking.checked_add(size - 1)?.checked_div(size)? * k.signum())
            }
        };
        let able = row.terms.iter().filter_map(|(c, k)| Some((self.column(*c), step(*k)?)));
        let (column, step) = able.min_by_key(|(column, _)| self.changed[*column])?;
        self.values[column] = self.values[column].checked_add(step)?;
        self.changed[column] = repair;
        Some(())
    }
}

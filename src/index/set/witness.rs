//! Integer points of linear systems.
//!
//! Equations are solved, inequalities go through Fourier-Motzkin elimination, and the columns then get values in the opposite order,
//! each between the bounds that those before it leave. The bounds are those of rational points, so a choice may leave a later column no
//! integer; then the next value is tried. A search that saw all values proves that there is no point.

use super::super::linear::{Change, Feasible, System, solve};

/// How many inequalities may be written down.
const MAX_CONSTRAINTS: usize = 2000;
/// How many values of a column without an end are tried.
const MAX_OPEN_VALUES: i128 = 64;

/// What is known of the points of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// There is none.
    Empty,
    /// This is one: a value for each column.
    Point(Vec<i128>),
    /// None was found within the limits.
    Open,
}

/// A column with its lower and upper bounds.
struct Stage {
    column: usize,
    lower: Vec<Vec<i128>>,
    upper: Vec<Vec<i128>>,
}

/// Searches a point of `row = 0` and `0 <= row`, rows being coefficients and a constant. `steps` counts the values tried down.
///
/// A row that overflows on the way is lost: the caller checks the point.
pub(super) fn integer_point(
    width: usize,
    mut equations: Vec<Vec<i128>>,
    mut bounds: Vec<Vec<i128>>,
    steps: &mut usize,
) -> Search {
    let mut changes = Vec::new();
    if !solve(&mut equations, &mut bounds, &mut |change| changes.push(change)) {
        return Search::Empty;
    }
    let mut system = System::new(width, MAX_CONSTRAINTS);
    for row in bounds {
        if system.insert(row) == Feasible::No {
            return Search::Empty;
        }
    }
    let mut stages: Vec<Stage> = Vec::new();
    let feasible = system.eliminate(&mut |column, lower, upper| stages.push(Stage { column, lower, upper }));
    if feasible == Feasible::No {
        return Search::Empty;
    }
    if system.made > MAX_CONSTRAINTS {
        return Search::Open;
    }
    let mut assignment = Assignment { stages, values: vec![0; width], steps, complete: true };
    if !assignment.extend(assignment.stages.len()) {
        return if assignment.complete { Search::Empty } else { Search::Open };
    }
    let mut values = assignment.values;
    match changes.iter().rev().try_for_each(|change| undo(change, &mut values)) {
        Some(()) => Search::Point(values),
        None => Search::Open,
    }
}

/// Gives a column the value that it had before a change.
fn undo(change: &Change, values: &mut [i128]) -> Option<()> {
    match change {
        Change::Solved { column, equation } => {
            // k*x + rest = 0 with k = 1 or -1
            values[*column] = 0;
            values[*column] = evaluate(equation, values)?.checked_mul(-equation[*column])?;
        }
        Change::Renamed { column, quotients } => {
            for (other, q) in quotients.iter().enumerate().filter(|(other, _)| other != column) {
                values[*column] = values[*column].checked_sub(q.checked_mul(values[other])?)?;
            }
        }
    }
    Some(())
}

/// The value of a row.
fn evaluate(row: &[i128], values: &[i128]) -> Option<i128> {
    let (constant, coefficients) = row.split_last()?;
    coefficients.iter().zip(values).try_fold(*constant, |sum, (k, x)| sum.checked_add(k.checked_mul(*x)?))
}

struct Assignment<'a> {
    stages: Vec<Stage>,
    values: Vec<i128>,
    steps: &'a mut usize,
    /// Whether all values have been tried so far.
    complete: bool,
}

impl Assignment<'_> {
    /// Gives values to the columns of the first `open` stages, those of the last of them first.
    fn extend(&mut self, open: usize) -> bool {
        let Some(at) = open.checked_sub(1) else { return true };
        let Some((low, high)) = self.bounds(at) else {
            self.complete = false;
            return false;
        };
        let (from, step) = match (low, high) {
            (Some(low), _) => (low, 1),
            (None, Some(high)) => (high, -1),
            (None, None) => (0, 1),
        };
        let column = self.stages[at].column;
        for k in 0.. {
            let Some(value) = from.checked_add(k * step) else { break };
            if low.is_some() && high.is_some_and(|high| value > high) {
                return false;
            }
            let endless = low.is_none() || high.is_none();
            if *self.steps == 0 || (endless && k == MAX_OPEN_VALUES) {
                break;
            }
            *self.steps -= 1;
            self.values[column] = value;
            if self.extend(at) {
                return true;
            }
        }
        self.complete = false;
        false
    }

    /// The least and the greatest value of a column that the columns after it leave; nothing on overflow.
    fn bounds(&mut self, at: usize) -> Option<(Option<i128>, Option<i128>)> {
        let Stage { column, lower, upper } = &self.stages[at];
        self.values[*column] = 0;
        let (mut low, mut high): (Option<i128>, Option<i128>) = (None, None);
        for row in lower {
            // k*x + rest >= 0  ==  x >= ceil(-rest / k)
            let bound = evaluate(row, &self.values)?.div_euclid(row[*column]).checked_neg()?;
            low = Some(low.map_or(bound, |low| low.max(bound)));
        }
        for row in upper {
            // -k*x + rest >= 0  ==  x <= floor(rest / k)
            let bound = evaluate(row, &self.values)?.div_euclid(row[*column].checked_neg()?);
            high = Some(high.map_or(bound, |high| high.min(bound)));
        }
        Some((low, high))
    }
}

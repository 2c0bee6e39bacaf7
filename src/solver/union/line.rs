//! What a predicate says of one linear form: a set of integers.
//!
//! The atoms `0 <= a`, `a = 0` and `a != 0` with `a = c*L + k` restrict one form `L` each, whose coefficients are coprime and the first
//! of which is positive. Atoms of the same form intersect and unite as sets of integers, exactly and in one sweep, however many
//! there are. Writing a set back is a shortest path: from the left each interval either opens a case of its own, `0 <= L and L <= 3`,
//! or continues the case before, in which the gap becomes an atom, `L != 4`.

use crate::index::{Affine, Pred};

/// Below and above every number that an atom can name.
const LOW: i64 = i64::MIN;
const HIGH: i64 = i64::MAX;
/// Larger constants are left to the predicates, so that a step to the next integer cannot overflow.
const LARGEST: i64 = i64::MAX / 4;

/// A linear form: coprime coefficients, the first positive, no constant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form(Affine);

/// A set of integers: closed intervals, ascending, neither overlapping nor adjacent. An end is a number, or `LOW` or `HIGH` for none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line(Vec<(i64, i64)>);

/// Which ends of a set need not be written, since the facts imply them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub(super) lower: bool,
    pub(super) upper: bool,
}

impl Line {
    pub(super) fn all() -> Line {
        Line(vec![(LOW, HIGH)])
    }

    pub(super) fn is_all(&self) -> bool {
        self.0 == [(LOW, HIGH)]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn intervals(&self) -> &[(i64, i64)] {
        &self.0
    }

    fn interval(low: i64, high: i64) -> Line {
        Line(vec![(low, high)])
    }

    /// The set of one integer.
    pub(super) fn point(k: i64) -> Line {
        Line::interval(k, k)
    }

    /// Some of the intervals of a line.
    pub(super) fn of(intervals: Vec<(i64, i64)>) -> Line {
        Line(intervals)
    }

    /// The least and the greatest member, where there are; nothing for the empty set.
    pub(super) fn ends(&self) -> Option<(Option<i64>, Option<i64>)> {
        let ((low, _), (_, high)) = (self.0.first()?, self.0.last()?);
        Some(((*low != LOW).then_some(*low), (*high != HIGH).then_some(*high)))
    }

    /// Whether an interval of a line has no least or no greatest member.
    pub(super) fn is_unbounded((low, high): (i64, i64)) -> bool {
        low == LOW || high == HIGH
    }

    /// The union of all.
    pub(super) fn union<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Line {
        let mut intervals: Vec<(i64, i64)> = lines.into_iter().flat_map(|line| &line.0).copied().collect();
        intervals.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (low, high) in intervals {
            match merged.last_mut() {
                Some((_, end)) if low <= end.saturating_add(1) => *end = high.max(*end),
                _ => merged.push((low, high)),
            }
        }
        Line(merged)
    }

    pub(super) fn intersect(&self, other: &Line) -> Line {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some((a_low, a_high)), Some((b_low, b_high))) = (a.peek(), b.peek()) {
            let (low, high) = (*a_low.max(b_low), *a_high.min(b_high));
            if low <= high {
                common.push((low, high));
            }
            if a_high <= b_high {
                a.next()
            } else {
                b.next()
            };
        }
        Line(common)
    }

    /// The integers that are not in the set.
    pub(super) fn complement(&self) -> Line {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut from = LOW;
        for (low, high) in &self.0 {
            if from < *low {
                gaps.push((from, low - 1));
            }
            if *high == HIGH {
                return Line(gaps);
            }
            from = high + 1;
        }
        gaps.push((from, HIGH));
        Line(gaps)
    }

    pub(super) fn is_subset(&self, other: &Line) -> bool {
        self.intersect(other) == *self
    }

    /// The set as a predicate of least weight, apart from the ends that are known. Of predicates of the same weight the one with fewer
    /// cases. An equation is written even where a bound would do, since it can be solved.
    pub(super) fn write(&self, form: &Form, known: Known) -> Pred {
        let intervals = &self.0;
        let Some(last) = intervals.len().checked_sub(1) else { return Pred::False };
        let start = |k: usize| usize::from(intervals[k].0 != LOW && !(k == 0 && known.lower));
        let end = |k: usize| usize::from(intervals[k].1 != HIGH && !(k == last && known.upper));
        let gap = |k: usize| if intervals[k].0 - intervals[k - 1].1 == 2 { 1 } else { 2 };
        // For each prefix the least weight with all cases closed and where the last case starts; and the same with that case open.
        let mut closed: Vec<(usize, usize)> = Vec::with_capacity(intervals.len());
        let mut open = (0, 0);
        for (k, (low, high)) in intervals.iter().enumerate() {
            let before = if k == 0 { 0 } else { closed[k - 1].0 };
            let fresh = (before + start(k), k);
            open = match k {
                0 => fresh,
                _ => {
                    let more = (open.0 + gap(k), open.1);
                    if more.0 < fresh.0 || (more.0 == fresh.0 && gap(k) == 1) { more } else { fresh }
                }
            };
            let whole = (open.0 + end(k), open.1);
            let alone = (before + 1, k);
            closed.push(if low == high && alone.0 < whole.0 { alone } else { whole });
        }
        let mut cases = Vec::new();
        let mut until = intervals.len();
        while until > 0 {
            let from = closed[until - 1].1;
            cases.push(self.write_case(form, from, until, known));
            until = from;
        }
        Pred::any(cases)
    }

    /// The intervals `from..until` as a conjunction.
    fn write_case(&self, form: &Form, from: usize, until: usize, known: Known) -> Pred {
        let case = &self.0[from..until];
        let (Some((low, first)), Some((_, high))) = (case.first(), case.last()) else { return Pred::False };
        let lower_known = *low == LOW || (from == 0 && known.lower);
        let upper_known = *high == HIGH || (until == self.0.len() && known.upper);
        if case.len() == 1 && low == first && !(lower_known && upper_known) {
            return form.equal(*low);
        }
        let mut atoms = Vec::new();
        if !lower_known {
            atoms.push(form.at_least(*low));
        }
        if !upper_known {
            atoms.push(form.at_most(*high));
        }
        for pair in case.windows(2) {
            let [(_, before), (after, _)] = pair else { continue };
            atoms.push(match after - before {
                2 => form.unequal(before + 1),
                _ => form.at_most(*before).or(form.at_least(*after)),
            });
        }
        Pred::all(atoms)
    }
}

impl Form {
    fn plus(&self, k: i64) -> Affine {
        // The constant of a form is 0, so this does not overflow.
        self.0.add_constant(k).unwrap_or_default()
    }

    /// `low <= form`
    pub(super) fn at_least(&self, low: i64) -> Pred {
        Pred::non_negative(self.plus(-low))
    }

    /// `form <= high`
    pub(super) fn at_most(&self, high: i64) -> Pred {
        match self.0.scale(-1).and_then(|minus| minus.add_constant(high)) {
            Ok(a) => Pred::non_negative(a),
            // Forms have coefficients whose negation exists, see `Form::of`.
            Err(_) => Pred::True,
        }
    }

    fn equal(&self, value: i64) -> Pred {
        Pred::zero(self.plus(-value))
    }

    fn unequal(&self, value: i64) -> Pred {
        Pred::non_zero(self.plus(-value))
    }

    /// Whether an index occurs, also inside a map application.
    pub(super) fn mentions_index(&self) -> bool {
        self.0.has_indices()
    }

    /// `form in interval`
    pub(super) fn within(&self, (low, high): (i64, i64)) -> Pred {
        Line::interval(low, high).write(self, Known::default())
    }

    /// The form, sign and constant of `sign * form + constant`; nothing where the numbers are too large or not reduced.
    fn of(a: &Affine) -> Option<(Form, i64, i64)> {
        let sign = a.terms().first()?.1.signum();
        let small = |k: i64| k.unsigned_abs() <= LARGEST.unsigned_abs();
        if !small(a.offset()) || !a.terms().iter().all(|(_, k)| small(*k)) || a.divisor() != 1 {
            return None;
        }
        let form = a.add_constant(-a.offset()).and_then(|a| a.scale(sign)).ok()?;
        Some((Form(form), sign, a.offset()))
    }
}

/// What a predicate says of the only form that it mentions; nothing where there are several, or none.
pub(super) fn parse(p: &Pred) -> Option<(Form, Line)> {
    match p {
        Pred::NonNegative(a) => {
            let (form, sign, k) = Form::of(a)?;
            Some((form, if sign > 0 { Line::interval(-k, HIGH) } else { Line::interval(LOW, k) }))
        }
        Pred::Zero(a) | Pred::NonZero(a) => {
            let (form, sign, k) = Form::of(a)?;
            let at = Line::interval(-sign * k, -sign * k);
            Some((form, if matches!(p, Pred::Zero(_)) { at } else { at.complement() }))
        }
        Pred::All(ps) => {
            let (form, lines) = parse_all(ps)?;
            Some((form, lines.iter().fold(Line::all(), |common, line| common.intersect(line))))
        }
        Pred::Any(ps) => {
            let (form, lines) = parse_all(ps)?;
            Some((form, Line::union(&lines)))
        }
        Pred::True | Pred::False | Pred::Relation { .. } | Pred::Exists { .. } => None,
    }
}

fn parse_all(ps: &[Pred]) -> Option<(Form, Vec<Line>)> {
    let mut common: Option<Form> = None;
    let mut lines = Vec::with_capacity(ps.len());
    for p in ps {
        let (form, line) = parse(p)?;
        if common.as_ref().is_some_and(|common| *common != form) {
            return None;
        }
        common = Some(form);
        lines.push(line);
    }
    Some((common?, lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::IndexId;

    fn form() -> Form {
        Form(Affine::index(IndexId(0)))
    }

    /// The weight of the lightest predicate for a set, by trying every way to cut it into cases.
    fn least_weight(line: &Line) -> usize {
        let cuts = line.0.len() - 1;
        let weight = |cut: usize| {
            let mut cases: Vec<Vec<(i64, i64)>> = vec![vec![line.0[0]]];
            for (k, interval) in line.0[1..].iter().enumerate() {
                match cases.last_mut() {
                    Some(case) if cut & (1 << k) == 0 => case.push(*interval),
                    _ => cases.push(vec![*interval]),
                }
            }
            let case = |case: &Vec<(i64, i64)>| {
                let (low, high) = (case[0].0, case[case.len() - 1].1);
                let gaps: usize = case.windows(2).map(|p| if p[1].0 - p[0].1 == 2 { 1 } else { 2 }).sum();
                if low == high { 1 } else { usize::from(low != LOW) + usize::from(high != HIGH) + gaps }
            };
            cases.iter().map(case).sum::<usize>()
        };
        (0..1 << cuts).map(weight).min().unwrap()
    }

    #[test]
    fn line_is_written_shortest_and_read_back() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..4000 {
            let mut members: Vec<bool> = (0..12).map(|_| rng.bool()).collect();
            members[0] |= !members.contains(&true);
            let mut intervals: Vec<Line> =
                (0..12).filter(|i| members[*i as usize]).map(|i| Line::interval(i, i)).collect();
            if members[0] && rng.bool() {
                intervals.push(Line::interval(LOW, 0));
            }
            if members[11] && rng.bool() {
                intervals.push(Line::interval(11, HIGH));
            }
            let line = Line::union(&intervals);
            let p = line.write(&form(), Known::default());
            if line.is_all() {
                assert_eq!(p, Pred::True);
                continue;
            }
            assert_eq!(parse(&p), Some((form(), line.clone())), "{p:?}");
            assert_eq!(p.weight(), least_weight(&line), "{p:?}");
            assert_eq!(line.complement().complement(), line);
            assert!(line.intersect(&line.complement()).is_empty());
            assert!(Line::union([&line, &line.complement()]).is_all());
        }
    }

    #[test]
    fn line_survives_extreme_numbers() {
        for k in [i64::MIN, i64::MIN + 1, i64::MAX, LARGEST, -LARGEST] {
            for c in [1, -1, i64::MIN, i64::MAX] {
                let a = Affine::index(IndexId(0)).scale(c).unwrap_or_default().add_constant(k).unwrap();
                for p in [Pred::NonNegative(a.clone()), Pred::Zero(a.clone()), Pred::NonZero(a)] {
                    if let Some((form, line)) = parse(&p) {
                        assert!(!line.write(&form, Known::default()).is_false());
                        assert_eq!(line.complement().complement(), line);
                    }
                }
            }
        }
    }
}

//! Relations: sets of index tuples.
//!
//! The tuples are kept in lexicographic order, one array for each axis. A question that fixes the axes `B` and asks for the
//! values of axis `a` is answered by a sort order that compares `B` first and `a` next: the tuples that agree on `B` are then
//! neighbours, and among them equal values of `a` are. The stored order serves prefixes, such as the columns of a row; every
//! other order, such as the rows of a column, is built when it is first asked for and kept.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::malformed::{Checked, Malformed};
use super::shape::{check_axes, element_count};
use super::{Coo, CscPattern, Csr, CsrPattern, Dense};

/// A set of index tuples within a shape, in lexicographic order, each once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Relation {
    shape: Vec<usize>,
    columns: Vec<Vec<usize>>,
    len: usize,
    orders: RwLock<Vec<Arc<Order>>>,
    map: OnceLock<Checked<()>>,
}

/// A sort order of the tuples.
#[derive(Debug)]
struct Order {
    /// The axes compared, the most significant first. Ties keep the stored order.
    axes: Vec<usize>,
    /// The tuples in this order, as positions in the stored one.
    entries: Vec<usize>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Parts {
    shape: Vec<usize>,
    columns: Vec<Vec<usize>>,
}

impl TryFrom<Parts> for Relation {
    type Error = Malformed;
    fn try_from(parts: Parts) -> Checked<Self> {
        Relation::new(parts.shape, parts.columns)
    }
}

impl From<Relation> for Parts {
    fn from(relation: Relation) -> Parts {
        Parts { shape: relation.shape, columns: relation.columns }
    }
}

impl Clone for Relation {
    fn clone(&self) -> Self {
        Relation::unchecked(self.shape.clone(), self.columns.clone())
    }
}

impl PartialEq for Relation {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.columns == other.columns
    }
}

impl Eq for Relation {}

impl Relation {
    /// How many sort orders are kept; questions that need yet another are answered by going through all tuples.
    pub const MAX_ORDERS: usize = 64;

    /// Everything but the invariants.
    fn unchecked(shape: Vec<usize>, columns: Vec<Vec<usize>>) -> Self {
        let len = columns.first().map_or(0, Vec::len);
        Relation { shape, columns, len, orders: RwLock::default(), map: OnceLock::new() }
    }

    /// A relation from one array of coordinates for each axis, the tuples in lexicographic order.
    ///
    /// # Errors
    /// If a coordinate is out of range, tuples are out of order or repeated, or the arrays do not fit the shape.
    pub fn new(shape: Vec<usize>, columns: Vec<Vec<usize>>) -> Checked<Self> {
        check_columns(&shape, &columns)?;
        let relation = Relation::unchecked(shape, columns);
        for entry in 1..relation.len {
            match relation.compare(entry - 1, entry) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => {
                    return Err(Malformed::DuplicateEntry { entry, tuple: relation.tuple(entry) });
                }
                std::cmp::Ordering::Greater => {
                    return Err(Malformed::UnsortedEntries { entry, tuple: relation.tuple(entry) });
                }
            }
        }
        Ok(relation)
    }

    /// A relation from tuples in any order.
    ///
    /// # Errors
    /// If a tuple does not fit the shape or occurs twice.
    pub fn from_tuples<T: AsRef<[usize]>>(shape: &[usize], tuples: &[T]) -> Checked<Self> {
        let mut columns = vec![Vec::with_capacity(tuples.len()); shape.len()];
        for (entry, tuple) in tuples.iter().enumerate() {
            let tuple = tuple.as_ref();
            if tuple.len() != shape.len() {
                return Err(Malformed::TupleLength { entry, expected: shape.len(), found: tuple.len() });
            }
            for (column, &k) in columns.iter_mut().zip(tuple) {
                column.push(k);
            }
        }
        let (relation, order) = Relation::sorted(shape.to_vec(), columns)?;
        match relation.first_duplicate() {
            Some(at) => Err(Malformed::DuplicateEntry {
                entry: order.get(at).copied().unwrap_or(at),
                tuple: relation.tuple(at),
            }),
            None => Ok(relation),
        }
    }

    /// No tuples, of a shape that has none.
    pub(super) fn nothing(rank: usize) -> Self {
        Relation::unchecked(vec![0; rank], vec![Vec::new(); rank])
    }

    /// Sorts tuples, repetitions included; also tells where each came from. The sort is stable.
    pub(super) fn sorted(shape: Vec<usize>, columns: Vec<Vec<usize>>) -> Checked<(Self, Vec<usize>)> {
        check_columns(&shape, &columns)?;
        let unsorted = Relation::unchecked(shape, columns);
        let axes: Vec<usize> = (0..unsorted.rank()).collect();
        let order = unsorted.sort_unordered_by(&axes);
        let columns = unsorted.columns.iter().map(|column| order.iter().map(|&at| column[at]).collect()).collect();
        Ok((Relation::unchecked(unsorted.shape, columns), order))
    }

    /// Whether a tuple equals its predecessor.
    pub(super) fn repeats(&self, entry: usize) -> bool {
        entry > 0 && self.compare(entry - 1, entry).is_eq()
    }

    /// The first tuple that equals its predecessor.
    pub(super) fn first_duplicate(&self) -> Option<usize> {
        (1..self.len).find(|&entry| self.repeats(entry))
    }

    /// Drops tuples that equal their predecessor.
    pub(super) fn without_repetitions(self) -> Self {
        let kept: Vec<bool> = (0..self.len).map(|entry| !self.repeats(entry)).collect();
        let keep =
            |column: Vec<usize>| column.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(k, _)| k).collect();
        Relation::unchecked(self.shape, self.columns.into_iter().map(keep).collect())
    }

    /// The tuples on some axes, which are there.
    ///
    /// # Errors
    /// Those of [`Relation::new`], of which there are none for tuples of a relation.
    pub(crate) fn projected(&self, axes: &[usize]) -> Checked<Self> {
        let is_first = axes.iter().copied().eq(0..axes.len());
        let shape = axes.iter().map(|axis| self.shape[*axis]).collect();
        let columns: Vec<Vec<usize>> = axes.iter().map(|axis| self.columns[*axis].clone()).collect();
        let sorted = match is_first {
            true => Relation::unchecked(shape, columns),
            false => Relation::sorted(shape, columns)?.0,
        };
        Ok(sorted.without_repetitions())
    }

    /// The places that a sparse matrix stores.
    pub fn from_csr(pattern: &CsrPattern) -> Self {
        let mut rows = Vec::with_capacity(pattern.len());
        for (row, ends) in pattern.indptr().windows(2).enumerate() {
            if let [start, end] = ends {
                rows.extend(std::iter::repeat_n(row, end - start));
            }
        }
        let cols = pattern.indices().iter().map(|col| *col as usize).collect();
        Relation::unchecked(vec![pattern.rows(), pattern.cols()], vec![rows, cols])
    }

    /// The places that a sparse matrix stores, and the number of the entry at each of them.
    pub(super) fn from_csc(pattern: &CscPattern) -> (Self, Vec<usize>) {
        let (rows, cols) = pattern.entries().unzip();
        let by_columns = Relation::unchecked(vec![pattern.rows(), pattern.cols()], vec![rows, cols]);
        // The rows of a column, and so the columns of a row, stay in order.
        let numbers = by_columns.sort_unordered_by(&[0]);
        let sorted = |column: &Vec<usize>| numbers.iter().filter_map(|&at| column.get(at).copied()).collect();
        let columns = by_columns.columns.iter().map(sorted).collect();
        (Relation::unchecked(by_columns.shape, columns), numbers)
    }

    /// The places of the ones of a tensor of zeros and ones.
    ///
    /// # Errors
    /// If there is another element, or no axis.
    pub fn from_dense(dense: &Dense) -> Checked<Self> {
        let shape = dense.shape().to_vec();
        let mut columns = vec![Vec::new(); shape.len()];
        let mut place = vec![0; shape.len()];
        for (position, &value) in dense.data().iter().enumerate() {
            if value == 1.0 {
                for (column, &k) in columns.iter_mut().zip(&place) {
                    column.push(k);
                }
            } else if value != 0.0 {
                return Err(Malformed::NotBoolean { position, value });
            }
            advance(&mut place, &shape);
        }
        check_columns(&shape, &columns)?;
        Ok(Relation::unchecked(shape, columns))
    }

    /// The relation of a map: the targets of all sources in row-major order. Its shape is that of the sources and the number of
    /// possible targets.
    ///
    /// # Errors
    /// If there is not one target for each source, or a target is out of range.
    pub fn from_map(sources: &[usize], targets: Vec<usize>, codomain: usize) -> Checked<Self> {
        let expected = element_count(sources)?;
        if expected != targets.len() {
            return Err(Malformed::TargetCount { shape: sources.to_vec(), expected, found: targets.len() });
        }
        let mut columns = Vec::with_capacity(sources.len() + 1);
        let mut inner = expected;
        for &length in sources {
            // Coordinates of the axis repeat `inner` times each, and the whole repeats.
            inner = inner.checked_div(length).unwrap_or(0);
            columns.push((0..expected).map(|s| (s / inner.max(1)) % length.max(1)).collect());
        }
        columns.push(targets);
        let shape: Vec<usize> = sources.iter().copied().chain([codomain]).collect();
        check_columns(&shape, &columns)?;
        Ok(Relation::unchecked(shape, columns))
    }

    /// Checks that the last place is a function of the others: that every source has exactly one target.
    ///
    /// # Errors
    /// With the first source that has none or two. The answer is kept.
    pub fn is_map(&self) -> Checked<()> {
        self.map.get_or_init(|| self.check_map()).clone()
    }

    fn check_map(&self) -> Checked<()> {
        let Some((_, sources)) = self.shape.split_last() else { return Err(Malformed::NoAxes) };
        let Some((targets, columns)) = self.columns.split_last() else { return Err(Malformed::NoAxes) };
        let count = sources.iter().try_fold(1u128, |n, &length| n.checked_mul(length as u128)).unwrap_or(u128::MAX);
        // Sorted tuples of a map go through the sources in row-major order.
        let mut source = vec![0; sources.len()];
        for entry in 0..self.len {
            let here = || columns.iter().map(|column| column[entry]);
            if entry as u128 >= count || !here().eq(source.iter().copied()) {
                let source_tuple: Vec<usize> = here().collect();
                return Err(match entry.checked_sub(1) {
                    Some(before) if columns.iter().all(|column| column[before] == column[entry]) => {
                        Malformed::TwoTargets { source_tuple, first: targets[before], second: targets[entry] }
                    }
                    _ => Malformed::NoTarget { source_tuple: source },
                });
            }
            advance(&mut source, sources);
        }
        if (self.len as u128) < count {
            return Err(Malformed::NoTarget { source_tuple: source });
        }
        Ok(())
    }

    /// The ranges of the places.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of places of a tuple.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of tuples.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no tuples.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The coordinates on an axis, for the tuples in lexicographic order; nothing for an axis that is not there. The last axis
    /// of a map holds the targets of the sources in row-major order.
    pub fn column(&self, axis: usize) -> &[usize] {
        self.columns.get(axis).map_or(&[], Vec::as_slice)
    }

    /// A tuple by its place in the lexicographic order; empty outside.
    pub fn tuple(&self, entry: usize) -> Vec<usize> {
        self.columns.iter().filter_map(|column| column.get(entry).copied()).collect()
    }

    /// The tuples in lexicographic order.
    pub fn tuples(&self) -> impl ExactSizeIterator<Item = Vec<usize>> {
        (0..self.len).map(|entry| self.tuple(entry))
    }

    /// Where a tuple is in the lexicographic order.
    pub fn position(&self, tuple: &[i64]) -> Option<usize> {
        if tuple.len() != self.rank() {
            return None;
        }
        let (mut start, mut end) = (0, self.len);
        for (column, &k) in self.columns.iter().zip(tuple) {
            let k = usize::try_from(k).ok()?;
            (start, end) = narrow(&|at| column[at], start, end, k);
        }
        (start < end).then_some(start)
    }

    /// Whether the tuple is in the relation; a tuple outside the shape is not.
    pub fn contains(&self, tuple: &[i64]) -> bool {
        self.position(tuple).is_some()
    }

    /// The target of a source, for a relation that [is a map](Relation::is_map).
    pub fn target(&self, source: &[i64]) -> Option<usize> {
        let (targets, sources) = self.columns.split_last()?;
        if source.len() != sources.len() {
            return None;
        }
        let (mut start, mut end) = (0, self.len);
        for (column, &k) in sources.iter().zip(source) {
            (start, end) = narrow(&|at| column[at], start, end, usize::try_from(k).ok()?);
        }
        if start < end { targets.get(start).copied() } else { None }
    }

    /// The distinct values of an axis among the tuples that agree with `bound` where it says something, in increasing order.
    ///
    /// The first question about a combination of axes may sort the tuples; later ones take time in proportion to the answer,
    /// up to a logarithm. Nothing agrees with a `bound` that has not one place for each axis.
    pub fn candidates(&self, bound: &[Option<i64>], axis: usize) -> Vec<i64> {
        if bound.len() != self.rank() || axis >= self.rank() {
            return Vec::new();
        }
        let mut fixed = Vec::new();
        for (at, k) in bound.iter().enumerate() {
            match k {
                None => {}
                Some(k) => match usize::try_from(*k) {
                    Ok(k) if k < self.shape[at] => fixed.push((at, k)),
                    _ => return Vec::new(),
                },
            }
        }
        let only = fixed.iter().find(|(at, _)| *at == axis).map(|&(_, k)| k);
        fixed.retain(|(at, _)| *at != axis);
        // The stored order serves where the fixed axes are those before `axis`.
        if fixed.iter().map(|(at, _)| *at).eq(0..axis) {
            return self.distinct(&|at| at, &fixed, axis, only);
        }
        let axes: Vec<usize> = fixed.iter().map(|(at, _)| *at).chain([axis]).collect();
        match self.order(&axes) {
            Some(order) => self.distinct(&|at| order.entries[at], &fixed, axis, only),
            None => {
                let agrees = |entry: &usize| fixed.iter().all(|&(at, k)| self.columns[at][*entry] == k);
                let mut values: Vec<i64> = (0..self.len)
                    .filter(agrees)
                    .map(|entry| self.columns[axis][entry])
                    .filter(|&k| only.is_none_or(|only| only == k))
                    .map(|k| k as i64)
                    .collect();
                values.sort_unstable();
                values.dedup();
                values
            }
        }
    }

    /// The answer to `candidates` from an order, given by the stored place of its `k`-th tuple.
    fn distinct(
        &self,
        entry: &impl Fn(usize) -> usize,
        fixed: &[(usize, usize)],
        axis: usize,
        only: Option<usize>,
    ) -> Vec<i64> {
        let (mut start, mut end) = (0, self.len);
        for &(at, k) in fixed {
            (start, end) = narrow(&|place| self.columns[at][entry(place)], start, end, k);
        }
        let value = |place: usize| self.columns[axis][entry(place)];
        if let Some(only) = only {
            (start, end) = narrow(&value, start, end, only);
        }
        let mut values = Vec::new();
        while start < end {
            let k = value(start);
            values.push(k as i64);
            // Steps that double find the next value quickly, whether repetitions are few or many.
            let mut step = 1;
            while end - start > step && value(start + step) == k {
                start += step;
                step *= 2;
            }
            start = partition(start, end.min(start + step), &|place| value(place) <= k);
        }
        values
    }

    /// An order that compares `axes` first to last; nothing when too many are kept already.
    fn order(&self, axes: &[usize]) -> Option<Arc<Order>> {
        let find = |orders: &[Arc<Order>]| orders.iter().find(|order| order.axes == axes).cloned();
        let orders = self.orders.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = find(&orders) {
            return Some(order);
        }
        if orders.len() >= Relation::MAX_ORDERS {
            return None;
        }
        drop(orders);
        let order = Arc::new(Order { axes: axes.to_vec(), entries: self.sort_by(axes) });
        let mut orders = self.orders.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = find(&orders) {
            return Some(order);
        }
        orders.push(order.clone());
        Some(order)
    }

    /// The tuples by `axes`, ties in stored order: a stable counting sort for each axis, the least significant first. No pass is made for the
    /// last axes if the stored order has them in order already: by columns, then rows, a matrix is sorted in one pass.
    pub(crate) fn sort_by(&self, axes: &[usize]) -> Vec<usize> {
        self.sort_unordered_by(&axes[..self.unordered(axes)])
    }

    /// The same, of tuples that are not in lexicographic order.
    fn sort_unordered_by(&self, axes: &[usize]) -> Vec<usize> {
        let mut sorted: Option<Vec<usize>> = None;
        for &axis in axes.iter().rev() {
            sorted = Some(match sorted {
                None => self.counting_sort(0..self.len, axis),
                Some(entries) => self.counting_sort(entries.into_iter(), axis),
            });
        }
        sorted.unwrap_or_else(|| (0..self.len).collect())
    }

    /// How many of the axes are to be sorted by: tuples that agree on these are in the order of the others already. They are in
    /// lexicographic order by the axes that are left, so these others must be the first of them.
    fn unordered(&self, axes: &[usize]) -> usize {
        let in_order = |first: &usize| {
            let (sorted, others) = axes.split_at(*first);
            let left = (0..self.rank()).filter(|axis| !sorted.contains(axis));
            others.iter().copied().eq(left.take(others.len()))
        };
        (0..axes.len()).find(in_order).unwrap_or(axes.len())
    }

    /// Entries by their coordinates on an axis, ties in the order given.
    fn counting_sort(&self, entries: impl ExactSizeIterator<Item = usize>, axis: usize) -> Vec<usize> {
        let (column, length) = (&self.columns[axis], self.shape[axis]);
        if length / 4 > self.len {
            let mut entries: Vec<usize> = entries.collect();
            entries.sort_by_key(|&entry| column[entry]);
            return entries;
        }
        let mut next = vec![0; length + 1];
        for &k in column {
            next[k + 1] += 1;
        }
        for k in 0..length {
            next[k + 1] += next[k];
        }
        let mut sorted = vec![0; entries.len()];
        for entry in entries {
            let to = &mut next[column[entry]];
            sorted[*to] = entry;
            *to += 1;
        }
        sorted
    }

    fn compare(&self, a: usize, b: usize) -> std::cmp::Ordering {
        self.columns
            .iter()
            .map(|column| column[a].cmp(&column[b]))
            .find(|o| o.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    }
}

/// One array for each axis, all of one length, every coordinate within its axis.
fn check_columns(shape: &[usize], columns: &[Vec<usize>]) -> Checked<()> {
    check_axes(shape)?;
    if shape.is_empty() {
        return Err(Malformed::NoAxes);
    }
    if shape.len() != columns.len() {
        return Err(Malformed::CoordinateArrays { axes: shape.len(), found: columns.len() });
    }
    let expected = columns.first().map_or(0, Vec::len);
    for (axis, (column, &length)) in columns.iter().zip(shape).enumerate() {
        if column.len() != expected {
            return Err(Malformed::CoordinateCount { axis, expected, found: column.len() });
        }
        if let Some((entry, &coordinate)) = column.iter().enumerate().find(|(_, k)| **k >= length) {
            return Err(Malformed::CoordinateOutOfRange { entry, axis, coordinate, length });
        }
    }
    Ok(())
}

/// The next place in row-major order; back to the start after the last.
fn advance(place: &mut [usize], shape: &[usize]) {
    for (k, &length) in place.iter_mut().zip(shape).rev() {
        *k += 1;
        if *k < length {
            return;
        }
        *k = 0;
    }
}

/// The first place from `start` where `before` no longer holds.
fn partition(mut start: usize, mut end: usize, before: &impl Fn(usize) -> bool) -> usize {
    while start < end {
        let middle = start + (end - start) / 2;
        if before(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

/// The places of `start..end`, where `value` does not decrease, at which it is `k`.
fn narrow(value: &impl Fn(usize) -> usize, start: usize, end: usize, k: usize) -> (usize, usize) {
    let first = partition(start, end, &|at| value(at) < k);
    (first, partition(first, end, &|at| value(at) <= k))
}

impl From<&Csr> for Relation {
    fn from(csr: &Csr) -> Self {
        Relation::from_csr(csr.pattern())
    }
}

impl From<&Coo> for Relation {
    fn from(coo: &Coo) -> Self {
        Relation::clone(coo.pattern())
    }
}

impl TryFrom<&Dense> for Relation {
    type Error = Malformed;
    fn try_from(dense: &Dense) -> Checked<Self> {
        Relation::from_dense(dense)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn pairs(shape: [usize; 2], tuples: &[[usize; 2]]) -> Relation {
        Relation::from_tuples(&shape, tuples).unwrap()
    }

    fn random(rng: &mut fastrand::Rng) -> Relation {
        let shape: Vec<usize> = (0..rng.usize(1..5)).map(|_| rng.usize(0..5)).collect();
        let mut tuples = BTreeSet::new();
        if !shape.contains(&0) {
            for _ in 0..rng.usize(0..40) {
                tuples.insert(shape.iter().map(|&n| rng.usize(0..n)).collect::<Vec<_>>());
            }
        }
        let mut tuples: Vec<_> = tuples.into_iter().collect();
        rng.shuffle(&mut tuples);
        Relation::from_tuples(&shape, &tuples).unwrap()
    }

    #[test]
    fn relation_candidates_are_those_of_brute_force() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut found = 0;
        for _ in 0..300 {
            let relation = random(&mut rng);
            let rank = relation.rank();
            for _ in 0..30 {
                let axis = rng.usize(0..rank);
                // Also outside the shape, and also on the axis itself.
                let bound: Vec<Option<i64>> = (0..rank).map(|_| rng.bool().then(|| rng.i64(-1..6))).collect();
                let expected: BTreeSet<i64> = relation
                    .tuples()
                    .filter(|t| t.iter().zip(&bound).all(|(&k, b)| b.is_none_or(|b| b == k as i64)))
                    .map(|t| t[axis] as i64)
                    .collect();
                let expected: Vec<i64> = expected.into_iter().collect();
                found += expected.len();
                assert_eq!(relation.candidates(&bound, axis), expected, "{relation:?} {bound:?} {axis}");
            }
            for _ in 0..30 {
                let tuple: Vec<i64> = relation.shape().iter().map(|&n| rng.i64(-1..n as i64 + 1)).collect();
                let expected = relation.tuples().any(|t| t.iter().zip(&tuple).all(|(&k, &l)| k as i64 == l));
                assert_eq!(relation.contains(&tuple), expected);
            }
        }
        assert!(found > 4000, "the questions must have answers: {found}");
    }

    #[test]
    fn relation_sorts_by_any_axes() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut passes = BTreeSet::new();
        for _ in 0..300 {
            let relation = random(&mut rng);
            let mut axes: Vec<usize> = (0..relation.rank()).collect();
            rng.shuffle(&mut axes);
            axes.truncate(rng.usize(0..=axes.len()));
            let mut expected: Vec<usize> = (0..relation.len()).collect();
            expected.sort_by_key(|&entry| axes.iter().map(|&axis| relation.columns[axis][entry]).collect::<Vec<_>>());
            assert_eq!(relation.sort_by(&axes), expected, "{relation:?} {axes:?}");
            passes.insert((axes.clone(), relation.rank(), relation.unordered(&axes)));
        }
        let count = |axes: &[usize], rank, count| assert!(passes.contains(&(axes.to_vec(), rank, count)), "{passes:?}");
        count(&[1, 0], 2, 1);
        count(&[0, 1], 2, 0);
        count(&[2, 0, 1], 3, 1);
        count(&[1, 2, 0], 3, 2);
    }

    #[test]
    fn relation_candidates_of_long_runs() {
        // Runs of 1, 2, 4, .. equal values, so that every length of step is taken.
        let columns: Vec<[usize; 2]> = (0..10).flat_map(|k| (0..1 << k).map(move |j| [k, j])).collect();
        let relation = pairs([20, 1000], &columns);
        assert_eq!(relation.candidates(&[None, None], 0), (0..10).collect::<Vec<i64>>());
        assert_eq!(relation.candidates(&[None, Some(200)], 0), [8, 9]);
        assert_eq!(relation.candidates(&[None, None], 1), (0..512).collect::<Vec<i64>>());
        assert_eq!(relation.candidates(&[Some(3), None], 1), (0..8).collect::<Vec<i64>>());
        assert_eq!(relation.candidates(&[Some(3)], 1), [0; 0]);
        assert_eq!(relation.candidates(&[None, None], 2), [0; 0]);
    }

    #[test]
    fn relation_answers_when_it_keeps_no_more_orders() {
        let rank = 8;
        let tuples: Vec<Vec<usize>> = (0..200).map(|k| (0..rank).map(|axis| (k >> axis) & 1).collect()).collect();
        let tuples: BTreeSet<_> = tuples.into_iter().collect();
        let tuples: Vec<_> = tuples.into_iter().collect();
        let relation = Relation::from_tuples(&vec![2; rank], &tuples).unwrap();
        for mask in 0..1u32 << (rank - 1) {
            let bound: Vec<Option<i64>> = (0..rank).map(|axis| (mask >> axis & 1 == 1).then_some(1)).collect();
            let axis = rank - 1;
            let agrees = |t: &&Vec<usize>| t.iter().zip(&bound).all(|(&k, b)| b.is_none_or(|b| b == k as i64));
            let expected: BTreeSet<i64> = tuples.iter().filter(agrees).map(|t| t[axis] as i64).collect();
            assert_eq!(relation.candidates(&bound, axis), expected.into_iter().collect::<Vec<_>>());
        }
        assert_eq!(relation.orders.read().unwrap().len(), Relation::MAX_ORDERS);
    }

    #[test]
    fn relation_is_shared_between_threads() {
        let relation = pairs([3, 3], &[[2, 0], [0, 0], [1, 2]]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(relation.candidates(&[None, Some(0)], 0), [0, 2]));
            }
        });
    }

    #[test]
    fn relation_maps_have_one_target_for_each_source() {
        let check = |shape: &[usize], tuples: &[&[usize]]| Relation::from_tuples(shape, tuples).unwrap().is_map();
        let none = |source: &[usize]| Err(Malformed::NoTarget { source_tuple: source.to_vec() });
        let two = |source: &[usize], first, second| {
            Err(Malformed::TwoTargets { source_tuple: source.to_vec(), first, second })
        };
        assert_eq!(check(&[3, 2], &[&[0, 1], &[1, 1], &[2, 0]]), Ok(()));
        assert_eq!(check(&[0, 2], &[]), Ok(()));
        assert_eq!(check(&[0, 0], &[]), Ok(()));
        assert_eq!(check(&[2], &[&[1]]), Ok(()));
        assert_eq!(check(&[2], &[]), none(&[]));
        assert_eq!(check(&[2], &[&[0], &[1]]), two(&[], 0, 1));
        assert_eq!(check(&[3, 2], &[]), none(&[0]));
        assert_eq!(check(&[3, 2], &[&[1, 1], &[2, 0]]), none(&[0]));
        assert_eq!(check(&[3, 2], &[&[0, 1], &[2, 0]]), none(&[1]));
        assert_eq!(check(&[3, 2], &[&[0, 1], &[1, 0]]), none(&[2]));
        assert_eq!(check(&[3, 2], &[&[0, 1], &[1, 0], &[1, 1], &[2, 0]]), two(&[1], 0, 1));
        assert_eq!(check(&[3, 2], &[&[0, 1], &[1, 0], &[2, 0], &[2, 1]]), two(&[2], 0, 1));
        assert_eq!(check(&[2, 2, 9], &[&[0, 0, 1], &[0, 1, 1], &[1, 0, 1], &[1, 1, 7]]), Ok(()));
        assert_eq!(check(&[2, 2, 9], &[&[0, 0, 1], &[0, 1, 1], &[1, 1, 7]]), none(&[1, 0]));
        // The number of sources overflows every integer.
        let side = 1 << 60;
        assert_eq!(check(&[side, side, side, 2], &[&[0, 0, 0, 1]]), none(&[0, 0, 1]));
    }

    #[test]
    fn relation_from_map_and_target() {
        let map = Relation::from_map(&[2, 3], vec![4, 0, 1, 1, 2, 4], 5).unwrap();
        assert_eq!((map.shape(), map.is_map()), (&[2, 3, 5][..], Ok(())));
        assert_eq!((map.target(&[1, 1]), map.target(&[0, 0]), map.target(&[2, 0])), (Some(2), Some(4), None));
        assert_eq!(Relation::new(map.shape().to_vec(), map.columns.clone()), Ok(map));
        assert_eq!(Relation::from_map(&[0, 1 << 40], vec![], 0).unwrap().is_map(), Ok(()));
        let count = Malformed::TargetCount { shape: vec![2], expected: 2, found: 1 };
        assert_eq!(Relation::from_map(&[2], vec![0], 5), Err(count));
        let range = Relation::from_map(&[2], vec![0, 5], 5).unwrap_err();
        assert_eq!(range, Malformed::CoordinateOutOfRange { entry: 1, axis: 1, coordinate: 5, length: 5 });
    }

    #[test]
    fn relation_from_other_formats() {
        let dense = Dense::new(&[2, 3], vec![0.0, 1.0, 0.0, 1.0, -0.0, 1.0]).unwrap();
        let relation = pairs([2, 3], &[[0, 1], [1, 0], [1, 2]]);
        assert_eq!(Relation::try_from(&dense), Ok(relation.clone()));
        let csr = Csr::new(2, 3, vec![0, 1, 3], vec![1, 0, 2], vec![0.0; 3]).unwrap();
        assert_eq!(Relation::from(&csr), relation);
        assert_eq!(Relation::from(&Coo::from(&csr)), relation);
        for x in [2.0, 0.5, f64::NAN] {
            let error = Relation::from_dense(&Dense::vector(vec![1.0, x])).unwrap_err();
            assert!(matches!(error, Malformed::NotBoolean { position: 1, .. }));
        }
        let error = Relation::from_tuples(&[2, 2], &[vec![0, 1], vec![0]]).unwrap_err();
        assert_eq!(error, Malformed::TupleLength { entry: 1, expected: 2, found: 1 });
        let error = Relation::from_tuples(&[2, 2], &[[1, 1], [0, 0], [1, 1]]).unwrap_err();
        assert_eq!(error, Malformed::DuplicateEntry { entry: 2, tuple: vec![1, 1] });
        let text = serde_json::to_string(&relation).unwrap();
        assert_eq!(serde_json::from_str::<Relation>(&text).unwrap(), relation);
        assert!(serde_json::from_str::<Relation>(r#"{"shape":[2],"columns":[[1,0]]}"#).is_err());
    }
}

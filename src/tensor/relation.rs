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
use super::{Coo, Csr, CsrPattern, Dense};

/// A set of index tuples within a shape; see the [module](self).
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

    /// Sorts tuples, repetitions included; also tells where each came from. The sort is stable.
    pub(super) fn sorted(shape: Vec<usize>, columns: Vec<Vec<usize>>) -> Checked<(Self, Vec<usize>)> {
        check_columns(&shape, &columns)?;
        let unsorted = Relation::unchecked(shape, columns);
        let axes: Vec<usize> = (0..unsorted.rank()).collect();
        let order = unsorted.sort_by(&axes);
        let columns = unsorted.columns.iter().map(|column| order.iter().map(|&at| column[at]).collect()).collect();
        Ok((Relation::unchecked(unsorted.shape, columns), order))
    }

    /// The first tuple that equals its predecessor.
    pub(super) fn first_duplicate(&self) -> Option<usize> {
        (1..self.len).find(|&entry| self.compare(entry - 1, entry).is_eq())
    }

    /// Drops tuples that equal their predecessor.
    pub(super) fn without_repetitions(self) -> Self {
        let kept: Vec<bool> = (0..self.len).map(|k| k == 0 || !self.compare(k - 1, k).is_eq()).collect();
        let keep =
            |column: Vec<usize>| column.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(k, _)| k).collect();
        Relation::unchecked(self.shape, self.columns.into_iter().map(keep).collect())
    }

    /// The places that a sparse matrix stores.
    pub fn from_csr(pattern: &CsrPattern) -> Self {
        let (rows, cols) = pattern.entries().unzip();
        Relation::unchecked(vec![pattern.rows(), pattern.cols()], vec![rows, cols])
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

    /// The tuples by `axes`, ties in stored order: a stable sort for each axis, the least significant first.
    fn sort_by(&self, axes: &[usize]) -> Vec<usize> {
        let mut entries: Vec<usize> = (0..self.len).collect();
        for &axis in axes.iter().rev() {
            let (column, length) = (&self.columns[axis], self.shape[axis]);
            if length / 4 > self.len {
                entries.sort_by_key(|&entry| column[entry]);
                continue;
            }
            let mut next = vec![0; length + 1];
            for &k in column {
                next[k + 1] += 1;
            }
            for k in 0..length {
                next[k + 1] += next[k];
            }
            let mut sorted = vec![0; self.len];
            for entry in entries {
                let to = &mut next[column[entry]];
                sorted[*to] = entry;
                *to += 1;
            }
            entries = sorted;
        }
        entries
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

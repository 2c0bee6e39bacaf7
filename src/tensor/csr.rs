//! Sparse matrices, stored row by row.
//!
//! Row `i` holds the entries `indptr[i]..indptr[i + 1]` of `indices` (their columns, strictly increasing) and `data` (their
//! values). All of that is checked once, in the constructors and in every deserialisation, so later code indexes without
//! doubts. A stored zero is a stored entry. Two entries at one place are refused: a program would see them apart
//! (`sum of A[i, j]^2` differs), so adding them up is an explicit call, [`Csr::sum_duplicates`] or [`Csr::from_triplets`].
//!
//! The structure is shared and immutable: matrices that differ in their values only, such as a parameter and its gradient,
//! share one [`CsrPattern`] together with its transposed view.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use sprs::{CsMatI, CsMatViewI, SpIndex};

use super::malformed::{Checked, Malformed};
use super::precision::{Element, List, Precision, Slice};
use super::serial::Floats;
use super::shape::{check_axes, filled};
use super::{Coo, Csc, Dense, Relation};
use crate::error::{Error, Result};

/// Which entries of a sparse matrix are stored; the arrays are those of a [`Csr`].
#[derive(Debug)]
pub struct CsrPattern {
    rows: usize,
    cols: usize,
    indptr: Vec<usize>,
    indices: Vec<u32>,
    transposed: OnceLock<Transposed>,
    relation: OnceLock<Arc<Relation>>,
}

/// The entries of a pattern column by column.
#[derive(Debug, PartialEq, Eq)]
pub struct Transposed {
    /// Column `j` holds the entries `indptr[j]..indptr[j + 1]` of the two other arrays.
    pub indptr: Vec<usize>,
    /// The rows of the entries, strictly increasing within a column.
    pub rows: Vec<usize>,
    /// Where the entries are in the row by row order: `data[positions[k]]` is their value.
    pub positions: Vec<usize>,
}

impl CsrPattern {
    /// The longest rows allowed: a column fits 32 bits.
    pub const MAX_COLS: u64 = 1 << 32;

    /// A pattern from arrays with the invariants of a [`Csr`].
    ///
    /// # Errors
    /// The first violation, with its row and position.
    pub fn new(rows: usize, cols: usize, indptr: Vec<usize>, indices: Vec<u32>) -> Checked<Self> {
        check_dimensions(rows, cols)?;
        check_offsets(rows, &indptr, indices.len())?;
        for row in 0..rows {
            let mut previous = None;
            let start = indptr[row];
            for (k, &column) in indices[start..indptr[row + 1]].iter().enumerate() {
                let (position, column) = (start + k, column as usize);
                if column >= cols {
                    return Err(Malformed::ColumnOutOfRange { row, position, column: column as u128, columns: cols });
                }
                match previous {
                    Some(previous) if previous > column => {
                        return Err(Malformed::UnsortedColumns { row, position, previous, column });
                    }
                    Some(previous) if previous == column => {
                        return Err(Malformed::DuplicateColumn { row, position, column });
                    }
                    _ => previous = Some(column),
                }
            }
        }
        Ok(CsrPattern { rows, cols, indptr, indices, transposed: OnceLock::new(), relation: OnceLock::new() })
    }

    /// A pattern from arrays of any integer type.
    ///
    /// # Errors
    /// Like [`CsrPattern::new`]; also for negative integers and those too large.
    pub fn from_integers<P, I>(rows: usize, cols: usize, indptr: &[P], indices: &[I]) -> Checked<Self>
    where
        P: Copy + TryInto<i128>,
        I: Copy + TryInto<i128>,
    {
        check_dimensions(rows, cols)?;
        let indptr = offsets_from(indptr)?;
        check_offsets(rows, &indptr, indices.len())?;
        let mut narrow = Vec::with_capacity(indices.len());
        for row in 0..rows {
            let start = indptr[row];
            for (k, &column) in indices[start..indptr[row + 1]].iter().enumerate() {
                narrow.push(column_from(column, row, start + k, cols)?);
            }
        }
        CsrPattern::new(rows, cols, indptr, narrow)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The number of stored entries.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Where each row starts, and where the last one ends.
    pub fn indptr(&self) -> &[usize] {
        &self.indptr
    }

    /// The columns of the entries, row by row.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The entries of a row as positions, none outside.
    pub fn row(&self, row: usize) -> std::ops::Range<usize> {
        match (self.indptr.get(row), self.indptr.get(row.saturating_add(1))) {
            (Some(&start), Some(&end)) => start..end,
            _ => 0..0,
        }
    }

    /// Where a place is stored.
    pub fn position(&self, row: usize, col: usize) -> Option<usize> {
        let entries = self.row(row);
        let col = u32::try_from(col).ok()?;
        self.indices[entries.clone()].binary_search(&col).ok().map(|at| entries.start + at)
    }

    /// The row and the column of every entry in order.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize)> {
        let ends = self.indptr.iter().skip(1);
        let mut row_ends = ends.enumerate().peekable();
        self.indices.iter().enumerate().map(move |(position, &col)| {
            while row_ends.next_if(|&(_, &end)| end <= position).is_some() {}
            (row_ends.peek().map_or(0, |&(row, _)| row), col as usize)
        })
    }

    /// The places that are stored, built at the first call.
    pub fn relation(&self) -> &Arc<Relation> {
        self.relation.get_or_init(|| Arc::new(Relation::from_csr(self)))
    }

    /// The same entries column by column, built at the first call in time and memory for the entries and columns.
    pub fn transposed(&self) -> &Transposed {
        self.transposed.get_or_init(|| {
            // Counting sort by column; going through the rows in order keeps them sorted in each column.
            let mut indptr = vec![0; self.cols + 1];
            for &col in &self.indices {
                indptr[col as usize + 1] += 1;
            }
            for col in 0..self.cols {
                indptr[col + 1] += indptr[col];
            }
            let mut next = indptr.clone();
            let mut rows = vec![0; self.len()];
            let mut positions = vec![0; self.len()];
            for (position, (row, col)) in self.entries().enumerate() {
                let to = next[col];
                next[col] += 1;
                rows[to] = row;
                positions[to] = position;
            }
            Transposed { indptr, rows, positions }
        })
    }
}

impl PartialEq for CsrPattern {
    fn eq(&self, other: &Self) -> bool {
        let CsrPattern { rows, cols, indptr, indices, transposed: _, relation: _ } = self;
        (*rows, *cols) == (other.rows, other.cols) && *indptr == other.indptr && *indices == other.indices
    }
}

impl Eq for CsrPattern {}

/// Rows and columns that indices can name.
fn check_dimensions(rows: usize, cols: usize) -> Checked<()> {
    check_axes(&[rows, cols])?;
    if cols as u64 > CsrPattern::MAX_COLS {
        return Err(Malformed::AxisTooLong { axis: 1, length: cols as u128, limit: CsrPattern::MAX_COLS });
    }
    Ok(())
}

/// Offsets that cut `stored` entries into `rows` rows.
fn check_offsets(rows: usize, indptr: &[usize], stored: usize) -> Checked<()> {
    let expected = rows as u128 + 1;
    if indptr.len() as u128 != expected {
        return Err(Malformed::OffsetCount { rows, expected, found: indptr.len() });
    }
    match indptr.first() {
        Some(0) | None => {}
        Some(&offset) => return Err(Malformed::FirstOffset { offset }),
    }
    for (row, pair) in indptr.windows(2).enumerate() {
        if let &[start, end] = pair
            && start > end
        {
            return Err(Malformed::DecreasingOffset { row, start, end });
        }
    }
    match indptr.last() {
        Some(&offset) if offset > stored => Err(Malformed::LastOffsetTooLarge { offset, stored }),
        Some(&offset) if offset < stored => Err(Malformed::LastOffsetTooSmall { offset, stored }),
        _ => Ok(()),
    }
}

/// A sparse matrix of reals, row by row.
///
/// Row `i` holds the entries `indptr[i]..indptr[i + 1]` of `indices` and `data`. Offsets start at 0, do not decrease and end at
/// the number of entries; the columns of a row increase strictly and are in range. A stored zero is a stored entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Csr {
    pattern: Arc<CsrPattern>,
    data: List,
}

/// Wider than the matrix, so that a wrong number is refused by our own check.
#[derive(Serialize, Deserialize)]
struct Parts {
    rows: i64,
    cols: i64,
    indptr: Vec<i64>,
    indices: Vec<i64>,
    data: Floats,
    #[serde(default, skip_serializing_if = "Precision::is_double")]
    precision: Precision,
}

impl TryFrom<Parts> for Csr {
    type Error = Malformed;
    fn try_from(parts: Parts) -> Checked<Self> {
        let length = |axis, length: i64| {
            usize::try_from(length).map_err(|_| Malformed::NegativeLength { axis, length: i128::from(length) })
        };
        let (rows, cols) = (length(0, parts.rows)?, length(1, parts.cols)?);
        let csr = Csr::from_integers(rows, cols, &parts.indptr, &parts.indices, parts.data.into())?;
        Ok(if parts.precision.is_double() { csr } else { csr.in_precision(parts.precision) })
    }
}

impl From<Csr> for Parts {
    fn from(csr: Csr) -> Parts {
        Parts {
            // All of these fit: dimensions are checked, and positions are lengths of arrays.
            rows: csr.rows() as i64,
            cols: csr.cols() as i64,
            indptr: csr.indptr().iter().map(|&p| p as i64).collect(),
            indices: csr.indices().iter().map(|&j| i64::from(j)).collect(),
            precision: csr.precision(),
            data: csr.data.into_wide().into(),
        }
    }
}

impl Csr {
    /// A matrix from arrays with the invariants of a [`Csr`].
    ///
    /// # Errors
    /// The first violation, with its row and position.
    pub fn new(rows: usize, cols: usize, indptr: Vec<usize>, indices: Vec<u32>, data: Vec<f64>) -> Checked<Self> {
        // Lengths first: they are what a caller most likely mixed up.
        if indices.len() != data.len() {
            return Err(Malformed::ValueCount { coordinates: indices.len(), values: data.len() });
        }
        Csr::with_pattern(Arc::new(CsrPattern::new(rows, cols, indptr, indices)?), data)
    }

    /// A matrix from arrays of any integer type, such as the `i32` of other libraries.
    ///
    /// # Errors
    /// Like [`Csr::new`]; also for negative integers and those too large.
    pub fn from_integers<P, I>(rows: usize, cols: usize, indptr: &[P], indices: &[I], data: Vec<f64>) -> Checked<Self>
    where
        P: Copy + TryInto<i128>,
        I: Copy + TryInto<i128>,
    {
        if indices.len() != data.len() {
            return Err(Malformed::ValueCount { coordinates: indices.len(), values: data.len() });
        }
        Csr::with_pattern(Arc::new(CsrPattern::from_integers(rows, cols, indptr, indices)?), data)
    }

    /// A matrix with a given pattern.
    ///
    /// # Errors
    /// If there is not one value for each entry.
    pub fn with_pattern(pattern: Arc<CsrPattern>, data: Vec<f64>) -> Checked<Self> {
        Csr::stored(pattern, data)
    }

    /// A matrix in single precision with a given pattern.
    ///
    /// # Errors
    /// If there is not one value for each entry.
    pub fn single(pattern: Arc<CsrPattern>, data: Vec<f32>) -> Checked<Self> {
        Csr::stored(pattern, data)
    }

    pub(crate) fn stored<A: Element>(pattern: Arc<CsrPattern>, data: Vec<A>) -> Checked<Self> {
        if pattern.len() != data.len() {
            return Err(Malformed::ValueCount { coordinates: pattern.len(), values: data.len() });
        }
        Ok(Csr { pattern, data: A::list(data) })
    }

    /// A matrix from arrays whose rows may be out of order and may hold a column more than once; the values of one place are
    /// added from left to right.
    ///
    /// # Errors
    /// For every other violation, as [`Csr::from_integers`].
    pub fn sum_duplicates<P, I>(rows: usize, cols: usize, indptr: &[P], indices: &[I], data: &[f64]) -> Checked<Self>
    where
        P: Copy + TryInto<i128>,
        I: Copy + TryInto<i128>,
    {
        if indices.len() != data.len() {
            return Err(Malformed::ValueCount { coordinates: indices.len(), values: data.len() });
        }
        check_dimensions(rows, cols)?;
        let indptr = offsets_from(indptr)?;
        check_offsets(rows, &indptr, indices.len())?;
        let mut summed = (Vec::with_capacity(indptr.len()), Vec::new(), Vec::new());
        summed.0.push(0);
        let mut entries: Vec<(u32, f64)> = Vec::new();
        for row in 0..rows {
            entries.clear();
            for position in indptr[row]..indptr[row + 1] {
                entries.push((column_from(indices[position], row, position, cols)?, data[position]));
            }
            entries.sort_by_key(|&(column, _)| column);
            let start = summed.1.len();
            for &(column, x) in &entries {
                match summed.2.last_mut() {
                    Some(sum) if summed.1.len() > start && summed.1.last() == Some(&column) => *sum += x,
                    _ => {
                        summed.1.push(column);
                        summed.2.push(x);
                    }
                }
            }
            summed.0.push(summed.1.len());
        }
        Csr::new(rows, cols, summed.0, summed.1, summed.2)
    }

    /// A matrix from the row, the column and the value of each entry, in any order. The values of one place are added from left to right.
    ///
    /// ```
    /// use iverson::tensor::Csr;
    ///
    /// let matrix = Csr::from_triplets(2, 3, &[(1, 2, 0.5), (0, 0, 1.0), (1, 2, 0.25)])?;
    /// assert_eq!((matrix.data(), matrix.indices()), (&[1.0, 0.75][..], &[0, 2][..]));
    /// # Ok::<(), iverson::tensor::Malformed>(())
    /// ```
    ///
    /// # Errors
    /// For a row or a column beyond the shape, and for a shape that is too large.
    #[doc(alias = "from_coordinates")]
    pub fn from_triplets(rows: usize, cols: usize, triplets: &[(usize, usize, f64)]) -> Checked<Self> {
        let of = |axis: usize| triplets.iter().map(move |entry| if axis == 0 { entry.0 } else { entry.1 });
        for (axis, length) in [rows, cols].into_iter().enumerate() {
            if let Some((entry, value)) = of(axis).enumerate().find(|(_, value)| *value >= length) {
                return Err(Malformed::CoordinateOutOfRange { entry, axis, coordinate: value, length });
            }
        }
        let mut order: Vec<usize> = (0..triplets.len()).collect();
        order.sort_by_key(|entry| triplets[*entry].0);
        let mut indptr = Vec::with_capacity(rows.saturating_add(1).min(triplets.len() + (1 << 20)));
        indptr.extend((0..=rows).map(|row| order.partition_point(|entry| triplets[*entry].0 < row)));
        let indices: Vec<usize> = order.iter().map(|entry| triplets[*entry].1).collect();
        let data: Vec<f64> = order.iter().map(|entry| triplets[*entry].2).collect();
        Csr::sum_duplicates(rows, cols, &indptr, &indices, &data)
    }

    /// The entries of a matrix that is stored column by column.
    ///
    /// # Errors
    /// If there are too many columns, or no memory for the offsets of all rows.
    pub fn from_csc(csc: &Csc) -> Checked<Self> {
        Csr::from_coo(&Coo::from(csc))
    }

    /// The stored entries of a sparse tensor with two axes.
    ///
    /// # Errors
    /// If there are not two axes, or too many rows or columns.
    pub fn from_coo(coo: &Coo) -> Checked<Self> {
        let relation = coo.pattern();
        let &[rows, cols] = relation.shape() else {
            return Err(Malformed::NotAMatrix { found: relation.shape().len() });
        };
        check_dimensions(rows, cols)?;
        let mut indptr = filled(rows + 1, 0)?;
        let mut indices = Vec::with_capacity(relation.len());
        for (position, (&row, &column)) in relation.column(0).iter().zip(relation.column(1)).enumerate() {
            indptr[row + 1] += 1;
            indices.push(column_from(column, row, position, cols)?);
        }
        for row in 0..rows {
            indptr[row + 1] += indptr[row];
        }
        let pattern = CsrPattern::new(rows, cols, indptr, indices)?;
        Ok(Csr { pattern: Arc::new(pattern), data: coo.list().clone() })
    }

    /// The elements of a dense matrix that are not zero; a NaN is not zero.
    ///
    /// # Errors
    /// If the tensor is not a matrix, or has too many columns.
    pub fn from_dense(dense: &Dense) -> Checked<Self> {
        let &[rows, cols] = dense.shape() else { return Err(Malformed::NotAMatrix { found: dense.shape().len() }) };
        check_dimensions(rows, cols)?;
        let mut indptr = filled(rows + 1, 0)?;
        let (mut indices, mut data) = (Vec::new(), Vec::new());
        // A matrix without columns may have more rows than it is worth to walk through.
        if cols > 0 {
            for (row, elements) in dense.data().chunks_exact(cols).enumerate() {
                for (column, &x) in elements.iter().enumerate() {
                    if x != 0.0 {
                        indices.push(column as u32);
                        data.push(x);
                    }
                }
                indptr[row + 1] = indices.len();
            }
        }
        Csr::new(rows, cols, indptr, indices, data)
    }

    /// A matrix of the `sprs` library, of `f64` or `f32`. The layout is checked again: views of that library may carry offsets that do not start
    /// at zero, and its unchecked constructors may hold anything.
    ///
    /// # Errors
    /// If the matrix is stored column by column, or as [`Csr::new`].
    pub fn from_sprs<A: Element, I: SpIndex, P: SpIndex>(matrix: CsMatViewI<'_, A, I, P>) -> Checked<Self> {
        if !matrix.is_csr() {
            return Err(Malformed::ColumnMajor);
        }
        let (rows, cols) = matrix.shape();
        let offsets = matrix.proper_indptr();
        let wide = |x: Option<i64>| x.unwrap_or(-1);
        let indptr: Vec<i64> = offsets.iter().map(|p| wide(p.to_i64())).collect();
        let indices: Vec<i64> = matrix.indices().iter().map(|i| wide(i.to_i64())).collect();
        let pattern = CsrPattern::from_integers(rows, cols, &indptr, &indices)?;
        Csr::stored(Arc::new(pattern), matrix.data().to_vec())
    }

    /// The matrix as one of the `sprs` library; one in single precision is widened.
    ///
    /// # Errors
    /// Never: both libraries have the same invariants. An error is a bug.
    pub fn to_sprs(&self) -> Result<CsMatI<f64, usize>> {
        self.sprs_of(self.data().to_vec())
    }

    /// The matrix as one of the `sprs` library in single precision; one in double precision is rounded.
    ///
    /// # Errors
    /// Never, as [`Csr::to_sprs`].
    pub fn to_single_sprs(&self) -> Result<CsMatI<f32, usize>> {
        match self.numbers() {
            Slice::Single(data) => self.sprs_of(data.to_vec()),
            Slice::Double(data) => self.sprs_of(data.iter().map(|x| f32::narrow(*x)).collect()),
        }
    }

    fn sprs_of<A: Element>(&self, data: Vec<A>) -> Result<CsMatI<A, usize>> {
        let indices = self.indices().iter().map(|&j| j as usize).collect();
        CsMatI::try_new((self.rows(), self.cols()), self.indptr().to_vec(), indices, data)
            .map_err(|(_, _, _, error)| Error::bug("tensor", format!("sprs refuses a checked matrix: {error}")))
    }

    /// The matrix with its zeros.
    ///
    /// # Errors
    /// If it is too large for that.
    pub fn to_dense(&self) -> Checked<Dense> {
        let mut dense = Dense::zeros(&[self.rows(), self.cols()])?;
        let elements = dense.data_mut();
        for ((row, col), &x) in self.pattern.entries().zip(self.data()) {
            elements[row * self.pattern.cols + col] = x;
        }
        Ok(dense)
    }

    /// Which entries are stored.
    pub fn pattern(&self) -> &Arc<CsrPattern> {
        &self.pattern
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.pattern.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.pattern.cols
    }

    /// Where each row starts, and where the last one ends.
    pub fn indptr(&self) -> &[usize] {
        &self.pattern.indptr
    }

    /// The columns of the entries, row by row.
    pub fn indices(&self) -> &[u32] {
        &self.pattern.indices
    }

    /// The values of the entries, row by row; of a matrix in single precision a wide copy.
    pub fn data(&self) -> &[f64] {
        self.data.wide()
    }

    /// The values of the entries, row by row; makes a matrix in single precision one in double precision.
    pub fn data_mut(&mut self) -> &mut [f64] {
        self.data.make_double().map_or(&mut [], Vec::as_mut_slice)
    }

    /// The values of the entries as they are stored, row by row.
    pub fn numbers(&self) -> Slice<'_> {
        self.data.numbers()
    }

    /// How the values are stored.
    pub fn precision(&self) -> Precision {
        self.data.precision()
    }

    /// The matrix with its values widened or rounded.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Csr {
        Csr { pattern: self.pattern.clone(), data: self.data.in_precision(precision) }
    }

    pub(super) fn into_parts(self) -> (Arc<CsrPattern>, List) {
        (self.pattern, self.data)
    }

    pub(super) fn list(&self) -> &List {
        &self.data
    }

    /// The stored value at a place, nothing where none is stored.
    pub fn get(&self, row: usize, col: usize) -> Option<f64> {
        self.pattern.position(row, col).and_then(|at| self.numbers().get(at))
    }
}

/// Row offsets from integers of any type.
fn offsets_from<P: Copy + TryInto<i128>>(indptr: &[P]) -> Checked<Vec<usize>> {
    let offset = |(row, &p): (usize, &P)| {
        let offset = p.try_into().unwrap_or(i128::MAX);
        usize::try_from(offset).map_err(|_| match offset {
            ..0 => Malformed::NegativeOffset { row, offset },
            _ => Malformed::OffsetOverflow { row, offset },
        })
    };
    indptr.iter().enumerate().map(offset).collect()
}

/// A column from an integer of any type.
fn column_from<I: TryInto<i128>>(column: I, row: usize, position: usize, columns: usize) -> Checked<u32> {
    let column = column.try_into().unwrap_or(i128::MAX);
    if column < 0 {
        return Err(Malformed::NegativeColumn { row, position, column });
    }
    match u32::try_from(column) {
        Ok(narrow) if (narrow as usize) < columns => Ok(narrow),
        _ => Err(Malformed::ColumnOutOfRange { row, position, column: column.unsigned_abs(), columns }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Csr {
        // Rows 0, 2, 3, 4 and the last are empty; (1, 0) stores a zero.
        Csr::new(7, 3, vec![0, 0, 2, 2, 2, 2, 5, 5], vec![0, 2, 0, 1, 2], vec![0.0, 1.0, 2.0, f64::NAN, 4.0]).unwrap()
    }

    /// Rows, columns, offsets, indices, number of values, and the message.
    type Bad = (i64, i64, &'static [i64], &'static [i64], usize, &'static str);

    const BAD: &[Bad] = &[
        (2, 3, &[0, 1, 2], &[0, 1], 1, "2 coordinates are stored with 1 values"),
        (2, 3, &[0, 1, 2], &[0], 2, "1 coordinates are stored with 2 values"),
        (0, 3, &[0], &[], 1, "0 coordinates are stored with 1 values"),
        (2, 3, &[], &[], 0, "2 rows need 3 row offsets, there are 0"),
        (2, 3, &[0, 1], &[0], 1, "2 rows need 3 row offsets, there are 2"),
        (2, 3, &[0, 1, 2, 2], &[0, 1], 2, "2 rows need 3 row offsets, there are 4"),
        (0, 0, &[], &[], 0, "0 rows need 1 row offsets, there are 0"),
        (0, 0, &[0, 0], &[], 0, "0 rows need 1 row offsets, there are 2"),
        (i64::MAX, 1, &[0], &[], 0, "9223372036854775807 rows need 9223372036854775808 row offsets, there are 1"),
        (2, 3, &[1, 1, 2], &[0, 1], 2, "the first row offset must be 0, it is 1"),
        (0, 3, &[2], &[0, 1], 2, "the first row offset must be 0, it is 2"),
        (2, 3, &[-1, 1, 2], &[0, 1], 2, "row offset 0 is negative: -1"),
        (2, 3, &[0, 1, -2], &[0, 1], 2, "row offset 2 is negative: -2"),
        (3, 3, &[0, 2, 1, 2], &[0, 1], 2, "the row offsets decrease from 2 to 1 at row 1"),
        (3, 3, &[0, 3, 1, 2], &[0, 1], 2, "the row offsets decrease from 3 to 1 at row 1"),
        (2, 3, &[0, 2, 0], &[0, 1], 2, "the row offsets decrease from 2 to 0 at row 1"),
        (2, 3, &[0, 1, 3], &[0, 1], 2, "the last row offset is 3, but only 2 entries are stored"),
        (1, 3, &[0, i64::MAX], &[0], 1, "the last row offset is 9223372036854775807, but only 1 entries are stored"),
        (2, 3, &[0, 1, 1], &[0, 1], 2, "the last row offset is 1, but 2 entries are stored"),
        (2, 3, &[0, 0, 0], &[0], 1, "the last row offset is 0, but 1 entries are stored"),
        (0, 3, &[0], &[0], 1, "the last row offset is 0, but 1 entries are stored"),
        (2, 3, &[0, 1, 2], &[0, 3], 2, "row 1 has column 3 (entry 1), but there are only 3 columns"),
        (1, 0, &[0, 1], &[0], 1, "row 0 has column 0 (entry 0), but there are only 0 columns"),
        (1, 3, &[0, 1], &[4294967296], 1, "row 0 has column 4294967296 (entry 0), but there are only 3 columns"),
        (
            1,
            4294967296,
            &[0, 1],
            &[4294967296],
            1,
            "row 0 has column 4294967296 (entry 0), but there are only 4294967296",
        ),
        (1, 3, &[0, 1], &[i64::MAX], 1, "row 0 has column 9223372036854775807 (entry 0)"),
        (2, 3, &[0, 1, 2], &[0, -1], 2, "row 1 has the negative column -1 (entry 1)"),
        (1, 3, &[0, 1], &[i64::MIN], 1, "row 0 has the negative column -9223372036854775808 (entry 0)"),
        (1, 3, &[0, 2], &[2, 0], 2, "row 0 has column 0 after column 2 (entry 1)"),
        (2, 3, &[0, 1, 4], &[2, 0, 2, 1], 4, "row 1 has column 1 after column 2 (entry 3)"),
        (1, 3, &[0, 3], &[2, 0, 2], 3, "row 0 has column 0 after column 2 (entry 1)"),
        (1, 3, &[0, 2], &[1, 1], 2, "row 0 has column 1 twice (entry 1)"),
        (3, 3, &[0, 1, 1, 3], &[1, 2, 2], 3, "row 2 has column 2 twice (entry 2)"),
        (1, 4294967297, &[0, 0], &[], 0, "axis 1 has length 4294967297, the limit is 4294967296"),
        (-1, 3, &[0], &[], 0, "axis 0 has the negative length -1"),
        (1, -3, &[0, 0], &[], 0, "axis 1 has the negative length -3"),
    ];

    #[test]
    fn csr_refuses_bad_data() {
        for &(rows, cols, indptr, indices, values, message) in BAD {
            let row = format!("{rows} {cols} {indptr:?} {indices:?}");
            let data = vec![1.0; values];
            if let (Ok(m), Ok(n)) = (usize::try_from(rows), usize::try_from(cols)) {
                let error = Csr::from_integers(m, n, indptr, indices, data.clone()).expect_err(&row).to_string();
                assert!(error.starts_with(message), "{row}: {error}");
            }
            let text = serde_json::json!({
                "rows": rows, "cols": cols, "indptr": indptr, "indices": indices, "data": data,
            });
            let error = serde_json::from_value::<Csr>(text).expect_err(&row).to_string();
            assert!(error.starts_with(message), "{row}: {error}");
        }
    }

    #[test]
    fn csr_refuses_bad_data_of_other_widths() {
        let overflow = Csr::from_integers(1, 3, &[0, u128::MAX], &[0u8], vec![1.0]).unwrap_err();
        assert!(matches!(overflow, Malformed::OffsetOverflow { row: 1, .. }));
        let column = Csr::from_integers(1, 3, &[0i32, 1], &[usize::MAX], vec![1.0]).unwrap_err();
        assert_eq!(column, Malformed::ColumnOutOfRange { row: 0, position: 0, column: usize::MAX as u128, columns: 3 });
        let negative = Csr::from_integers(1, 3, &[0u8, 1], &[-1i32], vec![1.0]).unwrap_err();
        assert_eq!(negative, Malformed::NegativeColumn { row: 0, position: 0, column: -1 });
        let column = Csr::new(1, 3, vec![0, 1], vec![3], vec![1.0]).unwrap_err();
        assert_eq!(column, Malformed::ColumnOutOfRange { row: 0, position: 0, column: 3, columns: 3 });
        assert!(matches!(Csr::new(1, 3, vec![0, 2, 1], vec![0], vec![1.0]), Err(Malformed::OffsetCount { .. })));
        assert!(matches!(Csr::new(2, 3, vec![0, 2, 1], vec![0], vec![1.0]), Err(Malformed::DecreasingOffset { .. })));
        let rows = Csr::new(usize::MAX, 3, vec![0], vec![], vec![]).unwrap_err();
        assert!(matches!(rows, Malformed::AxisTooLong { axis: 0, .. }));
    }

    #[test]
    fn csr_duplicates_are_summed_on_request_only() {
        let (indptr, indices, data) = ([0, 3], [2, 0, 2], [1.0, 2.0, 3.0]);
        assert!(Csr::from_integers(1, 3, &indptr, &indices, data.to_vec()).is_err());
        let csr = Csr::sum_duplicates(1, 3, &indptr, &indices, &data).unwrap();
        assert_eq!((csr.indices(), csr.data()), (&[0, 2][..], &[2.0, 4.0][..]));
        assert_eq!(csr.data().iter().map(|x| x * x).sum::<f64>(), 20.0);
        // The end of one row and the start of the next are no duplicates.
        let rows = Csr::sum_duplicates(3, 3, &[0, 2, 4, 4], &[2, 2, 2, 0], &[1.0, 2.0, 4.0, 8.0]).unwrap();
        assert_eq!(rows, Csr::new(3, 3, vec![0, 1, 3, 3], vec![2, 0, 2], vec![3.0, 8.0, 4.0]).unwrap());
        assert!(Csr::sum_duplicates(1, 3, &[0, 1], &[3], &[1.0]).is_err());
        assert!(Csr::sum_duplicates(1, 3, &[0, 2], &[0], &[1.0]).is_err());
    }

    #[test]
    fn csr_keeps_stored_zeros_and_empty_rows() {
        let csr = sample();
        assert_eq!(csr.data().len(), 5);
        assert_eq!((csr.get(1, 0), csr.get(1, 1), csr.get(0, 0), csr.get(7, 0)), (Some(0.0), None, None, None));
        let entries: Vec<_> = csr.pattern().entries().collect();
        assert_eq!(entries, [(1, 0), (1, 2), (5, 0), (5, 1), (5, 2)]);
        let dense = csr.to_dense().unwrap();
        assert_eq!(dense.get(&[5, 2]), Some(4.0));
        // What is not zero survives the way through dense storage; the stored zero does not.
        assert_eq!(Csr::from_dense(&dense).unwrap().data().len(), 4);
    }

    #[test]
    fn csr_transposed_lists_columns() {
        let csr = sample();
        let t = csr.pattern().transposed();
        assert_eq!(t.indptr, [0, 2, 3, 5]);
        assert_eq!(t.rows, [1, 5, 5, 1, 5]);
        assert_eq!(t.positions, [0, 2, 3, 1, 4]);
        let none = Csr::new(0, 0, vec![0], vec![], vec![]).unwrap();
        assert_eq!(none.pattern().transposed().indptr, [0]);
    }

    #[test]
    fn csr_converts_to_and_from_sprs() {
        let csr = Csr::new(4, 3, vec![0, 1, 2, 4, 4], vec![1, 0, 0, 2], vec![1.0, 2.0, 3.0, 0.0]).unwrap();
        let matrix = csr.to_sprs().unwrap();
        assert_eq!(Csr::from_sprs(matrix.view()).unwrap(), csr);
        assert_eq!(Csr::from_sprs(matrix.transpose_view()).unwrap_err(), Malformed::ColumnMajor);
        // A slice keeps the offsets of the whole: 1, 2, 4.
        let slice = matrix.slice_outer(1..3);
        assert_eq!(slice.indptr().raw_storage(), [1, 2, 4]);
        let expected = Csr::new(2, 3, vec![0, 1, 3], vec![0, 0, 2], vec![2.0, 3.0, 0.0]).unwrap();
        assert_eq!(Csr::from_sprs(slice).unwrap(), expected);
        let narrow: CsMatI<f64, u16, u32> = matrix.to_other_types();
        assert_eq!(Csr::from_sprs(narrow.view()).unwrap(), csr);
    }

    #[test]
    fn csr_round_trips() {
        let csr = sample();
        assert_eq!(Csr::from_coo(&Coo::from(&csr)).unwrap().pattern(), csr.pattern());
        let text = serde_json::to_string(&csr).unwrap();
        let back: Csr = serde_json::from_str(&text).unwrap();
        assert_eq!(back.pattern(), csr.pattern());
        let bits = |csr: &Csr| csr.data().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back), bits(&csr));
    }

    #[test]
    fn csr_random_round_trips() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let (m, n) = (rng.usize(0..6), rng.usize(0..6));
            let data: Vec<f64> = (0..m * n).map(|_| f64::from(rng.i32(-2..3).max(0))).collect();
            let dense = Dense::new(&[m, n], data).unwrap();
            let csr = Csr::from_dense(&dense).unwrap();
            assert_eq!(csr.to_dense().unwrap(), dense);
            assert_eq!(Csr::from_coo(&Coo::from_dense(&dense).unwrap()).unwrap(), csr);
            assert_eq!(Coo::from(&csr).to_dense().unwrap(), dense);
            let t = csr.pattern().transposed();
            for j in 0..n {
                for k in t.indptr[j]..t.indptr[j + 1] {
                    assert_eq!(csr.pattern().position(t.rows[k], j), Some(t.positions[k]));
                }
            }
        }
    }
}

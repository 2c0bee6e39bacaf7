//! Sparse matrices, stored column by column.
//!
//! Column `j` holds the entries `indptr[j]..indptr[j + 1]` of `indices` (their rows, strictly increasing) and `data` (their
//! values). These are the arrays of the transposed matrix row by row, so what a [`Csr`] checks is checked of the columns, and
//! what it refuses is refused here: [`Malformed::ByColumns`].
//!
//! The values stay where they are: kernels number the entries in this order, walk columns without looking anything up, and
//! go through the view of the rows as they go through that of the columns of a [`Csr`]. A sum over all entries is taken column by column.
//!
//! The structure is shared and immutable: matrices that differ in their values only share one [`CscPattern`].

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use sprs::{CsMatI, CsMatViewI, SpIndex};

use super::malformed::{Checked, Malformed};
use super::precision::{Element, List, Precision, Slice};
use super::serial::Floats;
use super::shape::filled;
use super::{Coo, Csr, CsrPattern, Dense, Relation};
use crate::error::{Error, Result};

/// Which entries of a sparse matrix are stored; the arrays are those of a [`Csc`].
#[derive(Debug)]
pub struct CscPattern {
    /// Of the transposed matrix.
    transposed: Arc<CsrPattern>,
    by_rows: OnceLock<ByRows>,
}

/// The entries of a pattern row by row.
#[derive(Debug)]
struct ByRows {
    relation: Arc<Relation>,
    /// Where each of them is in the column by column order.
    positions: Vec<usize>,
}

impl CscPattern {
    /// The longest columns allowed: a row fits 32 bits.
    pub const MAX_ROWS: u64 = CsrPattern::MAX_COLS;

    /// A pattern from arrays with the invariants of a [`Csc`].
    ///
    /// # Errors
    /// The first violation, with its column and position.
    pub fn new(rows: usize, cols: usize, indptr: Vec<usize>, indices: Vec<u32>) -> Checked<Self> {
        Ok(CscPattern::of(CsrPattern::new(cols, rows, indptr, indices).map_err(Malformed::of_columns)?))
    }

    /// A pattern from arrays of any integer type.
    ///
    /// # Errors
    /// Like [`CscPattern::new`]; also for negative integers and those too large.
    pub fn from_integers<P, I>(rows: usize, cols: usize, indptr: &[P], indices: &[I]) -> Checked<Self>
    where
        P: Copy + TryInto<i128>,
        I: Copy + TryInto<i128>,
    {
        Ok(CscPattern::of(CsrPattern::from_integers(cols, rows, indptr, indices).map_err(Malformed::of_columns)?))
    }

    fn of(transposed: impl Into<Arc<CsrPattern>>) -> Self {
        CscPattern { transposed: transposed.into(), by_rows: OnceLock::new() }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.transposed.cols()
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.transposed.rows()
    }

    /// The number of stored entries.
    pub fn len(&self) -> usize {
        self.transposed.len()
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.transposed.is_empty()
    }

    /// Where each column starts, and where the last one ends.
    pub fn indptr(&self) -> &[usize] {
        self.transposed.indptr()
    }

    /// The rows of the entries, column by column.
    pub fn indices(&self) -> &[u32] {
        self.transposed.indices()
    }

    /// The entries of a column as positions, none outside.
    pub fn column(&self, col: usize) -> std::ops::Range<usize> {
        self.transposed.row(col)
    }

    /// Where a place is stored.
    pub fn position(&self, row: usize, col: usize) -> Option<usize> {
        self.transposed.position(col, row)
    }

    /// The row and the column of every entry in order, column by column.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize)> {
        self.transposed.entries().map(|(col, row)| (row, col))
    }

    /// The places that are stored, in lexicographic order, built at the first call.
    pub fn relation(&self) -> &Arc<Relation> {
        &self.by_rows().relation
    }

    fn by_rows(&self) -> &ByRows {
        self.by_rows.get_or_init(|| {
            let (relation, positions) = Relation::from_csc(self);
            ByRows { relation: Arc::new(relation), positions }
        })
    }
}

impl PartialEq for CscPattern {
    fn eq(&self, other: &Self) -> bool {
        self.transposed == other.transposed
    }
}

impl Eq for CscPattern {}

/// A sparse matrix of reals, column by column.
///
/// Column `j` holds the entries `indptr[j]..indptr[j + 1]` of `indices` and `data`. Offsets start at 0, do not decrease and end at
/// the number of entries; the rows of a column increase strictly and are in range. A stored zero is a stored entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Csc {
    pattern: Arc<CscPattern>,
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

impl TryFrom<Parts> for Csc {
    type Error = Malformed;
    fn try_from(parts: Parts) -> Checked<Self> {
        let length = |axis, length: i64| {
            usize::try_from(length).map_err(|_| Malformed::NegativeLength { axis, length: i128::from(length) })
        };
        let (rows, cols) = (length(0, parts.rows)?, length(1, parts.cols)?);
        let csc = Csc::from_integers(rows, cols, &parts.indptr, &parts.indices, parts.data.into())?;
        Ok(if parts.precision.is_double() { csc } else { csc.in_precision(parts.precision) })
    }
}

impl From<Csc> for Parts {
    fn from(csc: Csc) -> Parts {
        Parts {
            // All of these fit: dimensions are checked, and positions are lengths of arrays.
            rows: csc.rows() as i64,
            cols: csc.cols() as i64,
            indptr: csc.indptr().iter().map(|&p| p as i64).collect(),
            indices: csc.indices().iter().map(|&i| i64::from(i)).collect(),
            precision: csc.precision(),
            data: csc.data.into_wide().into(),
        }
    }
}

impl Csc {
    /// A matrix from arrays with the invariants of a [`Csc`].
    ///
    /// # Errors
    /// The first violation, with its column and position.
    pub fn new(rows: usize, cols: usize, indptr: Vec<usize>, indices: Vec<u32>, data: Vec<f64>) -> Checked<Self> {
        Csc::transposed(Csr::new(cols, rows, indptr, indices, data))
    }

    /// A matrix from arrays of any integer type, such as the `i32` of other libraries.
    ///
    /// # Errors
    /// Like [`Csc::new`]; also for negative integers and those too large.
    pub fn from_integers<P, I>(rows: usize, cols: usize, indptr: &[P], indices: &[I], data: Vec<f64>) -> Checked<Self>
    where
        P: Copy + TryInto<i128>,
        I: Copy + TryInto<i128>,
    {
        Csc::transposed(Csr::from_integers(cols, rows, indptr, indices, data))
    }

    /// A matrix with a given pattern.
    ///
    /// # Errors
    /// If there is not one value for each entry.
    pub fn with_pattern(pattern: Arc<CscPattern>, data: Vec<f64>) -> Checked<Self> {
        Csc::stored(pattern, data)
    }

    /// A matrix in single precision with a given pattern.
    ///
    /// # Errors
    /// If there is not one value for each entry.
    pub fn single(pattern: Arc<CscPattern>, data: Vec<f32>) -> Checked<Self> {
        Csc::stored(pattern, data)
    }

    pub(crate) fn stored<A: Element>(pattern: Arc<CscPattern>, data: Vec<A>) -> Checked<Self> {
        if pattern.len() != data.len() {
            return Err(Malformed::ValueCount { coordinates: pattern.len(), values: data.len() });
        }
        Ok(Csc { pattern, data: A::list(data) })
    }

    /// A matrix from arrays whose columns may be out of order and may hold a row more than once; the values of one place are
    /// added from left to right.
    ///
    /// # Errors
    /// For every other violation, as [`Csc::from_integers`].
    pub fn sum_duplicates<P, I>(rows: usize, cols: usize, indptr: &[P], indices: &[I], data: &[f64]) -> Checked<Self>
    where
        P: Copy + TryInto<i128>,
        I: Copy + TryInto<i128>,
    {
        Csc::transposed(Csr::sum_duplicates(cols, rows, indptr, indices, data))
    }

    /// The matrix whose columns are the rows of another one.
    fn transposed(rows: Checked<Csr>) -> Checked<Self> {
        let (pattern, data) = rows.map_err(Malformed::of_columns)?.into_parts();
        Ok(Csc { pattern: Arc::new(CscPattern::of(pattern)), data })
    }

    /// The entries of a matrix that is stored row by row.
    ///
    /// # Errors
    /// If there are too many rows, or no memory for the offsets of all columns.
    pub fn from_csr(csr: &Csr) -> Checked<Self> {
        Csc::from_coo(&Coo::from(csr))
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
        // What is too long is refused before there is an offset for each column.
        CsrPattern::new(0, rows, vec![0], Vec::new()).map_err(Malformed::of_columns)?;
        let mut indptr: Vec<usize> = filled(cols.saturating_add(1), 0)?;
        for &col in relation.column(1) {
            indptr[col + 1] += 1;
        }
        for col in 0..cols {
            indptr[col + 1] += indptr[col];
        }
        // The rows of a column stay in order.
        let order = relation.sort_by(&[1]);
        // Fits, since a row fits 32 bits.
        let indices = order.iter().map(|&at| relation.column(0)[at] as u32).collect();
        let pattern = CscPattern::new(rows, cols, indptr, indices)?;
        Ok(Csc { pattern: Arc::new(pattern), data: in_order(coo.numbers(), &order) })
    }

    /// The elements of a dense matrix that are not zero; a NaN is not zero.
    ///
    /// # Errors
    /// If the tensor is not a matrix, or has too many rows.
    pub fn from_dense(dense: &Dense) -> Checked<Self> {
        match dense.shape() {
            [_, _] => Csc::from_coo(&Coo::from_dense(dense)?),
            shape => Err(Malformed::NotAMatrix { found: shape.len() }),
        }
    }

    /// A matrix with a given pattern, from its values row by row.
    pub(super) fn from_rows(pattern: Arc<CscPattern>, data: &[f64]) -> Checked<Self> {
        if pattern.len() != data.len() {
            return Err(Malformed::ValueCount { coordinates: pattern.len(), values: data.len() });
        }
        let mut by_columns = vec![0.0; data.len()];
        for (&position, &x) in pattern.by_rows().positions.iter().zip(data) {
            by_columns[position] = x;
        }
        Csc::with_pattern(pattern, by_columns)
    }

    /// The values of the entries row by row.
    pub(super) fn by_rows(&self) -> List {
        in_order(self.numbers(), &self.pattern.by_rows().positions)
    }

    /// A matrix of the `sprs` library that is stored column by column, of `f64` or `f32`. The layout is checked again, as by [`Csr::from_sprs`].
    ///
    /// # Errors
    /// If the matrix is stored row by row, or as [`Csc::new`].
    pub fn from_sprs<A: Element, I: SpIndex, P: SpIndex>(matrix: CsMatViewI<'_, A, I, P>) -> Checked<Self> {
        if !matrix.is_csc() {
            return Err(Malformed::RowMajor);
        }
        Csc::transposed(Csr::from_sprs(matrix.transpose_view()))
    }

    /// The matrix as one of the `sprs` library, column by column; one in single precision is widened.
    ///
    /// # Errors
    /// Never: both libraries have the same invariants. An error is a bug.
    pub fn to_sprs(&self) -> Result<CsMatI<f64, usize>> {
        self.sprs_of(self.data().to_vec())
    }

    /// The matrix as one of the `sprs` library in single precision; one in double precision is rounded.
    ///
    /// # Errors
    /// Never, as [`Csc::to_sprs`].
    pub fn to_single_sprs(&self) -> Result<CsMatI<f32, usize>> {
        match self.numbers() {
            Slice::Single(data) => self.sprs_of(data.to_vec()),
            Slice::Double(data) => self.sprs_of(data.iter().map(|x| f32::narrow(*x)).collect()),
        }
    }

    fn sprs_of<A: Element>(&self, data: Vec<A>) -> Result<CsMatI<A, usize>> {
        let indices = self.indices().iter().map(|&i| i as usize).collect();
        CsMatI::try_new_csc((self.rows(), self.cols()), self.indptr().to_vec(), indices, data)
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
            elements[row * self.pattern.cols() + col] = x;
        }
        Ok(dense)
    }

    /// Which entries are stored.
    pub fn pattern(&self) -> &Arc<CscPattern> {
        &self.pattern
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.pattern.rows()
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.pattern.cols()
    }

    /// Where each column starts, and where the last one ends.
    pub fn indptr(&self) -> &[usize] {
        self.pattern.indptr()
    }

    /// The rows of the entries, column by column.
    pub fn indices(&self) -> &[u32] {
        self.pattern.indices()
    }

    /// The values of the entries, column by column; of a matrix in single precision a wide copy.
    pub fn data(&self) -> &[f64] {
        self.data.wide()
    }

    /// The values of the entries, column by column; makes a matrix in single precision one in double precision.
    pub fn data_mut(&mut self) -> &mut [f64] {
        self.data.make_double().map_or(&mut [], Vec::as_mut_slice)
    }

    /// The values of the entries as they are stored, column by column.
    pub fn numbers(&self) -> Slice<'_> {
        self.data.numbers()
    }

    /// How the values are stored.
    pub fn precision(&self) -> Precision {
        self.data.precision()
    }

    /// The matrix with its values widened or rounded.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Csc {
        Csc { pattern: self.pattern.clone(), data: self.data.in_precision(precision) }
    }

    /// The stored value at a place, nothing where none is stored.
    pub fn get(&self, row: usize, col: usize) -> Option<f64> {
        self.pattern.position(row, col).and_then(|at| self.numbers().get(at))
    }
}

/// Numbers at some positions, one after the other.
fn in_order(numbers: Slice<'_>, positions: &[usize]) -> List {
    fn taken<A: Element>(numbers: &[A], positions: &[usize]) -> List {
        A::list(positions.iter().filter_map(|&at| numbers.get(at).copied()).collect())
    }
    match numbers {
        Slice::Double(numbers) => taken(numbers, positions),
        Slice::Single(numbers) => taken(numbers, positions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[[1, 0, 3], [0, 0, 4], [2, 0, 0]]`, where the 4 at `(1, 2)` is followed by a zero that is stored at `(2, 2)`.
    fn sample() -> Csc {
        Csc::new(3, 3, vec![0, 2, 2, 5], vec![0, 2, 0, 1, 2], vec![1.0, 2.0, 3.0, 4.0, 0.0]).unwrap()
    }

    /// Rows, columns, offsets, indices, number of values, and the message.
    type Bad = (i64, i64, &'static [i64], &'static [i64], usize, &'static str);

    const BAD: &[Bad] = &[
        (3, 2, &[], &[], 0, "2 columns need 3 column offsets, there are 0"),
        (3, 2, &[0, 1], &[0], 1, "2 columns need 3 column offsets, there are 2"),
        (3, 2, &[0, 1, 2, 2], &[0, 1], 2, "2 columns need 3 column offsets, there are 4"),
        (3, 2, &[1, 1, 1], &[0], 1, "the first column offset must be 0, it is 1"),
        (3, 2, &[-1, 1, 1], &[0], 1, "column offset 0 is negative: -1"),
        (3, 3, &[0, 2, 1, 2], &[0, 1], 2, "the column offsets decrease from 2 to 1 at column 1"),
        (3, 2, &[0, 1, 3], &[0, 1], 2, "the last column offset is 3, but only 2 entries are stored"),
        (3, 2, &[0, 1, 1], &[0, 1], 2, "the last column offset is 1, but 2 entries are stored"),
        (3, 2, &[0, 1, 2], &[0, 1], 1, "2 coordinates are stored with 1 values"),
        (3, 2, &[0, 1, 2], &[0, 3], 2, "column 1 has row 3 (entry 1), but there are only 3 rows"),
        (3, 2, &[0, 1, 2], &[0, -1], 2, "column 1 has the negative row -1 (entry 1)"),
        (3, 1, &[0, 2], &[2, 0], 2, "column 0 has row 0 after row 2 (entry 1); the rows of a column must increase"),
        (
            3,
            1,
            &[0, 2],
            &[1, 1],
            2,
            "column 0 has row 1 twice (entry 1); `Csc::sum_duplicates` adds such entries up, in SciPy `A.sum_duplicates()`",
        ),
        (4294967297, 1, &[0, 0], &[], 0, "axis 0 has length 4294967297, the limit is 4294967296"),
        (3, -1, &[0], &[], 0, "axis 1 has the negative length -1"),
        (-3, 1, &[0, 0], &[], 0, "axis 0 has the negative length -3"),
    ];

    #[test]
    fn csc_refuses_bad_data() {
        for &(rows, cols, indptr, indices, values, message) in BAD {
            let case = format!("{rows} {cols} {indptr:?} {indices:?}");
            let data = vec![1.0; values];
            if let (Ok(m), Ok(n)) = (usize::try_from(rows), usize::try_from(cols)) {
                let error = Csc::from_integers(m, n, indptr, indices, data.clone()).expect_err(&case);
                assert_eq!(error.to_string(), message, "{case}");
                let narrow = |x: &[i64]| x.iter().map(|&x| usize::try_from(x).ok()).collect::<Option<Vec<_>>>();
                if let (Some(indptr), Some(indices)) = (narrow(indptr), narrow(indices)) {
                    let indices = indices.into_iter().map(|i| i as u32).collect();
                    let error = Csc::new(m, n, indptr, indices, data.clone()).expect_err(&case).to_string();
                    assert_eq!(error, message, "{case}");
                }
            }
            let text = serde_json::json!({
                "rows": rows, "cols": cols, "indptr": indptr, "indices": indices, "data": data,
            });
            let error = serde_json::from_value::<Csc>(text).expect_err(&case).to_string();
            assert!(error.starts_with(message), "{case}: {error}");
        }
        let range = Csc::new(2, 1, vec![0, 1], vec![2], vec![1.0]).unwrap_err();
        let of_transposed = Malformed::ColumnOutOfRange { row: 0, position: 0, column: 2, columns: 2 };
        assert_eq!(range, Malformed::ByColumns(Box::new(of_transposed)));
        let cube = Coo::new(vec![2, 2, 2], vec![vec![], vec![], vec![]], vec![]).unwrap();
        assert_eq!(Csc::from_coo(&cube), Err(Malformed::NotAMatrix { found: 3 }));
        assert_eq!(Csc::from_dense(&Dense::scalar(1.0)), Err(Malformed::NotAMatrix { found: 0 }));
        let long = Coo::new(vec![1 << 40, 1], vec![vec![0], vec![0]], vec![1.0]).unwrap();
        assert!(matches!(Csc::from_coo(&long), Err(Malformed::AxisTooLong { axis: 0, .. })));
        assert!(Csc::with_pattern(sample().pattern().clone(), vec![1.0]).is_err());
    }

    #[test]
    fn csc_duplicates_are_summed_on_request_only() {
        let (indptr, indices, data) = ([0, 3], [2, 0, 2], [1.0, 2.0, 3.0]);
        assert!(Csc::from_integers(3, 1, &indptr, &indices, data.to_vec()).is_err());
        let csc = Csc::sum_duplicates(3, 1, &indptr, &indices, &data).unwrap();
        assert_eq!((csc.indices(), csc.data()), (&[0, 2][..], &[2.0, 4.0][..]));
        assert!(Csc::sum_duplicates(3, 1, &[0, 1], &[3], &[1.0]).is_err());
    }

    #[test]
    fn csc_lies_column_by_column() {
        let csc = sample();
        assert_eq!((csc.rows(), csc.cols(), csc.pattern().len()), (3, 3, 5));
        assert_eq!(csc.pattern().entries().collect::<Vec<_>>(), [(0, 0), (2, 0), (0, 2), (1, 2), (2, 2)]);
        assert_eq!(csc.pattern().column(2), 2..5);
        assert_eq!((csc.get(2, 2), csc.get(2, 1), csc.get(1, 2), csc.get(0, 9)), (Some(0.0), None, Some(4.0), None));
        let places: Vec<_> = csc.pattern().relation().tuples().map(|t| (t[0], t[1])).collect();
        assert_eq!(places, [(0, 0), (0, 2), (1, 2), (2, 0), (2, 2)]);
        assert_eq!(Coo::from(&csc).data(), [1.0, 3.0, 4.0, 2.0, 0.0]);
        assert_eq!(csc.to_dense().unwrap().data(), [1.0, 0.0, 3.0, 0.0, 0.0, 4.0, 2.0, 0.0, 0.0]);
        let again = Csc::from_rows(csc.pattern().clone(), &[1.0, 3.0, 4.0, 2.0, 0.0]).unwrap();
        assert_eq!(again, csc);
        let none = Csc::new(0, 0, vec![0], vec![], vec![]).unwrap();
        assert_eq!((none.pattern().relation().len(), none.pattern().is_empty()), (0, true));
    }

    #[test]
    fn csc_converts_to_and_from_sprs() {
        let matrix = sample().to_sprs().unwrap();
        assert!(matrix.is_csc());
        assert_eq!((matrix.shape(), matrix.get(2, 0)), ((3, 3), Some(&2.0)));
        assert_eq!(Csc::from_sprs(matrix.view()).unwrap(), sample());
        assert_eq!(Csc::from_sprs(matrix.transpose_view()).unwrap_err(), Malformed::RowMajor);
        let single = sample().in_precision(Precision::Single);
        assert_eq!(Csc::from_sprs(single.to_single_sprs().unwrap().view()).unwrap(), single);
    }

    #[test]
    fn csc_random_round_trips() {
        let mut rng = fastrand::Rng::with_seed(11);
        for _ in 0..200 {
            let (m, n) = (rng.usize(0..6), rng.usize(0..6));
            let data: Vec<f64> = (0..m * n).map(|_| f64::from(rng.i32(-2..3).max(0))).collect();
            let dense = Dense::new(&[m, n], data).unwrap();
            let csc = Csc::from_dense(&dense).unwrap();
            let csr = Csr::from_dense(&dense).unwrap();
            assert_eq!(csc.to_dense().unwrap(), dense);
            assert_eq!(Csr::from_csc(&csc).unwrap(), csr);
            assert_eq!(Csc::from_csr(&csr).unwrap(), csc);
            assert_eq!(Csc::from_coo(&Coo::from(&csc)).unwrap(), csc);
            assert_eq!((csc.indptr(), csc.cols()), (&csr.pattern().transposed().indptr[..], n));
            let text = serde_json::to_string(&csc).unwrap();
            assert_eq!(serde_json::from_str::<Csc>(&text).unwrap(), csc);
            let single = csc.in_precision(Precision::Single);
            assert_eq!(Csc::from_csr(&Csr::from_csc(&single).unwrap()).unwrap(), single);
        }
    }
}

//! What can be wrong with the arrays of a tensor: one kind for each invariant, with the position at fault.

use crate::error::Error;

/// Why arrays do not form a tensor or relation. Rows, columns, axes and positions count from zero.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// More axes than a tensor may have.
    #[error("{found} axes are more than the limit of {limit}")]
    TooManyAxes {
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A sparse tensor or relation without axes.
    #[error("a sparse tensor or relation needs at least one axis")]
    NoAxes,
    /// An axis is too long to be indexed.
    #[error("axis {axis} has length {length}, the limit is {limit}")]
    AxisTooLong {
        /// The axis.
        axis: usize,
        /// Its length.
        length: u128,
        /// The longest length allowed.
        limit: u64,
    },
    /// An axis of negative length.
    #[error("axis {axis} has the negative length {length}")]
    NegativeLength {
        /// The axis.
        axis: usize,
        /// Its length.
        length: i128,
    },
    /// The shape has too many elements to be stored densely.
    #[error("the shape {shape:?} has more elements than the limit of 2^47")]
    TooManyElements {
        /// The shape.
        shape: Vec<usize>,
    },
    /// Memory for that many elements cannot be had.
    #[error("there is no memory for {count} numbers")]
    OutOfMemory {
        /// How many.
        count: usize,
    },
    /// Dense data whose length is not that of the shape.
    #[error("the shape {shape:?} needs {expected} numbers, the data has {found}")]
    DataLength {
        /// The shape.
        shape: Vec<usize>,
        /// The product of the shape.
        expected: usize,
        /// How many numbers there are.
        found: usize,
    },
    /// A row of a matrix whose length is not that of the first one.
    #[error("row {row} has {found} numbers, the first row has {expected}")]
    RowLength {
        /// The row.
        row: usize,
        /// The length of the first row.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// Row offsets that are not one more than the rows.
    #[error("{rows} rows need {expected} row offsets, there are {found}")]
    OffsetCount {
        /// The rows.
        rows: usize,
        /// One more than the rows.
        expected: u128,
        /// How many there are.
        found: usize,
    },
    /// A negative row offset.
    #[error("row offset {row} is negative: {offset}")]
    NegativeOffset {
        /// Its place.
        row: usize,
        /// Its value.
        offset: i128,
    },
    /// A row offset that no array can have.
    #[error("row offset {row} is {offset}, which is no position in memory")]
    OffsetOverflow {
        /// Its place.
        row: usize,
        /// Its value.
        offset: i128,
    },
    /// The first row does not start at the start.
    #[error("the first row offset must be 0, it is {offset}")]
    FirstOffset {
        /// Its value.
        offset: usize,
    },
    /// A row ends before it starts.
    #[error("the row offsets decrease from {start} to {end} at row {row}")]
    DecreasingOffset {
        /// The row.
        row: usize,
        /// Where it starts.
        start: usize,
        /// Where it ends.
        end: usize,
    },
    /// The last row ends after the end.
    #[error("the last row offset is {offset}, but only {stored} entries are stored")]
    LastOffsetTooLarge {
        /// Its value.
        offset: usize,
        /// How many entries are stored.
        stored: usize,
    },
    /// Entries are left over after the last row.
    #[error("the last row offset is {offset}, but {stored} entries are stored")]
    LastOffsetTooSmall {
        /// Its value.
        offset: usize,
        /// How many entries are stored.
        stored: usize,
    },
    /// Not one value for each stored coordinate.
    #[error("{coordinates} coordinates are stored with {values} values")]
    ValueCount {
        /// How many coordinates.
        coordinates: usize,
        /// How many values.
        values: usize,
    },
    /// A negative column.
    #[error("row {row} has the negative column {column} (entry {position})")]
    NegativeColumn {
        /// The row.
        row: usize,
        /// The entry.
        position: usize,
        /// The column.
        column: i128,
    },
    /// A column beyond the last.
    #[error("row {row} has column {column} (entry {position}), but there are only {columns} columns")]
    ColumnOutOfRange {
        /// The row.
        row: usize,
        /// The entry.
        position: usize,
        /// The column.
        column: u128,
        /// How many columns there are.
        columns: usize,
    },
    /// Columns of a row out of order.
    #[error(
        "row {row} has column {column} after column {previous} (entry {position}); the columns of a row must increase"
    )]
    UnsortedColumns {
        /// The row.
        row: usize,
        /// The later entry.
        position: usize,
        /// The column before.
        previous: usize,
        /// The column.
        column: usize,
    },
    /// A column twice in one row.
    #[error(
        "row {row} has column {column} twice (entry {position}); `Csr::sum_duplicates` adds such entries up, in SciPy `A.sum_duplicates()`"
    )]
    DuplicateColumn {
        /// The row.
        row: usize,
        /// The later entry.
        position: usize,
        /// The column.
        column: usize,
    },
    /// A matrix stored column by column where rows are needed.
    #[error("the matrix is stored column by column (CSC); convert it with `to_csr` first")]
    ColumnMajor,
    /// A matrix stored row by row where columns are needed.
    #[error("the matrix is stored row by row (CSR); convert it with `to_csc` first")]
    RowMajor,
    /// What is wrong with a matrix stored column by column: what is wrong with the transposed matrix, whose rows are the columns of this one.
    #[error("{}", by_columns(.0))]
    ByColumns(Box<Malformed>),
    /// A tensor that is no matrix where a matrix is needed.
    #[error("a sparse matrix has 2 axes, found {found}")]
    NotAMatrix {
        /// How many axes there are.
        found: usize,
    },
    /// Not one coordinate array for each axis.
    #[error("{axes} axes need as many coordinate arrays, there are {found}")]
    CoordinateArrays {
        /// The axes.
        axes: usize,
        /// How many arrays there are.
        found: usize,
    },
    /// Coordinate arrays of different lengths.
    #[error("axis {axis} has {found} coordinates, axis 0 has {expected}")]
    CoordinateCount {
        /// The axis.
        axis: usize,
        /// The length of the first array.
        expected: usize,
        /// The length of this one.
        found: usize,
    },
    /// A tuple with too few or too many places.
    #[error("entry {entry} has {found} coordinates, expected {expected}")]
    TupleLength {
        /// The entry.
        entry: usize,
        /// The axes.
        expected: usize,
        /// The places of the tuple.
        found: usize,
    },
    /// A coordinate beyond its axis.
    #[error("entry {entry} has coordinate {coordinate} on axis {axis}, whose length is {length}")]
    CoordinateOutOfRange {
        /// The entry.
        entry: usize,
        /// The axis.
        axis: usize,
        /// The coordinate.
        coordinate: usize,
        /// The length of the axis.
        length: usize,
    },
    /// Entries out of lexicographic order.
    #[error("entry {entry} at {tuple:?} comes before its predecessor; entries must be in lexicographic order")]
    UnsortedEntries {
        /// The later entry.
        entry: usize,
        /// Its coordinates.
        tuple: Vec<usize>,
    },
    /// One place stored twice.
    #[error(
        "entry {entry} is at {tuple:?} like another; `Coo::sum_duplicates` adds such entries up, in SciPy `A.sum_duplicates()`"
    )]
    DuplicateEntry {
        /// The later entry.
        entry: usize,
        /// Its coordinates.
        tuple: Vec<usize>,
    },
    /// A dense relation with an element other than 0 and 1.
    #[error("element {position} is {value}; a relation has elements 0 and 1 only")]
    NotBoolean {
        /// Its place in row-major order.
        position: usize,
        /// Its value.
        value: f64,
    },
    /// A target of a map that is none.
    #[error("element {position} is {value}; the targets of a map are integers from 0 on")]
    NoInteger {
        /// Its place in row-major order.
        position: usize,
        /// Its value.
        value: f64,
    },
    /// A map without a target for a source.
    #[error("the map has no target for the source {source_tuple:?}")]
    NoTarget {
        /// The first such source.
        source_tuple: Vec<usize>,
    },
    /// A map with two targets for a source.
    #[error("the map has two targets, {first} and {second}, for the source {source_tuple:?}")]
    TwoTargets {
        /// The first such source.
        source_tuple: Vec<usize>,
        /// Its first target.
        first: usize,
        /// Its second target.
        second: usize,
    },
    /// Not one target for each source of a map.
    #[error("the sources {shape:?} need {expected} targets, there are {found}")]
    TargetCount {
        /// The shape of the sources.
        shape: Vec<usize>,
        /// Its product.
        expected: usize,
        /// How many targets there are.
        found: usize,
    },
}

/// What is wrong with a matrix stored column by column, where this is wrong with the transposed one.
fn by_columns(malformed: &Malformed) -> String {
    match malformed {
        Malformed::OffsetCount { rows, expected, found } => {
            format!("{rows} columns need {expected} column offsets, there are {found}")
        }
        Malformed::NegativeOffset { row, offset } => format!("column offset {row} is negative: {offset}"),
        Malformed::OffsetOverflow { row, offset } => {
            format!("column offset {row} is {offset}, which is no position in memory")
        }
        Malformed::FirstOffset { offset } => format!("the first column offset must be 0, it is {offset}"),
        Malformed::DecreasingOffset { row, start, end } => {
            format!("the column offsets decrease from {start} to {end} at column {row}")
        }
        Malformed::LastOffsetTooLarge { offset, stored } => {
            format!("the last column offset is {offset}, but only {stored} entries are stored")
        }
        Malformed::LastOffsetTooSmall { offset, stored } => {
            format!("the last column offset is {offset}, but {stored} entries are stored")
        }
        Malformed::NegativeColumn { row, position, column } => {
            format!("column {row} has the negative row {column} (entry {position})")
        }
        Malformed::ColumnOutOfRange { row, position, column, columns } => {
            format!("column {row} has row {column} (entry {position}), but there are only {columns} rows")
        }
        Malformed::UnsortedColumns { row, position, previous, column } => format!(
            "column {row} has row {column} after row {previous} (entry {position}); the rows of a column must increase"
        ),
        Malformed::DuplicateColumn { row, position, column } => {
            format!(
                "column {row} has row {column} twice (entry {position}); `Csc::sum_duplicates` adds such entries up, in SciPy `A.sum_duplicates()`"
            )
        }
        other => other.to_string(),
    }
}

impl Malformed {
    /// What is wrong with a matrix, where this is wrong with the rows of the transposed one.
    pub(super) fn of_columns(self) -> Malformed {
        match self {
            Malformed::AxisTooLong { axis, length, limit } => {
                Malformed::AxisTooLong { axis: 1 - axis.min(1), length, limit }
            }
            Malformed::NegativeLength { axis, length } => Malformed::NegativeLength { axis: 1 - axis.min(1), length },
            Malformed::ValueCount { .. } | Malformed::OutOfMemory { .. } => self,
            other => Malformed::ByColumns(Box::new(other)),
        }
    }

    /// The error with the parameter, file or field at fault.
    pub fn of(self, subject: impl Into<String>) -> Error {
        Error::data(subject, self.to_string())
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Error {
        malformed.of("tensor")
    }
}

/// What a checked constructor returns.
pub type Checked<T> = std::result::Result<T, Malformed>;

//! MatrixMarket files.
//!
//! ```text
//! %%MatrixMarket matrix coordinate real general
//! % comments and blank lines are skipped
//! 3 4 2                 rows, columns, entries
//! 1 1 0.5               row and column count from one
//! 3 2 -1
//! ```
//! `coordinate` is a sparse matrix, or a relation if the field is `pattern`; `array` is a dense matrix, column by column.
//! Fields are `real`, `integer` and `pattern`; `complex` is refused. Of a `symmetric` or `skew-symmetric` matrix the file holds
//! the lower triangle, which is expanded: an entry `(i, j)` off the diagonal is stored at `(j, i)` too, with its sign changed if
//! skew. A place that occurs twice is refused.

use std::fmt::Write;
use std::sync::Arc;

use super::text::{Lines, coordinate, count, error_at, excerpt, integer, real, write_real};
use super::{FileValue, csr_from_file};
use crate::error::{Error, Result};
use crate::tensor::{Coo, Dense, Relation, element_count};

#[derive(Clone, Copy, PartialEq)]
enum Field {
    Real,
    Integer,
    Pattern,
}

#[derive(Clone, Copy, PartialEq)]
enum Symmetry {
    General,
    Symmetric,
    Skew,
}

/// Reads a file: a sparse matrix, a relation for `pattern`, a dense matrix for `array`.
///
/// # Errors
/// The first problem, with its line.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<FileValue> {
    let mut lines = Lines::new(subject, bytes);
    let Some(banner) = lines.next()? else { return Err(Error::data(subject, "this file is empty")) };
    let banner = banner.to_ascii_lowercase();
    let words: Vec<&str> = banner.split_whitespace().collect();
    let &["%%matrixmarket", "matrix", format, field, symmetry] = words.as_slice() else {
        let found = excerpt(banner.trim());
        return Err(lines.error(format!(
            "expected `%%MatrixMarket matrix`, `coordinate` or `array`, a field and a symmetry, found `{found}`"
        )));
    };
    let field = match field {
        "real" | "double" => Field::Real,
        "integer" => Field::Integer,
        "pattern" => Field::Pattern,
        other => {
            return Err(lines.error(format!(
                "expected a matrix of field `real`, `integer` or `pattern`, found `{}`",
                excerpt(other)
            )));
        }
    };
    let symmetry = match symmetry {
        "general" => Symmetry::General,
        "symmetric" => Symmetry::Symmetric,
        "skew-symmetric" => Symmetry::Skew,
        other => {
            return Err(lines.error(format!(
                "expected the symmetry `general`, `symmetric` or `skew-symmetric`, found `{}`",
                excerpt(other)
            )));
        }
    };
    if field == Field::Pattern && (symmetry == Symmetry::Skew || format == "array") {
        return Err(lines.error("a pattern has no values, so it is neither `skew-symmetric` nor an `array`"));
    }
    let Some(sizes) = lines.next_content('%')? else {
        return Err(lines.error("the file ends before the line of sizes"));
    };
    let sizes: Vec<&str> = sizes.split_whitespace().collect();
    let lengths = sizes.iter().map(|s| count(s)).collect::<std::result::Result<Vec<usize>, String>>();
    let lengths = lengths.map_err(|message| lines.error(message))?;
    if let (&[rows, cols, ..], true) = (lengths.as_slice(), symmetry != Symmetry::General)
        && rows != cols
    {
        return Err(lines.error(format!("a symmetric matrix is square, found {rows} rows and {cols} columns")));
    }
    match (format, lengths.as_slice()) {
        ("coordinate", &[rows, cols, entries]) => {
            parse_coordinates(subject, lines, [rows, cols], entries, field, symmetry)
        }
        ("array", &[rows, cols]) => parse_array(lines, [rows, cols], field, symmetry),
        ("coordinate", found) => {
            Err(lines.error(format!("expected rows, columns and the number of entries, found {} numbers", found.len())))
        }
        ("array", found) => Err(lines.error(format!("expected rows and columns, found {} numbers", found.len()))),
        (other, _) => {
            Err(error_at(subject, 1, format!("expected `coordinate` or `array`, found `{}`", excerpt(other))))
        }
    }
}

fn value(text: &str, field: Field) -> std::result::Result<f64, String> {
    if field == Field::Integer { integer(text) } else { real(text) }
}

fn parse_coordinates(
    subject: &str,
    mut lines: Lines<'_>,
    [rows, cols]: [usize; 2],
    claimed: usize,
    field: Field,
    symmetry: Symmetry,
) -> Result<FileValue> {
    // Memory grows with what is read, whatever was claimed.
    let (mut row, mut col, mut data, mut at) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut read = 0;
    let places = if field == Field::Pattern { 2 } else { 3 };
    while let Some(line) = lines.next_content('%')? {
        if read == claimed {
            return Err(lines.error(format!("the header claims {claimed} entries, here is another one")));
        }
        read += 1;
        let mut words = line.split_whitespace();
        let (Some(i), Some(j)) = (words.next(), words.next()) else {
            return Err(lines.error(format!("expected {places} numbers, found 1")));
        };
        let i = coordinate(i, "row", rows).map_err(|m| lines.error(m))?;
        let j = coordinate(j, "column", cols).map_err(|m| lines.error(m))?;
        let x = match (words.next(), field) {
            (None, Field::Pattern) => 1.0,
            (Some(x), Field::Real | Field::Integer) => value(x, field).map_err(|m| lines.error(m))?,
            (None, _) => return Err(lines.error("expected row, column and value, found no value")),
            (Some(_), Field::Pattern) => {
                return Err(lines.error("a pattern has no values, expected row and column only"));
            }
        };
        if words.next().is_some() {
            return Err(lines.error(format!("expected {places} numbers, found more")));
        }
        match symmetry {
            Symmetry::Symmetric if j > i => {
                return Err(lines.error("of a symmetric matrix only the lower triangle is given, found an entry above"));
            }
            Symmetry::Skew if j >= i => {
                return Err(lines.error("of a skew-symmetric matrix only entries below the diagonal are given"));
            }
            _ => {}
        }
        let mut push = |i: usize, j: usize, x: f64| {
            row.push(i);
            col.push(j);
            data.push(x);
            at.push(lines.number());
        };
        push(i, j, x);
        match symmetry {
            Symmetry::Symmetric if i != j => push(j, i, x),
            Symmetry::Skew => push(j, i, -x),
            _ => {}
        }
    }
    if read != claimed {
        return Err(Error::data(subject, format!("the header claims {claimed} entries, the file has {read}")));
    }
    let (pattern, order) = sort_entries(subject, vec![rows, cols], vec![row, col], &at)?;
    if field == Field::Pattern {
        return Ok(FileValue::Relation(pattern));
    }
    let data = order.iter().map(|&k| data[k]).collect();
    let coo = Coo::with_pattern(Arc::new(pattern), data).map_err(|malformed| malformed.of(subject))?;
    Ok(FileValue::Csr(csr_from_file(&coo, subject)?))
}

/// Sorts the places of entries that were read from lines; a place that occurs twice is refused with both lines.
pub(super) fn sort_entries(
    subject: &str,
    shape: Vec<usize>,
    columns: Vec<Vec<usize>>,
    lines: &[u64],
) -> Result<(Relation, Vec<usize>)> {
    let (pattern, order) = Relation::sorted(shape, columns).map_err(|malformed| malformed.of(subject))?;
    if let Some(at) = pattern.first_duplicate() {
        // The sort is stable, so the earlier line comes first.
        let (first, second) = (lines[order[at - 1]], lines[order[at]]);
        let place: Vec<String> = pattern.tuple(at).iter().map(|k| (k + 1).to_string()).collect();
        let message = format!("the place ({}) is in line {first} already; every place is given once", place.join(", "));
        return Err(error_at(subject, second, message));
    }
    Ok((pattern, order))
}

fn parse_array(mut lines: Lines<'_>, [rows, cols]: [usize; 2], field: Field, symmetry: Symmetry) -> Result<FileValue> {
    let total = element_count(&[rows, cols]).map_err(|malformed| lines.error(malformed.to_string()))?;
    // Of a symmetric matrix each column starts at the diagonal, or below it.
    let skipped = |j: usize| match symmetry {
        Symmetry::General => 0,
        Symmetry::Symmetric => j,
        Symmetry::Skew => j + 1,
    };
    let mut given = Vec::new();
    let claimed = match symmetry {
        Symmetry::General => total,
        Symmetry::Symmetric => total - (total - rows) / 2,
        Symmetry::Skew => (total - rows) / 2,
    };
    while let Some(line) = lines.next_content('%')? {
        for word in line.split_whitespace() {
            if given.len() == claimed {
                return Err(lines.error(format!("the header claims {claimed} numbers, here is another one")));
            }
            given.push(value(word, field).map_err(|m| lines.error(m))?);
        }
    }
    if given.len() != claimed {
        return Err(lines.error(format!("the header claims {claimed} numbers, the file has {}", given.len())));
    }
    let mut dense = Dense::zeros(&[rows, cols]).map_err(|malformed| lines.error(malformed.to_string()))?;
    let elements = dense.data_mut();
    let mut given = given.into_iter();
    if total > 0 {
        for j in 0..cols {
            for (i, x) in (skipped(j)..rows).zip(&mut given) {
                elements[i * cols + j] = x;
                match symmetry {
                    Symmetry::General => {}
                    Symmetry::Symmetric => elements[j * cols + i] = x,
                    Symmetry::Skew => elements[j * cols + i] = -x,
                }
            }
        }
    }
    Ok(FileValue::Dense(dense))
}

/// Writes a matrix or a relation of pairs, always as `general`.
///
/// # Errors
/// If the value is not a matrix.
pub fn format(subject: &str, value: &FileValue) -> Result<Vec<u8>> {
    let not_a_matrix = || Error::data(subject, "a MatrixMarket file holds matrices and relations of pairs only");
    let mut text = String::new();
    // Writing to a string does not fail.
    match value {
        FileValue::Csr(csr) => {
            let _ = writeln!(text, "%%MatrixMarket matrix coordinate real general");
            let _ = writeln!(text, "{} {} {}", csr.rows(), csr.cols(), csr.data().len());
            for ((i, j), x) in csr.pattern().entries().zip(csr.data()) {
                let _ = writeln!(text, "{} {} {}", i + 1, j + 1, write_real(*x));
            }
        }
        FileValue::Coo(coo) => {
            let &[rows, cols] = coo.shape() else { return Err(not_a_matrix()) };
            let _ = writeln!(text, "%%MatrixMarket matrix coordinate real general");
            let _ = writeln!(text, "{rows} {cols} {}", coo.data().len());
            let places = coo.pattern().column(0).iter().zip(coo.pattern().column(1));
            for ((i, j), x) in places.zip(coo.data()) {
                let _ = writeln!(text, "{} {} {}", i + 1, j + 1, write_real(*x));
            }
        }
        FileValue::Relation(relation) => {
            let &[rows, cols] = relation.shape() else { return Err(not_a_matrix()) };
            let _ = writeln!(text, "%%MatrixMarket matrix coordinate pattern general");
            let _ = writeln!(text, "{rows} {cols} {}", relation.len());
            for (i, j) in relation.column(0).iter().zip(relation.column(1)) {
                let _ = writeln!(text, "{} {}", i + 1, j + 1);
            }
        }
        FileValue::Dense(dense) | FileValue::Row(dense) | FileValue::Column(dense) => {
            let &[rows, cols] = dense.shape() else { return Err(not_a_matrix()) };
            let _ = writeln!(text, "%%MatrixMarket matrix array real general");
            let _ = writeln!(text, "{rows} {cols}");
            for j in 0..if rows == 0 { 0 } else { cols } {
                for row in dense.data().chunks_exact(cols) {
                    let _ = writeln!(text, "{}", write_real(row[j]));
                }
            }
        }
        FileValue::Archive(_) => return Err(not_a_matrix()),
    }
    Ok(text.into_bytes())
}

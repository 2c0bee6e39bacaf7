//! Coordinate text, as of the FROSTT collection of sparse tensors.
//!
//! ```text
//! # shape: 3 4 2        optional; without it an axis is as long as its largest coordinate
//! 1 1 1 0.5             coordinates count from one, then the value
//! 3 4 2 -1
//! ```
//! With a shape the value may be missing, in all lines: the file then holds a relation. Comments start with `#`.
//! A place that occurs twice is refused.

use std::fmt::Write;
use std::sync::Arc;

use super::FileValue;
use super::mtx::sort_entries;
use super::text::{Lines, coordinate, count, real, write_real};
use crate::error::{Error, Result};
use crate::tensor::{Coo, Relation};
use crate::ty::Types;

/// Reads a file: a sparse tensor, or a relation where the entries have no values.
///
/// # Errors
/// The first problem, with its line.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<FileValue> {
    parse_with_shape(subject, bytes).map(|(value, _)| value)
}

/// What a file holds, and its shape where that follows from the coordinates alone.
pub(super) fn parse_with_shape(subject: &str, bytes: &[u8]) -> Result<(FileValue, Option<Vec<usize>>)> {
    let mut lines = Lines::new(subject, bytes);
    let mut shape: Option<Vec<usize>> = None;
    // For the first entry: the number of coordinates, and whether a value follows.
    let mut layout: Option<(usize, bool)> = None;
    let mut columns: Vec<Vec<usize>> = Vec::new();
    let (mut data, mut at) = (Vec::new(), Vec::new());
    while let Some(line) = lines.next()? {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(lengths) = comment.trim_start().strip_prefix("shape:") {
                if shape.is_some() || layout.is_some() {
                    return Err(lines.error("the shape is given once, before the first entry"));
                }
                let lengths = lengths.split_whitespace().map(count).collect::<std::result::Result<Vec<usize>, _>>();
                shape = Some(lengths.map_err(|m| lines.error(m))?);
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let words = line.split_whitespace().count();
        let (rank, valued) = match (layout, &shape) {
            (Some(layout), _) => layout,
            (None, Some(shape)) => (shape.len(), words > shape.len()),
            (None, None) => (words - 1, true),
        };
        let expected = rank + usize::from(valued);
        if words != expected {
            return Err(lines.error(format!("expected {expected} numbers, found {words}")));
        }
        if rank == 0 || rank > Types::MAX_RANK {
            let most = Types::MAX_RANK;
            return Err(lines.error(format!("expected 1 to {most} coordinates, found {rank}")));
        }
        if layout.is_none() {
            layout = Some((rank, valued));
            columns = vec![Vec::new(); rank];
        }
        let mut words = line.split_whitespace();
        for (axis, column) in columns.iter_mut().enumerate() {
            let length = shape.as_ref().and_then(|s| s.get(axis)).copied().unwrap_or(i64::MAX as usize);
            let word = words.next().unwrap_or_default();
            column.push(coordinate(word, "coordinate", length).map_err(|m| lines.error(m))?);
        }
        if valued {
            data.push(real(words.next().unwrap_or_default()).map_err(|m| lines.error(m))?);
        }
        at.push(lines.number());
    }
    let found: Option<Vec<usize>> = match shape {
        Some(_) => None,
        None => layout.map(|_| columns.iter().map(|c| length_of(c)).collect()),
    };
    let Some(shape) = shape.or_else(|| found.clone()) else {
        return Err(Error::data(subject, "this file has neither entries nor a `# shape:`"));
    };
    let (_, valued) = layout.unwrap_or((shape.len(), true));
    columns.resize(shape.len(), Vec::new());
    let (pattern, order) = sort_entries(subject, shape, columns, &at)?;
    if !valued {
        return Ok((FileValue::Relation(pattern), found));
    }
    let data = order.iter().map(|&k| data[k]).collect();
    let coo = Coo::with_pattern(Arc::new(pattern), data).map_err(|malformed| malformed.of(subject))?;
    Ok((FileValue::Coo(coo), found))
}

/// One more than the largest coordinate, which is below `i64::MAX`.
fn length_of(column: &[usize]) -> usize {
    column.iter().max().map_or(0, |k| k + 1)
}

/// Writes a sparse tensor or a relation with its shape.
///
/// # Errors
/// If the value is dense.
pub fn format(subject: &str, value: &FileValue) -> Result<Vec<u8>> {
    let owned;
    let (relation, data): (&Relation, Option<&[f64]>) = match value {
        FileValue::Relation(relation) => (relation, None),
        FileValue::Coo(coo) => (coo.pattern(), Some(coo.data())),
        FileValue::Csr(csr) => {
            owned = csr.pattern().relation().clone();
            (&owned, Some(csr.data()))
        }
        FileValue::Dense(_) | FileValue::Row(_) | FileValue::Column(_) | FileValue::Archive(_) => {
            return Err(Error::data(subject, "a coordinate file holds sparse tensors and relations only"));
        }
    };
    let mut text = String::from("# shape:");
    // Writing to a string does not fail.
    for length in relation.shape() {
        let _ = write!(text, " {length}");
    }
    text.push('\n');
    for (entry, tuple) in relation.tuples().enumerate() {
        for (axis, k) in tuple.iter().enumerate() {
            let _ = write!(text, "{}{}", if axis == 0 { "" } else { " " }, k + 1);
        }
        if let Some(x) = data.and_then(|data| data.get(entry)) {
            let _ = write!(text, " {}", write_real(*x));
        }
        text.push('\n');
    }
    Ok(text.into_bytes())
}

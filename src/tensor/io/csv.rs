//! Comma separated numbers.
//!
//! One column is a vector, more are a matrix, also if there is one row only. The first line is a header if no field of it is a
//! number. All lines have as many fields as the first; empty lines are skipped.

use super::text::{error_at, excerpt, real, write_real};
use crate::error::{Error, Result};
use crate::tensor::Dense;

/// Reads a vector or a matrix.
///
/// # Errors
/// The first problem, with its line and column.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<Dense> {
    let trim = csv::Trim::All;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(trim).from_reader(bytes);
    let mut record = csv::ByteRecord::new();
    let (mut width, mut height) = (None, 0usize);
    let mut data = Vec::new();
    let mut first = true;
    loop {
        let more = reader.read_byte_record(&mut record);
        if !more.map_err(|e| Error::data(subject, format!("this is no table: {e}")))? {
            break;
        }
        let line = record.position().map_or(0, |start| line_of(start, bytes));
        let start = data.len();
        let mut problem = None;
        for (k, field) in record.iter().enumerate() {
            let number = match std::str::from_utf8(field) {
                Ok(text) => real(text),
                Err(_) => {
                    let text = excerpt(&String::from_utf8_lossy(field));
                    return Err(error_at(subject, line, format!("column {}: `{text}` is not UTF-8 text", k + 1)));
                }
            };
            match number {
                Ok(x) => data.push(x),
                Err(message) => problem = problem.or(Some(format!("column {}: {message}", k + 1))),
            }
        }
        let named = record.iter().any(|field| !field.is_empty());
        let header = std::mem::take(&mut first) && named && data.len() == start;
        match problem {
            Some(message) if !header => return Err(error_at(subject, line, message)),
            _ => {}
        }
        match width {
            Some(width) if width != record.len() => {
                let message = format!("expected {width} fields as in the first line, found {}", record.len());
                return Err(error_at(subject, line, message));
            }
            _ => width = Some(record.len()),
        }
        height += usize::from(!header);
    }
    let shape = match width {
        None => return Err(Error::data(subject, "this file is empty")),
        Some(1) => vec![height],
        Some(width) => vec![height, width],
    };
    Dense::new(&shape, data).map_err(|malformed| malformed.of(subject))
}

/// The line of a record; the library counts from the blank lines before it.
fn line_of(start: &csv::Position, bytes: &[u8]) -> u64 {
    let rest = usize::try_from(start.byte()).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
    let blank = rest.iter().take_while(|b| matches!(b, b'\r' | b'\n')).filter(|b| **b == b'\n').count();
    start.line() + blank as u64
}

/// Writes a number, a vector or a matrix. A number and a matrix of one column are read back as vectors; where there are no rows, a
/// header tells the columns.
///
/// # Errors
/// If there are more than two axes, or no columns.
pub fn format(subject: &str, dense: &Dense) -> Result<Vec<u8>> {
    let (rows, width) = match *dense.shape() {
        [] => (1, 1),
        [rows] => (rows, 1),
        [_, 0] => return Err(Error::data(subject, "a table without columns cannot be written")),
        [rows, width] => (rows, width),
        ref shape => return Err(Error::data(subject, format!("a table has at most 2 axes, found {}", shape.len()))),
    };
    let mut text = String::new();
    if rows == 0 {
        // Too wide a header would not be the table's fault but ours.
        let names: Vec<String> = (0..width.min(1 << 20)).map(|k| format!("c{k}")).collect();
        if names.len() < width {
            return Err(Error::data(subject, format!("a table of {width} columns and no rows cannot be written")));
        }
        text = names.join(",") + "\n";
    }
    for row in dense.data().chunks_exact(width) {
        let fields: Vec<String> = row.iter().map(|&x| write_real(x)).collect();
        text += &fields.join(",");
        text.push('\n');
    }
    Ok(text.into_bytes())
}

//! Comma separated numbers.
//!
//! One column is a vector, more are a matrix, also if there is one row only. All lines have as many fields as the first.
//!
//! *Nothing is dropped in silence.* The first line is a header if it has a name and no field that is meant as a number: one that starts,
//! but for signs, with a digit. So `1.5e` and `0x10` are numbers that are wrong, and neither is a name what stands for a missing number,
//! such as `NA`. Who reads is told of the header ([`Table::header`]). A blank line is an error, for in a column it may be a number that
//! is missing; after the last line there may be some.

use super::text::{error_at, excerpt, real, write_real};
use crate::error::{Error, Result};
use crate::tensor::Dense;

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The fields of the first line, where it was taken for a header.
    pub header: Option<Vec<String>>,
    /// The numbers.
    pub numbers: Dense,
}

/// Reads a vector or a matrix.
///
/// # Errors
/// The first problem, with its line and column.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<Table> {
    if let Some((line, message)) = misquoted(bytes) {
        return Err(error_at(subject, line, message));
    }
    let trim = csv::Trim::All;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(trim).from_reader(bytes);
    let mut record = csv::ByteRecord::new();
    let (mut width, mut height, mut header) = (None, 0usize, None);
    let mut data = Vec::new();
    loop {
        let more = reader.read_byte_record(&mut record);
        if !more.map_err(|e| Error::data(subject, format!("this is no table: {e}")))? {
            break;
        }
        let (line, blank) = record.position().map_or((0, false), |start| line_of(start, bytes));
        if blank {
            let message =
                "this line is blank; a line holds as many numbers as the others, and blank lines come last only";
            return Err(error_at(subject, line, message));
        }
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
                Err(message) => {
                    let apart = if is_several(field) { "; numbers are set apart by commas" } else { "" };
                    problem = problem.or(Some(format!("column {}: {message}{apart}", k + 1)));
                }
            }
        }
        let is_header = width.is_none() && data.len() == start && names(&record);
        match problem {
            Some(_) if is_header => {
                header = Some(record.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect());
            }
            Some(message) => return Err(error_at(subject, line, message)),
            None => {}
        }
        match width {
            Some(width) if width != record.len() => {
                let message = format!("expected {width} fields as in the first line, found {}", record.len());
                return Err(error_at(subject, line, message));
            }
            _ => width = Some(record.len()),
        }
        height += usize::from(!is_header);
    }
    let shape = match width {
        None => return Err(Error::data(subject, "this file is empty")),
        Some(1) => vec![height],
        Some(width) => vec![height, width],
    };
    let numbers = Dense::new(&shape, data).map_err(|malformed| malformed.of(subject))?;
    Ok(Table { header, numbers })
}

/// The line on which a quoted field has something behind its closing quote, or begins and has none: what reads tables would make one field of both.
fn misquoted(bytes: &[u8]) -> Option<(u64, &'static str)> {
    if !bytes.contains(&b'"') {
        return None;
    }
    let (mut line, mut begins) = (1, true);
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'"' || !begins {
            line += u64::from(byte == b'\n');
            begins = matches!(byte, b',' | b'\n' | b'\r');
            continue;
        }
        let opened = line;
        loop {
            match rest.next() {
                None => return Some((opened, "a quote is opened here and not closed")),
                Some(b'"') if rest.peek() == Some(&b'"') => drop(rest.next()),
                Some(b'"') => break,
                Some(byte) => line += u64::from(byte == b'\n'),
            }
        }
        while rest.next_if(|byte| matches!(byte, b' ' | b'\t')).is_some() {}
        if !matches!(rest.peek(), None | Some(b',' | b'\n' | b'\r')) {
            return Some((line, "behind a closing quote there is a comma or the end of the line"));
        }
        begins = false;
    }
    None
}

/// Whether a field holds numbers that are set apart by other signs than commas.
fn is_several(field: &[u8]) -> bool {
    let mut parts = field.split(|byte| matches!(byte, b';' | b'\t' | b' ')).filter(|part| !part.is_empty());
    let starts_number =
        |part: &[u8]| part.first().is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.'));
    field.contains(&b';') || parts.next().is_some_and(starts_number) && parts.next().is_some_and(starts_number)
}

/// Whether a line without numbers names columns: it has a name, and no field that is meant as a number. Names may be missing.
fn names(record: &csv::ByteRecord) -> bool {
    // What other programs write for a number that is missing.
    const MISSING: [&str; 8] = ["na", "n/a", "#n/a", "<na>", "null", "none", "nil", "missing"];
    let mut named = false;
    for field in record.iter().filter(|field| !field.is_empty()) {
        let text = String::from_utf8_lossy(field);
        // A quote that is not closed takes in all lines that follow.
        if text.contains(['\n', '\r']) {
            return false;
        }
        match text.chars().find(|c| c.is_alphanumeric()) {
            Some(first) if first.is_numeric() => return false,
            Some(_) => named |= !MISSING.contains(&text.to_ascii_lowercase().as_str()),
            None => return false,
        }
    }
    named
}

/// The line that a record is read from, and whether a blank one comes first: then it is that line.
fn line_of(start: &csv::Position, bytes: &[u8]) -> (u64, bool) {
    let at = usize::try_from(start.byte()).unwrap_or(usize::MAX);
    let (before, rest) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
    // The second half of the end of the line before may be left.
    let (left, rest) = match rest {
        [b'\n', rest @ ..] if before.ends_with(b"\r") => (1, rest),
        rest => (0, rest),
    };
    let rest = rest.strip_prefix(b"\xef\xbb\xbf").filter(|_| before.is_empty()).unwrap_or(rest);
    (start.line() + left, matches!(rest, [b'\r' | b'\n', ..]))
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

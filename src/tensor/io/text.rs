//! Lines and numbers of text formats.

use crate::error::{Error, Result};

/// The lines of a text file, numbered from one; `\r\n` ends a line too.
pub(super) struct Lines<'a> {
    subject: &'a str,
    rest: &'a [u8],
    number: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(subject: &'a str, bytes: &'a [u8]) -> Self {
        // Editors of some systems mark UTF-8 files.
        Lines { subject, rest: bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes), number: 0 }
    }

    /// The next line.
    pub(super) fn next(&mut self) -> Result<Option<&'a str>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let end = self.rest.iter().position(|&b| b == b'\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or(&[]);
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Some(line.trim_end_matches('\r'))),
            Err(_) => Err(self.error("this line is not UTF-8 text")),
        }
    }

    /// The next line that is not blank and no comment.
    pub(super) fn next_content(&mut self, comment: char) -> Result<Option<&'a str>> {
        while let Some(line) = self.next()? {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with(comment) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// The number of the last line that was returned.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// An error in the last line that was returned.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        error_at(self.subject, self.number, message)
    }
}

/// An error in a line.
pub(super) fn error_at(subject: &str, line: u64, message: impl Into<String>) -> Error {
    Error::data(format!("{subject}, line {line}"), message)
}

/// Text of a file as part of a message: escaped, and not much of it.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 32;
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(MOST).flat_map(char::escape_debug).collect();
    if chars.next().is_some() { format!("{start}..") } else { start }
}

/// A real number; `nan` and `inf` are among them.
pub(super) fn real(text: &str) -> std::result::Result<f64, String> {
    let x: f64 = text.parse().map_err(|_| match text {
        "" => "expected a number, found nothing".to_string(),
        _ => format!("expected a number, found `{}`", excerpt(text)),
    })?;
    if x.is_infinite() && text.bytes().any(|b| b.is_ascii_digit()) {
        return Err(format!("`{}` is beyond the range of 64-bit floats", excerpt(text)));
    }
    Ok(x)
}

/// An integer that a float holds exactly.
pub(super) fn integer(text: &str) -> std::result::Result<f64, String> {
    let k: i64 = text.parse().map_err(|_| format!("expected an integer, found `{}`", excerpt(text)))?;
    exact(k).ok_or_else(|| format!("{k} has no exact value as a 64-bit float"))
}

/// An integer as a float, if nothing is lost.
pub(super) fn exact(k: impl Into<i128>) -> Option<f64> {
    let k: i128 = k.into();
    let x = k as f64;
    (x as i128 == k).then_some(x)
}

/// A count or a length.
pub(super) fn count(text: &str) -> std::result::Result<usize, String> {
    match text.parse::<u64>() {
        Ok(n) if i64::try_from(n).is_ok() => {
            usize::try_from(n).map_err(|_| format!("{n} is beyond the range of lengths"))
        }
        Ok(n) => Err(format!("{n} is beyond the range of lengths")),
        Err(_) => Err(format!("expected a length, found `{}`", excerpt(text))),
    }
}

/// A coordinate that counts from one, within a length; the result counts from zero.
pub(super) fn coordinate(text: &str, axis: &str, length: usize) -> std::result::Result<usize, String> {
    let k: i128 = text.parse().map_err(|_| format!("expected a {axis}, found `{}`", excerpt(text)))?;
    if k < 1 {
        return Err(format!("a {axis} counts from 1, found {k}"));
    }
    if k > length as i128 {
        return Err(format!("{axis} {k} is beyond the length {length}"));
    }
    usize::try_from(k - 1).map_err(|_| format!("{axis} {k} is beyond the range of lengths"))
}

/// A float so that it is read back with the same bits, save those of a NaN.
pub(super) fn write_real(x: f64) -> String {
    format!("{x:?}")
}

//! The `.npz` archives of NumPy: zipped `.npy` files.
//!
//! An archive with a text `format` among them is a matrix as `scipy.sparse.save_npz` writes it, in the format csr, csc or coo: with its `shape`, its numbers,
//! `data`, and where they stand, `indices` and `indptr` or `row` and `col`. Entries are in any order; a place that is given twice is an error, since SciPy
//! would add what stands there and a pattern would be counted twice.
//!
//! Deflate expands a byte to at most 1032, so an archive that holds more than that for each of its own bytes has entries that
//! overlap, and is refused as soon as it is noticed; the sizes that the archive claims are not used.
//!
//! Of entries with the same name the library keeps the last. So the directory of the archive is read for its names, and one that occurs
//! twice is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};

use ndarray_npy::NpzWriter;
use zip::ZipArchive;

use super::text::excerpt;
use super::{FileValue, npy, place};
use crate::error::{Error, Result};
use crate::tensor::{Coo, Csr, Dense};

/// The most that deflate expands.
const MAX_EXPANSION: u64 = 1032;

/// Reads an archive: tensors by their names, without the extension `.npy`, or one sparse matrix.
///
/// # Errors
/// If the archive is damaged, or holds something other than tensors, or a sparse matrix that is none.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<FileValue> {
    let damaged = |e: &dyn std::fmt::Display| Error::data(subject, format!("the archive is damaged: {e}"));
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| damaged(&e))?;
    if let Some(name) = name_given_twice(bytes, archive.central_directory_start(), archive.len()) {
        return Err(Error::data(subject, format!("the archive holds `{}` twice", excerpt(&name))));
    }
    let mut left = (bytes.len() as u64).saturating_mul(MAX_EXPANSION);
    let mut tensors = BTreeMap::new();
    let mut format = None;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|e| damaged(&e))?;
        let Some(name) = entry.name().strip_suffix(".npy").map(str::to_string) else {
            let name = excerpt(entry.name());
            return Err(Error::data(subject, format!("expected .npy files in the archive, found `{name}`")));
        };
        let mut contents = Vec::new();
        entry.take(left + 1).read_to_end(&mut contents).map_err(|e| damaged(&e))?;
        left = left.checked_sub(contents.len() as u64).ok_or_else(|| damaged(&"its entries overlap"))?;
        if let Some(text) = npy::text(&contents).filter(|_| name == "format") {
            format = Some(text);
            continue;
        }
        let dense = npy::parse(&format!("{subject}, entry {}", excerpt(&name)), &contents)?;
        tensors.insert(name, dense);
    }
    match format {
        None => Ok(FileValue::Archive(tensors)),
        Some(format) => sparse(subject, &format, &tensors),
    }
}

/// The matrix that SciPy saved.
fn sparse(subject: &str, format: &str, entries: &BTreeMap<String, Dense>) -> Result<FileValue> {
    let entry = |name: &str| {
        let found = entries.get(name).filter(|dense| dense.shape().len() == 1);
        let missing =
            || format!("expected a list `{name}` in the archive of a matrix in the format {}", excerpt(format));
        found.map(Dense::data).ok_or_else(|| Error::data(subject, missing()))
    };
    let places = |name: &str| {
        let wrong = || Error::data(subject, format!("entry {name}: expected integers that are not negative"));
        entry(name)?.iter().map(place).collect::<Option<Vec<usize>>>().ok_or_else(wrong)
    };
    let shape = places("shape")?;
    let &[rows, cols] = shape.as_slice() else {
        return Err(Error::data(subject, format!("expected a matrix, found a shape of {} axes", shape.len())));
    };
    let data = entry("data")?;
    let matrix = |columns: [Vec<usize>; 2]| {
        Coo::from_unsorted(shape.clone(), columns.into(), data).map_err(|malformed| malformed.of(subject))
    };
    match format {
        "csr" => {
            let coo = matrix([along(subject, rows, &places("indptr")?, data.len())?, places("indices")?])?;
            // As many rows as the file has offsets.
            Ok(FileValue::Csr(Csr::from_coo(&coo).map_err(|malformed| malformed.of(subject))?))
        }
        "csc" => {
            let columns = along(subject, cols, &places("indptr")?, data.len())?;
            Ok(FileValue::Coo(matrix([places("indices")?, columns])?))
        }
        "coo" => Ok(FileValue::Coo(matrix([places("row")?, places("col")?])?)),
        other => {
            let other = excerpt(other);
            let message =
                format!("expected a matrix in the format csr, csc or coo, found {other}; `.tocsr()` makes it one");
            Err(Error::data(subject, message))
        }
    }
}

/// The row, or column, of each entry from the offsets of all rows.
fn along(subject: &str, rows: usize, offsets: &[usize], entries: usize) -> Result<Vec<usize>> {
    let ends = offsets.first() == Some(&0) && offsets.last() == Some(&entries) && offsets.is_sorted();
    if !ends || offsets.len() - 1 != rows {
        let message = format!("entry indptr: expected {rows} offsets and one more, which grow from 0 to {entries}");
        return Err(Error::data(subject, message));
    }
    let lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
    Ok(lengths.enumerate().flat_map(|(row, length)| std::iter::repeat_n(row, length)).collect())
}

/// A name that the directory of an archive has twice, of one that was opened and has so many distinct names.
fn name_given_twice(bytes: &[u8], start: u64, distinct: usize) -> Option<String> {
    const SIGNATURE: &[u8] = b"PK\x01\x02";
    const FIXED: usize = 46;
    let mut rest = bytes.get(usize::try_from(start).ok()?..)?;
    let mut names = BTreeSet::new();
    while let (true, Some(fixed)) = (rest.starts_with(SIGNATURE), rest.first_chunk::<FIXED>()) {
        let length = |at: usize| usize::from(u16::from_le_bytes([fixed[at], fixed[at + 1]]));
        let (name, extra, comment) = (length(28), length(30), length(32));
        let name = rest.get(FIXED..FIXED + name)?;
        if !names.insert(name) {
            let name = String::from_utf8_lossy(name);
            return Some(name.strip_suffix(".npy").unwrap_or(&name).to_string());
        }
        rest = rest.get(FIXED + name.len() + extra + comment..)?;
    }
    // Spellings in bytes that the library takes for one name.
    (names.len() > distinct).then(|| "a name".to_string())
}

/// Writes an archive, not compressed.
///
/// # Errors
/// If there is no memory for it.
pub fn format(subject: &str, tensors: &BTreeMap<String, Dense>) -> Result<Vec<u8>> {
    let failed = |e: &dyn std::fmt::Display| Error::data(subject, format!("this file cannot be written: {e}"));
    let mut writer = NpzWriter::new(Cursor::new(Vec::new()));
    for (name, dense) in tensors {
        match dense.single_view() {
            Some(single) => writer.add_array(name.as_str(), &single),
            None => writer.add_array(name.as_str(), &dense.view()),
        }
        .map_err(|e| failed(&e))?;
    }
    Ok(writer.finish().map_err(|e| failed(&e))?.into_inner())
}

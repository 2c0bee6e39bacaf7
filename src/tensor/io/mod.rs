//! File formats, read with complete validation.
//!
//! | extension | format | holds |
//! |---|---|---|
//! | `.npy` | [`npy`] | a dense tensor |
//! | `.npz` | [`npz`] | named dense tensors, or a sparse matrix of SciPy |
//! | `.mtx` | [`mtx`]: MatrixMarket | a sparse matrix, a relation of pairs, a dense matrix |
//! | `.tns` | [`tns`]: coordinate text as of the FROSTT collection | a sparse tensor or a relation of any rank, a map |
//! | `.csv` | [`csv`] | a dense vector or matrix |
//!
//! *A header is a claim, not a fact*: memory is allocated for what was read, and a claim is compared with it. What does not
//! fit is an [`Error::Data`] whose subject names the file and, in text formats, the line. Numbers that a float cannot hold
//! (`1e999`, an integer beyond 2^53 that would be rounded) are refused; `nan` and `inf` are values. Nothing that a file gives is dropped in
//! silence: names, places and shapes are given once, and [`read_value_and_notes`] says which line was taken for a header.

pub mod csv;
pub mod mtx;
pub mod npy;
pub mod npz;
mod text;
pub mod tns;
mod whole;

use std::collections::BTreeMap;
use std::path::Path;

use super::{Coo, Csc, Csr, Dense, Inputs, Malformed, Relation, Tensor, Value};
use crate::error::{Error, Result};
use crate::ty::{Format, Param, RelationKind, Signature, Storage, is_part, leaf_name};

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub enum FileValue {
    /// A dense tensor.
    Dense(Dense),
    /// The matrix of a table of one line, which may be meant as a vector.
    Row(Dense),
    /// The vector of a table of one column, which may be meant as a matrix.
    Column(Dense),
    /// A sparse matrix.
    Csr(Csr),
    /// A sparse tensor.
    Coo(Coo),
    /// A relation: places without values.
    Relation(Relation),
    /// Dense tensors by name.
    Archive(BTreeMap<String, Dense>),
}

impl FileValue {
    /// What it is, for messages.
    fn description(&self) -> &'static str {
        match self {
            FileValue::Dense(_) | FileValue::Row(_) | FileValue::Column(_) => "a dense tensor",
            FileValue::Csr(_) => "a sparse matrix",
            FileValue::Coo(_) => "a sparse tensor",
            FileValue::Relation(_) => "a relation",
            FileValue::Archive(_) => "an archive",
        }
    }

    fn mismatch(&self, subject: &str, wanted: &str) -> Error {
        Error::data(subject, format!("expected {wanted}, found {}", self.description()))
    }

    /// The dense tensor that the file holds. Sparse tensors are not filled up silently.
    ///
    /// # Errors
    /// If it holds something else.
    pub fn into_dense(self, subject: &str) -> Result<Dense> {
        match self {
            FileValue::Dense(dense) | FileValue::Row(dense) | FileValue::Column(dense) => Ok(dense),
            other => Err(other.mismatch(subject, "a dense tensor (.npy, .csv)")),
        }
    }

    /// The sparse matrix that the file holds.
    ///
    /// # Errors
    /// If it holds something else, or far more rows than entries: see [`csr_from_file`].
    pub fn into_csr(self, subject: &str) -> Result<Csr> {
        match self {
            FileValue::Csr(csr) => Ok(csr),
            FileValue::Coo(coo) => csr_from_file(&coo, subject),
            other => Err(other.mismatch(subject, "a sparse matrix (.mtx, .tns, or .npz of SciPy)")),
        }
    }

    /// The sparse tensor that the file holds.
    ///
    /// # Errors
    /// If it holds something else.
    pub fn into_coo(self, subject: &str) -> Result<Coo> {
        match self {
            FileValue::Coo(coo) => Ok(coo),
            FileValue::Csr(csr) => Ok(Coo::from(&csr)),
            other => Err(other.mismatch(subject, "a sparse tensor (.tns, .mtx, or .npz of SciPy)")),
        }
    }

    /// The sparse tensor that the file holds, in a format.
    ///
    /// # Errors
    /// Those of [`FileValue::into_csr`] and [`FileValue::into_coo`]; also for far more columns than entries, of a matrix that is to be stored
    /// column by column.
    pub fn into_sparse(self, format: Format, subject: &str) -> Result<Tensor> {
        Ok(match format {
            Format::Csr => self.into_csr(subject)?.into(),
            Format::Csc => csc_from_file(&self.into_coo(subject)?, subject)?.into(),
            Format::Coo => self.into_coo(subject)?.into(),
        })
    }

    /// The relation that the file holds: itself, the places of a sparse tensor, or the ones of a tensor of zeros and ones.
    ///
    /// # Errors
    /// If it holds something else.
    pub fn into_relation(self, subject: &str) -> Result<Relation> {
        match self {
            FileValue::Relation(relation) => Ok(relation),
            FileValue::Csr(csr) => Ok(Relation::from(&csr)),
            FileValue::Coo(coo) => Ok(Relation::from(&coo)),
            FileValue::Dense(dense) | FileValue::Row(dense) | FileValue::Column(dense) => {
                Relation::from_dense(&dense).map_err(|malformed| malformed.of(subject))
            }
            other => Err(other.mismatch(subject, "a relation (.tns, .mtx, .csv)")),
        }
    }
}

impl From<Tensor> for FileValue {
    fn from(tensor: Tensor) -> Self {
        match tensor {
            Tensor::Dense(dense) => FileValue::Dense(dense),
            Tensor::Csr(csr) => FileValue::Csr(csr),
            // The entries of a file are row by row.
            Tensor::Csc(csc) => FileValue::Coo(Coo::from(&csc)),
            Tensor::Coo(coo) => FileValue::Coo(coo),
        }
    }
}

/// Row by row storage of a matrix that came from a file. Its memory grows with the rows, which a short file can claim in any
/// number, so there may be at most 2^20 and 64 for each entry.
///
/// # Errors
/// If there are more rows, or the tensor is not a matrix.
pub fn csr_from_file(coo: &Coo, subject: &str) -> Result<Csr> {
    let limit = (1usize << 20).saturating_add(coo.data().len().saturating_mul(64));
    match coo.shape() {
        &[rows, _] if rows > limit => {
            let stored = coo.data().len();
            Err(Error::data(subject, format!("{rows} rows with {stored} entries are too many for csr; declare it coo")))
        }
        _ => Csr::from_coo(coo).map_err(|malformed| malformed.of(subject)),
    }
}

/// Column by column storage of a matrix that came from a file. There may be as many columns as [`csr_from_file`] allows rows.
fn csc_from_file(coo: &Coo, subject: &str) -> Result<Csc> {
    let limit = (1usize << 20).saturating_add(coo.data().len().saturating_mul(64));
    match coo.shape() {
        &[_, cols] if cols > limit => {
            let stored = coo.data().len();
            let message = format!("{cols} columns with {stored} entries are too many for csc; declare it coo");
            Err(Error::data(subject, message))
        }
        _ => Csc::from_coo(coo).map_err(|malformed| malformed.of(subject)),
    }
}

impl Inputs {
    /// Gives a parameter or a relation what a file holds, in the format that the program declares, where that loses nothing; a table of one
    /// line serves as a vector, one of one column as a matrix; a dense tensor with the axes of the sources of a map holds its targets; of an archive every tensor by its own name.
    ///
    /// # Errors
    /// If the file holds something of another kind. Unknown names are left to [`bind`](super::bind()).
    pub fn file_value(&mut self, signature: &Signature, name: &str, value: FileValue) -> Result<&mut Self> {
        if let FileValue::Archive(archive) = value {
            for (name, dense) in archive {
                self.file_value(signature, &name, FileValue::Dense(dense))?;
            }
            return Ok(self);
        }
        if let Some(relation) = signature.relations.values().find(|relation| relation.name == name) {
            let sources = (relation.kind == RelationKind::Map).then(|| relation.shape.len().saturating_sub(1));
            return match value {
                FileValue::Row(row) if sources == Some(1) => {
                    Ok(self.map(name, &[row.data().len()], targets(&row, name)?))
                }
                FileValue::Dense(dense) | FileValue::Column(dense) if sources == Some(dense.shape().len()) => {
                    Ok(self.map(name, dense.shape(), targets(&dense, name)?))
                }
                value => Ok(self.relation(name, value.into_relation(name)?)),
            };
        }
        // `ab.0` is a component of `ab`.
        let param = signature.params.values().find(|p| is_part(name, &p.name));
        let storage = param.map_or(Storage::Dense, |p| p.storage);
        Ok(match storage.format() {
            None => match value {
                FileValue::Row(row) if param.and_then(|param| rank(signature, param, name)) == Some(1) => {
                    self.value(name, Value::vector(row.data().to_vec()))
                }
                FileValue::Column(column) if param.and_then(|param| rank(signature, param, name)) == Some(2) => {
                    let rows = column.data().len();
                    let matrix =
                        Dense::new(&[rows, 1], column.data().to_vec()).map_err(|malformed| malformed.of(name))?;
                    self.value(name, Value::from(matrix))
                }
                value => self.value(name, value.into_dense(name)?),
            },
            Some(format) => self.value(name, value.into_sparse(format, name)?),
        })
    }
}

/// The targets of a map, which are given as numbers.
fn targets(dense: &Dense, name: &str) -> Result<Vec<usize>> {
    let target = |(position, value): (usize, &f64)| {
        place(value).ok_or_else(|| Malformed::NoInteger { position, value: *value }.of(name))
    };
    dense.data().iter().enumerate().map(target).collect()
}

/// Beyond this floats skip integers.
const MAX_INTEGER: f64 = (1u64 << 53) as f64;

/// A place that is given as a number, if it is an integer that is not negative.
fn place(x: &f64) -> Option<usize> {
    let is_place = x.fract() == 0.0 && (0.0..=MAX_INTEGER).contains(x);
    usize::try_from(is_place.then_some(*x as u64)?).ok()
}

/// How many axes the component of a parameter has that is called so.
fn rank(signature: &Signature, param: &Param, name: &str) -> Option<usize> {
    let leaves = signature.types.leaves(param.ty).ok()?;
    let leaf = leaves.iter().find(|leaf| leaf_name(&param.name, &leaf.path) == name)?;
    Some(leaf.dims.len())
}

/// Reads a file in the format of its extension. The header of a table is skipped; [`read_value_and_notes`] says so.
///
/// # Errors
/// [`Error::Data`] that names the file, and in text formats the line.
pub fn read_value(path: impl AsRef<Path>) -> Result<FileValue> {
    read_value_and_notes(path, &mut Vec::new())
}

/// Reads a file in the format of its extension, and adds to `notes` what of it was taken for no data, a sentence for people each.
///
/// # Errors
/// Those of [`read_value`].
pub fn read_value_and_notes(path: impl AsRef<Path>, notes: &mut Vec<String>) -> Result<FileValue> {
    type Parse = fn(&str, &[u8], &mut Vec<String>) -> Result<FileValue>;
    let path = path.as_ref();
    let subject = path.display().to_string();
    let parse: Parse = match extension(path).as_str() {
        "npy" => |subject, bytes, _| npy::parse(subject, bytes).map(FileValue::Dense),
        "npz" => |subject, bytes, _| npz::parse(subject, bytes),
        "mtx" => |subject, bytes, _| mtx::parse(subject, bytes),
        "tns" => |subject, bytes, notes| {
            let (value, shape) = tns::parse_with_shape(subject, bytes)?;
            if let Some(shape) = shape {
                let shape = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
                notes.push(format!("{subject}: no shape is given, so it is that of the largest coordinates; where the axes are longer, a first line says so, as `# shape: {shape}`"));
            }
            Ok(value)
        },
        "csv" => |subject, bytes, notes| {
            let table = csv::parse(subject, bytes)?;
            if let Some(header) = table.header {
                let header = text::excerpt(&header.join(","));
                notes.push(format!("{subject}: the first line, `{header}`, is taken for a header"));
            }
            Ok(match table.numbers.shape() {
                [1, _] => FileValue::Row(table.numbers),
                [_] => FileValue::Column(table.numbers),
                _ => FileValue::Dense(table.numbers),
            })
        },
        other => return Err(unknown_extension(&subject, other)),
    };
    parse(&subject, &read_bytes(path, &subject)?, notes)
}

/// Writes a file in the format of its extension; what is read back is equal, but that a matrix of one row is a [`FileValue::Row`] of a table,
/// and a vector a [`FileValue::Column`].
///
/// A regular file is written beside its place and then put there, so that at no time a part of it is there, and what was there before
/// stays until the new file is whole.
///
/// # Errors
/// If the format cannot hold the value, or the file cannot be written; then what was there before still is.
pub fn write_value(path: impl AsRef<Path>, value: &FileValue) -> Result<()> {
    let path = path.as_ref();
    let subject = path.display().to_string();
    let bytes = match (extension(path).as_str(), value) {
        ("npy", FileValue::Dense(dense) | FileValue::Row(dense) | FileValue::Column(dense)) => {
            npy::format(&subject, dense)?
        }
        ("npz", FileValue::Archive(archive)) => npz::format(&subject, archive)?,
        ("csv", FileValue::Dense(dense) | FileValue::Row(dense) | FileValue::Column(dense)) => {
            csv::format(&subject, dense)?
        }
        ("mtx", value) => mtx::format(&subject, value)?,
        ("tns", value) => tns::format(&subject, value)?,
        ("npy" | "npz" | "csv", value) => {
            return Err(Error::data(subject, format!("this format does not hold {}", value.description())));
        }
        (other, _) => return Err(unknown_extension(&subject, other)),
    };
    write_whole(path, &bytes)
}

/// Puts bytes where a file was or is to be, as [`write_value`] does.
///
/// # Errors
/// If the file cannot be written; then what was there before still is.
pub fn write_whole(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    let failed = |e| Error::data(path.display().to_string(), format!("this file cannot be written: {e}"));
    whole::write(path, bytes).map_err(failed)
}

fn extension(path: &Path) -> String {
    path.extension().map_or_else(String::new, |e| e.to_string_lossy().to_ascii_lowercase())
}

fn unknown_extension(subject: &str, extension: &str) -> Error {
    let found = if extension.is_empty() { "none".to_string() } else { format!("`.{}`", text::excerpt(extension)) };
    Error::data(subject, format!("expected the extension .npy, .npz, .mtx, .tns or .csv, found {found}"))
}

/// The bytes of a regular file; devices and pipes have no end to rely on.
fn read_bytes(path: &Path, subject: &str) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::data(subject, format!("this file cannot be read: {e}"));
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Error::data(subject, "this is not a regular file"));
    }
    std::fs::read(path).map_err(failed)
}

#[cfg(test)]
mod tests;

//! The `.npy` files of NumPy, through `ndarray-npy`.
//!
//! That library trusts headers: it allocates as many bytes as one claims, and parses nested literals recursively. So before it
//! sees a file, the length of the header is compared with the file and its nesting is bounded; and before it reads the
//! elements, their number is compared with the bytes that follow.
//!
//! Elements are floats of 32 or 64 bits, integers of 8 to 64 bits, or booleans, of either byte order; all are converted to
//! `f64`, and an integer that this would round is refused.

use ndarray::ArrayD;
use ndarray_npy::npy::header::Header;
use ndarray_npy::{ReadNpyExt, ReadableElement, WriteNpyExt};

use super::text::{exact, excerpt};
use crate::error::{Error, Result};
use crate::tensor::{Dense, element_count};

/// Longer headers are refused; NumPy itself refuses those over 10000 bytes.
const MAX_HEADER: usize = 1 << 16;

/// `{'shape': (3, 4)}` nests twice; structured elements, which are refused later, a few times more.
const MAX_NESTING: usize = 8;

/// Reads a dense tensor.
///
/// # Errors
/// If the file is not as its header says, or has elements of another type.
pub fn parse(subject: &str, bytes: &[u8]) -> Result<Dense> {
    let failed = |message: String| Error::data(subject, message);
    let start = check_header(bytes).map_err(failed)?;
    let header = Header::from_reader(&mut &bytes[..]).map_err(|e| failed(format!("the header is malformed: {e}")))?;
    let element = match header.type_descriptor.as_string() {
        Some(element) => element.as_str(),
        None => return Err(failed("the elements are structured, expected numbers".to_string())),
    };
    let count = element_count(&header.shape).map_err(|malformed| malformed.of(subject))?;
    let stored = bytes.len() - start;
    let read = Reader { bytes, count, stored };
    match element {
        "<f8" | ">f8" => {
            let array = read.array::<f64>().map_err(failed)?;
            Dense::from_array(array).map_err(|malformed| malformed.of(subject))
        }
        "<f4" | ">f4" => read.converted(|x: f32| Some(f64::from(x))).map_err(failed),
        "<i8" | ">i8" => read.converted(|x: i64| exact(x)).map_err(failed),
        "<u8" | ">u8" => read.converted(|x: u64| exact(x)).map_err(failed),
        "<i4" | ">i4" => read.converted(|x: i32| exact(x)).map_err(failed),
        "<u4" | ">u4" => read.converted(|x: u32| exact(x)).map_err(failed),
        "<i2" | ">i2" => read.converted(|x: i16| exact(x)).map_err(failed),
        "<u2" | ">u2" => read.converted(|x: u16| exact(x)).map_err(failed),
        "|i1" | "i1" => read.converted(|x: i8| exact(x)).map_err(failed),
        "|u1" | "u1" => read.converted(|x: u8| exact(x)).map_err(failed),
        "|b1" => read.converted(|x: bool| Some(f64::from(u8::from(x)))).map_err(failed),
        other => Err(failed(format!(
            "expected elements of type f8, f4, i8 to i1, u8 to u1 or b1, found `{}`",
            excerpt(other)
        ))),
    }
}

/// The text of a file that holds just one, as bytes or in Unicode; nothing for any other file.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let start = check_header(bytes).ok()?;
    let header = Header::from_reader(&mut &bytes[..]).ok()?;
    let element = header.type_descriptor.as_string()?;
    if !header.shape.is_empty() {
        return None;
    }
    let stored = bytes.get(start..)?;
    let text = match element.as_bytes() {
        [b'|', b'S', ..] => String::from_utf8_lossy(stored).into_owned(),
        [b'<', b'U', ..] => {
            let (characters, _) = stored.as_chunks::<4>();
            characters.iter().filter_map(|code| char::from_u32(u32::from_le_bytes(*code))).collect()
        }
        _ => return None,
    };
    Some(text.trim_end_matches('\0').to_owned())
}

/// Where the elements start.
fn check_header(bytes: &[u8]) -> std::result::Result<usize, String> {
    if !bytes.starts_with(b"\x93NUMPY") {
        return Err("this is no .npy file: it does not start with \\x93NUMPY".to_string());
    }
    let truncated = || "the file ends within its header".to_string();
    let version = bytes.get(6..8).ok_or_else(truncated)?;
    let (start, length) = match version {
        [1, 0] => match bytes.get(8..10) {
            Some(&[a, b]) => (10, usize::from(u16::from_le_bytes([a, b]))),
            _ => return Err(truncated()),
        },
        [2 | 3, 0] => match bytes.get(8..12) {
            Some(&[a, b, c, d]) => (12, u32::from_le_bytes([a, b, c, d]) as usize),
            _ => return Err(truncated()),
        },
        _ => return Err(format!("expected .npy version 1.0, 2.0 or 3.0, found {}.{}", version[0], version[1])),
    };
    if length > MAX_HEADER {
        return Err(format!("the header claims {length} bytes, the limit is {MAX_HEADER}"));
    }
    let header = bytes.get(start..start + length).ok_or_else(truncated)?;
    let mut nesting = 0usize;
    for byte in header {
        match byte {
            b'(' | b'[' | b'{' => nesting += 1,
            b')' | b']' | b'}' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        if nesting > MAX_NESTING {
            return Err("the header is malformed: it nests too deep".to_string());
        }
    }
    Ok(start + length)
}

struct Reader<'a> {
    bytes: &'a [u8],
    count: usize,
    stored: usize,
}

impl Reader<'_> {
    fn array<T: ReadableElement>(&self) -> std::result::Result<ArrayD<T>, String> {
        let (count, width) = (self.count, size_of::<T>());
        if count.checked_mul(width) != Some(self.stored) {
            let stored = self.stored;
            return Err(format!("the header claims {count} elements of {width} bytes, {stored} bytes follow"));
        }
        ArrayD::<T>::read_npy(self.bytes).map_err(|e| format!("the elements cannot be read: {e}"))
    }

    fn converted<T: ReadableElement + Copy>(
        &self,
        convert: impl Fn(T) -> Option<f64>,
    ) -> std::result::Result<Dense, String> {
        let array = self.array::<T>()?;
        let mut data = Vec::with_capacity(self.count);
        // In row-major order, whatever the order in the file.
        for (position, &x) in array.iter().enumerate() {
            data.push(convert(x).ok_or_else(|| format!("element {position} has no exact value as a 64-bit float"))?);
        }
        Dense::new(array.shape(), data).map_err(|malformed| malformed.to_string())
    }
}

/// Writes a dense tensor as floats in row-major order, of 64 bits or, in single precision, of 32.
///
/// # Errors
/// If there is no memory for it.
pub fn format(subject: &str, dense: &Dense) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match dense.single_view() {
        Some(single) => single.write_npy(&mut bytes),
        None => dense.view().write_npy(&mut bytes),
    }
    .map_err(|e| Error::data(subject, format!("this file cannot be written: {e}")))?;
    Ok(bytes)
}

//! stub
use crate::error::{Error, Result};
/// stub
pub fn present(_p: &crate::tssa::Program) -> Result<crate::term::Program> { Err(Error::bug("present", "stub")) }

//! The integration tests, one binary.

mod campaign;
mod errors;
mod generate;
mod support;

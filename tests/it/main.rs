//! The integration tests, one binary.

mod campaign;
mod generate;
mod support;

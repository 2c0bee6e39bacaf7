//! The integration tests, one binary.

mod campaign;
mod examples;
mod generate;
mod support;

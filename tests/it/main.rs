//! The integration tests, one binary.

mod campaign;
mod depth;
mod generate;
mod support;

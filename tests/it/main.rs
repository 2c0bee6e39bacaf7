//! The integration tests, one binary.

mod campaign;
mod derivation;
mod generate;
mod programs;
mod support;

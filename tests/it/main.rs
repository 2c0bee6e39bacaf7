//! The integration tests, one binary.

mod support;

mod campaign;
mod cli;
mod depth;
mod derivation;
mod errors;
mod examples;
mod generate;
mod programs;
